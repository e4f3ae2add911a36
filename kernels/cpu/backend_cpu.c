#include "kernels/cpu/backend_cpu.h"

#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <dnnl.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    SMALL_ALIGN = 64,
    HUGE_BYTES = 2 << 20,  // blocks of at least this size are aligned to it and ask for huge pages
    TOUCH_BYTES = 1 << 20, // what one thread zeroes at a time
    THREADS_MAX = 1024
};

struct sc_event {
    int64_t time_ns;
    bool is_recorded;
};

static sc_status zero(sc_backend *be, sc_stream *s, void *p, size_t bytes, sc_err *err)
{
    (void)s;
    (void)err;
    const int64_t n_blocks = (int64_t)((bytes + TOUCH_BYTES - 1) / TOUCH_BYTES);
#pragma omp parallel for num_threads(be->n_threads) schedule(static) if (n_blocks > 1)
    for (int64_t i = 0; i < n_blocks; i++) {
        const size_t first = (size_t)i * TOUCH_BYTES;
        memset((char *)p + first, 0, bytes - first < TOUCH_BYTES ? bytes - first : TOUCH_BYTES);
    }
    return SC_OK;
}

static sc_status copy(sc_backend *be, sc_stream *s, void *dst, const void *src, size_t bytes,
                      sc_err *err)
{
    (void)s;
    (void)err;
    const int64_t n_blocks = (int64_t)((bytes + TOUCH_BYTES - 1) / TOUCH_BYTES);
#pragma omp parallel for num_threads(be->n_threads) schedule(static) if (n_blocks > 1)
    for (int64_t i = 0; i < n_blocks; i++) {
        const size_t first = (size_t)i * TOUCH_BYTES;
        memcpy((char *)dst + first, (const char *)src + first,
               bytes - first < TOUCH_BYTES ? bytes - first : TOUCH_BYTES);
    }
    return SC_OK;
}

/* Linux promises more memory than there is and kills whoever touches it, so what cannot fit is
   refused before it is touched. */
static sc_status memory_alloc(sc_backend *be, size_t bytes, void **out, sc_err *err)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const size_t machine_bytes = (size_t)(pages > 0 ? pages : 0) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t align = bytes >= HUGE_BYTES ? HUGE_BYTES : SMALL_ALIGN;
    void *p = NULL;
    if (machine_bytes != 0 && bytes > machine_bytes) {
        return sc_status_fail(err, SC_NO_MEMORY,
                              "%zu bytes asked for, the machine has %zu bytes of memory", bytes,
                              machine_bytes);
    }
    if (posix_memalign(&p, align, bytes > 0 ? bytes : 1) != 0) {
        return sc_status_fail(err, SC_NO_MEMORY, "%zu bytes could not be allocated", bytes);
    }
    if (bytes >= HUGE_BYTES) {
        (void)madvise(p, bytes, MADV_HUGEPAGE); // a kernel without them works, only slower
    }
    SC_TRY(zero(be, NULL, p, bytes, err));
    *out = p;
    return SC_OK;
}

static void memory_free(sc_backend *be, void *p)
{
    (void)be;
    free(p);
}

static sc_status stream_new(sc_backend *be, sc_stream **out, sc_err *err)
{
    (void)be;
    (void)err;
    *out = NULL; // the calling thread is the stream
    return SC_OK;
}

static void stream_free(sc_backend *be, sc_stream *s)
{
    (void)be;
    (void)s;
}

static sc_status stream_sync(sc_backend *be, sc_stream *s, sc_err *err)
{
    (void)be;
    (void)s;
    (void)err;
    return SC_OK;
}

static sc_status event_new(sc_backend *be, sc_event **out, sc_err *err)
{
    (void)be;
    sc_event *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "an event could not be allocated");
    }
    *out = e;
    return SC_OK;
}

static void event_free(sc_backend *be, sc_event *e)
{
    (void)be;
    free(e);
}

static sc_status event_record(sc_backend *be, sc_stream *s, sc_event *e, sc_err *err)
{
    (void)be;
    (void)s;
    (void)err;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    e->time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    e->is_recorded = true;
    return SC_OK;
}

static sc_status event_wait(sc_backend *be, sc_stream *s, sc_event *e, sc_err *err)
{
    (void)be;
    (void)s;
    (void)e;
    (void)err;
    return SC_OK;
}

