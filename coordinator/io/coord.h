/*
 * coord - what the files of the coordinator's loop share: its state and its peers.
 *
 * coord_loop.c polls and owns everything; coord_peers.c sends and keeps the table of peers;
 * coord_handle.c reacts to messages; coord_act.c carries out the step loop's effects;
 * coord_swap.c keeps the job's schedules and changes them; coord_save.c keeps checkpoints;
 * coord_record.c and coord_picture.c write the run folder; coord_status.c tells how the job gets
 * on.
 */
#ifndef SC_COORDINATOR_IO_COORD_H
#define SC_COORDINATOR_IO_COORD_H

#include "coordinator/bubble.h"
#include "coordinator/clock.h"
#include "coordinator/io/coord_loop.h"
#include "coordinator/io/probe.h"
#include "coordinator/snapshot.h"
#include "coordinator/steploop.h"

#include <cjson/cJSON.h>

enum {
    SC_COORD_PEERS_MAX = 4096,
    SC_COORD_ID_MAX = 255,
    SC_COORD_SCHEDULES_MAX = 64,
    SC_COORD_NONE = -1
};

typedef enum sc_coord_peer_kind {
    SC_COORD_STRANGER,
    SC_COORD_WORKER,
    SC_COORD_CLIENT
} sc_coord_peer_kind;

/* Whoever sent a message: known by the routing id of its connection. */
typedef struct sc_coord_peer {
    bool is_used;
    sc_coord_peer_kind kind;
    unsigned char id[SC_COORD_ID_MAX];
    size_t n_id;
    int fd;           // descriptor of its connection, to match disconnect events
    bool is_watching; // client: wants PROGRESS and FINISHED
    uint64_t seq;     // of the messages we sent to it
    /* workers */
    int rank;     // SC_COORD_NONE before ASSIGN
    bool is_gone; // said BYE, was found out, or closed
    char host[64];
    char boot_id[64];
    char device[32];
    char isa[32];
    uint32_t pid;
    char liveness[64];
    char endpoint[128]; // of its data socket
    uint64_t planned_bytes;
    sc_clock clock; // its CLOCK_MONOTONIC against ours
    sc_probe probe;
} sc_coord_peer;

/* A step's numbers of one rank, until every rank reported it. */
typedef struct sc_coord_step {
    double loss_sum;
    uint64_t n_valid;
    double grad_norm;
    int64_t window_ns;
    sc_bubble_split split;
} sc_coord_step;

/* The latest step's spans of one rank, for the trace. */
typedef struct sc_coord_spans {
    sc_msg_span *spans;
    size_t n;
    size_t capacity;
    uint64_t step;
} sc_coord_spans;

/* A rank's memory as its reports tell it, over the run. */
typedef struct sc_coord_memory {
    uint64_t activation_peak_bytes;
    uint64_t n_allocs; // most allocations of the worker's own code in a step after the first
} sc_coord_memory;

/* A schedule that the job runs, has run or will swap to. */
typedef struct sc_coord_schedule {
    const sc_plan *plan;
    sc_plan *owned_plan;        // NULL for the job's first plan, which is the config's
    char **row_texts;           // (n_ranks) lowered row
    char **compute_texts;       // (n_ranks) compute actions, as REPORT.executed must read
    sc_bubble *bubble;          // over its steps; the first of each turn is a warm-up
    sc_coord_spans *last_spans; // (n_ranks)
    sc_coord_memory *memory;    // (n_ranks)
    int n_turns;
    uint64_t n_steps;
    uint64_t n_valid;           // tokens
    int64_t step_ns_sum;        // longest rank's windows
    sc_bubble_split last_split; // of the last step, mean over ranks
} sc_coord_schedule;

typedef struct sc_coord {
    sc_coord_config *config;
    const sc_job *job;
    const sc_plan *plan; // of the current schedule
    sc_coord_schedule schedules[SC_COORD_SCHEDULES_MAX];
    int n_schedules;
    sc_coord_schedule *cur;  // runs now
    sc_coord_schedule *next; // comes with the swap that waits; NULL: none
    uint64_t turn_start;     // first step of the current turn
    bool is_auto_done;       // schedule auto has chosen
    sc_arena arena;          // lives as long as the run
    sc_arena out_arena;      // of the message being sent
    sc_arena in_arena;       // of the message being handled
    uint64_t epoch;
    void *zmq;
    void *router;
    void *monitor;
    int signal_fd;
    sc_coord_peer *peers;   // (SC_COORD_PEERS_MAX); a worker's slot is its number everywhere
    int n_peers;            // slots ever used
    int *peer_of_rank;      // (n_ranks)
    int64_t *clock_offsets; // (n_ranks) added to a rank's clock to get ours
    int64_t *offsets;       // (n_ranks) scratch: the same as seen from one rank
    int64_t clock_error_ns; // largest error bound of them; 0 on one host, -1 while one is unknown
    char boot_id[64];       // of this host
    sc_membership *membership;
    sc_steploop steps;
    sc_snapshot saves;
    const char *checkpoint_path; // absolute; "": the job saves none
    sc_coord_step *step_numbers; // (SC_STEPLOOP_WINDOW)(n_ranks)
    double first_loss;
    double last_loss;
    bool is_over; // FINISH was acted on
    int64_t over_ns;
    sc_status status;
    sc_err err;
    char *summary; // text table, malloc
} sc_coord;

