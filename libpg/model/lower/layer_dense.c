/* layer_dense.c - layers that multiply by a matrix: Dense, EinsumDense, Embedding, and Keras 1's
 * TimeDistributedDense, MaxoutDense and Highway; Masking, which makes masks like Embedding. Keras 3
 * can add low-rank adapters to a kernel ("lora_rank"), which is then frozen. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"

static const uint64_t any = PG_DIM_ANY;

/* Is there an adapter; its rank as a dimension. */
static pg_status lora(uint64_t *rank, const pg__layer *l, pg_err *err)
{
    return pg__config_dim_or(rank, l, "lora_rank", 0, err);
}

pg_status pg__vars_dense(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int keras1 = pg__config_has(l, "output_dim");
    uint64_t units, rank;
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_has(l, "quantization_config"))
        return pg__vars_unknown(out);
    PG_TRY(pg__config_dim(&units, l, keras1 ? "output_dim" : "units", err));
    PG_TRY(lora(&rank, l, err));
    PG_TRY(pg__vars_add(out, "kernel", "W", rank == 0, 2, (uint64_t[]){any, units}, err));
    if (pg__config_bool(l, keras1 ? "bias" : "use_bias", 1))
        PG_TRY(pg__vars_add(out, "bias", "b", 1, 1, &units, err));
    if (rank) {
        PG_TRY(pg__vars_add(out, "lora_kernel_a", "", 1, 2, (uint64_t[]){any, rank}, err));
        PG_TRY(pg__vars_add(out, "lora_kernel_b", "", 1, 2, (uint64_t[]){rank, units}, err));
    }
done:
    return st;
}

/* The letters of the equation's second operand are the kernel's dimensions, those of bias_axes the
 * bias' (with ones between them). Sizes are not checked. */
