/* host_dnn.c - dnn.h without a GPU: see host.h. */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/dnn.h"

#define WORKSPACE 1280 /* as in host_blas.c */

/* Three spatial dimensions, unused ones of size 1 in front. */
typedef struct conv {
    pg__dnn_kind kind;
    uint64_t rows, x[3], y[3], k[3], stride[3], dilation[3], before[3];
    uint64_t in, out, groups; /* channels */
    int relu;
    pgk_real a, b, c, bias;
    float *sums; /* what c will be: 16 bits take no sums */
    void *scratch;
} conv;

struct pg__dnn_plan {
    conv c;
    int bias;
    size_t way; /* as FAKE_CUDA_PLANS names them */
};

static conv conv_of(const pg__dnn_conv *d)
{
    const pg__conv_attrs *a = &d->conv;
    conv c = {.kind = d->kind,
              .rows = d->x.d[0],
              .in = d->x.d[a->rank + 1],
              .out = d->y.d[a->rank + 1],
              .groups = a->groups,
              .relu = d->relu,
              .a = {NULL, d->type},
              .b = {NULL, d->type},
              .c = {NULL, d->out_type},
              .bias = {NULL, PGK_F32}};
    for (uint32_t i = 0; i < 3; i++)
        c.x[i] = c.y[i] = c.k[i] = c.stride[i] = c.dilation[i] = 1;
    for (uint32_t i = 3 - a->rank, from = 0; i < 3; i++, from++) {
        c.x[i] = d->x.d[from + 1];
        c.y[i] = d->y.d[from + 1];
        c.k[i] = a->kernel[from];
        c.stride[i] = a->stride[from];
        c.dilation[i] = a->dilation[from];
        c.before[i] = a->before[from];
    }
    return c;
}

pg_status pg__dnn_open(pg__dev *d, pg_err *err)
{
    (void)d;
    return pg__fake_fails("dnn_open")
               ? pg_fail(err, PG_E_UNSUPPORTED, "dnn_open: failure that was ordered")
               : PG_OK;
}

void pg__dnn_close(pg__dev *d)
{
    (void)d;
}

typedef struct choice {
    pg__dev *d;
    pg__dnn_plan *p;
    size_t made; /* 1 for each that was made and not dropped */
} choice;

static pg_status make(void *of, size_t k, size_t *scratch_bytes, pg_err *err)
{
    *scratch_bytes = WORKSPACE;
    if (!pg__fake_has_plan(k))
        return pg_fail(err, PG_E_NO, "no such plan");
    ((choice *)of)->made++;
    return PG_OK;
}

static pg_status try_one(void *of, size_t k, void *const *arrays, void *scratch)
{
    choice *c = of;
    c->p->way = k;
    return pg__dnn_run(c->d, c->p, arrays[0], arrays[1], arrays[2], arrays[3], scratch);
}

static void drop(void *of, size_t k)
{
    (void)k;
    ((choice *)of)->made--;
}

pg_status pg__dnn_new(pg__dnn_plan **out, pg__dev *d, const pg__dnn_conv *c, pg__needs *needs,
                      pg_err *err)
{
    const pg__pick_case work = pg__dnn_case(c);
    if (pg__fake_fails("dnn_new"))
        return pg_fail(err, PG_E_DEVICE, "dnn_new: failure that was ordered");
    if (pg__fake_refuses("conv") || (c->bias && pg__fake_refuses("bias")))
        return pg_fail(err, PG_E_NO, "no engine for this convolution");
    pg__dnn_plan *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->c = conv_of(c);
    p->bias = c->bias;
    choice of = {.d = d, .p = p};
    size_t way = 0;
    const pg__ways ways = {&of, pg__fake_n_plans(), make, try_one, drop};
    const pg_status st = pg__pick(&way, d, &work, &ways, err);
    p->way = way;
    if (of.made != (st == PG_OK)) {
        fprintf(stderr, "conv: %zu plans were kept\n", of.made);
        abort();
    }
    if (st != PG_OK) {
        pg__dnn_free(p);
        return st;
    }
    if (needs->scratch_bytes < WORKSPACE)
        needs->scratch_bytes = WORKSPACE;
    *out = p;
    return PG_OK;
}

void pg__dnn_free(pg__dnn_plan *p)
{
    pg__fake_note("drop", "plan");
    free(p);
}

static void fill(const conv *c, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        c->sums[i] = c->bias.p ? pgk_get(c->bias, i % c->out) : 0;
}

