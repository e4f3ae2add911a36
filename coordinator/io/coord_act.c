#include "base/log.h"
#include "coordinator/io/coord.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "cpu:3" -> 3; no slot -> after those with one */
static long device_slot(const char *device)
{
    const char *colon = strchr(device, ':');
    return colon == NULL ? 1L << 30 : strtol(colon + 1, NULL, 10);
}

/* Hosts by name, devices of a host in rising order: neighbours in the pipeline share a host. */
static int compare_workers(const sc_coord *c, int a, int b)
{
    const sc_coord_peer *pa = &c->peers[a];
    const sc_coord_peer *pb = &c->peers[b];
    int host = strcmp(pa->host, pb->host);
    if (host != 0) {
        return host;
    }
    long slot_a = device_slot(pa->device);
    long slot_b = device_slot(pb->device);
    if (slot_a != slot_b) {
        return slot_a < slot_b ? -1 : 1;
    }
    return a - b;
}

static void place_workers(sc_coord *c)
{
    int n = 0;
    for (int i = 0; i < c->n_peers && n < c->plan->n_ranks; i++) {
        if (!c->peers[i].is_used || c->peers[i].kind != SC_COORD_WORKER || c->peers[i].is_gone) {
            continue;
        }
        int at = n++;
        while (at > 0 && compare_workers(c, i, c->peer_of_rank[at - 1]) < 0) {
            c->peer_of_rank[at] = c->peer_of_rank[at - 1];
            at--;
        }
        c->peer_of_rank[at] = i;
    }
    for (int r = 0; r < n; r++) {
        c->peers[c->peer_of_rank[r]].rank = r;
        sc_membership_set_rank(c->membership, c->peer_of_rank[r], r);
    }
}

/* The lowest instruction set of the fleet, so that all compute the same bits; told when it is
 * mixed. */
static const char *lowest_isa(const sc_coord *c)
{
    static const char *const rising[] = {"baseline", "avx2", "avx512"};
    enum {
        N_ISA = 3
    };
    int lowest = N_ISA - 1;
    bool is_mixed = false;
    for (int r = 0; r < c->plan->n_ranks; r++) {
        const char *isa = c->peers[c->peer_of_rank[r]].isa;
        int level = 0;
        for (int i = 0; i < N_ISA; i++) {
            level = strcmp(isa, rising[i]) == 0 ? i : level;
        }
        is_mixed = is_mixed || strcmp(isa, c->peers[c->peer_of_rank[0]].isa) != 0;
        lowest = level < lowest ? level : lowest;
    }
    if (is_mixed) {
        SC_LOG_WARN("the workers' instruction sets differ: all are held to %s", rising[lowest]);
    }
    return rising[lowest];
}

static void fill_stages(const sc_coord *c, sc_msg_stage *out)
{
    double pace_share = (double)c->plan->n_ranks / c->plan->n_stages;
    for (int s = 0; s < c->plan->n_stages; s++) {
        const sc_plan_stage *stage = &c->plan->stages[s];
        out[s] = (sc_msg_stage){.stage = (uint32_t)s, .rank = (uint32_t)stage->rank};
        out[s].block_begin = (uint32_t)stage->range.block_begin;
        out[s].block_end = (uint32_t)stage->range.block_end;
        out[s].has_embed = stage->range.has_embed;
        out[s].has_head = stage->range.has_head;
        out[s].n_act_slots = (uint32_t)stage->n_act_slots;
        out[s].n_keep_slots = (uint32_t)stage->n_keep_slots;
        out[s].pace_f_ns = (int64_t)(c->job->pace_f_ms * pace_share * 1e6);
        out[s].pace_i_ns = (int64_t)(c->job->pace_i_ms * pace_share * 1e6);
        out[s].pace_w_ns = (int64_t)(c->job->pace_w_ms * pace_share * 1e6);
    }
}

static void fill_model(const sc_model_spec *spec, sc_msg_model *out)
{
    *out = (sc_msg_model){.n_layer = (uint32_t)spec->n_layer, .n_head = (uint32_t)spec->n_head};
    out->n_embd = (uint32_t)spec->n_embd;
    out->n_inner = (uint32_t)spec->n_inner;
    out->vocab_size = (uint32_t)spec->vocab_size;
    out->n_positions = (uint32_t)spec->n_positions;
    out->layer_norm_epsilon = spec->layer_norm_epsilon;
    out->initializer_range = spec->initializer_range;
    out->tie_word_embeddings = spec->tie_word_embeddings;
}

/* Workers may have another current folder. A path that is not there is left to them to report. */
static const char *absolute_path(sc_coord *c, const char *path)
{
    if (path == NULL) {
        return "";
    }
    char *absolute = realpath(path, NULL);
    const char *copy =
        absolute == NULL ? path : sc_arena_strndup(&c->arena, absolute, strlen(absolute));
    free(absolute);
    return copy == NULL ? path : copy;
}

