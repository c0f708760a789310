/* h5_lib.c - new groups, attributes and links in an old file, through libhdf5 over h5_memory.c. A
 * whole new file is h5_tree.c's. */
#include "format/h5/h5_lib.h"

#include <hdf5.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/h5/h5_session.h"
#include "format/h5/h5_write_type.h"

/* The only way in which a failure of libhdf5 is reported: the object, the action, libhdf5's first
 * reason. */
pg_status pg__h5_lib_fail(const pg__h5_out *h, const char *path, const char *what, pg_err *err)
{
    char reason[160];
    if (h->mem.unread.code != PG_OK) { /* libhdf5 only passed this error on */
        if (err)
            *err = h->mem.unread;
        return h->mem.unread.code;
    }
    if (pg__h5_reason(reason, sizeof reason) || h->mem.failed)
        return pg__nomem(err);
    return pg_fail(err, PG_E_FORMAT, "%s: HDF5 cannot %s: %s", *path ? PG_SHOW(path) : "/", what,
                   reason);
}

/* From 2 KiB (the default) for small files up to 1 MiB: a twentieth of the metadata, so that little
 * of the last block is wasted. */
static hsize_t block_size(size_t n_objects)
{
    hsize_t size = 2048;
    while (size < (1u << 20) && size / 32 < n_objects)
        size *= 2;
    return size;
}

/* How much of its metadata libhdf5 caches: little, because most is never needed again and is in
 * memory anyway; but all of what grows (the names of a large group), because otherwise every new
 * object would read and write it once more. 20,000 links take a sixth less time than with the
 * default settings. */
static int keep_metadata(hid_t fapl)
{
    H5AC_cache_config_t c = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    if (H5Pget_mdc_config(fapl, &c) < 0)
        return -1;
    c.set_initial_size = 1;
    c.initial_size = c.min_size = 512u << 10;
    c.incr_mode = H5C_incr__off;
    c.decr_mode = H5C_decr__off;
    c.flash_incr_mode = H5C_flash_incr__add_space;
    c.flash_multiple = 2;
    c.flash_threshold = 0.25;
    return H5Pset_mdc_config(fapl, &c);
}

static int open_lists(pg__h5_out *h, size_t n_objects)
{
    h->fapl = H5Pcreate(H5P_FILE_ACCESS);
    h->lcpl = H5Pcreate(H5P_LINK_CREATE);
    h->gcpl = H5Pcreate(H5P_GROUP_CREATE);
    if (h->fapl < 0 || h->lcpl < 0 || h->gcpl < 0)
        return -1;
    h->driver = pg__h5_memory_attach(&h->mem, h->fapl);
    if (h->driver < 0 ||
        H5Pset_libver_bounds(h->fapl, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) < 0 ||
        H5Pset_fclose_degree(h->fapl, H5F_CLOSE_STRONG) < 0 ||
        H5Pset_meta_block_size(h->fapl, block_size(n_objects)) < 0 || keep_metadata(h->fapl) < 0)
        return -1;
#if H5_VERSION_GE(1, 12, 0) && defined H5VL_NATIVE
    if (H5Pset_vol(h->fapl, H5VL_NATIVE, NULL) < 0) /* regardless of HDF5_VOL_CONNECTOR */
        return -1;
#endif
    return H5Pset_create_intermediate_group(h->lcpl, 1) < 0 ||
           H5Pset_obj_track_times(h->gcpl, 0) < 0;
}

pg_status pg__h5_lib_begin(pg__h5_out *h, size_t n_objects, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_enter();
    if (open_lists(h, n_objects))
        st = pg__h5_lib_fail(h, "file", "be set up", err);
    pg__h5_leave();
    return st;
}

static void close_object(pg__h5_out *h)
{
    if (h->object >= 0)
        (void)H5Oclose(h->object);
    h->object = -1;
    pg__mem_free(h->object_path);
    h->object_path = NULL;
}

/* Closes everything of libhdf5; the memory stays. Returns -1 if the file could not be closed. */
static int close_all(pg__h5_out *h)
{
    int bad = 0;
    close_object(h);
    if (h->root >= 0)
        (void)H5Gclose(h->root);
    if (h->file >= 0)
        bad = H5Fclose(h->file) < 0;
    const hid_t lists[] = {h->fapl, h->lcpl, h->gcpl};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i] >= 0)
            (void)H5Pclose(lists[i]);
    if (h->driver >= 0)
        (void)H5FDunregister(h->driver);
    h->driver = h->file = h->root = h->fapl = h->lcpl = h->gcpl = -1;
    return -bad;
}

