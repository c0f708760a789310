/* vars.c - finds the family of a class (layers.def); helpers of the families: reading dimensions
 * from a config and listing variables. */
#include "model/lower/vars.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/graph/classes.h"
#include "model/lower/layers.h"
#include "model/lower/leaves.h"
#include "pg/train.h"

typedef struct behaviour {
    pg__vars_fn family;
    pg__lower_fn lower; /* NULL: cannot be trained */
    const char *why;    /* it cannot be trained */
} behaviour;

#define pg__lower_untrained NULL

static const behaviour behaviours[] = {
/* in the order of pg__class_find() */
#define PG_LAYER(class_name, family, outputs, lowering) \
    {pg__vars_##family, pg__lower_##lowering, NULL},
#define PG_UNTRAINED(class_name, family, outputs, why) {pg__vars_##family, NULL, why},
#include "model/layers.def"
#undef PG_UNTRAINED
#undef PG_LAYER
};

/* Largest dimension: beyond it no tensor fits any file, and products could overflow. */
#define MAX_DIM INT32_MAX

static const behaviour *behaviour_of(const char *class_name)
{
    const size_t i = pg__class_find(class_name);
    return i == PG_NONE ? NULL : &behaviours[i];
}

pg__lower_fn pg__lower_fn_of(const char *class_name)
{
    const behaviour *b = behaviour_of(class_name);
    return b ? b->lower : NULL;
}

const char *pg__why_untrained(const char *class_name)
{
    const behaviour *b = behaviour_of(class_name);
    return b ? b->why : NULL;
}

static const char *trained_class(const void *ctx, size_t i)
{
    int trained;
    const char *name = pg_layer_class(i, &trained);
    (void)ctx;
    return name && !trained ? "" : name;
}

const char *pg__class_meant(const char *class_name)
{
    return behaviour_of(class_name) ? NULL : pg_nearest(class_name, trained_class, NULL);
}

const char *pg_layer_class(size_t i, int *trained)
{
    const char *name = pg__class_at(i);
    if (name)
        *trained = behaviours[i].lower != NULL || strcmp(name, "InputLayer") == 0;
    return name;
}

pg_status pg__layer_vars(pg__vars *out, const pg__layer *layer, int dialect, pg_err *err)
{
    const behaviour *c = behaviour_of(layer->class_name);
    *out = (pg__vars){.known = c != NULL || pg__layer_is_op(layer)};
    if (!c || pg__layer_is_op(layer))
        return PG_OK;
    const pg_status st = c->family(out, layer, dialect, err);
    if (st != PG_OK) {
        pg__vars_fini(out);
        return st;
    }
    if (!out->known)
        out->n = 0; /* variables found before the unknown part mean nothing */
    for (size_t i = 0; i < out->n; i++)
        if (!out->v[i].config) /* otherwise an inner layer's own */
            out->v[i].config = layer->config;
    return PG_OK;
}

void pg__vars_fini(pg__vars *v)
{
    pg__mem_free(v->v);
    pg__strs_fini(&v->subs);
    *v = (pg__vars){0};
}

static pg_status add_var(pg__vars *out, const pg__var *v, pg_err *err)
{
    if (pg__mem_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v))
        return pg__nomem(err);
    out->v[out->n++] = *v;
    return PG_OK;
}

pg_status pg__vars_add(pg__vars *out, const char *name, const char *alt, int trainable,
                       uint32_t rank, const uint64_t *dims, pg_err *err)
{
    pg__var v = {.name = name, .alt = alt, .sub = "", .rank = rank, .trainable = trainable};
    if (rank > 0)
        memcpy(v.dims, dims, rank * sizeof *dims);
    return add_var(out, &v, err);
}

pg_status pg__vars_set_sub(pg__vars *out, size_t first, const char *sub, pg_err *err)
{
    pg_status st = PG_OK;
    if (out->subs.n == 0 || strcmp(out->subs.v[out->subs.n - 1], sub) != 0)
        PG_TRY(pg__strs_add(&out->subs, sub, strlen(sub), err));
    for (size_t i = first; i < out->n; i++)
        out->v[i].sub = out->subs.v[out->subs.n - 1];
done:
    return st;
}

