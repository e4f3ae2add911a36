#include "cli/cmd.h"
#include "cli/target.h"

#include <argp.h>
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_JSON = 0x200,
    SUMMARY_MAX = 4 * 1024 * 1024
};

typedef struct status_args {
    const char *target; // endpoint or run folder
    bool is_json;
} status_args;

static const struct argp_option OPTIONS[] = {
    {"json", KEY_JSON, NULL, 0, "Print JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    status_args *args = state->input;
    switch (key) {
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->target != NULL) {
            argp_error(state, "one run at a time: '%s' is left over", arg);
        }
        args->target = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no endpoint and no run folder given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The path of a file of a run that is over; false when the target is none. */
static bool find_summary(const char *target, bool is_json, char *path, size_t n)
{
    if (sc_target_is_endpoint(target)) {
        return false;
    }
    snprintf(path, n, "%s/%s", target, is_json ? "summary.json" : "summary.txt");
    return access(path, R_OK) == 0;
}

static void print_value(const char *name, const cJSON *item)
{
    char *value = cJSON_IsString(item) ? strdup(item->valuestring) : cJSON_PrintUnformatted(item);
    printf("%-14s  %s\n", name, value != NULL ? value : "?");
    free(value);
}

/* A list takes a line an entry, named on the first. */
static void print_item(const char *name, const cJSON *item)
{
    if (!cJSON_IsArray(item)) {
        print_value(name, item);
        return;
    }
    for (const cJSON *entry = item->child; entry != NULL; entry = entry->next) {
        print_value(entry == item->child ? name : "", entry);
    }
}

/* A coordinator answers "status" with a JSON object: a line a key for people. */
static void print_reply(const char *text, bool is_json)
{
    cJSON *object = cJSON_Parse(text);
    if (is_json || !cJSON_IsObject(object)) {
        size_t n = strlen(text);
        printf("%s%s", text, n > 0 && text[n - 1] == '\n' ? "" : "\n");
    } else {
        for (const cJSON *item = object->child; item != NULL; item = item->next) {
            print_item(item->string, item);
        }
    }
    cJSON_Delete(object);
}

static sc_status print_file(const char *path, sc_err *err)
{
    char *text = NULL;
    size_t n = 0;
    SC_TRY(sc_cmd_read_file(path, SUMMARY_MAX, &text, &n, err));
    sc_status status = sc_cmd_write_file("-", text, n, err);
    free(text);
    return status;
}

static sc_status ask(const status_args *args, sc_err *err)
{
    char *text = NULL;
    SC_TRY(sc_target_ask(args->target, "status", "", &text, err));
    print_reply(text, args->is_json);
    free(text);
    return SC_OK;
}

int sc_cmd_status_main(int argc, char **argv)
{
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "ENDPOINT|RUN_DIR",
        .doc = "Ask a coordinator how its job gets on; of a run that is over, print the summary.",
    };
    status_args args = {0};
    char path[PATH_MAX];
    sc_err err;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    sc_status status = find_summary(args.target, args.is_json, path, sizeof path)
                           ? print_file(path, &err)
                           : ask(&args, &err);
    return status == SC_OK ? 0 : sc_cmd_fail(&err);
}
