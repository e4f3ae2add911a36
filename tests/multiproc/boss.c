#include "tests/multiproc/boss.h"

#include "base/status.h"
#include "proto/codec.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include <cmocka.h>

enum {
    ID_MAX = 64,
    N_TOKENS = 256,
    SEQUENCE = 64,
    VOCABULARY = 512
};

struct sc_boss {
    char *dir;
    char *tokens; // path
    void *context;
    void *router;
    char endpoint[128];
    unsigned char id[ID_MAX]; // the worker's
    size_t n_id;
    uint64_t seq;
    sc_arena arena; // of the last message received
    sc_msg msg;
    sc_msg_stage stage;
    sc_proc *worker;
};

static void listen_for_worker(sc_boss *boss)
{
    int linger_ms = 0;
    size_t n = sizeof boss->endpoint;
    boss->context = zmq_ctx_new();
    boss->router = zmq_socket(boss->context, ZMQ_ROUTER);
    zmq_setsockopt(boss->router, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    assert_int_equal(zmq_bind(boss->router, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(boss->router, ZMQ_LAST_ENDPOINT, boss->endpoint, &n), 0);
}

sc_boss *sc_boss_open(void)
{
    unsigned char tokens[2 * N_TOKENS];
    sc_boss *boss = calloc(1, sizeof *boss);
    assert_non_null(boss);
    for (size_t i = 0; i < N_TOKENS; i++) {
        tokens[2 * i] = (unsigned char)(i * 7);
        tokens[2 * i + 1] = 0;
    }
    boss->dir = sc_tmpdir_new();
    boss->tokens = sc_tmpdir_write(boss->dir, "tokens.bin", tokens, sizeof tokens);
    listen_for_worker(boss);
    const char *const argv[] = {SC_BIN_DIR "/stagecoach-stage", "--coordinator", boss->endpoint,
                                NULL};
    boss->worker = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = boss->dir});
    sc_boss_expect(boss, SC_MSG_HELLO);
    sc_msg welcome = {.type = SC_MSG_WELCOME, .u.welcome = {.job_name = "x"}};
    sc_boss_send(boss, &welcome);
    return boss;
}

void sc_boss_close(sc_boss **boss_p)
{
    sc_boss *boss = *boss_p;
    sc_proc_free(&boss->worker);
    sc_proc_expect_none_left(SC_BOSS_PATIENCE_MS);
    zmq_close(boss->router);
    zmq_ctx_term(boss->context);
    sc_arena_done(&boss->arena);
    free(boss->tokens);
    sc_tmpdir_free(&boss->dir);
    free(boss);
    *boss_p = NULL;
}

sc_proc *sc_boss_worker(sc_boss *boss)
{
    return boss->worker;
}

void sc_boss_send(sc_boss *boss, sc_msg *msg)
{
    sc_arena arena = {.limit_bytes = 0};
    sc_err err;
    const unsigned char *bytes = NULL;
    size_t n = 0;
    msg->seq = ++boss->seq;
    if (sc_codec_pack(msg, &arena, &bytes, &n, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    zmq_send(boss->router, boss->id, boss->n_id, ZMQ_SNDMORE);
    zmq_send(boss->router, bytes, n, 0);
    sc_arena_done(&arena);
}

static void take_message(sc_boss *boss, sc_msg_type awaited)
{
    zmq_pollitem_t item = {.socket = boss->router, .events = ZMQ_POLLIN};
    zmq_msg_t frame;
    sc_err err;
    if (zmq_poll(&item, 1, SC_BOSS_PATIENCE_MS) <= 0) {
        fail_msg("no %s: %s", sc_codec_type_text(awaited), sc_proc_text(boss->worker, SC_PROC_ERR));
    }
    int n_id = zmq_recv(boss->router, boss->id, sizeof boss->id, 0);
    assert_in_range(n_id, 1, sizeof boss->id);
    boss->n_id = (size_t)n_id;
    zmq_msg_init(&frame);
    assert_true(zmq_msg_recv(&frame, boss->router, 0) >= 0);
    sc_arena_done(&boss->arena);
    sc_status status =
        sc_codec_unpack(zmq_msg_data(&frame), zmq_msg_size(&frame), &boss->arena, &boss->msg, &err);
    zmq_msg_close(&frame);
    if (status != SC_OK) {
        fail_msg("%s", err.text);
    }
}

const sc_msg *sc_boss_expect(sc_boss *boss, sc_msg_type type)
{
    do {
        take_message(boss, type);
        if (boss->msg.type == SC_MSG_FAIL && type != SC_MSG_FAIL) {
            fail_msg("the worker failed: %s", boss->msg.u.fail.text);
        }
    } while (boss->msg.type != type);
    return &boss->msg;
}

sc_msg_assign sc_boss_assignment(sc_boss *boss)
{
    boss->stage = (sc_msg_stage){.block_end = 1, .has_embed = true, .has_head = true};
    boss->stage.n_act_slots = 1;
    return (sc_msg_assign){
        .epoch = 1,
        .n_ranks = 1,
        .n_mb = 1,
        .micro_batch_size = 1,
        .global_batch_size = 1,
        .sequence_length = SEQUENCE,
        .threads = 1,
        .isa_max = "baseline",
        .slice = "layers",
        .data_path = boss->tokens,
        .data_format = "raw16",
        .recompute = "none",
        .model = {1, 2, 128, 512, VOCABULARY, SEQUENCE, 1e-5, 0.02, true},
        .optimizer = {.name = "adamw", .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F},
        .stages = &boss->stage,
        .n_stages = 1,
        .row = "0F0,0B0",
        .bind_address = "ipc",
        .n_message_slots = 1,
    };
}

void sc_boss_set_up(sc_boss *boss, const sc_msg_assign *assign)
{
    static const char *const endpoints[] = {""};
    sc_msg msg = {.type = SC_MSG_ASSIGN, .u.assign = *assign};
    sc_boss_send(boss, &msg);
    sc_boss_expect(boss, SC_MSG_BOUND);
    msg = (sc_msg){.type = SC_MSG_CONNECT, .u.connect = {assign->epoch, endpoints, 1}};
    sc_boss_send(boss, &msg);
    sc_boss_expect(boss, SC_MSG_READY);
}

void sc_boss_send_step(sc_boss *boss, uint64_t epoch, uint64_t step)
{
    sc_msg msg = {.type = SC_MSG_STEP, .u.step = {.epoch = epoch, .step = step}};
    sc_boss_send(boss, &msg);
}

void sc_boss_send_stop(sc_boss *boss, uint32_t status, const char *reason)
{
    sc_msg msg = {.type = SC_MSG_STOP, .u.stop = {status, reason}};
    sc_boss_send(boss, &msg);
}
