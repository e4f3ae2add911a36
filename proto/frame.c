#include "proto/frame.h"

#include <assert.h>
#include <string.h>

enum {
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_LENGTH = 8,
    AT_CHECKSUM = 12,
    AT_SEQ = 16
};

static const unsigned char MAGIC[4] = {'S', 'T', 'G', 'C'};

static void put(unsigned char *out, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) {
        out[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get(const unsigned char *in, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++) {
        value |= (uint64_t)in[i] << (8 * i);
    }
    return value;
}

uint32_t sc_frame_crc(uint32_t crc, const unsigned char *bytes, size_t n)
{
    // the polynomial 0xedb88320 over half a byte: small enough to be written down
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

static uint32_t checksum(const unsigned char *header, const unsigned char *payload, size_t n)
{
    uint32_t crc = sc_frame_crc(0, header, AT_CHECKSUM);
    crc = sc_frame_crc(crc, header + AT_SEQ, SC_FRAME_HEADER_BYTES - AT_SEQ);
    return sc_frame_crc(crc, payload, n);
}

void sc_frame_write(const sc_frame *frame, unsigned char *out)
{
    assert(frame->n_payload <= UINT32_MAX);
    memcpy(out, MAGIC, sizeof MAGIC);
    put(out + AT_VERSION, frame->version, 2);
    put(out + AT_TYPE, frame->type, 2);
    put(out + AT_LENGTH, frame->n_payload, 4);
    put(out + AT_SEQ, frame->seq, 8);
    put(out + AT_CHECKSUM, checksum(out, frame->payload, frame->n_payload), 4);
}

sc_status sc_frame_parse(const unsigned char *bytes, size_t n, uint16_t version, sc_frame *out,
                         sc_err *err)
{
    if (n < AT_TYPE) {
        return sc_status_fail(err, SC_PROTOCOL, "frame of %zu bytes is too short to be one", n);
    }
    if (memcmp(bytes, MAGIC, sizeof MAGIC) != 0) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "not a stagecoach frame: it starts with bytes %02x %02x %02x %02x",
                              bytes[0], bytes[1], bytes[2], bytes[3]);
    }
    // before anything else: another version may have another header
    uint16_t theirs = (uint16_t)get(bytes + AT_VERSION, 2);
    if (theirs != version) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "the peer speaks protocol version %d, this program version %d: "
                              "install the same release on both ends",
                              theirs, version);
    }
    if (n < SC_FRAME_HEADER_BYTES) {
        return sc_status_fail(err, SC_PROTOCOL, "frame of %zu bytes is shorter than its header", n);
    }
    size_t n_payload = (size_t)get(bytes + AT_LENGTH, 4);
    if (n_payload != n - SC_FRAME_HEADER_BYTES) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "frame's header says %zu bytes of payload, %zu are there", n_payload,
                              n - SC_FRAME_HEADER_BYTES);
    }
    const unsigned char *payload = bytes + SC_FRAME_HEADER_BYTES;
    uint32_t said = (uint32_t)get(bytes + AT_CHECKSUM, 4);
    uint32_t is = checksum(bytes, payload, n_payload);
    if (said != is) {
        return sc_status_fail(err, SC_PROTOCOL, "frame's checksum is %08x, its header says %08x",
                              is, said);
    }
    *out = (sc_frame){.version = theirs,
                      .type = (uint16_t)get(bytes + AT_TYPE, 2),
                      .seq = get(bytes + AT_SEQ, 8),
                      .payload = payload,
                      .n_payload = n_payload};
    return SC_OK;
}
