#include "stage/comm/comm_host.h"

#include "stage/comm/comm_host_layout.h"
#include "stage/comm/comm_host_loop.h"
#include "stage/comm/comm_host_sock.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    NOTES_SPARE = 4,   // CONNECTED and FAILED
    COMMANDS_SPARE = 2 // CONNECT
};

static sc_comm_host *host_of(sc_comm *comm)
{
    return (sc_comm_host *)comm; // base is the first member
}

static sc_status check_alive(sc_comm_host *host, sc_err *err)
{
    if (!host->has_thread) {
        return sc_status_fail(err, SC_ABORTED, "the data transport of epoch %llu was aborted",
                              (unsigned long long)host->epoch);
    }
    return SC_OK;
}

static void push(sc_comm_host *host, const sc_host_command *command)
{
    bool is_pushed = sc_spsc_push(&host->commands, command);
    assert(is_pushed); // the queue has a place for every operation that may be under way
    (void)is_pushed;
}

static sc_status connect_comm(sc_comm *comm, const char *const *endpoints, sc_err *err)
{
    sc_comm_host *host = host_of(comm);
    SC_TRY(check_alive(host, err));
    if (host->is_connect_called) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "the data transport of epoch %llu is connected "
                              "already",
                              (unsigned long long)host->epoch);
    }
    for (int i = 0; i < host->n_peers; i++) {
        sc_host_peer *peer = &host->peers[i];
        const char *endpoint = endpoints[peer->rank];
        size_t n = endpoint == NULL ? 0 : strlen(endpoint);
        if (peer->is_out && (n == 0 || n >= SC_COMM_ENDPOINT_MAX)) {
            return sc_status_fail(err, SC_INVALID, "rank %d has %s data address", peer->rank,
                                  n == 0 ? "no" : "too long a");
        }
        if (peer->is_out) {
            memcpy(peer->endpoint, endpoint, n + 1);
        }
    }
    host->is_connect_called = true;
    push(host, &(sc_host_command){.type = SC_HOST_CONNECT});
    return SC_OK;
}

static sc_status call_channel(sc_comm_host *host, sc_host_command *op, size_t limit, sc_err *err)
{
    SC_TRY(check_alive(host, err));
    assert(op->index >= 0 && op->index < host->n_channels);
    const sc_comm_channel *conf = &host->channels[op->index].conf;
    assert(conf->is_send == (op->type == SC_HOST_SEND));
    if (host->n_open_channel[op->index] >= limit) {
        return sc_status_fail(err, SC_LIMIT, "%s %d->%d: %zu messages are under way already",
                              sc_comm_host_wire_kind_text(conf->kind), conf->from_stage,
                              conf->to_stage, limit);
    }
    host->n_open_channel[op->index]++;
    push(host, op);
    return SC_OK;
}

static sc_status post_recv(sc_comm *comm, int channel, void *buf, sc_comm_tag tag, uint64_t cookie,
                           sc_err *err)
{
    sc_comm_host *host = host_of(comm);
    sc_host_command op = {.type = SC_HOST_RECV,
                          .index = channel,
                          .out = buf,
                          .tag = tag,
                          .ns = sc_comm_host_sock_now_ns(),
                          .cookie = cookie};
    return call_channel(host, &op, (size_t)host->channels[channel].conf.window, err);
}

static sc_status send_message(sc_comm *comm, int channel, const void *buf, sc_comm_tag tag,
                              int64_t ready_ns, uint64_t cookie, sc_err *err)
{
    sc_comm_host *host = host_of(comm);
    sc_host_command op = {.type = SC_HOST_SEND,
                          .index = channel,
                          .in = buf,
                          .tag = tag,
                          .ns = ready_ns,
                          .cookie = cookie};
    return call_channel(host, &op, host->channels[channel].n_slots, err);
}

static sc_status call_group(sc_comm_host *host, const sc_host_command *op, size_t n_bytes,
                            sc_err *err)
{
    SC_TRY(check_alive(host, err));
    assert(op->index >= 0 && op->index < host->n_groups);
    const sc_host_group *group = &host->groups[op->index];
    if (n_bytes == 0 || n_bytes > group->max_bytes) {
        return sc_status_fail(err, SC_LIMIT, "group %d: an operation of %zu bytes, 1 to %zu fit",
                              group->id, n_bytes, group->max_bytes);
    }
    if (host->n_open_group[op->index] >= group->n_slots) {
        return sc_status_fail(err, SC_LIMIT, "group %d: %zu operations are under way already",
                              group->id, group->n_slots);
    }
    host->n_open_group[op->index]++;
    push(host, op);
    return SC_OK;
}

static sc_status all_gather(sc_comm *comm, int group, const void *in, size_t bytes, void *out,
                            uint64_t cookie, sc_err *err)
{
    sc_comm_host *host = host_of(comm);
    sc_host_command op = {.type = SC_HOST_GATHER,
                          .index = group,
                          .in = in,
                          .out = out,
                          .bytes = bytes,
                          .ns = sc_comm_host_sock_now_ns(),
                          .cookie = cookie};
    size_t n_ranks = (size_t)host->groups[group].n_ranks;
    size_t n_bytes = bytes > SIZE_MAX / n_ranks ? SIZE_MAX : bytes * n_ranks;
    return call_group(host, &op, n_bytes, err);
}

