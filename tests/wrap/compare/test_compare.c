#include <math.h>

#include "base/mem.h"
#include "pg_test.h"
#include "wrap/compare/compare_values.h"
#include "wrap/compare/view.h"

/* ---- values: stores of one tensor over memory ---- */

typedef struct side {
    pg_store *s;
    pg__io *io;
} side;

static side make(pg_dtype dtype, uint64_t n, const void *data, size_t n_bytes, int big_endian)
{
    side out = {0};
    assert_ok(pg__io_open_mem(&out.io, data, n_bytes, NULL));
    assert_ok(pg__store_new(&out.s, "test", NULL, NULL, NULL));
    assert_ok(pg__store_add_weight(out.s,
                                   &(pg__tensor_desc){.name = "w",
                                                      .dtype = dtype,
                                                      .big_endian = big_endian,
                                                      .rank = 1,
                                                      .dims = &n,
                                                      .extent = {out.io, 0}},
                                   NULL));
    return out;
}

#define SIDE(dtype, values) \
    make(dtype, sizeof(values) / pg_dtype_bytes(dtype), values, sizeof(values), 0)

static pg_compare_row compared(side a, side b, const pg_compare_opts *o)
{
    static const pg_compare_opts none = {0};
    pg_compare_row row = {0};
    unsigned char *buf = malloc((size_t)512 << 10);
    assert_non_null(buf);
    assert_ok(pg__compare_values(&row, (pg__operand){a.s, 0, "a"}, (pg__operand){b.s, 0, "b"},
                                 o ? o : &none, buf, NULL));
    free(buf);
    pg_store_close(a.s);
    pg_store_close(b.s);
    pg__io_close(a.io);
    pg__io_close(b.io);
    return row;
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fabs(want)))
        fail_msg("%.17g, expected %.17g", got, want);
}

static void measures_what_changed(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3, 4, 5}, b[] = {1, 2, 3, 8, 5};
    const pg_compare_row r = compared(SIDE(PG_F32, a), SIDE(PG_F32, b), NULL);
    assert_int_equal(r.kind, PG_ROW_DIFFERS);
    assert_int_equal(r.n, 5);
    assert_int_equal(r.n_changed, 1);
    assert_near(r.max_abs, 4);
    assert_near(r.rms, 4 / sqrt(5));
    assert_near(r.rel_l2, 4 / sqrt(55));
    assert_near(r.cosine, 71 / sqrt(55) / sqrt(103));
}

static void calls_equal_bytes_equal(void **state)
{
    (void)state;
    const float a[] = {1, -2, 3};
    const pg_compare_row r = compared(SIDE(PG_F32, a), SIDE(PG_F32, a), NULL);
    assert_int_equal(r.kind, PG_ROW_EQUAL);
    assert_int_equal(r.n_changed, 0);
    assert_near(r.cosine, 1);
}

static void accepts_what_is_within_a_tolerance(void **state)
{
    (void)state;
    const float a[] = {100, 1, 0}, b[] = {101, 1.5f, 0.25f};
    pg_compare_row r = compared(SIDE(PG_F32, a), SIDE(PG_F32, b), &(pg_compare_opts){.abs = 0.5});
    assert_int_equal(r.n_changed, 1);
    r = compared(SIDE(PG_F32, a), SIDE(PG_F32, b), &(pg_compare_opts){.rel = 0.1});
    assert_int_equal(r.n_changed, 2);
    r = compared(SIDE(PG_F32, a), SIDE(PG_F32, b), &(pg_compare_opts){.abs = 0.5, .rel = 0.01});
    assert_int_equal(r.kind, PG_ROW_EQUAL);
    assert_near(r.max_abs, 1);
}

static void tells_nan_and_infinity(void **state)
{
    (void)state;
    const float nan = (float)NAN, inf = (float)INFINITY;
    const float a[] = {nan, 1, inf, inf, 2}, b[] = {nan, nan, inf, -inf, 2};
    pg_compare_row r = compared(SIDE(PG_F32, a), SIDE(PG_F32, b), &(pg_compare_opts){.abs = 1e9});
    assert_int_equal(r.kind, PG_ROW_DIFFERS);
    assert_int_equal(r.n_nan, 2);
    assert_int_equal(r.n_changed, 2);
    assert_true(isinf(r.max_abs));
    r = compared(SIDE(PG_F32, a), SIDE(PG_F32, a), NULL);
    assert_int_equal(r.kind, PG_ROW_EQUAL);
    assert_int_equal(r.n_nan, 1);
}

