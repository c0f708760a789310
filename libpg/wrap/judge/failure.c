/* failure.c - what is known of a file that no reader opened: pg_failure_verdict() and
 * pg_failure_container(). */
#include <string.h>

#include "io/io.h"
#include "pg/inspect.h"

pg_verdict pg_failure_verdict(pg_status failure)
{
    return failure == PG_E_FORMAT || failure == PG_E_LIMIT ? PG_V_DAMAGED : PG_V_UNKNOWN;
}

static int is_at(pg__io *io, uint64_t off, const char *magic, size_t n)
{
    char head[8];
    return pg__io_size(io) >= n && off <= pg__io_size(io) - n &&
           pg__io_read(io, off, head, n, NULL) == PG_OK && memcmp(head, magic, n) == 0;
}

/* The signature of HDF5 may follow a user block of 512, 1024, 2048, ... bytes. */
const char *pg_failure_container(const char *path, pg_status failure)
{
    const char *word = NULL;
    pg__io *io = NULL;
    if (pg__io_open(&io, path, NULL) != PG_OK)
        return NULL;
    for (uint64_t off = 0; off <= UINT64_C(1) << 20 && !word; off = off ? 2 * off : 512)
        if (is_at(io, off, "\x89HDF\r\n\x1a\n", 8))
            word = "hdf5";
    if (is_at(io, 0, "PK\x03\x04", 4))
        word = failure == PG_E_UNSUPPORTED ? "pytorch-zip" : "zip";
    else if (is_at(io, 0, "\x93NUMPY", 6))
        word = "npy";
    pg__io_close(io);
    return word;
}
