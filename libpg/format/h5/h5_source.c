/* h5_source.c - the file driver behind h5_trusted.c. libhdf5 gets the descriptor that is already
 * open, or the member of an archive, and never a name: it can only open what it was given. */
#include "format/h5/h5_source.h"

#include <hdf5.h>

#include "base/mem.h"

typedef struct source_file {
    H5FD_t pub; /* first, as libhdf5 demands */
    pg__io *io;
    haddr_t eoa; /* end of what libhdf5 considers allocated */
} source_file;

/* What the file access list passes to open(). */
typedef struct driver_info {
    pg__io *io;
} driver_info;

static H5FD_t *source_open(const char *name, unsigned flags, hid_t fapl, haddr_t max)
{
    (void)name, (void)max;
    const driver_info *info = H5Pget_driver_info(fapl);
    source_file *f = info && !(flags & H5F_ACC_RDWR) ? pg__mem_array(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    f->io = info->io;
    return &f->pub;
}

static herr_t source_close(H5FD_t *x)
{
    pg__mem_free(x);
    return 0;
}

static int source_cmp(const H5FD_t *a, const H5FD_t *b)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b; /* every opening is a separate file */
    return x < y ? -1 : x > y;
}

static herr_t source_query(const H5FD_t *x, unsigned long *flags)
{
    (void)x;
    *flags = H5FD_FEAT_DATA_SIEVE;
    return 0;
}

static haddr_t source_get_eoa(const H5FD_t *x, H5FD_mem_t type)
{
    (void)type;
    return ((const source_file *)x)->eoa;
}

static herr_t source_set_eoa(H5FD_t *x, H5FD_mem_t type, haddr_t addr)
{
    (void)type;
    ((source_file *)x)->eoa = addr;
    return 0;
}

static haddr_t source_get_eof(const H5FD_t *x, H5FD_mem_t type)
{
    (void)type;
    return pg__io_size(((const source_file *)x)->io);
}

static herr_t source_read(H5FD_t *x, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t n, void *buf)
{
    (void)type, (void)dxpl;
    return pg__io_read(((source_file *)x)->io, addr, buf, n, NULL) == PG_OK ? 0 : -1;
}

static herr_t source_write(H5FD_t *x, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t n,
                           const void *buf)
{
    (void)x, (void)type, (void)dxpl, (void)addr, (void)n, (void)buf;
    return -1;
}

static const H5FD_class_t source_driver = {
#if H5_VERSION_GE(1, 13, 2)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)510, /* one of the values reserved for programs' own drivers */
#endif
    .name = "libpg_source",
    .maxaddr = (haddr_t)1 << 62,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(driver_info),
    .open = source_open,
    .close = source_close,
    .cmp = source_cmp,
    .query = source_query,
    .get_eoa = source_get_eoa,
    .set_eoa = source_set_eoa,
    .get_eof = source_get_eof,
    .read = source_read,
    .write = source_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

int64_t pg__h5_source_attach(pg__io *io, int64_t fapl)
{
    const driver_info info = {io};
    const hid_t driver = H5FDregister(&source_driver);
    if (driver < 0)
        return -1;
    if (H5Pset_driver(fapl, driver, &info) < 0) {
        (void)H5FDunregister(driver);
        return -1;
    }
    return driver;
}
