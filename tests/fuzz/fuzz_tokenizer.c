/*
 * fuzz_tokenizer - any bytes as a tokenizer's files and as a text: no crash, and what a tokenizer
 * encodes it decodes to the same bytes, however the text is cut.
 *
 * The first byte chooses: 0 tokenizer.json, 1 vocab.json and merges.txt (a NUL between them),
 * other: a text of bytes for a fixed small tokenizer with added tokens, in pieces of that many
 * bytes.
 */
#include "formats/tokenizer_build.h"
#include "formats/tokenizer_encode.h"
#include "formats/tokenizer_load.h"

#include <stdlib.h>
#include <string.h>

/* libFuzzer gives the name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Aborts on a failure that no input may cause. */
static void must(bool is_ok)
{
    if (!is_ok) {
        abort();
    }
}

static int32_t *encode(sc_tokenizer_encode *encoder, const uint8_t *text, size_t n, size_t piece,
                       size_t *n_out)
{
    int32_t *out = calloc(n + 1, sizeof *out);
    must(out != NULL);
    *n_out = 0;
    for (size_t at = 0; at <= n; at += piece) {
        const int32_t *tokens = NULL;
        size_t n_tokens = 0;
        size_t n_piece = n - at < piece ? n - at : piece;
        must(sc_tokenizer_encode_push(encoder, text + at, n_piece, at + piece > n, &tokens,
                                      &n_tokens, NULL) == SC_OK);
        must(n_tokens <= n - *n_out);
        for (size_t i = 0; i < n_tokens; i++) {
            out[(*n_out)++] = tokens[i];
        }
    }
    return out;
}

static sc_tokenizer_encode *make_encoder(const sc_tokenizer *tokenizer)
{
    sc_tokenizer_encode *encoder = NULL;
    must(sc_tokenizer_encode_new(tokenizer, &encoder, NULL) == SC_OK);
    return encoder;
}

static void check_round_trip(const sc_tokenizer *tokenizer, sc_tokenizer_encode *encoder,
                             const uint8_t *text, size_t n, size_t piece)
{
    size_t n_tokens = 0;
    size_t n_pieced = 0;
    size_t n_back = 0;
    char *back = NULL;
    int32_t *tokens = encode(encoder, text, n, n + 1, &n_tokens);
    int32_t *pieced = encode(encoder, text, n, piece, &n_pieced);
    must(n_tokens == n_pieced && memcmp(tokens, pieced, n_tokens * sizeof *tokens) == 0);
    must(sc_tokenizer_decode(tokenizer, tokens, n_tokens, &back, &n_back, NULL) == SC_OK);
    must(n_back == n && (n == 0 || memcmp(back, text, n) == 0));
    free(tokens);
    free(pieced);
    free(back);
}

/* The alphabet, merges of common letters, and added tokens that overlap, in both levels. */
static sc_tokenizer *make_fixed(void)
{
    static const char *const MERGES[][2] = {{"t", "h"}, {"th", "e"}, {"a", "a"}, {"aa", "aa"},
                                            {"e", "t"}, {"aa", "a"}, {"s", "t"}, {"'", "s"}};
    static const char *const ADDED[] = {"<|", "<|e|>", "|>", "the a", "\xe2\x98\x83", " "};
    sc_tokenizer *tokenizer = NULL;
    int id = 0;
    must(sc_tokenizer_build_new(&tokenizer, NULL) == SC_OK);
    for (unsigned cp = 0x21; cp < 0x144; cp++) {
        if ((cp > 0x7e && cp < 0xa1) || cp == 0xad) {
            continue;
        }
        const char wide[] = {(char)(0xc0 | cp >> 6), (char)(0x80 | (cp & 0x3f)), 0};
        const char narrow[] = {(char)cp, 0};
        must(sc_tokenizer_build_token(tokenizer, "f", cp < 0x80 ? narrow : wide, id++, NULL) ==
             SC_OK);
    }
    const size_t n_merges = sizeof MERGES / sizeof MERGES[0];
    must(sc_tokenizer_build_merges(tokenizer, "f", n_merges, NULL) == SC_OK);
    for (size_t i = 0; i < n_merges; i++) {
        char both[8] = "";
        const char *const *pair = MERGES[i];
        (void)strcat(strcat(both, pair[0]), pair[1]);
        must(sc_tokenizer_build_token(tokenizer, "f", both, id++, NULL) == SC_OK);
        must(sc_tokenizer_build_merge(tokenizer, "f", pair[0], strlen(pair[0]), pair[1],
                                      strlen(pair[1]), NULL) == SC_OK);
    }
    const size_t n_added = sizeof ADDED / sizeof ADDED[0];
    must(sc_tokenizer_build_added(tokenizer, n_added, NULL) == SC_OK);
    for (size_t i = 0; i < n_added; i++) {
        must(sc_tokenizer_build_add(tokenizer, "f", i % 2 == 0 ? 1 : 0, ADDED[i], id++, NULL) ==
             SC_OK);
    }
    must(sc_tokenizer_build_finish(tokenizer, "f", NULL) == SC_OK);
    return tokenizer;
}

static void fuzz_files(const uint8_t *data, size_t n, bool is_pair)
{
    const char *text = (const char *)data;
    const char *end = is_pair ? memchr(text, '\0', n) : NULL;
    size_t n_first = end == NULL ? n : (size_t)(end - text);
    const sc_tokenizer_load_file first = {"f", text, n_first};
    size_t from = end == NULL ? n : n_first + 1;
    const sc_tokenizer_load_file second = {"m", text + from, n - from};
    sc_tokenizer *tokenizer = NULL;
    sc_err err;
    sc_status status = is_pair ? sc_tokenizer_load_pair(&first, &second, &tokenizer, &err)
                               : sc_tokenizer_load_json(&first, &tokenizer, &err);
    if (status == SC_OK) {
        sc_tokenizer_encode *encoder = make_encoder(tokenizer);
        check_round_trip(tokenizer, encoder, data, n, 3); // its own file, and all that is in it
        sc_tokenizer_encode_free(&encoder);
    }
    sc_tokenizer_free(&tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static sc_tokenizer *fixed = NULL; // kept, making them costs more than a run
    static sc_tokenizer_encode *encoder = NULL;
    if (n == 0) {
        return 0;
    }
    if (data[0] <= 1) {
        fuzz_files(data + 1, n - 1, data[0] == 1);
        return 0;
    }
    fixed = fixed == NULL ? make_fixed() : fixed;
    encoder = encoder == NULL ? make_encoder(fixed) : encoder;
    check_round_trip(fixed, encoder, data + 1, n - 1, 1 + data[0] % 13U);
    return 0;
}
