#include "stage/comm/comm_host_chan.h"

#include "stage/comm/comm_host_sock.h"

#include <stdio.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 64
};

/* "activations 1->2" */
static const char *name(int from, int to, sc_comm_kind kind, char out[NAME_MAX_BYTES])
{
    const char *text = sc_comm_host_wire_kind_text(kind);
    snprintf(out, NAME_MAX_BYTES, "%s %d->%d", text, from, to);
    return out;
}

static const char *name_of(const sc_host_channel *channel, char out[NAME_MAX_BYTES])
{
    return name(channel->conf.from_stage, channel->conf.to_stage, channel->conf.kind, out);
}

int sc_comm_host_chan_compare(const sc_comm_channel *a, const sc_comm_channel *b)
{
    if (a->from_stage != b->from_stage) {
        return a->from_stage < b->from_stage ? -1 : 1;
    }
    if (a->to_stage != b->to_stage) {
        return a->to_stage < b->to_stage ? -1 : 1;
    }
    return (int)a->kind - (int)b->kind;
}

/* The channel that a frame of this peer speaks of, or an error. */
static sc_status find(sc_comm_host *host, int peer, const sc_comm_wire *wire, bool is_send,
                      sc_host_channel **out, sc_err *err)
{
    sc_comm_channel key = {.from_stage = wire->from, .to_stage = wire->to, .kind = wire->kind};
    int low = 0;
    int high = host->n_channels;
    while (low < high) {
        int middle = low + (high - low) / 2;
        sc_host_channel *channel = &host->channels[host->by_key[middle]];
        int order = sc_comm_host_chan_compare(&channel->conf, &key);
        if (order == 0 && channel->peer == peer && channel->conf.is_send == is_send) {
            *out = channel;
            return SC_OK;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
        if (order == 0) {
            break;
        }
    }
    char text[NAME_MAX_BYTES];
    sc_status_fail(err, SC_PROTOCOL, "%s frame from rank %u for %s, which is no channel from there",
                   sc_comm_host_wire_text(wire->type), wire->rank,
                   name(wire->from, wire->to, wire->kind, text));
    return SC_PROTOCOL;
}

/* Message k of a channel, chunk by chunk. */
static sc_status transmit(sc_comm_host *host, sc_host_channel *channel, uint64_t k, sc_err *err)
{
    const sc_host_command *op = &channel->ops[k % channel->n_slots];
    sc_host_flight *flight = &channel->flights[k % channel->n_slots];
    size_t total = channel->conf.message_bytes;
    size_t n_chunks = (total - 1) / SC_COMM_CHUNK_BYTES + 1;
    sc_comm_wire wire = {
        .type = SC_COMM_WIRE_DATA,
        .from = channel->conf.from_stage,
        .to = channel->conf.to_stage,
        .kind = channel->conf.kind,
        .tag = op->tag,
        .sequence = k,
        .total = total,
        .ready_ns = op->ns,
        .n_tensors = 1,
        .tensors = {{.dtype = SC_DTYPE_U8, .n_bytes = total}},
    };
    atomic_store_explicit(&flight->n_left, n_chunks, memory_order_relaxed);
    for (size_t offset = 0; offset < total; offset += SC_COMM_CHUNK_BYTES) {
        size_t n = total - offset < SC_COMM_CHUNK_BYTES ? total - offset : SC_COMM_CHUNK_BYTES;
        wire.offset = offset;
        SC_TRY(sc_comm_host_sock_send(host, &host->peers[channel->peer], &wire,
                                      (const char *)op->in + offset, n, flight, err));
    }
    return SC_OK;
}

static sc_status advance_send(sc_comm_host *host, sc_host_channel *channel, sc_err *err)
{
    while (channel->n_passed < channel->n_called && channel->n_passed < channel->n_credits) {
        uint64_t k = channel->n_passed++;
        SC_TRY(transmit(host, channel, k, err));
    }
    return SC_OK;
}

static sc_status grant(sc_comm_host *host, sc_host_channel *channel, sc_err *err)
{
    sc_host_peer *peer = &host->peers[channel->peer];
    while (peer->is_greeted && channel->n_credits < channel->n_called) {
        sc_comm_wire wire = {
            .type = SC_COMM_WIRE_CREDIT,
            .from = channel->conf.from_stage,
            .to = channel->conf.to_stage,
            .kind = channel->conf.kind,
            .sequence = channel->n_credits++,
        };
        SC_TRY(sc_comm_host_sock_answer(host, peer, &wire, err));
    }
    return SC_OK;
}

sc_status sc_comm_host_chan_call(sc_comm_host *host, const sc_host_command *op, sc_err *err)
{
    sc_host_channel *channel = &host->channels[op->index];
    channel->ops[channel->n_called % channel->n_slots] = *op;
    channel->n_called++;
    return channel->conf.is_send ? advance_send(host, channel, err) : grant(host, channel, err);
}

sc_status sc_comm_host_chan_greet(sc_comm_host *host, int peer, sc_err *err)
{
    for (int i = 0; i < host->n_channels; i++) {
        sc_host_channel *channel = &host->channels[i];
        if (channel->peer != peer || channel->conf.is_send) {
            continue;
        }
        SC_TRY(grant(host, channel, err));
    }
    return SC_OK;
}

sc_status sc_comm_host_chan_credit(sc_comm_host *host, int peer, const sc_comm_wire *wire,
                                   sc_err *err)
{
    sc_host_channel *channel = NULL;
    SC_TRY(find(host, peer, wire, true, &channel, err));
    if (wire->sequence != channel->n_credits) {
        char text[NAME_MAX_BYTES];
        return sc_status_fail(
            err, SC_PROTOCOL, "%s: rank %u grants message %llu, expected a grant of %llu",
            name_of(channel, text), wire->rank, (unsigned long long)wire->sequence,
            (unsigned long long)channel->n_credits);
    }
    channel->n_credits++;
    return advance_send(host, channel, err);
}

/* All that a chunk must agree with before its bytes touch the posted buffer. */
static sc_status check_data(const sc_host_channel *channel, const sc_comm_wire *wire, size_t n,
                            sc_err *err)
{
    char text[NAME_MAX_BYTES];
    name_of(channel, text);
    size_t total = channel->conf.message_bytes;
    unsigned long long expected = channel->n_passed;
    unsigned long long got = wire->sequence;
    if (got != expected) {
        return sc_status_fail(err, SC_PROTOCOL, "%s: expected message %llu, got message %llu", text,
                              expected, got);
    }
    if (channel->n_passed >= channel->n_credits) {
        return sc_status_fail(err, SC_PROTOCOL, "%s: message %llu was sent without credit", text,
                              got);
    }
    if (wire->total != total) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "%s: message %llu: expected %zu bytes, got one of %llu bytes", text,
                              got, total, (unsigned long long)wire->total);
    }
    const sc_comm_tag *tag = &channel->ops[channel->n_passed % channel->n_slots].tag;
    if (wire->tag.step != tag->step || wire->tag.stage != tag->stage || wire->tag.mb != tag->mb) {
        return sc_status_fail(
            err, SC_PROTOCOL,
            "%s: message %llu: expected step %llu stage %d mb %d, got step %llu stage %d mb %d",
            text, got, (unsigned long long)tag->step, tag->stage, tag->mb,
            (unsigned long long)wire->tag.step, wire->tag.stage, wire->tag.mb);
    }
    size_t left = total - channel->offset;
    size_t n_expected = left < SC_COMM_CHUNK_BYTES ? left : SC_COMM_CHUNK_BYTES;
    if (wire->offset != channel->offset || n != n_expected) {
        return sc_status_fail(
            err, SC_PROTOCOL,
            "%s: message %llu: expected %zu bytes at offset %zu, got %zu bytes at offset %llu",
            text, got, n_expected, channel->offset, n, (unsigned long long)wire->offset);
    }
    return SC_OK;
}

