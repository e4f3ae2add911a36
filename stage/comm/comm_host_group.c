#include "stage/comm/comm_host_group.h"

#include "stage/comm/comm_host_sock.h"

#include <string.h>

enum {
    PART_ALIGN_ELEMS = 16,
    DIRECT_RANKS_MAX = 8,
    DIRECT_BYTES_MAX = 4 << 20,
    ADD_BLOCK_ELEMS = 1024 // addends pass through the first-level cache
};

void sc_comm_host_group_part(size_t n, int n_ranks, int member, size_t *first, size_t *count)
{
    size_t n_blocks = (n + PART_ALIGN_ELEMS - 1) / PART_ALIGN_ELEMS;
    size_t part = (n_blocks + (size_t)n_ranks - 1) / (size_t)n_ranks * PART_ALIGN_ELEMS;
    size_t begin = part * (size_t)member;
    *first = begin < n ? begin : n;
    *count = n - *first < part ? n - *first : part;
}

static size_t count_subs(size_t n_bytes)
{
    return (n_bytes + SC_COMM_CHUNK_BYTES - 1) / SC_COMM_CHUNK_BYTES;
}

size_t sc_comm_host_group_subs(size_t max_bytes, int n_ranks)
{
    size_t piece_bytes = max_bytes / (size_t)n_ranks + PART_ALIGN_ELEMS * sizeof(float);
    return count_subs(piece_bytes) + 1;
}

static sc_host_command *op_of(const sc_host_group *group)
{
    return &group->ops[(group->n_started - 1) % group->n_slots];
}

static bool is_ring(const sc_host_group *group, const sc_host_command *op)
{
    return group->n_ranks > 2 &&
           (group->n_ranks > DIRECT_RANKS_MAX || op->bytes > DIRECT_BYTES_MAX);
}

/* Where a member's piece, addend or sum lies in `out` of the running operation. */
static char *place_of(const sc_host_group *group, const sc_host_command *op, int member,
                      size_t *n_bytes)
{
    if (op->type == SC_HOST_GATHER) {
        *n_bytes = op->bytes;
        return (char *)op->out + op->bytes * (size_t)member;
    }
    size_t first = 0;
    size_t count = 0;
    sc_comm_host_group_part(op->bytes / sizeof(float), group->n_ranks, member, &first, &count);
    *n_bytes = count * sizeof(float);
    return (char *)op->out + first * sizeof(float);
}

/* Sends [offset, offset + n) of member's data at `data` to one member. */
static sc_status send_chunk(sc_comm_host *host, sc_host_group *group, int to,
                            sc_comm_wire_type type, int member, const char *data, size_t offset,
                            size_t n, sc_err *err)
{
    sc_comm_wire wire = {
        .type = type,
        .from = group->id,
        .to = member,
        .sequence = group->n_started - 1,
        .offset = offset,
        .total = op_of(group)->bytes,
        .ready_ns = group->ready_ns,
    };
    atomic_fetch_add_explicit(&group->sends.n_left, 1, memory_order_relaxed);
    return sc_comm_host_sock_send(host, &host->peers[group->peers[to]], &wire, data + offset, n,
                                  &group->sends, err);
}

static sc_status send_all(sc_comm_host *host, sc_host_group *group, int to, sc_comm_wire_type type,
                          int member, const char *data, size_t n_bytes, sc_err *err)
{
    for (size_t offset = 0; offset < n_bytes; offset += SC_COMM_CHUNK_BYTES) {
        size_t left = n_bytes - offset;
        size_t n = left < SC_COMM_CHUNK_BYTES ? left : SC_COMM_CHUNK_BYTES;
        SC_TRY(send_chunk(host, group, to, type, member, data, offset, n, err));
    }
    return SC_OK;
}

static sc_host_slot *slot_of(const sc_host_group *group, int member, size_t sub)
{
    return &group->slots[(size_t)member * group->n_subs + sub];
}

static void drop_slot(sc_host_slot *slot)
{
    if (slot->is_held) {
        zmq_msg_close(&slot->body);
        slot->is_held = false;
    }
}

static void add(float *restrict sum, const float *restrict addend, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] += addend[i];
    }
}

/* dst = ((m0 + m1) + m2) + ...: the order is the group's, whoever owns the part. libzmq aligns
   nothing, hence the copies; a block stays in the first-level cache. */
