/*
 * data: text -> token file -> what info says; every refusal has its line and exit code.
 */
#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    TIMEOUT_MS = 10000
};

static const char PROGRAM[] = SC_BIN_DIR "/stagecoach";
static const char TEXT[] = "In the beginning\nGod created\n";

typedef struct fixture {
    char *dir;
    char *text; // path of a file with TEXT
    char *out;  // path of a token file that is not there yet
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->dir = sc_tmpdir_new();
    f->text = sc_tmpdir_write_text(f->dir, "a.txt", TEXT);
    f->out = sc_tmpdir_path(f->dir, "a.bin");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    free(f->text);
    free(f->out);
    sc_tmpdir_free(&f->dir);
    free(f);
    return 0;
}

/* Runs a command that must end with `code`, with `want` in its errors. */
#define EXPECT_FAILURE(code, want, ...) \
    expect_failure(SC_PROC_RUN(TIMEOUT_MS, __VA_ARGS__), code, want)

static void expect_failure(sc_proc *proc, int code, const char *want)
{
    const char *errors = sc_proc_text(proc, SC_PROC_ERR);
    if (sc_proc_exit_code(proc) != code || strstr(errors, want) == NULL) {
        fail_msg("exit code %d, not %d with '%s': %s", sc_proc_exit_code(proc), code, want, errors);
    }
    sc_proc_free(&proc);
}

static void tokenize(const fixture *f)
{
    sc_proc *proc = SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "tokenize", f->text, "-o", f->out);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    sc_proc_free(&proc);
}

/* Files in the folder: nothing temporary may be left. */
static int count_files(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(d);
    return n;
}

static void test_tokenize_writes_llmc_bytes(void **state)
{
    const fixture *f = *state;
    size_t n = 0;
    tokenize(f);
    unsigned char *file = (unsigned char *)sc_tmpdir_read(f->out, &n);
    const size_t n_text = sizeof TEXT - 1;
    assert_int_equal(n, 1024 + 2 * n_text);
    static const unsigned char START[] = {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, sizeof TEXT - 1, 0};
    assert_memory_equal(file, START, sizeof START);
    for (size_t i = 0; i < n_text; i++) {
        assert_int_equal(file[1024 + 2 * i], TEXT[i]);
        assert_int_equal(file[1025 + 2 * i], 0);
    }
    free(file);
    assert_int_equal(count_files(f->dir), 2);
}

static void test_texts_are_joined_in_order(void **state)
{
    const fixture *f = *state;
    size_t n = 0;
    char *second = sc_tmpdir_write_text(f->dir, "b.txt", "XY");
    sc_proc *proc =
        SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "tokenize", second, f->text, second, "-o", f->out);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    sc_proc_free(&proc);
    char *file = sc_tmpdir_read(f->out, &n);
    assert_int_equal(n, 1024 + 2 * (sizeof TEXT - 1 + 4));
    assert_int_equal(file[1024], 'X');
    assert_int_equal(file[1024 + 4], 'I');
    assert_int_equal(file[n - 2], 'Y');
    free(file);
    free(second);
}

static void test_standard_input_is_read(void **state)
{
    const fixture *f = *state;
    char command[1024];
    size_t n = 0;
    (void)snprintf(command, sizeof command, "exec %s data tokenize - -o %s < %s", PROGRAM, f->out,
                   f->text);
    sc_proc *proc = SC_PROC_RUN(TIMEOUT_MS, "/bin/sh", "-c", command);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    sc_proc_free(&proc);
    free(sc_tmpdir_read(f->out, &n));
    assert_int_equal(n, 1024 + 2 * (sizeof TEXT - 1));
}

static void test_a_file_is_not_overwritten_without_force(void **state)
{
    const fixture *f = *state;
    size_t n = 0;
    free(sc_tmpdir_write_text(f->dir, "a.bin", "precious"));
    EXPECT_FAILURE(3, "a.bin: is there already; name another file or give --force\n", PROGRAM,
                   "data", "tokenize", f->text, "-o", f->out);
    char *kept = sc_tmpdir_read(f->out, &n);
    assert_string_equal(kept, "precious");
    free(kept);
    sc_proc *proc =
        SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "tokenize", f->text, "-o", f->out, "--force");
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    sc_proc_free(&proc);
    free(sc_tmpdir_read(f->out, &n));
    assert_int_equal(n, 1024 + 2 * (sizeof TEXT - 1));
}

