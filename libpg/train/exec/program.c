/* program.c - compiling a tape: liveness, memory, kernels. */
#include "train/exec/program_impl.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/compact.h"
#include "ops/rnn_room.h"
#include "train/exec/arena.h"
#include "train/exec/inplace.h"

/* ---- what is read from outside ---- */

/* A gradient written directly into its parameter's buffer must be a value of its own: copies one
 * that is shared, or a reshape of another value. */
static pg_status own_gradients(pg__program *p, pg_err *err)
{
    pg__tape *t = &p->model.tape;
    unsigned char *taken = pg__mem_array((size_t)t->n_values + p->model.n_params, 1);
    pg_status st = PG_OK;
    if (!taken)
        return pg__nomem(err);
    for (size_t i = 0; i < p->model.n_params; i++) {
        const pg__val param = p->model.params[i].value;
        if (param == PG_NO_VAL || t->values[param].grad == PG_NO_VAL)
            continue;
        pg__val g = t->values[param].grad;
        if (taken[g] || t->values[g].alias != PG_NO_VAL || t->values[g].role != PG_TEMP) {
            const pg__reshape_attrs same = {.to = t->values[param].shape};
            t->device = p->model.params[i].device;
            PG_TRY(pg__emit1(t, PG_OP_reshape, &same, g, &g, err));
            t->values[g].alias = PG_NO_VAL;
            t->values[param].grad = g;
        }
        taken[g] = 1;
    }
done:
    pg__mem_free(taken);
    return st;
}

/* The values read after a run, apart from gradients: `out` has room for all, or is NULL to count
 * them. */
static size_t read_after(const pg__program *p, pg__val *out)
{
    const pg__lowered *m = &p->model;
    size_t n = 0;
#define READ(v)                        \
    do {                               \
        if (out && (v) != PG_NO_VAL)   \
            out[n] = (v);              \
        n += !out || (v) != PG_NO_VAL; \
    } while (0)
    for (size_t k = 0; k < m->n_outputs; k++) {
        if (!p->masks_only)
            READ(m->outputs[k]);
        READ(p->losses[k]);
        READ(p->masks[k]);
        READ(p->logits[k]);
    }
    for (size_t i = 0; i < m->n_moving; i++)
        READ(m->moving[i].value);
    for (size_t i = 0; i < m->n_states; i++)
        READ(m->states[i].after);
    for (size_t i = 0; i < m->n_activities; i++)
        READ(m->activities[i]);
#undef READ
    return n;
}

/* Removes instructions on which no such value depends; such values are float32, whatever layers
 * compute with. */
static pg_status prune(pg__program *p, const pg__program_opts *opts, pg_err *err)
{
    const pg__lowered *m = &p->model;
    pg__val *keep = pg__mem_array(read_after(p, NULL) + m->n_params, sizeof *keep);
    pg_status st = PG_OK;
    if (!keep)
        return pg__nomem(err);
    size_t n = read_after(p, keep);
    for (size_t i = 0; i < m->n_params; i++)
        if (m->params[i].value != PG_NO_VAL && m->tape.values[m->params[i].value].grad != PG_NO_VAL)
            keep[n++] = m->tape.values[m->params[i].value].grad;
    PG_TRY(pg__tape_prune(&p->model.tape, keep, n, err));
    if (opts->elems)
        PG_TRY(pg__tape_compact(&p->model.tape, opts->elems, opts->lower.leaves->n, keep, n, err));
done:
    pg__mem_free(keep);
    return st;
}

/* ---- memory ---- */

static pg__home outer_home(const pg__value *v)
{
    switch (v->role) {
    case PG_INPUT: return (pg__home){PG_IN_INPUT, v->slot, 0};
    case PG_TARGET: return (pg__home){PG_IN_TARGET, v->slot, 0};
    case PG_WEIGHT: return (pg__home){PG_IN_WEIGHT, v->slot, 0};
    case PG_PARAM: return (pg__home){PG_IN_PARAM, v->slot, 0};
    case PG_SEED: return (pg__home){PG_IN_SEED, v->slot, 0};
    case PG_STATE: return (pg__home){PG_IN_STATE, v->slot, 0};
    case PG_PER_STEP: return (pg__home){PG_IN_STEP, 0, 0};
    case PG_TEMP: break;
    }
    return (pg__home){PG_NOWHERE, 0, 0};
}

#define CROSSES UINT32_MAX

typedef struct liveness {
    uint32_t *first, *last; /* per value: instructions; first > last: not used */
    uint32_t *device;       /* the only one that uses it, or CROSSES */
} liveness;

static void touch(liveness *l, pg__val v, uint32_t at)
{
    if (l->first[v] > at)
        l->first[v] = at;
    if (l->last[v] < at)
        l->last[v] = at;
}

