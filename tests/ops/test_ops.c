/* Every operation of ops.def, at shapes that are awkward on purpose: gradients against finite
 * differences in double, float against double within the operation's own bound. */
#include "pg_test.h"

#include <math.h>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "base/mem.h"
#define PG_NORM_ACT_CASES
#include "ops/op_run.h"
#include "ops/overwrite.h"

static double objective(built *b)
{
    void **mem = alloc_all(b, DOUBLE);
    const uint32_t all = b->tape.n_insts;
    double sum = 0;
    b->tape.n_insts = b->n_forward;
    run_all(b, DOUBLE, mem);
    b->tape.n_insts = all;
    for (size_t k = 0; k < b->n_read; k++)
        for (uint64_t i = 0; i < elems(b, b->out[k]); i++)
            sum += factor(b, i) * ((double *)mem[b->out[k]])[i];
    free_all(b, mem);
    return sum;
}

static void gradients_equal_finite_differences(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        built b;
        if (cases[c].n_grads >= LARGE)
            continue;
        build(&b, &cases[c]);
        add_backward(&b);
        void **mem = run_case(&b, DOUBLE);
        for (size_t k = 0; k < cases[c].n_grads; k++) {
            if (!has_grad(&cases[c].in[k]))
                continue;
            const double *grad = mem[b.tape.values[b.in[k]].grad];
            for (uint64_t i = 0; i < elems(&b, b.in[k]); i++) {
                const double was = b.in_values[k][i], h = 1e-5;
                b.in_values[k][i] = was + h;
                const double up = objective(&b);
                b.in_values[k][i] = was - h;
                const double slope = (up - objective(&b)) / (2 * h);
                b.in_values[k][i] = was;
                if (!(fabs(slope - grad[i]) <= 1e-6 * (1 + fabs(slope))))
                    fail_msg("case %zu (%s), operand %zu, element %llu: %.9g by differences, %.9g "
                             "by the rule",
                             c, b.tape.insts[0].op->name, k, (unsigned long long)i, slope, grad[i]);
            }
        }
        free_all(&b, mem);
        drop(&b);
    }
}

static void float_agrees_with_double(void **state)
{
    (void)state;
    agrees_with_double(FLOAT);
}

static void cpu_agrees_with_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa))
            agrees_with_double(CPU(pg__isa_name((pg__isa)isa)));
}

static void equal_operands_give_equal_bits_whatever_memory_held(void **state)
{
    pg__isa isa;
    (void)state;
    assert_ok(pg__isa_named(&isa, NULL, NULL));
    gives_equal_bits(CPU(pg__isa_name(isa)));
}

static void results_may_lie_over_operands(void **state)
{
    (void)state;
    assert_true(writes_over_operands(FLOAT) > 80);
    assert_true(writes_over_operands(DOUBLE) > 80);
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa))
            assert_true(writes_over_operands(CPU(pg__isa_name((pg__isa)isa))) > 80);
}

static void every_operation_has_a_case(void **state)
{
    (void)state;
    for (int kind = 0; kind < PG_N_OPS; kind++) {
        const pg__op *op = pg__op_of((pg__op_kind)kind);
        int found = !op->backward; /* gradients come with their operation */
        for (size_t c = 0; c < N_CASES; c++)
            found |= pg__op_of(cases[c].kind) == op;
        if (!found)
            fail_msg("no case for %s", op->name);
    }
}

static void steps_masked_everywhere_attend_to_all_alike(void **state)
{
    const op_case c = {PG_OP_attention,
                       ATTENTION(.heads = 1, .scale = 1),
                       {{NORMAL, S(1, 2, 3)},
                        {NORMAL, S(1, 4, 3)},
                        {NORMAL, S(1, 4, 3)},
                        {MASK, S(1, 2)},
                        ABSENT,
                        ABSENT,
                        ABSENT,
                        ABSENT},
                       8,
                       3};
    (void)state;
    for (int f64 = 0; f64 < 2; f64++) {
        built b;
        build(&b, &c);
        void **mem = run_case(&b, (engine){.f64 = f64});
        for (size_t s = 0; s < 4; s++) { /* the second step is masked */
            const size_t at = 4 + s;
            const void *p = mem[b.out[1]];
            assert_true((f64 ? ((const double *)p)[at] : (double)((const float *)p)[at]) == 0.25);
        }
        free_all(&b, mem);
        drop(&b);
    }
}

