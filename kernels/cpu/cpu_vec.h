/*
 * cpu_vec - sixteen floats as one value, on AVX-512, AVX2 or plain C.
 *
 * Every loop over floats in kernels/cpu is written with this type and compiled once per instruction
 * set, with -ffp-contract=off: a multiply-add is fused exactly where v16_fma says so. An element's
 * bits therefore never depend on whether it sits in a loop's body or in its tail, on alignment, or
 * on how the compiler vectorises; AVX-512 and AVX2 give equal bits, the plain form (no FMA) does
 * not.
 */
#ifndef SC_KERNELS_CPU_CPU_VEC_H
#define SC_KERNELS_CPU_CPU_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define V16_LANES INT64_C(16) // wide, so that offsets made with it are

#if defined(__AVX512F__)

typedef __m512 sc_v16;

/* Bits below n set, 0 <= n. */
static inline __mmask16 v16_mask(int64_t n)
{
    return n >= V16_LANES ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1u);
}

static inline sc_v16 v16_set(float f)
{
    return _mm512_set1_ps(f);
}

static inline sc_v16 v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* The first n lanes from p, 0 <= n; the others zero and not read. */
static inline sc_v16 v16_load_n(const float *p, int64_t n)
{
    return n >= V16_LANES ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(v16_mask(n), p);
}

static inline void v16_store(float *p, sc_v16 v)
{
    _mm512_storeu_ps(p, v);
}

static inline void v16_store_n(float *p, sc_v16 v, int64_t n)
{
    if (n >= V16_LANES) {
        _mm512_storeu_ps(p, v);
    } else {
        _mm512_mask_storeu_ps(p, v16_mask(n), v);
    }
}

/* v with lanes from n on made zero. */
static inline sc_v16 v16_keep_n(sc_v16 v, int64_t n)
{
    return _mm512_maskz_mov_ps(v16_mask(n), v);
}

static inline sc_v16 v16_add(sc_v16 a, sc_v16 b)
{
    return _mm512_add_ps(a, b);
}

static inline sc_v16 v16_sub(sc_v16 a, sc_v16 b)
{
    return _mm512_sub_ps(a, b);
}

static inline sc_v16 v16_mul(sc_v16 a, sc_v16 b)
{
    return _mm512_mul_ps(a, b);
}

static inline sc_v16 v16_div(sc_v16 a, sc_v16 b)
{
    return _mm512_div_ps(a, b);
}

/* a b + c, rounded once. */
static inline sc_v16 v16_fma(sc_v16 a, sc_v16 b, sc_v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* The larger of each lane; b where either is not a number. */
static inline sc_v16 v16_max(sc_v16 a, sc_v16 b)
{
    return _mm512_max_ps(a, b);
}

/* The smaller of each lane; b where either is not a number. */
static inline sc_v16 v16_min(sc_v16 a, sc_v16 b)
{
    return _mm512_min_ps(a, b);
}

static inline sc_v16 v16_sqrt(sc_v16 a)
{
    return _mm512_sqrt_ps(a);
}

/* v, with zero where x < limit. */
static inline sc_v16 v16_zero_below(sc_v16 v, sc_v16 x, sc_v16 limit)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v);
}

/* 2^n, where the low bits of t's mantissa hold n (t = n + 1.5 * 2^23), -126 <= n <= 127. */
static inline sc_v16 v16_pow2_of_bits(sc_v16 t)
{
    __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(0x3f800000)));
}

/* Sixteen doubles, for sums of squares. */
typedef struct sc_v16d {
    __m512d half[2];
} sc_v16d;

/* acc + v^2, the square exact. */
static inline sc_v16d v16d_add_square(sc_v16d acc, sc_v16 v)
{
    const __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    const __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    acc.half[0] = _mm512_fmadd_pd(lo, lo, acc.half[0]);
    acc.half[1] = _mm512_fmadd_pd(hi, hi, acc.half[1]);
    return acc;
}

#elif defined(__AVX2__)

typedef struct sc_v16 {
    __m256 lo;
    __m256 hi;
} sc_v16;