/* Between devices instructions do not run in tape order, so the memory of a value that crosses from
 * one to another is not reused. */
static void touch_on(liveness *l, pg__val v, uint32_t at, uint32_t device)
{
    if (l->first[v] == UINT32_MAX)
        l->device[v] = device;
    else if (l->device[v] != device)
        l->device[v] = CROSSES;
    touch(l, v, at);
}

static pg_status find_liveness(const pg__program *p, liveness *l, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    memset(l->first, 0xff, t->n_values * sizeof *l->first);
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__in(t, i, k) != PG_NO_VAL)
                touch_on(l, pg__tape_root(t, pg__in(t, i, k)), at, i->device);
        for (uint32_t k = 0; k < i->n_out; k++)
            touch_on(l, pg__tape_root(t, pg__out(t, i, k)), at, i->device);
        for (uint32_t k = i->n_out - i->op->n_kept; k < i->n_out; k++) /* needed, read or not */
            touch(l, pg__tape_root(t, pg__out(t, i, k)), at + 1);
    }
    for (pg__val v = 0; v < t->n_values; v++)
        if (l->first[v] < l->last[v] && l->device[v] == CROSSES)
            touch(l, v, t->n_insts);
    pg__val *after = pg__mem_array(read_after(p, NULL), sizeof *after);
    if (!after)
        return pg__nomem(err);
    for (size_t n = read_after(p, after); n-- > 0;)
        touch(l, pg__tape_root(t, after[n]), t->n_insts);
    pg__mem_free(after);
    for (size_t k = 0; k < pg__mp_program_n_copies(p); k++) /* a copy may be made at any time */
        touch(l, pg__mp_program_copied(p, k), t->n_insts);
    return PG_OK;
}

static uint64_t whole(uint64_t n_bytes)
{
    return (n_bytes + PG_ALIGN - 1) / PG_ALIGN * PG_ALIGN;
}

/* Each device has a part of the arena for the values it makes, or an arena of its own. */
static pg_status plan_arena(pg__program *p, const pg__spans *s, pg_err *err)
{
    uint64_t begin = 0;
    pg_status st = PG_OK;
    p->arena_bytes = 0;
    for (size_t from = 0, to; from < s->n; from = to) {
        const uint32_t device = s->device[from];
        uint64_t bytes = 0;
        for (to = from; to < s->n && s->device[to] == device;)
            to++;
        PG_TRY(pg__arena_plan(s->v + from, to - from, &bytes, err));
        for (size_t i = from; i < to; i++)
            *s->home[i] = (pg__home){PG_IN_ARENA, begin + s->v[i].off, whole(s->v[i].n_bytes)};
        bytes = whole(bytes);
        if (p->apart)
            pg__mp_program_set_arena(p, device, bytes);
        else
            p->arena_bytes = begin += bytes;
    }
done:
    return st;
}

/* Per value, the device of the instruction that makes it. */
static void find_makers(const pg__program *p, uint32_t *made_by)
{
    const pg__tape *t = &p->model.tape;
    for (uint32_t at = 0; at < t->n_insts; at++)
        for (uint32_t k = 0; k < t->insts[at].n_out; k++)
            made_by[pg__out(t, &t->insts[at], k)] = t->insts[at].device;
}

/* Places what lies outside the arena; an unread result lies nowhere: the operation leaves it out.
 */
static void find_homes(pg__program *p, const liveness *l, unsigned char *in_arena)
{
    const pg__tape *t = &p->model.tape;
    for (pg__val v = 0; v < t->n_values; v++)
        p->homes[v] = outer_home(&t->values[v]);
    for (size_t i = 0; i < p->model.n_params; i++) {
        const pg__val param = p->model.params[i].value;
        const pg__val grad = param == PG_NO_VAL ? PG_NO_VAL : t->values[param].grad;
        if (grad != PG_NO_VAL &&
            (!p->apart || pg__mp_program_home(p, grad) == p->model.params[i].device))
            p->homes[grad] = (pg__home){PG_IN_GRAD, i, 0};
    }
    for (pg__val v = 0; v < t->n_values; v++)
        in_arena[v] = p->homes[v].place == PG_NOWHERE && t->values[v].alias == PG_NO_VAL &&
                      l->first[v] < l->last[v];
}

/* Values that share another's memory have its home. */
static void follow(pg__program *p, const pg__val *host)
{
    const pg__tape *t = &p->model.tape;
    for (pg__val v = 0; v < t->n_values; v++)
        p->homes[v] = p->homes[host[v]];
    for (pg__val v = 0; v < t->n_values; v++)
        if (t->values[v].alias != PG_NO_VAL)
            p->homes[v] = p->homes[pg__tape_root(t, v)];
}

