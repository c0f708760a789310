/* loads_in.c - which Keras loads an unwrapped full model as it is: decided from its description and
 * training configuration, by what load_model() of Keras 3.6 does with every layer class that
 * Keras 2.15 writes. Each table row is one thing that stops Keras 3. */
#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/graph/classes.h"
#include "model/lower/vars.h"
#include "wrap/dialect/dialect.h"

typedef enum kind { ANY, LIST, NO_MODULE } kind; /* NO_MODULE: an object without a module */
typedef enum container { BOTH, H5, ZIP } container;

/* Members of a layer's (or initializer's) config on which Keras 3 raises. */
static const struct {
    container in;
    const char *classes, *key; /* classes: a pattern */
    kind value;
} stops[] = {
    {BOTH, "*", "time_major", ANY},
    {BOTH, "*", "dynamic", ANY},
    {BOTH, "Conv?DTranspose", "groups", ANY},
    {BOTH, "DepthwiseConv?D", "groups", ANY},
    {BOTH, "SeparableConv?D", "groups", ANY},
    {BOTH, "SeparableConv?D", "kernel_initializer", ANY},
    {BOTH, "SpatialDropout?D", "noise_shape", ANY},
    {BOTH, "SpatialDropout?D", "trainable", ANY},
    {BOTH, "*Uniform", "dtype", ANY},
    {BOTH, "*Normal", "dtype", ANY},
    {BOTH, "VarianceScaling", "dtype", ANY},
    {BOTH, "Zeros", "dtype", ANY},
    {BOTH, "Ones", "dtype", ANY},
    {BOTH, "Constant", "dtype", ANY},
    {BOTH, "Orthogonal", "dtype", ANY},
    {BOTH, "Identity", "dtype", ANY},
    {ZIP, "[!I]*", "batch_input_shape", ANY}, /* an InputLayer may have it */
    {ZIP, "BatchNormalization", "axis", LIST},
    {H5, "*", "dtype", NO_MODULE},
    {H5, "*", "layer", NO_MODULE},
    {H5, "*", "backward_layer", NO_MODULE},
    {H5, "*", "cell", NO_MODULE},
};

/* Losses that Keras 3 finds by name, even in an .h5, and its metric classes. */
static const char *const losses[] = {"BinaryCrossentropy",
                                     "BinaryFocalCrossentropy",
                                     "CategoricalCrossentropy",
                                     "CategoricalFocalCrossentropy",
                                     "CategoricalHinge",
                                     "CosineSimilarity",
                                     "Hinge",
                                     "Huber",
                                     "KLDivergence",
                                     "LogCosh",
                                     "MeanAbsoluteError",
                                     "MeanAbsolutePercentageError",
                                     "MeanSquaredError",
                                     "MeanSquaredLogarithmicError",
                                     "Poisson",
                                     "SparseCategoricalCrossentropy",
                                     "SquaredHinge",
                                     "binary_crossentropy",
                                     "binary_focal_crossentropy",
                                     "categorical_crossentropy",
                                     "categorical_focal_crossentropy",
                                     "categorical_hinge",
                                     "cosine_similarity",
                                     "hinge",
                                     "huber",
                                     "kl_divergence",
                                     "log_cosh",
                                     "mean_absolute_error",
                                     "mean_absolute_percentage_error",
                                     "mean_squared_error",
                                     "mean_squared_logarithmic_error",
                                     "poisson",
                                     "sparse_categorical_crossentropy",
                                     "squared_hinge"};
static const char *const metrics[] = {"AUC",
                                      "Accuracy",
                                      "BinaryAccuracy",
                                      "BinaryCrossentropy",
                                      "BinaryIoU",
                                      "CategoricalAccuracy",
                                      "CategoricalCrossentropy",
                                      "CategoricalHinge",
                                      "CosineSimilarity",
                                      "F1Score",
                                      "FBetaScore",
                                      "FalseNegatives",
                                      "FalsePositives",
                                      "Hinge",
                                      "IoU",
                                      "KLDivergence",
                                      "LogCoshError",
                                      "Mean",
                                      "MeanAbsoluteError",
                                      "MeanAbsolutePercentageError",
                                      "MeanIoU",
                                      "MeanMetricWrapper",
                                      "MeanSquaredError",
                                      "MeanSquaredLogarithmicError",
                                      "OneHotIoU",
                                      "OneHotMeanIoU",
                                      "Poisson",
                                      "Precision",
                                      "PrecisionAtRecall",
                                      "R2Score",
                                      "Recall",
                                      "RecallAtPrecision",
                                      "RootMeanSquaredError",
                                      "SensitivityAtSpecificity",
                                      "SparseCategoricalAccuracy",
                                      "SparseCategoricalCrossentropy",
                                      "SparseTopKCategoricalAccuracy",
                                      "SpecificityAtSensitivity",
                                      "SquaredHinge",
                                      "Sum",
                                      "TopKCategoricalAccuracy",
                                      "TrueNegatives",
                                      "TruePositives"};
