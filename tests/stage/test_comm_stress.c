/* Random jobs: channels, sizes, windows, the order of calls and the times of posting are drawn; all
   messages must come in order and whole, and all sums be bit-equal. */
#include "tests/stage/comm_world.h"

#include "base/rng.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_CHANNELS_MAX = 10,
    N_MESSAGES = 24,
    N_REDUCES = 12,
    BUFFERS = 4, // windows are up to this
    SUM_ELEMS_MAX = 4000
};

/* One channel's both ends and their buffers. */
typedef struct line {
    int from;
    int to;
    int send_id;
    int recv_id;
    size_t bytes;
    int window;
    unsigned char *in;  // (BUFFERS, bytes)
    unsigned char *out; // (BUFFERS, bytes)
    int n_sent;
    int n_send_done;
    int n_posted;
    int n_received;
} line;

typedef struct job {
    world w;
    uint64_t seed;
    uint64_t n_drawn;
    line lines[N_CHANNELS_MAX];
    int n_lines;
    float sums[WORLD_RANKS_MAX][SUM_ELEMS_MAX];
    size_t n_elems;
    int n_called[WORLD_RANKS_MAX];
    int n_reduced[WORLD_RANKS_MAX];
} job;

static int draw(job *j, int n)
{
    return (int)(sc_rng_u64(j->seed, 1, j->n_drawn++) % (uint64_t)n);
}

static void draw_lines(job *j)
{
    static const size_t sizes[] = {1, 7, 100, 4096, 30000, 300000, SC_COMM_CHUNK_BYTES + 5};
    j->n_lines = 3 + draw(j, N_CHANNELS_MAX - 2);
    for (int i = 0; i < j->n_lines; i++) {
        line *l = &j->lines[i];
        l->from = draw(j, j->w.n_ranks);
        l->to = (l->from + 1 + draw(j, j->w.n_ranks - 1)) % j->w.n_ranks;
        l->bytes = sizes[draw(j, sizeof sizes / sizeof sizes[0])];
        l->window = 1 + draw(j, BUFFERS);
        l->in = malloc(BUFFERS * l->bytes);
        l->out = malloc(BUFFERS * l->bytes);
        world_channel(&j->w, l->from, l->to, i, i + 1, (sc_comm_kind)draw(j, 2), l->bytes,
                      l->window, &l->send_id, &l->recv_id);
    }
}

static uint64_t content(const job *j, int i, int k)
{
    return sc_rng_mix(j->seed, (uint64_t)i * 1000 + (uint64_t)k);
}

static float value(const job *j, int rank, int k, size_t i)
{
    return sc_rng_uniform(j->seed, 2 + (uint64_t)rank, (uint64_t)k * SUM_ELEMS_MAX + i) * 1e3f;
}

static void call_send(job *j, int i)
{
    line *l = &j->lines[i];
    if (l->n_sent < N_MESSAGES && l->n_sent - l->n_send_done < BUFFERS) {
        int k = l->n_sent++;
        unsigned char *in = l->in + (size_t)(k % BUFFERS) * l->bytes;
        world_fill(in, l->bytes, content(j, i, k));
        world_send(&j->w, l->from, l->send_id, in, (sc_comm_tag){9, i, k}, (uint64_t)k);
    }
}

static void call_recv(job *j, int i)
{
    line *l = &j->lines[i];
    if (l->n_posted < N_MESSAGES && l->n_posted - l->n_received < l->window) {
        int k = l->n_posted++;
        unsigned char *out = l->out + (size_t)(k % BUFFERS) * l->bytes;
        world_recv(&j->w, l->to, l->recv_id, out, (sc_comm_tag){9, i, k}, (uint64_t)k);
    }
}

static void call_reduce(job *j, int rank)
{
    if (j->n_called[rank] == N_REDUCES || j->n_called[rank] != j->n_reduced[rank]) {
        return;
    }
    int k = j->n_called[rank]++;
    for (size_t e = 0; e < j->n_elems; e++) {
        j->sums[rank][e] = value(j, rank, k, e);
    }
    sc_comm *comm = j->w.ranks[rank].comm;
    sc_status status = comm->ops->all_reduce(comm, 0, j->sums[rank], j->n_elems, (uint64_t)k, NULL);
    assert_int_equal(status, SC_OK);
}

