#include "coordinator/io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAMES_MAX = 10000
};

struct sc_store {
    char path[PATH_MAX];
    int metrics_fd;
};

/* mkdir -p, for the parent of the run folders */
static sc_status make_parents(const char *path, sc_err *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        return sc_status_fail(err, SC_INVALID, "output.runs_dir: %zu bytes are no path", n);
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return sc_status_errno(err, errno, "output.runs_dir: cannot make the folder %s", part);
        }
    }
    return SC_OK;
}

static sc_status make_run_dir(sc_store *store, const char *runs_dir, const char *name, sc_err *err)
{
    for (int i = 1; i <= NAMES_MAX; i++) {
        int n = i == 1 ? snprintf(store->path, sizeof store->path, "%s/%s", runs_dir, name)
                       : snprintf(store->path, sizeof store->path, "%s/%s-%d", runs_dir, name, i);
        if (n < 0 || (size_t)n + 64 > sizeof store->path) {
            return sc_status_fail(err, SC_INVALID, "output.runs_dir: %s/%s is too long a path",
                                  runs_dir, name);
        }
        if (mkdir(store->path, 0777) == 0) {
            return SC_OK;
        }
        if (errno != EEXIST) {
            return sc_status_errno(err, errno, "output.runs_dir: cannot make the run folder %s",
                                   store->path);
        }
    }
    return sc_status_fail(err, SC_EXISTS, "output.runs_dir: %s holds %d runs named %s: remove some",
                          runs_dir, NAMES_MAX, name);
}

sc_status sc_store_open(const char *runs_dir, const char *name, sc_store **out, sc_err *err)
{
    sc_status status = SC_OK;
    char path[PATH_MAX + 32];
    sc_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return sc_status_errno(err, ENOMEM, "run folder %s/%s", runs_dir, name);
    }
    store->metrics_fd = -1;
    SC_GOTO(make_parents(runs_dir, err));
    SC_GOTO(make_run_dir(store, runs_dir, name, err));
    snprintf(path, sizeof path, "%s/log", store->path);
    if (mkdir(path, 0777) != 0) {
        SC_GOTO(sc_status_errno(err, errno, "cannot make the folder %s", path));
    }
    snprintf(path, sizeof path, "%s/metrics.jsonl", store->path);
    store->metrics_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (store->metrics_fd < 0) {
        SC_GOTO(sc_status_errno(err, errno, "cannot make %s", path));
    }
    *out = store;
    store = NULL;
out:
    sc_store_close(&store);
    return status;
}

void sc_store_close(sc_store **store)
{
    if (*store == NULL) {
        return;
    }
    if ((*store)->metrics_fd >= 0) {
        close((*store)->metrics_fd);
    }
    free(*store);
    *store = NULL;
}

const char *sc_store_path(const sc_store *store)
{
    return store->path;
}

static sc_status write_all(int fd, const char *text, size_t n, const char *path, sc_err *err)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return sc_status_errno(err, errno, "cannot write %s", path);
        }
        text += done;
        n -= (size_t)done;
    }
    return SC_OK;
}

sc_status sc_store_write(sc_store *store, const char *file, const char *text, sc_err *err)
{
    char path[PATH_MAX + 256];
    char temporary[PATH_MAX + 264];
    snprintf(path, sizeof path, "%s/%s", store->path, file);
    snprintf(temporary, sizeof temporary, "%s.part", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return sc_status_errno(err, errno, "cannot make %s", temporary);
    }
    sc_status status = write_all(fd, text, strlen(text), path, err);
    if (close(fd) != 0 && status == SC_OK) {
        status = sc_status_errno(err, errno, "cannot write %s", path);
    }
    if (status == SC_OK && rename(temporary, path) != 0) {
        status = sc_status_errno(err, errno, "cannot rename %s", temporary);
    }
    return status;
}

sc_status sc_store_append_metrics(sc_store *store, const char *line, sc_err *err)
{
    size_t n = strlen(line) + 1;
    char *copy = malloc(n + 1);
    if (copy == NULL) {
        return sc_status_errno(err, ENOMEM, "metrics line");
    }
    snprintf(copy, n + 1, "%s\n", line);
    sc_status status = write_all(store->metrics_fd, copy, n, "metrics.jsonl", err);
    free(copy);
    return status;
}
