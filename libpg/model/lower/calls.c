/* calls.c - arguments of a call besides its tensors: keywords, and masks. Keras 3 writes the
 * computation of masks into the model, as operations (NotEqual, Any, ...) whose results layers get
 * as keywords. Lowering makes masks itself, so operations that only lead to masks are left out; a
 * mask that another layer computes is used. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/calls.h"

static int is_one_of(const char *s, const char *const *words)
{
    for (; s && *words; words++)
        if (strcmp(s, *words) == 0)
            return 1;
    return 0;
}

int pg__is_mask_arg(const char *arg)
{
    static const char *const names[] = {"mask", "query_mask", "value_mask", "key_mask", NULL};
    return arg && is_one_of(arg, names);
}

/* Operations of masks, also in a .h5, which lacks the modules of classes. */
static int may_be_left_out(const pg__layer *l)
{
    static const char *const ops[] = {"Any",        "BroadcastTo", "ExpandDims", "LogicalAnd",
                                      "LogicalNot", "LogicalOr",   "NotEqual",   NULL};
    const int nameless =
        strcmp(l->class_name, "Concatenate") == 0 && !pg__json_get(l->config, "name");
    return pg__layer_is_op(l) || nameless || is_one_of(l->class_name, ops);
}

pg_status pg__layers_needed(unsigned char **out, const pg__model *m, pg_err *err)
{
    unsigned char *needed = pg__mem_array(m->n_layers, 1);
    size_t *stack = pg__mem_array(m->n_layers, sizeof *stack), n = 0;
    if (!needed || !stack) {
        pg__mem_free(needed);
        pg__mem_free(stack);
        return pg__nomem(err);
    }
    for (size_t i = 0; i < m->n_layers; i++)
        if (!may_be_left_out(&m->layers[i]))
            needed[i] = 1, stack[n++] = i;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (!needed[m->outputs[k].layer])
            needed[m->outputs[k].layer] = 1, stack[n++] = m->outputs[k].layer;
    while (n > 0) {
        const pg__layer *l = &m->layers[stack[--n]];
        for (size_t c = 0; c < l->n_calls; c++)
            for (size_t k = 0; k < l->calls[c].n_inputs; k++) {
                const size_t from = l->calls[c].inputs[k].layer;
                if (!needed[from] && !pg__is_mask_arg(l->calls[c].args[k]))
                    needed[from] = 1, stack[n++] = from;
            }
    }
    pg__mem_free(stack);
    *out = needed;
    return PG_OK;
}

pg__val pg__operand(const pg__lowering *lw, const pg__val *in, size_t n_in, const char *name,
                    size_t position)
{
    for (size_t k = 0; k < n_in; k++) {
        const char *arg = lw->args ? lw->args[k] : NULL;
        if (arg ? strcmp(arg, name) == 0 : position-- == 0)
            return in[k];
    }
    return PG_NO_VAL;
}

/* The operand that a mask is for. */
static size_t target_of(const char *mask, size_t nth, const char *const *args, size_t n)
{
    static const char *const names[][2] = {
        {"query_mask", "query"}, {"value_mask", "value"}, {"key_mask", "key"}};
    size_t position = nth;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(mask, names[i][0]) == 0) {
            position = i;
            for (size_t k = 0; k < n; k++)
                if (args[k] && strcmp(args[k], names[i][1]) == 0)
                    return k;
        }
    for (size_t k = 0; k < n; k++)
        if (!args[k] && position-- == 0)
            return k;
    return 0;
}

/* A new value with the same memory, so that only this call sees the mask. */
static pg_status set_own_mask(pg__lowering *lw, pg__val *v, pg__val mask, pg_err *err)
{
    const pg__reshape_attrs same = {.to = *pg__dims_at(lw, *v)};
    pg_status st = PG_OK;
    PG_TRY(pg__emit1(&lw->to->tape, PG_OP_reshape, &same, *v, v, err));
    PG_TRY(pg__lower_as_real(lw, mask, &mask, err));
    PG_TRY(pg__set_mask(lw, *v, mask, err));
done:
    return st;
}

/* The operand of the nth mask in "mask": a list may leave some out, and Keras 2 repeats it with
 * every operand. */
static size_t place_of(const pg__call *call, size_t nth)
{
    const pg__json *list = pg__json_get(call->kwargs, "mask");
    const size_t n = pg__json_type_of(list) == PG_J_ARRAY ? pg__json_len(list) : 0;
    size_t n_given = 0;
    if (pg__json_str(pg__json_at(list, 0))) /* not a list but [layer, node, tensor] */
        return nth;
    for (size_t i = 0; i < n; i++)
        n_given += pg__json_type_of(pg__json_at(list, i)) != PG_J_NULL;
    for (size_t i = 0; n_given > 0 && i < n; i++)
        if (pg__json_type_of(pg__json_at(list, i)) != PG_J_NULL && nth-- % n_given == 0)
            return i;
    return nth;
}

pg_status pg__split_masks(pg__lowering *lw, const pg__call *call, pg__val *in, const char **args,
                          size_t *n, int *given, pg_err *err)
{
    size_t kept = 0, nth = 0;
    pg_status st = PG_OK;
    pg__val *all = pg__mem_array(call->n_inputs, sizeof *all);
    if (!all)
        return pg__nomem(err);
    for (size_t k = 0; k < call->n_inputs; k++) {
        all[k] = in[k];
        if (pg__is_mask_arg(call->args[k]))
            continue;
        in[kept] = all[k];
        args[kept++] = call->args[k];
    }
    for (size_t k = 0; kept > 0 && k < call->n_inputs; k++) {
        if (!pg__is_mask_arg(call->args[k]))
            continue;
        const size_t to = target_of(call->args[k], place_of(call, nth++), args, kept);
        if (all[k] == PG_NO_VAL)
            continue;
        *given |= pg__mask_of(lw, in[to]) == PG_NO_VAL;
        PG_TRY(set_own_mask(lw, &in[to], all[k], err));
    }
    *n = kept;
done:
    pg__mem_free(all);
    return st;
}
