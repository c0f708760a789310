/* attention.c - attention on a GPU: products of all rows and heads, and kernels over the scores
 * (k_attention.h). Heads are side by side in queries, keys and values, so the distance from one
 * matrix to the next is different within a row and from row to row: one of the two is the batch of
 * a product, the shorter one a loop. */
#include "backend/cuda/attend_library.h"
#include "backend/cuda/blas.h"

#include "base/mem.h"
#include "base/try.h"

enum { Q, K, V, Q_MASK, V_MASK, K_MASK, MASK, FACTORS, Y, P };
enum { G_FACTORS = 3, G_P, G_DY, G_DP, DQ, DK, DV };

/* What a product multiplies: (rows, steps, heads, features), or scores (rows, heads, t, s). */
typedef enum kind { QUERIES, KEYS, VALUES, RESULTS, SCORES } kind;

typedef struct product {
    pg__blas_plan *plan;
    uint64_t step[3]; /* of a, b, c: elements from one pass of the loop to the next */
} product;

typedef struct attention {
    uint64_t rows, heads, t, s, a, b; /* a: features of a head's query, b: of its value */
    uint64_t loops;
    int over_heads;        /* the loop is over heads, the batch over rows */
    size_t n_args, scores; /* scores: in scratch */
    int has_factors;
    pgk_real reals[PG_ATTEND_ARGS];
    pgk_attend attend; /* without addresses */
    float scale;
    product first, second;       /* forward: scores, result */
    product dv, ds, dq, dk;      /* backward */
    pg__attend_library *library; /* does all of it; NULL: it is ours */
} attention;

static void release(void *state)
{
    attention *n = state;
    if (!n)
        return;
    pg__blas_free(n->first.plan);
    pg__blas_free(n->second.plan);
    pg__blas_free(n->dv.plan);
    pg__blas_free(n->ds.plan);
    pg__blas_free(n->dq.plan);
    pg__blas_free(n->dk.plan);
    pg__attend_library_free(n->library);
    pg__mem_free(n);
}

/* ---- preparing ---- */

/* What products multiply is of one type; kernels read anything. */
static pg_status one_type(const attention *n, const pg__cuda_inst *i, size_t first_kept,
                          pg_err *err)
{
    for (size_t k = 0; k < n->n_args; k++)
        if ((k <= V || k >= first_kept) && (first_kept != G_P || k != G_DP) && pg__cuda_has(i, k) &&
            n->reals[k].type != n->reals[Q].type)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "attention that mixes number types is not supported on a GPU");
    return PG_OK;
}

static pg_status new_attention(attention **out, const pg__cuda_inst *i, size_t first_kept,
                               pg_err *err)
{
    const pg__attention_attrs *attrs = i->attrs;
    const pg__dims *q = &i->shapes[Q], *v = &i->shapes[V];
    attention *n = pg__mem_array(1, sizeof *n);
    if (!n)
        return pg__nomem(err);
    *n = (attention){.rows = q->d[0],
                     .heads = attrs->heads,
                     .t = q->d[1],
                     .s = v->d[1],
                     .a = q->d[2] / attrs->heads,
                     .b = v->d[2] / attrs->heads,
                     .n_args = (size_t)i->inst->n_in + i->inst->n_out,
                     .scale = (float)attrs->scale};
    n->over_heads = n->heads <= n->rows;
    n->loops = n->over_heads ? n->heads : n->rows;
    for (size_t k = 0; k < n->n_args; k++)
        n->reals[k] = pg__cuda_real(i, k);
    const pg_status st = one_type(n, i, first_kept, err);
    if (st == PG_OK)
        *out = n;
    else
        release(n);
    return st;
}

/* A matrix of one head of one row: elements from row to row of it, to the next head, to the next
 * row of the batch. */
typedef struct layout {
    uint64_t ld, head, row;
} layout;

static layout layout_of(const attention *n, kind k)
{
    const uint64_t features = k == QUERIES || k == KEYS ? n->a : n->b;
    const uint64_t steps = k == QUERIES || k == RESULTS ? n->t : n->s;
    if (k == SCORES)
        return (layout){n->s, n->t * n->s, n->heads * n->t * n->s};
    return (layout){n->heads * features, features, steps * n->heads * features};
}

/* What all addresses are a multiple of. */
static uint32_t alignment(const attention *n, size_t size)
{
    const uint64_t all = n->a | n->b | (n->t * n->s);
    const uint64_t bytes = (all & (~all + 1)) * size; /* the largest power of 2 in all of them */
    return bytes < 16 ? (uint32_t)bytes : 16u;
}