pg_status pg__h5_lib_end(pg__h5_out *h, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_enter();
    if (close_all(h) || h->mem.failed)
        st = pg__h5_lib_fail(h, "file", "close it", err);
    pg__h5_leave();
    pg__h5_memory_sort(&h->mem);
    return st;
}

void pg__h5_lib_fini(pg__h5_out *h)
{
    pg__h5_enter();
    (void)close_all(h);
    pg__h5_leave();
    pg__h5_memory_fini(&h->mem);
}

static pg_status keep_object(pg__h5_out *h, hid_t object, const char *path, pg_err *err)
{
    close_object(h);
    h->object = object;
    h->object_path = pg__mem_strdup(path);
    return h->object_path ? PG_OK : pg__nomem(err);
}

/* Opens the object at path and keeps it open: attributes of one object follow each other. */
static pg_status open_object(pg__h5_out *h, const char *path, pg_err *err)
{
    if (h->object >= 0 && h->object_path && strcmp(h->object_path, path) == 0)
        return PG_OK;
    const hid_t object = H5Oopen(h->root, *path ? path : ".", H5P_DEFAULT);
    return object < 0 ? pg__h5_lib_fail(h, path, "open it", err)
                      : keep_object(h, object, path, err);
}

int64_t pg__h5_lib_locate(const pg__h5_out *h, const char **path)
{
    const size_t n = h->object >= 0 && h->object_path ? strlen(h->object_path) : 0;
    if (n == 0 || strncmp(*path, h->object_path, n) != 0 || (*path)[n] != '/')
        return h->root;
    *path += n;
    *path += strspn(*path, "/"); /* "a//b" goes on with "b": "/b" would begin at the root again */
    return h->object;
}

pg_status pg__h5_lib_group(pg__h5_out *h, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_enter();
    hid_t g = H5Gcreate2(h->root, path, h->lcpl, h->gcpl, H5P_DEFAULT);
    if (g < 0) { /* nearly always it is new */
        (void)H5Eclear2(H5E_DEFAULT);
        g = H5Gopen2(h->root, path, H5P_DEFAULT);
    }
    if (g >= 0)
        st = keep_object(h, g, path, err);
    if (g < 0 || h->mem.failed)
        st = pg__h5_lib_fail(h, path, "create this group", err);
    pg__h5_leave();
    return st;
}

static hid_t make_space(uint32_t rank, const uint64_t *dims)
{
    hsize_t d[PG_MAX_RANK] = {0};
    if (rank == PG_H5_NULL)
        return H5Screate(H5S_NULL);
    if (rank == 0)
        return H5Screate(H5S_SCALAR);
    for (uint32_t i = 0; i < rank; i++)
        d[i] = dims[i];
    return H5Screate_simple((int)rank, d, NULL);
}

static pg_status write_attr(pg__h5_out *h, const char *path, const pg__h5_attr *a,
                            const pg__h5_dtype *type, const void *data, pg_err *err)
{
    pg_status st = PG_OK;
    hid_t space = -1, attr = -1;
    char what[200];
    const hid_t t = pg__h5_type_new(type);
    (void)snprintf(what, sizeof what, "write attribute %s", PG_SHOW(a->name));
    PG_TRY(open_object(h, path, err));
    space = make_space(a->rank, a->dims);
    if (t >= 0 && space >= 0)
        attr = H5Acreate2(h->object, a->name, t, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attr < 0 || (a->n_elems && a->rank != PG_H5_NULL && H5Awrite(attr, t, data) < 0) ||
        h->mem.failed)
        st = pg__h5_lib_fail(h, path, what, err);
done:
    if (attr >= 0)
        (void)H5Aclose(attr);
    if (space >= 0)
        (void)H5Sclose(space);
    if (t >= 0)
        (void)H5Tclose(t);
    return st;
}

pg_status pg__h5_lib_attr(pg__h5_out *h, const char *path, const pg__h5_attr *a,
                          const pg__h5_dtype *type, const void *data, pg_err *err)
{
    pg__h5_enter();
    const pg_status st = write_attr(h, path, a, type, data ? data : a->strs, err);
    pg__h5_leave();
    return st;
}
