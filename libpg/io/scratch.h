/* scratch.h - files without a name, for data that is unpacked once and read often. */
#ifndef PG_IO_SCRATCH_H
#define PG_IO_SCRATCH_H

#include "io/io.h"

/* Creates an empty one in $TMPDIR or /tmp; *where is that folder, for messages. */
pg_status pg__scratch_open(int *fd, const char **where, pg_err *err);

/* Appends all n bytes; PG_E_IO with errno set. */
pg_status pg__scratch_write(int fd, const char *p, size_t n);

/* The contents of the gzip file `in` (RFC 1952; several members may follow each other), as an io.
 * Messages do not name the file. PG_E_FORMAT if it is damaged or ends too early. */
pg_status pg__gunzip(pg__io **out, pg__io *in, pg_err *err);

#endif
