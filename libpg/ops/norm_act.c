/* norm_act.c - makes activations part of batch normalisations; see norm_act.h. */
#include "ops/norm_act.h"

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"
#include "ops/compact.h"

#define NOBODY UINT32_MAX

typedef struct uses {
    uint32_t *maker, *n_readers; /* per value: instruction; number of readers */
} uses;

static void find_uses(const pg__tape *t, uses *u)
{
    for (pg__val v = 0; v < t->n_values; v++)
        u->maker[v] = NOBODY;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__in(t, i, k) != PG_NO_VAL)
                u->n_readers[pg__in(t, i, k)]++;
        for (uint32_t k = 0; k < i->n_out; k++)
            u->maker[pg__out(t, i, k)] = at;
    }
}

/* Values read outside the tape, and types with which layers compute. */
typedef struct limits {
    const unsigned char *kept;
    const pg__elem *elems;
    size_t n_elems;
} limits;

static pg__elem elem_of(const limits *l, const pg__inst *i)
{
    return l->elems && i->origin < l->n_elems ? l->elems[i->origin] : PG_ELEM_REAL;
}

/* Does the gradient of v come from products that give it rounded? Only then rounding it once more
 * behind the activation would change nothing. */
static int is_for_products(const pg__tape *t, pg__val v, const limits *l)
{
    if (l->kept[v])
        return 0;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in; k++) {
            const pg__op_kind kind = (pg__op_kind)i->op->kind;
            const int multiplies = k == 0 && (kind == PG_OP_conv || kind == PG_OP_dense);
            if (pg__in(t, i, k) != v)
                continue;
            if (elem_of(l, i) != PG_ELEM_AS_BF16 ||
                !(multiplies || (kind == PG_OP_pad && is_for_products(t, pg__out(t, i, 0), l))))
                return 0;
        }
    }
    return 1;
}

static int may_join(const pg__tape *t, const pg__inst *act, pg__elem elem, const limits *l)
{
    return elem == PG_ELEM_REAL ||
           (elem == PG_ELEM_AS_BF16 && pg__commutes_with_rounding(act->attrs) &&
            is_for_products(t, pg__out(t, act, 0), l));
}

/* The normalisation that an instruction can become part of, if it is an activation. */
static pg__inst *norm_before(const pg__tape *t, const pg__inst *act, const uses *u, const limits *l)
{
    if (act->op != pg__op_of(PG_OP_act))
        return NULL;
    const pg__val between = pg__in(t, act, 0);
    if (u->maker[between] == NOBODY || u->n_readers[between] != 1 || l->kept[between])
        return NULL;
    pg__inst *norm = &t->insts[u->maker[between]];
    const pg__elem elem = elem_of(l, norm);
    const int fits = norm->op == pg__op_of(PG_OP_bn_apply) && norm->device == act->device &&
                     elem == elem_of(l, act) && may_join(t, act, elem, l);
    return fits && !((const pg__bn_attrs *)norm->attrs)->has_act ? norm : NULL;
}

static pg_status join(pg__tape *t, pg__inst *norm, const pg__inst *act, pg_err *err)
{
    pg__bn_attrs *both = pg__mem_array(1, sizeof *both);
    if (!both)
        return pg__nomem(err);
    *both = *(const pg__bn_attrs *)norm->attrs;
    both->has_act = 1;
    both->act = *(const pg__act_attrs *)act->attrs;
    t->operands[norm->out] = pg__out(t, act, 0);
    norm->attrs = both;
    return pg__tape_own(t, both, err);
}

pg_status pg__tape_norm_act(pg__tape *t, const unsigned char *kept, const pg__elem *elems,
                            size_t n_elems, pg_err *err)
{
    const limits l = {kept, elems, n_elems};
    uses u = {pg__mem_array(t->n_values, sizeof *u.maker),
              pg__mem_array(t->n_values, sizeof *u.n_readers)};
    uint32_t n = 0;
    pg_status st = PG_OK;
    if (!u.maker || !u.n_readers)
        PG_TRY(pg__nomem(err));
    find_uses(t, &u);
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst i = t->insts[at];
        pg__inst *norm = norm_before(t, &i, &u, &l);
        if (norm) {
            PG_TRY(join(t, norm, &i, err));
            u.maker[pg__out(t, &i, 0)] = NOBODY; /* an activation of an activation stays */
            continue;
        }
        for (uint32_t k = 0; k < i.n_out; k++)
            u.maker[pg__out(t, &i, k)] = n;
        t->insts[n++] = i;
    }
    t->n_insts = n;
done:
    pg__mem_free(u.n_readers);
    pg__mem_free(u.maker);
    return st;
}
