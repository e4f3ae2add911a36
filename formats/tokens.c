#include "formats/tokens.h"

#include <inttypes.h>
#include <string.h>

static const char *const FORMAT_TEXTS[] = {
    [SC_TOKENS_AUTO] = "auto", [SC_TOKENS_LLMC] = "llmc", [SC_TOKENS_RAW16] = "raw16"};

/* llm.c's later files (Llama 3) have uint32 tokens behind this magic. */
enum {
    MAGIC_UINT32 = 20240801
};

const char *sc_tokens_format_text(sc_tokens_format format)
{
    return FORMAT_TEXTS[format];
}

bool sc_tokens_format_parse(const char *text, sc_tokens_format *out)
{
    for (size_t i = 0; i < sizeof FORMAT_TEXTS / sizeof FORMAT_TEXTS[0]; i++) {
        if (strcmp(text, FORMAT_TEXTS[i]) == 0) {
            *out = (sc_tokens_format)i;
            return true;
        }
    }
    return false;
}

static int32_t read_i32(const uint8_t *p)
{
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

static unsigned read_u16(const uint8_t *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

/* True when the bytes behind the magic are an llm.c header of just this file: then another magic is
   a damaged or foreign header, not a raw file. */
static bool fits_header(const uint8_t *head, size_t n_head, uint64_t file_bytes)
{
    if (n_head < SC_TOKENS_HEADER_BYTES) {
        return false;
    }
    int32_t n_tokens = read_i32(head + 8);
    return read_i32(head + 4) == SC_TOKENS_VERSION && n_tokens > 0 &&
           (uint64_t)n_tokens * SC_TOKENS_TOKEN_BYTES ==
               file_bytes - (uint64_t)SC_TOKENS_HEADER_BYTES;
}

static sc_tokens_format guess(const uint8_t *head, size_t n_head, uint64_t file_bytes)
{
    if (n_head >= 4 &&
        (read_i32(head) == SC_TOKENS_MAGIC || read_i32(head) == (int32_t)MAGIC_UINT32)) {
        return SC_TOKENS_LLMC;
    }
    return fits_header(head, n_head, file_bytes) ? SC_TOKENS_LLMC : SC_TOKENS_RAW16;
}

static sc_status check_header(const char *name, const uint8_t *head, size_t n_head, sc_err *err)
{
    if (n_head < SC_TOKENS_HEADER_BYTES) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: truncated: %zu bytes are less than the header's %d; make the "
                              "file again",
                              name, n_head, SC_TOKENS_HEADER_BYTES);
    }
    int32_t magic = read_i32(head);
    if (magic == MAGIC_UINT32) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s: byte 0: magic %" PRId32
                              " is llm.c's file of uint32 tokens; only uint16 tokens (magic %d) "
                              "can be read",
                              name, magic, SC_TOKENS_MAGIC);
    }
    if (magic != SC_TOKENS_MAGIC) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: byte 0: wrong magic %" PRId32
                              ", an llm.c token file has %d; use format raw16 if the file is bare "
                              "uint16 tokens",
                              name, magic, SC_TOKENS_MAGIC);
    }
    int32_t version = read_i32(head + 4);
    if (version != SC_TOKENS_VERSION) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s: byte 4: version %" PRId32
                              ", only version %d can be read; make the file again",
                              name, version, SC_TOKENS_VERSION);
    }
    return SC_OK;
}

static sc_status parse_llmc(const char *name, const uint8_t *head, size_t n_head,
                            uint64_t file_bytes, sc_tokens_info *out, sc_err *err)
{
    SC_TRY(check_header(name, head, n_head, err));
    int32_t n_tokens = read_i32(head + 8);
    if (n_tokens <= 0) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: byte 8: %" PRId32 " tokens; make the file again from a text "
                              "that is not empty",
                              name, n_tokens);
    }
    uint64_t want = SC_TOKENS_HEADER_BYTES + (uint64_t)n_tokens * SC_TOKENS_TOKEN_BYTES;
    if (file_bytes != want) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: %s: the header promises %" PRId32 " tokens, %" PRIu64
                              " bytes in all, the file has %" PRIu64 "; make the file again",
                              name, file_bytes < want ? "truncated" : "too long", n_tokens, want,
                              file_bytes);
    }
    *out = (sc_tokens_info){.format = SC_TOKENS_LLMC,
                            .data_offset = SC_TOKENS_HEADER_BYTES,
                            .n_tokens = (uint64_t)n_tokens};
    return SC_OK;
}

