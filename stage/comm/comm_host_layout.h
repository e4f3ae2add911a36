/*
 * comm_host_layout - a comm's configuration, checked and laid out as channels, groups and peers.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_LAYOUT_H
#define SC_STAGE_COMM_COMM_HOST_LAYOUT_H

#include "stage/comm/comm_host_state.h"

/* Ranks, channels and groups are within limits and make sense; the text names the first that does
   not. */
sc_status sc_comm_host_layout_check(const sc_comm_config *config, sc_err *err);
/* Fills everything but queues, sockets and the thread; wake_fd must be open. All memory that the
   comm will ever use comes from here. */
sc_status sc_comm_host_layout_fill(sc_comm_host *host, const sc_comm_config *config, sc_err *err);

#endif
