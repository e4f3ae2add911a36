/*
 * checksum - XXH64 of a stream of bytes: finds damage, faster than a disk reads.
 *
 * The published algorithm with seed 0, so that `xxhsum -H1` over a tensor's bytes says the same.
 * No protection against someone who wants two contents to have one checksum.
 *
 * Threads: none of its own; a stream has one caller.
 */
#ifndef SC_FORMATS_CHECKSUM_H
#define SC_FORMATS_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

enum {
    SC_CHECKSUM_BLOCK_BYTES = 32
};

/* A stream under way. */
typedef struct sc_checksum {
    uint64_t lanes[4];
    uint64_t n_bytes;                            // so far
    unsigned char rest[SC_CHECKSUM_BLOCK_BYTES]; // behind the last whole block
    size_t n_rest;
} sc_checksum;

void sc_checksum_init(sc_checksum *sum);
/* Takes the next n bytes; how a stream is cut into pieces makes no difference. */
void sc_checksum_add(sc_checksum *sum, const void *bytes, size_t n);
/* The checksum of all bytes so far; more may follow. */
uint64_t sc_checksum_get(const sc_checksum *sum);
/* Of one piece. */
uint64_t sc_checksum_of(const void *bytes, size_t n);

#endif
