/* layer_wrapper.c - layers around another layer: its variables under other names, and sometimes
 * some of their own. */
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "model/layers.h"
#include "model/recurrent.h"

pg_status pg__vars_time_distributed(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    if (!l->inner)
        return pg__vars_unknown(out);
    return pg__vars_add_inner(out, l->inner, l->inner->name, dialect, err);
}

/* The two directions and what their variables stand under. The backward one is the forward one
 * again, the other way round, unless the config has another. */
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

static int is_recurrent(const pg__layer *l)
{
    return l && !l->model && pg__lower_fn_of(l->class_name) == pg__lower_rnn;
}

/* The name as the leaf holds it: it outlives the call. */
static const char *kept_sub(const pg__lowering *lw, const char *sub)
{
    for (size_t i = 0; i < lw->leaf->vars.n; i++)
        if (strcmp(lw->leaf->vars.v[i].sub, sub) == 0)
            return lw->leaf->vars.v[i].sub;
    return "";
}

static pg_status one_direction(pg__lowering *lw, const pg__layer *l, const char *sub,
                               const pg__rnn_call *call, pg__results *out, pg_err *err)
{
    const char *outer = lw->sub;
    lw->sub = kept_sub(lw, sub);
    const pg_status st = pg__lower_recurrence(lw, l, call, out, err);
    lw->sub = outer;
    return st;
}

static pg_status merge(pg__lowering *lw, const pg__layer *l, pg__val a, pg__val b, pg__results *out,
                       pg_err *err)
{
    const pg__json *which = pg__json_get(l->config, "merge_mode");
    const char *mode = pg__json_type_of(which) == PG_J_NONE ? "concat" : pg__json_str(which);
    const pg__concat_attrs last = {.axis = pg__dims_at(lw, a)->rank - 1};
    const pg__binary_attrs product = {PG__MULTIPLY};
    const pg__affine_attrs half = {.scale = 0.5};
    pg__tape *t = &lw->to->tape;
    pg_status st = PG_OK;
    out->n = 1;
    if (!mode) {
        out->v[0] = a;
        out->v[1] = b;
        out->n = 2;
    } else if (strcmp(mode, "concat") == 0) {
        PG_TRY(pg__emit2(t, PG__OP_concat, &last, a, b, out->v, err));
    } else if (strcmp(mode, "mul") == 0) {
        PG_TRY(pg__emit2(t, PG__OP_binary, &product, a, b, out->v, err));
    } else if (strcmp(mode, "sum") == 0 || strcmp(mode, "ave") == 0) {
        PG_TRY(pg__emit2(t, PG__OP_add, NULL, a, b, out->v, err));
        if (mode[0] == 'a')
            PG_TRY(pg__emit1(t, PG__OP_affine, &half, out->v[0], out->v, err));
    } else {
        PG_FAIL(PG_E_FORMAT, "%s: unknown \"merge_mode\" \"%s\"", PG_SHOW(l->name), PG_SHOW(mode));
    }
done:
    return st;
}

pg_status pg__lower_bidirectional(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                  size_t n_in, pg__results *out, pg_err *err)
{
    const size_t half = (n_in - 1) / 2;
    directions d;
    pg__results y, back;
    pg_status st = PG_OK;
    if (!is_recurrent(l->inner) || n_in % 2 == 0)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: Bidirectional around %s with %zu inputs", PG_SHOW(l->name),
                l->inner ? PG_SHOW(l->inner->class_name) : "nothing", n_in);
    find_directions(&d, l, lw->opts->graph->dialect);
    if (!is_recurrent(&d.reverse))
        PG_FAIL(PG_E_UNSUPPORTED, "%s: \"backward_layer\" is no recurrent layer", PG_SHOW(l->name));
    pg__rnn_call call = {.x = in[0],
                         .states = in + 1,
                         .n_states = half,
                         .zero_masked = lw->opts->rules->bidirectional_zeros};
    PG_TRY(one_direction(lw, l->inner, d.forward, &call, &y, err));
    call.states += half;
    call.turned = !d.is_own;
    call.flip = 1;
    PG_TRY(one_direction(lw, &d.reverse, d.backward, &call, &back, err));
    PG_TRY(merge(lw, l, y.v[0], back.v[0], out, err));
    for (size_t k = 0; k < out->n && pg__mask_of(lw, y.v[0]) != PG__NO_VAL; k++)
        PG_TRY(pg__pass_mask(lw, y.v[0], out->v[k], err));
    for (size_t k = 1; k < y.n; k++)
        out->v[out->n++] = y.v[k];
    for (size_t k = 1; k < back.n; k++)
        out->v[out->n++] = back.v[k];
done:
    return st;
}

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

/* The steps become rows. A mask of more than the steps is the inner layer's; else it goes on. */
pg_status pg__lower_time_distributed(pg__lowering *lw, const pg__layer *l, const pg__val *in,
                                     size_t n_in, pg__results *out, pg_err *err)
{
    const pg__dims outer = *pg__dims_at(lw, in[0]);
    const pg__val mask = pg__mask_of(lw, in[0]);
    const int has_inner = mask != PG__NO_VAL && pg__dims_at(lw, mask)->rank > 2;
    const uint64_t fold = lw->fold;
    pg__val x, inner_mask;
    pg_status st = PG_OK;
    PG_TRY(pg__lower_one_input(l, n_in, err));
    if (!l->inner || outer.rank < 2)
        PG_FAIL(PG_E_FORMAT, "%s: wraps no layer, or has no steps", PG_SHOW(l->name));
    pg__dims to = folded(&outer);
    PG_TRY(pg__lower_reshape(lw, in[0], &to, &x, err));
    if (has_inner) {
        to = folded(pg__dims_at(lw, mask));
        PG_TRY(pg__lower_reshape(lw, mask, &to, &inner_mask, err));
        PG_TRY(pg__set_mask(lw, x, inner_mask, err));
    }
    lw->fold = pg__dim_mul(fold ? fold : 1, outer.d[1]);
    st = pg__lower_inner(lw, l->inner, l->inner->name, x, out, err);
    lw->fold = fold;
    PG_TRY(st);
    for (size_t k = 0; k < out->n; k++) {
        inner_mask = pg__mask_of(lw, out->v[k]);
        if (pg__dims_at(lw, out->v[k])->rank == PG_MAX_RANK)
            PG_FAIL(PG_E_LIMIT, "%s: gives more than %d dimensions", PG_SHOW(l->name), PG_MAX_RANK);
        to = unfolded(pg__dims_at(lw, out->v[k]), &outer);
        PG_TRY(pg__lower_reshape(lw, out->v[k], &to, &out->v[k], err));
        if (inner_mask != PG__NO_VAL) {
            to = unfolded(pg__dims_at(lw, inner_mask), &outer);
            PG_TRY(pg__lower_reshape(lw, inner_mask, &to, &inner_mask, err));
            PG_TRY(pg__set_mask(lw, out->v[k], inner_mask, err));
        } else if (mask != PG__NO_VAL && !has_inner) {
            PG_TRY(pg__set_mask(lw, out->v[k], mask, err));
        }
    }
done:
    return st;
}
