/* nearest.c - Levenshtein's distance, computed with a single row of Wagner and Fischer's table. */
#include "base/nearest.h"

#include <string.h>

#include "base/str.h"

#define LONGEST 63 /* of the names compared */
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

/* Keeps letters and digits, in lower case. */
static void bare(char out[LONGEST + 2], const char *name, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n <= LONGEST; i++)
        if (name[i] != '_')
            out[n++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    out[n] = '\0';
}

const char *pg__nearest_spelt(const char *name, size_t len, const char *const *names, size_t n)
{
    char own[LONGEST + 2], other[LONGEST + 2];
    const char *best = NULL;
    size_t least_far = TOO_FAR;
    bare(own, name, len);
    for (size_t i = 0; i < n; i++) {
        bare(other, names[i], strlen(names[i]));
        const size_t d = distance(own, other);
        if (d < least_far && 2 * d <= strlen(own)) {
            least_far = d;
            best = names[i];
        }
    }
    return best;
}

pg_status pg__fail_unknown(pg_err *err, const char *what, const char *name, size_t len,
                           const char *const *names, size_t n)
{
    const char *near = pg__nearest_spelt(name, len, names, n);
    char shown[256];
    pg_printable(shown, sizeof shown, name, len);
    return pg_fail(err, PG_E_ARG, "unknown %s \"%s\"%s%s%s", what, shown,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
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
