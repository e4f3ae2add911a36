#include "formats/tokenizer_json.h"

#include "formats/tokenizer_utf8.h"

#include <stdbool.h>
#include <string.h>

typedef struct scanner {
    const char *file;
    const char *text;
    size_t n;
    size_t at;
    size_t n_nodes;
} scanner;

/* Line and column, both from 1, the column in bytes. */
static sc_status fail_at(const scanner *s, size_t at, sc_status status, const char *what,
                         sc_err *err)
{
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < at && i < s->n; i++) {
        column = s->text[i] == '\n' ? 1 : column + 1;
        line += s->text[i] == '\n';
    }
    return sc_status_fail(err, status, "%s:%zu:%zu: %s", s->file, line, column, what);
}

static sc_status refuse(const scanner *s, const char *what, sc_err *err)
{
    return fail_at(s, s->at, SC_INVALID, what, err);
}

static bool is_digit(const scanner *s, size_t at)
{
    return at < s->n && s->text[at] >= '0' && s->text[at] <= '9';
}

static bool is_one_of(const scanner *s, size_t at, const char *set)
{
    return at < s->n && s->text[at] != '\0' && strchr(set, s->text[at]) != NULL;
}

static size_t skip_digits(const scanner *s, size_t at)
{
    while (is_digit(s, at)) {
        at++;
    }
    return at;
}

/* -?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)? */
static sc_status scan_number(scanner *s, sc_err *err)
{
    size_t at = s->at + (s->text[s->at] == '-');
    bool is_ok = is_digit(s, at);
    at = is_one_of(s, at, "0") ? at + 1 : skip_digits(s, at);
    if (is_one_of(s, at, ".")) {
        is_ok = is_ok && is_digit(s, at + 1);
        at = skip_digits(s, at + 1);
    }
    if (is_one_of(s, at, "eE")) {
        at += is_one_of(s, at + 1, "+-") ? 2 : 1;
        is_ok = is_ok && is_digit(s, at);
        at = skip_digits(s, at);
    }
    if (!is_ok || is_digit(s, at)) {
        return refuse(s, "malformed number", err);
    }
    s->at = at;
    return SC_OK;
}

/* Bytes of the escape behind a backslash, 0 for none that JSON knows. */
static size_t match_escape(const scanner *s, size_t at)
{
    if (is_one_of(s, at, "\"\\/bfnrt")) {
        return 1;
    }
    if (!is_one_of(s, at, "u")) {
        return 0;
    }
    for (size_t i = 1; i <= 4; i++) {
        if (!is_one_of(s, at + i, "0123456789abcdefABCDEF")) {
            return 0;
        }
    }
    return memcmp(s->text + at + 1, "0000", 4) == 0 ? 0 : 5;
}

static sc_status scan_string(scanner *s, sc_err *err)
{
    s->at++;
    while (s->at < s->n && s->text[s->at] != '"') {
        uint8_t c = (uint8_t)s->text[s->at];
        uint32_t cp = 0;
        size_t n = c == '\\'
                       ? match_escape(s, s->at + 1)
                       : sc_tokenizer_utf8_get((const uint8_t *)s->text + s->at, s->n - s->at, &cp);
        if (n == 0) {
            return refuse(s,
                          c == '\\' ? "unknown escape, or \\u0000, in a string"
                                    : "bytes that are not UTF-8 in a string",
                          err);
        }
        if (c < 0x20) {
            return refuse(s, "a control character in a string", err);
        }
        s->at += c == '\\' ? n + 1 : n;
    }
    if (s->at == s->n) {
        return refuse(s, "truncated: a string without an end", err);
    }
    s->at++;
    return SC_OK;
}

static sc_status scan_word(scanner *s, sc_err *err)
{
    static const char *const WORDS[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        size_t n = strlen(WORDS[i]);
        if (s->n - s->at >= n && memcmp(s->text + s->at, WORDS[i], n) == 0) {
            s->at += n;
            return SC_OK;
        }
    }
    return refuse(s, "malformed JSON", err);
}

static sc_status scan_item(scanner *s, sc_err *err)
{
    if (s->text[s->at] == '"') {
        return scan_string(s, err);
    }
    if (s->text[s->at] == '-' || is_digit(s, s->at)) {
        return scan_number(s, err);
    }
    if (is_one_of(s, s->at, "{}[]:, \t\r\n")) {
        s->n_nodes += is_one_of(s, s->at, "{[,");
        s->at++;
        return SC_OK;
    }
    return scan_word(s, err);
}

sc_status sc_tokenizer_json_parse(const char *file, const char *text, size_t n, cJSON **out,
                                  sc_err *err)
{
    scanner s = {.file = file, .text = text, .n = n};
    while (s.at < n) {
        SC_TRY(scan_item(&s, err));
        if (s.n_nodes > SC_TOKENIZER_JSON_NODES_MAX) {
            return fail_at(&s, s.at, SC_LIMIT, "more than 4000000 values", err);
        }
    }
    const char *end = text;
    cJSON *root = n == 0 ? NULL : cJSON_ParseWithLengthOpts(text, n, &end, 0);
    size_t at = (size_t)(end - text);
    while (root != NULL && is_one_of(&s, at, " \t\r\n")) {
        at++;
    }
    if (root == NULL || at != n) {
        cJSON_Delete(root);
        return fail_at(&s, at, SC_INVALID, n == 0 ? "empty file" : "malformed JSON", err);
    }
    *out = root;
    return SC_OK;
}

sc_status sc_tokenizer_json_get(const char *file, const char *where, const cJSON *object,
                                const char *key, const cJSON **out, sc_err *err)
{
    const cJSON *found = NULL;
    const cJSON *item = cJSON_IsObject(object) ? object->child : NULL;
    for (; item != NULL; item = item->next) {
        if (strcmp(item->string, key) != 0) {
            continue;
        }
        if (found != NULL) {
            return sc_status_fail(err, SC_INVALID, "%s: %s%s is there twice", file, where, key);
        }
        found = item;
    }
    *out = found;
    return SC_OK;
}
