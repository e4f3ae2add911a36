#include "schedules/gen.h"
#include "schedules/lower.h"
#include "schedules/validate.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static sc_table *lower(const sc_table *compute)
{
    sc_table *lowered = NULL;
    sc_err err = {0};
    if (sc_lower_table(compute, &lowered, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(lowered->is_lowered);
    return lowered;
}

static void test_1f1b(void **state)
{
    (void)state;
    sc_table *compute = SC_ROWS(2, 3, "0F0,0F1,0B0,0F2,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2");
    sc_table *lowered = lower(compute);
    sc_rows_expect(lowered, 0,
                   "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2,"
                   "0REDUCE_GRAD");
    sc_rows_expect(lowered, 1,
                   "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2,"
                   "1REDUCE_GRAD");
    sc_table_free(&lowered);
    sc_table_free(&compute);
}

/* V placement with I and W: no message between two stages of one rank; the reduction waits for the
   stage's last W. */
static void test_v_split(void **state)
{
    (void)state;
    sc_table *compute = SC_ROWS(4, 1, "0F0,3F0,3I0,3W0,0I0,0W0", "1F0,2F0,2I0,1I0,2W0,1W0");
    compute->rank_of_stage[2] = 1;
    compute->rank_of_stage[3] = 0;
    sc_table *lowered = lower(compute);
    sc_rows_expect(lowered, 0,
                   "0F0,0SEND_F0,3RECV_F0,3F0,3I0,3SEND_B0,3W0,3REDUCE_GRAD,0RECV_B0,0I0,0W0,"
                   "0REDUCE_GRAD");
    sc_rows_expect(lowered, 1,
                   "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2I0,1I0,1SEND_B0,2W0,2REDUCE_GRAD,1W0,"
                   "1REDUCE_GRAD");
    sc_table_free(&lowered);
    sc_table_free(&compute);
}

/* A receiver that wants messages in another order than they are sent takes them in the sender's. */
static void test_other_order(void **state)
{
    (void)state;
    sc_table *compute = SC_ROWS(2, 2, "0F0,0F1,0B0,0B1", "1F1,1F0,1B0,1B1");
    sc_table *lowered = lower(compute);
    sc_rows_expect(lowered, 1, "1RECV_F0,1RECV_F1,1F1,1F0,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD");
    assert_int_equal(sc_validate_table(lowered, NULL, NULL, NULL), SC_OK);
    sc_table_free(&lowered);
    sc_table_free(&compute);
}

static void test_forward_only(void **state)
{
    (void)state;
    sc_table *compute = SC_ROWS(2, 2, "0F0,0F1", "1F0,1F1");
    sc_table *lowered = lower(compute);
    sc_rows_expect(lowered, 0, "0F0,0SEND_F0,0F1,0SEND_F1");
    sc_rows_expect(lowered, 1, "1RECV_F0,1F0,1RECV_F1,1F1");
    assert_int_equal(sc_validate_table(lowered, NULL, NULL, NULL), SC_OK);
    assert_int_equal(sc_validate_peak(lowered, 0, -1), 1);
    sc_table_free(&lowered);
    sc_table_free(&compute);
}

/* The compute actions of a lowered row; returns how many others there were. */
static int copy_compute(const sc_row *row, int rank, sc_table *to)
{
    int n_others = 0;
    for (size_t i = 0; i < row->n_actions; i++) {
        if (sc_action_is_compute(row->actions[i].op)) {
            assert_int_equal(sc_table_append(to, rank, row->actions[i], NULL), SC_OK);
        } else {
            n_others++;
        }
    }
    return n_others;
}

/* What lower makes of a generated table passes the rules of lowered tables and, with its
   communication taken out, is the table it came from. */
static void check_size(const char *name, int p, int m)
{
    sc_table *compute = NULL;
    sc_table *back = NULL;
    sc_err err = {0};
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    assert_int_equal(sc_gen_make(name, &params, &compute, &err), SC_OK);
    sc_table *lowered = lower(compute);
    if (sc_validate_table(lowered, NULL, NULL, &err) != SC_OK) {
        fail_msg("%s p %d m %d: %s", name, p, m, err.text);
    }
    assert_int_equal(sc_table_new("back", p, p, m, &back, &err), SC_OK);
    int n_others = 0;
    for (int r = 0; r < p; r++) {
        n_others += copy_compute(&lowered->rows[r], r, back);
    }
    assert_true(sc_table_equals(compute, back));
    assert_int_equal(n_others, 4 * (p - 1) * m + p);
    sc_table_free(&back);
    sc_table_free(&lowered);
    sc_table_free(&compute);
}

static void test_all_sizes(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++) {
        for (int m = 1; m <= 17; m++) {
            check_size("gpipe", p, m);
            check_size("1f1b", p, m);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    sc_table *lowered = NULL;
    sc_err err = {0};
    sc_table *table = SC_ROWS(1, 1, "0F0,0B0,0REDUCE_GRAD");
    assert_int_equal(sc_lower_table(table, &lowered, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "is lowered already"));
    sc_table_free(&table);
    table = SC_ROWS(1, 1, "0F0,0B7");
    assert_int_equal(sc_lower_table(table, &lowered, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "out of range"));
    assert_null(lowered);
    sc_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1f1b),        cmocka_unit_test(test_v_split),
        cmocka_unit_test(test_other_order), cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_all_sizes),   cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
