#include "pg_test.h"

#include <fts.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"
#include "model/graph/graph.h"
#include "pg/inspect.h"

/* A functional model "m" with these layers (JSON, comma separated), input "i", output "o". */
#define MODEL(layers)                                                          \
    "{\"class_name\":\"Model\",\"config\":{\"name\":\"m\",\"layers\":[" layers \
    "],\"input_layers\":[[\"i\",0,0]],\"output_layers\":[[\"o\",0,0]]}}"
#define INPUT                                                                    \
    "{\"class_name\":\"InputLayer\",\"name\":\"i\",\"config\":{\"name\":\"i\"}," \
    "\"inbound_nodes\":[]}"
/* A Dense layer called once; calls is the list of its inbound nodes. */
#define LAYER(name, calls)                                                                     \
    "{\"class_name\":\"Dense\",\"name\":\"" name "\",\"config\":{\"units\":4,\"name\":\"" name \
    "\"},\"inbound_nodes\":" calls "}"
#define FROM(name) "[[[\"" name "\",0,0,{}]]]"

static pg__graph *parse(const char *text)
{
    pg_err err = {0};
    pg__graph *g = NULL;
    if (pg__graph_parse(&g, text, strlen(text), &err) != PG_OK)
        fail_msg("%s: %s", err.msg, text);
    return g;
}

/* A value of g's text as a string of its own. */
static const char *cut(const pg__graph *g, pg__json_span s)
{
    static char buf[512];
    assert_in_range(s.n, 1, sizeof buf - 1);
    memcpy(buf, g->text + s.off, s.n);
    buf[s.n] = 0;
    return buf;
}

static void functional_models_have_layers_and_calls(void **state)
{
    (void)state;
    pg__graph *g = parse(
        MODEL(INPUT ", " LAYER("a", FROM("i")) "," LAYER("o", "[[[\"a\",0,0],[\"i\",0,0]]]")));
    const pg__model *m = g->root;
    assert_int_equal(m->n_layers, 3);
    assert_false(m->sequential);
    assert_string_equal(m->name, "m");
    assert_string_equal(m->layers[1].name, "a");
    assert_string_equal(m->layers[1].class_name, "Dense");
    assert_true(m->layers[1].trainable);
    assert_int_equal(m->layers[0].n_calls, 0);
    assert_int_equal(m->layers[2].n_calls, 1);
    assert_int_equal(m->layers[2].calls[0].n_inputs, 2);
    assert_int_equal(m->layers[2].calls[0].inputs[0].layer, 1);
    assert_ptr_equal(pg__call_of(m, m->layers[2].calls[0].inputs[0]), &m->layers[1].calls[0]);
    assert_null(pg__call_of(m, m->inputs[0]));
    assert_int_equal(m->outputs[0].layer, 2);
    assert_int_equal(pg__model_find(m, "o"), 2);
    assert_true(pg__model_find(m, "x") == SIZE_MAX);
    assert_true(pg__layer_is_listed(m, 0));
    assert_string_equal(cut(g, m->layers[0].entry), INPUT);
    assert_string_equal(cut(g, m->layers[1].config_span), "{\"units\":4,\"name\":\"a\"}");
    pg__graph_free(g);
    pg__graph_free(NULL);
}

static void operations_are_no_layers(void **state)
{
    (void)state;
#define OP(cls, module, config)                                               \
    "{\"class_name\":\"" cls "\",\"name\":\"a\"" module ",\"config\":" config \
    ",\"inbound_nodes\":" FROM("i") "}"
    static const char *const models[] = {
        MODEL(INPUT "," OP("Add", ",\"module\":\"keras.src.ops.numpy\"",
                           "{\"name\":\"a\"}") "," LAYER("o", FROM("a"))),
        MODEL(INPUT "," OP("Cast", "", "{\"dtype\":\"float32\"}") "," LAYER("o", FROM("a"))),
        MODEL(INPUT "," OP("Add", ",\"module\":\"keras.layers\"",
                           "{\"name\":\"a\"}") "," LAYER("o", FROM("a"))),
        MODEL(INPUT "," OP("Cast", "", "{\"name\":\"a\"}") "," LAYER("o", FROM("a"))),
    };
    for (size_t i = 0; i < 4; i++) {
        pg__graph *g = parse(models[i]);
        assert_int_equal(pg__layer_is_op(&g->root->layers[1]), i < 2);
        assert_int_equal(pg__layer_is_listed(g->root, 1), i >= 2);
        pg__graph_free(g);
    }
}

