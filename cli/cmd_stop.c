#include "cli/cmd.h"
#include "cli/target.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

static error_t parse(int key, char *arg, struct argp_state *state)
{
    const char **target = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (*target != NULL) {
            argp_error(state, "one run at a time: '%s' is left over", arg);
        }
        *target = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no endpoint and no run folder given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int sc_cmd_stop_main(int argc, char **argv)
{
    const struct argp argp = {
        .parser = parse,
        .args_doc = "ENDPOINT|RUN_DIR",
        .doc = "Ask a coordinator to end its job and stop all workers.",
    };
    const char *target = NULL;
    char *text = NULL;
    sc_err err;
    if (argp_parse(&argp, argc, argv, 0, NULL, &target) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    if (sc_target_ask(target, "stop", "", &text, &err) != SC_OK) {
        return sc_cmd_fail(&err);
    }
    printf("%s\n", text);
    free(text);
    return 0;
}
