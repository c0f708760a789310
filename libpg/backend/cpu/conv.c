/* conv.c - convolutions and their gradients as kernels of the CPU: derives the geometry from an
 * instruction, and finds the first implementation that supports it. */
#include "backend/cpu/conv.h"

#include <math.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"

extern const pg__conv_way pg__conv_int8, pg__conv_wino, pg__conv_narrow, pg__conv_depthwise_lines,
    pg__conv_depthwise, pg__conv_matmul;
#ifdef PG_HAVE_ONEDNN
extern const pg__conv_way pg__conv_dnnl;
#endif

/* In the order in which they are tried. */
static const pg__conv_way *const ways[] = {
    &pg__conv_int8,
    &pg__conv_wino,
    &pg__conv_narrow,
    &pg__conv_depthwise_lines,
    &pg__conv_depthwise,
    &pg__conv_matmul,
#ifdef PG_HAVE_ONEDNN
    &pg__conv_dnnl,
#endif
    NULL,
};

extern const pg__conv_kernels pg__conv_kernels_f32;
#ifdef PG_HAVE_X86_ISAS
extern const pg__conv_kernels pg__conv_kernels_avx2, pg__conv_kernels_avx512;
#endif

static const pg__conv_kernels *kernels_of(pg__isa isa)
{
#ifdef PG_HAVE_X86_ISAS
    if (isa != PG_ISA_BASE)
        return isa == PG_ISA_AVX512 ? &pg__conv_kernels_avx512 : &pg__conv_kernels_avx2;
#endif
    (void)isa;
    return &pg__conv_kernels_f32;
}

enum { PLUS = 7 }; /* which operand of conv_norm */

typedef struct kernel {
    pg__conv c;
    const pg__conv_way *way;
    void *state;
    int packs, shares; /* the kernel's cells are reordered: in every run, or once for all */
    int w_is_param;
    size_t packed_bytes;
    const pg__conv_norm_attrs *norm; /* the normalisation; or NULL */
    size_t folded_bytes;             /* kernel and bias that include it, before the packed data */
    pg__ref_fn add, act;             /* after it, each or NULL */
    size_t n_y;                      /* numbers of y */
    size_t at_x, at_w, at_b, at_y;   /* which operand or result is which */
} kernel;

static size_t n_weights(const pg__conv *c)
{
    return pg__conv_cells(c->k) * (c->in / c->groups) * c->out;
}

static size_t last(const pg__dims *s)
{
    return (size_t)s->d[s->rank - 1];
}

static int is_normed(const pg__cpu_inst *i)
{
    return i->inst->op == pg__op_of(PG_OP_conv_norm);
}

/* The kernel includes the normalisation, in float32. */
static pg__numbers numbers_of_norm(const pg__cpu_inst *i)
{
    return i->tape->in_int8 ? PG_NUMBERS_INT8 : PG_NUMBERS_F32;
}

static pg__conv conv_of(const pg__cpu_inst *i, pg__conv_pass pass)
{
    const pg__conv_attrs *a = i->attrs;
    /* The forward pass may have no place for the bias. */
    const size_t n_in = i->inst->n_in;
    const pg__dims *x = &i->shapes[pass == PG_CONV_X ? n_in : 0];
    const pg__dims *y = &i->shapes[pass == PG_CONV_Y ? n_in : pass == PG_CONV_X ? 0 : 1];
    pg__conv c = {.pass = pass,
                  .has_bias = pass == PG_CONV_Y && (pg__cpu_has(i, 2) || is_normed(i)),
                  .isa = i->isa,
                  .numbers = is_normed(i) ? numbers_of_norm(i) : pg__cpu_numbers(i),
                  .kernels = kernels_of(i->isa),
                  .how = i->opts->conv,
                  .is_lane = i->opts->deterministic,
                  .rows = (size_t)x->d[0],
                  .in = last(x),
                  .out = last(y),
                  .groups = (size_t)a->groups};
    for (uint32_t d = 0; d < 3; d++) {
        const int used = d + a->rank >= 3;
        const uint32_t from = d + a->rank - 3;
        c.x[d] = used ? (size_t)x->d[from + 1] : 1;
        c.y[d] = used ? (size_t)y->d[from + 1] : 1;
        c.k[d] = used ? (size_t)a->kernel[from] : 1;
        c.stride[d] = used ? (size_t)a->stride[from] : 1;
        c.dilation[d] = used ? (size_t)a->dilation[from] : 1;
        c.before[d] = used ? (size_t)a->before[from] : 0;
        c.after[d] = used ? (size_t)a->after[from] : 0;
    }
    return c;
}

