/*
 * lower - compute-only table -> table with SEND, RECV and REDUCE_GRAD.
 */
#ifndef SC_SCHEDULES_LOWER_H
#define SC_SCHEDULES_LOWER_H

#include "schedules/table.h"

/* A new table with, in each row: every RECV right before the action that needs it, every SEND right
   after the action that made it, REDUCE_GRAD after a stage's last B or W. No SEND/RECV between two
   stages of one rank. RECVs come in the order of the sender's row; where that differs from the
   order of need, a message is received before one that is needed sooner. SC_INVALID when the input
   is lowered or breaks a rule of cover.h. Caller frees *out. */
sc_status sc_lower_table(const sc_table *compute, sc_table **out, sc_err *err);

#endif