pg_status pg__vars_add_any(pg__vars *out, const char *name, const char *alt, int trainable,
                           pg_err *err)
{
    const pg_status st = pg__vars_add(out, name, alt, trainable, 0, NULL, err);
    if (st == PG_OK)
        out->v[out->n - 1].any_rank = 1;
    return st;
}

pg_status pg__vars_unknown(pg__vars *out)
{
    out->known = 0;
    return PG_OK;
}

/* Appends v's variables to out; those without a sub get this one. */
static pg_status append(pg__vars *out, const pg__vars *v, const char *sub, int trainable,
                        pg_err *err)
{
    pg_status st = PG_OK;
    if (!v->known)
        out->known = 0;
    for (size_t i = 0; i < v->n; i++) {
        pg__var var = v->v[i];
        var.trainable = var.trainable && trainable;
        PG_TRY(add_var(out, &var, err));
        PG_TRY(pg__vars_set_sub(out, out->n - 1, var.sub[0] ? var.sub : sub, err));
    }
done:
    return st;
}

pg_status pg__vars_add_inner(pg__vars *out, const pg__layer *inner, const char *sub, int dialect,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__vars own = {0};
    pg__leaves leaves = {0};
    if (inner->model) { /* its leaves in turn; their own names say more than the model's */
        PG_TRY(pg__leaves_of(&leaves, inner->model, dialect, err));
        for (size_t i = 0; i < leaves.n; i++)
            PG_TRY(append(out, &leaves.v[i].vars, leaves.v[i].layer->name,
                          leaves.v[i].trainable && inner->trainable, err));
    } else {
        PG_TRY(pg__layer_vars(&own, inner, dialect, err));
        PG_TRY(append(out, &own, sub, inner->trainable, err));
    }
done:
    pg__vars_fini(&own);
    pg__leaves_fini(&leaves);
    return st;
}

static pg_status bad_dim(const pg__layer *l, const char *key, const pg__json *j, pg_err *err)
{
    int64_t v = 0;
    if (pg__json_int(j, &v) && v > MAX_DIM)
        return pg_fail(err, PG_E_LIMIT, "%s: \"%s\" is %lld, more than any tensor can hold",
                       PG_SHOW(l->name), key, (long long)v);
    return pg_fail(err, PG_E_FORMAT, "%s: \"%s\" is not a whole number above 0", PG_SHOW(l->name),
                   key);
}

static pg_status read_dim(uint64_t *out, const pg__layer *l, const char *key, const pg__json *j,
                          pg_err *err)
{
    int64_t v = 0;
    if (!pg__json_int(j, &v) || v <= 0 || v > MAX_DIM)
        return bad_dim(l, key, j, err);
    *out = (uint64_t)v;
    return PG_OK;
}

pg_status pg__config_dim(uint64_t *out, const pg__layer *l, const char *key, pg_err *err)
{
    return read_dim(out, l, key, pg__json_get(l->config, key), err);
}

pg_status pg__config_dim_or(uint64_t *out, const pg__layer *l, const char *key, uint64_t fallback,
                            pg_err *err)
{
    *out = fallback;
    return pg__config_has(l, key) ? pg__config_dim(out, l, key, err) : PG_OK;
}

pg_status pg__config_dim_list(uint64_t *out, size_t n, const pg__layer *l, const char *key,
                              pg_err *err)
{
    const pg__json *j = pg__json_get(l->config, key);
    const int is_list = pg__json_type_of(j) == PG_J_ARRAY;
    if (is_list && pg__json_len(j) != n)
        return pg_fail(err, PG_E_FORMAT, "%s: \"%s\" needs %zu numbers, has %zu", PG_SHOW(l->name),
                       key, n, pg__json_len(j));
    for (size_t i = 0; i < n; i++) {
        const pg_status st = read_dim(&out[i], l, key, is_list ? pg__json_at(j, i) : j, err);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

int pg__config_bool(const pg__layer *l, const char *key, int fallback)
{
    return pg__json_bool(pg__json_get(l->config, key), fallback);
}

int pg__config_has(const pg__layer *l, const char *key)
{
    return pg__json_type_of(pg__json_get(l->config, key)) > PG_J_NULL;
}

int pg__stores_otherwise(const pg__layer *l)
{
    static const char *const names[] = {"CuDNNGRU", "CuDNNLSTM", "SpectralNormalization"};
    return PG_IS_ANY(l->class_name, names) || pg__config_has(l, "lora_rank");
}
