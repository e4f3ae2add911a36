/*
 * job - job.yaml -> one const struct.
 *
 * One table of keys (name, type, limits, default, help) drives parsing, limits, defaults, the help
 * text and the resolved copy; libfyaml gives line and column. Unknown and duplicate keys are
 * errors. Errors read "job.yaml:14:20: parallel.pipeline_parallel: 5 ..., do this instead".
 */
#ifndef SC_COORDINATOR_JOB_H
#define SC_COORDINATOR_JOB_H

#include "base/arena.h"
#include "model/cost.h"
#include "model/spec.h"

#include <stdint.h>

#define SC_JOB_SCHEDULE_AUTO "auto" // measured first, then chosen

typedef enum sc_job_device {
    SC_JOB_CPU,
    SC_JOB_PACED
} sc_job_device;
typedef enum sc_job_optimizer {
    SC_JOB_ADAMW,
    SC_JOB_SGD
} sc_job_optimizer;
typedef enum sc_job_data_format {
    SC_JOB_DATA_AUTO,
    SC_JOB_DATA_LLMC,
    SC_JOB_DATA_RAW16
} sc_job_data_format;

typedef struct sc_job {
    sc_arena arena;   // owns every string and list below
    const char *path; // of the file, for messages
    const char *name;
    sc_job_device device;
    const char *schedule; // a generator's name, "file:PATH.csv" or "auto"

    sc_model_spec model;

    int pipeline_parallel;
    int virtual_stages;          // v, stages a rank; 0: the schedule's own default
    int n_layers_per_stage;      // 0: split by cost
    int schedule_group;          // interleaved: microbatches that pass a stage in a row; 0: p
    const int *layers_per_stage; // transformer blocks of each stage
    double peak_memory_gib;      // cap on planned bytes per rank; 0: none

    double schedule_limit; // zb-auto: most live microbatches a rank; 0: p

    sc_recompute recompute; // a list is the arena's

    int micro_batch_size;
    int num_microbatches;
    int sequence_length;

    sc_job_optimizer optimizer;
    double lr;
    double min_lr; // end of the cosine decay
    int warmup_steps;
    int decay_steps; // 0: all steps
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    double grad_clip; // 0: none

    int steps;
    uint64_t seed;

    const char *data_path; // token file
    sc_job_data_format data_format;

    int threads;          // per worker
    bool pin;             // `stagecoach run` pins worker r to core r mod cores
    double wait_seconds;  // longest wait for the workers to come
    double stuck_seconds; // no progress for max(this, 10 x the action's median) = stuck

    double pace_f_ms; // paced: times of one microbatch on one rank
    double pace_i_ms;
    double pace_w_ms;
    double pace_comm_ms;

    const char *runs_dir; // parent of the run folder
    bool save_weights;    // final weights as safetensors
    bool save_gradients;  // gradients of step 0 as safetensors (before the optimizer)

    bool is_checkpoint_at_end; // a checkpoint after the last step
    int checkpoint_every;      // steps between checkpoints; 0: none
    int checkpoint_keep_last;  // newest ones that stay; 0: all
} sc_job;

/* io/job_load.c: reads and checks a job file with overrides "key.path=value" applied on top (as
   --set gives them). Paths in the file are relative to the current folder. Checks everything that
   needs no other file: types, limits, names, heads dividing the width, sequence within n_positions,
   stages within layers, layers_per_stage's length and sum. A schedule's file is not opened here, so
   its stages are plan_load's to check. Caller frees. */
sc_status sc_job_load(const char *path, const char *const *overrides, size_t n_overrides,
                      sc_job **out, sc_err *err);
/* The same over n bytes of text; path is only for messages. */
sc_status sc_job_parse(const char *path, const char *text, size_t n, const char *const *overrides,
                       size_t n_overrides, sc_job **out, sc_err *err);
void sc_job_free(sc_job **job);

/* The job as resolved, every key with its value, as YAML that loads to the same job. malloc, caller
 * frees. */
sc_status sc_job_format(const sc_job *job, char **out, sc_err *err);
/* The documented key list: a line a key with type, limits, default, help. malloc, caller frees. */
sc_status sc_job_help(char **out, sc_err *err);

/* What a microbatch of the job costs depends on this; its list is the job's. */
sc_cost_layout sc_job_layout(const sc_job *job);

/* PATH of a schedule "file:PATH", inside the text; NULL when it is none. */
const char *sc_job_schedule_path(const char *schedule);

/* Learning rate of a step (0-based) as a float, whose bits travel: linear warm-up over
   warmup_steps, then cosine decay to min_lr at decay_steps, min_lr after it. */
float sc_job_lr(const sc_job *job, uint64_t step);

#endif
