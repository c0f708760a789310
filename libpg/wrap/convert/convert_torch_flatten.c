/* convert_torch_flatten.c - finds out whether a Dense layer gets its inputs from a flattened image.
 * Keras holds images as (height, width, channels), PyTorch as (channels, height, width), and
 * flattening keeps that order. The search goes back over layers that change neither the order nor
 * the number of channels, as far as the description shows. */
#include <string.h>

#include "wrap/convert/convert_torch.h"

/* Change no shape; GroupNormalization depends on which features are neighbours. */
static const char *const elementwise[] = {"Activation",
                                          "ActivityRegularization",
                                          "AlphaDropout",
                                          "BatchNormalization",
                                          "Dropout",
                                          "ELU",
                                          "GaussianDropout",
                                          "GaussianNoise",
                                          "GroupNormalization",
                                          "LayerNormalization",
                                          "LeakyReLU",
                                          "PReLU",
                                          "ReLU",
                                          "Softmax",
                                          "ThresholdedReLU"};

/* Change height and width only. */
static const char *const spatial[] = {
    "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "Cropping1D",   "Cropping2D",
    "Cropping3D",       "MaxPooling1D",     "MaxPooling2D",     "MaxPooling3D", "SpatialDropout1D",
    "SpatialDropout2D", "SpatialDropout3D", "UpSampling1D",     "UpSampling2D", "UpSampling3D",
    "ZeroPadding1D",    "ZeroPadding2D",    "ZeroPadding3D"};

static const char *const convolutions[] = {"Conv1D",          "Conv2D",          "Conv3D",
                                           "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose",
                                           "SeparableConv1D", "SeparableConv2D", "Convolution1D",
                                           "Convolution2D",   "Convolution3D"};

/* The only layer that feeds this one, or PG_NONE. */
static size_t before(const pg__model *m, size_t layer)
{
    const pg__layer *l = &m->layers[layer];
    size_t from = PG_NONE;
    if (m->sequential)
        return layer ? layer - 1 : PG_NONE;
    for (size_t c = 0; c < l->n_calls; c++)
        for (size_t i = 0; i < l->calls[c].n_inputs; i++) {
            const size_t one = l->calls[c].inputs[i].layer;
            if (from != PG_NONE && from != one)
                return PG_NONE;
            from = one;
        }
    return from;
}

static int channels_first(const pg__layer *l)
{
    const char *format = pg__json_get_str(l->config, "data_format");
    const char *order = pg__json_get_str(l->config, "dim_ordering");
    return (format && strcmp(format, "channels_first") == 0) || (order && strcmp(order, "th") == 0);
}

/* Rank and last dimension of the shape under a key; 0 if there is none. */
static size_t shape_of(int64_t *last, const pg__layer *l)
{
    static const char *const keys[] = {"batch_input_shape", "batch_shape"};
    for (size_t i = 0; i < 2; i++) {
        const pg__json *shape = pg__json_get(l->config, keys[i]);
        const size_t n = pg__json_len(shape);
        if (pg__json_type_of(shape) == PG_J_ARRAY && n)
            return pg__json_int(pg__json_at(shape, n - 1), last) ? n : 0;
    }
    return 0;
}

/* `layer` feeds the Flatten. */
static pg__flattened flattened_from(uint64_t *channels, const pg__model *m, size_t layer)
{
    static const char *const plain[] = {"Dense",     "LSTM",          "GRU",    "SimpleRNN",
                                        "Embedding", "Bidirectional", "Flatten"};
    for (size_t steps = 0; layer != PG_NONE && steps <= m->n_layers; steps++) {
        const pg__layer *l = &m->layers[layer];
        int64_t last = 0;
        const size_t rank = shape_of(&last, l);
        if (channels_first(l))
            return PG_FLAT_SAME;
        if (PG_IS_ANY(l->class_name, convolutions)) {
            const char *key = pg__config_has(l, "filters") ? "filters" : "nb_filter";
            if (!pg__json_int(pg__json_get(l->config, key), &last) || last <= 0)
                return PG_FLAT_UNKNOWN;
            *channels = (uint64_t)last;
            return PG_FLAT_TURNED;
        }
        if (PG_IS_ANY(l->class_name, plain))
            return PG_FLAT_SAME; /* features last in both */
        if (strcmp(l->class_name, "InputLayer") == 0) {
            *channels = last > 0 ? (uint64_t)last : 0;
            return rank && rank <= 3 ? PG_FLAT_SAME : last > 0 ? PG_FLAT_TURNED : PG_FLAT_UNKNOWN;
        }
        if (!PG_IS_ANY(l->class_name, elementwise) && !PG_IS_ANY(l->class_name, spatial))
            return PG_FLAT_UNKNOWN;
        if (layer == 0 && m->sequential) { /* a Sequential without an InputLayer */
            *channels = last > 0 ? (uint64_t)last : 0;
            return rank > 3 && last > 0 ? PG_FLAT_TURNED : rank ? PG_FLAT_SAME : PG_FLAT_UNKNOWN;
        }
        layer = before(m, layer);
    }
    return PG_FLAT_UNKNOWN;
}

