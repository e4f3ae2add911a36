/*
 * epoch - one plan epoch on a worker: from ASSIGN to the last REPORT.
 *
 * epoch.c makes and closes it; epoch_setup.c allocates on the compute thread; epoch_action.c runs
 * one action there; epoch_step.c drives the executor, the compute thread and the transport;
 * epoch_tail.c ends a step: tied embeddings, gradient norm, optimizer, report. epoch_save.c copies
 * what a checkpoint needs behind the optimizer and has it written.
 *
 * Owns:     everything that lives as long as the plan: executor, slices, optimizer, buffers,
 * transport. Threads:  the loop thread calls everything here; what runs on the compute thread says
 * so and is ordered by the compute queue, so nothing is locked.
 */
#ifndef SC_STAGE_IO_EPOCH_H
#define SC_STAGE_IO_EPOCH_H

#include "proto/messages.h"
#include "stage/batch.h"
#include "stage/comm/comm.h"
#include "stage/executor.h"
#include "stage/io/compute.h"
#include "stage/io/dataset.h"
#include "stage/io/shard.h"
#include "stage/optim/gradnorm.h"
#include "stage/slice.h"

enum {
    SC_EPOCH_TRAILER_BYTES = 64, // behind every message: a digest of its samples, checked on use
    SC_EPOCH_STEPS_AHEAD = 4     // STEP messages waiting; the coordinator issues two ahead
};

typedef enum sc_epoch_state {
    SC_EPOCH_SETUP, // until memory is there and the transport is connected
    SC_EPOCH_IDLE,  // ready, no step under way
    SC_EPOCH_ROW,   // the executor walks its row
    SC_EPOCH_TAIL   // the row is done: reductions, optimizer
} sc_epoch_state;

/* Kinds of compute tasks. */
typedef enum sc_epoch_task {
    SC_EPOCH_TASK_SETUP,
    SC_EPOCH_TASK_UNPACK,
    SC_EPOCH_TASK_ACTION,
    SC_EPOCH_TASK_MERGE,
    SC_EPOCH_TASK_SUMS,
    SC_EPOCH_TASK_SAVE_GRADIENTS,
    SC_EPOCH_TASK_UPDATE,
    SC_EPOCH_TASK_COPY,
    SC_EPOCH_TASK_SAVE_WEIGHTS,
    SC_EPOCH_TASK_CLOSE
} sc_epoch_task;

/* Where the tail stands; phases that a rank has nothing to do in are passed through. */
typedef enum sc_epoch_tail_phase {
    SC_TAIL_MERGE,
    SC_TAIL_REDUCE,
    SC_TAIL_SUMS,
    SC_TAIL_GATHER,
    SC_TAIL_SAVE_GRADIENTS,
    SC_TAIL_UPDATE,
    SC_TAIL_COPY, // for a checkpoint
    SC_TAIL_SAVE_WEIGHTS,
    SC_TAIL_DONE
} sc_epoch_tail_phase;

/* What outlives a plan epoch: a swap hands it from the old epoch to the new one. */
typedef struct sc_epoch_base {
    int n_users;            // epochs that hold it; the last one frees it
    atomic_bool is_aborted; // seen by slices
    sc_model_spec spec;
    sc_registry *registry; // NULL when paced
    sc_backend *backend;
    sc_dataset *dataset; // NULL when paced
} sc_epoch_base;

/* State that goes to or comes from one other rank when a new plan places stages elsewhere. */
typedef struct sc_epoch_move {
    int peer;
    bool is_send;
    size_t bytes;
    void *buffer;
} sc_epoch_move;

typedef struct sc_epoch_tail {
    sc_epoch_tail_phase phase;
    int tied_group;    // comm group of the tied embedding, -1 when it does not cross ranks
    double *record;    // (record_len) this rank's sums, losses, counts
    double *gathered;  // (n_ranks, record_len)
    double *sums;      // (n_ranks, n_params of the registry), the records' first parts
    size_t record_len; // doubles
    double loss_sum;
    int64_t n_valid;
    double grad_norm;
    float grad_scale;
    int64_t row_end_ns;    // when the tail began
    int64_t reduce_end_ns; // when every rank's sums were here
    int64_t call_ns;       // when the group operation under way was called
    int64_t wait_ns;       // for slower ranks to call theirs
    int64_t optimizer_ns;
} sc_epoch_tail;

