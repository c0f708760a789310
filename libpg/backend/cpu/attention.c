/* attention.c - attention by rows of the batch and heads: the scores of one head are one product,
 * and so are the weighted values and each of the gradients. Projections stay side by side, as their
 * products wrote them; nothing is copied or transposed. Masks: ops/ref_attention.c. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "base/mem.h"
#include "ops/attrs.h"

enum { Q, K, V, Q_MASK, V_MASK, K_MASK, MASK, FACTORS, N_IN };
enum { Y = N_IN, P };

typedef struct attention {
    pg__attention_attrs attrs;
    const pg__lines *lines;
    size_t rows, heads, t, s, a, b; /* a: features of a head's query, b: of its value */
    pg__dims mask;
} attention;

/* A head's matrix in a tensor (rows, steps, heads * n). */
static size_t at(const attention *k, size_t row, size_t steps, size_t head, size_t n)
{
    return (row * steps * k->heads + head) * n;
}

static pg__mat head_of(const attention *k, const void *tensor, size_t row, size_t steps,
                       size_t head, size_t n)
{
    return (pg__mat){(const float *)tensor + at(k, row, steps, head, n), k->heads * n, 0};
}

static pg__mat turned(pg__mat m)
{
    m.turned = !m.turned;
    return m;
}

static pg_status new_state(void **state, const pg__cpu_inst *i, pg_err *err)
{
    const pg__attention_attrs *attrs = i->attrs;
    const size_t heads = (size_t)attrs->heads;
    attention *k = pg__mem_array(1, sizeof *k);
    if (!k)
        return pg__nomem(err);
    *k = (attention){.attrs = *attrs,
                     .lines = pg__isa_fns_of(i->isa)->lines,
                     .rows = (size_t)i->shapes[Q].d[0],
                     .heads = heads,
                     .t = (size_t)i->shapes[Q].d[1],
                     .s = (size_t)i->shapes[K].d[1],
                     .a = (size_t)i->shapes[Q].d[2] / heads,
                     .b = (size_t)i->shapes[V].d[2] / heads};
    *state = k;
    return PG_OK;
}

static void release(void *state)
{
    pg__mem_free(state);
}

/* ---- forward ---- */

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    const pg_status st = new_state(state, i, err);
    if (st != PG_OK)
        return st;
    attention *k = *state;
    k->mask = i->shapes[MASK];
    needs->scratch_bytes = pg__dim_mul(k->t, k->s) * sizeof(float);
    return PG_OK;
}

/* The attention mask of one line of scores: `step` is 0 if one number applies to the whole line. */
static const float *mask_line(const attention *k, const float *mask, size_t row, size_t head,
                              size_t t, size_t *step)
{
    const size_t index[] = {row, head, t};
    const pg__dims *d = &k->mask;
    const uint32_t skip = 4 - d->rank; /* without heads it has three axes */
    size_t to = d->d[0] > 1 ? row : 0;
    for (uint32_t i = 1; i + 1 < d->rank; i++)
        to = to * (size_t)d->d[i] + (d->d[i] > 1 ? index[i + skip] : 0);
    *step = d->d[d->rank - 1] > 1;
    return mask + to * (size_t)d->d[d->rank - 1];
}

static void hide_from(const attention *k, float *line, size_t from)
{
    for (size_t s = from; s < k->s; s++)
        line[s] = PG_MASKED;
}

static void hide_line(const attention *k, void *const *args, size_t row, size_t head, size_t t,
                      float *line)
{
    const float *q = args[Q_MASK], *v = args[V_MASK], *keys = args[K_MASK], *mask = args[MASK];
    size_t step = 0;
    const float *open = mask ? mask_line(k, mask, row, head, t, &step) : NULL;
    if (v)
        k->lines->hide(line, v + row * k->s, k->s);
    if (keys)
        k->lines->hide(line, keys + row * k->s, k->s);
    if (open && step)
        k->lines->hide(line, open, k->s);
    if ((q && q[row * k->t + t] == 0) || (open && !step && *open == 0))
        hide_from(k, line, 0);
    else if (k->attrs.causal)
        hide_from(k, line, t + 1);
}

