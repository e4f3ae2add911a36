#include "base/spsc.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

sc_status sc_spsc_init(sc_spsc *q, size_t item_bytes, size_t n_slots, sc_err *err)
{
    memset(q, 0, sizeof *q);
    q->event_fd = -1;
    q->item_bytes = item_bytes;
    q->n_slots = 1;
    while (q->n_slots < n_slots) {
        q->n_slots *= 2;
    }
    q->ring = calloc(q->n_slots, item_bytes);
    if (q->ring == NULL) {
        return sc_status_errno(err, ENOMEM, "queue of %zu items", n_slots);
    }
    q->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->event_fd < 0) {
        int error = errno;
        sc_spsc_done(q);
        return sc_status_errno(err, error, "eventfd");
    }
    return SC_OK;
}

void sc_spsc_done(sc_spsc *q)
{
    if (q->ring != NULL) {
        free(q->ring);
        q->ring = NULL;
        if (q->event_fd >= 0) {
            close(q->event_fd);
        }
    }
    q->event_fd = -1;
}

bool sc_spsc_push(sc_spsc *q, const void *item)
{
    size_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    if (tail - head == q->n_slots) {
        return false;
    }
    memcpy(q->ring + (tail & (q->n_slots - 1)) * q->item_bytes, item, q->item_bytes);
    atomic_store_explicit(&q->tail, tail + 1, memory_order_release);
    uint64_t one = 1;
    /* EAGAIN means that the counter is at its maximum: the popper is woken anyway */
    while (write(q->event_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    return true;
}

bool sc_spsc_pop(sc_spsc *q, void *item)
{
    size_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&q->tail, memory_order_acquire);
    if (head == tail) {
        return false;
    }
    memcpy(item, q->ring + (head & (q->n_slots - 1)) * q->item_bytes, q->item_bytes);
    atomic_store_explicit(&q->head, head + 1, memory_order_release);
    return true;
}

void sc_spsc_clear(sc_spsc *q)
{
    uint64_t count;
    while (read(q->event_fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

void sc_spsc_wait(sc_spsc *q)
{
    struct pollfd p = {.fd = q->event_fd, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
    sc_spsc_clear(q);
}
