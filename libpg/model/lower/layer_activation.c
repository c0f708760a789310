/* layer_activation.c - activations with parameters, one per input element or per shared axis.
 * Parameters have the input's shape, so the config fixes no dimension. */
#include <math.h>

#include "base/try.h"
#include "model/lower/layers.h"

static pg_status add_all(pg__vars *out, const char *const *names, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++)
        PG_TRY(pg__vars_add_any(out, names[i], "", 1, err));
done:
    return st;
}

pg_status pg__vars_prelu(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    (void)l, (void)dialect;
    return pg__vars_add_any(out, "alpha", "alphas", 1, err);
}

pg_status pg__vars_softplus(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    static const char *const names[] = {"alphas", "betas"};
    (void)l, (void)dialect;
    return add_all(out, names, 2, err);
}

pg_status pg__vars_srelu(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    static const char *const names[] = {"t_left", "a_left", "t_right", "a_right"};
    (void)l, (void)dialect;
    return add_all(out, names, 4, err);
}

/* alpha's shape: one row of x, 1 along shared_axes (which count from 1). */
static pg_status alpha_shape(pg__dims *out, const pg__layer *l, const pg__dims *x, pg_err *err)
{
    const pg__json *shared = pg__json_get(l->config, "shared_axes");
    if (x->rank < 2)
        return pg_fail(err, PG_E_MISMATCH, "input %s has one dimension", PG_SHAPE(x));
    if (pg__config_has(l, "shared_axes") && pg__json_type_of(shared) != PG_J_ARRAY)
        return pg_fail(err, PG_E_FORMAT, "%s: \"shared_axes\" is not a list", PG_SHOW(l->name));
    out->rank = x->rank - 1;
    for (uint32_t i = 1; i < x->rank; i++)
        out->d[i - 1] = x->d[i];
    for (size_t i = 0; i < pg__json_len(shared); i++) {
        int64_t axis = 0;
        if (!pg__json_int(pg__json_at(shared, i), &axis) || axis < 1 || axis >= x->rank)
            return pg_fail(err, PG_E_FORMAT,
                           "%s: \"shared_axes\" holds something other than axes of %s",
                           PG_SHOW(l->name), PG_SHAPE(x));
        out->d[axis - 1] = 1;
    }
    for (uint32_t i = 0; i < out->rank; i++)
        if (out->d[i] == PG_DIM_ANY)
            return pg_fail(err, PG_E_MISMATCH, "input %s needs known dimensions", PG_SHAPE(x));
    return PG_OK;
}

/* relu(x) - alpha relu(-x), as Keras computes it. */
pg_status pg__lower_prelu(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                          pg__results *out, pg_err *err)
{
    const pg__act_attrs relu = {.kind = PG_ACT_RELU, .a = INFINITY};
    const pg__affine_attrs minus = {-1, 0};
    pg__tape *t = &lw->to->tape;
    pg__dims shape;
    pg__val alpha, above, below;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(alpha_shape(&shape, l, pg__dims_at(lw, in[0]), err));
    PG_TRY(pg__lower_param(lw, "alpha", shape.rank, shape.d, &alpha, err));
    PG_TRY(pg__emit1(t, PG_OP_act, &relu, in[0], &above, err));
    PG_TRY(pg__emit1(t, PG_OP_affine, &minus, in[0], &below, err));
    PG_TRY(pg__emit1(t, PG_OP_act, &relu, below, &below, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, below, alpha, &below, err));
    out->n = 1;
    PG_TRY(pg__lower_binary(lw, PG_SUBTRACT, above, below, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

/* alphas softplus(betas x) */
pg_status pg__lower_parametric_softplus(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                        size_t n_in, pg__results *out, pg_err *err)
{
    const pg__act_attrs softplus = {.kind = PG_ACT_SOFTPLUS};
    pg__dims shape;
    pg__val alphas, betas, y;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(alpha_shape(&shape, l, pg__dims_at(lw, in[0]), err));
    PG_TRY(pg__lower_param(lw, "alphas", shape.rank, shape.d, &alphas, err));
    PG_TRY(pg__lower_param(lw, "betas", shape.rank, shape.d, &betas, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, in[0], betas, &y, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_act, &softplus, y, &y, err));
    out->n = 1;
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, y, alphas, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

/* relu(x), relu(-x) */
static pg_status halves(pg__lowering *lw, pg__val x, pg__val *above, pg__val *below, pg_err *err)
{
    const pg__act_attrs relu = {.kind = PG_ACT_RELU, .a = INFINITY};
    pg_status st = PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_act, &relu, x, above, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &(pg__affine_attrs){-1, 0}, x, below, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_act, &relu, *below, below, err));
done:
    return st;
}

/* t_left + min(relu(u), width) - a_left relu(-u) + a_right relu(u - width), where u = x - t_left
 * and width = |t_right|: as Keras 1 computes it. */
pg_status pg__lower_srelu(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                          pg__results *out, pg_err *err)
{
    static const char *const names[] = {"t_left", "a_left", "t_right", "a_right"};
    pg__dims shape;
    pg__val p[4], width, other, u, above, below, beyond;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(alpha_shape(&shape, l, pg__dims_at(lw, in[0]), err));
    for (size_t k = 0; k < 4; k++)
        PG_TRY(pg__lower_param(lw, names[k], shape.rank, shape.d, &p[k], err));
    PG_TRY(halves(lw, p[2], &width, &other, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, width, other, &width, err));
    PG_TRY(pg__lower_binary(lw, PG_SUBTRACT, in[0], p[0], &u, err));
    PG_TRY(halves(lw, u, &above, &below, err));
    PG_TRY(pg__lower_binary(lw, PG_SUBTRACT, u, width, &beyond, err));
    PG_TRY(halves(lw, beyond, &beyond, &other, err));
    PG_TRY(pg__lower_binary(lw, PG_MINIMUM, above, width, &above, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, below, p[1], &below, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, beyond, p[3], &beyond, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, above, p[0], &u, err));
    PG_TRY(pg__lower_binary(lw, PG_SUBTRACT, u, below, &u, err));
    out->n = 1;
    PG_TRY(pg__lower_binary(lw, PG_ADD, u, beyond, &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}
