/*
 * stage_open - the worker loop's state, and how its sockets, timers and threads are made and given
 * back.
 */
#ifndef SC_STAGE_IO_STAGE_OPEN_H
#define SC_STAGE_IO_STAGE_OPEN_H

#include "stage/io/epoch.h"
#include "stage/io/liveness.h"
#include "stage/io/socket_dir.h"
#include "stage/io/stage_loop.h"

typedef struct sc_stage_loop {
    const sc_stage_config *config;
    void *zmq;
    void *control;
    void *monitor;
    int signal_fd;
    int heartbeat_fd; // periodic timer
    int precise_fd;   // one-shot timer for paced latencies
    int64_t precise_ns;
    sc_liveness liveness;
    sc_compute compute;
    sc_epoch *epoch; // NULL while idle
    sc_socket_dir socket_dir;
    sc_arena in_arena;    // of the message being handled
    sc_arena out_arena;   // of the message being sent
    int64_t echo_sent_ns; // of the last WELCOME or STEP, for heartbeats
    int64_t echo_received_ns;
    uint64_t seq;
    int control_fd; // readable when the socket should be read until it is empty; a send may take
    int monitor_fd; // the sign away
    uint32_t worker;
    bool is_control_due; // its socket was used since it was last found empty
    bool is_greeted;     // the coordinator's socket has answered
    bool is_welcome;
    bool is_over;
    int64_t start_ns;
    char isa[16];
    char host[64];
    char boot_id[64];
    sc_status status; // how it ended
    sc_err err;
} sc_stage_loop;

/* Opens everything of a loop that has its config and is zero otherwise. Blocks SIGINT and SIGTERM:
   they come through signal_fd. sc_stage_open_close must follow, also after an error. */
sc_status sc_stage_open_all(sc_stage_loop *loop, sc_err *err);
/* Frees the epoch, ends the compute thread, closes sockets and timers. */
void sc_stage_open_close(sc_stage_loop *loop);

#endif
