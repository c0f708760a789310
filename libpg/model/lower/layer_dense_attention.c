/* layer_dense_attention.c - Attention and AdditiveAttention: the weights of the steps of the value
 * for each step of the query. Sources: keras/layers/attention of 2.15 (base_dense_attention.py) and
 * 3.6. Products of query and key are the operation of MultiHeadAttention with one head; sums of
 * tanh(query + key) consist of smaller operations. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/policy.h"
#include "model/lower/spatial.h"

typedef struct call {
    pg__val q, v, k;
    pg__val factors; /* of the weights, (rows, 1, T, S), or PG_NO_VAL */
    uint64_t rows, t, s;
    int causal;
} call;

static pg__tape *tape(pg__lowering *lw)
{
    return &lw->to->tape;
}

static pg_status read_call(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                           call *c, pg_err *err)
{
    double dropout = 0;
    pg_status st = PG_OK;
    if (n_in < 2 || n_in > 3)
        PG_FAIL(PG_E_FORMAT, "%s: %s is called with %zu tensors, takes query, value and key",
                PG_SHOW(l->name), l->class_name, n_in);
    for (size_t k = 0; k < n_in; k++) {
        const pg__dims *d = pg__dims_at(lw, in[k]);
        if (d->rank != 3 || d->d[2] == PG_DIM_ANY)
            PG_FAIL(PG_E_MISMATCH, "input %s is not (rows, steps, features)", PG_SHAPE(d));
    }
    *c = (call){.q = in[0],
                .v = in[1],
                .k = in[n_in - 1],
                .rows = pg__dims_at(lw, in[0])->d[0],
                .t = pg__dims_at(lw, in[0])->d[1],
                .s = pg__dims_at(lw, in[1])->d[1],
                .causal = pg__config_bool(l, "causal", 0) || /* to 2.9 */
                          pg__json_bool(pg__json_get(lw->kwargs, "use_causal_mask"), 0)};
    PG_TRY(pg__config_num_or(&dropout, l, l->config, "dropout", 0, err));
    if (!(dropout >= 0 && dropout < 1))
        PG_FAIL(PG_E_FORMAT, "%s: \"dropout\" is not in [0, 1)", PG_SHOW(l->name));
    const pg__dims weights = pg__dims_of(4, (const uint64_t[]){c->rows, 1, c->t, c->s});
    PG_TRY(pg__lower_factors(lw, dropout, &weights, &c->factors, err));
done:
    return st;
}

/* y, or the weights after dropout if requested; masked steps of the query give zeros. */
static pg_status finish(pg__lowering *lw, const call *c, pg__val y, pg__val weights,
                        pg__results *out, pg_err *err)
{
    const pg__val mask = pg__mask_of(lw, c->q);
    pg_status st = PG_OK;
    out->n = 1;
    out->v[0] = y;
    if (mask != PG_NO_VAL) {
        PG_TRY(pg__emit2(tape(lw), PG_OP_mask_rows, NULL, y, mask, &out->v[0], err));
        PG_TRY(pg__set_mask(lw, out->v[0], mask, err));
    }
    if (pg__json_bool(pg__json_get(lw->kwargs, "return_attention_scores"), 0))
        out->v[out->n++] = weights;
done:
    return st;
}

static pg_status three(pg__lowering *lw, const call *c, pg__val weights, pg__val *out, pg_err *err)
{
    const pg__dims to = pg__dims_of(3, (const uint64_t[]){c->rows, c->t, c->s});
    return pg__lower_reshape(lw, weights, &to, out, err);
}