static void add_in_order(const sc_host_group *group, size_t sub, char *dst, size_t n)
{
    float sum[ADD_BLOCK_ELEMS];
    float addend[ADD_BLOCK_ELEMS];
    for (size_t at = 0; at < n; at += sizeof sum) {
        size_t bytes = n - at < sizeof sum ? n - at : sizeof sum;
        for (int member = 0; member < group->n_ranks; member++) {
            const char *src = dst;
            if (member != group->me) {
                src = zmq_msg_data(&slot_of(group, member, sub)->body);
            }
            memcpy(member == 0 ? sum : addend, src + at, bytes);
            if (member > 0) {
                add(sum, addend, bytes / sizeof(float));
            }
        }
        memcpy(dst + at, sum, bytes);
    }
}

/* All addends of a chunk of the own part are here: add, and send the sum to all. */
static sc_status reduce(sc_comm_host *host, sc_host_group *group, size_t sub, sc_err *err)
{
    const sc_host_command *op = op_of(group);
    size_t part_bytes = 0;
    char *part = place_of(group, op, group->me, &part_bytes);
    size_t offset = sub * SC_COMM_CHUNK_BYTES;
    size_t left = part_bytes - offset;
    size_t n = left < SC_COMM_CHUNK_BYTES ? left : SC_COMM_CHUNK_BYTES;
    add_in_order(group, sub, part + offset, n);
    for (int i = 1; i < group->n_ranks; i++) {
        int to = (group->me + i) % group->n_ranks;
        drop_slot(slot_of(group, to, sub));
        SC_TRY(send_chunk(host, group, to, SC_COMM_WIRE_SUM, group->me, part, offset, n, err));
    }
    return SC_OK;
}

static void note_ready(sc_host_group *group, int64_t ready_ns)
{
    group->ready_ns = ready_ns > group->ready_ns ? ready_ns : group->ready_ns;
}

/* A held chunk of the running operation. */
static sc_status use_slot(sc_comm_host *host, sc_host_group *group, int member, size_t sub,
                          sc_err *err)
{
    const sc_host_command *op = op_of(group);
    uint64_t k = group->n_started - 1;
    sc_host_slot *slot = slot_of(group, member, sub);
    bool is_gather = op->type == SC_HOST_GATHER;
    sc_comm_wire_type expected = is_gather ? SC_COMM_WIRE_GATHER : SC_COMM_WIRE_PART;
    if (slot->type != expected || slot->total != op->bytes) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "group %d operation %llu: expected %s frames of %zu bytes, got %s "
                              "of %llu from member %d",
                              group->id, (unsigned long long)k, sc_comm_host_wire_text(expected),
                              op->bytes, sc_comm_host_wire_text(slot->type),
                              (unsigned long long)slot->total, member);
    }
    note_ready(group, slot->ready_ns);
    size_t n_bytes = 0;
    char *place = place_of(group, op, is_gather ? member : group->me, &n_bytes);
    size_t offset = sub * SC_COMM_CHUNK_BYTES;
    size_t left = offset < n_bytes ? n_bytes - offset : 0;
    size_t n = left < SC_COMM_CHUNK_BYTES ? left : SC_COMM_CHUNK_BYTES;
    if (n == 0 || zmq_msg_size(&slot->body) != n) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "group %d operation %llu: expected a chunk of %zu bytes at offset "
                              "%zu of member %d, got %zu bytes",
                              group->id, (unsigned long long)k, n, offset, member,
                              zmq_msg_size(&slot->body));
    }
    group->n_pending--;
    if (!is_gather) {
        group->n_addends[sub]++;
        return group->n_addends[sub] == group->n_ranks - 1 ? reduce(host, group, sub, err) : SC_OK;
    }
    memcpy(place + offset, zmq_msg_data(&slot->body), n);
    drop_slot(slot);
    int next = (group->me + 1) % group->n_ranks;
    if (is_ring(group, op) && next != member) {
        return send_chunk(host, group, next, SC_COMM_WIRE_GATHER, member, place, offset, n, err);
    }
    return SC_OK;
}

