#include "cli/runner.h"

#include "base/log.h"
#include "cli/client.h"
#include "cli/cmd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Phases only ever go forward. */
typedef enum phase {
    STARTING,    // the coordinator has not announced itself
    WATCHING,    // the workers are started
    LEAVING,     // the job is over or told to stop: everybody ends by himself
    TERMINATING, // SIGTERM is sent
    KILLING      // SIGKILL is sent
} phase;

enum {
    N_OTHER_FDS = 4,
    N_TAIL_LINES = 12
};

typedef struct runner {
    const sc_runner_options *options;
    sc_daemons_job job;
    sc_runner_result *result;
    sc_launch launch; // child 0 is the coordinator
    sc_relay relay;
    sc_announce_reader reader;
    sc_announce announce;
    sc_client *client;
    int announce_fd;
    int signal_fd;
    sigset_t mask; // ours before
    struct sigaction pipe_action;
    phase phase;
    int ready_ms;
    int64_t deadline_ns; // what happens then depends on the phase; 0: none
    int n_signals;
    bool is_announced;
    bool is_finished; // FINISHED came
    bool has_failed;  // status and err are decided
    bool has_joined;  // every worker is there
    int dead_worker;  // child that ended before the job was over; 0: none
    sc_status status;
    sc_err err;
    struct pollfd fds[N_OTHER_FDS + 1 + SC_ANNOUNCE_WORKERS_MAX];
} runner;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t after_ms(int ms)
{
    return now_ns() + (int64_t)ms * 1000000;
}

static void enter(runner *r, phase next)
{
    if (next <= r->phase) {
        return;
    }
    r->phase = next;
    switch (next) {
    case LEAVING:
        r->deadline_ns = after_ms(SC_RUNNER_LEAVE_MS);
        break;
    case TERMINATING:
        r->deadline_ns = after_ms(SC_RUNNER_TERM_MS);
        sc_launch_signal(&r->launch, SIGTERM);
        // One that is stopped heeds the first only after the second.
        sc_launch_signal(&r->launch, SIGCONT);
        break;
    case KILLING:
        r->deadline_ns = 0;
        sc_launch_signal(&r->launch, SIGKILL);
        break;
    default:
        r->deadline_ns = 0;
        break;
    }
}

/* Adds a line, or several, to the details. */
static void add_detail(runner *r, const char *text)
{
    char *old = r->result->detail;
    size_t n_old = old != NULL ? strlen(old) : 0;
    size_t n = strlen(text);
    char *grown = realloc(old, n_old + n + 1);
    if (grown != NULL) {
        memcpy(grown + n_old, text, n + 1);
        r->result->detail = grown;
    }
}

/* Adds how a daemon ended and the end of its log. */
static void add_end(runner *r, const sc_launch_child *child, const char *log_path)
{
    char text[SC_LAUNCH_TAIL_MAX + 512];
    char end[64];
    char tail[SC_LAUNCH_TAIL_MAX];
    sc_launch_format_end(child->wait_status, end, sizeof end);
    sc_launch_tail(log_path, N_TAIL_LINES, tail, sizeof tail);
    snprintf(text, sizeof text, "%s (pid %d): %s; its log is %s%s\n%s", child->name, child->pid,
             end, log_path, tail[0] != '\0' ? ", which ends:" : ", which is empty", tail);
    add_detail(r, text);
}

static void add_stragglers(runner *r)
{
    for (size_t i = 0; i < r->launch.n_children; i++) {
        const sc_launch_child *child = &r->launch.children[i];
        char text[128];
        if (child->is_running) {
            snprintf(text, sizeof text, "%s (pid %d) did not end by itself, stopping it\n",
                     child->name, child->pid);
            add_detail(r, text);
        }
    }
}

/* The first failure is the one that is told; the error is in r->err. */
static void fail(runner *r, sc_status status)
{
    r->status = status;
    r->has_failed = true;
    if (r->phase == STARTING) {
        sc_relay_show(&r->relay, STDERR_FILENO);
    }
    enter(r, TERMINATING);
}

