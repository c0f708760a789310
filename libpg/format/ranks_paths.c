/* ranks_paths.c - which files of a folder are those of the ranks: names that differ in one number,
 * "model_world_size_4_rank_0.pt", "model_final.rank_1.pth", "rank2.pt". */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/ranks.h"
#include "io/folder.h"

#define MAX_DIGITS 6u

/* A number in a name. */
typedef struct number {
    size_t at, n; /* its digits */
    uint64_t value;
} number;

/* The digits at name[at]; 0 if there are none, or more than a rank has. */
static int read_number(number *out, const char *name, size_t at)
{
    *out = (number){.at = at, .n = strspn(name + at, "0123456789")};
    for (size_t i = 0; i < out->n && i < MAX_DIGITS; i++)
        out->value = out->value * 10 + (uint64_t)(name[at + i] - '0');
    return out->n > 0 && out->n <= MAX_DIGITS;
}

/* The last number that follows the word "rank". */
static int after_word(number *out, const char *name)
{
    int found = 0;
    for (size_t i = 0; name[i]; i++) {
        number x;
        if (strncasecmp(name + i, "rank", 4) != 0)
            continue;
        const size_t at = i + 4 + (name[i + 4] && strchr("_-.", name[i + 4]) ? 1u : 0u);
        if (read_number(&x, name, at)) {
            *out = x;
            found = 1;
        }
    }
    return found;
}

/* The only number of a name that is `who`. */
static int only_one(number *out, const char *name, uint64_t who)
{
    size_t found = 0;
    for (size_t i = 0; name[i];) {
        number x;
        if (!isdigit((unsigned char)name[i])) {
            i++;
            continue;
        }
        if (read_number(&x, name, i) && x.value == who) {
            *out = x;
            found++;
        }
        i += x.n;
    }
    return found == 1;
}

static int by_rank(const void *a, const void *b)
{
    const pg__rank_file *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                              : strcmp(x->name, y->name);
}

static pg_status add(pg__rank_files *f, const char *name, uint64_t rank, pg_err *err)
{
    if (pg__mem_grow(&f->v, &f->cap, f->n + 1, sizeof *f->v))
        return pg__nomem(err);
    f->v[f->n] = (pg__rank_file){pg__mem_strdup(name), rank};
    return f->v[f->n++].name ? PG_OK : pg__nomem(err);
}

/* Adds the name if it is of the same family. */
static pg_status add_if(pg__rank_files *f, const char *name, pg_err *err)
{
    number x;
    const size_t n = strlen(f->prefix);
    if (strncmp(name, f->prefix, n) != 0 || !read_number(&x, name, n) ||
        strcmp(name + n + x.n, f->suffix) != 0)
        return PG_OK;
    return add(f, name, x.value, err);
}

static pg_status open_folder(DIR **out, const char *folder, pg_err *err)
{
    *out = pg__folder_list(*folder ? folder : ".");
    return *out ? PG_OK : pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(folder));
}

static pg_status list_family(pg__rank_files *f, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    DIR *d = NULL;
    PG_TRY(open_folder(&d, folder, err));
    for (const struct dirent *e; (e = pg__folder_next(d, &sys));)
        PG_TRY(add_if(f, e->d_name, err));
    if (sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder));
    if (f->n)
        qsort(f->v, f->n, sizeof *f->v, by_rank);
    for (size_t i = 1; i < f->n; i++)
        if (f->v[i - 1].rank == f->v[i].rank)
            PG_FAIL(PG_E_AMBIGUOUS, "%s and %s are both of rank %s", PG_SHOW(f->v[i - 1].name),
                    PG_SHOW(f->v[i].name), PG_NUM(f->v[i].rank));
done:
    if (d)
        closedir(d);
    return st;
}

pg_status pg__ranks_list(pg__rank_files *out, const char *path, int knows_who, uint64_t who,
                         pg_err *err)
{
    pg_status st = PG_OK;
    number x;
    const char *name = pg__base_name(path);
    char *folder = pg__mem_strndup(path, (size_t)(name - path));
    pg__rank_files f = {0};
    if (!after_word(&x, name) && !(knows_who && only_one(&x, name, who))) {
        (void)pg_fail(err, PG_E_AMBIGUOUS,
                      "one rank's part of a model, and no number in its name is surely the rank");
        pg_err_hint(err, "name the files of all ranks NAME_rank_0.pt, NAME_rank_1.pt, ...");
        st = PG_E_AMBIGUOUS;
        goto done;
    }
    f.prefix = pg__mem_strndup(name, x.at);
    f.suffix = pg__mem_strdup(name + x.at + x.n);
    if (!folder || !f.prefix || !f.suffix)
        PG_TRY(pg__nomem(err));
    PG_TRY(list_family(&f, folder, err));
    *out = f;
    f = (pg__rank_files){0};
done:
    pg__mem_free(folder);
    pg__rank_files_fini(&f);
    return st;
}

