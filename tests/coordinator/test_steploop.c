#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coordinator/steploop.h"

#include <string.h>

static const int64_t second_ns = 1000000000;

typedef struct fixture {
    sc_arena arena;
    sc_steploop loop;
    sc_steploop_effect effect;
    sc_err err;
} fixture;

static void open_loop(fixture *f, int n_ranks, uint64_t n_steps)
{
    sc_arena_init(&f->arena, 0);
    sc_steploop_config config = {.n_ranks = n_ranks, .n_steps = n_steps};
    config.wait_ns = 10 * second_ns;
    config.setup_ns = 60 * second_ns;
    assert_int_equal(sc_steploop_init(&f->loop, &config, &f->arena, &f->err), SC_OK);
}

static void expect(fixture *f, sc_steploop_effect_type type, uint64_t step)
{
    assert_true(sc_steploop_next(&f->loop, &f->effect));
    assert_int_equal(f->effect.type, type);
    assert_int_equal(f->effect.step, step);
}

static void expect_nothing(fixture *f)
{
    assert_false(sc_steploop_next(&f->loop, &f->effect));
}

static void expect_finish(fixture *f, sc_status status, const char *text)
{
    assert_true(sc_steploop_next(&f->loop, &f->effect));
    assert_int_equal(f->effect.type, SC_STEPLOOP_FINISH);
    assert_int_equal(f->effect.status, status);
    assert_string_equal(f->effect.text, text);
    expect_nothing(f);
}

static void answer_all(fixture *f)
{
    for (int r = 0; r < f->loop.config.n_ranks; r++) {
        assert_int_equal(sc_steploop_on_answer(&f->loop, r, 0, &f->err), SC_OK);
    }
}

/* Workers have come, the epoch is set up. */
static void start_training(fixture *f)
{
    sc_steploop_on_workers(&f->loop, f->loop.config.n_ranks, 0);
    expect(f, SC_STEPLOOP_ASSIGN, 0);
    answer_all(f);
    expect(f, SC_STEPLOOP_CONNECT, 0);
    answer_all(f);
}

static void test_whole_job(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 2, 3);
    expect_nothing(&f);
    sc_steploop_on_workers(&f.loop, 1, 0);
    expect_nothing(&f);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    expect(&f, SC_STEPLOOP_STEP, 1);
    expect_nothing(&f); // two are under way
    assert_int_equal(sc_steploop_on_report(&f.loop, 0, 0, &f.err), SC_OK);
    assert_int_equal(sc_steploop_on_report(&f.loop, 0, 1, &f.err), SC_OK);
    expect_nothing(&f);
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 0, &f.err), SC_OK);
    expect(&f, SC_STEPLOOP_STEP_DONE, 0);
    expect(&f, SC_STEPLOOP_STEP, 2);
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 1, &f.err), SC_OK);
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 2, &f.err), SC_OK);
    assert_int_equal(sc_steploop_on_report(&f.loop, 0, 2, &f.err), SC_OK);
    expect(&f, SC_STEPLOOP_STEP_DONE, 1);
    expect(&f, SC_STEPLOOP_STEP_DONE, 2);
    expect_finish(&f, SC_OK, "");
    sc_arena_done(&f.arena);
}

static void test_out_of_turn(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 2, 3);
    assert_int_equal(sc_steploop_on_answer(&f.loop, 0, 0, &f.err), SC_PROTOCOL);
    assert_string_equal(f.err.text, "rank 0 answered out of turn, while waiting");
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 1, &f.err), SC_PROTOCOL);
    assert_string_equal(f.err.text, "rank 1 reported step 1, but step 0 was expected");
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 0, &f.err), SC_OK);
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 0, &f.err), SC_PROTOCOL);
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 1, &f.err), SC_PROTOCOL); // not issued yet
    sc_arena_done(&f.arena);
}

static void test_too_few_workers(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 4, 3);
    sc_steploop_on_workers(&f.loop, 3, 5 * second_ns);
    sc_steploop_tick(&f.loop, 9 * second_ns);
    expect_nothing(&f);
    sc_steploop_tick(&f.loop, 11 * second_ns);
    expect_finish(&f, SC_TIMEOUT,
                  "3 of 4 workers came within 10 s: start 1 more `stagecoach-stage` or raise "
                  "workers.wait_seconds");
    sc_arena_done(&f.arena);
}

static void test_setup_names_the_missing(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 3, 3);
    sc_steploop_on_workers(&f.loop, 3, 5 * second_ns);
    expect(&f, SC_STEPLOOP_ASSIGN, 0);
    assert_int_equal(sc_steploop_on_answer(&f.loop, 1, 6 * second_ns, &f.err), SC_OK);
    sc_steploop_tick(&f.loop, 64 * second_ns);
    expect_nothing(&f);
    sc_steploop_tick(&f.loop, 66 * second_ns);
    expect_finish(&f, SC_TIMEOUT, "no bound data socket from rank 0, 2 within 60 s: see its log");
    sc_arena_done(&f.arena);
}

