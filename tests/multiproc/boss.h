/*
 * boss - the test itself as the coordinator of one real worker.
 *
 * Owns:     a ZeroMQ context, a ROUTER socket, the worker's process.
 * Threads:  one caller.
 */
#ifndef SC_TESTS_MULTIPROC_BOSS_H
#define SC_TESTS_MULTIPROC_BOSS_H

#include "proto/messages.h"
#include "tests/support/proc.h"

enum {
    SC_BOSS_PATIENCE_MS = 60000 // of every wait
};

typedef struct sc_boss sc_boss;

/* Listens, starts a worker and welcomes it. */
sc_boss *sc_boss_open(void);
/* Kills the worker if it is still there; no process may be left. */
void sc_boss_close(sc_boss **boss);

sc_proc *sc_boss_worker(sc_boss *boss);
/* Sends a message; seq is filled in. */
void sc_boss_send(sc_boss *boss, sc_msg *msg);
/* The next message of this type, others are passed over. Borrowed until the next call. */
const sc_msg *sc_boss_expect(sc_boss *boss, sc_msg_type type);

/* A job of one rank, one layer, one microbatch over a token file of this test: epoch 1. Texts are
   the boss's. */
sc_msg_assign sc_boss_assignment(sc_boss *boss);
/* Sends ASSIGN and CONNECT and waits for READY. */
void sc_boss_set_up(sc_boss *boss, const sc_msg_assign *assign);
void sc_boss_send_step(sc_boss *boss, uint64_t epoch, uint64_t step);
void sc_boss_send_stop(sc_boss *boss, uint32_t status, const char *reason);

#endif
