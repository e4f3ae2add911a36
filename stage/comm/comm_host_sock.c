#include "stage/comm/comm_host_sock.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define IPC_PREFIX "ipc://"

enum {
    MAX_MESSAGE_BYTES = SC_COMM_CHUNK_BYTES + 4096,
    BACKLOG = 1024,
    SOCKETS_SPARE = 16
};

int64_t sc_comm_host_sock_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Otherwise libzmq's receive buffers of a chunk and more come from mmap and pay first-touch page
   faults every time: 4-5 times slower. 32 MiB is the most that glibc takes for the first. */
static void raise_malloc_thresholds(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

static sc_status fail_zmq(sc_err *err, const char *what, const char *endpoint)
{
    return sc_status_fail(err, SC_IO, "%s %s: %s", what, endpoint, zmq_strerror(zmq_errno()));
}

static sc_status make_socket(sc_comm_host *host, int type, void **out, sc_err *err)
{
    void *socket = zmq_socket(host->zmq, type);
    if (socket == NULL) {
        return fail_zmq(err, "data socket of", host->base.endpoint);
    }
    int none = 0;
    int backlog = BACKLOG;
    int64_t max_bytes = MAX_MESSAGE_BYTES;
    int rc = zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    rc |= zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none);
    rc |= zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
    rc |= zmq_setsockopt(socket, ZMQ_BACKLOG, &backlog, sizeof backlog);
    rc |= zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    if (type == ZMQ_ROUTER) {
        int is_mandatory = 1; // an answer to a peer that is gone is an error, not silence
        rc |= zmq_setsockopt(socket, ZMQ_ROUTER_MANDATORY, &is_mandatory, sizeof is_mandatory);
    }
    if (rc != 0) {
        sc_status status = fail_zmq(err, "options of data socket", host->base.endpoint);
        zmq_close(socket);
        return status;
    }
    *out = socket;
    return SC_OK;
}

/* libzmq has wildcards of its own, but only for a whole ipc address, in a directory it chooses. */
static sc_status name_ipc(const sc_comm_host *host, const char *address, char *out, size_t n,
                          sc_err *err)
{
    size_t length = strlen(address);
    int written = 0;
    if (strncmp(address, IPC_PREFIX, strlen(IPC_PREFIX)) == 0 && length > 7 &&
        address[length - 1] == '*') {
        written = snprintf(out, n, "%.*s%lx-%d-%llx", (int)(length - 1), address, (long)getpid(),
                           host->rank, (unsigned long long)sc_comm_host_sock_now_ns());
    } else {
        written = snprintf(out, n, "%s", address);
    }
    size_t limit = n;
    if (strncmp(address, IPC_PREFIX, strlen(IPC_PREFIX)) == 0) {
        limit = strlen(IPC_PREFIX) + sizeof((struct sockaddr_un *)NULL)->sun_path;
    }
    if (written < 0 || (size_t)written >= limit || (size_t)written >= n) {
        return sc_status_fail(err, SC_LIMIT,
                              "data address %s: its %d characters are over the limit of %zu, use "
                              "a shorter directory",
                              address, written, limit - 1);
    }
    return SC_OK;
}

sc_status sc_comm_host_sock_bind(sc_comm_host *host, const char *address, sc_err *err)
{
    raise_malloc_thresholds();
    char name[SC_COMM_ENDPOINT_MAX];
    SC_TRY(name_ipc(host, address, name, sizeof name, err));
    host->zmq = zmq_ctx_new();
    if (host->zmq == NULL) {
        return fail_zmq(err, "context of", address);
    }
    if (zmq_ctx_set(host->zmq, ZMQ_MAX_SOCKETS, host->n_peers + SOCKETS_SPARE) != 0) {
        return fail_zmq(err, "sockets of", address);
    }
    SC_TRY(make_socket(host, ZMQ_ROUTER, &host->router, err));
    if (zmq_bind(host->router, name) != 0) {
        return fail_zmq(err, "cannot listen for data on", name);
    }
    size_t n = sizeof host->base.endpoint;
    if (zmq_getsockopt(host->router, ZMQ_LAST_ENDPOINT, host->base.endpoint, &n) != 0) {
        return fail_zmq(err, "address of", name);
    }
    return SC_OK;
}

sc_status sc_comm_host_sock_connect(sc_comm_host *host, sc_host_peer *peer, sc_err *err)
{
    SC_TRY(make_socket(host, ZMQ_DEALER, &peer->dealer, err));
    if (zmq_connect(peer->dealer, peer->endpoint) != 0) {
        fail_zmq(err, "cannot connect to", peer->endpoint);
        return sc_status_prefix(err, SC_IO, "rank %d", peer->rank);
    }
    return SC_OK;
}

