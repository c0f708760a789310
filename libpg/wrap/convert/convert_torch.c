/* convert_torch.c - tensors as PyTorch's modules hold them, so that load_state_dict() takes them.
 *
 *     Keras                                     PyTorch
 *     kernel (in, out)                          weight (out, in)
 *     convolution (*k, in, out)                 weight (out, in, *k)
 *     transposed convolution (*k, out, in)      weight (in, out, *k)
 *     depthwise (*k, in, m)                     weight (in * m, 1, *k), groups = in
 *     gamma, beta, moving_mean, moving_variance weight, bias, running_mean, running_var
 *     LSTM gates i, f, c, o; one bias           i, f, g, o; bias_ih, and bias_hh = 0
 *     GRU gates z, r, h; bias (2, 3u)           r, z, n; bias_ih and bias_hh
 *     attention's query, key, value             in_proj of all three
 *
 * A module is called like its layer, nested models put theirs before it. What PyTorch has no module
 * for is refused by layer name, all of them at once. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "wrap/convert/convert_torch.h"

typedef struct turning {
    pg__convert *c;
    const pg__slots *s;
    pg__outline *to;
    size_t leaf;
    const pg__layer *layer; /* the leaf's, or the one inside of it */
    const char *class_name;
    const char *module;  /* "enc.dense" */
    const char *reverse; /* "_reverse" for the backward half of a Bidirectional, or "" */
    size_t first, end;   /* its slots */
    double epsilon;      /* of the normalisations so far */
    size_t n_norms;
    int mixed_epsilons;
    pg__strs lacking;
    pg_err *err;
} turning;

/* ---- recipes beyond pg__take_*() ---- */

/* Axes first .. first + n - 1 of a whole tensor become one. */
static void merge_axes(pg__take *t, uint32_t first, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        t->dims[first] *= t->dims[first + 1];
        t->stride[first] = t->stride[first + 1];
        for (uint32_t k = first + 1; k + 1 < t->rank; k++) {
            t->dims[k] = t->dims[k + 1];
            t->stride[k] = t->stride[k + 1];
        }
        t->rank--;
        t->dims[t->rank] = t->stride[t->rank] = 0;
    }
}

/* An axis of extent 1 before axis k. */
static void insert_axis(pg__take *t, uint32_t k)
{
    for (uint32_t i = t->rank; i > k; i--) {
        t->dims[i] = t->dims[i - 1];
        t->stride[i] = t->stride[i - 1];
    }
    t->rank++;
    t->dims[k] = 1;
    t->stride[k] = 0;
    t->axis += t->n_blocks > 1 && t->axis >= k;
}

/* (*k, a, b) becomes (b, a, *k). */
static void kernel_first(pg__take *t)
{
    uint32_t perm[PG_MAX_RANK] = {t->rank - 1, t->rank - 2};
    for (uint32_t k = 2; k < t->rank; k++)
        perm[k] = k - 2;
    pg__take_permute(t, perm);
}

/* ---- names ---- */

static pg_status add(turning *p, const char *tensor, const pg__take *t)
{
    pg_status st = PG_OK;
    pg_err *err = p->err;
    pg__str name = {0};
    PG_TRY(pg__str_printf(&name, err, "%s.%s%s", p->module, tensor, p->reverse));
    PG_TRY(pg__outline_add(p->to, name.s, t, err));
done:
    pg__str_fini(&name);
    return st;
}

/* Reported once for a layer with two directions. */
static pg_status lack(turning *p, const char *why)
{
    pg__str line = {0};
    pg_status st = pg__str_printf(&line, p->err, "layer %s %s",
                                  PG_SHOW(p->s->leaves.v[p->leaf].layer->name), why);
    if (st == PG_OK && pg__strs_find(&p->lacking, line.s) == PG_NONE)
        st = pg__strs_add(&p->lacking, line.s, line.n, p->err);
    pg__str_fini(&line);
    return st;
}

/* The slot of a kind among those of the current layer, or NULL. */
static const pg__slot *find(const turning *p, const char *kind)
{
    for (size_t i = p->first; i < p->end; i++)
        if (strcmp(p->s->v[i].kind, kind) == 0)
            return &p->s->v[i];
    return NULL;
}

static pg_status add_as_is(turning *p, const char *kind, const char *tensor)
{
    const pg__slot *s = find(p, kind);
    return s ? add(p, tensor, &s->take) : PG_OK;
}

/* ---- layers ---- */

