/* conv_narrow.c - convolutions of few channels, as of images in a first layer: derives the geometry
 * for the kernels of narrow_kernels.h. The image is copied with zeros around it: it is small
 * compared with the result. */
#include "backend/cpu/conv.h"

#include <string.h>

#include "backend/cpu/narrow_kernels.h"
#include "base/mem.h"

#define MOST_TAPS 32

typedef struct state {
    pg__conv c;
    pg__narrow d;
    size_t taps[MOST_TAPS];
    size_t line, image; /* floats of a line and of an image with its zeros */
    int is_padded;
    const pg__narrow_kernels *k;
} state;

extern const pg__narrow_kernels pg__narrow_kernels_f32;
#ifdef PG_HAVE_X86_ISAS
extern const pg__narrow_kernels pg__narrow_kernels_avx2, pg__narrow_kernels_avx512;
#endif

static const pg__narrow_kernels *kernels_of(pg__isa isa)
{
#ifdef PG_HAVE_X86_ISAS
    if (isa != PG_ISA_BASE)
        return isa == PG_ISA_AVX512 ? &pg__narrow_kernels_avx512 : &pg__narrow_kernels_avx2;
#endif
    (void)isa;
    return &pg__narrow_kernels_f32;
}

/* Filters are processed in pairs of vectors; forward, a remainder costs more than elsewhere
 * (measured with 16, 40 and 48). */
static int covered(const pg__conv *c)
{
    const int fits = c->pass == PG_CONV_Y ? c->out % 32 == 0 : c->out >= 32;
    return c->pass != PG_CONV_X && c->groups == 1 && c->in <= 4 && fits &&
           pg__conv_cells(c->k) * c->in <= MOST_TAPS && pg__conv_cells(c->k) > 1 && c->x[0] == 1 &&
           c->k[0] == 1 && c->y[0] == 1 && c->before[0] == 0;
}

static void plan(state *s)
{
    const pg__conv *c = &s->c;
    const size_t height = c->before[1] + c->x[1] + c->after[1];
    s->line = (c->before[2] + c->x[2] + c->after[2]) * c->in;
    s->image = height * s->line;
    s->is_padded = c->before[1] + c->after[1] + c->before[2] + c->after[2] > 0;
    s->d = (pg__narrow){.out = c->out,
                        .cells = {c->y[1], c->y[2]},
                        .step = {c->stride[1] * s->line, c->stride[2] * c->in},
                        .taps = s->taps,
                        .range = c->range};
    for (size_t i = 0; i < c->k[1]; i++)
        for (size_t j = 0; j < c->k[2]; j++)
            for (size_t k = 0; k < c->in; k++)
                s->taps[s->d.n_taps++] =
                    i * c->dilation[1] * s->line + j * c->dilation[2] * c->in + k;
}

static pg_status prepare(void **out, const pg__conv *c, pg__needs *needs, pg_err *err)
{
    if (!covered(c))
        return PG_OK;
    state *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->c = *c;
    s->k = kernels_of(c->isa);
    plan(s);
    needs->scratch_bytes = s->is_padded ? s->image * sizeof(float) : 0;
    *out = s;
    return PG_OK;
}

static void release(void *p)
{
    pg__mem_free(p);
}

/* Image r with its zeros; the first image leaves them for all others. */
static const float *padded(const state *s, const float *x, size_t r, float *scratch)
{
    const pg__conv *c = &s->c;
    const size_t n = c->x[2] * c->in;
    const float *from = x + r * c->x[1] * n;
    if (!s->is_padded)
        return from;
    if (r == 0)
        memset(scratch, 0, s->image * sizeof *scratch);
    for (size_t i = 0; i < c->x[1]; i++)
        memcpy(scratch + (c->before[1] + i) * s->line + c->before[2] * c->in, from + i * n,
               n * sizeof *scratch);
    return scratch;
}

static void run(const void *p, const pg__conv_mem *m)
{
    const state *s = p;
    const size_t n_y = pg__conv_cells(s->c.y) * s->c.out;
    const int forward = s->c.pass == PG_CONV_Y;
    if (!forward && m->w)
        memset(m->w, 0, s->d.n_taps * s->c.out * sizeof *m->w);
    if (!forward && m->b)
        memset(m->b, 0, s->c.out * sizeof *m->b);
    for (size_t r = 0; r < s->c.rows; r++) {
        const float *x = padded(s, m->x, r, m->scratch);
        if (forward)
            s->k->convolve(&s->d, x, m->w, m->b, m->y + r * n_y);
        else
            s->k->gradient(&s->d, x, m->y + r * n_y, m->w, m->b);
    }
}

const pg__conv_way pg__conv_narrow = {"few channels", prepare, release, NULL, run, 1, 0, NULL};
