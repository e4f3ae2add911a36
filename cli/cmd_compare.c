#include "cli/cmd.h"
#include "cli/comparison.h"
#include "cli/env.h"
#include "cli/jobargs.h"
#include "cli/runner.h"
#include "schedules/gen.h"

#include <argp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_SCHEDULES = 0x200,
    KEY_STEPS,
    KEY_JSON,
    SCHEDULES_MAX = 64,
    NAME_MAX_BYTES = 128, // a coordinator takes no longer one
    BASE_MAX = 80,        // of it for the job's name
    SET_MAX = 256,
    SUMMARY_MAX = 4 * 1024 * 1024
};

typedef struct compare_args {
    sc_jobargs shared;
    const char *job_path;
    const sc_gen_info *schedules[SCHEDULES_MAX];
    size_t n_schedules;
    bool is_json;
    char steps_set[SET_MAX]; // "" or "train.steps=N"
} compare_args;

static const struct argp_option OPTIONS[] = {
    {"schedules", KEY_SCHEDULES, "NAME,NAME...", 0, "The schedules to run, in this order", 0},
    {"steps", KEY_STEPS, "N", 0, "Steps of each run (default: as the job says)", 0},
    {"json", KEY_JSON, NULL, 0, "Print JSON; the progress goes to standard error", 0},
    {0},
};

static void take_steps(struct argp_state *state, compare_args *args, const char *text)
{
    char *end = NULL;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 1 || n > INT_MAX) {
        argp_error(state, "--steps: '%s' is not a number of steps, 1 or more", text);
    }
    snprintf(args->steps_set, sizeof args->steps_set, "train.steps=%ld", n);
}

static void refuse_schedule(struct argp_state *state, const char *name)
{
    char known[1024] = "";
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", list[i].name);
    }
    argp_error(state, "--schedules: there is no schedule '%s'; known are %s", name, known);
}

/* All names are looked up before anything starts. */
static void take_schedules(struct argp_state *state, compare_args *args, const char *text)
{
    args->n_schedules = 0;
    for (;;) {
        char name[NAME_MAX_BYTES];
        size_t n = strcspn(text, ",");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, text);
        const sc_gen_info *info = sc_gen_find(name);
        if (info == NULL) {
            refuse_schedule(state, name);
            return;
        }
        if (args->n_schedules == SCHEDULES_MAX) {
            argp_error(state, "--schedules: more than %d names", (int)SCHEDULES_MAX);
            return;
        }
        args->schedules[args->n_schedules++] = info;
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
        take_steps(state, args, arg);
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
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "dir/kjv-5m.yaml" and gpipe give "kjv-5m-gpipe"; what a coordinator takes no name with becomes
   '_'. */
static void format_name(const char *job_path, const char *schedule, char *out, size_t n)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *slash = strrchr(job_path, '/');
    const char *base = slash != NULL ? slash + 1 : job_path;
    const char *dot = strrchr(base, '.');
    size_t n_base = dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base);
    n_base = n_base < BASE_MAX ? n_base : BASE_MAX;
    snprintf(out, n, "%.*s-%s", (int)n_base, base, schedule);
    for (size_t i = 0; out[i] != '\0'; i++) {
        if (strchr(ALLOWED, out[i]) == NULL || (i == 0 && out[i] == '.')) {
            out[i] = '_';
        }
    }
}

static sc_status add_summary(sc_comparison *comparison, const char *schedule, const char *run_dir,
                             sc_err *err)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/summary.json", run_dir);
    SC_TRY(sc_cmd_read_file(path, SUMMARY_MAX, &text, &n, err));
    sc_status status = sc_comparison_add(comparison, schedule, run_dir, text, n, err);
    free(text);
    return status == SC_OK ? SC_OK : sc_status_prefix(err, status, "%s", path);
}

/* Runs the job under one schedule. *is_told_p: the error is on the terminal already. */
static sc_status run_one(const compare_args *args, const char *schedule, sc_progress *progress,
                         sc_comparison *comparison, bool *is_told_p, sc_err *err)
{
    sc_env env;
    sc_runner_options options;
    sc_runner_result result;
    char set[SET_MAX];
    char name[NAME_MAX_BYTES + 1];
    sc_jobargs shared = args->shared;
    sc_env_read(&env);
    snprintf(set, sizeof set, "schedule=%s", schedule);
    SC_TRY(sc_jobargs_add_set(&shared, set, err));
    if (args->steps_set[0] != '\0') {
        SC_TRY(sc_jobargs_add_set(&shared, args->steps_set, err));
    }
    format_name(args->job_path, schedule, name, sizeof name);
    sc_jobargs_fill(&shared, args->job_path, &options);
    options.job.name = name;
    options.job.path_list = env.path;
    options.progress = progress;
    sc_status status = sc_runner_run(&options, &result, err);
    *is_told_p = result.is_told;
    if (status == SC_OK) {
        status = add_summary(comparison, schedule, result.run_dir, err);
    } else {
        sc_status_prefix(err, status, "schedule %s", schedule);
    }
    if (result.detail != NULL) {
        fprintf(stderr, "%s", result.detail);
    }
    sc_runner_done(&result);
    return status;
}

static int run_all(const compare_args *args, sc_comparison *comparison)
{
    sc_env env;
    sc_err err;
    sc_env_read(&env);
    int fd = args->is_json ? STDERR_FILENO : STDOUT_FILENO;
    for (size_t i = 0; i < args->n_schedules; i++) {
        const char *schedule = args->schedules[i]->name;
        bool is_told = false;
        sc_progress progress;
        sc_progress_init(&progress, args->shared.is_quiet ? -1 : fd,
                         args->shared.is_verbose ? NULL : env.term, env.no_color);
        if (!args->shared.is_quiet) {
            dprintf(fd, "%s (%zu/%zu)\n", schedule, i + 1, args->n_schedules);
        }
        sc_status status = run_one(args, schedule, &progress, comparison, &is_told, &err);
        if (status != SC_OK) {
            return is_told ? sc_status_exit_code(status) : sc_cmd_fail(&err);
        }
    }
    return 0;
}

static int print(const compare_args *args, const sc_comparison *comparison)
{
    sc_err err;
    char *text = NULL;
    sc_status status = args->is_json ? sc_comparison_json(comparison, &text, &err)
                                     : sc_comparison_format(comparison, &text, &err);
    if (status != SC_OK) {
        return sc_cmd_fail(&err);
    }
    printf("%s%s", args->is_json || args->shared.is_quiet ? "" : "\n", text);
    printf("%s", args->is_json ? "\n" : "");
    free(text);
    return fflush(stdout) == 0 ? 0 : sc_status_exit_code(SC_IO);
}

int sc_cmd_compare_main(int argc, char **argv)
{
    const struct argp_child children[] = {{sc_jobargs_argp(), 0, NULL, 0}, {0}};
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "JOB.yaml",
        .doc = "Run a job under several schedules, one after another, from the same weights and "
               "data, and print one table.\v"
               "Bubble is the share of a step's time that the busiest path spends without "
               "computing: measured, simulated with measured costs, and in closed form. A run "
               "folder JOB-SCHEDULE is left for each.",
        .children = children,
    };
    compare_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    sc_err err;
    sc_comparison *comparison = NULL;
    if (sc_comparison_new(&comparison, &err) != SC_OK) {
        return sc_cmd_fail(&err);
    }
    int code = run_all(&args, comparison);
    if (code == 0) {
        code = print(&args, comparison);
    }
    sc_comparison_free(&comparison);
    return code;
}
