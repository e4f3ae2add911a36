#include "model/recompute.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {
    [SC_RECOMPUTE_NONE] = "none",
    [SC_RECOMPUTE_SELECTIVE] = "selective",
    [SC_RECOMPUTE_FULL] = "full",
};

enum {
    N_NAMES = sizeof NAMES / sizeof NAMES[0],
    DIGITS_MAX = 12 // of a block's number, with its comma
};

sc_recompute_kind sc_recompute_of(const sc_recompute *recompute, int block)
{
    if (recompute->kind != SC_RECOMPUTE_BLOCKS) {
        return recompute->kind;
    }
    for (int i = 0; i < recompute->n_blocks; i++) {
        if (recompute->blocks[i] == block) {
            return SC_RECOMPUTE_FULL;
        }
    }
    return SC_RECOMPUTE_NONE;
}

sc_status sc_recompute_format(const sc_recompute *recompute, sc_arena *arena, const char **out,
                              sc_err *err)
{
    if (recompute->kind != SC_RECOMPUTE_BLOCKS || recompute->n_blocks == 0) {
        *out = NAMES[recompute->kind == SC_RECOMPUTE_BLOCKS ? SC_RECOMPUTE_NONE : recompute->kind];
        return SC_OK;
    }
    size_t capacity = (size_t)recompute->n_blocks * DIGITS_MAX;
    char *text = sc_arena_alloc(arena, capacity, 1);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of %d blocks",
                              recompute->n_blocks);
    }
    size_t used = 0;
    for (int i = 0; i < recompute->n_blocks; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", i == 0 ? "" : ",",
                                 recompute->blocks[i]);
    }
    *out = text;
    return SC_OK;
}

sc_status sc_recompute_check(const sc_recompute *recompute, int n_layer, sc_err *err)
{
    int before = -1;
    for (int i = 0; recompute->kind == SC_RECOMPUTE_BLOCKS && i < recompute->n_blocks; i++) {
        int block = recompute->blocks[i];
        if (block < 0 || block >= n_layer) {
            return sc_status_fail(err, SC_INVALID, "block %d of a model with blocks 0 to %d", block,
                                  n_layer - 1);
        }
        if (block <= before) {
            return sc_status_fail(err, SC_INVALID,
                                  "block %d after block %d; list each once, in rising order", block,
                                  before);
        }
        before = block;
    }
    return SC_OK;
}

/* "0,3,4" and nothing behind it. */
static sc_status parse_blocks(const char *text, int n_layer, int *blocks, int *n_out, sc_err *err)
{
    const char *at = text;
    int n = 0;
    for (;;) {
        char *end = NULL;
        errno = 0;
        long block = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (block < 0 || block >= n_layer || errno != 0 || n == n_layer) {
            return sc_status_fail(err, SC_INVALID,
                                  "recompute '%.40s': at '%.12s' no block of a model with %d", text,
                                  at, n_layer);
        }
        blocks[n++] = (int)block;
        if (*end == '\0') {
            *n_out = n;
            return SC_OK;
        }
        at = *end == ',' ? end + 1 : end;
    }
}

sc_status sc_recompute_parse(const char *text, int n_layer, sc_arena *arena, sc_recompute *out,
                             sc_err *err)
{
    for (int i = 0; i < N_NAMES; i++) {
        if (strcmp(text, NAMES[i]) == 0) {
            *out = (sc_recompute){.kind = (sc_recompute_kind)i};
            return SC_OK;
        }
    }
    int *blocks = sc_arena_alloc(arena, (size_t)n_layer, sizeof *blocks);
    if (blocks == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of %d blocks", n_layer);
    }
    sc_recompute parsed = {.kind = SC_RECOMPUTE_BLOCKS, .blocks = blocks};
    SC_TRY(parse_blocks(text, n_layer, blocks, &parsed.n_blocks, err));
    SC_TRY(sc_recompute_check(&parsed, n_layer, err));
    *out = parsed;
    return SC_OK;
}
