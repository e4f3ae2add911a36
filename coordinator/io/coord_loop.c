#include "coordinator/io/coord_loop.h"

#include "base/log.h"
#include "coordinator/io/coord.h"
#include "proto/codec.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum {
    TICK_MS = 100,
    SETUP_SECONDS = 300, // first touch of memory takes 1-3 s a GB
    FAREWELL_MS = 5000,  // longest wait for the workers' BYE
    LINGER_MS = 1000,
    FIXED_POLL_ITEMS = 3, // router, monitor, signals
    POLL_ITEMS_MAX = FIXED_POLL_ITEMS + 64,
    MESSAGES_A_TURN = 256,
    BACKLOG_MESSAGES = 4096, // kept for a peer that does not read; what comes beyond is lost to it
    ARENA_FRAMES = 8         // an unpacked message may take several times its frame
};

int64_t sc_coord_loop_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool is_loopback(const char *endpoint)
{
    return strncmp(endpoint, "tcp://127.", 10) == 0 ||
           strncmp(endpoint, "tcp://localhost:", 16) == 0 || strncmp(endpoint, "ipc://", 6) == 0;
}

static sc_status open_router(sc_coord *c, sc_err *err)
{
    const char *listen = c->config->listen;
    if (!is_loopback(listen) && !c->config->is_insecure) {
        return sc_status_fail(
            err, SC_USAGE,
            "--listen %s reaches beyond this host and nothing authenticates peers: "
            "listen on tcp://127.0.0.1:PORT, or give --insecure on a network you trust",
            listen);
    }
    c->zmq = zmq_ctx_new();
    c->router = c->zmq == NULL ? NULL : zmq_socket(c->zmq, ZMQ_ROUTER);
    if (c->router == NULL) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ: %s", zmq_strerror(errno));
    }
    int yes = 1;
    int backlog = BACKLOG_MESSAGES;
    int64_t max_bytes = SC_CODEC_FRAME_MAX;
    int linger = LINGER_MS;
    zmq_setsockopt(c->router, ZMQ_ROUTER_MANDATORY, &yes, sizeof yes);
    zmq_setsockopt(c->router, ZMQ_SNDHWM, &backlog, sizeof backlog);
    zmq_setsockopt(c->router, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    zmq_setsockopt(c->router, ZMQ_LINGER, &linger, sizeof linger);
    if (zmq_socket_monitor(c->router, "inproc://monitor", ZMQ_EVENT_DISCONNECTED) != 0) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ monitor: %s", zmq_strerror(errno));
    }
    c->monitor = zmq_socket(c->zmq, ZMQ_PAIR);
    if (c->monitor == NULL || zmq_connect(c->monitor, "inproc://monitor") != 0) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ monitor: %s", zmq_strerror(errno));
    }
    if (zmq_bind(c->router, listen) != 0) {
        bool is_taken = errno == EADDRINUSE;
        return sc_status_fail(err, SC_IO, "--listen %s: %s%s", listen, zmq_strerror(errno),
                              is_taken
                                  ? ": stop who holds the port, or use tcp://127.0.0.1:* to get a "
                                    "free one"
                                  : "");
    }
    return SC_OK;
}

static sc_status open_signals(sc_coord *c, sc_err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return c->signal_fd >= 0 ? SC_OK : sc_status_errno(err, errno, "signalfd");
}

/* One JSON line for whoever started us. */
static sc_status tell_starter(sc_coord *c, const char *endpoint, sc_err *err)
{
    cJSON *object = cJSON_CreateObject();
    bool is_whole =
        cJSON_AddStringToObject(object, "endpoint", endpoint) != NULL &&
        cJSON_AddStringToObject(object, "run_dir", sc_store_path(c->config->store)) != NULL &&
        cJSON_AddNumberToObject(object, "n_workers", c->plan->n_ranks) != NULL &&
        cJSON_AddNumberToObject(object, "threads", c->job->threads) != NULL &&
        cJSON_AddBoolToObject(object, "pin", c->job->pin) != NULL;
    char *text = is_whole ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (text == NULL) {
        return sc_status_errno(err, ENOMEM, "--announce");
    }
    dprintf(c->config->announce_fd, "%s\n", text);
    free(text);
    close(c->config->announce_fd);
    c->config->announce_fd = -1;
    return SC_OK;
}

