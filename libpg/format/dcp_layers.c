/* dcp_layers.c - the layers of a transformer one by one. Megatron-Core saves those of one kind as
 * one tensor, whose first axis numbers them: "decoder.layers.mlp.linear_fc1.weight" of 4x160x32 is
 * "decoder.layers.0.mlp.linear_fc1.weight" to ".3." of 160x32 in the model. Experts get an axis in
 * the same way, and the halves of gated activations may be two tensors. Each chunk is of one layer
 * and one expert, so taking them apart moves no bytes: a tensor's chunks are dealt out.
 *
 *     decoder.layers.REST             [layers, ...]
 *     ...mlp.experts.experts.REST     [layers,] experts, ...
 *     ...mlp.experts.experts.3.REST   an expert of its own
 *     ...linear_fc1.weight_w, _v      the gate, and the other half
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"

#define LAYERS  "layers."
#define EXPERTS "mlp.experts.experts."
#define NUMBER  24u /* bytes of one, in a name */

/* A tensor that belongs to numbered layers, or to stacked ones. */
typedef struct member {
    size_t tensor;
    const char *name;
    size_t n_prefix; /* "decoder.layers." */
    int numbered;    /* a number follows */
    size_t stack;    /* 1 + its stack, if it is taken apart */
    size_t at;       /* the first chunk that is not dealt out yet */
} member;

typedef struct unstacking {
    pg__dcp *d;
    const pg__dcp_core *core;
    member *v; /* by name */
    size_t n;
    size_t *member_of; /* by tensor: 1 + its member */
    pg__dcp_tensor *out;
    size_t n_out, cap;
    size_t n_layers, n_experts; /* tensors that stay stacked */
    const char *layer, *expert; /* one of them */
    pg_err *err;
} unstacking;

static int has_number(const char *s)
{
    const size_t n = strspn(s, "0123456789");
    return n > 0 && s[n] == '.';
}

/* Where what follows "layers." begins: the first that has no number, else the first. 0: none. */
static size_t prefix_of(const char *name)
{
    size_t first = 0;
    for (const char *s = name; (s = strstr(s, LAYERS)); s++) {
        const char *rest = s + strlen(LAYERS);
        if ((s > name && s[-1] != '.') || !*rest)
            continue;
        if (!has_number(rest))
            return (size_t)(rest - name);
        first = first ? first : (size_t)(rest - name);
    }
    return first;
}

/* What follows "mlp.experts.experts.", or NULL. */
static const char *expert_part(const char *name)
{
    const char *s = strstr(name, EXPERTS);
    return s && (s == name || s[-1] == '.') ? s + strlen(EXPERTS) : NULL;
}

/* ---- which layers are stacked ---- */

static int by_prefix(const void *a, const void *b)
{
    const member *x = a, *y = b;
    const size_t n = x->n_prefix < y->n_prefix ? x->n_prefix : y->n_prefix;
    const int c = memcmp(x->name, y->name, n);
    if (c)
        return c;
    if (x->n_prefix != y->n_prefix)
        return x->n_prefix < y->n_prefix ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static int same_prefix(const member *x, const member *y)
{
    return x->n_prefix == y->n_prefix && memcmp(x->name, y->name, x->n_prefix) == 0;
}

static pg_status list_members(unstacking *u)
{
    pg__dcp *d = u->d;
    u->v = pg__mem_array(d->n, sizeof *u->v);
    u->member_of = pg__mem_array(d->n, sizeof *u->member_of);
    if (!u->v || !u->member_of)
        return pg__nomem(u->err);
    for (size_t i = 0; i < d->n; i++) {
        const char *name = d->v[i].name;
        const size_t n = d->v[i].guessed ? prefix_of(name) : 0;
        if (n)
            u->v[u->n++] = (member){
                .tensor = i, .name = name, .n_prefix = n, .numbered = has_number(name + n)};
    }
    if (u->n)
        qsort(u->v, u->n, sizeof *u->v, by_prefix);
    for (size_t i = 0; i < u->n; i++)
        u->member_of[u->v[i].tensor] = i + 1;
    return PG_OK;
}

/* 1 if every chunk has just one place along an axis, and all places have some. */
static int is_dealt(const pg__dcp_tensor *t, uint32_t axis)
{
    if (t->tiled.rank <= axis || t->tiled.n == 0)
        return 0;
    for (size_t i = 0; i < t->tiled.n; i++)
        if (t->tiled.v[i].size[axis] != 1)
            return 0;
    return 1;
}

/* "decoder.layers." itself, of a model or of a wrapper around it. */
static int is_decoder(const member *m)
{
    static const char *const known[] = {"decoder.layers.", "module.decoder.layers."};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (m->n_prefix == strlen(known[i]) && memcmp(m->name, known[i], m->n_prefix) == 0)
            return 1;
    return 0;
}

/* Members m[0 ... n) have one prefix: are they the tensors of one stack? */
static int is_stack(const unstacking *u, const member *m, size_t n)
{
    const pg__dcp_tensor *first = &u->d->v[m->tensor];
    const uint64_t layers = first->tiled.rank ? first->tiled.dims[0] : 0;
    if (u->core->n_layers && is_decoder(m) && layers != u->core->n_layers)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const pg__dcp_tensor *t = &u->d->v[m[i].tensor];
        if (m[i].numbered || !is_dealt(t, 0) || t->tiled.dims[0] != layers)
            return 0;
    }
    return u->core->is_core;
}