static void a_class_is_keras_own_by_its_module(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        int is;
    } cases[] = {{"", 1},
                 {",\"module\":null,\"registered_name\":null", 1},
                 {",\"module\":\"keras.layers\"", 1},
                 {",\"module\":\"keras.src.layers.core.dense\"", 1},
                 {",\"module\":\"tf_keras.src.layers\"", 1},
                 {",\"module\":\"tensorflow.keras.layers\"", 1},
                 {",\"module\":\"tensorflow.python.keras.layers.core\"", 1},
                 {",\"module\":\"keras.layers\",\"registered_name\":\"Dense\"", 1},
                 {",\"module\":\"os\"", 0},
                 {",\"module\":\"keras_like.layers\"", 0},
                 {",\"module\":\"tensorflow\"", 0},
                 {",\"module\":\"builtins\"", 0},
                 {",\"module\":null,\"registered_name\":\"my>Dense\"", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"Dense\"%s,"
                 "\"config\":{\"name\":\"d\",\"units\":1}}]}",
                 cases[i].more);
        pg__graph *g = parse(text);
        if (pg__layer_is_keras(&g->root->layers[0]) != cases[i].is)
            fail_msg("%s", cases[i].more);
        pg__graph_free(g);
    }
}

static void both_forms_of_sequential_are_chains(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"Dense\",\"config\":"
        "{\"name\":\"d\",\"units\":1}},{\"class_name\":\"Sequential\",\"config\":[]},"
        "{\"class_name\":\"Sequential\",\"config\":[]}]}",
        "{\"class_name\":\"Sequential\",\"config\":{\"name\":\"s\",\"layers\":["
        "{\"class_name\":\"Dense\",\"config\":{\"name\":\"d\",\"units\":1}},"
        "{\"class_name\":\"Sequential\",\"config\":[]},{\"class_name\":\"Sequential\",\"config\":[]"
        "}]}}"};
    for (size_t i = 0; i < 2; i++) {
        pg__graph *g = parse(texts[i]);
        const pg__model *m = g->root;
        assert_true(m->sequential);
        assert_int_equal(m->n_layers, 3);
        assert_string_equal(m->layers[1].name, "sequential_1"); /* nameless: as a reload numbers */
        assert_string_equal(m->layers[2].name, "sequential_2");
        assert_non_null(m->layers[1].model);
        assert_int_equal(m->layers[0].n_calls, 0);
        assert_int_equal(m->layers[2].calls[0].inputs[0].layer, 1);
        assert_int_equal(m->inputs[0].layer, 0);
        assert_int_equal(m->outputs[0].layer, 2);
        pg__graph_free(g);
    }
}

static void made_up_names_avoid_those_that_are_taken(void **state)
{
    (void)state;
    pg__graph *g =
        parse("{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"Sequential\","
              "\"config\":[]},{\"class_name\":\"Dense\",\"config\":{\"name\":"
              "\"sequential_1\"}}]}");
    assert_string_equal(g->root->layers[0].name, "sequential_2");
    pg__graph_free(g);
}

static void the_input_of_a_sequential_is_not_listed(void **state)
{
    (void)state;
    pg__graph *g =
        parse("{\"class_name\":\"Sequential\",\"config\":{\"name\":\"s\",\"layers\":[" INPUT
              "," LAYER("d", "[]") "]}}");
    assert_false(pg__layer_is_listed(g->root, 0));
    assert_true(pg__layer_is_listed(g->root, 1));
    pg__graph_free(g);
}

