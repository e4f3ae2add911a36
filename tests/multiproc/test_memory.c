/*
 * Memory of workers in real runs: nothing of ours is allocated in the step loop, libraries allocate
 * the same in every step, and activations take what the plan says.
 */
#include "tests/multiproc/jobs.h"
#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum {
    STEPS = 20,        // of the shortest run that is counted; two more have twice and thrice that
    SLACK = 8,         // libzmq's queues take a block for every 256 commands, wherever that falls
    HEARTBEAT_MS = 200 // which comes by the clock, not by the step,
};

static const int ALLOCS_A_HEARTBEAT = 3; // and allocates its message

static const char PROGRAM[] = SC_BIN_DIR "/stagecoach";
static const char PRELOAD[] = "LD_PRELOAD=" SC_ALLOC_COUNTER;
static const char *const SCHEDULES[] = {"gpipe", "1f1b"};

typedef struct sc_memory_run {
    cJSON *summary;
    unsigned long allocs; // of all workers, libraries included; 0 when not counted
    int elapsed_ms;
} sc_memory_run;

static int now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* Adds up the files that the counter left for workers; each worker is to have left one. */
static unsigned long read_counts(const char *dir, int n_workers)
{
    unsigned long sum = 0;
    int n_files = 0;
    DIR *folder = opendir(dir);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, "stagecoach-stage-", 17) == 0) {
            char *path = sc_tmpdir_path(dir, entry->d_name);
            char *text = sc_tmpdir_read(path, NULL);
            sum += strtoul(text, NULL, 10);
            n_files++;
            free(text);
            free(path);
        }
    }
    closedir(folder);
    assert_int_equal(n_files, n_workers);
    return sum;
}

static cJSON *read_summary(const sc_jobs *jobs)
{
    char name[64];
    snprintf(name, sizeof name, "runs/job-%d/summary.json", jobs->n_runs);
    char *path = sc_tmpdir_path(jobs->dir, name);
    char *text = sc_tmpdir_read(path, NULL);
    cJSON *summary = cJSON_Parse(text);
    if (summary == NULL) {
        fail_msg("%s is no JSON: %s", path, text);
    }
    free(text);
    free(path);
    return summary;
}

/* Runs the job; without files of weights, which are written through buffers. */
static sc_memory_run run(sc_jobs *jobs, const sc_jobs_layout *layout, bool is_counted)
{
    sc_memory_run out = {.elapsed_ms = now_ms()};
    char *job = sc_jobs_write(jobs, layout);
    char *counts = sc_tmpdir_new();
    char counts_entry[512];
    snprintf(counts_entry, sizeof counts_entry, "SC_ALLOC_COUNTER_DIR=%s", counts);
    const char *const env[] = {counts_entry, PRELOAD, "ASAN_OPTIONS=verify_asan_link_order=0",
                               NULL};
    const char *const argv[] = {PROGRAM,
                                "run",
                                job,
                                "--set",
                                "output.save_weights=false",
                                "--set",
                                "output.save_gradients=false",
                                NULL};
    sc_proc *proc = sc_proc_start(
        &(sc_proc_config){.argv = argv, .dir = jobs->dir, .env = is_counted ? env : NULL});
    sc_proc_expect_exit(proc, 0, SC_JOBS_PATIENCE_MS);
    sc_proc_free(&proc);
    out.elapsed_ms = now_ms() - out.elapsed_ms;
    out.summary = read_summary(jobs);
    out.allocs = is_counted ? read_counts(counts, layout->p) : 0;
    sc_tmpdir_free(&counts);
    free(job);
    return out;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item)) {
        fail_msg("summary.json: no number \"%s\"", name);
    }
    return item->valuedouble;
}

static void expect_memory_as_planned(const cJSON *summary, const sc_jobs_layout *layout)
{
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(summary, "memory");
    const cJSON *rank;
    assert_int_equal(cJSON_GetArraySize(ranks), layout->p);
    cJSON_ArrayForEach(rank, ranks)
    {
        double planned = number(rank, "activation_bytes_planned");
        double measured = number(rank, "activation_bytes_measured");
        double n_allocs = number(rank, "allocations_in_steps");
        if (planned <= 0 || measured != planned || n_allocs != 0) {
            fail_msg("%s p %d rank %g: %.0f activation bytes, planned %.0f; %.0f allocations in a "
                     "step",
                     layout->schedule, layout->p, number(rank, "rank"), measured, planned,
                     n_allocs);
        }
    }
    const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(summary, "activation_bytes");
    assert_true(number(bytes, "planned") == number(bytes, "measured"));
}

static void test_activations_take_what_was_planned(void **state)
{
    (void)state;
    sc_jobs_config config = sc_jobs_small(5); // more than ranks, so that schedules differ
    sc_jobs jobs;
    config.steps = 3;
    config.optimizer = SC_JOBS_ADAMW;
    sc_jobs_open(&config, &jobs);
    for (int p = 1; p <= SC_JOBS_RANKS_MAX; p++) {
        for (int k = 0; k < 2; k++) {
            const sc_jobs_layout layout = {.schedule = SCHEDULES[k], .p = p};
            sc_memory_run r = run(&jobs, &layout, false);
            expect_memory_as_planned(r.summary, &layout);
            cJSON_Delete(r.summary);
        }
    }
    sc_jobs_close(&jobs);
}

/* Runs of n, 2n and 3n steps: what the middle n allocate, the last n must allocate. */
static void expect_constant(sc_jobs *jobs, const sc_jobs_layout *layout)
{
    unsigned long counts[3];
    long tolerance = SLACK;
    for (int i = 0; i < 3; i++) {
        jobs->config.steps = STEPS * (i + 1);
        sc_memory_run r = run(jobs, layout, true);
        counts[i] = r.allocs;
        long n_heartbeats = (long)layout->p * (r.elapsed_ms / HEARTBEAT_MS + 1);
        tolerance += ALLOCS_A_HEARTBEAT * n_heartbeats;
        expect_memory_as_planned(r.summary, layout);
        cJSON_Delete(r.summary);
    }
    long middle = (long)(counts[1] - counts[0]);
    long last = (long)(counts[2] - counts[1]);
    print_message("%s p %d: %lu, %lu, %lu allocations in %d, %d, %d steps: %ld, then %ld, give or "
                  "take %ld\n",
                  layout->schedule, layout->p, counts[0], counts[1], counts[2], STEPS, 2 * STEPS,
                  3 * STEPS, middle, last, tolerance);
    assert_true(middle > 0); // the libraries' own: the counter is there
    assert_in_range(labs(last - middle), 0, tolerance);
}

static void test_libraries_allocate_the_same_every_step(void **state)
{
    (void)state;
    sc_jobs_config config = sc_jobs_small(4);
    sc_jobs jobs;
    config.optimizer = SC_JOBS_ADAMW;
    sc_jobs_open(&config, &jobs);
    for (int k = 0; k < 2; k++) {
        expect_constant(&jobs, &(sc_jobs_layout){.schedule = SCHEDULES[k], .p = 2});
    }
    sc_jobs_close(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations_take_what_was_planned),
        cmocka_unit_test(test_libraries_allocate_the_same_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
