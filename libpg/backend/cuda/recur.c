/* recur.c - see recur.h: layers by a loop over the steps. */
#include "backend/cuda/recur_library.h"

#include "base/mem.h"
#include "base/try.h"

/* ---- preparing ---- */

/* A product's operands have the same type; the gradients of parameters, which follow the other
 * operands of a gradient, may have another, and kernels read any type. */
static pg_status one_type(const pg__recur *k, const pg__cuda_inst *i, pg_err *err)
{
    const int grad = k->n_in > N_IN;
    for (size_t v = H0; v < k->n_args; v++) {
        const int multiplied = v == H0 || v >= k->n_in || v > DSTATE;
        const int of_param = grad && (v == k->n_in || (v > k->n_in && i->shapes[v].rank == 1));
        if (multiplied && !of_param && pg__cuda_has(i, v) &&
            k->reals[v].type != k->reals[KERNEL].type)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "recurrent layers that mix number types are not supported on a GPU");
    }
    return PG_OK;
}

static pg_status new_recur(pg__recur **out, const pg__cuda_inst *i, const pg__recur_cell *cell,
                           pg_err *err)
{
    const pg__dims *zx = &i->shapes[ZX];
    pg__recur *k = pg__mem_array(1, sizeof *k);
    pg_status st = PG_OK;
    if (!k)
        return pg__nomem(err);
    k->cell = cell;
    k->z = (pgk_rnn_step){.rows = zx->d[0],
                          .steps = zx->d[1],
                          .width = zx->d[2],
                          .units = i->shapes[KERNEL].d[0],
                          .attrs = *(const pg__rnn_attrs *)i->attrs};
    k->z.n_factors = pg__cuda_has(i, FACTORS) ? i->shapes[FACTORS].d[1] : 0;
    k->gates = cell->gates - (cell->has_reset && !k->z.attrs.reset_after);
    k->blocks = k->z.n_factors > 1 ? k->gates : 1;
    k->has_h0 = pg__cuda_has(i, H0);
    k->has_mask = pg__cuda_has(i, MASK);
    k->n_in = i->inst->n_in;
    k->n_args = (uint64_t)i->inst->n_in + i->inst->n_out;
    for (size_t v = 0; v < k->n_args; v++)
        k->reals[v] = pg__cuda_real(i, v);
    PG_TRY(one_type(k, i, err));
    *out = k;
    k = NULL;
done:
    pg__mem_free(k);
    return st;
}

void pg__recur_release(void *state)
{
    pg__recur *k = state;
    if (!k)
        return;
    pg__recur_library_free(k->library);
    pg__blas_free(k->first);
    pg__blas_free(k->next);
    pg__blas_free(k->back);
    pg__blas_free(k->kernel);
    pg__blas_free(k->reset);
    pg__blas_free(k->reset_kernel);
    pg__mem_free(k);
}

/* All addresses are whole rows of units from a common start. */
static pg__blas_shape product_shape(const pg__recur *k, uint64_t m, uint64_t n, uint64_t inner)
{
    const uint64_t bytes = k->z.units * (k->reals[KERNEL].type == PGK_F32 ? 4 : 2);
    pg__blas_shape s = {.m = m, .n = n, .k = inner, .alpha = 1};
    s.a = s.b = s.c = k->reals[KERNEL].type;
    s.align = bytes % 16 == 0 ? 16u : bytes % 8 == 0 ? 8u : bytes % 4 == 0 ? 4u : 2u;
    return s;
}

/* Columns of the recurrent kernel in one product. */
static uint64_t block_width(const pg__recur *k)
{
    return k->z.units * (k->blocks > 1 ? 1 : k->gates);
}

static pg__blas_shape forward_shape(const pg__recur *k)
{
    const pgk_rnn_step *z = &k->z;
    pg__blas_shape s = product_shape(k, z->rows, block_width(k), z->units);
    s.ldb = z->width;
    s.ldc = z->steps * z->width;
    s.batch = k->blocks;
    if (k->blocks > 1) {
        s.stride_a = z->rows * z->units;
        s.stride_b = s.stride_c = z->units;
    }
    return s;
}

static pg_status plan_forward(pg__recur *k, pg__dev *d, pg__needs *needs, pg_err *err)
{
    const pgk_rnn_step *z = &k->z;
    pg__blas_shape s = forward_shape(k), reset = product_shape(k, z->rows, z->units, z->units);
    pg_status st = PG_OK;
    PG_TRY(pg__blas_new(&k->first, d, &s, needs, err)); /* of a state, or of a copy */
    s.lda = z->steps * z->units;
    if (z->n_factors == 0)
        PG_TRY(pg__blas_new(&k->next, d, &s, needs, err));
    reset.ldb = z->width;
    reset.ldc = z->steps * z->units;
    if (k->gates < z->width / z->units)
        PG_TRY(pg__blas_new(&k->reset, d, &reset, needs, err));
    k->shown = pg__cuda_reserve(needs, (size_t)z->rows * sizeof(int32_t));
    k->copies = pg__cuda_reserve(needs, (size_t)(k->blocks * z->rows * z->units) * sizeof(float));
    if (k->reset)
        k->reset_at = pg__cuda_reserve(needs, (size_t)(z->rows * z->units) * sizeof(float));
done:
    return st;
}

