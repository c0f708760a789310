/* program.c - compiling a tape: losses, backward pass, liveness, memory, kernels. */
#include "train/program.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/plan.h"

typedef enum place {
    IN_ARENA,
    IN_INPUT,
    IN_TARGET,
    IN_WEIGHT,
    IN_PARAM,
    IN_GRAD,
    IN_SEED,
    IN_STATE,
    IN_STEP,
    NOWHERE /* nobody reads it */
} place;

typedef struct home {
    place place;
    uint64_t at; /* offset in the arena, or slot */
} home;

typedef struct call {
    pg__kernel *kernel; /* NULL: the lanes meet */
    int is_stats;
    uint32_t first; /* of its operands and results in `operands` */
    uint32_t n;
    size_t shared, shared_bytes; /* what it shares, from the start of the program's */
} call;

struct pg__program {
    const pg__backend *backend;
    pg__dev *dev;
    pg__lowered model;
    pg__val *targets, *losses; /* per output; PG__NO_VAL without a loss */
    pg__val *masks;            /* per output, PG__NO_VAL without a mask */
    int masks_only;
    home *homes; /* per value */
    call *calls;
    size_t n_calls, n_meetings;
    uint64_t meeting_elems;
    pg__val *operands;
    size_t max_args;
    uint64_t arena_bytes;
    size_t scratch_bytes, shared_bytes;
    void *shared; /* what kernels make of parameters, for all lanes */
};

/* ---- losses ---- */

/* Integers for classes, else what the prediction looks like. */
static pg_status add_target(pg__program *p, size_t k, const pg__loss_attrs *a, pg_err *err)
{
    pg__dims shape = p->model.tape.values[p->model.outputs[k]].shape;
    const int takes_class = pg__loss_takes_class(a->kind);
    if (takes_class)
        shape.rank--;
    return pg__tape_value(&p->model.tape, &shape, takes_class ? PG__INT : PG__REAL, PG__TARGET,
                          (uint32_t)k, 0, &p->targets[k], err);
}

/* The logits of output k, where its loss can start from them. */
static pg__val logits_of(const pg__program *p, size_t k, pg__loss_kind kind)
{
    const pg__val v = p->model.outputs[k];
    const pg__origin *o = v < p->model.cap_origins ? &p->model.origins[v] : NULL;
    const int softmax = kind == PG__LOSS_categorical_crossentropy ||
                        kind == PG__LOSS_sparse_categorical_crossentropy;
    const pg__squash wanted = softmax                                ? PG__SOFTMAX_OF
                              : kind == PG__LOSS_binary_crossentropy ? PG__SIGMOID_OF
                                                                     : PG__NOT_SQUASHED;
    return o && wanted != PG__NOT_SQUASHED && o->squash == wanted ? o->logits : PG__NO_VAL;
}

static pg_status add_loss(pg__program *p, size_t k, const pg__program_opts *opts, pg_err *err)
{
    pg__loss_attrs a = opts->objectives[k].loss;
    pg__val in[4] = {p->model.outputs[k], PG__NO_VAL, PG__NO_VAL, PG__NO_VAL};
    const pg__dims scalar = {0};
    pg_status st = PG_OK;
    if (opts->lower.rules->logit_shortcut && !opts->from_probabilities) {
        const pg__val logits = logits_of(p, k, a.kind);
        a.logits = logits != PG__NO_VAL;
        in[0] = a.logits ? logits : in[0];
    }
    PG_TRY(add_target(p, k, &a, err));
    in[1] = p->targets[k];
    pg__dims rows = p->model.tape.values[in[0]].shape;
    rows.rank -= rows.rank > 0;
    PG_TRY(
        pg__tape_value(&p->model.tape, &rows, PG__REAL, PG__WEIGHT, (uint32_t)k, 0, &in[2], err));
    if (p->masks[k] != PG__NO_VAL)
        PG_TRY(
            pg__emit2(&p->model.tape, PG__OP_mask_weights, NULL, in[2], p->masks[k], &in[2], err));
    PG_TRY(
        pg__tape_value(&p->model.tape, &scalar, PG__REAL, PG__SEED, (uint32_t)k, 0, &in[3], err));
    PG_TRY(pg__emit(&p->model.tape, PG__OP_loss, &a, in, 4, &p->losses[k], err));
done:
    return st;
}

