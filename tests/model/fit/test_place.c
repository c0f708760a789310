#include "model/match_test.h"

#define SEQ(layers) \
    "{\"class_name\":\"Sequential\",\"config\":{\"name\":\"s\",\"layers\":[" layers "]}}"
#define ITEM(cls, cfg)     "{\"class_name\":\"" cls "\",\"config\":{" cfg "}}"
#define DENSE(name, units) ITEM("Dense", "\"name\":\"" name "\",\"units\":" #units)
#define FROZEN(name, units) \
    ITEM("Dense", "\"name\":\"" name "\",\"trainable\":false,\"units\":" #units)
#define BN(name) ITEM("BatchNormalization", "\"name\":\"" name "\",\"axis\":-1")
#define SUB(name, layers) \
    "{\"class_name\":\"Sequential\",\"config\":{\"name\":\"" name "\",\"layers\":[" layers "]}}"

/* Places the weights into the model and says how, and for every weight where: "name: d1.kernel
 * d1.bias". On failure the message and the details. */
static const char *place(const char *model, const char *weights)
{
    static char got[4096];
    static const char *const how[] = {"name", "suffix", "tail", "flat", "order"};
    char text[4096];
    pg_err err = {0};
    pg__placing p = {0};
    template_ t = template_of(model);
    snprintf(text, sizeof text, "w[%s]", weights);
    pg_store *s = pg_test_store(text);
    flat f = flat_of(s);
    const pg_status st = pg__place(&p, &t.leaves, f.v, f.n, &err);
    if (st == PG_OK) {
        size_t at = (size_t)snprintf(got, sizeof got, "%s:", how[p.how]);
        for (size_t i = 0; i < p.n; i++) {
            const pg__leaf *l = &t.leaves.v[p.leaf[i]];
            const char *var = p.var[i] < l->vars.n ? l->vars.v[p.var[i]].name : "?";
            at += (size_t)snprintf(got + at, sizeof got - at, " %s.%s", l->layer->name, var);
        }
    } else {
        assert_int_equal(st, PG_E_MISMATCH);
        assert_int_equal(err.code, st);
        snprintf(got, sizeof got, "%s\n%s", err.msg, err.detail);
    }
    pg__placing_fini(&p);
    free(f.v);
    pg_store_close(s);
    template_free(&t);
    return got;
}

static void trainable_weights_come_first(void **state)
{
    (void)state;
    const char *m = SEQ(DENSE("d1", 4) "," BN("b") "," FROZEN("f", 4) "," DENSE("out", 2));
    assert_string_equal(place(m, "d1/kernel:0#3x4 d1/bias:0#4 b/gamma:0#4 b/beta:0#4 "
                                 "out/kernel:0#4x2 out/bias:0#2 b/moving_mean:0#4 "
                                 "b/moving_variance:0#4 f/kernel:0#4x4 f/bias:0#4"),
                        "name: d1.kernel d1.bias b.gamma b.beta out.kernel out.bias b.moving_mean "
                        "b.moving_variance f.kernel f.bias");
}

static void layers_frozen_after_the_description_are_found_by_name(void **state)
{
    (void)state;
    assert_string_equal(place(SEQ(DENSE("a", 3) "," DENSE("b", 3)),
                              "b/kernel:0#3x3 b/bias:0#3 a/kernel:0#3x3 a/bias:0#3"),
                        "name: b.kernel b.bias a.kernel a.bias");
}

static void the_layers_may_turn_back_only_once(void **state)
{
    (void)state;
    const char *got = place(SEQ(DENSE("a", 3) "," DENSE("b", 3) "," DENSE("c", 3)),
                            "c/kernel:0#3x3 c/bias:0#3 b/kernel:0#3x3 b/bias:0#3 a/kernel:0#3x3 "
                            "a/bias:0#3");
    assert_non_null(strstr(got, "order:   "));
}

#define NORMALIZATION(name) ITEM("Normalization", "\"name\":\"" name "\",\"axis\":[-1]")

static void names_without_a_layer_are_the_only_layer_that_can_have_them(void **state)
{
    (void)state;
    const char *one = SEQ(NORMALIZATION("n") "," DENSE("d", 3));
    const char *two = SEQ(NORMALIZATION("n") "," NORMALIZATION("m") "," DENSE("d", 3));
    assert_string_equal(place(one, "d/kernel:0#4x3 d/bias:0#3 mean:0#4 variance:0#4 count:0#"),
                        "name: d.kernel d.bias n.mean n.variance n.count");
    assert_string_equal(
        place(one, "dense_7/kernel:0#4x3 dense_7/bias:0#3 mean:0#4 variance:0#4 count:0#"),
        "order: d.kernel d.bias n.mean n.variance n.count");
    assert_non_null(strstr(place(two, "d/kernel:0#4x3 d/bias:0#3 mean:0#4 variance:0#4 count:0# "
                                      "mean:0#4 variance:0#4 count:0#"),
                           "extra:   "));
    assert_string_equal(place(SEQ(DENSE("a", 3) "," DENSE("b", 3)),
                              "a/kernel:0#3x3 a/bias:0#3 kernel:0#3x3 bias:0#3"),
                        "name: a.kernel a.bias b.kernel b.bias");
}

static void numbers_go_with_those_of_the_model(void **state)
{
    (void)state;
    const char *falling = SEQ(DENSE("dense_1", 3) "," DENSE("dense", 3));
    const char *rising = SEQ(DENSE("dense", 3) "," DENSE("dense_1", 3));
    const char *file =
        "dense_9/kernel:0#3x3 dense_9/bias:0#3 dense_8/kernel:0#3x3 dense_8/bias:0#3";
    assert_string_equal(place(falling, file),
                        "order: dense_1.kernel dense_1.bias dense.kernel dense.bias");
    assert_non_null(strstr(place(rising, file), "missing: "));
    assert_non_null(strstr(place(falling, "dense_8/kernel:0#3x3 dense_8/bias:0#3 "
                                          "dense_9/kernel:0#3x3 dense_9/bias:0#3"),
                           "missing: "));
}

/* A layer that was renamed after it was built: its weights keep their names. */
static void a_renamed_layer_leaves_the_other_names_their_meaning(void **state)
{
    (void)state;
    const char *file = "dense/kernel:0#3x3 dense/bias:0#3 dense_1/kernel:0#3x3 dense_1/bias:0#3 "
                       "dense_2/kernel:0#3x3 dense_2/bias:0#3";
    const char *later = "dense_4/kernel:0#3x3 dense_4/bias:0#3 dense_5/kernel:0#3x3 "
                        "dense_5/bias:0#3 dense_6/kernel:0#3x3 dense_6/bias:0#3";
    const char *right = SEQ(DENSE("x", 3) "," DENSE("dense_1", 3) "," DENSE("dense_2", 3));
    const char *exchanged = SEQ(DENSE("x", 3) "," DENSE("dense_2", 3) "," DENSE("dense_1", 3));
    const char *taken = SEQ(DENSE("x", 3) "," DENSE("y", 3) "," DENSE("dense_1", 3));
    const char *want = "order: x.kernel x.bias dense_1.kernel dense_1.bias dense_2.kernel "
                       "dense_2.bias";
    assert_string_equal(place(right, file), want);
    assert_string_equal(place(right, later), want);
    assert_non_null(strstr(place(exchanged, file), "missing: x/kernel"));
    assert_non_null(strstr(place(exchanged, later), "missing: "));
    assert_non_null(strstr(place(taken, file), "missing: "));
}

static void the_numbers_of_renamed_layers_need_not_rise(void **state)
{
    (void)state;
    assert_string_equal(
        place(SEQ(BN("batch_normalization_1") "," BN("x")),
              "batch_normalization_1/gamma:0#3 batch_normalization_1/beta:0#3 "
              "batch_normalization/gamma:0#3 batch_normalization/beta:0#3 "
              "batch_normalization_1/moving_mean:0#3 batch_normalization_1/moving_variance:0#3 "
              "batch_normalization/moving_mean:0#3 batch_normalization/moving_variance:0#3"),
        "order: batch_normalization_1.gamma batch_normalization_1.beta x.gamma x.beta "
        "batch_normalization_1.moving_mean batch_normalization_1.moving_variance x.moving_mean "
        "x.moving_variance");
    /* a chosen name that ends in a number says which layer it is, the number counts nothing */
    assert_string_equal(place(SEQ(DENSE("block_2", 3) "," DENSE("x", 3)),
                              "block_2/kernel:0#3x3 block_2/bias:0#3 block/kernel:0#3x3 "
                              "block/bias:0#3"),
                        "order: block_2.kernel block_2.bias x.kernel x.bias");
    assert_non_null(strstr(place(SEQ(DENSE("y", 3) "," DENSE("x", 3)),
                                 "dense_1/kernel:0#3x3 dense_1/bias:0#3 dense/kernel:0#3x3 "
                                 "dense/bias:0#3"),
                           "missing: "));
}

static void slashes_may_be_part_of_a_name(void **state)
{
    (void)state;
    assert_string_equal(place(SEQ(DENSE("a", 3) "," DENSE("a/b", 3)),
                              "a/kernel:0#3x3 a/bias:0#3 a/b/kernel:0#3x3 a/b/bias:0#3"),
                        "name: a.kernel a.bias a/b.kernel a/b.bias");
}

static void a_second_build_adds_numbers(void **state)
{
    (void)state;
    const char *m = SEQ(DENSE("d1", 3) "," DENSE("d2", 3));
    assert_string_equal(place(m, "d1_2/kernel:0#3x3 d1_2/bias:0#3 d2_2/kernel:0#3x3 d2_2/bias:0#3"),
                        "suffix: d1.kernel d1.bias d2.kernel d2.bias");
    /* readings are never mixed: one name with a number and one without are told by their order */
    assert_string_equal(place(m, "d1_2/kernel:0#3x3 d1_2/bias:0#3 d2/kernel:0#3x3 d2/bias:0#3"),
                        "order: d1.kernel d1.bias d2.kernel d2.bias");
}

static void the_tail_of_a_path_may_name_the_layer(void **state)
{
    (void)state;
    const char *m =
        SEQ(SUB("left", DENSE("d", 3)) "," SUB("right", DENSE("d", 3)) "," DENSE("o", 2));
    assert_string_equal(place(m, "s/left/d/kernel#3x3 s/left/d/bias#3 s/right/d/kernel#3x3 "
                                 "s/right/d/bias#3 s/o/kernel#3x2 s/o/bias#2"),
                        "tail: d.kernel d.bias d.kernel d.bias o.kernel o.bias");
    /* two layers of this name, and nothing to tell them apart */
    assert_non_null(strstr(place(m, "d/kernel#3x3 d/bias#3 d/kernel_1#3x3 d/bias_1#3 o/kernel#3x2 "
                                    "o/bias#2"),
                           "extra:   d/kernel (3×3)"));
}

static void flat_names_of_keras_1_are_cut_at_the_longest_name(void **state)
{
    (void)state;
#define K1(name, units) \
    ITEM("Dense", "\"name\":\"" name "\",\"output_dim\":" #units ",\"init\":\"u\"")
    const char *m = SEQ(K1("dense_1", 3) "," K1("dense_10", 3) "," ITEM(
        "BatchNormalization", "\"name\":\"bn1\",\"axis\":-1,\"mode\":0"));
    assert_string_equal(place(m, "dense_1_W:0#3x3 dense_1_b:0#3 dense_10_W:0#3x3 dense_10_b:0#3 "
                                 "bn1_gamma:0#3 bn1_beta:0#3 bn1_running_mean_3:0#3 "
                                 "bn1_running_std_3:0#3"),
                        "flat: dense_1.kernel dense_1.bias dense_10.kernel dense_10.bias bn1.gamma "
                        "bn1.beta bn1.moving_mean bn1.moving_variance");
}

static void recurrent_kernels_are_not_kernels(void **state)
{
    (void)state;
    assert_string_equal(place(SEQ(ITEM("SimpleRNN", "\"name\":\"r\",\"units\":3")),
                              "r/recurrent_kernel:0#3x3 r/kernel:0#3x3 r/bias:0#3"),
                        "name: r.recurrent_kernel r.kernel r.bias");
}

static void both_directions_keep_their_weights(void **state)
{
    (void)state;
#define BI                                                                          \
    SEQ(ITEM("Bidirectional",                                                       \
             "\"name\":\"bi\",\"layer\":" ITEM("GRU", "\"name\":\"g\",\"units\":2," \
                                                      "\"use_bias\":false")))
    template_ t = template_of(BI);
    assert_string_equal(t.leaves.v[0].vars.v[2].sub, "backward_g");
    template_free(&t);
    assert_string_equal(place(BI, "bi/forward_g/gru_cell/kernel:0#3x6 "
                                  "bi/forward_g/gru_cell/recurrent_kernel:0#2x6 "
                                  "bi/backward_g/gru_cell/kernel:0#3x6 "
                                  "bi/backward_g/gru_cell/recurrent_kernel:0#2x6"),
                        "name: bi.kernel bi.recurrent_kernel bi.kernel bi.recurrent_kernel");
    assert_non_null(
        strstr(place(BI, "bi/forward_g/kernel:0#3x6 bi/forward_g/recurrent_kernel:0#2x6 "
                         "bi/forward_g/kernel_1:0#3x6 bi/forward_g/recurrent_kernel_1:0#2x6"),
               "missing: bi/backward_g/kernel"));
}

static void models_inside_time_distributed_are_one_leaf(void **state)
{
    (void)state;
    const char *m = SEQ(
        ITEM("TimeDistributed", "\"name\":\"td\",\"layer\":" SUB("m", DENSE("d", 3) "," BN("b"))));
    assert_string_equal(
        place(m, "d/kernel:0#3x3 d/bias:0#3 b/gamma:0#3 b/beta:0#3 "
                 "b/moving_mean:0#3 b/moving_variance:0#3"),
        "name: td.kernel td.bias td.gamma td.beta td.moving_mean td.moving_variance");
}

static void renumbered_files_are_placed_by_order(void **state)
{
    (void)state;
    const char *m =
        SEQ(DENSE("dense_1", 3) "," BN("batch_normalization_1") "," DENSE("dense_2", 3));
    assert_string_equal(
        place(m, "dense_7/kernel:0#3x3 dense_7/bias:0#3 batch_normalization_4/gamma:0#3 "
                 "batch_normalization_4/beta:0#3 dense_8/kernel:0#3x3 dense_8/bias:0#3 "
                 "batch_normalization_4/moving_mean:0#3 batch_normalization_4/moving_variance:0#3"),
        "order: dense_1.kernel dense_1.bias batch_normalization_1.gamma batch_normalization_1.beta "
        "dense_2.kernel dense_2.bias batch_normalization_1.moving_mean "
        "batch_normalization_1.moving_variance");
    assert_string_equal(place(SEQ(K1("dense_1", 3) "," K1("dense_2", 3)),
                              "dense_5_W:0#3x3 dense_5_b:0#3 dense_6_W:0#3x3 dense_6_b:0#3"),
                        "order: dense_1.kernel dense_1.bias dense_2.kernel dense_2.bias");
}

static void inner_layers_may_be_renumbered_too(void **state)
{
    (void)state;
#define SN(name, more) \
    ITEM("SpectralNormalization", "\"name\":\"" name "\"," more "\"layer\":" DENSE("dense", 3))
    assert_string_equal(place(SEQ(DENSE("dense_1", 3) "," SN("sn", "")),
                              "dense_8/kernel#3x3 dense_8/bias#3 sn/dense_9/kernel#3x3 "
                              "sn/dense_9/bias#3 sn/vector_u#1x3"),
                        "order: dense_1.kernel dense_1.bias sn.kernel sn.bias sn.vector_u");
    /* frozen: Keras 2.15 stores its own variables before those of the inner layer */
    assert_string_equal(place(SEQ(DENSE("dense_1", 3) "," SN("sn", "\"trainable\":false,")),
                              "dense_8/kernel#3x3 dense_8/bias#3 sn/kernel#3x3 sn/vector_u#1x3 "
                              "sn/bias#3"),
                        "order: dense_1.kernel dense_1.bias sn.kernel sn.vector_u sn.bias");
}

static void the_order_must_agree_with_the_files_own_names(void **state)
{
    (void)state;
    const char *m = SEQ(DENSE("dense_1", 3) "," DENSE("dense_2", 3));
    static const char *const lists[] = {
        /* numbers fall */
        "dense_8/kernel:0#3x3 dense_8/bias:0#3 dense_7/kernel:0#3x3 dense_7/bias:0#3",
        /* one name for two layers */
        "dense_7/kernel:0#3x3 dense_7/bias:0#3 dense_7/kernel_1:0#3x3 dense_7/bias_1:0#3",
        /* two names for one layer */
        "dense_7/kernel:0#3x3 dense_8/bias:0#3 dense_9/kernel:0#3x3 dense_9/bias:0#3",
        /* no names */
        "kernel#3x3 bias#3 kernel_1#3x3 bias_1#3",
        /* another variable in its place */
        "dense_7/bias:0#3 dense_7/kernel:0#3x3 dense_8/kernel:0#3x3 dense_8/bias:0#3",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strncmp(place(m, lists[i]), "order:", 6) == 0)
            fail_msg("%s was placed", lists[i]);
}

static void names_that_lie_are_caught_by_shapes(void **state)
{
    (void)state;
    /* the file's dense_1 is the model's dense_2: by name it would go into the wrong layer */
    assert_string_equal(place(SEQ(DENSE("dense", 5) "," DENSE("dense_1", 3)),
                              "dense_1/kernel:0#4x5 dense_1/bias:0#5 dense_2/kernel:0#5x3 "
                              "dense_2/bias:0#3"),
                        "order: dense.kernel dense.bias dense_1.kernel dense_1.bias");
}

static void layers_of_unknown_classes_are_held_by_the_invariant(void **state)
{
    (void)state;
    const char *m = SEQ(DENSE("a", 3) "," ITEM("MyNorm", "\"name\":\"n\"") "," DENSE("b", 3));
    assert_string_equal(
        place(m, "a/kernel:0#3x3 a/bias:0#3 n/g:0#3 n/h:0#3 b/kernel:0#3x3 b/bias:0#3"),
        "name: a.kernel a.bias n.? n.? b.kernel b.bias");
    /* the order alone proves nothing where a class is not known */
    assert_non_null(strstr(place(m, "x_7/kernel:0#3x3 x_7/bias:0#3 n_1/g:0#3 x_8/kernel:0#3x3 "
                                    "x_8/bias:0#3"),
                           "missing: a/kernel (?×3), a/bias (3), b/kernel (?×3), b/bias (3)"));
    /* but a single leaf takes it all */
    assert_string_equal(
        place(SEQ(ITEM("Flatten", "\"name\":\"f\"") "," ITEM("MyNorm", "\"name\":\"n\"")),
              "other/g:0#3 thing/h:0#3"),
        "order: n.? n.?");
}

static void what_does_not_fit_is_listed(void **state)
{
    (void)state;
    assert_string_equal(
        place(
            SEQ(ITEM("Conv2D", "\"name\":\"conv2\",\"filters\":64,\"kernel_size\":[3,3]") "," DENSE(
                "fc1", 64)),
            "conv2/kernel:0#3x3x32x128 conv2/bias:0#64 other/kernel:0#5"),
        "the file has 3 weights where the model has 4\n"
        "missing: fc1/kernel (?×64), fc1/bias (64)\n"
        "shape:   conv2/kernel is 3×3×32×128, template has 3×3×?×64\n"
        "extra:   other/kernel:0 (5)");
}

static void long_lists_are_placed_in_good_time(void **state)
{
    (void)state;
    enum { N = 10000 };
    pg__str model = {0};
    pg_store *s = NULL;
    pg__placing p = {0};
    assert_ok(pg__str_puts(&model, "{\"class_name\":\"Sequential\",\"config\":[", NULL));
    assert_ok(pg__store_new(&s, "test", NULL, NULL, NULL));
    assert_ok(pg__store_add_layer(s, "w", NULL));
    for (unsigned i = 0; i < N; i++) {
        char name[64];
        const uint64_t dims[] = {3, 3};
        assert_ok(pg__str_printf(&model, NULL,
                                 "%s{\"class_name\":\"Dense\",\"config\":{\"name\":"
                                 "\"dense_%u\",\"units\":3}}",
                                 i ? "," : "", i + 1));
        for (uint32_t k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "dense_%u/%s:0", i + 5, k ? "bias" : "kernel");
            assert_ok(pg__store_add_weight(
                s, &(pg__tensor_desc){.name = name, .dtype = PG_F32, .rank = 2 - k, .dims = dims},
                NULL));
        }
    }
    assert_ok(pg__str_puts(&model, "]}", NULL));
    template_ t = template_of(model.s);
    flat f = flat_of(s);
    assert_ok(pg__place(&p, &t.leaves, f.v, f.n, NULL));
    assert_int_equal(p.how, PG_BY_ORDER);
    pg__placing_fini(&p);
    free(f.v);
    template_free(&t);
    pg_store_close(s);
    pg__str_fini(&model);
}

PG_TEST_MAIN(cmocka_unit_test(trainable_weights_come_first),
             cmocka_unit_test(layers_frozen_after_the_description_are_found_by_name),
             cmocka_unit_test(the_layers_may_turn_back_only_once),
             cmocka_unit_test(names_without_a_layer_are_the_only_layer_that_can_have_them),
             cmocka_unit_test(numbers_go_with_those_of_the_model),
             cmocka_unit_test(a_renamed_layer_leaves_the_other_names_their_meaning),
             cmocka_unit_test(the_numbers_of_renamed_layers_need_not_rise),
             cmocka_unit_test(slashes_may_be_part_of_a_name),
             cmocka_unit_test(a_second_build_adds_numbers),
             cmocka_unit_test(the_tail_of_a_path_may_name_the_layer),
             cmocka_unit_test(flat_names_of_keras_1_are_cut_at_the_longest_name),
             cmocka_unit_test(recurrent_kernels_are_not_kernels),
             cmocka_unit_test(both_directions_keep_their_weights),
             cmocka_unit_test(models_inside_time_distributed_are_one_leaf),
             cmocka_unit_test(renumbered_files_are_placed_by_order),
             cmocka_unit_test(inner_layers_may_be_renumbered_too),
             cmocka_unit_test(the_order_must_agree_with_the_files_own_names),
             cmocka_unit_test(names_that_lie_are_caught_by_shapes),
             cmocka_unit_test(layers_of_unknown_classes_are_held_by_the_invariant),
             cmocka_unit_test(what_does_not_fit_is_listed),
             cmocka_unit_test(long_lists_are_placed_in_good_time))
