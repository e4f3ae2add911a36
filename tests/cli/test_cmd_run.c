/* `stagecoach run` with well-behaved daemons, and with daemons that fail. */
#include "tests/cli/fake_run.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    PATIENCE_MS = 20000
};

#define RUN(...) ((const char *const[]){"run", "job.yaml", __VA_ARGS__, NULL})

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

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("\"%s\" in:\n%s", part, text);
    }
}

/* Runs to the end and expects an exit code; the caller frees. */
static sc_proc *expect(const char *dir, const char *coordinator, const char *stage, int code,
                       const char *const *args)
{
    const sc_fake_run run = {.coordinator = coordinator, .stage = stage, .dir = dir};
    sc_proc *proc = sc_fake_run_start(&run, args);
    sc_proc_expect_exit(proc, code, PATIENCE_MS);
    return proc;
}

static void assert_file_has(const char *dir, const char *name, const char *part)
{
    char *path = sc_tmpdir_path(dir, name);
    char *text = sc_tmpdir_read(path, NULL);
    assert_has(text, part);
    free(text);
    free(path);
}

static void test_job_runs_to_its_end(void **state)
{
    sc_proc *proc = expect(*state, "ok", "ok", 0, RUN("--name", "x"));
    const char *out = sc_proc_text(proc, SC_PROC_OUT);
    // The first steps and the last have a line, and those between are too quick for one.
    // How many have come by the first message is chance.
    assert_has(out, "waiting ");
    assert_has(out, "/2 workers\n");
    assert_has(out, "step 1/12  loss 5.3750  1000 tok/s");
    assert_has(out, "step 3/12");
    assert_has(out, "step 12/12  loss 4.0000");
    assert_has(out, "eta 0:00");
    assert_lacks(out, "step 7/12");
    assert_has(out, "\nschedule  step ms\nfake         20.0\nrun folder: ./x\n");
    assert_lacks(out, "\r");
    assert_string_equal(sc_proc_text(proc, SC_PROC_ERR), "");
    sc_proc_free(&proc);
    assert_file_has(*state, "x/log/coordinator.log", "the coordinator is listening\n");
    assert_file_has(*state, "x/log/worker-0.log", "fake stage on cpu:0, cores ");
    assert_file_has(*state, "x/log/worker-1.log", "fake stage on cpu:1, cores ");
}

static void test_quiet_shows_the_summary_only(void **state)
{
    sc_proc *proc = expect(*state, "ok", "ok", 0, RUN("--quiet", "--name", "x"));
    assert_string_equal(sc_proc_text(proc, SC_PROC_OUT),
                        "schedule  step ms\nfake         20.0\nrun folder: ./x\n");
    sc_proc_free(&proc);
}

static void test_verbose_shows_the_coordinators_log(void **state)
{
    sc_proc *proc = expect(*state, "ok", "ok", 0, RUN("-v"));
    assert_string_equal(sc_proc_text(proc, SC_PROC_ERR), "the coordinator is listening\n");
    sc_proc_free(&proc);
    assert_file_has(*state, "fake/log/coordinator.log", "the coordinator is listening\n");
}

static void test_terminal_gets_a_bar(void **state)
{
    const sc_fake_run run = {.is_terminal = true, .dir = *state};
    sc_proc *proc = sc_fake_run_start(&run, RUN("--name", "x"));
    sc_proc_expect_exit(proc, 0, PATIENCE_MS);
    const char *out = sc_proc_text(proc, SC_PROC_OUT);
    assert_has(out, "\rwaiting ");
    assert_has(out, "/2 workers\x1b[K");
    assert_has(out, "\r[\x1b[32m==");
    assert_has(out, "==\x1b[0m] step 12/12  loss 4.0000");
    assert_has(out, "schedule  step ms");
    sc_proc_free(&proc);
}

static void test_options_reach_the_coordinator(void **state)
{
    sc_proc *proc = expect(*state, "ok", "ok", 0,
                           RUN("--set", "train.steps=2", "--set", "schedule=1f1b", "--runs-dir",
                               ".", "--name", "other"));
    assert_has(sc_proc_text(proc, SC_PROC_OUT), "step 2/2 ");
    sc_proc_free(&proc);
    assert_file_has(*state, "other/summary.json", "\"schedule\":\"1f1b\"");
}

static void test_dry_run_prints_the_plan(void **state)
{
    sc_proc *proc = expect(*state, "ok", "ok", 0, RUN("--dry-run", "--set", "schedule=1f1b"));
    assert_string_equal(sc_proc_text(proc, SC_PROC_OUT), "the plan of 1f1b\n");
    sc_proc_free(&proc);
    proc = expect(*state, "ok", "ok", 0, RUN("--dry-run", "--json"));
    assert_string_equal(sc_proc_text(proc, SC_PROC_OUT), "{\"plan\":\"gpipe\"}\n");
    sc_proc_free(&proc);
    proc = expect(*state, "bad", "ok", 3, RUN("--dry-run"));
    assert_string_equal(sc_proc_text(proc, SC_PROC_ERR), "job.yaml:1:1: nonsense: unknown key\n");
    sc_proc_free(&proc);
}

