/* pytorch_store.c - the store of one part of a checkpoint: where its tensors' bytes are, and what
 * is reported about the rest. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_file.h"
#include "format/pytorch_impl.h"
#include "store/store_impl.h"

/* What libraries that read safetensors expect of a PyTorch model. */
#define METADATA "{\"format\":\"pt\"}"

/* A store of this format. */
typedef struct pytorch {
    pg__io *io;
    pg__zip *zip; /* NULL: a stream */
    pg__pt_tensor *list;
    uint64_t *where; /* by tensor: member of the archive, or offset in the stream or in `inside` */
    size_t n;
    unsigned char *inside; /* data that was in the pickle itself */
    pg__slab slab;
} pytorch;

/* ---- data ---- */

static void close_data(void *ctx)
{
    pytorch *t = ctx;
    pg__zip_close(t->zip);
    pg__io_close(t->io);
    pg__slab_fini(&t->slab);
    pg__mem_free(t->list);
    pg__mem_free(t->where);
    pg__mem_free(t->inside);
    pg__mem_free(t);
}

static pg_status fetch(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const pytorch *t = ctx;
    if (t->list[tensor].storage.inside) {
        memcpy(buf, t->inside + t->where[tensor] + off, n);
        return PG_OK;
    }
    if (t->zip)
        return pg__zip_read(t->zip, (size_t)t->where[tensor], off, buf, n, err);
    return pg__io_read(t->io, t->where[tensor] + off, buf, n, err);
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    pytorch *t = ctx;
    return pg__strided_read(&t->slab, &t->list[tensor].view, tensor, fetch, t, off, buf, n, err);
}

/* Row-major elements of a stored member, or of a stream. */
static int place_data(void *ctx, size_t tensor, uint64_t *off_bytes)
{
    const pytorch *t = ctx;
    const pg__pt_tensor *x = &t->list[tensor];
    const pg__zip_member *m = t->zip ? pg__zip_at(t->zip, (size_t)t->where[tensor]) : NULL;
    if (x->storage.inside || (m && m->deflated) || !pg__strided_is_plain(&x->view))
        return -1;
    return pg__io_fd(t->io, (m ? m->data_off : t->where[tensor]) + x->view.first * x->view.size,
                     off_bytes);
}

int pg__pt_place(const pg_store *s, size_t i, uint64_t *member, uint64_t *at)
{
    const pytorch *t = pg__store_ctx(s);
    const pg__pt_tensor *x = &t->list[i];
    *member = t->where[i];
    *at = x->view.first * x->view.size;
    return !x->storage.inside && pg__strided_is_plain(&x->view);
}

/* ---- the store ---- */

/* Elements may overlap (a stride of 0), but a small file must not become an endless one: the limit
 * is that of compressed data. */
static pg_status check_total(const pg__pt_source *f, const pg_store *s, pg_err *err)
{
    uint64_t total = 0, most = 0;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg__pt_tensor *t = &f->tree.list[i];
        const uint64_t n = pg_store_weight(s, i)->n_bytes, stored = t->storage.n * t->storage.size;
        if (n > PG_LIMIT_DEFLATE_SLACK && n / PG_LIMIT_DEFLATE_RATIO > stored)
            return pg_fail(err, PG_E_LIMIT, "%s: overlapping strides expand %s stored bytes to %s",
                           PG_SHOW(pg_store_weight(s, i)->name), PG_NUM(stored), PG_NUM(n));
        if (__builtin_add_overflow(total, n, &total))
            total = UINT64_MAX;
    }
    if (__builtin_mul_overflow(pg__io_size(f->io), (uint64_t)PG_LIMIT_DEFLATE_RATIO, &most))
        most = UINT64_MAX;
    if (total > most)
        return pg_fail(err, PG_E_LIMIT, "overlapping tensors expand a file of %s bytes to %s",
                       PG_NUM(pg__io_size(f->io)), PG_NUM(total));
    return PG_OK;
}

/* The bytes of one number, little-endian; where: as pytorch.where. */
static pg_status read_number(unsigned char bytes[8], const pg__pt_source *f, const pg__pt_tensor *t,
                             uint64_t where, pg_err *err)
{
    const size_t size = t->view.size;
    const uint64_t off = t->view.first * size;
    pg_status st;
    if (t->storage.inside)
        st = pg__pt_copy_inside(bytes, &t->storage, err);
    else if (f->zip)
        st = pg__zip_read(f->zip, (size_t)where, off, bytes, size, err);
    else
        st = pg__io_read(f->io, where + off, bytes, size, err);
    for (size_t i = 0; st == PG_OK && t->big_endian && i < size / 2; i++) {
        const unsigned char b = bytes[i];
        bytes[i] = bytes[size - 1 - i];
        bytes[size - 1 - i] = b;
    }
    return st;
}

