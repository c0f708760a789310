/* spectral.c - the largest singular value by the power method, on the host: one matrix-vector
 * product each way costs little compared to a step.
 *
 * T. Miyato et al., Spectral Normalization for Generative Adversarial Networks, 2018, as in Keras:
 * W is the kernel as a matrix whose columns are its last axis; v = u W' / |u W'|, u = v W / |v W|,
 * value = v W u'. */
#include "train/step/spectral.h"

#include <math.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/devices.h"
#include "train/step/model_parallel.h"

typedef struct matrix {
    void *w, *u; /* of the back end's reals */
    size_t rows, columns;
    int is_double;
} matrix;

static double at(const matrix *m, const void *p, size_t i)
{
    return m->is_double ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void set(const matrix *m, void *p, size_t i, double v)
{
    if (m->is_double)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

static int is_zero(const matrix *m)
{
    for (size_t i = 0; i < m->rows * m->columns; i++)
        if (at(m, m->w, i) != 0)
            return 0;
    return 1;
}

/* next = u W' W and, returned, |u W'|: a row of W is read once for both. */
static double turn(const matrix *m, const double *u, double *next)
{
    double squares = 0;
    for (size_t c = 0; c < m->columns; c++)
        next[c] = 0;
    for (size_t r = 0; r < m->rows; r++) {
        double v = 0;
        for (size_t c = 0; c < m->columns; c++)
            v += u[c] * at(m, m->w, r * m->columns + c);
        for (size_t c = 0; c < m->columns; c++)
            next[c] += v * at(m, m->w, r * m->columns + c);
        squares += v * v;
    }
    return sqrt(squares);
}

/* Updates u and returns the singular value. least: lower bound of norms. */
static double iterate(const matrix *m, double *u, double *next, double least)
{
    double squares = 0;
    const double length = fmax(turn(m, u, next), least);
    for (size_t c = 0; c < m->columns; c++) {
        next[c] /= length; /* v W */
        squares += next[c] * next[c];
    }
    const double norm = sqrt(squares);
    for (size_t c = 0; c < m->columns; c++)
        u[c] = next[c] / fmax(norm, least);
    return norm * norm / fmax(norm, least);
}

static void normalise(const matrix *m, double *u, double *next, size_t iterations, double least)
{
    double value = 1;
    if (is_zero(m))
        return;
    for (size_t c = 0; c < m->columns; c++)
        u[c] = at(m, m->u, c);
    for (size_t k = 0; k < iterations; k++)
        value = iterate(m, u, next, least);
    for (size_t c = 0; c < m->columns; c++)
        set(m, m->u, c, u[c]);
    for (size_t i = 0; i < m->rows * m->columns; i++)
        set(m, m->w, i, at(m, m->w, i) / value);
}

static pg_status normalise_one(pg_trainer *t, const pg__spectral *s, pg_err *err)
{
    const pg__backend *b = t->devs.backend;
    const size_t n = t->vars.n_elems[s->kernel], columns = t->vars.n_elems[s->u];
    const int is_here = b->host_memory;
    pg__dev *kernel_dev = pg__param_dev(t, s->kernel), *u_dev = pg__param_dev(t, s->u);
    void *kernel = t->vars.params.at[s->kernel], *u = t->vars.params.at[s->u];
    double *work = pg__mem_array(2 * columns, sizeof *work);
    matrix m = {kernel, u, n / columns, columns, b->real_bytes == sizeof(double)};
    pg_status st = PG_OK;
    if (!is_here) {
        m.w = pg__mem_array(n, b->real_bytes);
        m.u = pg__mem_array(columns, b->real_bytes);
    }
    if (!work || !m.w || !m.u)
        PG_TRY(pg__nomem(err));
    if (!is_here) {
        PG_TRY(pg__device_failed(&t->devs, kernel_dev,
                                 b->get(kernel_dev, m.w, kernel, n * b->real_bytes), err));
        PG_TRY(pg__device_failed(&t->devs, u_dev, b->get(u_dev, m.u, u, columns * b->real_bytes),
                                 err));
    }
    normalise(&m, work, work + columns, s->iterations, t->net.rules->keras3 ? 1e-7 : 1e-6);
    if (!is_here) {
        PG_TRY(pg__device_failed(&t->devs, kernel_dev,
                                 b->put(kernel_dev, kernel, m.w, n * b->real_bytes), err));
        PG_TRY(pg__device_failed(&t->devs, u_dev, b->put(u_dev, u, m.u, columns * b->real_bytes),
                                 err));
    }
done:
    if (!is_here) {
        pg__mem_free(m.w);
        pg__mem_free(m.u);
    }
    pg__mem_free(work);
    return st;
}

pg_status pg__spectral_check(const pg__trainer_net *net, pg_err *err)
{
    const pg__lowered *m = &net->built_params;
    for (size_t i = 0; i < m->n_spectral; i++)
        if (m->spectral[i].is_repeated)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "%s: is called more than once for a row, and SpectralNormalization "
                           "changes its kernel before each call",
                           PG_SHOW(m->params[m->spectral[i].kernel].leaf->layer->name));
    return PG_OK;
}

pg_status pg__normalise_kernels(pg_trainer *t, pg_err *err)
{
    const pg__lowered *m = &t->net.built_params;
    pg_status st = PG_OK;
    if (m->n_spectral == 0 || t->loop.is_trial)
        return PG_OK;
    for (size_t i = 0; i < m->n_spectral; i++)
        PG_TRY(normalise_one(t, &m->spectral[i], err));
    t->vars.version++;
done:
    return st;
}
