/* layer_norm.c - normalisation over the last axes. */
#include "backend/cuda/columns.h"
#include "base/mem.h"
#include "base/try.h"

PG_CUDA_PREPARE(prepare_layer_norm)
{
    const pg__layer_norm_attrs *at = i->attrs;
    const uint64_t rows = pg__cuda_n(i, (size_t)i->inst->n_in + 1);
    const pgk_layer_norm a = {.n = rows > 0 ? pg__cuda_n(i, 0) / rows : 0,
                              .epsilon = (float)at->epsilon};
    (void)needs;
    return PG_ONE(layer_norm, &a, rows);
}
const pg__cuda_op pg__cuda_layer_norm = PG_CUDA_ONE(prepare_layer_norm);

/* ---- x, dy, gamma, mean, 1 / sqrt() -> dx, dgamma, dbeta ---- */

enum { X, DY, GAMMA, MEAN, SCALE, DX, DGAMMA, DBETA, N_ARGS };

typedef struct grad {
    uint64_t rows, n;
    pg__columns dgamma, dbeta;
    pgk_real reals[N_ARGS];
} grad;

PG_CUDA_PREPARE(prepare_grad)
{
    grad *g = pg__mem_array(1, sizeof *g);
    if (!g)
        return pg__nomem(err);
    g->n = pg__cuda_n(i, DGAMMA);
    g->rows = g->n > 0 ? pg__cuda_n(i, X) / g->n : 0;
    g->dgamma = pg__columns_new(g->rows, g->n, needs);
    g->dbeta = pg__columns_new(g->rows, g->n, needs);
    for (size_t k = 0; k < N_ARGS; k++)
        g->reals[k] = pg__cuda_real(i, k);
    *state = g;
    return PG_OK;
}

static pg_status run_columns(pg__dev *d, const grad *g, const pgk_real *v, void *scratch)
{
    const pgk_layer_norm_part part = {.x = v[X],
                                      .dy = v[DY],
                                      .mean = v[MEAN],
                                      .scale = v[SCALE],
                                      .dgamma = {(char *)scratch + g->dgamma.at, PGK_F32},
                                      .dbeta = {(char *)scratch + g->dbeta.at, PGK_F32},
                                      .rows = g->rows,
                                      .n = g->n,
                                      .parts = g->dgamma.parts};
    pg_status st = PG_OK;
    PG_TRY(PG_LAUNCH(d, layer_norm_part, &part, part.parts * part.n));
    if (v[DGAMMA].p)
        PG_TRY(pg__columns_join(d, &g->dgamma, v[DGAMMA].p, scratch));
    if (v[DBETA].p)
        PG_TRY(pg__columns_join(d, &g->dbeta, v[DBETA].p, scratch));
done:
    return st;
}

static pg_status run_grad(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    const grad *g = state;
    pgk_real v[N_ARGS];
    pg_status st = PG_OK;
    (void)shared;
    for (size_t k = 0; k < N_ARGS; k++)
        v[k] = (pgk_real){args[k], g->reals[k].type};
    const pgk_layer_norm_dx dx = {.x = v[X],
                                  .dy = v[DY],
                                  .gamma = v[GAMMA],
                                  .mean = v[MEAN],
                                  .scale = v[SCALE],
                                  .dx = v[DX],
                                  .n = g->n};
    if (v[DX].p)
        PG_TRY(PG_LAUNCH(d, layer_norm_dx, &dx, g->rows));
    if (v[DGAMMA].p || v[DBETA].p)
        PG_TRY(run_columns(d, g, v, scratch));
done:
    return st;
}
const pg__cuda_op pg__cuda_layer_norm_grad = {.prepare = prepare_grad, .run = run_grad};
