/*
 * fleet - a paced job with its real programs, while it runs: who does what, and how it ended.
 *
 * Either `stagecoach run` starts everything, or the daemons are started by hand. What a worker does
 * is asked of the coordinator, as `stagecoach status` does; so a test waits for a moment ("rank 1
 * computes 1F0") and never for a time. Whatever goes wrong fails the test, with the programs'
 * output.
 *
 * Owns:     the folder, the processes it starts, a client connection.
 * Threads:  one caller.
 */
#ifndef SC_TESTS_MULTIPROC_FLEET_H
#define SC_TESTS_MULTIPROC_FLEET_H

#include "cli/client.h"
#include "tests/multiproc/actor.h"
#include "tests/support/proc.h"

#include <limits.h>
#include <stdint.h>

enum {
    SC_FLEET_WORKERS_MAX = 8,
    SC_FLEET_STEPS_MAX = 64,
    SC_FLEET_PATIENCE_MS = 60000, // of waits that are no subject of a test
    SC_FLEET_VERDICT_MS = 5000    // within which a failure must be told
};

/* A job of `device: paced`; the run folder is runs/x. */
typedef struct sc_fleet_job {
    const char *schedule;
    int p;
    int m;
    int steps;
    int f_ms;
    int i_ms;
    int w_ms;
    const char *more; // lines of YAML, or NULL
} sc_fleet_job;

typedef struct sc_fleet {
    char *dir;
    char *job;            // path of the job file
    sc_proc *run;         // `stagecoach run`
    sc_proc *coordinator; // by hand
    sc_proc *workers[SC_FLEET_WORKERS_MAX];
    char endpoint[128];
    char run_dir[PATH_MAX];
    sc_client *client;
    sc_actor *actor; // borrowed: kept alive while we wait, or NULL
} sc_fleet;

/* Makes the folder and the job file. */
void sc_fleet_open(const sc_fleet_job *job, sc_fleet *out);
/* Waits until no process is left (killing what the fleet started), then removes the folder. */
void sc_fleet_close(sc_fleet *fleet);

/* Starts `stagecoach run` and waits until its coordinator listens. */
void sc_fleet_run(sc_fleet *fleet);
/* Starts a coordinator by hand and waits until it listens. */
void sc_fleet_start_coordinator(sc_fleet *fleet);
/* Starts a worker by hand on device cpu:SLOT as fleet->workers[slot]. */
void sc_fleet_start_worker(sc_fleet *fleet, int slot);

/* The program whose end is the job's: run, or the coordinator. */
sc_proc *sc_fleet_main(sc_fleet *fleet);

/* Waits until the status tells of `who` ("rank 1", "worker 0") something with `text` and, unless
   NULL, without `but`; the text is copied to out. */
void sc_fleet_await(sc_fleet *fleet, const char *who, const char *text, const char *but,
                    char out[512]);
/* Waits until n workers have come. */
void sc_fleet_await_workers(sc_fleet *fleet, int n);
/* The number in "(host a, pid 17, cpu:1)". */
pid_t sc_fleet_pid_in(const char *text);

/* A file of the run folder; caller frees. */
char *sc_fleet_read(const sc_fleet *fleet, const char *name);
/* The losses in metrics.jsonl, every bit; returns how many. */
int sc_fleet_read_losses(const sc_fleet *fleet, double losses[SC_FLEET_STEPS_MAX]);
/* The whole job, started afresh in a folder of its own, must end well: the same losses. */
void sc_fleet_expect_losses(const sc_fleet *fleet, const sc_fleet_job *job);

/* CLOCK_MONOTONIC. */
int64_t sc_fleet_now_ms(void);

#endif
