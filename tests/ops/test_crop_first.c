/* What is computed for the first step alone gives the numbers that it has among all others, forward
 * and backward. */
#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "ops/attrs.h"
#include "ops/crop_first.h"

#define MANY  96
#define ROWS  2
#define STEPS 6
#define WIDTH 4

static const pg__pad_attrs first_step = {.after = {0, 1 - STEPS}};
static const pg__act_attrs gelu = {.kind = PG_ACT_GELU};
static const pg__layer_norm_attrs norm = {.n_axes = 1, .epsilon = 1e-3};

typedef struct built {
    pg__tape t;
    pg__val y, between, scores, params[MANY]; /* between: that is cut at the end */
    size_t n_params;
} built;

static pg__val param(built *b, const pg__dims *shape)
{
    pg__val v = PG_NO_VAL;
    assert_ok(pg__tape_value(&b->t, shape, PG_ELEM_REAL, PG_PARAM, 0, 1, &v, NULL));
    return b->params[b->n_params++] = v;
}

static pg__val dense(built *b, pg__val x)
{
    const pg__dims w = {2, {WIDTH, WIDTH}}, bias = {1, {WIDTH}};
    const pg__val in[] = {x, param(b, &w), param(b, &bias)};
    pg__val y;
    assert_ok(pg__emit(&b->t, PG_OP_dense, NULL, in, 3, &y, NULL));
    return y;
}

static pg__val normed(built *b, pg__val x)
{
    const pg__dims n = {1, {WIDTH}};
    const pg__val in[] = {x, param(b, &n), param(b, &n)};
    pg__val y[3];
    assert_ok(pg__emit(&b->t, PG_OP_layer_norm, &norm, in, 3, y, NULL));
    return y[0];
}

enum {
    CAUSAL = 1,
    SCORE_MASK = 2,
    READ_SCORES = 4,
    QUERY_MASK = 8,
    ALL_STEPS = 16 /* of the result of attention somebody reads everything */
};

static pg__val attended(built *b, pg__val x, int how)
{
    const pg__attention_attrs a = {.heads = 2, .scale = 0.5, .causal = (how & CAUSAL) != 0};
    const pg__dims steps = {2, {ROWS, STEPS}}, scores = {3, {1, STEPS, STEPS}};
    pg__val in[] = {dense(b, x), dense(b, x), dense(b, x), PG_NO_VAL,
                    PG_NO_VAL,   PG_NO_VAL,   PG_NO_VAL,   PG_NO_VAL};
    pg__val out[2];
    if (how & QUERY_MASK)
        assert_ok(pg__tape_value(&b->t, &steps, PG_ELEM_REAL, PG_WEIGHT, 0, 0, &in[3], NULL));
    if (how & SCORE_MASK)
        assert_ok(pg__tape_value(&b->t, &scores, PG_ELEM_REAL, PG_WEIGHT, 0, 0, &in[6], NULL));
    assert_ok(pg__emit(&b->t, PG_OP_attention, &a, in, 8, out, NULL));
    b->scores = out[1];
    if (how & READ_SCORES)
        assert_ok(pg__emit1(&b->t, PG_OP_act, &gelu, out[1], &b->params[MANY - 1], NULL));
    if (how & ALL_STEPS)
        assert_ok(pg__emit1(&b->t, PG_OP_act, &gelu, out[0], &b->params[MANY - 1], NULL));
    return out[0];
}

static pg__val sum(built *b, pg__val x, pg__val y)
{
    pg__val all;
    assert_ok(pg__emit2(&b->t, PG_OP_add, NULL, x, y, &all, NULL));
    return all;
}

/* Two blocks of a transformer, of which the first step is read. */
static void build(built *b, int how)
{
    const pg__dims shape = {3, {ROWS, STEPS, WIDTH}};
    const pg__binary_attrs plus = {PG_ADD};
    const pg__affine_attrs twice = {2, 1};
    *b = (built){.y = PG_NO_VAL};
    pg__val x = param(b, &shape), h;
    for (int block = 0; block < 2; block++) {
        h = dense(b, attended(b, x, how));
        x = normed(b, sum(b, x, h));
        h = dense(b, x);
        assert_ok(pg__emit1(&b->t, PG_OP_act, &gelu, h, &h, NULL));
        h = dense(b, h);
        assert_ok(pg__emit1(&b->t, PG_OP_affine, &twice, h, &h, NULL));
        assert_ok(pg__emit2(&b->t, PG_OP_binary, &plus, x, h, &h, NULL));
        x = normed(b, h);
    }
    b->between = x;
    assert_ok(pg__emit1(&b->t, PG_OP_pad, &first_step, x, &b->y, NULL));
}

static void run(const pg__tape *t, double **mem)
{
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        pg__arg in[8] = {{0}}, out[4] = {{0}};
        for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
            const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
            if (v != PG_NO_VAL)
                *(k < i->n_in ? &in[k] : &out[k - i->n_in]) =
                    (pg__arg){&t->values[v].shape, mem[v], pg__dims_elems(&t->values[v].shape)};
        }
        i->op->ref_f64(i->attrs, in, i->n_in, out, i->n_out);
    }
}

