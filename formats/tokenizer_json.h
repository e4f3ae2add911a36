/*
 * tokenizer_json - JSON of a tokenizer's files, read strictly.
 *
 * cJSON takes more than JSON: control characters, numbers such as 01, bytes that are not UTF-8, and
 * it ends a string at \u0000. All of that is refused here, with line and column, before cJSON looks
 * at the text.
 */
#ifndef SC_FORMATS_TOKENIZER_JSON_H
#define SC_FORMATS_TOKENIZER_JSON_H

#include "base/status.h"

#include <cjson/cJSON.h>

enum {
    SC_TOKENIZER_JSON_NODES_MAX = 4 * 1000 * 1000 // values: cJSON takes about 100 bytes for each
};

/* Caller frees with cJSON_Delete. */
sc_status sc_tokenizer_json_parse(const char *file, const char *text, size_t n, cJSON **out,
                                  sc_err *err);
/* The member of an object, NULL when it is not there; SC_INVALID when it is there twice. `where`:
   the object's place in the file, such as "model.", for messages. */
sc_status sc_tokenizer_json_get(const char *file, const char *where, const cJSON *object,
                                const char *key, const cJSON **out, sc_err *err);

#endif
