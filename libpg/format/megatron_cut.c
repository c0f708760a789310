/* megatron_cut.c - one tensor out of the parts that the ranks have of it: as Megatron-LM's parallel
 * layers cut it, and as its tools/checkpoint puts it together. Shapes are checked against each
 * other and against the arguments of the job. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/megatron_impl.h"

/* ---- pieces ---- */

static pg_status index_names(pg__index *x, const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < pg_store_n_weights(s); i++)
        st = pg__index_add(x, pg_store_weight(s, i)->name, i, err);
    pg__index_sort(x);
    return st;
}

pg_status pg__megatron_find(size_t *out, const pg__megatron_merging *g, uint64_t e, uint64_t t,
                            const char *name, size_t guess)
{
    const pg_store *s = pg__megatron_store(g->m, g->stage, e, t);
    const pg_weight *w = s ? pg_store_weight(s, guess) : NULL;
    pg__index *x = &g->names[e * g->m->tp + t];
    pg_status st = PG_OK;
    if (w && strcmp(w->name, name) == 0) {
        *out = guess;
        return PG_OK;
    }
    if (s && x->n == 0)
        st = index_names(x, s, g->err);
    *out = pg__index_find(x, name);
    return st;
}

/* Another rank's tensor of the same name, type and shape as the first one's. */
static pg_status find_piece(pg__megatron_piece *p, const pg__megatron_merging *g,
                            const pg__megatron_part *x, uint64_t e, uint64_t t)
{
    pg_store *s = pg__megatron_store(g->m, g->stage, e, t);
    *p = (pg__megatron_piece){.s = s,
                              .tensor = PG_NONE,
                              .stage = g->stage,
                              .e = (size_t)e,
                              .t = (size_t)t,
                              .copy = PG_NONE};
    const pg__shown rank = pg__megatron_rank_name(g->m, g->stage, e, t);
    const pg__shown first = pg__megatron_rank_name(g->m, g->stage, x->e, 0);
    const pg_status st = pg__megatron_find(&p->tensor, g, e, t, x->own, x->at);
    if (st != PG_OK)
        return st;
    if (p->tensor == PG_NONE)
        return pg_fail(g->err, PG_E_FORMAT, "%s: %s lacks it, %s has it", PG_SHOW(x->own), rank.s,
                       first.s);
    const pg_weight *w = pg_store_weight(s, p->tensor);
    if (w->dtype != x->w->dtype || !pg__same_shape(w, x->w))
        return pg_fail(g->err, PG_E_FORMAT, "%s: %s and %s hold different shapes or types of it",
                       PG_SHOW(x->own), first.s, rank.s);
    if (pg_dtype_bytes(w->dtype) > 1 && pg__store_big_endian(s, p->tensor))
        return pg_fail(g->err, PG_E_UNSUPPORTED, "%s: %s holds it in big-endian order",
                       PG_SHOW(x->own), rank.s);
    return PG_OK;
}

static pg_status add_piece(pg__megatron_merging *g, const pg__megatron_piece *p, size_t *i)
{
    pg__megatron_model *l = g->l;
    if (pg__mem_grow(&l->pieces, &l->cap_pieces, l->n_pieces + 1, sizeof *p))
        return pg__nomem(g->err);
    *i = l->n_pieces;
    l->pieces[l->n_pieces++] = *p;
    return PG_OK;
}

/* `p` must hold what piece `of` holds. */
static pg_status add_copy(pg__megatron_merging *g, size_t of, pg__megatron_piece p)
{
    size_t i = 0;
    p.copy = g->l->pieces[of].copy;
    p.first = g->l->pieces[of].first;
    const pg_status st = add_piece(g, &p, &i);
    if (st == PG_OK)
        g->l->pieces[of].copy = i;
    return st;
}

/* What the other expert ranks have of a tensor that is no expert's. */
static pg_status add_expert_copies(pg__megatron_merging *g, const pg__megatron_part *x, size_t of,
                                   uint64_t t)
{
    pg_status st = PG_OK;
    pg__megatron_piece p;
    for (uint64_t e = 1; !x->is_expert && e < g->m->ep; e++) {
        PG_TRY(find_piece(&p, g, x, e, t));
        PG_TRY(add_copy(g, of, p));
    }
done:
    return st;
}

