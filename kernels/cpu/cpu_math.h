/*
 * cpu_math - exp, gelu and log, inlined: our own, so that bits do not depend on the C library.
 */
#ifndef SC_KERNELS_CPU_CPU_MATH_H
#define SC_KERNELS_CPU_CPU_MATH_H

#include "kernels/cpu/cpu_vec.h"

/* e^x to about 1 ulp; zero below -86.6 (no denormals), e^88 above 88; not-a-number stays.
   Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2, e^x = 2^n e^r; the polynomial is a
   least-squares fit of (e^r - 1 - r) / r^2, relative error 5e-9 before rounding. */
static inline sc_v16 v16_exp(sc_v16 x)
{
    const sc_v16 magic = v16_set(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer
    const sc_v16 low = v16_set(-86.6f);
    sc_v16 c = v16_min(v16_set(88.0f), v16_max(low, x));
    sc_v16 t = v16_fma(c, v16_set(1.44269504f), magic);
    sc_v16 n = v16_sub(t, magic);
    sc_v16 r = v16_fma(n, v16_set(-0.693359375f), c);
    r = v16_fma(n, v16_set(2.12194440e-4f), r);
    sc_v16 p = v16_fma(r, v16_set(1.394373248e-03f), v16_set(8.369005285e-03f));
    p = v16_fma(r, p, v16_set(4.166631401e-02f));
    p = v16_fma(r, p, v16_set(1.666651815e-01f));
    p = v16_fma(r, p, v16_set(0.5f));
    p = v16_fma(v16_mul(r, r), p, r);
    p = v16_add(p, v16_set(1.0f));
    return v16_zero_below(v16_mul(p, v16_pow2_of_bits(t)), x, low);
}

#define SC_GELU_TWICE_SQRT_2_OVER_PI 1.5957691216057308f
#define SC_GELU_CUBIC 0.044715f

/* 1 / (1 + e^-2u) with u = sqrt(2/pi) (x + 0.044715 x^3): gelu_new's 0.5 (1 + tanh u), without the
   cancellation for negative x. */
static inline sc_v16 v16_gelu_gate(sc_v16 x)
{
    const sc_v16 one = v16_set(1.0f);
    sc_v16 xx = v16_mul(x, x);
    sc_v16 u = v16_mul(x, v16_set(-SC_GELU_TWICE_SQRT_2_OVER_PI));
    u = v16_mul(u, v16_fma(xx, v16_set(SC_GELU_CUBIC), one));
    return v16_div(one, v16_add(one, v16_exp(u)));
}

static inline sc_v16 v16_gelu(sc_v16 x)
{
    return v16_mul(x, v16_gelu_gate(x));
}

/* d gelu_new / dx = s + x s (1 - s) 2u', s the gate. */
static inline sc_v16 v16_gelu_slope(sc_v16 x)
{
    const sc_v16 one = v16_set(1.0f);
    sc_v16 s = v16_gelu_gate(x);
    sc_v16 xx = v16_mul(x, x);
    sc_v16 du = v16_fma(xx, v16_set(3.0f * SC_GELU_CUBIC * SC_GELU_TWICE_SQRT_2_OVER_PI),
                        v16_set(SC_GELU_TWICE_SQRT_2_OVER_PI));
    sc_v16 xs = v16_mul(x, s);
    return v16_fma(v16_mul(xs, v16_sub(one, s)), du, s);
}

/* Natural logarithm of a normal x > 0 to about 1e-15; infinity and not-a-number stay. m = x / 2^e
 * in [sqrt 1/2, sqrt 2), log m = 2 atanh((m - 1) / (m + 1)) as a series. */
static inline double scalar_log(double x)
{
    if (!(x > 0.0 && x <= 1.7e308)) {
        return x;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s; // <= 0.0295
    double p = 0.0;
    for (int k = 21; k >= 1; k -= 2) {
        p = p * z + 1.0 / k;
    }
    return e * 0.6931471805599453 + 2.0 * s * p;
}

#endif
