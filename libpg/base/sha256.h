/* sha256.h - SHA-256 (FIPS 180-4), for SHA256SUMS. */
#ifndef PG_BASE_SHA256_H
#define PG_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct pg__sha256 {
    uint32_t h[8];
    uint64_t n_bytes;
    unsigned char block[64];
} pg__sha256;

void pg__sha256_init(pg__sha256 *s);
void pg__sha256_add(pg__sha256 *s, const void *p, size_t n);

/* 64 lower-case hex digits and a NUL. */
void pg__sha256_hex(pg__sha256 *s, char out[65]);

#endif