static pg_status plan_kernels(pg__recur *k, pg__dev *d, pg__needs *needs, pg_err *err)
{
    const pgk_rnn_step *z = &k->z;
    pg__blas_shape s = product_shape(k, z->units, block_width(k), z->rows * z->steps);
    pg_status st = PG_OK;
    s.a_transposed = 1;
    s.ldb = s.ldc = z->width;
    s.c = k->reals[k->n_in].type;
    PG_TRY(pg__blas_new(&k->kernel, d, &s, needs, err));
    s.n = z->units;
    if (k->gates < z->width / z->units)
        PG_TRY(pg__blas_new(&k->reset_kernel, d, &s, needs, err));
done:
    return st;
}

static pg_status plan_backward(pg__recur *k, pg__dev *d, pg__needs *needs, pg_err *err)
{
    const pgk_rnn_step *z = &k->z;
    const uint64_t all = z->rows * z->steps;
    pg__blas_shape s = product_shape(k, z->rows, z->units, block_width(k)), reset;
    pg_status st = PG_OK;
    s.b_transposed = 1;
    s.lda = z->steps * z->width;
    s.ldb = z->width;
    reset = s;
    reset.k = z->units;
    s.beta = z->n_factors == 0 ? 1 : 0;
    s.batch = k->blocks;
    if (k->blocks > 1) {
        s.stride_a = s.stride_b = z->units;
        s.stride_c = z->rows * z->units;
    }
    PG_TRY(pg__blas_new(&k->back, d, &s, needs, err));
    if (k->gates < z->width / z->units)
        PG_TRY(pg__blas_new(&k->reset, d, &reset, needs, err));
    PG_TRY(plan_kernels(k, d, needs, err));
    k->shown = pg__cuda_reserve(needs, (size_t)z->rows * sizeof(int32_t));
    k->products = pg__cuda_reserve(needs, (size_t)(k->blocks * z->rows * z->units) * sizeof(float));
    k->copies = pg__cuda_reserve(needs, (size_t)(all * z->units) * sizeof(float));
    if (!k->cell->has_reset)
        goto done;
    k->reset_at = pg__cuda_reserve(needs, (size_t)(k->reset ? z->rows * z->units : all * z->width) *
                                              sizeof(float));
    k->bias = pg__columns_new(all, z->width, needs);
done:
    return st;
}

pg_status pg__recur_prepare(void **state, const pg__cuda_inst *i, const pg__recur_cell *cell,
                            pg__needs *needs, pg_err *err)
{
    pg__recur *k = NULL;
    pg_status st = PG_OK;
    PG_TRY(new_recur(&k, i, cell, err));
    PG_TRY(cell->is_gradient ? plan_backward(k, i->dev, needs, err)
                             : plan_forward(k, i->dev, needs, err));
    PG_TRY(pg__recur_choose(k, i, needs, err));
    *state = k;
    k = NULL;
done:
    pg__recur_release(k);
    return st;
}

/* ---- running ---- */

/* Addresses, and the steps from which on outputs are shown. */
static pg_status begin(pg__recur_run *run, pg__dev *d, const pg__recur *k, void *const *args,
                       void *scratch)
{
    *run = (pg__recur_run){.d = d, .k = k, .scratch = scratch, .z = k->z, .out = run->v + k->n_in};
    for (size_t v = 0; v < k->n_args; v++)
        run->v[v] = (pgk_real){args[v], k->reals[v].type};
    run->z.factors = run->v[FACTORS];
    run->z.mask = run->v[MASK];
    if (!k->has_mask)
        return PG_OK;
    run->z.shown = pg__recur_scratch(run, k->shown);
    const pgk_rnn_shown a = {.mask = run->z.mask,
                             .shown = run->z.shown,
                             .steps = run->z.steps,
                             .reverse = run->z.attrs.reverse};
    return PG_LAUNCH(d, rnn_shown, &a, run->z.rows);
}

static void at_step(pg__recur_run *run, uint64_t s)
{
    pgk_rnn_step *z = &run->z;
    z->s = s;
    z->t = z->attrs.reverse ? z->steps - 1 - s : s;
    z->to = z->attrs.flip ? z->steps - 1 - s : s;
}

static pg_status multiply(pg__recur_run *run, const pg__blas_plan *plan, pgk_real a, pgk_real b,
                          pgk_real c)
{
    return pg__blas_run(run->d, plan, a.p, b.p, c.p, NULL, run->scratch);
}

