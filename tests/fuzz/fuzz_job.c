/*
 * fuzz_job - any bytes as a job file: no crash, and an accepted job formats to one that is accepted
 * and formats to the same text.
 */
#include "coordinator/job.h"

#include <stdlib.h>
#include <string.h>

/* libFuzzer gives the name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    sc_job *job = NULL;
    sc_job *again = NULL;
    char *text = NULL;
    char *text_again = NULL;
    sc_err err;
    if (sc_job_parse("f", (const char *)data, n, NULL, 0, &job, &err) != SC_OK) {
        return 0;
    }
    if (sc_job_format(job, &text, &err) != SC_OK ||
        sc_job_parse("g", text, strlen(text), NULL, 0, &again, &err) != SC_OK ||
        sc_job_format(again, &text_again, &err) != SC_OK || strcmp(text, text_again) != 0) {
        abort();
    }
    free(text_again);
    free(text);
    sc_job_free(&again);
    sc_job_free(&job);
    return 0;
}
