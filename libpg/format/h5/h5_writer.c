/* h5_writer.c - the one place that decides who writes: a new file is our own h5_tree.c's, groups
 * over an old file are libhdf5's (h5_lib.c). What both need is here: paths that HDF5 takes as they
 * are, strings in a row, Keras' lists of names. */
#include "format/h5/h5_writer.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/h5/h5_lib.h"
#include "format/h5/h5_tree.h"
#include "format/h5/h5_writer_impl.h"
#include "store/values.h"

/* What Keras leaves of the 64 KiB of an object header message for one list of names. */
#define NAMES_BYTES 64512u
/* Each variable-length string takes 16 bytes there; 4092 of them are too many. */
#define VLEN_BYTES 16u
#define VLEN_NAMES 4092u

/* "a/b/c" without ".", which HDF5 would skip, and not "/a". "" is the root; HDF5 takes "a//b/" for
 * "a/b". */
pg_status pg__h5_out_check_path(const char *path, pg_err *err)
{
    for (const char *p = path; *p; p += strspn(p, "/")) {
        const size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return pg_fail(err, PG_E_FORMAT, "%s: no name that HDF5 can hold", PG_SHOW(path));
        p += n;
    }
    return PG_OK;
}

static pg_status new_out(pg__h5_out **out, pg_err *err)
{
    pg__h5_out *h = pg__mem_array(1, sizeof *h);
    if (!h)
        return pg__nomem(err);
    h->driver = h->file = h->root = h->fapl = h->lcpl = h->gcpl = h->object = -1;
    *out = h;
    return PG_OK;
}

pg_status pg__h5_out_new(pg__h5_out **out, pg_err *err)
{
    pg__h5_out *h = NULL;
    pg_status st = new_out(&h, err);
    if (st == PG_OK)
        st = pg__h5_tree_new(&h->tree, err);
    if (st == PG_OK)
        *out = h;
    else
        pg__h5_out_free(h);
    return st;
}

pg_status pg__h5_out_setup(pg__h5_out **out, size_t n_objects, pg_err *err)
{
    const pg_status st = new_out(out, err);
    return st == PG_OK ? pg__h5_lib_begin(*out, n_objects, err) : st;
}

void pg__h5_out_free(pg__h5_out *h)
{
    if (!h)
        return;
    if (h->tree)
        pg__h5_tree_free(h->tree);
    else
        pg__h5_lib_fini(h);
    pg__mem_free(h);
}

pg_status pg__h5_out_group(pg__h5_out *h, const char *path, pg_err *err)
{
    const pg_status st = pg__h5_out_check_path(path, err);
    if (st != PG_OK || !*path)
        return st;
    return h->tree ? pg__h5_tree_group(h->tree, path, err) : pg__h5_lib_group(h, path, err);
}

/* Fixed strings in a row, each padded with zeros to the type's size. */
static pg_status pack_strings(char **out, const pg__h5_attr *a, uint32_t size, pg_err *err)
{
    size_t n = 0;
    if (a->n_elems > SIZE_MAX || __builtin_mul_overflow((size_t)a->n_elems, (size_t)size, &n))
        return pg_fail(err, PG_E_LIMIT, "%s: the list is too long", PG_SHOW(a->name));
    char *packed = pg__mem_array(n, 1);
    if (!packed)
        return pg__nomem(err);
    for (size_t i = 0; i < a->n_elems; i++) {
        const size_t len = a->lens ? a->lens[i] : strlen(a->strs[i]);
        memcpy(packed + i * size, a->strs[i], len < size ? len : size);
    }
    *out = packed;
    return PG_OK;
}

/* For libhdf5 a variable-length string ends at its first NUL; a string with embedded NULs is not
 * cut silently. */
static pg_status check_nuls(const pg__h5_attr *a, pg_err *err)
{
    for (size_t i = 0; a->lens && i < a->n_elems; i++)
        if (strlen(a->strs[i]) != a->lens[i])
            return pg_fail(err, PG_E_UNSUPPORTED, "%s: a string with a NUL inside",
                           PG_SHOW(a->name));
    return PG_OK;
}

static uint32_t longest(const pg__h5_attr *a)
{
    size_t most = 1;
    for (size_t i = 0; i < a->n_elems; i++) {
        const size_t len = a->lens ? a->lens[i] : strlen(a->strs[i]);
        most = len > most ? len : most;
    }
    return most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
}

