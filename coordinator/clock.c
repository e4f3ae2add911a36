#include "coordinator/clock.h"

#include <string.h>

enum {
    NS_PER_DRIFT_NS = 1000000 / SC_CLOCK_DRIFT_PPM // after this long a bound is 1 ns looser
};

/* Times cross the wire unchecked in size; wrapping sums are harmless, overflow is not C. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* How much a bound of that age has loosened. */
static int64_t drift(int64_t from_ns, int64_t now_ns)
{
    int64_t age = minus(now_ns, from_ns);
    return age <= 0 ? 0 : age / NS_PER_DRIFT_NS + 1;
}

void sc_clock_init(sc_clock *clock, const char *own_boot_id, const char *worker_boot_id)
{
    *clock =
        (sc_clock){.is_same = own_boot_id[0] != '\0' && strcmp(own_boot_id, worker_boot_id) == 0};
}

/* received - sent = offset-corrected delay >= 0: the worker's sent + offset <= received. */
void sc_clock_add_from_worker(sc_clock *clock, int64_t sent_ns, int64_t received_ns)
{
    int64_t hi = minus(received_ns, sent_ns);
    if (!clock->has_hi || hi <= clock->hi_ns + drift(clock->hi_at_ns, received_ns)) {
        clock->has_hi = true;
        clock->hi_ns = hi;
        clock->hi_at_ns = received_ns;
    }
}

/* sent <= the worker's received + offset. */
void sc_clock_add_to_worker(sc_clock *clock, int64_t sent_ns, int64_t received_ns)
{
    int64_t lo = minus(sent_ns, received_ns);
    if (!clock->has_lo || lo >= clock->lo_ns - drift(clock->lo_at_ns, sent_ns)) {
        clock->has_lo = true;
        clock->lo_ns = lo;
        clock->lo_at_ns = sent_ns;
    }
}

sc_clock_estimate sc_clock_get(const sc_clock *clock, int64_t now_ns)
{
    sc_clock_estimate out = {.is_known = clock->is_same};
    if (!clock->is_same && clock->has_lo && clock->has_hi) {
        int64_t lo = clock->lo_ns - drift(clock->lo_at_ns, now_ns);
        int64_t hi = clock->hi_ns + drift(clock->hi_at_ns, now_ns);
        int64_t half = minus(hi, lo) / 2;
        out.is_known = true;
        out.offset_ns = lo + half;
        // a clock that drifts faster than we allow turns the interval round: its length still tells
        // how wrong we may be
        out.error_ns = half < 0 ? -half : half + minus(hi, lo) % 2;
    }
    return out;
}