static void attend(const attention *k, void *const *args, size_t row, size_t head, float *work)
{
    const size_t lines = (row * k->heads + head) * k->t;
    const float *factors = args[FACTORS];
    float *y = args[Y], *p = (float *)args[P] + lines * k->s;
    const int masks = args[Q_MASK] || args[V_MASK] || args[K_MASK] || args[MASK];
    pg__gemm(k->t, k->s, k->a, (float)k->attrs.scale, head_of(k, args[Q], row, k->t, head, k->a),
             turned(head_of(k, args[K], row, k->s, head, k->a)), 0, p, k->s);
    for (size_t t = 0; t < k->t; t++) {
        if (masks || k->attrs.causal)
            hide_line(k, args, row, head, t, p + t * k->s);
        k->lines->softmax(p + t * k->s, k->s);
    }
    if (!y)
        return;
    if (factors)
        k->lines->product(work, p, factors + lines * k->s, k->t * k->s);
    pg__gemm(k->t, k->b, k->s, 1, (pg__mat){factors ? work : p, k->s, 0},
             head_of(k, args[V], row, k->s, head, k->b), 0, y + at(k, row, k->t, head, k->b),
             k->heads * k->b);
}

static void run(const void *state, void *const *args, void *scratch, const void *shared)
{
    const attention *k = state;
    (void)shared;
    for (size_t row = 0; k->s > 0 && row < k->rows; row++)
        for (size_t head = 0; head < k->heads; head++)
            attend(k, args, row, head, scratch);
}

const pg__cpu_kernel pg__cpu_attention = {.prepare = prepare, .release = release, .run = run};

/* ---- gradient ---- */

enum { G_FACTORS = 3, G_P, G_DY, G_DP, DQ, DK, DV };

/* Twice one head's scores: their gradient, and the probabilities times their factors. */
static pg_status prepare_grad(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    const pg_status st = new_state(state, i, err);
    if (st != PG_OK)
        return st;
    const attention *k = *state;
    needs->scratch_bytes = pg__dim_mul(pg__dim_mul(k->t, k->s), 2 * sizeof(float));
    return PG_OK;
}

/* d: the gradient of the scores, before they are scaled. */
static void score_gradient(const attention *k, void *const *args, size_t row, size_t head, float *d)
{
    const size_t n = k->t * k->s, from = (row * k->heads + head) * n;
    const float *p = (const float *)args[G_P] + from;
    if (args[G_DY])
        pg__gemm(k->t, k->s, k->b, 1, head_of(k, args[G_DY], row, k->t, head, k->b),
                 turned(head_of(k, args[V], row, k->s, head, k->b)), 0, d, k->s);
    else
        memset(d, 0, n * sizeof *d);
    if (args[G_FACTORS])
        k->lines->times(d, (const float *)args[G_FACTORS] + from, n);
    if (args[G_DP])
        k->lines->add(d, (const float *)args[G_DP] + from, n);
    for (size_t t = 0; t < k->t; t++)
        k->lines->softmax_grad(d + t * k->s, p + t * k->s, k->s);
}

static void head_gradient(const attention *k, void *const *args, size_t row, size_t head,
                          float *work)
{
    const size_t n = k->t * k->s, from = (row * k->heads + head) * n;
    const float *p = (const float *)args[G_P] + from, scale = (float)k->attrs.scale;
    float *dq = args[DQ], *dk = args[DK], *dv = args[DV], *weights = work + n;
    const pg__mat d = {work, k->s, 0};
    score_gradient(k, args, row, head, work);
    if (dq)
        pg__gemm(k->t, k->a, k->s, scale, d, head_of(k, args[K], row, k->s, head, k->a), 0,
                 dq + at(k, row, k->t, head, k->a), k->heads * k->a);
    if (dk)
        pg__gemm(k->s, k->a, k->t, scale, turned(d), head_of(k, args[Q], row, k->t, head, k->a), 0,
                 dk + at(k, row, k->s, head, k->a), k->heads * k->a);
    if (!dv)
        return;
    if (args[G_FACTORS])
        k->lines->product(weights, p, (const float *)args[G_FACTORS] + from, n);
    if (args[G_DY])
        pg__gemm(k->s, k->b, k->t, 1, (pg__mat){args[G_FACTORS] ? weights : p, k->s, 1},
                 head_of(k, args[G_DY], row, k->t, head, k->b), 0,
                 dv + at(k, row, k->s, head, k->b), k->heads * k->b);
    else
        memset(dv, 0, k->rows * k->s * k->heads * k->b * sizeof *dv);
}

static void run_grad(const void *state, void *const *args, void *scratch, const void *shared)
{
    const attention *k = state;
    (void)shared;
    for (size_t row = 0; row < k->rows; row++)
        for (size_t head = 0; head < k->heads; head++)
            head_gradient(k, args, row, head, scratch);
}

const pg__cpu_kernel pg__cpu_attention_grad = {
    .prepare = prepare_grad, .release = release, .run = run_grad};