pg_status pg__h5_out_attr(pg__h5_out *h, const char *path, const pg__h5_attr *attr, pg_err *err)
{
    pg_status st = PG_OK;
    char *packed = NULL;
    const void *data = attr->raw;
    pg__h5_dtype type = attr->type;
    if (attr->rank != PG_H5_NULL && attr->rank > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%s: %u dimensions", PG_SHOW(attr->name), attr->rank);
    if (type.cls == PG_H5_STR_FIXED && !data) {
        if (type.size == 0)
            type.size = longest(attr);
        PG_TRY(pack_strings(&packed, attr, type.size, err));
        data = packed;
    } else if (type.cls == PG_H5_STR_VLEN) {
        PG_TRY(check_nuls(attr, err));
        data = NULL;
    }
    st = h->tree ? pg__h5_tree_attr(h->tree, path, attr, &type, data, err)
                 : pg__h5_lib_attr(h, path, attr, &type, data, err);
done:
    pg__mem_free(packed);
    return st;
}

/* Keras' rule: the smallest number of nearly equal parts of which none exceeds NAMES_BYTES,
 * counting each name with the width of the longest. 1: the list stays whole. */
static pg_status count_parts(size_t *out, const char *attr, size_t n, size_t width, pg_err *err)
{
    if (width > NAMES_BYTES)
        return pg_fail(err, PG_E_LIMIT, "%s: a name of %zu bytes, at most %u fit", attr, width,
                       NAMES_BYTES);
    const size_t per_part = NAMES_BYTES / width;
    *out = n / per_part + (n % per_part != 0);
    return PG_OK;
}

static pg_status write_part(pg__h5_out *h, const char *path, const char *name,
                            const char *const *names, size_t n, const pg__h5_dtype *type,
                            pg_err *err)
{
    pg_status st = PG_OK;
    const char **strs = pg__mem_array(n, sizeof *strs);
    if (!strs)
        return pg__nomem(err);
    memcpy(strs, names, n * sizeof *strs);
    const pg__h5_attr a = {
        .name = name, .type = *type, .rank = 1, .dims = {n}, .n_elems = n, .strs = strs};
    st = pg__h5_out_attr(h, path, &a, err);
    pg__mem_free(strs);
    return st;
}

pg_status pg__h5_out_names(pg__h5_out *h, const char *path, const char *attr,
                           const char *const *names, size_t n, pg__h5_class like, pg_err *err)
{
    pg_status st = PG_OK;
    size_t width = 1, parts = 1;
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(names[i]);
        width = len > width ? len : width;
    }
    if (n == 0) { /* numpy's empty list: float64 */
        const pg__h5_attr a = {
            .name = attr, .type = {.cls = PG_H5_NUMBER, .dtype = PG_F64}, .rank = 1};
        return pg__h5_out_attr(h, path, &a, err);
    }
    PG_TRY(count_parts(&parts, attr, n, width, err));
    if (parts == 1 && like == PG_H5_STR_VLEN && n >= VLEN_NAMES)
        PG_TRY(count_parts(&parts, attr, n, width > VLEN_BYTES ? width : VLEN_BYTES, err));
    const pg__h5_dtype vlen = {.cls = PG_H5_STR_VLEN, .pad = 0};
    const pg__h5_dtype fixed = {.cls = PG_H5_STR_FIXED, .pad = 1, .size = (uint32_t)width};
    if (parts == 1) {
        st = write_part(h, path, attr, names, n, like == PG_H5_STR_VLEN ? &vlen : &fixed, err);
        goto done;
    }
    for (size_t k = 0; k < parts; k++) { /* numpy.array_split: the first n % parts get one more */
        char name[64];
        const size_t count = n / parts + (k < n % parts);
        (void)snprintf(name, sizeof name, "%s%zu", attr, k);
        PG_TRY(write_part(h, path, name, names, count, &fixed, err));
        names += count;
    }
done:
    return st;
}

/* Space of a dataset; PG_E_LIMIT if the size overflows. */
static pg_status data_bytes(uint64_t *out, const char *path, const pg__h5_dtype *type,
                            uint32_t rank, const uint64_t *dims, pg_err *err)
{
    uint64_t n = pg_dtype_bytes(type->dtype);
    int bad = rank > PG_MAX_RANK;
    for (uint32_t i = 0; i < rank && !bad; i++)
        bad = __builtin_mul_overflow(n, dims[i], &n) || n > INT64_MAX;
    if (bad)
        return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(path));
    *out = n;
    return PG_OK;
}

pg_status pg__h5_out_dataset(pg__h5_out *h, const char *path, const pg__h5_dtype *type,
                             uint32_t rank, const uint64_t *dims, size_t *id, pg_err *err)
{
    pg_status st = PG_OK;
    uint64_t n_bytes = 0;
    if (type->cls != PG_H5_NUMBER || !h->tree)
        return pg_fail(err, PG_E_ARG, "%s: datasets hold numbers, in a new file", PG_SHOW(path));
    if (pg__dtype_is_float8(type->dtype))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: Keras and h5py read no %s; safetensors holds it",
                       PG_SHOW(path), pg_dtype_name(type->dtype));
    PG_TRY(pg__h5_out_check_path(path, err));
    PG_TRY(data_bytes(&n_bytes, path, type, rank, dims, err));
    st = pg__h5_tree_dataset(h->tree, path, type, rank, dims, n_bytes, id, err);
done:
    return st;
}

pg_status pg__h5_out_finish(pg__h5_out *h, pg_err *err)
{
    return h->tree ? pg__h5_tree_finish(h->tree, err) : pg__h5_lib_end(h, err);
}

uint64_t pg__h5_out_bytes(const pg__h5_out *h)
{
    return pg__h5_tree_bytes(h->tree);
}

uint64_t pg__h5_out_offset(const pg__h5_out *h, size_t id)
{
    return pg__h5_tree_offset(h->tree, id);
}

pg_status pg__h5_out_flush(pg__h5_out *h, pg__sink *sink, uint64_t base, pg_err *err)
{
    return pg__h5_tree_flush(h->tree, sink, base, err);
}
