#include "pg_test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "format/onnx.h"
#include "pg/onnx.h"

static char folder[32], weights[64], rows[64], out[64];

/* ---- models and their weights ---- */

#define LAYER(class, name, config, from)                                                           \
    "{\"class_name\":\"" class "\",\"name\":\"" name "\",\"config\":{\"name\":\"" name "\"" config \
                               "},\"inbound_nodes\":[" from "]}"
#define FROM(name) "[[\"" name "\",0,0,{}]]"
#define MODEL(layers, outputs)                                                           \
    "{\"class_name\":\"Model\",\"keras_version\":\"2.15.0\",\"config\":{\"name\":\"m\"," \
    "\"layers\":[" layers "],\"input_layers\":[[\"i\",0,0]],\"output_layers\":[" outputs "]}}"

static const char convolution[] = MODEL(
    LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,2,2,1],\"dtype\":\"float32\"",
          "") "," LAYER("Conv2D", "c", ",\"filters\":2,\"kernel_size\":[1,1],\"use_bias\":false",
                        FROM("i")) "," LAYER("BatchNormalization", "n",
                                             ",\"axis\":[3],\"epsilon\":0.001", FROM("c")),
    "[\"n\",0,0]");

#define STRIDED(cells)                                                                       \
    MODEL(LAYER("InputLayer", "i",                                                           \
                ",\"batch_input_shape\":[null,null,null,1],\"dtype\":\"float32\"",           \
                "") "," LAYER("Conv2D", "c",                                                 \
                              ",\"filters\":2,\"kernel_size\":[" cells "," cells             \
                              "],\"strides\":[4,4],\"padding\":\"same\",\"use_bias\":false", \
                              FROM("i")),                                                    \
          "[\"c\",0,0]")

static const char channels_first[] =
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,1,2,2],\"dtype\":\"float32\"",
                "") "," LAYER("Conv2D", "c",
                              ",\"filters\":2,\"kernel_size\":[1,1],\"use_bias\":false,"
                              "\"data_format\":\"channels_first\"",
                              FROM("i")),
          "[\"c\",0,0]");

static const char wide[] =
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,16],\"dtype\":\"float32\"",
                "") "," LAYER("Dense", "w", ",\"units\":32,\"use_bias\":false", FROM("i")),
          "[\"w\",0,0]");

static const char transposed[] = MODEL(
    LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,2,2,3],\"dtype\":\"float32\"",
          "") "," LAYER("Conv2DTranspose", "t", ",\"filters\":2,\"kernel_size\":[1,1]", FROM("i")),
    "[\"t\",0,0]");

/* Output 2 of layer "a" would be called as the other layer is. */
static const char called_twice[] =
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,2],\"dtype\":\"float32\"",
                "") "," LAYER("Activation", "a_2", ",\"activation\":\"relu\"",
                              FROM("i")) "," LAYER("Dense", "a", ",\"units\":2,\"use_bias\":false",
                                                   FROM("i") "," FROM("a_2")),
          "[\"a_2\",0,0],[\"a\",0,0],[\"a\",1,0]");

/* An input that is an output, too. */
static const char given_back[] =
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,2],\"dtype\":\"float32\"",
                "") "," LAYER("Dense", "i_1", ",\"units\":2,\"use_bias\":false", FROM("i")),
          "[\"i_1\",0,0],[\"i\",0,0]");

#define CONCATENATE(name, axis, from, other) \
    LAYER("Concatenate", name, ",\"axis\":" axis, "[[\"" from "\",0,0,{}],[\"" other "\",0,0,{}]]")
#define CONCATENATED(axis, outputs)                                                                        \
    MODEL(                                                                                                 \
        LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,4,4],\"dtype\":\"float32\"", "") "," LAYER( \
            "Dense", "w", ",\"units\":4,\"use_bias\":false",                                               \
            FROM(                                                                                          \
                "i")) "," CONCATENATE("a", "2", "i",                                                       \
                                      "w") "," CONCATENATE("b", "2", "w",                                  \
                                                           "i") "," CONCATENATE("c", axis, "a",            \
                                                                                "b") "," CONCATENATE("d",  \
                                                                                                     "2",  \
                                                                                                     "a",  \
                                                                                                     "a"), \
        outputs)

#define DENSE_LAYER(from) LAYER("Dense", "w", ",\"units\":2,\"use_bias\":false", FROM(from))