static void keras_3_calls_are_found_in_args_and_kwargs(void **state)
{
    (void)state;
#define TENSOR(name, node)                                                                      \
    "{\"class_name\":\"__keras_tensor__\",\"config\":{\"shape\":[1],\"keras_history\":[\"" name \
    "\"," #node ",0]}}"
    pg__graph *g =
        parse("{\"module\":\"keras\",\"class_name\":\"Functional\",\"config\":{\"name\":\"m\","
              "\"layers\":[" INPUT
              "," LAYER("o", "[{\"args\":[[" TENSOR("i", 0) "," TENSOR(
                                 "i", 0) "]],\"kwargs\":{\"mask\":null,\"n\":3,"
                                         "\"v\":" TENSOR("i", 0) "}},{\"args\":"
                                                                 "[" TENSOR("o", 0) "],"
                                                                                    "\"kwarg"
                                                                                    "s\":{}}"
                                                                                    "]") "],"
                                                                                         "\""
                                                                                         "in"
                                                                                         "pu"
                                                                                         "t_"
                                                                                         "la"
                                                                                         "ye"
                                                                                         "rs"
                                                                                         "\""
                                                                                         ":["
                                                                                         "\""
                                                                                         "i"
                                                                                         "\""
                                                                                         ",0"
                                                                                         ",0"
                                                                                         "],"
                                                                                         "\""
                                                                                         "ou"
                                                                                         "tp"
                                                                                         "ut"
                                                                                         "_l"
                                                                                         "ay"
                                                                                         "er"
                                                                                         "s"
                                                                                         "\""
                                                                                         ":["
                                                                                         "\""
                                                                                         "o"
                                                                                         "\""
                                                                                         ",1"
                                                                                         ",0"
                                                                                         "]}"
                                                                                         "}");
    const pg__layer *o = &g->root->layers[1];
    assert_int_equal(g->dialect, 3);
    assert_int_equal(g->root->n_inputs, 1);
    assert_int_equal(o->n_calls, 2);
    assert_int_equal(o->calls[0].n_inputs, 3);
    assert_null(o->calls[0].args[0]);
    assert_null(o->calls[0].args[1]);
    assert_string_equal(o->calls[0].args[2], "v");
    assert_int_equal(pg__json_len(o->calls[0].kwargs), 3);
    assert_null(o->calls[1].args[0]);
    assert_int_equal(o->calls[1].inputs[0].layer, 1);
    assert_ptr_equal(pg__call_of(g->root, g->root->outputs[0]), &o->calls[1]);
    pg__graph_free(g);
}

static void keyword_arguments_of_keras_2_may_be_tensors(void **state)
{
    (void)state;
    pg__graph *g = parse(MODEL(INPUT "," LAYER("a", FROM("i")) "," LAYER(
        "o", "[[[\"a\",0,0,{\"value\":[\"i\",0,0],\"mask\":null,\"axis\":[\"x\",1]}],"
             "[\"_CONSTANT_VALUE\",-1,2.5,{\"y\":[\"a\",0,0]}]]]")));
    const pg__call *c = &g->root->layers[2].calls[0];
    assert_int_equal(c->n_inputs, 3);
    assert_int_equal(c->inputs[1].layer, 0);
    assert_int_equal(c->inputs[2].layer, 1);
    assert_null(c->args[0]);
    assert_string_equal(c->args[1], "value");
    assert_string_equal(c->args[2], "y");
    assert_ptr_equal(
        pg__json_get(c->kwargs, "axis"), /* those of the first tensor */
        pg__json_get(
            pg__json_at(
                pg__json_at(
                    pg__json_at(pg__json_get(pg__json_at(g->root->entries, 2), "inbound_nodes"), 0),
                    0),
                3),
            "axis"));
    pg__graph_free(g);
}

static void calls_of_a_template_may_count_from_one(void **state)
{
    (void)state;
#define TEMPLATE                                                                                   \
    "{\"class_name\":\"Model\",\"name\":\"t\",\"config\":{\"name\":\"t\",\"layers\":[" INPUT       \
    "," LAYER("o", FROM("i")) "],\"input_layers\":[[\"i\",0,0]],\"output_layers\":[[\"o\",0,0]]}," \
                              "\"inbound_nodes\":[[[\"i\",0,0,{}]],[[\"i\",0,0,{}]]]}"
    pg__graph *g =
        parse(MODEL(INPUT "," TEMPLATE "," LAYER("o", "[[[\"t\",1,0,{}],[\"t\",2,0,{}]]]")));
    const pg__layer *t = &g->root->layers[1];
    assert_int_equal(g->n_models, 2);
    assert_int_equal(t->first_node, 1);
    assert_ptr_equal(pg__call_of(g->root, g->root->layers[2].calls[0].inputs[1]), &t->calls[1]);
    assert_string_equal(t->model->name, "t");
    assert_int_equal(strncmp(cut(g, t->model->config_span), "{\"name\":\"t\",\"layers\"", 20), 0);
    pg__graph_free(g);

    g = parse(MODEL(INPUT "," TEMPLATE "," LAYER("o", "[[[\"t\",0,0,{}],[\"t\",1,0,{}]]]")));
    assert_int_equal(g->root->layers[1].first_node, 0);
    pg__graph_free(g);
}

