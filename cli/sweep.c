#include "cli/sweep.h"

#include "cli/cmd.h"
#include "cli/png.h"
#include "schedules/chart.h"
#include "schedules/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TITLE_MAX = 200
};

/* What a sweep gathers. */
typedef struct gathered {
    sc_text csv;
    sc_chart_series *series; // (n_series) one a schedule, in the order of gen's list
    sc_chart_point *points;  // (n_series)(n_sizes)
    size_t n_series;
    size_t n_sizes;
} gathered;

static size_t count_sizes(sc_scheduleargs_sweep sweep)
{
    return (size_t)((sweep.to - sweep.from) / sweep.step) + 1;
}

static sc_status gather_init(gathered *all, sc_scheduleargs_sweep sweep, sc_err *err)
{
    const sc_gen_info *list = sc_gen_list(&all->n_series);
    all->n_sizes = count_sizes(sweep);
    all->series = calloc(all->n_series, sizeof *all->series);
    all->points = calloc(all->n_series * all->n_sizes, sizeof *all->points);
    if (all->series == NULL || all->points == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %zu sizes", all->n_sizes);
    }
    for (size_t i = 0; i < all->n_series; i++) {
        all->series[i] = (sc_chart_series){list[i].name, all->points + i * all->n_sizes, 0};
    }
    sc_text_add(&all->csv, "schedule,p,m,v,cost,makespan,ideal,bubble_zero_bubble,bubble_gpipe,"
                           "bubble_megatron,peak_microbatches,messages,bytes,ordered_w,"
                           "blocking_safe\n");
    return SC_OK;
}

static void gather_done(gathered *all)
{
    sc_text_free(&all->csv);
    free(all->points);
    free(all->series);
}

static void add_row(sc_text *csv, const sc_contest_entry *entry, const sc_gen_params *params)
{
    sc_text_add(csv, "%s,%d,%d,%.9g,%.9g,%.9g,%.9g,", entry->info->name, params->n_ranks,
                params->n_mb, entry->v, entry->cost, entry->makespan, entry->ideal);
    sc_text_add(csv, "%.6f,%.6f,%.6f,%.9g,%zu,%.0f,%d,%d\n", entry->bubbles.of_cost,
                entry->bubbles.of_total, entry->bubbles.of_ideal, entry->peak, entry->n_messages,
                entry->bytes, entry->has_ordered_w, !entry->is_blocking_deadlock);
}

/* The entries of one size: rows of the CSV, a point of each line. */
static void gather_size(gathered *all, const sc_contest *contest, const sc_gen_params *params,
                        int size)
{
    size_t n = 0;
    const sc_gen_info *first = sc_gen_list(&n);
    for (size_t i = 0; i < contest->n_fit; i++) {
        const sc_contest_entry *entry = &contest->entries[i];
        size_t s = (size_t)(entry->info - first);
        sc_chart_point *points = all->points + s * all->n_sizes;
        add_row(&all->csv, entry, params);
        points[all->series[s].n_points++] = (sc_chart_point){size, 100 * entry->bubbles.of_cost};
    }
}

static void write_title(const sc_scheduleargs *args, const sc_contest_rules *rules, char *out,
                        size_t n)
{
    bool is_over_m = args->sweep.axis == 'm';
    int fixed = is_over_m ? rules->params.n_ranks : rules->params.n_mb;
    int used = snprintf(out, n, "bubble at %c = %d, ", is_over_m ? 'p' : 'm', fixed);
    size_t at = used < 0 || (size_t)used >= n ? n - 1 : (size_t)used;
    if (args->profile != NULL) {
        (void)snprintf(out + at, n - at, "times measured by %s", args->profile);
    } else {
        (void)snprintf(out + at, n - at, "F,I,W,COMM = %.6g,%.6g,%.6g,%.6g", rules->costs.f,
                       rules->costs.i, rules->costs.w, rules->costs.comm);
    }
}

static sc_status write_chart(const sc_scheduleargs *args, const sc_contest_rules *rules,
                             const gathered *all, sc_err *err)
{
    char title[TITLE_MAX];
    write_title(args, rules, title, sizeof title);
    sc_status status = SC_OK;
    char *svg = NULL;
    sc_chart chart = {.title = title,
                      .x_label = args->sweep.axis == 'm' ? "m, microbatches a step" : "p, ranks",
                      .y_label = "bubble: (cost - ideal) / cost, %",
                      .series = all->series,
                      .n_series = all->n_series};
    SC_GOTO(sc_chart_write(&chart, &svg, err));
    if (args->svg != NULL) {
        SC_GOTO(sc_cmd_write_file(args->svg, svg, strlen(svg), err));
    }
    if (args->png != NULL) {
        SC_GOTO(sc_png_write(svg, strlen(svg), args->png, err));
    }
out:
    free(svg);
    return status;
}

/* What has no line in the chart and no row, so that nobody looks for it in vain. */
static void note_missing(const gathered *all, const sc_contest *last)
{
    size_t n = 0;
    const sc_gen_info *first = sc_gen_list(&n);
    for (size_t i = 0; i < last->n_entries; i++) {
        const sc_contest_entry *entry = &last->entries[i];
        if (all->series[entry->info - first].n_points == 0) {
            (void)fprintf(stderr, "stagecoach: at no size: %s\n", entry->why.text);
        }
    }
}

static sc_status write_files(const sc_scheduleargs *args, const sc_contest_rules *rules,
                             gathered *all, sc_err *err)
{
    char *csv = NULL;
    if (args->svg != NULL || args->png != NULL) {
        SC_TRY(write_chart(args, rules, all, err));
    }
    bool is_taken = sc_scheduleargs_is_stdout(args->svg) || sc_scheduleargs_is_stdout(args->png);
    if (args->csv == NULL && is_taken) {
        return SC_OK;
    }
    SC_TRY(sc_text_take(&all->csv, &csv, err));
    sc_status status =
        sc_cmd_write_file(args->csv != NULL ? args->csv : "-", csv, strlen(csv), err);
    free(csv);
    return status;
}

sc_status sc_sweep_run(const sc_scheduleargs *args, const sc_contest_rules *rules, sc_err *err)
{
    sc_status status = SC_OK;
    sc_contest_rules at = *rules;
    sc_contest contest = {0};
    gathered all = {.series = NULL};
    int *size = args->sweep.axis == 'm' ? &at.params.n_mb : &at.params.n_ranks;
    SC_GOTO(gather_init(&all, args->sweep, err));
    for (size_t i = 0; i < all.n_sizes; i++) {
        *size = args->sweep.from + (int)i * args->sweep.step;
        sc_contest_done(&contest);
        SC_GOTO(sc_contest_run(&at, &contest, err));
        gather_size(&all, &contest, &at.params, *size);
    }
    note_missing(&all, &contest);
    SC_GOTO(write_files(args, rules, &all, err));
out:
    sc_contest_done(&contest);
    gather_done(&all);
    return status;
}