/* The Embedding and the Dense read the input plus 1000. */
static const char ids[] = MODEL(
    LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,2],\"dtype\":\"float32\"",
          "") "," LAYER("Rescaling", "r", ",\"scale\":1,\"offset\":1000",
                        FROM("i")) "," LAYER("Embedding", "e", ",\"input_dim\":2,\"output_dim\":2",
                                             FROM("r")) "," DENSE_LAYER("r"),
    "[\"e\",0,0],[\"w\",0,0]");

static const char masked[] =
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,3,2],\"dtype\":\"float32\"",
                "") "," LAYER("Masking", "m", ",\"mask_value\":-99999",
                              FROM("i")) "," LAYER("GlobalAveragePooling1D", "g", "",
                                                   FROM("m")) "," DENSE_LAYER("g"),
          "[\"w\",0,0]");

static const char categories[] = MODEL(
    LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,1],\"dtype\":\"int32\"",
          "") "," LAYER("CategoryEncoding", "c", ",\"num_tokens\":2,\"output_mode\":\"count\"",
                        FROM("i")) "," DENSE_LAYER("c"),
    "[\"w\",0,0]");

#define NORMALISED(n)                                                                                   \
    MODEL(                                                                                              \
        LAYER("InputLayer", "i", ",\"batch_input_shape\":[null," n "," n "]", "") "," LAYER(            \
            "LayerNormalization", "l", ",\"axis\":[1,2],\"center\":false,\"scale\":false",              \
            FROM(                                                                                       \
                "i")) "," LAYER("GlobalAveragePooling1D", "g", "",                                      \
                                FROM(                                                                   \
                                    "l")) "," LAYER("Reshape", "r", ",\"target_shape\":[-1,2]",         \
                                                    FROM(                                               \
                                                        "g")) "," LAYER("GlobalAveragePooling1D",       \
                                                                        "h", "",                        \
                                                                        FROM(                           \
                                                                            "r")) "," DENSE_LAYER("h"), \
        "[\"w\",0,0]")

#define RECURRENT(more)                                                                \
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,3,1]", "") "," LAYER( \
              "SimpleRNN", "s", ",\"units\":2,\"use_bias\":false" more, FROM("i")),    \
          "[\"s\",0,0]")
static const char stateful[] = RECURRENT(",\"stateful\":true");
static const char time_major[] = RECURRENT(",\"time_major\":true,\"return_sequences\":true");

/* How many steps there are is open; a convolution needs 40 of them. */
static const char long_kernel[] =
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,null,2]", "") "," LAYER(
              "Conv1D", "c", ",\"filters\":1,\"kernel_size\":[40],\"use_bias\":false",
              FROM("i")) "," LAYER("GlobalAveragePooling1D", "g", "", FROM("c")),
          "[\"g\",0,0]");

/* 300. */
static const char long_window[] = MODEL(
    LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,null,300]", "") "," LAYER(
        "AveragePooling1D", "p", ",\"pool_size\":[300]",
        FROM("i")) "," LAYER("GlobalAveragePooling1D", "g", "", FROM("p")) "," DENSE_LAYER("g"),
    "[\"w\",0,0]");
static const char resized[] = MODEL(
    LAYER(
        "InputLayer", "i", ",\"batch_input_shape\":[null,null,null,3],\"dtype\":\"float32\"",
        "") "," LAYER("Resizing", "r", ",\"height\":4,\"width\":4,\"interpolation\":\"bilinear\"",
                      FROM(
                          "i")) "," LAYER("Conv2D", "c",
                                          ",\"filters\":1,\"kernel_size\":[1,1],\"use_bias\":false",
                                          FROM("r")),
    "[\"c\",0,0]");

#define SLICE(from, to) "{\"start\":" from ",\"stop\":" to ",\"step\":null}"
#define STEPS(item)                                                                              \
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,null,2],\"dtype\":\"float32\"", \
                "") "," LAYER("Dense", "a", ",\"units\":2,\"use_bias\":false",                   \
                              FROM("i")) ","                                                     \
                                         "{\"class_name\":\"SlicingOpLambda\",\"name\":\"s\","   \
                                         "\"config\":{\"name\":\"s\","                           \
                                         "\"function\":\"__operators__.getitem\"},\"inbound_"    \
                                         "nodes\":[[\"a\",0,0,"                                  \
                                         "{\"slice_spec\":[" SLICE("null", "null") "," item      \
                                                                                   "]}]]}",      \
          "[\"s\",0,0]")

