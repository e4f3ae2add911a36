/*
 * target - the coordinator that a command line names: by its endpoint or by its run folder.
 */
#ifndef SC_CLI_TARGET_H
#define SC_CLI_TARGET_H

#include "base/status.h"

#include <stdbool.h>

/* True for "tcp://..." and the like; anything else is a run folder. */
bool sc_target_is_endpoint(const char *target);
/* The only run folder below runs_dir whose job is under way; SC_NOT_FOUND when there is none, or
   several. */
sc_status sc_target_find(const char *runs_dir, char *out, size_t n, sc_err *err);
/* Sends a control verb to the target's coordinator and waits a few seconds for the reply. A refusal
   is an error with the reply's text. *out_text is malloc'ed, caller frees. */
sc_status sc_target_ask(const char *target, const char *verb, const char *argument, char **out_text,
                        sc_err *err);

#endif
