/*
 * job_scalar - strict reading of single values: whole text or nothing.
 *
 * Each returns NULL and sets *out, or what is wrong with the text in words that continue "TEXT
 * ...".
 */
#ifndef SC_COORDINATOR_JOB_SCALAR_H
#define SC_COORDINATOR_JOB_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits with an optional sign; no leading zeros, no fraction, no exponent. */
const char *sc_job_scalar_int(const char *text, int64_t *out);
/* YAML 1.2's decimal numbers; finite only, no leading zeros. */
const char *sc_job_scalar_real(const char *text, double *out);
/* true or false, nothing else. */
const char *sc_job_scalar_bool(const char *text, bool *out);

#endif
