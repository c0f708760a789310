/* translate.c - walks the tape of a model and makes an ONNX graph of it. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/spatial.h"
#include "onnx/onnx.h"

typedef void (*translator)(pg__onnx *x, const pg__inst *i);

static const translator translators[PG_N_OPS] = {
#define PG_ONNX_OP(name, fn, words) [PG_OP_##name] = pg__onnx_##fn,
#include "onnx/ops.def"
#undef PG_ONNX_OP
};

/* ---- who makes and reads what ---- */

static void count_uses(pg__onnx *x)
{
    const pg__tape *t = x->tape;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__onnx_in(x, i, k) != PG_NO_VAL) {
                x->values[pg__onnx_in(x, i, k)].uses++;
                x->values[pg__onnx_in(x, i, k)].user = at + 1;
            }
        for (uint32_t k = 0; k < i->n_out; k++)
            x->values[pg__out(t, i, k)].maker = at + 1;
    }
    for (size_t k = 0; k < x->low->n_outputs; k++)
        x->values[x->low->outputs[k]].uses++;
    for (size_t k = 0; k < x->low->n_states; k++)
        x->values[x->low->states[k].after].uses++;
}

static void bind_params(pg__onnx *x)
{
    for (size_t k = 0; k < x->low->n_params; k++) {
        const pg__val v = x->low->params[k].value;
        if (v == PG_NO_VAL)
            continue;
        pg__onnx_value *value = &x->values[v];
        pg__take_whole(&value->take, x->weights, x->tensors[k]);
        value->is_static = value->has_take = 1;
        value->param = (uint32_t)k + 1;
    }
}

/* ---- inputs ---- */

/* Attention's probabilities have four axes, too: rows, heads and steps. */
static int is_attention(const pg__onnx *x, pg__val v)
{
    const uint32_t maker = x->values[v].maker;
    const pg__inst *i = maker ? &x->tape->insts[maker - 1] : NULL;
    if (i && i->op->kind == PG_OP_reshape)
        return is_attention(x, pg__onnx_in(x, i, 0));
    return i && i->op->kind == PG_OP_attention && v != pg__out(x->tape, i, 0);
}

int pg__onnx_is_image(const pg__onnx *x, pg__val v)
{
    return x->o->channels_first && pg__onnx_dims(x, v)->rank == 4 && !is_attention(x, v);
}

static int has_images(const pg__onnx *x)
{
    int any = 0;
    for (size_t k = 0; k < x->low->n_inputs; k++)
        any |= pg__onnx_is_image(x, x->low->inputs[k]);
    for (size_t k = 0; k < x->low->n_outputs; k++)
        any |= pg__onnx_is_image(x, x->low->outputs[k]);
    return any;
}

/* Layers that have channels first already turn their images themselves. */
static pg_status check_layout(const pg__onnx *x, pg_err *err)
{
    if (!has_images(x))
        return PG_OK;
    for (uint32_t at = 0; at < x->tape->n_insts; at++) {
        const pg__inst *i = &x->tape->insts[at];
        const pg__layer *l = i->origin < x->leaves->n ? x->leaves->v[i->origin].layer : NULL;
        const int turns =
            i->op->kind == PG_OP_transpose && pg__onnx_dims(x, pg__out(x->tape, i, 0))->rank == 4;
        for (const pg__layer *in = turns ? l : NULL; in; in = in->inner)
            if (pg__is_channels_first(in))
                return pg_fail(err, PG_E_UNSUPPORTED,
                               "%s: has channels first already; inputs cannot be turned to that",
                               PG_SHOW(l->name));
    }
    return PG_OK;
}

static pg__onnx_perm edge_perm(const pg__onnx *x, pg__val v)
{
    return pg__onnx_is_image(x, v) ? pg__onnx_first(4) : pg__onnx_plain();
}

/* Keras' type of an input; `elem` is what the operations take. */
static pg_dtype input_type(const pg__layer *l, pg__elem elem)
{
    static const pg_dtype types[] = {PG_F16, PG_F32, PG_F64, PG_I8,  PG_I16, PG_I32,
                                     PG_I64, PG_U8,  PG_U16, PG_U32, PG_U64, PG_BOOL};
    const char *said = pg__json_get_str(l->config, "dtype");
    if (strcmp(l->class_name, "InputLayer") == 0)
        for (size_t k = 0; said && k < sizeof types / sizeof *types; k++)
            if (strcmp(said, pg_dtype_name(types[k])) == 0)
                return types[k];
    return elem == PG_ELEM_INT ? PG_I32 : PG_F32;
}

static pg_status name_input(pg__onnx *x, const pg__layer *l, pg__onnx_name *out, pg_err *err)
{
    pg__str name = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&name, err, "%s%s", l->name,
                          strcmp(l->class_name, "InputLayer") == 0 ? "" : "_input"));
    PG_TRY(pg__onnx_new_name(&x->g, name.s, out, err));
done:
    pg__str_fini(&name);
    return st;
}

