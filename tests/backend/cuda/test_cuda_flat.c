/* What the GPU of plain C (host.h) does to flat memory, against the plain answers: updates by every
 * rule, sums and norms within what their order allows. */
#include "pg_test.h"

#include <math.h>

#include "backend/cuda/plugin.h"
#include "base/mem.h"
#include "ops/clip_real.h"

#include "backend/shares.h"

/* One number; chunks that are full and that are not; more chunks than have sums of their own. */
static const size_t sizes[] = {1, 255, 4096, 4097, 70000, (size_t)4096 * 2048 + 12345};
#define N_SMALL 5

static const pg__backend *cuda;
static pg__dev *dev;

static int open_dev(void **state)
{
    (void)state;
    cuda = pg_backend_get(PG_BACKEND_ABI);
    return cuda->open(&dev, 0, &(pg__dev_opts){.n_threads = 1}, NULL) != PG_OK;
}

static int close_dev(void **state)
{
    (void)state;
    cuda->close(dev);
    return 0;
}

/* Numbers between -1 and 1, or above 0, for slots that are squares. */
static float *numbers(size_t n, uint32_t seed, int positive)
{
    float *v = pg__mem_array(n, sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 8) / 8388608.0f - 1;
        v[i] = positive ? fabsf(v[i]) + 0.01f : v[i];
    }
    return v;
}

static void *there(const float *v, size_t n)
{
    void *p;
    assert_ok(cuda->alloc(dev, &p, n * sizeof *v, NULL));
    assert_ok(cuda->put(dev, p, v, n * sizeof *v));
    return p;
}

/* Back from the device, which is freed. */
static float *back(void *p, size_t n)
{
    float *v = pg__mem_array(n, sizeof *v);
    assert_non_null(v);
    assert_ok(cuda->get(dev, v, p, n * sizeof *v));
    cuda->free(dev, p);
    return v;
}

/* nvcc makes one instruction of a product and a sum, so it rounds once less than the plain answers.
 */
#define BOUND 4e-7

static void same(const float *got, const float *want, size_t n, double bound, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= bound * fmax(1, fabs((double)want[i]))))
            fail_msg("%s: number %zu of %zu is %.9g, not %.9g", what, i, n, (double)got[i],
                     (double)want[i]);
}

/* ---- updates ---- */

static void check_update(const pg__optimizer_type *type, pg__optimizer_kind kind,
                         const pg__update *u, size_t n, int optional)
{
    const size_t n_used = optional || kind == PG_OPT_sgd_momentum                   ? type->n_slots
                          : kind == PG_OPT_adam                                     ? 2
                          : kind == PG_OPT_rmsprop || kind == PG_OPT_rmsprop_legacy ? 1
                                                                                    : type->n_slots;
    float *w = numbers(n, 1, 0), *g = numbers(n, 2, 0), *s[PG_MAX_SLOTS] = {NULL};
    void *w_there = there(w, n), *g_there = there(g, n), *s_there[PG_MAX_SLOTS] = {NULL};
    void *slots[PG_MAX_SLOTS];
    for (size_t k = 0; k < n_used; k++) {
        s[k] = numbers(n, 3 + (uint32_t)k, k != 2); /* the average of gradients has a sign */
        s_there[k] = there(s[k], n);
    }
    if (optional) {
        s[PG_SLOT_AVERAGE] = numbers(n, 9, 0);
        s_there[PG_SLOT_AVERAGE] = there(s[PG_SLOT_AVERAGE], n);
    }
    for (size_t k = 0; k < PG_MAX_SLOTS; k++)
        slots[k] = s[k];
    for (int step = 0; step < 2; step++) {
        type->f32(u, w, g, slots, n);
        assert_ok(cuda->flat.update(dev, kind, u, w_there, g_there, s_there, n));
    }
    cuda->free(dev, g_there);
    /* A difference of two powers, divided by the rate. */
    const double bound = kind == PG_OPT_ftrl ? BOUND / (double)u->lr : BOUND;
    float *w_back = back(w_there, n);
    same(w_back, w, n, bound, type->name);
    for (size_t k = 0; k < PG_MAX_SLOTS; k++) {
        if (!s[k])
            continue;
        float *s_back = back(s_there[k], n);
        same(s_back, s[k], n, bound, type->name);
        pg__mem_free(s_back);
        pg__mem_free(s[k]);
    }
    pg__mem_free(w_back);
    pg__mem_free(w);
    pg__mem_free(g);
}

