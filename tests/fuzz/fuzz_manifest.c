/*
 * fuzz_manifest - any bytes as a manifest: no crash; what is accepted lies within its files, and
 * written and read again it is the same text.
 */
#include "formats/manifest.h"

#include <stdlib.h>
#include <string.h>

/* libFuzzer gives the name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char *format(const sc_manifest *manifest)
{
    char *text = NULL;
    if (sc_manifest_format(manifest, &text, NULL) != SC_OK) {
        abort();
    }
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    sc_manifest *m = NULL;
    sc_manifest *again = NULL;
    sc_err err;
    if (sc_manifest_parse("m", (const char *)data, n, &m, &err) != SC_OK) {
        return 0;
    }
    for (size_t i = 0; i < m->n_tensors; i++) {
        const sc_manifest_tensor *t = &m->tensors[i];
        if (t->file >= m->n_files || t->offset + t->n_bytes > m->files[t->file].n_bytes) {
            abort();
        }
    }
    char *text = format(m);
    if (sc_manifest_parse("m", text, strlen(text), &again, &err) != SC_OK) {
        abort();
    }
    char *text_again = format(again);
    if (strcmp(text, text_again) != 0) {
        abort();
    }
    free(text);
    free(text_again);
    sc_manifest_free(&m);
    sc_manifest_free(&again);
    return 0;
}
