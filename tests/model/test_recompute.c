#include "model/recompute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_LAYER = 12
};

static void text_comes_back(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "none", "selective", "full", "0", "11", "0,3,4", "0,1,2,3,4,5,6,7,8,9,10,11"};
    sc_arena arena;
    sc_arena_init(&arena, 0);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        sc_recompute parsed;
        const char *text = NULL;
        assert_int_equal(sc_recompute_parse(TEXTS[i], N_LAYER, &arena, &parsed, NULL), SC_OK);
        assert_int_equal(sc_recompute_format(&parsed, &arena, &text, NULL), SC_OK);
        assert_string_equal(text, TEXTS[i]);
    }
    const sc_recompute empty = {.kind = SC_RECOMPUTE_BLOCKS};
    const char *text = NULL;
    assert_int_equal(sc_recompute_format(&empty, &arena, &text, NULL), SC_OK);
    assert_string_equal(text, "none");
    sc_arena_done(&arena);
}

static void blocks_are_found(void **state)
{
    (void)state;
    static const int BLOCKS[] = {0, 3, 4};
    const sc_recompute some = {.kind = SC_RECOMPUTE_BLOCKS, .blocks = BLOCKS, .n_blocks = 3};
    for (int block = 0; block < N_LAYER; block++) {
        bool is_listed = block == 0 || block == 3 || block == 4;
        assert_int_equal(sc_recompute_of(&some, block),
                         is_listed ? SC_RECOMPUTE_FULL : SC_RECOMPUTE_NONE);
        assert_int_equal(sc_recompute_of(&(sc_recompute){.kind = SC_RECOMPUTE_SELECTIVE}, block),
                         SC_RECOMPUTE_SELECTIVE);
        assert_int_equal(sc_recompute_of(&(sc_recompute){.kind = SC_RECOMPUTE_FULL}, block),
                         SC_RECOMPUTE_FULL);
    }
}

static void bad_texts_are_refused(void **state)
{
    (void)state;
    static const char *const TEXTS[][2] = {
        {"", "recompute '': at '' no block of a model with 12"},
        {"half", "recompute 'half': at 'half' no block of a model with 12"},
        {"full ", "recompute 'full ': at 'full ' no block of a model with 12"},
        {"1,", "recompute '1,': at '' no block of a model with 12"},
        {"1;2", "recompute '1;2': at ';2' no block of a model with 12"},
        {"1,,2", "recompute '1,,2': at ',2' no block of a model with 12"},
        {"-1", "recompute '-1': at '-1' no block of a model with 12"},
        {"12", "recompute '12': at '12' no block of a model with 12"},
        {"3,99999999999999999999",
         "recompute '3,99999999999999999999': at '999999999999' no block of a model with 12"},
        {"3,3", "block 3 after block 3; list each once, in rising order"},
        {"4,3", "block 3 after block 4; list each once, in rising order"},
        {"0,0,0,0,0,0,0,0,0,0,0,0,0",
         "recompute '0,0,0,0,0,0,0,0,0,0,0,0,0': at '0' no block of a model with 12"},
    };
    sc_arena arena;
    sc_arena_init(&arena, 0);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        sc_recompute parsed;
        sc_err err = {0};
        assert_int_equal(sc_recompute_parse(TEXTS[i][0], N_LAYER, &arena, &parsed, &err),
                         SC_INVALID);
        assert_string_equal(err.text, TEXTS[i][1]);
    }
    sc_arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_comes_back),
        cmocka_unit_test(blocks_are_found),
        cmocka_unit_test(bad_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
