/* split_safetensors.c - shards as huggingface_hub writes them: model-00001-of-00003.safetensors and
 * model.safetensors.index.json, or model.safetensors if one file is enough (with an index, too,
 * because the index completes a split). safetensors hold little-endian bytes and no layers: names
 * of Keras' tensors get their layer's name if they would not be unique without it. Metadata of the
 * source stay; a Keras model's configurations become metadata. Everything that safetensors cannot
 * hold - checksums, layers, groups, attributes, the files of a .keras archive - is in manifest.json
 * beside them, so that pgjoin restores the file that was split. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/safetensors.h"
#include "wrap/shard/split.h"

#define INDEX "model.safetensors.index.json"
#define ALIGN 8u

typedef struct st_split {
    pg__split *s;
    pg__filling f;
    pg__strs names; /* by tensor */
    size_t n;
    pg__manifest m;
    pg__str head; /* of the shard at hand */
    size_t shard;
    pg__job_shard *shards; /* by shard */
} st_split;

/* A name and its tensor, to be sorted. */
typedef struct entry {
    const char *name;
    size_t tensor;
} entry;

/* ---- names -----------------------------------------------------------------------------------
 */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Fresh. */
static entry *sort_names(const pg__strs *names)
{
    entry *v = pg__mem_array(names->n, sizeof *v);
    for (size_t i = 0; v && i < names->n; i++)
        v[i] = (entry){names->v[i], i};
    if (v && names->n)
        qsort(v, names->n, sizeof *v, by_name);
    return v;
}

/* 1 if a name occurs twice. */
static pg_status find_twins(int *out, const pg__strs *names, pg_err *err)
{
    entry *v = sort_names(names);
    if (!v)
        return pg__nomem(err);
    *out = 0;
    for (size_t i = 1; i < names->n; i++)
        *out |= strcmp(v[i - 1].name, v[i].name) == 0;
    pg__mem_free(v);
    return PG_OK;
}

static pg_status make_names(st_split *t, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str raw = {0};
    int twins = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        for (size_t i = 0; i < t->n; i++) {
            PG_TRY(pg__split_raw_name(&raw, t->s, i, err));
            const char *name =
                attempt == 0 && t->s->v[i].role == PG_ROLE_WEIGHT ? t->s->v[i].name : raw.s;
            PG_TRY(pg__strs_add(&t->names, name, strlen(name), err));
        }
        PG_TRY(find_twins(&twins, &t->names, err));
        if (!twins)
            goto done;
        if (attempt == 0)
            pg__strs_fini(&t->names);
    }
    st = pg_fail(err, PG_E_UNSUPPORTED, "two tensors have the same name");
    pg_err_set(err, "format", "npy");
done:
    pg__str_fini(&raw);
    return st;
}

/* ---- one shard -------------------------------------------------------------------------------
 */

static pg_status add_text(pg__str *out, const char *key, const char *text, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    if (!text)
        return PG_OK;
    PG_TRY(pg__str_printf(out, err, ",\"%s\":", key));
    PG_TRY(pg__json_quote(out, text, n, err));
done:
    return st;
}