pg_status pg__torch_channels(pg__convert *c, const pg__layer *l, uint64_t *channels, uint64_t n,
                             int adds_note, pg_err *err)
{
    uint64_t found = 0;
    const pg__flattened how = pg__torch_flattened(&found, c->graph, l);
    *channels = 0;
    if (how == PG_FLAT_SAME)
        return PG_OK;
    if (how == PG_FLAT_UNKNOWN || found == 0 || n % found)
        return adds_note ? pg__add_note(&c->r, err,
                                        "%s: inputs kept in Keras' order of a Flatten or Reshape "
                                        "before it; in PyTorch put channels last there",
                                        PG_SHOW(l->name))
                         : PG_OK;
    *channels = found;
    return adds_note
               ? pg__add_note(&c->r, err, "%s: inputs reordered for nn.Flatten of (channels, ...)",
                              PG_SHOW(l->name))
               : PG_OK;
}

static pg_status channels_of(turning *p, uint64_t *channels, uint64_t n)
{
    const pg__layer *l = p->s->leaves.v[p->leaf].layer;
    return pg__torch_channels(p->c, l, channels, n, 1, p->err);
}

/* Axis 0, which counts (position, channel), is cut in two: (channel, position). */
static void split_channels(pg__take *t, uint64_t channels)
{
    for (uint32_t k = t->rank; k > 1; k--) {
        t->dims[k] = t->dims[k - 1];
        t->stride[k] = t->stride[k - 1];
    }
    t->rank++;
    t->dims[1] = t->dims[0] / channels;
    t->stride[1] = t->stride[0] * channels;
    t->dims[0] = channels;
}

/* One number per feature; 0 channels: no Flatten before. */
static void turn_features(pg__take *t, uint64_t channels)
{
    const uint64_t n = t->dims[0];
    if (channels) {
        split_channels(t, channels);
        (void)pg__take_show(t, 1, &n);
    }
}

static pg_status turn_dense(turning *p)
{
    pg_status st = PG_OK;
    const pg__slot *kernel = find(p, "kernel");
    uint64_t channels = 0;
    if (!kernel || kernel->take.rank != 2)
        return lack(p, "has no plain kernel");
    pg__take t = kernel->take;
    if (p->layer == p->s->leaves.v[p->leaf].layer)
        PG_TRY(channels_of(p, &channels, t.dims[0]));
    if (channels) {
        split_channels(&t, channels);
        pg__take_permute(&t, (uint32_t[]){2, 0, 1});
        (void)pg__take_show(&t, 2, (uint64_t[]){t.dims[0], t.dims[1] * t.dims[2]});
    } else {
        pg__take_permute(&t, (uint32_t[]){1, 0});
    }
    p->c->n_transposed++;
    PG_TRY(add(p, "weight", &t));
    PG_TRY(add_as_is(p, "bias", "bias"));
done:
    return st;
}

static pg_status turn_conv(turning *p)
{
    pg_status st = PG_OK;
    const pg__slot *kernel = find(p, "kernel");
    if (!kernel || kernel->take.rank < 3)
        return lack(p, "has no plain kernel");
    pg__take t = kernel->take;
    kernel_first(&t);
    p->c->n_hwio++;
    PG_TRY(add(p, "weight", &t));
    PG_TRY(add_as_is(p, "bias", "bias"));
done:
    return st;
}

/* (*k, in, m) as (in * m, 1, *k). */
static void turn_depthwise_kernel(pg__take *t)
{
    merge_axes(t, t->rank - 2, 2);
    insert_axis(t, t->rank - 1);
    kernel_first(t);
}

static pg_status turn_depthwise(turning *p)
{
    pg_status st = PG_OK;
    const pg__slot *kernel = find(p, "depthwise_kernel"), *point = find(p, "pointwise_kernel");
    pg__take t;
    if (!kernel || kernel->take.n_blocks > 1)
        return lack(p, "has no plain kernel");
    t = kernel->take;
    turn_depthwise_kernel(&t);
    p->c->n_hwio++;
    PG_TRY(add(p, point ? "depthwise.weight" : "weight", &t));
    if (point) {
        t = point->take;
        kernel_first(&t);
        p->c->n_hwio++;
        PG_TRY(add(p, "pointwise.weight", &t));
    }
    PG_TRY(add_as_is(p, "bias", point ? "pointwise.bias" : "bias"));
done:
    return st;
}

static void count_epsilon(turning *p)
{
    double epsilon = 1e-3; /* Keras' own */
    (void)pg__json_num(pg__json_get(p->layer->config, "epsilon"), &epsilon);
    p->mixed_epsilons |= p->n_norms > 0 && epsilon != p->epsilon;
    p->epsilon = epsilon;
    p->n_norms++;
}

