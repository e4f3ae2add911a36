/*
 * chart - lines over a number as a vector picture: axes, grid, one line a series, a legend.
 *
 * A series has points only where it has a value. Series that are the same everywhere share a line
 * and a colour: the legend shows each of them, with that colour.
 */
#ifndef SC_SCHEDULES_CHART_H
#define SC_SCHEDULES_CHART_H

#include "base/status.h"

typedef struct sc_chart_point {
    double x;
    double y;
} sc_chart_point;

typedef struct sc_chart_series {
    const char *name;
    const sc_chart_point *points; // (n_points) in rising x
    size_t n_points;
} sc_chart_series;

/* Everything is borrowed for the call. */
typedef struct sc_chart {
    const char *title;
    const char *x_label;
    const char *y_label;
    const sc_chart_series *series; // (n_series) those without points are left out
    size_t n_series;
} sc_chart;

enum {
    SC_CHART_SERIES_MAX = 64
};

/* The whole SVG document. The y axis begins at 0 unless a value is below. SC_INVALID when a number
   is not finite or x does not rise, or when there is no point at all; SC_LIMIT above
   SC_CHART_SERIES_MAX. malloc, caller frees *out. */
sc_status sc_chart_write(const sc_chart *chart, char **out, sc_err *err);

#endif
