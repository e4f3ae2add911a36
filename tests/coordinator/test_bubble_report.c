#include "coordinator/bubble_report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Rank r: cause c takes (c + 1) (r + 1) ms, so a window of 55 (r + 1) ms. */
static sc_bubble_result make(sc_bubble_split ranks[2], sc_stage_cost costs[2])
{
    sc_bubble_result result = {.n_steps = 8, .measured = 0.1234, .measured_min = 0.12};
    memset(ranks, 0, 2 * sizeof *ranks);
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        for (int r = 0; r < 2; r++) {
            ranks[r].ns[c] = (int64_t)(c + 1) * (r + 1) * 1000000;
            ranks[r].window_ns += ranks[r].ns[c];
        }
        result.total.ns[c] = (ranks[0].ns[c] + ranks[1].ns[c]) / 2;
        result.total.window_ns += result.total.ns[c];
    }
    for (int s = 0; s < 2; s++) {
        costs[s] = (sc_stage_cost){.f = 1e6 + s, .i = 2e6, .w = 3e6};
    }
    result.measured_max = 0.13;
    result.simulated = 0.125;
    result.measured_over_ideal = 0.14;
    result.simulated_over_ideal = 0.15;
    result.measured_over_makespan = 0.11;
    result.simulated_over_makespan = 0.12;
    result.median_step = 17;
    result.ranks = ranks;
    result.costs = costs;
    result.comm_ns = 250000;
    result.executor_ns_per_action = 12500;
    return result;
}

static void table_shows_every_cause_of_every_rank(void **state)
{
    (void)state;
    sc_bubble_split ranks[2];
    sc_stage_cost costs[2];
    sc_bubble_result result = make(ranks, costs);
    char *text = NULL;
    assert_int_equal(sc_bubble_report_format(&result, 2, 0.2, 0, &text, NULL), SC_OK);
    assert_string_equal(
        text,
        "bubble: measured 12.3 % (12.0 to 13.0), simulated 12.5 %, closed form 20.0 % "
        "(idle / cost, as Zero Bubble)\n"
        "        14.0 % measured, 15.0 % simulated as idle / ideal (Megatron-LM); 11.0 %, 12.0 % "
        "as "
        "idle / makespan (GPipe)\n"
        "over 8 steps after the warm-up; simulated with the costs of other steps\n"
        "\n"
        "time of step 17 by cause\n"
        "               forward  backward_input  backward_weight      wait    buffer  transfer"
        "   control    reduce  optimizer      idle    window\n"
        "rank 0    ms      1.00            2.00             3.00      4.00      5.00      6.00"
        "      7.00      8.00       9.00     10.00     55.00\n"
        "           %       1.8             3.6              5.5       7.3       9.1      10.9"
        "      12.7      14.5       16.4      18.2     100.0\n"
        "rank 1    ms      2.00            4.00             6.00      8.00     10.00     12.00"
        "     14.00     16.00      18.00     20.00    110.00\n"
        "           %       1.8             3.6              5.5       7.3       9.1      10.9"
        "      12.7      14.5       16.4      18.2     100.0\n"
        "mean      ms      1.50            3.00             4.50      6.00      7.50      9.00"
        "     10.50     12.00      13.50     15.00     82.50\n"
        "           %       1.8             3.6              5.5       7.3       9.1      10.9"
        "      12.7      14.5       16.4      18.2     100.0\n");
    free(text);
    assert_int_equal(sc_bubble_report_format(&result, 2, NAN, 0, &text, NULL), SC_OK);
    assert_non_null(strstr(text, "simulated 12.5 %, no closed form (idle"));
    free(text);
}