static void test_first_end_counts(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 1, 3);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    sc_steploop_finish(&f.loop, SC_PEER, "rank 0 is dead");
    sc_steploop_finish(&f.loop, SC_OK, "later");
    assert_int_equal(sc_steploop_on_report(&f.loop, 0, 0, &f.err), SC_OK); // late, of no effect
    expect_finish(&f, SC_PEER, "rank 0 is dead");
    sc_arena_done(&f.arena);
}

static void report_all(fixture *f, uint64_t step)
{
    for (int r = 0; r < f->loop.config.n_ranks; r++) {
        assert_int_equal(sc_steploop_on_report(&f->loop, r, step, &f->err), SC_OK);
    }
}

static void expect_refusal(fixture *f, uint64_t at, sc_status status, const char *text)
{
    assert_int_equal(sc_steploop_swap(&f->loop, at, &f->err), status);
    assert_string_equal(f->err.text, text);
}

/* A new epoch is set up as the first one was. */
static void set_up_again(fixture *f, uint64_t step)
{
    expect(f, SC_STEPLOOP_ASSIGN, step);
    expect_nothing(f);
    answer_all(f);
    expect(f, SC_STEPLOOP_CONNECT, 0);
    answer_all(f);
}

static void test_swap_waits_for_the_steps_before(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 2, 6);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    expect(&f, SC_STEPLOOP_STEP, 1);
    assert_int_equal(sc_steploop_swap(&f.loop, 3, &f.err), SC_OK);
    expect_nothing(&f);
    report_all(&f, 0);
    expect(&f, SC_STEPLOOP_STEP_DONE, 0);
    expect(&f, SC_STEPLOOP_STEP, 2);
    report_all(&f, 1);
    expect(&f, SC_STEPLOOP_STEP_DONE, 1);
    expect_nothing(&f); // there is room for a step, but step 3 is the next epoch's
    assert_int_equal(sc_steploop_on_report(&f.loop, 0, 2, &f.err), SC_OK);
    expect_nothing(&f); // rank 1 still works on step 2
    assert_int_equal(sc_steploop_on_report(&f.loop, 1, 2, &f.err), SC_OK);
    expect(&f, SC_STEPLOOP_STEP_DONE, 2);
    set_up_again(&f, 3);
    expect(&f, SC_STEPLOOP_STEP, 3);
    expect(&f, SC_STEPLOOP_STEP, 4);
    report_all(&f, 3);
    report_all(&f, 4);
    expect(&f, SC_STEPLOOP_STEP_DONE, 3);
    expect(&f, SC_STEPLOOP_STEP_DONE, 4);
    expect(&f, SC_STEPLOOP_STEP, 5);
    report_all(&f, 5);
    expect(&f, SC_STEPLOOP_STEP_DONE, 5);
    expect_finish(&f, SC_OK, "");
    sc_arena_done(&f.arena);
}

/* At the soonest: the steps under way end, and nothing is issued meanwhile. */
static void test_swap_at_the_next_step(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 1, 9);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    assert_int_equal(sc_steploop_swap(&f.loop, f.loop.n_issued, &f.err), SC_OK);
    expect_nothing(&f);
    report_all(&f, 0);
    expect(&f, SC_STEPLOOP_STEP_DONE, 0);
    set_up_again(&f, 1);
    // Before any step of the new epoch: there is nothing to wait for.
    assert_int_equal(sc_steploop_swap(&f.loop, 1, &f.err), SC_OK);
    set_up_again(&f, 1);
    expect(&f, SC_STEPLOOP_STEP, 1);
    sc_arena_done(&f.arena);
}

static void test_refused_swaps_change_nothing(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 1, 5);
    expect_refusal(&f, 2, SC_INVALID, "no swap while waiting: only while training");
    sc_steploop_on_workers(&f.loop, 1, 0);
    expect(&f, SC_STEPLOOP_ASSIGN, 0);
    expect_refusal(&f, 2, SC_INVALID, "no swap while starting: only while training");
    answer_all(&f);
    expect(&f, SC_STEPLOOP_CONNECT, 0);
    answer_all(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    expect(&f, SC_STEPLOOP_STEP, 1);
    static const char EARLY[] = "no swap before step 1: 2 steps are issued and the job has 5; "
                                "choose 2 or later";
    static const char LATE[] = "no swap before step 5: 2 steps are issued and the job has 5; "
                               "choose 2 or later";
    expect_refusal(&f, 1, SC_INVALID, EARLY);
    expect_refusal(&f, 5, SC_INVALID, LATE);
    assert_int_equal(sc_steploop_swap(&f.loop, UINT64_MAX, &f.err), SC_INVALID);
    expect_nothing(&f);
    assert_int_equal(sc_steploop_swap(&f.loop, 4, &f.err), SC_OK);
    expect_refusal(&f, 3, SC_EXISTS, "a swap before step 4 waits already");
    for (uint64_t step = 0; step < 4; step++) { // none of them has stopped the steps before 4
        report_all(&f, step);
        expect(&f, SC_STEPLOOP_STEP_DONE, step);
        if (step < 2) {
            expect(&f, SC_STEPLOOP_STEP, step + 2);
        }
    }
    set_up_again(&f, 4);
    expect(&f, SC_STEPLOOP_STEP, 4);
    expect_refusal(&f, 5, SC_INVALID, "no swap: all 5 steps of the job are issued");
    sc_steploop_finish(&f.loop, SC_OK, "");
    expect_refusal(&f, 5, SC_INVALID, "no swap while finished: only while training");
    sc_arena_done(&f.arena);
}

