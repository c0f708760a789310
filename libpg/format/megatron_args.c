/* megatron_args.c - what a file of Megatron-LM says beside the model:
 *
 *     {"args": argparse.Namespace, "checkpoint_version": 3.0, "iteration": 100,
 *      "model": {...} or "model0": {...}, "model1": {...} ..., "optimizer", "rng_state" ...}
 *
 * The arguments are an object that is not built: its attributes are read as data. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "format/megatron.h"

#define MAX_MODELS 128u /* each is read by itself, out of the whole pickle */
#define MAX_ARG    ((int64_t)1 << 40)

/* The attributes of the arguments: a dictionary, or the state of an object. */
static const pg__pk_value *attributes(const pg__pickle *p, const pg__pk_value *v)
{
    if (v && v->kind == PG_PK_CALL && pg__pickle_foreign(p, v))
        for (uint32_t i = v->n; i-- > 2;)
            if (p->v[v->u.items[i]].kind == PG_PK_DICT)
                return &p->v[v->u.items[i]];
    return v && v->kind == PG_PK_DICT ? v : NULL;
}

/* A number, a yes (2) or no (1), the only number of a list; a text counts as a yes. */
static uint64_t value_of(const pg__pickle *p, const pg__pk_value *v)
{
    if (v && (v->kind == PG_PK_LIST || v->kind == PG_PK_TUPLE) && v->n == 1)
        v = &p->v[v->u.items[0]];
    if (!v)
        return 0;
    if (v->kind == PG_PK_BOOL)
        return v->u.i ? 2 : 1;
    if (v->kind == PG_PK_STR)
        return 2;
    return v->kind == PG_PK_INT && v->u.i > 0 && v->u.i <= MAX_ARG ? (uint64_t)v->u.i : 0;
}

static void read_args(pg__megatron_args *a, const pg__pickle *p, const pg__pk_value *dict)
{
    a->there = 1;
#define PG_MEGATRON_ARG(name) a->name = value_of(p, pg__pickle_get(p, dict, #name));
    PG_MEGATRON_ARGS(PG_MEGATRON_ARG)
#undef PG_MEGATRON_ARG
    const pg__pk_value *impl = pg__pickle_get(p, dict, "transformer_impl");
    if (impl && impl->kind == PG_PK_STR)
        a->is_local = impl->n == 5 && memcmp(impl->u.text, "local", 5) == 0 ? 2 : 1;
    if (!a->tensor_model_parallel_size)
        a->tensor_model_parallel_size = a->model_parallel_size;
    if (!a->kv_channels && a->hidden_size && a->num_attention_heads)
        a->kv_channels = a->hidden_size / a->num_attention_heads;
    if (a->group_query_attention == 1 || !a->num_query_groups)
        a->num_query_groups = a->num_attention_heads;
}

static size_t count_models(const pg__pickle *p, const pg__pk_value *root)
{
    size_t n = 0;
    char key[32];
    do
        (void)snprintf(key, sizeof key, "model%zu", n);
    while (pg__pickle_get(p, root, key) && ++n <= MAX_MODELS);
    return n;
}

/* Versions are whole numbers, mostly written with a point. */
static pg_status read_version(pg__megatron_facts *f, const pg__pk_value *v, pg_err *err)
{
    if (!v || v->kind == PG_PK_NONE)
        return PG_OK;
    const double x = v->kind == PG_PK_INT ? (double)v->u.i : v->kind == PG_PK_FLOAT ? v->u.f : -1;
    for (int i = 0; i <= 3; i++)
        if (x == (double)i)
            f->version = i;
    return f->version >= 0 ? PG_OK
                           : pg_fail(err, PG_E_UNSUPPORTED,
                                     "its checkpoint_version is not 0, 1, 2 "
                                     "or 3");
}

pg_status pg__megatron_facts_of(pg__megatron_facts *out, const pg__pickle *p, pg_err *err)
{
    const pg__pk_value *root = &p->v[p->root];
    pg__megatron_facts f = {.iteration = -1, .version = -1};
    *out = f;
    if (!pg__pickle_is_dict(p, root))
        return PG_OK;
    const pg__pk_value *model = pg__pickle_get(p, root, "model");
    const pg__pk_value *args = attributes(p, pg__pickle_get(p, root, "args"));
    const pg__pk_value *version = pg__pickle_get(p, root, "checkpoint_version");
    const pg__pk_value *iteration = pg__pickle_get(p, root, "iteration");
    f.n_models = model && pg__pickle_is_dict(p, model) ? 1 : count_models(p, root);
    f.is_numbered = !model;
    if (f.n_models > MAX_MODELS)
        return pg_fail(err, PG_E_LIMIT, "more than %u stages of a virtual pipeline", MAX_MODELS);
    if (args)
        read_args(&f.args, p, args);
    if (iteration && iteration->kind == PG_PK_INT)
        f.iteration = iteration->u.i;
    const pg_status st = read_version(&f, version, err);
    if (st == PG_OK)
        *out = f;
    return st;
}
