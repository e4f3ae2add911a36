#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum {
    TIMEOUT_MS = 20000
};

static const char PROGRAM[] = SC_BIN_DIR "/stagecoach";

#define RUN(...) SC_PROC_RUN(TIMEOUT_MS, PROGRAM, __VA_ARGS__)

static const char *out_of(const sc_proc *proc)
{
    return sc_proc_text(proc, SC_PROC_OUT);
}

static const char *err_of(const sc_proc *proc)
{
    return sc_proc_text(proc, SC_PROC_ERR);
}

/* Fails the test, showing the text, unless it has the part. */
static void expect_part(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

/* Exit code and output of a program that ended; frees it. */
static void expect_end(sc_proc *proc, int code, const char *out, const char *err)
{
    sc_proc_expect_exit(proc, code, TIMEOUT_MS);
    expect_part(out_of(proc), out);
    expect_part(err_of(proc), err);
    sc_proc_free(&proc);
}

static cJSON *json_of(sc_proc *proc, int code)
{
    sc_proc_expect_exit(proc, code, TIMEOUT_MS);
    cJSON *root = cJSON_Parse(out_of(proc));
    if (root == NULL) {
        fail_msg("no JSON: %s", out_of(proc));
    }
    sc_proc_free(&proc);
    return root;
}

static double number_of(const cJSON *root, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(root, key);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void test_program(void **state)
{
    (void)state;
    expect_end(RUN("--version"), 0, "stagecoach 0.", "");
    expect_end(RUN("--help"), 0, "schedule", "");
    expect_end(RUN("schedul"), 2, "", "unknown command 'schedul'; the commands are ");
    expect_end(SC_PROC_RUN(TIMEOUT_MS, PROGRAM), 2, "", "no command given");
}

static void test_list(void **state)
{
    (void)state;
    sc_proc *proc = RUN("schedule", "list");
    expect_part(out_of(proc), "gpipe");
    expect_end(proc, 0, "1f1b", "");
    cJSON *root = json_of(RUN("schedule", "list", "--json"), 0);
    assert_true(cJSON_GetArraySize(root) >= 2);
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(root->child, "name"));
    assert_string_equal(name, "gpipe");
    // the text has each with its constraints
    const cJSON *entry = NULL;
    proc = RUN("schedule", "list");
    cJSON_ArrayForEach(entry, root)
    {
        expect_part(out_of(proc), cJSON_GetStringValue(cJSON_GetObjectItem(entry, "name")));
        const char *constraints = cJSON_GetStringValue(cJSON_GetObjectItem(entry, "constraints"));
        assert_true(strlen(constraints) > 0);
        expect_part(out_of(proc), constraints);
        assert_true(cJSON_GetObjectItem(entry, "default_v")->valueint >= 1);
    }
    sc_proc_free(&proc);
    cJSON_Delete(root);
}

static void test_show(void **state)
{
    (void)state;
    sc_proc *proc = RUN("schedule", "show", "1f1b", "-p", "2", "-m", "3", "--width", "40");
    expect_part(out_of(proc), "rank 0 |F0F1....B0--F2B1--..B2--|\n"
                              "rank 1 |..F0B0--F1B1--F2B2--....|\n");
    expect_end(proc, 0,
               "1f1b: p 2, stages 2, m 3; cost 12, makespan 12, ideal 9\n"
               "bubble 25.00 % of the cost (Zero Bubble's convention), 25.00 % of the makespan "
               "(GPipe's), 33.33 % of the ideal (Megatron-LM's)\n"
               "peak 2 1 microbatches on rank 0, 1, ...\n",
               "");
    expect_end(RUN("schedule", "show", "1f1b", "-p", "2", "-m", "3", "--lowered"), 0,
               "rank 1: 1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,"
               "1SEND_B2,1REDUCE_GRAD\n",
               "");
}

/* Rank 0 has the first and the last of four stages. */
static void test_check_placement(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    char *path = sc_tmpdir_write_text(dir, "v.csv",
                                      "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n"
                                      "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
    expect_end(RUN("schedule", "check", path), 0,
               "v.csv: p 2, stages 4, m 2\n"
               "rank 0: stages 0 3, peak 1.5 microbatches\n"
               "rank 1: stages 1 2, peak 2 microbatches\n",
               "");
    cJSON *root = json_of(RUN("schedule", "check", path, "--json"), 0);
    const cJSON *stages = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "ranks"), 0);
    assert_int_equal(cJSON_GetArraySize(stages), 2);
    assert_int_equal(cJSON_GetArrayItem(stages, 1)->valueint, 3);
    assert_float_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(root, "peak"), 0)->valuedouble, 1.5,
                       1e-9);
    cJSON_Delete(root);
    free(path);
    sc_tmpdir_free(&dir);
}

