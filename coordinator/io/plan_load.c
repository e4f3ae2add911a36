/*
 * plan_load - a schedule as a job or a swap names it -> plan; the one place that opens a schedule's
 * file.
 */
#include "coordinator/planner.h"
#include "schedules/csv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 1 << 16 // first piece of a file that is read
};

/* The schedule that "auto" measures with. */
static const char MEASURING[] = "1f1b";

/* Reads an open file to its end, growing by doubling. */
static sc_status read_all(FILE *file, const char *path, char **text, size_t *n_out, sc_err *err)
{
    size_t capacity = 0;
    size_t n = 0;
    errno = 0;
    while (n == capacity) {
        capacity = capacity == 0 ? CHUNK_BYTES : 2 * capacity;
        char *grown = realloc(*text, capacity);
        if (grown == NULL) {
            return sc_status_fail(err, SC_NO_MEMORY, "no memory for %s", path);
        }
        *text = grown;
        n += fread(*text + n, 1, capacity - n, file);
        if (ferror(file)) {
            return sc_status_errno(err, errno, "%s: cannot read the schedule", path);
        }
        if (n > SC_CSV_BYTES_MAX) {
            return sc_status_fail(err, SC_LIMIT, "%s: over %d bytes, more than a schedule may have",
                                  path, SC_CSV_BYTES_MAX);
        }
    }
    *n_out = n;
    return SC_OK;
}

static sc_status read_table(const char *path, sc_table **out, sc_err *err)
{
    sc_status status = SC_OK;
    char *text = NULL;
    size_t n = 0;
    const sc_csv_options options = {.path = path};
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return sc_status_errno(err, errno, "%s: cannot open the schedule", path);
    }
    SC_GOTO(read_all(file, path, &text, &n, err));
    SC_GOTO(sc_csv_read(text, n, &options, out, NULL, err));
out:
    free(text);
    (void)fclose(file);
    return status;
}

/* Another schedule than the job's own may not take the job's number of stages a rank; its default
   serves then. */
static sc_status plan_name(const sc_job *job, sc_plan_request *request, sc_plan **out, sc_err *err)
{
    const sc_gen_info *info = sc_gen_find(request->schedule);
    sc_status status = sc_planner_make(job, request, out, err);
    if (status != SC_INVALID || info == NULL || job->virtual_stages == 0 ||
        job->virtual_stages == info->default_chunks ||
        strcmp(request->schedule, job->schedule) == 0) {
        return status;
    }
    request->n_chunks = info->default_chunks;
    return sc_planner_make(job, request, out, err);
}

sc_status sc_plan_load(const sc_job *job, const char *schedule, const sc_plan_costs *costs,
                       sc_plan **out, sc_err *err)
{
    sc_plan_request request = {.schedule = schedule};
    const char *path = sc_job_schedule_path(schedule);
    if (costs != NULL) {
        request.costs = *costs;
    }
    if (path == NULL) {
        if (strcmp(schedule, SC_JOB_SCHEDULE_AUTO) == 0) {
            request.schedule = MEASURING;
        }
        return plan_name(job, &request, out, err);
    }
    sc_table *table = NULL;
    SC_TRY(read_table(path, &table, err));
    request.given = table;
    sc_status status = sc_planner_make(job, &request, out, err);
    sc_table_free(&table);
    return status;
}
