/*
 * coord_loop - the coordinator's one thread: control socket, timers, signals, probes.
 *
 * Owns:     every socket and all state of a run (io/coord.h).
 * Does not: decide (steploop and membership do) or compute tensors.
 */
#ifndef SC_COORDINATOR_IO_COORD_LOOP_H
#define SC_COORDINATOR_IO_COORD_LOOP_H

#include "coordinator/io/resume.h"
#include "coordinator/io/store.h"
#include "coordinator/planner.h"

typedef struct sc_coord_config {
    const sc_job *job;   // borrowed
    const sc_plan *plan; // borrowed
    const char *listen;  // "tcp://127.0.0.1:*", "tcp://127.0.0.1:7000" or "ipc://path"
    bool is_insecure;    // beyond loopback without keys
    int announce_fd;     // -1: none; gets one JSON line once bound, then is closed
    const char *runs_dir;
    const char *name;
    const char *rotate;      // schedules that take turns, "gpipe,1f1b"; NULL: none
    int rotate_every;        // steps of a turn
    const sc_resume *resume; // checkpoint to go on from, borrowed; NULL: initial weights
    sc_store *store;         // filled by the loop
} sc_coord_config;

/* Binds, waits for the workers, trains, stops them and returns how the job ended; err then holds
   its text. Signals SIGINT and SIGTERM end it with SC_INTERRUPTED. */
sc_status sc_coord_loop_run(sc_coord_config *config, sc_err *err);

#endif
