/* lstm.c - LSTM by blocks of rows. What a step gives and what it keeps: ops/ref_lstm.c. */
#include "backend/cpu/recur.h"

enum { Y, LAST, STATE, CELL, STATES, GATES, CELLS };

/* Asks for what a row's step s reads and writes. */
PG_RECUR_AHEAD ahead(const pg__recur_run *run, size_t row, size_t s)
{
    const size_t n = run->z.units, place = row * run->z.steps + s;
    if (s >= run->z.steps)
        return;
    pg__recur_ahead_of(run, pg__reals(&run->in[ZX]), row, s);
    pg__recur_ahead(pg__reals(&run->out[GATES]) + place * run->z.width, run->z.width);
    pg__recur_ahead(pg__reals(&run->out[STATES]) + place * n, n);
    pg__recur_ahead(pg__reals(&run->out[CELLS]) + place * n, n);
}

/* One row's step, once its products are there; a masked one repeats the state. */
static void take_step(const pg__recur_run *run, const pg__recur_step *at, size_t row,
                      const float *sums)
{
    const rnn_sizes *z = &run->z;
    const size_t n = z->units, place = row * z->steps + at->s;
    const float *h = pg__recur_before(run, &run->out[STATES], &run->in[H0], row, at->s);
    const float *c = pg__recur_before(run, &run->out[CELLS], &run->in[C0], row, at->s);
    float *h_to = pg__reals_out(&run->out[STATES]) + place * n;
    float *c_to = pg__reals_out(&run->out[CELLS]) + place * n;
    ahead(run, row, at->s + 1);
    if (pg__is_masked(pg__row_of(&run->in[MASK], row, z->steps), at->t)) {
        pg__copy_or_zero(h_to, h, n);
        pg__copy_or_zero(c_to, c, n);
        return;
    }
    run->lines->lstm(run->a, n, pg__reals(&run->in[ZX]) + (row * z->steps + at->t) * z->width, sums,
                     c, pg__reals_out(&run->out[GATES]) + place * z->width, h_to, c_to);
}

static void forward(const pg__recur_run *run, size_t first, size_t n)
{
    const rnn_sizes *z = &run->z;
    const pg__arg *out = run->out;
    for (size_t s = 0; s < z->steps; s++) {
        const pg__recur_step at = {first, n, s, pg__step_in(run->a, z, s)};
        const int sums = pg__recur_forward(run, &at, &out[STATES], 4);
        for (size_t r = 0; r < n; r++)
            take_step(run, &at, first + r, sums ? run->sums + r * z->width : NULL);
    }
    pg__recur_show(run, &out[STATES], first, n);
    for (size_t row = first; out[CELL].p && row < first + n; row++)
        memcpy(pg__row_out(&out[CELL], row, z->units),
               pg__reals(&out[CELLS]) + (row * z->steps + z->steps - 1) * z->units,
               z->units * sizeof(float));
}

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return pg__recur_prepare(state, i, 0, 4, needs, err);
}

static void run_forward(const void *state, void *const *args, void *scratch, const void *shared)
{
    (void)shared;
    pg__recur_go(state, args, scratch, forward, NULL);
}

const pg__cpu_kernel pg__cpu_lstm = {
    .prepare = prepare, .release = pg__recur_release, .run = run_forward};

/* ---- gradient ---- */

enum { DY = N_IN, DLAST, DSTATE, DCELL, G_STATES, G_GATES, G_CELLS };
enum { DKERNEL, DZX, DH0, DC0 };

/* Asks for what a row's gradient of the step before s reads and writes. */
PG_RECUR_AHEAD ahead_back(const pg__recur_run *run, size_t row, size_t s)
{
    const size_t n = run->z.units, place = row * run->z.steps + s;
    if (s == 0)
        return;
    pg__recur_ahead_of(run, pg__reals(&run->out[DZX]), row, s - 1);
    pg__recur_ahead(pg__reals(&run->in[G_GATES]) + (place - 1) * run->z.width, run->z.width);
    if (s > 1)
        pg__recur_ahead(pg__reals(&run->in[G_CELLS]) + (place - 2) * n, n);
}

/* One row: dh and dc are those of the step's state and become those of the one before. */
static void step_back(const pg__recur_run *run, const pg__recur_step *at, size_t row)
{
    const rnn_sizes *z = &run->z;
    const size_t n = z->units, place = row * z->steps + at->s;
    float *dz = pg__reals_out(&run->out[DZX]) + (row * z->steps + at->t) * z->width;
    float *dh = pg__row_out(&run->out[DH0], row, n), *dc = pg__row_out(&run->out[DC0], row, n);
    ahead_back(run, row, at->s);
    if (pg__recur_reaches(run, at, row, dh))
        run->lines->lstm_grad(run->a, n, pg__reals(&run->in[G_GATES]) + place * z->width,
                              pg__recur_before(run, &run->in[G_CELLS], &run->in[C0], row, at->s),
                              pg__reals(&run->in[G_CELLS]) + place * n, dh, dc, dz);
    else
        memset(dz, 0, z->width * sizeof *dz);
}

static void backward(const pg__recur_run *run, size_t first, size_t n)
{
    const rnn_sizes *z = &run->z;
    float *dh = pg__row_out(&run->out[DH0], first, z->units);
    float *dc = pg__row_out(&run->out[DC0], first, z->units);
    pg__copy_or_zero(dh, pg__row_of(&run->in[DSTATE], first, z->units), n * z->units);
    pg__copy_or_zero(dc, pg__row_of(&run->in[DCELL], first, z->units), n * z->units);
    for (size_t s = z->steps; s-- > 0;) {
        const pg__recur_step at = {first, n, s, pg__step_in(run->a, z, s)};
        const float *dz = pg__reals(&run->out[DZX]) + (first * z->steps + at.t) * z->width;
        for (size_t r = 0; r < n; r++)
            step_back(run, &at, first + r);
        if (s > 0 || run->in[H0].p)
            pg__recur_backward(run, &at, 4, dz, z->steps * z->width, dh);
    }
}

static void finish(const pg__recur_run *run)
{
    pg__recur_kernel(run, &run->in[G_STATES], pg__reals(&run->out[DZX]), 4);
}

static pg_status prepare_grad(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return pg__recur_prepare(state, i, 1, 4, needs, err);
}

static void run_backward(const void *state, void *const *args, void *scratch, const void *shared)
{
    (void)shared;
    pg__recur_go(state, args, scratch, backward, finish);
}

const pg__cpu_kernel pg__cpu_lstm_grad = {
    .prepare = prepare_grad, .release = pg__recur_release, .run = run_backward};
