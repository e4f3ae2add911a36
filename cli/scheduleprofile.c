#include "cli/scheduleprofile.h"

#include "cli/cmd.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILE_BYTES_MAX = 64 << 20
};

/* One file of the run folder, for messages. */
typedef struct source {
    char path[PATH_MAX];
    cJSON *root;
} source;

static sc_status open_source(const char *run_dir, const char *name, source *out, sc_err *err)
{
    char *text = NULL;
    size_t n = 0;
    int length = snprintf(out->path, sizeof out->path, "%s/%s", run_dir, name);
    if (length < 0 || (size_t)length >= sizeof out->path) {
        return sc_status_fail(err, SC_LIMIT, "the run folder's path is too long");
    }
    SC_TRY(sc_cmd_read_file(out->path, FILE_BYTES_MAX, &text, &n, err));
    out->root = cJSON_ParseWithLength(text, n);
    free(text);
    if (!cJSON_IsObject(out->root)) {
        return sc_status_fail(err, SC_INVALID, "%s: not a JSON object", out->path);
    }
    return SC_OK;
}

/* A finite number that is not negative; `index` is the entry of "stages", -1 for the file's own. */
static sc_status take_number(const source *from, const cJSON *object, int index, const char *key,
                             double *out, sc_err *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (cJSON_IsNumber(item) && isfinite(item->valuedouble) && item->valuedouble >= 0) {
        *out = item->valuedouble;
        return SC_OK;
    }
    if (index >= 0) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: stages[%d].%s is missing or no number from 0 on", from->path,
                              index, key);
    }
    return sc_status_fail(err, SC_INVALID, "%s: %s is missing or no number from 0 on", from->path,
                          key);
}

static sc_status take_count(const source *from, const char *key, int most, int *out, sc_err *err)
{
    double value = 0;
    SC_TRY(take_number(from, from->root, -1, key, &value, err));
    if (value < 1 || value > most || value != floor(value)) {
        return sc_status_fail(err, SC_INVALID, "%s: %s is %g; expected 1 to %d", from->path, key,
                              value, most);
    }
    *out = (int)value;
    return SC_OK;
}

/* "stages" of a file, one entry a stage. */
static sc_status find_stages(const source *from, int n_stages, const cJSON **out, sc_err *err)
{
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(from->root, "stages");
    if (!cJSON_IsArray(stages) || cJSON_GetArraySize(stages) != n_stages) {
        return sc_status_fail(err, SC_INVALID, "%s: stages is missing or has not %d entries",
                              from->path, n_stages);
    }
    *out = stages->child;
    return SC_OK;
}

static sc_status take_plan(const source *plan, sc_scheduleprofile *out, sc_err *err)
{
    const char *name =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(plan->root, "schedule"));
    (void)snprintf(out->schedule, sizeof out->schedule, "%s", name != NULL ? name : "?");
    SC_TRY(take_count(plan, "pipeline_parallel", SC_STAGES_MAX, &out->n_ranks, err));
    SC_TRY(take_count(plan, "n_stages", SC_STAGES_MAX, &out->n_stages, err));
    SC_TRY(take_count(plan, "num_microbatches", SC_MICROBATCHES_MAX, &out->n_mb, err));
    out->rank_of_stage = calloc((size_t)out->n_stages, sizeof *out->rank_of_stage);
    out->stages = calloc((size_t)out->n_stages, sizeof *out->stages);
    if (out->rank_of_stage == NULL || out->stages == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", out->n_stages);
    }
    const cJSON *entry = NULL;
    SC_TRY(find_stages(plan, out->n_stages, &entry, err));
    for (int s = 0; s < out->n_stages && entry != NULL; s++, entry = entry->next) {
        double rank = 0;
        double bytes = 0;
        SC_TRY(take_number(plan, entry, s, "rank", &rank, err));
        SC_TRY(take_number(plan, entry, s, "message_bytes", &bytes, err));
        if (rank >= out->n_ranks || rank != floor(rank)) {
            return sc_status_fail(err, SC_INVALID, "%s: stages[%d].rank is %g of %d ranks",
                                  plan->path, s, rank, out->n_ranks);
        }
        out->rank_of_stage[s] = (int)rank;
        out->message_bytes = fmax(out->message_bytes, bytes);
    }
    return SC_OK;
}

