/* The bar and the plain lines: what they say, how wide they are, when they come. */
#include "cli/progress.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t MS = 1000000;

static sc_msg_progress at_step(uint64_t step, double step_ms)
{
    return (sc_msg_progress){
        .phase = "training",
        .n_workers = 2,
        .n_workers_needed = 2,
        .step = step,
        .n_steps = 1000,
        .loss = 3.25,
        .grad_norm = 0.5,
        .lr = 0.001,
        .tokens_per_second = 5000.0,
        .step_ms = step_ms,
    };
}

static void test_line_says_all(void **state)
{
    (void)state;
    char text[SC_PROGRESS_LINE_MAX];
    sc_msg_progress msg = at_step(100, 40.0);
    assert_string_equal(sc_progress_format_line(&msg, 40.0, text, sizeof text),
                        "step 100/1000  loss 3.2500  5000 tok/s  eta 0:36  40.0 ms/step  norm 0.5  "
                        "lr 0.001");
    assert_non_null(
        strstr(sc_progress_format_line(&msg, 4000.0, text, sizeof text), "eta 1:00:00"));
    assert_non_null(strstr(sc_progress_format_line(&msg, 1e12, text, sizeof text), "eta -"));
    msg.step = 0;
    msg.phase = "waiting";
    msg.n_workers = 1;
    assert_string_equal(sc_progress_format_line(&msg, 0.0, text, sizeof text),
                        "waiting 1/2 workers");
}

/* The bar must never reach the last column, where a terminal would wrap it into two lines. */
static void test_bar_fits_every_width(void **state)
{
    (void)state;
    for (int width = 1; width <= 250; width++) {
        for (uint64_t step = 0; step <= 1000; step += 125) {
            char text[SC_PROGRESS_LINE_MAX];
            sc_msg_progress msg = at_step(step, 40.0);
            sc_progress_format_bar(&msg, 40.0, width, false, text, sizeof text);
            size_t room = width > 1 ? (size_t)width - 1 : 1;
            assert_true(strlen(text) <= room);
        }
    }
}

static void test_bar_grows_and_is_coloured_on_request(void **state)
{
    (void)state;
    char text[SC_PROGRESS_LINE_MAX];
    sc_msg_progress msg = at_step(500, 40.0);
    assert_string_equal(sc_progress_format_bar(&msg, 40.0, 72, false, text, sizeof text),
                        "[==========          ] step 500/1000  loss 3.2500  5000 tok/s  eta 0:20");
    sc_progress_format_bar(&msg, 40.0, 72, true, text, sizeof text);
    assert_non_null(strstr(text, "[\x1b[32m==========\x1b[0m          ]"));
    msg.step = 1000;
    sc_progress_format_bar(&msg, 40.0, 72, false, text, sizeof text);
    assert_non_null(strstr(text, "==]"));
}

/* Shows steps to a pipe and returns what came out, NUL-terminated, in out. */
static char *show_steps(int n_steps, int64_t step_ns, char *out, size_t n)
{
    int fds[2];
    sc_progress progress;
    assert_int_equal(pipe(fds), 0);
    sc_progress_init(&progress, fds[1], "xterm", NULL);
    for (int step = 1; step <= n_steps; step++) {
        sc_msg_progress msg = at_step((uint64_t)step, 40.0);
        sc_progress_update(&progress, &msg, step * step_ns);
    }
    sc_progress_finish(&progress);
    close(fds[1]);
    ssize_t got = read(fds[0], out, n - 1);
    assert_true(got >= 0);
    out[got] = '\0';
    close(fds[0]);
    return out;
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++) {
        n += *text == '\n' ? 1 : 0;
    }
    return n;
}

static void test_pipe_gets_few_lines(void **state)
{
    (void)state;
    char out[16384];
    // Steps of 40 ms for 4 s: the first three, then one a second, then the last.
    show_steps(100, 40 * MS, out, sizeof out);
    assert_non_null(strstr(out, "step 1/"));
    assert_non_null(strstr(out, "step 2/"));
    assert_non_null(strstr(out, "step 3/"));
    assert_null(strstr(out, "step 4/"));
    assert_non_null(strstr(out, "step 28/"));
    assert_null(strstr(out, "step 29/"));
    assert_non_null(strstr(out, "step 100/"));
    assert_int_equal(count_lines(out), 7);
    assert_null(strchr(out, '\r'));
    // Slow steps have a line each, and the last is not told twice.
    show_steps(5, 1500 * MS, out, sizeof out);
    assert_int_equal(count_lines(out), 5);
}

static void test_closed_pipe_ends_the_display(void **state)
{
    (void)state;
    int fds[2];
    sc_progress progress;
    assert_int_equal(pipe(fds), 0);
    sc_progress_init(&progress, fds[1], "xterm", NULL);
    close(fds[0]);
    sc_msg_progress msg = at_step(1, 40.0);
    sc_progress_update(&progress, &msg, MS);
    assert_int_equal(progress.fd, -1);
    sc_progress_finish(&progress);
    close(fds[1]);
}

static void test_quiet_shows_nothing(void **state)
{
    (void)state;
    sc_progress progress;
    sc_msg_progress msg = at_step(1, 40.0);
    sc_progress_init(&progress, -1, "xterm", NULL);
    sc_progress_update(&progress, &msg, MS);
    sc_progress_finish(&progress);
    assert_false(progress.is_terminal);
}

static int ignore_pipe_signal(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = SIG_IGN};
    return sigaction(SIGPIPE, &action, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_says_all),
        cmocka_unit_test(test_bar_fits_every_width),
        cmocka_unit_test(test_bar_grows_and_is_coloured_on_request),
        cmocka_unit_test(test_pipe_gets_few_lines),
        cmocka_unit_test(test_closed_pipe_ends_the_display),
        cmocka_unit_test(test_quiet_shows_nothing),
    };
    return cmocka_run_group_tests(tests, ignore_pipe_signal, NULL);
}