static sc_status start_gather(sc_comm_host *host, sc_host_group *group, sc_err *err)
{
    const sc_host_command *op = op_of(group);
    char *own = (char *)op->out + op->bytes * (size_t)group->me;
    if (own != op->in) {
        memmove(own, op->in, op->bytes);
    }
    group->n_pending = (size_t)(group->n_ranks - 1) * count_subs(op->bytes);
    int n_to = is_ring(group, op) ? 1 : group->n_ranks - 1;
    for (int i = 1; i <= n_to; i++) {
        int to = (group->me + i) % group->n_ranks;
        SC_TRY(send_all(host, group, to, SC_COMM_WIRE_GATHER, group->me, own, op->bytes, err));
    }
    return SC_OK;
}

static sc_status start_reduce(sc_comm_host *host, sc_host_group *group, sc_err *err)
{
    const sc_host_command *op = op_of(group);
    size_t n_bytes = 0;
    place_of(group, op, group->me, &n_bytes);
    group->n_pending = (size_t)(group->n_ranks - 1) * count_subs(n_bytes);
    memset(group->n_addends, 0, group->n_subs * sizeof *group->n_addends);
    memset(group->next_sum, 0, (size_t)group->n_ranks * sizeof *group->next_sum);
    for (int i = 1; i < group->n_ranks; i++) {
        int to = (group->me + i) % group->n_ranks;
        const char *part = place_of(group, op, to, &n_bytes);
        group->n_pending += count_subs(n_bytes); // the sum comes back
        SC_TRY(send_all(host, group, to, SC_COMM_WIRE_PART, group->me, part, n_bytes, err));
    }
    return SC_OK;
}

/* The chunks of a member that came before the operation started here. */
static sc_status use_early(sc_comm_host *host, sc_host_group *group, int member, uint64_t n_bytes,
                           sc_err *err)
{
    for (size_t sub = 0; sub * SC_COMM_CHUNK_BYTES < n_bytes; sub++) {
        SC_TRY(use_slot(host, group, member, sub, err));
    }
    return SC_OK;
}

static sc_status start(sc_comm_host *host, sc_host_group *group, sc_err *err)
{
    uint64_t k = group->n_started++;
    group->is_active = true;
    group->ready_ns = op_of(group)->ns;
    if (op_of(group)->type == SC_HOST_GATHER) {
        SC_TRY(start_gather(host, group, err));
    } else {
        SC_TRY(start_reduce(host, group, err));
    }
    for (int member = 0; member < group->n_ranks; member++) {
        SC_TRY(use_early(host, group, member, group->next[k & 1][member], err));
    }
    return SC_OK;
}

static sc_status advance(sc_comm_host *host, sc_host_group *group, sc_err *err)
{
    for (;;) {
        if (group->is_active) {
            if (group->n_pending > 0 ||
                atomic_load_explicit(&group->sends.n_left, memory_order_acquire) != 0) {
                return SC_OK;
            }
            const sc_host_command *op = op_of(group);
            sc_host_note note = {
                .type = SC_COMM_GROUP_DONE, .index = op->index, .cookie = op->cookie};
            note.sent_ready_ns = group->ready_ns;
            sc_comm_host_state_push(host, &note);
            uint64_t *next = group->next[(group->n_started - 1) & 1];
            memset(next, 0, (size_t)group->n_ranks * sizeof *next);
            group->is_active = false;
        }
        if (!host->is_connected || group->n_started == group->n_called) {
            return SC_OK;
        }
        SC_TRY(start(host, group, err));
    }
}

sc_status sc_comm_host_group_call(sc_comm_host *host, const sc_host_command *op, sc_err *err)
{
    sc_host_group *group = &host->groups[op->index];
    group->ops[group->n_called % group->n_slots] = *op;
    group->n_called++;
    return advance(host, group, err);
}

sc_status sc_comm_host_group_finish(sc_comm_host *host, sc_err *err)
{
    for (int i = 0; i < host->n_groups; i++) {
        SC_TRY(advance(host, &host->groups[i], err));
    }
    return SC_OK;
}

static sc_status fail_frame(const sc_host_group *group, const sc_comm_wire *wire, const char *why,
                            sc_err *err)
{
    return sc_status_fail(err, SC_PROTOCOL,
                          "group %d operation %llu: %s frame of member %d from rank %u at offset "
                          "%llu: %s",
                          group->id, (unsigned long long)wire->sequence,
                          sc_comm_host_wire_text(wire->type), wire->to, wire->rank,
                          (unsigned long long)wire->offset, why);
}

