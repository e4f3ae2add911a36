/* A bad job or token file: `stagecoach run` ends with the documented code and a line that says
   where and what to do, and leaves no process. */
#include "base/status.h"
#include "formats/tokens.h"
#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    PATIENCE_MS = 60000,
    N_TOKENS = 4 * 8 * 8 + 1 // 4 steps of 8 samples of 8 tokens
};

static const char CLI[] = SC_BIN_DIR "/stagecoach";

static const char JOB[] = "name: x\n"
                          "device: cpu\n"
                          "model: {n_layer: 4, n_head: 2, n_embd: 16, vocab_size: 32,\n"
                          "        n_positions: 16}\n"
                          "parallel:\n"
                          "  pipeline_parallel: 2\n"
                          "batch:\n"
                          "  micro_batch_size: 2\n"
                          "  num_microbatches: 4\n"
                          "  sequence_length: 8\n"
                          "train:\n"
                          "  steps: 4\n"
                          "data:\n"
                          "  path: tokens.bin\n";

typedef struct bench {
    char *dir;
} bench;

static int set_up(void **state)
{
    bench *b = calloc(1, sizeof *b);
    b->dir = sc_tmpdir_new();
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    bench *b = *state;
    sc_proc_expect_none_left(PATIENCE_MS);
    sc_tmpdir_free(&b->dir);
    free(b);
    return 0;
}

/* An llm.c file of n_told tokens by its header, with n of them, all 1 but for one. */
static void write_tokens(const bench *b, int n_told, int n, int bad, int bad_value)
{
    size_t size = SC_TOKENS_HEADER_BYTES + (size_t)n * SC_TOKENS_TOKEN_BYTES;
    uint8_t *bytes = calloc(1, size);
    assert_int_equal(sc_tokens_pack_header((uint64_t)n_told, bytes, NULL), SC_OK);
    for (int i = 0; i < n; i++) {
        int value = i == bad ? bad_value : 1;
        bytes[SC_TOKENS_HEADER_BYTES + 2 * i] = (uint8_t)value;
        bytes[SC_TOKENS_HEADER_BYTES + 2 * i + 1] = (uint8_t)(value >> 8);
    }
    free(sc_tmpdir_write(b->dir, "tokens.bin", bytes, size));
    free(bytes);
}

/* The job with `more` behind it and `set` on the command line: ends with the code of `status`, and
   the first line on stderr is `line` (a part of it). */
static void expect_refused(const bench *b, const char *more, const char *set, sc_status status,
                           const char *line)
{
    char text[2048];
    snprintf(text, sizeof text, "%s%s", JOB, more);
    free(sc_tmpdir_write_text(b->dir, "job.yaml", text));
    const char *const argv[] = {CLI, "run", "job.yaml", set == NULL ? NULL : "--set", set, NULL};
    sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = b->dir});
    sc_proc_expect_line(proc, SC_PROC_ERR, line, PATIENCE_MS);
    sc_proc_expect_exit(proc, sc_status_exit_code(status), PATIENCE_MS);
    sc_proc_expect_none_left(0);
    if (strstr(sc_proc_text(proc, SC_PROC_ERR), "Sanitizer") != NULL) {
        fail_msg("%s", sc_proc_text(proc, SC_PROC_ERR));
    }
    sc_proc_free(&proc);
}

/* Found before anything starts: the line is all there is. */
static void expect_bad_job(const bench *b, const char *more, const char *set, const char *line)
{
    expect_refused(b, more, set, SC_INVALID, line);
}

static void test_job_is_good_without_a_fault(void **state)
{
    const bench *b = *state;
    write_tokens(b, N_TOKENS, N_TOKENS, -1, 0);
    free(sc_tmpdir_write_text(b->dir, "job.yaml", JOB));
    const char *const argv[] = {CLI, "run", "job.yaml", NULL};
    sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = b->dir});
    sc_proc_expect_exit(proc, 0, PATIENCE_MS);
    sc_proc_free(&proc);
}

