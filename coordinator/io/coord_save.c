/*
 * Checkpoints of a run: their folders, the workers' parts, and what is told of them.
 */
#include "base/log.h"
#include "coordinator/io/checkpoints.h"
#include "coordinator/io/coord.h"
#include "coordinator/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FOLDER[] = "checkpoints";

static bool has_checkpoints(const sc_job *job)
{
    return job->checkpoint_every > 0 || job->is_checkpoint_at_end;
}

sc_status sc_coord_save_open(sc_coord *c, sc_err *err)
{
    const sc_job *job = c->job;
    sc_snapshot_config config = {.n_ranks = c->plan->n_ranks, .n_steps = (uint64_t)job->steps};
    config.every = (uint64_t)job->checkpoint_every;
    config.is_at_end = job->is_checkpoint_at_end;
    config.n_keep = (uint64_t)job->checkpoint_keep_last;
    sc_snapshot_init(&c->saves, &config);
    c->checkpoint_path = "";
    if (!has_checkpoints(job)) {
        return SC_OK;
    }
    // workers may have another current folder
    char *run = realpath(sc_store_path(c->config->store), NULL);
    if (run == NULL) {
        return sc_status_errno(err, errno, "%s", sc_store_path(c->config->store));
    }
    size_t n = strlen(run) + sizeof FOLDER + 1;
    char *path = sc_arena_alloc(&c->arena, n, 1);
    if (path != NULL) {
        (void)snprintf(path, n, "%s/%s", run, FOLDER);
        c->checkpoint_path = path;
    }
    free(run);
    return path != NULL ? SC_OK : sc_status_errno(err, ENOMEM, "path of the checkpoints");
}

/* Told in the log, the status and the summary; the job goes on, since its end would lose what was
   trained since the last one. */
static void tell_failure(const sc_coord *c, uint64_t step, const sc_err *why)
{
    SC_LOG_WARN("checkpoint of step %" PRIu64 ": %s: not saved (%" PRIu64
                " in a row), training goes on",
                step, why->text, c->saves.n_failed_row);
}

static size_t list_pending(const sc_coord *c, uint64_t out[SC_SNAPSHOT_PENDING_MAX])
{
    size_t n = 0;
    for (int i = 0; i < SC_SNAPSHOT_PENDING_MAX; i++) {
        if (c->saves.saves[i].is_used) {
            out[n++] = c->saves.saves[i].step;
        }
    }
    return n;
}

bool sc_coord_save_begin(sc_coord *c, uint64_t step)
{
    sc_err err;
    uint64_t pending[SC_SNAPSHOT_PENDING_MAX];
    uint64_t n_updates = step + 1;
    if (!sc_snapshot_is_due(&c->saves, step)) {
        return false;
    }
    size_t n = list_pending(c, pending);
    sc_status status = sc_checkpoints_begin(c->checkpoint_path, n_updates, pending, n, &err);
    if (status == SC_OK) {
        status = sc_snapshot_begin(&c->saves, n_updates, &err);
    }
    if (status != SC_OK) {
        sc_snapshot_miss(&c->saves, &err);
        tell_failure(c, n_updates, &err);
    }
    sc_steploop_hold(&c->steps, sc_snapshot_is_busy(&c->saves));
    return status == SC_OK;
}

static sc_status commit(sc_coord *c, sc_snapshot_save *save, sc_err *err)
{
    sc_manifest manifest = {.step = save->step};
    char *text = NULL;
    sc_snapshot_describe(c->job, c->plan, &manifest);
    SC_TRY(sc_snapshot_fill(save, c->plan->n_ranks, c->plan->registry, &manifest, err));
    SC_TRY(sc_manifest_format(&manifest, &text, err));
    sc_status status = sc_checkpoints_commit(c->checkpoint_path, save->step, text, err);
    free(text);
    return status;
}

static void act_commit(sc_coord *c, sc_snapshot_save *save)
{
    sc_err err;
    uint64_t step = save->step;
    if (commit(c, save, &err) != SC_OK) {
        sc_snapshot_end(&c->saves, save, &err);
        tell_failure(c, step, &err);
        (void)sc_checkpoints_drop(c->checkpoint_path, step, NULL);
        return;
    }
    SC_LOG_INFO("checkpoint of step %" PRIu64 ": %s/step-%08" PRIu64
                ", the step waited %.1f ms and copied %.1f ms, writing took %.1f ms",
                step, c->checkpoint_path, step, (double)save->wait_ns / 1e6,
                (double)save->copy_ns / 1e6, (double)save->write_ns / 1e6);
    sc_snapshot_end(&c->saves, save, NULL);
    if (sc_checkpoints_trim(c->checkpoint_path, c->saves.config.n_keep, &err) != SC_OK) {
        SC_LOG_WARN("old checkpoints: %s, ignoring", err.text);
    }
}

