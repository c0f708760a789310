/* Layers over images, lowered: that Keras 1 and 2 spell the same operations, where the channels
 * stand, which shapes come out, and what is refused, in one line. */
#include "model/match_test.h"

#include "model/lower/lower.h"

/* The model of one layer, lowered for rows of the given shape ("null,7,8,3"). */
typedef struct lowered_layer {
    template_ t;
    pg__lowered low;
    pg_status st;
    pg_err err;
} lowered_layer;

static lowered_layer lower_with(const char *class_name, const char *shape, const char *config,
                                const char *rules_of, uint64_t n_rows)
{
    char json[2048];
    lowered_layer l = {.st = PG_OK};
    const pg__rules *rules;
    assert_ok(pg__rules_of(&rules, rules_of, NULL));
    snprintf(json, sizeof json,
             "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"%s\",\"config\":"
             "{\"name\":\"l\",\"batch_input_shape\":[%s]%s%s}}]}",
             class_name, shape, config[0] ? "," : "", config);
    l.t = template_of(json);
    l.st = pg__lower(
        &l.low,
        &(pg__lower_opts){
            .graph = l.t.g, .leaves = &l.t.leaves, .rules = rules, .n_rows = n_rows, .training = 1},
        &l.err);
    return l;
}

static void drop(lowered_layer *l)
{
    if (l->st == PG_OK)
        pg__lowered_fini(&l->low);
    template_free(&l->t);
}

/* The next instruction that does not only reshape or transpose (a kernel of Keras 1). */
static const pg__inst *next_inst(const pg__tape *t, uint32_t *at)
{
    while (*at < t->n_insts) {
        const pg__inst *i = &t->insts[(*at)++];
        if (i->op != pg__op_of(PG_OP_reshape) && i->op != pg__op_of(PG_OP_transpose))
            return i;
    }
    return NULL;
}

/* Not byte by byte where there are gaps between members. */
static int same_attrs(const pg__inst *i, const pg__inst *j)
{
    if (!i->attrs || !j->attrs)
        return i->attrs == j->attrs;
    if (i->op == pg__op_of(PG_OP_dropout)) {
        const pg__dropout_attrs *a = i->attrs, *b = j->attrs;
        return a->rate == b->rate && pg__dims_equal(&a->noise, &b->noise);
    }
    if (i->op == pg__op_of(PG_OP_bn_apply) || i->op == pg__op_of(PG_OP_bn_var)) {
        const pg__bn_attrs *a = i->attrs, *b = j->attrs;
        return a->epsilon == b->epsilon && a->correction == b->correction;
    }
    if (i->op == pg__op_of(PG_OP_conv) || i->op == pg__op_of(PG_OP_conv_dx)) {
        const pg__conv_attrs *a = i->attrs, *b = j->attrs;
        return a->rank == b->rank &&
               memcmp(&a->groups, &b->groups, sizeof *a - offsetof(pg__conv_attrs, groups)) == 0;
    }
    return memcmp(i->attrs, j->attrs, i->op->attrs_bytes) == 0;
}

static void same_operations(const char *what, const pg__tape *a, const pg__tape *b)
{
    uint32_t at = 0, bt = 0;
    for (;;) {
        const pg__inst *i = next_inst(a, &at), *j = next_inst(b, &bt);
        if (!i && !j)
            return;
        if (!i || !j || i->op != j->op || !same_attrs(i, j) ||
            !pg__dims_equal(&a->values[pg__out(a, i, 0)].shape, &b->values[pg__out(b, j, 0)].shape))
            fail_msg("%s: %s against %s", what, i ? i->op->name : "nothing",
                     j ? j->op->name : "nothing");
    }
}

#define IMAGE "null,7,8,3"
#define STEPS "null,6,5"