static void compares_numbers_of_different_types(void **state)
{
    (void)state;
    const float a[] = {1, -2.5f, 0, (float)NAN};
    const uint16_t bf16[] = {0x3F80, 0xC020, 0, 0x7FC0}, f16[] = {0x3C00, 0xC100, 0, 0x7E00};
    const double f64[] = {1, -2.5, 1e-9, (double)NAN};
    pg_compare_row r = compared(SIDE(PG_F32, a), SIDE(PG_BF16, bf16), NULL);
    assert_int_equal(r.kind, PG_ROW_EQUAL);
    assert_int_equal(r.n_nan, 1);
    r = compared(SIDE(PG_F16, f16), SIDE(PG_F32, a), NULL);
    assert_int_equal(r.kind, PG_ROW_EQUAL);
    r = compared(SIDE(PG_F32, a), SIDE(PG_F64, f64), NULL);
    assert_int_equal(r.n_changed, 1);
    assert_near(r.max_abs, 1e-9);
    const int32_t ints[] = {1, 2, 0, 0};
    r = compared(SIDE(PG_F32, a), SIDE(PG_I32, ints), NULL);
    assert_int_equal(r.kind, PG_ROW_DTYPE);
}

static void reads_both_byte_orders(void **state)
{
    (void)state;
    const float a[] = {1, -2.5f};
    const unsigned char big[] = {0x3F, 0x80, 0, 0, 0xC0, 0x20, 0, 0};
    const pg_compare_row r = compared(SIDE(PG_F32, a), make(PG_F32, 2, big, sizeof big, 1), NULL);
    assert_int_equal(r.kind, PG_ROW_EQUAL);
}

static void does_not_round_large_integers(void **state)
{
    (void)state;
    const int64_t a[] = {(int64_t)1 << 60, -5}, b[] = {((int64_t)1 << 60) + 1, -5};
    const uint64_t u[] = {(uint64_t)1 << 60, UINT64_MAX - 4};
    pg_compare_row r = compared(SIDE(PG_I64, a), SIDE(PG_I64, b), NULL);
    assert_int_equal(r.n_changed, 1);
    assert_near(r.max_abs, 1);
    r = compared(SIDE(PG_I64, a), SIDE(PG_U64, u), NULL);
    assert_int_equal(r.n_changed, 1);
}

/* Pieces before the first difference count for the norms. */
static void measures_tensors_of_many_pieces(void **state)
{
    (void)state;
    const size_t n = 300000;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    double aa = 0, bb = 0, ab = 0;
    assert_non_null(a);
    assert_non_null(b);
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] = (float)(i % 7) - 3;
    a[5] = b[5] = (float)NAN;
    b[200001] += 2;
    b[n - 1] -= 1;
    for (size_t i = 0; i < n; i++)
        if (i != 5) {
            aa += (double)a[i] * (double)a[i];
            bb += (double)b[i] * (double)b[i];
            ab += (double)a[i] * (double)b[i];
        }
    const size_t size = n * sizeof *a;
    pg_compare_row r = compared(make(PG_F32, n, a, size, 0), make(PG_F32, n, b, size, 0), NULL);
    assert_int_equal(r.n_changed, 2);
    assert_int_equal(r.n_nan, 1);
    assert_near(r.rel_l2, sqrt(5 / aa));
    assert_near(r.rms, sqrt(5 / (double)(n - 1)));
    assert_near(r.cosine, ab / sqrt(aa) / sqrt(bb));
    r = compared(make(PG_F32, n, a, size, 0), make(PG_F32, n, b, size, 0),
                 &(pg_compare_opts){.quick = 1});
    assert_int_equal(r.n_changed, 1);
    free(a);
    free(b);
}

static void counts_nan_of_every_float_type(void **state)
{
    (void)state;
    static float f[700];
    static double d[700];
    f[0] = f[256] = f[699] = (float)NAN, f[1] = (float)INFINITY;
    d[511] = d[512] = -(double)NAN, d[3] = -(double)INFINITY;
    const uint16_t half[] = {0x7C00, 0x7C01, 0xFE00, 0x3C00}, bf16[] = {0x7F80, 0x7F81, 0xFFC0};
    assert_int_equal(pg__count_nan((const unsigned char *)f, 700, PG_F32), 3);
    assert_int_equal(pg__count_nan((const unsigned char *)d, 700, PG_F64), 2);
    assert_int_equal(pg__count_nan((const unsigned char *)half, 4, PG_F16), 2);
    assert_int_equal(pg__count_nan((const unsigned char *)bf16, 3, PG_BF16), 2);
}

/* ---- names ---- */

