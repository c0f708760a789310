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

/* The first instruction that differs, or the end. */
static uint32_t compare(const pg__tape *a, const pg__tape *b)
{
    uint32_t at = 0;
    for (; at < a->n_insts && at < b->n_insts; at++) {
        const pg__inst *i = &a->insts[at], *k = &b->insts[at];
        if (i->op != k->op || i->n_in != k->n_in || i->origin != k->origin ||
            !same_attrs(i, k, a->values[pg__out(a, i, 0)].shape.rank))
            break;
        for (uint32_t n = 0; n < i->n_out; n++)
            if (!pg__dims_fit(&a->values[pg__out(a, i, n)].shape,
                              &b->values[pg__out(b, k, n)].shape))
                return at;
    }
    return at;
}

/* The inputs' shapes with `size` in the place of what is not known; *any: something was not. */
static pg_status with_size(pg__dims **out, int *any, const pg__lowered *m, uint64_t size,
                           pg_err *err)
{
    *any = 0;
    *out = pg__mem_array(m->n_inputs, sizeof **out);
    if (!*out)
        return pg__nomem(err);
    for (size_t k = 0; k < m->n_inputs; k++) {
        pg__dims *d = &(*out)[k];
        *d = m->tape.values[m->inputs[k]].shape;
        for (uint32_t a = 0; a < d->rank; a++)
            if (d->d[a] == PG_DIM_ANY) {
                d->d[a] = a ? size : 2;
                *any = 1;
            }
    }
    return PG_OK;
}

static pg_status refuse(const pg__lowered *m, const pg__leaves *leaves, uint32_t at, pg_err *err)
{
    const uint32_t origin = at < m->tape.n_insts ? m->tape.insts[at].origin : 0;
    (void)pg_fail(err, PG_E_UNSUPPORTED,
                  "%s: computes with a size that the model leaves open (None in its input's shape)",
                  origin < leaves->n ? PG_SHOW(leaves->v[origin].layer->name) : "the model");
    pg_err_do(err, PG_DO_GIVE, NULL);
    pg_err_arg(err, "sizes", "N,...");
    return PG_E_UNSUPPORTED;
}

/* Lowers with a size; PG_E_MISMATCH: it does not go with the others. */
static pg_status try_size(pg__lowered *out, int *any, const pg__lowered *m,
                          const pg__lower_opts *opts, uint64_t size, pg_err *err)
{
    pg__lower_opts known = *opts;
    pg__dims *shapes = NULL;
    pg_status st = PG_OK;
    PG_TRY(with_size(&shapes, any, m, size, err));
    known.inputs = shapes;
    known.n_rows = m->n_inputs ? shapes[0].d[0] : 2;
    if (*any)
        PG_TRY(pg__lower(out, &known, err));
done:
    pg__mem_free(shapes);
    return st;
}

pg_status pg__onnx_check_sizes(const pg__lowered *m, const pg__lower_opts *opts, pg_err *err)
{
    uint64_t sizes[16] = {64, 256, 16}; /* one may be too small, or differ from what is known */
    size_t n = 3;
    pg__lowered other = {.n_outputs = 0};
    int any = 0;
    pg_status st = PG_E_MISMATCH;
    for (size_t k = 0; k < m->n_inputs; k++) {
        const pg__dims *d = &m->tape.values[m->inputs[k]].shape;
        for (uint32_t a = 1; a < d->rank; a++)
            if (d->d[a] != PG_DIM_ANY && n < sizeof sizes / sizeof *sizes)
                sizes[n++] = d->d[a];
    }
    for (size_t k = 0; k < n && st == PG_E_MISMATCH; k++)
        st = try_size(&other, &any, m, opts, sizes[k], err);
    if (st == PG_OK && !any)
        return PG_OK;
    PG_TRY(st);
    const uint32_t at = compare(&m->tape, &other.tape);
    if (at < m->tape.n_insts || at < other.tape.n_insts)
        st = refuse(m, opts->leaves, at, err);
done:
    pg__lowered_fini(&other);
    return st;
}
