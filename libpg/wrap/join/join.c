/* join.c - pg_join_file(): restores the file that was split. It checks names, headers and sizes of
 * all shards before it opens the output, and their checksums while it copies into the sink's
 * temporary file, which gets its name only if all are right. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "format/shards.h"
#include "format/st_cut.h"
#include "wrap/join/join.h"

static pg_status add_all(char ***list, size_t *n, const pg__strs *from, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < from->n && st == PG_OK; i++)
        st = pg__finding_add(list, n, from->v[i], err);
    return st;
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
        pg_err why = {0};
        const size_t n = at.n;
        PG_TRY(pg__str_printf(&at, err, "/%s", name));
        st = pg__io_open(&io, at.s, &why);
        pg__io_close(io);
        if (st == PG_OK) {
            *out = at.s;
            at.s = NULL;
            goto done;
        }
        if (why.sys != ENOENT && why.sys != ENOTDIR) { /* it may exist */
            if (err)
                *err = why;
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

/* Finds the index for the user's operand: a folder, an index, or a shard. */
static pg_status find_index(pg__join *j, pg_err *err)
{
    pg_status st = pg__index_of(&j->index, j->in, err);
    if (st == PG_OK && !j->index)
        st = pg__io_open(&j->io, j->in, err);
    if (st != PG_OK || j->index) {
        /* a folder, a part of a checkpoint, or an error */
    } else if (pg__ends_with(j->in, ".npy") || pg__ends_with(j->in, ".npz")) {
        st = find_above(&j->index, j->in, PG_MANIFEST,
                        pg__ends_with(j->in, ".npy") ? PG_LIMIT_SHARD_DEPTH : 0, err);
    } else {
        j->index = pg__mem_strdup(j->in);
        st = j->index ? PG_OK : pg__nomem(err);
    }
    pg__io_close(j->io);
    j->io = NULL;
    return st == PG_OK ? pg__io_open(&j->io, j->index, err) : st;
}

static pg_status read_head(char head[512], pg__io *io, pg_err *err)
{
    const uint64_t n = pg__io_size(io);
    memset(head, 0, 512);
    const pg_status st = pg__io_read(io, 0, head, n < 511 ? (size_t)n : 511, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(pg__io_name(io)));
    return st;
}

/* Not by "layers" alone: a tree of Orbax may have that key. */
static pg_status is_manifest(int *is, pg__io *io, pg_err *err)
{
    char head[512];
    const pg_status st = read_head(head, io, err);
    *is = pg__manifest_is_side(head) || strstr(head, "\"source_format\"") ||
          strstr(head, "\"format\": \"np") ||
          (strstr(head, "\"layers\"") && !strstr(head, "\"tree_metadata\""));
    return st;
}

/* Takes over both. */
static void use_index(pg__join *j, char **path, pg__io **io)
{
    pg__mem_free(j->index);
    pg__io_close(j->io);
    j->index = *path;
    j->io = *io;
    *path = NULL;
    *io = NULL;
}

/* The index of a shard by its name: "model-00002-of-00003.safetensors", "model_00001.weights.h5".
 */
static pg_status find_shard_index(pg__join *j, pg_err *err)
{
    static const char st_end[] = ".safetensors", h5_end[] = ".weights.h5";
    const char *slash = strrchr(j->in, '/'), *name = slash ? slash + 1 : j->in;
    const size_t n = strlen(name);
    pg_status st = PG_OK;
    pg__str index = {0};
    pg__io *io = NULL;
    char *path = NULL;
    pg_err why = {0};
    const int keras = pg__ends_with(name, h5_end) && n > 17 && name[n - 17] == '_' &&
                      strspn(name + n - 16, "0123456789") == 5;
    if (pg__st_cut_by_name(name) == 1)
        goto done; /* a rank's, which has no index */
    if (pg__ends_with(name, st_end) && n > 27 && strncmp(name + n - 21, "-of-", 4) == 0)
        PG_TRY(pg__str_printf(&index, err, "%.*s%s.index.json", (int)(n - 27), name, st_end));
    else if (keras)
        PG_TRY(pg__str_printf(&index, err, "%.*s.weights.json", (int)(n - 17), name));
    else
        goto done;
    st = find_above(&path, j->in, index.s, 0, &why);
    if (st != PG_OK && !(keras && why.sys == ENOENT)) /* perhaps only the name looks so: opening it
                                                         decides */
        PG_TRY(pg__fail_as(err, &why));
    st = PG_OK;
    if (!path)
        goto done;
    PG_TRY(pg__io_open(&io, path, err));
    use_index(j, &path, &io);
done:
    pg__mem_free(path);
    pg__str_fini(&index);
    return st;
}

