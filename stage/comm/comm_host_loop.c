#include "stage/comm/comm_host_loop.h"

#include "stage/comm/comm_host_chan.h"
#include "stage/comm/comm_host_group.h"
#include "stage/comm/comm_host_sock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    ITEM_COMMANDS,
    ITEM_WAKE,
    ITEM_ROUTER,
    ITEM_FIRST_DEALER,
    FRAMES_MAX = 64 // from one socket before the others and the abort flag are looked at
};

static void count(atomic_ullong *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static bool is_aborting(sc_comm_host *host)
{
    return atomic_load_explicit(&host->is_aborting, memory_order_acquire);
}

static sc_status check_connected(sc_comm_host *host, sc_err *err)
{
    if (host->is_connected || !host->has_called) {
        return SC_OK;
    }
    for (int i = 0; i < host->n_peers; i++) {
        const sc_host_peer *peer = &host->peers[i];
        if ((peer->is_out && !peer->is_welcomed) || (peer->is_in && !peer->is_greeted)) {
            return SC_OK;
        }
    }
    host->is_connected = true;
    sc_host_note note = {.type = SC_COMM_CONNECTED, .index = -1};
    sc_comm_host_state_push(host, &note);
    return sc_comm_host_group_finish(host, err); // starts what was called before
}

static sc_status connect_peers(sc_comm_host *host, sc_err *err)
{
    host->has_called = true;
    for (int i = 0; i < host->n_peers; i++) {
        sc_host_peer *peer = &host->peers[i];
        zmq_pollitem_t *item = &host->items[host->n_items];
        *item = (zmq_pollitem_t){.fd = -1, .events = ZMQ_POLLIN}; // polls nothing
        host->n_items++;                                          // item and peer keep step
        if (!peer->is_out) {
            continue;
        }
        SC_TRY(sc_comm_host_sock_connect(host, peer, err));
        item->socket = peer->dealer;
        sc_comm_wire hello = {.type = SC_COMM_WIRE_HELLO, .to = peer->rank};
        SC_TRY(sc_comm_host_sock_send(host, peer, &hello, NULL, 0, NULL, err));
    }
    return check_connected(host, err);
}

static sc_status run_command(sc_comm_host *host, const sc_host_command *command, sc_err *err)
{
    switch (command->type) {
    case SC_HOST_CONNECT:
        return connect_peers(host, err);
    case SC_HOST_RECV:
    case SC_HOST_SEND:
        return sc_comm_host_chan_call(host, command, err);
    case SC_HOST_GATHER:
    case SC_HOST_REDUCE:
        return sc_comm_host_group_call(host, command, err);
    }
    return SC_OK;
}

static void note_id(sc_host_peer *peer, zmq_msg_t *id)
{
    peer->routing_id_bytes = zmq_msg_size(id);
    memcpy(peer->routing_id, zmq_msg_data(id), peer->routing_id_bytes);
}

/* A connection says who it is; the first one that does so for a rank is that rank. One that takes
   us for another rank only learns who we are. */
static sc_status greet(sc_comm_host *host, const sc_comm_wire *wire, zmq_msg_t *id, sc_err *err)
{
    sc_comm_wire welcome = {.type = SC_COMM_WIRE_WELCOME};
    int i = wire->rank < (uint32_t)host->n_ranks ? host->peer_of_rank[wire->rank] : -1;
    if (i < 0 || !host->peers[i].is_in || zmq_msg_size(id) > SC_HOST_ROUTING_ID_MAX) {
        count(&host->n_strangers);
        return SC_OK;
    }
    sc_host_peer *peer = &host->peers[i];
    if (wire->to != host->rank) {
        count(&host->n_strangers);
        sc_host_peer stranger = {.rank = peer->rank};
        note_id(&stranger, id);
        sc_comm_host_sock_answer(host, &stranger, &welcome, NULL); // it may have left
        return SC_OK;
    }
    if (peer->is_greeted) {
        count(&host->n_strangers);
        return SC_OK;
    }
    note_id(peer, id);
    peer->is_greeted = true;
    SC_TRY(sc_comm_host_sock_answer(host, peer, &welcome, err));
    return sc_comm_host_chan_greet(host, i, err);
}

static bool is_from(const sc_host_peer *peer, zmq_msg_t *id)
{
    return peer->is_greeted && peer->routing_id_bytes == zmq_msg_size(id) &&
           memcmp(peer->routing_id, zmq_msg_data(id), peer->routing_id_bytes) == 0;
}

/* Index of the peer at the other end of this connection, -1 for a stranger's. */
static int find_sender(sc_comm_host *host, zmq_msg_t *id)
{
    for (int i = 0; i < host->n_peers; i++) {
        if (is_from(&host->peers[i], id)) {
            return i;
        }
    }
    return -1;
}

static sc_status fail_frame(const sc_host_peer *peer, const char *why, sc_err *err)
{
    return sc_status_fail(err, SC_PROTOCOL, "bad frame from rank %d: %s", peer->rank, why);
}

static sc_status dispatch(sc_comm_host *host, int peer, const sc_comm_wire *wire,
                          sc_host_frame *frame, sc_err *err)
{
    if (wire->rank != (uint32_t)host->peers[peer].rank || frame->n_parts != 2) {
        return fail_frame(&host->peers[peer], "wrong rank or number of parts", err);
    }
    switch (wire->type) {
    case SC_COMM_WIRE_DATA:
        return sc_comm_host_chan_data(host, peer, wire, &frame->body, err);
    case SC_COMM_WIRE_GATHER:
    case SC_COMM_WIRE_PART:
    case SC_COMM_WIRE_SUM:
        return sc_comm_host_group_data(host, peer, wire, &frame->body, err);
    default:
        return fail_frame(&host->peers[peer], "of a type that is not expected here", err);
    }
}

/* A frame of somebody who called us. */
static sc_status take_call(sc_comm_host *host, sc_host_frame *frame, sc_err *err)
{
    int peer = find_sender(host, &frame->id);
    sc_comm_wire wire;
    sc_err why;
    size_t n = zmq_msg_size(&frame->head);
    if (sc_comm_host_wire_unpack(zmq_msg_data(&frame->head), n, &wire, &why) != SC_OK) {
        if (peer >= 0) {
            return fail_frame(&host->peers[peer], why.text, err);
        }
        count(&host->n_strangers);
        return SC_OK;
    }
    if (wire.epoch != host->epoch) {
        count(&host->n_stale);
        return SC_OK;
    }
    if (peer >= 0) {
        return dispatch(host, peer, &wire, frame, err);
    }
    if (wire.type == SC_COMM_WIRE_HELLO && frame->n_parts == 1) {
        SC_TRY(greet(host, &wire, &frame->id, err));
        return check_connected(host, err);
    }
    count(&host->n_strangers);
    return SC_OK;
}

/* A frame of a peer that we called: before its welcome anybody may be there. */
static sc_status take_answer(sc_comm_host *host, int i, sc_host_frame *frame, sc_err *err)
{
    sc_host_peer *peer = &host->peers[i];
    sc_comm_wire wire;
    sc_err why;
    size_t n = zmq_msg_size(&frame->head);
    if (sc_comm_host_wire_unpack(zmq_msg_data(&frame->head), n, &wire, &why) != SC_OK) {
        if (peer->is_welcomed) {
            return fail_frame(peer, why.text, err);
        }
        count(&host->n_strangers);
        return SC_OK;
    }
    if (wire.epoch != host->epoch) {
        count(&host->n_stale);
        return SC_OK;
    }
    if (wire.rank != (uint32_t)peer->rank) {
        return sc_status_fail(err, SC_PROTOCOL, "rank %u answers at %s, expected rank %d",
                              wire.rank, peer->endpoint, peer->rank);
    }
    if (frame->n_parts != 1) {
        return fail_frame(peer, "wrong number of parts", err);
    }
    if (wire.type == SC_COMM_WIRE_WELCOME && !peer->is_welcomed) {
        peer->is_welcomed = true;
        return check_connected(host, err);
    }
    if (wire.type == SC_COMM_WIRE_CREDIT && peer->is_welcomed) {
        return sc_comm_host_chan_credit(host, i, &wire, err);
    }
    return fail_frame(peer, "of a type that is not expected here", err);
}

static sc_status drain(sc_comm_host *host, void *socket, int peer, sc_err *err)
{
    sc_status status = SC_OK;
    for (int i = 0; i < FRAMES_MAX && status == SC_OK && !is_aborting(host); i++) {
        sc_host_frame frame;
        if (!sc_comm_host_sock_recv(socket, peer < 0, &frame)) {
            break;
        }
        status = peer < 0 ? take_call(host, &frame, err) : take_answer(host, peer, &frame, err);
        sc_comm_host_sock_release(&frame);
    }
    return status;
}

static sc_status run_commands(sc_comm_host *host, sc_err *err)
{
    sc_host_command command;
    while (sc_spsc_pop(&host->commands, &command)) {
        SC_TRY(run_command(host, &command, err));
    }
    return SC_OK;
}

static void clear(int fd)
{
    uint64_t n;
    while (read(fd, &n, sizeof n) < 0 && errno == EINTR) {
    }
}

static sc_status turn(sc_comm_host *host, sc_err *err)
{
    if (zmq_poll(host->items, host->n_items, -1) < 0 && zmq_errno() != EINTR) {
        return sc_status_fail(err, SC_IO, "poll of data sockets: %s", zmq_strerror(zmq_errno()));
    }
    sc_spsc_clear(&host->commands);
    clear(host->wake_fd);
    SC_TRY(run_commands(host, err));
    SC_TRY(drain(host, host->router, -1, err));
    for (int i = ITEM_FIRST_DEALER; i < host->n_items; i++) {
        if (host->items[i].socket == NULL || (host->items[i].revents & ZMQ_POLLIN) == 0) {
            continue;
        }
        SC_TRY(drain(host, host->items[i].socket, i - ITEM_FIRST_DEALER, err));
    }
    sc_comm_host_chan_finish(host);
    return sc_comm_host_group_finish(host, err);
}

/* After a failure the sockets rest; commands are thrown away, so their queue cannot fill. */
static void rest(sc_comm_host *host)
{
    struct pollfd fds[] = {{.fd = host->commands.event_fd, .events = POLLIN},
                           {.fd = host->wake_fd, .events = POLLIN}};
    poll(fds, 2, -1);
    sc_spsc_clear(&host->commands);
    clear(host->wake_fd);
    sc_host_command command;
    while (sc_spsc_pop(&host->commands, &command)) {
    }
}

void *sc_comm_host_loop_run(void *argument)
{
    sc_comm_host *host = argument;
    host->items[ITEM_COMMANDS] =
        (zmq_pollitem_t){.fd = host->commands.event_fd, .events = ZMQ_POLLIN};
    host->items[ITEM_WAKE] = (zmq_pollitem_t){.fd = host->wake_fd, .events = ZMQ_POLLIN};
    host->items[ITEM_ROUTER] = (zmq_pollitem_t){.socket = host->router, .events = ZMQ_POLLIN};
    host->n_items = ITEM_ROUTER + 1;
    while (!is_aborting(host)) {
        if (host->is_failed) {
            rest(host);
            continue;
        }
        if (turn(host, &host->failure) != SC_OK) {
            host->is_failed = true;
            sc_host_note note = {.type = SC_COMM_FAILED, .index = -1};
            sc_comm_host_state_push(host, &note);
        }
    }
    sc_comm_host_group_drop(host);
    sc_comm_host_sock_close(host);
    return NULL;
}
