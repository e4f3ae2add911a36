/*
 * steploop - what happens next: workers come, a plan epoch is set up, steps are issued and finish.
 * Pure.
 *
 * Owns:     the phase and who has answered.
 * Does not: send, read a clock, or know what is in a plan. Effects say what the loop must do.
 * Threads:  none of its own; one caller.
 *
 * waiting (for n_ranks workers) -> binding (ASSIGN sent, BOUND awaited) -> connecting (CONNECT
 * sent, READY awaited) -> training (STEPs issued ahead, REPORTs awaited) -> finished, once, with a
 * status. A step is issued when fewer than SC_STEPLOOP_WINDOW are under way.
 */
#ifndef SC_COORDINATOR_STEPLOOP_H
#define SC_COORDINATOR_STEPLOOP_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_STEPLOOP_WINDOW = 2
};

#define SC_STEPLOOP_PHASE_MAP(X) \
    X(WAITING, "waiting") \
    X(BINDING, "starting") \
    X(CONNECTING, "starting") \
    X(TRAINING, "training") \
    X(FINISHED, "finished")

#define SC_STEPLOOP_PHASE_ENUM(name, text) SC_STEPLOOP_##name,
typedef enum sc_steploop_phase {
    SC_STEPLOOP_PHASE_MAP(SC_STEPLOOP_PHASE_ENUM)
} sc_steploop_phase;
#undef SC_STEPLOOP_PHASE_ENUM

#define SC_STEPLOOP_NO_SWAP UINT64_MAX

typedef struct sc_steploop_config {
    int n_ranks;
    uint64_t n_steps;
    uint64_t first_step; // done already, by the run that this one goes on from
    int64_t wait_ns;     // longest wait for workers
    int64_t setup_ns;    // longest time from ASSIGN to the last READY
    int64_t start_ns;    // now
} sc_steploop_config;

typedef enum sc_steploop_effect_type {
    SC_STEPLOOP_ASSIGN,    // send every rank its ASSIGN
    SC_STEPLOOP_CONNECT,   // send every rank the endpoints
    SC_STEPLOOP_STEP,      // send every rank STEP `step`
    SC_STEPLOOP_STEP_DONE, // every rank reported `step`
    SC_STEPLOOP_FINISH     // the job is over: status and text
} sc_steploop_effect_type;

typedef struct sc_steploop_effect {
    sc_steploop_effect_type type;
    uint64_t step;
    sc_status status;
    char text[SC_ERR_TEXT_MAX];
} sc_steploop_effect;

typedef struct sc_steploop {
    sc_steploop_config config;
    sc_steploop_phase phase;
    int n_workers;        // that have come
    bool *has_answered;   // (n_ranks) in this phase
    uint64_t *n_reported; // (n_ranks) steps reported by each
    int64_t phase_ns;     // when this phase began
    int64_t now_ns;       // of the latest tick
    uint64_t n_issued;    // steps
    uint64_t n_done;      // steps
    uint64_t swap_at;     // a new plan epoch begins before this step; SC_STEPLOOP_NO_SWAP: none
    bool is_held;         // neither the end nor a swap may come now
    bool is_finish_told;
    sc_status status;
    char text[SC_ERR_TEXT_MAX];
} sc_steploop;

/* Memory comes from `arena`. */
sc_status sc_steploop_init(sc_steploop *loop, const sc_steploop_config *config, sc_arena *arena,
                           sc_err *err);

const char *sc_steploop_phase_text(sc_steploop_phase phase);

/* A worker came or (only while waiting) went. */
void sc_steploop_on_workers(sc_steploop *loop, int n_workers, int64_t now_ns);
/* Rank answered ASSIGN (BOUND) or CONNECT (READY). An answer out of phase or twice is SC_PROTOCOL.
 */
sc_status sc_steploop_on_answer(sc_steploop *loop, int rank, int64_t now_ns, sc_err *err);
/* Rank reported a step; they must come in order. */
sc_status sc_steploop_on_report(sc_steploop *loop, int rank, uint64_t step, sc_err *err);
/* A new plan epoch before step `at`: steps from there on wait until those before are done, then
   ASSIGN comes again. SC_INVALID, naming the first step that is possible, when `at` was issued
   already or is no step of the job; SC_EXISTS when another swap waits. Only while training. */
sc_status sc_steploop_swap(sc_steploop *loop, uint64_t at, sc_err *err);
/* Held, the job issues steps, but neither ends well nor swaps: workers are busy with what must stay
   where it is. Errors end it all the same. */
void sc_steploop_hold(sc_steploop *loop, bool is_held);
/* Ends the job; the first call counts. */
void sc_steploop_finish(sc_steploop *loop, sc_status status, const char *text);
/* Checks the time limits. The texts name who is missing. */
void sc_steploop_tick(sc_steploop *loop, int64_t now_ns);

/* Takes the next effect; false when there is none until the next event. */
bool sc_steploop_next(sc_steploop *loop, sc_steploop_effect *out);

#endif
