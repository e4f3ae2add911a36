#include "stage/io/stage_loop.h"

#include "base/log.h"
#include "proto/codec.h"
#include "stage/io/stage_open.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <zmq.h>

enum {
    POLL_CONTROL,
    POLL_MONITOR,
    POLL_SIGNALS,
    POLL_LIVENESS,
    POLL_HEARTBEAT,
    POLL_PRECISE,
    POLL_COMPUTE,
    POLL_COMM,
    POLL_SHARD,
    POLL_COUNT
};

static void end(sc_stage_loop *loop, sc_status status, const char *text)
{
    if (!loop->is_over) {
        loop->is_over = true;
        loop->status = status;
        sc_status_fail(&loop->err, status, "%s", text);
    }
}

static void send_message(sc_stage_loop *loop, sc_msg *msg)
{
    const unsigned char *bytes;
    size_t n;
    sc_err err;
    msg->seq = ++loop->seq;
    loop->is_control_due = true;
    sc_arena_reset(&loop->out_arena);
    if (sc_codec_pack(msg, &loop->out_arena, &bytes, &n, &err) != SC_OK) {
        end(loop, SC_FAILED, err.text);
        return;
    }
    if (zmq_send(loop->control, bytes, n, ZMQ_DONTWAIT) < 0) {
        SC_LOG_WARN("control message %s: %s, ignoring", sc_codec_type_text(msg->type),
                    zmq_strerror(errno));
    }
}

static void send_fail(sc_stage_loop *loop, const sc_err *failure, uint64_t epoch, uint64_t step)
{
    char action[SC_ACTION_TEXT_MAX] = "";
    int peer;
    if (loop->epoch != NULL) {
        sc_epoch_step_current(loop->epoch, action, sizeof action, &peer);
    }
    SC_LOG_ERROR("%s", failure->text);
    sc_msg msg = {.type = SC_MSG_FAIL, .u.fail = {.epoch = epoch, .step = step}};
    msg.u.fail.status = (uint32_t)failure->status;
    msg.u.fail.text = failure->text;
    msg.u.fail.action = action;
    send_message(loop, &msg);
}

static void send_hello(sc_stage_loop *loop)
{
    sc_msg msg = {.type = SC_MSG_HELLO, .u.hello = {.program_version = SC_VERSION}};
    msg.u.hello.host = loop->host;
    msg.u.hello.boot_id = loop->boot_id;
    msg.u.hello.pid = (uint32_t)getpid();
    msg.u.hello.device = loop->config->device;
    msg.u.hello.isa = loop->isa;
    msg.u.hello.now_ns = sc_compute_now_ns();
    msg.u.hello.probe = loop->liveness.address;
    send_message(loop, &msg);
}

static const char *state_text(const sc_epoch *ep)
{
    static const char *const states[] = {"setup", "idle", "step", "tail"};
    bool is_saving = ep->state == SC_EPOCH_TAIL &&
                     (ep->tail.phase == SC_TAIL_SAVE_GRADIENTS || ep->tail.phase == SC_TAIL_COPY ||
                      ep->tail.phase == SC_TAIL_SAVE_WEIGHTS);
    return is_saving ? "saving" : states[ep->state];
}

static void send_heartbeat(sc_stage_loop *loop)
{
    char action[SC_ACTION_TEXT_MAX] = "";
    int peer = SC_EXECUTOR_NONE;
    sc_msg msg = {.type = SC_MSG_HEARTBEAT, .u.heartbeat = {.state = "idle"}};
    sc_msg_heartbeat *hb = &msg.u.heartbeat;
    if (loop->epoch != NULL) {
        sc_epoch_step_current(loop->epoch, action, sizeof action, &peer);
        hb->epoch = loop->epoch->assign.epoch;
        hb->step = loop->epoch->step.step;
        hb->state = state_text(loop->epoch);
        hb->since_ns = loop->epoch->current_since_ns;
        hb->n_done = loop->epoch->n_actions_done;
    }
    hb->action = action;
    hb->is_waiting = peer != SC_EXECUTOR_NONE;
    hb->peer = hb->is_waiting ? (uint32_t)peer : 0;
    hb->echo_sent_ns = loop->echo_sent_ns;
    hb->echo_received_ns = loop->echo_received_ns;
    hb->now_ns = sc_compute_now_ns();
    send_message(loop, &msg);
}

static sc_status compose_bind_address(sc_stage_loop *loop, const sc_msg_assign *assign, char *out,
                                      size_t n, sc_err *err)
{
    if (strcmp(assign->bind_address, "ipc") == 0) {
        SC_TRY(sc_socket_dir_open(&loop->socket_dir, err));
        snprintf(out, n, "ipc://%s/%s-e%llu-*", loop->socket_dir.path, loop->socket_dir.prefix,
                 (unsigned long long)assign->epoch);
        return SC_OK;
    }
    snprintf(out, n, "tcp://%s:*", loop->config->host_address);
    return SC_OK;
}

