#include "proto/fieldmap.h"

#include "base/status.h"

#include "stagecoach.pb-c.h"

// Every line of a table names a field of the struct MESSAGE, which is set before each table.
#define PLACE(field) \
    .name = #field, .offset = offsetof(MESSAGE, field), .size = sizeof(((MESSAGE *)0)->field)
#define INT(field, lo, hi) \
    { \
        PLACE(field), .kind = SC_FIELD_INT, .min = (lo), .max = (hi) \
    }
#define ANY(field) \
    { \
        PLACE(field), .kind = SC_FIELD_ANY \
    }
#define REAL(field) \
    { \
        PLACE(field), .kind = SC_FIELD_REAL \
    }
#define TEXT(field) \
    { \
        PLACE(field), .kind = SC_FIELD_TEXT, .max = SC_FIELDMAP_TEXT_MAX \
    }
#define LONG_TEXT(field) \
    { \
        PLACE(field), .kind = SC_FIELD_TEXT, .max = SC_FIELDMAP_LONG_TEXT_MAX \
    }
#define TEXTS(field, n_field, hi) \
    { \
        PLACE(field), .kind = SC_FIELD_TEXTS, .n_offset = offsetof(MESSAGE, n_field), .max = (hi) \
    }
#define SUB(field, sub) \
    { \
        PLACE(field), .kind = SC_FIELD_SUB, .map = &(sub) \
    }
// sizeof of the field would do, but looks like a slip to clang-tidy where it points to a struct
#define LIST_PLACE(field) .name = #field, .offset = offsetof(MESSAGE, field), .size = sizeof(void *)
#define LIST(field, n_field, hi, sub) \
    { \
        LIST_PLACE(field), .kind = SC_FIELD_LIST, .n_offset = offsetof(MESSAGE, n_field), \
                           .max = (hi), .map = &(sub) \
    }

// COUNT and COUNT64 become int and int64_t in the programs, so no sign can turn over there.
#define COUNT(field) INT(field, 0, INT32_MAX)
#define COUNT64(field) INT(field, 0, INT64_MAX)
#define TIME(field) INT(field, 0, INT64_MAX)
#define FLAG(field) INT(field, 0, 1)
#define RANK(field) INT(field, 0, SC_FIELDMAP_RANKS_MAX - 1)
#define STAGE(field) INT(field, 0, SC_FIELDMAP_STAGES_MAX - 1)
#define STATUS(field) INT(field, 0, SC_STATUS_COUNT - 1)

#define MAP(text, table, descriptor) \
    { \
        .name = (text), .wire = &(descriptor), .size = sizeof(MESSAGE), \
        .n_fields = sizeof(table) / sizeof(table)[0], .fields = (table) \
    }