/* A file of safetensors: this header, and as many bytes of data. */
static void put_weights(const char *header, const void *data, size_t n)
{
    const uint64_t size = strlen(header);
    unsigned char length[8];
    FILE *f = fopen(weights, "wb");
    assert_non_null(f);
    for (size_t k = 0; k < sizeof length; k++)
        length[k] = (unsigned char)(size >> 8 * k);
    assert_int_equal(fwrite(length, 1, sizeof length, f), sizeof length);
    assert_int_equal(fwrite(header, 1, size, f), size);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

#define TENSOR(name, type, shape, from, to) \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
#define CONVOLUTION(type)                                                                     \
    "{" TENSOR("c/kernel", type, "[1,1,1,2]", "0", "8") "," TENSOR(                           \
        "n/gamma", "F32", "[2]", "8",                                                         \
        "16") "," TENSOR("n/beta", "F32", "[2]", "16",                                        \
                         "24") "," TENSOR("n/moving_mean", "F32", "[2]", "24",                \
                                          "32") "," TENSOR("n/moving_variance", "F32", "[2]", \
                                                           "32", "40") "}"

#define DENSE(from, to) TENSOR("w/kernel", "F32", "[2,2]", from, to)

static const float ten[] = {3, -2, 1, 2, 0.5F, 0, 0, 1, 4, 9};

static pg_status export(pg_onnx_report *rep, pg_onnx_opts o, const char *model, pg_err *err)
{
    o.model = "the model";
    o.model_text = model;
    o.write.force = 1;
    return pg_onnx_file(weights, out, &o, rep, err);
}

/* ---- */

static void folds_only_into_kernels_of_real_numbers(void **state)
{
    (void)state;
    static const int32_t whole[10] = {3, -2, 1, 1, 0, 0, 1, 1, 1, 1};
    static const char *const headers[] = {CONVOLUTION("F32"), CONVOLUTION("I32")};
    for (size_t k = 0; k < 2; k++) {
        pg_onnx_report rep = {0};
        put_weights(headers[k], k ? (const void *)whole : ten, sizeof ten);
        assert_ok(export(&rep, (pg_onnx_opts){.fold_bn = 1}, convolution, NULL));
        assert_int_equal(rep.n_inits, k ? 5 : 2);
        assert_int_equal(rep.n_verified, rep.n_inits);
        pg_onnx_report_fini(&rep);
    }
}

/* Convolutions, among others, take bfloat16 from operator set 22 on. */
static void writes_bfloat16_for_operators_that_take_it(void **state)
{
    (void)state;
    static const int opsets[] = {0, 22, 24};
    pg_err err = {0};
    put_weights(CONVOLUTION("F32"), ten, sizeof ten);
    for (size_t k = 0; k < sizeof opsets / sizeof *opsets; k++) {
        pg_onnx_report rep = {0};
        const pg_onnx_opts o = {.dtype = "bfloat16", .opset = opsets[k]};
        assert_ok(export(&rep, o, convolution, NULL));
        assert_int_equal(rep.opset, opsets[k] ? opsets[k] : 22);
        assert_int_equal(rep.n_notes, 1);
        assert_non_null(strstr(rep.notes[0], "ONNX Runtime lacks most operators of bfloat16"));
        pg_onnx_report_fini(&rep);
    }
    assert_int_equal(unlink(out), 0);
    const pg_onnx_opts old = {.dtype = "bfloat16", .opset = 21};
    assert_fails(PG_E_ARG, export(NULL, old, convolution, &err), &err);
    assert_non_null(strstr(err.msg, "opset 21"));
    assert_int_equal(access(out, F_OK), -1);
}

/* Of the initialisers that were written: is one of float32 that ends with a number? How many are of
 * a type? */
static size_t look_for(float number, pg_dtype type, size_t *n_of)
{
    pg_store *s = NULL;
    size_t found = 0;
    *n_of = 0;
    assert_ok(pg_store_open(&s, out, NULL, NULL));
    for (size_t k = 0; k < pg_store_n_weights(s); k++) {
        const pg_weight *w = pg_store_weight(s, k);
        const uint64_t n = w->rank ? w->dims[0] : 1;
        float last = 0;
        *n_of += w->dtype == type;
        if (w->dtype != PG_F32)
            continue;
        assert_ok(pg_store_read(s, k, (n - 1) * sizeof last, &last, sizeof last, NULL));
        found += last == number;
    }
    pg_store_close(s);
    return found;
}

static int byte_of_output(long at)
{
    FILE *f = fopen(out, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fclose(f), 0);
    return byte;
}

/* As onnx/helper.py pairs them. */
static void the_format_is_as_old_as_the_operators(void **state)
{
    (void)state;
    static const int irs[] = {7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12};
    put_weights(CONVOLUTION("F32"), ten, sizeof ten);
    for (int k = 0; k < 12; k++) {
        assert_ok(export(NULL, (pg_onnx_opts){.opset = 13 + k}, convolution, NULL));
        assert_int_equal(byte_of_output(0), PG_ONNX_IR_VERSION << 3);
        assert_int_equal(byte_of_output(1), irs[k]);
    }
}

/* float16 lacks -99999, and most whole numbers above 2048. The Dense is of that type. */
static void ids_and_masks_are_made_of_float32(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        float number;
    } cases[] = {{ids, 1000}, {masked, -99999}, {categories, 1}};
    static const float numbers[8] = {0.5F, 2, 3, 4, 5, 6, 7, 8};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        put_weights(cases[k].model == ids ? "{" TENSOR("e/embeddings", "F32", "[2,2]", "0",
                                                       "16") "," DENSE("16", "32") "}"
                                          : "{" DENSE("0", "16") "}",
                    numbers, cases[k].model == ids ? 32 : 16);
        for (size_t half = 0; half < 2; half++) {
            size_t n = 0;
            const pg_onnx_opts o = {.dtype = half ? "float16" : "bfloat16"};
            assert_ok(export(NULL, o, cases[k].model, NULL));
            assert_int_equal(look_for(cases[k].number, half ? PG_F16 : PG_BF16, &n), 1);
            assert_true(n > 0);
        }
    }
}

