/* program_model_parallel.c - a program whose devices have memories of their own. A value lies on
 * the device that makes it, parameters and their gradients on the device of their layer's first
 * call, inputs from outside on device 0. A device that reads a value of another has a copy, made on
 * its queue before the first read. One thread queues the work of all devices, in the order of the
 * tape; a device waits for another by events, so the thread never waits. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/exec/program_impl.h"

/* Another device's copy of a value. */
typedef struct copy {
    pg__val value;        /* not an alias */
    uint32_t to;          /* device */
    uint32_t first, last; /* instructions that read it; the tape's end: a read after the run */
    pg__home home;        /* on that device */
    size_t before;        /* the call before which it is made */
    size_t maker;         /* the call that makes the value; PG_NONE: it exists before the run */
} copy;

typedef struct part {
    pg__dev *dev;
    uint64_t arena_bytes;
    size_t scratch_bytes, shared_bytes;
    void *shared;
    pg__event *begun, *ended; /* of a run */
} part;

struct pg__mp_program {
    uint32_t *home; /* per value: its device */
    part *parts;    /* per device */
    copy *copies;   /* in the order of making */
    size_t n_copies, cap_copies;
    pg__home *operands;     /* as in the program, but in the memory of the call's device */
    pg__event **made;       /* per call: NULL if nothing that it makes crosses */
    unsigned char *is_late; /* per call: it prepares something from a parameter that crosses */
};

/* ---- what crosses ---- */

static void find_devices(pg__program *p)
{
    const pg__tape *t = &p->model.tape;
    uint32_t *home = p->apart->home;
    for (pg__val v = 0; v < t->n_values; v++)
        home[v] = t->values[v].role == PG_PARAM ? p->model.params[t->values[v].slot].device : 0;
    for (uint32_t at = 0; at < t->n_insts; at++)
        for (uint32_t k = 0; k < t->insts[at].n_out; k++)
            home[pg__out(t, &t->insts[at], k)] = t->insts[at].device;
    for (pg__val v = 0; v < t->n_values; v++)
        home[v] = home[pg__tape_root(t, v)];
}

static copy *find_copy(const pg__mp_program *s, pg__val root, uint32_t to)
{
    for (size_t k = 0; k < s->n_copies; k++)
        if (s->copies[k].value == root && s->copies[k].to == to &&
            s->copies[k].home.place != PG_IN_GRAD)
            return &s->copies[k];
    return NULL;
}

static pg_status add_copy(pg__mp_program *s, const copy *c, pg_err *err)
{
    if (pg__mem_grow(&s->copies, &s->cap_copies, s->n_copies + 1, sizeof *s->copies))
        return pg__nomem(err);
    s->copies[s->n_copies++] = *c;
    return PG_OK;
}

/* Records that instruction `at` reads v on a device. */
static pg_status reads(pg__program *p, pg__val v, uint32_t device, uint32_t at, pg_err *err)
{
    pg__mp_program *s = p->apart;
    if (v == PG_NO_VAL || s->home[v] == device)
        return PG_OK;
    const pg__val root = pg__tape_root(&p->model.tape, v);
    copy *c = find_copy(s, root, device);
    if (c) {
        c->last = at;
        return PG_OK;
    }
    return add_copy(s, &(copy){.value = root, .to = device, .first = at, .last = at}, err);
}

/* Results of a run are read on device 0, predictions alone in place, and results that belong to
 * parameters on their device. */
static pg_status find_readers_after(pg__program *p, pg_err *err)
{
    const pg__lowered *m = &p->model;
    const uint32_t end = m->tape.n_insts;
    pg_status st = PG_OK;
    for (size_t k = 0; k < m->n_outputs; k++) {
        PG_TRY(reads(p, p->losses[k], 0, end, err));
        PG_TRY(reads(p, p->masks[k], 0, end, err));
        PG_TRY(reads(p, p->logits[k], 0, end, err));
    }
    for (size_t i = 0; i < m->n_states; i++)
        PG_TRY(reads(p, m->states[i].after, 0, end, err));
    for (size_t i = 0; i < m->n_activities; i++)
        PG_TRY(reads(p, m->activities[i], 0, end, err));
    for (size_t i = 0; i < m->n_moving; i++)
        PG_TRY(reads(p, m->moving[i].value, m->params[m->moving[i].param].device, end, err));
    for (size_t i = 0; i < m->n_params; i++) {
        const pg__val param = m->params[i].value;
        const pg__val grad = param == PG_NO_VAL ? PG_NO_VAL : m->tape.values[param].grad;
        if (grad == PG_NO_VAL || p->apart->home[grad] == m->params[i].device)
            continue;
        PG_TRY(add_copy(p->apart,
                        &(copy){.value = grad,
                                .to = m->params[i].device,
                                .first = end,
                                .last = end,
                                .home = {PG_IN_GRAD, i, 0}},
                        err));
    }
done:
    return st;
}

