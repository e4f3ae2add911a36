/*
 * comm_host_chan - one-way channels: the k-th receive gets the k-th send.
 *
 * A receiver grants credit k when receive k is posted and the sender has greeted; a sender hands
 * message k to libzmq only with credit k. So at most `window` messages of a channel are under way,
 * and every chunk that arrives has a buffer to go to.
 *
 * Threads: the comm thread; an error is fatal for the comm.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_CHAN_H
#define SC_STAGE_COMM_COMM_HOST_CHAN_H

#include "stage/comm/comm_host_state.h"

/* Takes over a SEND or RECV. */
sc_status sc_comm_host_chan_call(sc_comm_host *host, const sc_host_command *op, sc_err *err);
/* Grants what was posted before `peer` greeted. */
sc_status sc_comm_host_chan_greet(sc_comm_host *host, int peer, sc_err *err);
/* A CREDIT or DATA frame from a peer. */
sc_status sc_comm_host_chan_credit(sc_comm_host *host, int peer, const sc_comm_wire *wire,
                                   sc_err *err);
sc_status sc_comm_host_chan_data(sc_comm_host *host, int peer, const sc_comm_wire *wire,
                                 zmq_msg_t *body, sc_err *err);
/* Reports the sends that libzmq has let go of. */
void sc_comm_host_chan_finish(sc_comm_host *host);
/* Order of by_key. */
int sc_comm_host_chan_compare(const sc_comm_channel *a, const sc_comm_channel *b);

#endif
