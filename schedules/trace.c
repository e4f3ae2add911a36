#include "schedules/trace.h"

#include "schedules/text.h"

#include <stdlib.h>

sc_status sc_trace_from_timeline(const sc_timeline *timeline, int64_t step, double ns_per_unit,
                                 sc_trace_span **out, size_t *n_out, sc_err *err)
{
    size_t n = 0;
    for (int rank = 0; rank < timeline->n_ranks; rank++) {
        n += timeline->n_spans[rank];
    }
    sc_trace_span *spans = calloc(n + 1, sizeof *spans);
    if (spans == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "a trace of %zu spans: out of memory", n);
    }
    size_t at = 0;
    for (int rank = 0; rank < timeline->n_ranks; rank++) {
        for (size_t i = 0; i < timeline->n_spans[rank]; i++) {
            sc_span span = timeline->spans[rank][i];
            spans[at++] = (sc_trace_span){.rank = rank,
                                          .step = step,
                                          .action = span.action,
                                          .start_ns = span.start * ns_per_unit,
                                          .end_ns = span.end * ns_per_unit};
        }
    }
    *out = spans;
    *n_out = n;
    return SC_OK;
}

/* A span to be sorted. */
typedef struct span_ref {
    const sc_trace_span *span;
} span_ref;

/* What a span makes or needs: F's activation or B's and I's gradient. */
static bool has_message(const sc_trace_span *span)
{
    return span->label == NULL && span->lane == 0 &&
           (span->action.op == SC_OP_F || span->action.op == SC_OP_B || span->action.op == SC_OP_I);
}

static int compare_int64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* By step, direction, microbatch, stage: a message's two ends are neighbours in this order. */
static int compare_spans(const void *a, const void *b)
{
    const sc_trace_span *x = ((const span_ref *)a)->span;
    const sc_trace_span *y = ((const span_ref *)b)->span;
    int by_step = compare_int64(x->step, y->step);
    int by_way = compare_int64(x->action.op != SC_OP_F, y->action.op != SC_OP_F);
    int by_mb = compare_int64(x->action.mb, y->action.mb);
    if (by_step != 0) {
        return by_step;
    }
    if (by_way != 0) {
        return by_way;
    }
    return by_mb != 0 ? by_mb : compare_int64(x->action.stage, y->action.stage);
}

static bool is_same_message(const sc_trace_span *low, const sc_trace_span *high)
{
    return low->step == high->step && low->action.mb == high->action.mb &&
           (low->action.op == SC_OP_F) == (high->action.op == SC_OP_F) &&
           low->action.stage + 1 == high->action.stage && low->rank != high->rank;
}

static void write_flow(sc_text *text, size_t id, const sc_trace_span *from, const sc_trace_span *to)
{
    const char *name = from->action.op == SC_OP_F ? "activation" : "gradient";
    // An arrow binds to the span around its time: the sender's must not lie behind its end.
    sc_text_add(text,
                ",\n{\"ph\":\"s\",\"id\":%zu,\"cat\":\"message\",\"name\":\"%s\",\"pid\":%d,"
                "\"tid\":%d,\"ts\":%.3f}",
                id, name, from->rank, from->lane, from->end_ns / 1e3);
    sc_text_add(text,
                ",\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%zu,\"cat\":\"message\",\"name\":\"%s\","
                "\"pid\":%d,\"tid\":%d,\"ts\":%.3f}",
                id, name, to->rank, to->lane, to->start_ns / 1e3);
}

static sc_status write_flows(sc_text *text, const sc_trace *trace, sc_err *err)
{
    span_ref *order = malloc((trace->n_spans + 1) * sizeof *order);
    if (order == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "a trace of %zu spans: out of memory",
                              trace->n_spans);
    }
    size_t n = 0;
    for (size_t i = 0; i < trace->n_spans; i++) {
        if (has_message(&trace->spans[i])) {
            order[n++].span = &trace->spans[i];
        }
    }
    qsort(order, n, sizeof *order, compare_spans);
    for (size_t i = 0; i + 1 < n; i++) {
        const sc_trace_span *low = order[i].span;
        const sc_trace_span *high = order[i + 1].span;
        if (!is_same_message(low, high)) {
            continue;
        }
        bool is_forward = low->action.op == SC_OP_F;
        write_flow(text, i, is_forward ? low : high, is_forward ? high : low);
    }
    free(order);
    return SC_OK;
}

static void write_names(sc_text *text, const sc_trace *trace)
{
    for (int rank = 0; rank < trace->n_ranks; rank++) {
        sc_text_add(text,
                    ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"",
                    rank);
        if (trace->rank_names != NULL) {
            sc_text_add_json(text, trace->rank_names[rank]);
        } else {
            sc_text_add(text, "rank %d", rank);
        }
        sc_text_add(text,
                    "\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,"
                    "\"args\":{\"sort_index\":%d}}",
                    rank, rank);
        for (int lane = 0; lane < trace->n_lanes; lane++) {
            sc_text_add(text,
                        ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{"
                        "\"name\":\"",
                        rank, lane);
            if (trace->lane_names != NULL) {
                sc_text_add_json(text, trace->lane_names[lane]);
            } else if (lane == 0) {
                sc_text_add(text, "compute");
            } else {
                sc_text_add(text, "lane %d", lane);
            }
            sc_text_add(text, "\"}}");
        }
    }
}

/* Names of Chrome's fixed palette, so that operations are told apart at a glance. */
static const char *colour(sc_op op)
{
    switch (op) {
    case SC_OP_F:
        return "thread_state_running";
    case SC_OP_B:
        return "rail_response";
    case SC_OP_I:
        return "rail_animation";
    case SC_OP_W:
        return "rail_load";
    default:
        return "grey";
    }
}

static void write_span(sc_text *text, const sc_trace_span *span)
{
    sc_text_add(text, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"",
                span->rank, span->lane, span->start_ns / 1e3,
                (span->end_ns - span->start_ns) / 1e3);
    if (span->label != NULL) {
        sc_text_add_json(text, span->label);
        sc_text_add(text, "\",\"cat\":\"other\",\"args\":{\"step\":%lld}}", (long long)span->step);
        return;
    }
    char name[SC_ACTION_TEXT_MAX];
    sc_text_add(text,
                "%s\",\"cat\":\"%s\",\"cname\":\"%s\",\"args\":{\"step\":%lld,\"stage\":%d,"
                "\"microbatch\":%d}}",
                sc_action_format(span->action, name, sizeof name),
                sc_action_op_text(span->action.op), colour(span->action.op), (long long)span->step,
                span->action.stage, span->action.mb);
}

sc_status sc_trace_write(const sc_trace *trace, char **out, sc_err *err)
{
    sc_text text = {0};
    sc_text_add(&text, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":\"");
    sc_text_add_json(&text, trace->title);
    sc_text_add(&text, "\"},\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"trace_title\",\"pid\":0,"
                       "\"args\":{\"name\":\"");
    sc_text_add_json(&text, trace->title);
    sc_text_add(&text, "\"}}");
    write_names(&text, trace);
    for (size_t i = 0; i < trace->n_spans; i++) {
        write_span(&text, &trace->spans[i]);
    }
    sc_status status = write_flows(&text, trace, err);
    if (status != SC_OK) {
        sc_text_free(&text);
        return status;
    }
    sc_text_add(&text, "\n]}\n");
    return sc_text_take(&text, out, err);
}
