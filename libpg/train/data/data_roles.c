/* data_roles.c - finds inputs and targets among arrays not named x0 and y0: as selected, or by the
 * names of well-known files (keras.datasets: x_train, y_train, x_test, y_test). If two pairs are
 * possible, it does not guess. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/data/data_impl.h"

enum { MAX_LISTED = 12 };

typedef enum part_of { ANY, TRAIN, TEST, VAL, N_SETS } part_of;

static const char *const set_names[N_SETS] = {NULL, "train", "test", "val"};

static const struct layout {
    const char *x, *y;
    part_of set;
} layouts[] = {{"x_train", "y_train", TRAIN},
               {"x_test", "y_test", TEST},
               {"x_val", "y_val", VAL},
               {"x_valid", "y_valid", VAL},
               {"train_images", "train_labels", TRAIN},
               {"test_images", "test_labels", TEST},
               {"val_images", "val_labels", VAL},
               {"train_data", "train_labels", TRAIN},
               {"test_data", "test_labels", TEST},
               {"train_x", "train_y", TRAIN},
               {"test_x", "test_y", TEST},
               {"val_x", "val_y", VAL},
               {"train_set_x", "train_set_y", TRAIN},
               {"test_set_x", "test_set_y", TEST},
               {"xval0", "yval0", VAL},
               {"xval", "yval", VAL},
               {"x", "y", ANY},
               {"images", "labels", ANY},
               {"data", "labels", ANY},
               {"data", "target", ANY},
               {"data", "targets", ANY},
               {"features", "labels", ANY},
               {"features", "target", ANY},
               {"features", "targets", ANY},
               {"inputs", "targets", ANY},
               {"arr_0", "arr_1", ANY}};
#define N_LAYOUTS (sizeof layouts / sizeof *layouts)

/* A pair of arrays in the file; y is NULL if no target is needed. */
typedef struct pair {
    pg__array *x, *y;
    part_of set;
} pair;

int pg__data_has_names(const pg_data *d)
{
    return d->n_parts == 0 ||
           (d->n_parts == 1 && !d->parts[0].source->bind && d->n_arrays > 0 && d->arrays[0].key);
}

/* ---- words ---- */

pg__dims_text pg__dims_spoken(const pg__dims *d)
{
    pg__dims_text t = {""};
    size_t n = 0;
    for (uint32_t i = 0; i < d->rank && n < sizeof t.s; i++)
        n += (size_t)snprintf(t.s + n, sizeof t.s - n, "%s%llu", i > 0 ? "\xC3\x97" : "",
                              (unsigned long long)d->d[i]);
    return t;
}

int pg__data_list(const pg_data *d, pg_err *err)
{
    if (!pg__data_has_names(d))
        return 0;
    for (size_t i = 0; i < d->n_arrays && i < MAX_LISTED; i++) {
        const pg__array *a = &d->arrays[i];
        if (a->why)
            pg_err_detail(err, "%s: %s", PG_SHOW(a->key), a->why);
        else
            pg_err_detail(err, "%s: %s %s", PG_SHOW(a->key), pg__dims_spoken(&a->dims).s,
                          pg_dtype_name(a->dtype));
    }
    if (d->n_arrays > MAX_LISTED)
        pg_err_detail(err, "and %zu more", d->n_arrays - MAX_LISTED);
    return 1;
}

static pg_status note_pair(pg_data *d, const pair *p, pg_err *err)
{
    pg__str note = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&note, err, "%s: \"%s\" (%s %s) is the input", PG_SHOW(d->path),
                          PG_SHOW(p->x->key), pg__dims_spoken(&p->x->dims).s,
                          pg_dtype_name(p->x->dtype)));
    if (p->y)
        PG_TRY(pg__str_printf(&note, err, ", \"%s\" (%s %s) the target", PG_SHOW(p->y->key),
                              pg__dims_spoken(&p->y->dims).s, pg_dtype_name(p->y->dtype)));
    PG_TRY(pg__strs_add(&d->notes, note.s, note.n, err));
done:
    pg__str_fini(&note);
    return st;
}

/* ---- pairs ---- */

/* Finds an array by name, in lower or upper case. */
static pg__array *find_spelt(const pg_data *d, const char *name)
{
    for (size_t i = 0; i < d->n_arrays; i++)
        if (d->arrays[i].key && strcmp(d->arrays[i].key, name) == 0)
            return &d->arrays[i];
    for (size_t i = 0; i < d->n_arrays; i++)
        if (d->arrays[i].key && strcasecmp(d->arrays[i].key, name) == 0)
            return &d->arrays[i];
    return NULL;
}

