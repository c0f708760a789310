/* h5_image.h - HDF5 files that libhdf5 makes, to be read, edited and refused. Included
 * after pg_test.h. */
#ifndef H5_IMAGE_H
#define H5_IMAGE_H

#include <hdf5.h>
#include <unistd.h>

#include "format/h5/h5_reader.h"

#define KERNEL "dense/dense/kernel:0"
#define BIAS   "dense/dense/bias:0"

typedef struct image {
    uint8_t *p;
    size_t n;
} image;

static char image_path[] = "/tmp/pg-test-image-XXXXXX";

/* A new file that HDF5 of these versions can read. On disk until its end, because
 * H5Fget_file_image() leaves a wrong checksum in newer superblocks. */
static inline hid_t image_begin_for(hid_t fcpl, H5F_libver_t low, H5F_libver_t high)
{
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    memcpy(image_path + sizeof image_path - 7, "XXXXXX", 6);
    const int fd = mkstemp(image_path);
    assert_true(fd >= 0);
    close(fd);
    H5Pset_libver_bounds(fapl, low, high);
    const hid_t f = H5Fcreate(image_path, H5F_ACC_TRUNC, fcpl, fapl);
    H5Pclose(fapl);
    assert_true(f >= 0);
    return f;
}

/* latest: with everything of HDF5 1.10 instead of 1.0's layouts. */
static inline hid_t image_begin_with(hid_t fcpl, int latest)
{
    return image_begin_for(fcpl, latest ? H5F_LIBVER_V110 : H5F_LIBVER_EARLIEST,
                           latest ? H5F_LIBVER_V110 : H5F_LIBVER_LATEST);
}

/* What HDF5 1.8 has: new groups, old chunk indexes. */
static inline hid_t image_begin_18(void)
{
    return image_begin_for(H5P_DEFAULT, H5F_LIBVER_V18, H5F_LIBVER_V18);
}

static inline hid_t image_begin(int latest)
{
    return image_begin_with(H5P_DEFAULT, latest);
}

static inline image image_load(const char *path)
{
    image im = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    im.n = (size_t)ftell(f);
    rewind(f);
    im.p = malloc(im.n + 1);
    assert_true(im.p && fread(im.p, 1, im.n, f) == im.n);
    fclose(f);
    return im;
}

/* Closes the file and takes its bytes; the caller frees p. */
static inline image image_end(hid_t f)
{
    assert_true(H5Fclose(f) >= 0);
    const image im = image_load(image_path);
    unlink(image_path);
    return im;
}

static inline hid_t image_space(int rank, const hsize_t *dims)
{
    return rank ? H5Screate_simple(rank, dims, NULL) : H5Screate(H5S_SCALAR);
}

/* A dataset with the values 0, 1, 2 ... (converted from int); NULL dcpl: contiguous. Missing
 * groups are made. write 0: it gets no values. */
static inline void image_dataset(hid_t f, const char *path, hid_t type, int rank,
                                 const hsize_t *dims, hid_t dcpl, int write)
{
    const hid_t lcpl = H5Pcreate(H5P_LINK_CREATE), space = image_space(rank, dims);
    H5Pset_create_intermediate_group(lcpl, 1);
    const hid_t d = H5Dcreate2(f, path, type, space, lcpl, dcpl, H5P_DEFAULT);
    assert_true(d >= 0);
    if (write) {
        const size_t n = (size_t)H5Sget_simple_extent_npoints(space);
        int *values = calloc(n ? n : 1, sizeof *values);
        assert_non_null(values);
        for (size_t i = 0; i < n; i++)
            values[i] = (int)i;
        assert_true(H5Dwrite(d, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
        free(values);
    }
    H5Dclose(d);
    H5Sclose(space);
    H5Pclose(lcpl);
}

static inline hid_t image_group(hid_t f, const char *path)
{
    const hid_t lcpl = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(lcpl, 1);
    const hid_t g = H5Gcreate2(f, path, lcpl, H5P_DEFAULT, H5P_DEFAULT);
    H5Pclose(lcpl);
    assert_true(g >= 0);
    return g;
}

/* An attribute of n elements (n < 0: a scalar) on the object at path. */
static inline void image_attr(hid_t f, const char *path, const char *name, hid_t type, int n,
                              const void *values)
{
    const hsize_t dims[] = {(hsize_t)(n < 0 ? 1 : n)};
    const hid_t space = image_space(n >= 0, dims);
    const hid_t a =
        H5Acreate_by_name(f, path, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(a >= 0);
    if (values)
        assert_true(H5Awrite(a, type, values) >= 0);
    H5Aclose(a);
    H5Sclose(space);
}

/* size H5T_VARIABLE or bytes; utf8, pad as in h5_types.h. The caller closes it. */
static inline hid_t image_string(size_t size, int utf8, int pad)
{
    const hid_t t = H5Tcopy(H5T_C_S1);
    H5Tset_size(t, size);
    H5Tset_cset(t, utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII);
    H5Tset_strpad(t, (H5T_str_t)pad);
    return t;
}

/* What Keras 2.2 writes, two layers of it, plus a free block in each heap and global heap. */
static inline hid_t image_keras(void)
{
    static const char *const layers[] = {"dense", "dense_1"};
    const char *version = "2.2.4";
    const hid_t f = image_begin(0), s7 = image_string(7, 0, 1), s16 = image_string(16, 0, 1);
    const hid_t vlen = image_string(H5T_VARIABLE, 0, 0);
    for (int i = 0; i < 2; i++) {
        char path[64], names[2][16] = {{0}};
        snprintf(path, sizeof path, "%s/%s/kernel:0", layers[i], layers[i]);
        image_dataset(f, path, H5T_IEEE_F32LE, 2, (hsize_t[]){3, 4}, H5P_DEFAULT, 1);
        snprintf(path, sizeof path, "%s/%s/bias:0", layers[i], layers[i]);
        image_dataset(f, path, H5T_IEEE_F32LE, 1, (hsize_t[]){4}, H5P_DEFAULT, 1);
        memcpy(names[0], i ? "dense_1/kernel:0" : "dense/kernel:0", i ? 16 : 14);
        memcpy(names[1], i ? "dense_1/bias:0" : "dense/bias:0", i ? 14 : 12);
        image_attr(f, layers[i], "weight_names", s16, 2, names);
    }
    image_attr(f, "/", "layer_names", s7, 2, "dense\0\0dense_1");
    image_attr(f, "/", "keras_version", vlen, -1, &version);
    H5Tclose(s7);
    H5Tclose(s16);
    H5Tclose(vlen);
    return f;
}

static inline pg_status image_open(pg__h5 **h, image im, pg_err *err)
{
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, im.p, im.n, NULL));
    const pg_status st = pg__h5_open(h, io, err);
    pg__io_close(io);
    return st;
}

static inline image keras(void)
{
    return image_end(image_keras());
}

static inline pg__h5 *opened(image im)
{
    pg__h5 *h = NULL;
    pg_err err = {0};
    if (image_open(&h, im, &err) != PG_OK)
        fail_msg("refused: %s", err.msg);
    return h;
}

/* Opening fails with that code and those words; frees the image. */
static inline void refused(image im, const char *label, pg_status code, const char *words)
{
    pg__h5 *h = NULL;
    pg_err err = {0};
    const pg_status st = image_open(&h, im, &err);
    if (st != code || !strstr(err.msg, words) || strchr(err.msg, '\n'))
        fail_msg("%s: %s (%s), not %s (...%s...)", label, pg_status_name(st), err.msg,
                 pg_status_name(code), words);
    assert_null(h);
    free(im.p);
}

#endif
