/* pytorch_stream.c - the format of torch before 1.6: pickles of a magic number, a version, the
 * system, the object and the keys of its storages; then each storage with its number of elements
 * (torch/serialization.py). */
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_file.h"

#define FIRST_LOOK    ((size_t)1 << 20) /* of a stream, which does not say how long its pickle is */
#define STREAM_NUMBER 1001

int pg__pt_is_stream(const uint8_t *head, size_t n)
{
    static const unsigned char magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9};
    return n >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

/* The five pickles at the start; the fourth is the object. */
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

static pg_status read_pickles(pg__pt_source *f, stream *s, int *cut, pg_err *err)
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

/* The file does not say how long the pickles are: more is loaded until they are complete. */
static pg_status load_pickles(pg__pt_source *f, stream *s, pg_err *err)
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

/* A storage that the pickle names, and where it is. */
typedef struct place {
    pg__pt_storage s;
    uint64_t off; /* UINT64_MAX: missing */
} place;

static int by_key(const void *a, const void *b)
{
    const pg__pt_storage *x = &((const place *)a)->s, *y = &((const place *)b)->s;
    const int c = memcmp(x->key, y->key, x->n_key < y->n_key ? x->n_key : y->n_key);
    return c ? c : (x->n_key > y->n_key) - (x->n_key < y->n_key);
}

/* All storages of the pickle, without repeats, sorted by key. */
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

/* Walks over the storages after the pickles, in the order of their keys. */
static pg_status walk_places(place *list, size_t n, pg__pt_source *f, const stream *s, pg_err *err)
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

/* All places, sorted by key. */
typedef struct places {
    place *v;
    size_t n;
} places;

static pg_status find_place(uint64_t *where, pg__pt_source *f, const void *ctx,
                            const pg__pt_tensor *t, const char *name, pg_err *err)
{
    const places *l = ctx;
    const place want = {.s = t->storage};
    const place *x = l->n ? bsearch(&want, l->v, l->n, sizeof *l->v, by_key) : NULL;
    (void)f;
    if (!x || x->off == UINT64_MAX)
        return pg_fail(err, PG_E_FORMAT, "%s: its data is not in the file", PG_SHOW(name));
    *where = x->off;
    return PG_OK;
}

pg_status pg__pt_open_stream(pg_store **out, pg__pt_source *f, const pg_open_opts *opts,
                             pg_err *err)
{
    stream s = {0};
    places l = {0};
    pg_status st = PG_OK;
    PG_TRY(load_pickles(f, &s, err));
    PG_TRY(pg__pt_read_tree(f, opts, err));
    PG_TRY(list_places(&l.v, &l.n, &f->pickle, err));
    PG_TRY(walk_places(l.v, l.n, f, &s, err));
    PG_TRY(pg__pt_make_store(out, f, "pytorch-stream", find_place, &l, err));
done:
    pg__pickle_fini(&s.keys);
    pg__mem_free(l.v);
    return st;
}
