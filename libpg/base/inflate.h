/* inflate.h - bounded decompression over zlib. */
#ifndef PG_BASE_INFLATE_H
#define PG_BASE_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

/* Inflates a zlib stream (RFC 1950) that must fill dst exactly; more or less is PG_E_FORMAT. */
pg_status pg__inflate(void *dst, size_t n_dst, const void *src, size_t n_src, pg_err *err);

#endif
