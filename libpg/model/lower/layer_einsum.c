/* layer_einsum.c - EinsumDense: a kernel and a bias, and an equation of letters that says which
 * axes are summed over. Sources: keras/layers/core/einsum_dense.py of 2.15 and 3.6. Letters of
 * input and kernel are of four kinds: in both and in the result (a product for each), only in both
 * (summed over), in the input and the result, in the kernel and the result. With each kind side by
 * side, it is one matrix product, dense if the first kind is missing. */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

/* Axes by their letters. */
typedef struct axes {
    char letter[PG_MAX_RANK + 1];
    uint64_t size[PG_MAX_RANK];
    uint32_t n;
} axes;

typedef struct einsum {
    const pg__layer *l;
    axes in, kernel, out;
    uint32_t elided; /* axes of the input that "..." stands for */
    int left;        /* ... before the letters */
} einsum;

static pg_status no_equation(const einsum *e, pg_err *err)
{
    return pg_fail(err, PG_E_FORMAT,
                   "%s: \"equation\" is not one of two operands that Keras accepts",
                   PG_SHOW(e->l->name));
}

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *find(const axes *a, char letter)
{
    return memchr(a->letter, letter, a->n);
}

/* Letters from *at on, each once; *left, *right: "..." before and after them. */
static pg_status read_spec(const einsum *e, axes *a, const char **at, int *left, int *right,
                           pg_err *err)
{
    const char *p = *at;
    *left = strncmp(p, "...", 3) == 0;
    p += *left ? 3 : 0;
    for (a->n = 0; is_letter(*p); p++) {
        if (a->n == PG_MAX_RANK)
            return pg_fail(err, PG_E_LIMIT, "%s: \"equation\" has more than %d axes",
                           PG_SHOW(e->l->name), PG_MAX_RANK);
        if (find(a, *p))
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "%s: \"equation\" names an axis of one operand twice",
                           PG_SHOW(e->l->name));
        a->letter[a->n++] = *p;
    }
    *right = strncmp(p, "...", 3) == 0;
    *at = p + (*right ? 3 : 0);
    return a->n > 0 ? PG_OK : no_equation(e, err);
}

/* "...": letters of their own, '0' on. */
static pg_status add_elided(const einsum *e, axes *a, pg_err *err)
{
    const uint32_t at = e->left ? 0 : a->n;
    if (a->n + e->elided > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%s: \"equation\" has more than %d axes",
                       PG_SHOW(e->l->name), PG_MAX_RANK);
    memmove(a->letter + at + e->elided, a->letter + at, a->n - at);
    for (uint32_t i = 0; i < e->elided; i++)
        a->letter[at + i] = (char)('0' + i);
    a->n += e->elided;
    return PG_OK;
}

static pg_status read_equation(einsum *e, const pg__layer *l, uint32_t rank, pg_err *err)
{
    const char *p = pg__json_get_str(l->config, "equation");
    int left[3], right[3];
    pg_status st = PG_OK;
    *e = (einsum){.l = l};
    if (!p)
        return no_equation(e, err);
    PG_TRY(read_spec(e, &e->in, &p, &left[0], &right[0], err));
    if (*p++ != ',')
        PG_TRY(no_equation(e, err));
    PG_TRY(read_spec(e, &e->kernel, &p, &left[1], &right[1], err));
    if (strncmp(p, "->", 2) != 0)
        PG_TRY(no_equation(e, err));
    p += 2;
    PG_TRY(read_spec(e, &e->out, &p, &left[2], &right[2], err));
    e->left = left[0];
    if (*p || left[1] || right[1] || left[0] != left[2] || right[0] != right[2] ||
        (left[0] && right[0]))
        PG_TRY(no_equation(e, err));
    if (rank < e->in.n || (rank > e->in.n && !left[0] && !right[0]))
        PG_FAIL(PG_E_MISMATCH, "\"equation\" takes %u axes, the input has %u", e->in.n, rank);
    e->elided = rank - e->in.n;
    PG_TRY(add_elided(e, &e->in, err));
    PG_TRY(add_elided(e, &e->out, err));
    if (e->in.letter[0] != e->out.letter[0] || find(&e->kernel, e->in.letter[0]))
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: \"equation\" does not leave the rows of a batch where they are",
                PG_SHOW(l->name));
done:
    return st;
}

/* "output_shape" gives the sizes of the result's axes, except the first and those of "..."; the
 * sizes of input and kernel follow. null: as in the input. */
