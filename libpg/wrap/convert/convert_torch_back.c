/* convert_torch_back.c - converts PyTorch's layout into Keras', the reverse of convert_torch.c,
 * variable by variable. The model's description says which variables there must be; every tensor
 * must be used. The two biases of an LSTM are added, as PyTorch does. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/fit/fit.h"
#include "wrap/convert/convert_torch.h"

typedef struct back {
    pg__convert *c;
    const pg__slots *s;
    const size_t *index; /* of c->at by name */
    unsigned char *used;
    const pg__leaf *leaf;
    const pg__layer *layer; /* the leaf's, or the one inside of it */
    const pg__slot *slot;
    const char *module, *reverse; /* "enc.dense", "_reverse" */
    pg_err *err;
} back;

int pg__names_are_torch(const pg__outline *o)
{
    for (size_t i = 0; i < o->n_tensors; i++)
        if (!strchr(o->tensors[i].name, '.') || strchr(o->tensors[i].name, '/'))
            return 0;
    return o->n_tensors > 0;
}

static pg_status missing(const back *p, const char *tensor)
{
    return pg_fail(p->err, PG_E_MISMATCH, "layer %s of the model: the file has no %s.%s%s for it",
                   PG_SHOW(p->leaf->layer->name), PG_SHOW(p->module), tensor, p->reverse);
}

/* The tensor of the current module with that rank (0: any). */
static pg_status tensor(back *p, const char *name, uint32_t rank, pg__take *out)
{
    pg_status st = PG_OK;
    pg_err *err = p->err;
    pg__str full = {0};
    PG_TRY(pg__str_printf(&full, err, "%s.%s%s", p->module, name, p->reverse));
    const size_t at = pg__outline_find(&p->c->at, p->index, full.s);
    if (at == PG_NONE || (rank && p->c->at.tensors[at].take.rank != rank)) {
        st = missing(p, name);
        goto done;
    }
    p->used[at] = 1;
    *out = p->c->at.tensors[at].take;
done:
    pg__str_fini(&full);
    return st;
}

static pg_status wrong_shape(const back *p)
{
    return pg_fail(p->err, PG_E_MISMATCH, "layer %s of the model: %s has another shape in %s",
                   PG_SHOW(p->leaf->layer->name), p->slot->kind, PG_SHOW(p->module));
}

/* ---- recipes ---- */

/* Axis k becomes two, of extents a and b. 0 if its extent is not a * b. */
static int split_axis(pg__take *t, uint32_t k, uint64_t b)
{
    if (b == 0 || t->dims[k] % b || t->rank == PG_MAX_RANK || t->n_blocks > 1)
        return 0;
    for (uint32_t i = t->rank; i > k + 1; i--) {
        t->dims[i] = t->dims[i - 1];
        t->stride[i] = t->stride[i - 1];
    }
    t->rank++;
    t->dims[k + 1] = b;
    t->stride[k + 1] = t->stride[k];
    t->dims[k] /= b;
    t->stride[k] *= b;
    return 1;
}

/* (b, a, *k) becomes (*k, a, b). */
static void kernel_last(pg__take *t)
{
    uint32_t perm[PG_MAX_RANK] = {0};
    for (uint32_t k = 0; k + 2 < t->rank; k++)
        perm[k] = k + 2;
    perm[t->rank - 2] = 1;
    perm[t->rank - 1] = 0;
    pg__take_permute(t, perm);
}

static int64_t number(const pg__layer *l, const char *key, int64_t fallback)
{
    int64_t n = fallback;
    return pg__json_int(pg__json_get(l->config, key), &n) && n > 0 ? n : fallback;
}

/* ---- one variable ---- */

static pg_status back_dense(back *p, pg__take *t)
{
    pg_status st = PG_OK;
    uint64_t channels = 0;
    if (strcmp(p->slot->kind, "bias") == 0)
        return tensor(p, "bias", 1, t);
    PG_TRY(tensor(p, "weight", 2, t));
    const uint64_t shape[] = {t->dims[1], t->dims[0]};
    if (p->layer == p->leaf->layer)
        PG_TRY(pg__torch_channels(p->c, p->layer, &channels, t->dims[1], 1, p->err));
    if (!channels) {
        pg__take_permute(t, (uint32_t[]){1, 0});
        return PG_OK;
    }
    if (!split_axis(t, 1, shape[0] / channels)) /* (out, channel, position) */
        return wrong_shape(p);
    pg__take_permute(t, (uint32_t[]){2, 1, 0});
    (void)pg__take_show(t, 2, shape);
done:
    return st;
}

