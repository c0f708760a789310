/* fmt_pytorch.c - reads what torch.save() wrote: a pickle that describes tensors, and their
 * storages beside it. The pickle is read as data (pickle.h); nothing of it is executed.
 *
 *   ZIP      torch >= 1.6: NAME/data.pkl, NAME/data/0 ...; with code/ it is TorchScript
 *   stream   torch < 1.6: pickles of a magic number, a version, the system, the object, the keys of
 *            its storages; then each storage with its number of elements (torch/serialization.py)
 *   tar      torch < 0.1.10: sys_info, pickle, storages, tensors; not read
 *
 * Nothing is written in this format: safetensors holds the same and needs no trust. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/format.h"
#include "format/identify.h"
#include "format/pytorch.h"
#include "io/zip.h"

/* What libraries that read safetensors expect of a model from PyTorch. */
#define METADATA "{\"format\":\"pt\"}"

#define TAR_BYTES     512u
#define FIRST_LOOK    ((size_t)1 << 20) /* of a stream, whose pickle has no announced length */
#define STREAM_NUMBER 1001

static const unsigned char stream_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9};

/* A store of this format. */
typedef struct pytorch {
    pg__io *io;
    pg__zip *zip; /* NULL: a stream */
    pg__pt_tensor *list;
    uint64_t *where; /* by tensor: member of the archive, or offset in the stream */
    size_t n;
    pg__slab slab;
} pytorch;

/* What is open while a file is read. */
typedef struct source {
    pg__io *io;
    pg__zip *zip;
    char *text; /* of the pickle */
    size_t n_text;
    pg__str root; /* "NAME/" */
    pg__pickle pickle;
    pg__pt_tree tree;
    uint64_t *where;
} source;

/* First members of the old tar files. */
static int is_tar_name(const uint8_t *head, size_t n)
{
    static const char *const names[] = {"sys_info", "pickle", "storages", "tensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (n > strlen(names[i]) && memcmp(head, names[i], strlen(names[i]) + 1) == 0)
            return 1;
    return 0;
}

static int is_stream(const uint8_t *head, size_t n)
{
    return n >= sizeof stream_magic && memcmp(head, stream_magic, sizeof stream_magic) == 0;
}

static int probe(const uint8_t *head, size_t n)
{
    return (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) || is_stream(head, n) || is_tar_name(head, n);
}

/* ---- data ---- */

static void close_data(void *ctx)
{
    pytorch *t = ctx;
    pg__zip_close(t->zip);
    pg__io_close(t->io);
    pg__slab_fini(&t->slab);
    pg__mem_free(t->list);
    pg__mem_free(t->where);
    pg__mem_free(t);
}

static pg_status fetch(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const pytorch *t = ctx;
    if (t->zip)
        return pg__zip_read(t->zip, (size_t)t->where[tensor], off, buf, n, err);
    return pg__io_read(t->io, t->where[tensor] + off, buf, n, err);
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    pytorch *t = ctx;
    return pg__strided_read(&t->slab, &t->list[tensor].view, tensor, fetch, t, off, buf, n, err);
}

/* ---- the store ---- */

/* Elements may lie on top of each other (a stride of 0), but a small file must not become an
 * endless one: the bound is that of compressed data. */
static pg_status check_total(const source *f, const pg_store *s, pg_err *err)
{
    uint64_t total = 0, most = 0;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg__pt_tensor *t = &f->tree.list[i];
        const uint64_t n = pg_store_weight(s, i)->n_bytes, stored = t->storage.n * t->storage.size;
        if (n > PG_LIMIT_DEFLATE_SLACK && n / PG_LIMIT_DEFLATE_RATIO > stored)
            return pg_fail(err, PG_E_LIMIT, "%s: %s bytes are made of the %s that are stored",
                           PG_SHOW(pg_store_weight(s, i)->name), PG_NUM(n), PG_NUM(stored));
        if (__builtin_add_overflow(total, n, &total))
            total = UINT64_MAX;
    }
    if (__builtin_mul_overflow(pg__io_size(f->io), (uint64_t)PG_LIMIT_DEFLATE_RATIO, &most))
        most = UINT64_MAX;
    if (total > most)
        return pg_fail(err, PG_E_LIMIT, "%s bytes of tensors are made of a file of %s",
                       PG_NUM(total), PG_NUM(pg__io_size(f->io)));
    return PG_OK;
}

