/*
 * pairing - the rules of a lowered table's communication cells.
 */
#ifndef SC_SCHEDULES_PAIRING_H
#define SC_SCHEDULES_PAIRING_H

#include "schedules/cover.h"

/* Checks, for each pair of neighbouring stages on two ranks and each kind of message: one SEND and
   one RECV a microbatch and none elsewhere; SEND after the action that makes the message, RECV
   before the one that needs it; the k-th SEND is the k-th RECV. REDUCE_GRAD: after the stage's last
   B or W, once for each stage or in no row at all. `cover` is the table's. On SC_INVALID *place
   says where. */
sc_status sc_pairing_check(const sc_table *table, const sc_cover *cover, sc_place *place,
                           sc_err *err);

#endif
