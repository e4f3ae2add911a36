#include "cli/cmd.h"
#include "cli/comparison.h"
#include "cli/env.h"
#include "cli/jobargs.h"
#include "cli/runner.h"
#include "schedules/gen.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_SCHEDULES = 0x200,
    KEY_STEPS,
    KEY_EVERY,
    KEY_JSON,
    SCHEDULES_MAX = 64,
    NAME_MAX_BYTES = 128, // of a run's name: a coordinator takes no longer one
    BASE_MAX = 80,        // of it for the job's
    SET_MAX = 512,
    SUMMARY_MAX = 16 * 1024 * 1024,
    TURN_MIN = 4, // steps: the first is a warm-up, medians need three
    TURN_DEFAULT = 8,
    TURNS_DEFAULT = 2,
    STEPS_MAX = 10000000
};

static const char FILE_PREFIX[] = "file:";

typedef struct compare_args {
    sc_jobargs shared;
    const char *job_path;
    const char *schedules; // as given, with commas between; each name is known
    const char *names[SCHEDULES_MAX];
    size_t n_names[SCHEDULES_MAX]; // bytes
    size_t n_schedules;
    int n_steps; // of each schedule; 0: not given, then whole turns
    int n_every; // steps of a turn; 0: not given
    bool is_json;
    char name[NAME_MAX_BYTES + 1]; // of the run
    char schedule_set[SET_MAX];    // "schedule=NAME"
    char steps_set[SET_MAX];       // "train.steps=N"
} compare_args;

static const struct argp_option OPTIONS[] = {
    {"schedules", KEY_SCHEDULES, "NAME,NAME...", 0, "The schedules that take turns, in this order",
     0},
    {"steps", KEY_STEPS, "N", 0,
     "Steps of each schedule, 4 or more, rounded up to whole turns (default: two turns)", 0},
    {"every", KEY_EVERY, "K", 0,
     "Steps of a turn, 4 or more (default 8, or what makes two turns of fewer steps)", 0},
    {"json", KEY_JSON, NULL, 0, "Print JSON; the progress goes to standard error", 0},
    {0},
};

static int take_count(struct argp_state *state, const char *option, const char *text)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < TURN_MIN || n > STEPS_MAX) {
        argp_error(state, "%s: '%s' is not a number of steps in %d..%d", option, text,
                   (int)TURN_MIN, (int)STEPS_MAX);
    }
    return (int)n;
}

/* Whole turns, and at least two of them where the steps allow. */
static void plan_turns(compare_args *args)
{
    int steps = args->n_steps;
    if (args->n_every == 0) {
        args->n_every = TURN_DEFAULT;
        if (steps > 0 && steps < 2 * TURN_MIN) {
            args->n_every = steps;
        } else if (steps > 0 && steps < 2 * TURN_DEFAULT) {
            args->n_every = (steps + 1) / 2;
        }
    }
    int turns = steps == 0 ? TURNS_DEFAULT : (steps + args->n_every - 1) / args->n_every;
    args->n_steps = turns * args->n_every;
}

static void refuse_schedule(struct argp_state *state, const char *name, size_t n_name)
{
    char known[1024] = "";
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", list[i].name);
    }
    argp_error(state, "--schedules: there is no schedule '%.*s'; known are %s", (int)n_name, name,
               known);
}

static bool is_known(const char *text, size_t n)
{
    char name[NAME_MAX_BYTES];
    if (strncmp(text, FILE_PREFIX, sizeof FILE_PREFIX - 1) == 0) {
        return n > sizeof FILE_PREFIX - 1; // the coordinator reads it
    }
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, text);
    return sc_gen_find(name) != NULL;
}

static bool is_named_twice(const compare_args *args, const char *text, size_t n)
{
    for (size_t i = 0; i < args->n_schedules; i++) {
        if (args->n_names[i] == n && memcmp(args->names[i], text, n) == 0) {
            return true;
        }
    }
    return false;
}

/* All names are looked up before anything starts. */
static void take_schedules(struct argp_state *state, compare_args *args, const char *text)
{
    args->schedules = text;
    args->n_schedules = 0;
    for (;;) {
        size_t n = strcspn(text, ",");
        if (!is_known(text, n)) {
            refuse_schedule(state, text, n);
            return;
        }
        if (is_named_twice(args, text, n)) {
            argp_error(state, "--schedules: '%.*s' is there twice", (int)n, text);
        }
        if (args->n_schedules == SCHEDULES_MAX) {
            argp_error(state, "--schedules: more than %d names", (int)SCHEDULES_MAX);
            return;
        }
        args->names[args->n_schedules] = text;
        args->n_names[args->n_schedules++] = n;
        if (text[n] == '\0') {
            return;
        }
        text += n + 1;
    }
}