/* An instruction whose result is its operand's memory is not a call: nothing runs. */
static int is_call(const pg__tape *t, const pg__inst *i)
{
    return t->values[pg__out(t, i, 0)].alias == PG_NO_VAL;
}

static pg_status find_readers(pg__program *p, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    pg_status st = PG_OK;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; is_call(t, i) && k < i->n_in; k++)
            PG_TRY(reads(p, pg__in(t, i, k), i->device, at, err));
    }
    PG_TRY(find_readers_after(p, err));
done:
    return st;
}

pg_status pg__mp_program_new(pg__program *p, pg__dev *const *devs, pg_err *err)
{
    pg__mp_program *s = p->apart = pg__mem_array(1, sizeof *s);
    pg_status st = PG_OK;
    if (!s)
        return pg__nomem(err);
    s->home = pg__mem_array(p->model.tape.n_values, sizeof *s->home);
    s->parts = pg__mem_array(p->n_devices, sizeof *s->parts);
    if (!s->home || !s->parts)
        PG_TRY(pg__nomem(err));
    for (uint32_t d = 0; d < p->n_devices; d++)
        s->parts[d].dev = devs[d];
    find_devices(p);
    PG_TRY(find_readers(p, err));
done:
    return st;
}

void pg__mp_program_free(pg__program *p)
{
    pg__mp_program *s = p->apart;
    if (!s)
        return;
    for (uint32_t d = 0; s->parts && d < p->n_devices; d++) {
        p->backend->event.free(s->parts[d].begun);
        p->backend->event.free(s->parts[d].ended);
        if (s->parts[d].shared)
            p->backend->free(s->parts[d].dev, s->parts[d].shared);
    }
    for (size_t i = 0; s->made && i < p->n_calls; i++)
        p->backend->event.free(s->made[i]);
    pg__mem_free(s->made);
    pg__mem_free(s->is_late);
    pg__mem_free(s->operands);
    pg__mem_free(s->copies);
    pg__mem_free(s->parts);
    pg__mem_free(s->home);
    pg__mem_free(s);
    p->apart = NULL;
}

uint32_t pg__mp_program_home(const pg__program *p, pg__val v)
{
    return p->apart->home[v];
}

size_t pg__mp_program_n_copies(const pg__program *p)
{
    return p->apart ? p->apart->n_copies : 0;
}

pg__val pg__mp_program_copied(const pg__program *p, size_t k)
{
    return p->apart->copies[k].value;
}

pg__dev *pg__mp_program_dev(const pg__program *p, uint32_t device)
{
    return p->apart ? p->apart->parts[device].dev : p->dev;
}

/* ---- memory ---- */

static size_t bytes_of(const pg__program *p, pg__val v)
{
    const pg__value *value = &p->model.tape.values[v];
    const size_t each = pg__elem_bytes(value->elem, p->backend->real_bytes);
    return (size_t)pg__dim_mul(pg__dims_elems(&value->shape), each);
}

void pg__mp_program_add_spans(const pg__program *p, uint32_t device, pg__spans *spans)
{
    for (size_t k = 0; k < pg__mp_program_n_copies(p); k++) {
        copy *c = &p->apart->copies[k];
        if (c->to != device || c->home.place == PG_IN_GRAD)
            continue;
        spans->v[spans->n] =
            (pg__span_of){.n_bytes = bytes_of(p, c->value), .first = c->first, .last = c->last};
        spans->home[spans->n] = &c->home;
        spans->device[spans->n++] = device;
    }
}

void pg__mp_program_set_arena(pg__program *p, uint32_t device, uint64_t n_bytes)
{
    p->apart->parts[device].arena_bytes = n_bytes;
    if (device == 0)
        p->arena_bytes = n_bytes;
}

void pg__mp_program_add_needs(pg__program *p, uint32_t device, const pg__needs *needs,
                              size_t *shared)
{
    part *of = &p->apart->parts[device];
    *shared = of->shared_bytes;
    of->shared_bytes += (needs->shared_bytes + PG_ALIGN - 1) / PG_ALIGN * PG_ALIGN;
    if (needs->scratch_bytes > of->scratch_bytes)
        of->scratch_bytes = needs->scratch_bytes;
}

/* ---- order ---- */