static void ids_beyond_the_table_give_no_numbers(void **state)
{
    const int32_t ids[] = {-1, 1, 2};
    const float table[] = {1, 2, 3, 4};
    float y[6], dw[4], ones[] = {1, 1, 1, 1, 1, 1};
    const pg__dims three = S(3), square = S(2, 2), result = S(3, 2);
    union {
        const void *in;
        void *p;
    } from = {ids}, of = {table};
    (void)state;
    const pg__arg in[] = {{&three, from.p, 3}, {&square, of.p, 4}}, out = {&result, y, 6};
    pg__op_of(PG_OP_embedding)->ref_f32(NULL, in, 2, &out, 1);
    assert_true(isnan(y[0]) && isnan(y[1]) && y[2] == 3 && y[3] == 4 && isnan(y[4]));
    const pg__arg grad[] = {{&three, from.p, 3}, {&result, ones, 6}, {&square, of.p, 4}};
    const pg__arg to = {&square, dw, 4};
    pg__op_of(PG_OP_embedding_dw)->ref_f32(NULL, grad, 3, &to, 1);
    assert_true(dw[0] == 0 && dw[1] == 0 && dw[2] == 1 && dw[3] == 1);
}

static void operands_that_do_not_fit_are_refused(void **state)
{
    pg__tape t = {0};
    pg_err err;
    pg__val x, w, y;
    (void)state;
    assert_ok(pg__tape_value(&t, &(pg__dims)S(3, 5), PG_ELEM_REAL, PG_INPUT, 0, 0, &x, NULL));
    assert_ok(pg__tape_value(&t, &(pg__dims)S(4, 7), PG_ELEM_REAL, PG_PARAM, 0, 1, &w, NULL));
    assert_int_equal(pg__emit2(&t, PG_OP_dense, NULL, x, w, &y, &err), PG_E_MISMATCH);
    assert_string_equal(err.msg, "input (3, 5) does not fit the kernel (4, 7)");
    assert_int_equal(t.n_insts, 0);
    pg__tape_fini(&t);
}

/* Rows first .. first + n of a batch of ones through dropout. */
static void drop_rows(float *y, const pg__dropout_attrs *all, int32_t first, size_t n,
                      int32_t count)
{
    const int32_t step[PG_STEP_N] = {5, 0, count, 0, first, 0};
    const pg__dims shape = S(n, 3, 5), six = S(PG_STEP_N);
    float ones[8 * 15];
    pg__dropout_attrs a = *all;
    for (size_t i = 0; i < n * 15; i++)
        ones[i] = 1;
    a.noise.d[0] = a.rows_share ? 1 : n;
    const pg__arg in[] = {{&shape, ones, n * 15}, {&six, (int32_t *)(uintptr_t)step, PG_STEP_N}};
    const pg__arg out = {&shape, y, n * 15};
    pg__op_of(PG_OP_dropout)->ref_f32(&a, in, 2, &out, 1);
}

static void dropout_is_a_function_of_the_row_in_the_batch(void **state)
{
    const pg__dropout_attrs kinds[] = {{0.5, 3, 0, S(8, 3, 5), 0}, {0.5, 3, 0, S(8, 1, 5), 0}};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        float whole[120], part[120], later[120];
        drop_rows(whole, &kinds[k], 0, 8, 0);
        drop_rows(part, &kinds[k], 0, 3, 0);
        drop_rows(part + 45, &kinds[k], 3, 1, 0);
        drop_rows(part + 60, &kinds[k], 4, 4, 0);
        assert_memory_equal(whole, part, sizeof whole);
        drop_rows(later, &kinds[k], 0, 8, 1);
        assert_memory_not_equal(whole, later, sizeof whole);
    }
}

static void dropout_knows_rows_that_are_steps(void **state)
{
    const pg__dropout_attrs two_steps = {0.5, 3, 0, S(8, 3, 5), 2};
    float whole[120], part[120];
    (void)state;
    drop_rows(whole, &two_steps, 0, 8, 0); /* four rows of the batch */
    drop_rows(part, &two_steps, 0, 2, 0);
    drop_rows(part + 30, &two_steps, 1, 6, 0);
    assert_memory_equal(whole, part, sizeof whole);
}

static void dropout_keeps_its_share(void **state)
{
    const pg__dims shape = S(1000, 20), six = S(PG_STEP_N);
    const pg__dropout_attrs a = {0.3, 1, 0, shape, 0};
    int32_t step[PG_STEP_N] = {1, 2, 3, 0, 0, 0};
    static double x[20000], y[20000];
    size_t kept = 0;
    (void)state;
    for (size_t i = 0; i < 20000; i++)
        x[i] = 1;
    const pg__arg in[] = {{&shape, x, 20000}, {&six, step, PG_STEP_N}}, out = {&shape, y, 20000};
    pg__op_of(PG_OP_dropout)->ref_f64(&a, in, 2, &out, 1);
    for (size_t i = 0; i < 20000; i++) {
        assert_true(y[i] == 0 || fabs(y[i] - 1 / 0.7) < 1e-12);
        kept += y[i] != 0;
    }
    assert_true(kept > 13740 && kept < 14260); /* four standard deviations */
}

