/* overwrite.c - see overwrite.h. */
#include "ops/overwrite.h"

enum { NOTHING, FIRST, SECOND, BOTH };

static int allowed(const pg__op *op)
{
    static const unsigned char table[PG_N_OPS] = {
        [PG_OP_act] = FIRST,       [PG_OP_act_grad] = SECOND, [PG_OP_add] = BOTH,
        [PG_OP_affine] = FIRST,    [PG_OP_binary] = BOTH,     [PG_OP_bn_apply] = FIRST,
        [PG_OP_bn_dx] = SECOND,    [PG_OP_bn_sums] = SECOND,  [PG_OP_dropout] = FIRST,
        [PG_OP_mask_rows] = FIRST, [PG_OP_softmax] = FIRST,   [PG_OP_softmax_grad] = SECOND,
    };
    return table[op - pg__op_of((pg__op_kind)0)];
}

size_t pg__overwrites(const pg__tape *t, const pg__inst *i, uint32_t out[2])
{
    const int which = allowed(i->op);
    const pg__value *result = &t->values[pg__out(t, i, 0)];
    size_t n = 0;
    for (uint32_t k = 0; k < 2 && k < i->n_in; k++) {
        const pg__val v = pg__in(t, i, k);
        if ((which >> k & 1) && v != PG_NO_VAL && t->values[v].elem == result->elem &&
            pg__dims_equal(&t->values[v].shape, &result->shape))
            out[n++] = k;
    }
    return n;
}