static void fill(const pg__tape *t, pg__val v, double *to)
{
    for (size_t i = 0; i < pg__dims_elems(&t->values[v].shape); i++)
        to[i] = t->values[v].role == PG_WEIGHT ? (double)(i % 3 != 1)
                                               : sin((double)(i * 7 + v * 31 + 1));
}

/* The result and the gradients of all parameters, one behind the other; how many numbers. */
static size_t compute(built *b, double *to, size_t most)
{
    pg__tape *t = &b->t;
    const pg__dims shape = t->values[b->y].shape;
    size_t n_all = 0;
    pg__val seed;
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, PG_SEED, 0, 0, &seed, NULL));
    t->values[b->y].grad = seed;
    assert_ok(pg__tape_backward(t, NULL));
    double **mem = pg__mem_array(t->n_values, sizeof(double *));
    for (pg__val v = 0; v < t->n_values; v++) {
        mem[v] = pg__mem_array(pg__dims_elems(&t->values[v].shape) + 1, sizeof(double));
        if (t->values[v].role != PG_TEMP && v != seed)
            fill(t, v, mem[v]);
    }
    for (size_t i = 0; i < pg__dims_elems(&shape); i++)
        mem[seed][i] = cos((double)i);
    run(t, mem);
    for (size_t k = 0; k <= b->n_params; k++) {
        const pg__val v = k == 0 ? b->y : t->values[b->params[k - 1]].grad;
        const size_t n = pg__dims_elems(&t->values[v].shape);
        assert_true(n_all + n <= most);
        memcpy(to + n_all, mem[v], n * sizeof *to);
        n_all += n;
    }
    for (pg__val v = 0; v < t->n_values; v++)
        pg__mem_free(mem[v]);
    pg__mem_free(mem);
    return n_all;
}

/* Steps that all instructions of a kind make, of one row. */
static size_t steps_of(const pg__tape *t, pg__op_kind kind)
{
    size_t n = 0;
    for (uint32_t at = 0; at < t->n_insts; at++)
        if (t->insts[at].op == pg__op_of(kind))
            n += t->values[pg__out(t, &t->insts[at], 0)].shape.d[1];
    return n;
}

static void expect_same_numbers_with(int how)
{
    const unsigned char kept[2 * MANY] = {0};
    static double got[2][2000];
    size_t n[2];
    for (int pass = 0; pass < 2; pass++) {
        built b;
        build(&b, how);
        if (pass)
            assert_ok(pg__tape_crop_first(&b.t, kept, NULL, 0, NULL));
        n[pass] = compute(&b, got[pass], 2000);
        pg__tape_fini(&b.t);
    }
    assert_int_equal(n[0], n[1]);
    for (size_t i = 0; i < n[0]; i++)
        assert_true(fabs(got[0][i] - got[1][i]) < 1e-12);
}

static void gives_the_same_numbers(void **state)
{
    (void)state;
    expect_same_numbers_with(0);
    expect_same_numbers_with(QUERY_MASK);
    expect_same_numbers_with(SCORE_MASK);
    expect_same_numbers_with(CAUSAL);
    expect_same_numbers_with(READ_SCORES);
    expect_same_numbers_with(ALL_STEPS);
}

/* Of the last block only keys and values are made of all steps, and the input is cut once. */
static void computes_what_is_read(void **state)
{
    const unsigned char kept[2 * MANY] = {0};
    built b;
    (void)state;
    build(&b, QUERY_MASK);
    assert_int_equal(steps_of(&b.t, PG_OP_dense), 12 * STEPS);
    assert_ok(pg__tape_crop_first(&b.t, kept, NULL, 0, NULL));
    assert_int_equal(steps_of(&b.t, PG_OP_dense), 8 * STEPS + 4);
    assert_int_equal(steps_of(&b.t, PG_OP_attention), STEPS + 1);
    assert_int_equal(steps_of(&b.t, PG_OP_layer_norm), 2 * STEPS + 2);
    assert_int_equal(steps_of(&b.t, PG_OP_act), STEPS + 1);
    assert_int_equal(steps_of(&b.t, PG_OP_pad), 2); /* what is left of the block's input, a mask */
    assert_int_equal(b.t.values[b.scores].shape.d[2], 1);
    pg__tape_fini(&b.t);
    build(&b, CAUSAL);
    assert_ok(pg__tape_crop_first(&b.t, kept, NULL, 0, NULL));
    assert_int_equal(steps_of(&b.t, PG_OP_dense), 9 * STEPS + 3); /* not through attention */
    assert_int_equal(steps_of(&b.t, PG_OP_attention), 2 * STEPS);
    pg__tape_fini(&b.t);
}

/* ---- what stays ---- */

enum { KEPT = 1, READ = 2, OTHER_CROP = 4, OTHER_DEVICE = 8, OTHER_TYPE = 16, BOTH_KEPT = 32 };

