/* values.h - elements of any type as numbers. */
#ifndef PG_STORE_VALUES_H
#define PG_STORE_VALUES_H

#include "pg/store.h"

/* Element at p (any address, this machine's byte order). 64-bit integers beyond 2^53 are rounded.
 */
double pg__value_at(const unsigned char *p, pg_dtype dtype);

/* n elements at p. */
void pg__values(double *out, const unsigned char *p, size_t n, pg_dtype dtype);

int pg__dtype_is_float(pg_dtype dtype);

/* Types that only safetensors and PyTorch can hold. */
int pg__dtype_is_float8(pg_dtype dtype);

#endif
