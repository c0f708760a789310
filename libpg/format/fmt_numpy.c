/* fmt_numpy.c - knows NumPy's files (.npy, .npz) and says why they are not read: arrays alone are
 * no checkpoint until something says which layer each belongs to, and an array of Python objects is
 * a pickle. (NumPy's format.py; keras-made "rescue" files are such object arrays.) */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/format.h"
#include "format/identify.h"
#include "io/zip.h"

#define MAGIC        "\x93NUMPY"
#define MAGIC_BYTES  6u
#define PREFIX_BYTES 12u /* magic, version, length of the header in 2 or 4 bytes */
#define LOOK_BYTES   512u
#define UNPACK_BYTES ((uint64_t)1 << 20)

static int is_npy(const uint8_t *head, size_t n)
{
    return n >= MAGIC_BYTES && memcmp(head, MAGIC, MAGIC_BYTES) == 0;
}

static int probe(const uint8_t *head, size_t n)
{
    return (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) || is_npy(head, n);
}

/* 1 if the header of an array, in the first n bytes of its file, says that it holds objects:
 * 'descr' is '|O', or a list of fields one of which is. */
static int holds_objects(const char *bytes, size_t n)
{
    char text[LOOK_BYTES + 1] = "";
    const size_t skip = n < PREFIX_BYTES ? n : PREFIX_BYTES - (bytes[MAGIC_BYTES] == 1 ? 2 : 0);
    memcpy(text, bytes + skip, n - skip);
    for (size_t i = 0; i < n - skip; i++)
        if (text[i] == 0)
            text[i] = ' ';
    return strstr(text, "'|O'") || strstr(text, "'O'") || strstr(text, "\"|O\"");
}

static pg_status fail_array(const char *what, const char *how, pg_err *err)
{
    (void)pg_fail(err, PG_E_UNSUPPORTED,
                  "%s; reading NumPy files comes with pgjoin, which this version does not have",
                  what);
    pg_err_hint(err, "in Python: safetensors.numpy.save_file(%s, \"weights.safetensors\")", how);
    return PG_E_UNSUPPORTED;
}

static pg_status open_npy(pg__io *io, pg_err *err)
{
    char head[LOOK_BYTES] = "";
    const size_t n = pg__io_size(io) < sizeof head ? (size_t)pg__io_size(io) : sizeof head;
    const pg_status st = pg__io_read(io, 0, head, n, err);
    if (st != PG_OK)
        return st;
    if (holds_objects(head, n))
        return pg__fail_pickle("a pickle (NumPy array of Python objects)", err);
    return fail_array("a NumPy array (.npy)", "{\"name\": numpy.load(FILE)}", err);
}

/* Whether member i holds objects. Compressed ones are unpacked for that only if they are small. */
static pg_status look_at_member(int *objects, pg__io *io, pg__zip *z, size_t i, pg_err *err)
{
    const pg__zip_member *m = pg__zip_at(z, i);
    char head[LOOK_BYTES] = "", *all = NULL;
    const size_t n = m->n < sizeof head ? (size_t)m->n : sizeof head;
    *objects = 0;
    if (m->deflated && m->n > UNPACK_BYTES)
        return PG_OK;
    const pg_status st = m->deflated ? pg__zip_load(z, i, UNPACK_BYTES, &all, NULL, err)
                                     : pg__io_read(io, m->data_off, head, n, err);
    if (st != PG_OK)
        return st;
    if (all)
        memcpy(head, all, n);
    pg__mem_free(all);
    *objects = is_npy((const uint8_t *)head, n) && holds_objects(head, n);
    return PG_OK;
}

static int is_array_name(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".npy") == 0;
}

static pg_status open_npz(pg__io *io, pg_err *err)
{
    pg__zip *z = NULL;
    pg_status st = PG_OK;
    int objects = 0;
    PG_TRY(pg__zip_open(&z, io, err));
    const size_t n = pg__zip_n(z);
    for (size_t i = 0; i < n; i++)
        if (!is_array_name(pg__zip_at(z, i)->name))
            PG_FAIL(PG_E_UNKNOWN, "a ZIP archive, but not one of NumPy");
    for (size_t i = 0; i < n; i++) {
        PG_TRY(look_at_member(&objects, io, z, i, err));
        if (objects) {
            st = pg__fail_pickle("a pickle (NumPy array of Python objects)", err);
            pg_err_prefix(err, PG_SHOW(pg__zip_at(z, i)->name));
            goto done;
        }
    }
    st = n ? fail_array("NumPy arrays (.npz)", "dict(numpy.load(FILE))", err)
           : pg_fail(err, PG_E_UNKNOWN, "an empty ZIP archive");
done:
    pg__zip_close(z);
    return st;
}

static pg_status open_numpy(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                            pg_err *err)
{
    uint8_t head[MAGIC_BYTES] = {0};
    (void)out, (void)path, (void)opts;
    const size_t n = pg__io_size(io) < sizeof head ? (size_t)pg__io_size(io) : sizeof head;
    const pg_status st = pg__io_read(io, 0, head, n, err);
    if (st != PG_OK)
        return st;
    return is_npy(head, n) ? open_npy(io, err) : open_npz(io, err);
}

const pg__format pg__fmt_numpy = {
    .name = "numpy",
    .probe = probe,
    .open = open_numpy,
    .suffixes = ".npy\0.npz\0",
};
