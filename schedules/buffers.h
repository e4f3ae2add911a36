/*
 * buffers - how many message buffers an edge needs, so that the engine never stalls.
 *
 * With n buffers at each end of an edge a sender is at most 2n messages ahead of its reader: n that
 * were delivered and not yet read, n that wait for the reader to post. Whether the rows finish
 * under that bound does not depend on times, so one walk decides it for each n.
 */
#ifndef SC_SCHEDULES_BUFFERS_H
#define SC_SCHEDULES_BUFFERS_H

#include "schedules/table.h"

/* Smallest n in [n_min, n_mb] with which all rows of a checked, lowered table finish. */
sc_status sc_buffers_need(const sc_table *lowered, int n_min, int *out, sc_err *err);

#endif