/* Epsilon is not a tensor: it must be set when the modules are built, or predictions differ. */
static pg_status report_epsilon(turning *p)
{
    const double usual = 1e-5; /* torch.nn's */
    if (p->n_norms == 0 || (p->epsilon == usual && !p->mixed_epsilons))
        return PG_OK;
    if (p->mixed_epsilons)
        return pg__add_note(&p->c->r, p->err,
                            "normalisation: build its modules with the eps of each layer's config");
    return pg__add_note(&p->c->r, p->err, "normalisation: build its modules with eps=%g",
                        p->epsilon);
}

static pg_status turn_norm(turning *p)
{
    static const char *const names[][2] = {{"gamma", "weight"},
                                           {"beta", "bias"},
                                           {"moving_mean", "running_mean"},
                                           {"moving_variance", "running_var"}};
    pg_status st = PG_OK;
    uint64_t channels = 0;
    const pg__slot *gamma = find(p, "gamma"), *beta = find(p, "beta");
    for (size_t i = p->first; i < p->end; i++) {
        pg__take t = p->s->v[i].take;
        if (i == p->first && t.rank == 1)
            PG_TRY(channels_of(p, &channels, t.dims[0]));
        if (t.rank > 1 &&
            pg__torch_image_order(p->c->graph, p->s->leaves.v[p->leaf].layer) != PG_FLAT_SAME)
            return lack(p, "normalises over several axes of an image; PyTorch has these in "
                           "another order");
        turn_features(&t, channels);
        size_t k = 0;
        while (k < 4 && strcmp(p->s->v[i].kind, names[k][0]) != 0)
            k++;
        if (k == 4) /* renorm=True */
            return lack(p, "has averages that PyTorch does not have");
        PG_TRY(add(p, names[k][1], &t));
    }
    count_epsilon(p);
    if (!gamma != !beta) { /* PyTorch has both or none */
        const pg__take *like = gamma ? &gamma->take : &beta->take;
        pg__take one;
        pg__take_constant(&one, like->dims[0], like->from, gamma ? 0 : 1);
        PG_TRY(add(p, gamma ? "bias" : "weight", &one));
    }
done:
    return st;
}

/* One slope per channel. */
static pg_status turn_prelu(turning *p)
{
    pg_status st = PG_OK;
    uint64_t channels = 0;
    const pg__slot *alpha = find(p, "alpha");
    if (!alpha)
        return lack(p, "has no slope");
    pg__take t = alpha->take;
    for (uint32_t k = 0; k + 1 < t.rank; k++)
        if (t.dims[k] != 1)
            return lack(p, "has slopes by position; PyTorch has them by channel only");
    while (t.rank > 1)
        pg__take_index(&t, 0, 0);
    if (alpha->take.rank == 1)
        PG_TRY(channels_of(p, &channels, t.dims[0]));
    turn_features(&t, channels);
    PG_TRY(add(p, "weight", &t));
done:
    return st;
}

/* A value that is not a string, such as a custom function, has no name. */
static int word_is(const pg__layer *l, const char *key, const char *word, const char *fallback)
{
    const char *got = pg__json_get_str(l->config, key);
    return strcmp(got ? got : pg__config_has(l, key) ? "" : fallback, word) == 0;
}

const char *pg__torch_recurrent_lack(const pg__layer *l, int reverse)
{
    const int gru = strcmp(l->class_name, "GRU") == 0,
              simple = strcmp(l->class_name, "SimpleRNN") == 0;
    if (pg__config_bool(l, "go_backwards", 0) && !reverse)
        return "has go_backwards=True; PyTorch has no such layer";
    if (gru && !pg__config_bool(l, "reset_after", 0))
        return "has reset_after=False; PyTorch has no such GRU";
    if (!word_is(l, "activation", "tanh", "tanh") &&
        !(simple && word_is(l, "activation", "relu", "tanh")))
        return "has another activation than tanh; PyTorch has no such layer";
    if (!simple && !word_is(l, "recurrent_activation", "sigmoid", "hard_sigmoid"))
        return "has another recurrent_activation than sigmoid; PyTorch has no such layer";
    return NULL;
}

