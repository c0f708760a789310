/* save.c - a trainer's model as a checkpoint: always of the model itself, as one device loads it.
 *
 * The trainer is shown as a store that holds what a legacy .h5 would hold: variables by layer, the
 * description, what it was compiled with, the optimizer's state; bytes are read from the device.
 * Everything else is the converter's and the formats' work, as for any other file: the path layout,
 * .keras, reading back what was written. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "pg/convert.h"
#include "pg/shard.h"
#include "train/compiled.h"
#include "train/slots.h"

/* Where a tensor's values are: in a flat; or, flat NULL: the number itself (param PG_NONE), zeros.
 */
typedef struct piece {
    const pg__flat *flat;
    size_t param;
    union {
        int64_t i64;
        float f32;
    } number;
} piece;

typedef struct shown {
    pg_trainer *t;
    piece *pieces; /* per tensor of the store */
    size_t n, cap;
} shown;

static pg_status read_tensor(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err)
{
    const shown *s = ctx;
    pg_trainer *t = s->t;
    const piece *p = &s->pieces[tensor];
    double exact[512];
    pg_status st = PG_OK;
    (void)err;
    if (!p->flat) {
        memset(buf, 0, n);
        if (p->param == PG_NONE)
            memcpy(buf, (const char *)&p->number + off, n);
        return PG_OK;
    }
    const char *from = p->flat->at[p->param];
    if (t->backend->real_bytes == sizeof(float))
        return t->backend->get(t->dev, buf, from + off, n);
    for (size_t at = 0, some; at < n / sizeof(float); at += some) {
        some = n / sizeof(float) - at < 512 ? n / sizeof(float) - at : 512;
        PG_TRY(t->backend->get(t->dev, exact, from + (off / sizeof(float) + at) * sizeof *exact,
                               some * sizeof *exact));
        for (size_t k = 0; k < some; k++)
            ((float *)buf)[at + k] = (float)exact[k];
    }
done:
    return st;
}

static void close_shown(void *ctx)
{
    shown *s = ctx;
    pg__mem_free(s->pieces);
    pg__mem_free(s);
}

static pg_status add_piece(shown *s, const piece *p, pg_err *err)
{
    if (pg__mem_grow(&s->pieces, &s->cap, s->n + 1, sizeof *s->pieces))
        return pg__nomem(err);
    s->pieces[s->n++] = *p;
    return PG_OK;
}

/* ---- weights ---- */

/* Variables of one layer of the model, those that are trained first, as Keras lists them. */
static pg_status show_layer(pg_store *store, shown *s, size_t top, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__str name = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_params; i++) {
        const size_t param = t->order[i];
        const pg__param *p = &t->built_params.params[param];
        const piece from = {.flat = &t->params, .param = param};
        if (p->leaf->top != top)
            continue;
        name.n = 0;
        if (t->file_names[param])
            PG_TRY(pg__str_puts(&name, t->file_names[param], err));
        else
            PG_TRY(
                pg__str_printf(&name, err, t->rules->keras3 ? "%s" : "%s:0", t->weights[i].name));
        const pg__tensor_desc d = {
            .name = name.s, .dtype = PG_F32, .rank = p->shape.rank, .dims = p->shape.d};
        PG_TRY(pg__store_add_weight(store, &d, err));
        PG_TRY(add_piece(s, &from, err));
    }
done:
    pg__str_fini(&name);
    return st;
}

static pg_status show_weights(pg_store *store, shown *s, pg_err *err)
{
    const pg__model *m = s->t->graph->root;
    pg_status st = PG_OK;
    for (size_t top = 0; top < m->n_layers; top++) {
        if (!pg__layer_is_listed(m, top))
            continue;
        PG_TRY(pg__store_add_layer(store, m->layers[top].name, err));
        PG_TRY(show_layer(store, s, top, err));
    }
done:
    return st;
}

/* ---- the full model ---- */

static piece piece_of(const pg_trainer *t, const pg__state_entry *e)
{
    piece p = {.param = PG_NONE};
    switch (e->kind) {
    case PG__STATE_STEPS: p.number.i64 = (int64_t)t->optimiser.iterations; break;
    case PG__STATE_RATE: p.number.f32 = (float)t->optimiser.lr; break;
    case PG__STATE_PRODUCT: p.number.f32 = (float)t->optimiser.nadam_product; break;
    case PG__STATE_SLOT: p = (piece){.flat = &t->slots[e->slot], .param = e->param}; break;
    case PG__STATE_ZEROS:
    case PG__STATE_ZERO: p.param = 0; break;
    }
    return p;
}