static void put_recurrent_weights(void)
{
    put_weights("{" TENSOR("s/simple_rnn_cell/kernel", "F32", "[1,2]", "0", "8") "," TENSOR(
                    "s/simple_rnn_cell/recurrent_kernel", "F32", "[2,2]", "8", "24") "}",
                ten, 24);
}

/* The input's shape is what a model says, not what its file holds. */
static void constants_are_no_larger_than_the_file_justifies(void **state)
{
    (void)state;
    static const char *const models[] = {NORMALISED("100"), NORMALISED("400")};
    pg_err err = {0};
    put_weights("{" DENSE("0", "16") "}", ten, 16);
    for (size_t k = 0; k < 2; k++) {
        pg_onnx_report rep = {0};
        assert_ok(export(&rep, (pg_onnx_opts){.opset = 17}, models[k], NULL));
        assert_int_equal(rep.n_bytes > 4 * 100 * 100, k == 0);
        pg_onnx_report_fini(&rep);
    }
    put_recurrent_weights();
    assert_ok(export(NULL, (pg_onnx_opts){.batch = 100}, stateful, NULL));
    assert_fails(PG_E_LIMIT, export(NULL, (pg_onnx_opts){.batch = 1 << 28}, stateful, &err), &err);
    assert_non_null(strstr(err.msg, "s: has a state of"));
}

/* How often a name, or other text, is in the file. */
static size_t count_text(const char *text)
{
    static char bytes[4096];
    FILE *f = fopen(out, "rb");
    size_t n, found = 0;
    assert_non_null(f);
    n = fread(bytes, 1, sizeof bytes, f);
    assert_in_range(n, 1, sizeof bytes - 1);
    assert_int_equal(fclose(f), 0);
    for (size_t k = 0; k + strlen(text) <= n; k++)
        found += memcmp(bytes + k, text, strlen(text)) == 0;
    return found;
}

static void outputs_of_one_name_get_numbers(void **state)
{
    (void)state;
    put_weights("{" TENSOR("a/kernel", "F32", "[2,2]", "0", "16") "}", ten, 16);
    assert_ok(export(NULL, (pg_onnx_opts){0}, called_twice, NULL));
    assert_int_equal(count_text("\x0a\x03"
                                "a_3\x12"),
                     1); /* a_2 is the other layer's */
    put_weights("{" TENSOR("i_1/kernel", "F32", "[2,2]", "0", "16") "}", ten, 16);
    assert_ok(export(NULL, (pg_onnx_opts){0}, given_back, NULL));
    assert_int_equal(count_text("\x0a\x03"
                                "i_1\x12"),
                     1);
    assert_int_equal(count_text("\x0a\x03"
                                "i_2\x12"),
                     1);
}