/* One more tile of t: rows (axis 0) or columns (axis 1) from `start` on, `n` of them. */
static pg_status add_tile(pg__megatron_merging *g, pg__megatron_tensor *t,
                          const pg__megatron_part *x, const pg__megatron_piece *p, int axis,
                          uint64_t start, uint64_t n)
{
    pg__tile tile = {0};
    memcpy(tile.size, t->dims, sizeof tile.size);
    if (t->rank) {
        tile.start[axis] = start;
        tile.size[axis] = n;
    }
    const pg_status st = add_piece(g, p, &tile.source);
    if (st != PG_OK)
        return st;
    if (pg__mem_grow(&t->tiled.v, &t->cap, t->tiled.n + 1, sizeof tile))
        return pg__nomem(g->err);
    t->tiled.v[t->tiled.n++] = tile;
    return add_expert_copies(g, x, tile.source, p->t);
}

/* ---- how a tensor is cut ---- */

static pg_status cut_along(pg__megatron_merging *g, pg__megatron_tensor *t,
                           const pg__megatron_part *x, int axis)
{
    pg_err *err = g->err;
    pg_status st = PG_OK;
    pg__megatron_piece p;
    const uint64_t n = x->w->dims[axis];
    if (t->rank <= (uint32_t)axis)
        PG_FAIL(PG_E_FORMAT, "%s: cut along axis %d, which it lacks", PG_SHOW(t->name), axis);
    if (__builtin_mul_overflow(n, g->m->tp, &t->dims[axis]))
        PG_FAIL(PG_E_LIMIT, "%s: shape is too large", PG_SHOW(t->name));
    for (uint64_t r = 0; r < g->m->tp; r++) {
        PG_TRY(find_piece(&p, g, x, x->e, r));
        PG_TRY(add_tile(g, t, x, &p, axis, r * n, n));
    }
done:
    return st;
}

/* Each rank has a part of the gate and, below it, one of the other half. */
static pg_status cut_halves(pg__megatron_merging *g, pg__megatron_tensor *t,
                            const pg__megatron_part *x)
{
    pg_err *err = g->err;
    pg_status st = PG_OK;
    pg__megatron_piece p;
    uint64_t row = 1;
    const uint64_t half = t->rank ? x->w->dims[0] / 2 : 0;
    if (!half || x->w->dims[0] % 2)
        PG_FAIL(PG_E_FORMAT, "%s: gated, but it has no two halves", PG_SHOW(t->name));
    for (uint32_t k = 1; k < t->rank; k++)
        row *= t->dims[k];
    if (__builtin_mul_overflow(t->dims[0], g->m->tp, &t->dims[0]))
        PG_FAIL(PG_E_LIMIT, "%s: shape is too large", PG_SHOW(t->name));
    for (uint64_t r = 0; r < g->m->tp; r++) {
        PG_TRY(find_piece(&p, g, x, x->e, r));
        PG_TRY(add_tile(g, t, x, &p, 0, r * half, half));
        p.first = half * row;
        PG_TRY(add_tile(g, t, x, &p, 0, (g->m->tp + r) * half, half));
    }
done:
    return st;
}

static pg_status take_same(pg__megatron_merging *g, pg__megatron_tensor *t,
                           const pg__megatron_part *x, int compare)
{
    pg_status st = PG_OK;
    pg__megatron_piece p;
    PG_TRY(find_piece(&p, g, x, x->e, 0));
    PG_TRY(add_tile(g, t, x, &p, 0, 0, t->dims[0]));
    const size_t first = t->tiled.v[t->tiled.n - 1].source;
    for (uint64_t r = 1; r < g->m->tp; r++) {
        PG_TRY(find_piece(&p, g, x, x->e, r));
        if (!compare)
            continue;
        PG_TRY(add_copy(g, first, p));
        PG_TRY(add_expert_copies(g, x, first, r));
    }
done:
    return st;
}

