#include "schedules/gen.h"
#include "schedules/validate.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static sc_table *make(const char *name, int p, int m)
{
    sc_table *table = NULL;
    sc_err err = {0};
    sc_gen_params params = {.n_ranks = p, .n_mb = m};
    if (sc_gen_make(name, &params, &table, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return table;
}

static void expect_rows(const sc_table *table, const char *const *rows, int n_rows)
{
    assert_int_equal(table->n_ranks, n_rows);
    for (int rank = 0; rank < n_rows; rank++) {
        char *text = NULL;
        assert_int_equal(sc_table_row_format(table, rank, &text, NULL), SC_OK);
        assert_non_null(text);
        assert_string_equal(text, rows[rank]);
        free(text);
    }
}

/* Qi et al., arXiv 2401.10241, Figure 2. */
static void test_1f1b_golden(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7",
        "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1F6,1B4,1F7,1B5,1B6,1B7",
        "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2B6,2B7",
        "3F0,3B0,3F1,3B1,3F2,3B2,3F3,3B3,3F4,3B4,3F5,3B5,3F6,3B6,3F7,3B7",
    };
    sc_table *table = make("1f1b", 4, 8);
    expect_rows(table, rows, sizeof rows / sizeof rows[0]);
    sc_table_free(&table);
}

/* Fewer microbatches than ranks: the warm-up stops at m. */
static void test_1f1b_short(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "0F0,0F1,0B0,0B1",
        "1F0,1F1,1B0,1B1",
        "2F0,2F1,2B0,2B1",
        "3F0,3B0,3F1,3B1",
    };
    sc_table *table = make("1f1b", 4, 2);
    expect_rows(table, rows, sizeof rows / sizeof rows[0]);
    sc_table_free(&table);
}

/* Huang et al., arXiv 1811.06965: all forwards, then all backwards. */
static void test_gpipe_golden(void **state)
{
    (void)state;
    static const char *const rows[] = {"0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1F1,1F2,1B0,1B1,1B2"};
    sc_table *table = make("gpipe", 2, 3);
    expect_rows(table, rows, sizeof rows / sizeof rows[0]);
    sc_table_free(&table);
}

static void check_size(const char *name, int p, int m)
{
    bool is_gpipe = strcmp(name, "gpipe") == 0;
    sc_table *table = make(name, p, m);
    sc_err err = {0};
    sc_validate_report report = {0};
    if (sc_validate_table(table, NULL, &report, &err) != SC_OK) {
        fail_msg("%s p %d m %d: %s", name, p, m, err.text);
    }
    assert_true(report.has_ordered_w);
    for (int r = 0; r < p; r++) {
        int peak = is_gpipe || m < p - r ? m : p - r;
        assert_int_equal(sc_validate_peak(table, r, -1), peak);
        assert_int_equal(sc_validate_peak(table, r, r), peak);
        assert_int_equal(sc_validate_peak_pending_w(table, r, r), 0);
    }
    sc_table_free(&table);
}

/* Every size checks clean, orders its weight gradients and has the known peak. */
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
    static const struct {
        const char *name;
        sc_gen_params params;
        sc_status status;
        const char *why;
    } cases[] = {
        {"2f2b",
         {.n_ranks = 2, .n_mb = 2, .n_chunks = 0},
         SC_NOT_FOUND,
         "unknown schedule '2f2b'; the schedules are gpipe, 1f1b"},
        {"gpipe",
         {.n_ranks = 0, .n_mb = 2, .n_chunks = 0},
         SC_INVALID,
         "0 ranks; choose 1 to 4096"},
        {"gpipe",
         {.n_ranks = 2, .n_mb = 0, .n_chunks = 0},
         SC_INVALID,
         "0 microbatches; choose 1 to 65536"},
        {"1f1b",
         {.n_ranks = 2, .n_mb = 2, .n_chunks = 2},
         SC_INVALID,
         "one stage a rank only, not v = 2"},
        {"gpipe",
         {.n_ranks = 2, .n_mb = 2, .n_chunks = 2},
         SC_INVALID,
         "one stage a rank only, not v = 2"},
        {"1f1b", {.n_ranks = 2, .n_mb = 2, .n_chunks = -1}, SC_INVALID, "-1 stages a rank"},
        {"1f1b",
         {.n_ranks = 4096, .n_mb = 65536, .n_chunks = 1},
         SC_INVALID,
         "pairs of stage and microbatch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sc_table *table = NULL;
        sc_err err = {0};
        assert_int_equal(sc_gen_make(cases[i].name, &cases[i].params, &table, &err),
                         cases[i].status);
        assert_null(table);
        assert_non_null(strstr(err.text, cases[i].why));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1f1b_golden),  cmocka_unit_test(test_1f1b_short),
        cmocka_unit_test(test_gpipe_golden), cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
