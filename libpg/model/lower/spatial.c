/* spatial.c - shared by the families of layers over images. Padding follows TensorFlow's rule,
 * which all generations of Keras use on that back end. */
#include "model/lower/spatial.h"

#include <string.h>

#include "base/try.h"

int pg__is_channels_first(const pg__layer *l)
{
    const char *format = pg__json_get_str(l->config, "data_format");
    const char *ordering = pg__json_get_str(l->config, "dim_ordering");
    return (format && strcmp(format, "channels_first") == 0) ||
           (ordering && strcmp(ordering, "th") == 0);
}

uint32_t pg__spatial_rank(const char *class_name)
{
    const char *p = strpbrk(class_name, "123");
    return p ? (uint32_t)(*p - '0') : 2;
}

pg_status pg__lower_transpose(pg__lowering *lw, pg__val x, const uint32_t *perm, pg__val *out,
                              pg_err *err)
{
    pg__transpose_attrs a = {.perm = {0}};
    for (uint32_t i = 0; i < pg__dims_at(lw, x)->rank; i++)
        a.perm[i] = perm[i];
    return pg__emit1(&lw->to->tape, PG_OP_transpose, &a, x, out, err);
}

pg_status pg__to_channels_last(pg__lowering *lw, const pg__layer *l, uint32_t rank, pg__val x,
                               pg__val *out, pg_err *err)
{
    const pg__dims *s = pg__dims_at(lw, x);
    uint32_t perm[PG_MAX_RANK] = {0};
    *out = x;
    if (s->rank != rank + 2)
        return pg_fail(err, PG_E_MISMATCH, "input %s does not have %u spatial dimensions",
                       PG_SHAPE(s), rank);
    if (!pg__is_channels_first(l))
        return PG_OK;
    for (uint32_t i = 1; i <= rank; i++)
        perm[i] = i + 1;
    perm[rank + 1] = 1;
    return pg__lower_transpose(lw, x, perm, out, err);
}

pg_status pg__from_channels_last(pg__lowering *lw, const pg__layer *l, pg__val y, pg__val *out,
                                 pg_err *err)
{
    const uint32_t rank = pg__dims_at(lw, y)->rank;
    uint32_t perm[PG_MAX_RANK] = {0};
    *out = y;
    if (!pg__is_channels_first(l))
        return PG_OK;
    perm[1] = rank - 1;
    for (uint32_t i = 2; i < rank; i++)
        perm[i] = i - 1;
    return pg__lower_transpose(lw, y, perm, out, err);
}

pg_status pg__config_padding(pg__padding *out, const pg__layer *l, pg_err *err)
{
    const char *key = pg__config_has(l, "border_mode") ? "border_mode" : "padding";
    const char *name = pg__config_has(l, key) ? pg__json_get_str(l->config, key) : "valid";
    if (name && strcmp(name, "valid") == 0)
        *out = PG_PAD_VALID;
    else if (name && strcmp(name, "same") == 0)
        *out = PG_PAD_SAME;
    else if (name && strcmp(name, "causal") == 0)
        *out = PG_PAD_CAUSAL;
    else
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: \"%s\" must be one of valid, same, causal",
                       PG_SHOW(l->name), key);
    return PG_OK;
}

void pg__pad_same(uint64_t size, uint64_t reach, uint64_t stride, uint64_t *before, uint64_t *after)
{
    *before = *after = 0;
    if (size == PG_DIM_ANY || size == 0)
        return;
    const uint64_t spanned = (size - 1) / stride * stride + reach;
    const uint64_t added = spanned > size ? spanned - size : 0;
    *before = added / 2;
    *after = added - *before;
}

pg_status pg__config_dims_or(uint64_t *out, size_t n, const pg__layer *l, const char *key,
                             uint64_t fallback, pg_err *err)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fallback;
    return pg__config_has(l, key) ? pg__config_dim_list(out, n, l, key, err) : PG_OK;
}

pg_status pg__config_rate(double *out, const pg__layer *l, const char *key, pg_err *err)
{
    const pg_status st = pg__config_num_or(out, l, l->config, key, 0, err);
    if (st == PG_OK && !(*out >= 0 && *out < 1))
        return pg_fail(err, PG_E_FORMAT, "%s: \"%s\" is not in [0, 1)", PG_SHOW(l->name), key);
    return st;
}

pg_status pg__config_cells(uint64_t *out, size_t n, const pg__layer *l, const char *key,
                           pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, key);
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY;
    for (size_t i = 0; i < n; i++) {
        int64_t v = 0;
        out[i] = 0;
        if (!pg__config_has(l, key))
            continue;
        if ((is_list && pg__json_len(j) != n) ||
            !pg__json_int(is_list ? pg__json_at(j, i) : j, &v) || v < 0 || v > INT32_MAX)
            return pg_fail(err, PG_E_FORMAT, "%s: \"%s\" is not a list of %zu numbers of cells",
                           PG_SHOW(l->name), key, n);
        out[i] = (uint64_t)v;
    }
    return PG_OK;
}

pg_status pg__config_num_or(double *out, const pg__layer *l, const pg__json *config,
                            const char *key, double fallback, pg_err *err)
{
    const pg__json *j = pg__json_get(config, key);
    *out = fallback;
    if (pg__json_type_of(j) <= PG_J_NULL || pg__json_num(j, out))
        return PG_OK;
    return pg_fail(err, PG_E_FORMAT, "%s: \"%s\" is not a number", PG_SHOW(l->name), key);
}

pg_status pg__config_axis(uint32_t *out, const pg__layer *l, const char *key, int64_t fallback,
                          uint32_t rank, pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, key);
    int64_t axis = fallback;
    if (pg__json_type_of(j) == PG_J_ARRAY && pg__json_len(j) == 1)
        j = pg__json_at(j, 0);
    if (pg__json_type_of(j) > PG_J_NULL && !pg__json_int(j, &axis))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: \"%s\" is not a single axis", PG_SHOW(l->name),
                       key);
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank)
        return pg_fail(err, PG_E_MISMATCH, "\"%s\" is not an axis of an input with %u dimensions",
                       key, rank);
    *out = (uint32_t)axis;
    return PG_OK;
}