static void release(void *state)
{
    kernel *k = state;
    if (k->state)
        k->way->release(k->state);
    pg__mem_free(k);
}

/* If a sum comes before a range, the code that makes the sum also applies the range. */
static pg_status find_way(kernel *k, pg__needs *needs, pg_err *err)
{
    for (const pg__conv_way *const *w = ways; *w; w++) {
        pg__conv c = k->c;
        *needs = (pg__needs){0};
        k->way = *w;
        c.range.is_used &= !c.has_plus || (*w)->adds;
        const pg_status st = (*w)->prepare(&k->state, &c, needs, err);
        if (st != PG_OK || k->state)
            return st;
    }
    return PG_OK;
}

static size_t whole(size_t n_bytes)
{
    return (n_bytes + 63) / 64 * 64;
}

/* conv(x, w, b) = y, conv_dx(y, w) = x, conv_dw(x, y) = w, b */
static void find_places(kernel *k, size_t n_in)
{
    const pg__conv_pass p = k->c.pass;
    k->at_x = p == PG_CONV_X ? n_in : 0;
    k->at_w = p == PG_CONV_W ? n_in : 1;
    k->at_b = p == PG_CONV_W ? n_in + 1 : 2;
    k->at_y = p == PG_CONV_Y ? n_in : p == PG_CONV_X ? 0 : 1;
}

/* The folded kernel and bias change only when parameters do. */
static int is_constant(const pg__cpu_inst *i)
{
    for (size_t v = 1; v < PLUS && v < i->inst->n_in; v++)
        if (pg__cpu_has(i, v) && !pg__cpu_is_param(i, v))
            return 0;
    return 1;
}

static void plan_norm(kernel *k, const pg__cpu_inst *i)
{
    const pg__conv_norm_attrs *a = i->attrs;
    k->norm = a;
    if (k->c.has_plus && !k->way->adds)
        k->add = pg__cpu_fn(pg__op_of(PG_OP_add), i->isa);
    if (a->has_act && (k->add || !k->c.range.is_used || !k->way->keeps_range))
        k->act = pg__cpu_fn(pg__op_of(PG_OP_act), i->isa);
    k->n_y = (size_t)pg__dims_elems(&i->shapes[i->inst->n_in]);
    k->folded_bytes = whole((n_weights(&k->c) + k->c.out) * sizeof(float));
}

/* The activation after a normalisation, if it only limits the range. */
static pg__range range_of(const pg__conv_norm_attrs *a)
{
    const pg__act_attrs *act = &a->act;
    const int is_used = a->has_act && act->kind == PG_ACT_RELU && act->b == 0 && act->c == 0;
    return (pg__range){is_used, 0, is_used ? (float)act->a : 0};
}

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__conv_pass pass, pg__needs *needs,
                         pg_err *err)
{
    pg_status st = PG_OK;
    kernel *k = pg__mem_array(1, sizeof *k);
    if (!k)
        return pg__nomem(err);
    k->c = conv_of(i, pass);
    if (pg__conv_cells(k->c.x) * k->c.rows * pg__conv_cells(k->c.y) == 0 ||
        (is_normed(i) && !is_constant(i)))
        goto done;
    if (is_normed(i)) {
        k->c.is_constant = 1;
        k->c.range = range_of(i->attrs);
        k->c.has_plus = i->inst->n_in > PLUS && pg__cpu_has(i, PLUS);
    }
    find_places(k, i->inst->n_in);
    PG_TRY(find_way(k, needs, err));
    if (!k->state)
        goto done;
    k->packs = needs->shared_bytes > 0;
    k->w_is_param = pass != PG_CONV_W && pg__cpu_is_param(i, 1);
    k->shares = k->packs && k->w_is_param;
    k->packed_bytes = whole(needs->shared_bytes);
    if (is_normed(i)) {
        plan_norm(k, i);
        needs->shared_bytes = k->folded_bytes + k->packed_bytes;
    } else if (k->packs && !k->shares) {
        needs->shared_bytes = 0;
        needs->scratch_bytes += k->packed_bytes;
    }
    *state = k;
    k = NULL;
done:
    if (k)
        release(k);
    return st;
}

