/* test_data.c - rows and what the model gives for them, as ONNX keeps the data of its own tests: a
 * folder with a TensorProto for each input and output, so that any runtime can be asked.
 *
 * The folder is made under a temporary name and renamed as a whole; one that it replaces waits
 * inside the temporary until the model has its name, and comes back if that fails. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/onnx.h"
#include "io/folder.h"
#include "io/system.h"
#include "onnx/predict.h"

#define SET "test_data_set_0"

/* ---- folders ---- */

/* Names of our own making, at each depth. */
static int is_ours(const char *name, unsigned depth)
{
    const size_t n = strlen(name);
    return depth == 0 ? strncmp(name, "test_data_set_", 14) == 0
                      : depth == 1 &&
                            ((n > 3 && strcmp(name + n - 3, ".pb") == 0) ||
                             strncmp(name, ".input_", 7) == 0 || strncmp(name, ".output_", 8) == 0);
}

static void add_found(int found, int *foreign, int *sys)
{
    *foreign |= found > 0;
    if (found < 0)
        *sys = -found;
}

/* Looks for what is not of a test, or removes what is: 1 if there is something else, -errno if a
 * folder cannot be read. Allocates nothing: the lack of memory may be why it is removed. */
static int walk(char path[PATH_MAX], unsigned depth, int remove)
{
    const size_t n = strlen(path);
    int foreign = 0, sys = 0, end = 0;
    DIR *d = pg__folder_list(path);
    if (!d)
        sys = errno;
    for (const struct dirent *e; d && (e = pg__folder_next(d, &end));) {
        struct stat sb;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        const int m = snprintf(path + n, PATH_MAX - n, "/%s", e->d_name);
        if (!is_ours(e->d_name, depth) || (size_t)m >= PATH_MAX - n || lstat(path, &sb) ||
            S_ISDIR(sb.st_mode) != (depth == 0))
            foreign = 1;
        else if (depth == 0)
            add_found(walk(path, 1, remove), &foreign, &sys);
        else if (remove)
            (void)unlink(path);
        path[n] = 0;
    }
    if (end)
        sys = end;
    if (d)
        closedir(d);
    if (!d && remove && depth == 0) { /* no descriptor is left: an empty one goes unseen */
        (void)snprintf(path + n, PATH_MAX - n, "/test_data_set_0");
        (void)rmdir(path);
        path[n] = 0;
    }
    if (remove)
        (void)rmdir(path);
    return foreign ? 1 : -sys;
}

/* name: of a folder below, or "". */
static int walk_below(const char *folder, const char *name, int remove)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s%s", folder, *name ? "/" : "", name);
    return (size_t)n >= sizeof path ? 1 : walk(path, 0, remove);
}

/* Again where a call failed once: what stays is litter until the next run. */
static void remove_below(const char *folder, const char *name)
{
    if (walk_below(folder, name, 1))
        (void)walk_below(folder, name, 1);
}

pg_status pg__onnx_test_check(pg__onnx_test *t, const char *out, int force, pg_err *err)
{
    struct stat sb;
    pg_status st = PG_OK;
    t->path.n = 0;
    PG_TRY(pg__str_printf(&t->path, err, "%s.test", out));
    if (lstat(t->path.s, &sb))
        goto done; /* what else is wrong shows when it is made */
    if (!force) {
        (void)pg_fail(err, PG_E_ARG, "%s exists", PG_SHOW(t->path.s));
        pg_err_do(err, PG_DO_OVERWRITE, t->path.s);
        st = PG_E_ARG;
        goto done;
    }
    const int found = S_ISDIR(sb.st_mode) ? walk_below(t->path.s, "", 0) : 1;
    if (found < 0)
        PG_TRY(pg_fail_sys(err, PG_E_IO, -found, "%s", PG_SHOW(t->path.s)));
    if (found)
        PG_FAIL(PG_E_ARG, "%s: is not only test data; nothing written", PG_SHOW(t->path.s));
done:
    return st;
}

static void remove_temporary(const char *folder)
{
    remove_below(folder, "new");
    remove_below(folder, "older");
    (void)rmdir(folder);
}

/* The temporary of a run that has ended, whose lock is free; a folder that it was replacing comes
 * back. */
