/*
 * slice_layers - a stage slice made of a transformer's layers.
 *
 * Owns:     weights and gradients, activation and keep slots, work space: allocated at open.
 * Does not: order actions (the executor does) or update weights (optim does).
 *
 * The layers run over tapes: F lays out an activation slot, I a keep slot; a fused B goes through
 * the layers from last to first and does I then W of each over one layer's worth of keep memory,
 * two gradients of the residual stream changing places.
 */
#include "stage/layers/layer.h"
#include "stage/layers/layer_weights.h"
#include "stage/slots.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

typedef struct sc_slice_layers {
    sc_slice base; // first: the interface's pointer is this struct's
    sc_slice_config config;
    sc_layer_env env;
    sc_layer_weights weights;
    sc_layer *layers; // (n_layers)
    int n_layers;
    sc_slots slots;
    char *act;             // (n_act_slots)(act_bytes)
    char *keep;            // (n_keep_slots)(keep_bytes)
    char *fused;           // one layer's keep and two gradients
    char *scratch;         // behind env's pointers
    char *work;            // recomputed tensors of one block
    size_t act_bytes;      // of one slot
    size_t keep_bytes;     // of one slot
    size_t fused_bytes;    // of fused, in all
    size_t work_bytes;     // of work
    sc_layer_saved *saved; // (n_act_slots)(n_layers)
    sc_layer_kept *kept;   // (n_keep_slots)(n_layers)
} sc_slice_layers;

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t stream_bytes(const sc_slice_layers *self)
{
    return self->base.message_bytes;
}

static sc_layer_tape act_tape(const sc_slice_layers *self, int slot)
{
    return (sc_layer_tape){.base = self->act + (size_t)slot * self->act_bytes,
                           .capacity_bytes = self->act_bytes};
}

static sc_layer_tape work_tape(const sc_slice_layers *self)
{
    return (sc_layer_tape){.base = self->work, .capacity_bytes = self->work_bytes};
}

static sc_layer_saved *saved_of(const sc_slice_layers *self, int slot)
{
    return self->saved + (size_t)slot * (size_t)self->n_layers;
}

static sc_layer_kept *kept_of(const sc_slice_layers *self, int slot)
{
    return self->kept + (size_t)slot * (size_t)self->n_layers;
}

