/* op_compact.h - the cases of op_cases.h with numbers of 16 bits: what an operation takes of them
 * and makes in them is as ops/compact.h says. */
#ifndef PG_TESTS_OP_COMPACT_H
#define PG_TESTS_OP_COMPACT_H

#include "ops/compact.h"
#include "ops/op_run.h"

/* Parts of the largest result: three roundings of 2^-8, and of 2^-11. */
#define BF16_BOUND (3.0 / 256)
#define F16_BOUND  (3.0 / 2048)

/* What is of 16 bits of what may be. */
typedef enum how { ALL, OPERANDS_FLOAT, RESULTS_FLOAT, N_WAYS } how;

/* What somebody takes in the layer's own type is of it. */
static int is_taken(const built *b, pg__val v)
{
    for (uint32_t at = 0; at < b->tape.n_insts; at++)
        for (uint32_t k = 0; k < b->tape.insts[at].n_in; k++)
            if (pg__in(&b->tape, &b->tape.insts[at], k) == v &&
                pg__operand_elem(b->tape.insts[at].op, k) == PG_OWN)
                return 1;
    return 0;
}

static void set_elem(built *b, pg__val v, int is_float, pg__elem elem)
{
    pg__value *value = v == PG_NO_VAL ? NULL : &b->tape.values[v];
    if (value && value->elem != PG_ELEM_INT)
        value->elem = is_float ? PG_ELEM_REAL : elem;
}

static void squeeze(built *b, pg__elem elem, how way)
{
    for (pg__val v = 0; v < b->tape.n_values; v++)
        set_elem(b, v, way == OPERANDS_FLOAT && !is_taken(b, v), elem);
    for (uint32_t at = 0; at < b->tape.n_insts; at++) {
        const pg__inst *i = &b->tape.insts[at];
        for (uint32_t k = 0; k < i->n_out; k++) {
            const pg__val v = pg__out(&b->tape, i, k);
            const pg__wants_elem wants = pg__result_elem(i->op, k);
            const int may_be_float = wants != PG_OWN && !is_taken(b, v);
            set_elem(b, v, wants == PG_FLOAT || (way == RESULTS_FLOAT && may_be_float), elem);
        }
        for (uint32_t k = 0; k < i->n_in; k++)
            if (pg__operand_elem(i->op, k) == PG_FLOAT)
                set_elem(b, pg__in(&b->tape, i, k), 1, elem);
    }
}

/* Kernels of convolutions that are float32 are cast by who takes them: what is lost so is not
 * theirs. */
static void round_operands(built *b, pg__elem elem)
{
    for (size_t k = 0; k < MAX_IN; k++) {
        if (!b->in_values[k] || b->tape.values[b->in[k]].elem == PG_ELEM_INT)
            continue;
        for (uint64_t i = 0; i < elems(b, b->in[k]); i++)
            store(b->in_values[k], elem, 1, i, b->in_values[k][i]);
    }
}

/* What is emulated has the numbers that a bfloat16 has. */
static void are_rounded(const built *b, size_t c, void **mem)
{
    for (pg__val v = 0; v < b->tape.n_values; v++)
        for (uint64_t i = 0; b->tape.values[v].elem == PG_ELEM_AS_BF16 && mem[v] && i < elems(b, v);
             i++) {
            const float got = ((const float *)mem[v])[i];
            if (!isnan(got) && pgk_of_16(PGK_BF16, pgk_to_16(PGK_BF16, got)) != got)
                fail_msg("case %zu, value %u: %.9g is no bfloat16", c, v, (double)got);
        }
}

/* What a result is off by is mostly its own rounding, and that of what it was made from. */
static inline void agrees_in_16_bits(engine e, pg__elem elem)
{
    e.slack = elem == PG_ELEM_F16 ? F16_BOUND : BF16_BOUND;
    for (size_t c = 0; c < N_CASES; c++)
        for (how way = ALL; way < N_WAYS && is_wanted(c) && !is_for_hosts(cases[c].kind); way++) {
            built b;
            build(&b, &cases[c]);
            add_backward(&b);
            squeeze(&b, elem, way);
            round_operands(&b, elem);
            void **exact = run_case(&b, DOUBLE), **mem = run_case(&b, e);
            if (e.n_missing && *e.n_missing > 0)
                fail_msg("case %zu, way %d: not covered", c, (int)way);
            compare(&b, c, e.slack, exact, mem);
            are_rounded(&b, c, mem);
            free_all(&b, mem);
            free_all(&b, exact);
            drop(&b);
        }
}

#endif