/* The epoch that the new one goes on from, or NULL for a start with initial weights, which gives
   any other epoch up. Weights are never lost in silence: without the epoch that is asked for there
   is no new one. */
static sc_status find_heir(sc_stage_loop *loop, const sc_msg_assign *assign, sc_epoch **out,
                           sc_err *err)
{
    *out = NULL;
    if (assign->inherit_epoch == 0) {
        sc_epoch_free(&loop->epoch);
        return SC_OK;
    }
    if (loop->epoch == NULL || loop->epoch->assign.epoch != assign->inherit_epoch ||
        loop->epoch->state != SC_EPOCH_IDLE || loop->epoch->n_queued > 0) {
        return sc_status_fail(err, SC_PROTOCOL, "epoch %llu cannot go on from epoch %llu here",
                              (unsigned long long)assign->epoch,
                              (unsigned long long)assign->inherit_epoch);
    }
    *out = loop->epoch;
    return SC_OK;
}

/* The message's arena goes over to the epoch. */
static void handle_assign(sc_stage_loop *loop, sc_arena *arena, const sc_msg_assign *assign)
{
    sc_err err;
    char bind_address[256];
    char name[32];
    uint64_t epoch = assign->epoch;
    sc_epoch *old = NULL;
    snprintf(name, sizeof name, "stage rank %u", assign->rank);
    sc_log_set_name(name);
    if (find_heir(loop, assign, &old, &err) != SC_OK ||
        compose_bind_address(loop, assign, bind_address, sizeof bind_address, &err) != SC_OK ||
        sc_epoch_new(arena, assign, &loop->compute, bind_address, old, &loop->epoch, &err) !=
            SC_OK) {
        send_fail(loop, &err, epoch, 0);
        return;
    }
    SC_LOG_INFO("epoch %llu: rank %u of %u, %d actions a step", (unsigned long long)epoch,
                loop->epoch->assign.rank, loop->epoch->assign.n_ranks, loop->epoch->ex->n_actions);
    sc_msg msg = {.type = SC_MSG_BOUND, .u.bound = {.epoch = epoch, .endpoint = ""}};
    if (loop->epoch->comm != NULL) {
        msg.u.bound.endpoint = loop->epoch->comm->endpoint;
    }
    send_message(loop, &msg);
}

static void fail_epoch(sc_stage_loop *loop, const sc_err *err)
{
    if (loop->epoch->err.status == SC_OK) {
        loop->epoch->err = *err;
    }
    send_fail(loop, err, loop->epoch->assign.epoch, loop->epoch->step.step);
}

static void handle_stop(sc_stage_loop *loop, const sc_msg_stop *stop)
{
    char text[SC_ERR_TEXT_MAX];
    snprintf(text, sizeof text, "%.900s", stop->reason);
    sc_epoch_free(&loop->epoch);
    sc_msg msg = {.type = SC_MSG_BYE, .u.bye = {.worker = loop->worker}};
    send_message(loop, &msg);
    sc_status status = stop->status < SC_STATUS_COUNT ? (sc_status)stop->status : SC_FAILED;
    end(loop, status, text);
}

static void note_time(sc_stage_loop *loop, int64_t sent_ns)
{
    loop->echo_sent_ns = sent_ns;
    loop->echo_received_ns = sc_compute_now_ns();
}

static void handle_message(sc_stage_loop *loop, sc_arena *arena, const sc_msg *msg)
{
    sc_err err;
    bool is_ours;
    switch (msg->type) {
    case SC_MSG_WELCOME:
        loop->is_welcome = true;
        loop->worker = msg->u.welcome.worker;
        note_time(loop, msg->u.welcome.sent_ns);
        SC_LOG_INFO("job %s: worker %u, waiting for an assignment", msg->u.welcome.job_name,
                    loop->worker);
        break;
    case SC_MSG_ASSIGN:
        handle_assign(loop, arena, &msg->u.assign);
        break;
    case SC_MSG_CONNECT:
        is_ours = loop->epoch != NULL && loop->epoch->assign.epoch == msg->u.connect.epoch;
        if (is_ours && sc_epoch_step_connect(loop->epoch, &msg->u.connect, &err) != SC_OK) {
            fail_epoch(loop, &err);
        }
        break;
    case SC_MSG_STEP:
        note_time(loop, msg->u.step.sent_ns);
        is_ours = loop->epoch != NULL && loop->epoch->assign.epoch == msg->u.step.epoch;
        if (is_ours && sc_epoch_step_queue(loop->epoch, &msg->u.step, &err) != SC_OK) {
            fail_epoch(loop, &err);
        }
        break;
    case SC_MSG_ABORT:
        if (loop->epoch != NULL && loop->epoch->assign.epoch == msg->u.abort.epoch) {
            SC_LOG_WARN("epoch %llu aborted: %s", (unsigned long long)msg->u.abort.epoch,
                        msg->u.abort.reason);
            sc_epoch_free(&loop->epoch);
        }
        break;
    case SC_MSG_STOP:
        handle_stop(loop, &msg->u.stop);
        break;
    default:
        SC_LOG_WARN("control message %s is not for a worker, ignoring",
                    sc_codec_type_text(msg->type));
        break;
    }
}

