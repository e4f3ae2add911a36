/*
 * table - a schedule as a value: ranks x cells, with the placement of stages on ranks.
 *
 * Owns:     all of its memory, in one arena; sc_table_free gives it back whole.
 * Does not: check itself (validate does), know times (simulate does) or how it was made (gen does).
 *
 * A table is either compute-only (F B I W) or lowered (with SEND/RECV/REDUCE_GRAD, made by lower).
 */
#ifndef SC_SCHEDULES_TABLE_H
#define SC_SCHEDULES_TABLE_H

#include "base/arena.h"
#include "schedules/action.h"

/* Most pairs of stage and microbatch: bounds the memory of everything that is kept by pair. */
enum {
    SC_TABLE_PAIRS_MAX = 1 << 24
};

typedef struct sc_row {
    sc_action *actions; // in execution order
    size_t n_actions;
    size_t capacity;
} sc_row;

typedef struct sc_table {
    sc_arena arena;
    char name[48]; // generator's or file's name, for messages
    int n_ranks;   // p
    int n_stages;  // p * v
    int n_mb;      // m
    bool is_lowered;
    bool is_forward_only; // evaluation: F alone
    int *rank_of_stage;   // (n_stages)
    /* (n_stages) NULL, but where parameters are replicated the rank that runs odd microbatches of a
       stage; rank_of_stage is then that of even ones. */
    int *odd_rank_of_stage;
    sc_row *rows; // (n_ranks)
} sc_table;

/* An empty table: rows without actions, stage s on rank s mod p (loop placement; the caller may
   change rank_of_stage). Sizes are checked: 1 <= n_ranks <= n_stages <= SC_STAGES_MAX, 1 <= n_mb <=
   SC_MICROBATCHES_MAX, n_stages * n_mb <= SC_TABLE_PAIRS_MAX. Caller frees. */
sc_status sc_table_new(const char *name, int n_ranks, int n_stages, int n_mb, sc_table **out,
                       sc_err *err);
/* Replicates the parameters: odd microbatches find stage s on rank n_ranks - 1 - rank_of_stage[s]
   (the caller may change odd_rank_of_stage). SC_NO_MEMORY or SC_OK. */
sc_status sc_table_replicate(sc_table *table, sc_err *err);
/* Makes the placement of *to, of the same sizes, that of *from. SC_NO_MEMORY or SC_OK. */
sc_status sc_table_place_like(sc_table *to, const sc_table *from, sc_err *err);
/* The rank that runs a microbatch of a stage. */
int sc_table_rank(const sc_table *table, int stage, int mb);
/* Number of replicas of all stages: n_stages, or twice as many. */
int sc_table_n_replicas(const sc_table *table);
/* Index, in arrays of sc_table_n_replicas, of the replica of a stage that is on this rank: the
   stage, or n_stages + stage for the one that odd microbatches use. */
int sc_table_replica(const sc_table *table, int stage, int rank);
/* Frees *table and nulls it; accepts NULL inside. */
void sc_table_free(sc_table **table);
/* Appends one action to a row, growing it in the arena. SC_NO_MEMORY or SC_OK. */
sc_status sc_table_append(sc_table *table, int rank, sc_action action, sc_err *err);
/* True when two tables have the same sizes, kind, placement and rows, whatever their names. */
bool sc_table_equals(const sc_table *a, const sc_table *b);

/* Rows as they cross the wire and stand in a CSV file: comma-separated cells. The text is allocated
   with malloc, caller frees. */
sc_status sc_table_row_format(const sc_table *table, int rank, char **out, sc_err *err);
/* Parses one row's text (n bytes) and appends its cells to row `rank`. Empty cells are idle and
   skipped. Errors name the column. */
sc_status sc_table_row_parse(sc_table *table, int rank, const char *text, size_t n, sc_err *err);

#endif
