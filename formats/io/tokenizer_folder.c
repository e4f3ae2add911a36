#include "formats/tokenizer_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file being read into memory. */
typedef struct loaded {
    char *path;
    char *text;
    size_t n;
} loaded;

static void drop(loaded *file)
{
    free(file->path);
    free(file->text);
    *file = (loaded){0};
}

static sc_status read_all(int fd, loaded *file, sc_err *err)
{
    struct stat there;
    if (fstat(fd, &there) != 0) {
        return sc_status_errno(err, errno, "%s: cannot look at", file->path);
    }
    if (!S_ISREG(there.st_mode)) {
        return sc_status_fail(err, SC_INVALID, "%s: is no ordinary file", file->path);
    }
    if (there.st_size > SC_TOKENIZER_LOAD_BYTES_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%s: %lld bytes, at most %d may be", file->path,
                              (long long)there.st_size, SC_TOKENIZER_LOAD_BYTES_MAX);
    }
    size_t want = (size_t)there.st_size;
    file->text = malloc(want + 1);
    if (file->text == NULL) {
        return sc_status_errno(err, ENOMEM, "%s", file->path);
    }
    while (file->n < want) {
        ssize_t n = read(fd, file->text + file->n, want - file->n);
        if (n < 0 && errno != EINTR) {
            return sc_status_errno(err, errno, "%s: cannot read", file->path);
        }
        if (n == 0) {
            return sc_status_fail(err, SC_INVALID, "%s: became shorter while read", file->path);
        }
        file->n += n > 0 ? (size_t)n : 0;
    }
    return SC_OK;
}

/* SC_NOT_FOUND when there is no such file; whoever asks for one that may be missing says more. */
static sc_status read_file(const char *folder, const char *name, loaded *file, sc_err *err)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    file->path = malloc(n);
    if (file->path == NULL) {
        return sc_status_errno(err, ENOMEM, "%s", folder);
    }
    (void)snprintf(file->path, n, "%s/%s", folder, name);
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return sc_status_fail(err, SC_NOT_FOUND, "%s: is not there", file->path);
    }
    if (fd < 0) {
        return sc_status_errno(err, errno, "%s: cannot open", file->path);
    }
    sc_status status = read_all(fd, file, err);
    (void)close(fd);
    return status;
}

static sc_tokenizer_load_file as_file(const loaded *file)
{
    return (sc_tokenizer_load_file){file->path, file->text, file->n};
}

static sc_status load_pair(const char *folder, sc_tokenizer **out, sc_err *err)
{
    sc_status status = SC_OK;
    loaded vocab = {0};
    loaded merges = {0};
    status = read_file(folder, "vocab.json", &vocab, err);
    if (status == SC_NOT_FOUND) {
        (void)sc_status_fail(err, status,
                             "%s: has neither tokenizer.json nor vocab.json with merges.txt; name "
                             "the folder of a GPT-2 tokenizer",
                             folder);
        goto out;
    }
    if (status != SC_OK) {
        goto out;
    }
    SC_GOTO(read_file(folder, "merges.txt", &merges, err));
    const sc_tokenizer_load_file vocab_file = as_file(&vocab);
    const sc_tokenizer_load_file merges_file = as_file(&merges);
    SC_GOTO(sc_tokenizer_load_pair(&vocab_file, &merges_file, out, err));
out:
    drop(&vocab);
    drop(&merges);
    return status;
}

sc_status sc_tokenizer_folder_load(const char *folder, sc_tokenizer **out, sc_err *err)
{
    loaded whole = {0};
    sc_status status = read_file(folder, "tokenizer.json", &whole, err);
    if (status == SC_OK) {
        const sc_tokenizer_load_file file = as_file(&whole);
        status = sc_tokenizer_load_json(&file, out, err);
    } else if (status == SC_NOT_FOUND) {
        status = load_pair(folder, out, err);
    }
    drop(&whole);
    return status;
}
