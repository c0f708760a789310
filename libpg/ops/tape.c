/* tape.c - appends to a tape, generates its backward pass, and removes what nobody reads. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/rules.h"

/* A tape counts in 32 bits; no real model comes near that. */
#define MAX_OPERANDS (1u << 28)

void pg__tape_fini(pg__tape *t)
{
    for (uint32_t i = 0; i < t->n_attrs; i++)
        pg__mem_free(t->attrs[i]);
    pg__mem_free(t->attrs);
    pg__mem_free(t->operands);
    pg__mem_free(t->insts);
    pg__mem_free(t->values);
    *t = (pg__tape){0};
}

pg_status pg__tape_value(pg__tape *t, const pg__dims *shape, pg__elem elem, pg__role role,
                         uint32_t slot, int needs_grad, pg__val *out, pg_err *err)
{
    if (t->n_values >= MAX_OPERANDS ||
        pg__mem_grow(&t->values, &t->cap_values, (size_t)t->n_values + 1, sizeof *t->values))
        return pg__nomem(err);
    t->values[t->n_values] = (pg__value){.shape = *shape,
                                         .elem = elem,
                                         .role = role,
                                         .slot = slot,
                                         .needs_grad = needs_grad,
                                         .grad = PG_NO_VAL,
                                         .alias = PG_NO_VAL};
    *out = t->n_values++;
    return PG_OK;
}

static pg_status push_operand(pg__tape *t, pg__val v, pg_err *err)
{
    if (t->n_operands >= MAX_OPERANDS ||
        pg__mem_grow(&t->operands, &t->cap_operands, (size_t)t->n_operands + 1,
                     sizeof *t->operands))
        return pg__nomem(err);
    t->operands[t->n_operands++] = v;
    return PG_OK;
}

pg_status pg__tape_own(pg__tape *t, void *mem, pg_err *err)
{
    if (!mem || t->n_attrs >= MAX_OPERANDS ||
        pg__mem_grow(&t->attrs, &t->cap_attrs, (size_t)t->n_attrs + 1, sizeof *t->attrs)) {
        pg__mem_free(mem);
        return pg__nomem(err);
    }
    t->attrs[t->n_attrs++] = mem;
    return PG_OK;
}

static pg_status keep_attrs(pg__tape *t, const pg__op *op, const void *attrs, const void **out,
                            pg_err *err)
{
    *out = NULL;
    if (!attrs)
        return PG_OK;
    void *copy = pg__mem_array(1, op->attrs_bytes);
    if (copy)
        memcpy(copy, attrs, op->attrs_bytes);
    *out = copy;
    return pg__tape_own(t, copy, err);
}

/* Creates the results; they need a gradient if an operand does. */
static pg_status push_results(pg__tape *t, pg__inst *i, const pg__dims *shapes, pg_err *err)
{
    int needs_grad = 0;
    pg_status st = PG_OK;
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__val v = t->operands[i->in + k];
        needs_grad |= v != PG_NO_VAL && t->values[v].needs_grad;
    }
    i->out = t->n_operands;
    i->n_out = i->op->n_out;
    for (uint32_t k = 0; k < i->n_out; k++) {
        pg__val v = PG_NO_VAL;
        PG_TRY(pg__tape_value(t, &shapes[k], PG_ELEM_REAL, PG_TEMP, 0,
                              needs_grad && i->op->backward, &v, err));
        PG_TRY(push_operand(t, v, err));
    }
done:
    return st;
}

#define MAX_OUT 8

pg_status pg__emit(pg__tape *t, pg__op_kind kind, const void *attrs, const pg__val *in, size_t n_in,
                   pg__val *out, pg_err *err)
{
    pg_status st = PG_OK;
    pg__inst i = {.op = pg__op_of(kind),
                  .in = t->n_operands,
                  .n_in = (uint32_t)n_in,
                  .origin = t->origin,
                  .device = t->device};
    const pg__dims **shapes = pg__mem_array(n_in, sizeof *shapes);
    pg__dims results[MAX_OUT] = {{0}};
    if (!shapes)
        return pg__nomem(err);
    for (size_t k = 0; k < n_in; k++) {
        shapes[k] = in[k] == PG_NO_VAL ? NULL : &t->values[in[k]].shape;
        PG_TRY(push_operand(t, in[k], err));
    }
    PG_TRY(i.op->shape(attrs, shapes, n_in, results, err));
    PG_TRY(keep_attrs(t, i.op, attrs, &i.attrs, err));
    PG_TRY(push_results(t, &i, results, err));
    if (pg__mem_grow(&t->insts, &t->cap_insts, (size_t)t->n_insts + 1, sizeof *t->insts))
        PG_TRY(pg__nomem(err));
    t->insts[t->n_insts++] = i;
    if (kind == PG_OP_reshape) {
        t->values[pg__out(t, &i, 0)].alias = in[0];
        t->values[pg__out(t, &i, 0)].elem = t->values[in[0]].elem;
    }
    if (kind == PG_OP_cast)
        t->values[pg__out(t, &i, 0)].elem = ((const pg__cast_attrs *)attrs)->to;
    for (uint32_t k = 0; k < i.n_out; k++)
        out[k] = pg__out(t, &i, k);
done:
    pg__mem_free(shapes);
    return st;
}

