#include "cli/tokeninfo.h"

#include "formats/tokenizer_utf8.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    CHUNK_TOKENS = 32 * 1024,
    N_TOKENS = 65536,                        // of uint16
    TEXT_BYTES = 4 * SC_TOKENINFO_FIRST + 1, // every byte as \xNN
    TOKEN_BYTES = 32                         // text shown of one token
};

/* The most common tokens, by insertion: the list is short. */
static void find_common(const uint64_t *counts, sc_tokeninfo *out)
{
    for (int token = 0; token < N_TOKENS; token++) {
        if (counts[token] == 0) {
            continue;
        }
        size_t at = out->n_commons;
        while (at > 0 && out->n_common[at - 1] < counts[token]) {
            at--;
        }
        if (at == SC_TOKENINFO_COMMON) {
            continue;
        }
        size_t n_kept = out->n_commons < SC_TOKENINFO_COMMON ? out->n_commons : out->n_commons - 1;
        memmove(&out->common[at + 1], &out->common[at], (n_kept - at) * sizeof out->common[0]);
        memmove(&out->n_common[at + 1], &out->n_common[at],
                (n_kept - at) * sizeof out->n_common[0]);
        out->common[at] = (uint16_t)token;
        out->n_common[at] = counts[token];
        out->n_commons = n_kept + 1;
    }
}

/* Counts tokens from the file's data on. */
static sc_status count_tokens(FILE *file, uint64_t *counts, sc_tokeninfo *out, sc_err *err)
{
    uint8_t bytes[CHUNK_TOKENS * SC_TOKENS_TOKEN_BYTES];
    int32_t tokens[CHUNK_TOKENS];
    uint64_t left = out->file.n_tokens;
    errno = 0;
    if (fseek(file, (long)out->file.data_offset, SEEK_SET) != 0) {
        return sc_status_errno(err, errno, "%s: cannot seek", out->path);
    }
    while (left > 0) {
        size_t want = left < CHUNK_TOKENS ? (size_t)left : CHUNK_TOKENS;
        if (fread(bytes, SC_TOKENS_TOKEN_BYTES, want, file) != want) {
            return ferror(file) ? sc_status_errno(err, errno, "%s: cannot read", out->path)
                                : sc_status_fail(err, SC_INVALID, "%s: became shorter while read",
                                                 out->path);
        }
        sc_tokens_unpack(bytes, want, tokens);
        for (size_t i = 0; i < want; i++) {
            counts[tokens[i]]++;
        }
        if (left == out->file.n_tokens) {
            out->n_first = want < SC_TOKENINFO_FIRST ? want : SC_TOKENINFO_FIRST;
            memcpy(out->first, tokens, out->n_first * sizeof tokens[0]);
        }
        left -= want;
    }
    return SC_OK;
}

static sc_status read_stream(FILE *file, sc_tokens_format format, uint64_t *counts,
                             sc_tokeninfo *out, sc_err *err)
{
    uint8_t head[SC_TOKENS_HEADER_BYTES];
    struct stat there;
    if (fstat(fileno(file), &there) != 0) {
        return sc_status_errno(err, errno, "%s: cannot look at", out->path);
    }
    if (!S_ISREG(there.st_mode)) {
        return sc_status_fail(err, SC_INVALID, "%s: is no ordinary file", out->path);
    }
    errno = 0;
    size_t n_head = fread(head, 1, sizeof head, file);
    if (ferror(file)) {
        return sc_status_errno(err, errno, "%s: cannot read", out->path);
    }
    SC_TRY(
        sc_tokens_parse(out->path, head, n_head, (uint64_t)there.st_size, format, &out->file, err));
    SC_TRY(count_tokens(file, counts, out, err));
    for (int token = 0; token < N_TOKENS; token++) {
        if (counts[token] > 0) {
            out->max_token = (uint32_t)token;
            out->n_distinct++;
        }
    }
    find_common(counts, out);
    return SC_OK;
}

/* Tokens that the tokenizer does not have were made with another one. */
static sc_status check_tokenizer(const sc_tokeninfo *info, sc_err *err)
{
    if (info->tokenizer == NULL ||
        (int)info->max_token < sc_tokenizer_vocab_size(info->tokenizer)) {
        return SC_OK;
    }
    return sc_status_fail(err, SC_INVALID,
                          "%s: has token %" PRIu32 ", the tokenizer's largest is %d; name the one "
                          "that made the file",
                          info->path, info->max_token,
                          sc_tokenizer_vocab_size(info->tokenizer) - 1);
}

sc_status sc_tokeninfo_read(const char *path, sc_tokens_format format,
                            const sc_tokenizer *tokenizer, sc_tokeninfo *out, sc_err *err)
{
    sc_tokeninfo info = {.path = path, .tokenizer = tokenizer};
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return sc_status_errno(err, errno, "%s: cannot open", path);
    }
    sc_status status = SC_OK;
    uint64_t *counts = calloc(N_TOKENS, sizeof *counts);
    if (counts == NULL) {
        status = sc_status_errno(err, ENOMEM, "%s", path);
        goto out;
    }
    SC_GOTO(read_stream(file, format, counts, &info, err));
    SC_GOTO(check_tokenizer(&info, err));
    *out = info;
out:
    free(counts);
    (void)fclose(file);
    return status;
}

static bool has_text(const sc_tokeninfo *info)
{
    return info->tokenizer != NULL || info->max_token < 256;
}

/* Bytes of a token that has_text; none for a number that the tokenizer leaves out. */
static const uint8_t *get_bytes(const sc_tokeninfo *info, int32_t token, uint8_t *byte, size_t *n)
{
    if (info->tokenizer == NULL) {
        *byte = (uint8_t)token;
        *n = 1;
        return byte;
    }
    const uint8_t *bytes = sc_tokenizer_bytes(info->tokenizer, token, n);
    *n = bytes == NULL ? 0 : *n;
    return bytes;
}

