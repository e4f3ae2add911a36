#include "formats/tokenizer_encode.h"

#include "formats/tokenizer_bpe.h"
#include "formats/tokenizer_split.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CACHE_WORDS = 1 << 16,
    CACHE_BYTES = 30,
    CACHE_TOKENS = 16
};

/* A word seen before; a later word of the same hash takes its place. */
typedef struct cached {
    uint8_t n_bytes; // 0: empty
    uint8_t n_tokens;
    uint8_t bytes[CACHE_BYTES];
    uint16_t tokens[CACHE_TOKENS];
} cached;

struct sc_tokenizer_encode {
    const sc_tokenizer *tokenizer;
    uint8_t *text; // not yet made into tokens
    size_t n_text;
    size_t text_capacity;
    uint64_t offset;    // of text[0] in the whole text
    size_t retry_bytes; // with less text than this no word is complete
    int32_t *tokens;
    size_t n_tokens;
    size_t tokens_capacity;
    sc_tokenizer_bpe bpe;
    cached *cache; // (CACHE_WORDS)
};

static sc_status no_memory(sc_err *err)
{
    return sc_status_fail(err, SC_NO_MEMORY, "no memory to tokenize a text");
}

sc_status sc_tokenizer_encode_new(const sc_tokenizer *tokenizer, sc_tokenizer_encode **out,
                                  sc_err *err)
{
    sc_tokenizer_encode *encode = calloc(1, sizeof *encode);
    if (encode == NULL) {
        return no_memory(err);
    }
    encode->tokenizer = tokenizer;
    encode->cache = calloc(CACHE_WORDS, sizeof *encode->cache);
    if (encode->cache == NULL) {
        sc_tokenizer_encode_free(&encode);
        return no_memory(err);
    }
    *out = encode;
    return SC_OK;
}

void sc_tokenizer_encode_free(sc_tokenizer_encode **encode)
{
    if (*encode != NULL) {
        free((*encode)->text);
        free((*encode)->tokens);
        free((*encode)->cache);
        sc_tokenizer_bpe_done(&(*encode)->bpe);
        free(*encode);
        *encode = NULL;
    }
}

static void forget_text(sc_tokenizer_encode *encode)
{
    encode->n_text = 0;
    encode->offset = 0;
    encode->retry_bytes = 0;
}

/* The text behind what is there; a token takes at least one byte of it, so that is the room that
   the tokens need. */
static sc_status append(sc_tokenizer_encode *encode, const void *bytes, size_t n, sc_err *err)
{
    size_t need = encode->n_text + n;
    if (need > encode->text_capacity) {
        uint8_t *text = realloc(encode->text, need + need / 2);
        if (text == NULL) {
            return no_memory(err);
        }
        encode->text = text;
        encode->text_capacity = need + need / 2;
    }
    if (encode->text_capacity > encode->tokens_capacity) {
        free(encode->tokens);
        encode->tokens_capacity = 0;
        encode->tokens = calloc(encode->text_capacity, sizeof *encode->tokens);
        if (encode->tokens == NULL) {
            return no_memory(err);
        }
        encode->tokens_capacity = encode->text_capacity;
    }
    if (n > 0) {
        memcpy(encode->text + encode->n_text, bytes, n);
    }
    encode->n_text = need;
    return SC_OK;
}

static void emit(sc_tokenizer_encode *encode, const uint16_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        encode->tokens[encode->n_tokens++] = ids[i];
    }
}

static sc_status fail_long_word(const sc_tokenizer_encode *encode, const uint8_t *word, sc_err *err)
{
    return sc_status_fail(err, SC_LIMIT,
                          "byte %" PRIu64 ": a word of over %d bytes, without a change between "
                          "letters, numbers, signs and spaces; split it",
                          encode->offset + (uint64_t)(word - encode->text),
                          SC_TOKENIZER_ENCODE_WORD_MAX);
}

/* The tokens of a word that is not in the cache, in bpe.ids. */
static sc_status merge_word(sc_tokenizer_encode *encode, const uint8_t *word, size_t n,
                            size_t *n_ids, sc_err *err)
{
    const sc_tokenizer *tokenizer = encode->tokenizer;
    if (n > SC_TOKENIZER_ENCODE_WORD_MAX) {
        return fail_long_word(encode, word, err);
    }
    if (!sc_tokenizer_bpe_reserve(&encode->bpe, n)) {
        return no_memory(err);
    }
    int whole =
        tokenizer->ignores_merges ? sc_tokenizer_vocab_find(&tokenizer->vocab, word, n, false) : -1;
    if (whole >= 0) {
        encode->bpe.ids[0] = (uint16_t)whole;
        *n_ids = 1;
        return SC_OK;
    }
    for (size_t i = 0; i < n; i++) {
        encode->bpe.ids[i] = tokenizer->byte_ids[word[i]];
    }
    *n_ids = sc_tokenizer_bpe_merge(&encode->bpe, &tokenizer->merges, n);
    return SC_OK;
}

static void remember(cached *entry, const uint8_t *word, size_t n, const uint16_t *ids,
                     size_t n_ids)
{
    if (n_ids <= CACHE_TOKENS) {
        entry->n_bytes = (uint8_t)n;
        entry->n_tokens = (uint8_t)n_ids;
        memcpy(entry->bytes, word, n);
        memcpy(entry->tokens, ids, n_ids * sizeof *ids);
    }
}

