/*
 * checkpoint - a checkpoint's folder, open for reading; which one is the newest.
 */
#include "formats/checksum.h"
#include "formats/manifest.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 1 << 20,
    FIRST_BYTES = 8, // a safetensors file's length of its header
    MESSAGE_PATH_MAX = 600
};

struct sc_checkpoint {
    char *folder;
    sc_manifest *manifest;
    int *fds;     // (n_files), -1: not open
    char *buffer; // (PIECE_BYTES)
};

/* All n bytes from `offset` on; the file's end before them is an error. */
static sc_status read_at(int fd, const char *path, void *out, size_t n, uint64_t offset,
                         sc_err *err)
{
    char *at = out;
    while (n > 0) {
        ssize_t done = pread(fd, at, n, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return sc_status_errno(err, errno, "%s: cannot be read", path);
        }
        if (done == 0) {
            return sc_status_fail(err, SC_INVALID, "%s: ends at byte %" PRIu64 ": truncated", path,
                                  offset);
        }
        at += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return SC_OK;
}

static sc_status open_file(const char *path, int *fd_p, uint64_t *n_bytes_p, sc_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? sc_status_fail(err, SC_NOT_FOUND, "%s: missing", path)
                               : sc_status_errno(err, errno, "%s: cannot be opened", path);
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return sc_status_fail(err, SC_INVALID, "%s: no regular file", path);
    }
    *fd_p = fd;
    *n_bytes_p = (uint64_t)st.st_size;
    return SC_OK;
}

static sc_status read_manifest(sc_checkpoint *c, sc_err *err)
{
    sc_status status = SC_OK;
    char path[PATH_MAX];
    char *text = NULL;
    uint64_t n = 0;
    int fd = -1;
    (void)snprintf(path, sizeof path, "%.4000s/" SC_MANIFEST_FILE, c->folder);
    SC_TRY(open_file(path, &fd, &n, err));
    if (n > SC_MANIFEST_BYTES_MAX) {
        status = sc_status_fail(err, SC_LIMIT, "%s: over %d bytes, more than a manifest may have",
                                path, SC_MANIFEST_BYTES_MAX);
        goto out;
    }
    text = malloc((size_t)n + 1);
    if (text == NULL) {
        status = sc_status_errno(err, ENOMEM, "%s", path);
        goto out;
    }
    SC_GOTO(read_at(fd, path, text, (size_t)n, 0, err));
    SC_GOTO(sc_manifest_parse(path, text, (size_t)n, &c->manifest, err));
out:
    free(text);
    close(fd);
    return status;
}

sc_status sc_checkpoint_open(const char *folder, sc_checkpoint **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_checkpoint *c = calloc(1, sizeof *c);
    if (c == NULL || (c->folder = strdup(folder)) == NULL ||
        (c->buffer = malloc(PIECE_BYTES)) == NULL) {
        status = sc_status_errno(err, ENOMEM, "checkpoint %s", folder);
        goto out;
    }
    SC_GOTO(read_manifest(c, err));
    assert(c->manifest != NULL);
    c->fds = malloc((c->manifest->n_files + 1) * sizeof *c->fds);
    if (c->fds == NULL) {
        status = sc_status_errno(err, ENOMEM, "checkpoint %s", folder);
        goto out;
    }
    for (size_t i = 0; i < c->manifest->n_files; i++) {
        c->fds[i] = -1;
    }
    *out = c;
    c = NULL;
out:
    sc_checkpoint_close(&c);
    return status;
}

void sc_checkpoint_close(sc_checkpoint **checkpoint)
{
    sc_checkpoint *c = *checkpoint;
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; c->fds != NULL && i < c->manifest->n_files; i++) {
        if (c->fds[i] >= 0) {
            close(c->fds[i]);
        }
    }
    sc_manifest_free(&c->manifest);
    free(c->fds);
    free(c->buffer);
    free(c->folder);
    free(c);
    *checkpoint = NULL;
}

const sc_manifest *sc_checkpoint_manifest(const sc_checkpoint *checkpoint)
{
    return checkpoint->manifest;
}

static void file_path(const sc_checkpoint *c, size_t file, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.3000s/%.1000s", c->folder, c->manifest->files[file].name);
}

static sc_status check_head(const sc_checkpoint *c, size_t file, const char *path, int fd,
                            uint64_t n_bytes, sc_err *err)
{
    sc_status status = SC_OK;
    uint8_t first[FIRST_BYTES];
    char *head = NULL;
    size_t n_head = 0;
    sc_safetensors *st = NULL;
    SC_TRY(read_at(fd, path, first, sizeof first, 0, err));
    SC_TRY(sc_safetensors_head_bytes(path, first, n_bytes, &n_head, err));
    head = malloc(n_head);
    if (head == NULL) {
        return sc_status_errno(err, ENOMEM, "%s", path);
    }
    SC_GOTO(read_at(fd, path, head, n_head, 0, err));
    SC_GOTO(sc_safetensors_parse(path, head, n_head, n_bytes, &st, err));
    SC_GOTO(sc_manifest_check_head(c->manifest, file, path, st, err));
out:
    sc_safetensors_free(&st);
    free(head);
    return status;
}

