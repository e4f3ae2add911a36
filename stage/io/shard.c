#include "stage/io/shard.h"

#include "formats/checksum.h"
#include "formats/manifest.h"
#include "formats/safetensors_write.h"
#include "stage/io/compute.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    QUEUE_SLOTS = 2,
    FILE_NAME_MAX = 64,
    PARTS_MAX = 3, // of a parameter: itself and two moments
    BUFFER_ALIGN = 64
};

/* What the writing thread is asked for; step 0 ends it: no checkpoint has it. */
typedef struct task {
    uint64_t n_updates;
    int64_t wait_ns;
    int64_t copy_ns;
} task;

/* One tensor of the file. */
typedef struct tensor {
    char name[SC_PARAM_NAME_MAX + 16];
    const float *from; // the backend's memory
    float *copy;       // in the buffer
    size_t n_elems;
} tensor;

struct sc_shard {
    sc_shard_config config;
    sc_backend *backend;
    sc_stream *stream;
    tensor *tensors; // (n_tensors)
    size_t n_tensors;
    sc_safetensor *listed; // (n_tensors) the same for the writer of the format
    sc_msg_tensor *told;   // (n_tensors) the same for SAVED
    float *buffer;
    size_t n_bytes;
    char file[FILE_NAME_MAX];
    sc_spsc tasks;
    sc_spsc results;
    pthread_t thread;
    bool is_started;
    bool is_writing; // loop thread's
    atomic_bool is_aborted;
    sc_msg_saved saved; // of the write that ended
    sc_err err;         // its text
};

/* --- the list of tensors --- */

static void add_tensor(sc_shard *shard, const char *prefix, const sc_param *param,
                       const float *from)
{
    size_t i = shard->n_tensors++;
    tensor *t = &shard->tensors[i];
    (void)snprintf(t->name, sizeof t->name, "%s%s", prefix, param->name);
    t->from = from;
    t->n_elems = param->n_elems;
    shard->n_bytes += t->n_elems * sizeof(float);
    shard->listed[i] = (sc_safetensor){.name = t->name, .n_dims = param->n_dims};
    memcpy(shard->listed[i].shape, param->shape, (size_t)param->n_dims * sizeof *param->shape);
    shard->told[i] = (sc_msg_tensor){.name = t->name, .n_dims = (uint32_t)param->n_dims};
    shard->told[i].rows = param->shape[0];
    shard->told[i].columns = param->n_dims > 1 ? param->shape[1] : 0;
    shard->told[i].n_bytes = t->n_elems * sizeof(float);
}

static void list_tensors(sc_shard *shard)
{
    const sc_optim *optim = shard->config.optim;
    for (int i = 0; i < optim->n_entries; i++) {
        const sc_optim_entry *entry = &optim->entries[i];
        if (entry->primary != i || !shard->config.is_owned[entry->held.param]) {
            continue;
        }
        add_tensor(shard, "", entry->param, entry->held.w);
        if (optim->config.kind == SC_OPTIM_ADAMW) {
            size_t half = sc_adamw_state_elems(entry->held.n_elems) / 2;
            add_tensor(shard, SC_MANIFEST_MOMENT_1, entry->param, entry->state);
            add_tensor(shard, SC_MANIFEST_MOMENT_2, entry->param, entry->state + half);
        }
    }
}

/* Host memory, whatever the device is. Touched now, so that no step pays for it. */
static sc_status allocate(sc_shard *shard, sc_err *err)
{
    void *p = NULL;
    if (posix_memalign(&p, BUFFER_ALIGN, shard->n_bytes + BUFFER_ALIGN) != 0) {
        return sc_status_fail(err, SC_NO_MEMORY, "no %zu bytes for a copy to save", shard->n_bytes);
    }
    memset(p, 0, shard->n_bytes + BUFFER_ALIGN);
    shard->buffer = p;
    float *next = shard->buffer;
    for (size_t i = 0; i < shard->n_tensors; i++) {
        shard->tensors[i].copy = next;
        shard->listed[i].data = next;
        next += shard->tensors[i].n_elems;
    }
    return SC_OK;
}

