/* compact.c - types of values, and the casts between them. */
#include "pg_test.h"

#include <math.h>

#include "ops/attrs.h"
#include "ops/compact.h"

static pg__tape tape;

static pg__val value(pg__role role, uint64_t rows, uint64_t columns)
{
    const pg__dims shape = pg__dims_of(2, (const uint64_t[]){rows, columns});
    pg__val v;
    assert_ok(pg__tape_value(&tape, &shape, PG_ELEM_REAL, role, 0, 0, &v, NULL));
    return v;
}

static pg__val dense(pg__val x, pg__val w)
{
    pg__val y;
    tape.origin = 0;
    assert_ok(pg__emit3(&tape, PG_OP_dense, NULL, x, w, PG_NO_VAL, &y, NULL));
    return y;
}

static pg__val relu(pg__val x)
{
    const pg__act_attrs a = {PG_ACT_RELU, INFINITY, 0, 0};
    pg__val y;
    assert_ok(pg__emit1(&tape, PG_OP_act, &a, x, &y, NULL));
    return y;
}

static void squeeze(const pg__elem *elems, size_t n, pg__val read_outside)
{
    assert_ok(pg__tape_compact(&tape, elems, n, &read_outside, 1, NULL));
}

static void assert_ops(const char *want)
{
    char got[256] = "";
    for (uint32_t at = 0; at < tape.n_insts; at++)
        strcat(strcat(got, at ? " " : ""), tape.insts[at].op->name);
    assert_string_equal(got, want);
}

static pg__elem elem_of(pg__val v)
{
    return tape.values[v].elem;
}

static const pg__elem bf16[] = {PG_ELEM_BF16};

/* x and w are cast, w once for both products; what is read outside is made in float32 at once. */
static void products_take_casts_and_share_them(void **state)
{
    (void)state;
    const pg__val x = value(PG_INPUT, 4, 8), w = value(PG_PARAM, 8, 8);
    const pg__val a = dense(x, w), b = dense(a, w);
    squeeze(bf16, 1, b);
    assert_ops("cast cast dense dense");
    assert_int_equal(elem_of(x), PG_ELEM_REAL);
    assert_int_equal(elem_of(w), PG_ELEM_REAL);
    assert_int_equal(elem_of(a), PG_ELEM_BF16);
    assert_int_equal(elem_of(b), PG_ELEM_REAL);
    assert_int_equal(pg__in(&tape, &tape.insts[2], 1), pg__in(&tape, &tape.insts[3], 1));
    assert_int_equal(elem_of(pg__in(&tape, &tape.insts[2], 0)), PG_ELEM_BF16);
    pg__tape_fini(&tape);
}

/* The last activation computes with the product's sums, not with what 16 bits leave of them. */
static void float32_is_asked_for_through_activations(void **state)
{
    (void)state;
    const pg__val x = value(PG_INPUT, 4, 8), w = value(PG_PARAM, 8, 8);
    const pg__val a = dense(x, w), b = relu(a), c = dense(b, w), d = relu(c);
    squeeze(bf16, 1, d);
    assert_ops("cast cast dense act dense act");
    assert_int_equal(elem_of(a), PG_ELEM_BF16);
    assert_int_equal(elem_of(b), PG_ELEM_BF16);
    assert_int_equal(elem_of(c), PG_ELEM_REAL);
    assert_int_equal(elem_of(d), PG_ELEM_REAL);
    pg__tape_fini(&tape);
}

/* Convolutions make 16 bits only: their result is cast, and keeps its number. */
static void what_is_made_in_16_bits_alone_is_cast(void **state)
{
    const pg__conv_attrs conv = {
        .rank = 2, .groups = 1, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}};
    const pg__dims x_shape = pg__dims_of(4, (const uint64_t[]){2, 5, 5, 4}),
                   w_shape = pg__dims_of(4, (const uint64_t[]){3, 3, 4, 8});
    pg__val x, w, y;
    (void)state;
    assert_ok(pg__tape_value(&tape, &x_shape, PG_ELEM_REAL, PG_INPUT, 0, 0, &x, NULL));
    assert_ok(pg__tape_value(&tape, &w_shape, PG_ELEM_REAL, PG_PARAM, 0, 0, &w, NULL));
    assert_ok(pg__emit3(&tape, PG_OP_conv, &conv, x, w, PG_NO_VAL, &y, NULL));
    squeeze(bf16, 1, y);
    assert_ops("cast conv cast");
    assert_int_equal(elem_of(y), PG_ELEM_REAL);
    assert_int_equal(pg__out(&tape, &tape.insts[2], 0), y);
    assert_int_equal(elem_of(pg__in(&tape, &tape.insts[2], 0)), PG_ELEM_BF16);
    assert_int_equal(pg__in(&tape, &tape.insts[1], 1), w); /* turned and cast in one */
    pg__tape_fini(&tape);
}

