/* Garbage on the ports of a job that runs: it ends well all the same, with the right losses. */
#include "base/status.h"
#include "tests/multiproc/actor.h"
#include "tests/multiproc/fleet.h"

#include "base/rng.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    N_RANDOM = 4096,
    N_CALLS = 64,
    HUGE_BYTES = (64 << 20) + 1, // a message may have 64 MiB
    VERSION_BYTE = 4             // of a frame
};

static const sc_fleet_job JOB = {
    .schedule = "1f1b", .p = 2, .m = 4, .steps = 6, .f_ms = 200, .i_ms = 100, .w_ms = 100};
/* Its losses are the same: they do not depend on the times. */
static const sc_fleet_job QUICK = {.schedule = "1f1b", .p = 2, .m = 4, .steps = 6};

static void start_training(sc_fleet *fleet)
{
    char doing[512];
    sc_fleet_open(&JOB, fleet);
    sc_fleet_run(fleet);
    sc_fleet_await(fleet, "rank 1", "action 1F", NULL, doing);
}

static void expect_right_end(sc_fleet *fleet)
{
    sc_proc_expect_exit(fleet->run, 0, SC_FLEET_PATIENCE_MS);
    assert_string_equal(sc_proc_text(fleet->run, SC_PROC_ERR), "");
    sc_fleet_expect_losses(fleet, &QUICK);
    sc_fleet_close(fleet);
}

static void fill_random(unsigned char *out, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (unsigned char)sc_rng_u64(1, stream, i);
    }
}

/* What is no ZeroMQ peer at all. */
static void write_plain_bytes(const char *endpoint)
{
    static const unsigned char GREETING[] = {0xff, 0,    0, 0, 0,   0,   0,   0,
                                             1,    0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    unsigned char bytes[N_RANDOM];
    for (uint64_t i = 0; i < 8; i++) {
        fill_random(bytes, sizeof bytes, i);
        sc_actor_write_raw(endpoint, bytes, sizeof bytes);
    }
    sc_actor_write_raw(endpoint, NULL, 0);
    sc_actor_write_raw(endpoint, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, GREETING, sizeof GREETING);
    memset(bytes + 64, 0xff, sizeof bytes - 64); // a whole greeting, then a frame of 2^64 bytes
    sc_actor_write_raw(endpoint, bytes, sizeof bytes);
}

/* Messages of a ZeroMQ peer that are not ours. */
static void send_damaged(const char *endpoint)
{
    sc_actor *actor = sc_actor_open(endpoint);
    unsigned char bytes[N_RANDOM];
    sc_msg watch = {.type = SC_MSG_WATCH, .u.watch = {.program_version = SC_VERSION}};
    size_t n = 0;
    unsigned char *frame = sc_actor_pack(actor, &watch, &n);
    fill_random(bytes, sizeof bytes, 99);
    sc_actor_send_bytes(actor, "", 0, false);
    sc_actor_send_bytes(actor, bytes, sizeof bytes, false);
    for (size_t cut = 0; cut < n; cut++) {
        sc_actor_send_bytes(actor, frame, cut, false);
    }
    for (size_t i = 0; i < n; i++) {
        frame[i] ^= 0x10;
        sc_actor_send_bytes(actor, frame, n, false);
        frame[i] ^= 0x10;
    }
    frame[VERSION_BYTE] = 99;
    sc_actor_send_bytes(actor, frame, n, false);
    for (int parts = 1; parts < 8; parts++) {
        sc_actor_send_bytes(actor, frame, n, true);
    }
    sc_actor_send_bytes(actor, bytes, 17, false);
    free(frame);
    sc_actor_close(&actor);
}

static void test_bytes_on_the_control_port(void **state)
{
    (void)state;
    sc_fleet fleet;
    char doing[512];
    start_training(&fleet);
    write_plain_bytes(fleet.endpoint);
    send_damaged(fleet.endpoint);
    sc_actor_announce_frame(fleet.endpoint, HUGE_BYTES, SC_FLEET_PATIENCE_MS);
    sc_fleet_await(&fleet, "rank 0", "action 0", NULL, doing); // still answers
    expect_right_end(&fleet);
}

/* Whoever did not say HELLO is no worker, whatever he sends. */
static void send_as_stranger(const char *endpoint, sc_msg msg)
{
    sc_actor *actor = sc_actor_open(endpoint);
    sc_actor_send(actor, &msg);
    sc_actor_close(&actor);
}

static void test_messages_of_strangers(void **state)
{
    (void)state;
    sc_fleet fleet;
    start_training(&fleet);
    send_as_stranger(fleet.endpoint,
                     (sc_msg){.type = SC_MSG_REPORT,
                              .u.report = {.epoch = 1, .rank = 1, .loss_sum = 666, .n_valid = 1}});
    send_as_stranger(
        fleet.endpoint,
        (sc_msg){.type = SC_MSG_FAIL, .u.fail = {.epoch = 1, .status = SC_FAILED, .text = "ha"}});
    send_as_stranger(fleet.endpoint, (sc_msg){.type = SC_MSG_READY, .u.ready = {.epoch = 1}});
    send_as_stranger(fleet.endpoint, (sc_msg){.type = SC_MSG_BYE});
    send_as_stranger(fleet.endpoint, (sc_msg){.type = SC_MSG_STOP, .u.stop = {.reason = "ha"}});
    send_as_stranger(fleet.endpoint, (sc_msg){.type = SC_MSG_ABORT, .u.abort = {.epoch = 1}});
    send_as_stranger(fleet.endpoint, (sc_msg){.type = SC_MSG_HEARTBEAT,
                                              .u.heartbeat = {.state = "step", .action = "9F9"}});
    sc_actor *actor = sc_actor_open(fleet.endpoint);
    sc_msg unknown = {.type = SC_MSG_CONTROL, .u.control = {.verb = "explode"}};
    sc_actor_send(actor, &unknown);
    const sc_msg *reply = sc_actor_expect(actor, SC_MSG_REPLY, SC_FLEET_PATIENCE_MS);
    assert_int_equal(reply->u.reply.status, SC_USAGE);
    sc_actor_close(&actor);
    expect_right_end(&fleet);
}

/* A job that has its workers takes no more, and says why. */
static void test_workers_that_are_too_many(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        sc_status status;
        const char *text;
    } cases[] = {
        {"cpu:0", SC_EXISTS, "device cpu:0 on "},
        {"cpu:7", SC_LIMIT, "job x needs 2 workers and has them"},
    };
    sc_fleet fleet;
    start_training(&fleet);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sc_actor *actor = sc_actor_open(fleet.endpoint);
        sc_actor_hello(actor, cases[i].device);
        const sc_msg *stop = sc_actor_expect(actor, SC_MSG_STOP, SC_FLEET_PATIENCE_MS);
        assert_int_equal(stop->u.stop.status, cases[i].status);
        assert_non_null(strstr(stop->u.stop.reason, cases[i].text));
        sc_actor_close(&actor);
    }
    expect_right_end(&fleet);
}