static pg_status add_losses(pg__program *p, const pg__program_opts *opts, pg_err *err)
{
    const size_t n = p->model.n_outputs;
    pg_status st = PG_OK;
    p->targets = pg__mem_array(n, sizeof *p->targets);
    p->losses = pg__mem_array(n, sizeof *p->losses);
    p->masks = pg__mem_array(n, sizeof *p->masks);
    if (!p->targets || !p->losses || !p->masks)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < n; k++) {
        p->targets[k] = p->losses[k] = PG__NO_VAL;
        p->masks[k] = pg__output_mask(&p->model, k);
        if (opts->objectives && opts->objectives[k].has_loss && !opts->masks_only)
            PG_TRY(add_loss(p, k, opts, err));
    }
    if (opts->lower.training && !opts->masks_only)
        PG_TRY(pg__tape_backward(&p->model.tape, err));
done:
    return st;
}

/* ---- what is read from outside ---- */

/* A gradient that is written straight into its parameter's buffer must be a value of its own: one
 * that is shared, or only another shape of something, is copied. */
static pg_status own_gradients(pg__program *p, pg_err *err)
{
    pg__tape *t = &p->model.tape;
    unsigned char *taken = pg__mem_array((size_t)t->n_values + p->model.n_params, 1);
    pg_status st = PG_OK;
    if (!taken)
        return pg__nomem(err);
    for (size_t i = 0; i < p->model.n_params; i++) {
        const pg__val param = p->model.params[i].value;
        if (param == PG__NO_VAL || t->values[param].grad == PG__NO_VAL)
            continue;
        pg__val g = t->values[param].grad;
        if (taken[g] || t->values[g].alias != PG__NO_VAL || t->values[g].role != PG__TEMP) {
            const pg__reshape_attrs same = {.to = t->values[param].shape};
            PG_TRY(pg__emit1(t, PG__OP_reshape, &same, g, &g, err));
            t->values[g].alias = PG__NO_VAL;
            t->values[param].grad = g;
        }
        taken[g] = 1;
    }
done:
    pg__mem_free(taken);
    return st;
}

/* What is read after a run, gradients apart: `out` has room for all, or is NULL to count. */
static size_t read_after(const pg__program *p, pg__val *out)
{
    const pg__lowered *m = &p->model;
    size_t n = 0;
#define READ(v)                         \
    do {                                \
        if (out && (v) != PG__NO_VAL)   \
            out[n] = (v);               \
        n += !out || (v) != PG__NO_VAL; \
    } while (0)
    for (size_t k = 0; k < m->n_outputs; k++) {
        if (!p->masks_only)
            READ(m->outputs[k]);
        READ(p->losses[k]);
        READ(p->masks[k]);
    }
    for (size_t i = 0; i < m->n_moving; i++)
        READ(m->moving[i].value);
    for (size_t i = 0; i < m->n_states; i++)
        READ(m->states[i].after);
#undef READ
    return n;
}

static pg_status prune(pg__program *p, pg_err *err)
{
    const pg__lowered *m = &p->model;
    pg__val *keep = pg__mem_array(read_after(p, NULL) + m->n_params, sizeof *keep);
    if (!keep)
        return pg__nomem(err);
    size_t n = read_after(p, keep);
    for (size_t i = 0; i < m->n_params; i++)
        if (m->params[i].value != PG__NO_VAL &&
            m->tape.values[m->params[i].value].grad != PG__NO_VAL)
            keep[n++] = m->tape.values[m->params[i].value].grad;
    const pg_status st = pg__tape_prune(&p->model.tape, keep, n, err);
    pg__mem_free(keep);
    return st;
}

/* ---- memory ---- */

static pg__val root_of(const pg__tape *t, pg__val v)
{
    while (t->values[v].alias != PG__NO_VAL)
        v = t->values[v].alias;
    return v;
}

static home outer_home(const pg__value *v)
{
    switch (v->role) {
    case PG__INPUT: return (home){IN_INPUT, v->slot};
    case PG__TARGET: return (home){IN_TARGET, v->slot};
    case PG__WEIGHT: return (home){IN_WEIGHT, v->slot};
    case PG__PARAM: return (home){IN_PARAM, v->slot};
    case PG__SEED: return (home){IN_SEED, v->slot};
    case PG__STATE: return (home){IN_STATE, v->slot};
    case PG__STEP: return (home){IN_STEP, 0};
    case PG__TEMP: break;
    }
    return (home){NOWHERE, 0};
}