static pg__view view_of(const char *text)
{
    pg__view v = {0};
    v.r.s = pg_test_store(text);
    assert_ok(pg__judge(&v.r.v, v.r.s, NULL));
    assert_ok(pg__view_fill(&v, NULL));
    return v;
}

/* Partners of a's tensors in b as text: "0 2 - 1". */
static void assert_pairs(const char *want, const char *a, const char *b)
{
    char got[200] = "";
    size_t of_a[20], of_b[20], at = 0;
    pg__view va = view_of(a), vb = view_of(b);
    assert_ok(pg__view_pair(of_a, of_b, &va, &vb, NULL));
    for (size_t i = 0; i < va.n; i++)
        at += (size_t)(of_a[i] == PG_NONE
                           ? snprintf(got + at, sizeof got - at, "%s-", i ? " " : "")
                           : snprintf(got + at, sizeof got - at, "%s%zu", i ? " " : "", of_a[i]));
    assert_string_equal(got, want);
    pg__view_fini(&va);
    pg__view_fini(&vb);
}

static void pairs_tensors_by_name(void **state)
{
    (void)state;
    assert_pairs("1 0 -", "a[a/kernel:0] b[b/kernel:0] c[c/kernel:0]",
                 "b[b/kernel] a[a/kernel] d[d/kernel]");
    assert_pairs("0", "a[kernel:0]", "a[a/kernel]");
    assert_pairs("0", "a[a_2/kernel:0]", "a[a/kernel:0]");
}

static void pairs_through_a_wrapper(void **state)
{
    (void)state;
    assert_pairs(
        "0 1",
        "input_1 lambda_1 lambda_2 model_1[conv_1/kernel:0#2x3 dense_1/kernel:0#3x4] dense_1",
        "conv_1[conv_1/kernel:0#2x3] dense_1[dense_1/kernel:0#3x4]");
    /* an order that nobody can tell is no obstacle */
    assert_pairs("1 0", "input_1 lambda_1 lambda_2 m[z/kernel:0 y/kernel:0] concatenate_1",
                 "y[y/kernel:0] z[z/kernel:0]");
}

static void does_not_guess_among_equal_names(void **state)
{
    (void)state;
    /* "kernel" of which layer? only the layer tells */
    assert_pairs("1 0", "a[kernel] b[kernel]", "b[kernel] a[kernel]");
    assert_pairs("- -", "a[kernel] b[kernel]", "c[kernel] d[kernel]");
    /* numbers pair only what has the same shape */
    assert_pairs("-", "a[a/gamma:0#3]", "a[a/beta:0#4]");
}

/* ---- files ---- */

static const char *path_of(char buf[512], const char *rel)
{
    snprintf(buf, 512, "%s/%s", pg_testdata, rel);
    return buf;
}

static pg_status compare_files(pg_comparison *c, const char *a, const char *b,
                               const pg_compare_opts *o, pg_err *err)
{
    char pa[512], pb[512];
    return pg_compare_files(c, path_of(pa, a), path_of(pb, b), o, err);
}

#define CNN4   "files/keras-2.2.4/cnn4-g2/"
#define NATIVE "files/keras-3.6.0-native/cnn4/"

static void finds_the_template_in_its_wrapper(void **state)
{
    (void)state;
    pg_comparison c = {0};
    assert_ok(compare_files(&c, CNN4 "wrapper_model.h5", CNN4 "template_weights.h5", NULL, NULL));
    assert_int_equal(c.n_rows, 8);
    assert_int_equal(c.n_equal, 8);
    assert_int_equal(c.n_params, 987);
    assert_true(c.through_wrapper);
    assert_string_equal(c.rows[0].name, "conv2d_1/kernel");
    pg_comparison_fini(&c);
}

static void compares_across_formats(void **state)
{
    (void)state;
    static const char *const others[] = {NATIVE "template.weights.h5", NATIVE "template_legacy.h5",
                                         NATIVE "wrapper.keras"};
    for (size_t i = 0; i < 3; i++) {
        pg_comparison c = {0};
        assert_ok(compare_files(&c, NATIVE "template.keras", others[i], NULL, NULL));
        assert_int_equal(c.n_rows, 8);
        assert_int_equal(c.n_equal, 8);
        assert_string_equal(c.rows[1].name, "conv2d/bias");
        pg_comparison_fini(&c);
    }
}

