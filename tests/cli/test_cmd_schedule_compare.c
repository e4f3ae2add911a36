#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    TIMEOUT_MS = 20000
};

static const char PROGRAM[] = SC_BIN_DIR "/stagecoach";

#define RUN(...) SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "schedule", __VA_ARGS__)

/* What a run of 2 ranks with a stage each leaves; F 10 and 20, I 5 and 10, W 5 and 10 ms. */
static const char PLAN[] = "{\"schedule\": \"1f1b\", \"pipeline_parallel\": 2, \"n_stages\": 2, "
                           "\"num_microbatches\": 6, \"stages\": [{\"rank\": 0, "
                           "\"message_bytes\": 1048576}, {\"rank\": 1, \"message_bytes\": 64}]}";
static const char SUMMARY[] = "{\"comm_ms\": 0, \"stages\": [{\"f_ms\": 10, \"i_ms\": 5, "
                              "\"w_ms\": 5}, {\"f_ms\": 20, \"i_ms\": 10, \"w_ms\": 10}]}";

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
    expect_part(sc_proc_text(proc, SC_PROC_OUT), out);
    expect_part(sc_proc_text(proc, SC_PROC_ERR), err);
    sc_proc_free(&proc);
}

static cJSON *json_of(sc_proc *proc)
{
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    cJSON *root = cJSON_Parse(sc_proc_text(proc, SC_PROC_OUT));
    if (root == NULL) {
        fail_msg("no JSON: %s", sc_proc_text(proc, SC_PROC_OUT));
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

/* The entry of a name in a list; NULL when there is none. */
static const cJSON *find(const cJSON *root, const char *list, const char *name)
{
    const cJSON *entry = NULL;
    const cJSON *entries = cJSON_GetObjectItem(root, list);
    assert_true(cJSON_IsArray(entries));
    cJSON_ArrayForEach(entry, entries)
    {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "name")), name) == 0) {
            return entry;
        }
    }
    return NULL;
}

static const cJSON *expect_entry(const cJSON *root, const char *list, const char *name)
{
    const cJSON *entry = find(root, list, name);
    if (entry == NULL) {
        fail_msg("no %s among %s", name, list);
    }
    return entry;
}

/* p = 4, m = 8 at unit times: the numbers of the papers. */
static void test_table(void **state)
{
    (void)state;
    sc_proc *proc = RUN("compare", "-p", "4", "-m", "8");
    expect_part(sc_proc_text(proc, SC_PROC_OUT), "p 4, m 8, F,I,W,COMM = 1,1,1,0\n");
    expect_end(proc, 0, "blocking-safe\n", "");
    cJSON *root = json_of(RUN("compare", "-p", "4", "-m", "8", "--json"));
    const cJSON *entry = expect_entry(root, "schedules", "1f1b");
    assert_float_equal(number_of(entry, "cost"), 33, 1e-9);
    assert_float_equal(number_of(entry, "ideal"), 24, 1e-9);
    assert_float_equal(number_of(entry, "peak"), 4, 0);
    assert_float_equal(number_of(entry, "messages"), 2 * 3 * 8, 0);
    const cJSON *bubbles = cJSON_GetObjectItem(entry, "bubbles");
    assert_float_equal(number_of(bubbles, "gpipe"), 3.0 / 11, 1e-9);
    assert_float_equal(number_of(bubbles, "megatron"), 3.0 / 8, 1e-9);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(entry, "blocking_deadlock")));
    entry = expect_entry(root, "schedules", "gpipe");
    assert_float_equal(number_of(entry, "peak"), 8, 0);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(entry, "blocking_deadlock")));
    // ranks that start late end late: the conventions differ
    entry = expect_entry(root, "schedules", "zb-h2");
    assert_float_equal(number_of(entry, "cost"), 24, 1e-9);
    assert_float_equal(number_of(entry, "makespan"), 27, 1e-9);
    bubbles = cJSON_GetObjectItem(entry, "bubbles");
    assert_float_equal(number_of(bubbles, "zero_bubble"), 0, 1e-9);
    assert_float_equal(number_of(bubbles, "gpipe"), 3.0 / 27, 1e-9);
    assert_float_equal(number_of(bubbles, "megatron"), 3.0 / 24, 1e-9);
    cJSON_Delete(root);
}

