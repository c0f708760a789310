/* inflate.h - bounded decompression over zlib. */
#ifndef PG_BASE_INFLATE_H
#define PG_BASE_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

/* Inflates a zlib stream (RFC 1950) that must fill dst exactly; a stream that gives more or less is
 * PG_E_FORMAT. */
pg_status pg__inflate(void *dst, size_t n_dst, const void *src, size_t n_src, pg_err *err);

/* Reads a gzip stream (RFC 1952) piece by piece: take output until less than asked for comes, then
 * give more input. Members may follow each other, as for gzip -d. */
typedef struct pg__gzip pg__gzip;
pg_status pg__gzip_new(pg__gzip **out, pg_err *err);
void pg__gzip_give(pg__gzip *z, const void *src, size_t n); /* borrowed until used up */
pg_status pg__gzip_take(pg__gzip *z, void *dst, size_t n, size_t *got, pg_err *err);
int pg__gzip_is_done(const pg__gzip *z); /* the input so far ended at a member's end */
void pg__gzip_free(pg__gzip *z);         /* NULL is allowed */

#endif
