#include "pg_test.h"
#include "wrap/judge/order.h"

/* The order inferred for a weights-only file, as "conv_1 dense_1", or "? why". */
static const char *order_in(char *buf, size_t n, const char *text, const char *writer,
                            const char *named)
{
    pg__verdict v = {0};
    pg__order o = {0};
    pg_err err = {0};
    size_t at = 0;
    pg_store *s = pg_test_store(text);
    if (writer)
        assert_ok(pg__store_set_writer(s, writer, NULL));
    assert_ok(pg__judge(&v, s, NULL));
    assert_true(v.layer != PG_NONE);
    const pg_status st = pg__order_infer(&o, &v, s, named != NULL, &err);
    if (st != PG_OK) {
        assert_int_equal(st, PG_E_AMBIGUOUS);
        snprintf(buf, n, "? %s", err.msg);
    }
    for (size_t i = 0; i < o.n; i++)
        if (at < n)
            at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? " " : "", o.groups[i].name);
    pg__order_fini(&o);
    pg__verdict_fini(&v);
    pg_store_close(s);
    return buf;
}

#define assert_order(want, text)                                                                \
    do {                                                                                        \
        char got_[600];                                                                         \
        assert_string_equal(order_in(got_, sizeof got_, text, "keras 2.2.4, tensorflow", NULL), \
                            want);                                                              \
    } while (0)

#define assert_open(because, text)                                          \
    do {                                                                    \
        char got_[600];                                                     \
        order_in(got_, sizeof got_, text, "keras 2.2.4, tensorflow", NULL); \
        if (got_[0] != '?' || !strstr(got_, because))                       \
            fail_msg("%s, wanted a refusal: %s", got_, because);            \
    } while (0)

#define CNN \
    "conv2d_1/kernel:0#3x3x1x4 conv2d_1/bias:0#4 conv2d_2/kernel:0#3x3x4x6 conv2d_2/bias:0#6 "

static void follows_a_plain_stack(void **state)
{
    (void)state;
    assert_order("conv2d_1 conv2d_2 dense_1 dense_2",
                 "input_1 lambda_1 lambda_2 model_1[" CNN
                 "dense_1/kernel:0#54x12 dense_1/bias:0#12 "
                 "dense_2/kernel:0#12x5 dense_2/bias:0#5] dense_2");
}

static void gives_statistics_back_to_their_layers(void **state)
{
    (void)state;
    assert_order(
        "conv2d_1 bn_1 conv2d_2 bn_2 dense_1",
        "input_1 lambda_1 lambda_2 model_1[conv2d_1/kernel:0#3x3x1x4 bn_1/gamma:0#4 bn_1/beta:0#4 "
        "conv2d_2/kernel:0#3x3x4x6 bn_2/beta:0#6 dense_1/kernel:0#6x5 dense_1/bias:0#5 "
        "bn_1/moving_mean:0#4 bn_1/moving_variance:0#4 bn_2/moving_mean:0#6 "
        "bn_2/moving_variance:0#6] dense_1");
}

static void needs_no_proof_for_one_layer(void **state)
{
    (void)state;
    assert_order("dense_1",
                 "input_3 lambda_1 lambda_2 model_7[dense_1/kernel:0 dense_1/bias:0] dense_1");
}

static void test_1_wants_names_of_keras_2(void **state)
{
    (void)state;
    pg__verdict v = {.layer = 3, .f.verdict = PG_V_WRAPPER};
    pg__order o = {0};
    pg_err err = {0};
    pg_store *s = pg_test_store(
        "input_1 lambda_1 lambda_2 model_1[dense_1_W:0 dense_1_b:0 dense_2_W:0] dense_2");
    assert_fails(PG_E_AMBIGUOUS, pg__order_infer(&o, &v, s, 0, &err), &err);
    assert_non_null(strstr(err.msg, "Keras 1"));
    pg_store_close(s);
}

static void test_2_wants_one_input_and_one_output(void **state)
{
    (void)state;
    assert_open("2 inputs",
                "a b lambda_1 lambda_2 lambda_3 lambda_4 model_1[d/kernel:0#4x4 e/kernel:0#4x2] e");
    assert_open("2 outputs", "a lambda_1 lambda_2 model_1[d/kernel:0#4x4 e/kernel:0#4x2] d e");
}

