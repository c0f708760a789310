/* Zeros as convolutions' own padding give the same numbers, forward and backward. */
#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "ops/attrs.h"
#include "ops/pad_into_conv.h"

#define MANY 16

/* 3x2, by steps of 2 and 1, the second axis dilated; it has padding of its own. */
static const pg__conv_attrs plain = {.rank = 2,
                                     .groups = 1,
                                     .kernel = {3, 2},
                                     .stride = {2, 1},
                                     .dilation = {1, 3},
                                     .before = {0, 1},
                                     .after = {1, 0}};
static const pg__pad_attrs zeros = {.before = {0, 2, 1}, .after = {0, 1, 3}};

typedef struct built {
    pg__tape t;
    pg__val x, w, between, y;
} built;

/* x -> zeros -> convolution; x and its kernel have gradients. */
static void build(built *b, const pg__pad_attrs *pad, const pg__conv_attrs *conv)
{
    const pg__dims x = {4, {2, 5, 4, 3}}, w = {4, {3, 2, 3, 2}};
    *b = (built){.y = PG_NO_VAL};
    assert_ok(pg__tape_value(&b->t, &x, PG_ELEM_REAL, PG_PARAM, 0, 1, &b->x, NULL));
    assert_ok(pg__tape_value(&b->t, &w, PG_ELEM_REAL, PG_PARAM, 0, 1, &b->w, NULL));
    assert_ok(pg__emit1(&b->t, PG_OP_pad, pad, b->x, &b->between, NULL));
    assert_ok(pg__emit3(&b->t, PG_OP_conv, conv, b->between, b->w, PG_NO_VAL, &b->y, NULL));
}

static void run(const pg__tape *t, double *mem[MANY])
{
    for (uint32_t at = 0; at < t->n_insts; at++) {
        const pg__inst *i = &t->insts[at];
        pg__arg in[4] = {{0}}, out[4] = {{0}};
        for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
            const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
            if (v != PG_NO_VAL)
                *(k < i->n_in ? &in[k] : &out[k - i->n_in]) =
                    (pg__arg){&t->values[v].shape, mem[v], pg__dims_elems(&t->values[v].shape)};
        }
        i->op->ref_f64(i->attrs, in, i->n_in, out, i->n_out);
    }
}

/* The result and both gradients, one behind the other; how many numbers that are. */
static size_t compute(built *b, double *to)
{
    pg__tape *t = &b->t;
    const pg__dims shape = t->values[b->y].shape;
    double *mem[MANY] = {NULL};
    size_t n_all = 0;
    pg__val seed;
    assert_ok(pg__tape_value(t, &shape, PG_ELEM_REAL, PG_SEED, 0, 0, &seed, NULL));
    t->values[b->y].grad = seed;
    assert_ok(pg__tape_backward(t, NULL));
    assert_true(t->n_values <= MANY);
    for (pg__val v = 0; v < t->n_values; v++) {
        const size_t n = pg__dims_elems(&t->values[v].shape);
        mem[v] = pg__mem_array(n, sizeof(double));
        for (size_t i = 0; i < n && (v == b->x || v == b->w); i++)
            mem[v][i] = (double)((i * 7919 + v) % 11) - 4;
        for (size_t i = 0; i < n && v == seed; i++)
            mem[v][i] = (double)((i * 31) % 7) - 2;
    }
    run(t, mem);
    const pg__val wanted[] = {b->y, t->values[b->x].grad, t->values[b->w].grad};
    for (size_t k = 0; k < 3; k++) {
        const size_t n = pg__dims_elems(&t->values[wanted[k]].shape);
        memcpy(to + n_all, mem[wanted[k]], n * sizeof *to);
        n_all += n;
    }
    for (pg__val v = 0; v < t->n_values; v++)
        pg__mem_free(mem[v]);
    return n_all;
}

static size_t count(const pg__tape *t, pg__op_kind kind)
{
    size_t n = 0;
    for (uint32_t at = 0; at < t->n_insts; at++)
        n += t->insts[at].op == pg__op_of(kind);
    return n;
}

