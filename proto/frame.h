/*
 * frame - what every message travels in: a fixed header with version, type, length and checksum.
 *
 * Bytes in, bytes out; knows nothing of what a payload means. All numbers are little-endian:
 *
 *   0  magic     4 bytes "STGC"
 *   4  version   u16; what follows it may differ in other versions
 *   6  type      u16, sc_msg_type
 *   8  length    u32, bytes of payload
 *   12 checksum  u32, CRC-32 of bytes 0-11, 16-23 and the payload
 *   16 seq       u64
 *   24 payload
 */
#ifndef SC_PROTO_FRAME_H
#define SC_PROTO_FRAME_H

#include "base/status.h"

#include <stdint.h>

enum {
    SC_FRAME_HEADER_BYTES = 24
};

typedef struct sc_frame {
    uint16_t version;
    uint16_t type;
    uint64_t seq;
    const unsigned char *payload; // borrowed from the bytes parsed
    size_t n_payload;
} sc_frame;

/* Writes the header of frame->payload to out; SC_FRAME_HEADER_BYTES are written. n_payload must
   fit 32 bits. */
void sc_frame_write(const sc_frame *frame, unsigned char *out);

/* Takes exactly one whole frame of the given version apart. SC_PROTOCOL for anything else; of
   another version the text names both. */
sc_status sc_frame_parse(const unsigned char *bytes, size_t n, uint16_t version, sc_frame *out,
                         sc_err *err);

/* CRC-32 (IEEE 802.3, as in zlib) of n bytes, going on from `crc`; start with 0. */
uint32_t sc_frame_crc(uint32_t crc, const unsigned char *bytes, size_t n);

#endif
