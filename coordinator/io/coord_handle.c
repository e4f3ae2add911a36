#include "base/log.h"
#include "coordinator/bubble_report.h"
#include "coordinator/io/coord.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(sc_coord *c, sc_coord_peer *peer, sc_status status, const char *reason)
{
    SC_LOG_WARN("worker refused: %s", reason);
    sc_msg msg = {.type = SC_MSG_STOP, .u.stop = {.status = (uint32_t)status, .reason = reason}};
    sc_coord_peers_send(c, peer, &msg);
    sc_coord_peers_drop(c, peer);
}

/* A device named with a slot ("cpu:1") belongs to one worker of a host. */
static const sc_coord_peer *find_claimant(const sc_coord *c, const sc_msg_hello *hello)
{
    for (int i = 0; i < c->n_peers; i++) {
        const sc_coord_peer *other = &c->peers[i];
        if (other->is_used && other->kind == SC_COORD_WORKER && !other->is_gone &&
            strcmp(other->host, hello->host) == 0 && strcmp(other->device, hello->device) == 0 &&
            strchr(hello->device, ':') != NULL) {
            return other;
        }
    }
    return NULL;
}

static bool admit(sc_coord *c, sc_coord_peer *peer, const sc_msg_hello *hello)
{
    char reason[512];
    const sc_coord_peer *claimant = find_claimant(c, hello);
    if (strcmp(hello->program_version, SC_VERSION) != 0) {
        snprintf(reason, sizeof reason,
                 "worker on %s (pid %" PRIu32 ") is version %s, the coordinator is %s: install the "
                 "same version",
                 hello->host, hello->pid, hello->program_version, SC_VERSION);
        refuse(c, peer, SC_PROTOCOL, reason);
        return false;
    }
    if (claimant != NULL) {
        snprintf(reason, sizeof reason,
                 "device %s on %s is taken by the worker with pid %" PRIu32
                 ": give this one another --device",
                 hello->device, hello->host, claimant->pid);
        refuse(c, peer, SC_EXISTS, reason);
        return false;
    }
    if (c->steps.phase != SC_STEPLOOP_WAITING) {
        snprintf(reason, sizeof reason, "job %s needs %d workers and has them", c->job->name,
                 c->plan->n_ranks);
        refuse(c, peer, SC_LIMIT, reason);
        return false;
    }
    return true;
}

static void handle_hello(sc_coord *c, sc_coord_peer *peer, const sc_msg_hello *hello)
{
    if (!admit(c, peer, hello)) {
        return;
    }
    int64_t now_ns = sc_coord_loop_now_ns();
    int worker = sc_coord_peers_index(c, peer);
    peer->kind = SC_COORD_WORKER;
    snprintf(peer->host, sizeof peer->host, "%s", hello->host);
    snprintf(peer->boot_id, sizeof peer->boot_id, "%s", hello->boot_id);
    snprintf(peer->device, sizeof peer->device, "%s", hello->device);
    snprintf(peer->isa, sizeof peer->isa, "%s", hello->isa);
    snprintf(peer->liveness, sizeof peer->liveness, "%s", hello->probe);
    peer->pid = hello->pid;
    sc_clock_init(&peer->clock, c->boot_id, peer->boot_id);
    sc_membership_join(c->membership, worker, peer->host, peer->pid, peer->device, now_ns);
    sc_msg msg = {
        .type = SC_MSG_WELCOME,
        .u.welcome = {.worker = (uint32_t)worker, .job_name = c->job->name, .sent_ns = now_ns}};
    sc_coord_peers_send(c, peer, &msg);
    SC_LOG_INFO("worker %d came: host %s pid %" PRIu32 " device %s isa %s", worker, peer->host,
                peer->pid, peer->device, peer->isa);
    sc_steploop_on_workers(&c->steps, sc_coord_peers_count_workers(c), now_ns);
    sc_coord_act_progress(c, NULL, 0, 0, 0, 0);
}

