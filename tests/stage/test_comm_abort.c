/* abort and close return at once whatever the peers do, and no buffer is touched afterwards. */
#include "tests/stage/comm_world.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    ABORT_MS_MAX = 3000, // without sanitizers and load it takes a few milliseconds
    BYTES = 3 * SC_COMM_CHUNK_BYTES
};

static sc_comm_tag tag(int mb)
{
    return (sc_comm_tag){.step = 1, .stage = 0, .mb = mb};
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void abort_in_time(sc_comm *comm)
{
    int64_t start_ms = now_ms();
    comm->ops->abort(comm);
    assert_in_range(now_ms() - start_ms, 0, ABORT_MS_MAX);
}

/* After abort everything says so, and nothing happens any more. */
static void check_aborted(sc_comm *comm, int channel, bool is_send)
{
    sc_err err;
    unsigned char byte = 0;
    sc_status status = is_send ? comm->ops->send(comm, channel, &byte, tag(0), 0, 0, &err)
                               : comm->ops->post_recv(comm, channel, &byte, tag(0), 0, &err);
    assert_int_equal(status, SC_ABORTED);
    assert_non_null(strstr(err.text, "epoch 7 was aborted"));
    const char *endpoints[] = {NULL, NULL};
    assert_int_equal(comm->ops->connect(comm, endpoints, &err), SC_ABORTED);
    comm->ops->abort(comm); // once more does nothing
}

static void test_before_connect(void **state)
{
    world w;
    int s = 0;
    int r = 0;
    unsigned char buf[16];
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, sizeof buf, 1, &s, &r);
    world_open(&w);
    world_send(&w, 0, s, buf, tag(0), 0);
    world_recv(&w, 1, r, buf, tag(0), 0);
    abort_in_time(w.ranks[0].comm);
    check_aborted(w.ranks[0].comm, s, true);
    world_done(&w); // closes the other without abort
}

static void test_while_connecting_to_nobody(void **state)
{
    world w;
    int s = 0;
    int r = 0;
    char address[SC_COMM_ENDPOINT_MAX];
    raw_peer gone = {0};
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, 8, 1, &s, &r);
    world_open(&w);
    raw_listen(&gone, world_address(&w, address));
    raw_done(&gone); // so the address is free, and nobody listens
    const char *endpoints[] = {NULL, gone.endpoint};
    sc_comm *comm = w.ranks[0].comm;
    assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    abort_in_time(comm);
    world_expect_none(&w, 0);
    world_done(&w);
}

static void test_while_everything_is_pending(void **state)
{
    world w;
    int s = 0;
    int r = 0;
    int s2 = 0;
    int r2 = 0;
    float sums[100] = {0};
    unsigned char *buf = calloc(1, BYTES);
    unsigned char *out = calloc(1, BYTES);
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, BYTES, 1, &s, &r);
    world_channel(&w, 0, 1, 2, 3, SC_COMM_ACTIVATION, BYTES, 1, &s2, &r2);
    world_group(&w, 0, 0, 2, sizeof sums);
    world_open(&w);
    world_connect(&w);
    sc_comm *comm = w.ranks[0].comm;
    world_send(&w, 0, s, buf, tag(0), 0);  // never gets credit
    world_recv(&w, 1, r2, out, tag(0), 0); // never gets a message
    assert_int_equal(comm->ops->all_reduce(comm, 0, sums, 100, 1, NULL), SC_OK); // alone
    abort_in_time(w.ranks[0].comm);
    check_aborted(w.ranks[0].comm, s, true);
    memset(buf, 1, BYTES);
    abort_in_time(w.ranks[1].comm);
    check_aborted(w.ranks[1].comm, r2, false);
    for (size_t i = 0; i < BYTES; i++) {
        assert_int_equal(out[i], 0);
    }
    world_done(&w);
    free(buf);
    free(out);
}

/* Many times, in the middle of a transfer. The buffers are freed right after abort: ASan sees any
   use. */
static void test_in_the_middle_of_a_message(void **state)
{
    for (int turn = 0; turn < 20; turn++) {
        world w;
        int s = 0;
        int r = 0;
        unsigned char *in = malloc(BYTES);
        unsigned char *out = malloc(BYTES);
        memset(in, turn, BYTES);
        world_init(&w, *state, 2);
        world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, BYTES, 1, &s, &r);
        world_open(&w);
        world_connect(&w);
        world_send(&w, 0, s, in, tag(0), 0);
        world_recv(&w, 1, r, out, tag(0), 0);
        int first = turn % 2;
        abort_in_time(w.ranks[first].comm);
        free(first == 0 ? in : out);
        abort_in_time(w.ranks[1 - first].comm);
        free(first == 0 ? out : in);
        world_done(&w);
    }
}

/* A failed comm can be aborted and closed. */
static void test_after_failure(void **state)
{
    world w;
    int s = 0;
    int r = 0;
    unsigned char byte = 0;
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, 1, 4, &s, &r);
    world_open(&w);
    world_connect(&w);
    world_recv(&w, 1, r, &byte, tag(0), 0);
    world_send(&w, 0, s, &byte, tag(1), 0);
    world_expect_failure(&w, 1, "got step 1 stage 0 mb 1");
    world_recv(&w, 1, r, &byte, tag(0), 0); // still taken, to no effect
    abort_in_time(w.ranks[1].comm);
    world_expect_none(&w, 1);
    world_done(&w);
}

/* A comm of this world's rank, opened apart because its peer is in another process. */
static sc_comm *open_rank(world *w, int rank)
{
    char address[SC_COMM_ENDPOINT_MAX];
    sc_comm *comm = NULL;
    sc_comm_config config = {.epoch = w->epoch,
                             .rank = rank,
                             .n_ranks = 2,
                             .bind_address = world_address(w, address),
                             .channels = w->ranks[rank].channels,
                             .n_channels = w->ranks[rank].n_channels};
    return sc_comm_host_open(&config, &comm, NULL) == SC_OK ? comm : NULL;
}

