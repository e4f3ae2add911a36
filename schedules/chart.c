#include "schedules/chart.h"

#include "schedules/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Pixels. */
enum {
    LEFT = 72,
    TOP = 48,
    PLOT_WIDTH = 640,
    PLOT_HEIGHT = 420,
    BOTTOM = 56, // x axis and its label
    GAP = 24,    // plot to legend
    LEGEND_LINE = 20,
    SAMPLE = 34, // the legend's piece of line
    LETTER = 7,  // width of a letter, about
    RIGHT = 16
};

/* Dark enough on white, and told apart by people who see fewer colours: neighbours in this list
   differ in lightness too. */
static const char *const COLOURS[] = {"#1f5fa8", "#e0882b", "#2f8f4e", "#b3312c",
                                      "#7a52a3", "#5ab4d6", "#8a5a3c", "#d667a8"};
static const char *const DASHES[] = {"", "7 3", "2 3"};

enum {
    N_COLOURS = sizeof COLOURS / sizeof COLOURS[0],
    N_DASHES = sizeof DASHES / sizeof DASHES[0],
    N_MARKS = 4
};

/* A linear axis with ticks at round numbers. */
typedef struct axis {
    double from;
    double to;
    double first; // tick, at or after `from`
    double step;  // between ticks
} axis;

typedef struct drawing {
    sc_text *text;
    const sc_chart *chart;
    axis x;
    axis y;
    int same_as[SC_CHART_SERIES_MAX]; // (n_series) an earlier series with the same points, or
                                      // itself
    int look[SC_CHART_SERIES_MAX];    // (n_series) number of its line's look
    int order[SC_CHART_SERIES_MAX];   // legend, top first
    int n_shown;
} drawing;

static double x_of(const drawing *d, double x)
{
    return LEFT + (x - d->x.from) / (d->x.to - d->x.from) * PLOT_WIDTH;
}

static double y_of(const drawing *d, double y)
{
    return TOP + PLOT_HEIGHT - (y - d->y.from) / (d->y.to - d->y.from) * PLOT_HEIGHT;
}

/* An axis over a range, with about n_wanted ticks of 1, 2 or 5 times a power of ten. With is_whole
   it ends at ticks, else at the range's ends. */
static axis make_axis(double from, double to, int n_wanted, bool is_whole)
{
    if (to <= from) {
        double pad = from != 0 ? fabs(from) / 2 : 1;
        from -= pad;
        to += pad;
    }
    double rough = (to - from) / n_wanted;
    double power = pow(10, floor(log10(rough)));
    double factor = rough / power;
    double step = 10 * power;
    if (factor <= 1) {
        step = power;
    } else if (factor <= 2) {
        step = 2 * power;
    } else if (factor <= 5) {
        step = 5 * power;
    }
    // A little less than a whole step is rounding.
    if (is_whole) {
        from = floor(from / step + 1e-9) * step;
        to = ceil(to / step - 1e-9) * step;
    }
    return (axis){from, to, ceil(from / step - 1e-9) * step, step};
}

static sc_status check_points(const sc_chart *chart, sc_err *err)
{
    size_t n = 0;
    if (chart->n_series > SC_CHART_SERIES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "a chart of %zu series; at most %d", chart->n_series,
                              SC_CHART_SERIES_MAX);
    }
    for (size_t s = 0; s < chart->n_series; s++) {
        const sc_chart_series *series = &chart->series[s];
        for (size_t i = 0; i < series->n_points; i++) {
            sc_chart_point point = series->points[i];
            bool is_rising = i == 0 || point.x > series->points[i - 1].x;
            if (!isfinite(point.x) || !isfinite(point.y) || !is_rising) {
                return sc_status_fail(err, SC_INVALID,
                                      "chart: %s: point %zu (%g, %g) is not finite or x does not "
                                      "rise",
                                      series->name, i, point.x, point.y);
            }
        }
        n += series->n_points;
    }
    return n > 0 ? SC_OK : sc_status_fail(err, SC_INVALID, "chart: no points to draw");
}

static void set_axes(drawing *d)
{
    double x_min = INFINITY;
    double x_max = -INFINITY;
    double y_min = 0;
    double y_max = 0;
    for (size_t s = 0; s < d->chart->n_series; s++) {
        const sc_chart_series *series = &d->chart->series[s];
        for (size_t i = 0; i < series->n_points; i++) {
            x_min = fmin(x_min, series->points[i].x);
            x_max = fmax(x_max, series->points[i].x);
            y_min = fmin(y_min, series->points[i].y);
            y_max = fmax(y_max, series->points[i].y);
        }
    }
    d->x = make_axis(x_min, x_max, 8, false);
    d->y = make_axis(y_min, y_max > y_min ? y_max : y_min + 1, 7, true);
}

