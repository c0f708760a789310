/* activation.c - activations by their names in configs: a string, an object ({"class_name": "ReLU",
 * "config": {...}}), or a function object of Keras 3. Sources: keras/activations.py of 1.2.2, 2.15
 * and 3.6; the layers ReLU, LeakyReLU, ELU, ThresholdedReLU. */
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/spatial.h"

typedef struct named_act {
    const char *name;
    pg__act_attrs attrs;
} named_act;

static const named_act acts[] = {
    {"relu", {PG_ACT_RELU, INFINITY, 0, 0}},
    {"relu6", {PG_ACT_RELU, 6, 0, 0}},
    {"leaky_relu", {PG_ACT_RELU, INFINITY, 0.2, 0}},
    {"sigmoid", {PG_ACT_SIGMOID, 0, 0, 0}},
    {"tanh", {PG_ACT_TANH, 0, 0, 0}},
    {"elu", {PG_ACT_ELU, 1, 0, 0}},
    {"selu", {PG_ACT_SELU, 0, 0, 0}},
    {"softplus", {PG_ACT_SOFTPLUS, 0, 0, 0}},
    {"softsign", {PG_ACT_SOFTSIGN, 0, 0, 0}},
    {"exponential", {PG_ACT_EXPONENTIAL, 0, 0, 0}},
    {"gelu", {PG_ACT_GELU, 0, 0, 0}},
    {"gelu_approximate", {PG_ACT_GELU_TANH, 0, 0, 0}}, /* keras_nlp's and keras_hub's */
    {"keras_hub>gelu_approximate", {PG_ACT_GELU_TANH, 0, 0, 0}},
    {"keras_nlp>gelu_approximate", {PG_ACT_GELU_TANH, 0, 0, 0}},
    {"swish", {PG_ACT_SWISH, 0, 0, 0}},
    {"silu", {PG_ACT_SWISH, 0, 0, 0}},
    {"mish", {PG_ACT_MISH, 0, 0, 0}},
};

static pg_status apply(pg__lowering *lw, const pg__act_attrs *a, pg__val x, pg__val *out,
                       pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_act, a, x, out, err));
    if (a->kind == PG_ACT_SIGMOID)
        PG_TRY(pg__set_logits(lw, *out, PG_SIGMOID_OF, x, err));
done:
    return st;
}

static pg_status apply_softmax(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_softmax, NULL, x, out, err));
    PG_TRY(pg__set_logits(lw, *out, PG_SOFTMAX_OF, x, err));
done:
    return st;
}

static pg__act_attrs hard_sigmoid(const pg__lowering *lw)
{
    const int six = lw->opts->rules->hard_sigmoid_six;
    return (pg__act_attrs){PG_ACT_HARD_SIGMOID, six ? 1.0 / 6 : 0.2, 0.5, 0};
}

/* x relu6(x + 3) / 6 */
static pg_status apply_hard_silu(pg__lowering *lw, pg__val x, pg__val *out, pg_err *err)
{
    const pg__act_attrs a = {PG_ACT_HARD_SIGMOID, 1.0 / 6, 0.5, 0};
    pg__val gate;
    pg_status st = PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_act, &a, x, &gate, err));
    PG_TRY(pg__lower_binary(lw, PG_MULTIPLY, x, gate, out, err));
done:
    return st;
}

static const char *name_at(const void *ctx, size_t i)
{
    static const char *const others[] = {"linear", "softmax", "hard_silu", "hard_swish",
                                         "hard_sigmoid"};
    const size_t n = sizeof acts / sizeof *acts;
    (void)ctx;
    if (i < n)
        return acts[i].name;
    return i - n < sizeof others / sizeof *others ? others[i - n] : NULL;
}

