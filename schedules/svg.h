/*
 * svg - timelines as a vector picture, drawn as papers do: a line of boxes a rank, the microbatch
 * in the box, a colour an operation, a legend and a time axis.
 *
 * Several panels are stacked over one another with one scale, e.g. planned above measured.
 */
#ifndef SC_SCHEDULES_SVG_H
#define SC_SCHEDULES_SVG_H

#include "schedules/simulate.h"

/* One timeline. Only its spans are drawn, so they may come from anywhere: simulated or measured. */
typedef struct sc_svg_panel {
    const char *title;
    int n_ranks;
    sc_span *const *spans; // (n_ranks)(n_spans[rank])
    const size_t *n_spans; // (n_ranks)
} sc_svg_panel;

typedef struct sc_svg_options {
    int width;        // pixels; 0: wide enough for the numbers in the shortest boxes
    const char *unit; // of the times, for the axis, e.g. "ms"; NULL: none
} sc_svg_options;

/* The panel of a timeline; borrows it. */
sc_svg_panel sc_svg_panel_of(const char *title, const sc_timeline *timeline);
/* The whole SVG document; each panel's time begins at its first span. malloc, caller frees. */
sc_status sc_svg_write(const sc_svg_panel *panels, size_t n_panels, const sc_svg_options *options,
                       char **out, sc_err *err);

#endif
