#include "formats/tokenizer_vocab.h"

#include <assert.h>
#include <string.h>

enum {
    N_SLOTS = 2 * SC_TOKENIZER_VOCAB_MAX // a power of two, half empty at most
};

bool sc_tokenizer_vocab_init(sc_tokenizer_vocab *vocab, sc_arena *arena)
{
    *vocab = (sc_tokenizer_vocab){0};
    vocab->tokens = sc_arena_alloc(arena, SC_TOKENIZER_VOCAB_MAX, sizeof *vocab->tokens);
    vocab->slots = sc_arena_alloc(arena, N_SLOTS, sizeof *vocab->slots);
    return vocab->tokens != NULL && vocab->slots != NULL;
}

/* FNV-1a, then splitmix64's finaliser. */
uint64_t sc_tokenizer_vocab_hash(const uint8_t *bytes, size_t n)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    hash ^= hash >> 31;
    return hash == 0 ? 1 : hash;
}

/* The slot of a token, or the empty one where it belongs. */
static size_t find_slot(const sc_tokenizer_vocab *vocab, const uint8_t *bytes, size_t n,
                        bool is_raw)
{
    size_t slot = (size_t)sc_tokenizer_vocab_hash(bytes, n) % N_SLOTS;
    while (vocab->slots[slot] != 0) {
        const sc_tokenizer_vocab_token *token = &vocab->tokens[vocab->slots[slot] - 1];
        if (token->n_bytes == n && token->is_raw == is_raw && memcmp(token->bytes, bytes, n) == 0) {
            break;
        }
        slot = (slot + 1) % N_SLOTS;
    }
    return slot;
}

void sc_tokenizer_vocab_add(sc_tokenizer_vocab *vocab, int id, const uint8_t *bytes, size_t n,
                            bool is_raw)
{
    size_t slot = find_slot(vocab, bytes, n, is_raw);
    assert(id >= 0 && id < SC_TOKENIZER_VOCAB_MAX && vocab->tokens[id].bytes == NULL);
    assert(vocab->slots[slot] == 0 && n > 0 && n <= SC_TOKENIZER_VOCAB_TOKEN_MAX);
    vocab->tokens[id] = (sc_tokenizer_vocab_token){bytes, (uint32_t)n, is_raw, false};
    vocab->slots[slot] = id + 1;
    vocab->n_tokens++;
    vocab->n_ids = id >= vocab->n_ids ? id + 1 : vocab->n_ids;
}

int sc_tokenizer_vocab_find(const sc_tokenizer_vocab *vocab, const uint8_t *bytes, size_t n,
                            bool is_raw)
{
    return vocab->slots[find_slot(vocab, bytes, n, is_raw)] - 1;
}
