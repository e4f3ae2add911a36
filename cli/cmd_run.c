#include "cli/cmd.h"
#include "cli/env.h"
#include "cli/jobargs.h"
#include "cli/runner.h"

#include <argp.h>
#include <stdio.h>
#include <unistd.h>

enum {
    KEY_NAME = 0x200,
    KEY_DRY_RUN,
    KEY_JSON,
    KEY_RESUME
};

typedef struct run_args {
    sc_jobargs shared;
    const char *job_path;
    const char *name;
    const char *resume_path; // argument behind the job
    const char *resume;      // NULL: from the start; "": from the job's newest checkpoint
    bool is_dry_run;
    bool is_json;
} run_args;

static const struct argp_option OPTIONS[] = {
    {"name", KEY_NAME, "NAME", 0, "Name of the run and of its folder", 0},
    {"resume", KEY_RESUME, "PATH", OPTION_ARG_OPTIONAL,
     "Go on from the newest checkpoint of the job's runs, or of the run folder or checkpoint PATH "
     "(`--resume=PATH', or PATH behind the job file)",
     0},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "Print the plan and stop", 0},
    {"json", KEY_JSON, NULL, 0, "With --dry-run: print the plan as JSON", 0},
    {0},
};

/* The job, then what --resume goes on from. */
static void take_argument(struct argp_state *state, run_args *args, const char *arg)
{
    bool has_path = args->resume_path != NULL ||
                    (args->resume != NULL && args->resume[0] != '\0'); // --resume=PATH
    if (args->job_path == NULL) {
        args->job_path = arg;
    } else if (has_path) {
        argp_error(state, "one job at a time: '%s' is left over", arg);
    } else {
        args->resume_path = arg;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    run_args *args = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->shared;
        return 0;
    case KEY_NAME:
        args->name = arg;
        return 0;
    case KEY_RESUME:
        args->resume = arg == NULL ? "" : arg;
        return 0;
    case KEY_DRY_RUN:
        args->is_dry_run = true;
        return 0;
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        take_argument(state, args, arg);
        return 0;
    case ARGP_KEY_END:
        if (args->resume_path != NULL && args->resume == NULL) {
            argp_error(state, "one job at a time: '%s' is left over", args->resume_path);
        }
        if (args->resume_path != NULL) {
            args->resume = args->resume_path;
        }
        if (args->is_json && !args->is_dry_run) {
            argp_error(state, "--json goes with --dry-run; a run leaves its summary.json");
        }
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no job file given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_result(const sc_runner_result *result)
{
    if (result->summary != NULL) {
        printf("%s", result->summary);
    }
    if (result->run_dir != NULL) {
        printf("run folder: %s\n", result->run_dir);
    }
    fflush(stdout);
}

int sc_cmd_run_main(int argc, char **argv)
{
    const struct argp_child children[] = {{sc_jobargs_argp(), 0, NULL, 0}, {0}};
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "JOB.yaml\n--resume JOB.yaml [PATH]",
        .doc = "Run a job on this machine: start a coordinator and the job's workers, show the "
               "progress, print a summary.\v"
               "Ctrl-C stops all of them cleanly, a second one at once. The run folder keeps the "
               "job as resolved, the plan, the metrics, the trace and a log per daemon.",
        .children = children,
    };
    run_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    sc_env env;
    sc_progress progress;
    sc_runner_options options;
    sc_runner_result result;
    sc_err err;
    sc_env_read(&env);
    // Log lines would tear a bar that is redrawn in place.
    sc_progress_init(&progress, args.shared.is_quiet ? -1 : STDOUT_FILENO,
                     args.shared.is_verbose ? NULL : env.term, env.no_color);
    sc_jobargs_fill(&args.shared, args.job_path, &options);
    options.job.name = args.name;
    options.job.resume = args.resume;
    options.job.path_list = env.path;
    options.job.is_dry_run = args.is_dry_run;
    options.job.is_json = args.is_json;
    options.progress = &progress;
    sc_status status = sc_runner_run(&options, &result, &err);
    print_result(&result);
    int code = sc_status_exit_code(status);
    if (status != SC_OK && !result.is_told) {
        code = sc_cmd_fail(&err);
    }
    if (result.detail != NULL) {
        fprintf(stderr, "%s", result.detail);
    }
    sc_runner_done(&result);
    return code;
}