static void test_slow_swap_names_the_missing(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 2, 5);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    assert_int_equal(sc_steploop_swap(&f.loop, 1, &f.err), SC_OK);
    report_all(&f, 0);
    sc_steploop_tick(&f.loop, 1000 * second_ns); // the swap's time begins with its ASSIGN
    expect(&f, SC_STEPLOOP_STEP_DONE, 0);
    expect(&f, SC_STEPLOOP_ASSIGN, 1);
    answer_all(&f);
    expect(&f, SC_STEPLOOP_CONNECT, 0);
    assert_int_equal(sc_steploop_on_answer(&f.loop, 0, 1001 * second_ns, &f.err), SC_OK);
    sc_steploop_tick(&f.loop, 1059 * second_ns);
    expect_nothing(&f);
    sc_steploop_tick(&f.loop, 1061 * second_ns);
    expect_finish(&f, SC_TIMEOUT, "no readiness from rank 1 within 60 s: see its log");
    sc_arena_done(&f.arena);
}

static void test_a_hold_keeps_the_end_and_swaps_back(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 2, 2);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    assert_int_equal(sc_steploop_swap(&f.loop, 1, &f.err), SC_OK);
    sc_steploop_hold(&f.loop, true);
    report_all(&f, 0);
    expect(&f, SC_STEPLOOP_STEP_DONE, 0);
    expect_nothing(&f);
    sc_steploop_hold(&f.loop, false);
    expect(&f, SC_STEPLOOP_ASSIGN, 1);
    answer_all(&f);
    expect(&f, SC_STEPLOOP_CONNECT, 0);
    answer_all(&f);
    expect(&f, SC_STEPLOOP_STEP, 1);
    sc_steploop_hold(&f.loop, true);
    report_all(&f, 1);
    expect(&f, SC_STEPLOOP_STEP_DONE, 1);
    expect_nothing(&f);
    sc_steploop_hold(&f.loop, false);
    expect_finish(&f, SC_OK, "");
    sc_arena_done(&f.arena);
}

static void test_a_held_job_ends_with_an_error(void **state)
{
    (void)state;
    fixture f;
    open_loop(&f, 1, 2);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 0);
    sc_steploop_hold(&f.loop, true);
    sc_steploop_finish(&f.loop, SC_PEER, "rank 0 is dead");
    expect_finish(&f, SC_PEER, "rank 0 is dead");
    sc_arena_done(&f.arena);
}

static void test_steps_go_on_where_another_run_ended(void **state)
{
    (void)state;
    fixture f;
    sc_arena_init(&f.arena, 0);
    sc_steploop_config config = {.n_ranks = 2, .n_steps = 10, .first_step = 8};
    config.wait_ns = 10 * second_ns;
    config.setup_ns = 60 * second_ns;
    assert_int_equal(sc_steploop_init(&f.loop, &config, &f.arena, &f.err), SC_OK);
    start_training(&f);
    expect(&f, SC_STEPLOOP_STEP, 8);
    expect(&f, SC_STEPLOOP_STEP, 9);
    expect_nothing(&f);
    assert_int_equal(sc_steploop_on_report(&f.loop, 0, 0, &f.err), SC_PROTOCOL);
    report_all(&f, 8);
    expect(&f, SC_STEPLOOP_STEP_DONE, 8);
    report_all(&f, 9);
    expect(&f, SC_STEPLOOP_STEP_DONE, 9);
    expect_finish(&f, SC_OK, "");
    sc_arena_done(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_job),
        cmocka_unit_test(test_out_of_turn),
        cmocka_unit_test(test_too_few_workers),
        cmocka_unit_test(test_setup_names_the_missing),
        cmocka_unit_test(test_first_end_counts),
        cmocka_unit_test(test_swap_waits_for_the_steps_before),
        cmocka_unit_test(test_swap_at_the_next_step),
        cmocka_unit_test(test_refused_swaps_change_nothing),
        cmocka_unit_test(test_slow_swap_names_the_missing),
        cmocka_unit_test(test_a_hold_keeps_the_end_and_swaps_back),
        cmocka_unit_test(test_a_held_job_ends_with_an_error),
        cmocka_unit_test(test_steps_go_on_where_another_run_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