static const char *save_path(sc_coord *c, bool is_wanted, const char *folder)
{
    if (!is_wanted) {
        return "";
    }
    const char *base = absolute_path(c, sc_store_path(c->config->store));
    size_t n = strlen(base) + strlen(folder) + 2;
    char *path = sc_arena_alloc(&c->arena, n, 1);
    if (path == NULL) {
        return "";
    }
    snprintf(path, n, "%s/%s", base, folder);
    return path;
}

static void fill_assign(sc_coord *c, sc_msg_assign *out)
{
    const sc_job *job = c->job;
    static const char *const formats[] = {"auto", "llmc", "raw16"};
    *out = (sc_msg_assign){.epoch = c->epoch, .n_ranks = (uint32_t)c->plan->n_ranks};
    out->n_mb = (uint32_t)job->num_microbatches;
    out->micro_batch_size = (uint32_t)job->micro_batch_size;
    out->global_batch_size = (uint32_t)(job->micro_batch_size * job->num_microbatches);
    out->sequence_length = (uint32_t)job->sequence_length;
    out->seed = job->seed;
    out->threads = (uint32_t)job->threads;
    out->isa_max = lowest_isa(c);
    out->slice = job->device == SC_JOB_PACED ? "paced" : "layers";
    out->data_path = absolute_path(c, job->data_path);
    out->data_format = formats[job->data_format];
    fill_model(&job->model, &out->model);
    out->optimizer.name = job->optimizer == SC_JOB_ADAMW ? "adamw" : "sgd";
    out->optimizer.beta1 = (float)job->beta1;
    out->optimizer.beta2 = (float)job->beta2;
    out->optimizer.epsilon = (float)job->epsilon;
    out->optimizer.weight_decay = (float)job->weight_decay;
    out->optimizer.grad_clip = (float)job->grad_clip;
    out->pace_comm_ns = (int64_t)(job->pace_comm_ms * 1e6);
    out->weights_path = save_path(c, job->save_weights, "weights");
    out->gradients_path = save_path(c, job->save_gradients, "gradients");
    out->n_message_slots = (uint32_t)c->plan->n_message_slots;
    out->inherit_epoch = c->epoch - 1; // 0 for the first
    out->checkpoint_path = c->checkpoint_path;
    out->resume_path = c->epoch == 1 && c->config->resume != NULL ? c->config->resume->folder : "";
    out->start_step = c->steps.n_done;
    out->n_stages = (size_t)c->plan->n_stages;
}

static bool is_one_host(const sc_coord *c)
{
    for (int r = 1; r < c->plan->n_ranks; r++) {
        if (strcmp(c->peers[c->peer_of_rank[r]].boot_id, c->peers[c->peer_of_rank[0]].boot_id) !=
            0) {
            return false;
        }
    }
    return true;
}

static void act_assign(sc_coord *c)
{
    sc_err err;
    if (c->epoch == 0) {
        place_workers(c);
    }
    sc_coord_swap_enter(c);
    c->epoch++;
    sc_msg_stage *stages = sc_arena_alloc(&c->arena, (size_t)c->plan->n_stages, sizeof *stages);
    if (stages == NULL) {
        sc_steploop_finish(&c->steps, SC_NO_MEMORY, "no memory for the assignment");
        return;
    }
    fill_stages(c, stages);
    sc_msg msg = {.type = SC_MSG_ASSIGN};
    fill_assign(c, &msg.u.assign);
    if (sc_recompute_format(&c->job->recompute, &c->arena, &msg.u.assign.recompute, NULL) !=
        SC_OK) {
        sc_steploop_finish(&c->steps, SC_NO_MEMORY, "no memory for the assignment");
        return;
    }
    msg.u.assign.stages = stages;
    msg.u.assign.bind_address = is_one_host(c) ? "ipc" : "tcp";
    for (int r = 0; r < c->plan->n_ranks; r++) {
        msg.u.assign.rank = (uint32_t)r;
        msg.u.assign.row = c->cur->row_texts[r];
        sc_coord_peers_send(c, &c->peers[c->peer_of_rank[r]], &msg);
    }
    if (sc_coord_record_workers(c, &err) != SC_OK) {
        sc_steploop_finish(&c->steps, err.status, err.text);
    }
    sc_coord_act_progress(c, NULL, 0, 0, 0, 0);
}

static void act_connect(sc_coord *c)
{
    const char **endpoints = sc_arena_alloc(&c->arena, (size_t)c->plan->n_ranks, sizeof *endpoints);
    if (endpoints == NULL) {
        sc_steploop_finish(&c->steps, SC_NO_MEMORY, "no memory for the endpoints");
        return;
    }
    for (int r = 0; r < c->plan->n_ranks; r++) {
        endpoints[r] = c->peers[c->peer_of_rank[r]].endpoint;
    }
    sc_msg msg = {.type = SC_MSG_CONNECT, .u.connect = {.epoch = c->epoch, .endpoints = endpoints}};
    msg.u.connect.n_endpoints = (size_t)c->plan->n_ranks;
    sc_coord_peers_send_workers(c, &msg);
}