static sc_status encode_word(sc_tokenizer_encode *encode, const uint8_t *word, size_t n,
                             sc_err *err)
{
    size_t n_ids = 0;
    if (n > CACHE_BYTES) {
        SC_TRY(merge_word(encode, word, n, &n_ids, err));
        emit(encode, encode->bpe.ids, n_ids);
        return SC_OK;
    }
    cached *entry = &encode->cache[sc_tokenizer_vocab_hash(word, n) % CACHE_WORDS];
    if (entry->n_bytes == n && memcmp(entry->bytes, word, n) == 0) {
        emit(encode, entry->tokens, entry->n_tokens);
        return SC_OK;
    }
    SC_TRY(merge_word(encode, word, n, &n_ids, err));
    emit(encode, encode->bpe.ids, n_ids);
    remember(entry, word, n, encode->bpe.ids, n_ids);
    return SC_OK;
}

/* The words of n bytes without added tokens. is_whole: nothing belongs to the last word but what is
   here; otherwise it stops, with *used < n, before words that more text could change. */
static sc_status encode_words(sc_tokenizer_encode *encode, const uint8_t *p, size_t n,
                              bool is_whole, size_t *used, sc_err *err)
{
    size_t at = 0;
    while (at < n) {
        size_t length = sc_tokenizer_split_next(p + at, n - at);
        if (!is_whole && at + length + SC_TOKENIZER_SPLIT_AHEAD > n) {
            break;
        }
        SC_TRY(encode_word(encode, p + at, length, err));
        at += length;
    }
    *used = at;
    return SC_OK;
}

/* The same for text that has been searched for added tokens up to those of `level`. A match is
   certain when the longest token, had it started there, would be seen whole. */
static sc_status encode_level(sc_tokenizer_encode *encode, int level, const uint8_t *p, size_t n,
                              bool is_whole, size_t *used, sc_err *err);

static sc_status encode_between(sc_tokenizer_encode *encode, int level, const uint8_t *p, size_t n,
                                bool is_whole, size_t *used, sc_err *err)
{
    if (level == SC_TOKENIZER_N_ADDED) {
        return encode_words(encode, p, n, is_whole, used, err);
    }
    return encode_level(encode, level, p, n, is_whole, used, err);
}

static sc_status encode_level(sc_tokenizer_encode *encode, int level, const uint8_t *p, size_t n,
                              bool is_whole, size_t *used, sc_err *err)
{
    const sc_tokenizer_added *added = &encode->tokenizer->added[level];
    sc_tokenizer_added_match match;
    size_t at = 0;
    *used = 0;
    while (sc_tokenizer_added_find(added, p, at, n, &match) &&
           (is_whole || match.start + added->max_bytes <= n)) {
        size_t n_between = match.start - at;
        SC_TRY(encode_between(encode, level + 1, p + at, n_between, true, used, err));
        encode->tokens[encode->n_tokens++] = match.id;
        at = match.start + match.n_bytes;
    }
    size_t n_unseen = is_whole ? 0 : added->max_bytes; // one could start in these
    size_t n_rest = n - at > n_unseen ? n - at - n_unseen : 0;
    SC_TRY(encode_between(encode, level + 1, p + at, n_rest, is_whole, used, err));
    *used += at;
    return SC_OK;
}

/* All that is certain of the text; what is left moves to the front. */
static sc_status encode_text(sc_tokenizer_encode *encode, bool is_last, sc_err *err)
{
    size_t used = 0;
    if (encode->n_text == 0) {
        return SC_OK;
    }
    SC_TRY(encode_between(encode, 0, encode->text, encode->n_text, is_last, &used, err));
    encode->n_text -= used;
    encode->offset += used;
    if (encode->n_text > 0) {
        memmove(encode->text, encode->text + used, encode->n_text);
    }
    const size_t margin =
        SC_TOKENIZER_SPLIT_AHEAD + SC_TOKENIZER_N_ADDED * (size_t)SC_TOKENIZER_ADDED_BYTES_MAX;
    if (encode->n_text > SC_TOKENIZER_ENCODE_WORD_MAX + margin) {
        return fail_long_word(encode, encode->text, err);
    }
    // A word that grows piece by piece is looked at when it has doubled, not with every piece.
    encode->retry_bytes = encode->n_text > margin ? 2 * encode->n_text : 0;
    return SC_OK;
}

sc_status sc_tokenizer_encode_push(sc_tokenizer_encode *encode, const void *bytes, size_t n,
                                   bool is_last, const int32_t **tokens, size_t *n_tokens,
                                   sc_err *err)
{
    encode->n_tokens = 0;
    sc_status status = append(encode, bytes, n, err);
    if (status == SC_OK && (is_last || encode->n_text >= encode->retry_bytes)) {
        status = encode_text(encode, is_last, err);
    }
    if (status != SC_OK || is_last) {
        forget_text(encode);
    }
    if (status == SC_OK) {
        *tokens = encode->tokens;
        *n_tokens = encode->n_tokens;
    }
    return status;
}