static pg_status prepare_y(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return prepare(state, i, PG_CONV_Y, needs, err);
}
static pg_status prepare_x(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return prepare(state, i, PG_CONV_X, needs, err);
}
static pg_status prepare_w(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return prepare(state, i, PG_CONV_W, needs, err);
}

/* A kernel that each lane computes for itself is not the same for all of them. */
static pg_status prepare_lanes(void **state, const void *one, size_t n, size_t *scratch_bytes,
                               pg_err *err)
{
    const kernel *of = one;
    kernel *k = NULL;
    pg_status st = PG_OK;
    if (!of->way->prepare_lanes || (of->c.pass != PG_CONV_W && !of->w_is_param))
        return PG_OK;
    k = pg__mem_array(1, sizeof *k);
    if (!k)
        return pg__nomem(err);
    *k = *of;
    k->state = NULL;
    PG_TRY(of->way->prepare_lanes(&k->state, of->state, n, scratch_bytes, err));
    if (k->state) {
        *state = k;
        k = NULL;
    }
done:
    if (k)
        release(k);
    return st;
}

static void share(const void *state, void *const *args, void *shared)
{
    const kernel *k = state;
    k->way->pack(k->state, args[1], shared);
}

/* args: x, kernel, bias, mean, variance, gamma, beta (plus). In double, so that rounding is no
 * larger than that of the result. */
static void share_norm(const void *state, void *const *args, void *shared)
{
    const kernel *k = state;
    const float *w = args[1], *bias = args[2], *mean = args[3], *variance = args[4];
    const float *gamma = args[5], *beta = args[6];
    const size_t n = n_weights(&k->c), out = k->c.out;
    float *folded = shared, *shift = folded + n;
    for (size_t o = 0; o < out; o++) {
        const double scale =
            (gamma ? (double)gamma[o] : 1) / sqrt((double)variance[o] + k->norm->epsilon);
        shift[o] = (float)(((bias ? (double)bias[o] : 0) - (double)mean[o]) * scale +
                           (beta ? (double)beta[o] : 0));
        for (size_t at = o; at < n; at += out)
            folded[at] = (float)((double)w[at] * scale);
    }
    if (k->packs)
        k->way->pack(k->state, folded, (void *)((char *)shared + k->folded_bytes));
}

static void run(const void *state, void *const *args, void *scratch, const void *shared)
{
    const kernel *k = state;
    pg__conv_mem m = {.x = args[k->at_x],
                      .w = args[k->at_w],
                      .y = args[k->at_y],
                      .packed = shared,
                      .scratch = scratch};
    if (k->c.pass == PG_CONV_W || k->c.has_bias)
        m.b = args[k->at_b];
    if (k->packs && !k->shares) {
        k->way->pack(k->state, m.w, scratch);
        m.packed = scratch;
        m.scratch = (char *)scratch + k->packed_bytes;
    }
    k->way->run(k->state, &m);
}

static void run_norm(const void *state, void *const *args, void *scratch, const void *shared)
{
    const kernel *k = state;
    union {
        const void *in;
        void *out;
    } folded = {.in = shared}; /* implementations do not write it */
    const pg__conv_mem m = {.x = args[k->at_x],
                            .w = folded.out,
                            .b = (float *)folded.out + n_weights(&k->c),
                            .y = args[k->at_y],
                            .plus = k->c.has_plus ? args[PLUS] : NULL,
                            .packed = (const float *)shared + k->folded_bytes / sizeof(float),
                            .scratch = scratch};
    const pg__arg y = {.p = m.y, .n = k->n_y};
    k->way->run(k->state, &m);
    if (k->add) {
        const pg__arg both[2] = {y, {.p = args[PLUS], .n = k->n_y}};
        k->add(NULL, both, 2, &y, 1);
    }
    if (k->act)
        k->act(&k->norm->act, &y, 1, &y, 1);
}

const pg__cpu_kernel pg__cpu_conv = {prepare_y, release, share, run, prepare_lanes};
const pg__cpu_kernel pg__cpu_conv_dx = {prepare_x, release, share, run, prepare_lanes};
const pg__cpu_kernel pg__cpu_conv_dw = {prepare_w, release, NULL, run, prepare_lanes};
const pg__cpu_kernel pg__cpu_conv_norm = {prepare_y, release, share_norm, run_norm, NULL};
