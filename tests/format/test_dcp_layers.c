#include "format/dcp_text.h"

#include "format/dcp.h"

/* What is left of rows, "NAME ..."; the note follows after " | ". */
static void expect(const dcp_row *rows, size_t n, const pg__dcp_core *core, const char *want)
{
    char got[1024] = "";
    pg__str t = {0}, note = {0};
    pg__dcp d = {0};
    pg__io *io = NULL;
    dcp_text(&t, rows, n, 0);
    assert_ok(pg__io_open_mem(&io, t.s, t.n, NULL));
    assert_ok(pg__dcp_read(&d, io, NULL));
    assert_ok(pg__dcp_unstack(&d, core, &note, NULL));
    for (size_t i = 0; i < d.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s:%u/%zu", i ? " " : "",
                 d.v[i].name, d.v[i].tiled.rank, d.v[i].tiled.n);
    if (note.n)
        snprintf(got + strlen(got), sizeof got - strlen(got), " | %s", note.s);
    assert_string_equal(got, want);
    pg__dcp_fini(&d);
    pg__io_close(io);
    pg__str_fini(&t);
    pg__str_fini(&note);
}

#define EXPECT(rows, core, want) expect(rows, sizeof(rows) / sizeof *(rows), core, want)

static const pg__dcp_core core = {.is_core = 1};

/* Each layer has its own chunk, and all its tensors follow each other. */
static void takes_layers_apart(void **state)
{
    (void)state;
    static const dcp_row rows[] = {{"embedding.w", NULL, 3, NULL},
                                   {"decoder.layers.a.weight", NULL, 2, NULL},
                                   {"decoder.norm", NULL, 1, NULL},
                                   {"decoder.layers.a.bias", NULL, 2, NULL},
                                   {"encoder.layers.a.bias", NULL, 1, NULL}};
    EXPECT(rows, &core,
           "embedding.w:1/3 decoder.layers.0.a.weight:0/1 decoder.layers.0.a.bias:0/1 "
           "decoder.layers.1.a.weight:0/1 decoder.layers.1.a.bias:0/1 decoder.norm:1/1 "
           "encoder.layers.0.a.bias:0/1");
}

static void takes_states_apart(void **state)
{
    (void)state;
    static const dcp_row rows[] = {{"optimizer.state.exp_avg.decoder.layers.a", NULL, 2, NULL}};
    EXPECT(rows, &core,
           "optimizer.state.exp_avg.decoder.layers.0.a:0/1 "
           "optimizer.state.exp_avg.decoder.layers.1.a:0/1");
}

static void leaves_stacked_what_is_not_settled(void **state)
{
    (void)state;
    static const pg__dcp_core unknown = {0}, saved = {.is_core = 1, .as_saved = 1},
                              five = {.is_core = 1, .n_layers = 5};
    static const dcp_row rows[] = {{"decoder.layers.a", NULL, 2, NULL}};
    static const dcp_row uneven[] = {{"decoder.layers.a", NULL, 2, NULL},
                                     {"decoder.layers.b", NULL, 3, NULL}};
    static const dcp_row numbered[] = {{"decoder.layers.a", NULL, 2, NULL},
                                       {"decoder.layers.0.b", NULL, 3, NULL}};
    static const dcp_row plain[] = {{"decoder.layers.0.b", NULL, 3, NULL}};
#define NOTE                                                                          \
    " | layers are stacked along axis 0 (decoder.layers.a%s), for no file says that " \
    "Megatron-Core did so: the rule \"unstack\" takes them apart"
    char want[400];
    snprintf(want, sizeof want, "decoder.layers.a:1/2" NOTE, "");
    EXPECT(rows, &unknown, want);
    EXPECT(rows, &five, want);
    EXPECT(rows, &saved, "decoder.layers.a:1/2");
    snprintf(want, sizeof want, "decoder.layers.a:1/2 decoder.layers.b:1/3" NOTE, ", ...");
    EXPECT(uneven, &core, want);
    snprintf(want, sizeof want, "decoder.layers.a:1/2 decoder.layers.0.b:1/3" NOTE, "");
    EXPECT(numbered, &core, want);
    EXPECT(plain, &unknown, "decoder.layers.0.b:1/3");
}