static bool take_control(sc_stage_loop *loop)
{
    zmq_msg_t body;
    zmq_msg_init(&body);
    if (zmq_msg_recv(&body, loop->control, ZMQ_DONTWAIT) < 0) {
        loop->is_control_due = false;
        zmq_msg_close(&body);
        return false;
    }
    sc_arena_reset(&loop->in_arena);
    sc_msg msg;
    sc_err err;
    if (sc_codec_unpack(zmq_msg_data(&body), zmq_msg_size(&body), &loop->in_arena, &msg, &err) ==
        SC_OK) {
        handle_message(loop, &loop->in_arena, &msg);
    } else {
        SC_LOG_WARN("control socket: %s, ignoring", err.text);
    }
    zmq_msg_close(&body);
    return true;
}

/* ZeroMQ reconnects in silence and would hide a coordinator that went away: its events tell. What
   hangs up without a greeting was no coordinator (a forwarder or a socket unit whose daemon is not
   up yet), and ZeroMQ goes on trying. */
static void take_monitor(sc_stage_loop *loop)
{
    unsigned char event[6];
    char address[512];
    char text[600];
    while (zmq_recv(loop->monitor, event, sizeof event, ZMQ_DONTWAIT) >= 0) {
        zmq_recv(loop->monitor, address, sizeof address, ZMQ_DONTWAIT);
        uint16_t number;
        memcpy(&number, event, sizeof number);
        if (number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            loop->is_greeted = true;
            send_hello(loop);
        } else if (number == ZMQ_EVENT_DISCONNECTED && loop->is_greeted) {
            while (!loop->is_over && take_control(loop)) {
                /* its last words come first */
            }
            snprintf(text, sizeof text, "the coordinator at %s is gone", loop->config->coordinator);
            end(loop, SC_PEER, text);
        }
    }
}

