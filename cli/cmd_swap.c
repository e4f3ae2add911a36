#include "cli/cmd.h"
#include "cli/target.h"

#include <argp.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_AT_STEP = 0x200,
    // A coordinator takes no longer name.
    NAME_MAX_BYTES = 256,
    ARGUMENT_MAX = NAME_MAX_BYTES + 32
};

static const char FILE_PREFIX[] = "file:";

typedef struct swap_args {
    const char *schedule;
    const char *target; // endpoint or run folder; NULL: the only run under way
    bool has_step;
    uint64_t step;
} swap_args;

static const struct argp_option OPTIONS[] = {
    {"at-step", KEY_AT_STEP, "N", 0,
     "The first step under the new schedule, counted from 0 (default: the next not yet issued)", 0},
    {0},
};

static void take_step(struct argp_state *state, swap_args *args, const char *text)
{
    char *end = NULL;
    uint64_t step = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0') {
        argp_error(state, "--at-step: '%s' is not a step, 0 or more", text);
    }
    args->has_step = true;
    args->step = step;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    swap_args *args = state->input;
    switch (key) {
    case KEY_AT_STEP:
        take_step(state, args, arg);
        return 0;
    case ARGP_KEY_ARG:
        if (args->schedule == NULL) {
            args->schedule = arg;
        } else if (args->target == NULL) {
            args->target = arg;
        } else {
            argp_error(state, "one run at a time: '%s' is left over", arg);
        }
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no schedule given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A coordinator may have another current folder: the path of a file becomes absolute. */
static sc_status format_schedule(const char *schedule, char *out, size_t n, sc_err *err)
{
    char folder[PATH_MAX] = "";
    size_t n_prefix = sizeof FILE_PREFIX - 1;
    bool is_file = strncmp(schedule, FILE_PREFIX, n_prefix) == 0;
    bool is_relative = is_file && schedule[n_prefix] != '/';
    if (strchr(schedule, ' ') != NULL || schedule[0] == '\0') {
        return sc_status_fail(err, SC_USAGE, "'%s' names no schedule: no spaces, please", schedule);
    }
    if (is_relative && getcwd(folder, sizeof folder) == NULL) {
        return sc_status_fail(err, SC_IO,
                              "the current folder has no name: give %s an absolute path", schedule);
    }
    int length = is_relative ? snprintf(out, n, "%s%s/%s", FILE_PREFIX, folder, schedule + n_prefix)
                             : snprintf(out, n, "%s", schedule);
    if (length < 0 || (size_t)length >= n || strchr(out, ' ') != NULL) {
        return sc_status_fail(err, SC_USAGE,
                              "%s: a schedule's absolute path has at most %zu bytes and no spaces",
                              schedule, n - 1);
    }
    return SC_OK;
}

static sc_status ask(const swap_args *args, char **out_text, sc_err *err)
{
    char name[NAME_MAX_BYTES];
    char argument[ARGUMENT_MAX];
    char found[PATH_MAX];
    const char *target = args->target;
    SC_TRY(format_schedule(args->schedule, name, sizeof name, err));
    if (args->has_step) {
        snprintf(argument, sizeof argument, "%s %" PRIu64, name, args->step);
    } else {
        snprintf(argument, sizeof argument, "%s", name);
    }
    if (target == NULL) {
        SC_TRY(sc_target_find("runs", found, sizeof found, err));
        target = found;
    }
    return sc_target_ask(target, "swap", argument, out_text, err);
}

int sc_cmd_swap_main(int argc, char **argv)
{
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "NAME [ENDPOINT|RUN_DIR]",
        .doc = "Change the schedule of a running job between two of its steps; weights, optimizer "
               "state and data go on as they are.\v"
               "NAME is one of `stagecoach schedule list', or file:PATH for a CSV file. Without "
               "ENDPOINT and RUN_DIR the job is the only one under way in runs/.",
    };
    swap_args args = {0};
    char *text = NULL;
    sc_err err;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    if (ask(&args, &text, &err) != SC_OK) {
        return sc_cmd_fail(&err);
    }
    printf("%s\n", text);
    free(text);
    return 0;
}