static pg_status back_conv(back *p, pg__take *t)
{
    pg_status st = PG_OK;
    const int point = strcmp(p->slot->kind, "pointwise_kernel") == 0;
    const int separable = strncmp(p->layer->class_name, "Separable", 9) == 0;
    if (strcmp(p->slot->kind, "bias") == 0)
        return tensor(p, separable ? "pointwise.bias" : "bias", 1, t);
    PG_TRY(tensor(p, point ? "pointwise.weight" : "weight", 0, t));
    if (t->rank < 3)
        return wrong_shape(p);
    kernel_last(t);
done:
    return st;
}

/* (in * m, 1, *k) to (*k, in, m). */
static pg_status back_depthwise(back *p, pg__take *t)
{
    pg_status st = PG_OK;
    const int separable = strncmp(p->layer->class_name, "Separable", 9) == 0;
    uint32_t perm[PG_MAX_RANK] = {0};
    if (strcmp(p->slot->kind, "depthwise_kernel") != 0)
        return back_conv(p, t);
    PG_TRY(tensor(p, separable ? "depthwise.weight" : "weight", 0, t));
    if (t->rank < 3 || t->dims[1] != 1)
        return wrong_shape(p);
    pg__take_index(t, 1, 0);
    if (!split_axis(t, 0, (uint64_t)number(p->layer, "depth_multiplier", 1)))
        return wrong_shape(p);
    for (uint32_t k = 0; k < t->rank; k++)
        perm[k] = (k + 2) % t->rank;
    pg__take_permute(t, perm);
done:
    return st;
}

/* One number per feature: a Flatten before the layer has its channels last. adds_note: add a note.
 */
static pg_status back_features(back *p, pg__take *t, int adds_note)
{
    pg_status st = PG_OK;
    uint64_t channels = 0;
    const uint64_t n = t->dims[0];
    PG_TRY(pg__torch_channels(p->c, p->leaf->layer, &channels, n, adds_note, p->err));
    if (!channels)
        return PG_OK;
    if (!split_axis(t, 0, n / channels))
        return wrong_shape(p);
    pg__take_permute(t, (uint32_t[]){1, 0});
    (void)pg__take_show(t, 1, &n);
done:
    return st;
}

static pg_status back_norm(back *p, pg__take *t)
{
    static const char *const names[][2] = {{"gamma", "weight"},
                                           {"beta", "bias"},
                                           {"moving_mean", "running_mean"},
                                           {"moving_variance", "running_var"}};
    pg_status st = PG_OK;
    size_t k = 0;
    while (k < 4 && strcmp(p->slot->kind, names[k][0]) != 0)
        k++;
    if (k == 4)
        return pg_fail(p->err, PG_E_UNSUPPORTED, "layer %s has %s; PyTorch has no such variable",
                       PG_SHOW(p->leaf->layer->name), p->slot->kind);
    PG_TRY(tensor(p, names[k][1], 0, t));
    if (t->rank == 1)
        return back_features(p, t, p->slot->var == 0);
    if (pg__torch_image_order(p->c->graph, p->leaf->layer) != PG_FLAT_SAME)
        return pg_fail(p->err, PG_E_UNSUPPORTED,
                       "layer %s normalises over several axes of an image; PyTorch has these in "
                       "another order",
                       PG_SHOW(p->leaf->layer->name));
done:
    return st;
}

/* One slope per channel: (1, 1, channels), as many axes as are shared. */
static pg_status back_prelu(back *p, pg__take *t)
{
    pg_status st = PG_OK;
    uint64_t shape[PG_SHOWN_RANK] = {1, 1, 1, 1};
    const size_t shared = pg__json_len(pg__json_get(p->layer->config, "shared_axes"));
    PG_TRY(tensor(p, "weight", 1, t));
    if (shared >= PG_SHOWN_RANK)
        return wrong_shape(p);
    if (!shared)
        return back_features(p, t, 1);
    shape[shared] = t->dims[0];
    (void)pg__take_show(t, (uint32_t)shared + 1, shape);
done:
    return st;
}

