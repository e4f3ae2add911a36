#include "cli/standings.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    CELL_MAX = 48,
    COLUMNS_MAX = 12,
    GAP = 2 // spaces between columns
};

typedef struct line {
    char cells[COLUMNS_MAX][CELL_MAX];
    int n_cells;
} line;

__attribute__((format(printf, 2, 3))) static void add_cell(line *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(to->cells[to->n_cells++], CELL_MAX, format, args);
    va_end(args);
}

static line make_head(bool has_bytes)
{
    line head = {.n_cells = 0};
    add_cell(&head, "schedule");
    add_cell(&head, "v");
    add_cell(&head, "%s", has_bytes ? "cost ms" : "cost");
    add_cell(&head, "bubble");
    add_cell(&head, "idle/total");
    add_cell(&head, "idle/ideal");
    add_cell(&head, "peak mb");
    add_cell(&head, "messages");
    if (has_bytes) {
        add_cell(&head, "MiB sent");
    }
    add_cell(&head, "W ordered");
    add_cell(&head, "blocking-safe");
    return head;
}

/* Marks costs that are not each stage's own. */
static const char *mark_of(const sc_contest_entry *entry)
{
    switch (entry->fit) {
    case SC_SCHEDULEPROFILE_BY_RANK:
        return "*";
    case SC_SCHEDULEPROFILE_EVENLY:
        return "**";
    default:
        return "";
    }
}

static line make_line(const sc_contest_entry *entry, bool has_bytes)
{
    line out = {.n_cells = 0};
    add_cell(&out, "%s%s", entry->info->name, entry->info->is_replicated ? " +" : "");
    add_cell(&out, "%.4g", entry->v);
    add_cell(&out, "%.6g%s", entry->cost, mark_of(entry));
    add_cell(&out, "%.2f %%", 100 * entry->bubbles.of_cost);
    add_cell(&out, "%.2f %%", 100 * entry->bubbles.of_total);
    add_cell(&out, "%.2f %%", 100 * entry->bubbles.of_ideal);
    add_cell(&out, "%.4g", entry->peak);
    add_cell(&out, "%zu", entry->n_messages);
    if (has_bytes) {
        add_cell(&out, "%.2f", entry->bytes / (1024.0 * 1024.0));
    }
    add_cell(&out, "%s", entry->has_ordered_w ? "yes" : "no");
    add_cell(&out, "%s", entry->is_blocking_deadlock ? "no" : "yes");
    return out;
}

static void widen(int *widths, const line *from)
{
    for (int c = 0; c < from->n_cells; c++) {
        int length = (int)strlen(from->cells[c]);
        widths[c] = length > widths[c] ? length : widths[c];
    }
}

/* The first column to the left, the others to the right. */
static void print_line(const int *widths, const line *from)
{
    (void)printf("%-*s", widths[0], from->cells[0]);
    for (int c = 1; c < from->n_cells; c++) {
        (void)printf("%*s", widths[c] + GAP, from->cells[c]);
    }
    (void)putchar('\n');
}

static void print_title(const sc_contest_rules *rules, const char *run)
{
    (void)printf("p %d, m %d, ", rules->params.n_ranks, rules->params.n_mb);
    const sc_scheduleprofile *profile = rules->profile;
    if (profile != NULL) {
        (void)printf("times measured by %s (%s, p %d, %d stages, m %d), edge %.6g ms", run,
                     profile->schedule, profile->n_ranks, profile->n_stages, profile->n_mb,
                     profile->comm_ms);
    } else {
        (void)printf("F,I,W,COMM = %.6g,%.6g,%.6g,%.6g", rules->costs.f, rules->costs.i,
                     rules->costs.w, rules->costs.comm);
    }
    if (rules->memory_cap > 0) {
        (void)printf(", at most %.4g microbatches a rank", rules->memory_cap);
    }
    (void)printf("\n\n");
}

static bool has_fit(const sc_contest *contest, sc_scheduleprofile_fit fit)
{
    for (size_t i = 0; i < contest->n_fit; i++) {
        if (contest->entries[i].fit == fit) {
            return true;
        }
    }
    return false;
}

static bool has_replicated(const sc_contest *contest)
{
    for (size_t i = 0; i < contest->n_fit; i++) {
        if (contest->entries[i].info->is_replicated) {
            return true;
        }
    }
    return false;
}

