/* megatron_merge.c - one model out of the tensors of all ranks: as Megatron-LM on one rank holds
 * it, which is what its tools/checkpoint/convert.py writes for one.
 *
 * Stages number their layers from 0, so those of a stage follow those of the stages before it. A
 * stage of a virtual pipeline comes after those of all pipeline ranks with a smaller virtual
 * number. The shapes of the ranks' tensors are checked against each other and against the
 * arguments. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/megatron_impl.h"

#define LAYERS     "layers."
#define EXPERTS    ".experts."
#define EXTRA      "_extra_state"
#define MAX_LAYERS 1000000u

/* ---- names ---- */

static int is_extra(const char *name)
{
    return pg__ends_with(name, EXTRA);
}

/* The number of the layer in a name, and where it stands; NULL if it has none. */
static const char *layer_in(const char *name, uint64_t *number, size_t *n_digits)
{
    for (const char *s = name; (s = strstr(s, LAYERS)) != NULL; s++) {
        if (s != name && s[-1] != '.')
            continue;
        const char *digits = s + strlen(LAYERS);
        *n_digits = strspn(digits, "0123456789");
        if (*n_digits == 0 || *n_digits > 7 || digits[*n_digits] != '.')
            continue;
        *number = strtoul(digits, NULL, 10);
        return digits;
    }
    return NULL;
}

static pg__megatron_run *run_of(pg__megatron_merging *g, const char *prefix, size_t n)
{
    for (size_t i = 0; i < g->n_runs; i++)
        if (strncmp(g->runs[i].prefix, prefix, n) == 0 && g->runs[i].prefix[n] == 0)
            return &g->runs[i];
    if (pg__mem_grow(&g->runs, &g->cap_runs, g->n_runs + 1, sizeof *g->runs))
        return NULL;
    pg__megatron_run *r = &g->runs[g->n_runs];
    *r = (pg__megatron_run){.prefix = pg__mem_strndup(prefix, n)};
    g->n_runs += r->prefix != NULL;
    return r->prefix ? r : NULL;
}

/* The name of a stage's tensor in the whole model. */
static pg_status number_layer(pg__str *out, pg__megatron_merging *g, const char *name)
{
    uint64_t number = 0;
    size_t n_digits = 0;
    const char *digits = layer_in(name, &number, &n_digits);
    if (!digits)
        return pg__str_puts(out, name, g->err);
    pg__megatron_run *r = run_of(g, name, (size_t)(digits - name));
    if (!r)
        return pg__nomem(g->err);
    const int next = number == r->here, same = r->here && number == r->here - 1;
    if (!next && !same && (g->m->n_stages > 1 || number > MAX_LAYERS))
        return pg_fail(g->err, PG_E_FORMAT, "%s: the layers of %s are not numbered 0, 1, 2 ...",
                       PG_SHOW(name), pg__megatron_rank_name(g->m, g->stage, 0, 0).s);
    if (number >= r->here)
        r->here = number + 1;
    return pg__str_printf(out, g->err, "%.*s%llu%s", (int)(digits - name), name,
                          (unsigned long long)(r->before + number), digits + n_digits);
}

/* ---- experts ---- */

int pg__megatron_is_expert(const char *name)
{
    return strstr(name, EXPERTS) != NULL || strstr(name, ".local_experts.") != NULL;
}

int pg__megatron_is_plain(const char *name)
{
    static const char *const starts[] = {"decoder.layers.", "encoder.layers.", "embedding.",
                                         "output_layer.", "language_model."};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return !pg__megatron_is_expert(name) && !strstr(name, ".shared_experts.");
    return 0;
}

/* The number of an expert in a name, behind ".experts.": that of a module, or of a weight. */
static const char *expert_in(const char *name, uint64_t *number, size_t *n_digits)
{
    static const char *const before[] = {"local_experts.", "linear_fc1.weight", "linear_fc1.bias",
                                         "linear_fc2.weight", "linear_fc2.bias"};
    const char *s = strstr(name, EXPERTS);
    for (size_t i = 0; s && i < sizeof before / sizeof *before; i++) {
        const char *digits = s + strlen(EXPERTS) + strlen(before[i]);
        if (strncmp(s + strlen(EXPERTS), before[i], strlen(before[i])) != 0)
            continue;
        *n_digits = strspn(digits, "0123456789");
        *number = strtoul(digits, NULL, 10);
        if (*n_digits && *n_digits < 8 && (digits[*n_digits] == (i ? 0 : '.')))
            return digits;
    }
    return NULL;
}

/* Experts of a rank in the layer of `name`: as many as the arguments say. */
static pg_status experts_of_rank(uint64_t *n, const pg__megatron_merging *g, const char *name)
{
    const pg__megatron *m = g->m;
    const uint64_t all = m->facts.args.num_experts;
    if (!all || all % m->ep)
        return pg_fail(g->err, PG_E_UNSUPPORTED,
                       "%s: its args do not say how many experts there are (num_experts)",
                       PG_SHOW(name));
    *n = all / m->ep;
    return PG_OK;
}

