#include "bench/peak.h"

#include <time.h>

enum {
    CHAINS = 12, // more than latency times throughput of any pipe
    ROUNDS = 5
};

static const long N_TURNS = 20000000;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#ifdef __x86_64__
#include <immintrin.h>

#define CHAIN_FUNCTION(name, isa, vector, set, fma, lanes) \
    __attribute__((target(isa))) static double name(void) \
    { \
        vector v[CHAINS]; \
        for (int k = 0; k < CHAINS; k++) { \
            v[k] = set((float)k); \
        } \
        const vector a = set(0.999F); \
        const vector b = set(0.001F); \
        double start = cpu_s(); \
        for (long i = 0; i < N_TURNS; i++) { \
            _Pragma("GCC unroll 12") for (int k = 0; k < CHAINS; k++) \
            { \
                v[k] = fma(v[k], a, b); \
            } \
        } \
        double took = cpu_s() - start; \
        for (int k = 0; k < CHAINS; k++) { \
            __asm__ volatile("" : : "x"(v[k])); /* the sums are wanted */ \
        } \
        return 2.0 * (lanes)*CHAINS * (double)N_TURNS / took * 1e-9; \
    }

CHAIN_FUNCTION(run_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
CHAIN_FUNCTION(run_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)

static double run_chains(void)
{
    if (__builtin_cpu_supports("avx512f")) {
        return run_avx512();
    }
    return __builtin_cpu_supports("fma") ? run_avx2() : 0;
}
#else
static double run_chains(void)
{
    return 0;
}
#endif

double sc_peak_gflops(void)
{
    double best = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double gflops = run_chains();
        best = gflops > best ? gflops : best;
    }
    return best;
}

double sc_peak_memory_gbs(float *dst, const float *src, size_t n)
{
    double best = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double start = cpu_s();
        for (size_t i = 0; i < n; i++) {
            dst[i] += src[i];
        }
        double gbs = 3.0 * sizeof(float) * (double)n / (cpu_s() - start) * 1e-9;
        best = gbs > best ? gbs : best;
    }
    return best;
}
