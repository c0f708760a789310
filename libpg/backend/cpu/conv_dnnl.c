/* conv_dnnl.c - convolutions through oneDNN, with activations in Keras' order and kernels in the
 * order that oneDNN prefers: packed before a pass that reads them, unpacked after the pass that
 * produces them. */
#include "backend/cpu/conv.h"

#include <math.h>

#include "backend/cpu/dnnl_compat.h"
#include "base/mem.h"

typedef struct state {
    pg__conv c;
    int n_dims; /* spatial dimensions that oneDNN sees: 2 or 3 */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr;
    pg__dnnl_conv d;       /* kernels in oneDNN's order */
    pg__dnnl_md w_of_user; /* in Keras' */
    dnnl_primitive_desc_t hint, pd, reorder_pd;
    dnnl_primitive_t conv, reorder; /* reorder NULL: both orders are the same */
    size_t packed_bytes;
} state;

static void release(void *p)
{
    state *s = p;
    if (!s)
        return;
    if (s->conv)
        (void)dnnl_primitive_destroy(s->conv);
    if (s->reorder)
        (void)dnnl_primitive_destroy(s->reorder);
    if (s->reorder_pd)
        (void)dnnl_primitive_desc_destroy(s->reorder_pd);
    if (s->pd)
        (void)dnnl_primitive_desc_destroy(s->pd);
    if (s->hint)
        (void)dnnl_primitive_desc_destroy(s->hint);
    pg__dnnl_md_drop(&s->d.x);
    pg__dnnl_md_drop(&s->d.w);
    pg__dnnl_md_drop(&s->d.b);
    pg__dnnl_md_drop(&s->d.y);
    pg__dnnl_md_drop(&s->w_of_user);
    if (s->attr)
        (void)dnnl_primitive_attr_destroy(s->attr);
    if (s->stream)
        (void)dnnl_stream_destroy(s->stream);
    if (s->engine)
        (void)dnnl_engine_destroy(s->engine);
    pg__mem_free(s);
}

/* Rows, channels, spatial dimensions in oneDNN's order; channels are the last in memory. */
static dnnl_status_t image(pg__dnnl_md *md, const state *s, size_t channels, const size_t size[3])
{
    const int n = s->n_dims;
    dnnl_dims_t dims = {(dnnl_dim_t)s->c.rows, (dnnl_dim_t)channels}, strides = {0, 1};
    dnnl_dim_t step = (dnnl_dim_t)channels;
    for (int i = n - 1; i >= 0; i--) {
        dims[i + 2] = (dnnl_dim_t)size[i + 3 - n];
        strides[i + 2] = step;
        step *= dims[i + 2];
    }
    strides[0] = step;
    return pg__dnnl_md_of(md, n + 2, dims, strides);
}

/* ([groups,] filters, channels, spatial); in memory (spatial, channels, groups, filters). */
static dnnl_status_t kernel(pg__dnnl_md *mine, pg__dnnl_md *users, const state *s)
{
    const int n = s->n_dims, grouped = s->c.groups > 1;
    const dnnl_dim_t groups = (dnnl_dim_t)s->c.groups, all = (dnnl_dim_t)s->c.out;
    dnnl_dims_t dims = {groups}, strides = {all / groups};
    dnnl_dim_t step = all * ((dnnl_dim_t)s->c.in / groups);
    dims[grouped] = all / groups;
    strides[grouped] = 1;
    dims[grouped + 1] = (dnnl_dim_t)s->c.in / groups;
    strides[grouped + 1] = all;
    for (int i = n - 1; i >= 0; i--) {
        dims[grouped + 2 + i] = (dnnl_dim_t)s->c.k[i + 3 - n];
        strides[grouped + 2 + i] = step;
        step *= dims[grouped + 2 + i];
    }
    const dnnl_status_t st = pg__dnnl_md_of(users, n + 2 + grouped, dims, strides);
    return st ? st : pg__dnnl_md_of(mine, n + 2 + grouped, dims, NULL);
}

