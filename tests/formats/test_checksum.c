/* The published algorithm: known values, and no difference however a stream is cut. */
#include "formats/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    BYTES = 200
};

static void fill(unsigned char bytes[BYTES])
{
    uint32_t x = 1;
    for (int i = 0; i < BYTES; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (unsigned char)(x >> 24);
    }
}

static void known_values(void **state)
{
    (void)state;
    assert_true(sc_checksum_of("", 0) == UINT64_C(0xef46db3751d8e999));
    assert_true(sc_checksum_of("a", 1) == UINT64_C(0xd24ec4f1a98c6e5b));
    assert_true(sc_checksum_of("abc", 3) == UINT64_C(0x44bc2cf5ad770999));
    const char *text = "Nobody inspects the spammish repetition";
    assert_true(sc_checksum_of(text, strlen(text)) == UINT64_C(0xfbcea83c8a378bf1));
}

static void every_cut_gives_the_same(void **state)
{
    (void)state;
    unsigned char bytes[BYTES];
    fill(bytes);
    uint64_t whole = sc_checksum_of(bytes, BYTES);
    for (size_t a = 0; a <= BYTES; a++) {
        for (size_t b = a; b <= BYTES; b += 1 + b % 7) {
            sc_checksum sum;
            sc_checksum_init(&sum);
            sc_checksum_add(&sum, bytes, a);
            sc_checksum_add(&sum, bytes + a, b - a);
            assert_true(sc_checksum_get(&sum) == sc_checksum_of(bytes, b));
            sc_checksum_add(&sum, bytes + b, BYTES - b);
            assert_true(sc_checksum_get(&sum) == whole);
        }
    }
}

static void every_changed_bit_is_seen(void **state)
{
    (void)state;
    unsigned char bytes[BYTES];
    fill(bytes);
    for (size_t n = 1; n <= 80; n++) {
        uint64_t right = sc_checksum_of(bytes, n);
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
            assert_true(sc_checksum_of(bytes, n) != right);
            bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(every_changed_bit_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
