/*
 * fake_zmq - messages over ZeroMQ sockets for the fake daemons of these tests.
 */
#ifndef SC_TESTS_CLI_FAKE_ZMQ_H
#define SC_TESTS_CLI_FAKE_ZMQ_H

#include "base/arena.h"
#include "proto/messages.h"

enum {
    SC_FAKE_ID_MAX = 64
};

/* A routing id of a ROUTER's peer; n = 0 on a DEALER. */
typedef struct sc_fake_id {
    unsigned char bytes[SC_FAKE_ID_MAX];
    size_t n;
} sc_fake_id;

/* Sends one message; ends the process when it cannot. */
void sc_fake_zmq_send(void *socket, const sc_fake_id *id, const sc_msg *msg);
/* Blocks for the next message. id is filled on a ROUTER; NULL for a DEALER. */
void sc_fake_zmq_recv(void *socket, sc_fake_id *id, sc_arena *arena, sc_msg *msg);

#endif
