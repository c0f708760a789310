/* conv_library.c - convolutions by the library behind dnn.h: kernels are reordered for it, and
 * gradients of kernels back. */
#include "backend/cuda/columns.h"
#include "backend/cuda/conv.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/kernel_copy.h"
#include "backend/cuda/turn.h"
#include "base/mem.h"
#include "base/try.h"

typedef struct library {
    pg__conv c;
    pg__dnn_plan *plan;
    int adds_bias; /* by a kernel: the library does not */
    pg__kernel_copy w;
    size_t at_dw; /* in scratch: the kernel's gradient in the library's order */
    pgk_type dw_type;
    pg__columns db;
    uint64_t line; /* elements of a filter */
} library;

static void release(void *state)
{
    library *s = state;
    if (!s)
        return;
    pg__dnn_free(s->plan);
    pg__mem_free(s);
}

static pg_status try_plan(library *s, pg__dev *d, const pg__dnn_conv *c, pg__needs *needs,
                          pg_err *err)
{
    pg_err why = {0};
    const pg_status st = pg__dnn_new(&s->plan, d, c, needs, &why);
    return st == PG_OK || st == PG_E_NO ? PG_OK : pg_fail(err, st, "%s", why.msg);
}

/* s->plan stays NULL if the library does not support it. */
static pg_status plan(library *s, pg__dev *d, pg__needs *needs, pg_err *err)
{
    pg__dnn_conv c = {.conv = *s->c.attrs,
                      .x = s->c.x,
                      .y = s->c.y,
                      .bias = s->c.has_bias,
                      .type = s->c.type,
                      .out_type = s->c.out_type};
    pg_status st = PG_OK;
    c.kind = s->c.pass == PG_PASS_Y   ? PG_DNN_FORWARD
             : s->c.pass == PG_PASS_X ? PG_DNN_DATA
                                      : PG_DNN_FILTER;
    PG_TRY(try_plan(s, d, &c, needs, err));
    if (!s->plan && c.bias) {
        c.bias = 0;
        s->adds_bias = 1;
        PG_TRY(try_plan(s, d, &c, needs, err));
    }
    if (!s->plan && c.out_type != c.type) {
        c.out_type = c.type;
        if (s->c.pass == PG_PASS_W)
            PG_TRY(try_plan(s, d, &c, needs, err));
    }
    s->dw_type = c.out_type;
done:
    return st;
}

static pg_status prepare(void **state, const pg__cuda_inst *i, const pg__conv *c, pg__needs *needs,
                         pg_err *err)
{
    library *s = pg__mem_array(1, sizeof *s);
    pg_status st = PG_OK;
    if (!s)
        return pg__nomem(err);
    s->c = *c;
    s->line = c->n_w / c->out;
    PG_TRY(plan(s, i->dev, needs, err));
    if (!s->plan)
        goto done;
    if (c->pass == PG_PASS_W) {
        s->at_dw = pg__cuda_reserve(needs, pgk_bytes(s->dw_type, c->n_w));
        s->db = pg__columns_new(c->rows * c->y_cells, c->out, needs);
    } else {
        s->w = pg__kernel_copy_new(i, 1, s->line, c->out, 1, c->type, needs);
    }
    *state = s;
    s = NULL;
done:
    release(s);
    return st;
}

static pg_status share(pg__dev *d, const void *state, void *const *args, void *shared)
{
    const library *s = state;
    return pg__kernel_copy_share(d, &s->w, args, shared);
}

static pg_status run_w(pg__dev *d, const library *s, void *const *args, void *scratch)
{
    const pgk_real dw = {(char *)scratch + s->at_dw, s->dw_type};
    pg_status st = PG_OK;
    if (args[2]) {
        PG_TRY(pg__dnn_run(d, s->plan, args[0], args[1], dw.p, NULL, scratch));
        PG_TRY(pg__turn(d, dw, (pgk_real){args[2], s->c.out_type}, s->c.out, s->line));
    }
    if (args[3])
        PG_TRY(pg__columns_run(d, &s->db, (pgk_real){args[1], s->c.type}, args[3], scratch));
done:
    return st;
}

static pg_status run(pg__dev *d, const void *state, void *const *args, void *scratch,
                     const void *shared)
{
    const library *s = state;
    void *to = args[s->c.n_in], *bias = s->c.has_bias ? args[2] : NULL;
    const void *w;
    pg_status st = PG_OK;
    if (s->c.pass == PG_PASS_W)
        return run_w(d, s, args, scratch);
    PG_TRY(pg__kernel_copy_run(d, &s->w, args, scratch, shared, &w));
    PG_TRY(pg__dnn_run(d, s->plan, args[0], w, to, s->adds_bias ? NULL : bias, scratch));
    if (s->adds_bias) {
        const pgk_add_bias a = {.bias = {bias, PGK_F32}, .y = {to, s->c.out_type}, .n = s->c.out};
        PG_TRY(PG_LAUNCH(d, add_bias, &a, s->c.rows * s->c.y_cells * s->c.out));
    }
done:
    return st;
}

const pg__conv_way pg__conv_by_library = {prepare, release, share, run};