/* Before version 2 the rows of queries, keys and values were in other orders. */
static pg_status order_rows(pg__megatron_merging *g, pg__megatron_tensor *t,
                            const pg__megatron_part *x, uint64_t splits)
{
    const pg__megatron *m = g->m;
    const pg__megatron_args *a = &m->facts.args;
    const int said = m->facts.version, given = m->rules.version;
    const uint64_t heads = a->num_attention_heads ? a->num_attention_heads : m->rules.heads;
    if (said >= 0 && given >= 0 && (said < 2 || given < 2) && said != given)
        return pg_fail(g->err, PG_E_MISMATCH,
                       "its checkpoint_version is %d, which the rules contradict", said);
    const int version = said >= 0 ? said : given;
    if (version < 0) {
        (void)pg_fail(g->err, PG_E_AMBIGUOUS,
                      "%s: the order of its rows is unknown: no checkpoint_version",
                      PG_SHOW(t->name));
        pg_err_set(g->err, "rules", heads ? "megatron-lm-0" : "megatron-lm-0,heads=N");
        pg_err_detail(g->err, "Megatron-LM itself then assumes version 0; "
                              "megatron-lm-2 and later use today's order");
        return PG_E_AMBIGUOUS;
    }
    if (version >= 2)
        return PG_OK;
    if (!heads) {
        (void)pg_fail(g->err, PG_E_AMBIGUOUS, "%s: nothing says how many attention heads there are",
                      PG_SHOW(t->name));
        pg_err_set(g->err, "rules", "megatron-lm-%d,heads=N", version);
        return PG_E_AMBIGUOUS;
    }
    const uint64_t own = heads / m->tp, rows = x->w->dims[0];
    if (heads % m->tp || rows % (splits * own))
        return pg_fail(g->err, PG_E_FORMAT, "%s: %s rows on each of %s ranks, for %s heads",
                       PG_SHOW(t->name), PG_NUM(rows), PG_NUM(m->tp), PG_NUM(heads));
    t->order = (pg__megatron_order){
        .version = version, .splits = splits, .heads = own, .size = rows / splits / own};
    g->l->is_reordered = 1;
    return PG_OK;
}

/* Whether a first layer of an MLP is gated: it then has twice the rows that the second one has
 * columns. */
static pg_status is_gated(int *yes, const pg__megatron_merging *g, const pg__megatron_part *x)
{
    pg_err *err = g->err;
    static const char *const names[][2] = {{"linear_fc1.", "linear_fc2.weight"},
                                           {"dense_h_to_4h.", "dense_4h_to_h.weight"}};
    const uint64_t says = g->m->facts.args.swiglu;
    pg__str second = {0};
    uint64_t columns = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < 2 && !second.n; i++) {
        const char *at = strstr(x->own, names[i][0]);
        if (!at)
            continue;
        const char *digits = at + strlen(at);
        while (digits > at && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        PG_TRY(pg__str_printf(&second, g->err, "%.*s%s%s", (int)(at - x->own), x->own, names[i][1],
                              digits));
    }
    const pg_store *s = pg__megatron_store(g->m, g->stage, x->e, 0);
    size_t k = PG_NONE;
    if (second.n)
        PG_TRY(pg__megatron_find(&k, g, x->e, 0, second.s, PG_NONE));
    if (k != PG_NONE && pg_store_weight(s, k)->rank == 2)
        columns = pg_store_weight(s, k)->dims[1];
    if (!columns || (x->w->dims[0] != columns && x->w->dims[0] / 2 != columns))
        PG_FAIL(PG_E_FORMAT, "%s: its shape fits no %s", PG_SHOW(x->own),
                second.n ? PG_SHOW(second.s) : "second layer");
    *yes = x->w->dims[0] != columns;
    if (says == 2 && !*yes)
        PG_FAIL(PG_E_FORMAT, "%s: args say swiglu, but it has no two halves", PG_SHOW(x->own));
done:
    pg__str_fini(&second);
    return st;
}

/* ---- tensors that no rule knows ---- */

/* Whether all elements have the same bytes, which proves nothing. */
static int is_constant(const unsigned char *b, size_t n, size_t elem)
{
    return n > elem && memcmp(b, b + elem, n - elem) == 0;
}

