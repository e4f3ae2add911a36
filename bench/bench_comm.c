/*
 * bench_comm - the host transport between two processes: GB/s and CPU seconds per GB.
 *
 * Rank 0 sends, rank 1 receives, window 2 and two buffers at each end, as the executor does.
 * The CPU time is that of all threads of both processes.
 */
#include "stage/comm/comm.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    N_BUFFERS = 2,
    WARM_UP = 8
};

typedef struct outcome {
    double seconds;
    double cpu_seconds;
} outcome;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_now(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static bool wait_event(sc_comm *comm, sc_comm_event *event)
{
    struct pollfd p = {.fd = comm->event_fd, .events = POLLIN};
    while (!comm->ops->next_event(comm, event)) {
        poll(&p, 1, -1);
    }
    if (event->type == SC_COMM_FAILED) {
        fprintf(stderr, "bench_comm: %s\n", event->err.text);
    }
    return event->type != SC_COMM_FAILED;
}

static sc_comm *open_pair(int rank, const char *address, size_t bytes, int to, int from)
{
    sc_comm_channel channel = {.to_stage = 1,
                               .peer_rank = 1 - rank,
                               .is_send = rank == 0,
                               .message_bytes = bytes,
                               .window = N_BUFFERS};
    sc_comm_config config = {.epoch = 1,
                             .rank = rank,
                             .n_ranks = 2,
                             .bind_address = address,
                             .channels = &channel,
                             .n_channels = 1};
    sc_comm *comm = NULL;
    sc_err err;
    if (sc_comm_host_open(&config, &comm, &err) != SC_OK) {
        fprintf(stderr, "bench_comm: %s\n", err.text);
        return NULL;
    }
    char peer[SC_COMM_ENDPOINT_MAX];
    sc_comm_event event;
    const char *endpoints[2] = {peer, peer};
    size_t n = sizeof peer;
    if (write(to, comm->endpoint, n) != (ssize_t)n || read(from, peer, n) != (ssize_t)n ||
        comm->ops->connect(comm, endpoints, &err) != SC_OK || !wait_event(comm, &event)) {
        comm->ops->close(&comm);
    }
    return comm;
}

/* Message k with its buffer, at either end. */
static bool call(sc_comm *comm, int rank, char *buffers, size_t bytes, int k)
{
    char *buf = buffers + (size_t)(k % N_BUFFERS) * bytes;
    sc_comm_tag tag = {.step = 1, .mb = k};
    sc_status status = rank == 0 ? comm->ops->send(comm, 0, buf, tag, 0, 0, NULL)
                                 : comm->ops->post_recv(comm, 0, buf, tag, 0, NULL);
    return status == SC_OK;
}

/* One end's whole run; the receiver's outcome counts the time, both count CPU. */
static int play(int rank, const char *address, size_t bytes, int n_messages, int to, int from,
                outcome *out)
{
    sc_comm *comm = open_pair(rank, address, bytes, to, from);
    char *buffers = malloc(N_BUFFERS * bytes);
    bool is_ok = comm != NULL && buffers != NULL;
    double start = 0;
    double cpu_start = 0;
    if (is_ok) {
        memset(buffers, 1, N_BUFFERS * bytes);
    }
    for (int k = 0; is_ok && k < N_BUFFERS; k++) {
        is_ok = call(comm, rank, buffers, bytes, k);
    }
    for (int n_done = 0; is_ok && n_done < n_messages; n_done++) {
        if (n_done == WARM_UP) {
            start = now();
            cpu_start = cpu_now();
        }
        sc_comm_event event;
        is_ok = wait_event(comm, &event);
        if (is_ok && n_done + N_BUFFERS < n_messages) {
            is_ok = call(comm, rank, buffers, bytes, n_done + N_BUFFERS);
        }
    }
    out->seconds = now() - start;
    out->cpu_seconds = cpu_now() - cpu_start;
    char end = 'e';
    is_ok = is_ok && write(to, &end, 1) == 1 && read(from, &end, 1) == 1; // close together
    if (comm != NULL) {
        comm->ops->close(&comm);
    }
    free(buffers);
    return is_ok ? 0 : 1;
}

static int measure(const char *address, size_t bytes)
{
    int n_messages = (int)((1UL << 30) / bytes);
    n_messages = (n_messages > 4000 ? 4000 : n_messages) + WARM_UP;
    int down[2];
    int up[2];
    outcome sent;
    outcome received;
    if (pipe(down) != 0 || pipe(up) != 0) {
        perror("bench_comm: pipe");
        return 1;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int rc = play(0, address, bytes, n_messages, up[1], down[0], &sent);
        _exit(rc == 0 && write(up[1], &sent, sizeof sent) == sizeof sent ? 0 : 1);
    }
    int rc = play(1, address, bytes, n_messages, down[1], up[0], &received);
    bool is_ok = rc == 0 && read(up[0], &sent, sizeof sent) == sizeof sent;
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(down[i]);
        close(up[i]);
    }
    if (!is_ok) {
        return 1;
    }
    double gb = (double)bytes * (n_messages - WARM_UP) * 1e-9;
    printf("%-4.3s %8zu KiB  %6.2f GB/s  %5.2f CPU-s/GB\n", address, bytes >> 10,
           gb / received.seconds, (sent.cpu_seconds + received.cpu_seconds) / gb);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        printf("usage: %s    (no arguments; runs in the folder for socket files, $PWD)\n", argv[0]);
        return strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    static const char *const addresses[] = {"ipc://bench-comm-*", "tcp://127.0.0.1:*"};
    printf("two processes, one channel, window %d; at least 1 GB or 4000 messages a line\n",
           N_BUFFERS);
    for (int a = 0; a < 2; a++) {
        for (size_t bytes = 64 << 10; bytes <= 16 << 20; bytes *= 4) {
            if (measure(addresses[a], bytes) != 0) {
                return 1;
            }
        }
    }
    return 0;
}