/* A status whose exit code is the given one; of several the first, which has the same code. */
static sc_status find_status(int exit_code)
{
    for (int s = SC_OK; s < SC_STATUS_COUNT; s++) {
        if (sc_status_exit_code((sc_status)s) == exit_code) {
            return (sc_status)s;
        }
    }
    return SC_FAILED;
}

/* The coordinator ended before it was ready: for a dry run that is all there is to it. */
static void end_start(runner *r)
{
    const sc_launch_child *child = &r->launch.children[0];
    char end[64];
    bool has_exited = WIFEXITED(child->wait_status);
    int code = has_exited ? WEXITSTATUS(child->wait_status) : -1;
    sc_launch_format_end(child->wait_status, end, sizeof end);
    if (r->job.is_dry_run && code == 0) {
        enter(r, TERMINATING);
        return;
    }
    // It has told why on its standard error, unless it was killed or ended without a word.
    bool is_shown = sc_relay_show(&r->relay, STDERR_FILENO) || r->job.is_dry_run;
    r->result->is_told = code > 0 && is_shown;
    fail(r, sc_status_fail(&r->err, code > 0 ? find_status(code) : SC_FAILED,
                           "the coordinator ended before it was ready: %s", end));
}

/* The coordinator is gone and its last message has had the time to come. */
static void end_watch(runner *r)
{
    const sc_launch_child *child = &r->launch.children[0];
    char end[64];
    char log_path[PATH_MAX];
    bool has_exited = WIFEXITED(child->wait_status);
    int code = has_exited ? WEXITSTATUS(child->wait_status) : -1;
    sc_launch_format_end(child->wait_status, end, sizeof end);
    if (sc_daemons_log_path(r->announce.run_dir, "coordinator", log_path, sizeof log_path, NULL) ==
        SC_OK) {
        add_end(r, child, log_path);
    }
    fail(r, sc_status_fail(&r->err, code > 0 ? find_status(code) : SC_FAILED,
                           "the coordinator ended in the middle of the job: %s", end));
}

/* The coordinator has not named the worker that ended; so we do. */
static void end_silence(runner *r)
{
    const sc_launch_child *child = &r->launch.children[r->dead_worker];
    char end[64];
    sc_launch_format_end(child->wait_status, end, sizeof end);
    add_end(r, child, child->log_path);
    fail(r, sc_status_fail(&r->err, SC_PEER, "%s (pid %d) ended before the job was over: %s",
                           child->name, child->pid, end));
}

/* Looks for a worker that ended before its time; whoever is stopped later was told to go. */
static void find_dead_worker(runner *r)
{
    for (size_t i = 1; i < r->launch.n_children && r->dead_worker == 0; i++) {
        if (!r->launch.children[i].is_running) {
            r->dead_worker = (int)i;
            r->deadline_ns = after_ms(r->has_joined ? SC_RUNNER_VERDICT_MS : SC_RUNNER_JOIN_MS);
        }
    }
}

static bool is_coordinator_there(const runner *r)
{
    return r->launch.children[0].is_running;
}

/* Moves the deadline forward to `ms` from now, if that is sooner. */
static void hasten(runner *r, int ms)
{
    int64_t soon_ns = after_ms(ms);
    if (r->deadline_ns == 0 || r->deadline_ns > soon_ns) {
        r->deadline_ns = soon_ns;
    }
}

/* Looks at who has ended since the last time. */
static void judge_ends(runner *r)
{
    if (r->phase == STARTING && !is_coordinator_there(r)) {
        end_start(r);
    } else if (r->phase == WATCHING) {
        find_dead_worker(r);
        if (!is_coordinator_there(r)) {
            hasten(r, SC_RUNNER_LAST_WORD_MS);
        }
    } else if (r->phase == LEAVING && !is_coordinator_there(r)) {
        // It leaves last: a worker that is still here is frozen or does not know that it is over.
        hasten(r, SC_RUNNER_LAST_LEAVE_MS);
    }
}

