/* zero_slices.c - the tensors of all slices together. Under tensor parallelism each parameter is
 * cut along axis 0, unless universal_checkpoint_info says otherwise; the stages of a pipeline have
 * different parameters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero.h"

#define COMPARED_BYTES 65536u
#define MOST_COMPARED  250000000u /* tensors of layers with parameters */
#define MOST_STEPS     300000000u /* of all patterns */

static const pg__zero_tensor *tensor_of(const pg__zero_whole *w, size_t slice, size_t i)
{
    return &w->cuts[slice].v[i];
}

static pg_status add(pg__zero_whole *w, size_t slice, size_t i, pg__zero_merged **out, pg_err *err)
{
    const pg__zero_tensor *t = tensor_of(w, slice, i);
    if (pg__mem_grow(&w->v, &w->cap, w->n + 1, sizeof *w->v))
        return pg__nomem(err);
    pg__zero_merged *m = &w->v[w->n++];
    *m = (pg__zero_merged){.slice = slice, .tensor = i, .rank = t->rank};
    memcpy(m->dims, t->dims, sizeof m->dims);
    if (out)
        *out = m;
    return PG_OK;
}

/* ---- copies ---- */

static int same_shape(const pg__zero_tensor *a, const pg__zero_tensor *b)
{
    return a->rank == b->rank && a->dtype == b->dtype && a->row.elem == b->row.elem &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* Tensor i of slice a holds the same as tensor k of slice b. */
static pg_status check_equal(const pg__zero_whole *w, size_t a, size_t i, size_t b, size_t k,
                             pg_err *err)
{
    pg_status st = PG_OK;
    const pg__zero_tensor *x = tensor_of(w, a, i), *y = tensor_of(w, b, k);
    const uint64_t n = x->row.dims[0] * x->row.elem;
    unsigned char *buf = pg__mem_array(2, COMPARED_BYTES);
    if (!buf)
        return pg__nomem(err);
    int same = same_shape(x, y);
    for (uint64_t off = 0; same && off < n;) {
        const size_t m = n - off < COMPARED_BYTES ? (size_t)(n - off) : COMPARED_BYTES;
        PG_TRY(pg__zero_row_read(&w->cuts[a], &x->row, off, buf, m, err));
        PG_TRY(pg__zero_row_read(&w->cuts[b], &y->row, off, buf + COMPARED_BYTES, m, err));
        same = memcmp(buf, buf + COMPARED_BYTES, m) == 0;
        off += m;
    }
    if (!same)
        PG_FAIL(PG_E_FORMAT, "%s: mp_rank_%02zu and mp_rank_%02zu hold copies that differ",
                PG_SHOW(x->name), a, b);
done:
    pg__mem_free(buf);
    return st;
}

/* ---- tensor parallelism ---- */

typedef struct cutting {
    pg__zero_whole *w;
    const pg__zero_job *job;
    const size_t *at; /* by slice: its tensor */
    pg__zero_merged *m;
    size_t cap;
    uint64_t rows; /* the rest is padding */
} cutting;

/* Rows `from` ... `from` + n of the tensor of slice k are those from `to` on along an axis. */
static pg_status add_piece(cutting *x, size_t k, uint32_t axis, uint64_t from, uint64_t to,
                           uint64_t n, pg_err *err)
{
    pg__zero_whole *w = x->w;
    pg__tiled *box = &x->m->box;
    const pg__zero_tensor *t = tensor_of(w, k, x->at[k]);
    pg__tile tile = {.source = w->n_pieces};
    uint64_t row = 1;
    memcpy(tile.size, t->dims, sizeof tile.size);
    tile.start[axis] = to;
    tile.size[axis] = n;
    for (uint32_t i = 1; i < t->rank; i++)
        row *= t->dims[i];
    if (tile.start[0] >= x->rows)
        return PG_OK;
    if (tile.size[0] > x->rows - tile.start[0])
        tile.size[0] = x->rows - tile.start[0];
    if (pg__mem_grow(&w->pieces, &w->cap_pieces, w->n_pieces + 1, sizeof *w->pieces) ||
        pg__mem_grow(&box->v, &x->cap, box->n + 1, sizeof *box->v))
        return pg__nomem(err);
    w->pieces[w->n_pieces++] =
        (pg__zero_piece){.slice = k, .tensor = x->at[k], .first = from * row};
    box->v[box->n++] = tile;
    return PG_OK;
}

static pg_status join_axis(cutting *x, uint32_t axis, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t to = 0;
    for (size_t k = 0; k < x->job->n_slices; k++) {
        const uint64_t n = tensor_of(x->w, k, x->at[k])->dims[axis];
        PG_TRY(add_piece(x, k, axis, 0, to, n, err));
        to += n;
    }
    x->m->dims[axis] = to;
done:
    return st;
}

/* Part i of the parameter, then part i + 1; each from all slices. */
static pg_status join_subs(cutting *x, const pg__zero_rule *rule, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n_slices = x->job->n_slices;
    uint64_t *from = pg__mem_array(n_slices, sizeof *from), to = 0;
    if (!from)
        return pg__nomem(err);
    for (uint64_t i = 0; i < rule->n; i++)
        for (size_t k = 0; k < n_slices; k++) {
            const pg__zero_tensor *t = tensor_of(x->w, k, x->at[k]);
            const uint64_t n = rule->widths ? rule->widths[i * n_slices + k] : t->dims[0] / rule->n;
            if (n > t->dims[0] - from[k] || (!rule->widths && t->dims[0] % rule->n))
                PG_FAIL(PG_E_FORMAT, "%s: its parts are not as universal_checkpoint_info says",
                        PG_SHOW(t->name));
            PG_TRY(add_piece(x, k, 0, from[k], to, n, err));
            from[k] += n;
            to += n;
        }
    for (size_t k = 0; k < n_slices; k++)
        if (from[k] != tensor_of(x->w, k, x->at[k])->dims[0])
            PG_FAIL(PG_E_FORMAT, "%s: its parts are not as universal_checkpoint_info says",
                    PG_SHOW(tensor_of(x->w, k, x->at[k])->name));
    x->m->dims[0] = to;
done:
    pg__mem_free(from);
    return st;
}

/* The rule that says how a parameter is cut, NULL for axis 0; *rows: of a vocabulary. */
static pg_status rule_of(const pg__zero_rule **out, uint64_t *rows, const pg__zero *z,
                         const char *name, uint64_t *steps, pg_err *err)
{
    *out = NULL;
    *rows = UINT64_MAX;
    for (size_t i = 0; i < z->n_rules; i++) {
        const pg__zero_rule *x = &z->rules[i];
        const int found = pg__zero_match(x->pattern, name, steps);
        if (found < 0 && *steps == 0)
            return pg_fail(err, PG_E_LIMIT,
                           "universal_checkpoint_info: %zu patterns, which take too long",
                           z->n_rules);
        if (found < 0)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "universal_checkpoint_info: the pattern %s is not read",
                           PG_SHOW(x->pattern));
        if (found && x->kind == PG_ZERO_UNKNOWN)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "%s: universal_checkpoint_info does not say how it is cut",
                           PG_SHOW(name));
        if (found && x->kind == PG_ZERO_VOCABULARY)
            *rows = x->n;
        else if (found && *out)
            return pg_fail(err, PG_E_FORMAT, "%s: universal_checkpoint_info has two rules for it",
                           PG_SHOW(name));
        else if (found)
            *out = x;
    }
    return PG_OK;
}

