/* Activations as part of normalisations give the same numbers, forward and backward. */
#include "pg_test.h"

#include <math.h>

#include "backend/cpu/isa.h"
#include "base/mem.h"
#include "ops/attrs.h"
#include "ops/compact.h"
#include "ops/norm_act.h"

#define MANY   48
#define ROWS   12
#define WIDTH  5
#define N_MADE (ROWS * WIDTH)

/* What a tape is built of. */
typedef struct plan {
    pg__act_attrs act;
    int frozen; /* statistics are constants */
    int masked;
    int meets;
} plan;

typedef struct built {
    pg__tape t;
    pg__val x, gamma, beta, between, y;
} built;

static pg__val param(pg__tape *t, uint32_t rank, uint64_t a, uint64_t b, int grad)
{
    const pg__dims shape = {rank, {a, b}};
    pg__val v;
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, PG_PARAM, 0, grad, &v, NULL));
    return v;
}

/* x -> normalisation -> activation; x, gamma and beta have gradients. */
static void build(built *b, const plan *p)
{
    const pg__bn_attrs a = {.epsilon = 1e-3, .meets = p->meets};
    pg__tape *t = &b->t;
    pg__val stats[3], variance, mean;
    *b = (built){.y = PG_NO_VAL};
    b->x = param(t, 2, ROWS, WIDTH, 1);
    b->gamma = param(t, 1, WIDTH, 0, 1);
    b->beta = param(t, 1, WIDTH, 0, 1);
    const pg__val mask = p->masked ? param(t, 1, ROWS, 0, 0) : PG_NO_VAL;
    if (p->frozen) {
        mean = param(t, 1, WIDTH, 0, 0);
        variance = param(t, 1, WIDTH, 0, 0);
    } else {
        assert_ok(pg__emit2(t, PG_OP_bn_stats, NULL, b->x, mask, stats, NULL));
        if (p->meets)
            assert_ok(pg__emit(t, PG_OP_meet_stats, NULL, stats, 3, stats, NULL));
        assert_ok(pg__emit2(t, PG_OP_bn_var, &a, stats[1], stats[2], &variance, NULL));
        mean = stats[0];
    }
    const pg__val in[] = {b->x, mean, variance, b->gamma, b->beta, stats[2], mask};
    assert_ok(pg__emit(t, PG_OP_bn_apply, &a, in, p->frozen ? 5 : 7, &b->between, NULL));
    assert_ok(pg__emit1(t, PG_OP_act, &p->act, b->between, &b->y, NULL));
}

static void round_all(double *v, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float one = (float)v[i];
        pg__isa_fns_of(PG_ISA_BASE)->to_bf16(&one, 1);
        v[i] = (double)one;
    }
}

static void run(const pg__tape *t, double *mem[MANY])
{
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        pg__arg in[12] = {{0}}, out[4] = {{0}};
        for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
            const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
            if (v != PG_NO_VAL)
                *(k < i->n_in ? &in[k] : &out[k - i->n_in]) =
                    (pg__arg){&t->values[v].shape, mem[v], pg__dims_elems(&t->values[v].shape)};
        }
        i->op->ref_f64(i->attrs, in, i->n_in, out, i->n_out);
        for (uint32_t k = 0; k < i->n_out; k++)
            if (t->values[pg__out(t, i, k)].elem == PG_ELEM_AS_BF16)
                round_all(out[k].p, out[k].n);
    }
}

static double number(pg__val v, size_t i)
{
    return 0.3 + (double)((i * 7919 + v * 31) % 23) / 11;
}

/* The result, and the gradients of x, gamma and beta, one behind the other, of layers that compute
 * with elem. */
static void compute(built *b, pg__elem elem, double *to)
{
    pg__tape *t = &b->t;
    const pg__val wanted[] = {b->x, b->gamma, b->beta};
    double *mem[MANY] = {NULL};
    pg__val seed;
    const pg__dims shape = t->values[b->y].shape;
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, PG_SEED, 0, 0, &seed, NULL));
    t->values[b->y].grad = seed;
    assert_ok(pg__tape_backward(t, NULL));
    assert_ok(pg__tape_compact(t, &elem, 1, NULL, 0, NULL));
    assert_true(t->n_values <= MANY);
    for (pg__val v = 0; v < t->n_values; v++) {
        const size_t n = pg__dims_elems(&t->values[v].shape);
        mem[v] = pg__mem_array(n, sizeof(double));
        for (size_t i = 0; i < n && t->values[v].role == PG_PARAM; i++)
            mem[v][i] = t->values[v].shape.d[0] == ROWS && t->values[v].shape.rank == 1
                            ? (double)(i % 3 != 1) /* the mask */
                            : number(v, i);
        for (size_t i = 0; i < n && v == seed; i++)
            mem[v][i] = number(100, i) - 1; /* whatever its place on the tape */
        if (t->values[v].elem == PG_ELEM_AS_BF16)
            round_all(mem[v], n);
    }
    run(t, mem);
    memcpy(to, mem[b->y], N_MADE * sizeof *to);
    to += N_MADE;
    for (size_t k = 0; k < 3; k++) {
        const size_t n = pg__dims_elems(&t->values[wanted[k]].shape);
        memcpy(to, mem[t->values[wanted[k]].grad], n * sizeof *to);
        to += n;
    }
    for (pg__val v = 0; v < t->n_values; v++)
        pg__mem_free(mem[v]);
}