static pg_status back_embedding(back *p, pg__take *t)
{
    return tensor(p, "weight", 2, t);
}

/* GRU's (2, 3u), LSTM's and SimpleRNN's sum. */
static pg_status back_bias(back *p, pg__take *t, int gru)
{
    static const uint32_t gates[] = {1, 0, 2};
    pg_status st = PG_OK;
    pg__take input, state, rows[6];
    PG_TRY(tensor(p, "bias_ih_l0", 1, &input));
    PG_TRY(tensor(p, "bias_hh_l0", 1, &state));
    if (input.from != state.from)
        return pg_fail(p->err, PG_E_UNSUPPORTED,
                       "layer %s: bias_ih_l0 and bias_hh_l0 differ in type; save both as one type",
                       PG_SHOW(p->leaf->layer->name));
    if (input.dims[0] != state.dims[0] || (gru && input.dims[0] % 3))
        return wrong_shape(p);
    if (!gru) {
        *t = input;
        t->plus = 1 + state.block[0].src;
        return PG_OK;
    }
    const uint64_t shape[] = {2, input.dims[0]};
    for (uint32_t k = 0; k < 6; k++) {
        rows[k] = k < 3 ? input : state;
        if (!split_axis(&rows[k], 0, shape[1] / 3)) /* (gate, unit) */
            return wrong_shape(p);
        rows[k].dims[0] = 1;
        rows[k].block[0].base = gates[k % 3] * rows[k].stride[0];
    }
    if (!pg__take_join(t, rows, 6, 0) || !pg__take_show(t, 2, shape))
        return wrong_shape(p);
done:
    return st;
}

static pg_status back_recurrent(back *p, pg__take *t)
{
    static const uint32_t gates[] = {1, 0, 2};
    pg_status st = PG_OK;
    const int gru = strcmp(p->layer->class_name, "GRU") == 0;
    const char *why = pg__torch_recurrent_lack(p->layer, *p->reverse != 0);
    if (why)
        return pg_fail(p->err, PG_E_UNSUPPORTED, "layer %s %s", PG_SHOW(p->leaf->layer->name), why);
    if (strcmp(p->slot->kind, "bias") == 0)
        return back_bias(p, t, gru);
    PG_TRY(tensor(p, strcmp(p->slot->kind, "kernel") == 0 ? "weight_ih_l0" : "weight_hh_l0", 2, t));
    pg__take_permute(t, (uint32_t[]){1, 0});
    if (gru && !pg__take_reorder(t, 1, 3, gates))
        return wrong_shape(p);
done:
    return st;
}

/* Rows of in_proj: query, key, value; the output has a module of its own. */
static pg_status back_attention(back *p, pg__take *t)
{
    static const char *const parts[] = {"query", "key", "value"};
    pg_status st = PG_OK;
    const int bias = strcmp(p->slot->kind, "bias") == 0;
    const uint64_t heads = (uint64_t)number(p->layer, "num_heads", 1);
    const char *sub = p->leaf->vars.v[p->slot->var].sub;
    size_t k = 0;
    while (k < 3 && strcmp(sub, parts[k]) != 0)
        k++;
    if (k == 3 && bias)
        return tensor(p, "out_proj.bias", 1, t);
    if (k == 3) { /* (out, heads * d) to (heads, d, out) */
        PG_TRY(tensor(p, "out_proj.weight", 2, t));
        if (!split_axis(t, 1, t->dims[1] / heads))
            return wrong_shape(p);
        pg__take_permute(t, (uint32_t[]){1, 2, 0});
        return PG_OK;
    }
    PG_TRY(tensor(p, bias ? "in_proj_bias" : "in_proj_weight", bias ? 1 : 2, t));
    if (t->dims[0] % 3 || t->dims[0] / 3 % heads)
        return wrong_shape(p);
    const uint64_t each = t->dims[0] / 3;
    t->dims[0] = each;
    t->block[0].base += k * each * t->stride[0];
    if (!split_axis(t, 0, each / heads))
        return wrong_shape(p);
    if (!bias) /* (heads, d, in) to (in, heads, d) */
        pg__take_permute(t, (uint32_t[]){2, 0, 1});
done:
    return st;
}

