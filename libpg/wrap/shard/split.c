/* split.c - pg_split_file(): lists the input, tensor by tensor. It splits either the input itself,
 * with every group and attribute of its HDF5 file, or another file (the template of a wrapper, the
 * rest of a damaged file, one file instead of Keras' shards), whose layout its writer makes in
 * memory: all metadata, no tensor bytes. The bytes always come from the input. */
#include "wrap/shard/split.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/try.h"
#include "format/fmt_keras_h5.h"
#include "format/fmt_keras_v3.h"
#include "format/shards.h"
#include "io/zip.h"
#include "store/values.h"

int pg_shard_format_by_name(pg_shard_format *out, const char *name)
{
    static const char *const names[] = {"npy", "npz", "safetensors", "keras"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (pg_shard_format)i;
            return 1;
        }
    return 0;
}

static void free_lines(char **v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pg__mem_free(v[i]);
    pg__mem_free(v);
}

void pg_shard_report_fini(pg_shard_report *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_files; i++)
        pg__mem_free(r->files[i].path);
    pg__mem_free(r->files);
    free_lines(r->missing, r->n_missing);
    free_lines(r->damaged, r->n_damaged);
    free_lines(r->notes, r->n_notes);
    *r = (pg_shard_report){0};
}

pg_status pg__split_note(pg__split *s, pg_err *err, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    return pg__finding_add(&s->rep.notes, &s->rep.n_notes, line, err);
}

pg_status pg__split_file(pg__split *s, const char *path, size_t n_tensors, uint64_t n_bytes,
                         pg_err *err)
{
    pg_shard_report *r = &s->rep;
    if ((r->n_files & (r->n_files - 1)) == 0) { /* a power of two is full */
        size_t cap = r->n_files;
        if (pg__mem_grow(&r->files, &cap, r->n_files ? 2 * r->n_files : 1, sizeof *r->files))
            return pg__nomem(err);
    }
    char *copy = pg__mem_strdup(path);
    if (!copy)
        return pg__nomem(err);
    r->files[r->n_files++] = (pg_shard_file){copy, n_tensors, n_bytes};
    return PG_OK;
}

/* ---- what is split ---------------------------------------------------------------------------
 */

/* The HDF5 file behind a store, if it is one file. */
static pg__h5 *tree_of(const pg_store *s)
{
    const pg__keras_h5 *legacy = pg__keras_h5_of(s);
    const pg__v3 *v3 = pg__v3_of(s);
    if (legacy)
        return legacy->h5;
    return v3 && v3->n_parts == 1 && strcmp(pg_store_format(s), "keras-sharded") != 0
               ? v3->parts[0].h5
               : NULL;
}

static uint32_t object_of(const pg_store *s, size_t tensor)
{
    const pg__keras_h5 *legacy = pg__keras_h5_of(s);
    const pg__v3 *v3 = pg__v3_of(s);
    return legacy ? legacy->tensors[tensor] : v3 ? v3->tensors[tensor].obj : PG_H5_NONE;
}

/* Makes the view: the file that the plan would write, without tensor bytes. */
static pg_status lay_out(pg__split *s, const pg__format *f, pg_err *err)
{
    static const pg_open_opts opts = {0};
    pg_status st = PG_OK;
    s->r.plan.layout_only = 1;
    PG_TRY(pg__sink_open_memory(&s->layout, err));
    PG_TRY(f->write(s->layout, &s->r.plan, err));
    PG_TRY(pg__sink_reopen(s->layout, &s->layout_io, err));
    PG_TRY(f->open(&s->view, s->layout_io, NULL, &opts, err));
done:
    return st;
}

static pg_status open_view(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__format *f = pg__format_of(s->r.s);
    const int sharded = strcmp(pg_store_format(s->r.s), "keras-sharded") == 0;
    const char *damage = pg_store_damage(s->r.s);
    if (sharded)
        f = &pg__fmt_keras_v3;
    if (!s->o->unwrap && !sharded && !damage) {
        s->view = s->r.s;
    } else {
        if (!s->o->unwrap)
            PG_TRY(pg__plan_copy_of(&s->r.plan, s->r.s, err));
        if (f && !f->write && pg_store_n_layers(s->r.s) == 0)
            f = &pg__fmt_safetensors;
        if (!f || !f->write)
            PG_FAIL(PG_E_UNSUPPORTED, "files of format %s are split as they are only",
                    pg_store_format(s->r.s));
        PG_TRY(lay_out(s, f, err));
    }
    s->tree = tree_of(s->view);
done:
    return st;
}

