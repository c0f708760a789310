/* h5_super.c - the superblock (section II.A): where everything starts, how wide addresses are, and
 * how long the file should be. It is at byte 0, or after a user block of 512 x 2^n bytes. */
#include <string.h>

#include "base/hash.h"
#include "format/h5/h5_impl.h"

#define MAX_SUPER_BYTES 112

static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

static pg_status find_signature(const pg__h5 *h, uint64_t *at, pg_err *err)
{
    const uint64_t size = pg__io_size(h->io);
    uint8_t buf[sizeof signature];
    for (uint64_t a = 0; a <= size && size - a >= sizeof buf; a = a ? 2 * a : 512) {
        const pg_status st = pg__io_read(h->io, a, buf, sizeof buf, err);
        if (st != PG_OK)
            return st;
        if (!memcmp(buf, signature, sizeof buf)) {
            *at = a;
            return PG_OK;
        }
    }
    return pg_fail(err, PG_E_FORMAT, "not an HDF5 file (no signature)");
}

static int is_width(unsigned n)
{
    return n >= 2 && n <= 32 && (n & (n - 1)) == 0;
}

static pg_status check_sizes(pg__h5 *h, pg_err *err)
{
    pg_status st = PG_OK;
    const unsigned o = h->off_size, l = h->len_size;
    if ((o == 4 || o == 8) && (l == 4 || l == 8))
        return PG_OK;
    if (is_width(o) && is_width(l))
        PG_H5_UNCOVERED("addresses of %u and lengths of %u bytes are not supported", o, l);
    PG_H5_FAIL(PG_E_FORMAT, "superblock: invalid addresses of %u and lengths of %u bytes", o, l);
done:
    return st;
}

/* A superblock may have been moved after a user block without its address being changed. */
static pg_status check_end(pg__h5 *h, uint64_t at, uint64_t base, uint64_t end, pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t size = pg__io_size(h->io);
    PG_H5_NEED(base == at || base == 0, "superblock: base address %s, not %s", PG_H5_NUM(base),
               PG_H5_NUM(at));
    PG_H5_NEED(end < PG_H5_UNDEF / 2 && end > base, "superblock: invalid end of file, byte %s",
               PG_H5_NUM(end));
    end += at - base;
    PG_H5_NEED(end <= size, "truncated: holds %s of %s bytes (%u %%)", PG_H5_NUM(size),
               PG_H5_NUM(end), (unsigned)((double)size * 100.0 / (double)end));
    h->base = at;
    h->end = end;
done:
    return st;
}

/* Up to version 1, libhdf5 only checks that it knows the flags: HDF5 before 1.8 left "open for
 * writing" in files that it had closed. */
static pg_status check_closed(const pg__h5 *h, unsigned version, unsigned flags, pg_err *err)
{
    if (flags & ~7u)
        return pg__h5_bad(h, err, PG_E_FORMAT, "superblock: unknown flags 0x%x", flags);
    if (version >= 2 && (flags & ~2u)) {
        const pg_status st = pg__h5_bad(
            h, err, PG_E_FORMAT, "not closed properly: the program that wrote it did not finish");
        pg_err_hint(err, "h5clear -s FILE clears the mark if no program is writing it any more");
        return st;
    }
    return PG_OK;
}