/* Qi et al., Tables 9 and 5: 28.3B, m = 96. */
static void test_show_json(void **state)
{
    (void)state;
    cJSON *root = json_of(RUN("schedule", "show", "1f1b", "-p", "32", "-m", "96", "--costs",
                              "10.419,10.207,7.715,.408", "--json"),
                          0);
    assert_float_equal(number_of(root, "bubble"), 0.2646, 0.00005);
    assert_true(number_of(root, "cost") <= number_of(root, "makespan"));
    const cJSON *peaks = cJSON_GetObjectItem(root, "peak");
    assert_int_equal(cJSON_GetArraySize(peaks), 32);
    for (int rank = 0; rank < 32; rank++) {
        assert_int_equal(cJSON_GetArrayItem(peaks, rank)->valueint, 32 - rank);
    }
    cJSON_Delete(root);
}

/* What show writes, check and simulate read. */
static void test_files(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    char *csv = sc_tmpdir_path(dir, "s.csv");
    char *svg = sc_tmpdir_path(dir, "s.svg");
    char *trace = sc_tmpdir_path(dir, "s.json");
    expect_end(RUN("schedule", "show", "1f1b", "-p", "3", "-m", "4", "--csv", csv, "--svg", svg,
                   "--trace", trace, "--costs", "1,1,1,0.5"),
               0, "cost ", "");
    char *text = sc_tmpdir_read(csv, NULL);
    expect_part(text, "# placement: 0 1 2\n0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3\n");
    free(text);
    text = sc_tmpdir_read(svg, NULL);
    expect_part(text, "</svg>");
    free(text);
    text = sc_tmpdir_read(trace, NULL);
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    cJSON_Delete(root);
    free(text);
    sc_proc *proc = RUN("schedule", "check", csv);
    expect_part(out_of(proc), "s.csv: ok\n1f1b: p 3, stages 3, m 4\n"
                              "rank 0: stages 0, peak 3 microbatches\n"
                              "rank 1: stages 1, peak 2 microbatches\n"
                              "rank 2: stages 2, peak 1 microbatches\n");
    expect_end(proc, 0, "where every SEND and RECV blocks in place: deadlock: rank ", "");
    root = json_of(RUN("schedule", "simulate", csv, "--costs", "1,1,1,0.5", "--json"), 0);
    cJSON *shown = json_of(
        RUN("schedule", "show", "1f1b", "-p", "3", "-m", "4", "--costs", "1,1,1,0.5", "--json"), 0);
    assert_true(number_of(root, "cost") == number_of(shown, "cost"));
    assert_true(number_of(root, "cost") > 18);
    cJSON_Delete(shown);
    cJSON_Delete(root);
    // without comments, to a pipe
    proc = RUN("schedule", "show", "gpipe", "-p", "1", "-m", "1", "--csv", "-", "--plain");
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    assert_string_equal(out_of(proc), "0F0,0B0\n");
    sc_proc_free(&proc);
    free(trace);
    free(svg);
    free(csv);
    sc_tmpdir_free(&dir);
}

