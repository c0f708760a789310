/* h5_relink.c - a new root in an old file, through libhdf5 over h5_memory.c.
 *
 * The new root is a group without a name. Hard links lead from it to old groups and datasets, and a
 * changed superblock (File Format Specification, section II.A) leads to it, so only 96 bytes change
 * below the old end. Moving the links inside the old root instead (H5Lmove) was as fast on 20,000
 * tensors, but it writes all over the old metadata: it works for copies only, because in place
 * every crash would destroy the file. This way works for both.
 *
 * Whatever libhdf5 writes below the old end is dropped at once: counts of links in object headers
 * (the old tree with the other links is unreachable, so the old count is right again, or too high
 * if a dataset had two names; then its space is not freed if it is deleted later) and its own
 * superblock. Nothing else may be written there, so libhdf5 must not put new objects there. It
 * would reuse space that it has freed: so no old group gets or loses a link. And it would add to
 * old string heaps that it has read: so none is read through it. The caller's check of the result
 * would reveal a violation.
 *
 * New objects start at a multiple of the page size: of the sectors that hold old bytes, only the
 * first is written. */
#include "format/h5/h5_relink.h"

#include <hdf5.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/h5/h5_lib.h"
#include "format/h5/h5_session.h"

enum { VERSION = 8, OFF_SIZE = 13, LEN_SIZE = 14 }; /* bytes of the superblock */

/* From the base address on, both versions are alike. */
enum { END = 16, ROOT = 40, CACHED = 48, ALL = 72 };

static size_t address_at(const unsigned char *head)
{
    return head[VERSION] == 1 ? 28 : 24;
}

static uint64_t get64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 8; i--;)
        v = v << 8 | p[i];
    return v;
}

static void put64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

pg_status pg__h5_relinkable(int *yes, pg__io *base, uint64_t end, pg_err *err)
{
    static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    unsigned char head[PG_RELINKED_HEAD];
    *yes = 0;
    if (pg__io_size(base) < end || end < sizeof head)
        return PG_OK;
    const pg_status st = pg__io_read(base, 0, head, sizeof head, err);
    if (st != PG_OK)
        return st;
    *yes = memcmp(head, signature, sizeof signature) == 0 && head[VERSION] <= 1 &&
           head[OFF_SIZE] == 8 && head[LEN_SIZE] == 8 && get64(head + address_at(head)) == 0 &&
           get64(head + address_at(head) + END) == end;
    return PG_OK;
}

/* Opens the old file as if it ended at h->mem.end, with a root of its own. */
static pg_status open_over(pg__h5_out *h, pg_err *err)
{
    unsigned char head[PG_RELINKED_HEAD], end[8];
    pg_status st = pg__io_read(h->mem.base, 0, head, sizeof head, err);
    if (st != PG_OK)
        return st;
    put64(end, h->mem.end);
    pg__h5_enter();
    if (pg__h5_memory_write(&h->mem, address_at(head) + END, end, sizeof end) == 0) {
        h->mem.keep = h->tail_at;
        h->file = H5Fopen("libpg", H5F_ACC_RDWR, h->fapl);
    }
    if (h->file >= 0)
        h->root = H5Gcreate_anon(h->file, h->gcpl, H5P_DEFAULT);
    if (h->root < 0 || H5Oincr_refcount(h->root) < 0 || h->mem.failed)
        st = pg__h5_lib_fail(h, "", "begin a new root group", err);
    pg__h5_leave();
    return st;
}

pg_status pg__h5_out_over(pg__h5_out **out, pg__io *base, uint64_t end, size_t n_objects,
                          pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_out *h = NULL;
    PG_TRY(pg__h5_out_setup(&h, n_objects, err));
    h->mem.base = base;
    h->mem.base_end = end;
    h->mem.end = (end + PG_H5_PAGE - 1) / PG_H5_PAGE * PG_H5_PAGE;
    h->tail_at = h->mem.end;
    PG_TRY(open_over(h, err));
    *out = h;
    h = NULL;
done:
    pg__h5_out_free(h);
    return st;
}

pg_status pg__h5_out_link(pg__h5_out *h, const char *path, const char *from, pg_err *err)
{
    const char *name = path;
    pg_status st = pg__h5_out_check_path(path, err);
    if (st != PG_OK)
        return st;
    pg__h5_enter();
    const hid_t to = pg__h5_lib_locate(h, &name);
    if (H5Lcreate_hard(h->file, from, to, name, h->lcpl, H5P_DEFAULT) < 0 || h->mem.failed)
        st = pg__h5_lib_fail(h, path, "link it", err);
    pg__h5_leave();
    return st;
}

/* Joins the pages after the old end into one piece; each is freed once it has been copied. */
static pg_status take_tail(pg__relinked *out, pg__h5_out *h, pg_err *err)
{
    if (h->mem.end < h->tail_at || h->mem.end - h->tail_at > SIZE_MAX)
        return pg_fail(err, PG_E_LIMIT, "the new metadata is too large");
    out->n_tail = (size_t)(h->mem.end - h->tail_at);
    out->tail = pg__mem_array(out->n_tail, 1);
    if (!out->tail)
        return pg__nomem(err);
    for (size_t i = 0; i < h->mem.n_pages; i++) {
        pg__h5_page *p = &h->mem.pages[i];
        const uint64_t at = p->no * PG_H5_PAGE;
        if (at >= h->tail_at && at < h->mem.end) {
            const uint64_t left = h->mem.end - at;
            memcpy(out->tail + (at - h->tail_at), p->bytes,
                   left < PG_H5_PAGE ? (size_t)left : PG_H5_PAGE);
        }
        pg__mem_free(p->bytes);
        p->bytes = NULL;
    }
    return PG_OK;
}

pg_status pg__h5_out_relinked(pg__relinked *out, pg__h5_out *h, pg_err *err)
{
    pg_status st = PG_OK;
    H5O_info_t root = {0};
    pg__h5_enter();
    if (H5Oget_info2(h->root, &root, H5O_INFO_BASIC) < 0)
        st = pg__h5_lib_fail(h, "", "find the new root group", err);
    pg__h5_leave();
    if (st != PG_OK)
        return st;
    PG_TRY(pg__h5_out_finish(h, err));
    if (root.addr < h->tail_at || root.addr >= h->mem.end)
        PG_FAIL(PG_E_FORMAT, "HDF5 put the new root group into the old file; nothing written");
    out->base = h->mem.base;
    out->end = h->mem.base_end;
    out->tail_at = h->tail_at;
    PG_TRY(pg__io_read(out->base, 0, out->head, sizeof out->head, err));
    unsigned char *at = out->head + address_at(out->head);
    out->n_head = address_at(out->head) + ALL;
    put64(at + END, h->mem.end);
    put64(at + ROOT, root.addr);
    memset(at + CACHED, 0, ALL - CACHED); /* B-tree and heap are found through the header */
    PG_TRY(take_tail(out, h, err));
done:
    return st;
}
