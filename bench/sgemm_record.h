/*
 * sgemm_record - every call of dnnl_sgemm that a stretch of work makes, to be made again alone.
 *
 * The program is linked with --wrap=dnnl_sgemm. What is replayed has the same shapes, strides and
 * operands, in the same order and on the same threads, and nothing between.
 *
 * Owns:     the list of calls. The operands must still be there when it is replayed.
 * Threads:  calls are recorded from any thread; start, stop and replay belong to one.
 */
#ifndef SC_BENCH_SGEMM_RECORD_H
#define SC_BENCH_SGEMM_RECORD_H

#include "bench/timed_backend.h"

typedef struct sc_sgemm_call sc_sgemm_call;

typedef struct sc_sgemm_record {
    sc_sgemm_call *calls; // (n_calls)
    size_t n_calls;
    size_t capacity;
    const sc_timed_backend *timed; // says which part a call belongs to
} sc_sgemm_record;

/* Room for n_max calls. Caller frees with done. */
sc_status sc_sgemm_record_init(sc_sgemm_record *record, size_t n_max, const sc_timed_backend *timed,
                               sc_err *err);
void sc_sgemm_record_done(sc_sgemm_record *record);

/* Records from here on, into this record alone. */
void sc_sgemm_record_start(sc_sgemm_record *record);
/* SC_LIMIT when there was no room for all. */
sc_status sc_sgemm_record_stop(sc_sgemm_record *record, sc_err *err);

/* Makes every recorded call again; parts (SC_TIMED_PART_COUNT) += what those of each part take. */
sc_status sc_sgemm_record_replay(const sc_sgemm_record *record, sc_timed_span *parts, sc_err *err);
/* Multiply-adds times two. */
double sc_sgemm_record_flops(const sc_sgemm_record *record);

#endif
