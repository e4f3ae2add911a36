#include "formats/tokenizer_bpe.h"

#include <stdlib.h>

enum {
    NONE = -1,
    MERGED_AWAY = -2,
    CAPACITY_MIN = 256
};

void sc_tokenizer_bpe_done(sc_tokenizer_bpe *bpe)
{
    free(bpe->ids);
    free(bpe->prev);
    free(bpe->next);
    free(bpe->heap);
    *bpe = (sc_tokenizer_bpe){0};
}

bool sc_tokenizer_bpe_reserve(sc_tokenizer_bpe *bpe, size_t n)
{
    if (n <= bpe->capacity) {
        return true;
    }
    size_t capacity = n < CAPACITY_MIN ? CAPACITY_MIN : n + n / 2;
    sc_tokenizer_bpe_done(bpe);
    bpe->ids = calloc(capacity, sizeof *bpe->ids);
    bpe->prev = calloc(capacity, sizeof *bpe->prev);
    bpe->next = calloc(capacity, sizeof *bpe->next);
    bpe->heap = calloc(2 * capacity, sizeof *bpe->heap);
    if (bpe->ids == NULL || bpe->prev == NULL || bpe->next == NULL || bpe->heap == NULL) {
        sc_tokenizer_bpe_done(bpe);
        return false;
    }
    bpe->capacity = capacity;
    return true;
}

static void push(sc_tokenizer_bpe *bpe, uint64_t item)
{
    size_t at = bpe->n_heap++;
    while (at > 0 && bpe->heap[(at - 1) / 2] > item) {
        bpe->heap[at] = bpe->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    bpe->heap[at] = item;
}

static uint64_t pop(sc_tokenizer_bpe *bpe)
{
    uint64_t top = bpe->heap[0];
    uint64_t item = bpe->heap[--bpe->n_heap];
    size_t at = 0;
    for (size_t child = 1; child < bpe->n_heap; child = 2 * at + 1) {
        if (child + 1 < bpe->n_heap && bpe->heap[child + 1] < bpe->heap[child]) {
            child++;
        }
        if (bpe->heap[child] >= item) {
            break;
        }
        bpe->heap[at] = bpe->heap[child];
        at = child;
    }
    bpe->heap[at] = item;
    return top;
}

/* The merge of symbol `left` with the one behind it; NULL when there is none. */
static const sc_tokenizer_merge *find_merge(const sc_tokenizer_bpe *bpe,
                                            const sc_tokenizer_merges *merges, int32_t left)
{
    int32_t right = bpe->next[left];
    return right < 0 ? NULL : sc_tokenizer_merges_find(merges, bpe->ids[left], bpe->ids[right]);
}

static void push_pair(sc_tokenizer_bpe *bpe, const sc_tokenizer_merges *merges, int32_t left)
{
    const sc_tokenizer_merge *merge = find_merge(bpe, merges, left);
    if (merge != NULL) {
        push(bpe, (uint64_t)merge->rank << 32 | (uint32_t)left);
    }
}

/* Each merge takes one item off the heap and puts at most two on, and there are fewer than n: the
   heap never holds 2 n. */
static void merge_pair(sc_tokenizer_bpe *bpe, const sc_tokenizer_merges *merges, int32_t left,
                       uint16_t id)
{
    int32_t right = bpe->next[left];
    int32_t behind = bpe->next[right];
    bpe->ids[left] = id;
    bpe->next[left] = behind;
    bpe->next[right] = MERGED_AWAY;
    if (behind != NONE) {
        bpe->prev[behind] = left;
    }
    if (bpe->prev[left] != NONE) {
        push_pair(bpe, merges, bpe->prev[left]);
    }
    push_pair(bpe, merges, left);
}

size_t sc_tokenizer_bpe_merge(sc_tokenizer_bpe *bpe, const sc_tokenizer_merges *merges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bpe->prev[i] = (int32_t)i - 1;
        bpe->next[i] = i + 1 < n ? (int32_t)i + 1 : NONE;
    }
    bpe->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        push_pair(bpe, merges, (int32_t)i);
    }
    while (bpe->n_heap > 0) {
        uint64_t item = pop(bpe);
        int32_t left = (int32_t)(item & UINT32_MAX);
        const sc_tokenizer_merge *merge = find_merge(bpe, merges, left);
        // An item is out of date when one of its two symbols has changed since: another rank now.
        if (merge != NULL && merge->rank == item >> 32) {
            merge_pair(bpe, merges, left, merge->id);
        }
    }
    size_t n_left = 0;
    for (int32_t i = 0; i != NONE; i = bpe->next[i]) {
        bpe->ids[n_left++] = bpe->ids[i];
    }
    return n_left;
}
