#include "tests/multiproc/tensor_files.h"

#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const sc_param *find_param(const sc_registry *registry, const char *name)
{
    for (int i = 0; i < registry->n_params; i++) {
        if (strcmp(registry->params[i].name, name) == 0) {
            return &registry->params[i];
        }
    }
    return NULL;
}

static void check_entry(const sc_safetensors_entry *entry, const sc_param *param, const char *path)
{
    if (param == NULL || entry->dtype != SC_SAFETENSORS_F32 || entry->n_dims != param->n_dims ||
        memcmp(entry->shape, param->shape, (size_t)param->n_dims * sizeof *param->shape) != 0) {
        fail_msg("%s: %s is %s", path, entry->name,
                 param == NULL ? "no parameter of the model" : "of another type or shape");
    }
}

static void load_rank(const char *path, const sc_registry *registry, sc_tensor_files *files,
                      int rank)
{
    size_t n_bytes = 0;
    size_t n_head = 0;
    sc_err err = {0};
    char *bytes = sc_tmpdir_read(path, &n_bytes);
    assert_true(n_bytes >= 8);
    if (sc_safetensors_head_bytes(path, (const uint8_t *)bytes, n_bytes, &n_head, &err) != SC_OK ||
        sc_safetensors_parse(path, bytes, n_head, n_bytes, &files->heads[rank], &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    files->bytes[rank] = bytes;
    for (size_t i = 0; i < files->heads[rank]->n_entries; i++) {
        const sc_safetensors_entry *entry = &files->heads[rank]->entries[i];
        check_entry(entry, find_param(registry, entry->name), path);
    }
}

void sc_tensor_files_load(const sc_jobs_result *result, const char *kind,
                          const sc_registry *registry, sc_tensor_files *out)
{
    *out = (sc_tensor_files){.n_ranks = result->p};
    for (int r = 0; r < result->p; r++) {
        char name[64];
        snprintf(name, sizeof name, "%s/rank-%d.safetensors", kind, r);
        char *path = sc_tmpdir_path(result->run_dir, name);
        load_rank(path, registry, out, r);
        free(path);
    }
}

void sc_tensor_files_free(sc_tensor_files *files)
{
    for (int r = 0; r < files->n_ranks; r++) {
        sc_safetensors_free(&files->heads[r]);
        free(files->bytes[r]);
    }
    *files = (sc_tensor_files){.n_ranks = 0};
}

const float *sc_tensor_files_find(const sc_tensor_files *files, int rank, const sc_param *param)
{
    const sc_safetensors_entry *entry = sc_safetensors_find(files->heads[rank], param->name);
    // The writer aligns tensors to 8 bytes from the file's start, malloc the start.
    return entry == NULL ? NULL : (const float *)(const void *)(files->bytes[rank] + entry->offset);
}

const float *sc_tensor_files_get(const sc_tensor_files *files, const sc_param *param)
{
    const float *found = NULL;
    for (int r = 0; r < files->n_ranks && found == NULL; r++) {
        found = sc_tensor_files_find(files, r, param);
    }
    if (found == NULL) {
        fail_msg("%s is in no rank's file", param->name);
    }
    return found;
}

void sc_tensor_files_expect_whole(const sc_tensor_files *files, const sc_registry *registry,
                                  const char *text)
{
    for (int i = 0; i < registry->n_params; i++) {
        const sc_param *param = &registry->params[i];
        int n = 0;
        for (int r = 0; r < files->n_ranks; r++) {
            n += sc_tensor_files_find(files, r, param) != NULL ? 1 : 0;
        }
        bool is_shared = param->tie_group >= 0 && files->n_ranks > 1;
        if (n != (is_shared ? 2 : 1)) {
            fail_msg("[%s] %s is in %d ranks' files", text, param->name, n);
        }
        if (is_shared) {
            assert_non_null(sc_tensor_files_find(files, 0, param));
            assert_non_null(sc_tensor_files_find(files, files->n_ranks - 1, param));
        }
    }
}

/* Index of the first element with other bits; n when there is none. */
static size_t find_difference(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits_a;
        uint32_t bits_b;
        memcpy(&bits_a, &a[i], sizeof bits_a);
        memcpy(&bits_b, &b[i], sizeof bits_b);
        if (bits_a != bits_b) {
            return i;
        }
    }
    return n;
}

static void expect_same_param(const float *expected, const sc_tensor_files *files,
                              const sc_param *param, const char *text)
{
    for (int r = 0; r < files->n_ranks; r++) {
        const float *found = sc_tensor_files_find(files, r, param);
        size_t i =
            found == NULL ? param->n_elems : find_difference(found, expected, param->n_elems);
        if (found != NULL && i < param->n_elems) {
            fail_msg("[%s] rank %d: %s[%zu] is %a instead of %a", text, r, param->name, i,
                     (double)found[i], (double)expected[i]);
        }
    }
}

void sc_tensor_files_expect_same(const sc_tensor_files *expected, const sc_tensor_files *files,
                                 const sc_registry *registry, const char *text)
{
    for (int i = 0; i < registry->n_params; i++) {
        const sc_param *param = &registry->params[i];
        expect_same_param(sc_tensor_files_get(expected, param), files, param, text);
    }
}
