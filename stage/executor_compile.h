/*
 * executor_compile - a lowered row -> an executor, with every slot and message decided before the
 * first step.
 */
#ifndef SC_STAGE_EXECUTOR_COMPILE_H
#define SC_STAGE_EXECUTOR_COMPILE_H

#include "stage/executor.h"

/* Compiles row `rank` of a lowered table; memory comes from `arena`, which must outlive *out.
   n_slots is the number of message buffers of each RECV and SEND edge. SC_INVALID when the row
   breaks a rule that the coordinator should have checked. */
sc_status sc_executor_compile_row(const sc_table *lowered, int rank, int n_slots, sc_arena *arena,
                                  sc_executor **out, sc_err *err);

#endif
