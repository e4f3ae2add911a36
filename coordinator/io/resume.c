#include "coordinator/io/resume.h"

#include "coordinator/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_difference(sc_resume *resume, const char *text)
{
    size_t used = strlen(resume->differences);
    (void)snprintf(resume->differences + used, sizeof resume->differences - used, "%s%s",
                   used == 0 ? "" : ", ", text);
}

static void compare_count(sc_resume *resume, const char *key, uint64_t theirs, uint64_t ours)
{
    char text[160];
    if (theirs != ours) {
        (void)snprintf(text, sizeof text, "%s was %" PRIu64 " and is %" PRIu64, key, theirs, ours);
        add_difference(resume, text);
    }
}

/* A job may well go on with other data or batches; it is told that its losses then are not those of
   a run that was never interrupted. */
static void compare_data(sc_resume *resume, const sc_manifest_data *theirs,
                         const sc_manifest_data *ours)
{
    char text[512];
    compare_count(resume, "train.seed", theirs->seed, ours->seed);
    compare_count(resume, "the global batch", theirs->global_batch_size, ours->global_batch_size);
    compare_count(resume, "batch.sequence_length", theirs->sequence_length, ours->sequence_length);
    if (strcmp(theirs->path, ours->path) != 0) {
        (void)snprintf(text, sizeof text, "data.path was %.200s and is %.200s", theirs->path,
                       ours->path);
        add_difference(resume, text);
    }
}

static sc_status compare(const sc_job *job, const sc_plan *plan, const char *name,
                         const sc_manifest *theirs, sc_resume *out, sc_err *err)
{
    sc_manifest ours = {.step = 0};
    sc_snapshot_describe(job, plan, &ours);
    SC_TRY(sc_manifest_check_model(name, &theirs->model, &ours.model, err));
    if (strcmp(theirs->optimizer, ours.optimizer) != 0) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: optimizer.name is %s, the job has %s: its state does not fit",
                              name, theirs->optimizer, ours.optimizer);
    }
    SC_TRY(sc_snapshot_check(name, theirs, plan->registry, err));
    if (theirs->step >= (uint64_t)job->steps) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: %" PRIu64 " steps are done, and train.steps is %d: raise it to "
                              "go on",
                              name, theirs->step, job->steps);
    }
    compare_data(out, &theirs->data, &ours.data);
    out->step = theirs->step;
    return SC_OK;
}

sc_status sc_resume_open(const sc_job *job, const sc_plan *plan, const char *runs_dir,
                         const char *name, const char *path, sc_resume *out, sc_err *err)
{
    sc_status status = SC_OK;
    char *found = NULL;
    sc_checkpoint *checkpoint = NULL;
    *out = (sc_resume){.folder = NULL};
    if (job->device == SC_JOB_PACED) {
        return sc_status_fail(err, SC_USAGE,
                              "--resume: a paced job has no weights and no checkpoints");
    }
    if (path[0] != '\0') {
        SC_GOTO(sc_status_prefix(err, sc_checkpoint_find(path, &found, err), "--resume"));
    } else {
        SC_GOTO(
            sc_status_prefix(err, sc_checkpoint_find_run(runs_dir, name, &found, err), "--resume"));
    }
    SC_GOTO(sc_checkpoint_open(found, &checkpoint, err));
    SC_GOTO(compare(job, plan, found, sc_checkpoint_manifest(checkpoint), out, err));
    out->folder = realpath(found, NULL);
    if (out->folder == NULL) {
        status = sc_status_errno(err, errno, "%s", found);
        goto out;
    }
out:
    sc_checkpoint_close(&checkpoint);
    free(found);
    return status;
}

void sc_resume_done(sc_resume *resume)
{
    free(resume->folder);
    *resume = (sc_resume){.folder = NULL};
}