/* Names of Keras 2; Keras 3 does not find short names in an .h5. A name in no list is the author's
 * own. */
static const char *const only_2[] = {"mse",
                                     "MSE",
                                     "mae",
                                     "MAE",
                                     "mape",
                                     "MAPE",
                                     "msle",
                                     "MSLE",
                                     "bce",
                                     "BCE",
                                     "kld",
                                     "KLD",
                                     "cosine_proximity",
                                     "huber_loss",
                                     "kullback_leibler_divergence",
                                     "logcosh",
                                     "MeanRelativeError",
                                     "MeanTensor"};

typedef struct looking {
    const char *text;
    container in;
    int dialect;
    pg__str model;    /* what in the model stops Keras 3, "" if nothing */
    pg__str training; /* what stops it only in the training configuration */
    pg__str own;      /* layers and functions of the author */
    pg__str lacks;    /* features that the other Keras does not have */
    int lambda;       /* Python bytecode */
    int defaults;     /* Keras 3 uses only the optimizer's name */
    pg_err *err;
} looking;

static pg_status refuse(const looking *l, pg__str *why, const char *key, const char *of)
{
    return why->n ? PG_OK
                  : pg__str_printf(why, l->err, "refuses \"%s\" of %s", PG_SHOW(key), PG_SHOW(of));
}

/* ---- the description ---- */

static int is_kind(const char *text, pg__json_span v, kind k)
{
    const char c = text[v.off];
    return k == ANY || (k == LIST && c == '[') ||
           (k == NO_MODULE && c == '{' && !pg__json_member(text, v, "module").n);
}

/* An object with a class and a config. */
static pg_status look_at(looking *l, pg__json_span object)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const pg__json_span class_name = pg__json_member(l->text, object, "class_name"),
                        config = pg__json_member(l->text, object, "config");
    if (!class_name.n || l->text[class_name.off] != '"' || !config.n)
        return PG_OK;
    PG_TRY(pg__json_unquote(&name, l->text, class_name, l->err));
    const pg__json_span module = pg__json_member(l->text, object, "module");
    if (pg__json_is_text(l->text, module, "keras.src.engine.functional"))
        PG_TRY(refuse(l, &l->model, "module", name.s));
    if (l->text[config.off] == '[' && strcmp(name.s, "Sequential") == 0)
        PG_TRY(refuse(l, &l->model, "config", "Sequential, a list"));
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        const pg__json_span v = pg__json_member(l->text, config, stops[i].key);
        if (v.n && (stops[i].in == BOTH || stops[i].in == l->in) &&
            is_kind(l->text, v, stops[i].value) && fnmatch(stops[i].classes, name.s, 0) == 0)
            PG_TRY(refuse(l, &l->model, stops[i].key, name.s));
    }
done:
    pg__str_fini(&name);
    return st;
}

/* The JSON parser limits its depth. */
static pg_status look_below(looking *l, pg__json_span at)
{
    pg_status st = PG_OK;
    pg__json_walk w = pg__json_walk_of(l->text, at);
    if (l->text[at.off] == '{')
        PG_TRY(look_at(l, at));
    while (!l->model.n && pg__json_walk_next(&w))
        if (strchr("[{", l->text[w.value.off]) &&
            !(w.is_object && (pg__json_key_is(l->text, w.key, "inbound_nodes") ||
                              pg__json_key_is(l->text, w.key, "compile_config"))))
            PG_TRY(look_below(l, w.value));
done:
    return st;
}

/* Keras 2 numbers the calls of a nested model from 1, or from the call that built it; Keras 3 waits
 * forever for a call of that number. For outputs it subtracts one, but not for a Sequential. */
static pg_status look_at_calls(looking *l, const pg__model *m)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < m->n_layers; i++)
        for (size_t c = 0; c < m->layers[i].n_calls; c++)
            for (size_t k = 0; k < m->layers[i].calls[c].n_inputs; k++) {
                const pg__tensor_ref *ref = &m->layers[i].calls[c].inputs[k];
                const pg__layer *from = &m->layers[ref->layer];
                if (ref->node >= from->n_calls && from->n_calls && !l->model.n)
                    PG_TRY(pg__str_printf(&l->model, l->err, "never ends on nested model \"%s\"",
                                          PG_SHOW(from->name)));
            }
    for (size_t k = 0; k < m->n_outputs; k++) {
        const pg__layer *from = &m->layers[m->outputs[k].layer];
        if (from->model && from->model->sequential && m->outputs[k].node >= from->n_calls)
            PG_TRY(refuse(l, &l->model, "output_layers", m->name ? m->name : "the model"));
    }
done:
    return st;
}

