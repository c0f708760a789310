/* data_idx.c - IDX, the format of MNIST: two zero bytes, the type, the number of dimensions, the
 * dimensions as big-endian 32-bit numbers, then the values, big-endian too. Plain, or compressed
 * with gzip as distributed. Source: yann.lecun.com/exdb/mnist. */
#include "base/try.h"
#include "train/data/data.h"

static int dtype_of(unsigned char code, pg_dtype *out)
{
    switch (code) {
    case 0x08: *out = PG_U8; return 1;
    case 0x09: *out = PG_I8; return 1;
    case 0x0B: *out = PG_I16; return 1;
    case 0x0C: *out = PG_I32; return 1;
    case 0x0D: *out = PG_F32; return 1;
    case 0x0E: *out = PG_F64; return 1;
    default: return 0;
    }
}

static int claims(const unsigned char *head, size_t n)
{
    pg_dtype dtype;
    return n >= 4 && head[0] == 0 && head[1] == 0 && dtype_of(head[2], &dtype) && head[3] > 0;
}

static pg_status open_idx(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err)
{
    unsigned char head[4], dim[4];
    pg__array a = {.big_endian = 1, .is_class = 0};
    uint64_t n_bytes = 0;
    pg_status st = PG_OK;
    (void)path, (void)state;
    PG_TRY(pg__io_read(io, 0, head, sizeof head, err));
    if (!dtype_of(head[2], &a.dtype) || head[3] == 0)
        PG_FAIL(PG_E_FORMAT, "is not an IDX file");
    if (head[3] > PG_MAX_RANK)
        PG_FAIL(PG_E_LIMIT, "has %u dimensions, at most %d are known", head[3], PG_MAX_RANK);
    n_bytes = pg_dtype_bytes(a.dtype);
    a.at = 4 + 4 * (uint64_t)head[3];
    for (a.dims.rank = 0; a.dims.rank < head[3]; a.dims.rank++) {
        PG_TRY(pg__io_read(io, 4 + 4 * (uint64_t)a.dims.rank, dim, sizeof dim, err));
        const uint64_t n =
            (uint64_t)dim[0] << 24 | (uint64_t)dim[1] << 16 | (uint64_t)dim[2] << 8 | dim[3];
        a.dims.d[a.dims.rank] = n;
        if (__builtin_mul_overflow(n_bytes, n, &n_bytes))
            PG_FAIL(PG_E_FORMAT, "is larger than any file");
    }
    if (pg__io_size(io) - a.at != n_bytes)
        PG_FAIL(PG_E_FORMAT, "holds %llu bytes of data, its dimensions %s ask for %llu",
                (unsigned long long)(pg__io_size(io) - a.at), PG_SHAPE(&a.dims),
                (unsigned long long)n_bytes);
    pg__array_in_io(&a, io);
    PG_TRY(pg__data_add(d, &a, err));
done:
    return st;
}

const pg__source pg__source_idx = {.name = "IDX", .claims = claims, .open = open_idx};
