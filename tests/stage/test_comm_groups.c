/* Groups: all_gather and all_reduce, bit-equal to the sum in group order, operations back to back,
   several groups at once. */
#include "tests/stage/comm_world.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void gather(world *w, int rank, int group, const void *in, size_t bytes, void *out,
                   uint64_t cookie)
{
    sc_comm *comm = w->ranks[rank].comm;
    sc_err err = {0};
    comm->ops->all_gather(comm, group, in, bytes, out, cookie, &err);
    assert_string_equal(err.text, "");
}

static void reduce(world *w, int rank, int group, float *buf, size_t n, uint64_t cookie)
{
    sc_comm *comm = w->ranks[rank].comm;
    sc_err err = {0};
    comm->ops->all_reduce(comm, group, buf, n, cookie, &err);
    assert_string_equal(err.text, "");
}

static void one_gather(const char *transport, int n_ranks, size_t bytes)
{
    world w;
    size_t n = (size_t)n_ranks;
    unsigned char *in = malloc(n * bytes);
    unsigned char *out = calloc(n, n * bytes);
    world_init(&w, transport, n_ranks);
    world_group(&w, 0, 0, n_ranks, n * bytes);
    world_open(&w);
    world_connect(&w);
    for (int rank = 0; rank < n_ranks; rank++) {
        world_fill(in + (size_t)rank * bytes, bytes, 50 + (uint64_t)rank);
        gather(&w, rank, 0, in + (size_t)rank * bytes, bytes, out + (size_t)rank * n * bytes, 3);
    }
    for (int rank = 0; rank < n_ranks; rank++) {
        world_expect(&w, rank, SC_COMM_GROUP_DONE, 0, 3);
        for (int member = 0; member < n_ranks; member++) {
            world_check(out + (size_t)rank * n * bytes + (size_t)member * bytes, bytes,
                        50 + (uint64_t)member);
        }
    }
    world_done(&w);
    free(in);
    free(out);
}

static void test_all_gather(void **state)
{
    static const size_t sizes[] = {1, 8, 77, 4096, SC_COMM_CHUNK_BYTES, SC_COMM_CHUNK_BYTES + 3};
    for (int n_ranks = 1; n_ranks <= 5; n_ranks++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            one_gather(*state, n_ranks, sizes[i]);
        }
    }
}

/* Many members, and big pieces: around the ring. */
static void test_all_gather_ring(void **state)
{
    one_gather(*state, 10, 100);
    one_gather(*state, 9, SC_COMM_CHUNK_BYTES / 2);
    one_gather(*state, 3, 5 * SC_COMM_CHUNK_BYTES + 1);
}

/* Values of very different size, so that another order of addition gives other bits. */
static float value(int rank, size_t i)
{
    float x = (float)(sc_rng_mix((uint64_t)rank, i) >> 40) * 0x1p-24f - 0.5f;
    return i % 3 == 0 ? x * 1e6f : x;
}

static void fill_values(float *buf, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++) {
        buf[i] = value(rank, i);
    }
}

static void check_sum(const float *buf, size_t n, int first, int n_ranks)
{
    for (size_t i = 0; i < n; i++) {
        float sum = value(first, i);
        for (int member = 1; member < n_ranks; member++) {
            sum += value(first + member, i);
        }
        uint32_t bits[2];
        memcpy(&bits[0], &sum, sizeof sum);
        memcpy(&bits[1], &buf[i], sizeof sum);
        if (bits[0] != bits[1]) {
            fail_msg("%d ranks, element %zu of %zu: %a, not %a", n_ranks, i, n, (double)buf[i],
                     (double)sum);
        }
    }
}

static void one_reduce(const char *transport, int n_ranks, size_t n)
{
    world w;
    float *bufs = malloc((size_t)n_ranks * n * sizeof *bufs);
    world_init(&w, transport, n_ranks);
    world_group(&w, 0, 0, n_ranks, n * sizeof *bufs);
    world_open(&w);
    world_connect(&w);
    for (int rank = 0; rank < n_ranks; rank++) {
        fill_values(bufs + (size_t)rank * n, n, rank);
        reduce(&w, rank, 0, bufs + (size_t)rank * n, n, 4);
    }
    for (int rank = 0; rank < n_ranks; rank++) {
        world_expect(&w, rank, SC_COMM_GROUP_DONE, 0, 4);
        check_sum(bufs + (size_t)rank * n, n, 0, n_ranks);
    }
    world_done(&w);
    free(bufs);
}

static void test_all_reduce(void **state)
{
    static const size_t sizes[] = {1, 15, 16, 17, 33, 1025, 65537};
    for (int n_ranks = 1; n_ranks <= 5; n_ranks++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            one_reduce(*state, n_ranks, sizes[i]);
        }
    }
}