static sc_status check_abort(const sc_slice_layers *self, sc_err *err)
{
    if (self->config.is_aborted != NULL && atomic_load(self->config.is_aborted)) {
        return sc_status_fail(err, SC_ABORTED, "stage %d: aborted", self->config.stage);
    }
    return SC_OK;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A message that later actions need, moved from its buffer, which is soon the transport's again. */
static sc_status keep_message(const sc_slice_layers *self, const void *message, sc_layer_tape *tape,
                              const float **out, sc_err *err)
{
    assert(message != NULL);
    sc_backend *be = self->env.be;
    void *copy = sc_layer_take(tape, stream_bytes(self));
    *out = copy;
    return be->copy_to_device(be, self->env.stream, copy, message, stream_bytes(self), err);
}

/* An MLP whose block's tensors are not saved, attention's being in the work space before it. */
static bool is_end_of_full(const sc_layer *layer)
{
    return layer->recompute == SC_RECOMPUTE_FULL && layer->ops == &sc_layer_mlp_ops;
}

/* Where a layer's output goes: the next layer's input, or the message. */
static float *output_of(const sc_slice_layers *self, int layer, sc_layer_tape *tape,
                        sc_layer_tape *work, const sc_slice_mb *mb)
{
    if (layer + 1 < self->n_layers) {
        bool is_again = is_end_of_full(&self->layers[layer + 1]);
        return sc_layer_take(is_again ? work : tape, stream_bytes(self));
    }
    assert(self->config.range.has_head || mb->y != NULL);
    return self->config.range.has_head ? NULL : mb->y;
}

static sc_status forward(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_layers *self = (sc_slice_layers *)slice;
    SC_TRY(sc_slots_check_f(&self->slots, mb, err));
    sc_layer_tape tape = act_tape(self, mb->act_slot);
    sc_layer_saved *saved = saved_of(self, mb->act_slot);
    sc_layer_tape work = work_tape(self);
    size_t most_work = 0;
    const float *x = NULL;
    if (!self->config.range.has_embed) {
        SC_TRY(keep_message(self, mb->x, &tape, &x, err));
    }
    for (int i = 0; i < self->n_layers; i++) {
        const sc_layer *layer = &self->layers[i];
        const sc_layer_tapes tapes = sc_layer_recompute_tapes(layer->recompute, &tape, &work);
        SC_TRY(check_abort(self, err));
        work.used_bytes = is_end_of_full(layer) ? work.used_bytes : 0;
        float *y = output_of(self, i, &tape, &work, mb);
        saved[i].x = x;
        SC_TRY(layer->ops->forward(layer, &self->env, &tapes, &saved[i], mb, y, err));
        most_work = larger(work.used_bytes, most_work);
        x = y;
    }
    mb->during_bytes = tape.used_bytes + most_work;
    sc_slots_end_f(&self->slots, mb, tape.used_bytes);
    return SC_OK;
}

/* Before I of a layer: the whole block's forward again, when its MLP is next. */
static sc_status prepare_input(const sc_slice_layers *self, int i, sc_layer_tape *kept,
                               sc_layer_tape *work, sc_layer_saved *saved, sc_slice_mb *mb,
                               sc_err *err)
{
    if (!is_end_of_full(&self->layers[i])) {
        return SC_OK;
    }
    assert(i > 0);
    work->used_bytes = 0;
    return sc_layer_recompute_block(&self->layers[i - 1], &self->env, kept, work, &saved[i - 1], mb,
                                    err);
}

/* W; is_lean: the cheap tensors must be made again first. Selectively that is always so, for a full
   block when I and W are apart and others have used the work space since. */
static sc_status run_weight(const sc_slice_layers *self, int i, bool is_lean, sc_layer_tape *work,
                            const sc_layer_saved *saved, const sc_layer_kept *kept, sc_err *err)
{
    const sc_layer *layer = &self->layers[i];
    return is_lean ? sc_layer_recompute_weight(layer, &self->env, work, saved, kept, err)
                   : layer->ops->backward_weight(layer, &self->env, saved, kept, err);
}

/* W within B: a full block's tensors were all made again for I. */
static sc_status weight_of_fused(const sc_slice_layers *self, int i, sc_layer_tape *work,
                                 const sc_layer_saved *saved, const sc_layer_kept *kept,
                                 int64_t *weight_ns, sc_err *err)
{
    bool is_lean = self->layers[i].recompute == SC_RECOMPUTE_SELECTIVE;
    int64_t begin_ns = now_ns();
    SC_TRY(run_weight(self, i, is_lean, work, saved, kept, err));
    *weight_ns += now_ns() - begin_ns;
    return SC_OK;
}

/* B: what layer i - 1 finds as dy is one of two buffers, what layer 0 writes is the message. */
static sc_status backward(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_layers *self = (sc_slice_layers *)slice;
    SC_TRY(sc_slots_check_b(&self->slots, mb, err));
    sc_layer_saved *saved = saved_of(self, mb->act_slot);
    sc_layer_tape work = work_tape(self);
    sc_layer_tape tape = {.base = self->fused, .capacity_bytes = self->fused_bytes};
    float *gradients[2];
    gradients[0] = sc_layer_take(&tape, stream_bytes(self));
    gradients[1] = sc_layer_take(&tape, stream_bytes(self));
    const size_t layer_begin = tape.used_bytes;
    const float *dy = self->config.range.has_head ? NULL : mb->dy;
    size_t most_kept = 0;
    size_t most_work = 0;
    mb->weight_ns = 0;
    assert(self->config.range.has_head || mb->dy != NULL);
    assert(self->config.range.has_embed || mb->dx != NULL);
    for (int i = self->n_layers - 1; i >= 0; i--) {
        const sc_layer *layer = &self->layers[i];
        sc_layer_kept kept = {.dy = dy};
        float *dx = i > 0 ? gradients[i % 2] : mb->dx;
        tape.used_bytes = layer_begin;
        SC_TRY(check_abort(self, err));
        SC_TRY(prepare_input(self, i, &work, &work, saved, mb, err));
        SC_TRY(layer->ops->backward_input(layer, &self->env, &tape, &saved[i], &kept, dx, err));
        SC_TRY(weight_of_fused(self, i, &work, &saved[i], &kept, &mb->weight_ns, err));
        most_kept = larger(tape.used_bytes, most_kept);
        most_work = larger(work.used_bytes, most_work);
        dy = dx;
    }
    mb->during_bytes = most_kept + most_work;
    sc_slots_end_b(&self->slots, mb);
    return SC_OK;
}

static sc_status backward_input(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_layers *self = (sc_slice_layers *)slice;
    SC_TRY(sc_slots_check_i(&self->slots, mb, err));
    sc_layer_saved *saved = saved_of(self, mb->act_slot);
    sc_layer_kept *kept = kept_of(self, mb->keep_slot);
    sc_layer_tape work = work_tape(self);
    size_t most_work = 0;
    sc_layer_tape tape = {.base = self->keep + (size_t)mb->keep_slot * self->keep_bytes,
                          .capacity_bytes = self->keep_bytes};
    const float *dy = NULL;
    assert(self->config.range.has_embed || mb->dx != NULL);
    if (!self->config.range.has_head) {
        SC_TRY(keep_message(self, mb->dy, &tape, &dy, err));
    }
    for (int i = self->n_layers - 1; i >= 0; i--) {
        const sc_layer *layer = &self->layers[i];
        float *dx = i > 0 ? sc_layer_take(&tape, stream_bytes(self)) : mb->dx;
        kept[i].dy = dy;
        SC_TRY(check_abort(self, err));
        SC_TRY(prepare_input(self, i, &tape, &work, saved, mb, err));
        SC_TRY(layer->ops->backward_input(layer, &self->env, &tape, &saved[i], &kept[i], dx, err));
        most_work = larger(work.used_bytes, most_work);
        dy = dx;
    }
    mb->during_bytes = tape.used_bytes + most_work;
    sc_slots_end_i(&self->slots, mb, tape.used_bytes);
    return SC_OK;
}

static sc_status backward_weight(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_layers *self = (sc_slice_layers *)slice;
    SC_TRY(sc_slots_check_w(&self->slots, mb, err));
    const sc_layer_saved *saved = saved_of(self, mb->act_slot);
    const sc_layer_kept *kept = kept_of(self, mb->keep_slot);
    sc_layer_tape work = work_tape(self);
    mb->during_bytes = 0;
    for (int i = self->n_layers - 1; i >= 0; i--) {
        bool is_lean = self->layers[i].recompute != SC_RECOMPUTE_NONE;
        SC_TRY(check_abort(self, err));
        SC_TRY(run_weight(self, i, is_lean, &work, &saved[i], &kept[i], err));
        mb->during_bytes = larger(work.used_bytes, mb->during_bytes);
    }
    sc_slots_end_w(&self->slots, mb);
    return SC_OK;
}

static size_t activation_bytes(const sc_slice *slice)
{
    return sc_slots_used_bytes(&((const sc_slice_layers *)slice)->slots);
}

static void release(sc_slice_layers *self, void *p)
{
    if (p != NULL) {
        self->config.backend->memory_free(self->config.backend, p);
    }
}

static sc_status grow(sc_slice_layers *self, size_t bytes, char **block, sc_err *err)
{
    release(self, *block);
    *block = NULL;
    void *p = NULL;
    if (bytes > 0) {
        SC_TRY(self->config.backend->memory_alloc(self->config.backend, bytes, &p, err));
    }
    *block = p;
    return SC_OK;
}

static sc_status list_slots(sc_slice_layers *self, sc_err *err)
{
    size_t n_act = (size_t)self->config.n_act_slots * (size_t)self->n_layers;
    size_t n_keep = ((size_t)self->config.n_keep_slots + 1) * (size_t)self->n_layers;
    free(self->saved);
    free(self->kept);
    self->saved = calloc(n_act, sizeof *self->saved);
    self->kept = calloc(n_keep, sizeof *self->kept);
    if (self->saved == NULL || self->kept == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory for %zu lists of tensors",
                              self->config.stage, n_act + n_keep);
    }
    return SC_OK;
}

