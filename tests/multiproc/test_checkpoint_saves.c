/* What is kept and removed, what info says, and saves that fail: told, and training goes on. */
#include "tests/multiproc/saves.h"
#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const sc_jobs_layout LAYOUT = {"1f1b", 2, {0}};
static const sc_jobs_layout ALONE = {"1f1b", 1, {0}};

static void open_jobs(sc_jobs *jobs)
{
    sc_jobs_config config = sc_jobs_small(2);
    config.optimizer = SC_JOBS_ADAMW;
    config.steps = 7;
    sc_jobs_open(&config, jobs);
}

static void expect_kept(sc_jobs *jobs, const char *first, const char *second, const char *third,
                        const char *kept)
{
    const char *const more[] = {"--set", first, "--set", second, "--set", third, NULL};
    sc_proc *proc = sc_saves_run(jobs, &LAYOUT, more, 0);
    sc_proc_free(&proc);
    char *run_dir = sc_saves_run_dir(jobs);
    char *folder = sc_tmpdir_path(run_dir, "checkpoints");
    char *list = sc_saves_list(folder);
    assert_string_equal(list, kept);
    free(list);
    free(folder);
    free(run_dir);
}

static void the_newest_stay(void **state)
{
    (void)state;
    sc_jobs jobs;
    open_jobs(&jobs);
    expect_kept(&jobs, "checkpoint.every=1", "checkpoint.keep_last=2", "checkpoint.at_end=false",
                "step-00000006 step-00000007 ");
    expect_kept(&jobs, "checkpoint.every=2", "checkpoint.keep_last=0", "checkpoint.at_end=true",
                "step-00000002 step-00000004 step-00000006 step-00000007 ");
    expect_kept(&jobs, "checkpoint.every=0", "checkpoint.keep_last=1", "checkpoint.at_end=true",
                "step-00000007 ");
    expect_kept(&jobs, "checkpoint.every=0", "checkpoint.keep_last=1", "checkpoint.at_end=false",
                "");
    sc_jobs_close(&jobs);
}

static void info_says_what_is_there(void **state)
{
    (void)state;
    static const char *const more[] = {"--set", "checkpoint.at_end=true", NULL};
    sc_jobs jobs;
    open_jobs(&jobs);
    sc_proc *proc = sc_saves_run(&jobs, &LAYOUT, more, 0);
    assert_non_null(strstr(sc_proc_text(proc, SC_PROC_OUT), "checkpoints: 1 saved\n"));
    sc_proc_free(&proc);
    const char *const info[] = {"checkpoint", "info", "runs/job-1", NULL};
    const char *const json[] = {"checkpoint", "info", "runs/job-1", "--json", NULL};
    proc = sc_saves_command(&jobs, info, 0);
    const char *text = sc_proc_text(proc, SC_PROC_OUT);
    assert_non_null(strstr(text, "runs/job-1/checkpoints/step-00000007\nstep        7\n"));
    assert_non_null(strstr(text, "12 layers, 3 heads, width 24, MLP 96, vocabulary 61"));
    assert_non_null(strstr(text, "seed 7, 4 samples of 8 tokens a step"));
    sc_proc_free(&proc);
    proc = sc_saves_command(&jobs, json, 0);
    cJSON *manifest = cJSON_Parse(sc_proc_text(proc, SC_PROC_OUT));
    const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(manifest, "tensors");
    assert_int_equal(cJSON_GetArraySize(tensors), 3 * (2 + 12 * 12 + 2));
    cJSON_Delete(manifest);
    sc_proc_free(&proc);
    sc_jobs_close(&jobs);
}

static double saves_of(const char *run_dir, const char *name)
{
    char *path = sc_tmpdir_path(run_dir, "summary.json");
    char *text = sc_tmpdir_read(path, NULL);
    cJSON *summary = cJSON_Parse(text);
    const cJSON *saves = cJSON_GetObjectItemCaseSensitive(summary, "checkpoints");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(saves, name);
    if (!cJSON_IsNumber(item)) {
        fail_msg("%s: no checkpoints.%s: %s", path, name, text);
    }
    double value = item->valuedouble;
    cJSON_Delete(summary);
    free(text);
    free(path);
    return value;
}

