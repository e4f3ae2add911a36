#include "schedules/action.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Text and action are each other's inverse. */
static void check_round_trip(sc_op op, int stage, int mb)
{
    sc_action action = {op, stage, mb};
    char text[SC_ACTION_TEXT_MAX];
    (void)sc_action_format(action, text, sizeof text);
    char expected[64];
    int n = snprintf(expected, sizeof expected, "%d%s", stage, sc_action_op_text(op));
    if (mb >= 0) {
        (void)snprintf(expected + n, sizeof expected - (size_t)n, "%d", mb);
    }
    assert_string_equal(text, expected);
    sc_action back;
    assert_int_equal(sc_action_parse(text, strlen(text), &back, NULL), SC_OK);
    assert_true(sc_action_equals(action, back));
}

/* Every operation, at the edges of both numbers. */
static void test_round_trip(void **state)
{
    (void)state;
    static const int stages[] = {0, 1, 9, 10, 99, 4095};
    static const int mbs[] = {0, 1, 9, 10, 12345, 65535};
    for (int op = 0; op < SC_OP_COUNT; op++) {
        for (int k = 0; k < 6 * 6; k++) {
            bool has_mb = op != SC_OP_REDUCE_GRAD;
            check_round_trip((sc_op)op, stages[k / 6], has_mb ? mbs[k % 6] : -1);
        }
    }
}

static void test_spaces(void **state)
{
    (void)state;
    sc_action action;
    assert_int_equal(sc_action_parse("  2F0\t", 6, &action, NULL), SC_OK);
    assert_true(sc_action_equals(action, (sc_action){SC_OP_F, 2, 0}));
    // exactly n bytes are read
    assert_int_equal(sc_action_parse("1B23xyz", 4, &action, NULL), SC_OK);
    assert_true(sc_action_equals(action, (sc_action){SC_OP_B, 1, 23}));
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"", "begins with its stage"},
        {"   ", "begins with its stage"},
        {"F0", "begins with its stage"},
        {"-1F0", "begins with its stage"},
        {"+1F0", "begins with its stage"},
        {"4096F0", "a number below 4096"},
        {"99999999999999999999F0", "a number below 4096"},
        {"0", "no operation"},
        {"0f0", "no operation"},
        {"0X0", "no operation"},
        {"0FF0", "no operation"},
        {"0SEND0", "no operation"},
        {"0SEND_F_0", "no operation"},
        {"0 F0", "no operation"},
        {"0F", "needs a microbatch"},
        {"0F-1", "needs a microbatch"},
        {"0F65536", "a number below 65536"},
        {"0F0xyz", "\"xyz\" is left over"},
        {"0F0 1", "left over"},
        {"0F0;", "left over"},
        {"0REDUCE_GRAD0", "\"0\" is left over"},
        {"0F1\x01", "\"\\x01\" is left over"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sc_action action = {SC_OP_W, 7, 7};
        sc_err err = {0};
        sc_status status = sc_action_parse(cases[i].text, strlen(cases[i].text), &action, &err);
        assert_int_equal(status, SC_INVALID);
        assert_non_null(strstr(err.text, cases[i].why));
        // outputs are written only on success
        assert_true(sc_action_equals(action, (sc_action){SC_OP_W, 7, 7}));
    }
}

static void test_kinds(void **state)
{
    (void)state;
    for (int i = 0; i < SC_OP_COUNT; i++) {
        sc_op op = (sc_op)i;
        const char *text = sc_action_op_text(op);
        assert_int_equal(sc_action_is_compute(op), strlen(text) == 1);
        assert_int_equal(sc_action_is_send(op), strncmp(text, "SEND_", 5) == 0);
        assert_int_equal(sc_action_is_recv(op), strncmp(text, "RECV_", 5) == 0);
        assert_int_equal(sc_action_is_backward(op), strlen(text) == 1 && text[0] != 'F');
    }
}

/* Foreign bytes in a message: printable, bounded, terminated. */
static void test_quote(void **state)
{
    (void)state;
    char out[32];
    assert_string_equal(sc_action_quote("a\n\xff", 3, out, sizeof out), "\"a\\x0a\\xff\"");
    char longer[200];
    memset(longer, '\x02', sizeof longer);
    for (size_t n = 0; n < sizeof longer; n++) {
        (void)sc_action_quote(longer, n, out, sizeof out);
        size_t used = strlen(out);
        assert_true(used < sizeof out);
        assert_int_equal(out[used - 1], '"');
    }
    assert_non_null(strstr(out, "...\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