static bool is_same(double a, double b)
{
    uint64_t bits_a;
    uint64_t bits_b;
    memcpy(&bits_a, &a, sizeof a);
    memcpy(&bits_b, &b, sizeof b);
    return bits_a == bits_b;
}

/* Every rank computes loss and norm from the same numbers in the same order: a difference is a
 * fault. */
static sc_status check_agreement(const sc_coord *c, const sc_msg_report *report, sc_err *err)
{
    size_t slot = report->step % SC_STEPLOOP_WINDOW * (size_t)c->plan->n_ranks;
    for (int r = 0; r < c->plan->n_ranks; r++) {
        const sc_coord_step *other = &c->step_numbers[slot + (size_t)r];
        if (r == (int)report->rank || c->steps.n_reported[r] <= report->step) {
            continue;
        }
        if (!is_same(other->loss_sum, report->loss_sum) ||
            !is_same(other->grad_norm, report->grad_norm)) {
            return sc_status_fail(
                err, SC_PEER,
                "step %" PRIu64 ": ranks %d and %" PRIu32
                " disagree: loss sum %.17g and %.17g, gradient norm %.17g and %.17g",
                report->step, r, report->rank, other->loss_sum, report->loss_sum, other->grad_norm,
                report->grad_norm);
        }
        return SC_OK;
    }
    return SC_OK;
}

static sc_status keep_spans(sc_coord *c, const sc_msg_report *report, sc_err *err)
{
    sc_coord_spans *keep = &c->cur->last_spans[report->rank];
    if (report->n_spans > keep->capacity) {
        keep->spans = sc_arena_alloc(&c->arena, report->n_spans, sizeof *keep->spans);
        if (keep->spans == NULL) {
            return sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu spans", report->n_spans);
        }
        keep->capacity = report->n_spans;
    }
    memcpy(keep->spans, report->spans, report->n_spans * sizeof *keep->spans);
    keep->n = report->n_spans;
    keep->step = report->step;
    return SC_OK;
}

static void keep_memory(sc_coord *c, const sc_msg_report *report)
{
    sc_coord_memory *keep = &c->cur->memory[report->rank];
    if (report->activation_peak_bytes > keep->activation_peak_bytes) {
        keep->activation_peak_bytes = report->activation_peak_bytes;
    }
    if (report->step > c->steps.config.first_step && report->n_allocs > keep->n_allocs) {
        keep->n_allocs = report->n_allocs;
    }
}

/* Ranks' clocks as seen from one rank's; NULL where all share one. */
static const int64_t *offsets_to(sc_coord *c, int rank)
{
    if (c->clock_error_ns == 0) {
        return NULL;
    }
    for (int r = 0; r < c->plan->n_ranks; r++) {
        c->offsets[r] = c->clock_offsets[r] - c->clock_offsets[rank];
    }
    return c->offsets;
}

/* A heartbeat times the way here, and with the echo the way there. */
static void update_clocks(sc_coord *c, sc_coord_peer *peer, const sc_msg_heartbeat *hb,
                          int64_t now_ns)
{
    sc_clock_add_from_worker(&peer->clock, hb->now_ns, now_ns);
    if (hb->echo_sent_ns != 0) {
        sc_clock_add_to_worker(&peer->clock, hb->echo_sent_ns, hb->echo_received_ns);
    }
    if (peer->rank == SC_COORD_NONE) {
        return;
    }
    c->clock_error_ns = 0;
    for (int r = 0; r < c->plan->n_ranks; r++) {
        sc_clock_estimate estimate = sc_clock_get(&c->peers[c->peer_of_rank[r]].clock, now_ns);
        c->clock_offsets[r] = estimate.offset_ns;
        if (!estimate.is_known || c->clock_error_ns < 0) {
            c->clock_error_ns = SC_BUBBLE_CLOCK_UNKNOWN;
        } else if (estimate.error_ns > c->clock_error_ns) {
            c->clock_error_ns = estimate.error_ns;
        }
    }
    if (c->clock_error_ns != 0) {
        sc_bubble_set_clocks(c->cur->bubble, c->clock_offsets);
    }
}

