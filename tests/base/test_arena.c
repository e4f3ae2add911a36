#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void aligned_zeroed_and_apart(void **state)
{
    (void)state;
    enum {
        N = 500
    };
    sc_arena arena;
    sc_arena_init(&arena, 0);
    unsigned char *pieces[N];
    for (size_t i = 0; i < N; i++) {
        pieces[i] = sc_arena_alloc(&arena, i, 3);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 64, 0);
        for (size_t k = 0; k < 3 * i; k++) {
            assert_int_equal(pieces[i][k], 0);
        }
        memset(pieces[i], (int)(i % 251) + 1, 3 * i);
    }
    /* nobody wrote into another piece */
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < 3 * i; k++) {
            assert_int_equal(pieces[i][k], i % 251 + 1);
        }
    }
    sc_arena_done(&arena);
}

static void larger_than_a_block(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    size_t n = 1 << 20;
    char *small = sc_arena_alloc(&arena, 1, 1);
    char *big = sc_arena_alloc(&arena, n, 1);
    char *after = sc_arena_alloc(&arena, 1, 1);
    assert_non_null(small);
    assert_non_null(big);
    assert_non_null(after);
    memset(big, 1, n);
    assert_int_equal(*small, 0);
    assert_int_equal(*after, 0);
    assert_true(arena.used_bytes >= n + 2);
    sc_arena_done(&arena);
}

static void zero_bytes(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    void *a = sc_arena_alloc(&arena, 0, 8);
    void *b = sc_arena_alloc(&arena, 8, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    sc_arena_done(&arena);
}

static void overflow_is_refused(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    assert_null(sc_arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(sc_arena_alloc(&arena, SIZE_MAX / 2 + 1, 2));
    assert_null(sc_arena_alloc(&arena, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(sc_arena_alloc(&arena, 1, SIZE_MAX - 63));
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(sc_arena_alloc(&arena, 1, 1)); // still usable
    sc_arena_done(&arena);
}

static void limit_is_kept(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 256);
    assert_non_null(sc_arena_alloc(&arena, 100, 1)); // 128 with padding
    assert_null(sc_arena_alloc(&arena, 129, 1));
    assert_non_null(sc_arena_alloc(&arena, 128, 1));
    assert_int_equal(arena.used_bytes, 256);
    assert_null(sc_arena_alloc(&arena, 1, 1));
    sc_arena_done(&arena);
    /* after done the limit counts from zero again */
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(sc_arena_alloc(&arena, 256, 1));
    assert_null(sc_arena_alloc(&arena, 1, 1));
    sc_arena_done(&arena);
}

static void texts_are_copied(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 64);
    char text[] = "abcdef";
    char *copy = sc_arena_strndup(&arena, text, 3);
    text[0] = 'z';
    assert_string_equal(copy, "abc");
    assert_null(sc_arena_strndup(&arena, "x", 1)); // over the limit
    sc_arena_done(&arena);
    sc_arena_init(&arena, 0);
    assert_string_equal(sc_arena_strndup(&arena, "", 0), "");
    sc_arena_done(&arena);
}

static void done_without_use(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_arena_done(&arena);
    sc_arena_done(&arena);
    assert_null(arena.blocks);
}

/* From the second turn on one block serves everything, zeroed again. */
static void reset_keeps_one_block(void **state)
{
    (void)state;
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_arena_reset(&arena);
    assert_null(arena.blocks);
    sc_arena_block *kept = NULL;
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 5; i++) {
            unsigned char *p = sc_arena_alloc(&arena, 30000, 1);
            assert_non_null(p);
            for (int k = 0; k < 30000; k++) {
                assert_int_equal(p[k], 0);
                p[k] = 0xAA;
            }
        }
        if (turn >= 1) {
            assert_true(turn == 1 || arena.blocks == kept);
            kept = arena.blocks;
        }
        sc_arena_reset(&arena);
        assert_int_equal(arena.used_bytes, 0);
    }
    sc_arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_zeroed_and_apart),
        cmocka_unit_test(larger_than_a_block),
        cmocka_unit_test(zero_bytes),
        cmocka_unit_test(overflow_is_refused),
        cmocka_unit_test(limit_is_kept),
        cmocka_unit_test(texts_are_copied),
        cmocka_unit_test(done_without_use),
        cmocka_unit_test(reset_keeps_one_block),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
