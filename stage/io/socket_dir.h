/*
 * socket_dir - a private folder for this user's ipc sockets, and a prefix that is this process's
 * own.
 *
 * Owns:     nothing but names; files with the prefix are removed at close, and those of processes
 * that died without cleaning up at open.
 */
#ifndef SC_STAGE_IO_SOCKET_DIR_H
#define SC_STAGE_IO_SOCKET_DIR_H

#include "base/status.h"

typedef struct sc_socket_dir {
    char path[64];   // "" before open
    char prefix[32]; // "w" and the process id
} sc_socket_dir;

/* Makes /tmp/stagecoach-UID with mode 0700 if it is not there; refuses a folder that another user
   owns. A second call does nothing. */
sc_status sc_socket_dir_open(sc_socket_dir *dir, sc_err *err);
/* Accepts one that was never opened. */
void sc_socket_dir_close(sc_socket_dir *dir);

#endif
