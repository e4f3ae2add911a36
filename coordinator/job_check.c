#include "coordinator/job_check.h"

#include "coordinator/job_keys.h"
#include "schedules/gen.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct checker {
    const sc_job *job;
    const sc_job_mark *marks;
    sc_job_mark file; // the file alone, for rules between defaults
    sc_err *err;
} checker;

static bool is_said(const checker *c, const char *path)
{
    int key = sc_job_keys_find(path);
    return key >= 0 && c->marks[key].source != NULL;
}

/* Where a rule about `path`, and then `other`, was broken: at the first that the job says. */
static const sc_job_mark *mark_of(const checker *c, const char *path, const char *other)
{
    const char *const paths[] = {path, other};
    for (size_t i = 0; i < 2; i++) {
        if (paths[i] != NULL && is_said(c, paths[i])) {
            return &c->marks[sc_job_keys_find(paths[i])];
        }
    }
    return &c->file;
}

/* All missing keys in one line. */
static sc_status check_needed(const checker *c)
{
    char missing[512] = "";
    size_t n_keys = 0;
    const sc_job_key *keys = sc_job_keys_list(&n_keys);
    int n_missing = 0;
    sc_job_key_need mine = c->job->device == SC_JOB_PACED ? SC_JOB_NEED_PACED : SC_JOB_NEED_CPU;
    for (size_t i = 0; i < n_keys; i++) {
        bool is_needed = keys[i].need == SC_JOB_NEED_ALL || keys[i].need == mine;
        if (is_needed && c->marks[i].source == NULL) {
            size_t used = strlen(missing);
            (void)snprintf(missing + used, sizeof missing - used, "%s%s",
                           n_missing == 0 ? "" : ", ", keys[i].path);
            n_missing++;
        }
    }
    if (n_missing == 0) {
        return SC_OK;
    }
    return sc_job_yaml_fail(&c->file, "", c->err, "missing key%s: %s; add %s",
                            n_missing == 1 ? "" : "s", missing, n_missing == 1 ? "it" : "them");
}

static sc_status check_name(const checker *c)
{
    static const char ALLOWED[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._-";
    const char *name = c->job->name;
    size_t n = strlen(name);
    bool is_dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    if (n >= 1 && n <= SC_JOB_NAME_MAX && strspn(name, ALLOWED) == n && !is_dots) {
        return SC_OK;
    }
    return sc_job_yaml_fail(mark_of(c, "name", NULL), "name", c->err,
                            "'%.80s' cannot name a folder; use 1 to %d of A-Z a-z 0-9 . _ -", name,
                            SC_JOB_NAME_MAX);
}

static sc_status fail_schedule(const checker *c)
{
    char known[768] = "";
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(known);
        if (!list[i].is_replicated) {
            (void)snprintf(known + used, sizeof known - used, "%s, ", list[i].name);
        }
    }
    return sc_job_yaml_fail(mark_of(c, "schedule", NULL), "schedule", c->err,
                            "'%.64s' is no schedule; choose one of %sfile:PATH.csv, auto",
                            c->job->schedule, known);
}

static sc_status check_schedule(const checker *c)
{
    const char *path = sc_job_schedule_path(c->job->schedule);
    bool is_auto = strcmp(c->job->schedule, SC_JOB_SCHEDULE_AUTO) == 0;
    if (is_auto && c->job->virtual_stages != 0) {
        return sc_job_yaml_fail(mark_of(c, "parallel.virtual_stages", "schedule"),
                                "parallel.virtual_stages", c->err,
                                "%d stages a rank, but schedule auto chooses them; leave it out",
                                c->job->virtual_stages);
    }
    if (is_auto || (path != NULL && path[0] != '\0')) {
        return SC_OK;
    }
    const sc_gen_info *info = sc_gen_find(c->job->schedule);
    if (info != NULL && info->is_replicated) {
        return sc_job_yaml_fail(mark_of(c, "schedule", NULL), "schedule", c->err,
                                "%s keeps each stage's parameters on two ranks, so it cannot train "
                                "a job; simulate it with `stagecoach schedule`",
                                info->name);
    }
    return info != NULL ? SC_OK : fail_schedule(c);
}

/* v as far as it is known here: 0 for a schedule from a file that the job does not say it of. */
static int stages_a_rank(const sc_job *job)
{
    const sc_gen_info *info = sc_gen_find(job->schedule);
    if (job->virtual_stages > 0 || sc_job_schedule_path(job->schedule) != NULL) {
        return job->virtual_stages;
    }
    return info == NULL ? 1 : info->default_chunks; // auto starts with one stage a rank
}

