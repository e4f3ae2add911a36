#include "coordinator/job_table.h"

#include "schedules/action.h"

#include <stddef.h>

#define AT(field) .offset = offsetof(sc_job, field)

enum {
    BATCH_MAX = 65536,
    STEPS_MAX = 1000000000,
    THREADS_MAX = 1024
};

#define COUNT_MAX 9007199254740991.0 // 2^53 - 1: the same in YAML, JSON and a double
#define MS_MAX 3600000.0
#define SECONDS_MAX 86400.0

const sc_job_key sc_job_table_rows[SC_JOB_TABLE_ROWS] = {
    {"name", SC_JOB_KEY_TEXT, SC_JOB_NEED_ALL, AT(name),
     .help = "names the run folder: 1 to 64 of A-Z a-z 0-9 . _ -"},
    {"device", SC_JOB_KEY_CHOICE, SC_JOB_NEED_NONE, AT(device), .choices = {"cpu", "paced"},
     .text = "cpu", .help = "cpu computes; paced sleeps for the times under paced"},
    {"schedule", SC_JOB_KEY_TEXT, SC_JOB_NEED_NONE, AT(schedule), .text = "1f1b",
     .help = "one of `stagecoach schedule list`, file:PATH.csv, or auto: measured, then chosen"},
    {"recompute", SC_JOB_KEY_CHOICE_OR_INTS, SC_JOB_NEED_NONE, AT(recompute.kind),
     .count_offset = offsetof(sc_job, recompute.n_blocks),
     .list_offset = offsetof(sc_job, recompute.blocks), .min = 0, .max = SC_SPEC_LAYERS_MAX - 1,
     .choices = {"none", "selective", "full"}, .text = "none",
     .help = "activations that the backward pass makes again, in all blocks or those of a list"},

    {"model.n_layer", SC_JOB_KEY_INT, SC_JOB_NEED_CPU, AT(model.n_layer), .min = 1,
     .max = SC_SPEC_LAYERS_MAX, .text = "12", .help = "transformer blocks"},
    {"model.n_head", SC_JOB_KEY_INT, SC_JOB_NEED_CPU, AT(model.n_head), .min = 1,
     .max = SC_SPEC_HEADS_MAX, .text = "12", .help = "attention heads; must divide n_embd"},
    {"model.n_embd", SC_JOB_KEY_INT, SC_JOB_NEED_CPU, AT(model.n_embd), .min = 1,
     .max = SC_SPEC_WIDTH_MAX, .text = "768", .help = "width"},
    {"model.n_inner", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(model.n_inner), .min = 0,
     .max = SC_SPEC_WIDTH_MAX, .text = "0", .help = "width of the MLP; 0: 4 n_embd"},
    {"model.vocab_size", SC_JOB_KEY_INT, SC_JOB_NEED_CPU, AT(model.vocab_size), .min = 1,
     .max = SC_SPEC_VOCAB_MAX, .text = "50257", .help = "every token must be below it"},
    {"model.n_positions", SC_JOB_KEY_INT, SC_JOB_NEED_CPU, AT(model.n_positions), .min = 1,
     .max = SC_SPEC_POSITIONS_MAX, .text = "1024", .help = "longest sequence"},
    {"model.layer_norm_epsilon", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(model.layer_norm_epsilon),
     .min = 0, .max = 1, .is_open_min = true, .text = "1e-5", .help = "added to the variance"},
    {"model.initializer_range", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(model.initializer_range),
     .min = 0, .max = 10, .text = "0.02", .help = "standard deviation of the initial weights"},
    {"model.tie_word_embeddings", SC_JOB_KEY_BOOL, SC_JOB_NEED_NONE, AT(model.tie_word_embeddings),
     .text = "true", .help = "the head is the token embedding"},

    {"parallel.pipeline_parallel", SC_JOB_KEY_INT, SC_JOB_NEED_ALL, AT(pipeline_parallel), .min = 1,
     .max = SC_STAGES_MAX, .help = "pipeline ranks: one worker each"},
    {"parallel.virtual_stages", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(virtual_stages), .min = 0,
     .max = SC_STAGES_MAX, .text = "0", .help = "stages a rank; 0: the schedule's own default"},
    {"parallel.layers_per_stage", SC_JOB_KEY_INTS, SC_JOB_NEED_NONE, AT(layers_per_stage),
     .count_offset = offsetof(sc_job, n_layers_per_stage), .min = 1, .max = SC_SPEC_LAYERS_MAX,
     .text = "[]", .help = "blocks of each stage, e.g. [4, 2]; []: split by cost"},

    {"schedule_options.group", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(schedule_group), .min = 0,
     .max = SC_MICROBATCHES_MAX, .text = "0",
     .help = "interleaved: microbatches that pass a stage in a row; 0: as many as ranks"},
    {"schedule_options.limit", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(schedule_limit), .min = 0,
     .max = SC_MICROBATCHES_MAX, .text = "0",
     .help = "zb-auto: most live microbatches a rank; 0: as many as ranks"},

    {"batch.micro_batch_size", SC_JOB_KEY_INT, SC_JOB_NEED_CPU, AT(micro_batch_size), .min = 1,
     .max = BATCH_MAX, .text = "1", .help = "samples of a microbatch"},
    {"batch.num_microbatches", SC_JOB_KEY_INT, SC_JOB_NEED_ALL, AT(num_microbatches), .min = 1,
     .max = SC_MICROBATCHES_MAX, .help = "microbatches of a step"},
    {"batch.sequence_length", SC_JOB_KEY_INT, SC_JOB_NEED_CPU, AT(sequence_length), .min = 1,
     .max = SC_SPEC_POSITIONS_MAX, .text = "1", .help = "tokens of a sample; at most n_positions"},

    {"optimizer.name", SC_JOB_KEY_CHOICE, SC_JOB_NEED_NONE, AT(optimizer),
     .choices = {"adamw", "sgd"}, .text = "adamw", .help = "update rule"},
    {"optimizer.lr", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(lr), .min = 0, .max = 1000,
     .text = "0.0003", .help = "learning rate after the warm-up"},
    {"optimizer.min_lr", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(min_lr), .min = 0, .max = 1000,
     .text = "0", .help = "learning rate at the end of the cosine decay; at most lr"},
    {"optimizer.warmup_steps", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(warmup_steps), .min = 0,
     .max = STEPS_MAX, .text = "0", .help = "steps of the linear warm-up"},
    {"optimizer.decay_steps", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(decay_steps), .min = 0,
     .max = STEPS_MAX, .text = "0", .help = "step at which min_lr is reached; 0: train.steps"},
    {"optimizer.beta1", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(beta1), .min = 0, .max = 1,
     .is_open_max = true, .text = "0.9", .help = "AdamW: decay of the first moment"},
    {"optimizer.beta2", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(beta2), .min = 0, .max = 1,
     .is_open_max = true, .text = "0.95", .help = "AdamW: decay of the second moment"},
    {"optimizer.epsilon", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(epsilon), .min = 0, .max = 1,
     .is_open_min = true, .text = "1e-8", .help = "AdamW: added to the root"},
    {"optimizer.weight_decay", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(weight_decay), .min = 0,
     .max = 1000, .text = "0.1", .help = "decoupled decay of matrices"},
    {"optimizer.grad_clip", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(grad_clip), .min = 0, .max = 1e9,
     .text = "1", .help = "largest global gradient norm; 0: no clipping"},

    {"train.steps", SC_JOB_KEY_INT, SC_JOB_NEED_ALL, AT(steps), .min = 1, .max = STEPS_MAX,
     .help = "optimizer updates"},
    {"train.seed", SC_JOB_KEY_COUNT, SC_JOB_NEED_NONE, AT(seed), .min = 0, .max = COUNT_MAX,
     .text = "1", .help = "of initial weights and data order"},

    {"data.path", SC_JOB_KEY_TEXT, SC_JOB_NEED_CPU, AT(data_path),
     .help = "token file, from the current folder; `stagecoach data tokenize` makes one"},
    {"data.format", SC_JOB_KEY_CHOICE, SC_JOB_NEED_NONE, AT(data_format),
     .choices = {"auto", "llmc", "raw16"}, .text = "auto",
     .help = "llm.c's header and uint16 tokens, bare uint16 tokens, or found out"},

    {"workers.threads", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(threads), .min = 1, .max = THREADS_MAX,
     .text = "1", .help = "computing threads of a worker"},
    {"workers.pin", SC_JOB_KEY_BOOL, SC_JOB_NEED_NONE, AT(pin), .text = "false",
     .help = "`stagecoach run` pins worker r to core r; needs threads 1"},
    {"workers.wait_seconds", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(wait_seconds), .min = 0,
     .max = SECONDS_MAX, .is_open_min = true, .text = "60",
     .help = "longest wait for the workers to come"},
    {"workers.stuck_seconds", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(stuck_seconds), .min = 0,
     .max = SECONDS_MAX, .is_open_min = true, .text = "5",
     .help = "no progress for this and for 10 median actions: stuck"},

    {"paced.forward_ms", SC_JOB_KEY_REAL, SC_JOB_NEED_PACED, AT(pace_f_ms), .min = 0, .max = MS_MAX,
     .text = "0", .help = "F of one microbatch on one rank"},
    {"paced.backward_input_ms", SC_JOB_KEY_REAL, SC_JOB_NEED_PACED, AT(pace_i_ms), .min = 0,
     .max = MS_MAX, .text = "0", .help = "I of one microbatch on one rank; B is I and W"},
    {"paced.backward_weight_ms", SC_JOB_KEY_REAL, SC_JOB_NEED_PACED, AT(pace_w_ms), .min = 0,
     .max = MS_MAX, .text = "0", .help = "W of one microbatch on one rank"},
    {"paced.transfer_ms", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(pace_comm_ms), .min = 0,
     .max = MS_MAX, .text = "0", .help = "latency between two ranks"},

    {"memory.cap_gib", SC_JOB_KEY_REAL, SC_JOB_NEED_NONE, AT(peak_memory_gib), .min = 0, .max = 1e6,
     .text = "0", .help = "most planned GiB a rank; 0: no cap"},

    {"output.runs_dir", SC_JOB_KEY_TEXT, SC_JOB_NEED_NONE, AT(runs_dir), .text = "runs",
     .help = "parent of the run folder"},
    {"output.save_weights", SC_JOB_KEY_BOOL, SC_JOB_NEED_NONE, AT(save_weights), .text = "false",
     .help = "write the final weights as safetensors"},
    {"output.save_gradients", SC_JOB_KEY_BOOL, SC_JOB_NEED_NONE, AT(save_gradients),
     .text = "false", .help = "write the gradients of step 0 as safetensors"},

    {"checkpoint.every", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(checkpoint_every), .min = 0,
     .max = STEPS_MAX, .text = "0", .help = "steps between checkpoints; 0: none"},
    {"checkpoint.keep_last", SC_JOB_KEY_INT, SC_JOB_NEED_NONE, AT(checkpoint_keep_last), .min = 0,
     .max = STEPS_MAX, .text = "3", .help = "newest checkpoints that stay; 0: all"},
    {"checkpoint.at_end", SC_JOB_KEY_BOOL, SC_JOB_NEED_NONE, AT(is_checkpoint_at_end),
     .text = "false", .help = "a checkpoint after the last step too"},
};
