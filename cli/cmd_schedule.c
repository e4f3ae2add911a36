#include "cli/cmd.h"
#include "cli/scheduleview.h"
#include "schedules/csv.h"
#include "schedules/gen.h"
#include "schedules/lower.h"

#include <argp.h>
#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    KEY_COSTS = 0x200,
    KEY_SVG,
    KEY_TRACE,
    KEY_CSV,
    KEY_PLAIN,
    KEY_JSON,
    KEY_LOWERED,
    KEY_LEGACY,
    KEY_WIDTH,
    WIDTH_DEFAULT = 100
};

/* What is asked for, as bits, so that an option can say which of them it goes with. */
typedef enum schedule_verb {
    LIST = 1,
    SHOW = 2,
    CHECK = 4,
    SIMULATE = 8
} schedule_verb;

typedef struct schedule_args {
    schedule_verb verb;
    const char *subject; // NAME or FILE
    sc_gen_params params;
    sc_scheduleview_costs costs;
    const char *svg;
    const char *trace;
    const char *csv;
    int width; // 0: the terminal's
    bool is_plain;
    bool is_json;
    bool is_lowered;
    bool is_legacy;
    int first_key[SIMULATE + 1]; // (verb) a key that was given and does not go with the verb
} schedule_args;

static const struct {
    const char *name;
    schedule_verb verb;
    const char *subject; // NULL: none
} VERBS[] = {
    {"list", LIST, NULL},
    {"show", SHOW, "NAME"},
    {"check", CHECK, "FILE.csv"},
    {"simulate", SIMULATE, "FILE.csv"},
};

enum {
    N_VERBS = sizeof VERBS / sizeof VERBS[0]
};

static const struct argp_option OPTIONS[] = {
    {NULL, 'p', "RANKS", 0, "show: pipeline ranks", 0},
    {NULL, 'm', "MICROBATCHES", 0, "show: microbatches a step", 0},
    {NULL, 'v', "STAGES", 0, "show: stages a rank (default: the schedule's own)", 0},
    {"costs", KEY_COSTS, "F,I,W,COMM", 0,
     "show, simulate: times of one microbatch on one rank, and the latency of an edge between "
     "ranks "
     "(default 1,1,1,0)",
     0},
    {"svg", KEY_SVG, "FILE", 0, "show, simulate: write the picture; - is standard output", 0},
    {"trace", KEY_TRACE, "FILE", 0, "show, simulate: write a Chrome/Perfetto trace", 0},
    {"csv", KEY_CSV, "FILE", 0, "show: write the schedule", 0},
    {"plain", KEY_PLAIN, NULL, 0, "show: CSV without comment lines, as PyTorch reads it", 0},
    {"lowered", KEY_LOWERED, NULL, 0, "show: with SEND, RECV and REDUCE_GRAD, as text", 0},
    {"json", KEY_JSON, NULL, 0, "Print JSON instead", 0},
    {"legacy", KEY_LEGACY, NULL, 0,
     "check, simulate: older PyTorch file, in which B is the input gradient", 0},
    {"width", KEY_WIDTH, "COLUMNS", 0, "show, simulate: width of the text picture", 0},
    {0},
};

/* The verbs an option goes with. */
static int verbs_of(int key)
{
    switch (key) {
    case KEY_COSTS:
    case KEY_SVG:
    case KEY_TRACE:
    case KEY_WIDTH:
        return SHOW | SIMULATE;
    case KEY_LEGACY:
        return CHECK | SIMULATE;
    case KEY_JSON:
        return LIST | SHOW | CHECK | SIMULATE;
    default:
        return SHOW;
    }
}

static int take_number(struct argp_state *state, const char *what, const char *text)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > INT_MAX) {
        argp_error(state, "%s: '%s' is not a number from 1 on", what, text);
        return 1;
    }
    return (int)value;
}

