/* save.c - a trainer's model as a checkpoint: always the plain model, as one device loads it.
 *
 * Presents the trainer as a store with the content of a legacy .h5: variables by layer, the
 * description, the training configuration, the optimizer's state. Bytes are read from the device or
 * from a snapshot, during which the trainer may run steps. The converter and the formats do the
 * rest, as for any other file: the path layout, .keras, reading back what was written. */
#include "train/model/save.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/format.h"
#include "pg/convert.h"
#include "pg/shard.h"
#include "train/model/compiled.h"
#include "train/model/resume_output.h"
#include "train/model/slots.h"
#include "train/step/step.h"

/* The source of a tensor's values. */
typedef struct piece {
    enum { PARAM, SLOT, NUMBER, ZEROS } kind;
    size_t slot, param;
    union {
        int64_t i64;
        float f32;
    } number;
} piece;

typedef struct shown {
    pg_trainer *t;
    const pg__snapshot *from; /* NULL: the trainer's device */
    piece *pieces;            /* per tensor of the store */
    size_t n, cap;
} shown;

static const pg__optimizer *optimizer_of(const shown *s)
{
    return s->from ? &s->from->optimizer : &s->t->compiled.optimizer;
}

/* n bytes of a parameter's values, in the device's type. */
static pg_status fetch(const shown *s, const piece *p, uint64_t off, void *buf, size_t n,
                       pg_err *err)
{
    pg_trainer *t = s->t;
    if (s->from)
        return pg__snapshot_read(s->from, p->kind == SLOT ? p->slot : PG_NONE,
                                 pg__snapshot_place(s->from, p->param) + off, buf, n, err);
    if (p->kind == SLOT && pg__is_sharded(t->ranks))
        return pg__opt_shard_read(
            t, p->slot, t->vars.offsets[p->param] * t->devs.backend->real_bytes + off, buf, n, err);
    const pg__flat *flat = p->kind == SLOT ? &t->vars.slots[p->slot] : &t->vars.params;
    return t->devs.backend->get(pg__param_dev(t, p->param), buf,
                                (const char *)flat->at[p->param] + off, n);
}

