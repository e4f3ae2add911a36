#include "cli/cmd.h"
#include "cli/scheduleargs.h"
#include "cli/schedulecompare.h"
#include "schedules/csv.h"
#include "schedules/gen.h"
#include "schedules/lower.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    WIDTH_DEFAULT = 100
};

static sc_status print_list_json(const sc_gen_info *list, size_t n, sc_err *err)
{
    cJSON *root = cJSON_CreateArray();
    bool ok = root != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        cJSON *entry = cJSON_CreateObject();
        ok = entry != NULL && cJSON_AddItemToArray(root, entry) &&
             cJSON_AddStringToObject(entry, "name", list[i].name) != NULL &&
             cJSON_AddStringToObject(entry, "summary", list[i].summary) != NULL &&
             cJSON_AddStringToObject(entry, "constraints", list[i].constraints) != NULL &&
             cJSON_AddNumberToObject(entry, "default_v", list[i].default_chunks) != NULL &&
             cJSON_AddBoolToObject(entry, "split", list[i].has_split) != NULL &&
             cJSON_AddBoolToObject(entry, "replicated", list[i].is_replicated) != NULL;
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

static sc_status run_list(const sc_scheduleargs *args, sc_err *err)
{
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    if (args->is_json) {
        return print_list_json(list, n, err);
    }
    int width = 0;
    for (size_t i = 0; i < n; i++) {
        int length = (int)strlen(list[i].name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < n; i++) {
        (void)printf("%-*s  %s\n%*s  %s%s%s\n", width, list[i].name, list[i].summary, width, "",
                     list[i].constraints, list[i].has_split ? "; splits B into I and W" : "",
                     list[i].is_replicated
                         ? "; parameters on two ranks: simulated and checked, not run"
                         : "");
    }
    return SC_OK;
}

/* The terminal's width, or a fixed one in a pipe. */
static int find_width(const sc_scheduleargs *args)
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

static sc_status write_csv(const sc_scheduleargs *args, const sc_table *table, sc_err *err)
{
    char *text = NULL;
    SC_TRY(sc_csv_write(table, !args->is_plain, &text, err));
    sc_status status = sc_cmd_write_file(args->csv, text, strlen(text), err);
    free(text);
    return status;
}

/* The files that were asked for; then the picture or the numbers, unless a file took stdout. */
static sc_status present(const sc_scheduleargs *args, const sc_scheduleview *view,
                         const sc_table *lowered, sc_err *err)
{
    if (args->svg != NULL) {
        SC_TRY(sc_scheduleview_write_svg(view, args->svg, err));
    }
    if (args->png != NULL) {
        SC_TRY(sc_scheduleview_write_png(view, args->png, err));
    }
    if (args->trace != NULL) {
        SC_TRY(sc_scheduleview_write_trace(view, args->trace, err));
    }
    if (args->csv != NULL) {
        SC_TRY(write_csv(args, lowered != NULL ? lowered : view->table, err));
    }
    if (sc_scheduleargs_is_stdout(args->svg) || sc_scheduleargs_is_stdout(args->png) ||
        sc_scheduleargs_is_stdout(args->trace) || sc_scheduleargs_is_stdout(args->csv)) {
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
static sc_status present_table(const sc_scheduleargs *args, const sc_table *table,
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
                            .file = args->verb == SC_SCHEDULEARGS_SHOW ? NULL : args->subject};
    SC_GOTO(present(args, &view, lowered, err));
out:
    sc_table_free(&lowered);
    sc_simulate_free(&timeline);
    free(costs);
    return status;
}

static sc_status run_show(const sc_scheduleargs *args, sc_err *err)
{
    sc_status status = SC_OK;
    sc_table *table = NULL;
    sc_validate_report report;
    sc_gen_params params = args->params;
    params.f = args->costs.f;
    params.i = args->costs.i;
    params.w = args->costs.w;
    params.comm = args->costs.comm;
    SC_GOTO(sc_gen_make(args->subject, &params, &table, err));
    SC_GOTO(sc_validate_table(table, NULL, &report, err));
    SC_GOTO(present_table(args, table, &report, err));
out:
    sc_table_free(&table);
    return status;
}

static sc_status read_table(const sc_scheduleargs *args, sc_table **out, sc_validate_report *report,
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

static sc_status run_simulate(const sc_scheduleargs *args, sc_err *err)
{
    sc_table *table = NULL;
    sc_validate_report report;
    SC_TRY(read_table(args, &table, &report, err));
    sc_status status = present_table(args, table, &report, err);
    sc_table_free(&table);
    return status;
}

static void print_refusal_json(const sc_scheduleargs *args, const sc_err *why)
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
static int run_check(const sc_scheduleargs *args, sc_err *err)
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
        status = sc_scheduleview_print_report(&view, err);
    }
    sc_table_free(&table);
    return status == SC_OK ? 0 : sc_cmd_fail(err);
}

int sc_cmd_schedule_main(int argc, char **argv)
{
    sc_scheduleargs args;
    if (!sc_scheduleargs_parse(argc, argv, &args)) {
        return sc_status_exit_code(SC_FAILED);
    }
    sc_err err = {0};
    sc_status status = SC_OK;
    switch (args.verb) {
    case SC_SCHEDULEARGS_LIST:
        status = run_list(&args, &err);
        break;
    case SC_SCHEDULEARGS_SHOW:
        status = run_show(&args, &err);
        break;
    case SC_SCHEDULEARGS_SIMULATE:
        status = run_simulate(&args, &err);
        break;
    case SC_SCHEDULEARGS_COMPARE:
        status = sc_schedulecompare_run(&args, &err);
        break;
    case SC_SCHEDULEARGS_CHECK:
        return run_check(&args, &err);
    }
    return status == SC_OK ? 0 : sc_cmd_fail(&err);
}
