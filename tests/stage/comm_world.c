#include "tests/stage/comm_world.h"

#include "base/rng.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum {
    DEADLINE_MS = 10000
};

void world_init(world *w, const char *transport, int n_ranks)
{
    memset(w, 0, sizeof *w);
    w->transport = transport;
    w->epoch = 7;
    w->n_ranks = n_ranks;
    snprintf(w->dir, sizeof w->dir, "/tmp/sc-comm-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
}

void world_done(world *w)
{
    for (int i = 0; i < w->n_ranks; i++) {
        if (w->ranks[i].comm != NULL) {
            w->ranks[i].comm->ops->close(&w->ranks[i].comm);
            assert_null(w->ranks[i].comm);
        }
    }
    assert_int_equal(rmdir(w->dir), 0); // so every socket file is gone
}

void world_channel(world *w, int from_rank, int to_rank, int from_stage, int to_stage,
                   sc_comm_kind kind, size_t bytes, int window, int *send_id, int *recv_id)
{
    sc_comm_channel channel = {.from_stage = from_stage,
                               .to_stage = to_stage,
                               .kind = kind,
                               .message_bytes = bytes,
                               .window = window};
    world_rank *from = &w->ranks[from_rank];
    world_rank *to = &w->ranks[to_rank];
    channel.peer_rank = to_rank;
    channel.is_send = true;
    from->channels[from->n_channels] = channel;
    *send_id = from->n_channels++;
    channel.peer_rank = from_rank;
    channel.is_send = false;
    to->channels[to->n_channels] = channel;
    *recv_id = to->n_channels++;
}

void world_group(world *w, int id, int first, int n, size_t max_bytes)
{
    for (int i = 0; i < n; i++) {
        w->members[id][i] = first + i;
    }
    for (int i = 0; i < n; i++) {
        world_rank *rank = &w->ranks[first + i];
        rank->groups[rank->n_groups++] = (sc_comm_group){
            .id = id, .n_ranks = n, .ranks = w->members[id], .max_bytes = max_bytes};
    }
}

const char *world_address(const world *w, char *out)
{
    if (strcmp(w->transport, "tcp") == 0) {
        return "tcp://127.0.0.1:*";
    }
    snprintf(out, SC_COMM_ENDPOINT_MAX, "ipc://%s/d-*", w->dir);
    return out;
}

void world_open(world *w)
{
    char address[SC_COMM_ENDPOINT_MAX];
    for (int i = 0; i < w->n_ranks; i++) {
        world_rank *rank = &w->ranks[i];
        sc_comm_config config = {.epoch = w->epoch,
                                 .rank = i,
                                 .n_ranks = w->n_ranks,
                                 .bind_address = world_address(w, address),
                                 .channels = rank->channels,
                                 .n_channels = rank->n_channels,
                                 .groups = rank->groups,
                                 .n_groups = rank->n_groups};
        sc_err err = {0};
        sc_comm_host_open(&config, &rank->comm, &err);
        assert_string_equal(err.text, "");
    }
}

void world_connect_calls(world *w)
{
    const char *endpoints[WORLD_RANKS_MAX];
    for (int i = 0; i < w->n_ranks; i++) {
        endpoints[i] = w->ranks[i].comm->endpoint;
    }
    for (int i = 0; i < w->n_ranks; i++) {
        sc_comm *comm = w->ranks[i].comm;
        assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    }
}

void world_connect(world *w)
{
    world_connect_calls(w);
    for (int i = 0; i < w->n_ranks; i++) {
        world_expect(w, i, SC_COMM_CONNECTED, -1, 0);
    }
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

sc_comm_event world_wait(world *w, int rank)
{
    sc_comm *comm = w->ranks[rank].comm;
    sc_comm_event event;
    int64_t end_ms = now_ms() + DEADLINE_MS;
    while (!comm->ops->next_event(comm, &event)) {
        struct pollfd p = {.fd = comm->event_fd, .events = POLLIN};
        int64_t left_ms = end_ms - now_ms();
        if (left_ms <= 0 || (poll(&p, 1, (int)left_ms) < 0 && errno != EINTR)) {
            fail_msg("rank %d: no event", rank);
        }
    }
    return event;
}

sc_comm_event world_expect(world *w, int rank, sc_comm_event_type type, int channel,
                           uint64_t cookie)
{
    sc_comm_event event = world_wait(w, rank);
    if (event.type != type || event.channel != channel || event.cookie != cookie) {
        fail_msg("rank %d: expected event %d channel %d cookie %llu, got %d %d %llu %s", rank, type,
                 channel, (unsigned long long)cookie, event.type, event.channel,
                 (unsigned long long)event.cookie, event.err.text);
    }
    return event;
}

void world_expect_failure(world *w, int rank, const char *text)
{
    sc_comm_event event = world_wait(w, rank);
    if (event.type != SC_COMM_FAILED || strstr(event.err.text, text) == NULL) {
        fail_msg("rank %d: expected failure '%s', got %d '%s'", rank, text, event.type,
                 event.err.text);
    }
    assert_int_not_equal(event.err.status, SC_OK);
}

void world_expect_none(world *w, int rank)
{
    sc_comm_event event;
    assert_false(w->ranks[rank].comm->ops->next_event(w->ranks[rank].comm, &event));
}

void world_recv(world *w, int rank, int channel, void *buf, sc_comm_tag tag, uint64_t cookie)
{
    sc_comm *comm = w->ranks[rank].comm;
    sc_err err = {0};
    comm->ops->post_recv(comm, channel, buf, tag, cookie, &err);
    assert_string_equal(err.text, "");
}

void world_send(world *w, int rank, int channel, const void *buf, sc_comm_tag tag, uint64_t cookie)
{
    sc_comm *comm = w->ranks[rank].comm;
    sc_err err = {0};
    comm->ops->send(comm, channel, buf, tag, (int64_t)(1000 + cookie), cookie, &err);
    assert_string_equal(err.text, "");
}

void world_fill(void *buf, size_t n, uint64_t seed)
{
    unsigned char *p = buf;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = sc_rng_mix(seed, i);
        memcpy(p + i, &word, n - i < sizeof word ? n - i : sizeof word);
    }
}

void world_check(const void *buf, size_t n, uint64_t seed)
{
    const unsigned char *p = buf;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = sc_rng_mix(seed, i);
        if (memcmp(p + i, &word, n - i < sizeof word ? n - i : sizeof word) != 0) {
            fail_msg("seed %llu: wrong bytes at %zu of %zu", (unsigned long long)seed, i, n);
        }
    }
}

