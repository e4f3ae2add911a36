#include "tests/support/tmpdir.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

char *sc_tmpdir_new(void)
{
    const char *parent = getenv("TMPDIR");
    char *dir = sc_tmpdir_path(parent != NULL ? parent : "/tmp", "sc-test-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        fail_msg("%s: %s", dir, strerror(errno));
    }
    return dir;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void sc_tmpdir_free(char **dir)
{
    if (*dir == NULL) {
        return;
    }
    int rc = nftw(*dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (rc != 0) {
        print_error("%s: cannot remove: %s\n", *dir, strerror(errno));
    }
    free(*dir);
    *dir = NULL;
    assert_int_equal(rc, 0);
}

char *sc_tmpdir_path(const char *dir, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", dir, name) < 0) {
        fail_msg("out of memory");
    }
    return path;
}

char *sc_tmpdir_write(const char *dir, const char *name, const void *bytes, size_t n)
{
    char *path = sc_tmpdir_path(dir, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        fail_msg("%s: %s", path, strerror(errno));
    }
    size_t written = fwrite(bytes, 1, n, file);
    if (fclose(file) != 0 || written != n) {
        fail_msg("%s: %s", path, strerror(errno));
    }
    return path;
}

char *sc_tmpdir_write_text(const char *dir, const char *name, const char *text)
{
    return sc_tmpdir_write(dir, name, text, strlen(text));
}

char *sc_tmpdir_read(const char *path, size_t *n_p)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("%s: %s", path, strerror(errno));
    }
    size_t n = 0;
    size_t n_reserved = 4096;
    char *text = malloc(n_reserved);
    while (text != NULL) {
        n += fread(text + n, 1, n_reserved - n - 1, file);
        if (n + 1 < n_reserved) {
            break;
        }
        n_reserved *= 2;
        text = realloc(text, n_reserved);
    }
    if (text == NULL || ferror(file)) {
        fail_msg("%s: cannot read", path);
        return NULL; // not reached: fail_msg leaves the test
    }
    fclose(file);
    text[n] = '\0';
    if (n_p != NULL) {
        *n_p = n;
    }
    return text;
}