static dnnl_status_t describe(state *s)
{
    const dnnl_dim_t filters = (dnnl_dim_t)s->c.out, one = 1;
    dnnl_status_t st;
    s->d.has_bias = s->c.has_bias;
    for (int i = 0; i < s->n_dims; i++) {
        const int from = i + 3 - s->n_dims;
        s->d.stride[i] = (dnnl_dim_t)s->c.stride[from];
        s->d.dilation[i] = (dnnl_dim_t)s->c.dilation[from] - 1;
        s->d.before[i] = (dnnl_dim_t)s->c.before[from];
        s->d.after[i] = (dnnl_dim_t)s->c.after[from];
    }
    if ((st = image(&s->d.x, s, s->c.in, s->c.x)) || (st = image(&s->d.y, s, s->c.out, s->c.y)) ||
        (st = kernel(&s->d.w, &s->w_of_user, s)))
        return st;
    return pg__dnnl_md_of(&s->d.b, 1, &filters, &one);
}

static dnnl_status_t create_reorder(state *s)
{
    const int gives = s->c.pass == PG_CONV_W;
    const pg__dnnl_md_ref users = pg__dnnl_md_use(&s->w_of_user);
    const pg__dnnl_md_ref mine = dnnl_primitive_desc_query_md(
        s->pd, gives ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    dnnl_status_t st;
    if (dnnl_memory_desc_equal(mine, users))
        return dnnl_success;
    s->packed_bytes = (dnnl_memory_desc_get_size(mine) + 63) / 64 * 64;
    st = pg__dnnl_reorder(&s->reorder_pd, gives ? mine : users, gives ? users : mine, s->attr,
                          s->engine);
    return st ? st : dnnl_primitive_create(&s->reorder, s->reorder_pd);
}

static dnnl_status_t create(state *s)
{
    dnnl_status_t st;
    if ((st = dnnl_engine_create(&s->engine, dnnl_cpu, 0)) ||
        (st = dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags)) ||
        (st = pg__dnnl_attr(&s->attr)) || (st = describe(s)))
        return st;
    st = pg__dnnl_conv_y(s->c.pass == PG_CONV_Y ? &s->pd : &s->hint, &s->d, s->attr, s->engine);
    if (!st && s->c.pass == PG_CONV_X)
        st = pg__dnnl_conv_x(&s->pd, &s->d, s->attr, s->engine, s->hint);
    if (!st && s->c.pass == PG_CONV_W)
        st = pg__dnnl_conv_w(&s->pd, &s->d, s->attr, s->engine, s->hint);
    if (st || (st = dnnl_primitive_create(&s->conv, s->pd)))
        return st;
    return create_reorder(s);
}

static size_t pad_bytes(const_dnnl_primitive_desc_t pd)
{
    const pg__dnnl_md_ref md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    return md ? (dnnl_memory_desc_get_size(md) + 63) / 64 * 64 : 0;
}

static pg_status prepare(void **out, const pg__conv *c, pg__needs *needs, pg_err *err)
{
    state *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->c = *c;
    s->n_dims = c->x[0] == 1 && c->k[0] == 1 && c->y[0] == 1 ? 2 : 3;
    const int was = pg__dnnl_alone();
    const dnnl_status_t st = create(s);
    pg__dnnl_threads(was);
    /* If oneDNN does not support it, another way may. */
    if (st || (s->reorder && pad_bytes(s->reorder_pd) > 0)) {
        release(s);
        return st == dnnl_out_of_memory ? pg__nomem(err) : PG_OK;
    }
    needs->scratch_bytes = pad_bytes(s->pd);
    if (c->pass == PG_CONV_W)
        needs->scratch_bytes += s->packed_bytes;
    else
        needs->shared_bytes = s->packed_bytes;
    *out = s;
    return PG_OK;
}

typedef struct arg {
    int id;
    pg__dnnl_md_ref md;
    const void *p;
} arg;

