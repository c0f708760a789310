/* fmt_pytorch.c - reads files of torch.save(): a pickle that describes tensors, and their storages
 * beside it. The pickle is read as data (pickle.h); none of it is executed.
 *
 *   ZIP      torch >= 1.6: NAME/data.pkl, NAME/data/0 ...; with code/ it is TorchScript
 *   stream   torch < 1.6: pickles of a magic number, a version, the system, the object, the keys of
 *            its storages; then each storage with its number of elements (torch/serialization.py)
 *   pickle   not from torch: dictionaries of NumPy arrays, as published by Detectron
 *   tar      torch < 0.1.10: sys_info, pickle, storages, tensors; not read
 *
 * libpg does not write this format: safetensors holds the same and needs no trust. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "format/identify.h"
#include "format/pytorch_file.h"
#include "format/pytorch_impl.h"
#include "format/ranks.h"

#define TAR_BYTES 512u

/* First members of the old tar files. */
static int is_tar_name(const uint8_t *head, size_t n)
{
    static const char *const names[] = {"sys_info", "pickle", "storages", "tensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (n > strlen(names[i]) && memcmp(head, names[i], strlen(names[i]) + 1) == 0)
            return 1;
    return 0;
}

/* Protocols 2 to 5, beginning with a container or a frame. */
static int is_pickle(const uint8_t *head, size_t n)
{
    return n > 3 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 &&
           strchr("}(]c\x95", head[2]) != NULL && head[2] != 0;
}

static int probe(const uint8_t *head, size_t n)
{
    return is_pickle(head, n) || (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) ||
           pg__pt_is_stream(head, n) || is_tar_name(head, n);
}

void pg__pt_source_fini(pg__pt_source *f)
{
    pg__zip_close(f->zip);
    pg__mem_free(f->text);
    pg__str_fini(&f->root);
    pg__pickle_fini(&f->pickle);
    pg__pt_tree_fini(&f->tree);
    pg__mem_free(f->where);
    pg__mem_free(f->inside);
    pg__mem_free(f->cuts);
}

/* ---- ZIP ---- */

/* Does it belong to what TorchScript keeps beside the pickle? The root's own name means nothing: it
 * is the file name at the time of saving. */
static int is_code(const char *name, const pg__str *root)
{
    if (strncmp(name, root->s, root->n) != 0)
        return 0;
    name += root->n;
    return strncmp(name, "code/", 5) == 0 || strcmp(name, "constants.pkl") == 0;
}

static int is_pickle_member(const char *name)
{
    const size_t n = strlen(name);
    return strcmp(name, "data.pkl") == 0 || (n > 9 && strcmp(name + n - 9, "/data.pkl") == 0);
}

/* The member that holds the pickle, and the folder that it shares with the others. */
static pg_status find_pickle(pg__pt_source *f, size_t *member, pg_err *err)
{
    size_t n = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < pg__zip_n(f->zip); i++) {
        if (!is_pickle_member(pg__zip_at(f->zip, i)->name))
            continue;
        *member = i;
        n++;
    }
    if (n == 0)
        return pg_fail(err, PG_E_UNKNOWN, "a ZIP archive, but not one of PyTorch");
    if (n > 1)
        return pg_fail(err, PG_E_FORMAT, "%zu members called data.pkl", n);
    const char *name = pg__zip_at(f->zip, *member)->name;
    PG_TRY(pg__str_add(&f->root, name, strlen(name) - strlen("data.pkl"), err));
    for (size_t i = 0; i < pg__zip_n(f->zip); i++)
        if (is_code(pg__zip_at(f->zip, i)->name, &f->root))
            return pg__fail_pickle("a TorchScript program", err);
done:
    return st;
}

static pg_status check_byte_order(pg__pt_source *f, pg_err *err)
{
    const size_t n = f->root.n;
    char *order = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(&f->root, "byteorder", err));
    const size_t i = pg__zip_find(f->zip, f->root.s);
    f->root.n = n;
    f->root.s[n] = 0;
    if (i == SIZE_MAX) /* before torch 2.1 */
        return PG_OK;
    PG_TRY(pg__zip_load(f->zip, i, 16, &order, NULL, err));
    if (strcmp(order, "big") == 0)
        PG_FAIL(PG_E_UNSUPPORTED,
                "written on a big-endian machine; load and save it again on another one");
    if (strcmp(order, "little") != 0)
        PG_FAIL(PG_E_FORMAT, "byteorder: neither little nor big");
done:
    pg__mem_free(order);
    return st;
}

/* The member that holds the storage of a tensor. */
static pg_status find_member(uint64_t *where, pg__pt_source *f, const void *ctx,
                             const pg__pt_tensor *t, const char *name, pg_err *err)
{
    const size_t n = f->root.n;
    pg_status st = PG_OK;
    char shown[80];
    (void)ctx;
    PG_TRY(pg__str_puts(&f->root, "data/", err));
    PG_TRY(pg__str_add(&f->root, t->storage.key, t->storage.n_key, err));
    const size_t m =
        memchr(t->storage.key, 0, t->storage.n_key) ? SIZE_MAX : pg__zip_find(f->zip, f->root.s);
    if (m == SIZE_MAX)
        PG_FAIL(PG_E_FORMAT, "%s: its data (data/%s) is not in the archive", PG_SHOW(name),
                pg__printable(shown, sizeof shown, t->storage.key, t->storage.n_key));
    if (pg__zip_at(f->zip, m)->n != t->storage.n * t->storage.size)
        PG_FAIL(PG_E_FORMAT, "%s: its data has %s bytes, the pickle says %s", PG_SHOW(name),
                PG_NUM(pg__zip_at(f->zip, m)->n), PG_NUM(t->storage.n * t->storage.size));
    *where = m;
done:
    f->root.n = n;
    return st;
}

