/* layer_attention.c - attention. MultiHeadAttention holds four EinsumDense layers. */
#include <math.h>

#include "base/try.h"
#include "model/layers.h"
#include "model/spatial.h"

static const uint64_t any = PG_DIM_ANY;

/* Kernel and bias of one of the inner layers. */
static pg_status add_projection(pg__vars *out, const char *sub, uint32_t rank,
                                const uint64_t *kernel, uint32_t bias_rank, const uint64_t *bias,
                                pg_err *err)
{
    const size_t first = out->n;
    pg_status st = PG_OK;
    PG_TRY(pg__vars_add(out, "kernel", "", 1, rank, kernel, err));
    if (bias)
        PG_TRY(pg__vars_add(out, "bias", "", 1, bias_rank, bias, err));
    PG_TRY(pg__vars_set_sub(out, first, sub, err));
done:
    return st;
}

/* "output_shape": a number, or a list of them; null leaves one dimension as it is. */
static pg_status read_output_shape(const pg__layer *l, uint64_t *dims, uint32_t *n, pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, "output_shape");
    const size_t len = pg__json_type_of(j) == PG_J_ARRAY ? pg__json_len(j) : 1;
    if (!pg__config_has(l, "output_shape"))
        return PG_OK;
    if (len < 1 || len > PG_MAX_RANK - 2)
        return pg_fail(err, PG_E_LIMIT, "%s: \"output_shape\" of %zu dimensions", PG_SHOW(l->name),
                       len);
    *n = (uint32_t)len;
    return pg__config_dim_list(dims, len, l, "output_shape", err);
}

/* MultiHeadAttention; GroupedQueryAttention, called GroupQueryAttention in files, where keys and
 * values have fewer heads. */
pg_status pg__vars_multi_head(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int grouped = pg__config_has(l, "num_query_heads");
    const int bias = pg__config_bool(l, "use_bias", 1);
    uint64_t heads, key_heads, key, value;
    pg_status st = PG_OK;
    (void)dialect;
    uint64_t o[PG_MAX_RANK] = {0, 0, any};
    uint32_t n_out = 1;
    if (pg__config_has(l, "quantization_config"))
        return pg__vars_unknown(out);
    PG_TRY(pg__config_dim(&heads, l, grouped ? "num_query_heads" : "num_heads", err));
    PG_TRY(pg__config_dim_or(&key_heads, l, "num_key_value_heads", heads, err));
    PG_TRY(pg__config_dim(&key, l, grouped ? "head_dim" : "key_dim", err));
    PG_TRY(pg__config_dim_or(&value, l, "value_dim", key, err));
    const uint64_t q[] = {any, heads, key}, k[] = {any, key_heads, key},
                   v[] = {any, key_heads, value};
    o[0] = heads;
    o[1] = value;
    PG_TRY(read_output_shape(l, o + 2, &n_out, err));
    PG_TRY(add_projection(out, "query", 3, q, 2, bias ? q + 1 : NULL, err));
    PG_TRY(add_projection(out, "key", 3, k, 2, bias ? k + 1 : NULL, err));
    PG_TRY(add_projection(out, "value", 3, v, 2, bias ? v + 1 : NULL, err));
    PG_TRY(add_projection(out, "attention_output", 2 + n_out, o, n_out, bias ? o + 2 : NULL, err));
done:
    return st;
}

pg_status pg__vars_attention(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const char *mode = pg__json_get_str(l->config, "score_mode");
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_bool(l, "use_scale", 0))
        PG_TRY(pg__vars_add(out, "scale", "", 1, 0, NULL, err));
    if (mode && mode[0] == 'c')
        PG_TRY(pg__vars_add(out, "concat_score_weight", "", 1, 0, NULL, err));
done:
    return st;
}

pg_status pg__vars_additive_attention(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    (void)dialect;
    return pg__config_bool(l, "use_scale", 1) ? pg__vars_add(out, "scale", "", 1, 1, &any, err)
                                              : PG_OK;
}

/* ---- operations ---- */

