/* nearest.c - distance: Levenshtein's, by Wagner and Fischer's table of one row. */
#include "base/nearest.h"

#include <string.h>

#include "base/str.h"

#define LONGEST 63 /* of names that are compared */
#define TOO_FAR 3

static size_t least(size_t a, size_t b, size_t c)
{
    const size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

static size_t distance(const char *a, const char *b)
{
    size_t row[LONGEST + 1];
    const size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return TOO_FAR;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            const size_t above = row[j];
            row[j] = least(row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[nb];
}

const char *pg_nearest(const char *name, const char *(*each)(const void *ctx, size_t i),
                       const void *ctx)
{
    const char *best = NULL, *one;
    size_t least_far = TOO_FAR;
    for (size_t i = 0; (one = each(ctx, i)); i++) {
        const size_t d = distance(name, one);
        if (d < least_far && 2 * d <= strlen(name)) {
            least_far = d;
            best = one;
        }
    }
    for (size_t i = 0; !best && *name && (one = each(ctx, i)); i++)
        if (strncmp(name, one, strlen(name)) == 0)
            best = one;
    return best;
}

typedef struct list {
    const char *const *names;
    size_t n;
} list;

static const char *of_list(const void *ctx, size_t i)
{
    const list *l = ctx;
    return i < l->n ? l->names[i] : NULL;
}

const char *pg__nearest(const char *s, const char *const *names, size_t n)
{
    return pg_nearest(s, of_list, &(list){names, n});
}

pg_status pg__list_known(pg_err *err, pg_status st, const char *const *names, size_t n)
{
    pg__str line = {0};
    pg_status made = pg__str_puts(&line, n > 0 ? "known: " : "", NULL);
    for (size_t i = 0; made == PG_OK && i < n; i++)
        made = pg__str_printf(&line, NULL, "%s%s", i > 0 ? ", " : "", PG_SHOW(names[i]));
    if (made == PG_OK && n > 0)
        pg_err_detail(err, "%s", line.s);
    pg__str_fini(&line);
    return st;
}