/* Host back ends do not cast what they read. */
static void emulated_kernels_of_convolutions_are_cast(void **state)
{
    static const pg__elem emulated[] = {PG_ELEM_AS_BF16};
    const pg__conv_attrs conv = {
        .rank = 1, .groups = 1, .kernel = {3}, .stride = {1}, .dilation = {1}};
    const pg__dims x_shape = pg__dims_of(3, (const uint64_t[]){2, 5, 4}),
                   w_shape = pg__dims_of(3, (const uint64_t[]){3, 4, 8});
    pg__val x, w, y;
    (void)state;
    assert_ok(pg__tape_value(&tape, &x_shape, PG_ELEM_REAL, PG_INPUT, 0, 0, &x, NULL));
    assert_ok(pg__tape_value(&tape, &w_shape, PG_ELEM_REAL, PG_PARAM, 0, 0, &w, NULL));
    assert_ok(pg__emit3(&tape, PG_OP_conv, &conv, x, w, PG_NO_VAL, &y, NULL));
    squeeze(emulated, 1, PG_NO_VAL);
    assert_ops("cast cast conv");
    assert_int_equal(elem_of(w), PG_ELEM_REAL);
    assert_int_equal(elem_of(y), PG_ELEM_AS_BF16);
    assert_int_equal(elem_of(pg__in(&tape, &tape.insts[2], 1)), PG_ELEM_AS_BF16);
    assert_int_equal(pg__elem_bytes(PG_ELEM_AS_BF16, sizeof(double)), sizeof(double));
    pg__tape_fini(&tape);
}

/* What only looks different is of its memory's type. */
static void another_shape_has_the_type_of_its_memory(void **state)
{
    const pg__reshape_attrs flat = {.to = pg__dims_of(1, (const uint64_t[]){32})};
    pg__val r;
    (void)state;
    const pg__val a = dense(value(PG_INPUT, 4, 8), value(PG_PARAM, 8, 8));
    assert_ok(pg__emit1(&tape, PG_OP_reshape, &flat, a, &r, NULL));
    squeeze(bf16, 1, PG_NO_VAL);
    assert_int_equal(elem_of(a), PG_ELEM_BF16);
    assert_int_equal(elem_of(r), PG_ELEM_BF16);
    pg__tape_fini(&tape);
}

/* Each layer's own type; layers that compute with float32 are left as they are. */
static void layers_have_types_of_their_own(void **state)
{
    static const pg__elem elems[] = {PG_ELEM_F16, PG_ELEM_REAL};
    (void)state;
    const pg__val x = value(PG_INPUT, 4, 8), w = value(PG_PARAM, 8, 8);
    const pg__val a = dense(x, w);
    const pg__val b = dense(a, w);
    tape.insts[1].origin = 1;
    tape.n_forward = 1;
    squeeze(elems, 2, PG_NO_VAL);
    assert_ops("cast cast dense cast dense");
    assert_int_equal(elem_of(a), PG_ELEM_F16);
    assert_int_equal(elem_of(b), PG_ELEM_REAL);
    assert_int_equal(elem_of(pg__in(&tape, &tape.insts[4], 0)), PG_ELEM_REAL);
    assert_int_equal(pg__in(&tape, &tape.insts[4], 1), w);
    assert_int_equal(tape.n_forward, 3); /* with the casts before it */
    pg__tape_fini(&tape);
}

/* Elementwise work before the first product stays as precise as what it is given. */
static void what_follows_its_operands_stays_float32_with_them(void **state)
{
    (void)state;
    const pg__val a = relu(value(PG_INPUT, 4, 8));
    squeeze(bf16, 1, PG_NO_VAL);
    assert_ops("act");
    assert_int_equal(elem_of(a), PG_ELEM_REAL);
    pg__tape_fini(&tape);
}

PG_TEST_MAIN(cmocka_unit_test(products_take_casts_and_share_them),
             cmocka_unit_test(float32_is_asked_for_through_activations),
             cmocka_unit_test(what_is_made_in_16_bits_alone_is_cast),
             cmocka_unit_test(emulated_kernels_of_convolutions_are_cast),
             cmocka_unit_test(another_shape_has_the_type_of_its_memory),
             cmocka_unit_test(layers_have_types_of_their_own),
             cmocka_unit_test(what_follows_its_operands_stays_float32_with_them))
