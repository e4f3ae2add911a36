/*
 * fuzz_wire - the control port's parser: any bytes are refused with a text or become a message.
 *
 * The input is tried as a frame; then all but its first byte as the payload of a frame with a right
 * header, so that the fuzzer reaches the messages without guessing a checksum.
 */
#include "proto/codec.h"
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n);

/* What was understood must pack, and unpack again to the same number of bytes. */
static void try_unpack(const unsigned char *bytes, size_t n)
{
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_msg msg;
    sc_err err;
    sc_status status = sc_codec_unpack(bytes, n, &arena, &msg, &err);
    if (status == SC_OK) {
        const unsigned char *again = NULL;
        size_t n_again = 0;
        if (sc_codec_pack(&msg, &arena, &again, &n_again, &err) != SC_OK || n_again != n ||
            sc_codec_unpack(again, n_again, &arena, &msg, &err) != SC_OK) {
            abort();
        }
    } else if (err.status != status || err.text[0] == '\0') {
        abort();
    }
    sc_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
    try_unpack(data, n);
    if (n == 0) {
        return 0;
    }
    unsigned char *bytes = malloc(SC_FRAME_HEADER_BYTES + n - 1);
    if (bytes == NULL) {
        return 0;
    }
    memcpy(bytes + SC_FRAME_HEADER_BYTES, data + 1, n - 1);
    sc_frame frame = {.version = SC_PROTO_VERSION,
                      .type = data[0],
                      .payload = bytes + SC_FRAME_HEADER_BYTES,
                      .n_payload = n - 1};
    sc_frame_write(&frame, bytes);
    try_unpack(bytes, SC_FRAME_HEADER_BYTES + n - 1);
    free(bytes);
    return 0;
}
