/* sum.c - sums over axes, and the sum that activity_regularizer adds to the loss. Many summands for
 * few results are cut into chunks, whose sums are kept in scratch. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"
#include "base/mem.h"

#define THREADS 65536u /* that keep a GPU busy */
#define ROWS    1024u  /* rows of PGK_T threads that do */
#define LEAST   2048u  /* summands that are worth a row of their own */
#define SOME    64u    /* summands that are worth a thread */
#define SHORT   16u    /* runs of summands that threads need not share */

typedef struct sums {
    pgk_sum_rows a; /* of x */
    int by_rows;
} sums;

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Axes that are summed, and axes that remain. */
static sums sums_of(const pg__dims *whole, const pg__dims *part)
{
    sums s = {.by_rows = 0};
    pg__axes stay = {.rank = 0}, go = {.rank = 0};
    uint64_t n = 1, n_results = 1, step[PG_MAX_RANK];
    pg__steps_of(step, whole);
    for (uint32_t k = 0; k < whole->rank; k++) {
        const uint32_t from_last = whole->rank - 1 - k;
        const uint64_t d = from_last < part->rank ? part->d[part->rank - 1 - from_last] : 1;
        pg__axes_add(d == 1 ? &go : &stay, whole->d[k], step[k], 0);
        *(d == 1 ? &n : &n_results) *= whole->d[k];
    }
    s.a.of = (pgk_sum){.results = pg__walk_of(&stay),
                       .summands = pg__walk_of(&go),
                       .n_results = pg__div_of(n_results),
                       .n = n};
    return s;
}

static void choose_chunks(sums *s)
{
    const uint64_t n = s->a.of.n, n_results = s->a.of.n_results.by;
    const pgk_walk *w = &s->a.of.summands;
    s->by_rows = w->rank > 0 && w->axis[0].step[0] == 1 && n >= SHORT;
    s->a.of.chunks = s->by_rows ? least_of(divide_up(n, LEAST), divide_up(ROWS, n_results))
                                : least_of(divide_up(n, SOME), divide_up(THREADS, n_results));
    s->a.n = divide_up(n, s->a.of.chunks);
}

PG_CUDA_PREPARE(prepare_sum_to)
{
    sums *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    *s = sums_of(&i->shapes[0], &i->shapes[1]);
    s->a.of.x = pg__cuda_real(i, 0);
    s->a.of.y = pg__cuda_real(i, 1);
    choose_chunks(s);
    if (s->a.of.chunks > 1)
        needs->scratch_bytes = (size_t)(s->a.of.chunks * s->a.of.n_results.by) * sizeof(float);
    *state = s;
    return PG_OK;
}

/* The sums of chunks, (chunks, results), to y. */
static pg_status add_chunks(pg__dev *d, void *chunks, uint64_t n_chunks, uint64_t n_results,
                            pgk_real y)
{
    const pgk_columns_join a = {
        .part = {chunks, PGK_F32}, .y = y, .rows = n_chunks, .n = n_results};
    return PG_LAUNCH(d, columns_join, &a, n_results);
}

static pg_status run_sum_to(pg__dev *d, const void *state, void *const *args, void *scratch,
                            const void *shared)
{
    const sums *s = state;
    const uint64_t n_results = s->a.of.n_results.by, n_chunks = s->a.of.chunks;
    const pgk_real y = {args[1], s->a.of.y.type};
    pgk_sum_rows a = s->a;
    (void)shared;
    a.of.x.p = args[0];
    a.of.y = n_chunks > 1 ? (pgk_real){scratch, PGK_F32} : y;
    const pgk_sum_columns columns = {a.of};
    const pg_status st = s->by_rows ? PG_LAUNCH(d, sum_rows, &a, n_chunks * n_results)
                                    : PG_LAUNCH(d, sum_columns, &columns, n_chunks * n_results);
    return st == PG_OK && n_chunks > 1 ? add_chunks(d, scratch, n_chunks, n_results, y) : st;
}
const pg__cuda_op pg__cuda_sum_to = {.prepare = prepare_sum_to, .run = run_sum_to};

/* ---- activity_regularizer ---- */

typedef struct activity {
    pgk_activity a;
    uint64_t n_chunks;
    pgk_real sum;
} activity;

PG_CUDA_PREPARE(prepare_activity)
{
    const pg__activity_attrs *attrs = i->attrs;
    const uint64_t n = pg__cuda_n(i, 0);
    activity *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->n_chunks = least_of(divide_up(n, LEAST), ROWS);
    s->a = (pgk_activity){.x = pg__cuda_real(i, 0),
                          .n = n,
                          .each = s->n_chunks > 0 ? divide_up(n, s->n_chunks) : 0,
                          .l1 = (float)attrs->l1,
                          .l2 = (float)attrs->l2};
    s->sum = pg__cuda_real(i, i->inst->n_in);
    needs->scratch_bytes = (size_t)s->n_chunks * sizeof(float);
    *state = s;
    return PG_OK;
}

static pg_status run_activity(pg__dev *d, const void *state, void *const *args, void *scratch,
                              const void *shared)
{
    const activity *s = state;
    pgk_activity a = s->a;
    (void)shared;
    a.x.p = args[0];
    a.y = (pgk_real){scratch, PGK_F32};
    const pg_status st = PG_LAUNCH(d, activity, &a, s->n_chunks);
    return st == PG_OK ? add_chunks(d, scratch, s->n_chunks, 1, (pgk_real){args[2], s->sum.type})
                       : st;
}
const pg__cuda_op pg__cuda_activity = {.prepare = prepare_activity, .run = run_activity};

PG_CUDA_PREPARE(prepare_activity_grad)
{
    const pg__activity_attrs *attrs = i->attrs;
    const pgk_activity_grad a = {.l1 = (float)attrs->l1, .l2 = (float)attrs->l2};
    (void)needs;
    return PG_ONE(activity_grad, &a, pg__cuda_n(i, 2));
}
const pg__cuda_op pg__cuda_activity_grad = PG_CUDA_ONE(prepare_activity_grad);