static void versions_are_told_by_their_forms(void **state)
{
    (void)state;
    pg__graph *g =
        parse("{\"class_name\":\"Sequential\",\"config\":[],\"keras_version\":\"1.2.2\"}");
    assert_int_equal(g->dialect, 1);
    pg__graph_free(g);
    g = parse("{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"Dense\",\"config\":"
              "{\"name\":\"d\",\"output_dim\":3,\"init\":\"uniform\"}}]}");
    assert_int_equal(g->dialect, 1);
    pg__graph_free(g);
    g = parse(MODEL(INPUT "," LAYER("o", FROM("i"))));
    assert_int_equal(g->dialect, 2);
    pg__graph_free(g);
#define WITH_DTYPE(module, name)                                                                 \
    "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"Dense\",\"config\":{\"name\":" \
    "\"d\","                                                                                     \
    "\"units\":3,\"dtype\":{\"module\":\"" module "\",\"class_name\":\"" name                    \
    "\",\"config\":{\"name\":\"mixed_bfloat16\"},\"registered_name\":null}}}]}"
    g = parse(WITH_DTYPE("keras.mixed_precision", "Policy")); /* of Keras 2.15 */
    assert_int_equal(g->dialect, 2);
    pg__graph_free(g);
    g = parse(WITH_DTYPE("keras", "DTypePolicy"));
    assert_int_equal(g->dialect, 3);
    pg__graph_free(g);
}

static void wrapping_layers_show_what_they_wrap(void **state)
{
    (void)state;
    pg__graph *g =
        parse("{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":"
              "\"TimeDistributed\",\"config\":{\"name\":\"td\",\"layer\":{\"class_name\":"
              "\"Sequential\",\"config\":{\"name\":\"s\",\"layers\":["
              "{\"class_name\":\"Dense\",\"config\":{\"name\":\"d\"}}]}}}}]}");
    const pg__layer *td = &g->root->layers[0];
    assert_null(td->model);
    assert_string_equal(td->inner->name, "s");
    assert_string_equal(td->inner->model->layers[0].name, "d");
    assert_string_equal(cut(g, td->inner->model->layers[0].config_span), "{\"name\":\"d\"}");
    pg__graph_free(g);
}

static void a_merge_of_keras_1_holds_models(void **state)
{
    (void)state;
    pg__graph *g = parse(
        "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"Merge\",\"config\":"
        "{\"name\":\"merge_1\",\"mode\":\"concat\",\"layers\":[{\"class_name\":\"Sequential\","
        "\"config\":[" LAYER(
            "d", "[]") "]},{\"class_name\":\"Sequential\",\"config\":[]}]}}," LAYER("o",
                                                                                    "[]") "]}");
    const pg__model *merge = g->root->layers[0].model;
    assert_int_equal(g->n_models, 4);
    assert_string_equal(merge->layers[0].model->layers[0].name, "d");
    assert_int_equal(g->root->layers[1].calls[0].inputs[0].layer, 0);
    pg__graph_free(g);
}

static void descriptions_in_other_clothes_are_read(void **state)
{
    (void)state;
    pg__graph *g =
        parse("\xef\xbb\xbf \"{\\\"class_name\\\": \\\"Sequential\\\", \\\"config\\\": []}\"");
    assert_string_equal(cut(g, g->root->config_span), "[]");
    pg__graph_free(g);
    g = parse("{\"name\":\"s\",\"layers\":[]}"); /* model.get_config() */
    assert_true(g->root->sequential);
    pg__graph_free(g);
}

