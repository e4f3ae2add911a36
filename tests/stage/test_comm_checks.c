/* What arrives is checked: tags, lengths, channels, epochs; strangers are dropped and counted. */
#include "tests/stage/comm_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

/* Rank 1 receives gradients 2->1 from rank 0, which is a raw socket, and is in a group with it. */
typedef struct scene {
    world w;
    raw_peer raw;
    int channel;
    unsigned char buf[40];
} scene;

/* With a third rank that sends activations 0->1, when asked for. */
static void scene_open(scene *s, const char *transport, int n_ranks)
{
    int unused = 0;
    memset(s, 0, sizeof *s);
    world_init(&s->w, transport, n_ranks);
    world_channel(&s->w, 0, 1, 2, 1, SC_COMM_GRADIENT, sizeof s->buf, 2, &unused, &s->channel);
    if (n_ranks == 3) {
        world_channel(&s->w, 2, 1, 0, 1, SC_COMM_ACTIVATION, 8, 1, &unused, &unused);
    }
    world_open(&s->w);
}

/* The peer greets; receive 0 (step 5 stage 2 mb 3) is posted and its credit has come. */
static void scene_start(scene *s, const char *transport)
{
    scene_open(s, transport, 2);
    const char *endpoints[] = {s->w.ranks[0].comm->endpoint, NULL};
    sc_comm *comm = s->w.ranks[1].comm;
    assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    raw_greet(&s->raw, comm->endpoint, s->w.epoch, 0, 1);
    world_expect(&s->w, 1, SC_COMM_CONNECTED, -1, 0);
    world_recv(&s->w, 1, s->channel, s->buf, (sc_comm_tag){.step = 5, .stage = 2, .mb = 3}, 8);
    sc_comm_wire credit = raw_recv(&s->raw, false, NULL, NULL);
    assert_int_equal(credit.type, SC_COMM_WIRE_CREDIT);
    assert_int_equal(credit.sequence, 0);
}

static void scene_done(scene *s)
{
    raw_done(&s->raw);
    world_done(&s->w);
}

/* A correct header of message 0. */
static sc_comm_wire good(const scene *s)
{
    return (sc_comm_wire){
        .type = SC_COMM_WIRE_DATA,
        .epoch = s->w.epoch,
        .rank = 0,
        .from = 2,
        .to = 1,
        .kind = SC_COMM_GRADIENT,
        .tag = {.step = 5, .stage = 2, .mb = 3},
        .total = sizeof s->buf,
        .n_tensors = 2, // a list: the receiver takes any that adds up
        .tensors = {{.dtype = SC_DTYPE_F32, .n_bytes = 24}, {.dtype = SC_DTYPE_I32, .n_bytes = 16}},
    };
}

static void test_good_frame(void **state)
{
    scene s;
    unsigned char body[sizeof s.buf];
    scene_start(&s, *state);
    sc_comm_wire wire = good(&s);
    world_fill(body, sizeof body, 1);
    raw_send(&s.raw, &wire, body, sizeof body);
    world_expect(&s.w, 1, SC_COMM_RECV_DONE, s.channel, 8);
    world_check(s.buf, sizeof s.buf, 1);
    wire.sequence = 1;
    raw_send(&s.raw, &wire, body, sizeof body);
    world_expect_failure(&s.w, 1, "gradients 2->1: message 1 was sent without credit");
    scene_done(&s);
}

/* Sends one frame with a fault; the comm fails with that text and touches no byte of the buffer. */
static void refuse(const char *transport, void (*spoil)(sc_comm_wire *wire), size_t n_body,
                   const char *text)
{
    scene s;
    unsigned char body[2 * sizeof s.buf] = {0};
    scene_start(&s, transport);
    sc_comm_wire wire = good(&s);
    if (spoil != NULL) {
        spoil(&wire);
    }
    memset(s.buf, 0x77, sizeof s.buf);
    raw_send(&s.raw, &wire, body, n_body);
    world_expect_failure(&s.w, 1, text);
    for (size_t i = 0; i < sizeof s.buf; i++) {
        assert_int_equal(s.buf[i], 0x77);
    }
    world_expect_none(&s.w, 1);
    scene_done(&s);
}

