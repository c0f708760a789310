/* layer_wrapper.c - layers around another layer: they hold its variables under other names, and
 * sometimes variables of their own. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/lower/layers.h"
#include "model/lower/recurrent.h"

pg_status pg__vars_time_distributed(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    if (!l->inner)
        return pg__vars_unknown(out);
    return pg__vars_add_inner(out, l->inner, l->inner->name, dialect, err);
}

/* The two directions and the prefixes of their variables. The backward layer is a reversed copy of
 * the forward one, unless the config has another. */
typedef struct directions {
    char forward[80], backward[80];
    pg__layer reverse;
    int is_own; /* reverse has a config of its own */
} directions;

/* forward_NAME, then backward_NAME. Keras 3 stores the name with its prefix. */
static void find_directions(directions *d, const pg__layer *l, int dialect)
{
    const pg__json *other = pg__json_get(l->config, "backward_layer");
    const pg__json *config = pg__json_get(other, "config");
    const char *name = l->inner->name;
    if (strncmp(name, "forward_", 8) == 0)
        name += 8;
    snprintf(d->forward, sizeof d->forward, "forward_%s", name);
    snprintf(d->backward, sizeof d->backward, "backward_%s", name);
    d->reverse = *l->inner;
    d->is_own = config && pg__json_get_str(other, "class_name");
    if (!d->is_own)
        return;
    d->reverse = (pg__layer){.name = l->name,
                             .class_name = pg__json_get_str(other, "class_name"),
                             .config = config,
                             .trainable = pg__json_bool(pg__json_get(config, "trainable"), 1)};
    name = pg__json_get_str(config, "name");
    if (name)
        snprintf(d->backward, sizeof d->backward, "%s%s",
                 dialect == 3 || strncmp(name, "backward_", 9) == 0 ? "" : "backward_", name);
}

pg_status pg__vars_bidirectional(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    directions d;
    pg_status st = PG_OK;
    if (!l->inner || l->inner->model || l->inner->inner) /* nothing that nests further */
        return pg__vars_unknown(out);
    find_directions(&d, l, dialect);
    PG_TRY(pg__vars_add_inner(out, l->inner, d.forward, dialect, err));
    PG_TRY(pg__vars_add_inner(out, &d.reverse, d.backward, dialect, err));
done:
    return st;
}

pg_status pg__vars_spectral(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    pg_status st = PG_OK;
    if (!l->inner)
        return pg__vars_unknown(out);
    PG_TRY(pg__vars_add_inner(out, l->inner, l->inner->name, dialect, err));
    PG_TRY(pg__vars_add(out, "vector_u", "sn_u", 0, 2, (uint64_t[]){1, PG_DIM_ANY}, err));
done:
    return st;
}

/* ---- operations ---- */

/* The name as the leaf holds it: it outlives the call. */
static const char *kept_sub(const pg__lowering *lw, const char *sub)
{
    for (size_t i = 0; i < lw->leaf->vars.n; i++)
        if (strcmp(lw->leaf->vars.v[i].sub, sub) == 0)
            return lw->leaf->vars.v[i].sub;
    return "";
}

static pg_status one_direction(pg__lowering *lw, const pg__layer *l, const char *sub,
                               size_t first_var, const pg__rnn_call *call, pg__results *out,
                               pg_err *err)
{
    const char *outer = lw->sub;
    lw->sub = kept_sub(lw, sub);
    const pg_status st = pg__lower_direction(lw, l, first_var, call, out, err);
    lw->sub = outer;
    return st;
}

