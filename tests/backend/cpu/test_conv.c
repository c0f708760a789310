/* Convolutions of the CPU against the plain answer in double: every way to compute them, on shapes
 * that are awkward on purpose. */
#include "pg_test.h"

#include <math.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/cpu/conv.h"
#include "backend/cpu/depthwise_kernels.h"
#include "backend/cpu/isa.h"
#include "base/mem.h"
#include "ops/attrs.h"

typedef struct shape {
    uint32_t rank;
    uint64_t rows, in, out, groups;
    uint64_t size[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} shape;

#define ONES    \
    {           \
        1, 1, 1 \
    }
#define PLAIN     .stride = ONES, .dilation = ONES
#define EVERY_2ND .stride = {2, 2}, .dilation = ONES
#define AROUND    .before = {1, 1}, .after = {1, 1}

static const shape shapes[] = {
    /* 3x3, step 1: image sizes, channels and rows that fill tiles, vectors and blocks, or do not */
    {2, 1, 1, 1, 1, {4, 4}, {3, 3}, PLAIN, AROUND},
    {2, 2, 3, 17, 1, {7, 5}, {3, 3}, PLAIN, AROUND},
    {2, 1, 16, 16, 1, {4, 4}, {3, 3}, PLAIN, AROUND},
    {2, 1, 17, 33, 1, {9, 6}, {3, 3}, PLAIN, AROUND},
    {2, 3, 32, 64, 1, {8, 8}, {3, 3}, PLAIN, AROUND},
    {2, 1, 64, 32, 1, {13, 30}, {3, 3}, PLAIN},
    {2, 2, 24, 40, 1, {11, 7}, {3, 3}, PLAIN, .before = {0, 1}, .after = {1, 0}},
    {2, 1, 20, 20, 1, {10, 9}, {3, 3}, PLAIN, .before = {2, 2}, .after = {2, 2}},
    {2, 1, 16, 31, 1, {5, 18}, {3, 3}, PLAIN, .before = {0, 2}, .after = {0, 1}},
    {2, 5, 19, 70, 1, {16, 16}, {3, 3}, PLAIN, AROUND},
    {2, 2, 96, 112, 1, {15, 17}, {3, 3}, PLAIN, AROUND},
    {2, 1, 160, 144, 1, {40, 4}, {3, 3}, PLAIN, AROUND},
    {2, 2, 150, 210, 1, {13, 9}, {3, 3}, PLAIN, AROUND}, /* a kernel too large to be packed whole */
    {2, 1, 64, 64, 1, {1, 1}, {3, 3}, PLAIN, AROUND},
    {2, 1, 290, 310, 1, {8, 13}, {3, 3}, PLAIN, AROUND}, /* larger than what is packed */
#define N_3X3 15
    /* what is one product: one cell, kernels side by side, gaps, cells left over */
    {2, 2, 17, 3, 1, {5, 4}, {1, 1}, PLAIN},
    {2, 1, 64, 32, 1, {7, 7}, {1, 1}, .stride = {2, 2}, .dilation = ONES},
    {2, 1, 16, 96, 1, {33, 32}, {1, 1}, PLAIN},
    {2, 1, 144, 24, 1, {34, 31}, {1, 1}, PLAIN},
    {2, 1, 50, 40, 1, {7, 9}, {1, 1}, .stride = {2, 3}, .dilation = ONES},
    {2, 2, 3, 17, 1, {6, 8}, {2, 2}, .stride = {2, 2}, .dilation = ONES},
    {2, 1, 5, 7, 1, {9, 7}, {2, 3}, .stride = {3, 3}, .dilation = ONES},
    {3, 1, 4, 3, 1, {4, 2, 6}, {2, 1, 3}, .stride = {2, 1, 3}, .dilation = ONES},
    /* few channels: vectors and cells that are full or not, more taps than registers */
    {2, 3, 1, 32, 1, {9, 8}, {3, 3}, PLAIN},
    {2, 2, 1, 50, 1, {12, 7}, {5, 5}, PLAIN, .before = {2, 1}, .after = {2, 3}},
    {2, 2, 3, 64, 1, {6, 14}, {3, 3}, PLAIN, AROUND},
    {2, 1, 4, 40, 1, {7, 9}, {2, 3}, EVERY_2ND, AROUND},
    {2, 2, 2, 16, 1, {11, 9}, {3, 2}, .stride = {2, 1}, .dilation = {2, 3}, .before = {0, 2}},
    {1, 2, 2, 35, 1, {20}, {7}, .stride = ONES, .dilation = ONES, .after = {3}},
    /* steps, dilation, sizes, "same" that is not even */
    {2, 2, 3, 32, 1, {9, 9}, {3, 3}, .stride = {2, 2}, .dilation = ONES, AROUND},
    {2, 2, 64, 17, 1, {8, 8}, {3, 3}, .stride = {2, 2}, .dilation = ONES, .after = {1, 1}},
    {2, 1, 16, 16, 1, {12, 11}, {3, 3}, .stride = ONES, .dilation = {2, 3}},
    {2, 1, 1, 6, 1, {12, 12}, {5, 5}, PLAIN},
    {2, 1, 32, 16, 1, {6, 6}, {2, 2}, PLAIN, .after = {1, 1}},
    {2,
     1,
     3,
     8,
     1,
     {15, 14},
     {7, 7},
     .stride = {2, 2},
     .dilation = ONES,
     .before = {2, 3},
     .after = {3, 2}},
    {2,
     1,
     16,
     8,
     1,
     {7, 6},
     {3, 3},
     .stride = {3, 2},
     .dilation = ONES,
     .before = {1, 0},
     .after = {1, 1}},
    /* groups, depthwise, several filters for each channel */
    {2, 2, 12, 18, 3, {6, 5}, {3, 3}, PLAIN, AROUND},
    {2, 1, 32, 32, 2, {6, 6}, {3, 3}, .stride = {2, 2}, .dilation = ONES, AROUND},
    {2, 2, 35, 35, 35, {7, 6}, {3, 3}, PLAIN, AROUND},
    {2, 1, 17, 17, 17, {8, 9}, {3, 3}, .stride = {2, 2}, .dilation = ONES, .after = {1, 1}},
    {2,
     1,
     16,
     16,
     16,
     {9, 9},
     {3, 3},
     .stride = ONES,
     .dilation = {2, 2},
     .before = {2, 2},
     .after = {2, 2}},
    {2, 1, 1, 1, 1, {9, 9}, {3, 3}, PLAIN, AROUND},
    {2, 2, 3, 3, 3, {5, 4}, {3, 3}, PLAIN, AROUND},
    /* depthwise, line by line: lines shorter than a tile and longer than a block, all of a line
     * near its ends, padding on one side, steps along one axis only */
    {2, 2, 17, 17, 17, {1, 1}, {3, 3}, PLAIN, AROUND},
    {2, 3, 19, 19, 19, {2, 2}, {5, 5}, PLAIN, .before = {2, 2}, .after = {2, 2}},
    {2, 2, 33, 33, 33, {7, 19}, {3, 3}, PLAIN, .before = {2, 0}, .after = {0, 2}},
    {2, 1, 16, 16, 16, {4, 9}, {3, 3}, PLAIN, .before = {0, 4}, .after = {0, 5}},
    {2, 1, 18, 18, 18, {13, 20}, {5, 5}, EVERY_2ND, .before = {1, 1}, .after = {2, 2}},
    {2, 2, 20, 20, 20, {9, 31}, {7, 7}, PLAIN, .before = {3, 3}, .after = {3, 3}},
    {2, 1, 35, 35, 35, {17, 22}, {7, 7}, EVERY_2ND, .before = {2, 2}, .after = {3, 3}},
    {2, 2, 16, 16, 16, {12, 18}, {3, 3}, EVERY_2ND, AROUND},
    {2, 1, 17, 17, 17, {8, 35}, {3, 3}, EVERY_2ND, .before = {0, 2}, .after = {1, 3}},
    {2, 1, 31, 31, 31, {2, 2}, {3, 3}, EVERY_2ND, .after = {1, 1}},
    {2, 1, 16, 16, 16, {5, 6}, {3, 5}, .stride = {2, 1}, .dilation = {2, 1}},
    {2, 1, 24, 24, 24, {6, 13}, {2, 3}, .stride = {1, 2}, .dilation = ONES, .before = {1, 1}},
    {2, 1, 16, 16, 16, {4, 150}, {3, 3}, PLAIN, AROUND},
    {2, 40, 16, 16, 16, {3, 40}, {3, 3}, EVERY_2ND, AROUND},
    {2, 64, 16, 16, 16, {24, 24}, {3, 3}, PLAIN, AROUND},
    {1, 2, 21, 21, 21, {200}, {5}, EVERY_2ND, .before = {3}},
    {3, 2, 18, 18, 18, {4, 5, 9}, {3, 2, 3}, .stride = {1, 2, 2}, .dilation = ONES, AROUND},
    /* two lines at once: tiles of 7 and 8 cells, a line left over, lines that only one of them
     * meets, more channels than are near at once */
    {2, 2, 40, 40, 40, {14, 14}, {3, 3}, PLAIN, AROUND},
    {2, 1, 209, 209, 209, {7, 7}, {3, 3}, PLAIN, AROUND},
    {2, 1, 17, 17, 17, {10, 24}, {3, 3}, PLAIN, .before = {2, 1}},
    {2, 1, 16, 16, 16, {11, 21}, {5, 3}, .stride = {1, 1}, .dilation = {2, 1}, .before = {4, 2}},
    {2, 1, 16, 16, 16, {9, 16}, {3, 3}, .stride = {2, 1}, .dilation = {1, 1}, AROUND},
    {2, 1, 16, 16, 16, {5, 8}, {1, 3}, PLAIN, .before = {0, 1}, .after = {0, 1}},
    {3, 2, 18, 18, 18, {3, 6, 7}, {2, 3, 3}, PLAIN, .before = {1, 1, 1}, .after = {0, 1, 1}},
    {2, 1, 5, 15, 5, {6, 6}, {3, 3}, PLAIN, AROUND},
    /* one and three dimensions */
    {1, 2, 17, 32, 1, {11}, {3}, PLAIN, .before = {2}},
    {1, 1, 1, 5, 1, {10}, {4}, .stride = {2, 1, 1}, .dilation = ONES},
    {1, 2, 8, 8, 8, {9}, {3}, PLAIN, .before = {1}, .after = {1}},
    {3, 1, 3, 16, 1, {4, 5, 6}, {3, 3, 3}, PLAIN, .before = {1, 1, 1}, .after = {1, 1, 1}},
    {3, 1, 16, 17, 1, {5, 4, 4}, {2, 3, 3}, .stride = {2, 1, 2}, .dilation = ONES},
    {3, 1, 6, 6, 6, {4, 4, 4}, {3, 3, 3}, PLAIN, .before = {1, 1, 1}, .after = {1, 1, 1}},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* The three passes of a shape; values in double, which are floats exactly. */
typedef struct passes {
    pg__tape tape;
    double **exact; /* per value: operands, then what the reference makes of them */
} passes;

static pg__val value(passes *p, uint32_t rank, const uint64_t *d, pg__role role)
{
    const pg__dims dims = pg__dims_of(rank, d);
    pg__val v;
    assert_ok(pg__tape_value(&p->tape, &dims, PG_ELEM_REAL, role, 0, 0, &v, NULL));
    return v;
}

static uint64_t elems(const passes *p, pg__val v)
{
    return pg__dims_elems(&p->tape.values[v].shape);
}

/* Uniform numbers, mean not 0, so that sums over cells are seen. */
static void fill(double *to, uint64_t n, uint32_t seed)
{
    for (uint64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (double)((float)(seed >> 8) / 16777216.0f - 0.4f);
    }
}

static void run_reference(passes *p, const pg__inst *i)
{
    pg__arg v[10] = {{0}};
    for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
        const pg__val at = k < i->n_in ? pg__in(&p->tape, i, k) : pg__out(&p->tape, i, k - i->n_in);
        if (at != PG_NO_VAL)
            v[k] = (pg__arg){&p->tape.values[at].shape, p->exact[at], elems(p, at)};
    }
    i->op->ref_f64(i->attrs, v, i->n_in, v + i->n_in, i->n_out);
}

static pg__conv_attrs attrs_of(const shape *s)
{
    pg__conv_attrs a = {.rank = s->rank, .groups = s->groups};
    for (uint32_t i = 0; i < s->rank; i++) {
        a.kernel[i] = s->kernel[i];
        a.stride[i] = s->stride[i];
        a.dilation[i] = s->dilation[i];
        a.before[i] = s->before[i];
        a.after[i] = s->after[i];
        a.size[i] = s->size[i];
    }
    return a;
}

static void build(passes *p, const shape *s, int has_bias, pg__role kernel_role)
{
    const pg__conv_attrs a = attrs_of(s);
    uint64_t xd[5] = {s->rows}, yd[5] = {s->rows}, wd[5];
    pg__val out[2];
    for (uint32_t i = 0; i < s->rank; i++) {
        wd[i] = s->kernel[i];
        xd[i + 1] = s->size[i];
        yd[i + 1] =
            (s->size[i] + s->before[i] + s->after[i] - (s->kernel[i] - 1) * s->dilation[i] - 1) /
                s->stride[i] +
            1;
    }
    xd[s->rank + 1] = s->in;
    yd[s->rank + 1] = wd[s->rank + 1] = s->out;
    wd[s->rank] = s->in / s->groups;
    *p = (passes){0};
    const pg__val x = value(p, s->rank + 2, xd, PG_INPUT), dy = value(p, s->rank + 2, yd, PG_INPUT);
    const pg__val w = value(p, s->rank + 2, wd, kernel_role), b = value(p, 1, &s->out, PG_PARAM);
    const pg__val in[] = {x, w, has_bias ? b : PG_NO_VAL};
    assert_ok(pg__emit(&p->tape, PG_OP_conv, &a, in, 3, out, NULL));
    assert_ok(pg__emit2(&p->tape, PG_OP_conv_dx, &a, dy, w, out, NULL));
    assert_ok(pg__emit2(&p->tape, PG_OP_conv_dw, &a, x, dy, out, NULL));
    p->exact = pg__mem_array(p->tape.n_values, sizeof *p->exact);
    for (pg__val v = 0; v < p->tape.n_values; v++) {
        p->exact[v] = pg__mem_array((size_t)elems(p, v), sizeof(double));
        fill(p->exact[v], elems(p, v), v);
    }
    for (uint32_t at = 0; at < 3; at++)
        run_reference(p, &p->tape.insts[at]);
}

static void drop(passes *p)
{
    for (pg__val v = 0; v < p->tape.n_values; v++)
        pg__mem_free(p->exact[v]);
    pg__mem_free(p->exact);
    pg__tape_fini(&p->tape);
}

/* Memory that ends with something nobody may write to, full of what nobody may use. */
static void *guarded(size_t n_bytes)
{
    unsigned char *p = pg__mem_aligned(n_bytes + 64);
    memset(p, 0xFF, n_bytes + 64); /* NaN, as floats */
    return p;
}

static void check_guard(const void *p, size_t n_bytes)
{
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(((const unsigned char *)p)[n_bytes + i], 0xFF);
}

/* One instruction on the CPU; results that are not wanted stay NULL. Gives the bound. */
static double run_on_cpu(const passes *p, uint32_t at, const pg__dev_opts *opts, float **mem,
                         const int *unwanted)
{
    const pg__backend *cpu = &pg__backend_cpu;
    const pg__inst *i = &p->tape.insts[at];
    pg__dev *dev;
    pg__kernel *kernel;
    pg__needs needs;
    void *args[10] = {NULL}, *params[8] = {NULL};
    assert_ok(cpu->open(&dev, 0, opts, NULL));
    assert_ok(cpu->prepare(&kernel, dev, &p->tape, i, &needs, NULL));
    for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
        const pg__val v = k < i->n_in ? pg__in(&p->tape, i, k) : pg__out(&p->tape, i, k - i->n_in);
        if (v == PG_NO_VAL || (k >= i->n_in && unwanted[k - i->n_in]))
            continue;
        args[k] = mem[v];
        if (p->tape.values[v].role == PG_PARAM)
            params[k] = mem[v];
    }
    void *scratch = guarded(needs.scratch_bytes), *shared = guarded(needs.shared_bytes);
    if (needs.shared_bytes > 0)
        assert_ok(cpu->share(dev, kernel, params, shared));
    assert_ok(cpu->run(dev, kernel, args, scratch, shared));
    check_guard(scratch, needs.scratch_bytes);
    check_guard(shared, needs.shared_bytes);
    pg__mem_free(scratch);
    pg__mem_free(shared);
    cpu->release(kernel);
    cpu->close(dev);
    return needs.tol_f32 > 0 ? needs.tol_f32 : i->op->tol_f32;
}

