/* conv.c - convolutions: uses the first implementation that supports the request. */
#include "backend/cuda/conv.h"

#include "base/mem.h"
#include "base/try.h"

typedef struct kernel {
    const pg__conv_way *way;
    void *state;
} kernel;

static void release(void *state)
{
    kernel *k = state;
    if (!k)
        return;
    if (k->state)
        k->way->release(k->state);
    pg__mem_free(k);
}

static pg__conv conv_of(const pg__cuda_inst *i, pg__pass pass)
{
    const pg__conv_attrs *a = i->attrs;
    pg__conv c = {.pass = pass, .attrs = a, .n_in = i->inst->n_in, .y_cells = 1};
    c.x = i->shapes[pass == PG_PASS_X ? c.n_in : 0];
    c.y = i->shapes[pass == PG_PASS_Y ? c.n_in : pass == PG_PASS_X ? 0 : 1];
    c.has_bias = pass == PG_PASS_Y && c.n_in > 2 && pg__cuda_has(i, 2);
    c.rows = c.x.d[0];
    c.in = c.x.d[a->rank + 1];
    c.out = c.y.d[a->rank + 1];
    c.n_w = c.in / a->groups * c.out;
    for (uint32_t k = 0; k < a->rank; k++) {
        c.y_cells *= c.y.d[k + 1];
        c.n_w *= a->kernel[k];
    }
    c.type = pg__cuda_real(i, 0).type;
    c.out_type = pg__cuda_real(i, c.n_in).type;
    return c;
}

static pg_status prepare(void **state, const pg__cuda_inst *i, pg__pass pass, pg__needs *needs,
                         pg_err *err)
{
    static const pg__conv_way *const ways[] = {&pg__conv_by_product, &pg__conv_by_channel,
                                               &pg__conv_by_library, &pg__conv_by_cell};
    const pg__conv c = conv_of(i, pass);
    kernel *k = pg__mem_array(1, sizeof *k);
    pg_status st = PG_OK;
    if (!k)
        return pg__nomem(err);
    for (size_t w = 0; !k->state && w < sizeof ways / sizeof *ways; w++) {
        k->way = ways[w];
        PG_TRY(k->way->prepare(&k->state, i, &c, needs, err));
    }
    if (!k->state)
        PG_FAIL(PG_E_UNSUPPORTED, "a convolution of %s is too large", PG_SHAPE(&c.x));
    *state = k;
    k = NULL;
done:
    release(k);
    return st;
}

static pg_status share(pg__dev *d, const void *state, void *const *args, void *shared)
{
    const kernel *k = state;
    return k->way->share(d, k->state, args, shared);
}

static pg_status run(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared)
{
    const kernel *k = state;
    return k->way->run(d, k->state, args, scratch, shared);
}

PG_CUDA_PREPARE(prepare_y)
{
    return prepare(state, i, PG_PASS_Y, needs, err);
}

PG_CUDA_PREPARE(prepare_x)
{
    return prepare(state, i, PG_PASS_X, needs, err);
}

PG_CUDA_PREPARE(prepare_w)
{
    return prepare(state, i, PG_PASS_W, needs, err);
}

const pg__cuda_op pg__cuda_conv = {prepare_y, release, share, run};
const pg__cuda_op pg__cuda_conv_dx = {prepare_x, release, share, run};
const pg__cuda_op pg__cuda_conv_dw = {prepare_w, release, NULL, run};
