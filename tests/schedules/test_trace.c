#include "schedules/gen.h"
#include "schedules/trace.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static cJSON *write_and_parse(const sc_trace *trace)
{
    char *text = NULL;
    assert_int_equal(sc_trace_write(trace, &text, NULL), SC_OK);
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    free(text);
    return root;
}

static const char *string_of(const cJSON *event, const char *key)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItem(event, key));
    return value == NULL ? "" : value;
}

static double number_of(const cJSON *event, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(event, key);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static bool is_phase(const cJSON *event, const char *phase)
{
    return strcmp(string_of(event, "ph"), phase) == 0;
}

/* The span of `name` in a rank; fails the test when it is not there. */
static const cJSON *find_span(const cJSON *events, const char *name)
{
    const cJSON *event = NULL;
    cJSON_ArrayForEach(event, events)
    {
        if (is_phase(event, "X") && strcmp(string_of(event, "name"), name) == 0) {
            return event;
        }
    }
    fail_msg("no span %s", name);
    return NULL;
}

/* A simulated 1F1B: every action is a span with its times in microseconds, and each message is one
   arrow from the end of the action that made it to the start of the one that used it. */
static void test_simulated(void **state)
{
    (void)state;
    sc_gen_params params = {.n_ranks = 3, .n_mb = 4};
    sc_table *table = NULL;
    sc_timeline *timeline = NULL;
    sc_trace_span *spans = NULL;
    size_t n = 0;
    assert_int_equal(sc_gen_make("1f1b", &params, &table, NULL), SC_OK);
    const sc_stage_cost costs[] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    assert_int_equal(sc_simulate_run(table, &(sc_costs){costs, 0.25}, &timeline, NULL), SC_OK);
    assert_int_equal(sc_trace_from_timeline(timeline, 7, 1e6, &spans, &n, NULL), SC_OK);
    assert_int_equal(n, 3 * 4 * 2);
    sc_trace trace = {
        .title = "a \"title\"\n", .n_ranks = 3, .n_lanes = 1, .spans = spans, .n_spans = n};
    cJSON *root = write_and_parse(&trace);
    assert_string_equal(string_of(cJSON_GetObjectItem(root, "otherData"), "title"),
                        "a \"title\"\n");
    const cJSON *events = cJSON_GetObjectItem(root, "traceEvents");
    int n_spans = 0;
    int n_starts = 0;
    int n_ends = 0;
    const cJSON *event = NULL;
    cJSON_ArrayForEach(event, events)
    {
        n_spans += is_phase(event, "X");
        n_starts += is_phase(event, "s");
        n_ends += is_phase(event, "f");
    }
    assert_int_equal(n_spans, 24);
    assert_int_equal(n_starts, 2 * 4 * 2); // two edges, four microbatches, both ways
    assert_int_equal(n_ends, n_starts);
    const cJSON *span = find_span(events, "1F0");
    assert_int_equal(number_of(span, "pid"), 1);
    assert_float_equal(number_of(span, "ts"), 1250, 1e-6);
    assert_float_equal(number_of(span, "dur"), 1000, 1e-6);
    const cJSON *args = cJSON_GetObjectItem(span, "args");
    assert_int_equal(number_of(args, "step"), 7);
    assert_int_equal(number_of(args, "stage"), 1);
    assert_int_equal(number_of(args, "microbatch"), 0);
    cJSON_Delete(root);
    free(spans);
    sc_simulate_free(&timeline);
    sc_table_free(&table);
}

/* Measured spans of two steps: arrows stay within a step, labelled spans have none. */
static void test_measured(void **state)
{
    (void)state;
    static const char *const ranks[] = {"rank 0 (host a)", "rank 1 (host b)"};
    static const char *const lanes[] = {"compute", "tail"};
    sc_trace_span spans[] = {
        {0, 0, 1, NULL, {SC_OP_F, 0, 0}, 1000, 2000},
        {1, 0, 1, NULL, {SC_OP_F, 1, 0}, 2500, 3500},
        {1, 0, 1, NULL, {SC_OP_I, 1, 0}, 3500, 4500},
        {1, 0, 1, NULL, {SC_OP_W, 1, 0}, 4500, 5500},
        {0, 0, 1, NULL, {SC_OP_B, 0, 0}, 5000, 6000},
        {0, 0, 2, NULL, {SC_OP_F, 0, 0}, 8000, 9000},
        {0, 1, 1, "optimizer", {SC_OP_F, 0, 0}, 6000, 7000},
    };
    sc_trace trace = {"t", 2, ranks, 2, lanes, spans, sizeof spans / sizeof spans[0]};
    cJSON *root = write_and_parse(&trace);
    const cJSON *events = cJSON_GetObjectItem(root, "traceEvents");
    static const struct {
        const char *name;
        int from;
        double from_ts;
        int to;
        double to_ts;
    } arrows[] = {{"activation", 0, 2, 1, 2.5}, {"gradient", 1, 4.5, 0, 5}};
    int n_arrows = 0;
    const cJSON *event = NULL;
    cJSON_ArrayForEach(event, events)
    {
        if (is_phase(event, "s")) {
            assert_true(n_arrows < 2);
            assert_string_equal(string_of(event, "name"), arrows[n_arrows].name);
            assert_int_equal(number_of(event, "pid"), arrows[n_arrows].from);
            assert_float_equal(number_of(event, "ts"), arrows[n_arrows].from_ts, 1e-9);
            const cJSON *end = event->next; // its other end is written right behind it
            assert_true(is_phase(end, "f"));
            assert_true(number_of(end, "id") == number_of(event, "id"));
            assert_int_equal(number_of(end, "pid"), arrows[n_arrows].to);
            assert_float_equal(number_of(end, "ts"), arrows[n_arrows].to_ts, 1e-9);
            n_arrows++;
        }
    }
    assert_int_equal(n_arrows, 2);
    const cJSON *tail = find_span(events, "optimizer");
    assert_int_equal(number_of(tail, "tid"), 1);
    int n_names = 0;
    cJSON_ArrayForEach(event, events)
    {
        if (strcmp(string_of(event, "name"), "process_name") == 0) {
            const char *name = string_of(cJSON_GetObjectItem(event, "args"), "name");
            assert_string_equal(name, ranks[(int)number_of(event, "pid")]);
            n_names++;
        } else if (strcmp(string_of(event, "name"), "thread_name") == 0) {
            const char *name = string_of(cJSON_GetObjectItem(event, "args"), "name");
            assert_string_equal(name, lanes[(int)number_of(event, "tid")]);
            n_names++;
        }
    }
    assert_int_equal(n_names, 2 + 4);
    cJSON_Delete(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated),
        cmocka_unit_test(test_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