sc_status sc_comm_host_chan_data(sc_comm_host *host, int peer, const sc_comm_wire *wire,
                                 zmq_msg_t *body, sc_err *err)
{
    sc_host_channel *channel = NULL;
    SC_TRY(find(host, peer, wire, false, &channel, err));
    size_t n = zmq_msg_size(body);
    SC_TRY(check_data(channel, wire, n, err));
    const sc_host_command *op = &channel->ops[channel->n_passed % channel->n_slots];
    memcpy((char *)op->out + channel->offset, zmq_msg_data(body), n);
    channel->offset += n;
    if (channel->offset == channel->conf.message_bytes) {
        channel->offset = 0;
        channel->n_passed++;
        sc_host_note note = {
            .type = SC_COMM_RECV_DONE,
            .index = op->index,
            .cookie = op->cookie,
            .tag = op->tag,
            .sent_ready_ns = wire->ready_ns,
            .posted_ns = op->ns,
            .arrived_ns = sc_comm_host_sock_now_ns(),
        };
        sc_comm_host_state_push(host, &note);
    }
    return SC_OK;
}

void sc_comm_host_chan_finish(sc_comm_host *host)
{
    for (int i = 0; i < host->n_channels; i++) {
        sc_host_channel *channel = &host->channels[i];
        while (channel->conf.is_send && channel->n_done < channel->n_passed) {
            size_t slot = channel->n_done % channel->n_slots;
            if (atomic_load_explicit(&channel->flights[slot].n_left, memory_order_acquire) != 0) {
                break;
            }
            channel->n_done++;
            const sc_host_command *op = &channel->ops[slot];
            sc_host_note note = {
                .type = SC_COMM_SEND_DONE, .index = i, .cookie = op->cookie, .tag = op->tag};
            sc_comm_host_state_push(host, &note);
        }
    }
}