static pg_status merge(pg__lowering *lw, const pg__layer *l, pg__val a, pg__val b, pg__results *out,
                       pg_err *err)
{
    const pg__json *which = pg__json_get(l->config, "merge_mode");
    const char *mode = pg__json_type_of(which) == PG_J_NONE ? "concat" : pg__json_str(which);
    const pg__concat_attrs last = {.axis = pg__dims_at(lw, a)->rank - 1};
    const pg__binary_attrs product = {PG_MULTIPLY};
    const pg__affine_attrs half = {.scale = 0.5};
    pg__tape *t = &lw->to->tape;
    pg_status st = PG_OK;
    out->n = 1;
    if (!mode) {
        out->v[0] = a;
        out->v[1] = b;
        out->n = 2;
    } else if (strcmp(mode, "concat") == 0) {
        PG_TRY(pg__emit2(t, PG_OP_concat, &last, a, b, out->v, err));
    } else if (strcmp(mode, "mul") == 0) {
        PG_TRY(pg__emit2(t, PG_OP_binary, &product, a, b, out->v, err));
    } else if (strcmp(mode, "sum") == 0 || strcmp(mode, "ave") == 0) {
        PG_TRY(pg__emit2(t, PG_OP_add, NULL, a, b, out->v, err));
        if (mode[0] == 'a')
            PG_TRY(pg__emit1(t, PG_OP_affine, &half, out->v[0], out->v, err));
    } else {
        PG_FAIL(PG_E_FORMAT, "%s: unknown \"merge_mode\" \"%s\"", PG_SHOW(l->name), PG_SHOW(mode));
    }
done:
    return st;
}

pg_status pg__lower_bidirectional(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    const size_t half = (n_in - 1) / 2, first = lw->n_vars ? lw->first_var : 0;
    directions d;
    size_t n_forward;
    pg__results y, back;
    pg_status st = PG_OK;
    if (!pg__is_recurrent(l->inner) || n_in % 2 == 0)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: Bidirectional around %s with %zu inputs is not supported",
                PG_SHOW(l->name), l->inner ? PG_SHOW(l->inner->class_name) : "nothing", n_in);
    find_directions(&d, l, lw->opts->graph->dialect);
    if (!pg__is_recurrent(&d.reverse))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"backward_layer\" is not a recurrent layer",
                PG_SHOW(l->name));
    pg__rnn_call call = {.x = in[0],
                         .states = in + 1,
                         .n_states = half,
                         .zero_masked = lw->opts->rules->bidirectional_zeros,
                         .ignores_mask = pg__call_ignores_mask(lw, n_in)};
    PG_TRY(one_direction(lw, l->inner, d.forward, first, &call, &y, err));
    call.states += half;
    call.turned = !d.is_own;
    call.flip = 1;
    PG_TRY(pg__count_vars(lw, l->inner, &n_forward, err));
    PG_TRY(one_direction(lw, &d.reverse, d.backward, first + n_forward, &call, &back, err));
    PG_TRY(merge(lw, l, y.v[0], back.v[0], out, err));
    for (size_t k = 0; k < out->n && pg__mask_of(lw, y.v[0]) != PG_NO_VAL; k++)
        PG_TRY(pg__pass_mask(lw, y.v[0], out->v[k], err));
    for (size_t k = 1; k < y.n; k++)
        out->v[out->n++] = y.v[k];
    for (size_t k = 1; k < back.n; k++)
        out->v[out->n++] = back.v[k];
done:
    return st;
}

#define MAX_STEPS 512 /* that are called one after the other */
#define MAX_RUNS  64

/* (rows, steps, ...) and (rows * steps, ...) */
static pg__dims folded(const pg__dims *d)
{
    pg__dims to = {.rank = d->rank - 1, .d = {pg__dim_mul(d->d[0], d->d[1])}};
    for (uint32_t i = 2; i < d->rank; i++)
        to.d[i - 1] = d->d[i];
    return to;
}
static pg__dims unfolded(const pg__dims *d, const pg__dims *like)
{
    pg__dims to = {.rank = d->rank + 1, .d = {like->d[0], like->d[1]}};
    for (uint32_t i = 1; i < d->rank; i++)
        to.d[i + 1] = d->d[i];
    return to;
}

/* A step of x (rows, steps, ...) as (rows, ...), with its part of a mask that has more axes than
 * the steps. */
static pg_status take_step(pg__lowering *lw, pg__val x, pg__val mask, uint64_t step, pg__val *out,
                           pg_err *err)
{
    pg__val parts[] = {x, mask};
    pg_status st = PG_OK;
    for (size_t k = 0; k < 2 && parts[k] != PG_NO_VAL; k++) {
        const pg__dims d = *pg__dims_at(lw, parts[k]);
        pg__pad_attrs cut = {.before = {0, -(int64_t)step},
                             .after = {0, -(int64_t)(d.d[1] - step - 1)}};
        pg__dims to = {.rank = d.rank - 1, .d = {d.d[0]}};
        memcpy(to.d + 1, d.d + 2, (d.rank - 2) * sizeof *to.d);
        PG_TRY(pg__emit1(&lw->to->tape, PG_OP_pad, &cut, parts[k], &parts[k], err));
        PG_TRY(pg__lower_reshape(lw, parts[k], &to, &parts[k], err));
    }
    *out = parts[0];
    if (mask != PG_NO_VAL)
        PG_TRY(pg__set_mask(lw, *out, parts[1], err));
done:
    return st;
}