static sc_status announce(sc_coord *c, sc_err *err)
{
    char endpoint[256];
    size_t n = sizeof endpoint;
    if (zmq_getsockopt(c->router, ZMQ_LAST_ENDPOINT, endpoint, &n) != 0) {
        return sc_status_fail(err, SC_FAILED, "ZeroMQ endpoint: %s", zmq_strerror(errno));
    }
    const char *run_dir = sc_store_path(c->config->store);
    SC_LOG_INFO("job %s: listening on %s, run folder %s, waiting for %d workers", c->job->name,
                endpoint, run_dir, c->plan->n_ranks);
    if (c->config->resume != NULL) {
        SC_LOG_INFO("resuming from %s at step %llu", c->config->resume->folder,
                    (unsigned long long)c->config->resume->step);
    }
    if (c->config->resume != NULL && c->config->resume->differences[0] != '\0') {
        SC_LOG_WARN("%s: losses will not be those of a run without interruption",
                    c->config->resume->differences);
    }
    char line[512];
    snprintf(line, sizeof line, "%s\n", endpoint);
    SC_TRY(sc_store_write(c->config->store, "endpoint", line, err));
    return c->config->announce_fd < 0 ? SC_OK : tell_starter(c, endpoint, err);
}

/* One [identity, frame] pair. Anything else is logged and dropped; nothing a stranger sends ends
 * the job. */