static pg_status add_own(looking *l, const char *name)
{
    if (l->own.n && strstr(l->own.s, name))
        return PG_OK;
    return pg__str_printf(&l->own, l->err, "%s%s", l->own.n ? ", " : "", PG_SHOW(name));
}

static pg_status look_at_layer(looking *l, const pg__layer *layer)
{
    int weightless;
    if (layer->model || layer->is_op)
        return PG_OK;
    if (!pg__class_known(layer->class_name, &weightless))
        return add_own(l, layer->class_name);
    if (strcmp(layer->class_name, "Lambda") != 0)
        return layer->inner ? look_at_layer(l, layer->inner) : PG_OK;
    const char *by_name = pg__json_get_str(layer->config, "function");
    l->lambda |= !by_name;
    return by_name ? add_own(l, by_name) : PG_OK;
}

/* ---- the training configuration ---- */

static int is_whole(const char *text, pg__json_span v)
{
    return v.n && strspn(text + v.off, "-0123456789") >= v.n;
}

static pg_status look_at_optimizer(looking *l, pg__json_span s)
{
    pg_status st = PG_OK;
    pg__str name = {0}, key = {0};
    const char *text = l->text;
    const pg__json_span config = pg__json_member(text, s, "config"),
                        class_name = pg__json_member(text, s, "class_name"),
                        rate = pg__json_member(text, config, "learning_rate");
    if (!class_name.n || text[class_name.off] != '"')
        goto done;
    PG_TRY(pg__json_unquote(&name, text, class_name, l->err));
    if (strncmp(name.s, "Custom>", 7) == 0) {
        key.n = 0;
        const pg__json_span called = pg__json_member(text, config, "name");
        if (called.n && text[called.off] == '"')
            PG_TRY(pg__json_unquote(&key, text, called, l->err));
        l->defaults = key.n && pg__optimizer_takes_3(key.s, NULL);
        if (!l->defaults)
            PG_TRY(refuse(l, &l->training, "name", "the optimizer"));
        goto done;
    }
    if (!pg__optimizer_takes_3(name.s, NULL))
        PG_TRY(refuse(l, &l->training, name.s, "the optimizer, perhaps"));
    for (pg__json_walk w = pg__json_walk_of(text, config); pg__json_walk_next(&w);) {
        key.n = 0;
        PG_TRY(pg__json_unquote(&key, text, w.key, l->err));
        if (!pg__optimizer_takes_3(name.s, key.s))
            PG_TRY(refuse(l, &l->training, key.s, "the optimizer"));
    }
    if (is_whole(text, rate) || (rate.n && is_kind(text, rate, NO_MODULE)))
        PG_TRY(refuse(l, &l->training, "learning_rate", "the optimizer"));
    if (is_whole(text, pg__json_member(text, config, "momentum")))
        PG_TRY(refuse(l, &l->training, "momentum", "the optimizer"));
done:
    pg__str_fini(&name);
    pg__str_fini(&key);
    return st;
}

/* Names and objects, in lists and dicts. Keras looks up names of metrics only when it uses them. */
static pg_status look_at_words(looking *l, pg__json_span s, int loss)
{
    pg_status st = PG_OK;
    pg__str word = {0};
    pg__json_walk w = pg__json_walk_of(l->text, s);
    const pg__json_span class_name = pg__json_member(l->text, s, "class_name"),
                        config = pg__json_member(l->text, s, "config"),
                        name = class_name.n ? class_name : s;
    if (!class_name.n && s.n && strchr("[{", l->text[s.off])) {
        while (pg__json_walk_next(&w))
            PG_TRY(look_at_words(l, w.value, loss));
        goto done;
    }
    if (!name.n || l->text[name.off] != '"' || (!class_name.n && (!loss || l->in == ZIP)))
        goto done;
    PG_TRY(pg__json_unquote(&word, l->text, name, l->err));
    if (PG_IS_ANY(word.s, only_2))
        PG_TRY(refuse(l, &l->training, word.s, loss ? "the losses" : "the metrics"));
    else if (loss ? !PG_IS_ANY(word.s, losses) : !PG_IS_ANY(word.s, metrics))
        PG_TRY(add_own(l, word.s));
    if (pg__json_is_text(l->text, pg__json_member(l->text, config, "reduction"), "auto"))
        PG_TRY(refuse(l, &l->training, "reduction", word.s));
done:
    pg__str_fini(&word);
    return st;
}

