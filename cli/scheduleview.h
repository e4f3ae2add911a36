/*
 * scheduleview - what `stagecoach schedule` shows of a table and its simulation.
 */
#ifndef SC_CLI_SCHEDULEVIEW_H
#define SC_CLI_SCHEDULEVIEW_H

#include "schedules/simulate.h"
#include "schedules/validate.h"

/* Costs of one microbatch on one rank, any unit. */
typedef struct sc_scheduleview_costs {
    double f;
    double i;
    double w;
    double comm; // of an edge between two ranks
} sc_scheduleview_costs;

/* A table with what is known of it; everything is borrowed. */
typedef struct sc_scheduleview {
    const sc_table *table;            // compute-only
    const sc_validate_report *report; // its checks
    const sc_timeline *timeline;      // its simulation; NULL for a check
    sc_scheduleview_costs costs;      // of the simulation
    const char *file;                 // it came from; NULL for a generated one
} sc_scheduleview;

/* The three shares of idle time that the field calls bubble. Idle is what the rank with most work
   does not work; the papers agree only where all ranks start and end together. */
typedef struct sc_scheduleview_bubbles {
    double of_cost;  // (cost - ideal) / cost: Zero Bubble
    double of_total; // (makespan - ideal) / makespan: GPipe, DAPPLE, Chimera
    double of_ideal; // (makespan - ideal) / ideal: Megatron-LM, Llama 3
} sc_scheduleview_bubbles;

sc_scheduleview_bubbles sc_scheduleview_measure(const sc_timeline *timeline);
/* Peak of a rank in microbatches: a microbatch on one rank is n_stages / n_ranks of its stages'
   activations. */
double sc_scheduleview_peak(const sc_table *table, int rank);

/* Each writes to stdout. */
sc_status sc_scheduleview_print_json(const sc_scheduleview *view, sc_err *err);
sc_status sc_scheduleview_print_gantt(const sc_scheduleview *view, int width, bool has_colour,
                                      sc_err *err);
/* Lines: sizes, cost, makespan, bubble; the bubble in each convention; peaks. */
void sc_scheduleview_print_summary(const sc_scheduleview *view);
/* What the checks found beside that: placement with peaks, blocking sends, W order. */
sc_status sc_scheduleview_print_report(const sc_scheduleview *view, sc_err *err);
/* "rank 0: 0F0,0SEND_F0,..." of every row. */
sc_status sc_scheduleview_print_rows(const sc_table *table, sc_err *err);

/* Each writes a file; "-" is stdout. */
sc_status sc_scheduleview_write_svg(const sc_scheduleview *view, const char *path, sc_err *err);
sc_status sc_scheduleview_write_png(const sc_scheduleview *view, const char *path, sc_err *err);
sc_status sc_scheduleview_write_trace(const sc_scheduleview *view, const char *path, sc_err *err);

#endif
