/* Channels: order, credits, sizes, several between two ranks, times. Every test on each transport.
 */
#include "tests/stage/comm_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sc_comm_tag tag(uint64_t step, int stage, int mb)
{
    return (sc_comm_tag){.step = step, .stage = stage, .mb = mb};
}

/* One channel 0 -> 1 of a connected pair. */
static void pair(world *w, const char *transport, size_t bytes, int window)
{
    int s = 0;
    int r = 0;
    world_init(w, transport, 2);
    world_channel(w, 0, 1, 0, 1, SC_COMM_ACTIVATION, bytes, window, &s, &r);
    world_open(w);
    world_connect(w);
}

static void test_posted_before_and_after_the_send(void **state)
{
    world w;
    enum {
        N = 6
    };
    uint64_t in[N];
    uint64_t out[N] = {0};
    pair(&w, *state, sizeof in[0], N);
    for (int k = 0; k < N; k++) {
        in[k] = 100 + (uint64_t)k;
    }
    for (int k = 0; k < N; k++) {
        bool is_late = k % 2 != 0;
        if (!is_late) {
            world_recv(&w, 1, 0, &out[k], tag(3, 0, k), (uint64_t)k);
        }
        world_send(&w, 0, 0, &in[k], tag(3, 0, k), (uint64_t)k);
        if (is_late) {
            world_recv(&w, 1, 0, &out[k], tag(3, 0, k), (uint64_t)k);
        }
        sc_comm_event event = world_expect(&w, 1, SC_COMM_RECV_DONE, 0, (uint64_t)k);
        assert_int_equal(event.tag.mb, k);
        assert_int_equal(event.sent_ready_ns, 1000 + k);
        assert_true(event.posted_ns > 0 && event.arrived_ns >= event.posted_ns);
        assert_int_equal(out[k], in[k]);
        world_expect(&w, 0, SC_COMM_SEND_DONE, 0, (uint64_t)k);
    }
    world_done(&w);
}

static void test_all_sends_before_all_receives(void **state)
{
    world w;
    enum {
        N = 16
    };
    uint64_t in[N];
    uint64_t out[N] = {0};
    pair(&w, *state, sizeof in[0], N);
    for (int k = 0; k < N; k++) {
        in[k] = (uint64_t)k * 3;
        world_send(&w, 0, 0, &in[k], tag(1, 0, k), (uint64_t)k);
    }
    sc_comm *comm = w.ranks[0].comm;
    sc_err err;
    assert_int_equal(comm->ops->send(comm, 0, in, tag(1, 0, N), 0, N, &err), SC_LIMIT);
    assert_non_null(strstr(err.text, "activations 0->1: 16 messages"));
    for (int k = 0; k < N; k++) {
        world_recv(&w, 1, 0, &out[k], tag(1, 0, k), (uint64_t)k);
    }
    for (int k = 0; k < N; k++) {
        world_expect(&w, 1, SC_COMM_RECV_DONE, 0, (uint64_t)k);
        world_expect(&w, 0, SC_COMM_SEND_DONE, 0, (uint64_t)k);
        assert_int_equal(out[k], in[k]);
    }
    world_done(&w);
}

static void test_window_is_kept(void **state)
{
    world w;
    uint64_t out[3];
    sc_err err;
    pair(&w, *state, sizeof out[0], 2);
    sc_comm *comm = w.ranks[1].comm;
    world_recv(&w, 1, 0, &out[0], tag(1, 0, 0), 0);
    world_recv(&w, 1, 0, &out[1], tag(1, 0, 1), 1);
    assert_int_equal(comm->ops->post_recv(comm, 0, &out[2], tag(1, 0, 2), 2, &err), SC_LIMIT);
    world_done(&w);
}

