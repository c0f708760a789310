/* inputs.c - shapes and types of a model's inputs, as every generation writes them. */
#include <string.h>

#include "base/limits.h"
#include "base/try.h"
#include "model/lower/lower.h"

/* A list of sizes, null if unknown; `batch` goes before lists that leave it out. */
static pg_status read_shape(pg__dims *out, const pg__layer *l, const pg__json *list, int batch,
                            pg_err *err)
{
    const size_t n = pg__json_len(list);
    if (n + (size_t)batch > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%s: an input of %zu dimensions is not supported",
                       PG_SHOW(l->name), n);
    *out = (pg__dims){.rank = (uint32_t)n + (uint32_t)batch, .d = {PG_DIM_ANY}};
    for (size_t i = 0; i < n; i++) {
        const pg__json *j = pg__json_at(list, i);
        int64_t v = 0;
        if (pg__json_type_of(j) == PG_J_NULL)
            v = -1;
        else if (!pg__json_int(j, &v) || v < 0 || v > INT32_MAX)
            return pg_fail(err, PG_E_FORMAT, "%s: the input shape holds something other than sizes",
                           PG_SHOW(l->name));
        out->d[i + (size_t)batch] = v < 0 ? PG_DIM_ANY : (uint64_t)v;
    }
    return PG_OK;
}

/* Does input k of the model reach an Embedding, which reads integers? */
static int feeds_embedding(const pg__model *m, size_t layer, unsigned depth)
{
    const pg__layer *own = &m->layers[layer];
    if (strcmp(own->class_name, "Embedding") == 0)
        return 1;
    if (own->model && m->sequential && depth < PG_LIMIT_MODEL_DEPTH && own->model->n_inputs > 0)
        return feeds_embedding(own->model, own->model->inputs[0].layer, depth + 1);
    for (size_t i = 0; i < m->n_layers; i++) {
        const pg__layer *l = &m->layers[i];
        for (size_t c = 0; c < l->n_calls; c++)
            for (size_t k = 0; k < l->calls[c].n_inputs; k++) {
                if (l->calls[c].inputs[k].layer != layer)
                    continue;
                if (strcmp(l->class_name, "Embedding") == 0)
                    return 1;
                if (l->model && depth < PG_LIMIT_MODEL_DEPTH && k < l->model->n_inputs &&
                    feeds_embedding(l->model, l->model->inputs[k].layer, depth + 1))
                    return 1;
            }
    }
    return 0;
}

static int is_integer(const char *dtype)
{
    return dtype && (strncmp(dtype, "int", 3) == 0 || strncmp(dtype, "uint", 4) == 0);
}

/* In Keras 1 and 2, the first layer of a Sequential may give it as input_dim (and input_length). */
static pg_status shape_of_dims(pg__dims *out, const pg__layer *l, pg_err *err)
{
    const int is_embedding = strcmp(l->class_name, "Embedding") == 0;
    int64_t dim = 0, length = -1;
    (void)pg__json_int(pg__json_get(l->config, "input_length"), &length);
    if (is_embedding) {
        *out = pg__dims_of(
            2, (const uint64_t[]){PG_DIM_ANY, length < 0 ? PG_DIM_ANY : (uint64_t)length});
        return PG_OK;
    }
    if (!pg__json_int(pg__json_get(l->config, "input_dim"), &dim) || dim <= 0)
        return pg_fail(err, PG_E_MISMATCH, "%s: the model does not say the shape of its input",
                       PG_SHOW(l->name));
    *out = pg__dims_of(2, (const uint64_t[]){PG_DIM_ANY, (uint64_t)dim});
    return PG_OK;
}

pg_status pg__input_shape(pg__dims *out, pg__elem *elem, const pg__model *m, const pg__layer *l,
                          pg_err *err)
{
    static const char *const with_batch[] = {"batch_input_shape", "batch_shape"};
    const pg__json *own = pg__json_get(l->config, "input_shape");
    const pg__json *built = pg__json_get(m->config, "build_input_shape");
    *elem = is_integer(pg__json_get_str(l->config, "dtype")) ||
                    feeds_embedding(m, (size_t)(l - m->layers), 0)
                ? PG_ELEM_INT
                : PG_ELEM_REAL;
    if (l->model && m->sequential && l->model->n_inputs > 0 &&
        !built) /* the first layer is a model */
        return pg__input_shape(out, elem, l->model, &l->model->layers[l->model->inputs[0].layer],
                               err);
    for (size_t i = 0; i < 2; i++) {
        const pg__json *list = pg__json_get(l->config, with_batch[i]);
        if (pg__json_type_of(list) == PG_J_ARRAY)
            return read_shape(out, l, list, 0, err);
    }
    if (pg__json_type_of(own) == PG_J_ARRAY)
        return read_shape(out, l, own, 1, err);
    if (pg__json_type_of(built) == PG_J_ARRAY)
        return read_shape(out, l, built, 0, err);
    return shape_of_dims(out, l, err);
}
