/*
 * fake_coordinator - stands in for stagecoach-coordinator and misbehaves on demand.
 *
 * The environment variable FAKE_COORDINATOR says how, see the list below. It speaks the real
 * messages, trains nothing, and writes a summary.json whose numbers depend on the schedule.
 */
#include "tests/cli/fake_zmq.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zmq.h>

enum {
    N_WORKERS = 2,
    N_STEPS = 12
};

typedef struct fake {
    const char *mode;
    const char *name;
    const char *schedule;
    const char *rotate; // NULL: not given
    const char *rotate_every;
    const char *runs_dir;
    int announce_fd;
    int n_steps;
    bool is_dry_run;
    bool is_json;
    char run_dir[512];
    char endpoint[128];
    void *context;
    void *router;
    sc_fake_id workers[N_WORKERS];
    uint32_t worker_pids[N_WORKERS];
    int n_workers;
    sc_fake_id watcher;
    bool is_watched;
} fake;

static bool is_mode(const fake *f, const char *mode)
{
    return strcmp(f->mode, mode) == 0;
}

static void wait_forever(void)
{
    for (;;) {
        pause();
    }
}

static void take_set(fake *f, const char *text)
{
    if (strncmp(text, "schedule=", 9) == 0) {
        f->schedule = text + 9;
    } else if (strncmp(text, "train.steps=", 12) == 0) {
        f->n_steps = atoi(text + 12); // NOLINT(cert-err34-c): a test's own number
    }
}

static void take_arguments(fake *f, int argc, char **argv)
{
    const char *mode = getenv("FAKE_COORDINATOR");
    f->mode = mode != NULL ? mode : "ok";
    f->name = "fake";
    f->schedule = "gpipe";
    f->runs_dir = ".";
    f->announce_fd = -1;
    f->n_steps = N_STEPS;
    for (int i = 1; i < argc; i++) {
        bool has_next = i + 1 < argc;
        if (strcmp(argv[i], "--dry-run") == 0) {
            f->is_dry_run = true;
        } else if (strcmp(argv[i], "--json") == 0) {
            f->is_json = true;
        } else if (has_next && strcmp(argv[i], "--set") == 0) {
            take_set(f, argv[++i]);
        } else if (has_next && strcmp(argv[i], "--name") == 0) {
            f->name = argv[++i];
        } else if (has_next && strcmp(argv[i], "--rotate") == 0) {
            f->rotate = argv[++i];
        } else if (has_next && strcmp(argv[i], "--rotate-every") == 0) {
            f->rotate_every = argv[++i];
        } else if (has_next && strcmp(argv[i], "--runs-dir") == 0) {
            f->runs_dir = argv[++i];
        } else if (has_next && strcmp(argv[i], "--announce") == 0) {
            f->announce_fd = atoi(argv[++i]); // NOLINT(cert-err34-c)
        }
    }
}

/* How to go wrong before saying anything. */
static void fail_early(const fake *f)
{
    if (is_mode(f, "bad")) {
        fprintf(stderr, "job.yaml:1:1: nonsense: unknown key\n");
        exit(3);
    }
    if (is_mode(f, "crash")) {
        raise(SIGKILL);
    }
    if (is_mode(f, "mute")) {
        exit(0);
    }
    if (is_mode(f, "hang")) {
        fprintf(stderr, "hanging\n");
        wait_forever();
    }
}

static void announce(fake *f)
{
    size_t n = sizeof f->endpoint;
    char line[1024];
    char log_dir[600];
    f->context = zmq_ctx_new();
    f->router = zmq_socket(f->context, ZMQ_ROUTER);
    if (zmq_bind(f->router, "tcp://127.0.0.1:*") < 0 ||
        zmq_getsockopt(f->router, ZMQ_LAST_ENDPOINT, f->endpoint, &n) < 0) {
        exit(71);
    }
    snprintf(f->run_dir, sizeof f->run_dir, "%s/%s", f->runs_dir, f->name);
    snprintf(log_dir, sizeof log_dir, "%s/log", f->run_dir);
    if (mkdir(f->run_dir, 0777) < 0 || mkdir(log_dir, 0777) < 0) {
        fprintf(stderr, "%s: exists\n", f->run_dir);
        exit(3);
    }
    snprintf(
        line, sizeof line,
        "{\"endpoint\":\"%s\",\"run_dir\":\"%s\",\"n_workers\":%d,\"threads\":1,\"pin\":true}\n",
        f->endpoint, f->run_dir, N_WORKERS);
    const char *text = is_mode(f, "garbage") ? "{\"endpoint\":7}\n" : line;
    if (write(f->announce_fd, text, strlen(text)) < 0) {
        exit(72);
    }
    close(f->announce_fd);
    char path[600];
    snprintf(path, sizeof path, "%s/endpoint", f->run_dir);
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        fprintf(file, "%s\n", f->endpoint);
        fclose(file);
    }
}

