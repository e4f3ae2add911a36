/*
 * launch - starts the daemons of a local run as child processes, and makes sure that none is left.
 *
 * Owns:     the children, their pidfds and the pipes to them.
 * Does not: wait for anything but a child it has killed; the caller polls the pidfds.
 * Threads:  none of its own; one caller, which must be the process's first thread (a child gets
 *           SIGTERM when the thread that started it is gone).
 *
 * Each child leads a process group of its own, so that a Ctrl-C reaches the caller alone and a
 * signal reaches what the child itself started. Its standard input is /dev/null.
 */
#ifndef SC_CLI_LAUNCH_H
#define SC_CLI_LAUNCH_H

#include "base/status.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
    SC_LAUNCH_NAME_MAX = 32,
    SC_LAUNCH_TAIL_MAX = 4096
};

/* One child process. */
typedef struct sc_launch_child {
    char name[SC_LAUNCH_NAME_MAX]; // "coordinator", "worker 3"
    char *log_path;                // where its output goes; NULL: not to a file
    pid_t pid;                     // also its process group
    int pid_fd;                    // readable when it has ended; -1 once reaped
    bool is_running;
    int wait_status; // as waitpid gives it, once !is_running
} sc_launch_child;

/* What to start. All of it is borrowed during sc_launch_start. */
typedef struct sc_launch_spec {
    const char *name;
    const char *path;        // of the program, as sc_launch_find gives it
    const char *const *argv; // NULL at its end; argv[0] included
    const char *log_path;    // output is appended there; NULL: see out_fd and err_fd
    int out_fd;              // without log_path: standard output, -1: the caller's
    int err_fd;              // without log_path: standard error, -1: the caller's
    int keep_fd;             // left open in the child under the same number; -1: none
    const sigset_t *mask;    // signals the child blocks; NULL: the caller's
} sc_launch_spec;

typedef struct sc_launch {
    sc_launch_child *children; // (n_children), in the order of their start
    size_t n_children;
} sc_launch;

/* No children. Cannot fail. */
void sc_launch_init(sc_launch *launch);
/* Kills what still runs, reaps it, frees. Accepts one that is done. */
void sc_launch_done(sc_launch *launch);

/* Finds a program beside the running executable, then in PATH (`path_list`, may be NULL). malloc,
   caller frees. */
sc_status sc_launch_find(const char *program, const char *path_list, char **out, sc_err *err);
/* Starts a child; the error of a failed exec is this call's error. */
sc_status sc_launch_start(sc_launch *launch, const sc_launch_spec *spec, sc_err *err);
/* Takes over the children that have ended; returns how many still run. Never blocks. */
size_t sc_launch_reap(sc_launch *launch);
/* Sends a signal to the process group of every child that runs. */
void sc_launch_signal(const sc_launch *launch, int signal_number);

/* Text of how a child ended: "exit status 3", "killed by signal 9 (Killed)". Returns out. */
char *sc_launch_format_end(int wait_status, char *out, size_t n);
/* The last lines of a file, at most n_lines and SC_LAUNCH_TAIL_MAX bytes; "" when there are none.
   Returns out. */
char *sc_launch_tail(const char *path, int n_lines, char *out, size_t n);
/* Writes the cores for worker `worker`, "0" or "2,3": n_threads consecutive ones of those this
   process may use, starting at worker * n_threads and wrapping round. False where the worker has
   more threads than there are cores: pinning would only slow it down. */
bool sc_launch_pin(int worker, int n_threads, char *out, size_t n);

#endif
