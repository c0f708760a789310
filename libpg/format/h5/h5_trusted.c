/* h5_trusted.c - the objects of a file as libhdf5 sees them, for users who insist (--trust-input).
 *
 * Only for files that our own reader recognises as legal but does not read: dense links and
 * attributes, shared messages, chunk indexes of HDF5 1.10 and later. libhdf5 says which objects
 * exist and where; types and shapes go through the same decoders in their encoded form, and
 * h5_read.c reads and unfilters the bytes, so that nothing of libhdf5 remains once the file is
 * open. What our reader refuses is refused here, too: other filters, external or virtual storage,
 * soft and external links, absent data. But damage reaches libhdf5 unchecked. */
#define H5_USE_110_API
#include <hdf5.h>
#include <string.h>

#include "base/mem.h"
#include "format/h5/h5_impl.h"
#include "format/h5/h5_session.h"
#include "format/h5/h5_source.h"

/* What the walk's callback gets through the pg__h5. */
struct trusted {
    hid_t file, object; /* number of the current object */
};

static struct trusted *of(const pg__h5 *h)
{
    return h->trusted;
}

static pg_status lib_failed(const pg__h5 *h, const char *what, pg_err *err)
{
    char reason[160];
    if (pg__h5_reason(reason, sizeof reason))
        return pg__nomem(err);
    return pg__h5_bad(h, err, PG_E_FORMAT, "the HDF5 library cannot %s: %s", what, reason);
}

/* ---- types and shapes: encoded by libhdf5, decoded with our own rules */

static pg_status take_type(pg__h5 *h, hid_t type, pg__h5_dtype *t, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    uint8_t *bytes = NULL;
    if (H5Tis_variable_str(type) > 0) { /* its encoded form is that in memory */
        *t = (pg__h5_dtype){.cls = PG_H5_STR_VLEN, .size = 16};
        t->utf8 = H5Tget_cset(type) == H5T_CSET_UTF8;
        t->pad = (int)H5Tget_strpad(type);
        return PG_OK;
    }
    if (H5Tencode(type, NULL, &n) < 0 || n < 2)
        return lib_failed(h, "encode a type", err);
    bytes = pg__mem_array(n, 1);
    if (!bytes)
        PG_TRY(pg__nomem(err));
    if (H5Tencode(type, bytes, &n) < 0)
        PG_TRY(lib_failed(h, "encode a type", err));
    pg__h5_cur c = {.p = bytes + 2, .end = bytes + n}; /* after a tag and a version */
    PG_TRY(pg__h5_type_read(h, &c, t, err));
done:
    pg__mem_free(bytes);
    return st;
}

static pg_status take_shape(pg__h5 *h, hid_t space, uint32_t *rank, uint64_t *dims,
                            uint64_t *n_elems, pg_err *err)
{
    pg_status st = PG_OK;
    hsize_t got[H5S_MAX_RANK];
    const int r = H5Sget_simple_extent_dims(space, got, NULL);
    uint64_t n = 1;
    if (r < 0)
        PG_TRY(lib_failed(h, "tell a shape", err));
    if (r > (int)PG_MAX_RANK)
        PG_H5_FAIL(PG_E_LIMIT, "%d dimensions, at most %u are read", r, PG_MAX_RANK);
    int empty = 0, huge = 0;
    for (int i = 0; i < r; i++) {
        dims[i] = got[i];
        empty |= dims[i] == 0;
        huge |= __builtin_mul_overflow(n, dims[i], &n);
    }
    if (huge && !empty)
        PG_H5_FAIL(PG_E_LIMIT, "shape overflows");
    *rank = H5Sget_simple_extent_type(space) == H5S_NULL ? PG_H5_NULL : (uint32_t)r;
    *n_elems = *rank == PG_H5_NULL || empty ? 0 : n;
done:
    return st;
}

/* ---- attributes */

static pg_status take_strings(pg__h5 *h, pg__h5_attr *a, const char *bytes, pg_err *err)
{
    pg_status st = PG_OK;
    const size_t n = (size_t)a->n_elems, size = a->type.size;
    if (n > PG_LIMIT_STRINGS - h->walk->n_strings)
        PG_H5_FAIL(PG_E_LIMIT, "more than %u strings in the attributes of the file",
                   PG_LIMIT_STRINGS);
    h->walk->n_strings += n;
    const char **strs = pg__h5_take(h, n * sizeof *strs);
    size_t *lens = pg__h5_take(h, n * sizeof *lens);
    if (!strs || !lens)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < n; i++) {
        const char *s = bytes + i * size;
        if (a->type.cls == PG_H5_STR_VLEN) {
            memcpy(&s, bytes + i * sizeof s, sizeof s);
            s = s ? s : "";
            lens[i] = strlen(s);
        } else {
            lens[i] = pg__h5_fixed_len(s, size, a->type.pad);
        }
        strs[i] = pg__h5_text(h, s, lens[i]);
        if (!strs[i])
            PG_TRY(pg__nomem(err));
    }
    a->strs = strs;
    a->lens = lens;
