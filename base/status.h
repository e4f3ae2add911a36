/*
 * status - status codes, and the error text that travels up with them.
 *
 * A function that can fail in more than one way returns sc_status and takes an sc_err pointer last,
 * which may be NULL. The line that decides the error fills it; everyone above passes it on
 * unchanged.
 */
#ifndef SC_BASE_STATUS_H
#define SC_BASE_STATUS_H

#include <stddef.h>

/* name, process exit code, short text; docs/exit-codes.md is the users' copy of the second column.
 */
#define SC_STATUS_MAP(X) \
    X(OK, 0, "ok") \
    X(FAILED, 1, "failed") \
    X(USAGE, 2, "wrong usage") \
    X(INVALID, 3, "invalid input") \
    X(LIMIT, 3, "limit exceeded") \
    X(NOT_FOUND, 3, "not found") \
    X(EXISTS, 3, "already exists") \
    X(IO, 4, "input/output error") \
    X(NO_MEMORY, 5, "out of memory") \
    X(UNSUPPORTED, 6, "not supported") \
    X(PROTOCOL, 7, "protocol error") \
    X(TIMEOUT, 8, "timed out") \
    X(PEER, 9, "a worker failed") \
    X(NUMERIC, 10, "not a finite number") \
    X(ABORTED, 11, "aborted") \
    X(INTERRUPTED, 130, "interrupted")

#define SC_STATUS_ENUM(name, code, text) SC_##name,
typedef enum sc_status {
    SC_STATUS_MAP(SC_STATUS_ENUM) SC_STATUS_COUNT
} sc_status;
#undef SC_STATUS_ENUM

#define SC_ERR_TEXT_MAX 1024

/* What failed: one line for a person, without a trailing newline. */
typedef struct sc_err {
    sc_status status;
    char text[SC_ERR_TEXT_MAX];
} sc_err;

/* Short text of a status; never NULL. */
const char *sc_status_text(sc_status status);

/* Process exit code of a status. */
int sc_status_exit_code(sc_status status);

/* Fills *err (may be NULL) and returns `status`, so that `return sc_status_fail(...)` decides an
 * error. */
sc_status sc_status_fail(sc_err *err, sc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As sc_status_fail with SC_IO (SC_NO_MEMORY for ENOMEM), appending ": " and the text of errno. */
sc_status sc_status_errno(sc_err *err, int errno_value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the text in *err (may be NULL); returns `status`. */
sc_status sc_status_prefix(sc_err *err, sc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For functions that own nothing. */
#define SC_TRY(call) \
    do { \
        sc_status sc_try_status = (call); \
        if (sc_try_status != SC_OK) { \
            return sc_try_status; \
        } \
    } while (0)

/* For functions that own something: needs a variable `status` and a label `out`. */
#define SC_GOTO(call) \
    do { \
        status = (call); \
        if (status != SC_OK) { \
            goto out; \
        } \
    } while (0)

#endif
