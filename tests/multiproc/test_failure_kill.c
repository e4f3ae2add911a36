/* A worker is killed in each kind of moment: named as dead at once, and nothing is left. */
#include "tests/multiproc/failure.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_during_a_forward(void **state)
{
    (void)state;
    const sc_failure_case failure = {.who = "rank 1",
                                     .doing = "action 1F0",
                                     .but = "waiting",
                                     .next = "action 1F1",
                                     .signal = SIGKILL,
                                     .report = "is dead: step 0, "};
    sc_failure_expect_named(&failure);
}

static void test_during_a_backward(void **state)
{
    (void)state;
    const sc_failure_case failure = {.who = "rank 2",
                                     .doing = "action 2B0",
                                     .but = "waiting",
                                     .next = "action 2F1",
                                     .signal = SIGKILL,
                                     .report = "is dead: step 0, "};
    sc_failure_expect_named(&failure);
}

static void test_while_it_waits(void **state)
{
    (void)state;
    const sc_failure_case failure = {.who = "rank 0",
                                     .doing = "action 0B0, waiting for rank 1",
                                     .next = "action 0B0",
                                     .signal = SIGKILL,
                                     .report = "is dead: step 0, "};
    sc_failure_expect_named(&failure);
}

static void test_in_a_later_step_by_a_fault(void **state)
{
    (void)state;
    const sc_failure_case failure = {.who = "rank 2",
                                     .doing = "step 1, action 2B1",
                                     .but = "waiting",
                                     .next = "step 1, tail",
                                     .signal = SIGSEGV,
                                     .report = "is dead: step 1, "};
    sc_failure_expect_named(&failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_during_a_forward),
        cmocka_unit_test(test_during_a_backward),
        cmocka_unit_test(test_while_it_waits),
        cmocka_unit_test(test_in_a_later_step_by_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
