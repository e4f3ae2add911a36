#include "cli/scheduleview.h"

#include "cli/cmd.h"
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

/* Peak of a rank in microbatches: each of its stages holds a part of one. */
static double peak_of(const sc_table *table, int rank)
{
    int n_stages = 0;
    for (int stage = 0; stage < table->n_stages; stage++) {
        n_stages += table->rank_of_stage[stage] == rank;
    }
    return (double)sc_validate_peak(table, rank, -1) / n_stages;
}

/* (cost - m(F + I + W)) / cost; a forward-only table has only F to do. */
static double bubble_of(const sc_scheduleview *view)
{
    sc_scheduleview_costs costs = view->costs;
    double work = view->table->is_forward_only ? costs.f : costs.f + costs.i + costs.w;
    double cost = view->timeline->cost;
    return cost > 0 ? (cost - view->table->n_mb * work) / cost : 0;
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
             cJSON_AddNumberToObject(root, "bubble", bubble_of(view)) != NULL;
    }
    cJSON *peaks = cJSON_AddArrayToObject(root, "peak");
    ok = ok && peaks != NULL;
    for (int rank = 0; ok && rank < table->n_ranks; rank++) {
        cJSON *peak = cJSON_CreateNumber(peak_of(table, rank));
        ok = peak != NULL && cJSON_AddItemToArray(peaks, peak);
    }
    ok = ok && cJSON_AddBoolToObject(root, "ordered_w", view->report->has_ordered_w) != NULL &&
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
    (void)printf("%s: p %d, stages %d, m %d%s;", table->name, table->n_ranks, table->n_stages,
                 table->n_mb, table->is_forward_only ? ", forward only" : "");
    if (view->timeline != NULL) {
        (void)printf(" cost %.6g, makespan %.6g, bubble %.2f %%;", view->timeline->cost,
                     view->timeline->makespan, 100 * bubble_of(view));
    }
    (void)printf(" peak");
    for (int rank = 0; rank < table->n_ranks; rank++) {
        (void)printf(" %.4g", peak_of(table, rank));
    }
    (void)printf(" microbatches on rank 0%s\n", table->n_ranks > 1 ? ", 1, ..." : "");
}

void sc_scheduleview_print_report(const sc_scheduleview *view)
{
    const sc_validate_report *report = view->report;
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
                   costs.w, costs.comm, 100 * bubble_of(view));
}

sc_status sc_scheduleview_write_svg(const sc_scheduleview *view, const char *path, sc_err *err)
{
    char title[TITLE_MAX];
    write_title(view, title, sizeof title);
    sc_svg_panel panel = sc_svg_panel_of(title, view->timeline);
    char *text = NULL;
    SC_TRY(sc_svg_write(&panel, 1, &(sc_svg_options){0, NULL}, &text, err));
    sc_status status = sc_cmd_write_file(path, text, strlen(text), err);
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