static pg_status turn_recurrent(turning *p)
{
    static const uint32_t turn[] = {1, 0}, gates[] = {1, 0, 2};
    pg_status st = PG_OK;
    const int gru = strcmp(p->class_name, "GRU") == 0;
    const pg__slot *slots[] = {find(p, "kernel"), find(p, "recurrent_kernel"), find(p, "bias")};
    static const char *const names[] = {"weight_ih_l0", "weight_hh_l0"};
    const char *why = pg__torch_recurrent_lack(p->layer, *p->reverse != 0);
    pg__take t;
    if (why || !slots[0] || !slots[1])
        return lack(p, why ? why : "has no plain kernels");
    for (size_t k = 0; k < 2; k++) {
        t = slots[k]->take;
        if (t.rank != 2 || (gru && !pg__take_reorder(&t, 1, 3, gates)))
            return lack(p, "has kernels of another shape");
        pg__take_permute(&t, turn);
        p->c->n_transposed++;
        PG_TRY(add(p, names[k], &t));
    }
    for (uint32_t k = 0; slots[2] && k < 2; k++) {
        t = slots[2]->take;
        if (t.rank == 2)
            pg__take_index(&t, 0, k);
        else if (k == 1)
            pg__take_constant(&t, t.dims[0], t.from, 0);
        if (gru && !pg__take_reorder(&t, 0, 3, gates))
            return lack(p, "has a bias of another shape");
        PG_TRY(add(p, k ? "bias_hh_l0" : "bias_ih_l0", &t));
    }
done:
    return st;
}

/* query, key and value: kernels (e, heads, d) and biases (heads, d), if heads * d = e. */
static pg_status turn_attention(turning *p)
{
    pg_status st = PG_OK;
    pg__take kernels[3], biases[3], out, all;
    size_t n_kernels = 0, n_biases = 0;
    const pg__slot *last = NULL, *last_bias = NULL;
    for (size_t i = p->first; i < p->end; i++) {
        const int bias = strcmp(p->s->v[i].kind, "bias") == 0;
        if (!bias && n_kernels < 3)
            kernels[n_kernels++] = p->s->v[i].take;
        else if (bias && n_biases < 3)
            biases[n_biases++] = p->s->v[i].take;
        else if (bias)
            last_bias = &p->s->v[i];
        else
            last = &p->s->v[i];
    }
    if (n_kernels != 3 || !last || last->take.rank != 3)
        return lack(p, "has no plain kernels");
    for (size_t k = 0; k < 3; k++) {
        if (kernels[k].rank != 3)
            return lack(p, "has kernels of another shape");
        merge_axes(&kernels[k], 1, 2);
        if (kernels[k].dims[0] != kernels[k].dims[1])
            return lack(p, "has heads that do not add up to its input; PyTorch needs that");
        pg__take_permute(&kernels[k], (uint32_t[]){1, 0});
        if (n_biases == 3)
            merge_axes(&biases[k], 0, 2);
    }
    if (!pg__take_join(&all, kernels, 3, 0))
        return lack(p, "has query, key and value of different shapes");
    PG_TRY(add(p, "in_proj_weight", &all));
    if (n_biases == 3 && pg__take_join(&all, biases, 3, 0))
        PG_TRY(add(p, "in_proj_bias", &all));
    out = last->take;
    merge_axes(&out, 0, 2);
    pg__take_permute(&out, (uint32_t[]){1, 0});
    PG_TRY(add(p, "out_proj.weight", &out));
    if (last_bias)
        PG_TRY(add(p, "out_proj.bias", &last_bias->take));
    p->c->n_transposed += 4;
done:
    return st;
}

static pg_status turn_embedding(turning *p)
{
    return add_as_is(p, "embeddings", "weight");
}

static pg_status turn_class(turning *p);

static pg_status turn_bidirectional(turning *p)
{
    pg_status st = PG_OK;
    const pg__layer *outer = p->layer;
    const size_t first = p->first, end = p->end, half = first + (end - first) / 2;
    if (!word_is(outer, "merge_mode", "concat", "concat"))
        return lack(p, "merges its directions in another way than concat");
    p->layer = outer->inner;
    p->class_name = pg__modern_class(outer->inner->class_name);
    if (pg__torch_kind_of(p->class_name) != PG_TORCH_RECURRENT)
        return lack(p, "is not an LSTM, GRU or SimpleRNN in two directions");
    p->end = half;
    PG_TRY(turn_recurrent(p));
    p->first = half;
    p->end = end;
    p->reverse = "_reverse";
    PG_TRY(turn_recurrent(p));
done:
    p->reverse = "";
    return st;
}

static pg_status turn_inner(turning *p)
{
    if (!p->layer->inner || p->layer->inner->model || p->layer->inner->inner)
        return lack(p, "holds something that is not a plain layer");
    p->layer = p->layer->inner;
    p->class_name = pg__modern_class(p->layer->class_name);
    return turn_class(p);
}

