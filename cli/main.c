/*
 * main - `stagecoach`: finds the subcommand and hands over.
 */
#include "cli/cmd.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sc_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} sc_command;

/* In the order of --help. */
static const sc_command COMMANDS[] = {
    {"run", "run a job on this machine", sc_cmd_run_main},
    {"compare", "run a job under several schedules and compare them", sc_cmd_compare_main},
    {"status", "ask how a job gets on", sc_cmd_status_main},
    {"swap", "change the schedule of a running job", sc_cmd_swap_main},
    {"stop", "end a job", sc_cmd_stop_main},
    {"checkpoint", "show and check what a run has saved", sc_cmd_checkpoint_main},
    {"data", "make and inspect token files", sc_cmd_data_main},
    {"schedule", "list, draw, compare, check and simulate pipeline schedules",
     sc_cmd_schedule_main},
};

enum {
    N_COMMANDS = sizeof COMMANDS / sizeof COMMANDS[0]
};

static const sc_command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(COMMANDS[i].name, name) == 0) {
            return &COMMANDS[i];
        }
    }
    return NULL;
}

static void fail_unknown(struct argp_state *state, const char *name)
{
    char known[512] = "";
    for (size_t i = 0; i < N_COMMANDS; i++) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                       COMMANDS[i].name);
    }
    argp_error(state, "unknown command '%s'; the commands are %s", name, known);
}

/* The list of commands, below the options in --help. The text is argp's to free. */
static char *filter_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_EXTRA) {
        return (char *)text;
    }
    char *list = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&list, &n);
    if (out == NULL) {
        return NULL;
    }
    (void)fputs("Commands:\n", out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        (void)fprintf(out, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    }
    (void)fputs("\n`stagecoach COMMAND --help' tells more.", out);
    return fclose(out) == 0 ? list : NULL;
}

/* Stops at the first argument that is no option: that is the command, the rest is its own. */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    int *command_at = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (find(arg) == NULL) {
            fail_unknown(state, arg);
        }
        *command_at = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no command given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    const struct argp argp = {
        .parser = parse,
        .args_doc = "COMMAND [ARGUMENT...]",
        .doc = "Stagecoach trains transformer language models across pipeline stages.",
        .help_filter = filter_help,
    };
    argp_program_version = "stagecoach " SC_VERSION;
    argp_err_exit_status = sc_status_exit_code(SC_USAGE);
    int command_at = 0;
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &command_at) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    const sc_command *command = find(argv[command_at]);
    // argp puts argv[0] in front of its messages.
    char name[64];
    (void)snprintf(name, sizeof name, "stagecoach %s", command->name);
    argv[command_at] = name;
    return command->run(argc - command_at, argv + command_at);
}