static void updates_are_those_of_the_plain_answers(void **state)
{
    pg__update u = {.lr = 0.01,
                    .rho = 0.9,
                    .beta_1 = 0.9,
                    .beta_2 = 0.99,
                    .epsilon = 1e-7,
                    .alpha = 0.02,
                    .power = 0.5,
                    .l1 = 0.1,
                    .l2 = 0.2,
                    .shrinkage = 0.3,
                    .average = 0.7,
                    .m_share = 0.4,
                    .g_share = 0.5,
                    .v_correction = 0.3};
    (void)state;
    for (pg__optimizer_kind kind = 0; kind < PG_N_OPTIMIZERS; kind++)
        for (int optional = 0; optional < 2; optional++)
            for (size_t i = 0; i < N_SMALL; i++) {
                u.nesterov = u.amsgrad = optional;
                u.centered = 0;
                u.momentum = optional || kind == PG_OPT_sgd_momentum ? 0.8 : 0;
                u.weight_decay = optional ? 0.1 : 0;
                u.to_average = optional && i % 2;
                check_update(pg__optimizer_of(kind), kind, &u, sizes[i], optional);
            }
}

static void centered_rmsprop_too(void **state)
{
    enum { N = 300 };
    const pg__update u = {.lr = 0.01, .rho = 0.9, .momentum = 0.5, .epsilon = 1e-3, .centered = 1};
    float *w = numbers(N, 1, 0), *g = numbers(N, 2, 0);
    float *zero[3] = {numbers(N, 1, 1), numbers(N, 1, 0), numbers(N, 1, 0)};
    (void)state;
    for (size_t k = 0; k < 3; k++)
        memset(zero[k], 0, N * sizeof(float));
    void *w_there = there(w, N), *g_there = there(g, N);
    void *s[PG_MAX_SLOTS] = {zero[0], zero[1], zero[2]};
    void *s_there[PG_MAX_SLOTS] = {there(zero[0], N), there(zero[1], N), there(zero[2], N)};
    for (int step = 0; step < 3; step++) {
        pg__optimizer_of(PG_OPT_rmsprop)->f32(&u, w, g, s, N);
        assert_ok(cuda->flat.update(dev, PG_OPT_rmsprop, &u, w_there, g_there, s_there, N));
    }
    float *w_back = back(w_there, N);
    same(w_back, w, N, BOUND, "rmsprop");
    for (size_t k = 0; k < 3; k++) {
        cuda->free(dev, s_there[k]);
        pg__mem_free(zero[k]);
    }
    cuda->free(dev, g_there);
    pg__mem_free(w_back);
    pg__mem_free(w);
    pg__mem_free(g);
}

/* ---- sums, norms, averages ---- */

