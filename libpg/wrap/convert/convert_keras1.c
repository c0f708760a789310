/* convert_keras1.c - converts kernels of Keras 1 for later releases. Keras 2 does this when it
 * loads a file whose version is "1" or missing; Keras 3 does not, and no loader does for other
 * formats (FORMATS.md: "Conversions on load"). Layers that Keras 2 itself does not convert are
 * refused. */
#include <string.h>

#include "wrap/convert/convert.h"

static int is_th(const pg__layer *l)
{
    const char *order = pg__json_get_str(l->config, "dim_ordering");
    return order && strcmp(order, "th") == 0;
}

/* Gates in the order of Keras 2: an LSTM's i, c, f, o become i, f, c, o. */
static const char *join_gates(pg__slot *slot, const pg__layer *l, const pg__take *takes)
{
    static const uint32_t lstm[] = {0, 2, 1, 3}, gru[] = {0, 1, 2};
    const uint32_t *order = slot->n_gates == 4 ? lstm : gru;
    pg__take part[PG_TAKE_BLOCKS];
    for (uint32_t g = 0; g < slot->n_gates; g++)
        part[g] = takes[slot->var + 3 * order[g]];
    if (is_th(l))
        return "dim_ordering \"th\" is not converted here";
    if (!pg__take_join(&slot->take, part, slot->n_gates, part[0].rank - 1))
        return "its gates have different shapes";
    return NULL;
}

/* Convolution1D was a 2-D convolution of width 1: (length, 1, in, out), in Keras 1.1
 * (out, in, length, 1). */
static void turn_conv1d(pg__take *t, const pg__layer *l)
{
    static const uint32_t old[] = {2, 3, 1, 0};
    int64_t length = 0, filters = 0;
    (void)pg__json_int(pg__json_get(l->config, "filter_length"), &length);
    (void)pg__json_int(pg__json_get(l->config, "nb_filter"), &filters);
    if (t->rank != 4)
        return;
    if (t->dims[0] != (uint64_t)length || t->dims[1] != 1 || t->dims[3] != (uint64_t)filters)
        pg__take_permute(t, old);
    pg__take_index(t, 1, 0);
}

void pg__keras1_take(pg__slot *slot, const pg__leaf *leaf, const pg__take *takes, const char **why)
{
    static const uint32_t th2[] = {2, 3, 1, 0}, th3[] = {2, 3, 4, 1, 0}, back[] = {2, 3, 0, 1},
                          last[] = {0, 1, 3, 2};
    static const char *const conv1[] = {"Convolution1D", "Conv1D", "AtrousConvolution1D"},
                             *const conv2[] = {"Convolution2D", "Conv2D", "AtrousConvolution2D"},
                             *const conv3[] = {"Convolution3D", "Conv3D"},
                             *const deconv[] = {"Deconvolution2D", "Conv2DTranspose"},
                             *const turned[] = {"SeparableConvolution2D", "SeparableConv2D",
                                                "LocallyConnected2D", "Deconvolution3D"},
                             *const gone[] = {"MaxoutDense", "Highway", "TimeDistributedDense",
                                              "SReLU", "ParametricSoftplus"};
    const pg__layer *l = leaf->layer->inner ? leaf->layer->inner : leaf->layer;
    const int kernel = strcmp(slot->kind, "kernel") == 0;
    *why = NULL;
    if (PG_IS_ANY(l->class_name, gone)) {
        *why = "later releases have no such layer";
    } else if (slot->n_gates > 1) {
        *why = join_gates(slot, l, takes);
    } else if (PG_IS_ANY(l->class_name, turned)) {
        *why = is_th(l) ? "dim_ordering \"th\" is not converted here" : NULL;
    } else if (kernel && PG_IS_ANY(l->class_name, conv1)) {
        turn_conv1d(&slot->take, l);
    } else if (kernel && PG_IS_ANY(l->class_name, conv2) && is_th(l)) {
        pg__take_permute(&slot->take, th2);
    } else if (kernel && PG_IS_ANY(l->class_name, conv3) && is_th(l)) {
        pg__take_permute(&slot->take, th3);
    } else if (kernel && PG_IS_ANY(l->class_name, deconv)) {
        pg__take_permute(&slot->take, is_th(l) ? back : last);
    }
}