static float **float_memory(const passes *p)
{
    float **mem = pg__mem_array(p->tape.n_values, sizeof *mem);
    for (pg__val v = 0; v < p->tape.n_values; v++) {
        mem[v] = guarded((size_t)elems(p, v) * sizeof(float));
        const int is_given = v < 4 || p->tape.values[v].role == PG_INPUT;
        for (uint64_t i = 0; is_given && i < elems(p, v); i++)
            mem[v][i] = (float)p->exact[v][i];
    }
    return mem;
}

static void free_memory(const passes *p, float **mem)
{
    for (pg__val v = 0; v < p->tape.n_values; v++) {
        check_guard(mem[v], (size_t)elems(p, v) * sizeof(float));
        pg__mem_free(mem[v]);
    }
    pg__mem_free(mem);
}

static void compare(const passes *p, pg__val v, const float *got, double tol, const char *what)
{
    double top = 0, worst = 0;
    for (uint64_t e = 0; e < elems(p, v); e++) {
        const double off = fabs(p->exact[v][e] - (double)got[e]);
        top = fmax(top, fabs(p->exact[v][e]));
        worst = off <= worst ? worst : off; /* NaN too */
    }
    if (!(worst <= tol * top))
        fail_msg("%s: off by %.3g of %.3g", what, worst, top);
}

