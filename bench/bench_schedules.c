/*
 * bench_schedules - generate, check, lower and simulate large schedules: CPU seconds and bytes.
 *
 * Every run is a process of its own: its largest resident size, less what it began with, gives the
 * bytes per compute action. "plain" is the simulation alone as the shortest loop that does it: it
 * trusts the table, checks nothing and keeps no timeline. Both must find the same cost.
 */
#include "schedules/gen.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    N_RUNS_MAX = 99
};

typedef struct bench_case {
    const char *name;
    sc_gen_params params;
    double limit_s; // the whole must stay below this
} bench_case;

/* Times of a 28.3B model, Qi et al., arXiv 2401.10241, Table 9. */
#define TIMES .f = 10.419, .i = 10.207, .w = 7.715, .comm = .408

static const bench_case CASES[] = {
    {"interleaved", {.n_ranks = 64, .n_mb = 1024, .n_chunks = 4, TIMES}, 1},
    {"1f1b", {.n_ranks = 512, .n_mb = 4096, TIMES}, 5},
    {"zb-auto", {.n_ranks = 32, .n_mb = 256, .limit_mb = 32, TIMES}, 2},
    {"zb-auto", {.n_ranks = 32, .n_mb = 256, .limit_mb = 64, TIMES}, 2},
};

enum {
    N_CASES = sizeof CASES / sizeof CASES[0]
};

typedef struct outcome {
    double generate_s;
    double check_s;
    double lower_s;
    double simulate_s;
    double plain_s;
    double bubble;
    size_t n_actions;
    size_t bytes; // largest resident size, less that at the start
    sc_status status;
    sc_err err;
} outcome;

/* One thread that waits for nothing: its CPU time is what it takes on a core of its own. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds since *at, which becomes now. */
static double lap(double *at)
{
    double before = *at;
    *at = now();
    return *at - before;
}

static size_t resident_bytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (size_t)use.ru_maxrss * 1024;
}

/* One rank's actions up to the first whose input is not there; ends: -1, or when F and when B or I
   of a pair ended. */
static size_t run_rank(const sc_table *t, const sc_stage_cost *c, double comm, int rank, size_t at,
                       double *ends[static 2], double *clock)
{
    const sc_row *row = &t->rows[rank];
    for (; at < row->n_actions; at++) {
        const sc_action a = row->actions[at];
        const bool is_f = a.op == SC_OP_F;
        const int from = is_f ? a.stage - 1 : a.stage + 1;
        double start = *clock;
        if (a.op != SC_OP_W && from >= 0 && from < t->n_stages) {
            const double end = ends[!is_f][(size_t)from * (size_t)t->n_mb + (size_t)a.mb];
            if (end < 0) {
                return at;
            }
            start = fmax(start, end + (t->rank_of_stage[from] != rank ? comm : 0));
        }
        const sc_stage_cost cost = c[a.stage];
        *clock = start + (is_f ? cost.f : 0) + (a.op == SC_OP_B || a.op == SC_OP_I ? cost.i : 0) +
                 (a.op == SC_OP_B || a.op == SC_OP_W ? cost.w : 0);
        if (a.op != SC_OP_W) {
            ends[!is_f][(size_t)a.stage * (size_t)t->n_mb + (size_t)a.mb] = *clock;
        }
    }
    return at;
}

/* The largest end: for tables whose rank 0 is first and last, that is the cost. */
static double run_plain(const sc_table *t, const sc_stage_cost *c, double comm)
{
    const size_t n_pairs = (size_t)t->n_stages * (size_t)t->n_mb;
    double *ends[2] = {malloc(n_pairs * sizeof(double)), malloc(n_pairs * sizeof(double))};
    double *clocks = calloc((size_t)t->n_ranks, sizeof *clocks);
    size_t *at = calloc((size_t)t->n_ranks, sizeof *at);
    double last = NAN;
    if (ends[0] != NULL && ends[1] != NULL && clocks != NULL && at != NULL) {
        for (size_t k = 0; k < n_pairs; k++) {
            ends[0][k] = ends[1][k] = -1;
        }
        while (at[0] < t->rows[0].n_actions) {
            for (int rank = 0; rank < t->n_ranks; rank++) {
                at[rank] = run_rank(t, c, comm, rank, at[rank], ends, &clocks[rank]);
            }
        }
        last = clocks[0];
    }
    free(at);
    free(clocks);
    free(ends[1]);
    free(ends[0]);
    return last;
}

