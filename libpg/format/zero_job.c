/* zero_job.c - all files of a checkpoint: of every mp_rank_XX, which is a slice of tensor
 * parallelism or a stage of a pipeline; and files with tensors of their own, for each expert
 * (layer_L_expert_E_mp_rank_00_model_states.pt), each layer of a pipeline
 * (layer_LL-model_states.pt, or layer_LL-model_00-model_states.pt) and each parameter of a
 * universal checkpoint (zero/NAME/fp32.pt). */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero_impl.h"
#include "io/folder.h"

#define LAYERS      "layer_*-model*_states.pt"
#define MOST_SLICES 99u

/* ---- what is in the folder ---- */

static char *folder_of(const char *path)
{
    const size_t n = (size_t)(pg__base_name(path) - path);
    return n ? pg__mem_strndup(path, n) : pg__mem_strdup(".");
}

/* The names in a folder that match, sorted; none if there is no such folder. */
static pg_status list(pg__strs *out, const char *folder, const char *glob, pg_err *err)
{
    int sys = 0;
    pg_status st = PG_OK;
    DIR *d = NULL;
    PG_TRY(pg__folder_list_if(&d, folder, err));
    for (const struct dirent *e; st == PG_OK && d && (e = pg__folder_next(d, &sys));)
        if (e->d_name[0] != '.' && fnmatch(glob, e->d_name, 0) == 0)
            st = pg__strs_add(out, e->d_name, strlen(e->d_name), err);
    if (d)
        closedir(d);
    if (st == PG_OK && sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder));
    pg__strs_sort(out);
done:
    return st;
}

/* More ranks than partition_count says have written here: there are several copies, or files of
 * two jobs. */
static pg_status check_rank(const pg__zero_reading *r, const char *name)
{
    const char *at = strstr(name, "zero_pp_rank_");
    unsigned long rank = 0;
    if (at && fnmatch("*_optim_states.pt", at, 0) == 0 &&
        sscanf(at, "zero_pp_rank_%9lu_", &rank) == 1 && rank >= r->z->n_ranks)
        return pg_fail(r->err, PG_E_FORMAT,
                       "%s: of another job, for partition_count says %s rank%s; copy the files of "
                       "one job",
                       PG_SHOW(name), PG_NUM(r->z->n_ranks), r->z->n_ranks == 1 ? "" : "s");
    return PG_OK;
}

/* XX of mp_rank_XX in a name, 0 if there is none. */
static pg_status slice_in(unsigned *slice, const pg__zero_reading *r, const char *name)
{
    const char *at = strstr(name, "mp_rank_");
    char *end = NULL;
    const unsigned long n = at && isdigit((unsigned char)at[8]) ? strtoul(at + 8, &end, 10) : 0;
    *slice = 0;
    if (n == 0 || *end != '_')
        return PG_OK;
    if (n >= MOST_SLICES)
        return pg_fail(r->err, PG_E_LIMIT, "%s: of more than %u ranks of model parallelism",
                       PG_SHOW(name), MOST_SLICES);
    *slice = (unsigned)n;
    return PG_OK;
}

/* The highest XX of all mp_rank_XX, and whether files of a pipeline's layers are there. */
static pg_status count_slices(pg__zero_reading *r)
{
    pg_status st = PG_OK;
    pg__strs names = {0};
    unsigned most = 0;
    char *folder = folder_of(r->path);
    if (!folder)
        return pg__nomem(r->err);
    PG_TRY(list(&names, folder, "*.pt", r->err));
    for (size_t i = 0; i < names.n; i++) {
        unsigned slice = 0;
        PG_TRY(slice_in(&slice, r, names.v[i]));
        most = slice > most ? slice : most;
        r->job->pipeline |= fnmatch(LAYERS, names.v[i], 0) == 0;
        PG_TRY(check_rank(r, names.v[i]));
    }
    r->job->n_slices = most + 1;
done:
    pg__mem_free(folder);
    pg__strs_fini(&names);
    return st;
}

/* ---- files of their own ---- */