/* The class token of a transformer, for example: the first of any number. */
static void cuts_axes_whose_size_is_open(void **state)
{
    (void)state;
    static const char *const can[] = {STEPS("0"),
                                      STEPS("-1"),
                                      STEPS(SLICE("1", "null")),
                                      STEPS(SLICE("null", "2")),
                                      STEPS(SLICE("-2", "null")),
                                      STEPS(SLICE("1", "-1"))};
    static const char *const cannot[] = {STEPS(SLICE("-1", "2")), STEPS(SLICE("3", "3")),
                                         STEPS(SLICE("null", "0")), STEPS("2147483647"),
                                         STEPS(SLICE("-1", "-9223372036854775807"))};
    pg_err err = {0};
    put_weights("{" TENSOR("a/kernel", "F32", "[2,2]", "0", "16") "}", ten, 16);
    for (size_t k = 0; k < sizeof cannot / sizeof *cannot; k++) {
        assert_fails(PG_E_UNSUPPORTED, export(NULL, (pg_onnx_opts){0}, cannot[k], &err), &err);
        assert_non_null(strstr(err.msg, "s: "));
        assert_int_equal(access(out, F_OK), -1);
    }
    for (size_t k = 0; k < sizeof can / sizeof *can; k++) {
        pg_onnx_report rep = {0};
        assert_ok(export(&rep, (pg_onnx_opts){0}, can[k], NULL));
        assert_true(count_text("Slice") > 0);
        assert_int_equal(rep.n_nodes, k < 2 ? 3 : 2); /* with a Reshape */
        pg_onnx_report_fini(&rep);
    }
}

static void says_that_sizes_would_help(void **state)
{
    (void)state;
    pg_err err = {0};
    put_weights("{" TENSOR("c/kernel", "F32", "[1,1,3,1]", "0", "12") "}", ten, 12);
    assert_fails(PG_E_UNSUPPORTED, export(NULL, (pg_onnx_opts){0}, resized, &err), &err);
    assert_non_null(strstr(err.msg, "r: input (None, None, None, 3)"));
    assert_int_equal(err.action.what, PG_DO_GIVE);
    assert_string_equal(pg_action_get(&err.action, "sizes"), "N,...");
    assert_ok(export(NULL, (pg_onnx_opts){.sizes = "5,6"}, resized, NULL));
}

static void refuses_to_turn_what_has_channels_first(void **state)
{
    (void)state;
    pg_err err = {0};
    put_weights("{" TENSOR("c/kernel", "F32", "[1,1,1,2]", "0", "8") "}", ten, 8);
    assert_ok(export(NULL, (pg_onnx_opts){0}, channels_first, NULL));
    assert_int_equal(unlink(out), 0);
    const pg_onnx_opts o = {.channels_first = 1};
    assert_fails(PG_E_UNSUPPORTED, export(NULL, o, channels_first, &err), &err);
    assert_non_null(strstr(err.msg, "c: has channels first already"));
    assert_int_equal(access(out, F_OK), -1);
}

/* Three cells of every four: the padding depends on the size. Of two cells it does not. */
static void refuses_padding_that_depends_on_an_open_size(void **state)
{
    (void)state;
    static const float numbers[18] = {1, 2, 3};
    pg_err err = {0};
    put_weights("{" TENSOR("c/kernel", "F32", "[2,2,1,2]", "0", "32") "}", numbers, 32);
    assert_ok(export(NULL, (pg_onnx_opts){0}, STRIDED("2"), NULL));
    assert_int_equal(unlink(out), 0);
    put_weights("{" TENSOR("c/kernel", "F32", "[3,3,1,2]", "0", "72") "}", numbers, 72);
    assert_fails(PG_E_UNSUPPORTED, export(NULL, (pg_onnx_opts){0}, STRIDED("3"), &err), &err);
    assert_non_null(strstr(err.msg, "c: pads by a size"));
    assert_int_equal(err.action.what, PG_DO_GIVE);
    assert_int_equal(access(out, F_OK), -1);
}

/* No Add behind it: only Transpose, ConvTranspose, Transpose. */
static void transposed_convolutions_take_their_bias(void **state)
{
    (void)state;
    static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    pg_onnx_report rep = {0};
    put_weights("{" TENSOR("t/kernel", "F32", "[1,1,2,3]", "0",
                           "24") "," TENSOR("t/bias", "F32", "[2]", "24", "32") "}",
                numbers, sizeof numbers);
    assert_ok(export(&rep, (pg_onnx_opts){0}, transposed, NULL));
    assert_int_equal(rep.n_nodes, 3);
    assert_int_equal(rep.n_inits, 2);
    pg_onnx_report_fini(&rep);
}

