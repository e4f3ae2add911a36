#include "kernels/backends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static sc_backend *open_cpu(int n_threads)
{
    sc_backend *be = NULL;
    sc_err err;
    if (sc_backends_open("cpu", n_threads, NULL, &be, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    return be;
}

static void test_dtypes(void **state)
{
    (void)state;
    assert_int_equal(sc_backend_dtype_bytes(SC_DTYPE_F32), 4);
    assert_int_equal(sc_backend_dtype_bytes(SC_DTYPE_BF16), 2);
    assert_int_equal(sc_backend_dtype_bytes(SC_DTYPE_U8), 1);
    assert_string_equal(sc_backend_dtype_text(SC_DTYPE_F16), "fp16");
    assert_string_equal(sc_backend_dtype_text((sc_dtype)99), "unknown dtype");
}

static void test_open(void **state)
{
    (void)state;
    sc_backend *be = NULL;
    sc_err err;
    assert_int_equal(sc_backends_open("tpu", 1, NULL, &be, &err), SC_UNSUPPORTED);
    assert_string_equal(err.text, "backend 'tpu': built in are: cpu");
    assert_int_equal(sc_backends_open("cpu", 0, NULL, &be, &err), SC_INVALID);
    assert_string_equal(err.text, "0 threads: must be 1 to 1024");
    assert_int_equal(sc_backends_open("cpu", 1, "sse9", &be, &err), SC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "instruction set 'sse9'"));
    assert_null(be);

    // asking binds the process to nothing: a lower one may still be opened (test_failure_setup)
    const char *isa = NULL;
    assert_int_equal(sc_backends_find_isa("tpu", &isa, &err), SC_UNSUPPORTED);
    assert_int_equal(sc_backends_find_isa("cpu", &isa, &err), SC_OK);

    be = open_cpu(2);
    assert_string_equal(be->isa, isa);
    assert_string_equal(be->name, "cpu");
    assert_int_equal(be->n_threads, 2);
    assert_non_null(be->isa);
    // the same again is fine, another one is not: oneDNN has one instruction set per process
    sc_backend *again = NULL;
    assert_int_equal(sc_backends_open("cpu", 1, be->isa, &again, &err), SC_OK);
    again->free(&again);
    assert_null(again);
    if (strcmp(be->isa, "baseline") != 0) {
        assert_int_equal(sc_backends_open("cpu", 1, "baseline", &again, &err), SC_UNSUPPORTED);
        assert_non_null(strstr(err.text, "oneDNN already runs with another one"));
    }
    be->free(&be);
    assert_null(be);
}

static void test_memory(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 64, 4097, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
    sc_backend *be = open_cpu(2);
    sc_err err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = NULL;
        unsigned char *q = NULL;
        assert_int_equal(be->memory_alloc(be, sizes[i], (void **)&p, &err), SC_OK);
        assert_int_equal(be->memory_alloc(be, sizes[i], (void **)&q, &err), SC_OK);
        assert_int_equal((uintptr_t)p % (sizes[i] >= 2 << 20 ? 4096 : 64), 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal(p[k], 0);
            p[k] = (unsigned char)(k * 7 + 1);
        }
        assert_int_equal(be->copy_to_device(be, NULL, q, p, sizes[i], &err), SC_OK);
        assert_int_equal(memcmp(p, q, sizes[i]), 0);
        assert_int_equal(be->memory_zero(be, NULL, p, sizes[i], &err), SC_OK);
        assert_int_equal(be->copy_to_host(be, NULL, q, p, sizes[i], &err), SC_OK);
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal(q[k], 0);
        }
        be->memory_free(be, p);
        be->memory_free(be, q);
    }
    be->memory_free(be, NULL);
    be->free(&be);
}

/* More than the machine has is refused with the size, and not touched. */
static void test_memory_refuses(void **state)
{
    (void)state;
    sc_backend *be = open_cpu(1);
    sc_err err;
    void *p = NULL;
    assert_int_equal(be->memory_alloc(be, (size_t)1 << 60, &p, &err), SC_NO_MEMORY);
    assert_non_null(strstr(err.text, "1152921504606846976 bytes asked for"));
    assert_null(p);
    be->free(&be);
}

static void test_events(void **state)
{
    (void)state;
    sc_backend *be = open_cpu(1);
    sc_err err;
    sc_stream *stream = NULL;
    sc_event *events[2] = {NULL, NULL};
    bool is_done = true;
    int64_t times[2] = {-1, -1};
    assert_int_equal(be->stream_new(be, &stream, &err), SC_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(be->event_new(be, &events[i], &err), SC_OK);
        assert_int_equal(be->event_query(be, events[i], &is_done, &times[i], &err), SC_OK);
        assert_false(is_done);
        assert_int_equal(times[i], -1);
        assert_int_equal(be->event_record(be, stream, events[i], &err), SC_OK);
        assert_int_equal(be->event_wait(be, stream, events[i], &err), SC_OK);
        assert_int_equal(be->event_query(be, events[i], &is_done, &times[i], &err), SC_OK);
        assert_true(is_done);
    }
    assert_true(times[0] > 0 && times[1] >= times[0]);
    assert_int_equal(be->stream_sync(be, stream, &err), SC_OK);
    be->event_free(be, events[0]);
    be->event_free(be, events[1]);
    be->stream_free(be, stream);
    be->free(&be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes), cmocka_unit_test(test_open),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_memory_refuses),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
