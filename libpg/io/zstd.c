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

pg_status pg__zstd_decode(void *out, size_t n_out, const void *in, size_t n, pg_err *err)
{
    const size_t got = ZSTD_decompress(out, n_out, in, n);
    if (ZSTD_isError(got))
        return pg_fail(err, PG_E_FORMAT, "damaged data (Zstandard: %s)", ZSTD_getErrorName(got));
    if (got != n_out)
        return pg_fail(err, PG_E_FORMAT, "compressed data becomes %s bytes, not %s", PG_NUM(got),
                       PG_NUM(n_out));
    return PG_OK;
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

pg_status pg__zstd_decode(void *out, size_t n_out, const void *in, size_t n, pg_err *err)
{
    (void)out, (void)n_out, (void)in, (void)n;
    return without(err);
}
#endif