typedef struct mha {
    const pg__layer *l;
    uint64_t heads, key, value;
    int has_bias;
    double dropout;
} mha;

/* x times a kernel (in..., out...) of which the first n_in dimensions are the last of x taken
 * together, plus the bias; what comes out is flat. */
static pg_status project(pg__lowering *lw, const mha *m, const char *sub, pg__val x,
                         const uint64_t *kernel, uint32_t n_in, uint32_t rank, pg__val *out,
                         pg_err *err)
{
    const char *outer = lw->sub;
    uint64_t flat[2] = {1, 1};
    pg__val in[3] = {x, PG__NO_VAL, PG__NO_VAL};
    pg_status st = PG_OK;
    lw->sub = sub;
    for (uint32_t i = 0; i < rank; i++)
        flat[i >= n_in] = pg__dim_mul(flat[i >= n_in], kernel[i]);
    const pg__dims matrix = pg__dims_of(2, flat), vector = pg__dims_of(1, flat + 1);
    PG_TRY(pg__lower_param(lw, "kernel", rank, kernel, &in[1], err));
    PG_TRY(pg__lower_reshape(lw, in[1], &matrix, &in[1], err));
    if (m->has_bias) {
        PG_TRY(pg__lower_param(lw, "bias", rank - n_in, kernel + n_in, &in[2], err));
        PG_TRY(pg__lower_reshape(lw, in[2], &vector, &in[2], err));
    }
    PG_TRY(pg__emit(&lw->to->tape, PG__OP_dense, NULL, in, 3, out, err));
done:
    lw->sub = outer;
    return st;
}

/* (rows, steps, features): with more dimensions, attention is over all between the first and the
 * last, which is what no "attention_axes" means. */
static pg_status flat_steps(pg__lowering *lw, const mha *m, pg__val *x, pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, *x);
    pg__dims to = {.rank = 3, .d = {d.d[0], 1, 0}};
    if (d.rank < 3 || d.d[d.rank - 1] == PG_DIM_ANY)
        return pg_fail(err, PG_E_MISMATCH, "input %s is not (rows, steps, features)", PG_SHAPE(&d));
    for (uint32_t i = 1; i + 1 < d.rank; i++)
        to.d[1] = pg__dim_mul(to.d[1], d.d[i]);
    to.d[2] = d.d[d.rank - 1];
    if (d.rank > 3 && pg__mask_of(lw, *x) != PG__NO_VAL)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: a mask over several attention axes",
                       PG_SHOW(m->l->name));
    return pg__lower_reshape(lw, *x, &to, x, err);
}

/* "attention_axes": only what the rank makes of its absence. */
static pg_status check_axes(const pg__layer *l, uint32_t rank, pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, "attention_axes");
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY;
    const size_t n = is_list ? pg__json_len(j) : 1;
    int ok = !pg__config_has(l, "attention_axes") || n + 2 == rank;
    for (size_t i = 0; ok && pg__config_has(l, "attention_axes") && i < n; i++) {
        int64_t v = 0;
        ok = pg__json_int(is_list ? pg__json_at(j, i) : j, &v) &&
             (v < 0 ? v + (int64_t)rank : v) == (int64_t)i + 1;
    }
    return ok ? PG_OK
              : pg_fail(err, PG_E_UNSUPPORTED,
                        "%s: \"attention_axes\" that leave out some of the input's",
                        PG_SHOW(l->name));
}