static void act_step(sc_coord *c, uint64_t step)
{
    float lr = sc_job_lr(c->job, step);
    sc_msg msg = {.type = SC_MSG_STEP, .u.step = {.epoch = c->epoch, .step = step}};
    memcpy(&msg.u.step.lr_bits, &lr, sizeof lr);
    msg.u.step.sent_ns = sc_coord_loop_now_ns();
    msg.u.step.is_last = step + 1 == c->steps.config.n_steps;
    msg.u.step.should_save = sc_coord_save_begin(c, step);
    sc_coord_peers_send_workers(c, &msg);
}

static void act_step_done(sc_coord *c, uint64_t step)
{
    sc_err err;
    const sc_coord_step *numbers =
        &c->step_numbers[step % SC_STEPLOOP_WINDOW * (size_t)c->plan->n_ranks];
    double loss = numbers->loss_sum / (double)numbers->n_valid;
    double lr = (double)sc_job_lr(c->job, step);
    int64_t step_ns = 0;
    for (int r = 0; r < c->plan->n_ranks; r++) {
        step_ns = numbers[r].window_ns > step_ns ? numbers[r].window_ns : step_ns;
    }
    c->first_loss = step == c->steps.config.first_step ? loss : c->first_loss;
    c->last_loss = loss;
    c->cur->n_steps++;
    c->cur->n_valid += numbers->n_valid;
    c->cur->step_ns_sum += step_ns;
    if (sc_coord_record_step(c, step, lr, &err) != SC_OK ||
        sc_coord_swap_after_step(c, step, &err) != SC_OK) {
        sc_steploop_finish(&c->steps, err.status, err.text);
    }
    sc_coord_act_progress(c, NULL, loss, numbers->grad_norm, lr, (double)step_ns);
}

/* The run is over: results to disk, workers stopped, watchers told. The loop then waits for the
 * farewells. */
static void act_finish(sc_coord *c, const sc_steploop_effect *effect)
{
    sc_err err;
    c->status = effect->status;
    sc_status_fail(&c->err, effect->status, "%s", effect->text);
    if (effect->status == SC_OK) {
        SC_LOG_INFO("job %s: all %d steps are done, loss %.6f", c->job->name, c->job->steps,
                    c->last_loss);
    } else {
        SC_LOG_ERROR("job %s: %s", c->job->name, effect->text);
    }
    if (sc_coord_record_end(c, &err) != SC_OK) {
        SC_LOG_WARN("results: %s, ignoring", err.text);
    }
    sc_msg stop = {.type = SC_MSG_STOP,
                   .u.stop = {.status = (uint32_t)effect->status, .reason = effect->text}};
    sc_coord_peers_send_workers(c, &stop);
    sc_msg finished = {.type = SC_MSG_FINISHED};
    finished.u.finished.status = (uint32_t)effect->status;
    finished.u.finished.text = effect->text;
    finished.u.finished.summary = c->summary != NULL ? c->summary : "";
    finished.u.finished.run_dir = sc_store_path(c->config->store);
    sc_coord_peers_send_watchers(c, &finished);
    c->is_over = true;
    c->over_ns = sc_coord_loop_now_ns();
}

void sc_coord_act_progress(sc_coord *c, sc_coord_peer *only, double loss, double grad_norm,
                           double lr, double step_ns)
{
    uint64_t last = c->steps.n_done > 0 ? c->steps.n_done - 1 : 0; // the step that step_ns is of
    const sc_coord_step *numbers =
        &c->step_numbers[last % SC_STEPLOOP_WINDOW * (size_t)c->plan->n_ranks];
    sc_msg msg = {.type = SC_MSG_PROGRESS};
    sc_msg_progress *progress = &msg.u.progress;
    progress->phase = sc_steploop_phase_text(c->steps.phase);
    progress->n_workers = (uint32_t)sc_coord_peers_count_workers(c);
    progress->n_workers_needed = (uint32_t)c->plan->n_ranks;
    progress->step = c->steps.n_done;
    progress->n_steps = c->steps.config.n_steps;
    progress->loss = loss;
    progress->grad_norm = grad_norm;
    progress->lr = lr;
    progress->step_ms = step_ns / 1e6;
    progress->tokens_per_second = step_ns > 0 ? (double)numbers->n_valid / (step_ns / 1e9) : 0;
    if (only != NULL) {
        sc_coord_peers_send(c, only, &msg);
    } else {
        sc_coord_peers_send_watchers(c, &msg);
    }
}

static void act_effects(sc_coord *c)
{
    sc_steploop_effect effect;
    while (sc_steploop_next(&c->steps, &effect)) {
        switch (effect.type) {
        case SC_STEPLOOP_ASSIGN:
            act_assign(c);
            break;
        case SC_STEPLOOP_CONNECT:
            act_connect(c);
            break;
        case SC_STEPLOOP_STEP:
            act_step(c, effect.step);
            break;
        case SC_STEPLOOP_STEP_DONE:
            act_step_done(c, effect.step);
            break;
        case SC_STEPLOOP_FINISH:
            act_finish(c, &effect);
            break;
        }
    }
}

void sc_coord_act_all(sc_coord *c)
{
    do {
        act_effects(c);
    } while (sc_coord_save_act(c));
}