static sc_status take_report(sc_coord *c, sc_coord_peer *peer, const sc_msg_report *report,
                             sc_err *err)
{
    if (report->rank >= (uint32_t)c->plan->n_ranks || (int)report->rank != peer->rank) {
        return sc_status_fail(err, SC_PROTOCOL, "worker of rank %d reports as rank %" PRIu32,
                              peer->rank, report->rank);
    }
    if (strcmp(report->executed, c->cur->compute_texts[report->rank]) != 0) {
        return sc_status_fail(
            err, SC_PEER,
            "rank %d step %" PRIu64 ": executed %.200s ..., but its row is %.200s ...", peer->rank,
            report->step, report->executed, c->cur->compute_texts[report->rank]);
    }
    if (report->step == c->turn_start && c->cur->n_turns > 1) {
        SC_TRY(sc_bubble_split_check(c->plan->compute, report, err)); // a warm-up again
    } else {
        SC_TRY(sc_bubble_add(c->cur->bubble, report, err)); // checks the spans
    }
    sc_membership_set_median(c->membership, sc_bubble_action_ns(c->cur->bubble));
    SC_TRY(check_agreement(c, report, err));
    SC_TRY(sc_steploop_on_report(&c->steps, peer->rank, report->step, err));
    size_t slot = report->step % SC_STEPLOOP_WINDOW * (size_t)c->plan->n_ranks;
    sc_coord_step *numbers = &c->step_numbers[slot + report->rank];
    numbers->loss_sum = report->loss_sum;
    numbers->n_valid = report->n_valid;
    numbers->grad_norm = report->grad_norm;
    numbers->window_ns = report->window_end_ns - report->window_start_ns;
    sc_bubble_split_report(report, offsets_to(c, peer->rank), c->plan->compute->rank_of_stage,
                           &numbers->split);
    keep_memory(c, report);
    return keep_spans(c, report, err);
}

/* A worker that the job does not depend on is forgotten; while the job waits, another may come. */
static void forget(sc_coord *c, sc_coord_peer *peer, int64_t now_ns)
{
    sc_membership_leave(c->membership, sc_coord_peers_index(c, peer));
    sc_coord_peers_drop(c, peer);
    if (c->steps.phase == SC_STEPLOOP_WAITING) {
        sc_steploop_on_workers(&c->steps, sc_coord_peers_count_workers(c), now_ns);
        sc_coord_act_progress(c, NULL, 0, 0, 0, 0);
    }
}

/* "step 3, action 2F5", "step 3" in its tail, or "setup" */
static void format_place(const sc_coord *c, const sc_msg_fail *fail, char *out, size_t n)
{
    if (c->steps.phase != SC_STEPLOOP_TRAINING && fail->action[0] == '\0') {
        snprintf(out, n, "setup");
        return;
    }
    snprintf(out, n, "step %" PRIu64 "%s%.32s", fail->step,
             fail->action[0] != '\0' ? ", action " : "", fail->action);
}

