#include "tests/cli/fake_zmq.h"

#include "proto/codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static void die(const char *what)
{
    fprintf(stderr, "fake: %s: %s\n", what, zmq_strerror(errno));
    exit(70);
}

void sc_fake_zmq_send(void *socket, const sc_fake_id *id, const sc_msg *msg)
{
    const unsigned char *bytes = NULL;
    size_t n = 0;
    sc_err err;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    if (sc_codec_pack(msg, &arena, &bytes, &n, &err) != SC_OK) {
        die(err.text);
    }
    if (id->n > 0 && zmq_send(socket, id->bytes, id->n, ZMQ_SNDMORE) < 0) {
        die("send");
    }
    if (zmq_send(socket, bytes, n, 0) < 0) {
        die("send");
    }
    sc_arena_done(&arena);
}

void sc_fake_zmq_recv(void *socket, sc_fake_id *id, sc_arena *arena, sc_msg *msg)
{
    zmq_msg_t frame;
    sc_err err;
    if (id != NULL) {
        int n = zmq_recv(socket, id->bytes, sizeof id->bytes, 0);
        if (n < 0) {
            die("recv");
        }
        id->n = (size_t)n;
    }
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, socket, 0) < 0) {
        die("recv");
    }
    sc_arena_done(arena);
    if (sc_codec_unpack(zmq_msg_data(&frame), zmq_msg_size(&frame), arena, msg, &err) != SC_OK) {
        die(err.text);
    }
    zmq_msg_close(&frame);
}