#define MESSAGE sc_msg_stage
static const sc_field STAGE_FIELDS[] = {
    STAGE(stage),    RANK(rank),      COUNT(block_begin), COUNT(block_end),
    FLAG(has_embed), FLAG(has_head),  COUNT(n_act_slots), COUNT(n_keep_slots),
    TIME(pace_f_ns), TIME(pace_i_ns), TIME(pace_w_ns),
};
static const sc_fieldmap STAGE_MAP = MAP("stage", STAGE_FIELDS, stagecoach__stage__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_model
static const sc_field MODEL_FIELDS[] = {
    COUNT(n_layer),           COUNT(n_head),           COUNT(n_embd),
    COUNT(n_inner),           COUNT(vocab_size),       COUNT(n_positions),
    REAL(layer_norm_epsilon), REAL(initializer_range), FLAG(tie_word_embeddings),
};
static const sc_fieldmap MODEL_MAP = MAP("model", MODEL_FIELDS, stagecoach__model__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_optimizer
static const sc_field OPTIMIZER_FIELDS[] = {
    TEXT(name), REAL(beta1), REAL(beta2), REAL(epsilon), REAL(weight_decay), REAL(grad_clip),
};
static const sc_fieldmap OPTIMIZER_MAP =
    MAP("optimizer", OPTIMIZER_FIELDS, stagecoach__optimizer__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_span
static const sc_field SPAN_FIELDS[] = {
    INT(op, 0, SC_FIELDMAP_OPS_MAX - 1),
    STAGE(stage),
    INT(mb, -1, SC_FIELDMAP_MICROBATCHES_MAX - 1),
    TIME(start_ns),
    TIME(end_ns),
    TIME(weight_ns),
    TIME(sent_ready_ns),
    TIME(posted_ns),
    TIME(arrived_ns),
};
static const sc_fieldmap SPAN_MAP = MAP("span", SPAN_FIELDS, stagecoach__span__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_hello
static const sc_field HELLO_FIELDS[] = {
    TEXT(program_version), TEXT(host), TEXT(boot_id), COUNT(pid),
    TEXT(device),          TEXT(isa),  TIME(now_ns),  TEXT(probe),
};
static const sc_fieldmap HELLO_MAP = MAP("hello", HELLO_FIELDS, stagecoach__hello__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_welcome
static const sc_field WELCOME_FIELDS[] = {COUNT(worker), TEXT(job_name), TIME(sent_ns)};
static const sc_fieldmap WELCOME_MAP =
    MAP("welcome", WELCOME_FIELDS, stagecoach__welcome__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_assign
static const sc_field ASSIGN_FIELDS[] = {
    COUNT64(epoch),
    RANK(rank),
    INT(n_ranks, 1, SC_FIELDMAP_RANKS_MAX),
    INT(n_mb, 1, SC_FIELDMAP_MICROBATCHES_MAX),
    COUNT(micro_batch_size),
    COUNT(global_batch_size),
    COUNT(sequence_length),
    ANY(seed),
    COUNT(threads),
    TEXT(isa_max),
    TEXT(slice),
    TEXT(data_path),
    TEXT(data_format),
    SUB(model, MODEL_MAP),
    SUB(optimizer, OPTIMIZER_MAP),
    LIST(stages, n_stages, SC_FIELDMAP_STAGES_MAX, STAGE_MAP),
    LONG_TEXT(row),
    TIME(pace_comm_ns),
    TEXT(bind_address),
    TEXT(weights_path),
    TEXT(gradients_path),
    COUNT(n_message_slots),
    COUNT64(inherit_epoch),
    TEXT(checkpoint_path),
    TEXT(resume_path),
    COUNT64(start_step),
    TEXT(recompute),
};
static const sc_fieldmap ASSIGN_MAP = MAP("assign", ASSIGN_FIELDS, stagecoach__assign__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_bound
static const sc_field BOUND_FIELDS[] = {COUNT64(epoch), TEXT(endpoint)};
static const sc_fieldmap BOUND_MAP = MAP("bound", BOUND_FIELDS, stagecoach__bound__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_connect
static const sc_field CONNECT_FIELDS[] = {
    COUNT64(epoch),
    TEXTS(endpoints, n_endpoints, SC_FIELDMAP_RANKS_MAX),
};
static const sc_fieldmap CONNECT_MAP =
    MAP("connect", CONNECT_FIELDS, stagecoach__connect__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_ready
static const sc_field READY_FIELDS[] = {
    COUNT64(epoch),
    COUNT64(param_bytes),
    COUNT64(activation_bytes),
    COUNT64(total_bytes),
};
static const sc_fieldmap READY_MAP = MAP("ready", READY_FIELDS, stagecoach__ready__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_step
static const sc_field STEP_FIELDS[] = {COUNT64(epoch), COUNT64(step), ANY(lr_bits),
                                       FLAG(is_last),  TIME(sent_ns), FLAG(should_save)};
static const sc_fieldmap STEP_MAP = MAP("step", STEP_FIELDS, stagecoach__step__descriptor);
#undef MESSAGE

// loss and norm may be NaN here and in PROGRESS: a run that diverged must be able to say so
#define MESSAGE sc_msg_report
static const sc_field REPORT_FIELDS[] = {
    COUNT64(epoch),
    COUNT64(step),
    RANK(rank),
    ANY(loss_sum),
    COUNT64(n_valid),
    ANY(grad_norm),
    TIME(window_start_ns),
    TIME(row_end_ns),
    TIME(reduce_ns),
    TIME(tail_wait_ns),
    TIME(optimizer_ns),
    TIME(window_end_ns),
    COUNT64(activation_peak_bytes),
    COUNT64(executor_cpu_ns),
    COUNT64(n_allocs),
    LONG_TEXT(executed),
    LIST(spans, n_spans, SC_FIELDMAP_SPANS_MAX, SPAN_MAP),
};
static const sc_fieldmap REPORT_MAP = MAP("report", REPORT_FIELDS, stagecoach__report__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_heartbeat
static const sc_field HEARTBEAT_FIELDS[] = {
    COUNT64(epoch),     COUNT64(step),          TEXT(state),
    TEXT(action),       FLAG(is_waiting),       RANK(peer),
    TIME(since_ns),     TIME(now_ns),           COUNT64(n_done),
    TIME(echo_sent_ns), TIME(echo_received_ns),
};
static const sc_fieldmap HEARTBEAT_MAP =
    MAP("heartbeat", HEARTBEAT_FIELDS, stagecoach__heartbeat__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_fail
static const sc_field FAIL_FIELDS[] = {
    COUNT64(epoch), COUNT64(step), STATUS(status), TEXT(text), TEXT(action),
};
static const sc_fieldmap FAIL_MAP = MAP("fail", FAIL_FIELDS, stagecoach__fail__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_abort
static const sc_field ABORT_FIELDS[] = {COUNT64(epoch), TEXT(reason)};
static const sc_fieldmap ABORT_MAP = MAP("abort", ABORT_FIELDS, stagecoach__abort__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_stop
static const sc_field STOP_FIELDS[] = {STATUS(status), TEXT(reason)};
static const sc_fieldmap STOP_MAP = MAP("stop", STOP_FIELDS, stagecoach__stop__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_bye
static const sc_field BYE_FIELDS[] = {COUNT(worker)};
static const sc_fieldmap BYE_MAP = MAP("bye", BYE_FIELDS, stagecoach__bye__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_watch
static const sc_field WATCH_FIELDS[] = {TEXT(program_version)};
static const sc_fieldmap WATCH_MAP = MAP("watch", WATCH_FIELDS, stagecoach__watch__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_progress
static const sc_field PROGRESS_FIELDS[] = {
    TEXT(phase),    COUNT(n_workers), COUNT(n_workers_needed),
    COUNT64(step),  COUNT64(n_steps), ANY(loss),
    ANY(grad_norm), REAL(lr),         REAL(tokens_per_second),
    REAL(step_ms),
};
static const sc_fieldmap PROGRESS_MAP =
    MAP("progress", PROGRESS_FIELDS, stagecoach__progress__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_finished
static const sc_field FINISHED_FIELDS[] = {
    STATUS(status),
    TEXT(text),
    LONG_TEXT(summary),
    TEXT(run_dir),
};
static const sc_fieldmap FINISHED_MAP =
    MAP("finished", FINISHED_FIELDS, stagecoach__finished__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_control
static const sc_field CONTROL_FIELDS[] = {TEXT(verb), TEXT(argument)};
static const sc_fieldmap CONTROL_MAP =
    MAP("control", CONTROL_FIELDS, stagecoach__control__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_reply
static const sc_field REPLY_FIELDS[] = {STATUS(status), LONG_TEXT(text)};
static const sc_fieldmap REPLY_MAP = MAP("reply", REPLY_FIELDS, stagecoach__reply__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_tensor
static const sc_field TENSOR_FIELDS[] = {
    TEXT(name),      INT(n_dims, 0, SC_FIELDMAP_DIMS_MAX),
    COUNT64(rows),   COUNT64(columns),
    COUNT64(offset), COUNT64(n_bytes),
    ANY(checksum),
};
static const sc_fieldmap TENSOR_MAP = MAP("tensor", TENSOR_FIELDS, stagecoach__tensor__descriptor);
#undef MESSAGE

#define MESSAGE sc_msg_saved
static const sc_field SAVED_FIELDS[] = {
    COUNT64(epoch),      COUNT64(step),
    RANK(rank),          STATUS(status),
    TEXT(text),          TEXT(file),
    COUNT64(file_bytes), LIST(tensors, n_tensors, SC_FIELDMAP_TENSORS_MAX, TENSOR_MAP),
    TIME(wait_ns),       TIME(copy_ns),
    TIME(write_ns),
};
static const sc_fieldmap SAVED_MAP = MAP("saved", SAVED_FIELDS, stagecoach__saved__descriptor);
#undef MESSAGE

const sc_fieldmap *sc_fieldmap_get(unsigned type)
{
#define MAP_CASE(name) \
    case SC_MSG_##name: \
        return &name##_MAP;
    switch (type) {
        SC_MSG_MAP(MAP_CASE)
    default:
        return NULL;
    }
#undef MAP_CASE
}