static void find_stacks(unstacking *u)
{
    for (size_t i = 0, n; i < u->n; i += n) {
        size_t n_stacked = 0;
        for (n = 0; i + n < u->n && same_prefix(&u->v[i], &u->v[i + n]); n++)
            n_stacked += !u->v[i + n].numbered;
        if (n_stacked && is_stack(u, &u->v[i], n)) {
            for (size_t k = 0; k < n; k++)
                u->v[i + k].stack = i + 1;
            continue;
        }
        for (size_t k = 0; n_stacked && k < n; k++)
            if (!u->v[i + k].numbered && is_dealt(&u->d->v[u->v[i + k].tensor], 0)) {
                u->layer = u->n_layers++ ? u->layer : u->v[i + k].name;
            }
    }
}

/* ---- names ---- */

/* Layers without Transformer Engine have norms of their own, which are saved under its names. */
static void put_rest(char *out, size_t cap, const unstacking *u, const char *rest)
{
    static const char *const norms[][2] = {
        {"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
        {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."}};
    for (size_t i = 0; u->core->is_local && i < sizeof norms / sizeof *norms; i++) {
        const size_t n = strlen(norms[i][0]);
        if (strncmp(rest, norms[i][0], n) == 0) {
            (void)snprintf(out, cap, "%s%s", norms[i][1], rest + n);
            return;
        }
    }
    (void)snprintf(out, cap, "%s", rest);
}

/* The name of an expert's tensor; at: bytes of `name` up to the end of "mlp.experts.experts.". */
static void put_expert(char *out, size_t cap, const unstacking *u, const char *name, size_t at,
                       const char *rest, unsigned long long expert)
{
    const int n = (int)(at - strlen("experts."));
    if (u->core->experts == PG_DCP_EXPERTS_GROUPED)
        (void)snprintf(out, cap, "%.*s%s%llu", n, name, rest, expert);
    else
        (void)snprintf(out, cap, "%.*slocal_experts.%llu.%s", n, name, expert, rest);
}

/* The name of a layer's tensor; m: NULL for one that is of no stack. */
static pg_status layer_name(char **out, const unstacking *u, const char *name, const member *m,
                            uint64_t layer)
{
    const size_t n = prefix_of(name), cap = strlen(name) + 2 * NUMBER;
    const int stacked = m && m->stack;
    const size_t digits = n && has_number(name + n) ? strspn(name + n, "0123456789") + 1 : 0;
    char *s = pg__mem_array(cap, 1);
    if (!s)
        return pg__nomem(u->err);
    if (stacked)
        (void)snprintf(s, cap, "%.*s%llu.", (int)n, name, (unsigned long long)layer);
    else
        (void)snprintf(s, cap, "%.*s", (int)(n + digits), name);
    const size_t at = strlen(s);
    if (n)
        put_rest(s + at, cap - at, u, name + n + digits);
    else
        (void)snprintf(s, cap, "%s", name);
    *out = s;
    return PG_OK;
}

/* ---- dealing out ---- */

/* Takes over `name`. src's chunks from `first` on, n of them, without their `lead` first axes. */
static pg_status add_tensor(unstacking *u, const pg__dcp_tensor *src, char *name, size_t first,
                            size_t n, uint32_t lead)
{
    if (pg__mem_grow(&u->out, &u->cap, u->n_out + 1, sizeof *u->out)) {
        pg__mem_free(name);
        return pg__nomem(u->err);
    }
    pg__dcp_tensor *t = &u->out[u->n_out++];
    *t = *src;
    t->name = name;
    t->path = NULL;
    t->n_path = 0;
    t->lead = lead;
    t->tiled.name = name;
    t->tiled.rank = src->tiled.rank - lead;
    memset(t->tiled.dims, 0, sizeof t->tiled.dims);
    memcpy(t->tiled.dims, src->tiled.dims + lead, t->tiled.rank * sizeof *t->tiled.dims);
    t->tiled.n = 0;
    t->tiled.v = pg__mem_array(n, sizeof *t->tiled.v);
    if (!t->tiled.v)
        return pg__nomem(u->err);
    for (; t->tiled.n < n; t->tiled.n++) {
        const pg__tile *from = &src->tiled.v[first + t->tiled.n];
        pg__tile *to = &t->tiled.v[t->tiled.n];
        to->source = from->source;
        memcpy(to->start, from->start + lead, t->tiled.rank * sizeof *to->start);
        memcpy(to->size, from->size + lead, t->tiled.rank * sizeof *to->size);
    }
    return pg__dcp_guess_path(u->d, t, pg__dcp_training_cut(name), u->err);
}

/* Chunks from `at` on that are of the same layer, and of the same expert if lead is 2; those of a
 * tensor are sorted. */
static size_t count_chunks(const pg__dcp_tensor *t, size_t at, uint32_t lead)
{
    size_t n = 0;
    while (at + n < t->tiled.n && memcmp(t->tiled.v[at + n].start, t->tiled.v[at].start,
                                         lead * sizeof *t->tiled.v[at].start) == 0)
        n++;
    return n;
}

/* 1 if the axis that follows `lead` numbers experts, and they can be taken apart. */
static int deals_experts(unstacking *u, const pg__dcp_tensor *t, const char *name, uint32_t lead)
{
    const char *rest = expert_part(name);
    if (!rest || has_number(rest) || !is_dealt(t, lead))
        return 0;
    if (u->core->experts == PG_DCP_EXPERTS_SEQUENTIAL || u->core->experts == PG_DCP_EXPERTS_GROUPED)
        return 1;
    u->expert = u->n_experts++ ? u->expert : t->name;
    return 0;
}

/* All that a tensor has of one layer, or all of it: `name` is its, taken over. */
static pg_status add_layer(unstacking *u, const pg__dcp_tensor *t, char *name, size_t *at,
                           uint32_t lead)
{
    pg_status st = PG_OK;
    const char *rest = expert_part(name);
    const uint64_t layer = t->tiled.n && lead ? t->tiled.v[*at].start[0] : 0;
    if (!deals_experts(u, t, name, lead)) {
        const size_t n = lead ? count_chunks(t, *at, lead) : t->tiled.n - *at;
        st = add_tensor(u, t, name, *at, n, lead);
        *at += n;
        return st;
    }
    while (*at < t->tiled.n && (!lead || t->tiled.v[*at].start[0] == layer)) {
        const size_t n = count_chunks(t, *at, lead + 1), cap = strlen(name) + 2 * NUMBER;
        char *own = pg__mem_array(cap, 1);
        if (!own)
            PG_TRY(pg__nomem(u->err));
        put_expert(own, cap, u, name, (size_t)(rest - name), rest,
                   (unsigned long long)t->tiled.v[*at].start[lead]);
        PG_TRY(add_tensor(u, t, own, *at, n, lead + 1));
        *at += n;
    }
done:
    pg__mem_free(name);
    return st;
}

/* An expert's tensor that is one already gets the name that the model has. */
static pg_status rename_expert(char **name, const unstacking *u)
{
    const char *rest = expert_part(*name);
    if (!rest || !has_number(rest) ||
        (u->core->experts != PG_DCP_EXPERTS_SEQUENTIAL &&
         u->core->experts != PG_DCP_EXPERTS_GROUPED))
        return PG_OK;
    char *after = NULL;
    const unsigned long long expert = strtoull(rest, &after, 10);
    const size_t cap = strlen(*name) + 2 * NUMBER;
    char *own = pg__mem_array(cap, 1);
    if (!own)
        return pg__nomem(u->err);
    put_expert(own, cap, u, *name, (size_t)(rest - *name), after + 1, expert);
    pg__mem_free(*name);
    *name = own;
    return PG_OK;
}

/* A tensor that is of no stack. */
static pg_status add_one(unstacking *u, size_t tensor)
{
    const pg__dcp_tensor *t = &u->d->v[tensor];
    size_t at = 0;
    char *name = NULL;
    pg_status st = layer_name(&name, u, t->name, NULL, 0);
    if (st == PG_OK)
        st = rename_expert(&name, u);
    if (st == PG_OK)
        return add_layer(u, t, name, &at, 0);
    pg__mem_free(name);
    return st;
}

/* All layers of a stack whose first member is m, one after the other. */
static pg_status add_stack(unstacking *u, member *m)
{
    const size_t first = m->stack;
    member *const end = u->v + u->n;
    const uint64_t layers = u->d->v[m->tensor].tiled.dims[0];
    for (uint64_t layer = 0; layer < layers; layer++)
        for (member *x = m; x < end && x->stack == first; x++) {
            const pg__dcp_tensor *t = &u->d->v[x->tensor];
            char *name = NULL;
            pg_status st = layer_name(&name, u, t->name, x, layer);
            if (st == PG_OK)
                st = add_layer(u, t, name, &x->at, 1);
            if (st != PG_OK)
                return st;
        }
    return PG_OK;
}

static pg_status deal(unstacking *u)
{
    for (size_t i = 0; i < u->d->n; i++) {
        member *m = u->member_of[i] ? &u->v[u->member_of[i] - 1] : NULL;
        pg_status st = PG_OK;
        if (!m || !m->stack)
            st = add_one(u, i);
        else if (m == &u->v[m->stack - 1]) /* the others come with it */
            st = add_stack(u, m);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

/* ---- the halves of gated activations ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const pg__dcp_tensor *const *)a)->name,
                  (*(const pg__dcp_tensor *const *)b)->name);
}

static int is_gate(const char *name)
{
    return pg__ends_with(name, "linear_fc1.weight_w") || pg__ends_with(name, "linear_fc1.bias_w");
}

/* The tensor that is called like the gate but for its end, "_v", and fits. */
static pg_status other_half(pg__dcp_tensor **out, pg__dcp_tensor *const *sorted, size_t n,
                            const pg__dcp_tensor *gate, pg_err *err)
{
    pg__dcp_tensor half = {.name = pg__mem_strdup(gate->name)};
    const pg__dcp_tensor *key = &half;
    if (!half.name)
        return pg__nomem(err);
    half.name[strlen(half.name) - 1] = 'v';
    pg__dcp_tensor *const *found = bsearch(&key, sorted, n, sizeof key, by_name);
    pg__mem_free(half.name);
    const pg__tiled *a = &gate->tiled, *b = found ? &(*found)->tiled : NULL;
    if (b && a->rank == b->rank && a->rank && gate->known == (*found)->known &&
        gate->dtype == (*found)->dtype && gate->is_complex == (*found)->is_complex &&
        memcmp(a->dims, b->dims, sizeof a->dims) == 0)
        *out = *found;
    return PG_OK;
}

/* Puts the rows of b below those of a. */
static pg_status append(pg__tiled *a, pg__tiled *b, pg_err *err)
{
    const uint64_t rows = a->dims[0];
    pg__tile *v = pg__mem_array(a->n + b->n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    if (__builtin_add_overflow(rows, rows, &a->dims[0]) || a->dims[0] > INT64_MAX) {
        pg__mem_free(v);
        return pg_fail(err, PG_E_LIMIT, "%s: shape is too large", PG_SHOW(a->name));
    }
    if (a->n)
        memcpy(v, a->v, a->n * sizeof *v);
    for (size_t i = 0; i < b->n; i++) {
        v[a->n + i] = b->v[i];
        v[a->n + i].start[0] += rows;
    }
    pg__mem_free(a->v);
    a->v = v;
    a->n += b->n;
    return PG_OK;
}

static void free_path(pg__dcp_tensor *t)
{
    for (size_t k = 0; k < t->n_path; k++)
        pg__mem_free(t->path[k]);
    pg__mem_free(t->path);
    t->path = NULL;
    t->n_path = 0;
}

static void free_tensor(pg__dcp_tensor *t)
{
    free_path(t);
    pg__mem_free(t->name);
    pg__mem_free(t->tiled.v);
}

enum { PLAIN, GATE, GONE };

/* Which tensors are gates whose other half is there, and which are these halves. */
static pg_status find_halves(char *role, pg__dcp *d, pg_err *err)
{
    pg_status st = PG_OK;
    pg__dcp_tensor **sorted = pg__mem_array(d->n, sizeof *sorted);
    if (!sorted)
        return pg__nomem(err);
    for (size_t i = 0; i < d->n; i++)
        sorted[i] = &d->v[i];
    if (d->n)
        qsort(sorted, d->n, sizeof *sorted, by_name);
    for (size_t i = 0; i < d->n; i++) {
        pg__dcp_tensor *t = &d->v[i], *half = NULL;
        if (!t->guessed || !is_gate(t->name))
            continue;
        PG_TRY(other_half(&half, sorted, d->n, t, err));
        if (!half || role[half - d->v] != PLAIN)
            continue;
        role[i] = GATE;
        role[half - d->v] = GONE;
        PG_TRY(append(&t->tiled, &half->tiled, err));
    }
done:
    pg__mem_free(sorted);
    return st;
}

static pg_status join_halves(pg__dcp *d, pg_err *err)
{
    pg_status st = PG_OK;
    size_t kept = 0;
    char *role = pg__mem_array(d->n, 1);
    if (!role)
        return pg__nomem(err);
    PG_TRY(find_halves(role, d, err));
    for (size_t i = 0; i < d->n; i++) {
        pg__dcp_tensor *t = &d->v[i];
        if (role[i] == GATE) {
            t->name[strlen(t->name) - strlen("_w")] = 0;
            free_path(t);
            st = st == PG_OK ? pg__dcp_guess_path(d, t, pg__dcp_training_cut(t->name), err) : st;
        }
        if (role[i] == GONE)
            free_tensor(t);
        else
            d->v[kept++] = *t;
    }
    d->n = kept;
done:
    pg__mem_free(role);
    return st;
}

/* ---- the whole ---- */

static pg_status put_note(pg__str *note, const unstacking *u)
{
    pg_status st = PG_OK;
    if (u->n_layers)
        st = pg__str_printf(note, u->err,
                            "layers are stacked along axis 0 (%s%s), for no file says that "
                            "Megatron-Core did so: the rule \"unstack\" takes them apart",
                            PG_SHOW(u->layer), u->n_layers > 1 ? ", ..." : "");
    if (st == PG_OK && u->n_experts)
        st = pg__str_printf(note, u->err, "%sexperts are stacked (%s%s)%s", note->n ? "; " : "",
                            PG_SHOW(u->expert), u->n_experts > 1 ? ", ..." : "",
                            u->core->experts == PG_DCP_EXPERTS_STACKED
                                ? ", transposed from GroupedMLP's weight1 and weight2"
                                : ", for no file says what the model calls them: the rule "
                                  "\"experts=sequential\" or \"experts=grouped\" does");
    return st;
}

static void unstacking_fini(unstacking *u)
{
    for (size_t i = 0; i < u->n_out; i++)
        free_tensor(&u->out[i]);
    pg__mem_free(u->out);
    pg__mem_free(u->v);
    pg__mem_free(u->member_of);
}

pg_status pg__dcp_unstack(pg__dcp *d, const pg__dcp_core *core, pg__str *note, pg_err *err)
{
    pg_status st = PG_OK;
    unstacking u = {.d = d, .core = core, .err = err};
    if (core->as_saved)
        return PG_OK;
    d->budget = PG_LIMIT_NAMES_BYTES;
    if (core->is_core)
        PG_TRY(join_halves(d, err));
    PG_TRY(list_members(&u));
    find_stacks(&u);
    if (core->is_core) {
        PG_TRY(deal(&u));
        const unstacking old = {.out = d->v, .n_out = d->n};
        d->v = u.out;
        d->n = u.n_out;
        d->cap = u.cap;
        u.out = old.out; /* names of the note are in it */
        u.n_out = old.n_out;
    }
    PG_TRY(put_note(note, &u));
done:
    unstacking_fini(&u);
    return st;
}
