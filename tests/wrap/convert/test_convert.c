#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "wrap/convert/convert_torch.h"

/* ---- rounding ---- */

static uint16_t half_of(float x, pg_dtype type, pg__rounding *r)
{
    uint16_t h = 0;
    pg__round(&h, type, &x, PG_F32, 1, r);
    return h;
}

static void rounds_to_nearest_ties_to_even(void **state)
{
    (void)state;
    assert_int_equal(half_of(1.0f, PG_F16, NULL), 0x3C00);
    assert_int_equal(half_of(-2.0f, PG_F16, NULL), 0xC000);
    assert_int_equal(half_of(2049.0f, PG_F16, NULL), 0x6800); /* between 2048 and 2050 */
    assert_int_equal(half_of(2051.0f, PG_F16, NULL), 0x6802); /* between 2050 and 2052 */
    assert_int_equal(half_of(65519.0f, PG_F16, NULL), 0x7BFF);
    assert_int_equal(half_of(0x1p-24f, PG_F16, NULL), 0x0001); /* smallest of all */
    assert_int_equal(half_of(0x1p-25f, PG_F16, NULL), 0x0000); /* a tie with zero */
    assert_int_equal(half_of(0x1.8p-25f, PG_F16, NULL), 0x0001);
    assert_int_equal(half_of(0x1.ffcp-15f, PG_F16, NULL), 0x0400); /* up into the normal ones */
    assert_int_equal(half_of(-0.0f, PG_F16, NULL), 0x8000);
    assert_int_equal(half_of(1.00390625f, PG_BF16, NULL), 0x3F80); /* a tie */
    assert_int_equal(half_of(1.01171875f, PG_BF16, NULL), 0x3F82); /* a tie */
    assert_int_equal(half_of(INFINITY, PG_BF16, NULL), 0x7F80);
    assert_int_equal(half_of(NAN, PG_F16, NULL) & 0x7E00, 0x7E00);
}

static void reads_every_half_back(void **state)
{
    (void)state;
    static const pg_dtype types[] = {PG_F16, PG_BF16};
    for (size_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < 0x10000; i++) {
            const uint16_t h = (uint16_t)i;
            float f = 0;
            pg__round(&f, PG_F32, &h, types[k], 1, NULL);
            if (!isnan(f))
                assert_int_equal(half_of(f, types[k], NULL), h);
        }
}

static void tells_what_rounding_costs(void **state)
{
    (void)state;
    pg__rounding r = {0};
    (void)half_of(65520.0f, PG_F16, &r);
    (void)half_of(1e-9f, PG_F16, &r);
    (void)half_of(INFINITY, PG_F16, &r);
    assert_int_equal(r.n_overflow, 1);
    assert_int_equal(r.n_underflow, 1);
    assert_true(r.max_rel_error == 0);
    (void)half_of(2049.0f, PG_F16, &r);
    assert_true(fabs(r.max_rel_error - 1.0 / 2049) < 1e-9);
}

/* ---- recipes ---- */

/* Tensor t of the source: element i is i, plus 1000 * t. */
static pg_status count_up(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n / 4; i++)
        ((float *)buf)[i] = (float)(off / 4 + i + 1000 * tensor);
    return PG_OK;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static pg_store *numbers(size_t n_tensors, uint32_t rank, const uint64_t *dims)
{
    static const pg__store_io io = {.read = count_up, .close = nothing};
    const pg__tensor_desc d = {.name = "w", .dtype = PG_F32, .rank = rank, .dims = dims};
    pg_store *s = NULL;
    assert_ok(pg__store_new(&s, "test", &io, NULL, NULL));
    for (size_t i = 0; i < n_tensors; i++)
        assert_ok(pg__store_add_weight(s, &d, NULL));
    return s;
}

