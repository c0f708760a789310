/* split_undo.c - removes the empty folders that a failed split made. Whole files stay: the same
 * command continues from them. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "wrap/shard/split.h"

void pg__split_look(pg__split *s)
{
    struct stat sb;
    char *p = s->into;
    s->n_above = SIZE_MAX;
    do {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        const char end = *p;
        *p = 0;
        if (stat(s->into, &sb) && errno == ENOENT)
            s->n_above = (size_t)(p - s->into);
        *p = end;
    } while (*p && s->n_above == SIZE_MAX);
}

static void remove_empty(pg__str *path, unsigned depth)
{
    int sys;
    const size_t n = path->n;
    DIR *d = depth < PG_LIMIT_SHARD_DEPTH ? pg__folder_list(path->s) : NULL;
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN) ||
            pg__str_printf(path, NULL, "/%s", e->d_name) != PG_OK)
            continue;
        remove_empty(path, depth + 1);
        (void)rmdir(path->s);
        path->n = n;
        path->s[n] = 0;
    }
    if (d)
        closedir(d);
}

/* From the folder up to the first one that was missing. */
static void remove_made(const pg__split *s, char *path)
{
    for (size_t n = strlen(path); n >= s->n_above && rmdir(path) == 0;) {
        while (n && path[n - 1] != '/')
            n--;
        while (n && path[n - 1] == '/')
            n--;
        path[n] = 0;
    }
}

void pg__split_undo(pg__split *s)
{
    pg__str path = {0};
    if (s->entered && s->is_ours && pg__str_puts(&path, s->into, NULL) == PG_OK) {
        remove_empty(&path, 0);
        remove_made(s, path.s);
    }
    pg__str_fini(&path);
}
