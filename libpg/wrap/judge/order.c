/* order.c - decides whether the layers of a template may be written in the order of its wrapper's
 * weight list, without a description of the template (FORMATS.md: "Order without a template").
 *
 * The list holds trainable weights first, then the others, and says nothing about frozen layers,
 * sub-models, branches and shared layers. A wrong order may load without an error. So the list is
 * followed only if nine tests leave no other order; each failure names the missing evidence. */
#include "wrap/judge/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

static const char *variable_of(const char *weight)
{
    const char *slash = strrchr(weight, '/');
    return slash ? slash + 1 : weight;
}

int pg__is_statistic(const char *weight)
{
    static const char *const names[] = {"moving_mean", "moving_variance", "running_mean",
                                        "running_std"};
    const char *v = variable_of(weight);
    if (!strchr(weight, '/')) { /* Keras 1: bn_1_running_mean:0 */
        const size_t owner = pg__owner_len(weight);
        v = weight[owner] == '_' ? weight + owner + 1 : weight;
    }
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const size_t n = strlen(names[k]);
        if (strncmp(v, names[k], n) != 0)
            continue;
        const char *rest = v + n;
        if (*rest == '_')
            rest += 1 + strspn(rest + 1, "0123456789");
        if (*rest == 0 || *rest == ':')
            return 1;
    }
    return 0;
}

static int has_key(const pg__group *g, const char *weight)
{
    return pg__owner_len(weight) == g->n_key && strncmp(weight, g->key, g->n_key) == 0;
}

int pg__has_one_owner(const pg_store *s, size_t layer)
{
    const pg_layer *l = pg_store_layer(s, layer);
    const char *first = pg_store_weight(s, l->first)->name;
    const pg__group g = {.key = first, .n_key = pg__owner_len(first)};
    for (size_t i = 1; i < l->n_weights; i++)
        if (!has_key(&g, pg_store_weight(s, l->first + i)->name))
            return 0;
    /* Keras 1: "a_b_W" could be variable b_W of layer a, so both must end in a known variable. */
    return strchr(first, '/') || first[g.n_key] == '_';
}

static pg_status add_group(pg__order *o, const char *weight, size_t i, pg_err *err)
{
    pg__group g = {.key = weight, .n_key = pg__owner_len(weight), .first = i, .prev = PG_NONE};
    g.name = pg__mem_strndup(weight, g.n_key);
    if (!g.name || pg__mem_grow(&o->groups, &o->cap, o->n + 1, sizeof *o->groups)) {
        pg__mem_free(g.name);
        return pg__nomem(err);
    }
    o->groups[o->n++] = g;
    return PG_OK;
}

/* Groups of the body, in their order; *n_body weights before the statistics. */
static pg_status make_groups(pg__order *o, const pg_store *s, const pg_layer *l, int one,
                             size_t *n_body, pg_err *err)
{
    pg_status st = PG_OK;
    o->n_weights = l->n_weights;
    o->group_of = pg__mem_array(l->n_weights, sizeof *o->group_of);
    if (!o->group_of) {
        st = pg__nomem(err);
        goto done;
    }
    size_t i = 0;
    for (; i < l->n_weights; i++) {
        const char *name = pg_store_weight(s, l->first + i)->name;
        if (!one && pg__is_statistic(name))
            break;
        if (o->n == 0 || !has_key(&o->groups[o->n - 1], name))
            PG_TRY(add_group(o, name, i, err));
        o->groups[o->n - 1].n++;
        o->group_of[i] = o->n - 1;
    }
    *n_body = i;
done:
    return st;
}

static int has_affine(const pg__group *g, const pg_store *s, const pg_layer *l)
{
    for (size_t i = 0; i < g->n; i++) {
        const char *v = variable_of(pg_store_weight(s, l->first + g->first + i)->name);
        if (strncmp(v, "gamma", 5) == 0 || strncmp(v, "beta", 4) == 0)
            return 1;
    }
    return 0;
}