static void raw_open(raw_peer *raw, int type)
{
    int none = 0;
    int wait_ms = DEADLINE_MS;
    raw->zmq = zmq_ctx_new();
    raw->socket = zmq_socket(raw->zmq, type);
    assert_non_null(raw->socket);
    assert_int_equal(zmq_setsockopt(raw->socket, ZMQ_LINGER, &none, sizeof none), 0);
    assert_int_equal(zmq_setsockopt(raw->socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms), 0);
}

void raw_dial(raw_peer *raw, const char *endpoint)
{
    raw_open(raw, ZMQ_DEALER);
    assert_int_equal(zmq_connect(raw->socket, endpoint), 0);
}

void raw_listen(raw_peer *raw, const char *address)
{
    raw_open(raw, ZMQ_ROUTER);
    if (strncmp(address, "ipc://", 6) == 0) {
        snprintf(raw->endpoint, sizeof raw->endpoint, "%.*sraw", (int)strlen(address) - 1, address);
        address = raw->endpoint;
    }
    assert_int_equal(zmq_bind(raw->socket, address), 0);
    size_t n = sizeof raw->endpoint;
    assert_int_equal(zmq_getsockopt(raw->socket, ZMQ_LAST_ENDPOINT, raw->endpoint, &n), 0);
}

void raw_done(raw_peer *raw)
{
    zmq_close(raw->socket);
    zmq_ctx_term(raw->zmq);
    if (strncmp(raw->endpoint, "ipc://", 6) == 0) {
        unlink(raw->endpoint + 6);
    }
}

void raw_part(raw_peer *raw, const void *bytes, size_t n, bool is_more)
{
    int flags = is_more ? ZMQ_SNDMORE : 0;
    assert_int_equal(zmq_send(raw->socket, bytes, n, flags), (int)n);
}

void raw_send(raw_peer *raw, const sc_comm_wire *wire, const void *body, size_t n)
{
    unsigned char head[SC_COMM_WIRE_BYTES_MAX];
    size_t n_head = sc_comm_host_wire_pack(wire, head);
    raw_part(raw, head, n_head, n > 0);
    if (n > 0) {
        raw_part(raw, body, n, false);
    }
}

sc_comm_wire raw_recv(raw_peer *raw, bool is_router, void *id, size_t *id_bytes)
{
    unsigned char head[SC_COMM_WIRE_BYTES_MAX];
    sc_comm_wire wire;
    sc_err err = {0};
    if (is_router) {
        int n_id = zmq_recv(raw->socket, id, SC_COMM_ENDPOINT_MAX, 0);
        assert_true(n_id > 0);
        *id_bytes = (size_t)n_id;
    }
    int n = zmq_recv(raw->socket, head, sizeof head, 0);
    assert_true(n > 0 && n <= (int)sizeof head);
    sc_comm_host_wire_unpack(head, (size_t)n, &wire, &err);
    assert_string_equal(err.text, "");
    int is_more = 0;
    size_t size = sizeof is_more;
    zmq_getsockopt(raw->socket, ZMQ_RCVMORE, &is_more, &size);
    if (is_more) {
        assert_true(zmq_recv(raw->socket, head, sizeof head, 0) >= 0);
    }
    return wire;
}

void raw_answer(raw_peer *raw, const void *id, size_t id_bytes, const sc_comm_wire *wire)
{
    raw_part(raw, id, id_bytes, true);
    raw_send(raw, wire, NULL, 0);
}

void raw_greet(raw_peer *raw, const char *endpoint, uint64_t epoch, int rank, int to)
{
    sc_comm_wire hello = {
        .type = SC_COMM_WIRE_HELLO, .epoch = epoch, .rank = (uint32_t)rank, .to = to};
    raw_dial(raw, endpoint);
    raw_send(raw, &hello, NULL, 0);
    sc_comm_wire welcome = raw_recv(raw, false, NULL, NULL);
    assert_int_equal(welcome.type, SC_COMM_WIRE_WELCOME);
    assert_int_equal(welcome.epoch, epoch);
}
