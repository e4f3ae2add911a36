/* Ten steps of AdamW have the same bits in every layout. The arguments are numbers of microbatches.
 */
#include "tests/multiproc/layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char **arguments; // numbers of microbatches, NULL-terminated

static void every_layout(void **state)
{
    (void)state;
    for (char **argument = arguments; *argument != NULL; argument++) {
        sc_jobs_config config = sc_jobs_small((int)strtol(*argument, NULL, 10));
        assert_in_range(config.m, 1, SC_JOBS_MB_MAX);
        config.optimizer = SC_JOBS_ADAMW;
        config.steps = 10;
        sc_layouts_expect_same(&config, sc_layouts_all, SC_LAYOUTS_COUNT);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout)};
    if (argc < 2) {
        fprintf(stderr, "%s MICROBATCHES...\n", argv[0]);
        return 2;
    }
    arguments = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