static sc_status check_heads(const checker *c)
{
    int width = c->job->model.n_embd;
    int n_head = c->job->model.n_head;
    if (width % n_head == 0) {
        return SC_OK;
    }
    int below = width / n_head * n_head;
    char choice[64];
    if (below == 0) {
        (void)snprintf(choice, sizeof choice, "choose %d", below + n_head);
    } else {
        (void)snprintf(choice, sizeof choice, "choose %d or %d", below, below + n_head);
    }
    return sc_job_yaml_fail(mark_of(c, "model.n_embd", "model.n_head"), "model.n_embd", c->err,
                            "%d is not a multiple of model.n_head %d; %s", width, n_head, choice);
}

/* Whatever else the model's own check finds: its text starts with the key's name. */
static sc_status check_spec(const checker *c, sc_model_spec *spec)
{
    sc_err inner = {0};
    sc_status status = sc_spec_check(spec, &inner);
    if (status == SC_OK) {
        return SC_OK;
    }
    char path[128];
    (void)snprintf(path, sizeof path, "model.%.*s", (int)strcspn(inner.text, ":"), inner.text);
    const char *what = strchr(inner.text, ':');
    if (what == NULL || sc_job_keys_find(path) < 0) {
        return sc_job_yaml_fail(&c->file, "model", c->err, "%s", inner.text);
    }
    return sc_job_yaml_fail(mark_of(c, path, NULL), path, c->err, "%s", what + 2);
}

static sc_status check_sequence(const checker *c)
{
    int T = c->job->sequence_length;
    int limit = c->job->model.n_positions;
    if (T > limit) {
        return sc_job_yaml_fail(
            mark_of(c, "batch.sequence_length", "model.n_positions"), "batch.sequence_length",
            c->err, "%d is longer than model.n_positions %d; choose at most %d", T, limit, limit);
    }
    int64_t tokens = (int64_t)T * c->job->micro_batch_size;
    if (tokens > SC_JOB_MB_TOKENS_MAX) {
        return sc_job_yaml_fail(
            mark_of(c, "batch.micro_batch_size", "batch.sequence_length"), "batch.micro_batch_size",
            c->err,
            "%d samples of %d tokens are more than the %d a microbatch may have; choose at "
            "most %d",
            c->job->micro_batch_size, T, SC_JOB_MB_TOKENS_MAX, SC_JOB_MB_TOKENS_MAX / T);
    }
    return SC_OK;
}

static sc_status check_recompute(const checker *c)
{
    sc_err inner = {0};
    if (sc_recompute_check(&c->job->recompute, c->job->model.n_layer, &inner) == SC_OK) {
        return SC_OK;
    }
    return sc_job_yaml_fail(mark_of(c, "recompute", "model.n_layer"), "recompute", c->err, "%s",
                            inner.text);
}

static sc_status check_stages(const checker *c)
{
    int p = c->job->pipeline_parallel;
    int v = stages_a_rank(c->job);
    int n_layer = c->job->model.n_layer;
    if (p > n_layer) {
        return sc_job_yaml_fail(mark_of(c, "parallel.pipeline_parallel", "model.n_layer"),
                                "parallel.pipeline_parallel", c->err,
                                "%d stages are more than model.n_layer %d; choose at most %d", p,
                                n_layer, n_layer);
    }
    if (v < 1 || v <= n_layer / p) {
        return SC_OK;
    }
    const sc_job_mark *mark = mark_of(c, "parallel.virtual_stages", "schedule");
    if (c->job->virtual_stages == 0) {
        return sc_job_yaml_fail(
            mark, "schedule", c->err,
            "%s has v = %d stages a rank, on %d ranks %d, more than model.n_layer %d; take at "
            "most %d ranks or more layers",
            c->job->schedule, v, p, p * v, n_layer, n_layer / v);
    }
    return sc_job_yaml_fail(
        mark, "parallel.virtual_stages", c->err,
        "%d stages a rank, on %d ranks %d, are more than model.n_layer %d; choose at most %d", v, p,
        p * v, n_layer, n_layer / p);
}

static sc_status check_layers_sum(const checker *c)
{
    const char *path = "parallel.layers_per_stage";
    const sc_job *job = c->job;
    int64_t sum = 0;
    for (int i = 0; i < job->n_layers_per_stage; i++) {
        sum += job->layers_per_stage[i];
    }
    if (sum == job->model.n_layer) {
        return SC_OK;
    }
    return sc_job_yaml_fail(
        mark_of(c, path, "model.n_layer"), path, c->err,
        "the entries add up to %" PRId64 ", not to model.n_layer %d; %s %" PRId64, sum,
        job->model.n_layer, sum < job->model.n_layer ? "add" : "take off",
        sum < job->model.n_layer ? job->model.n_layer - sum : sum - job->model.n_layer);
}

