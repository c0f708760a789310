/* layer_attention.c - attention. MultiHeadAttention holds four EinsumDense layers. */
#include "base/try.h"
#include "model/layers.h"

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

/* MultiHeadAttention; GroupedQueryAttention, called GroupQueryAttention in files, where keys and
 * values have fewer heads. */
pg_status pg__vars_multi_head(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int grouped = pg__config_has(l, "num_query_heads");
    const int bias = pg__config_bool(l, "use_bias", 1);
    uint64_t heads, key_heads, key, value;
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_has(l, "output_shape") || pg__config_has(l, "quantization_config"))
        return pg__vars_unknown(out);
    PG_TRY(pg__config_dim(&heads, l, grouped ? "num_query_heads" : "num_heads", err));
    PG_TRY(pg__config_dim_or(&key_heads, l, "num_key_value_heads", heads, err));
    PG_TRY(pg__config_dim(&key, l, grouped ? "head_dim" : "key_dim", err));
    PG_TRY(pg__config_dim_or(&value, l, "value_dim", key, err));
    const uint64_t q[] = {any, heads, key}, k[] = {any, key_heads, key},
                   v[] = {any, key_heads, value}, o[] = {heads, value, any};
    PG_TRY(add_projection(out, "query", 3, q, 2, bias ? q + 1 : NULL, err));
    PG_TRY(add_projection(out, "key", 3, k, 2, bias ? k + 1 : NULL, err));
    PG_TRY(add_projection(out, "value", 3, v, 2, bias ? v + 1 : NULL, err));
    PG_TRY(add_projection(out, "attention_output", 3, o, 1, bias ? &any : NULL, err));
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
