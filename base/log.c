#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int current_level = SC_LOG_INFO;
static char current_name[32] = "stagecoach"; // set once in main, before any thread starts

static const char *const level_texts[] = {
#define LEVEL_TEXT(name, text) text,
    SC_LOG_LEVEL_MAP(LEVEL_TEXT)
#undef LEVEL_TEXT
};

void sc_log_set_level(sc_log_level level)
{
    atomic_store(&current_level, (int)level);
}

bool sc_log_parse_level(const char *text, sc_log_level *out)
{
    for (int i = 0; i < SC_LOG_LEVEL_COUNT; i++) {
        if (strcmp(text, level_texts[i]) == 0) {
            *out = (sc_log_level)i;
            return true;
        }
    }
    return false;
}

void sc_log_set_name(const char *name)
{
    snprintf(current_name, sizeof current_name, "%s", name);
}

bool sc_log_is_on(sc_log_level level)
{
    return (int)level <= atomic_load(&current_level);
}

void sc_log_write(sc_log_level level, const char *format, ...)
{
    if (!sc_log_is_on(level)) {
        return;
    }
    char line[2048];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    used +=
        (size_t)snprintf(line + used, sizeof line - used, ".%03ldZ %s %s: ", now.tv_nsec / 1000000,
                         current_name, level_texts[level]);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    used += n < 0 ? 0 : (size_t)n;
    if (used > sizeof line - 2) {
        used = sizeof line - 2;
    }
    line[used++] = '\n';
    /* one write a line, so that lines of several threads do not mix */
    if (write(STDERR_FILENO, line, used) < 0) {
        return;
    }
}
