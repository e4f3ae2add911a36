#include "coordinator/autoplan.h"

#include "coordinator/planner_format.h"
#include "schedules/text.h"

#include <stdio.h>
#include <string.h>

enum {
    NAME_TEXT = 64
};

#define NS_PER_MS 1e6

/* "interleaved v 2", "zb-auto limit 6": what tells entries of one schedule apart. */
static const char *name_text(const sc_autoplan_entry *entry, char out[NAME_TEXT])
{
    if (entry->limit_mb > 0) {
        (void)snprintf(out, NAME_TEXT, "%.32s limit %g", entry->schedule, entry->limit_mb);
    } else if (entry->n_chunks > 1) {
        (void)snprintf(out, NAME_TEXT, "%.32s v %d", entry->schedule, entry->n_chunks);
    } else {
        (void)snprintf(out, NAME_TEXT, "%.32s", entry->schedule);
    }
    return out;
}

static const char *verdict_text(const sc_autoplan *list, int i)
{
    switch (list->entries[i].verdict) {
    case SC_AUTOPLAN_FITS:
        return i == list->chosen ? "chosen" : "fits";
    case SC_AUTOPLAN_OVER_CAP:
        return "over the memory cap";
    case SC_AUTOPLAN_NO_ROOM:
        return "no room beside the measured plan while weights move";
    case SC_AUTOPLAN_UNORDERED:
        return "adds weight gradients in another order";
    case SC_AUTOPLAN_REFUSED:
        break;
    }
    return list->entries[i].reason;
}

static void add_entry(const sc_autoplan *list, int i, sc_text *text)
{
    const sc_autoplan_entry *entry = &list->entries[i];
    char name[NAME_TEXT];
    char memory[SC_PLANNER_FORMAT_SIZE_MAX];
    name_text(entry, name);
    if (entry->verdict == SC_AUTOPLAN_REFUSED) {
        sc_text_add(text, "%-22s  %10s  %7s  %10s  %s\n", name, "-", "-", "-",
                    verdict_text(list, i));
        return;
    }
    sc_text_add(text, "%-22s  %10.3f  %5.1f %%  %10s  %s%s%s\n", name, entry->step_ns / NS_PER_MS,
                100 * entry->bubble, sc_planner_format_size(entry->peak_bytes, memory),
                verdict_text(list, i), entry->is_measured ? ", measured" : "",
                entry->is_same_layout ? "" : ", moves weights");
}

/* The fastest that is left out although it would be faster than the chosen one; NULL: none. */
static const sc_autoplan_entry *faster(const sc_autoplan *list)
{
    const sc_autoplan_entry *first = &list->entries[0];
    return list->chosen > 0 && first->step_ns < list->entries[list->chosen].step_ns ? first : NULL;
}

/* What the choice is compared with: what was measured, else the next that fits. */
static const sc_autoplan_entry *rival(const sc_autoplan *list)
{
    if (list->measured != SC_AUTOPLAN_NONE && list->measured != list->chosen) {
        return &list->entries[list->measured];
    }
    for (int i = list->chosen + 1; i < list->n_entries; i++) {
        if (list->entries[i].verdict == SC_AUTOPLAN_FITS) {
            return &list->entries[i];
        }
    }
    return NULL;
}

static void add_left_out(const sc_autoplan *list, const sc_autoplan_entry *entry, sc_text *text)
{
    char name[NAME_TEXT];
    char memory[SC_PLANNER_FORMAT_SIZE_MAX];
    sc_text_add(text, "; %s would take %.3f ms, but ", name_text(entry, name),
                entry->step_ns / NS_PER_MS);
    if (entry->verdict == SC_AUTOPLAN_UNORDERED) {
        sc_text_add(text, "changes the bits of the loss");
        return;
    }
    sc_text_add(text, "%s %s a rank%s, over the cap of %g GiB",
                entry->verdict == SC_AUTOPLAN_NO_ROOM ? "needs" : "takes",
                sc_planner_format_size(entry->peak_bytes, memory),
                entry->verdict == SC_AUTOPLAN_NO_ROOM ? " beside the measured plan" : "",
                list->job->peak_memory_gib);
}

static void add_why(const sc_autoplan *list, sc_text *text)
{
    char name[NAME_TEXT];
    char other[NAME_TEXT];
    if (list->chosen == SC_AUTOPLAN_NONE) {
        sc_text_add(text, "no schedule fits memory.cap_gib %g", list->job->peak_memory_gib);
        return;
    }
    const sc_autoplan_entry *best = &list->entries[list->chosen];
    const sc_autoplan_entry *next = rival(list);
    const sc_autoplan_entry *out = faster(list);
    sc_text_add(text, "%s is fastest that fits: %.3f ms", name_text(best, name),
                best->step_ns / NS_PER_MS);
    if (next != NULL) {
        sc_text_add(text, " against %.3f ms of %s", next->step_ns / NS_PER_MS,
                    name_text(next, other));
    }
    if (out != NULL) {
        add_left_out(list, out, text);
    }
}

sc_status sc_autoplan_format_why(const sc_autoplan *autoplan, char **out, sc_err *err)
{
    sc_text text = {0};
    add_why(autoplan, &text);
    return sc_text_take(&text, out, err);
}

sc_status sc_autoplan_format(const sc_autoplan *autoplan, char **out, sc_err *err)
{
    sc_text text = {0};
    sc_text_add(&text, "%-22s  %10s  %7s  %10s  %s\n", "schedule", "step ms", "bubble", "memory",
                "verdict");
    for (int i = 0; i < autoplan->n_entries; i++) {
        add_entry(autoplan, i, &text);
    }
    add_why(autoplan, &text);
    sc_text_add(&text, "\nstep: simulated from measured costs, without the tail; memory: planned, "
                       "of the rank that needs most\n");
    return sc_text_take(&text, out, err);
}
