/*
 * stagecoach-coordinator - the daemon that plans a job, issues its steps and watches its workers.
 */
#include "base/log.h"
#include "coordinator/io/coord_loop.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "stagecoach-coordinator " SC_VERSION;

enum {
    KEY_SET = 256,
    KEY_LISTEN,
    KEY_ANNOUNCE,
    KEY_RUNS_DIR,
    KEY_NAME,
    KEY_DRY_RUN,
    KEY_ROTATE,
    KEY_ROTATE_EVERY,
    KEY_RESUME,
    KEY_LOG,
    KEY_INSECURE,
    KEY_KEYS
};

enum {
    OVERRIDES_MAX = 256
};

typedef struct options {
    const char *job_path;
    const char *overrides[OVERRIDES_MAX];
    size_t n_overrides;
    sc_coord_config coord;
    const char *log;
    const char *resume; // NULL: from the start; "": from the job's newest checkpoint
    bool is_dry_run;
    bool is_json;
    bool is_key_list;
    int verbosity;
} options;

static const struct argp_option option_list[] = {
    {"set", KEY_SET, "KEY=VALUE", 0,
     "override a key of the job file, e.g. train.steps=10; repeatable", 0},
    {"listen", KEY_LISTEN, "ENDPOINT", 0,
     "where workers and clients connect (default tcp://127.0.0.1:*, a free port)", 0},
    {"announce", KEY_ANNOUNCE, "FD", 0, "write one JSON line to this descriptor once listening", 0},
    {"runs-dir", KEY_RUNS_DIR, "DIR", 0,
     "parent of the run folder (default: the job's output.runs_dir)", 0},
    {"name", KEY_NAME, "NAME", 0, "name of the run folder (default: the job's name)", 0},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "print the plan and stop", 0},
    {"json", 'j', NULL, 0, "with --dry-run: as JSON", 0},
    {"keys", KEY_KEYS, NULL, 0,
     "list every key of a job file with type, limits, default and meaning", 0},
    {"rotate", KEY_ROTATE, "A,B,...", 0, "let schedules take turns in this one job", 0},
    {"rotate-every", KEY_ROTATE_EVERY, "STEPS", 0, "length of a turn, 4 or more (default 8)", 0},
    {"resume", KEY_RESUME, "PATH", OPTION_ARG_OPTIONAL,
     "go on from a checkpoint: its folder, or a run folder's newest one (default: the newest one "
     "of this job's run folders)",
     0},
    {"log", KEY_LOG, "FILE", 0, "append the log to FILE instead of writing it to stderr", 0},
    {"insecure", KEY_INSECURE, NULL, 0,
     "allow --listen beyond loopback although nothing authenticates peers", 0},
    {"verbose", 'v', NULL, 0, "log more; twice for every message", 0},
    {0},
};

static void parse_announce(options *o, const char *arg, struct argp_state *state)
{
    char *end;
    long fd = strtol(arg, &end, 10);
    if (*end != '\0' || end == arg || fd < 3 || fd > 65535 || fcntl((int)fd, F_GETFD) < 0) {
        argp_error(state, "--announce %s: an open descriptor of 3 or more is needed", arg);
    }
    fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    o->coord.announce_fd = (int)fd;
}

static void add_override(options *o, const char *arg, struct argp_state *state)
{
    if (o->n_overrides == OVERRIDES_MAX) {
        argp_error(state, "--set: more than %d overrides", OVERRIDES_MAX);
    }
    o->overrides[o->n_overrides++] = arg;
}

static void parse_turn(options *o, const char *arg, struct argp_state *state)
{
    char *end;
    long n = strtol(arg, &end, 10);
    if (*end != '\0' || end == arg || n < 4 || n > 1000000) {
        argp_error(state, "--rotate-every %s: 4 or more steps are needed, one is a warm-up", arg);
    }
    o->coord.rotate_every = (int)n;
}

