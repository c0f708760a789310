/* conv_cell.c - convolutions with our own kernels, over kernels in Keras' order. */
#include "backend/cuda/columns.h"
#include "backend/cuda/conv.h"
#include "base/mem.h"

#define MAX_ELEMS ((uint64_t)1 << 31)

typedef struct cells {
    pg__conv c;
    pgk_geo g;
    pgk_type w_type;
    pg__columns dw, db; /* gradients: parts of each element of the kernel, and of the bias */
} cells;

static pgk_geo geo_of(const pg__conv *c)
{
    const pg__conv_attrs *a = c->attrs;
    pgk_geo g = {.in = (uint32_t)c->in,
                 .out = (uint32_t)c->out,
                 .n_in = (uint32_t)(c->in / a->groups),
                 .n_out = (uint32_t)(c->out / a->groups),
                 .cells = (uint32_t)(c->rows * c->y_cells)};
    for (uint32_t i = 0; i < 3; i++)
        g.x[i] = g.y[i] = g.k[i] = g.stride[i] = g.dilation[i] = 1;
    for (uint32_t i = 3 - a->rank, from = 0; i < 3; i++, from++) {
        g.x[i] = (uint32_t)c->x.d[from + 1];
        g.y[i] = (uint32_t)c->y.d[from + 1];
        g.k[i] = (uint32_t)a->kernel[from];
        g.stride[i] = (uint32_t)a->stride[from];
        g.dilation[i] = (uint32_t)a->dilation[from];
        g.before[i] = (uint32_t)a->before[from];
    }
    return g;
}

/* Do all cells that are counted with have 31 bits? */
static int fits(const pg__conv *c)
{
    const pg__conv_attrs *a = c->attrs;
    for (uint32_t i = 0; i < a->rank; i++)
        if (c->x.d[i + 1] + a->before[i] + a->after[i] + a->stride[i] >= MAX_ELEMS)
            return 0;
    return pg__dims_elems(&c->x) < MAX_ELEMS && pg__dims_elems(&c->y) < MAX_ELEMS &&
           c->n_w < MAX_ELEMS;
}

static pg_status prepare(void **state, const pg__cuda_inst *i, const pg__conv *c, pg__needs *needs,
                         pg_err *err)
{
    if (!fits(c))
        return PG_OK;
    cells *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    *s = (cells){.c = *c, .g = geo_of(c)};
    if (c->pass == PG_PASS_W) {
        s->dw = pg__columns_new(s->g.cells, c->n_w, needs);
        s->db = pg__columns_new(s->g.cells, c->out, needs);
    } else {
        s->w_type = pg__cuda_real(i, 1).type;
    }
    *state = s;
    return PG_OK;
}

static pg_status prepare_by_channel(void **state, const pg__cuda_inst *i, const pg__conv *c,
                                    pg__needs *needs, pg_err *err)
{
    return c->attrs->groups == c->in ? prepare(state, i, c, needs, err) : PG_OK;
}

static void release(void *state)
{
    pg__mem_free(state);
}

static pg_status run_w(pg__dev *d, const cells *s, void *const *args, void *scratch)
{
    const pgk_conv_w a = {.x = {args[0], s->c.type},
                          .y = {args[1], s->c.type},
                          .part = {(char *)scratch + s->dw.at, PGK_F32},
                          .parts = (uint32_t)s->dw.parts,
                          .n_w = (uint32_t)s->c.n_w,
                          .g = s->g};
    pg_status st = PG_OK;
    if (args[2]) {
        st = PG_LAUNCH(d, conv_w, &a, s->dw.parts * s->dw.n);
        if (st == PG_OK)
            st = pg__columns_join(d, &s->dw, args[2], scratch);
    }
    return st == PG_OK && args[3] ? pg__columns_run(d, &s->db, a.y, args[3], scratch) : st;
}

static pg_status run(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared)
{
    const cells *s = state;
    const pgk_real from = {args[0], s->c.type}, w = {args[1], s->w_type};
    const pgk_real to = {args[s->c.n_in], s->c.out_type};
    (void)shared;
    if (s->c.pass == PG_PASS_W)
        return run_w(d, s, args, scratch);
    if (s->c.pass == PG_PASS_X) {
        const pgk_conv_x a = {.y = from, .w = w, .x = to, .g = s->g};
        return PG_LAUNCH(d, conv_x, &a, pg__dims_elems(&s->c.x));
    }
    const pgk_conv_y a = {
        .x = from, .w = w, .bias = {s->c.has_bias ? args[2] : NULL, PGK_F32}, .y = to, .g = s->g};
    return PG_LAUNCH(d, conv_y, &a, pg__dims_elems(&s->c.y));
}

const pg__conv_way pg__conv_by_channel = {prepare_by_channel, release, NULL, run};
const pg__conv_way pg__conv_by_cell = {prepare, release, NULL, run};