/* True when two series cannot be told apart in the picture. */
static bool is_same(const drawing *d, const sc_chart_series *a, const sc_chart_series *b)
{
    if (a->n_points != b->n_points) {
        return false;
    }
    for (size_t i = 0; i < a->n_points; i++) {
        if (a->points[i].x != b->points[i].x ||
            fabs(y_of(d, a->points[i].y) - y_of(d, b->points[i].y)) > 0.25) {
            return false;
        }
    }
    return true;
}

static double last_y(const sc_chart_series *series)
{
    return series->points[series->n_points - 1].y;
}

/* True when series a stands above b in the legend: as their lines do at the right end; those that
   share a line stay together. */
static bool is_above(const drawing *d, int a, int b)
{
    double y_a = last_y(&d->chart->series[d->same_as[a]]);
    double y_b = last_y(&d->chart->series[d->same_as[b]]);
    if (y_a != y_b) {
        return y_a > y_b;
    }
    return d->same_as[a] != d->same_as[b] ? d->same_as[a] < d->same_as[b] : a < b;
}

/* Which series share a line, each line's look, and the legend's order. */
static void set_looks(drawing *d)
{
    int n_looks = 0;
    for (int s = 0; s < (int)d->chart->n_series; s++) {
        const sc_chart_series *series = &d->chart->series[s];
        if (series->n_points == 0) {
            continue;
        }
        d->same_as[s] = s;
        for (int other = s - 1; other >= 0; other--) {
            if (is_same(d, series, &d->chart->series[other])) {
                d->same_as[s] = d->same_as[other];
            }
        }
        d->look[s] = d->same_as[s] == s ? n_looks++ : d->look[d->same_as[s]];
        int at = d->n_shown++;
        while (at > 0 && is_above(d, s, d->order[at - 1])) {
            d->order[at] = d->order[at - 1];
            at--;
        }
        d->order[at] = s;
    }
}

static void write_axes(const drawing *d)
{
    const double bottom = TOP + PLOT_HEIGHT;
    const double right = LEFT + PLOT_WIDTH;
    sc_text_add(d->text, "<g class=\"axis\">\n");
    for (int i = 0; d->x.first + i * d->x.step <= d->x.to + d->x.step / 1000; i++) {
        double value = d->x.first + i * d->x.step;
        double x = x_of(d, value);
        sc_text_add(d->text,
                    "<path d=\"M%.2f %d V%.2f\"/><text class=\"x\" x=\"%.2f\" y=\"%.2f\">%.6g"
                    "</text>\n",
                    x, TOP, bottom + 5, x, bottom + 19, value);
    }
    for (int i = 0; d->y.first + i * d->y.step <= d->y.to + d->y.step / 1000; i++) {
        double value = d->y.first + i * d->y.step;
        double y = y_of(d, value);
        sc_text_add(d->text,
                    "<path d=\"M%d %.2f H%.2f\"/><text class=\"y\" x=\"%d\" y=\"%.2f\">%.6g"
                    "</text>\n",
                    LEFT - 5, y, right, LEFT - 9, y + 4, value);
    }
    sc_text_add(d->text, "</g>\n<text class=\"label\" x=\"%.2f\" y=\"%.2f\">",
                LEFT + PLOT_WIDTH / 2.0, bottom + 42);
    sc_text_add_xml(d->text, d->chart->x_label);
    sc_text_add(d->text,
                "</text>\n<text class=\"label\" transform=\"translate(20 %.2f) "
                "rotate(-90)\">",
                TOP + PLOT_HEIGHT / 2.0);
    sc_text_add_xml(d->text, d->chart->y_label);
    sc_text_add(d->text, "</text>\n");
}

/* A mark: circle, square, triangle, diamond. */
static void write_mark(const drawing *d, int look, double x, double y)
{
    const char *colour = COLOURS[look % N_COLOURS];
    // one colour again gets another mark
    switch ((look + look / N_COLOURS) % N_MARKS) {
    case 0:
        sc_text_add(d->text, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3.2\" fill=\"%s\"/>", x, y,
                    colour);
        break;
    case 1:
        sc_text_add(d->text, "<path d=\"M%.2f %.2fh5.6v5.6h-5.6z\" fill=\"%s\"/>", x - 2.8, y - 2.8,
                    colour);
        break;
    case 2:
        sc_text_add(d->text, "<path d=\"M%.2f %.2fl3.6 6.4h-7.2z\" fill=\"%s\"/>", x, y - 4,
                    colour);
        break;
    default:
        sc_text_add(d->text, "<path d=\"M%.2f %.2fl4 4l-4 4l-4-4z\" fill=\"%s\"/>", x, y - 4,
                    colour);
        break;
    }
}

