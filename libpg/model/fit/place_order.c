/* place_order.c - placing by order alone (FORMATS.md: "Placing by order"): takes the flat list that
 * follows from the model's trainable flags, and accepts it only if variables and shapes agree at
 * every position and the file's own names are consistent with it: one name for each layer, numbers
 * that rise along the layers. This handles renumbered files and the counting of other releases. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "model/fit/fit.h"

#define MAX_SORTED 64 /* weights of one leaf */

/* A weight with the file's own name for its layer. A unit is a leaf, or one layer of the model in a
 * TimeDistributed: whatever has a number of its own. */
typedef struct in_order {
    pg__name_piece prefix;
    size_t stem; /* length of the prefix without its number */
    uint64_t number;
    size_t unit; /* index of the unit, rising along the leaves */
    const pg__leaf *leaf;
    const char *like; /* its automatic name in the model, or NULL */
    int is_named;     /* it has the name that was chosen for the layer: its number counts nothing */
} in_order;

static int is_cell(pg__name_piece p)
{
    for (size_t i = 0; i + 4 <= p.n; i++)
        if (memcmp(p.s + i, "cell", 4) == 0)
            return 1;
    return 0;
}

/* Does a TimeDistributed hold a whole model? Then its layers have numbers of their own. */
static int holds_model(const pg__leaf *l)
{
    return l->layer->inner && l->layer->inner->model;
}

/* Is this component the name of an inner layer, perhaps with another number, rather than of the
 * layer itself? */
static int is_inner(pg__name_piece p, const pg__leaf *l, const pg__var *v)
{
    const size_t n = pg__without_number(v->sub, strlen(v->sub));
    if (n > 0 && !holds_model(l) && pg__without_number(p.s, p.n) == n &&
        memcmp(p.s, v->sub, n) == 0)
        return 1;
    return is_cell(p) || (p.n > 8 && memcmp(p.s, "forward_", 8) == 0) ||
           (p.n > 9 && memcmp(p.s, "backward_", 9) == 0);
}

/* "forward_lstm_3" is "lstm_3" in one direction. */
static pg__name_piece without_direction(pg__name_piece p)
{
    const size_t n = p.n > 8 && memcmp(p.s, "forward_", 8) == 0    ? 8
                     : p.n > 9 && memcmp(p.s, "backward_", 9) == 0 ? 9
                                                                   : 0;
    return (pg__name_piece){p.s + n, p.n - n};
}

/* The file's own name for the layer of a weight that is expected to be v. */
static int prefix_of(pg__name_piece *out, const char *name, const pg__leaf *l, const pg__var *v)
{
    pg__owner o = pg__owner_split(name);
    if (o.path.n == 0) { /* flat: NAME_W */
        const char *const words[] = {v->alt, v->name};
        pg__name_piece whole = {o.var.s, o.var.n};
        for (size_t i = 0; i < 4; i++) {
            const char *word = words[i % 2];
            const size_t n = strlen(word);
            if (i == 2)
                whole.n = pg__without_number(whole.s, whole.n);
            if (n > 0 && whole.n > n + 1 && whole.s[whole.n - n - 1] == '_' &&
                memcmp(whole.s + whole.n - n, word, n) == 0) {
                *out = without_direction((pg__name_piece){whole.s, whole.n - n - 1});
                return 1;
            }
        }
        *out = (pg__name_piece){name, 0}; /* built before it was called: "mean:0" */
        return pg__var_is_named(v, o.var);
    }
    if (!pg__var_is_named(v, o.var) || !pg__sub_agrees(v, &o))
        return 0;
    for (;;) {
        const char *slash = pg__last_byte(o.path.s, '/', o.path.n);
        const size_t start = slash ? (size_t)(slash - o.path.s) + 1 : 0;
        if (!slash || !is_inner((pg__name_piece){o.path.s + start, o.path.n - start}, l, v))
            break;
        o.path.n = start - 1;
    }
    *out = without_direction(o.path);
    return 1;
}

/* The number after the first stem bytes of a name; 0 if there is none. */
static uint64_t number_of(pg__name_piece name, size_t stem)
{
    uint64_t n = 0;
    for (size_t i = stem + 1; i < name.n; i++)
        if (n < UINT64_MAX / 10 - 1)
            n = 10 * n + (uint64_t)(name.s[i] - '0');
    return n;
}