static void defects_are_named_with_layer_and_key(void **state)
{
    (void)state;
#define BASE(out)                                                             \
    "{\"class_name\":\"Model\",\"config\":{\"name\":\"m\",\"layers\":[" INPUT \
    "," LAYER("o", FROM("i")) "],\"input_layers\":[[\"i\",0,0]],\"output_layers\":" out "}}"
    static const struct {
        const char *text, *layer, *key;
    } bad[] = {
        {MODEL(INPUT "," LAYER("a", FROM("b")) "," LAYER("b", FROM("a")) "," LAYER("o", FROM("b"))),
         "cycle", "inbound_nodes"},
        {MODEL(INPUT "," LAYER("o", FROM("o"))), "o:", "cycle"},
        {MODEL(INPUT "," LAYER("o", FROM("nope"))), "o:", "\"nope\""},
        {MODEL(INPUT "," LAYER("o", FROM("i")) "," LAYER("o", FROM("i"))), "o:", "\"name\""},
        {MODEL(INPUT "," LAYER("x", FROM("i"))), "\"o\"", "output_layers"},
        {MODEL(LAYER("o", FROM("i"))), "\"i\"", "inbound_nodes"},
        {MODEL(INPUT "," LAYER("o", "[[[\"i\",1,0,{}]]]")), "\"i\"", "node index"},
        {MODEL(INPUT "," LAYER("o", "[[[\"i\",0,1,{}]]]")), "\"i\"", "tensor index"},
        {MODEL(INPUT "," LAYER("o", "[[[\"i\",0,-1,{}]]]")), "\"i\"", "out of range"},
        {MODEL(INPUT "," LAYER("o", "[[[\"i\",0]]]")), "o:", "[layer, node, tensor]"},
        {MODEL(INPUT "," LAYER("o", "[[7]]")), "o:", "[layer, node, tensor]"},
        {MODEL(INPUT "," LAYER("o", "\"i\"")), "o:", "not a list"},
        {MODEL(INPUT "," TEMPLATE "," LAYER("o", "[[[\"t\",3,0]]]")), "\"t\"", "node index"},
        {MODEL(INPUT "," TEMPLATE "," LAYER("o", "[[[\"t\",1,1]]]")), "\"t\"", "tensor index"},
        {BASE("[[\"o\",0,5]]"), "\"o\"", "output_layers"},
        {BASE("[[\"o\",7,0]]"), "\"o\"", "output_layers"},
        {BASE("[[\"o\",0,0,{}],3]"), "m:", "output_layers"},
        {MODEL(INPUT ",{\"class_name\":\"Dense\",\"config\":{\"units\":4}}"), "Dense", "\"name\""},
        {MODEL(INPUT ",{\"class_name\":\"Dense\",\"name\":\"o\",\"config\":[]}"),
         "o:", "\"config\""},
        {MODEL(INPUT ",{\"class_name\":\"Dense\",\"name\":\"o\"}"), "o:", "\"config\""},
        {MODEL(INPUT ",7"), "layers[1]", "class_name"},
        {"{\"class_name\":\"Model\",\"class_name\":\"Model\"}", "line 1", "\"class_name\""},
        {"{\"class_name\":\"Model\",", "line 1", "column"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_err err = {0};
        pg__graph *g = NULL;
        assert_fails(PG_E_FORMAT, pg__graph_parse(&g, bad[i].text, strlen(bad[i].text), &err),
                     &err);
        if (!strstr(err.msg, bad[i].layer) || !strstr(err.msg, bad[i].key))
            fail_msg("%s\n  says \"%s\"", bad[i].text, err.msg);
        assert_null(g);
    }
}

static void what_is_no_model_is_told_apart(void **state)
{
    (void)state;
    static const char *const texts[] = {"[]",
                                        "7",
                                        "null",
                                        "{}",
                                        "\"x\"",
                                        "{\"weight_map\":{}}",
                                        "{\"class_name\":\"MyModel\",\"config\":{\"units\":3}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pg_err err = {0};
        pg__graph *g = NULL;
        const pg_status st = pg__graph_parse(&g, texts[i], strlen(texts[i]), &err);
        assert_int_equal(st, i == 4 ? PG_E_FORMAT : PG_E_MISMATCH);
        assert_true(err.msg[0] != 0);
    }
}

static void models_nest_only_so_deep(void **state)
{
    (void)state;
    for (size_t depth = PG_LIMIT_MODEL_DEPTH - 1; depth <= PG_LIMIT_MODEL_DEPTH + 1; depth += 2) {
        pg_err err = {0};
        pg__graph *g = NULL;
        pg__str text = {0};
        for (size_t i = 0; i < depth; i++)
            assert_ok(pg__str_puts(&text, "{\"class_name\":\"Sequential\",\"config\":[", NULL));
        assert_ok(
            pg__str_puts(&text, "{\"class_name\":\"Dense\",\"config\":{\"name\":\"d\"}}", NULL));
        for (size_t i = 0; i < depth; i++)
            assert_ok(pg__str_puts(&text, "]}", NULL));
        if (depth < PG_LIMIT_MODEL_DEPTH)
            assert_ok(pg__graph_parse(&g, text.s, text.n, &err));
        else
            assert_fails(PG_E_LIMIT, pg__graph_parse(&g, text.s, text.n, &err), &err);
        pg__graph_free(g);
        pg__str_fini(&text);
    }
}

static void long_chains_and_wide_sharing_are_linear(void **state)
{
    (void)state;
    pg__str text = {0};
    assert_ok(pg__str_puts(&text,
                           "{\"class_name\":\"Model\",\"config\":{\"name\":\"m\",\"layers\":["
                           "{\"class_name\":\"InputLayer\",\"name\":\"x0\",\"config\":{}}",
                           NULL));
    for (unsigned i = 1; i <= 20000; i++) /* each adds the one before to itself */
        assert_ok(pg__str_printf(&text, NULL,
                                 ",{\"class_name\":\"Add\",\"name\":\"x%u\",\"config\":{},"
                                 "\"inbound_nodes\":[[[\"x%u\",0,0,{}],[\"x%u\",0,0,{}]]]}",
                                 i, i - 1, i - 1));
    assert_ok(pg__str_puts(
        &text, "],\"input_layers\":[[\"x0\",0,0]],\"output_layers\":[[\"x20000\",0,0]]}}", NULL));
    pg__graph *g = parse(text.s);
    assert_int_equal(g->root->n_layers, 20001);
    assert_int_equal(g->root->layers[777].calls[0].inputs[1].layer, 776);
    pg__graph_free(g);
    pg__str_fini(&text);
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *n, f), *n);
    text[*n] = 0;
    fclose(f);
    return text;
}

