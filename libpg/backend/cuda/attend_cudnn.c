/* attend_cudnn.c - dnn_attend.h over cuDNN 9: graphs of products, reductions and the operations
 * between them, which its engines recognise as attention and compute in one kernel. NVIDIA's own
 * front end (github.com/NVIDIA/cudnn-frontend) shows what they recognise. Such a kernel is compiled
 * when its plan is made, which takes a third of a second, so plans are kept with the library's
 * handle. */
#include "backend/cuda/dnn_attend.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backend/cuda/cudnn_graph.h"
#include "base/mem.h"
#include "base/try.h"

/* What of a plan has memory. */
enum {
    UID_Q = 1,
    UID_K,
    UID_V,
    UID_Y,
    UID_STATS,
    UID_KEEP,
    UID_BIAS,
    UID_FACTORS,
    UID_SCALE,
    UID_LOWEST,
    UID_ONE,
    UID_DY,
    UID_DQ,
    UID_DK,
    UID_DV,
    UID_SUMS,
    UID_DQ_PARTS,
    N_UIDS
};

#define MAX_OPS 40

struct pg__dnn_attend_plan {
    pg__graph g;
    pg__dnn_attend a;
    size_t most, work, sums, parts; /* sums, parts: where in the work they begin */
    int has_parts;                  /* the queries' gradient is summed up in float32 */
    atomic_int n_users;             /* the handle's list is one */
    pg__dnn_attend_plan *next;
};

/* ---- describing ---- */

typedef struct sketch {
    pg__graph *g;
    const pg__dnn_attend *a;
    pg__desc ops[MAX_OPS];
    int64_t n_ops;
} sketch;