static pg_status find_sizes(pg__lowering *lw, einsum *e, const pg__dims *x, pg_err *err)
{
    const pg__json *shape = pg__json_get(e->l->config, "output_shape");
    const int is_list = pg__json_type_of(shape) == PG_J_ARRAY;
    const size_t given = is_list ? pg__json_len(shape) : 1;
    size_t next = 0;
    (void)lw;
    memcpy(e->in.size, x->d, sizeof e->in.size);
    if (given + 1 + e->elided - (e->left && e->elided > 0) != e->out.n)
        return pg_fail(err, PG_E_FORMAT,
                       "%s: \"output_shape\" has %zu sizes, which \"equation\" does not",
                       PG_SHOW(e->l->name), given);
    for (uint32_t i = 0; i < e->out.n; i++) {
        const char *same = find(&e->in, e->out.letter[i]);
        int64_t v = 0;
        const int is_given = i > 0 && is_letter(e->out.letter[i]);
        const pg__json *j = is_given ? is_list ? pg__json_at(shape, next++) : shape : NULL;
        const int fits = pg__json_int(j, &v) && v > 0 && v <= INT32_MAX;
        e->out.size[i] = same ? e->in.size[same - e->in.letter] : (uint64_t)v;
        if (same && (pg__json_type_of(j) <= PG_J_NULL ||
                     (fits && pg__dim_fits(e->out.size[i], (uint64_t)v))))
            continue;
        if (same || !fits || !find(&e->kernel, e->out.letter[i]))
            return pg_fail(err, PG_E_FORMAT, "%s: \"output_shape\" does not fit \"equation\"",
                           PG_SHOW(e->l->name));
    }
    for (uint32_t i = 0; i < e->kernel.n; i++) {
        const char *in = find(&e->in, e->kernel.letter[i]),
                   *out = find(&e->out, e->kernel.letter[i]);
        if (!in && !out)
            return pg_fail(err, PG_E_FORMAT,
                           "%s: \"equation\" does not say the size of kernel axis %u",
                           PG_SHOW(e->l->name), i);
        e->kernel.size[i] = in ? e->in.size[in - e->in.letter] : e->out.size[out - e->out.letter];
        if (e->kernel.size[i] == PG_DIM_ANY)
            return pg_fail(err, PG_E_MISMATCH, "input %s has an unknown size that the kernel needs",
                           PG_SHAPE(x));
    }
    return PG_OK;
}

/* The axes of `from` that are (or are not) in each of a and b, appended to *to. */
static void pick(axes *to, const axes *from, const axes *a, int in_a, const axes *b, int in_b)
{
    for (uint32_t i = 0; i < from->n; i++)
        if ((find(a, from->letter[i]) != NULL) == in_a &&
            (find(b, from->letter[i]) != NULL) == in_b) {
            to->letter[to->n] = from->letter[i];
            to->size[to->n++] = from->size[i];
        }
}

static uint64_t product(const axes *a)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < a->n; i++)
        n = pg__dim_mul(n, a->size[i]);
    return n;
}

static void append(axes *to, const axes *more)
{
    memcpy(to->letter + to->n, more->letter, more->n);
    memcpy(to->size + to->n, more->size, more->n * sizeof *more->size);
    to->n += more->n;
}

/* x with axes `from` in the order `to`. */
static pg_status order(pg__lowering *lw, pg__val *x, const axes *from, const axes *to, pg_err *err)
{
    uint32_t perm[PG_MAX_RANK] = {0};
    if (memcmp(from->letter, to->letter, from->n) == 0)
        return PG_OK;
    for (uint32_t i = 0; i < to->n; i++)
        perm[i] = (uint32_t)(find(from, to->letter[i]) - from->letter);
    return pg__lower_transpose(lw, *x, perm, x, err);
}

/* Axes that only the input has are summed first. */
static pg_status sum_own(pg__lowering *lw, einsum *e, pg__val *x, pg_err *err)
{
    pg__spread_attrs to = {.to = *pg__dims_at(lw, *x)};
    axes kept = {.n = 0};
    pg_status st = PG_OK;
    for (uint32_t i = 0; i < e->in.n; i++)
        if (find(&e->kernel, e->in.letter[i]) || find(&e->out, e->in.letter[i])) {
            kept.letter[kept.n] = e->in.letter[i];
            kept.size[kept.n++] = e->in.size[i];
        } else {
            to.to.d[i] = 1;
        }
    if (kept.n == e->in.n)
        return PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_sum_to, &to, *x, x, err));
    const pg__dims shape = pg__dims_of(kept.n, kept.size);
    PG_TRY(pg__lower_reshape(lw, *x, &shape, x, err));
    e->in = kept;
done:
    return st;
}

/* The kinds of axes, in the order of the result if they are in it. */
typedef struct kinds {
    axes each, rows, summed, columns;
} kinds;

