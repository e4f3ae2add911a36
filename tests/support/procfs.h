/*
 * procfs - finds the processes of this test in /proc by the number in their environment.
 *
 * Threads: one caller.
 */
#ifndef SC_TESTS_SUPPORT_PROCFS_H
#define SC_TESTS_SUPPORT_PROCFS_H

#include <stddef.h>
#include <sys/types.h>

/* "SC_TEST_ID=..." with a number drawn once a process: the environment entry of all children. */
const char *sc_procfs_marker(void);

/* How many living processes carry the marker, this one left out; up to n_max are written. */
size_t sc_procfs_find(pid_t *pids, size_t n_max);

/* Command line of a process for a message, "?" when it is gone; returns out. */
const char *sc_procfs_command(pid_t pid, char *out, size_t n);

#endif
