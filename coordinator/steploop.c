#include "coordinator/steploop.h"

#include <stdio.h>
#include <string.h>

static const char *const phase_texts[] = {
#define PHASE_TEXT(name, text) text,
    SC_STEPLOOP_PHASE_MAP(PHASE_TEXT)
#undef PHASE_TEXT
};

const char *sc_steploop_phase_text(sc_steploop_phase phase)
{
    return phase_texts[phase];
}

sc_status sc_steploop_init(sc_steploop *loop, const sc_steploop_config *config, sc_arena *arena,
                           sc_err *err)
{
    *loop = (sc_steploop){
        .config = *config, .phase_ns = config->start_ns, .swap_at = SC_STEPLOOP_NO_SWAP};
    loop->n_issued = loop->n_done = config->first_step;
    size_t n = (size_t)config->n_ranks;
    loop->has_answered = sc_arena_alloc(arena, n, sizeof *loop->has_answered);
    loop->n_reported = sc_arena_alloc(arena, n, sizeof *loop->n_reported);
    if (loop->has_answered == NULL || loop->n_reported == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %d ranks", config->n_ranks);
    }
    for (size_t r = 0; r < n; r++) {
        loop->n_reported[r] = config->first_step;
    }
    return SC_OK;
}

void sc_steploop_on_workers(sc_steploop *loop, int n_workers, int64_t now_ns)
{
    loop->n_workers = n_workers;
    if (loop->phase == SC_STEPLOOP_WAITING && n_workers >= loop->config.n_ranks) {
        loop->phase_ns = now_ns; // the setup's time starts here, not when the first one came
    }
}

static bool all_answered(const sc_steploop *loop)
{
    for (int r = 0; r < loop->config.n_ranks; r++) {
        if (!loop->has_answered[r]) {
            return false;
        }
    }
    return true;
}

static void enter(sc_steploop *loop, sc_steploop_phase phase, int64_t now_ns)
{
    loop->phase = phase;
    loop->phase_ns = now_ns;
    memset(loop->has_answered, 0, (size_t)loop->config.n_ranks * sizeof *loop->has_answered);
}

sc_status sc_steploop_on_answer(sc_steploop *loop, int rank, int64_t now_ns, sc_err *err)
{
    if (loop->phase == SC_STEPLOOP_FINISHED) {
        return SC_OK;
    }
    if ((loop->phase != SC_STEPLOOP_BINDING && loop->phase != SC_STEPLOOP_CONNECTING) ||
        loop->has_answered[rank]) {
        return sc_status_fail(err, SC_PROTOCOL, "rank %d answered out of turn, while %s", rank,
                              sc_steploop_phase_text(loop->phase));
    }
    loop->has_answered[rank] = true;
    if (loop->phase == SC_STEPLOOP_CONNECTING && all_answered(loop)) {
        enter(loop, SC_STEPLOOP_TRAINING, now_ns);
    }
    return SC_OK;
}

sc_status sc_steploop_on_report(sc_steploop *loop, int rank, uint64_t step, sc_err *err)
{
    if (loop->phase == SC_STEPLOOP_FINISHED) {
        return SC_OK;
    }
    if (loop->phase != SC_STEPLOOP_TRAINING || step != loop->n_reported[rank] ||
        step >= loop->n_issued) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "rank %d reported step %llu, but step %llu was expected", rank,
                              (unsigned long long)step, (unsigned long long)loop->n_reported[rank]);
    }
    loop->n_reported[rank]++;
    return SC_OK;
}

sc_status sc_steploop_swap(sc_steploop *loop, uint64_t at, sc_err *err)
{
    if (loop->phase != SC_STEPLOOP_TRAINING) {
        return sc_status_fail(err, SC_INVALID, "no swap while %s: only while training",
                              sc_steploop_phase_text(loop->phase));
    }
    if (loop->swap_at != SC_STEPLOOP_NO_SWAP) {
        return sc_status_fail(err, SC_EXISTS, "a swap before step %llu waits already",
                              (unsigned long long)loop->swap_at);
    }
    if (loop->n_issued == loop->config.n_steps) {
        return sc_status_fail(err, SC_INVALID, "no swap: all %llu steps of the job are issued",
                              (unsigned long long)loop->n_issued);
    }
    if (at < loop->n_issued || at >= loop->config.n_steps) {
        return sc_status_fail(err, SC_INVALID,
                              "no swap before step %llu: %llu steps are issued and the job has "
                              "%llu; choose %llu or later",
                              (unsigned long long)at, (unsigned long long)loop->n_issued,
                              (unsigned long long)loop->config.n_steps,
                              (unsigned long long)loop->n_issued);
    }
    loop->swap_at = at;
    return SC_OK;
}

