/* host_rnn.c - dnn_rnn.h without a GPU (host.h), by the formulas, the order of gates and the layout
 * of weights that cuDNN's manual has: all matrices of the inputs, those of the states, the biases;
 * an output has a row. What is kept for the gradient is as large as cuDNN's. */
#include "host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/dnn_rnn.h"
#include "backend/cuda/kernel_copy.h"

#define WORK  640 /* bytes that a run spoils */
#define UNITS 64  /* most that it is asked for by tests */

struct pg__dnn_rnn_plan {
    pg__dnn_rnn r;
    pg__dnn_rnn_layout l;
    int trains, is_wrong, spoils;
};

typedef struct job {
    pg__dnn_rnn_plan p;
    pg__dnn_rnn_io io;
} job;

static int is(const char *how)
{
    const char *set = getenv("FAKE_CUDA_RNN");
    return set && strcmp(set, how) == 0;
}

static int adds(const pg__dnn_rnn *r)
{
    return pg__dnn_gates(r->cell) == 1;
}

static void lay_out(pg__dnn_rnn_plan *p)
{
    static const uint64_t kept[] = {1, 1, 5, 6}; /* of each unit of a step */
    const pg__dnn_rnn *r = &p->r;
    const uint64_t n = pg__dnn_gates(r->cell);
    uint64_t at = 0;
    for (uint64_t g = 0; g < n && !adds(r); g++, at += r->units * r->features)
        p->l.of_input[g] = at;
    for (uint64_t g = 0; g < n; g++, at += r->units * r->units)
        p->l.of_state[g] = at;
    for (uint64_t g = 0; g < n && r->cell == PG_DNN_GRU; g++, at += r->units)
        p->l.bias[g] = at;
    p->l.weights = pgk_bytes(r->type, at);
    p->l.work = WORK;
    p->l.reserve =
        p->trains ? pgk_bytes(r->type, kept[r->cell] * r->rows * r->steps * r->units) + 256 : 0;
}

pg_status pg__dnn_rnn_new(pg__dnn_rnn_plan **out, pg__dev *d, const pg__dnn_rnn *r, int trains,
                          pg__dnn_rnn_layout *layout, pg_err *err)
{
    (void)d;
    if (!getenv("FAKE_CUDA_RNN"))
        return pg_fail(err, PG_E_NO, "no recurrent layers");
    if (pg__fake_fails("rnn_new"))
        return pg_fail(err, PG_E_DEVICE, "rnn_new: failure that was ordered");
    if (r->units > UNITS)
        return pg_fail(err, PG_E_NO, "too large");
    pg__dnn_rnn_plan *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->r = *r;
    p->trains = trains;
    p->is_wrong = is("wrong");
    p->spoils = is("nan");
    lay_out(p);
    *layout = p->l;
    *out = p;
    return PG_OK;
}

void pg__dnn_rnn_free(pg__dnn_rnn_plan *p)
{
    free(p);
}

/* ---- numbers ---- */

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float at(const job *j, const void *p, uint64_t i)
{
    return p ? pgk_get((pgk_real){pg__cuda_const(p), j->p.r.type}, i) : 0;
}

static void set(const job *j, void *p, uint64_t i, double x)
{
    if (p)
        pgk_set((pgk_real){p, j->p.r.type}, i, (float)x);
}

static void add(const job *j, void *p, uint64_t i, double x)
{
    set(j, p, i, (double)at(j, p, i) + x);
}

/* The part of the input in gate g, output o; that of the state. */
static double of_input(const job *j, uint64_t g, uint64_t o, uint64_t line)
{
    const pg__dnn_rnn *r = &j->p.r;
    double sum = 0;
    if (adds(r))
        return (double)at(j, j->io.x, line * r->units + o);
    for (uint64_t c = 0; c < r->features; c++)
        sum += (double)at(j, j->io.weights, j->p.l.of_input[g] + o * r->features + c) *
               (double)at(j, j->io.x, line * r->features + c);
    return sum;
}

