/* join.c - pg_join_file(): shards back into the file that was split.
 *
 * Names, headers and sizes of all shards are checked before the output is opened; their checksums
 * in the pass that copies, into the sink's temporary, which gets its name only if all were right.
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/shards.h"
#include "pg/shard.h"
#include "wrap/rewrite.h"

#define MAX_UP 16u /* folders between a shard and its manifest */

typedef struct join {
    const char *in, *out;
    const pg_join_opts *o;
    char *index; /* path of the manifest or index */
    pg__io *io;
    pg_shard_report rep;
} join;

static pg_status add_all(char ***list, size_t *n, const pg__strs *from, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < from->n && st == PG_OK; i++)
        st = pg__finding_add(list, n, from->v[i], err);
    return st;
}

static int ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Looks for `name` beside path and in the folders above. */
static pg_status find_above(char **out, const char *path, const char *name, unsigned up,
                            pg_err *err)
{
    pg_status st = PG_OK;
    pg__str at = {0};
    const char *slash = strrchr(path, '/');
    PG_TRY(pg__str_add(&at, slash ? path : ".",
                       slash ? (size_t)(slash - path) + (slash == path) : 1, err));
    for (unsigned k = 0; k <= up; k++) {
        pg__io *io = NULL;
        const size_t n = at.n;
        PG_TRY(pg__str_printf(&at, err, "/%s", name));
        st = pg__io_open(&io, at.s, err);
        pg__io_close(io);
        if (st == PG_OK) {
            *out = at.s;
            at.s = NULL;
            goto done;
        }
        at.n = n;
        at.s[n] = 0;
        PG_TRY(pg__str_puts(&at, "/..", err));
    }
    st = pg_fail_sys(err, PG_E_IO, ENOENT, "no %s beside it", name);
    pg_err_prefix(err, PG_SHOW(path));
done:
    pg__str_fini(&at);
    return st;
}

/* The index that belongs to what the user named: a folder, an index, or a shard. */
static pg_status find_index(join *j, pg_err *err)
{
    pg_err e = {0};
    pg_status st = pg__io_open(&j->io, j->in, &e);
    if (st == PG_E_IO && e.sys == EISDIR) {
        st = pg__folder_index(&j->index, j->in, err);
    } else if (st != PG_OK) {
        if (err)
            *err = e;
    } else if (ends_with(j->in, ".npy") || ends_with(j->in, ".npz")) {
        st = find_above(&j->index, j->in, PG_MANIFEST, ends_with(j->in, ".npy") ? MAX_UP : 0, err);
    } else {
        j->index = pg__mem_strdup(j->in);
        st = j->index ? PG_OK : pg__nomem(err);
    }
    pg__io_close(j->io);
    j->io = NULL;
    return st == PG_OK ? pg__io_open(&j->io, j->index, err) : st;
}

static pg__sink_opts sink_opts(const join *j)
{
    return (pg__sink_opts){.force = j->o->write.force,
                           .no_sync = j->o->write.no_sync,
                           .cancel = j->o->write.cancel,
                           .input = j->io};
}

/* ---- from a manifest -------------------------------------------------------------------------
 */

static pg_status count(join *j, const pg__manifest *m, pg_err *err)
{
    for (size_t i = 0; i < m->n_weights + m->n_state; i++) {
        const pg__shard_tensor *t = &m->tensors[i];
        if (__builtin_add_overflow(j->rep.n_bytes, t->n_bytes, &j->rep.n_bytes))
            return pg_fail(err, PG_E_LIMIT, "the tensors are too large together");
        j->rep.n_params += t->n_bytes / pg_dtype_bytes(t->dtype);
    }
    j->rep.n_layers = m->layers.n;
    j->rep.n_tensors = m->n_weights;
    j->rep.n_state = m->n_state;
    return PG_OK;
}

static const pg__format *format_of(const pg__manifest *m)
{
    static const struct {
        const char *word;
        const pg__format *f;
    } known[] = {{"keras-h5-weights", &pg__fmt_keras_h5}, {"keras-h5-model", &pg__fmt_keras_h5},
                 {"keras-weights-h5", &pg__fmt_keras_v3}, {"keras-zip", &pg__fmt_keras_zip},
                 {"safetensors", &pg__fmt_safetensors},   {"pytorch-zip", &pg__fmt_safetensors}};
    for (size_t i = 0; m->source_format && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].word, m->source_format) == 0)
            return known[i].f;
    return m->n_objects ? &pg__fmt_keras_h5 : &pg__fmt_safetensors;
}

