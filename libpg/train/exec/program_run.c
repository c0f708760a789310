/* program_run.c - runs what program.c compiled, and finds the results of a run. */
#include "train/exec/program_impl.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "train/exec/trace.h"

/* Serves constant and writable slots; back ends promise not to write operands. */
static void *at_slot(const void *const *slots, uint64_t slot)
{
    union {
        const void *in;
        void *out;
    } p = {.in = slots ? slots[slot] : NULL};
    return p.out;
}

void *pg__home_at(const pg__frame *f, pg__home h, void *arena)
{
    switch (h.place) {
    case PG_IN_ARENA:
        return (char *)arena + (f->n_lanes ? f->n_lanes : 1) * h.at + f->lane * h.each;
    case PG_IN_INPUT: return at_slot(f->inputs, h.at);
    case PG_IN_TARGET: return at_slot(f->targets, h.at);
    case PG_IN_WEIGHT: return at_slot(f->weights, h.at);
    case PG_IN_PARAM: return f->params[h.at];
    case PG_IN_GRAD: return f->grads ? f->grads[h.at] : NULL;
    case PG_IN_SEED: return at_slot(f->seeds, h.at);
    case PG_IN_STATE: return f->states ? f->states[h.at] : NULL;
    case PG_IN_STEP: return at_slot(&f->step, 0);
    case PG_NOWHERE: break;
    }
    return NULL;
}

static void *address(const pg__program *p, const pg__frame *f, pg__val v)
{
    if (v == PG_NO_VAL)
        return NULL;
    const pg__home h = p->homes[v];
    const int is_kept =
        h.place == PG_IN_GRAD && f->n_lanes > 1 && p->kept[h.at].place != PG_NOWHERE;
    return pg__home_at(f, is_kept ? p->kept[h.at] : h, f->arena);
}

/* A value after a run, on one of the devices that shared it. */
static const void *found(const pg__program *p, const pg__frame *f, pg__val v, uint32_t device)
{
    return p->apart && v != PG_NO_VAL ? pg__mp_program_at(p, f, v, device) : address(p, f, v);
}

static pg__dev *dev_of(const pg__program *p, const pg__frame *f)
{
    return f->dev ? f->dev : p->dev;
}

