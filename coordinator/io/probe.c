#include "coordinator/io/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool parse_address(const char *text, struct sockaddr_in *out)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host) {
        return false;
    }
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    char *end;
    long port = strtol(colon + 1, &end, 10);
    if (*end != '\0' || port < 1 || port > 65535) {
        return false;
    }
    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

void sc_probe_close(sc_probe *probe)
{
    if (probe->fd >= 0) {
        close(probe->fd);
    }
    probe->fd = -1;
}

static bool decide(sc_probe *probe, sc_probe_outcome outcome, sc_probe_outcome *out)
{
    sc_probe_close(probe);
    *out = outcome;
    return true;
}

bool sc_probe_start(sc_probe *probe, const char *address, int64_t now_ns, sc_probe_outcome *out)
{
    struct sockaddr_in peer;
    *probe = (sc_probe){.fd = -1, .start_ns = now_ns};
    if (!parse_address(address, &peer)) {
        return !decide(probe, SC_PROBE_REFUSED, out);
    }
    probe->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe->fd < 0) {
        return !decide(probe, SC_PROBE_TIMEOUT, out);
    }
    if (connect(probe->fd, (struct sockaddr *)&peer, sizeof peer) == 0) {
        probe->is_connected = true;
    } else if (errno != EINPROGRESS) {
        return !decide(probe, errno == ECONNREFUSED ? SC_PROBE_REFUSED : SC_PROBE_TIMEOUT, out);
    }
    return true;
}

bool sc_probe_continue(sc_probe *probe, int64_t now_ns, sc_probe_outcome *out)
{
    bool is_late = now_ns - probe->start_ns > SC_PROBE_LIMIT_NS;
    if (!probe->is_connected) {
        int error = 0;
        socklen_t size = sizeof error;
        struct sockaddr_in peer;
        socklen_t peer_size = sizeof peer;
        getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) {
            bool is_refused = error == ECONNREFUSED || error == ECONNRESET;
            return decide(probe, is_refused ? SC_PROBE_REFUSED : SC_PROBE_TIMEOUT, out);
        }
        if (getpeername(probe->fd, (struct sockaddr *)&peer, &peer_size) != 0) {
            return is_late && decide(probe, SC_PROBE_TIMEOUT, out);
        }
        probe->is_connected = true;
    }
    char greeting[16];
    ssize_t n = recv(probe->fd, greeting, sizeof greeting, 0);
    if (n > 0) {
        return decide(probe, SC_PROBE_GREETED, out);
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        return decide(probe, SC_PROBE_REFUSED, out);
    }
    return is_late && decide(probe, SC_PROBE_SILENT, out);
}
