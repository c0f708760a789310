/* h5_memory.h - a file driver for libhdf5 whose file is in memory. Only pages that were written
 * exist, so a file of many gigabytes costs no more than its metadata. It may start with the
 * contents of another file, which is only read.
 *
 * Identifiers of libhdf5 (hid_t) are passed as int64_t: <hdf5.h> stays inside the sources of
 * format/h5. */
#ifndef PG_FORMAT_H5_H5_MEMORY_H
#define PG_FORMAT_H5_H5_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "io/io.h"

#define PG_H5_PAGE 4096u

typedef struct pg__h5_page {
    uint64_t no; /* starts at byte no * PG_H5_PAGE of the file */
    unsigned char *bytes;
} pg__h5_page;

typedef struct pg__h5_memory {
    pg__io *base;      /* visible where no page was written; borrowed; NULL: zeros */
    uint64_t base_end; /* so far */
    uint64_t keep;     /* writes to pages before this byte are dropped */
    pg_err unread;     /* code != PG_OK: the base could not be read */
    pg__h5_page *pages;
    size_t n_pages, cap_pages;
    uint32_t *slots; /* open addressing: page index + 1, 0 = free; n_slots is a power of two */
    size_t n_slots;
    uint64_t end; /* size of the file once libhdf5 closed it */
    int failed;   /* an allocation failed; later writes are lost */
} pg__h5_memory;

/* Makes the file access list fapl use m, which must outlive every file opened through it. m starts
 * as {0}, or with a base and `end`, the size with which the file begins. Returns the driver's
 * identifier, to be released with H5FDunregister(), or -1. */
int64_t pg__h5_memory_attach(pg__h5_memory *m, int64_t fapl);

/* Bytes as libhdf5 would see them and write them. Both return 0, or -1 with the reason in m. */
int pg__h5_memory_read(pg__h5_memory *m, uint64_t off, void *buf, size_t n);
int pg__h5_memory_write(pg__h5_memory *m, uint64_t off, const void *p, size_t n);

/* Sorts the pages in ascending order, for writing them out; afterwards only pages, end and
 * pg__h5_memory_fini() may be used. */
void pg__h5_memory_sort(pg__h5_memory *m);

void pg__h5_memory_fini(pg__h5_memory *m);

#endif
