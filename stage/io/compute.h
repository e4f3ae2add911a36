/*
 * compute - the CPU backend's stream: one thread that runs tasks in order.
 *
 * The only thread that enters OpenMP and oneDNN. The loop thread queues tasks and takes results.
 *
 * Owns:     its thread and both queues.
 * Threads:  one pusher of tasks and taker of results (the loop).
 */
#ifndef SC_STAGE_IO_COMPUTE_H
#define SC_STAGE_IO_COMPUTE_H

#include "base/spsc.h"

#include <pthread.h>
#include <stdint.h>

/* Work: fn(ctx, arg) on the compute thread. */
typedef struct sc_compute_task {
    sc_status (*fn)(void *ctx, uint64_t arg, sc_err *err);
    void *ctx;
    uint64_t arg;
    int kind; // the caller's, comes back in the result
} sc_compute_task;

typedef struct sc_compute_result {
    int kind;
    uint64_t arg;
    sc_status status;
    int64_t start_ns; // CLOCK_MONOTONIC
    int64_t end_ns;
    sc_err *err; // set when status is not SC_OK: the first one since sc_compute_forget
} sc_compute_result;

typedef struct sc_compute {
    sc_spsc tasks;
    sc_spsc results; // poll results.event_fd
    pthread_t thread;
    bool is_started;
    sc_err err; // the compute thread's; the loop reads it after a result that points to it
} sc_compute;

/* Starts the thread with n_slots places in each queue. */
sc_status sc_compute_init(sc_compute *compute, size_t n_slots, sc_err *err);
/* Lets queued tasks end and joins. Accepts a zeroed struct. */
void sc_compute_done(sc_compute *compute);

/* Queues a task. A full queue is a bug of the caller. */
void sc_compute_push(sc_compute *compute, const sc_compute_task *task);
/* Takes the next result; false when there is none. */
bool sc_compute_pop(sc_compute *compute, sc_compute_result *out);

/* Forgets the error that a task ended with; only while none is queued or runs. */
void sc_compute_forget(sc_compute *compute);

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t sc_compute_now_ns(void);
/* CPU time of the calling thread. */
int64_t sc_compute_cpu_ns(void);

#endif
