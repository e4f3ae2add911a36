/*
 * Jobs that recompute: losses, norms, gradients and weights keep every bit, whatever the schedule;
 * activations take what the plan says, and less than without.
 *
 * The argument is what recompute says.
 */
#include "tests/multiproc/jobs.h"
#include "tests/multiproc/tensor_files.h"
#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEPS = 3,
    MICROBATCHES = 5
};

static const char *const SCHEDULES[] = {"gpipe", "1f1b", "zb-h1", "zb-v"};
static const char *setting; // the argument

typedef struct outcome {
    sc_jobs_result result;
    sc_tensor_files gradients;
    sc_tensor_files weights;
    double peak_bytes; // activations of the fullest rank
} outcome;

static double number(const sc_jobs_result *result, const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item)) {
        fail_msg("%s: summary.json: no number \"%s\"", result->text, name);
    }
    return item->valuedouble;
}

/* Planned and measured bytes of every rank agree; returns the largest. */
static double expect_planned_bytes(const sc_jobs_result *result)
{
    char *path = sc_tmpdir_path(result->run_dir, "summary.json");
    char *text = sc_tmpdir_read(path, NULL);
    cJSON *summary = cJSON_Parse(text);
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(summary, "memory");
    const cJSON *rank;
    double most = 0;
    assert_int_equal(cJSON_GetArraySize(ranks), result->p);
    cJSON_ArrayForEach(rank, ranks)
    {
        double planned = number(result, rank, "activation_bytes_planned");
        double measured = number(result, rank, "activation_bytes_measured");
        if (planned <= 0 || planned != measured) {
            fail_msg("%s: rank %g: %.0f activation bytes, planned %.0f", result->text,
                     number(result, rank, "rank"), measured, planned);
        }
        most = measured > most ? measured : most;
    }
    cJSON_Delete(summary);
    free(text);
    free(path);
    return most;
}

static void run(sc_jobs *jobs, const sc_jobs_layout *layout, const sc_registry *registry,
                outcome *out)
{
    sc_jobs_run(jobs, layout, &out->result);
    out->peak_bytes = expect_planned_bytes(&out->result);
    sc_tensor_files_load(&out->result, "gradients", registry, &out->gradients);
    sc_tensor_files_load(&out->result, "weights", registry, &out->weights);
    for (int i = 0; i < registry->n_params; i++) { // each is there; where is the schedule's matter
        assert_non_null(sc_tensor_files_get(&out->gradients, &registry->params[i]));
        assert_non_null(sc_tensor_files_get(&out->weights, &registry->params[i]));
    }
}

static void done(outcome *o)
{
    sc_tensor_files_free(&o->gradients);
    sc_tensor_files_free(&o->weights);
    sc_jobs_result_free(&o->result);
}

static void compare(sc_jobs *jobs, const sc_jobs_layout *layout, const sc_registry *registry,
                    const outcome *reference)
{
    outcome other;
    jobs->config.recompute = setting;
    run(jobs, layout, registry, &other);
    sc_jobs_expect_same(&reference->result, &other.result);
    sc_tensor_files_expect_same(&reference->gradients, &other.gradients, registry,
                                other.result.text);
    sc_tensor_files_expect_same(&reference->weights, &other.weights, registry, other.result.text);
    /* In the reference's own layout it must pay: there all activations live at once. */
    if (layout->p == 1 && strcmp(layout->schedule, "gpipe") == 0) {
        print_message("%s: %.0f activation bytes, %.0f without\n", other.result.text,
                      other.peak_bytes, reference->peak_bytes);
        assert_true(other.peak_bytes < reference->peak_bytes);
    }
    done(&other);
}

static void bits_stay_and_bytes_are_as_planned(void **state)
{
    (void)state;
    static const int ranks[] = {1, 2, 4};
    sc_jobs_config config = sc_jobs_small(MICROBATCHES);
    sc_jobs jobs;
    sc_registry *registry = NULL;
    outcome reference;
    config.steps = STEPS;
    config.optimizer = SC_JOBS_ADAMW;
    assert_int_equal(sc_registry_new(&config.spec, &registry, NULL), SC_OK);
    sc_jobs_open(&config, &jobs);
    run(&jobs, &(sc_jobs_layout){.schedule = "gpipe", .p = 1}, registry, &reference);
    assert_true(reference.result.losses[0] != reference.result.losses[STEPS - 1]);
    for (int i = 0; i < 3 * 4; i++) {
        const sc_jobs_layout layout = {.schedule = SCHEDULES[i % 4], .p = ranks[i / 4]};
        compare(&jobs, &layout, registry, &reference);
    }
    done(&reference);
    sc_jobs_close(&jobs);
    sc_registry_free(&registry);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_stay_and_bytes_are_as_planned)};
    if (argc != 2) {
        fprintf(stderr, "%s RECOMPUTE\n", argv[0]);
        return 2;
    }
    setting = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
