/* backend.c - the back end's table: devices, prepared instructions, memory. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/blas.h"
#include "backend/cuda/coll.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/flat.h"
#include "backend/cuda/group.h"
#include "backend/cuda/nvml.h"
#include "backend/cuda/plugin.h"
#include "base/mem.h"
#include "base/try.h"

struct pg__kernel {
    const pg__cuda_op *op;
    void *state;
};

static void cuda_close(pg__dev *d)
{
    if (!d)
        return;
    pg__nvml_close(d->nvml);
    pg__dnn_close(d);
    pg__blas_close(d);
    pg__flat_close(d->flat, d->rt);
    pg__rt_close(d->rt);
    pg__picks_fini(&d->picks);
    pg__mem_free(d);
}

static pg_status cuda_open(pg__dev **out, size_t ordinal, const pg__dev_opts *o, pg_err *err)
{
    pg__dev *d = pg__mem_array(1, sizeof *d);
    pg_status st = PG_OK;
    if (!d)
        return pg__nomem(err);
    d->opts = *o;
    PG_TRY(pg__rt_open(&d->rt, ordinal, err));
    PG_TRY(pg__flat_open(&d->flat, d->rt, err));
    PG_TRY(pg__blas_open(d, err));
    PG_TRY(pg__dnn_open(d, err));
    (void)snprintf(d->kind, sizeof d->kind, "%s", pg__rt_name(d->rt));
    *out = d;
    d = NULL;
done:
    cuda_close(d);
    return st;
}

static pg_status cuda_fork(pg__dev **out, pg__dev *of, pg_err *err)
{
    return cuda_open(out, pg__rt_ordinal(of->rt), &of->opts, err);
}

static pg_status cuda_memory(pg__dev *d, uint64_t *free_bytes, uint64_t *total_bytes, pg_err *err)
{
    return pg__rt_memory(d->rt, free_bytes, total_bytes, err);
}

static const char *cuda_kind(pg__dev *d)
{
    return d->kind;
}

static const char *cuda_bus(pg__dev *d)
{
    return pg__rt_bus(d->rt);
}

static int cuda_gauge(pg__dev *d, pg__gauge *out)
{
    if (!d->nvml_asked)
        d->nvml = pg__nvml_open(pg__rt_bus(d->rt));
    d->nvml_asked = 1;
    return d->nvml && pg__nvml_read(d->nvml, out);
}

static const pg_err *cuda_failure(pg__dev *d)
{
    return d->failure.code == PG_OK ? NULL : &d->failure;
}

/* ---- instructions ---- */

pg_status pg__cuda_shapes(pg__dims **out, const pg__tape *t, const pg__inst *i, pg_err *err)
{
    const size_t n = (size_t)i->n_in + i->n_out;
    pg__dims *shapes = pg__mem_array(n, sizeof *shapes);
    if (!shapes)
        return pg__nomem(err);
    for (size_t k = 0; k < n; k++) {
        const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
        if (v != PG_NO_VAL)
            shapes[k] = t->values[v].shape;
    }
    *out = shapes;
    return PG_OK;
}

static pg_status cuda_prepare(pg__kernel **out, pg__dev *d, const pg__tape *t, const pg__inst *i,
                              pg__needs *needs, pg_err *err)
{
    pg__kernel *k = pg__mem_array(1, sizeof *k);
    pg__dims *shapes = NULL;
    pg_status st = PG_OK;
    if (!k)
        return pg__nomem(err);
    k->op = pg__cuda_op_of(i->op);
    if (!k->op)
        PG_FAIL(PG_E_UNSUPPORTED, "%s is not supported on a GPU", i->op->name);
    PG_TRY(pg__cuda_shapes(&shapes, t, i, err));
    *needs = (pg__needs){0};
    const pg__cuda_inst inst = {
        .dev = d, .tape = t, .inst = i, .attrs = i->attrs, .shapes = shapes};
    PG_TRY(k->op->prepare(&k->state, &inst, needs, err));
    *out = k;
    k = NULL;
done:
    pg__mem_free(shapes);
    pg__mem_free(k);
    return st;
}

static void cuda_release(pg__kernel *k)
{
    if (!k)
        return;
    if (k->op->release)
        k->op->release(k->state);
    else
        pg__mem_free(k->state);
    pg__mem_free(k);
}

/* Kernels do not support an activation after a normalisation; programs for a GPU have none. */
static int has_act(const pg__inst *i)
{
    const int is_norm =
        i->op->kind == PG_OP_bn_apply || i->op->kind == PG_OP_bn_sums || i->op->kind == PG_OP_bn_dx;
    return is_norm && ((const pg__bn_attrs *)i->attrs)->has_act;
}

/* An operation is supported or not; prepare() reports attributes that are not supported. */
static int cuda_supports(pg__dev *d, const pg__tape *t, const pg__inst *i, char why[128])
{
    (void)d, (void)t;
    why[0] = '\0';
    if (pg__cuda_op_of(i->op) && !has_act(i))
        return 1;
    (void)snprintf(why, 128, "%s%s is not supported on a GPU", i->op->name,
                   has_act(i) ? " with an activation" : "");
    return 0;
}

static pg_status cuda_share(pg__dev *d, const pg__kernel *k, void *const *args, void *shared)
{
    return k->op->share(d, k->state, args, shared);
}

static pg_status cuda_run(pg__dev *d, const pg__kernel *k, void *const *args, void *scratch,
                          const void *shared)
{
    return k->op->run(d, k->state, args, scratch, shared);
}

/* ---- memory ---- */

static pg_status cuda_alloc(pg__dev *d, void **p, size_t n_bytes, pg_err *err)
{
    return pg__rt_alloc(d->rt, p, n_bytes, err);
}

