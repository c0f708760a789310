/* scratch.h - files without a name, for what is unpacked once and read often. */
#ifndef PG_IO_SCRATCH_H
#define PG_IO_SCRATCH_H

#include "io/io.h"

/* An empty one in $TMPDIR or /tmp; *where is that folder, for messages. */
pg_status pg__scratch_open(int *fd, const char **where, pg_err *err);

/* All n bytes at the end of it; PG_E_IO with errno set. */
pg_status pg__scratch_write(int fd, const char *p, size_t n);

/* What the gzip file `in` holds (RFC 1952; several members follow each other), as an io. Messages
 * do not name the file. PG_E_FORMAT if it is damaged or ends too early. */
pg_status pg__gunzip(pg__io **out, pg__io *in, pg_err *err);

#endif
