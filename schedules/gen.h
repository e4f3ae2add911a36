/*
 * gen - name -> generator of a compute-only table.
 *
 * One algorithm a file (gen_gpipe.c, ...), one line in gen.c's list to register it.
 */
#ifndef SC_SCHEDULES_GEN_H
#define SC_SCHEDULES_GEN_H

#include "schedules/table.h"

typedef struct sc_gen_params {
    int n_ranks;  // p
    int n_mb;     // m
    int n_chunks; // v, stages a rank; 0: the generator's own default
    /* What only some generators look at; 0 everywhere is each one's default. */
    int group;       // interleaved: microbatches that pass a chunk in a row; 0: p
    double limit_mb; // zb-auto: most activations a rank may hold, in microbatches; 0: p
    double w_share;  // zb-auto: share of an activation that stays from I to W; 0: one half
    double f;        // zb-auto: times of one microbatch on one rank; all 0: 1, 1, 1
    double i;
    double w;
    double comm; // zb-auto: latency of an edge
} sc_gen_params;

typedef struct sc_gen_info {
    const char *name;
    const char *summary;     // one line, with the paper
    const char *constraints; // in words, e.g. "v = 1; any p, m"
    int default_chunks;      // v when params say 0
    bool has_split;          // uses I and W
    bool is_replicated;      // a stage's parameters on two ranks: simulated and checked, not run
    /* Closed-form bubble, (cost - ideal) / cost as in sc_timeline, for equal stages with times f,
       i, w (B = i + w) of one microbatch on one rank and COMM = 0; NULL where there is none, NAN
       for sizes and times that it does not cover. */
    double (*closed_bubble)(const sc_gen_params *params, double f, double i, double w);
    sc_status (*make)(const sc_gen_params *params, sc_table **out, sc_err *err);
} sc_gen_info;

/* All generators, in the order of `schedule list`; *n_out entries. */
const sc_gen_info *sc_gen_list(size_t *n_out);
/* NULL when there is none of that name. */
const sc_gen_info *sc_gen_find(const char *name);
/* Finds, checks the constraints by name and makes; an unknown name's error lists the known ones. */
sc_status sc_gen_make(const char *name, const sc_gen_params *params, sc_table **out, sc_err *err);

#endif
