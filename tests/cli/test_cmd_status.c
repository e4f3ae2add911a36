/* `stagecoach status` and `stop`: of a job that runs, of one that is over, of nobody. */
#include "tests/cli/fake_run.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
    PATIENCE_MS = 20000
};

static int make_dir(void **state)
{
    *state = sc_tmpdir_new();
    return 0;
}

static int remove_dir(void **state)
{
    char *dir = *state;
    sc_proc_expect_none_left(PATIENCE_MS);
    sc_tmpdir_free(&dir);
    return 0;
}

static sc_proc *expect(const char *dir, int code, const char *verb, const char *target,
                       const char *option)
{
    const char *const args[] = {verb, target, option, NULL};
    const sc_fake_run run = {.dir = dir};
    sc_proc *proc = sc_fake_run_start(&run, args);
    sc_proc_expect_exit(proc, code, PATIENCE_MS);
    return proc;
}

static void expect_text(const char *dir, int code, const char *const words[3],
                        sc_proc_stream stream, const char *part)
{
    sc_proc *proc = expect(dir, code, words[0], words[1], words[2]);
    if (strstr(sc_proc_text(proc, stream), part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, sc_proc_text(proc, stream));
    }
    sc_proc_free(&proc);
}

#define WORDS(...) ((const char *const[3]){__VA_ARGS__})

static void test_running_job_answers_and_stops(void **state)
{
    const char *dir = *state;
    static const char *const RUN[] = {"run", "job.yaml", "--name", "x", NULL};
    const sc_fake_run run = {.coordinator = "wait", .dir = dir};
    sc_proc *job = sc_fake_run_start(&run, RUN);
    sc_proc_expect_line(job, SC_PROC_OUT, "training", PATIENCE_MS);
    expect_text(dir, 0, WORDS("status", "x"), SC_PROC_OUT,
                "step            3\nworkers         2\nphase           training\n");
    expect_text(dir, 0, WORDS("status", "x", "--json"), SC_PROC_OUT,
                "{\"step\":3,\"workers\":2,\"phase\":\"training\"}\n");
    // By its endpoint, as the folder's file gives it.
    char *path = sc_tmpdir_path(dir, "x/endpoint");
    char *endpoint = sc_tmpdir_read(path, NULL);
    endpoint[strcspn(endpoint, "\n")] = '\0';
    expect_text(dir, 0, WORDS("status", endpoint), SC_PROC_OUT, "phase           training\n");
    expect_text(dir, 0, WORDS("stop", endpoint), SC_PROC_OUT, "stopping\n");
    sc_proc_expect_exit(job, 130, PATIENCE_MS);
    assert_non_null(strstr(sc_proc_text(job, SC_PROC_ERR), "stagecoach: stopped on request\n"));
    sc_proc_free(&job);
    free(endpoint);
    free(path);
}

static void test_run_that_is_over_shows_its_summary(void **state)
{
    const char *dir = *state;
    char *run_dir = sc_tmpdir_path(dir, "x");
    assert_int_equal(mkdir(run_dir, 0777), 0);
    free(sc_tmpdir_write_text(run_dir, "summary.txt", "the summary\n"));
    free(sc_tmpdir_write_text(run_dir, "summary.json", "{\"steps\":1}\n"));
    expect_text(dir, 0, WORDS("status", "x"), SC_PROC_OUT, "the summary\n");
    expect_text(dir, 0, WORDS("status", "x", "--json"), SC_PROC_OUT, "{\"steps\":1}\n");
    expect_text(dir, 3, WORDS("stop", "x"), SC_PROC_ERR, "x: the run is over");
    free(run_dir);
}

static void test_nobody_there(void **state)
{
    const char *dir = *state;
    // Nobody listens on the discard port of the loopback address here.
    expect_text(dir, 8, WORDS("status", "tcp://127.0.0.1:9"), SC_PROC_ERR,
                "tcp://127.0.0.1:9: no answer within 5.0 s");
    expect_text(dir, 3, WORDS("status", "nonsense://x"), SC_PROC_ERR,
                "nonsense://x: Protocol not supported; an endpoint looks like tcp://");
    expect_text(dir, 4, WORDS("status", "nowhere"), SC_PROC_ERR, "nowhere/endpoint: cannot open");
    expect_text(dir, 2, WORDS("status", NULL), SC_PROC_ERR, "no endpoint and no run folder given");
    expect_text(dir, 2, WORDS("stop", "a", "b"), SC_PROC_ERR, "one run at a time");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(test_running_job_answers_and_stops),
        CASE(test_run_that_is_over_shows_its_summary),
        CASE(test_nobody_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
