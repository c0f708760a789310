/* layer_attention.c - attention. MultiHeadAttention holds four EinsumDense layers. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

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

/* "output_shape": a number, or a list of them; null leaves one dimension unchanged. */
static pg_status read_output_shape(const pg__layer *l, uint64_t *dims, uint32_t *n, pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, "output_shape");
    const size_t len = pg__json_type_of(j) == PG_J_ARRAY ? pg__json_len(j) : 1;
    if (!pg__config_has(l, "output_shape"))
        return PG_OK;
    if (len < 1 || len > PG_MAX_RANK - 2)
        return pg_fail(err, PG_E_LIMIT, "%s: \"output_shape\" of %zu dimensions is not supported",
                       PG_SHOW(l->name), len);
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
    uint64_t heads, key_heads, key, value; /* key_heads: of keys and values */
    int has_bias;
    double dropout;
    uint32_t rank;              /* of the inputs */
    uint32_t axes[PG_MAX_RANK]; /* axes between rows and features: first those that attention leaves
                                   alone, then the attended ones */
    uint32_t n_apart, n_attended; /* of them */
} mha;

/* x times a kernel (in..., out...), whose first n_in dimensions are the last ones of x taken
 * together, plus the bias; the result is flat. */
static pg_status project(pg__lowering *lw, const mha *m, const char *sub, pg__val x,
                         const uint64_t *kernel, uint32_t n_in, uint32_t rank, pg__val *out,
                         pg_err *err)
{
    const char *outer = lw->sub;
    uint64_t flat[2] = {1, 1};
    pg__val in[3] = {x, PG_NO_VAL, PG_NO_VAL};
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
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_dense, NULL, in, 3, out, err));
done:
    lw->sub = outer;
    return st;
}

/* "attention_axes": a number or a list; absent: all between the rows and the features. */
static pg_status read_axes(mha *m, pg_err *err)
{
    const pg__json *j = pg__json_get(m->l->config, "attention_axes");
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY,
              given = pg__config_has(m->l, "attention_axes");
    const size_t n = is_list ? pg__json_len(j) : 1;
    uint32_t attended[PG_MAX_RANK];
    int64_t before = 0;
    for (size_t i = 0; given && i < n; i++) {
        int64_t v = 0;
        if (!pg__json_int(is_list ? pg__json_at(j, i) : j, &v) || v <= before ||
            v >= (int64_t)m->rank - 1)
            return pg_fail(
                err, PG_E_UNSUPPORTED,
                "%s: \"attention_axes\" must ascend and lie between the batch and feature axes",
                PG_SHOW(m->l->name));
        before = v;
        attended[m->n_attended++] = (uint32_t)v;
    }
    for (uint32_t axis = 1; axis + 1 < m->rank; axis++) {
        int is_attended = !given;
        for (uint32_t i = 0; i < m->n_attended && given; i++)
            is_attended |= attended[i] == axis;
        if (!is_attended)
            m->axes[m->n_apart++] = axis;
        else if (!given)
            attended[m->n_attended++] = axis;
    }
    for (uint32_t i = 0; i < m->n_attended; i++)
        m->axes[m->n_apart + i] = attended[i];
    return m->n_attended > 0
               ? PG_OK
               : pg_fail(err, PG_E_UNSUPPORTED, "%s: attention over no axis", PG_SHOW(m->l->name));
}

/* Product of the sizes of the axes that are left alone, or attended. */
static uint64_t size_of(const mha *m, const pg__dims *d, int apart)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < m->n_apart + m->n_attended; i++)
        if ((i < m->n_apart) == apart)
            n = pg__dim_mul(n, d->d[m->axes[i]]);
    return n;
}

/* (rows, steps, features): axes that are left alone belong to the rows. */
static pg_status flat_steps(pg__lowering *lw, const mha *m, pg__val *x, pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, *x);
    uint32_t perm[PG_MAX_RANK] = {0};
    pg_status st = PG_OK;
    if (d.rank != m->rank || d.rank < 3 || d.d[d.rank - 1] == PG_DIM_ANY)
        return pg_fail(err, PG_E_MISMATCH, "input %s is not (rows, steps, features)", PG_SHAPE(&d));
    if (d.rank > 3 && pg__mask_of(lw, *x) != PG_NO_VAL)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "%s: masks of inputs with several axes of steps are not supported",
                       PG_SHOW(m->l->name));
    memcpy(perm + 1, m->axes, sizeof m->axes - sizeof *m->axes);
    perm[d.rank - 1] = d.rank - 1;
    const pg__dims to = {
        .rank = 3,
        .d = {pg__dim_mul(d.d[0], size_of(m, &d, 1)), size_of(m, &d, 0), d.d[d.rank - 1]}};
    if (m->n_apart > 0)
        PG_TRY(pg__lower_transpose(lw, *x, perm, x, err));
    PG_TRY(pg__lower_reshape(lw, *x, &to, x, err));
done:
    return st;
}

