/*
 * liveness - a listening TCP socket that greets whoever connects.
 *
 * The loop thread serves it, so a greeting proves that the loop runs. The coordinator connects when
 * heartbeats stay away: refused = dead, connected without a greeting = frozen, no connection = cut
 * off.
 */
#ifndef SC_STAGE_IO_LIVENESS_H
#define SC_STAGE_IO_LIVENESS_H

#include "base/status.h"

#define SC_LIVENESS_GREETING "stagecoach-stage\n"

typedef struct sc_liveness {
    int fd;           // listening; poll it for reading
    char address[64]; // "host:port" to connect to
} sc_liveness;

/* Listens on a free port of `host`, a numeric IPv4 address. */
sc_status sc_liveness_open(sc_liveness *liveness, const char *host, sc_err *err);
void sc_liveness_close(sc_liveness *liveness);
/* Greets and closes every waiting connection; never blocks. */
void sc_liveness_serve(sc_liveness *liveness);

#endif
