/* convert_rename.c - --rename: a JSON object of old and new names. Every old name must exist, so
 * that a typing error is not taken for success; duplicate new names are refused later. */
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/io.h"
#include "wrap/convert/convert.h"

static pg_status load(pg__json **out, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    char *text = NULL;
    PG_TRY(pg__io_open(&io, path, err));
    const uint64_t n = pg__io_size(io);
    if (n > PG_LIMIT_JSON_BYTES)
        PG_FAIL(PG_E_LIMIT, "%s: too large for a list of names", PG_SHOW(path));
    text = pg__mem_array((size_t)n + 1, 1);
    if (!text) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    st = pg__json_parse(out, text, (size_t)n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
done:
    pg__mem_free(text);
    pg__io_close(io);
    return st;
}

/* Looks up all tensors by their old names before the first one changes: a map may swap two. */
static pg_status look_up(char **to, const pg__outline *o, const pg__json *map, const char *path,
                         pg_err *err)
{
    pg_status st = PG_OK;
    size_t *index = NULL;
    PG_TRY(pg__outline_index(&index, o, err));
    for (pg__json_iter it = {.obj = map}; pg__json_next(&it);) {
        const size_t at = pg__outline_find(o, index, it.key);
        const char *name = pg__json_str(it.value);
        if (at == PG_NONE && st == PG_OK)
            st = pg_fail(err, PG_E_MISMATCH, "%s names tensors that the file lacks", PG_SHOW(path));
        if (at == PG_NONE) {
            pg_err_detail(err, "%s", PG_SHOW(it.key));
            continue;
        }
        if (!name || !*name)
            PG_FAIL(PG_E_FORMAT, "%s: the new name of %s is not a text", PG_SHOW(path),
                    PG_SHOW(it.key));
        to[at] = pg__mem_strdup(name);
        if (!to[at]) {
            st = pg__nomem(err);
            goto done;
        }
    }
done:
    pg__mem_free(index);
    return st;
}

pg_status pg__rename(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__json *map = NULL;
    const size_t n = c->at.n_tensors;
    char **to = pg__mem_array(n, sizeof *to);
    if (!to)
        return pg__nomem(err);
    PG_TRY(load(&map, c->o->rename, err));
    if (pg__json_type_of(map) != PG_J_OBJECT)
        PG_FAIL(PG_E_FORMAT, "%s: not an object of old and new names", PG_SHOW(c->o->rename));
    PG_TRY(look_up(to, &c->at, map, c->o->rename, err));
    for (size_t i = 0; i < n; i++)
        if (to[i]) {
            pg__mem_free(c->at.tensors[i].name);
            c->at.tensors[i].name = to[i];
            to[i] = NULL;
        }
done:
    for (size_t i = 0; i < n; i++)
        pg__mem_free(to[i]);
    pg__mem_free(to);
    pg__json_free(map);
    return st;
}
