#include "stage/io/liveness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

sc_status sc_liveness_open(sc_liveness *liveness, const char *host, sc_err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    liveness->fd = -1;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        return sc_status_fail(err, SC_INVALID, "%s is not a numeric IPv4 address", host);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return sc_status_errno(err, errno, "liveness socket");
    }
    socklen_t size = sizeof address;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        int error = errno;
        close(fd);
        return sc_status_errno(err, error, "liveness socket on %s", host);
    }
    snprintf(liveness->address, sizeof liveness->address, "%s:%d", host, ntohs(address.sin_port));
    liveness->fd = fd;
    return SC_OK;
}

void sc_liveness_close(sc_liveness *liveness)
{
    if (liveness->fd >= 0) {
        close(liveness->fd);
        liveness->fd = -1;
    }
}

void sc_liveness_serve(sc_liveness *liveness)
{
    for (;;) {
        int fd = accept4(liveness->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        /* a new connection's send buffer takes these few bytes at once; a peer that is gone already
           is no concern of ours */
        if (send(fd, SC_LIVENESS_GREETING, strlen(SC_LIVENESS_GREETING), MSG_NOSIGNAL) < 0) {
            close(fd);
            continue;
        }
        close(fd);
    }
}