/* Names must differ, and nothing else is asked of them. */
static pg_status distinct_name(pg__str *name, const pg_store *store, size_t *n_again, pg_err *err)
{
    for (size_t i = 0; i < pg_store_n_state(store); i++)
        if (strcmp(pg_store_state(store, i)->name, name->s) == 0)
            return pg__str_printf(name, err, "_%zu", ++*n_again);
    return PG_OK;
}

static pg_status show_state(pg_store *store, shown *s, pg_err *err)
{
    static const uint64_t one[] = {1};
    pg_trainer *t = s->t;
    const pg__era era = pg__era_of(t);
    pg__state_list l = {0};
    pg__str name = {0};
    pg_status st = PG_OK;
    size_t n_again = 0;
    PG_TRY(pg__state_list_of(&l, t, era, 1, err));
    for (size_t i = 0; i < l.n; i++) {
        const pg__state_entry *e = &l.v[i];
        const pg__dims *shape = &t->built_params.params[e->param].shape;
        const piece p = piece_of(t, e);
        pg__tensor_desc d = {.dtype = e->kind == PG__STATE_STEPS ? PG_I64 : PG_F32};
        if (e->kind == PG__STATE_ZERO) {
            d.rank = 1;
            d.dims = one;
        } else if (e->kind >= PG__STATE_SLOT) {
            d.rank = shape->rank;
            d.dims = shape->d;
        }
        name.n = 0;
        PG_TRY(pg__state_name(&name, t, era, e, err));
        PG_TRY(distinct_name(&name, store, &n_again, err));
        d.name = name.s;
        PG_TRY(pg__store_add_state(store, &d, err));
        PG_TRY(add_piece(s, &p, err));
    }
done:
    pg__state_list_fini(&l);
    pg__str_fini(&name);
    return st;
}

/* {"class_name", "config"}, cut out of the text that the model was read from. */
static pg_status show_description(pg_store *store, const pg_trainer *t, int zip, pg_err *err)
{
    const pg__graph *g = t->graph;
    const pg__json_span config = g->root->config_span,
                        build =
                            pg__json_member(g->text, (pg__json_span){0, g->n_text}, "build_config");
    pg__str text = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(&text, "{\"class_name\": ", err));
    PG_TRY(pg__json_quote(&text, g->root->class_name, strlen(g->root->class_name), err));
    PG_TRY(pg__str_puts(&text, ", \"config\": ", err));
    PG_TRY(pg__str_add(&text, g->text + config.off, config.n, err));
    if (zip && build.n) {
        PG_TRY(pg__str_puts(&text, ", \"build_config\": ", err));
        PG_TRY(pg__str_add(&text, g->text + build.off, build.n, err));
    }
    PG_TRY(pg__str_puts(&text, "}", err));
    PG_TRY(pg__store_set_text(store, PG_TEXT_MODEL_CONFIG, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}

static pg_status show_training(pg_store *store, shown *s, pg_err *err)
{
    pg__str text = {0};
    size_t n_losses = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < s->t->n_outputs; k++)
        n_losses += (size_t)s->t->objectives[k].has_loss;
    if (n_losses == 0) /* opened for predictions: it was never compiled */
        return PG_OK;
    PG_TRY(show_state(store, s, err));
    PG_TRY(pg__compiled_text(&text, s->t, err));
    PG_TRY(pg__store_set_text(store, PG_TEXT_TRAINING_CONFIG, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}

/* What goes into a file, by its name. */
typedef struct target {
    const char *to; /* as pg_convert_opts.to */
    int described;  /* the description is needed, if only to name groups */
    int full;       /* and compiled, with the optimizer's state */
} target;

/* Whose file it is. Kernels of Keras 1 were turned when they were read. */
static const char *version_of(const pg_trainer *t)
{
    if (t->keras_version && t->graph->dialect != 1)
        return t->keras_version;
    return t->rules->keras3 ? "3.6.0" : "2.15.0";
}

static pg_status show(pg_store **out, pg_trainer *t, const target *to, pg_err *err)
{
    static const pg__store_io io = {.read = read_tensor, .close = close_shown};
    pg_store *store = NULL;
    pg__str writer = {0};
    pg_status st = PG_OK;
    shown *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->t = t;
    PG_TRY(pg__store_new(&store, "trained", NULL, NULL, err));
    PG_TRY(show_weights(store, s, err));
    if (to->full)
        PG_TRY(show_training(store, s, err));
    if (to->described)
        PG_TRY(show_description(store, t, strcmp(to->to, "keras") == 0, err));
    PG_TRY(pg__str_printf(&writer, err, "keras %s, tensorflow", version_of(t)));
    PG_TRY(pg__store_set_writer(store, writer.s, err));
    pg__store_own(store, &io, s);
    *out = store;
    store = NULL;
    s = NULL;
done:
    pg__str_fini(&writer);
    pg_store_close(store);
    if (s)
        close_shown(s);
    return st;
}

/* ---- files ---- */

static int ends_with(const char *path, const char *suffix)
{
    const size_t n = strlen(path), k = strlen(suffix);
    return n > k && strcasecmp(path + n - k, suffix) == 0;
}

/* Keras to 2.11 writes the legacy layout whatever the name. */
static int has_paths(const pg_trainer *t)
{
    int major = 0, minor = 0;
    (void)sscanf(version_of(t), "%d.%d", &major, &minor);
    return major > 2 || (major == 2 && minor >= 12);
}

static pg_status target_of(target *out, const char *path, const pg_trainer *t, int full,
                           pg_err *err)
{
    const int paths = !t || has_paths(t);
    if (ends_with(path, ".weights.h5"))
        *out = (target){paths ? "weights.h5" : "h5", paths, 0};
    else if (ends_with(path, ".keras"))
        *out = (target){"keras", 1, 1};
    else if (ends_with(path, ".h5") || ends_with(path, ".hdf5"))
        *out = (target){"h5", full, full};
    else if (ends_with(path, ".safetensors"))
        *out = (target){"safetensors", 0, 0};
    else
        return pg_fail(err, PG_E_ARG,
                       "%s: trained models are written as .h5, .weights.h5, .keras or .safetensors",
                       PG_SHOW(path));
    return PG_OK;
}

static pg_status set_saved(pg_trainer *t, const char *path, pg_err *err)
{
    pg__mem_free(t->saved);
    t->saved = pg__mem_strdup(path);
    return t->saved ? PG_OK : pg__nomem(err);
}

const char *pg_trainer_saved(const pg_trainer *t)
{
    return t->saved;
}

/* What no HDF5 file holds (a name beyond an object header) becomes a folder of shards beside it. */
static pg_status save_shards(pg_trainer *t, pg_store *store, const char *path, int force,
                             pg_err *err)
{
    const pg_split_opts opts = {.write = {.force = force}};
    pg_shard_report rep = {0};
    pg__str dir = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&dir, err, "%s.shards", path));
    PG_TRY(pg_split_store(store, path, dir.s, &opts, &rep, err));
    PG_TRY(set_saved(t, dir.s, err));
    PG_TRY(pg__strs_printf(&t->notes, err,
                           "%s: beyond what HDF5 holds, so it is split: %s/ (%zu files); --weights "
                           "takes that folder, pgconvert too",
                           PG_SHOW(path), PG_SHOW(dir.s), rep.n_files));
done:
    pg_shard_report_fini(&rep);
    pg__str_fini(&dir);
    return st;
}

