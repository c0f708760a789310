/* verdict.c - judges a store. If it has a model config, the structure of the graph decides
 * (verdict_config.c); otherwise the names of layers and weights do (verdict_names.c: legacy layout,
 * verdict_paths.c: path layout), for PyTorch the prefix of the tensor names. This file chooses
 * among them, and holds what they share. */
#include "wrap/judge/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/shards.h"
#include "wrap/judge/order.h"

const char *pg_verdict_name(pg_verdict v)
{
    switch (v) {
    case PG_V_UNKNOWN: return "unknown";
    case PG_V_SINGLE: return "single";
    case PG_V_WRAPPER: return "wrapper";
    case PG_V_NESTED: return "nested";
    case PG_V_AMBIGUOUS: return "ambiguous";
    case PG_V_DAMAGED: return "damaged";
    case PG_V_NO_WEIGHTS: return "no-weights";
    }
    return "unknown";
}

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pg__mem_free(list[i]);
    pg__mem_free(list);
}

void pg_finding_fini(pg_finding *f)
{
    if (!f)
        return;
    pg__mem_free(f->template_name);
    pg__mem_free(f->reason);
    free_list(f->evidence, f->n_evidence);
    free_list(f->slices, f->n_slices);
    free_list(f->merges, f->n_merges);
    pg__mem_free(f->unsettled);
    pg__mem_free(f->index);
    *f = (pg_finding){0};
}

void pg__verdict_fini(pg__verdict *v)
{
    pg_finding_fini(&v->f);
    pg__graph_free(v->graph);
    pg__strs_fini(&v->outputs);
    pg__strs_fini(&v->originals);
    pg__strs_fini(&v->names.inputs);
    pg__strs_fini(&v->names.slices);
    pg__strs_fini(&v->names.merges);
    pg__mem_free(v->misfit);
    pg__mem_free(v->path);
    *v = (pg__verdict){0};
}

PG_PRINTF(3, 0)
static pg_status vset(char **dst, pg_err *err, const char *fmt, va_list ap)
{
    char text[512];
    (void)vsnprintf(text, sizeof text, fmt, ap);
    char *copy = pg__mem_strdup(text);
    if (!copy)
        return pg__nomem(err);
    pg__mem_free(*dst);
    *dst = copy;
    return PG_OK;
}

pg_status pg__verdict_set(pg__verdict *v, pg_verdict is, pg_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const pg_status st = vset(&v->f.reason, err, fmt, ap);
    va_end(ap);
    v->f.verdict = is;
    return st;
}

/* The capacity of a list is the next power of two, so the public struct needs no field for it. */
pg_status pg__finding_add(char ***list, size_t *n, const char *name, pg_err *err)
{
    char *copy = pg__mem_strdup(name);
    if (!copy)
        return pg__nomem(err);
    if ((*n & (*n - 1)) == 0) {
        const size_t cap = *n ? *n * 2 : 1;
        char **grown = pg__mem_array(cap, sizeof *grown);
        if (!grown) {
            pg__mem_free(copy);
            return pg__nomem(err);
        }
        if (*n)
            memcpy(grown, *list, *n * sizeof *grown);
        pg__mem_free(*list);
        *list = grown;
    }
    (*list)[(*n)++] = copy;
    return PG_OK;
}

pg_status pg__evidence(pg__verdict *v, pg_err *err, const char *fmt, ...)
{
    char *line = NULL;
    va_list ap;
    va_start(ap, fmt);
    pg_status st = vset(&line, err, fmt, ap);
    va_end(ap);
    if (st == PG_OK)
        st = pg__finding_add(&v->f.evidence, &v->f.n_evidence, line, err);
    pg__mem_free(line);
    return st;
}

/* "lambda_1, lambda_2", "lambda_1, lambda_2 ... lambda_8". */
static pg_status add_names(pg__str *out, char **names, size_t n, const char *quote, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++) {
        if (n > 4 && i >= 2 && i + 1 < n) {
            if (i == 2)
                PG_TRY(pg__str_puts(out, " ... ", err));
            continue;
        }
        const char *sep = i == 0 || (n > 4 && i + 1 == n) ? "" : ", ";
        PG_TRY(pg__str_printf(out, err, "%s%s%s%s", sep, quote, PG_SHOW(names[i]), quote));
    }
done:
    return st;
}