static void every_model_json_of_the_test_data_is_read(void **state)
{
    (void)state;
    char root[1024];
    size_t n_read = 0;
    snprintf(root, sizeof root, "%s", pg_testdata);
    char *const roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    assert_non_null(tree);
    for (FTSENT *e; (e = fts_read(tree)) != NULL;) {
        if (e->fts_info != FTS_F ||
            (strcmp(e->fts_name, "template.json") != 0 && strcmp(e->fts_name, "model.json") != 0) ||
            strstr(e->fts_path, "/tf-subclassed/")) /* Python code alone knows its layers */
            continue;
        pg_err err = {0};
        pg__graph *g = NULL;
        size_t n;
        char *text = read_file(e->fts_path, &n);
        if (pg__graph_parse(&g, text, n, &err) != PG_OK)
            fail_msg("%s: %s", e->fts_path, err.msg);
        const int version = strstr(e->fts_path, "/keras-1.")   ? 1
                            : strstr(e->fts_path, "/keras-3.") ? 3
                                                               : 2;
        if (g->dialect != version)
            fail_msg("%s: dialect %d", e->fts_path, g->dialect);
        pg__graph_free(g);
        free(text);
        n_read++;
    }
    fts_close(tree);
    assert_true(n_read >= 69);
}

static pg_status load(pg__graph **g, const char *file, pg_err *err)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", pg_testdata, file);
    return pg__graph_load(g, path, err);
}

