/* graph.c - turns the text of a model description into a graph: parsing, dialect, ownership.
 * graph_build.c finds models and layers, graph_connect.c connects them. */
#include "model/graph/graph.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/graph/graph_impl.h"

/* Keras 2 writes a string or a Policy, since 2.12 with its module; Keras 3 a DTypePolicy. */
static int writes_dtypes_as_keras_3(const pg__json *dtype)
{
    const char *name = pg__json_get_str(dtype, "class_name");
    return pg__json_get(dtype, "module") && !(name && strcmp(name, "Policy") == 0);
}

/* Keras' major version if only that version writes layers in this form, otherwise 0. */
static int dialect_of_layer(const pg__layer *l, const pg__json *entry)
{
    static const char *const keras1[] = {"nb_filter",  "input_dtype",  "init",
                                         "inner_init", "dim_ordering", "consume_less"};
    const pg__json *call = pg__json_at(pg__json_get(entry, "inbound_nodes"), 0);
    if (pg__json_get(call, "args"))
        return 3;
    if (strcmp(l->class_name, "InputLayer") == 0 && pg__json_get(l->config, "batch_shape"))
        return 3;
    if (writes_dtypes_as_keras_3(pg__json_get(l->config, "dtype")))
        return 3;
    for (size_t i = 0; i < sizeof keras1 / sizeof *keras1; i++)
        if (pg__json_get(l->config, keras1[i]))
            return 1;
    return 0;
}

static int dialect_of(const pg__graph *g)
{
    const char *version = pg__json_get_str(g->json, "keras_version");
    if (version && version[0] >= '1' && version[0] <= '3' && version[1] == '.')
        return version[0] - '0';
    for (size_t i = 0; i < g->n_models; i++) {
        const pg__model *m = g->models[i];
        for (size_t k = 0; k < m->n_layers; k++) {
            const int d = dialect_of_layer(&m->layers[k], pg__json_at(m->entries, k));
            if (d)
                return d;
        }
    }
    return 2;
}

/* Copies and parses the text; a JSON string that contains JSON is parsed again. */
static pg_status read_text(pg__graph *g, const char *text, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n_inner = 0;
    PG_TRY(pg__json_parse(&g->json, text, n, err));
    const char *inner = pg__json_bytes(g->json, &n_inner);
    g->n_text = inner ? n_inner : n;
    g->text = pg__mem_strndup(inner ? inner : text, g->n_text);
    if (!g->text) {
        st = pg__nomem(err);
        goto done;
    }
    if (inner) {
        pg__json_free(g->json);
        g->json = NULL;
        PG_TRY(pg__json_parse(&g->json, g->text, g->n_text, err));
    }
done:
    return st;
}

/* The outermost entry as a layer: {"class_name", "config"}, or the bare config of a model. */
static pg_status read_root(pg__layer *root, const pg__graph *g, pg_err *err)
{
    static const pg__json_step whole[] = {{0}};
    static const pg__json_step config[] = {PG_JKEY("config"), {0}};
    const int bare = !pg__json_get(g->json, "class_name") && pg__json_get(g->json, "layers");
    *root = (pg__layer){.name = "model", .trainable = 1};
    root->class_name = pg__json_get_str(g->json, "class_name");
    root->config = bare ? g->json : pg__json_get(g->json, "config");
    root->entry = pg__json_range(g->text, g->n_text, whole);
    root->config_span = pg__json_range(g->text, g->n_text, bare ? whole : config);
    if (bare)
        root->class_name = pg__json_get(g->json, "input_layers") ? "Model" : "Sequential";
    if (pg__json_type_of(g->json) != PG_J_OBJECT || !root->class_name || !root->config)
        return pg_fail(err, PG_E_MISMATCH,
                       "JSON, but not a model: it needs \"class_name\" and \"config\", as "
                       "model.to_json() writes them");
    return PG_OK;
}

static void free_inner(pg__layer *layer)
{
    for (pg__layer *l = layer->inner, *next; l; l = next) {
        next = l->inner;
        pg__mem_free(l);
    }
}

pg_status pg__graph_parse(pg__graph **out, const char *text, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__layer root = {0};
    pg__graph *g = pg__mem_array(1, sizeof *g);
    if (!g)
        return pg__nomem(err);
    PG_TRY(read_text(g, text, n, err));
    PG_TRY(read_root(&root, g, err));
    st = pg__graph_build(g, &root, err);
    free_inner(&root);
    if (st != PG_OK)
        goto done;
    if (!g->root)
        PG_FAIL(PG_E_MISMATCH, "the description of \"%s\" does not list its layers",
                PG_SHOW(root.class_name));
    g->dialect = dialect_of(g);
    *out = g;
    g = NULL;
done:
    pg__graph_free(g);
    return st;
}

static void model_free(pg__model *m)
{
    for (size_t i = 0; i < m->n_layers; i++)
        free_inner(&m->layers[i]);
    pg__mem_free(m->layers);
    pg__mem_free(m->by_name);
    pg__mem_free(m->call_mem);
    pg__mem_free(m->ref_mem);
    pg__mem_free(m->arg_mem);
    pg__mem_free(m);
}

void pg__graph_free(pg__graph *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_models; i++)
        model_free(g->models[i]);
    pg__mem_free(g->models);
    pg__strs_fini(&g->names);
    pg__json_free(g->json);
    pg__mem_free(g->text);
    pg__mem_free(g);
}

int pg__layer_is_op(const pg__layer *l)
{
    return l->is_op;
}

int pg__layer_is_keras(const pg__layer *l)
{
    static const char *const packages[] = {"keras", "tf_keras", "tensorflow.keras",
                                           "tensorflow.python.keras", "keras_core"};
    if (!l->module) /* from a .h5, which has no module, or a registered class */
        return !l->registered_name;
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        const size_t n = strlen(packages[i]);
        if (strncmp(l->module, packages[i], n) == 0 && (!l->module[n] || l->module[n] == '.'))
            return 1;
    }
    return 0;
}

int pg__layer_is_listed(const pg__model *m, size_t i)
{
    const pg__layer *l = &m->layers[i];
    if (pg__layer_is_op(l))
        return 0;
    return !m->sequential || strcmp(l->class_name, "InputLayer") != 0;
}
