/* beside.c - the file of tensors beside an ONNX file: OUT.onnx.data.
 *
 * Two files cannot get their names in one step. So the data do first, and the model, which says how
 * they are called, is what counts: until it has its name, the new data are a file that nothing
 * refers to, which is removed if the model fails; only a kill between the two leaves it. Data that
 * an older model of the same name refers to are never overwritten: the new ones are then called
 * OUT.onnx.data-2 (and the next time OUT.onnx.data again), and the old ones go once the new model
 * has its name. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/try.h"
#include "onnx/onnx.h"

#define WINDOW ((size_t)64 << 10)

static pg_status look(int *there, const char *path, pg_err *err)
{
    struct stat sb;
    *there = lstat(path, &sb) == 0;
    return *there || errno == ENOENT || errno == ENOTDIR
               ? PG_OK
               : pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(path));
}

static void swap(pg__str *a, pg__str *b)
{
    const pg__str t = *a;
    *a = *b;
    *b = t;
}

static const char *without_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Does the model name such a file? Wherever: nothing else in it looks like that. */
static pg_status names(int *out, const char *model, const char *file, pg_err *err)
{
    const size_t n = strlen(file);
    pg__io *io = NULL;
    unsigned char *window = pg__mem_array(WINDOW, 1);
    pg_status st = PG_OK;
    *out = 0;
    if (!window)
        return pg__nomem(err);
    PG_TRY(pg__io_open(&io, model, err));
    const uint64_t size = pg__io_size(io);
    for (uint64_t at = 0; at + n <= size && !*out; at += WINDOW - n) {
        const size_t m = size - at < WINDOW ? (size_t)(size - at) : WINDOW;
        PG_TRY(pg__io_read(io, at, window, m, err));
        *out = memmem(window, m, file, n) != NULL;
    }
done:
    pg__io_close(io);
    pg__mem_free(window);
    return st;
}

pg_status pg__onnx_beside_open(pg__onnx_beside *b, const char *out, const pg__sink_opts *opts,
                               pg_err *err)
{
    pg_status st = PG_OK;
    int used = 0, there = 0;
    PG_TRY(pg__str_printf(&b->path, err, "%s.data", out));
    PG_TRY(pg__str_printf(&b->other, err, "%s.data-2", out));
    PG_TRY(look(&b->replaces, out, err));
    if (b->replaces) {
        PG_TRY(names(&used, out, without_folder(b->other.s), err));
        PG_TRY(look(&there, b->path.s, err));
    }
    if (there && !used)
        swap(&b->path, &b->other);
    PG_TRY(pg__sink_open(&b->sink, b->path.s, opts, err));
done:
    return st;
}

const char *pg__onnx_beside_name(const pg__onnx_beside *b)
{
    return without_folder(b->path.s);
}

pg_status pg__onnx_beside_commit(pg__onnx_beside *b, pg_err *err)
{
    return pg__sink_commit(b->sink, err);
}

void pg__onnx_beside_close(pg__onnx_beside *b, int has_model)
{
    const int is_named = b->sink && pg__sink_is_named(b->sink);
    if (is_named && !has_model)
        (void)unlink(b->path.s);
    if (is_named && has_model && b->replaces)
        (void)unlink(b->other.s);
    pg__sink_close(b->sink);
    pg__str_fini(&b->path);
    pg__str_fini(&b->other);
    *b = (pg__onnx_beside){.sink = NULL};
}