/* Its store stays NULL if it holds no tensors, or is among the faults. */
static pg_status add_extra(pg__zero_reading *r, pg__zero_extra *x, const char *name,
                           const char *file)
{
    x->name = pg__mem_strdup(name);
    if (!x->name)
        return pg__nomem(r->err);
    pg__pt_source f = {0};
    pg_status st = pg__zero_open(r, &f, file);
    if (st == PG_OK && pg__zero_holds(&f.pickle, &f.pickle.v[f.pickle.root]))
        st = pg__zero_part(&x->s, r, &f, file, ".");
    pg__zero_close(&f);
    return st == PG_E_UNKNOWN ? PG_OK : st;
}

static pg_status read_experts(pg__zero_reading *r)
{
    pg_status st = PG_OK;
    pg__str file = {0};
    pg__zero_job *job = r->job;
    const pg__zero *z = &job->slices[0];
    for (size_t i = 0; i < z->n_experts; i++)
        for (uint64_t k = 0; k < z->experts[i] && r->faults.missing.n < PG_ZERO_MOST_FAULTS; k++) {
            file.n = 0;
            PG_TRY(pg__str_printf(&file, r->err, "layer_%zu_expert_%llu_mp_rank_00_model_states.pt",
                                  i, (unsigned long long)k));
            if (pg__mem_grow(&job->experts, &job->cap_experts, job->n_experts + 1,
                             sizeof *job->experts))
                PG_TRY(pg__nomem(r->err));
            pg__zero_extra *x = &job->experts[job->n_experts++];
            *x = (pg__zero_extra){.name = NULL};
            PG_TRY(add_extra(r, x, "", file.s));
        }
done:
    pg__str_fini(&file);
    return st;
}

static pg_status read_layers(pg__zero_reading *r, const char *folder)
{
    pg_status st = PG_OK;
    pg__strs names = {0};
    char prefix[16];
    pg__zero_job *job = r->job;
    PG_TRY(list(&names, folder, LAYERS, r->err));
    job->layers = pg__mem_array(names.n, sizeof *job->layers);
    if (!job->layers)
        PG_TRY(pg__nomem(r->err));
    for (size_t i = 0; i < names.n; i++) {
        unsigned layer = 0, slice = 0;
        if (sscanf(names.v[i], "layer_%5u-model_%2u-", &layer, &slice) < 1)
            continue;
        if (slice)
            PG_TRY(pg_fail(r->err, PG_E_UNSUPPORTED,
                           "a pipeline with tensor parallelism (%s), whose slices are not merged",
                           PG_SHOW(names.v[i])));
        snprintf(prefix, sizeof prefix, "%u.", layer);
        PG_TRY(add_extra(r, &job->layers[job->n_layers++], prefix, names.v[i]));
    }
done:
    pg__strs_fini(&names);
    return st;
}

/* ---- universal checkpoints ---- */

/* {"param": tensor, "cat_dim" ...}, or of stage 3 a tensor alone. needed: the optimizer has it;
 * else it is there or not. */
static pg_status add_param(pg__zero_reading *r, const char *folder, const char *name,
                           const char *key, int needed)
{
    pg_status st = PG_OK;
    int there = needed;
    pg__str path = {0};
    pg__zero_job *job = r->job;
    PG_TRY(pg__str_printf(&path, r->err, "%s/zero/%s/%s.pt", folder, name, key));
    if (!needed)
        PG_TRY(pg__is_there(&there, path.s, r->err));
    if (!there)
        goto done;
    if (pg__mem_grow(&job->params, &job->cap_params, job->n_params + 1, sizeof *job->params))
        PG_TRY(pg__nomem(r->err));
    pg__zero_extra *x = &job->params[job->n_params++];
    *x = (pg__zero_extra){.key = key, .trained = needed};
    PG_TRY(add_extra(r, x, name, path.s + strlen(folder) + 1));
done:
    pg__str_fini(&path);
    return st;
}