pg_status pg__describe_wrapper(pg__verdict *v, const char *lead, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str s = {0};
    const pg_finding *f = &v->f;
    if (f->replicas)
        PG_TRY(pg__str_printf(&s, err, "%s: %zu replicas", lead, f->replicas));
    else
        PG_TRY(pg__str_printf(&s, err, "%s: replicas", lead));
    if (f->n_slices) {
        PG_TRY(pg__str_puts(&s, " (", err));
        PG_TRY(add_names(&s, f->slices, f->n_slices, "", err));
        PG_TRY(pg__str_puts(&s, ")", err));
    }
    if (f->n_merges) {
        PG_TRY(pg__str_puts(&s, ", merged in ", err));
        PG_TRY(add_names(&s, f->merges, f->n_merges, "\"", err));
    }
    pg__mem_free(v->f.reason);
    v->f.reason = s.s;
    s = (pg__str){0};
done:
    pg__str_fini(&s);
    return st;
}

int pg__store_is_legacy(const pg_store *s)
{
    const char *f = pg_store_format(s);
    return strcmp(f, "keras-h5-weights") == 0 || strcmp(f, "keras-h5-model") == 0;
}

static int is_path_format(const char *f)
{
    return strcmp(f, "keras-weights-h5") == 0 || strcmp(f, "keras-zip") == 0 ||
           strcmp(f, "keras-sharded") == 0;
}

int pg__store_is_paths(const pg_store *s)
{
    return is_path_format(pg_store_format(s));
}

int pg__store_has_paths(const pg_store *s)
{
    const pg__shards *shards = pg__shards_of(s);
    const char *of = shards ? pg__shards_manifest(shards)->source_format : NULL;
    return pg__store_is_paths(s) || (of && is_path_format(of));
}

/* Names that an unknown wrapper left, or one that cannot be undone. */
static pg_status judge_odd(pg__verdict *v, const pg_store *s, pg_err *err)
{
    const pg__words *w = &v->words;
    const char *name = pg_store_weight(s, w->odd)->name;
    if (w->odd_is_flat)
        return pg__verdict_set(
            v, PG_V_AMBIGUOUS, err,
            "\"%s\" is a flat parameter of FSDP: many in one array, whose shapes "
            "the file does not say (save with StateDictType.FULL_STATE_DICT)",
            PG_SHOW(name));
    return pg__verdict_set(
        v, PG_V_AMBIGUOUS, err,
        "\"%s\" in \"%s\" looks like a wrapper's word, but not one that libpg knows", w->odd_part,
        PG_SHOW(name));
}

/* Words that are not at the beginning of every name. */
static pg_status judge_words(pg__verdict *v, const pg_store *s, pg_err *err)
{
    const pg__words *w = &v->words;
    pg__str list = {0};
    pg_status st = PG_OK;
    for (size_t k = 0; k < PG_N_WORDS; k++)
        if (w->n[k])
            PG_TRY(pg__str_printf(&list, err, "%s%s", list.n ? ", " : "", pg__word(k)));
    PG_TRY(pg__verdict_set(v, PG_V_WRAPPER, err,
                           "parallel wrapper: %zu of %zu names hold%s words of wrappers (%s)",
                           w->n_names, pg_store_n_weights(s), w->n_names == 1 ? "s" : "", list.s));
    v->f.template_name = list.s;
    list.s = NULL;
done:
    pg__str_fini(&list);
    return st;
}

/* The only child of some module is called "module", and no other word says that it is a wrapper's.
 */
static pg_status judge_inner(pg__verdict *v, const pg_store *s, pg_err *err)
{
    const pg_status st = pg__verdict_set(v, PG_V_SINGLE, err,
                                         "\"module\" in \"%s\" is a DataParallel's, or a child of "
                                         "that name: the names do not show which",
                                         PG_SHOW(pg_store_weight(s, v->words.inner)->name));
    if (st != PG_OK)
        return st;
    v->f.unsettled = pg__mem_strdup(v->f.reason);
    return v->f.unsettled ? PG_OK : pg__nomem(err);
}