pg_status pg__vars_einsum_dense(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const uint64_t dims[PG_MAX_RANK] = {any, any, any, any, any, any, any, any};
    const char *equation = pg__json_get_str(l->config, "equation");
    const char *comma = equation ? strchr(equation, ',') : NULL;
    uint32_t kernel_rank = 0;
    uint64_t rank;
    pg_status st = PG_OK;
    (void)dialect;
    if (!comma)
        PG_FAIL(PG_E_FORMAT, "%s: \"equation\" is not one of two operands", PG_SHOW(l->name));
    for (const char *p = comma + 1; *p && *p != '-'; p++)
        kernel_rank += (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
    if (kernel_rank > PG_MAX_RANK)
        PG_FAIL(PG_E_LIMIT,
                "%s: \"equation\" has a kernel of %u dimensions, which is not supported",
                PG_SHOW(l->name), kernel_rank);
    PG_TRY(lora(&rank, l, err));
    PG_TRY(pg__vars_add(out, "kernel", "", rank == 0, kernel_rank, dims, err));
    if (pg__config_has(l, "bias_axes"))
        PG_TRY(pg__vars_add_any(out, "bias", "", 1, err));
    if (rank) {
        PG_TRY(pg__vars_add_any(out, "lora_kernel_a", "", 1, err));
        PG_TRY(pg__vars_add_any(out, "lora_kernel_b", "", 1, err));
    }
done:
    return st;
}

pg_status pg__vars_embedding(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    uint64_t rows, columns, rank;
    pg_status st = PG_OK;
    (void)dialect;
    PG_TRY(pg__config_dim(&rows, l, "input_dim", err));
    PG_TRY(pg__config_dim(&columns, l, "output_dim", err));
    PG_TRY(lora(&rank, l, err));
    PG_TRY(pg__vars_add(out, "embeddings", "W", rank == 0, 2, (uint64_t[]){rows, columns}, err));
    if (rank) {
        PG_TRY(pg__vars_add(out, "lora_embeddings_a", "", 1, 2, (uint64_t[]){rows, rank}, err));
        PG_TRY(pg__vars_add(out, "lora_embeddings_b", "", 1, 2, (uint64_t[]){rank, columns}, err));
    }
done:
    return st;
}

pg_status pg__vars_maxout(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    uint64_t units, features;
    pg_status st = PG_OK;
    (void)dialect;
    PG_TRY(pg__config_dim(&units, l, "output_dim", err));
    PG_TRY(pg__config_dim(&features, l, "nb_feature", err));
    PG_TRY(pg__vars_add(out, "W", "", 1, 3, (uint64_t[]){features, any, units}, err));
    if (pg__config_bool(l, "bias", 1))
        PG_TRY(pg__vars_add(out, "b", "", 1, 2, (uint64_t[]){features, units}, err));
done:
    return st;
}

pg_status pg__vars_highway(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const uint64_t square[] = {any, any};
    pg_status st = PG_OK;
    (void)dialect;
    PG_TRY(pg__vars_add(out, "W", "", 1, 2, square, err));
    PG_TRY(pg__vars_add(out, "W_carry", "", 1, 2, square, err));
    if (pg__config_bool(l, "bias", 1)) {
        PG_TRY(pg__vars_add(out, "b", "", 1, 1, square, err));
        PG_TRY(pg__vars_add(out, "b_carry", "", 1, 1, square, err));
    }
done:
    return st;
}

pg_status pg__lower_dense(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                          pg__results *out, pg_err *err)
{
    const int keras1 = pg__config_has(l, "output_dim");
    pg__val operands[3] = {in[0], PG_NO_VAL, PG_NO_VAL};
    uint64_t units;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (pg__config_has(l, "lora_rank") || pg__config_has(l, "quantization_config"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: low-rank adapters and quantized kernels are not supported",
                PG_SHOW(l->name));
    PG_TRY(pg__config_dim(&units, l, keras1 ? "output_dim" : "units", err));
    const pg__dims *x = pg__dims_at(lw, in[0]);
    if (x->rank < 2 || x->d[x->rank - 1] == PG_DIM_ANY)
        PG_FAIL(PG_E_MISMATCH, "input %s needs a known last dimension", PG_SHAPE(x));
    const uint64_t kernel[] = {x->d[x->rank - 1], units};
    PG_TRY(pg__lower_param(lw, "kernel", 2, kernel, &operands[1], err));
    if (pg__config_bool(l, keras1 ? "bias" : "use_bias", 1))
        PG_TRY(pg__lower_param(lw, "bias", 1, &units, &operands[2], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_dense, NULL, operands, 3, &out->v[0], err));
    out->n = 1;
    PG_TRY(pg__lower_activation_of(lw, l, pg__json_get(l->config, "activation"), out->v[0],
                                   &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

/* Rows of the table. Ids may arrive as numbers; the mask is made of the ids. */
pg_status pg__lower_embedding(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                              pg__results *out, pg_err *err)
{
    double dropout = 0;
    uint64_t table[2];
    pg__val ids, weights, mask;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    (void)pg__json_num(pg__json_get(l->config, "dropout"), &dropout); /* Keras 1: whole words */
    if (pg__config_has(l, "lora_rank") || pg__config_has(l, "quantization_config") || dropout > 0)
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: low-rank adapters, quantized tables and dropout of words are not supported",
                PG_SHOW(l->name));
    PG_TRY(pg__config_dim(&table[0], l, "input_dim", err));
    PG_TRY(pg__config_dim(&table[1], l, "output_dim", err));
    PG_TRY(pg__lower_param(lw, "embeddings", 2, table, &weights, err));
    PG_TRY(pg__lower_as_ids(lw, in[0], &ids, err));
    PG_TRY(pg__emit2(&lw->to->tape, PG_OP_embedding, NULL, ids, weights, &out->v[0], err));
    out->n = 1;
    if (pg__config_bool(l, "mask_zero", 0)) {
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_mask_ids, NULL, ids, &mask, err));
        PG_TRY(pg__set_mask(lw, out->v[0], mask, err));
    }
done:
    return st;
}

/* Steps whose features all equal mask_value become zeros, and are masked. */
pg_status pg__lower_masking(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    pg__mask_attrs a = {.value = 0};
    pg__val mask;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (pg__config_has(l, "mask_value") &&
        !pg__json_num(pg__json_get(l->config, "mask_value"), &a.value))
        PG_FAIL(PG_E_FORMAT, "%s: \"mask_value\" is not a number", PG_SHOW(l->name));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_mask_steps, &a, in[0], &mask, err));
    PG_TRY(pg__emit2(&lw->to->tape, PG_OP_mask_rows, NULL, in[0], mask, &out->v[0], err));
    PG_TRY(pg__set_mask(lw, out->v[0], mask, err));
    out->n = 1;
done:
    return st;
}

