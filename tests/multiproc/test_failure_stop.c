/* A worker is stopped (SIGSTOP) in each kind of moment: it keeps its connections, but is named as
   frozen within seconds, and nothing is left, not even itself. */
#include "tests/multiproc/failure.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_during_a_forward(void **state)
{
    (void)state;
    const sc_failure_case failure = {.who = "rank 1",
                                     .doing = "action 1F0",
                                     .but = "waiting",
                                     .next = "action 1F1",
                                     .signal = SIGSTOP,
                                     .report = "is frozen: step 0, "};
    sc_failure_expect_named(&failure);
}

static void test_during_a_backward(void **state)
{
    (void)state;
    const sc_failure_case failure = {.who = "rank 2",
                                     .doing = "action 2B0",
                                     .but = "waiting",
                                     .next = "action 2F1",
                                     .signal = SIGSTOP,
                                     .report = "is frozen: step 0, "};
    sc_failure_expect_named(&failure);
}

static void test_while_it_waits(void **state)
{
    (void)state;
    const sc_failure_case failure = {.who = "rank 0",
                                     .doing = "action 0B0, waiting for rank 1",
                                     .next = "action 0B0",
                                     .signal = SIGSTOP,
                                     .report = "is frozen: step 0, "};
    sc_failure_expect_named(&failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_during_a_forward),
        cmocka_unit_test(test_during_a_backward),
        cmocka_unit_test(test_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
