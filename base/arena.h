/*
 * arena - memory of one plan or one step, handed out in pieces and freed whole.
 *
 * Owns:     everything sc_arena_alloc returned, until sc_arena_done.
 * Does not: free single pieces, or run constructors.
 * Threads:  none of its own; one caller at a time.
 */
#ifndef SC_BASE_ARENA_H
#define SC_BASE_ARENA_H

#include "base/status.h"

typedef struct sc_arena_block sc_arena_block;

typedef struct sc_arena {
    sc_arena_block *blocks; // newest first
    size_t used_bytes;      // handed out so far, padding included
    size_t limit_bytes;     // 0: none
} sc_arena;

/* An empty arena; limit_bytes = 0 means no limit. Cannot fail; sc_arena_done takes it back. */
void sc_arena_init(sc_arena *arena, size_t limit_bytes);
/* Frees everything. The arena may be used again afterwards. Accepts one that was never used. */
void sc_arena_done(sc_arena *arena);

/* Takes everything back but keeps the memory, as one block, for what comes next: a loop that
   allocates the same amount every turn stops asking the system after the first ones. */
void sc_arena_reset(sc_arena *arena);

/* n * size zeroed bytes, aligned to 64. NULL when out of memory, over the limit or n * size
   overflows. A request of zero bytes gets a valid pointer. */
void *sc_arena_alloc(sc_arena *arena, size_t n, size_t size);
/* A copy of n bytes of text with a terminating NUL. NULL as above. */
char *sc_arena_strndup(sc_arena *arena, const char *text, size_t n);

#endif
