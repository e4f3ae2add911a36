#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 64,
    BLOCK_BYTES = 64 * 1024
};

struct sc_arena_block {
    sc_arena_block *next;
    size_t size;
    size_t used;
    char *bytes; // starts at the first aligned address behind this header
};

void sc_arena_init(sc_arena *arena, size_t limit_bytes)
{
    *arena = (sc_arena){.limit_bytes = limit_bytes};
}

void sc_arena_done(sc_arena *arena)
{
    sc_arena_block *block = arena->blocks;
    while (block != NULL) {
        sc_arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena->blocks = NULL;
    arena->used_bytes = 0;
}

static sc_arena_block *add_block(sc_arena *arena, size_t need)
{
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    if (size > SIZE_MAX - sizeof(sc_arena_block) - ALIGNMENT) {
        return NULL;
    }
    sc_arena_block *block = calloc(1, sizeof *block + ALIGNMENT + size);
    if (block == NULL) {
        return NULL;
    }
    uintptr_t start = (uintptr_t)(block + 1);
    block->bytes = (char *)(block + 1) + (ALIGNMENT - start % ALIGNMENT) % ALIGNMENT;
    block->size = size;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void sc_arena_reset(sc_arena *arena)
{
    size_t used = arena->used_bytes;
    sc_arena_block *only = arena->blocks;
    if (only != NULL && only->next == NULL) {
        memset(only->bytes, 0, only->used);
        only->used = 0;
    } else {
        sc_arena_done(arena);
        if (used > 0) {
            add_block(arena, used);
        }
    }
    arena->used_bytes = 0;
}

void *sc_arena_alloc(sc_arena *arena, size_t n, size_t size)
{
    if (size != 0 && n > (SIZE_MAX - ALIGNMENT) / size) {
        return NULL;
    }
    size_t need = (n * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (need == 0) {
        need = ALIGNMENT;
    }
    if (arena->limit_bytes != 0 && need > arena->limit_bytes - arena->used_bytes) {
        return NULL;
    }
    sc_arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < need) {
        block = add_block(arena, need);
        if (block == NULL) {
            return NULL;
        }
    }
    void *p = block->bytes + block->used;
    block->used += need;
    arena->used_bytes += need;
    return p;
}

char *sc_arena_strndup(sc_arena *arena, const char *text, size_t n)
{
    char *copy = sc_arena_alloc(arena, n + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}