/* Only one that nobody else reads is taken into another. */
static void concatenations_in_a_row_are_one(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        size_t n_nodes;
    } cases[] = {
        {CONCATENATED("2", "[\"c\",0,0]"), 2}, /* MatMul, Concat */
        {CONCATENATED("1", "[\"c\",0,0]"), 4},
        {CONCATENATED("2", "[\"d\",0,0]"), 3}, /* reads it twice */
        {CONCATENATED("2", "[\"a\",0,0],[\"c\",0,0]"), 3},
    };
    static const float numbers[16] = {1, 2, 3};
    put_weights("{" TENSOR("w/kernel", "F32", "[4,4]", "0", "64") "}", numbers, sizeof numbers);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        pg_onnx_report rep = {0};
        assert_ok(export(&rep, (pg_onnx_opts){0}, cases[k].model, NULL));
        assert_int_equal(rep.n_nodes, cases[k].n_nodes);
        pg_onnx_report_fini(&rep);
    }
}

/* ---- what lies beside a model ---- */

static float kernel[16][32];

static void put_wide_weights(void)
{
    for (size_t k = 0; k < 16 * 32; k++)
        kernel[k / 32][k % 32] = (float)sin((double)k) * (float)(1 + k % 32);
    put_weights("{" TENSOR("w/kernel", "F32", "[16,32]", "0", "2048") "}", kernel, sizeof kernel);
}

static int is_there(const char *suffix)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", out, suffix);
    return access(path, F_OK) == 0;
}

static pg_status declines(void *user, const char *path, pg_err *err)
{
    (void)path;
    *(int *)user = is_there(".data") + 2 * is_there(".test") + 4 * is_there(".data-2");
    return pg_fail(err, PG_E_UNSUPPORTED, "not as wanted");
}

static void large_models_keep_tensors_beside(void **state)
{
    (void)state;
    static const uint64_t above[] = {0, 1 << 20, 2048, 1};
    put_wide_weights();
    for (size_t k = 0; k < sizeof above / sizeof *above; k++) {
        pg_onnx_report rep = {0};
        pg_store *s = NULL;
        float got[16][32];
        const int beside = above[k] > 0 && above[k] <= 2048;
        assert_ok(export(&rep, (pg_onnx_opts){.external_above = above[k]}, wide, NULL));
        assert_int_equal(rep.data_file != NULL, beside);
        assert_int_equal(rep.data_bytes, beside ? 2048 : 0);
        assert_int_equal(rep.file_bytes > 2048, !beside);
        assert_ok(pg_store_open(&s, out, NULL, NULL));
        assert_int_equal(pg_store_n_weights(s), 1);
        assert_ok(pg_store_read(s, 0, 0, got, sizeof got, NULL));
        assert_memory_equal(got, kernel, sizeof got);
        pg_store_close(s);
        pg_onnx_report_fini(&rep);
    }
    assert_int_equal(is_there(".data") + is_there(".data-2"), 1);
}

static void put_foreign(const char *suffix)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", out, suffix);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite("of another", 1, 10, f), 10);
    assert_int_equal(fclose(f), 0);
}

static int is_foreign(const char *suffix)
{
    char path[128], got[16] = "";
    snprintf(path, sizeof path, "%s%s", out, suffix);
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(got, 1, sizeof got, f) : 0;
    if (f)
        fclose(f);
    return n == 10 && memcmp(got, "of another", n) == 0;
}

static void leaves_data_that_the_model_did_not_name(void **state)
{
    (void)state;
    const pg_onnx_opts outside = {.external_above = 1};
    put_wide_weights();
    assert_ok(export(NULL, (pg_onnx_opts){0}, wide, NULL));
    put_foreign(".data");
    assert_ok(export(NULL, outside, wide, NULL));
    assert_true(is_foreign(".data") && is_there(".data-2"));
    assert_ok(export(NULL, (pg_onnx_opts){0}, wide, NULL)); /* needs none any more */
    assert_true(is_foreign(".data") && !is_there(".data-2"));
}

static void leaves_data_of_a_renamed_model(void **state)
{
    (void)state;
    pg_onnx_opts o = {.external_above = 1};
    char renamed[64];
    int seen = 0;
    pg_err err = {0};
    snprintf(renamed, sizeof renamed, "%s/renamed.onnx", folder);
    put_wide_weights();
    assert_ok(export(NULL, o, wide, NULL));
    assert_int_equal(rename(out, renamed), 0);
    put_foreign(".data");
    o.write.prove = declines;
    o.write.user = &seen;
    assert_int_equal(export(NULL, o, wide, NULL), PG_E_UNSUPPORTED);
    assert_int_equal(seen, 5);
    assert_true(is_foreign(".data") && !is_there(".data-2"));
    o.write.prove = NULL;
    for (size_t k = 0; k < 2; k++) { /* the second time both are needed */
        assert_int_equal(export(NULL, o, wide, &err), k ? PG_E_ARG : PG_OK);
        assert_true(is_foreign(".data") && is_there(".data-2"));
    }
    assert_non_null(strstr(err.msg, "models need them"));
    assert_int_equal(unlink(renamed), 0);
    assert_ok(export(NULL, o, wide, NULL));
    assert_true(!is_foreign(".data") && is_there(".data") && !is_there(".data-2"));
}

