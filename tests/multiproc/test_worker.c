/* One real worker whose coordinator is the test: what happens when orders come at bad moments, or
   are wrong. */
#include "base/status.h"
#include "tests/multiproc/boss.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    N_SWAPS = 4,
    LOW_DESCRIPTORS = 256,
    REST_BEATS = 5,     // a second
    REST_TICKS_MAX = 10 // of the 100 that a busy loop takes
};

static void expect_end(sc_boss **boss, sc_status status)
{
    sc_boss_expect(*boss, SC_MSG_BYE);
    sc_proc_expect_exit(sc_boss_worker(*boss), sc_status_exit_code(status), SC_BOSS_PATIENCE_MS);
    sc_boss_close(boss);
}

static sc_msg_assign heir_of(const sc_msg_assign *assign)
{
    sc_msg_assign next = *assign;
    next.epoch++;
    next.inherit_epoch = assign->epoch;
    return next;
}

/* Steps count far beyond what an int holds. */
static void test_late_steps(void **state)
{
    (void)state;
    static const uint64_t steps[] = {0, (UINT64_C(1) << 31) + 5, (UINT64_C(1) << 53) + 1};
    sc_boss *boss = sc_boss_open();
    sc_msg_assign assign = sc_boss_assignment(boss);
    sc_boss_set_up(boss, &assign);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        sc_boss_send_step(boss, 1, steps[i]);
        const sc_msg *report = sc_boss_expect(boss, SC_MSG_REPORT);
        assert_true(report->u.report.step == steps[i]);
        assert_int_equal(report->u.report.n_valid, assign.sequence_length);
    }
    sc_boss_send_stop(boss, SC_OK, "");
    expect_end(&boss, SC_OK);
}

/* STOP while the weights go over to a new epoch: the old one's memory is still being used. */
static void test_stop_in_the_middle_of_a_swap(void **state)
{
    (void)state;
    for (int i = 0; i < N_SWAPS; i++) {
        sc_boss *boss = sc_boss_open();
        sc_msg_assign assign = sc_boss_assignment(boss);
        sc_boss_set_up(boss, &assign);
        sc_msg next = {.type = SC_MSG_ASSIGN, .u.assign = heir_of(&assign)};
        sc_boss_send(boss, &next);
        sc_boss_send_stop(boss, SC_INTERRUPTED, "stopped on request");
        expect_end(&boss, SC_INTERRUPTED);
    }
}

/* The same with SIGTERM; then with ABORT, after which it takes a new assignment. */
static void test_signal_in_the_middle_of_a_swap(void **state)
{
    (void)state;
    sc_boss *boss = sc_boss_open();
    sc_msg_assign assign = sc_boss_assignment(boss);
    sc_boss_set_up(boss, &assign);
    sc_msg next = {.type = SC_MSG_ASSIGN, .u.assign = heir_of(&assign)};
    sc_boss_send(boss, &next);
    sc_boss_expect(boss, SC_MSG_BOUND);
    sc_proc_signal(sc_boss_worker(boss), SIGTERM);
    sc_boss_expect(boss, SC_MSG_FAIL);
    sc_proc_expect_exit(sc_boss_worker(boss), sc_status_exit_code(SC_INTERRUPTED),
                        SC_BOSS_PATIENCE_MS);
    sc_boss_close(&boss);
}

static void test_abort_and_start_again(void **state)
{
    (void)state;
    sc_boss *boss = sc_boss_open();
    sc_msg_assign assign = sc_boss_assignment(boss);
    for (int i = 0; i < N_SWAPS; i++) {
        sc_boss_set_up(boss, &assign);
        sc_boss_send_step(boss, assign.epoch, 0);
        sc_msg_assign next = heir_of(&assign);
        sc_boss_expect(boss, SC_MSG_REPORT);
        sc_msg swap = {.type = SC_MSG_ASSIGN, .u.assign = next};
        sc_boss_send(boss, &swap);
        sc_msg abort = {.type = SC_MSG_ABORT, .u.abort = {.epoch = next.epoch, .reason = "test"}};
        sc_boss_send(boss, &abort);
        assign.epoch = next.epoch + 1;
    }
    sc_boss_send_stop(boss, SC_OK, "");
    expect_end(&boss, SC_OK);
}

/* Every refused assignment is told, and harms neither the worker nor what it holds. */
static void expect_refused(sc_boss *boss, const sc_msg_assign *assign, const char *text)
{
    sc_msg msg = {.type = SC_MSG_ASSIGN, .u.assign = *assign};
    sc_boss_send(boss, &msg);
    const sc_msg *fail = sc_boss_expect(boss, SC_MSG_FAIL);
    if (strstr(fail->u.fail.text, text) == NULL) {
        fail_msg("'%s' is not in: %s", text, fail->u.fail.text);
    }
}