/* Test 4: the statistics come last, two for each normalisation, in the order of the
 * normalisations. */
static pg_status place_statistics(pg__order *o, const pg_store *s, const pg_layer *l, size_t n_body,
                                  pg_err *err)
{
    size_t g = 0;
    for (size_t i = n_body; i < l->n_weights; i++) {
        const char *name = pg_store_weight(s, l->first + i)->name;
        if (!pg__is_statistic(name))
            return pg_fail(
                err, PG_E_AMBIGUOUS,
                "\"%s\" stands after the statistics of a normalisation: some layers are frozen",
                PG_SHOW(name));
        while (g < o->n && (!has_key(&o->groups[g], name) || o->groups[g].n_stats == 2))
            g++;
        if (g == o->n || !has_affine(&o->groups[g], s, l))
            return pg_fail(err, PG_E_AMBIGUOUS, "nothing shows which layer \"%s\" belongs to",
                           PG_SHOW(name));
        o->groups[g].n_stats++;
        o->group_of[i] = g;
    }
    for (g = 0; g < o->n; g++)
        if (o->groups[g].n_stats == 1)
            return pg_fail(err, PG_E_AMBIGUOUS, "layer \"%s\" has one statistic, not two",
                           PG_SHOW(o->groups[g].name));
    return PG_OK;
}

typedef struct key {
    const char *s;
    size_t n;
} key;

static int by_key(const void *a, const void *b)
{
    const key *x = a, *y = b;
    const int c = strncmp(x->s, y->s, x->n < y->n ? x->n : y->n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* Test 5: the weights of a layer are adjacent, and no layer name has a "/", which may be a
 * sub-model's. */
static pg_status check_contiguous(const pg__order *o, pg_err *err)
{
    pg_status st = PG_OK;
    key *keys = pg__mem_array(o->n, sizeof *keys);
    if (!keys) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < o->n; i++) {
        keys[i] = (key){o->groups[i].key, o->groups[i].n_key};
        if (memchr(keys[i].s, '/', keys[i].n))
            PG_FAIL(PG_E_AMBIGUOUS, "\"%s\" may be a part of a larger layer",
                    PG_SHOW(o->groups[i].name));
    }
    qsort(keys, o->n, sizeof *keys, by_key);
    for (size_t i = 1; i < o->n; i++)
        if (by_key(&keys[i - 1], &keys[i]) == 0)
            PG_FAIL(PG_E_AMBIGUOUS, "the weights of \"%.*s\" do not stand together",
                    (int)(keys[i].n < 100 ? keys[i].n : 100), keys[i].s);
done:
    pg__mem_free(keys);
    return st;
}

/* 1 if name is stem, or stem and "_" and digits; *number is then 0 or the digits. */
static int numbered(const char *name, const char *stem, unsigned long *number)
{
    const size_t n = strlen(stem);
    if (strncmp(name, stem, n) != 0)
        return 0;
    *number = 0;
    if (name[n] == 0)
        return 1;
    if (name[n] != '_' || !name[n + 1] || name[n + 1 + strspn(name + n + 1, "0123456789")])
        return 0;
    *number = strtoul(name + n + 1, NULL, 10);
    return 1;
}

/* tf.keras and Keras from 2.4 on begin automatic names without a number, standalone Keras begins
 * with 1. */
int pg__counts_from_nothing(const pg_store *s)
{
    const char *writer = pg_store_writer(s);
    const char *v = writer ? strstr(writer, "keras ") : NULL;
    if (!v)
        return 0;
    v += strlen("keras ");
    const size_t n = strcspn(v, ", ");
    if (n > 3 && strncmp(v + n - 3, "-tf", 3) == 0)
        return 1;
    char *end = NULL;
    const unsigned long major = strtoul(v, &end, 10),
                        minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return major > 2 || (major == 2 && minor >= 4);
}

/* Test 3: the template holds no earlier model of the process. */
static pg_status check_first_of_kind(const pg__verdict *v, const pg_store *s, pg_err *err)
{
    static const char *const kinds[] = {"model", "sequential", "functional"};
    const char *name = pg_store_layer(s, v->layer)->name;
    const char *input = v->names.inputs.n ? v->names.inputs.v[0] : "";
    const unsigned long first = pg__counts_from_nothing(s) ? 0 : 1;
    unsigned long k = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        /* only TF 2.3 named models functional_1, functional_3, ... */
        const unsigned long want = strcmp(kinds[i], "functional") == 0 ? 1 : first;
        if (numbered(name, kinds[i], &k) && k != want)
            return pg_fail(
                err, PG_E_AMBIGUOUS,
                "\"%s\" is not the first model of its process: an earlier one may be inside it",
                PG_SHOW(name));
        const size_t n = strlen(kinds[i]);
        const char *tail = strstr(input, "_input");
        if (tail && tail[6] == 0 && strncmp(input, kinds[i], n) == 0 && (input[n] == '_'))
            return pg_fail(err, PG_E_AMBIGUOUS,
                           "the input \"%s\" belongs to a model inside the template",
                           PG_SHOW(input));
    }
    if (numbered(input, "input", &k) && k != 1)
        return pg_fail(err, PG_E_AMBIGUOUS,
                       "\"%s\" is not the first input of its process: an earlier model may be "
                       "inside the template",
                       PG_SHOW(input));
    return PG_OK;
}