static void gives_the_same_numbers(void **state)
{
    const unsigned char kept[MANY] = {0};
    double got[2][400] = {{0}};
    size_t n[2];
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        built b;
        build(&b, &zeros, &plain);
        if (pass)
            assert_ok(pg__tape_pad_into_conv(&b.t, kept, NULL, 0, NULL));
        n[pass] = compute(&b, got[pass]);
        assert_int_equal(count(&b.t, PG_OP_pad), pass ? 0 : 2);
        pg__tape_fini(&b.t);
    }
    assert_int_equal(n[0], n[1]);
    assert_true(n[0] > 120 + 36 && n[0] <= 400);
    for (size_t i = 0; i < n[0]; i++)
        assert_true(got[0][i] == got[1][i]); /* small integers: no rounding */
}

enum { READ_TWICE = 1, KEPT = 2, OTHER_DEVICE = 4, OTHER_TYPE = 8 };

static int is_changed(const pg__pad_attrs *pad, const pg__conv_attrs *conv, int how)
{
    const pg__elem elems[] = {PG_ELEM_REAL, how & OTHER_TYPE ? PG_ELEM_F16 : PG_ELEM_REAL};
    unsigned char kept[MANY] = {0};
    built b;
    pg__val other;
    build(&b, pad, conv);
    if (how & READ_TWICE)
        assert_ok(pg__emit1(&b.t, PG_OP_pad, pad, b.between, &other, NULL));
    kept[b.between] = (how & KEPT) != 0;
    b.t.insts[1].device = (how & OTHER_DEVICE) != 0;
    b.t.insts[1].origin = 1;
    b.t.insts[0].origin = 0;
    assert_ok(pg__tape_pad_into_conv(&b.t, kept, elems, 2, NULL));
    const int changed = b.t.insts[0].op == pg__op_of(PG_OP_conv);
    pg__tape_fini(&b.t);
    return changed;
}

static void leaves_all_others_as_they_are(void **state)
{
    const pg__pad_attrs cut = {.before = {0, 1, -1}};
    const pg__pad_attrs rows = {.before = {1}}, wide = {.after = {0, 2, 0}};
    (void)state;
    assert_true(is_changed(&zeros, &plain, 0));
    assert_false(is_changed(&zeros, &plain, READ_TWICE));
    assert_false(is_changed(&zeros, &plain, KEPT)); /* an output of the model */
    assert_false(is_changed(&zeros, &plain, OTHER_DEVICE));
    assert_false(is_changed(&zeros, &plain, OTHER_TYPE));
    assert_false(is_changed(&cut, &plain, 0));
    assert_false(is_changed(&rows, &plain, 0));
    assert_false(is_changed(&wide, &plain, 0)); /* with its own more than the kernel reaches */
}

/* A kernel of a convolution that is padded itself, as a layer of a model might make it. */
static void leaves_kernels_alone(void **state)
{
    const pg__dims x = {4, {1, 4, 4, 3}}, w = {4, {2, 2, 3, 2}};
    const pg__pad_attrs one = {.after = {0, 0, 0}, .before = {1, 0, 0}};
    const unsigned char kept[MANY] = {0};
    pg__conv_attrs conv = plain;
    pg__tape t = {0};
    pg__val a, b, padded, y;
    (void)state;
    assert_ok(pg__tape_value(&t, &x, PG_ELEM_REAL, PG_PARAM, 0, 1, &a, NULL));
    assert_ok(pg__tape_value(&t, &w, PG_ELEM_REAL, PG_PARAM, 0, 1, &b, NULL));
    assert_ok(pg__emit1(&t, PG_OP_pad, &one, b, &padded, NULL));
    assert_ok(pg__emit3(&t, PG_OP_conv, &conv, a, padded, PG_NO_VAL, &y, NULL));
    assert_ok(pg__tape_pad_into_conv(&t, kept, NULL, 0, NULL));
    assert_int_equal(count(&t, PG_OP_pad), 1);
    pg__tape_fini(&t);
}

PG_TEST_MAIN(cmocka_unit_test(gives_the_same_numbers),
             cmocka_unit_test(leaves_all_others_as_they_are),
             cmocka_unit_test(leaves_kernels_alone))
