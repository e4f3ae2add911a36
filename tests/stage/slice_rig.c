#include "slice_rig.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct sc_rig_action {
    char op; // F B I W
    int mb;
} sc_rig_action;

static const int SOME_BLOCKS[] = {0, 2};

const sc_recompute sc_slice_rig_recomputes[SC_RIG_RECOMPUTES] = {
    {.kind = SC_RECOMPUTE_NONE},
    {.kind = SC_RECOMPUTE_SELECTIVE},
    {.kind = SC_RECOMPUTE_FULL},
    {.kind = SC_RECOMPUTE_BLOCKS, .blocks = SOME_BLOCKS, .n_blocks = 2}};

static const char OPS[] = "FBIW";

typedef struct sc_rig_row {
    sc_rig_action actions[3 * SC_RIG_MB_MAX];
    int n_actions;
    int next;
} sc_rig_row;

static void put(sc_rig_row *row, char op, int mb)
{
    row->actions[row->n_actions++] = (sc_rig_action){op, mb};
}

static void make_gpipe(const sc_rig_config *config, sc_rig_row *row)
{
    bool is_split = config->order == SC_RIG_GPIPE_SPLIT;
    for (int mb = 0; mb < config->n_mb; mb++) {
        put(row, 'F', mb);
    }
    for (int mb = 0; mb < config->n_mb; mb++) {
        put(row, is_split ? 'I' : 'B', mb);
    }
    for (int mb = 0; is_split && mb < config->n_mb; mb++) {
        put(row, 'W', mb);
    }
}

static void make_1f1b(const sc_rig_config *config, int stage, sc_rig_row *row)
{
    bool is_split = config->order == SC_RIG_1F1B_SPLIT;
    int n_warm = config->n_stages - stage;
    n_warm = n_warm < config->n_mb ? n_warm : config->n_mb;
    for (int mb = 0; mb < n_warm; mb++) {
        put(row, 'F', mb);
    }
    for (int mb = 0; mb < config->n_mb; mb++) {
        put(row, is_split ? 'I' : 'B', mb);
        if (is_split && mb >= 2) {
            put(row, 'W', mb - 2);
        }
        if (mb + n_warm < config->n_mb) {
            put(row, 'F', mb + n_warm);
        }
    }
    for (int mb = config->n_mb < 2 ? 0 : config->n_mb - 2; is_split && mb < config->n_mb; mb++) {
        put(row, 'W', mb);
    }
}

static void make_row(const sc_rig_config *config, int stage, sc_rig_row *row)
{
    *row = (sc_rig_row){0};
    if (config->order == SC_RIG_GPIPE || config->order == SC_RIG_GPIPE_SPLIT) {
        make_gpipe(config, row);
    } else {
        make_1f1b(config, stage, row);
    }
}

/* Slots that the row needs at its peak. */
static void count_slots(const sc_rig_row *row, int *n_act, int *n_keep)
{
    int act = 0;
    int keep = 0;
    *n_act = 0;
    *n_keep = 0;
    for (int i = 0; i < row->n_actions; i++) {
        char op = row->actions[i].op;
        act += op == 'F' ? 1 : 0;
        keep += op == 'I' ? 1 : 0;
        *n_act = act > *n_act ? act : *n_act;
        *n_keep = keep > *n_keep ? keep : *n_keep;
        act -= op == 'B' || op == 'W' ? 1 : 0;
        keep -= op == 'W' ? 1 : 0;
    }
}

static void open_slice(sc_rig *rig, int stage, int block_begin)
{
    const sc_rig_config *config = &rig->config;
    sc_rig_row row;
    make_row(config, stage, &row);
    count_slots(&row, &rig->n_act[stage], &rig->n_keep[stage]);
    rig->ranges[stage] = (sc_stage_range){.block_begin = block_begin,
                                          .block_end = block_begin + config->blocks[stage],
                                          .has_embed = stage == 0,
                                          .has_head = stage == config->n_stages - 1};
    const sc_slice_config slice = {
        .stage = stage,
        .n_stages = config->n_stages,
        .n_mb = config->n_mb,
        .range = rig->ranges[stage],
        .spec = config->is_paced ? NULL : &rig->config.spec,
        .registry = rig->registry,
        .backend = config->backend,
        .B = config->B,
        .T = config->T,
        .recompute = config->recompute,
        .seed = 42,
        .n_act_slots = rig->n_act[stage],
        .n_keep_slots = rig->n_keep[stage],
        .is_aborted = config->is_aborted,
    };
    sc_err err = {0};
    sc_status status = config->is_paced ? sc_slice_paced_open(&slice, &rig->slices[stage], &err)
                                        : sc_slice_layers_open(&slice, &rig->slices[stage], &err);
    if (status != SC_OK) {
        fail_msg("%s", err.text);
    }
}