static void test_job_says_what_cannot_be(void **state)
{
    const bench *b = *state;
    write_tokens(b, N_TOKENS, N_TOKENS, -1, 0);
    expect_bad_job(b, "  pth: x\n", NULL, "job.yaml:15:3: data.pth: ");
    expect_bad_job(b, "  path: y\n", NULL, "job.yaml:15:3: data.path: ");
    expect_bad_job(b, "schedule: [1]\n", NULL, "job.yaml:15:11: schedule: ");
    expect_bad_job(b, "workers:\n  threads: two\n", NULL, "job.yaml:16:12: workers.threads: ");
    expect_bad_job(b, "workers:\n  threads: 2.5\n", NULL, "job.yaml:16:12: workers.threads: ");
    expect_bad_job(b, "workers:\n  threads: 0\n", NULL, "job.yaml:16:12: workers.threads: ");
    expect_bad_job(b, "schedule: chimera\n", NULL, "job.yaml:15:11: schedule: ");
    expect_bad_job(b, "schedule: 2f2b\n", NULL, "job.yaml:15:11: schedule: ");
    expect_bad_job(b, "\t- x\n", NULL, "job.yaml:15");
    expect_bad_job(b, "", "model.n_head=3", "model.n_head 3; choose 15 or 18");
    expect_bad_job(b, "", "batch.sequence_length=17", "longer than model.n_positions 16");
    expect_bad_job(b, "", "parallel.pipeline_parallel=5", "choose at most 4");
    expect_bad_job(b, "", "parallel.pipelines=5", "parallel.pipelines");
    expect_bad_job(b, "", "train.steps=-1", "train.steps");
}

static void test_job_that_is_not_there(void **state)
{
    const bench *b = *state;
    const char *const argv[] = {CLI, "run", "nowhere.yaml", NULL};
    sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = b->dir});
    sc_proc_expect_line(proc, SC_PROC_ERR, "nowhere.yaml: ", PATIENCE_MS);
    sc_proc_expect_exit(proc, sc_status_exit_code(SC_IO), PATIENCE_MS);
    sc_proc_free(&proc);
}

static void test_token_file_that_cannot_be_used(void **state)
{
    const bench *b = *state;
    expect_refused(b, "", NULL, SC_IO, "tokens.bin cannot be opened");
    write_tokens(b, N_TOKENS, N_TOKENS - 1, -1, 0);
    expect_refused(b, "", NULL, SC_INVALID, "truncated: the header promises 257 tokens");
    write_tokens(b, 64, 64, -1, 0);
    expect_refused(b, "", NULL, SC_INVALID, "64 tokens are shorter than one batch");
    free(sc_tmpdir_write_text(b->dir, "tokens.bin", "These are not the tokens you want."));
    expect_refused(b, "", "data.format=llmc", SC_INVALID, "truncated: 34 bytes are less than");
    char zeros[SC_TOKENS_HEADER_BYTES + 1024] = {0};
    free(sc_tmpdir_write(b->dir, "tokens.bin", zeros, sizeof zeros));
    expect_refused(b, "", "data.format=llmc", SC_INVALID, "byte 0: wrong magic 0");
    free(sc_tmpdir_write(b->dir, "tokens.bin", zeros, 0));
    expect_refused(b, "", NULL, SC_INVALID, "tokens.bin is empty");
    expect_refused(b, "", "data.path=.", SC_INVALID, "is not a regular file");
}

/* Found while training: the step is named, and the steps before it are kept. */
static void test_token_over_the_vocabulary(void **state)
{
    const bench *b = *state;
    write_tokens(b, N_TOKENS, N_TOKENS, 100, 32);
    expect_refused(b, "", NULL, SC_INVALID, "token 100 is 32, not below vocab_size 32");
    char *metrics_path = sc_tmpdir_path(b->dir, "runs/x/metrics.jsonl");
    char *metrics = sc_tmpdir_read(metrics_path, NULL);
    char *log_path = sc_tmpdir_path(b->dir, "runs/x/log/coordinator.log");
    char *log = sc_tmpdir_read(log_path, NULL);
    int n_steps = 0;
    for (const char *at = metrics; (at = strchr(at, '\n')) != NULL; at++) {
        n_steps++;
    }
    char step[48];
    snprintf(step, sizeof step, "failed: step %d, action ", n_steps);
    if (strstr(log, step) == NULL) {
        fail_msg("%d steps are done, but the error does not say '%s': %s", n_steps, step, log);
    }
    free(log);
    free(log_path);
    free(metrics);
    free(metrics_path);
}

/* Root may write everywhere, so a file stands in the way. */
static void test_run_folder_that_cannot_be_made(void **state)
{
    const bench *b = *state;
    write_tokens(b, N_TOKENS, N_TOKENS, -1, 0);
    free(sc_tmpdir_write_text(b->dir, "runs", "in the way"));
    expect_refused(b, "", NULL, SC_IO, "output.runs_dir: ");
    expect_refused(b, "", "output.runs_dir=/proc/runs", SC_IO, "output.runs_dir: ");
    char *path = sc_tmpdir_path(b->dir, "runs");
    char *text = sc_tmpdir_read(path, NULL);
    assert_string_equal(text, "in the way");
    free(text);
    free(path);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_job_is_good_without_a_fault), CASE(test_job_says_what_cannot_be),
        CASE(test_job_that_is_not_there),       CASE(test_token_file_that_cannot_be_used),
        CASE(test_token_over_the_vocabulary),   CASE(test_run_folder_that_cannot_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
