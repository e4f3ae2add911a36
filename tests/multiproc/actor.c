#include "tests/multiproc/actor.h"

#include "proto/codec.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

enum {
    LINGER_MS = 5000,
    TCP_LISTEN = 0x0a // in /proc/net/tcp
};

struct sc_actor {
    void *context;
    void *socket;
    uint64_t seq;
    sc_arena arena; // of the last message received
    sc_msg msg;
};

sc_actor *sc_actor_open(const char *endpoint)
{
    int linger_ms = LINGER_MS;
    sc_actor *actor = calloc(1, sizeof *actor);
    assert_non_null(actor);
    actor->context = zmq_ctx_new();
    actor->socket = zmq_socket(actor->context, ZMQ_DEALER);
    zmq_setsockopt(actor->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (zmq_connect(actor->socket, endpoint) != 0) {
        fail_msg("%s: %s", endpoint, zmq_strerror(errno));
    }
    return actor;
}

void sc_actor_close(sc_actor **actor_p)
{
    sc_actor *actor = *actor_p;
    if (actor == NULL) {
        return;
    }
    zmq_close(actor->socket);
    zmq_ctx_term(actor->context);
    sc_arena_done(&actor->arena);
    free(actor);
    *actor_p = NULL;
}

unsigned char *sc_actor_pack(sc_actor *actor, sc_msg *msg, size_t *n_out)
{
    sc_arena arena = {.limit_bytes = 0};
    sc_err err;
    const unsigned char *bytes = NULL;
    msg->seq = ++actor->seq;
    if (sc_codec_pack(msg, &arena, &bytes, n_out, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    unsigned char *copy = malloc(*n_out);
    assert_non_null(copy);
    memcpy(copy, bytes, *n_out);
    sc_arena_done(&arena);
    return copy;
}

void sc_actor_send_bytes(sc_actor *actor, const void *bytes, size_t n, bool is_more)
{
    if (zmq_send(actor->socket, bytes, n, is_more ? ZMQ_SNDMORE : 0) < 0) {
        fail_msg("send: %s", zmq_strerror(errno));
    }
}

void sc_actor_send(sc_actor *actor, sc_msg *msg)
{
    size_t n = 0;
    unsigned char *bytes = sc_actor_pack(actor, msg, &n);
    sc_actor_send_bytes(actor, bytes, n, false);
    free(bytes);
}

void sc_actor_hello(sc_actor *actor, const char *device)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    sc_msg msg = {.type = SC_MSG_HELLO,
                  .u.hello = {.program_version = SC_VERSION,
                              .host = host,
                              .pid = (uint32_t)getpid(),
                              .device = device,
                              .isa = "avx2",
                              .probe = "127.0.0.1:1"}};
    sc_actor_send(actor, &msg);
}

void sc_actor_beat(sc_actor *actor)
{
    sc_msg msg = {.type = SC_MSG_HEARTBEAT, .u.heartbeat = {.state = "setup"}};
    sc_actor_send(actor, &msg);
}

const sc_msg *sc_actor_expect(sc_actor *actor, sc_msg_type type, int timeout_ms)
{
    sc_err err;
    for (;;) {
        zmq_pollitem_t item = {.socket = actor->socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, timeout_ms) <= 0) {
            fail_msg("no %s within %d ms", sc_codec_type_text(type), timeout_ms);
        }
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, actor->socket, ZMQ_DONTWAIT) < 0) {
            continue;
        }
        sc_arena_done(&actor->arena);
        sc_status status = sc_codec_unpack(zmq_msg_data(&frame), zmq_msg_size(&frame),
                                           &actor->arena, &actor->msg, &err);
        zmq_msg_close(&frame);
        if (status != SC_OK) {
            fail_msg("%s", err.text);
        }
        if (actor->msg.type == type) {
            return &actor->msg;
        }
    }
}

static int connect_tcp(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    struct sockaddr_in peer = {.sin_family = AF_INET};
    peer.sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10));
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0) {
        fail_msg("%s: %s", endpoint, strerror(errno));
    }
    return fd;
}

static int connect_ipc(const char *endpoint)
{
    struct sockaddr_un peer = {.sun_family = AF_UNIX};
    snprintf(peer.sun_path, sizeof peer.sun_path, "%s", endpoint + strlen("ipc://"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0) {
        fail_msg("%s: %s", endpoint, strerror(errno));
    }
    return fd;
}

static int connect_raw(const char *endpoint)
{
    return strncmp(endpoint, "ipc://", 6) == 0 ? connect_ipc(endpoint) : connect_tcp(endpoint);
}

static void write_raw(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = send(fd, at, n, MSG_NOSIGNAL);
        if (done <= 0) {
            return; // hung up on us, as it should
        }
        at += done;
        n -= (size_t)done;
    }
}

void sc_actor_write_raw(const char *endpoint, const void *bytes, size_t n)
{
    int fd = connect_raw(endpoint);
    write_raw(fd, bytes, n);
    close(fd);
}

/* ZMTP 3.0 (rfc.zeromq.org/spec/23): greeting, READY of a DEALER, header of a long frame. */
void sc_actor_announce_frame(const char *endpoint, uint64_t frame_bytes, int timeout_ms)
{
    static const char READY[] = "\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06"
                                "DEALER\x08Identity\0\0\0";
    unsigned char greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    unsigned char header[9] = {0x02};
    char answer[256];
    ssize_t n = 1;
    struct timeval patience = {.tv_sec = timeout_ms / 1000};
    for (int i = 0; i < 8; i++) {
        header[1 + i] = (unsigned char)(frame_bytes >> (56 - 8 * i));
    }
    int fd = connect_raw(endpoint);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    write_raw(fd, greeting, sizeof greeting);
    write_raw(fd, READY, sizeof READY);
    write_raw(fd, header, sizeof header);
    while (n > 0) {
        n = recv(fd, answer, sizeof answer, 0);
    }
    if (n < 0 && errno != ECONNRESET) {
        fail_msg("%s: not hung up on a frame of %llu bytes: %s", endpoint,
                 (unsigned long long)frame_bytes, strerror(errno));
    }
    close(fd);
}

/* True when the process has a descriptor of this socket. */
static bool has_socket(pid_t pid, unsigned long inode)
{
    char path[300];
    char link[64];
    char wanted[64];
    bool is_found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    int n = snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.20s", (int)pid, entry->d_name);
        ssize_t length = readlink(path, link, sizeof link);
        is_found = is_found || (length == n && memcmp(link, wanted, (size_t)n) == 0);
    }
    closedir(dir);
    return is_found;
}

int sc_actor_find_port(pid_t pid)
{
    char line[256];
    int found = 0;
    FILE *file = fopen("/proc/net/tcp", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned port = 0;
        unsigned state = 0;
        unsigned long inode = 0;
        // NOLINTNEXTLINE(cert-err34-c): the kernel's numbers
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x %*s %*s %*s %*s %*s %lu", &port, &state,
                   &inode) == 3 &&
            state == TCP_LISTEN && has_socket(pid, inode)) {
            found = (int)port;
        }
    }
    fclose(file);
    if (found == 0) {
        fail_msg("pid %d listens nowhere", (int)pid);
    }
    return found;
}
