#include "cli/tokenize.h"

#include "formats/tokenizer_encode.h"
#include "formats/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 64 * 1024
};

/* The token file while it is written. */
typedef struct writer {
    const char *path; // final name
    char *temp_path;
    int fd;
    uint64_t n_tokens;
    sc_tokenizer_encode *encode; // NULL: bytes are tokens
} writer;

static sc_status write_all(const writer *w, const void *bytes, size_t n, sc_err *err)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t written = write(w->fd, p, n);
        if (written < 0 && errno != EINTR) {
            return sc_status_errno(err, errno, "%s: cannot write", w->temp_path);
        }
        if (written > 0) {
            p += written;
            n -= (size_t)written;
        }
    }
    return SC_OK;
}

static sc_status count(writer *w, const char *name, size_t n, sc_err *err)
{
    w->n_tokens += n;
    if (w->n_tokens > INT32_MAX) {
        return sc_status_fail(err, SC_LIMIT,
                              "%s: the texts have more than the %d tokens that a token file can "
                              "count; use less text",
                              name, INT32_MAX);
    }
    return SC_OK;
}

/* The next bytes of a text through the tokenizer; the tokens are packed a chunk at a time. */
static sc_status append_encoded(writer *w, const char *name, const uint8_t *text, size_t n,
                                bool is_last, sc_err *err)
{
    uint8_t packed[CHUNK_BYTES * SC_TOKENS_TOKEN_BYTES];
    const int32_t *tokens = NULL;
    size_t n_tokens = 0;
    sc_status status =
        sc_tokenizer_encode_push(w->encode, text, n, is_last, &tokens, &n_tokens, err);
    if (status != SC_OK) {
        return sc_status_prefix(err, status, "%s", name);
    }
    SC_TRY(count(w, name, n_tokens, err));
    while (n_tokens > 0) {
        size_t n_now = n_tokens < CHUNK_BYTES ? n_tokens : CHUNK_BYTES;
        sc_tokens_pack(tokens, n_now, packed);
        SC_TRY(write_all(w, packed, n_now * SC_TOKENS_TOKEN_BYTES, err));
        tokens += n_now;
        n_tokens -= n_now;
    }
    return SC_OK;
}

static sc_status append_bytes(writer *w, const char *name, const uint8_t *text, size_t n,
                              sc_err *err)
{
    uint8_t tokens[CHUNK_BYTES * SC_TOKENS_TOKEN_BYTES];
    SC_TRY(count(w, name, n, err));
    sc_tokens_pack_bytes(text, n, tokens);
    return write_all(w, tokens, n * SC_TOKENS_TOKEN_BYTES, err);
}

/* Appends one text's tokens. */
static sc_status append_stream(writer *w, FILE *file, const char *name, sc_err *err)
{
    uint8_t text[CHUNK_BYTES];
    size_t n = 0;
    errno = 0;
    while ((n = fread(text, 1, sizeof text, file)) > 0) {
        SC_TRY(w->encode == NULL ? append_bytes(w, name, text, n, err)
                                 : append_encoded(w, name, text, n, false, err));
        errno = 0;
    }
    if (ferror(file)) {
        return sc_status_errno(err, errno, "%s: cannot read", name);
    }
    return w->encode == NULL ? SC_OK : append_encoded(w, name, text, 0, true, err);
}

static sc_status append_file(writer *w, const char *path, sc_err *err)
{
    if (strcmp(path, "-") == 0) {
        return append_stream(w, stdin, "standard input", err);
    }
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return sc_status_errno(err, errno, "%s: cannot open", path);
    }
    sc_status status = append_stream(w, file, path, err);
    (void)fclose(file);
    return status;
}

/* Opens the temporary file beside the final one, with the permissions of an ordinary new file. */
static sc_status open_temp(writer *w, sc_err *err)
{
    size_t n = strlen(w->path) + sizeof ".XXXXXX";
    w->temp_path = malloc(n);
    if (w->temp_path == NULL) {
        return sc_status_errno(err, ENOMEM, "%s", w->path);
    }
    (void)snprintf(w->temp_path, n, "%s.XXXXXX", w->path);
    w->fd = mkostemp(w->temp_path, O_CLOEXEC);
    if (w->fd < 0) {
        return sc_status_errno(err, errno, "%s: cannot create", w->path);
    }
    mode_t mask = umask(0);
    (void)umask(mask);
    if (fchmod(w->fd, 0666 & ~mask) != 0) {
        return sc_status_errno(err, errno, "%s: cannot set permissions", w->temp_path);
    }
    return SC_OK;
}

static sc_status fail_exists(const char *path, sc_err *err)
{
    return sc_status_fail(err, SC_EXISTS, "%s: is there already; name another file or give --force",
                          path);
}

/* Header in place, data on the disk, then the name. */
static sc_status finish(writer *w, bool is_forced, sc_err *err)
{
    uint8_t header[SC_TOKENS_HEADER_BYTES];
    SC_TRY(sc_tokens_pack_header(w->n_tokens, header, err));
    if (lseek(w->fd, 0, SEEK_SET) != 0) {
        return sc_status_errno(err, errno, "%s: cannot seek", w->temp_path);
    }
    SC_TRY(write_all(w, header, sizeof header, err));
    if (fsync(w->fd) != 0) {
        return sc_status_errno(err, errno, "%s: cannot sync", w->temp_path);
    }
    unsigned flags = is_forced ? 0 : RENAME_NOREPLACE;
    int rc = renameat2(AT_FDCWD, w->temp_path, AT_FDCWD, w->path, flags);
    if (rc != 0 && errno == EINVAL) {
        rc = rename(w->temp_path, w->path); // a file system without flags; checked at the start
    }
    if (rc != 0) {
        return errno == EEXIST
                   ? fail_exists(w->path, err)
                   : sc_status_errno(err, errno, "%s: cannot rename to %s", w->temp_path, w->path);
    }
    return SC_OK;
}

sc_status sc_tokenize_files(const char *const *texts, size_t n_texts, const char *out_path,
                            bool is_forced, const sc_tokenizer *tokenizer, uint64_t *n_tokens_out,
                            sc_err *err)
{
    static const uint8_t NO_HEADER[SC_TOKENS_HEADER_BYTES];
    sc_status status = SC_OK;
    writer w = {.path = out_path, .fd = -1};
    struct stat there;
    if (!is_forced && lstat(out_path, &there) == 0) {
        return fail_exists(out_path, err);
    }
    if (tokenizer != NULL) {
        SC_GOTO(sc_tokenizer_encode_new(tokenizer, &w.encode, err));
    }
    SC_GOTO(open_temp(&w, err));
    SC_GOTO(write_all(&w, NO_HEADER, sizeof NO_HEADER, err));
    for (size_t i = 0; i < n_texts; i++) {
        SC_GOTO(append_file(&w, texts[i], err));
    }
    if (w.n_tokens == 0) {
        status = sc_status_fail(err, SC_INVALID, "%s: empty text; there is nothing to tokenize",
                                strcmp(texts[0], "-") == 0 ? "standard input" : texts[0]);
        goto out;
    }
    SC_GOTO(finish(&w, is_forced, err));
    *n_tokens_out = w.n_tokens;
out:
    if (w.fd >= 0) {
        (void)close(w.fd);
        if (status != SC_OK) {
            (void)unlink(w.temp_path);
        }
    }
    free(w.temp_path);
    sc_tokenizer_encode_free(&w.encode);
    return status;
}