static pg_status add_metadata(pg__str *out, const st_split *t, pg_err *err)
{
    static const char *const keys[] = {"model_config", "training_config", "metadata"};
    pg_status st = PG_OK;
    size_t n = 0;
    const pg_store *view = t->s->view;
    PG_TRY(pg__str_puts(out, "\"" PG_ST_METADATA "\":", err));
    if (!t->s->tree) {
        const char *text = pg_store_text(view, PG_TEXT_METADATA, &n);
        return text ? pg__str_add(out, text, n, err)
                    : pg__str_puts(out, "{\"format\":\"pt\"}", err);
    }
    PG_TRY(pg__str_puts(out, "{\"format\":\"np\"", err));
    for (int k = PG_TEXT_MODEL_CONFIG; k <= PG_TEXT_METADATA; k++) {
        const char *text = pg_store_text(view, (pg_text)k, &n);
        PG_TRY(add_text(out, keys[k], text, n, err));
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

/* The header of shard t->shard, its length first, padded by spaces. */
static pg_status make_head(st_split *t, uint64_t *n_data, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    unsigned char length[8];
    uint64_t at = 0;
    PG_TRY(pg__str_puts(&text, "{", err));
    PG_TRY(add_metadata(&text, t, err));
    for (size_t i = 0; i < t->n; i++) {
        const pg_weight *w = &t->s->v[i].w;
        if (t->f.shard[i] != t->shard)
            continue;
        PG_TRY(pg__str_puts(&text, ",", err));
        PG_TRY(pg__json_quote(&text, t->names.v[i], strlen(t->names.v[i]), err));
        PG_TRY(pg__str_printf(&text, err, ":{\"dtype\":\"%s\",\"shape\":[",
                              pg__st_dtype_word(w->dtype)));
        for (uint32_t k = 0; k < w->rank; k++)
            PG_TRY(pg__str_printf(&text, err, "%s%" PRIu64, k ? "," : "", w->dims[k]));
        PG_TRY(pg__str_printf(&text, err, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                              at + w->n_bytes));
        at += w->n_bytes;
    }
    PG_TRY(pg__str_puts(&text, "}", err));
    while (text.n % ALIGN)
        PG_TRY(pg__str_puts(&text, " ", err));
    pg__put_le(length, text.n, sizeof length);
    t->head.n = 0;
    PG_TRY(pg__str_add(&t->head, (const char *)length, sizeof length, err));
    PG_TRY(pg__str_add(&t->head, text.s, text.n, err));
    *n_data = at;
done:
    pg__str_fini(&text);
    return st;
}

static pg_status fill(pg__split *s, pg__split_out *f, void *ctx, pg_err *err)
{
    pg_status st = PG_OK;
    const st_split *t = ctx;
    for (size_t at = 0; at < t->head.n;) {
        const size_t n = t->head.n - at < PG_COPY_BYTES ? t->head.n - at : PG_COPY_BYTES;
        PG_TRY(pg__split_put(s, f, t->head.s + at, n, err));
        at += n;
    }
    for (size_t i = 0; i < t->n; i++) {
        if (t->f.shard[i] != t->shard)
            continue;
        for (uint64_t at = 0; at < s->v[i].w.n_bytes;) {
            const uint64_t left = s->v[i].w.n_bytes - at;
            const size_t n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES;
            PG_TRY(pg__split_read_little(s, i, at, s->buf, n, err));
            PG_TRY(pg__split_put(s, f, s->buf, n, err));
            at += n;
        }
    }
done:
    return st;
}

static void shard_name(char *out, size_t cap, size_t i, size_t n)
{
    if (n == 1)
        (void)snprintf(out, cap, "model.safetensors");
    else
        (void)snprintf(out, cap, "model-%05zu-of-%05zu.safetensors", i + 1, n);
}

/* Names and headers of all shards: another job's may be compared with them. */
static pg_status plan_shards(st_split *t, pg__strs *files, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t n_data = 0;
    t->shards = pg__mem_array(t->f.n, sizeof *t->shards);
    if (!t->shards)
        return pg__nomem(err);
    for (t->shard = 0; t->shard < t->f.n; t->shard++) {
        pg__job_shard *v = &t->shards[t->shard];
        shard_name(v->name, sizeof v->name, t->shard, t->f.n);
        PG_TRY(pg__strs_add(files, v->name, strlen(v->name), err));
        PG_TRY(make_head(t, &n_data, err));
        v->n_bytes = t->head.n + n_data;
        v->n_tensors = pg__filling_count(&t->f, t->n, t->shard);
        v->head = pg__crc32(0, t->head.s, t->head.n);
        t->s->rep.n_bytes += n_data;
    }
done:
    return st;
}

static pg_status write_shard(st_split *t, size_t shard, pg_err *err)
{
    uint64_t n_data = 0;
    pg__job_shard *v = &t->shards[shard];
    if (t->s->o->write.dry_run)
        return pg__split_file(t->s, v->name, v->n_tensors, v->n_bytes, err);
    t->shard = shard;
    const pg_status st = make_head(t, &n_data, err);
    return st == PG_OK
               ? pg__split_make(t->s, v->name, v->n_tensors, v->n_bytes, fill, t, &v->crc, err)
               : st;
}

/* Writes the shards that are this run's, or takes those that the jobs wrote. */
static pg_status write_shards(st_split *t, pg_err *err)
{
    pg_status st = PG_OK;
    if (t->s->o->finish && !t->s->o->write.dry_run)
        PG_TRY(pg__split_collect(t->s, t->shards, t->f.n, err));
    else
        for (size_t i = 0; i < t->f.n; i++)
            if (pg__split_is_mine(t->s, i))
                PG_TRY(write_shard(t, i, err));
    for (size_t i = 0; i < t->m.n_pieces; i++)
        t->m.pieces[i].crc = t->shards[t->f.shard[i]].crc;
done:
    return st;
}

/* ---- the manifest ----------------------------------------------------------------------------
 */

static pg_status plan_manifest(st_split *t, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__split_describe(&t->m, t->s, "safetensors", err));
    for (size_t i = 0; i < t->n; i++) {
        const pg_weight *w = &t->s->v[i].w;
        const pg__piece p = {.path = t->shards[t->f.shard[i]].name,
                             .member = t->names.v[i],
                             .rows = w->rank ? w->dims[0] : 1};
        PG_TRY(pg__split_add(&t->m, t->s, i, err));
        PG_TRY(pg__manifest_add_piece(&t->m, &p, err));
    }
done:
    return st;
}

/* ---- the index -------------------------------------------------------------------------------
 */

/* As json.dumps(index, indent=2, sort_keys=True) writes it. */
static pg_status make_index(pg__str *out, const st_split *t, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t total = 0;
    entry *v = sort_names(&t->names);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < t->n; i++)
        total += t->s->v[i].w.n_bytes;
    PG_TRY(pg__str_printf(
        out, err,
        "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {", total));
    for (size_t k = 0; k < t->n; k++) {
        const size_t i = v[k].tensor;
        PG_TRY(pg__str_puts(out, k ? ",\n    " : "\n    ", err));
        PG_TRY(pg__json_quote(out, t->names.v[i], strlen(t->names.v[i]), err));
        PG_TRY(pg__str_printf(out, err, ": \"%s\"", t->shards[t->f.shard[i]].name));
    }
    PG_TRY(pg__str_puts(out, t->n ? "\n  }\n}\n" : "}\n}\n", err));
done:
    pg__mem_free(v);
    return st;
}