/* Slices may differ along one axis only. */
static pg_status check_shapes(const cutting *x, uint32_t axis, pg_err *err)
{
    const pg__zero_tensor *a = tensor_of(x->w, 0, x->at[0]);
    if (axis >= a->rank)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: cut along axis %u, which it lacks",
                       PG_SHOW(a->name), axis);
    for (size_t k = 1; k < x->job->n_slices; k++) {
        const pg__zero_tensor *b = tensor_of(x->w, k, x->at[k]);
        int same = a->rank == b->rank && a->dtype == b->dtype && a->row.elem == b->row.elem;
        for (uint32_t i = 0; same && i < a->rank; i++)
            same = i == axis || a->dims[i] == b->dims[i];
        if (!same)
            return pg_fail(err, PG_E_FORMAT,
                           "%s: the slices of mp_rank_00 and mp_rank_%02zu do not fit together",
                           PG_SHOW(a->name), k);
    }
    return PG_OK;
}

static pg_status merge(cutting *x, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__zero *z = &x->job->slices[0];
    const pg__zero_rule *rule = NULL;
    const pg__zero_tensor *t = tensor_of(x->w, 0, x->at[0]);
    PG_TRY(rule_of(&rule, &x->rows, z, t->param, &x->w->steps, err));
    PG_TRY(add(x->w, 0, x->at[0], &x->m, err));
    if (t->rank == 0 || pg__index_find(&z->in_buffers, t->param) != PG_NONE ||
        (rule && (rule->kind == PG_ZERO_REPLICATED || rule->kind == PG_ZERO_AVERAGED))) {
        for (size_t k = 1; k < x->job->n_slices; k++)
            PG_TRY(check_equal(x->w, 0, x->at[0], k, x->at[k], err));
        return PG_OK;
    }
    const uint32_t axis = rule && rule->kind == PG_ZERO_COLUMNS;
    PG_TRY(check_shapes(x, axis, err));
    PG_TRY(rule && rule->kind == PG_ZERO_SUBS ? join_subs(x, rule, err) : join_axis(x, axis, err));
    if (x->m->dims[0] > x->rows)
        x->m->dims[0] = x->rows;
    x->m->box.name = t->name;
    x->m->box.elem = t->row.elem;
    x->m->box.rank = x->m->rank;
    memcpy(x->m->box.dims, x->m->dims, sizeof x->m->dims);
    PG_TRY(pg__tiles_check(&x->m->box, err));
done:
    return st;
}

