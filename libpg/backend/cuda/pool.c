/* pool.c - maximum and average over windows. The gradient of a maximum over windows that overlap is
 * two kernels: which cell is the largest of each window, then what each cell gets. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/walk.h"
#include "base/mem.h"
#include "base/try.h"
#include "ops/pool_geo.h"

#define MOST (1u << 30) /* cells of a window, so that sums of two sizes are sizes too */

static pg_status windows_of(pgk_windows *w, const pg__cuda_inst *i, size_t x, size_t y, pg_err *err)
{
    const pg__pool_geo g = pg__pool_geo_of(i->attrs, &i->shapes[x], &i->shapes[y]);
    w->wide = g.channels % 4 == 0;
    w->channels = pg__size_of(w->wide ? g.channels / 4 : g.channels);
    for (size_t k = 0; k < 3; k++) {
        if (g.window[k] > MOST || g.stride[k] > MOST || g.before[k] > MOST)
            return pg_fail(
                err, PG_E_UNSUPPORTED,
                "a window of %zu cells in steps of %zu is not supported on a GPU: at most %u",
                g.window[k], g.stride[k], MOST);
        w->x[k] = pg__size_of(g.x[k]);
        w->y[k] = pg__size_of(g.y[k]);
        w->window[k] = (uint32_t)g.window[k];
        w->stride[k] = (uint32_t)g.stride[k];
        w->before[k] = (uint32_t)g.before[k];
    }
    return PG_OK;
}

PG_CUDA_PREPARE(prepare_pool)
{
    pgk_pool a = {.geo = {.channels = 0}};
    pgk_image x;
    pg_status st = PG_OK;
    (void)needs;
    PG_TRY(windows_of(&a.geo, i, 0, 1, err));
    PG_TRY(pg__image_of(&x, a.geo.x, a.geo.channels, a.geo.wide, err));
    PG_TRY(pg__image_of(&a.image, a.geo.y, a.geo.channels, a.geo.wide, err));
    const uint64_t n = pg__cuda_n(i, 1) / (a.geo.wide ? 4 : 1);
    st = ((const pg__pool_attrs *)i->attrs)->max ? PG_ONE(pool_max, &a, n)
                                                 : PG_ONE(pool_mean, &a, n);
done:
    return st;
}
const pg__cuda_op pg__cuda_pool = PG_CUDA_ONE(prepare_pool);

/* ---- gradients ---- */

typedef struct pool_grad {
    int max, apart;
    pgk_pool_largest largest;
    pgk_pool_apart a;
    pgk_pool_grad any;
    uint64_t n_x, n_y; /* units */
} pool_grad;

/* Is no cell in two windows? */
static int are_apart(const pgk_windows *w)
{
    for (size_t k = 0; k < 3; k++)
        if (w->window[k] > w->stride[k] && w->y[k] > 1)
            return 0;
    return 1;
}

PG_CUDA_PREPARE(prepare_grad)
{
    pgk_windows w;
    pool_grad *g = pg__mem_array(1, sizeof *g);
    pg_status st = PG_OK;
    if (!g)
        return pg__nomem(err);
    PG_TRY(windows_of(&w, i, 2, 1, err));
    g->max = ((const pg__pool_attrs *)i->attrs)->max;
    g->apart = are_apart(&w);
    g->n_x = pg__cuda_n(i, 2) / (w.wide ? 4 : 1);
    g->n_y = pg__cuda_n(i, 1) / (w.wide ? 4 : 1);
    PG_TRY(pg__image_of(&g->any.image, w.x, w.channels, w.wide, err));
    PG_TRY(pg__image_of(&g->a.image, w.y, w.channels, w.wide, err));
    g->largest.image = g->a.image;
    g->largest.geo = g->a.geo = g->any.geo = w;
    g->largest.x = g->a.x = pg__cuda_real(i, 0);
    g->a.dy = g->any.dy = pg__cuda_real(i, 1);
    g->a.dx = g->any.dx = pg__cuda_real(i, 2);
    for (size_t k = 0; k < 3; k++)
        g->any.stride[k] = pg__div_of(w.stride[k]);
    if (g->max && !g->apart)
        needs->scratch_bytes = (size_t)pg__cuda_n(i, 1) * sizeof(int32_t);
    *state = g;
    g = NULL;
done:
    pg__mem_free(g);
    return st;
}

static pg_status run_apart(pg__dev *d, const pool_grad *g, void *const *args)
{
    pgk_pool_apart a = g->a;
    a.x.p = args[0];
    a.dy.p = args[1];
    a.dx.p = args[2];
    return PG_LAUNCH(d, pool_apart, &a, g->n_y);
}

static pg_status run_grad(pg__dev *d, const void *state, void *const *args, void *scratch,
                          const void *shared)
{
    const pool_grad *g = state;
    pgk_pool_largest largest = g->largest;
    pgk_pool_grad a = g->any;
    pg_status st = PG_OK;
    (void)shared;
    if (g->max && g->apart)
        return run_apart(d, g, args);
    a.dy.p = args[1];
    a.dx.p = args[2];
    if (!g->max)
        return PG_LAUNCH(d, pool_mean_grad, &a, g->n_x);
    largest.x.p = args[0];
    largest.cells.p = a.cells.p = scratch;
    PG_TRY(PG_LAUNCH(d, pool_largest, &largest, g->n_y));
    PG_TRY(PG_LAUNCH(d, pool_max_grad, &a, g->n_x));
done:
    return st;
}
const pg__cuda_op pg__cuda_pool_grad = {.prepare = prepare_grad, .run = run_grad};
