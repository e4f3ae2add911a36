/*
 * alloc_count - how often this process has allocated: our own code, and everything together.
 *
 * With a sanitizer its allocation hook counts; without one, malloc and its relatives are replaced.
 */
#ifndef SC_TESTS_KERNELS_ALLOC_COUNT_H
#define SC_TESTS_KERNELS_ALLOC_COUNT_H

/* Starts counting; once, before the first read. */
void sc_alloc_count_start(void);
/* Allocations since the start by anything: our code, libraries, their threads. */
long sc_alloc_count_all(void);
/* Allocations by the objects linked into the program. */
long sc_alloc_count_own(void);

#endif