static void test_failures_leave_no_file(void **state)
{
    const fixture *f = *state;
    char *empty = sc_tmpdir_write_text(f->dir, "empty.txt", "");
    EXPECT_FAILURE(3, "empty.txt: empty text; there is nothing to tokenize\n", PROGRAM, "data",
                   "tokenize", empty, "-o", f->out);
    EXPECT_FAILURE(4, "/nonexistent: cannot open: No such file or directory\n", PROGRAM, "data",
                   "tokenize", f->text, "/nonexistent", "-o", f->out);
    EXPECT_FAILURE(4, "cannot read: Is a directory\n", PROGRAM, "data", "tokenize", f->dir, "-o",
                   f->out);
    EXPECT_FAILURE(4, "/nonexistent/a.bin: cannot create: No such file or directory\n", PROGRAM,
                   "data", "tokenize", f->text, "-o", "/nonexistent/a.bin");
    assert_int_equal(count_files(f->dir), 2);
    free(empty);
}

static void test_info_tells_what_is_there(void **state)
{
    static const char *const FACTS[] = {
        "format    llmc (header of 1024 bytes, then uint16)\n",
        "tokens    29\n",
        "largest   116: vocab_size must be at least 117\n",
        "distinct  16\n",
        "common    101 \"e\" 13.8 %",
        "starts    \"In the beginning\\nGod created\\n\"\n",
    };
    const fixture *f = *state;
    tokenize(f);
    sc_proc *proc = SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "info", f->out);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    const char *text = sc_proc_text(proc, SC_PROC_OUT);
    for (size_t i = 0; i < sizeof FACTS / sizeof FACTS[0]; i++) {
        if (strstr(text, FACTS[i]) == NULL) {
            fail_msg("no '%s' in\n%s", FACTS[i], text);
        }
    }
    sc_proc_free(&proc);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void test_info_as_json(void **state)
{
    const fixture *f = *state;
    tokenize(f);
    sc_proc *proc = SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "info", "--json", f->out);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    cJSON *root = cJSON_Parse(sc_proc_text(proc, SC_PROC_OUT));
    assert_non_null(root);
    assert_true(number(root, "tokens") == 29);
    assert_true(number(root, "max_token") == 't');
    assert_true(number(root, "distinct") == 16);
    const cJSON *common = cJSON_GetObjectItemCaseSensitive(root, "common");
    assert_int_equal(cJSON_GetArraySize(common), 8);
    assert_true(number(cJSON_GetArrayItem(common, 0), "token") == 'e');
    assert_true(number(cJSON_GetArrayItem(common, 0), "count") == 4);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(root, "text")->valuestring,
                        "In the beginning\\nGod created\\n");
    cJSON_Delete(root);
    sc_proc_free(&proc);
}

static void test_raw_tokens_over_a_byte(void **state)
{
    static const unsigned char RAW[] = {1, 0, 0, 2, 1, 0};
    const fixture *f = *state;
    char *path = sc_tmpdir_write(f->dir, "raw.bin", RAW, sizeof RAW);
    sc_proc *proc = SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "info", path);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    const char *text = sc_proc_text(proc, SC_PROC_OUT);
    assert_non_null(strstr(text, "format    raw16 "));
    assert_non_null(strstr(text, "common    1 66.7 %, 512 33.3 %\n"));
    assert_non_null(strstr(text, "starts    1 512 1\n"));
    sc_proc_free(&proc);
    EXPECT_FAILURE(3, "raw.bin: truncated: 6 bytes are less than the header's 1024", PROGRAM,
                   "data", "info", "--format", "llmc", path);
    free(path);
}

static void test_wrong_usage_is_told(void **state)
{
    const fixture *f = *state;
    EXPECT_FAILURE(2, "say tokenize or info", PROGRAM, "data");
    EXPECT_FAILURE(2, "unknown word 'tokenise'; say tokenize or info", PROGRAM, "data", "tokenise");
    EXPECT_FAILURE(2, "tokenize needs a text file", PROGRAM, "data", "tokenize", "-o", f->out);
    EXPECT_FAILURE(2, "tokenize needs the file to write", PROGRAM, "data", "tokenize", f->text);
    EXPECT_FAILURE(2, "info needs one token file", PROGRAM, "data", "info");
    EXPECT_FAILURE(2, "-o and --force go with tokenize", PROGRAM, "data", "info", f->out,
                   "--force");
    EXPECT_FAILURE(2, "--format: 'raw32' is not known; say llmc, raw16 or auto", PROGRAM, "data",
                   "info", "--format=raw32", f->out);
    EXPECT_FAILURE(4, "a.bin: cannot open: No such file or directory\n", PROGRAM, "data", "info",
                   f->out);
    EXPECT_FAILURE(3, "/dev/null: is no ordinary file\n", PROGRAM, "data", "info", "/dev/null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tokenize_writes_llmc_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts_are_joined_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_standard_input_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_is_not_overwritten_without_force, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_failures_leave_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_info_tells_what_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_info_as_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_raw_tokens_over_a_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_usage_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