static void tidy(const pg__onnx_test *t, const char *folder)
{
    pg__str older = {0};
    struct stat sb;
    const int fd = pg__folder_open(folder, 0);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        pg__str_printf(&older, NULL, "%s/older", folder) == PG_OK) {
        if (lstat(t->path.s, &sb) && errno == ENOENT)
            (void)rename(older.s, t->path.s);
        remove_temporary(folder);
    }
    if (fd >= 0)
        close(fd);
    pg__str_fini(&older);
}

/* like: ".../.NAME.pg-XXXXXX"; `n` bytes of it are the folder. */
static void tidy_all(const pg__onnx_test *t, const pg__str *like, size_t n)
{
    const size_t length = like->n - n;
    pg__str path = {0};
    int sys = 0;
    DIR *d =
        pg__str_add(&path, like->s, n, NULL) == PG_OK ? pg__folder_list(n ? path.s : ".") : NULL;
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys));) {
        if (strlen(e->d_name) != length || strncmp(e->d_name, like->s + n, length - 6) != 0 ||
            pg__str_puts(&path, e->d_name, NULL) != PG_OK)
            continue;
        tidy(t, path.s);
        path.n = n;
        path.s[n] = 0;
    }
    if (d)
        closedir(d);
    pg__str_fini(&path);
}

/* ".NAME.pg-XXXXXX" beside it. */
static pg_status make_temporary(pg__onnx_test *t, pg_err *err)
{
    const char *slash = strrchr(t->path.s, '/');
    const size_t n = slash ? (size_t)(slash - t->path.s) + 1 : 0;
    pg__str name = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_add(&name, t->path.s, n, err));
    PG_TRY(pg__str_printf(&name, err, ".%s.pg-XXXXXX", t->path.s + n));
    tidy_all(t, &name, n);
    if (!mkdtemp(name.s))
        PG_TRY(pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(t->path.s)));
    t->temporary = name;
    name = (pg__str){0};
    t->lock = 1 + pg__folder_open(t->temporary.s, 0);
    if (t->lock)
        (void)flock(t->lock - 1, LOCK_EX | LOCK_NB); /* so that another run leaves it alone */
    PG_TRY(pg__str_printf(&t->older, err, "%s/older", t->temporary.s));
done:
    pg__str_fini(&name);
    return st;
}

/* ---- tensors ---- */

typedef struct array {
    const char *stem, *name;
    size_t k;
    pg_dtype dtype;
    const pg__dims *dims;
    const unsigned char *values;
    int is_image; /* it is written with channels first */
} array;

static uint64_t n_elems(const pg__dims *d)
{
    return pg__dims_elems(d);
}

/* Elements with the channels in front, as an image goes into the graph. */
static void turn(unsigned char *to, const unsigned char *from, const pg__dims *d, size_t each)
{
    const uint64_t cells = d->d[1] * d->d[2], channels = d->d[3];
    for (uint64_t r = 0; r < d->d[0]; r++)
        for (uint64_t c = 0; c < channels; c++)
            for (uint64_t i = 0; i < cells; i++)
                memcpy(to + ((r * channels + c) * cells + i) * each,
                       from + ((r * cells + i) * channels + c) * each, each);
}

static void to_little_endian(unsigned char *p, uint64_t n, size_t each)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return;
    for (uint64_t i = 0; i < n; i++)
        for (size_t k = 0; k < each / 2; k++) {
            const unsigned char b = p[i * each + k];
            p[i * each + k] = p[i * each + each - 1 - k];
            p[i * each + each - 1 - k] = b;
        }
}

static pg_status add_tensor(pg__str *out, const array *a, pg_err *err)
{
    const size_t each = pg_dtype_bytes(a->dtype);
    const uint64_t n = n_elems(a->dims);
    pg_weight w = {.dtype = a->dtype, .rank = a->dims->rank};
    unsigned char *data = pg__mem_array((size_t)n, each);
    pg_status st = PG_OK;
    if (!data)
        return pg__nomem(err);
    for (uint32_t k = 0; k < w.rank; k++)
        w.dims[k] = a->dims->d[a->is_image ? pg__onnx_first(4).p[k] : k];
    if (a->is_image)
        turn(data, a->values, a->dims, each);
    else
        memcpy(data, a->values, (size_t)n * each);
    to_little_endian(data, n, each);
    PG_TRY(pg__onnx_tensor_head(out, &w, a->name, err));
    PG_TRY(pg__proto_put_bytes(out, PG_ONNX_RAW, data, (size_t)n * each, err));
done:
    pg__mem_free(data);
    return st;
}

