/*
 * comm_host_loop - the comm thread: polls the sockets and the command queue, greets, dispatches.
 *
 * Frames of another epoch and of connections that never greeted are dropped and counted. Whatever a
 * greeted peer sends wrong ends the comm with SC_COMM_FAILED; the thread then only waits for abort.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_LOOP_H
#define SC_STAGE_COMM_COMM_HOST_LOOP_H

#include "stage/comm/comm_host_state.h"

/* Thread function; argument: the sc_comm_host. Returns when is_aborting is set and wake_fd written;
   all sockets are closed then. */
void *sc_comm_host_loop_run(void *argument);

#endif