static pg_status index_cut(pg__index *x, const pg__zero_cut *c, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < c->n; i++)
        st = pg__index_add(x, c->v[i].name, i, err);
    pg__index_sort(x);
    return st;
}

/* Each tensor of the first slice with those of the same name. */
static pg_status merge_all(pg__zero_whole *w, const pg__zero_job *job, pg__index *names, size_t *at,
                           pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 1; k < job->n_slices; k++) {
        PG_TRY(index_cut(&names[k], &w->cuts[k], err));
        if (w->cuts[k].n != w->cuts[0].n)
            PG_FAIL(PG_E_FORMAT, "mp_rank_00 has %zu tensors, mp_rank_%02zu %zu", w->cuts[0].n, k,
                    w->cuts[k].n);
    }
    for (size_t i = 0; i < w->cuts[0].n; i++) {
        at[0] = i;
        for (size_t k = 1; k < job->n_slices; k++) {
            at[k] = pg__index_find(&names[k], tensor_of(w, 0, i)->name);
            if (at[k] == PG_NONE)
                PG_FAIL(PG_E_FORMAT, "%s: mp_rank_%02zu has no slice of it",
                        PG_SHOW(tensor_of(w, 0, i)->name), k);
        }
        cutting x = {.w = w, .job = job, .at = at};
        PG_TRY(merge(&x, err));
    }
done:
    return st;
}

static pg_status join_slices(pg__zero_whole *w, const pg__zero_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index *names = pg__mem_array(job->n_slices, sizeof *names);
    size_t *at = pg__mem_array(job->n_slices, sizeof *at);
    if (!names || !at)
        PG_TRY(pg__nomem(err));
    if (!job->slices[0].has_rules)
        PG_FAIL(
            PG_E_UNSUPPORTED,
            "tensor parallelism over %zu ranks (mp_rank_01), and model_states has no "
            "universal_checkpoint_info that says how they cut the parameters; save it with one, "
            "or use a universal checkpoint (ds_to_universal.py)",
            job->n_slices);
    if (job->slices[0].n_experts)
        PG_FAIL(PG_E_UNSUPPORTED, "experts with tensor parallelism (mp_rank_01) are not merged");
    PG_TRY(merge_all(w, job, names, at, err));
done:
    for (size_t k = 0; names && k < job->n_slices; k++)
        pg__index_fini(&names[k]);
    pg__mem_free(names);
    pg__mem_free(at);
    return st;
}

/* ---- pipelines ---- */

static pg_status index_whole(pg__index *x, const pg__zero_whole *w, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < w->n; i++)
        st = pg__index_add(x, tensor_of(w, w->v[i].slice, w->v[i].tensor)->name, i, err);
    pg__index_sort(x);
    return st;
}

/* The tensors of one more slice that have other names than those before; a name that is there
 * already must stand for the same values, if `equal`. */