static double of_state(const job *j, uint64_t g, uint64_t o, const float *h)
{
    const pg__dnn_rnn *r = &j->p.r;
    double sum = r->cell == PG_DNN_GRU ? (double)at(j, j->io.weights, j->p.l.bias[g] + o) : 0;
    for (uint64_t c = 0; c < r->units; c++)
        sum += (double)at(j, j->io.weights, j->p.l.of_state[g] + o * r->units + c) * (double)h[c];
    return sum;
}

/* Kept number k of a unit of a step. */
static uint64_t kept(const job *j, uint64_t k, uint64_t line, uint64_t o)
{
    return (k * j->p.r.rows * j->p.r.steps + line) * j->p.r.units + o;
}

/* ---- forward ---- */

typedef struct unit {
    float v[4], more; /* gates; lstm: the cell state, gru: the candidate's product */
} unit;

static unit lstm_unit(const job *j, uint64_t o, uint64_t line, const float *h, float c)
{
    unit u;
    for (uint64_t g = 0; g < 4; g++) {
        const float z = (float)(of_input(j, g, o, line) + of_state(j, g, o, h));
        u.v[g] = g == 2 ? tanhf(z) : sigmoid(z);
    }
    if (j->p.is_wrong)
        u.v[3] *= 1.1f;
    u.more = u.v[1] * c + u.v[0] * u.v[2];
    return u;
}

static unit gru_unit(const job *j, uint64_t o, uint64_t line, const float *h)
{
    unit u = {.more = (float)of_state(j, 2, o, h)};
    for (uint64_t g = 0; g < 2; g++)
        u.v[g] = sigmoid((float)(of_input(j, g, o, line) + of_state(j, g, o, h)));
    if (j->p.is_wrong)
        u.v[1] *= 1.1f;
    u.v[2] = tanhf((float)of_input(j, 2, o, line) + u.v[0] * u.more);
    return u;
}

static float simple_unit(const job *j, uint64_t o, uint64_t line, const float *h)
{
    const float z = (float)(of_input(j, 0, o, line) + of_state(j, 0, o, h));
    return j->p.r.cell == PG_DNN_TANH ? tanhf(z) : z > 0 ? z : 0;
}

static float step(const job *j, uint64_t o, uint64_t line, const float *h, float *c)
{
    const pg__dnn_cell cell = j->p.r.cell;
    const uint64_t n = pg__dnn_gates(cell);
    unit u;
    if (n == 1)
        return simple_unit(j, o, line, h);
    u = cell == PG_DNN_LSTM ? lstm_unit(j, o, line, h, c[o]) : gru_unit(j, o, line, h);
    for (uint64_t g = 0; g < n; g++)
        set(j, j->io.reserve, kept(j, g, line, o), (double)u.v[g]);
    set(j, j->io.reserve, kept(j, n, line, o), (double)u.more);
    if (cell == PG_DNN_GRU)
        return (1 - u.v[1]) * u.v[2] + u.v[1] * h[o];
    c[o] = u.more;
    return u.v[3] * tanhf(u.more);
}

static void forward(const void *args, uint64_t rows)
{
    const job *j = args;
    const uint64_t n = j->p.r.units, steps = j->p.r.steps;
    memset(pgk_host_memory(j->io.work), 0xa5, WORK);
    for (uint64_t r = 0; r < rows; r++) {
        float h[UNITS], next[UNITS], c[UNITS];
        for (uint64_t o = 0; o < n; o++) {
            h[o] = at(j, j->io.h0, r * n + o);
            c[o] = at(j, j->io.c0, r * n + o);
        }
        for (uint64_t s = 0; s < steps; s++) {
            for (uint64_t o = 0; o < n; o++) {
                next[o] = step(j, o, r * steps + s, h, c);
                set(j, j->io.y, (r * steps + s) * n + o, (double)next[o]);
            }
            memcpy(h, next, sizeof h);
        }
        for (uint64_t o = 0; o < n; o++)
            set(j, j->io.c, r * n + o, (double)c[o]);
    }
    if (j->p.spoils)
        set(j, j->io.y, 0, (double)NAN);
}