static void take_all(pg_store *s, const pg__take *t, float *out, size_t n)
{
    pg__taker *r = NULL;
    assert_int_equal(pg__take_bytes(t), n * 4);
    assert_ok(pg__taker_new(&r, s, 1, NULL));
    for (size_t i = 0; i < n; i += 5) /* in pieces */
        assert_ok(pg__taker_read(r, t, 0, i * 4, out + i, (n - i < 5 ? n - i : 5) * 4, NULL));
    pg__taker_free(r);
}

static void turns_a_kernel(void **state)
{
    (void)state;
    pg__take t;
    float got[24];
    pg_store *s = numbers(1, 4, (uint64_t[]){2, 1, 3, 4}); /* HWIO to OIHW */
    pg__take_whole(&t, s, 0);
    assert_true(pg__take_is_copy(&t, s));
    pg__take_permute(&t, (uint32_t[]){3, 2, 0, 1});
    assert_false(pg__take_is_copy(&t, s));
    take_all(s, &t, got, 24);
    for (size_t o = 0, k = 0; o < 4; o++)
        for (size_t i = 0; i < 3; i++)
            for (size_t h = 0; h < 2; h++)
                assert_true(got[k++] == (float)(h * 12 + i * 4 + o));
    pg_store_close(s);
}

static void puts_gates_side_by_side_and_in_order(void **state)
{
    (void)state;
    pg__take t, part[3];
    float got[12];
    pg_store *s = numbers(3, 2, (uint64_t[]){2, 2});
    for (size_t i = 0; i < 3; i++)
        pg__take_whole(&part[i], s, i);
    assert_true(pg__take_join(&t, part, 3, 1));
    assert_true(pg__take_reorder(&t, 1, 3, (uint32_t[]){1, 0, 2}));
    take_all(s, &t, got, 12);
    const float want[] = {1000, 1001, 0, 1, 2000, 2001, 1002, 1003, 2, 3, 2002, 2003};
    assert_memory_equal(got, want, sizeof want);
    pg__take_permute(&t, (uint32_t[]){1, 0});
    take_all(s, &t, got, 12);
    const float turned[] = {1000, 1002, 1001, 1003, 0, 2, 1, 3, 2000, 2002, 2001, 2003};
    assert_memory_equal(got, turned, sizeof turned);
    pg_store_close(s);
}