static size_t count(const pg__tape *t, pg__op_kind kind)
{
    size_t n = 0;
    for (uint32_t at = 0; at < t->n_insts; at++)
        n += t->insts[at].op == pg__op_of(kind);
    return n;
}

static void check(const plan *p)
{
    const unsigned char kept[MANY] = {0};
    double got[2][2 * N_MADE + 2 * WIDTH] = {{0}};
    for (int pass = 0; pass < 2; pass++) {
        built b;
        build(&b, p);
        if (pass)
            assert_ok(pg__tape_norm_act(&b.t, kept, NULL, 0, NULL));
        compute(&b, PG_ELEM_REAL, got[pass]);
        assert_int_equal(count(&b.t, PG_OP_act), !pass);
        assert_int_equal(count(&b.t, PG_OP_act_grad), !pass);
        pg__tape_fini(&b.t);
    }
    for (size_t i = 0; i < 2 * N_MADE + 2 * WIDTH; i++)
        if (!(fabs(got[0][i] - got[1][i]) <= 1e-13 * (1 + fabs(got[0][i]))))
            fail_msg("activation %d, number %zu: %.17g, not %.17g", (int)p->act.kind, i, got[1][i],
                     got[0][i]);
}

static void gives_the_same_numbers(void **state)
{
    static const pg__act_attrs acts[] = {
        {PG_ACT_RELU, INFINITY, 0, 0}, {PG_ACT_RELU, 0.5, 0, 0},
        {PG_ACT_RELU, 0.7, 0.1, 0.2},  {PG_ACT_HARD_SIGMOID, 0.2, 0.5, 0},
        {PG_ACT_SIGMOID, 0, 0, 0},     {PG_ACT_TANH, 0, 0, 0},
        {PG_ACT_ELU, 0.7, 0, 0},       {PG_ACT_SOFTPLUS, 0, 0, 0},
        {PG_ACT_GELU_TANH, 0, 0, 0},   {PG_ACT_SWISH, 0, 0, 0},
    };
    (void)state;
    for (size_t k = 0; k < sizeof acts / sizeof *acts; k++) {
        check(&(plan){.act = acts[k]});
        check(&(plan){.act = acts[k], .frozen = 1});
        check(&(plan){.act = acts[k], .masked = 1});
        check(&(plan){.act = acts[k], .meets = 1});
    }
}

enum { PLAIN, KEPT, READ_TWICE, OTHER_DEVICE, OTHER_ELEM, SQUASHED_TWICE };

/* Activations that are left. */
static size_t left(int how)
{
    const plan p = {.act = {PG_ACT_SWISH, 0, 0, 0}};
    const pg__elem elems[] = {PG_ELEM_REAL, PG_ELEM_BF16};
    unsigned char kept[MANY] = {0};
    built b;
    pg__val other;
    build(&b, &p);
    if (how == READ_TWICE)
        assert_ok(pg__emit1(&b.t, PG_OP_pool, &(pg__pool_attrs){0}, b.between, &other, NULL));
    if (how == SQUASHED_TWICE)
        assert_ok(pg__emit1(&b.t, PG_OP_act, &p.act, b.y, &other, NULL));
    if (how == OTHER_DEVICE)
        b.t.insts[b.t.n_insts - 1].device = 1;
    if (how == OTHER_ELEM)
        b.t.insts[b.t.n_insts - 1].origin = 1;
    kept[b.between] = how == KEPT;
    assert_ok(pg__tape_norm_act(&b.t, kept, elems, 2, NULL));
    const size_t n = count(&b.t, PG_OP_act);
    pg__tape_fini(&b.t);
    return n;
}

static void leaves_all_others_as_they_are(void **state)
{
    (void)state;
    assert_int_equal(left(PLAIN), 0);
    assert_int_equal(left(KEPT), 1); /* an output of the model, a loss' logits */
    assert_int_equal(left(READ_TWICE), 1);
    assert_int_equal(left(OTHER_DEVICE), 1);
    assert_int_equal(left(OTHER_ELEM), 1);
    assert_int_equal(left(SQUASHED_TWICE), 1);
}

