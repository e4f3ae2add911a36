/*
 * resume - the checkpoint that a run goes on from: found, read and compared with the job.
 */
#ifndef SC_COORDINATOR_IO_RESUME_H
#define SC_COORDINATOR_IO_RESUME_H

#include "coordinator/planner.h"

typedef struct sc_resume {
    char *folder;           // absolute
    uint64_t step;          // updates done: the first step of this run
    char differences[1024]; // in words, where the data's order will be another; "" where not
} sc_resume;

/* Opens the newest complete checkpoint that `path` leads to, or of the job's runs when path is "".
   Refuses one whose model, optimizer or tensors do not fit, naming field or tensor. Caller frees
   with sc_resume_done, also after an error. */
sc_status sc_resume_open(const sc_job *job, const sc_plan *plan, const char *runs_dir,
                         const char *name, const char *path, sc_resume *out, sc_err *err);
void sc_resume_done(sc_resume *resume);

#endif