void sc_steploop_hold(sc_steploop *loop, bool is_held)
{
    loop->is_held = is_held;
}

void sc_steploop_finish(sc_steploop *loop, sc_status status, const char *text)
{
    if (loop->phase == SC_STEPLOOP_FINISHED) {
        return;
    }
    loop->phase = SC_STEPLOOP_FINISHED;
    loop->status = status;
    snprintf(loop->text, sizeof loop->text, "%s", text);
}

static void list_missing(const sc_steploop *loop, char *out, size_t n)
{
    size_t used = 0;
    out[0] = '\0';
    for (int r = 0; r < loop->config.n_ranks && used + 16 < n; r++) {
        if (!loop->has_answered[r]) {
            used += (size_t)snprintf(out + used, n - used, "%s%d", used == 0 ? "" : ", ", r);
        }
    }
}

void sc_steploop_tick(sc_steploop *loop, int64_t now_ns)
{
    loop->now_ns = now_ns;
    char text[SC_ERR_TEXT_MAX];
    char missing[256];
    int64_t waited_ns = now_ns - loop->phase_ns;
    if (loop->phase == SC_STEPLOOP_WAITING && waited_ns > loop->config.wait_ns) {
        snprintf(text, sizeof text,
                 "%d of %d workers came within %.0f s: start %d more `stagecoach-stage` or raise "
                 "workers.wait_seconds",
                 loop->n_workers, loop->config.n_ranks, (double)loop->config.wait_ns / 1e9,
                 loop->config.n_ranks - loop->n_workers);
        sc_steploop_finish(loop, SC_TIMEOUT, text);
    } else if ((loop->phase == SC_STEPLOOP_BINDING || loop->phase == SC_STEPLOOP_CONNECTING) &&
               waited_ns > loop->config.setup_ns) {
        list_missing(loop, missing, sizeof missing);
        snprintf(text, sizeof text, "no %s from rank %s within %.0f s: see its log",
                 loop->phase == SC_STEPLOOP_BINDING ? "bound data socket" : "readiness", missing,
                 (double)loop->config.setup_ns / 1e9);
        sc_steploop_finish(loop, SC_TIMEOUT, text);
    }
}

static bool next_in_training(sc_steploop *loop, sc_steploop_effect *out)
{
    uint64_t n_all = UINT64_MAX;
    for (int r = 0; r < loop->config.n_ranks; r++) {
        n_all = loop->n_reported[r] < n_all ? loop->n_reported[r] : n_all;
    }
    if (n_all > loop->n_done) {
        *out = (sc_steploop_effect){.type = SC_STEPLOOP_STEP_DONE, .step = loop->n_done++};
        return true;
    }
    if (loop->n_done == loop->config.n_steps && !loop->is_held) {
        sc_steploop_finish(loop, SC_OK, "");
        return sc_steploop_next(loop, out);
    }
    if (loop->n_done == loop->swap_at && !loop->is_held) {
        loop->swap_at = SC_STEPLOOP_NO_SWAP;
        enter(loop, SC_STEPLOOP_BINDING, loop->now_ns);
        *out = (sc_steploop_effect){.type = SC_STEPLOOP_ASSIGN, .step = loop->n_done};
        return true;
    }
    if (loop->n_issued < loop->config.n_steps && loop->n_issued < loop->swap_at &&
        loop->n_issued - loop->n_done < SC_STEPLOOP_WINDOW) {
        *out = (sc_steploop_effect){.type = SC_STEPLOOP_STEP, .step = loop->n_issued++};
        return true;
    }
    return false;
}

bool sc_steploop_next(sc_steploop *loop, sc_steploop_effect *out)
{
    switch (loop->phase) {
    case SC_STEPLOOP_WAITING:
        if (loop->n_workers >= loop->config.n_ranks) {
            enter(loop, SC_STEPLOOP_BINDING, loop->phase_ns);
            *out = (sc_steploop_effect){.type = SC_STEPLOOP_ASSIGN};
            return true;
        }
        return false;
    case SC_STEPLOOP_BINDING:
        if (all_answered(loop)) {
            enter(loop, SC_STEPLOOP_CONNECTING, loop->phase_ns);
            *out = (sc_steploop_effect){.type = SC_STEPLOOP_CONNECT};
            return true;
        }
        return false;
    case SC_STEPLOOP_CONNECTING:
        return false;
    case SC_STEPLOOP_TRAINING:
        return next_in_training(loop, out);
    case SC_STEPLOOP_FINISHED:
        if (!loop->is_finish_told) {
            loop->is_finish_told = true;
            *out = (sc_steploop_effect){.type = SC_STEPLOOP_FINISH, .status = loop->status};
            memcpy(out->text, loop->text, sizeof out->text);
            return true;
        }
        return false;
    }
    return false;
}
