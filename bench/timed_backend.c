#include "bench/timed_backend.h"

#include <string.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

sc_timed_span sc_timed_backend_now(void)
{
    return (sc_timed_span){.wall_s = seconds(CLOCK_MONOTONIC),
                           .cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

void sc_timed_backend_add(sc_timed_span *sum, sc_timed_span start, sc_timed_span end)
{
    sum->wall_s += end.wall_s - start.wall_s;
    sum->cpu_s += end.cpu_s - start.cpu_s;
}

static sc_timed_span begin(sc_timed_backend *timed, int part)
{
    timed->part = part;
    timed->n_ops++;
    return sc_timed_backend_now();
}

static void end(sc_timed_backend *timed, sc_timed_span start)
{
    sc_timed_backend_add(&timed->parts[timed->part], start, sc_timed_backend_now());
}

/* op, its arguments' type, the part that it counts to */
#define OP_MAP(X) \
    X(linear_fwd, sc_linear_fwd_args, LINEAR_FWD) \
    X(linear_bwd_input, sc_linear_bwd_input_args, LINEAR_BWD_INPUT) \
    X(linear_bwd_weight, sc_linear_bwd_weight_args, LINEAR_BWD_WEIGHT) \
    X(norm_fwd, sc_norm_fwd_args, NORM) \
    X(norm_bwd_input, sc_norm_bwd_input_args, NORM) \
    X(norm_bwd_weight, sc_norm_bwd_weight_args, NORM) \
    X(attention_fwd, sc_attention_fwd_args, ATTENTION_FWD) \
    X(attention_bwd, sc_attention_bwd_args, ATTENTION_BWD) \
    X(embed_fwd, sc_embed_fwd_args, EMBED) \
    X(embed_bwd, sc_embed_bwd_args, EMBED) \
    X(xent, sc_xent_args, XENT) \
    X(adamw, sc_adamw_args, OPTIMIZER) \
    X(sgd, sc_sgd_args, OPTIMIZER)

#define OP_FUNCTION(op, args, part) \
    static sc_status op(sc_backend *be, sc_stream *s, const args *a, sc_err *err) \
    { \
        sc_timed_backend *timed = (sc_timed_backend *)be; \
        sc_timed_span start = begin(timed, SC_TIMED_##part); \
        sc_status status = timed->inner->op(be, s, a, err); \
        end(timed, start); \
        return status; \
    }
OP_MAP(OP_FUNCTION)
#undef OP_FUNCTION

static sc_status add(sc_backend *be, sc_stream *s, float *dst, const float *src, int64_t n,
                     sc_err *err)
{
    sc_timed_backend *timed = (sc_timed_backend *)be;
    sc_timed_span start = begin(timed, SC_TIMED_TIED);
    sc_status status = timed->inner->add(be, s, dst, src, n, err);
    end(timed, start);
    return status;
}

static sc_status memory_zero(sc_backend *be, sc_stream *s, void *p, size_t bytes, sc_err *err)
{
    sc_timed_backend *timed = (sc_timed_backend *)be;
    sc_timed_span start = begin(timed, SC_TIMED_TIED);
    sc_status status = timed->inner->memory_zero(be, s, p, bytes, err);
    end(timed, start);
    return status;
}

static sc_status sum_squares(sc_backend *be, sc_stream *s, const float *x, int64_t n,
                             double *partials, sc_err *err)
{
    sc_timed_backend *timed = (sc_timed_backend *)be;
    sc_timed_span start = begin(timed, SC_TIMED_CLIP);
    sc_status status = timed->inner->sum_squares(be, s, x, n, partials, err);
    end(timed, start);
    return status;
}

void sc_timed_backend_init(sc_timed_backend *out, const sc_backend *inner)
{
    memset(out, 0, sizeof *out);
    out->base = *inner;
    out->inner = inner;
#define OP_ENTRY(op, args, part) out->base.op = op;
    OP_MAP(OP_ENTRY)
#undef OP_ENTRY
    out->base.add = add;
    out->base.memory_zero = memory_zero;
    out->base.sum_squares = sum_squares;
}

void sc_timed_backend_reset(sc_timed_backend *timed)
{
    memset(timed->parts, 0, sizeof timed->parts);
}

const char *sc_timed_backend_part_text(int part)
{
#define PART_TEXT(name, text) text,
    static const char *const texts[] = {SC_TIMED_PART_MAP(PART_TEXT)};
#undef PART_TEXT
    return texts[part];
}
