/* Paced runs of every schedule finish, and equal pipelines have equal losses: the message's hash
   chain is checked inside the workers, so a run that ends well routed every message right. A fixed
   sample of p 1..6 and m 1..13; bench/paced_grid.sh runs all sizes. */
#include "schedules/gen.h"
#include "tests/multiproc/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    P_MAX = 6,
    M_MAX = 13,
    STAGES_MAX = 64,
    STEPS = 3
};

typedef struct grid {
    int n_runs;
    bool is_known[STAGES_MAX + 1][M_MAX + 1]; // by stages and microbatches, whatever the layout
    double losses[STAGES_MAX + 1][M_MAX + 1][STEPS];
} grid;

/* One stage takes another word of the hash chain, so the loss depends on their number. */
static int count_stages(const char *schedule, int p, int m)
{
    sc_err err;
    sc_table *table = NULL;
    const sc_gen_params params = {.n_ranks = p, .n_mb = m};
    if (sc_gen_make(schedule, &params, &table, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    int n_stages = table->n_stages;
    sc_table_free(&table);
    assert_in_range(n_stages, 1, STAGES_MAX);
    return n_stages;
}

/* Every schedule and p with one number of microbatches, spread so that each number occurs. */
static bool is_chosen(int schedule, int p, int m)
{
    return m == 1 + (5 * p + schedule) % M_MAX;
}

static bool has_same_bits(const void *losses, const void *others)
{
    return memcmp(losses, others, STEPS * sizeof(double)) == 0;
}

static void check_run(grid *g, const char *schedule, int p, int m)
{
    double losses[SC_FLEET_STEPS_MAX];
    const sc_fleet_job job = {.schedule = schedule, .p = p, .m = m, .steps = STEPS};
    int n_stages = count_stages(schedule, p, m);
    sc_fleet fleet;
    sc_fleet_open(&job, &fleet);
    sc_fleet_run(&fleet);
    if (!sc_proc_wait(fleet.run, SC_FLEET_PATIENCE_MS)) {
        fail_msg("%s, p %d, m %d hangs", schedule, p, m);
    }
    if (sc_proc_exit_code(fleet.run) != 0) {
        fail_msg("%s, p %d, m %d: %s", schedule, p, m, sc_proc_text(fleet.run, SC_PROC_ERR));
    }
    assert_int_equal(sc_fleet_read_losses(&fleet, losses), STEPS);
    if (!g->is_known[n_stages][m]) {
        memcpy(g->losses[n_stages][m], losses, sizeof g->losses[n_stages][m]);
        g->is_known[n_stages][m] = true;
    }
    if (!has_same_bits(g->losses[n_stages][m], losses)) {
        fail_msg("%s, p %d, m %d: losses %.17g ..., but others of %d stages have %.17g ...",
                 schedule, p, m, losses[0], n_stages, g->losses[n_stages][m][0]);
    }
    sc_fleet_close(&fleet);
    g->n_runs++;
}

/* One schedule on p ranks; those with a stage on two ranks are never run, only simulated. */
static void check_row(grid *g, const sc_gen_info *schedule, int index, int p)
{
    for (int m = 1; m <= M_MAX && !schedule->is_replicated; m++) {
        if (is_chosen(index, p, m)) {
            check_run(g, schedule->name, p, m);
        }
    }
}

static void test_every_schedule_finishes(void **state)
{
    grid *g = *state;
    size_t n_schedules = 0;
    const sc_gen_info *list = sc_gen_list(&n_schedules);
    for (int p = 1; p <= P_MAX; p++) {
        for (size_t i = 0; i < n_schedules; i++) {
            check_row(g, &list[i], (int)i, p);
        }
    }
    print_message("%d runs\n", g->n_runs);
    assert_true(g->n_runs > 0);
}

int main(void)
{
    grid *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_every_schedule_finishes, g),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(g);
    return n_failed;
}
