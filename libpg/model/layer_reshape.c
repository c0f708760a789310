/* layer_reshape.c - layers that give the same elements another shape: Flatten, Reshape. */
#include "base/try.h"
#include "model/layers.h"

static int is_channels_first(const pg__layer *l)
{
    const char *format = pg__json_get_str(l->config, "data_format");
    return format && format[0] == 'c' && format[9] == 'f';
}

/* (rows, product of the rest); channels_first inputs would be transposed first. */
pg_status pg__lower_flatten(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    const pg__dims *x = pg__dims_at(lw, in[0]);
    pg__dims to = {.rank = 2, .d = {x->rank > 0 ? x->d[0] : 1, 1}};
    if (is_channels_first(l) && x->rank > 2)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: Flatten of channels_first inputs", PG_SHOW(l->name));
    for (uint32_t i = 1; i < x->rank; i++)
        to.d[1] = pg__dim_mul(to.d[1], x->d[i]);
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, in[0], &to, &out->v[0], err));
done:
    return st;
}

/* target_shape without the batch; one -1 takes what is left. */
pg_status pg__lower_reshape_layer(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    const pg__json *target = pg__json_get(l->config, "target_shape");
    const size_t n = pg__json_len(target);
    uint64_t known = 1, total = 1;
    size_t free_at = SIZE_MAX;
    pg__dims to = {.rank = 1 + (uint32_t)n};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    const pg__dims *x = pg__dims_at(lw, in[0]);
    if (pg__json_type_of(target) != PG_J_ARRAY || n >= PG_MAX_RANK || x->rank < 1)
        PG_FAIL(PG_E_FORMAT, "%s: \"target_shape\" is not a list of at most %d numbers",
                PG_SHOW(l->name), PG_MAX_RANK - 1);
    to.d[0] = x->d[0];
    for (uint32_t i = 1; i < x->rank; i++)
        total = pg__dim_mul(total, x->d[i]);
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        if (!pg__json_int(pg__json_at(target, i), &v) || v < -1 || (v < 0 && free_at != SIZE_MAX))
            PG_FAIL(PG_E_FORMAT, "%s: \"target_shape\" holds no sizes", PG_SHOW(l->name));
        if (v < 0)
            free_at = i;
        else
            known = pg__dim_mul(known, to.d[i + 1] = (uint64_t)v);
    }
    if (free_at != SIZE_MAX)
        to.d[free_at + 1] =
            total == PG_DIM_ANY || known == 0 || total % known ? PG_DIM_ANY : total / known;
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, in[0], &to, &out->v[0], err));
done:
    return st;
}