/* Versions 0 and 1: all that Keras ever wrote. */
static pg_status read_old(pg__h5 *h, unsigned version, uint64_t at, pg__h5_cur *c, pg_err *err)
{
    pg_status st = PG_OK;
    const uint8_t *v = pg__h5_span(c, 4); /* free space, root entry, reserved, shared header */
    h->off_size = pg__h5_u32(c, 1);
    h->len_size = pg__h5_u32(c, 1);
    pg__h5_span(c, 1);
    h->leaf_k = pg__h5_u32(c, 2);
    h->group_k = pg__h5_u32(c, 2);
    const unsigned flags = pg__h5_u32(c, 4);
    h->chunk_k = 32;
    if (version == 1) {
        h->chunk_k = pg__h5_u32(c, 2);
        pg__h5_span(c, 2);
    }
    PG_H5_NEED(!c->cut, "truncated: the file ends inside its superblock");
    PG_TRY(check_sizes(h, err));
    const uint64_t base = pg__h5_addr(h, c), space = pg__h5_addr(h, c), end = pg__h5_addr(h, c);
    const uint64_t driver = pg__h5_addr(h, c);
    pg__h5_len(h, c); /* name of the root */
    h->root = pg__h5_addr(h, c);
    const unsigned cached = pg__h5_u32(c, 4);
    pg__h5_span(c, 4 + 16);
    PG_H5_NEED(!c->cut, "truncated: the file ends inside its superblock");
    PG_TRY(check_end(h, at, base, end, err));
    PG_H5_NEED(!v[0] && !v[1] && !v[3], "superblock: unknown versions %u, %u, %u", v[0], v[1],
               v[3]);
    PG_H5_NEED(h->leaf_k && h->group_k && h->chunk_k && h->leaf_k <= 32768 && h->group_k <= 32768 &&
                   h->chunk_k <= 32768,
               "superblock: invalid B-tree sizes %u, %u, %u", h->leaf_k, h->group_k, h->chunk_k);
    PG_H5_NEED(cached <= 1, "superblock: root entry of unknown type %u", cached);
    PG_H5_NEED(space == PG_H5_UNDEF, "superblock: the address of free space is set");
    PG_TRY(check_closed(h, version, flags, err));
    if (driver != PG_H5_UNDEF)
        PG_H5_FAIL(PG_E_UNSUPPORTED,
                   "a file of several parts (driver information block) is not supported");
done:
    return st;
}

static pg_status read_new(pg__h5 *h, unsigned version, uint64_t at, const uint8_t *start,
                          pg__h5_cur *c, pg_err *err)
{
    pg_status st = PG_OK;
    h->off_size = pg__h5_u32(c, 1);
    h->len_size = pg__h5_u32(c, 1);
    const unsigned flags = pg__h5_u32(c, 1);
    h->leaf_k = 4;
    h->group_k = 16;
    h->chunk_k = 32;
    PG_H5_NEED(!c->cut, "truncated: the file ends inside its superblock");
    PG_TRY(check_sizes(h, err));
    const uint64_t base = pg__h5_addr(h, c), ext = pg__h5_addr(h, c), end = pg__h5_addr(h, c);
    h->root = pg__h5_addr(h, c);
    const size_t n = (size_t)(c->p - start);
    const uint32_t sum = pg__h5_u32(c, 4);
    PG_H5_NEED(!c->cut, "truncated: the file ends inside its superblock");
    PG_H5_NEED(sum == pg__lookup3(start, n), "superblock: wrong checksum");
    PG_TRY(check_end(h, at, base, end, err));
    PG_TRY(check_closed(h, version, flags, err));
    if (ext != PG_H5_UNDEF)
        PG_H5_UNCOVERED("superblock extension is not supported");
done:
    return st;
}

pg_status pg__h5_super_read(pg__h5 *h, pg_err *err)
{
    pg_status st = PG_OK;
    uint8_t buf[MAX_SUPER_BYTES];
    uint64_t at = 0;
    PG_TRY(find_signature(h, &at, err));
    const uint64_t left = pg__io_size(h->io) - at;
    const size_t n = left < sizeof buf ? (size_t)left : sizeof buf;
    PG_TRY(pg__io_read(h->io, at, buf, n, err));
    pg__h5_cur c = {.p = buf + sizeof signature, .end = buf + n};
    const unsigned version = pg__h5_u32(&c, 1); /* 0 if it is cut: then so is the rest */
    if (version > 3)
        PG_H5_UNCOVERED("written by a newer HDF5 (superblock version %u)", version);
    if (version < 2)
        PG_TRY(read_old(h, version, at, &c, err));
    else
        PG_TRY(read_new(h, version, at, buf, &c, err));
    PG_TRY(pg__h5_own(h, 0, (uint64_t)(c.p - buf), PG_H5_P_SUPER, err));
done:
    if (st != PG_OK && err && strncmp(err->msg, "truncated", 9) == 0)
        pg_err_hint(err, "download or copy it again; the rest cannot be reconstructed");
    return st;
}