static pg_status read_mha(mha *m, const pg__layer *l, uint32_t rank, pg_err *err)
{
    const int grouped = pg__config_has(l, "num_query_heads");
    pg_status st = PG_OK;
    *m = (mha){.l = l, .has_bias = pg__config_bool(l, "use_bias", 1), .rank = rank};
    if (pg__config_has(l, "quantization_config"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: quantized kernels are not supported", PG_SHOW(l->name));
    PG_TRY(pg__config_dim(&m->heads, l, grouped ? "num_query_heads" : "num_heads", err));
    PG_TRY(pg__config_dim_or(&m->key_heads, l, "num_key_value_heads", m->heads, err));
    PG_TRY(pg__config_dim(&m->key, l, grouped ? "head_dim" : "key_dim", err));
    PG_TRY(pg__config_dim_or(&m->value, l, "value_dim", m->key, err));
    PG_TRY(pg__config_rate(&m->dropout, l, "dropout", err));
    if (m->heads % m->key_heads != 0)
        PG_FAIL(PG_E_FORMAT, "%s: \"num_query_heads\" is not a multiple of \"num_key_value_heads\"",
                PG_SHOW(l->name));
    PG_TRY(read_axes(m, err));
done:
    return st;
}

/* Repeats every head of keys or values for its heads of queries. */
static pg_status repeat_heads(pg__lowering *lw, const mha *m, uint64_t size, pg__val *x,
                              pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, *x);
    const pg__dims apart =
        pg__dims_of(5, (const uint64_t[]){d.d[0], d.d[1], m->key_heads, 1, size});
    pg__spread_attrs all = {.to = apart};
    pg_status st = PG_OK;
    if (m->key_heads == m->heads)
        return PG_OK;
    all.to.d[3] = m->heads / m->key_heads;
    const pg__dims to =
        pg__dims_of(3, (const uint64_t[]){d.d[0], d.d[1], pg__dim_mul(m->heads, size)});
    PG_TRY(pg__lower_reshape(lw, *x, &apart, x, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_spread, &all, *x, x, err));
    PG_TRY(pg__lower_reshape(lw, *x, &to, x, err));
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
        const uint64_t size = k < 2 ? m->key : m->value;
        pg__val x = from[k];
        PG_TRY(flat_steps(lw, m, &x, err));
        const uint64_t kernel[] = {pg__dims_at(lw, x)->d[2], k > 0 ? m->key_heads : m->heads, size};
        PG_TRY(project(lw, m, subs[k], x, kernel, 1, 3, &to[k], err));
        if (k > 0)
            PG_TRY(repeat_heads(lw, m, size, &to[k], err));
    }
done:
    return st;
}

/* Turns the operation's result (rows, steps, heads * value) into the layer's. */
static pg_status project_back(pg__lowering *lw, const mha *m, pg__val y, const pg__dims *query,
                              pg__val *out, pg_err *err)
{
    uint64_t kernel[PG_MAX_RANK] = {m->heads, m->value, query->d[query->rank - 1]};
    uint32_t n = 1, perm[PG_MAX_RANK] = {0};
    pg__dims to = {.d = {query->d[0]}};
    pg_status st = PG_OK;
    PG_TRY(read_output_shape(m->l, kernel + 2, &n, err));
    PG_TRY(project(lw, m, "attention_output", y, kernel, 2, 2 + n, &y, err));
    to.rank = query->rank - 1 + n;
    if (to.rank > PG_MAX_RANK)
        PG_FAIL(PG_E_LIMIT, "%s: an output of %u dimensions is not supported", PG_SHOW(m->l->name),
                to.rank);
    for (uint32_t i = 1; i < to.rank; i++) {
        const int is_step = i + 1 < query->rank;
        to.d[i] = is_step ? query->d[m->axes[i - 1]] : kernel[2 + i - (query->rank - 1)];
        perm[is_step ? m->axes[i - 1] : i] = i;
    }
    PG_TRY(pg__lower_reshape(lw, y, &to, out, err));
    if (m->n_apart > 0)
        PG_TRY(pg__lower_transpose(lw, *out, perm, out, err));
done:
    return st;
}

/* Scores have axes (rows, those apart, heads, attended of the query, attended of the key). */
static pg_status score_dims(const mha *m, const pg__dims *query, const pg__dims *key, pg__dims *out,
                            pg_err *err)
{
    if (2 + m->n_apart + 2 * m->n_attended > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%s: scores of more than %d dimensions are not supported",
                       PG_SHOW(m->l->name), PG_MAX_RANK);
    *out = (pg__dims){.rank = 1, .d = {query->d[0]}};
    for (uint32_t i = 0; i < m->n_apart; i++)
        out->d[out->rank++] = query->d[m->axes[i]];
    out->d[out->rank++] = m->heads;
    for (uint32_t i = 0; i < 2 * m->n_attended; i++)
        out->d[out->rank++] =
            (i < m->n_attended ? query : key)->d[m->axes[m->n_apart + i % m->n_attended]];
    return PG_OK;
}

/* The mask of scores for the operation. Missing axes precede those of steps, as in Keras; if
 * several axes of the scores are one here, the mask is repeated along them. */
