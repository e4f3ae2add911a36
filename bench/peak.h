/*
 * peak - what this machine can do at most: fused multiply-adds, and memory.
 *
 * One thread; times n for n cores.
 */
#ifndef SC_BENCH_PEAK_H
#define SC_BENCH_PEAK_H

#include <stddef.h>

/* fp32 GFLOP/s of the calling thread: independent fused multiply-adds out of registers, with the
   widest vectors the CPU has. 0 where there are none. By CPU time, best of several. */
double sc_peak_gflops(void);

/* GB/s of dst[i] += src[i] over n floats each, far more than the caches hold: two reads and a
   write. By CPU time, best of several. */
double sc_peak_memory_gbs(float *dst, const float *src, size_t n);

#endif
