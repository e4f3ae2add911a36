/*
 * rng - counter-based random numbers: every value is a pure function of (seed, stream, counter).
 *
 * Nothing depends on who asks, in which order or how often, so initialisation, dropout and the
 * order of samples are the same for any layout. Philox4x32-10: Salmon, Moraes, Dror, Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The normal distribution's logarithm, sine
 * and cosine are our own, so the bits do not depend on the C library.
 */
#ifndef SC_BASE_RNG_H
#define SC_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* The four words of block `counter` of stream `stream` under `seed`. */
void sc_rng_block(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]);

/* 64 random bits for element `index` of the stream. */
uint64_t sc_rng_u64(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1) with 24 bits, for element `index`. */
float sc_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);

/* out[i] = std * (standard normal of global element first + i), i < n; Box-Muller over the pair
   (2j, 2j + 1), so any split of a tensor gives the same numbers. */
void sc_rng_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t n, float std, float *out);

/* Place of element `index` in a pseudo-random permutation of [0, n), n >= 1, index < n: a
   four-round Feistel network over the next even power of two, walked until inside [0, n). */
uint64_t sc_rng_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t index);

/* A stable 64-bit key of a name (FNV-1a, then mixed): the stream of a tensor. */
uint64_t sc_rng_stream(const char *name);

/* Mixes two 64-bit words into one (splitmix64's finaliser): used by hash chains. */
uint64_t sc_rng_mix(uint64_t a, uint64_t b);

#endif