static const char *const names[] = {"", ", direct", ", Winograd"};
static const int all_wanted[2] = {0, 0};

static void check_shape(size_t s, const pg__dev_opts *opts, int has_bias, pg__role kernel_role)
{
    passes p;
    char what[100];
    build(&p, &shapes[s], has_bias, kernel_role);
    float **mem = float_memory(&p), **again = float_memory(&p);
    for (uint32_t at = 0; at < 3; at++) {
        const pg__inst *i = &p.tape.insts[at];
        const double tol = run_on_cpu(&p, at, opts, mem, all_wanted);
        (void)run_on_cpu(&p, at, opts, again, all_wanted);
        for (uint32_t k = 0; k < i->n_out; k++) {
            const pg__val v = pg__out(&p.tape, i, k);
            (void)snprintf(what, sizeof what, "shape %zu, %s on %s%s, result %u", s, i->op->name,
                           opts->isa, names[opts->conv], k);
            compare(&p, v, mem[v], tol, what);
            assert_memory_equal(mem[v], again[v], (size_t)elems(&p, v) * sizeof(float));
        }
    }
    free_memory(&p, mem);
    free_memory(&p, again);
    drop(&p);
}

static void check_all(int how)
{
    for (int isa = 0; isa < PG_N_ISAS; isa++) {
        const pg__dev_opts opts = {.n_threads = 1, .conv = how, .isa = pg__isa_name((pg__isa)isa)};
        for (size_t s = 0; s < N_SHAPES && pg__isa_present((pg__isa)isa); s++)
            check_shape(s, &opts, s % 2 == 0, s % 3 == 0 ? PG_INPUT : PG_PARAM);
    }
}