/* The manifest beside an index of safetensors or Keras' shards says more than the index. */
static pg_status prefer_manifest(pg__join *j, pg_err *err)
{
    pg_status st = PG_OK;
    char *path = NULL, head[512];
    pg__io *io = NULL;
    pg_err why = {0};
    if (!pg__ends_with(j->index, ".safetensors.index.json") &&
        !pg__ends_with(j->index, ".weights.json"))
        return PG_OK;
    st = find_above(&path, j->index, PG_MANIFEST, 0, &why);
    if (st != PG_OK && why.sys == ENOENT)
        return PG_OK; /* written by another program */
    if (st != PG_OK)
        return pg__fail_as(err, &why);
    PG_TRY(pg__io_open(&io, path, err));
    PG_TRY(read_head(head, io, err));
    if (pg__manifest_is_side(head))
        use_index(j, &path, &io);
done:
    pg__mem_free(path);
    pg__io_close(io);
    return st;
}

pg__sink_opts pg__join_sink(const pg__join *j)
{
    return (pg__sink_opts){.force = j->o->write.force,
                           .no_sync = j->o->write.no_sync,
                           .cancel = j->o->write.cancel,
                           .progress = j->o->write.progress,
                           .input = j->io};
}

/* ---- from a manifest -------------------------------------------------------------------------
 */

static pg_status count(pg__join *j, const pg__manifest *m, pg_err *err)
{
    for (size_t i = 0; i < m->n_weights + m->n_state; i++) {
        const pg__shard_tensor *t = &m->tensors[i];
        if (__builtin_add_overflow(j->rep.n_bytes, t->n_bytes, &j->rep.n_bytes))
            return pg_fail(err, PG_E_LIMIT, "the tensors are too large together");
        if (t->role == PG_ROLE_WEIGHT)
            j->rep.n_params += t->n_bytes / pg_dtype_bytes(t->dtype);
    }
    j->rep.n_layers = m->layers.n;
    j->rep.n_tensors = m->n_weights;
    j->rep.n_state = m->n_state;
    j->rep.n_written = m->n_tensors; /* others beside the model among them */
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

/* 1 if the output's name asks for the format of the shards instead of that of the file that was
 * split: one safetensors file from a Keras file's shards, one .weights.h5 from those of a .keras
 * archive. */
static int wants_plain(const pg__join *j, const pg__manifest *m)
{
    const pg__format *f = format_of(m);
    if (!j->out)
        return 0;
    return strcmp(m->format, "safetensors") == 0
               ? f != &pg__fmt_safetensors && pg__ends_with(j->out, ".safetensors")
               : strcmp(m->format, "keras") == 0 && f == &pg__fmt_keras_zip &&
                     !pg__ends_with(j->out, ".keras");
}

/* To the index beside the manifest. */
static pg_status use_plain_index(pg__join *j, int keras, pg_err *err)
{
    pg_status st = PG_OK;
    char *path = NULL;
    pg__io *io = NULL;
    PG_TRY(find_above(&path, j->index,
                      keras ? "model.weights.json" : "model.safetensors.index.json", 0, err));
    PG_TRY(pg__io_open(&io, path, err));
    use_index(j, &path, &io);
done:
    pg__mem_free(path);
    return st;
}

/* The written file must open in its format and list the tensors of the manifest. */
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

static pg_status check_sums(pg__join *j, const pg__shards *s, pg_err *err)
{
    const pg__strs *bad = pg__shards_damages(s);
    j->rep.n_verified = pg__shards_n_verified(s);
    if (bad->n == 0)
        return PG_OK;
    const pg_status st = add_all(&j->rep.damaged, &j->rep.n_damaged, bad, err);
    if (st != PG_OK)
        return st;
    (void)pg_fail(err, PG_E_FORMAT, "%s: %zu of %zu shards damaged; nothing written",
                  PG_SHOW(j->in), bad->n, pg__shards_n_files(s));
    pg_err_do(err, PG_DO_LEAVE_OUT, NULL);
    return PG_E_FORMAT;
}

/* Checks the sums of whole shards, for a join by their own index. */
static pg_status check_shards(pg__join *j, pg__shards *s, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__shards_check_archives(s, err));
    PG_TRY(check_sums(j, s, err));
    PG_TRY(use_plain_index(j, strcmp(pg__shards_manifest(s)->format, "keras") == 0, err));
done:
    pg__shards_close(s);
    return st;
}

