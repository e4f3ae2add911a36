#include "stage/io/dataset.h"

#include "kernels/backend.h"
#include "stage/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sc_dataset {
    char *path;
    const unsigned char *bytes; // the whole file
    size_t n_bytes;
    sc_tokens_info info;
    uint64_t n_samples;
    int T;
    int vocab_size;
};

static sc_status map_file(sc_dataset *ds, sc_err *err)
{
    int fd = open(ds->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return sc_status_errno(err, errno,
                               "data.path: %s cannot be opened (make it with `stagecoach data "
                               "tokenize TEXT -o FILE`)",
                               ds->path);
    }
    struct stat st;
    sc_status status = SC_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        status = sc_status_fail(err, SC_INVALID, "data.path: %s is not a regular file", ds->path);
    } else if (st.st_size == 0) {
        status = sc_status_fail(err, SC_INVALID, "data.path: %s is empty", ds->path);
    } else {
        ds->n_bytes = (size_t)st.st_size;
        void *p = mmap(NULL, ds->n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            status = sc_status_errno(err, errno, "data.path: %s cannot be mapped", ds->path);
        } else {
            ds->bytes = p;
        }
    }
    close(fd);
    return status;
}

sc_status sc_dataset_open(const char *path, const char *format, int T, uint64_t batch_samples,
                          int vocab_size, sc_dataset **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_tokens_format parsed;
    if (!sc_tokens_format_parse(format, &parsed)) {
        return sc_status_fail(err, SC_INVALID, "data.format: %s is not auto, llmc or raw16",
                              format);
    }
    sc_dataset *ds = calloc(1, sizeof *ds);
    if (ds == NULL || (ds->path = strdup(path)) == NULL) {
        free(ds);
        return sc_status_errno(err, ENOMEM, "data.path: %s", path);
    }
    ds->T = T;
    ds->vocab_size = vocab_size;
    SC_GOTO(map_file(ds, err));
    size_t n_head = ds->n_bytes < SC_TOKENS_HEADER_BYTES ? ds->n_bytes : SC_TOKENS_HEADER_BYTES;
    SC_GOTO(sc_tokens_parse(path, ds->bytes, n_head, ds->n_bytes, parsed, &ds->info, err));
    SC_GOTO(sc_tokens_check_batch(path, &ds->info, batch_samples, T, err));
    ds->n_samples = sc_tokens_n_samples(ds->info.n_tokens, T);
    *out = ds;
    ds = NULL;
out:
    sc_dataset_close(&ds);
    return status;
}

void sc_dataset_close(sc_dataset **dataset)
{
    sc_dataset *ds = *dataset;
    if (ds == NULL) {
        return;
    }
    if (ds->bytes != NULL) {
        munmap((void *)ds->bytes, ds->n_bytes);
    }
    free(ds->path);
    free(ds);
    *dataset = NULL;
}

uint64_t sc_dataset_n_samples(const sc_dataset *dataset)
{
    return dataset->n_samples;
}

static void fill_empty(int32_t *row, int T, int32_t value)
{
    for (int t = 0; row != NULL && t < T; t++) {
        row[t] = value;
    }
}

sc_status sc_dataset_read(const sc_dataset *ds, const uint64_t *ids, int B, int32_t *tokens,
                          int32_t *targets, sc_err *err)
{
    for (int b = 0; b < B; b++) {
        int32_t *token_row = tokens == NULL ? NULL : tokens + (size_t)b * (size_t)ds->T;
        int32_t *target_row = targets == NULL ? NULL : targets + (size_t)b * (size_t)ds->T;
        if (ids[b] == SC_BATCH_NO_SAMPLE) {
            fill_empty(token_row, ds->T, 0);
            fill_empty(target_row, ds->T, SC_IGNORE_INDEX);
            continue;
        }
        uint64_t first = ids[b] * (uint64_t)ds->T;
        const unsigned char *at = ds->bytes + ds->info.data_offset + first * SC_TOKENS_TOKEN_BYTES;
        SC_TRY(sc_tokens_check_range(ds->path, &ds->info, first, at, (size_t)ds->T + 1,
                                     ds->vocab_size, err));
        if (token_row != NULL) {
            sc_tokens_unpack(at, (size_t)ds->T, token_row);
        }
        if (target_row != NULL) {
            sc_tokens_unpack(at + SC_TOKENS_TOKEN_BYTES, (size_t)ds->T, target_row);
        }
    }
    return SC_OK;
}