static void act_drop(sc_coord *c, sc_snapshot_save *save)
{
    sc_err err;
    uint64_t step = save->step;
    sc_snapshot_end(&c->saves, save, NULL);
    tell_failure(c, step, &c->saves.last_err);
    if (sc_checkpoints_drop(c->checkpoint_path, step, &err) != SC_OK) {
        SC_LOG_WARN("%s, ignoring", err.text);
    }
}

sc_status sc_coord_save_take(sc_coord *c, const sc_coord_peer *peer, const sc_msg_saved *msg,
                             sc_err *err)
{
    if (msg->epoch != c->epoch || c->steps.phase == SC_STEPLOOP_FINISHED) {
        return SC_OK;
    }
    if ((int)msg->rank != peer->rank) {
        return sc_status_fail(err, SC_PROTOCOL, "worker of rank %d saves as rank %" PRIu32,
                              peer->rank, msg->rank);
    }
    return sc_snapshot_on_saved(&c->saves, msg, err);
}

bool sc_coord_save_act(sc_coord *c)
{
    sc_snapshot_effect effect;
    bool has_acted = false;
    while (sc_snapshot_next(&c->saves, &effect)) {
        if (effect.type == SC_SNAPSHOT_COMMIT) {
            act_commit(c, effect.save);
        } else {
            act_drop(c, effect.save);
        }
        has_acted = true;
    }
    sc_steploop_hold(&c->steps, sc_snapshot_is_busy(&c->saves));
    return has_acted;
}

void sc_coord_save_close(sc_coord *c)
{
    uint64_t pending[SC_SNAPSHOT_PENDING_MAX];
    size_t n = list_pending(c, pending);
    for (size_t i = 0; i < n; i++) { // a job that failed meanwhile; its workers have left
        (void)sc_checkpoints_drop(c->checkpoint_path, pending[i], NULL);
    }
    sc_snapshot_done(&c->saves);
}

bool sc_coord_save_add_json(const sc_coord *c, cJSON *object)
{
    const sc_snapshot *saves = &c->saves;
    const sc_resume *resume = c->config->resume;
    if (resume != NULL) {
        cJSON *from = cJSON_AddObjectToObject(object, "resumed");
        if (cJSON_AddStringToObject(from, "from", resume->folder) == NULL ||
            !sc_metrics_add_real(from, "step", (double)resume->step) ||
            cJSON_AddStringToObject(from, "differences", resume->differences) == NULL) {
            return false;
        }
    }
    if (!has_checkpoints(c->job)) {
        return true;
    }
    cJSON *item = cJSON_AddObjectToObject(object, "checkpoints");
    return sc_metrics_add_real(item, "saved", (double)saves->n_committed) &&
           sc_metrics_add_real(item, "failed", (double)saves->n_failed) &&
           sc_metrics_add_real(item, "failed_in_a_row", (double)saves->n_failed_row) &&
           sc_metrics_add_real(item, "last_step", (double)saves->last_step) &&
           cJSON_AddStringToObject(item, "last_error", saves->last_err.text) != NULL;
}

void sc_coord_save_format(const sc_coord *c, char *out, size_t n)
{
    const sc_snapshot *saves = &c->saves;
    const sc_resume *resume = c->config->resume;
    size_t used = 0;
    out[0] = '\0';
    if (resume != NULL) {
        used = (size_t)snprintf(
            out, n, "resumed from %.300s at step %" PRIu64 "%s%s\n", resume->folder, resume->step,
            resume->differences[0] == '\0' ? "" : "; other data order: ", resume->differences);
    }
    if (has_checkpoints(c->job) && used < n) {
        used += (size_t)snprintf(out + used, n - used, "checkpoints: %" PRIu64 " saved",
                                 saves->n_committed);
    }
    if (saves->n_failed > 0 && used < n) {
        used += (size_t)snprintf(out + used, n - used, ", %" PRIu64 " not saved: %.300s",
                                 saves->n_failed, saves->last_err.text);
    }
    if (has_checkpoints(c->job) && used < n) {
        (void)snprintf(out + used, n - used, "\n");
    }
}
