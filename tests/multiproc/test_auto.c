/* Schedule auto in a job whose schedule somebody changes while it measures. */
#include "base/status.h"
#include "tests/multiproc/actor.h"
#include "tests/multiproc/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const sc_fleet_job JOB = {
    .schedule = "auto", .p = 2, .m = 4, .steps = 11, .f_ms = 20, .i_ms = 10, .w_ms = 10};

/* Auto would choose after step 7, of which gpipe has had too few by then: the job goes on, as it
   was asked to. */
static void test_swap_while_auto_measures(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    sc_fleet_open(&JOB, &fleet);
    sc_fleet_run(&fleet);
    sc_fleet_await(&fleet, "rank 0", "action", NULL, doing);
    sc_actor *actor = sc_actor_open(fleet.endpoint);
    sc_msg swap = {.type = SC_MSG_CONTROL, .u.control = {.verb = "swap", .argument = "gpipe 6"}};
    sc_actor_send(actor, &swap);
    const sc_msg *reply = sc_actor_expect(actor, SC_MSG_REPLY, SC_FLEET_PATIENCE_MS);
    assert_string_equal(reply->u.reply.text, "gpipe from step 6 on");
    sc_actor_close(&actor);
    sc_proc_expect_exit(fleet.run, 0, SC_FLEET_PATIENCE_MS);
    char *summary = sc_fleet_read(&fleet, "summary.txt");
    assert_non_null(strstr(summary, "gpipe, p = 2, m = 4: 5 steps"));
    free(summary);
    sc_fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swap_while_auto_measures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
