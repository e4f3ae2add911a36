#include "schedules/svg.h"
#include "tests/schedules/rows.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

static char *draw(const sc_svg_panel *panels, size_t n, sc_svg_options options)
{
    char *text = NULL;
    sc_err err = {0};
    if (sc_svg_write(panels, n, &options, &text, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return text;
}

/* A timeline by hand: rank 0 has 0F0 [10, 12] and 0I0 [16, 18], rank 1 has 1F0 [12, 14]. */
static sc_span first_row[] = {{{SC_OP_F, 0, 0}, 10, 12}, {{SC_OP_I, 0, 0}, 16, 18}};
static sc_span second_row[] = {{{SC_OP_F, 1, 0}, 12, 14}};
static sc_span *const rows[] = {first_row, second_row};
static const size_t n_spans[] = {2, 1};

static void test_boxes(void **state)
{
    (void)state;
    sc_svg_panel panel = {"one & <two>", 2, rows, n_spans};
    // 8 units on 888 - 64 - 24 pixels: 100 a unit, beginning at the first span
    char *text = draw(&panel, 1, (sc_svg_options){888, "ms"});
    assert_non_null(strstr(text, "width=\"888\""));
    assert_non_null(strstr(text, "one &amp; &lt;two&gt;"));
    assert_null(strstr(text, "<two>"));
    assert_int_equal(count(text, "<rect"), 3 + 2); // and two in the legend
    assert_non_null(strstr(text, "<rect x=\"64.00\" y=\"66.00\" width=\"200.00\""));
    assert_non_null(strstr(text, "<rect x=\"664.00\" y=\"66.00\" width=\"200.00\""));
    assert_non_null(strstr(text, "<rect x=\"264.00\" y=\"88.00\" width=\"200.00\""));
    assert_non_null(strstr(text, "<title>0I0: 6 to 8</title>"));
    assert_int_equal(count(text, "class=\"mb\""), 3);
    assert_non_null(strstr(text, ">forward (F)<"));
    assert_non_null(strstr(text, ">input gradient (I)<"));
    assert_null(strstr(text, "weight gradient"));
    assert_non_null(strstr(text, ">ms</text>"));
    // every element that is opened is closed
    assert_int_equal(count(text, "<text"), count(text, "</text>"));
    assert_int_equal(count(text, "<g "), count(text, "</g>"));
    assert_int_equal(count(text, "</svg>"), 1);
    free(text);
}

/* Two panels: one scale, the second below the first. */
static void test_panels(void **state)
{
    (void)state;
    static sc_span slow[] = {{{SC_OP_F, 0, 0}, 0, 16}};
    static sc_span *const slow_rows[] = {slow};
    static const size_t n_slow[] = {1};
    sc_svg_panel panels[] = {{"planned", 2, rows, n_spans}, {"measured", 1, slow_rows, n_slow}};
    char *text = draw(panels, 2, (sc_svg_options){888, NULL});
    assert_true(strstr(text, "planned") < strstr(text, "measured"));
    assert_non_null(strstr(text, "<rect x=\"64.00\" y=\"66.00\" width=\"100.00\""));
    assert_non_null(strstr(text, "<rect x=\"64.00\" y=\"166.00\" width=\"800.00\""));
    free(text);
}

/* A number that does not fit is left out; a free width is chosen so that it does. */
static void test_numbers(void **state)
{
    (void)state;
    static sc_span spans[1000];
    static sc_span *const many_rows[] = {spans};
    static const size_t n_many[] = {100};
    for (int i = 0; i < 100; i++) {
        spans[i] = (sc_span){{SC_OP_F, 0, i}, i, i + 1};
    }
    sc_svg_panel panel = {"many", 1, many_rows, n_many};
    char *text = draw(&panel, 1, (sc_svg_options){400, NULL});
    assert_int_equal(count(text, "class=\"mb\""), 0);
    free(text);
    text = draw(&panel, 1, (sc_svg_options){0, NULL});
    assert_int_equal(count(text, "class=\"mb\""), 100);
    free(text);
}

/* Lighter: a rank's second stage; with stages on two ranks, the microbatches of the other way. */
static void test_shades(void **state)
{
    (void)state;
    static sc_span two[] = {{{SC_OP_F, 0, 1}, 0, 1}, {{SC_OP_F, 1, 1}, 1, 2}};
    static sc_span *const two_rows[] = {two};
    static const size_t n_two[] = {2};
    sc_svg_panel panel = {"v = 2", 1, two_rows, n_two};
    char *text = draw(&panel, 1, (sc_svg_options){888, NULL});
    assert_int_equal(count(text, "fill=\"#9ec5f4\"><title>0F1"), 1);
    assert_int_equal(count(text, "fill=\"#c9dffa\"><title>1F1"), 1);
    assert_non_null(strstr(text, ">lighter: a rank's second, fourth, ... stage<"));
    free(text);
    static sc_span down[] = {{{SC_OP_F, 0, 0}, 0, 1}, {{SC_OP_F, 1, 1}, 1, 2}};
    static sc_span up[] = {{{SC_OP_F, 0, 1}, 0, 1}, {{SC_OP_F, 1, 0}, 1, 2}};
    static sc_span *const both_rows[] = {down, up};
    static const size_t n_both[] = {2, 2};
    panel = (sc_svg_panel){"two ways", 2, both_rows, n_both};
    text = draw(&panel, 1, (sc_svg_options){888, NULL});
    assert_int_equal(count(text, "fill=\"#9ec5f4\"><title>0F0"), 1);
    assert_int_equal(count(text, "fill=\"#9ec5f4\"><title>1F0"), 1);
    assert_int_equal(count(text, "fill=\"#c9dffa\"><title>0F1"), 1);
    assert_int_equal(count(text, "fill=\"#c9dffa\"><title>1F1"), 1);
    assert_non_null(strstr(text, ">lighter: microbatches of the other direction<"));
    free(text);
}

/* Nothing to draw is a picture too, and so are actions that take no time. */
static void test_empty(void **state)
{
    (void)state;
    static sc_span none[] = {{{SC_OP_F, 0, 0}, 5, 5}};
    static sc_span *const empty_rows[] = {none};
    static const size_t zero[] = {0};
    static const size_t one[] = {1};
    sc_svg_panel panels[] = {{"empty", 1, empty_rows, zero}, {"instant", 1, empty_rows, one}};
    char *text = draw(panels, 2, (sc_svg_options){0, NULL});
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_int_equal(count(text, "</svg>"), 1);
    free(text);
}

static void test_refused(void **state)
{
    (void)state;
    char *text = NULL;
    sc_err err = {0};
    sc_svg_panel panel = {"one", 2, rows, n_spans};
    assert_int_equal(sc_svg_write(&panel, 1, &(sc_svg_options){100, NULL}, &text, &err),
                     SC_INVALID);
    assert_non_null(strstr(err.text, "100 pixels"));
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes),   cmocka_unit_test(test_panels),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_shades),
        cmocka_unit_test(test_empty),   cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