/* ---- backward ---- */

/* The state before a step. */
static float before(const job *j, uint64_t r, uint64_t s, uint64_t o)
{
    const uint64_t n = j->p.r.units;
    return s > 0 ? at(j, j->io.y, (r * j->p.r.steps + s - 1) * n + o) : at(j, j->io.h0, r * n + o);
}

static float cell_before(const job *j, uint64_t r, uint64_t s, uint64_t o)
{
    return s > 0 ? at(j, j->io.reserve, kept(j, 4, r * j->p.r.steps + s - 1, o))
                 : at(j, j->io.c0, r * j->p.r.units + o);
}

/* Gradients of one unit's sums: all of it, and of the part of the state. */
typedef struct slopes {
    double z[4], state[4], keep; /* keep: of the state itself */
} slopes;

static slopes slopes_of(const job *j, uint64_t r, uint64_t s, uint64_t o, double dh, double *dc)
{
    const uint64_t line = r * j->p.r.steps + s;
    const double y = (double)at(j, j->io.y, line * j->p.r.units + o);
    slopes d = {.keep = 0};
    double v[5];
    if (adds(&j->p.r)) {
        d.z[0] = d.state[0] = dh * (j->p.r.cell == PG_DNN_TANH ? 1 - y * y : y > 0);
        return d;
    }
    for (uint64_t k = 0; k <= pg__dnn_gates(j->p.r.cell); k++)
        v[k] = (double)at(j, j->io.reserve, kept(j, k, line, o));
    if (j->p.r.cell == PG_DNN_GRU) {
        d.z[1] = dh * ((double)before(j, r, s, o) - v[2]) * v[1] * (1 - v[1]);
        d.z[2] = dh * (1 - v[1]) * (1 - v[2] * v[2]);
        d.z[0] = d.z[2] * v[3] * v[0] * (1 - v[0]);
        d.keep = dh * v[1];
        memcpy(d.state, d.z, sizeof d.z);
        d.state[2] *= v[0];
        return d;
    }
    const double t = tanh(v[4]), dcell = *dc + dh * v[3] * (1 - t * t);
    d.z[0] = dcell * v[2] * v[0] * (1 - v[0]);
    d.z[1] = dcell * (double)cell_before(j, r, s, o) * v[1] * (1 - v[1]);
    d.z[2] = dcell * v[0] * (1 - v[2] * v[2]);
    d.z[3] = dh * t * v[3] * (1 - v[3]);
    *dc = dcell * v[1];
    memcpy(d.state, d.z, sizeof d.z);
    return d;
}

/* What one gate of one unit sends to the input, the state before and the weights. */
static void send(const job *j, uint64_t r, uint64_t s, uint64_t g, uint64_t o, const slopes *d,
                 double *dh)
{
    const pg__dnn_rnn *n = &j->p.r;
    const pg__dnn_rnn_layout *l = &j->p.l;
    const uint64_t line = r * n->steps + s;
    for (uint64_t c = 0; c < n->features && !adds(n); c++) {
        const uint64_t w = l->of_input[g] + o * n->features + c;
        add(j, j->io.dx, line * n->features + c, d->z[g] * (double)at(j, j->io.weights, w));
        add(j, j->io.dweights, w, d->z[g] * (double)at(j, j->io.x, line * n->features + c));
    }
    if (adds(n))
        set(j, j->io.dx, line * n->units + o, d->z[0]);
    for (uint64_t c = 0; c < n->units; c++) {
        const uint64_t w = l->of_state[g] + o * n->units + c;
        dh[c] += d->state[g] * (double)at(j, j->io.weights, w);
        add(j, j->io.dweights, w, d->state[g] * (double)before(j, r, s, c));
    }
    if (n->cell == PG_DNN_GRU)
        add(j, j->io.dweights, l->bias[g] + o, d->state[g]);
}

