#include "schedules/table.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        int n_ranks;
        int n_stages;
        int n_mb;
        sc_status status;
    } cases[] = {
        {1, 1, 1, SC_OK},
        {SC_STAGES_MAX, SC_STAGES_MAX, 1, SC_OK},
        {1, 1, SC_MICROBATCHES_MAX, SC_OK},
        {0, 1, 1, SC_INVALID},
        {2, 1, 1, SC_INVALID},
        {1, 0, 1, SC_INVALID},
        {1, SC_STAGES_MAX + 1, 1, SC_INVALID},
        {1, 1, 0, SC_INVALID},
        {1, 1, SC_MICROBATCHES_MAX + 1, SC_INVALID},
        {SC_STAGES_MAX, SC_STAGES_MAX, SC_TABLE_PAIRS_MAX / SC_STAGES_MAX + 1, SC_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sc_table *table = NULL;
        sc_err err = {0};
        sc_status status =
            sc_table_new("t", cases[i].n_ranks, cases[i].n_stages, cases[i].n_mb, &table, &err);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(table != NULL, status == SC_OK);
        sc_table_free(&table);
        assert_null(table);
    }
}

static void test_row_text(void **state)
{
    (void)state;
    sc_table *table = NULL;
    sc_err err = {0};
    assert_int_equal(sc_table_new("t", 1, 2, 300, &table, &err), SC_OK);
    for (int mb = 0; mb < 300; mb++) {
        assert_int_equal(sc_table_append(table, 0, (sc_action){SC_OP_F, 1, mb}, &err), SC_OK);
    }
    char *text = NULL;
    assert_int_equal(sc_table_row_format(table, 0, &text, &err), SC_OK);
    sc_table *back = NULL;
    assert_int_equal(sc_table_new("another name", 1, 2, 300, &back, &err), SC_OK);
    assert_false(sc_table_equals(table, back));
    assert_int_equal(sc_table_row_parse(back, 0, text, strlen(text), &err), SC_OK);
    assert_true(sc_table_equals(table, back));
    back->rank_of_stage[1] = 1;
    assert_false(sc_table_equals(table, back));
    free(text);
    sc_table_free(&back);
    sc_table_free(&table);
}

static void test_row_parse(void **state)
{
    (void)state;
    sc_table *table = NULL;
    sc_err err = {0};
    assert_int_equal(sc_table_new("t", 1, 1, 2, &table, &err), SC_OK);
    const char *text = ",0F0, ,0F1 ,,\t0B0,";
    assert_int_equal(sc_table_row_parse(table, 0, text, strlen(text), &err), SC_OK);
    assert_int_equal(table->rows[0].n_actions, 3);
    assert_int_equal(table->rows[0].actions[2].op, SC_OP_B);
    text = "0F0,, 0Q1,0F2";
    assert_int_equal(sc_table_row_parse(table, 0, text, strlen(text), &err), SC_INVALID);
    assert_non_null(strstr(err.text, "rank 0 column 7: "));
    // an empty row is a row
    char *empty = NULL;
    sc_table *idle = NULL;
    assert_int_equal(sc_table_new("t", 1, 1, 1, &idle, &err), SC_OK);
    assert_int_equal(sc_table_row_format(idle, 0, &empty, &err), SC_OK);
    assert_string_equal(empty, "");
    free(empty);
    sc_table_free(&idle);
    sc_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_row_text),
        cmocka_unit_test(test_row_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