static pg_status add_slice(pg__zero_whole *w, size_t slice, int equal, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index names = {0};
    PG_TRY(index_whole(&names, w, err));
    for (size_t i = 0; i < w->cuts[slice].n; i++) {
        const size_t other = pg__index_find(&names, tensor_of(w, slice, i)->name);
        if (other == PG_NONE)
            PG_TRY(add(w, slice, i, NULL, err));
        else if (equal)
            PG_TRY(check_equal(w, w->v[other].slice, w->v[other].tensor, slice, i, err));
    }
done:
    pg__index_fini(&names);
    return st;
}

static int is_shared(const char *name)
{
    return strncmp(name, "tied_modules.", 13) == 0;
}

/* Does a stage have a parameter of its own under this name, or below this prefix? */
static size_t count_params(const pg__zero_job *job, const char *from, int whole,
                           const pg_weight *like, const char **found)
{
    size_t n = 0;
    for (size_t s = 0; s < job->n_slices; s++)
        for (size_t g = 0; g < job->slices[s].n_groups; g++)
            for (size_t i = 0; i < job->slices[s].groups[g].n; i++) {
                const pg__zero_param *p = &job->slices[s].groups[g].v[i];
                if (whole ? !is_shared(p->name) || !pg__ends_with(p->name, from) ||
                                p->rank != like->rank ||
                                memcmp(p->dims, like->dims, sizeof p->dims) != 0
                          : strncmp(p->name, from, strlen(from)) != 0)
                    continue;
                if (!*found || strcmp(*found, p->name) != 0)
                    n++;
                *found = p->name;
            }
    return n;
}

/* The name in the model of tensor i of a layer's file. Layers that share weights are called after
 * what they share, and have no parameters under their own number. */
static pg_status layer_name(const char **out, pg__zero_cut *c, const pg__zero_job *job,
                            const pg__zero_extra *x, size_t i, pg_err *err)
{
    pg_status st = PG_OK;
    const pg_weight *w = pg_store_weight(x->s, i);
    const char *own = NULL, *tied = NULL;
    pg__str end = {0};
    PG_TRY(pg__str_printf(&end, err, ".%s", w->name));
    if (count_params(job, x->name, 0, w, &own) == 0) {
        const size_t n = count_params(job, end.s, 1, w, &tied);
        if (n > 1)
            PG_FAIL(PG_E_UNSUPPORTED, "%s%s: shared with %s or with another parameter", x->name,
                    PG_SHOW(w->name), PG_SHOW(tied));
    }
    PG_TRY(pg__strs_printf(&c->made, err, "%s%s", tied ? "" : x->name, tied ? tied : w->name));
    *out = c->made.v[c->made.n - 1];
done:
    pg__str_fini(&end);
    return st;
}

static int has(const pg__zero_cut *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->v[i].name, name) == 0)
            return 1;
    return 0;
}

/* Each tensor of a layer's file is compared with each parameter of the stages. */
static pg_status check_work(const pg__zero_job *job, pg_err *err)
{
    uint64_t n_tensors = 0, n_params = 0;
    for (size_t k = 0; k < job->n_layers; k++)
        n_tensors += job->layers[k].s ? pg_store_n_weights(job->layers[k].s) : 0;
    for (size_t k = 0; k < job->n_slices; k++)
        for (size_t g = 0; g < job->slices[k].n_groups; g++)
            n_params += job->slices[k].groups[g].n;
    if (n_params && n_tensors > MOST_COMPARED / n_params)
        return pg_fail(err, PG_E_LIMIT, "%s tensors of layers, %s parameters", PG_NUM(n_tensors),
                       PG_NUM(n_params));
    return PG_OK;
}

static pg_status cut_layers(pg__zero_cut *c, const pg__zero_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(check_work(job, err));
    for (size_t k = 0; k < job->n_layers; k++) {
        const pg__zero_extra *x = &job->layers[k];
        for (size_t i = 0; x->s && i < pg_store_n_weights(x->s); i++) {
            const char *name = NULL;
            PG_TRY(layer_name(&name, c, job, x, i, err));
            if (is_shared(name) && has(c, name)) /* once for each layer that shares it */
                continue;
            PG_TRY(pg__zero_add_whole(c, x->s, i, name, err));
            PG_TRY(pg__tiles_check(&c->v[c->n - 1].row, err));
        }
    }
done:
    return st;
}

