/*
 * actor - the test itself as a peer of the programs: speaks the control protocol, or anything but.
 *
 * Owns:     a ZeroMQ context and a DEALER socket.
 * Threads:  one caller.
 */
#ifndef SC_TESTS_MULTIPROC_ACTOR_H
#define SC_TESTS_MULTIPROC_ACTOR_H

#include "proto/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct sc_actor sc_actor;

/* Connects to "tcp://..." or "ipc://...". */
sc_actor *sc_actor_open(const char *endpoint);
/* Accepts NULL; what is still to be sent is sent. */
void sc_actor_close(sc_actor **actor);

/* Sends a message; seq is filled in. */
void sc_actor_send(sc_actor *actor, sc_msg *msg);
/* Sends bytes as a message, or as its first part. */
void sc_actor_send_bytes(sc_actor *actor, const void *bytes, size_t n, bool is_more);
/* Packs a message to send it damaged: caller frees. */
unsigned char *sc_actor_pack(sc_actor *actor, sc_msg *msg, size_t *n_out);
/* HELLO as a worker of this host and version on `device`. */
void sc_actor_hello(sc_actor *actor, const char *device);
/* HEARTBEAT of a worker that sets up, so that it counts as alive. */
void sc_actor_beat(sc_actor *actor);
/* The next message of this type, others are passed over; fails the test after the deadline.
   Borrowed until the next call. */
const sc_msg *sc_actor_expect(sc_actor *actor, sc_msg_type type, int timeout_ms);

/* Connects a plain socket to "tcp://127.0.0.1:PORT" or "ipc://PATH", writes n bytes and closes;
   when the peer closes first, that is no failure. */
void sc_actor_write_raw(const char *endpoint, const void *bytes, size_t n);
/* As a ZeroMQ peer, announces a frame of that size: the program must hang up, without the frame. */
void sc_actor_announce_frame(const char *endpoint, uint64_t frame_bytes, int timeout_ms);
/* The TCP port that a process listens on (its only one). */
int sc_actor_find_port(pid_t pid);

#endif