/* The name of an expert's tensor, whose number counts from the rank's first. */
static pg_status number_expert(pg__str *out, const pg__megatron_merging *g, const char *name,
                               uint64_t e)
{
    uint64_t number = 0, n = 0;
    size_t n_digits = 0;
    const pg__megatron *m = g->m;
    const char *digits = expert_in(name, &number, &n_digits);
    const uint64_t etp = m->facts.args.expert_tensor_parallel_size;
    if (m->ep * m->tp == 1)
        return pg__str_puts(out, name, g->err);
    if (etp && etp != m->tp)
        return pg_fail(g->err, PG_E_UNSUPPORTED,
                       "%s: experts that are cut over %s ranks, while other layers are over %s",
                       PG_SHOW(name), PG_NUM(etp), PG_NUM(m->tp));
    if (!digits)
        return pg_fail(g->err, PG_E_UNSUPPORTED,
                       "%s: all experts of a rank in one tensor, which is not merged",
                       PG_SHOW(name));
    const pg_status st = experts_of_rank(&n, g, name);
    if (st != PG_OK)
        return st;
    if (number >= n)
        return pg_fail(g->err, PG_E_FORMAT, "%s: each rank has %s experts, by its args",
                       PG_SHOW(name), PG_NUM(n));
    return pg__str_printf(out, g->err, "%.*s%llu%s", (int)(digits - name), name,
                          (unsigned long long)(e * n + number), digits + n_digits);
}

/* ---- copies in other stages ---- */

static pg__megatron_tensor *find_tensor(const pg__megatron_merging *g, const char *name)
{
    const size_t i = pg__index_find(&g->earlier, name);
    return i == PG_NONE ? NULL : &g->l->v[i];
}

/* Those of the stage from tensor `first` on are an earlier stage's from now on. */
static pg_status index_tensors(pg__megatron_merging *g, size_t first)
{
    pg_status st = PG_OK;
    uint64_t number = 0;
    size_t n_digits = 0;
    const size_t before = g->earlier.n;
    for (size_t i = first; st == PG_OK && i < g->l->n; i++)
        if (!layer_in(g->l->v[i].name, &number, &n_digits))
            st = pg__index_add(&g->earlier, g->l->v[i].name, i, g->err);
    if (g->earlier.n != before)
        pg__index_sort(&g->earlier);
    return st;
}

/* The tensor of an earlier stage that a tensor of this one repeats, or NULL: embeddings are also
 * the weights of the output layer, and some are on several stages. */
static pg__megatron_tensor *repeated(const pg__megatron_merging *g, const char *name)
{
    static const char *const core = "embedding.word_embeddings.weight",
                             *const legacy = "language_model.embedding.word_embeddings.weight";
    pg__megatron_tensor *t = NULL;
    if (strcmp(name, "word_embeddings_for_head.weight") == 0)
        t = find_tensor(g, legacy);
    else if (strcmp(name, "output_layer.weight") == 0 &&
             g->m->facts.args.untie_embeddings_and_output_weights == 1)
        t = find_tensor(g, core);
    return t ? t : find_tensor(g, name);
}

/* ---- all ---- */

static pg_status take_expert(pg__megatron_merging *g, pg__megatron_part *x)
{
    pg_err *err = g->err;
    pg_status st = PG_OK;
    pg__str name = {0};
    const char *in_layer = x->name;
    for (x->e = 0; x->e < g->m->ep; x->e++) {
        const pg_store *s = pg__megatron_store(g->m, g->stage, x->e, 0);
        size_t at = PG_NONE;
        PG_TRY(pg__megatron_find(&at, g, x->e, 0, x->own, x->at));
        if (at == PG_NONE)
            PG_FAIL(PG_E_FORMAT, "%s: %s lacks it", PG_SHOW(x->own),
                    pg__megatron_rank_name(g->m, g->stage, x->e, 0).s);
        x->w = pg_store_weight(s, at);
        name.n = 0;
        PG_TRY(number_expert(&name, g, in_layer, x->e));
        x->name = name.s;
        PG_TRY(pg__megatron_add_tensor(g, x));
    }
done:
    pg__str_fini(&name);
    return st;
}

static pg_status take_tensor(pg__megatron_merging *g, const pg_store *s, size_t i)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__megatron_part x = {.at = i, .w = pg_store_weight(s, i)};
    uint64_t number = 0;
    size_t n_digits = 0;
    x.own = x.w->name;
    if (is_extra(x.own)) {
        g->l->n_extra++;
        return PG_OK;
    }
    PG_TRY(number_layer(&name, g, x.own));
    x.name = name.s;
    x.is_expert = pg__megatron_is_expert(x.own);
    g->l->is_core |= strstr(x.own, ".linear_") != NULL;
    pg__megatron_tensor *t =
        g->stage && !layer_in(x.own, &number, &n_digits) ? repeated(g, x.name) : NULL;
    st = t             ? pg__megatron_add_repeated(g, t, &x)
         : x.is_expert ? take_expert(g, &x)
                       : pg__megatron_add_tensor(g, &x);