static pg_status open_input(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    const pg_open_opts opts = {.salvage = 1,
                               .part = s->o->write.part,
                               .rules = s->o->write.rules,
                               .n_threads = s->o->write.n_threads};
    const pg_unwrap_opts unwrap = {.write = s->o->write};
    if (opts.part && !*opts.part)
        PG_FAIL(PG_E_ARG, "an empty key names no part");
    if (s->o->unwrap) {
        PG_TRY(pg__rewrite_open(&s->r, err));
        st = pg__plan_unwrap(&s->r, &unwrap, err);
        if (st != PG_OK)
            pg_err_prefix(err, PG_SHOW(s->r.in));
        goto done;
    }
    PG_TRY(pg_store_open(&s->r.s, s->r.in, &opts, err));
    s->r.plan.src = s->r.s;
    if (pg__v3_shard_index(s->r.s))
        PG_FAIL(PG_E_ARG, "%s: one of several shards; give its index, %s", PG_SHOW(s->r.in),
                PG_SHOW(pg__v3_shard_index(s->r.s)));
    const char *damage = pg_store_damage(s->r.s);
    if (pg_store_others(s->r.s))
        PG_TRY(pg__split_note(s, err, "left out: %s", pg_store_others(s->r.s)));
    if (!damage)
        goto done;
    if (pg_store_n_weights(s->r.s) + pg_store_n_state(s->r.s) == 0)
        PG_FAIL(PG_E_FORMAT, "%s: %s", PG_SHOW(s->r.in), damage);
    PG_TRY(pg__finding_add(&s->rep.damaged, &s->rep.n_damaged, damage, err));
done:
    return st;
}

/* ---- the list of tensors ---------------------------------------------------------------------
 */

static pg_status push(pg__split *s, const pg__split_tensor *t, pg_err *err)
{
    if (pg__mem_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v))
        return pg__nomem(err);
    s->v[s->n++] = *t;
    if (__builtin_add_overflow(s->n_bytes, t->w.n_bytes, &s->n_bytes) || s->n_bytes > INT64_MAX)
        return pg_fail(err, PG_E_LIMIT, "the tensors are too large together");
    return PG_OK;
}

/* Tensor of the input that tensor i of the view is made from. */
static size_t source_of(const pg__split *s, size_t i, size_t *next_state)
{
    const size_t n = pg_store_n_weights(s->view), first = pg_store_n_weights(s->r.s);
    if (s->view == s->r.s)
        return i;
    if (i < n)
        return s->r.plan.items[i].src;
    while (!pg__plan_keeps_state(&s->r.plan, *next_state) && *next_state < pg_store_n_state(s->r.s))
        (*next_state)++;
    return first + (*next_state)++;
}

static pg_status list_tensors(pg__split *s, unsigned char *seen, pg_err *err)
{
    pg_status st = PG_OK;
    size_t next_state = 0;
    const size_t n_weights = pg_store_n_weights(s->view), all = pg__store_n_tensors(s->view);
    for (size_t i = 0; i < all; i++) {
        const pg_weight *w = pg__store_tensor(s->view, i);
        const pg__split_tensor t = {.name = w->name,
                                    .layer = w->layer,
                                    .role = i < n_weights ? PG_ROLE_WEIGHT : PG_ROLE_STATE,
                                    .data = source_of(s, i, &next_state),
                                    .obj = s->tree ? object_of(s->view, i) : PG_H5_NONE,
                                    .w = *w,
                                    .big_endian = pg__store_big_endian(s->view, i)};
        const pg_weight *from = pg__store_tensor(s->r.s, t.data);
        if (!from || from->n_bytes != w->n_bytes || from->dtype != w->dtype)
            PG_FAIL(PG_E_IO, "%s: differs between input and layout", PG_SHOW(w->name));
        if (s->tree)
            seen[t.obj] = 1;
        PG_TRY(push(s, &t, err));
        if (t.role == PG_ROLE_WEIGHT)
            s->rep.n_params += w->n_bytes / pg_dtype_bytes(w->dtype);
    }
    s->rep.n_layers = pg_store_n_layers(s->view);
    s->rep.n_tensors = n_weights;
    s->rep.n_state = all - n_weights;
done:
    return st;
}