/* Layers whose outputs have the same order in Keras and PyTorch. */
static const char *const mixing[] = {"Dense",
                                     "Embedding",
                                     "LSTM",
                                     "GRU",
                                     "SimpleRNN",
                                     "RNN",
                                     "Bidirectional",
                                     "TimeDistributed",
                                     "MultiHeadAttention",
                                     "GlobalAveragePooling1D",
                                     "GlobalAveragePooling2D",
                                     "GlobalAveragePooling3D",
                                     "GlobalMaxPooling1D",
                                     "GlobalMaxPooling2D",
                                     "GlobalMaxPooling3D"};

static int flattens_somewhere(const pg__graph *g)
{
    for (size_t k = 0; k < g->n_models; k++)
        for (size_t i = 0; i < g->models[k]->n_layers; i++)
            if (strcmp(g->models[k]->layers[i].class_name, "Flatten") == 0 ||
                strcmp(g->models[k]->layers[i].class_name, "Reshape") == 0)
                return 1;
    return 0;
}

/* The layer before is a Flatten. */
static pg__flattened behind_flatten(uint64_t *channels, const pg__model *m, size_t flatten,
                                    int grouped)
{
    const pg__flattened turned = grouped ? PG_FLAT_UNKNOWN : PG_FLAT_TURNED;
    pg__flattened how = PG_FLAT_UNKNOWN;
    int64_t last = 0;
    if (channels_first(&m->layers[flatten]))
        return PG_FLAT_UNKNOWN;
    if (flatten > 0 || !m->sequential) {
        how = flattened_from(channels, m, before(m, flatten));
        return how == PG_FLAT_TURNED ? turned : how;
    }
    const size_t rank = shape_of(&last, &m->layers[flatten]); /* it flattens the input itself */
    *channels = last > 0 ? (uint64_t)last : 0;
    return rank > 3 && last > 0 ? turned : rank ? PG_FLAT_SAME : PG_FLAT_UNKNOWN;
}

/* Order of the features that the layer m->layers[from] gives. grouped: neighbours among them must
 * stay neighbours. */
static pg__flattened order_from(uint64_t *channels, const pg__graph *g, const pg__model *m,
                                size_t from, int grouped)
{
    const pg__flattened other = flattens_somewhere(g) ? PG_FLAT_UNKNOWN : PG_FLAT_SAME;
    for (size_t steps = 0; steps <= m->n_layers; steps++) {
        if (from == PG_NONE)
            return m == g->root && m->sequential ? PG_FLAT_SAME : other;
        const pg__layer *l = &m->layers[from];
        if (strcmp(l->class_name, "Flatten") == 0)
            return behind_flatten(channels, m, from, grouped);
        if (PG_IS_ANY(l->class_name, mixing) || PG_IS_ANY(l->class_name, convolutions) ||
            PG_IS_ANY(l->class_name, spatial) ||
            (m == g->root && strcmp(l->class_name, "InputLayer") == 0))
            return PG_FLAT_SAME;
        if (!PG_IS_ANY(l->class_name, elementwise))
            return other;
        grouped |= strcmp(l->class_name, "GroupNormalization") == 0;
        from = before(m, from);
    }
    return other;
}

pg__flattened pg__torch_flattened(uint64_t *channels, const pg__graph *g, const pg__layer *layer)
{
    for (size_t k = 0; k < g->n_models; k++) {
        const pg__model *m = g->models[k];
        for (size_t i = 0; i < m->n_layers; i++)
            if (&m->layers[i] == layer)
                return order_from(channels, g, m, before(m, i),
                                  strcmp(layer->class_name, "GroupNormalization") == 0);
    }
    return flattens_somewhere(g) ? PG_FLAT_UNKNOWN : PG_FLAT_SAME;
}

pg__flattened pg__torch_image_order(const pg__graph *g, const pg__layer *layer)
{
    uint64_t channels = 0;
    for (size_t k = 0; k < g->n_models; k++) {
        const pg__model *m = g->models[k];
        for (size_t i = 0; i < m->n_layers; i++)
            if (&m->layers[i] == layer)
                return flattened_from(&channels, m, before(m, i));
    }
    return PG_FLAT_UNKNOWN;
}

pg__flattened pg__torch_output_order(const pg__graph *g, size_t output)
{
    uint64_t channels = 0;
    return order_from(&channels, g, g->root, g->root->outputs[output].layer, 0);
}
