/*
 * jobargs - the options shared by the commands that run jobs, as an argp child parser.
 */
#ifndef SC_CLI_JOBARGS_H
#define SC_CLI_JOBARGS_H

#include "cli/runner.h"

#include <argp.h>

enum {
    SC_JOBARGS_SETS_MAX = 256
};

typedef struct sc_jobargs {
    const char *sets[SC_JOBARGS_SETS_MAX]; // (n_sets) "key=value", borrowed from argv
    size_t n_sets;
    const char *runs_dir; // NULL: not given
    bool is_quiet;
    bool is_verbose;
    int ready_ms; // 0: not given
} sc_jobargs;

/* For argp's children; its input is an sc_jobargs, zeroed. */
const struct argp *sc_jobargs_argp(void);
/* Adds a "key=value" as a --set at the end would; `text` is borrowed. */
sc_status sc_jobargs_add_set(sc_jobargs *args, const char *text, sc_err *err);
/* Fills the options of a run; name, dry run and progress are the caller's to set. The options
   borrow from `args`. */
void sc_jobargs_fill(const sc_jobargs *args, const char *job_path, sc_runner_options *out);

#endif
