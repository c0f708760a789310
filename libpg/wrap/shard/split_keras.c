/* split_keras.c - shards as Keras 3.10 writes them: model_00000.weights.h5 ... and
 * model.weights.json, whose weight_map says which shards hold a `vars` group (a list where it is in
 * several) and whose total_size is a float. Groups of layers without weights are in the first
 * shard, every shard has what hangs on the groups that it holds.
 *
 * manifest.json beside them has what Keras' index has no place for: checksums, and the other files
 * of a .keras archive, so that pgjoin restores the file that was split. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "format/h5/h5.h"
#include "wrap/shard/split.h"

#define INDEX "model.weights.json"

typedef struct keras {
    pg__split *s;
    pg__filling f;
    pg__strs files;
    size_t *ids;    /* dataset of each tensor in its shard */
    pg__h5_out *h5; /* the current shard */
    size_t shard;
    pg__manifest m;
} keras;

static pg_status put_attrs(keras *k, pg__h5_out *h5, uint32_t obj, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    for (uint32_t a = 0; a < pg__h5_at(k->s->tree, obj)->n_attrs; a++)
        PG_TRY(pg__h5_out_attr(h5, path, pg__h5_attr_at(k->s->tree, obj, a), err));
done:
    return st;
}

/* Marks the groups above a shard's tensors; the first shard has all groups. */
static void mark_groups(const keras *k, size_t shard, unsigned char *in)
{
    const pg__h5 *h = k->s->tree;
    memset(in, shard == 0, pg__h5_n(h));
    in[0] = 1;
    for (size_t i = 0; i < k->s->n; i++)
        if (k->f.shard[i] == shard)
            for (uint32_t obj = pg__h5_at(h, k->s->v[i].obj)->parent; obj && !in[obj];
                 obj = pg__h5_at(h, obj)->parent)
                in[obj] = 1;
}

static pg_status lay_out(keras *k, pg__h5_out *h5, size_t shard, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    const pg__h5 *h = k->s->tree;
    unsigned char *in = pg__mem_array(pg__h5_n(h), 1);
    if (!in)
        return pg__nomem(err);
    mark_groups(k, shard, in);
    for (uint32_t obj = 0; obj < pg__h5_n(h); obj++) {
        if (!in[obj] || pg__h5_at(h, obj)->kind != PG_H5_GROUP)
            continue;
        PG_TRY(pg__v3_object_path(&path, h, obj, err));
        PG_TRY(pg__h5_out_group(h5, path.s ? path.s : "", err));
        PG_TRY(put_attrs(k, h5, obj, path.s ? path.s : "", err));
    }
    for (size_t i = 0; i < k->s->n; i++) {
        const pg__h5_object *o = pg__h5_at(h, k->s->v[i].obj);
        if (k->f.shard[i] != shard)
            continue;
        PG_TRY(pg__v3_object_path(&path, h, k->s->v[i].obj, err));
        PG_TRY(pg__h5_out_dataset(h5, path.s, &o->type, o->rank, o->dims, &k->ids[i], err));
        PG_TRY(put_attrs(k, h5, k->s->v[i].obj, path.s, err));
    }
    PG_TRY(pg__h5_out_finish(h5, err));
done:
    pg__mem_free(in);
    pg__str_fini(&path);
    return st;
}

static pg_status fill(pg__split *s, pg__split_image *f, void *ctx, pg_err *err)
{
    pg_status st = PG_OK;
    const keras *k = ctx;
    if (!f->old)
        PG_TRY(pg__sink_reserve(f->sink, pg__h5_out_bytes(k->h5), err));
    PG_TRY(pg__h5_out_flush(k->h5, f->sink, 0, err));
    for (size_t i = 0; i < s->n; i++)
        if (k->f.shard[i] == k->shard)
            PG_TRY(pg__split_put_tensor(s, f, i, pg__h5_out_offset(k->h5, k->ids[i]), NULL, err));
done:
    return st;
}

static pg_status write_shard(keras *k, size_t shard, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split *s = k->s;
    const char *path = k->files.v[shard];
    const size_t n = pg__filling_count(&k->f, s->n, shard);
    uint32_t crc = 0;
    k->shard = shard;
    PG_TRY(pg__h5_out_new(&k->h5, err));
    PG_TRY(lay_out(k, k->h5, shard, err));
    s->rep.n_bytes += pg__h5_out_bytes(k->h5);
    if (s->o->write.dry_run)
        st = pg__split_file(s, path, n, pg__h5_out_bytes(k->h5), err);
    else
        st = pg__split_build(s, path, n, fill, k, &crc, err);
    for (size_t i = 0; i < k->m.n_pieces; i++)
        if (k->f.shard[i] == shard)
            k->m.pieces[i].crc = crc;
done:
    pg__h5_out_free(k->h5);
    k->h5 = NULL;
    return st;
}

