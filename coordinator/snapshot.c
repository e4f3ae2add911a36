#include "coordinator/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sc_snapshot_init(sc_snapshot *snapshot, const sc_snapshot_config *config)
{
    *snapshot = (sc_snapshot){.config = *config};
}

static void free_save(sc_snapshot_save *save)
{
    sc_arena_done(&save->arena);
    *save = (sc_snapshot_save){.is_used = false};
}

void sc_snapshot_done(sc_snapshot *snapshot)
{
    for (int i = 0; i < SC_SNAPSHOT_PENDING_MAX; i++) {
        free_save(&snapshot->saves[i]);
    }
}

bool sc_snapshot_is_due(const sc_snapshot *snapshot, uint64_t step)
{
    const sc_snapshot_config *config = &snapshot->config;
    uint64_t n_updates = step + 1;
    return (config->every > 0 && n_updates % config->every == 0) ||
           (config->is_at_end && n_updates == config->n_steps);
}

static sc_snapshot_save *find(sc_snapshot *snapshot, uint64_t n_updates)
{
    for (int i = 0; i < SC_SNAPSHOT_PENDING_MAX; i++) {
        if (snapshot->saves[i].is_used && snapshot->saves[i].step == n_updates) {
            return &snapshot->saves[i];
        }
    }
    return NULL;
}

sc_status sc_snapshot_begin(sc_snapshot *snapshot, uint64_t n_updates, sc_err *err)
{
    size_t n_ranks = (size_t)snapshot->config.n_ranks;
    sc_snapshot_save *save = NULL;
    for (int i = 0; i < SC_SNAPSHOT_PENDING_MAX && save == NULL; i++) {
        save = snapshot->saves[i].is_used ? NULL : &snapshot->saves[i];
    }
    if (save == NULL || find(snapshot, n_updates) != NULL) {
        return sc_status_fail(err, SC_LIMIT, "checkpoint of step %" PRIu64 ": %d are under way",
                              n_updates, SC_SNAPSHOT_PENDING_MAX);
    }
    *save = (sc_snapshot_save){.step = n_updates};
    sc_arena_init(&save->arena, 0);
    save->parts = sc_arena_alloc(&save->arena, n_ranks, sizeof *save->parts);
    if (save->parts == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a checkpoint of %zu ranks",
                              n_ranks);
    }
    save->is_used = true;
    return SC_OK;
}

static void count_failure(sc_snapshot *snapshot, const sc_err *why)
{
    snapshot->n_failed++;
    snapshot->n_failed_row++;
    snapshot->last_err = *why;
}

void sc_snapshot_miss(sc_snapshot *snapshot, const sc_err *why)
{
    count_failure(snapshot, why);
}

/* The oldest save that the rank has not reported: ranks write in order. */
static sc_snapshot_save *find_oldest(sc_snapshot *snapshot, uint32_t rank)
{
    sc_snapshot_save *oldest = NULL;
    for (int i = 0; i < SC_SNAPSHOT_PENDING_MAX; i++) {
        sc_snapshot_save *save = &snapshot->saves[i];
        if (save->is_used && !save->parts[rank].is_reported &&
            (oldest == NULL || save->step < oldest->step)) {
            oldest = save;
        }
    }
    return oldest;
}

static bool keep_tensor(sc_arena *arena, const sc_msg_tensor *tensor, sc_manifest_tensor *out)
{
    *out = (sc_manifest_tensor){.dtype = SC_SAFETENSORS_F32, .n_dims = (int)tensor->n_dims};
    out->name = sc_arena_strndup(arena, tensor->name, strlen(tensor->name));
    out->shape[0] = tensor->rows;
    out->shape[1] = tensor->n_dims > 1 ? tensor->columns : 0;
    out->shard_length = tensor->n_dims > 0 ? tensor->rows : 1;
    out->offset = tensor->offset;
    out->n_bytes = tensor->n_bytes;
    out->checksum = tensor->checksum;
    return out->name != NULL;
}

/* Copies what the message says: its memory is the loop's. */
static sc_status keep_part(sc_snapshot_save *save, const sc_msg_saved *msg, sc_err *err)
{
    sc_snapshot_part *part = &save->parts[msg->rank];
    part->file = sc_arena_strndup(&save->arena, msg->file, strlen(msg->file));
    part->file_bytes = msg->file_bytes;
    part->tensors = sc_arena_alloc(&save->arena, msg->n_tensors, sizeof *part->tensors);
    bool is_whole = part->file != NULL && part->tensors != NULL;
    for (size_t i = 0; is_whole && i < msg->n_tensors; i++) {
        is_whole = keep_tensor(&save->arena, &msg->tensors[i], &part->tensors[i]);
    }
    part->n_tensors = msg->n_tensors;
    return is_whole ? SC_OK
                    : sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of %zu tensors",
                                     msg->n_tensors);
}