/* Do all ranks hold the same numbers? *constant: they are all equal. */
static pg_status compare_ranks(int *equal, int *constant, const pg__megatron_merging *g,
                               const pg__megatron_part *x)
{
    enum { BLOCK = 65536 };
    pg_status st = PG_OK;
    pg__megatron_piece p, q;
    unsigned char *a = pg__mem_array(2, BLOCK), first[16] = {0};
    const size_t elem = pg_dtype_bytes(x->w->dtype);
    *equal = *constant = 1;
    if (!a)
        return pg__nomem(g->err);
    PG_TRY(find_piece(&p, g, x, x->e, 0));
    for (uint64_t off = 0; off < x->w->n_bytes && *equal; off += BLOCK) {
        const uint64_t left = x->w->n_bytes - off;
        const size_t n = left < BLOCK ? (size_t)left : BLOCK;
        PG_TRY(pg_store_read(p.s, p.tensor, off, a, n, g->err));
        if (off == 0)
            memcpy(first, a, elem);
        *constant =
            *constant && memcmp(first, a, elem) == 0 && (n == elem || is_constant(a, n, elem));
        for (uint64_t t = 1; t < g->m->tp && *equal; t++) {
            PG_TRY(find_piece(&q, g, x, x->e, t));
            PG_TRY(pg_store_read(q.s, q.tensor, off, a + BLOCK, n, g->err));
            *equal = memcmp(a, a + BLOCK, n) == 0;
        }
    }
done:
    pg__mem_free(a);
    return st;
}

/* Numbers that vary and are equal on all ranks are no cut tensor's. */
static pg_status take_unknown(pg__megatron_merging *g, pg__megatron_tensor *t,
                              const pg__megatron_part *x)
{
    int equal = 0, constant = 0;
    const pg_status st = compare_ranks(&equal, &constant, g, x);
    if (st != PG_OK)
        return st;
    if (equal && !constant)
        return take_same(g, t, x, 1);
    (void)pg_fail(g->err, PG_E_AMBIGUOUS, "%s: no rule says how it is cut over %s ranks%s",
                  PG_SHOW(t->name), PG_NUM(g->m->tp),
                  equal ? ", where it holds one number throughout" : "");
    pg_err_set(g->err, "rules", "%s=%s", x->own, equal ? "same" : "0");
    pg_err_detail(g->err, "=0 and =1: cut along this axis, =glu: two halves, =same: on all ranks");
    return PG_E_AMBIGUOUS;
}

/* ---- the arguments ---- */

/* What the arguments say of a dimension of the whole tensor. */
typedef struct expected {
    const char *suffix, *what;
    int axis;
    uint64_t n; /* 0: not said */
} expected;

/* Do the arguments agree with a tensor of the whole model? */
static pg_status check_args(const pg__megatron_merging *g, const pg__megatron_tensor *t)
{
    const pg__megatron_args *a = &g->m->facts.args;
    const uint64_t heads = a->kv_channels * a->num_attention_heads;
    const int special = a->multi_latent_attention == 2 || a->attention_output_gate == 2;
    const uint64_t qkv = special ? 0 : heads + 2 * a->kv_channels * a->num_query_groups;
    const expected table[] = {
        {"word_embeddings.weight", "padded_vocab_size", 0, a->padded_vocab_size},
        {"word_embeddings.weight", "hidden_size", 1, a->hidden_size},
        {"output_layer.weight", "padded_vocab_size", 0, a->padded_vocab_size},
        {"output_layer.weight", "hidden_size", 1, a->hidden_size},
        {".linear_qkv.weight", "attention heads", 0, qkv},
        {".query_key_value.weight", "attention heads", 0, qkv},
        {".linear_qkv.weight", "hidden_size", 1, a->hidden_size},
        {".query_key_value.weight", "hidden_size", 1, a->hidden_size},
        {".linear_proj.weight", "attention heads", 1, special ? 0 : heads},
        {"attention.dense.weight", "attention heads", 1, heads},
        {".linear_fc2.weight", "ffn_hidden_size", 1, a->num_experts ? 0 : a->ffn_hidden_size},
        {".dense_4h_to_h.weight", "ffn_hidden_size", 1, a->num_experts ? 0 : a->ffn_hidden_size},
    };
    if (!a->there || a->heterogeneous_layers_config_path == 2 || !pg__megatron_is_plain(t->name))
        return PG_OK;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const expected *x = &table[i];
        if (!x->n || t->rank <= (uint32_t)x->axis || t->dims[x->axis] == x->n ||
            !pg__ends_with(t->name, x->suffix))
            continue;
        return pg_fail(g->err, PG_E_FORMAT,
                       "%s: axis %d has %s in all %s ranks, but args say %s (%s)", PG_SHOW(t->name),
                       x->axis, PG_NUM(t->dims[x->axis]), PG_NUM(g->m->tp), PG_NUM(x->n), x->what);
    }
    return PG_OK;
}