/* Adds the values that a device makes to `spans`. */
static void add_spans(pg__program *p, const liveness *l, const unsigned char *is_own,
                      const uint32_t *made_by, uint32_t device, pg__spans *spans)
{
    const pg__tape *t = &p->model.tape;
    for (pg__val v = 0; v < t->n_values; v++) {
        const pg__value *value = &t->values[v];
        const size_t each = pg__elem_bytes(value->elem, p->backend->real_bytes);
        if (!is_own[v] || made_by[v] != device)
            continue;
        spans->v[spans->n] =
            (pg__span_of){.n_bytes = pg__dim_mul(pg__dims_elems(&value->shape), each),
                          .first = l->first[v],
                          .last = l->last[v]};
        spans->home[spans->n] = &p->homes[v];
        spans->device[spans->n++] = device;
    }
}

static pg_status place_in_arena(pg__program *p, liveness *l, unsigned char *in_arena, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    const size_t n = t->n_values + pg__mp_program_n_copies(p);
    uint32_t *made_by = pg__mem_array(t->n_values, sizeof *made_by);
    pg__spans spans = {pg__mem_array(n, sizeof *spans.v), pg__mem_array(n, sizeof(pg__home *)),
                       pg__mem_array(n, sizeof *spans.device), 0};
    pg__val *host = pg__mem_array(t->n_values, sizeof *host);
    pg_status st = PG_OK;
    if (!made_by || !spans.v || !spans.home || !spans.device || !host)
        PG_TRY(pg__nomem(err));
    find_makers(p, made_by);
    pg__lie_in_place(t, in_arena, l->first, l->last, host);
    for (pg__val v = 0; v < t->n_values; v++)
        in_arena[v] &= host[v] == v;
    for (uint32_t d = 0; d < p->n_devices; d++) {
        add_spans(p, l, in_arena, made_by, d, &spans);
        pg__mp_program_add_spans(p, d, &spans);
    }
    PG_TRY(plan_arena(p, &spans, err));
    follow(p, host);
done:
    pg__mem_free(host);
    pg__mem_free(spans.device);
    pg__mem_free(spans.home);
    pg__mem_free(spans.v);
    pg__mem_free(made_by);
    return st;
}

static pg_status place_values(pg__program *p, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    liveness l = {pg__mem_array(t->n_values, sizeof *l.first),
                  pg__mem_array(t->n_values, sizeof *l.last),
                  pg__mem_array(t->n_values, sizeof *l.device)};
    unsigned char *in_arena = pg__mem_array(t->n_values, 1);
    pg_status st = PG_OK;
    p->homes = pg__mem_array(t->n_values, sizeof *p->homes);
    if (!l.first || !l.last || !l.device || !in_arena || !p->homes)
        PG_TRY(pg__nomem(err));
    PG_TRY(find_liveness(p, &l, err));
    find_homes(p, &l, in_arena);
    PG_TRY(place_in_arena(p, &l, in_arena, err));
done:
    pg__mem_free(in_arena);
    pg__mem_free(l.device);
    pg__mem_free(l.last);
    pg__mem_free(l.first);
    return st;
}

/* ---- kernels ---- */

/* The trainer runs it, whatever the device. */
static int is_meeting(const pg__inst *i)
{
    return i->op == pg__op_of(PG_OP_meet_stats) || i->op == pg__op_of(PG_OP_meet_sums);
}

static pg_status check_support(const pg__program *p, const pg__lower_opts *opts, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    char why[128];
    pg_status st = PG_OK;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        if (is_meeting(i) || p->backend->supports(p->dev, t, i, why))
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
        pg__step_call *c = &p->calls[p->n_calls];
        pg__needs needs = {0};
        if (t->values[pg__out(t, i, 0)].alias != PG_NO_VAL)
            continue; /* the same memory */
        *c = (pg__step_call){.first = n_operands,
                             .n = i->n_in + i->n_out,
                             .n_in = i->n_in,
                             .device = i->device,
                             .origin = i->origin,
                             .kind = i->op->kind,
                             .is_backward = t->n_forward > 0 && at >= t->n_forward,
                             .cost = pg__cost_of(t, i, p->backend->real_bytes),
                             .is_stats = i->op == pg__op_of(PG_OP_meet_stats)};
        for (uint32_t k = 0; k < i->n_in; k++)
            p->operands[n_operands++] = pg__in(t, i, k);
        for (uint32_t k = 0; k < i->n_out; k++)
            p->operands[n_operands++] = pg__out(t, i, k);
        if (is_meeting(i))
            note_meeting(p, i);
        else
            PG_TRY(p->backend->prepare(&c->kernel, pg__mp_program_dev(p, i->device), t, i, &needs,
                                       err));
        p->n_calls++;
        p->n_in_int8 += (size_t)needs.in_int8;
        c->shared = p->shared_bytes;
        c->shared_bytes = needs.shared_bytes;
        if (p->apart)
            pg__mp_program_add_needs(p, i->device, &needs, &c->shared);
        p->shared_bytes += (size_t)whole(needs.shared_bytes);
        if (needs.scratch_bytes > p->scratch_bytes)
            p->scratch_bytes = needs.scratch_bytes;
        if (c->n > p->max_args)
            p->max_args = c->n;
    }
    if (p->shared_bytes > 0 && !p->apart)
        PG_TRY(p->backend->alloc(p->dev, &p->shared, p->shared_bytes, err));
