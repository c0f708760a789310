/* symbolic.c - does a tape whose sizes are not known say what the model computes? Layers leave out
 * what they cannot compute then: a causal mask of unknown steps, the share of each in a mean. So
 * the model is lowered once more with sizes, and the two tapes must be the same but for these. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "onnx/onnx.h"

static int same_act(const pg__act_attrs *a, const pg__act_attrs *b)
{
    return a->kind == b->kind && a->a == b->a && a->b == b->b && a->c == b->c;
}

/* What the first leaves to the size may be anything in the other. */
static int same_pad(const pg__pad_attrs *a, const pg__pad_attrs *b, uint32_t rank)
{
    for (uint32_t k = 0; k < rank; k++)
        if ((a->before[k] != PG_PAD_REST && a->before[k] != b->before[k]) ||
            (a->after[k] != PG_PAD_REST && a->after[k] != b->after[k]))
            return 0;
    return 1;
}

static int same_constant(const pg__constant_attrs *a, const pg__constant_attrs *b)
{
    return pg__dims_equal(&a->shape, &b->shape) &&
           memcmp(a->values, b->values, (size_t)pg__dims_elems(&a->shape) * sizeof(double)) == 0;
}

static int same_conv(const pg__conv_attrs *a, const pg__conv_attrs *b)
{
    const size_t n = a->rank * sizeof *a->before;
    return a->same || (memcmp(a->before, b->before, n) == 0 && memcmp(a->after, b->after, n) == 0);
}

static int same_pool(const pg__pool_attrs *a, const pg__pool_attrs *b)
{
    const size_t n = a->rank * sizeof *a->before;
    return a->same || (memcmp(a->before, b->before, n) == 0 && memcmp(a->after, b->after, n) == 0);
}

/* Attributes that could follow from a size. */
static int same_attrs(const pg__inst *a, const pg__inst *b, uint32_t rank)
{
    switch (a->op->kind) {
    case PG_OP_act: return same_act(a->attrs, b->attrs);
    case PG_OP_affine: return memcmp(a->attrs, b->attrs, sizeof(pg__affine_attrs)) == 0;
    case PG_OP_constant: return same_constant(a->attrs, b->attrs);
    case PG_OP_conv:
    case PG_OP_conv_dx: return same_conv(a->attrs, b->attrs);
    case PG_OP_pad: return same_pad(a->attrs, b->attrs, rank);
    case PG_OP_pool: return same_pool(a->attrs, b->attrs);
    default: return 1;
    }
}

static int same_values(const pg__tape *a, const pg__inst *i, const pg__tape *b, const pg__inst *k)
{
    int same = i->n_in == k->n_in && i->n_out == k->n_out;
    for (uint32_t n = 0; same && n < i->n_in; n++)
        same = pg__in(a, i, n) == pg__in(b, k, n);
    for (uint32_t n = 0; same && n < i->n_out; n++)
        same = pg__out(a, i, n) == pg__out(b, k, n);
    return same;
}

/* The first instruction that differs, or the end. */
static uint32_t compare(const pg__tape *a, const pg__tape *b)
{
    uint32_t at = 0;
    for (; at < a->n_insts && at < b->n_insts; at++) {
        const pg__inst *i = &a->insts[at], *k = &b->insts[at];
        if (i->op != k->op || i->origin != k->origin || !same_values(a, i, b, k) ||
            !same_attrs(i, k, a->values[pg__out(a, i, 0)].shape.rank))
            break;
        for (uint32_t n = 0; n < i->n_out; n++)
            if (!pg__dims_fit(&a->values[pg__out(a, i, n)].shape,
                              &b->values[pg__out(b, k, n)].shape))
                return at;
    }
    return at;
}

/* ---- sizes that a model may take ---- */

/* Sizes that differ tell axes apart, and so do primes where axes are folded into one. But inputs
 * may have to agree, and a size may have to be even, or small, or large. */
typedef struct trial {
    enum { APART, BY_AXIS, ALIKE } as; /* each size its own; those of an axis; all have one */
    uint64_t least, times;             /* primes from the first on, times the other */
} trial;

static const trial trials[] = {{APART, 64, 1},   {APART, 256, 1},  {APART, 16, 1},
                               {APART, 5, 64},   {BY_AXIS, 64, 1}, {BY_AXIS, 256, 1},
                               {BY_AXIS, 16, 1}, {BY_AXIS, 5, 64}, {ALIKE, 64, 1},
                               {ALIKE, 256, 1},  {ALIKE, 16, 1}};
#define N_TRIALS   (sizeof trials / sizeof *trials)
#define MOST_KNOWN 16 /* sizes that inputs have */
#define ROWS       61 /* what no other size is */

