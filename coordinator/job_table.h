/*
 * job_table - the rows of job_keys' table.
 */
#ifndef SC_COORDINATOR_JOB_TABLE_H
#define SC_COORDINATOR_JOB_TABLE_H

#include "coordinator/job_keys.h"

enum {
    SC_JOB_TABLE_ROWS = 50
};

extern const sc_job_key sc_job_table_rows[SC_JOB_TABLE_ROWS];

#endif
