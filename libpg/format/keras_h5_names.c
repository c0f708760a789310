/* keras_h5_names.c - the lists of names that hold a legacy file together.
 *
 * Keras writes `layer_names` and `weight_names`, since 2.1.5 cut into `layer_names0` ... when they
 * exceed an object header. Each generation stores them in its own way (fixed or variable strings;
 * the empty list as float64), and loaders trust them blindly. So everything that a loader would
 * stumble over or be misled by is refused here. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/fmt_keras_h5.h"

int pg__keras_is_part(const char *attr, const char *key)
{
    const size_t n = strlen(key);
    if (strncmp(attr, key, n) != 0)
        return 0;
    return attr[n + strspn(attr + n, "0123456789")] == 0;
}

static pg_status check_name(const char *name, const char *where, const char *key, pg_err *err)
{
    const char *p = name;
    if (!*name)
        return pg_fail(err, PG_E_FORMAT, "%s: %s lists an empty name", where, key);
    do { /* Keras 2 lets a layer be called "a/" or "a//b": HDF5 goes to "a" and "a/b" */
        const size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return pg_fail(err, PG_E_FORMAT, "%s: %s lists \"%s\", which leads elsewhere", where,
                           key, PG_SHOW(name));
        p += n;
        p += strspn(p, "/");
    } while (*p);
    return PG_OK;
}

/* Sorts by the place that a name leads to; equal ones stay in the order of the list. */
static int by_place(const void *a, const void *b)
{
    const char **const *x = a, **const *y = b;
    const int c = pg__h5_path_compare(**x, **y);
    return c ? c : *x < *y ? -1 : *x > *y;
}

/* Keeps one of each name, for callers that read the rest of a damaged file anyway. */
static pg_status check_twice(pg__keras_names *names, const char *where, const char *key,
                             pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    const char ***sorted = pg__mem_array(names->n, sizeof *sorted);
    if (!sorted)
        return pg__nomem(err);
    for (size_t i = 0; i < names->n; i++)
        sorted[i] = &names->v[i];
    if (names->n)
        qsort(sorted, names->n, sizeof *sorted, by_place);
    for (size_t i = names->n; i-- > 1;) {
        if (pg__h5_path_compare(*sorted[i - 1], *sorted[i]) != 0)
            continue;
        st = strcmp(*sorted[i - 1], *sorted[i]) == 0
                 ? pg_fail(err, PG_E_FORMAT, "%s: %s lists \"%s\" twice", where, key,
                           PG_SHOW(*sorted[i]))
                 : pg_fail(err, PG_E_FORMAT, "%s: %s lists \"%s\" and \"%s\", which are one place",
                           where, key, PG_SHOW(*sorted[i - 1]), PG_SHOW(*sorted[i]));
        *sorted[i] = NULL;
    }
    for (size_t i = 0; i < names->n; i++)
        if (names->v[i])
            names->v[n++] = names->v[i];
    names->n = n;
    pg__mem_free(sorted);
    return st;
}

/* Appends the strings of one attribute. */
static pg_status add_part(pg__keras_names *out, size_t *cap, const pg__h5_attr *a,
                          const char *where, pg_err *err)
{
    pg_status st = PG_OK;
    if (a->rank != 1)
        PG_FAIL(PG_E_FORMAT, "%s: %s is not a list", where, PG_SHOW(a->name));
    if (a->n_elems == 0) /* float64 or strings: the type of an empty list does not matter */
        return PG_OK;
    if (a->type.cls == PG_H5_NUMBER || !a->strs)
        PG_FAIL(PG_E_FORMAT, "%s: %s is not a list of strings", where, PG_SHOW(a->name));
    out->cls = a->type.cls;
    if (a->n_elems > SIZE_MAX - out->n ||
        pg__mem_grow(&out->v, cap, out->n + (size_t)a->n_elems, sizeof *out->v))
        return pg__nomem(err);
    for (size_t i = 0; i < a->n_elems; i++) {
        if (strlen(a->strs[i]) != a->lens[i])
            PG_FAIL(PG_E_FORMAT, "%s: %s lists a name with a NUL inside", where, PG_SHOW(a->name));
        PG_TRY(check_name(a->strs[i], where, a->name, err));
        out->v[out->n++] = a->strs[i];
    }
done:
    return st;
}

/* Puts the numbered parts of `key` in order; a missing number leaves its place NULL. */
static void sort_parts(const pg__h5_attr **parts, size_t n, const pg__h5 *h5, uint32_t obj,
                       const char *key)
{
    for (uint32_t k = 0; k < pg__h5_at(h5, obj)->n_attrs; k++) {
        const pg__h5_attr *a = pg__h5_attr_at(h5, obj, k);
        if (!pg__keras_is_part(a->name, key))
            continue;
        const char *digits = a->name + strlen(key);
        size_t number = 0;
        for (const char *p = digits; *p && number < n; p++)
            number = number * 10 + (size_t)(*p - '0');
        if (*digits && (*digits != '0' || !digits[1]) && number < n)
            parts[number] = a;
    }
}

static pg_status add_parts(pg__keras_names *out, size_t *cap, const pg__h5 *h5, uint32_t obj,
                           const char *key, size_t n, const char *where, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__h5_attr **parts = pg__mem_array(n, sizeof *parts);
    if (!parts)
        return pg__nomem(err);
    sort_parts(parts, n, h5, obj, key);
    for (size_t k = 0; k < n; k++) {
        if (!parts[k])
            PG_FAIL(PG_E_FORMAT, "%s: %s%zu is missing among %zu parts of %s", where, key, k, n,
                    key);
        PG_TRY(add_part(out, cap, parts[k], where, err));
    }
done:
    pg__mem_free(parts);
    return st;
}

pg_status pg__keras_names_read(pg__keras_names *out, const pg__h5 *h5, uint32_t obj,
                               const char *key, pg_err *err)
{
    pg_status st = PG_OK;
    char where[200];
    size_t cap = 0, n_parts = 0;
    *out = (pg__keras_names){.cls = PG_H5_STR_FIXED};
    const pg__h5_attr *plain = pg__h5_attr_find(h5, obj, key);
    (void)pg__h5_path(h5, obj, where, sizeof where);
    for (uint32_t k = 0; k < pg__h5_at(h5, obj)->n_attrs; k++)
        n_parts += (size_t)pg__keras_is_part(pg__h5_attr_at(h5, obj, k)->name, key);
    n_parts -= plain != NULL;
    if (plain && n_parts)
        PG_FAIL(PG_E_FORMAT, "%s: both %s and numbered parts of it", where, key);
    out->present = plain || n_parts;
    out->chunked = n_parts > 0;
    if (plain)
        PG_TRY(add_part(out, &cap, plain, where, err));
    else
        PG_TRY(add_parts(out, &cap, h5, obj, key, n_parts, where, err));
    PG_TRY(check_twice(out, where, key, err));
done:
    return st;
}

void pg__keras_names_fini(pg__keras_names *n)
{
    pg__mem_free(n->v);
    *n = (pg__keras_names){0};
}
