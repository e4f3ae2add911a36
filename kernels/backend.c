#include "kernels/backend.h"

#include <assert.h>

#define DTYPE_BYTES(name, bytes, text) [SC_DTYPE_##name] = (bytes),
#define DTYPE_TEXT(name, bytes, text) [SC_DTYPE_##name] = (text),

size_t sc_backend_dtype_bytes(sc_dtype dtype)
{
    static const size_t table[SC_DTYPE_COUNT] = {SC_DTYPE_MAP(DTYPE_BYTES)};
    assert((unsigned)dtype < SC_DTYPE_COUNT);
    return table[dtype];
}

const char *sc_backend_dtype_text(sc_dtype dtype)
{
    static const char *const table[SC_DTYPE_COUNT] = {SC_DTYPE_MAP(DTYPE_TEXT)};
    return (unsigned)dtype < SC_DTYPE_COUNT ? table[dtype] : "unknown dtype";
}
