#include "cli/scheduleargs.h"

#include <argp.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_COSTS = 0x200,
    KEY_SVG,
    KEY_PNG,
    KEY_TRACE,
    KEY_CSV,
    KEY_PLAIN,
    KEY_JSON,
    KEY_LOWERED,
    KEY_LEGACY,
    KEY_WIDTH,
    KEY_GROUP,
    KEY_LIMIT,
    KEY_PROFILE,
    KEY_MEMORY_CAP,
    KEY_SORT,
    KEY_SWEEP,
    KEY_END,
    SWEEP_MAX = 1000 // sizes
};

enum {
    LIST = SC_SCHEDULEARGS_LIST,
    SHOW = SC_SCHEDULEARGS_SHOW,
    CHECK = SC_SCHEDULEARGS_CHECK,
    SIMULATE = SC_SCHEDULEARGS_SIMULATE,
    COMPARE = SC_SCHEDULEARGS_COMPARE
};

typedef struct parsing {
    sc_scheduleargs args;
    int first_key[COMPARE + 1]; // (verb) a key that was given and does not go with the verb
} parsing;

static const struct {
    const char *name;
    sc_scheduleargs_verb verb;
    const char *subject; // NULL: none
} VERBS[] = {
    {"list", SC_SCHEDULEARGS_LIST, NULL},
    {"show", SC_SCHEDULEARGS_SHOW, "NAME"},
    {"compare", SC_SCHEDULEARGS_COMPARE, NULL},
    {"check", SC_SCHEDULEARGS_CHECK, "FILE.csv"},
    {"simulate", SC_SCHEDULEARGS_SIMULATE, "FILE.csv"},
};

enum {
    N_VERBS = sizeof VERBS / sizeof VERBS[0]
};

static const struct argp_option OPTIONS[] = {
    {NULL, 'p', "RANKS", 0, "show, compare: pipeline ranks", 0},
    {NULL, 'm', "MICROBATCHES", 0, "show, compare: microbatches a step", 0},
    {NULL, 'v', "STAGES", 0,
     "show, compare: stages a rank, for schedules that have several (default: the schedule's own)",
     0},
    {"group", KEY_GROUP, "MICROBATCHES", 0,
     "show, compare: microbatches that pass a stage in a row, for `interleaved' (default: p)", 0},
    {"limit", KEY_LIMIT, "MICROBATCHES", 0,
     "show, compare: most activations a rank may hold, for `zb-auto' (default: p)", 0},
    {"costs", KEY_COSTS, "F,I,W,COMM", 0,
     "show, simulate, compare: times of one microbatch on one rank, and the latency of an edge "
     "between ranks (default 1,1,1,0)",
     0},
    {"profile", KEY_PROFILE, "RUN_DIR", 0,
     "compare: times of each stage, messages and sizes as a run measured them", 0},
    {"memory-cap", KEY_MEMORY_CAP, "MICROBATCHES", 0,
     "compare: leave out schedules that hold more activations than that on some rank", 0},
    {"sort", KEY_SORT, "cost|peak", 0, "compare: by what (default cost)", 0},
    {"sweep", KEY_SWEEP, "m=FROM..TO[:STEP]", 0,
     "compare: many sizes, as CSV and, with --svg or --png, as a chart; also p=...", 0},
    {"svg", KEY_SVG, "FILE", 0, "show, simulate, sweep: write the picture; - is standard output",
     0},
    {"png", KEY_PNG, "FILE", 0, "the same as PNG, by rsvg-convert", 0},
    {"trace", KEY_TRACE, "FILE", 0, "show, simulate: write a Chrome/Perfetto trace", 0},
    {"csv", KEY_CSV, "FILE", 0, "show: write the schedule; sweep: write the numbers", 0},
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
    case 'p':
    case 'm':
    case 'v':
    case KEY_GROUP:
    case KEY_LIMIT:
    case KEY_CSV:
        return SHOW | COMPARE;
    case KEY_COSTS:
    case KEY_SVG:
    case KEY_PNG:
        return SHOW | SIMULATE | COMPARE;
    case KEY_TRACE:
    case KEY_WIDTH:
        return SHOW | SIMULATE;
    case KEY_LEGACY:
        return CHECK | SIMULATE;
    case KEY_JSON:
        return LIST | SHOW | CHECK | SIMULATE | COMPARE;
    case KEY_PROFILE:
    case KEY_MEMORY_CAP:
    case KEY_SORT:
    case KEY_SWEEP:
        return COMPARE;
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

/* Microbatches: halves and the like are possible where a rank has several stages. */
static double take_amount(struct argp_state *state, const char *what, const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0) {
        argp_error(state, "%s: '%s' is not a number of microbatches above 0", what, text);
        return 1;
    }
    return value;
}

