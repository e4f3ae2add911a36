/*
 * jobs - one training job laid out in many ways: its token file, job files, runs by the real
 * programs, and the losses and norms they leave.
 *
 * What is computed (sc_jobs_config) and how it is laid out over processes (sc_jobs_layout) are kept
 * apart: tests vary the second and expect nothing to change. Everything lies in a temporary folder.
 * Whatever goes wrong fails the test, with the programs' output.
 *
 * Threads: one caller.
 */
#ifndef SC_TESTS_MULTIPROC_JOBS_H
#define SC_TESTS_MULTIPROC_JOBS_H

#include "model/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SC_JOBS_RANKS_MAX = 4,
    SC_JOBS_MB_MAX = 2 * SC_JOBS_RANKS_MAX + 1,
    SC_JOBS_PATIENCE_MS = 120000 // of every wait: slow machines run all tests at once
};

#define SC_JOBS_CLIP 0.5 // largest gradient norm with SC_JOBS_ADAMW

typedef enum sc_jobs_optimizer {
    SC_JOBS_SGD,
    SC_JOBS_STILL, // SGD with a learning rate of 0: every step sees the initial weights
    SC_JOBS_ADAMW  // with warm-up, cosine decay, weight decay and clipping
} sc_jobs_optimizer;

/* What is computed. */
typedef struct sc_jobs_config {
    sc_model_spec spec; // checked
    int B;              // samples a microbatch
    int m;              // microbatches a step
    int T;              // tokens a sample
    uint64_t n_samples; // in the token file
    uint64_t seed;
    int steps;
    int threads; // of a worker
    sc_jobs_optimizer optimizer;
    const char *recompute; // as in a job file; NULL: none
} sc_jobs_config;

/* How it is laid out. */
typedef struct sc_jobs_layout {
    const char *schedule;
    int p;
    int blocks[SC_JOBS_RANKS_MAX]; // of each stage; all 0: split by counted cost
} sc_jobs_layout;

typedef struct sc_jobs {
    sc_jobs_config config;
    char *dir;        // temporary, owned
    uint16_t *tokens; // (n_samples T + 1), as in the file
    int n_runs;
} sc_jobs;

/* What a run leaves, beside tensor_files. */
typedef struct sc_jobs_result {
    char text[160]; // names the run in messages
    char *run_dir;
    int p;
    int n_steps;
    double *losses; // (n_steps), every bit: metrics.jsonl has as many digits as a double needs
    double *norms;  // (n_steps)
} sc_jobs_result;

/* A GPT-2 of 12 blocks, 24 wide, with 3 heads and 61 tokens; B 2, T 8, one step of SGD. */
sc_jobs_config sc_jobs_small(int m);

/* Makes the folder and the token file. */
void sc_jobs_open(const sc_jobs_config *config, sc_jobs *out);
/* Waits until no process is left, then removes the folder. */
void sc_jobs_close(sc_jobs *jobs);

/* The next run's job file, its name and (in *result_p, unless NULL) a text for messages: the path,
   caller frees. */
char *sc_jobs_write(sc_jobs *jobs, const sc_jobs_layout *layout);
/* `stagecoach run` to its end, then sc_jobs_collect. */
void sc_jobs_run(sc_jobs *jobs, const sc_jobs_layout *layout, sc_jobs_result *out);
/* What the run of the job written last left. */
void sc_jobs_collect(const sc_jobs *jobs, const sc_jobs_layout *layout, sc_jobs_result *out);
void sc_jobs_result_free(sc_jobs_result *result);

/* Losses and norms of every step have the same bits. */
void sc_jobs_expect_same(const sc_jobs_result *expected, const sc_jobs_result *result);

#endif