static pg_status flat_mask(pg__lowering *lw, const mha *m, const pg__dims *scores, pg__val *mask,
                           pg_err *err)
{
    const uint32_t n_steps = 2 * m->n_attended, n_lead = 2 + m->n_apart;
    const pg__dims d = *mask == PG_NO_VAL ? *scores : *pg__dims_at(lw, *mask);
    pg__dims whole = {.rank = scores->rank};
    pg__spread_attrs all = {.to = *scores};
    pg_status st = PG_OK;
    if (*mask == PG_NO_VAL || (m->n_apart == 0 && m->n_attended == 1))
        return PG_OK;
    if (d.rank < n_steps + 1 || d.rank > scores->rank)
        return pg_fail(err, PG_E_MISMATCH, "attention mask %s does not fit scores %s", PG_SHAPE(&d),
                       PG_SHAPE(scores));
    for (uint32_t i = 0; i < scores->rank; i++)
        whole.d[i] = i + n_steps < d.rank ? d.d[i]
                     : i < n_lead         ? 1
                                          : d.d[i - (scores->rank - d.rank)];
    all.to.d[n_lead - 1] = whole.d[n_lead - 1]; /* heads */
    pg__dims flat = {.rank = 4, .d = {1, whole.d[n_lead - 1], 1, 1}};
    for (uint32_t i = 0; i + 1 < n_lead; i++)
        flat.d[0] = pg__dim_mul(flat.d[0], scores->d[i]);
    for (uint32_t i = 0; i < n_steps; i++)
        flat.d[2 + (i >= m->n_attended)] =
            pg__dim_mul(flat.d[2 + (i >= m->n_attended)], scores->d[n_lead + i]);
    PG_TRY(pg__lower_reshape(lw, *mask, &whole, mask, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_spread, &all, *mask, mask, err));
    PG_TRY(pg__lower_reshape(lw, *mask, &flat, mask, err));
done:
    return st;
}

/* What dropout multiplies the probabilities by. */
static pg_status factors_of(pg__lowering *lw, const mha *m, const pg__dims *query, pg__val q,
                            pg__val k, pg__val *out, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, q);
    const pg__dims scores =
        pg__dims_of(4, (const uint64_t[]){d->d[0], m->heads, d->d[1], pg__dims_at(lw, k)->d[1]});
    const uint64_t fold = lw->fold;
    lw->fold = m->n_apart > 0 ? pg__dim_mul(fold ? fold : 1, size_of(m, query, 1)) : fold;
    const pg_status st = pg__lower_factors(lw, m->dropout, &scores, out, err);
    lw->fold = fold;
    return st;
}

pg_status pg__lower_multi_head(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                               pg__results *out, pg_err *err)
{
    const pg__val q = pg__operand(lw, in, n_in, "query", 0),
                  v = pg__operand(lw, in, n_in, "value", 1);
    pg__val k = pg__operand(lw, in, n_in, "key", 2), results[2];
    pg__dims scores;
    mha m;
    pg_status st = PG_OK;
    if (q == PG_NO_VAL || v == PG_NO_VAL)
        PG_FAIL(PG_E_FORMAT, "%s: is called without query and value", PG_SHOW(l->name));
    k = k == PG_NO_VAL ? v : k;
    const pg__dims query = *pg__dims_at(lw, q);
    PG_TRY(read_mha(&m, l, query.rank, err));
    const pg__val from[] = {q, k, v};
    pg__val operands[8] = {[3] = pg__mask_of(lw, q),
                           [4] = pg__mask_of(lw, v),
                           [5] = pg__mask_of(lw, k),
                           [6] = pg__operand(lw, in, n_in, "attention_mask", 3),
                           [7] = PG_NO_VAL};
    const pg__attention_attrs a = {
        .heads = m.heads,
        .scale = 1 / sqrt((double)m.key),
        .causal = pg__json_bool(pg__json_get(lw->kwargs, "use_causal_mask"), 0)};
    if (a.causal && query.rank > 3)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: a causal mask over several axes is not supported",
                PG_SHOW(l->name));
    for (uint32_t i = 0; i < m.n_apart; i++)
        for (size_t n = 1; n < 3; n++)
            if (pg__dims_at(lw, from[n])->rank == m.rank &&
                !pg__dim_fits(pg__dims_at(lw, from[n])->d[m.axes[i]], query.d[m.axes[i]]))
                PG_FAIL(PG_E_MISMATCH, "inputs differ along axis %u, which is not attended",
                        m.axes[i]);
    PG_TRY(project_all(lw, &m, from, operands, err));
    PG_TRY(score_dims(&m, &query, pg__dims_at(lw, k), &scores, err));
    PG_TRY(flat_mask(lw, &m, &scores, &operands[6], err));
    PG_TRY(factors_of(lw, &m, &query, operands[0], operands[1], &operands[7], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_attention, &a, operands, 8, results, err));
    PG_TRY(project_back(lw, &m, results[0], &query, &out->v[0], err));
    out->n = 1;
    PG_TRY(pg__pass_mask(lw, q, out->v[0], err));
    if (pg__json_bool(pg__json_get(lw->kwargs, "return_attention_scores"), 0))
        PG_TRY(pg__lower_reshape(lw, results[1], &scores, &out->v[out->n++], err));
done:
    return st;
}
