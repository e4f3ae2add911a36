#include "cli/client.h"

#include "base/arena.h"
#include "proto/codec.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

enum {
    // An unpacked message holds pointers beside the frame's text.
    MESSAGE_ARENA_MAX = 4 * SC_CODEC_FRAME_MAX
};

struct sc_client {
    void *context;
    void *socket;
    int fd;
    uint64_t seq;
    sc_arena arena; // of the last message
    sc_msg msg;
};

static sc_status fail_zmq(sc_err *err, const char *what)
{
    return sc_status_fail(err, SC_IO, "%s: %s", what, zmq_strerror(errno));
}

static sc_status open_socket(sc_client *client, const char *endpoint, sc_err *err)
{
    client->context = zmq_ctx_new();
    if (client->context == NULL) {
        return fail_zmq(err, "zmq_ctx_new");
    }
    client->socket = zmq_socket(client->context, ZMQ_DEALER);
    if (client->socket == NULL) {
        return fail_zmq(err, "zmq_socket");
    }
    int linger = 0;
    int64_t frame_max = SC_CODEC_FRAME_MAX;
    size_t n_fd = sizeof client->fd;
    if (zmq_setsockopt(client->socket, ZMQ_LINGER, &linger, sizeof linger) < 0 ||
        zmq_setsockopt(client->socket, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max) < 0 ||
        zmq_getsockopt(client->socket, ZMQ_FD, &client->fd, &n_fd) < 0) {
        return fail_zmq(err, "socket options");
    }
    if (zmq_connect(client->socket, endpoint) < 0) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: %s; an endpoint looks like tcp://127.0.0.1:41233", endpoint,
                              zmq_strerror(errno));
    }
    return SC_OK;
}

sc_status sc_client_open(const char *endpoint, sc_client **out, sc_err *err)
{
    sc_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "client: out of memory");
    }
    sc_arena_init(&client->arena, MESSAGE_ARENA_MAX);
    sc_status status = open_socket(client, endpoint, err);
    if (status != SC_OK) {
        sc_client_close(&client);
        return status;
    }
    *out = client;
    return SC_OK;
}

void sc_client_close(sc_client **client)
{
    sc_client *c = *client;
    if (c == NULL) {
        return;
    }
    if (c->socket != NULL) {
        zmq_close(c->socket);
    }
    if (c->context != NULL) {
        zmq_ctx_term(c->context);
    }
    sc_arena_done(&c->arena);
    free(c);
    *client = NULL;
}

int sc_client_fd(const sc_client *client)
{
    return client->fd;
}

static sc_status send_msg(sc_client *client, sc_msg *msg, sc_err *err)
{
    const unsigned char *bytes = NULL;
    size_t n = 0;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    msg->seq = ++client->seq;
    sc_status status = sc_codec_pack(msg, &arena, &bytes, &n, err);
    if (status == SC_OK && zmq_send(client->socket, bytes, n, ZMQ_DONTWAIT) < 0) {
        status = fail_zmq(err, "send to the coordinator");
    }
    sc_arena_done(&arena);
    return status;
}

sc_status sc_client_watch(sc_client *client, sc_err *err)
{
    sc_msg msg = {.type = SC_MSG_WATCH};
    msg.u.watch.program_version = SC_VERSION;
    return send_msg(client, &msg, err);
}

sc_status sc_client_control(sc_client *client, const char *verb, const char *argument, sc_err *err)
{
    sc_msg msg = {.type = SC_MSG_CONTROL};
    msg.u.control.verb = verb;
    msg.u.control.argument = argument;
    return send_msg(client, &msg, err);
}

sc_status sc_client_next(sc_client *client, const sc_msg **out, sc_err *err)
{
    sc_status status = SC_OK;
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    *out = NULL;
    int got = -1;
    do {
        got = zmq_msg_recv(&frame, client->socket, ZMQ_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        if (errno != EAGAIN) {
            status = fail_zmq(err, "receive from the coordinator");
        }
        goto out;
    }
    sc_arena_done(&client->arena);
    SC_GOTO(sc_codec_unpack(zmq_msg_data(&frame), zmq_msg_size(&frame), &client->arena,
                            &client->msg, err));
    *out = &client->msg;
out:
    zmq_msg_close(&frame);
    return status;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

sc_status sc_client_ask(sc_client *client, const char *verb, const char *argument, int timeout_ms,
                        const sc_msg_reply **out, sc_err *err)
{
    SC_TRY(sc_client_control(client, verb, argument, err));
    int64_t deadline = now_ms() + timeout_ms;
    for (;;) {
        const sc_msg *msg = NULL;
        SC_TRY(sc_client_next(client, &msg, err));
        if (msg != NULL && msg->type == SC_MSG_REPLY) {
            *out = &msg->u.reply;
            return SC_OK;
        }
        if (msg != NULL) {
            continue;
        }
        int64_t left = deadline - now_ms();
        struct pollfd fd = {.fd = client->fd, .events = POLLIN};
        if (left <= 0) {
            return sc_status_fail(err, SC_TIMEOUT,
                                  "no answer within %.1f s: is the coordinator still there?",
                                  timeout_ms / 1000.0);
        }
        if (poll(&fd, 1, (int)left) < 0 && errno != EINTR) {
            return sc_status_errno(err, errno, "poll");
        }
    }
}