/* Exchanges endpoints over pipes and connects. */
static bool meet(sc_comm *comm, int rank, int to, int from, char peer[SC_COMM_ENDPOINT_MAX])
{
    size_t n = SC_COMM_ENDPOINT_MAX;
    if (write(to, comm->endpoint, n) != (ssize_t)n || read(from, peer, n) != (ssize_t)n) {
        return false;
    }
    const char *endpoints[2] = {comm->endpoint, comm->endpoint};
    endpoints[1 - rank] = peer;
    return comm->ops->connect(comm, endpoints, NULL) == SC_OK;
}

/* Rank 1 in a process of its own: connects, gives n_credits, says so, and stays until killed. */
static void play_rank_1(world *w, int to_parent, int from_parent, int r, int n_credits)
{
    char endpoint[SC_COMM_ENDPOINT_MAX];
    sc_comm *comm = open_rank(w, 1);
    if (comm == NULL || !meet(comm, 1, to_parent, from_parent, endpoint)) {
        _exit(1);
    }
    for (int i = 0; i < n_credits; i++) {
        comm->ops->post_recv(comm, r, malloc(BYTES), tag(i), 0, NULL);
    }
    sc_comm_event event;
    struct pollfd p = {.fd = comm->event_fd, .events = POLLIN};
    while (!comm->ops->next_event(comm, &event) || event.type != SC_COMM_CONNECTED) {
        poll(&p, 1, -1);
    }
    if (write(to_parent, "c", 1) != 1) {
        _exit(1);
    }
    char end;
    _exit((int)read(from_parent, &end, 1)); // until the parent closes, if it is not killed before
}

/* Rank 0 has sent, with and without credit, and waits for a gradient that never comes. */
static void leave_in_the_lurch(world *w, int s, int r_back, int n_sends)
{
    unsigned char *buf = calloc(1, BYTES);
    for (int i = 0; i < n_sends; i++) {
        world_send(w, 0, s, buf, tag(i), (uint64_t)i);
    }
    world_recv(w, 0, r_back, buf, tag(0), 0);
    abort_in_time(w->ranks[0].comm);
    free(buf);
    w->ranks[0].comm->ops->close(&w->ranks[0].comm);
}

/* With how: SIGKILL, a dead peer; SIGSTOP, a frozen one, whose socket buffers fill. */
static void lose_peer(const char *transport, int how)
{
    enum {
        N_CREDITS = 8
    };
    world w;
    int s = 0;
    int r = 0;
    int s_back = 0;
    int r_back = 0;
    int down[2];
    int up[2];
    char endpoint[SC_COMM_ENDPOINT_MAX] = {0};
    char byte = 0;
    world_init(&w, transport, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, BYTES, N_CREDITS, &s, &r);
    world_channel(&w, 1, 0, 1, 0, SC_COMM_GRADIENT, BYTES, 1, &s_back, &r_back);
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        play_rank_1(&w, up[1], down[0], r, N_CREDITS);
    }
    close(down[0]);
    close(up[1]);
    w.n_ranks = 1; // to wait for, and to close
    w.ranks[0].comm = open_rank(&w, 0);
    assert_non_null(w.ranks[0].comm);
    assert_true(meet(w.ranks[0].comm, 0, down[1], up[0], endpoint));
    world_expect(&w, 0, SC_COMM_CONNECTED, -1, 0);
    assert_int_equal(read(up[0], &byte, 1), 1);
    kill(pid, how);
    leave_in_the_lurch(&w, s, r_back, N_CREDITS + 2);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(down[1]);
    close(up[0]);
    if (endpoint[0] == 'i') {
        unlink(endpoint + strlen("ipc://")); // the dead do not clean up
    }
    world_done(&w);
}

static void test_dead_peer(void **state)
{
    lose_peer(*state, SIGKILL);
}

static void test_frozen_peer(void **state)
{
    lose_peer(*state, SIGSTOP);
}

/* A grant to a peer that is gone is an error, with its name. */
static void test_grant_to_nobody(void **state)
{
    world w;
    int s = 0;
    int r = 0;
    unsigned char byte = 0;
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, 1, WORLD_CHANNELS_MAX, &s, &r);
    world_open(&w);
    world_connect(&w);
    w.ranks[0].comm->ops->close(&w.ranks[0].comm);
    sc_comm_event event = {.type = SC_COMM_CONNECTED};
    sc_comm *comm = w.ranks[1].comm;
    /* the first grants may be under way before the hang-up is seen */
    for (int i = 0; i < WORLD_CHANNELS_MAX && event.type != SC_COMM_FAILED; i++) {
        world_recv(&w, 1, r, &byte, tag(i), 0);
        struct pollfd p = {.fd = comm->event_fd, .events = POLLIN};
        while (poll(&p, 1, 100) > 0 && comm->ops->next_event(comm, &event)) {
        }
    }
    assert_int_equal(event.type, SC_COMM_FAILED);
    assert_non_null(strstr(event.err.text, "rank 0: its data connection is gone"));
    world_done(&w);
}

#define ON(transport, f) \
    { \
#f " " transport, f, NULL, NULL, transport \
    }
#define ALL(transport) \
    ON(transport, test_dead_peer), ON(transport, test_frozen_peer), \
        ON(transport, test_before_connect), ON(transport, test_while_connecting_to_nobody), \
        ON(transport, test_while_everything_is_pending), \
        ON(transport, test_in_the_middle_of_a_message), ON(transport, test_after_failure), \
        ON(transport, test_grant_to_nobody)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("ipc"), ALL("tcp")};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
