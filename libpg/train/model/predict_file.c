/* predict_file.c - predictions in NumPy's formats: one array as .npy, any number as .npz. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/npy.h"
#include "io/zip.h"
#include "train/step/step.h"

#define ALIGN 64 /* of the data, as in numpy */

typedef struct member {
    uint64_t data_off, row_bytes;
    uint32_t crc; /* of the data so far; rows come in order */
} member;

typedef struct target {
    const char *path;
    pg__sink *sink;
    pg__zip_out *zip; /* NULL: a plain .npy */
    member *members;
    size_t n;
} target;

static int ends_with(const char *path, const char *suffix)
{
    const size_t n = strlen(path), k = strlen(suffix);
    return n > k && strcmp(path + n - k, suffix) == 0;
}

/* Begins and ends a member at once: its size is known, and its CRC is filled in at the end. */
static pg_status begin_array(target *to, member *m, size_t k, const pg_weight *w, pg_err *err)
{
    pg__str head = {0};
    char name[32];
    uint64_t at = 0;
    pg_status st = PG_OK;
    (void)snprintf(name, sizeof name, "y%zu.npy", k);
    PG_TRY(pg__npy_add_header(&head, w->dtype, 0, w->rank, w->dims, ALIGN, 0, err));
    if (to->zip) {
        PG_TRY(pg__zip_out_begin(to->zip, name, head.n + w->n_bytes, ALIGN, &at, err));
        PG_TRY(pg__zip_out_end(to->zip, 0, err));
    }
    PG_TRY(pg__sink_write(to->sink, at, head.s, head.n, err));
    m->crc = pg__crc32(0, head.s, head.n);
    m->data_off = at + head.n;
    m->row_bytes = w->dims[0] > 0 ? w->n_bytes / w->dims[0] : 0;
done:
    pg__str_fini(&head);
    return st;
}

static pg_status begin(void *user, const pg_weight *outputs, size_t n, pg_err *err)
{
    target *to = user;
    pg_status st = PG_OK;
    to->n = n;
    to->members = pg__mem_array(n, sizeof *to->members);
    if (!to->members)
        return pg__nomem(err);
    for (size_t k = 0; k < n; k++)
        PG_TRY(begin_array(to, &to->members[k], k, &outputs[k], err));
done:
    return st;
}

static pg_status add_rows(void *user, size_t output, uint64_t first, size_t n_rows,
                          const void *values, pg_err *err)
{
    target *to = user;
    member *m = &to->members[output];
    const size_t n = n_rows * (size_t)m->row_bytes;
    m->crc = pg__crc32(m->crc, values, n);
    return pg__sink_write(to->sink, m->data_off + first * m->row_bytes, values, n, err);
}

static pg_status finish(target *to, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; to->zip && k < to->n; k++)
        PG_TRY(pg__zip_out_correct(to->zip, k, to->members[k].crc, err));
    if (to->zip)
        PG_TRY(pg__zip_out_finish(to->zip, err));
    PG_TRY(pg__sink_commit(to->sink, err));
done:
    return st;
}

static pg_status check_name(const pg_trainer *t, const char *path, pg_err *err)
{
    if (!ends_with(path, ".npy") && !ends_with(path, ".npz"))
        return pg_fail(err, PG_E_ARG, "%s: predictions are written as .npy or .npz", PG_SHOW(path));
    if (t->net.n_outputs == 1 || ends_with(path, ".npz"))
        return PG_OK;
    (void)pg_fail(err, PG_E_ARG, "%s: the model has %zu outputs, a .npy holds one array",
                  PG_SHOW(path), t->net.n_outputs);
    pg_err_hint(err, "a name that ends with .npz");
    return PG_E_ARG;
}

static pg__sink_opts sink_opts(const pg_predict_opts *opts)
{
    return (pg__sink_opts){.force = opts && opts->force, .cancel = opts ? opts->cancel : NULL};
}

/* Rank 0 writes; if it cannot, all ranks fail. */
static pg_status open_target(target *to, pg_trainer *t, const pg_predict_opts *opts, pg_err *err)
{
    const pg__sink_opts sink = sink_opts(opts);
    pg_status st = PG_OK;
    PG_TRY(check_name(t, to->path, err));
    if (pg__rank_of(t->ranks) > 0)
        return PG_OK;
    PG_TRY(pg__sink_open(&to->sink, to->path, &sink, err));
    if (ends_with(to->path, ".npz"))
        PG_TRY(pg__zip_out_new(&to->zip, to->sink, err));
done:
    return st;
}

pg_status pg_predict_check_file(const pg_trainer *t, const char *path, const pg_predict_opts *opts,
                                pg_err *err)
{
    const pg__sink_opts sink = sink_opts(opts);
    const pg_status st = check_name(t, path, err);
    return st == PG_OK && pg__rank_of(t->ranks) == 0 ? pg__sink_check(path, &sink, err) : st;
}

pg_status pg_predict_file(pg_trainer *t, pg_data *data, const char *path,
                          const pg_predict_opts *opts, pg_err *err)
{
    target to = {.path = path};
    const pg_predictions predictions = {.user = &to, .begin = begin, .rows = add_rows};
    pg_status st = PG_OK;
    PG_TRY(pg__ranks_agree(t->ranks, open_target(&to, t, opts, err), err));
    PG_TRY(pg_predict(t, data, opts, &predictions, err));
    if (pg__rank_of(t->ranks) == 0)
        PG_TRY(finish(&to, err));
done:
    pg__zip_out_free(to.zip);
    pg__sink_close(to.sink);
    pg__mem_free(to.members);
    return st;
}
