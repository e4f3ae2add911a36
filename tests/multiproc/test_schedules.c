/* Every schedule that can run leaves the losses, norms and weights of one rank, bit by bit, and
   takes the activation bytes that were planned. The argument is p. */
#include "tests/multiproc/swapping.h"

#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEPS = 20
};

static int p;

static double read_bytes(const cJSON *rank, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(rank, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void expect_planned_memory(const sc_jobs_result *result)
{
    char *path = sc_tmpdir_path(result->run_dir, "summary.json");
    char *text = sc_tmpdir_read(path, NULL);
    cJSON *summary = cJSON_Parse(text);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(summary, "memory");
    const cJSON *rank = NULL;
    assert_int_equal(cJSON_GetArraySize(list), p);
    cJSON_ArrayForEach(rank, list)
    {
        double planned = read_bytes(rank, "activation_bytes_planned");
        double measured = read_bytes(rank, "activation_bytes_measured");
        if (!(planned > 0) || measured != planned) {
            fail_msg("[%s] rank %g: %.0f activation bytes, planned %.0f", result->text,
                     read_bytes(rank, "rank"), measured, planned);
        }
    }
    cJSON_Delete(summary);
    free(text);
    free(path);
}

/* Every second schedule that can run, beginning with `first`: each of two m's has its own. */
static void run_schedules(int m, size_t first)
{
    const char *names[SC_SWAPPING_NAMES_MAX];
    sc_jobs_config config = sc_jobs_small(m);
    sc_jobs jobs;
    sc_swapping_reference reference;
    config.steps = STEPS;
    config.optimizer = SC_JOBS_ADAMW;
    sc_jobs_open(&config, &jobs);
    sc_swapping_reference_make(&jobs, &reference);
    size_t n = sc_swapping_names(p, m, names);
    for (size_t i = first; i < n; i += 2) {
        const sc_jobs_layout layout = {.schedule = names[i], .p = p};
        sc_jobs_result result;
        sc_jobs_run(&jobs, &layout, &result);
        sc_swapping_reference_expect(&reference, &result);
        expect_planned_memory(&result);
        sc_jobs_result_free(&result);
    }
    sc_swapping_reference_free(&reference);
    sc_jobs_close(&jobs);
}

static void test_fewer_microbatches_than_a_pipeline_wants(void **state)
{
    (void)state;
    run_schedules(3, 0);
}

static void test_more_microbatches(void **state)
{
    (void)state;
    run_schedules(2 * p + 1, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer_microbatches_than_a_pipeline_wants),
        cmocka_unit_test(test_more_microbatches),
    };
    p = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (p < 1 || p > SC_JOBS_RANKS_MAX) {
        fprintf(stderr, "%s P\n", argv[0]);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