/* The data socket of a worker: a file of its number in the folder of sockets. */
static void find_data_endpoint(pid_t pid, char out[320])
{
    char folder[64];
    char prefix[32];
    snprintf(folder, sizeof folder, "/tmp/stagecoach-%ld", (long)geteuid());
    int n = snprintf(prefix, sizeof prefix, "w%d-", (int)pid);
    out[0] = '\0';
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strncmp(entry->d_name, prefix, (size_t)n) == 0) {
            snprintf(out, 320, "ipc://%s/%.200s", folder, entry->d_name);
        }
    }
    closedir(dir);
    if (out[0] == '\0') {
        fail_msg("pid %d has no socket in %s", (int)pid, folder);
    }
}

static void test_bytes_on_the_ports_of_workers(void **state)
{
    (void)state;
    sc_fleet fleet;
    start_training(&fleet);
    for (int r = 0; r < JOB.p; r++) {
        char who[32];
        char doing[512];
        char endpoint[320];
        snprintf(who, sizeof who, "rank %d", r);
        sc_fleet_await(&fleet, who, "", NULL, doing);
        pid_t pid = sc_fleet_pid_in(doing);
        find_data_endpoint(pid, endpoint);
        write_plain_bytes(endpoint);
        send_damaged(endpoint);
        sc_actor_announce_frame(endpoint, HUGE_BYTES, SC_FLEET_PATIENCE_MS);
        snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", sc_actor_find_port(pid));
        write_plain_bytes(endpoint);
        for (int i = 0; i < N_CALLS; i++) {
            sc_actor_write_raw(endpoint, "x", 1);
        }
    }
    expect_right_end(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_on_the_control_port),
        cmocka_unit_test(test_messages_of_strangers),
        cmocka_unit_test(test_workers_that_are_too_many),
        cmocka_unit_test(test_bytes_on_the_ports_of_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
