/* gru.c - GRU by blocks of rows, see ops/ref_gru.c. A reset gate that acts before the product needs
 * a second product in every step, of the reset state with the candidate's columns. */
#include "backend/cpu/recur.h"

enum { Y, LAST, STATE, STATES, GATES, PARTS };

/* A row's factors of the state for gate g, or NULL. */
static const float *factors_of(const pg__recur_run *run, size_t row, size_t g)
{
    const rnn_sizes *z = &run->z;
    const float *f = pg__row_of(&run->in[FACTORS], row, z->n_factors * z->units);
    return f && z->n_factors > 1 ? f + g * z->units : f;
}

static const float *carried_of(const pg__recur_run *run, size_t row)
{
    return run->a->drop_carried ? factors_of(run, row, 0) : NULL;
}

/* to = r h factors */
static void reset(const pg__recur_run *run, size_t row, const float *h, const float *gates,
                  float *to)
{
    const size_t n = run->z.units;
    const float *f = factors_of(run, row, 2);
    run->lines->product(to, gates + n, h, n);
    if (f)
        run->lines->times(to, f, n);
}

/* What one row has of a step. */
typedef struct place {
    int masked;
    const float *zx, *h;
    float *gates, *part, *to;
} place;

static place place_of(const pg__recur_run *run, const pg__recur_step *at, size_t row)
{
    const rnn_sizes *z = &run->z;
    const size_t step = row * z->steps + at->s;
    return (place){
        .masked = pg__is_masked(pg__row_of(&run->in[MASK], row, z->steps), at->t),
        .zx = pg__reals(&run->in[ZX]) + (row * z->steps + at->t) * z->width,
        .h = pg__recur_before(run, &run->out[STATES], &run->in[H0], row, at->s),
        .gates = pg__reals_out(&run->out[GATES]) + step * z->width,
        .part = pg__reals_out(&run->out[PARTS]) + step * z->units,
        .to = pg__reals_out(&run->out[STATES]) + step * z->units,
    };
}

/* part = (r h factors) U, for all rows; those that are masked take part with zeros. */
static void reset_products(const pg__recur_run *run, const pg__recur_step *at)
{
    const rnn_sizes *z = &run->z;
    for (size_t r = 0; r < at->n; r++) {
        const place p = place_of(run, at, at->first + r);
        if (p.h && !p.masked)
            reset(run, at->first + r, p.h, p.gates, run->more + r * z->units);
        else
            memset(run->more + r * z->units, 0, z->units * sizeof(float));
    }
    pg__recur_multiply(run, at->n, 2, 1, run->more, z->units, 0, place_of(run, at, at->first).part,
                       z->steps * z->units);
}

/* Asks for what a row's next step reads and writes. */
PG_RECUR_AHEAD ahead(const pg__recur_run *run, const pg__recur_step *at, size_t row, const place *p)
{
    const rnn_sizes *z = &run->z;
    if (at->s + 1 == z->steps)
        return;
    pg__recur_ahead_of(run, pg__reals(&run->in[ZX]), row, at->s + 1);
    pg__recur_ahead(p->gates + z->width, z->width);
    pg__recur_ahead(p->part + z->units, z->units);
    pg__recur_ahead(p->to + z->units, z->units);
}

static void take_step(const pg__recur_run *run, const pg__recur_step *at)
{
    const rnn_sizes *z = &run->z;
    const pg__rnn_attrs *a = run->a;
    const int sums = pg__recur_forward(run, at, &run->out[STATES], a->reset_after ? 3 : 2);
    for (size_t r = 0; r < at->n; r++) {
        const place p = place_of(run, at, at->first + r);
        if (!p.masked)
            run->lines->gru_gates(a, z->units, p.zx, sums ? run->sums + r * z->width : NULL,
                                  pg__reals(&run->in[BIAS]), p.gates, p.part);
    }
    if (!a->reset_after)
        reset_products(run, at);
    for (size_t r = 0; r < at->n; r++) {
        const place p = place_of(run, at, at->first + r);
        ahead(run, at, at->first + r, &p);
        if (p.masked)
            pg__copy_or_zero(p.to, p.h, z->units);
        else
            run->lines->gru_state(a, z->units, p.zx, p.part, p.h, carried_of(run, at->first + r),
                                  p.gates, p.to);
    }
}