static void all_files_of_a_model_or_none(void **state)
{
    (void)state;
    pg_onnx_opts o = {.external_above = 1, .check = rows};
    int seen = 0;
    put_wide_weights();
    o.write.prove = declines;
    o.write.user = &seen;
    assert_int_equal(export(NULL, o, wide, NULL), PG_E_UNSUPPORTED);
    assert_int_equal(seen, 3); /* named before the model, and gone with it */
    assert_false(is_there(""));
    assert_false(is_there(".data") || is_there(".test"));
    o.write.prove = NULL;
    assert_ok(export(NULL, o, wide, NULL));
    assert_true(is_there("") && is_there(".data") && is_there(".test/test_data_set_0/input_0.pb"));
    assert_true(is_there(".test/test_data_set_0/output_0.pb"));
    o.write.prove = declines;
    assert_int_equal(export(NULL, o, wide, NULL), PG_E_UNSUPPORTED);
    assert_int_equal(seen, 7);
    assert_true(is_there("") && is_there(".data") && is_there(".test/test_data_set_0/input_0.pb"));
    assert_false(is_there(".data-2"));
    o.write.prove = NULL;
    assert_ok(export(NULL, o, wide, NULL));
    assert_true(is_there(".data-2") && !is_there(".data"));
}

/* Every number is the nearest multiple of its channel's step, whose largest number is 127. */
static void quantizes_each_channel_in_its_own_steps(void **state)
{
    (void)state;
    pg_onnx_report rep = {0};
    pg_store *s = NULL;
    int8_t q[16][32];
    float step[32];
    put_wide_weights();
    assert_ok(export(&rep, (pg_onnx_opts){.quantize = "int8"}, wide, NULL));
    assert_int_equal(rep.n_quantized, 1);
    assert_int_equal(rep.n_rows, 16);
    assert_true(rep.max_change > 0 && rep.max_change < 0.02 * rep.max_given);
    assert_ok(pg_store_open(&s, out, NULL, NULL));
    assert_string_equal(pg_store_weight(s, 0)->name, "w/kernel_quantized");
    assert_string_equal(pg_store_weight(s, 1)->name, "w/kernel_scale");
    assert_ok(pg_store_read(s, 0, 0, q, sizeof q, NULL));
    assert_ok(pg_store_read(s, 1, 0, step, sizeof step, NULL));
    for (size_t c = 0; c < 32; c++) {
        int most = 0;
        for (size_t r = 0; r < 16; r++) {
            most = abs(q[r][c]) > most ? abs(q[r][c]) : most;
            assert_true(fabsf(kernel[r][c] - q[r][c] * step[c]) <= 0.5001f * step[c]);
        }
        assert_int_equal(most, 127);
    }
    pg_store_close(s);
    pg_onnx_report_fini(&rep);
}

/* Where the model leaves a size open, rows are made up with one that it takes. */
static void quantizes_models_of_open_sizes(void **state)
{
    (void)state;
    static const pg_onnx_opts int8 = {.quantize = "int8"};
    pg_onnx_report rep = {0};
    pg_err err = {0};
    put_wide_weights();
    put_weights("{" TENSOR("c/kernel", "F32", "[40,2,1]", "0", "320") "}", kernel, 320);
    assert_ok(export(&rep, int8, long_kernel, NULL));
    assert_int_equal(rep.n_quantized, 1);
    assert_int_equal(rep.n_rows, 16);
    pg_onnx_report_fini(&rep);
    static const float zeros[600] = {0};
    put_weights("{" TENSOR("w/kernel", "F32", "[300,2]", "0", "2400") "}", zeros, sizeof zeros);
    assert_fails(PG_E_MISMATCH, export(NULL, int8, long_window, &err), &err);
    assert_non_null(strstr(err.msg, "rows made up"));
    assert_int_equal(err.action.what, PG_DO_GIVE);
}

