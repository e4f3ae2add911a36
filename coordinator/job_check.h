/*
 * job_check - the rules between a job's keys; each error stands at the key that broke it.
 */
#ifndef SC_COORDINATOR_JOB_CHECK_H
#define SC_COORDINATOR_JOB_CHECK_H

#include "coordinator/job.h"
#include "coordinator/job_yaml.h"

enum {
    SC_JOB_CELLS_MAX = 1 << 22,     // stages x microbatches of a schedule
    SC_JOB_MB_TOKENS_MAX = 1 << 24, // tokens of a microbatch
    SC_JOB_NAME_MAX = 64
};

/* marks: where each key of job_keys' list got its value, source NULL for a default. Resolves
   n_inner = 0 and, for the checked model, nothing else. */
sc_status sc_job_check_all(sc_job *job, const sc_job_mark *marks, sc_err *err);

#endif
