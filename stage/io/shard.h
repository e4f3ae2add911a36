/*
 * shard - a rank's part of a checkpoint: copied between two steps, written while training goes on.
 *
 * A rank saves the weights, and the optimizer's moments, of the parameters that it is the first to
 * hold, so that a tied embedding is saved once. The compute thread copies them into one buffer,
 * made once; a thread of its own writes the buffer, with checksums, as
 * FOLDER/step-N.part/rank-R.safetensors and syncs it. A new copy must wait for the write before.
 *
 * Owns:     the buffer, the writing thread and its queues.
 * Threads:  the compute thread copies, the loop thread does the rest; the queues order them.
 */
#ifndef SC_STAGE_IO_SHARD_H
#define SC_STAGE_IO_SHARD_H

#include "base/spsc.h"
#include "proto/messages.h"
#include "stage/optim/optim.h"

typedef struct sc_shard sc_shard;

typedef struct sc_shard_config {
    const sc_optim *optim; // borrowed
    const bool *is_owned;  // (n_params of the registry) this rank saves it; borrowed during open
    int rank;
    uint64_t epoch;
    const char *folder; // of the run's checkpoints; borrowed
} sc_shard_config;

/* Allocates and touches the buffer and starts the thread. Caller closes. */
sc_status sc_shard_open(const sc_shard_config *config, sc_shard **out, sc_err *err);
/* Breaks a write off, joins the thread, frees. Accepts NULL. */
void sc_shard_close(sc_shard **shard);

size_t sc_shard_bytes(const sc_shard *shard);
/* Readable when a write has ended. */
int sc_shard_fd(const sc_shard *shard);
bool sc_shard_is_writing(const sc_shard *shard);

/* Compute thread, no write under way: copies everything. */
sc_status sc_shard_copy(sc_shard *shard, sc_err *err);
/* Loop thread: writes what was copied. n_updates names the checkpoint; the times are told. */
void sc_shard_write(sc_shard *shard, uint64_t n_updates, int64_t wait_ns, int64_t copy_ns);
/* Loop thread: true once a write has ended; *out is borrowed until the next sc_shard_write. */
bool sc_shard_take(sc_shard *shard, sc_msg_saved *out);

/* shard_load.c: reads every parameter that the rank steps, and its moments, from a checkpoint, with
   checksums. SC_INVALID names tensor and file; `step` must be the checkpoint's. */
sc_status sc_shard_load(const char *folder, uint64_t step, const sc_optim *optim, sc_err *err);

#endif