static pg_status write_index(st_split *t, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str index = {0};
    PG_TRY(pg__split_side_manifest(t->s, &t->m, err));
    PG_TRY(make_index(&index, t, err));
    if (t->s->o->write.dry_run) {
        st = pg__split_file(t->s, INDEX, t->n, index.n, err);
        goto done;
    }
    PG_TRY(pg__split_finish(t->s, INDEX, &index, t->n, err));
    pg__split_forget_jobs(t->s);
done:
    pg__str_fini(&index);
    return st;
}

pg_status pg__split_safetensors(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    st_split t = {.s = s, .n = s->n};
    pg__strs files = {0};
    PG_TRY(make_names(&t, err));
    PG_TRY(pg__split_fill(&t.f, s, t.n, err));
    PG_TRY(plan_shards(&t, &files, err));
    PG_TRY(plan_manifest(&t, err));
    PG_TRY(pg__split_prepare(s, INDEX, &files, s->n_bytes, err));
    PG_TRY(write_shards(&t, err));
    if (!s->o->n_jobs)
        PG_TRY(write_index(&t, err));
    else if (!s->o->write.dry_run)
        PG_TRY(pg__split_end_job(s, t.shards, t.f.n, err));
done:
    pg__manifest_fini(&t.m);
    pg__filling_fini(&t.f);
    pg__strs_fini(&t.names);
    pg__strs_fini(&files);
    pg__str_fini(&t.head);
    pg__mem_free(t.shards);
    return st;
}