static int64_t longest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

sc_status sc_snapshot_on_saved(sc_snapshot *snapshot, const sc_msg_saved *msg, sc_err *err)
{
    sc_snapshot_save *save =
        msg->rank < (uint32_t)snapshot->config.n_ranks ? find_oldest(snapshot, msg->rank) : NULL;
    if (save == NULL || save->step != msg->step) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "rank %" PRIu32 " saved step %" PRIu64
                              ", which it was not to save now",
                              msg->rank, msg->step);
    }
    save->parts[msg->rank].is_reported = true;
    save->n_reported++;
    save->wait_ns = longest(save->wait_ns, msg->wait_ns);
    save->copy_ns = longest(save->copy_ns, msg->copy_ns);
    save->write_ns = longest(save->write_ns, msg->write_ns);
    if (msg->status == SC_OK) {
        return keep_part(save, msg, err);
    }
    if (!save->has_failed) {
        save->has_failed = true;
        (void)sc_status_fail(&save->err, (sc_status)msg->status, "rank %" PRIu32 ": %s", msg->rank,
                             msg->text);
    }
    return SC_OK;
}

bool sc_snapshot_next(sc_snapshot *snapshot, sc_snapshot_effect *out)
{
    for (int i = 0; i < SC_SNAPSHOT_PENDING_MAX; i++) {
        sc_snapshot_save *save = &snapshot->saves[i];
        if (save->is_used && save->n_reported == snapshot->config.n_ranks) {
            out->type = save->has_failed ? SC_SNAPSHOT_DROP : SC_SNAPSHOT_COMMIT;
            out->save = save;
            return true;
        }
    }
    return false;
}

void sc_snapshot_end(sc_snapshot *snapshot, sc_snapshot_save *save, const sc_err *failure)
{
    if (save->has_failed) {
        count_failure(snapshot, &save->err);
    } else if (failure != NULL) {
        count_failure(snapshot, failure);
    } else {
        snapshot->n_committed++;
        snapshot->n_failed_row = 0;
        snapshot->last_step = save->step;
    }
    free_save(save);
}

bool sc_snapshot_is_busy(const sc_snapshot *snapshot)
{
    for (int i = 0; i < SC_SNAPSHOT_PENDING_MAX; i++) {
        if (snapshot->saves[i].is_used) {
            return true;
        }
    }
    return false;
}

void sc_snapshot_describe(const sc_job *job, const sc_plan *plan, sc_manifest *out)
{
    const sc_model_spec *spec = &job->model;
    out->program_version = SC_VERSION;
    out->optimizer = job->optimizer == SC_JOB_ADAMW ? "adamw" : "sgd";
#define COPY_FIELD(kind, field) out->model.field = spec->field;
    SC_MANIFEST_MODEL_MAP(COPY_FIELD)
#undef COPY_FIELD
    out->data = (sc_manifest_data){.path = job->data_path, .seed = job->seed};
    out->data.global_batch_size = (uint64_t)job->micro_batch_size * (uint64_t)job->num_microbatches;
    out->data.sequence_length = (uint64_t)job->sequence_length;
    out->layout = (sc_manifest_layout){.pipeline_parallel = (uint64_t)plan->n_ranks,
                                       .tensor_parallel = 1,
                                       .data_parallel = 1,
                                       .schedule = plan->schedule};
}

sc_status sc_snapshot_fill(sc_snapshot_save *save, int n_ranks, const sc_registry *registry,
                           sc_manifest *out, sc_err *err)
{
    size_t n = 0;
    for (int r = 0; r < n_ranks; r++) {
        n += save->parts[r].n_tensors;
    }
    out->files = sc_arena_alloc(&save->arena, (size_t)n_ranks, sizeof *out->files);
    out->tensors = sc_arena_alloc(&save->arena, n, sizeof *out->tensors);
    if (out->files == NULL || out->tensors == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of %zu tensors", n);
    }
    out->n_files = (size_t)n_ranks;
    out->n_tensors = 0;
    for (int r = 0; r < n_ranks; r++) {
        const sc_snapshot_part *part = &save->parts[r];
        out->files[r] = (sc_manifest_file){.name = part->file, .n_bytes = part->file_bytes};
        for (size_t i = 0; i < part->n_tensors; i++) {
            out->tensors[out->n_tensors] = part->tensors[i];
            out->tensors[out->n_tensors++].file = (size_t)r;
        }
    }
    return sc_snapshot_check("the workers' files", out, registry, err);
}

/* --- a manifest's tensors against a model --- */

