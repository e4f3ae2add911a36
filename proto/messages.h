/*
 * messages - the control plane's messages as plain structs; codec packs and unpacks them.
 *
 * Strings and arrays of an unpacked message live in the arena given to sc_codec_unpack. Absent
 * strings are "". stagecoach.proto holds the same fields; docs/wire.md says who sends what when.
 */
#ifndef SC_PROTO_MESSAGES_H
#define SC_PROTO_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SC_PROTO_VERSION = 1
};

/* name; the wire number is the position, so new ones go last */
#define SC_MSG_MAP(X) \
    X(HELLO) \
    X(WELCOME) \
    X(ASSIGN) \
    X(BOUND) \
    X(CONNECT) \
    X(READY) \
    X(STEP) \
    X(REPORT) \
    X(HEARTBEAT) \
    X(FAIL) \
    X(ABORT) \
    X(STOP) \
    X(BYE) \
    X(WATCH) \
    X(PROGRESS) \
    X(FINISHED) \
    X(CONTROL) \
    X(REPLY) \
    X(SAVED)

#define SC_MSG_ENUM(name) SC_MSG_##name,
typedef enum sc_msg_type {
    SC_MSG_NONE,
    SC_MSG_MAP(SC_MSG_ENUM) SC_MSG_COUNT
} sc_msg_type;
#undef SC_MSG_ENUM

/* worker -> coordinator: first message of a connection */
typedef struct sc_msg_hello {
    const char *program_version;
    const char *host;
    const char *boot_id; // same boot id = same clock
    uint32_t pid;
    const char *device; // "cpu:0": claimed; two workers with the same host and device are refused
    const char *isa;
    int64_t now_ns;    // sender's CLOCK_MONOTONIC
    const char *probe; // "host:port" of the liveness socket
} sc_msg_hello;

/* coordinator -> worker: accepted; wait for an assignment */
typedef struct sc_msg_welcome {
    uint32_t worker; // number of this worker, for logs
    const char *job_name;
    int64_t sent_ns; // coordinator's CLOCK_MONOTONIC; comes back in heartbeats
} sc_msg_welcome;

typedef struct sc_msg_stage {
    uint32_t stage;
    uint32_t rank;
    uint32_t block_begin;
    uint32_t block_end;
    bool has_embed;
    bool has_head;
    uint32_t n_act_slots;
    uint32_t n_keep_slots;
    int64_t pace_f_ns;
    int64_t pace_i_ns;
    int64_t pace_w_ns;
} sc_msg_stage;

typedef struct sc_msg_model {
    uint32_t n_layer;
    uint32_t n_head;
    uint32_t n_embd;
    uint32_t n_inner;
    uint32_t vocab_size;
    uint32_t n_positions;
    double layer_norm_epsilon;
    double initializer_range;
    bool tie_word_embeddings;
} sc_msg_model;

typedef struct sc_msg_optimizer {
    const char *name; // "adamw" or "sgd"
    float beta1;
    float beta2;
    float epsilon;
    float weight_decay;
    float grad_clip; // 0: none
} sc_msg_optimizer;

/* coordinator -> worker: a plan epoch */
typedef struct sc_msg_assign {
    uint64_t epoch;
    uint32_t rank;
    uint32_t n_ranks;
    uint32_t n_mb;
    uint32_t micro_batch_size;
    uint32_t global_batch_size; // samples
    uint32_t sequence_length;
    uint64_t seed;
    uint32_t threads;
    const char *isa_max; // the lowest of the fleet
    const char *slice;   // "layers" or "paced"
    const char *data_path;
    const char *data_format; // "auto", "llmc" or "raw16"
    sc_msg_model model;
    sc_msg_optimizer optimizer;
    const sc_msg_stage *stages; // (n_stages), all stages of the job
    size_t n_stages;
    const char *row;             // this rank's lowered row, text form
    int64_t pace_comm_ns;        // paced: latency of an edge
    const char *bind_address;    // for the data plane
    const char *weights_path;    // folder for the final weights, "" for none
    const char *gradients_path;  // folder for the gradients of step 0, "" for none
    uint32_t n_message_slots;    // message buffers of each edge
    uint64_t inherit_epoch;      // the epoch whose weights go on; 0: initial ones
    const char *checkpoint_path; // folder of the run's checkpoints, "" when none will be saved
    const char *resume_path;     // checkpoint to begin with, "" for initial weights
    uint64_t start_step;         // the first step; with resume_path the checkpoint's
    const char *recompute;       // "none", "selective", "full" or blocks: "0,3,4"
} sc_msg_assign;