static void forward(const pg__recur_run *run, size_t first, size_t n)
{
    for (size_t s = 0; s < run->z.steps; s++) {
        const pg__recur_step at = {first, n, s, pg__step_in(run->a, &run->z, s)};
        take_step(run, &at);
    }
    pg__recur_show(run, &run->out[STATES], first, n);
}

/* Gates of one product: the candidate's is another one if the reset gate acts before it. */
static size_t together(const pg__cpu_inst *i)
{
    const pg__rnn_attrs *a = i->attrs;
    return a->reset_after ? 3 : 2;
}

static pg_status prepare(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return pg__recur_prepare(state, i, 0, together(i), needs, err);
}

static void run_forward(const void *state, void *const *args, void *scratch, const void *shared)
{
    (void)shared;
    pg__recur_go(state, args, scratch, forward, NULL);
}

const pg__cpu_kernel pg__cpu_gru = {
    .prepare = prepare, .release = pg__recur_release, .run = run_forward};

/* ---- gradient ---- */

enum { DY = N_IN, DLAST, DSTATE, G_STATES, G_GATES, G_PARTS };
enum { DKERNEL, DBIAS, DZX, DH0 };

/* What one row has of a step's gradient. */
typedef struct back_place {
    const float *h, *gates, *part;
    float *dz, *dh;
} back_place;

static back_place back_place_of(const pg__recur_run *run, const pg__recur_step *at, size_t row)
{
    const rnn_sizes *z = &run->z;
    const size_t step = row * z->steps + at->s;
    return (back_place){
        .h = pg__recur_before(run, &run->in[G_STATES], &run->in[H0], row, at->s),
        .gates = pg__reals(&run->in[G_GATES]) + step * z->width,
        .part = pg__reals(&run->in[G_PARTS]) + step * z->units,
        .dz = pg__reals_out(&run->out[DZX]) + (row * z->steps + at->t) * z->width,
        .dh = pg__row_out(&run->out[DH0], row, z->units),
    };
}

/* Gradient of the products of a reset gate that acts after them: dz, the candidate's times r. */
static void product_gradient(const pg__recur_run *run, const float *dz, const float *gates,
                             float *to)
{
    const size_t n = run->z.units;
    memcpy(to, dz, 2 * n * sizeof *to);
    run->lines->product(to + 2 * n, dz + 2 * n, gates + n, n);
}

/* dh and the reset gates' dz, where they act before the product. */
static void reset_backward(const pg__recur_run *run, const pg__recur_step *at, const float *dz,
                           const unsigned char *open)
{
    const rnn_sizes *z = &run->z;
    const size_t n = z->units;
    pg__recur_multiply(run, at->n, 2, 1, dz + 2 * n, z->steps * z->width, 0, run->more, n);
    for (size_t r = 0; r < at->n; r++) {
        const back_place p = back_place_of(run, at, at->first + r);
        if (open[r])
            run->lines->gru_reset_grad(run->a, n, p.gates, p.h, factors_of(run, at->first + r, 2),
                                       run->more + r * n, p.dh, p.dz);
    }
}

/* Asks for what a row's gradient of the step before reads and writes. */
PG_RECUR_AHEAD ahead_back(const pg__recur_run *run, const pg__recur_step *at, size_t row,
                          const back_place *p)
{
    const rnn_sizes *z = &run->z;
    if (at->s == 0)
        return;
    pg__recur_ahead_of(run, pg__reals(&run->out[DZX]), row, at->s - 1);
    pg__recur_ahead(p->gates - z->width, z->width);
    pg__recur_ahead(p->part - z->units, z->units);
    if (at->s > 1)
        pg__recur_ahead(p->h - z->units, z->units);
}

static void step_back(const pg__recur_run *run, const pg__recur_step *at)
{
    const rnn_sizes *z = &run->z;
    const int after = run->a->reset_after;
    const back_place first = back_place_of(run, at, at->first);
    unsigned char open[PG_RECUR_BLOCK];
    for (size_t r = 0; r < at->n; r++) {
        const back_place p = back_place_of(run, at, at->first + r);
        ahead_back(run, at, at->first + r, &p);
        open[r] = pg__recur_reaches(run, at, at->first + r, p.dh) != 0;
        if (open[r])
            run->lines->gru_grad(run->a, z->units, p.gates, p.part, p.h,
                                 carried_of(run, at->first + r), p.dh, p.dz);
        else
            memset(p.dz, 0, z->width * sizeof *p.dz);
        if (after && open[r])
            product_gradient(run, p.dz, p.gates, run->sums + r * z->width);
        else if (after)
            memset(run->sums + r * z->width, 0, z->width * sizeof(float));
    }
    if (!after)
        reset_backward(run, at, first.dz, open);
    if (at->s == 0 && !run->in[H0].p)
        return;
    if (after)
        pg__recur_backward(run, at, 3, run->sums, z->width, first.dh);
    else
        pg__recur_backward(run, at, 2, first.dz, z->steps * z->width, first.dh);
}

