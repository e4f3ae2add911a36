/*
 * fake_stage - stands in for stagecoach-stage: greets, waits for STOP, and misbehaves on demand
 * (environment variable FAKE_STAGE).
 */
#include "tests/cli/fake_zmq.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

/* A process that only SIGKILL ends. */
static void stay(void)
{
    signal(SIGTERM, SIG_IGN);
    for (;;) {
        pause();
    }
}

static void end_politely(int number)
{
    static const char TEXT[] = "ended by SIGTERM\n";
    (void)number;
    _exit(write(STDOUT_FILENO, TEXT, sizeof TEXT - 1) > 0 ? 0 : 1);
}

static void wait_for_stop(void *dealer)
{
    sc_arena arena;
    sc_msg msg = {0};
    sc_arena_init(&arena, 0);
    while (msg.type != SC_MSG_STOP) {
        sc_fake_zmq_recv(dealer, NULL, &arena, &msg);
    }
    sc_arena_done(&arena);
}

static void greet(void *dealer, const char *device)
{
    sc_fake_id nobody = {.n = 0};
    sc_msg hello = {.type = SC_MSG_HELLO, .seq = 1};
    hello.u.hello = (sc_msg_hello){
        .program_version = "fake",
        .host = "here",
        .boot_id = "now",
        .pid = (uint32_t)getpid(),
        .device = device,
        .isa = "none",
        .probe = "",
    };
    sc_fake_zmq_send(dealer, &nobody, &hello);
}

int main(int argc, char **argv)
{
    const char *mode = getenv("FAKE_STAGE");
    const char *endpoint = "";
    const char *device = "";
    const char *cores = "none";
    mode = mode != NULL ? mode : "ok";
    for (int i = 1; i + 1 < argc; i += 2) {
        endpoint = strcmp(argv[i], "--coordinator") == 0 ? argv[i + 1] : endpoint;
        device = strcmp(argv[i], "--device") == 0 ? argv[i + 1] : device;
        cores = strcmp(argv[i], "--pin") == 0 ? argv[i + 1] : cores;
    }
    printf("fake stage on %s, cores %s\n", device, cores);
    fflush(stdout);
    if (strcmp(mode, "exit") == 0 && strcmp(device, "cpu:1") == 0) {
        fprintf(stderr, "no such device %s\n", device);
        return 6;
    }
    if (strcmp(mode, "grandchild") == 0 && fork() == 0) {
        stay();
    }
    void *context = zmq_ctx_new();
    void *dealer = zmq_socket(context, ZMQ_DEALER);
    if (zmq_connect(dealer, endpoint) < 0) {
        return 71;
    }
    greet(dealer, device);
    if (strcmp(mode, "kill") == 0 && strcmp(device, "cpu:1") == 0) {
        zmq_close(dealer);
        zmq_ctx_term(context); // returns when the greeting has left
        fprintf(stderr, "the last words of a worker\n");
        raise(SIGKILL);
    }
    if (strcmp(mode, "freeze") == 0) {
        zmq_close(dealer);
        zmq_ctx_term(context);
        signal(SIGTERM, end_politely);
        raise(SIGSTOP);
        stay();
    }
    if (strcmp(mode, "stubborn") == 0) {
        stay();
    }
    wait_for_stop(dealer);
    return 0;
}