/* worker -> coordinator: the data socket is bound */
typedef struct sc_msg_bound {
    uint64_t epoch;
    const char *endpoint;
} sc_msg_bound;

/* coordinator -> worker: everybody's endpoints */
typedef struct sc_msg_connect {
    uint64_t epoch;
    const char *const *endpoints; // (n_endpoints) by rank
    size_t n_endpoints;
} sc_msg_connect;

/* worker -> coordinator: channels are connected, memory is allocated and touched */
typedef struct sc_msg_ready {
    uint64_t epoch;
    uint64_t param_bytes;
    uint64_t activation_bytes; // allocated for activation slots
    uint64_t total_bytes;
} sc_msg_ready;

/* coordinator -> worker: execute one step */
typedef struct sc_msg_step {
    uint64_t epoch;
    uint64_t step;    // 0-based
    uint32_t lr_bits; // the float's bits: learning rates are computed once
    bool is_last;     // write final weights after it
    int64_t sent_ns;  // coordinator's CLOCK_MONOTONIC; comes back in heartbeats
    bool should_save; // write a checkpoint after its update
} sc_msg_step;

/* One executed action. recv times are 0 where nothing was received for it. */
typedef struct sc_msg_span {
    uint32_t op; // sc_op
    uint32_t stage;
    int32_t mb;
    int64_t start_ns;
    int64_t end_ns;
    int64_t weight_ns;     // B: the part of it that computed weight gradients
    int64_t sent_ready_ns; // of its last input, on the sender's clock
    int64_t posted_ns;
    int64_t arrived_ns;
} sc_msg_span;

/* worker -> coordinator: a step is done */
typedef struct sc_msg_report {
    uint64_t epoch;
    uint64_t step;
    uint32_t rank;
    double loss_sum; // of the global batch, in microbatch order; every rank has it
    uint64_t n_valid;
    double grad_norm;
    int64_t window_start_ns; // tail end of the step before (or Ready for the first)
    int64_t row_end_ns;      // last compute action's end
    int64_t reduce_ns;       // tail: tied embeddings and norm, without tail_wait_ns
    int64_t tail_wait_ns;    // tail: for slower ranks to come to the reductions
    int64_t optimizer_ns;    // tail
    int64_t window_end_ns;   // tail end of this step
    uint64_t activation_peak_bytes;
    uint64_t executor_cpu_ns; // loop thread's CPU time while it walked the row
    uint64_t n_allocs;        // our allocations in the window: must be 0 after the first step
    const char *executed; // text of the compute actions in executed order, from where they execute
    const sc_msg_span *spans;
    size_t n_spans;
} sc_msg_report;

/* worker -> coordinator, every 200 ms */
typedef struct sc_msg_heartbeat {
    uint64_t epoch;
    uint64_t step;
    const char *state;  // "idle", "setup", "step", "tail", "saving"
    const char *action; // current or next action, "" when idle
    bool is_waiting;    // it waits for a message, or for one to be taken
    uint32_t peer;      // rank it waits for
    int64_t since_ns;   // the action is current since
    int64_t now_ns;     // worker's clock
    uint64_t n_done;    // actions done in all: progress
    int64_t
        echo_sent_ns; // sent_ns of the last WELCOME or STEP: with now_ns, what aligns the clocks
    int64_t echo_received_ns; // when it came, on the worker's clock
} sc_msg_heartbeat;