pg_status pg__pt_read_zip(pg__pt_source *f, pg_err *err)
{
    size_t member = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__zip_open(&f->zip, f->io, err));
    PG_TRY(find_pickle(f, &member, err));
    PG_TRY(check_byte_order(f, err));
    PG_TRY(pg__zip_load(f->zip, member, PG_LIMIT_PICKLE_BYTES, &f->text, &f->n_text, err));
    PG_TRY(pg__pickle_read(&f->pickle, f->text, f->n_text, pg__pt_globals, NULL, NULL, err));
done:
    return st;
}

pg_status pg__pt_zip_store(pg_store **out, pg__pt_source *f, const pg_open_opts *opts, pg_err *err)
{
    const pg_status st = pg__pt_read_tree(f, opts, err);
    return st == PG_OK ? pg__pt_make_store(out, f, "pytorch-zip", find_member, NULL, err) : st;
}

/* path: where the files of other ranks may be; NULL: nowhere. */
static pg_status open_zip(pg_store **out, pg__pt_source *f, const char *path,
                          const pg_open_opts *opts, pg_err *err)
{
    const pg_status st = pg__pt_read_zip(f, err);
    if (st != PG_OK)
        return st;
    return path && pg__ranks_is_one(&f->pickle) ? pg__ranks_open(out, f, path, opts, err)
                                                : pg__pt_zip_store(out, f, opts, err);
}

/* ---- a pickle alone ---- */

static pg_status find_nothing(uint64_t *where, pg__pt_source *f, const void *ctx,
                              const pg__pt_tensor *t, const char *name, pg_err *err)
{
    (void)where, (void)f, (void)ctx, (void)t;
    return pg_fail(err, PG_E_FORMAT, "%s: its data is not in the file", PG_SHOW(name));
}

static int holds_arrays(const pg__pickle *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (pg__pt_is_tensor(p, &p->v[i]))
            return 1;
    return 0;
}

/* If it holds no array, identify.c names it. */
static pg_status open_pickle(pg_store **out, pg__pt_source *f, const pg_open_opts *opts,
                             pg_err *err)
{
    const uint64_t n = pg__io_size(f->io);
    pg_status st = PG_OK;
    if (n > PG_LIMIT_PICKLE_BYTES)
        return pg_fail(err, PG_E_LIMIT, "a pickle of more than %s bytes",
                       PG_NUM(PG_LIMIT_PICKLE_BYTES));
    f->n_text = (size_t)n;
    f->text = pg__mem_array(f->n_text, 1);
    if (!f->text)
        return pg__nomem(err);
    PG_TRY(pg__io_read(f->io, 0, f->text, f->n_text, err));
    if (pg__pickle_read(&f->pickle, f->text, f->n_text, pg__pt_globals, NULL, NULL, NULL) != PG_OK)
        return pg_fail(err, PG_E_UNKNOWN, "a pickle that is not read");
    st = pg__pt_read_tree(f, opts, err);
    if ((st == PG_E_UNSUPPORTED && !f->pickle.n_foreign && !holds_arrays(&f->pickle)) ||
        (st == PG_OK && f->tree.n == 0))
        return pg_fail(err, PG_E_UNKNOWN, "a pickle without arrays");
    PG_TRY(st);
    PG_TRY(pg__pt_make_store(out, f, "pickle", find_nothing, NULL, err));
done:
    return st;
}

/* ---- */

static pg_status open_pytorch(pg_store **out, pg__io *io, const char *path,
                              const pg_open_opts *opts, pg_err *err)
{
    unsigned char head[TAR_BYTES] = {0};
    const size_t n = pg__io_size(io) < TAR_BYTES ? (size_t)pg__io_size(io) : TAR_BYTES;
    pg__pt_source f = {.io = io};
    pg_status st = pg__io_read(io, 0, head, n, err);
    if (st != PG_OK)
        return st;
    if (is_tar_name(head, n)) {
        if (memcmp(head + 257, "ustar", 5) != 0)
            return pg_fail(err, PG_E_UNKNOWN, "not a tar archive");
        return pg__fail_pickle("a PyTorch pickle (tar archive, torch before 0.1.10)", err);
    }
    if (pg__pt_is_stream(head, n))
        st = pg__pt_open_stream(out, &f, opts, err);
    else if (is_pickle(head, n))
        st = open_pickle(out, &f, opts, err);
    else
        st = open_zip(out, &f, path, opts, err);
    pg__pt_source_fini(&f);
    return st;
}

const pg__format pg__fmt_pytorch = {
    .name = "pytorch-zip",
    .words = "pytorch-zip\0pytorch-stream\0pickle\0",
    .probe = probe,
    .open = open_pytorch,
    .suffixes = ".pt\0.pth\0.pth.tar\0.bin\0.ckpt\0",
    .has_parts = 1,
};
