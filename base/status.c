#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const TEXTS[] = {
#define STATUS_TEXT(name, code, text) text,
    SC_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
};

static const int EXIT_CODES[] = {
#define STATUS_CODE(name, code, text) code,
    SC_STATUS_MAP(STATUS_CODE)
#undef STATUS_CODE
};

const char *sc_status_text(sc_status status)
{
    return (unsigned)status < SC_STATUS_COUNT ? TEXTS[status] : "unknown status";
}

int sc_status_exit_code(sc_status status)
{
    return (unsigned)status < SC_STATUS_COUNT ? EXIT_CODES[status] : 1;
}

sc_status sc_status_fail(sc_err *err, sc_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

sc_status sc_status_errno(sc_err *err, int errno_value, const char *format, ...)
{
    sc_status status = errno_value == ENOMEM ? SC_NO_MEMORY : SC_IO;
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        char reason[128];
        const char *text = strerror_r(errno_value, reason, sizeof reason);
        snprintf(err->text + used, sizeof err->text - used, ": %s", text);
    }
    return status;
}

sc_status sc_status_prefix(sc_err *err, sc_status status, const char *format, ...)
{
    if (err != NULL && status != SC_OK) {
        char old[SC_ERR_TEXT_MAX];
        memcpy(old, err->text, sizeof old);
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s", old);
    }
    return status;
}