int64_t sc_coord_loop_now_ns(void);

/* coord_peers.c */
sc_coord_peer *sc_coord_peers_find(sc_coord *c, const unsigned char *id, size_t n_id);
/* NULL when the table is full. */
sc_coord_peer *sc_coord_peers_add(sc_coord *c, const unsigned char *id, size_t n_id);
void sc_coord_peers_drop(sc_coord *c, sc_coord_peer *peer);
int sc_coord_peers_index(const sc_coord *c, const sc_coord_peer *peer);
int sc_coord_peers_count_workers(const sc_coord *c);
/* Packs and sends; a peer that cannot be reached is left to membership. */
void sc_coord_peers_send(sc_coord *c, sc_coord_peer *peer, sc_msg *msg);
/* To every assigned worker that is not gone. */
void sc_coord_peers_send_workers(sc_coord *c, sc_msg *msg);
/* To every watching client. */
void sc_coord_peers_send_watchers(sc_coord *c, sc_msg *msg);

/* coord_handle.c: one message from a peer (NULL msg text errors are logged). */
void sc_coord_handle_message(sc_coord *c, const unsigned char *id, size_t n_id, int fd,
                             const sc_msg *msg);
void sc_coord_handle_disconnect(sc_coord *c, int fd);
void sc_coord_handle_membership(sc_coord *c, const sc_membership_effect *effect);

/* coord_act.c */
void sc_coord_act_all(sc_coord *c);
void sc_coord_act_progress(sc_coord *c, sc_coord_peer *only, double loss, double grad_norm,
                           double lr, double step_ns);

/* coord_status.c: what `stagecoach status` shows, as a JSON object; malloc, caller frees. "doing"
   has a text for each worker: who it is, what it does, when it was last heard. */
sc_status sc_coord_status_json(const sc_coord *c, int64_t now_ns, char **out, sc_err *err);

/* coord_swap.c */
/* Finds the schedule among those of the job or plans it; *out_p is valid for the run. */
sc_status sc_coord_swap_add(sc_coord *c, const char *name, const sc_plan_costs *costs,
                            sc_coord_schedule **out_p, sc_err *err);
/* Takes the job's first plan in. */
sc_status sc_coord_swap_open(sc_coord *c, sc_err *err);
void sc_coord_swap_close(sc_coord *c);
/* "swap NAME [STEP]": plans and queues it; text gets what will happen or why not. */
sc_status sc_coord_swap_request(sc_coord *c, const char *argument, char *text, size_t n);
/* The swap that waited begins: from here on `next` is current. */
void sc_coord_swap_enter(sc_coord *c);
/* After a step: --rotate's next turn, schedule auto's choice. */
sc_status sc_coord_swap_after_step(sc_coord *c, uint64_t step, sc_err *err);

/* coord_save.c: checkpoints */
sc_status sc_coord_save_open(sc_coord *c, sc_err *err);
/* Removes what is not complete. */
void sc_coord_save_close(sc_coord *c);
/* True when a checkpoint follows the update of `step`; its folder is there then. */
bool sc_coord_save_begin(sc_coord *c, uint64_t step);
/* A worker reports its part. */
sc_status sc_coord_save_take(sc_coord *c, const sc_coord_peer *peer, const sc_msg_saved *msg,
                             sc_err *err);
/* Commits or drops what every rank has reported; after the step's numbers are recorded, so that
   metrics reach as far as the newest checkpoint. True when there was something. */
bool sc_coord_save_act(sc_coord *c);
/* "resumed" and "checkpoints" into a summary or status; false when out of memory. */
bool sc_coord_save_add_json(const sc_coord *c, cJSON *object);
/* The same as lines of text; "" when there is nothing to say. */
void sc_coord_save_format(const sc_coord *c, char *out, size_t n);

/* coord_record.c */
sc_status sc_coord_record_start(sc_coord *c, sc_err *err);
sc_status sc_coord_record_workers(sc_coord *c, sc_err *err);
sc_status sc_coord_record_step(sc_coord *c, uint64_t step, double lr, sc_err *err);
/* Summary, trace and timeline; fills c->summary. */
sc_status sc_coord_record_end(sc_coord *c, sc_err *err);

/* coord_picture.c: trace.json and timeline.svg of the latest whole step; result may be NULL (too
 * few steps). */
sc_status sc_coord_picture_write(sc_coord *c, const sc_coord_schedule *sched,
                                 const sc_bubble_result *result, sc_err *err);

#endif
