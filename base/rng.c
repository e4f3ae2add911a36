#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    uint64_t p0 = (uint64_t)0xD2511F53U * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57U * c[2];
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    uint32_t n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)p1;
    c[3] = (uint32_t)p0;
    c[0] = n0;
    c[2] = n2;
}

void sc_rng_block(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4])
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};
    uint32_t k0 = (uint32_t)seed;
    uint32_t k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        philox_round(c, k0, k1);
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    memcpy(out, c, sizeof c);
}

uint64_t sc_rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t w[4];
    sc_rng_block(seed, stream, index / 2, w);
    size_t at = (size_t)(index % 2) * 2;
    return (uint64_t)w[at] | (uint64_t)w[at + 1] << 32;
}

float sc_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(sc_rng_u64(seed, stream, index) >> 40) * 0x1p-24F;
}

/* log(x) for x in (0, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), then the odd series of
   2 atanh(s), s = (m-1)/(m+1), |s| < 0.172; the first left-out term is below 1e-17. */
static double own_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2.0;
        e -= 1;
    }
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double sum = 0.0;
    for (int k = 21; k >= 1; k -= 2) {
        sum = sum * z + 1.0 / k;
    }
    return 2.0 * s * sum + e * 0.69314718055994531;
}

/* sin and cos of 2 pi u, u in [0, 1): reduced to an eighth of a turn, then Taylor series. */
static void own_sincos(double u, double *sin_out, double *cos_out)
{
    int octant = (int)(u * 8.0);
    int nearest = (octant + 1) / 2; // quarter turn
    int quarter = nearest % 4;
    double t = (u - nearest * 0.25) * 6.28318530717958648; // in [-pi/4, pi/4]
    double z = t * t;
    double s =
        t * (1 + z * (-1.0 / 6 +
                      z * (1.0 / 120 + z * (-1.0 / 5040 +
                                            z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                                                     z * (1.0 / 6227020800.0)))))));
    double c =
        1 + z * (-1.0 / 2 + z * (1.0 / 24 + z * (-1.0 / 720 +
                                                 z * (1.0 / 40320 + z * (-1.0 / 3628800 +
                                                                         z * (1.0 / 479001600))))));
    const double sins[4] = {s, c, -s, -c};
    const double coss[4] = {c, -s, -c, s};
    *sin_out = sins[quarter];
    *cos_out = coss[quarter];
}

void sc_rng_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t n, float std, float *out)
{
    size_t i = 0;
    while (i < n) {
        uint64_t pair = (first + i) / 2;
        uint32_t w[4];
        sc_rng_block(seed, stream, pair, w);
        /* 53 bits each; u1 in (0, 1], u2 in [0, 1) */
        double u1 = ((double)(((uint64_t)w[0] | (uint64_t)w[1] << 32) >> 11) + 1.0) * 0x1p-53;
        double u2 = (double)(((uint64_t)w[2] | (uint64_t)w[3] << 32) >> 11) * 0x1p-53;
        double r = sqrt(-2.0 * own_log(u1));
        double s;
        double c;
        own_sincos(u2, &s, &c);
        if ((first + i) % 2 == 0) {
            out[i++] = (float)(r * c) * std;
            if (i == n) {
                break;
            }
        }
        out[i++] = (float)(r * s) * std;
    }
}

uint64_t sc_rng_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a + 0x9E3779B97F4A7C15U * (b + 1);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

uint64_t sc_rng_stream(const char *name)
{
    uint64_t h = 0xCBF29CE484222325U;
    for (const char *p = name; *p != '\0'; p++) {
        h = (h ^ (unsigned char)*p) * 0x100000001B3U;
    }
    return sc_rng_mix(h, 0);
}

uint64_t sc_rng_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t index)
{
    assert(n >= 1 && index < n);
    unsigned half = 1;
    while (half < 32 && (1ULL << (2 * half)) < n) {
        half++;
    }
    uint64_t mask = (1ULL << half) - 1;
    uint64_t x = index;
    do {
        uint64_t left = x >> half;
        uint64_t right = x & mask;
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t w[4];
            sc_rng_block(seed, stream ^ ((uint64_t)round << 56), right, w);
            uint64_t next = (left ^ w[0]) & mask;
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}
