#include "coordinator/bubble_report.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double NS_PER_MS = 1e6;

enum {
    CELL_WIDTH = 8,   // of numbers; wider where the cause's name is
    LABEL_WIDTH = 12, // "rank 12  ms"
    LINE_BYTES = 512
};

/* --- text --- */

typedef struct text {
    char *bytes;
    size_t n;
    size_t capacity;
} text;

static void append(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The capacity was counted beforehand; a text over it is our own bug. */
static void append(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->bytes + t->n, t->capacity - t->n, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < t->capacity - t->n);
    t->n += (size_t)n;
}

/* The cause's column: transfer has none when it cannot be told from waiting. */
static bool has_column(int cause, bool is_merged)
{
    return cause != SC_CAUSE_TRANSFER || !is_merged;
}

static const char *column_text(int cause, bool is_merged)
{
    return cause == SC_CAUSE_WAIT && is_merged ? "wait+transfer"
                                               : sc_bubble_cause_text((sc_cause)cause);
}

static int cell_width(int cause, bool is_merged)
{
    int n = (int)strlen(column_text(cause, is_merged));
    return 2 + (n > CELL_WIDTH ? n : CELL_WIDTH);
}

static int64_t cell_ns(const sc_bubble_split *split, int cause, bool is_merged)
{
    int64_t ns = split->ns[cause];
    return cause == SC_CAUSE_WAIT && is_merged ? ns + split->ns[SC_CAUSE_TRANSFER] : ns;
}

static void append_head(text *t, bool is_merged)
{
    append(t, "%-*s", LABEL_WIDTH, "");
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        if (has_column(c, is_merged)) {
            append(t, "%*s", cell_width(c, is_merged), column_text(c, is_merged));
        }
    }
    append(t, "%*s\n", 2 + CELL_WIDTH, "window");
}

static double share(int64_t part_ns, int64_t whole_ns)
{
    return whole_ns == 0 ? 0 : 100 * (double)part_ns / (double)whole_ns;
}

/* Two lines: milliseconds and their share. */
static void append_split(text *t, const char *who, const sc_bubble_split *split, bool is_merged)
{
    append(t, "%-*s%3s", LABEL_WIDTH - 3, who, "ms");
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        if (has_column(c, is_merged)) {
            append(t, "%*.2f", cell_width(c, is_merged),
                   (double)cell_ns(split, c, is_merged) / NS_PER_MS);
        }
    }
    append(t, "%*.2f\n%*s", 2 + CELL_WIDTH, (double)split->window_ns / NS_PER_MS, LABEL_WIDTH, "%");
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        if (has_column(c, is_merged)) {
            append(t, "%*.1f", cell_width(c, is_merged),
                   share(cell_ns(split, c, is_merged), split->window_ns));
        }
    }
    append(t, "%*.1f\n", 2 + CELL_WIDTH, share(split->window_ns, split->window_ns));
}

static void append_bubble(text *t, const sc_bubble_result *result, double closed_form)
{
    append(t, "bubble: measured %.1f %% (%.1f to %.1f), simulated %.1f %%", 100 * result->measured,
           100 * result->measured_min, 100 * result->measured_max, 100 * result->simulated);
    if (isnan(closed_form)) {
        append(t, ", no closed form");
    } else {
        append(t, ", closed form %.1f %%", 100 * closed_form);
    }
    append(t, " (idle / cost, as Zero Bubble)\n");
    append(t, "        %.1f %% measured, %.1f %% simulated as idle / ideal (Megatron-LM); ",
           100 * result->measured_over_ideal, 100 * result->simulated_over_ideal);
    append(t, "%.1f %%, %.1f %% as idle / makespan (GPipe)\n", 100 * result->measured_over_makespan,
           100 * result->simulated_over_makespan);
    append(t, "over %d steps after the warm-up; simulated with the costs of other steps\n",
           result->n_steps);
}

static void append_clocks(text *t, int64_t clock_error_ns)
{
    if (clock_error_ns < 0) {
        append(t, "clocks of the hosts are not aligned yet\n");
    } else if (clock_error_ns > 0) {
        append(t, "clocks of the hosts agree within %.3f ms\n", (double)clock_error_ns / NS_PER_MS);
    }
    append(t, "\n");
}

sc_status sc_bubble_report_format(const sc_bubble_result *result, int n_ranks, double closed_form,
                                  int64_t clock_error_ns, char **out, sc_err *err)
{
    size_t capacity = ((size_t)n_ranks + 6) * 2 * LINE_BYTES;
    text t = {.bytes = malloc(capacity), .capacity = capacity};
    if (t.bytes == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "bubble table of %d ranks: out of memory",
                              n_ranks);
    }
    bool is_merged =
        clock_error_ns != 0 && (clock_error_ns < 0 || (double)clock_error_ns > result->comm_ns);
    append_bubble(&t, result, closed_form);
    append_clocks(&t, clock_error_ns);
    append(&t, "time of step %llu by cause\n", (unsigned long long)result->median_step);
    append_head(&t, is_merged);
    for (int r = 0; r < n_ranks; r++) {
        char who[32];
        snprintf(who, sizeof who, "rank %d", r);
        append_split(&t, who, &result->ranks[r], is_merged);
    }
    append_split(&t, "mean", &result->total, is_merged);
    *out = t.bytes;
    return SC_OK;
}