/* Results of single steps, (rows, ...), as (rows, steps, ...). */
static pg_status join_steps(pg__lowering *lw, pg__val *parts, size_t n, pg__val *out, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < n; k++) {
        const pg__dims d = *pg__dims_at(lw, parts[k]);
        pg__dims to = {.rank = d.rank + 1, .d = {d.d[0], 1}};
        if (d.rank == PG_MAX_RANK)
            return pg_fail(err, PG_E_LIMIT, "gives more than %d dimensions", PG_MAX_RANK);
        memcpy(to.d + 2, d.d + 1, (d.rank - 1) * sizeof *to.d);
        PG_TRY(pg__lower_reshape(lw, parts[k], &to, &parts[k], err));
    }
    PG_TRY(pg__emit(&lw->to->tape, PG_OP_concat, &(pg__concat_attrs){1}, parts, n, out, err));
done:
    return st;
}

static pg_status has_batch_norm(const pg__lowering *lw, const pg__layer *l, int *has, pg_err *err)
{
    pg__leaves leaves = {0};
    pg_status st = PG_OK;
    for (; l && !l->model; l = l->inner)
        *has |= pg__lower_fn_of(l->class_name) == pg__lower_batch_norm;
    if (!l)
        return PG_OK;
    PG_TRY(pg__leaves_of(&leaves, l->model, lw->opts->graph->dialect, err));
    for (size_t i = 0; i < leaves.n && !*has; i++)
        PG_TRY(has_batch_norm(lw, leaves.v[i].layer, has, err));
done:
    pg__leaves_fini(&leaves);
    return st;
}

/* Keras 3 calls the layer once per step. If rows are normalised together, that differs from one
 * call for all steps. */
static pg_status step_by_step(pg__lowering *lw, const pg__layer *l, pg__val x, pg__val inner_mask,
                              pg__results *out, pg_err *err)
{
    const uint64_t steps = pg__dims_at(lw, x)->d[1];
    pg__val *parts = NULL, mask = PG_NO_VAL;
    pg_status st = PG_OK;
    lw->calls = pg__dim_mul(lw->calls ? lw->calls : 1, steps);
    if (steps == 0 || lw->calls > MAX_STEPS)
        PG_FAIL(PG_E_LIMIT,
                "%s: normalises the rows of a batch at every step, which is supported for up to %d "
                "rows",
                PG_SHOW(l->name), MAX_STEPS);
    parts = pg__mem_array(2 * (size_t)steps, sizeof *parts);
    if (!parts)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < steps; k++) {
        PG_TRY(take_step(lw, x, inner_mask, k, &parts[k], err));
        PG_TRY(pg__lower_inner(lw, l->inner, l->inner->name, parts[k], out, err));
        if (out->n != 1)
            PG_FAIL(PG_E_UNSUPPORTED, "%s: several results of a step are not supported",
                    PG_SHOW(l->name));
        parts[k] = out->v[0];
        parts[steps + k] = mask = pg__mask_of(lw, out->v[0]);
    }
    PG_TRY(join_steps(lw, parts, (size_t)steps, &out->v[0], err));
    if (mask != PG_NO_VAL) {
        PG_TRY(join_steps(lw, parts + steps, (size_t)steps, &mask, err));
        PG_TRY(pg__set_mask(lw, out->v[0], mask, err));
    }
done:
    pg__mem_free(parts);
    return st;
}

