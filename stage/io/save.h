/*
 * save - a rank's weights or gradients as a safetensors file, rank-N.safetensors.
 */
#ifndef SC_STAGE_IO_SAVE_H
#define SC_STAGE_IO_SAVE_H

#include "stage/optim/optim.h"

typedef enum sc_save_what {
    SC_SAVE_WEIGHTS,
    SC_SAVE_GRADIENTS
} sc_save_what;

/* Writes every parameter that this rank steps (tied copies once) under its global name into folder,
   which is made when it is missing: a temporary file, synced, then renamed. */
sc_status sc_save_entries(const sc_optim *optim, int rank, sc_save_what what, const char *folder,
                          sc_err *err);

#endif
