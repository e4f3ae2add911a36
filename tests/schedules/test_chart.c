#include "schedules/chart.h"

// cmocka needs these first
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *draw(const sc_chart_series *series, size_t n)
{
    sc_chart chart = {"bubble <p = 4>", "m", "%", series, n};
    char *svg = NULL;
    sc_err err = {0};
    if (sc_chart_write(&chart, &svg, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return svg;
}

static void expect_part(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

/* The corners of the plot are at (72, 48) and (712, 468). */
static void test_places(void **state)
{
    (void)state;
    static const sc_chart_point rising[] = {{0, 0}, {5, 5}, {10, 10}};
    static const sc_chart_point falling[] = {{0, 10}, {10, 0}};
    const sc_chart_series series[] = {{"up & on", rising, 3}, {"down", falling, 2}};
    char *svg = draw(series, 2);
    expect_part(svg, "bubble &lt;p = 4&gt;");
    expect_part(svg, "M72.00 468.00 L392.00 258.00 L712.00 48.00\"><title>up &amp; on</title>");
    expect_part(svg, "M72.00 48.00 L712.00 468.00\"><title>down</title>");
    // ticks at round numbers, from end to end
    expect_part(svg, "x=\"72.00\" y=\"487.00\">0</text>");
    expect_part(svg, "x=\"712.00\" y=\"487.00\">10</text>");
    expect_part(svg, "y=\"52.00\">10</text>");
    assert_int_equal(count(svg, "class=\"x\""), 6);
    // the legend in the order of the right ends
    assert_true(strstr(svg, ">up &amp; on</text>") < strstr(svg, ">down</text>"));
    assert_int_equal(count(svg, "</svg>"), 1);
    free(svg);
}

/* The x axis ends where the points do; ticks stay round. */
static void test_axis(void **state)
{
    (void)state;
    static const sc_chart_point points[] = {{8, 20}, {64, 5}};
    const sc_chart_series series = {"a", points, 2};
    char *svg = draw(&series, 1);
    expect_part(svg, "M72.00 48.00 L712.00 363.00\"");
    // (10 - 8) / 56 of 640 pixels
    expect_part(svg, "x=\"94.86\" y=\"487.00\">10</text>");
    assert_null(strstr(svg, ">64</text>"));
    free(svg);
    // one point alone, and values below 0
    static const sc_chart_point low[] = {{3, -5}};
    const sc_chart_series below = {"b", low, 1};
    svg = draw(&below, 1);
    expect_part(svg, ">-5</text>");
    expect_part(svg, "M392.00 468.00\"><title>b</title>");
    free(svg);
    // nothing but 0
    static const sc_chart_point zeros[] = {{1, 0}, {2, 0}};
    const sc_chart_series flat = {"c", zeros, 2};
    svg = draw(&flat, 1);
    expect_part(svg, "M72.00 468.00 L712.00 468.00\"");
    assert_null(strstr(svg, "nan"));
    free(svg);
}

/* Lines that coincide are drawn once and named twice, in one colour; empty series are left out. */
static void test_same(void **state)
{
    (void)state;
    static const sc_chart_point a[] = {{1, 3}, {2, 4}};
    static const sc_chart_point b[] = {{1, 3}, {2, 5}};
    const sc_chart_series series[] = {
        {"first", a, 2}, {"other", b, 2}, {"second", a, 2}, {"absent", a, 0}};
    char *svg = draw(series, 4);
    assert_int_equal(count(svg, "<title>"), 2);
    expect_part(svg, ">second</text>");
    assert_null(strstr(svg, "absent"));
    // one line and two pieces of it in the legend; the other has a line and one piece
    assert_int_equal(count(svg, "class=\"line\" stroke=\"#1f5fa8\""), 3);
    assert_int_equal(count(svg, "class=\"line\" stroke=\"#e0882b\""), 2);
    // they stand together, below the other
    const char *first = strstr(svg, ">first</text>");
    assert_true(strstr(svg, ">other</text>") < first);
    assert_true(first < strstr(svg, ">second</text>"));
    free(svg);
}

/* As many lines as there may be: each has its own colour and dashes. */
static void test_many(void **state)
{
    (void)state;
    sc_chart_point points[24][2];
    char names[24][16];
    sc_chart_series series[24];
    for (int i = 0; i < 24; i++) {
        points[i][0] = (sc_chart_point){0, i};
        points[i][1] = (sc_chart_point){1, 2.0 * i};
        (void)snprintf(names[i], sizeof names[i], "s%d", i);
        series[i] = (sc_chart_series){names[i], points[i], 2};
    }
    char *svg = draw(series, 24);
    assert_int_equal(count(svg, "<title>"), 24);
    expect_part(svg, "stroke=\"#d667a8\" stroke-dasharray=\"2 3\"");
    for (int i = 0; i < 24; i++) {
        char look[80];
        const char *title = strstr(svg, "class=\"line\"");
        for (int skipped = 0; skipped < i; skipped++) {
            title = strstr(title + 1, "class=\"line\"");
        }
        // up to the line's own "d"
        const char *end = strstr(title, " d=");
        (void)snprintf(look, sizeof look, "%.*s", (int)(end - title), title);
        assert_int_equal(count(svg, look), 2); // the line and its legend
    }
    free(svg);
}

static void test_refused(void **state)
{
    (void)state;
    static const sc_chart_point back[] = {{2, 1}, {2, 1}};
    static const sc_chart_point bad[] = {{1, NAN}};
    static sc_chart_series many[SC_CHART_SERIES_MAX + 1];
    const struct {
        sc_chart_series series;
        const char *why;
    } cases[] = {
        {{"a", back, 2}, "chart: a: point 1 (2, 1) is not finite or x does not rise"},
        {{"b", bad, 1}, "chart: b: point 0 (1, nan) is not finite or x does not rise"},
        {{"c", back, 0}, "chart: no points to draw"},
    };
    char *svg = NULL;
    sc_err err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sc_chart chart = {"t", "x", "y", &cases[i].series, 1};
        assert_int_equal(sc_chart_write(&chart, &svg, &err), SC_INVALID);
        assert_string_equal(err.text, cases[i].why);
    }
    sc_chart chart = {"t", "x", "y", many, SC_CHART_SERIES_MAX + 1};
    assert_int_equal(sc_chart_write(&chart, &svg, &err), SC_LIMIT);
    assert_string_equal(err.text, "a chart of 65 series; at most 64");
    assert_null(svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places), cmocka_unit_test(test_axis),    cmocka_unit_test(test_same),
        cmocka_unit_test(test_many),   cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
