#include "formats/manifest.h"
#include "stage/io/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where a tensor's bytes go. */
typedef struct target {
    sc_backend *backend;
    sc_stream *stream;
    char *next;
} target;

static sc_status take_bytes(void *context, const void *bytes, size_t n, sc_err *err)
{
    target *to = context;
    sc_backend *be = to->backend;
    SC_TRY(be->copy_to_device(be, to->stream, to->next, bytes, n, err));
    SC_TRY(be->stream_sync(be, to->stream, err)); // the bytes' buffer is used again
    to->next += n;
    return SC_OK;
}

/* That shapes fit the model, and that nothing is there twice, the coordinator has checked; the size
   is checked here once more, since memory depends on it. */
static sc_status load_tensor(sc_checkpoint *checkpoint, const char *folder, const char *prefix,
                             const sc_param *param, const sc_optim *optim, float *to, sc_err *err)
{
    char name[SC_PARAM_NAME_MAX + 16];
    (void)snprintf(name, sizeof name, "%s%s", prefix, param->name);
    const sc_manifest *manifest = sc_checkpoint_manifest(checkpoint);
    const sc_manifest_tensor *found = sc_manifest_find(manifest, name);
    if (found == NULL || found->n_bytes != param->n_elems * sizeof(float)) {
        return sc_status_fail(err, SC_INVALID, "%s: tensor %s: %s", folder, name,
                              found == NULL ? "missing" : "of another size than the model's");
    }
    target at = {.backend = optim->config.backend, .stream = optim->config.stream};
    at.next = (char *)to;
    return sc_checkpoint_read(checkpoint, (size_t)(found - manifest->tensors), take_bytes, &at,
                              err);
}

static sc_status load_entry(sc_checkpoint *checkpoint, const char *folder, const sc_optim *optim,
                            const sc_optim_entry *entry, sc_err *err)
{
    const sc_param *param = entry->param;
    SC_TRY(load_tensor(checkpoint, folder, "", param, optim, entry->held.w, err));
    if (optim->config.kind != SC_OPTIM_ADAMW) {
        return SC_OK;
    }
    size_t half = sc_adamw_state_elems(entry->held.n_elems) / 2;
    SC_TRY(load_tensor(checkpoint, folder, SC_MANIFEST_MOMENT_1, param, optim, entry->state, err));
    return load_tensor(checkpoint, folder, SC_MANIFEST_MOMENT_2, param, optim, entry->state + half,
                       err);
}

sc_status sc_shard_load(const char *folder, uint64_t step, const sc_optim *optim, sc_err *err)
{
    sc_checkpoint *checkpoint = NULL;
    SC_TRY(sc_checkpoint_open(folder, &checkpoint, err));
    sc_status status = SC_OK;
    uint64_t found = sc_checkpoint_manifest(checkpoint)->step;
    if (found != step) {
        status = sc_status_fail(err, SC_INVALID,
                                "%s: of step %" PRIu64 ", but step %" PRIu64 " is to be next",
                                folder, found, step);
    }
    for (int i = 0; status == SC_OK && i < optim->n_entries; i++) {
        if (optim->entries[i].primary == i) {
            status = load_entry(checkpoint, folder, optim, &optim->entries[i], err);
        }
    }
    sc_checkpoint_close(&checkpoint);
    return status;
}
