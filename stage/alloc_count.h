/*
 * alloc_count - how often our own code allocates, so that "nothing in the step loop" is measured,
 * not hoped.
 *
 * stagecoach-stage is linked with --wrap=malloc and friends: calls from our objects are counted and
 * passed on, calls inside shared libraries are not ours and not counted.
 */
#ifndef SC_STAGE_ALLOC_COUNT_H
#define SC_STAGE_ALLOC_COUNT_H

#include <stdint.h>

/* Calls of malloc, calloc, realloc, strdup and aligned_alloc from our code so far, all threads. 0
   in programs that are not linked with the wrappers. */
uint64_t sc_alloc_count_get(void);
/* One more; called by the wrappers (alloc_wrap.c). */
void sc_alloc_count_add(void);

#endif