// NOLINTNEXTLINE(readability-non-const-parameter): written through later, by the comm thread
static sc_status all_reduce(sc_comm *comm, int group, float *buf, size_t n, uint64_t cookie,
                            sc_err *err)
{
    size_t n_bytes = n > SIZE_MAX / sizeof *buf ? SIZE_MAX : n * sizeof *buf;
    sc_host_command op = {.type = SC_HOST_REDUCE,
                          .index = group,
                          .out = buf,
                          .bytes = n_bytes,
                          .ns = sc_comm_host_sock_now_ns(),
                          .cookie = cookie};
    return call_group(host_of(comm), &op, n_bytes, err);
}

static bool next_event(sc_comm *comm, sc_comm_event *out)
{
    sc_comm_host *host = host_of(comm);
    sc_host_note note;
    if (!sc_spsc_pop(&host->notes, &note)) {
        /* cleared only when empty, then looked at again: a note pushed in between is not lost */
        sc_spsc_clear(&host->notes);
        if (!sc_spsc_pop(&host->notes, &note)) {
            return false;
        }
        uint64_t one = 1;
        while (write(host->base.event_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
    if (note.type == SC_COMM_RECV_DONE || note.type == SC_COMM_SEND_DONE) {
        host->n_open_channel[note.index]--;
    } else if (note.type == SC_COMM_GROUP_DONE) {
        host->n_open_group[note.index]--;
    }
    out->type = note.type;
    out->channel = note.index;
    out->cookie = note.cookie;
    out->tag = note.tag;
    out->sent_ready_ns = note.sent_ready_ns;
    out->posted_ns = note.posted_ns;
    out->arrived_ns = note.arrived_ns;
    out->err.status = SC_OK;
    out->err.text[0] = '\0';
    if (note.type == SC_COMM_FAILED) {
        out->err = host->failure;
    }
    return true;
}

static void abort_comm(sc_comm *comm)
{
    sc_comm_host *host = host_of(comm);
    if (host->has_thread) {
        atomic_store_explicit(&host->is_aborting, true, memory_order_release);
        uint64_t one = 1;
        while (write(host->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
        pthread_join(host->thread, NULL);
        host->has_thread = false;
        sc_comm_host_sock_term(host);
    }
}

static void close_comm(sc_comm **comm)
{
    if (*comm == NULL) {
        return;
    }
    sc_comm_host *host = host_of(*comm);
    abort_comm(*comm);
    sc_comm_host_sock_close(host); // an open that failed has no thread to do it
    sc_comm_host_sock_term(host);
    sc_spsc_done(&host->commands);
    sc_spsc_done(&host->notes);
    if (host->wake_fd >= 0) {
        close(host->wake_fd);
    }
    sc_arena_done(&host->arena);
    free(host);
    *comm = NULL;
}

static const sc_comm_ops host_ops = {
    .connect = connect_comm,
    .post_recv = post_recv,
    .send = send_message,
    .all_gather = all_gather,
    .all_reduce = all_reduce,
    .next_event = next_event,
    .abort = abort_comm,
    .close = close_comm,
};

sc_comm_host_drops sc_comm_host_count_drops(sc_comm *comm)
{
    sc_comm_host *host = host_of(comm);
    return (sc_comm_host_drops){
        .n_strangers = atomic_load_explicit(&host->n_strangers, memory_order_relaxed),
        .n_stale = atomic_load_explicit(&host->n_stale, memory_order_relaxed),
    };
}

/* The wake-up descriptor and both queues; a place in each for every operation under way. */
static sc_status make_queues(sc_comm_host *host, sc_err *err)
{
    size_t n_ops = 0;
    for (int i = 0; i < host->n_channels; i++) {
        n_ops += host->channels[i].n_slots;
    }
    for (int i = 0; i < host->n_groups; i++) {
        n_ops += host->groups[i].n_slots;
    }
    SC_TRY(sc_spsc_init(&host->commands, sizeof(sc_host_command), n_ops + COMMANDS_SPARE, err));
    SC_TRY(sc_spsc_init(&host->notes, sizeof(sc_host_note), n_ops + NOTES_SPARE, err));
    host->base.event_fd = host->notes.event_fd;
    return SC_OK;
}

static sc_status start_thread(sc_comm_host *host, sc_err *err)
{
    int error = pthread_create(&host->thread, NULL, sc_comm_host_loop_run, host);
    if (error != 0) {
        return sc_status_errno(err, error, "comm thread");
    }
    host->has_thread = true;
    return SC_OK;
}

static sc_status fill(sc_comm_host *host, const sc_comm_config *config, sc_err *err)
{
    host->base.ops = &host_ops;
    host->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (host->wake_fd < 0) {
        return sc_status_errno(err, errno, "eventfd");
    }
    SC_TRY(sc_comm_host_layout_check(config, err));
    SC_TRY(sc_comm_host_layout_fill(host, config, err));
    SC_TRY(make_queues(host, err));
    SC_TRY(sc_comm_host_sock_bind(host, config->bind_address, err));
    return start_thread(host, err);
}

sc_status sc_comm_host_open(const sc_comm_config *config, sc_comm **out, sc_err *err)
{
    sc_comm_host *host = aligned_alloc(_Alignof(sc_comm_host), sizeof *host);
    if (host == NULL) {
        return sc_status_errno(err, ENOMEM, "data transport");
    }
    memset(host, 0, sizeof *host);
    host->wake_fd = -1;
    sc_arena_init(&host->arena, 0);
    sc_comm *comm = &host->base;
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); // our threads and libzmq's take no signals
    sc_status status = fill(host, config, err);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (status != SC_OK) {
        close_comm(&comm);
        return status;
    }
    *out = comm;
    return SC_OK;
}
