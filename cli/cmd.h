/*
 * cmd - the subcommands of `stagecoach`, and what they share: errors and files.
 *
 * One file cmd_<verb>.c a subcommand, one line in main.c's list to register it. An entry point gets
 * its own arguments with argv[0] = "stagecoach <verb>", parses them with argp and returns the
 * process's exit code: sc_status_exit_code of the status that ended it.
 */
#ifndef SC_CLI_CMD_H
#define SC_CLI_CMD_H

#include "base/status.h"

int sc_cmd_schedule_main(int argc, char **argv);
int sc_cmd_checkpoint_main(int argc, char **argv);
int sc_cmd_data_main(int argc, char **argv);
int sc_cmd_run_main(int argc, char **argv);
int sc_cmd_compare_main(int argc, char **argv);
int sc_cmd_status_main(int argc, char **argv);
int sc_cmd_stop_main(int argc, char **argv);
int sc_cmd_swap_main(int argc, char **argv);

/* Writes "stagecoach: TEXT" to stderr and returns err->status's exit code. */
int sc_cmd_fail(const sc_err *err);

/* Reads a whole file of at most limit_bytes; "-" is standard input. *out_text (malloc, caller
   frees) has a NUL behind its *out_n bytes. */
sc_status sc_cmd_read_file(const char *path, size_t limit_bytes, char **out_text, size_t *out_n,
                           sc_err *err);
/* Writes n bytes to a new or truncated file; "-" is standard output. */
sc_status sc_cmd_write_file(const char *path, const char *text, size_t n, sc_err *err);

#endif
