/* The paced slice: its messages are checked, its times are kept, its aborts are quick. */
#include "slice_rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <cmocka.h>

enum {
    WORDS = 8 // of a message
};

static const int64_t MS = 1000000;

static atomic_bool is_aborted;
static atomic_llong aborted_ns;

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static sc_rig_config make_config(int n_stages, int n_mb, sc_rig_order order)
{
    return (sc_rig_config){
        .n_stages = n_stages, .B = 3, .T = 16, .n_mb = n_mb, .order = order, .is_paced = true};
}

/* Losses of one step of m microbatches, equal to those seen before in `expected` (0: not yet). */
static void check_losses(const sc_rig *rig, double *expected)
{
    for (int mb = 0; mb < rig->config.n_mb; mb++) {
        assert_int_equal(rig->n_valid[mb], 3 * 16);
        assert_true(rig->losses[mb] >= 48 && rig->losses[mb] < 96);
        assert_true(expected[mb] == 0.0 || expected[mb] == rig->losses[mb]);
        assert_true(mb == 0 || rig->losses[mb] != rig->losses[mb - 1]);
        expected[mb] = rig->losses[mb];
    }
}

static void check_order(const sc_rig_config *config, double *expected)
{
    sc_rig rig;
    sc_err err = {0};
    sc_slice_rig_open(config, &rig);
    assert_int_equal(rig.slices[0]->message_bytes, 64);
    assert_int_equal(rig.slices[0]->n_params, 0);
    if (sc_slice_rig_step(&rig, 3, &err) != SC_OK) {
        fail_msg("p %d m %d: %s", config->n_stages, config->n_mb, err.text);
    }
    check_losses(&rig, expected);
    for (int s = 0; s < config->n_stages; s++) {
        size_t n_slots = (size_t)rig.n_act[s] + (size_t)rig.n_keep[s];
        assert_int_equal(rig.peak_bytes[s], 64 * n_slots);
        assert_int_equal(rig.slices[s]->ops->activation_bytes(rig.slices[s]), 0);
    }
    double loss = rig.losses[0];
    assert_int_equal(sc_slice_rig_step(&rig, 4, NULL), SC_OK);
    assert_true(rig.losses[0] != loss);
    rig.sample_ids[0] ^= 1;
    assert_int_equal(sc_slice_rig_step(&rig, 3, NULL), SC_OK);
    assert_true(rig.losses[0] != loss);
    sc_slice_rig_close(&rig);
}

/* Every order finishes with the same losses for every size; other steps and samples have others. */
static void chain_holds_over_orders(void **state)
{
    (void)state;
    for (int p = 1; p <= 6; p++) {
        double expected[SC_RIG_MB_MAX] = {0};
        for (int i = 0; i < SC_RIG_ORDER_COUNT * 13; i++) {
            sc_rig_config config = make_config(p, i % 13 + 1, (sc_rig_order)(i / 13));
            check_order(&config, expected);
        }
    }
}

/* Two neighbours by hand. */
typedef struct sc_pair {
    sc_slice *slices[3];
    uint64_t ids[3];
    uint64_t forward[WORDS];
    uint64_t backward[WORDS];
    uint64_t sink[WORDS];
} sc_pair;

static void open_pair(sc_pair *pair, sc_slice_pace pace)
{
    *pair = (sc_pair){.ids = {10, 11, 12}};
    for (int s = 0; s < 3; s++) {
        const sc_slice_config config = {.stage = s,
                                        .n_stages = 3,
                                        .n_mb = 4,
                                        .B = 3,
                                        .T = 16,
                                        .n_act_slots = 2,
                                        .n_keep_slots = 1,
                                        .pace = pace,
                                        .is_aborted = &is_aborted};
        assert_int_equal(sc_slice_paced_open(&config, &pair->slices[s], NULL), SC_OK);
    }
}

static void close_pair(sc_pair *pair)
{
    for (int s = 0; s < 3; s++) {
        pair->slices[s]->ops->close(&pair->slices[s]);
    }
}

static sc_slice_mb make_mb(sc_pair *pair, int mb)
{
    return (sc_slice_mb){.step = 9,
                         .mb = mb,
                         .sample_ids = pair->ids,
                         .x = pair->forward,
                         .y = pair->forward,
                         .dy = pair->backward,
                         .dx = pair->backward};
}

static void assert_names(const sc_err *err, const char *part)
{
    if (strstr(err->text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err->text, part);
    }
}

static void wrong_activation_is_named(void **state)
{
    (void)state;
    sc_pair pair;
    sc_err err;
    open_pair(&pair, (sc_slice_pace){0});
    sc_slice *second = pair.slices[1];
    sc_slice_mb mb = make_mb(&pair, 2);
    assert_int_equal(pair.slices[0]->ops->forward(pair.slices[0], &mb, NULL), SC_OK);
    uint64_t good[WORDS];
    memcpy(good, pair.forward, sizeof good);
    mb.y = pair.sink;
    for (int bit = 0; bit < 512; bit++) { // any one bit of it
        memcpy(pair.forward, good, sizeof good);
        pair.forward[bit / 64] ^= 1ULL << bit % 64;
        assert_int_equal(second->ops->forward(second, &mb, &err), SC_FAILED);
        assert_names(&err, "stage 1 microbatch 2 step 9: activation from stage 0 is that of stage");
    }
    memcpy(pair.forward, good, sizeof good);
    mb.mb = 3;
    assert_int_equal(second->ops->forward(second, &mb, &err), SC_FAILED);
    assert_names(&err, "stage 1 microbatch 3 step 9: activation from stage 0 is that of stage 0 "
                       "microbatch 2 step 9");
    mb.mb = 2;
    pair.ids[1]++;
    assert_int_equal(second->ops->forward(second, &mb, &err), SC_FAILED);
    assert_names(&err, "the message is of other samples");
    mb.sample_ids = NULL; // a stage that does not know them follows the message
    assert_int_equal(second->ops->forward(second, &mb, &err), SC_OK);
    close_pair(&pair);
}