static void take_costs(struct argp_state *state, sc_scheduleargs *args, const char *text)
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
    args->has_costs = true;
}

/* Takes a number from 1 on and what follows it; false when there is none. */
static bool take_step(const char **at, const char *follows, int *out)
{
    char *end = NULL;
    long value = strtol(*at, &end, 10);
    size_t n = strlen(follows);
    if (end == *at || value < 1 || value > INT_MAX || strncmp(end, follows, n) != 0) {
        return false;
    }
    *at = end + n;
    *out = (int)value;
    return true;
}

static void take_sweep(struct argp_state *state, sc_scheduleargs *args, const char *text)
{
    sc_scheduleargs_sweep sweep = {.axis = text[0], .step = 1};
    const char *at = text + 2;
    bool is_sound = (sweep.axis == 'p' || sweep.axis == 'm') && text[1] == '=' &&
                    take_step(&at, "..", &sweep.from) && take_step(&at, "", &sweep.to);
    if (is_sound && *at == ':') {
        at++;
        is_sound = take_step(&at, "", &sweep.step);
    }
    if (!is_sound || *at != '\0' || sweep.to < sweep.from) {
        argp_error(state, "--sweep: '%s' is not m=FROM..TO or p=FROM..TO, as in m=8..64:8", text);
    } else if ((sweep.to - sweep.from) / sweep.step >= SWEEP_MAX) {
        argp_error(state, "--sweep: '%s' are more than %d sizes; give a step, as in m=8..64:8",
                   text, SWEEP_MAX);
    }
    args->sweep = sweep;
}

static void take_sort(struct argp_state *state, sc_scheduleargs *args, const char *text)
{
    args->is_by_peak = strcmp(text, "peak") == 0;
    args->has_sort = true;
    if (!args->is_by_peak && strcmp(text, "cost") != 0) {
        argp_error(state, "--sort: '%s' is neither cost nor peak", text);
    }
}

static void take_argument(struct argp_state *state, sc_scheduleargs *args, const char *text)
{
    if (args->verb == 0) {
        for (size_t i = 0; i < N_VERBS; i++) {
            if (strcmp(VERBS[i].name, text) == 0) {
                args->verb = VERBS[i].verb;
                return;
            }
        }
        argp_error(state, "unknown word '%s'; say list, show, compare, check or simulate", text);
        return;
    }
    for (size_t i = 0; i < N_VERBS; i++) {
        if (VERBS[i].verb == args->verb && VERBS[i].subject != NULL && args->subject == NULL) {
            args->subject = text;
            return;
        }
    }
    argp_error(state, "'%s' is left over", text);
}

static void check_sizes(struct argp_state *state, const char *verb, const sc_scheduleargs *args)
{
    char axis = args->sweep.axis;
    bool has_profile = args->profile != NULL;
    if (args->params.n_ranks == 0 && axis != 'p' && !has_profile) {
        argp_error(state, "%s needs the number of ranks, as in -p 4", verb);
    } else if (args->params.n_mb == 0 && axis != 'm' && !has_profile) {
        argp_error(state, "%s needs the number of microbatches, as in -m 8", verb);
    } else if ((axis == 'p' && args->params.n_ranks != 0) ||
               (axis == 'm' && args->params.n_mb != 0)) {
        argp_error(state, "-%c and --sweep %c=... say it twice; leave one out", axis, axis);
    }
}