sc_status sc_checkpoint_check_file(sc_checkpoint *c, size_t file, sc_err *err)
{
    char path[PATH_MAX];
    uint64_t n_bytes = 0;
    uint64_t n_said = c->manifest->files[file].n_bytes;
    int fd = -1;
    if (c->fds[file] >= 0) {
        return SC_OK;
    }
    file_path(c, file, path);
    SC_TRY(open_file(path, &fd, &n_bytes, err));
    sc_status status = SC_OK;
    if (n_bytes != n_said) {
        status = sc_status_fail(err, SC_INVALID,
                                "%s: %" PRIu64 " bytes, the manifest says %" PRIu64 ": %s", path,
                                n_bytes, n_said, n_bytes < n_said ? "truncated" : "too long");
    } else {
        status = check_head(c, file, path, fd, n_bytes, err);
    }
    if (status != SC_OK) {
        close(fd);
        return status;
    }
    c->fds[file] = fd;
    return SC_OK;
}

sc_status sc_checkpoint_read(sc_checkpoint *c, size_t tensor, sc_checkpoint_sink sink,
                             void *context, sc_err *err)
{
    char path[PATH_MAX];
    const sc_manifest_tensor *t = &c->manifest->tensors[tensor];
    sc_checksum sum;
    sc_checksum_init(&sum);
    SC_TRY(sc_checkpoint_check_file(c, t->file, err));
    file_path(c, t->file, path);
    for (uint64_t done = 0; done < t->n_bytes;) {
        uint64_t left = t->n_bytes - done;
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        SC_TRY(read_at(c->fds[t->file], path, c->buffer, n, t->offset + done, err));
        sc_checksum_add(&sum, c->buffer, n);
        sc_status status = sink == NULL ? SC_OK : sink(context, c->buffer, n, err);
        if (status != SC_OK) {
            return status;
        }
        done += n;
    }
    uint64_t is = sc_checksum_get(&sum);
    if (is != t->checksum) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: tensor %s: corrupted: checksum xxh64:%016" PRIx64
                              ", the manifest says xxh64:%016" PRIx64,
                              path, t->name, is, t->checksum);
    }
    return SC_OK;
}

/* --- which one is the newest --- */

static bool has_manifest(const char *folder)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/" SC_MANIFEST_FILE, folder);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0;
}

/* The number of "step-00000100", or -1. */
static int64_t step_of(const char *name)
{
    static const char PREFIX[] = "step-";
    const size_t n = sizeof PREFIX - 1;
    if (strncmp(name, PREFIX, n) != 0 || !isdigit((unsigned char)name[n])) {
        return -1;
    }
    char *end;
    errno = 0;
    long long step = strtoll(name + n, &end, 10);
    return *end == '\0' && errno == 0 ? step : -1;
}

/* The complete checkpoint with the most steps in a folder; false when there is none. */
static bool find_in(const char *folder, char out[PATH_MAX])
{
    int64_t best = -1;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[PATH_MAX];
        int64_t step = step_of(entry->d_name);
        int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (step > best && n > 0 && (size_t)n < sizeof path && has_manifest(path)) {
            best = step;
            memcpy(out, path, sizeof path);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return best >= 0;
}

static bool find_below(const char *path, char out[PATH_MAX])
{
    char folder[PATH_MAX];
    int n = snprintf(folder, sizeof folder, "%s/checkpoints", path);
    if (n < 0 || (size_t)n >= sizeof folder) {
        return false;
    }
    if (has_manifest(path)) {
        memcpy(out, path, strlen(path) + 1);
        return true;
    }
    return find_in(path, out) || find_in(folder, out);
}

static sc_status take(const char *found, char **out, sc_err *err)
{
    *out = strdup(found);
    return *out != NULL ? SC_OK : sc_status_errno(err, ENOMEM, "%s", found);
}

sc_status sc_checkpoint_find(const char *path, char **out, sc_err *err)
{
    char found[PATH_MAX];
    struct stat st;
    if (stat(path, &st) != 0) {
        return sc_status_errno(err, errno, "%.*s: no checkpoint", MESSAGE_PATH_MAX, path);
    }
    if (!find_below(path, found)) {
        return sc_status_fail(err, SC_NOT_FOUND,
                              "%.*s: no complete checkpoint: neither " SC_MANIFEST_FILE
                              " nor a folder step-N or checkpoints/step-N with one is in it",
                              MESSAGE_PATH_MAX, path);
    }
    return take(found, out, err);
}

/* The number of a run folder: NAME is 1, NAME-2 is 2 ...; -1 for another name. */
static int64_t run_of(const char *name, const char *job)
{
    size_t n = strlen(job);
    if (strncmp(name, job, n) != 0) {
        return -1;
    }
    if (name[n] == '\0') {
        return 1;
    }
    if (name[n] != '-' || !isdigit((unsigned char)name[n + 1])) {
        return -1;
    }
    char *end;
    errno = 0;
    long long run = strtoll(name + n + 1, &end, 10);
    return *end == '\0' && errno == 0 ? run : -1;
}

sc_status sc_checkpoint_find_run(const char *runs_dir, const char *name, char **out, sc_err *err)
{
    int64_t best = -1;
    char best_path[PATH_MAX] = "";
    int n_runs = 0;
    DIR *dir = opendir(runs_dir);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[PATH_MAX];
        char found[PATH_MAX];
        int64_t run = run_of(entry->d_name, name);
        int n = snprintf(path, sizeof path, "%s/%s", runs_dir, entry->d_name);
        n_runs += run >= 0;
        if (run > best && n > 0 && (size_t)n < sizeof path && find_below(path, found)) {
            best = run;
            memcpy(best_path, found, sizeof best_path);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (best < 0) {
        return sc_status_fail(err, SC_NOT_FOUND,
                              "no complete checkpoint in %d run folders %.*s/%s and %s-N: give the "
                              "folder of one, or run without --resume",
                              n_runs, MESSAGE_PATH_MAX, runs_dir, name, name);
    }
    return take(best_path, out, err);
}
