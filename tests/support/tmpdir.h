/*
 * tmpdir - a test's own folder, and small files in it. Any failure fails the test.
 */
#ifndef SC_TESTS_SUPPORT_TMPDIR_H
#define SC_TESTS_SUPPORT_TMPDIR_H

#include <stddef.h>

/* A new empty folder under $TMPDIR or /tmp; sc_tmpdir_free removes it with all it holds. */
char *sc_tmpdir_new(void);
/* Removes the folder, frees the name and nulls it. Accepts NULL. */
void sc_tmpdir_free(char **dir);

/* dir "/" name; caller frees. */
char *sc_tmpdir_path(const char *dir, const char *name);
/* Writes n bytes to dir/name, replacing it; returns its path, caller frees. */
char *sc_tmpdir_write(const char *dir, const char *name, const void *bytes, size_t n);
/* As above, for a text. */
char *sc_tmpdir_write_text(const char *dir, const char *name, const char *text);
/* All of a file, NUL-terminated, its size in *n_p unless NULL; caller frees. */
char *sc_tmpdir_read(const char *path, size_t *n_p);

#endif