static sc_status take_summary(const source *summary, sc_scheduleprofile *out, sc_err *err)
{
    const cJSON *entry = NULL;
    SC_TRY(take_number(summary, summary->root, -1, "comm_ms", &out->comm_ms, err));
    SC_TRY(find_stages(summary, out->n_stages, &entry, err));
    for (int s = 0; s < out->n_stages && entry != NULL; s++, entry = entry->next) {
        SC_TRY(take_number(summary, entry, s, "f_ms", &out->stages[s].f, err));
        SC_TRY(take_number(summary, entry, s, "i_ms", &out->stages[s].i, err));
        SC_TRY(take_number(summary, entry, s, "w_ms", &out->stages[s].w, err));
    }
    return SC_OK;
}

sc_status sc_scheduleprofile_read(const char *run_dir, sc_scheduleprofile *out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_scheduleprofile profile = {0};
    source plan = {.root = NULL};
    source summary = {.root = NULL};
    SC_GOTO(open_source(run_dir, "plan.json", &plan, err));
    SC_GOTO(open_source(run_dir, "summary.json", &summary, err));
    SC_GOTO(take_plan(&plan, &profile, err));
    SC_GOTO(take_summary(&summary, &profile, err));
    *out = profile;
    profile = (sc_scheduleprofile){0};
out:
    cJSON_Delete(summary.root);
    cJSON_Delete(plan.root);
    sc_scheduleprofile_done(&profile);
    return status;
}

void sc_scheduleprofile_done(sc_scheduleprofile *profile)
{
    free(profile->stages);
    free(profile->rank_of_stage);
    *profile = (sc_scheduleprofile){0};
}

static void add_cost(sc_stage_cost *sum, sc_stage_cost cost, double share)
{
    sum->f += cost.f * share;
    sum->i += cost.i * share;
    sum->w += cost.w * share;
}

sc_stage_cost sc_scheduleprofile_average(const sc_scheduleprofile *profile, int n_ranks)
{
    sc_stage_cost sum = {0};
    for (int s = 0; s < profile->n_stages; s++) {
        add_cost(&sum, profile->stages[s], 1.0 / n_ranks);
    }
    return sum;
}

/* Stages that a table places on a rank. */
static int count_stages(const sc_table *table, int rank)
{
    int n = 0;
    for (int s = 0; s < table->n_stages; s++) {
        n += table->rank_of_stage[s] == rank;
    }
    return n;
}

sc_scheduleprofile_fit sc_scheduleprofile_apply(const sc_scheduleprofile *profile,
                                                const sc_table *table, sc_stage_cost *out)
{
    if (table->n_stages == profile->n_stages) {
        memcpy(out, profile->stages, (size_t)profile->n_stages * sizeof *out);
        return SC_SCHEDULEPROFILE_BY_STAGE;
    }
    bool is_by_rank = table->n_ranks == profile->n_ranks;
    for (int s = 0; s < table->n_stages; s++) {
        int rank = table->rank_of_stage[s];
        double share = is_by_rank ? 1.0 / count_stages(table, rank) : 1.0 / table->n_stages;
        out[s] = (sc_stage_cost){0};
        for (int from = 0; from < profile->n_stages; from++) {
            if (!is_by_rank || profile->rank_of_stage[from] == rank) {
                add_cost(&out[s], profile->stages[from], share);
            }
        }
    }
    return is_by_rank ? SC_SCHEDULEPROFILE_BY_RANK : SC_SCHEDULEPROFILE_EVENLY;
}
