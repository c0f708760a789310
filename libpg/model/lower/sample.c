/* sample.c - what a layer class becomes: lowers a small model with it. Its config has every key
 * that any class requires; other classes ignore them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/lower.h"

static const char config[] =
    "\"name\": \"l\", \"trainable\": true, \"activation\": \"relu\", \"axes\": 1, "
    "\"bin_boundaries\": [0.0], \"dims\": [1], \"equation\": \"ab,bc->ac\", \"factor\": 0.2, "
    "\"filters\": 4, \"function\": \"nn.relu\", \"groups\": 1, \"height\": 2, "
    "\"height_factor\": 0.2, \"input_dim\": 4, \"key_dim\": 2, \"kernel_size\": 1, \"mean\": 0.0, "
    "\"n\": 2, \"nb_feature\": 2, \"num_bins\": 4, \"num_heads\": 1, \"num_tokens\": 4, "
    "\"output_dim\": 4, "
    "\"output_shape\": 4, "
    "\"pool_size\": 1, \"rate\": 0.5, \"stddev\": 0.5, \"target_shape\": [-1], \"units\": 4, "
    "\"variance\": 1.0, \"vocabulary\": [1], \"width\": 2, \"width_factor\": 0.2, "
    "\"layer\": {\"class_name\": \"LSTM\", \"config\": {\"name\": \"inner\", \"units\": 4}}, "
    "\"cell\": {\"class_name\": \"LSTMCell\", \"config\": {\"name\": \"inner\", \"units\": 4}}";

/* Shapes of a row; the first that works is used. */
static const char *const shapes[] = {"4", "4,4", "4,4,4", "4,4,4,4", "2,4,4,4,4"};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

/* Keys that only one class accepts. */
#define HEADS ", \"head_dim\": 2, \"num_query_heads\": 2, \"num_key_value_heads\": 1"
static const struct {
    const char *class_name, *keys;
} extra[] = {{"CustomScaleLayer", ", \"scale\": 0.5"},
             {"LayerScale", ", \"init_values\": 0.1, \"projection_dim\": 4"},
             {"GroupQueryAttention", HEADS},
             {"GroupedQueryAttention", HEADS},
             {"Merge", ", \"mode\": \"sum\""},
             {"RandomFlip", ", \"mode\": \"horizontal\""},
             {"StochasticDepth", ", \"drop_path_rate\": 0.5"},
             {"TensorFlowOpLayer", ", \"node_def\": {\"op\": \"Relu\"}"}};

static const char *extra_of(const char *class_name)
{
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
        if (strcmp(class_name, extra[i].class_name) == 0)
            return extra[i].keys;
    return "";
}

/* With a Dense before the layer, so that gradients reach it, unless it takes ids. */
static int model_text(char *out, size_t room, const char *class_name, const char *shape, int n_in,
                      int dense)
{
    const char *from = dense ? "f" : "a";
    const int n = snprintf(
        out, room,
        "{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": ["
        "{\"class_name\": \"InputLayer\", \"name\": \"a\", \"config\": {\"name\": \"a\", "
        "\"batch_input_shape\": [4,%s]}, \"inbound_nodes\": []}, "
        "{\"class_name\": \"Dense\", \"name\": \"f\", \"config\": {\"name\": \"f\", \"units\": 4}, "
        "\"inbound_nodes\": [[[\"a\", 0, 0, {}]]]}, "
        "{\"class_name\": \"%s\", \"name\": \"l\", \"config\": {%s%s}, \"inbound_nodes\": "
        "[[[\"%s\", 0, 0, {}]%s%s%s]]}], \"input_layers\": [[\"a\", 0, 0]], "
        "\"output_layers\": [[\"l\", 0, 0]]}}",
        shape, class_name, config, extra_of(class_name), from, n_in > 1 ? ", [\"" : "",
        n_in > 1 ? from : "", n_in > 1 ? "\", 0, 0, {}]" : "");
    return n > 0 && (size_t)n < room;
}

/* Adds the gradients of all trained variables, as if the model's results were its loss. */
static pg_status add_backward(pg__lowered *m, pg_err *err)
{
    const pg__activity_attrs squares = {0, 1};
    const pg__dims scalar = {.rank = 0};
    pg__val seed, loss;
    pg_status st = PG_OK;
    PG_TRY(pg__tape_value(&m->tape, &scalar, PG_ELEM_REAL, PG_SEED, 0, 0, &seed, err));
    for (size_t k = 0; k < m->n_outputs; k++)
        PG_TRY(pg__emit2(&m->tape, PG_OP_activity, &squares, m->outputs[k], seed, &loss, err));
    PG_TRY(pg__tape_backward(&m->tape, err));
done:
    return st;
}

static pg_status try_model(unsigned char *used, const char *text, int training, pg_err *err)
{
    pg__graph *g = NULL;
    pg__leaves leaves = {0};
    pg__lowered m = {.n_outputs = 0};
    const pg__rules *rules;
    pg_status st = PG_OK;
    PG_TRY(pg__rules_of(&rules, NULL, err));
    PG_TRY(pg__graph_parse(&g, text, strlen(text), err));
    PG_TRY(pg__leaves_of(&leaves, g->root, g->dialect, err));
    PG_TRY(pg__lower(
        &m,
        &(pg__lower_opts){
            .graph = g, .leaves = &leaves, .rules = rules, .n_rows = 4, .training = training},
        err));
    if (training)
        PG_TRY(add_backward(&m, err));
    for (uint32_t i = 0; i < m.tape.n_insts; i++)
        used[m.tape.insts[i].op->kind] = 1;
done:
    pg__lowered_fini(&m);
    pg__leaves_fini(&leaves);
    pg__graph_free(g);
    return st;
}

pg_status pg__sample_ops(unsigned char *used, int *found, const char *class_name, int training,
                         pg_err *err)
{
    char text[4096];
    *found = strcmp(class_name, "InputLayer") == 0; /* has no operation */
    for (size_t k = 0; !*found && k < N_SHAPES * 4; k++) {
        pg_err why = {0};
        if (!model_text(text, sizeof text, class_name, shapes[k / 4], k & 1 ? 2 : 1, !(k & 2)))
            return pg_fail(err, PG_E_ARG, "%s: not a class of Keras", PG_SHOW(class_name));
        const pg_status st = try_model(used, text, training, &why);
        if (st == PG_E_NOMEM)
            return pg__nomem(err);
        *found = st == PG_OK;
    }
    return PG_OK;
}
