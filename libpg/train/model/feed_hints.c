/* feed_hints.c - notes on data that are valid but seldom intended. */
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/model/feed.h"

enum { LOOKED_AT = 64 }; /* rows */

/* Does a layer scale the input? Functions between layers are not inspected. */
static int scales(const pg_trainer *t)
{
    static const char *const classes[] = {
        "Rescaling",       "Normalization", "Lambda", "TFOpLambda", "TensorFlowOpLayer",
        "SlicingOpLambda", "TrueDivide",    "Divide", "Multiply"};
    for (size_t i = 0; i < t->net.leaves.n; i++)
        if (PG_IS_ANY(t->net.leaves.v[i].layer->class_name, classes))
            return 1;
    return 0;
}

/* Is any of the first numbers above 1? */
static pg_status exceeds_one(int *out, const pg__array *a, pg_err *err)
{
    const uint64_t n = a->dims.d[0] < LOOKED_AT ? a->dims.d[0] : LOOKED_AT;
    const size_t n_elems = (size_t)(n * pg__array_row_elems(a));
    uint64_t rows[LOOKED_AT];
    pg_status st = PG_OK;
    int32_t *v = pg__mem_array(n_elems, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (uint64_t i = 0; i < n; i++)
        rows[i] = i;
    PG_TRY(pg__array_read(a, rows, (size_t)n, PG_AS_I32, v, NULL, err));
    for (size_t i = 0; i < n_elems; i++)
        *out |= v[i] > 1;
done:
    pg__mem_free(v);
    return st;
}

pg_status pg__feed_hint_scale(const pg__feed *f, pg_data *data, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < f->t->net.n_inputs && !scales(f->t); k++) {
        const pg__slot *s = &f->inputs[k];
        int to_255 = s->array->names_files; /* pictures */
        if (s->cast == PG_AS_I32 || s->array->dims.rank < 3 ||
            (s->array->dtype != PG_U8 && !to_255))
            continue;
        if (!to_255)
            PG_TRY(exceeds_one(&to_255, s->array, err));
        if (to_255)
            PG_TRY(pg__data_note(data, err,
                                 "%s: values of input \"%s\" go to 255, and no layer scales them "
                                 "(as in Keras): a Rescaling layer would",
                                 PG_SHOW(pg__data_path(data)), PG_SHOW(s->layer)));
    }
done:
    return st;
}
