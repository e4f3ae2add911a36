/*
 * codec - message <-> bytes: protobuf inside a frame.
 *
 * Refuses unknown versions and types, texts and lists over their limits, numbers out of their
 * range, and texts that are not UTF-8; fieldmap.c lists the limits. Both ways: what cannot be
 * unpacked is not packed.
 */
#ifndef SC_PROTO_CODEC_H
#define SC_PROTO_CODEC_H

#include "base/arena.h"
#include "proto/messages.h"

/* Largest frame anybody accepts, in bytes. */
enum {
    SC_CODEC_FRAME_MAX = 64 * 1024 * 1024
};

/* "hello", ...: a message type in lower case; "unknown" when there is none. */
const char *sc_codec_type_text(unsigned type);

/* Packs into a frame in `arena`, which also serves as work space: a loop that resets one arena
   after each message allocates nothing. NULL texts are packed as "". SC_INVALID names the field
   that is over its limit. */
sc_status sc_codec_pack(const sc_msg *msg, sc_arena *arena, const unsigned char **out,
                        size_t *n_out, sc_err *err);
/* Unpacks one whole frame; everything it points to lives in `arena`. SC_PROTOCOL says what is
 * wrong. */
sc_status sc_codec_unpack(const unsigned char *bytes, size_t n, sc_arena *arena, sc_msg *out,
                          sc_err *err);

#endif