/* When clocks err by more than a transfer takes, waiting and transfer are one column. */
static void clocks_that_err_merge_two_causes(void **state)
{
    (void)state;
    sc_bubble_split ranks[2];
    sc_stage_cost costs[2];
    sc_bubble_result result = make(ranks, costs);
    char *text = NULL;
    assert_int_equal(sc_bubble_report_format(&result, 2, 0.2, 250001, &text, NULL), SC_OK);
    assert_non_null(strstr(text, "clocks of the hosts agree within 0.250 ms\n"));
    assert_non_null(strstr(text, "backward_weight  wait+transfer    buffer   control"));
    assert_non_null(
        strstr(text, "rank 1    ms      2.00            4.00             6.00          20.00"));
    free(text);
    assert_int_equal(sc_bubble_report_format(&result, 2, 0.2, 250000, &text, NULL), SC_OK);
    assert_null(strstr(text, "wait+transfer"));
    free(text);
    assert_int_equal(sc_bubble_report_format(&result, 2, 0.2, SC_BUBBLE_CLOCK_UNKNOWN, &text, NULL),
                     SC_OK);
    assert_non_null(strstr(text, "clocks of the hosts are not aligned yet\n"));
    assert_non_null(strstr(text, "wait+transfer"));
    free(text);
}

/* The largest figures that times can have still fit their table. */
static void large_numbers_fit(void **state)
{
    (void)state;
    sc_bubble_split ranks[2];
    sc_stage_cost costs[2];
    sc_bubble_result result = make(ranks, costs);
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        ranks[0].ns[c] = INT64_MAX / SC_CAUSE_COUNT;
        ranks[1].ns[c] = INT64_MAX / SC_CAUSE_COUNT;
    }
    ranks[0].window_ns = INT64_MAX;
    ranks[1].window_ns = INT64_MAX;
    result.total = ranks[0];
    result.median_step = UINT64_MAX;
    char *text = NULL;
    assert_int_equal(sc_bubble_report_format(&result, 2, 0.2, 0, &text, NULL), SC_OK);
    assert_non_null(strstr(text, "9223372036854.78"));
    free(text);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_non_null(item);
    return item;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void json_has_the_same_numbers(void **state)
{
    (void)state;
    sc_bubble_split ranks[2];
    sc_stage_cost costs[2];
    sc_bubble_result result = make(ranks, costs);
    cJSON *made = cJSON_CreateObject();
    assert_int_equal(sc_bubble_report_add_json(&result, 2, 2, NAN, made, NULL), SC_OK);
    char *text = cJSON_PrintUnformatted(made);
    cJSON_Delete(made);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);

    const cJSON *bubble = member(json, "bubble");
    assert_true(is_near(number(bubble, "measured"), 0.1234));
    assert_true(is_near(number(bubble, "measured_min"), 0.12));
    assert_true(is_near(number(bubble, "measured_max"), 0.13));
    assert_true(is_near(number(bubble, "simulated"), 0.125));
    assert_true(cJSON_IsNull(member(bubble, "closed_form")));
    const cJSON *causes = member(json, "causes_ms");
    assert_int_equal(cJSON_GetArraySize(causes), SC_CAUSE_COUNT);
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        const char *name = sc_bubble_cause_text((sc_cause)c);
        assert_true(is_near(number(causes, name), 1.5 * (c + 1)));
        const cJSON *rank = cJSON_GetArrayItem(member(json, "ranks"), 1);
        assert_true(is_near(number(member(rank, "causes_ms"), name), 2.0 * (c + 1)));
    }
    assert_int_equal(cJSON_GetArraySize(member(json, "ranks")), 2);
    const cJSON *rank = cJSON_GetArrayItem(member(json, "ranks"), 0);
    assert_true(is_near(number(rank, "rank"), 0));
    assert_true(is_near(number(rank, "window_ms"), 55));
    assert_int_equal(cJSON_GetArraySize(member(json, "stages")), 2);
    const cJSON *stage = cJSON_GetArrayItem(member(json, "stages"), 1);
    assert_true(is_near(number(stage, "stage"), 1));
    assert_true(is_near(number(stage, "f_ms"), 1.000001));
    assert_true(is_near(number(stage, "i_ms"), 2) && is_near(number(stage, "w_ms"), 3));
    assert_true(is_near(number(json, "comm_ms"), 0.25));
    assert_true(is_near(number(json, "executor_us_per_action"), 12.5));
    cJSON_Delete(json);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_shows_every_cause_of_every_rank),
        cmocka_unit_test(clocks_that_err_merge_two_causes),
        cmocka_unit_test(large_numbers_fit),
        cmocka_unit_test(json_has_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
