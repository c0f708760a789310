/* program_losses.c - appends the losses of a model's outputs to its tape, and the backward pass. */
#include "train/exec/program_impl.h"

#include "base/mem.h"
#include "base/try.h"

/* Integers for classes, else the shape of the prediction. */
static pg_status add_target(pg__program *p, size_t k, const pg__loss_attrs *a, pg_err *err)
{
    pg__dims shape = p->model.tape.values[p->model.outputs[k]].shape;
    const int takes_class = pg__loss_takes_class(a->kind);
    if (takes_class)
        shape.rank--;
    return pg__tape_value(&p->model.tape, &shape, takes_class ? PG_ELEM_INT : PG_ELEM_REAL,
                          PG_TARGET, (uint32_t)k, 0, &p->targets[k], err);
}

static pg__squash made_for(pg__loss_kind kind)
{
    switch (kind) {
    case PG_LOSS_categorical_crossentropy:
    case PG_LOSS_categorical_focal_crossentropy:
    case PG_LOSS_sparse_categorical_crossentropy: return PG_SOFTMAX_OF;
    case PG_LOSS_binary_crossentropy:
    case PG_LOSS_binary_focal_crossentropy: return PG_SIGMOID_OF;
    default: return PG_NOT_SQUASHED;
    }
}

/* The focal losses of Keras 3, and binary ones, use the activation's cached logits. */
static int takes_cached(pg__loss_kind kind, const pg__rules *rules)
{
    return rules->logits_cached && kind != PG_LOSS_binary_focal_crossentropy &&
           (!rules->keras3 || kind != PG_LOSS_categorical_focal_crossentropy);
}

/* The logits of output k, if its loss starts from them. Keras on TensorFlow attaches them to the
 * tensor that a softmax or a sigmoid returns, and crossentropies use what is attached: so a
 * categorical crossentropy of a sigmoid's output equals that of a softmax of the same logits. */
static pg__val logits_of(const pg__program *p, size_t k, pg__loss_kind kind, const pg__rules *rules)
{
    const pg__val v = p->model.outputs[k];
    const pg__origin *o = v < p->model.cap_origins ? &p->model.origins[v] : NULL;
    const pg__squash wanted = made_for(kind);
    if (!o || wanted == PG_NOT_SQUASHED || o->squash == PG_NOT_SQUASHED)
        return PG_NO_VAL;
    return o->squash == wanted || takes_cached(kind, rules) ? o->logits : PG_NO_VAL;
}

/* Metrics take the logits as losses do: probabilities are clipped at 1e-7, which a prediction that
 * is sure and wrong exceeds, and a binary crossentropy cannot recover the logits of a softmax. */
static void find_metric_logits(pg__program *p, size_t k, const pg__program_opts *opts)
{
    const pg__rules *rules = opts->lower.rules;
    const uint32_t wanted = opts->objectives[k].metric_losses;
    for (pg__loss_kind kind = 0; wanted >> kind; kind++) {
        const pg__val logits = wanted >> kind & 1 ? logits_of(p, k, kind, rules) : PG_NO_VAL;
        if (logits == PG_NO_VAL)
            continue;
        p->logits[k] = logits;
        p->on_logits[k] |= (uint32_t)1 << kind;
    }
}

/* The device that makes a value: work on a large value stays there. */
static uint32_t device_of(const pg__program *p, pg__val v)
{
    const pg__tape *t = &p->model.tape;
    const pg__val root = pg__tape_root(t, v);
    for (uint32_t at = t->n_insts; at-- > 0;)
        for (uint32_t k = 0; k < t->insts[at].n_out; k++)
            if (pg__out(t, &t->insts[at], k) == root)
                return t->insts[at].device;
    return 0;
}

static pg_status add_loss(pg__program *p, size_t k, const pg__program_opts *opts, pg_err *err)
{
    pg__loss_attrs a = opts->objectives[k].loss;
    pg__val in[4] = {p->model.outputs[k], PG_NO_VAL, PG_NO_VAL, PG_NO_VAL};
    const pg__dims scalar = {0};
    pg_status st = PG_OK;
    if (opts->lower.rules->logit_shortcut && !opts->from_probabilities) {
        const pg__val logits = logits_of(p, k, a.kind, opts->lower.rules);
        a.logits |= logits != PG_NO_VAL;
        in[0] = logits != PG_NO_VAL ? logits : in[0];
    }
    PG_TRY(add_target(p, k, &a, err));
    in[1] = p->targets[k];
    pg__dims rows = p->model.tape.values[in[0]].shape;
    rows.rank -= rows.rank > 0;
    PG_TRY(pg__tape_value(&p->model.tape, &rows, PG_ELEM_REAL, PG_WEIGHT, (uint32_t)k, 0, &in[2],
                          err));
    p->model.tape.device = device_of(p, p->model.outputs[k]);
    if (p->masks[k] != PG_NO_VAL)
        PG_TRY(
            pg__emit2(&p->model.tape, PG_OP_mask_weights, NULL, in[2], p->masks[k], &in[2], err));
    PG_TRY(pg__tape_value(&p->model.tape, &scalar, PG_ELEM_REAL, PG_SEED, (uint32_t)k, 0, &in[3],
                          err));
    PG_TRY(pg__emit(&p->model.tape, PG_OP_loss, &a, in, 4, &p->losses[k], err));
done:
    return st;
}

pg_status pg__program_add_losses(pg__program *p, const pg__program_opts *opts, pg_err *err)
{
    const size_t n = p->model.n_outputs;
    pg_status st = PG_OK;
    p->targets = pg__mem_array(n, sizeof *p->targets);
    p->losses = pg__mem_array(n, sizeof *p->losses);
    p->masks = pg__mem_array(n, sizeof *p->masks);
    p->logits = pg__mem_array(n, sizeof *p->logits);
    p->on_logits = pg__mem_array(n, sizeof *p->on_logits);
    if (!p->targets || !p->losses || !p->masks || !p->logits || !p->on_logits)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < n; k++) {
        p->targets[k] = p->losses[k] = p->logits[k] = PG_NO_VAL;
        p->masks[k] = pg__output_mask(&p->model, k);
        if (!opts->objectives || !opts->objectives[k].has_loss || opts->masks_only)
            continue;
        PG_TRY(add_loss(p, k, opts, err));
        if (opts->lower.rules->logit_shortcut && !opts->from_probabilities)
            find_metric_logits(p, k, opts);
    }
    if (opts->lower.training && !opts->masks_only)
        PG_TRY(pg__tape_backward(&p->model.tape, err));
done:
    return st;
}