static void judge_deadline(runner *r)
{
    if (r->deadline_ns == 0 || now_ns() < r->deadline_ns) {
        return;
    }
    r->deadline_ns = 0;
    switch (r->phase) {
    case STARTING:
        fail(r, sc_status_fail(&r->err, SC_TIMEOUT, "the coordinator was not ready after %g s",
                               r->ready_ms / 1000.0));
        break;
    case WATCHING:
        if (is_coordinator_there(r)) {
            end_silence(r);
        } else {
            end_watch(r);
        }
        break;
    case LEAVING:
        add_stragglers(r);
        enter(r, TERMINATING);
        break;
    default:
        enter(r, KILLING);
        break;
    }
}

static sc_status begin_watch(runner *r, sc_err *err)
{
    char log_path[PATH_MAX];
    r->result->run_dir = strdup(r->announce.run_dir);
    SC_TRY(sc_daemons_log_path(r->announce.run_dir, "coordinator", log_path, sizeof log_path, err));
    SC_TRY(sc_relay_set_log(&r->relay, log_path, err));
    enter(r, WATCHING);
    SC_TRY(sc_client_open(r->announce.endpoint, &r->client, err));
    return sc_client_watch(r->client, err);
}

/* Once the coordinator has answered: a short job would be over before it knows that we watch. */
static void start_workers(runner *r)
{
    bool is_due = r->phase == WATCHING && r->launch.n_children == 1 && is_coordinator_there(r);
    if (is_due && sc_daemons_start_workers(&r->job, &r->announce, &r->launch, &r->err) != SC_OK) {
        fail(r, r->err.status);
    }
}

static void take_announcement(runner *r)
{
    if (r->announce_fd < 0 || r->phase != STARTING) {
        return;
    }
    sc_status status =
        sc_announce_read(&r->reader, r->announce_fd, &r->is_announced, &r->announce, &r->err);
    if (status == SC_OK && r->is_announced) {
        status = begin_watch(r, &r->err);
    }
    if (status != SC_OK || r->is_announced || r->reader.is_ended) {
        close(r->announce_fd);
        r->announce_fd = -1;
    }
    if (status != SC_OK) {
        fail(r, status);
    }
}

static void take_finish(runner *r, const sc_msg_finished *msg)
{
    sc_status status = msg->status < SC_STATUS_COUNT ? (sc_status)msg->status : SC_FAILED;
    sc_progress_finish(r->options->progress);
    r->is_finished = true;
    r->result->summary = msg->summary[0] != '\0' ? strdup(msg->summary) : NULL;
    if (status != SC_OK && !r->has_failed) {
        r->has_failed = true;
        r->status = sc_status_fail(&r->err, status, "%s",
                                   msg->text[0] != '\0' ? msg->text : sc_status_text(status));
        // Now and not by the caller: a frozen worker may take its time to end.
        sc_cmd_fail(&r->err);
        r->result->is_told = true;
        if (r->dead_worker != 0) {
            const sc_launch_child *child = &r->launch.children[r->dead_worker];
            add_end(r, child, child->log_path);
        }
    }
    enter(r, LEAVING);
}

/* Takes all that came from the coordinator. */
static void take_messages(runner *r)
{
    while (r->client != NULL && !r->is_finished) {
        const sc_msg *msg = NULL;
        sc_err err;
        sc_status status = sc_client_next(r->client, &msg, &err);
        if (status != SC_OK) {
            sc_client_close(&r->client);
            if (!r->has_failed) {
                r->err = err;
                fail(r, status);
            }
            return;
        }
        if (msg == NULL) {
            return;
        }
        if (msg->type == SC_MSG_PROGRESS) {
            r->has_joined = r->has_joined || strcmp(msg->u.progress.phase, "waiting") != 0;
            sc_progress_update(r->options->progress, &msg->u.progress, now_ns());
            start_workers(r);
        } else if (msg->type == SC_MSG_FINISHED) {
            take_finish(r, &msg->u.finished);
        }
    }
}

/* The first signal is a request, the second an order. */
static void take_signals(runner *r)
{
    struct signalfd_siginfo info;
    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (++r->n_signals > 1) {
            enter(r, KILLING);
            continue;
        }
        sc_progress_finish(r->options->progress);
        SC_LOG_INFO("stopping; interrupt again to kill");
        if (!r->is_finished && !r->has_failed) {
            r->has_failed = true;
            r->status = sc_status_fail(&r->err, SC_INTERRUPTED, "interrupted");
        }
        bool is_asked = r->phase == WATCHING && r->client != NULL &&
                        sc_client_control(r->client, "stop", "", NULL) == SC_OK;
        enter(r, is_asked ? LEAVING : TERMINATING);
    }
}

