/* zero_rules.c - universal_checkpoint_info: how the ranks of tensor parallelism cut parameters,
 * written for ds_to_universal.py as lists of patterns of names. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero_impl.h"

static pg_status add(pg__zero_reading *r, pg__zero_rule_kind kind, const pg__pk_value *pattern,
                     pg__zero_rule **out)
{
    pg__zero *z = r->z;
    char *text = NULL;
    const pg_status st = pg__zero_name(&text, r, pattern, "a pattern in universal_checkpoint_info");
    if (st != PG_OK) {
        pg__mem_free(text);
        return st;
    }
    if (pg__mem_grow(&z->rules, &z->cap_rules, z->n_rules + 1, sizeof *z->rules)) {
        pg__mem_free(text);
        return pg__nomem(r->err);
    }
    *out = &z->rules[z->n_rules++];
    **out = (pg__zero_rule){.kind = kind, .pattern = text};
    return PG_OK;
}

/* A list of patterns, or a dictionary of reasons under patterns. */
static pg_status add_list(pg__zero_reading *r, const pg__pickle *p, const pg__pk_value *list,
                          pg__zero_rule_kind kind, uint64_t n)
{
    if (!pg__zero_is_list(list) && (!list || !pg__pickle_is_dict(p, list)))
        return PG_OK;
    for (pg__pt_entries e = pg__pt_entries_of(p, list); pg__pt_next(&e);) {
        pg__zero_rule *rule = NULL;
        const pg_status st = add(r, kind, e.key ? e.key : e.value, &rule);
        if (st != PG_OK)
            return st;
        rule->n = n;
    }
    return PG_OK;
}

/* ---- parameters that are several in a row ---- */

static int is_size(const pg__pk_value *v)
{
    return v->kind == PG_PK_INT && v->u.i >= 0 && v->u.i <= INT32_MAX;
}

/* How many rows of each part every slice has: a list for each part. */
static int read_widths(pg__zero_rule *rule, const pg__pickle *p, const pg__pk_value *list,
                       size_t n_slices)
{
    if (!pg__zero_is_list(list) || list->n != rule->n)
        return 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const pg__pk_value *of = pg__zero_item(p, list, i);
        if (!pg__zero_is_list(of) || of->n != n_slices)
            return 0;
        for (uint32_t k = 0; k < of->n; k++) {
            if (!is_size(pg__zero_item(p, of, k)))
                return 0;
            rule->widths[i * n_slices + k] = (uint64_t)pg__zero_item(p, of, k)->u.i;
        }
    }
    return 1;
}

/* Before version 0.4: each part was cut evenly. */
static int cut_evenly(pg__zero_rule *rule, const pg__pickle *p, const pg__pk_value *sizes,
                      size_t n_slices)
{
    for (uint32_t i = 0; i < sizes->n; i++) {
        const pg__pk_value *v = pg__zero_item(p, sizes, i);
        if (!is_size(v) || (uint64_t)v->u.i % n_slices)
            return 0;
        for (size_t k = 0; k < n_slices; k++)
            rule->widths[i * n_slices + k] = (uint64_t)v->u.i / n_slices;
    }
    return 1;
}

/* A rule whose numbers cannot be understood stays UNKNOWN: only a parameter that needs it is
 * refused. */
static pg_status read_sub(pg__zero_reading *r, pg__zero_rule *rule, const pg__pickle *p,
                          const pg__pk_value *of, const pg__pk_value *widths)
{
    const size_t n_slices = r->job->n_slices;
    const pg__pk_value *shape = pg__zero_get(p, of, "shape"), *axis;
    axis = pg__zero_get(p, of, "partition_dim");
    if (!pg__zero_is_list(shape) || shape->n == 0 || !axis || axis->kind != PG_PK_INT ||
        axis->u.i != 0)
        return PG_OK;
    const pg__pk_value *sizes = pg__zero_item(p, shape, 0);
    if (sizes->kind == PG_PK_INT && sizes->u.i > 0 && sizes->u.i <= 64 && !widths) {
        rule->kind = PG_ZERO_SUBS;
        rule->n = (uint64_t)sizes->u.i;
        return PG_OK;
    }
    const uint32_t n = pg__zero_is_list(sizes) ? sizes->n : widths ? widths->n : 0;
    if (n == 0 || n > 64)
        return PG_OK;
    rule->n = n;
    rule->widths = pg__mem_array(n * n_slices, sizeof *rule->widths);
    if (!rule->widths)
        return pg__nomem(r->err);
    if (widths ? read_widths(rule, p, widths, n_slices) : cut_evenly(rule, p, sizes, n_slices))
        rule->kind = PG_ZERO_SUBS;
    return PG_OK;
}

static pg_status read_subs(pg__zero_reading *r, const pg__pickle *p, const pg__pk_value *info)
{
    pg_status st = PG_OK;
    const pg__pk_value *list = pg__zero_get(p, info, "parameter_with_sub_params");
    const pg__pk_value *all = pg__zero_get(p, info, "sub_param_shard_widths");
    for (uint32_t i = 0; pg__zero_is_list(list) && i < list->n; i++) {
        const pg__pk_value *of = pg__zero_item(p, list, i);
        const pg__pk_value *patterns = pg__zero_get(p, of, "patterns");
        for (uint32_t k = 0; pg__zero_is_list(patterns) && k < patterns->n; k++) {
            pg__zero_rule *rule = NULL;
            PG_TRY(add(r, PG_ZERO_UNKNOWN, pg__zero_item(p, patterns, k), &rule));
            PG_TRY(read_sub(r, rule, p, of, pg__zero_get(p, all, rule->pattern)));
        }
    }
done:
    return st;
}

/* ---- all ---- */

pg_status pg__zero_read_rules(pg__zero_reading *r, const pg__pickle *p)
{
    static const struct {
        const char *key;
        pg__zero_rule_kind kind;
    } lists[] = {
        {"tp_replicated_parameter_patterns", PG_ZERO_REPLICATED},
        {"parameter_to_average_patterns", PG_ZERO_AVERAGED},
        {"parameter_with_row_parallelism_patterns", PG_ZERO_COLUMNS},
        {"autotp_unsupported_parameter_patterns", PG_ZERO_UNKNOWN},
    };
    pg_status st = PG_OK;
    const pg__pk_value *info = pg__zero_root(p, "universal_checkpoint_info");
    if (!info || !pg__pickle_is_dict(p, info))
        return PG_OK;
    r->z->has_rules = 1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        PG_TRY(add_list(r, p, pg__zero_get(p, info, lists[i].key), lists[i].kind, 0));
    PG_TRY(add_list(r, p, pg__zero_get(p, info, "parameter_with_2_sub_params_cat_dim_0"),
                    PG_ZERO_SUBS, 2));
    PG_TRY(read_subs(r, p, info));
    const pg__pk_value *rows = pg__zero_get(p, info, "original_vocab_size");
    const int known = rows && is_size(rows);
    PG_TRY(add_list(r, p, pg__zero_get(p, info, "vocabulary_parameter_patterns"),
                    known ? PG_ZERO_VOCABULARY : PG_ZERO_UNKNOWN, known ? (uint64_t)rows->u.i : 0));
done:
    return st;
}
