/* sink_impl.h - shared by sink.c and sink_copy.c. */
#ifndef PG_IO_SINK_IMPL_H
#define PG_IO_SINK_IMPL_H

#include <limits.h>
#include <sys/types.h>

#include "base/str.h"
#include "io/sink.h"

#define PG_SINK_NAME 255 /* NAME_MAX of Linux file systems */
#define PG_SINK_KERNEL_BYTES                                            \
    ((uint64_t)16 << 20) /* per call, so that a cancel is heard between \
                          */

struct pg__sink {
    pg__sink_opts opts;
    int dir, fd;
    char folder[PATH_MAX];         /* that dir is */
    char shown[sizeof(pg__shown)]; /* path as given, for messages */
    char name[PG_SINK_NAME + 1];   /* of the output, in dir */
    char tmp[PG_SINK_NAME + 1];    /* of the temporary; "" once it is gone or renamed */
    mode_t mode;                   /* that the output gets */
    uint64_t size;                 /* highest byte written */
    uint64_t allocated;            /* size the file may have from pg__sink_reserve() */
    int broken;                    /* a write failed: this output must never be committed */
    int no_clone;                  /* the file system declined once */
    int late;                      /* errno of a failure, for the next write to report */
    unsigned char *buf;            /* PG_COPY_BYTES, allocated on first use */
};

/* PG_E_CANCELLED, with the sink broken, once the caller wants to stop. */
pg_status pg__sink_check_cancel(pg__sink *s, pg_err *err);

/* Cuts or extends a file, despite signals; 0 or an errno. */
int pg__sink_resize(int fd, uint64_t n_bytes);

/* The checks common to all calls that put n bytes at off. */
pg_status pg__sink_begin(pg__sink *s, uint64_t off, uint64_t n, pg_err *err);

/* Writes all of p after them. */
pg_status pg__sink_put(pg__sink *s, uint64_t off, const unsigned char *p, size_t n, pg_err *err);

#endif
