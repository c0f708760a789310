/* Results that take the place of operands. */
#include "pg_test.h"

#include <math.h>

#include "ops/attrs.h"
#include "train/exec/inplace.h"

#define MANY 16

/* A tape of values of 2 x 3 numbers; when each is first and last needed. */
typedef struct chain {
    pg__tape tape;
    uint32_t first[MANY], last[MANY];
    unsigned char in_arena[MANY];
    pg__val host[MANY];
} chain;

static const pg__act_attrs relu = {PG_ACT_RELU, INFINITY, 0, 0};

static pg__val input_of(chain *c)
{
    const pg__dims shape = {2, {2, 3}};
    pg__val v;
    assert_ok(pg__tape_value(&c->tape, &shape, PG_ELEM_REAL, PG_INPUT, 0, 0, &v, NULL));
    return v;
}

static pg__val act(chain *c, pg__val x)
{
    pg__val y;
    assert_ok(pg__emit1(&c->tape, PG_OP_act, &relu, x, &y, NULL));
    return y;
}

static pg__val add(chain *c, pg__val a, pg__val b)
{
    pg__val y;
    assert_ok(pg__emit2(&c->tape, PG_OP_add, NULL, a, b, &y, NULL));
    return y;
}

/* All but inputs lie in the arena; `kept` is read after the run. */
static void settle(chain *c, pg__val kept)
{
    const pg__tape *t = &c->tape;
    assert_true(t->n_values <= MANY);
    for (pg__val v = 0; v < t->n_values; v++) {
        c->first[v] = UINT32_MAX;
        c->last[v] = 0;
        c->in_arena[v] = t->values[v].role == PG_TEMP;
    }
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
            const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
            c->first[v] = at < c->first[v] ? at : c->first[v];
            c->last[v] = at;
        }
    }
    c->last[kept] = t->n_insts;
    pg__lie_in_place(t, c->in_arena, c->first, c->last, c->host);
}

static void a_chain_lies_in_one_place(void **state)
{
    chain c = {.tape = {0}};
    const pg__val x = input_of(&c), a = act(&c, x), b = act(&c, a), d = act(&c, b);
    (void)state;
    settle(&c, d);
    assert_int_equal(c.host[x], x);
    assert_int_equal(c.host[a], a); /* never over the batch */
    assert_int_equal(c.host[b], a);
    assert_int_equal(c.host[d], a);
    assert_int_equal(c.last[a], c.tape.n_insts);
    pg__tape_fini(&c.tape);
}

static void what_is_read_later_stays(void **state)
{
    chain c = {.tape = {0}};
    const pg__val x = input_of(&c), a = act(&c, x), b = act(&c, a), sum = add(&c, a, b);
    (void)state;
    settle(&c, sum);
    assert_int_equal(c.host[b], b);
    assert_int_equal(c.host[sum], a);
    pg__tape_fini(&c.tape);
}

static void a_sum_takes_the_operand_that_dies(void **state)
{
    chain c = {.tape = {0}};
    const pg__val x = input_of(&c), a = act(&c, x), b = act(&c, a), sum = add(&c, a, b);
    const pg__val end = add(&c, sum, a);
    (void)state;
    settle(&c, end);
    assert_int_equal(c.host[sum], b);
    assert_int_equal(c.host[end], b);
    pg__tape_fini(&c.tape);
}

static void what_is_read_after_the_run_stays(void **state)
{
    chain c = {.tape = {0}};
    const pg__val x = input_of(&c), a = act(&c, x), b = act(&c, a);
    (void)state;
    settle(&c, a);
    assert_int_equal(c.host[b], b);
    pg__tape_fini(&c.tape);
}

static void the_same_operand_twice_is_not_overwritten(void **state)
{
    chain c = {.tape = {0}};
    const pg__val x = input_of(&c), a = act(&c, x), sum = add(&c, a, a);
    (void)state;
    settle(&c, sum);
    assert_int_equal(c.host[sum], sum);
    pg__tape_fini(&c.tape);
}

static void a_reshape_is_the_memory_of_its_root(void **state)
{
    chain c = {.tape = {0}};
    const pg__reshape_attrs flat = {.to = {1, {6}}};
    const pg__val x = input_of(&c), a = act(&c, x);
    pg__val r;
    (void)state;
    assert_ok(pg__emit1(&c.tape, PG_OP_reshape, &flat, a, &r, NULL));
    assert_int_not_equal(c.tape.values[r].alias, PG_NO_VAL);
    const pg__val b = act(&c, r);
    settle(&c, b);
    c.in_arena[r] = 0;
    c.last[a] = 2; /* the root is needed as long as the reshape */
    pg__lie_in_place(&c.tape, c.in_arena, c.first, c.last, c.host);
    assert_int_equal(c.host[b], a);
    pg__tape_fini(&c.tape);
}

PG_TEST_MAIN(cmocka_unit_test(a_chain_lies_in_one_place),
             cmocka_unit_test(what_is_read_later_stays),
             cmocka_unit_test(a_sum_takes_the_operand_that_dies),
             cmocka_unit_test(what_is_read_after_the_run_stays),
             cmocka_unit_test(the_same_operand_twice_is_not_overwritten),
             cmocka_unit_test(a_reshape_is_the_memory_of_its_root))