/* Adds datasets that are in no list of the file. */
static pg_status list_strays(pg__split *s, const unsigned char *seen, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t obj = 0; s->tree && obj < pg__h5_n(s->tree); obj++) {
        const pg__h5_object *o = pg__h5_at(s->tree, obj);
        if (seen[obj] || o->kind != PG_H5_DATASET || o->type.cls == PG_H5_OTHER)
            continue; /* the latter are among the store's others */
        pg__split_tensor t = {.name = o->name,
                              .layer = PG_NONE,
                              .role = PG_ROLE_DATASET,
                              .data = PG_NONE,
                              .obj = obj,
                              .big_endian = o->type.big_endian};
        t.w = (pg_weight){
            .name = o->name, .dtype = o->type.dtype, .rank = o->rank, .n_bytes = o->n_bytes};
        memcpy(t.w.dims, o->dims, sizeof t.w.dims);
        PG_TRY(push(s, &t, err));
    }
done:
    return st;
}

static pg_status list_all(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *seen = pg__mem_array(s->tree ? pg__h5_n(s->tree) : 0, 1);
    if (!seen)
        return pg__nomem(err);
    PG_TRY(list_tensors(s, seen, err));
    PG_TRY(list_strays(s, seen, err));
    s->rep.n_written = s->n;
done:
    pg__mem_free(seen);
    return st;
}

pg__extent pg__split_extent(const pg__split *s, size_t i)
{
    const size_t data = s->v[i].data;
    return data == PG_NONE ? (pg__extent){0} : pg__store_extent(s->r.s, data);
}

pg_status pg__split_read(pg__split *s, size_t i, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const pg__split_tensor *t = &s->v[i];
    const pg_status st = t->data == PG_NONE ? pg__h5_read(s->tree, t->obj, off, buf, n, err)
                                            : pg__store_read_raw(s->r.s, t->data, off, buf, n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(s->r.in));
    return st;
}

pg_status pg__split_read_little(pg__split *s, size_t i, uint64_t off, void *buf, size_t n,
                                pg_err *err)
{
    const size_t size = pg_dtype_bytes(s->v[i].w.dtype);
    unsigned char *p = buf;
    const pg_status st = pg__split_read(s, i, off, buf, n, err);
    for (size_t at = 0; st == PG_OK && s->v[i].big_endian && size > 1 && at < n; at += size)
        for (size_t a = at, b = at + size - 1; a < b; a++, b--) {
            const unsigned char c = p[a];
            p[a] = p[b];
            p[b] = c;
        }
    return st;
}

/* ---- the manifest ----------------------------------------------------------------------------
 */

pg_status pg__split_raw_name(pg__str *out, const pg__split *s, size_t i, pg_err *err)
{
    const pg__split_tensor *t = &s->v[i];
    const char *layer = t->layer == PG_NONE ? NULL : pg_store_layer(s->view, t->layer)->name;
    const int legacy = pg__keras_h5_of(s->view) != NULL;
    out->n = 0;
    if (t->role == PG_ROLE_DATASET)
        return pg__v3_object_path(out, s->tree, t->obj, err);
    if (legacy && t->role == PG_ROLE_STATE)
        return pg__str_printf(out, err, "optimizer_weights/%s", t->name);
    if (!legacy || !layer)
        return pg__str_puts(out, t->name, err);
    const size_t n = pg__layer_len(layer);
    const int inside = strncmp(t->name, layer, n) == 0 && t->name[n] == '/';
    return pg__str_printf(out, err, "%s/%s", layer, inside ? t->name + n + 1 : t->name);
}