static void handle_fail(sc_coord *c, sc_coord_peer *peer, const sc_msg_fail *fail, int64_t now_ns)
{
    char text[SC_ERR_TEXT_MAX];
    char place[96];
    if (peer->rank == SC_COORD_NONE) {
        SC_LOG_WARN("worker %d (host %s, pid %" PRIu32 ", %s) left: %.700s, waiting for another",
                    sc_coord_peers_index(c, peer), peer->host, peer->pid, peer->device, fail->text);
        forget(c, peer, now_ns);
        return;
    }
    format_place(c, fail, place, sizeof place);
    snprintf(text, sizeof text, "rank %d (host %s, pid %" PRIu32 ", %s) failed: %s: %.700s",
             peer->rank, peer->host, peer->pid, peer->device, place, fail->text);
    sc_status status =
        fail->status > 0 && fail->status < SC_STATUS_COUNT ? (sc_status)fail->status : SC_PEER;
    /* it ends with its own error, not with ours: that the coordinator is gone */
    sc_msg stop = {.type = SC_MSG_STOP, .u.stop = {(uint32_t)status, fail->text}};
    sc_coord_peers_send(c, peer, &stop);
    peer->is_gone = true;
    sc_membership_leave(c->membership, sc_coord_peers_index(c, peer));
    sc_steploop_finish(&c->steps, status, text);
}

/* Answers and reports of a worker; an error ends the job. */
static sc_status handle_worker(sc_coord *c, sc_coord_peer *peer, const sc_msg *msg, int64_t now_ns,
                               sc_err *err)
{
    switch (msg->type) {
    case SC_MSG_BOUND:
        if (msg->u.bound.epoch != c->epoch || peer->rank == SC_COORD_NONE) {
            return SC_OK;
        }
        snprintf(peer->endpoint, sizeof peer->endpoint, "%s", msg->u.bound.endpoint);
        return sc_steploop_on_answer(&c->steps, peer->rank, now_ns, err);
    case SC_MSG_READY:
        if (msg->u.ready.epoch != c->epoch || peer->rank == SC_COORD_NONE) {
            return SC_OK;
        }
        peer->planned_bytes = msg->u.ready.total_bytes;
        return sc_steploop_on_answer(&c->steps, peer->rank, now_ns, err);
    case SC_MSG_REPORT:
        return msg->u.report.epoch == c->epoch ? take_report(c, peer, &msg->u.report, err) : SC_OK;
    case SC_MSG_SAVED:
        return sc_coord_save_take(c, peer, &msg->u.saved, err);
    case SC_MSG_FAIL:
        handle_fail(c, peer, &msg->u.fail, now_ns);
        return SC_OK;
    case SC_MSG_BYE:
        if (peer->rank == SC_COORD_NONE) {
            forget(c, peer, now_ns);
            return SC_OK;
        }
        peer->is_gone = true;
        sc_membership_leave(c->membership, sc_coord_peers_index(c, peer));
        return SC_OK;
    case SC_MSG_HEARTBEAT: {
        const sc_msg_heartbeat *hb = &msg->u.heartbeat;
        sc_member_beat beat = {.step = hb->step, .state = hb->state, .action = hb->action};
        beat.is_waiting = hb->is_waiting;
        beat.peer = (int)hb->peer;
        beat.n_done = hb->n_done;
        update_clocks(c, peer, hb, now_ns);
        sc_membership_beat(c->membership, sc_coord_peers_index(c, peer), &beat, now_ns);
        return SC_OK;
    }
    default:
        return sc_status_fail(err, SC_PROTOCOL,
                              "rank %d sent a message of type %d, which no worker sends",
                              peer->rank, (int)msg->type);
    }
}

static void handle_control(sc_coord *c, sc_coord_peer *peer, const sc_msg_control *control)
{
    char text[256] = "";
    char *state = NULL;
    sc_status status = SC_OK;
    if (strcmp(control->verb, "status") == 0) {
        status = sc_coord_status_json(c, sc_coord_loop_now_ns(), &state, NULL);
    } else if (strcmp(control->verb, "stop") == 0) {
        snprintf(text, sizeof text, "stopping");
        sc_steploop_finish(&c->steps, SC_INTERRUPTED, "stopped on request");
    } else if (strcmp(control->verb, "swap") == 0) {
        status = sc_coord_swap_request(c, control->argument, text, sizeof text);
    } else {
        status = SC_USAGE;
        snprintf(text, sizeof text, "unknown request %.64s: status, swap and stop are known",
                 control->verb);
    }
    sc_msg msg = {.type = SC_MSG_REPLY, .u.reply = {.status = (uint32_t)status}};
    msg.u.reply.text = state != NULL ? state : text;
    sc_coord_peers_send(c, peer, &msg);
    free(state);
}