static sc_status check_layers(const checker *c)
{
    const char *path = "parallel.layers_per_stage";
    const sc_job *job = c->job;
    int n = job->n_layers_per_stage;
    int v = stages_a_rank(job);
    if (n == 0) {
        return SC_OK;
    }
    if (v == 1 && n != job->pipeline_parallel) {
        return sc_job_yaml_fail(mark_of(c, path, "parallel.pipeline_parallel"), path, c->err,
                                "%d entries for parallel.pipeline_parallel %d; give one a stage", n,
                                job->pipeline_parallel);
    }
    if (v > 1 && n != job->pipeline_parallel * v) {
        return sc_job_yaml_fail(mark_of(c, path, "parallel.virtual_stages"), path, c->err,
                                "%d entries for %d ranks of %d stages; give one a stage", n,
                                job->pipeline_parallel, v);
    }
    return check_layers_sum(c);
}

static sc_status check_cells(const checker *c)
{
    int64_t p = c->job->pipeline_parallel;
    int64_t v = stages_a_rank(c->job) > 1 ? stages_a_rank(c->job) : 1;
    if (p * v > SC_STAGES_MAX) {
        return sc_job_yaml_fail(mark_of(c, "parallel.virtual_stages", "schedule"),
                                "parallel.virtual_stages", c->err,
                                "%" PRId64 " stages a rank, on %" PRId64 " ranks %" PRId64
                                ", are over the limit of %d stages; choose at most %" PRId64,
                                v, p, p * v, SC_STAGES_MAX, SC_STAGES_MAX / p);
    }
    if (p * v * c->job->num_microbatches <= SC_JOB_CELLS_MAX) {
        return SC_OK;
    }
    return sc_job_yaml_fail(
        mark_of(c, "batch.num_microbatches", NULL), "batch.num_microbatches", c->err,
        "%d microbatches of %" PRId64 " stages are over the limit of %d cells; choose at most "
        "%" PRId64,
        c->job->num_microbatches, p * v, SC_JOB_CELLS_MAX, SC_JOB_CELLS_MAX / (p * v));
}

static sc_status check_optimizer(const checker *c)
{
    if (c->job->min_lr > c->job->lr) {
        return sc_job_yaml_fail(mark_of(c, "optimizer.min_lr", "optimizer.lr"), "optimizer.min_lr",
                                c->err, "%g is above optimizer.lr %g; choose at most %g",
                                c->job->min_lr, c->job->lr, c->job->lr);
    }
    int decay = c->job->decay_steps;
    if (decay != 0 && decay < c->job->warmup_steps) {
        return sc_job_yaml_fail(
            mark_of(c, "optimizer.decay_steps", "optimizer.warmup_steps"), "optimizer.decay_steps",
            c->err, "%d is before the end of optimizer.warmup_steps %d; choose at least %d, or 0",
            decay, c->job->warmup_steps, c->job->warmup_steps);
    }
    return SC_OK;
}

static sc_status check_workers(const checker *c)
{
    if (c->job->pin && c->job->threads > 1) {
        return sc_job_yaml_fail(mark_of(c, "workers.pin", "workers.threads"), "workers.pin", c->err,
                                "a worker of %d threads cannot be pinned to one core; set "
                                "workers.threads 1 or workers.pin false",
                                c->job->threads);
    }
    return SC_OK;
}

static sc_status check_texts(const checker *c)
{
    if (c->job->device == SC_JOB_CPU && c->job->data_path[0] == '\0') {
        return sc_job_yaml_fail(mark_of(c, "data.path", NULL), "data.path", c->err,
                                "is empty; name a token file");
    }
    if (c->job->runs_dir[0] == '\0') {
        return sc_job_yaml_fail(mark_of(c, "output.runs_dir", NULL), "output.runs_dir", c->err,
                                "is empty; name a folder");
    }
    return SC_OK;
}

static sc_status check_checkpoint(const checker *c)
{
    if (c->job->device == SC_JOB_PACED &&
        (c->job->checkpoint_every > 0 || c->job->is_checkpoint_at_end)) {
        return sc_job_yaml_fail(mark_of(c, "checkpoint.every", "checkpoint.at_end"), "checkpoint",
                                c->err, "a paced job has no weights to save; leave it out");
    }
    return SC_OK;
}

sc_status sc_job_check_all(sc_job *job, const sc_job_mark *marks, sc_err *err)
{
    checker c = {.job = job, .marks = marks, .file = {.source = job->path}, .err = err};
    SC_TRY(check_needed(&c));
    SC_TRY(check_name(&c));
    SC_TRY(check_schedule(&c));
    SC_TRY(check_cells(&c));
    SC_TRY(check_optimizer(&c));
    SC_TRY(check_workers(&c));
    SC_TRY(check_texts(&c));
    SC_TRY(check_checkpoint(&c));
    if (job->device == SC_JOB_PACED) {
        return SC_OK; // no model: its keys are not used
    }
    SC_TRY(check_heads(&c));
    SC_TRY(check_spec(&c, &job->model));
    SC_TRY(check_sequence(&c));
    SC_TRY(check_recompute(&c));
    SC_TRY(check_stages(&c));
    return check_layers(&c);
}
