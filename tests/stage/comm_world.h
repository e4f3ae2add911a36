/*
 * comm_world - several comms of one process that are each other's peers, for the transport's tests.
 *
 * The test thread plays every rank's loop. Waiting means polling event_fd with a deadline; a
 * deadline that passes fails the test.
 */
#ifndef SC_TESTS_STAGE_COMM_WORLD_H
#define SC_TESTS_STAGE_COMM_WORLD_H

#include "stage/comm/comm.h"
#include "stage/comm/comm_host.h"
#include "stage/comm/comm_host_wire.h"

enum {
    WORLD_RANKS_MAX = 12,
    WORLD_CHANNELS_MAX = 32,
    WORLD_GROUPS_MAX = 4
};

typedef struct world_rank {
    sc_comm_channel channels[WORLD_CHANNELS_MAX];
    int n_channels;
    sc_comm_group groups[WORLD_GROUPS_MAX];
    int n_groups;
    sc_comm *comm;
} world_rank;

typedef struct world {
    const char *transport; // "ipc" or "tcp"
    uint64_t epoch;
    int n_ranks;
    char dir[64];
    world_rank ranks[WORLD_RANKS_MAX];
    int members[WORLD_GROUPS_MAX][WORLD_RANKS_MAX];
} world;

void world_init(world *w, const char *transport, int n_ranks);
void world_done(world *w); // closes what is open

/* A channel's two ends; ids go to *send_id on from_rank and *recv_id on to_rank. */
void world_channel(world *w, int from_rank, int to_rank, int from_stage, int to_stage,
                   sc_comm_kind kind, size_t bytes, int window, int *send_id, int *recv_id);
/* A group of ranks 0 .. n-1 shifted by first; its id in calls is the same on every member as long
   as all members have the same groups before it. */
void world_group(world *w, int id, int first, int n, size_t max_bytes);

/* Where a comm of this transport binds; out has 128 bytes. */
const char *world_address(const world *w, char *out);
void world_open(world *w);          // opens every rank
void world_connect(world *w);       // connects every rank, waits for CONNECTED
void world_connect_calls(world *w); // connects without waiting

/* The next event of a rank, within ten seconds. */
sc_comm_event world_wait(world *w, int rank);
/* As above, and it must be this one. */
sc_comm_event world_expect(world *w, int rank, sc_comm_event_type type, int channel,
                           uint64_t cookie);
/* Waits for FAILED; the text must contain `text`. */
void world_expect_failure(world *w, int rank, const char *text);
/* No event is there now. */
void world_expect_none(world *w, int rank);

void world_recv(world *w, int rank, int channel, void *buf, sc_comm_tag tag, uint64_t cookie);
void world_send(world *w, int rank, int channel, const void *buf, sc_comm_tag tag, uint64_t cookie);

/* Bytes that depend on seed and place; check says where they first differ. */
void world_fill(void *buf, size_t n, uint64_t seed);
void world_check(const void *buf, size_t n, uint64_t seed);

/* A socket of a peer that keeps no rules. */
typedef struct raw_peer {
    void *zmq;
    void *socket;
    char endpoint[SC_COMM_ENDPOINT_MAX];
} raw_peer;

void raw_dial(raw_peer *raw, const char *endpoint);  // DEALER
void raw_listen(raw_peer *raw, const char *address); // ROUTER
void raw_done(raw_peer *raw);
/* Sends packed header and body (n = 0: none) through a DEALER. */
void raw_send(raw_peer *raw, const sc_comm_wire *wire, const void *body, size_t n);
/* Sends any bytes as one part. */
void raw_part(raw_peer *raw, const void *bytes, size_t n, bool is_more);
/* Receives one frame on a DEALER or ROUTER within ten seconds; the body is dropped. A ROUTER
   remembers who sent it. */
sc_comm_wire raw_recv(raw_peer *raw, bool is_router, void *id, size_t *id_bytes);
/* Answers through a ROUTER. */
void raw_answer(raw_peer *raw, const void *id, size_t id_bytes, const sc_comm_wire *wire);
/* Dials `endpoint`, which is rank `to`, as `rank` of `epoch` and waits for the welcome. */
void raw_greet(raw_peer *raw, const char *endpoint, uint64_t epoch, int rank, int to);

#endif