/* A rank's checkpoints. */
typedef struct sc_epoch_save {
    sc_shard *shard;      // NULL when the job saves none
    bool is_waiting;      // the copy waits for the write before
    int64_t wait_from_ns; // since
    int64_t wait_ns;
    bool is_ended; // a write has, and is not told yet
    sc_msg_saved saved;
} sc_epoch_save;

typedef struct sc_epoch {
    sc_arena arena;       // owns `assign` and the compiled plan
    sc_msg_assign assign; // as received
    sc_epoch_state state;
    sc_compute *compute; // borrowed
    sc_epoch_base *base;
    struct sc_epoch *old; // the epoch before, idle, until its state has moved here; NULL otherwise
    sc_table *table;
    sc_executor *ex;
    bool is_paced;
    bool is_one_host;  // all ranks share a clock
    sc_slice **slices; // (n_stages), NULL where another rank hosts the stage
    sc_optim *optim;
    sc_gradnorm gradnorm;
    sc_batch_plan batch;
    sc_recompute recompute; // its list is the arena's
    size_t message_bytes;   // payload, without the trailer
    void ***buffers;        // (n_edges)(n_slots)
    sc_comm *comm;          // NULL when this is the only rank
    sc_epoch_move *moves; // (n_moves); move i uses the channel behind the remote edges and i others
    int n_moves;
    int n_moves_left;
    bool is_moving;
    bool is_moved;
    bool is_connected;
    bool is_set_up;
    bool is_ready_told;
    /* scratch of the one action that runs; compute thread */
    uint64_t *samples; // (B)
    int32_t *tokens;   // (B,T)
    int32_t *targets;  // (B,T)
    /* of the current step; written by the compute thread, read by the loop after the action's
     * result */
    sc_msg_step step;
    float loss_scale;
    double *losses;     // (n_mb) of the last stage
    int64_t *valid;     // (n_mb)
    int64_t *weight_ns; // (n_actions)
    char *executed;     // compute actions as they ran
    size_t n_executed;
    size_t activation_peak;
    sc_epoch_tail tail;
    sc_epoch_save save;
    sc_msg_span *spans; // (n_actions) of the report
    int64_t window_start_ns;
    int64_t row_cpu_ns;      // loop thread's CPU time while it walked the row
    int64_t cpu_start_ns;    // loop thread's CPU clock at the step's begin
    uint64_t allocs_start;   // our allocations before the window, which is the same as for time
    uint64_t n_actions_done; // in all: progress for heartbeats
    int64_t current_since_ns;
    /* STEPs received ahead */
    sc_msg_step queue[SC_EPOCH_STEPS_AHEAD];
    int n_queued;
    int n_tasks; // on the compute thread
    /* paced: messages that have come but count as under way until their latency is over */
    sc_comm_event *held; // (n_held_max)
    int n_held;
    int n_held_max;
    sc_err err; // the first error; set = the epoch has failed
} sc_epoch;

/* What the loop must tell the coordinator after a call. */
typedef enum sc_epoch_news {
    SC_EPOCH_NOTHING,
    SC_EPOCH_READY,
    SC_EPOCH_REPORT,
    SC_EPOCH_SAVED, // epoch->save.saved
    SC_EPOCH_FAILED
} sc_epoch_news;

/* Takes over the arena that holds *assign (the caller's is emptied), compiles the row, opens data
   and transport and queues the setup. comm->endpoint goes into BOUND. bind_address is the
   transport's. `old` is an idle epoch whose weights go on, or NULL; on success it belongs to the
   new one. */
sc_status sc_epoch_new(sc_arena *arena, const sc_msg_assign *assign, sc_compute *compute,
                       const char *bind_address, sc_epoch *old, sc_epoch **out, sc_err *err);
/* Aborts what runs, waits for the compute thread to let go, frees everything, nulls. */
void sc_epoch_free(sc_epoch **epoch);