static void wrong_gradient_is_named(void **state)
{
    (void)state;
    sc_pair pair;
    sc_err err;
    open_pair(&pair, (sc_slice_pace){0});
    sc_slice_mb mb = make_mb(&pair, 0);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(pair.slices[s]->ops->forward(pair.slices[s], &mb, NULL), SC_OK);
    }
    sc_slice *second = pair.slices[1];
    memcpy(pair.backward, pair.forward, sizeof pair.backward); // an activation is no gradient
    mb.dx = pair.sink;
    assert_int_equal(second->ops->backward(second, &mb, &err), SC_FAILED);
    assert_names(&err, "stage 1 microbatch 0 step 9: gradient from stage 2 is that of stage");
    mb.dx = pair.backward;
    assert_int_equal(pair.slices[2]->ops->backward(pair.slices[2], &mb, NULL), SC_OK);
    pair.backward[5] ^= 4;
    assert_int_equal(second->ops->backward_input(second, &mb, &err), SC_FAILED);
    pair.backward[5] ^= 4;
    assert_int_equal(second->ops->backward_input(second, &mb, &err), SC_OK);
    assert_int_equal(second->ops->activation_bytes(second), 128);
    assert_int_equal(second->ops->backward_input(second, &mb, &err), SC_FAILED);
    assert_names(&err, "stage 1 microbatch 0 step 9: I after I");
    assert_int_equal(second->ops->backward_weight(second, &mb, &err), SC_OK);
    assert_int_equal(second->ops->backward_weight(second, &mb, &err), SC_FAILED);
    assert_names(&err, "stage 1 microbatch 0 step 9: W without I");
    close_pair(&pair);
}

/* Nothing ends before its time. (How much later is the machine's business.) */
static void times_are_kept(void **state)
{
    (void)state;
    sc_pair pair;
    open_pair(&pair, (sc_slice_pace){.f_ns = 30 * MS, .i_ns = 20 * MS, .w_ns = 10 * MS});
    sc_slice *last = pair.slices[2];
    sc_slice_mb mb = make_mb(&pair, 0);
    mb.y = pair.forward;
    for (int s = 0; s < 3; s++) {
        int64_t begin_ns = now_ns();
        assert_int_equal(pair.slices[s]->ops->forward(pair.slices[s], &mb, NULL), SC_OK);
        assert_true(now_ns() - begin_ns >= 30 * MS);
    }
    int64_t begin_ns = now_ns();
    assert_int_equal(last->ops->backward(last, &mb, NULL), SC_OK);
    int64_t taken_ns = now_ns() - begin_ns;
    assert_true(taken_ns >= 30 * MS);
    assert_true(mb.weight_ns > 0 && mb.weight_ns <= taken_ns - 20 * MS);
    sc_slice *middle = pair.slices[1];
    begin_ns = now_ns();
    assert_int_equal(middle->ops->backward_input(middle, &mb, NULL), SC_OK);
    assert_true(now_ns() - begin_ns >= 20 * MS);
    begin_ns = now_ns();
    assert_int_equal(middle->ops->backward_weight(middle, &mb, NULL), SC_OK);
    assert_true(now_ns() - begin_ns >= 10 * MS);
    close_pair(&pair);
}

/* Raises the flag when the timer's signal comes; the sleeper itself gets no signal. */
static void *raise_abort(void *set)
{
    int signal_number = 0;
    (void)sigwait(set, &signal_number);
    atomic_store(&aborted_ns, now_ns());
    atomic_store(&is_aborted, true);
    return NULL;
}

/* An F of a minute ends soon after the flag goes up in its middle. */
static void abort_ends_the_sleep(void **state)
{
    (void)state;
    sc_pair pair;
    sc_err err;
    sigset_t set;
    pthread_t thread;
    open_pair(&pair, (sc_slice_pace){.f_ns = 60000 * MS});
    const struct itimerval timer = {.it_value = {.tv_usec = 20000}};
    sc_slice_mb mb = make_mb(&pair, 0);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGALRM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, raise_abort, &set), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    assert_int_equal(pair.slices[0]->ops->forward(pair.slices[0], &mb, &err), SC_ABORTED);
    int64_t end_ns = now_ns();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(&aborted_ns) > 0);
    assert_true(end_ns - atomic_load(&aborted_ns) < 1000 * MS); // 5 on a quiet machine
    atomic_store(&is_aborted, false);
    close_pair(&pair);
}

static void bad_config_is_refused(void **state)
{
    (void)state;
    const sc_slice_config good = {.n_stages = 1, .n_mb = 1, .B = 1, .T = 1, .n_act_slots = 1};
    sc_slice_config bad[4] = {good, good, good, good};
    bad[0].stage = 1;
    bad[1].pace.i_ns = -1;
    bad[2].n_act_slots = 0;
    bad[3].n_keep_slots = -1;
    sc_slice *slice = NULL;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sc_slice_paced_open(&bad[i], &slice, NULL), SC_INVALID);
        assert_null(slice);
    }
    assert_int_equal(sc_slice_paced_open(&good, &slice, NULL), SC_OK);
    slice->ops->close(&slice);
    assert_null(slice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_holds_over_orders), cmocka_unit_test(wrong_activation_is_named),
        cmocka_unit_test(wrong_gradient_is_named), cmocka_unit_test(times_are_kept),
        cmocka_unit_test(abort_ends_the_sleep),    cmocka_unit_test(bad_config_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