static void convolutions_agree_with_double(void **state)
{
    (void)state;
    check_all(0);
}

static void direct_convolutions_agree_with_double(void **state)
{
    (void)state;
    check_all(1);
}

static void winograd_agrees_with_double_even_where_it_does_not_pay(void **state)
{
    (void)state;
    check_all(2);
}

/* x, kernel, mean, variance, and what is added or another value; the convolution, normalised,
 * between 0 and half of what it would reach. */
enum { NORMED = 6, N_NORMED_IN = 8 };
static void build_normed(passes *p, const shape *s, int has_plus)
{
    pg__conv_norm_attrs a = {.conv = attrs_of(s), .epsilon = 1e-3};
    uint64_t xd[5] = {s->rows}, yd[5] = {s->rows}, wd[5];
    pg__val y, within;
    for (uint32_t i = 0; i < s->rank; i++) {
        const uint64_t reach = (s->kernel[i] - 1) * s->dilation[i] + 1;
        xd[i + 1] = s->size[i];
        yd[i + 1] = (s->size[i] + s->before[i] + s->after[i] - reach) / s->stride[i] + 1;
        wd[i] = s->kernel[i];
    }
    yd[s->rank + 1] = s->out;
    xd[s->rank + 1] = s->in;
    wd[s->rank] = s->in / s->groups;
    wd[s->rank + 1] = s->out;
    *p = (passes){0};
    const pg__val x = value(p, s->rank + 2, xd, PG_INPUT);
    const pg__val w = value(p, s->rank + 2, wd, PG_PARAM);
    const pg__val mean = value(p, 1, &s->out, PG_PARAM), variance = value(p, 1, &s->out, PG_PARAM);
    const pg__val plus = value(p, s->rank + 2, yd, PG_INPUT);
    const pg__val in[N_NORMED_IN] = {x,        w,         PG_NO_VAL, mean,
                                     variance, PG_NO_VAL, PG_NO_VAL, has_plus ? plus : PG_NO_VAL};
    assert_ok(pg__emit(&p->tape, PG_OP_conv_norm, &a, in, N_NORMED_IN, &y, NULL));
    p->exact = pg__mem_array((size_t)p->tape.n_values + 1, sizeof *p->exact);
    for (pg__val v = 0; v < p->tape.n_values; v++) {
        p->exact[v] = pg__mem_array((size_t)elems(p, v), sizeof(double));
        fill(p->exact[v], elems(p, v), v);
    }
    for (uint64_t i = 0; i < s->out; i++)
        p->exact[variance][i] += 0.5;
    run_reference(p, &p->tape.insts[0]);
    double top = 0;
    for (uint64_t i = 0; i < elems(p, y); i++)
        top = fmax(top, p->exact[y][i]);
    a.has_act = 1;
    a.act = (pg__act_attrs){PG_ACT_RELU, (double)(float)(top / 2), 0, 0};
    assert_ok(pg__emit(&p->tape, PG_OP_conv_norm, &a, in, N_NORMED_IN, &within, NULL));
    assert_int_equal(within, NORMED);
    p->exact[within] = pg__mem_array((size_t)elems(p, within), sizeof(double));
    run_reference(p, &p->tape.insts[1]);
}