static void check_sums(size_t n)
{
    float *g = numbers(n, 5, 0), *w = numbers(n, 6, 0);
    void *g_there = there(g, n), *w_there = there(w, n);
    double got = 3, want = 3;
    if (n > 1)
        w[1] = 0; /* where |w| has no slope */
    assert_ok(cuda->put(dev, w_there, w, n * sizeof *w));
    assert_ok(cuda->flat.squares(dev, g_there, n, &got));
    for (size_t i = 0; i < n; i++)
        want += (double)g[i] * (double)g[i];
    if (!(fabs(got - want) <= 1e-6 * want))
        fail_msg("squares of %zu: %.12g, not %.12g", n, got, want);
    got = want = 2;
    assert_ok(cuda->flat.regularise(dev, NULL, w_there, n, 0.3, 0.2, &got));
    assert_ok(cuda->flat.regularise(dev, g_there, w_there, n, 0.3, 0.2, &got));
    for (size_t i = 0; i < n; i++) {
        const double v = (double)w[i];
        want += 2 * (0.3 * fabs(v) + 0.2 * v * v);
        g[i] += (float)(0.3 * ((v > 0) - (v < 0)) + 0.4 * v);
    }
    if (!(fabs(got - want) <= 1e-6 * want))
        fail_msg("penalty of %zu: %.12g, not %.12g", n, got, want);
    float *g_back = back(g_there, n);
    same(g_back, g, n, BOUND, "regularise");
    cuda->free(dev, w_there);
    pg__mem_free(g_back);
    pg__mem_free(g);
    pg__mem_free(w);
}

static void sums_are_those_of_the_plain_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_sums(sizes[i]);
}

static void sums_of_nothing_are_nothing(void **state)
{
    double sum = 1;
    void *p = there((const float[]){7}, 1);
    (void)state;
    assert_ok(cuda->flat.squares(dev, p, 0, &sum));
    assert_ok(cuda->flat.regularise(dev, p, p, 0, 1, 1, &sum));
    assert_true(sum == 1);
    cuda->free(dev, p);
}

static void a_sum_that_is_no_number_is_none(void **state)
{
    float *g = numbers(9000, 1, 0);
    double sum = 0;
    (void)state;
    g[4200] = NAN;
    void *p = there(g, 9000);
    assert_ok(cuda->flat.squares(dev, p, 9000, &sum));
    assert_true(isnan(sum));
    cuda->free(dev, p);
    pg__mem_free(g);
}

static void check_limits(size_t n, double scale, double limit)
{
    float *g = numbers(n, 7, 0), *into = numbers(n, 8, 0), *from = numbers(n, 9, 0);
    if (n > 2)
        g[2] = NAN;
    void *g_there = there(g, n), *into_there = there(into, n), *from_there = there(from, n);
    assert_ok(cuda->flat.clip(dev, g_there, n, scale, limit));
    assert_ok(cuda->flat.blend(dev, into_there, 0.9, from_there, 0.1, n));
    assert_ok(cuda->flat.accumulate(dev, into_there, from_there, n));
    float *g_back = back(g_there, n), *into_back = back(into_there, n);
    for (size_t i = 0; i < n; i++) {
        const float v = g[i] * (float)scale, l = (float)limit;
        g[i] = limit > 0 && v > l ? l : limit > 0 && v < -l ? -l : v;
        into[i] = 0.9f * into[i] + 0.1f * from[i] + from[i];
    }
    if (n > 2) { /* what is no number stays none */
        assert_true(isnan(g_back[2]));
        g_back[2] = g[2] = 0;
    }
    same(g_back, g, n, 1e-7, "clip");
    same(into_back, into, n, BOUND, "blend");
    cuda->free(dev, from_there);
    pg__mem_free(g_back);
    pg__mem_free(into_back);
    pg__mem_free(g);
    pg__mem_free(into);
    pg__mem_free(from);
}

static void what_is_not_kept_is_not_read(void **state)
{
    (void)state;
    check_shares_of_nothing(cuda);
}

static void limits_and_averages_are_those_of_the_plain_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SMALL; i++) {
        check_limits(sizes[i], 0.7, 0);
        check_limits(sizes[i], 2, 0.5);
    }
}

/* ---- all variables at once ---- */

#define N_ALL 5
static const size_t all_sizes[N_ALL] = {1, 300, 4096, 70000, 9000000};