pg_status pg__split_add(pg__manifest *m, pg__split *s, size_t i, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str h5 = {0}, name = {0};
    const pg__split_tensor *t = &s->v[i];
    pg__shard_tensor d = {.layer = t->layer,
                          .role = t->role,
                          .dtype = t->w.dtype,
                          .rank = t->w.rank,
                          .n_bytes = t->w.n_bytes};
    memcpy(d.dims, t->w.dims, sizeof d.dims);
    if (s->tree) {
        PG_TRY(pg__v3_object_path(&h5, s->tree, t->obj, err));
        d.h5 = h5.s;
    }
    PG_TRY(pg__str_puts(&name, t->role == PG_ROLE_DATASET ? h5.s : t->name, err));
    d.name = name.s;
    PG_TRY(pg__manifest_add_tensor(m, &d, err));
done:
    pg__str_fini(&h5);
    pg__str_fini(&name);
    return st;
}

static pg_status add_objects(pg__manifest *m, const pg__h5 *h, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    for (uint32_t obj = 0; obj < pg__h5_n(h); obj++) {
        const pg__h5_object *o = pg__h5_at(h, obj);
        if (o->kind == PG_H5_DATASET && (o->n_attrs == 0 || o->type.cls == PG_H5_OTHER))
            continue;
        PG_TRY(pg__v3_object_path(&path, h, obj, err));
        PG_TRY(pg__manifest_add_object(m, path.s ? path.s : "", err));
        for (uint32_t k = 0; k < o->n_attrs; k++)
            PG_TRY(pg__manifest_add_attr(m, pg__h5_attr_at(h, obj, k), err));
    }
done:
    pg__str_fini(&path);
    return st;
}

static pg_status add_members(pg__manifest *m, const pg__v3 *v, pg_err *err)
{
    pg_status st = PG_OK;
    char *text = NULL;
    size_t n = 0;
    for (size_t i = 0; i < pg__zip_n(v->zip); i++) {
        const pg__zip_member *z = pg__zip_at(v->zip, i);
        const size_t len = strlen(z->name);
        if (strcmp(z->name, "model.weights.h5") == 0 || (len && z->name[len - 1] == '/'))
            continue;
        PG_TRY(pg__zip_load(v->zip, i, PG_LIMIT_JSON_BYTES, &text, &n, err));
        PG_TRY(pg__manifest_add_member(m, z->name, text, n, err));
        pg__mem_free(text);
        text = NULL;
    }
done:
    pg__mem_free(text);
    return st;
}

pg_status pg__split_describe(pg__manifest *m, pg__split *s, const char *format, pg_err *err)
{
    pg_status st = PG_OK;
    const char *slash = strrchr(s->r.in, '/');
    const char *writer = pg_store_writer(s->view);
    const pg__v3 *v3 = pg__v3_of(s->view);
    const int is_converted = strcmp(pg_store_format(s->view), PG_CONVERTED) == 0;
    size_t n = 0;
    m->format = pg__mem_strdup(format);
    m->source = pg__mem_strdup(slash ? slash + 1 : s->r.in);
    m->source_format = pg__mem_strdup(is_converted ? format : pg_store_format(s->view));
    m->writer = pg__mem_strdup(writer);
    if (!m->format || !m->source || !m->source_format || (writer && !m->writer))
        return pg__nomem(err);
    for (size_t i = 0; i < pg_store_n_layers(s->view); i++) {
        const char *name = pg_store_layer(s->view, i)->name;
        PG_TRY(pg__strs_add(&m->layers, name, strlen(name), err));
    }
    if (s->tree)
        PG_TRY(add_objects(m, s->tree, err));
    if (v3 && v3->zip)
        PG_TRY(add_members(m, v3, err));
    const char *metadata = s->tree ? NULL : pg_store_text(s->view, PG_TEXT_METADATA, &n);
    if (metadata && !(m->metadata = pg__mem_strndup(metadata, n))) {
        st = pg__nomem(err);
        goto done;
    }
    m->n_metadata = n;
done:
    return st;
}

/* ---- the run ---------------------------------------------------------------------------------
 */

static void fini(pg__split *s)
{
    if (s->view != s->r.s)
        pg_store_close(s->view);
    pg__io_close(s->layout_io);
    pg__sink_close(s->layout);
    pg__rewrite_fini(&s->r);
    pg_shard_report_fini(&s->rep);
    pg__strs_fini(&s->sums);
    pg__mem_free(s->v);
    pg__mem_free(s->buf);
    pg__mem_free(s->room);
    pg__mem_free(s->into);
    if (s->lock >= 0)
        close(s->lock);
}

