#include "formats/tokenizer_load.h"

#include "formats/tokenizer_build.h"
#include "formats/tokenizer_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    PLACE_MAX = 512
};

/* Of a file's name and a place in it, for messages. */
typedef struct place {
    char text[PLACE_MAX];
} place;

static const char END_OF_TEXT[] = "<|endoftext|>";

static const char *set_place(place *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *set_place(place *at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(at->text, sizeof at->text, format, args);
    va_end(args);
    return at->text;
}

static sc_status refuse(const char *file, const char *what, sc_err *err)
{
    return sc_status_fail(err, SC_INVALID, "%s: %s", file, what);
}

static sc_status check_size(const sc_tokenizer_load_file *file, sc_err *err)
{
    if (file->n > SC_TOKENIZER_LOAD_BYTES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%s: %zu bytes, at most %d may be", file->name,
                              file->n, SC_TOKENIZER_LOAD_BYTES_MAX);
    }
    return SC_OK;
}

/* `where`: what the object is called in the file. */
static sc_status read_vocab(sc_tokenizer *tokenizer, const char *file, const char *where,
                            const cJSON *object, sc_err *err)
{
    place at;
    if (!cJSON_IsObject(object)) {
        return sc_status_fail(err, SC_INVALID, "%s: %s is no object of tokens and their numbers",
                              file, where);
    }
    int n = cJSON_GetArraySize(object);
    if (n > SC_TOKENIZER_VOCAB_MAX) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s: a vocabulary of %d tokens; a token file holds uint16, so at "
                              "most %d: take a tokenizer with a smaller vocabulary",
                              file, n, SC_TOKENIZER_VOCAB_MAX);
    }
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, object)
    {
        (void)set_place(&at, "%s: %s \"%.64s\"", file, where, item->string);
        if (!cJSON_IsNumber(item)) {
            return refuse(at.text, "its number is no number", err);
        }
        SC_TRY(sc_tokenizer_build_token(tokenizer, at.text, item->string, item->valuedouble, err));
    }
    return SC_OK;
}

/* "left right": two tokens with one space between them. */
static sc_status add_spaced_merge(sc_tokenizer *tokenizer, const char *where, const char *text,
                                  size_t n, sc_err *err)
{
    const char *space = memchr(text, ' ', n);
    size_t n_left = space == NULL ? 0 : (size_t)(space - text);
    if (space == NULL || memchr(space + 1, ' ', n - n_left - 1) != NULL) {
        return refuse(where, "a merge is two tokens with one space between them", err);
    }
    return sc_tokenizer_build_merge(tokenizer, where, text, n_left, space + 1, n - n_left - 1, err);
}

static sc_status add_merge_item(sc_tokenizer *tokenizer, const char *where, const cJSON *item,
                                sc_err *err)
{
    if (cJSON_IsString(item)) {
        return add_spaced_merge(tokenizer, where, item->valuestring, strlen(item->valuestring),
                                err);
    }
    const cJSON *left = cJSON_IsArray(item) ? item->child : NULL;
    const cJSON *right = left == NULL ? NULL : left->next;
    if (right == NULL || right->next != NULL || !cJSON_IsString(left) || !cJSON_IsString(right)) {
        return refuse(where, "a merge is \"a b\" or [\"a\", \"b\"]", err);
    }
    return sc_tokenizer_build_merge(tokenizer, where, left->valuestring, strlen(left->valuestring),
                                    right->valuestring, strlen(right->valuestring), err);
}

static sc_status read_merges(sc_tokenizer *tokenizer, const char *file, const cJSON *list,
                             sc_err *err)
{
    place at;
    size_t i = 0;
    if (!cJSON_IsArray(list)) {
        return refuse(file, "model.merges is no list", err);
    }
    SC_TRY(sc_tokenizer_build_merges(tokenizer, set_place(&at, "%s: model.merges", file),
                                     (size_t)cJSON_GetArraySize(list), err));
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list)
    {
        (void)set_place(&at, "%s: model.merges[%zu]", file, i++);
        SC_TRY(add_merge_item(tokenizer, at.text, item, err));
    }
    return SC_OK;
}

static size_t count_lines(const sc_tokenizer_load_file *file)
{
    size_t n = 1;
    for (size_t i = 0; i < file->n; i++) {
        n += file->text[i] == '\n';
    }
    return n;
}

/* merges.txt: a merge a line. Lines that begin with #version are skipped wherever they are, as
   Hugging Face's library does. */
