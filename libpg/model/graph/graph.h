/* graph.h - a model as its JSON describes it (dialects of Keras 1, 2, tf.keras and 3): layers,
 * nested models, calls. The graph owns all strings. Nothing is executed: Lambda code is a string
 * like any other. base/limits.h has the limits on depth, size and count. */
#ifndef PG_MODEL_GRAPH_GRAPH_H
#define PG_MODEL_GRAPH_GRAPH_H

#include "base/json.h"

typedef struct pg__model pg__model;
typedef struct pg__layer pg__layer;

/* One tensor: output `tensor` of call `node` of a layer. Node numbers are those of the file; the
 * first call of a layer inside a graph need not be 0 (it is 1 if the layer was built before). */
typedef struct pg__tensor_ref {
    size_t layer; /* index into pg__model.layers */
    uint32_t node, tensor;
} pg__tensor_ref;

typedef struct pg__call {
    pg__tensor_ref *inputs;
    const char **args; /* per input: its keyword ("value", "mask"), or NULL */
    size_t n_inputs;
    const pg__json *node;   /* the whole entry of "inbound_nodes"; NULL in a Sequential */
    const pg__json *kwargs; /* keyword arguments, including plain values; NULL if there are none */
} pg__call;

struct pg__layer {
    const char *name; /* entry key "name", or config.name; invented ("sequential_1") if the list
                         form of Sequential gives none */
    const char *class_name;               /* "Dense", "Model", "Functional", ... */
    const char *module, *registered_name; /* Keras 3, else NULL */
    const pg__json *config;
    pg__json_span entry,
        config_span;  /* bytes of the layer's entry and of its "config" in the text */
    int trainable;    /* config.trainable, missing = 1 */
    pg__model *model; /* nested model, or NULL */
    pg__layer *inner; /* the "layer" of a wrapping layer (TimeDistributed, Bidirectional) */
    pg__call *calls;  /* inbound nodes; in a Sequential every layer but the first has one */
    size_t n_calls;
    uint32_t first_node; /* number of calls[0] in the refs to this layer */
    int is_op;           /* see pg__layer_is_op() */
};

struct pg__model {
    const char *class_name; /* "Sequential", "Model", "Functional", or a subclass' name */
    const char *name;       /* may be NULL (list form of Sequential) */
    int sequential;
    pg__layer *layers; /* `layers` order of the config */
    size_t n_layers;
    pg__tensor_ref *inputs, *outputs; /* input_layers, output_layers; the ends of a Sequential */
    size_t n_inputs, n_outputs;
    pg__json_span config_span;
    const pg__json *config, *entries;   /* its own config, and the list of layers in it */
    size_t *by_name;                    /* layer indices sorted by name, for pg__model_find() */
    void *call_mem, *ref_mem, *arg_mem; /* storage of calls, inputs and outputs */
};

typedef struct pg__graph {
    char *text; /* a copy of the JSON text */
    size_t n_text;
    pg__json *json;
    int dialect; /* Keras' major version, judged by its forms: 1, 2 or 3 */
    pg__model *root;
    pg__model **models; /* all models, the root first: each is freed once, without recursion */
    size_t n_models, cap_models;
    pg__strs names; /* invented names */
} pg__graph;

/* Parses the text of a model_config, model JSON or config.json ({"class_name", "config", ...}), and
 * also a bare get_config() or a JSON string that contains the JSON. PG_E_FORMAT with "LAYER:
 * reason"; PG_E_LIMIT; PG_E_MISMATCH: JSON, but not a model. Errors name layer and key. */
pg_status pg__graph_parse(pg__graph **out, const char *text, size_t n, pg_err *err);
void pg__graph_free(pg__graph *g); /* NULL is allowed */

/* Reads a model description from a file: model JSON, full .h5 or .keras. Checkpoints are opened
 * with pg_store_open(). PG_E_UNKNOWN if the file holds no description; messages start with the
 * path. */
pg_status pg__graph_load(pg__graph **out, const char *path, pg_err *err);

/* The same from a text that was already read, whose name is path: pg__model_name(), "standard
 * input" for "-". If text is NULL, opens path. */
pg_status pg__graph_given(pg__graph **out, const char *path, const char *text, pg_err *err);
const char *pg__model_name(const char *path, const char *text);

/* The call that ref names, or NULL for an InputLayer's tensor. Every ref of a graph leads to one.
 */
const pg__call *pg__call_of(const pg__model *m, pg__tensor_ref ref);

/* Keras 3 lists operations among the layers of a config (keras.src.ops.core Cast, x + y); they are
 * not layers and appear nowhere else. */
int pg__layer_is_op(const pg__layer *l);

/* 1 if the class belongs to Keras: by its module, if the description has it (keras.layers,
 * keras.src..., tf_keras..., tensorflow.keras...), and if nobody registered it. */
int pg__layer_is_keras(const pg__layer *l);

/* Layers that Keras lists in `layer_names` for this model: all but operations and the InputLayer of
 * a Sequential. */
int pg__layer_is_listed(const pg__model *m, size_t i);

/* Index by name, or (size_t)-1. */
size_t pg__model_find(const pg__model *m, const char *name);

#endif