static void take_costs(struct argp_state *state, schedule_args *args, const char *text)
{
    double values[4] = {0};
    const char *at = text;
    for (int i = 0; i < 4; i++) {
        char *end = NULL;
        values[i] = strtod(at, &end);
        bool ends = i < 3 ? *end == ',' : *end == '\0';
        if (end == at || !ends || !isfinite(values[i]) || values[i] < 0) {
            argp_error(state,
                       "--costs: '%s' is not F,I,W,COMM: four numbers, none negative, as in "
                       "1,1,1,0.1",
                       text);
            return;
        }
        at = end + 1;
    }
    args->costs = (sc_scheduleview_costs){values[0], values[1], values[2], values[3]};
}

static void take_argument(struct argp_state *state, schedule_args *args, const char *text)
{
    if (args->verb == 0) {
        for (size_t i = 0; i < N_VERBS; i++) {
            if (strcmp(VERBS[i].name, text) == 0) {
                args->verb = VERBS[i].verb;
                return;
            }
        }
        argp_error(state, "unknown word '%s'; say list, show, check or simulate", text);
    } else if (args->subject != NULL || args->verb == LIST) {
        argp_error(state, "'%s' is left over", text);
    } else {
        args->subject = text;
    }
}

/* Everything there that the verb needs, and nothing that it would ignore. */
static void check_complete(struct argp_state *state, const schedule_args *args)
{
    if (args->verb == 0) {
        argp_error(state, "say list, show, check or simulate");
        return;
    }
    size_t i = 0;
    while (VERBS[i].verb != args->verb) {
        i++;
    }
    int key = args->first_key[args->verb];
    const struct argp_option *option = OPTIONS;
    while (key != 0 && option->key != key) {
        option++;
    }
    if (key != 0 && option->name != NULL) {
        argp_error(state, "--%s does not go with %s", option->name, VERBS[i].name);
    } else if (key != 0) {
        argp_error(state, "-%c does not go with %s", key, VERBS[i].name);
    } else if (VERBS[i].subject != NULL && args->subject == NULL) {
        argp_error(state, "%s needs %s", VERBS[i].name, VERBS[i].subject);
    } else if (args->verb == SHOW && args->params.n_ranks == 0) {
        argp_error(state, "show needs the number of ranks, as in -p 4");
    } else if (args->verb == SHOW && args->params.n_mb == 0) {
        argp_error(state, "show needs the number of microbatches, as in -m 8");
    } else if (args->is_plain && args->csv == NULL) {
        argp_error(state, "--plain is about the file of --csv, which is not given");
    }
}

static void take_option(struct argp_state *state, schedule_args *args, int key, char *arg)
{
    switch (key) {
    case 'p':
        args->params.n_ranks = take_number(state, "-p", arg);
        break;
    case 'm':
        args->params.n_mb = take_number(state, "-m", arg);
        break;
    case 'v':
        args->params.n_chunks = take_number(state, "-v", arg);
        break;
    case KEY_COSTS:
        take_costs(state, args, arg);
        break;
    case KEY_SVG:
        args->svg = arg;
        break;
    case KEY_TRACE:
        args->trace = arg;
        break;
    case KEY_CSV:
        args->csv = arg;
        break;
    case KEY_WIDTH:
        args->width = take_number(state, "--width", arg);
        break;
    case KEY_PLAIN:
        args->is_plain = true;
        break;
    case KEY_JSON:
        args->is_json = true;
        break;
    case KEY_LOWERED:
        args->is_lowered = true;
        break;
    default:
        args->is_legacy = true;
        break;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    schedule_args *args = state->input;
    if (key == ARGP_KEY_ARG) {
        take_argument(state, args, arg);
        return 0;
    }
    if (key == ARGP_KEY_END) {
        check_complete(state, args);
        return 0;
    }
    bool is_ours = key == 'p' || key == 'm' || key == 'v' || (key >= KEY_COSTS && key <= KEY_WIDTH);
    if (!is_ours) {
        return ARGP_ERR_UNKNOWN;
    }
    for (size_t i = 0; i < N_VERBS; i++) {
        int verb = (int)VERBS[i].verb;
        if ((verbs_of(key) & verb) == 0 && args->first_key[verb] == 0) {
            args->first_key[verb] = key;
        }
    }
    take_option(state, args, key, arg);
    return 0;
}

static sc_status print_list_json(const sc_gen_info *list, size_t n, sc_err *err)
{
    cJSON *root = cJSON_CreateArray();
    bool ok = root != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        cJSON *entry = cJSON_CreateObject();
        ok = entry != NULL && cJSON_AddItemToArray(root, entry) &&
             cJSON_AddStringToObject(entry, "name", list[i].name) != NULL &&
             cJSON_AddStringToObject(entry, "summary", list[i].summary) != NULL &&
             cJSON_AddStringToObject(entry, "constraints", list[i].constraints) != NULL;
    }
    char *text = ok ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for the JSON text");
    }
    (void)puts(text);
    cJSON_free(text);
    return SC_OK;
}

