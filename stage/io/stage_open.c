#include "stage/io/stage_open.h"

#include "kernels/backends.h"
#include "proto/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <zmq.h>

enum {
    HEARTBEAT_MS = 200,
    COORDINATOR_LOST_MS = 10000, // ZMTP heartbeats unanswered
    COMPUTE_SLOTS = 64,
    LINGER_MS = 2000
};

static void read_host(sc_stage_loop *loop)
{
    gethostname(loop->host, sizeof loop->host - 1);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, loop->boot_id, sizeof loop->boot_id - 1);
    if (fd >= 0) {
        close(fd);
    }
    loop->boot_id[n > 0 ? n : 0] = '\0';
    loop->boot_id[strcspn(loop->boot_id, "\n")] = '\0';
}

/* What this machine can do, told at Hello. */
static sc_status find_isa(sc_stage_loop *loop, sc_err *err)
{
    const char *isa;
    SC_TRY(sc_backends_find_isa("cpu", &isa, err));
    snprintf(loop->isa, sizeof loop->isa, "%s", isa);
    return SC_OK;
}

static sc_status open_control(sc_stage_loop *loop, sc_err *err)
{
    int64_t max_bytes = SC_CODEC_FRAME_MAX;
    int linger = LINGER_MS;
    int unlimited = 0;
    int heartbeat_ms = 1000;
    int lost_ms = COORDINATOR_LOST_MS;
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
    loop->zmq = zmq_ctx_new();
    loop->control = loop->zmq == NULL ? NULL : zmq_socket(loop->zmq, ZMQ_DEALER);
    if (loop->control == NULL) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ: %s", zmq_strerror(errno));
    }
    zmq_setsockopt(loop->control, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    zmq_setsockopt(loop->control, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(loop->control, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(loop->control, ZMQ_HEARTBEAT_IVL, &heartbeat_ms, sizeof heartbeat_ms);
    zmq_setsockopt(loop->control, ZMQ_HEARTBEAT_TIMEOUT, &lost_ms, sizeof lost_ms);
    if (zmq_socket_monitor(loop->control, "inproc://monitor", events) != 0) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ monitor: %s", zmq_strerror(errno));
    }
    loop->monitor = zmq_socket(loop->zmq, ZMQ_PAIR);
    if (loop->monitor == NULL || zmq_connect(loop->monitor, "inproc://monitor") != 0) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ monitor: %s", zmq_strerror(errno));
    }
    if (zmq_connect(loop->control, loop->config->coordinator) != 0) {
        return sc_status_fail(err, SC_USAGE, "--coordinator %s: %s: give tcp://HOST:PORT",
                              loop->config->coordinator, zmq_strerror(errno));
    }
    return SC_OK;
}

/* The descriptors to poll on: an order of magnitude fewer system calls than zmq_poll. */
static sc_status find_descriptors(sc_stage_loop *loop, sc_err *err)
{
    size_t n = sizeof loop->control_fd;
    if (zmq_getsockopt(loop->control, ZMQ_FD, &loop->control_fd, &n) != 0 ||
        zmq_getsockopt(loop->monitor, ZMQ_FD, &loop->monitor_fd, &n) != 0) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ: %s", zmq_strerror(errno));
    }
    loop->is_control_due = true;
    return SC_OK;
}

static sc_status open_timers(sc_stage_loop *loop, sc_err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    loop->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    loop->heartbeat_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    loop->precise_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->signal_fd < 0 || loop->heartbeat_fd < 0 || loop->precise_fd < 0) {
        return sc_status_errno(err, errno, "timers");
    }
    struct timespec every = {.tv_nsec = HEARTBEAT_MS * 1000000L};
    struct itimerspec spec = {.it_value = every, .it_interval = every};
    timerfd_settime(loop->heartbeat_fd, 0, &spec, NULL);
    return SC_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void sc_stage_open_close(sc_stage_loop *loop)
{
    sc_epoch_free(&loop->epoch);
    sc_arena_done(&loop->in_arena);
    sc_arena_done(&loop->out_arena);
    sc_compute_done(&loop->compute);
    if (loop->monitor != NULL) {
        zmq_close(loop->monitor);
    }
    if (loop->control != NULL) {
        zmq_close(loop->control);
    }
    if (loop->zmq != NULL) {
        zmq_ctx_term(loop->zmq);
    }
    sc_liveness_close(&loop->liveness);
    sc_socket_dir_close(&loop->socket_dir);
    close_fd(loop->signal_fd);
    close_fd(loop->heartbeat_fd);
    close_fd(loop->precise_fd);
}

sc_status sc_stage_open_all(sc_stage_loop *loop, sc_err *err)
{
    loop->signal_fd = loop->heartbeat_fd = loop->precise_fd = loop->liveness.fd = -1;
    read_host(loop);
    SC_TRY(find_isa(loop, err));
    SC_TRY(open_timers(loop, err));
    SC_TRY(sc_compute_init(&loop->compute, COMPUTE_SLOTS, err));
    SC_TRY(sc_liveness_open(&loop->liveness, loop->config->host_address, err));
    SC_TRY(open_control(loop, err));
    return find_descriptors(loop, err);
}
