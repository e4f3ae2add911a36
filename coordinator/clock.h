/*
 * clock - the offset between a worker's clock and the coordinator's, with a bound on its error.
 *
 * Every message with a sending time says which offsets are possible: it cannot arrive before it was
 * sent. A message from the worker bounds the offset from one side, one to the worker from the
 * other; the messages with the least delay bound it best. The estimate is the middle of the
 * interval, its error half of the interval's length. Clocks drift apart, so a bound loosens by
 * DRIFT_PPM of its age: the newest good sample wins in the end. Pure: the caller reads the clocks.
 */
#ifndef SC_COORDINATOR_CLOCK_H
#define SC_COORDINATOR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SC_CLOCK_DRIFT_PPM = 50 // how fast two hosts' clocks may run apart; quartz is good for 20 each
};

typedef struct sc_clock {
    bool is_same; // same boot id: one clock
    bool has_lo;
    bool has_hi;
    int64_t lo_ns;    // offset >= lo, as of lo_at
    int64_t lo_at_ns; // coordinator's clock
    int64_t hi_ns;    // offset <= hi, as of hi_at
    int64_t hi_at_ns;
} sc_clock;

/* Offset: what is added to the worker's time to get the coordinator's. */
typedef struct sc_clock_estimate {
    bool is_known; // both sides are bounded
    int64_t offset_ns;
    int64_t error_ns; // the true offset is within offset +- error
} sc_clock_estimate;

/* Nothing is known yet, unless both boot ids are the same and not empty: offset 0, error 0. */
void sc_clock_init(sc_clock *clock, const char *own_boot_id, const char *worker_boot_id);
/* A message from the worker: sent at its sent_ns, received here at received_ns. */
void sc_clock_add_from_worker(sc_clock *clock, int64_t sent_ns, int64_t received_ns);
/* A message to the worker: sent here at sent_ns, received there at its received_ns. */
void sc_clock_add_to_worker(sc_clock *clock, int64_t sent_ns, int64_t received_ns);
/* The estimate at now_ns (coordinator's clock). */
sc_clock_estimate sc_clock_get(const sc_clock *clock, int64_t now_ns);

#endif