/* Everything of one case. */
static sc_status run(const bench_case *b, outcome *out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *table = NULL;
    sc_table *lowered = NULL;
    sc_timeline *timeline = NULL;
    sc_stage_cost stages[SC_STAGES_MAX];
    sc_validate_report report;
    const size_t before = resident_bytes();
    double at = now();
    SC_GOTO(sc_gen_make(b->name, &b->params, &table, err));
    out->generate_s = lap(&at);
    SC_GOTO(sc_validate_table(table, NULL, &report, err));
    out->check_s = lap(&at);
    SC_GOTO(sc_lower_table(table, &lowered, err));
    out->lower_s = lap(&at);
    sc_simulate_uniform_costs(table, b->params.f, b->params.i, b->params.w, stages);
    const sc_costs costs = {stages, b->params.comm};
    SC_GOTO(sc_simulate_run(table, &costs, &timeline, err));
    out->simulate_s = lap(&at);
    out->bytes = resident_bytes() - before;
    at = now();
    const double last = run_plain(table, stages, b->params.comm);
    out->plain_s = lap(&at);
    out->bubble = timeline->bubble;
    for (int rank = 0; rank < table->n_ranks; rank++) {
        out->n_actions += table->rows[rank].n_actions;
    }
    const size_t n_last = timeline->n_spans[0];
    const double expected = timeline->spans[0][n_last - 1].end;
    if (!(fabs(last - expected) <= 1e-9 * expected)) {
        status = sc_status_fail(err, SC_INVALID, "rank 0 ends at %.17g, plainly at %.17g", expected,
                                last);
    }
out:
    sc_simulate_free(&timeline);
    sc_table_free(&lowered);
    sc_table_free(&table);
    return status;
}

/* The same in a process of its own. */
static outcome run_apart(const bench_case *b)
{
    outcome out = {.status = SC_FAILED};
    int ends[2];
    if (pipe(ends) != 0) {
        return out;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        outcome own = {0};
        own.status = run(b, &own, &own.err);
        _exit(write(ends[1], &own, sizeof own) == (ssize_t)sizeof own ? 0 : 1);
    }
    close(ends[1]);
    if (pid < 0 || read(ends[0], &out, sizeof out) != (ssize_t)sizeof out) {
        out.status = sc_status_fail(&out.err, SC_FAILED, "its process ended early");
    }
    close(ends[0]);
    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
    return out;
}

static double whole_s(const outcome *o)
{
    return o->generate_s + o->check_s + o->lower_s + o->simulate_s;
}

static int compare(const void *a, const void *b)
{
    const double x = whole_s(a);
    const double y = whole_s(b);
    return (x > y) - (x < y);
}

/* Prints the median of n_runs; true when the case stays below its limit. */
static bool show(const bench_case *b, int n_runs)
{
    static outcome outcomes[N_RUNS_MAX];
    for (int k = 0; k < n_runs; k++) {
        outcomes[k] = run_apart(b);
        if (outcomes[k].status != SC_OK) {
            fprintf(stderr, "bench_schedules: %s: %s\n", b->name, outcomes[k].err.text);
            return false;
        }
    }
    qsort(outcomes, (size_t)n_runs, sizeof outcomes[0], compare);
    const outcome *o = &outcomes[n_runs / 2];
    const bool is_met = whole_s(o) < b->limit_s;
    printf("%-11s %4d %2d %5d %9zu  %8.3f %8.3f %8.3f %8.3f  %8.3f < %g %s  %8.3f  %6.0f  %.4f\n",
           b->name, b->params.n_ranks, b->params.n_chunks == 0 ? 1 : b->params.n_chunks,
           b->params.n_mb, o->n_actions, o->generate_s, o->check_s, o->lower_s, o->simulate_s,
           whole_s(o), b->limit_s, is_met ? "yes" : "NO ", o->plain_s,
           (double)o->bytes / (double)o->n_actions, o->bubble);
    return is_met;
}

int main(int argc, char **argv)
{
    const long n_runs = argc == 2 ? strtol(argv[1], NULL, 10) : 5;
    if (argc > 2 || n_runs < 1 || n_runs > N_RUNS_MAX) {
        fprintf(stderr, "usage: bench_schedules [RUNS, 5 by default, at most %d]\n", N_RUNS_MAX);
        return 2;
    }
    printf(
        "medians of %ld runs, in CPU seconds; bytes a compute action, all tables and the timeline "
        "alive\n",
        n_runs);
    printf("%-11s %4s %2s %5s %9s  %8s %8s %8s %8s  %18s  %8s  %6s  %s\n", "schedule", "p", "v",
           "m", "actions", "generate", "check", "lower", "simulate", "whole, limit, met", "plain",
           "bytes", "bubble");
    bool is_met = true;
    for (size_t k = 0; k < N_CASES; k++) {
        is_met = show(&CASES[k], (int)n_runs) && is_met;
        fflush(stdout);
    }
    return is_met ? 0 : 1;
}
