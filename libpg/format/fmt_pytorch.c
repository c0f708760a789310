/* fmt_pytorch.c - knows PyTorch's own files and does not read them: they are pickles, programs for
 * a machine that can call any function, and need a reader that interprets only what tensors need.
 *
 *   ZIP      torch >= 1.6: NAME/data.pkl, NAME/data/0 ...; with code/ it is TorchScript
 *   stream   torch < 1.6: a pickle that begins with torch's magic number
 *   tar      torch < 0.1.10: sys_info, pickle, storages, tensors */
#include <string.h>

#include "base/try.h"
#include "format/format.h"
#include "format/identify.h"
#include "io/zip.h"

#define TAR_BYTES 512u

static const unsigned char stream_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9};

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

static int has_component(const char *name, const char *component)
{
    const size_t n = strlen(component);
    for (const char *p = name; (p = strstr(p, component)) != NULL; p++)
        if ((p == name || p[-1] == '/') && (p[n] == 0 || p[n] == '/'))
            return 1;
    return 0;
}

static pg_status open_zip(pg__io *io, pg_err *err)
{
    pg__zip *z = NULL;
    pg_status st = PG_OK;
    int pickle = 0, code = 0;
    PG_TRY(pg__zip_open(&z, io, err));
    for (size_t i = 0; i < pg__zip_n(z); i++) {
        pickle |= has_component(pg__zip_at(z, i)->name, "data.pkl");
        code |= has_component(pg__zip_at(z, i)->name, "code");
    }
    if (!pickle)
        PG_FAIL(PG_E_UNKNOWN, "a ZIP archive, but not one of PyTorch");
    st = pg__fail_pickle(code ? "a TorchScript program" : "a PyTorch pickle", err);
done:
    pg__zip_close(z);
    return st;
}

static pg_status open_pytorch(pg_store **out, pg__io *io, const char *path,
                              const pg_open_opts *opts, pg_err *err)
{
    unsigned char head[TAR_BYTES] = {0};
    const size_t n = pg__io_size(io) < TAR_BYTES ? (size_t)pg__io_size(io) : TAR_BYTES;
    (void)out, (void)path, (void)opts;
    const pg_status st = pg__io_read(io, 0, head, n, err);
    if (st != PG_OK)
        return st;
    if (is_stream(head, n))
        return pg__fail_pickle("a PyTorch pickle (torch before 1.6)", err);
    if (!is_tar_name(head, n))
        return open_zip(io, err);
    if (memcmp(head + 257, "ustar", 5) != 0)
        return pg_fail(err, PG_E_UNKNOWN, "not a tar archive");
    return pg__fail_pickle("a PyTorch pickle (tar archive, torch before 0.1.10)", err);
}

const pg__format pg__fmt_pytorch = {
    .name = "pytorch-zip",
    .probe = probe,
    .open = open_pytorch,
    .suffixes = ".pt\0.pth\0",
};