static sc_status parse_raw16(const char *name, uint64_t file_bytes, sc_tokens_info *out,
                             sc_err *err)
{
    if (file_bytes == 0) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: empty file; make it with `stagecoach data tokenize`", name);
    }
    if (file_bytes % SC_TOKENS_TOKEN_BYTES != 0) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: truncated: %" PRIu64
                              " bytes are no whole number of uint16 tokens; make the file again",
                              name, file_bytes);
    }
    *out = (sc_tokens_info){.format = SC_TOKENS_RAW16,
                            .data_offset = 0,
                            .n_tokens = file_bytes / SC_TOKENS_TOKEN_BYTES};
    return SC_OK;
}

sc_status sc_tokens_parse(const char *name, const void *head, size_t n_head, uint64_t file_bytes,
                          sc_tokens_format format, sc_tokens_info *out, sc_err *err)
{
    if (format == SC_TOKENS_AUTO) {
        format = guess(head, n_head, file_bytes);
    }
    if (format == SC_TOKENS_LLMC) {
        return parse_llmc(name, head, n_head, file_bytes, out, err);
    }
    return parse_raw16(name, file_bytes, out, err);
}

uint64_t sc_tokens_n_samples(uint64_t n_tokens, int T)
{
    return n_tokens == 0 ? 0 : (n_tokens - 1) / (uint64_t)T;
}

sc_status sc_tokens_check_batch(const char *name, const sc_tokens_info *info, uint64_t n_samples,
                                int T, sc_err *err)
{
    uint64_t have = sc_tokens_n_samples(info->n_tokens, T);
    if (have >= n_samples) {
        return SC_OK;
    }
    return sc_status_fail(err, SC_INVALID,
                          "%s: %" PRIu64 " tokens are shorter than one batch: %" PRIu64
                          " samples of %d tokens need %" PRIu64
                          "; use a longer text or a smaller batch",
                          name, info->n_tokens, n_samples, T, n_samples * (uint64_t)T + 1);
}

size_t sc_tokens_find_invalid(const void *tokens, size_t n, int vocab_size)
{
    const uint8_t *p = tokens;
    size_t i = 0;
    while (i < n && read_u16(p + 2 * i) < (unsigned)vocab_size) {
        i++;
    }
    return i;
}

sc_status sc_tokens_check_range(const char *name, const sc_tokens_info *info, uint64_t first,
                                const void *tokens, size_t n, int vocab_size, sc_err *err)
{
    size_t i = sc_tokens_find_invalid(tokens, n, vocab_size);
    if (i == n) {
        return SC_OK;
    }
    unsigned token = read_u16((const uint8_t *)tokens + 2 * i);
    uint64_t index = first + i;
    return sc_status_fail(err, SC_INVALID,
                          "%s: byte %" PRIu64 ": token %" PRIu64
                          " is %u, not below vocab_size %d; set model.vocab_size to at least %u or "
                          "tokenize the text again",
                          name, info->data_offset + 2 * index, index, token, vocab_size, token + 1);
}

void sc_tokens_unpack(const void *tokens, size_t n, int32_t *out)
{
    const uint8_t *p = tokens;
    for (size_t i = 0; i < n; i++) {
        out[i] = (int32_t)read_u16(p + 2 * i);
    }
}

void sc_tokens_pack_bytes(const void *text, size_t n, void *out)
{
    const uint8_t *from = text;
    uint8_t *to = out;
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = 0;
    }
}

void sc_tokens_pack(const int32_t *tokens, size_t n, void *out)
{
    uint8_t *to = out;
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = (uint8_t)tokens[i];
        to[2 * i + 1] = (uint8_t)(tokens[i] >> 8);
    }
}

static void write_i32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(value >> (8 * i));
    }
}

sc_status sc_tokens_pack_header(uint64_t n_tokens, uint8_t out[SC_TOKENS_HEADER_BYTES], sc_err *err)
{
    if (n_tokens > INT32_MAX) {
        return sc_status_fail(err, SC_LIMIT,
                              "%" PRIu64 " tokens do not fit an llm.c header, which counts up to "
                              "%" PRId32 "; split the text",
                              n_tokens, INT32_MAX);
    }
    memset(out, 0, SC_TOKENS_HEADER_BYTES);
    write_i32(out, SC_TOKENS_MAGIC);
    write_i32(out + 4, SC_TOKENS_VERSION);
    write_i32(out + 8, (uint32_t)n_tokens);
    return SC_OK;
}