/* x -> activation -> cut; is the activation made of less? */
static int is_changed(pg__op_kind kind, const pg__pad_attrs *crop, int how)
{
    const pg__elem elems[] = {PG_ELEM_REAL, how & OTHER_TYPE ? PG_ELEM_F16 : PG_ELEM_REAL};
    const pg__pad_attrs other = {.before = {0, 1 - STEPS}};
    const void *attrs = kind == PG_OP_softmax ? NULL : (const void *)&gelu;
    unsigned char kept[2 * MANY] = {0};
    built b = {.n_params = 0};
    const pg__dims shape = {3, {ROWS, STEPS, WIDTH}};
    pg__val x = param(&b, &shape), y, again;
    if (kind == PG_OP_dense)
        y = dense(&b, x);
    else
        assert_ok(pg__emit1(&b.t, kind, attrs, x, &y, NULL));
    assert_ok(pg__emit1(&b.t, PG_OP_pad, crop, y, &b.y, NULL));
    if (how & READ)
        assert_ok(pg__emit1(&b.t, PG_OP_act, &gelu, y, &again, NULL));
    if (how & (OTHER_CROP | BOTH_KEPT)) {
        assert_ok(pg__emit1(&b.t, PG_OP_pad, how & BOTH_KEPT ? crop : &other, y, &again, NULL));
        kept[again] = kept[b.y] = (how & BOTH_KEPT) != 0;
    }
    kept[y] = (how & KEPT) != 0;
    b.t.insts[1].device = (how & OTHER_DEVICE) != 0;
    b.t.insts[0].origin = 0;
    b.t.insts[1].origin = 1;
    assert_ok(pg__tape_crop_first(&b.t, kept, elems, 2, NULL));
    const int changed = b.t.insts[0].op == pg__op_of(PG_OP_pad);
    pg__tape_fini(&b.t);
    return changed;
}

static void leaves_all_others_as_they_are(void **state)
{
    const pg__pad_attrs little = {.after = {0, -1}}, last = {.before = {0, 0, -3}};
    const pg__pad_attrs rows = {.before = {-1}}, more = {.before = {0, -5}, .after = {0, 1}};
    (void)state;
    assert_true(is_changed(PG_OP_act, &first_step, 0));
    assert_true(is_changed(PG_OP_dense, &first_step, 0));
    assert_true(is_changed(PG_OP_act, &last, 0));
    assert_false(is_changed(PG_OP_dense, &last, 0));
    assert_false(is_changed(PG_OP_softmax, &last, 0));
    assert_false(is_changed(PG_OP_act, &little, 0));
    assert_false(is_changed(PG_OP_act, &rows, 0));
    assert_false(is_changed(PG_OP_act, &more, 0));
    assert_false(is_changed(PG_OP_act, &first_step, KEPT)); /* an output of the model */
    assert_false(is_changed(PG_OP_act, &first_step, READ));
    assert_false(is_changed(PG_OP_act, &first_step, OTHER_CROP));
    assert_false(is_changed(PG_OP_act, &first_step, OTHER_DEVICE));
    assert_false(is_changed(PG_OP_act, &first_step, OTHER_TYPE));
    assert_false(is_changed(PG_OP_act, &first_step, BOTH_KEPT)); /* one value cannot be two */
}

/* h[:, 0] is a cut and another shape for its memory; two heads read it. */
static void other_shapes_follow_the_cut_that_stays(void **state)
{
    const pg__dims shape = {3, {ROWS, STEPS, WIDTH}};
    const pg__reshape_attrs flat = {{2, {ROWS, WIDTH}}};
    const unsigned char kept[2 * MANY] = {0};
    unsigned char is_made[2 * MANY] = {0};
    built b = {.n_params = 0};
    pg__val h, cut, head[2];
    (void)state;
    h = dense(&b, param(&b, &shape));
    for (int k = 0; k < 2; k++) {
        assert_ok(pg__emit1(&b.t, PG_OP_pad, &first_step, h, &cut, NULL));
        assert_ok(pg__emit1(&b.t, PG_OP_reshape, &flat, cut, &head[k], NULL));
        assert_ok(pg__emit1(&b.t, PG_OP_act, &gelu, head[k], &b.y, NULL));
    }
    assert_ok(pg__tape_crop_first(&b.t, kept, NULL, 0, NULL));
    assert_int_equal(steps_of(&b.t, PG_OP_pad), 1);
    for (uint32_t at = 0; at < b.t.n_insts; at++)
        is_made[pg__out(&b.t, &b.t.insts[at], 0)] = 1;
    for (int k = 0; k < 2; k++) {
        assert_true(is_made[b.t.values[head[k]].alias]);
        assert_int_equal(b.t.values[head[k]].alias, b.t.values[head[0]].alias);
    }
    pg__tape_fini(&b.t);
}

PG_TEST_MAIN(cmocka_unit_test(gives_the_same_numbers), cmocka_unit_test(computes_what_is_read),
             cmocka_unit_test(other_shapes_follow_the_cut_that_stays),
             cmocka_unit_test(leaves_all_others_as_they_are))
