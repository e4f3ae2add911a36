/*
 * dataset - a token file, mapped: sample id -> tokens and targets.
 *
 * Owns:     the mapping.
 * Threads:  any; reads only.
 */
#ifndef SC_STAGE_IO_DATASET_H
#define SC_STAGE_IO_DATASET_H

#include "formats/tokens.h"

typedef struct sc_dataset sc_dataset;

/* Maps the file and checks its header, and that it holds a batch of `batch_samples` samples of T
   tokens. Caller closes. */
sc_status sc_dataset_open(const char *path, const char *format, int T, uint64_t batch_samples,
                          int vocab_size, sc_dataset **out, sc_err *err);
void sc_dataset_close(sc_dataset **dataset);

uint64_t sc_dataset_n_samples(const sc_dataset *dataset);

/* Row i of tokens and targets gets sample ids[i]: T tokens from i T on, and the T that follow by
   one. A place without a sample gets token 0 and ignored targets. Either output may be NULL. A
   token outside the vocabulary is an error with its position. tokens, targets: (B,T). */
sc_status sc_dataset_read(const sc_dataset *ds, const uint64_t *ids, int B, int32_t *tokens,
                          int32_t *targets, sc_err *err);

#endif
