#include "formats/checksum.h"

#include <string.h>

#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

enum {
    LANE_BYTES = 8
};

static uint64_t rotate(uint64_t x, int n)
{
    return (x << n) | (x >> (64 - n));
}

/* Every machine that this runs on is little-endian, as the algorithm is. */
static uint64_t get64(const unsigned char *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint32_t get32(const unsigned char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t round_lane(uint64_t lane, uint64_t word)
{
    return rotate(lane + word * PRIME_2, 31) * PRIME_1;
}

static void take_blocks(uint64_t lanes[4], const unsigned char *p, size_t n_blocks)
{
    uint64_t a = lanes[0];
    uint64_t b = lanes[1];
    uint64_t c = lanes[2];
    uint64_t d = lanes[3];
    for (size_t i = 0; i < n_blocks; i++, p += SC_CHECKSUM_BLOCK_BYTES) {
        a = round_lane(a, get64(p));
        b = round_lane(b, get64(p + LANE_BYTES));
        c = round_lane(c, get64(p + 2 * (size_t)LANE_BYTES));
        d = round_lane(d, get64(p + 3 * (size_t)LANE_BYTES));
    }
    lanes[0] = a;
    lanes[1] = b;
    lanes[2] = c;
    lanes[3] = d;
}

void sc_checksum_init(sc_checksum *sum)
{
    *sum = (sc_checksum){.lanes = {PRIME_1 + PRIME_2, PRIME_2, 0, 0 - PRIME_1}};
}

void sc_checksum_add(sc_checksum *sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    sum->n_bytes += n;
    if (sum->n_rest > 0) {
        size_t room = SC_CHECKSUM_BLOCK_BYTES - sum->n_rest;
        size_t n_taken = n < room ? n : room;
        memcpy(sum->rest + sum->n_rest, p, n_taken);
        sum->n_rest += n_taken;
        p += n_taken;
        n -= n_taken;
        if (sum->n_rest < SC_CHECKSUM_BLOCK_BYTES) {
            return;
        }
        take_blocks(sum->lanes, sum->rest, 1);
        sum->n_rest = 0;
    }
    size_t n_blocks = n / SC_CHECKSUM_BLOCK_BYTES;
    take_blocks(sum->lanes, p, n_blocks);
    sum->n_rest = n % SC_CHECKSUM_BLOCK_BYTES;
    if (sum->n_rest > 0) {
        memcpy(sum->rest, p + n_blocks * SC_CHECKSUM_BLOCK_BYTES, sum->n_rest);
    }
}

static uint64_t merge_lanes(const uint64_t lanes[4])
{
    uint64_t hash =
        rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ round_lane(0, lanes[i])) * PRIME_1 + PRIME_4;
    }
    return hash;
}

static uint64_t take_rest(uint64_t hash, const unsigned char *p, size_t n)
{
    for (; n >= LANE_BYTES; n -= LANE_BYTES, p += LANE_BYTES) {
        hash = rotate(hash ^ round_lane(0, get64(p)), 27) * PRIME_1 + PRIME_4;
    }
    if (n >= sizeof(uint32_t)) {
        hash = rotate(hash ^ (get32(p) * PRIME_1), 23) * PRIME_2 + PRIME_3;
        n -= sizeof(uint32_t);
        p += sizeof(uint32_t);
    }
    for (; n > 0; n--, p++) {
        hash = rotate(hash ^ (*p * PRIME_5), 11) * PRIME_1;
    }
    return hash;
}

uint64_t sc_checksum_get(const sc_checksum *sum)
{
    uint64_t hash = sum->n_bytes >= SC_CHECKSUM_BLOCK_BYTES ? merge_lanes(sum->lanes) : PRIME_5;
    hash = take_rest(hash + sum->n_bytes, sum->rest, sum->n_rest);
    hash = (hash ^ (hash >> 33)) * PRIME_2;
    hash = (hash ^ (hash >> 29)) * PRIME_3;
    return hash ^ (hash >> 32);
}

uint64_t sc_checksum_of(const void *bytes, size_t n)
{
    sc_checksum sum;
    sc_checksum_init(&sum);
    sc_checksum_add(&sum, bytes, n);
    return sc_checksum_get(&sum);
}