static pg_status add_keys(pg__zero_reading *r, const char *folder, const char *name, int needed)
{
    const pg__zero_what what = r->job->what;
    pg_status st = PG_OK;
    if (what == PG_ZERO_MASTER || what == PG_ZERO_ALL)
        PG_TRY(add_param(r, folder, name, "fp32", needed));
    if (what == PG_ZERO_STATE || what == PG_ZERO_ALL) {
        PG_TRY(add_param(r, folder, name, "exp_avg", needed));
        PG_TRY(add_param(r, folder, name, "exp_avg_sq", needed));
    }
done:
    return st;
}

/* The parameters that the optimizer has, and the other folders. */
static pg_status read_params(pg__zero_reading *r, const char *folder)
{
    pg_status st = PG_OK;
    pg__str zero = {0};
    pg__strs names = {0};
    pg__index trained = {0};
    PG_TRY(pg__str_printf(&zero, r->err, "%s/zero", folder));
    PG_TRY(list(&names, zero.s, "*", r->err));
    for (size_t k = 0; k < r->job->n_slices; k++)
        for (size_t g = 0; g < r->job->slices[k].n_groups; g++)
            for (size_t i = 0; i < r->job->slices[k].groups[g].n; i++)
                PG_TRY(pg__index_add(&trained, r->job->slices[k].groups[g].v[i].name, i, r->err));
    pg__index_sort(&trained);
    for (size_t i = 0; i < trained.n; i++)
        if (i == 0 || strcmp(trained.v[i - 1].name, trained.v[i].name) != 0)
            PG_TRY(add_keys(r, folder, trained.v[i].name, 1));
    for (size_t i = 0; i < names.n; i++) /* in files: what the parameters share */
        if (!pg__ends_with(names.v[i], ".pt") && pg__index_find(&trained, names.v[i]) == SIZE_MAX)
            PG_TRY(add_keys(r, folder, names.v[i], 0));
done:
    pg__str_fini(&zero);
    pg__strs_fini(&names);
    pg__index_fini(&trained);
    return st;
}

/* ---- all ---- */

static pg_status read_slice(pg__zero_reading *r, unsigned slice, const pg__zero *like)
{
    pg__zero *z = &r->job->slices[slice];
    *z = (pg__zero){.slice = slice,
                    .stage = like->stage,
                    .n_ranks = like->n_ranks,
                    .universal = like->universal,
                    .step = PG_ZERO_UNREAD,
                    .saved_at = -1,
                    .updates = -1};
    r->z = z;
    const pg_status st = pg__zero_read_model(r);
    return st == PG_OK && !z->universal && r->job->what != PG_ZERO_NONE ? pg__zero_read_ranks(r)
                                                                        : st;
}

static pg_status read_slices(pg__zero_reading *r, const pg__zero *like)
{
    pg_status st = PG_OK;
    pg__zero_job *job = r->job;
    job->slices = pg__mem_array(job->n_slices, sizeof *job->slices);
    if (!job->slices)
        return pg__nomem(r->err);
    for (unsigned i = 0; i < job->n_slices; i++)
        PG_TRY(read_slice(r, i, like));
done:
    return st;
}

static pg_status read_extras(pg__zero_reading *r)
{
    pg_status st = PG_OK;
    char *folder = folder_of(r->path);
    if (!folder)
        return pg__nomem(r->err);
    if (r->job->slices[0].n_experts &&
        (!r->job->slices[0].universal || r->job->what == PG_ZERO_TRAINED))
        PG_TRY(read_experts(r));
    if (r->job->pipeline)
        PG_TRY(read_layers(r, folder));
    if (r->job->slices[0].universal)
        PG_TRY(read_params(r, folder));
done:
    pg__mem_free(folder);
    return st;
}

/* How many ranks wrote model_states: in stage 3 each. */
static pg_status count_ranks(pg__zero_reading *r, pg__zero *like)
{
    pg__strs names = {0};
    char *folder = folder_of(r->path);
    if (!folder)
        return pg__nomem(r->err);
    const pg_status st = list(&names, folder, "zero_pp_rank_*_mp_rank_00_model_states.pt", r->err);
    like->n_ranks = like->stage == 3 ? names.n : 1;
    pg__strs_fini(&names);
    pg__mem_free(folder);
    return st;
}