/* The products of this step, in its place: the state before it times the recurrent kernel. */
static pg_status products(pg__recur_run *run)
{
    const pgk_rnn_step *z = &run->z;
    const pg__recur *k = run->k;
    const pgk_real states = run->out[k->cell->states], to = run->out[k->cell->products];
    const pgk_real there = pg__past(to, z->s * z->width), kernel = run->v[KERNEL];
    pg_status st = PG_OK;
    if (!pg__recur_has_state(run))
        return PG_OK;
    if (z->n_factors > 0) {
        const pgk_rnn_scale a = {
            .z = *z, .states = states, .h0 = run->v[H0], .to = pg__recur_scratch(run, k->copies)};
        PG_TRY(PG_LAUNCH(run->d, rnn_scale, &a, k->blocks * pg__recur_units(run)));
        PG_TRY(multiply(run, k->first, a.to, kernel, there));
    } else if (z->s == 0) {
        PG_TRY(multiply(run, k->first, run->v[H0], kernel, there));
    } else {
        PG_TRY(multiply(run, k->next, pg__past(states, (z->s - 1) * z->units), kernel, there));
    }
done:
    return st;
}

pg_status pg__recur_multiply_back(pg__recur_run *run, pgk_real dz)
{
    const pgk_rnn_step *z = &run->z;
    if (!pg__recur_has_state(run))
        return PG_OK;
    return multiply(run, run->k->back, pg__past(dz, z->t * z->width), run->v[KERNEL],
                    z->n_factors > 0 ? pg__recur_scratch(run, run->k->products)
                                     : run->out[run->k->cell->dh0]);
}

pgk_rnn_incoming pg__recur_incoming(const pg__recur_run *run)
{
    pgk_rnn_incoming in = {.dy = run->v[DY],
                           .dlast = run->v[DLAST],
                           .dstate = run->v[DSTATE],
                           .dh = run->out[run->k->cell->dh0],
                           .n_blocks = run->k->blocks};
    if (run->z.n_factors > 0)
        in.product = pg__recur_scratch(run, run->k->products);
    return in;
}

/* What came to the initial state. */
static pg_status finish(pg__recur_run *run)
{
    const pgk_rnn_finish a = {.z = run->z, .in = pg__recur_incoming(run)};
    if (!a.in.product.p || !run->k->has_h0)
        return PG_OK;
    return PG_LAUNCH(run->d, rnn_finish, &a, pg__recur_units(run));
}

pg_status pg__recur_befores(pg__recur_run *run, pgk_real gates, uint64_t block)
{
    const pgk_rnn_befores a = {.z = run->z,
                               .states = run->v[run->k->cell->states],
                               .h0 = run->v[H0],
                               .gates = gates,
                               .to = pg__recur_scratch(run, run->k->copies),
                               .block = block};
    return PG_LAUNCH(run->d, rnn_befores, &a, pg__recur_units(run) * run->z.steps);
}

pg_status pg__recur_kernel(pg__recur_run *run, pgk_real dz)
{
    const pg__recur *k = run->k;
    const pgk_real none = {NULL, PGK_F32}, to = run->out[0];
    pg_status st = PG_OK;
    for (uint64_t b = 0; to.p && b < k->blocks; b++) {
        const uint64_t first = b * run->z.units;
        PG_TRY(pg__recur_befores(run, none, b));
        PG_TRY(multiply(run, k->kernel, pg__recur_scratch(run, k->copies), pg__past(dz, first),
                        pg__past(to, first)));
    }
done:
    return st;
}

pg_status pg__recur_one_kernel(pg__recur_run *run)
{
    return pg__recur_kernel(run, run->out[run->k->cell->dzx]);
}

static pg_status forward(pg__recur_run *run)
{
    pg_status st = PG_OK;
    for (uint64_t s = 0; s < run->z.steps; s++) {
        at_step(run, s);
        PG_TRY(products(run));
        PG_TRY(run->k->cell->step(run));
    }
done:
    return st;
}

static pg_status backward(pg__recur_run *run)
{
    pg_status st = PG_OK;
    for (uint64_t s = run->z.steps; s-- > 0;) {
        at_step(run, s);
        PG_TRY(run->k->cell->step(run));
    }
    PG_TRY(finish(run));
    PG_TRY(run->k->cell->parameters(run));
done:
    return st;
}

pg_status pg__recur_go(pg__dev *d, const void *state, void *const *args, void *scratch,
                       const void *shared)
{
    const pg__recur *k = state;
    pg__recur_run run;
    pg_status st = PG_OK;
    (void)shared;
    PG_TRY(begin(&run, d, k, args, scratch));
    if (k->library)
        return pg__recur_library_go(&run);
    PG_TRY(k->cell->is_gradient ? backward(&run) : forward(&run));
done:
    return st;
}