static int by_call(const void *a, const void *b)
{
    const copy *x = a, *y = b;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Numbers instructions as calls; finds the call that makes each value. */
static pg_status number_calls(pg__program *p, pg_err *err)
{
    const pg__tape *t = &p->model.tape;
    pg__mp_program *s = p->apart;
    size_t *call = pg__mem_array((size_t)t->n_insts + 1, sizeof *call);
    size_t *maker = pg__mem_array(t->n_values, sizeof *maker);
    size_t n = 0;
    if (!call || !maker) {
        pg__mem_free(call);
        pg__mem_free(maker);
        return pg__nomem(err);
    }
    for (pg__val v = 0; v < t->n_values; v++)
        maker[v] = PG_NONE;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        call[at] = n;
        for (uint32_t k = 0; is_call(t, &t->insts[at]) && k < t->insts[at].n_out; k++)
            maker[pg__out(t, &t->insts[at], k)] = n;
        n += (size_t)is_call(t, &t->insts[at]);
    }
    call[t->n_insts] = n;
    for (size_t k = 0; k < s->n_copies; k++) {
        s->copies[k].before = call[s->copies[k].first];
        s->copies[k].maker = maker[s->copies[k].value];
    }
    if (s->n_copies > 0)
        qsort(s->copies, s->n_copies, sizeof *s->copies, by_call);
    pg__mem_free(call);
    pg__mem_free(maker);
    return PG_OK;
}

static void find_operands(pg__program *p)
{
    pg__mp_program *s = p->apart;
    for (size_t i = 0; i < p->n_calls; i++) {
        const pg__step_call *c = &p->calls[i];
        for (uint32_t k = 0; k < c->n; k++) {
            const pg__val v = p->operands[c->first + k];
            s->operands[c->first + k] = (pg__home){PG_NOWHERE, 0, 0};
            if (v == PG_NO_VAL)
                continue;
            const int crosses = k < c->n_in && s->home[v] != c->device;
            s->operands[c->first + k] =
                crosses ? find_copy(s, pg__tape_root(&p->model.tape, v), c->device)->home
                        : p->homes[v];
            s->is_late[i] |= crosses && p->homes[v].place == PG_IN_PARAM && c->shared_bytes > 0;
        }
    }
}

static pg_status make_events(pg__program *p, pg_err *err)
{
    const pg__backend *b = p->backend;
    pg__mp_program *s = p->apart;
    pg_status st = PG_OK;
    for (uint32_t d = 0; d < p->n_devices; d++) {
        PG_TRY(b->event.new(&s->parts[d].begun, s->parts[d].dev, err));
        PG_TRY(b->event.new(&s->parts[d].ended, s->parts[d].dev, err));
    }
    for (size_t k = 0; k < s->n_copies; k++) {
        const size_t maker = s->copies[k].maker;
        if (maker != PG_NONE && !s->made[maker])
            PG_TRY(b->event.new(&s->made[maker], s->parts[p->calls[maker].device].dev, err));
    }
done:
    return st;
}

pg_status pg__mp_program_order(pg__program *p, pg_err *err)
{
    pg__mp_program *s = p->apart;
    pg_status st = PG_OK;
    s->operands = pg__mem_array(p->model.tape.n_operands, sizeof *s->operands);
    s->made = pg__mem_array(p->n_calls, sizeof(pg__event *));
    s->is_late = pg__mem_array(p->n_calls, 1);
    if (!s->operands || !s->made || !s->is_late)
        PG_TRY(pg__nomem(err));
    PG_TRY(number_calls(p, err));
    find_operands(p);
    PG_TRY(make_events(p, err));
    for (uint32_t d = 0; d < p->n_devices; d++)
        if (s->parts[d].shared_bytes > 0)
            PG_TRY(p->backend->alloc(s->parts[d].dev, &s->parts[d].shared, s->parts[d].shared_bytes,
                                     err));
done:
    return st;
}

/* ---- running ---- */

/* Where the original of a value lies; NULL: it is not wanted, or not given (weights of rows). */
static void *original(const pg__program *p, const pg__frame *f, pg__val v)
{
    return v == PG_NO_VAL ? NULL : pg__home_at(f, p->homes[v], f->parts[p->apart->home[v]].arena);
}

static void fill_args(const pg__program *p, const pg__frame *f, const pg__step_call *c)
{
    void *arena = f->parts[c->device].arena;
    for (uint32_t k = c->first; k < c->first + c->n; k++)
        f->args[k - c->first] =
            original(p, f, p->operands[k]) ? pg__home_at(f, p->apart->operands[k], arena) : NULL;
}