/* c = alpha op(a) op(b); the shape names m, n, k and what is transposed. */
static pg_status plan(product *out, const attention *n, pg__dev *d, pg__blas_shape s,
                      const kind of[3], pg__needs *needs, pg_err *err)
{
    const layout a = layout_of(n, of[0]), b = layout_of(n, of[1]), c = layout_of(n, of[2]);
    s.a = s.b = s.c = n->reals[Q].type;
    s.align = alignment(n, s.a == PGK_F32 ? 4 : 2);
    s.lda = a.ld;
    s.ldb = b.ld;
    s.ldc = c.ld;
    s.batch = n->over_heads ? n->rows : n->heads;
    s.stride_a = n->over_heads ? a.row : a.head;
    s.stride_b = n->over_heads ? b.row : b.head;
    s.stride_c = n->over_heads ? c.row : c.head;
    out->step[0] = n->over_heads ? a.head : a.row;
    out->step[1] = n->over_heads ? b.head : b.row;
    out->step[2] = n->over_heads ? c.head : c.row;
    return pg__blas_new(&out->plan, d, &s, needs, err);
}
#define PLAN(member, shape, ...) \
    plan(&n->member, n, i->dev, shape, (const kind[]){__VA_ARGS__}, needs, err)

/* In floats: what the scores' type takes at most. */
static size_t reserve_scores(const attention *n, pg__needs *needs)
{
    return pg__cuda_reserve(needs, (size_t)(n->rows * n->heads * n->t * n->s) * sizeof(float));
}

static pg_status plan_forward(attention *n, const pg__cuda_inst *i, pg__needs *needs, pg_err *err)
{
    const pg__blas_shape scores = {
        .m = n->t, .n = n->s, .k = n->a, .b_transposed = 1, .alpha = n->scale};
    const pg__blas_shape result = {.m = n->t, .n = n->b, .k = n->s, .alpha = 1};
    const pg__needs before = *needs;
    pg_status st = PG_OK;
    n->attend = pg__attend_masks(i);
    PG_TRY(PLAN(first, scores, QUERIES, KEYS, SCORES));
    PG_TRY(PLAN(second, result, SCORES, VALUES, RESULTS));
    if (n->has_factors)
        n->scores = reserve_scores(n, needs);
    PG_TRY(pg__attend_choose(&n->library, i, n, &before, needs, err));
done:
    return st;
}

PG_CUDA_PREPARE(prepare)
{
    attention *n = NULL;
    pg_status st = PG_OK;
    PG_TRY(new_attention(&n, i, Y, err));
    n->has_factors = pg__cuda_has(i, FACTORS);
    PG_TRY(pg__attend_known(&n->library, i, needs, err));
    if (!n->library)
        PG_TRY(plan_forward(n, i, needs, err));
    *state = n;
    n = NULL;
done:
    release(n);
    return st;
}

/* ---- running ---- */

static void *past(const attention *n, const void *p, uint64_t elements)
{
    return (char *)pg__cuda_const(p) + elements * (n->reals[Q].type == PGK_F32 ? 4 : 2);
}

static pg_status multiply(pg__dev *d, const attention *n, const product *p, const void *a,
                          const void *b, void *c, void *scratch)
{
    pg_status st = PG_OK;
    for (uint64_t k = 0; k < n->loops; k++)
        PG_TRY(pg__blas_run(d, p->plan, past(n, a, k * p->step[0]), past(n, b, k * p->step[1]),
                            past(n, c, k * p->step[2]), NULL, scratch));
done:
    return st;
}

static pgk_real arg(const attention *n, void *const *args, size_t k)
{
    return (pgk_real){args[k], n->reals[k].type};
}

static pg_status run(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared)
{
    const attention *n = state;
    pgk_attend a = n->attend;
    pg_status st = PG_OK;
    (void)shared;
    if (n->library)
        return pg__attend_library_run(d, n->library, args, scratch);
    a.p = arg(n, args, P);
    a.q_mask = arg(n, args, Q_MASK);
    a.v_mask = arg(n, args, V_MASK);
    a.k_mask = arg(n, args, K_MASK);
    a.mask = arg(n, args, MASK);
    a.factors = arg(n, args, FACTORS);
    a.used = (pgk_real){n->has_factors ? (char *)scratch + n->scores : NULL, a.p.type};
    PG_TRY(multiply(d, n, &n->first, args[Q], args[K], args[P], scratch));
    PG_TRY(PG_LAUNCH(d, attend, &a, n->rows * n->heads * n->t));
    if (args[Y])
        PG_TRY(
            multiply(d, n, &n->second, a.used.p ? a.used.p : args[P], args[V], args[Y], scratch));
done:
    return st;
}
const pg__cuda_op pg__cuda_attention = {.prepare = prepare, .release = release, .run = run};