static void lists_what_only_one_file_has(void **state)
{
    (void)state;
    pg_comparison c = {0};
    const char *rnn = "files/keras-2.2.4/rnn-g2/template_weights.h5";
    assert_ok(compare_files(&c, CNN4 "template_weights.h5", rnn, NULL, NULL));
    assert_int_equal(c.n_only_a, 6);
    assert_int_equal(c.n_only_b, 11);
    assert_int_equal(c.n_differ, 2);
    assert_int_equal(c.rows[6].kind, PG_ROW_SHAPE);
    assert_null(c.rows[0].b.name);
    pg_comparison_fini(&c);
    assert_ok(compare_files(&c, CNN4 "template_weights.h5", rnn,
                            &(pg_compare_opts){.ignore = "*/kernel"}, NULL));
    for (size_t i = 0; i < c.n_rows; i++)
        assert_null(strstr(c.rows[i].name, "/kernel"));
    pg_comparison_fini(&c);
}

static void says_when_nothing_is_shared(void **state)
{
    (void)state;
    pg_comparison c = {0};
    pg_err err = {0};
    const char *a = NATIVE "template.weights.h5", *b = CNN4 "template_weights.h5";
    assert_ok(compare_files(&c, a, b, &(pg_compare_opts){.by_order = 1}, &err));
    assert_int_equal(c.n_rows, 8);
    assert_int_equal(c.rows[0].kind, PG_ROW_DIFFERS);
    pg_comparison_fini(&c);
    assert_fails(PG_E_MISMATCH,
                 compare_files(&c, CNN4 "template_weights.h5",
                               "files/pytorch/cnn/single.safetensors", NULL, &err),
                 &err);
    assert_non_null(strstr(err.msg, "share no tensor names"));
}

static void never_calls_a_damaged_file_equal(void **state)
{
    (void)state;
    pg_comparison c = {0};
    pg_err err = {0};
    const char *bad = "negative/truncated_half.h5";
    assert_fails(PG_E_FORMAT, compare_files(&c, bad, bad, NULL, &err), &err);
    assert_null(c.rows);
    assert_fails(PG_E_ARG, compare_files(&c, bad, bad, &(pg_compare_opts){.abs = -1}, &err), &err);
}

static void compares_parts_of_checkpoints(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_comparison c = {0};
    char a[512], b[512];
    static const struct {
        const char *a, *b, *part, *part_b;
        pg_status code;
    } cases[] = {
        {"timm.pth.tar", "ema.safetensors", "state_dict_ema", NULL, PG_OK},
        {"ema.safetensors", "timm.pth.tar", "state_dict_ema", NULL, PG_OK},
        {"torchvision_ema.pth", "dino.pth", "model", "student", PG_OK},
        {"timm.pth.tar", "ema.safetensors", NULL, NULL, PG_E_AMBIGUOUS},
        {"timm.pth.tar", "ema.safetensors", "typo", NULL, PG_E_ARG},
        {"ema.safetensors", "timm.pth.tar", "typo", NULL, PG_E_ARG},
        {"ema.safetensors", "plain.safetensors", "model", NULL, PG_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pg_compare_opts o = {.part = cases[i].part, .part_b = cases[i].part_b};
        snprintf(a, sizeof a, "%s/extra/checkpoints/%s", pg_testdata, cases[i].a);
        snprintf(b, sizeof b, "%s/extra/checkpoints/%s", pg_testdata, cases[i].b);
        if (pg_compare_files(&c, a, b, &o, &err) != cases[i].code)
            fail_msg("case %zu: %s", i, err.msg);
        assert_int_equal(c.n_equal, cases[i].code == PG_OK ? 9 : 0);
        pg_comparison_fini(&c);
    }
}

PG_TEST_MAIN(
    cmocka_unit_test(compares_parts_of_checkpoints),

    cmocka_unit_test(measures_what_changed), cmocka_unit_test(calls_equal_bytes_equal),
    cmocka_unit_test(accepts_what_is_within_a_tolerance), cmocka_unit_test(tells_nan_and_infinity),
    cmocka_unit_test(compares_numbers_of_different_types), cmocka_unit_test(reads_both_byte_orders),
    cmocka_unit_test(does_not_round_large_integers),
    cmocka_unit_test(measures_tensors_of_many_pieces),
    cmocka_unit_test(counts_nan_of_every_float_type), cmocka_unit_test(pairs_tensors_by_name),
    cmocka_unit_test(pairs_through_a_wrapper), cmocka_unit_test(does_not_guess_among_equal_names),
    cmocka_unit_test(finds_the_template_in_its_wrapper), cmocka_unit_test(compares_across_formats),
    cmocka_unit_test(lists_what_only_one_file_has), cmocka_unit_test(says_when_nothing_is_shared),
    cmocka_unit_test(never_calls_a_damaged_file_equal))
