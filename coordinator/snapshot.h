/*
 * snapshot - checkpoints under way: which ranks have saved which step, so which are complete and
 * which have failed. Pure.
 *
 * Owns:     what the ranks reported of the saves under way, and the counts over the run.
 * Does not: touch files or send; effects say what the loop must do.
 * Threads:  none of its own; one caller.
 *
 * A save begins when the STEP that asks for it is sent. When every rank has reported, it is to be
 * committed, or dropped if one of them failed; not earlier, since the others write still. Steps go
 * on meanwhile, so a few saves may be under way; each rank reports them in order. A failed save is
 * no reason to end a job, which would lose what is trained since the one before.
 */
#ifndef SC_COORDINATOR_SNAPSHOT_H
#define SC_COORDINATOR_SNAPSHOT_H

#include "coordinator/planner.h"
#include "formats/manifest.h"
#include "proto/messages.h"

enum {
    SC_SNAPSHOT_PENDING_MAX = 4 // one a step under way, one that is done, one that is written
};

typedef struct sc_snapshot_config {
    int n_ranks;
    uint64_t every;   // steps between checkpoints; 0: none
    bool is_at_end;   // one after the last step too
    uint64_t n_steps; // of the job
    uint64_t n_keep;  // newest ones that stay; 0: all
} sc_snapshot_config;

/* What one rank wrote. Lives in the save's arena. */
typedef struct sc_snapshot_part {
    bool is_reported;
    const char *file;
    uint64_t file_bytes;
    sc_manifest_tensor *tensors; // (n_tensors), without `file`
    size_t n_tensors;
} sc_snapshot_part;

typedef struct sc_snapshot_save {
    bool is_used;
    uint64_t step; // optimizer updates done
    sc_arena arena;
    sc_snapshot_part *parts; // (n_ranks)
    int n_reported;
    bool has_failed;
    sc_err err; // the first failure, with its rank
    int64_t wait_ns;
    int64_t copy_ns;
    int64_t write_ns; // longest rank's
} sc_snapshot_save;

typedef struct sc_snapshot {
    sc_snapshot_config config;
    sc_snapshot_save saves[SC_SNAPSHOT_PENDING_MAX];
    uint64_t n_committed;
    uint64_t n_failed;
    uint64_t n_failed_row; // since the last that was committed
    uint64_t last_step;    // of the last that was committed
    sc_err last_err;       // of the last that failed
} sc_snapshot;

typedef enum sc_snapshot_effect_type {
    SC_SNAPSHOT_COMMIT, // every part is there: write the manifest, rename
    SC_SNAPSHOT_DROP    // a part failed: remove what is there
} sc_snapshot_effect_type;

typedef struct sc_snapshot_effect {
    sc_snapshot_effect_type type;
    sc_snapshot_save *save; // borrowed until sc_snapshot_end
} sc_snapshot_effect;

void sc_snapshot_init(sc_snapshot *snapshot, const sc_snapshot_config *config);
void sc_snapshot_done(sc_snapshot *snapshot);

/* True when a checkpoint follows the update of `step` (0-based). */
bool sc_snapshot_is_due(const sc_snapshot *snapshot, uint64_t step);
/* A STEP with should_save goes out; n_updates = step + 1. */
sc_status sc_snapshot_begin(sc_snapshot *snapshot, uint64_t n_updates, sc_err *err);
/* No save was begun, for the reason in *why: its folder could not be made. */
void sc_snapshot_miss(sc_snapshot *snapshot, const sc_err *why);
/* A rank reports. SC_PROTOCOL when it was not asked to, or has already, or out of order. */
sc_status sc_snapshot_on_saved(sc_snapshot *snapshot, const sc_msg_saved *msg, sc_err *err);
/* The next save that every rank has reported; false when there is none. */
bool sc_snapshot_next(sc_snapshot *snapshot, sc_snapshot_effect *out);
/* The effect was carried out; *failure (NULL: well) counts for a commit. */
void sc_snapshot_end(sc_snapshot *snapshot, sc_snapshot_save *save, const sc_err *failure);
/* True while a save is under way: weights must stay where they are and nobody may leave. */
bool sc_snapshot_is_busy(const sc_snapshot *snapshot);

/* The facts of the job's checkpoints into *out; texts are borrowed from job and plan. */
void sc_snapshot_describe(const sc_job *job, const sc_plan *plan, sc_manifest *out);
/* Files and tensors of a complete save into *out, whose facts the caller has set; memory is the
   save's. Checks that each tensor of the model is there once: an error is a worker's fault. */
sc_status sc_snapshot_fill(sc_snapshot_save *save, int n_ranks, const sc_registry *registry,
                           sc_manifest *out, sc_err *err);

/* A manifest's tensors against what a model needs, each once, with dtype and shape; `name` is for
   messages. */
sc_status sc_snapshot_check(const char *name, const sc_manifest *manifest,
                            const sc_registry *registry, sc_err *err);

/* Which of n complete checkpoints (their steps, in any order) go, so that the n_keep newest stay:
   moves them to the front, oldest first, and returns how many. */
size_t sc_snapshot_sort_stale(uint64_t *steps, size_t n, uint64_t n_keep);

#endif