/* If no argument says how many ranks there are, only the shapes tell whether some are missing: what
 * attention gives to its projection is as wide as the model. */
static pg_status check_width(const pg__megatron_merging *g, const pg__megatron_tensor *t)
{
    if (g->m->facts.args.tensor_model_parallel_size || t->rank != 2 || t->dims[0] == t->dims[1] ||
        !(pg__ends_with(t->name, "attention.linear_proj.weight") ||
          pg__ends_with(t->name, "attention.dense.weight")))
        return PG_OK;
    return pg_fail(g->err, PG_E_UNSUPPORTED,
                   "%s: %s x %s of all %s ranks, and no args say how many ranks there should be",
                   PG_SHOW(t->name), PG_NUM(t->dims[0]), PG_NUM(t->dims[1]), PG_NUM(g->m->tp));
}

/* ---- the vocabulary ---- */

static int is_of_words(const char *name)
{
    static const char *const ends[] = {"word_embeddings.weight", "output_layer.weight",
                                       "output_layer.bias", "lm_head.bias"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (pg__ends_with(name, ends[i]))
            return 1;
    return 0;
}

/* Leaves out the rows behind those that the user's rules name. */
static pg_status cut_padding(pg__megatron_merging *g, pg__megatron_tensor *t)
{
    const uint64_t words = g->m->rules.words;
    size_t n = 0;
    if (!words || !t->rank || !is_of_words(t->name))
        return PG_OK;
    if (words > t->dims[0])
        return pg_fail(g->err, PG_E_MISMATCH, "%s: %s rows, fewer than the vocabulary of the rules",
                       PG_SHOW(t->name), PG_NUM(t->dims[0]));
    t->dims[0] = words;
    for (size_t i = 0; i < t->tiled.n; i++) {
        pg__tile *tile = &t->tiled.v[i];
        if (tile->start[0] >= words)
            continue;
        if (tile->size[0] > words - tile->start[0])
            tile->size[0] = words - tile->start[0];
        t->tiled.v[n++] = *tile;
    }
    t->tiled.n = n;
    return PG_OK;
}

/* ---- one tensor ---- */

static pg_status cut(pg__megatron_merging *g, pg__megatron_tensor *t, const pg__megatron_part *x,
                     pg__megatron_cut how)
{
    int gated = 0;
    switch (how) {
    case PG_MEGATRON_SAME: return take_same(g, t, x, 1);
    case PG_MEGATRON_FIRST: return take_same(g, t, x, 0);
    case PG_MEGATRON_COLUMNS: return cut_along(g, t, x, 1);
    case PG_MEGATRON_HALVES: return cut_halves(g, t, x);
    case PG_MEGATRON_GATED: {
        const pg_status st = is_gated(&gated, g, x);
        if (st != PG_OK)
            return st;
        return gated ? cut_halves(g, t, x) : cut_along(g, t, x, 0);
    }
    case PG_MEGATRON_QKV:
    case PG_MEGATRON_KV: {
        const pg_status st = order_rows(g, t, x, how == PG_MEGATRON_QKV ? 3 : 2);
        if (st != PG_OK)
            return st;
        return cut_along(g, t, x, 0);
    }
    case PG_MEGATRON_ROWS: return cut_along(g, t, x, 0);
    case PG_MEGATRON_UNKNOWN: break;
    }
    return take_unknown(g, t, x);
}

/* On one tensor parallel rank nothing is cut; the order of rows may still be an old one. */
static pg_status take_whole(pg__megatron_merging *g, pg__megatron_tensor *t,
                            const pg__megatron_part *x, pg__megatron_cut how)
{
    if (how == PG_MEGATRON_QKV || how == PG_MEGATRON_KV)
        return cut(g, t, x, how);
    return take_same(g, t, x, 1);
}

pg_status pg__megatron_add_tensor(pg__megatron_merging *g, const pg__megatron_part *x)
{
    pg__megatron_model *l = g->l;
    int given = 0;
    if (pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v))
        return pg__nomem(g->err);
    pg__megatron_tensor *t = &l->v[l->n];
    *t = (pg__megatron_tensor){
        .name = pg__mem_strdup(x->name), .dtype = x->w->dtype, .rank = x->w->rank};
    if (!t->name)
        return pg__nomem(g->err);
    l->n++;
    memcpy(t->dims, x->w->dims, sizeof t->dims);
    const pg__megatron_cut how = pg__megatron_rule(&g->m->rules, x->own, &given);
    pg_status st = g->m->tp == 1 ? take_whole(g, t, x, how) : cut(g, t, x, how);
    if (st == PG_OK && !given)
        st = check_args(g, t);
    if (st == PG_OK && !given)
        st = check_width(g, t);
    if (st == PG_OK)
        st = cut_padding(g, t);
    t->tiled.name = t->name;
    t->tiled.elem = pg_dtype_bytes(t->dtype);
    t->tiled.rank = t->rank;
    memcpy(t->tiled.dims, t->dims, sizeof t->dims);
    return st == PG_OK ? pg__tiles_check(&t->tiled, g->err) : st;
}

