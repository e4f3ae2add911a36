/* The header: what was packed is unpacked; every cut and every changed fixed field is refused. */
#include "stage/comm/comm_host_wire.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static sc_comm_wire sample(void)
{
    sc_comm_wire wire;
    memset(&wire, 0, sizeof wire);
    wire.type = SC_COMM_WIRE_DATA;
    wire.epoch = 0x1122334455667788;
    wire.rank = 0xfffffffe;
    wire.from = -3;
    wire.to = 4095;
    wire.kind = SC_COMM_GRADIENT;
    wire.tag = (sc_comm_tag){.step = UINT64_MAX, .stage = 12, .mb = -1};
    wire.sequence = 77;
    wire.offset = 1ULL << 40;
    wire.total = 1000;
    wire.ready_ns = -5;
    wire.n_tensors = 2;
    wire.tensors[0] = (sc_comm_tensor){.dtype = SC_DTYPE_BF16, .n_bytes = 600};
    wire.tensors[1] = (sc_comm_tensor){.dtype = SC_DTYPE_I32, .n_bytes = 400};
    return wire;
}

static void test_round_trip(void **state)
{
    (void)state;
    unsigned char bytes[SC_COMM_WIRE_BYTES_MAX];
    sc_comm_wire in = sample();
    sc_comm_wire out;
    memset(&out, 0xff, sizeof out);
    size_t n = sc_comm_host_wire_pack(&in, bytes);
    assert_int_equal(n, SC_COMM_WIRE_FIXED_BYTES + 2 * SC_COMM_WIRE_TENSOR_BYTES);
    assert_memory_equal(bytes, "SCD1", 4);
    assert_int_equal(sc_comm_host_wire_unpack(bytes, n, &out, NULL), SC_OK);
    unsigned char again[SC_COMM_WIRE_BYTES_MAX];
    assert_int_equal(sc_comm_host_wire_pack(&out, again), n);
    assert_memory_equal(bytes, again, n);
    assert_int_equal(out.tag.mb, -1);
    assert_int_equal(out.from, -3);
    assert_int_equal(out.ready_ns, -5);
    assert_int_equal(out.tensors[1].n_bytes, 400);
}

static void test_cut_and_longer(void **state)
{
    (void)state;
    unsigned char bytes[SC_COMM_WIRE_BYTES_MAX + 1] = {0};
    sc_comm_wire wire = sample();
    sc_comm_wire out;
    sc_err err;
    size_t n = sc_comm_host_wire_pack(&wire, bytes);
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        sc_status status = sc_comm_host_wire_unpack(bytes, cut, &out, &err);
        assert_int_equal(status, cut == n ? SC_OK : SC_PROTOCOL);
    }
}

static void refuse(size_t at, unsigned char byte, const char *text)
{
    unsigned char bytes[SC_COMM_WIRE_BYTES_MAX];
    sc_comm_wire wire = sample();
    sc_comm_wire out;
    sc_err err;
    size_t n = sc_comm_host_wire_pack(&wire, bytes);
    bytes[at] = byte;
    assert_int_equal(sc_comm_host_wire_unpack(bytes, n, &out, &err), SC_PROTOCOL);
    if (strstr(err.text, text) == NULL) {
        fail_msg("'%s' is not in '%s'", text, err.text);
    }
}

static void test_refused(void **state)
{
    (void)state;
    size_t tensors = SC_COMM_WIRE_FIXED_BYTES;
    refuse(0, 'X', "not with the magic");
    refuse(4, 2, "header has version 2, this is version 1");
    refuse(6, 0, "type 0");
    refuse(6, 8, "type 8");
    refuse(6, SC_COMM_WIRE_CREDIT, "credit frame with 2 tensors");
    refuse(7, 0, "header of 112 bytes with 0 tensors");
    refuse(7, 255, "header of 112 bytes with 255 tensors");
    refuse(28, 3, "kind 3");
    refuse(64, 0xe9, "1 bytes short of the total 1001");
    refuse(64, 0xe7, "tensor 1 of 2 has dtype 3 and 400 bytes, 399 are left");
    refuse(tensors, SC_DTYPE_COUNT, "tensor 0 of 2 has dtype");
    refuse(tensors + 15, 1, "tensor 0 of 2");
}

/* Whatever the bytes, it returns; what it takes, it packs back to the same bytes. */
static void test_noise(void **state)
{
    (void)state;
    unsigned char bytes[SC_COMM_WIRE_BYTES_MAX];
    unsigned char again[SC_COMM_WIRE_BYTES_MAX];
    sc_comm_wire wire = sample();
    sc_comm_wire out;
    int n_taken = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        size_t n = sc_comm_host_wire_pack(&wire, bytes);
        for (uint64_t j = 0; j < 1 + i % 3; j++) {
            uint64_t r = sc_rng_u64(5, i, j);
            bytes[r % n] = (unsigned char)(r >> 32);
        }
        if (sc_comm_host_wire_unpack(bytes, n, &out, NULL) == SC_OK) {
            n_taken++;
            assert_int_equal(sc_comm_host_wire_pack(&out, again), n);
            assert_memory_equal(bytes, again, n);
        }
    }
    assert_in_range(n_taken, 1000, 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_cut_and_longer),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