static sc_status resize(sc_slice *slice, int n_act_slots, int n_keep_slots, sc_err *err)
{
    sc_slice_layers *self = (sc_slice_layers *)slice;
    sc_slice_config *config = &self->config;
    assert(activation_bytes(slice) == 0);
    if (n_act_slots > config->n_act_slots) {
        config->n_act_slots = n_act_slots;
        SC_TRY(grow(self, (size_t)n_act_slots * self->act_bytes, &self->act, err));
    }
    if (n_keep_slots > config->n_keep_slots) {
        config->n_keep_slots = n_keep_slots;
        SC_TRY(grow(self, (size_t)n_keep_slots * self->keep_bytes, &self->keep, err));
    }
    sc_slots_done(&self->slots);
    SC_TRY(
        sc_slots_init(&self->slots, config->stage, config->n_act_slots, config->n_keep_slots, err));
    return list_slots(self, err);
}

static void close_slice(sc_slice **slice)
{
    sc_slice_layers *self = (sc_slice_layers *)*slice;
    if (self == NULL) {
        return;
    }
    release(self, self->work);
    release(self, self->scratch);
    release(self, self->fused);
    release(self, self->keep);
    release(self, self->act);
    release(self, self->env.attention_scratch);
    free(self->kept);
    free(self->saved);
    free(self->layers);
    sc_slots_done(&self->slots);
    sc_layer_weights_close(&self->weights);
    free(self);
    *slice = NULL;
}

