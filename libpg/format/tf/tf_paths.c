/* tf_paths.c - from what people name (a prefix, a data file, a folder, a SavedModel) to the index
 * of the checkpoint. */
#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/tf/tf.h"
#include "io/folder.h"

#define LIST      "checkpoint" /* a text that names the newest checkpoint of a folder */
#define LIST_MOST 65536u       /* tf.train.Saver keeps five names in it, some people all */
#define VARIABLES "variables/variables.index"

/* Sets *out to the path if a file is there. */
static pg_status take_if_there(char **out, const char *folder, size_t n_folder, const char *name,
                               size_t n_name, const char *end, pg_err *err)
{
    pg__str path = {0};
    pg_status st = PG_OK;
    int is = 0;
    PG_TRY(pg__str_printf(&path, err, "%.*s%.*s%s", (int)n_folder, folder, (int)n_name, name, end));
    PG_TRY(pg__is_file(&is, path.s, err));
    if (is) {
        *out = path.s;
        path.s = NULL;
    }
done:
    pg__str_fini(&path);
    return st;
}

/* The value of model_checkpoint_path: "..." in the text, or NULL. */
static const char *newest(const char *text, size_t *n)
{
    static const char key[] = "model_checkpoint_path:";
    const char *p = strncmp(text, key, sizeof key - 1) == 0 ? text + sizeof key - 1 : NULL;
    const char *begin = p ? strchr(p, '"') : NULL, *end = begin ? strchr(begin + 1, '"') : NULL;
    if (!end)
        return NULL;
    *n = (size_t)(end - begin - 1);
    return begin + 1;
}

/* A list is a text of a stranger: it opens nothing outside of its folder. */
static int leads_out(const char *name, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (name[i] == '.' && name[i + 1] == '.')
            return 1;
    return n == 0 || name[0] == '/';
}

/* The checkpoint that the list in a folder names; folder ends with a slash or is empty. A folder
 * may have been moved since, so its own file comes first. *out stays NULL if there is no list. */
static pg_status by_list(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    pg__io *io = NULL;
    char *text = NULL;
    size_t n = 0;
    const size_t n_folder = strlen(folder);
    PG_TRY(pg__str_printf(&path, err, "%s" LIST, folder));
    PG_TRY(pg__io_open_if(&io, path.s, err));
    if (!io || pg__io_size(io) > LIST_MOST)
        goto done;
    text = pg__mem_array((size_t)pg__io_size(io) + 1, 1);
    if (!text)
        PG_TRY(pg__nomem(err));
    st = pg__io_read(io, 0, text, (size_t)pg__io_size(io), err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(path.s));
        goto done;
    }
    const char *name = newest(text, &n);
    if (!name)
        goto done;
    size_t skip = n;
    while (skip && name[skip - 1] != '/' && name[skip - 1] != '\\') /* of Windows, too */
        skip--;
    if (n - skip == 1 && name[skip] == '.') /* save_weights("folder/") */
        skip++;
    PG_TRY(take_if_there(out, folder, n_folder, name + skip, n - skip, ".index", err));
    if (!*out && !leads_out(name, n))
        PG_TRY(take_if_there(out, folder, n_folder, name, n, ".index", err));
    if (!*out) {
        char shown[160];
        PG_FAIL(PG_E_FORMAT, "%s names %s, but its .index is missing", PG_SHOW(path.s),
                pg__printable(shown, sizeof shown, name, n));
    }
done:
    pg__mem_free(text);
    pg__io_close(io);
    pg__str_fini(&path);
    return st;
}

/* The only index in a folder. */
static pg_status by_search(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs found = {0};
    int sys = 0;
    DIR *d = NULL;
    PG_TRY(pg__folder_list_if(&d, folder, err));
    for (const struct dirent *e; st == PG_OK && d && (e = pg__folder_next(d, &sys));) {
        const size_t n = strlen(e->d_name);
        if (n <= 6 || strcmp(e->d_name + n - 6, ".index") != 0)
            continue;
        st = pg__strs_add(&found, e->d_name, n, err);
    }
    if (d)
        closedir(d);
    if (st == PG_OK && sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(*folder ? folder : "."));
    if (st != PG_OK || found.n == 0)
        goto done;
    pg__strs_sort(&found);
    if (found.n > 1) {
        (void)pg_fail(err, PG_E_AMBIGUOUS, "%s holds %zu TensorFlow checkpoints: name one of them",
                      PG_SHOW(*folder ? folder : "."), found.n);
        for (size_t i = 0; i < found.n && i < 8; i++)
            pg_err_detail(err, "%s%s", PG_SHOW(folder), PG_SHOW(found.v[i]));
        st = PG_E_AMBIGUOUS;
        goto done;
    }
    PG_TRY(take_if_there(out, folder, strlen(folder), found.v[0], strlen(found.v[0]), "", err));
done:
    pg__strs_fini(&found);
    return st;
}

pg_status pg__tf_in_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str at = {0}, model = {0};
    int is_model = 0;
    *out = NULL;
    PG_TRY(pg__folder_path(&at, folder, "", err));
    PG_TRY(take_if_there(out, at.s, at.n, VARIABLES, sizeof VARIABLES - 1, "", err));
    PG_TRY(pg__str_printf(&model, err, "%ssaved_model.pb", at.s));
    if (!*out)
        PG_TRY(pg__is_file(&is_model, model.s, err));
    if (is_model)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: a TensorFlow SavedModel without variables", PG_SHOW(folder));
    if (!*out)
        PG_TRY(by_list(out, at.s, err));
    if (!*out)
        PG_TRY(by_search(out, at.s, err));
done:
    pg__str_fini(&at);
    pg__str_fini(&model);
    return st;
}

/* Bytes of base before the end of a data file's name, or of .meta; 0: another file. */
static size_t prefix_of(const char *base)
{
    const char *data = NULL;
    if (fnmatch("*.data-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]", base, 0) == 0)
        for (const char *p = base; (p = strstr(p, ".data-")); p++)
            data = p;
    if (data)
        return (size_t)(data - base);
    return pg__ends_with(base, ".meta") ? strlen(base) - 5 : 0;
}

pg_status pg__tf_of_path(char **out, const char *path, pg_err *err)
{
    static const char *const parts[] = {"saved_model.pb", "keras_metadata.pb", "fingerprint.pb"};
    pg_status st = PG_OK;
    const char *base = pg__base_name(path);
    const size_t n_folder = (size_t)(base - path), n = prefix_of(base);
    const int is_list = strcmp(base, LIST) == 0, is_part = PG_IS_ANY(base, parts);
    char *folder = NULL;
    int is_there = 0, is_file = 0;
    *out = NULL;
    if (n)
        return take_if_there(out, path, n_folder, base, n, ".index", err);
    PG_TRY(pg__is_there(&is_there, path, err));
    if (!is_there) /* a folder of this name comes first */
        return take_if_there(out, path, n_folder, base, strlen(base), ".index", err);
    if (is_list || is_part)
        PG_TRY(pg__is_file(&is_file, path, err));
    if (!is_file)
        goto done;
    folder = pg__mem_strndup(path, n_folder);
    if (!folder)
        PG_TRY(pg__nomem(err));
    st = is_list ? by_list(out, folder, err)
                 : take_if_there(out, path, n_folder, VARIABLES, sizeof VARIABLES - 1, "", err);
done:
    pg__mem_free(folder);
    return st;
}