/* worker -> coordinator: this worker cannot go on */
typedef struct sc_msg_fail {
    uint64_t epoch;
    uint64_t step;
    uint32_t status; // sc_status
    const char *text;
    const char *action;
} sc_msg_fail;

/* coordinator -> worker: leave the epoch, back to idle */
typedef struct sc_msg_abort {
    uint64_t epoch;
    const char *reason;
} sc_msg_abort;

/* coordinator -> worker: exit; status 0 for a finished job */
typedef struct sc_msg_stop {
    uint32_t status;
    const char *reason;
} sc_msg_stop;

/* worker -> coordinator: last message before it closes */
typedef struct sc_msg_bye {
    uint32_t worker;
} sc_msg_bye;

/* client -> coordinator: send me PROGRESS and FINISHED */
typedef struct sc_msg_watch {
    const char *program_version;
} sc_msg_watch;

/* coordinator -> client, once a phase and once a step */
typedef struct sc_msg_progress {
    const char *phase; // "waiting", "starting", "training"
    uint32_t n_workers;
    uint32_t n_workers_needed;
    uint64_t step;    // steps done
    uint64_t n_steps; // in all
    double loss;
    double grad_norm;
    double lr;
    double tokens_per_second;
    double step_ms;
} sc_msg_progress;

/* coordinator -> client: the job is over */
typedef struct sc_msg_finished {
    uint32_t status;     // sc_status
    const char *text;    // error, or "" when ok
    const char *summary; // text table to print
    const char *run_dir;
} sc_msg_finished;

/* client -> coordinator: "status", "swap" or "stop" */
typedef struct sc_msg_control {
    const char *verb;
    const char *argument;
} sc_msg_control;

/* coordinator -> client */
typedef struct sc_msg_reply {
    uint32_t status;
    const char *text;
} sc_msg_reply;

/* One tensor of a rank's checkpoint file, whole. */
typedef struct sc_msg_tensor {
    const char *name;
    uint32_t n_dims;
    int64_t rows;    // shape[0]
    int64_t columns; // shape[1], 0 when n_dims is 1
    uint64_t offset; // of its first byte in the file
    uint64_t n_bytes;
    uint64_t checksum; // sc_checksum of them
} sc_msg_tensor;

/* worker -> coordinator: its part of a checkpoint is written and synced, or is not */
typedef struct sc_msg_saved {
    uint64_t epoch;
    uint64_t step; // optimizer updates done
    uint32_t rank;
    uint32_t status;  // sc_status
    const char *text; // what went wrong
    const char *file; // name in the checkpoint's folder
    uint64_t file_bytes;
    const sc_msg_tensor *tensors; // (n_tensors) in file order
    size_t n_tensors;
    int64_t wait_ns;  // the step waited for the write before
    int64_t copy_ns;  // the step took for the copy
    int64_t write_ns; // beside the steps that followed
} sc_msg_saved;

typedef struct sc_msg {
    sc_msg_type type;
    uint64_t seq; // rising per sender
    union {
        sc_msg_hello hello;
        sc_msg_welcome welcome;
        sc_msg_assign assign;
        sc_msg_bound bound;
        sc_msg_connect connect;
        sc_msg_ready ready;
        sc_msg_step step;
        sc_msg_report report;
        sc_msg_heartbeat heartbeat;
        sc_msg_fail fail;
        sc_msg_abort abort;
        sc_msg_stop stop;
        sc_msg_bye bye;
        sc_msg_watch watch;
        sc_msg_progress progress;
        sc_msg_finished finished;
        sc_msg_control control;
        sc_msg_reply reply;
        sc_msg_saved saved;
    } u;
} sc_msg;

#endif
