#include "cli/scheduleview.h"

#include "cli/cmd.h"
#include "cli/png.h"
#include "schedules/gantt.h"
#include "schedules/svg.h"
#include "schedules/trace.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TITLE_MAX = 200
};

double sc_scheduleview_peak(const sc_table *table, int rank)
{
    return (double)sc_validate_peak(table, rank, -1) * table->n_ranks / table->n_stages;
}

sc_scheduleview_bubbles sc_scheduleview_measure(const sc_timeline *timeline)
{
    double idle = timeline->makespan - timeline->ideal;
    return (sc_scheduleview_bubbles){
        .of_cost = timeline->bubble,
        .of_total = timeline->makespan > 0 ? idle / timeline->makespan : 0,
        .of_ideal = timeline->ideal > 0 ? idle / timeline->ideal : 0,
    };
}

/* Marks the stages that have actions in a row; with replicated stages, placement alone does not
   tell. */
static void find_stages(const sc_row *row, bool *has_stage, int n_stages)
{
    memset(has_stage, 0, (size_t)n_stages * sizeof *has_stage);
    for (size_t i = 0; i < row->n_actions; i++) {
        has_stage[row->actions[i].stage] = true;
    }
}

static bool add_number(cJSON *array, double value)
{
    cJSON *number = cJSON_CreateNumber(value);
    return number != NULL && cJSON_AddItemToArray(array, number);
}

static bool add_bubbles(const sc_timeline *timeline, cJSON *root)
{
    sc_scheduleview_bubbles bubbles = sc_scheduleview_measure(timeline);
    cJSON *object = cJSON_AddObjectToObject(root, "bubbles");
    return object != NULL &&
           cJSON_AddNumberToObject(object, "zero_bubble", bubbles.of_cost) != NULL &&
           cJSON_AddNumberToObject(object, "gpipe", bubbles.of_total) != NULL &&
           cJSON_AddNumberToObject(object, "megatron", bubbles.of_ideal) != NULL;
}

/* "peak": microbatches of each rank; "ranks": which stages each has. */
static bool add_ranks(const sc_table *table, cJSON *root)
{
    bool *has_stage = calloc((size_t)table->n_stages, sizeof *has_stage);
    cJSON *peaks = cJSON_AddArrayToObject(root, "peak");
    cJSON *ranks = cJSON_AddArrayToObject(root, "ranks");
    bool ok = has_stage != NULL && peaks != NULL && ranks != NULL;
    for (int rank = 0; ok && rank < table->n_ranks; rank++) {
        find_stages(&table->rows[rank], has_stage, table->n_stages);
        cJSON *stages = cJSON_CreateArray();
        ok = stages != NULL && cJSON_AddItemToArray(ranks, stages) &&
             add_number(peaks, sc_scheduleview_peak(table, rank));
        for (int stage = 0; ok && stage < table->n_stages; stage++) {
            ok = !has_stage[stage] || add_number(stages, stage);
        }
    }
    free(has_stage);
    return ok;
}

/* Fills the JSON object; false when out of memory. */
static bool fill_json(const sc_scheduleview *view, cJSON *root)
{
    const sc_table *table = view->table;
    bool ok = cJSON_AddStringToObject(root, "name", table->name) != NULL;
    if (view->file != NULL) {
        ok = ok && cJSON_AddStringToObject(root, "file", view->file) != NULL &&
             cJSON_AddBoolToObject(root, "ok", true) != NULL;
    }
    ok = ok && cJSON_AddNumberToObject(root, "p", table->n_ranks) != NULL &&
         cJSON_AddNumberToObject(root, "stages", table->n_stages) != NULL &&
         cJSON_AddNumberToObject(root, "m", table->n_mb) != NULL &&
         cJSON_AddBoolToObject(root, "forward_only", table->is_forward_only) != NULL;
    if (view->timeline != NULL) {
        ok = ok && cJSON_AddNumberToObject(root, "cost", view->timeline->cost) != NULL &&
             cJSON_AddNumberToObject(root, "makespan", view->timeline->makespan) != NULL &&
             cJSON_AddNumberToObject(root, "ideal", view->timeline->ideal) != NULL &&
             cJSON_AddNumberToObject(root, "bubble", view->timeline->bubble) != NULL &&
             add_bubbles(view->timeline, root);
    }
    ok = ok && add_ranks(table, root) &&
         cJSON_AddBoolToObject(root, "ordered_w", view->report->has_ordered_w) != NULL &&
         cJSON_AddBoolToObject(root, "blocking_deadlock", view->report->is_blocking_deadlock) !=
             NULL;
    if (view->report->is_blocking_deadlock) {
        ok = ok && cJSON_AddStringToObject(root, "blocking", view->report->blocking.text) != NULL;
    }
    return ok;
}

sc_status sc_scheduleview_print_json(const sc_scheduleview *view, sc_err *err)
{
    char *text = NULL;
    cJSON *root = cJSON_CreateObject();
    if (root != NULL && fill_json(view, root)) {
        text = cJSON_Print(root);
    }
    cJSON_Delete(root);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for the JSON text");
    }
    (void)puts(text);
    cJSON_free(text);
    return SC_OK;
}

sc_status sc_scheduleview_print_gantt(const sc_scheduleview *view, int width, bool has_colour,
                                      sc_err *err)
{
    char *text = NULL;
    sc_gantt_options options = {width, has_colour};
    SC_TRY(sc_gantt_write(view->timeline, &options, &text, err));
    (void)fputs(text, stdout);
    free(text);
    return SC_OK;
}