static pg_status name_unknown(pg__onnx *x, pg__val v, pg__onnx_name input, pg_err *err)
{
    const pg__dims *d = pg__onnx_dims(x, v);
    pg_status st = PG_OK;
    for (uint32_t a = 0; a < d->rank; a++) {
        pg__str name = {0};
        if (d->d[a] != PG_DIM_ANY)
            continue;
        if (a == 0)
            PG_TRY(pg__str_puts(&name, "batch", err));
        else
            PG_TRY(pg__str_printf(&name, err, "%s_%u", x->g.names.v[input], a));
        pg__onnx_name_input(x, v, a, name.s); /* takes it over */
    }
done:
    return st;
}

static pg_status bind_input(pg__onnx *x, size_t k, pg_err *err)
{
    const pg__model *m = x->model->root;
    const pg__layer *l = &m->layers[m->inputs[k].layer];
    const pg__val v = x->low->inputs[k];
    const pg__elem elem = x->tape->values[v].elem;
    const pg_dtype type = input_type(l, elem),
                   wanted = elem == PG_ELEM_INT ? PG_I32 : pg__onnx_real(x, v);
    const pg__onnx_perm p = edge_perm(x, v);
    pg__onnx_name name = 0;
    pg_status st = PG_OK;
    PG_TRY(name_input(x, l, &name, err));
    x->inputs[x->n_inputs] = name;
    x->input_types[x->n_inputs++] = type;
    PG_TRY(name_unknown(x, v, name, err));
    x->real = pg__onnx_real(x, v);
    pg__onnx_set(x, v, &p, type == wanted ? name : pg__onnx_cast(x, name, wanted));
    st = x->st;
done:
    return st;
}

/* The state of a stateful layer is an input that is 0 unless it is given. */
static pg_status bind_state(pg__onnx *x, size_t k, pg_err *err)
{
    const pg__state *s = &x->low->states[k];
    const pg__dims *d = pg__onnx_dims(x, s->before);
    pg__onnx_init init = {.dtype = pg__onnx_real(x, s->before), .rank = d->rank, .is_optional = 1};
    pg__str name = {0};
    pg_status st = PG_OK;
    if (d->d[0] == PG_DIM_ANY)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: is stateful, but the model does not fix its batch size",
                PG_SHOW(s->leaf->layer->name));
    if (pg__dims_elems(d) > PG_MAX_CONSTANT)
        PG_FAIL(PG_E_LIMIT, "%s: has a state of %s, which is too large",
                PG_SHOW(s->leaf->layer->name), PG_SHAPE(d));
    PG_TRY(pg__str_printf(&name, err, "%s/%s%sstate_%u", s->leaf->layer->name, s->sub,
                          *s->sub ? "/" : "", s->k));
    PG_TRY(pg__onnx_new_name(&x->g, name.s, &init.name, err));
    memcpy(init.dims, d->d, sizeof init.dims);
    init.values = pg__mem_array((size_t)pg__dims_elems(d), sizeof *init.values);
    if (!init.values)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__onnx_add_init(&x->g, &init, err));
    x->inputs[x->n_inputs] = init.name;
    x->input_types[x->n_inputs++] = init.dtype;
    x->real = init.dtype;
    pg__onnx_set_plain(x, s->before, init.name);
    st = x->st;
done:
    pg__str_fini(&name);
    return st;
}

/* ---- outputs ---- */

static int is_free(const pg__onnx *x, pg__onnx_name name)
{
    for (size_t k = 0; k < x->n_inputs; k++)
        if (x->inputs[k] == name)
            return 0;
    for (size_t k = 0; k < x->n_outputs; k++)
        if (x->outputs[k] == name)
            return 0;
    for (size_t k = 0; k < x->g.n_inits; k++)
        if (x->g.inits[k].name == name)
            return 0;
    return 1;
}

/* No input and no output before this one has the name. */
static int is_new(const pg__onnx *x, const char *name)
{
    for (size_t k = 0; k < x->n_inputs; k++)
        if (strcmp(x->g.names.v[x->inputs[k]], name) == 0)
            return 0;
    for (size_t k = 0; k < x->n_outputs; k++)
        if (strcmp(x->g.names.v[x->outputs[k]], name) == 0)
            return 0;
    return 1;
}

/* A later output may be called so. */
static int is_layer(const pg__onnx *x, const char *name)
{
    const pg__model *m = x->model->root;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (strcmp(m->layers[m->outputs[k].layer].name, name) == 0)
            return 1;
    return 0;
}

static pg_status add_output(pg__onnx *x, pg__val v, const char *name, pg_dtype to, pg_err *err)
{
    const pg__onnx_perm p = edge_perm(x, v);
    pg__onnx_name y;
    pg_status st = PG_OK;
    x->real = pg__onnx_real(x, v);
    y = pg__onnx_as(x, v, &p);
    if (x->tape->values[v].elem != PG_ELEM_INT && to != x->real)
        y = pg__onnx_cast(x, y, to);
    if (!is_free(x, y))
        y = pg__onnx_op1(x, "Identity", y);
    PG_TRY(x->st);
    if (!is_new(x, name))
        PG_FAIL(PG_E_UNSUPPORTED,
                "%s: is the name of an output of the model and of another output "
                "or an input; give its layer another name",
                PG_SHOW(name));
    x->outputs[x->n_outputs++] = y;
    PG_TRY(pg__onnx_rename(&x->g, y, name, err));
done:
    return st;
}

