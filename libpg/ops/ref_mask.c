/* ref_mask.c - making masks and applying them. */
#include "ops/real.h"

void PG_REF(mask_ids)(PG_REF_ARGS)
{
    const int32_t *ids = in[0].p;
    real *mask = pg__reals_out(&out[0]);
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t i = 0; i < in[0].n; i++)
        mask[i] = ids[i] != 0;
}

void PG_REF(mask_steps)(PG_REF_ARGS)
{
    const pg__mask_attrs *a = attrs_;
    const size_t rows = pg__rows(&in[0]), n = pg__last(in[0].shape);
    const real *x = pg__reals(&in[0]), value = (real)a->value;
    real *mask = pg__reals_out(&out[0]);
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (size_t r = 0; r < rows; r++, x += n) {
        int any = 0;
        for (size_t k = 0; k < n; k++)
            any |= x[k] != value;
        mask[r] = (real)any;
    }
}

/* y = x mask, each element of the mask for as many elements of x as belong to it; x missing: 1 */
static void scale(const pg__arg *x_, const pg__arg *mask_, const pg__arg *y_)
{
    const real *x = pg__reals(x_), *mask = pg__reals(mask_);
    real *y = pg__reals_out(y_);
    const uint64_t each = mask_->n > 0 ? y_->n / mask_->n : 0;
    for (uint64_t r = 0; r < mask_->n; r++)
        for (uint64_t k = r * each; k < (r + 1) * each; k++)
            y[k] = mask[r] == 0 ? 0 : x ? x[k] * mask[r] : mask[r];
}

void PG_REF(mask_rows)(PG_REF_ARGS)
{
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    scale(&in[0], &in[1], &out[0]);
}

void PG_REF(mask_weights)(PG_REF_ARGS)
{
    PG_UNUSED(attrs_), PG_UNUSED(n_in), PG_UNUSED(n_out);
    scale(&in[0], &in[1], &out[0]);
}

void PG_REF(cast)(PG_REF_ARGS)
{
    const pg__cast_attrs *a = attrs_;
    PG_UNUSED(n_in), PG_UNUSED(n_out);
    for (uint64_t i = 0; i < in[0].n; i++) {
        const real v =
            a->from == PG_ELEM_INT ? (real)((const int32_t *)in[0].p)[i] : pg__reals(&in[0])[i];
        if (a->to != PG_ELEM_INT)
            pg__reals_out(&out[0])[i] = v;
        else /* values that cannot be ids become an id that no table has */
            ((int32_t *)out[0].p)[i] = v > -1e9 && v < 1e9 ? (int32_t)v : -1;
    }
}
