#include "schedules/action.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define OP_TEXT(name, text, has_mb) text,
static const char *const OP_TEXTS[] = {SC_OP_MAP(OP_TEXT)};
#undef OP_TEXT

#define OP_HAS_MB(name, text, has_mb) has_mb,
static const bool OP_HAS_MBS[] = {SC_OP_MAP(OP_HAS_MB)};
#undef OP_HAS_MB

const char *sc_action_op_text(sc_op op)
{
    assert((unsigned)op < SC_OP_COUNT);
    return OP_TEXTS[op];
}

bool sc_action_is_compute(sc_op op)
{
    return op == SC_OP_F || sc_action_is_backward(op);
}

bool sc_action_is_send(sc_op op)
{
    return op == SC_OP_SEND_F || op == SC_OP_SEND_B;
}

bool sc_action_is_recv(sc_op op)
{
    return op == SC_OP_RECV_F || op == SC_OP_RECV_B;
}

bool sc_action_is_backward(sc_op op)
{
    return op == SC_OP_B || op == SC_OP_I || op == SC_OP_W;
}

bool sc_action_equals(sc_action a, sc_action b)
{
    return a.op == b.op && a.stage == b.stage && a.mb == b.mb;
}

char *sc_action_format(sc_action action, char *out, size_t n)
{
    const char *op = sc_action_op_text(action.op);
    if (OP_HAS_MBS[action.op]) {
        (void)snprintf(out, n, "%d%s%d", action.stage, op, action.mb);
    } else {
        (void)snprintf(out, n, "%d%s", action.stage, op);
    }
    return out;
}

char *sc_action_quote(const char *text, size_t n, char *out, size_t n_out)
{
    static const char HEX[] = "0123456789abcdef";
    assert(n_out >= 16);
    size_t used = 0;
    out[used++] = '"';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (used + 9 > n_out) { // \xNN, "..." and the closing quote must still fit
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (c < 0x20 || c >= 0x7f) {
            out[used++] = '\\';
            out[used++] = 'x';
            out[used++] = HEX[c >> 4];
            out[used++] = HEX[c & 15];
        } else {
            out[used++] = (char)c;
        }
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}

/* Reads decimal digits at text[*at]; false when there is none or the value reaches `end`. */
static bool parse_number(const char *text, size_t n, size_t *at, int end, int *out)
{
    int value = 0;
    size_t first = *at;
    while (*at < n && text[*at] >= '0' && text[*at] <= '9') {
        value = value * 10 + (text[*at] - '0');
        if (value >= end) {
            return false;
        }
        (*at)++;
    }
    *out = value;
    return *at > first;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || c == '_';
}

static bool find_op(const char *text, size_t n, sc_op *out)
{
    for (int op = 0; op < SC_OP_COUNT; op++) {
        if (strlen(OP_TEXTS[op]) == n && memcmp(OP_TEXTS[op], text, n) == 0) {
            *out = (sc_op)op;
            return true;
        }
    }
    return false;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

sc_status sc_action_parse(const char *text, size_t n, sc_action *out, sc_err *err)
{
    while (n > 0 && is_space(text[0])) {
        text++;
        n--;
    }
    while (n > 0 && is_space(text[n - 1])) {
        n--;
    }
    char quoted[64];
    (void)sc_action_quote(text, n, quoted, sizeof quoted);
    sc_action action = {SC_OP_F, 0, -1};
    size_t at = 0;
    if (!parse_number(text, n, &at, SC_STAGES_MAX, &action.stage)) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: an action begins with its stage, a number below %d, as in 2F0",
                              quoted, SC_STAGES_MAX);
    }
    size_t op_at = at;
    while (at < n && is_letter(text[at])) {
        at++;
    }
    if (!find_op(text + op_at, at - op_at, &action.op)) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: no operation after stage %d; the operations are F B I W SEND_F "
                              "RECV_F SEND_B RECV_B REDUCE_GRAD",
                              quoted, action.stage);
    }
    if (OP_HAS_MBS[action.op] && !parse_number(text, n, &at, SC_MICROBATCHES_MAX, &action.mb)) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: %s needs a microbatch, a number below %d, as in 2F0", quoted,
                              sc_action_op_text(action.op), SC_MICROBATCHES_MAX);
    }
    if (at < n) {
        char rest[64];
        return sc_status_fail(err, SC_INVALID, "%s: %s is left over after the action", quoted,
                              sc_action_quote(text + at, n - at, rest, sizeof rest));
    }
    *out = action;
    return SC_OK;
}
