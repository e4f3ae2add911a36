/* `stagecoach compare` among the fake daemons. */
#include "tests/cli/fake_run.h"
#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

#define COMPARE(...) ((const char *const[]){"compare", "my.job.yaml", __VA_ARGS__, NULL})

static sc_proc *expect(const char *dir, const char *coordinator, int code, const char *const *args)
{
    const sc_fake_run run = {.coordinator = coordinator, .dir = dir};
    sc_proc *proc = sc_fake_run_start(&run, args);
    sc_proc_expect_exit(proc, code, PATIENCE_MS);
    return proc;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static bool is_there(const char *dir, const char *name)
{
    char *path = sc_tmpdir_path(dir, name);
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

static cJSON *read_schedules(const char *dir, const char *name)
{
    char *path = sc_tmpdir_path(dir, name);
    char *text = sc_tmpdir_read(path, NULL);
    cJSON *summary = cJSON_Parse(text);
    cJSON *list = cJSON_DetachItemFromObject(summary, "schedules");
    assert_non_null(list);
    cJSON_Delete(summary);
    free(text);
    free(path);
    return list;
}

static void test_schedules_take_turns_in_one_job(void **state)
{
    sc_proc *proc = expect(*state, "ok", 0, COMPARE("--schedules", "gpipe,1f1b", "--steps", "20"));
    const char *out = sc_proc_text(proc, SC_PROC_OUT);
    assert_has(out, "gpipe,1f1b: 24 steps each, in turns of 8\n");
    assert_has(out, "step 48/48 ");
    assert_has(out, "\ngpipe     1    81.50 ");
    assert_has(out, "\n1f1b      1    80.25 ");
    assert_has(out, "  20.00..37.50 %  ");
    assert_has(out, "\nrun folder: ./my.job-compare\n");
    sc_proc_free(&proc);
    assert_true(is_there(*state, "my.job-compare/log/worker-1.log"));
}

static void test_steps_become_whole_turns(void **state)
{
    static const struct {
        const char *steps;
        const char *every;
        const char *part; // of what is told
    } CASES[] = {
        {NULL, NULL, ": 16 steps each, in turns of 8\n"},
        {"4", NULL, ": 4 steps each, in turns of 4\n"},
        {"7", NULL, ": 7 steps each, in turns of 7\n"},
        {"8", NULL, ": 8 steps each, in turns of 4\n"},
        {"15", NULL, ": 16 steps each, in turns of 8\n"},
        {"16", NULL, ": 16 steps each, in turns of 8\n"},
        {"17", NULL, ": 24 steps each, in turns of 8\n"},
        {NULL, "5", ": 10 steps each, in turns of 5\n"},
        {"12", "5", ": 15 steps each, in turns of 5\n"},
        {"4", "5", ": 5 steps each, in turns of 5\n"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const char *args[10] = {"compare", "job.yaml", "--schedules", "1f1b,gpipe"};
        size_t n = 4;
        if (CASES[i].steps != NULL) {
            args[n++] = "--steps";
            args[n++] = CASES[i].steps;
        }
        if (CASES[i].every != NULL) {
            args[n++] = "--every";
            args[n++] = CASES[i].every;
        }
        sc_proc *proc = expect(*state, "bad", 3, args);
        assert_has(sc_proc_text(proc, SC_PROC_OUT), CASES[i].part);
        sc_proc_free(&proc);
    }
}

/* What is told is also what the coordinator was asked for. */
static void test_turns_reach_the_coordinator(void **state)
{
    sc_proc *proc =
        expect(*state, "ok", 0,
               COMPARE("--schedules", "zb-h1,file:my.csv", "--steps", "11", "--every", "6", "-q"));
    sc_proc_free(&proc);
    cJSON *list = read_schedules(*state, "my.job-compare/summary.json");
    assert_int_equal(cJSON_GetArraySize(list), 2);
    const cJSON *row = cJSON_GetArrayItem(list, 1);
    assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, "file:my.csv");
    assert_int_equal(cJSON_GetObjectItem(row, "steps")->valueint, 24); // of the job
    assert_int_equal(cJSON_GetObjectItem(row, "turn")->valueint, 6);
    cJSON_Delete(list);
}

static void test_json_is_alone_on_standard_output(void **state)
{
    sc_proc *proc = expect(*state, "ok", 0, COMPARE("--schedules", "1f1b", "--json"));
    cJSON *object = cJSON_Parse(sc_proc_text(proc, SC_PROC_OUT));
    assert_non_null(object);
    assert_string_equal(cJSON_GetObjectItem(object, "run_dir")->valuestring, "./my.job-compare");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "schedules");
    assert_int_equal(cJSON_GetArraySize(list), 1);
    const cJSON *row = cJSON_GetArrayItem(list, 0);
    assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, "1f1b");
    assert_true(cJSON_GetObjectItem(row, "final_loss")->valuedouble == 4.0625);
    cJSON_Delete(object);
    assert_has(sc_proc_text(proc, SC_PROC_ERR), "step 16/16");
    sc_proc_free(&proc);
}

