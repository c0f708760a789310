/* layer_category.c - turns numbers into categories: CategoryEncoding, Discretization, Hashing,
 * IntegerLookup. Sources: keras/layers/preprocessing of 2.15 and 3.6. There is no gradient with
 * respect to the category, only to the weights of a count. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

#define LARGEST_KEY 16777216 /* whole numbers beyond it are not all apart as floats */

static pg__tape *tape(pg__lowering *lw)
{
    return &lw->to->tape;
}

/* x's shape with another axis after the last. */
static pg_status with_axis(const pg__dims *x, uint64_t n, pg__dims *out, pg_err *err)
{
    if (x->rank + 2 > PG_MAX_RANK)
        return pg_fail(err, PG_E_MISMATCH, "input %s has too many dimensions", PG_SHAPE(x));
    *out = *x;
    out->d[out->rank++] = n;
    return PG_OK;
}

/* 1 where v is 0, else 0. */
static pg_status is_zero(pg__lowering *lw, pg__val v, pg__val *out, pg_err *err)
{
    const pg__mask_attrs zero = {0};
    const pg__affine_attrs opposite = {-1, 1};
    pg__dims alone;
    pg_status st = PG_OK;
    PG_TRY(with_axis(pg__dims_at(lw, v), 1, &alone, err));
    PG_TRY(pg__lower_reshape(lw, v, &alone, &v, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_mask_steps, &zero, v, out, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &opposite, *out, out, err));
done:
    return st;
}

/* x - keys[k] along a new last axis. */
static pg_status less_each(pg__lowering *lw, pg__val x, const double *keys, uint64_t n,
                           pg__val *out, pg_err *err)
{
    const pg__dims list = pg__dims_of(1, &n);
    pg__dims alone;
    pg__val k;
    pg_status st = PG_OK;
    PG_TRY(with_axis(pg__dims_at(lw, x), 1, &alone, err));
    PG_TRY(pg__lower_reshape(lw, x, &alone, &x, err));
    PG_TRY(pg__lower_constant(lw, &list, keys, &k, err));
    PG_TRY(pg__lower_binary(lw, PG_SUBTRACT, x, k, out, err));
done:
    return st;
}

/* 1 where x is keys[k], along a new last axis. */
static pg_status equal_to(pg__lowering *lw, pg__val x, const double *keys, uint64_t n, pg__val *out,
                          pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(less_each(lw, x, keys, n, out, err));
    PG_TRY(is_zero(lw, *out, out, err));
done:
    return st;
}

/* The sum over axis `axis`, which goes. */
static pg_status sum_over(pg__lowering *lw, pg__val x, uint32_t axis, pg__val *out, pg_err *err)
{
    pg__spread_attrs one = {.to = *pg__dims_at(lw, x)};
    pg__dims to = one.to;
    pg_status st = PG_OK;
    one.to.d[axis] = 1;
    for (uint32_t i = axis + 1; i < to.rank; i++)
        to.d[i - 1] = to.d[i];
    to.rank--;
    PG_TRY(pg__emit1(tape(lw), PG_OP_sum_to, &one, x, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &to, out, err));
done:
    return st;
}

/* ---- what becomes of a category ---- */

typedef enum mode { AS_INT, ONE_HOT, MULTI_HOT, COUNT } mode;

static pg_status read_mode(mode *out, const pg__layer *l, mode fallback, pg_err *err)
{
    static const char *const names[] = {"int", "one_hot", "multi_hot", "count"};
    const char *name = pg__json_get_str(l->config, "output_mode");
    if (pg__config_bool(l, "sparse", 0))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: \"sparse\" results are not supported",
                       PG_SHOW(l->name));
    *out = fallback;
    if (!pg__config_has(l, "output_mode"))
        return PG_OK;
    if (name && strcmp(name, "binary") == 0)
        name = "multi_hot";
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (mode)i;
            return PG_OK;
        }
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "%s: \"output_mode\" is %s; it must be one of int, one_hot, multi_hot, count",
                   PG_SHOW(l->name), name ? PG_SHOW(name) : "not a text");
}

