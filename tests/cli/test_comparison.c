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

#define SUMMARY(LOSS, CLOSED, CAUSES) \
    "{\"name\":\"job\",\"schedule\":\"s\",\"final_loss\":" LOSS ",\"step_ms\":81.504," \
    "\"tokens_per_second\":1234.56,\"bubble\":{\"measured\":0.2567,\"simulated\":0.25," \
    "\"closed_form\":" CLOSED "},\"activation_bytes\":{\"measured\":1572864,\"planned\":100}," \
    "\"causes_ms\":{" CAUSES "}}"

#define TWO_CAUSES "\"forward\":10.5,\"idle\":0"

static sc_comparison *make(const char *first, const char *second)
{
    sc_comparison *comparison = NULL;
    sc_err err;
    assert_int_equal(sc_comparison_new(&comparison, &err), SC_OK);
    assert_int_equal(sc_comparison_add(comparison, "gpipe", "runs/a", first, strlen(first), &err),
                     SC_OK);
    assert_int_equal(sc_comparison_add(comparison, "1f1b", "runs/b", second, strlen(second), &err),
                     SC_OK);
    return comparison;
}

static void test_table_is_aligned(void **state)
{
    (void)state;
    char *text = NULL;
    sc_comparison *comparison =
        make(SUMMARY("4.0625", "0.2", TWO_CAUSES), SUMMARY("4.0625", "null", TWO_CAUSES));
    assert_int_equal(sc_comparison_format(comparison, &text, NULL), SC_OK);
    assert_string_equal(
        text, "schedule  step ms  tokens/s   bubble  simulated  closed form  peak activations  "
              "planned  final loss\n"
              "gpipe       81.50    1234.6  25.67 %    25.00 %      20.00 %          1.50 MiB    "
              "100 B    4.062500\n"
              "1f1b        81.50    1234.6  25.67 %    25.00 %            -          1.50 MiB    "
              "100 B    4.062500\n"
              "\n"
              "ms by cause  forward  idle\n"
              "gpipe          10.50  0.00\n"
              "1f1b           10.50  0.00\n"
              "\n"
              "final losses are equal to the last bit\n");
    free(text);
    sc_comparison_free(&comparison);
}

static void test_losses_that_differ_are_told(void **state)
{
    (void)state;
    char *text = NULL;
    // They differ in the last bit of a double alone.
    sc_comparison *comparison =
        make(SUMMARY("4.0625", "0.2", TWO_CAUSES), SUMMARY("4.062500000000001", "0.2", TWO_CAUSES));
    assert_int_equal(sc_comparison_format(comparison, &text, NULL), SC_OK);
    assert_non_null(strstr(text, "final losses differ by 8.88e-16\n"));
    free(text);
    sc_comparison_free(&comparison);
}

static void test_json_has_everything(void **state)
{
    (void)state;
    char *text = NULL;
    sc_comparison *comparison = make(SUMMARY("4.062500000000001", "0.2", TWO_CAUSES),
                                     SUMMARY("4.0625", "null", TWO_CAUSES));
    assert_int_equal(sc_comparison_json(comparison, &text, NULL), SC_OK);
    cJSON *object = cJSON_Parse(text);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "schedules");
    assert_int_equal(cJSON_GetArraySize(list), 2);
    const cJSON *row = cJSON_GetArrayItem(list, 0);
    assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, "gpipe");
    assert_string_equal(cJSON_GetObjectItem(row, "run_dir")->valuestring, "runs/a");
    assert_null(cJSON_GetObjectItem(row, "schedule"));
    // Every bit of the loss survives.
    assert_true(cJSON_GetObjectItem(row, "final_loss")->valuedouble == 4.062500000000001);
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(row, "bubble"), "measured"));
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(row, "causes_ms"), "forward"));
    row = cJSON_GetArrayItem(list, 1);
    assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, "1f1b");
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
        {"", "not a JSON object"},
        {"7", "not a JSON object"},
        {"{}", "step_ms is missing"},
        {SUMMARY("\"4\"", "0.2", TWO_CAUSES), "final_loss is missing or no number"},
        {SUMMARY("4", "true", TWO_CAUSES), "bubble.closed_form is missing or no number"},
        {SUMMARY("4", "0.2", ""), "causes_ms is no list"},
        {SUMMARY("4", "0.2", "\"forward\":1"), "causes_ms.idle is missing"},
        {SUMMARY("4", "0.2", "\"idle\":1,\"forward\":1"), "causes_ms.idle is no number or out"},
        {SUMMARY("4", "0.2", TWO_CAUSES ",\"more\":1"), "causes_ms.more is no number or out"},
    };
    static const char GOOD[] = SUMMARY("4", "0.2", TWO_CAUSES);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sc_comparison *comparison = NULL;
        sc_err err;
        const char *json = CASES[i].json;
        assert_int_equal(sc_comparison_new(&comparison, &err), SC_OK);
        assert_int_equal(sc_comparison_add(comparison, "a", "a", GOOD, strlen(GOOD), &err), SC_OK);
        assert_int_equal(sc_comparison_add(comparison, "b", "b", json, strlen(json), &err),
                         SC_INVALID);
        if (strstr(err.text, CASES[i].part) == NULL) {
            fail_msg("%s: %s", json, err.text);
        }
        sc_comparison_free(&comparison);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_aligned),
        cmocka_unit_test(test_losses_that_differ_are_told),
        cmocka_unit_test(test_json_has_everything),
        cmocka_unit_test(test_bad_summaries_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