/* Arguments without a descriptor are skipped. */
static dnnl_status_t execute(const state *s, dnnl_primitive_t primitive, const arg *args, size_t n)
{
    dnnl_exec_arg_t exec[5];
    dnnl_status_t st = dnnl_success;
    int count = 0;
    for (size_t i = 0; i < n && !st; i++) {
        union {
            const void *in;
            void *out;
        } p = {.in = args[i].p};
        if (!args[i].md)
            continue;
        exec[count].arg = args[i].id;
        st = dnnl_memory_create(&exec[count].memory, args[i].md, s->engine, p.out);
        count += !st;
    }
    if (!st) {
        const int was = pg__dnnl_alone();
        st = dnnl_primitive_execute(primitive, s->stream, count, exec);
        if (!st)
            st = dnnl_stream_wait(s->stream);
        pg__dnnl_threads(was);
    }
    while (count-- > 0)
        (void)dnnl_memory_destroy(exec[count].memory);
    return st;
}

/* A run can fail only for lack of a few hundred bytes in oneDNN; then the whole result is NaN. */
static void check(dnnl_status_t st, float *result, size_t n)
{
    for (size_t i = 0; st && result && i < n; i++)
        result[i] = NAN;
}

static size_t elems_of_w(const state *s)
{
    return pg__conv_cells(s->c.k) * (s->c.in / s->c.groups) * s->c.out;
}

static void put_in_order(const state *s, const float *from, float *to)
{
    const int gives = s->c.pass == PG_CONV_W;
    const pg__dnnl_md_ref users = pg__dnnl_md_use(&s->w_of_user);
    const pg__dnnl_md_ref mine = dnnl_primitive_desc_query_md(
        s->pd, gives ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    const arg args[] = {{DNNL_ARG_FROM, gives ? mine : users, from},
                        {DNNL_ARG_TO, gives ? users : mine, to}};
    check(execute(s, s->reorder, args, 2), to,
          gives ? elems_of_w(s) : s->packed_bytes / sizeof *to);
}

static void pack(const void *p, const float *w, float *packed)
{
    put_in_order(p, w, packed);
}

static void run_w(const state *s, const pg__conv_mem *m, pg__dnnl_md_ref pad)
{
    float *w = s->reorder ? m->scratch : m->w;
    const arg args[] = {{DNNL_ARG_SRC, pg__dnnl_md_use(&s->d.x), m->x},
                        {DNNL_ARG_DIFF_DST, pg__dnnl_md_use(&s->d.y), m->y},
                        {DNNL_ARG_DIFF_WEIGHTS,
                         dnnl_primitive_desc_query_md(s->pd, dnnl_query_diff_weights_md, 0), w},
                        {DNNL_ARG_SCRATCHPAD, pad, (char *)m->scratch + s->packed_bytes}};
    if (m->w) {
        check(execute(s, s->conv, args, 4), w, elems_of_w(s));
        if (s->reorder)
            put_in_order(s, w, m->w);
    }
    if (m->b)
        s->c.kernels->column_sums(m->y, s->c.rows * pg__conv_cells(s->c.y), s->c.out, m->b);
}

static void run(const void *p, const pg__conv_mem *m)
{
    const state *s = p;
    const int forward = s->c.pass == PG_CONV_Y;
    const pg__dnnl_md_ref pad = dnnl_primitive_desc_query_md(s->pd, dnnl_query_scratchpad_md, 0);
    const arg args[] = {
        {forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, pg__dnnl_md_use(&s->d.x), m->x},
        {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, pg__dnnl_md_use(&s->d.y), m->y},
        {DNNL_ARG_WEIGHTS, dnnl_primitive_desc_query_md(s->pd, dnnl_query_weights_md, 0),
         s->reorder ? m->packed : m->w},
        {DNNL_ARG_SCRATCHPAD, pad, m->scratch},
        {DNNL_ARG_BIAS, m->b ? pg__dnnl_md_use(&s->d.b) : NULL, m->b}};
    if (s->c.pass == PG_CONV_W)
        run_w(s, m, pad);
    else
        check(execute(s, s->conv, args, 5), forward ? m->y : m->x,
              s->c.rows *
                  (forward ? pg__conv_cells(s->c.y) * s->c.out : pg__conv_cells(s->c.x) * s->c.in));
}

const pg__conv_way pg__conv_dnnl = {"oneDNN", prepare, release, pack, run, 0, 0, NULL};
