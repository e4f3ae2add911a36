#include "schedules/gantt.h"

#include "schedules/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH_MIN = 40,
    WIDTH_MAX = 100000
};

typedef struct sc_canvas {
    const sc_timeline *timeline;
    sc_text *text;
    bool has_colour;
    double first;    // time at column 0
    double per_unit; // columns a unit of time
    int n_columns;
    int label_width;
    char *line;   // (n_columns) one rank
    char *colour; // (n_columns) its operation's letter, ' ' for none
} sc_canvas;

static int column_of(const sc_canvas *canvas, double time)
{
    int column = (int)lround((time - canvas->first) * canvas->per_unit);
    return column > canvas->n_columns ? canvas->n_columns : column;
}

/* Background colour and black text, by operation. */
static const char *ansi(char letter)
{
    switch (letter) {
    case 'F':
        return "\x1b[30;104m";
    case 'B':
    case 'I':
        return "\x1b[30;102m";
    case 'W':
        return "\x1b[30;103m";
    default:
        return "\x1b[0m";
    }
}

/* A box from `start` to `end`: "F12" and filling; less where it is narrow. */
static void draw_span(sc_canvas *canvas, sc_span span)
{
    int start = column_of(canvas, span.start);
    int end = column_of(canvas, span.end);
    if (end <= start) {
        return;
    }
    char letter = sc_action_op_text(span.action.op)[0];
    bool is_small = span.action.stage / canvas->timeline->n_ranks % 2 == 1;
    char label[16];
    (void)snprintf(label, sizeof label, "%c%d", is_small ? letter + ('a' - 'A') : letter,
                   span.action.mb);
    size_t n = strlen(label);
    size_t width = (size_t)(end - start);
    memset(canvas->line + start, canvas->has_colour ? ' ' : '-', width);
    memset(canvas->colour + start, letter, width);
    if (n > width) {
        n = 1; // the letter alone: half a number would be another number
    }
    memcpy(canvas->line + start, label, n);
}

static void write_line(sc_canvas *canvas)
{
    char current = ' ';
    for (int i = 0; i < canvas->n_columns; i++) {
        if (canvas->has_colour && canvas->colour[i] != current) {
            current = canvas->colour[i];
            sc_text_add(canvas->text, "%s", ansi(current));
        }
        sc_text_add_bytes(canvas->text, canvas->line + i, 1);
    }
    sc_text_add(canvas->text, "%s|\n", canvas->has_colour && current != ' ' ? "\x1b[0m" : "");
}

/* "0" at the left, the last end at the right. */
static void write_axis(sc_canvas *canvas)
{
    char last[32];
    (void)snprintf(last, sizeof last, "%.6g", canvas->timeline->makespan);
    int gap = canvas->n_columns - (int)strlen(last);
    sc_text_add(canvas->text, "%*s0%*s%s\n", canvas->label_width + 1, "", gap > 1 ? gap - 1 : 1, "",
                last);
}

static void write_rank(sc_canvas *canvas, int rank)
{
    memset(canvas->line, '.', (size_t)canvas->n_columns);
    memset(canvas->colour, ' ', (size_t)canvas->n_columns);
    for (size_t i = 0; i < canvas->timeline->n_spans[rank]; i++) {
        draw_span(canvas, canvas->timeline->spans[rank][i]);
    }
    char label[32];
    (void)snprintf(label, sizeof label, "rank %d ", rank);
    sc_text_add(canvas->text, "%-*s|", canvas->label_width, label);
    write_line(canvas);
}

/* A whole number of columns a unit when there is room: boxes of one length then look alike. */
static void set_scale(sc_canvas *canvas)
{
    const sc_timeline *timeline = canvas->timeline;
    canvas->first = INFINITY;
    for (int rank = 0; rank < timeline->n_ranks; rank++) {
        if (timeline->n_spans[rank] > 0) {
            canvas->first = fmin(canvas->first, timeline->spans[rank][0].start);
        }
    }
    if (timeline->makespan <= 0) {
        canvas->first = 0;
        canvas->per_unit = 0;
        return;
    }
    canvas->per_unit = canvas->n_columns / timeline->makespan;
    if (canvas->per_unit >= 1) {
        canvas->per_unit = floor(canvas->per_unit);
        canvas->n_columns = (int)ceil(canvas->per_unit * timeline->makespan);
    }
}

sc_status sc_gantt_write(const sc_timeline *timeline, const sc_gantt_options *options, char **out,
                         sc_err *err)
{
    if (options->width < WIDTH_MIN || options->width > WIDTH_MAX) {
        return sc_status_fail(err, SC_INVALID, "a Gantt chart of %d columns; choose %d to %d",
                              options->width, WIDTH_MIN, WIDTH_MAX);
    }
    sc_text text = {0};
    char widest[32];
    sc_canvas canvas = {
        .timeline = timeline,
        .text = &text,
        .has_colour = options->has_colour,
        .label_width = snprintf(widest, sizeof widest, "rank %d ", timeline->n_ranks - 1),
    };
    canvas.n_columns = options->width - canvas.label_width - 2;
    canvas.line = malloc((size_t)canvas.n_columns);
    canvas.colour = malloc((size_t)canvas.n_columns);
    sc_status status = SC_OK;
    if (canvas.line == NULL || canvas.colour == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "a Gantt chart: out of memory");
        goto out;
    }
    set_scale(&canvas);
    for (int rank = 0; rank < timeline->n_ranks; rank++) {
        write_rank(&canvas, rank);
    }
    write_axis(&canvas);
    SC_GOTO(sc_text_take(&text, out, err));
out:
    sc_text_free(&text);
    free(canvas.colour);
    free(canvas.line);
    return status;
}