static pg_status join_stages(pg__zero_whole *w, const pg__zero_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < job->n_slices; k++) /* of a universal checkpoint the first has all */
        PG_TRY(add_slice(w, k, 1, err));
    if (job->what == PG_ZERO_NONE || job->what == PG_ZERO_STATE)
        return PG_OK;
    PG_TRY(cut_layers(&w->cuts[job->n_slices], job, err));
    PG_TRY(add_slice(w, job->n_slices, 0, err));
done:
    return st;
}

/* ---- what layers' files must hold ---- */

/* Without a module, only layers' files can hold the weights as trained. */
static int needs_layers(const pg__zero_job *job)
{
    if (job->what == PG_ZERO_NONE || job->what == PG_ZERO_STATE)
        return 0;
    return job->pipeline || (job->what == PG_ZERO_TRAINED && !job->slices[0].module);
}

/* "3.weight" is of layer 3. */
static int lacks_layer(const pg__index *layers, const char *name)
{
    char prefix[16];
    const size_t n = strspn(name, "0123456789");
    if (n == 0 || n + 2 > sizeof prefix || name[n] != '.')
        return 0;
    memcpy(prefix, name, n + 1);
    prefix[n + 1] = 0;
    return pg__index_find(layers, prefix) == PG_NONE;
}

static pg_status check_group(const pg__index *names, const pg__index *layers,
                             const pg__zero_group *g, pg_err *err)
{
    for (size_t i = 0; i < g->n; i++)
        if (pg__index_find(names, g->v[i].name) == PG_NONE || lacks_layer(layers, g->v[i].name))
            return pg_fail(err, PG_E_FORMAT,
                           "%s: the file of its layer is missing; copy layer_*-model_states.pt of "
                           "all layers",
                           PG_SHOW(g->v[i].name));
    return PG_OK;
}

/* Nothing counts the layers' files, which hold buffers, too; the stages know the parameters. */
static pg_status check_layers(const pg__zero_whole *w, const pg__zero_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    pg__index names = {0}, layers = {0};
    PG_TRY(index_whole(&names, w, err));
    for (size_t i = 0; i < job->n_layers; i++)
        PG_TRY(pg__index_add(&layers, job->layers[i].name, i, err));
    pg__index_sort(&layers);
    for (size_t k = 0; k < job->n_slices; k++) {
        for (size_t g = 0; g < job->slices[k].n_groups; g++)
            PG_TRY(check_group(&names, &layers, &job->slices[k].groups[g], err));
        PG_TRY(check_group(&names, &layers, &job->slices[k].frozen_params, err));
    }
done:
    pg__index_fini(&names);
    pg__index_fini(&layers);
    return st;
}

/* ---- all ---- */

pg_status pg__zero_whole_of(pg__zero_whole *out, const pg__zero_job *job, pg_err *err)
{
    pg_status st = PG_OK;
    pg__zero_whole w = {.n_cuts = job->n_slices + 1, .steps = MOST_STEPS};
    w.cuts = pg__mem_array(w.n_cuts, sizeof *w.cuts);
    if (!w.cuts)
        return pg__nomem(err);
    const int merged = job->slices[0].universal && job->what != PG_ZERO_TRAINED;
    for (size_t k = 0; k < (merged ? 1 : job->n_slices); k++)
        PG_TRY(pg__zero_cut_of(&w.cuts[k], job, &job->slices[k], err));
    if (job->pipeline)
        PG_TRY(join_stages(&w, job, err));
    else if (job->n_slices > 1 && !merged)
        PG_TRY(join_slices(&w, job, err));
    else
        PG_TRY(add_slice(&w, 0, 0, err));
    if (needs_layers(job))
        PG_TRY(check_layers(&w, job, err));
    *out = w;
    w = (pg__zero_whole){0};
done:
    pg__zero_whole_fini(&w);
    return st;
}

void pg__zero_whole_fini(pg__zero_whole *w)
{
    for (size_t i = 0; w->cuts && i < w->n_cuts; i++)
        pg__zero_cut_fini(&w->cuts[i]);
    for (size_t i = 0; i < w->n; i++)
        pg__mem_free(w->v[i].box.v);
    pg__mem_free(w->cuts);
    pg__mem_free(w->v);
    pg__mem_free(w->pieces);
    *w = (pg__zero_whole){0};
}