/* An output has the name of its layer, or the first of "NAME_1", "NAME_2", ... that is free. */
static pg_status name_output(const pg__onnx *x, const char *like, size_t k, pg__strs *names,
                             pg_err *err)
{
    pg__str name = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(&name, like, err));
    for (; !is_new(x, name.s) || (name.n > strlen(like) && is_layer(x, name.s)); k++) {
        name.n = 0;
        PG_TRY(pg__str_printf(&name, err, "%s_%zu", like, k));
    }
    PG_TRY(pg__strs_add(names, name.s, name.n, err));
done:
    pg__str_fini(&name);
    return st;
}

static pg_status add_outputs(pg__onnx *x, pg_err *err)
{
    const pg__model *m = x->model->root;
    pg__strs names = {0};
    pg_status st = PG_OK;
    x->at = NULL;
    for (size_t k = 0; k < x->low->n_outputs; k++) {
        PG_TRY(name_output(x, m->layers[m->outputs[k].layer].name, k, &names, err));
        PG_TRY(add_output(x, x->low->outputs[k], names.v[k], PG_F32, err));
    }
    for (size_t k = 0; k < x->low->n_states; k++) {
        const char *before = x->g.names.v[x->inputs[x->low->n_inputs + k]];
        PG_TRY(pg__strs_printf(&names, err, "%s/next", before));
        PG_TRY(add_output(x, x->low->states[k].after, names.v[names.n - 1],
                          pg__onnx_real(x, x->low->states[k].before), err));
    }
done:
    pg__strs_fini(&names);
    return st;
}

/* ---- the walk ---- */

static void translate(pg__onnx *x, const pg__inst *i)
{
    x->at = i;
    x->real = x->asked;
    for (uint32_t k = 0; k < i->n_out; k++)
        if (x->values[pg__out(x->tape, i, k)].is_exact)
            x->real = PG_F32;
    if (pg__onnx_note_static(x, i))
        return;
    pg__onnx_name_dims(x, i);
    if (x->values[pg__out(x->tape, i, 0)].versions) /* an instruction before it has done its work */
        return;
    if (translators[i->op->kind])
        translators[i->op->kind](x, i);
    else
        pg__onnx_refuse(x, "its operation \"%s\" has no counterpart in ONNX", i->op->name);
}

static pg_status make_room(pg__onnx *x, pg_err *err)
{
    const size_t n = x->low->n_inputs + x->low->n_states;
    x->values = pg__mem_array(x->tape->n_values, sizeof *x->values);
    x->inputs = pg__mem_array(n, sizeof *x->inputs);
    x->input_types = pg__mem_array(n, sizeof *x->input_types);
    x->outputs = pg__mem_array(x->low->n_outputs + x->low->n_states, sizeof *x->outputs);
    return x->values && x->inputs && x->input_types && x->outputs ? PG_OK : pg__nomem(err);
}

pg_status pg__onnx_translate(pg__onnx *x, pg_err *err)
{
    pg_status st = PG_OK;
    x->tape = &x->low->tape;
    x->err = err;
    PG_TRY(make_room(x, err));
    count_uses(x);
    pg__onnx_find_exact(x);
    PG_TRY(x->st);
    bind_params(x);
    for (size_t k = 0; k < x->low->n_inputs; k++)
        PG_TRY(bind_input(x, k, err));
    for (size_t k = 0; k < x->low->n_states; k++)
        PG_TRY(bind_state(x, k, err));
    PG_TRY(check_layout(x, err));
    for (uint32_t at = 0; at < x->tape->n_insts; at++) {
        translate(x, &x->tape->insts[at]);
        PG_TRY(x->st);
    }
    PG_TRY(add_outputs(x, err));
    PG_TRY(pg__onnx_prune(&x->g, x->outputs, x->n_outputs, err));
    PG_TRY(pg__onnx_join_concats(&x->g, x->outputs, x->n_outputs, err));
done:
    return st;
}

void pg__onnx_fini(pg__onnx *x)
{
    for (uint32_t v = 0; x->values && v < x->tape->n_values; v++)
        pg__mem_free(x->values[v].data);
    for (size_t k = 0; k < x->n_syms; k++)
        pg__mem_free(x->syms[k].param);
    pg__mem_free(x->values);
    pg__mem_free(x->versions);
    pg__mem_free(x->syms);
    pg__mem_free(x->steps);
    pg__mem_free(x->inputs);
    pg__mem_free(x->input_types);
    pg__mem_free(x->outputs);
    pg__mem_free(x->tensors);
    pg__onnx_graph_fini(&x->g);
}