static void test_3_refuses_a_later_model_of_the_process(void **state)
{
    (void)state;
    char got[600];
    assert_open("not the first model",
                "input_1 lambda_1 lambda_2 model_2[d/kernel:0#4x4 e/kernel:0#4x2] e");
    assert_open("not the first input",
                "input_2 lambda_1 lambda_2 model_1[d/kernel:0#4x4 e/kernel:0#4x2] e");
    assert_open(
        "model inside",
        "sequential_1_input lambda_1 lambda_2 sequential_2x[d/kernel:0#4x4 e/kernel:0#4x2] e");
    assert_order("d e", "input_1 lambda_1 lambda_2 mine[d/kernel:0#4x4 e/kernel:0#4x2] e");
    order_in(got, sizeof got, "input_1 lambda lambda_1 model[d/kernel:0#4x4 e/kernel:0#4x2] e",
             "keras 2.2.4-tf, tensorflow", NULL);
    assert_string_equal(got, "d e");
    order_in(got, sizeof got, "input_1 lambda lambda_1 model_1[d/kernel:0#4x4 e/kernel:0#4x2] e",
             "keras 2.15.0, tensorflow", NULL);
    assert_int_equal(got[0], '?');
}

static void test_4_refuses_statistics_out_of_place(void **state)
{
    (void)state;
    assert_open(
        "frozen",
        "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 bn/gamma:0#4 b/kernel:0#4x2 bn/moving_mean:0#4 "
        "bn/moving_variance:0#4 c/kernel:0#2x2] b");
    assert_open("belongs to",
                "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 b/kernel:0#4x2 bn/moving_mean:0#4 "
                "bn/moving_variance:0#4] b");
    assert_open(
        "belongs to",
        "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 n/gamma:0#4 o/gamma:0#4 b/kernel:0#4x2 "
        "o/moving_mean:0#4 o/moving_variance:0#4 n/moving_mean:0#4 n/moving_variance:0#4] b");
    assert_open("one statistic", "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 n/gamma:0#4 "
                                 "b/kernel:0#4x2 n/moving_mean:0#4] b");
}

static void test_5_refuses_scattered_weights_and_parts(void **state)
{
    (void)state;
    assert_open(
        "stand together",
        "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 b/kernel:0#4x2 a/bias:0#4 b/bias:0#2] b");
    assert_open("larger layer",
                "input_1 lambda_1 lambda_2 m[mha/query/kernel:0#4x4 b/kernel:0#4x2] b");
}

static void test_6_refuses_a_tail_behind_the_output(void **state)
{
    (void)state;
    assert_open(
        "list ends with",
        "image lambda_1 lambda_2 vgg[fc1/kernel:0#96x10 fc1/bias:0#10 predictions/kernel:0#10x3 "
        "predictions/bias:0#3 block1_conv1/kernel:0#3x3x3x4 block1_conv1/bias:0#4] predictions");
}

static void test_7_refuses_falling_numbers(void **state)
{
    (void)state;
    assert_open(
        "higher number",
        "input_1 lambda_1 lambda_2 m[block2_conv1/kernel:0#3x3x4x4 block1_conv2/kernel:0#3x3x4x4 "
        "out/kernel:0#4x2] out");
    assert_open("higher number", "input_1 lambda_1 lambda_2 m[dense_2/kernel:0#4x4 "
                                 "dense_1/kernel:0#4x4 out/kernel:0#4x2] out");
}

static void test_8_refuses_what_does_not_chain(void **state)
{
    (void)state;
    assert_open("not a plain stack",
                "input_1 lambda_1 lambda_2 m[a/kernel:0#4x5 out/kernel:0#4x2] out");
    assert_open("not a plain stack",
                "input_1 lambda_1 lambda_2 m[a/kernel:0#4x5 a/strange:0#3 out/kernel:0#5x2] out");
    assert_open(
        "not a plain stack",
        "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 c/kernel:0#3x3x4x4 out/kernel:0#4x2] out");
    assert_open(
        "not a plain stack",
        "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 e/embeddings:0#9x4 out/kernel:0#4x2] out");
    assert_open("not a plain stack", "input_1 lambda_1 lambda_2 m[a/kernel:0#8 out/kernel:0#4x2] out");
}

