/* zero_model.c - what the first rank says about the model:
 *
 *     mp_rank_XX_model_states.pt, or in stage 3 zero_pp_rank_R_mp_rank_XX_model_states.pt
 *         {"module", "buffer_names", "param_shapes": [name -> size], "frozen_param_shapes",
 *          "frozen_param_fragments", "shared_params", "num_experts", "ds_version",
 *          "universal_checkpoint_info", "mp_world_size"}
 */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero_impl.h"

#define SHARED "a name in shared_params"

/* ---- parameters ---- */

/* torch.Size, or a tuple of numbers. */
static pg_status read_dims(pg__zero_reading *r, pg__zero_param *x, const pg__pickle *p,
                           const pg__pk_value *v)
{
    const pg__pk_value *size = v->kind == PG_PK_CALL ? pg__zero_item(p, v, 1) : v;
    if (v->kind == PG_PK_CALL && size->kind == PG_PK_TUPLE && size->n == 1)
        size = pg__zero_item(p, size, 0);
    if (!pg__zero_is_list(size))
        return pg_fail(r->err, PG_E_FORMAT, "a shape in param_shapes is not one");
    if (size->n > PG_MAX_RANK)
        return pg_fail(r->err, PG_E_LIMIT, "a parameter of more than %d dimensions", PG_MAX_RANK);
    x->rank = size->n;
    x->n = 1;
    for (uint32_t k = 0; k < size->n; k++) {
        const pg__pk_value *n = pg__zero_item(p, size, k);
        if (n->kind != PG_PK_INT || n->u.i < 0)
            return pg_fail(r->err, PG_E_FORMAT, "%s: its shape is not one", PG_SHOW(x->name));
        x->dims[k] = (uint64_t)n->u.i;
        if (__builtin_mul_overflow(x->n, x->dims[k], &x->n) || x->n > INT64_MAX / 8)
            return pg_fail(r->err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(x->name));
    }
    return PG_OK;
}