static void test_operations_before_connect(void **state)
{
    world w;
    int s = 0;
    int r = 0;
    uint64_t in = 42;
    uint64_t out = 0;
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_GRADIENT, sizeof in, 1, &s, &r);
    world_open(&w);
    world_send(&w, 0, s, &in, tag(1, 0, 0), 5);
    world_recv(&w, 1, r, &out, tag(1, 0, 0), 6);
    world_connect(&w);
    world_expect(&w, 1, SC_COMM_RECV_DONE, r, 6);
    world_expect(&w, 0, SC_COMM_SEND_DONE, s, 5);
    assert_int_equal(out, 42);
    world_done(&w);
}

static void one_size(const char *transport, size_t bytes)
{
    world w;
    unsigned char *in = malloc(bytes);
    unsigned char *out = malloc(bytes + 1);
    world_fill(in, bytes, bytes);
    pair(&w, transport, bytes, 1);
    for (int k = 0; k < 2; k++) {
        memset(out, 0, bytes);
        out[bytes] = 0xa5;
        world_recv(&w, 1, 0, out, tag(9, 0, k), 0);
        world_send(&w, 0, 0, in, tag(9, 0, k), 0);
        world_expect(&w, 1, SC_COMM_RECV_DONE, 0, 0);
        world_expect(&w, 0, SC_COMM_SEND_DONE, 0, 0);
        world_check(out, bytes, bytes);
        assert_int_equal(out[bytes], 0xa5);
    }
    world_done(&w);
    free(in);
    free(out);
}

static void test_sizes(void **state)
{
    static const size_t sizes[] = {1,
                                   2,
                                   28,
                                   29,
                                   30,
                                   33,
                                   255,
                                   256,
                                   8191,
                                   8192,
                                   8193,
                                   SC_COMM_CHUNK_BYTES - 1,
                                   SC_COMM_CHUNK_BYTES,
                                   SC_COMM_CHUNK_BYTES + 1,
                                   (size_t)2 * SC_COMM_CHUNK_BYTES,
                                   (size_t)5 * SC_COMM_CHUNK_BYTES,
                                   (size_t)5 * SC_COMM_CHUNK_BYTES + 17};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        one_size(*state, sizes[i]);
    }
}

/* p = 2, v = 2: stages 0 and 2 on rank 0, 1 and 3 on rank 1; six channels between the two. */
static void test_several_channels_both_ways(void **state)
{
    enum {
        N_CHANNELS = 6,
        N_MESSAGES = 5,
        BYTES = 70000
    };
    static const struct {
        int from;
        int to;
        sc_comm_kind kind;
    } ends[N_CHANNELS] = {{0, 1, SC_COMM_ACTIVATION}, {1, 2, SC_COMM_ACTIVATION},
                          {2, 3, SC_COMM_ACTIVATION}, {3, 2, SC_COMM_GRADIENT},
                          {2, 1, SC_COMM_GRADIENT},   {1, 0, SC_COMM_GRADIENT}};
    static unsigned char in[N_CHANNELS][N_MESSAGES][BYTES];
    static unsigned char out[N_CHANNELS][N_MESSAGES][BYTES];
    world w;
    int s[N_CHANNELS];
    int r[N_CHANNELS];
    world_init(&w, *state, 2);
    for (int c = 0; c < N_CHANNELS; c++) {
        size_t bytes = (size_t)(BYTES - c);
        world_channel(&w, ends[c].from % 2, ends[c].to % 2, ends[c].from, ends[c].to, ends[c].kind,
                      bytes, N_MESSAGES, &s[c], &r[c]);
    }
    world_open(&w);
    world_connect(&w);
    memset(out, 0, sizeof out);
    for (int k = 0; k < N_MESSAGES; k++) {
        for (int i = 0; i < N_CHANNELS; i++) {
            int late = N_CHANNELS - 1 - i;
            world_fill(in[i][k], BYTES, (uint64_t)i * 100 + (uint64_t)k);
            world_send(&w, ends[i].from % 2, s[i], in[i][k], tag(1, ends[i].from, k), (uint64_t)k);
            world_recv(&w, ends[late].to % 2, r[late], out[late][k], tag(1, ends[late].from, k),
                       (uint64_t)k);
        }
    }
    int n_seen[2][WORLD_CHANNELS_MAX] = {0};
    for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < N_CHANNELS * N_MESSAGES; i++) {
            sc_comm_event event = world_wait(&w, rank);
            bool is_send = w.ranks[rank].channels[event.channel].is_send;
            assert_int_equal(event.type, is_send ? SC_COMM_SEND_DONE : SC_COMM_RECV_DONE);
            assert_int_equal(event.cookie, n_seen[rank][event.channel]++);
        }
    }
    for (int c = 0; c < N_CHANNELS; c++) {
        for (int k = 0; k < N_MESSAGES; k++) {
            world_check(out[c][k], (size_t)(BYTES - c), (uint64_t)c * 100 + (uint64_t)k);
        }
    }
    world_done(&w);
}

