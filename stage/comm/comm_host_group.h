/*
 * comm_host_group - all_gather and all_reduce over the members' data sockets.
 *
 * all_gather: every member sends its piece to all others, or, for many members and for big pieces,
 * around a ring. all_reduce: the buffer is cut into one part a member, at borders that depend on n
 * and the group's size alone; each member sends its addends to the parts' owners, an owner adds
 * them in group order, chunk by chunk, and sends the sums to all.
 *
 * Bounds: a member ends operation k only when every other one has started it (it needs their pieces
 * or addends) and used all that it sent for it. So what comes early belongs to operation k + 1, one
 * place for every chunk of one operation suffices, and its bytes are the most that can wait here.
 *
 * Threads: the comm thread; an error is fatal for the comm.
 */
#ifndef SC_STAGE_COMM_COMM_HOST_GROUP_H
#define SC_STAGE_COMM_COMM_HOST_GROUP_H

#include "stage/comm/comm_host_state.h"

/* Elements of an all_reduce part: n cut into n_ranks parts, borders at multiples of 16. */
void sc_comm_host_group_part(size_t n, int n_ranks, int member, size_t *first, size_t *count);
/* Chunks of one member's piece or addend at most. */
size_t sc_comm_host_group_subs(size_t max_bytes, int n_ranks);

/* Takes over a GATHER or REDUCE. */
sc_status sc_comm_host_group_call(sc_comm_host *host, const sc_host_command *op, sc_err *err);
/* A GATHER, PART or SUM frame from a peer; may take the body over. */
sc_status sc_comm_host_group_data(sc_comm_host *host, int peer, const sc_comm_wire *wire,
                                  zmq_msg_t *body, sc_err *err);
/* Ends operations that are complete and starts those that wait. */
sc_status sc_comm_host_group_finish(sc_comm_host *host, sc_err *err);
/* Frees the chunks that are held. */
void sc_comm_host_group_drop(sc_comm_host *host);

#endif