static void open_line(const drawing *d, int look)
{
    sc_text_add(d->text, "<path class=\"line\" stroke=\"%s\" stroke-dasharray=\"%s\" d=\"",
                COLOURS[look % N_COLOURS], DASHES[look / N_COLOURS % N_DASHES]);
}

/* The line, with marks where they are not too dense to be seen. */
static void write_line(const drawing *d, const sc_chart_series *series, int look)
{
    double x_before = -INFINITY;
    open_line(d, look);
    for (size_t i = 0; i < series->n_points; i++) {
        sc_text_add(d->text, "%s%.2f %.2f", i == 0 ? "M" : " L", x_of(d, series->points[i].x),
                    y_of(d, series->points[i].y));
    }
    sc_text_add(d->text, "\"><title>");
    sc_text_add_xml(d->text, series->name);
    sc_text_add(d->text, "</title></path>\n");
    for (size_t i = 0; i < series->n_points; i++) {
        double x = x_of(d, series->points[i].x);
        if (x - x_before >= 24) {
            write_mark(d, look, x, y_of(d, series->points[i].y));
            x_before = x;
        }
    }
    sc_text_add(d->text, "\n");
}

static void write_legend(const drawing *d)
{
    const double x = LEFT + PLOT_WIDTH + GAP;
    for (int i = 0; i < d->n_shown; i++) {
        int s = d->order[i];
        double y = TOP + 8 + i * LEGEND_LINE;
        open_line(d, d->look[s]);
        sc_text_add(d->text, "M%.2f %.2fh%d\"/>", x, y, SAMPLE);
        write_mark(d, d->look[s], x + SAMPLE / 2.0, y);
        sc_text_add(d->text, "<text class=\"legend\" x=\"%.2f\" y=\"%.2f\">", x + SAMPLE + 8,
                    y + 4);
        sc_text_add_xml(d->text, d->chart->series[s].name);
        sc_text_add(d->text, "</text>\n");
    }
}

static int width_of(const drawing *d)
{
    size_t longest = 0;
    for (int i = 0; i < d->n_shown; i++) {
        size_t n = strlen(d->chart->series[d->order[i]].name);
        longest = n > longest ? n : longest;
    }
    return LEFT + PLOT_WIDTH + GAP + SAMPLE + 8 + (int)longest * LETTER + RIGHT;
}

static int height_of(const drawing *d)
{
    int plot = TOP + PLOT_HEIGHT + BOTTOM;
    int legend = TOP + d->n_shown * LEGEND_LINE + BOTTOM / 2;
    return legend > plot ? legend : plot;
}

static void write_document(const drawing *d)
{
    int width = width_of(d);
    int height = height_of(d);
    sc_text_add(d->text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\" "
                "font-size=\"12\">\n",
                width, height, width, height);
    sc_text_add(d->text, "<style>.title{font-weight:bold;font-size:14px}.axis path{stroke:#ddd;"
                         "fill:none}.axis text{fill:#444;font-size:11px}.x,.label{text-anchor:"
                         "middle}.y{text-anchor:end}.line{fill:none;stroke-width:1.8}</style>\n");
    sc_text_add(d->text, "<path d=\"M0 0H%dV%dH0Z\" fill=\"white\"/>\n", width, height);
    sc_text_add(d->text, "<text class=\"title\" x=\"%d\" y=\"26\">", LEFT);
    sc_text_add_xml(d->text, d->chart->title);
    sc_text_add(d->text, "</text>\n");
    write_axes(d);
    for (int s = 0; s < (int)d->chart->n_series; s++) {
        if (d->chart->series[s].n_points > 0 && d->same_as[s] == s) {
            write_line(d, &d->chart->series[s], d->look[s]);
        }
    }
    write_legend(d);
    sc_text_add(d->text, "</svg>\n");
}

sc_status sc_chart_write(const sc_chart *chart, char **out, sc_err *err)
{
    SC_TRY(check_points(chart, err));
    sc_text text = {0};
    drawing d = {.text = &text, .chart = chart};
    set_axes(&d);
    set_looks(&d);
    write_document(&d);
    return sc_text_take(&text, out, err);
}
