/* fuzz_keras_zip.c - any bytes as a .keras archive, and as the file of weights in it: open, read
 * all, lay out a copy. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/fmt_keras_v3.h"
#include "keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Laying out copies takes time: while there are mutants, one time in eight. The bytes decide, so that
 * a find is found again. */
#define ONE_IN 8

static void lay_out(pg_store *s)
{
    pg_err err = {0};
    pg__plan copy = {0}, lifted = {0};
    pg__v3_image *m = NULL;
    if (pg__plan_copy_of(&copy, s, &err) != PG_OK)
        abort();
    if (pg__v3_image_new(&m, &copy, NULL, &err) != PG_OK && !err.msg[0])
        abort();
    pg__v3_image_free(m);
    m = NULL;
    if (pg_store_n_layers(s) &&
        pg__v3_lift(&lifted, s, pg_store_layer(s, 0)->name, &err) == PG_OK &&
        pg__v3_image_new(&m, &lifted, NULL, &err) == PG_OK)
        pg__v3_image_free(m);
    pg__plan_fini(&copy);
    pg__plan_fini(&lifted);
}

/* Everything that a tool does with a store, but for the files that it writes. */
static void use(pg_store *s, const uint8_t *data, size_t n)
{
    static uint8_t buf[4096];
    pg_err err = {0};
    for (size_t i = 0; i < pg__store_n_tensors(s); i++) {
        const uint64_t k = pg__store_tensor(s, i)->n_bytes;
        (void)pg__store_read_raw(s, i, 0, buf, k < sizeof buf ? k : sizeof buf, &err);
    }
    for (size_t i = 0; i < pg_store_n_layers(s); i++)
        (void)pg__v3_layer_name(s, i);
    if (!mutate_keep || pg__crc32(0, data, n) % ONE_IN == 0)
        lay_out(s);
}

static void try_format(const pg__format *f, const uint8_t *data, size_t n)
{
    pg_err err = {0};
    pg__io *io = NULL;
    pg_store *s = NULL;
    if (pg__io_open_mem(&io, data, n, &err) != PG_OK)
        abort();
    if (f->open(&s, io, NULL, NULL, &err) == PG_OK)
        keep(data, n), use(s, data, n);
    else if (!err.code || !err.msg[0])
        abort();
    pg_store_close(s);
    pg__io_close(io);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    try_format(&pg__fmt_keras_zip, data, n);
    try_format(&pg__fmt_keras_v3, data, n);
    return 0;
}
