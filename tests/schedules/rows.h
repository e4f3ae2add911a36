/*
 * rows - tables written by hand, a text a row, for tests. Any failure fails the test.
 */
#ifndef SC_TESTS_SCHEDULES_ROWS_H
#define SC_TESTS_SCHEDULES_ROWS_H

#include "schedules/table.h"

/* A table of n_ranks rows (NULL-terminated list) and n_stages stages in loop placement. It is
   lowered when a row has a cell that is not F, B, I or W, and forward-only when none has a
   backward. Caller frees. */
sc_table *sc_rows_make(int n_stages, int n_mb, const char *const *rows);
/* SC_ROWS(2, 1, "0F0,0B0", "1F0,1B0") */
#define SC_ROWS(n_stages, n_mb, ...) \
    sc_rows_make((n_stages), (n_mb), (const char *const[]){__VA_ARGS__, NULL})

/* Fails the test unless the row's text is `expected`. */
void sc_rows_expect(const sc_table *table, int rank, const char *expected);

#endif
