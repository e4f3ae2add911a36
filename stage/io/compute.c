#include "stage/io/compute.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <time.h>

int64_t sc_compute_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t sc_compute_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *run(void *arg)
{
    sc_compute *compute = arg;
    sc_compute_task task;
    for (;;) {
        if (!sc_spsc_pop(&compute->tasks, &task)) {
            sc_spsc_wait(&compute->tasks);
            continue;
        }
        if (task.fn == NULL) {
            return NULL;
        }
        sc_compute_result result = {.kind = task.kind, .arg = task.arg};
        sc_err err = {.status = SC_OK};
        result.start_ns = sc_compute_now_ns();
        result.status = task.fn(task.ctx, task.arg, &err);
        result.end_ns = sc_compute_now_ns();
        if (result.status != SC_OK && compute->err.status == SC_OK) {
            compute->err = err; // the first error is the one that counts
        }
        result.err = result.status == SC_OK ? NULL : &compute->err;
        bool is_pushed = sc_spsc_push(&compute->results, &result);
        assert(is_pushed);
        (void)is_pushed;
    }
}

sc_status sc_compute_init(sc_compute *compute, size_t n_slots, sc_err *err)
{
    memset(compute, 0, sizeof *compute);
    SC_TRY(sc_spsc_init(&compute->tasks, sizeof(sc_compute_task), n_slots, err));
    sc_status status = sc_spsc_init(&compute->results, sizeof(sc_compute_result), n_slots, err);
    if (status != SC_OK) {
        sc_spsc_done(&compute->tasks);
        return status;
    }
    /* signals belong to the loop thread */
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&compute->thread, NULL, run, compute);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        sc_spsc_done(&compute->tasks);
        sc_spsc_done(&compute->results);
        return sc_status_errno(err, rc, "cannot start the compute thread");
    }
    compute->is_started = true;
    return SC_OK;
}

void sc_compute_done(sc_compute *compute)
{
    if (compute->is_started) {
        sc_compute_task stop = {.fn = NULL};
        sc_compute_push(compute, &stop);
        pthread_join(compute->thread, NULL);
        compute->is_started = false;
    }
    sc_spsc_done(&compute->tasks);
    sc_spsc_done(&compute->results);
}

void sc_compute_push(sc_compute *compute, const sc_compute_task *task)
{
    bool is_pushed = sc_spsc_push(&compute->tasks, task);
    assert(is_pushed);
    (void)is_pushed;
}

bool sc_compute_pop(sc_compute *compute, sc_compute_result *out)
{
    return sc_spsc_pop(&compute->results, out);
}

void sc_compute_forget(sc_compute *compute)
{
    compute->err.status = SC_OK;
}