/* -1 for lanes below n. */
static inline __m256i v16_half_mask(int64_t n)
{
    int32_t k = n < 0 ? 0 : (int32_t)(n > 8 ? 8 : n);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(k), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline sc_v16 v16_set(float f)
{
    return (sc_v16){_mm256_set1_ps(f), _mm256_set1_ps(f)};
}

static inline sc_v16 v16_load(const float *p)
{
    return (sc_v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline sc_v16 v16_load_n(const float *p, int64_t n)
{
    if (n >= V16_LANES) {
        return v16_load(p);
    }
    return (sc_v16){_mm256_maskload_ps(p, v16_half_mask(n)),
                    n > 8 ? _mm256_maskload_ps(p + 8, v16_half_mask(n - 8)) : _mm256_setzero_ps()};
}

static inline void v16_store(float *p, sc_v16 v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}

static inline void v16_store_n(float *p, sc_v16 v, int64_t n)
{
    if (n >= V16_LANES) {
        v16_store(p, v);
        return;
    }
    _mm256_maskstore_ps(p, v16_half_mask(n), v.lo);
    if (n > 8) {
        _mm256_maskstore_ps(p + 8, v16_half_mask(n - 8), v.hi);
    }
}

static inline sc_v16 v16_keep_n(sc_v16 v, int64_t n)
{
    return (sc_v16){_mm256_and_ps(v.lo, _mm256_castsi256_ps(v16_half_mask(n))),
                    _mm256_and_ps(v.hi, _mm256_castsi256_ps(v16_half_mask(n - 8)))};
}

static inline sc_v16 v16_add(sc_v16 a, sc_v16 b)
{
    return (sc_v16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

static inline sc_v16 v16_sub(sc_v16 a, sc_v16 b)
{
    return (sc_v16){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

static inline sc_v16 v16_mul(sc_v16 a, sc_v16 b)
{
    return (sc_v16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

static inline sc_v16 v16_div(sc_v16 a, sc_v16 b)
{
    return (sc_v16){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}

static inline sc_v16 v16_fma(sc_v16 a, sc_v16 b, sc_v16 c)
{
    return (sc_v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

static inline sc_v16 v16_max(sc_v16 a, sc_v16 b)
{
    return (sc_v16){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

static inline sc_v16 v16_min(sc_v16 a, sc_v16 b)
{
    return (sc_v16){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

static inline sc_v16 v16_sqrt(sc_v16 a)
{
    return (sc_v16){_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}

static inline sc_v16 v16_zero_below(sc_v16 v, sc_v16 x, sc_v16 limit)
{
    return (sc_v16){_mm256_and_ps(v.lo, _mm256_cmp_ps(x.lo, limit.lo, _CMP_NLT_UQ)),
                    _mm256_and_ps(v.hi, _mm256_cmp_ps(x.hi, limit.hi, _CMP_NLT_UQ))};
}

static inline __m256 v16_half_pow2(__m256 t)
{
    __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3f800000)));
}

static inline sc_v16 v16_pow2_of_bits(sc_v16 t)
{
    return (sc_v16){v16_half_pow2(t.lo), v16_half_pow2(t.hi)};
}

typedef struct sc_v16d {
    __m256d quarter[4];
} sc_v16d;

static inline __m256d v16d_quarter(__m256d acc, __m128 v)
{
    const __m256d d = _mm256_cvtps_pd(v);
    return _mm256_fmadd_pd(d, d, acc);
}

static inline sc_v16d v16d_add_square(sc_v16d acc, sc_v16 v)
{
    acc.quarter[0] = v16d_quarter(acc.quarter[0], _mm256_castps256_ps128(v.lo));
    acc.quarter[1] = v16d_quarter(acc.quarter[1], _mm256_extractf128_ps(v.lo, 1));
    acc.quarter[2] = v16d_quarter(acc.quarter[2], _mm256_castps256_ps128(v.hi));
    acc.quarter[3] = v16d_quarter(acc.quarter[3], _mm256_extractf128_ps(v.hi, 1));
    return acc;
}

#else

/* The compiler's own vectors, cut into whatever the machine has. */
typedef float sc_v16 __attribute__((vector_size(64)));
typedef int32_t sc_v16_bits __attribute__((vector_size(64)));

/* a where the mask's lane is set, b elsewhere. */
static inline sc_v16 v16_select(sc_v16_bits mask, sc_v16 a, sc_v16 b)
{
    return (sc_v16)(((sc_v16_bits)a & mask) | ((sc_v16_bits)b & ~mask));
}

static inline sc_v16 v16_set(float f)
{
    return (sc_v16){f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f};
}

static inline sc_v16 v16_load(const float *p)
{
    sc_v16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline sc_v16 v16_load_n(const float *p, int64_t n)
{
    sc_v16 v = {0.0f};
    memcpy(&v, p, n >= V16_LANES ? sizeof v : (size_t)n * sizeof *p);
    return v;
}

static inline void v16_store(float *p, sc_v16 v)
{
    memcpy(p, &v, sizeof v);
}

static inline void v16_store_n(float *p, sc_v16 v, int64_t n)
{
    memcpy(p, &v, n >= V16_LANES ? sizeof v : (size_t)n * sizeof *p);
}

static inline sc_v16 v16_keep_n(sc_v16 v, int64_t n)
{
    const sc_v16_bits lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const int32_t limit = (int32_t)(n >= V16_LANES ? V16_LANES : n);
    return v16_select(lane < limit, v, v16_set(0.0f));
}

static inline sc_v16 v16_add(sc_v16 a, sc_v16 b)
{
    return a + b;
}

static inline sc_v16 v16_sub(sc_v16 a, sc_v16 b)
{
    return a - b;
}

static inline sc_v16 v16_mul(sc_v16 a, sc_v16 b)
{
    return a * b;
}

static inline sc_v16 v16_div(sc_v16 a, sc_v16 b)
{
    return a / b;
}

/* Rounded twice: a fused one without hardware is a slow library call. */
static inline sc_v16 v16_fma(sc_v16 a, sc_v16 b, sc_v16 c)
{
    return a * b + c;
}

static inline sc_v16 v16_max(sc_v16 a, sc_v16 b)
{
    return v16_select(a > b, a, b);
}

static inline sc_v16 v16_min(sc_v16 a, sc_v16 b)
{
    return v16_select(a < b, a, b);
}

static inline sc_v16 v16_sqrt(sc_v16 a)
{
    for (int l = 0; l < V16_LANES; l++) {
        a[l] = __builtin_sqrtf(a[l]);
    }
    return a;
}

static inline sc_v16 v16_zero_below(sc_v16 v, sc_v16 x, sc_v16 limit)
{
    return v16_select(x < limit, v16_set(0.0f), v);
}

static inline sc_v16 v16_pow2_of_bits(sc_v16 t)
{
    // shifted as unsigned: bits that fall out at the top are meant to
    typedef uint32_t words __attribute__((vector_size(64)));
    return (sc_v16)(((words)t << 23) + 0x3f800000u);
}

typedef double sc_v16d __attribute__((vector_size(128)));

static inline sc_v16d v16d_add_square(sc_v16d acc, sc_v16 v)
{
    const sc_v16d d = __builtin_convertvector(v, sc_v16d);
    return acc + d * d;
}

#endif

/* The sum of the lanes of several, added as a tree: the same order on every instruction set. */
static inline double v16d_sum(const sc_v16d *v, int n)
{
    double d[V16_LANES] = {0.0};
    for (int i = 0; i < n; i++) {
        double lanes[V16_LANES];
        memcpy(lanes, &v[i], sizeof lanes);
        for (int l = 0; l < V16_LANES; l++) {
            d[l] += lanes[l];
        }
    }
    for (int half = V16_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            d[l] += d[l + half];
        }
    }
    return d[0];
}

/* The sum of the lanes, added as a tree: the same order on every instruction set. */
static inline float v16_sum(sc_v16 v)
{
    float f[V16_LANES];
    v16_store(f, v);
    for (int half = V16_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            f[l] += f[l + half];
        }
    }
    return f[0];
}

/* The largest lane. */
static inline float v16_top(sc_v16 v)
{
    float f[V16_LANES];
    v16_store(f, v);
    for (int half = V16_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            f[l] = f[l] > f[l + half] ? f[l] : f[l + half];
        }
    }
    return f[0];
}

#endif