/* Writes, or with dry_run sees whether it could. */
static pg_status save(pg_trainer *t, const char *path, const pg_save_opts *opts, int dry_run,
                      pg_err *err)
{
    const int full = opts && opts->full_model;
    target to = {0};
    pg_store *store = NULL;
    pg_convert_report rep = {0};
    pg_status st = PG_OK;
    PG_TRY(target_of(&to, path, t, full, err));
    const pg_convert_opts convert = {.write = {.force = opts && opts->force, .dry_run = dry_run},
                                     .to = to.to};
    PG_TRY(show(&store, t, &to, err));
    st = pg_convert_store(store, path, &convert, &rep, err);
    if (st == PG_OK && !dry_run)
        st = set_saved(t, path, err);
    else if (st == PG_E_LIMIT && !dry_run)
        st = save_shards(t, store, path, convert.write.force, err);
    PG_TRY(st);
    for (size_t i = 0; i < rep.n_notes && !dry_run; i++)
        PG_TRY(pg__strs_printf(&t->notes, err, "%s: %s", PG_SHOW(path), rep.notes[i]));
done:
    pg_convert_report_fini(&rep);
    pg_store_close(store);
    return st;
}

pg_status pg_trainer_check_output(pg_trainer *t, const char *path, const pg_save_opts *opts,
                                  pg_err *err)
{
    const pg__sink_opts sink = {.force = opts && opts->force};
    target to;
    if (t)
        return save(t, path, opts, 1, err);
    const pg_status st = target_of(&to, path, NULL, opts && opts->full_model, err);
    return st == PG_OK ? pg__sink_check(path, &sink, err) : st;
}

pg_status pg_trainer_save(pg_trainer *t, const char *path, const pg_save_opts *opts, pg_err *err)
{
    return save(t, path, opts, 0, err);
}