static sc_status run_list(const schedule_args *args, sc_err *err)
{
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    if (args->is_json) {
        return print_list_json(list, n, err);
    }
    for (size_t i = 0; i < n; i++) {
        (void)printf("%-8s %s; %s\n", list[i].name, list[i].summary, list[i].constraints);
    }
    return SC_OK;
}

/* The terminal's width, or a fixed one in a pipe. */
static int find_width(const schedule_args *args)
{
    struct winsize size = {0};
    if (args->width > 0) {
        return args->width;
    }
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
        return size.ws_col;
    }
    return WIDTH_DEFAULT;
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static sc_status write_csv(const schedule_args *args, const sc_table *table, sc_err *err)
{
    char *text = NULL;
    SC_TRY(sc_csv_write(table, !args->is_plain, &text, err));
    sc_status status = sc_cmd_write_file(args->csv, text, strlen(text), err);
    free(text);
    return status;
}

/* The files that were asked for; then the picture or the numbers, unless a file took stdout. */
static sc_status present(const schedule_args *args, const sc_scheduleview *view,
                         const sc_table *lowered, sc_err *err)
{
    if (args->svg != NULL) {
        SC_TRY(sc_scheduleview_write_svg(view, args->svg, err));
    }
    if (args->trace != NULL) {
        SC_TRY(sc_scheduleview_write_trace(view, args->trace, err));
    }
    if (args->csv != NULL) {
        SC_TRY(write_csv(args, lowered != NULL ? lowered : view->table, err));
    }
    if (is_stdout(args->svg) || is_stdout(args->trace) || is_stdout(args->csv)) {
        return SC_OK;
    }
    if (args->is_json) {
        return sc_scheduleview_print_json(view, err);
    }
    if (lowered != NULL) {
        SC_TRY(sc_scheduleview_print_rows(lowered, err));
    } else {
        bool has_colour = isatty(STDOUT_FILENO) == 1;
        SC_TRY(sc_scheduleview_print_gantt(view, find_width(args), has_colour, err));
    }
    sc_scheduleview_print_summary(view);
    return SC_OK;
}

/* Simulates a checked table and presents it. */
static sc_status present_table(const schedule_args *args, const sc_table *table,
                               const sc_validate_report *report, sc_err *err)
{
    sc_status status = SC_OK;
    sc_timeline *timeline = NULL;
    sc_table *lowered = NULL;
    sc_stage_cost *costs = calloc((size_t)table->n_stages, sizeof *costs);
    if (costs == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for %d stages", table->n_stages);
    }
    sc_simulate_uniform_costs(table, args->costs.f, args->costs.i, args->costs.w, costs);
    SC_GOTO(sc_simulate_run(table, &(sc_costs){costs, args->costs.comm}, &timeline, err));
    if (args->is_lowered) {
        SC_GOTO(sc_lower_table(table, &lowered, err));
    }
    sc_scheduleview view = {.table = table,
                            .report = report,
                            .timeline = timeline,
                            .costs = args->costs,
                            .file = args->verb == SHOW ? NULL : args->subject};
    SC_GOTO(present(args, &view, lowered, err));
out:
    sc_table_free(&lowered);
    sc_simulate_free(&timeline);
    free(costs);
    return status;
}