static pg_status back_class(back *p, pg__take *t)
{
    static pg_status (*const turn[])(back *, pg__take *) = {
        [PG_TORCH_DENSE] = back_dense,
        [PG_TORCH_CONV] = back_conv,
        [PG_TORCH_CONV_TRANSPOSE] = back_conv,
        [PG_TORCH_DEPTHWISE] = back_depthwise,
        [PG_TORCH_SEPARABLE] = back_depthwise,
        [PG_TORCH_NORM] = back_norm,
        [PG_TORCH_PRELU] = back_prelu,
        [PG_TORCH_EMBEDDING] = back_embedding,
        [PG_TORCH_RECURRENT] = back_recurrent,
        [PG_TORCH_BIDIRECTIONAL] = NULL, /* entered before: see enter() */
        [PG_TORCH_TIME_DISTRIBUTED] = NULL,
        [PG_TORCH_ATTENTION] = back_attention,
    };
    const pg__torch_kind kind = pg__torch_kind_of(pg__modern_class(p->layer->class_name));
    if (kind != PG_TORCH_NONE && turn[kind])
        return turn[kind](p, t);
    return pg_fail(p->err, PG_E_UNSUPPORTED, "layer %s is a %s; that has no PyTorch module here",
                   PG_SHOW(p->leaf->layer->name), PG_SHOW(p->layer->class_name));
}

/* The layer whose module holds a slot: the one inside a wrapper, or one of its two halves. */
static void enter(back *p)
{
    const char *outer = p->leaf->layer->class_name;
    p->layer = p->leaf->layer;
    p->reverse = "";
    if (p->layer->inner && !p->layer->inner->model &&
        (strcmp(outer, "TimeDistributed") == 0 || strcmp(outer, "Bidirectional") == 0)) {
        p->layer = p->layer->inner;
        p->reverse = strstr(p->slot->path, "/backward_layer/") ? "_reverse" : "";
    }
}

/* Counts of batches belong to PyTorch and are no part of the model. */
static pg_status check_used(const pg__outline *o, const unsigned char *used, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < o->n_tensors; i++) {
        const char *name = o->tensors[i].name, *last = strrchr(name, '.');
        if (used[i] || (last && strcmp(last, ".num_batches_tracked") == 0))
            continue;
        if (st == PG_OK)
            st = pg_fail(err, PG_E_MISMATCH, "the model has no place for some of its tensors");
        pg_err_detail(err, "extra: %s", PG_SHOW(name));
    }
    return st;
}

static int fits(const pg__var *v, const pg__take *t)
{
    uint64_t dims[PG_MAX_RANK];
    const pg__stored w = {.rank = pg__take_shape(t, dims), .dims = dims};
    return v->any_rank || pg__dims_agree(v, &w);
}

pg_status pg__fill_from_torch(pg__slots *s, pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str module = {0};
    size_t *index = NULL;
    back p = {.c = c, .s = s, .err = err};
    p.used = pg__mem_array(c->at.n_tensors, 1);
    if (!p.used)
        return pg__nomem(err);
    PG_TRY(pg__outline_index(&index, &c->at, err));
    p.index = index;
    for (size_t i = 0; i < s->n; i++) {
        p.slot = &s->v[i];
        p.leaf = &s->leaves.v[p.slot->leaf];
        enter(&p);
        PG_TRY(pg__torch_module(&module, s, p.slot->leaf, err));
        p.module = module.s;
        PG_TRY(back_class(&p, &s->v[i].take));
        if (!fits(&p.leaf->vars.v[p.slot->var], &s->v[i].take)) {
            st = wrong_shape(&p);
            goto done;
        }
        s->v[i].filled = 1;
    }
    PG_TRY(check_used(&c->at, p.used, err));
    PG_TRY(pg__add_note(&c->r, err, "from PyTorch's layout into Keras'"));
done:
    pg__mem_free(p.used);
    pg__mem_free(index);
    pg__str_fini(&module);
    return st;
}
