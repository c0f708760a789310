/* Where PyTorch's Flatten has another order of features than Keras', and which layers that
 * concerns. */
#include "pg_test.h"
#include "wrap/convert/convert_torch.h"

#define LAYER(class_name, name, more) \
    "{\"class_name\": \"" class_name "\", \"config\": {\"name\": \"" name "\"" more "}}"
#define IMAGE LAYER("InputLayer", "i", ", \"batch_input_shape\": [null, 4, 4, 2]")
#define CONV  LAYER("Conv2D", "conv", ", \"filters\": 3")
#define FLAT  LAYER("Flatten", "flat", "")
#define DENSE LAYER("Dense", "dense", ", \"units\": 5")

/* Of the last layer of a Sequential of these. */
static pg__flattened order(uint64_t *channels, pg__flattened *as_image, const char *layers)
{
    pg__graph *g = NULL;
    pg__str text = {0};
    *channels = 0;
    assert_ok(pg__str_printf(&text, NULL,
                             "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"m\", "
                             "\"layers\": [%s]}}",
                             layers));
    assert_ok(pg__graph_parse(&g, text.s, text.n, NULL));
    const pg__layer *last = &g->root->layers[g->root->n_layers - 1];
    const pg__flattened how = pg__torch_flattened(channels, g, last);
    *as_image = pg__torch_image_order(g, last);
    pg__graph_free(g);
    pg__str_fini(&text);
    return how;
}

static void finds_the_flatten_behind_layers_that_keep_the_order(void **state)
{
    static const struct {
        const char *layers;
        pg__flattened how;
        uint64_t channels;
    } cases[] = {{IMAGE ", " CONV ", " FLAT ", " DENSE, PG_FLAT_TURNED, 3},
                 {IMAGE ", " FLAT ", " DENSE, PG_FLAT_TURNED, 2},
                 {IMAGE ", " CONV ", " FLAT ", " LAYER("LayerNormalization", "n", "") ", " DENSE,
                  PG_FLAT_TURNED, 3},
                 {IMAGE ", " CONV ", " LAYER("LayerNormalization", "n", "") ", " FLAT ", " DENSE,
                  PG_FLAT_TURNED, 3},
                 {IMAGE ", " CONV ", " FLAT ", " LAYER("PReLU", "p", ""), PG_FLAT_TURNED, 3},
                 {IMAGE ", " CONV ", " FLAT ", " DENSE ", " LAYER("LayerNormalization", "n", ""),
                  PG_FLAT_SAME, 0},
                 {IMAGE ", " CONV ", " LAYER("LayerNormalization", "n", ""), PG_FLAT_SAME, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t channels = 0;
        pg__flattened as_image;
        assert_int_equal(order(&channels, &as_image, cases[i].layers), cases[i].how);
        assert_int_equal(cases[i].how == PG_FLAT_TURNED ? channels : 0, cases[i].channels);
    }
}

/* Groups are neighbours, and PyTorch has other neighbours there. */
static void groups_of_flattened_features_have_no_counterpart(void **state)
{
    uint64_t channels = 0;
    pg__flattened as_image;
    (void)state;
    assert_int_equal(order(&channels, &as_image,
                           IMAGE ", " CONV ", " FLAT ", " LAYER("GroupNormalization", "n", "")),
                     PG_FLAT_UNKNOWN);
    assert_int_equal(order(&channels, &as_image,
                           IMAGE ", " CONV ", " FLAT
                                 ", " LAYER("GroupNormalization", "n", "") ", " DENSE),
                     PG_FLAT_UNKNOWN);
    assert_int_equal(order(&channels, &as_image,
                           IMAGE ", " CONV ", " LAYER("GroupNormalization", "n", "") ", " FLAT
                                                                                     ", " DENSE),
                     PG_FLAT_TURNED);
}

static void knows_images_from_sequences(void **state)
{
    uint64_t channels = 0;
    pg__flattened as_image;
    (void)state;
    (void)order(&channels, &as_image, IMAGE ", " CONV ", " LAYER("LayerNormalization", "n", ""));
    assert_int_equal(as_image, PG_FLAT_TURNED);
    (void)order(&channels, &as_image,
                LAYER("InputLayer", "i", ", \"batch_input_shape\": [null, 6, 2]") ", " LAYER(
                    "LSTM", "r", ", \"units\": 3") ", " LAYER("LayerNormalization", "n", ""));
    assert_int_equal(as_image, PG_FLAT_SAME);
}

PG_TEST_MAIN(cmocka_unit_test(finds_the_flatten_behind_layers_that_keep_the_order),
             cmocka_unit_test(groups_of_flattened_features_have_no_counterpart),
             cmocka_unit_test(knows_images_from_sequences))