/* Makes the store; what f holds goes into it. */
static pg_status make_store(pg_store **out, source *f, const char *format, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    pytorch *t = pg__mem_array(1, sizeof *t);
    if (!t)
        return pg__nomem(err);
    PG_TRY(pg__store_new(&s, format, NULL, NULL, err));
    for (size_t i = 0; i < f->tree.n; i++) {
        const pg__pt_tensor *x = &f->tree.list[i];
        const pg__tensor_desc d = {.name = f->tree.names.s + x->name,
                                   .dtype = x->dtype,
                                   .rank = x->view.rank,
                                   .dims = x->view.dims};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    PG_TRY(check_total(f, s, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, strlen(METADATA), err));
    if (f->tree.others.n)
        PG_TRY(pg__store_set_others(s, f->tree.others.s, err));
    *t = (pytorch){.io = pg__io_ref(f->io),
                   .zip = f->zip,
                   .list = f->tree.list,
                   .where = f->where,
                   .n = f->tree.n};
    f->zip = NULL;
    f->tree.list = NULL;
    f->where = NULL;
    pg__store_own(s, &data, t);
    t = NULL;
    *out = s;
    s = NULL;
done:
    pg__mem_free(t);
    pg_store_close(s);
    return st;
}

static void source_fini(source *f)
{
    pg__zip_close(f->zip);
    pg__mem_free(f->text);
    pg__str_fini(&f->root);
    pg__pickle_fini(&f->pickle);
    pg__pt_tree_fini(&f->tree);
    pg__mem_free(f->where);
}

static pg_status read_tree(source *f, pg_err *err)
{
    const pg_status st = pg__pt_tree_read(&f->tree, &f->pickle, err);
    if (st != PG_OK)
        return st;
    f->where = pg__mem_array(f->tree.n, sizeof *f->where);
    return f->where ? PG_OK : pg__nomem(err);
}

/* ---- ZIP ---- */

/* A component of a member's name, anywhere in it. */
static int has_component(const char *name, const char *component)
{
    const size_t n = strlen(component);
    for (const char *p = name; (p = strstr(p, component)) != NULL; p++)
        if ((p == name || p[-1] == '/') && (p[n] == 0 || p[n] == '/'))
            return 1;
    return 0;
}

static int is_pickle_member(const char *name)
{
    const size_t n = strlen(name);
    return strcmp(name, "data.pkl") == 0 || (n > 9 && strcmp(name + n - 9, "/data.pkl") == 0);
}

/* The pickle's member, and the folder that it shares with the others. */
static pg_status find_pickle(source *f, size_t *member, pg_err *err)
{
    size_t n = 0;
    int code = 0;
    for (size_t i = 0; i < pg__zip_n(f->zip); i++) {
        const char *name = pg__zip_at(f->zip, i)->name;
        code |= has_component(name, "code") || has_component(name, "constants.pkl");
        if (!is_pickle_member(name))
            continue;
        *member = i;
        n++;
    }
    if (n == 0)
        return pg_fail(err, PG_E_UNKNOWN, "a ZIP archive, but not one of PyTorch");
    if (code)
        return pg__fail_pickle("a TorchScript program", err);
    if (n > 1)
        return pg_fail(err, PG_E_FORMAT, "%zu members called data.pkl", n);
    const char *name = pg__zip_at(f->zip, *member)->name;
    return pg__str_add(&f->root, name, strlen(name) - strlen("data.pkl"), err);
}

static pg_status check_byte_order(source *f, pg_err *err)
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

/* The member that holds the storage of tensor i. */
static pg_status find_member(source *f, size_t i, pg_err *err)
{
    const pg__pt_tensor *t = &f->tree.list[i];
    const char *name = f->tree.names.s + t->name;
    const size_t n = f->root.n;
    pg_status st = PG_OK;
    char shown[80];
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
    f->where[i] = m;
done:
    f->root.n = n;
    return st;
}

static pg_status open_zip(pg_store **out, source *f, pg_err *err)
{
    size_t member = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__zip_open(&f->zip, f->io, err));
    PG_TRY(find_pickle(f, &member, err));
    PG_TRY(check_byte_order(f, err));
    PG_TRY(pg__zip_load(f->zip, member, PG_LIMIT_PICKLE_BYTES, &f->text, &f->n_text, err));
    PG_TRY(pg__pickle_read(&f->pickle, f->text, f->n_text, pg__pt_globals, NULL, NULL, err));
    PG_TRY(read_tree(f, err));
    for (size_t i = 0; i < f->tree.n; i++)
        PG_TRY(find_member(f, i, err));
    PG_TRY(make_store(out, f, "pytorch-zip", err));
done:
    return st;
}

