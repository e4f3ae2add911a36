#include "schedules/svg.h"

#include "schedules/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pixels. */
enum {
    LEFT = 64, // the ranks' names
    RIGHT = 24,
    TOP = 40, // the legend
    ROW = 22, // one rank
    BOX = 20, // its boxes
    TITLE = 26,
    AXIS = 30,
    WIDTH_AUTO_MIN = 640,
    WIDTH_AUTO_MAX = 4000,
    WIDTH_MIN = 320,
    WIDTH_MAX = 100000,
    BOX_AUTO = 17 // width that the shortest boxes get when the width is free
};

typedef struct sc_look {
    sc_op op;
    const char *name;
    const char *fill;       // first, third, ... stage of a rank
    const char *fill_other; // second, fourth, ...; with replicated stages, odd microbatches
} sc_look;

/* Light enough for dark text; forward and backward differ in lightness too. */
static const sc_look LOOKS[] = {
    {SC_OP_F, "forward (F)", "#9ec5f4", "#c9dffa"},
    {SC_OP_B, "backward (B)", "#58b368", "#9ad3a2"},
    {SC_OP_I, "input gradient (I)", "#7fd0c0", "#b6e6dc"},
    {SC_OP_W, "weight gradient (W)", "#f2b660", "#f8d9a8"},
};

enum {
    N_LOOKS = sizeof LOOKS / sizeof LOOKS[0]
};

typedef struct sc_drawing {
    sc_text *text;
    const sc_svg_panel *panels;
    size_t n_panels;
    const char *unit;
    double longest;  // of the panels' durations
    double shortest; // of all spans longer than 0
    double scale;    // pixels a unit of time
    int width;
    bool is_replicated; // the panel at hand: a stage is on two ranks
    bool has_op[N_LOOKS];
    bool has_other_stage;
    bool has_other_way;
} sc_drawing;

static int look_of(sc_op op)
{
    for (int i = 0; i < N_LOOKS; i++) {
        if (LOOKS[i].op == op) {
            return i;
        }
    }
    return -1;
}

static double first_start(const sc_svg_panel *panel)
{
    double first = INFINITY;
    for (int rank = 0; rank < panel->n_ranks; rank++) {
        for (size_t i = 0; i < panel->n_spans[rank]; i++) {
            first = fmin(first, panel->spans[rank][i].start);
        }
    }
    return first;
}

/* True when some stage has actions on two ranks. */
static bool find_replicas(const sc_svg_panel *panel)
{
    int owners[SC_STAGES_MAX] = {0}; // rank + 1
    for (int rank = 0; rank < panel->n_ranks; rank++) {
        for (size_t i = 0; i < panel->n_spans[rank]; i++) {
            int stage = panel->spans[rank][i].action.stage;
            if (stage < 0 || stage >= SC_STAGES_MAX) {
                continue;
            }
            if (owners[stage] != 0 && owners[stage] != rank + 1) {
                return true;
            }
            owners[stage] = rank + 1;
        }
    }
    return false;
}

/* What is drawn lighter: where a rank has several stages, every other of them; where parameters are
   replicated, microbatches that go the other way. */
static bool is_other(const sc_drawing *drawing, const sc_svg_panel *panel, sc_action action)
{
    if (drawing->is_replicated) {
        return action.mb % 2 == 1;
    }
    return action.stage / panel->n_ranks % 2 == 1;
}

/* Extents of one panel and what it contains. */
static void measure(sc_drawing *drawing, const sc_svg_panel *panel)
{
    double first = first_start(panel);
    drawing->is_replicated = find_replicas(panel);
    for (int rank = 0; rank < panel->n_ranks; rank++) {
        for (size_t i = 0; i < panel->n_spans[rank]; i++) {
            sc_span span = panel->spans[rank][i];
            drawing->longest = fmax(drawing->longest, span.end - first);
            if (span.end > span.start) {
                drawing->shortest = fmin(drawing->shortest, span.end - span.start);
            }
            int look = look_of(span.action.op);
            if (look >= 0) {
                drawing->has_op[look] = true;
            }
            if (is_other(drawing, panel, span.action)) {
                drawing->has_other_way = drawing->has_other_way || drawing->is_replicated;
                drawing->has_other_stage = drawing->has_other_stage || !drawing->is_replicated;
            }
        }
    }
}

