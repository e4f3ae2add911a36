#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void texts_and_exit_codes(void **state)
{
    (void)state;
    assert_string_equal(sc_status_text(SC_OK), "ok");
    assert_int_equal(sc_status_exit_code(SC_OK), 0);
    assert_int_equal(sc_status_exit_code(SC_USAGE), 2);
    assert_int_equal(sc_status_exit_code(SC_INTERRUPTED), 130);
    for (int i = 0; i < SC_STATUS_COUNT; i++) {
        sc_status status = (sc_status)i;
        assert_true(strlen(sc_status_text(status)) > 0);
        assert_string_not_equal(sc_status_text(status), "unknown status");
        /* only success may look like success; 126 and 127 belong to the shell */
        assert_int_equal(sc_status_exit_code(status) == 0, status == SC_OK);
        assert_in_range(sc_status_exit_code(status), 0, 130);
        assert_int_not_equal(sc_status_exit_code(status), 126);
        assert_int_not_equal(sc_status_exit_code(status), 127);
    }
}

static void number_out_of_range(void **state)
{
    (void)state;
    assert_string_equal(sc_status_text(SC_STATUS_COUNT), "unknown status");
    assert_int_equal(sc_status_exit_code(SC_STATUS_COUNT), 1);
}

static void fail_fills(void **state)
{
    (void)state;
    sc_err err = {0};
    assert_int_equal(sc_status_fail(&err, SC_LIMIT, "rank %d of %d", 3, 2), SC_LIMIT);
    assert_int_equal(err.status, SC_LIMIT);
    assert_string_equal(err.text, "rank 3 of 2");
    assert_int_equal(sc_status_fail(NULL, SC_LIMIT, "rank %d", 3), SC_LIMIT);
}

static void errno_is_appended(void **state)
{
    (void)state;
    sc_err err = {0};
    assert_int_equal(sc_status_errno(&err, ENOENT, "%s", "a.bin"), SC_IO);
    assert_int_equal(err.status, SC_IO);
    assert_string_equal(err.text, "a.bin: No such file or directory");
    assert_int_equal(sc_status_errno(&err, ENOMEM, "arena"), SC_NO_MEMORY);
    assert_int_equal(err.status, SC_NO_MEMORY);
    assert_int_equal(sc_status_errno(NULL, ENOENT, "x"), SC_IO);
}

static void prefix_goes_in_front(void **state)
{
    (void)state;
    sc_err err = {0};
    sc_status_fail(&err, SC_INVALID, "not a number");
    assert_int_equal(sc_status_prefix(&err, SC_INVALID, "job.yaml:%d", 7), SC_INVALID);
    assert_string_equal(err.text, "job.yaml:7: not a number");
    assert_int_equal(err.status, SC_INVALID);
    /* success has no text to put anything in front of */
    sc_err unused = {.text = "untouched"};
    assert_int_equal(sc_status_prefix(&unused, SC_OK, "job.yaml"), SC_OK);
    assert_string_equal(unused.text, "untouched");
    assert_int_equal(sc_status_prefix(NULL, SC_INVALID, "x"), SC_INVALID);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    char big[2 * SC_ERR_TEXT_MAX];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    sc_err err = {0};
    sc_status_fail(&err, SC_IO, "%s", big);
    assert_int_equal(strlen(err.text), SC_ERR_TEXT_MAX - 1);
    sc_status_errno(&err, ENOENT, "%s", big);
    assert_int_equal(strlen(err.text), SC_ERR_TEXT_MAX - 1);
    sc_status_prefix(&err, SC_IO, "%s", big);
    assert_int_equal(strlen(err.text), SC_ERR_TEXT_MAX - 1);
}

static int n_cleanups;

static sc_status try_it(sc_status inner)
{
    SC_TRY(inner);
    n_cleanups += 100; // only reached after success
    return SC_OK;
}

static sc_status goto_it(sc_status inner)
{
    sc_status status = SC_OK;
    SC_GOTO(inner);
    n_cleanups += 100;
out:
    n_cleanups++;
    return status;
}

static void macros(void **state)
{
    (void)state;
    n_cleanups = 0;
    assert_int_equal(try_it(SC_TIMEOUT), SC_TIMEOUT);
    assert_int_equal(n_cleanups, 0);
    assert_int_equal(try_it(SC_OK), SC_OK);
    assert_int_equal(n_cleanups, 100);
    n_cleanups = 0;
    assert_int_equal(goto_it(SC_TIMEOUT), SC_TIMEOUT);
    assert_int_equal(n_cleanups, 1);
    assert_int_equal(goto_it(SC_OK), SC_OK);
    assert_int_equal(n_cleanups, 102);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_exit_codes),
        cmocka_unit_test(number_out_of_range),
        cmocka_unit_test(fail_fills),
        cmocka_unit_test(errno_is_appended),
        cmocka_unit_test(prefix_goes_in_front),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(macros),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
