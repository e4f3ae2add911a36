/*
 * suite - runs one set of tests on every backend, instruction set and number of threads there is.
 *
 * Each combination runs in a process of its own, because oneDNN takes its instruction set once per
 * process; what the machine lacks is skipped by name. A test gets the suite as *state; what it
 * makes is released when it ends.
 */
#ifndef SC_TESTS_CONFORMANCE_SUITE_H
#define SC_TESTS_CONFORMANCE_SUITE_H

#include "kernels/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum {
    SC_SUITE_BLOCKS_MAX = 64
};

typedef struct sc_suite {
    sc_backend *be;
    size_t shift_bytes; // put in front of every tensor: other addresses, same contents
    uint64_t n_made;    // tensors so far: the key of the next one's numbers
    void *host_blocks[SC_SUITE_BLOCKS_MAX];
    int n_host;
    void *device_blocks[SC_SUITE_BLOCKS_MAX];
    int n_device;
} sc_suite;

/* The same numbers on the host, in double for the reference, and on the device. */
typedef struct sc_suite_tensor {
    int64_t n;
    float *host;
    double *ref;
    float *dev;
} sc_suite_tensor;

typedef struct sc_suite_tokens {
    int64_t n;
    int32_t *host;
    int32_t *dev;
} sc_suite_tokens;

/* The main function of a test program; returns its exit code. */
int sc_suite_main(const char *name, const struct CMUnitTest *tests, size_t n_tests);

/* n normal numbers of this standard deviation around mean. */
sc_suite_tensor sc_suite_random(sc_suite *s, int64_t n, double mean, double std);
/* n values from [0, limit), or every third one SC_IGNORE_INDEX. */
sc_suite_tokens sc_suite_indices(sc_suite *s, int64_t n, int64_t limit, bool has_ignored);
/* Memory of the host, zeroed. */
void *sc_suite_host_alloc(sc_suite *s, size_t bytes);
/* Memory of the device. */
void *sc_suite_device_alloc(sc_suite *s, size_t bytes);

/* Fails the test unless the device's tensor equals t->ref: sum of squared differences over sum of
   squares at most nmse. */
void sc_suite_expect(sc_suite *s, const sc_suite_tensor *t, double nmse, const char *what);
/* Fails the test, with the error's text, unless status is SC_OK. */
void sc_suite_ok(sc_status status, const sc_err *err);
/* Copies the device's tensor to t->host. */
void sc_suite_fetch(sc_suite *s, const sc_suite_tensor *t);
/* Releases everything made since the last release. */
void sc_suite_release(sc_suite *s);

/* fp32 with sums of up to some hundred terms: relative error about 1e-6, squared 1e-12. */
#define SC_SUITE_NMSE 1e-11

#endif
