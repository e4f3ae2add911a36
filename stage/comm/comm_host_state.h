/*
 * comm_host_state - what the files of the host transport share: one comm and its parts.
 *
 * Each field has one owner, named by the blocks below: the loop thread (every call of comm.h) or
 * the comm thread (all sockets). They meet in the two queues, in the failure text (written before
 * the FAILED event is pushed, read after it is popped) and in the atomics.
 * Memory: everything comes from the arena at open; nothing is allocated later.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_STATE_H
#define SC_STAGE_COMM_COMM_HOST_STATE_H

#include "base/arena.h"
#include "base/spsc.h"
#include "stage/comm/comm.h"
#include "stage/comm/comm_host_wire.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

enum {
    SC_HOST_IN_FLIGHT_MIN = 16, // operations of a channel or group that may be under way at least
    SC_HOST_ROUTING_ID_MAX = 32
};

/* Chunks that libzmq still holds; its free callback counts down and wakes the comm thread at 0. */
typedef struct sc_host_flight {
    atomic_size_t n_left;
    int wake_fd;
} sc_host_flight;

typedef enum sc_host_command_type {
    SC_HOST_CONNECT,
    SC_HOST_RECV,
    SC_HOST_SEND,
    SC_HOST_GATHER,
    SC_HOST_REDUCE
} sc_host_command_type;

/* Loop thread -> comm thread; also the form in which channels and groups queue their operations. */
typedef struct sc_host_command {
    sc_host_command_type type;
    int index;      // channel or group
    const void *in; // SEND, GATHER
    void *out;      // RECV, GATHER, REDUCE (in place)
    size_t bytes;   // GATHER: of a piece; REDUCE: of the buffer
    sc_comm_tag tag;
    int64_t ns; // RECV: posted; SEND: ready; GATHER, REDUCE: called
    uint64_t cookie;
} sc_host_command;

/* Comm thread -> loop thread: an event without its error text. */
typedef struct sc_host_note {
    sc_comm_event_type type;
    int index;
    uint64_t cookie;
    sc_comm_tag tag;
    int64_t sent_ready_ns;
    int64_t posted_ns;
    int64_t arrived_ns;
} sc_host_note;

typedef struct sc_host_channel {
    sc_comm_channel conf;
    int peer;                // index in peers
    size_t n_slots;          // operations under way at most
    sc_host_command *ops;    // (n_slots), operation k at k mod n_slots
    sc_host_flight *flights; // (n_slots), senders only
    uint64_t n_called;       // operations taken over from the loop thread
    uint64_t n_credits;      // receiver: granted; sender: received
    uint64_t n_passed;       // sender: handed to libzmq; receiver: messages complete
    uint64_t n_done;         // sender: let go by libzmq
    size_t offset;           // receiver: bytes of the current message in place
} sc_host_channel;

/* A chunk that waits for its operation to start, or for the other members' addends. */
typedef struct sc_host_slot {
    bool is_held;
    sc_comm_wire_type type;
    uint64_t total;
    int64_t ready_ns;
    zmq_msg_t body;
} sc_host_slot;

typedef struct sc_host_group {
    int id;
    int n_ranks;
    int me;           // own place in the group
    int *peers;       // (n_ranks) index in peers, -1 for me
    size_t max_bytes; // of an operation's largest buffer
    size_t n_slots;   // operations under way at most
    sc_host_command *ops;
    uint64_t n_called;
    uint64_t n_started;
    bool is_active;       // operation n_started - 1 runs
    int64_t ready_ns;     // latest call of it by a member, as far as known here
    size_t n_pending;     // its chunks that are still to arrive
    sc_host_flight sends; // its chunks that libzmq holds
    size_t n_subs;        // chunks of one member's piece or addend at most
    /* Chunks by (member, chunk), of the running operation or the next: a member sends for operation
       k + 1 when it has ended k, and then all its chunks of k were used here. */
    sc_host_slot *slots; // (n_ranks, n_subs)
    uint64_t *next[2];   // (n_ranks) next offset expected from that member, by k mod 2
    uint64_t *next_sum;  // (n_ranks) likewise of the owner's sum
    int *n_addends;      // (n_subs) that arrived for a chunk of the own part
} sc_host_group;

typedef struct sc_host_peer {
    int rank;
    bool is_out; // we call it: it gets data or takes part in a group
    bool is_in;  // it calls us
    char endpoint[SC_COMM_ENDPOINT_MAX];
    void *dealer;
    bool is_welcomed; // it answered our hello
    bool is_greeted;  // we answered its hello
    unsigned char routing_id[SC_HOST_ROUTING_ID_MAX];
    size_t routing_id_bytes;
} sc_host_peer;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): fields stand with their owner
typedef struct sc_comm_host {
    sc_comm base; // first: sc_comm * is sc_comm_host *
    sc_arena arena;
    sc_spsc commands;
    sc_spsc notes;
    int wake_fd; // written by the free callback and by abort
    atomic_bool is_aborting;
    atomic_ullong n_strangers; // frames dropped: from nobody that greeted, or not ours at all
    atomic_ullong n_stale;     // frames dropped: of another epoch
    sc_err failure;

    /* constant after open */
    uint64_t epoch;
    int rank;
    int n_ranks;
    int n_channels;
    int n_groups;
    int n_peers;
    int *by_key;       // (n_channels) channel indices in rising (from, to, kind)
    int *peer_of_rank; // (n_ranks) index in peers, -1: nothing to do with it

    /* loop thread */
    size_t *n_open_channel; // (n_channels) operations whose event was not taken yet
    size_t *n_open_group;   // (n_groups)
    bool is_connect_called;
    bool has_thread;
    bool is_unlinked; // the socket file is gone
    pthread_t thread;

    /* comm thread */
    void *zmq;
    void *router;
    zmq_pollitem_t *items; // commands, wake, router, then the dealers
    int n_items;
    bool has_called; // connect was called
    bool is_connected;
    bool is_failed;
    sc_host_channel *channels;
    sc_host_group *groups;
    sc_host_peer *peers;
} sc_comm_host;

/* Comm thread: one more event for the loop thread. */
static inline void sc_comm_host_state_push(sc_comm_host *host, const sc_host_note *note)
{
    bool is_pushed = sc_spsc_push(&host->notes, note);
    assert(is_pushed); // the queue has a place for every operation that may be under way
    (void)is_pushed;
}

#endif