/* Rows of a batch are predicted apart; there they are steps. */
static void predicts_no_steps_that_come_before_rows(void **state)
{
    (void)state;
    static const pg_onnx_opts predicting[] = {{.check = rows}, {.quantize = "int8"}};
    put_recurrent_weights();
    assert_ok(export(NULL, (pg_onnx_opts){0}, time_major, NULL));
    for (size_t k = 0; k < 2; k++) {
        pg_err err = {0};
        assert_fails(PG_E_UNSUPPORTED, export(NULL, predicting[k], time_major, &err), &err);
        assert_non_null(strstr(err.msg, "s: has steps before rows"));
    }
}

static void refuses_to_quantize_infinities(void **state)
{
    (void)state;
    pg_err err = {0};
    put_wide_weights();
    kernel[3][4] = INFINITY;
    put_weights("{" TENSOR("w/kernel", "F32", "[16,32]", "0", "2048") "}", kernel, sizeof kernel);
    assert_fails(PG_E_UNSUPPORTED, export(NULL, (pg_onnx_opts){.quantize = "int8"}, wide, &err),
                 &err);
    assert_non_null(strstr(err.msg, "w/kernel"));
}

/* An .npy of 3 rows. */
static void put_rows(void)
{
    char head[128];
    float x[3][16];
    FILE *f = fopen(rows, "wb");
    assert_non_null(f);
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 16), }";
    memcpy(head + 10, dict, sizeof dict - 1);
    head[sizeof head - 1] = '\n';
    for (size_t k = 0; k < 3 * 16; k++)
        x[k / 16][k % 16] = (float)k / 48;
    assert_int_equal(fwrite(head, 1, sizeof head, f), sizeof head);
    assert_int_equal(fwrite(x, 1, sizeof x, f), sizeof x);
    assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/pg-export-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(weights, sizeof weights, "%s/w.safetensors", folder);
    snprintf(out, sizeof out, "%s/m.onnx", folder);
    snprintf(rows, sizeof rows, "%s/x.npy", folder);
    put_rows();
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    char path[128];
    static const char *const beside[] = {"", ".data", ".data-2", ".test/test_data_set_0/input_0.pb",
                                         ".test/test_data_set_0/output_0.pb"};
    for (size_t k = 0; k < sizeof beside / sizeof *beside; k++) {
        snprintf(path, sizeof path, "%s%s", out, beside[k]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s.test/test_data_set_0", out);
    rmdir(path);
    snprintf(path, sizeof path, "%s.test", out);
    rmdir(path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(weights);
    unlink(rows);
    return rmdir(folder);
}

PG_TEST_MAIN_WITH(
    make_folder, remove_folder,
    cmocka_unit_test_teardown(folds_only_into_kernels_of_real_numbers, remove_file),
    cmocka_unit_test_teardown(writes_bfloat16_for_operators_that_take_it, remove_file),
    cmocka_unit_test_teardown(the_format_is_as_old_as_the_operators, remove_file),
    cmocka_unit_test_teardown(ids_and_masks_are_made_of_float32, remove_file),
    cmocka_unit_test_teardown(constants_are_no_larger_than_the_file_justifies, remove_file),
    cmocka_unit_test_teardown(outputs_of_one_name_get_numbers, remove_file),
    cmocka_unit_test_teardown(cuts_axes_whose_size_is_open, remove_file),
    cmocka_unit_test_teardown(says_that_sizes_would_help, remove_file),
    cmocka_unit_test_teardown(refuses_to_turn_what_has_channels_first, remove_file),
    cmocka_unit_test_teardown(refuses_padding_that_depends_on_an_open_size, remove_file),
    cmocka_unit_test_teardown(transposed_convolutions_take_their_bias, remove_file),
    cmocka_unit_test_teardown(concatenations_in_a_row_are_one, remove_file),
    cmocka_unit_test_teardown(large_models_keep_tensors_beside, remove_file),
    cmocka_unit_test_teardown(leaves_data_that_the_model_did_not_name, remove_file),
    cmocka_unit_test_teardown(leaves_data_of_a_renamed_model, remove_file),
    cmocka_unit_test_teardown(all_files_of_a_model_or_none, remove_file),
    cmocka_unit_test_teardown(quantizes_each_channel_in_its_own_steps, remove_file),
    cmocka_unit_test_teardown(quantizes_models_of_open_sizes, remove_file),
    cmocka_unit_test_teardown(predicts_no_steps_that_come_before_rows, remove_file),
    cmocka_unit_test_teardown(refuses_to_quantize_infinities, remove_file))
