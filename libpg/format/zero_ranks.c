/* zero_ranks.c - the files of all ranks of a ZeRO checkpoint:
 *
 *     [bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   {"optimizer_state_dict": {"zero_stage",
 *         "partition_count", "single_partition_of_fp32_groups" or "fp32_flat_groups": [tensor]}}
 *     mp_rank_00_model_states.pt, or in stage 3 zero_pp_rank_R_mp_rank_00_model_states.pt
 *         {"module", "buffer_names", "param_shapes": [name -> size], "frozen_param_shapes",
 *          "frozen_param_fragments", "shared_params", "ds_version"}
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_file.h"
#include "format/pytorch_impl.h"
#include "format/shards.h"
#include "format/zero.h"
#include "io/folder.h"

#define OPTIMIZER "optimizer_state_dict"
#define ROWS      "single_partition_of_fp32_groups"
#define PARTS     "fp32_flat_groups"
#define MAX_RANKS 65536u

/* What is open while the files are read. */
typedef struct reading {
    pg__zero *z;
    const char *path;
    int folder;
    pg__shard_faults faults;
    pg_err *err;
} reading;

static const pg__pk_value *item(const pg__pickle *p, const pg__pk_value *v, uint32_t i)
{
    return &p->v[v->u.items[i]];
}

static const pg__pk_value *root_of(const pg__pickle *p)
{
    return &p->v[p->root];
}

/* The value of a key, if v is a dictionary and has it. */
static const pg__pk_value *get(const pg__pickle *p, const pg__pk_value *v, const char *key)
{
    return v && pg__pickle_is_dict(p, v) ? pg__pickle_get(p, v, key) : NULL;
}

static char *text_of(const pg__pk_value *v)
{
    return v && v->kind == PG_PK_STR && !memchr(v->u.text, 0, v->n)
               ? pg__mem_strndup(v->u.text, v->n)
               : NULL;
}

/* ---- one file ---- */

static pg_status open_rank(reading *r, pg__pt_source *f, const char *name)
{
    pg_err e = {0};
    pg_status st = pg__io_open_beside(&f->io, r->folder, name, &e);
    const int gone = st == PG_E_IO && e.sys == ENOENT;
    if (st == PG_OK)
        st = pg__pt_read_zip(f, &e);
    if (st == PG_OK || st == PG_E_NOMEM) {
        if (st != PG_OK && r->err)
            *r->err = e;
        return st;
    }
    st = gone ? pg__strs_printf(&r->faults.missing, r->err, "%s", PG_SHOW(name))
              : pg__strs_printf(&r->faults.damaged, r->err, "%s (%s)", PG_SHOW(name), e.msg);
    return st == PG_OK ? PG_E_UNKNOWN : st; /* noted */
}

static void close_rank(pg__pt_source *f)
{
    pg__io_close(f->io);
    pg__pt_source_fini(f);
}

/* The tensors below a path, or NULL if there are none. */
static pg_status part_of(pg_store **out, const char *name, reading *r, const char *part)
{
    pg__pt_source f = {0};
    const pg_open_opts opts = {.part = part};
    pg_status st = open_rank(r, &f, name);
    if (st == PG_OK) {
        st = pg__pt_zip_store(out, &f, &opts, r->err);
        if (st != PG_OK)
            pg_err_prefix(r->err, PG_SHOW(name));
    }
    close_rank(&f);
    return st;
}

/* ---- names of files ---- */

/* "bf16_" or "" */
static const char *prefix_of(const char *path)
{
    return strncmp(pg__base_name(path), "bf16_", 5) == 0 ? "bf16_" : "";
}

static pg_status optim_name(pg__str *out, const reading *r, uint64_t rank)
{
    out->n = 0;
    return pg__str_printf(out, r->err, "%szero_pp_rank_%llu_mp_rank_00_optim_states.pt",
                          prefix_of(r->path), (unsigned long long)rank);
}

static pg_status model_name(pg__str *out, const reading *r, uint64_t rank)
{
    out->n = 0;
    return r->z->stage == 3
               ? pg__str_printf(out, r->err, "zero_pp_rank_%llu_mp_rank_00_model_states.pt",
                                (unsigned long long)rank)
               : pg__str_puts(out, "mp_rank_00_model_states.pt", r->err);
}

