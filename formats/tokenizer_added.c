#include "formats/tokenizer_added.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool sc_tokenizer_added_init(sc_tokenizer_added *added, size_t n, sc_arena *arena)
{
    *added = (sc_tokenizer_added){0};
    added->tokens = sc_arena_alloc(arena, n, sizeof *added->tokens);
    return added->tokens != NULL;
}

void sc_tokenizer_added_add(sc_tokenizer_added *added, const uint8_t *bytes, size_t n, int id)
{
    assert(n > 0 && n <= SC_TOKENIZER_ADDED_BYTES_MAX);
    added->tokens[added->n_tokens++] = (sc_tokenizer_added_token){bytes, n, id};
    added->max_bytes = n > added->max_bytes ? n : added->max_bytes;
    added->starts[bytes[0]] = true;
}

static int compare(const void *a, const void *b)
{
    const sc_tokenizer_added_token *x = a;
    const sc_tokenizer_added_token *y = b;
    size_t n = x->n_bytes < y->n_bytes ? x->n_bytes : y->n_bytes;
    int order = memcmp(x->bytes, y->bytes, n);
    return order != 0 ? order : (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

void sc_tokenizer_added_sort(sc_tokenizer_added *added)
{
    if (added->n_tokens > 1) {
        qsort(added->tokens, added->n_tokens, sizeof *added->tokens, compare);
    }
}

/* First of tokens [low, high), which agree in their first `depth` bytes, whose byte at depth is
   not below `byte`. A token that ends there comes before all others. */
static size_t bound(const sc_tokenizer_added *added, size_t low, size_t high, size_t depth,
                    unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const sc_tokenizer_added_token *token = &added->tokens[middle];
        if (token->n_bytes <= depth || token->bytes[depth] < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest token at p, narrowing the range of those that agree byte by byte. */
static const sc_tokenizer_added_token *match(const sc_tokenizer_added *added, const uint8_t *p,
                                             size_t n)
{
    const sc_tokenizer_added_token *longest = NULL;
    size_t low = 0;
    size_t high = added->n_tokens;
    for (size_t depth = 0; depth < n; depth++) {
        low = bound(added, low, high, depth, p[depth]);
        high = bound(added, low, high, depth, p[depth] + 1U);
        if (low == high) {
            break;
        }
        if (added->tokens[low].n_bytes == depth + 1) {
            longest = &added->tokens[low];
        }
    }
    return longest;
}

bool sc_tokenizer_added_find(const sc_tokenizer_added *added, const uint8_t *text, size_t from,
                             size_t n, sc_tokenizer_added_match *out)
{
    for (size_t at = from; added->n_tokens > 0 && at < n; at++) {
        const sc_tokenizer_added_token *token =
            added->starts[text[at]] ? match(added, text + at, n - at) : NULL;
        if (token != NULL) {
            *out = (sc_tokenizer_added_match){at, token->n_bytes, token->id};
            return true;
        }
    }
    return false;
}