/* Parts of exactly one chunk, of one element more, of several chunks. */
static void test_all_reduce_big(void **state)
{
    size_t chunk = SC_COMM_CHUNK_BYTES / sizeof(float);
    one_reduce(*state, 2, 2 * chunk);
    one_reduce(*state, 2, 2 * chunk + 1);
    one_reduce(*state, 3, 5 * chunk + 7);
}

enum {
    Q_RANKS = 4,
    Q_OPS = 16,
    Q_ELEMS = 300,
    Q_BYTES = 8
};

/* One rank's buffers of one operation: even ones reduce, odd ones gather. */
typedef struct queued {
    float sums[Q_ELEMS];
    unsigned char pieces[Q_RANKS][Q_BYTES];
} queued;

static void call_queued(world *w, queued *q, int rank, int op)
{
    size_t n = Q_ELEMS - (size_t)op;
    if (op % 2 == 0) {
        fill_values(q->sums, n, rank);
        reduce(w, rank, 0, q->sums, n, (uint64_t)op);
        return;
    }
    world_fill(q->pieces[rank], Q_BYTES, sc_rng_mix((uint64_t)rank, (uint64_t)op));
    gather(w, rank, 0, q->pieces[rank], Q_BYTES, q->pieces, (uint64_t)op);
}

static void check_queued(world *w, const queued *q, int rank, int op)
{
    world_expect(w, rank, SC_COMM_GROUP_DONE, 0, (uint64_t)op);
    if (op % 2 == 0) {
        check_sum(q->sums, Q_ELEMS - (size_t)op, 0, Q_RANKS);
        return;
    }
    for (int m = 0; m < Q_RANKS; m++) {
        world_check(q->pieces[m], Q_BYTES, sc_rng_mix((uint64_t)m, (uint64_t)op));
    }
}

/* Every rank calls all its operations at once, in ever another order of ranks: early chunks wait
   for their operation, and none is mixed up with the next one's. */
static void test_operations_back_to_back(void **state)
{
    static queued q[Q_RANKS][Q_OPS];
    world w;
    world_init(&w, *state, Q_RANKS);
    world_group(&w, 0, 0, Q_RANKS, sizeof q[0][0].sums);
    world_open(&w);
    world_connect(&w);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < Q_RANKS * Q_OPS; i++) {
            int rank = (i / Q_OPS * 3 + turn) % Q_RANKS;
            call_queued(&w, &q[rank][i % Q_OPS], rank, i % Q_OPS);
        }
        for (int i = 0; i < Q_RANKS * Q_OPS; i++) {
            check_queued(&w, &q[i / Q_OPS][i % Q_OPS], i / Q_OPS, i % Q_OPS);
        }
    }
    world_done(&w);
}

/* Groups {0,1,2} and {1,2,3}: one does not wait for the other, although rank 0 comes last. */
static void test_groups_are_independent(void **state)
{
    enum {
        N = 100
    };
    float a[4][N];
    float b[4][N];
    world w;
    world_init(&w, *state, 4);
    world_group(&w, 0, 0, 3, sizeof a[0]);
    world_group(&w, 1, 1, 3, sizeof b[0]);
    world_open(&w);
    world_connect(&w);
    for (int rank = 1; rank < 4; rank++) {
        if (rank < 3) {
            fill_values(a[rank], N, rank);
            reduce(&w, rank, 0, a[rank], N, 1);
        }
        fill_values(b[rank], N, rank);
        reduce(&w, rank, rank < 3 ? 1 : 0, b[rank], N, 2);
    }
    for (int rank = 1; rank < 4; rank++) {
        world_expect(&w, rank, SC_COMM_GROUP_DONE, rank < 3 ? 1 : 0, 2);
        check_sum(b[rank], N, 1, 3);
    }
    fill_values(a[0], N, 0);
    reduce(&w, 0, 0, a[0], N, 1);
    for (int rank = 0; rank < 3; rank++) {
        world_expect(&w, rank, SC_COMM_GROUP_DONE, 0, 1);
        check_sum(a[rank], N, 0, 3);
    }
    world_done(&w);
}

/* Members that call different operations are told so. */
static void test_mismatched_operations(void **state)
{
    float buf[2][32] = {{0}};
    world w;
    world_init(&w, *state, 2);
    world_group(&w, 0, 0, 2, sizeof buf[0]);
    world_open(&w);
    world_connect(&w);
    reduce(&w, 0, 0, buf[0], 32, 1);
    reduce(&w, 1, 0, buf[1], 31, 1);
    world_expect_failure(&w, 0, "group 0 operation 0: expected part frames of 128 bytes");
    world_done(&w);
}

/* Rank 0 is a raw socket at both ends; rank 1 has called all_reduce of 64 floats: rank 0 owns the
   first half, rank 1 the other. Sends one frame; the comm fails with that text. */
