/* conv_wino.c - convolutions by Winograd's F(4x4, 3x3): chooses the shapes and the blocks. */
#include "backend/cpu/conv.h"
#include "backend/cpu/wino.h"
#include "base/mem.h"

extern const pg__wino_kernels pg__wino_f32;
#ifdef PG_HAVE_X86_ISAS
extern const pg__wino_kernels pg__wino_avx2, pg__wino_avx512;
#endif

typedef struct state {
    pg__conv_pass pass;
    pg__wino p;
    const pg__wino_kernels *k;
} state;

static const pg__wino_kernels *kernels_of(pg__isa isa)
{
#ifdef PG_HAVE_X86_ISAS
    if (isa != PG_ISA_BASE)
        return isa == PG_ISA_AVX512 ? &pg__wino_avx512 : &pg__wino_avx2;
#endif
    (void)isa;
    return &pg__wino_f32;
}

static int covered(const pg__conv *c)
{
    return c->groups == 1 && pg__conv_all(c->stride, 1) && c->k[0] == 1 && c->k[1] == 3 &&
           c->k[2] == 3 && c->dilation[1] == 1 && c->dilation[2] == 1 && c->x[0] == 1 &&
           c->y[0] == 1 && c->before[1] <= 2 && c->before[2] <= 2;
}

/* Measured: transforms cost as much as a few channels; the part of a tile outside the image is
 * computed for nothing; a kernel is too large to transform for a handful of tiles, unless several
 * lanes are computed at once. But that must not affect the choice, which determines the bits. */