/* Before anything is written. */
static pg_status check_types(const pg__split *s, pg_err *err)
{
    const int numpy = s->o->format == PG_SHARD_NPY || s->o->format == PG_SHARD_NPZ;
    for (size_t i = 0; numpy && i < s->n; i++) {
        if (!pg__dtype_is_float8(s->v[i].w.dtype))
            continue;
        (void)pg_fail(err, PG_E_UNSUPPORTED, "%s: %s: NumPy has no %s", PG_SHOW(s->r.in),
                      PG_SHOW(s->v[i].name), pg_dtype_name(s->v[i].w.dtype));
        pg_err_set(err, "format", "safetensors");
        return PG_E_UNSUPPORTED;
    }
    return PG_OK;
}

/* Splits the file of s: opens it, or takes the open store `in`. */
static pg_status split(pg__split *s, pg_store *in, pg_shard_report *report, pg_err *err)
{
    static pg_status (*const write[])(pg__split *, pg_err *) = {
        pg__split_npy, pg__split_npz, pg__split_safetensors, pg__split_keras};
    pg_status st = PG_OK;
    if ((unsigned)s->o->format >= sizeof write / sizeof *write)
        return pg_fail(err, PG_E_UNSUPPORTED, "shards of this format are not written");
    if ((s->o->n_jobs || s->o->finish) && s->o->format != PG_SHARD_SAFETENSORS)
        return pg_fail(err, PG_E_ARG, "only shards of safetensors are written by several jobs");
    if (s->o->n_jobs && (s->o->finish || s->o->job - 1 >= s->o->n_jobs))
        return pg_fail(err, PG_E_ARG,
                       "job %u of %u: jobs are counted from 1, and finish comes after "
                       "all of them",
                       s->o->job, s->o->n_jobs);
    s->r.write = &s->o->write;
    s->n_threads = in || s->o->n_threads < 1          ? 1
                   : s->o->n_threads > PG_MAX_THREADS ? PG_MAX_THREADS
                                                      : s->o->n_threads;
    s->buf = pg__mem_array(s->n_threads, PG_COPY_BYTES);
    s->room = pg__mem_array(s->n_threads, PG_COPY_BYTES);
    if (!s->buf || !s->room) {
        st = pg__nomem(err);
        goto done;
    }
    if (!in)
        PG_TRY(open_input(s, err));
    st = open_view(s, err);
    if (st == PG_OK)
        st = list_all(s, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(s->r.in));
        goto done;
    }
    PG_TRY(check_types(s, err));
    if (pg__shards_of(s->r.s) && !s->o->write.dry_run)
        PG_TRY(pg__shards_prove(pg__shards_of(s->r.s), s->o->write.cancel, err));
    pg__progress_start(s->o->write.progress, s->n_bytes);
    PG_TRY(write[s->o->format](s, err));
done:
    if (st != PG_OK)
        pg__split_undo(s);
    if (report) {
        *report = s->rep;
        s->rep = (pg_shard_report){0};
    }
    if (in) { /* the caller's */
        s->view = s->view == in ? NULL : s->view;
        s->r.s = NULL;
    }
    fini(s);
    return st;
}

pg_status pg_split_file(const char *in, const char *dir, const pg_split_opts *opts,
                        pg_shard_report *report, pg_err *err)
{
    static const pg_split_opts defaults = {0};
    pg__split s = {.dir = dir, .o = opts ? opts : &defaults, .r = {.in = in}, .lock = -1};
    if (!in || !dir || !*dir)
        return pg_fail(err, PG_E_ARG, "an input and a folder are needed");
    return split(&s, NULL, report, err);
}

pg_status pg_split_store(pg_store *in, const char *name, const char *dir, const pg_split_opts *opts,
                         pg_shard_report *report, pg_err *err)
{
    static const pg_split_opts defaults = {0};
    pg__split s = {
        .dir = dir, .o = opts ? opts : &defaults, .r = {.in = name, .s = in}, .lock = -1};
    if (!in || !name || !dir || !*dir)
        return pg_fail(err, PG_E_ARG, "a checkpoint, its name and a folder are needed");
    if (s.o->unwrap)
        return pg_fail(err, PG_E_ARG, "what is open is split as it is");
    s.r.plan.src = in;
    return split(&s, in, report, err);
}
