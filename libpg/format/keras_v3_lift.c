/* keras_v3_lift.c - the names that the path layout has instead of layer names, which are derived
 * from classes, and the move of the template from its group to the root.
 *
 * Keras numbers the repeats of a class within one container, so a template that moves up keeps all
 * names below it. It shares its InputLayer with the wrapper, where alone it is stored: the output
 * lacks that empty group, which no loader needs. */
#include "format/fmt_keras_v3.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/shards.h"

static int is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static int is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

/* Python's \w; every byte beyond ASCII counts as a letter. */
static int is_word(char c)
{
    return is_upper(c) || is_lower(c) || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c > 127;
}

/* Keras: s/\W+//, then s/(.)([A-Z][a-z]+)/\1_\2/, then s/([a-z])([A-Z])/\1_\2/, then lower case. */
pg_status pg__v3_snake(pg__str *out, const char *class_name, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str word = {0}, split = {0};
    if (strcmp(class_name, "GroupQueryAttention") == 0) /* it is exported under another name */
        class_name = "GroupedQueryAttention";
    for (const char *p = class_name; *p; p++)
        if (is_word(*p))
            PG_TRY(pg__str_add(&word, p, 1, err));
    PG_TRY(pg__str_puts(&word, "", err));
    for (const char *p = word.s; *p;) {
        PG_TRY(pg__str_add(&split, p, 1, err));
        if (!is_upper(p[1]) || !is_lower(p[2])) {
            p++;
            continue;
        }
        PG_TRY(pg__str_puts(&split, "_", err));
        PG_TRY(pg__str_add(&split, ++p, 1, err));
        for (p++; is_lower(*p); p++)
            PG_TRY(pg__str_add(&split, p, 1, err));
    }
    PG_TRY(pg__str_puts(&split, "", err));
    for (const char *p = split.s; *p; p++) {
        const char c = is_upper(*p) ? (char)(*p - 'A' + 'a') : *p;
        PG_TRY(pg__str_add(out, &c, 1, err));
        if (is_lower(*p) && is_upper(p[1]))
            PG_TRY(pg__str_puts(out, "_", err));
    }
done:
    pg__str_fini(&word);
    pg__str_fini(&split);
    return st;
}

/* Repeats are counted per snake-case name, because two classes may share one. */
pg_status pg__v3_layer_paths(pg__strs *out, const char *container, const char *const *classes,
                             size_t n, const unsigned char *weighted, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs words = {0};
    pg__index by_word = {0};
    pg__str word = {0};
    size_t *before = pg__mem_array(n, sizeof *before);
    if (!before)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++) {
        word.n = 0;
        PG_TRY(pg__v3_snake(&word, classes[i], err));
        PG_TRY(pg__strs_add(&words, word.s ? word.s : "", word.n, err));
    }
    for (size_t i = 0; i < n; i++)
        PG_TRY(pg__index_add(&by_word, words.v[i], i, err));
    pg__index_sort(&by_word);
    for (size_t k = 1; k < n; k++) {
        const size_t i = by_word.v[k].i, last = by_word.v[k - 1].i;
        if (strcmp(by_word.v[k].name, by_word.v[k - 1].name) == 0)
            before[i] = before[last] + (weighted && weighted[last] ? 2 : 1);
    }
    for (size_t i = 0; i < n; i++)
        PG_TRY(before[i] ? pg__strs_printf(out, err, "%s/%s_%zu", container, words.v[i], before[i])
                         : pg__strs_printf(out, err, "%s/%s", container, words.v[i]));
done:
    pg__strs_fini(&words);
    pg__index_fini(&by_word);
    pg__str_fini(&word);
    pg__mem_free(before);
    return st;
}

typedef struct moved {
    char *to;
    size_t layer; /* of the source */
} moved;

static int by_target(const void *a, const void *b)
{
    return pg__v3_path_cmp(((const moved *)a)->to, ((const moved *)b)->to);
}

/* Where a layer of the wrapper's file goes: below the root, "/" for the template itself, NULL = it
 * is dropped. */
static const char *target(const char *name, const char *group, const char *container)
{
    const size_t n = strlen(group), n_container = container ? strlen(container) : 0;
    if (strncmp(name, group, n) == 0 && (name[n] == '/' || name[n] == 0))
        return name[n] ? name + n + 1 : "/";
    if (strcmp(name, "/") == 0 || (n_container && strncmp(name, container, n_container) == 0 &&
                                   (name[n_container] == '/' || name[n_container] == 0)))
        return NULL;
    return name;
}

static pg_status add_moved(pg__plan *plan, const moved *m, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const pg_layer *l = pg_store_layer(plan->src, m->layer);
    const size_t cut = strcmp(l->name, "/") ? strlen(l->name) + 1 : 0;
    PG_TRY(pg__plan_add_layer(plan, m->to, strlen(m->to), m->layer, err));
    for (size_t i = l->first; i < l->first + l->n_weights; i++) {
        const char *below = pg_store_weight(plan->src, i)->name + cut;
        name.n = 0;
        if (strcmp(m->to, "/"))
            PG_TRY(pg__str_printf(&name, err, "%s/", m->to));
        PG_TRY(pg__str_puts(&name, below, err));
        PG_TRY(pg__plan_add(plan, i, name.s, err));
    }
done:
    pg__str_fini(&name);
    return st;
}

pg_status pg__v3_lift(pg__plan *plan, pg_store *src, const char *group, pg_err *err)
{
    pg_status st = PG_OK;
    if (!pg__v3_of(src) && !pg__shards_of(src))
        return pg_fail(err, PG_E_ARG, "not the path layout: there are no groups to lift");
    const size_t n = pg_store_n_layers(src);
    const char *container = pg__v3_container(src);
    moved *list = pg__mem_array(n, sizeof *list);
    size_t n_list = 0, below = 0;
    plan->src = src;
    plan->keep_state = 1;
    plan->root = pg__mem_strdup(group);
    if (!list || !plan->root) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        const pg_layer *l = pg_store_layer(src, i);
        const char *to = target(l->name, group, container);
        below += to && to != l->name;
        if (!to || (strcmp(to, "/") == 0 && l->n_weights == 0))
            continue;
        list[n_list] = (moved){pg__mem_strdup(to), i};
        if (!list[n_list++].to) {
            st = pg__nomem(err);
            goto done;
        }
    }
    if (!below)
        PG_FAIL(PG_E_ARG, "there is no group %s", PG_SHOW(group));
    if (n_list)
        qsort(list, n_list, sizeof *list, by_target);
    for (size_t i = 0; i < n_list; i++) {
        if (i && strcmp(list[i - 1].to, list[i].to) == 0)
            PG_FAIL(PG_E_UNSUPPORTED, "%s: the wrapper and its template both have this group",
                    PG_SHOW(list[i].to));
        PG_TRY(add_moved(plan, &list[i], err));
    }
done:
    for (size_t i = 0; list && i < n_list; i++)
        pg__mem_free(list[i].to);
    pg__mem_free(list);
    return st;
}