static pg_status write_tensor(const pg__onnx_test *t, const pg__onnx *x, const array *a,
                              pg_err *err)
{
    const pg__sink_opts opts = {
        .no_sync = x->o->write.no_sync, .fresh = 1, .cancel = x->o->write.cancel};
    pg__str path = {0}, message = {0};
    pg__sink *sink = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&path, err, "%s/new/" SET "/%s_%zu.pb", t->temporary.s, a->stem, a->k));
    PG_TRY(add_tensor(&message, a, err));
    PG_TRY(pg__sink_open(&sink, path.s, &opts, err));
    PG_TRY(pg__sink_write(sink, 0, message.s, message.n, err));
    PG_TRY(pg__sink_commit(sink, err));
done:
    pg__sink_close(sink);
    pg__str_fini(&path);
    pg__str_fini(&message);
    return st;
}

pg_status pg__onnx_test_write(pg__onnx_test *t, const pg__onnx *x, const pg__onnx_rows *r,
                              pg_err *err)
{
    pg__str set = {0};
    pg_status st = PG_OK;
    PG_TRY(make_temporary(t, err));
    PG_TRY(pg__str_printf(&set, err, "%s/new/" SET, t->temporary.s));
    PG_TRY(pg__folder_make(set.s, t->temporary.n, err));
    for (size_t k = 0; k < r->n_inputs; k++) {
        const pg_array *a = &r->inputs[k];
        const pg__dims d = pg__dims_of(a->rank, a->dims);
        const array in = {"input",
                          x->g.names.v[x->inputs[k]],
                          k,
                          a->dtype,
                          &d,
                          a->values,
                          pg__onnx_is_image(x, x->low->inputs[k])};
        PG_TRY(write_tensor(t, x, &in, err));
    }
    for (size_t k = 0; k < r->n_outputs; k++) {
        const pg_weight *w = &r->outputs[k];
        const pg__dims d = pg__dims_of(w->rank, w->dims);
        const array out = {"output",
                           x->g.names.v[x->outputs[k]],
                           k,
                           w->dtype,
                           &d,
                           r->given[k],
                           pg__onnx_is_image(x, x->low->outputs[k])};
        PG_TRY(write_tensor(t, x, &out, err));
    }
done:
    pg__str_fini(&set);
    return st;
}

/* ---- names ---- */

pg_status pg__onnx_test_commit(pg__onnx_test *t, pg_err *err)
{
    pg__str made = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&made, err, "%s/new", t->temporary.s));
    PG_TRY(pg__folder_sync(made.s, err)); /* the files' own folder is synced with each of them */
    if (pg__sys_exchange(made.s, t->path.s) == 0) {
        t->is_named = t->is_exchanged = 1;
        pg__str_fini(&t->older);
        t->older = made;
        made = (pg__str){0};
    } else { /* there is none, or this file system cannot */
        if (errno != ENOENT && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
            PG_TRY(pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be replaced", PG_SHOW(t->path.s)));
        if (rename(t->path.s, t->older.s) && errno != ENOENT)
            PG_TRY(pg_fail_sys(err, PG_E_IO, errno, "%s: cannot be replaced", PG_SHOW(t->path.s)));
        if (rename(made.s, t->path.s))
            PG_TRY(pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(t->path.s)));
        t->is_named = 1;
    }
    PG_TRY(pg__folder_sync_above(t->path.s, err));
done:
    pg__str_fini(&made);
    return st;
}

void pg__onnx_test_close(pg__onnx_test *t, int has_model)
{
    int stays = 0; /* the only copy of what was there before */
    const int is_back =
        t->is_exchanged && !has_model && pg__sys_exchange(t->older.s, t->path.s) == 0;
    if (t->is_named && !has_model && !is_back)
        remove_below(t->path.s, "");
    if (t->older.s && !has_model && !is_back)
        stays = rename(t->older.s, t->path.s) != 0 && errno != ENOENT;
    if (stays && t->is_exchanged) { /* where the next run looks for it */
        char older[PATH_MAX];
        if (snprintf(older, sizeof older, "%s/older", t->temporary.s) < (int)sizeof older)
            (void)rename(t->older.s, older);
    }
    if (t->temporary.s && !stays)
        remove_temporary(t->temporary.s);
    if (t->lock)
        close(t->lock - 1);
    pg__str_fini(&t->path);
    pg__str_fini(&t->temporary);
    pg__str_fini(&t->older);
    *t = (pg__onnx_test){.is_named = 0};
}
