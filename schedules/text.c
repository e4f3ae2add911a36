#include "schedules/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for n more bytes and a NUL. */
static bool reserve(sc_text *text, size_t n)
{
    if (text->is_failed) {
        return false;
    }
    if (text->capacity - text->n > n) {
        return true;
    }
    size_t capacity = text->capacity == 0 ? 256 : text->capacity;
    while (capacity - text->n <= n) {
        capacity *= 2;
    }
    char *grown = realloc(text->chars, capacity);
    if (grown == NULL) {
        text->is_failed = true;
        return false;
    }
    text->chars = grown;
    text->capacity = capacity;
    return true;
}

void sc_text_add(sc_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve(text, (size_t)n)) {
        (void)vsnprintf(text->chars + text->n, (size_t)n + 1, format, again);
        text->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void sc_text_add_bytes(sc_text *text, const char *bytes, size_t n)
{
    if (reserve(text, n)) {
        memcpy(text->chars + text->n, bytes, n);
        text->n += n;
        text->chars[text->n] = '\0';
    }
}

void sc_text_add_json(sc_text *text, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            sc_text_add(text, "\\%c", *c);
        } else if ((unsigned char)*c < 0x20) {
            sc_text_add(text, "\\u%04x", (unsigned char)*c);
        } else {
            sc_text_add_bytes(text, c, 1);
        }
    }
}

static const char *xml_entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&apos;";
    default:
        return NULL;
    }
}

void sc_text_add_xml(sc_text *text, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        const char *entity = xml_entity(*c);
        if (entity != NULL) {
            sc_text_add_bytes(text, entity, strlen(entity));
        } else if ((unsigned char)*c >= 0x20) {
            sc_text_add_bytes(text, c, 1);
        }
    }
}

sc_status sc_text_take(sc_text *text, char **out, sc_err *err)
{
    if (text->is_failed || !reserve(text, 0)) {
        sc_text_free(text);
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for a text");
    }
    text->chars[text->n] = '\0';
    *out = text->chars;
    *text = (sc_text){0};
    return SC_OK;
}

void sc_text_free(sc_text *text)
{
    free(text->chars);
    *text = (sc_text){0};
}
