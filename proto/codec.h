/*
 * codec - message <-> bytes: protobuf inside a frame.
 *
 * Refuses unknown versions and types, texts and lists over their limits, and non-UTF-8 texts.
 */
#ifndef SC_PROTO_CODEC_H
#define SC_PROTO_CODEC_H

#include "base/arena.h"
#include "proto/messages.h"

/* Largest frame anybody accepts, in bytes. */
enum {
    SC_CODEC_FRAME_MAX = 64 * 1024 * 1024
};

/* Packs into a malloc'ed frame; caller frees *out. */
sc_status sc_codec_pack(const sc_msg *msg, unsigned char **out, size_t *n_out, sc_err *err);
/* Unpacks one whole frame; everything it points to lives in `arena`. SC_PROTOCOL says what is
 * wrong. */
sc_status sc_codec_unpack(const unsigned char *bytes, size_t n, sc_arena *arena, sc_msg *out,
                          sc_err *err);

#endif