static int pays(const pg__conv *c)
{
    const size_t h = c->pass == PG_CONV_X ? c->x[1] : c->y[1];
    const size_t w = c->pass == PG_CONV_X ? c->x[2] : c->y[2];
    const size_t tiles = (h + 3) / 4 * ((w + 3) / 4);
    return c->in >= 8 && c->out >= 8 && c->in * c->out >= 256 && 2 * h * w >= 16 * tiles &&
           c->rows * tiles >= (c->is_lane ? 4u : 8u);
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

#define MB ((size_t)1 << 20)

/* Number of tiles for which both operands' planes stay in the second-level cache. If the kernel is
 * too large for that, it is transformed again for each block: then as many tiles as fit into the
 * last level, and panels that fit into the second. */
static void plan_blocks(pg__wino *p, const pg__wino_kernels *k)
{
    const size_t kernel = PG_WINO_CELLS * p->ld_in * p->ld_out * sizeof(float);
    const size_t panel = PG_WINO_CELLS * p->ld_in * k->panel * sizeof(float);
    const size_t panels = p->ld_out / k->panel;
    size_t room = kernel > MB ? 4 * MB : MB / 2;
    if (kernel > 5 * MB / 2) {
        p->group = MB / panel > 1 ? MB / panel : 1;
        p->group = p->group < panels ? p->group : panels;
        p->ld_out = p->group * k->panel;
        room = 8 * MB;
    }
    const size_t per_tile = PG_WINO_CELLS * (p->ld_in + p->ld_out) * sizeof(float);
    const size_t n = room / per_tile / k->mr * k->mr;
    p->block = n > k->mr ? n : k->mr;
}

static void plan_gradient(pg__wino *p, const pg__wino_kernels *k)
{
    const size_t products = p->in * p->ld_out, both = p->ld_in + p->ld_out;
    p->block_in = 4 * k->mr;
    p->block_out = 2 * k->panel;
    p->block = 64;
    if (p->tiles <= 64 || p->tiles * both <= products + 64 * both)
        p->block = p->tiles;
}

static void plan_rows(state *s)
{
    pg__wino *p = &s->p;
    p->tiles = p->rows * p->tiles_h * p->tiles_w;
    p->ld_in = round_up(p->in, s->k->vec);
    p->ld_out = round_up(p->out, s->k->panel);
    p->group = 0;
    if (s->pass == PG_CONV_W)
        plan_gradient(p, s->k);
    else
        plan_blocks(p, s->k);
    if (p->block > p->tiles)
        p->block = p->tiles;
    p->plane_in = p->block * p->ld_in + PG_WINO_GAP;
    p->plane_out = p->block * p->ld_out + PG_WINO_GAP;
}

static void plan(state *s, const pg__conv *c)
{
    const int back = c->pass == PG_CONV_X;
    s->p = (pg__wino){.rows = c->rows,
                      .in = back ? c->out : c->in,
                      .out = back ? c->in : c->out,
                      .h = back ? c->y[1] : c->x[1],
                      .w = back ? c->y[2] : c->x[2],
                      .out_h = back ? c->x[1] : c->y[1],
                      .out_w = back ? c->x[2] : c->y[2],
                      .before_h = back ? 2 - c->before[1] : c->before[1],
                      .before_w = back ? 2 - c->before[2] : c->before[2],
                      .rotated = back,
                      .range = c->range,
                      .lanes = 1};
    s->p.tiles_h = (s->p.out_h + 3) / 4;
    s->p.tiles_w = (s->p.out_w + 3) / 4;
    plan_rows(s);
}

static size_t scratch_floats(const pg__wino *p, pg__conv_pass pass)
{
    const size_t planes = PG_WINO_CELLS * (p->plane_in + p->plane_out);
    if (p->lanes > 1)
        return p->lanes * (planes + p->out) +
               (PG_WINO_CELLS + 9 * PG_WINO_LEVELS) * p->block_in * p->block_out;
    if (pass != PG_CONV_W)
        return planes + (p->group ? PG_WINO_CELLS * (p->in * p->ld_out + PG_WINO_GAP) : 0);
    return planes +
           PG_WINO_CELLS * (p->block < p->tiles ? p->in * p->ld_out : p->block_in * p->block_out);
}

static pg_status prepare(void **out, const pg__conv *c, pg__needs *needs, pg_err *err)
{
    if (c->how == 1 || !covered(c) || (c->how != 2 && !pays(c)))
        return PG_OK;
    state *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->pass = c->pass;
    s->k = kernels_of(c->isa);
    plan(s, c);
    needs->tol_f32 = 2e-5;
    needs->scratch_bytes = scratch_floats(&s->p, c->pass) * sizeof(float);
    if (c->pass != PG_CONV_W && s->p.group == 0)
        needs->shared_bytes = PG_WINO_CELLS * (s->p.in * s->p.ld_out + PG_WINO_GAP) * sizeof(float);
    *out = s;
    return PG_OK;
}

/* Measured: with more tiles it is faster to add the lanes' gradients. */
#define LANE_TILES 32

/* The planes of a lane are read again for each block of the other operand's channels. */
static int sums_lanes(pg__wino *p, const pg__wino_kernels *k, size_t n)
{
    if (p->tiles > LANE_TILES || p->block < p->tiles || n >> PG_WINO_LEVELS > 0)
        return 0;
    p->lanes = n;
    p->block_in = k->mr / 2;
    p->block_out = k->panel;
    return 1;
}

static pg_status prepare_lanes(void **out, const void *one, size_t n, size_t *scratch_bytes,
                               pg_err *err)
{
    const state *of = one;
    state s = *of, *copy;
    if (s.pass == PG_CONV_W && !sums_lanes(&s.p, s.k, n))
        return PG_OK;
    if (s.pass != PG_CONV_W) {
        s.p.rows *= n;
        plan_rows(&s);
    }
    copy = pg__mem_array(1, sizeof *copy);
    if (!copy)
        return pg__nomem(err);
    *copy = s;
    *scratch_bytes = scratch_floats(&s.p, s.pass) * sizeof(float);
    *out = copy;
    return PG_OK;
}

static void release(void *p)
{
    pg__mem_free(p);
}

static void pack(const void *p, const float *w, float *packed)
{
    const state *s = p;
    s->k->pack(&s->p, w, packed);
}

static void run(const void *p, const pg__conv_mem *m)
{
    const state *s = p;
    const float *kernel = s->p.group ? m->w : m->packed;
    switch (s->pass) {
    case PG_CONV_Y: s->k->convolve(&s->p, m->x, kernel, m->b, m->plus, m->y, m->scratch); break;
    case PG_CONV_X: s->k->convolve(&s->p, m->y, kernel, NULL, NULL, m->x, m->scratch); break;
    case PG_CONV_W:
        if (s->p.lanes > 1)
            s->k->gradient_lanes(&s->p, m->x, m->y, m->w, m->b, m->scratch);
        else
            s->k->gradient(&s->p, m->x, m->y, m->w, m->b, m->scratch);
        break;
    }
}

const pg__conv_way pg__conv_wino = {"Winograd", prepare, release, pack, run, 1, 1, prepare_lanes};
