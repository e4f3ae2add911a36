/*
 * text - a growing piece of text, for the writers of this folder.
 *
 * A failed addition is remembered, so that writers check once, at sc_text_take. Start from {0}.
 */
#ifndef SC_SCHEDULES_TEXT_H
#define SC_SCHEDULES_TEXT_H

#include "base/status.h"

#include <stdbool.h>

typedef struct sc_text {
    char *chars; // NUL-terminated when not NULL
    size_t n;    // without the NUL
    size_t capacity;
    bool is_failed; // out of memory once
} sc_text;

/* Appends as printf does. */
void sc_text_add(sc_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends n bytes as they are. */
void sc_text_add_bytes(sc_text *text, const char *bytes, size_t n);
/* Appends the inside of a JSON string: quotes, backslashes and control characters escaped. */
void sc_text_add_json(sc_text *text, const char *value);
/* Appends text between XML tags or inside an attribute: & < > " ' escaped, other control characters
   left out. */
void sc_text_add_xml(sc_text *text, const char *value);
/* Hands the text over (malloc, caller frees; "" when nothing was added) and empties *text.
   SC_NO_MEMORY when an addition failed; *text is then freed. */
sc_status sc_text_take(sc_text *text, char **out, sc_err *err);
/* Drops the text. */
void sc_text_free(sc_text *text);

#endif