sc_cost_layout sc_slice_rig_layout(const sc_rig_config *config)
{
    return (sc_cost_layout){
        .B = config->B, .T = config->T, .is_adamw = true, .recompute = config->recompute};
}

static void *allocate(size_t bytes)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, bytes), 0);
    memset(p, 0xFF, bytes);
    return p;
}

void sc_slice_rig_open(const sc_rig_config *config, sc_rig *rig)
{
    *rig = (sc_rig){.config = *config};
    size_t n_samples = (size_t)config->n_mb * (size_t)config->B;
    size_t n_tokens = n_samples * (size_t)config->T;
    uint64_t vocab = config->is_paced ? 1 : (uint64_t)config->spec.vocab_size;
    assert_true(config->n_mb <= SC_RIG_MB_MAX && config->n_stages <= SC_RIG_STAGES_MAX);
    if (!config->is_paced) {
        assert_int_equal(sc_registry_new(&rig->config.spec, &rig->registry, NULL), SC_OK);
    }
    int block = 0;
    for (int s = 0; s < config->n_stages; s++) {
        open_slice(rig, s, block);
        block += config->blocks[s];
        size_t bytes = (size_t)config->n_mb * rig->slices[s]->message_bytes;
        rig->y[s] = allocate(bytes);
        rig->dx[s] = allocate(bytes);
    }
    rig->tokens = allocate(n_tokens * sizeof *rig->tokens);
    rig->targets = allocate(n_tokens * sizeof *rig->targets);
    rig->sample_ids = allocate(n_samples * sizeof *rig->sample_ids);
    int64_t n_valid = 0;
    for (size_t i = 0; i < n_tokens; i++) {
        rig->tokens[i] = (int32_t)(sc_rng_u64(7, 1, i) % vocab);
        bool is_ignored = sc_rng_u64(7, 2, i) % 9 == 0;
        rig->targets[i] = is_ignored ? SC_IGNORE_INDEX : (int32_t)(sc_rng_u64(7, 3, i) % vocab);
        n_valid += is_ignored ? 0 : 1;
    }
    for (size_t i = 0; i < n_samples; i++) {
        rig->sample_ids[i] = sc_rng_u64(7, 4, i);
    }
    rig->loss_scale = 1.0F / (float)n_valid;
}

void sc_slice_rig_close(sc_rig *rig)
{
    for (int s = 0; s < rig->config.n_stages; s++) {
        rig->slices[s]->ops->close(&rig->slices[s]);
        free(rig->y[s]);
        free(rig->dx[s]);
    }
    free(rig->tokens);
    free(rig->targets);
    free(rig->sample_ids);
    sc_registry_free(&rig->registry);
}

/* What is in flight: per stage and microbatch what was done and where it is. */
typedef struct sc_rig_flight {
    sc_rig_row rows[SC_RIG_STAGES_MAX];
    bool is_forward[SC_RIG_STAGES_MAX][SC_RIG_MB_MAX];
    bool is_backward[SC_RIG_STAGES_MAX][SC_RIG_MB_MAX];
    int act[SC_RIG_STAGES_MAX][SC_RIG_SLOTS_MAX];  // occupant, -1: free
    int keep[SC_RIG_STAGES_MAX][SC_RIG_SLOTS_MAX]; // occupant, -1: free
} sc_rig_flight;

static int slot_of(const int *slots, int n, int occupant)
{
    for (int i = 0; i < n; i++) {
        if (slots[i] == occupant) {
            return i;
        }
    }
    return -1;
}

static bool is_ready(const sc_rig *rig, const sc_rig_flight *flight, int stage)
{
    const sc_rig_row *row = &flight->rows[stage];
    if (row->next == row->n_actions) {
        return false;
    }
    const sc_rig_action *action = &row->actions[row->next];
    switch (action->op) {
    case 'F':
        return stage == 0 || flight->is_forward[stage - 1][action->mb];
    case 'B':
    case 'I':
        return stage == rig->config.n_stages - 1 || flight->is_backward[stage + 1][action->mb];
    default:
        return true;
    }
}

static void *message(const sc_rig *rig, float *const *buffers, int stage, int mb)
{
    if (stage < 0 || stage >= rig->config.n_stages) {
        return NULL;
    }
    return (char *)buffers[stage] + (size_t)mb * rig->slices[stage]->message_bytes;
}