/* Every schedule of the list is either compared or refused by name, at awkward sizes too. */
static void test_all_listed(void **state)
{
    (void)state;
    static const char *const sizes[][2] = {{"1", "1"}, {"2", "1"}, {"3", "7"}, {"6", "5"}};
    cJSON *list = json_of(RUN("list", "--json"));
    assert_true(cJSON_GetArraySize(list) >= 5);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        cJSON *root = json_of(RUN("compare", "-p", sizes[i][0], "-m", sizes[i][1], "--json"));
        const cJSON *info = NULL;
        cJSON_ArrayForEach(info, list)
        {
            const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(info, "name"));
            const cJSON *refused = find(root, "refused", name);
            assert_true((find(root, "schedules", name) == NULL) == (refused != NULL));
            if (refused != NULL) {
                const char *why = cJSON_GetStringValue(cJSON_GetObjectItem(refused, "reason"));
                assert_int_equal(strncmp(why, name, strlen(name)), 0);
            }
        }
        cJSON_Delete(root);
    }
    cJSON_Delete(list);
}

/* Entries come sorted, by the key that was asked for. */
static void test_sort(void **state)
{
    (void)state;
    for (int by_peak = 0; by_peak < 2; by_peak++) {
        const char *key = by_peak ? "peak" : "cost";
        cJSON *root = json_of(RUN("compare", "-p", "4", "-m", "9", "--sort", key, "--json"));
        const cJSON *entry = NULL;
        double before = 0;
        cJSON_ArrayForEach(entry, cJSON_GetObjectItem(root, "schedules"))
        {
            assert_true(number_of(entry, key) >= before - 1e-6);
            before = number_of(entry, key);
        }
        assert_true(before > 0);
        cJSON_Delete(root);
    }
}

static void test_cap(void **state)
{
    (void)state;
    cJSON *root = json_of(RUN("compare", "-p", "4", "-m", "12", "--memory-cap", "5", "--json"));
    const cJSON *entry = NULL;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(root, "schedules"))
    {
        assert_true(number_of(entry, "peak") <= 5);
    }
    assert_non_null(find(root, "schedules", "1f1b"));
    entry = expect_entry(root, "refused", "gpipe");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "reason")),
                        "gpipe: holds 12 microbatches, above the cap of 5");
    // the one that plans for a limit is told the cap
    assert_non_null(find(root, "schedules", "zb-auto"));
    cJSON_Delete(root);
    expect_end(RUN("compare", "-p", "4", "-m", "12", "--memory-cap", "5"), 0,
               "left out:\n  gpipe: holds 12 microbatches, above the cap of 5\n", "");
}

/* Writes a run folder's two files. */
static char *write_run(const char *dir, const char *plan, const char *summary)
{
    free(sc_tmpdir_write_text(dir, "plan.json", plan));
    free(sc_tmpdir_write_text(dir, "summary.json", summary));
    return sc_tmpdir_path(dir, ".");
}

static void test_profile(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    char *run = write_run(dir, PLAN, SUMMARY);
    // sizes that are left out are the run's
    cJSON *root = json_of(RUN("compare", "--profile", run, "--json"));
    assert_int_equal((int)number_of(root, "p"), 2);
    assert_int_equal((int)number_of(root, "m"), 6);
    const cJSON *entry = expect_entry(root, "schedules", "1f1b");
    // the slow stage never waits: F0, 6 (F + B) of stage 1, B0
    assert_float_equal(number_of(entry, "cost"), 10 + 6 * 40 + 10, 1e-9);
    assert_float_equal(number_of(entry, "ideal"), 6 * 40, 1e-9);
    assert_float_equal(number_of(entry, "messages"), 12, 0);
    assert_float_equal(number_of(entry, "bytes"), 12 * 1048576.0, 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "costs_of")), "stage");
    // two stages a rank: the slow rank's time, in halves
    entry = expect_entry(root, "schedules", "interleaved");
    assert_float_equal(number_of(entry, "ideal"), 6 * 40, 1e-9);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "costs_of")), "rank");
    cJSON_Delete(root);
    // other ranks: the model's time of 60 ms, evenly
    root = json_of(RUN("compare", "--profile", run, "-p", "3", "-m", "4", "--json"));
    entry = expect_entry(root, "schedules", "gpipe");
    assert_float_equal(number_of(entry, "cost"), (4 + 2) * 20, 1e-9);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "costs_of")), "model");
    cJSON_Delete(root);
    sc_proc *proc = RUN("compare", "--profile", run);
    expect_part(sc_proc_text(proc, SC_PROC_OUT), "(1f1b, p 2, 2 stages, m 6), edge 0 ms\n");
    expect_part(sc_proc_text(proc, SC_PROC_OUT), "MiB sent");
    expect_end(proc, 0, "*  not the run's number of stages: a rank's times, split evenly", "");
    free(run);
    sc_tmpdir_free(&dir);
}

