/* zstd.h - Zstandard frames, decoded by libzstd. */
#ifndef PG_IO_ZSTD_H
#define PG_IO_ZSTD_H

#include <stddef.h>

#include "io/io.h"

/* Decodes the frame at in[0..n) into fresh memory, at most `most` bytes. PG_E_FORMAT; PG_E_LIMIT;
 * PG_E_UNSUPPORTED: libpg was built without libzstd. */
pg_status pg__zstd_load(unsigned char **out, size_t *n_out, const void *in, size_t n, size_t most,
                        pg_err *err);

/* Frames in n bytes at off of a file, decoded a piece at a time, in order. */
typedef struct pg__zstd pg__zstd;
pg_status pg__zstd_open(pg__zstd **out, pg__io *io, uint64_t off, uint64_t n, pg_err *err);
/* The next n bytes; buf NULL: steps over them. PG_E_FORMAT: damaged, or there are not so many. */
pg_status pg__zstd_read(pg__zstd *z, void *buf, uint64_t n, pg_err *err);
/* PG_E_FORMAT if more follows, or if the last frame is not whole. */
pg_status pg__zstd_end(pg__zstd *z, pg_err *err);
size_t pg__zstd_memory(const pg__zstd *z); /* that it holds */
void pg__zstd_close(pg__zstd *z);          /* NULL is allowed; io stays open */

#endif