static sc_slice_mb make_mb(const sc_rig *rig, uint64_t step, int stage, int mb)
{
    size_t sample = (size_t)mb * (size_t)rig->config.B;
    bool is_last = stage == rig->config.n_stages - 1;
    return (sc_slice_mb){
        .step = step,
        .mb = mb,
        .keep_slot = -1,
        .sample_ids = rig->sample_ids + sample,
        .tokens = rig->tokens + sample * (size_t)rig->config.T,
        .targets = rig->targets + sample * (size_t)rig->config.T,
        .loss_scale = rig->loss_scale,
        .x = message(rig, rig->y, stage - 1, mb),
        .y = is_last ? NULL : message(rig, rig->y, stage, mb),
        .dy = message(rig, rig->dx, stage + 1, mb),
        .dx = stage == 0 ? NULL : message(rig, rig->dx, stage, mb),
    };
}

static void spoil(const sc_rig *rig, const void *buffer)
{
    if (buffer != NULL) {
        memset((void *)buffer, 0xFF, rig->slices[0]->message_bytes);
    }
}

static sc_status execute(sc_rig *rig, sc_rig_flight *flight, uint64_t step, int stage, sc_err *err)
{
    sc_rig_row *row = &flight->rows[stage];
    sc_rig_action action = row->actions[row->next++];
    sc_slice *slice = rig->slices[stage];
    sc_slice_mb mb = make_mb(rig, step, stage, action.mb);
    int *act = flight->act[stage];
    int *keep = flight->keep[stage];
    mb.act_slot = slot_of(act, rig->n_act[stage], action.op == 'F' ? -1 : action.mb);
    assert_true(mb.act_slot >= 0);
    switch (action.op) {
    case 'F':
        SC_TRY(slice->ops->forward(slice, &mb, err));
        act[mb.act_slot] = action.mb;
        flight->is_forward[stage][action.mb] = true;
        rig->losses[action.mb] = mb.loss_sum; // the last stage's stays
        rig->n_valid[action.mb] = mb.n_valid;
        spoil(rig, mb.x);
        break;
    case 'B':
        SC_TRY(slice->ops->backward(slice, &mb, err));
        rig->weight_ns[stage] += mb.weight_ns;
        act[mb.act_slot] = -1;
        break;
    case 'I':
        mb.keep_slot = slot_of(keep, rig->n_keep[stage], -1);
        SC_TRY(slice->ops->backward_input(slice, &mb, err));
        keep[mb.keep_slot] = action.mb;
        break;
    default:
        mb.keep_slot = slot_of(keep, rig->n_keep[stage], action.mb);
        SC_TRY(slice->ops->backward_weight(slice, &mb, err));
        keep[mb.keep_slot] = -1;
        act[mb.act_slot] = -1;
        break;
    }
    if (action.op == 'B' || action.op == 'I') {
        flight->is_backward[stage][action.mb] = true;
        spoil(rig, mb.dy);
    }
    size_t *during = &rig->during_bytes[stage][strchr(OPS, action.op) - OPS];
    *during = mb.during_bytes > *during ? mb.during_bytes : *during;
    size_t bytes = slice->ops->activation_bytes(slice);
    rig->peak_bytes[stage] = bytes > rig->peak_bytes[stage] ? bytes : rig->peak_bytes[stage];
    return SC_OK;
}

/* The next action of every stage that can go on; *n_done_p of them. */
static sc_status execute_round(sc_rig *rig, sc_rig_flight *flight, uint64_t step, int *n_done_p,
                               sc_err *err)
{
    *n_done_p = 0;
    for (int s = 0; s < rig->config.n_stages; s++) {
        if (!is_ready(rig, flight, s)) {
            continue;
        }
        SC_TRY(execute(rig, flight, step, s, err));
        (*n_done_p)++;
    }
    return SC_OK;
}

sc_status sc_slice_rig_step(sc_rig *rig, uint64_t step, sc_err *err)
{
    sc_rig_flight flight = {0};
    int n_left = 0;
    memset(flight.act, 0xFF, sizeof flight.act);
    memset(flight.keep, 0xFF, sizeof flight.keep);
    for (int s = 0; s < rig->config.n_stages; s++) {
        make_row(&rig->config, s, &flight.rows[s]);
        n_left += flight.rows[s].n_actions;
    }
    while (n_left > 0) {
        int n_done = 0;
        SC_TRY(execute_round(rig, &flight, step, &n_done, err));
        assert_true(n_done > 0); // otherwise the rig's own order deadlocks
        n_left -= n_done;
    }
    return SC_OK;
}