/* softmax(scale q k') v */
static pg_status by_products(pg__lowering *lw, const pg__layer *l, const call *c, pg__results *out,
                             pg_err *err)
{
    const pg__attention_attrs a = {.heads = 1, .scale = 1, .causal = c->causal};
    pg__val q = c->q, scale, results[2];
    pg_status st = PG_OK;
    if (pg__config_bool(l, "use_scale", 0)) {
        PG_TRY(pg__lower_param(lw, "scale", 0, NULL, &scale, err));
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, q, scale, &q, err));
    }
    const pg__val in[] = {q,         c->k,      c->v,      PG_NO_VAL, pg__mask_of(lw, c->v),
                          PG_NO_VAL, PG_NO_VAL, c->factors};
    PG_TRY(pg__emit(tape(lw), PG_OP_attention, &a, in, sizeof in / sizeof *in, results, err));
    if (c->factors != PG_NO_VAL &&
        pg__json_bool(pg__json_get(lw->kwargs, "return_attention_scores"), 0))
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, results[1], c->factors, &results[1], err));
    PG_TRY(three(lw, c, results[1], &results[1], err));
    PG_TRY(finish(lw, c, results[0], results[1], out, err));
done:
    return st;
}

/* query + key, (rows, T, S, features) */
static pg_status sums(pg__lowering *lw, const call *c, pg__val *out, pg_err *err)
{
    const pg__dims q = *pg__dims_at(lw, c->q), k = *pg__dims_at(lw, c->k);
    const pg__dims as_q = pg__dims_of(4, (const uint64_t[]){q.d[0], q.d[1], 1, q.d[2]}),
                   as_k = pg__dims_of(4, (const uint64_t[]){k.d[0], 1, k.d[1], k.d[2]});
    pg__val a, b;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_reshape(lw, c->q, &as_q, &a, err));
    PG_TRY(pg__lower_reshape(lw, c->k, &as_k, &b, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, a, b, out, err));
done:
    return st;
}

/* The sum of x (rows, T, S, features) over its features, each by its own weight if there are any.
 */
static pg_status sum_features(pg__lowering *lw, const call *c, pg__val x, pg__val weights,
                              pg__val *out, pg_err *err)
{
    const uint64_t n = pg__dims_at(lw, x)->d[3];
    const pg__dims column = pg__dims_of(2, (const uint64_t[]){n, 1});
    const pg__spread_attrs one = {.to = {.rank = 4, .d = {c->rows, c->t, c->s, 1}}};
    pg_status st = PG_OK;
    if (weights != PG_NO_VAL) {
        PG_TRY(pg__lower_reshape(lw, weights, &column, &weights, err));
        PG_TRY(pg__emit3(tape(lw), PG_OP_dense, NULL, x, weights, PG_NO_VAL, out, err));
    } else {
        PG_TRY(pg__emit1(tape(lw), PG_OP_sum_to, &one, x, out, err));
    }
    PG_TRY(three(lw, c, *out, out, err));
done:
    return st;
}

/* 1 if a step of the query may attend to one of the value: (rows or 1, T or 1, S), or
 * PG_NO_VAL. */
static pg_status open_scores(pg__lowering *lw, const call *c, pg__val *out, pg_err *err)
{
    const pg__dims steps = pg__dims_of(3, (const uint64_t[]){1, c->t, c->s}),
                   value = pg__dims_of(3, (const uint64_t[]){c->rows, 1, c->s});
    const pg__val mask = pg__mask_of(lw, c->v);
    double *lower = NULL;
    pg__val causal;
    pg_status st = PG_OK;
    *out = PG_NO_VAL;
    if (mask != PG_NO_VAL)
        PG_TRY(pg__lower_reshape(lw, mask, &value, out, err));
    if (!c->causal || c->t == PG_DIM_ANY || c->s == PG_DIM_ANY)
        return PG_OK;
    if (pg__dim_mul(c->t, c->s) > PG_MAX_CONSTANT)
        PG_FAIL(PG_E_LIMIT, "a causal mask of more steps than are supported");
    lower = pg__mem_array((size_t)pg__dim_mul(c->t, c->s), sizeof *lower);
    if (!lower)
        return pg__nomem(err);
    for (uint64_t i = 0; i < c->t; i++)
        for (uint64_t k = 0; k < c->s; k++)
            lower[i * c->s + k] = k <= i;
    PG_TRY(pg__lower_constant(lw, &steps, lower, &causal, err));
    if (*out != PG_NO_VAL)
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, *out, causal, out, err));
    else
        *out = causal;
done:
    pg__mem_free(lower);
    return st;
}

