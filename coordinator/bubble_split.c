#include "coordinator/bubble_split.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

bool sc_bubble_split_has_input(const sc_msg_span *span)
{
    return span->arrived_ns != 0;
}

/* The stage that sent an action's last input: activations come from the stage before, gradients
   from the one behind. */
static int sender_of(const sc_msg_span *span)
{
    return span->op == SC_OP_F ? (int)span->stage - 1 : (int)span->stage + 1;
}

int64_t sc_bubble_split_ready_ns(const sc_msg_span *span, const int64_t *offset_ns,
                                 const int *rank_of_stage)
{
    int64_t offset = offset_ns == NULL ? 0 : offset_ns[rank_of_stage[sender_of(span)]];
    return span->sent_ready_ns + offset;
}

static bool may_receive(const sc_table *table, const sc_msg_span *span)
{
    int sender = sender_of(span);
    return span->op != SC_OP_W && sender >= 0 && sender < table->n_stages;
}

static bool has_orderly_times(const sc_msg_span *span)
{
    return span->end_ns >= span->start_ns && span->weight_ns >= 0 &&
           span->weight_ns <= span->end_ns - span->start_ns;
}

static sc_status check_span(const sc_table *table, const sc_msg_report *report, size_t i,
                            sc_err *err)
{
    const sc_msg_span *span = &report->spans[i];
    sc_action expected = table->rows[report->rank].actions[i];
    sc_action is = {(sc_op)span->op, (int)span->stage, span->mb};
    char fault[128];
    if (!sc_action_equals(is, expected)) {
        snprintf(fault, sizeof fault, "reports op %" PRIu32 " of stage %" PRIu32 " mb %" PRId32,
                 span->op, span->stage, span->mb);
    } else if (!has_orderly_times(span)) {
        snprintf(fault, sizeof fault,
                 "from %" PRId64 " to %" PRId64 " ns with %" PRId64 " ns of weight gradients",
                 span->start_ns, span->end_ns, span->weight_ns);
    } else if (sc_bubble_split_has_input(span) && !may_receive(table, span)) {
        snprintf(fault, sizeof fault, "received something, but nobody sends to it");
    } else {
        return SC_OK;
    }
    char text[SC_ACTION_TEXT_MAX];
    sc_action_format(expected, text, sizeof text);
    return sc_status_fail(err, SC_PROTOCOL, "rank %" PRIu32 " step %" PRIu64 " action %zu (%s): %s",
                          report->rank, report->step, i, text, fault);
}

sc_status sc_bubble_split_check(const sc_table *table, const sc_msg_report *report, sc_err *err)
{
    assert(!table->is_lowered);
    if (report->rank >= (uint32_t)table->n_ranks) {
        return sc_status_fail(err, SC_PROTOCOL, "report of rank %" PRIu32 ", there are %d",
                              report->rank, table->n_ranks);
    }
    size_t n_actions = table->rows[report->rank].n_actions;
    if (report->n_spans != n_actions) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "rank %" PRIu32 " step %" PRIu64
                              ": reports %zu actions, its row has %zu",
                              report->rank, report->step, report->n_spans, n_actions);
    }
    for (size_t i = 0; i < n_actions; i++) {
        SC_TRY(check_span(table, report, i, err));
    }
    if (report->window_end_ns < report->window_start_ns || report->reduce_ns < 0 ||
        report->tail_wait_ns < 0 || report->optimizer_ns < 0) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "rank %" PRIu32 " step %" PRIu64 ": window from %" PRId64
                              " to %" PRId64 " ns with %" PRId64 " and %" PRId64 " ns of tail",
                              report->rank, report->step, report->window_start_ns,
                              report->window_end_ns, report->reduce_ns, report->optimizer_ns);
    }
    return SC_OK;
}

static int64_t clip(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* The time [e, s] before an action: four borders, each clipped behind the one before. */
static void split_gap(const sc_msg_span *span, int64_t ready_ns, int64_t e, int64_t s,
                      sc_bubble_split *out)
{
    int64_t at = e;
    if (sc_bubble_split_has_input(span)) {
        int64_t ready = clip(ready_ns, e, s);
        int64_t posted = clip(span->posted_ns, ready, s);
        int64_t arrived = clip(span->arrived_ns, posted, s);
        out->ns[SC_CAUSE_WAIT] += ready - e;
        out->ns[SC_CAUSE_BUFFER] += posted - ready;
        out->ns[SC_CAUSE_TRANSFER] += arrived - posted;
        at = arrived;
    }
    out->ns[SC_CAUSE_CONTROL] += s - at;
}

static void split_compute(const sc_msg_span *span, int64_t ns, sc_bubble_split *out)
{
    int64_t weight = 0;
    switch (span->op) {
    case SC_OP_F:
        out->ns[SC_CAUSE_FORWARD] += ns;
        return;
    case SC_OP_B:
        weight = clip(span->weight_ns, 0, ns);
        break;
    case SC_OP_W:
        weight = ns;
        break;
    default:
        assert(span->op == SC_OP_I);
    }
    out->ns[SC_CAUSE_BACKWARD_WEIGHT] += weight;
    out->ns[SC_CAUSE_BACKWARD_INPUT] += ns - weight;
}

void sc_bubble_split_report(const sc_msg_report *report, const int64_t *offset_ns,
                            const int *rank_of_stage, sc_bubble_split *out)
{
    sc_bubble_split split = {.window_ns = report->window_end_ns - report->window_start_ns};
    int64_t end = report->window_end_ns;
    int64_t at = report->window_start_ns;
    for (size_t i = 0; i < report->n_spans; i++) {
        const sc_msg_span *span = &report->spans[i];
        int64_t start = clip(span->start_ns, at, end);
        int64_t ready = sc_bubble_split_has_input(span)
                            ? sc_bubble_split_ready_ns(span, offset_ns, rank_of_stage)
                            : 0;
        split_gap(span, ready, at, start, &split);
        at = clip(span->end_ns, start, end);
        split_compute(span, at - start, &split);
    }
    split.ns[SC_CAUSE_OPTIMIZER] = clip(report->optimizer_ns, 0, end - at);
    at += split.ns[SC_CAUSE_OPTIMIZER];
    split.ns[SC_CAUSE_REDUCE] = clip(report->reduce_ns, 0, end - at);
    at += split.ns[SC_CAUSE_REDUCE];
    int64_t tail_wait = clip(report->tail_wait_ns, 0, end - at);
    split.ns[SC_CAUSE_WAIT] += tail_wait;
    at += tail_wait;
    split.ns[SC_CAUSE_IDLE] = end - at;

    int64_t sum = 0;
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        sum += split.ns[c];
    }
    assert(sum == split.window_ns);
    *out = split;
}