static void keras_1_and_2_spell_the_same_operations(void **state)
{
    static const struct {
        const char *class1, *config1, *class2, *config2, *shape;
    } pairs[] = {
        {"Convolution2D",
         "\"nb_filter\":4,\"nb_row\":3,\"nb_col\":2,\"border_mode\":\"same\",\"subsample\":[2,1],"
         "\"dim_ordering\":\"tf\",\"bias\":true,\"activation\":\"relu\"",
         "Conv2D",
         "\"filters\":4,\"kernel_size\":[3,2],\"padding\":\"same\",\"strides\":[2,1],"
         "\"use_bias\":true,\"activation\":\"relu\"",
         IMAGE},
        {"Convolution2D", "\"nb_filter\":4,\"nb_row\":3,\"nb_col\":3,\"dim_ordering\":\"th\"",
         "Conv2D", "\"filters\":4,\"kernel_size\":3,\"data_format\":\"channels_first\"",
         "null,3,7,8"},
        {"Convolution1D",
         "\"nb_filter\":4,\"filter_length\":3,\"subsample_length\":2,\"bias\":false", "Conv1D",
         "\"filters\":4,\"kernel_size\":[3],\"strides\":[2],\"use_bias\":false", STEPS},
        {"AtrousConvolution2D", "\"nb_filter\":4,\"nb_row\":3,\"nb_col\":3,\"atrous_rate\":[2,2]",
         "Conv2D", "\"filters\":4,\"kernel_size\":3,\"dilation_rate\":2", IMAGE},
        {"Deconvolution2D",
         "\"nb_filter\":4,\"nb_row\":3,\"nb_col\":3,\"subsample\":[2,2],"
         "\"output_shape\":[null,15,17,4]",
         "Conv2DTranspose", "\"filters\":4,\"kernel_size\":3,\"strides\":2", IMAGE},
        {"MaxPooling1D", "\"pool_length\":3,\"stride\":2", "MaxPooling1D",
         "\"pool_size\":[3],\"strides\":[2],\"padding\":\"valid\"", STEPS},
        {"MaxPooling2D", "\"pool_size\":[2,2],\"border_mode\":\"same\",\"strides\":null",
         "MaxPooling2D", "\"pool_size\":[2,2],\"padding\":\"same\"", IMAGE},
        {"ZeroPadding2D", "\"padding\":[1,2,0,3]", "ZeroPadding2D", "\"padding\":[[1,2],[0,3]]",
         IMAGE},
        {"UpSampling1D", "\"length\":3", "UpSampling1D", "\"size\":3", STEPS},
        {"Dropout", "\"p\":0.25", "Dropout", "\"rate\":0.25,\"noise_shape\":null", STEPS},
        {"BatchNormalization", "\"mode\":0,\"axis\":-1,\"momentum\":0.9,\"epsilon\":1e-05",
         "BatchNormalization", "\"axis\":[3],\"momentum\":0.9,\"epsilon\":1e-05", IMAGE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        lowered_layer a =
            lower_with(pairs[i].class1, pairs[i].shape, pairs[i].config1, "1.2.2", PG_DIM_ANY);
        lowered_layer b =
            lower_with(pairs[i].class2, pairs[i].shape, pairs[i].config2, "2.0.9", PG_DIM_ANY);
        if (a.st != PG_OK || b.st != PG_OK)
            fail_msg("%s: %s%s", pairs[i].class1, a.err.msg, b.err.msg);
        assert_true(a.low.tape.n_insts > 0);
        same_operations(pairs[i].class1, &a.low.tape, &b.low.tape);
        drop(&a);
        drop(&b);
    }
}

static void channels_stand_where_the_layer_says(void **state)
{
    static const struct {
        const char *class_name, *config, *shape, *want;
    } layers[] = {
        {"Conv2D", "\"filters\":5,\"kernel_size\":3", "null,7,8,3", "(None, 5, 6, 5)"},
        {"Conv2D", "\"filters\":5,\"kernel_size\":3,\"data_format\":\"channels_first\"",
         "null,3,7,8", "(None, 5, 5, 6)"},
        {"Conv2D", "\"filters\":5,\"kernel_size\":3,\"padding\":\"same\"", "null,null,null,3",
         "(None, None, None, 5)"},
        {"Conv2DTranspose", "\"filters\":5,\"kernel_size\":3,\"strides\":2", "null,null,8,3",
         "(None, None, 17, 5)"},
        {"DepthwiseConv2D", "\"kernel_size\":3,\"depth_multiplier\":2", "null,7,8,3",
         "(None, 5, 6, 6)"},
        {"SeparableConv1D", "\"filters\":4,\"kernel_size\":3,\"data_format\":\"channels_first\"",
         "null,5,6", "(None, 4, 4)"},
        {"AveragePooling3D", "\"data_format\":\"channels_first\"", "null,2,4,6,9",
         "(None, 2, 2, 3, 4)"},
        {"GlobalMaxPooling2D", "\"data_format\":\"channels_first\",\"keepdims\":true", "null,3,7,8",
         "(None, 3, 1, 1)"},
        {"GlobalAveragePooling1D", "", "null,null,5", "(None, 5)"},
        {"ZeroPadding2D", "\"data_format\":\"channels_first\"", "null,3,7,8", "(None, 3, 9, 10)"},
        {"Cropping1D", "\"cropping\":[1,2]", "null,6,5", "(None, 3, 5)"},
        {"UpSampling2D", "\"size\":[2,3],\"data_format\":\"channels_first\"", "null,3,7,null",
         "(None, 3, 14, None)"},
        {"BatchNormalization", "\"axis\":1", "null,3,7,8", "(None, 3, 7, 8)"},
        {"Permute", "\"dims\":[2,1]", "null,6,5", "(None, 5, 6)"},
        {"RepeatVector", "\"n\":3", "null,5", "(None, 3, 5)"},
        {"SpatialDropout2D", "\"rate\":0.5", "null,7,8,3", "(None, 7, 8, 3)"},
        {"Flatten", "\"data_format\":\"channels_first\"", "null,3,7,8", "(None, 168)"},
        {"PReLU", "\"shared_axes\":[1,2]", "null,null,8,3", "(None, None, 8, 3)"},
        {"ConvLSTM2D", "\"filters\":2,\"kernel_size\":3,\"return_sequences\":true",
         "null,null,8,9,3", "(None, None, 6, 7, 2)"},
        {"ConvLSTM2D", "\"filters\":2,\"kernel_size\":3,\"data_format\":\"channels_first\"",
         "null,4,3,null,9", "(None, 2, None, 7)"},
        {"GroupNormalization", "\"groups\":2", "null,null,null,4", "(None, None, None, 4)"},
        {"UnitNormalization", "", "null,null,4", "(None, None, 4)"},
        {"LocallyConnected2D", "\"filters\":2,\"kernel_size\":3,\"data_format\":\"channels_first\"",
         "null,3,7,8", "(None, 2, 5, 6)"},
        {"Resizing", "\"height\":4,\"width\":5", "null,7,8,3", "(None, 4, 5, 3)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        lowered_layer l =
            lower_with(layers[i].class_name, layers[i].shape, layers[i].config, "2.15", PG_DIM_ANY);
        if (l.st != PG_OK)
            fail_msg("%s: %s", layers[i].class_name, l.err.msg);
        assert_string_equal(PG_SHAPE(&l.low.tape.values[l.low.outputs[0]].shape), layers[i].want);
        drop(&l);
    }
}

static const struct {
    const char *class_name, *config, *shape;
    pg_status st;
    const char *want;
} senseless[] = {
    {"Conv2D", "\"filters\":4,\"kernel_size\":3", "null,2,8,3", PG_E_MISMATCH,
     "l: input (None, 2, 8, 3) is smaller than the kernel (3, 3, 3, 4)"},
    {"Conv2D", "\"filters\":4,\"kernel_size\":3", "null,8,3", PG_E_MISMATCH,
     "l: input (None, 8, 3) does not have 2 spatial dimensions"},
    {"Conv2D", "\"filters\":4,\"kernel_size\":3", "null,8,8,null", PG_E_MISMATCH,
     "l: input (None, 8, 8, None) needs a known number of channels"},
    {"Conv2D", "\"filters\":4,\"kernel_size\":3,\"groups\":2", "null,8,8,3", PG_E_FORMAT,
     "l: 2 groups do not divide 3 channels and 4 filters"},
    {"Conv2D", "\"filters\":4,\"kernel_size\":3,\"padding\":\"full\"", "null,8,8,3",
     PG_E_UNSUPPORTED, "l: \"padding\" must be one of valid, same, causal"},
    {"Conv2D", "\"filters\":4,\"kernel_size\":3,\"data_format\":\"x\"", "null,8,8,3",
     PG_E_UNSUPPORTED, "l: \"data_format\" is neither channels_last nor channels_first"},
    {"MaxPooling2D", "\"data_format\":1", "null,8,8,3", PG_E_UNSUPPORTED,
     "l: \"data_format\" is neither channels_last nor channels_first"},
    {"Convolution2D", "\"nb_filter\":4,\"nb_row\":3,\"nb_col\":3,\"dim_ordering\":\"TF\"",
     "null,8,8,3", PG_E_UNSUPPORTED, "l: \"dim_ordering\" is neither tf nor th"},
    {"Conv2D", "\"filters\":4,\"kernel_size\":3,\"padding\":\"causal\"", "null,8,8,3", PG_E_FORMAT,
     "l: causal padding has one dimension"},
    {"MaxPooling2D", "\"pool_size\":9", "null,8,8,3", PG_E_MISMATCH,
     "l: input (None, 8, 8, 3) is smaller than the window"},
    {"Cropping2D", "\"cropping\":4", "null,8,8,3", PG_E_MISMATCH,
     "l: nothing is left of axis 1 of (None, 8, 8, 3)"},
    {"ZeroPadding2D", "\"padding\":[1,2,3]", "null,8,8,3", PG_E_FORMAT,
     "l: \"padding\" does not say how many cells at each end"},
    {"UpSampling2D", "\"interpolation\":\"bicubical\"", "null,8,8,3", PG_E_UNSUPPORTED,
     "l: \"interpolation\" is bicubical; it must be one of nearest, bilinear, bicubic, area, "
     "lanczos3, "
     "lanczos5, gaussian, mitchellcubic"},
    {"Resizing", "\"height\":4,\"width\":0", "null,8,8,3", PG_E_FORMAT,
     "l: \"width\" is not a whole number above 0"},
    {"Resizing", "\"height\":1000000000,\"width\":4", "null,8,8,3", PG_E_MISMATCH,
     "l: 8 cells cannot be resized to 1000000000: the table would be too large"},
    {"Resizing", "\"height\":10000000,\"width\":4", "null,8,8,3", PG_E_MISMATCH,
     "l: 8 cells cannot be resized to 10000000: the table would be too large"},
    {"CenterCrop", "\"height\":4,\"width\":4", "null,null,8,3", PG_E_MISMATCH,
     "l: input (None, None, 8, 3): the image size must be known to resize images"},
    {"GroupNormalization", "\"groups\":3", "null,8,8,4", PG_E_FORMAT,
     "l: \"groups\" does not divide the 4 channels"},
    {"GroupNormalization", "\"groups\":-7", "null,8,8,4", PG_E_FORMAT,
     "l: \"groups\" does not divide the 4 channels"},
    {"UnitNormalization", "\"axis\":[1,9]", "null,8", PG_E_FORMAT,
     "l: \"axis\" names no axis of the input"},
    {"ConvLSTM2D", "\"filters\":2,\"kernel_size\":2", "null,3000,4,4,1", PG_E_LIMIT,
     "l: 3000 steps; 1 to 2048 are supported"},
    {"ConvLSTM2D", "\"filters\":2,\"kernel_size\":2", "null,4,4,1", PG_E_MISMATCH,
     "l: input (None, 4, 4, 1) is not (rows, steps, 2 spatial dimensions, channels)"},
    {"ConvLSTM1D", "\"filters\":2,\"kernel_size\":2,\"dropout\":2", "null,3,4,1", PG_E_FORMAT,
     "l: \"dropout\" is not in [0, 1)"},
    {"ConvLSTM2D", "\"nb_filter\":2,\"nb_row\":2,\"nb_col\":2", "null,3,4,4,1", PG_E_UNSUPPORTED,
     "l: ConvLSTM2D of Keras 1, whose gates are stored separately, is not supported"},
    {"LocallyConnected1D", "\"filters\":2,\"kernel_size\":2,\"implementation\":4", "null,8,1",
     PG_E_FORMAT, "l: \"implementation\" must be one of 1, 2, 3"},
    {"LocallyConnected1D", "\"filters\":2,\"kernel_size\":2,\"padding\":\"same\"", "null,8,1",
     PG_E_FORMAT, "l: \"padding\" is not for this \"implementation\""},
    {"LocallyConnected2D", "\"filters\":2000000000,\"kernel_size\":2", "null,8,8,1", PG_E_LIMIT,
     "l: its kernels have more weights than are supported"},
    {"LocallyConnected2D", "\"filters\":2,\"kernel_size\":9", "null,8,8,1", PG_E_MISMATCH,
     "l: \"kernel_size\" 9 is larger than the input, 8"},
    {"RandomFlip", "\"mode\":\"sideways\"", "null,8,8,3", PG_E_UNSUPPORTED,
     "l: \"mode\" must be one of horizontal, vertical, horizontal_and_vertical"},
    {"RandomZoom", "\"height_factor\":[0.1,\"x\"]", "null,8,8,3", PG_E_FORMAT,
     "l: \"height_factor\" must be one or two numbers from -1 to 1"},
    {"RandomRotation", "\"factor\":0.1,\"fill_mode\":\"mirror\"", "null,8,8,3", PG_E_UNSUPPORTED,
     "l: \"fill_mode\" must be one of constant, nearest, reflect, wrap"},
    {"RandomRotation", "\"factor\":0.1,\"interpolation\":\"cubic\"", "null,8,8,3", PG_E_UNSUPPORTED,
     "l: \"interpolation\" is neither nearest nor bilinear"},
    {"RandomCrop", "\"height\":4,\"width\":-4", "null,8,8,3", PG_E_FORMAT,
     "l: \"width\" is not a whole number above 0"},
    {"RandomBrightness", "\"factor\":0.1", "null,8,3", PG_E_MISMATCH,
     "l: input (None, 8, 3) does not have 2 spatial dimensions"},
    {"CategoryEncoding", "\"num_tokens\":1048577", "null,8", PG_E_LIMIT, /* PG_LIMIT_CATEGORIES */
     "l: 1048577 categories, at most 1048576 are supported"},
    {"CategoryEncoding", "\"num_tokens\":4,\"sparse\":true", "null,8", PG_E_UNSUPPORTED,
     "l: \"sparse\" results are not supported"},
    {"CategoryEncoding", "\"num_tokens\":4,\"output_mode\":\"int\"", "null,8", PG_E_FORMAT,
     "l: \"output_mode\" does not fit a call with 1 tensors"},
    {"Hashing", "\"num_bins\":5,\"salt\":[1,2]", "null,8", PG_E_UNSUPPORTED,
     "l: \"salt\" is not supported"},
    {"Hashing", "\"num_bins\":5,\"mask_value\":\"\"", "null,8", PG_E_UNSUPPORTED,
     "l: \"mask_value\" is not a number"},
    {"Discretization", "\"bin_boundaries\":[1,\"x\"]", "null,8", PG_E_FORMAT,
     "l: \"bin_boundaries\" is not a list of numbers"},
    {"IntegerLookup", "\"vocabulary\":[1,2],\"num_oov_indices\":4", "null,8", PG_E_UNSUPPORTED,
     "l: \"num_oov_indices\" other than 0 and 1 is not supported"},
    {"IntegerLookup", "\"vocabulary\":null", "null,8", PG_E_UNSUPPORTED,
     "l: its vocabulary is not part of the model's config"},
    {"IntegerLookup", "\"vocabulary\":[-1]", "null,8", PG_E_FORMAT, "l: \"vocabulary\" is empty"},
    {"BatchNormalization", "\"axis\":4", "null,8,8,3", PG_E_MISMATCH,
     "l: \"axis\" is not an axis of an input with 4 dimensions"},
    {"BatchNormalization", "\"axis\":[1,2]", "null,8,8,3", PG_E_UNSUPPORTED,
     "l: \"axis\" is not a single axis"},
    {"BatchNormalization", "\"mode\":1", "null,8,8,3", PG_E_UNSUPPORTED,
     "l: mode 1 of Keras 1 is not supported"},
    {"Dropout", "\"rate\":1.5", "null,5", PG_E_FORMAT, "l: the rate is not in [0, 1)"},
    {"Dropout", "\"rate\":0.5,\"noise_shape\":[null,3]", "null,5", PG_E_MISMATCH,
     "l: \"noise_shape\" does not fit the input (None, 5)"},
    {"Permute", "\"dims\":[1,3]", "null,6,5", PG_E_FORMAT, "l: \"dims\" is not an order of 2 axes"},
    {"RepeatVector", "\"n\":3", "null,6,5", PG_E_MISMATCH,
     "l: input (None, 6, 5) does not have two dimensions"},
    {"Normalization", "\"mean\":[1,2],\"variance\":[1,1]", "null,5", PG_E_MISMATCH,
     "l: \"mean\" is neither one number nor 5"},
    {"Rescaling", "\"scale\":\"x\"", "null,5", PG_E_FORMAT, "l: \"scale\" is not a number"},
};

static void what_makes_no_sense_is_refused_in_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        lowered_layer l = lower_with(senseless[i].class_name, senseless[i].shape,
                                     senseless[i].config, "2.15", PG_DIM_ANY);
        assert_int_equal(l.st, senseless[i].st);
        assert_string_equal(l.err.msg, senseless[i].want);
        drop(&l);
    }
}