static int compare_pieces(const char *a, size_t na, const char *b, size_t nb)
{
    const int c = memcmp(a, b, na < nb ? na : nb);
    return c ? c : na < nb ? -1 : na > nb;
}

/* By stem, then by unit. */
static int compare_in_order(const void *x, const void *y)
{
    const in_order *a = x, *b = y;
    const int c = compare_pieces(a->prefix.s, a->stem, b->prefix.s, b->stem);
    return c ? c : a->unit < b->unit ? -1 : a->unit > b->unit;
}

/* The number in the model's own name. */
static uint64_t like_number(const in_order *w)
{
    const pg__name_piece p = {w->like, strlen(w->like)};
    return number_of(p, pg__without_number(p.s, p.n));
}

/* By the model's own numbers, for weights of one stem on both sides. */
static int compare_like(const void *x, const void *y)
{
    const uint64_t a = like_number(x), b = like_number(y);
    return a < b ? -1 : a > b;
}

/* Do all n weights, of one stem in the file, have automatic names of one stem in the model? Then
 * both numbers count the same calls, whatever the order of the layers. */
static int counted_alike(const in_order *w, size_t n)
{
    if (!w[0].like)
        return 0;
    const size_t stem = pg__without_number(w[0].like, strlen(w[0].like));
    for (size_t i = 1; i < n; i++)
        if (!w[i].like || pg__without_number(w[i].like, strlen(w[i].like)) != stem ||
            memcmp(w[i].like, w[0].like, stem) != 0)
            return 0;
    return 1;
}

/* Do the numbers of n weights of one stem rise, in this order? */
static int numbers_rise(const in_order *w, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (w[i - 1].unit != w[i].unit && w[i - 1].number >= w[i].number)
            return 0;
    return 1;
}

/* By the stem of the model's own name (those without one last), then by unit. */
static int compare_like_stems(const void *x, const void *y)
{
    const in_order *a = x, *b = y;
    if (!a->like || !b->like)
        return a->like ? -1 : b->like ? 1 : a->unit < b->unit ? -1 : a->unit > b->unit;
    const int c = compare_pieces(a->like, pg__without_number(a->like, strlen(a->like)), b->like,
                                 pg__without_number(b->like, strlen(b->like)));
    return c ? c : a->unit < b->unit ? -1 : a->unit > b->unit;
}

/* Do the model's own numbers never fall along the units? Sorts w. */
static int like_numbers_rise(in_order *w, size_t n)
{
    qsort(w, n, sizeof *w, compare_like_stems);
    for (size_t i = 1; i < n && w[i].like; i++) {
        const size_t stem = pg__without_number(w[i].like, strlen(w[i].like));
        if (pg__without_number(w[i - 1].like, strlen(w[i - 1].like)) == stem &&
            memcmp(w[i - 1].like, w[i].like, stem) == 0 &&
            like_number(&w[i - 1]) > like_number(&w[i]))
            return 0;
    }
    return 1;
}

static int compare_prefixes(const void *x, const void *y)
{
    const in_order *a = x, *b = y;
    return compare_pieces(a->prefix.s, a->prefix.n, b->prefix.s, b->prefix.n);
}

/* Is every automatic name that the model has for these weights one of the file's? Then one process
 * gave the names of both. Sorts w. */
static int named_together(in_order *w, size_t n)
{
    size_t n_like = 0;
    qsort(w, n, sizeof *w, compare_prefixes);
    for (size_t i = 0; i < n; i++) {
        if (!w[i].like)
            continue;
        const in_order key = {.prefix = {w[i].like, strlen(w[i].like)}};
        if (!bsearch(&key, w, n, sizeof *w, compare_prefixes))
            return 0;
        n_like++;
    }
    return n_like > 0;
}

/* Names of one process: does each weight with an automatic name stand in the layer of that name,
 * and do the numbers of the others, whose layers were renamed since, rise? Sorts w. */
static int names_stay(in_order *w, size_t n)
{
    size_t n_like = 0;
    qsort(w, n, sizeof *w, compare_like_stems);
    for (; n_like < n && w[n_like].like; n_like++) {
        const char *like = w[n_like].like;
        const pg__name_piece *is = &w[n_like].prefix;
        if (compare_pieces(is->s, is->n, like, strlen(like)) != 0)
            return 0;
    }
    return numbers_rise(w + n_like, n - n_like);
}

/* Do the numbers of n weights of one stem, sorted by unit, say the order of the units? If the
 * model has automatic names for some only, its own numbers must not contradict the file's. */
