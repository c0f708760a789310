/* append.h - files that grow while a run goes on and that others read meanwhile: logs, events.
 *
 * Records are collected in `pending` and go to the file together. The file is opened by its name
 * each time, so that a removed folder or a lost permission is noticed; what could not be written
 * stays in `pending` for the next try. A write that fails half way leaves nothing; if one was
 * killed, pg__append_resume() cuts off what it left. */
#ifndef PG_IO_APPEND_H
#define PG_IO_APPEND_H

#include "base/str.h"

typedef struct pg__append {
    char *path;       /* NULL: not started */
    uint64_t n_bytes; /* of the file: whole records */
    pg__str pending;  /* records after them */
} pg__append;

typedef enum pg__append_how {
    PG_APPEND_NEW,  /* an existing file is an error: err->sys is EEXIST */
    PG_APPEND_OVER, /* its contents are dropped */
    PG_APPEND_ON    /* new records follow them */
} pg__append_how;

/* Creates or opens the file; nothing is written yet, and `pending` stays as it is. PG_E_IO. */
pg_status pg__append_open(pg__append *a, const char *path, pg__append_how how, pg_err *err);

/* Writes the pending records. PG_E_IO: all of them are still pending, and the file is as long as
 * before; err->sys is ENOENT if the file is gone or shorter than it was. */
pg_status pg__append_flush(pg__append *a, pg_err *err);

/* Continues the file `path`, of which n_bytes count: cuts it back to them. PG_E_IO as above. */
pg_status pg__append_resume(pg__append *a, pg_err *err);

void pg__append_fini(pg__append *a);

#endif