static const sc_slice_ops OPS = {
    .forward = forward,
    .backward = backward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .activation_bytes = activation_bytes,
    .resize = resize,
    .close = close_slice,
};

static void add_layer(sc_slice_layers *self, const sc_layer_ops *ops, int block)
{
    sc_layer *layer = &self->layers[self->n_layers++];
    layer->ops = ops;
    layer->block = block;
    layer->recompute = block == SC_PARAM_NO_BLOCK ? SC_RECOMPUTE_NONE
                                                  : sc_recompute_of(&self->config.recompute, block);
    for (int i = 0; i < ops->n_params; i++) {
        const sc_slice_param *p = sc_layer_weights_find(&self->weights, ops->roles[i], block);
        assert(p != NULL);
        layer->params[i] = (sc_layer_param){.w = p->w, .grad = p->grad};
    }
}

static sc_status list_layers(sc_slice_layers *self, sc_err *err)
{
    const sc_stage_range *range = &self->config.range;
    size_t n_max = 2 * (size_t)(range->block_end - range->block_begin) + 2;
    self->layers = calloc(n_max, sizeof *self->layers);
    if (self->layers == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory for a list of %zu layers",
                              self->config.stage, n_max);
    }
    if (range->has_embed) {
        add_layer(self, &sc_layer_embedding_ops, SC_PARAM_NO_BLOCK);
    }
    for (int block = range->block_begin; block < range->block_end; block++) {
        add_layer(self, &sc_layer_attention_ops, block);
        add_layer(self, &sc_layer_mlp_ops, block);
    }
    if (range->has_head) {
        add_layer(self, &sc_layer_head_ops, SC_PARAM_NO_BLOCK);
    }
    return list_slots(self, err);
}