static sc_status read_merge_lines(sc_tokenizer *tokenizer, const sc_tokenizer_load_file *file,
                                  sc_err *err)
{
    static const char VERSION[] = "#version";
    const size_t n_version = sizeof VERSION - 1;
    place at;
    size_t line = 0;
    SC_TRY(sc_tokenizer_build_merges(tokenizer, file->name, count_lines(file), err));
    for (size_t start = 0; start < file->n;) {
        const char *text = file->text + start;
        const char *end = memchr(text, '\n', file->n - start);
        size_t n = end == NULL ? file->n - start : (size_t)(end - text);
        start += n + 1;
        line++;
        n -= end != NULL && n > 0 && text[n - 1] == '\r';
        if (n >= n_version && memcmp(text, VERSION, n_version) == 0) {
            continue;
        }
        (void)set_place(&at, "%s:%zu", file->name, line);
        SC_TRY(add_spaced_merge(tokenizer, at.text, text, n, err));
    }
    return SC_OK;
}

/* A member that must be true, false or absent. */
static sc_status get_bool(const char *file, const char *where, const cJSON *object, const char *key,
                          bool by_default, bool *out, sc_err *err)
{
    const cJSON *item = NULL;
    SC_TRY(sc_tokenizer_json_get(file, where, object, key, &item, err));
    if (item != NULL && !cJSON_IsBool(item)) {
        return sc_status_fail(err, SC_INVALID, "%s: %s%s is neither true nor false", file, where,
                              key);
    }
    *out = item == NULL ? by_default : cJSON_IsTrue(item) != 0;
    return SC_OK;
}

/* A member that must be absent, null or empty: "", 0 or false. */
static sc_status expect_none(const char *file, const char *where, const cJSON *object,
                             const char *key, sc_err *err)
{
    const cJSON *item = NULL;
    SC_TRY(sc_tokenizer_json_get(file, where, object, key, &item, err));
    bool is_none = item == NULL || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
                   (cJSON_IsNumber(item) && item->valuedouble == 0) ||
                   (cJSON_IsString(item) && item->valuestring[0] == '\0');
    return is_none ? SC_OK
                   : sc_status_fail(err, SC_UNSUPPORTED,
                                    "%s: %s%s is set; GPT-2's byte-level BPE has none", file, where,
                                    key);
}

static sc_status expect_type(const char *file, const char *where, const cJSON *object,
                             const char *want, sc_err *err)
{
    const cJSON *type = NULL;
    SC_TRY(sc_tokenizer_json_get(file, where, object, "type", &type, err));
    if (!cJSON_IsString(type) || strcmp(type->valuestring, want) != 0) {
        return sc_status_fail(err, SC_UNSUPPORTED, "%s: %stype is '%.64s'; only %s can be read",
                              file, where, cJSON_IsString(type) ? type->valuestring : "", want);
    }
    return SC_OK;
}

static sc_status check_pre_tokenizer(const char *file, const cJSON *object, sc_err *err)
{
    static const char WHERE[] = "pre_tokenizer.";
    bool has_regex = true;
    SC_TRY(expect_type(file, WHERE, object, "ByteLevel", err));
    SC_TRY(expect_none(file, WHERE, object, "add_prefix_space", err));
    SC_TRY(get_bool(file, WHERE, object, "use_regex", true, &has_regex, err));
    return has_regex ? SC_OK
                     : sc_status_fail(err, SC_UNSUPPORTED,
                                      "%s: pre_tokenizer.use_regex is false; only GPT-2's own "
                                      "expression is built in",
                                      file);
}

static sc_status read_model(sc_tokenizer *tokenizer, const char *file, const cJSON *model,
                            sc_err *err)
{
    static const char *const NONE[] = {"dropout", "continuing_subword_prefix",
                                       "end_of_word_suffix"};
    static const char WHERE[] = "model.";
    const cJSON *vocab = NULL;
    const cJSON *merges = NULL;
    SC_TRY(expect_type(file, WHERE, model, "BPE", err));
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++) {
        SC_TRY(expect_none(file, WHERE, model, NONE[i], err));
    }
    SC_TRY(get_bool(file, WHERE, model, "ignore_merges", false, &tokenizer->ignores_merges, err));
    SC_TRY(sc_tokenizer_json_get(file, WHERE, model, "vocab", &vocab, err));
    SC_TRY(read_vocab(tokenizer, file, "model.vocab", vocab, err));
    SC_TRY(sc_tokenizer_json_get(file, WHERE, model, "merges", &merges, err));
    return read_merges(tokenizer, file, merges, err);
}

