#include "formats/tokenizer_merges.h"

#include <assert.h>

bool sc_tokenizer_merges_init(sc_tokenizer_merges *merges, size_t n, sc_arena *arena)
{
    assert(n <= SC_TOKENIZER_MERGES_MAX);
    *merges = (sc_tokenizer_merges){.n_slots = 4};
    while (merges->n_slots < 2 * n) {
        merges->n_slots *= 2;
    }
    merges->slots = sc_arena_alloc(arena, merges->n_slots, sizeof *merges->slots);
    return merges->slots != NULL;
}

static sc_tokenizer_merge *find_slot(const sc_tokenizer_merges *merges, uint32_t key)
{
    uint32_t mask = merges->n_slots - 1;
    uint32_t slot = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
    while (merges->slots[slot].rank != 0 && merges->slots[slot].key != key) {
        slot = (slot + 1) & mask;
    }
    return &merges->slots[slot];
}

static uint32_t make_key(uint16_t left, uint16_t right)
{
    return (uint32_t)left << 16 | right;
}

void sc_tokenizer_merges_add(sc_tokenizer_merges *merges, int left, int right, int id)
{
    uint32_t key = make_key((uint16_t)left, (uint16_t)right);
    assert(2 * merges->n_listed < merges->n_slots);
    merges->n_listed++;
    *find_slot(merges, key) =
        (sc_tokenizer_merge){.key = key, .rank = merges->n_listed, .id = (uint16_t)id};
}

const sc_tokenizer_merge *sc_tokenizer_merges_find(const sc_tokenizer_merges *merges, uint16_t left,
                                                   uint16_t right)
{
    const sc_tokenizer_merge *merge = find_slot(merges, make_key(left, right));
    return merge->rank == 0 ? NULL : merge;
}
