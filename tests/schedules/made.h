/*
 * made - generated tables for tests: made, checked and simulated. Any failure fails the test.
 */
#ifndef SC_TESTS_SCHEDULES_MADE_H
#define SC_TESTS_SCHEDULES_MADE_H

#include "schedules/gen.h"
#include "schedules/simulate.h"

/* A name and sizes for messages: "zb-h1 p 4 v 0 m 8 group 0 limit 0". Lives until the next call. */
const char *sc_made_text(const char *name, const sc_gen_params *params);
/* Makes a table, which must keep every rule and have its weight gradients in order. Caller frees.
 */
sc_table *sc_made_new(const char *name, const sc_gen_params *params);
/* Expects the generator to refuse with `why` in its words. */
void sc_made_refuse(const char *name, const sc_gen_params *params, const char *why);
/* Uniform costs of a rank. Caller frees. */
sc_timeline *sc_made_simulate(const sc_table *table, double f, double i, double w, double comm);
/* Fails the test unless both are equal but for rounding; `what` and the sizes go into the message.
 */
void sc_made_near(double got, double expected, const char *what, const char *text);
/* Makes, simulates without comm and compares with the closed bubble where that is a number; says
   whether it is. */
bool sc_made_closed(const char *name, const sc_gen_params *params, sc_stage_cost cost);

#endif