static void check_normed(size_t s, int has_plus, const pg__dev_opts *opts)
{
    passes p;
    char what[100];
    build_normed(&p, &shapes[s], has_plus);
    float **mem = float_memory(&p);
    const double tol = run_on_cpu(&p, 1, opts, mem, all_wanted);
    (void)snprintf(what, sizeof what, "shape %zu, normed%s on %s%s", s,
                   has_plus ? " and added" : "", opts->isa, names[opts->conv]);
    compare(&p, NORMED, mem[NORMED], 2 * tol, what);
    p.exact[0][0] = NAN;
    mem[0][0] = NAN;
    run_reference(&p, &p.tape.insts[1]);
    (void)run_on_cpu(&p, 1, opts, mem, all_wanted);
    for (uint64_t i = 0; i < elems(&p, NORMED); i++)
        assert_true(!isnan(p.exact[NORMED][i]) || isnan(mem[NORMED][i]));
    free_memory(&p, mem);
    drop(&p);
}

static void normed_and_activated_convolutions_agree_with_double(void **state)
{
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        for (int how = 0; how < 3; how += 2)
            for (size_t s = 0; s < 2 * N_SHAPES && pg__isa_present((pg__isa)isa); s++)
                check_normed(s / 2, s % 2,
                             &(pg__dev_opts){
                                 .n_threads = 1, .conv = how, .isa = pg__isa_name((pg__isa)isa)});
}