/* Files of another slice of the model: its tensors are cut in a way that only the program knows. */
static pg_status check_slices(reading *r)
{
    int sys = 0, sliced = 0;
    char *folder = pg__mem_strndup(r->path, (size_t)(pg__base_name(r->path) - r->path));
    if (!folder)
        return pg__nomem(r->err);
    DIR *d = pg__folder_list(*folder ? folder : ".");
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys));)
        sliced |= fnmatch("*mp_rank_01_*", e->d_name, 0) == 0;
    if (d)
        closedir(d);
    pg__mem_free(folder);
    return sliced ? pg_fail(r->err, PG_E_UNSUPPORTED,
                            "a ZeRO checkpoint with tensor parallelism (mp_rank_01), whose slices "
                            "are not merged")
                  : PG_OK;
}

/* ---- optim_states ---- */

/* The number in an int, or the only one or the largest in a list. */
static uint64_t largest(const pg__pickle *p, const pg__pk_value *v)
{
    uint64_t n = v && v->kind == PG_PK_INT && v->u.i > 0 ? (uint64_t)v->u.i : 0;
    for (uint32_t i = 0; v && (v->kind == PG_PK_LIST || v->kind == PG_PK_TUPLE) && i < v->n; i++) {
        const pg__pk_value *x = item(p, v, i);
        if (x->kind == PG_PK_INT && x->u.i > 0 && (uint64_t)x->u.i > n)
            n = (uint64_t)x->u.i;
    }
    return n;
}

/* Stage and number of ranks, as the first rank says it. The stage is a number, or an enum made of
 * one. */
static pg_status read_job(reading *r, const pg__pickle *p)
{
    const pg__pk_value *states = get(p, root_of(p), OPTIMIZER);
    const pg__pk_value *stage = get(p, states, "zero_stage");
    const pg__pk_value *args = stage && stage->kind == PG_PK_CALL ? item(p, stage, 1) : NULL;
    if (args && args->kind == PG_PK_TUPLE && args->n == 1)
        stage = item(p, args, 0);
    if (!stage || stage->kind != PG_PK_INT)
        return pg_fail(r->err, PG_E_UNKNOWN, "not a file of DeepSpeed's ZeRO");
    if (stage->u.i < 1 || stage->u.i > 3)
        return pg_fail(r->err, PG_E_UNSUPPORTED, "ZeRO stage %lld", (long long)stage->u.i);
    r->z->stage = (int)stage->u.i;
    r->z->n_ranks = largest(p, get(p, states, "partition_count"));
    if (r->z->n_ranks == 0 || r->z->n_ranks > MAX_RANKS)
        return pg_fail(r->err, PG_E_FORMAT, "partition_count is not a number of ranks");
    return PG_OK;
}

static pg_status check_flat(const reading *r, const pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg_weight *w = pg_store_weight(s, i);
        if (w->rank != 1 || w->dtype != PG_F32)
            return pg_fail(r->err, PG_E_FORMAT, "%s: a group is not a row of float32",
                           PG_SHOW(name));
    }
    return PG_OK;
}

static pg_status read_flat(reading *r)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__zero *z = r->z;
    const char *part = z->stage == 3 ? OPTIMIZER "." PARTS : OPTIMIZER "." ROWS;
    z->flat = pg__mem_array((size_t)z->n_ranks, sizeof(pg_store *));
    if (!z->flat)
        return pg__nomem(r->err);
    for (uint64_t i = 0; i < z->n_ranks; i++) {
        PG_TRY(optim_name(&name, r, i));
        st = part_of(&z->flat[i], name.s, r, part);
        if (st == PG_OK)
            st = check_flat(r, z->flat[i], name.s);
        if (st != PG_OK && st != PG_E_UNKNOWN)
            goto done;
    }
    st = PG_OK;
done:
    pg__str_fini(&name);
    return st;
}

/* ---- model_states ---- */

/* name -> torch.Size */
static pg_status read_shape(reading *r, pg__zero_group *g, const pg__pickle *p,
                            const pg__pk_value *key, const pg__pk_value *v)
{
    const pg__pk_value *size = v->kind == PG_PK_CALL ? item(p, v, 1) : v;
    if (v->kind == PG_PK_CALL && size->kind == PG_PK_TUPLE && size->n == 1)
        size = item(p, size, 0);
    if (size->kind != PG_PK_TUPLE && size->kind != PG_PK_LIST)
        return pg_fail(r->err, PG_E_FORMAT, "a shape in param_shapes is not one");
    if (size->n > PG_MAX_RANK)
        return pg_fail(r->err, PG_E_LIMIT, "a parameter of more than %d dimensions", PG_MAX_RANK);
    if (pg__mem_grow(&g->v, &g->cap, g->n + 1, sizeof *g->v))
        return pg__nomem(r->err);
    pg__zero_param *x = &g->v[g->n++];
    *x = (pg__zero_param){.name = text_of(key), .rank = size->n, .n = 1};
    if (!x->name)
        return pg_fail(r->err, PG_E_FORMAT, "a name in param_shapes is not a text");
    for (uint32_t k = 0; k < size->n; k++) {
        const pg__pk_value *n = item(p, size, k);
        if (n->kind != PG_PK_INT || n->u.i < 0)
            return pg_fail(r->err, PG_E_FORMAT, "%s: its shape is not one", PG_SHOW(x->name));
        x->dims[k] = (uint64_t)n->u.i;
        if (__builtin_mul_overflow(x->n, x->dims[k], &x->n) || x->n > INT64_MAX / 8)
            return pg_fail(r->err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(x->name));
    }
    return PG_OK;
}