/* Files may not grow over 64 KiB: as with a full disk, but for the errno. */
static void a_full_disk_is_told(void **state)
{
    (void)state;
    static sc_saves_numbers numbers;
    sc_jobs jobs;
    open_jobs(&jobs);
    char *job = sc_jobs_write(&jobs, &LAYOUT);
    const char *const argv[] = {
        "/bin/sh",
        "-c",
        "trap '' XFSZ; ulimit -f 128; exec \"$0\" run \"$1\" --set checkpoint.every=2 "
        "--set output.save_weights=false --set output.save_gradients=false",
        SC_BIN_DIR "/stagecoach",
        job,
        NULL};
    sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = jobs.dir});
    sc_proc_expect_exit(proc, 0, SC_JOBS_PATIENCE_MS);
    const char *text = sc_proc_text(proc, SC_PROC_OUT);
    if (strstr(text, "checkpoints: 0 saved, 3 not saved: rank ") == NULL ||
        strstr(text, "safetensors: File too large") == NULL) {
        fail_msg("%s", text);
    }
    sc_proc_free(&proc);
    char *run_dir = sc_saves_run_dir(&jobs);
    char *folder = sc_tmpdir_path(run_dir, "checkpoints");
    char *list = sc_saves_list(folder);
    assert_string_equal(list, ""); // what was begun is gone
    sc_saves_read(run_dir, &numbers);
    assert_int_equal(numbers.end, 7);
    assert_true(saves_of(run_dir, "failed_in_a_row") == 3);
    free(list);
    free(folder);
    free(run_dir);
    free(job);
    sc_jobs_close(&jobs);
}

/* A file where the folder should be; it is put there before the only worker comes. */
static void a_file_in_the_way_is_told(void **state)
{
    (void)state;
    sc_jobs jobs;
    open_jobs(&jobs);
    char *job = sc_jobs_write(&jobs, &ALONE);
    const char *const argv[] = {SC_BIN_DIR "/stagecoach-coordinator", "--set", "checkpoint.every=3",
                                job, NULL};
    sc_proc *coordinator = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = jobs.dir});
    const char *line =
        sc_proc_expect_line(coordinator, SC_PROC_ERR, "listening on ", SC_JOBS_PATIENCE_MS);
    char endpoint[64] = "";
    assert_int_equal(sscanf(strstr(line, "listening on "), "listening on %60[^,]", endpoint), 1);
    char *run_dir = sc_saves_run_dir(&jobs);
    free(sc_tmpdir_write_text(run_dir, "checkpoints", "in the way"));
    const char *const stage[] = {SC_BIN_DIR "/stagecoach-stage", "--coordinator", endpoint, NULL};
    sc_proc *worker = sc_proc_start(&(sc_proc_config){.argv = stage, .dir = jobs.dir});
    sc_proc_expect_line(coordinator, SC_PROC_ERR, "not saved (2 in a row), training goes on",
                        SC_JOBS_PATIENCE_MS);
    sc_proc_expect_exit(coordinator, 0, SC_JOBS_PATIENCE_MS);
    sc_proc_expect_exit(worker, 0, SC_JOBS_PATIENCE_MS);
    assert_true(saves_of(run_dir, "failed") == 2);
    assert_true(saves_of(run_dir, "saved") == 0);
    sc_proc_free(&worker);
    sc_proc_free(&coordinator);
    free(run_dir);
    free(job);
    sc_jobs_close(&jobs);
}

/* Schedules that place stages elsewhere take turns while every step is saved. */
static void swaps_wait_for_saves(void **state)
{
    (void)state;
    static sc_saves_numbers whole;
    static sc_saves_numbers part;
    sc_jobs jobs;
    open_jobs(&jobs);
    char *job = sc_jobs_write(&jobs, &LAYOUT);
    const char *const compare[] = {
        "compare", job, "--schedules", "1f1b,zb-v",          "--every", "4",
        "--steps", "8", "--set",       "checkpoint.every=1", NULL};
    sc_proc *proc = sc_saves_command(&jobs, compare, 0);
    sc_proc_free(&proc);
    const char *const more[] = {"--resume", "runs/job-compare", "--set", "train.steps=18", NULL};
    proc = sc_saves_run(&jobs, &ALONE, more, 0);
    sc_proc_free(&proc);
    char *run_dir = sc_saves_run_dir(&jobs);
    sc_saves_read(run_dir, &part);
    assert_int_equal(part.first, 16);
    assert_int_equal(part.end, 18);
    free(run_dir);
    const char *const alone[] = {"--set", "train.steps=18", NULL};
    proc = sc_saves_run(&jobs, &ALONE, alone, 0);
    sc_proc_free(&proc);
    run_dir = sc_saves_run_dir(&jobs);
    sc_saves_read(run_dir, &whole);
    sc_saves_expect_part(&whole, &part, "after swaps");
    free(run_dir);
    free(job);
    sc_jobs_close(&jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_stay),           cmocka_unit_test(info_says_what_is_there),
        cmocka_unit_test(swaps_wait_for_saves),      cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(a_file_in_the_way_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
