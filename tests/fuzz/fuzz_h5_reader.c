/* fuzz_h5_reader.c - any bytes as an HDF5 file: open, walk everything, read everything. */
#include <stdlib.h>
#include <string.h>

#include "format/h5/h5_reader.h"
#include "keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define PIECE 4099 /* odd, so that pieces cross chunks and elements everywhere */

/* Sums up all that is handed out, so that a wrong pointer or length is touched. */
static size_t touch_attrs(const pg__h5 *h, uint32_t obj)
{
    size_t sum = 0;
    for (uint32_t k = 0; k < pg__h5_at(h, obj)->n_attrs; k++) {
        const pg__h5_attr *a = pg__h5_attr_at(h, obj, k);
        if (!pg__h5_attr_find(h, obj, a->name))
            abort();
        for (uint64_t i = 0; a->strs && i < a->n_elems; i++)
            if (a->strs[i][a->lens[i]])
                abort();
        for (uint64_t i = 0; a->raw && i < a->n_elems * a->type.size; i++)
            sum += ((const uint8_t *)a->raw)[i];
    }
    return sum;
}

static void check_names(const pg__h5 *h, uint32_t obj)
{
    char path[300];
    const pg__h5_object *o = pg__h5_at(h, obj);
    pg__h5_path(h, obj, path, sizeof path);
    for (uint32_t k = 0; k < o->n_children; k++) {
        const uint32_t child = pg__h5_child(h, obj, k);
        const pg__h5_object *c = pg__h5_at(h, child);
        const int dots = !strcmp(c->name, "..");
        if (c->parent != obj || pg__h5_find(h, obj, c->name) != (dots ? PG_H5_NONE : child))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t buf[PIECE];
    pg_err err = {0};
    pg__io *io = NULL;
    pg__h5 *h = NULL;
    if (pg__io_open_mem(&io, data, n, &err) != PG_OK)
        return 0;
    if (pg__h5_open(&h, io, &err) != PG_OK && (!err.code || !err.msg[0]))
        abort();
    if (h)
        keep(data, n);
    for (uint32_t i = 0; h && i < pg__h5_n(h); i++) {
        const pg__h5_object *o = pg__h5_at(h, i);
        (void)*(volatile size_t *)&(size_t){touch_attrs(h, i)};
        check_names(h, i);
        for (uint64_t off = 0; o->kind == PG_H5_DATASET && off < o->n_bytes; off += PIECE) {
            const uint64_t left = o->n_bytes - off;
            if (pg__h5_read(h, i, off, buf, left < PIECE ? (size_t)left : PIECE, &err) != PG_OK)
                break;
        }
    }
    pg__h5_close(h);
    pg__io_close(io);
    return 0;
}
