#include "coordinator/clock.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const int64_t US = 1000;
static const int64_t SECOND = 1000000000;

static void one_boot_id_is_one_clock(void **state)
{
    (void)state;
    sc_clock clock;
    sc_clock_init(&clock, "boot-1", "boot-1");
    sc_clock_add_from_worker(&clock, 5, 1000); // delay is no offset
    sc_clock_add_to_worker(&clock, 5, 1000);
    sc_clock_estimate e = sc_clock_get(&clock, 2000);
    assert_true(e.is_known && e.offset_ns == 0 && e.error_ns == 0);
}

static void unknown_boot_ids_are_not_the_same(void **state)
{
    (void)state;
    sc_clock clock;
    sc_clock_init(&clock, "", "");
    assert_false(sc_clock_get(&clock, 0).is_known);
    sc_clock_init(&clock, "boot-1", "boot-2");
    assert_false(sc_clock_get(&clock, 0).is_known);
}

static void both_directions_are_needed(void **state)
{
    (void)state;
    sc_clock clock;
    sc_clock_init(&clock, "a", "b");
    sc_clock_add_from_worker(&clock, 100, 5000);
    assert_false(sc_clock_get(&clock, 5000).is_known);
    sc_clock_init(&clock, "a", "b");
    sc_clock_add_to_worker(&clock, 5000, 300);
    assert_false(sc_clock_get(&clock, 5000).is_known);
}

static void interval_is_the_delays_middle(void **state)
{
    (void)state;
    // the worker is 1000 behind: offset 1000; delays of 30 and 50
    sc_clock clock;
    sc_clock_init(&clock, "a", "b");
    sc_clock_add_from_worker(&clock, 0, 1030);
    sc_clock_add_to_worker(&clock, 1030, 80);
    sc_clock_estimate e = sc_clock_get(&clock, 1030);
    assert_true(e.is_known);
    assert_true(e.offset_ns == 990 && e.error_ns == 40); // [950, 1030]
    // worse samples change nothing, a better one does
    sc_clock_add_from_worker(&clock, 100, 1200);
    sc_clock_add_to_worker(&clock, 1200, 400);
    e = sc_clock_get(&clock, 1200);
    assert_true(e.offset_ns == 990 && e.error_ns == 41); // they are 170 ns old: 1 ns looser
    sc_clock_add_to_worker(&clock, 1300, 310);           // a delay of 10
    e = sc_clock_get(&clock, 1300);
    assert_true(e.offset_ns == 1010 && e.error_ns == 21); // [990, 1031], rounded up
    sc_clock_add_to_worker(&clock, 1301, 310);
    e = sc_clock_get(&clock, 1301);
    assert_true(e.offset_ns == 1011 && e.error_ns == 20); // [991, 1031]
}

/* Random delays, a worker a day ahead: the true offset is always within the bound, which ends near
   the least delays. */
static void true_offset_is_within_the_bound(void **state)
{
    (void)state;
    const int64_t offset = -86400 * SECOND;
    sc_clock clock;
    sc_clock_init(&clock, "a", "b");
    for (uint64_t i = 0; i < 1000; i++) {
        int64_t now = 1000 * SECOND + (int64_t)i * SECOND / 5;
        int64_t up = 40 * US + (int64_t)(sc_rng_u64(1, 1, i) % 900) * US;
        int64_t down = 60 * US + (int64_t)(sc_rng_u64(1, 2, i) % 900) * US;
        sc_clock_add_from_worker(&clock, now - offset, now + up);
        sc_clock_add_to_worker(&clock, now, now - offset + down);
        sc_clock_estimate e = sc_clock_get(&clock, now + up);
        assert_true(e.is_known);
        assert_true(e.offset_ns - e.error_ns <= offset && offset <= e.offset_ns + e.error_ns);
    }
    sc_clock_estimate e = sc_clock_get(&clock, 1200 * SECOND);
    assert_true(e.error_ns < 300 * US);
}

/* The clocks run apart by 40 ppm: old bounds must give way, and the estimate must follow. */
static void drift_is_followed(void **state)
{
    (void)state;
    sc_clock clock;
    sc_clock_init(&clock, "a", "b");
    for (int64_t i = 0; i < 3600; i++) {
        int64_t now = i * SECOND;
        int64_t offset = 7 * SECOND + now / 1000000 * 40;
        sc_clock_add_from_worker(&clock, now - offset, now + 50 * US);
        sc_clock_add_to_worker(&clock, now, now - offset + 50 * US);
        sc_clock_estimate e = sc_clock_get(&clock, now);
        assert_true(e.offset_ns - e.error_ns <= offset && offset <= e.offset_ns + e.error_ns);
        assert_true(e.error_ns < 200 * US);
    }
}

static void a_bound_loosens_with_age(void **state)
{
    (void)state;
    sc_clock clock;
    sc_clock_init(&clock, "a", "b");
    sc_clock_add_from_worker(&clock, 0, 10);
    sc_clock_add_to_worker(&clock, 0, 10);
    assert_true(sc_clock_get(&clock, 0).error_ns == 10);
    sc_clock_estimate e = sc_clock_get(&clock, 100 * SECOND);
    assert_true(e.offset_ns >= -1 && e.offset_ns <= 1);
    assert_true(e.error_ns >= 5000 * US + 10 && e.error_ns <= 5000 * US + 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_boot_id_is_one_clock),
        cmocka_unit_test(unknown_boot_ids_are_not_the_same),
        cmocka_unit_test(both_directions_are_needed),
        cmocka_unit_test(interval_is_the_delays_middle),
        cmocka_unit_test(true_offset_is_within_the_bound),
        cmocka_unit_test(drift_is_followed),
        cmocka_unit_test(a_bound_loosens_with_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
