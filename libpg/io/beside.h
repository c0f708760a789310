/* beside.h - many files in the folder of another one. Once many were missing, the folder is listed:
 * an index can name any number of files, and a try costs a system call. */
#ifndef PG_IO_BESIDE_H
#define PG_IO_BESIDE_H

#include "base/str.h"
#include "io/io.h"

/* Starts as {.folder = -1}. */
typedef struct pg__beside {
    int folder;
    const char *path; /* of the other file, borrowed */
    pg__strs there;   /* once it is listed: sorted */
    size_t n_missing;
} pg__beside;

/* Opens the folder. Messages start with the path. */
pg_status pg__beside_start(pg__beside *b, const char *path, pg_err *err);

/* As pg__io_open_beside(); a file that is not there sets *gone as well, with PG_E_IO. */
pg_status pg__beside_open(pg__io **out, pg__beside *b, const char *name, int *gone, pg_err *err);

void pg__beside_fini(pg__beside *b);

#endif