static void test_profile_refused(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        const char *summary;
        const char *why;
    } cases[] = {
        {"[1]", SUMMARY, "plan.json: not a JSON object"},
        {"{\"n_stages\": 2}", SUMMARY, "plan.json: pipeline_parallel is missing or no number"},
        {"{\"pipeline_parallel\": 2.5}", SUMMARY, "pipeline_parallel is 2.5; expected 1 to 4096"},
        {"{\"pipeline_parallel\": 2, \"n_stages\": 1, \"num_microbatches\": 1}", SUMMARY,
         "plan.json: stages is missing or has not 1 entries"},
        {"{\"pipeline_parallel\": 2, \"n_stages\": 1, \"num_microbatches\": 1, \"stages\": "
         "[{\"rank\": 2, \"message_bytes\": 1}]}",
         SUMMARY, "plan.json: stages[0].rank is 2 of 2 ranks"},
        {PLAN, "{", "summary.json: not a JSON object"},
        {PLAN, "{\"comm_ms\": -1}", "summary.json: comm_ms is missing or no number from 0 on"},
        {PLAN, "{\"comm_ms\": 0, \"stages\": [{}]}", "stages is missing or has not 2 entries"},
        {PLAN, "{\"comm_ms\": 0, \"stages\": [{\"f_ms\": 1, \"i_ms\": 1}, 7]}",
         "summary.json: stages[0].w_ms is missing or no number"},
    };
    char *dir = sc_tmpdir_new();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *run = write_run(dir, cases[i].plan, cases[i].summary);
        expect_end(RUN("compare", "--profile", run), 3, "", cases[i].why);
        free(run);
    }
    sc_tmpdir_free(&dir);
    expect_end(RUN("compare", "--profile", "/nonexistent"), 4, "",
               "/nonexistent/plan.json: cannot open");
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

static void test_sweep(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    char *csv = sc_tmpdir_path(dir, "s.csv");
    char *svg = sc_tmpdir_path(dir, "s.svg");
    sc_proc *proc = RUN("compare", "-p", "3", "--sweep", "m=2..9:3");
    expect_part(sc_proc_text(proc, SC_PROC_OUT), "\n1f1b,3,2,1,");
    expect_part(sc_proc_text(proc, SC_PROC_OUT), "\n1f1b,3,5,1,21,21,15,0.285714,0.285714,0.4");
    expect_part(sc_proc_text(proc, SC_PROC_OUT), "\n1f1b,3,8,1,");
    assert_null(strstr(sc_proc_text(proc, SC_PROC_OUT), "\n1f1b,3,9,"));
    expect_end(proc, 0, "schedule,p,m,v,cost,makespan,ideal,", "");
    // over p, to files; nothing is printed
    proc = RUN("compare", "-m", "4", "--sweep", "p=1..4", "--csv", csv, "--svg", svg);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    assert_string_equal(sc_proc_text(proc, SC_PROC_OUT), "");
    sc_proc_free(&proc);
    char *text = sc_tmpdir_read(csv, NULL);
    expect_part(text, "\ngpipe,4,4,1,21,21,12,0.428571,");
    assert_true(count_lines(text) > 4 * 5);
    free(text);
    text = sc_tmpdir_read(svg, NULL);
    expect_part(text, "bubble at m = 4, F,I,W,COMM = 1,1,1,0</text>");
    expect_part(text, ">p, ranks</text>");
    expect_part(text, ">zb-h1</text>");
    free(text);
    // the picture alone
    proc = RUN("compare", "-p", "2", "--sweep", "m=1..4", "--svg", "-");
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    assert_int_equal(strncmp(sc_proc_text(proc, SC_PROC_OUT), "<svg ", 5), 0);
    assert_null(strstr(sc_proc_text(proc, SC_PROC_OUT), "schedule,p,m"));
    sc_proc_free(&proc);
    // what fits nowhere is said
    expect_end(RUN("compare", "-p", "4", "--sweep", "m=8..12:4", "--memory-cap", "4"), 0, "1f1b",
               "stagecoach: at no size: gpipe: holds 12 microbatches, above the cap of 4\n");
    free(svg);
    free(csv);
    sc_tmpdir_free(&dir);
}

