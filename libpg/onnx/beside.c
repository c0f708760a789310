/* beside.c - the file of tensors beside an ONNX file: OUT.onnx.data.
 *
 * Two files cannot get their names in one step. So the data do first, and the model, which says how
 * they are called, is what counts: until it has its name, the new data are a file that nothing
 * refers to, which is removed if the model fails; only a kill between the two leaves it. Data that
 * a model refers to, the one that is replaced or another one of the folder (it may have been
 * renamed), are never overwritten: the new ones are then called OUT.onnx.data-2, and the next time
 * OUT.onnx.data again. Those of the replaced model go once the new one has its name. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bsd.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "onnx/onnx.h"

#define WINDOW ((size_t)64 << 10)
#define SECOND "-2"

static pg_status look(int *there, const char *path, pg_err *err)
{
    struct stat sb;
    *there = lstat(path, &sb) == 0;
    return *there || errno == ENOENT || errno == ENOTDIR
               ? PG_OK
               : pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(path));
}

static const char *without_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Does a window, behind which the file goes on or not, have the name, and not only as the first
 * part of the other one? */
static int has_name(const unsigned char *window, size_t m, int goes_on, const char *file)
{
    const size_t n = strlen(file), more = strlen(SECOND);
    const unsigned char *end = window + m;
    for (const unsigned char *at = window; (at = memmem(at, (size_t)(end - at), file, n)); at++) {
        const size_t left = (size_t)(end - at) - n;
        if (left < more ? !goes_on : memcmp(at + n, SECOND, more) != 0)
            return 1;
    }
    return 0;
}

/* Does the model name such a file? Wherever: nothing else in it looks like that. */
static pg_status names(int *out, const char *model, const char *file, pg_err *err)
{
    const size_t overlap = strlen(file) + strlen(SECOND);
    pg__io *io = NULL;
    unsigned char *window = pg__mem_array(WINDOW, 1);
    pg_status st = PG_OK;
    *out = 0;
    if (!window)
        return pg__nomem(err);
    PG_TRY(pg__io_open(&io, model, err));
    const uint64_t size = pg__io_size(io);
    for (uint64_t at = 0; at < size && !*out; at += WINDOW - overlap) {
        const size_t m = size - at < WINDOW ? (size_t)(size - at) : WINDOW;
        PG_TRY(pg__io_read(io, at, window, m, err));
        *out = has_name(window, m, at + m < size, file);
    }
done:
    pg__io_close(io);
    pg__mem_free(window);
    return st;
}

/* The same of a file of the folder; what cannot be read may. */
static int may_name(const char *model, const char *file)
{
    struct stat sb;
    int does = 0;
    if (stat(model, &sb) || !S_ISREG(sb.st_mode))
        return 0;
    return names(&does, model, file, NULL) != PG_OK || does;
}

static int is_model(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcasecmp(name + n - 5, ".onnx") == 0;
}

/* Do other models of the folder name the files? */
static pg_status look_around(pg__onnx_beside *b, const char *out, pg_err *err)
{
    const size_t n = (size_t)(without_folder(out) - out);
    pg__str path = {0};
    DIR *d = NULL;
    int sys = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__str_add(&path, out, n, err));
    PG_TRY(pg__folder_list_if(&d, path.s, err));
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys)); path.n = n) {
        if (!is_model(e->d_name) || strcmp(e->d_name, out + n) == 0)
            continue;
        PG_TRY(pg__str_puts(&path, e->d_name, err));
        for (size_t k = 0; k < 2; k++)
            b->is_used[k] |= b->is_there[k] && may_name(path.s, without_folder(b->paths[k].s));
    }
    if (sys)
        PG_TRY(pg_fail_sys(err, PG_E_IO, sys, "%s: its folder", PG_SHOW(out)));
done:
    if (d)
        closedir(d);
    pg__str_fini(&path);
    return st;
}

pg_status pg__onnx_beside_look(pg__onnx_beside *b, const char *out, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(look(&b->replaces, out, err));
    for (size_t k = 0; k < 2; k++) {
        PG_TRY(pg__str_printf(&b->paths[k], err, "%s.data%s", out, k ? SECOND : ""));
        PG_TRY(look(&b->is_there[k], b->paths[k].s, err));
        if (b->replaces && b->is_there[k])
            PG_TRY(names(&b->is_old[k], out, without_folder(b->paths[k].s), err));
    }
    if (b->is_there[0] || b->is_there[1])
        PG_TRY(look_around(b, out, err));
done:
    return st;
}

static int is_free(const pg__onnx_beside *b, size_t k)
{
    return !b->is_old[k] && !b->is_used[k];
}

pg_status pg__onnx_beside_open(pg__onnx_beside *b, const pg__sink_opts *opts, pg_err *err)
{
    /* Beside a model that is replaced, data that it does not need are somebody else's; if it needs
     * the others, a killed run has left them. */
    const int foreign = b->is_there[0] && b->replaces && !b->is_old[1];
    b->at = !is_free(b, 0) || (foreign && is_free(b, 1));
    if (!is_free(b, b->at))
        return pg_fail(err, PG_E_ARG,
                       "%s and %s: models need them; give the new model another name",
                       PG_SHOW(b->paths[0].s), PG_SHOW(b->paths[1].s));
    return pg__sink_open(&b->sink, b->paths[b->at].s, opts, err);
}

const char *pg__onnx_beside_path(const pg__onnx_beside *b)
{
    return b->paths[b->at].s;
}

const char *pg__onnx_beside_name(const pg__onnx_beside *b)
{
    return without_folder(b->paths[b->at].s);
}

pg_status pg__onnx_beside_commit(pg__onnx_beside *b, pg_err *err)
{
    return pg__sink_commit(b->sink, err);
}

void pg__onnx_beside_close(pg__onnx_beside *b, int has_model)
{
    if (b->sink && pg__sink_is_named(b->sink) && !has_model)
        (void)unlink(b->paths[b->at].s);
    pg__sink_close(b->sink);
    for (size_t k = 0; k < 2; k++) {
        if (has_model && b->is_old[k] && !b->is_used[k])
            (void)unlink(b->paths[k].s);
        pg__str_fini(&b->paths[k]);
    }
    *b = (pg__onnx_beside){.sink = NULL};
}
