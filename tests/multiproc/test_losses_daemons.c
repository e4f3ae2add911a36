/* Daemons started by hand, in any order, train to the same bits as `stagecoach run`. */
#include "tests/multiproc/jobs.h"
#include "tests/support/proc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    N_WORKERS = 2
};

static const char coordinator_path[] = SC_BIN_DIR "/stagecoach-coordinator";
static const char worker_path[] = SC_BIN_DIR "/stagecoach-stage";

static const sc_jobs_layout layout = {"1f1b", N_WORKERS, {5, 7}};

/* The three processes. */
typedef struct trio {
    sc_proc *coordinator;
    sc_proc *workers[N_WORKERS];
} trio;

static sc_proc *start_coordinator(const sc_jobs *jobs, const char *job, const char *endpoint)
{
    const char *const argv[] = {coordinator_path, "--listen", endpoint, job, NULL};
    return sc_proc_start(&(sc_proc_config){.argv = argv, .dir = jobs->dir});
}

static void start_workers(const sc_jobs *jobs, const char *endpoint, trio *t)
{
    for (int i = 0; i < N_WORKERS; i++) {
        char device[16];
        char wait[16];
        snprintf(device, sizeof device, "cpu:%d", i);
        snprintf(wait, sizeof wait, "%d", SC_JOBS_PATIENCE_MS / 1000);
        const char *const argv[] = {worker_path, "--coordinator", endpoint, "--device",
                                    device,      "--wait",        wait,     NULL};
        t->workers[i] = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = jobs->dir});
    }
}

static void expect_end(trio *t)
{
    sc_proc_expect_exit(t->coordinator, 0, SC_JOBS_PATIENCE_MS);
    sc_proc_free(&t->coordinator);
    for (int i = 0; i < N_WORKERS; i++) {
        sc_proc_expect_exit(t->workers[i], 0, SC_JOBS_PATIENCE_MS);
        sc_proc_free(&t->workers[i]);
    }
}

/* "... listening on ENDPOINT, ..." in the coordinator's log. */
static void wait_endpoint(sc_proc *coordinator, char *out, size_t n)
{
    static const char mark[] = "listening on ";
    const char *line = sc_proc_expect_line(coordinator, SC_PROC_ERR, mark, SC_JOBS_PATIENCE_MS);
    const char *at = strstr(line, mark) + strlen(mark);
    size_t length = strcspn(at, ", ");
    assert_in_range(length, 1, n - 1);
    memcpy(out, at, length);
    out[length] = '\0';
}

static void coordinator_first(const sc_jobs *jobs, const char *job)
{
    trio t;
    char endpoint[64];
    t.coordinator = start_coordinator(jobs, job, "tcp://127.0.0.1:*");
    wait_endpoint(t.coordinator, endpoint, sizeof endpoint);
    start_workers(jobs, endpoint, &t);
    expect_end(&t);
}

/* A socket bound to the port (0: a free one, which is written). Several may be bound to one port as
   long as no more than one listens. */
static int bind_port(uint16_t *port)
{
    int yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t n = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &n), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void turn_away(int listener)
{
    struct pollfd item = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&item, 1, SC_JOBS_PATIENCE_MS), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
}

/* The workers knock and are turned away once or more by something that does not greet; then nobody
   listens; then the coordinator does. */
static void workers_first(const sc_jobs *jobs, const char *job)
{
    trio t;
    char endpoint[64];
    uint16_t port = 0;
    int reserved = bind_port(&port); // so that the system gives the port to nobody else meanwhile
    int listener = bind_port(&port);
    assert_int_equal(listen(listener, N_WORKERS), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", (unsigned)port);
    start_workers(jobs, endpoint, &t);
    for (int i = 0; i < N_WORKERS; i++) {
        turn_away(listener);
    }
    close(listener);
    t.coordinator = start_coordinator(jobs, job, endpoint);
    expect_end(&t);
    close(reserved);
}

static void expect_same_as_run(void (*start)(const sc_jobs *jobs, const char *job))
{
    sc_jobs jobs;
    sc_jobs_result expected;
    sc_jobs_result result;
    sc_jobs_config config = sc_jobs_small(3);
    config.optimizer = SC_JOBS_ADAMW;
    config.steps = 10;
    sc_jobs_open(&config, &jobs);
    sc_jobs_run(&jobs, &layout, &expected);
    char *job = sc_jobs_write(&jobs, &layout);
    start(&jobs, job);
    free(job);
    sc_jobs_collect(&jobs, &layout, &result);
    assert_string_not_equal(result.run_dir, expected.run_dir);
    sc_jobs_expect_same(&expected, &result);
    sc_jobs_result_free(&result);
    sc_jobs_result_free(&expected);
    sc_jobs_close(&jobs);
}

static void workers_after_the_coordinator(void **state)
{
    (void)state;
    expect_same_as_run(coordinator_first);
}

static void workers_before_the_coordinator(void **state)
{
    (void)state;
    expect_same_as_run(workers_first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_after_the_coordinator),
        cmocka_unit_test(workers_before_the_coordinator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