/* One byte as it can stand in a line of text. */
static int format_byte(int byte, char *out, size_t n)
{
    if (byte == '\n') {
        return snprintf(out, n, "\\n");
    }
    if (byte == '\\' || byte == '"') {
        return snprintf(out, n, "\\%c", byte);
    }
    return byte >= 0x20 && byte < 0x7f ? snprintf(out, n, "%c", byte)
                                       : snprintf(out, n, "\\x%02x", (unsigned)byte);
}

/* The texts of some tokens, one behind the other, cut where out ends. Characters beyond ASCII stand
   as they are when all of their bytes are there. */
static void format_tokens(const sc_tokeninfo *info, const int32_t *tokens, size_t n_tokens,
                          char *out, size_t n_out)
{
    uint8_t text[TEXT_BYTES];
    size_t n_text = 0;
    for (size_t i = 0; i < n_tokens && n_text < sizeof text; i++) {
        uint8_t byte = 0;
        size_t n = 0;
        const uint8_t *bytes = get_bytes(info, tokens[i], &byte, &n);
        n = n < sizeof text - n_text ? n : sizeof text - n_text;
        if (n > 0) {
            memcpy(text + n_text, bytes, n);
            n_text += n;
        }
    }
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n_text && used + 5 <= n_out;) {
        uint32_t cp = 0;
        size_t n = sc_tokenizer_utf8_get(text + i, n_text - i, &cp);
        if (cp >= 0xa0) {
            used += (size_t)snprintf(out + used, n_out - used, "%.*s", (int)n, (char *)text + i);
        } else {
            used += (size_t)format_byte(text[i], out + used, n_out - used);
        }
        i += cp >= 0xa0 ? n : 1;
    }
}

static void print_common(const sc_tokeninfo *info)
{
    (void)printf("common    ");
    for (size_t i = 0; i < info->n_commons; i++) {
        char text[TOKEN_BYTES] = "";
        const int32_t token = info->common[i];
        if (has_text(info)) {
            format_tokens(info, &token, 1, text, sizeof text);
        }
        (void)printf("%s%" PRId32 "%s%s%s %.1f %%", i == 0 ? "" : ", ", token,
                     text[0] == '\0' ? "" : " \"", text, text[0] == '\0' ? "" : "\"",
                     100.0 * (double)info->n_common[i] / (double)info->file.n_tokens);
    }
    (void)printf("\n");
}

void sc_tokeninfo_print(const sc_tokeninfo *info)
{
    (void)printf("file      %s\n", info->path);
    (void)printf("format    %s (%s)\n", sc_tokens_format_text(info->file.format),
                 info->file.format == SC_TOKENS_LLMC ? "header of 1024 bytes, then uint16"
                                                     : "uint16 from the first byte on");
    (void)printf("tokens    %" PRIu64 "\n", info->file.n_tokens);
    (void)printf("largest   %" PRIu32 ": vocab_size must be at least %" PRIu32 "\n",
                 info->max_token, info->max_token + 1);
    (void)printf("distinct  %" PRIu32 "\n", info->n_distinct);
    print_common(info);
    if (has_text(info)) {
        char text[TEXT_BYTES];
        format_tokens(info, info->first, info->n_first, text, sizeof text);
        (void)printf("starts    \"%s\"\n", text);
        return;
    }
    (void)printf("starts   ");
    for (size_t i = 0; i < info->n_first && i < 16; i++) {
        (void)printf(" %" PRId32, info->first[i]);
    }
    (void)printf("\n");
}

static bool add_lists(cJSON *root, const sc_tokeninfo *info)
{
    cJSON *common = cJSON_AddArrayToObject(root, "common");
    bool is_ok = common != NULL;
    for (size_t i = 0; is_ok && i < info->n_commons; i++) {
        cJSON *entry = cJSON_CreateObject();
        is_ok = cJSON_AddItemToArray(common, entry) &&
                cJSON_AddNumberToObject(entry, "token", info->common[i]) != NULL &&
                cJSON_AddNumberToObject(entry, "count", (double)info->n_common[i]) != NULL;
    }
    cJSON *first = cJSON_CreateIntArray(info->first, (int)info->n_first);
    is_ok = cJSON_AddItemToObject(root, "first", first) && is_ok;
    if (is_ok && has_text(info)) {
        char text[TEXT_BYTES];
        format_tokens(info, info->first, info->n_first, text, sizeof text);
        is_ok = cJSON_AddStringToObject(root, "text", text) != NULL;
    }
    return is_ok;
}

sc_status sc_tokeninfo_print_json(const sc_tokeninfo *info, sc_err *err)
{
    const char *format = sc_tokens_format_text(info->file.format);
    cJSON *root = cJSON_CreateObject();
    bool is_ok =
        root != NULL && cJSON_AddStringToObject(root, "file", info->path) != NULL &&
        cJSON_AddStringToObject(root, "format", format) != NULL &&
        cJSON_AddNumberToObject(root, "tokens", (double)info->file.n_tokens) != NULL &&
        cJSON_AddNumberToObject(root, "data_offset", (double)info->file.data_offset) != NULL &&
        cJSON_AddNumberToObject(root, "max_token", info->max_token) != NULL &&
        cJSON_AddNumberToObject(root, "distinct", info->n_distinct) != NULL &&
        add_lists(root, info);
    char *text = is_ok ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for the JSON text");
    }
    (void)puts(text);
    cJSON_free(text);
    return SC_OK;
}