/* Those of Keras 3 that are missing here. */
static int is_lacking(const char *name)
{
    static const char *const names[] = {"celu",        "glu",         "hard_shrink", "hard_tanh",
                                        "log_sigmoid", "log_softmax", "soft_shrink", "sparse_plus",
                                        "sparsemax",   "squareplus",  "tanh_shrink", "threshold"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

static pg_status apply_named(pg__lowering *lw, const pg__layer *l, const char *name, pg__val x,
                             pg__val *out, pg_err *err)
{
    if (strcmp(name, "linear") == 0) {
        *out = x;
        return PG_OK;
    }
    if (strcmp(name, "softmax") == 0)
        return apply_softmax(lw, x, out, err);
    if (strcmp(name, "hard_silu") == 0 || strcmp(name, "hard_swish") == 0)
        return apply_hard_silu(lw, x, out, err);
    if (strcmp(name, "hard_sigmoid") == 0) {
        const pg__act_attrs a = hard_sigmoid(lw);
        return apply(lw, &a, x, out, err);
    }
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (strcmp(name, acts[i].name) == 0)
            return apply(lw, &acts[i].attrs, x, out, err);
    if (is_lacking(name))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: activation \"%s\" is not supported",
                       PG_SHOW(l->name), name);
    (void)pg_fail(err, PG_E_UNSUPPORTED, "%s: activation \"%s\" is not one of Keras'",
                  PG_SHOW(l->name), PG_SHOW(name));
    const char *meant = pg_nearest(name, name_at, NULL);
    if (meant)
        pg_err_detail(err, "did you mean \"%s\"?", meant);
    return PG_E_UNSUPPORTED;
}

/* ---- activations inside operations ---- */

/* Can its slope be computed from its result? */
static int invertible(const pg__act_attrs *a)
{
    switch (a->kind) {
    case PG_ACT_RELU: return a->b == 0 && a->c == 0;
    case PG_ACT_ELU: return a->a > 0;
    case PG_ACT_SIGMOID:
    case PG_ACT_TANH:
    case PG_ACT_HARD_SIGMOID:
    case PG_ACT_SELU:
    case PG_ACT_SOFTPLUS:
    case PG_ACT_SOFTSIGN:
    case PG_ACT_EXPONENTIAL: return 1;
    case PG_ACT_GELU:
    case PG_ACT_GELU_TANH:
    case PG_ACT_SWISH:
    case PG_ACT_MISH:
    case PG_ACT_RSQRT: return 0;
    }
    return 0;
}

pg_status pg__activation_attrs(pg__lowering *lw, const pg__layer *l, const pg__json *which,
                               const char *fallback, pg__act_attrs *out, pg_err *err)
{
    const char *name = pg__json_str(which);
    if (pg__json_type_of(which) == PG_J_OBJECT) {
        name = pg__json_str(pg__json_get(which, "config"));
        name = name ? name : pg__json_get_str(which, "class_name");
    }
    if (pg__json_type_of(which) == PG_J_NONE)
        name = fallback;
    if (pg__json_type_of(which) == PG_J_NULL || (name && strcmp(name, "linear") == 0)) {
        *out = (pg__act_attrs){PG_ACT_RELU, INFINITY, 1, 0}; /* x on both sides of 0 */
        return PG_OK;
    }
    if (name && strcmp(name, "hard_sigmoid") == 0) {
        *out = hard_sigmoid(lw);
        return PG_OK;
    }
    for (size_t i = 0; name && i < sizeof acts / sizeof *acts; i++)
        if (strcmp(name, acts[i].name) == 0 && invertible(&acts[i].attrs)) {
            *out = acts[i].attrs;
            return PG_OK;
        }
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "%s: activation \"%s\" is not supported inside a recurrent layer",
                   PG_SHOW(l->name), name ? PG_SHOW(name) : "?");
}

/* ---- activations that are layers ---- */

static pg_status apply_relu(pg__lowering *lw, const pg__layer *l, const pg__json *config, pg__val x,
                            pg__val *out, pg_err *err)
{
    pg__act_attrs a = {.kind = PG_ACT_RELU};
    pg_status st = PG_OK;
    PG_TRY(pg__config_num_or(&a.a, l, config, "max_value", INFINITY, err));
    PG_TRY(pg__config_num_or(&a.b, l, config, "negative_slope", 0, err));
    PG_TRY(pg__config_num_or(&a.c, l, config, "threshold", 0, err));
    PG_TRY(apply(lw, &a, x, out, err));
done:
    return st;
}

/* "alpha", "negative_slope" in Keras 3. */
static pg_status apply_leaky_relu(pg__lowering *lw, const pg__layer *l, const pg__json *config,
                                  pg__val x, pg__val *out, pg_err *err)
{
    pg__act_attrs a = {.kind = PG_ACT_RELU, .a = INFINITY};
    pg_status st = PG_OK;
    PG_TRY(pg__config_num_or(&a.b, l, config, "alpha", 0.3, err));
    PG_TRY(pg__config_num_or(&a.b, l, config, "negative_slope", a.b, err));
    PG_TRY(apply(lw, &a, x, out, err));
done:
    return st;
}

static pg_status apply_elu(pg__lowering *lw, const pg__layer *l, const pg__json *config, pg__val x,
                           pg__val *out, pg_err *err)
{
    pg__act_attrs a = {.kind = PG_ACT_ELU};
    pg_status st = PG_OK;
    PG_TRY(pg__config_num_or(&a.a, l, config, "alpha", 1, err));
    PG_TRY(apply(lw, &a, x, out, err));
done:
    return st;
}