done:
    return st;
}

static pg_status find_settled(pg__program *p, pg_err *err)
{
    p->settled = pg__mem_array(p->model.n_params, sizeof *p->settled);
    if (!p->settled)
        return pg__nomem(err);
    for (size_t i = 0; i < p->n_calls; i++)
        for (uint32_t k = 0; k < p->calls[i].n; k++) {
            const pg__val v = p->operands[p->calls[i].first + k];
            if (v != PG_NO_VAL && p->homes[v].place == PG_IN_GRAD)
                p->settled[p->homes[v].at] = i + 1;
            for (size_t m = 0; k >= p->calls[i].n_in && m < p->model.n_moving; m++)
                if (pg__tape_root(&p->model.tape, p->model.moving[m].value) == v)
                    p->settled[p->model.moving[m].param] = i + 1;
        }
    return PG_OK;
}

/* Finds the calls of other devices that must finish before each call. */
static pg_status find_order(pg__program *p, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    uint32_t *maker =
        pg__mem_array(t->n_values, sizeof *maker); /* the call that makes it, from 1 */
    p->after = pg__mem_array(p->n_calls * p->n_devices, sizeof *p->after);
    if (!maker || !p->after) {
        pg__mem_free(maker);
        return pg__nomem(err);
    }
    for (size_t i = 0; i < p->n_calls; i++) {
        pg__step_call *c = &p->calls[i];
        c->after = &p->after[i * p->n_devices];
        for (uint32_t k = 0; k < c->n; k++) {
            const pg__val v = p->operands[c->first + k];
            if (v == PG_NO_VAL)
                continue;
            uint32_t *made = &maker[pg__tape_root(t, v)];
            if (k >= c->n_in)
                *made = (uint32_t)i + 1;
            else if (*made > 0 && p->calls[*made - 1].device != c->device) {
                pg__step_call *of = &p->calls[*made - 1];
                of->awaited = 1;
                if (c->after[of->device] < *made)
                    c->after[of->device] = *made;
            }
        }
    }
    pg__mem_free(maker);
    return PG_OK;
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
    p->model.tape.in_int8 = opts->in_int8;
    if (p->masks_only) /* such a run changes no averages */
        p->model.n_moving = p->model.n_states = p->model.n_activities = 0;
    PG_TRY(pg__program_rewrite(p, opts, err));
    PG_TRY(pg__program_add_losses(p, opts, err));
    PG_TRY(own_gradients(p, err));
    PG_TRY(prune(p, opts, err));
    PG_TRY(check_support(p, &opts->lower, err));
    p->n_devices = opts->lower.assigned ? opts->lower.assigned->n_devices : 1;
    if (!p->backend->host_memory)
        pg__rnn_make_room(&p->model.tape);
    if (p->n_devices > 1 && opts->devs)
        PG_TRY(pg__mp_program_new(p, opts->devs, err));
    PG_TRY(place_values(p, err));
    PG_TRY(prepare_calls(p, err));
    PG_TRY(find_settled(p, err));
    PG_TRY(pg__program_join_lanes(p, opts->n_lanes, err));
    if (p->apart)
        PG_TRY(pg__mp_program_order(p, err));
    else if (p->n_devices > 1)
        PG_TRY(find_order(p, err));
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
    for (size_t i = 0; i < p->n_calls; i++) {
        if (p->calls[i].kernel)
            p->backend->release(p->calls[i].kernel);
        if (p->calls[i].lanes)
            p->backend->release(p->calls[i].lanes);
    }
    if (p->shared)
        p->backend->free(p->dev, p->shared);
    pg__mp_program_free(p);
    pg__mem_free(p->calls);
    pg__mem_free(p->operands);
    pg__mem_free(p->settled);
    pg__mem_free(p->kept);
    pg__mem_free(p->after);
    pg__mem_free(p->homes);
    pg__mem_free(p->targets);
    pg__mem_free(p->losses);
    pg__mem_free(p->logits);
    pg__mem_free(p->on_logits);
    pg__mem_free(p->masks);
    pg__lowered_fini(&p->model);
    pg__mem_free(p);
}