static void names_experts_as_their_class_does(void **state)
{
    (void)state;
    static const pg__dcp_core sequential = {.is_core = 1, .experts = PG_DCP_EXPERTS_SEQUENTIAL},
                              grouped = {.is_core = 1, .experts = PG_DCP_EXPERTS_GROUPED};
    static const dcp_row rows[] = {
        {"decoder.layers.1.mlp.experts.experts.linear_fc1.weight", NULL, 2, NULL},
        {"decoder.layers.2.mlp.experts.experts.7.linear_fc2.bias", NULL, 1, NULL}};
    EXPECT(rows, &sequential,
           "decoder.layers.1.mlp.experts.local_experts.0.linear_fc1.weight:0/1 "
           "decoder.layers.1.mlp.experts.local_experts.1.linear_fc1.weight:0/1 "
           "decoder.layers.2.mlp.experts.local_experts.7.linear_fc2.bias:1/1");
    EXPECT(rows, &grouped,
           "decoder.layers.1.mlp.experts.linear_fc1.weight0:0/1 "
           "decoder.layers.1.mlp.experts.linear_fc1.weight1:0/1 "
           "decoder.layers.2.mlp.experts.linear_fc2.bias7:1/1");
    EXPECT(rows, &core,
           "decoder.layers.1.mlp.experts.experts.linear_fc1.weight:1/2 "
           "decoder.layers.2.mlp.experts.experts.7.linear_fc2.bias:1/1 | experts are stacked "
           "(decoder.layers.1.mlp.experts.experts.linear_fc1.weight), for no file says what the "
           "model calls them: the rule \"experts=sequential\" or \"experts=grouped\" does");
}

static void gives_norms_back_their_names(void **state)
{
    (void)state;
    static const pg__dcp_core local = {.is_core = 1, .is_local = 1};
    static const dcp_row rows[] = {
        {"decoder.layers.self_attention.linear_qkv.layer_norm_weight", NULL, 1, NULL},
        {"decoder.layers.mlp.linear_fc1.layer_norm_bias", NULL, 1, NULL},
        {"mlp.linear_fc1.layer_norm_bias", NULL, 1, NULL}};
    EXPECT(
        rows, &local,
        "decoder.layers.0.input_layernorm.weight:0/1 decoder.layers.0.pre_mlp_layernorm.bias:0/1 "
        "mlp.linear_fc1.layer_norm_bias:1/1");
}

static void joins_the_halves_of_gates(void **state)
{
    (void)state;
    static const dcp_row rows[] = {{"layers.0.mlp.linear_fc1.weight_v", NULL, 2, NULL},
                                   {"layers.0.mlp.linear_fc1.weight_w", NULL, 2, NULL},
                                   {"layers.1.mlp.linear_fc1.weight_w", NULL, 2, NULL},
                                   {"layers.2.mlp.linear_fc1.weight_v", NULL, 2, NULL},
                                   {"layers.3.mlp.linear_fc1.bias_w", NULL, 1, NULL},
                                   {"layers.3.mlp.linear_fc1.bias_v", NULL, 2, NULL}};
    EXPECT(rows, &core,
           "layers.0.mlp.linear_fc1.weight:1/4 layers.1.mlp.linear_fc1.weight_w:1/2 "
           "layers.2.mlp.linear_fc1.weight_v:1/2 layers.3.mlp.linear_fc1.bias_w:1/1 "
           "layers.3.mlp.linear_fc1.bias_v:1/2");
}

static void limits_what_names_take(void **state)
{
    (void)state;
    enum { LONG = 60000, MANY = 9000 };
    static char name[LONG + 1] = "layers.";
    const dcp_row row = {name, NULL, MANY, NULL};
    pg__str t = {0}, note = {0};
    pg__dcp d = {0};
    pg__io *io = NULL;
    pg_err err = {0};
    memset(name + 7, 'k', 30000);
    dcp_begin(&t);
    dcp_tensor(&t, &row, 0);
    DCP_PUT(&t, "u");
    DCP_WORD(&t, "planner_data");
    DCP_PUT(&t, "}");
    DCP_WORD(&t, "storage_data");
    DCP_PUT(&t, "}(");
    for (uint32_t k = 0; k < MANY; k++) {
        dcp_new(&t, DCP_META, "MetadataIndex");
        DCP_WORD(&t, "fqn");
        if (k)
            DCP_PUT(&t, "h\1");
        else
            dcp_word(&t, name, strlen(name)), DCP_PUT(&t, "q\1");
        DCP_WORD(&t, "offset");
        dcp_size(&t, k);
        DCP_PUT(&t, "ubctorch.distributed.checkpoint.filesystem\n_StorageInfo\n)\x81}(");
        DCP_WORD(&t, "relative_path");
        DCP_WORD(&t, "a");
        DCP_WORD(&t, "offset");
        dcp_number(&t, 0);
        DCP_WORD(&t, "length");
        dcp_number(&t, 4);
        DCP_PUT(&t, "ub");
    }
    DCP_PUT(&t, "uub.");
    assert_ok(pg__io_open_mem(&io, t.s, t.n, NULL));
    assert_ok(pg__dcp_read(&d, io, NULL));
    assert_fails(PG_E_LIMIT, pg__dcp_unstack(&d, &core, &note, &err), &err);
    pg__dcp_fini(&d);
    pg__io_close(io);
    pg__str_fini(&t);
    pg__str_fini(&note);
}

PG_TEST_MAIN(cmocka_unit_test(takes_layers_apart), cmocka_unit_test(takes_states_apart),
             cmocka_unit_test(leaves_stacked_what_is_not_settled),
             cmocka_unit_test(names_experts_as_their_class_does),
             cmocka_unit_test(gives_norms_back_their_names),
             cmocka_unit_test(joins_the_halves_of_gates), cmocka_unit_test(limits_what_names_take))
