/*
 * stage_loop - the worker's loop thread: control socket, timers, liveness, and the epoch's state.
 *
 * Owns:     the control connection and at most one plan epoch.
 * Does not: compute; heartbeats, credits and aborts are never late.
 */
#ifndef SC_STAGE_IO_STAGE_LOOP_H
#define SC_STAGE_IO_STAGE_LOOP_H

#include "base/status.h"

typedef struct sc_stage_config {
    const char *coordinator;  // endpoint
    const char *device;       // "cpu" or "cpu:N"
    const char *host_address; // numeric IPv4 that others reach this host by
    double wait_seconds;      // longest wait for the coordinator to answer
} sc_stage_config;

/* Serves one coordinator until it says stop, is lost, or a signal comes. Returns how it ended. */
sc_status sc_stage_loop_run(const sc_stage_config *config, sc_err *err);

#endif