static sc_status check_tensor(const char *name, const sc_manifest_tensor *tensor,
                              const sc_param *param, sc_err *err)
{
    char is[128];
    char need[128];
    if (tensor->dtype != SC_SAFETENSORS_F32) {
        return sc_status_fail(err, SC_INVALID, "%s: tensor %s: dtype %s, F32 is needed", name,
                              tensor->name, sc_manifest_format_dtype(tensor->dtype));
    }
    if (tensor->n_dims != param->n_dims ||
        memcmp(tensor->shape, param->shape, (size_t)param->n_dims * sizeof *param->shape) != 0) {
        return sc_status_fail(
            err, SC_INVALID, "%s: tensor %s: shape %s, the model needs %s", name, tensor->name,
            sc_manifest_format_shape(tensor->shape, tensor->n_dims, is, sizeof is),
            sc_manifest_format_shape(param->shape, param->n_dims, need, sizeof need));
    }
    if (tensor->shard_offset != 0 || tensor->shard_length != tensor->shape[tensor->shard_dim]) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s: tensor %s: a shard of it; this version loads whole tensors",
                              name, tensor->name);
    }
    return SC_OK;
}

/* Name order, so that two of one name meet. */
static int compare_tensors(const void *a, const void *b)
{
    const sc_manifest_tensor *const *x = a;
    const sc_manifest_tensor *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int compare_key(const void *key, const void *item)
{
    return strcmp(key, (*(const sc_manifest_tensor *const *)item)->name);
}

static sc_status check_one(const char *name, const sc_manifest_tensor **sorted, size_t n,
                           const char *prefix, const sc_param *param, sc_err *err)
{
    char key[SC_PARAM_NAME_MAX + 16];
    (void)snprintf(key, sizeof key, "%s%s", prefix, param->name);
    const sc_manifest_tensor **found =
        n == 0 ? NULL : bsearch(key, sorted, n, sizeof(sc_manifest_tensor *), compare_key);
    if (found == NULL) {
        return sc_status_fail(err, SC_INVALID, "%s: tensor %s: missing, the model needs it", name,
                              key);
    }
    return check_tensor(name, *found, param, err);
}

static sc_status check_params(const char *name, const sc_manifest_tensor **sorted, size_t n,
                              const sc_registry *registry, bool has_moments, sc_err *err)
{
    static const char *const PREFIXES[] = {"", SC_MANIFEST_MOMENT_1, SC_MANIFEST_MOMENT_2};
    const int n_parts = has_moments ? 3 : 1;
    sc_status status = SC_OK;
    for (int i = 0; status == SC_OK && i < n_parts * registry->n_params; i++) {
        const sc_param *param = &registry->params[i / n_parts];
        status = check_one(name, sorted, n, PREFIXES[i % n_parts], param, err);
    }
    return status;
}

static const char *skip_moment(const char *name)
{
    const size_t n = sizeof SC_MANIFEST_MOMENT_1 - 1;
    bool is_moment =
        strncmp(name, SC_MANIFEST_MOMENT_1, n) == 0 || strncmp(name, SC_MANIFEST_MOMENT_2, n) == 0;
    return is_moment ? name + n : name;
}

/* Each tensor that is there is of the model, and there once; that all are there is known. */
static sc_status check_extra(const char *name, const sc_manifest_tensor **sorted, size_t n,
                             const sc_registry *registry, bool has_moments, sc_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *param = has_moments ? skip_moment(sorted[i]->name) : sorted[i]->name;
        int k = 0;
        while (k < registry->n_params && strcmp(registry->params[k].name, param) != 0) {
            k++;
        }
        if (k == registry->n_params) {
            return sc_status_fail(err, SC_INVALID,
                                  "%s: tensor %s: extra, the model has no such tensor", name,
                                  sorted[i]->name);
        }
        if (i > 0 && strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            return sc_status_fail(err, SC_INVALID, "%s: tensor %s: is there twice", name,
                                  sorted[i]->name);
        }
    }
    return SC_OK;
}

sc_status sc_snapshot_check(const char *name, const sc_manifest *manifest,
                            const sc_registry *registry, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n = manifest->n_tensors;
    bool has_moments = strcmp(manifest->optimizer, "adamw") == 0;
    const sc_manifest_tensor **sorted = calloc(n + 1, sizeof(sc_manifest_tensor *));
    if (sorted == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a list of %zu tensors", n);
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &manifest->tensors[i];
    }
    qsort(sorted, n, sizeof(sc_manifest_tensor *), compare_tensors);
    SC_GOTO(check_params(name, sorted, n, registry, has_moments, err));
    SC_GOTO(check_extra(name, sorted, n, registry, has_moments, err));
out:
    free(sorted);
    return status;
}

static int compare_steps(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

size_t sc_snapshot_sort_stale(uint64_t *steps, size_t n, uint64_t n_keep)
{
    if (n_keep == 0 || n <= n_keep) {
        return 0;
    }
    qsort(steps, n, sizeof *steps, compare_steps);
    return n - (size_t)n_keep;
}
