#include "stage/layers/layer.h"

#include <assert.h>

void *sc_layer_take(sc_layer_tape *tape, size_t bytes)
{
    size_t padded = (bytes + SC_LAYER_ALIGN - 1) / SC_LAYER_ALIGN * SC_LAYER_ALIGN;
    assert(padded <= tape->capacity_bytes - tape->used_bytes);
    void *p = tape->base + tape->used_bytes;
    tape->used_bytes += padded;
    return p;
}
