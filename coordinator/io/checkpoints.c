#include "coordinator/io/checkpoints.h"

#include "coordinator/snapshot.h"

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
    STEPS_MAX = 65536 // complete checkpoints in a folder
};

static void part_path(const char *folder, uint64_t step, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.4000s/step-%08" PRIu64 ".part", folder, step);
}

static void step_path(const char *folder, uint64_t step, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.4000s/step-%08" PRIu64, folder, step);
}

/* The step of "step-00000100" with `end` behind it; false for another name. */
static bool read_name(const char *name, const char *end, uint64_t *out)
{
    static const char PREFIX[] = "step-";
    const size_t n = sizeof PREFIX - 1;
    char *rest;
    if (strncmp(name, PREFIX, n) != 0 || !isdigit((unsigned char)name[n])) {
        return false;
    }
    errno = 0;
    *out = strtoull(name + n, &rest, 10);
    return errno == 0 && strcmp(rest, end) == 0;
}

static sc_status sync_folder(const char *path, sc_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return sc_status_errno(err, errno, "cannot open %s", path);
    }
    sc_status status = fsync(fd) == 0 ? SC_OK : sc_status_errno(err, errno, "cannot sync %s", path);
    close(fd);
    return status;
}

/* Removes a folder and the files in it. There are no folders in a checkpoint. */
static sc_status remove_folder(const char *path, sc_err *err)
{
    sc_status status = SC_OK;
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return errno == ENOENT ? SC_OK : sc_status_errno(err, errno, "cannot remove %s", path);
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        bool is_dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (!is_dots && unlinkat(dirfd(dir), entry->d_name, 0) != 0 && errno != ENOENT) {
            status = sc_status_errno(err, errno, "cannot remove %s/%s", path, entry->d_name);
        }
    }
    closedir(dir);
    if (status == SC_OK && rmdir(path) != 0 && errno != ENOENT) {
        status = sc_status_errno(err, errno, "cannot remove %s", path);
    }
    return status;
}

static bool is_pending(uint64_t step, const uint64_t *pending, size_t n_pending)
{
    for (size_t i = 0; i < n_pending; i++) {
        if (pending[i] == step) {
            return true;
        }
    }
    return false;
}

/* What a crash or a failed save left. */
static sc_status remove_leftovers(const char *folder, const uint64_t *pending, size_t n_pending,
                                  sc_err *err)
{
    sc_status status = SC_OK;
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return sc_status_errno(err, errno, "cannot read %s", folder);
    }
    for (struct dirent *entry; status == SC_OK && (entry = readdir(dir)) != NULL;) {
        uint64_t step;
        char path[PATH_MAX];
        if (read_name(entry->d_name, ".part", &step) && !is_pending(step, pending, n_pending)) {
            part_path(folder, step, path);
            status = remove_folder(path, err);
        }
    }
    closedir(dir);
    return status;
}

sc_status sc_checkpoints_begin(const char *folder, uint64_t step, const uint64_t *pending,
                               size_t n_pending, sc_err *err)
{
    char path[PATH_MAX];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return sc_status_errno(err, errno, "cannot make the folder %s", folder);
    }
    SC_TRY(remove_leftovers(folder, pending, n_pending, err));
    part_path(folder, step, path);
    if (mkdir(path, 0777) != 0) {
        return sc_status_errno(err, errno, "cannot make the folder %s", path);
    }
    return SC_OK;
}

static sc_status write_synced(const char *path, const char *text, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n = strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return sc_status_errno(err, errno, "cannot make %s", path);
    }
    while (n > 0 && status == SC_OK) {
        ssize_t done = write(fd, text, n);
        if (done >= 0) {
            text += done;
            n -= (size_t)done;
        } else if (errno != EINTR) {
            status = sc_status_errno(err, errno, "cannot write %s", path);
        }
    }
    if (status == SC_OK && fsync(fd) != 0) {
        status = sc_status_errno(err, errno, "cannot sync %s", path);
    }
    if (close(fd) != 0 && status == SC_OK) {
        status = sc_status_errno(err, errno, "cannot write %s", path);
    }
    return status;
}

sc_status sc_checkpoints_commit(const char *folder, uint64_t step, const char *manifest,
                                sc_err *err)
{
    char part[PATH_MAX];
    char whole[PATH_MAX];
    char path[PATH_MAX + 32];
    part_path(folder, step, part);
    step_path(folder, step, whole);
    (void)snprintf(path, sizeof path, "%s/" SC_MANIFEST_FILE, part);
    SC_TRY(write_synced(path, manifest, err));
    SC_TRY(sync_folder(part, err));
    if (rename(part, whole) != 0) {
        return sc_status_errno(err, errno, "cannot rename %s to %s", part, whole);
    }
    return sync_folder(folder, err);
}

sc_status sc_checkpoints_drop(const char *folder, uint64_t step, sc_err *err)
{
    char path[PATH_MAX];
    part_path(folder, step, path);
    return remove_folder(path, err);
}

static sc_status list_steps(const char *folder, uint64_t *steps, size_t *n_p, sc_err *err)
{
    DIR *dir = opendir(folder);
    *n_p = 0;
    if (dir == NULL) {
        return sc_status_errno(err, errno, "cannot read %s", folder);
    }
    for (struct dirent *entry; *n_p < STEPS_MAX && (entry = readdir(dir)) != NULL;) {
        if (read_name(entry->d_name, "", &steps[*n_p])) {
            (*n_p)++;
        }
    }
    closedir(dir);
    return SC_OK;
}

/* Renamed first: there is never a complete one with files missing. */
static sc_status remove_whole(const char *folder, uint64_t step, sc_err *err)
{
    char part[PATH_MAX];
    char whole[PATH_MAX];
    part_path(folder, step, part);
    step_path(folder, step, whole);
    if (rename(whole, part) != 0) {
        return sc_status_errno(err, errno, "cannot rename %s to %s", whole, part);
    }
    return remove_folder(part, err);
}

sc_status sc_checkpoints_trim(const char *folder, uint64_t n_keep, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n = 0;
    uint64_t *steps = n_keep == 0 ? NULL : calloc(STEPS_MAX, sizeof *steps);
    if (n_keep == 0) {
        return SC_OK;
    }
    if (steps == NULL) {
        return sc_status_errno(err, ENOMEM, "list of checkpoints");
    }
    SC_GOTO(list_steps(folder, steps, &n, err));
    n = sc_snapshot_sort_stale(steps, n, n_keep);
    for (size_t i = 0; i < n; i++) {
        SC_GOTO(remove_whole(folder, steps[i], err));
    }
out:
    free(steps);
    return status;
}