void sc_comm_host_sock_close(sc_comm_host *host)
{
    for (int i = 0; host->peers != NULL && i < host->n_peers; i++) {
        if (host->peers[i].dealer != NULL) {
            zmq_close(host->peers[i].dealer);
            host->peers[i].dealer = NULL;
        }
    }
    if (host->router != NULL) {
        zmq_close(host->router);
        host->router = NULL;
    }
}

void sc_comm_host_sock_term(sc_comm_host *host)
{
    if (host->zmq != NULL) {
        while (zmq_ctx_term(host->zmq) != 0 && zmq_errno() == EINTR) {
        }
        host->zmq = NULL;
    }
    /* libzmq leaves the file of an ipc address behind, unless it chose the name itself */
    const char *endpoint = host->base.endpoint;
    if (strncmp(endpoint, IPC_PREFIX, strlen(IPC_PREFIX)) == 0 && !host->is_unlinked) {
        unlink(endpoint + strlen(IPC_PREFIX));
        host->is_unlinked = true;
    }
}

/* Called by libzmq, on any of its threads, when it needs a chunk's bytes no more. */
static void let_go(void *data, void *hint)
{
    (void)data;
    sc_host_flight *flight = hint;
    int wake_fd = flight->wake_fd;
    if (atomic_fetch_sub_explicit(&flight->n_left, 1, memory_order_acq_rel) == 1) {
        uint64_t one = 1;
        while (write(wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
}

static sc_status send_head(sc_comm_host *host, void *socket, sc_comm_wire *wire, int flags)
{
    wire->epoch = host->epoch;
    wire->rank = (uint32_t)host->rank;
    unsigned char head[SC_COMM_WIRE_BYTES_MAX];
    size_t n = sc_comm_host_wire_pack(wire, head);
    return zmq_send(socket, head, n, flags | ZMQ_DONTWAIT) < 0 ? SC_IO : SC_OK;
}

sc_status sc_comm_host_sock_send(sc_comm_host *host, sc_host_peer *peer, sc_comm_wire *wire,
                                 const void *data, size_t n, sc_host_flight *flight, sc_err *err)
{
    zmq_msg_t body;
    if (n > 0 && zmq_msg_init_data(&body, (void *)data, n, let_go, flight) != 0) {
        let_go(NULL, flight);
        return fail_zmq(err, "chunk for", peer->endpoint);
    }
    sc_status status = send_head(host, peer->dealer, wire, n > 0 ? ZMQ_SNDMORE : 0);
    if (n > 0 && (status != SC_OK || zmq_msg_send(&body, peer->dealer, ZMQ_DONTWAIT) < 0)) {
        status = SC_IO;
        zmq_msg_close(&body); // calls let_go
    }
    if (status != SC_OK) {
        fail_zmq(err, "cannot send to", peer->endpoint);
        return sc_status_prefix(err, status, "rank %d", peer->rank);
    }
    return SC_OK;
}

sc_status sc_comm_host_sock_answer(sc_comm_host *host, sc_host_peer *peer, sc_comm_wire *wire,
                                   sc_err *err)
{
    int rc = zmq_send(host->router, peer->routing_id, peer->routing_id_bytes,
                      ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (rc < 0 || send_head(host, host->router, wire, 0) != SC_OK) {
        return sc_status_fail(err, SC_PEER, "rank %d: its data connection is gone: %s", peer->rank,
                              zmq_strerror(zmq_errno()));
    }
    return SC_OK;
}

static bool has_more(zmq_msg_t *message)
{
    return zmq_msg_more(message) != 0;
}

/* The parts of a message arrive together, so only the first one can be missing. */
bool sc_comm_host_sock_recv(void *socket, bool is_router, sc_host_frame *out)
{
    zmq_msg_init(&out->id);
    zmq_msg_init(&out->head);
    zmq_msg_init(&out->body);
    out->n_parts = 0;
    zmq_msg_t *first = is_router ? &out->id : &out->head;
    if (zmq_msg_recv(first, socket, ZMQ_DONTWAIT) < 0) {
        sc_comm_host_sock_release(out);
        return false;
    }
    bool is_more = has_more(first);
    if (is_router && is_more) {
        is_more = zmq_msg_recv(&out->head, socket, ZMQ_DONTWAIT) >= 0 && has_more(&out->head);
        out->n_parts = 1;
    } else if (!is_router) {
        out->n_parts = 1;
    }
    if (is_more) {
        is_more = zmq_msg_recv(&out->body, socket, ZMQ_DONTWAIT) >= 0 && has_more(&out->body);
        out->n_parts++;
    }
    zmq_msg_t surplus;
    zmq_msg_init(&surplus);
    while (is_more && zmq_msg_recv(&surplus, socket, ZMQ_DONTWAIT) >= 0) {
        is_more = has_more(&surplus);
        out->n_parts++;
    }
    zmq_msg_close(&surplus);
    return true;
}

void sc_comm_host_sock_release(sc_host_frame *frame)
{
    zmq_msg_close(&frame->id);
    zmq_msg_close(&frame->head);
    zmq_msg_close(&frame->body);
}
