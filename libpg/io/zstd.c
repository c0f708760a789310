/* zstd.c - see zstd.h. */
#include "io/zstd.h"

#ifdef PG_HAVE_ZSTD
#include <zstd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

/* Not every frame says its size. */
pg_status pg__zstd_load(unsigned char **out, size_t *n_out, const void *in, size_t n, size_t most,
                        pg_err *err)
{
    pg_status st = PG_OK;
    ZSTD_inBuffer from = {in, n, 0};
    ZSTD_outBuffer to = {NULL, 0, 0};
    unsigned char *bytes = NULL;
    size_t cap = 0, left = 1;
    ZSTD_DStream *z = ZSTD_createDStream();
    if (!z)
        return pg__nomem(err);
    while (left) {
        if (to.pos == cap && cap >= most)
            PG_FAIL(PG_E_LIMIT, "a frame of Zstandard of more than %s bytes", PG_NUM(most));
        if (to.pos == cap && pg__mem_grow(&bytes, &cap, cap + ZSTD_DStreamOutSize(), 1))
            PG_TRY(pg__nomem(err));
        to.dst = bytes;
        to.size = cap;
        left = ZSTD_decompressStream(z, &to, &from);
        if (ZSTD_isError(left))
            PG_FAIL(PG_E_FORMAT, "damaged data (Zstandard: %s)", ZSTD_getErrorName(left));
        if (left && from.pos == from.size && to.pos < to.size)
            PG_FAIL(PG_E_FORMAT, "damaged data (Zstandard: it ends too early)");
    }
    if (from.pos != from.size)
        PG_FAIL(PG_E_FORMAT, "damaged data (Zstandard: more follows a frame)");
    *out = bytes;
    *n_out = to.pos;
    bytes = NULL;
done:
    ZSTD_freeDStream(z);
    pg__mem_free(bytes);
    return st;
}

struct pg__zstd {
    ZSTD_DStream *z;
    pg__io *io; /* borrowed */
    uint64_t at, end;
    ZSTD_inBuffer from; /* what is in memory of it */
    size_t left;        /* 0: a frame has ended */
    unsigned char buf[];
};

pg_status pg__zstd_open(pg__zstd **out, pg__io *io, uint64_t off, uint64_t n, pg_err *err)
{
    pg__zstd *z = pg__mem_array(1, sizeof *z + ZSTD_DStreamInSize());
    if (!z)
        return pg__nomem(err);
    z->io = io;
    z->at = off;
    z->end = off + n;
    z->from.src = z->buf;
    z->left = 1;
    z->z = ZSTD_createDStream();
    if (!z->z) {
        pg__mem_free(z);
        return pg__nomem(err);
    }
    *out = z;
    return PG_OK;
}

/* Decodes until `to` is full or the input is used up. */
static pg_status decode(pg__zstd *z, ZSTD_outBuffer *to, pg_err *err)
{
    for (;;) {
        const size_t before = to->pos;
        if (z->from.pos == z->from.size && z->at < z->end) {
            const uint64_t most = ZSTD_DStreamInSize();
            const size_t n = (size_t)(z->end - z->at < most ? z->end - z->at : most);
            const pg_status st = pg__io_read(z->io, z->at, z->buf, n, err);
            if (st != PG_OK)
                return st;
            z->at += n;
            z->from = (ZSTD_inBuffer){z->buf, n, 0};
        }
        const int dry = z->from.pos == z->from.size;
        if (dry && z->left == 0) /* else another frame would begin */
            return PG_OK;
        z->left = ZSTD_decompressStream(z->z, to, &z->from);
        if (ZSTD_isError(z->left))
            return pg_fail(err, PG_E_FORMAT, "damaged data (Zstandard: %s)",
                           ZSTD_getErrorName(z->left));
        if (to->pos == to->size || (dry && to->pos == before))
            return PG_OK;
    }
}

pg_status pg__zstd_read(pg__zstd *z, void *buf, uint64_t n, pg_err *err)
{
    unsigned char scratch[4096];
    while (n) {
        const size_t most = buf ? (size_t)n : n < sizeof scratch ? (size_t)n : sizeof scratch;
        ZSTD_outBuffer to = {buf ? buf : scratch, most, 0};
        const pg_status st = decode(z, &to, err);
        if (st != PG_OK)
            return st;
        if (to.pos < most)
            return pg_fail(err, PG_E_FORMAT, "damaged data (Zstandard: it ends too early)");
        n -= most;
    }
    return PG_OK;
}

pg_status pg__zstd_end(pg__zstd *z, pg_err *err)
{
    unsigned char more;
    ZSTD_outBuffer to = {&more, 1, 0};
    const pg_status st = decode(z, &to, err);
    if (st != PG_OK)
        return st;
    if (to.pos)
        return pg_fail(err, PG_E_FORMAT, "compressed data becomes more bytes than it should");
    return z->left ? pg_fail(err, PG_E_FORMAT, "damaged data (Zstandard: it ends too early)")
                   : PG_OK;
}

size_t pg__zstd_memory(const pg__zstd *z)
{
    return sizeof *z + ZSTD_DStreamInSize() + ZSTD_sizeof_DStream(z->z);
}

void pg__zstd_close(pg__zstd *z)
{
    if (!z)
        return;
    ZSTD_freeDStream(z->z);
    pg__mem_free(z);
}

#else

static pg_status without(pg_err *err)
{
    return pg_fail(err, PG_E_UNSUPPORTED, "compressed by Zstandard; libpg was built without it");
}

pg_status pg__zstd_load(unsigned char **out, size_t *n_out, const void *in, size_t n, size_t most,
                        pg_err *err)
{
    (void)out, (void)n_out, (void)in, (void)n, (void)most;
    return without(err);
}

pg_status pg__zstd_open(pg__zstd **out, pg__io *io, uint64_t off, uint64_t n, pg_err *err)
{
    (void)out, (void)io, (void)off, (void)n;
    return without(err);
}

pg_status pg__zstd_read(pg__zstd *z, void *buf, uint64_t n, pg_err *err)
{
    (void)z, (void)buf, (void)n;
    return without(err);
}

pg_status pg__zstd_end(pg__zstd *z, pg_err *err)
{
    (void)z;
    return without(err);
}

size_t pg__zstd_memory(const pg__zstd *z)
{
    (void)z;
    return 0;
}

void pg__zstd_close(pg__zstd *z)
{
    (void)z;
}
#endif
