#include "cli/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    BAR_INTERVAL_NS = 100 * 1000 * 1000,
    LINE_INTERVAL_NS = 1000 * 1000 * 1000,
    FIRST_LINES = 3,
    DEFAULT_WIDTH = 80,
    CELLS_MIN = 10, // a shorter bar says nothing and is left out
    CELLS_MAX = 40
};

#define COLOR_ON "\x1b[32m"
#define COLOR_OFF "\x1b[0m"
#define CLEAR_REST "\x1b[K"

void sc_progress_init(sc_progress *progress, int fd, const char *term, const char *no_color)
{
    memset(progress, 0, sizeof *progress);
    progress->fd = fd;
    progress->is_terminal = fd >= 0 && isatty(fd) != 0 && term != NULL && strcmp(term, "dumb") != 0;
    progress->has_color = progress->is_terminal && (no_color == NULL || no_color[0] == '\0');
    progress->last.phase = progress->phase;
}

/* "0:07", "12:30", "3:05:00" */
static void format_time(double seconds, char *out, size_t n)
{
    const double longest = 1000.0 * 3600.0;
    if (!(seconds >= 0.0 && seconds < longest)) {
        snprintf(out, n, "-");
        return;
    }
    long whole = (long)(seconds + 0.5);
    if (whole >= 3600) {
        snprintf(out, n, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(out, n, "%ld:%02ld", whole / 60, whole % 60);
    }
}

static bool is_training(const sc_msg_progress *msg)
{
    return msg->step > 0;
}

/* What both forms say of a step or a phase. */
static void format_facts(const sc_msg_progress *msg, double step_ms, char *out, size_t n)
{
    if (!is_training(msg)) {
        if (strcmp(msg->phase, "waiting") == 0) {
            snprintf(out, n, "%s %u/%u workers", msg->phase, msg->n_workers, msg->n_workers_needed);
        } else {
            snprintf(out, n, "%s", msg->phase);
        }
        return;
    }
    char eta[32];
    uint64_t left = msg->n_steps > msg->step ? msg->n_steps - msg->step : 0;
    format_time((double)left * step_ms / 1000.0, eta, sizeof eta);
    snprintf(out, n, "step %llu/%llu  loss %.4f  %.0f tok/s  eta %s", (unsigned long long)msg->step,
             (unsigned long long)msg->n_steps, msg->loss, msg->tokens_per_second, eta);
}

char *sc_progress_format_line(const sc_msg_progress *msg, double step_ms, char *out, size_t n)
{
    format_facts(msg, step_ms, out, n);
    if (is_training(msg)) {
        size_t used = strlen(out);
        snprintf(out + used, n - used, "  %.1f ms/step  norm %.4g  lr %.3g", msg->step_ms,
                 msg->grad_norm, msg->lr);
    }
    return out;
}

char *sc_progress_format_bar(const sc_msg_progress *msg, double step_ms, int width, bool has_color,
                             char *out, size_t n)
{
    char facts[SC_PROGRESS_LINE_MAX / 2];
    format_facts(msg, step_ms, facts, sizeof facts);
    // The last column stays free: a terminal may wrap after it.
    int room = width > 1 ? width - 1 : 1;
    int n_facts = (int)strlen(facts);
    int n_cells = room - n_facts - 3;
    if (n_cells < CELLS_MIN || msg->n_steps == 0 || !is_training(msg)) {
        snprintf(out, n, "%.*s", room, facts);
        return out;
    }
    n_cells = n_cells > CELLS_MAX ? CELLS_MAX : n_cells;
    char full[CELLS_MAX + 1];
    char rest[CELLS_MAX + 1];
    uint64_t done = msg->step < msg->n_steps ? msg->step : msg->n_steps;
    int n_full = (int)((double)n_cells * (double)done / (double)msg->n_steps);
    memset(full, '=', sizeof full);
    memset(rest, ' ', sizeof rest);
    snprintf(out, n, "[%s%.*s%s%.*s] %s", has_color ? COLOR_ON : "", n_full, full,
             has_color ? COLOR_OFF : "", n_cells - n_full, rest, facts);
    return out;
}

static void write_text(sc_progress *progress, const char *text)
{
    size_t n = strlen(text);
    while (n > 0 && progress->fd >= 0) {
        ssize_t put = write(progress->fd, text, n);
        if (put < 0 && errno == EAGAIN) {
            return;
        }
        if (put < 0 && errno != EINTR) {
            progress->fd = -1;
        } else if (put > 0) {
            text += put;
            n -= (size_t)put;
        }
    }
}

static int terminal_width(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0) {
        return DEFAULT_WIDTH;
    }
    return size.ws_col;
}

static void show(sc_progress *progress)
{
    char text[SC_PROGRESS_LINE_MAX];
    char line[SC_PROGRESS_LINE_MAX + 16];
    if (progress->is_terminal) {
        sc_progress_format_bar(&progress->last, progress->step_ms, terminal_width(progress->fd),
                               progress->has_color, text, sizeof text);
        // The text first and the clearing after it: nothing is blank in between.
        snprintf(line, sizeof line, "\r%s" CLEAR_REST, text);
        progress->has_bar = true;
    } else {
        sc_progress_format_line(&progress->last, progress->step_ms, text, sizeof text);
        snprintf(line, sizeof line, "%s\n", text);
    }
    write_text(progress, line);
    progress->is_pending = false;
}

static bool is_due(const sc_progress *progress, bool is_new_phase, int64_t now_ns)
{
    if (is_new_phase) {
        return true;
    }
    if (progress->is_terminal) {
        return now_ns - progress->shown_ns >= BAR_INTERVAL_NS;
    }
    return progress->n_lines < FIRST_LINES || now_ns - progress->shown_ns >= LINE_INTERVAL_NS;
}

void sc_progress_update(sc_progress *progress, const sc_msg_progress *msg, int64_t now_ns)
{
    if (progress->fd < 0) {
        return;
    }
    const sc_msg_progress *last = &progress->last;
    bool has_stepped = msg->step != last->step;
    bool is_new_phase = !is_training(msg) &&
                        (strcmp(msg->phase, last->phase) != 0 || msg->n_workers != last->n_workers);
    if (!has_stepped && !is_new_phase) {
        return;
    }
    snprintf(progress->phase, sizeof progress->phase, "%s", msg->phase);
    progress->last = *msg;
    progress->last.phase = progress->phase;
    if (has_stepped) {
        // The first step touches memory and warms caches: the second one starts afresh.
        double old = progress->step_ms;
        progress->step_ms =
            msg->step <= 2 || old <= 0.0 ? msg->step_ms : old + 0.1 * (msg->step_ms - old);
    }
    progress->is_pending = true;
    if (is_due(progress, is_new_phase, now_ns)) {
        progress->shown_ns = has_stepped ? now_ns : progress->shown_ns;
        progress->n_lines += has_stepped ? 1 : 0;
        show(progress);
    }
}

void sc_progress_finish(sc_progress *progress)
{
    if (progress->is_pending && progress->fd >= 0) {
        show(progress);
    }
    if (progress->has_bar) {
        write_text(progress, "\n");
        progress->has_bar = false;
    }
}