/* A dense layer of the same width behind the activation, which computes with elem too. */
static void add_product(built *b)
{
    const pg__val w = param(&b->t, 2, WIDTH, WIDTH, 0);
    assert_ok(pg__emit2(&b->t, PG_OP_dense, NULL, b->y, w, &b->y, NULL));
}

/* Rounding to bfloat16 in between is the same behind a ReLU, not behind others, if its gradient is
 * rounded. */
static void joins_only_relu_before_products_where_numbers_are_rounded(void **state)
{
    static const pg__act_attrs acts[] = {{PG_ACT_RELU, INFINITY, 0, 0},
                                         {PG_ACT_RELU, 6, 0, 0},
                                         {PG_ACT_RELU, INFINITY, 0.1, 0},
                                         {PG_ACT_SWISH, 0, 0, 0}};
    static const pg__elem elems[] = {PG_ELEM_AS_BF16};
    const unsigned char kept[MANY] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        for (int read = 0; read < 2; read++) {
            const plan p = {.act = acts[i]};
            unsigned char output[MANY] = {0};
            built b;
            pg__val other;
            build(&b, &p);
            const pg__val y = b.y;
            output[y] = !read;
            add_product(&b);
            if (read)
                assert_ok(pg__emit1(&b.t, PG_OP_softmax, NULL, y, &other, NULL));
            assert_ok(pg__tape_norm_act(&b.t, output, elems, 1, NULL));
            assert_int_equal(count(&b.t, PG_OP_act), 1); /* an output; read by another operation */
            pg__tape_fini(&b.t);
            build(&b, &p);
            add_product(&b);
            assert_ok(pg__tape_norm_act(&b.t, kept, elems, 1, NULL));
            assert_int_equal(count(&b.t, PG_OP_act), i > 0);
            pg__tape_fini(&b.t);
        }
}

static void relu_is_the_same_where_numbers_are_rounded(void **state)
{
    static const pg__elem elem = PG_ELEM_AS_BF16;
    const unsigned char kept[MANY] = {0};
    double got[2][2 * N_MADE + 2 * WIDTH] = {{0}};
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        const plan p = {.act = {PG_ACT_RELU, INFINITY, 0, 0}};
        size_t n_rounded = 0;
        built b;
        build(&b, &p);
        add_product(&b);
        b.t.values[b.x].elem = elem; /* as if a layer had made it */
        if (pass)
            assert_ok(pg__tape_norm_act(&b.t, kept, &elem, 1, NULL));
        compute(&b, elem, got[pass]);
        for (pg__val v = 0; v < b.t.n_values; v++)
            n_rounded += b.t.values[v].elem == elem;
        assert_true(n_rounded > 4);
        assert_int_equal(count(&b.t, PG_OP_act_grad), !pass);
        pg__tape_fini(&b.t);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

/* ReLU's slope is found anew, that of swish is stored once, by the sums. */
static void stores_only_slopes_that_are_dear(void **state)
{
    const unsigned char kept[MANY] = {0};
    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        const plan p = {.act = {dear ? PG_ACT_SWISH : PG_ACT_RELU, INFINITY, 0, 0}};
        double unused[2 * N_MADE + 2 * WIDTH];
        built b;
        build(&b, &p);
        assert_ok(pg__tape_norm_act(&b.t, kept, NULL, 0, NULL));
        compute(&b, PG_ELEM_REAL, unused);
        const pg__inst *sums = NULL, *dx = NULL;
        for (uint32_t at = 0; at < b.t.n_insts; at++) {
            const pg__inst *i = &b.t.insts[at];
            sums = i->op == pg__op_of(PG_OP_bn_sums) ? i : sums;
            dx = i->op == pg__op_of(PG_OP_bn_dx) ? i : dx;
        }
        assert_true(sums && dx);
        assert_true((pg__in(&b.t, dx, 1) == pg__out(&b.t, sums, 0)) == dear);
        assert_true(((const pg__bn_attrs *)dx->attrs)->has_act == !dear);
        pg__tape_fini(&b.t);
    }
}

PG_TEST_MAIN(cmocka_unit_test(gives_the_same_numbers),
             cmocka_unit_test(leaves_all_others_as_they_are),
             cmocka_unit_test(joins_only_relu_before_products_where_numbers_are_rounded),
             cmocka_unit_test(relu_is_the_same_where_numbers_are_rounded),
             cmocka_unit_test(stores_only_slopes_that_are_dear))
