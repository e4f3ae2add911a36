#include "stage/alloc_count.h"

#include <stdatomic.h>

static atomic_uint_fast64_t n_allocs;

uint64_t sc_alloc_count_get(void)
{
    return atomic_load_explicit(&n_allocs, memory_order_relaxed);
}

void sc_alloc_count_add(void)
{
    atomic_fetch_add_explicit(&n_allocs, 1, memory_order_relaxed);
}