static int numbers_agree(in_order *w, size_t n)
{
    if (counted_alike(w, n)) {
        qsort(w, n, sizeof *w, compare_like);
        return numbers_rise(w, n);
    }
    const int rise = numbers_rise(w, n);
    return named_together(w, n) ? names_stay(w, n) : rise && like_numbers_rise(w, n);
}

/* Numbers the units of all variables, in leaf order; returns how many there are. */
static size_t number_units(const pg__leaves *leaves, const size_t *first, size_t *unit)
{
    size_t n = 0;
    for (size_t i = 0; i < leaves->n; i++) {
        const pg__leaf *l = &leaves->v[i];
        for (size_t k = 0; k < l->vars.n; k++) {
            n += holds_model(l) && k > 0 && strcmp(l->vars.v[k].sub, l->vars.v[k - 1].sub) != 0;
            unit[first[i] + k] = n;
        }
        n += l->vars.n > 0;
    }
    return n;
}

static int is_name_of(const in_order *w)
{
    const char *name = w->leaf->layer->name;
    return compare_pieces(name, strlen(name), w->prefix.s, w->prefix.n) == 0;
}

/* Layers of two models may have one name. Only where they hold different variables can neither be
 * taken for the other. */
static int share_a_name(const in_order *a, const in_order *b)
{
    const pg__vars *x = &a->leaf->vars, *y = &b->leaf->vars;
    if (holds_model(a->leaf) || holds_model(b->leaf) || !is_name_of(a) || !is_name_of(b))
        return 0;
    for (size_t i = 0; i < x->n && x->n == y->n; i++)
        if (strcmp(x->v[i].name, y->v[i].name) != 0)
            return 1;
    return x->n != y->n;
}

static int compare_prefixes_then_units(const void *x, const void *y)
{
    const in_order *a = x, *b = y;
    const int c = compare_prefixes(a, b);
    return c ? c : a->unit < b->unit ? -1 : a->unit > b->unit;
}

/* Does no name of the file stand for two units, unless both have it? Sorts w. */
static int names_differ(in_order *w, size_t n)
{
    size_t n_units = 1; /* of this name so far */
    qsort(w, n, sizeof *w, compare_prefixes_then_units);
    for (size_t i = 1; i < n; i++) {
        const int is_same = compare_prefixes(&w[i - 1], &w[i]) == 0;
        n_units = !is_same ? 1 : n_units + (w[i - 1].unit != w[i].unit);
        if (n_units > 2 ||
            (is_same && w[i - 1].unit != w[i].unit && !share_a_name(&w[i - 1], &w[i])))
            return 0;
    }
    return 1;
}

/* Moves the weights that their names decide to the end; returns how many are left. */
static size_t leave_out_named(in_order *w, size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (!w[i].is_named) {
            const in_order named = w[left];
            w[left++] = w[i];
            w[i] = named;
        }
    return left;
}

/* Checks that each unit has one name, and that numbers rise along the units of one stem. If the
 * model's own numbers do not rise along its layers, as in Dense(2)(Dense(3)(x)), the file's must be
 * ordered like them. */
static int names_agree(in_order *w, size_t n, size_t *first_of_unit, size_t n_units)
{
    for (size_t i = 0; i < n_units; i++)
        first_of_unit[i] = PG_NONE;
    for (size_t i = 0; i < n; i++) {
        size_t *first = &first_of_unit[w[i].unit];
        if (*first == PG_NONE)
            *first = i;
        const pg__name_piece *a = &w[*first].prefix, *b = &w[i].prefix;
        if (compare_pieces(a->s, a->n, b->s, b->n) != 0)
            return 0;
    }
    if (!names_differ(w, n))
        return 0;
    n = leave_out_named(w, n);
    qsort(w, n, sizeof *w, compare_in_order);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_pieces(w[i].prefix.s, w[i].stem, w[end].prefix.s,
                                                    w[end].stem) == 0;)
            end++;
        if (!numbers_agree(w + i, end - i))
            return 0;
    }
    return 1;
}

/* Does the weight's name say, by a chosen name, that it belongs to another layer? Automatic names
 * differ from process to process; a layer named "block1" is that layer, if no other is. */