/* All steps as rows of one call. */
static pg_status all_at_once(pg__lowering *lw, const pg__layer *l, pg__val x, pg__val mask,
                             pg__results *out, pg_err *err)
{
    const pg__dims outer = *pg__dims_at(lw, x);
    pg__dims to = folded(&outer);
    pg__val inner;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_reshape(lw, x, &to, &inner, err));
    if (mask != PG_NO_VAL) {
        to = folded(pg__dims_at(lw, mask));
        PG_TRY(pg__lower_reshape(lw, mask, &to, &mask, err));
        PG_TRY(pg__set_mask(lw, inner, mask, err));
    }
    lw->fold = pg__dim_mul(lw->fold ? lw->fold : 1, outer.d[1]);
    PG_TRY(pg__lower_inner(lw, l->inner, l->inner->name, inner, out, err));
    for (size_t k = 0; k < out->n; k++) {
        mask = pg__mask_of(lw, out->v[k]);
        if (pg__dims_at(lw, out->v[k])->rank == PG_MAX_RANK)
            PG_FAIL(PG_E_LIMIT, "%s: gives more than %d dimensions", PG_SHOW(l->name), PG_MAX_RANK);
        to = unfolded(pg__dims_at(lw, out->v[k]), &outer);
        PG_TRY(pg__lower_reshape(lw, out->v[k], &to, &out->v[k], err));
        if (mask == PG_NO_VAL)
            continue;
        to = unfolded(pg__dims_at(lw, mask), &outer);
        PG_TRY(pg__lower_reshape(lw, mask, &to, &mask, err));
        PG_TRY(pg__set_mask(lw, out->v[k], mask, err));
    }
done:
    return st;
}

/* Each of the wrappers around a model asks it for its mask. */
static pg_status count_runs(pg__lowering *lw, const pg__layer *l, pg_err *err)
{
    uint32_t n = 1;
    const pg__layer *at = l;
    if (!lw->opts->rules->activity_per_row || lw->by_steps)
        return PG_OK;
    for (; at && !at->model; at = at->inner)
        n++;
    if (!at)
        return PG_OK;
    lw->runs = (lw->runs ? lw->runs : 1) * n;
    if (n > MAX_RUNS || lw->runs > MAX_RUNS)
        return pg_fail(err, PG_E_LIMIT,
                       "%s: wrappers that run a layer per step are nested too deeply",
                       PG_SHOW(l->name));
    return PG_OK;
}

/* A mask with more axes than the steps belongs to the inner layer, as does any mask for
 * BatchNormalization; otherwise it is passed on. */
pg_status pg__lower_time_distributed(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                     size_t n_in, pg__results *out, pg_err *err)
{
    const pg__lowering outer = *lw;
    const pg__dims d = *pg__dims_at(lw, in[0]);
    const pg__val mask = pg__mask_of(lw, in[0]);
    const int has_inner = mask != PG_NO_VAL && pg__dims_at(lw, mask)->rank > 2;
    int normalises = 0;
    pg__val inner_mask;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (!l->inner || d.rank < 2)
        PG_FAIL(PG_E_FORMAT, "%s: wraps no layer, or has no steps", PG_SHOW(l->name));
    if (lw->training && d.d[1] != PG_DIM_ANY)
        PG_TRY(has_batch_norm(lw, l->inner, &normalises, err));
    inner_mask = has_inner || normalises ? mask : PG_NO_VAL;
    PG_TRY(count_runs(lw, l, err));
    lw->by_steps = 1;
    PG_TRY(normalises && lw->opts->rules->keras3 ? step_by_step(lw, l, in[0], inner_mask, out, err)
                                                 : all_at_once(lw, l, in[0], inner_mask, out, err));
    for (size_t k = 0; k < out->n && mask != PG_NO_VAL && !has_inner; k++)
        if (pg__mask_of(lw, out->v[k]) == PG_NO_VAL)
            PG_TRY(pg__set_mask(lw, out->v[k], mask, err));
done:
    *lw = outer;
    return st;
}

pg_status pg__lower_spectral(pg__lowering *lw, const pg__layer *l, const pg__val *in, size_t n_in,
                             pg__results *out, pg_err *err)
{
    uint64_t iterations;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (!l->inner)
        PG_FAIL(PG_E_FORMAT, "%s: wraps no layer", PG_SHOW(l->name));
    PG_TRY(pg__config_dim_or(&iterations, l, "power_iterations", 1, err));
    PG_TRY(pg__lower_inner(lw, l->inner, l->inner->name, in[0], out, err));
    PG_TRY(pg__lower_spectral_of(lw, l->inner, (size_t)iterations, err));
done:
    return st;
}