static size_t n_moving(const char *rules, const char *config, int *couples)
{
    lowered_layer l = lower_with("BatchNormalization", IMAGE, config, rules, 4);
    assert_ok(l.st);
    const size_t n = l.low.n_moving;
    *couples = l.low.couples_rows;
    drop(&l);
    return n;
}

static void frozen_normalisation_follows_the_writer(void **state)
{
    int couples;
    (void)state;
    assert_int_equal(n_moving("2.15", "\"momentum\":0.5", &couples), 2);
    assert_true(couples);
    assert_int_equal(n_moving("2.15", "\"trainable\":false", &couples), 0);
    assert_false(couples);
    assert_int_equal(n_moving("3.6", "\"trainable\":false", &couples), 0);
    assert_false(couples);
    assert_int_equal(n_moving("2.0.9", "\"trainable\":false", &couples), 2);
    assert_true(couples);
    assert_int_equal(n_moving("2.2.4", "\"trainable\":false", &couples), 0);
    assert_true(couples);
}

static void dropout_is_nothing_without_a_rate(void **state)
{
    (void)state;
    lowered_layer l = lower_with("Dropout", STEPS, "\"rate\":0.0", "2.15", 4);
    assert_ok(l.st);
    assert_int_equal(l.low.outputs[0], l.low.inputs[0]);
    assert_int_equal(l.low.step, PG_NO_VAL);
    drop(&l);
    l = lower_with("Dropout", STEPS, "\"rate\":0.5", "2.15", 4);
    assert_ok(l.st);
    assert_int_equal(l.low.tape.n_insts, 1);
    assert_int_not_equal(l.low.step, PG_NO_VAL);
    drop(&l);
}

PG_TEST_MAIN(cmocka_unit_test(keras_1_and_2_spell_the_same_operations),
             cmocka_unit_test(channels_stand_where_the_layer_says),
             cmocka_unit_test(what_makes_no_sense_is_refused_in_one_line),
             cmocka_unit_test(frozen_normalisation_follows_the_writer),
             cmocka_unit_test(dropout_is_nothing_without_a_rate))