/* x holds numbers from 0 to depth - 1; others belong to no category. */
static pg_status encode(pg__lowering *lw, const pg__layer *l, mode how, pg__val x, uint64_t depth,
                        pg__val weights, pg__val *out, pg_err *err)
{
    const pg__dims d = *pg__dims_at(lw, x), scalar = pg__dims_of(1, (const uint64_t[]){1});
    const int alone = d.rank > 1 && d.d[d.rank - 1] == 1;
    const double one = 1;
    double *keys = NULL;
    pg__dims wide;
    pg__val most;
    pg_status st = PG_OK;
    *out = x;
    if (how == AS_INT)
        return PG_OK;
    if (how != ONE_HOT && d.rank != 2)
        PG_FAIL(PG_E_MISMATCH, "\"output_mode\" takes two dimensions, not %s", PG_SHAPE(&d));
    if (depth == 0 || depth > PG_LIMIT_CATEGORIES)
        PG_FAIL(PG_E_LIMIT, "%s: %llu categories, at most %d are supported", PG_SHOW(l->name),
                (unsigned long long)depth, PG_LIMIT_CATEGORIES);
    keys = pg__mem_array((size_t)depth, sizeof *keys);
    if (!keys)
        PG_TRY(pg__nomem(err));
    for (uint64_t i = 0; i < depth; i++)
        keys[i] = (double)i;
    PG_TRY(equal_to(lw, x, keys, depth, out, err));
    if (weights != PG_NO_VAL) {
        PG_TRY(with_axis(pg__dims_at(lw, weights), 1, &wide, err));
        PG_TRY(pg__lower_reshape(lw, weights, &wide, &weights, err));
        PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, *out, weights, out, err));
    }
    if (how != ONE_HOT || alone)
        PG_TRY(sum_over(lw, *out, d.rank - 1, out, err));
    if (how == MULTI_HOT) {
        PG_TRY(pg__lower_constant(lw, &scalar, &one, &most, err));
        PG_TRY(pg__lower_binary(lw, PG_MINIMUM, *out, most, out, err));
    }
done:
    pg__mem_free(keys);
    return st;
}

/* Fractions are cut off. */
static pg_status whole(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    const pg_status st = pg__lower_as_ids(lw, x, out, err);
    return st == PG_OK ? pg__lower_as_real(lw, *out, out, err) : st;
}

pg_status pg__lower_category_encoding(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                      size_t n_in, pg__results *out, pg_err *err)
{
    const char *key = pg__config_has(l, "max_tokens") ? "max_tokens" : "num_tokens";
    uint64_t depth;
    mode how;
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(read_mode(&how, l, MULTI_HOT, err));
    PG_TRY(pg__config_dim(&depth, l, key, err));
    const pg__val weights = pg__operand(lw, in, n_in, "count_weights", 1);
    if (how == AS_INT || n_in > 2 || (n_in == 2 && (weights == PG_NO_VAL || how != COUNT)))
        PG_FAIL(PG_E_FORMAT, "%s: \"output_mode\" does not fit a call with %zu tensors",
                PG_SHOW(l->name), n_in);
    PG_TRY(whole(lw, in[0], &x, err));
    out->n = 1;
    PG_TRY(encode(lw, l, how, x, depth, weights, &out->v[0], err));
done:
    return st;
}

/* The number of buckets counts that of the mask. */
pg_status pg__lower_hashing(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                            pg__results *out, pg_err *err)
{
    pg__hash_attrs a = {.has_mask = pg__config_has(l, "mask_value")};
    int64_t mask = 0;
    uint64_t n;
    mode how;
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_mode(&how, l, AS_INT, err));
    PG_TRY(pg__config_dim(&n, l, "num_bins", err));
    if (pg__config_has(l, "salt"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"salt\" is not supported", PG_SHOW(l->name));
    if (a.has_mask && (!pg__json_int(pg__json_get(l->config, "mask_value"), &mask) ||
                       mask < INT32_MIN || mask > INT32_MAX))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"mask_value\" is not a number", PG_SHOW(l->name));
    if (n >= LARGEST_KEY)
        PG_FAIL(PG_E_LIMIT, "%s: \"num_bins\" is %llu, at most %d are supported", PG_SHOW(l->name),
                (unsigned long long)n, LARGEST_KEY - 1);
    a.has_mask = a.has_mask && n > 1;
    a.mask = (int32_t)mask;
    a.buckets = n - (a.has_mask ? 1 : 0);
    PG_TRY(pg__lower_as_ids(lw, in[0], &x, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_hash_ids, &a, x, &x, err));
    out->n = 1;
    PG_TRY(encode(lw, l, how, x, n, PG_NO_VAL, &out->v[0], err));
done:
    return st;
}