static pg_status read_shapes(reading *r, pg__zero_group *g, const pg__pickle *p,
                             const pg__pk_value *dict)
{
    pg_status st = PG_OK;
    for (pg__pt_entries e = pg__pt_entries_of(p, dict); st == PG_OK && pg__pt_next(&e);)
        if (e.key)
            st = read_shape(r, g, p, e.key, e.value);
    return st;
}

static pg_status read_groups(reading *r, const pg__pickle *p)
{
    pg_status st = PG_OK;
    pg__zero *z = r->z;
    const pg__pk_value *list = get(p, root_of(p), "param_shapes");
    const int single = list && pg__pickle_is_dict(p, list); /* before DeepSpeed 0.3.17 */
    if (!list || (!single && list->kind != PG_PK_LIST && list->kind != PG_PK_TUPLE))
        return pg_fail(r->err, PG_E_UNSUPPORTED,
                       "model_states has no param_shapes: written by a DeepSpeed that does not say "
                       "where its parameters are");
    z->n_groups = single ? 1 : list->n;
    z->groups = pg__mem_array(z->n_groups, sizeof *z->groups);
    if (!z->groups)
        return pg__nomem(r->err);
    for (size_t g = 0; g < z->n_groups; g++)
        PG_TRY(read_shapes(r, &z->groups[g], p, single ? list : item(p, list, (uint32_t)g)));
    const pg__pk_value *frozen = get(p, root_of(p), "frozen_param_shapes");
    if (frozen && pg__pickle_is_dict(p, frozen))
        PG_TRY(read_shapes(r, &z->frozen_params, p, frozen));
done:
    return st;
}

static pg_status read_names(reading *r, const pg__pickle *p)
{
    pg_status st = PG_OK;
    const pg__pk_value *module = get(p, root_of(p), "module");
    const pg__pk_value *buffers = get(p, root_of(p), "buffer_names");
    if (module)
        for (pg__pt_entries e = pg__pt_entries_of(p, module); pg__pt_next(&e);)
            if (e.key && e.key->kind == PG_PK_STR)
                PG_TRY(pg__strs_add(&r->z->names, e.key->u.text, e.key->n, r->err));
    for (uint32_t i = 0; buffers && buffers->kind == PG_PK_LIST && i < buffers->n; i++) {
        const pg__pk_value *x = item(p, buffers, i);
        if (x->kind == PG_PK_STR)
            PG_TRY(pg__strs_add(&r->z->buffers, x->u.text, x->n, r->err));
    }
done:
    return st;
}

/* A dictionary, or before DeepSpeed 0.9.3 a list of pairs. */
static pg_status read_ties(reading *r, const pg__pickle *p)
{
    pg__zero *z = r->z;
    const pg__pk_value *shared = get(p, root_of(p), "shared_params");
    const int dict = shared && pg__pickle_is_dict(p, shared);
    if (!shared || (!dict && shared->kind != PG_PK_LIST))
        return PG_OK;
    z->ties = pg__mem_array(shared->n, sizeof *z->ties);
    if (!z->ties)
        return pg__nomem(r->err);
    for (pg__pt_entries e = pg__pt_entries_of(p, shared); pg__pt_next(&e);) {
        const pg__pk_value *pair = e.value;
        const int ok = dict || ((pair->kind == PG_PK_LIST || pair->kind == PG_PK_TUPLE) &&
                                pair->n == 2);
        pg__zero_tie *t = &z->ties[z->n_ties++];
        t->name = ok ? text_of(dict ? e.key : item(p, pair, 0)) : NULL;
        t->of = ok ? text_of(dict ? e.value : item(p, pair, 1)) : NULL;
        if (!t->name || !t->of)
            return pg_fail(r->err, PG_E_FORMAT, "shared_params does not list names");
    }
    return PG_OK;
}

static pg_status read_writer(reading *r, const pg__pickle *p)
{
    char *version = text_of(get(p, root_of(p), "ds_version"));
    pg__str text = {0};
    pg_status st = PG_OK;
    if (version)
        st = pg__str_printf(&text, r->err, "deepspeed %s", PG_SHOW(version));
    r->z->writer = text.s;
    pg__mem_free(version);
    return st;
}