typedef struct liveness {
    uint32_t *first, *last; /* per value: instructions; first > last: not used */
} liveness;

static void touch(liveness *l, pg__val v, uint32_t at)
{
    if (l->first[v] > at)
        l->first[v] = at;
    if (l->last[v] < at)
        l->last[v] = at;
}

static pg_status find_liveness(const pg__program *p, liveness *l, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    memset(l->first, 0xff, t->n_values * sizeof *l->first);
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__in(t, i, k) != PG__NO_VAL)
                touch(l, root_of(t, pg__in(t, i, k)), at);
        for (uint32_t k = 0; k < i->n_out; k++)
            touch(l, root_of(t, pg__out(t, i, k)), at);
        for (uint32_t k = i->n_out - i->op->n_kept; k < i->n_out; k++) /* there, read or not */
            touch(l, root_of(t, pg__out(t, i, k)), at + 1);
    }
    pg__val *after = pg__mem_array(read_after(p, NULL), sizeof *after);
    if (!after)
        return pg__nomem(err);
    for (size_t n = read_after(p, after); n-- > 0;)
        touch(l, root_of(t, after[n]), t->n_insts);
    pg__mem_free(after);
    return PG_OK;
}

static pg_status place_values(pg__program *p, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    liveness l = {pg__mem_array(t->n_values, sizeof *l.first),
                  pg__mem_array(t->n_values, sizeof *l.last)};
    pg__span_of *spans = pg__mem_array(t->n_values, sizeof *spans);
    pg__val *of = pg__mem_array(t->n_values, sizeof *of);
    size_t n = 0;
    pg_status st = PG_OK;
    p->homes = pg__mem_array(t->n_values, sizeof *p->homes);
    if (!l.first || !l.last || !spans || !of || !p->homes)
        PG_TRY(pg__nomem(err));
    PG_TRY(find_liveness(p, &l, err));
    for (pg__val v = 0; v < t->n_values; v++)
        p->homes[v] = outer_home(&t->values[v]);
    for (size_t i = 0; i < p->model.n_params; i++) {
        const pg__val param = p->model.params[i].value;
        if (param != PG__NO_VAL && t->values[param].grad != PG__NO_VAL)
            p->homes[t->values[param].grad] = (home){IN_GRAD, i};
    }
    for (pg__val v = 0; v < t->n_values; v++) {
        const pg__value *value = &t->values[v];
        /* A result that nobody reads gets no memory: the operation leaves it out. */
        if (p->homes[v].place != NOWHERE || value->alias != PG__NO_VAL || l.first[v] >= l.last[v])
            continue;
        const size_t each = value->elem == PG__INT ? sizeof(int32_t) : p->backend->real_bytes;
        spans[n] = (pg__span_of){.n_bytes = pg__dim_mul(pg__dims_elems(&value->shape), each),
                                 .first = l.first[v],
                                 .last = l.last[v]};
        of[n++] = v;
    }
    PG_TRY(pg__plan_memory(spans, n, &p->arena_bytes, err));
    for (size_t i = 0; i < n; i++)
        p->homes[of[i]] = (home){IN_ARENA, spans[i].off};
    for (pg__val v = 0; v < t->n_values; v++)
        if (t->values[v].alias != PG__NO_VAL)
            p->homes[v] = p->homes[root_of(t, v)];
done:
    pg__mem_free(of);
    pg__mem_free(spans);
    pg__mem_free(l.last);
    pg__mem_free(l.first);
    return st;
}

/* ---- kernels ---- */

static pg_status check_support(const pg__program *p, const pg__lower_opts *opts, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    char why[128];
    pg_status st = PG_OK;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        if (p->backend->supports(p->dev, t, i, why))
            continue;
        if (st == PG_OK)
            st = pg_fail(err, PG_E_UNSUPPORTED, "%s cannot run every layer", p->backend->name);
        pg_err_detail(err, "%s: %s", PG_SHOW(opts->leaves->v[i->origin].layer->name), why);
    }
    return st;
}

