/*
 * probe - asks a worker's liveness socket whether its loop still runs.
 *
 * A verdict needs the greeting, never a bare TCP connect: the kernel accepts for a stopped process
 * too.
 *
 * Owns:     one non-blocking socket a probe under way.
 * Threads:  none of its own; the loop polls the descriptors.
 */
#ifndef SC_COORDINATOR_IO_PROBE_H
#define SC_COORDINATOR_IO_PROBE_H

#include "coordinator/membership.h"

/* Longest wait for the connection and the greeting together. */
#define SC_PROBE_LIMIT_NS 700000000LL

typedef struct sc_probe {
    int fd; // -1: none under way
    bool is_connected;
    int64_t start_ns;
} sc_probe;

/* Starts probing "host:port". True: under way, poll fd for writing until connected, then for
   reading. False: already decided, in *out. */
bool sc_probe_start(sc_probe *probe, const char *address, int64_t now_ns, sc_probe_outcome *out);
/* Call when fd is ready or time has passed. True: decided, in *out, and closed. */
bool sc_probe_continue(sc_probe *probe, int64_t now_ns, sc_probe_outcome *out);
void sc_probe_close(sc_probe *probe);

#endif