double sc_slice_rig_evaluate(sc_rig *rig)
{
    double sum = 0.0;
    int n_stages = rig->config.n_stages;
    for (int i = 0; i < rig->config.n_mb * n_stages; i++) {
        sc_slice *slice = rig->slices[i % n_stages];
        sc_slice_mb mb = make_mb(rig, 0, i % n_stages, i / n_stages);
        sc_err err = {0};
        mb.is_forward_only = true;
        if (slice->ops->forward(slice, &mb, &err) != SC_OK) {
            fail_msg("%s", err.text);
        }
        sum += mb.loss_sum;
    }
    return sum;
}

const sc_slice_param *sc_slice_rig_find(const sc_rig *rig, int param, bool is_tied_copy)
{
    for (int s = 0; s < rig->config.n_stages; s++) {
        for (int i = 0; i < rig->slices[s]->n_params; i++) {
            const sc_slice_param *p = &rig->slices[s]->params[i];
            if (p->param == param && p->is_tied_copy == is_tied_copy) {
                return p;
            }
        }
    }
    return NULL;
}

float *sc_slice_rig_grad(const sc_rig *rig, int param)
{
    const sc_slice_param *p = sc_slice_rig_find(rig, param, false);
    const sc_slice_param *copy = sc_slice_rig_find(rig, param, true);
    assert_non_null(p);
    float *grad = calloc(p->n_elems, sizeof *grad);
    assert_non_null(grad);
    for (size_t i = 0; i < p->n_elems; i++) {
        grad[i] = p->grad[i] + (copy == NULL ? 0.0F : copy->grad[i]);
    }
    return grad;
}

void sc_slice_rig_optim_open(const sc_rig *rig, const sc_optim_config *settings, sc_rig_optim *out)
{
    *out = (sc_rig_optim){0};
    for (int s = 0; s < rig->config.n_stages; s++) {
        const sc_slice *slice = rig->slices[s];
        sc_optim_config config = *settings;
        config.registry = rig->registry;
        config.backend = rig->config.backend;
        config.slices = &slice;
        config.n_slices = 1;
        assert_int_equal(sc_optim_open(&config, &out->ranks[s], NULL), SC_OK);
    }
}

void sc_slice_rig_optim_close(sc_rig_optim *optim)
{
    for (int s = 0; s < SC_RIG_STAGES_MAX; s++) {
        sc_optim_close(&optim->ranks[s]);
    }
}

/* What the ranks' all-reduce does: both ends get embedding + head. */
static void reduce_tied(const sc_rig *rig, const sc_rig_optim *optim)
{
    size_t n = 0;
    size_t n_head = 0;
    int last = rig->config.n_stages - 1;
    float *embed = sc_optim_tied_grad(optim->ranks[0], &n);
    float *head = sc_optim_tied_grad(optim->ranks[last], &n_head);
    if (embed == head) {
        return; // one rank, or not tied
    }
    assert_int_equal(n, n_head);
    for (size_t i = 0; i < n; i++) {
        embed[i] += head[i];
        head[i] = embed[i];
    }
}

double sc_slice_rig_optim_step(const sc_rig *rig, sc_rig_optim *optim, float lr, uint64_t step,
                               float clip)
{
    int n_ranks = rig->config.n_stages;
    size_t n_params = (size_t)rig->registry->n_params;
    double *sums = calloc((size_t)n_ranks * n_params, sizeof *sums);
    uint32_t lr_bits;
    float scale = 0.0F;
    memcpy(&lr_bits, &lr, sizeof lr_bits);
    for (int r = 0; r < n_ranks; r++) {
        assert_int_equal(sc_optim_merge_tied(optim->ranks[r], NULL), SC_OK);
    }
    reduce_tied(rig, optim);
    for (int r = 0; r < n_ranks; r++) {
        sc_gradnorm norm;
        assert_int_equal(sc_gradnorm_open(optim->ranks[r], &norm, NULL), SC_OK);
        assert_int_equal(sc_gradnorm_local(&norm, sums + (size_t)r * n_params, NULL), SC_OK);
        sc_gradnorm_close(&norm);
    }
    double total = sc_gradnorm_total(sums, n_ranks, (int)n_params);
    assert_int_equal(sc_gradnorm_scale(total, clip, &scale, NULL), SC_OK);
    for (int r = 0; r < n_ranks; r++) {
        assert_int_equal(sc_optim_step(optim->ranks[r], lr_bits, step, scale, NULL), SC_OK);
    }
    free(sums);
    return total;
}