static pg_status turn_class(turning *p)
{
    static pg_status (*const turn[])(turning *) = {
        [PG_TORCH_DENSE] = turn_dense,
        [PG_TORCH_CONV] = turn_conv,
        [PG_TORCH_CONV_TRANSPOSE] = turn_conv,
        [PG_TORCH_DEPTHWISE] = turn_depthwise,
        [PG_TORCH_SEPARABLE] = turn_depthwise,
        [PG_TORCH_NORM] = turn_norm,
        [PG_TORCH_PRELU] = turn_prelu,
        [PG_TORCH_EMBEDDING] = turn_embedding,
        [PG_TORCH_RECURRENT] = turn_recurrent,
        [PG_TORCH_BIDIRECTIONAL] = turn_bidirectional,
        [PG_TORCH_TIME_DISTRIBUTED] = turn_inner,
        [PG_TORCH_ATTENTION] = turn_attention,
    };
    const pg__torch_kind kind = pg__torch_kind_of(p->class_name);
    pg__str why = {0};
    if (kind != PG_TORCH_NONE)
        return turn[kind](p);
    pg_status st = pg__str_printf(&why, p->err, "is a %s; that has no PyTorch module here",
                                  PG_SHOW(p->class_name));
    if (st == PG_OK)
        st = lack(p, why.s);
    pg__str_fini(&why);
    return st;
}

/* ---- the step ---- */

/* "enc.dense": the groups on the way to a leaf are models. Dots and slashes in names become "_". */
pg_status pg__torch_module(pg__str *out, const pg__slots *s, size_t leaf, pg_err *err)
{
    pg_status st = PG_OK;
    const char *path = s->leaf_path[leaf];
    const pg__leaf *l = &s->leaves.v[leaf];
    out->n = 0;
    for (size_t i = 0; *l->parent && i < s->n_groups; i++) {
        const size_t n = strlen(s->groups[i].path), from = out->n;
        if (!s->groups[i].layer->model || strncmp(path, s->groups[i].path, n) != 0 ||
            path[n] != '/')
            continue;
        PG_TRY(pg__str_puts(out, s->groups[i].label, err));
        for (size_t k = from; k < out->n; k++)
            out->s[k] = strchr("./", out->s[k]) ? '_' : out->s[k];
        PG_TRY(pg__str_puts(out, ".", err));
    }
    const size_t from = out->n;
    PG_TRY(pg__str_puts(out, l->layer->name, err));
    for (size_t k = from; k < out->n; k++)
        out->s[k] = strchr("./", out->s[k]) ? '_' : out->s[k];
done:
    return st;
}

/* The output of a model that ends with a Flatten cannot be reordered. */
static pg_status report_outputs(pg__convert *c, pg_err *err)
{
    const pg__model *m = c->graph->root;
    pg_status st = PG_OK;
    for (size_t k = 0; k < m->n_outputs && st == PG_OK; k++) {
        const pg__flattened order = pg__torch_output_order(c->graph, k);
        if (order != PG_FLAT_SAME)
            st = pg__add_note(&c->r, err, "output %s: features %s in PyTorch's order of a Flatten",
                              PG_SHOW(m->layers[m->outputs[k].layer].name),
                              order == PG_FLAT_TURNED ? "come" : "may come");
    }
    return st;
}

pg_status pg__torch(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__slots s = {0};
    pg__str module = {0};
    pg__outline next = {.shape = PG_SHAPE_FLAT};
    turning p = {.c = c, .s = &s, .to = &next, .reverse = "", .err = err};
    if (!c->graph)
        return pg__convert_needs_model(c, "PyTorch's layout", err);
    PG_TRY(pg__fill_slots(&s, c, err));
    for (p.leaf = 0; p.leaf < s.leaves.n; p.leaf++) {
        p.first = s.first[p.leaf];
        p.end = s.first[p.leaf + 1];
        if (p.first == p.end)
            continue;
        p.layer = s.leaves.v[p.leaf].layer;
        p.class_name = pg__modern_class(p.layer->class_name);
        PG_TRY(pg__torch_module(&module, &s, p.leaf, err));
        p.module = module.s;
        PG_TRY(turn_class(&p));
    }
    if (p.lacking.n) {
        st = pg_fail(err, PG_E_UNSUPPORTED, "%s", p.lacking.v[0]);
        for (size_t i = 1; i < p.lacking.n; i++)
            pg_err_detail(err, "%s", p.lacking.v[i]);
        goto done;
    }
    PG_TRY(report_epsilon(&p));
    PG_TRY(report_outputs(c, err));
    pg__outline_replace(&c->at, &next);
done:
    pg__strs_fini(&p.lacking);
    pg__str_fini(&module);
    pg__slots_fini(&s);
    pg__outline_fini(&next);
    return st;
}