static void test_bad_job_is_told_once_with_its_code(void **state)
{
    sc_proc *proc = expect(*state, "bad", "ok", 3, RUN("--name", "x"));
    assert_string_equal(sc_proc_text(proc, SC_PROC_ERR), "job.yaml:1:1: nonsense: unknown key\n");
    assert_string_equal(sc_proc_text(proc, SC_PROC_OUT), "");
    sc_proc_free(&proc);
}

static void test_coordinator_that_never_gets_ready(void **state)
{
    static const struct {
        const char *mode;
        int code;
        const char *text;
    } CASES[] = {
        {"crash", 1, "ended before it was ready: killed by signal 9 (Killed)"},
        {"mute", 1, "ended before it was ready: exit status 0"},
        {"hang", 8, "was not ready after 0.2 s"},
        {"garbage", 7, "announcement has no usable \"endpoint\""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sc_proc *proc =
            expect(*state, CASES[i].mode, "ok", CASES[i].code,
                   RUN("--ready-timeout", strcmp(CASES[i].mode, "hang") == 0 ? "0.2" : "30"));
        assert_has(sc_proc_text(proc, SC_PROC_ERR), CASES[i].text);
        sc_proc_free(&proc);
    }
}

static void test_coordinator_that_dies_is_told_with_its_log(void **state)
{
    sc_proc *proc = expect(*state, "die", "ok", 7, RUN("--name", "x"));
    const char *text = sc_proc_text(proc, SC_PROC_ERR);
    assert_has(text, "stagecoach: the coordinator ended in the middle of the job: exit status 7\n");
    assert_has(text, "its log is ./x/log/coordinator.log, which ends:\n");
    assert_has(text, "last words of the coordinator\n");
    sc_proc_free(&proc);
}

static void test_dead_worker_is_named_with_its_log(void **state)
{
    sc_proc *proc = expect(*state, "name-dead", "kill", 9, RUN("--name", "x"));
    const char *text = sc_proc_text(proc, SC_PROC_ERR);
    assert_has(text, "stagecoach: rank 1 is dead: step 3, action 1F2\nworker 1 (pid ");
    assert_has(text, "): killed by signal 9 (Killed); its log is ./x/log/worker-1.log");
    assert_has(text, "the last words of a worker\n");
    sc_proc_free(&proc);
}

static void test_worker_that_never_joins_ends_the_job(void **state)
{
    sc_proc *proc = expect(*state, "silent", "exit", 9, RUN("--name", "x"));
    const char *text = sc_proc_text(proc, SC_PROC_ERR);
    assert_has(text, "ended before the job was over: exit status 6\n");
    assert_has(text, "no such device cpu:1\n");
    sc_proc_free(&proc);
}

static void test_what_a_worker_started_is_not_left(void **state)
{
    sc_proc *proc = expect(*state, "ok", "grandchild", 0, RUN("--name", "x"));
    sc_proc_free(&proc);
    // remove_dir looks for processes.
}

static void test_wrong_usage(void **state)
{
    static const char *const CASES[][4] = {
        {"run", NULL},
        {"run", "a.yaml", "b.yaml", NULL},
        {"run", "--set", "nonsense", NULL},
        {"run", "a.yaml", "--json", NULL},
        {"run", "--ready-timeout", "soon", NULL},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sc_proc *proc = expect(*state, "ok", "ok", 2, CASES[i]);
        sc_proc_free(&proc);
    }
}

static void test_missing_daemons(void **state)
{
    char *empty = sc_tmpdir_path(*state, "empty");
    const char *const copy[] = {"cp", FAKE_DIR "/stagecoach", empty, NULL};
    sc_proc *proc = sc_proc_start(&(sc_proc_config){.argv = copy});
    sc_proc_expect_exit(proc, 0, PATIENCE_MS);
    sc_proc_free(&proc);
    const char *const args[] = {empty, "run", "job.yaml", NULL};
    const char *const env[] = {"PATH=/nonexistent:", NULL};
    proc = sc_proc_start(&(sc_proc_config){.argv = args, .env = env, .dir = *state});
    sc_proc_expect_exit(proc, 3, PATIENCE_MS);
    assert_has(sc_proc_text(proc, SC_PROC_ERR),
               "stagecoach-coordinator is neither beside this program nor in PATH");
    sc_proc_free(&proc);
    free(empty);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(test_job_runs_to_its_end),
        CASE(test_quiet_shows_the_summary_only),
        CASE(test_verbose_shows_the_coordinators_log),
        CASE(test_terminal_gets_a_bar),
        CASE(test_options_reach_the_coordinator),
        CASE(test_dry_run_prints_the_plan),
        CASE(test_bad_job_is_told_once_with_its_code),
        CASE(test_coordinator_that_never_gets_ready),
        CASE(test_coordinator_that_dies_is_told_with_its_log),
        CASE(test_dead_worker_is_named_with_its_log),
        CASE(test_worker_that_never_joins_ends_the_job),
        CASE(test_what_a_worker_started_is_not_left),
        CASE(test_wrong_usage),
        CASE(test_missing_daemons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
