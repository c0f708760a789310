/* file.c - the sink for other programs: bytes in order, written in pieces of 256 KiB. */
#include "pg/file.h"

#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/sink.h"

struct pg_file {
    pg__sink *sink;
    pg__io *input;
    uint64_t at; /* bytes handed to the sink */
    size_t n;    /* bytes in buf */
    unsigned char buf[PG_COPY_BYTES];
};

/* An input that is not a regular file (a folder of shards) cannot be replaced by one. */
static pg_status open_input(pg_file *f, const char *path, pg_err *err)
{
    struct stat sb;
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode))
        return PG_OK;
    return pg__io_open(&f->input, path, err);
}

pg_status pg_file_create(pg_file **out, const char *path, const pg_file_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    pg__sink_opts o = {0};
    pg_file *f = path ? pg__mem_array(1, sizeof *f) : NULL;
    if (!f)
        return path ? pg__nomem(err) : pg_fail(err, PG_E_ARG, "the output has no name");
    if (opts && opts->input)
        PG_TRY(open_input(f, opts->input, err));
    if (opts) {
        o.force = opts->force;
        o.no_sync = opts->no_sync;
        o.cancel = opts->cancel;
    }
    o.input = f->input;
    PG_TRY(pg__sink_open(&f->sink, path, &o, err));
    *out = f;
    f = NULL;
done:
    pg_file_close(f);
    return st;
}

static pg_status flush(pg_file *f, pg_err *err)
{
    const pg_status st = pg__sink_write(f->sink, f->at, f->buf, f->n, err);
    if (st == PG_OK) {
        f->at += f->n;
        f->n = 0;
    }
    return st;
}

pg_status pg_file_write(pg_file *f, const void *p, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    for (const unsigned char *from = p; n > 0;) {
        if (f->n == sizeof f->buf)
            PG_TRY(flush(f, err));
        const size_t room = sizeof f->buf - f->n, now = n < room ? n : room;
        memcpy(f->buf + f->n, from, now);
        f->n += now;
        from += now;
        n -= now;
    }
done:
    return st;
}

pg_status pg_file_commit(pg_file *f, uint64_t *n_bytes, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(flush(f, err));
    PG_TRY(pg__sink_commit(f->sink, err));
    if (n_bytes)
        *n_bytes = f->at;
done:
    return st;
}

void pg_file_close(pg_file *f)
{
    if (!f)
        return;
    pg__sink_close(f->sink);
    pg__io_close(f->input);
    pg__mem_free(f);
}
