/*
 * log - the only writer to stderr.
 *
 * One line a call: time, level, text. Levels: error (cannot go on), warn (goes on), info (once a
 * phase), debug (per object), trace (per message). Only main.c, cli/ and io/ log; everything else
 * returns errors.
 */
#ifndef SC_BASE_LOG_H
#define SC_BASE_LOG_H

#include <stdbool.h>

#define SC_LOG_LEVEL_MAP(X) \
    X(ERROR, "error") \
    X(WARN, "warn") \
    X(INFO, "info") \
    X(DEBUG, "debug") \
    X(TRACE, "trace")

#define SC_LOG_ENUM(name, text) SC_LOG_##name,
typedef enum sc_log_level {
    SC_LOG_LEVEL_MAP(SC_LOG_ENUM) SC_LOG_LEVEL_COUNT
} sc_log_level;
#undef SC_LOG_ENUM

/* Messages above this level are dropped; info at start. */
void sc_log_set_level(sc_log_level level);
/* Sets *out from "error" ... "trace"; false for any other text. */
bool sc_log_parse_level(const char *text, sc_log_level *out);
/* A name put into every line ("coordinator", "stage 3"); copied, cut at 31 bytes. */
void sc_log_set_name(const char *name);
/* True when a message of this level would be written. */
bool sc_log_is_on(sc_log_level level);
/* Writes one line; a newline is added. May be called from any thread. */
void sc_log_write(sc_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define SC_LOG_ERROR(...) sc_log_write(SC_LOG_ERROR, __VA_ARGS__)
#define SC_LOG_WARN(...) sc_log_write(SC_LOG_WARN, __VA_ARGS__)
#define SC_LOG_INFO(...) sc_log_write(SC_LOG_INFO, __VA_ARGS__)
#define SC_LOG_DEBUG(...) sc_log_write(SC_LOG_DEBUG, __VA_ARGS__)
#define SC_LOG_TRACE(...) sc_log_write(SC_LOG_TRACE, __VA_ARGS__)

#endif
