/*
 * client - a connection to a coordinator's control socket.
 *
 * Owns:     a ZeroMQ context and one DEALER socket; the last message received.
 * Does not: wait, except in sc_client_ask.
 * Threads:  none of its own; one caller.
 */
#ifndef SC_CLI_CLIENT_H
#define SC_CLI_CLIENT_H

#include "base/status.h"
#include "proto/messages.h"

#include <stdint.h>

typedef struct sc_client sc_client;

/* Connects to "tcp://host:port" or "ipc://path"; ZeroMQ connects in the background, so that only a
   malformed endpoint fails here. Caller closes. */
sc_status sc_client_open(const char *endpoint, sc_client **out, sc_err *err);
/* Drops what is not sent yet, frees, nulls. Accepts NULL. */
void sc_client_close(sc_client **client);

/* A descriptor that turns readable when there may be a message, but tells it once: after it was,
   and after every send, call sc_client_next until it gives none before polling it again. */
int sc_client_fd(const sc_client *client);

/* Asks for the PROGRESS messages and the FINISHED one. */
sc_status sc_client_watch(sc_client *client, sc_err *err);
/* Sends a control verb ("status", "stop"); a REPLY follows. argument may be "". */
sc_status sc_client_control(sc_client *client, const char *verb, const char *argument, sc_err *err);
/* Takes the next message, borrowed until the next call; *out = NULL when there is none now. A frame
   that is no message of ours is SC_PROTOCOL. */
sc_status sc_client_next(sc_client *client, const sc_msg **out, sc_err *err);

/* Sends a control verb and waits for its reply, borrowed until the next call, for at most
   timeout_ms (SC_TIMEOUT). */
sc_status sc_client_ask(sc_client *client, const char *verb, const char *argument, int timeout_ms,
                        const sc_msg_reply **out, sc_err *err);

#endif