/* name -> torch.Size */
static pg_status read_shapes(pg__zero_reading *r, pg__zero_group *g, const pg__pickle *p,
                             const pg__pk_value *dict)
{
    for (pg__pt_entries e = pg__pt_entries_of(p, dict); pg__pt_next(&e);) {
        if (!e.key)
            continue;
        if (pg__mem_grow(&g->v, &g->cap, g->n + 1, sizeof *g->v))
            return pg__nomem(r->err);
        pg__zero_param *x = &g->v[g->n++];
        *x = (pg__zero_param){.name = NULL};
        pg_status st = pg__zero_name(&x->name, r, e.key, "a name in param_shapes");
        if (st == PG_OK)
            st = read_dims(r, x, p, e.value);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

static pg_status read_groups(pg__zero_reading *r, const pg__pickle *p)
{
    pg_status st = PG_OK;
    pg__zero *z = r->z;
    const pg__pk_value *list = pg__zero_root(p, "param_shapes");
    const int single = list && pg__pickle_is_dict(p, list); /* before DeepSpeed 0.3.17 */
    if (!list || (!single && !pg__zero_is_list(list)))
        return pg_fail(r->err, PG_E_UNSUPPORTED,
                       "model_states has no param_shapes: written by a DeepSpeed that does not say "
                       "where its parameters are");
    const size_t n = single ? 1 : list->n;
    z->groups = pg__mem_array(n, sizeof *z->groups);
    if (!z->groups)
        return pg__nomem(r->err);
    z->n_groups = n;
    for (size_t g = 0; g < n; g++) {
        z->groups[g].parts = z->n_ranks;
        PG_TRY(
            read_shapes(r, &z->groups[g], p, single ? list : pg__zero_item(p, list, (uint32_t)g)));
    }
    const pg__pk_value *frozen = pg__zero_root(p, "frozen_param_shapes");
    if (frozen && pg__pickle_is_dict(p, frozen))
        PG_TRY(read_shapes(r, &z->frozen_params, p, frozen));
done:
    return st;
}

/* ---- names ---- */

static pg_status add_name(pg__zero_reading *r, pg__strs *list, const pg__pk_value *v)
{
    char *name = NULL;
    pg_status st = pg__zero_name(&name, r, v, "a name in the module");
    if (st == PG_OK)
        st = pg__strs_add(list, name, v->n, r->err);
    pg__mem_free(name);
    return st;
}

static pg_status read_names(pg__zero_reading *r, const pg__pickle *p)
{
    pg_status st = PG_OK;
    const pg__pk_value *module = pg__zero_root(p, "module");
    const pg__pk_value *buffers = pg__zero_root(p, "buffer_names");
    if (module)
        for (pg__pt_entries e = pg__pt_entries_of(p, module); pg__pt_next(&e);)
            if (e.key && e.key->kind == PG_PK_STR)
                PG_TRY(add_name(r, &r->z->names, e.key));
    for (uint32_t i = 0; buffers && buffers->kind == PG_PK_LIST && i < buffers->n; i++) {
        const pg__pk_value *x = pg__zero_item(p, buffers, i);
        if (x->kind == PG_PK_STR)
            PG_TRY(add_name(r, &r->z->buffers, x));
    }
    for (size_t i = 0; i < r->z->buffers.n; i++)
        PG_TRY(pg__index_add(&r->z->in_buffers, r->z->buffers.v[i], i, r->err));
    pg__index_sort(&r->z->in_buffers);
done:
    return st;
}

/* A dictionary, or before DeepSpeed 0.9.3 a list of pairs. */
static pg_status read_ties(pg__zero_reading *r, const pg__pickle *p)
{
    pg_status st = PG_OK;
    pg__zero *z = r->z;
    const pg__pk_value *shared = pg__zero_root(p, "shared_params");
    const int dict = shared && pg__pickle_is_dict(p, shared);
    if (!shared || (!dict && shared->kind != PG_PK_LIST))
        return PG_OK;
    z->ties = pg__mem_array(shared->n, sizeof *z->ties);
    if (!z->ties)
        return pg__nomem(r->err);
    for (pg__pt_entries e = pg__pt_entries_of(p, shared); pg__pt_next(&e);) {
        const pg__pk_value *pair = e.value;
        const int ok = dict ? e.key != NULL : pg__zero_is_list(pair) && pair->n == 2;
        pg__zero_tie *t = &z->ties[z->n_ties++];
        if (!ok)
            return pg_fail(r->err, PG_E_FORMAT, "shared_params does not list names");
        PG_TRY(pg__zero_name(&t->name, r, dict ? e.key : pg__zero_item(p, pair, 0), SHARED));
        PG_TRY(pg__zero_name(&t->of, r, dict ? e.value : pg__zero_item(p, pair, 1), SHARED));
    }
done:
    return st;
}

/* How many experts each of its layers has. Those that DeepSpeed made of an ordinary model are cut
 * in a way that is described elsewhere. */
static pg_status read_experts(pg__zero_reading *r, const pg__pickle *p)
{
    pg__zero *z = r->z;
    const pg__pk_value *list = pg__zero_root(p, "num_experts");
    const pg__pk_value *made = pg__zero_root(p, "ds_autoep_layers");
    if (made && pg__zero_is_list(made) && made->n)
        return pg_fail(r->err, PG_E_UNSUPPORTED,
                       "experts that DeepSpeed's AutoEP made are not merged; convert it with "
                       "ds_to_universal.py first");
    if (!pg__zero_is_list(list) || !list->n)
        return PG_OK;
    z->experts = pg__mem_array(list->n, sizeof *z->experts);
    if (!z->experts)
        return pg__nomem(r->err);
    for (uint32_t i = 0; i < list->n; i++) {
        const pg__pk_value *x = pg__zero_item(p, list, i);
        if (x->kind != PG_PK_INT || x->u.i < 1 || x->u.i > PG_ZERO_MAX_RANKS)
            return pg_fail(r->err, PG_E_FORMAT, "num_experts holds no number of experts");
        z->experts[z->n_experts++] = (uint64_t)x->u.i;
    }
    return PG_OK;
}

static pg_status read_writer(pg__zero_reading *r, const pg__pickle *p)
{
    char *version = pg__zero_text(pg__zero_root(p, "ds_version"));
    pg__str text = {0};
    pg_status st = PG_OK;
    if (version)
        st = pg__str_printf(&text, r->err, "deepspeed %s", PG_SHOW(version));
    r->z->writer = text.s;
    pg__mem_free(version);
    return st;
}

static pg_status read_module(pg__zero_reading *r, pg__pt_source *f, const char *name)
{
    pg__zero *z = r->z;
    const pg__pk_value *module = pg__zero_root(&f->pickle, "module");
    if (!module || !pg__zero_holds(&f->pickle, module))
        return PG_OK;
    pg_status st = pg__zero_part(&z->module, r, f, name, "module");
    for (size_t i = 0; st == PG_OK && i < pg_store_n_weights(z->module); i++)
        st = pg__index_add(&z->in_module, pg_store_weight(z->module, i)->name, i, r->err);
    pg__index_sort(&z->in_module);
    return st;
}

/* All ranks of model parallelism have files: without the last ones the rest fits together, too. */
static pg_status check_world(const pg__zero_reading *r, const pg__pickle *p)
{
    const pg__pk_value *v = pg__zero_root(p, "mp_world_size");
    const size_t n = r->job->n_slices;
    if (!v || (v->kind == PG_PK_INT && v->u.i == (int64_t)n))
        return PG_OK;
    if (v->kind != PG_PK_INT || v->u.i < 1)
        return pg_fail(r->err, PG_E_FORMAT, "mp_world_size is not a number of ranks");
    if (v->u.i > (int64_t)n)
        return pg_fail(r->err, PG_E_FORMAT,
                       "mp_world_size says %lld, but the files of mp_rank_%02zu are missing; copy "
                       "the files of all ranks",
                       (long long)v->u.i, n);
    return pg_fail(r->err, PG_E_FORMAT,
                   "mp_world_size says %lld, but there are files of mp_rank_%02zu; copy the files "
                   "of one job",
                   (long long)v->u.i, n - 1);
}

static pg_status read_file(pg__zero_reading *r, pg__pt_source *f, const char *name)
{
    pg_status st = PG_OK;
    const pg__pickle *p = &f->pickle;
    PG_TRY(check_world(r, p));
    PG_TRY(read_groups(r, p));
    PG_TRY(read_names(r, p));
    PG_TRY(read_ties(r, p));
    PG_TRY(read_experts(r, p));
    PG_TRY(read_writer(r, p));
    pg__zero_read_step(r->z, p);
    PG_TRY(pg__zero_read_rules(r, p));
done:
    if (st != PG_OK)
        pg_err_prefix(r->err, PG_SHOW(name));
    return st == PG_OK ? read_module(r, f, name) : st;
}

/* ---- parameters that are not trained ---- */

static pg_status read_frozen(pg__zero_reading *r)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__zero *z = r->z;
    const uint64_t n = z->stage == 3 ? z->n_ranks : 1;
    z->frozen = pg__mem_array((size_t)z->n_ranks, sizeof(pg_store *));
    if (!z->frozen)
        return pg__nomem(r->err);
    for (uint64_t i = 0; i < n; i++) {
        PG_TRY(pg__zero_model_name(&name, r, i));
        st = pg__zero_part_of(&z->frozen[i], r, name.s, "frozen_param_fragments");
        if (st != PG_OK && st != PG_E_UNKNOWN)
            goto done;
    }
    st = PG_OK;
done:
    pg__str_fini(&name);
    return st;
}

pg_status pg__zero_read_model(pg__zero_reading *r)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__pt_source f = {0};
    PG_TRY(pg__zero_model_name(&name, r, 0));
    st = pg__zero_open(r, &f, name.s);
    if (st == PG_OK)
        st = read_file(r, &f, name.s);
    else if (st == PG_E_UNKNOWN) /* it is among the faults */
        st = PG_OK;
    if (st == PG_OK)
        st = pg__zero_check_models(r);
    if (st == PG_OK && r->z->frozen_params.n)
        st = read_frozen(r);
done:
    pg__zero_close(&f);
    pg__str_fini(&name);
    return st;
}