static void take_signals(sc_stage_loop *loop)
{
    struct signalfd_siginfo info;
    while (read(loop->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        char text[64];
        snprintf(text, sizeof text, "stopped by %s",
                 info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
        sc_err err = {.status = SC_INTERRUPTED};
        snprintf(err.text, sizeof err.text, "%s", text);
        if (loop->is_welcome) {
            send_fail(loop, &err, loop->epoch == NULL ? 0 : loop->epoch->assign.epoch,
                      loop->epoch == NULL ? 0 : loop->epoch->step.step);
        }
        end(loop, SC_INTERRUPTED, text);
    }
}

static void take_heartbeat(sc_stage_loop *loop)
{
    uint64_t n;
    char text[600];
    if (read(loop->heartbeat_fd, &n, sizeof n) != (ssize_t)sizeof n) {
        return;
    }
    if (loop->is_welcome) {
        int64_t start_ns = sc_compute_cpu_ns();
        send_heartbeat(loop);
        if (loop->epoch != NULL) {
            loop->epoch->cpu_start_ns += sc_compute_cpu_ns() - start_ns; // not the executor's
        }
    } else if (sc_compute_now_ns() - loop->start_ns > (int64_t)(loop->config->wait_seconds * 1e9)) {
        snprintf(text, sizeof text,
                 "no coordinator answered at %s within %.0f s: check the address and that it runs",
                 loop->config->coordinator, loop->config->wait_seconds);
        end(loop, SC_TIMEOUT, text);
    }
}

static void log_saved(const sc_msg_saved *saved)
{
    if (saved->status != SC_OK) {
        SC_LOG_WARN("checkpoint of step %llu: %s", (unsigned long long)saved->step, saved->text);
    } else if (saved->wait_ns > 0) {
        SC_LOG_INFO("checkpoint of step %llu: the step waited %.1f ms for the write before",
                    (unsigned long long)saved->step, (double)saved->wait_ns / 1e6);
    }
}

static void pump_epoch(sc_stage_loop *loop)
{
    sc_msg msg;
    for (;;) {
        if (loop->epoch == NULL) {
            return;
        }
        switch (sc_epoch_step_pump(loop->epoch)) {
        case SC_EPOCH_NOTHING:
            return;
        case SC_EPOCH_READY:
            msg = (sc_msg){.type = SC_MSG_READY, .u.ready = {.epoch = loop->epoch->assign.epoch}};
            sc_epoch_setup_bytes(loop->epoch, &msg.u.ready);
            SC_LOG_INFO("epoch %llu: ready", (unsigned long long)loop->epoch->assign.epoch);
            break;
        case SC_EPOCH_REPORT:
            msg = (sc_msg){.type = SC_MSG_REPORT};
            sc_epoch_tail_report(loop->epoch, &msg.u.report);
            break;
        case SC_EPOCH_SAVED:
            msg = (sc_msg){.type = SC_MSG_SAVED, .u.saved = loop->epoch->save.saved};
            log_saved(&msg.u.saved);
            break;
        case SC_EPOCH_FAILED:
            send_fail(loop, &loop->epoch->err, loop->epoch->assign.epoch, loop->epoch->step.step);
            return;
        }
        send_message(loop, &msg);
    }
}

static void arm_precise(sc_stage_loop *loop)
{
    int64_t due_ns = loop->epoch == NULL ? 0 : sc_epoch_step_deadline(loop->epoch);
    if (due_ns == loop->precise_ns) {
        return;
    }
    loop->precise_ns = due_ns;
    struct itimerspec when = {
        .it_value = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000}};
    timerfd_settime(loop->precise_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* -1, which poll passes over, when there is none; nobody takes a failed epoch's events any more. */
static int comm_fd(const sc_epoch *ep)
{
    return ep == NULL || ep->comm == NULL || ep->err.status != SC_OK ? -1 : ep->comm->event_fd;
}

/* Waits; does not when a socket may hold what its descriptor no longer tells. */
static void wait_events(sc_stage_loop *loop, struct pollfd *fds)
{
    const int descriptors[POLL_COUNT] = {
        [POLL_CONTROL] = loop->control_fd,
        [POLL_MONITOR] = loop->monitor_fd,
        [POLL_SIGNALS] = loop->signal_fd,
        [POLL_LIVENESS] = loop->liveness.fd,
        [POLL_HEARTBEAT] = loop->heartbeat_fd,
        [POLL_PRECISE] = loop->precise_fd,
        [POLL_COMPUTE] = loop->compute.results.event_fd,
        [POLL_COMM] = comm_fd(loop->epoch),
        [POLL_SHARD] = loop->epoch == NULL ? -1 : sc_epoch_save_fd(loop->epoch),
    };
    for (int i = 0; i < POLL_COUNT; i++) {
        fds[i] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
    }
    if (poll(fds, POLL_COUNT, loop->is_control_due ? 0 : -1) < 0) {
        for (int i = 0; i < POLL_COUNT; i++) {
            fds[i].revents = 0; // interrupted
        }
    }
}

static void poll_once(sc_stage_loop *loop)
{
    struct pollfd fds[POLL_COUNT];
    arm_precise(loop);
    bool is_due = loop->is_control_due;
    wait_events(loop, fds);
    if (fds[POLL_COMPUTE].revents != 0) {
        sc_spsc_clear(&loop->compute.results);
    }
    if (fds[POLL_PRECISE].revents != 0) {
        uint64_t count;
        loop->precise_ns = 0;
        if (read(loop->precise_fd, &count, sizeof count) < 0) {
            loop->precise_ns = 0; // disarmed meanwhile
        }
    }
    pump_epoch(loop);
    if (fds[POLL_SIGNALS].revents != 0) {
        take_signals(loop);
    }
    if (fds[POLL_LIVENESS].revents != 0) {
        sc_liveness_serve(&loop->liveness);
    }
    if (is_due || fds[POLL_CONTROL].revents != 0 || fds[POLL_MONITOR].revents != 0) {
        while (!loop->is_over && take_control(loop)) {
        }
        take_monitor(loop);
        pump_epoch(loop);
    }
    if (fds[POLL_HEARTBEAT].revents != 0 && !loop->is_over) {
        take_heartbeat(loop);
    }
}

sc_status sc_stage_loop_run(const sc_stage_config *config, sc_err *err)
{
    sc_status status = SC_OK;
    sc_stage_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) {
        return sc_status_errno(err, ENOMEM, "worker");
    }
    loop->config = config;
    loop->start_ns = sc_compute_now_ns();
    SC_GOTO(sc_stage_open_all(loop, err));
    while (!loop->is_over) {
        poll_once(loop);
    }
    status = loop->status;
    if (err != NULL) {
        *err = loop->err;
    }
out:
    sc_stage_open_close(loop);
    free(loop);
    return status;
}
