/*
 * store - the run folder: runs/NAME/ with everything a run leaves behind.
 *
 * A folder is never overwritten: NAME, then NAME-2, NAME-3, ... Whole files are written under a
 * temporary name and renamed; metrics.jsonl is appended to, one line a step.
 *
 * Owns:     the folder's path and the open metrics file.
 * Threads:  none of its own; one caller.
 */
#ifndef SC_COORDINATOR_IO_STORE_H
#define SC_COORDINATOR_IO_STORE_H

#include "base/status.h"

typedef struct sc_store sc_store;

/* Makes RUNS_DIR/NAME (or the next free NAME-N) with log/ inside and opens metrics.jsonl. Caller
 * closes. */
sc_status sc_store_open(const char *runs_dir, const char *name, sc_store **out, sc_err *err);
void sc_store_close(sc_store **store);

/* The folder, as given plus the name; borrowed. */
const char *sc_store_path(const sc_store *store);
/* Writes a whole file in the folder. */
sc_status sc_store_write(sc_store *store, const char *file, const char *text, sc_err *err);
/* Appends a line to metrics.jsonl; the newline is added. */
sc_status sc_store_append_metrics(sc_store *store, const char *line, sc_err *err);

#endif
