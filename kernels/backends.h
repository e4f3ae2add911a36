/*
 * backends - name -> backend, by what was built in.
 */
#ifndef SC_KERNELS_BACKENDS_H
#define SC_KERNELS_BACKENDS_H

#include "kernels/backend.h"

/* Opens backend "cpu" (later "cuda") with an explicit number of threads >= 1; the thread that calls
   the operations is the one that enters OpenMP. isa_max limits the instruction set ("avx512",
   "avx2", "baseline"; NULL: the best there is). SC_UNSUPPORTED names what was built in. Caller
   frees with (*out)->free(&be). */
sc_status sc_backends_open(const char *name, int n_threads, const char *isa_max, sc_backend **out,
                           sc_err *err);
/* The best instruction set that backend `name` finds on this machine; static. Opens nothing: what
   is opened first binds the whole process to its instruction set. */
sc_status sc_backends_find_isa(const char *name, const char **out, sc_err *err);

#endif
