/*
 * comm - one transport interface: one-way channels, groups, abort.
 *
 * A comm belongs to one plan epoch: opened, connected, used, closed; nothing is created inside a
 * step. A channel carries one kind of message (activations or gradients) from one stage to the
 * next, one way, in one order. The k-th post_recv of a channel gets the k-th send. A receiver
 * grants a credit with every post_recv; a sender sends only with credit, so memory is bounded and
 * both ends' ready times are known. Every message carries its tag, which is checked against the
 * receiver's expectation on arrival.
 *
 * Threads: all calls come from the loop thread and never block. An implementation may own a thread.
 */
#ifndef SC_STAGE_COMM_COMM_H
#define SC_STAGE_COMM_COMM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_COMM_ENDPOINT_MAX = 128,
    SC_COMM_GROUP_RANKS_MAX = 1024,
    SC_COMM_CHANNELS_MAX = 16384
};

typedef enum sc_comm_kind {
    SC_COMM_ACTIVATION,
    SC_COMM_GRADIENT,
    SC_COMM_STATE // weights and optimizer state that move between ranks; stages are ranks here
} sc_comm_kind;

/* One end of a channel. The channel is identified on the wire by (from_stage, to_stage, kind). */
typedef struct sc_comm_channel {
    int from_stage;
    int to_stage;
    sc_comm_kind kind;
    int peer_rank;
    bool is_send;
    size_t message_bytes;
    int window; // most receives posted at a time
} sc_comm_channel;

/* A group of ranks that reduce or gather together; listed in the same order on every member. */
typedef struct sc_comm_group {
    int id; // the same on every member
    int n_ranks;
    const int *ranks; // (n_ranks), rising; borrowed during open
    size_t max_bytes; // largest buffer of an operation: all_reduce's, or all of all_gather's out
} sc_comm_group;

typedef struct sc_comm_config {
    uint64_t epoch;
    int rank;
    int n_ranks;
    const char
        *bind_address; // "tcp://127.0.0.1:*" or "ipc:///dir/*"; the implementation picks the rest
    const sc_comm_channel
        *channels; // (n_channels), copied; a channel's index is its id in calls and events
    int n_channels;
    const sc_comm_group *groups; // (n_groups), copied
    int n_groups;
} sc_comm_config;

typedef struct sc_comm_tag {
    uint64_t step;
    int stage; // the stage that sends
    int mb;
} sc_comm_tag;

typedef enum sc_comm_event_type {
    SC_COMM_RECV_DONE,  // the message is in the buffer
    SC_COMM_SEND_DONE,  // the buffer may be reused
    SC_COMM_GROUP_DONE, // the group operation is complete on this rank
    SC_COMM_CONNECTED,  // every channel and group has been greeted by its peer, both ways
    SC_COMM_FAILED      // the transport is unusable: err says why; only close is left
} sc_comm_event_type;

typedef struct sc_comm_event {
    sc_comm_event_type type;
    int channel; // or group
    uint64_t cookie;
    sc_comm_tag tag;
    int64_t sent_ready_ns; // RECV_DONE: when the sender had it ready, on the sender's clock;
                           // GROUP_DONE: when the last member called, on that member's clock
    int64_t posted_ns;     // RECV_DONE: when this side posted the receive
    int64_t arrived_ns;    // RECV_DONE: when the last byte was in place
    sc_err err;            // FAILED
} sc_comm_event;

typedef struct sc_comm sc_comm;

typedef struct sc_comm_ops {
    /* Connects to every peer; endpoints[rank] for each rank of the epoch (those not needed may be
       NULL). SC_COMM_CONNECTED follows. */
    sc_status (*connect)(sc_comm *comm, const char *const *endpoints, sc_err *err);
    /* Posts a receive of exactly the channel's message_bytes into buf, expecting `tag`. buf is the
       transport's until RECV_DONE. */
    sc_status (*post_recv)(sc_comm *comm, int channel, void *buf, sc_comm_tag tag, uint64_t cookie,
                           sc_err *err);
    /* Sends buf, ready since ready_ns. buf is the transport's until SEND_DONE. */
    sc_status (*send)(sc_comm *comm, int channel, const void *buf, sc_comm_tag tag,
                      int64_t ready_ns, uint64_t cookie, sc_err *err);
    /* out (n_ranks, bytes) gets every member's `in`, in group order; operations of one group are
       matched in the order of their calls. Both buffers are the transport's until GROUP_DONE. */
    sc_status (*all_gather)(sc_comm *comm, int group, const void *in, size_t bytes, void *out,
                            uint64_t cookie, sc_err *err);
    /* buf[i] becomes the sum over members, added in group order by the chunk's owner; chunk borders
       depend on n and the group alone. */
    sc_status (*all_reduce)(sc_comm *comm, int group, float *buf, size_t n, uint64_t cookie,
                            sc_err *err);
    /* Takes the next event; false when there is none now. event_fd is readable when there may be
     * one. */
    bool (*next_event)(sc_comm *comm, sc_comm_event *out);
    /* Stops everything at once (linger 0): after it returns no buffer is touched any more. */
    void (*abort)(sc_comm *comm);
    /* Aborts if that was not done, frees, nulls. */
    void (*close)(sc_comm **comm);
} sc_comm_ops;

struct sc_comm {
    const sc_comm_ops *ops;
    int event_fd;
    char endpoint[SC_COMM_ENDPOINT_MAX]; // what peers connect to
};

/* comm_host.c: ZeroMQ between processes of one or several hosts. */
sc_status sc_comm_host_open(const sc_comm_config *config, sc_comm **out, sc_err *err);

#endif
