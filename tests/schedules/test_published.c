/* Numbers that papers print: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241. */
#include "tests/schedules/made.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

/* A row of Tables 5 and 9: profiled times in us, then bubble rates in 1e-4. */
typedef struct paper_row {
    const char *model;
    int p;
    int m;
    int v; // of 1F1B-I: (layers + 2) / p
    int f;
    int i;
    int w;
    int comm;
    int r_1f1b;
    int r_interleaved;
    int r_h1;
    int r_h2;
    int r_1p;
    int r_2p;
} paper_row;

static const paper_row ROWS[] = {
    {"1.5B", 8, 24, 3, 18522, 18086, 9337, 601, 2431, 1055, 1585, 1083, 1585, 433},
    {"1.5B", 8, 32, 3, 18513, 18086, 9331, 626, 1985, 818, 1242, 837, 1242, 39},
    {"6.2B", 8, 24, 4, 29718, 29444, 19927, 527, 2347, 808, 1323, 698, 1323, 29},
    {"6.2B", 8, 32, 4, 29802, 29428, 19530, 577, 1898, 628, 1045, 559, 1045, 22},
    {"14.6B", 16, 48, 3, 11347, 11248, 8132, 377, 2552, 1104, 1397, 672, 1397, 66},
    {"14.6B", 16, 64, 3, 11307, 11254, 8101, 379, 2082, 852, 1088, 516, 1088, 54},
    {"28.3B", 32, 96, 2, 10419, 10207, 7715, 408, 2646, 1493, 1421, 641, 1421, 38},
    {"28.3B", 32, 128, 2, 10408, 10204, 7703, 408, 2168, 1164, 1106, 490, 1106, 29},
};

enum {
    N_ROWS = sizeof ROWS / sizeof ROWS[0]
};

static void expect_rate(const paper_row *row, const char *name, double bubble, int rate)
{
    if (lround(bubble * 1e4) != rate) {
        fail_msg("%s p %d m %d: %s has a bubble of %.5f, printed is .%04d", row->model, row->p,
                 row->m, name, bubble, rate);
    }
}

/* The cost of a schedule in ms: times of a paper's table are decimals, as users give them. */
static sc_timeline *simulate(const paper_row *row, const char *name, double limit_mb)
{
    sc_gen_params params = {.n_ranks = row->p,
                            .n_mb = row->m,
                            .limit_mb = limit_mb,
                            .f = row->f / 1e3,
                            .i = row->i / 1e3,
                            .w = row->w / 1e3,
                            .comm = row->comm / 1e3};
    sc_table *table = sc_made_new(name, &params);
    sc_timeline *t = sc_made_simulate(table, params.f, params.i, params.w, params.comm);
    sc_table_free(&table);
    return t;
}

static void check_rate(const paper_row *row, const char *name, double limit_mb, int rate)
{
    sc_timeline *t = simulate(row, name, limit_mb);
    expect_rate(row, name, t->bubble, rate);
    sc_simulate_free(&t);
}

/* Table 5. ZB-1p and ZB-2p are zb-auto with memory for p and 2p microbatches. */
static void test_table_5(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_ROWS; k++) {
        const paper_row *row = &ROWS[k];
        check_rate(row, "1f1b", 0, row->r_1f1b);
        check_rate(row, "zb-h1", 0, row->r_h1);
        check_rate(row, "zb-h2", 0, row->r_h2);
        check_rate(row, "zb-auto", row->p, row->r_1p);
        check_rate(row, "zb-auto", 2.0 * row->p, row->r_2p);
    }
}

/* The row's costs in us; the rates above follow from such. */
static void test_costs(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double limit_mb;
        double cost_us;
    } cases[] = {{"1f1b", 0, 1456749},
                 {"zb-h1", 0, 1310405},
                 {"zb-h2", 0, 1236632},
                 {"zb-auto", 8, 1310405},
                 {"zb-auto", 16, 1152599}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        sc_timeline *t = simulate(&ROWS[0], cases[k].name, cases[k].limit_mb);
        sc_made_near(t->cost * 1e3, cases[k].cost_us, "cost", cases[k].name);
        sc_simulate_free(&t);
    }
}

/* The closed forms with communication of ZB-H1 and ZB-H2. */
static void test_communication(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_ROWS; k++) {
        const paper_row *row = &ROWS[k];
        double work = row->m * (row->f + row->i + row->w);
        double h1 = work + (row->p - 1) * (row->f + row->i - row->w + 4.0 * row->comm);
        double h2 = work + (row->p - 1) * (row->f + row->i - 2 * row->w + 2.0 * row->comm);
        sc_timeline *t = simulate(row, "zb-h1", 0);
        sc_made_near(t->cost * 1e3, h1, "zb-h1", row->model);
        sc_simulate_free(&t);
        t = simulate(row, "zb-h2", 0);
        sc_made_near(t->cost * 1e3, h2, "zb-h2", row->model);
        sc_simulate_free(&t);
    }
}

/* 1F1B-I. The printed rates follow (m + (p - 1) / v)(F + I + W) + (2pv - p - 2) comm, which was
   fitted to them. Running the order with comm on every edge, the way from the last rank back to the
   first included, costs p comm more; without comm there is no difference. */
static void test_interleaved(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_ROWS; k++) {
        const paper_row *row = &ROWS[k];
        double work = row->f + row->i + row->w;
        double pv = row->p * row->v;
        double base = (row->m + (row->p - 1.0) / row->v) * work;
        double printed = base + (2 * pv - row->p - 2) * row->comm;
        expect_rate(row, "1F1B-I", 1 - row->m * work / printed, row->r_interleaved);

        sc_gen_params params = {.n_ranks = row->p, .n_mb = row->m, .n_chunks = row->v};
        sc_table *table = sc_made_new("interleaved", &params);
        sc_timeline *t = sc_made_simulate(table, row->f, row->i, row->w, 0);
        sc_made_near(t->cost, base, "interleaved", row->model);
        sc_simulate_free(&t);
        t = sc_made_simulate(table, row->f, row->i, row->w, row->comm);
        sc_made_near(t->cost, printed + row->p * (double)row->comm, "interleaved", row->model);
        sc_simulate_free(&t);
        sc_table_free(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_5),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_communication),
        cmocka_unit_test(test_interleaved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