/* softmax(scores) v. Keras adds -1e9 to a masked score, which cancels it in float: a row that is
 * masked everywhere weighs all steps alike, and its scores have gradients. The number here does the
 * same in double; Keras, too, uses 65504 for float16. */
static pg_status apply(pg__lowering *lw, const pg__layer *l, const call *c, pg__val scores,
                       pg__results *out, pg_err *err)
{
    const double far = pg__policy_elem(pg__layer_policy(l)) == PG_ELEM_F16 ? 65504 : 1e30;
    const pg__affine_attrs hide = {far, -far};
    pg__val open, weights, y;
    pg_status st = PG_OK;
    PG_TRY(open_scores(lw, c, &open, err));
    if (open != PG_NO_VAL) {
        PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &hide, open, &open, err));
        PG_TRY(pg__lower_binary(lw, PG_ADD, scores, open, &scores, err));
    }
    PG_TRY(pg__emit1(tape(lw), PG_OP_softmax, NULL, scores, &weights, err));
    if (c->factors != PG_NO_VAL) {
        PG_TRY(three(lw, c, c->factors, &y, err));
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, weights, y, &weights, err));
    }
    PG_TRY(pg__emit2(tape(lw), PG_OP_matmul, &(pg__matmul_attrs){0, 0}, weights, c->v, &y, err));
    PG_TRY(finish(lw, c, y, weights, out, err));
done:
    return st;
}

static const pg__act_attrs tanh_of = {.kind = PG_ACT_TANH};

/* concat_score_weight sum tanh(scale (query + key)) */
static pg_status by_sums(pg__lowering *lw, const pg__layer *l, const call *c, pg__results *out,
                         pg_err *err)
{
    pg__val x, scalar;
    pg_status st = PG_OK;
    PG_TRY(sums(lw, c, &x, err));
    if (pg__config_bool(l, "use_scale", 0)) {
        PG_TRY(pg__lower_param(lw, "scale", 0, NULL, &scalar, err));
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, scalar, &x, err));
    }
    PG_TRY(pg__emit1(tape(lw), PG_OP_act, &tanh_of, x, &x, err));
    PG_TRY(sum_features(lw, c, x, PG_NO_VAL, &x, err));
    PG_TRY(pg__lower_param(lw, "concat_score_weight", 0, NULL, &scalar, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, scalar, &x, err));
    PG_TRY(apply(lw, l, c, x, out, err));
done:
    return st;
}

pg_status pg__lower_attention(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                              pg__results *out, pg_err *err)
{
    const char *mode = pg__json_get_str(l->config, "score_mode");
    call c;
    pg_status st = PG_OK;
    PG_TRY(read_call(lw, l, in, n_in, &c, err));
    if (!mode && pg__config_has(l, "score_mode"))
        PG_FAIL(PG_E_FORMAT, "%s: \"score_mode\" is not a text", PG_SHOW(l->name));
    if (mode && strcmp(mode, "concat") == 0)
        st = by_sums(lw, l, &c, out, err);
    else if (!mode || strcmp(mode, "dot") == 0)
        st = by_products(lw, l, &c, out, err);
    else
        PG_FAIL(PG_E_FORMAT, "%s: unknown \"score_mode\" \"%s\"", PG_SHOW(l->name), PG_SHOW(mode));
done:
    return st;
}

/* sum scale tanh(query + key) */
pg_status pg__lower_additive_attention(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                       size_t n_in, pg__results *out, pg_err *err)
{
    pg__val x, scale = PG_NO_VAL;
    call c;
    pg_status st = PG_OK;
    PG_TRY(read_call(lw, l, in, n_in, &c, err));
    PG_TRY(sums(lw, &c, &x, err));
    if (pg__config_bool(l, "use_scale", 1))
        PG_TRY(pg__lower_param(lw, "scale", 1, &pg__dims_at(lw, x)->d[3], &scale, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_act, &tanh_of, x, &x, err));
    PG_TRY(sum_features(lw, &c, x, scale, &x, err));
    PG_TRY(apply(lw, l, &c, x, out, err));
done:
    return st;
}
