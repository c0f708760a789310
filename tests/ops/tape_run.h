/* tape_run.h - tests of passes over a tape: values, how many instructions of a kind are left, and
 * the numbers that the reference makes of them. */
#ifndef PG_TEST_TAPE_RUN_H
#define PG_TEST_TAPE_RUN_H

#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "ops/op.h"

static inline pg__val tape_value(pg__tape *t, pg__role role, uint32_t rank, const uint64_t *d)
{
    const pg__dims shape = pg__dims_of(rank, d);
    pg__val v = PG_NO_VAL;
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, role, 0, 0, &v, NULL));
    return v;
}
/* m: has a `tape` */
#define VALUE(m, role, ...)                                                            \
    tape_value(&(m)->tape, role, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), \
               (const uint64_t[]){__VA_ARGS__})

static inline size_t tape_count(const pg__tape *t, pg__op_kind kind)
{
    size_t n = 0;
    for (uint32_t at = 0; at < t->n_insts; at++)
        n += t->insts[at].op == pg__op_of(kind);
    return n;
}

/* mem: room for a pointer per value, which tape_release() frees with the tape. What is given
 * lies between 0.1 and 0.1 + largest. */
static inline void tape_run(const pg__tape *t, double **mem, double largest)
{
    for (pg__val v = 0; v < t->n_values; v++) {
        const uint64_t n = pg__dims_elems(&t->values[v].shape);
        mem[v] = pg__mem_array(n, sizeof(double));
        for (uint64_t i = 0; t->values[v].role != PG_TEMP && i < n; i++)
            mem[v][i] =
                0.1 + largest * fabs(sin((double)(17 * v + i))); /* variances are positive */
    }
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        pg__arg in[8] = {{0}}, out = {0};
        for (uint32_t k = 0; k < i->n_in; k++) {
            const pg__val v = pg__in(t, i, k);
            if (v != PG_NO_VAL)
                in[k] = (pg__arg){&t->values[v].shape, mem[v], pg__dims_elems(&t->values[v].shape)};
        }
        const pg__val v = pg__out(t, i, 0);
        out = (pg__arg){&t->values[v].shape, mem[v], pg__dims_elems(&t->values[v].shape)};
        i->op->ref_f64(i->attrs, in, i->n_in, &out, 1);
    }
}

static inline void tape_release(pg__tape *t, double **mem)
{
    for (pg__val v = 0; v < t->n_values; v++)
        pg__mem_free(mem[v]);
    pg__tape_fini(t);
}

#endif
