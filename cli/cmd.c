#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sc_cmd_fail(const sc_err *err)
{
    // Results may be waiting in stdout: they come before the reason why there are no more.
    (void)fflush(stdout);
    (void)fprintf(stderr, "stagecoach: %s\n", err->text);
    return sc_status_exit_code(err->status);
}

static sc_status read_stream(FILE *file, const char *path, size_t limit_bytes, char **out_text,
                             size_t *out_n, sc_err *err)
{
    char *text = NULL;
    size_t n = 0;
    size_t capacity = 0;
    for (;;) {
        if (n + 1 >= capacity) {
            capacity = capacity == 0 ? (size_t)64 * 1024 : 2 * capacity;
            char *grown = realloc(text, capacity);
            if (grown == NULL) {
                free(text);
                return sc_status_errno(err, ENOMEM, "%s", path);
            }
            text = grown;
        }
        size_t got = fread(text + n, 1, capacity - n - 1, file);
        n += got;
        if (got == 0 || n > limit_bytes) {
            break;
        }
    }
    if (ferror(file)) {
        int why = errno;
        free(text);
        return sc_status_errno(err, why, "%s: cannot read", path);
    }
    if (n > limit_bytes) {
        free(text);
        return sc_status_fail(err, SC_LIMIT, "%s: larger than the %zu bytes allowed", path,
                              limit_bytes);
    }
    text[n] = '\0';
    *out_text = text;
    *out_n = n;
    return SC_OK;
}

sc_status sc_cmd_read_file(const char *path, size_t limit_bytes, char **out_text, size_t *out_n,
                           sc_err *err)
{
    if (strcmp(path, "-") == 0) {
        return read_stream(stdin, "standard input", limit_bytes, out_text, out_n, err);
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return sc_status_errno(err, errno, "%s: cannot open", path);
    }
    sc_status status = read_stream(file, path, limit_bytes, out_text, out_n, err);
    (void)fclose(file);
    return status;
}

sc_status sc_cmd_write_file(const char *path, const char *text, size_t n, sc_err *err)
{
    if (strcmp(path, "-") == 0) {
        if (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0) {
            return sc_status_errno(err, errno, "standard output: cannot write");
        }
        return SC_OK;
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return sc_status_errno(err, errno, "%s: cannot create", path);
    }
    size_t written = fwrite(text, 1, n, file);
    int why = written == n ? 0 : errno;
    if (fclose(file) != 0 && why == 0) {
        why = errno;
    }
    if (why != 0) {
        return sc_status_errno(err, why, "%s: cannot write", path);
    }
    return SC_OK;
}
