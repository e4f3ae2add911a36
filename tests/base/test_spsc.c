#include "base/spsc.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum {
    N_ITEMS = 100000
};

typedef struct item {
    uint64_t number;
    uint64_t check; // a torn or stale copy does not fit
    char pad[24];
} item;

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void full_and_empty(void **state)
{
    (void)state;
    for (size_t n_asked = 1; n_asked <= 9; n_asked++) {
        sc_spsc q;
        assert_int_equal(sc_spsc_init(&q, sizeof(int), n_asked, NULL), SC_OK);
        size_t n_slots = q.n_slots;
        assert_true(n_slots >= n_asked && n_slots < 2 * n_asked);
        assert_int_equal(n_slots & (n_slots - 1), 0);
        int value = -1;
        assert_false(sc_spsc_pop(&q, &value));
        /* several rounds, so that the indices pass the ring's end */
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < (int)n_slots; i++) {
                assert_true(sc_spsc_push(&q, &(int){round * 100 + i}));
            }
            assert_false(sc_spsc_push(&q, &(int){-5}));
            for (int i = 0; i < (int)n_slots; i++) {
                assert_true(sc_spsc_pop(&q, &value));
                assert_int_equal(value, round * 100 + i);
            }
            assert_false(sc_spsc_pop(&q, &value));
        }
        sc_spsc_done(&q);
    }
}

static void one_slot_free_is_enough(void **state)
{
    (void)state;
    sc_spsc q;
    assert_int_equal(sc_spsc_init(&q, sizeof(int), 4, NULL), SC_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(sc_spsc_push(&q, &i));
    }
    for (int i = 4; i < 50; i++) {
        int value = -1;
        assert_true(sc_spsc_pop(&q, &value));
        assert_int_equal(value, i - 4);
        assert_true(sc_spsc_push(&q, &i));
        assert_false(sc_spsc_push(&q, &i));
    }
    sc_spsc_done(&q);
}

static void event_follows_pushes(void **state)
{
    (void)state;
    sc_spsc q;
    assert_int_equal(sc_spsc_init(&q, sizeof(int), 4, NULL), SC_OK);
    assert_false(is_readable(q.event_fd));
    sc_spsc_clear(&q); // nothing to clear: does not block
    assert_true(sc_spsc_push(&q, &(int){1}));
    assert_true(sc_spsc_push(&q, &(int){2}));
    assert_true(is_readable(q.event_fd));
    int value;
    assert_true(sc_spsc_pop(&q, &value));
    assert_true(is_readable(q.event_fd)); // popping alone does not clear
    sc_spsc_clear(&q);
    assert_false(is_readable(q.event_fd));
    assert_true(sc_spsc_push(&q, &(int){3}));
    sc_spsc_wait(&q); // returns at once, and clears
    assert_false(is_readable(q.event_fd));
    sc_spsc_done(&q);
}

static void done_twice_and_zeroed(void **state)
{
    (void)state;
    sc_spsc q;
    memset(&q, 0, sizeof q);
    sc_spsc_done(&q);
    assert_int_equal(sc_spsc_init(&q, 8, 2, NULL), SC_OK);
    sc_spsc_done(&q);
    sc_spsc_done(&q);
    assert_int_equal(q.event_fd, -1);
}

typedef struct pair {
    sc_spsc there;
    sc_spsc back;
} pair;

/* Pushes all numbers; a full queue is waited for through the other queue's answers. */
static void *push_all(void *arg)
{
    pair *p = arg;
    uint64_t n_open = 0; // pushed and not yet answered
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        item it = {.number = i, .check = ~i * 3};
        memset(it.pad, (int)(i % 100), sizeof it.pad);
        while (!sc_spsc_push(&p->there, &it)) {
            uint64_t n = 0;
            sc_spsc_wait(&p->back);
            while (sc_spsc_pop(&p->back, &n)) {
                n_open -= n;
            }
        }
        n_open++;
    }
    return (void *)(uintptr_t)n_open;
}

static void two_threads_in_order(void **state)
{
    (void)state;
    pair p;
    assert_int_equal(sc_spsc_init(&p.there, sizeof(item), 64, NULL), SC_OK);
    assert_int_equal(sc_spsc_init(&p.back, sizeof(uint64_t), N_ITEMS, NULL), SC_OK);
    pthread_t pusher;
    assert_int_equal(pthread_create(&pusher, NULL, push_all, &p), 0);
    uint64_t next = 0;
    bool is_right = true; // asserting in the loop would leave the pusher behind
    while (next < N_ITEMS) {
        sc_spsc_wait(&p.there);
        item it;
        uint64_t n = 0;
        while (sc_spsc_pop(&p.there, &it)) {
            is_right = is_right && it.number == next && it.check == ~next * 3 &&
                       it.pad[0] == (char)(next % 100) && it.pad[23] == it.pad[0];
            next++;
            n++;
        }
        if (n > 0) {
            is_right = sc_spsc_push(&p.back, &n) && is_right;
        }
    }
    void *n_open = NULL;
    pthread_join(pusher, &n_open);
    assert_true(is_right);
    assert_true((uintptr_t)n_open <= N_ITEMS);
    item it;
    assert_false(sc_spsc_pop(&p.there, &it));
    sc_spsc_done(&p.there);
    sc_spsc_done(&p.back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_and_empty),       cmocka_unit_test(one_slot_free_is_enough),
        cmocka_unit_test(event_follows_pushes), cmocka_unit_test(done_twice_and_zeroed),
        cmocka_unit_test(two_threads_in_order),
    };
    return cmocka_run_group_tests_name("spsc", tests, NULL, NULL);
}
