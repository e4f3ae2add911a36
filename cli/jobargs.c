#include "cli/jobargs.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_SET = 's',
    KEY_QUIET = 'q',
    KEY_VERBOSE = 'v',
    KEY_RUNS_DIR = 0x100,
    KEY_READY
};

static const double READY_SECONDS_MAX = 86400.0;

static const struct argp_option OPTIONS[] = {
    {"set", KEY_SET, "KEY=VALUE", 0, "Override a key of the job file; may be repeated", 0},
    {"runs-dir", KEY_RUNS_DIR, "DIR", 0, "Make the run folder in DIR", 0},
    {"ready-timeout", KEY_READY, "SECONDS", 0,
     "Give up when the coordinator is not ready after this time (default 30)", 0},
    {"quiet", KEY_QUIET, NULL, 0, "Show no progress", 0},
    {"verbose", KEY_VERBOSE, NULL, 0,
     "Let the daemons log more, the coordinator to the terminal too", 0},
    {0},
};

sc_status sc_jobargs_add_set(sc_jobargs *args, const char *text, sc_err *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        return sc_status_fail(err, SC_USAGE, "--set needs KEY=VALUE, not '%s'", text);
    }
    if (args->n_sets == SC_JOBARGS_SETS_MAX) {
        return sc_status_fail(err, SC_USAGE, "more than %d times --set; put the keys into the job",
                              (int)SC_JOBARGS_SETS_MAX);
    }
    args->sets[args->n_sets++] = text;
    return SC_OK;
}

static void take_ready(struct argp_state *state, sc_jobargs *args, const char *text)
{
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds > 0.0 && seconds <= READY_SECONDS_MAX)) {
        argp_error(state, "--ready-timeout: '%s' is not a number of seconds in 0.001..%g", text,
                   READY_SECONDS_MAX);
    }
    args->ready_ms = seconds < 0.001 ? 1 : (int)(seconds * 1000.0);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    sc_jobargs *args = state->input;
    sc_err err;
    switch (key) {
    case KEY_SET:
        if (sc_jobargs_add_set(args, arg, &err) != SC_OK) {
            argp_error(state, "%s", err.text);
        }
        return 0;
    case KEY_RUNS_DIR:
        args->runs_dir = arg;
        return 0;
    case KEY_READY:
        take_ready(state, args, arg);
        return 0;
    case KEY_QUIET:
        args->is_quiet = true;
        return 0;
    case KEY_VERBOSE:
        args->is_verbose = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp *sc_jobargs_argp(void)
{
    static const struct argp ARGP = {.options = OPTIONS, .parser = parse};
    return &ARGP;
}

void sc_jobargs_fill(const sc_jobargs *args, const char *job_path, sc_runner_options *out)
{
    memset(out, 0, sizeof *out);
    out->job.job_path = job_path;
    out->job.sets = args->sets;
    out->job.n_sets = args->n_sets;
    out->job.runs_dir = args->runs_dir;
    out->job.is_verbose = args->is_verbose;
    out->ready_ms = args->ready_ms;
}
