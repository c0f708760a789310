/* fuzz_store.h - what every tool does with a file: open it as one format, read all that it says and
 * all of its data, in pieces that cut elements. */
#ifndef PG_FUZZ_STORE_H
#define PG_FUZZ_STORE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "keep.h"

#define FUZZ_PIECE 4099
#define FUZZ_MOST  ((uint64_t)1 << 20) /* bytes read of one tensor */

static inline void fuzz_read_tensor(pg_store *s, size_t i)
{
    static uint8_t buf[FUZZ_PIECE];
    pg_err err = {0};
    const pg_weight *w = pg_store_weight(s, i);
    const uint64_t n = w->n_bytes < FUZZ_MOST ? w->n_bytes : FUZZ_MOST;
    for (uint64_t off = 0; off < n; off += FUZZ_PIECE) {
        const size_t k = n - off < FUZZ_PIECE ? (size_t)(n - off) : FUZZ_PIECE;
        if (pg_store_read(s, i, off, buf, k, &err) != PG_OK) {
            if (!err.code || !err.msg[0])
                abort();
            break;
        }
    }
}

/* Opens and reads; the messages of failures must be one line. */
static inline void fuzz_open(const pg__format *f, const uint8_t *data, size_t n, const char *path)
{
    static const pg_open_opts opts = {0};
    pg_err err = {0};
    pg__io *io = NULL;
    pg_store *s = NULL;
    if (pg__io_open_mem(&io, data, n, &err) != PG_OK)
        return;
    if (f->open(&s, io, path, &opts, &err) != PG_OK) {
        if (!err.code || !err.msg[0] || strchr(err.msg, '\n') || s)
            abort();
    }
    if (s)
        keep(data, n);
    size_t sum = s ? strlen(pg_store_format(s)) : 0;
    for (size_t i = 0; s && i < pg_store_n_weights(s) && i < 64; i++) {
        sum += strlen(pg_store_weight(s, i)->name);
        fuzz_read_tensor(s, i);
    }
    (void)*(volatile size_t *)&sum;
    pg_store_close(s);
    pg__io_close(io);
}

#endif