static sc_status event_query(sc_backend *be, sc_event *e, bool *is_done, int64_t *time_ns,
                             sc_err *err)
{
    (void)be;
    (void)err;
    *is_done = e->is_recorded;
    if (e->is_recorded) {
        *time_ns = e->time_ns;
    }
    return SC_OK;
}

static void free_backend(sc_backend **be)
{
    free(*be);
    *be = NULL;
}

/* One instruction set: our table of operations, and oneDNN's name for it. */
typedef struct sc_cpu_isa {
    const sc_backend *table;
    dnnl_cpu_isa_t dnnl_isa;
    bool is_here; // the machine can run it
} sc_cpu_isa;

/* Best first. */
static int list_isas(sc_cpu_isa out[3])
{
    int n = 0;
#ifdef SC_CPU_X86
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 =
        has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    out[n++] = (sc_cpu_isa){&sc_cpu_table_avx512, dnnl_cpu_isa_all, has_avx512};
    out[n++] = (sc_cpu_isa){&sc_cpu_table_avx2, dnnl_cpu_isa_avx2, has_avx2};
#endif
    out[n++] = (sc_cpu_isa){&sc_cpu_table_baseline, dnnl_cpu_isa_sse41, true};
    return n;
}

/* The best instruction set that the machine has and isa_max allows. */
static sc_status choose_isa(const char *isa_max, sc_cpu_isa *out, sc_err *err)
{
    sc_cpu_isa isas[3];
    const int n = list_isas(isas);
    bool is_allowed = isa_max == NULL;
    for (int i = 0; i < n; i++) {
        is_allowed = is_allowed || strcmp(isas[i].table->isa, isa_max) == 0;
        if (is_allowed && isas[i].is_here) {
            *out = isas[i];
            return SC_OK; // the last one, baseline, is on every machine
        }
    }
    return sc_status_fail(err, SC_UNSUPPORTED, "instruction set '%s': built in are%s baseline",
                          isa_max, n > 1 ? " avx512, avx2," : "");
}

const char *sc_backend_cpu_find_isa(void)
{
    sc_cpu_isa best = {0};
    sc_status status = choose_isa(NULL, &best, NULL);
    assert(status == SC_OK); // baseline is on every machine
    (void)status;
    return best.table->isa;
}

/* The bits of a product depend on oneDNN's instruction set, so it has to be ours. */
static sc_status limit_dnnl(const sc_cpu_isa *isa, sc_err *err)
{
    if (dnnl_set_max_cpu_isa(isa->dnnl_isa) == dnnl_success) {
        return SC_OK;
    }
    // Too late to change it: fine when it is what we want, so ask what is in force.
    const dnnl_cpu_isa_t now = dnnl_get_effective_cpu_isa();
    const bool is_512 = (now & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    if (isa->dnnl_isa == dnnl_cpu_isa_all ? is_512 : now == isa->dnnl_isa) {
        return SC_OK;
    }
    return sc_status_fail(err, SC_UNSUPPORTED,
                          "instruction set '%s': oneDNN already runs with another one in this "
                          "process (code %d)",
                          isa->table->isa, (int)now);
}

sc_status sc_backend_cpu_open(int n_threads, const char *isa_max, sc_backend **out, sc_err *err)
{
    sc_cpu_isa isa = {0};
    if (n_threads < 1 || n_threads > THREADS_MAX) {
        return sc_status_fail(err, SC_INVALID, "%d threads: must be 1 to %d", n_threads,
                              THREADS_MAX);
    }
    SC_TRY(choose_isa(isa_max, &isa, err));
    assert(isa.table != NULL);
    SC_TRY(limit_dnnl(&isa, err));
    sc_backend *be = malloc(sizeof *be);
    if (be == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "a backend could not be allocated");
    }
    *be = *isa.table;
    be->n_threads = n_threads;
    be->memory_alloc = memory_alloc;
    be->memory_free = memory_free;
    be->memory_zero = zero;
    be->copy_to_device = copy;
    be->copy_to_host = copy;
    be->stream_new = stream_new;
    be->stream_free = stream_free;
    be->stream_sync = stream_sync;
    be->event_new = event_new;
    be->event_free = event_free;
    be->event_record = event_record;
    be->event_wait = event_wait;
    be->event_query = event_query;
    be->free = free_backend;
    *out = be;
    return SC_OK;
}
