#include "cli/daemons.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char COORDINATOR[] = "stagecoach-coordinator";
static const char WORKER[] = "stagecoach-stage";

/* An argv that is built piece by piece; sized by its maker, so that it cannot overflow. */
typedef struct words {
    const char **list;
    size_t n;
    size_t n_max;
} words;

static sc_status init_words(words *w, size_t n_max, sc_err *err)
{
    w->n = 0;
    w->n_max = n_max;
    w->list = calloc(n_max + 1, sizeof *w->list);
    if (w->list == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for a command line");
    }
    return SC_OK;
}

static void add(words *w, const char *word)
{
    assert(w->n < w->n_max);
    w->list[w->n++] = word;
}

static void add_option(words *w, const char *option, const char *value)
{
    if (value != NULL) {
        add(w, option);
        add(w, value);
    }
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void add_coordinator_words(words *w, const sc_daemons_job *job, const char *announce,
                                  const char *every, const char *resume)
{
    add(w, COORDINATOR);
    for (size_t i = 0; i < job->n_sets; i++) {
        add_option(w, "--set", job->sets[i]);
    }
    add_option(w, "--name", job->name);
    add_option(w, "--runs-dir", job->runs_dir);
    if (job->rotate != NULL) {
        add_option(w, "--rotate", job->rotate);
        add_option(w, "--rotate-every", every);
    }
    if (resume != NULL) {
        add(w, resume);
    }
    if (job->is_dry_run) {
        add(w, "--dry-run");
        if (job->is_json) {
            add(w, "--json");
        }
    } else {
        add_option(w, "--announce", announce);
    }
    if (job->is_verbose) {
        add(w, "-v");
    }
    add(w, "--");
    add(w, job->job_path);
}

sc_status sc_daemons_start_coordinator(const sc_daemons_job *job, sc_launch *launch,
                                       sc_relay *relay, int *announce_fd_p, sc_err *err)
{
    sc_status status = SC_OK;
    char *path = NULL;
    char *resume = NULL; // "--resume=PATH"
    words w = {0};
    int pipe_fds[2] = {-1, -1};
    int log_fd = -1;
    char announce[16];
    char every[16];

    SC_GOTO(sc_launch_find(COORDINATOR, job->path_list, &path, err));
    SC_GOTO(init_words(&w, 2 * job->n_sets + 17, err));
    if (job->resume != NULL && asprintf(&resume, "--resume=%s", job->resume) < 0) {
        resume = NULL;
        status = sc_status_fail(err, SC_NO_MEMORY, "out of memory for a command line");
        goto out;
    }
    if (!job->is_dry_run) {
        if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
            status = sc_status_errno(err, errno, "pipe");
            goto out;
        }
        fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
        SC_GOTO(sc_relay_open(relay, job->is_verbose ? STDERR_FILENO : -1, &log_fd, err));
    }
    snprintf(announce, sizeof announce, "%d", pipe_fds[1]);
    snprintf(every, sizeof every, "%d", job->rotate_every);
    add_coordinator_words(&w, job, announce, every, resume);
    const sc_launch_spec spec = {
        .name = "coordinator",
        .path = path,
        .argv = w.list,
        .out_fd = log_fd,
        .err_fd = log_fd,
        .keep_fd = pipe_fds[1],
        .mask = job->mask,
    };
    SC_GOTO(sc_launch_start(launch, &spec, err));
    *announce_fd_p = pipe_fds[0];
    pipe_fds[0] = -1;
out:
    close_fd(&log_fd);
    close_fd(&pipe_fds[1]);
    close_fd(&pipe_fds[0]);
    free(w.list);
    free(resume);
    free(path);
    return status;
}

sc_status sc_daemons_log_path(const char *run_dir, const char *name, char *out, size_t n,
                              sc_err *err)
{
    int length = snprintf(out, n, "%s/log", run_dir);
    if (length > 0 && (size_t)length < n && mkdir(out, 0777) < 0 && errno != EEXIST) {
        return sc_status_errno(err, errno, "%s", out);
    }
    length = snprintf(out, n, "%s/log/%s.log", run_dir, name);
    if (length < 0 || (size_t)length >= n) {
        return sc_status_fail(err, SC_LIMIT, "the path of the run folder is too long: %s", run_dir);
    }
    return SC_OK;
}

static sc_status start_worker(const sc_daemons_job *job, const sc_announce *announce,
                              const char *path, int worker, sc_launch *launch, sc_err *err)
{
    char name[SC_LAUNCH_NAME_MAX];
    char device[32];
    char cores[4096];
    char log_path[PATH_MAX];
    words w = {0};

    snprintf(name, sizeof name, "worker-%d", worker);
    SC_TRY(sc_daemons_log_path(announce->run_dir, name, log_path, sizeof log_path, err));
    snprintf(name, sizeof name, "worker %d", worker);
    snprintf(device, sizeof device, "cpu:%d", worker);
    SC_TRY(init_words(&w, 8, err));
    add(&w, WORKER);
    add_option(&w, "--coordinator", announce->endpoint);
    add_option(&w, "--device", device);
    if (announce->is_pinned && sc_launch_pin(worker, announce->n_threads, cores, sizeof cores)) {
        add_option(&w, "--pin", cores);
    }
    if (job->is_verbose) {
        add(&w, "-v");
    }
    const sc_launch_spec spec = {
        .name = name,
        .path = path,
        .argv = w.list,
        .log_path = log_path,
        .out_fd = -1,
        .err_fd = -1,
        .keep_fd = -1,
        .mask = job->mask,
    };
    sc_status status = sc_launch_start(launch, &spec, err);
    free(w.list);
    return status;
}

sc_status sc_daemons_start_workers(const sc_daemons_job *job, const sc_announce *announce,
                                   sc_launch *launch, sc_err *err)
{
    char *path = NULL;
    SC_TRY(sc_launch_find(WORKER, job->path_list, &path, err));
    sc_status status = SC_OK;
    for (int worker = 0; worker < announce->n_workers && status == SC_OK; worker++) {
        status = start_worker(job, announce, path, worker, launch, err);
    }
    free(path);
    return status;
}
