#include "stage/io/save.h"

#include "formats/safetensors_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct save_file {
    int fd;
    char path[PATH_MAX];
} save_file;

static sc_status write_bytes(void *context, const void *bytes, size_t n, sc_err *err)
{
    save_file *file = context;
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = write(file->fd, at, n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return sc_status_errno(err, errno, "cannot write %s", file->path);
        }
        at += done;
        n -= (size_t)done;
    }
    return SC_OK;
}

static size_t list_tensors(const sc_optim *optim, sc_save_what what, sc_safetensor *out)
{
    size_t n = 0;
    for (int i = 0; i < optim->n_entries; i++) {
        const sc_optim_entry *entry = &optim->entries[i];
        if (entry->primary != i) {
            continue;
        }
        out[n] = (sc_safetensor){.name = entry->param->name, .n_dims = entry->param->n_dims};
        out[n].shape[0] = entry->param->shape[0];
        out[n].shape[1] = entry->param->shape[1];
        out[n++].data = what == SC_SAVE_WEIGHTS ? entry->held.w : entry->held.grad;
    }
    return n;
}

sc_status sc_save_entries(const sc_optim *optim, int rank, sc_save_what what, const char *folder,
                          sc_err *err)
{
    sc_status status = SC_OK;
    char final[PATH_MAX + 64];
    save_file file = {.fd = -1};
    sc_safetensor *tensors = calloc((size_t)optim->n_entries + 1, sizeof *tensors);
    if (tensors == NULL) {
        return sc_status_errno(err, ENOMEM, "list of %d tensors", optim->n_entries);
    }
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        SC_GOTO(sc_status_errno(err, errno, "cannot make the folder %s", folder));
    }
    snprintf(final, sizeof final, "%.4000s/rank-%d.safetensors", folder, rank);
    snprintf(file.path, sizeof file.path, "%.4000s/rank-%d.part", folder, rank);
    file.fd = open(file.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file.fd < 0) {
        SC_GOTO(sc_status_errno(err, errno, "cannot make %s", file.path));
    }
    size_t n = list_tensors(optim, what, tensors);
    SC_GOTO(sc_safetensors_write(tensors, n, NULL, 0, write_bytes, &file, err));
    if (fsync(file.fd) != 0 || rename(file.path, final) != 0) {
        SC_GOTO(sc_status_errno(err, errno, "cannot finish %s", final));
    }
out:
    if (file.fd >= 0) {
        close(file.fd);
    }
    free(tensors);
    return status;
}