/* --- JSON --- */

static bool add_ms(cJSON *object, const char *name, double ns)
{
    return cJSON_AddNumberToObject(object, name, ns / NS_PER_MS) != NULL;
}

cJSON *sc_bubble_report_causes(const sc_bubble_split *split)
{
    cJSON *causes = cJSON_CreateObject();
    bool is_made = causes != NULL;
    for (int c = 0; is_made && c < SC_CAUSE_COUNT; c++) {
        is_made = add_ms(causes, sc_bubble_cause_text((sc_cause)c), (double)split->ns[c]);
    }
    if (!is_made) {
        cJSON_Delete(causes);
        causes = NULL;
    }
    return causes;
}

static bool add_causes(cJSON *object, const sc_bubble_split *split)
{
    cJSON *causes = sc_bubble_report_causes(split);
    if (causes == NULL || !cJSON_AddItemToObject(object, "causes_ms", causes)) {
        cJSON_Delete(causes);
        return false;
    }
    return true;
}

static bool add_bubble(cJSON *object, const sc_bubble_result *result, double closed_form)
{
    cJSON *bubble = cJSON_AddObjectToObject(object, "bubble");
    return bubble != NULL &&
           cJSON_AddNumberToObject(bubble, "measured", result->measured) != NULL &&
           cJSON_AddNumberToObject(bubble, "measured_min", result->measured_min) != NULL &&
           cJSON_AddNumberToObject(bubble, "measured_max", result->measured_max) != NULL &&
           cJSON_AddNumberToObject(bubble, "simulated", result->simulated) != NULL &&
           cJSON_AddNumberToObject(bubble, "measured_over_ideal", result->measured_over_ideal) !=
               NULL &&
           cJSON_AddNumberToObject(bubble, "simulated_over_ideal", result->simulated_over_ideal) !=
               NULL &&
           cJSON_AddNumberToObject(bubble, "measured_over_makespan",
                                   result->measured_over_makespan) != NULL &&
           cJSON_AddNumberToObject(bubble, "simulated_over_makespan",
                                   result->simulated_over_makespan) != NULL &&
           // cJSON writes NAN as null
           cJSON_AddNumberToObject(bubble, "closed_form", closed_form) != NULL;
}

/* A new object at the end of the array; NULL when out of memory. */
static cJSON *append_object(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    if (object == NULL || !cJSON_AddItemToArray(array, object)) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

static bool add_ranks(cJSON *object, const sc_bubble_result *result, int n_ranks)
{
    cJSON *ranks = cJSON_AddArrayToObject(object, "ranks");
    bool is_made = ranks != NULL;
    for (int r = 0; is_made && r < n_ranks; r++) {
        cJSON *rank = append_object(ranks);
        is_made = rank != NULL && cJSON_AddNumberToObject(rank, "rank", r) != NULL &&
                  add_ms(rank, "window_ms", (double)result->ranks[r].window_ns) &&
                  add_causes(rank, &result->ranks[r]);
    }
    return is_made;
}

static bool add_stages(cJSON *object, const sc_bubble_result *result, int n_stages)
{
    cJSON *stages = cJSON_AddArrayToObject(object, "stages");
    bool is_made = stages != NULL;
    for (int s = 0; is_made && s < n_stages; s++) {
        cJSON *stage = append_object(stages);
        is_made = stage != NULL && cJSON_AddNumberToObject(stage, "stage", s) != NULL &&
                  add_ms(stage, "f_ms", result->costs[s].f) &&
                  add_ms(stage, "i_ms", result->costs[s].i) &&
                  add_ms(stage, "w_ms", result->costs[s].w);
    }
    return is_made;
}

sc_status sc_bubble_report_add_json(const sc_bubble_result *result, int n_ranks, int n_stages,
                                    double closed_form, cJSON *object, sc_err *err)
{
    bool is_made = add_bubble(object, result, closed_form) && add_causes(object, &result->total) &&
                   add_ranks(object, result, n_ranks) && add_stages(object, result, n_stages) &&
                   add_ms(object, "comm_ms", result->comm_ns) &&
                   cJSON_AddNumberToObject(object, "executor_us_per_action",
                                           (double)result->executor_ns_per_action / 1e3) != NULL;
    return is_made ? SC_OK : sc_status_fail(err, SC_NO_MEMORY, "bubble's JSON: out of memory");
}
