/*
 * alloc_wrap - what --wrap=malloc and friends lead to, in stagecoach-stage alone: count, then pass
 * on.
 */
#include "stage/alloc_count.h"

#include <stddef.h>

// NOLINTBEGIN(readability-identifier-naming): the linker's names
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **p, size_t alignment, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **p, size_t alignment, size_t n);

void *__wrap_malloc(size_t n)
{
    sc_alloc_count_add();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    sc_alloc_count_add();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    sc_alloc_count_add();
    return __real_realloc(p, n);
}

int __wrap_posix_memalign(void **p, size_t alignment, size_t n)
{
    sc_alloc_count_add();
    return __real_posix_memalign(p, alignment, n);
}
// NOLINTEND(readability-identifier-naming)