/* Test 1, names: with "/". */
static pg_status check_names(const pg_store *s, const pg_layer *l, pg_err *err)
{
    for (size_t i = 0; i < l->n_weights; i++)
        if (!strchr(pg_store_weight(s, l->first + i)->name, '/'))
            return pg_fail(err, PG_E_AMBIGUOUS,
                           "the flat names of Keras 1 do not distinguish layers");
    return PG_OK;
}

/* Test 2. */
static pg_status check_ends(const pg__names *names, pg_err *err)
{
    if (names->inputs.n == 1 && names->merges.n == 1)
        return PG_OK;
    return pg_fail(err, PG_E_AMBIGUOUS,
                   "a model with %zu input%s and %zu output%s may order its layers differently",
                   names->inputs.n, names->inputs.n == 1 ? "" : "s", names->merges.n,
                   names->merges.n == 1 ? "" : "s");
}

/* After cpu_relocation, all weights have a suffix that layers and merge lack. */
static pg_status strip_suffixes(pg__order *o, pg_err *err)
{
    for (size_t i = 0; i < o->n; i++) {
        pg__group *g = &o->groups[i];
        const size_t n = pg__stem_len(g->name);
        if (g->name[n] == 0)
            return pg_fail(err, PG_E_AMBIGUOUS, "\"%s\" lacks the suffix that the last layer has",
                           PG_SHOW(g->name));
        g->name[n] = 0;
    }
    o->stripped = 1;
    return PG_OK;
}

/* Test 6: the list ends with the layer that the merge names. */
static pg_status check_last(pg__order *o, const pg__verdict *v, int *known, pg_err *err)
{
    const char *merge = v->names.merges.v[0];
    const char *last = o->groups[o->n - 1].name;
    *known = 1;
    if (strcmp(last, merge) == 0)
        return PG_OK;
    if (pg__stem_len(last) == strlen(merge) && strncmp(last, merge, strlen(merge)) == 0)
        return strip_suffixes(o, err);
    *known = 0;
    if (v->f.verdict == PG_V_WRAPPER)
        return pg_fail(
            err, PG_E_AMBIGUOUS,
            "the list ends with \"%s\", not with the output \"%s\": some layers are frozen",
            PG_SHOW(last), PG_SHOW(merge));
    return PG_OK;
}