/* The value of a number beside the model; *known is 0 if it is missing. */
static pg_status find_number(double *v, int *known, pg__pt_source *f, pg__pt_locator *locate,
                             const void *ctx, const pg__pt_tensor *t, pg_err *err)
{
    unsigned char bytes[8] = {0};
    uint64_t where = 0;
    pg_err e = {0};
    pg_status st = t->storage.inside ? PG_OK : locate(&where, f, ctx, t, "", &e);
    if (st == PG_OK)
        st = read_number(bytes, f, t, where, &e);
    *known = st == PG_OK && pg__pt_number(v, t->dtype, bytes);
    return st == PG_E_NOMEM || st == PG_E_IO ? pg__fail_as(err, &e) : PG_OK;
}

/* Inserts the values of numbers beside the model into the text about them, from the end. A missing
 * value is no reason to refuse the model. */
static pg_status insert_numbers(pg__pt_source *f, pg__pt_locator *locate, const void *ctx,
                                pg_err *err)
{
    pg__pt_tree *t = &f->tree;
    pg__str text = {0};
    size_t from = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->n_numbers; i++) {
        const pg__pt_aside *x = &t->numbers[i];
        int known = 0;
        double v = 0;
        PG_TRY(pg__str_add(&text, t->others.s + from, x->at - from, err));
        from = x->at;
        PG_TRY(find_number(&v, &known, f, locate, ctx, &x->t, err));
        if (known)
            PG_TRY(pg__str_printf(&text, err, " %.6g", v));
        else
            PG_TRY(pg__str_puts(&text, " (1 tensor)", err));
    }
    if (from) {
        PG_TRY(pg__str_puts(&text, t->others.s + from, err));
        pg__str_fini(&t->others);
        t->others = text;
        text = (pg__str){0};
    }
done:
    pg__str_fini(&text);
    return st;
}

static int by_data(const void *a, const void *b)
{
    const pg__pt_tensor *x = *(const pg__pt_tensor *const *)a,
                        *y = *(const pg__pt_tensor *const *)b;
    const uintptr_t at_x = (uintptr_t)x->storage.key, at_y = (uintptr_t)y->storage.key;
    if (at_x != at_y)
        return at_x < at_y ? -1 : 1;
    return x->storage.latin1 - y->storage.latin1;
}

/* The tensors whose data is in the pickle, sorted by their data: a small file may name one array
 * many times. *n_bytes: of the data, without repeats. */
static pg_status list_inside(const pg__pt_tensor ***out, size_t *n, uint64_t *n_bytes,
                             const pg__pt_tree *t, pg_err *err)
{
    const pg__pt_tensor **list = pg__mem_array(t->n, sizeof *list);
    if (!list)
        return pg__nomem(err);
    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].storage.inside)
            list[(*n)++] = &t->list[i];
    if (*n)
        qsort(list, *n, sizeof *list, by_data);
    for (size_t i = 0; i < *n; i++)
        if (i == 0 || by_data(&list[i - 1], &list[i]) != 0)
            *n_bytes += list[i]->storage.n * list[i]->storage.size;
    *out = list;
    return PG_OK;
}

/* Copies data out of the pickle. */
static pg_status copy_inside(pg__pt_source *f, pg_err *err)
{
    const pg__pt_tensor **list = NULL;
    size_t n_list = 0;
    uint64_t n = 0, at = 0;
    pg_status st = PG_OK;
    PG_TRY(list_inside(&list, &n_list, &n, &f->tree, err));
    f->inside = n ? pg__mem_array((size_t)n, 1) : NULL;
    if (n && !f->inside)
        st = pg__nomem(err);
    for (size_t i = 0; st == PG_OK && i < n_list; i++) {
        const pg__pt_tensor *t = list[i], *last = i ? list[i - 1] : NULL;
        const uint64_t size = t->storage.n * t->storage.size;
        uint64_t *where = &f->where[t - f->tree.list];
        const int same = last && by_data(&list[i - 1], &list[i]) == 0;
        if (same && size == last->storage.n * last->storage.size) {
            *where = f->where[last - f->tree.list];
            continue;
        }
        st = same   ? pg_fail(err, PG_E_FORMAT, "its data is not as long as its shape says")
             : size ? pg__pt_copy_inside(f->inside + at, &t->storage, err)
                    : PG_OK;
        if (st != PG_OK) {
            pg_err_prefix(err, PG_SHOW(f->tree.names.s + t->name));
            goto done;
        }
        *where = at;
        at += size;
    }
done:
    pg__mem_free(list);
    return st;
}

