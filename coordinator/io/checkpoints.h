/*
 * checkpoints - the folder of a run's checkpoints: what is written there, made complete, removed.
 *
 * A checkpoint is written in step-N.part, where workers put their files. Committing it adds the
 * manifest, syncs and renames the folder to step-N. Removing one renames it back first. So a folder
 * step-N is complete at every moment, whenever a process is killed.
 *
 * Threads: one caller.
 */
#ifndef SC_COORDINATOR_IO_CHECKPOINTS_H
#define SC_COORDINATOR_IO_CHECKPOINTS_H

#include "base/status.h"

#include <stdint.h>

/* Makes the folder step-N.part, and the folder around it; leftovers of checkpoints that are not
   under way (n_pending steps are) are removed. */
sc_status sc_checkpoints_begin(const char *folder, uint64_t step, const uint64_t *pending,
                               size_t n_pending, sc_err *err);
/* Every file is there: writes the manifest, syncs, renames. */
sc_status sc_checkpoints_commit(const char *folder, uint64_t step, const char *manifest,
                                sc_err *err);
/* Removes step-N.part with all it holds; that it is not there is no error. */
sc_status sc_checkpoints_drop(const char *folder, uint64_t step, sc_err *err);
/* Removes the oldest complete ones until n_keep are left; 0: none goes. */
sc_status sc_checkpoints_trim(const char *folder, uint64_t n_keep, sc_err *err);

#endif