/* The n-th; behind the table, what is open has a size that some input has. */
static int trial_at(trial *out, const pg__lowered *m, size_t n)
{
    size_t at = N_TRIALS;
    *out = trials[n < N_TRIALS ? n : 0];
    for (size_t k = 0; k < m->n_inputs && n >= at && at < N_TRIALS + MOST_KNOWN; k++) {
        const pg__dims *d = &m->tape.values[m->inputs[k]].shape;
        for (uint32_t a = 1; a < d->rank && n >= at; a++)
            if (d->d[a] != PG_DIM_ANY && at++ == n)
                *out = (trial){ALIKE, d->d[a], 1};
    }
    return n < at;
}

static uint64_t prime_from(uint64_t n)
{
    for (;; n++) {
        uint64_t d = 2;
        while (d * d <= n && n % d != 0)
            d++;
        if (d * d > n)
            return n;
    }
}

/* The n-th of them. */
static uint64_t size_of(const trial *t, uint32_t n)
{
    uint64_t size = t->as == ALIKE ? t->least : prime_from(t->least);
    for (; n > 0 && t->as != ALIKE; n--)
        size = prime_from(size + t->least / 2);
    return size * t->times;
}

/* The inputs' shapes with sizes in the place of what is not known; *any: something was not. */
static pg_status with_sizes(pg__dims **out, int *any, const pg__lowered *m, const trial *t,
                            pg_err *err)
{
    uint32_t n = 0;
    *any = 0;
    *out = pg__mem_array(m->n_inputs, sizeof **out);
    if (!*out)
        return pg__nomem(err);
    for (size_t k = 0; k < m->n_inputs; k++) {
        pg__dims *d = &(*out)[k];
        *d = m->tape.values[m->inputs[k]].shape;
        for (uint32_t a = 0; a < d->rank; a++)
            if (d->d[a] == PG_DIM_ANY) {
                d->d[a] = a == 0 ? ROWS : size_of(t, t->as == APART ? n++ : a - 1);
                *any = 1;
            }
    }
    return PG_OK;
}

void pg__onnx_hint_sizes(pg_err *err)
{
    pg_err_do(err, PG_DO_GIVE, NULL);
    pg_err_arg(err, "sizes", "N,...");
}

static pg_status refuse(const pg__lowered *m, const pg__leaves *leaves, uint32_t at, pg_err *err)
{
    const uint32_t origin = at < m->tape.n_insts ? m->tape.insts[at].origin : UINT32_MAX;
    (void)pg_fail(err, PG_E_UNSUPPORTED,
                  "%s: computes with a size that the model leaves open (None in its input's shape)",
                  origin < leaves->n ? PG_SHOW(leaves->v[origin].layer->name) : "the model");
    pg__onnx_hint_sizes(err);
    return PG_E_UNSUPPORTED;
}

static int leaves_open(const pg__tape *t)
{
    for (uint32_t v = 0; v < t->n_values; v++)
        if (pg__dims_elems(&t->values[v].shape) == PG_DIM_ANY)
            return 1;
    return 0;
}

/* Sizes do not go with the others. */
static int may_differ(pg_status st)
{
    return st == PG_E_MISMATCH || st == PG_E_UNSUPPORTED;
}

static pg_status try_sizes(pg__lowered *out, int *any, const pg__lowered *m,
                           const pg__lower_opts *opts, const trial *t, pg_err *err)
{
    pg__lower_opts known = *opts;
    pg__dims *shapes = NULL;
    pg_status st = PG_OK;
    PG_TRY(with_sizes(&shapes, any, m, t, err));
    known.inputs = shapes;
    known.n_rows = m->n_inputs ? shapes[0].d[0] : ROWS;
    if (*any)
        PG_TRY(pg__lower(out, &known, err));
    if (leaves_open(&out->tape)) {
        pg__lowered_fini(out);
        st = refuse(m, opts->leaves, m->tape.n_insts, err);
    }
done:
    pg__mem_free(shapes);
    return st;
}

pg_status pg__onnx_check_sizes(pg__lowered *sized, const pg__lowered *m, const pg__lower_opts *opts,
                               pg_err *err)
{
    int any = 0;
    trial t;
    pg_status st = PG_E_MISMATCH;
    for (size_t n = 0; may_differ(st) && trial_at(&t, m, n); n++)
        st = try_sizes(sized, &any, m, opts, &t, err);
    if (st == PG_OK && !any)
        return PG_OK;
    PG_TRY(st);
    const uint32_t at = compare(&m->tape, &sized->tape);
    if (at < m->tape.n_insts || at < sized->tape.n_insts)
        st = refuse(m, opts->leaves, at, err);
done:
    return st;
}
