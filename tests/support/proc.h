/*
 * proc - child processes of a test: start, watch their output, wait with a deadline, leave none
 * behind.
 *
 * Nothing sleeps: every wait polls pipes and a pidfd until a deadline. A child gets no input, its
 * own process group, and SIGKILL when the thread that started it ends. All children and what they
 * start carry the environment variable SC_TEST_ID with this test's number, so that one that escaped
 * is found. What cannot happen in a sound test (fork fails) fails the test.
 *
 * Threads: one caller.
 */
#ifndef SC_TESTS_SUPPORT_PROC_H
#define SC_TESTS_SUPPORT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct sc_proc sc_proc;

typedef enum sc_proc_stream {
    SC_PROC_OUT,
    SC_PROC_ERR
} sc_proc_stream;

typedef struct sc_proc_config {
    const char *const *argv; // NULL-terminated; argv[0] is a path, or a name looked up in PATH
    const char *const *env;  // "NAME=value" on top of this process's, NULL-terminated, or NULL
    const char *dir;         // working folder, or NULL
    bool is_terminal;        // stdout is a terminal of 80 columns instead of a pipe
} sc_proc_config;

/* Starts a program; sc_proc_free takes it back. One that cannot be run exits with 127. */
sc_proc *sc_proc_start(const sc_proc_config *config);
/* Kills it if it runs, reaps it, frees and nulls. Accepts NULL. */
void sc_proc_free(sc_proc **proc);

pid_t sc_proc_pid(const sc_proc *proc);
/* Sends a signal to the program, or to its whole process group as a terminal's Ctrl-C does. */
void sc_proc_signal(sc_proc *proc, int signal);
void sc_proc_signal_group(sc_proc *proc, int signal);

/* Collects output until the program ends; false when it still runs after the deadline. */
bool sc_proc_wait(sc_proc *proc, int timeout_ms);
/* Exit code, or minus the signal; only after sc_proc_wait said true. */
int sc_proc_exit_code(const sc_proc *proc);
/* What came so far, NUL-terminated; borrowed until the next call. */
const char *sc_proc_text(const sc_proc *proc, sc_proc_stream stream);
/* The next line that contains `text` among those not yet looked at, without its newline; lines
   before it are passed over. NULL when the program ends or the deadline comes first. Borrowed until
   the next call. */
const char *sc_proc_wait_line(sc_proc *proc, sc_proc_stream stream, const char *text,
                              int timeout_ms);

/* As above, but failing the test, with the program's output, when it turns out otherwise. */
void sc_proc_expect_exit(sc_proc *proc, int code, int timeout_ms);
const char *sc_proc_expect_line(sc_proc *proc, sc_proc_stream stream, const char *text,
                                int timeout_ms);

/* Starts, waits for the end (failing the test if it does not come) and returns the program. */
sc_proc *sc_proc_run(const sc_proc_config *config, int timeout_ms);
/* SC_PROC_RUN(10000, "program", "argument", ...) */
#define SC_PROC_RUN(timeout_ms, ...) \
    sc_proc_run(&(sc_proc_config){.argv = (const char *const[]){__VA_ARGS__, NULL}}, (timeout_ms))

/* Living processes that carry this test's number; at most n_max are written to pids. */
size_t sc_proc_find_left(pid_t *pids, size_t n_max);
/* Waits until none is left. After the deadline kills what is there, names it and fails the test. */
void sc_proc_expect_none_left(int timeout_ms);

#endif