static void test_wrong_usage_starts_nothing(void **state)
{
    static const struct {
        const char *const args[8];
        const char *part;
    } CASES[] = {
        {{"compare", "job.yaml", NULL}, "no --schedules given"},
        {{"compare", "--schedules", "gpipe", NULL}, "no job file given"},
        {{"compare", "job.yaml", "--schedules", "gpipe,zigzag", NULL},
         "there is no schedule 'zigzag'; known are gpipe"},
        {{"compare", "job.yaml", "--schedules", "gpipe,", NULL}, "there is no schedule ''"},
        {{"compare", "job.yaml", "--schedules", "file:,gpipe", NULL},
         "there is no schedule 'file:'"},
        {{"compare", "job.yaml", "--schedules", "gpipe,1f1b,gpipe", NULL},
         "'gpipe' is there twice"},
        {{"compare", "job.yaml", "--schedules", "gpipe", "--steps", "3", NULL},
         "'3' is not a number of steps in 4.."},
        {{"compare", "job.yaml", "--schedules", "gpipe", "--steps", "5x", NULL},
         "'5x' is not a number of steps"},
        {{"compare", "job.yaml", "--schedules", "gpipe", "--every", "3", NULL},
         "--every: '3' is not a number of steps"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sc_proc *proc = expect(*state, "ok", 2, CASES[i].args);
        assert_has(sc_proc_text(proc, SC_PROC_ERR), CASES[i].part);
        sc_proc_free(&proc);
    }
    assert_false(is_there(*state, "job-compare"));
}

static void test_failed_run_leaves_no_table(void **state)
{
    sc_proc *proc = expect(*state, "die", 7, COMPARE("--schedules", "gpipe,1f1b"));
    assert_has(sc_proc_text(proc, SC_PROC_ERR),
               "stagecoach: the coordinator ended in the middle of the job");
    assert_null(strstr(sc_proc_text(proc, SC_PROC_OUT), "step ms"));
    sc_proc_free(&proc);
    proc = expect(*state, "bad", 3, COMPARE("--schedules", "gpipe,1f1b"));
    assert_string_equal(sc_proc_text(proc, SC_PROC_ERR), "job.yaml:1:1: nonsense: unknown key\n");
    sc_proc_free(&proc);
}

static void test_summary_without_numbers_is_refused(void **state)
{
    sc_proc *proc = expect(*state, "no-numbers", 3, COMPARE("--schedules", "gpipe"));
    assert_has(sc_proc_text(proc, SC_PROC_ERR),
               "stagecoach: ./my.job-compare/summary.json: schedules[0]: v is missing or no "
               "number\n");
    sc_proc_free(&proc);
}

static void test_odd_job_names_make_plain_folders(void **state)
{
    static const char *const ARGS[] = {"compare", "./.a b\xc3\xa9.yaml", "--schedules", "gpipe",
                                       NULL};
    sc_proc *proc = expect(*state, "ok", 0, ARGS);
    sc_proc_free(&proc);
    assert_true(is_there(*state, "_a_b__-compare/summary.json"));
}

static void test_interrupt_ends_the_comparison(void **state)
{
    const sc_fake_run run = {.coordinator = "wait", .dir = *state};
    sc_proc *proc = sc_fake_run_start(&run, COMPARE("--schedules", "gpipe,1f1b"));
    sc_proc_expect_line(proc, SC_PROC_OUT, "training", PATIENCE_MS);
    sc_proc_signal(proc, SIGINT);
    sc_proc_expect_exit(proc, 130, PATIENCE_MS);
    assert_null(strstr(sc_proc_text(proc, SC_PROC_OUT), "step ms"));
    sc_proc_free(&proc);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(test_schedules_take_turns_in_one_job),    CASE(test_steps_become_whole_turns),
        CASE(test_turns_reach_the_coordinator),        CASE(test_json_is_alone_on_standard_output),
        CASE(test_wrong_usage_starts_nothing),         CASE(test_failed_run_leaves_no_table),
        CASE(test_summary_without_numbers_is_refused), CASE(test_odd_job_names_make_plain_folders),
        CASE(test_interrupt_ends_the_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