static void step_back(const job *j, uint64_t r, uint64_t s, double *dh, double *dc)
{
    const pg__dnn_rnn *n = &j->p.r;
    const uint64_t line = r * n->steps + s;
    double to[UNITS] = {0};
    for (uint64_t c = 0; c < n->features; c++)
        set(j, j->io.dx, line * n->features + c, 0);
    for (uint64_t o = 0; o < n->units; o++) {
        const double d = dh[o] + (double)at(j, j->io.dy, line * n->units + o);
        const slopes by = slopes_of(j, r, s, o, d, &dc[o]);
        to[o] += by.keep;
        for (uint64_t g = 0; g < pg__dnn_gates(n->cell); g++)
            send(j, r, s, g, o, &by, to);
    }
    memcpy(dh, to, sizeof to);
}

static void backward(const void *args, uint64_t rows)
{
    const job *j = args;
    const uint64_t n = j->p.r.units;
    memset(pgk_host_memory(j->io.work), 0xa5, WORK);
    for (uint64_t r = 0; r < rows; r++) {
        double dh[UNITS], dc[UNITS];
        for (uint64_t o = 0; o < n; o++) {
            dh[o] = (double)at(j, j->io.dh, r * n + o);
            dc[o] = (double)at(j, j->io.dc, r * n + o);
        }
        for (uint64_t s = j->p.r.steps; s-- > 0;)
            step_back(j, r, s, dh, dc);
        for (uint64_t o = 0; o < n; o++) {
            set(j, j->io.dh0, r * n + o, dh[o]);
            set(j, j->io.dc0, r * n + o, dc[o]);
        }
    }
}

/* ---- runs ---- */

/* As memory is handed out, which is all that is known of what cuDNN wants. */
static int are_aligned(const pg__dnn_rnn_io *io)
{
    const void *const at[] = {io->x,  io->h0, io->c0, io->y,   io->c,  io->dy,
                              io->dh, io->dc, io->dx, io->dh0, io->dc0};
    for (size_t k = 0; k < sizeof at / sizeof *at; k++)
        if (at[k] && !pg__fake_is_at(at[k], 16))
            return 0;
    return pg__fake_is_at(io->weights, 256) && pg__fake_is_at(io->work, 256) &&
           (!io->reserve || pg__fake_is_at(io->reserve, 256)) &&
           (!io->dweights || pg__fake_is_at(io->dweights, 256));
}

static pg_status queue(pg__dev *d, const char *name, pg__fake_work work, const pg__dnn_rnn_plan *p,
                       const pg__dnn_rnn_io *io)
{
    const job j = {*p, *io};
    if (!are_aligned(io))
        return pg_fail(&d->failure, PG_E_DEVICE, "%s: an address is not a multiple of 16", name);
    if (is("fails"))
        return pg_fail(&d->failure, PG_E_DEVICE, "%s: failure that was ordered", name);
    if (is("idle"))
        return PG_OK;
    pg__fake_spend(is("slow") ? 500000u : 10u);
    return pg__cuda_launched(
        d, pg__fake_queue(pg__rt_stream(d->rt), name, work, &j, sizeof j, p->r.rows), name);
}

pg_status pg__dnn_rnn_forward(pg__dev *d, const pg__dnn_rnn_plan *p, const pg__dnn_rnn_io *io)
{
    if (!p->trains != !io->reserve) {
        fprintf(stderr, "rnn_forward: what is kept has no place, or one too many\n");
        abort();
    }
    return queue(d, "rnn_forward", forward, p, io);
}

pg_status pg__dnn_rnn_backward(pg__dev *d, const pg__dnn_rnn_plan *p, const pg__dnn_rnn_io *io)
{
    return queue(d, "rnn_backward", backward, p, io);
}