static pg_status look_at_training(looking *l, const pg__plan *plan, const pg__graph *g)
{
    pg_status st = PG_OK;
    pg__json_span from = {0, plan->n_training_config};
    l->text = plan->training_config;
    if (l->in == ZIP) {
        l->text = g->text;
        from = pg__json_member(g->text, (pg__json_span){0, g->n_text}, "compile_config");
    }
    if (!l->text || pg__json_is_null(l->text, from))
        return PG_OK;
    PG_TRY(look_at_optimizer(
        l, pg__json_member(l->text, from, l->in == ZIP ? "optimizer" : "optimizer_config")));
    PG_TRY(look_at_words(l, pg__json_member(l->text, from, "loss"), 1));
    PG_TRY(look_at_words(l, pg__json_member(l->text, from, "metrics"), 0));
    PG_TRY(look_at_words(l, pg__json_member(l->text, from, "weighted_metrics"), 0));
done:
    return st;
}

/* ---- the note ---- */

/* Features that the other Keras lacks cannot be converted. */
static pg_status look_at_other(looking *l, const pg__graph *g)
{
    pg_err why = {0};
    pg__str out = {0};
    size_t n_classes = 0;
    pg_status st =
        pg__translate(&out, &n_classes, g->text, g->n_text, l->dialect == 2 ? 3 : 2, 0, &why);
    if (st == PG_E_NOMEM)
        st = pg__nomem(l->err);
    else if (st != PG_OK)
        st = pg__str_puts(&l->lacks, why.msg, l->err);
    pg__str_fini(&out);
    return st;
}

static pg_status describe_2(pg__str *out, const looking *l, const char *given, pg_err *err)
{
    if (l->lacks.n)
        return pg__str_printf(out, err, "Keras 2 loads it as it is%s; it %s", given, l->lacks.s);
    if (l->model.n)
        return pg__str_printf(out, err,
                              "Keras 2 loads it as it is%s; Keras 3 %s: convert it for Keras 3",
                              given, l->model.s);
    if (l->training.n)
        return pg__str_printf(out, err,
                              "Keras 2 loads it as it is%s; Keras 3 %s: convert it for Keras 3, or "
                              "load with compile=False",
                              given, l->training.s);
    return pg__str_printf(
        out, err, "Keras 2 and 3 load it as it is%s%s", given,
        l->defaults
            ? "; Keras 3 gives its optimizer default settings: to keep them, convert it for Keras 3"
            : "");
}

static pg_status describe(pg__str *out, const looking *l, const char *given, pg_err *err)
{
    const char *convert = l->lacks.n ? "" : "; for Keras 2, convert it";
    if (l->lambda)
        return pg__str_printf(out, err,
                              "only the Python that wrote it loads it: its Lambda layers hold "
                              "bytecode");
    if (l->dialect == 1)
        return pg__str_printf(out, err,
                              "Keras 1 loads it as it is%s; Keras 2.15 and 3 refuse its "
                              "description, not its weights",
                              given);
    if (l->dialect == 2)
        return describe_2(out, l, given, err);
    if (l->training.n)
        return pg__str_printf(out, err, "Keras 3 loads it with compile=False%s, otherwise it %s%s",
                              given, l->training.s, convert);
    return pg__str_printf(out, err, "Keras 3 loads it as it is%s%s", given, convert);
}

static pg_status look_at_model(looking *l, const pg__graph *g)
{
    pg_status st = PG_OK;
    l->in = pg__json_member(g->text, (pg__json_span){0, g->n_text}, "module").n ? ZIP : H5;
    l->dialect = g->dialect;
    l->text = g->text;
    for (size_t i = 0; i < g->n_models; i++)
        for (size_t k = 0; k < g->models[i]->n_layers; k++)
            PG_TRY(look_at_layer(l, &g->models[i]->layers[k]));
    if (l->dialect != 1)
        PG_TRY(look_at_other(l, g));
    if (l->dialect == 2)
        PG_TRY(look_below(l, (pg__json_span){0, g->n_text}));
    for (size_t i = 0; l->dialect == 2 && l->in == H5 && i < g->n_models; i++)
        PG_TRY(look_at_calls(l, g->models[i]));
done:
    return st;
}

pg_status pg__loads_in(pg__str *out, const pg__plan *plan, pg_err *err)
{
    pg_status st = PG_OK;
    pg__graph *g = NULL;
    pg__str given = {0};
    looking l = {.err = err};
    if (!plan->model_config)
        return PG_OK;
    PG_TRY(pg__graph_parse(&g, plan->model_config, plan->n_model_config, err));
    PG_TRY(look_at_model(&l, g));
    if (l.dialect != 1)
        PG_TRY(look_at_training(&l, plan, g));
    PG_TRY(pg__str_puts(&given, "", err));
    if (l.own.n)
        PG_TRY(pg__str_printf(&given, err, " (given custom_objects for %s)", l.own.s));
    PG_TRY(describe(out, &l, given.s, err));
done:
    pg__graph_free(g);
    pg__str_fini(&given);
    pg__str_fini(&l.model);
    pg__str_fini(&l.training);
    pg__str_fini(&l.own);
    pg__str_fini(&l.lacks);
    return st;
}