static void set_scale(sc_drawing *drawing, int width)
{
    if (width == 0 && drawing->longest > 0) {
        double wanted = LEFT + RIGHT + drawing->longest / drawing->shortest * BOX_AUTO;
        width = (int)fmin(WIDTH_AUTO_MAX, fmax(WIDTH_AUTO_MIN, ceil(wanted)));
    } else if (width == 0) {
        width = WIDTH_AUTO_MIN;
    }
    drawing->width = width;
    drawing->scale = drawing->longest > 0 ? (width - LEFT - RIGHT) / drawing->longest : 0;
}

/* "0", "10", "20", ...: the step is 1, 2 or 5 times a power of ten, about 80 pixels wide. */
static double tick_step(const sc_drawing *drawing)
{
    double rough = 80 / drawing->scale;
    double power = pow(10, floor(log10(rough)));
    double factor = rough / power;
    if (factor <= 2) {
        return 2 * power;
    }
    return factor <= 5 ? 5 * power : 10 * power;
}

static void write_axis(sc_drawing *drawing, double top, double height)
{
    double bottom = top + height;
    sc_text_add(drawing->text, "<g class=\"axis\">\n");
    double step = drawing->scale > 0 ? tick_step(drawing) : 1;
    for (int i = 0; i * step <= drawing->longest * (1 + 1e-9); i++) {
        double x = LEFT + i * step * drawing->scale;
        sc_text_add(drawing->text,
                    "<path d=\"M%.2f %.2fV%.2f\"/><text x=\"%.2f\" y=\"%.2f\">%.6g</text>\n", x,
                    top, bottom + 4, x, bottom + 16, i * step);
    }
    sc_text_add(drawing->text, "</g>\n");
    if (drawing->unit != NULL) {
        sc_text_add(drawing->text, "<text class=\"unit\" x=\"%d\" y=\"%.2f\">", LEFT - 8,
                    bottom + 16);
        sc_text_add_xml(drawing->text, drawing->unit);
        sc_text_add(drawing->text, "</text>\n");
    }
}

/* A box; its number only where it fits. The whole action is in the tooltip. */
static void write_box(sc_drawing *drawing, const sc_svg_panel *panel, sc_span span, double first,
                      double top)
{
    double x = LEFT + (span.start - first) * drawing->scale;
    double width = (span.end - span.start) * drawing->scale;
    int look = look_of(span.action.op);
    const char *fill = "#cccccc";
    if (look >= 0) {
        fill = is_other(drawing, panel, span.action) ? LOOKS[look].fill_other : LOOKS[look].fill;
    }
    char action[SC_ACTION_TEXT_MAX];
    (void)sc_action_format(span.action, action, sizeof action);
    sc_text_add(drawing->text,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>%s: "
                "%.6g to %.6g</title></rect>\n",
                x, top, width, BOX, fill, action, span.start - first, span.end - first);
    char number[16];
    int n = snprintf(number, sizeof number, "%d", span.action.mb);
    // A digit of the 10 pixel font is about 5.7 wide; smaller letters rather than none.
    double size = fmin(11, (width - 3) / (0.58 * n));
    if (span.action.mb >= 0 && size >= 6) {
        sc_text_add(drawing->text,
                    "<text class=\"mb\" x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\">%s</text>\n",
                    x + width / 2, top + BOX / 2.0 + size * 0.36, size, number);
    }
}

/* Draws one panel from `top` on; returns where it ends. */
static double write_panel(sc_drawing *drawing, const sc_svg_panel *panel, double top)
{
    sc_text_add(drawing->text, "<text class=\"title\" x=\"%d\" y=\"%.2f\">", LEFT, top + 16);
    sc_text_add_xml(drawing->text, panel->title);
    sc_text_add(drawing->text, "</text>\n");
    top += TITLE;
    write_axis(drawing, top, panel->n_ranks * ROW);
    drawing->is_replicated = find_replicas(panel);
    double first = first_start(panel);
    for (int rank = 0; rank < panel->n_ranks; rank++) {
        double row = top + rank * ROW;
        sc_text_add(drawing->text, "<text class=\"rank\" x=\"%d\" y=\"%.2f\">rank %d</text>\n",
                    LEFT - 8, row + BOX / 2.0 + 4, rank);
        for (size_t i = 0; i < panel->n_spans[rank]; i++) {
            write_box(drawing, panel, panel->spans[rank][i], first, row);
        }
    }
    return top + panel->n_ranks * ROW + AXIS;
}

