/* fuzz_data.c - any bytes as training data: CSV, IDX, .npy, .npz or HDF5, found by content, bound
 * to a model with two inputs and one output, the first rows and the last read. What is packed with
 * gzip goes through a file on disk and is left out. */
#include <stdlib.h>
#include <string.h>

#include "train/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MOST_ELEMS 4096 /* of a row that is read */

static void read_rows(const pg__array *a)
{
    static double values[2 * MOST_ELEMS];
    const uint64_t n = a->dims.d[0], elems = pg__array_row_elems(a);
    const uint64_t rows[] = {0, n - 1};
    pg_err err = {0};
    if (n == 0 || elems > MOST_ELEMS)
        return;
    for (pg__cast cast = PG_AS_F32; cast <= PG_AS_I32; cast++)
        if (pg__array_read(a, rows, n > 1 ? 2 : 1, cast, values, NULL, &err) != PG_OK &&
            (!err.code || !err.msg[0] || strchr(err.msg, '\n')))
            abort();
}

static void use(pg_data *d)
{
    static const char *const inputs[] = {"a", "b"}, *const outputs[] = {"c"};
    static const pg__dims dims[] = {{.rank = 2, .d = {PG_DIM_ANY, 1}},
                                    {.rank = 2, .d = {PG_DIM_ANY, 2}}};
    static const pg__ends ends = {.n_inputs = 2,
                                  .n_outputs = 1,
                                  .input_names = inputs,
                                  .output_names = outputs,
                                  .input_dims = dims};
    static const char *const keys[] = {"x0", "x1", "y0", "w0"};
    pg_err err = {0};
    if (pg__data_bind(d, &ends, &err) != PG_OK) {
        if (!err.code || !err.msg[0] || strchr(err.msg, '\n'))
            abort();
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const pg__array *a = pg__data_find(d, keys[i]);
        if (a)
            read_rows(a);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg_err err = {0};
    pg__io *io = NULL;
    pg_data *d = NULL;
    if (n < 2 || (data[0] == 0x1f && data[1] == 0x8b))
        return 0;
    if (pg__io_open_mem(&io, data, n, &err) != PG_OK)
        return 0;
    if (pg__data_open_io(&d, io, &err) == PG_OK)
        use(d);
    else if (!err.code || !err.msg[0] || strchr(err.msg, '\n') || d)
        abort();
    pg_data_close(d);
    pg__io_close(io);
    return 0;
}
