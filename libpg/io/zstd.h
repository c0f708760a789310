/* zstd.h - Zstandard frames, decoded by libzstd. */
#ifndef PG_IO_ZSTD_H
#define PG_IO_ZSTD_H

#include <stddef.h>

#include "pg/err.h"

/* Decodes the frame at in[0..n) into fresh memory, at most `most` bytes. PG_E_FORMAT; PG_E_LIMIT;
 * PG_E_UNSUPPORTED: libpg was built without libzstd. */
pg_status pg__zstd_load(unsigned char **out, size_t *n_out, const void *in, size_t n, size_t most,
                        pg_err *err);

/* Decodes the frame, which must become exactly n_out bytes. */
pg_status pg__zstd_decode(void *out, size_t n_out, const void *in, size_t n, pg_err *err);

#endif