static void test_assignments_that_cannot_be(void **state)
{
    (void)state;
    sc_boss *boss = sc_boss_open();
    sc_msg_assign good = sc_boss_assignment(boss);
    sc_msg_assign bad = good;
    sc_msg_stage stage = good.stages[0];
    bad.micro_batch_size = INT32_MAX;
    expect_refused(boss, &bad, "out of range");
    bad = good;
    bad.threads = INT32_MAX;
    expect_refused(boss, &bad, "out of range");
    bad = good;
    bad.stages = &stage;
    stage.block_end = 2;
    expect_refused(boss, &bad, "blocks 0 to 2 of 1");
    stage = good.stages[0];
    stage.has_embed = false;
    expect_refused(boss, &bad, "blocks 0 to 1 of 1");
    sc_boss_set_up(boss, &good);
    bad = heir_of(&good);
    bad.sequence_length = 16;
    expect_refused(boss, &bad, "with another batch");
    bad = heir_of(&good);
    bad.slice = "paced";
    expect_refused(boss, &bad, "with another slice");
    bad = heir_of(&good);
    bad.model.n_embd *= 2;
    expect_refused(boss, &bad, "with another model");
    sc_boss_send_step(boss, 1, 0);
    sc_boss_expect(boss, SC_MSG_REPORT);
    sc_boss_send_stop(boss, SC_OK, "");
    expect_end(&boss, SC_OK);
}

static long cpu_ticks(pid_t pid)
{
    char path[64];
    long user = 0;
    long system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    // NOLINTNEXTLINE(cert-err34-c): the kernel's numbers
    int n = fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
                   &system);
    assert_int_equal(n, 2);
    fclose(file);
    return user + system;
}

/* The first of two ranks, whose peer is this test: assigned and bound. */
static void bind_one_of_two(sc_boss *boss)
{
    sc_msg_assign assign = sc_boss_assignment(boss);
    sc_msg_stage stages[2] = {assign.stages[0], assign.stages[0]};
    stages[0].has_head = stages[1].has_embed = false;
    stages[1].stage = stages[1].rank = 1;
    stages[1].block_begin = 1;
    assign.stages = stages;
    assign.n_stages = assign.n_ranks = 2;
    assign.row = "0F0,0SEND_F0,0RECV_B0,0B0";
    sc_msg msg = {.type = SC_MSG_ASSIGN, .u.assign = assign};
    sc_boss_send(boss, &msg);
    sc_boss_expect(boss, SC_MSG_BOUND);
}

static void expect_failed_connect(sc_boss *boss, const char *peer, const char *text)
{
    const char *const endpoints[] = {"", peer};
    sc_msg msg = {.type = SC_MSG_CONNECT, .u.connect = {1, endpoints, 2}};
    sc_boss_send(boss, &msg);
    const sc_msg *fail = sc_boss_expect(boss, SC_MSG_FAIL);
    if (strstr(fail->u.fail.text, text) == NULL) {
        fail_msg("'%s' is not in: %s", text, fail->u.fail.text);
    }
}

static void test_connect_twice(void **state)
{
    (void)state;
    const char *const endpoints[] = {"", "ipc:///nowhere/at/all"};
    sc_boss *boss = sc_boss_open();
    bind_one_of_two(boss);
    sc_msg msg = {.type = SC_MSG_CONNECT, .u.connect = {1, endpoints, 2}};
    sc_boss_send(boss, &msg);
    expect_failed_connect(boss, endpoints[1], "connected already");
    sc_boss_send_stop(boss, SC_PROTOCOL, "");
    expect_end(&boss, SC_PROTOCOL);
}

/* A worker that has failed waits for what its coordinator decides, and costs nothing meanwhile. */
static void test_failed_worker_rests(void **state)
{
    (void)state;
    sc_boss *boss = sc_boss_open();
    bind_one_of_two(boss);
    expect_failed_connect(boss, "nonsense://x", "cannot connect to nonsense://x");
    pid_t pid = sc_proc_pid(sc_boss_worker(boss));
    sc_boss_expect(boss, SC_MSG_HEARTBEAT);
    long before = cpu_ticks(pid);
    for (int i = 0; i < REST_BEATS; i++) {
        sc_boss_expect(boss, SC_MSG_HEARTBEAT);
    }
    assert_in_range(cpu_ticks(pid) - before, 0, REST_TICKS_MAX);
    sc_boss_send_stop(boss, SC_IO, "");
    expect_end(&boss, SC_IO);
}

/* Thousands of peers need more descriptors than a shell allows at first. */
static void test_takes_all_descriptors(void **state)
{
    (void)state;
    struct rlimit ours;
    struct rlimit its;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &ours), 0);
    struct rlimit low = {.rlim_cur = LOW_DESCRIPTORS, .rlim_max = ours.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    sc_boss *boss = sc_boss_open();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &ours), 0);
    assert_int_equal(prlimit(sc_proc_pid(sc_boss_worker(boss)), RLIMIT_NOFILE, NULL, &its), 0);
    assert_true(its.rlim_cur == its.rlim_max);
    sc_boss_send_stop(boss, SC_OK, "");
    expect_end(&boss, SC_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_steps),
        cmocka_unit_test(test_stop_in_the_middle_of_a_swap),
        cmocka_unit_test(test_signal_in_the_middle_of_a_swap),
        cmocka_unit_test(test_abort_and_start_again),
        cmocka_unit_test(test_assignments_that_cannot_be),
        cmocka_unit_test(test_connect_twice),
        cmocka_unit_test(test_failed_worker_rests),
        cmocka_unit_test(test_takes_all_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