static void test_check(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"0F0,0F1,0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n", "f.csv:1:9: duplicate 0F0"},
        {"0F0,0F7,0B0,0B1\n1F0,1B0,1F1,1B1\n", "f.csv:1:5: 0F7: microbatch 7 is out of range"},
        {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n", "f.csv:2:9: missing backward: stage 1 has 1F1"},
        {"0F0,0W0,0I0\n", "f.csv:1:5: 0W0 before its 0I0"},
        {"0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n", "f.csv:2:1: 1RECV_F0 has no 0SEND_F0"},
        {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "f.csv:1:5: deadlock: rank 0 cell 1 (0B0) waits"},
        {"0F0xyz,0B0\n", "f.csv:1:1: \"0F0xyz\": \"xyz\" is left over"},
        {"0F0,0B0\n1F0,1B0,9F0\n", "f.csv:2:9: 9F0: unknown stage 9"},
        {"0F0,0B0,0W0\n", "f.csv:1:9: 0W0 beside 0B0, and no I in the file"},
    };
    char *dir = sc_tmpdir_new();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = sc_tmpdir_write_text(dir, "f.csv", cases[i].text);
        sc_proc *proc = RUN("schedule", "check", path);
        // the place comes first, as compilers write it, and all of it is one line
        assert_int_equal(strncmp(err_of(proc), path, strlen(path)), 0);
        assert_ptr_equal(strchr(err_of(proc), '\n'), strrchr(err_of(proc), '\n'));
        expect_end(proc, 1, "", cases[i].why);
        cJSON *root = json_of(RUN("schedule", "check", path, "--json"), 1);
        assert_true(cJSON_IsFalse(cJSON_GetObjectItem(root, "ok")));
        expect_part(cJSON_GetStringValue(cJSON_GetObjectItem(root, "error")), cases[i].why);
        cJSON_Delete(root);
        expect_end(RUN("schedule", "simulate", path), 3, "", cases[i].why);
        free(path);
    }
    // the last one, read as what it is
    char *path = sc_tmpdir_write_text(dir, "f.csv", "0F0,0B0,0W0\n");
    expect_end(RUN("schedule", "check", "--legacy", path), 0, "f.csv: ok\n", "");
    free(path);
    sc_tmpdir_free(&dir);
}

static void test_usage(void **state)
{
    (void)state;
    static const struct {
        const char *argv[12]; // NULL-terminated
        int code;
        const char *why;
    } cases[] = {
        {{PROGRAM, "schedule"}, 2, "say list, show, compare, check or simulate"},
        {{PROGRAM, "schedule", "draw"}, 2, "unknown word 'draw'"},
        {{PROGRAM, "schedule", "list", "x"}, 2, "'x' is left over"},
        {{PROGRAM, "schedule", "show"}, 2, "show needs NAME"},
        {{PROGRAM, "schedule", "show", "1f1b", "-m", "2"}, 2, "needs the number of ranks"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "2"}, 2, "needs the number of microbatches"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "0"}, 2, "-p: '0' is not a number from 1 on"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "2x"}, 2, "-p: '2x' is not a number"},
        {{PROGRAM, "schedule", "check"}, 2, "check needs FILE.csv"},
        {{PROGRAM, "schedule", "check", "a.csv", "--svg", "x"}, 2, "--svg does not go with check"},
        {{PROGRAM, "schedule", "check", "a.csv", "-p", "2"}, 2, "-p does not go with check"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "2", "-m", "2", "--costs=1,1,1"},
         2,
         "four numbers, none negative"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "2", "-m", "2", "--costs=1,-1,1,0"},
         2,
         "four numbers, none negative"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "2", "-m", "2", "--plain"},
         2,
         "--plain is about the file of --csv"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "2", "-m", "2", "--width=9"},
         3,
         "9 columns; choose 40"},
        {{PROGRAM, "schedule", "show", "2f2b", "-p", "2", "-m", "2"},
         3,
         "unknown schedule '2f2b'; the schedules are gpipe, 1f1b"},
        {{PROGRAM, "schedule", "show", "gpipe", "-p", "2", "-m", "2", "-v", "2"},
         3,
         "one stage a rank only"},
        {{PROGRAM, "schedule", "check", "/nonexistent/a.csv"},
         4,
         "/nonexistent/a.csv: cannot open"},
        {{PROGRAM, "schedule", "show", "1f1b", "-p", "1", "-m", "1", "--svg=/nonexistent/a"},
         4,
         "/nonexistent/a: cannot create"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sc_proc *proc = sc_proc_run(&(sc_proc_config){.argv = cases[i].argv}, TIMEOUT_MS);
        expect_end(proc, cases[i].code, "", cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_show_json),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_check_placement),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