static pg_status read_mha(mha *m, const pg__layer *l, pg_err *err)
{
    pg_status st = PG_OK;
    *m = (mha){.l = l, .has_bias = pg__config_bool(l, "use_bias", 1)};
    if (pg__config_has(l, "quantization_config"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: quantized kernels", PG_SHOW(l->name));
    PG_TRY(pg__config_dim(&m->heads, l, "num_heads", err));
    PG_TRY(pg__config_dim(&m->key, l, "key_dim", err));
    PG_TRY(pg__config_dim_or(&m->value, l, "value_dim", m->key, err));
    PG_TRY(pg__config_num_or(&m->dropout, l, l->config, "dropout", 0, err));
done:
    return st;
}

/* q, k, v of the operation from query, key, value. */
static pg_status project_all(pg__lowering *lw, const mha *m, const pg__val *from, pg__val *to,
                             pg_err *err)
{
    static const char *const subs[] = {"query", "key", "value"};
    pg_status st = PG_OK;
    for (size_t k = 0; k < 3; k++) {
        pg__val x = from[k];
        PG_TRY(flat_steps(lw, m, &x, err));
        const uint64_t kernel[] = {pg__dims_at(lw, x)->d[2], m->heads, k < 2 ? m->key : m->value};
        PG_TRY(project(lw, m, subs[k], x, kernel, 1, 3, &to[k], err));
    }
done:
    return st;
}

/* The operation's result (rows, steps, heads * value) as the layer gives it. */
static pg_status project_back(pg__lowering *lw, const mha *m, pg__val y, const pg__dims *query,
                              pg__val *out, pg_err *err)
{
    uint64_t kernel[PG_MAX_RANK] = {m->heads, m->value, query->d[query->rank - 1]};
    uint32_t n = 1;
    pg__dims to = *query;
    pg_status st = PG_OK;
    PG_TRY(read_output_shape(m->l, kernel + 2, &n, err));
    PG_TRY(project(lw, m, "attention_output", y, kernel, 2, 2 + n, &y, err));
    if (query->rank - 1 + n > PG_MAX_RANK)
        PG_FAIL(PG_E_LIMIT, "%s: output of %u dimensions", PG_SHOW(m->l->name),
                query->rank - 1 + n);
    to.rank = query->rank - 1 + n;
    for (uint32_t i = 0; i < n; i++)
        to.d[query->rank - 1 + i] = kernel[2 + i];
    PG_TRY(pg__lower_reshape(lw, y, &to, out, err));
done:
    return st;
}

pg_status pg__lower_multi_head(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                               pg__results *out, pg_err *err)
{
    const pg__val q = pg__operand(lw, in, n_in, "query", 0),
                  v = pg__operand(lw, in, n_in, "value", 1);
    pg__val k = pg__operand(lw, in, n_in, "key", 2), results[2];
    mha m;
    pg_status st = PG_OK;
    if (q == PG__NO_VAL || v == PG__NO_VAL)
        PG_FAIL(PG_E_FORMAT, "%s: is called without query and value", PG_SHOW(l->name));
    k = k == PG__NO_VAL ? v : k;
    PG_TRY(read_mha(&m, l, err));
    const pg__dims query = *pg__dims_at(lw, q);
    PG_TRY(check_axes(l, query.rank, err));
    const pg__val from[] = {q, k, v};
    pg__val operands[8] = {[3] = pg__mask_of(lw, q),
                           [4] = pg__mask_of(lw, v),
                           [5] = pg__mask_of(lw, k),
                           [6] = pg__operand(lw, in, n_in, "attention_mask", 3),
                           [7] = PG__NO_VAL};
    const pg__attention_attrs a = {
        .heads = m.heads,
        .scale = 1 / sqrt((double)m.key),
        .causal = pg__json_bool(pg__json_get(lw->kwargs, "use_causal_mask"), 0)};
    PG_TRY(project_all(lw, &m, from, operands, err));
    const pg__dims scores =
        pg__dims_of(4, (const uint64_t[]){query.d[0], m.heads, pg__dims_at(lw, operands[0])->d[1],
                                          pg__dims_at(lw, operands[1])->d[1]});
    PG_TRY(pg__lower_factors(lw, m.dropout, &scores, &operands[7], err));
    PG_TRY(pg__emit(&lw->to->tape, PG__OP_attention, &a, operands, 8, results, err));
    PG_TRY(project_back(lw, &m, results[0], &query, &out->v[0], err));
    out->n = 1;
    PG_TRY(pg__pass_mask(lw, q, out->v[0], err));
    if (pg__json_bool(pg__json_get(lw->kwargs, "return_attention_scores"), 0))
        out->v[out->n++] = results[1];
done:
    return st;
}
