/* kept.c - the list of files that a ModelCheckpoint has written, or failed to write. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/fit/checkpoint.h"

static void entry_fini(pg__kept *k)
{
    pg__mem_free(k->name);
    pg__mem_free(k->path);
    pg__mem_free(k->why);
}

void pg__kept_fini(pg__kept_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        entry_fini(&l->v[i]);
    pg__mem_free(l->v);
    *l = (pg__kept_list){0};
}

static size_t find(const pg__kept_list *l, const char *name)
{
    size_t i = 0;
    while (i < l->n && strcmp(l->v[i].name, name) != 0)
        i++;
    return i;
}

const pg__kept *pg__kept_find(const pg__kept_list *l, const char *name)
{
    const size_t i = find(l, name);
    return i < l->n ? &l->v[i] : NULL;
}

void pg__kept_remove(pg__kept_list *l, const char *name)
{
    const size_t i = find(l, name);
    if (i == l->n)
        return;
    entry_fini(&l->v[i]);
    l->n--;
    memmove(&l->v[i], &l->v[i + 1], (l->n - i) * sizeof *l->v);
}

pg_status pg__kept_add(pg__kept_list *l, const char *name, const char *path, const char *why,
                       int is_best, pg_err *err)
{
    pg__kept k = {.name = pg__mem_strdup(name),
                  .path = pg__mem_strdup(path),
                  .why = pg__mem_strdup(why),
                  .is_best = is_best};
    if (!k.name || (path && !k.path) || (why && !k.why) ||
        pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v)) {
        entry_fini(&k);
        return pg__nomem(err);
    }
    pg__kept_remove(l, name);
    for (size_t i = 0; is_best && i < l->n; i++)
        l->v[i].is_best = 0;
    l->v[l->n++] = k;
    return PG_OK;
}

pg_status pg__kept_surplus(pg__strs *names, const pg__kept_list *l, const char *name, int is_best,
                           size_t most, pg_err *err)
{
    const size_t n = l->n + (find(l, name) == l->n);
    pg_status st = PG_OK;
    for (size_t i = 0; i < l->n && most > 0 && n - names->n > most; i++)
        if ((is_best || !l->v[i].is_best) && strcmp(l->v[i].name, name) != 0)
            PG_TRY(pg__strs_add(names, l->v[i].name, strlen(l->v[i].name), err));
done:
    return st;
}

void pg__kept_archive(pg__kept_list *l, pg__archive *a)
{
    size_t n = l->n;
    pg__archive_size(a, &n);
    if (!a->writes)
        pg__kept_fini(l);
    for (size_t i = 0; i < n && a->st == PG_OK; i++) {
        if (!a->writes && pg__mem_grow(&l->v, &l->cap, i + 1, sizeof *l->v)) {
            a->st = PG_E_NOMEM;
            return;
        }
        if (!a->writes)
            l->v[l->n++] = (pg__kept){.name = NULL};
        pg__archive_text(a, &l->v[i].name);
        pg__archive_text(a, &l->v[i].path);
        pg__archive_text(a, &l->v[i].why);
        pg__archive_int(a, &l->v[i].is_best);
        if (a->st == PG_OK && !l->v[i].name)
            a->st = PG_E_FORMAT;
    }
}
