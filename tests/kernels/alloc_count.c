#include "tests/kernels/alloc_count.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SC_HAS_HOOKS
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SC_HAS_HOOKS
#endif

static atomic_long n_allocations;
static atomic_long n_own;

/* The linker turns our objects' calls of malloc into __wrap_malloc (--wrap in CMakeLists.txt);
   libraries keep theirs. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    atomic_fetch_add(&n_own, 1);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    atomic_fetch_add(&n_own, 1);
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    atomic_fetch_add(&n_own, 1);
    return __real_realloc(p, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    atomic_fetch_add(&n_own, 1);
    return __real_posix_memalign(out, align, bytes);
}

#ifdef SC_HAS_HOOKS

/* As in <sanitizer/allocator_interface.h>, which gcc does not install. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *p, size_t bytes)
{
    (void)p;
    (void)bytes;
    atomic_fetch_add(&n_allocations, 1);
}

static void on_free(const volatile void *p)
{
    (void)p;
}

void sc_alloc_count_start(void)
{
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

#else

/* glibc's own, which the replacements hand on to. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *p, size_t bytes);
void *memalign(size_t align, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes);
int posix_memalign(void **out, size_t align, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_realloc(p, bytes);
}

void *memalign(size_t align, size_t bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_memalign(align, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *p = memalign(align, bytes);
    if (p == NULL) {
        return ENOMEM;
    }
    *out = p;
    return 0;
}

void sc_alloc_count_start(void)
{
    atomic_store(&n_allocations, 0);
}

#endif

long sc_alloc_count_own(void)
{
    return atomic_load(&n_own);
}

long sc_alloc_count_all(void)
{
    return atomic_load(&n_allocations);
}