static bool take_message(sc_coord *c)
{
    zmq_msg_t id;
    zmq_msg_t body;
    zmq_msg_init(&id);
    if (zmq_msg_recv(&id, c->router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&id);
        return false;
    }
    zmq_msg_init(&body);
    bool has_body = zmq_msg_more(&id) && zmq_msg_recv(&body, c->router, ZMQ_DONTWAIT) >= 0;
    bool is_whole = has_body && !zmq_msg_more(&body);
    int fd = has_body ? zmq_msg_get(&body, ZMQ_SRCFD) : -1;
    sc_arena_reset(&c->in_arena);
    sc_msg msg;
    sc_err err = {.text = "not a single frame"};
    if (is_whole && sc_codec_unpack(zmq_msg_data(&body), zmq_msg_size(&body), &c->in_arena, &msg,
                                    &err) == SC_OK) {
        sc_coord_handle_message(c, zmq_msg_data(&id), zmq_msg_size(&id), fd, &msg);
    } else {
        SC_LOG_WARN("control port: a message of %zu bytes is not ours (%s), ignoring",
                    has_body ? zmq_msg_size(&body) : 0, err.text);
        while (has_body && zmq_msg_more(&body)) {
            zmq_msg_close(&body);
            zmq_msg_init(&body);
            has_body = zmq_msg_recv(&body, c->router, ZMQ_DONTWAIT) >= 0;
        }
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return true;
}

static void take_monitor_events(sc_coord *c)
{
    for (;;) {
        unsigned char event[6];
        char address[512];
        if (zmq_recv(c->monitor, event, sizeof event, ZMQ_DONTWAIT) < 0) {
            return;
        }
        zmq_recv(c->monitor, address, sizeof address, ZMQ_DONTWAIT);
        uint16_t number;
        int32_t fd;
        memcpy(&number, event, sizeof number);
        memcpy(&fd, event + 2, sizeof fd);
        if (number == ZMQ_EVENT_DISCONNECTED) {
            sc_coord_handle_disconnect(c, fd);
        }
    }
}

static void take_signals(sc_coord *c)
{
    struct signalfd_siginfo info;
    while (read(c->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        char text[64];
        snprintf(text, sizeof text, "stopped by %s",
                 info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
        sc_steploop_finish(&c->steps, SC_INTERRUPTED, text);
    }
}

static void serve_probes(sc_coord *c, int64_t now_ns)
{
    for (int i = 0; i < c->n_peers; i++) {
        sc_coord_peer *peer = &c->peers[i];
        sc_probe_outcome outcome;
        if (peer->is_used && peer->probe.fd >= 0 &&
            sc_probe_continue(&peer->probe, now_ns, &outcome)) {
            sc_membership_probed(c->membership, i, outcome, now_ns);
        }
    }
}

static void tick(sc_coord *c)
{
    enum {
        EFFECTS = 16
    };
    sc_membership_effect effects[EFFECTS];
    int64_t now_ns = sc_coord_loop_now_ns();
    serve_probes(c, now_ns);
    int n;
    do {
        n = sc_membership_tick(c->membership, now_ns, effects, EFFECTS);
        for (int i = 0; i < n; i++) {
            sc_coord_handle_membership(c, &effects[i]);
        }
    } while (n == EFFECTS);
    sc_steploop_tick(&c->steps, now_ns);
}

static void poll_once(sc_coord *c)
{
    zmq_pollitem_t items[POLL_ITEMS_MAX] = {
        {.socket = c->router, .events = ZMQ_POLLIN},
        {.socket = c->monitor, .events = ZMQ_POLLIN},
        {.fd = c->signal_fd, .events = ZMQ_POLLIN},
    };
    int n = FIXED_POLL_ITEMS;
    for (int i = 0; i < c->n_peers && n < POLL_ITEMS_MAX; i++) {
        const sc_coord_peer *peer = &c->peers[i];
        if (peer->is_used && peer->probe.fd >= 0) {
            items[n++] =
                (zmq_pollitem_t){.fd = peer->probe.fd,
                                 .events = peer->probe.is_connected ? ZMQ_POLLIN : ZMQ_POLLOUT};
        }
    }
    zmq_poll(items, n, TICK_MS);
    for (int i = 0; i < MESSAGES_A_TURN && take_message(c); i++) {
    }
    take_monitor_events(c);
    take_signals(c);
    tick(c);
    sc_coord_act_all(c);
}

/* Hosts with the same boot id share a clock. */
static void read_boot_id(sc_coord *c)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, c->boot_id, sizeof c->boot_id - 1);
    if (fd >= 0) {
        close(fd);
    }
    c->boot_id[n > 0 ? n : 0] = '\0';
    c->boot_id[strcspn(c->boot_id, "\n")] = '\0';
}

static sc_status open_state(sc_coord *c, sc_err *err)
{
    size_t n = (size_t)c->plan->n_ranks;
    sc_arena_init(&c->arena, 0);
    sc_arena_init(&c->out_arena, 0);
    sc_arena_init(&c->in_arena, ARENA_FRAMES * (size_t)SC_CODEC_FRAME_MAX);
    c->peers = calloc(SC_COORD_PEERS_MAX, sizeof *c->peers);
    c->peer_of_rank = sc_arena_alloc(&c->arena, n, sizeof *c->peer_of_rank);
    c->clock_offsets = sc_arena_alloc(&c->arena, n, sizeof *c->clock_offsets);
    c->offsets = sc_arena_alloc(&c->arena, n, sizeof *c->offsets);
    c->step_numbers = sc_arena_alloc(&c->arena, SC_STEPLOOP_WINDOW * n, sizeof *c->step_numbers);
    if (c->peers == NULL || c->peer_of_rank == NULL || c->step_numbers == NULL ||
        c->clock_offsets == NULL || c->offsets == NULL) {
        return sc_status_errno(err, ENOMEM, "tables of %zu ranks", n);
    }
    read_boot_id(c);
    SC_TRY(sc_membership_new(SC_COORD_PEERS_MAX, (int64_t)(c->job->stuck_seconds * 1e9),
                             &c->membership, err));
    sc_steploop_config steps = {.n_ranks = c->plan->n_ranks, .n_steps = (uint64_t)c->job->steps};
    steps.wait_ns = (int64_t)(c->job->wait_seconds * 1e9);
    steps.setup_ns = SETUP_SECONDS * 1000000000LL;
    steps.start_ns = sc_coord_loop_now_ns();
    steps.first_step = c->config->resume == NULL ? 0 : c->config->resume->step;
    SC_TRY(sc_steploop_init(&c->steps, &steps, &c->arena, err));
    return sc_coord_swap_open(c, err);
}

static void close_all(sc_coord *c)
{
    for (int i = 0; c->peers != NULL && i < c->n_peers; i++) {
        sc_coord_peers_drop(c, &c->peers[i]);
    }
    if (c->monitor != NULL) {
        zmq_close(c->monitor);
    }
    if (c->router != NULL) {
        zmq_close(c->router);
    }
    if (c->zmq != NULL) {
        zmq_ctx_term(c->zmq);
    }
    if (c->signal_fd >= 0) {
        close(c->signal_fd);
    }
    sc_coord_save_close(c);
    sc_coord_swap_close(c);
    free(c->summary);
    free(c->peers);
    sc_membership_free(&c->membership);
    sc_arena_done(&c->arena);
    sc_arena_done(&c->out_arena);
    sc_arena_done(&c->in_arena);
}

/* Every worker said farewell, or has had its time. */
static bool is_farewell_over(const sc_coord *c)
{
    return c->is_over && (sc_coord_peers_count_workers(c) == 0 ||
                          sc_coord_loop_now_ns() - c->over_ns > FAREWELL_MS * 1000000LL);
}

sc_status sc_coord_loop_run(sc_coord_config *config, sc_err *err)
{
    sc_status status = SC_OK;
    sc_coord *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return sc_status_errno(err, ENOMEM, "coordinator");
    }
    c->config = config;
    c->job = config->job;
    c->plan = config->plan;
    c->signal_fd = -1;
    SC_GOTO(open_state(c, err));
    SC_GOTO(open_signals(c, err));
    SC_GOTO(open_router(c, err));
    SC_GOTO(sc_store_open(config->runs_dir, config->name, &config->store, err));
    SC_GOTO(sc_coord_save_open(c, err));
    SC_GOTO(sc_coord_record_start(c, err));
    SC_GOTO(announce(c, err));
    while (!is_farewell_over(c)) {
        poll_once(c);
    }
    status = c->status;
    if (err != NULL) {
        *err = c->err;
    }
out:
    close_all(c);
    free(c);
    return status;
}
