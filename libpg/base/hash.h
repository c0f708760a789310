/* hash.h - checksums. */
#ifndef PG_BASE_HASH_H
#define PG_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* zlib's CRC-32 (RFC 1952), continued from crc (0 to start). */
uint32_t pg__crc32(uint32_t crc, const void *p, size_t n);

/* The implementations, beginning with the one that every processor can run; the best one here; and,
 * for tests, a chosen one: calling one that the processor lacks ends the program. */
typedef enum pg__crc_way { PG_CRC_ZLIB, PG_CRC_FOLDED, PG_CRC_WIDE } pg__crc_way;
pg__crc_way pg__crc32_best(void);
uint32_t pg__crc32_by(pg__crc_way way, uint32_t crc, const void *data, size_t n);

/* CRC-32C (RFC 3720, appendix B.4), continued from crc (0 to start); and the form in which
 * TensorFlow stores one (core/lib/hash/crc32c.h), since the CRC of data that holds its own is
 * weak. */
uint32_t pg__crc32c(uint32_t crc, const void *p, size_t n);
uint32_t pg__crc32c_masked(uint32_t crc);

/* Bob Jenkins' lookup3, as HDF5 checks its metadata (format specification, "Checksum"). */
uint32_t pg__lookup3(const void *p, size_t n);

/* Fletcher-32 as HDF5's filter 3 computes it (16-bit big-endian words). */
uint32_t pg__fletcher32(const void *p, size_t n);

/* XXH64 with seed 0 (xxHash's specification), of pieces in a row. */
typedef struct pg__xxh64 {
    uint64_t lane[4], n;
    unsigned char rest[32];
} pg__xxh64;
void pg__xxh64_start(pg__xxh64 *h);
void pg__xxh64_add(pg__xxh64 *h, const void *p, size_t n);
uint64_t pg__xxh64_end(const pg__xxh64 *h);

#endif
