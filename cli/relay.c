#include "cli/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void sc_relay_init(sc_relay *relay)
{
    relay->in_fd = -1;
    relay->log_fd = -1;
    relay->shown_fd = -1;
    relay->is_shown = false;
    relay->n_held = 0;
}

sc_status sc_relay_open(sc_relay *relay, int shown_fd, int *out_fd, sc_err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return sc_status_errno(err, errno, "pipe");
    }
    // Only our end must not block; the child's is its standard error.
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    relay->in_fd = fds[0];
    relay->shown_fd = shown_fd;
    *out_fd = fds[1];
    return SC_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void sc_relay_done(sc_relay *relay)
{
    close_fd(&relay->in_fd);
    close_fd(&relay->log_fd);
    sc_relay_init(relay);
}

static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno != EINTR) {
            return;
        }
        if (put > 0) {
            bytes += put;
            n -= (size_t)put;
        }
    }
}

sc_status sc_relay_set_log(sc_relay *relay, const char *path, sc_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        return sc_status_errno(err, errno, "%s", path);
    }
    relay->log_fd = fd;
    write_all(fd, relay->held, relay->n_held);
    relay->n_held = 0;
    return SC_OK;
}

bool sc_relay_show(sc_relay *relay, int fd)
{
    if (!relay->is_shown && relay->n_held > 0) {
        write_all(fd, relay->held, relay->n_held);
        relay->is_shown = true;
    }
    return relay->is_shown;
}

static void carry(sc_relay *relay, const char *bytes, size_t n)
{
    if (relay->shown_fd >= 0) {
        write_all(relay->shown_fd, bytes, n);
        relay->is_shown = true;
    }
    if (relay->log_fd >= 0) {
        write_all(relay->log_fd, bytes, n);
        return;
    }
    size_t room = sizeof relay->held - relay->n_held;
    size_t kept = n < room ? n : room;
    memcpy(relay->held + relay->n_held, bytes, kept);
    relay->n_held += kept;
}

void sc_relay_pump(sc_relay *relay)
{
    char bytes[4096];
    // Bounded, so that a child that never stops talking cannot hold the caller's loop.
    for (int round = 0; round < 64 && relay->in_fd >= 0; round++) {
        ssize_t got = read(relay->in_fd, bytes, sizeof bytes);
        if (got > 0) {
            carry(relay, bytes, (size_t)got);
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_fd(&relay->in_fd);
        } else if (errno == EAGAIN) {
            return;
        }
    }
}