static pg_status read_tensor(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n,
                             pg_err *err)
{
    const shown *s = ctx;
    const piece *p = &s->pieces[tensor];
    double exact[512];
    pg_status st = PG_OK;
    if (p->kind == NUMBER || p->kind == ZEROS) {
        memset(buf, 0, n);
        if (p->kind == NUMBER)
            memcpy(buf, (const char *)&p->number + off, n);
        return PG_OK;
    }
    if (s->t->devs.backend->real_bytes == sizeof(float))
        return fetch(s, p, off, buf, n, err);
    for (size_t at = 0, some; at < n / sizeof(float); at += some) {
        some = n / sizeof(float) - at < 512 ? n / sizeof(float) - at : 512;
        PG_TRY(fetch(s, p, (off / sizeof(float) + at) * sizeof *exact, exact, some * sizeof *exact,
                     err));
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

/* Variables of one layer of the model, trained ones first, as in Keras. */
static pg_status show_layer(pg_store *store, shown *s, size_t top, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__str name = {0};
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->vars.n_params; i++) {
        const size_t param = t->vars.order[i];
        const pg__param *p = &t->net.built_params.params[param];
        const piece from = {.kind = PARAM, .param = param};
        if (p->leaf->top != top)
            continue;
        name.n = 0;
        if (t->vars.file_names[param])
            PG_TRY(pg__str_puts(&name, t->vars.file_names[param], err));
        else
            PG_TRY(pg__str_printf(&name, err, t->net.rules->keras3 ? "%s" : "%s:0",
                                  t->vars.weights[i].name));
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
    const pg__model *m = s->t->net.graph->root;
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

static piece piece_of(const shown *s, const pg__state_entry *e)
{
    const pg__optimizer *o = optimizer_of(s);
    piece p = {.kind = NUMBER};
    switch (e->kind) {
    case PG_STATE_STEPS: p.number.i64 = (int64_t)o->iterations; break;
    case PG_STATE_RATE: p.number.f32 = (float)o->lr; break;
    case PG_STATE_PRODUCT: p.number.f32 = (float)o->nadam_product; break;
    case PG_STATE_SLOT: p = (piece){.kind = SLOT, .slot = e->slot, .param = e->param}; break;
    case PG_STATE_ZEROS:
    case PG_STATE_ZERO: p.kind = ZEROS; break;
    }
    return p;
}

/* Names must only be distinct. */
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
        const pg__dims *shape = &t->net.built_params.params[e->param].shape;
        const piece p = piece_of(s, e);
        pg__tensor_desc d = {.dtype = e->kind == PG_STATE_STEPS ? PG_I64 : PG_F32};
        if (e->kind == PG_STATE_ZERO) {
            d.rank = 1;
            d.dims = one;
        } else if (e->kind >= PG_STATE_SLOT) {
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
    const pg__graph *g = t->net.graph;
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

static pg_status show_training(pg_store *store, shown *s, int zip, pg_err *err)
{
    pg__str text = {0};
    size_t n_losses = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < s->t->net.n_outputs; k++)
        n_losses += (size_t)s->t->compiled.objectives[k].has_loss;
    if (n_losses == 0) /* opened for predictions, so never compiled */
        return PG_OK;
    PG_TRY(show_state(store, s, err));
    PG_TRY(pg__compiled_text(&text, s->t, optimizer_of(s), !zip, err));
    PG_TRY(pg__store_set_text(store, PG_TEXT_TRAINING_CONFIG, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}

/* The content of a file, by its name. */
typedef struct target {
    const char *to; /* as pg_convert_opts.to */
    int described;  /* the description is needed, if only to name groups */
    int full;       /* with the training configuration and the optimizer's state */
} target;

/* The Keras version of the file. Kernels of Keras 1 were converted when they were read. */
static const char *version_of(const pg_trainer *t)
{
    if (t->net.keras_version && t->net.graph->dialect != 1)
        return t->net.keras_version;
    return t->net.rules->keras3 ? "3.6.0" : "2.15.0";
}

static pg_status show(pg_store **out, pg_trainer *t, const pg__snapshot *from, const target *to,
                      pg_err *err)
{
    static const pg__store_io io = {.read = read_tensor, .close = close_shown};
    pg_store *store = NULL;
    pg__str writer = {0};
    pg_status st = PG_OK;
    const int zip = strcmp(to->to, "keras") == 0;
    shown *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    s->t = t;
    s->from = from;
    PG_TRY(pg__store_new(&store, "trained", NULL, NULL, err));
    PG_TRY(show_weights(store, s, err));
    if (to->full)
        PG_TRY(show_training(store, s, zip, err));
    if (to->described)
        PG_TRY(show_description(store, t, zip, err));
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

/* Keras to 2.11 always writes the legacy layout. */
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
    if (pg__has_suffix(path, ".weights.h5"))
        *out = (target){paths ? "weights.h5" : "h5", paths, 0};
    else if (pg__has_suffix(path, ".keras"))
        *out = (target){"keras", 1, 1};
    else if (pg__has_suffix(path, ".h5") || pg__has_suffix(path, ".hdf5"))
        *out = (target){"h5", full, full};
    else if (pg__has_suffix(path, ".safetensors"))
        *out = (target){"safetensors", 0, 0};
    else
        return pg_fail(err, PG_E_ARG,
                       "%s: trained models are written as .h5, .weights.h5, .keras or .safetensors",
                       PG_SHOW(path));
    return PG_OK;
}

void pg__saved_fini(pg__saved *s)
{
    pg__mem_free(s->path);
    pg__strs_fini(&s->notes);
    *s = (pg__saved){0};
}

static pg_status set_saved(pg__saved *out, const char *path, pg_err *err)
{
    out->path = pg__mem_strdup(path);
    return out->path ? PG_OK : pg__nomem(err);
}

static uint64_t stored_bytes(const pg_store *store)
{
    uint64_t n = 0;
    for (size_t i = 0; i < pg_store_n_weights(store); i++)
        n += pg_store_weight(store, i)->n_bytes;
    for (size_t i = 0; i < pg_store_n_state(store); i++)
        n += pg_store_state(store, i)->n_bytes;
    return n;
}

/* A file and the data to prove it. */
typedef struct proof {
    const pg__save_order *order;
    pg_trainer *t;
    int full;
} proof;

static pg_status prove(void *user, const char *path, pg_err *err)
{
    const proof *p = user;
    return pg__prove(p->t, p->order->from, path, p->full, err);
}

static pg_write_opts write_opts(const pg__save_order *o, proof *p)
{
    return (pg_write_opts){.force = o->force,
                           .dry_run = o->dry_run,
                           .skip_verify = o->unread,
                           .prove = o->prove ? prove : NULL,
                           .user = p};
}

/* A model that HDF5 cannot hold (a name too long for an object header), or larger than a file may
 * be, becomes a folder of shards next to the path. */
static pg_status save_shards(pg__saved *out, pg_store *store, const pg__save_order *o, proof *p,
                             int oversized, pg_err *err)
{
    const pg_split_opts opts = {.write = write_opts(o, p), .max_shard_bytes = o->max_shard_bytes};
    pg_shard_report rep = {0};
    pg__str dir = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&dir, err, "%s.shards", o->path));
    PG_TRY(pg_split_store(store, o->path, dir.s, &opts, &rep, err));
    if (o->dry_run)
        goto done;
    PG_TRY(set_saved(out, dir.s, err));
    PG_TRY(pg__strs_printf(&out->notes, err,
                           "%s: %s, so it is split: %s/ (%zu files); conversion and the option "
                           "weights take that folder",
                           PG_SHOW(o->path),
                           oversized ? "larger than a shard may be" : "beyond what HDF5 holds",
                           PG_SHOW(dir.s), rep.n_files));
done:
    pg_shard_report_fini(&rep);
    pg__str_fini(&dir);
    return st;
}

pg_status pg__save(pg__saved *out, pg_trainer *t, const pg__save_order *o, pg_err *err)
{
    target to = {0};
    pg_store *store = NULL;
    pg_convert_report rep = {0};
    pg_status st = PG_OK;
    PG_TRY(target_of(&to, o->path, t, o->full, err));
    proof p = {.order = o, .t = t, .full = to.full};
    const pg_convert_opts convert = {.write = write_opts(o, &p), .to = to.to};
    PG_TRY(show(&store, t, o->from, &to, err));
    const int oversized = o->max_shard_bytes && stored_bytes(store) > o->max_shard_bytes;
    st = oversized ? PG_E_LIMIT : pg_convert_store(store, o->path, &convert, &rep, err);
    if (st == PG_OK && !o->dry_run)
        st = set_saved(out, o->path, err);
    else if (st == PG_E_LIMIT)
        st = save_shards(out, store, o, &p, oversized, err);
    PG_TRY(st);
    for (size_t i = 0; i < rep.n_notes && !o->dry_run; i++)
        PG_TRY(pg__strs_printf(&out->notes, err, "%s: %s", PG_SHOW(o->path), rep.notes[i]));
done:
    pg_convert_report_fini(&rep);
    pg_store_close(store);
    return st;
}

/* ---- a trainer as it stands ---- */

const char *pg_trainer_saved(const pg_trainer *t)
{
    return t->loop.saved;
}

static pg_status take_notes(pg_trainer *t, const pg__saved *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < s->notes.n; i++)
        PG_TRY(pg__strs_add(&t->report.notes, s->notes.v[i], strlen(s->notes.v[i]), err));
done:
    return st;
}

static pg_status save(pg_trainer *t, const char *path, const pg_save_opts *opts, int dry_run,
                      pg_err *err)
{
    const pg__save_order order = {.path = path,
                                  .force = opts && opts->force,
                                  .full = opts && opts->full_model,
                                  .dry_run = dry_run};
    pg__saved s = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__save(&s, t, &order, err));
    if (dry_run)
        goto done;
    pg__mem_free(t->loop.saved);
    t->loop.saved = s.path;
    s.path = NULL;
    PG_TRY(take_notes(t, &s, err));
done:
    pg__saved_fini(&s);
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

/* The start of the suffix that gives the format. */
static size_t stem_of(const char *path)
{
    static const char *const weights = ".weights.h5";
    const char *dot = strrchr(path, '.');
    if (pg__has_suffix(path, weights))
        return strlen(path) - strlen(weights);
    return dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);
}

/* Does the file, or the folder of its shards, exist? */
static int is_taken(const char *path)
{
    struct stat sb;
    pg__str shards = {0};
    int there = lstat(path, &sb) == 0;
    if (!there && pg__str_printf(&shards, NULL, "%s.shards", path) == PG_OK)
        there = lstat(shards.s, &sb) == 0;
    pg__str_fini(&shards);
    return there;
}

/* Another file took the name during training: saves under a similar one, so that neither is lost.
 */
static pg_status save_beside(pg_trainer *t, const char *path, const pg_save_opts *opts, pg_err *err)
{
    enum { MOST = 100 };
    const size_t stem = stem_of(path);
    const char *tried = path;
    pg_err own = {0};
    pg__str name = {0};
    pg_status first = save(t, path, opts, 0, err), st = first;
    if (first != PG_E_ARG || !opts || !opts->beside || opts->force)
        return first;
    for (int k = 1; st == PG_E_ARG && k < MOST && is_taken(tried); k++) {
        name.n = 0;
        st = pg__str_printf(&name, &own, "%.*s-%d%s", (int)stem, path, k, path + stem);
        tried = name.s;
        st = st == PG_OK ? save(t, tried, opts, 0, &own) : st;
    }
    pg__str_fini(&name);
    if (st == PG_OK && err)
        *err = (pg_err){0};
    return st == PG_OK ? PG_OK : first;
}

/* Records in the state of the run that the file is its own. */
static void record_output(const pg_trainer *t, const char *path)
{
    const size_t n = strlen(path);
    if (t->loop.output && strcmp(t->loop.output, path) == 0 && t->loop.saved &&
        strncmp(t->loop.saved, path, n) == 0 &&
        (t->loop.saved[n] == '\0' || strcmp(t->loop.saved + n, ".shards") == 0))
        pg__resume_wrote(t->loop.state, path);
}

pg_status pg_trainer_save(pg_trainer *t, const char *path, const pg_save_opts *opts, pg_err *err)
{
    pg_err unheard = {0};
    const pg_status st = pg__rank_of(t->ranks) > 0
                             ? PG_OK
                             : pg__with_message(t, save_beside(t, path, opts, err), err);
    if (st == PG_OK && pg__rank_of(t->ranks) == 0)
        record_output(t, path);
    const pg_status met = pg__opt_shard_serve(t, st == PG_OK ? err : &unheard);
    return st == PG_OK ? met : st;
}