/* The first rank's file says what the model is. */
static pg_status read_model(reading *r)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__pt_source f = {0};
    const pg_open_opts module = {.part = "module"};
    PG_TRY(model_name(&name, r, 0));
    st = open_rank(r, &f, name.s);
    if (st == PG_E_UNKNOWN) /* it is among the faults */
        st = PG_OK;
    if (st != PG_OK || !f.zip)
        goto done;
    const pg__pickle *p = &f.pickle;
    st = read_groups(r, p);
    if (st == PG_OK)
        st = read_names(r, p);
    if (st == PG_OK)
        st = read_ties(r, p);
    if (st == PG_OK)
        st = read_writer(r, p);
    if (st == PG_OK && r->z->buffers.n)
        st = pg__pt_zip_store(&r->z->module, &f, &module, r->err);
    if (st != PG_OK)
        pg_err_prefix(r->err, PG_SHOW(name.s));
done:
    close_rank(&f);
    pg__str_fini(&name);
    return st;
}

static pg_status read_frozen(reading *r)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__zero *z = r->z;
    const uint64_t n = z->stage == 3 ? z->n_ranks : 1;
    if (z->frozen_params.n == 0)
        return PG_OK;
    z->frozen = pg__mem_array((size_t)z->n_ranks, sizeof(pg_store *));
    if (!z->frozen)
        return pg__nomem(r->err);
    for (uint64_t i = 0; i < n; i++) {
        PG_TRY(model_name(&name, r, i));
        st = part_of(&z->frozen[i], name.s, r, "frozen_param_fragments");
        if (st != PG_OK && st != PG_E_UNKNOWN)
            goto done;
    }
    st = PG_OK;
done:
    pg__str_fini(&name);
    return st;
}

/* ---- all ---- */

static pg_status check_groups(const reading *r)
{
    const pg__zero *z = r->z;
    for (uint64_t i = 0; i < z->n_ranks; i++)
        if (z->stage < 3 && pg_store_n_weights(z->flat[i]) != z->n_groups)
            return pg_fail(r->err, PG_E_FORMAT,
                           "rank %s has %zu groups of parameters, model_states has %zu", PG_NUM(i),
                           pg_store_n_weights(z->flat[i]), z->n_groups);
    return PG_OK;
}

pg_status pg__zero_read(pg__zero *out, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__zero z = {0};
    reading r = {.z = &z, .path = path, .folder = -1, .err = err};
    pg__pt_source f = {0};
    PG_TRY(pg__io_folder_of(&r.folder, path, path, err));
    PG_TRY(pg__io_open_beside(&f.io, r.folder, pg__base_name(path), err));
    PG_TRY(pg__pt_read_zip(&f, err));
    PG_TRY(read_job(&r, &f.pickle));
    PG_TRY(check_slices(&r));
    PG_TRY(read_flat(&r));
    PG_TRY(read_model(&r));
    PG_TRY(read_frozen(&r));
    PG_TRY(pg__shard_faults_report(
        &r.faults, (size_t)(z.stage == 3 ? 2 * z.n_ranks : z.n_ranks + 1), 1, err));
    PG_TRY(check_groups(&r));
    *out = z;
    z = (pg__zero){0};
done:
    close_rank(&f);
    if (r.folder >= 0)
        close(r.folder);
    pg__shard_faults_fini(&r.faults);
    pg__zero_fini(&z);
    return st;
}

static void group_fini(pg__zero_group *g)
{
    for (size_t i = 0; i < g->n; i++)
        pg__mem_free(g->v[i].name);
    pg__mem_free(g->v);
}

void pg__zero_fini(pg__zero *z)
{
    for (uint64_t i = 0; i < z->n_ranks; i++) {
        if (z->flat)
            pg_store_close(z->flat[i]);
        if (z->frozen)
            pg_store_close(z->frozen[i]);
    }
    for (size_t i = 0; i < z->n_groups; i++)
        group_fini(&z->groups[i]);
    group_fini(&z->frozen_params);
    for (size_t i = 0; i < z->n_ties; i++) {
        pg__mem_free(z->ties[i].name);
        pg__mem_free(z->ties[i].of);
    }
    pg_store_close(z->module);
    pg__mem_free(z->flat);
    pg__mem_free(z->frozen);
    pg__mem_free(z->groups);
    pg__mem_free(z->ties);
    pg__strs_fini(&z->names);
    pg__strs_fini(&z->buffers);
    pg__mem_free(z->writer);
    *z = (pg__zero){0};
}