done:
    return st;
}

static pg_status take_value(pg__h5 *h, hid_t attr, hid_t type, hid_t space, pg__h5_attr *a,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const int vlen = a->type.cls == PG_H5_STR_VLEN;
    const size_t size = vlen ? sizeof(char *) : a->type.size;
    char *bytes = NULL;
    uint64_t n_bytes;
    int filled = 0;
    if (__builtin_mul_overflow(a->n_elems, (uint64_t)size, &n_bytes) ||
        n_bytes > PG_LIMIT_ATTR_BYTES)
        PG_H5_FAIL(PG_E_LIMIT, "%s elements of %zu bytes", PG_H5_NUM(a->n_elems), size);
    bytes = pg__mem_array((size_t)n_bytes, 1);
    if (!bytes)
        PG_TRY(pg__nomem(err));
    if (a->n_elems && H5Aread(attr, type, bytes) < 0)
        PG_TRY(lib_failed(h, "read it", err));
    filled = a->n_elems > 0;
    if (a->type.cls != PG_H5_NUMBER)
        PG_TRY(take_strings(h, a, bytes, err));
    if (!vlen) {
        a->raw = pg__h5_text(h, bytes, (size_t)n_bytes);
        if (!a->raw)
            PG_TRY(pg__nomem(err));
    }
done:
    if (filled && vlen)
        (void)H5Dvlen_reclaim(type, space, H5P_DEFAULT, bytes);
    pg__mem_free(bytes);
    return st;
}

static pg_status take_attr(pg__h5 *h, hid_t attr, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_attr a = {0};
    pg_err why = {0};
    char name[1024];
    const ssize_t n = H5Aget_name(attr, sizeof name, name);
    const hid_t type = H5Aget_type(attr), space = H5Aget_space(attr);
    if (n <= 0 || type < 0 || space < 0)
        PG_TRY(lib_failed(h, "open an attribute", err));
    if ((size_t)n >= sizeof name)
        PG_H5_FAIL(PG_E_LIMIT, "attribute with a name of %zu bytes", (size_t)n);
    a.name = pg__h5_text(h, name, (size_t)n);
    if (!a.name)
        PG_TRY(pg__nomem(err));
    h->walk->attr = a.name;
    st = take_type(h, type, &a.type, &why);
    if (st == PG_E_UNSUPPORTED) {
        pg__h5_pass_over(h);
        h->walk->attr = NULL;
        st = PG_OK;
        goto done;
    }
    if (st != PG_OK && err)
        *err = why;
    if (st != PG_OK)
        goto done;
    PG_TRY(take_shape(h, space, &a.rank, a.dims, &a.n_elems, err));
    PG_TRY(take_value(h, attr, type, space, &a, err));
    PG_TRY(pg__h5_attr_add(h, &a, err));
    h->walk->attr = NULL;
done:
    (void)H5Tclose(type);
    (void)H5Sclose(space);
    return st;
}

static pg_status take_attrs(pg__h5 *h, pg_err *err)
{
    pg_status st = PG_OK;
    H5O_info_t info;
    hid_t attr = -1;
    const size_t first = h->n_attrs;
    if (H5Oget_info2(of(h)->object, &info, H5O_INFO_NUM_ATTRS) < 0)
        PG_TRY(lib_failed(h, "count the attributes", err));
    if (info.num_attrs > PG_LIMIT_ATTRS)
        PG_H5_FAIL(PG_E_LIMIT, "more than %u attributes", PG_LIMIT_ATTRS);
    for (hsize_t k = 0; k < info.num_attrs; k++) {
        attr = H5Aopen_by_idx(of(h)->object, ".", H5_INDEX_NAME, H5_ITER_INC, k, H5P_DEFAULT,
                              H5P_DEFAULT);
        if (attr < 0)
            PG_TRY(lib_failed(h, "open an attribute", err));
        PG_TRY(take_attr(h, attr, err));
        (void)H5Aclose(attr);
        attr = -1;
    }
    PG_TRY(pg__h5_attrs_check(h, first, err));
    h->more[h->walk->obj].first_attr = first;
    h->objs[h->walk->obj].n_attrs = (uint32_t)(h->n_attrs - first);
done:
    if (attr >= 0)
        (void)H5Aclose(attr);
    return st;
}

