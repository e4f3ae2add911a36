#include "schedules/csv.h"
#include "schedules/gen.h"
#include "schedules/lower.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sc_csv_options STRICT = {.path = "dir/f.csv"};
static const sc_csv_options LEGACY = {.path = "dir/f.csv", .is_legacy = true};

static sc_table *read_text(const char *text, const sc_csv_options *options,
                           sc_validate_report *report)
{
    sc_table *table = NULL;
    sc_err err = {0};
    if (sc_csv_read(text, strlen(text), options, &table, report, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    assert_false(table->is_lowered);
    return table;
}

static void expect_refused_as(const char *text, const sc_csv_options *options, const char *why)
{
    sc_table *table = NULL;
    sc_err err = {0};
    assert_int_equal(sc_csv_read(text, strlen(text), options, &table, NULL, &err), SC_INVALID);
    assert_null(table);
    char whole[SC_ERR_TEXT_MAX];
    (void)snprintf(whole, sizeof whole, "dir/f.csv:%s", why);
    assert_string_equal(err.text, whole);
}

static void expect_refused(const char *text, const char *why)
{
    expect_refused_as(text, &STRICT, why);
}

static void expect_rows(sc_table *table, const char *first, const char *second)
{
    assert_int_equal(table->n_ranks, 2);
    sc_rows_expect(table, 0, first);
    sc_rows_expect(table, 1, second);
    sc_table_free(&table);
}

static void test_plain(void **state)
{
    (void)state;
    // as PyTorch writes it: idle cells, CR LF
    sc_table *table = read_text("0F0,0F1,,0B0,0B1,\r\n,1F0,1B0 ,\t1F1,1B1\r\n", &STRICT, NULL);
    assert_int_equal(table->n_stages, 2);
    assert_int_equal(table->n_mb, 2);
    assert_string_equal(table->name, "f.csv");
    expect_rows(table, "0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1");
    // no newline at the end, or several
    expect_rows(read_text("0F0,0B0\n1F0,1B0", &STRICT, NULL), "0F0,0B0", "1F0,1B0");
    expect_rows(read_text("0F0,0B0\n1F0,1B0\n\n \n", &STRICT, NULL), "0F0,0B0", "1F0,1B0");
    // I and W; UNSHARD and RESHARD say nothing about the order
    expect_rows(read_text("0UNSHARD,0F0,0I0,0W0,0RESHARD\n1F0,1I0,1W0\n", &STRICT, NULL),
                "0F0,0I0,0W0", "1F0,1I0,1W0");
    // forwards alone
    table = read_text("0F0,0F1\n1F0,1F1\n", &STRICT, NULL);
    assert_true(table->is_forward_only);
    sc_table_free(&table);
}

static void test_v_placement(void **state)
{
    (void)state;
    const char *text = "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n";
    sc_table *table = read_text(text, &STRICT, NULL);
    static const int ranks[] = {0, 1, 1, 0};
    assert_int_equal(table->n_stages, 4);
    assert_memory_equal(table->rank_of_stage, ranks, sizeof ranks);
    sc_table_free(&table);
    char with_header[200];
    (void)snprintf(with_header, sizeof with_header, "# placement: 0, 1,1 0\n%s", text);
    table = read_text(with_header, &STRICT, NULL);
    assert_memory_equal(table->rank_of_stage, ranks, sizeof ranks);
    sc_table_free(&table);
    // unlike the rows
    (void)snprintf(with_header, sizeof with_header, "# placement: 0 1 0 1\n%s", text);
    expect_refused(with_header, "2:5: 3F0: stage 3 is placed on rank 1, not on rank 0");
}

static void test_overlap(void **state)
{
    (void)state;
    expect_rows(read_text("0F0,( 0F1; 0B0 )OVERLAP_F_B,0B1\n1F0,1B0,1F1,1B1\n", &STRICT, NULL),
                "0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1");
    expect_refused("0F0,(0F1;0B0)OVERLAP,0B1\n",
                   "1:5: \"(0F1;0B0)OVERLAP\": a pair is written (0F7;7B3)OVERLAP_F_B");
    expect_refused("0F0,(0F1;0B0)OVERLAP_F_Bx\n",
                   "1:5: \"(0F1;0B0)OVERLAP_F_Bx\": a pair is written (0F7;7B3)OVERLAP_F_B");
    expect_refused("0F0,(0F1)OVERLAP_F_B\n",
                   "1:5: \"(0F1)OVERLAP_F_B\": a pair is written (0F7;7B3)OVERLAP_F_B");
    expect_refused("(0B0;0F0)OVERLAP_F_B\n",
                   "1:1: \"(0B0;0F0)OVERLAP_F_B\": a pair is an F, then a B or I");
    expect_refused("0F0,(0F1;0B0;0B1)OVERLAP_F_B\n",
                   "1:10: \"0B0;0B1\": \";0B1\" is left over after the action");
    // a broken half has its own column
    expect_refused("0F0,(0F1;0Q0)OVERLAP_F_B\n",
                   "1:10: \"0Q0\": no operation after stage 0; the operations are F B I W SEND_F "
                   "RECV_F SEND_B RECV_B REDUCE_GRAD");
    expect_refused("0F0,(0F1;0B7)OVERLAP_F_B,0B0\n",
                   "1:10: 0B7: microbatch 7 is out of range; the microbatches are 0 to 1");
}

static void test_cells_refused(void **state)
{
    (void)state;
    expect_refused("0F0,0F1xyz,0B0,0B1\n",
                   "1:5: \"0F1xyz\": \"xyz\" is left over after the action");
    expect_refused("0F0,0B0\n1F0,  1f1\n",
                   "2:7: \"1f1\": no operation after stage 1; the operations are F B I W SEND_F "
                   "RECV_F SEND_B RECV_B REDUCE_GRAD");
    expect_refused("0F0,0F1,0F0,0B0,0B1\n", "1:9: duplicate 0F0; cell 0 has it already");
    expect_refused("0F0,,0F1,0B0,0B1\n1F0,1B0,1F7,1B1\n",
                   "2:9: 1F7: microbatch 7 is out of range; the microbatches are 0 to 1");
    expect_refused("0F0,0F1,0B0\n",
                   "1:5: missing backward: stage 0 has 0F1, but neither 0B1 nor 0I1 with 0W1");
    expect_refused("0F0,0F1,0B0,0I0,0W0\n",
                   "1:13: 0I0 beside 0B0 of cell 2: a backward is either B, or I and then W");
    expect_refused("0F0,0W0,0I0\n", "1:5: 0W0 before its 0I0 of cell 2");
    expect_refused("0F0,0B0\n1F0,1B0,0F1\n",
                   "2:9: 0F1: stage 0 is placed on rank 0, not on rank 1");
    expect_refused("0F0,0B0\n1F0,1B0,5F0\n",
                   "2:9: 5F0: unknown stage 5: stages count from 0, and no row has stage 2");
    expect_refused("0F0,0B0\n1F0,1B0,2F0\n",
                   "2:9: 2F0: unknown stage 2: stages 0 to 2 do not divide over 2 ranks; if they "
                   "need not, say so in a line \"# stages: 3\"");
    expect_refused("# stages: 2\n0F0,0B0\n1F0,1B0,2F0\n",
                   "3:9: 2F0: unknown stage 2; the stages are 0 to 1");
    expect_refused("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
                   "1:5: deadlock: rank 0 cell 1 (0B0) waits for 1B0 of rank 1 cell 2, rank 1 cell "
                   "1 (1F1) waits for 0F1 of rank 0 cell 2");
}

static void test_lines_refused(void **state)
{
    (void)state;
    expect_refused("", "1:1: no rows: one line a rank is expected, as in 0F0,0B0");
    expect_refused("# nothing\n", "1:1: no rows: one line a rank is expected, as in 0F0,0B0");
    expect_refused(",,\n", "1:1: no action in any row");
    expect_refused("0F0,0B0\n\n1F0,1B0\n",
                   "2:1: empty line between rows: each rank has a row of actions; remove it");
    expect_refused("0F0,1F0,1B0,0B0\n,,\n", "2:1: no stage is placed on rank 1");
    expect_refused("\"0F0\",0B0\n",
                   "1:1: \"\"0F0\"\": an action begins with its stage, a number below 4096, as in "
                   "2F0");
}

static void test_header(void **state)
{
    (void)state;
    static const char rows[] = "0F0,0B0\n1F0,1B0\n";
    static const struct {
        const char *header;
        const char *why; // NULL: fine
    } cases[] = {
        {"# version: 1\n#name: my own \n# p: 2\n# stages: 2\n# m: 1\n# placement: 0 1\n", NULL},
        {"# any words, even with a: colon\n#\n#:\n", NULL},
        {"# version: 2\n", "1:12: \"2\": expected a number of at most 1"},
        {"# version: 0\n", "1:12: 0: expected a number from 1 to 1"},
        {"#\n# p: 3\n", "2:6: p is 3, but the file has 2 rows"},
        {"# p: two\n", "1:6: \"two\": expected a number of at most 4096"},
        {"# p: 2 2\n", "1:8: one number expected, and nothing behind it"},
        {"# p: 2\n# p: 2\n", "2:3: key \"p\" a second time"},
        {"# m: 2\n", "2:1: missing forward: stage 0 has no 0F1; it needs one of each microbatch 0 "
                     "to 1"},
        {"# stages: 3\n", "1:11: 3 stages, but no row has stage 2"},
        {"# stages: 1\n", "2:1: a schedule of 1 stages on 2 ranks: needs 1 to 4096 stages and at "
                          "most as many ranks"},
        {"# placement: 0 1 1\n", "3:1: missing forward: stage 2 has no 2F0; it needs one of each "
                                 "microbatch 0 to 0"},
        {"# stages: 2\n# placement: 0\n", "2:14: placement of 1 stages, but there are 2"},
        {"# placement: 0 9\n", "1:14: stage 1 is placed on rank 9 of 2 ranks"},
        {"# placement:\n", "1:13: \"\": expected a number of at most 4095"},
        {"# stage: 2\n", "1:3: unknown key \"stage\"; the keys are version, name, p, stages, m, "
                         "placement, odd_placement (write other comments without a colon)"},
        {"# name: a\tb\n", "1:9: a name is 1 to 47 printable characters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[400];
        (void)snprintf(text, sizeof text, "%s%s", cases[i].header, rows);
        if (cases[i].why != NULL) {
            expect_refused(text, cases[i].why);
        } else {
            sc_table *table = read_text(text, &STRICT, NULL);
            assert_string_equal(table->name, i == 0 ? "my own" : "f.csv");
            expect_rows(table, "0F0,0B0", "1F0,1B0");
        }
    }
}

static void test_dialects(void **state)
{
    (void)state;
    const char *old = "0F0,0F1,0B0,0W0,0B1,0W1\n1F0,1B0,1W0,1F1,1B1,1W1\n";
    expect_refused(old, "1:13: 0W0 beside 0B0, and no I in the file: in older PyTorch files B is "
                        "the input gradient, today it is the whole backward; read it with "
                        "--legacy, or write I for B");
    expect_rows(read_text(old, &LEGACY, NULL), "0F0,0F1,0I0,0W0,0I1,0W1",
                "1F0,1I0,1W0,1F1,1I1,1W1");
    expect_refused_as("0F0,0I0,0W0\n", &LEGACY,
                      "1:5: I beside the legacy dialect, in which B is the input gradient: a file "
                      "with I is a new one; read it without --legacy");
    expect_refused_as("0F0,0B0\n", &LEGACY,
                      "1:5: B, but no W anywhere: B is the whole backward here; read the file "
                      "without --legacy");
    // today's files may mix whole and split backwards
    expect_rows(read_text("0F0,0F1,0B0,0I1,0W1\n1F0,1B0,1F1,1B1\n", &STRICT, NULL),
                "0F0,0F1,0B0,0I1,0W1", "1F0,1B0,1F1,1B1");
    // W without its I is no matter of dialects
    expect_refused("0F0,0F1,0B0,0W1\n", "1:13: missing backward: stage 0 has 0W1, but no 0I1");
}

/* Communication is checked, then dropped. The rows are PyTorch's own lowering of 1F1B, with RECVs
   where the sender had its turn. */
static void test_communication(void **state)
{
    (void)state;
    const char *first = "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,"
                        "0B1,0RECV_B2,0B2,0REDUCE_GRAD,0RESHARD";
    char text[500];
    (void)snprintf(text, sizeof text, "%s\n%s\n", first,
                   "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1RECV_F2,1B1,1SEND_B1,1F2,1B2,1SEND_B2,"
                   "1REDUCE_GRAD");
    sc_validate_report report;
    expect_rows(read_text(text, &STRICT, &report), "0F0,0F1,0B0,0F2,0B1,0B2",
                "1F0,1B0,1F1,1B1,1F2,1B2");
    assert_false(report.is_blocking_deadlock); // the file's placement, not the one lower would give
    (void)snprintf(text, sizeof text, "%s\n%s\n", first,
                   "1RECV_F0,1F0,1RECV_F2,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1F2,1B2,1SEND_B2,"
                   "1REDUCE_GRAD");
    expect_refused(text, "2:14: 1RECV_F2 is receive 1 from stage 0, but its 0SEND_F2 is send 2: a "
                         "channel keeps one order");
    expect_refused("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n",
                   "2:1: missing 1RECV_F0: stage 0 on rank 0 sends it");
    expect_refused("0F0,,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
                   "2:1: 1RECV_F0 has no 0SEND_F0 on rank 0 to receive from");
}

/* An order that only deadlocks where sends block is accepted, and reported. */
static void test_blocking(void **state)
{
    (void)state;
    sc_validate_report report;
    sc_table *table = read_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", &STRICT, &report);
    assert_true(report.is_blocking_deadlock);
    assert_non_null(strstr(report.blocking.text, "rank 0 cell 3 (0SEND_F1) waits for 1RECV_F1"));
    assert_true(report.has_ordered_w);
    sc_table_free(&table);
}

static char *write_text(const sc_table *table, bool has_header)
{
    char *text = NULL;
    sc_err err = {0};
    if (sc_csv_write(table, has_header, &text, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return text;
}

/* Out and in again is `compute`; out again, the text of a compute-only table is the same. */
static void check_round_trip(const sc_table *written, const sc_table *compute, bool has_header)
{
    char *text = write_text(written, has_header);
    sc_table *back = read_text(text, &STRICT, NULL);
    assert_true(sc_table_equals(compute, back));
    char *again = write_text(back, has_header);
    if (written == compute) {
        assert_string_equal(text, again);
    }
    free(again);
    free(text);
    sc_table_free(&back);
}

/* Lowered tables lose their communication on the way. */
static void test_round_trip(void **state)
{
    (void)state;
    for (int size = 0; size < 2 * 5 * 7; size++) {
        sc_gen_params params = {.n_ranks = size / 2 % 5 + 1, .n_mb = size / 10 + 1};
        sc_table *table = NULL;
        sc_table *lowered = NULL;
        assert_int_equal(sc_gen_make(size % 2 == 0 ? "gpipe" : "1f1b", &params, &table, NULL),
                         SC_OK);
        assert_int_equal(sc_lower_table(table, &lowered, NULL), SC_OK);
        check_round_trip(table, table, true);
        check_round_trip(table, table, false);
        check_round_trip(lowered, table, true);
        check_round_trip(lowered, table, false);
        sc_table_free(&lowered);
        sc_table_free(&table);
    }
}

static void test_written(void **state)
{
    (void)state;
    sc_table *table = SC_ROWS(2, 1, "0F0,0B0", "1F0,1B0");
    char *text = write_text(table, true);
    assert_string_equal(text, "# Stagecoach schedule, one row a rank\n# version: 1\n# name: test\n"
                              "# p: 2\n# stages: 2\n# m: 1\n# placement: 0 1\n0F0,0B0\n1F0,1B0\n");
    free(text);
    text = write_text(table, false);
    assert_string_equal(text, "0F0,0B0\n1F0,1B0\n");
    free(text);
    // a name that came from a file name does not break the file
    (void)snprintf(table->name, sizeof table->name, "a\nb\xff");
    text = write_text(table, true);
    assert_non_null(strstr(text, "# name: a?b?\n"));
    free(text);
    sc_table_free(&table);
}

static void test_limits(void **state)
{
    (void)state;
    // more rows than any schedule has ranks
    size_t n = ((size_t)SC_CSV_ROWS_MAX + 1) * 2;
    char *text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 2) {
        text[i] = ',';
        text[i + 1] = '\n';
    }
    sc_table *table = NULL;
    sc_err err = {0};
    assert_int_equal(sc_csv_read(text, n, &STRICT, &table, NULL, &err), SC_LIMIT);
    assert_string_equal(err.text, "dir/f.csv:4097:1: more than 4096 rows");
    free(text);
    // too many bytes: refused before they are read
    assert_int_equal(sc_csv_read("", (size_t)SC_CSV_BYTES_MAX + 1, &STRICT, &table, NULL, &err),
                     SC_LIMIT);
    assert_non_null(strstr(err.text, "more than 67108864 bytes"));
    // a few cells that would need a large table
    expect_refused("# stages: 4096\n# m: 65536\n0F0,0B0\n",
                   "3:1: a schedule of 65536 microbatches on 4096 stages: needs 1 to 65536 "
                   "microbatches and at most 16777216 pairs of stage and microbatch");
    // more actions than allowed, all the same
    n = ((size_t)SC_CSV_CELLS_MAX + 1) * 4;
    text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        text[i] = "0F0,"[i % 4];
    }
    assert_int_equal(sc_csv_read(text, n, &STRICT, &table, NULL, &err), SC_LIMIT);
    assert_non_null(strstr(err.text, ": more than 4194304 actions"));
    assert_null(table);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),         cmocka_unit_test(test_v_placement),
        cmocka_unit_test(test_overlap),       cmocka_unit_test(test_cells_refused),
        cmocka_unit_test(test_lines_refused), cmocka_unit_test(test_header),
        cmocka_unit_test(test_dialects),      cmocka_unit_test(test_communication),
        cmocka_unit_test(test_blocking),      cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_written),       cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
