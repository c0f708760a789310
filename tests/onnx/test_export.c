#include "pg_test.h"

#include <unistd.h>

#include "pg/onnx.h"

static char folder[32], weights[64], out[64];

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

/* Output 2 of layer "a" would be called as the other layer is. */
static const char called_twice[] =
    MODEL(LAYER("InputLayer", "i", ",\"batch_input_shape\":[null,2],\"dtype\":\"float32\"",
                "") "," LAYER("Activation", "a_2", ",\"activation\":\"relu\"",
                              FROM("i")) "," LAYER("Dense", "a", ",\"units\":2,\"use_bias\":false",
                                                   FROM("i") "," FROM("a_2")),
          "[\"a_2\",0,0],[\"a\",0,0],[\"a\",1,0]");

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
        pg_onnx_report_fini(&rep);
    }
    assert_int_equal(unlink(out), 0);
    const pg_onnx_opts old = {.dtype = "bfloat16", .opset = 21};
    assert_fails(PG_E_ARG, export(NULL, old, convolution, &err), &err);
    assert_non_null(strstr(err.msg, "opset 21"));
    assert_int_equal(access(out, F_OK), -1);
}

static void refuses_outputs_of_one_name(void **state)
{
    (void)state;
    pg_err err = {0};
    put_weights("{" TENSOR("a/kernel", "F32", "[2,2]", "0", "16") "}", ten, 16);
    assert_fails(PG_E_UNSUPPORTED, export(NULL, (pg_onnx_opts){0}, called_twice, &err), &err);
    assert_non_null(strstr(err.msg, "a_2"));
    assert_int_equal(access(out, F_OK), -1);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/pg-export-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(weights, sizeof weights, "%s/w.safetensors", folder);
    snprintf(out, sizeof out, "%s/m.onnx", folder);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(out);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(weights);
    return rmdir(folder);
}

PG_TEST_MAIN_WITH(make_folder, remove_folder,
                  cmocka_unit_test_teardown(folds_only_into_kernels_of_real_numbers, remove_file),
                  cmocka_unit_test_teardown(writes_bfloat16_for_operators_that_take_it,
                                            remove_file),
                  cmocka_unit_test_teardown(refuses_outputs_of_one_name, remove_file))
