#include "tests/conformance/suite.h"

#include "base/rng.h"
#include "kernels/backends.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TESTS_MAX = 32,
    EXIT_SKIPPED = 77
};

void *sc_suite_host_alloc(sc_suite *s, size_t bytes)
{
    void *p = calloc(1, bytes);
    assert_non_null(p);
    assert_true(s->n_host < SC_SUITE_BLOCKS_MAX);
    s->host_blocks[s->n_host++] = p;
    return p;
}

void *sc_suite_device_alloc(sc_suite *s, size_t bytes)
{
    sc_err err;
    void *p = NULL;
    assert_true(s->n_device < SC_SUITE_BLOCKS_MAX);
    sc_suite_ok(s->be->memory_alloc(s->be, bytes + s->shift_bytes, &p, &err), &err);
    s->device_blocks[s->n_device++] = p;
    return (char *)p + s->shift_bytes;
}

void sc_suite_release(sc_suite *s)
{
    while (s->n_host > 0) {
        free(s->host_blocks[--s->n_host]);
    }
    while (s->n_device > 0) {
        s->be->memory_free(s->be, s->device_blocks[--s->n_device]);
    }
}

sc_suite_tensor sc_suite_random(sc_suite *s, int64_t n, double mean, double std)
{
    const size_t bytes = (size_t)n * sizeof(float);
    sc_suite_tensor t = {
        .n = n,
        .host = sc_suite_host_alloc(s, bytes),
        .ref = sc_suite_host_alloc(s, (size_t)n * sizeof(double)),
        .dev = sc_suite_device_alloc(s, bytes),
    };
    sc_err err;
    sc_rng_normal(1, s->n_made++, 0, (size_t)n, (float)std, t.host);
    for (int64_t i = 0; i < n; i++) {
        t.host[i] += (float)mean;
        t.ref[i] = (double)t.host[i];
    }
    sc_suite_ok(s->be->copy_to_device(s->be, NULL, t.dev, t.host, bytes, &err), &err);
    return t;
}

sc_suite_tokens sc_suite_indices(sc_suite *s, int64_t n, int64_t limit, bool has_ignored)
{
    const size_t bytes = (size_t)n * sizeof(int32_t);
    sc_suite_tokens t = {
        .n = n,
        .host = sc_suite_host_alloc(s, bytes),
        .dev = sc_suite_device_alloc(s, bytes),
    };
    sc_err err;
    for (int64_t i = 0; i < n; i++) {
        t.host[i] = (int32_t)(sc_rng_u64(2, s->n_made, (uint64_t)i) % (uint64_t)limit);
        if (has_ignored && i % 3 == 1) {
            t.host[i] = SC_IGNORE_INDEX;
        }
    }
    s->n_made++;
    sc_suite_ok(s->be->copy_to_device(s->be, NULL, t.dev, t.host, bytes, &err), &err);
    return t;
}

void sc_suite_ok(sc_status status, const sc_err *err)
{
    if (status != SC_OK) {
        fail_msg("%s: %s", sc_status_text(status), err->text);
    }
}

void sc_suite_fetch(sc_suite *s, const sc_suite_tensor *t)
{
    sc_err err;
    const size_t bytes = (size_t)t->n * sizeof(float);
    sc_suite_ok(s->be->stream_sync(s->be, NULL, &err), &err);
    sc_suite_ok(s->be->copy_to_host(s->be, NULL, t->host, t->dev, bytes, &err), &err);
}

void sc_suite_expect(sc_suite *s, const sc_suite_tensor *t, double nmse, const char *what)
{
    double error = 0.0;
    double size = 1e-30;
    int64_t worst = 0;
    double worst_error = -1.0;
    sc_suite_fetch(s, t);
    for (int64_t i = 0; i < t->n; i++) {
        double d = (double)t->host[i] - t->ref[i];
        error += d * d;
        size += t->ref[i] * t->ref[i];
        if (!(fabs(d) <= worst_error)) {
            worst_error = fabs(d);
            worst = i;
        }
    }
    if (!(error <= nmse * size)) {
        fail_msg("%s: nmse %.3g, at most %.3g allowed; worst element %lld: %.9g, should be %.9g",
                 what, error / size, nmse, (long long)worst, (double)t->host[worst], t->ref[worst]);
    }
}

static int release_after(void **state)
{
    sc_suite_release(*state);
    return 0;
}

/* The whole set on one backend; exit code of this process. */
static int run_one(const char *backend, const char *isa, int n_threads, const char *name,
                   const struct CMUnitTest *tests, size_t n_tests)
{
    sc_suite suite = {0};
    sc_err err;
    struct CMUnitTest own[TESTS_MAX];
    char label[128];
    sc_status status = sc_backends_open(backend, n_threads, isa, &suite.be, &err);
    if (status == SC_UNSUPPORTED) {
        printf("skipped: %s: %s\n", name, err.text);
        return EXIT_SKIPPED;
    }
    if (status != SC_OK) {
        printf("failed: %s: %s\n", name, err.text);
        return 1;
    }
    if (isa != NULL && strcmp(suite.be->isa, isa) != 0) {
        printf("skipped: %s: this machine has no %s\n", name, isa);
        suite.be->free(&suite.be);
        return EXIT_SKIPPED;
    }
    snprintf(label, sizeof label, "%s %s %s %d threads", name, backend, suite.be->isa, n_threads);
    for (size_t i = 0; i < n_tests; i++) {
        own[i] = tests[i];
        own[i].initial_state = &suite;
        own[i].teardown_func = release_after;
    }
    int n_failed = _cmocka_run_group_tests(label, own, n_tests, NULL, NULL);
    suite.be->free(&suite.be);
    return n_failed == 0 ? 0 : 1;
}

int sc_suite_main(const char *name, const struct CMUnitTest *tests, size_t n_tests)
{
    static const struct {
        const char *backend;
        const char *isa;
        int n_threads;
    } list[] = {
        {"cpu", "avx512", 1}, {"cpu", "avx512", 2},   {"cpu", "avx2", 1},
        {"cpu", "avx2", 2},   {"cpu", "baseline", 1}, {"cpu", "baseline", 2},
    };
    int n_passed = 0;
    if (n_tests > TESTS_MAX) {
        return 1;
    }
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        fflush(NULL);
        const pid_t pid = fork();
        if (pid == 0) {
            int code =
                run_one(list[i].backend, list[i].isa, list[i].n_threads, name, tests, n_tests);
            fflush(NULL);
            exit(code);
        }
        int wait_status = 0;
        if (pid < 0 || waitpid(pid, &wait_status, 0) != pid || !WIFEXITED(wait_status)) {
            printf("failed: %s: the process of %s %s did not end by itself\n", name,
                   list[i].backend, list[i].isa);
            return 1;
        }
        if (WEXITSTATUS(wait_status) != 0 && WEXITSTATUS(wait_status) != EXIT_SKIPPED) {
            return 1;
        }
        n_passed += WEXITSTATUS(wait_status) == 0;
    }
    return n_passed > 0 ? 0 : 1;
}