static sc_status read_added_token(sc_tokenizer *tokenizer, const char *file, size_t i,
                                  const cJSON *item, sc_err *err)
{
    static const char *const NONE[] = {"single_word", "lstrip", "rstrip"};
    place at;
    const cJSON *content = NULL;
    const cJSON *id = NULL;
    bool is_special = false;
    bool is_normalized = false;
    (void)set_place(&at, "added_tokens[%zu].", i);
    SC_TRY(sc_tokenizer_json_get(file, at.text, item, "content", &content, err));
    SC_TRY(sc_tokenizer_json_get(file, at.text, item, "id", &id, err));
    if (!cJSON_IsObject(item) || !cJSON_IsString(content) || !cJSON_IsNumber(id)) {
        return sc_status_fail(err, SC_INVALID, "%s: added_tokens[%zu] has no content or no id",
                              file, i);
    }
    for (size_t k = 0; k < sizeof NONE / sizeof NONE[0]; k++) {
        SC_TRY(expect_none(file, at.text, item, NONE[k], err));
    }
    SC_TRY(get_bool(file, at.text, item, "special", false, &is_special, err));
    SC_TRY(get_bool(file, at.text, item, "normalized", !is_special, &is_normalized, err));
    (void)set_place(&at, "%s: added_tokens[%zu] \"%.64s\"", file, i, content->valuestring);
    return sc_tokenizer_build_add(tokenizer, at.text, is_normalized ? 1 : 0, content->valuestring,
                                  id->valuedouble, err);
}

static sc_status read_added(sc_tokenizer *tokenizer, const char *file, const cJSON *list,
                            sc_err *err)
{
    if (list == NULL || cJSON_IsNull(list)) {
        return SC_OK;
    }
    if (!cJSON_IsArray(list)) {
        return refuse(file, "added_tokens is no list", err);
    }
    SC_TRY(sc_tokenizer_build_added(tokenizer, (size_t)cJSON_GetArraySize(list), err));
    size_t i = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list)
    {
        SC_TRY(read_added_token(tokenizer, file, i++, item, err));
    }
    return SC_OK;
}

static sc_status read_root(sc_tokenizer *tokenizer, const char *file, const cJSON *root,
                           sc_err *err)
{
    const cJSON *model = NULL;
    const cJSON *pre_tokenizer = NULL;
    const cJSON *added = NULL;
    if (!cJSON_IsObject(root)) {
        return refuse(file, "is no object; a tokenizer.json has model and added_tokens", err);
    }
    SC_TRY(sc_tokenizer_json_get(file, "", root, "model", &model, err));
    SC_TRY(read_model(tokenizer, file, model, err));
    SC_TRY(expect_none(file, "", root, "normalizer", err));
    SC_TRY(sc_tokenizer_json_get(file, "", root, "pre_tokenizer", &pre_tokenizer, err));
    SC_TRY(check_pre_tokenizer(file, pre_tokenizer, err));
    SC_TRY(sc_tokenizer_json_get(file, "", root, "added_tokens", &added, err));
    SC_TRY(read_added(tokenizer, file, added, err));
    return sc_tokenizer_build_finish(tokenizer, file, err);
}

sc_status sc_tokenizer_load_json(const sc_tokenizer_load_file *file, sc_tokenizer **out,
                                 sc_err *err)
{
    sc_status status = SC_OK;
    sc_tokenizer *tokenizer = NULL;
    cJSON *root = NULL;
    SC_GOTO(check_size(file, err));
    SC_GOTO(sc_tokenizer_json_parse(file->name, file->text, file->n, &root, err));
    SC_GOTO(sc_tokenizer_build_new(&tokenizer, err));
    SC_GOTO(read_root(tokenizer, file->name, root, err));
    *out = tokenizer;
    tokenizer = NULL;
out:
    sc_tokenizer_free(&tokenizer);
    cJSON_Delete(root);
    return status;
}

static sc_status read_end_of_text(sc_tokenizer *tokenizer, const char *file, sc_err *err)
{
    int id = sc_tokenizer_vocab_find(&tokenizer->vocab, (const uint8_t *)END_OF_TEXT,
                                     sizeof END_OF_TEXT - 1, false);
    if (id < 0) {
        return SC_OK;
    }
    SC_TRY(sc_tokenizer_build_added(tokenizer, 1, err));
    return sc_tokenizer_build_add(tokenizer, file, 0, END_OF_TEXT, id, err);
}

sc_status sc_tokenizer_load_pair(const sc_tokenizer_load_file *vocab,
                                 const sc_tokenizer_load_file *merges, sc_tokenizer **out,
                                 sc_err *err)
{
    sc_status status = SC_OK;
    sc_tokenizer *tokenizer = NULL;
    cJSON *root = NULL;
    SC_GOTO(check_size(vocab, err));
    SC_GOTO(check_size(merges, err));
    SC_GOTO(sc_tokenizer_json_parse(vocab->name, vocab->text, vocab->n, &root, err));
    SC_GOTO(sc_tokenizer_build_new(&tokenizer, err));
    SC_GOTO(read_vocab(tokenizer, vocab->name, "token", root, err));
    SC_GOTO(read_merge_lines(tokenizer, merges, err));
    SC_GOTO(read_end_of_text(tokenizer, vocab->name, err));
    SC_GOTO(sc_tokenizer_build_finish(tokenizer, vocab->name, err));
    *out = tokenizer;
    tokenizer = NULL;
out:
    sc_tokenizer_free(&tokenizer);
    cJSON_Delete(root);
    return status;
}
