/* fold_norm.c - makes a normalisation part of the convolution before it; see fold_norm.h. */
#include "ops/fold_norm.h"

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"

#define NOBODY UINT32_MAX

enum { X, MEAN, VARIANCE, GAMMA, BETA, COUNT, MASK }; /* operands of bn_apply */
#define N_IN 7                                        /* of conv_norm */

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

/* Parameters, in any shape, or absent. */
static int are_constant(const pg__tape *t, const pg__inst *i, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++) {
        const pg__val v = pg__in(t, i, k);
        if (v != PG_NO_VAL && t->values[pg__tape_root(t, v)].role != PG_PARAM)
            return 0;
    }
    return 1;
}

/* The convolution that a normalisation can become part of, or NULL. */
static pg__inst *conv_before(const pg__tape *t, const pg__inst *norm, const uses *u,
                             const unsigned char *kept)
{
    if (norm->op != pg__op_of(PG_OP_bn_apply))
        return NULL;
    const pg__val between = pg__in(t, norm, X);
    if (u->maker[between] == NOBODY || u->n_readers[between] != 1 || kept[between] ||
        pg__in(t, norm, COUNT) != PG_NO_VAL || pg__in(t, norm, MASK) != PG_NO_VAL)
        return NULL;
    pg__inst *conv = &t->insts[u->maker[between]];
    return conv->op == pg__op_of(PG_OP_conv) && conv->device == norm->device &&
                   are_constant(t, conv, 1, conv->n_in) && are_constant(t, norm, MEAN, COUNT)
               ? conv
               : NULL;
}

/* The normalisation becomes the combined instruction. */
static pg_status join(pg__tape *t, const pg__inst *conv, pg__inst *norm, pg_err *err)
{
    const pg__bn_attrs *bn = norm->attrs;
    const pg__val in[N_IN] = {pg__in(t, conv, 0),        pg__in(t, conv, 1),
                              pg__in(t, conv, 2),        pg__in(t, norm, MEAN),
                              pg__in(t, norm, VARIANCE), pg__in(t, norm, GAMMA),
                              pg__in(t, norm, BETA)};
    pg__conv_norm_attrs *a = pg__mem_array(1, sizeof *a);
    if (!a ||
        pg__mem_grow(&t->operands, &t->cap_operands, (size_t)t->n_operands + N_IN, sizeof *in)) {
        pg__mem_free(a);
        return pg__nomem(err);
    }
    *a = (pg__conv_norm_attrs){*(const pg__conv_attrs *)conv->attrs, bn->epsilon, bn->has_act,
                               bn->act};
    norm->op = pg__op_of(PG_OP_conv_norm);
    norm->attrs = a;
    norm->origin = conv->origin;
    norm->in = t->n_operands;
    norm->n_in = N_IN;
    for (size_t k = 0; k < N_IN; k++)
        t->operands[t->n_operands++] = in[k];
    return pg__tape_own(t, a, err);
}

pg_status pg__tape_fold_norm(pg__tape *t, const unsigned char *kept, pg_err *err)
{
    uses u = {pg__mem_array(t->n_values, sizeof *u.maker),
              pg__mem_array(t->n_values, sizeof *u.n_readers)};
    unsigned char *gone = pg__mem_array(t->n_insts, 1);
    uint32_t n = 0;
    pg_status st = PG_OK;
    if (!u.maker || !u.n_readers || !gone)
        PG_TRY(pg__nomem(err));
    find_uses(t, &u);
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *conv = conv_before(t, &t->insts[at], &u, kept);
        if (!conv)
            continue;
        gone[conv - t->insts] = 1;
        PG_TRY(join(t, conv, &t->insts[at], err));
    }
    for (uint32_t at = 0; at < t->n_insts; at++)
        if (!gone[at])
            t->insts[n++] = t->insts[at];
    t->n_insts = n;
done:
    pg__mem_free(gone);
    pg__mem_free(u.n_readers);
    pg__mem_free(u.maker);
    return st;
}
