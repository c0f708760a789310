/* rnn.c - the simple recurrent cell by blocks of rows, see ops/ref_rnn.c. */
#include "backend/cpu/recur.h"

enum { Y, LAST, STATE, STATES };

static void forward(const pg__recur_run *run, size_t first, size_t n)
{
    const rnn_sizes *z = &run->z;
    for (size_t s = 0; s < z->steps; s++) {
        const pg__recur_step at = {first, n, s, pg__step_in(run->a, z, s)};
        const int sums = pg__recur_forward(run, &at, &run->out[STATES], 1);
        for (size_t r = 0; r < n; r++) {
            const size_t row = first + r;
            float *to = pg__reals_out(&run->out[STATES]) + (row * z->steps + s) * z->units;
            if (s + 1 < z->steps) {
                pg__recur_ahead_of(run, pg__reals(&run->in[ZX]), row, s + 1);
                pg__recur_ahead(to + z->units, z->units);
            }
            if (pg__is_masked(pg__row_of(&run->in[MASK], row, z->steps), at.t))
                pg__copy_or_zero(to, pg__recur_before(run, &run->out[STATES], &run->in[H0], row, s),
                                 z->units);
            else
                run->lines->rnn(run->a, z->units,
                                pg__reals(&run->in[ZX]) + (row * z->steps + at.t) * z->width,
                                sums ? run->sums + r * z->width : NULL, to);
        }
    }
    pg__recur_show(run, &run->out[STATES], first, n);
}

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return pg__recur_prepare(state, i, 0, 1, needs, err);
}

static void run_forward(const void *state, void *const *args, void *scratch, const void *shared)
{
    (void)shared;
    pg__recur_go(state, args, scratch, forward, NULL);
}

const pg__cpu_kernel pg__cpu_rnn = {
    .prepare = prepare, .release = pg__recur_release, .run = run_forward};

/* ---- gradient ---- */

enum { DY = N_IN, DLAST, DSTATE, G_STATES };
enum { DKERNEL, DZX, DH0 };

static void backward(const pg__recur_run *run, size_t first, size_t n)
{
    const rnn_sizes *z = &run->z;
    float *dh = pg__row_out(&run->out[DH0], first, z->units);
    pg__copy_or_zero(dh, pg__row_of(&run->in[DSTATE], first, z->units), n * z->units);
    for (size_t s = z->steps; s-- > 0;) {
        const pg__recur_step at = {first, n, s, pg__step_in(run->a, z, s)};
        float *dz = pg__reals_out(&run->out[DZX]) + (first * z->steps + at.t) * z->width;
        for (size_t r = 0; r < n; r++) {
            float *to = dz + r * z->steps * z->width;
            if (s > 0) {
                pg__recur_ahead_of(run, pg__reals(&run->out[DZX]), first + r, s - 1);
                pg__recur_ahead(pg__reals(&run->in[G_STATES]) +
                                    ((first + r) * z->steps + s - 1) * z->units,
                                z->units);
            }
            if (pg__recur_reaches(run, &at, first + r, dh + r * z->units))
                run->lines->rnn_grad(run->a, z->units,
                                     pg__reals(&run->in[G_STATES]) +
                                         ((first + r) * z->steps + s) * z->units,
                                     dh + r * z->units, to);
            else
                memset(to, 0, z->width * sizeof *to);
        }
        if (s > 0 || run->in[H0].p)
            pg__recur_backward(run, &at, 1, dz, z->steps * z->width, dh);
    }
}

static void finish(const pg__recur_run *run)
{
    pg__recur_kernel(run, &run->in[G_STATES], pg__reals(&run->out[DZX]), 1);
}

static pg_status prepare_grad(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return pg__recur_prepare(state, i, 1, 1, needs, err);
}

static void run_backward(const void *state, void *const *args, void *scratch, const void *shared)
{
    (void)shared;
    pg__recur_go(state, args, scratch, backward, finish);
}

const pg__cpu_kernel pg__cpu_rnn_grad = {
    .prepare = prepare_grad, .release = pg__recur_release, .run = run_backward};