/* A universal checkpoint has no optim_states; its model_states are those of the job. */
static pg_status read_like(pg__zero_reading *r, pg__zero *like)
{
    pg__pt_source f = {0};
    pg_status st = PG_OK;
    int is_universal = 0;
    r->z = like;
    PG_TRY(pg__zero_is_universal(&is_universal, r->path, r->err));
    if (is_universal) {
        like->universal = 1;
        like->stage = strncmp(pg__base_name(r->path), "zero_", 5) == 0 ? 3 : 1;
        return count_ranks(r, like);
    }
    PG_TRY(pg__io_open_beside(&f.io, r->folder, pg__base_name(r->path), r->err));
    PG_TRY(pg__pt_read_zip(&f, r->err));
    PG_TRY(pg__zero_read_job(r, &f.pickle));
done:
    pg__zero_close(&f);
    return st;
}

pg_status pg__zero_read(pg__zero_job *out, const char *path, pg__zero_what what, pg_err *err)
{
    pg_status st = PG_OK;
    pg__zero_job job = {.what = what, .folder = -1};
    pg__zero like = {0};
    pg__zero_reading r = {.job = &job, .path = path, .folder = -1, .err = err};
    PG_TRY(pg__io_folder_of(&job.folder, path, path, err));
    r.folder = job.folder;
    PG_TRY(read_like(&r, &like));
    PG_TRY(count_slices(&r));
    PG_TRY(read_slices(&r, &like));
    PG_TRY(read_extras(&r));
    PG_TRY(pg__shard_faults_report(&r.faults, r.n_files, 1, err));
    *out = job;
    job = (pg__zero_job){.folder = -1};
done:
    pg__shard_faults_fini(&r.faults);
    pg__zero_job_fini(&job);
    return st;
}

/* ---- the end ---- */

static void group_fini(pg__zero_group *g)
{
    for (size_t i = 0; i < g->n; i++)
        pg__mem_free(g->v[i].name);
    pg__mem_free(g->v);
}

static void stores_close(pg_store **list, uint64_t n)
{
    for (uint64_t i = 0; list && i < n; i++)
        pg_store_close(list[i]);
    pg__mem_free(list);
}

void pg__zero_fini(pg__zero *z)
{
    stores_close(z->flat, z->n_ranks);
    stores_close(z->state, z->n_ranks);
    stores_close(z->frozen, z->n_ranks);
    for (size_t i = 0; i < z->n_groups; i++)
        group_fini(&z->groups[i]);
    group_fini(&z->frozen_params);
    for (size_t i = 0; i < z->n_ties; i++) {
        pg__mem_free(z->ties[i].name);
        pg__mem_free(z->ties[i].of);
    }
    for (size_t i = 0; i < z->n_rules; i++) {
        pg__mem_free(z->rules[i].pattern);
        pg__mem_free(z->rules[i].widths);
    }
    pg_store_close(z->module);
    pg__index_fini(&z->in_module);
    pg__mem_free(z->groups);
    pg__mem_free(z->ties);
    pg__mem_free(z->rules);
    pg__mem_free(z->experts);
    pg__strs_fini(&z->names);
    pg__strs_fini(&z->buffers);
    pg__index_fini(&z->in_buffers);
    pg__mem_free(z->writer);
    pg__mem_free(z->ranks_say);
    *z = (pg__zero){0};
}

static void extras_fini(pg__zero_extra *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pg_store_close(v[i].s);
        pg__mem_free(v[i].name);
    }
    pg__mem_free(v);
}

void pg__zero_job_fini(pg__zero_job *job)
{
    for (size_t i = 0; job->slices && i < job->n_slices; i++)
        pg__zero_fini(&job->slices[i]);
    pg__mem_free(job->slices);
    extras_fini(job->experts, job->n_experts);
    extras_fini(job->layers, job->n_layers);
    extras_fini(job->params, job->n_params);
    if (job->folder >= 0)
        close(job->folder);
    *job = (pg__zero_job){.folder = -1};
}
