/* fold_add.c - makes a sum part of the convolution before it; see fold_add.h. */
#include "ops/fold_add.h"

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"

#define NOBODY UINT32_MAX

enum { PLUS = 7, N_IN }; /* operands of conv_norm */

typedef struct pass {
    pg__tape *t;
    const unsigned char *kept;
    const pg__elem *elems;
    size_t n_elems;
    uint32_t *maker, *n_readers; /* per value: instruction; number of readers */
    unsigned char *gone;         /* per instruction */
} pass;

static void find_uses(pass *p)
{
    const pg__tape *t = p->t;
    for (pg__val v = 0; v < t->n_values; v++)
        p->maker[v] = NOBODY;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__in(t, i, k) != PG_NO_VAL)
                p->n_readers[pg__in(t, i, k)]++;
        for (uint32_t k = 0; k < i->n_out; k++)
            p->maker[pg__out(t, i, k)] = at;
    }
}

static pg__elem elem_of(const pass *p, const pg__inst *i)
{
    return p->elems && i->origin < p->n_elems ? p->elems[i->origin] : PG_ELEM_REAL;
}

/* The normalised convolution that makes operand k of a reader and has no other reader, or NULL. */
static pg__inst *conv_before(const pass *p, const pg__inst *reader, uint32_t k)
{
    const pg__val v = pg__in(p->t, reader, k);
    if (p->maker[v] == NOBODY || p->n_readers[v] != 1 || p->kept[v])
        return NULL;
    pg__inst *conv = &p->t->insts[p->maker[v]];
    const int fits = conv->op == pg__op_of(PG_OP_conv_norm) && conv->device == reader->device &&
                     elem_of(p, conv) == elem_of(p, reader);
    return fits && !((const pg__conv_norm_attrs *)conv->attrs)->has_act ? conv : NULL;
}

/* The sum becomes the combined instruction. */
static pg_status join_add(pass *p, pg__inst *conv, pg__inst *add, pg__val plus, pg_err *err)
{
    pg__tape *t = p->t;
    if (pg__mem_grow(&t->operands, &t->cap_operands, (size_t)t->n_operands + N_IN,
                     sizeof *t->operands))
        return pg__nomem(err);
    const uint32_t first = t->n_operands;
    for (uint32_t k = 0; k < PLUS; k++)
        t->operands[t->n_operands++] = pg__in(t, conv, k);
    t->operands[t->n_operands++] = plus;
    add->op = conv->op;
    add->attrs = conv->attrs;
    add->origin = conv->origin;
    add->in = first;
    add->n_in = N_IN;
    p->gone[conv - t->insts] = 1;
    return PG_OK;
}

static pg_status try_add(pass *p, pg__inst *add, pg_err *err)
{
    pg__inst *const made[2] = {conv_before(p, add, 0), conv_before(p, add, 1)};
    if (!made[0] && !made[1])
        return PG_OK;
    const int which = !made[0] || (made[1] && made[1] > made[0]);
    if (made[which]->n_in > PLUS) /* it already has one */
        return PG_OK;
    return join_add(p, made[which], add, pg__in(p->t, add, (uint32_t)!which), err);
}

/* If a sum is part of a convolution, the activation after it becomes part of it, too. */
static pg_status try_act(pass *p, pg__inst *act, pg_err *err)
{
    pg__inst *conv = conv_before(p, act, 0);
    pg__conv_norm_attrs *both;
    if (!conv || conv->n_in != N_IN)
        return PG_OK;
    both = pg__mem_array(1, sizeof *both);
    if (!both)
        return pg__nomem(err);
    *both = *(const pg__conv_norm_attrs *)conv->attrs;
    both->has_act = 1;
    both->act = *(const pg__act_attrs *)act->attrs;
    act->op = conv->op;
    act->attrs = both;
    act->origin = conv->origin;
    act->in = conv->in;
    act->n_in = conv->n_in;
    p->gone[conv - p->t->insts] = 1;
    return pg__tape_own(p->t, both, err);
}

pg_status pg__tape_fold_add(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                            size_t n_elems, pg_err *err)
{
    pass p = {.t = t,
              .kept = kept,
              .elems = elems,
              .n_elems = n_elems,
              .maker = pg__mem_array(t->n_values, sizeof *p.maker),
              .n_readers = pg__mem_array(t->n_values, sizeof *p.n_readers),
              .gone = pg__mem_array((size_t)t->n_insts + 1, 1)};
    pg_status st = PG_OK;
    uint32_t n = 0;
    if (!p.maker || !p.n_readers || !p.gone)
        PG_TRY(pg__nomem(err));
    find_uses(&p);
    for (uint32_t at = 0; at < t->n_insts; at++) {
        if (t->insts[at].op == pg__op_of(PG_OP_add))
            PG_TRY(try_add(&p, &t->insts[at], err));
        else if (t->insts[at].op == pg__op_of(PG_OP_act))
            PG_TRY(try_act(&p, &t->insts[at], err));
    }
    for (uint32_t at = 0; at < t->n_insts; at++)
        if (!p.gone[at])
            t->insts[n++] = t->insts[at];
    t->n_insts = n;
done:
    pg__mem_free(p.gone);
    pg__mem_free(p.n_readers);
    pg__mem_free(p.maker);
    return st;
}