static void results_that_nobody_wants_are_not_made(void **state)
{
    const pg__dev_opts opts = {.n_threads = 1};
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (int k = 0; k < 2; k++) {
            const int unwanted[2] = {k == 0, k == 1};
            passes p;
            build(&p, &shapes[s], 1, PG_PARAM);
            float **mem = float_memory(&p);
            const double tol = run_on_cpu(&p, 2, &opts, mem, unwanted);
            const pg__val v = pg__out(&p.tape, &p.tape.insts[2], (uint32_t)!k);
            compare(&p, v, mem[v], tol, k ? "kernel without bias" : "bias without kernel");
            free_memory(&p, mem);
            drop(&p);
        }
}

static void direct_is_within_the_bound_of_the_operation(void **state)
{
    const shape s = {2, 2, 32, 32, 1, {16, 16}, {3, 3}, PLAIN, AROUND};
    passes p;
    (void)state;
    build(&p, &s, 1, PG_PARAM);
    for (int direct = 0; direct < 2; direct++) {
        const pg__dev_opts opts = {.n_threads = 1, .conv = direct};
        float **mem = float_memory(&p);
        const double tol = run_on_cpu(&p, 0, &opts, mem, all_wanted);
        assert_true(direct ? tol == p.tape.insts[0].op->tol_f32
                           : tol > p.tape.insts[0].op->tol_f32);
        free_memory(&p, mem);
    }
    drop(&p);
}

extern const pg__conv_way pg__conv_depthwise_lines;
extern const pg__conv_kernels pg__conv_kernels_f32;