/* ---- what an earlier stage has, too ---- */

pg_status pg__megatron_add_repeated(pg__megatron_merging *g, pg__megatron_tensor *t,
                                    const pg__megatron_part *x)
{
    pg_err *err = g->err;
    pg_status st = PG_OK;
    pg__megatron_piece p;
    const size_t n = t->tiled.n;
    for (size_t i = 0; i < n; i++) {
        const size_t of = t->tiled.v[i].source;
        const pg__megatron_piece *first = &g->l->pieces[of];
        if (!pg__same_shape(pg_store_weight(first->s, first->tensor), x->w) ||
            x->w->dtype != t->dtype)
            PG_FAIL(PG_E_FORMAT, "%s: %s has another shape or type of %s than an earlier stage",
                    PG_SHOW(x->own), pg__megatron_rank_name(g->m, g->stage, 0, 0).s,
                    PG_SHOW(t->name));
        const size_t r = first->t;
        PG_TRY(find_piece(&p, g, x, 0, r));
        PG_TRY(add_copy(g, of, p));
        PG_TRY(add_expert_copies(g, x, of, r));
    }
    g->l->n_tied += strcmp(t->name, x->name) != 0;
done:
    return st;
}

/* ---- reading ---- */

/* Where row `to` of the new order is in the rank's, and how many follow it there. */
static uint64_t row_in(const pg__megatron_order *o, uint64_t to, uint64_t *n)
{
    const uint64_t head = to / (o->splits * o->size), split = to / o->size % o->splits;
    const uint64_t i = to % o->size;
    *n = o->version == 0 ? o->size - i : 1;
    return o->version == 0 ? (split * o->heads + head) * o->size + i
                           : (head * o->size + i) * o->splits + split;
}

pg_status pg__megatron_read_piece(const pg__megatron_piece *p, const pg__megatron_tensor *t,
                                  uint64_t off, void *buf, size_t n, pg_err *err)
{
    unsigned char *to = buf;
    const uint64_t elem = pg_dtype_bytes(t->dtype);
    uint64_t row = elem;
    if (!t->order.splits)
        return pg__store_read_raw(p->s, p->tensor, p->first * elem + off, buf, n, err);
    for (uint32_t k = 1; k < t->rank; k++)
        row *= t->dims[k];
    while (n) {
        uint64_t rows = 0;
        const uint64_t from = row_in(&t->order, off / row, &rows) * row + off % row;
        const uint64_t left = rows * row - off % row;
        const size_t part = left < n ? (size_t)left : n;
        const pg_status st = pg__store_read_raw(p->s, p->tensor, from, to, part, err);
        if (st != PG_OK)
            return st;
        to += part;
        off += part;
        n -= part;
    }
    return PG_OK;
}