static cudnnDataType_t type_of(pgk_type t)
{
    return t == PGK_F32 ? CUDNN_DATA_FLOAT : t == PGK_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* What a tensor is made of: dims and strides of rows, heads and the two axes of a matrix. */
typedef struct form {
    int64_t d[4], by[4];
} form;

static pg__desc tensor(sketch *s, int64_t uid, cudnnDataType_t type, form f)
{
    const int64_t align = 16, id = uid ? uid : (int64_t)(1000 + s->g->n);
    const bool is_virtual = uid == 0, is_number = uid >= UID_SCALE && uid <= UID_ONE;
    pg__desc t = pg__graph_make(s->g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    pg__graph_set(s->g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    pg__graph_set(s->g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, f.d);
    pg__graph_set(s->g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, f.by);
    pg__graph_set(s->g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    pg__graph_set(s->g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (is_virtual)
        pg__graph_set(s->g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    if (is_number)
        pg__graph_set(s->g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_number);
    pg__graph_finish(s->g, t);
    return t;
}

static form number(void)
{
    return (form){{1, 1, 1, 1}, {1, 1, 1, 1}};
}

/* Steps of a layer's tensor, n features of a head; turned: the last two axes change places. */
static form steps(const pg__dnn_attend *a, uint64_t n_steps, uint64_t n, int turned)
{
    const int64_t h = (int64_t)a->heads, t = (int64_t)n_steps, f = (int64_t)n;
    if (turned)
        return (form){{(int64_t)a->rows, h, f, t}, {t * h * f, f, 1, h * f}};
    return (form){{(int64_t)a->rows, h, t, f}, {t * h * f, f, h * f, 1}};
}

/* Scores, or of them the rows (n = 1); turned as above. */
static form scores(const pg__dnn_attend *a, uint64_t n, int turned)
{
    const int64_t h = (int64_t)a->heads, t = (int64_t)a->t, s = (int64_t)n;
    if (turned)
        return (form){{(int64_t)a->rows, h, s, t}, {h * t * s, t * s, 1, s}};
    return (form){{(int64_t)a->rows, h, t, s}, {h * t * s, t * s, s, 1}};
}

/* The same for all heads. */
static form of_masks(const pg__dnn_attend *a, uint64_t n)
{
    const int64_t t = (int64_t)a->t, s = (int64_t)n;
    return (form){{(int64_t)a->rows, 1, t, s}, {t * s, t * s, s, 1}};
}

static void push(sketch *s, pg__desc op)
{
    pg__graph_finish(s->g, op);
    if (s->n_ops < MAX_OPS)
        s->ops[s->n_ops++] = op;
    else
        s->g->status = CUDNN_STATUS_INTERNAL_ERROR;
}

static void product(sketch *s, pg__desc a, pg__desc b, pg__desc c)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    pg__desc how = pg__graph_make(s->g, CUDNN_BACKEND_MATMUL_DESCRIPTOR), op;
    pg__graph_set(s->g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    pg__graph_finish(s->g, how);
    op = pg__graph_make(s->g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    push(s, op);
}

static void reduce(sketch *s, cudnnReduceTensorOp_t mode, pg__desc x, pg__desc y)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    pg__desc how = pg__graph_make(s->g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), op;
    pg__graph_set(s->g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    pg__graph_set(s->g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
                  &mode);
    pg__graph_finish(s->g, how);
    op = pg__graph_make(s->g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    push(s, op);
}

static void turn(sketch *s, pg__desc x, pg__desc y)
{
    pg__desc op = pg__graph_make(s->g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    push(s, op);
}

/* axis: of GEN_INDEX, else -1; b, t may be NULL. */
static void each(sketch *s, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                 pg__desc x, pg__desc b, pg__desc t, pg__desc y)
{
    pg__desc how = pg__graph_make(s->g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;
    pg__graph_set(s->g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    pg__graph_set(s->g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (axis >= 0)
        pg__graph_set(s->g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    pg__graph_finish(s->g, how);
    op = pg__graph_make(s->g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t)
        pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    pg__graph_link(s->g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    push(s, op);
}

/* x op b in float32; a value of this form that is not stored. */
static pg__desc next(sketch *s, cudnnPointwiseMode_t mode, pg__desc x, pg__desc b, form f,
                     cudnnDataType_t type)
{
    pg__desc y = tensor(s, 0, type, f);
    each(s, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
    return y;
}
#define NEXT(mode, x, b) next(s, CUDNN_POINTWISE_##mode, x, b, all, CUDNN_DATA_FLOAT)

/* Steps before which nothing is seen score -inf: each sees itself. */
static pg__desc hide_later(sketch *s, pg__desc x)
{
    const form all = scores(s->a, s->a->s, 0);
    pg__desc row = tensor(s, 0, CUDNN_DATA_INT32, all), col = tensor(s, 0, CUDNN_DATA_INT32, all);
    pg__desc seen = tensor(s, 0, CUDNN_DATA_BOOLEAN, all), y = tensor(s, 0, CUDNN_DATA_FLOAT, all);
    pg__desc lowest = tensor(s, UID_LOWEST, CUDNN_DATA_FLOAT, number());
    each(s, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, x, NULL, NULL, row);
    each(s, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, x, NULL, NULL, col);
    each(s, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, row, col, NULL, seen);
    each(s, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, x, lowest, seen, y);
    return y;
}

/* Scores under scale and masks. scale: the same tensor for all who use it. */
static pg__desc score(sketch *s, pg__desc q, pg__desc k, pg__desc scale)
{
    const pg__dnn_attend *a = s->a;
    const form all = scores(a, a->s, 0);
    pg__desc x = tensor(s, 0, CUDNN_DATA_FLOAT, all);
    product(s, q, k, x);
    x = NEXT(MUL, x, scale);
    if (a->masked) {
        x = NEXT(MUL, x, tensor(s, UID_KEEP, CUDNN_DATA_FLOAT, of_masks(a, 1)));
        x = NEXT(ADD, x, tensor(s, UID_BIAS, type_of(a->type), of_masks(a, a->s)));
    }
    return a->causal ? hide_later(s, x) : x;
}

static void forward(sketch *s)
{
    const pg__dnn_attend *a = s->a;
    const cudnnDataType_t own = type_of(a->type);
    const form all = scores(a, a->s, 0), line = scores(a, 1, 0);
    pg__desc q = tensor(s, UID_Q, own, steps(a, a->t, a->a, 0));
    pg__desc k = tensor(s, UID_K, own, steps(a, a->s, a->a, 1));
    pg__desc v = tensor(s, UID_V, own, steps(a, a->s, a->b, 0));
    pg__desc y = tensor(s, UID_Y, own, steps(a, a->t, a->b, 0));
    pg__desc top = tensor(s, 0, CUDNN_DATA_FLOAT, line), sum = tensor(s, 0, CUDNN_DATA_FLOAT, line);
    pg__desc x = score(s, q, k, tensor(s, UID_SCALE, CUDNN_DATA_FLOAT, number())), log;
    reduce(s, CUDNN_REDUCE_TENSOR_MAX, x, top);
    x = NEXT(SUB, x, top);
    x = NEXT(EXP, x, NULL);
    reduce(s, CUDNN_REDUCE_TENSOR_ADD, x, sum);
    log = next(s, CUDNN_POINTWISE_LOG, sum, NULL, line, CUDNN_DATA_FLOAT);
    each(s, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, -1, top, log, NULL,
         tensor(s, a->trains ? UID_STATS : 0, CUDNN_DATA_FLOAT, line)); /* looked for in any case */
    x = next(s, CUDNN_POINTWISE_DIV, x, sum, all, a->has_factors ? CUDNN_DATA_FLOAT : own);
    if (a->has_factors) { /* of dropout, in two steps: the engines look for both */
        x = NEXT(MUL, x, tensor(s, UID_ONE, CUDNN_DATA_FLOAT, number()));
        x = next(s, CUDNN_POINTWISE_MUL, x, tensor(s, UID_FACTORS, type_of(a->factor_type), all),
                 all, own);
    }
    product(s, x, v, y);
}

/* What the gradient of the scores is reduced by in each row: sum dy y. It is stored. */
static pg__desc row_sums(sketch *s, pg__desc dy, pg__desc y, pg__desc one)
{
    const pg__dnn_attend *a = s->a;
    const form line = scores(a, 1, 0);
    const int64_t h = (int64_t)a->heads, t = (int64_t)a->t, b = (int64_t)a->b;
    const form results = {{(int64_t)a->rows, h, t, b}, {h * t * b, t * b, b, 1}};
    pg__desc by_parts = next(s, CUDNN_POINTWISE_MUL, dy, y, results, CUDNN_DATA_FLOAT);
    pg__desc sum = tensor(s, 0, CUDNN_DATA_FLOAT, line);
    pg__desc sums = tensor(s, UID_SUMS, CUDNN_DATA_FLOAT, line);
    reduce(s, CUDNN_REDUCE_TENSOR_ADD, by_parts, sum);
    each(s, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1, sum, one, NULL, sums);
    return sums;
}

static void backward(sketch *s, int has_parts)
{
    const pg__dnn_attend *a = s->a;
    const cudnnDataType_t own = type_of(a->type);
    const form all = scores(a, a->s, 0), turned = scores(a, a->s, 1);
    const form queries = steps(a, a->t, a->a, 0), keys = steps(a, a->s, a->a, 0);
    pg__desc q = tensor(s, UID_Q, own, queries);
    pg__desc k = tensor(s, UID_K, own, steps(a, a->s, a->a, 1));
    pg__desc v = tensor(s, UID_V, own, steps(a, a->s, a->b, 1));
    pg__desc y = tensor(s, UID_Y, own, steps(a, a->t, a->b, 0));
    pg__desc dy = tensor(s, UID_DY, own, steps(a, a->t, a->b, 0));
    pg__desc dq = tensor(s, UID_DQ, own, queries), dk = tensor(s, UID_DK, own, keys);
    pg__desc dv = tensor(s, UID_DV, own, steps(a, a->s, a->b, 0));
    pg__desc stats = tensor(s, UID_STATS, CUDNN_DATA_FLOAT, scores(a, 1, 0));
    pg__desc scale = tensor(s, UID_SCALE, CUDNN_DATA_FLOAT, number());
    pg__desc one = tensor(s, UID_ONE, CUDNN_DATA_FLOAT, number());
    pg__desc factors = NULL, sums = row_sums(s, dy, y, one), x, p, back;
    if (a->has_factors)
        factors = tensor(s, UID_FACTORS, type_of(a->factor_type), all);
    x = score(s, q, k, scale);
    x = NEXT(SUB, x, stats);
    p = x = NEXT(EXP, x, NULL);
    if (factors) {
        x = NEXT(MUL, x, factors);
        x = NEXT(MUL, x, one);
    }
    back = tensor(s, 0, own, turned);
    turn(s, x, back);
    product(s, back, dy, dv);
    x = tensor(s, 0, CUDNN_DATA_FLOAT, all);
    product(s, dy, v, x);
    if (factors)
        x = NEXT(MUL, x, factors);
    x = NEXT(SUB, x, sums);
    x = NEXT(MUL, x, p);
    if (factors)
        x = NEXT(MUL, x, one);
    x = NEXT(MUL, x, scale);
    back = tensor(s, 0, own, turned);
    turn(s, x, back);
    product(s, back, q, dk);
    back = tensor(s, 0, own, keys);
    turn(s, k, back);
    if (!has_parts) {
        product(s, x, back, dq);
        return;
    }
    const int64_t h = (int64_t)a->heads, t = (int64_t)a->t, n = (int64_t)a->a;
    const form packed = {{(int64_t)a->rows, h, t, n}, {h * t * n, t * n, n, 1}};
    pg__desc parts = tensor(s, UID_DQ_PARTS, CUDNN_DATA_FLOAT, packed);
    product(s, x, back, parts);
    each(s, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, -1, parts, NULL, NULL, dq);
}

/* ---- plans ---- */

#define TRIES 3 /* engines of a graph: each is compiled */

static size_t rounded(size_t n)
{
    return (n + 255) / 256 * 256;
}

static pg_status draw(pg__dnn_attend_plan *p, const struct pg__dnn_lib *lib)
{
    sketch s = {.g = &p->g, .a = &p->a};
    if (p->a.gradient)
        backward(&s, p->has_parts);
    else
        forward(&s);
    pg__graph_join(&p->g, lib, s.ops, s.n_ops);
    return p->g.status == CUDNN_STATUS_SUCCESS ? PG_OK : PG_E_NO;
}

/* Takes the first engine that works in no more than it may. */
static pg_status choose(pg__dnn_attend_plan *p, pg__dev *d)
{
    const pg__graph_ask ask = {d->dnn, &d->opts, 0};
    const size_t lines = (size_t)(p->a.rows * p->a.heads * p->a.t) * sizeof(float);
    for (size_t k = 0, tried = 0; k < PG_MAX_CHOICES && tried < TRIES; k++) {
        if (!pg__graph_make_plan(&p->g, &ask, k)) {
            if (k >= p->g.n_choices)
                break;
            continue;
        }
        tried++;
        p->sums = p->work = rounded(p->g.workspaces[k]);
        if (p->a.gradient)
            p->parts = p->work = p->sums + rounded(lines);
        if (p->has_parts)
            p->work += lines * (size_t)p->a.a;
        if (p->work <= p->most) {
            p->g.taken = k;
            return PG_OK;
        }
        pg__graph_drop_plan(&p->g, k);
    }
    return PG_E_NO;
}

/* Where there is room, tiles of keys add their part of the queries' gradient to a sum in float32;
 * else the gradient of the scores is stored for a product. */
static int may_have_parts(const pg__dnn_attend *a, size_t most)
{
    const size_t lines = (size_t)(a->rows * a->heads * a->t) * sizeof(float);
    return a->gradient && 2 * lines * (size_t)(a->a + 1) <= most;
}

/* Older versions leave it to the caller to clear sums; some compute gradients that are known to be
 * wrong, for any shape or for numbers of keys that are not a multiple of 128. */
static int is_sound(const pg__dnn_attend *a)
{
    const size_t version = cudnnGetVersion();
    if (version < 90600 || (a->t == 1 && a->s == 1))
        return 0;
    return !a->gradient ||
           (version != 91000 && version != 91001 && (version > 91500 || a->s % 128 == 0));
}

static pg_status make(pg__dnn_attend_plan **out, pg__dev *d, const pg__dnn_attend *a, size_t most,
                      int has_parts)
{
    pg__dnn_attend_plan *p = pg__mem_array(1, sizeof *p);
    pg_status st = PG_OK;
    if (!p)
        return PG_E_NOMEM;
    p->a = *a;
    p->most = most;
    p->has_parts = has_parts;
    atomic_init(&p->n_users, 1);
    PG_TRY(draw(p, d->dnn));
    PG_TRY(choose(p, d));
    *out = p;
    p = NULL;
done:
    pg__dnn_attend_free(p);
    return st;
}

_Static_assert(sizeof(pg__dnn_attend) == 6 * sizeof(uint64_t) + 8 * sizeof(int),
               "two are compared byte by byte");

pg_status pg__dnn_attend_new(pg__dnn_attend_plan **out, pg__dev *d, const pg__dnn_attend *a,
                             size_t most, size_t *work, pg_err *err)
{
    pg__dnn_attend_plan *p = d->dnn->attends;
    pg_status st = PG_E_NO;
    while (p && (memcmp(&p->a, a, sizeof *a) != 0 || p->most != most))
        p = p->next;
    if (!p && is_sound(a)) {
        if (!d->dnn->device)
            (void)pg__rt_stream(d->rt);
        if (may_have_parts(a, most))
            st = make(&p, d, a, most, 1);
        if (!p)
            st = make(&p, d, a, most, 0);
        if (p) {
            p->next = d->dnn->attends;
            d->dnn->attends = p;
        }
    }
    if (!p)
        return st == PG_E_NOMEM
                   ? pg__nomem(err)
                   : pg_fail(err, PG_E_NO, "cuDNN has no algorithm for this attention");
    atomic_fetch_add(&p->n_users, 1);
    *work = p->work;
    *out = p;
    return PG_OK;
}

void pg__dnn_attend_free(pg__dnn_attend_plan *p)
{
    if (!p || atomic_fetch_sub(&p->n_users, 1) > 1)
        return;
    pg__graph_fini(&p->g);
    pg__mem_free(p);
}

void pg__dnn_attends_fini(struct pg__dnn_lib *lib)
{
    while (lib->attends) {
        pg__dnn_attend_plan *p = lib->attends;
        lib->attends = p->next;
        pg__dnn_attend_free(p);
    }
}

/* ---- runs ---- */

typedef struct pack {
    int64_t ids[N_UIDS];
    void *at[N_UIDS];
    int64_t n;
} pack;

static void put(pack *k, int64_t id, const void *p)
{
    k->ids[k->n] = id;
    k->at[k->n++] = pg__cuda_const(p);
}

static void address(const pg__dnn_attend_plan *p, const pg__dnn_attend_io *io, pack *k)
{
    static const float one = 1, lowest = -INFINITY;
    char *work = io->work;
    put(k, UID_Q, io->q);
    put(k, UID_K, io->k);
    put(k, UID_V, io->v);
    put(k, UID_Y, io->y);
    put(k, UID_SCALE, &p->a.scale);
    if (p->a.trains)
        put(k, UID_STATS, io->stats);
    if (p->a.masked) {
        put(k, UID_KEEP, io->keep);
        put(k, UID_BIAS, io->bias);
    }
    if (p->a.has_factors)
        put(k, UID_FACTORS, io->factors);
    if (p->a.has_factors || p->a.gradient)
        put(k, UID_ONE, &one);
    if (p->a.causal)
        put(k, UID_LOWEST, &lowest);
    if (!p->a.gradient)
        return;
    put(k, UID_DY, io->dy);
    put(k, UID_DQ, io->dq);
    put(k, UID_DK, io->dk);
    put(k, UID_DV, io->dv);
    put(k, UID_SUMS, work + p->sums);
    if (p->has_parts)
        put(k, UID_DQ_PARTS, work + p->parts);
}

pg_status pg__dnn_attend_run(pg__dev *d, const pg__dnn_attend_plan *p, const pg__dnn_attend_io *io)
{
    pg__graph run = {.status = CUDNN_STATUS_SUCCESS};
    pg__desc d_pack = pg__graph_make(&run, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack k = {.n = 0};
    address(p, io, &k);
    (void)pg__rt_stream(d->rt);
    pg__graph_set(&run, d_pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, k.n, k.ids);
    pg__graph_set(&run, d_pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, k.n,
                  k.at);
    pg__graph_set(&run, d_pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                  &io->work);
    pg__graph_finish(&run, d_pack);
    if (run.status == CUDNN_STATUS_SUCCESS)
        run.status = pg__graph_execute(&p->g, d->dnn->h, d_pack);
    pg__graph_fini(&run);
    if (run.status != CUDNN_STATUS_SUCCESS)
        return pg_fail(&d->failure, PG_E_DEVICE, "cuda:%zu: attention: %s", pg__rt_ordinal(d->rt),
                       cudnnGetErrorString(run.status));
    return PG_OK;
}