static void check_complete(struct argp_state *state, const compare_args *args)
{
    if (args->job_path == NULL) {
        argp_error(state, "no job file given");
    }
    if (args->n_schedules == 0) {
        argp_error(state, "no --schedules given; say for example --schedules gpipe,1f1b");
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    compare_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->shared;
        return 0;
    case KEY_SCHEDULES:
        take_schedules(state, args, arg);
        return 0;
    case KEY_STEPS:
        args->n_steps = take_count(state, "--steps", arg);
        return 0;
    case KEY_EVERY:
        args->n_every = take_count(state, "--every", arg);
        return 0;
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->job_path != NULL) {
            argp_error(state, "one job at a time: '%s' is left over", arg);
        }
        args->job_path = arg;
        return 0;
    case ARGP_KEY_END:
        check_complete(state, args);
        plan_turns(args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "dir/kjv-5m.yaml" gives "kjv-5m-compare"; what a coordinator takes no name with becomes '_'. */
static void format_name(const char *job_path, char *out, size_t n)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *slash = strrchr(job_path, '/');
    const char *base = slash != NULL ? slash + 1 : job_path;
    const char *dot = strrchr(base, '.');
    size_t n_base = dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base);
    n_base = n_base < BASE_MAX ? n_base : BASE_MAX;
    snprintf(out, n, "%.*s-compare", (int)n_base, base);
    for (size_t i = 0; out[i] != '\0'; i++) {
        if (strchr(ALLOWED, out[i]) == NULL || (i == 0 && out[i] == '.')) {
            out[i] = '_';
        }
    }
}

static sc_status print(const compare_args *args, const sc_comparison *comparison,
                       const char *run_dir, sc_err *err)
{
    char *text = NULL;
    if (args->is_json) {
        SC_TRY(sc_comparison_json(comparison, run_dir, &text, err));
        printf("%s\n", text);
    } else {
        SC_TRY(sc_comparison_format(comparison, &text, err));
        printf("%s%s\nrun folder: %s\n", args->shared.is_quiet ? "" : "\n", text, run_dir);
    }
    free(text);
    return fflush(stdout) == 0 ? SC_OK : sc_status_errno(err, errno, "standard output");
}

static sc_status print_summary(const compare_args *args, const char *run_dir, sc_err *err)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t n = 0;
    sc_comparison *comparison = NULL;
    snprintf(path, sizeof path, "%s/summary.json", run_dir);
    SC_TRY(sc_cmd_read_file(path, SUMMARY_MAX, &text, &n, err));
    sc_status status = sc_comparison_read(text, n, &comparison, err);
    free(text);
    if (status != SC_OK) {
        return sc_status_prefix(err, status, "%s", path);
    }
    status = print(args, comparison, run_dir, err);
    sc_comparison_free(&comparison);
    return status;
}

/* The one job: its first schedule is the first named, its steps are those of all. */
static sc_status fill_options(compare_args *args, sc_runner_options *out, sc_err *err)
{
    if (args->n_names[0] + sizeof "schedule=" > sizeof args->schedule_set) {
        return sc_status_fail(err, SC_LIMIT, "--schedules: the first name is too long");
    }
    snprintf(args->schedule_set, sizeof args->schedule_set, "schedule=%.*s", (int)args->n_names[0],
             args->names[0]);
    snprintf(args->steps_set, sizeof args->steps_set, "train.steps=%lld",
             (long long)args->n_steps * (long long)args->n_schedules);
    SC_TRY(sc_jobargs_add_set(&args->shared, args->schedule_set, err));
    SC_TRY(sc_jobargs_add_set(&args->shared, args->steps_set, err));
    sc_jobargs_fill(&args->shared, args->job_path, out);
    format_name(args->job_path, args->name, sizeof args->name);
    out->job.name = args->name;
    out->job.rotate = args->schedules;
    out->job.rotate_every = args->n_every;
    return SC_OK;
}
/* *is_told_p: the error is on the terminal already. */
static sc_status run(compare_args *args, bool *is_told_p, sc_err *err)
{
    sc_env env;
    sc_runner_options options;
    sc_runner_result result;
    sc_progress progress;
    int fd = args->is_json ? STDERR_FILENO : STDOUT_FILENO;
    sc_env_read(&env);
    SC_TRY(fill_options(args, &options, err));
    sc_progress_init(&progress, args->shared.is_quiet ? -1 : fd,
                     args->shared.is_verbose ? NULL : env.term, env.no_color);
    if (!args->shared.is_quiet) {
        dprintf(fd, "%s: %d steps each, in turns of %d\n", args->schedules, args->n_steps,
                args->n_every);
    }
    options.job.path_list = env.path;
    options.progress = &progress;
    sc_status status = sc_runner_run(&options, &result, err);
    *is_told_p = result.is_told;
    if (status == SC_OK) {
        status = print_summary(args, result.run_dir, err);
    }
    if (result.detail != NULL) {
        fprintf(stderr, "%s", result.detail);
    }
    sc_runner_done(&result);
    return status;
}

int sc_cmd_compare_main(int argc, char **argv)
{
    const struct argp_child children[] = {{sc_jobargs_argp(), 0, NULL, 0}, {0}};
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "JOB.yaml",
        .doc = "Run one job in which schedules take turns, and print one table.\v"
               "The machine's drift meets all schedules alike, because they take turns: A B A B "
               "and so on. Numbers are medians over each schedule's steps without the first of a "
               "turn. Bubble is the share of a step's time that the busiest path spends without "
               "computing: measured, simulated with measured costs, and in closed form. A schedule "
               "is one of `stagecoach schedule list', or file:PATH for a CSV file. The run folder "
               "is JOB-compare.",
        .children = children,
    };
    compare_args args = {0};
    bool is_told = false;
    sc_err err;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    sc_status status = run(&args, &is_told, &err);
    if (status == SC_OK || is_told) {
        return sc_status_exit_code(status);
    }
    return sc_cmd_fail(&err);
}