static int goes_by_lines(const shape *s, pg__conv_pass pass)
{
    pg__conv c = {.pass = pass,
                  .kernels = &pg__conv_kernels_f32,
                  .rows = s->rows,
                  .in = s->in,
                  .out = s->out,
                  .groups = s->groups,
                  .x = ONES,
                  .y = ONES,
                  .k = ONES,
                  .stride = ONES,
                  .dilation = ONES};
    pg__needs needs = {0};
    void *way = NULL;
    for (uint32_t i = 0; i < s->rank; i++) {
        const uint32_t d = i + 3 - s->rank;
        c.x[d] = s->size[i];
        c.k[d] = s->kernel[i];
        c.stride[d] = s->stride[i];
        c.dilation[d] = s->dilation[i];
        c.before[d] = s->before[i];
        c.after[d] = s->after[i];
        c.y[d] =
            (c.x[d] + c.before[d] + c.after[d] - (c.k[d] - 1) * c.dilation[d] - 1) / c.stride[d] +
            1;
    }
    assert_ok(pg__conv_depthwise_lines.prepare(&way, &c, &needs, NULL));
    pg__conv_depthwise_lines.release(way);
    assert_true(!way || needs.scratch_bytes > 0);
    return way != NULL;
}

/* Which are more than half of them, or the tests above do not show much. */
static void depthwise_goes_by_lines_where_it_can(void **state)
{
    size_t n_depthwise = 0, n_lines = 0;
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        const shape *s = &shapes[i];
        const size_t last = s->rank - 1;
        const int depthwise = s->groups == s->in && s->in == s->out;
        const int odd = s->kernel[last] % 2 == 1 && s->kernel[last] > 1 && s->kernel[last] < 8;
        const int can = depthwise && odd && s->stride[last] < 3 && s->dilation[last] == 1 &&
                        s->in >= pg__conv_kernels_f32.lines->vec;
        for (int pass = 0; pass < 3; pass++)
            assert_int_equal(goes_by_lines(s, (pg__conv_pass)pass), can);
        n_depthwise += (size_t)depthwise;
        n_lines += (size_t)can;
    }
    assert_true(n_lines > 16 && n_lines < n_depthwise);
}

/* A row's results are the same bits whatever rows are beside it. */
static void rows_do_not_depend_on_others(void **state)
{
    const shape many = {2, 7, 37, 37, 37, {6, 21}, {5, 5}, EVERY_2ND, AROUND};
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++) {
        const pg__dev_opts opts = {.n_threads = 1, .isa = pg__isa_name((pg__isa)isa)};
        passes all, one;
        shape single = many;
        if (!pg__isa_present((pg__isa)isa))
            continue;
        single.rows = 1;
        build(&all, &many, 1, PG_PARAM);
        build(&one, &single, 1, PG_PARAM);
        float **mem = float_memory(&all), **row = float_memory(&one);
        for (uint32_t at = 0; at < 2; at++) {
            const pg__val v = pg__out(&all.tape, &all.tape.insts[at], 0);
            const size_t n = (size_t)elems(&one, v);
            (void)run_on_cpu(&all, at, &opts, mem, all_wanted);
            for (size_t r = 0; r < many.rows; r++) {
                const pg__val from = pg__in(&all.tape, &all.tape.insts[at], 0);
                memcpy(row[from], mem[from] + r * elems(&one, from),
                       (size_t)elems(&one, from) * sizeof(float));
                for (pg__val w = 2; w < 4; w++)
                    memcpy(row[w], mem[w], (size_t)elems(&one, w) * sizeof(float));
                (void)run_on_cpu(&one, at, &opts, row, all_wanted);
                assert_memory_equal(row[v], mem[v] + r * n, n * sizeof(float));
            }
        }
        free_memory(&all, mem);
        free_memory(&one, row);
        drop(&all);
        drop(&one);
    }
}

/* The instruction for n lanes of `one` at once, in the memory of `all`; 0: there is no such way. */
static int run_lanes(const passes *one, const passes *all, uint32_t at, size_t n,
                     const pg__dev_opts *opts, float **mem)
{
    const pg__backend *cpu = &pg__backend_cpu;
    const pg__inst *i = &one->tape.insts[at];
    pg__dev *dev;
    pg__kernel *kernel, *lanes = NULL;
    pg__needs needs;
    size_t n_scratch = 0;
    void *args[8] = {NULL};
    assert_ok(cpu->open(&dev, 0, opts, NULL));
    assert_ok(cpu->prepare(&kernel, dev, &one->tape, i, &needs, NULL));
    assert_ok(cpu->prepare_lanes(&lanes, dev, kernel, n, &n_scratch, NULL));
    for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
        const pg__inst *of = &all->tape.insts[at];
        const pg__val v =
            k < i->n_in ? pg__in(&all->tape, of, k) : pg__out(&all->tape, of, k - i->n_in);
        args[k] = v == PG_NO_VAL ? NULL : mem[v];
    }
    void *scratch = guarded(n_scratch), *shared = guarded(needs.shared_bytes);
    if (lanes) {
        if (needs.shared_bytes > 0)
            assert_ok(cpu->share(dev, kernel, args, shared));
        assert_ok(cpu->run(dev, lanes, args, scratch, shared));
        cpu->release(lanes);
    }
    check_guard(scratch, n_scratch);
    pg__mem_free(scratch);
    pg__mem_free(shared);
    cpu->release(kernel);
    cpu->close(dev);
    return lanes != NULL;
}