static int is_claimed(const pg__leaves *leaves, const pg__owner_table *table, const char *name,
                      size_t leaf)
{
    for (pg__placed_by how = PG_BY_NAME; how <= PG_BY_FLAT_NAME; how++) {
        const pg__owner o = pg__owner_of(table, name, how);
        if (o.leaf != PG_NONE && o.leaf != leaf && !o.sub &&
            !pg__name_is_automatic(leaves->v[o.leaf].layer))
            return 1;
    }
    return 0;
}

/* Some wrapping layers store frozen weights in another order than they create them, so the names
 * decide within one leaf. Long runs (whole models) keep their order. */
static void sort_runs(pg__placing *p, const pg__leaves *leaves, const pg__stored *stored)
{
    for (size_t i = 0, end; i < p->n; i = end) {
        for (end = i + 1; end < p->n && p->leaf[end] == p->leaf[i];)
            end++;
        for (size_t k = i; k < end && leaves->v[p->leaf[i]].layer->inner && end - i <= MAX_SORTED;
             k++) {
            const pg__owner o = pg__owner_split(stored[k].name);
            for (size_t j = k; j < end; j++) {
                const pg__var *v = &leaves->v[p->leaf[i]].vars.v[p->var[j]];
                if (!pg__var_is_named(v, o.var) || !pg__sub_agrees(v, &o))
                    continue;
                const size_t var = p->var[j];
                memmove(p->var + k + 1, p->var + k, (j - k) * sizeof var);
                p->var[k] = var;
                break;
            }
        }
    }
}

/* Do name and shape of every weight agree with the variable expected at its position? */
static int list_agrees(in_order *w, const pg__leaves *leaves, const pg__owner_table *table,
                       const pg__stored *stored, const pg__placing *p, const size_t *first,
                       const size_t *unit)
{
    for (size_t i = 0; i < p->n; i++) {
        const pg__var *v = &leaves->v[p->leaf[i]].vars.v[p->var[i]];
        const pg__leaf *l = &leaves->v[p->leaf[i]];
        w[i].leaf = l;
        if (!pg__dims_agree(v, &stored[i]) || !prefix_of(&w[i].prefix, stored[i].name, l, v) ||
            (!is_name_of(&w[i]) && is_claimed(leaves, table, stored[i].name, p->leaf[i])))
            return 0;
        w[i].stem = pg__without_number(w[i].prefix.s, w[i].prefix.n);
        w[i].number = number_of(w[i].prefix, w[i].stem);
        w[i].unit = unit[first[p->leaf[i]] + p->var[i]];
        const char *own = l->layer->name;
        const int is_automatic = pg__name_is_automatic(l->layer);
        w[i].like = !l->layer->inner && is_automatic ? own : NULL;
        w[i].is_named = !is_automatic && strlen(own) == w[i].prefix.n &&
                        memcmp(own, w[i].prefix.s, w[i].prefix.n) == 0;
    }
    return 1;
}

pg_status pg__place_by_order(pg__placing *out, int *holds, const pg__leaves *leaves,
                             const pg__owner_table *table, const pg__stored *stored, size_t n,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__placing p = {.n = n, .how = PG_BY_ORDER};
    in_order *w = NULL;
    size_t *first = NULL, *unit = NULL, *first_of_unit = NULL;
    *holds = 0;
    if (!leaves->all_known || n != leaves->n_vars)
        return PG_OK;
    p.leaf = pg__mem_array(n, sizeof *p.leaf);
    p.var = pg__mem_array(n, sizeof *p.var);
    w = pg__mem_array(n, sizeof *w);
    first = pg__mem_array(leaves->n + 1, sizeof *first);
    unit = pg__mem_array(n, sizeof *unit);
    first_of_unit = pg__mem_array(n, sizeof *first_of_unit);
    if (!p.leaf || !p.var || !w || !first || !unit || !first_of_unit) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < leaves->n; i++)
        first[i + 1] = first[i] + leaves->v[i].vars.n;
    const size_t n_units = number_units(leaves, first, unit);
    pg__expected_order(leaves, p.leaf, p.var);
    sort_runs(&p, leaves, stored);
    if (list_agrees(w, leaves, table, stored, &p, first, unit) &&
        names_agree(w, n, first_of_unit, n_units)) {
        *holds = 1;
        *out = p;
        p = (pg__placing){0};
    }
done:
    pg__placing_fini(&p);
    pg__mem_free(w);
    pg__mem_free(first);
    pg__mem_free(unit);
    pg__mem_free(first_of_unit);
    return st;
}