static sc_status wait_for_event(runner *r, sc_err *err)
{
    nfds_t n = 0;
    int timeout_ms = -1;
    r->fds[n++] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
    r->fds[n++] = (struct pollfd){.fd = r->relay.in_fd, .events = POLLIN};
    r->fds[n++] = (struct pollfd){.fd = r->announce_fd, .events = POLLIN};
    r->fds[n++] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (r->client != NULL && !r->is_finished) {
        r->fds[n - 1].fd = sc_client_fd(r->client);
    }
    for (size_t i = 0; i < r->launch.n_children; i++) {
        r->fds[n++] = (struct pollfd){.fd = r->launch.children[i].pid_fd, .events = POLLIN};
    }
    if (r->deadline_ns != 0) {
        int64_t left_ns = r->deadline_ns - now_ns();
        timeout_ms = left_ns > 0 ? (int)((left_ns + 999999) / 1000000) : 0;
    }
    if (poll(r->fds, n, timeout_ms) < 0 && errno != EINTR) {
        return sc_status_errno(err, errno, "poll");
    }
    return SC_OK;
}

/* Who has ended is looked at first: all that it said is then there to be read. */
static void follow(runner *r)
{
    for (;;) {
        size_t n_running = sc_launch_reap(&r->launch);
        sc_relay_pump(&r->relay);
        take_announcement(r);
        take_signals(r);
        judge_ends(r);
        take_messages(r);
        judge_deadline(r);
        // Workers may have been started just now; while watching, a last message may come.
        if (n_running == 0 && r->phase != WATCHING) {
            break;
        }
        if (wait_for_event(r, &r->err) != SC_OK) {
            fail(r, SC_IO);
            break;
        }
    }
    sc_progress_finish(r->options->progress);
}

static sc_status take_over_signals(runner *r, sc_err *err)
{
    sigset_t wanted;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGHUP);
    // A reader of our output that goes away must not end the job.
    sigaction(SIGPIPE, &ignore, &r->pipe_action);
    sigprocmask(SIG_BLOCK, &wanted, &r->mask);
    r->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signal_fd < 0 ? sc_status_errno(err, errno, "signalfd") : SC_OK;
}

static void give_back_signals(runner *r)
{
    if (r->signal_fd >= 0) {
        close(r->signal_fd);
    }
    sigprocmask(SIG_SETMASK, &r->mask, NULL);
    sigaction(SIGPIPE, &r->pipe_action, NULL);
}

sc_status sc_runner_run(const sc_runner_options *options, sc_runner_result *out, sc_err *err)
{
    memset(out, 0, sizeof *out);
    runner *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory");
    }
    r->options = options;
    r->job = options->job;
    r->job.mask = &r->mask;
    r->result = out;
    r->ready_ms = options->ready_ms > 0 ? options->ready_ms : SC_RUNNER_READY_MS;
    r->announce_fd = -1;
    sc_launch_init(&r->launch);
    sc_relay_init(&r->relay);
    r->status = take_over_signals(r, &r->err);
    if (r->status == SC_OK) {
        r->status =
            sc_daemons_start_coordinator(&r->job, &r->launch, &r->relay, &r->announce_fd, &r->err);
    }
    if (r->status == SC_OK) {
        r->deadline_ns = after_ms(r->ready_ms);
        follow(r);
    }
    sc_client_close(&r->client);
    sc_launch_done(&r->launch);
    sc_relay_pump(&r->relay);
    sc_relay_done(&r->relay);
    if (r->announce_fd >= 0) {
        close(r->announce_fd);
    }
    give_back_signals(r);
    if (r->status != SC_OK && err != NULL) {
        *err = r->err;
    }
    sc_status status = r->status;
    free(r);
    return status;
}

void sc_runner_done(sc_runner_result *result)
{
    free(result->run_dir);
    free(result->summary);
    free(result->detail);
    memset(result, 0, sizeof *result);
}
