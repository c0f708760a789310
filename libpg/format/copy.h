/* copy.h - copies the bytes of many tensors from a store into an output, reading forward. */
#ifndef PG_FORMAT_COPY_H
#define PG_FORMAT_COPY_H

#include "io/sink.h"
#include "store/store_impl.h"

typedef struct pg__placed {
    size_t tensor; /* number in the source store, see store_impl.h */
    uint64_t off;  /* where its raw bytes go in the sink */
} pg__placed;

/* Copies n tensors. Tensors that are neighbours on both sides are copied in one piece; those that
 * are not an extent of the source (chunks, compression) are read 256 KiB at a time. Messages about
 * reading name the source. */
pg_status pg__copy_tensors(pg__sink *sink, pg_store *src, const pg__placed *v, size_t n,
                           pg_err *err);

/* CRC-32 of n bytes at off, written to sink before. */
pg_status pg__crc_written(uint32_t *crc, pg__sink *sink, uint64_t off, uint64_t n, pg_err *err);

#endif