pg_status pg__emit1(pg__tape *t, pg__op_kind kind, const void *attrs, pg__val a, pg__val *out,
                    pg_err *err)
{
    return pg__emit(t, kind, attrs, &a, 1, out, err);
}

pg_status pg__emit2(pg__tape *t, pg__op_kind kind, const void *attrs, pg__val a, pg__val b,
                    pg__val *out, pg_err *err)
{
    const pg__val in[] = {a, b};
    return pg__emit(t, kind, attrs, in, 2, out, err);
}

pg_status pg__emit3(pg__tape *t, pg__op_kind kind, const void *attrs, pg__val a, pg__val b,
                    pg__val c, pg__val *out, pg_err *err)
{
    const pg__val in[] = {a, b, c};
    return pg__emit(t, kind, attrs, in, 3, out, err);
}

int pg__wants(const pg__tape *t, const pg__inst *i, size_t k)
{
    const pg__val v = pg__in(t, i, k);
    return v != PG_NO_VAL && t->values[v].needs_grad;
}

pg__val pg__grad_of(const pg__tape *t, const pg__inst *i, size_t k)
{
    return t->values[pg__out(t, i, k)].grad;
}

pg_status pg__give(pg__tape *t, const pg__inst *i, size_t k, pg__val g, pg_err *err)
{
    const pg__val v = pg__in(t, i, k);
    pg__val sum = g;
    pg_status st = PG_OK;
    if (t->values[v].grad != PG_NO_VAL)
        PG_TRY(pg__emit2(t, PG_OP_add, NULL, t->values[v].grad, g, &sum, err));
    t->values[v].grad = sum;
done:
    return st;
}

pg_status pg__tape_backward(pg__tape *t, pg_err *err)
{
    pg_status st = PG_OK;
    t->n_forward = t->n_insts;
    for (uint32_t at = t->n_forward; at-- > 0;) {
        const pg__inst i = t->insts[at]; /* a copy: the array grows */
        int reached = i.op == pg__op_of(PG_OP_loss) || i.op == pg__op_of(PG_OP_activity);
        for (uint32_t k = 0; k < i.n_out && !reached; k++)
            reached = pg__grad_of(t, &i, k) != PG_NO_VAL;
        if (!reached || !i.op->backward)
            continue;
        t->origin = i.origin;
        t->device = i.device;
        PG_TRY(i.op->backward(t, &i, err));
    }
done:
    return st;
}

pg__val pg__tape_root(const pg__tape *t, pg__val v)
{
    while (t->values[v].alias != PG_NO_VAL)
        v = t->values[v].alias;
    return v;
}

/* Marks v, and the value whose memory it shares, as read. */
static void mark(const pg__tape *t, unsigned char *live, pg__val v)
{
    for (; v != PG_NO_VAL && !live[v]; v = t->values[v].alias)
        live[v] = 1;
}

pg_status pg__tape_prune(pg__tape *t, const pg__val *keep, size_t n_keep, pg_err *err)
{
    unsigned char *live = pg__mem_array(t->n_values, 1);
    unsigned char *used = pg__mem_array(t->n_insts, 1);
    pg_status st = PG_OK;
    uint32_t n = 0, n_forward = 0;
    if (!live || !used)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < n_keep; k++)
        mark(t, live, keep[k]);
    for (uint32_t at = t->n_insts; at-- > 0;) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_out; k++)
            used[at] |= live[pg__out(t, i, k)];
        for (uint32_t k = 0; used[at] && k < i->n_in; k++)
            mark(t, live, pg__in(t, i, k));
    }
    for (uint32_t at = 0; at < t->n_insts; at++) {
        if (!used[at])
            continue;
        t->insts[n++] = t->insts[at];
        n_forward += at < t->n_forward;
    }
    t->n_insts = n;
    t->n_forward = n_forward;
done:
    pg__mem_free(used);
    pg__mem_free(live);
    return st;
}