static sc_status take_sum(sc_host_group *group, const sc_comm_wire *wire, zmq_msg_t *body,
                          sc_err *err)
{
    if (!group->is_active || wire->sequence != group->n_started - 1 ||
        op_of(group)->type != SC_HOST_REDUCE || wire->total != op_of(group)->bytes) {
        return fail_frame(group, wire, "not the sum that is awaited", err);
    }
    size_t n_bytes = 0;
    char *place = place_of(group, op_of(group), wire->to, &n_bytes);
    size_t n = zmq_msg_size(body);
    uint64_t *next = &group->next_sum[wire->to];
    size_t left = n_bytes - *next;
    if (wire->offset != *next || n == 0 ||
        n != (left < SC_COMM_CHUNK_BYTES ? left : SC_COMM_CHUNK_BYTES)) {
        return fail_frame(group, wire, "wrong offset or length", err);
    }
    note_ready(group, wire->ready_ns);
    memcpy(place + *next, zmq_msg_data(body), n);
    *next += n;
    group->n_pending--;
    return SC_OK;
}

/* Puts a piece's or addend's chunk into its slot. */
static sc_status hold(sc_host_group *group, const sc_comm_wire *wire, zmq_msg_t *body, sc_err *err)
{
    size_t n = zmq_msg_size(body);
    bool is_running = group->is_active && wire->sequence == group->n_started - 1;
    if (!is_running && wire->sequence != group->n_started) {
        return fail_frame(group, wire, "neither the running operation nor the next", err);
    }
    uint64_t *next = &group->next[wire->sequence & 1][wire->to];
    if (wire->offset != *next || n == 0 || n > SC_COMM_CHUNK_BYTES ||
        wire->offset % SC_COMM_CHUNK_BYTES != 0 ||
        wire->offset / SC_COMM_CHUNK_BYTES >= group->n_subs) {
        return fail_frame(group, wire, "wrong offset or length", err);
    }
    size_t sub = wire->offset / SC_COMM_CHUNK_BYTES;
    sc_host_slot *slot = slot_of(group, wire->to, sub);
    if (slot->is_held) {
        return fail_frame(group, wire, "too early, one before is not used yet", err);
    }
    zmq_msg_init(&slot->body);
    zmq_msg_move(&slot->body, body);
    slot->is_held = true;
    slot->type = wire->type;
    slot->total = wire->total;
    slot->ready_ns = wire->ready_ns;
    *next += n;
    return SC_OK;
}

static sc_host_group *find(sc_comm_host *host, int id)
{
    for (int i = 0; i < host->n_groups; i++) {
        if (host->groups[i].id == id) {
            return &host->groups[i];
        }
    }
    return NULL;
}

sc_status sc_comm_host_group_data(sc_comm_host *host, int peer, const sc_comm_wire *wire,
                                  zmq_msg_t *body, sc_err *err)
{
    sc_host_group *group = find(host, wire->from);
    if (group == NULL) {
        return sc_status_fail(err, SC_PROTOCOL, "%s frame from rank %u for unknown group %d",
                              sc_comm_host_wire_text(wire->type), wire->rank, wire->from);
    }
    bool is_member = wire->to >= 0 && wire->to < group->n_ranks && wire->to != group->me;
    int previous = (group->me + group->n_ranks - 1) % group->n_ranks;
    bool is_own = is_member && group->peers[wire->to] == peer;
    bool is_passed_on =
        is_member && wire->type == SC_COMM_WIRE_GATHER && group->peers[previous] == peer;
    if (!is_own && !is_passed_on) {
        return fail_frame(group, wire, "not that rank's to send", err);
    }
    if (wire->type == SC_COMM_WIRE_SUM) {
        return take_sum(group, wire, body, err);
    }
    SC_TRY(hold(group, wire, body, err));
    if (group->is_active && wire->sequence == group->n_started - 1) {
        size_t sub = wire->offset / SC_COMM_CHUNK_BYTES;
        SC_TRY(use_slot(host, group, wire->to, sub, err));
    }
    return SC_OK;
}

void sc_comm_host_group_drop(sc_comm_host *host)
{
    for (int i = 0; i < host->n_groups; i++) {
        sc_host_group *group = &host->groups[i];
        for (size_t j = 0; j < (size_t)group->n_ranks * group->n_subs; j++) {
            drop_slot(&group->slots[j]);
        }
    }
}
