/* `stagecoach swap` and the fake coordinator: what it asks for, of whom, and how it ends. */
#include "tests/cli/fake_run.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <signal.h>
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

typedef struct fixture {
    char *dir;
    sc_proc *run; // a job under way in runs/fake, as the fake coordinator names it
} fixture;

static int start_job(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->dir = sc_tmpdir_new();
    char *runs = sc_tmpdir_path(f->dir, "runs");
    assert_int_equal(mkdir(runs, 0777), 0);
    free(runs);
    const sc_fake_run run = {.coordinator = "wait", .dir = f->dir};
    f->run = sc_fake_run_start(
        &run, (const char *const[]){"run", "job.yaml", "--runs-dir", "runs", NULL});
    sc_proc_expect_line(f->run, SC_PROC_OUT, "training", PATIENCE_MS);
    *state = f;
    return 0;
}

static int stop_job(void **state)
{
    fixture *f = *state;
    sc_proc_signal(f->run, SIGINT);
    sc_proc_expect_exit(f->run, 130, PATIENCE_MS);
    sc_proc_free(&f->run);
    sc_proc_expect_none_left(PATIENCE_MS);
    sc_tmpdir_free(&f->dir);
    free(f);
    return 0;
}

#define SWAP(...) ((const char *const[]){"swap", __VA_ARGS__, NULL})

/* Runs it to its end; part is in its output, of an error in standard error. */
static void expect(const fixture *f, int code, const char *part, const char *const *args)
{
    const sc_fake_run run = {.dir = f->dir};
    sc_proc *proc = sc_fake_run_start(&run, args);
    sc_proc_expect_exit(proc, code, PATIENCE_MS);
    const char *text = sc_proc_text(proc, code == 0 ? SC_PROC_OUT : SC_PROC_ERR);
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in: %s", part, text);
    }
    sc_proc_free(&proc);
}

static void test_asks_for_a_schedule(void **state)
{
    const fixture *f = *state;
    char *endpoint_path = sc_tmpdir_path(f->dir, "runs/fake/endpoint");
    char *endpoint = sc_tmpdir_read(endpoint_path, NULL);
    endpoint[strcspn(endpoint, "\n")] = '\0';
    expect(f, 0, "asked for 'zb-h1'\n", SWAP("zb-h1", "runs/fake"));
    expect(f, 0, "asked for 'zb-h1 18446744073709551615'\n",
           SWAP("zb-h1", endpoint, "--at-step", "18446744073709551615"));
    expect(f, 0, "asked for 'gpipe 0'\n", SWAP("--at-step=0", "gpipe", "runs/fake"));
    free(endpoint);
    free(endpoint_path);
}

static void test_paths_become_absolute(void **state)
{
    const fixture *f = *state;
    char text[512];
    snprintf(text, sizeof text, "asked for 'file:%s/my/own.csv 7'\n", f->dir);
    expect(f, 0, text, SWAP("file:my/own.csv", "runs/fake", "--at-step", "7"));
    expect(f, 0, "asked for 'file:/my/own.csv'\n", SWAP("file:/my/own.csv", "runs/fake"));
}

static void test_refusal_is_an_error(void **state)
{
    expect(*state, 3, ": asked for 'zb-h9 3'\n", SWAP("zb-h9", "--at-step", "3", "runs/fake"));
}

static void test_only_run_under_way_is_found(void **state)
{
    const fixture *f = *state;
    expect(f, 0, "asked for 'zb-h1'\n", SWAP("zb-h1"));
    char *other = sc_tmpdir_path(f->dir, "runs/other");
    assert_int_equal(mkdir(other, 0777), 0);
    free(sc_tmpdir_write_text(other, "endpoint", "tcp://127.0.0.1:1\n"));
    expect(f, 3, "2 runs are under way in runs: say which", SWAP("zb-h1"));
    free(sc_tmpdir_write_text(other, "summary.json", "{}"));
    expect(f, 0, "asked for 'zb-h1'\n", SWAP("zb-h1"));
    expect(f, 3, "the run is over", SWAP("zb-h1", "runs/other"));
    free(other);
}

static void test_wrong_usage(void **state)
{
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect(*state, 2, "no schedule given", (const char *const[]){"swap", NULL});
    expect(*state, 2, "'c' is left over", SWAP("a", "b", "c"));
    expect(*state, 2, "'-1' is not a step", SWAP("a", "b", "--at-step=-1"));
    expect(*state, 2, "'3x' is not a step", SWAP("a", "b", "--at-step", "3x"));
    expect(*state, 2, "no spaces, please", SWAP("a 3", "runs/fake"));
    expect(*state, 2, "no spaces, please", SWAP("", "runs/fake"));
    expect(*state, 2, "at most 255 bytes", SWAP(name, "runs/fake"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, start_job, stop_job)
    const struct CMUnitTest tests[] = {
        CASE(test_asks_for_a_schedule), CASE(test_paths_become_absolute),
        CASE(test_refusal_is_an_error), CASE(test_only_run_under_way_is_found),
        CASE(test_wrong_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