/* ---- stream ---- */

/* The five pickles at the start, of which the fourth is the object. */
typedef struct stream {
    pg__pickle keys;
    uint64_t at; /* of the storages */
} stream;

static pg_status check_system(const pg__pickle *p, pg_err *err)
{
    const pg__pk_value *v = p->v[p->root].kind == PG_PK_DICT
                                ? pg__pickle_get(p, &p->v[p->root], "little_endian")
                                : NULL;
    if (v && v->kind == PG_PK_BOOL && !v->u.i)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "written on a big-endian machine; load and save it again on another one");
    return PG_OK;
}

static pg_status read_pickles(source *f, stream *s, int *cut, pg_err *err)
{
    enum { MAGIC, VERSION, SYSTEM, OBJECT, KEYS, N_PICKLES };
    pg__pickle p[N_PICKLES] = {{0}};
    pg_status st = PG_OK;
    s->at = 0;
    for (int i = 0; i < N_PICKLES; i++) {
        size_t used = 0;
        PG_TRY(pg__pickle_read(&p[i], f->text + s->at, f->n_text - (size_t)s->at, pg__pt_globals,
                               &used, cut, err));
        s->at += used;
    }
    const pg__pk_value *version = &p[VERSION].v[p[VERSION].root];
    if (version->kind != PG_PK_INT || version->u.i != STREAM_NUMBER)
        PG_FAIL(PG_E_UNSUPPORTED, "an unknown version of PyTorch's old format");
    PG_TRY(check_system(&p[SYSTEM], err));
    f->pickle = p[OBJECT];
    s->keys = p[KEYS];
    p[OBJECT] = p[KEYS] = (pg__pickle){0};
done:
    for (int i = 0; i < N_PICKLES; i++)
        pg__pickle_fini(&p[i]);
    return st;
}

/* How long the pickles are stands nowhere: more is loaded until they are whole. */
static pg_status load_pickles(source *f, stream *s, pg_err *err)
{
    const uint64_t size = pg__io_size(f->io);
    for (uint64_t n = FIRST_LOOK;; n *= 4) {
        int cut = 0;
        n = n < size ? n : size;
        if (n > PG_LIMIT_PICKLE_BYTES)
            return pg_fail(err, PG_E_LIMIT, "a pickle of more than %s bytes",
                           PG_NUM(PG_LIMIT_PICKLE_BYTES));
        pg__mem_free(f->text);
        f->n_text = (size_t)n;
        f->text = pg__mem_array(f->n_text, 1);
        if (!f->text)
            return pg__nomem(err);
        pg_status st = pg__io_read(f->io, 0, f->text, f->n_text, err);
        if (st == PG_OK)
            st = read_pickles(f, s, &cut, err);
        if (st != PG_OK && cut && n < size)
            continue;
        return st;
    }
}

/* A storage that the pickle names, and where it lies. */
typedef struct place {
    pg__pt_storage s;
    uint64_t off; /* UINT64_MAX: not there */
} place;

static int by_key(const void *a, const void *b)
{
    const pg__pt_storage *x = &((const place *)a)->s, *y = &((const place *)b)->s;
    const int c = memcmp(x->key, y->key, x->n_key < y->n_key ? x->n_key : y->n_key);
    return c ? c : (x->n_key > y->n_key) - (x->n_key < y->n_key);
}

/* All storages of the pickle, each once, sorted by key. */
static pg_status list_places(place **out, size_t *n, const pg__pickle *p, pg_err *err)
{
    size_t count = 0, kept = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < p->n; i++)
        count += p->v[i].kind == PG_PK_PERSID;
    place *list = pg__mem_array(count, sizeof *list);
    if (!list)
        return pg__nomem(err);
    count = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].kind == PG_PK_PERSID) {
            list[count].off = UINT64_MAX;
            PG_TRY(pg__pt_storage_of(&list[count++].s, NULL, p, &p->v[i], err));
        }
    qsort(list, count, sizeof *list, by_key);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || by_key(&list[kept - 1], &list[i]) != 0)
            list[kept++] = list[i];
        else if (list[kept - 1].s.n != list[i].s.n || list[kept - 1].s.size != list[i].s.size)
            PG_FAIL(PG_E_FORMAT, "two descriptions of one storage");
    }
    *out = list;
    *n = kept;
    list = NULL;