/* x if x > theta, otherwise 0. */
static pg_status apply_thresholded_relu(pg__lowering *lw, const pg__layer *l,
                                        const pg__json *config, pg__val x, pg__val *out,
                                        pg_err *err)
{
    pg__act_attrs a = {.kind = PG_ACT_RELU, .a = INFINITY};
    pg_status st = PG_OK;
    PG_TRY(pg__config_num_or(&a.c, l, config, "theta", 1, err));
    PG_TRY(apply(lw, &a, x, out, err));
done:
    return st;
}

static pg_status apply_softmax_layer(pg__lowering *lw, const pg__layer *l, const pg__json *config,
                                     pg__val x, pg__val *out, pg_err *err)
{
    const pg__json *axis = pg__json_get(config, "axis");
    const int64_t last = (int64_t)pg__dims_at(lw, x)->rank - 1;
    int64_t at = -1;
    if (pg__json_type_of(axis) == PG_J_ARRAY && pg__json_len(axis) == 1)
        axis = pg__json_at(axis, 0);
    if (pg__json_type_of(axis) > PG_J_NULL && !pg__json_int(axis, &at))
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: softmax over several axes is not supported",
                       PG_SHOW(l->name));
    if (at != -1 && at != last)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "%s: softmax over axis %lld, only the last is supported", PG_SHOW(l->name),
                       (long long)at);
    return apply_softmax(lw, x, out, err);
}

typedef pg_status (*apply_fn)(pg__lowering *lw, const pg__layer *l, const pg__json *config,
                              pg__val x, pg__val *out, pg_err *err);

static const struct {
    const char *class_name;
    apply_fn apply;
} act_layers[] = {
    {"ELU", apply_elu},
    {"LeakyReLU", apply_leaky_relu},
    {"ReLU", apply_relu},
    {"Softmax", apply_softmax_layer},
    {"ThresholdedReLU", apply_thresholded_relu},
};

/* {"class_name": "ReLU", "config": {...}}; {"class_name": "function", "config": "relu"}. */
static pg_status apply_object(pg__lowering *lw, const pg__layer *l, const pg__json *which,
                              pg__val x, pg__val *out, pg_err *err)
{
    const char *class_name = pg__json_get_str(which, "class_name");
    const pg__json *config = pg__json_get(which, "config");
    const char *function = pg__json_str(config);
    if (function)
        return apply_named(lw, l, function, x, out, err);
    for (size_t i = 0; class_name && i < sizeof act_layers / sizeof *act_layers; i++)
        if (strcmp(class_name, act_layers[i].class_name) == 0)
            return act_layers[i].apply(lw, l, config, x, out, err);
    if (class_name)
        return apply_named(lw, l, class_name, x, out, err);
    return pg_fail(err, PG_E_FORMAT, "%s: \"activation\" names nothing", PG_SHOW(l->name));
}

pg_status pg__lower_activation_of(pg__lowering *lw, const pg__layer *l, const pg__json *which,
                                  pg__val x, pg__val *out, pg_err *err)
{
    *out = x;
    switch (pg__json_type_of(which)) {
    case PG_J_NONE:
    case PG_J_NULL: return PG_OK;
    case PG_J_STRING: return apply_named(lw, l, pg__json_str(which), x, out, err);
    case PG_J_OBJECT: return apply_object(lw, l, which, x, out, err);
    default:
        return pg_fail(err, PG_E_FORMAT, "%s: \"activation\" is neither a name nor an object",
                       PG_SHOW(l->name));
    }
}

/* Works element by element, so it passes the mask on. */
static pg_status as_layer(apply_fn fn, pg__lowering *lw, const pg__layer *l, const pg__val *in,
                          size_t n_in, pg__results *out, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    out->n = 1;
    PG_TRY(fn(lw, l, l->config, in[0], &out->v[0], err));
    PG_TRY(pg__pass_mask(lw, in[0], out->v[0], err));
done:
    return st;
}

static pg_status apply_activation(pg__lowering *lw, const pg__layer *l, const pg__json *config,
                                  pg__val x, pg__val *out, pg_err *err)
{
    return pg__lower_activation_of(lw, l, pg__json_get(config, "activation"), x, out, err);
}

#define ACT_LAYER(name)                                                                 \
    pg_status pg__lower_##name(pg__lowering *lw, const pg__layer *l, const pg__val *in, \
                               size_t n_in, pg__results *out, pg_err *err)              \
    {                                                                                   \
        return as_layer(apply_##name, lw, l, in, n_in, out, err);                       \
    }
ACT_LAYER(activation)
ACT_LAYER(elu)
ACT_LAYER(leaky_relu)
ACT_LAYER(relu)
ACT_LAYER(softmax_layer)
ACT_LAYER(thresholded_relu)