/* epoch_setup.c: tasks of the compute thread that make and free its objects. */
sc_status sc_epoch_setup_run(void *ctx, uint64_t arg, sc_err *err);
sc_status sc_epoch_setup_close(void *ctx, uint64_t arg, sc_err *err);
/* Bytes that the setup allocated, for READY. */
void sc_epoch_setup_bytes(const sc_epoch *ep, sc_msg_ready *out);

/* epoch_move.c. Lists what this rank sends and receives; before the transport is opened. */
sc_status sc_epoch_move_list(sc_epoch *ep, sc_err *err);
/* Compute thread: copies what stays on this rank and packs what leaves it. */
sc_status sc_epoch_move_pack(sc_epoch *ep, sc_err *err);
/* Starts the transfers, once connected. */
sc_status sc_epoch_move_start(sc_epoch *ep, sc_err *err);
/* Compute thread: puts what came where it belongs and frees the buffers. */
sc_status sc_epoch_move_unpack(void *ctx, uint64_t arg, sc_err *err);
/* The rank that answers for a parameter: of the first stage that holds it. */
uint32_t sc_epoch_move_owner(const sc_epoch *ep, int param);
/* Further entries of one parameter get the first one's weights. */
void sc_epoch_move_copy_ties(sc_optim *optim);

/* epoch_save.c */
/* Compute thread, in the setup: reads the checkpoint that the assignment names, and makes room for
   those that will be saved. */
sc_status sc_epoch_save_setup(sc_epoch *ep, sc_err *err);
/* Readable when a write has ended; -1 when none will. */
int sc_epoch_save_fd(const sc_epoch *ep);
/* Starts the copy, or has it wait for the write before. */
void sc_epoch_save_copy(sc_epoch *ep);
/* The copy is done: has it written. */
void sc_epoch_save_write(sc_epoch *ep, int64_t copy_ns);
/* Takes the end of a write, and starts the copy that waits for it. */
void sc_epoch_save_take(sc_epoch *ep);

/* epoch_action.c: task of the compute thread; arg is the action's index. */
sc_status sc_epoch_action_run(void *ctx, uint64_t index, sc_err *err);

/* epoch_step.c */
/* Connects to the peers. */
sc_status sc_epoch_step_connect(sc_epoch *ep, const sc_msg_connect *connect, sc_err *err);
/* Queues a STEP. */
sc_status sc_epoch_step_queue(sc_epoch *ep, const sc_msg_step *step, sc_err *err);
/* Takes events of the compute thread and the transport and does what follows; call until it returns
   SC_EPOCH_NOTHING. */
sc_epoch_news sc_epoch_step_pump(sc_epoch *ep);
/* CLOCK_MONOTONIC time at which pump must be called again even without an event; 0: none. */
int64_t sc_epoch_step_deadline(const sc_epoch *ep);
/* What runs now, for heartbeats: text of the current action into out, "" when there is none. */
void sc_epoch_step_current(const sc_epoch *ep, char *out, size_t n, int *waits_for_p);
/* Queues work on the compute thread. */
void sc_epoch_step_push(sc_epoch *ep, sc_epoch_task kind, uint64_t arg,
                        sc_status (*fn)(void *ctx, uint64_t arg, sc_err *err));

/* epoch_tail.c */
/* Allocates the record that every rank contributes; before the transport is opened. */
sc_status sc_epoch_tail_init(sc_epoch *ep, sc_err *err);
void sc_epoch_tail_begin(sc_epoch *ep, int64_t now_ns);
/* The group operation that runs ended; last_call_ns: when the slowest member called it. */
void sc_epoch_tail_waited(sc_epoch *ep, int64_t last_call_ns);
/* A tail task or group operation of the current phase is done. */
sc_status sc_epoch_tail_advance(sc_epoch *ep, int64_t start_ns, int64_t end_ns, sc_err *err);
/* Fills the report of the step that just ended; borrowed from the epoch until the next step. */
void sc_epoch_tail_report(sc_epoch *ep, sc_msg_report *out);

#endif