static pg_status write_manifest(pg__join *j, pg__shards *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__sink *sink = NULL;
    pg_store *store = NULL; /* owns s */
    const pg__manifest *m = pg__shards_manifest(s);
    const pg__format *f = format_of(m);
    const pg__sink_opts o = pg__join_sink(j);
    st = count(j, m, err);
    if (st == PG_OK)
        st = pg__shards_store(&store, s, err);
    if (st != PG_OK) {
        pg__shards_close(s);
        return st;
    }
    PG_TRY(pg__shards_check_archives(s, err));
    PG_TRY(check_sums(j, s, err));
    if (j->o->write.dry_run) {
        if (j->out)
            PG_TRY(pg__sink_check(j->out, &o, err));
        goto done;
    }
    pg__progress_start(o.progress, j->rep.n_bytes);
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

/* What can be asked for only where tensors have no container of their own. */
static pg_status refuse_options(const pg__join *j, pg_err *err)
{
    if (j->o->dtype)
        return pg_fail(err, PG_E_ARG, "%s: shards of a split model keep their types",
                       PG_SHOW(j->in));
    return pg_fail(err, PG_E_ARG, "%s: joined into one file, not into a folder", PG_SHOW(j->in));
}

/* *plain: everything was checked; join by the shards' own index. */
static pg_status join_manifest(pg__join *j, int *plain, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shards *s = NULL;
    pg__shard_faults faults = {.cancel = j->o->write.cancel};
    st = pg__shards_open(&s, j->io, j->index, j->o->only, &faults, err);
    if (st == PG_OK) {
        *plain = wants_plain(j, pg__shards_manifest(s));
        if (j->o->dtype || pg__join_to_folder(j)) {
            pg__shards_close(s);
            st = refuse_options(j, err);
        } else {
            st = *plain ? check_shards(j, s, err) : write_manifest(j, s, err);
        }
        goto done;
    }
    if (st == PG_E_FORMAT && faults.missing.n + faults.damaged.n) {
        PG_TRY(add_all(&j->rep.missing, &j->rep.n_missing, &faults.missing, NULL));
        PG_TRY(add_all(&j->rep.damaged, &j->rep.n_damaged, &faults.damaged, NULL));
        st = PG_E_FORMAT;
        if (err)
            (void)snprintf(err->msg + strlen(err->msg), sizeof err->msg - strlen(err->msg), "%s",
                           "; nothing written");
        pg_err_do(err, PG_DO_LEAVE_OUT, NULL);
    }
    pg_err_prefix(err, PG_SHOW(j->in));
done:
    pg__shard_faults_fini(&faults);
    return st;
}

/* ---- from an index of shards -----------------------------------------------------------------
 */

/* The index of a Keras shard that is open: its path becomes the input. */
static pg_status open_index_of(pg__join *j, pg_store **s, const char *index, pg_err *err)
{
    pg_status st = PG_OK;
    char *path = NULL;
    PG_TRY(find_above(&path, j->in, index, 0, err));
    pg__mem_free(j->index);
    j->index = path;
    pg_store_close(*s);
    *s = NULL;
    PG_TRY(pg_store_open(s, path, &(pg_open_opts){.n_threads = j->o->write.n_threads}, err));
done:
    return st;
}

/* Shards of Hugging Face and Keras have no checksums, so the output is read back and compared. */
static pg_status join_index(pg__join *j, pg_err *err)
{
    pg_status st = PG_OK;
    pg__plan plan = {0};
    pg_store *s = NULL;
    const pg_write_opts *w = &j->o->write;
    const pg_open_opts how = {.part = w->part, .rules = w->rules, .n_threads = w->n_threads};
    PG_TRY(pg_store_open(&s, j->index, &how, err));
    if (pg__format_of(s)->of_ranks) {
        pg_store_close(s); /* each may hold a file of every rank open */
        return pg__join_ranks(j, err);
    }
    int keras = strcmp(pg_store_format(s), "keras-sharded") == 0;
    if (pg__v3_shard_index(s)) { /* a shard alone */
        keras = 1;
        PG_TRY(open_index_of(j, &s, pg__v3_shard_index(s), err));
    } else if (!keras && strcmp(pg_store_format(s), "safetensors") != 0) {
        PG_FAIL(PG_E_ARG, "%s: a whole file, not a shard or an index", PG_SHOW(j->in));
    }
    if (keras && (j->o->dtype || pg__join_to_folder(j)))
        PG_TRY(refuse_options(j, err));
    PG_TRY(pg__plan_copy_of(&plan, s, err));
    PG_TRY(pg__join_plan(j, &plan, keras ? &pg__fmt_keras_v3 : &pg__fmt_safetensors, err));
done:
    pg__plan_fini(&plan);
    pg_store_close(s);
    return st;
}

pg_status pg_join_file(const char *in, const char *out, const pg_join_opts *opts,
                       pg_shard_report *report, pg_err *err)
{
    static const pg_join_opts defaults = {0};
    pg_status st = PG_OK;
    pg__join j = {.in = in, .out = out, .o = opts ? opts : &defaults};
    if (!in || (!out && !j.o->write.dry_run))
        return pg_fail(err, PG_E_ARG, "an input and an output are needed");
    PG_TRY(find_index(&j, err));
    PG_TRY(find_shard_index(&j, err));
    PG_TRY(prefer_manifest(&j, err));
    int plain = 1, is = 0;
    PG_TRY(is_manifest(&is, j.io, err));
    if (is)
        PG_TRY(join_manifest(&j, &plain, err));
    if (plain)
        PG_TRY(join_index(&j, err));
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