void pg__rank_files_fini(pg__rank_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        pg__mem_free(f->v[i].name);
    pg__mem_free(f->v);
    pg__mem_free(f->prefix);
    pg__mem_free(f->suffix);
    *f = (pg__rank_files){0};
}

/* ---- a folder ---- */

/* Beside a model's files there are those of its optimizer and of the rest of training. */
static int is_of_training(const char *name)
{
    static const char *const words[] = {"optim", "extra", "rng", "sched", "random", "scaler"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncasecmp(name, words[i], strlen(words[i])) == 0)
            return 1;
    return 0;
}

static int has_suffix(const char *name)
{
    static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt", ".pt.tar", ".pth.tar"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (pg__ends_with(name, suffixes[i]))
            return 1;
    return 0;
}

/* Are both names equal but for their numbers? */
static int differ_in_numbers(const char *a, const char *b)
{
    while (*a && *b) {
        const size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
        if ((n == 0) != (m == 0) || (n == 0 && *a != *b))
            return 0;
        a += n ? n : 1;
        b += m ? m : 1;
    }
    return *a == *b;
}

/* Are both names equal but for the number of the rank? Without the word, which number that is will
 * be seen in the file. */
static int is_of_family(const char *a, const char *b)
{
    number x, y;
    const int has_word = after_word(&x, a);
    if (has_word != after_word(&y, b))
        return 0;
    return has_word ? x.at == y.at && strncmp(a, b, x.at) == 0 &&
                          strcmp(a + x.at + x.n, b + y.at + y.n) == 0
                    : differ_in_numbers(a, b);
}

/* Keeps of each family the lowest rank, or the first name. Families are few. */
static pg_status add_family(pg__rank_files *f, const char *name, pg_err *err)
{
    number x = {0};
    if (!has_suffix(name) || !name[strcspn(name, "0123456789")] || is_of_training(name))
        return PG_OK;
    const int has_word = after_word(&x, name);
    for (size_t i = 0; i < f->n; i++) {
        if (!is_of_family(f->v[i].name, name))
            continue;
        if (has_word ? x.value >= f->v[i].rank : strcmp(name, f->v[i].name) > 0)
            return PG_OK;
        pg__mem_free(f->v[i].name);
        f->v[i] = (pg__rank_file){pg__mem_strdup(name), x.value};
        return f->v[i].name ? PG_OK : pg__nomem(err);
    }
    return add(f, name, x.value, err);
}

/* Whether a file is one rank's part: only what it holds tells. */
static pg_status holds_parts(int *is, const char *path, pg_err *err)
{
    pg__pt_source f = {0};
    pg_err e = {0};
    pg_status st = pg__io_open_if(&f.io, path, err);
    if (!f.io)
        return st;
    st = pg__pt_read_zip(&f, &e);
    *is = st == PG_OK && pg__ranks_is_one(&f.pickle);
    pg__io_close(f.io);
    pg__pt_source_fini(&f);
    if (st != PG_E_IO && st != PG_E_NOMEM)
        return PG_OK; /* another file */
    pg_err_prefix(&e, PG_SHOW(path));
    return pg__fail_as(err, &e);
}

/* The path of the only family whose files are parts; a second one is an error. */
static pg_status choose(char **out, const pg__rank_files *f, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    for (size_t i = 0; i < f->n; i++) {
        PG_TRY(pg__folder_path(&path, folder, f->v[i].name, err));
        int is = 0;
        PG_TRY(holds_parts(&is, path.s, err));
        if (!is)
            continue;
        if (*out)
            PG_FAIL(PG_E_AMBIGUOUS, "%s and %s are of two models: name a file of one",
                    PG_SHOW(pg__base_name(*out)), PG_SHOW(f->v[i].name));
        *out = path.s;
        path = (pg__str){0};
    }
done:
    pg__str_fini(&path);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pg__rank_file *)a)->name, ((const pg__rank_file *)b)->name);
}

#define MAX_FAMILIES 16u /* more are no checkpoint; each is opened */

pg_status pg__ranks_in_folder(char **out, const char *folder, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    DIR *d = NULL;
    pg__rank_files f = {0};
    char *found = NULL;
    *out = NULL;
    PG_TRY(open_folder(&d, folder, err));
    for (const struct dirent *e; f.n <= MAX_FAMILIES && (e = pg__folder_next(d, &sys));)
        PG_TRY(add_family(&f, e->d_name, err));
    if (sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(folder));
    if (f.n)
        qsort(f.v, f.n, sizeof *f.v, by_name);
    if (st == PG_OK && f.n <= MAX_FAMILIES)
        st = choose(&found, &f, folder, err);
    if (st == PG_OK) {
        *out = found;
        found = NULL;
    }
done:
    if (d)
        closedir(d);
    pg__mem_free(found);
    pg__rank_files_fini(&f);
    return st;
}