static void takes_one_row(void **state)
{
    (void)state;
    pg__take t;
    float got[6];
    pg_store *s = numbers(1, 2, (uint64_t[]){2, 6});
    pg__take_whole(&t, s, 0);
    pg__take_index(&t, 0, 1);
    assert_int_equal(t.rank, 1);
    assert_true(pg__take_reorder(&t, 0, 3, (uint32_t[]){1, 0, 2}));
    take_all(s, &t, got, 6);
    const float want[] = {8, 9, 6, 7, 10, 11};
    assert_memory_equal(got, want, sizeof want);
    pg__take_constant(&t, 6, PG_F32, 0);
    take_all(s, &t, got, 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(got[i] == 0);
    pg_store_close(s);
}

static void adds_what_lies_in_the_same_place(void **state)
{
    (void)state;
    pg__take t;
    float got[6];
    pg_store *s = numbers(2, 2, (uint64_t[]){2, 3});
    pg__take_whole(&t, s, 0);
    t.plus = 2; /* tensor 1 */
    assert_false(pg__take_is_copy(&t, s));
    pg__take_permute(&t, (uint32_t[]){1, 0});
    take_all(s, &t, got, 6);
    const float want[] = {1000, 1006, 1002, 1008, 1004, 1010};
    assert_memory_equal(got, want, sizeof want);
    pg_store_close(s);
}

/* 24 MB: three windows, and no part of the input that is read at once. */
static void transposes_more_than_fits_a_window(void **state)
{
    (void)state;
    const size_t rows = 3000, columns = 2000;
    pg__take t;
    pg__taker *r = NULL;
    float got[7];
    pg_store *s = numbers(1, 2, (uint64_t[]){rows, columns});
    pg__take_whole(&t, s, 0);
    pg__take_permute(&t, (uint32_t[]){1, 0});
    assert_ok(pg__taker_new(&r, s, 1, NULL));
    for (size_t at = 0; at + 7 < rows * columns; at += 399989) {
        assert_ok(pg__taker_read(r, &t, 0, at * 4, got, sizeof got, NULL));
        for (size_t i = 0; i < 7; i++)
            assert_true(got[i] == (float)((at + i) % rows * columns + (at + i) / rows));
    }
    pg__taker_free(r);
    pg_store_close(s);
}

/* ---- slots ---- */

static const char model_json[] =
    "{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": ["
    "{\"class_name\": \"InputLayer\", \"name\": \"x\", \"config\": {\"name\": \"x\"}, "
    "\"inbound_nodes\": []},"
    "{\"class_name\": \"Dense\", \"name\": \"a\", \"config\": {\"name\": \"a\", \"units\": 3}, "
    "\"inbound_nodes\": [[[\"x\", 0, 0, {}]]]},"
    "{\"class_name\": \"BatchNormalization\", \"name\": \"n\", \"config\": {\"name\": \"n\", "
    "\"axis\": [1]}, \"inbound_nodes\": [[[\"a\", 0, 0, {}]]]},"
    "{\"class_name\": \"Bidirectional\", \"name\": \"b\", \"config\": {\"name\": \"b\", \"layer\": "
    "{\"class_name\": \"LSTM\", \"config\": {\"name\": \"lstm\", \"units\": 2}}}, "
    "\"inbound_nodes\": [[[\"n\", 0, 0, {}]]]},"
    "{\"class_name\": \"Dense\", \"name\": \"c\", \"config\": {\"name\": \"c\", \"units\": 3, "
    "\"use_bias\": false}, \"inbound_nodes\": [[[\"b\", 0, 0, {}]]]}], "
    "\"input_layers\": [[\"x\", 0, 0]], \"output_layers\": [[\"c\", 0, 0]]}}";

static void knows_where_variables_lie(void **state)
{
    (void)state;
    static const char *const want[][2] = {
        {"layers/dense/vars/0", "a/kernel:0"},
        {"layers/dense/vars/1", "a/bias:0"},
        {"layers/batch_normalization/vars/0", "n/gamma:0"},
        {"layers/batch_normalization/vars/1", "n/beta:0"},
        {"layers/batch_normalization/vars/2", "n/moving_mean:0"},
        {"layers/batch_normalization/vars/3", "n/moving_variance:0"},
        {"layers/bidirectional/forward_layer/cell/vars/0", "b/forward_lstm/lstm_cell/kernel:0"},
        {"layers/bidirectional/forward_layer/cell/vars/1",
         "b/forward_lstm/lstm_cell/recurrent_kernel:0"},
        {"layers/bidirectional/forward_layer/cell/vars/2", "b/forward_lstm/lstm_cell/bias:0"},
        {"layers/bidirectional/backward_layer/cell/vars/0", "b/backward_lstm/lstm_cell/kernel:0"},
        {"layers/bidirectional/backward_layer/cell/vars/1",
         "b/backward_lstm/lstm_cell/recurrent_kernel:0"},
        {"layers/bidirectional/backward_layer/cell/vars/2", "b/backward_lstm/lstm_cell/bias:0"},
        {"layers/dense_1/vars/0", "c/kernel:0"}};
    pg__graph *g = NULL;
    pg__slots s = {0};
    assert_ok(pg__graph_parse(&g, model_json, strlen(model_json), NULL));
    assert_ok(pg__slots_of(&s, g, 2, NULL));
    assert_int_equal(s.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < s.n; i++) {
        assert_string_equal(s.v[i].path, want[i][0]);
        assert_string_equal(s.v[i].name, want[i][1]);
        assert_int_equal(s.v[i].trainable, i != 4 && i != 5);
    }
    assert_int_equal(s.n_groups, 5);
    pg__slots_fini(&s);
    pg__graph_free(g);
}

static void names_tensors_by_layer(void **state)
{
    (void)state;
    static const char *const want[][3] = {{"conv1", "conv1/kernel:0", "conv1/kernel"},
                                          {"model_1", "conv/kernel:0", "model_1/conv/kernel"},
                                          {"dense", "kernel", "dense/kernel"},
                                          {"dense_1", "dense_1_W:0", "dense_1/dense_1_W"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        pg__str name = {0};
        assert_ok(pg__flat_name(&name, want[i][0], want[i][1], NULL));
        assert_string_equal(name.s, want[i][2]);
        pg__str_fini(&name);
    }
}

static void numbers_names_that_occur_twice(void **state)
{
    (void)state;
    pg__outline o = {0};
    pg__take t;
    pg__take_constant(&t, 1, PG_F32, 0);
    assert_ok(pg__outline_layer(&o, "m", NULL, NULL));
    for (size_t i = 0; i < 3; i++)
        assert_ok(pg__outline_add(&o, "d/kernel:0", &t, NULL));
    assert_ok(pg__outline_unique(&o, 0, NULL));
    assert_string_equal(o.tensors[0].name, "d/kernel:0");
    assert_string_equal(o.tensors[1].name, "d_1/kernel:0");
    assert_string_equal(o.tensors[2].name, "d_2/kernel:0");
    assert_ok(pg__outline_check_names(&o, NULL));
    pg__outline_fini(&o);
}

/* ---- whole files ---- */

static char folder[64];

static const char *in(const char *name)
{
    static char path[4][512];
    static size_t k;
    k = (k + 1) % 4;
    (void)snprintf(path[k], sizeof path[k], "%s/files/keras-2.15.0-native/cnn4/%s", pg_testdata,
                   name);
    return path[k];
}

static const char *out(const char *name)
{
    static char path[4][128];
    static size_t k;
    k = (k + 1) % 4;
    (void)snprintf(path[k], sizeof path[k], "%s/%s", folder, name);
    return path[k];
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/pg-convert-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"a.weights.h5", "a.safetensors", "a.h5", "a.keras"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(out(names[i]));
    return rmdir(folder);
}

static void convert(const char *from, const char *to, const char *model)
{
    pg_err err = {0};
    const pg_convert_opts o = {.model = model, .write = {.force = 1, .no_sync = 1}};
    if (pg_convert_file(from, to, &o, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
}

/* Same layers, names, shapes and bytes. */
static void assert_same_file(const char *a, const char *b)
{
    pg_store *x = NULL, *y = NULL;
    assert_ok(pg_store_open(&x, a, NULL, NULL));
    assert_ok(pg_store_open(&y, b, NULL, NULL));
    assert_int_equal(pg_store_n_weights(x), pg_store_n_weights(y));
    for (size_t i = 0; i < pg_store_n_weights(x); i++) {
        const pg_weight *v = pg_store_weight(x, i), *w = pg_store_weight(y, i);
        unsigned char p[8192], q[8192];
        assert_string_equal(v->name, w->name);
        assert_string_equal(pg_store_layer(x, v->layer)->name, pg_store_layer(y, w->layer)->name);
        assert_int_equal(v->n_bytes, w->n_bytes);
        assert_true(v->n_bytes <= sizeof p);
        assert_ok(pg_store_read(x, i, 0, p, (size_t)v->n_bytes, NULL));
        assert_ok(pg_store_read(y, i, 0, q, (size_t)v->n_bytes, NULL));
        assert_memory_equal(p, q, (size_t)v->n_bytes);
    }
    pg_store_close(x);
    pg_store_close(y);
}

static void writes_what_keras_writes(void **state)
{
    (void)state;
    convert(in("template_legacy.h5"), out("a.weights.h5"), in("template.json"));
    assert_same_file(out("a.weights.h5"), in("template.weights.h5"));
    convert(in("template.weights.h5"), out("a.h5"), in("template.json"));
    assert_same_file(out("a.h5"), in("template_legacy.h5"));
}

static void goes_through_safetensors_and_back(void **state)
{
    (void)state;
    convert(in("template_legacy.h5"), out("a.safetensors"), NULL);
    convert(out("a.safetensors"), out("a.h5"), NULL);
    assert_same_file(out("a.h5"), in("template_legacy.h5"));
    convert(out("a.safetensors"), out("a.weights.h5"), in("template.json"));
    assert_same_file(out("a.weights.h5"), in("template.weights.h5"));
}

static void needs_a_description_for_the_other_layout(void **state)
{
    (void)state;
    pg_err err = {0};
    char weights[512];
    (void)snprintf(weights, sizeof weights, "%s/golden/mlp_digits/init_weights.h5", pg_testdata);
    assert_fails(PG_E_MISMATCH, pg_convert_file(weights, out("b.weights.h5"), NULL, NULL, &err),
                 &err);
    assert_int_equal(err.action.what, PG_DO_GIVE_MODEL);
    assert_int_not_equal(access(out("b.weights.h5"), F_OK), 0);
}

/* A Sequential of an input of 4 x 4 x 2, a convolution and `rest`. */
static pg__flattened output_order(const char *rest)
{
    char text[1024];
    pg__graph *g = NULL;
    (void)snprintf(text, sizeof text,
                   "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"m\", \"layers\": ["
                   "{\"class_name\": \"InputLayer\", \"config\": {\"name\": \"i\", "
                   "\"batch_input_shape\": [null, 4, 4, 2]}},"
                   "{\"class_name\": \"Conv2D\", \"config\": {\"name\": \"c\", \"filters\": 3, "
                   "\"kernel_size\": [2, 2]}}%s]}}",
                   rest);
    assert_ok(pg__graph_parse(&g, text, strlen(text), NULL));
    const pg__flattened order = pg__torch_output_order(g, 0);
    pg__graph_free(g);
    return order;
}

#define LAYER(class, more) \
    ", {\"class_name\": \"" class "\", \"config\": {\"name\": \"" class "\"" more "}}"

static void knows_in_which_order_outputs_come(void **state)
{
    (void)state;
    assert_int_equal(output_order(""), PG_FLAT_SAME);
    assert_int_equal(output_order(LAYER("Flatten", "")), PG_FLAT_TURNED);
    assert_int_equal(output_order(LAYER("Flatten", "") LAYER("ReLU", "")), PG_FLAT_TURNED);
    assert_int_equal(output_order(LAYER("Flatten", "") LAYER("Dense", ", \"units\": 2")),
                     PG_FLAT_SAME);
    assert_int_equal(output_order(LAYER("Flatten", "") LAYER("RepeatVector", ", \"n\": 2")),
                     PG_FLAT_UNKNOWN);
}

PG_TEST_MAIN_WITH(
    make_folder, remove_folder, cmocka_unit_test(rounds_to_nearest_ties_to_even),
    cmocka_unit_test(reads_every_half_back), cmocka_unit_test(tells_what_rounding_costs),
    cmocka_unit_test(turns_a_kernel), cmocka_unit_test(puts_gates_side_by_side_and_in_order),
    cmocka_unit_test(takes_one_row), cmocka_unit_test(adds_what_lies_in_the_same_place),
    cmocka_unit_test(transposes_more_than_fits_a_window),
    cmocka_unit_test(knows_where_variables_lie), cmocka_unit_test(names_tensors_by_layer),
    cmocka_unit_test(numbers_names_that_occur_twice), cmocka_unit_test(writes_what_keras_writes),
    cmocka_unit_test(goes_through_safetensors_and_back),
    cmocka_unit_test(needs_a_description_for_the_other_layout),
    cmocka_unit_test(knows_in_which_order_outputs_come))