/* One pair of cells that a kernel cell connects, one filter: adds to what is computed. */
static void tap(const conv *c, uint64_t x, uint64_t cell, uint64_t y, uint64_t o)
{
    const uint64_t n_in = c->in / c->groups, g = o / (c->out / c->groups);
    const uint64_t at_x = x * c->in + g * n_in, at_y = y * c->out + o;
    const uint64_t w = (o * c->k[0] * c->k[1] * c->k[2] + cell) * n_in;
    for (uint64_t i = 0; i < n_in; i++) {
        if (c->kind == PG_DNN_FORWARD)
            c->sums[at_y] += pgk_get(c->a, at_x + i) * pgk_get(c->b, w + i);
        else if (c->kind == PG_DNN_DATA)
            c->sums[at_x + i] += pgk_get(c->a, at_y) * pgk_get(c->b, w + i);
        else
            c->sums[w + i] += pgk_get(c->a, at_x + i) * pgk_get(c->b, at_y);
    }
}

/* Three numbers of one. */
static void split(uint64_t n, const uint64_t of[3], uint64_t at[3])
{
    at[2] = n % of[2];
    at[1] = n / of[2] % of[1];
    at[0] = n / of[2] / of[1];
}

/* The cell of x that kernel cell k reaches from cell y; 0 in the padding. */
static int reach(const conv *c, uint64_t y, uint64_t k, uint64_t *x)
{
    uint64_t at_y[3], at_k[3];
    split(y, c->y, at_y);
    split(k, c->k, at_k);
    *x = 0;
    for (int i = 0; i < 3; i++) {
        const uint64_t to = at_y[i] * c->stride[i] + at_k[i] * c->dilation[i];
        if (to < c->before[i] || to - c->before[i] >= c->x[i])
            return 0;
        *x = *x * c->x[i] + to - c->before[i];
    }
    return 1;
}

static void convolve(const void *args, uint64_t n)
{
    conv job = *(const conv *)args;
    const conv *c = &job;
    const uint64_t n_x = c->x[0] * c->x[1] * c->x[2], n_y = c->y[0] * c->y[1] * c->y[2];
    const uint64_t n_k = c->k[0] * c->k[1] * c->k[2];
    uint64_t x;
    memset(pgk_host_memory(c->scratch), 0xa5, WORKSPACE);
    job.sums = calloc(n, sizeof *job.sums);
    if (!job.sums)
        abort();
    fill(c, n);
    for (uint64_t r = 0; r < c->rows; r++)
        for (uint64_t y = 0; y < n_y; y++)
            for (uint64_t k = 0; k < n_k; k++)
                for (uint64_t o = 0; reach(c, y, k, &x) && o < c->out; o++)
                    tap(c, r * n_x + x, k, r * n_y + y, o);
    for (uint64_t i = 0; i < n; i++)
        pgk_set(c->c, i, c->relu ? pgk_larger(c->sums[i], 0) : c->sums[i]);
    free(job.sums);
}

/* As tensors were described, and as workspaces are made. */
static int are_aligned(const conv *job, int bias)
{
    return pg__fake_is_at(job->a.p, 16) && pg__fake_is_at(job->b.p, 16) &&
           pg__fake_is_at(job->c.p, 16) && (!bias || pg__fake_is_at(job->bias.p, 16)) &&
           pg__fake_is_at(job->scratch, 256);
}

pg_status pg__dnn_run(pg__dev *d, const pg__dnn_plan *p, const void *a, const void *b, void *c,
                      const void *bias, void *scratch)
{
    conv job = p->c;
    const uint64_t n_x = job.rows * job.x[0] * job.x[1] * job.x[2] * job.in;
    const uint64_t n_y = job.rows * job.y[0] * job.y[1] * job.y[2] * job.out;
    const uint64_t n_w = job.k[0] * job.k[1] * job.k[2] * job.in / job.groups * job.out;
    job.a.p = pg__cuda_const(a);
    job.b.p = pg__cuda_const(b);
    job.c.p = c;
    job.bias.p = p->bias ? pg__cuda_const(bias) : NULL;
    job.scratch = scratch;
    if (!are_aligned(&job, p->bias))
        return pg_fail(&d->failure, PG_E_DEVICE, "conv: an address is not a multiple of 16");
    return pg__cuda_launched(d,
                             pg__fake_queue_plan(pg__rt_stream(d->rt), "conv", p->way, convolve,
                                                 &job, sizeof job,
                                                 job.kind == PG_DNN_FORWARD ? n_y
                                                 : job.kind == PG_DNN_DATA  ? n_x
                                                                            : n_w),
                             "conv");
}