static void check_compare(struct argp_state *state, const sc_scheduleargs *args)
{
    bool has_sweep = args->sweep.axis != 0;
    if (args->has_costs && args->profile != NULL) {
        argp_error(state, "--costs and --profile are two sources of the same; leave one out");
    } else if (!has_sweep && (args->svg != NULL || args->png != NULL || args->csv != NULL)) {
        argp_error(state, "compare draws and writes a sweep; add one, as in --sweep m=8..64:8");
    } else if (has_sweep && (args->is_json || args->has_sort)) {
        argp_error(state, "--sweep writes CSV: --json and --sort do not go with it");
    }
}

/* Everything there that the verb needs, and nothing that it would ignore. */
static void check_complete(struct argp_state *state, const parsing *parsed)
{
    const sc_scheduleargs *args = &parsed->args;
    if (args->verb == 0) {
        argp_error(state, "say list, show, compare, check or simulate");
        return;
    }
    size_t i = 0;
    while (VERBS[i].verb != args->verb) {
        i++;
    }
    int key = parsed->first_key[args->verb];
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
    } else if (args->is_plain && args->csv == NULL) {
        argp_error(state, "--plain is about the file of --csv, which is not given");
    }
    if (args->verb == SC_SCHEDULEARGS_SHOW || args->verb == SC_SCHEDULEARGS_COMPARE) {
        check_sizes(state, VERBS[i].name, args);
    }
    if (args->verb == SC_SCHEDULEARGS_COMPARE) {
        check_compare(state, args);
    }
}

/* Options without a value of a type of their own. */
static void take_plain_option(sc_scheduleargs *args, int key, const char *arg)
{
    switch (key) {
    case KEY_SVG:
        args->svg = arg;
        break;
    case KEY_PNG:
        args->png = arg;
        break;
    case KEY_TRACE:
        args->trace = arg;
        break;
    case KEY_CSV:
        args->csv = arg;
        break;
    case KEY_PROFILE:
        args->profile = arg;
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

static void take_option(struct argp_state *state, sc_scheduleargs *args, int key, const char *arg)
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
    case KEY_GROUP:
        args->params.group = take_number(state, "--group", arg);
        break;
    case KEY_LIMIT:
        args->params.limit_mb = take_amount(state, "--limit", arg);
        break;
    case KEY_MEMORY_CAP:
        args->memory_cap = take_amount(state, "--memory-cap", arg);
        break;
    case KEY_WIDTH:
        args->width = take_number(state, "--width", arg);
        break;
    case KEY_COSTS:
        take_costs(state, args, arg);
        break;
    case KEY_SORT:
        take_sort(state, args, arg);
        break;
    case KEY_SWEEP:
        take_sweep(state, args, arg);
        break;
    default:
        take_plain_option(args, key, arg);
        break;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    parsing *parsed = state->input;
    if (key == ARGP_KEY_ARG) {
        take_argument(state, &parsed->args, arg);
        return 0;
    }
    if (key == ARGP_KEY_END) {
        check_complete(state, parsed);
        return 0;
    }
    bool is_ours = key == 'p' || key == 'm' || key == 'v' || (key >= KEY_COSTS && key < KEY_END);
    if (!is_ours) {
        return ARGP_ERR_UNKNOWN;
    }
    for (size_t i = 0; i < N_VERBS; i++) {
        int verb = (int)VERBS[i].verb;
        if ((verbs_of(key) & verb) == 0 && parsed->first_key[verb] == 0) {
            parsed->first_key[verb] = key;
        }
    }
    take_option(state, &parsed->args, key, arg);
    return 0;
}

bool sc_scheduleargs_parse(int argc, char **argv, sc_scheduleargs *out)
{
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "list\nshow NAME -p RANKS -m MICROBATCHES\ncompare -p RANKS -m MICROBATCHES\n"
                    "check FILE.csv\nsimulate FILE.csv",
        .doc = "List, draw, compare, check and simulate pipeline schedules. FILE.csv is in "
               "PyTorch's format, one row of actions a rank; - is standard input.\v"
               "`check' exits with 1 and names line, column and what is wrong when the file breaks "
               "a rule. `compare' simulates every schedule that fits, with the same costs.",
    };
    parsing parsed = {.args = {.costs = {1, 1, 1, 0}}};
    if (argp_parse(&argp, argc, argv, 0, NULL, &parsed) != 0) {
        return false;
    }
    *out = parsed.args;
    return true;
}

bool sc_scheduleargs_is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}