/* x W + b of Keras 1, with these names. */
static pg_status product(pg__lowering *lw, const pg__layer *l, pg__val x, const char *kernel,
                         const char *bias, uint64_t units, pg__val *out, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, x);
    const uint64_t shape[] = {d->d[1], units};
    pg__val in[3] = {x, PG_NO_VAL, PG_NO_VAL};
    pg_status st = PG_OK;
    PG_TRY(pg__lower_param(lw, kernel, 2, shape, &in[1], err));
    if (pg__config_bool(l, "bias", 1))
        PG_TRY(pg__lower_param(lw, bias, 1, &units, &in[2], err));
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_dense, NULL, in, 3, out, err));
done:
    return st;
}

static pg_status check_vectors(const pg__lowering *lw, const pg__layer *l, const pg__val *in,
                               size_t n_in, pg_err *err)
{
    const pg__dims *d = pg__dims_at(lw, in[0]);
    const pg_status st = pg__lower_one_input(l, n_in, err);
    if (st == PG_OK && (d->rank != 2 || d->d[1] == PG_DIM_ANY))
        return pg_fail(err, PG_E_MISMATCH, "input %s is not (rows, features)", PG_SHAPE(d));
    return st;
}

/* t activation(x W + b) + (1 - t) x, where t = sigmoid(x W_carry + b_carry). */
pg_status pg__lower_highway(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    const pg__act_attrs sigmoid = {.kind = PG_ACT_SIGMOID};
    pg__val y, t, rest;
    pg_status st = PG_OK;
    PG_TRY(check_vectors(lw, l, in, n_in, err));
    const uint64_t units = pg__dims_at(lw, in[0])->d[1];
    PG_TRY(product(lw, l, in[0], "W_carry", "b_carry", units, &t, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_act, &sigmoid, t, &t, err));
    PG_TRY(product(lw, l, in[0], "W", "b", units, &y, err));
    PG_TRY(pg__lower_activation_of(lw, l, pg__json_get(l->config, "activation"), y, &y, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, y, t, &y, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_affine, &(pg__affine_attrs){-1, 1}, t, &rest, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, rest, in[0], &rest, err));
    out->n = 1;
    PG_TRY(pg__lower_binary(lw, PG_ADD, y, rest, &out->v[0], err));
done:
    return st;
}

/* The largest of several Dense layers, unit by unit. */
pg_status pg__lower_maxout(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                           pg__results *out, pg_err *err)
{
    const pg__transpose_attrs turned = {.perm = {1, 0, 2}};
    const pg__pool_attrs largest = {.rank = 1, .max = 1, .stride = {1, 1, 1}};
    uint64_t units, n;
    pg__val operands[3] = {in[0], PG_NO_VAL, PG_NO_VAL}, y;
    pg_status st = PG_OK;
    PG_TRY(check_vectors(lw, l, in, n_in, err));
    PG_TRY(pg__config_dim(&units, l, "output_dim", err));
    PG_TRY(pg__config_dim(&n, l, "nb_feature", err));
    const uint64_t rows = pg__dims_at(lw, in[0])->d[0], features = pg__dims_at(lw, in[0])->d[1],
                   all = pg__dim_mul(n, units);
    const pg__dims matrix = pg__dims_of(2, (const uint64_t[]){features, all}),
                   vector = pg__dims_of(1, &all),
                   apart = pg__dims_of(3, (const uint64_t[]){rows, n, units}),
                   to = pg__dims_of(2, (const uint64_t[]){rows, units});
    PG_TRY(pg__lower_param(lw, "W", 3, (const uint64_t[]){n, features, units}, &operands[1], err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_transpose, &turned, operands[1], &operands[1], err));
    PG_TRY(pg__lower_reshape(lw, operands[1], &matrix, &operands[1], err));
    if (pg__config_bool(l, "bias", 1)) {
        PG_TRY(pg__lower_param(lw, "b", 2, (const uint64_t[]){n, units}, &operands[2], err));
        PG_TRY(pg__lower_reshape(lw, operands[2], &vector, &operands[2], err));
    }
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_dense, NULL, operands, 3, &y, err));
    PG_TRY(pg__lower_reshape(lw, y, &apart, &y, err));
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_pool, &largest, y, &y, err));
    out->n = 1;
    PG_TRY(pg__lower_reshape(lw, y, &to, &out->v[0], err));
done:
    return st;
}