static void note_meeting(pg__program *p, const pg__inst *i)
{
    uint64_t n = 0;
    for (size_t k = 0; k < i->n_in; k++)
        n += pg__dims_elems(&p->model.tape.values[pg__in(&p->model.tape, i, k)].shape);
    p->meeting_elems = n > p->meeting_elems ? n : p->meeting_elems;
    p->n_meetings++;
}

static pg_status prepare_calls(pg__program *p, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    uint32_t n_operands = 0;
    pg_status st = PG_OK;
    p->calls = pg__mem_array(t->n_insts, sizeof *p->calls);
    p->operands = pg__mem_array(t->n_operands, sizeof *p->operands);
    if (!p->calls || !p->operands)
        PG_TRY(pg__nomem(err));
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        call *c = &p->calls[p->n_calls];
        pg__needs needs = {0};
        if (t->values[pg__out(t, i, 0)].alias != PG__NO_VAL)
            continue; /* the same memory */
        *c = (call){.first = n_operands,
                    .n = i->n_in + i->n_out,
                    .is_stats = i->op == pg__op_of(PG__OP_meet_stats)};
        for (uint32_t k = 0; k < i->n_in; k++)
            p->operands[n_operands++] = pg__in(t, i, k);
        for (uint32_t k = 0; k < i->n_out; k++)
            p->operands[n_operands++] = pg__out(t, i, k);
        if (c->is_stats || i->op == pg__op_of(PG__OP_meet_sums))
            note_meeting(p, i);
        else
            PG_TRY(p->backend->prepare(&c->kernel, p->dev, t, i, &needs, err));
        p->n_calls++;
        c->shared = p->shared_bytes;
        c->shared_bytes = needs.shared_bytes;
        p->shared_bytes += (needs.shared_bytes + PG_ALIGN - 1) / PG_ALIGN * PG_ALIGN;
        if (needs.scratch_bytes > p->scratch_bytes)
            p->scratch_bytes = needs.scratch_bytes;
        if (c->n > p->max_args)
            p->max_args = c->n;
    }
    /* The pointers of a call lie in front of its scratch. */
    p->max_args = (p->max_args * sizeof(void *) + PG_ALIGN - 1) / PG_ALIGN * PG_ALIGN;
    p->scratch_bytes += p->max_args;
    if (p->shared_bytes > 0)
        PG_TRY(p->backend->alloc(p->dev, &p->shared, p->shared_bytes, err));
done:
    return st;
}

pg_status pg__program_new(pg__program **out, const pg__program_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    pg__program *p = pg__mem_array(1, sizeof *p);
    if (!p)
        return pg__nomem(err);
    p->backend = opts->backend;
    p->dev = opts->dev;
    p->masks_only = opts->masks_only;
    PG_TRY(pg__lower(&p->model, &opts->lower, err));
    if (p->masks_only) /* such a run changes nothing */
        p->model.n_moving = p->model.n_states = 0;
    PG_TRY(add_losses(p, opts, err));
    PG_TRY(own_gradients(p, err));
    PG_TRY(prune(p, err));
    PG_TRY(check_support(p, &opts->lower, err));
    PG_TRY(place_values(p, err));
    PG_TRY(prepare_calls(p, err));
    *out = p;
    p = NULL;
done:
    pg__program_free(p);
    return st;
}

void pg__program_free(pg__program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_calls; i++)
        if (p->calls[i].kernel)
            p->backend->release(p->calls[i].kernel);
    if (p->shared)
        p->backend->free(p->dev, p->shared);
    pg__mem_free(p->calls);
    pg__mem_free(p->operands);
    pg__mem_free(p->homes);
    pg__mem_free(p->targets);
    pg__mem_free(p->losses);
    pg__mem_free(p->masks);
    pg__lowered_fini(&p->model);
    pg__mem_free(p);
}

/* ---- running ---- */

/* Pointers to memory of both kinds; that operands are not written is the back end's promise. */
static void *at_slot(const void *const *slots, uint64_t slot)
{
    union {
        const void *in;
        void *out;
    } p = {.in = slots ? slots[slot] : NULL};
    return p.out;
}

