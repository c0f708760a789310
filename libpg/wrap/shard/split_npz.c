/* split_npz.c - .npz archives and manifest.json. Members are stored, so that a reader may map them,
 * and are named as the files of an .npy split. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/npy.h"
#include "io/zip.h"
#include "wrap/shard/shard_names.h"
#include "wrap/shard/split.h"

typedef struct npz {
    pg__split *s;
    pg__manifest m;
    pg__filling f;
    pg__strs members, files; /* by tensor; by shard */
    size_t shard;            /* at hand */
} npz;

static pg_status plan_all(npz *z, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split *s = z->s;
    pg__shard_names *names = NULL;
    pg__str raw = {0};
    char file[64];
    PG_TRY(pg__split_describe(&z->m, s, "npz", err));
    PG_TRY(pg__split_fill(&z->f, s, s->n, err));
    for (size_t i = 0; i < z->f.n; i++) {
        (void)snprintf(file, sizeof file, "model-%05zu-of-%05zu.npz", i + 1, z->f.n);
        PG_TRY(pg__strs_add(&z->files, file, strlen(file), err));
    }
    PG_TRY(pg__shard_names_new(&names, err));
    for (size_t i = 0; i < s->n; i++) {
        const pg_weight *w = &s->v[i].w;
        PG_TRY(pg__split_raw_name(&raw, s, i, err));
        PG_TRY(pg__shard_names_add(names, &z->members, raw.s, 1, ".npy", err));
        PG_TRY(pg__split_add(&z->m, s, i, err));
        const pg__piece p = {.path = z->files.v[z->f.shard[i]],
                             .member = z->members.v[i],
                             .rows = w->rank ? w->dims[0] : 1};
        PG_TRY(pg__manifest_add_piece(&z->m, &p, err));
    }
done:
    pg__shard_names_free(names);
    pg__str_fini(&raw);
    return st;
}

static pg_status write_member(const npz *z, pg__zip_out *zip, pg__split_image *f, size_t i,
                              pg_err *err)
{
    pg_status st = PG_OK;
    pg__str head = {0};
    uint64_t off = 0;
    const pg_weight *w = &z->s->v[i].w;
    PG_TRY(
        pg__npy_add_header(&head, w->dtype, z->s->v[i].big_endian, w->rank, w->dims, 64, 0, err));
    PG_TRY(pg__zip_out_begin(zip, z->members.v[i], head.n + w->n_bytes, 1, &off, err));
    PG_TRY(pg__sink_write(f->sink, off, head.s, head.n, err));
    uint32_t crc = pg__crc32(0, head.s, head.n);
    if (!z->s->o->write.dry_run)
        PG_TRY(pg__split_put_tensor(z->s, f, i, off + head.n, &crc, err));
    PG_TRY(pg__zip_out_end(zip, crc, err));
done:
    pg__str_fini(&head);
    return st;
}

static pg_status fill(pg__split *s, pg__split_image *f, void *ctx, pg_err *err)
{
    pg_status st = PG_OK;
    const npz *z = ctx;
    pg__zip_out *zip = NULL;
    PG_TRY(pg__zip_out_new(&zip, f->sink, err));
    for (size_t i = 0; i < s->n && (!f->old || f->same); i++)
        if (z->f.shard[i] == z->shard)
            PG_TRY(write_member(z, zip, f, i, err));
    PG_TRY(pg__zip_out_finish(zip, err));
done:
    pg__zip_out_free(zip);
    return st;
}

static pg_status write_archive(npz *z, size_t shard, pg_err *err)
{
    uint32_t crc = 0;
    z->shard = shard;
    const pg_status st = pg__split_build(
        z->s, z->files.v[shard], pg__filling_count(&z->f, z->s->n, shard), fill, z, &crc, err);
    for (size_t i = 0; i < z->m.n_pieces; i++)
        if (z->f.shard[i] == shard)
            z->m.pieces[i].crc = crc;
    return st;
}

/* Made in memory without the tensors, to find out its size. */
static pg_status record_archive(npz *z, size_t shard, pg_err *err)
{
    pg_status st = PG_OK;
    pg__split_image f = {0};
    z->shard = shard;
    PG_TRY(pg__sink_open_memory(&f.sink, err));
    PG_TRY(fill(z->s, &f, z, err));
    PG_TRY(pg__split_file(z->s, z->files.v[shard], pg__filling_count(&z->f, z->s->n, shard),
                          pg__sink_size(f.sink), err));
done:
    pg__sink_close(f.sink);
    return st;
}

pg_status pg__split_npz(pg__split *s, pg_err *err)
{
    pg_status st = PG_OK;
    npz z = {.s = s};
    pg__str text = {0};
    PG_TRY(plan_all(&z, err));
    PG_TRY(pg__split_prepare(s, PG_MANIFEST, &z.files, s->n_bytes, err));
    for (size_t i = 0; i < z.f.n; i++) {
        st = s->o->write.dry_run ? record_archive(&z, i, err) : write_archive(&z, i, err);
        PG_TRY(st);
        s->rep.n_bytes += s->rep.files[s->rep.n_files - 1].n_bytes;
    }
    PG_TRY(pg__manifest_print(&text, &z.m, err));
    if (s->o->write.dry_run)
        PG_TRY(pg__split_file(s, PG_MANIFEST, z.m.n_tensors, text.n, err));
    else
        PG_TRY(pg__split_finish(s, PG_MANIFEST, &text, z.m.n_tensors, err));
done:
    pg__manifest_fini(&z.m);
    pg__filling_fini(&z.f);
    pg__strs_fini(&z.members);
    pg__strs_fini(&z.files);
    pg__str_fini(&text);
    return st;
}