static void any_file_with_a_model_can_be_loaded(void **state)
{
    (void)state;
    static const char *const files[] = {
        "files/keras-2.2.4/cnn4-g2/template.json", "files/keras-2.2.4/cnn4-g2/wrapper_model.h5",
        "files/keras-3.6.0-native/cnn4/wrapper.keras",
        "files/keras-1.2.2-py3/make_parallel-cnn4/wrapper_model.h5"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pg_err err = {0};
        pg__graph *g = NULL;
        if (load(&g, files[i], &err) != PG_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(g->n_models, i == 0 ? 1 : 2);
        pg__graph_free(g);
    }
}

static void files_without_a_model_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *file, *say;
        pg_status st;
    } bad[] = {
        {"files/keras-2.2.4/cnn4-g2/wrapper_weights.h5", "no model description", PG_E_UNKNOWN},
        {"manifest.json", "not a model", PG_E_UNKNOWN},
        {"README.md", "README.md", PG_E_UNKNOWN},
        {"nowhere.json", "nowhere.json: cannot open", PG_E_IO},
        {"files", "not a regular file", PG_E_IO},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_err err = {0};
        pg__graph *g = NULL;
        assert_fails(bad[i].st, load(&g, bad[i].file, &err), &err);
        if (!strstr(err.msg, bad[i].say) || !strstr(err.msg, bad[i].file))
            fail_msg("%s: %s", bad[i].file, err.msg);
    }
}

/* What pg_model_text_read() makes of a pipe that gives `pieces`, one write each. */
static pg_status read_pipe(char **text, const char *const *pieces, size_t n, pg_err *err)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < n; i++)
            if (write(ends[1], pieces[i], strlen(pieces[i])) < 0)
                _exit(1);
        _exit(0);
    }
    close(ends[1]);
    const pg_status st = pg_model_text_read(text, ends[0], err);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return st;
}

static void a_model_comes_from_a_pipe(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "\xEF", "\xBB\xBF \n", "{\"class_name\": \"Sequential\",",
        " \"config\": [{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": 2}}]}"};
    static const char *const weights[] = {"\x89HDF\r\n\x1a\n"};
    char *text = NULL;
    pg__graph *g = NULL;
    pg_err err = {0};
    assert_ok(read_pipe(&text, pieces, 4, &err));
    assert_ok(pg__graph_given(&g, "-", text, &err));
    assert_int_equal(g->root->n_layers, 1);
    pg__graph_free(g);
    assert_fails(PG_E_UNKNOWN, pg__graph_given(&g, "-", "[1]", &err), &err);
    assert_non_null(strstr(err.msg, "standard input: "));
    pg_text_free(text);
    assert_fails(PG_E_UNKNOWN, read_pipe(&text, weights, 1, &err), &err);
    assert_non_null(strstr(err.msg, "give a file name"));
    assert_fails(PG_E_UNKNOWN, read_pipe(&text, NULL, 0, &err), &err);
    assert_non_null(strstr(err.msg, "empty"));
    assert_fails(PG_E_IO, pg_model_text_read(&text, 1023, &err), &err);
    assert_fails(PG_E_ARG, pg_model_text_read(&text, -1, &err), &err);
}

PG_TEST_MAIN(cmocka_unit_test(functional_models_have_layers_and_calls),
             cmocka_unit_test(operations_are_no_layers),
             cmocka_unit_test(a_class_is_keras_own_by_its_module),
             cmocka_unit_test(both_forms_of_sequential_are_chains),
             cmocka_unit_test(made_up_names_avoid_those_that_are_taken),
             cmocka_unit_test(the_input_of_a_sequential_is_not_listed),
             cmocka_unit_test(keras_3_calls_are_found_in_args_and_kwargs),
             cmocka_unit_test(keyword_arguments_of_keras_2_may_be_tensors),
             cmocka_unit_test(calls_of_a_template_may_count_from_one),
             cmocka_unit_test(versions_are_told_by_their_forms),
             cmocka_unit_test(wrapping_layers_show_what_they_wrap),
             cmocka_unit_test(a_merge_of_keras_1_holds_models),
             cmocka_unit_test(descriptions_in_other_clothes_are_read),
             cmocka_unit_test(defects_are_named_with_layer_and_key),
             cmocka_unit_test(what_is_no_model_is_told_apart),
             cmocka_unit_test(models_nest_only_so_deep),
             cmocka_unit_test(long_chains_and_wide_sharing_are_linear),
             cmocka_unit_test(every_model_json_of_the_test_data_is_read),
             cmocka_unit_test(any_file_with_a_model_can_be_loaded),
             cmocka_unit_test(files_without_a_model_are_refused_by_name),
             cmocka_unit_test(a_model_comes_from_a_pipe))
