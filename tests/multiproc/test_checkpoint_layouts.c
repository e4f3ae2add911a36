/* Saved under one layout, loaded under every other: the steps that follow have the bits of the run
   that was never interrupted. The argument is the layout that saves. */
#include "tests/multiproc/saves.h"
#include "tests/multiproc/tensor_files.h"
#include "tests/support/tmpdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEPS = 7,
    SAVED = 3,
    M = 4
};

static const sc_jobs_layout LAYOUTS[] = {
    {"gpipe", 1, {12}},      {"1f1b", 2, {3, 9}}, {"1f1b", 3, {5, 1, 6}},
    {"interleaved", 2, {0}}, {"zb-v", 2, {0}},
};

enum {
    N_LAYOUTS = sizeof LAYOUTS / sizeof LAYOUTS[0]
};

static size_t saver; // index of the layout that saves

static void open_jobs(sc_jobs *jobs, sc_registry **registry)
{
    sc_jobs_config config = sc_jobs_small(M);
    config.optimizer = SC_JOBS_ADAMW;
    config.steps = STEPS;
    sc_jobs_open(&config, jobs);
    assert_int_equal(sc_registry_new(&config.spec, registry, NULL), SC_OK);
}

static void load_weights(const char *run_dir, const sc_jobs_layout *layout,
                         const sc_registry *registry, sc_tensor_files *out)
{
    sc_jobs_result result = {.p = layout->p};
    result.run_dir = strdup(run_dir);
    sc_tensor_files_load(&result, "weights", registry, out);
    free(result.run_dir);
}

static void expect_resumed(const char *run_dir, const char *from)
{
    char *path = sc_tmpdir_path(run_dir, "info.json");
    char *info = sc_tmpdir_read(path, NULL);
    if (strstr(info, from) == NULL || strstr(info, "\"differences\":\t\"\"") == NULL) {
        fail_msg("%s does not say that it goes on from %s: %s", path, from, info);
    }
    free(info);
    free(path);
}

static void resume(sc_jobs *jobs, const sc_jobs_layout *layout, const char *from,
                   const sc_saves_numbers *whole, const sc_tensor_files *weights,
                   const sc_registry *registry)
{
    static sc_saves_numbers part;
    char text[64];
    sc_tensor_files files;
    const char *const more[] = {"--resume", from, NULL};
    snprintf(text, sizeof text, "from %s p %d to %s p %d", LAYOUTS[saver].schedule,
             LAYOUTS[saver].p, layout->schedule, layout->p);
    sc_proc *proc = sc_saves_run(jobs, layout, more, 0);
    sc_proc_free(&proc);
    char *run_dir = sc_saves_run_dir(jobs);
    sc_saves_read(run_dir, &part);
    assert_int_equal(part.first, SAVED);
    assert_int_equal(part.end, STEPS);
    sc_saves_expect_part(whole, &part, text);
    load_weights(run_dir, layout, registry, &files);
    sc_tensor_files_expect_same(weights, &files, registry, text);
    expect_resumed(run_dir, from);
    sc_tensor_files_free(&files);
    free(run_dir);
}

static void every_layout_goes_on(void **state)
{
    (void)state;
    static sc_saves_numbers whole;
    static const char *const more[] = {"--set", "checkpoint.every=3", NULL};
    sc_jobs jobs;
    sc_registry *registry = NULL;
    sc_tensor_files weights;
    open_jobs(&jobs, &registry);
    sc_proc *proc = sc_saves_run(&jobs, &LAYOUTS[saver], more, 0);
    sc_proc_free(&proc);
    char *run_dir = sc_saves_run_dir(&jobs);
    char *from = sc_saves_path(run_dir, SAVED);
    sc_saves_read(run_dir, &whole);
    assert_int_equal(whole.end, STEPS);
    load_weights(run_dir, &LAYOUTS[saver], registry, &weights);
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        resume(&jobs, &LAYOUTS[i], from, &whole, &weights, registry);
    }
    sc_tensor_files_free(&weights);
    free(from);
    free(run_dir);
    sc_registry_free(&registry);
    sc_jobs_close(&jobs);
}

/* The same global batch in other microbatches: the same within rounding. */
static void other_microbatches_go_on(void **state)
{
    (void)state;
    static sc_saves_numbers whole;
    static sc_saves_numbers part;
    static const char *const save[] = {"--set", "checkpoint.every=3", NULL};
    static const char *const more[] = {"--resume",
                                       "--name",
                                       "job-1",
                                       "--set",
                                       "batch.micro_batch_size=1",
                                       "--set",
                                       "batch.num_microbatches=8",
                                       NULL};
    sc_jobs jobs;
    sc_registry *registry = NULL;
    open_jobs(&jobs, &registry);
    sc_proc *proc = sc_saves_run(&jobs, &LAYOUTS[saver], save, 0);
    sc_proc_free(&proc);
    char *run_dir = sc_saves_run_dir(&jobs);
    proc = sc_saves_run(&jobs, &LAYOUTS[1], more, 0); // the newest one: of step 6
    sc_proc_free(&proc);
    sc_saves_read(run_dir, &whole);
    char *other = sc_tmpdir_path(jobs.dir, "runs/job-1-2");
    sc_saves_read(other, &part);
    assert_int_equal(part.first, 6);
    for (int i = part.first; i < STEPS; i++) {
        assert_true(fabs(part.losses[i] - whole.losses[i]) <= 1e-5 * whole.losses[i]);
    }
    free(other);
    free(run_dir);
    sc_registry_free(&registry);
    sc_jobs_close(&jobs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_goes_on),
        cmocka_unit_test(other_microbatches_go_on),
    };
    saver = argc == 2 ? strtoul(argv[1], NULL, 10) : N_LAYOUTS;
    if (saver >= N_LAYOUTS) {
        fprintf(stderr, "%s LAYOUT: 0 to %d\n", argv[0], N_LAYOUTS - 1);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