/* Puts a program `rsvg-convert` with this text into the folder. */
static void write_converter(const char *dir, const char *text)
{
    char *path = sc_tmpdir_write_text(dir, "rsvg-convert", text);
    assert_int_equal(chmod(path, 0755), 0);
    free(path);
}

static sc_proc *show_png(const char *path_list, const char *png)
{
    char env[512];
    (void)snprintf(env, sizeof env, "PATH=%s", path_list);
    return sc_proc_run(
        &(sc_proc_config){.argv = (const char *const[]){PROGRAM, "schedule", "show", "1f1b", "-p",
                                                        "2", "-m", "3", "--png", png, NULL},
                          .env = (const char *const[]){env, NULL}},
        TIMEOUT_MS);
}

static void test_png(void **state)
{
    (void)state;
    char *dir = sc_tmpdir_new();
    char *png = sc_tmpdir_write_text(dir, "a.png", "before");
    char path_list[400];
    (void)snprintf(path_list, sizeof path_list, "%s:/usr/bin:/bin", dir);
    // not there, or failing: said so, and the file is what it was
    expect_end(show_png("/nonexistent", png), 6, "", "rsvg-convert is not installed, so there is");
    write_converter(dir, "#!/bin/sh\ncat > /dev/null\necho half\nexit 3\n");
    expect_end(show_png(path_list, png), 1, "",
               "a.png: rsvg-convert ended with exit status 3; nothing is written");
    write_converter(dir, "#!/bin/sh\nkill -9 $$\n");
    expect_end(show_png(path_list, png), 1, "", "rsvg-convert ended with signal 9");
    char *text = sc_tmpdir_read(png, NULL);
    assert_string_equal(text, "before");
    free(text);
    // gets the picture, and its output is the file
    write_converter(dir, "#!/bin/sh\nprintf 'PNG %s ' \"$*\"\ncat\n");
    expect_end(show_png(path_list, png), 0, "peak 2 1 microbatches", "");
    text = sc_tmpdir_read(png, NULL);
    assert_int_equal(strncmp(text, "PNG --format=png <svg ", 22), 0);
    expect_part(text, "</svg>");
    free(text);
    // to standard output, alone
    sc_proc *proc = show_png(path_list, "-");
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    assert_int_equal(strncmp(sc_proc_text(proc, SC_PROC_OUT), "PNG ", 4), 0);
    assert_null(strstr(sc_proc_text(proc, SC_PROC_OUT), "peak 2 1"));
    sc_proc_free(&proc);
    free(png);
    sc_tmpdir_free(&dir);
}

/* The real one, where it is installed. */
static void test_png_real(void **state)
{
    (void)state;
    struct stat info;
    if (stat("/usr/bin/rsvg-convert", &info) != 0) {
        print_message("no /usr/bin/rsvg-convert: its own output is not tested\n");
        skip();
    }
    char *dir = sc_tmpdir_new();
    char *png = sc_tmpdir_path(dir, "a.png");
    expect_end(show_png("/usr/bin", png), 0, "bubble", "");
    char *bytes = sc_tmpdir_read(png, NULL);
    assert_memory_equal(bytes, "\x89PNG\r\n\x1a\n", 8);
    free(bytes);
    free(png);
    sc_tmpdir_free(&dir);
}

