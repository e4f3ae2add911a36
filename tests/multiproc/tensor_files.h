/*
 * tensor_files - the tensors that a run's ranks saved: RUN/KIND/rank-R.safetensors.
 *
 * Threads: one caller. Whatever goes wrong fails the test.
 */
#ifndef SC_TESTS_MULTIPROC_TENSOR_FILES_H
#define SC_TESTS_MULTIPROC_TENSOR_FILES_H

#include "formats/safetensors.h"
#include "model/registry.h"
#include "tests/multiproc/jobs.h"

typedef struct sc_tensor_files {
    int n_ranks;
    char *bytes[SC_JOBS_RANKS_MAX]; // whole files, owned
    sc_safetensors *heads[SC_JOBS_RANKS_MAX];
} sc_tensor_files;

/* Reads the files of every rank; kind: "weights" or "gradients". Each tensor must be one of the
   registry, fp32, of its shape. */
void sc_tensor_files_load(const sc_jobs_result *result, const char *kind,
                          const sc_registry *registry, sc_tensor_files *out);
void sc_tensor_files_free(sc_tensor_files *files);

/* The parameter's elements in a rank's file, NULL when it is not there; borrowed. */
const float *sc_tensor_files_find(const sc_tensor_files *files, int rank, const sc_param *param);
/* The same in the file of the first rank that has it; the test fails when none has. */
const float *sc_tensor_files_get(const sc_tensor_files *files, const sc_param *param);
/* Each parameter is in one rank's file, a tied embedding in the first and the last rank's. */
void sc_tensor_files_expect_whole(const sc_tensor_files *files, const sc_registry *registry,
                                  const char *text);
/* Each parameter has the same bits in every file that has it. */
void sc_tensor_files_expect_same(const sc_tensor_files *expected, const sc_tensor_files *files,
                                 const sc_registry *registry, const char *text);

#endif