void sc_scheduleview_print_summary(const sc_scheduleview *view)
{
    const sc_table *table = view->table;
    const sc_timeline *timeline = view->timeline;
    (void)printf("%s: p %d, stages %d, m %d%s", table->name, table->n_ranks, table->n_stages,
                 table->n_mb, table->is_forward_only ? ", forward only" : "");
    if (timeline == NULL) {
        (void)putchar('\n');
        return;
    }
    sc_scheduleview_bubbles bubbles = sc_scheduleview_measure(timeline);
    (void)printf("; cost %.6g, makespan %.6g, ideal %.6g\n", timeline->cost, timeline->makespan,
                 timeline->ideal);
    (void)printf("bubble %.2f %% of the cost (Zero Bubble's convention), %.2f %% of the makespan "
                 "(GPipe's), %.2f %% of the ideal (Megatron-LM's)\n",
                 100 * bubbles.of_cost, 100 * bubbles.of_total, 100 * bubbles.of_ideal);
    (void)printf("peak");
    for (int rank = 0; rank < table->n_ranks; rank++) {
        (void)printf(" %.4g", sc_scheduleview_peak(table, rank));
    }
    (void)printf(" microbatches on rank 0%s\n", table->n_ranks > 1 ? ", 1, ..." : "");
}

/* "rank 0: stages 0 7, peak 4.5 microbatches" of every rank. */
static sc_status print_placement(const sc_table *table, sc_err *err)
{
    bool *has_stage = calloc((size_t)table->n_stages, sizeof *has_stage);
    if (has_stage == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", table->n_stages);
    }
    for (int rank = 0; rank < table->n_ranks; rank++) {
        find_stages(&table->rows[rank], has_stage, table->n_stages);
        (void)printf("rank %d: stages", rank);
        for (int stage = 0; stage < table->n_stages; stage++) {
            if (has_stage[stage]) {
                (void)printf(" %d", stage);
            }
        }
        (void)printf(", peak %.4g microbatches\n", sc_scheduleview_peak(table, rank));
    }
    free(has_stage);
    return SC_OK;
}

sc_status sc_scheduleview_print_report(const sc_scheduleview *view, sc_err *err)
{
    const sc_validate_report *report = view->report;
    SC_TRY(print_placement(view->table, err));
    if (report->is_blocking_deadlock) {
        (void)printf("where every SEND and RECV blocks in place: %s (this engine's sends do not "
                     "block)\n",
                     report->blocking.text);
    } else {
        (void)printf("where every SEND and RECV blocks in place: no deadlock\n");
    }
    (void)printf("weight gradients of a stage in microbatch order: %s\n",
                 report->has_ordered_w ? "yes"
                                       : "no (losses will not be bit-equal to other schedules')");
    return SC_OK;
}

sc_status sc_scheduleview_print_rows(const sc_table *table, sc_err *err)
{
    for (int rank = 0; rank < table->n_ranks; rank++) {
        char *text = NULL;
        SC_TRY(sc_table_row_format(table, rank, &text, err));
        (void)printf("rank %d: %s\n", rank, text);
        free(text);
    }
    return SC_OK;
}

static void write_title(const sc_scheduleview *view, char *out, size_t n)
{
    sc_scheduleview_costs costs = view->costs;
    (void)snprintf(out, n, "%s, p = %d, m = %d, F,I,W,COMM = %.6g,%.6g,%.6g,%.6g: bubble %.2f %%",
                   view->table->name, view->table->n_ranks, view->table->n_mb, costs.f, costs.i,
                   costs.w, costs.comm, 100 * view->timeline->bubble);
}

static sc_status draw(const sc_scheduleview *view, char **out, sc_err *err)
{
    char title[TITLE_MAX];
    write_title(view, title, sizeof title);
    sc_svg_panel panel = sc_svg_panel_of(title, view->timeline);
    return sc_svg_write(&panel, 1, &(sc_svg_options){0, NULL}, out, err);
}

sc_status sc_scheduleview_write_svg(const sc_scheduleview *view, const char *path, sc_err *err)
{
    char *text = NULL;
    SC_TRY(draw(view, &text, err));
    sc_status status = sc_cmd_write_file(path, text, strlen(text), err);
    free(text);
    return status;
}

sc_status sc_scheduleview_write_png(const sc_scheduleview *view, const char *path, sc_err *err)
{
    char *text = NULL;
    SC_TRY(draw(view, &text, err));
    sc_status status = sc_png_write(text, strlen(text), path, err);
    free(text);
    return status;
}

sc_status sc_scheduleview_write_trace(const sc_scheduleview *view, const char *path, sc_err *err)
{
    const double ns_per_unit = 1e6; // a unit of the costs is shown as a millisecond
    char title[TITLE_MAX];
    write_title(view, title, sizeof title);
    sc_status status = SC_OK;
    sc_trace_span *spans = NULL;
    size_t n = 0;
    char *text = NULL;
    SC_GOTO(sc_trace_from_timeline(view->timeline, 0, ns_per_unit, &spans, &n, err));
    sc_trace trace = {.title = title,
                      .n_ranks = view->table->n_ranks,
                      .n_lanes = 1,
                      .spans = spans,
                      .n_spans = n};
    SC_GOTO(sc_trace_write(&trace, &text, err));
    SC_GOTO(sc_cmd_write_file(path, text, strlen(text), err));
out:
    free(text);
    free(spans);
    return status;
}