/* --- the writing thread --- */

typedef struct out_file {
    sc_shard *shard;
    int fd;
    char path[PATH_MAX];
    uint64_t n_bytes;
} out_file;

static sc_status write_bytes(void *context, const void *bytes, size_t n, sc_err *err)
{
    out_file *file = context;
    const char *at = bytes;
    while (n > 0) {
        if (atomic_load(&file->shard->is_aborted)) {
            return sc_status_fail(err, SC_ABORTED, "%s: the job is over", file->path);
        }
        ssize_t done = write(file->fd, at, n);
        if (done < 0 && errno != EINTR) {
            return sc_status_errno(err, errno, "cannot write %s", file->path);
        }
        at += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
        file->n_bytes += done > 0 ? (uint64_t)done : 0;
    }
    return SC_OK;
}

/* The data is what the file ends with, without holes. */
static void place_tensors(sc_shard *shard, uint64_t file_bytes)
{
    uint64_t at = file_bytes - shard->n_bytes;
    for (size_t i = 0; i < shard->n_tensors; i++) {
        sc_msg_tensor *told = &shard->told[i];
        told->offset = at;
        told->checksum = sc_checksum_of(shard->tensors[i].copy, told->n_bytes);
        at += told->n_bytes;
    }
}

static sc_status write_file(sc_shard *shard, uint64_t n_updates, uint64_t *n_bytes_p, sc_err *err)
{
    sc_status status = SC_OK;
    out_file file = {.shard = shard};
    (void)snprintf(file.path, sizeof file.path, "%.3900s/step-%08" PRIu64 ".part/%s",
                   shard->config.folder, n_updates, shard->file);
    file.fd = open(file.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file.fd < 0) {
        return sc_status_errno(err, errno, "cannot make %s", file.path);
    }
    SC_GOTO(
        sc_safetensors_write(shard->listed, shard->n_tensors, NULL, 0, write_bytes, &file, err));
    if (fsync(file.fd) != 0) {
        status = sc_status_errno(err, errno, "cannot sync %s", file.path);
        goto out;
    }
    place_tensors(shard, file.n_bytes);
    *n_bytes_p = file.n_bytes;
out:
    if (close(file.fd) != 0 && status == SC_OK) {
        status = sc_status_errno(err, errno, "cannot write %s", file.path);
    }
    return status;
}

static void *run(void *arg)
{
    sc_shard *shard = arg;
    task next;
    for (;;) {
        if (!sc_spsc_pop(&shard->tasks, &next)) {
            sc_spsc_wait(&shard->tasks);
            continue;
        }
        if (next.n_updates == 0) {
            return NULL;
        }
        int64_t start_ns = sc_compute_now_ns();
        sc_msg_saved saved = {.epoch = shard->config.epoch, .step = next.n_updates};
        shard->err.text[0] = '\0';
        sc_status status = write_file(shard, next.n_updates, &saved.file_bytes, &shard->err);
        saved.rank = (uint32_t)shard->config.rank;
        saved.status = (uint32_t)status;
        saved.text = shard->err.text;
        saved.file = shard->file;
        saved.tensors = shard->told;
        saved.n_tensors = status == SC_OK ? shard->n_tensors : 0;
        saved.wait_ns = next.wait_ns;
        saved.copy_ns = next.copy_ns;
        saved.write_ns = sc_compute_now_ns() - start_ns;
        bool is_pushed = sc_spsc_push(&shard->results, &saved);
        assert(is_pushed);
        (void)is_pushed;
    }
}