static pg_status multiply(pg__lowering *lw, const einsum *e, const kinds *k, pg__val x, pg__val w,
                          pg__val *out, pg_err *err)
{
    const uint64_t each = product(&k->each), rows = product(&k->rows), summed = product(&k->summed),
                   columns = product(&k->columns);
    axes order_x = k->each, order_w = k->each, order_y = k->each;
    pg_status st = PG_OK;
    append(&order_x, &k->rows), append(&order_x, &k->summed);
    append(&order_w, &k->summed), append(&order_w, &k->columns);
    append(&order_y, &k->rows), append(&order_y, &k->columns);
    PG_TRY(order(lw, &x, &e->in, &order_x, err));
    PG_TRY(order(lw, &w, &e->kernel, &order_w, err));
    if (k->each.n > 0) {
        const pg__dims as_x = pg__dims_of(3, (const uint64_t[]){each, rows, summed}),
                       as_w = pg__dims_of(3, (const uint64_t[]){each, summed, columns});
        PG_TRY(pg__lower_reshape(lw, x, &as_x, &x, err));
        PG_TRY(pg__lower_reshape(lw, w, &as_w, &w, err));
        PG_TRY(pg__emit2(&lw->to->tape, PG_OP_matmul, &(pg__matmul_attrs){0, 0}, x, w, out, err));
    } else {
        const pg__dims as_w = pg__dims_of(2, (const uint64_t[]){summed, columns});
        pg__dims as_x = {.rank = k->rows.n + 1};
        memcpy(as_x.d, k->rows.size, sizeof k->rows.size);
        as_x.d[k->rows.n] = summed;
        if (as_x.rank > PG_MAX_RANK) /* nothing is summed: one more axis than Keras has */
            as_x = pg__dims_of(2, (const uint64_t[]){rows, summed});
        PG_TRY(pg__lower_reshape(lw, x, &as_x, &x, err));
        PG_TRY(pg__lower_reshape(lw, w, &as_w, &w, err));
        PG_TRY(pg__emit3(&lw->to->tape, PG_OP_dense, NULL, x, w, PG_NO_VAL, out, err));
    }
    const pg__dims as_y = pg__dims_of(order_y.n, order_y.size);
    PG_TRY(pg__lower_reshape(lw, *out, &as_y, out, err));
    PG_TRY(order(lw, out, &order_y, &e->out, err));
done:
    return st;
}

/* "bias_axes": from the first of them on, the bias has the result's axes, with 1 for those left
 * out. */
static pg_status add_bias(pg__lowering *lw, const einsum *e, pg__val *y, pg_err *err)
{
    const char *which = pg__json_get_str(e->l->config, "bias_axes");
    pg__dims shape = {.rank = 0};
    uint32_t n = 0;
    pg__val bias;
    pg_status st = PG_OK;
    if (!pg__config_has(e->l, "bias_axes"))
        return PG_OK;
    for (uint32_t i = 0; which && i < e->out.n; i++) {
        const uint32_t named =
            is_letter(e->out.letter[i]) && strchr(which, e->out.letter[i]) != NULL;
        n += named;
        if (n > 0)
            shape.d[shape.rank++] = named ? e->out.size[i] : 1;
        if (named && (i == 0 || e->out.size[i] == PG_DIM_ANY))
            PG_FAIL(PG_E_UNSUPPORTED, "%s: \"bias_axes\" name an axis of unknown size",
                    PG_SHOW(e->l->name));
    }
    if (n == 0 || n != strlen(which))
        PG_FAIL(PG_E_FORMAT, "%s: \"bias_axes\" are not axes of the result", PG_SHOW(e->l->name));
    PG_TRY(pg__lower_param(lw, "bias", shape.rank, shape.d, &bias, err));
    PG_TRY(pg__lower_binary(lw, PG_ADD, *y, bias, y, err));
done:
    return st;
}

pg_status pg__lower_einsum_dense(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                 size_t n_in, pg__results *out, pg_err *err)
{
    static const axes none = {.n = 0};
    kinds k = {.each = {.n = 0}};
    pg__val x = in[0], w;
    einsum e;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (pg__config_has(l, "lora_rank") || pg__config_has(l, "quantization_config"))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: low-rank adapters and quantized kernels are not supported",
                PG_SHOW(l->name));
    PG_TRY(read_equation(&e, l, pg__dims_at(lw, x)->rank, err));
    PG_TRY(find_sizes(lw, &e, pg__dims_at(lw, x), err));
    PG_TRY(pg__lower_param(lw, "kernel", e.kernel.n, e.kernel.size, &w, err));
    PG_TRY(sum_own(lw, &e, &x, err));
    pick(&k.each, &e.out, &e.in, 1, &e.kernel, 1);
    pick(&k.rows, &e.out, &e.in, 1, &e.kernel, 0);
    pick(&k.columns, &e.out, &e.in, 0, &none, 0);
    pick(&k.summed, &e.in, &e.kernel, 1, &e.out, 0);
    out->n = 1;
    PG_TRY(multiply(lw, &e, &k, x, w, &out->v[0], err));
    PG_TRY(add_bias(lw, &e, &out->v[0], err));
    PG_TRY(pg__lower_activation_of(lw, l, pg__json_get(l->config, "activation"), out->v[0],
                                   &out->v[0], err));
done:
    return st;
}
