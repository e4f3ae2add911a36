/*
 * backend_cpu - the CPU backend: memory, streams, events, and the choice of an instruction set.
 *
 * Does not: compute; each operation is in its cpu_<op>.c, compiled once per instruction set.
 * Threads:  operations run on the calling thread and on n_threads - 1 OpenMP threads.
 */
#ifndef SC_KERNELS_CPU_BACKEND_CPU_H
#define SC_KERNELS_CPU_BACKEND_CPU_H

#include "kernels/backend.h"

/* As sc_backends_open. oneDNN takes its limit once per process: when the limit asked for differs
   from the one in force, SC_UNSUPPORTED. */
sc_status sc_backend_cpu_open(int n_threads, const char *isa_max, sc_backend **out, sc_err *err);
/* The best instruction set there is here; static. */
const char *sc_backend_cpu_find_isa(void);

#endif