/* The i-th pair of the table, if the file has it. Arrays numbered by numpy.savez() only count if
 * there are at most two. */
static int pair_at(pair *p, const pg_data *d, size_t i, int has_target)
{
    const struct layout *l = &layouts[i];
    if (strcmp(l->x, "arr_0") == 0 && find_spelt(d, "arr_2"))
        return 0;
    *p = (pair){find_spelt(d, l->x), has_target ? find_spelt(d, l->y) : NULL, l->set};
    return p->x && (p->y || !has_target);
}

/* Finds pairs of the wanted sets, each once; the first is *out. */
static size_t find_pairs(pair *out, pair *other, const pg_data *d, unsigned wanted, int has_target)
{
    const pg__array *seen[N_LAYOUTS];
    size_t n = 0;
    pair p;
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        size_t k = 0;
        if (!(wanted >> layouts[i].set & 1) || !pair_at(&p, d, i, has_target))
            continue;
        while (k < n && !(seen[k] == p.x && !has_target))
            k++;
        if (k < n) /* an input that belongs to several layouts */
            continue;
        if (n == 0)
            *out = p;
        else if (n == 1)
            *other = p;
        seen[n++] = p.x;
    }
    return n;
}

/* The error for two possible pairs; x or y is NULL if it is not ambiguous. */
static void choose(const pg__array *x, const pg__array *y, const pg__array *other_x,
                   const pg__array *other_y, pg_err *err)
{
    pg_err_do(err, PG_DO_CHOOSE_DATA, NULL);
    if (x)
        pg_err_arg(err, "x", "%s", x->key);
    if (y)
        pg_err_arg(err, "y", "%s", y->key);
    pg_err_or(err, x ? "x" : "y", "%s", x ? other_x->key : other_y->key);
    if (x && y)
        pg_err_arg(err, "y", "%s", other_y->key);
}

static pg_status refuse_two(const pg_data *d, const pg__ends *e, const pair *a, const pair *b,
                            pg_err *err)
{
    (void)pg_fail(err, PG_E_AMBIGUOUS, "%s: \"%s\" could be the input, and so could \"%s\"",
                  PG_SHOW(d->path), PG_SHOW(a->x->key), PG_SHOW(b->x->key));
    (void)pg__data_list(d, err);
    if (e->use == PG_FOR_VALIDATION)
        pg_err_do(err, PG_DO_USE_TEST_SET, NULL);
    else
        choose(a->x, a->y && b->y ? a->y : NULL, b->x, b->y, err);
    return PG_E_AMBIGUOUS;
}

static pg_status refuse_partners(const pg_data *d, const pair *a, const pair *b, pg_err *err)
{
    (void)pg_fail(err, PG_E_AMBIGUOUS,
                  "%s: \"%s\" could be the target of \"%s\", and so could \"%s\"", PG_SHOW(d->path),
                  PG_SHOW(a->y->key), PG_SHOW(a->x->key), PG_SHOW(b->y->key));
    (void)pg__data_list(d, err);
    choose(NULL, a->y, NULL, b->y, err);
    return PG_E_AMBIGUOUS;
}

static void take(const pair *p)
{
    (void)snprintf(p->x->role, sizeof p->x->role, "x0");
    if (p->y)
        (void)snprintf(p->y->role, sizeof p->y->role, "y0");
}

/* For training takes the training set, for validation the validation set; otherwise, or if there is
 * none, the only pair. */
static pg_status take_known(pg_data *d, const pg__ends *e, int has_target, pg_err *err)
{
    static const unsigned all = 1U << ANY | 1U << TRAIN | 1U << TEST | 1U << VAL;
    const unsigned first = e->use == PG_FOR_TRAINING     ? 1U << ANY | 1U << TRAIN
                           : e->use == PG_FOR_VALIDATION ? 1U << VAL
                                                         : all;
    pair p, other;
    size_t n = find_pairs(&p, &other, d, first, has_target);
    if (n == 0)
        n = find_pairs(&p, &other, d, all, has_target);
    if (n == 0)
        return PG_OK; /* a missing array is reported by its name */
    if (n > 1)
        return refuse_two(d, e, &p, &other, err);
    take(&p);
    return note_pair(d, &p, err);
}

/* Returns N_SETS for an unknown word. */
static size_t set_of(const char *word)
{
    size_t k = TRAIN;
    while (k < N_SETS && strcmp(set_names[k], word) != 0)
        k++;
    return k;
}