pg_status pg__program_share(const pg__program *p, const pg__frame *f, size_t part, size_t n_parts)
{
    void **args = f->args;
    size_t k = 0;
    if (p->apart)
        return part == 0 ? pg__mp_program_share(p, f) : PG_OK;
    for (size_t i = 0; i < p->n_calls; i++) {
        const pg__step_call *c = &p->calls[i];
        if (c->shared_bytes == 0 || k++ % n_parts != part)
            continue;
        for (uint32_t a = 0; a < c->n; a++) {
            const pg__val v = p->operands[c->first + a];
            const int is_param = v != PG_NO_VAL && p->homes[v].place == PG_IN_PARAM;
            args[a] = is_param ? address(p, f, v) : NULL;
        }
        const pg_status st =
            p->backend->share(dev_of(p, f), c->kernel, args, (char *)p->shared + c->shared);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

/* For 16-bit floats; exponent: the mask of its bits, which are all set in NaN and infinity. */
static int is_finite_16(uint16_t bits, uint16_t exponent)
{
    return (bits & exponent) != exponent;
}

static int is_finite(const void *values, pg__elem elem, size_t n_bytes, uint64_t i)
{
    if (elem == PG_ELEM_REAL || elem == PG_ELEM_AS_BF16)
        return n_bytes == sizeof(float) ? isfinite(((const float *)values)[i])
                                        : isfinite(((const double *)values)[i]);
    return is_finite_16(((const uint16_t *)values)[i], elem == PG_ELEM_BF16 ? 0x7f80u : 0x7c00u);
}

static int are_finite(const void *values, pg__elem elem, size_t n_bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!is_finite(values, elem, n_bytes, i))
            return 0;
    return 1;
}

/* Copies the value if the host cannot read the device's memory; if there is no memory for that,
 * counts it as finite. */
static int are_finite_there(const pg__program *p, const pg__frame *f, const void *at,
                            const pg__value *v)
{
    const uint64_t n = pg__dims_elems(&v->shape);
    const size_t each = pg__elem_bytes(v->elem, p->backend->real_bytes);
    void *copy = NULL;
    if (p->backend->host_memory)
        return are_finite(at, v->elem, each, n);
    copy = pg__mem_array(n, each);
    const int finite = !copy || p->backend->get(dev_of(p, f), copy, at, (size_t)n * each) ||
                       are_finite(copy, v->elem, each, n);
    pg__mem_free(copy);
    return finite;
}

/* Checks operands first: if one is bad, the call is not to blame. */
static void look(const pg__program *p, const pg__frame *f, const pg__step_call *c)
{
    for (uint32_t k = 0; k < c->n; k++) {
        const pg__val v = p->operands[c->first + k];
        const void *at = address(p, f, v);
        if (!at || p->model.tape.values[v].elem == PG_ELEM_INT)
            continue;
        if (are_finite_there(p, f, at, &p->model.tape.values[v]))
            continue;
        *f->watch = (pg__watch){.found = 1,
                                .leaf = c->origin,
                                .in_input = p->homes[v].place == PG_IN_INPUT,
                                .in_param = p->homes[v].place == PG_IN_PARAM};
        return;
    }
}

/* On a GPU, waits until the call is done. */
static pg_status run_and_wait(const pg__program *p, const pg__frame *f, const pg__kernel *kernel,
                              const void *shared)
{
    const pg_status st = p->backend->run(dev_of(p, f), kernel, f->args, f->scratch, shared);
    return st == PG_OK && !p->backend->host_memory ? p->backend->sync(dev_of(p, f)) : st;
}

static pg_status run_timed(const pg__program *p, const pg__frame *f, const pg__step_call *c,
                           const pg__kernel *kernel, size_t n_lanes, const void *shared)
{
    const double clock = pg__now(), began = f->profile ? pg__profile_clock(p->backend) : 0;
    const pg_status st = run_and_wait(p, f, kernel, shared);
    if (f->profile)
        pg__profile_add(
            f->profile, c->origin, c->kind, pg__profile_clock(p->backend) - began,
            (pg__cost){c->cost.flops * (double)n_lanes, c->cost.bytes * (double)n_lanes});
    if (f->trace)
        pg__trace_add(f->trace,
                      &(pg__trace_event){clock, pg__now(), PG_TRACE_OPERATION, c->origin,
                                         c->kind | (c->is_backward ? PG_TRACE_BACKWARD : 0)});
    return st;
}

void pg__call_bind(const pg__program *p, const pg__frame *f, const pg__step_call *c)
{
    for (uint32_t k = 0; k < c->n; k++)
        f->args[k] = address(p, f, p->operands[c->first + k]);
}

pg_status pg__call_do(const pg__program *p, const pg__frame *f, const pg__step_call *c,
                      const pg__kernel *kernel, size_t n_lanes)
{
    const void *shared = c->shared_bytes > 0 ? (char *)p->shared + c->shared : NULL;
    return f->profile || f->trace
               ? run_timed(p, f, c, kernel, n_lanes, shared)
               : p->backend->run(dev_of(p, f), kernel, f->args, f->scratch, shared);
}

static pg_status run_call(const pg__program *p, const pg__frame *f, const pg__step_call *c)
{
    pg__call_bind(p, f, c);
    const pg_status st = pg__call_do(p, f, c, c->kernel, 1);
    if (st == PG_OK && f->watch && !f->watch->found)
        look(p, f, c);
    return st;
}

pg_status pg__program_run(const pg__program *p, const pg__frame *f, size_t *at, int *meets)
{
    *meets = 0;
    if (p->apart)
        return pg__mp_program_run(p, f);
    for (; *at < p->n_calls; (*at)++) {
        const pg__step_call *c = &p->calls[*at];
        if (!c->kernel) {
            *meets = 1;
            return PG_OK;
        }
        const pg_status st = run_call(p, f, c);
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

pg_status pg__program_run_calls(const pg__program *p, const pg__frame *f, size_t from, size_t to)
{
    pg_status st = PG_OK;
    if (p->apart) /* always runs from beginning to end */
        return pg__mp_program_run(p, f);
    for (size_t i = from; i < to && st == PG_OK; i++)
        st = run_call(p, f, &p->calls[i]);
    return st;
}

size_t pg__program_n_calls(const pg__program *p)
{
    return p->n_calls;
}

double pg__program_flops(const pg__program *p)
{
    double n = 0;
    for (size_t i = 0; i < p->n_calls; i++)
        n += p->calls[i].cost.flops;
    return n;
}

size_t pg__program_settled(const pg__program *p, size_t i)
{
    return p->settled[i];
}

/* After a failure lets the others continue: the step fails anyway. */
pg_status pg__program_run_part(const pg__program *p, const pg__frame *f, uint32_t device,
                               pg__thread_pool *threads, pg__count *done)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < p->n_calls && st == PG_OK; i++) {
        const pg__step_call *c = &p->calls[i];
        if (c->device != device)
            continue;
        for (uint32_t d = 0; d < p->n_devices; d++)
            if (c->after[d] > 0)
                pg__thread_pool_await(threads, &done[d], c->after[d]);
        st = run_call(p, f, c);
        if (c->awaited)
            pg__thread_pool_raise(threads, &done[device], i + 1);
    }
    pg__thread_pool_raise(threads, &done[device], p->n_calls + 1);
    return st;
}

uint32_t pg__program_n_devices(const pg__program *p)
{
    return p->n_devices;
}

size_t pg__program_n_meetings(const pg__program *p)
{
    return p->n_meetings;
}

uint64_t pg__program_meeting_elems(const pg__program *p)
{
    return p->meeting_elems;
}

size_t pg__program_n_in_int8(const pg__program *p)
{
    return p->n_in_int8;
}

pg__meeting pg__program_meeting(const pg__program *p, const pg__frame *f, size_t at)
{
    const pg__step_call *c = &p->calls[at];
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
    const pg__val v = p->model.outputs[k];
    return found(p, f, v, p->apart ? pg__mp_program_home(p, v) : 0);
}

pg__dev *pg__program_prediction_dev(const pg__program *p, const pg__frame *f, size_t k)
{
    return p->apart ? f->parts[pg__mp_program_home(p, p->model.outputs[k])].dev : dev_of(p, f);
}

const void *pg__program_loss(const pg__program *p, const pg__frame *f, size_t k)
{
    return found(p, f, p->losses[k], 0);
}

uint32_t pg__program_on_logits(const pg__program *p, size_t k)
{
    return p->on_logits[k];
}

const pg__value *pg__program_logits_value(const pg__program *p, size_t k)
{
    return p->logits[k] == PG_NO_VAL ? NULL : &p->model.tape.values[p->logits[k]];
}

const void *pg__program_logits(const pg__program *p, const pg__frame *f, size_t k)
{
    return found(p, f, p->logits[k], 0);
}

const void *pg__program_moving(const pg__program *p, const pg__frame *f, size_t i)
{
    const pg__moving *m = &p->model.moving[i];
    return found(p, f, m->value, p->model.params[m->param].device);
}

const void *pg__program_activity(const pg__program *p, const pg__frame *f, size_t i)
{
    return found(p, f, p->model.activities[i], 0);
}

const pg__value *pg__program_target(const pg__program *p, size_t k)
{
    return p->targets[k] == PG_NO_VAL ? NULL : &p->model.tape.values[p->targets[k]];
}

const pg__value *pg__program_loss_value(const pg__program *p, size_t k)
{
    return p->losses[k] == PG_NO_VAL ? NULL : &p->model.tape.values[p->losses[k]];
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

size_t pg__program_n_args(const pg__program *p)
{
    return p->max_args;
}

size_t pg__program_shared_bytes(const pg__program *p)
{
    return p->shared_bytes;
}

uint64_t pg__program_largest(const pg__program *p, uint32_t *leaf)
{
    uint64_t most = 0;
    for (size_t i = 0; i < p->n_calls; i++) {
        const pg__step_call *c = &p->calls[i];
        uint64_t bytes = 0;
        for (uint32_t k = c->n_in; k < c->n; k++) {
            const pg__val v = p->operands[c->first + k];
            if (v != PG_NO_VAL && p->homes[v].place == PG_IN_ARENA)
                bytes += pg__dims_elems(&p->model.tape.values[v].shape) *
                         pg__elem_bytes(p->model.tape.values[v].elem, p->backend->real_bytes);
        }
        if (bytes > most) {
            most = bytes;
            *leaf = c->origin;
        }
    }
    return most;
}

const pg__value *pg__program_mask_value(const pg__program *p, size_t k)
{
    return p->masks[k] == PG_NO_VAL ? NULL : &p->model.tape.values[p->masks[k]];
}

const void *pg__program_mask(const pg__program *p, const pg__frame *f, size_t k)
{
    return found(p, f, p->masks[k], 0);
}

const void *pg__program_state(const pg__program *p, const pg__frame *f, size_t k)
{
    return found(p, f, p->model.states[k].after, 0);
}
