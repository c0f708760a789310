/* inflate.c - inflates zlib streams into a buffer of known size. A stream that would need more is
 * refused, so that a few bytes of file cannot ask for gigabytes. */
#include "base/inflate.h"

#include <limits.h>
#include <zlib.h>

#include "base/mem.h"

pg_status pg__inflate(void *dst, size_t n_dst, const void *src, size_t n_src, pg_err *err)
{
    z_stream z = {0};
    unsigned char spill; /* reveals a stream that holds too much */
    size_t in = 0, out = 0;
    int rc = inflateInit(&z);
    if (rc != Z_OK)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    while (rc == Z_OK) {
        const size_t more_in = n_src - in < UINT_MAX ? n_src - in : UINT_MAX;
        const size_t more_out = n_dst - out < UINT_MAX ? n_dst - out : UINT_MAX;
        z.next_in = (z_const Bytef *)(uintptr_t)((const unsigned char *)src + in);
        z.avail_in = (uInt)more_in;
        z.next_out = more_out ? (unsigned char *)dst + out : &spill;
        z.avail_out = more_out ? (uInt)more_out : 1;
        rc = inflate(&z, Z_NO_FLUSH);
        in += more_in - z.avail_in;
        if (more_out)
            out += more_out - z.avail_out;
        else if (z.avail_out == 0)
            rc = Z_BUF_ERROR;
    }
    inflateEnd(&z);
    if (rc == Z_MEM_ERROR)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    if (rc == Z_STREAM_END && out == n_dst)
        return PG_OK;
    if (rc == Z_STREAM_END)
        return pg_fail(err, PG_E_FORMAT, "compressed data expands to %zu bytes, not %zu", out,
                       n_dst);
    if (rc == Z_BUF_ERROR && out == n_dst)
        return pg_fail(err, PG_E_LIMIT, "compressed data expands to more than %zu bytes", n_dst);
    return pg_fail(err, PG_E_FORMAT, "compressed data is damaged");
}

struct pg__gzip {
    z_stream z;
    int between; /* members */
};

pg_status pg__gzip_new(pg__gzip **out, pg_err *err)
{
    pg__gzip *z = pg__mem_array(1, sizeof *z);
    if (!z || inflateInit2(&z->z, 15 + 16) != Z_OK) { /* + 16: gzip's header and checksum */
        pg__mem_free(z);
        return pg__nomem(err);
    }
    z->between = 1;
    *out = z;
    return PG_OK;
}

void pg__gzip_give(pg__gzip *z, const void *src, size_t n)
{
    z->z.next_in = (z_const Bytef *)(uintptr_t)src;
    z->z.avail_in = (uInt)n;
}

pg_status pg__gzip_take(pg__gzip *z, void *dst, size_t n, size_t *got, pg_err *err)
{
    int rc = Z_OK;
    z->z.next_out = dst;
    z->z.avail_out = (uInt)n;
    while (z->z.avail_out > 0 && (z->z.avail_in > 0 || rc == Z_OK)) {
        if (z->between && z->z.avail_in == 0)
            break;
        z->between = 0;
        rc = inflate(&z->z, Z_NO_FLUSH);
        if (rc == Z_BUF_ERROR) /* needs more of the input */
            break;
        if (rc == Z_STREAM_END) {
            z->between = 1;
            rc = inflateReset(&z->z);
        }
        if (rc == Z_MEM_ERROR)
            return pg__nomem(err);
        if (rc != Z_OK)
            return pg_fail(err, PG_E_FORMAT, "compressed data is damaged");
    }
    *got = n - z->z.avail_out;
    return PG_OK;
}

int pg__gzip_is_done(const pg__gzip *z)
{
    return z->between;
}

void pg__gzip_free(pg__gzip *z)
{
    if (z)
        inflateEnd(&z->z);
    pg__mem_free(z);
}
