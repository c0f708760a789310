/* fuzz_h5_open.c - what our reader passes is handed to libhdf5, which opens and reads everything: a
 * crash or a hang of libhdf5 after a pass is a bug of our reader, and so is a refusal to read.
 *
 * Of values of a type that it does not read, our reader promises nothing: where a file has some,
 * libhdf5 may refuse to read, datasets whose bytes lie elsewhere are left alone (a damaged heap of
 * theirs makes libhdf5 loop for ever), and so are all attributes (1.10 crashes where an object has
 * one of a type that it does not know). */
#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

#include "format/h5/h5_reader.h"
#include "keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_BYTES ((size_t)16 << 20) /* of one dataset; more is not read by either */

static int ours_passes(const uint8_t *data, size_t n, size_t *n_unread)
{
    const char *names[PG_H5_UNREAD];
    pg__io *io = NULL;
    pg__h5 *h = NULL;
    int pass = pg__io_open_mem(&io, data, n, NULL) == PG_OK && pg__h5_open(&h, io, NULL) == PG_OK;
    for (uint32_t i = 0; pass && i < pg__h5_n(h); i++) {
        const pg__h5_object *o = pg__h5_at(h, i);
        if (o->kind != PG_H5_DATASET || o->n_bytes > MAX_BYTES)
            continue;
        void *buf = malloc((size_t)o->n_bytes + 1);
        pass = buf && pg__h5_read(h, i, 0, buf, (size_t)o->n_bytes, NULL) == PG_OK;
        free(buf);
    }
    *n_unread = pass ? pg__h5_unread(h, names) : 0;
    pg__h5_close(h);
    pg__io_close(io);
    return pass;
}

static herr_t find_version(unsigned n, const H5E_error2_t *e, void *found)
{
    (void)n;
    *(int *)found |= strstr(e->desc, "bad version number for datatype message") != NULL;
    return 0;
}

/* 1 if the call that just failed did so for another reason than that this libhdf5 is older than
 * the file: our reader knows the types of HDF5 2.0. */
static int failed(void)
{
    int version = 0;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_version, &version);
    return !version;
}

/* Does libhdf5 allocate memory for values of this type? A text of any length may be a member. */
static int may_point(hid_t type)
{
    return H5Tis_variable_str(type) > 0 || H5Tdetect_class(type, H5T_VLEN) > 0 ||
           H5Tdetect_class(type, H5T_COMPOUND) > 0 || H5Tdetect_class(type, H5T_ARRAY) > 0;
}

/* What a visit of all objects has found. */
typedef struct {
    int bad;
    int unread; /* our reader passed over values */
} seen;

/* All values of an attribute (d < 0) or a dataset, in the type they have in memory. */
static int read_all(hid_t a, hid_t d, const seen *s)
{
    int bad = 0;
    const hid_t type = d < 0 ? H5Aget_type(a) : H5Dget_type(d);
    const hid_t space = d < 0 ? H5Aget_space(a) : H5Dget_space(d);
    const size_t size = H5Tget_size(type);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (type < 0 || space < 0 || count < 0)
        return 1;
    if (count > 0 && (size_t)count <= MAX_BYTES / size && (!s->unread || !may_point(type))) {
        hid_t mem = H5Tget_native_type(type, H5T_DIR_DEFAULT);
        if (mem < 0) /* floats that no machine has */
            mem = H5Tcopy(type);
        const size_t wide = H5Tget_size(mem) > size ? H5Tget_size(mem) : size;
        void *buf = calloc((size_t)count, wide);
        const herr_t rc =
            d < 0 ? H5Aread(a, mem, buf) : H5Dread(d, mem, H5S_ALL, H5S_ALL, H5P_DEFAULT, buf);
        bad = rc < 0 && failed();
        if (rc >= 0 && may_point(mem))
            H5Dvlen_reclaim(mem, space, H5P_DEFAULT, buf);
        free(buf);
        H5Tclose(mem);
    }
    H5Sclose(space);
    H5Tclose(type);
    return bad;
}

static herr_t visit_attr(hid_t obj, const char *name, const H5A_info_t *info, void *found)
{
    (void)info;
    seen *s = found;
    const hid_t a = H5Aopen(obj, name, H5P_DEFAULT);
    s->bad |= a < 0 ? failed() : read_all(a, -1, s);
    if (a >= 0)
        H5Aclose(a);
    return 0;
}

static herr_t visit(hid_t root, const char *name, const H5O_info_t *info, void *found)
{
    seen *s = found;
    const hid_t obj = H5Oopen(root, name, H5P_DEFAULT);
    if (obj < 0) {
        s->bad |= failed();
        return 0;
    }
    if (!s->unread && H5Aiterate2(obj, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_attr, s) < 0)
        s->bad |= failed();
    if (info->type == H5O_TYPE_DATASET)
        s->bad |= read_all(-1, obj, s);
    H5Oclose(obj);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t n_unread = 0;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (!ours_passes(data, n, &n_unread))
        return 0;
    keep(data, n);
    seen s = {.unread = n_unread > 0};
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(fapl, 1 << 16, 0);
    H5Pset_file_image(fapl, (void *)(uintptr_t)data, n);
    const hid_t file = H5Fopen("image", H5F_ACC_RDONLY, fapl);
    if (file < 0 || H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, &s) < 0)
        s.bad |= failed();
    if (file >= 0)
        H5Fclose(file);
    H5Pclose(fapl);
    if (s.bad && !n_unread) /* it is the oracle: what we accept it must be able to read */
        abort();
    return 0;
}