static void spoil_step(sc_comm_wire *wire)
{
    wire->tag.step = 6;
}

static void spoil_stage(sc_comm_wire *wire)
{
    wire->tag.stage = 4;
}

static void spoil_mb(sc_comm_wire *wire)
{
    wire->tag.mb = 0;
}

static void spoil_total(sc_comm_wire *wire)
{
    wire->total = 44;
    wire->tensors[1].n_bytes = 20;
}

static void spoil_offset(sc_comm_wire *wire)
{
    wire->offset = 4;
}

static void spoil_sequence(sc_comm_wire *wire)
{
    wire->sequence = 2;
}

static void spoil_channel(sc_comm_wire *wire)
{
    wire->kind = SC_COMM_ACTIVATION;
}

static void spoil_stages(sc_comm_wire *wire)
{
    wire->from = -5;
}

static void spoil_rank(sc_comm_wire *wire)
{
    wire->rank = 1;
}

static void spoil_type(sc_comm_wire *wire)
{
    wire->type = SC_COMM_WIRE_WELCOME;
    wire->n_tensors = 0;
}

static void spoil_group(sc_comm_wire *wire)
{
    wire->type = SC_COMM_WIRE_SUM;
    wire->from = 9;
    wire->n_tensors = 0;
}

static void test_bad_frames(void **state)
{
    const char *t = *state;
    size_t n = sizeof((scene *)NULL)->buf;
    refuse(t, spoil_step, n,
           "gradients 2->1: message 0: expected step 5 stage 2 mb 3, got step 6 stage 2 mb 3");
    refuse(t, spoil_stage, n, "expected step 5 stage 2 mb 3, got step 5 stage 4 mb 3");
    refuse(t, spoil_mb, n, "expected step 5 stage 2 mb 3, got step 5 stage 2 mb 0");
    refuse(t, spoil_total, n, "gradients 2->1: message 0: expected 40 bytes, got one of 44 bytes");
    refuse(t, spoil_offset, n, "expected 40 bytes at offset 0, got 40 bytes at offset 4");
    refuse(t, NULL, n - 1, "expected 40 bytes at offset 0, got 39 bytes at offset 0");
    refuse(t, NULL, n + 1, "expected 40 bytes at offset 0, got 41 bytes at offset 0");
    refuse(t, spoil_sequence, n, "gradients 2->1: expected message 0, got message 2");
    refuse(t, spoil_channel, n, "data frame from rank 0 for activations 2->1, which is no channel");
    refuse(t, spoil_stages, n, "for gradients -5->1, which is no channel");
    refuse(t, spoil_rank, n, "bad frame from rank 0: wrong rank");
    refuse(t, spoil_type, n, "bad frame from rank 0: of a type");
    refuse(t, spoil_type, 0, "bad frame from rank 0: wrong rank or number of parts");
    refuse(t, spoil_group, n, "sum frame from rank 0 for unknown group 9");
}

static void test_bad_header_of_a_peer(void **state)
{
    scene s;
    scene_start(&s, *state);
    raw_part(&s.raw, "garbage", 7, false);
    world_expect_failure(&s.w, 1, "bad frame from rank 0: header of 7 bytes");
    scene_done(&s);
}

/* Two comms that were told different sizes, and different tags: what a wrong plan would look like.
 */
static void test_ends_that_disagree(void **state)
{
    for (int is_tag = 0; is_tag < 2; is_tag++) {
        world w;
        int s = 0;
        int r = 0;
        unsigned char buf[128] = {0};
        world_init(&w, *state, 2);
        world_channel(&w, 0, 1, 1, 2, SC_COMM_ACTIVATION, 64, 1, &s, &r);
        w.ranks[0].channels[s].message_bytes = is_tag ? 64 : 128;
        world_open(&w);
        world_connect(&w);
        world_recv(&w, 1, r, buf, (sc_comm_tag){.step = 1, .stage = 1, .mb = 4}, 0);
        world_send(&w, 0, s, buf, (sc_comm_tag){.step = 1, .stage = 1, .mb = 4 + is_tag}, 0);
        world_expect_failure(&w, 1,
                             is_tag ? "activations 1->2: message 0: expected step 1 stage 1 mb 4, "
                                      "got step 1 stage 1 mb 5"
                                    : "activations 1->2: message 0: expected 64 bytes, got one of "
                                      "128 bytes");
        world_done(&w);
    }
}

