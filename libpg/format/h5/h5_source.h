/* h5_source.h - a file driver for libhdf5 that reads from a pg__io and never writes.
 *
 * Identifiers of libhdf5 (hid_t) are passed as int64_t: <hdf5.h> stays inside format/h5/*.c. */
#ifndef PG_FORMAT_H5_H5_SOURCE_H
#define PG_FORMAT_H5_H5_SOURCE_H

#include "io/io.h"

/* Makes the file access list fapl read from io, which must outlive every file opened through it.
 * Returns the driver's identifier, to be released with H5FDunregister(), or -1. */
int64_t pg__h5_source_attach(pg__io *io, int64_t fapl);

#endif