/* The next send, receive or reduction of a drawn place, where there is room. */
static void call_something(job *j)
{
    switch (draw(j, 3)) {
    case 0:
        call_send(j, draw(j, j->n_lines));
        break;
    case 1:
        call_recv(j, draw(j, j->n_lines));
        break;
    default:
        call_reduce(j, draw(j, j->w.n_ranks));
    }
}

static void check_sum(job *j, int rank)
{
    int k = j->n_reduced[rank]++;
    for (size_t e = 0; e < j->n_elems; e++) {
        float sum = value(j, 0, k, e);
        for (int member = 1; member < j->w.n_ranks; member++) {
            sum += value(j, member, k, e);
        }
        assert_memory_equal(&sum, &j->sums[rank][e], sizeof sum);
    }
}

static void take_event(job *j, int rank, const sc_comm_event *event)
{
    if (event->type == SC_COMM_GROUP_DONE) {
        assert_int_equal(event->cookie, j->n_reduced[rank]);
        check_sum(j, rank);
        return;
    }
    for (int i = 0; i < j->n_lines; i++) {
        line *l = &j->lines[i];
        if (event->type == SC_COMM_SEND_DONE && l->from == rank && l->send_id == event->channel) {
            assert_int_equal(event->cookie, l->n_send_done++);
            return;
        }
        if (event->type == SC_COMM_RECV_DONE && l->to == rank && l->recv_id == event->channel) {
            int k = l->n_received++;
            assert_int_equal(event->cookie, k);
            assert_int_equal(event->tag.mb, k);
            world_check(l->out + (size_t)(k % BUFFERS) * l->bytes, l->bytes, content(j, i, k));
            return;
        }
    }
    fail_msg("rank %d: event %d of channel %d: %s", rank, event->type, event->channel,
             event->err.text);
}

static bool is_done(const job *j)
{
    bool is_all = true;
    for (int i = 0; i < j->n_lines; i++) {
        const line *l = &j->lines[i];
        is_all = is_all && l->n_received == N_MESSAGES && l->n_send_done == N_MESSAGES;
    }
    for (int rank = 0; rank < j->w.n_ranks; rank++) {
        is_all = is_all && j->n_reduced[rank] == N_REDUCES;
    }
    return is_all;
}

/* Takes what is there; waits a millisecond for more, as any rank's event may come next. */
static int take_events(job *j)
{
    struct pollfd fds[WORLD_RANKS_MAX];
    int n_taken = 0;
    for (int rank = 0; rank < j->w.n_ranks; rank++) {
        fds[rank] = (struct pollfd){.fd = j->w.ranks[rank].comm->event_fd, .events = POLLIN};
    }
    poll(fds, (nfds_t)j->w.n_ranks, 1);
    for (int rank = 0; rank < j->w.n_ranks; rank++) {
        sc_comm *comm = j->w.ranks[rank].comm;
        sc_comm_event event;
        while (comm->ops->next_event(comm, &event)) {
            take_event(j, rank, &event);
            n_taken++;
        }
    }
    return n_taken;
}

static void run_job(const char *transport, uint64_t seed)
{
    static job j;
    memset(&j, 0, sizeof j);
    j.seed = seed;
    world_init(&j.w, transport, 2 + draw(&j, 4));
    draw_lines(&j);
    j.n_elems = 1 + (size_t)draw(&j, SUM_ELEMS_MAX);
    world_group(&j.w, 0, 0, j.w.n_ranks, sizeof j.sums[0]);
    world_open(&j.w);
    world_connect(&j.w);
    int n_idle = 0;
    while (!is_done(&j)) {
        int n_calls = draw(&j, 30);
        for (int i = 0; i < n_calls; i++) {
            call_something(&j);
        }
        n_idle = take_events(&j) > 0 ? 0 : n_idle + 1;
        assert_true(n_idle < 10000); // ten seconds without an event
    }
    world_done(&j.w);
    for (int i = 0; i < j.n_lines; i++) {
        free(j.lines[i].in);
        free(j.lines[i].out);
    }
}

static void test_random_jobs(void **state)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        run_job(*state, seed);
    }
}

#define ON(transport, f) \
    { \
#f " " transport, f, NULL, NULL, transport \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {ON("ipc", test_random_jobs), ON("tcp", test_random_jobs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
