#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

sc_table *sc_rows_make(int n_stages, int n_mb, const char *const *rows)
{
    int n_ranks = 0;
    while (rows[n_ranks] != NULL) {
        n_ranks++;
    }
    sc_err err = {0};
    sc_table *table = NULL;
    if (sc_table_new("test", n_ranks, n_stages, n_mb, &table, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    bool has_backward = false;
    for (int rank = 0; rank < n_ranks; rank++) {
        if (sc_table_row_parse(table, rank, rows[rank], strlen(rows[rank]), &err) != SC_OK) {
            fail_msg("%s", err.text);
        }
        const sc_row *row = &table->rows[rank];
        for (size_t i = 0; i < row->n_actions; i++) {
            table->is_lowered = table->is_lowered || !sc_action_is_compute(row->actions[i].op);
            has_backward = has_backward || sc_action_is_backward(row->actions[i].op);
        }
    }
    table->is_forward_only = !has_backward;
    return table;
}

void sc_rows_expect(const sc_table *table, int rank, const char *expected)
{
    sc_err err = {0};
    char *text = NULL;
    if (sc_table_row_format(table, rank, &text, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(text, expected);
    free(text);
}