static void cuda_free(pg__dev *d, void *p)
{
    if (p)
        pg__rt_free(d->rt, p);
}

static pg_status cuda_put(pg__dev *d, void *dst, const void *src, size_t n_bytes)
{
    return pg__rt_put(d->rt, dst, src, n_bytes, &d->failure);
}

/* Waits: the caller reads the data. */
static pg_status cuda_get(pg__dev *d, void *dst, const void *src, size_t n_bytes)
{
    const pg_status st = pg__rt_get(d->rt, dst, src, n_bytes, &d->failure);
    return st == PG_OK ? pg__rt_sync(d->rt, &d->failure) : st;
}

static pg_status cuda_copy(pg__dev *d, void *dst, const void *src, size_t n_bytes)
{
    return pg__rt_copy(d->rt, dst, src, n_bytes, &d->failure);
}

static pg_status cuda_copy_from(pg__dev *d, void *dst, pg__dev *of, const void *src, size_t n_bytes)
{
    return pg__rt_copy_from(d->rt, dst, of->rt, src, n_bytes, &d->failure);
}

static pg_status cuda_sync(pg__dev *d)
{
    return pg__rt_sync(d->rt, &d->failure);
}

static pg_status cuda_fetch(pg__dev *d, void *dst, const void *src, size_t n_bytes)
{
    return pg__rt_get(d->rt, dst, src, n_bytes, &d->failure);
}

static pg_status cuda_host_alloc(pg__dev *d, void **p, size_t n_bytes, pg_err *err)
{
    return pg__rt_host_alloc(d->rt, p, n_bytes, err);
}

static void cuda_host_free(pg__dev *d, void *p)
{
    if (p)
        pg__rt_host_free(d->rt, p);
}

/* ---- order between devices ---- */

struct pg__event {
    pg__rt_event *event;
};

static pg_status cuda_event_new(pg__event **out, pg__dev *d, pg_err *err)
{
    pg__event *e = pg__mem_array(1, sizeof *e);
    pg_status st = PG_OK;
    if (!e)
        return pg__nomem(err);
    PG_TRY(pg__rt_event_new(&e->event, d->rt, err));
    *out = e;
    e = NULL;
done:
    pg__mem_free(e);
    return st;
}

static void cuda_event_free(pg__event *e)
{
    if (!e)
        return;
    pg__rt_event_free(e->event);
    pg__mem_free(e);
}

static pg_status cuda_mark(pg__dev *d, pg__event *e)
{
    return pg__rt_mark(d->rt, e->event, &d->failure);
}

static pg_status cuda_await(pg__dev *d, const pg__event *e)
{
    return pg__rt_wait(d->rt, e->event, &d->failure);
}

/* ---- recorded steps ---- */

struct pg__graph_run {
    pg__rt_graph *graph;
};

/* Without a recording, calls are queued each time: this is not a failure of the device. */
static pg_status cuda_record_begin(pg__dev *d)
{
    d->before_recording = d->failure;
    return pg__rt_record_begin(d->rt, NULL);
}

static pg_status cuda_record_end(pg__dev *d, pg__graph_run **out)
{
    pg__rt_graph *graph = NULL;
    pg_status st = pg__rt_record_end(d->rt, &graph, NULL);
    *out = st == PG_OK && graph ? pg__mem_array(1, sizeof **out) : NULL;
    if (*out)
        (*out)->graph = graph;
    else
        pg__rt_graph_free(graph);
    d->failure = d->before_recording;
    return st == PG_OK && graph && !*out ? PG_E_NOMEM : st;
}

static pg_status cuda_replay(pg__dev *d, pg__graph_run *g)
{
    return pg__rt_replay(d->rt, g->graph, &d->failure);
}

static void cuda_forget(pg__graph_run *g)
{
    pg__rt_graph_free(g->graph);
    pg__mem_free(g);
}

static const pg__backend backend = {
    .abi = PG_BACKEND_ABI,
    .size = sizeof(pg__backend),
    .name = "cuda",
    .real_bytes = sizeof(float),
    .host_memory = 0,
    .count = pg__rt_count,
    .open = cuda_open,
    .fork = cuda_fork,
    .close = cuda_close,
    .memory = cuda_memory,
    .kind = cuda_kind,
    .gauge = cuda_gauge,
    .failure = cuda_failure,
    .supports = cuda_supports,
    .prepare = cuda_prepare,
    .release = cuda_release,
    .share = cuda_share,
    .run = cuda_run,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .put = cuda_put,
    .get = cuda_get,
    .copy = cuda_copy,
    .copy_from = cuda_copy_from,
    .sync = cuda_sync,
    .fetch = cuda_fetch,
    .event = {.new = cuda_event_new,
              .free = cuda_event_free,
              .mark = cuda_mark,
              .await = cuda_await},
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .capture = {.begin = cuda_record_begin,
                .end = cuda_record_end,
                .replay = cuda_replay,
                .forget = cuda_forget},
    .bus = cuda_bus,
    .group = {.new = pg__group_new,
              .free = pg__group_free,
              .id = pg__coll_id,
              .sum = pg__group_sum,
              .join = pg__group_join,
              .wait = pg__group_wait,
              .drop = pg__group_drop},
    .flat = {.update = pg__cuda_update,
             .regularise = pg__cuda_regularise,
             .squares = pg__cuda_squares,
             .penalty_of_all = pg__cuda_penalty_of_all,
             .clip_all = pg__cuda_clip_all,
             .clip = pg__cuda_clip,
             .blend = pg__cuda_blend,
             .accumulate = pg__cuda_accumulate},
};

const pg__backend *pg_backend_get(uint32_t abi)
{
    return abi == PG_BACKEND_ABI ? &backend : NULL;
}
