/* Random sequences of swaps over every schedule leave the losses, norms and weights of a job that
   is never swapped, bit by bit. The argument is p. */
#include "tests/multiproc/swapping.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEPS = 80,
    N_MORE = 4, // swaps after each schedule had its turn
    SEED = 31
};

static int p;

/* Every schedule in random order, then some again. */
static size_t draw_sequence(int m, const char *out[SC_SWAPPING_NAMES_MAX + N_MORE])
{
    size_t n = sc_swapping_names(p, m, out);
    uint64_t stream = 100 * (uint64_t)p + (uint64_t)m;
    for (size_t i = n - 1; i > 0; i--) {
        size_t at = (size_t)(sc_rng_u64(SEED, stream, i) % (i + 1));
        const char *name = out[i];
        out[i] = out[at];
        out[at] = name;
    }
    for (size_t i = n; i < n + N_MORE; i++) {
        out[i] = out[sc_rng_u64(SEED, stream, i) % n];
    }
    return n + N_MORE;
}

static void swap_at_random(sc_jobs *jobs, const sc_swapping_reference *reference)
{
    const char *names[SC_SWAPPING_NAMES_MAX + N_MORE];
    char text[SC_SWAPPING_TEXT_MAX];
    const sc_jobs_layout layout = {.schedule = "1f1b", .p = p};
    sc_swapping s;
    sc_jobs_result result;
    size_t n_names = draw_sequence(jobs->config.m, names);
    size_t n = 0;
    int n_moves = 0;
    sc_swapping_start(jobs, &layout, NULL, &s);
    while (n < n_names && sc_swapping_swap(&s, names[n], text)) {
        n_moves += strstr(text, "weights move between workers") != NULL ? 1 : 0;
        n++;
    }
    sc_swapping_finish(&s, &result);
    print_message("p %d, m %d: %zu of %zu swaps, %d of them moved weights\n", p, jobs->config.m, n,
                  n_names, n_moves);
    assert_true(n >= n_names / 2);
    assert_true(n_moves >= 2);
    sc_swapping_reference_expect(reference, &result);
    sc_jobs_result_free(&result);
}

static void test_swaps_change_no_bit(void **state)
{
    const int ms[] = {3, p, 2 * p + 1};
    (void)state;
    for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        if (i > 0 && ms[i] == 3) {
            continue; // was the first
        }
        sc_jobs_config config = sc_jobs_small(ms[i]);
        sc_jobs jobs;
        sc_swapping_reference reference;
        config.steps = STEPS;
        config.optimizer = SC_JOBS_ADAMW;
        sc_jobs_open(&config, &jobs);
        sc_swapping_reference_make(&jobs, &reference);
        swap_at_random(&jobs, &reference);
        sc_swapping_reference_free(&reference);
        sc_jobs_close(&jobs);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swaps_change_no_bit),
    };
    p = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (p < 1 || p > SC_JOBS_RANKS_MAX) {
        fprintf(stderr, "%s P\n", argv[0]);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