static void test_9_refuses_a_second_possible_order(void **state)
{
    (void)state;
    /* b may be frozen and stand first: 4x4 and 4x4 fit either way. */
    assert_open("another order",
                "input_1 lambda_1 lambda_2 m[a/kernel:0#4x4 b/kernel:0#4x4 out/kernel:0#4x2 ] out");
    /* Numbers exclude it. */
    assert_order(
        "a_1 a_2 out",
        "input_1 lambda_1 lambda_2 m[a_1/kernel:0#4x4 a_2/kernel:0#4x4 out/kernel:0#4x2] out");
    /* Widths exclude it. */
    assert_order("a b out",
                 "input_1 lambda_1 lambda_2 m[a/kernel:0#4x5 b/kernel:0#5x6 out/kernel:0#6x2] out");
}

static void knows_the_layers_of_recurrent_models(void **state)
{
    (void)state;
    assert_order("bidirectional_1 time_distributed_1 gru_1 dense_2",
                 "input_1 lambda_1 lambda_2 model_1[bidirectional_1/forward_lstm_1/kernel:0#4x20 "
                 "bidirectional_1/forward_lstm_1/recurrent_kernel:0#5x20 "
                 "bidirectional_1/forward_lstm_1/bias:0#20 "
                 "bidirectional_1/backward_lstm_1/kernel:0#4x20 "
                 "bidirectional_1/backward_lstm_1/recurrent_kernel:0#5x20 "
                 "bidirectional_1/backward_lstm_1/bias:0#20 time_distributed_1/kernel:0#10x4 "
                 "time_distributed_1/bias:0#4 gru_1/gru_cell/kernel:0#4x18 "
                 "gru_1/gru_cell/recurrent_kernel:0#6x18 "
                 "gru_1/gru_cell/bias:0#2x18 dense_2/kernel:0#6x3 dense_2/bias:0#3] dense_2");
}

static void takes_the_suffix_of_a_relocated_template_off(void **state)
{
    (void)state;
    assert_order(
        "conv2d_1 conv2d_2 dense_1",
        "input_1 lambda_1 lambda_2 model_1[conv2d_1_1/kernel:0#3x3x1x4 conv2d_2_1/kernel:0#3x3x4x6 "
        "dense_1_1/kernel:0#54x5] dense_1");
}

static void believes_the_user_about_a_default_merge(void **state)
{
    (void)state;
    char got[600];
    const char *text = "input_1 lambda_1 lambda_2 model_1[dense_1/kernel:0#4x5 "
                       "dense_2/kernel:0#5x6] concatenate_1";
    order_in(got, sizeof got, text, NULL, NULL);
    assert_int_equal(got[0], '?');
    order_in(got, sizeof got, text, NULL, "model_1");
    assert_string_equal(got, "dense_1 dense_2");
}

static void takes_a_nested_model_by_numbers_only(void **state)
{
    (void)state;
    char got[600];
    order_in(got, sizeof got,
             "vgg16[block1_conv1/kernel:0#3x3x3x3 block1_conv1/bias:0#3 "
             "block2_conv1/kernel:0#3x3x3x4] flatten",
             NULL, "vgg16");
    assert_string_equal(got, "block1_conv1 block2_conv1");
    order_in(got, sizeof got, "m[conv2d_1/kernel:0#3x3x3x3 dense_1/kernel:0#3x3] flatten", NULL,
             "m");
    assert_int_equal(got[0], '?');
    order_in(got, sizeof got, "model_2[c_1/kernel:0#3x3 c_2/kernel:0#3x3] flatten", NULL,
             "model_2");
    assert_int_equal(got[0], '?');
}

/* ---- random plain stacks, with random layers frozen ---- */

typedef struct random_layer {
    char name[16], trainable[200], other[200];
} random_layer;

static unsigned dice(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % n;
}

/* A layer on top of a width: Conv2D until `dense`, BatchNormalization, Dense. */
static void roll_layer(random_layer *l, unsigned *seed, unsigned *width, int *flat, int *dense,
                       unsigned style, unsigned *counts)
{
    static const char *const kinds[] = {"conv2d", "dense", "batch_normalization"};
    const unsigned kind = dice(seed, 4) == 0 ? 2 : *dense || dice(seed, 3) == 0 ? 1 : 0;
    const unsigned out = 4 + dice(seed, 2),
                   in = kind == 1 && *flat && dice(seed, 2) ? *width * 9 : *width;
    char *t = l->trainable;
    const size_t n = sizeof l->trainable;
    counts[kind]++;
    if (style == 0)
        snprintf(l->name, sizeof l->name, "%.10s_%u", kinds[kind], counts[kind]);
    else if (style == 1)
        snprintf(l->name, sizeof l->name, "%c%c", 'a' + (int)dice(seed, 26),
                 'a' + (int)(counts[0] + counts[1] + counts[2]));
    else
        snprintf(l->name, sizeof l->name, "b%u_%c%u", 1 + (counts[0] + counts[1] + counts[2]) / 3,
                 "cdn"[kind], counts[kind]);
    l->other[0] = 0;
    if (kind == 2) {
        snprintf(t, n, "%s/gamma:0#%u %s/beta:0#%u ", l->name, *width, l->name, *width);
        snprintf(l->other, n, "%s/moving_mean:0#%u %s/moving_variance:0#%u ", l->name, *width,
                 l->name, *width);
        return;
    }
    if (kind == 0)
        snprintf(t, n, "%s/kernel:0#3x3x%ux%u %s/bias:0#%u ", l->name, in, out, l->name, out);
    else
        snprintf(t, n, "%s/kernel:0#%ux%u %s/bias:0#%u ", l->name, in, out, l->name, out);
    *flat = kind == 0;
    *dense |= kind == 1;
    *width = out;
}

