/*
 * gens - generated schedules for tests: made, checked over sizes, timed. Any failure fails the
 * test.
 */
#ifndef SC_TESTS_SCHEDULES_GENS_H
#define SC_TESTS_SCHEDULES_GENS_H

#include "schedules/gen.h"
#include "schedules/simulate.h"

/* v = 0: the generator's default. Caller frees. */
sc_table *sc_gens_make(const char *name, int p, int v, int m);
/* Fails unless the generator refuses with a text that has `why` in it. */
void sc_gens_expect_refused(const char *name, int p, int v, int m, const char *why);
/* The rows, in order, are `rows`. */
void sc_gens_expect_rows(const sc_table *table, const char *const *rows, int n_rows);

/* The table keeps every rule, as it is and lowered (where the engine must not deadlock), and each
   stage's W's come in rising order of microbatches on every rank. Returns whether the report says
   so too. */
bool sc_gens_check(const sc_table *table);
/* Every p 1 to 8, m 1 to 4p + 1 at v checks clean. */
void sc_gens_check_grid(const char *name, int v);
/* As above, for the p that are even. */
void sc_gens_check_even_grid(const char *name, int v);

/* The cost, when a stage takes f, i and w for a microbatch and edges take nothing. */
double sc_gens_cost(const sc_table *table, double f, double i, double w);
/* The closed bubble is known, and is the simulated one, for these times of a rank. */
void sc_gens_expect_closed(const char *name, int p, int m, double f, double i, double w);
/* The closed bubble is not known. */
void sc_gens_expect_open(const char *name, int p, int m, double f, double i, double w);
/* Largest peak of all ranks, in chunks. */
int sc_gens_peak(const sc_table *table);

#endif