static void refuse(const char *transport, sc_comm_wire wire, size_t n_body, const char *text)
{
    static const unsigned char body[256];
    float buf[64] = {0};
    char address[SC_COMM_ENDPOINT_MAX];
    unsigned char id[SC_COMM_ENDPOINT_MAX];
    size_t n_id = 0;
    raw_peer in = {0};
    raw_peer out = {0};
    world w;
    world_init(&w, transport, 2);
    world_group(&w, 0, 0, 2, sizeof buf);
    world_open(&w);
    raw_listen(&in, world_address(&w, address));
    const char *endpoints[] = {in.endpoint, NULL};
    sc_comm *comm = w.ranks[1].comm;
    assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    assert_int_equal(raw_recv(&in, true, id, &n_id).type, SC_COMM_WIRE_HELLO);
    sc_comm_wire welcome = {.type = SC_COMM_WIRE_WELCOME, .epoch = w.epoch, .rank = 0};
    raw_answer(&in, id, n_id, &welcome);
    raw_greet(&out, comm->endpoint, w.epoch, 0, 1);
    world_expect(&w, 1, SC_COMM_CONNECTED, -1, 0);
    reduce(&w, 1, 0, buf, 64, 1);
    assert_int_equal(raw_recv(&in, true, id, &n_id).type, SC_COMM_WIRE_PART);
    wire.epoch = w.epoch;
    raw_send(&out, &wire, body, n_body);
    world_expect_failure(&w, 1, text);
    raw_done(&in);
    raw_done(&out);
    world_done(&w);
}

static void test_bad_frames(void **state)
{
    const char *t = *state;
    sc_comm_wire sum = {.type = SC_COMM_WIRE_SUM, .total = 256};
    sc_comm_wire part = {.type = SC_COMM_WIRE_PART, .total = 256};
    refuse(t, sum, 124,
           "group 0 operation 0: sum frame of member 0 from rank 0 at offset 0: wrong");
    refuse(t, part, 124, "expected a chunk of 128 bytes at offset 0 of member 0, got 124 bytes");
    sum.offset = part.offset = 64;
    refuse(t, sum, 128, "at offset 64: wrong offset or length");
    refuse(t, part, 128, "at offset 64: wrong offset or length");
    sum.offset = part.offset = 0;
    sum.total = part.total = 252;
    refuse(t, sum, 128, "not the sum that is awaited");
    refuse(t, part, 128, "expected part frames of 256 bytes, got part of 252 from member 0");
    sum.total = part.total = 256;
    sum.sequence = 1;
    part.sequence = 2;
    refuse(t, sum, 128, "not the sum that is awaited");
    refuse(t, part, 128, "neither the running operation nor the next");
    part.sequence = 0;
    part.to = 1;
    refuse(t, part, 128, "not that rank's to send");
    part.to = -1;
    refuse(t, part, 128, "not that rank's to send");
    part.to = 0;
    part.from = 4;
    refuse(t, part, 128, "unknown group 4");
    sc_comm_wire gather = {.type = SC_COMM_WIRE_GATHER, .total = 256};
    refuse(t, gather, 128, "expected part frames of 256 bytes, got gather of 256 from member 0");
}

static void test_limits(void **state)
{
    float buf[33] = {0};
    world w;
    sc_err err;
    world_init(&w, *state, 2);
    world_group(&w, 0, 0, 2, 32 * sizeof buf[0]);
    world_open(&w);
    sc_comm *comm = w.ranks[0].comm;
    assert_int_equal(comm->ops->all_reduce(comm, 0, buf, 33, 0, &err), SC_LIMIT);
    assert_non_null(strstr(err.text, "132 bytes, 1 to 128 fit"));
    assert_int_equal(comm->ops->all_reduce(comm, 0, buf, 0, 0, &err), SC_LIMIT);
    assert_int_equal(comm->ops->all_reduce(comm, 0, buf, SIZE_MAX / 2, 0, &err), SC_LIMIT);
    assert_int_equal(comm->ops->all_gather(comm, 0, buf, 65, buf, 0, &err), SC_LIMIT);
    assert_int_equal(comm->ops->all_gather(comm, 0, buf, SIZE_MAX / 2 + 2, buf, 0, &err), SC_LIMIT);
    world_done(&w);
}

#define ON(transport, f) \
    { \
#f " " transport, f, NULL, NULL, transport \
    }
#define ALL(transport) \
    ON(transport, test_all_gather), ON(transport, test_all_gather_ring), \
        ON(transport, test_all_reduce), ON(transport, test_all_reduce_big), \
        ON(transport, test_operations_back_to_back), ON(transport, test_groups_are_independent), \
        ON(transport, test_mismatched_operations), ON(transport, test_bad_frames), \
        ON(transport, test_limits)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("ipc"), ALL("tcp")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
