#include "coordinator/io/coord.h"
#include "schedules/svg.h"
#include "schedules/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    NAME_MAX_BYTES = 128
};

/* timeline.svg is the schedule's that ran last, timeline-NAME.svg another's; a file's path is made
 * a name. */
static void file_name(const sc_coord *c, const sc_coord_schedule *sched, const char *stem,
                      const char *ending, char *out, size_t n)
{
    if (sched == c->cur) {
        snprintf(out, n, "%s.%s", stem, ending);
        return;
    }
    int used = snprintf(out, n, "%s-%.64s.%s", stem, sched->plan->schedule, ending);
    for (int i = 0; i < used && (size_t)i < n; i++) {
        if (out[i] == '/' || out[i] == ':') {
            out[i] = '_';
        }
    }
}

/* The latest step's spans of every rank, in milliseconds from the first start. */
static sc_status measured_spans(sc_coord *c, const sc_coord_schedule *sched, sc_span ***spans_p,
                                size_t **n_p, sc_err *err)
{
    size_t n_ranks = (size_t)sched->plan->n_ranks;
    sc_span **spans = sc_arena_alloc(&c->arena, n_ranks, sizeof(sc_span *));
    size_t *n = sc_arena_alloc(&c->arena, n_ranks, sizeof *n);
    int64_t first_ns = INT64_MAX;
    if (spans == NULL || n == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for a picture of %zu ranks", n_ranks);
    }
    for (size_t r = 0; r < n_ranks; r++) {
        const sc_coord_spans *last = &sched->last_spans[r];
        if (last->n > 0 && last->spans[0].start_ns < first_ns) {
            first_ns = last->spans[0].start_ns;
        }
    }
    for (size_t r = 0; r < n_ranks; r++) {
        const sc_coord_spans *last = &sched->last_spans[r];
        n[r] = last->n;
        spans[r] = sc_arena_alloc(&c->arena, last->n, sizeof **spans);
        if (spans[r] == NULL) {
            return sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu spans", last->n);
        }
        for (size_t i = 0; i < last->n; i++) {
            const sc_msg_span *span = &last->spans[i];
            spans[r][i].action = (sc_action){(sc_op)span->op, (int)span->stage, (int)span->mb};
            spans[r][i].start = (double)(span->start_ns - first_ns) / 1e6;
            spans[r][i].end = (double)(span->end_ns - first_ns) / 1e6;
        }
    }
    *spans_p = spans;
    *n_p = n;
    return SC_OK;
}

static sc_status simulate_ms(sc_coord *c, const sc_coord_schedule *sched,
                             const sc_bubble_result *result, sc_timeline **out, sc_err *err)
{
    size_t n = (size_t)sched->plan->n_stages;
    sc_stage_cost *costs = sc_arena_alloc(&c->arena, n, sizeof *costs);
    if (costs == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the costs of %zu stages", n);
    }
    for (size_t s = 0; s < n; s++) {
        costs[s].f = result->costs[s].f / 1e6;
        costs[s].i = result->costs[s].i / 1e6;
        costs[s].w = result->costs[s].w / 1e6;
    }
    sc_costs model = {.stages = costs, .comm = result->comm_ns / 1e6};
    return sc_simulate_run(sched->plan->compute, &model, out, err);
}

/* Planned (simulated with measured costs) above measured. */
static sc_status draw_timeline(sc_coord *c, const sc_coord_schedule *sched,
                               const sc_bubble_result *result, sc_err *err)
{
    sc_status status = SC_OK;
    sc_timeline *planned = NULL;
    char *svg = NULL;
    char file[NAME_MAX_BYTES];
    sc_span **spans = NULL;
    size_t *n_spans = NULL;
    char titles[2][160];
    sc_svg_panel panels[2];
    size_t n_panels = 0;
    sc_svg_options options = {.unit = "ms"};
    SC_GOTO(measured_spans(c, sched, &spans, &n_spans, err));
    if (result != NULL) {
        SC_GOTO(simulate_ms(c, sched, result, &planned, err));
        snprintf(titles[0], sizeof titles[0], "%s planned: bubble %.1f %%", sched->plan->schedule,
                 100 * result->simulated);
        panels[n_panels++] = sc_svg_panel_of(titles[0], planned);
        snprintf(titles[1], sizeof titles[1],
                 "%s measured, step %" PRIu64 ": bubble %.1f %% (median)", sched->plan->schedule,
                 sched->last_spans[0].step, 100 * result->measured);
    } else {
        snprintf(titles[1], sizeof titles[1], "%s measured, step %" PRIu64, sched->plan->schedule,
                 sched->last_spans[0].step);
    }
    panels[n_panels++] = (sc_svg_panel){titles[1], sched->plan->n_ranks, spans, n_spans};
    SC_GOTO(sc_svg_write(panels, n_panels, &options, &svg, err));
    file_name(c, sched, "timeline", "svg", file, sizeof file);
    SC_GOTO(sc_store_write(c->config->store, file, svg, err));
out:
    sc_simulate_free(&planned);
    free(svg);
    return status;
}

static sc_status write_trace(sc_coord *c, const sc_coord_schedule *sched, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n = 0;
    size_t at = 0;
    char *json = NULL;
    char file[NAME_MAX_BYTES];
    for (int r = 0; r < sched->plan->n_ranks; r++) {
        n += sched->last_spans[r].n;
    }
    sc_trace_span *spans = calloc(n + 1, sizeof *spans);
    if (spans == NULL) {
        return sc_status_errno(err, ENOMEM, "trace of %zu spans", n);
    }
    for (int r = 0; r < sched->plan->n_ranks; r++) {
        const sc_coord_spans *last = &sched->last_spans[r];
        for (size_t i = 0; i < last->n; i++) {
            const sc_msg_span *span = &last->spans[i];
            spans[at] = (sc_trace_span){.rank = r, .step = (int64_t)last->step};
            spans[at].action = (sc_action){(sc_op)span->op, (int)span->stage, (int)span->mb};
            spans[at].start_ns = (double)span->start_ns;
            spans[at++].end_ns = (double)span->end_ns;
        }
    }
    sc_trace trace = {.title = c->job->name, .n_ranks = sched->plan->n_ranks, .n_lanes = 1};
    trace.spans = spans;
    trace.n_spans = n;
    SC_GOTO(sc_trace_write(&trace, &json, err));
    file_name(c, sched, "trace", "json", file, sizeof file);
    SC_GOTO(sc_store_write(c->config->store, file, json, err));
out:
    free(spans);
    free(json);
    return status;
}

sc_status sc_coord_picture_write(sc_coord *c, const sc_coord_schedule *sched,
                                 const sc_bubble_result *result, sc_err *err)
{
    for (int r = 0; r < sched->plan->n_ranks; r++) {
        if (sched->last_spans[r].n == 0 || sched->last_spans[r].step != sched->last_spans[0].step) {
            return SC_OK; // the run ended within a step: there is no whole one to draw
        }
    }
    SC_TRY(write_trace(c, sched, err));
    return draw_timeline(c, sched, result, err);
}