static void never_follows_a_wrong_order(void **state)
{
    (void)state;
    unsigned seed = 7, written = 0;
    for (unsigned round = 0; round < 20000; round++) {
        random_layer l[8];
        unsigned width = 4, counts[3] = {0}, frozen = 0;
        int flat = 0, dense = 0;
        const unsigned n = 2 + dice(&seed, 6), style = dice(&seed, 3), often = dice(&seed, 3);
        char text[4096] = "", want[512] = "", got[600];
        for (unsigned i = 0; i < n; i++) {
            roll_layer(&l[i], &seed, &width, &flat, &dense, style, counts);
            if (often && dice(&seed, 1 + often * 2) == 0)
                frozen |= 1u << i;
            sprintf(want + strlen(want), "%s%s", i ? " " : "", l[i].name);
        }
        strcpy(text, "input_1 lambda_1 lambda_2 net[");
        for (unsigned i = 0; i < n; i++)
            strcat(text, frozen & (1u << i) ? "" : l[i].trainable);
        for (unsigned i = 0; i < n; i++) {
            strcat(text, frozen & (1u << i) ? l[i].trainable : "");
            strcat(text, l[i].other);
        }
        sprintf(text + strlen(text), "] %s", l[n - 1].name);
        order_in(got, sizeof got, text, NULL, NULL);
        if (got[0] == '?')
            continue;
        if (strcmp(got, want) != 0)
            fail_msg("%s: %s, not %s", text, got, want);
        written++;
    }
    assert_true(written > 1000);
}

static void copes_with_very_many_layers(void **state)
{
    (void)state;
    const size_t n = 20000;
    char *text = malloc(n * 40 + 100), got[64];
    size_t at = (size_t)sprintf(text, "input_1 lambda_1 lambda_2 model_1[");
    for (size_t i = 1; i <= n; i++)
        at += (size_t)sprintf(text + at, "dense_%zu/kernel:0#4x4 ", i);
    sprintf(text + at, "] dense_%zu", n);
    order_in(got, sizeof got, text, NULL, NULL);
    assert_memory_equal(got, "dense_1 dense_2 ", 16);
    free(text);
}

PG_TEST_MAIN(cmocka_unit_test(follows_a_plain_stack),
             cmocka_unit_test(gives_statistics_back_to_their_layers),
             cmocka_unit_test(needs_no_proof_for_one_layer),
             cmocka_unit_test(test_1_wants_names_of_keras_2),
             cmocka_unit_test(test_2_wants_one_input_and_one_output),
             cmocka_unit_test(test_3_refuses_a_later_model_of_the_process),
             cmocka_unit_test(test_4_refuses_statistics_out_of_place),
             cmocka_unit_test(test_5_refuses_scattered_weights_and_parts),
             cmocka_unit_test(test_6_refuses_a_tail_behind_the_output),
             cmocka_unit_test(test_7_refuses_falling_numbers),
             cmocka_unit_test(test_8_refuses_what_does_not_chain),
             cmocka_unit_test(test_9_refuses_a_second_possible_order),
             cmocka_unit_test(knows_the_layers_of_recurrent_models),
             cmocka_unit_test(takes_the_suffix_of_a_relocated_template_off),
             cmocka_unit_test(believes_the_user_about_a_default_merge),
             cmocka_unit_test(takes_a_nested_model_by_numbers_only),
             cmocka_unit_test(never_follows_a_wrong_order),
             cmocka_unit_test(copes_with_very_many_layers))
