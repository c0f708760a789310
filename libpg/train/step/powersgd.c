/* powersgd.c - see powersgd.h. A gradient of more than one dimension is a matrix M with the last
 * one as its columns, as Keras lays out kernels. A step finds P = M Q and, with P made orthonormal,
 * Q = transpose(M) P; both are linear in M, so their sums over ranks are those of the summed M,
 * which P transpose(Q) approximates. Q begins with the step before's: over steps that is a power
 * iteration.
 *
 * Vectors, and matrices whose factors would not be half as large, are sent as they are, with the
 * second message; matrices that are not trained are not sent at all. */
#include "train/step/powersgd.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"
#include "base/try.h"
#include "train/exec/exec.h"
#include "train/step/ranks.h"

#define SPARE     16u   /* numbers after the half of a message */
#define AT_A_TIME 16u   /* numbers whose sums a processor adds up side by side */
#define SMALL     1e-10 /* share of a squared length that rounding alone may leave */
#define LEAST     1e-60 /* squared length of a row that floats can stretch to 1 */

static const char what[] = "the gradients' factors";

/* A matrix that is sent as factors, each stored as `rank` rows. */
typedef struct factored {
    uint64_t at; /* its first element in the gradients */
    size_t n_rows, n_cols;
    size_t left, right; /* first numbers of its factors in the messages */
    size_t rest;        /* first number of what is left out */
} factored;

/* A variable that is sent as it is. */
typedef struct whole {
    uint64_t at;
    size_t n, right;
} whole;

struct pg__powersgd {
    size_t rank;
    factored *matrices;
    whole *others;
    size_t n_matrices, n_others;
    size_t n_left, n_factors, n_right, n_rest; /* n_right: the second message, n_factors with it */
    float *left, *right, *own, *rest;          /* own: this rank's part of `right` */
    char *work;
    uint32_t n_steps;
};

/* ---- which variables ---- */

static size_t columns_of(const pg_weight *w)
{
    return w->rank > 1 ? (size_t)w->dims[w->rank - 1] : 1;
}

static int is_worth_it(size_t n_elems, size_t n_cols, size_t rank)
{
    return n_cols > 1 && n_elems / n_cols > 1 && 2 * rank * (n_elems / n_cols + n_cols) < n_elems;
}

/* Adds up the numbers of both messages and of the rest; fills the lists if there are any. */
static void divide(pg__powersgd *p, const pg_trainer *t)
{
    p->n_matrices = p->n_others = p->n_left = p->n_factors = p->n_rest = 0;
    size_t n_whole = 0;
    for (size_t k = 0; k < t->vars.n_params; k++) {
        const size_t i = t->vars.order[k], n = t->vars.n_elems[i];
        const size_t n_cols = columns_of(&t->vars.weights[k]);
        if (is_worth_it(n, n_cols, p->rank) && t->vars.trained[i]) {
            const factored m = {.at = t->vars.offsets[i],
                                .n_rows = n / n_cols,
                                .n_cols = n_cols,
                                .left = p->n_left,
                                .right = p->n_factors,
                                .rest = p->n_rest};
            if (p->matrices)
                p->matrices[p->n_matrices] = m;
            p->n_matrices++;
            p->n_left += p->rank * m.n_rows;
            p->n_factors += p->rank * n_cols;
            p->n_rest += n;
        } else if (n_cols == 1 || t->vars.trained[i]) {
            if (p->others)
                p->others[p->n_others] = (whole){t->vars.offsets[i], n, n_whole};
            p->n_others++;
            n_whole += n;
        }
    }
    p->n_right = p->n_factors + n_whole;
    for (size_t k = 0; p->others && k < p->n_others; k++)
        p->others[k].right += p->n_factors;
}

static size_t longest_message(const pg__powersgd *p)
{
    return p->n_left > p->n_right ? p->n_left : p->n_right;
}

static size_t n_numbers(const pg__powersgd *p)
{
    return p->n_left + p->n_right + p->n_factors + p->n_rest + longest_message(p) / 2 + SPARE;
}

uint64_t pg__powersgd_bytes(const pg_trainer *t, size_t rank)
{
    pg__powersgd p = {.rank = rank};
    divide(&p, t);
    return (uint64_t)n_numbers(&p) * sizeof(float);
}

/* ---- directions ---- */