static pg_status take_set(pg_data *d, const pg__ends *e, int has_target, pg_err *err)
{
    pair p, other;
    const size_t n = find_pairs(&p, &other, d, 1U << set_of(d->set), has_target);
    if (n > 1)
        return refuse_two(d, e, &p, &other, err);
    if (n == 1) {
        take(&p);
        return note_pair(d, &p, err);
    }
    (void)pg_fail(err, PG_E_MISMATCH, "%s: holds no %s set such as x_%s and y_%s", PG_SHOW(d->path),
                  d->set, d->set, d->set);
    (void)pg__data_list(d, err);
    if (set_of(d->set) == VAL && find_pairs(&p, &other, d, 1U << TEST, has_target) == 1)
        pg_err_do(err, PG_DO_USE_TEST_SET, NULL);
    return PG_E_MISMATCH;
}

/* ---- names that were given ---- */

/* Assigns named arrays to inputs, or targets; there must be as many. */
static pg_status take_named(pg_data *d, const pg__strs *names, char stem, size_t n_ends,
                            const unsigned char *wanted, pg_err *err)
{
    size_t at = 0, n_wanted = 0;
    pg_status st = PG_OK;
    for (size_t k = 0; k < n_ends; k++)
        n_wanted += !wanted || wanted[k];
    if (names->n != n_wanted)
        PG_FAIL(PG_E_MISMATCH, "%s: %zu %s%s named, the model has %zu", PG_SHOW(d->path), names->n,
                stem == 'x' ? "input" : "target", names->n == 1 ? " is" : "s are", n_wanted);
    for (size_t k = 0; k < n_ends; k++) {
        if (wanted && !wanted[k])
            continue;
        pg__array *a = NULL;
        for (size_t i = 0; i < d->n_arrays && !a; i++)
            if (d->arrays[i].key && strcmp(d->arrays[i].key, names->v[at]) == 0)
                a = &d->arrays[i];
        if (!a) {
            (void)pg_fail(err, PG_E_MISMATCH, "%s: holds no \"%s\"", PG_SHOW(d->path),
                          PG_SHOW(names->v[at]));
            (void)pg__data_list(d, err);
            return PG_E_MISMATCH;
        }
        (void)snprintf(a->role, sizeof a->role, "%c%zu", stem, k);
        at++;
    }
done:
    return st;
}

/* Takes the target that belongs to an input with a well-known name. */
static pg_status take_partner(pg_data *d, const char *x, pg_err *err)
{
    pair p, first = {0};
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        if (!pair_at(&p, d, i, 1) || strcmp(p.x->key, x) != 0)
            continue;
        if (first.y && first.y != p.y)
            return refuse_partners(d, &first, &p, err);
        first = p;
    }
    if (!first.x)
        return PG_OK;
    take(&first);
    return note_pair(d, &first, err);
}

/* ---- all together ---- */

const pg__array *pg__data_find_role(const pg_data *d, const char *stem, size_t k, size_t n,
                                    const char *layer, int is_val)
{
    char key[64];
    const pg__array *a;
    (void)snprintf(key, sizeof key, "%s%s%zu", stem, is_val ? "val" : "", k);
    if ((a = pg__data_find(d, key)))
        return a;
    (void)snprintf(key, sizeof key, "%s%s", stem, is_val ? "val" : "");
    if (n == 1 && (a = pg__data_find(d, key)))
        return a;
    return layer && !is_val ? pg__data_find(d, layer) : NULL;
}

/* Are pgfit's own names (x0, y0) complete? */
static int is_complete(const pg_data *d, const pg__ends *e)
{
    const int is_val = e->use == PG_FOR_VALIDATION && pg__data_find(d, "xval0");
    int all = 1;
    for (size_t k = 0; k < e->n_inputs; k++)
        all &= pg__data_find_role(d, "x", k, e->n_inputs, e->input_names[k], is_val) != NULL;
    for (size_t k = 0; e->targeted && k < e->n_outputs; k++)
        all &= !e->targeted[k] ||
               pg__data_find_role(d, "y", k, e->n_outputs, e->output_names[k], is_val) != NULL;
    return all;
}