/* Finds the data of every tensor. */
static pg_status find_data(pg__pt_source *f, pg__pt_locator *locate, const void *ctx, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(copy_inside(f, err));
    for (size_t i = 0; i < f->tree.n; i++) {
        const pg__pt_tensor *t = &f->tree.list[i];
        if (!t->storage.inside)
            PG_TRY(locate(&f->where[i], f, ctx, t, f->tree.names.s + t->name, err));
    }
    PG_TRY(insert_numbers(f, locate, ctx, err));
done:
    return st;
}

/* Says which tensors have a dimension more than in PyTorch. */
static pg_status note_pairs(pg__pt_tree *t, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0, first = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].pairs && n++ == 0)
            first = i;
    if (n)
        st = pg__str_printf(&t->others, err,
                            "%s%zu tensor%s of complex numbers, read as pairs (%s%s)",
                            t->others.n ? ", " : "", n, n == 1 ? "" : "s",
                            PG_SHOW(t->names.s + t->list[first].name), n > 1 ? ", ..." : "");
    return st;
}

/* A file that is nothing but one state_dict has no parts to choose from. */
static pg_status list_parts(pg_store *s, const pg__pt_parts *l, pg_err *err)
{
    pg_status st = PG_OK;
    if (l->n == 1 && strcmp(l->texts.s + l->v[0].path, ".") == 0)
        return PG_OK;
    for (size_t i = 0; i < l->n; i++) {
        const pg__pt_part *x = &l->v[i];
        const pg_part part = {.path = l->texts.s + x->path,
                              .kind = pg__pt_kind_name(x->kind),
                              .n_tensors = x->n_tensors,
                              .n_params = x->n_params,
                              .is_model = x->kind == PG_PT_MODEL};
        PG_TRY(pg__store_add_part(s, &part, err));
    }
done:
    return st;
}

/* A part of a tensor means something beside the other parts only. */
static pg_status check_whole(pg__pt_source *f, pg_err *err)
{
    const pg__pt_tree *t = &f->tree;
    if (f->of_ranks) {
        f->cuts = pg__mem_array(t->n, sizeof *f->cuts);
        if (!f->cuts)
            return pg__nomem(err);
    }
    for (size_t i = 0; i < t->n; i++) {
        if (f->of_ranks) {
            f->cuts[i] = t->list[i].cut;
        } else if (t->list[i].cut) {
            const pg_status st = pg__pt_fail_foreign(
                pg__pt_cut_class(&f->pickle, &f->pickle.v[t->list[i].cut]), err);
            pg_err_prefix(err, PG_SHOW(t->names.s + t->list[i].name));
            return st;
        }
    }
    return PG_OK;
}

/* Makes the store; it takes over the contents of f. */
pg_status pg__pt_make_store(pg_store **out, pg__pt_source *f, const char *format,
                            pg__pt_locator *locate, const void *ctx, pg_err *err)
{
    static const pg__store_io data = {.read = read_data, .close = close_data, .place = place_data};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    pytorch *t = pg__mem_array(1, sizeof *t);
    if (!t)
        return pg__nomem(err);
    PG_TRY(check_whole(f, err));
    PG_TRY(find_data(f, locate, ctx, err));
    PG_TRY(pg__store_new(&s, format, NULL, NULL, err));
    for (size_t i = 0; i < f->tree.n; i++) {
        const pg__pt_tensor *x = &f->tree.list[i];
        const pg__tensor_desc d = {.name = f->tree.names.s + x->name,
                                   .dtype = x->dtype,
                                   .big_endian = x->big_endian,
                                   .rank = x->view.rank,
                                   .dims = x->view.dims};
        PG_TRY(pg__store_add_weight(s, &d, err));
    }
    PG_TRY(check_total(f, s, err));
    PG_TRY(note_pairs(&f->tree, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, strlen(METADATA), err));
    if (f->tree.others.n)
        PG_TRY(pg__store_set_others(s, f->tree.others.s, err));
    PG_TRY(list_parts(s, &f->tree.parts, err));
    *t = (pytorch){.io = pg__io_ref(f->io),
                   .zip = f->zip,
                   .list = f->tree.list,
                   .where = f->where,
                   .n = f->tree.n,
                   .inside = f->inside};
    f->zip = NULL;
    f->tree.list = NULL;
    f->where = NULL;
    f->inside = NULL;
    pg__store_own(s, &data, t);
    t = NULL;
    *out = s;
    s = NULL;
done:
    pg__mem_free(t);
    pg_store_close(s);
    return st;
}

pg_status pg__pt_read_tree(pg__pt_source *f, const pg_open_opts *opts, pg_err *err)
{
    const pg_status st = pg__pt_tree_read(&f->tree, &f->pickle, opts->part, err);
    if (st != PG_OK)
        return st;
    f->where = pg__mem_array(f->tree.n, sizeof *f->where);
    return f->where ? PG_OK : pg__nomem(err);
}