/* ---- tables of the config ---- */

/* config.key as numbers; fresh memory. */
static pg_status read_list(double **out, uint64_t *n, const pg__layer *l, const char *key,
                           pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, key);
    pg_status st = PG_OK;
    *out = NULL;
    *n = pg__json_len(j);
    if (pg__json_type_of(j) != PG_J_ARRAY || *n > PG_LIMIT_CATEGORIES)
        PG_FAIL(PG_E_FORMAT, "%s: \"%s\" is not a list of at most %d numbers", PG_SHOW(l->name),
                key, PG_LIMIT_CATEGORIES);
    *out = pg__mem_array((size_t)*n, sizeof **out);
    if (!*out)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < *n; i++)
        if (!pg__json_num(pg__json_at(j, i), &(*out)[i]))
            PG_FAIL(PG_E_FORMAT, "%s: \"%s\" is not a list of numbers", PG_SHOW(l->name), key);
done:
    return st;
}

/* Number of boundaries that x has reached: those that are at most x. */
static pg_status reached(pg__lowering *lw, pg__val x, const double *at, uint64_t n, pg__val *out,
                         pg_err *err)
{
    const pg__dims scalar = pg__dims_of(1, (const uint64_t[]){1});
    const double none = 0;
    pg__val zero;
    pg_status st = PG_OK;
    PG_TRY(less_each(lw, x, at, n, out, err));
    PG_TRY(pg__lower_constant(lw, &scalar, &none, &zero, err));
    PG_TRY(pg__lower_binary(lw, PG_MINIMUM, *out, zero, out, err));
    PG_TRY(is_zero(lw, *out, out, err));
    PG_TRY(sum_over(lw, *out, pg__dims_at(lw, *out)->rank - 1, out, err));
done:
    return st;
}

pg_status pg__lower_discretization(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                   size_t n_in, pg__results *out, pg_err *err)
{
    const char *key = pg__config_has(l, "bins") ? "bins" : "bin_boundaries";
    const pg__affine_attrs nothing = {0, 0};
    double *at = NULL;
    uint64_t n;
    mode how;
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_mode(&how, l, AS_INT, err));
    if (!pg__config_has(l, key))
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: boundaries that adapt() found are not part of the model's config",
                PG_SHOW(l->name));
    PG_TRY(read_list(&at, &n, l, key, err));
    for (uint64_t i = 0; i < n; i++)
        at[i] = (double)(float)at[i];
    PG_TRY(n > 0 ? reached(lw, in[0], at, n, &x, err)
                 : pg__emit1(tape(lw), PG_OP_affine, &nothing, in[0], &x, err));
    out->n = 1;
    PG_TRY(encode(lw, l, how, x, n + 1, PG_NO_VAL, &out->v[0], err));
done:
    pg__mem_free(at);
    return st;
}

/* ---- IntegerLookup ---- */

typedef struct lookup {
    mode how;
    double *keys; /* all of the list */
    uint64_t n, first;
    int64_t unknown;  /* numbers for what is not in the list: 0 or 1 of them */
    int64_t has_mask; /* number 0 is for the mask's token */
    double mask, oov;
} lookup;

/* Special tokens: that of the mask, then that of unknown values. Lists may begin with them. */
static void skip_special(lookup *t)
{
    const uint64_t n = (uint64_t)(t->has_mask + t->unknown);
    int same = t->n >= n && n > 0;
    for (uint64_t i = 0; same && i < n; i++)
        same = t->keys[i] == (t->has_mask && i == 0 ? t->mask : t->oov);
    t->first = same ? n : 0;
}

