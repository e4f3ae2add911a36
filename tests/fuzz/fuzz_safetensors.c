/*
 * fuzz_safetensors - any bytes as a file: no crash, and accepted tensors cover the data.
 */
#include "formats/safetensors.h"

#include <stdlib.h>

/* libFuzzer gives the name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    sc_safetensors *st = NULL;
    sc_err err;
    if (sc_safetensors_parse("f", data, n, n, &st, &err) != SC_OK) {
        return 0;
    }
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < st->n_entries; i++) {
        n_bytes += st->entries[i].n_bytes;
        if (st->entries[i].offset + st->entries[i].n_bytes > n) {
            abort();
        }
    }
    if (n_bytes > n) {
        abort();
    }
    sc_safetensors_free(&st);
    return 0;
}
