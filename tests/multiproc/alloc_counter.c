/*
 * alloc_counter - a library for LD_PRELOAD: counts what a process asks of the allocator, its
 * libraries included, and writes the sum to $SC_ALLOC_COUNTER_DIR/PROGRAM-PID when it exits.
 *
 * It takes the allocator's place and passes calls on. A sanitizer's allocator cannot be preceded,
 * but tells of its calls: programs with one get a library built with SC_ALLOC_COUNTER_HOOKS.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_ulong n_calls;

static void count(void)
{
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
}

#ifdef SC_ALLOC_COUNTER_HOOKS

int install_hooks(
    void (*malloc_hook)(const volatile void *, size_t),
    void (*free_hook)(const volatile void *)) __asm__("__sanitizer_install_malloc_and_free_hooks");

static void on_malloc(const volatile void *p, size_t n)
{
    (void)p;
    (void)n;
    count();
}

static void on_free(const volatile void *p)
{
    (void)p;
}

__attribute__((constructor)) static void install(void)
{
    if (install_hooks(on_malloc, on_free) == 0) {
        fprintf(stderr, "alloc_counter: the sanitizer takes no more hooks\n");
        abort();
    }
}

#else

enum {
    EARLY_BYTES = 64 * 1024
};

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static void (*next_free)(void *);
static _Thread_local int is_resolving;

/* What dlsym asks for while it looks for the allocator; never given back. */
static _Alignas(64) char early[EARLY_BYTES];
static atomic_size_t early_used;

static int is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + EARLY_BYTES;
}

static void *take_early(size_t n)
{
    size_t at = atomic_fetch_add(&early_used, (n + 63) / 64 * 64);
    return at + n <= EARLY_BYTES ? early + at : NULL;
}

static void find(void *function_p, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(function_p, &symbol, sizeof symbol);
}

/* The first call is from the one thread that starts the process. */
static void resolve(void)
{
    is_resolving = 1;
    find(&next_free, "free");
    find(&next_calloc, "calloc");
    find(&next_realloc, "realloc");
    find(&next_posix_memalign, "posix_memalign");
    find(&next_aligned_alloc, "aligned_alloc");
    find(&next_malloc, "malloc");
    is_resolving = 0;
}

/* False: the early memory is to serve the call. */
static int begin(void)
{
    if (is_resolving) {
        return 0;
    }
    if (next_malloc == NULL) {
        resolve();
    }
    count();
    return 1;
}

void *malloc(size_t n)
{
    return begin() ? next_malloc(n) : take_early(n);
}

void *calloc(size_t n, size_t size)
{
    return begin() ? next_calloc(n, size) : take_early(n * size);
}

void *realloc(void *p, size_t n)
{
    if (is_early(p)) {
        void *moved = malloc(n);
        size_t left = (size_t)(early + EARLY_BYTES - (char *)p);
        if (moved != NULL) {
            memcpy(moved, p, n < left ? n : left);
        }
        return moved;
    }
    return begin() ? next_realloc(p, n) : take_early(n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    return begin() ? next_posix_memalign(p, alignment, n) : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return begin() ? next_aligned_alloc(alignment, n) : NULL;
}

void free(void *p)
{
    if (p == NULL || is_early(p)) {
        return;
    }
    if (next_free == NULL) {
        resolve();
    }
    next_free(p);
}

#endif

__attribute__((destructor)) static void report(void)
{
    unsigned long n = atomic_load(&n_calls);
    const char *dir = getenv("SC_ALLOC_COUNTER_DIR");
    char path[4096];
    if (dir == NULL) {
        return;
    }
    snprintf(path, sizeof path, "%s/%s-%d", dir, program_invocation_short_name, (int)getpid());
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        fprintf(file, "%lu\n", n);
        fclose(file);
    }
}