/* The written file must open as what it is and list what the manifest lists. */
static pg_status prove(pg__sink *sink, const pg__format *f, const pg__manifest *m, pg_err *err)
{
    static const pg_open_opts opts = {0};
    pg_status st = PG_OK;
    pg__io *io = NULL;
    pg_store *s = NULL;
    PG_TRY(pg__sink_reopen(sink, &io, err));
    PG_TRY(f->open(&s, io, NULL, &opts, err));
    if (pg_store_n_weights(s) != m->n_weights || pg_store_n_state(s) != m->n_state)
        PG_FAIL(PG_E_IO, "%zu tensors read back, %zu were to be written; nothing written",
                pg__store_n_tensors(s), m->n_weights + m->n_state);
    for (size_t i = 0; i < m->n_weights + m->n_state; i++) {
        const pg_weight *w = pg__store_tensor(s, i);
        const pg__shard_tensor *t = &m->tensors[i];
        if (strcmp(w->name, t->name) != 0 || w->dtype != t->dtype || w->n_bytes != t->n_bytes)
            PG_FAIL(PG_E_IO, "%s: read back differently; nothing written", PG_SHOW(t->name));
    }
done:
    pg_store_close(s);
    pg__io_close(io);
    return st;
}

/* Writes a flat format through its own writer; the store copies with checksums. */
static pg_status write_flat(pg__sink *sink, const pg__format *f, pg_store *s, pg_err *err)
{
    pg__plan plan = {.src = s};
    pg_status st = pg__plan_copy_of(&plan, s, err);
    if (st == PG_OK)
        st = f->write(sink, &plan, err);
    pg__plan_fini(&plan);
    return st;
}

static pg_status check_sums(join *j, const pg__shards *s, pg_err *err)
{
    const pg__strs *bad = pg__shards_damages(s);
    j->rep.n_verified = pg__shards_n_verified(s);
    if (bad->n == 0)
        return PG_OK;
    const pg_status st = add_all(&j->rep.damaged, &j->rep.n_damaged, bad, err);
    return st != PG_OK ? st
                       : pg_fail(err, PG_E_FORMAT, "%s: %zu of %zu shards damaged; nothing written",
                                 PG_SHOW(j->in), bad->n, pg__shards_n_files(s));
}

static pg_status write_manifest(join *j, pg__shards *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__sink *sink = NULL;
    pg_store *store = NULL; /* owns s */
    const pg__manifest *m = pg__shards_manifest(s);
    const pg__format *f = format_of(m);
    const pg__sink_opts o = sink_opts(j);
    st = count(j, m, err);
    if (st == PG_OK)
        st = pg__shards_store(&store, s, err);
    if (st != PG_OK) {
        pg__shards_close(s);
        return st;
    }
    if (j->o->write.dry_run) {
        if (j->out)
            PG_TRY(pg__sink_check(j->out, &o, err));
        goto done;
    }
    PG_TRY(pg__sink_open(&sink, j->out, &o, err));
    if (m->n_objects)
        st = pg__shards_write_tree(s, sink, j->o->only != NULL, &j->rep.n_chunked_lists, err);
    else
        st = write_flat(sink, f, store, err);
    PG_TRY(st);
    PG_TRY(check_sums(j, s, err));
    if (!j->o->write.skip_verify)
        PG_TRY(prove(sink, f, m, err));
    PG_TRY(pg__sink_commit(sink, err));
done:
    pg__sink_close(sink);
    pg_store_close(store);
    return st;
}

static pg_status join_manifest(join *j, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shards *s = NULL;
    pg__shard_faults faults = {0};
    st = pg__shards_open(&s, j->io, j->index, j->o->only, &faults, err);
    if (st == PG_OK) {
        st = write_manifest(j, s, err);
        goto done;
    }
    if (faults.missing.n + faults.damaged.n) {
        PG_TRY(add_all(&j->rep.missing, &j->rep.n_missing, &faults.missing, NULL));
        PG_TRY(add_all(&j->rep.damaged, &j->rep.n_damaged, &faults.damaged, NULL));
        st = PG_E_FORMAT;
        if (err)
            (void)snprintf(err->msg + strlen(err->msg), sizeof err->msg - strlen(err->msg), "%s",
                           "; nothing written");
        pg_err_hint(err, "copy these files again, or leave their tensors out: pgjoin --only GLOB");
    }
    pg_err_prefix(err, PG_SHOW(j->in));
done:
    pg__shard_faults_fini(&faults);
    return st;
}

pg_status pg_join_file(const char *in, const char *out, const pg_join_opts *opts,
                       pg_shard_report *report, pg_err *err)
{
    static const pg_join_opts defaults = {0};
    pg_status st = PG_OK;
    join j = {.in = in, .out = out, .o = opts ? opts : &defaults};
    if (!in || (!out && !j.o->write.dry_run))
        return pg_fail(err, PG_E_ARG, "an input and an output are needed");
    PG_TRY(find_index(&j, err));
    PG_TRY(join_manifest(&j, err));
done:
    if (report) {
        *report = j.rep;
        j.rep = (pg_shard_report){0};
    }
    pg_shard_report_fini(&j.rep);
    pg__io_close(j.io);
    pg__mem_free(j.index);
    return st;
}