static sc_status allocate_scratch(sc_slice_layers *self, size_t bytes, sc_err *err)
{
    const sc_stage_range *range = &self->config.range;
    sc_layer_env *env = &self->env;
    size_t n_rows = (size_t)(env->B * env->T);
    SC_TRY(grow(self, bytes, &self->scratch, err));
    sc_layer_tape tape = {.base = self->scratch, .capacity_bytes = bytes};
    if (range->block_end > range->block_begin) {
        env->dattention = sc_layer_take(&tape, stream_bytes(self));
        size_t attention =
            env->be->attention_scratch_bytes(env->be, env->B, env->T, env->C, env->n_head);
        char *p = NULL;
        SC_TRY(grow(self, attention, &p, err));
        env->attention_scratch = p;
    }
    if (range->has_head) {
        env->targets = sc_layer_take(&tape, n_rows * sizeof *env->targets);
        env->losses = sc_layer_take(&tape, n_rows * sizeof *env->losses);
    }
    assert(tape.used_bytes == bytes);
    return SC_OK;
}

static sc_status allocate(sc_slice_layers *self, sc_err *err)
{
    const sc_slice_config *config = &self->config;
    sc_stage_bytes bytes;
    const sc_cost_layout layout = {.B = config->B, .T = config->T, .recompute = config->recompute};
    sc_cost_bytes(config->spec, &config->range, &layout, &bytes);
    self->act_bytes = bytes.act_per_mb;
    self->keep_bytes = bytes.keep_per_mb;
    self->fused_bytes = bytes.keep_fused;
    self->work_bytes = bytes.work;
    size_t act = (size_t)config->n_act_slots * self->act_bytes;
    size_t keep = (size_t)config->n_keep_slots * self->keep_bytes;
    SC_TRY(grow(self, act, &self->act, err));
    SC_TRY(grow(self, keep, &self->keep, err));
    SC_TRY(grow(self, self->fused_bytes, &self->fused, err));
    SC_TRY(grow(self, self->work_bytes, &self->work, err));
    return allocate_scratch(self, bytes.scratch, err);
}

static sc_status check_config(const sc_slice_config *config, sc_err *err)
{
    const sc_stage_range *range = &config->range;
    bool is_inside = range->block_begin >= 0 && range->block_begin <= range->block_end &&
                     range->block_end <= config->spec->n_layer;
    bool is_empty = range->block_begin == range->block_end && !range->has_embed && !range->has_head;
    if (!is_inside || is_empty) {
        return sc_status_fail(err, SC_INVALID, "stage %d: blocks %d to %d of a model with %d",
                              config->stage, range->block_begin, range->block_end,
                              config->spec->n_layer);
    }
    if (config->B < 1 || config->T < 1 || config->T > config->spec->n_positions) {
        return sc_status_fail(
            err, SC_INVALID, "stage %d: %d samples of %d tokens; at least 1, and at most %d tokens",
            config->stage, config->B, config->T, config->spec->n_positions);
    }
    return SC_OK;
}

sc_status sc_slice_layers_open(const sc_slice_config *config, sc_slice **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_slice_layers *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory", config->stage);
    }
    sc_slice *slice = &self->base;
    const sc_model_spec *spec = config->spec;
    self->config = *config;
    self->env = (sc_layer_env){
        .be = config->backend,
        .stream = config->stream,
        .B = config->B,
        .T = config->T,
        .C = spec->n_embd,
        .V = spec->vocab_size,
        .inner = spec->n_inner,
        .n_head = spec->n_head,
        .epsilon = (float)spec->layer_norm_epsilon,
    };
    SC_GOTO(check_config(config, err));
    slice->ops = &OPS;
    slice->message_bytes = (size_t)(self->env.B * self->env.T * self->env.C) * sizeof(float);
    SC_GOTO(
        sc_slots_init(&self->slots, config->stage, config->n_act_slots, config->n_keep_slots, err));
    SC_GOTO(sc_layer_weights_open(config, &self->weights, err));
    SC_GOTO(list_layers(self, err));
    SC_GOTO(allocate(self, err));
    slice->params = self->weights.params;
    slice->n_params = self->weights.n_params;
    *out = slice;
    slice = NULL;
out:
    close_slice(&slice);
    return status;
}