static int compare_keys(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* A number that occurs twice would have two positions, which would be added up. */
static pg_status check_apart(const lookup *t, const pg__layer *l, pg_err *err)
{
    double *sorted = pg__mem_array((size_t)t->n, sizeof *sorted);
    pg_status st = PG_OK;
    if (!sorted)
        return pg__nomem(err);
    memcpy(sorted, t->keys, (size_t)t->n * sizeof *sorted);
    qsort(sorted, (size_t)t->n, sizeof *sorted, compare_keys);
    for (uint64_t i = 1; i < t->n; i++)
        if (sorted[i] == sorted[i - 1])
            PG_FAIL(PG_E_FORMAT, "%s: \"vocabulary\" holds %g twice", PG_SHOW(l->name), sorted[i]);
done:
    pg__mem_free(sorted);
    return st;
}

static pg_status read_lookup(lookup *t, const pg__layer *l, pg_err *err)
{
    pg_status st = PG_OK;
    *t = (lookup){.unknown = 1, .oov = -1};
    PG_TRY(read_mode(&t->how, l, AS_INT, err));
    if (pg__config_bool(l, "invert", 0))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"invert\" is not supported", PG_SHOW(l->name));
    if (!pg__config_has(l, "vocabulary"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: its vocabulary is not part of the model's config",
                PG_SHOW(l->name));
    if (pg__config_has(l, "num_oov_indices") &&
        !pg__json_int(pg__json_get(l->config, "num_oov_indices"), &t->unknown))
        t->unknown = -1;
    if (t->unknown != 0 && t->unknown != 1)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"num_oov_indices\" other than 0 and 1 is not supported",
                PG_SHOW(l->name));
    t->has_mask = pg__config_has(l, "mask_token");
    if (t->has_mask && t->how != AS_INT)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"mask_token\" is supported only if \"output_mode\" is int",
                PG_SHOW(l->name));
    PG_TRY(pg__config_num_or(&t->mask, l, l->config, "mask_token", 0, err));
    PG_TRY(pg__config_num_or(&t->oov, l, l->config, "oov_token", -1, err));
    PG_TRY(read_list(&t->keys, &t->n, l, "vocabulary", err));
    for (uint64_t i = 0; i < t->n; i++)
        if (!(fabs(t->keys[i]) < LARGEST_KEY))
            PG_FAIL(PG_E_UNSUPPORTED,
                    "%s: \"vocabulary\" holds numbers of %d and more, which are not supported",
                    PG_SHOW(l->name), LARGEST_KEY);
    PG_TRY(check_apart(t, l, err));
    skip_special(t);
    if (t->first == t->n)
        PG_FAIL(PG_E_FORMAT, "%s: \"vocabulary\" is empty", PG_SHOW(l->name));
done:
    return st;
}

/* What is not found is number `missing`; key k is `base` + k. */
static pg_status find_keys(const lookup *t, pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    const double missing = t->unknown ? (double)t->has_mask : -1;
    const double base = (double)(t->has_mask + t->unknown);
    const uint64_t n = t->n - t->first;
    const pg__dims column = pg__dims_of(2, (const uint64_t[]){n, 1}), d = *pg__dims_at(lw, x);
    const pg__affine_attrs shift = {1, missing}, mask = {-missing, 0};
    double *numbers = pg__mem_array((size_t)n, sizeof *numbers);
    pg__val w, masked;
    pg_status st = PG_OK;
    if (!numbers)
        return pg__nomem(err);
    for (uint64_t i = 0; i < n; i++)
        numbers[i] = base + (double)i - missing;
    PG_TRY(equal_to(lw, x, t->keys + t->first, n, out, err));
    PG_TRY(pg__lower_constant(lw, &column, numbers, &w, err));
    PG_TRY(pg__emit2(tape(lw), PG_OP_dense, NULL, *out, w, out, err));
    PG_TRY(pg__lower_reshape(lw, *out, &d, out, err));
    PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &shift, *out, out, err));
    if (t->has_mask) {
        PG_TRY(equal_to(lw, x, &t->mask, 1, &masked, err));
        PG_TRY(pg__lower_reshape(lw, masked, &d, &masked, err));
        PG_TRY(pg__emit1(tape(lw), PG_OP_affine, &mask, masked, &masked, err));
        PG_TRY(pg__lower_binary(lw, PG_ADD, *out, masked, out, err));
    }
done:
    pg__mem_free(numbers);
    return st;
}

pg_status pg__lower_integer_lookup(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                   size_t n_in, pg__results *out, pg_err *err)
{
    lookup t = {.keys = NULL};
    uint64_t depth;
    pg__val x;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    PG_TRY(read_lookup(&t, l, err));
    depth = t.n - t.first + (uint64_t)(t.has_mask + t.unknown);
    if (pg__config_bool(l, "pad_to_max_tokens", 0))
        PG_TRY(pg__config_dim_or(&depth, l, "max_tokens", depth, err));
    PG_TRY(whole(lw, in[0], &x, err));
    PG_TRY(find_keys(&t, lw, x, &x, err));
    out->n = 1;
    PG_TRY(encode(lw, l, t.how, x, depth, PG_NO_VAL, &out->v[0], err));
done:
    pg__mem_free(t.keys);
    return st;
}
