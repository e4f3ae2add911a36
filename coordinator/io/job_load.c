/*
 * job_load - the one place that opens a job file.
 */
#include "coordinator/job.h"
#include "coordinator/job_yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads a whole file of at most SC_JOB_YAML_BYTES_MAX bytes. */
static sc_status read_file(const char *path, char **out, size_t *n_out, sc_err *err)
{
    sc_status status = SC_OK;
    char *text = NULL;
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return sc_status_errno(err, errno, "%s: cannot open the job file", path);
    }
    text = malloc(SC_JOB_YAML_BYTES_MAX + 1);
    if (text == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "no memory for %s", path);
        goto out;
    }
    errno = 0;
    size_t n = fread(text, 1, SC_JOB_YAML_BYTES_MAX + 1, file);
    if (ferror(file)) {
        status = sc_status_errno(err, errno, "%s: cannot read the job file", path);
        goto out;
    }
    if (n > SC_JOB_YAML_BYTES_MAX) {
        status = sc_status_fail(err, SC_LIMIT, "%s: over %d bytes, more than a job file may have",
                                path, SC_JOB_YAML_BYTES_MAX);
        goto out;
    }
    *out = text;
    *n_out = n;
    text = NULL;
out:
    free(text);
    (void)fclose(file);
    return status;
}

sc_status sc_job_load(const char *path, const char *const *overrides, size_t n_overrides,
                      sc_job **out, sc_err *err)
{
    char *text = NULL;
    size_t n = 0;
    SC_TRY(read_file(path, &text, &n, err));
    sc_status status = sc_job_parse(path, text, n, overrides, n_overrides, out, err);
    free(text);
    return status;
}