static void *shared_of(const pg__program *p, const pg__step_call *c)
{
    return c->shared_bytes > 0 ? (char *)p->apart->parts[c->device].shared + c->shared : NULL;
}

static pg_status share(const pg__program *p, const pg__frame *f, const pg__step_call *c)
{
    return p->backend->share(f->parts[c->device].dev, c->kernel, f->args, shared_of(p, c));
}

/* For parameters that lie where they are used; the others are copied in each run. */
pg_status pg__mp_program_share(const pg__program *p, const pg__frame *f)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < p->n_calls && st == PG_OK; i++) {
        const pg__step_call *c = &p->calls[i];
        if (c->shared_bytes == 0 || p->apart->is_late[i])
            continue;
        for (uint32_t k = 0; k < c->n; k++) {
            const pg__home h = p->apart->operands[c->first + k];
            f->args[k] = h.place == PG_IN_PARAM ? pg__home_at(f, h, NULL) : NULL;
        }
        st = share(p, f, c);
    }
    return st;
}

static pg_status make_copy(const pg__program *p, const pg__frame *f, const copy *c)
{
    const pg__frame_part *to = &f->parts[c->to], *from = &f->parts[p->apart->home[c->value]];
    const void *there = original(p, f, c->value);
    void *into = pg__home_at(f, c->home, to->arena);
    pg_status st = PG_OK;
    if (!there || !into)
        return PG_OK;
    if (c->maker != PG_NONE)
        PG_TRY(p->backend->event.await(to->dev, p->apart->made[c->maker]));
    PG_TRY(p->backend->copy_from(to->dev, into, from->dev, there, bytes_of(p, c->value)));
done:
    return st;
}

static pg__event *event_of(const pg__program *p, uint32_t d, int ends)
{
    return ends ? p->apart->parts[d].ended : p->apart->parts[d].begun;
}

/* Makes every device wait for all work queued on the others. Before a run: so that parameters are
 * updated, the data on device 0 are there, and the results of the run before are not read any more.
 * After it: so that no device still reads a parameter that its own device is about to update. */
static pg_status join(const pg__program *p, const pg__frame *f, int ends)
{
    pg_status st = PG_OK;
    for (uint32_t d = 0; d < p->n_devices; d++)
        PG_TRY(p->backend->event.mark(f->parts[d].dev, event_of(p, d, ends)));
    for (uint32_t d = 0; d < p->n_devices; d++)
        for (uint32_t of = 0; of < p->n_devices; of++)
            if (of != d)
                PG_TRY(p->backend->event.await(f->parts[d].dev, event_of(p, of, ends)));
done:
    return st;
}

pg_status pg__mp_program_run(const pg__program *p, const pg__frame *f)
{
    const pg__mp_program *s = p->apart;
    size_t next = 0;
    pg_status st = PG_OK;
    PG_TRY(join(p, f, 0));
    for (size_t i = 0; i <= p->n_calls; i++) {
        for (; next < s->n_copies && s->copies[next].before == i; next++)
            PG_TRY(make_copy(p, f, &s->copies[next]));
        if (i == p->n_calls)
            break;
        const pg__step_call *c = &p->calls[i];
        const pg__frame_part *on = &f->parts[c->device];
        fill_args(p, f, c);
        if (s->is_late[i])
            PG_TRY(share(p, f, c));
        PG_TRY(p->backend->run(on->dev, c->kernel, f->args, on->scratch, shared_of(p, c)));
        if (s->made[i])
            PG_TRY(p->backend->event.mark(on->dev, s->made[i]));
    }
    PG_TRY(join(p, f, 1));
done:
    return st;
}

void *pg__mp_program_at(const pg__program *p, const pg__frame *f, pg__val v, uint32_t device)
{
    const copy *c = NULL;
    if (p->apart->home[v] != device)
        c = find_copy(p->apart, pg__tape_root(&p->model.tape, v), device);
    return pg__home_at(f, c ? c->home : p->homes[v], f->parts[device].arena);
}

/* ---- what it needs ---- */

int pg__program_is_split(const pg__program *p)
{
    return p->apart != NULL;
}

uint64_t pg__program_arena_on(const pg__program *p, uint32_t device)
{
    return p->apart ? p->apart->parts[device].arena_bytes : p->arena_bytes;
}

size_t pg__program_scratch_on(const pg__program *p, uint32_t device)
{
    return p->apart ? p->apart->parts[device].scratch_bytes : p->scratch_bytes;
}

size_t pg__program_shared_on(const pg__program *p, uint32_t device)
{
    return p->apart ? p->apart->parts[device].shared_bytes : p->shared_bytes;
}