/* --group and --limit reach the generators. */
static void test_params(void **state)
{
    (void)state;
    cJSON *one = json_of(RUN("show", "interleaved", "-p", "4", "-m", "8", "-v", "2", "--json"));
    cJSON *other = json_of(
        RUN("show", "interleaved", "-p", "4", "-m", "8", "-v", "2", "--group", "8", "--json"));
    assert_true(number_of(other, "cost") >= number_of(one, "cost"));
    const cJSON *peaks = cJSON_GetObjectItem(other, "peak");
    assert_true(cJSON_GetArrayItem(peaks, 0)->valuedouble >
                cJSON_GetArrayItem(cJSON_GetObjectItem(one, "peak"), 0)->valuedouble);
    cJSON_Delete(other);
    cJSON_Delete(one);
    one = json_of(RUN("show", "zb-auto", "-p", "4", "-m", "12", "--limit", "4", "--json"));
    other = json_of(RUN("show", "zb-auto", "-p", "4", "-m", "12", "--limit", "8", "--json"));
    assert_true(number_of(other, "bubble") < number_of(one, "bubble"));
    cJSON_Delete(other);
    cJSON_Delete(one);
}

static void test_usage(void **state)
{
    (void)state;
    static const struct {
        const char *argv[14]; // after "schedule", NULL-terminated
        const char *why;
    } cases[] = {
        {{"compare", "-m", "8"}, "compare needs the number of ranks"},
        {{"compare", "-p", "4"}, "compare needs the number of microbatches"},
        {{"compare", "1f1b", "-p", "4", "-m", "8"}, "'1f1b' is left over"},
        {{"compare", "-p", "4", "-m", "8", "--plain"}, "--plain does not go with compare"},
        {{"compare", "-p", "4", "-m", "8", "--svg", "x"}, "add one, as in --sweep m=8..64:8"},
        {{"compare", "-p", "4", "--sweep", "m=1..8", "--json"}, "--sweep writes CSV"},
        {{"compare", "-p", "4", "-m", "8", "--sweep", "m=1..8"}, "-m and --sweep m=... say it"},
        {{"compare", "-p", "4", "--sweep", "v=1..8"}, "'v=1..8' is not m=FROM..TO"},
        {{"compare", "-p", "4", "--sweep", "m=8..1"}, "'m=8..1' is not m=FROM..TO"},
        {{"compare", "-p", "4", "--sweep", "m=0..8"}, "'m=0..8' is not m=FROM..TO"},
        {{"compare", "-p", "4", "--sweep", "m=1..8:"}, "'m=1..8:' is not m=FROM..TO"},
        {{"compare", "-p", "4", "--sweep", "m=1..8:2x"}, "'m=1..8:2x' is not m=FROM..TO"},
        {{"compare", "-p", "4", "--sweep", "m"}, "'m' is not m=FROM..TO"},
        {{"compare", "-p", "4", "--sweep", "m=1..9000"}, "more than 1000 sizes"},
        {{"compare", "-p", "4", "-m", "8", "--sort", "name"}, "'name' is neither cost nor peak"},
        {{"compare", "-p", "4", "-m", "8", "--memory-cap", "0"}, "not a number of microbatches"},
        {{"compare", "-p", "4", "-m", "8", "--profile", "x", "--costs", "1,1,1,0"},
         "--costs and --profile are two sources"},
        {{"show", "1f1b", "-p", "4", "-m", "8", "--sort", "cost"}, "--sort does not go with show"},
        {{"check", "x.csv", "--png", "y"}, "--png does not go with check"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *argv[16] = {PROGRAM, "schedule"};
        memcpy(argv + 2, cases[i].argv, sizeof cases[i].argv);
        sc_proc *proc = sc_proc_run(&(sc_proc_config){.argv = argv}, TIMEOUT_MS);
        expect_end(proc, 2, "", cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),    cmocka_unit_test(test_all_listed),
        cmocka_unit_test(test_sort),     cmocka_unit_test(test_cap),
        cmocka_unit_test(test_profile),  cmocka_unit_test(test_profile_refused),
        cmocka_unit_test(test_sweep),    cmocka_unit_test(test_png),
        cmocka_unit_test(test_png_real), cmocka_unit_test(test_params),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