static void draw_normal(double *out, uint64_t row, uint64_t n, uint64_t fold)
{
    const pg__normal_attrs a = {.stream = 3, .shape = S(n, 7), .fold = fold};
    const pg__dims six = S(PG_STEP_N);
    int32_t step[PG_STEP_N] = {1, 2, 3, 0, (int32_t)row, 0};
    const pg__arg in = {&six, step, PG_STEP_N}, to = {&a.shape, out, n * 7};
    pg__op_of(PG_OP_normal)->ref_f64(&a, &in, 1, &to, 1);
}

static void normal_numbers_are_a_function_of_the_row_in_the_batch(void **state)
{
    double whole[8 * 7], part[8 * 7];
    (void)state;
    draw_normal(whole, 0, 8, 0);
    draw_normal(part, 0, 3, 0);
    draw_normal(part + 21, 3, 1, 0);
    draw_normal(part + 28, 4, 4, 0);
    assert_memory_equal(whole, part, sizeof whole);
    draw_normal(part, 0, 2, 2); /* steps that are rows: two for each row of the batch */
    draw_normal(part + 14, 1, 6, 2);
    assert_memory_equal(whole, part, sizeof whole);
}

/* Mean, variance, skewness, kurtosis, neighbours, and how many lie beyond 1 and 3: each within four
 * standard deviations of what it should be. */
static void normal_numbers_are_distributed_so(void **state)
{
    enum { N = 30000 * 7 };
    static double x[N];
    double sum[5] = {0}, pairs = 0, beyond[2] = {0};
    (void)state;
    draw_normal(x, 0, 30000, 0);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 1; k < 5; k++)
            sum[k] += pow(x[i], (double)k) / N;
        pairs += i > 0 ? x[i] * x[i - 1] / N : 0;
        beyond[0] += fabs(x[i]) > 1;
        beyond[1] += fabs(x[i]) > 3;
    }
    const double one = 4 / sqrt(N);
    assert_true(fabs(sum[1]) < one && fabs(pairs) < one);
    assert_true(fabs(sum[2] - 1) < one * sqrt(2) && fabs(sum[3]) < one * sqrt(15));
    assert_true(fabs(sum[4] - 3) < one * sqrt(96));
    assert_true(fabs(beyond[0] / N - 0.317311) < one * 0.4655);
    assert_true(fabs(beyond[1] / N - 0.0026998) < one * 0.0519);
}

static void equal_cells_of_a_window_give_all_to_the_first(void **state)
{
    const pg__pool_attrs a = {.rank = 1, .max = 1, .window = {3}, .stride = {3}, .size = {6}};
    const pg__dims x = S(1, 6, 1), y = S(1, 2, 1);
    double cells[] = {1, 2, 2, 3, 3, 3}, dy[] = {10, 20}, dx[6];
    const double want[] = {0, 10, 0, 20, 0, 0};
    const pg__arg in[] = {{&x, cells, 6}, {&y, dy, 2}}, out = {&x, dx, 6};
    (void)state;
    pg__op_of(PG_OP_pool_grad)->ref_f64(&a, in, 2, &out, 1);
    assert_memory_equal(dx, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_finite_differences),
        cmocka_unit_test(float_agrees_with_double),
        cmocka_unit_test(cpu_agrees_with_double),
        cmocka_unit_test(equal_operands_give_equal_bits_whatever_memory_held),
        cmocka_unit_test(results_may_lie_over_operands),
        cmocka_unit_test(every_operation_has_a_case),
        cmocka_unit_test(steps_masked_everywhere_attend_to_all_alike),
        cmocka_unit_test(ids_beyond_the_table_give_no_numbers),
        cmocka_unit_test(operands_that_do_not_fit_are_refused),
        cmocka_unit_test(dropout_is_a_function_of_the_row_in_the_batch),
        cmocka_unit_test(dropout_knows_rows_that_are_steps),
        cmocka_unit_test(dropout_keeps_its_share),
        cmocka_unit_test(normal_numbers_are_a_function_of_the_row_in_the_batch),
        cmocka_unit_test(normal_numbers_are_distributed_so),
        cmocka_unit_test(equal_cells_of_a_window_give_all_to_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
