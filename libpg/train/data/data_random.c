/* data_random.c - made-up rows of 0 and 1, without a file. Any input takes both, even one of ids.
 */
#include "train/data/data_random.h"
#include "base/mem.h"
#include "base/philox.h"
#include "base/str.h"
#include "base/try.h"
#include "train/data/data.h"

#define OPEN_DIM 32 /* for dimensions that the model leaves open */

typedef struct made_up {
    uint64_t n_rows, seed;
} made_up;

static int claims(const unsigned char *head, size_t n)
{
    (void)head, (void)n;
    return 0;
}

static pg_status read_rows(const pg__array *a, uint64_t first, uint64_t n, void *raw, pg_err *err)
{
    const made_up *m = a->self;
    const uint64_t row = pg__array_row_elems(a);
    float *out = raw;
    (void)err;
    for (uint64_t i = 0; i < n * row; i++)
        out[i] = pg__uniform(m->seed, first * row + i, 0, (uint32_t)a->at) < 0.5f ? 0 : 1;
    return PG_OK;
}

static pg_status bind(pg_data *d, void *state, const pg__ends *ends, pg_err *err)
{
    const made_up *m = state;
    pg_status st = PG_OK;
    pg__data_drop(d);
    for (size_t k = 0; k < ends->n_inputs; k++) {
        pg__str key = {0};
        pg__array a = {.dtype = PG_F32, .read = read_rows, .self = state, .at = k};
        PG_TRY(pg__str_printf(&key, err, "x%zu", k));
        a.key = key.s;
        a.dims = ends->input_dims[k];
        a.dims.d[0] = m->n_rows;
        for (uint32_t i = 1; i < a.dims.rank; i++)
            if (a.dims.d[i] == PG_DIM_ANY)
                a.dims.d[i] = OPEN_DIM;
        PG_TRY(pg__data_add(d, &a, err));
    }
done:
    return st;
}

pg_status pg__random_rows(void **state, uint64_t n_rows, uint64_t seed, pg_err *err)
{
    made_up *m = pg__mem_array(1, sizeof *m);
    if (!m)
        return pg__nomem(err);
    *m = (made_up){n_rows, seed};
    *state = m;
    return PG_OK;
}

static pg_status no_file(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err)
{
    (void)d, (void)io, (void)state;
    return pg_fail(err, PG_E_UNKNOWN, "%s: is a file", PG_SHOW(path));
}

const pg__source pg__source_random = {
    .name = "made up", .claims = claims, .open = no_file, .bind = bind, .close = pg__mem_free};
