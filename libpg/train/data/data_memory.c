/* data_memory.c - arrays in the caller's memory. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/data/data.h"

static pg_status read_rows(const pg__array *a, uint64_t first, uint64_t n, void *raw, pg_err *err)
{
    const uint64_t row = pg__array_row_bytes(a);
    (void)err;
    memcpy(raw, (const char *)a->self + first * row, (size_t)(n * row));
    return PG_OK;
}

static pg_status check(const pg_array *a, pg_err *err)
{
    pg_status st = PG_OK;
    if (!a->key || !*a->key)
        PG_FAIL(PG_E_ARG, "an array has no key such as \"x0\" or \"y0\"");
    if (a->rank < 1 || a->rank > PG_MAX_RANK)
        PG_FAIL(PG_E_ARG, "array %s: %u dimensions, 1 to %d are possible", PG_SHOW(a->key),
                (unsigned)a->rank, PG_MAX_RANK);
    uint64_t n = pg_dtype_bytes(a->dtype);
    for (uint32_t i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(n, a->dims[i], &n) || n > SIZE_MAX)
            PG_FAIL(PG_E_ARG, "array %s: larger than memory", PG_SHOW(a->key));
    if (!a->values && n > 0)
        PG_FAIL(PG_E_ARG, "array %s: no values given", PG_SHOW(a->key));
done:
    return st;
}

pg_status pg__data_add_memory(pg_data *d, const pg_array *from, pg_err *err)
{
    union {
        const void *in;
        void *out;
    } values = {.in = from->values}; /* read only */
    pg__array a = {.dtype = from->dtype,
                   .big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
                   .is_flat = 1,
                   .read = read_rows,
                   .self = values.out};
    const pg_status st = check(from, err);
    if (st != PG_OK)
        return st;
    a.dims = pg__dims_of(from->rank, from->dims);
    a.key = pg__mem_strdup(from->key);
    return a.key ? pg__data_add(d, &a, err) : pg__nomem(err);
}