/* A stale worker's frames: whatever it sends is dropped, from a stranger or from the peer. */
static void test_another_epoch(void **state)
{
    scene s;
    raw_peer stale = {0};
    unsigned char body[sizeof s.buf];
    scene_open(&s, *state, 2);
    sc_comm *comm = s.w.ranks[1].comm;
    sc_comm_wire hello = {.type = SC_COMM_WIRE_HELLO, .epoch = s.w.epoch - 1, .to = 1};
    raw_dial(&stale, comm->endpoint);
    raw_send(&stale, &hello, NULL, 0);
    sc_comm_wire old = good(&s);
    old.epoch--;
    raw_send(&stale, &old, body, sizeof body);
    hello.epoch = s.w.epoch; // answered, so all before was looked at
    raw_send(&stale, &hello, NULL, 0);
    assert_int_equal(raw_recv(&stale, false, NULL, NULL).type, SC_COMM_WIRE_WELCOME);
    assert_int_equal(sc_comm_host_count_drops(comm).n_stale, 2);

    const char *endpoints[] = {s.w.ranks[0].comm->endpoint, NULL};
    assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    world_expect(&s.w, 1, SC_COMM_CONNECTED, -1, 0);
    world_recv(&s.w, 1, s.channel, s.buf, old.tag, 8);
    raw_recv(&stale, false, NULL, NULL);
    world_fill(body, sizeof body, 2);
    raw_send(&stale, &old, body, sizeof body);
    sc_comm_wire wire = good(&s);
    world_fill(body, sizeof body, 3);
    raw_send(&stale, &wire, body, sizeof body);
    world_expect(&s.w, 1, SC_COMM_RECV_DONE, s.channel, 8);
    world_check(s.buf, sizeof s.buf, 3);
    assert_int_equal(sc_comm_host_count_drops(comm).n_stale, 3);
    raw_done(&stale);
    world_done(&s.w);
}

/* Plain bytes that are no ZeroMQ, until the other side hangs up. */
static void throw_bytes(const char *endpoint, const void *bytes, size_t n)
{
    int fd = -1;
    if (strncmp(endpoint, "tcp://", 6) == 0) {
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port =
                                     htons((uint16_t)strtol(strrchr(endpoint, ':') + 1, NULL, 10)),
                                 .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
    } else {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        snprintf(un.sun_path, sizeof un.sun_path, "%s", endpoint + 6);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof un), 0);
    }
    const char *p = bytes;
    while (n > 0) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done <= 0) {
            break; // it hung up already
        }
        p += done;
        n -= (size_t)done;
    }
    shutdown(fd, SHUT_WR);
    char answer[256];
    ssize_t got = 0;
    do {
        got = read(fd, answer, sizeof answer);
    } while (got > 0 || (got < 0 && errno == EINTR));
    close(fd);
}