done:
    pg__mem_free(list);
    return st;
}

/* Walks over the storages behind the pickles, in the order of their keys. */
static pg_status locate(place *list, size_t n, source *f, const stream *s, pg_err *err)
{
    const pg__pickle *p = &s->keys;
    const pg__pk_value *keys = &p->v[p->root];
    const uint64_t size = pg__io_size(f->io);
    uint64_t at = s->at, bytes;
    unsigned char head[8];
    if (keys->kind != PG_PK_LIST)
        return pg_fail(err, PG_E_FORMAT, "its list of storages is damaged");
    for (uint32_t i = 0; i < keys->n; i++) {
        const pg__pk_value *k = &p->v[keys->u.items[i]];
        const place want = {.s = {.key = k->u.text, .n_key = k->n}};
        place *x = k->kind == PG_PK_STR && n ? bsearch(&want, list, n, sizeof *list, by_key) : NULL;
        if (!x || x->off != UINT64_MAX)
            return pg_fail(err, PG_E_FORMAT, "its list of storages is damaged");
        if (size - at < sizeof head)
            return pg_fail(err, PG_E_FORMAT, "truncated: %s of %u storages are there", PG_NUM(i),
                           keys->n);
        const pg_status st = pg__io_read(f->io, at, head, sizeof head, err);
        if (st != PG_OK)
            return st;
        at += sizeof head;
        if (pg__le64(head) != x->s.n)
            return pg_fail(err, PG_E_FORMAT, "a storage of %s elements, the pickle says %s",
                           PG_NUM(pg__le64(head)), PG_NUM(x->s.n));
        if (__builtin_mul_overflow(x->s.n, x->s.size, &bytes) || bytes > size - at)
            return pg_fail(err, PG_E_FORMAT, "truncated: %s of %u storages are there", PG_NUM(i),
                           keys->n);
        x->off = at;
        at += bytes;
    }
    return PG_OK;
}

static pg_status open_stream(pg_store **out, source *f, pg_err *err)
{
    stream s = {0};
    place *list = NULL;
    size_t n = 0;
    pg_status st = PG_OK;
    PG_TRY(load_pickles(f, &s, err));
    PG_TRY(read_tree(f, err));
    PG_TRY(list_places(&list, &n, &f->pickle, err));
    PG_TRY(locate(list, n, f, &s, err));
    for (size_t i = 0; i < f->tree.n; i++) {
        const place want = {.s = f->tree.list[i].storage};
        const place *x = bsearch(&want, list, n, sizeof *list, by_key);
        if (!x || x->off == UINT64_MAX)
            PG_FAIL(PG_E_FORMAT, "%s: its data is not in the file",
                    PG_SHOW(f->tree.names.s + f->tree.list[i].name));
        f->where[i] = x->off;
    }
    PG_TRY(make_store(out, f, "pytorch-stream", err));
done:
    pg__pickle_fini(&s.keys);
    pg__mem_free(list);
    return st;
}

/* ---- */

static pg_status open_pytorch(pg_store **out, pg__io *io, const char *path,
                              const pg_open_opts *opts, pg_err *err)
{
    unsigned char head[TAR_BYTES] = {0};
    const size_t n = pg__io_size(io) < TAR_BYTES ? (size_t)pg__io_size(io) : TAR_BYTES;
    source f = {.io = io};
    (void)path, (void)opts;
    pg_status st = pg__io_read(io, 0, head, n, err);
    if (st != PG_OK)
        return st;
    if (is_tar_name(head, n)) {
        if (memcmp(head + 257, "ustar", 5) != 0)
            return pg_fail(err, PG_E_UNKNOWN, "not a tar archive");
        return pg__fail_pickle("a PyTorch pickle (tar archive, torch before 0.1.10)", err);
    }
    st = is_stream(head, n) ? open_stream(out, &f, err) : open_zip(out, &f, err);
    source_fini(&f);
    return st;
}

const pg__format pg__fmt_pytorch = {
    .name = "pytorch-zip",
    .words = "pytorch-zip\0pytorch-stream\0",
    .probe = probe,
    .open = open_pytorch,
    .suffixes = ".pt\0.pth\0.pth.tar\0.bin\0",
};