static void send_finished(fake *f, sc_status status, const char *text, const char *summary)
{
    sc_msg msg = {.type = SC_MSG_FINISHED};
    msg.u.finished.status = status;
    msg.u.finished.text = text;
    msg.u.finished.summary = summary;
    msg.u.finished.run_dir = f->run_dir;
    sc_fake_zmq_send(f->router, &f->watcher, &msg);
    sc_msg stop = {.type = SC_MSG_STOP};
    stop.u.stop.status = status;
    stop.u.stop.reason = "";
    for (int i = 0; i < f->n_workers; i++) {
        sc_fake_zmq_send(f->router, &f->workers[i], &stop);
    }
}

static void send_progress(fake *f, const char *phase, int step)
{
    sc_msg msg = {.type = SC_MSG_PROGRESS};
    msg.u.progress = (sc_msg_progress){
        .phase = phase,
        .n_workers = (uint32_t)f->n_workers,
        .n_workers_needed = N_WORKERS,
        .step = (uint64_t)step,
        .n_steps = (uint64_t)f->n_steps,
        .loss = 5.5 - 0.125 * step,
        .grad_norm = 1.5,
        .lr = 1e-3,
        .tokens_per_second = 1000.0,
        .step_ms = 20.0,
    };
    sc_fake_zmq_send(f->router, &f->watcher, &msg);
}

static void write_schedule(const fake *f, FILE *file, const char *name)
{
    static const char *const CAUSES[] = {
        "forward",  "backward_input", "backward_weight", "wait",      "buffer",
        "transfer", "control",        "reduce",          "optimizer", "idle"};
    bool is_gpipe = strcmp(name, "gpipe") == 0;
    fprintf(file,
            "{\"name\":\"%s\",\"schedule\":\"%s\",\"v\":1,\"steps\":%d,\"turn\":%s,"
            "\"final_loss\":4.0625,\"step_ms\":%g,\"tokens_per_second\":1234.5,"
            "\"bubble\":{\"measured\":0.25,\"measured_min\":0.2,\"measured_max\":0.375,"
            "\"simulated\":0.24,\"closed_form\":%s},"
            "\"activation_bytes\":{\"planned\":%d,\"measured\":%d},\"causes_ms\":{",
            name, name, f->n_steps, f->rotate_every, is_gpipe ? 81.5 : 80.25,
            is_gpipe ? "0.2" : "null", is_gpipe ? 4096 : 2048, is_gpipe ? 4096 : 2048);
    for (size_t i = 0; i < sizeof CAUSES / sizeof CAUSES[0]; i++) {
        fprintf(file, "%s\"%s\":%zu.5", i == 0 ? "" : ",", CAUSES[i], i);
    }
    fprintf(file, "}}");
}

static void write_summary(const fake *f)
{
    char path[600];
    char names[256];
    snprintf(path, sizeof path, "%s/summary.json", f->run_dir);
    snprintf(names, sizeof names, "%s", f->rotate != NULL ? f->rotate : "");
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        exit(73);
    }
    fprintf(file, "{\"name\":\"%s\",\"schedule\":\"%s\",\"schedules\":[", f->name, f->schedule);
    bool has_numbers = !is_mode(f, "no-numbers");
    char *rest = names;
    for (char *name = strsep(&rest, ","); name != NULL && name[0] != '\0';
         name = strsep(&rest, ",")) {
        if (has_numbers) {
            write_schedule(f, file, name);
        } else {
            fprintf(file, "{\"name\":\"%s\"}", name);
        }
        fprintf(file, "%s", rest != NULL ? "," : "");
    }
    fprintf(file, "]}\n");
    fclose(file);
}