/* The peer is a raw socket that sees what is really sent: without credit nothing is, although the
   other channel's message, called later, comes. */
static void test_nothing_is_sent_without_credit(void **state)
{
    world w;
    int s0 = 0;
    int s1 = 0;
    int unused = 0;
    uint64_t in = 1;
    char address[SC_COMM_ENDPOINT_MAX];
    unsigned char id[SC_COMM_ENDPOINT_MAX];
    size_t n_id = 0;
    raw_peer raw = {0};
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, sizeof in, 1, &s0, &unused);
    world_channel(&w, 0, 1, 2, 3, SC_COMM_ACTIVATION, sizeof in, 1, &s1, &unused);
    world_open(&w);
    raw_listen(&raw, world_address(&w, address));
    const char *endpoints[] = {NULL, raw.endpoint};
    sc_comm *comm = w.ranks[0].comm;
    assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    assert_int_equal(raw_recv(&raw, true, id, &n_id).type, SC_COMM_WIRE_HELLO);
    sc_comm_wire answer = {.type = SC_COMM_WIRE_WELCOME, .epoch = w.epoch, .rank = 1};
    raw_answer(&raw, id, n_id, &answer);
    world_expect(&w, 0, SC_COMM_CONNECTED, -1, 0);

    world_send(&w, 0, s0, &in, tag(1, 0, 0), 10);
    world_send(&w, 0, s1, &in, tag(1, 2, 0), 11);
    answer = (sc_comm_wire){
        .type = SC_COMM_WIRE_CREDIT, .epoch = w.epoch, .rank = 1, .from = 2, .to = 3};
    raw_answer(&raw, id, n_id, &answer);
    sc_comm_wire data = raw_recv(&raw, true, id, &n_id);
    assert_int_equal(data.type, SC_COMM_WIRE_DATA);
    assert_int_equal(data.from, 2);
    assert_int_equal(data.n_tensors, 1);
    assert_int_equal(data.tensors[0].n_bytes, sizeof in);
    world_expect(&w, 0, SC_COMM_SEND_DONE, s1, 11);
    world_expect_none(&w, 0);

    answer.from = 0;
    answer.to = 1;
    raw_answer(&raw, id, n_id, &answer);
    data = raw_recv(&raw, true, id, &n_id);
    assert_int_equal(data.from, 0);
    world_expect(&w, 0, SC_COMM_SEND_DONE, s0, 10);

    answer.sequence = 5; // credits come in order
    raw_answer(&raw, id, n_id, &answer);
    world_expect_failure(&w, 0, "activations 0->1: rank 1 grants message 5, expected a grant of 1");
    raw_done(&raw);
    world_done(&w);
}

static void test_alone(void **state)
{
    world w;
    world_init(&w, *state, 1);
    world_open(&w);
    world_connect(&w);
    world_done(&w);
}

#define ON(transport, f) \
    { \
#f " " transport, f, NULL, NULL, transport \
    }
#define ALL(transport) \
    ON(transport, test_posted_before_and_after_the_send), \
        ON(transport, test_all_sends_before_all_receives), ON(transport, test_window_is_kept), \
        ON(transport, test_operations_before_connect), ON(transport, test_sizes), \
        ON(transport, test_several_channels_both_ways), \
        ON(transport, test_nothing_is_sent_without_credit), ON(transport, test_alone)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("ipc"), ALL("tcp")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
