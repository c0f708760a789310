/* roles.c - the meaning of the numbers in slice layers. Home-made wrappers name the arguments of
 * their slices freely, so they are matched by role: over the replicas, one integer runs through
 * 0..G-1 and one equals G. */
#include <string.h>
#include <strings.h>

#include "base/bsd.h"
#include "wrap/judge/recogniser.h"

const pg__json *pg__slice_args(const pg__layer *layer)
{
    const int lambda = strcmp(layer->class_name, "Lambda") == 0;
    return lambda ? pg__json_get(layer->config, "arguments") : layer->config;
}

static int number(const pg__layer *layer, const char *key, int64_t *out)
{
    return pg__json_int(pg__json_get(pg__slice_args(layer), key), out);
}

static const pg__layer *slice_at(const pg__slices *s, size_t replica, size_t input)
{
    return s->layers[replica * s->n_inputs + input];
}

static int all_have(const pg__slices *s, const char *key)
{
    int64_t v = 0;
    for (size_t i = 0; i < s->n_inputs * s->n_replicas; i++)
        if (!number(s->layers[i], key, &v))
            return 0;
    return s->n_inputs * s->n_replicas > 0;
}

/* Does call c take part c, as in every known wrapper? */
static int runs_in_order(const pg__slices *s, const char *key)
{
    for (size_t k = 0; k < s->n_inputs; k++)
        for (size_t c = 0; c < s->n_replicas; c++) {
            int64_t v = -1;
            if (!number(slice_at(s, c, k), key, &v) || v < 0 || (uint64_t)v != c)
                return 0;
        }
    return 1;
}

/* It only matters that each part is taken once. */
static int runs_over_parts(const pg__slices *s, const char *key)
{
    if (runs_in_order(s, key)) /* there may be thousands */
        return 1;
    for (size_t k = 0; k < s->n_inputs; k++)
        for (size_t part = 0; part < s->n_replicas; part++) {
            size_t hits = 0;
            for (size_t c = 0; c < s->n_replicas; c++) {
                int64_t v = -1;
                hits += number(slice_at(s, c, k), key, &v) && v >= 0 && (uint64_t)v == part;
            }
            if (hits != 1)
                return 0;
        }
    return 1;
}

static int is_constant(const pg__slices *s, const char *key, int64_t *value)
{
    for (size_t i = 0; i < s->n_inputs * s->n_replicas; i++) {
        int64_t v = 0;
        if (!number(s->layers[i], key, &v) || (i && v != *value))
            return 0;
        *value = v;
    }
    return s->n_inputs * s->n_replicas > 0;
}

static int counts_parts(const pg__slices *s, const char *key)
{
    int64_t v = 0;
    return is_constant(s, key, &v) && v > 0 && (uint64_t)v == s->n_replicas;
}

int pg__slices_have(const pg__slices *s, const char *index_key, const char *count_key, int *agree)
{
    if (!all_have(s, index_key) || !all_have(s, count_key))
        return 0;
    *agree = runs_over_parts(s, index_key) && counts_parts(s, count_key);
    return 1;
}

int pg__slices_play_roles(const pg__slices *s)
{
    int index = 0, count = 0;
    if (s->n_inputs == 0 || s->n_replicas == 0)
        return 0;
    pg__json_iter it = {.obj = pg__slice_args(s->layers[0])};
    while (pg__json_next(&it)) {
        if (!all_have(s, it.key))
            continue;
        if (runs_over_parts(s, it.key))
            index++;
        else
            count += counts_parts(s, it.key);
    }
    return index > 0 && count > 0;
}

static int starts_follow(const pg__slices *s, const char *key, int64_t size)
{
    for (size_t k = 0; k < s->n_inputs; k++)
        for (size_t c = 0; c < s->n_replicas; c++) {
            int64_t v = 0, want = 0;
            if (__builtin_mul_overflow((int64_t)c, size, &want) ||
                !number(slice_at(s, c, k), key, &v) || v != want)
                return 0;
        }
    return 1;
}

static int says_size(const char *key)
{
    static const char *const words[] = {"size", "step", "len", "batch", "rows"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strcasestr(key, words[k]))
            return 1;
    return 0;
}

int pg__slices_are_ranges(const pg__slices *s)
{
    if (s->n_inputs == 0 || s->n_replicas == 0)
        return 0;
    pg__json_iter size = {.obj = pg__slice_args(s->layers[0])};
    while (pg__json_next(&size)) {
        int64_t v = 0;
        if (!is_constant(s, size.key, &v) || v <= 0)
            continue;
        pg__json_iter at = {.obj = pg__slice_args(s->layers[0])};
        while (pg__json_next(&at)) {
            if (strcmp(at.key, size.key) == 0)
                continue;
            if (starts_follow(s, at.key, v) || (says_size(size.key) && runs_over_parts(s, at.key)))
                return 1;
        }
    }
    return 0;
}

static int mentions_a_cut(const char *text)
{
    static const char *const parts[] = {"slice", "split", "shard"};
    for (size_t k = 0; text && k < sizeof parts / sizeof *parts; k++)
        if (strcasestr(text, parts[k]))
            return 1;
    return 0;
}

int pg__may_slice(const pg__layer *layer)
{
    const char *c = layer->class_name;
    if (strcmp(c, "Lambda") == 0 || strcmp(c, "SlicingOpLambda") == 0)
        return 1;
    if (strcmp(c, "TFOpLambda") == 0)
        return mentions_a_cut(pg__json_get_str(layer->config, "function"));
    if (strcmp(c, "TensorFlowOpLayer") == 0)
        return mentions_a_cut(pg__json_get_str(layer->config, "node_def"));
    return mentions_a_cut(c);
}