/* Sums into the first of n arrays of `each`, in the order of the tree. */
static void sum_tree(float *v, size_t each, size_t n)
{
    for (size_t size = 1; size < n; size *= 2)
        for (size_t lo = 0; lo < n; lo += 2 * size)
            for (size_t e = 0; e < each; e++)
                v[lo * each + e] += v[(lo + size) * each + e];
}

/* The number of passes that go with lanes at once. */
static size_t check_lanes(const shape *s, size_t n, const pg__dev_opts *opts)
{
    size_t n_joined = 0;
    shape many = *s;
    passes one, all;
    many.rows *= n;
    build(&one, s, 1, PG_PARAM);
    build(&all, &many, 1, PG_PARAM);
    float **mem = float_memory(&all), **row = float_memory(&one);
    for (pg__val w = 2; w < 4; w++)
        memcpy(row[w], mem[w], (size_t)elems(&one, w) * sizeof(float));
    for (uint32_t at = 0; at < 3; at++) {
        const pg__inst *i = &one.tape.insts[at];
        float *each[2];
        if (!run_lanes(&one, &all, at, n, opts, mem))
            continue;
        n_joined++;
        for (uint32_t o = 0; o < i->n_out; o++)
            each[o] =
                pg__mem_array(n * (size_t)elems(&one, pg__out(&one.tape, i, o)), sizeof(float));
        for (size_t k = 0; k < n; k++) {
            for (pg__val v = 0; v < 2; v++)
                memcpy(row[v], mem[v] + k * elems(&one, v), (size_t)elems(&one, v) * sizeof(float));
            (void)run_on_cpu(&one, at, opts, row, all_wanted);
            for (uint32_t o = 0; o < i->n_out; o++) {
                const pg__val v = pg__out(&one.tape, i, o);
                const size_t count = (size_t)elems(&one, v);
                memcpy(each[o] + k * count, row[v], count * sizeof(float));
            }
        }
        for (uint32_t o = 0; o < i->n_out; o++) {
            const pg__val v = pg__out(&one.tape, i, o);
            const size_t count = (size_t)elems(&one, v);
            if (at == 2)
                sum_tree(each[o], count, n);
            assert_memory_equal(each[o], mem[v], (at == 2 ? 1 : n) * count * sizeof(float));
            pg__mem_free(each[o]);
        }
    }
    free_memory(&all, mem);
    free_memory(&one, row);
    drop(&all);
    drop(&one);
    return n_joined;
}

static void lanes_at_once_are_lanes_one_by_one(void **state)
{
    size_t n_joined = 0, n_tried = 0;
    (void)state;
    for (int isa = 0; isa < PG_N_ISAS; isa++) {
        const pg__dev_opts opts = {
            .n_threads = 1, .deterministic = 1, .isa = pg__isa_name((pg__isa)isa)};
        for (size_t s = 0; s < N_3X3 && pg__isa_present((pg__isa)isa); s++, n_tried += 3)
            n_joined += check_lanes(&shapes[s], (size_t)2 << s % 3, &opts);
    }
    assert_true(n_joined * 2 > n_tried);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_agree_with_double),
        cmocka_unit_test(direct_convolutions_agree_with_double),
        cmocka_unit_test(winograd_agrees_with_double_even_where_it_does_not_pay),
        cmocka_unit_test(normed_and_activated_convolutions_agree_with_double),
        cmocka_unit_test(results_that_nobody_wants_are_not_made),
        cmocka_unit_test(direct_is_within_the_bound_of_the_operation),
        cmocka_unit_test(depthwise_goes_by_lines_where_it_can),
        cmocka_unit_test(rows_do_not_depend_on_others),
        cmocka_unit_test(lanes_at_once_are_lanes_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