/* The shards that hold datasets of `vars` group obj. */
static pg_status put_shards(pg__str *out, const keras *k, uint32_t obj, pg_err *err)
{
    pg_status st = PG_OK;
    size_t last = PG_NONE, n = 0;
    pg__str list = {0};
    for (size_t i = 0; i < k->s->n; i++)
        if (pg__h5_at(k->s->tree, k->s->v[i].obj)->parent == obj && k->f.shard[i] != last) {
            last = k->f.shard[i];
            PG_TRY(pg__str_printf(&list, err, "%s\"%s\"", n++ ? ", " : "", k->files.v[last]));
        }
    PG_TRY(n == 1 ? pg__str_puts(out, list.s, err) : pg__str_printf(out, err, "[%s]", list.s));
done:
    pg__str_fini(&list);
    return st;
}

static pg_status make_index(pg__str *out, const keras *k, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__h5 *h = k->s->tree;
    pg__str path = {0};
    size_t n = 0;
    PG_TRY(pg__str_printf(out, err,
                          "{\n    \"metadata\": {\n        \"total_size\": %" PRIu64
                          ".0\n    },\n    \"weight_map\": {",
                          k->s->n_bytes));
    uint32_t last = PG_H5_NONE;
    for (size_t i = 0; i < k->s->n; i++) {
        const uint32_t obj = pg__h5_at(h, k->s->v[i].obj)->parent;
        if (obj == last) /* tensors of a group are neighbours */
            continue;
        last = obj;
        pg__str key = {0};
        PG_TRY(pg__v3_object_path(&path, h, obj, err));
        st = pg__str_printf(&key, err, "/%s", path.s);
        PG_TRY(st);
        PG_TRY(pg__str_puts(out, n++ ? ",\n        " : "\n        ", err));
        st = pg__json_quote(out, key.s, key.n, err);
        pg__str_fini(&key);
        PG_TRY(st);
        PG_TRY(pg__str_puts(out, ": ", err));
        PG_TRY(put_shards(out, k, obj, err));
    }
    PG_TRY(pg__str_puts(out, "\n    }\n}", err));
done:
    pg__str_fini(&path);
    return st;
}

static pg_status plan_manifest(keras *k, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split *s = k->s;
    pg__str path = {0};
    PG_TRY(pg__split_describe(&k->m, s, "keras", err));
    for (size_t i = 0; i < s->n; i++) {
        const pg_weight *w = &s->v[i].w;
        PG_TRY(pg__v3_object_path(&path, s->tree, s->v[i].obj, err));
        const pg__piece p = {
            .path = k->files.v[k->f.shard[i]], .member = path.s, .rows = w->rank ? w->dims[0] : 1};
        PG_TRY(pg__split_add(&k->m, s, i, err));
        PG_TRY(pg__manifest_add_piece(&k->m, &p, err));
    }
done:
    pg__str_fini(&path);
    return st;
}

pg_status pg__split_keras(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    keras k = {.s = s};
    pg__str index = {0};
    char file[64];
    if (!s->tree || !pg__v3_of(s->view)) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "%s: Keras cuts files of the .weights.h5 layout only, this is %s",
                      PG_SHOW(s->r.in), pg_store_format(s->view));
        pg_err_set(err, "format", "npy");
        pg_err_or(err, "format", "safetensors");
        return PG_E_UNSUPPORTED;
    }
    k.ids = pg__mem_array(s->n, sizeof *k.ids);
    if (!k.ids)
        return pg__nomem(err);
    PG_TRY(pg__split_fill(&k.f, s, s->n, err));
    for (size_t i = 0; i < k.f.n; i++) {
        (void)snprintf(file, sizeof file, "model_%05zu.weights.h5", i);
        PG_TRY(pg__strs_add(&k.files, file, strlen(file), err));
    }
    PG_TRY(plan_manifest(&k, err));
    PG_TRY(pg__split_prepare(s, INDEX, &k.files, s->n_bytes, err));
    for (size_t i = 0; i < k.f.n; i++)
        PG_TRY(write_shard(&k, i, err));
    PG_TRY(pg__split_side_manifest(s, &k.m, err));
    PG_TRY(make_index(&index, &k, err));
    if (s->o->write.dry_run)
        PG_TRY(pg__split_file(s, INDEX, s->n, index.n, err));
    else
        PG_TRY(pg__split_finish(s, INDEX, &index, s->n, err));
done:
    pg__manifest_fini(&k.m);
    pg__filling_fini(&k.f);
    pg__strs_fini(&k.files);
    pg__str_fini(&index);
    pg__mem_free(k.ids);
    return st;
}