static void backward(const pg__recur_run *run, size_t first, size_t n)
{
    const rnn_sizes *z = &run->z;
    pg__copy_or_zero(pg__row_out(&run->out[DH0], first, z->units),
                     pg__row_of(&run->in[DSTATE], first, z->units), n * z->units);
    for (size_t s = z->steps; s-- > 0;) {
        const pg__recur_step at = {first, n, s, pg__step_in(run->a, z, s)};
        step_back(run, &at);
    }
}

/* Of some steps: `to`, where the reset gate acts after the product, its gradient by the candidate's
 * columns; else, with the states in `states`, these times r. Masked steps give zeros. */
static void candidate_part(const pg__recur_run *run, size_t from, size_t n, float *states,
                           float *to)
{
    const rnn_sizes *z = &run->z;
    for (size_t i = 0; i < n; i++) {
        const size_t row = (from + i) / z->steps, t = (from + i) % z->steps;
        const size_t s = pg__step_in(run->a, z, t);
        const float *r = pg__reals(&run->in[G_GATES]) + (row * z->steps + s) * z->width + z->units;
        const float *dz = pg__reals(&run->out[DZX]) + (from + i) * z->width + 2 * z->units;
        const int masked = pg__is_masked(pg__row_of(&run->in[MASK], row, z->steps), t);
        if (masked)
            memset((run->a->reset_after ? to : states) + i * z->units, 0, z->units * sizeof *to);
        else if (run->a->reset_after)
            run->lines->product(to + i * z->units, dz, r, z->units);
        else
            run->lines->times(states + i * z->units, r, z->units);
    }
}

static void add_biases(const pg__recur_run *run, size_t from, size_t n, const float *candidate)
{
    const rnn_sizes *z = &run->z;
    float *db = pg__reals_out(&run->out[DBIAS]);
    for (size_t i = 0; db && run->a->reset_after && i < n; i++) {
        run->lines->add(db, pg__reals(&run->out[DZX]) + (from + i) * z->width, 2 * z->units);
        run->lines->add(db + 2 * z->units, candidate + i * z->units, z->units);
    }
}

/* The candidate's columns of the kernel, and the bias. */
static void finish(const pg__recur_run *run)
{
    const rnn_sizes *z = &run->z;
    const size_t units = z->units, all = z->rows * z->steps;
    float *dkernel = pg__reals_out(&run->out[DKERNEL]), *to = run->more;
    if (run->out[DBIAS].p)
        memset(run->out[DBIAS].p, 0, z->width * sizeof(float));
    pg__recur_kernel(run, &run->in[G_STATES], pg__reals(&run->out[DZX]), 2);
    for (size_t from = 0, n; from < all; from += n) {
        n = all - from < PG_RECUR_PART ? all - from : PG_RECUR_PART;
        pg__recur_states(run, &run->in[G_STATES], z->n_factors > 1 ? 2 : 0, from, n, run->work);
        candidate_part(run, from, n, run->work, to);
        add_biases(run, from, n, to);
        const pg__mat dz = {pg__reals(&run->out[DZX]) + from * z->width + 2 * units, z->width, 0};
        if (dkernel)
            pg__gemm(units, units, n, 1, (pg__mat){run->work, units, 1},
                     run->a->reset_after ? (pg__mat){to, units, 0} : dz, from > 0,
                     dkernel + 2 * units, z->width);
    }
}

static pg_status prepare_grad(void **state, const pg__cpu_inst *i, pg__needs *needs, pg_err *err)
{
    return pg__recur_prepare(state, i, 1, together(i), needs, err);
}

static void run_backward(const void *state, void *const *args, void *scratch, const void *shared)
{
    (void)shared;
    pg__recur_go(state, args, scratch, backward, finish);
}

const pg__cpu_kernel pg__cpu_gru_grad = {
    .prepare = prepare_grad, .release = pg__recur_release, .run = run_backward};