static void write_legend(sc_drawing *drawing)
{
    double x = LEFT;
    for (int i = 0; i < N_LOOKS; i++) {
        if (!drawing->has_op[i]) {
            continue;
        }
        sc_text_add(drawing->text,
                    "<rect x=\"%.2f\" y=\"12\" width=\"16\" height=\"14\" fill=\"%s\"/>", x,
                    LOOKS[i].fill);
        sc_text_add(drawing->text, "<text class=\"legend\" x=\"%.2f\" y=\"23\">%s</text>\n", x + 22,
                    LOOKS[i].name);
        x += 22 + 6.6 * (double)strlen(LOOKS[i].name) + 18;
    }
    if (drawing->has_other_stage || drawing->has_other_way) {
        sc_text_add(drawing->text,
                    "<text class=\"legend\" x=\"%.2f\" y=\"23\">lighter: %s%s%s</text>\n", x,
                    drawing->has_other_stage ? "a rank's second, fourth, ... stage" : "",
                    drawing->has_other_stage && drawing->has_other_way ? "; " : "",
                    drawing->has_other_way ? "microbatches of the other direction" : "");
    }
}

static double height_of(const sc_drawing *drawing)
{
    double height = TOP;
    for (size_t i = 0; i < drawing->n_panels; i++) {
        height += TITLE + drawing->panels[i].n_ranks * ROW + AXIS;
    }
    return height;
}

static void write_document(sc_drawing *drawing)
{
    double height = height_of(drawing);
    sc_text_add(drawing->text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
                "viewBox=\"0 0 %d %.0f\" font-family=\"Helvetica, Arial, sans-serif\" "
                "font-size=\"12\">\n",
                drawing->width, height, drawing->width, height);
    sc_text_add(drawing->text,
                "<style>rect{stroke:#555;stroke-width:.5}.mb{text-anchor:middle}.title{font-weight:"
                "bold;font-size:13px}.rank,.unit{text-anchor:end}.axis path{stroke:#ccc;fill:none}"
                ".axis text{text-anchor:middle;font-size:10px;fill:#555}.unit{font-size:10px;fill:"
                "#555}</style>\n"
                "<path d=\"M0 0H%dV%.0fH0Z\" fill=\"white\"/>\n",
                drawing->width, height);
    write_legend(drawing);
    double top = TOP;
    for (size_t i = 0; i < drawing->n_panels; i++) {
        top = write_panel(drawing, &drawing->panels[i], top);
    }
    sc_text_add(drawing->text, "</svg>\n");
}

sc_svg_panel sc_svg_panel_of(const char *title, const sc_timeline *timeline)
{
    return (sc_svg_panel){title, timeline->n_ranks, timeline->spans, timeline->n_spans};
}

sc_status sc_svg_write(const sc_svg_panel *panels, size_t n_panels, const sc_svg_options *options,
                       char **out, sc_err *err)
{
    if (options->width != 0 && (options->width < WIDTH_MIN || options->width > WIDTH_MAX)) {
        return sc_status_fail(err, SC_INVALID,
                              "a picture of %d pixels; choose 0 (as wide as needed) or %d to %d",
                              options->width, WIDTH_MIN, WIDTH_MAX);
    }
    sc_text text = {0};
    sc_drawing drawing = {.text = &text,
                          .panels = panels,
                          .n_panels = n_panels,
                          .unit = options->unit,
                          .shortest = INFINITY};
    for (size_t i = 0; i < n_panels; i++) {
        measure(&drawing, &panels[i]);
    }
    set_scale(&drawing, options->width);
    write_document(&drawing);
    return sc_text_take(&text, out, err);
}