static void test_strangers(void **state)
{
    scene s;
    raw_peer foreign = {0};
    static unsigned char noise[100000];
    static const unsigned char greeting[] = {0xff, 0,    0, 0, 0,   0,   0,   0,
                                             1,    0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    scene_open(&s, *state, 3);
    sc_comm *comm = s.w.ranks[1].comm;
    const char *endpoints[] = {NULL, NULL, NULL};
    assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    raw_greet(&s.raw, comm->endpoint, s.w.epoch, 0, 1);
    world_recv(&s.w, 1, s.channel, s.buf, good(&s).tag, 8);
    assert_int_equal(raw_recv(&s.raw, false, NULL, NULL).type, SC_COMM_WIRE_CREDIT);
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    throw_bytes(comm->endpoint, http, sizeof http - 1);
    for (uint64_t seed = 0; seed < 20; seed++) {
        world_fill(noise, sizeof noise, seed);
        if (seed % 2 == 0) {
            memcpy(noise, greeting, sizeof greeting);
        }
        throw_bytes(comm->endpoint, noise, seed == 19 ? sizeof noise : seed * 11);
    }
    /* real ZeroMQ, but nobody we know: many parts, empty ones, headers of others */
    raw_dial(&foreign, comm->endpoint);
    sc_comm_wire wire = good(&s);
    unsigned char head[SC_COMM_WIRE_BYTES_MAX];
    size_t n = sc_comm_host_wire_pack(&wire, head);
    raw_send(&foreign, &wire, noise, sizeof s.buf); // right in all but who sends it
    for (int i = 0; i < 5; i++) {
        raw_part(&foreign, noise, (size_t)i, i < 4);
    }
    for (size_t cut = 0; cut <= n; cut++) {
        raw_part(&foreign, head, cut, false);
    }
    sc_comm_wire hello = {.type = SC_COMM_WIRE_HELLO, .epoch = s.w.epoch, .rank = 0, .to = 1};
    raw_send(&foreign, &hello, NULL, 0); // rank 0 is there already
    hello.rank = 1;
    raw_send(&foreign, &hello, NULL, 0); // that is ourselves
    hello.rank = UINT32_MAX;
    raw_send(&foreign, &hello, NULL, 0);
    hello.rank = 2; // the one rank that is still awaited: answered, so all before was looked at
    raw_send(&foreign, &hello, NULL, 0);
    assert_int_equal(raw_recv(&foreign, false, NULL, NULL).type, SC_COMM_WIRE_WELCOME);
    world_expect(&s.w, 1, SC_COMM_CONNECTED, -1, 0);
    assert_true(sc_comm_host_count_drops(comm).n_strangers >= 5 + n);
    raw_done(&foreign);

    unsigned char body[sizeof s.buf];
    world_fill(body, sizeof body, 4);
    raw_send(&s.raw, &wire, body, sizeof body);
    world_expect(&s.w, 1, SC_COMM_RECV_DONE, s.channel, 8);
    world_check(s.buf, sizeof s.buf, 4);
    world_expect_none(&s.w, 1);
    scene_done(&s);
}

/* All dropped frames are counted: the stranger greets as a peer afterwards, and is answered. */
static void test_strangers_are_counted(void **state)
{
    scene s;
    scene_open(&s, *state, 2);
    sc_comm *comm = s.w.ranks[1].comm;
    raw_dial(&s.raw, comm->endpoint);
    sc_comm_wire wire = good(&s);
    raw_send(&s.raw, &wire, s.buf, sizeof s.buf);
    raw_part(&s.raw, "", 0, false);
    raw_part(&s.raw, "a", 1, true);
    raw_part(&s.raw, "b", 1, true);
    raw_part(&s.raw, "c", 1, false);
    sc_comm_wire hello = {.type = SC_COMM_WIRE_HELLO, .epoch = s.w.epoch, .rank = 7, .to = 1};
    raw_send(&s.raw, &hello, NULL, 0);
    hello.rank = 0;
    raw_send(&s.raw, &hello, NULL, 0);
    assert_int_equal(raw_recv(&s.raw, false, NULL, NULL).type, SC_COMM_WIRE_WELCOME);
    assert_int_equal(sc_comm_host_count_drops(comm).n_strangers, 4);
    world_expect_none(&s.w, 1);
    scene_done(&s);
}

/* The address of rank 1 in truth belongs to rank 2. */
static void test_wrong_rank_answers(void **state)
{
    world w;
    int unused = 0;
    world_init(&w, *state, 3);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, 8, 1, &unused, &unused);
    world_channel(&w, 0, 2, 0, 2, SC_COMM_ACTIVATION, 8, 1, &unused, &unused);
    world_open(&w);
    const char *endpoint = w.ranks[2].comm->endpoint;
    const char *endpoints[] = {NULL, endpoint, endpoint};
    sc_comm *comm = w.ranks[0].comm;
    assert_int_equal(comm->ops->connect(comm, endpoints, NULL), SC_OK);
    world_expect_failure(&w, 0, "rank 2 answers at ");
    world_done(&w);
}