/* Tests 7 to 9. */
static pg_status check_stack(pg__order *o, const pg_store *s, const pg_layer *l, int last_known,
                             pg_err *err)
{
    pg_status st = PG_OK;
    size_t at = 0;
    int unique = 0;
    for (size_t i = 0; i < o->n; i++)
        pg__group_measure(&o->groups[i], s, l);
    PG_TRY(pg__numbers_rise(o->groups, o->n, &at, err));
    if (at != PG_NONE)
        PG_FAIL(PG_E_AMBIGUOUS,
                "\"%s\" stands after a layer with a higher number: some layers are frozen or "
                "belong to a sub-model",
                PG_SHOW(o->groups[at].name));
    if (!pg__stack_chains(o->groups, o->n, &at))
        PG_FAIL(PG_E_AMBIGUOUS,
                "\"%s\" does not follow from the layer before it: the model is not a plain stack",
                PG_SHOW(o->groups[at].name));
    PG_TRY(pg__stack_is_unique(o->groups, o->n, last_known, &unique, err));
    if (unique != 1)
        PG_FAIL(PG_E_AMBIGUOUS, "%s",
                unique == 0
                    ? "names and shapes fit another order of the layers as well, if some are frozen"
                    : "too many orders of the layers are possible to exclude all");
done:
    return st;
}

/* For a nested model that the user named, no merge shows the last layer, and the inputs are
 * unknown. Then only numbers that rise through all layers prove their order. */
static pg_status check_numbered(pg__order *o, const char *layer, pg_err *err)
{
    pg_status st = PG_OK;
    size_t at = 0;
    PG_TRY(pg__numbers_rise(o->groups, o->n, &at, err));
    for (size_t i = 1; i < o->n && at == PG_NONE; i++)
        if (o->groups[i].prev != i - 1)
            at = i;
    if (at != PG_NONE)
        PG_FAIL(PG_E_AMBIGUOUS, "nothing shows where \"%s\" stands among the layers of \"%s\"",
                PG_SHOW(o->groups[at].name), PG_SHOW(layer));
done:
    return st;
}

/* The groups of several layers in the order that is proven to be the only one. */
static pg_status prove_order(pg__order *o, const pg__verdict *v, const pg_store *s, int named,
                             pg_err *err)
{
    pg_status st = PG_OK;
    const pg_layer *l = pg_store_layer(s, v->layer);
    const int wraps = v->f.verdict == PG_V_WRAPPER || (named && v->f.verdict == PG_V_AMBIGUOUS);
    size_t n_body = 0;
    int last_known = 0;
    PG_TRY(check_names(s, l, err));
    if (wraps)
        PG_TRY(check_ends(&v->names, err));
    else if (!named)
        PG_FAIL(PG_E_AMBIGUOUS, "no wrapper's names stand around \"%s\"", PG_SHOW(l->name));
    PG_TRY(check_first_of_kind(v, s, err));
    PG_TRY(make_groups(o, s, l, 0, &n_body, err));
    if (o->n == 0)
        PG_FAIL(PG_E_AMBIGUOUS, "it holds statistics only");
    PG_TRY(place_statistics(o, s, l, n_body, err));
    PG_TRY(check_contiguous(o, err));
    if (wraps)
        PG_TRY(check_last(o, v, &last_known, err));
    PG_TRY(wraps ? check_stack(o, s, l, last_known, err) : check_numbered(o, l->name, err));
done:
    return st;
}

pg_status pg__order_infer(pg__order *out, const pg__verdict *v, const pg_store *s, int named,
                          pg_err *err)
{
    pg_status st = PG_OK;
    pg__order o = {0};
    size_t n_body = 0;
    if (pg__has_one_owner(s, v->layer))
        PG_TRY(make_groups(&o, s, pg_store_layer(s, v->layer), 1, &n_body, err));
    else
        PG_TRY(prove_order(&o, v, s, named, err));
    *out = o;
    o = (pg__order){0};
done:
    pg__order_fini(&o);
    return st;
}

void pg__order_fini(pg__order *o)
{
    for (size_t i = 0; i < o->n; i++) {
        pg__mem_free(o->groups[i].name);
        pg__mem_free(o->groups[i].skeleton);
    }
    pg__mem_free(o->groups);
    pg__mem_free(o->group_of);
    *o = (pg__order){0};
}
