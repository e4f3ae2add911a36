#include "coordinator/planner_slots.h"

/* F's message goes up to stage `to`, that of B or I down. */
static bool passes(sc_action a, bool is_gradient)
{
    return is_gradient ? a.op == SC_OP_B || a.op == SC_OP_I : a.op == SC_OP_F;
}

/* Most messages between two stages that were begun and whose reader has not ended. Both rows are in
   the order of time, so one walk over both is enough. */
static int most_ahead(const sc_table *table, const sc_timeline *timeline, int from, int to)
{
    const int sender = table->rank_of_stage[from];
    const int reader = table->rank_of_stage[to];
    const bool is_gradient = to < from;
    size_t at = 0; // in the reader's row
    int ahead = 0;
    int most = 0;
    for (size_t i = 0; i < timeline->n_spans[sender]; i++) {
        const sc_span *sent = &timeline->spans[sender][i];
        if (sent->action.stage != from || !passes(sent->action, is_gradient)) {
            continue;
        }
        while (at < timeline->n_spans[reader] && timeline->spans[reader][at].end <= sent->start) {
            sc_action a = timeline->spans[reader][at++].action;
            ahead -= a.stage == to && passes(a, is_gradient);
        }
        ahead++;
        most = ahead > most ? ahead : most;
    }
    return most;
}

int sc_planner_slots_count(const sc_table *table, const sc_timeline *timeline)
{
    int most = 1;
    for (int s = 0; s + 1 < table->n_stages; s++) {
        if (table->rank_of_stage[s] != table->rank_of_stage[s + 1]) {
            int up = most_ahead(table, timeline, s, s + 1);
            int down = most_ahead(table, timeline, s + 1, s);
            most = up > most ? up : most;
            most = down > most ? down : most;
        }
    }
    return (most + 1) / 2;
}