static void test_bad_addresses(void **state)
{
    world w;
    sc_err err;
    int unused = 0;
    world_init(&w, *state, 2);
    world_channel(&w, 0, 1, 0, 1, SC_COMM_ACTIVATION, 8, 1, &unused, &unused);
    world_open(&w);
    sc_comm *comm = w.ranks[0].comm;
    const char *endpoints[] = {NULL, NULL};
    assert_int_equal(comm->ops->connect(comm, endpoints, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "rank 1 has no data address"));
    endpoints[1] = "carrier://pigeon";
    assert_int_equal(comm->ops->connect(comm, endpoints, &err), SC_OK);
    world_expect_failure(&w, 0, "rank 1: cannot connect to carrier://pigeon");
    world_done(&w);
}

static sc_status try_open(const char *address, sc_err *err)
{
    sc_comm *comm = NULL;
    sc_comm_config config = {.rank = 0, .n_ranks = 1, .bind_address = address};
    sc_status status = sc_comm_host_open(&config, &comm, err);
    if (status == SC_OK) {
        comm->ops->close(&comm);
    }
    assert_null(comm);
    return status;
}

static void test_bad_configurations(void **state)
{
    (void)state;
    sc_err err;
    assert_int_equal(try_open("tcp://127.0.0.1:*", &err), SC_OK);
    assert_int_equal(try_open("ipc:///no/such/folder/x-*", &err), SC_IO);
    assert_non_null(strstr(err.text, "cannot listen for data on ipc:///no/such/folder/x-"));
    assert_int_equal(
        try_open("ipc:///tmp/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/x-*",
                 &err),
        SC_LIMIT);
    assert_non_null(strstr(err.text, "use a shorter directory"));

    int ranks[2] = {0, 0};
    sc_comm_channel channels[2] = {
        {.to_stage = 1, .peer_rank = 1, .message_bytes = 1, .window = 1},
        {.to_stage = 1, .peer_rank = 1, .message_bytes = 1, .window = 1, .is_send = true}};
    sc_comm_group group = {.id = 3, .n_ranks = 2, .ranks = ranks, .max_bytes = 4};
    sc_comm_config config = {.rank = 0,
                             .n_ranks = 2,
                             .bind_address = "tcp://127.0.0.1:*",
                             .channels = channels,
                             .n_channels = 2};
    sc_comm *comm = NULL;
    assert_int_equal(sc_comm_host_open(&config, &comm, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "channel 1: stages 0->1 are there twice"));
    config.n_channels = 1;
    channels[0].peer_rank = 0;
    assert_int_equal(sc_comm_host_open(&config, &comm, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "peer rank 0 of 2, own rank 0"));
    channels[0].peer_rank = 1;
    channels[0].message_bytes = 0;
    assert_int_equal(sc_comm_host_open(&config, &comm, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "messages of 0 bytes"));
    config.n_channels = 0;
    config.groups = &group;
    config.n_groups = 1;
    assert_int_equal(sc_comm_host_open(&config, &comm, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "group 3: rank 0 at place 1, 1 to 1 fit"));
    assert_null(comm);
}

#define ON(transport, f) \
    { \
#f " " transport, f, NULL, NULL, transport \
    }
#define ALL(transport) \
    ON(transport, test_good_frame), ON(transport, test_bad_frames), \
        ON(transport, test_bad_header_of_a_peer), ON(transport, test_ends_that_disagree), \
        ON(transport, test_another_epoch), ON(transport, test_strangers), \
        ON(transport, test_strangers_are_counted), ON(transport, test_wrong_rank_answers), \
        ON(transport, test_bad_addresses)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("ipc"), ALL("tcp"),
                                       cmocka_unit_test(test_bad_configurations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