/* Everybody is there. */
static void train(fake *f)
{
    if (is_mode(f, "die")) {
        fprintf(stderr, "last words of the coordinator\n");
        exit(7);
    }
    if (is_mode(f, "name-dead")) {
        // The worker kills itself after its greeting: wait for that, then name it.
        int fd = (int)syscall(SYS_pidfd_open, (pid_t)f->worker_pids[1], 0);
        struct pollfd item = {.fd = fd, .events = POLLIN};
        if (fd >= 0) {
            poll(&item, 1, -1);
        }
        send_finished(f, SC_PEER, "rank 1 is dead: step 3, action 1F2", "");
        return;
    }
    if (is_mode(f, "wait") || is_mode(f, "deaf") || is_mode(f, "silent")) {
        send_progress(f, is_mode(f, "silent") ? "waiting" : "training", 0);
        return;
    }
    send_progress(f, "starting", 0);
    for (int step = 1; step <= f->n_steps; step++) {
        send_progress(f, "training", step);
    }
    write_summary(f);
    send_finished(f, SC_OK, "", "schedule  step ms\nfake         20.0\n");
}

static void take_hello(fake *f, const sc_fake_id *id, const sc_msg_hello *hello)
{
    // By device, so that tests know who is who.
    int slot = strcmp(hello->device, "cpu:1") == 0 ? 1 : 0;
    f->workers[slot] = *id;
    f->worker_pids[slot] = hello->pid;
    f->n_workers++;
}

/* True when the job is over. */
static bool take_control(fake *f, const sc_fake_id *id, const sc_msg_control *control)
{
    if (is_mode(f, "deaf")) {
        return false;
    }
    sc_msg reply = {.type = SC_MSG_REPLY};
    char text[512] = "{\"step\":3,\"workers\":2,\"phase\":\"training\"}";
    bool is_stop = strcmp(control->verb, "stop") == 0;
    bool is_swap = strcmp(control->verb, "swap") == 0;
    bool is_known = is_stop || is_swap || strcmp(control->verb, "status") == 0;
    if (is_stop) {
        snprintf(text, sizeof text, "stopping");
    } else if (is_swap) {
        snprintf(text, sizeof text, "asked for '%.400s'", control->argument);
        is_known = strncmp(control->argument, "zb-h9", 5) != 0;
    }
    reply.u.reply.status = is_known ? SC_OK : SC_INVALID;
    reply.u.reply.text = text;
    sc_fake_zmq_send(f->router, id, &reply);
    if (is_stop && f->is_watched) {
        send_finished(f, SC_INTERRUPTED, "stopped on request", "");
    }
    return is_stop;
}

int main(int argc, char **argv)
{
    fake f = {0};
    take_arguments(&f, argc, argv);
    fail_early(&f);
    if (f.is_dry_run) {
        printf(f.is_json ? "{\"plan\":\"%s\"}\n" : "the plan of %s\n", f.schedule);
        return 0;
    }
    if (is_mode(&f, "deaf")) {
        signal(SIGTERM, SIG_IGN);
    }
    announce(&f);
    fprintf(stderr, "the coordinator is listening\n");
    sc_arena arena;
    sc_arena_init(&arena, 0);
    bool is_over = false;
    bool has_trained = false;
    while (!is_over) {
        sc_fake_id id;
        sc_msg msg;
        sc_fake_zmq_recv(f.router, &id, &arena, &msg);
        if (msg.type == SC_MSG_HELLO) {
            take_hello(&f, &id, &msg.u.hello);
        } else if (msg.type == SC_MSG_WATCH) {
            f.watcher = id;
            f.is_watched = true;
            send_progress(&f, "waiting", 0);
        } else if (msg.type == SC_MSG_CONTROL) {
            is_over = take_control(&f, &id, &msg.u.control);
        }
        bool is_complete = f.n_workers == N_WORKERS || is_mode(&f, "silent");
        if (!has_trained && f.is_watched && is_complete) {
            has_trained = true;
            train(&f);
            is_over = is_mode(&f, "ok") || is_mode(&f, "no-numbers") || is_mode(&f, "name-dead");
        }
    }
    sc_arena_done(&arena);
    zmq_close(f.router);
    zmq_ctx_term(f.context); // returns when all that was sent has left
    return 0;
}
