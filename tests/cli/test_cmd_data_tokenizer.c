/*
 * data --tokenizer: the command line gives the library's tokens, whatever the files are called.
 */
#include "tests/support/proc.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
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
static const char GOLDEN[] = SC_SOURCE_DIR "/tests/golden/tokenizer";
static const char TEXT[] = "The horses drink ½ tea, they'll say.<|endoftext|>\n";

typedef struct fixture {
    char *dir;
    char *text;
    char *out;
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

static void expect_output(sc_proc *proc, const char *want)
{
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    const char *text = sc_proc_text(proc, SC_PROC_OUT);
    if (strstr(text, want) == NULL) {
        fail_msg("no '%s' in\n%s", want, text);
    }
    sc_proc_free(&proc);
}

static void copy_golden(const char *dir, const char *name)
{
    size_t n = 0;
    char *from = sc_tmpdir_path(GOLDEN, name);
    char *text = sc_tmpdir_read(from, &n);
    free(sc_tmpdir_write(dir, name, text, n));
    free(text);
    free(from);
}

static void test_both_kinds_of_files_give_one_token_file(void **state)
{
    const fixture *f = *state;
    size_t n = 0;
    size_t n_pair = 0;
    char want[64];
    copy_golden(f->dir, "vocab.json");
    copy_golden(f->dir, "merges.txt");
    sc_proc *proc = SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "tokenize", f->text, "-o", f->out,
                                "--tokenizer", GOLDEN);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    sc_proc_free(&proc);
    char *file = sc_tmpdir_read(f->out, &n);
    (void)snprintf(want, sizeof want, ": %zu tokens, vocabulary 1300\n", (n - 1024) / 2);
    assert_true(n > 1024 + 2 * 8 && n < 1024 + 2 * (sizeof TEXT - 1));
    expect_output(SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "tokenize", f->text, "-o", f->out,
                              "--force", "--tokenizer", f->dir),
                  want);
    char *pair = sc_tmpdir_read(f->out, &n_pair);
    assert_int_equal(n_pair, n);
    assert_memory_equal(file, pair, n);
    // The text's last two tokens: <|endoftext|> is 0, and a line feed is one byte.
    assert_int_equal(file[n - 4] | file[n - 3] << 8, 0);
    free(file);
    free(pair);
}

static void test_info_shows_the_text(void **state)
{
    const fixture *f = *state;
    sc_proc *proc = SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "tokenize", f->text, f->text, "-o",
                                f->out, "--tokenizer", GOLDEN);
    sc_proc_expect_exit(proc, 0, TIMEOUT_MS);
    sc_proc_free(&proc);
    expect_output(
        SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "info", f->out, "--tokenizer", GOLDEN),
        "starts    \"The horses drink ½ tea, they'll say.<|endoftext|>\\nThe horses drink ½");
    expect_output(
        SC_PROC_RUN(TIMEOUT_MS, PROGRAM, "data", "info", "--json", f->out, "--tokenizer", GOLDEN),
        "The horses drink ½ tea, they'll say.<|endoftext|>\\\\nThe");
}

static void test_a_tokenizer_that_does_not_fit_is_told(void **state)
{
    const fixture *f = *state;
    static const unsigned char RAW[] = {1, 0, 0x14, 5};
    char *raw = sc_tmpdir_write(f->dir, "raw.bin", RAW, sizeof RAW);
    EXPECT_FAILURE(3, "raw.bin: has token 1300, the tokenizer's largest is 1299", PROGRAM, "data",
                   "info", raw, "--tokenizer", GOLDEN);
    free(raw);
    EXPECT_FAILURE(3, "has neither tokenizer.json nor vocab.json with merges.txt", PROGRAM, "data",
                   "tokenize", f->text, "-o", f->out, "--tokenizer", f->dir);
    copy_golden(f->dir, "vocab.json");
    EXPECT_FAILURE(3, "/merges.txt: is not there\n", PROGRAM, "data", "tokenize", f->text, "-o",
                   f->out, "--tokenizer", f->dir);
    EXPECT_FAILURE(4, "a.txt/tokenizer.json: cannot open: Not a directory\n", PROGRAM, "data",
                   "tokenize", f->text, "-o", f->out, "--tokenizer", f->text);
    free(sc_tmpdir_write_text(f->dir, "tokenizer.json", "{\"model\": 01}"));
    EXPECT_FAILURE(3, "/tokenizer.json:1:11: malformed number\n", PROGRAM, "data", "tokenize",
                   f->text, "-o", f->out, "--tokenizer", f->dir);
    assert_int_equal(access(f->out, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_kinds_of_files_give_one_token_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_info_shows_the_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tokenizer_that_does_not_fit_is_told, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
