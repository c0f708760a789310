/* h5_memory.c - the file driver behind h5_lib.c.
 *
 * libhdf5's own drivers do not suffice: sec2 writes to the disk itself, and a failed write ends in
 * a crash inside libhdf5; core keeps the whole file in one piece, including tensors. This driver
 * keeps pages of 4 KiB, found through a hash table, and never reports a failure to libhdf5: when
 * memory runs out, it drops the write and remembers that, and the writer gives up at its next step.
 * A page that was never written reads as zeros, or as the base file's bytes. */
#include "format/h5/h5_memory.h"

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

_Static_assert(sizeof(hid_t) == sizeof(int64_t), "hid_t of HDF5 1.10 and later");

typedef struct memory_file {
    H5FD_t pub; /* first, as libhdf5 demands */
    pg__h5_memory *m;
    haddr_t eoa, eof; /* end of what is allocated; end of what was written */
} memory_file;

/* What the file access list passes to open(). */
typedef struct driver_info {
    pg__h5_memory *m;
} driver_info;

static size_t slot_of(const pg__h5_memory *m, uint64_t no)
{
    size_t k = (size_t)(no * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (m->n_slots - 1);
    while (m->slots[k] && m->pages[m->slots[k] - 1].no != no)
        k = (k + 1) & (m->n_slots - 1);
    return k;
}

static unsigned char *find_page(const pg__h5_memory *m, uint64_t no)
{
    const uint32_t at = m->n_slots ? m->slots[slot_of(m, no)] : 0;
    return at ? m->pages[at - 1].bytes : NULL;
}

/* Keeps the table at most half full. Returns 0, or -1 and changes nothing. */
static int grow_slots(pg__h5_memory *m)
{
    const size_t n = m->n_slots ? m->n_slots * 2 : 256;
    uint32_t *slots = pg__mem_array(n, sizeof *slots);
    if (!slots)
        return -1;
    pg__mem_free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    for (size_t i = 0; i < m->n_pages; i++)
        m->slots[slot_of(m, m->pages[i].no)] = (uint32_t)i + 1;
    return 0;
}

/* Bytes of a page that does not exist. */
static int read_base(pg__h5_memory *m, uint64_t off, unsigned char *dst, size_t n)
{
    size_t here = 0;
    if (m->base && off < m->base_end)
        here = m->base_end - off < n ? (size_t)(m->base_end - off) : n;
    memset(dst + here, 0, n - here);
    return here && pg__io_read(m->base, off, dst, here, &m->unread) != PG_OK ? -1 : 0;
}

static unsigned char *make_page(pg__h5_memory *m, uint64_t no)
{
    unsigned char *p = find_page(m, no);
    if (p)
        return p;
    if ((m->n_pages + 1) * 2 > m->n_slots && grow_slots(m))
        return NULL;
    if (m->n_pages >= UINT32_MAX - 1 ||
        pg__mem_grow(&m->pages, &m->cap_pages, m->n_pages + 1, sizeof *m->pages))
        return NULL;
    p = pg__mem_array(PG_H5_PAGE, 1);
    if (!p || read_base(m, no * PG_H5_PAGE, p, PG_H5_PAGE)) {
        pg__mem_free(p);
        return NULL;
    }
    m->slots[slot_of(m, no)] = (uint32_t)m->n_pages + 1;
    m->pages[m->n_pages++] = (pg__h5_page){no, p};
    return p;
}

int pg__h5_memory_read(pg__h5_memory *m, uint64_t off, void *buf, size_t n)
{
    for (unsigned char *dst = buf; n;) {
        const size_t in = (size_t)(off % PG_H5_PAGE);
        const size_t take = PG_H5_PAGE - in < n ? PG_H5_PAGE - in : n;
        const unsigned char *p = find_page(m, off / PG_H5_PAGE);
        if (p)
            memcpy(dst, p + in, take);
        else if (read_base(m, off, dst, take))
            return -1;
        dst += take, off += take, n -= take;
    }
    return 0;
}

int pg__h5_memory_write(pg__h5_memory *m, uint64_t off, const void *data, size_t n)
{
    for (const unsigned char *src = data; n;) {
        const size_t in = (size_t)(off % PG_H5_PAGE);
        const size_t take = PG_H5_PAGE - in < n ? PG_H5_PAGE - in : n;
        const int lost = off < m->keep;
        unsigned char *p = lost ? NULL : make_page(m, off / PG_H5_PAGE);
        if (p)
            memcpy(p + in, src, take);
        else if (!lost)
            m->failed = 1;
        src += take, off += take, n -= take;
    }
    return -m->failed;
}

/* libhdf5 frees the H5FD_t through our close(), so we may use calloc and free. */
static H5FD_t *memory_open(const char *name, unsigned flags, hid_t fapl, haddr_t max)
{
    (void)name, (void)flags, (void)max;
    const driver_info *info = H5Pget_driver_info(fapl);
    memory_file *f = info ? pg__mem_array(1, sizeof *f) : NULL;
    if (!f) {
        if (info)
            info->m->failed = 1;
        return NULL;
    }
    f->m = info->m;
    f->eof = info->m->end;
    return &f->pub;
}

static herr_t memory_close(H5FD_t *x)
{
    memory_file *f = (memory_file *)x;
    f->m->end = f->eof;
    pg__mem_free(f);
    return 0;
}

static int memory_cmp(const H5FD_t *a, const H5FD_t *b)
{
    const uintptr_t x = (uintptr_t)((const memory_file *)a)->m;
    const uintptr_t y = (uintptr_t)((const memory_file *)b)->m;
    return x < y ? -1 : x > y;
}

static herr_t memory_query(const H5FD_t *x, unsigned long *flags)
{
    (void)x;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t memory_get_eoa(const H5FD_t *x, H5FD_mem_t type)
{
    (void)type;
    return ((const memory_file *)x)->eoa;
}

static herr_t memory_set_eoa(H5FD_t *x, H5FD_mem_t type, haddr_t addr)
{
    (void)type;
    ((memory_file *)x)->eoa = addr;
    return 0;
}

static haddr_t memory_get_eof(const H5FD_t *x, H5FD_mem_t type)
{
    (void)type;
    return ((const memory_file *)x)->eof;
}

static herr_t memory_read(H5FD_t *x, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t n, void *buf)
{
    (void)type, (void)dxpl;
    return pg__h5_memory_read(((memory_file *)x)->m, addr, buf, n);
}

static herr_t memory_write(H5FD_t *x, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t n,
                           const void *buf)
{
    (void)type, (void)dxpl;
    memory_file *f = (memory_file *)x;
    if (addr + n > f->eof)
        f->eof = addr + n;
    (void)pg__h5_memory_write(f->m, addr, buf, n);
    return 0;
}

static herr_t memory_truncate(H5FD_t *x, hid_t dxpl, hbool_t closing)
{
    (void)dxpl, (void)closing;
    ((memory_file *)x)->eof = ((memory_file *)x)->eoa;
    return 0;
}

static const H5FD_class_t memory_driver = {
#if H5_VERSION_GE(1, 13, 2)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)511, /* the last value of those reserved for programs' own
                                         drivers */
#endif
    .name = "libpg_memory",
    .maxaddr = (haddr_t)1 << 62,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(driver_info),
    .open = memory_open,
    .close = memory_close,
    .cmp = memory_cmp,
    .query = memory_query,
    .get_eoa = memory_get_eoa,
    .set_eoa = memory_set_eoa,
    .get_eof = memory_get_eof,
    .read = memory_read,
    .write = memory_write,
    .truncate = memory_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

int64_t pg__h5_memory_attach(pg__h5_memory *m, int64_t fapl)
{
    const driver_info info = {m};
    const hid_t driver = H5FDregister(&memory_driver);
    if (driver < 0)
        return -1;
    if (H5Pset_driver(fapl, driver, &info) < 0) {
        (void)H5FDunregister(driver);
        return -1;
    }
    return driver;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = ((const pg__h5_page *)a)->no, y = ((const pg__h5_page *)b)->no;
    return x < y ? -1 : x > y;
}

void pg__h5_memory_sort(pg__h5_memory *m)
{
    pg__mem_free(m->slots);
    m->slots = NULL;
    m->n_slots = 0;
    if (m->n_pages)
        qsort(m->pages, m->n_pages, sizeof *m->pages, by_number);
}

void pg__h5_memory_fini(pg__h5_memory *m)
{
    for (size_t i = 0; i < m->n_pages; i++)
        pg__mem_free(m->pages[i].bytes);
    pg__mem_free(m->pages);
    pg__mem_free(m->slots);
    *m = (pg__h5_memory){0};
}