pg_status pg__data_assign(pg_data *d, const pg__ends *e, pg_err *err)
{
    const int has_target = e->targeted != NULL;
    const int one = e->n_inputs == 1 && (!has_target || (e->n_outputs == 1 && e->targeted[0]));
    pg_status st = PG_OK;
    if (pg__data_is_chosen(d) || !is_complete(d, e))
        d->known.mark = 0; /* the arrays may have changed */
    if (d->x.n > 0) {
        PG_TRY(take_named(d, &d->x, 'x', e->n_inputs, NULL, err));
        if (one && has_target && d->y.n == 0)
            PG_TRY(take_partner(d, d->x.v[0], err));
    }
    if (d->y.n > 0 && has_target)
        PG_TRY(take_named(d, &d->y, 'y', e->n_outputs, e->targeted, err));
    if (d->x.n > 0 || d->y.n > 0)
        return PG_OK;
    if (d->set)
        return take_set(d, e, has_target, err);
    if (one && !is_complete(d, e))
        return take_known(d, e, has_target, err);
done:
    return st;
}

pg_status pg__data_mention_unused(pg_data *d, pg_err *err)
{
    pair p, other;
    pg_status st = PG_OK;
    if (!pg__data_has_names(d))
        return PG_OK;
    for (int k = VAL; k >= TEST && st == PG_OK; k--) {
        if (find_pairs(&p, &other, d, 1U << k, 1) != 1 || p.x->role[0] ||
            strncmp(p.x->key, "xval", 4) == 0) /* named so on purpose */
            continue;
        st = pg__data_note(d, err, "%s: the %s set, \"%s\" and \"%s\", is not used",
                           PG_SHOW(d->path), set_names[k], PG_SHOW(p.x->key), PG_SHOW(p.y->key));
    }
    return st;
}

/* ---- options ---- */

static pg_status read_names(pg__strs *out, const char *list, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs names = {0};
    for (const char *s = list; s; s = *s == ',' ? s + 1 : NULL) {
        const size_t n = strcspn(s, ",");
        if (n == 0)
            PG_FAIL(PG_E_ARG, "\"%s\" is not a list of names", PG_SHOW(list));
        PG_TRY(pg__strs_add(&names, s, n, err));
        s += n;
    }
    pg__strs_fini(out);
    *out = names;
    names = (pg__strs){0};
done:
    pg__strs_fini(&names);
    return st;
}

/* A table selects its columns itself. */
static int can_choose(const pg_data *d)
{
    return pg__data_has_names(d) || (d->n_parts == 1 && d->parts[0].source->has_columns);
}

pg_status pg_data_select(pg_data *d, const char *x, const char *y, pg_err *err)
{
    pg_status st = PG_OK;
    if (!can_choose(d))
        PG_FAIL(PG_E_ARG, "%s: has no names to choose from, as .npz, HDF5 and tables have",
                PG_SHOW(d->path));
    if (x)
        PG_TRY(read_names(&d->x, x, err));
    if (y)
        PG_TRY(read_names(&d->y, y, err));
done:
    return st;
}

int pg_data_holds(const pg_data *d, const char *names)
{
    if (d->n_parts == 1 && d->parts[0].source->has_columns)
        return 1;
    for (const char *s = names; s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL) {
        size_t i = 0;
        const size_t n = strcspn(s, ",");
        while (i < d->n_arrays && !(d->arrays[i].key && strncmp(d->arrays[i].key, s, n) == 0 &&
                                    d->arrays[i].key[n] == '\0'))
            i++;
        if (i == d->n_arrays)
            return 0;
    }
    return 1;
}

pg_status pg_data_set(pg_data *d, const char *set, pg_err *err)
{
    pg_status st = PG_OK;
    char *copy = NULL;
    if (set_of(set) == N_SETS)
        PG_FAIL(PG_E_ARG, "\"%s\" is not one of train, test, val", PG_SHOW(set));
    if (!pg__data_has_names(d))
        PG_FAIL(PG_E_ARG, "%s: only .npz and HDF5 files hold a %s set", PG_SHOW(d->path), set);
    if (!(copy = pg__mem_strdup(set)))
        PG_TRY(pg__nomem(err));
    pg__mem_free(d->set);
    d->set = copy;
done:
    return st;
}

int pg_data_has_set(const pg_data *d, const char *set)
{
    const size_t k = set_of(set);
    pair p, other;
    return k < N_SETS && pg__data_has_names(d) && find_pairs(&p, &other, d, 1U << k, 1) > 0;
}

void pg_data_allow_classes(pg_data *d, int any)
{
    d->any_classes = any;
}

size_t pg_data_n_notes(const pg_data *d)
{
    return d->notes.n;
}

const char *pg_data_note(const pg_data *d, size_t i)
{
    return i < d->notes.n ? d->notes.v[i] : NULL;
}
