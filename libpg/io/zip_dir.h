/* zip_dir.h - the directory of a ZIP archive, believed only after every entry has been compared
 * with its local header. Section numbers in zip_dir.c and zip_end.c refer to PKWARE's APPNOTE
 * 6.3.10. */
#ifndef PG_IO_ZIP_DIR_H
#define PG_IO_ZIP_DIR_H

#include "io/zip.h"

typedef struct pg__zip_dir {
    pg__zip_member *members; /* in directory order */
    size_t n;
    size_t *by_name; /* member numbers, sorted by name */
    char *names;     /* what the members' names point into */
} pg__zip_dir;

pg_status pg__zip_dir_read(pg__zip_dir *out, pg__io *io, pg_err *err);
void pg__zip_dir_fini(pg__zip_dir *d);

/* Where the directory is, according to the end records; only these records follow it. */
typedef struct pg__zip_end {
    uint64_t n, off, n_bytes;
} pg__zip_end;

pg_status pg__zip_end_read(pg__zip_end *out, pg__io *io, pg_err *err);

#endif