/* ---- links */

typedef struct links {
    pg__h5 *h;
    uint32_t depth;
    pg_status st;
    pg_err *err;
} links;

static pg_status take_link(links *l, hid_t group, const char *name, const H5L_info_t *info)
{
    pg__h5 *h = l->h;
    pg_err *err = l->err;
    pg_status st = PG_OK;
    H5O_info_t object;
    if (info->type != H5L_TYPE_HARD) {
        char value[160] = "";
        const char *file = NULL, *path = NULL;
        if (info->u.val_size < sizeof value)
            (void)H5Lget_val(group, name, value, sizeof value, H5P_DEFAULT);
        if (info->type == H5L_TYPE_SOFT)
            return pg__h5_link_refuse(h, name, "soft", value, err);
        if (H5Lunpack_elink_val(value, info->u.val_size, NULL, &file, &path) < 0 || !file)
            file = "?";
        return pg__h5_link_refuse(h, name, "external", file, err);
    }
    if (H5Oget_info_by_name2(group, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
        return lib_failed(h, "follow a link", err);
    if (object.type == H5O_TYPE_NAMED_DATATYPE)
        return PG_OK; /* any object that uses it has the complete type */
    char *copy = pg__h5_text(h, name, strlen(name));
    if (!copy)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__h5_link_add(h, copy, info->u.address, l->depth, err));
done:
    return st;
}

static herr_t each_link(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    links *l = ctx;
    l->st = take_link(l, group, name, info);
    return l->st == PG_OK ? 0 : 1;
}

static pg_status take_links(pg__h5 *h, uint32_t depth, pg_err *err)
{
    links l = {.h = h, .depth = depth, .err = err};
    const size_t first = h->walk->n_links;
    const herr_t rc = H5Literate(of(h)->object, H5_INDEX_NAME, H5_ITER_INC, NULL, each_link, &l);
    if (l.st != PG_OK)
        return l.st;
    return rc < 0 ? lib_failed(h, "list the group", err) : pg__h5_links_end(h, first, err);
}

/* ---- data */

static pg_status take_filters(pg__h5 *h, hid_t dcpl, pg__h5_filters *f, pg_err *err)
{
    pg_status st = PG_OK;
    const int n = H5Pget_nfilters(dcpl);
    for (int i = 0; i < n; i++) {
        unsigned flags = 0, args[8] = {0};
        size_t n_args = 8;
        const H5Z_filter_t id =
            H5Pget_filter2(dcpl, (unsigned)i, &flags, &n_args, args, 0, NULL, NULL);
        if (id < H5Z_FILTER_DEFLATE || id > H5Z_FILTER_FLETCHER32)
            return pg__h5_filter_refuse(h, (unsigned)id, err);
        PG_H5_NEED(f->n < PG_H5_MAX_FILTERS, "more than %d filters", PG_H5_MAX_FILTERS);
        f->id[f->n] = (uint16_t)id;
        f->arg[f->n++] = args[0];
        PG_H5_NEED(id != H5Z_FILTER_SHUFFLE || args[0] == h->objs[h->walk->obj].type.size,
                   "shuffle by %u bytes", args[0]);
    }
done:
    return st;
}

/* Puts chunk k of libhdf5's list where its place in the tensor says. */
static pg_status take_chunk(pg__h5 *h, hid_t space, hsize_t k, const pg__h5_chunked *ch,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const pg__h5_object *o = &h->objs[h->walk->obj];
    hsize_t at[H5S_MAX_RANK] = {0}, stored = 0;
    unsigned mask = 0;
    haddr_t addr = HADDR_UNDEF;
    uint64_t number = 0, end;
    if (H5Dget_chunk_info(of(h)->object, space, k, at, &mask, &addr, &stored) < 0)
        PG_TRY(lib_failed(h, "find a chunk", err));
    for (uint32_t i = 0; i < o->rank; i++)
        number = number * ((o->dims[i] + ch->dims[i] - 1) / ch->dims[i]) + at[i] / ch->dims[i];
    PG_H5_NEED(number < ch->n_chunks && stored <= UINT32_MAX &&
                   !__builtin_add_overflow(addr, stored, &end) && end <= pg__io_size(h->io),
               "chunk %s leaves the file", PG_H5_NUM(k));
    pg__h5_chunk *chunk = &h->chunks[ch->first + (size_t)number];
    PG_H5_NEED(chunk->n_bytes == 0, "chunk %s occurs twice", PG_H5_NUM(number));
    PG_TRY(pg__h5_chunk_check(h, ch, (uint32_t)stored, mask, err));
    *chunk = (pg__h5_chunk){.addr = addr, .n_bytes = (uint32_t)stored, .mask = mask};
done:
    return st;
}

static pg_status take_chunks(pg__h5 *h, hid_t dcpl, hid_t space, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__h5_object *o = &h->objs[h->walk->obj];
    pg__h5_chunked ch = {.first = h->n_chunks};
    hsize_t dims[H5S_MAX_RANK] = {0}, n = 0;
    uint64_t want = 1, n_bytes = o->type.size;
    PG_TRY(take_filters(h, dcpl, &ch.filters, err));
    if (H5Pget_chunk(dcpl, H5S_MAX_RANK, dims) != (int)o->rank ||
        H5Dget_num_chunks(of(h)->object, space, &n) < 0)
        PG_TRY(lib_failed(h, "count the chunks", err));
    for (uint32_t i = 0; i < o->rank; i++) {
        PG_H5_NEED(dims[i] && dims[i] <= UINT32_MAX, "chunks of size %s", PG_H5_NUM(dims[i]));
        ch.dims[i] = (uint32_t)dims[i];
        if (__builtin_mul_overflow(n_bytes, dims[i], &n_bytes) || n_bytes > PG_LIMIT_CHUNK_BYTES)
            PG_H5_FAIL(PG_E_LIMIT, "chunks of more than %s bytes", PG_H5_NUM(PG_LIMIT_CHUNK_BYTES));
        if (o->n_bytes)
            want *= (o->dims[i] + dims[i] - 1) / dims[i];
    }
    want = o->n_bytes ? want : 0;
    PG_H5_NEED(n == want,
               "%s of its %s chunks are stored (%s bytes declared), the rest was never written",
               PG_H5_NUM(n), PG_H5_NUM(want), PG_H5_NUM(o->n_bytes));
    ch.n_chunks = (size_t)want;
    ch.n_bytes = (uint32_t)n_bytes;
    if (pg__mem_grow(&h->chunks, &h->cap_chunks, h->n_chunks + ch.n_chunks, sizeof *h->chunks) ||
        pg__mem_grow(&h->chunked, &h->cap_chunked, h->n_chunked + 1, sizeof *h->chunked))
        PG_TRY(pg__nomem(err));
    memset(h->chunks + h->n_chunks, 0, ch.n_chunks * sizeof *h->chunks);
    h->n_chunks += ch.n_chunks;
    for (hsize_t k = 0; k < want; k++)
        PG_TRY(take_chunk(h, space, k, &ch, err));
    h->more[h->walk->obj].chunked = (uint32_t)h->n_chunked;
    h->chunked[h->n_chunked++] = ch;
done:
    return st;
}

static pg_status take_storage(pg__h5 *h, hid_t dcpl, hid_t space, hid_t type, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_object *o = &h->objs[h->walk->obj];
    const H5D_layout_t layout = H5Pget_layout(dcpl);
    if (H5Pget_external_count(dcpl) != 0)
        PG_H5_FAIL(PG_E_FORMAT, "external storage, its bytes are in another file: not followed");
    if (layout == H5D_VIRTUAL)
        PG_H5_FAIL(PG_E_FORMAT, "virtual dataset, it points to other files and is not followed");
    if (layout == H5D_CHUNKED)
        return take_chunks(h, dcpl, space, err);
    if (layout == H5D_COMPACT) {
        void *values = pg__h5_take(h, (size_t)o->n_bytes);
        if (!values)
            PG_TRY(pg__nomem(err));
        if (H5Dread(of(h)->object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
            PG_TRY(lib_failed(h, "read it", err));
        h->more[h->walk->obj].values = values;
        return PG_OK;
    }
    const haddr_t at = H5Dget_offset(of(h)->object);
    PG_H5_NEED(at != HADDR_UNDEF || !o->n_bytes,
               "declares %s bytes, 0 are stored: it was never "
               "written",
               PG_H5_NUM(o->n_bytes));
    PG_H5_NEED(!o->n_bytes || (at <= pg__io_size(h->io) && o->n_bytes <= pg__io_size(h->io) - at),
               "data at byte %s, %s bytes, leaves the file", PG_H5_NUM(at), PG_H5_NUM(o->n_bytes));
    o->off_bytes = o->n_bytes ? at : 0;
    o->contiguous = 1;
done:
    return st;
}

static pg_status take_dataset(pg__h5 *h, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_object *o = &h->objs[h->walk->obj];
    const hid_t type = H5Dget_type(of(h)->object), space = H5Dget_space(of(h)->object);
    const hid_t dcpl = H5Dget_create_plist(of(h)->object);
    uint64_t n_elems = 0;
    pg_err why = {0};
    o->kind = PG_H5_DATASET;
    if (type < 0 || space < 0 || dcpl < 0)
        PG_TRY(lib_failed(h, "open the dataset", err));
    const pg_status read = take_type(h, type, &o->type, &why);
    PG_TRY(pg__h5_data_type(h, read, &why, &o->type, err));
    PG_TRY(take_shape(h, space, &o->rank, o->dims, &n_elems, err));
    if (o->type.cls == PG_H5_OTHER)
        goto done;
    if (o->rank == PG_H5_NULL)
        PG_H5_FAIL(PG_E_UNSUPPORTED, "dataset without a shape (null dataspace)");
    if (__builtin_mul_overflow(n_elems, (uint64_t)o->type.size, &o->n_bytes))
        PG_H5_FAIL(PG_E_LIMIT, "%s elements of %u bytes", PG_H5_NUM(n_elems), o->type.size);
    PG_TRY(take_storage(h, dcpl, space, type, err));
done:
    (void)H5Tclose(type);
    (void)H5Sclose(space);
    (void)H5Pclose(dcpl);
    return st;
}

static pg_status take_object(pg__h5 *h, uint64_t addr, uint32_t depth, pg_err *err)
{
    pg_status st = PG_OK;
    const hid_t id = H5Oopen_by_addr(of(h)->file, addr);
    if (id < 0)
        return lib_failed(h, "open it", err);
    of(h)->object = id;
    PG_TRY(take_attrs(h, err));
    PG_TRY(H5Iget_type(id) == H5I_DATASET ? take_dataset(h, err) : take_links(h, depth, err));
done:
    (void)H5Oclose(id);
    return st;
}

static pg_status walk(pg__h5 *h, int64_t fapl, pg_err *err)
{
    pg_status st = PG_OK;
    H5O_info_t root;
    hid_t fcpl = -1;
    hsize_t user_block = 0;
    struct trusted t = {.object = -1};
    h->trusted = &t;
    t.file = H5Fopen("libpg", H5F_ACC_RDONLY, fapl);
    if (t.file < 0)
        PG_TRY(lib_failed(h, "open the file", err));
    fcpl = H5Fget_create_plist(t.file);
    if (fcpl < 0 || H5Pget_userblock(fcpl, &user_block) < 0 ||
        H5Oget_info2(t.file, &root, H5O_INFO_BASIC) < 0)
        PG_TRY(lib_failed(h, "open the file", err));
    if (user_block) /* versions of libhdf5 disagree about the base of addresses */
        PG_H5_FAIL(PG_E_UNSUPPORTED, "a user block of %s bytes besides", PG_H5_NUM(user_block));
    PG_TRY(pg__h5_walk_all(h, root.addr, take_object, err));
done:
    if (fcpl >= 0)
        (void)H5Pclose(fcpl);
    if (t.file >= 0)
        (void)H5Fclose(t.file);
    h->trusted = NULL;
    return st;
}

pg_status pg__h5_open_trusted(pg__h5 **out, pg__io *io, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5 *h = NULL;
    hid_t fapl = -1, driver = -1;
    pg__h5_enter();
    PG_TRY(pg__h5_new(&h, io, err));
    fapl = H5Pcreate(H5P_FILE_ACCESS);
    driver = fapl < 0 ? -1 : pg__h5_source_attach(io, fapl);
    if (driver < 0 || H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG) < 0)
        PG_TRY(lib_failed(h, "be set up", err));
    PG_TRY(walk(h, fapl, err));
    pg__h5_walk_free(h->walk);
    h->walk = NULL;
    *out = h;
    h = NULL;
done:
    if (fapl >= 0)
        (void)H5Pclose(fapl);
    if (driver >= 0)
        (void)H5FDunregister(driver);
    pg__h5_leave();
    pg__h5_close(h);
    return st;
}

int pg__h5_is_strict(const pg__h5 *h)
{
    return h->off_size != 0; /* of the superblock, which is never read here */
}