done:
    pg__str_fini(&name);
    return st;
}

static size_t count_tensors(const pg_store *s)
{
    size_t n = 0;
    for (size_t i = 0; s && i < pg_store_n_weights(s); i++)
        n += !is_extra(pg_store_weight(s, i)->name);
    return n;
}

/* No rank has a tensor that the first one lacks. */
static pg_status check_counts(const pg__megatron_merging *g)
{
    const pg_store *first = pg__megatron_store(g->m, g->stage, 0, 0);
    for (uint64_t e = 0; e < g->m->ep; e++)
        for (uint64_t t = 0; t < g->m->tp; t++) {
            const pg_store *s = pg__megatron_store(g->m, g->stage, e, t);
            if (count_tensors(s) != count_tensors(first))
                return pg_fail(g->err, PG_E_FORMAT, "%s holds %zu tensors, %s holds %zu",
                               pg__megatron_rank_name(g->m, g->stage, 0, 0).s, count_tensors(first),
                               pg__megatron_rank_name(g->m, g->stage, e, t).s, count_tensors(s));
        }
    return PG_OK;
}

static void forget_names(pg__megatron_merging *g)
{
    for (uint64_t i = 0; g->names && i < g->m->ep * g->m->tp; i++)
        pg__index_fini(&g->names[i]);
}

static pg_status take_stage(pg__megatron_merging *g)
{
    pg_status st = PG_OK;
    const pg_store *s = pg__megatron_store(g->m, g->stage, 0, 0);
    const size_t first = g->l->n;
    PG_TRY(check_counts(g));
    for (size_t i = 0; s && i < pg_store_n_weights(s); i++)
        PG_TRY(take_tensor(g, s, i));
    for (size_t i = 0; i < g->n_runs; i++) {
        g->runs[i].before += g->runs[i].here;
        g->runs[i].here = 0;
    }
    PG_TRY(index_tensors(g, first));
done:
    forget_names(g);
    return st;
}

/* Are there as many layers as the arguments say? */
static pg_status check_layers(const pg__megatron_merging *g)
{
    const pg__megatron_args *a = &g->m->facts.args;
    for (size_t i = 0; i < g->n_runs; i++) {
        const pg__megatron_run *r = &g->runs[i];
        if (!a->num_layers ||
            (!pg__megatron_is_plain(r->prefix) && strcmp(r->prefix, LAYERS) != 0) ||
            r->before == a->num_layers || r->before == a->encoder_num_layers ||
            r->before == a->decoder_num_layers)
            continue;
        return pg_fail(g->err, PG_E_FORMAT, "the stages hold %s layers (%s), args say %s",
                       PG_NUM(r->before), PG_SHOW(r->prefix), PG_NUM(a->num_layers));
    }
    return PG_OK;
}

/* If no argument says how many ranks there are, only the last norm tells that no stage is missing
 * behind the last one. */
static pg_status check_end(const pg__megatron_merging *g)
{
    const pg__megatron *m = g->m;
    if (m->facts.args.tensor_model_parallel_size || m->ranks.v[0].n_parts < 2)
        return PG_OK;
    for (size_t i = 0; i < g->l->n; i++)
        if (strstr(g->l->v[i].name, ".final_layernorm.") || strstr(g->l->v[i].name, ".final_norm."))
            return PG_OK;
    return pg_fail(g->err, PG_E_UNSUPPORTED,
                   "no final_layernorm on %s stages, and no args say how many there should be",
                   PG_NUM(m->n_stages));
}

pg_status pg__megatron_merge(pg__megatron_model *out, const pg__megatron *m, pg_err *err)
{
    pg_status st = PG_OK;
    pg__megatron_model l = {0};
    pg__megatron_merging g = {.l = &l, .m = m, .err = err};
    g.names = pg__mem_array((size_t)(m->ep * m->tp), sizeof *g.names);
    if (!g.names)
        PG_TRY(pg__nomem(err));
    for (; g.stage < m->n_stages; g.stage++)
        PG_TRY(take_stage(&g));
    PG_TRY(check_layers(&g));
    PG_TRY(check_end(&g));
    *out = l;
    l = (pg__megatron_model){0};
done:
    for (size_t i = 0; i < g.n_runs; i++)
        pg__mem_free(g.runs[i].prefix);
    pg__mem_free(g.runs);
    pg__mem_free(g.names);
    pg__index_fini(&g.earlier);
    pg__megatron_model_fini(&l);
    return st;
}

void pg__megatron_model_fini(pg__megatron_model *l)
{
    for (size_t i = 0; i < l->n; i++) {
        pg__mem_free(l->v[i].name);
        pg__mem_free(l->v[i].tiled.v);
    }
    pg__mem_free(l->v);
    pg__mem_free(l->pieces);
    *l = (pg__megatron_model){0};
}
