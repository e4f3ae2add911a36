#include "coordinator/job_scalar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const LEADING_ZERO = "has a leading zero; write it without";

static const char *skip_sign(const char *p)
{
    return *p == '-' || *p == '+' ? p + 1 : p;
}

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9') {
        p++;
    }
    return p;
}

/* YAML 1.1 reads 010 as 8; whoever writes it may mean either. */
static bool has_leading_zero(const char *text)
{
    const char *p = skip_sign(text);
    return p[0] == '0' && p[1] >= '0' && p[1] <= '9';
}

const char *sc_job_scalar_int(const char *text, int64_t *out)
{
    const char *digits = skip_sign(text);
    const char *end = skip_digits(digits);
    if (end == digits || *end != '\0') {
        return "is not a whole number";
    }
    if (has_leading_zero(text)) {
        return LEADING_ZERO;
    }
    errno = 0;
    int64_t value = strtoll(text, NULL, 10);
    if (errno == ERANGE) {
        return "is out of range";
    }
    *out = value;
    return NULL;
}

/* [-+]? ( "." digits | digits ( "." digits? )? ) ( [eE] [-+]? digits )? */
static bool is_decimal(const char *text)
{
    const char *start = skip_sign(text);
    const char *p = skip_digits(start);
    bool has_digits = p != start;
    if (*p == '.') {
        const char *fraction = p + 1;
        p = skip_digits(fraction);
        has_digits = has_digits || p != fraction;
    }
    if (has_digits && (*p == 'e' || *p == 'E')) {
        const char *exponent = skip_sign(p + 1);
        p = skip_digits(exponent);
        has_digits = p != exponent;
    }
    return has_digits && *p == '\0';
}

const char *sc_job_scalar_real(const char *text, double *out)
{
    static const char *const NOT_FINITE[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
    for (size_t i = 0; i < sizeof NOT_FINITE / sizeof NOT_FINITE[0]; i++) {
        if (strcmp(skip_sign(text), NOT_FINITE[i]) == 0) {
            return "is not a finite number";
        }
    }
    if (!is_decimal(text)) {
        return "is not a number";
    }
    if (has_leading_zero(text)) {
        return LEADING_ZERO;
    }
    double value = strtod(text, NULL);
    if (!isfinite(value)) {
        return "is not a finite number";
    }
    *out = value;
    return NULL;
}

const char *sc_job_scalar_bool(const char *text, bool *out)
{
    bool is_true = strcmp(text, "true") == 0;
    if (!is_true && strcmp(text, "false") != 0) {
        return "is neither true nor false";
    }
    *out = is_true;
    return NULL;
}
