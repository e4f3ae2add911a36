/*
 * The seven holes of PyTorch's schedule validation, which counts sets of actions for each rank
 * alone and matches only the beginning of a cell. The first file of each test passes there (that of
 * an unknown stage ends in a KeyError); here each is refused, with the place and the reason. Beside
 * it stands a sound file that differs in that point alone.
 */
#include "schedules/csv.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const sc_csv_options OPTIONS = {.path = "f.csv"};

static void expect_refused(const char *text, const char *why)
{
    sc_table *table = NULL;
    sc_err err = {0};
    assert_int_equal(sc_csv_read(text, strlen(text), &OPTIONS, &table, NULL, &err), SC_INVALID);
    assert_null(table);
    assert_string_equal(err.text, why);
}

static void expect_sound(const char *text)
{
    sc_table *table = NULL;
    sc_err err = {0};
    if (sc_csv_read(text, strlen(text), &OPTIONS, &table, NULL, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    sc_table_free(&table);
}

/* A set of actions has each of them once, however often it was there. */
static void test_duplicates(void **state)
{
    (void)state;
    expect_sound("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    expect_refused("0F0,0F1,0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n",
                   "f.csv:1:9: duplicate 0F0; cell 0 has it already");
    expect_refused("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,1B0\n",
                   "f.csv:2:17: duplicate 1B0; cell 1 has it already");
    expect_refused("0F0,0F1,0I0,0W0,0I1,0W1,0W0\n1F0,1B0,1F1,1B1\n",
                   "f.csv:1:25: duplicate 0W0; cell 3 has it already");
}

/* As many different microbatches as there should be, but not those. */
static void test_microbatch_out_of_range(void **state)
{
    (void)state;
    expect_sound("# m: 2\n0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
    expect_refused("# m: 2\n0F0,0F7,0B0,0B7\n1F0,1F7,1B0,1B7\n",
                   "f.csv:2:5: 0F7: microbatch 7 is out of range; the microbatches are 0 to 1");
    // without the header as well
    expect_refused("0F0,0F7,0B0,0B7\n1F0,1F7,1B0,1B7\n",
                   "f.csv:1:5: 0F7: microbatch 7 is out of range; the microbatches are 0 to 1");
}

/* Only the beginning of a cell is matched. */
static void test_text_after_cell(void **state)
{
    (void)state;
    expect_sound("0F0, 0B0 \n");
    expect_refused("0F0xyz,0B0\n", "f.csv:1:1: \"0F0xyz\": \"xyz\" is left over after the action");
    expect_refused("0F0,0B0 1B0\n",
                   "f.csv:1:5: \"0B0 1B0\": \" 1B0\" is left over after the action");
    expect_refused("0F0,0B0;0F1\n",
                   "f.csv:1:5: \"0B0;0F1\": \";0F1\" is left over after the action");
}

/* B + (I + W) / 2 is m, though microbatch 1 has no backward. */
static void test_missing_backward(void **state)
{
    (void)state;
    expect_sound("0F0,0F1,0B0,0I1,0W1\n");
    expect_refused("0F0,0F1,0B0,0I0,0W0\n",
                   "f.csv:1:13: 0I0 beside 0B0 of cell 2: a backward is either B, or I and then W");
    // I and W, but not of one microbatch
    expect_refused("0F0,0F1,0F2,0B0,0I1,0W2,0B2\n",
                   "f.csv:1:25: 0B2 beside 0W2 of cell 5: a backward is either B, or I and then W");
    expect_refused("0F0,0F1,0I0,0I1,0W1\n",
                   "f.csv:1:9: missing backward: stage 0 has 0I0, but no 0W0");
    expect_refused("# m: 2\n0F0,0F1,0B0\n",
                   "f.csv:2:5: missing backward: stage 0 has 0F1, but neither 0B1 nor 0I1 with "
                   "0W1");
}

/* Nobody asks who sends what is received. */
static void test_sends_removed(void **state)
{
    (void)state;
    expect_sound("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
    expect_refused("0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n",
                   "f.csv:2:1: 1RECV_F0 has no 0SEND_F0 on rank 0 to receive from");
    expect_refused("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n",
                   "f.csv:1:14: 0RECV_B0 has no 1SEND_B0 on rank 1 to receive from");
    // nor whether the k-th send is the k-th receive
    expect_refused("0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1\n"
                   "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n",
                   "f.csv:2:1: 1RECV_F0 is receive 0 from stage 0, but its 0SEND_F0 is send 1: a "
                   "channel keeps one order");
}

/* Each rank's own order is sound, and each waits for the other's next cell. */
static void test_wait_cycle(void **state)
{
    (void)state;
    expect_sound("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
    expect_refused("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
                   "f.csv:1:5: deadlock: rank 0 cell 1 (0B0) waits for 1B0 of rank 1 cell 2, rank "
                   "1 cell 1 (1F1) waits for 0F1 of rank 0 cell 2");
    // with communication: both wait to receive before they send
    expect_refused("0F0,0RECV_B0,0B0,0SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
                   "f.csv:1:14: deadlock: rank 0 cell 2 (0B0) waits for 1SEND_B0 of rank 1 cell 3, "
                   "rank 1 cell 1 (1F0) waits for 0SEND_F0 of rank 0 cell 3");
}

/* There it ends as a KeyError without a place. */
static void test_unknown_stage(void **state)
{
    (void)state;
    expect_sound("0F0,0B0\n1F0,1B0\n");
    expect_refused("0F0,0B0\n1F0,1B0,9F0\n",
                   "f.csv:2:9: 9F0: unknown stage 9: stages count from 0, and no row has stage 2");
    expect_refused("# stages: 2\n0F0,0B0\n1F0,1B0,2F0\n",
                   "f.csv:3:9: 2F0: unknown stage 2; the stages are 0 to 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_duplicates),      cmocka_unit_test(test_microbatch_out_of_range),
        cmocka_unit_test(test_text_after_cell), cmocka_unit_test(test_missing_backward),
        cmocka_unit_test(test_sends_removed),   cmocka_unit_test(test_wait_cycle),
        cmocka_unit_test(test_unknown_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