static void check_clip_all(const pg__norm_limits *l, double limit)
{
    float *g[N_ALL];
    pg__piece pieces[N_ALL] = {{0}};
    double squares[N_ALL] = {0}, scales[N_ALL];
    for (size_t k = 0; k < N_ALL; k++) {
        g[k] = numbers(all_sizes[k], (unsigned)k + 1, 0);
        for (size_t i = 0; k != 1 && i < all_sizes[k]; i++)
            squares[k] += (double)g[k][i] * (double)g[k][i];
        pieces[k] = (pg__piece){.p = there(g[k], all_sizes[k]), .n = all_sizes[k]};
    }
    void *left_out = pieces[1].p;
    pieces[1].p = NULL; /* it has no say, and stays as it is */
    pg__clip_scales(l, squares, scales, N_ALL);
    scales[1] = 1;
    assert_ok(cuda->flat.clip_all(dev, pieces, N_ALL, l, limit));
    for (size_t k = 0; k < N_ALL; k++) {
        float *got = back(k == 1 ? left_out : pieces[k].p, all_sizes[k]);
        for (size_t i = 0; i < all_sizes[k]; i++) {
            const float v = g[k][i] * (float)scales[k], most = (float)limit;
            g[k][i] = limit > 0 && k != 1 ? fminf(fmaxf(v, -most), most) : v;
        }
        same(got, g[k], all_sizes[k], 1e-6, "clip_all");
        pg__mem_free(got);
        pg__mem_free(g[k]);
    }
}

static void all_gradients_are_clipped_by_their_norms(void **state)
{
    (void)state;
    check_clip_all(&(pg__norm_limits){.each = 3}, 0);
    check_clip_all(&(pg__norm_limits){.together = 2}, 0);
    check_clip_all(&(pg__norm_limits){.each = 3, .together = 2}, 0);
    check_clip_all(&(pg__norm_limits){.each = 3, .together = 2, .both = 1}, 0.01);
    check_clip_all(&(pg__norm_limits){.each = 0}, 0.25);
}

static void penalties_of_all_are_one_sum(void **state)
{
    pg__piece pieces[N_ALL];
    double want = 0, *got = pg__mem_array(1, sizeof *got);
    void *sum = there((const float[]){7, 7}, 2);
    (void)state;
    for (size_t k = 0; k < N_ALL; k++) {
        float *w = numbers(all_sizes[k], (unsigned)k + 1, 0);
        pieces[k] = (pg__piece){there(w, all_sizes[k]), all_sizes[k], k == 2 ? 0 : 0.1,
                                k == 2 ? 0 : 0.5 / (double)(k + 1)};
        for (size_t i = 0; i < all_sizes[k]; i++)
            want += pieces[k].l1 * fabs((double)w[i]) + pieces[k].l2 * (double)w[i] * (double)w[i];
        pg__mem_free(w);
    }
    for (int again = 0; again < 2; again++) {
        assert_ok(cuda->flat.penalty_of_all(dev, pieces, N_ALL, sum));
        assert_ok(cuda->get(dev, got, sum, sizeof *got));
        if (!(fabs(*got - want) <= 1e-6 * want))
            fail_msg("%.12g, not %.12g", *got, want);
    }
    for (size_t k = 0; k < N_ALL; k++)
        cuda->free(dev, pieces[k].p);
    cuda->free(dev, sum);
    pg__mem_free(got);
}

PG_TEST_MAIN_WITH(open_dev, close_dev, cmocka_unit_test(updates_are_those_of_the_plain_answers),
                  cmocka_unit_test(centered_rmsprop_too),
                  cmocka_unit_test(all_gradients_are_clipped_by_their_norms),
                  cmocka_unit_test(penalties_of_all_are_one_sum),
                  cmocka_unit_test(sums_are_those_of_the_plain_answers),
                  cmocka_unit_test(sums_of_nothing_are_nothing),
                  cmocka_unit_test(a_sum_that_is_no_number_is_none),
                  cmocka_unit_test(what_is_not_kept_is_not_read),
                  cmocka_unit_test(limits_and_averages_are_those_of_the_plain_answers))
