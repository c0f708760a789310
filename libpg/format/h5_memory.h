/* h5_memory.h - a file driver for libhdf5 whose file is memory: only pages that were written exist,
 * so that a file of many gigabytes costs no more than its metadata.
 *
 * Identifiers of libhdf5 (hid_t) travel as int64_t: <hdf5.h> stays inside format/h5_*.c. */
#ifndef PG_FORMAT_H5_MEMORY_H
#define PG_FORMAT_H5_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

#define PG_H5_PAGE 4096u

typedef struct pg__h5_page {
    uint64_t no; /* starts at byte no * PG_H5_PAGE of the file */
    unsigned char *bytes;
} pg__h5_page;

typedef struct pg__h5_memory {
    pg__h5_page *pages;
    size_t n_pages, cap_pages;
    uint32_t *slots; /* open addressing: page index + 1, 0 = free; n_slots is a power of two */
    size_t n_slots;
    uint64_t end; /* size of the file once libhdf5 closed it */
    int failed;   /* an allocation failed; what was written since is lost */
} pg__h5_memory;

/* Makes the file access list fapl use m, which must outlive every file opened through it and starts
 * as {0}. Returns the driver's identifier, to be released with H5FDunregister(), or -1. */
int64_t pg__h5_memory_attach(pg__h5_memory *m, int64_t fapl);

/* Puts the pages into ascending order, for writing them out; nothing may use m afterwards but
 * pages, end and pg__h5_memory_fini(). */
void pg__h5_memory_sort(pg__h5_memory *m);

void pg__h5_memory_fini(pg__h5_memory *m);

#endif