static void print_notes(const sc_contest *contest)
{
    (void)printf("\nbubble is (cost - ideal) / cost, Zero Bubble's; idle/total is GPipe's and "
                 "idle/ideal Megatron-LM's, both over the makespan.\n");
    if (has_replicated(contest)) {
        (void)printf("+  parameters on two ranks: simulated and checked, not run.\n");
    }
    if (has_fit(contest, SC_SCHEDULEPROFILE_BY_RANK)) {
        (void)printf("*  not the run's number of stages: a rank's times, split evenly over its "
                     "stages.\n");
    }
    if (has_fit(contest, SC_SCHEDULEPROFILE_EVENLY)) {
        (void)printf("** not the run's number of ranks or stages: the model's times, split evenly "
                     "over all stages.\n");
    }
    if (contest->n_fit < contest->n_entries) {
        (void)printf("\nleft out:\n");
    }
    for (size_t i = contest->n_fit; i < contest->n_entries; i++) {
        (void)printf("  %s\n", contest->entries[i].why.text);
    }
}

void sc_standings_print(const sc_contest *contest, const sc_contest_rules *rules, const char *run)
{
    bool has_bytes = rules->profile != NULL;
    int widths[COLUMNS_MAX] = {0};
    line head = make_head(has_bytes);
    widen(widths, &head);
    for (size_t i = 0; i < contest->n_fit; i++) {
        line entry = make_line(&contest->entries[i], has_bytes);
        widen(widths, &entry);
    }
    print_title(rules, run);
    print_line(widths, &head);
    for (size_t i = 0; i < contest->n_fit; i++) {
        line entry = make_line(&contest->entries[i], has_bytes);
        print_line(widths, &entry);
    }
    print_notes(contest);
}

static bool add(cJSON *object, const char *key, double value)
{
    return cJSON_AddNumberToObject(object, key, value) != NULL;
}

/* A new object at the end of the array; NULL when out of memory. */
static cJSON *append(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    if (object == NULL || !cJSON_AddItemToArray(array, object)) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

static const char *fit_text(sc_scheduleprofile_fit fit)
{
    switch (fit) {
    case SC_SCHEDULEPROFILE_BY_RANK:
        return "rank";
    case SC_SCHEDULEPROFILE_EVENLY:
        return "model";
    default:
        return "stage";
    }
}

static bool fill_entry(const sc_contest_entry *entry, bool has_profile, cJSON *object)
{
    bool ok = cJSON_AddStringToObject(object, "name", entry->info->name) != NULL;
    if (!entry->is_fit) {
        return ok && cJSON_AddStringToObject(object, "reason", entry->why.text) != NULL;
    }
    ok = ok && add(object, "v", entry->v) && add(object, "cost", entry->cost) &&
         add(object, "makespan", entry->makespan) && add(object, "ideal", entry->ideal) &&
         add(object, "bubble", entry->bubbles.of_cost);
    cJSON *bubbles = cJSON_AddObjectToObject(object, "bubbles");
    ok = ok && bubbles != NULL && add(bubbles, "zero_bubble", entry->bubbles.of_cost) &&
         add(bubbles, "gpipe", entry->bubbles.of_total) &&
         add(bubbles, "megatron", entry->bubbles.of_ideal) && add(object, "peak", entry->peak) &&
         add(object, "messages", (double)entry->n_messages);
    if (has_profile) {
        ok = ok && add(object, "bytes", entry->bytes) &&
             cJSON_AddStringToObject(object, "costs_of", fit_text(entry->fit)) != NULL;
    }
    return ok && cJSON_AddBoolToObject(object, "ordered_w", entry->has_ordered_w) != NULL &&
           cJSON_AddBoolToObject(object, "blocking_deadlock", entry->is_blocking_deadlock) !=
               NULL &&
           cJSON_AddBoolToObject(object, "replicated", entry->info->is_replicated) != NULL;
}

static bool fill_head(const sc_contest_rules *rules, const char *run, cJSON *root)
{
    bool ok = add(root, "p", rules->params.n_ranks) && add(root, "m", rules->params.n_mb);
    if (rules->memory_cap > 0) {
        ok = ok && add(root, "memory_cap", rules->memory_cap);
    }
    if (run != NULL) {
        return ok && cJSON_AddStringToObject(root, "profile", run) != NULL;
    }
    cJSON *costs = cJSON_AddObjectToObject(root, "costs");
    return ok && costs != NULL && add(costs, "f", rules->costs.f) &&
           add(costs, "i", rules->costs.i) && add(costs, "w", rules->costs.w) &&
           add(costs, "comm", rules->costs.comm);
}

sc_status sc_standings_print_json(const sc_contest *contest, const sc_contest_rules *rules,
                                  const char *run, sc_err *err)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root != NULL && fill_head(rules, run, root);
    cJSON *fit = cJSON_AddArrayToObject(root, "schedules");
    cJSON *refused = cJSON_AddArrayToObject(root, "refused");
    ok = ok && fit != NULL && refused != NULL;
    for (size_t i = 0; ok && i < contest->n_entries; i++) {
        const sc_contest_entry *entry = &contest->entries[i];
        cJSON *object = append(entry->is_fit ? fit : refused);
        ok = object != NULL && fill_entry(entry, rules->profile != NULL, object);
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