pg_status pg__judge_prefix(pg__verdict *v, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__words *w = &v->words;
    for (const pg__recogniser *const *r = pg__recognisers(); *r && !w->n_names; r++)
        if ((*r)->words) {
            PG_TRY((*r)->words(&v->words, s, err));
            v->f.recogniser = w->n_names || w->odd != PG_NONE ? (*r)->name : NULL;
        }
    for (size_t k = 0; k < PG_N_WORDS; k++)
        if (w->n[k])
            PG_TRY(pg__evidence(v, err, "\"%s\" (%s) in %zu of %zu names", pg__word(k),
                                pg__word_writer(k), w->n[k], pg_store_n_weights(s)));
    if (w->odd != PG_NONE)
        return judge_odd(v, s, err);
    if (!w->n_names && w->inner != PG_NONE)
        return judge_inner(v, s, err);
    if (!w->n_names)
        return pg__verdict_set(v, PG_V_SINGLE, err,
                               "no wrapper's prefix is common to all %zu tensors",
                               pg_store_n_weights(s));
    v->f.certain = 1;
    if (!w->prefix)
        return judge_words(v, s, err);
    v->f.template_name =
        pg__mem_strndup(pg_store_weight(s, w->counter == 0 ? 1 : 0)->name, w->prefix);
    if (!v->f.template_name)
        return pg__nomem(err);
    st = pg__verdict_set(
        v, PG_V_WRAPPER, err, "parallel wrapper: all %zu tensors%s have the prefix \"%s\"",
        w->n_names, w->counter == PG_NONE ? "" : " but n_averaged", PG_SHOW(v->f.template_name));
done:
    return st;
}

/* If the config does not parse, the file is judged by its names. */
static pg_status load_config(pg__verdict *v, const pg_store *s, pg_err *err)
{
    size_t n = 0;
    pg_err why = {0};
    const char *text = pg_store_text(s, PG_TEXT_MODEL_CONFIG, &n);
    if (!text)
        return PG_OK;
    const pg_status st = pg__graph_parse(&v->graph, text, n, &why);
    if (st == PG_OK)
        return PG_OK;
    if (st == PG_E_NOMEM)
        return pg__nomem(err);
    v->misfit = pg__mem_strdup(why.msg);
    if (!v->misfit)
        return pg__nomem(err);
    return pg__evidence(v, err, "the model config is not usable: %s", why.msg);
}

/* Asks the same function as pgunwrap whether names and shapes leave one order of the layers. */
static pg_status settle(pg__verdict *v, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err why = {0};
    pg__order order = {0};
    if (v->f.verdict != PG_V_WRAPPER || v->graph || v->layer == PG_NONE || pg__store_has_paths(s))
        return PG_OK;
    st = pg__order_infer(&order, v, s, 0, &why);
    pg__order_fini(&order);
    if (st == PG_E_NOMEM)
        return pg__nomem(err);
    if (st == PG_OK)
        return PG_OK;
    v->f.unsettled = pg__mem_strdup(why.msg);
    return v->f.unsettled ? PG_OK : pg__nomem(err);
}

pg_status pg__judge(pg__verdict *out, pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__verdict v = {.layer = PG_NONE,
                     .names.layer = PG_NONE,
                     .words = {.counter = PG_NONE, .odd = PG_NONE, .inner = PG_NONE}};
    PG_TRY(load_config(&v, s, err));
    if (pg_store_damage(s))
        PG_TRY(pg__verdict_set(&v, PG_V_DAMAGED, err, "%s", pg_store_damage(s)));
    else if (pg_store_n_weights(s) == 0)
        PG_TRY(pg__verdict_set(&v, PG_V_NO_WEIGHTS, err,
                               "saved without weights: none of %zu layers holds a tensor",
                               pg_store_n_layers(s)));
    else if (v.graph)
        PG_TRY(pg__judge_config(&v, s, err));
    else if (pg__store_has_paths(s))
        PG_TRY(pg__judge_paths(&v, s, err));
    else if (pg_store_n_layers(s))
        PG_TRY(pg__judge_names(&v, s, err));
    else
        PG_TRY(pg__judge_prefix(&v, s, err));
    PG_TRY(settle(&v, s, err));
    *out = v;
    v = (pg__verdict){0};
done:
    pg__verdict_fini(&v);
    return st;
}

pg_status pg_inspect(pg_finding *out, pg_store *s, pg_err *err)
{
    pg__verdict v = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__judge(&v, s, err));
    if (v.f.verdict == PG_V_SINGLE && !v.f.unsettled)
        pg__next_join(&v.f.next, s);
    else if (v.f.verdict == PG_V_WRAPPER || v.f.verdict == PG_V_AMBIGUOUS || v.f.unsettled)
        pg__next_action(&v.f.next, s, &v.f, NULL);
    *out = v.f;
    v.f = (pg_finding){0};
done:
    pg__verdict_fini(&v);
    return st;
}