static void handle_stranger(sc_coord *c, sc_coord_peer *peer, const sc_msg *msg)
{
    switch (msg->type) {
    case SC_MSG_HELLO:
        handle_hello(c, peer, &msg->u.hello);
        break;
    case SC_MSG_WATCH:
        peer->kind = SC_COORD_CLIENT;
        peer->is_watching = true;
        sc_coord_act_progress(c, peer, 0, 0, 0, 0);
        break;
    case SC_MSG_CONTROL:
        peer->kind = SC_COORD_CLIENT;
        handle_control(c, peer, &msg->u.control);
        break;
    default:
        SC_LOG_WARN("message of type %d from a stranger, ignoring", (int)msg->type);
        sc_coord_peers_drop(c, peer);
        break;
    }
}

void sc_coord_handle_message(sc_coord *c, const unsigned char *id, size_t n_id, int fd,
                             const sc_msg *msg)
{
    int64_t now_ns = sc_coord_loop_now_ns();
    sc_coord_peer *peer = sc_coord_peers_find(c, id, n_id);
    if (peer == NULL) {
        peer = sc_coord_peers_add(c, id, n_id);
    }
    if (peer == NULL) {
        SC_LOG_WARN("more than %d peers, ignoring a message", SC_COORD_PEERS_MAX);
        return;
    }
    peer->fd = fd;
    if (peer->kind == SC_COORD_WORKER) {
        sc_err err;
        sc_membership_heard(c->membership, sc_coord_peers_index(c, peer), now_ns);
        sc_status status = handle_worker(c, peer, msg, now_ns, &err);
        if (status != SC_OK) {
            sc_steploop_finish(&c->steps, status, err.text);
        }
    } else if (peer->kind == SC_COORD_CLIENT && msg->type == SC_MSG_CONTROL) {
        handle_control(c, peer, &msg->u.control);
    } else if (peer->kind == SC_COORD_CLIENT && msg->type == SC_MSG_WATCH) {
        peer->is_watching = true;
    } else {
        handle_stranger(c, peer, msg);
    }
}

void sc_coord_handle_disconnect(sc_coord *c, int fd)
{
    for (int i = 0; i < c->n_peers; i++) {
        sc_coord_peer *peer = &c->peers[i];
        if (!peer->is_used || peer->fd != fd) {
            continue;
        }
        peer->fd = -1;
        if (peer->kind != SC_COORD_WORKER) {
            sc_coord_peers_drop(c, peer);
        } else if (!peer->is_gone) {
            sc_membership_disconnected(c->membership, i, sc_coord_loop_now_ns());
        }
    }
}

void sc_coord_handle_membership(sc_coord *c, const sc_membership_effect *effect)
{
    int64_t now_ns = sc_coord_loop_now_ns();
    sc_coord_peer *peer = &c->peers[effect->worker];
    if (effect->type == SC_MEMBERSHIP_PROBE) {
        sc_probe_outcome outcome;
        if (peer->probe.fd < 0 && !sc_probe_start(&peer->probe, peer->liveness, now_ns, &outcome)) {
            sc_membership_probed(c->membership, effect->worker, outcome, now_ns);
        }
        return;
    }
    if (peer->rank == SC_COORD_NONE) {
        SC_LOG_WARN("%s, waiting for another", effect->text);
        forget(c, peer, now_ns);
        return;
    }
    if (!c->is_over) { // one that is slow to leave is no news
        SC_LOG_ERROR("%s", effect->text);
    }
    peer->is_gone = true;
    sc_membership_leave(c->membership, effect->worker);
    sc_steploop_finish(&c->steps, SC_PEER, effect->text);
}
