/*
 * comm_host - the ZeroMQ transport's own counters; everything else is behind comm.h.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_H
#define SC_STAGE_COMM_COMM_HOST_H

#include "stage/comm/comm.h"

/* Frames that were dropped since open. */
typedef struct sc_comm_host_drops {
    uint64_t n_strangers; // of connections that never greeted, or not in our format
    uint64_t n_stale;     // of another epoch
} sc_comm_host_drops;

/* Any thread, until close. comm must come from sc_comm_host_open. */
sc_comm_host_drops sc_comm_host_count_drops(sc_comm *comm);

#endif
