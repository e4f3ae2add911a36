/*
 * comm_host_sock - the ZeroMQ sockets of one comm: open, send, receive, close.
 *
 * One ROUTER takes every incoming connection; one DEALER a peer that we call. What is sent through
 * a DEALER is answered over the same connection, so a credit never waits behind bulk data. No call
 * blocks: queues have no limit of their own, credits bound them.
 *
 * Threads: bind before the comm thread starts; everything else on it; term after it ended.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_SOCK_H
#define SC_STAGE_COMM_COMM_HOST_SOCK_H

#include "stage/comm/comm_host_state.h"

/* What was read from a socket; parts beyond the second were dropped. */
typedef struct sc_host_frame {
    zmq_msg_t id;   // routing id, ROUTER only
    zmq_msg_t head; // the header
    zmq_msg_t body; // the payload, empty when there was none
    int n_parts;    // without the routing id, dropped ones included
} sc_host_frame;

/* Opens context and ROUTER, and puts the resolved address into base.endpoint. A '*' that ends an
   ipc path becomes a name that nobody else uses. */
sc_status sc_comm_host_sock_bind(sc_comm_host *host, const char *address, sc_err *err);
/* Opens the DEALER to peer->endpoint. */
sc_status sc_comm_host_sock_connect(sc_comm_host *host, sc_host_peer *peer, sc_err *err);
/* Closes every socket; pending messages are dropped. */
void sc_comm_host_sock_close(sc_comm_host *host);
/* Ends the context: after it no buffer handed to sc_comm_host_sock_send is touched. Removes the
   socket file of an ipc address. May be called again. */
void sc_comm_host_sock_term(sc_comm_host *host);

/* Sends the header, then n bytes without copying them, to a peer that we called. n = 0: the header
   alone. flight->n_left must have been raised by one before. */
sc_status sc_comm_host_sock_send(sc_comm_host *host, sc_host_peer *peer, sc_comm_wire *wire,
                                 const void *data, size_t n, sc_host_flight *flight, sc_err *err);
/* Sends a header to a peer that called us. */
sc_status sc_comm_host_sock_answer(sc_comm_host *host, sc_host_peer *peer, sc_comm_wire *wire,
                                   sc_err *err);
/* Takes the next frame; false when there is none. Release it afterwards. */
bool sc_comm_host_sock_recv(void *socket, bool is_router, sc_host_frame *out);
void sc_comm_host_sock_release(sc_host_frame *frame);

/* The clock of every time in events: CLOCK_MONOTONIC. */
int64_t sc_comm_host_sock_now_ns(void);

#endif
