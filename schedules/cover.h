/*
 * cover - where each (stage, microbatch) stands in a table, and the rules that make that unique.
 *
 * Owns:     its arrays; sc_cover_done gives them back.
 * Does not: look at communication (pairing does) or across ranks (walk does).
 *
 * Everything that follows dependencies starts from a cover, so a table that has one is safe to
 * index by its own actions.
 */
#ifndef SC_SCHEDULES_COVER_H
#define SC_SCHEDULES_COVER_H

#include "schedules/table.h"

/* A cell of a table, for messages. Both count from 0. */
typedef struct sc_place {
    int rank; // -1: the table as a whole
    int cell; // -1: the row as a whole
} sc_place;

/* Cell numbers within the row of the stage's rank, plus 1; 0: none. Arrays are indexed by
   sc_cover_pair. */
typedef struct sc_cover {
    int *f;    // (n_stages * n_mb) F
    int *back; // (n_stages * n_mb) B or I
    int *w;    // (n_stages * n_mb) W; 0 where B does both
} sc_cover;

/* Index of a pair in the arrays of a cover. */
size_t sc_cover_pair(const sc_table *table, int stage, int mb);

/* Checks, rule by rule: placement, kinds of actions, ranges, each stage on its rank, exactly one F,
   exactly one B or I with W (none in forward-only tables), order within the row. Fills *out, to be
   given back with sc_cover_done. On SC_INVALID *place says where; the text does not repeat it. */
sc_status sc_cover_make(const sc_table *table, sc_cover *out, sc_place *place, sc_err *err);
/* Accepts a zeroed one. */
void sc_cover_done(sc_cover *cover);

#endif
