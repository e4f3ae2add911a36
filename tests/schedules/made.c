#include "tests/schedules/made.h"

#include "schedules/validate.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sc_made_text(const char *name, const sc_gen_params *params)
{
    static char text[160];
    (void)snprintf(text, sizeof text, "%s p %d v %d m %d group %d limit %g", name, params->n_ranks,
                   params->n_chunks, params->n_mb, params->group, params->limit_mb);
    return text;
}

sc_table *sc_made_new(const char *name, const sc_gen_params *params)
{
    sc_table *table = NULL;
    sc_err err = {0};
    sc_validate_report report = {0};
    if (sc_gen_make(name, params, &table, &err) != SC_OK ||
        sc_validate_table(table, NULL, &report, &err) != SC_OK) {
        fail_msg("%s: %s", sc_made_text(name, params), err.text);
    }
    if (!report.has_ordered_w) {
        fail_msg("%s: weight gradients out of order", sc_made_text(name, params));
    }
    assert_string_equal(table->name, name);
    return table;
}

void sc_made_refuse(const char *name, const sc_gen_params *params, const char *why)
{
    sc_table *table = NULL;
    sc_err err = {0};
    assert_int_equal(sc_gen_make(name, params, &table, &err), SC_INVALID);
    assert_null(table);
    assert_non_null(strstr(err.text, name));
    if (strstr(err.text, why) == NULL) {
        fail_msg("'%s' does not say '%s'", err.text, why);
    }
}

sc_timeline *sc_made_simulate(const sc_table *table, double f, double i, double w, double comm)
{
    sc_stage_cost *stages = calloc((size_t)table->n_stages, sizeof *stages);
    assert_non_null(stages);
    sc_simulate_uniform_costs(table, f, i, w, stages);
    sc_timeline *timeline = NULL;
    sc_err err = {0};
    if (sc_simulate_run(table, &(sc_costs){stages, comm}, &timeline, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    free(stages);
    return timeline;
}

void sc_made_near(double got, double expected, const char *what, const char *text)
{
    if (!(fabs(got - expected) <= 1e-9 * (1 + fabs(expected)))) {
        fail_msg("%s: %s %.12g, not %.12g", text, what, got, expected);
    }
}

bool sc_made_closed(const char *name, const sc_gen_params *params, sc_stage_cost cost)
{
    const sc_gen_info *info = sc_gen_find(name);
    assert_non_null(info);
    assert_non_null(info->closed_bubble);
    double closed = info->closed_bubble(params, cost.f, cost.i, cost.w);
    if (isnan(closed)) {
        return false;
    }
    sc_table *table = sc_made_new(name, params);
    sc_timeline *t = sc_made_simulate(table, cost.f, cost.i, cost.w, 0);
    sc_made_near(t->bubble, closed, "bubble", sc_made_text(name, params));
    sc_simulate_free(&t);
    sc_table_free(&table);
    return true;
}
