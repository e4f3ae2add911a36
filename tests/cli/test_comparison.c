/* Summaries side by side: the table, the JSON, and summaries that lack something. */
#include "cli/comparison.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ENTRY_OF(NAME, SPREAD, LOSS, CLOSED, CAUSES) \
    "{\"name\":" NAME ",\"schedule\":\"s\",\"v\":2,\"final_loss\":" LOSS ",\"step_ms\":81.504," \
    "\"tokens_per_second\":1234.56,\"bubble\":{\"measured\":0.2567," SPREAD "\"simulated\":0.25," \
    "\"closed_form\":" CLOSED "},\"activation_bytes\":{\"measured\":1572864,\"planned\":100}," \
    "\"causes_ms\":{" CAUSES "}}"

#define SPREAD "\"measured_min\":0.25,\"measured_max\":0.3,"
#define TWO_CAUSES "\"forward\":10.5,\"idle\":0"
#define ENTRY(LOSS, CLOSED, CAUSES) ENTRY_OF("\"1f1b\"", SPREAD, LOSS, CLOSED, CAUSES)
#define GPIPE ENTRY_OF("\"gpipe\"", SPREAD, "4.0625", "0.2", TWO_CAUSES)
#define SUMMARY(ENTRIES) "{\"name\":\"job\",\"schedules\":[" ENTRIES "]}"

static sc_comparison *make(const char *summary)
{
    sc_comparison *comparison = NULL;
    sc_err err;
    if (sc_comparison_read(summary, strlen(summary), &comparison, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return comparison;
}

static void test_table_is_aligned(void **state)
{
    (void)state;
    char *text = NULL;
    sc_comparison *comparison =
        make(SUMMARY(GPIPE "," ENTRY_OF("\"1f1b\"", "", "4.0625", "null", TWO_CAUSES)));
    assert_int_equal(sc_comparison_format(comparison, &text, NULL), SC_OK);
    assert_string_equal(
        text,
        "schedule  v  step ms  tokens/s   bubble        min..max  simulated  closed form  peak "
        "activations  planned  final loss\n"
        "gpipe     2    81.50    1234.6  25.67 %  25.00..30.00 %    25.00 %      20.00 %          "
        "1.50 MiB    100 B    4.062500\n"
        "1f1b      2    81.50    1234.6  25.67 %               -    25.00 %            -          "
        "1.50 MiB    100 B    4.062500\n"
        "\n"
        "ms by cause  forward  idle\n"
        "gpipe          10.50  0.00\n"
        "1f1b           10.50  0.00\n");
    free(text);
    sc_comparison_free(&comparison);
}

static void test_json_has_everything(void **state)
{
    (void)state;
    char *text = NULL;
    sc_comparison *comparison =
        make(SUMMARY(GPIPE "," ENTRY("4.062500000000001", "null", TWO_CAUSES)));
    assert_int_equal(sc_comparison_json(comparison, "runs/a", &text, NULL), SC_OK);
    cJSON *object = cJSON_Parse(text);
    assert_string_equal(cJSON_GetObjectItem(object, "run_dir")->valuestring, "runs/a");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "schedules");
    assert_int_equal(cJSON_GetArraySize(list), 2);
    const cJSON *row = cJSON_GetArrayItem(list, 0);
    assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, "gpipe");
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(row, "bubble"), "measured_max"));
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(row, "causes_ms"), "forward"));
    row = cJSON_GetArrayItem(list, 1);
    assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, "1f1b");
    // Every bit of the loss survives.
    assert_true(cJSON_GetObjectItem(row, "final_loss")->valuedouble == 4.062500000000001);
    cJSON_Delete(object);
    free(text);
    sc_comparison_free(&comparison);
}

static void test_bad_summaries_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *part;
    } CASES[] = {
        {"", "no list of schedules that ran"},
        {"7", "no list of schedules that ran"},
        {"{}", "no list of schedules that ran"},
        {"{\"schedules\":{\"a\":1}}", "no list of schedules that ran"},
        {SUMMARY(""), "no list of schedules that ran"},
        {SUMMARY("7"), "schedules[0]: name is missing"},
        {SUMMARY(ENTRY_OF("7", "", "4", "1", TWO_CAUSES)), "schedules[0]: name is missing"},
        {SUMMARY("{\"name\":\"a\"}"), "schedules[0]: v is missing or no number"},
        {SUMMARY(GPIPE "," ENTRY("\"4\"", "0.2", TWO_CAUSES)),
         "schedules[1]: final_loss is missing or no number"},
        {SUMMARY(ENTRY("4", "true", TWO_CAUSES)), "bubble.closed_form is missing or no number"},
        {SUMMARY(ENTRY("4", "0.2", "")), "causes_ms is no list"},
        {SUMMARY(GPIPE "," ENTRY("4", "0.2", "\"forward\":1")), "causes_ms.idle is missing"},
        {SUMMARY(GPIPE "," ENTRY("4", "0.2", "\"idle\":1,\"forward\":1")),
         "causes_ms.idle is no number or out"},
        {SUMMARY(GPIPE "," ENTRY("4", "0.2", TWO_CAUSES ",\"more\":1")),
         "causes_ms.more is no number or out"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sc_comparison *comparison = NULL;
        sc_err err;
        const char *json = CASES[i].json;
        assert_int_equal(sc_comparison_read(json, strlen(json), &comparison, &err), SC_INVALID);
        assert_null(comparison);
        if (strstr(err.text, CASES[i].part) == NULL) {
            fail_msg("%s: %s", json, err.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_aligned),
        cmocka_unit_test(test_json_has_everything),
        cmocka_unit_test(test_bad_summaries_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