static sc_status start(sc_shard *shard, sc_err *err)
{
    sigset_t all;
    sigset_t old;
    SC_TRY(sc_spsc_init(&shard->tasks, sizeof(task), QUEUE_SLOTS, err));
    SC_TRY(sc_spsc_init(&shard->results, sizeof(sc_msg_saved), QUEUE_SLOTS, err));
    sigfillset(&all); // signals belong to the loop thread
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&shard->thread, NULL, run, shard);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        return sc_status_errno(err, rc, "cannot start the thread that saves");
    }
    shard->is_started = true;
    return SC_OK;
}

/* --- the other threads' side --- */

sc_status sc_shard_open(const sc_shard_config *config, sc_shard **out, sc_err *err)
{
    sc_status status = SC_OK;
    size_t n_max = PARTS_MAX * (size_t)config->optim->n_entries + 1;
    sc_shard *shard = calloc(1, sizeof *shard);
    if (shard == NULL) {
        return sc_status_errno(err, ENOMEM, "checkpoints of rank %d", config->rank);
    }
    shard->config = *config;
    shard->tasks.event_fd = shard->results.event_fd = -1;
    shard->backend = config->optim->config.backend;
    shard->stream = config->optim->config.stream;
    (void)snprintf(shard->file, sizeof shard->file, "rank-%d.safetensors", config->rank);
    shard->tensors = calloc(n_max, sizeof *shard->tensors);
    shard->listed = calloc(n_max, sizeof *shard->listed);
    shard->told = calloc(n_max, sizeof *shard->told);
    if (shard->tensors == NULL || shard->listed == NULL || shard->told == NULL) {
        status = sc_status_errno(err, ENOMEM, "checkpoints of rank %d", config->rank);
        goto out;
    }
    list_tensors(shard);
    shard->config.is_owned = NULL;
    SC_GOTO(allocate(shard, err));
    SC_GOTO(start(shard, err));
    *out = shard;
    shard = NULL;
out:
    sc_shard_close(&shard);
    return status;
}

void sc_shard_close(sc_shard **shard)
{
    sc_shard *s = *shard;
    if (s == NULL) {
        return;
    }
    if (s->is_started) {
        task stop = {.n_updates = 0};
        atomic_store(&s->is_aborted, true);
        (void)sc_spsc_push(&s->tasks, &stop);
        pthread_join(s->thread, NULL);
    }
    sc_spsc_done(&s->tasks);
    sc_spsc_done(&s->results);
    free(s->buffer);
    free(s->tensors);
    free(s->listed);
    free(s->told);
    free(s);
    *shard = NULL;
}

size_t sc_shard_bytes(const sc_shard *shard)
{
    return shard->n_bytes;
}

int sc_shard_fd(const sc_shard *shard)
{
    return shard->results.event_fd;
}

bool sc_shard_is_writing(const sc_shard *shard)
{
    return shard->is_writing;
}

sc_status sc_shard_copy(sc_shard *shard, sc_err *err)
{
    sc_backend *be = shard->backend;
    for (size_t i = 0; i < shard->n_tensors; i++) {
        const tensor *t = &shard->tensors[i];
        SC_TRY(
            be->copy_to_host(be, shard->stream, t->copy, t->from, t->n_elems * sizeof(float), err));
    }
    return be->stream_sync(be, shard->stream, err);
}

void sc_shard_write(sc_shard *shard, uint64_t n_updates, int64_t wait_ns, int64_t copy_ns)
{
    task next = {.n_updates = n_updates, .wait_ns = wait_ns, .copy_ns = copy_ns};
    assert(!shard->is_writing && n_updates > 0);
    shard->is_writing = true;
    bool is_pushed = sc_spsc_push(&shard->tasks, &next);
    assert(is_pushed);
    (void)is_pushed;
}

bool sc_shard_take(sc_shard *shard, sc_msg_saved *out)
{
    sc_spsc_clear(&shard->results);
    if (!sc_spsc_pop(&shard->results, &shard->saved)) {
        return false;
    }
    shard->is_writing = false;
    *out = shard->saved;
    return true;
}