static sc_status run_show(const schedule_args *args, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *table = NULL;
    sc_validate_report report;
    SC_GOTO(sc_gen_make(args->subject, &args->params, &table, err));
    SC_GOTO(sc_validate_table(table, NULL, &report, err));
    SC_GOTO(present_table(args, table, &report, err));
out:
    sc_table_free(&table);
    return status;
}

static sc_status read_table(const schedule_args *args, sc_table **out, sc_validate_report *report,
                            sc_err *err)
{
    char *text = NULL;
    size_t n = 0;
    SC_TRY(sc_cmd_read_file(args->subject, SC_CSV_BYTES_MAX, &text, &n, err));
    sc_csv_options options = {args->subject, args->is_legacy};
    sc_status status = sc_csv_read(text, n, &options, out, report, err);
    free(text);
    return status;
}

static sc_status run_simulate(const schedule_args *args, sc_err *err)
{
    sc_table *table = NULL;
    sc_validate_report report;
    SC_TRY(read_table(args, &table, &report, err));
    sc_status status = present_table(args, table, &report, err);
    sc_table_free(&table);
    return status;
}

static void print_refusal_json(const schedule_args *args, const sc_err *why)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root != NULL && cJSON_AddStringToObject(root, "file", args->subject) != NULL &&
              cJSON_AddBoolToObject(root, "ok", false) != NULL &&
              cJSON_AddStringToObject(root, "error", why->text) != NULL;
    char *text = ok ? cJSON_Print(root) : NULL;
    if (text != NULL) {
        (void)puts(text);
        cJSON_free(text);
    }
    cJSON_Delete(root);
}

/* A file that breaks a rule is this command's answer, not its failure: exit code 1, and the line
   begins with the place as compilers write it. */
static int run_check(const schedule_args *args, sc_err *err)
{
    sc_table *table = NULL;
    sc_validate_report report;
    sc_status status = read_table(args, &table, &report, err);
    if (status == SC_INVALID || status == SC_LIMIT) {
        if (args->is_json) {
            print_refusal_json(args, err);
        }
        (void)fflush(stdout);
        (void)fprintf(stderr, "%s\n", err->text);
        return sc_status_exit_code(SC_FAILED);
    }
    if (status != SC_OK) {
        return sc_cmd_fail(err);
    }
    sc_scheduleview view = {.table = table, .report = &report, .file = args->subject};
    if (args->is_json) {
        status = sc_scheduleview_print_json(&view, err);
    } else {
        (void)printf("%s: ok\n", args->subject);
        sc_scheduleview_print_summary(&view);
        sc_scheduleview_print_report(&view);
    }
    sc_table_free(&table);
    return status == SC_OK ? 0 : sc_cmd_fail(err);
}

int sc_cmd_schedule_main(int argc, char **argv)
{
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "list\nshow NAME -p RANKS -m MICROBATCHES\ncheck FILE.csv\nsimulate FILE.csv",
        .doc = "List, draw, check and simulate pipeline schedules. FILE.csv is in PyTorch's "
               "format, one row of actions a rank; - is standard input.\v"
               "`check' exits with 1 and names line, column and what is wrong when the file breaks "
               "a rule.",
    };
    schedule_args args = {.costs = {1, 1, 1, 0}};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return sc_status_exit_code(SC_FAILED);
    }
    sc_err err = {0};
    sc_status status = SC_OK;
    switch (args.verb) {
    case LIST:
        status = run_list(&args, &err);
        break;
    case SHOW:
        status = run_show(&args, &err);
        break;
    case SIMULATE:
        status = run_simulate(&args, &err);
        break;
    case CHECK:
        return run_check(&args, &err);
    }
    return status == SC_OK ? 0 : sc_cmd_fail(&err);
}