/* ---- gradient: q, k, v, factors, probabilities, dy, dp -> dq, dk, dv ---- */

static pg_status plan_backward(attention *n, const pg__cuda_inst *i, pg__needs *needs, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__blas_shape dv = {.m = n->s, .n = n->b, .k = n->t, .a_transposed = 1, .alpha = 1};
    const pg__blas_shape ds = {.m = n->t, .n = n->s, .k = n->b, .b_transposed = 1, .alpha = 1};
    const pg__blas_shape dq = {.m = n->t, .n = n->a, .k = n->s, .alpha = n->scale};
    const pg__blas_shape dk = {
        .m = n->s, .n = n->a, .k = n->t, .a_transposed = 1, .alpha = n->scale};
    PG_TRY(PLAN(dv, dv, SCORES, RESULTS, VALUES));
    PG_TRY(PLAN(ds, ds, RESULTS, VALUES, SCORES));
    PG_TRY(PLAN(dq, dq, SCORES, KEYS, QUERIES));
    PG_TRY(PLAN(dk, dk, SCORES, QUERIES, KEYS));
    n->scores = reserve_scores(n, needs);
done:
    return st;
}

PG_CUDA_PREPARE(prepare_grad)
{
    attention *n = NULL;
    pg_status st = PG_OK;
    PG_TRY(new_attention(&n, i, G_P, err));
    n->has_factors = pg__cuda_has(i, G_FACTORS);
    PG_TRY(pg__attend_known(&n->library, i, needs, err));
    if (!n->library)
        PG_TRY(plan_backward(n, i, needs, err));
    *state = n;
    n = NULL;
done:
    release(n);
    return st;
}

/* The values', by what they were multiplied by. */
static pg_status values_back(pg__dev *d, const attention *n, void *const *args, void *scratch)
{
    const pgk_type type = n->reals[Q].type;
    const uint64_t n_scores = n->rows * n->heads * n->t * n->s;
    const pgk_attend_used a = {.p = arg(n, args, G_P),
                               .factors = arg(n, args, G_FACTORS),
                               .used = {(char *)scratch + n->scores, type}};
    pg_status st = PG_OK;
    if (!args[G_DY])
        return pg__rt_clear(d->rt, args[DV],
                            (size_t)(n->rows * n->s * n->heads * n->b) * (type == PGK_F32 ? 4 : 2),
                            &d->failure);
    if (n->has_factors)
        PG_TRY(PG_LAUNCH(d, attend_used, &a, n_scores));
    PG_TRY(
        multiply(d, n, &n->dv, n->has_factors ? a.used.p : a.p.p, args[G_DY], args[DV], scratch));
done:
    return st;
}

static pg_status run_grad(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    const attention *n = state;
    const pgk_attend_grad a = {.p = arg(n, args, G_P),
                               .factors = arg(n, args, G_FACTORS),
                               .dp = arg(n, args, G_DP),
                               .ds = {(char *)scratch + n->scores, n->reals[G_P].type},
                               .n = n->s,
                               .has_dy = args[G_DY] != NULL};
    pg_status st = PG_OK;
    (void)shared;
    if (n->library)
        return pg__attend_library_run(d, n->library, args, scratch);
    if (args[DV])
        PG_TRY(values_back(d, n, args, scratch));
    if (!args[DQ] && !args[DK])
        return st;
    if (a.has_dy)
        PG_TRY(multiply(d, n, &n->ds, args[G_DY], args[V], a.ds.p, scratch));
    PG_TRY(PG_LAUNCH(d, attend_grad, &a, n->rows * n->heads * n->t));
    if (args[DQ])
        PG_TRY(multiply(d, n, &n->dq, a.ds.p, args[K], args[DQ], scratch));
    if (args[DK])
        PG_TRY(multiply(d, n, &n->dk, a.ds.p, args[Q], args[DK], scratch));
done:
    return st;
}
const pg__cuda_op pg__cuda_attention_grad = {
    .prepare = prepare_grad, .release = release, .run = run_grad};