static double product_of(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* Takes from row k what it shares with the rows before, and returns its squared length. */
static double make_orthogonal(float *rows, size_t k, size_t n)
{
    float *row = rows + k * n;
    for (size_t j = 0; j < k; j++) {
        const double shared = product_of(row, rows + j * n, n);
        for (size_t i = 0; i < n; i++)
            row[i] -= (float)(shared * rows[j * n + i]);
    }
    return product_of(row, row, n);
}

/* Makes rows orthonormal, the same on every rank. A row that the others contain, that is next to
 * nothing or not finite, becomes a direction drawn at random: any is as good. */
static void make_orthonormal(float *rows, size_t rank, size_t n, uint32_t step, uint32_t stream)
{
    for (size_t k = 0; k < rank; k++) {
        float *row = rows + k * n;
        const double before = product_of(row, row, n);
        double after = make_orthogonal(rows, k, n);
        if (!(after > before * SMALL && after > LEAST) || !isfinite(after)) {
            for (size_t i = 0; i < n; i++)
                row[i] = pg__uniform(k, i, step, stream) - 0.5f;
            after = make_orthogonal(rows, k, n);
        }
        /* a second time, for what rounding left of the others in a row that lost most of its length
         */
        const float to_one = (float)(1 / sqrt(after));
        for (size_t i = 0; i < n; i++)
            row[i] *= to_one;
        const float again = (float)(1 / sqrt(make_orthogonal(rows, k, n)));
        for (size_t i = 0; i < n; i++)
            row[i] *= again;
    }
}

/* ---- on the pool's threads ---- */

typedef struct sweep {
    pg__powersgd *p;
    float *gradients;
    size_t n_workers;
} sweep;

static float product_with(const float *a, const float *b, size_t n)
{
    float sums[AT_A_TIME] = {0}, sum = 0;
    size_t i = 0;
    for (; i + AT_A_TIME <= n; i += AT_A_TIME)
        for (size_t k = 0; k < AT_A_TIME; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (size_t k = 0; k < AT_A_TIME; k++)
        sum += sums[k];
    return sum;
}

static void add_times(float *to, float factor, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

/* Factors' directions, a matrix for each worker in turn. */
static void orient_right(void *arg, size_t worker)
{
    const sweep *r = arg;
    for (size_t k = worker; k < r->p->n_matrices; k += r->n_workers)
        make_orthonormal(r->p->right + r->p->matrices[k].right, r->p->rank,
                         r->p->matrices[k].n_cols, r->p->n_steps, (uint32_t)(2 * k));
}

static void orient_left(void *arg, size_t worker)
{
    const sweep *r = arg;
    for (size_t k = worker; k < r->p->n_matrices; k += r->n_workers)
        make_orthonormal(r->p->left + r->p->matrices[k].left, r->p->rank, r->p->matrices[k].n_rows,
                         r->p->n_steps, (uint32_t)(2 * k + 1));
}

/* Calls fn for every row of every matrix, each worker for its own. */
typedef void row_fn(const pg__powersgd *p, const factored *m, size_t i, float *row);
static void each_row(const sweep *r, size_t worker, row_fn *fn)
{
    for (size_t k = 0; k < r->p->n_matrices; k++) {
        const factored *m = &r->p->matrices[k];
        const size_t end = m->n_rows * (worker + 1) / r->n_workers;
        for (size_t i = m->n_rows * worker / r->n_workers; i < end; i++)
            fn(r->p, m, i, r->gradients + m->at + i * m->n_cols);
    }
}

/* Adds the rest of the step before; then P = M Q. */
static void find_left_of(const pg__powersgd *p, const factored *m, size_t i, float *row)
{
    add_times(row, 1, p->rest + m->rest + i * m->n_cols, m->n_cols);
    for (size_t q = 0; q < p->rank; q++)
        p->left[m->left + q * m->n_rows + i] =
            product_with(row, p->right + m->right + q * m->n_cols, m->n_cols);
}

static void find_left(void *arg, size_t worker)
{
    each_row(arg, worker, find_left_of);
}

/* What is infinite or NaN would remain so for ever. */
static void keep_rest(float *rest, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rest[i] = isfinite(rest[i]) ? rest[i] : 0;
}

/* Q = transpose(M) P, and what the product of this rank's own factors leaves of M; each worker its
 * columns. */
static void find_right(void *arg, size_t worker)
{
    const sweep *r = arg;
    const pg__powersgd *p = r->p;
    for (size_t k = 0; k < p->n_matrices; k++) {
        const factored *m = &p->matrices[k];
        const size_t from = m->n_cols * worker / r->n_workers,
                     n = m->n_cols * (worker + 1) / r->n_workers - from;
        const float *left = p->left + m->left;
        float *own = p->own + m->right + from;
        for (size_t q = 0; q < p->rank; q++)
            memset(own + q * m->n_cols, 0, n * sizeof *own);
        for (size_t i = 0; i < m->n_rows; i++)
            for (size_t q = 0; q < p->rank; q++)
                add_times(own + q * m->n_cols, left[q * m->n_rows + i],
                          r->gradients + m->at + i * m->n_cols + from, n);
        for (size_t i = 0; i < m->n_rows; i++) {
            float *rest = p->rest + m->rest + i * m->n_cols + from;
            memcpy(rest, r->gradients + m->at + i * m->n_cols + from, n * sizeof *rest);
            for (size_t q = 0; q < p->rank; q++)
                add_times(rest, -left[q * m->n_rows + i], own + q * m->n_cols, n);
            keep_rest(rest, n);
        }
    }
}

/* M becomes P transpose(Q). */
static void multiply_of(const pg__powersgd *p, const factored *m, size_t i, float *row)
{
    memset(row, 0, m->n_cols * sizeof *row);
    for (size_t q = 0; q < p->rank; q++)
        add_times(row, p->left[m->left + q * m->n_rows + i], p->right + m->right + q * m->n_cols,
                  m->n_cols);
}

static void multiply(void *arg, size_t worker)
{
    each_row(arg, worker, multiply_of);
}

/* ---- a step ---- */

void pg__powersgd_free(pg__powersgd *p)
{
    if (!p)
        return;
    pg__mem_free(p->matrices);
    pg__mem_free(p->others);
    pg__mem_free(p->left);
    pg__mem_free(p);
}

static pg_status open(pg__powersgd **out, const pg_trainer *t, size_t rank, pg_err *err)
{
    pg__powersgd *p = *out = pg__mem_array(1, sizeof *p);
    if (!p)
        return pg__nomem(err);
    p->rank = rank;
    divide(p, t);
    p->matrices = pg__mem_array(p->n_matrices + 1, sizeof *p->matrices);
    p->others = pg__mem_array(p->n_others + 1, sizeof *p->others);
    p->left = pg__mem_aligned(n_numbers(p) * sizeof *p->left);
    if (!p->matrices || !p->others || !p->left)
        return pg__nomem(err);
    memset(p->left, 0, n_numbers(p) * sizeof *p->left);
    p->right = p->left + p->n_left;
    p->own = p->right + p->n_right;
    p->rest = p->own + p->n_factors;
    p->work = (char *)(p->rest + p->n_rest);
    divide(p, t);
    return PG_OK;
}

static pg_status sum_over_ranks(pg__powersgd *p, pg_trainer *t, float *mem, size_t n,
                                uint32_t message, pg_err *err)
{
    pg__comm_sum_of sum = {
        .mem = mem, .n = n, .real_bytes = sizeof *mem, .to = PG_TO_ALL, .work = p->work};
    pg_status st = PG_OK;
    if (n == 0)
        return PG_OK;
    PG_TRY(pg__comm_sum_begin(t->ranks->comm, &sum, what, err));
    PG_TRY(pg__comm_sums_wait(t->ranks->comm, &sum, 1, what, err));
    const pg__trace_event e = {.began = sum.began,
                               .ended = sum.ended,
                               .what = PG_TRACE_BUCKET,
                               .a = message,
                               .b = n * sizeof *mem};
    if (t->report.trace)
        pg__trace_end_on(t->report.trace, PG_TRACE_EXCHANGE, &e);
done:
    return st;
}

pg_status pg__powersgd_sum(pg__powersgd **inout, pg_trainer *t, size_t rank, float *gradients,
                           pg_err *err)
{
    pg_status st = PG_OK;
    if (!*inout)
        PG_TRY(open(inout, t, rank, err));
    pg__powersgd *p = *inout;
    sweep r = {p, gradients, pg__thread_pool_size(t->pool.threads)};
    pg__thread_pool_run(t->pool.threads, orient_right, &r);
    pg__thread_pool_run(t->pool.threads, find_left, &r);
    PG_TRY(sum_over_ranks(p, t, p->left, p->n_left, 0, err));
    pg__thread_pool_run(t->pool.threads, orient_left, &r);
    pg__thread_pool_run(t->pool.threads, find_right, &r);
    memcpy(p->right, p->own, p->n_factors * sizeof *p->own);
    for (size_t k = 0; k < p->n_others; k++)
        memcpy(p->right + p->others[k].right, gradients + p->others[k].at,
               p->others[k].n * sizeof *gradients);
    PG_TRY(sum_over_ranks(p, t, p->right, p->n_right, 1, err));
    pg__thread_pool_run(t->pool.threads, multiply, &r);
    for (size_t k = 0; k < p->n_others; k++)
        memcpy(gradients + p->others[k].at, p->right + p->others[k].right,
               p->others[k].n * sizeof *gradients);
    p->n_steps++;
done:
    return st;
}