static error_t parse_end(options *o, int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG) {
        if (o->job_path != NULL) {
            argp_error(state, "%s: one job file is expected, and %s is given", arg, o->job_path);
        }
        o->job_path = arg;
        return 0;
    }
    if (key == ARGP_KEY_END) {
        if (o->job_path == NULL && !o->is_key_list) {
            argp_error(state, "JOB.yaml is missing");
        }
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case KEY_SET:
        add_override(o, arg, state);
        return 0;
    case KEY_LISTEN:
        o->coord.listen = arg;
        return 0;
    case KEY_ANNOUNCE:
        parse_announce(o, arg, state);
        return 0;
    case KEY_RUNS_DIR:
        o->coord.runs_dir = arg;
        return 0;
    case KEY_NAME:
        o->coord.name = arg;
        return 0;
    case KEY_ROTATE:
        o->coord.rotate = arg;
        return 0;
    case KEY_ROTATE_EVERY:
        parse_turn(o, arg, state);
        return 0;
    case KEY_RESUME:
        o->resume = arg == NULL ? "" : arg;
        return 0;
    case KEY_DRY_RUN:
        o->is_dry_run = true;
        return 0;
    case 'j':
        o->is_json = true;
        return 0;
    case KEY_KEYS:
        o->is_key_list = true;
        return 0;
    case KEY_LOG:
        o->log = arg;
        return 0;
    case KEY_INSECURE:
        o->coord.is_insecure = true;
        return 0;
    case 'v':
        o->verbosity++;
        return 0;
    default:
        return parse_end(o, key, arg, state);
    }
}

static sc_status open_log(const char *path, sc_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        return sc_status_errno(err, errno, "--log %s", path);
    }
    dup2(fd, STDERR_FILENO);
    close(fd);
    return SC_OK;
}

/* A run folder's name comes from the outside and becomes a path. */
static sc_status check_name(const char *name, sc_err *err)
{
    size_t n = strlen(name);
    bool is_good = n >= 1 && n <= 128 && name[0] != '.';
    for (size_t i = 0; i < n; i++) {
        char ch = name[i];
        is_good = is_good && ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                              (ch >= '0' && ch <= '9') || ch == '.' || ch == '_' || ch == '-');
    }
    return is_good
               ? SC_OK
               : sc_status_fail(
                     err, SC_USAGE,
                     "--name %.128s: use letters, digits, '.', '_' and '-', not first a '.'", name);
}

static sc_status print_key_list(sc_err *err)
{
    char *text;
    SC_TRY(sc_job_help(&text, err));
    fputs(text, stdout);
    free(text);
    return SC_OK;
}

static sc_status print_plan(const sc_job *job, const sc_plan *plan, bool is_json, sc_err *err)
{
    char *text;
    SC_TRY(is_json ? sc_planner_json(job, plan, &text, err)
                   : sc_planner_format(job, plan, &text, err));
    fputs(text, stdout);
    free(text);
    return SC_OK;
}

static sc_status run(options *o, sc_err *err)
{
    sc_status status = SC_OK;
    sc_job *job = NULL;
    sc_plan *plan = NULL;
    sc_resume resume = {.folder = NULL};
    if (o->is_key_list) {
        return print_key_list(err);
    }
    SC_GOTO(sc_job_load(o->job_path, o->overrides, o->n_overrides, &job, err));
    SC_GOTO(sc_plan_load(job, job->schedule, NULL, &plan, err));
    if (o->is_dry_run) {
        SC_GOTO(print_plan(job, plan, o->is_json, err));
        goto out;
    }
    o->coord.job = job;
    o->coord.plan = plan;
    o->coord.runs_dir = o->coord.runs_dir != NULL ? o->coord.runs_dir : job->runs_dir;
    o->coord.name = o->coord.name != NULL ? o->coord.name : job->name;
    SC_GOTO(check_name(o->coord.name, err));
    if (o->resume != NULL) {
        SC_GOTO(
            sc_resume_open(job, plan, o->coord.runs_dir, o->coord.name, o->resume, &resume, err));
        o->coord.resume = &resume;
    }
    SC_GOTO(sc_coord_loop_run(&o->coord, err));
out:
    sc_store_close(&o->coord.store);
    sc_resume_done(&resume);
    sc_planner_free(&plan);
    sc_job_free(&job);
    return status;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {
        option_list,
        parse_option,
        "JOB.yaml",
        "Plans the job, waits for its stage workers, issues the steps and leaves the results in "
        "a run folder.",
        NULL,
        NULL,
        NULL};
    options o = {.coord = {.listen = "tcp://127.0.0.1:*", .announce_fd = -1, .rotate_every = 8}};
    sc_err err = {.status = SC_OK};
    argp_err_exit_status = sc_status_exit_code(SC_USAGE);
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    sc_log_set_name("coordinator");
    sc_log_set_level((sc_log_level)(SC_LOG_INFO + (o.verbosity > 2 ? 2 : o.verbosity)));
    sc_status status = SC_OK;
    /* until the job is read, errors belong to whoever called us; the log file gets what follows */
    if (o.log != NULL) {
        status = open_log(o.log, &err);
    }
    if (status == SC_OK) {
        status = run(&o, &err);
    }
    if (status != SC_OK) {
        SC_LOG_ERROR("%s", err.text);
    }
    return sc_status_exit_code(status);
}
