/* pool_first.c - swaps ReLU and max-pooling; see pool_first.h. */
#include "ops/pool_first.h"

#include <math.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/attrs.h"

#define NOBODY UINT32_MAX

static int is_plain_relu(const pg__inst *i)
{
    const pg__act_attrs *a = i->attrs;
    return i->op == pg__op_of(PG_OP_act) && a->kind == PG_ACT_RELU && isinf(a->a) && a->b == 0 &&
           a->c == 0;
}

static int is_max_pool(const pg__inst *i)
{
    return i->op == pg__op_of(PG_OP_pool) && ((const pg__pool_attrs *)i->attrs)->max;
}

/* Both keep their operands and results: the value between them is now the pool's. */
static void exchange(pg__tape *t, pg__inst *relu, pg__inst *pool)
{
    const pg__inst was = *relu;
    t->values[pg__out(t, relu, 0)].shape = t->values[pg__out(t, pool, 0)].shape;
    relu->op = pool->op;
    relu->attrs = pool->attrs;
    relu->origin = pool->origin;
    pool->op = was.op;
    pool->attrs = was.attrs;
    pool->origin = was.origin;
}

pg_status pg__tape_pool_first(pg__tape *t, const unsigned char *kept, pg_err *err)
{
    uint32_t *maker = pg__mem_array(t->n_values, sizeof *maker);
    uint32_t *n_readers = pg__mem_array(t->n_values, sizeof *n_readers);
    pg_status st = PG_OK;
    if (!maker || !n_readers)
        PG_TRY(pg__nomem(err));
    for (pg__val v = 0; v < t->n_values; v++)
        maker[v] = NOBODY;
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__in(t, i, k) != PG_NO_VAL)
                n_readers[pg__in(t, i, k)]++;
        for (uint32_t k = 0; k < i->n_out; k++)
            maker[pg__out(t, i, k)] = at;
    }
    for (uint32_t at = 0; at < t->n_insts; at++) {
        pg__inst *pool = &t->insts[at];
        const pg__val between = pg__in(t, pool, 0);
        if (!is_max_pool(pool) || maker[between] == NOBODY)
            continue;
        pg__inst *relu = &t->insts[maker[between]];
        if (is_plain_relu(relu) && relu->device == pool->device && n_readers[between] == 1 &&
            !kept[between])
            exchange(t, relu, pool);
    }
done:
    pg__mem_free(n_readers);
    pg__mem_free(maker);
    return st;
}