static void *address(const pg__program *p, const pg__frame *f, pg__val v)
{
    if (v == PG__NO_VAL)
        return NULL;
    const home h = p->homes[v];
    switch (h.place) {
    case IN_ARENA: return (char *)f->arena + h.at;
    case IN_INPUT: return at_slot(f->inputs, h.at);
    case IN_TARGET: return at_slot(f->targets, h.at);
    case IN_WEIGHT: return at_slot(f->weights, h.at);
    case IN_PARAM: return f->params[h.at];
    case IN_GRAD: return f->grads ? f->grads[h.at] : NULL;
    case IN_SEED: return at_slot(f->seeds, h.at);
    case IN_STATE: return f->states ? f->states[h.at] : NULL;
    case IN_STEP: return at_slot(&f->step, 0);
    case NOWHERE: break;
    }
    return NULL;
}

pg_status pg__program_share(const pg__program *p, const pg__frame *f, size_t part, size_t n_parts)
{
    void **args = f->scratch;
    size_t k = 0;
    for (size_t i = 0; i < p->n_calls; i++) {
        const call *c = &p->calls[i];
        if (c->shared_bytes == 0 || k++ % n_parts != part)
            continue;
        for (uint32_t a = 0; a < c->n; a++) {
            const pg__val v = p->operands[c->first + a];
            const int is_param = v != PG__NO_VAL && p->homes[v].place == IN_PARAM;
            args[a] = is_param ? address(p, f, v) : NULL;
        }
        const pg_status st =
            p->backend->share(p->dev, c->kernel, args, (char *)p->shared + c->shared);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

pg_status pg__program_run(const pg__program *p, const pg__frame *f, size_t *at, int *meets)
{
    void **args = f->scratch;
    void *scratch = (char *)f->scratch + p->max_args;
    *meets = 0;
    for (; *at < p->n_calls; (*at)++) {
        const call *c = &p->calls[*at];
        if (!c->kernel) {
            *meets = 1;
            return PG_OK;
        }
        for (uint32_t k = 0; k < c->n; k++)
            args[k] = address(p, f, p->operands[c->first + k]);
        const pg_status st =
            p->backend->run(p->dev, c->kernel, args, scratch, (char *)p->shared + c->shared);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

size_t pg__program_n_meetings(const pg__program *p)
{
    return p->n_meetings;
}

uint64_t pg__program_meeting_elems(const pg__program *p)
{
    return p->meeting_elems;
}

pg__meeting pg__program_meeting(const pg__program *p, const pg__frame *f, size_t at)
{
    const call *c = &p->calls[at];
    pg__meeting m = {.is_stats = c->is_stats, .n = c->n / 2};
    for (size_t k = 0; k < m.n; k++) {
        const pg__val in = p->operands[c->first + k], out = p->operands[c->first + m.n + k];
        m.n_elems[k] = pg__dims_elems(&p->model.tape.values[in].shape);
        m.in[k] = address(p, f, in);
        m.out[k] = address(p, f, out);
    }
    return m;
}

const void *pg__program_prediction(const pg__program *p, const pg__frame *f, size_t k)
{
    return address(p, f, p->model.outputs[k]);
}

const void *pg__program_loss(const pg__program *p, const pg__frame *f, size_t k)
{
    return address(p, f, p->losses[k]);
}

const void *pg__program_moving(const pg__program *p, const pg__frame *f, size_t i)
{
    return address(p, f, p->model.moving[i].value);
}

const pg__value *pg__program_target(const pg__program *p, size_t k)
{
    return p->targets[k] == PG__NO_VAL ? NULL : &p->model.tape.values[p->targets[k]];
}

const pg__value *pg__program_loss_value(const pg__program *p, size_t k)
{
    return p->losses[k] == PG__NO_VAL ? NULL : &p->model.tape.values[p->losses[k]];
}

const pg__lowered *pg__program_model(const pg__program *p)
{
    return &p->model;
}

uint64_t pg__program_arena_bytes(const pg__program *p)
{
    return p->arena_bytes;
}

size_t pg__program_scratch_bytes(const pg__program *p)
{
    return p->scratch_bytes;
}

size_t pg__program_shared_bytes(const pg__program *p)
{
    return p->shared_bytes;
}

const pg__value *pg__program_mask_value(const pg__program *p, size_t k)
{
    return p->masks[k] == PG__NO_VAL ? NULL : &p->model.tape.values[p->masks[k]];
}

const void *pg__program_mask(const pg__program *p, const pg__frame *f, size_t k)
{
    return address(p, f, p->masks[k]);
}

const void *pg__program_state(const pg__program *p, const pg__frame *f, size_t k)
{
    return address(p, f, p->model.states[k].after);
}
