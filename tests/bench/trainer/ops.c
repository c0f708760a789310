/* Time of single operations on one core, for each build of the kernels, beside a copy of as much
 * memory:
 *
 *     ops [NAME ...]      only operations whose name begins so; microseconds, the least of some
 * runs
 *
 * Shapes are those of one lane of the benchmark's models. Times are the thread's own, so that a
 * busy machine disturbs them little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <math.h>

#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "base/mem.h"
#include "ops/attrs.h"

#define MAX_IN 14

typedef struct bench {
    const char *note;
    pg__op_kind kind;
    const void *attrs;
    pg__dims in[MAX_IN]; /* rank 0: absent */
    int ids;             /* 1 + index of the operand that holds ids below 30522, or the step */
} bench;

#define S(...)                                                \
    {                                                         \
        sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), \
        {                                                     \
            __VA_ARGS__                                       \
        }                                                     \
    }
#define ATTRS(type, ...)        \
    &(const pg__##type##_attrs) \
    {                           \
        __VA_ARGS__             \
    }
#define MAX2 \
    ATTRS(pool, .rank = 2, .max = 1, .window = {2, 2}, .stride = {2, 2, 1}, .size = {32, 32, 1})
#define MAX3                                                                                  \
    ATTRS(pool, .rank = 2, .max = 1, .window = {3, 3}, .stride = {2, 2, 1}, .before = {1, 1}, \
          .after = {1, 1}, .size = {32, 32, 1})
#define BN_ACT(...) ATTRS(bn, .epsilon = 1e-3, .has_act = 1, .act = {__VA_ARGS__})
#define CELL(after)                                                            \
    ATTRS(rnn, .act = {.kind = PG_ACT_TANH}, .gate = {.kind = PG_ACT_SIGMOID}, \
          .reset_after = (after))
#define ALL_MEAN ATTRS(pool, .rank = 2, .stride = {1, 1, 1}, .size = {8, 8, 1})

static const bench benches[] = {
    {"relu", PG_OP_act, ATTRS(act, PG_ACT_RELU, INFINITY, 0, 0), {S(32, 32, 32, 64)}, 0},
    {"relu",
     PG_OP_act_grad,
     ATTRS(act, PG_ACT_RELU, INFINITY, 0, 0),
     {S(32, 32, 32, 64), S(32, 32, 32, 64)},
     0},
    {"gelu", PG_OP_act, ATTRS(act, PG_ACT_GELU, 0, 0, 0), {S(8, 128, 1024)}, 0},
    {"gelu",
     PG_OP_act_grad,
     ATTRS(act, PG_ACT_GELU, 0, 0, 0),
     {S(8, 128, 1024), S(8, 128, 1024)},
     0},
    {"tanh", PG_OP_act, ATTRS(act, PG_ACT_TANH, 0, 0, 0), {S(8, 128, 1024)}, 0},
    {"sigmoid", PG_OP_act, ATTRS(act, PG_ACT_SIGMOID, 0, 0, 0), {S(8, 128, 1024)}, 0},
    {"swish", PG_OP_act, ATTRS(act, PG_ACT_SWISH, 0, 0, 0), {S(8, 128, 1024)}, 0},
    {"", PG_OP_add, NULL, {S(16, 32, 32, 64), S(16, 32, 32, 64)}, 0},
    {"add", PG_OP_binary, ATTRS(binary, PG_ADD), {S(8, 128, 256), S(1, 128, 256)}, 0},
    {"multiply", PG_OP_binary, ATTRS(binary, PG_MULTIPLY), {S(16, 32, 32, 64), S(16, 1, 1, 64)}, 0},
    {"", PG_OP_affine, ATTRS(affine, 0.5, 1), {S(16, 32, 32, 64)}, 0},
    {"", PG_OP_bn_stats, NULL, {S(32, 32, 32, 64)}, 0},
    {"deep", PG_OP_bn_stats, NULL, {S(32, 4, 4, 512)}, 0},
    {"",
     PG_OP_bn_apply,
     ATTRS(bn, .epsilon = 1e-3),
     {S(32, 32, 32, 64), S(64), S(64), S(64), S(64)},
     0},
    {"",
     PG_OP_bn_sums,
     ATTRS(bn, .epsilon = 1e-3),
     {S(32, 32, 32, 64), S(32, 32, 32, 64), S(64), S(64)},
     0},
    {"",
     PG_OP_bn_dx,
     ATTRS(bn, .epsilon = 1e-3),
     {S(32, 32, 32, 64), S(32, 32, 32, 64), S(64), S(64), S(64), S(64), S(64), S(1)},
     0},
    {"24x24x144", PG_OP_bn_stats, NULL, {S(8, 24, 24, 144)}, 0},
    {"3x3x960", PG_OP_bn_stats, NULL, {S(8, 3, 3, 960)}, 0},
    {"24x24x144",
     PG_OP_bn_sums,
     ATTRS(bn, .epsilon = 1e-3),
     {S(8, 24, 24, 144), S(8, 24, 24, 144), S(144), S(144)},
     0},
    {"12x12x96",
     PG_OP_bn_sums,
     ATTRS(bn, .epsilon = 1e-3),
     {S(8, 12, 12, 96), S(8, 12, 12, 96), S(96), S(96)},
     0},
    {"3x3x960",
     PG_OP_bn_sums,
     ATTRS(bn, .epsilon = 1e-3),
     {S(8, 3, 3, 960), S(8, 3, 3, 960), S(960), S(960)},
     0},
    {"relu6",
     PG_OP_bn_apply,
     BN_ACT(PG_ACT_RELU, 6, 0, 0),
     {S(8, 24, 24, 144), S(144), S(144), S(144), S(144)},
     0},
    {"relu6",
     PG_OP_bn_sums,
     BN_ACT(PG_ACT_RELU, 6, 0, 0),
     {S(8, 24, 24, 144), S(8, 24, 24, 144), S(144), S(144), S(144), S(144)},
     0},
    {"relu6",
     PG_OP_bn_dx,
     BN_ACT(PG_ACT_RELU, 6, 0, 0),
     {S(8, 24, 24, 144), S(8, 24, 24, 144), S(144), S(144), S(144), S(144), S(144), S(1)},
     0},
    {"swish",
     PG_OP_bn_apply,
     BN_ACT(PG_ACT_SWISH, 0, 0, 0),
     {S(8, 24, 24, 144), S(144), S(144), S(144), S(144)},
     0},
    {"swish",
     PG_OP_bn_sums,
     BN_ACT(PG_ACT_SWISH, 0, 0, 0),
     {S(8, 24, 24, 144), S(8, 24, 24, 144), S(144), S(144), S(144), S(144)},
     0},
    {"swish",
     PG_OP_bn_dx,
     BN_ACT(PG_ACT_SWISH, 0, 0, 0),
     {S(8, 24, 24, 144), S(8, 24, 24, 144), S(144), S(144), S(144), S(144), S(144), S(1)},
     0},
    {"24x24x144",
     PG_OP_bn_apply,
     ATTRS(bn, .epsilon = 1e-3),
     {S(8, 24, 24, 144), S(144), S(144), S(144), S(144)},
     0},
    {"24x24x144",
     PG_OP_bn_dx,
     ATTRS(bn, .epsilon = 1e-3),
     {S(8, 24, 24, 144), S(8, 24, 24, 144), S(144), S(144), S(144), S(144), S(144), S(1)},
     0},
    {"relu6 alone", PG_OP_act, ATTRS(act, PG_ACT_RELU, 6, 0, 0), {S(8, 24, 24, 144)}, 0},
    {"relu6 alone",
     PG_OP_act_grad,
     ATTRS(act, PG_ACT_RELU, 6, 0, 0),
     {S(8, 24, 24, 144), S(8, 24, 24, 144)},
     0},
    {"swish alone", PG_OP_act, ATTRS(act, PG_ACT_SWISH, 0, 0, 0), {S(8, 24, 24, 144)}, 0},
    {"swish alone",
     PG_OP_act_grad,
     ATTRS(act, PG_ACT_SWISH, 0, 0, 0),
     {S(8, 24, 24, 144), S(8, 24, 24, 144)},
     0},
    {"max 2x2", PG_OP_pool, MAX2, {S(32, 32, 32, 64)}, 0},
    {"max 2x2", PG_OP_pool_grad, MAX2, {S(32, 32, 32, 64), S(32, 16, 16, 64)}, 0},
    {"max 2x2, 20", PG_OP_pool_grad, MAX2, {S(32, 32, 32, 20), S(32, 16, 16, 20)}, 0},
    {"max 3x3", PG_OP_pool, MAX3, {S(32, 32, 32, 64)}, 0},
    {"max 3x3", PG_OP_pool_grad, MAX3, {S(32, 32, 32, 64), S(32, 16, 16, 64)}, 0},
    {"mean of all", PG_OP_pool, ALL_MEAN, {S(32, 8, 8, 512)}, 0},
    {"mean of all", PG_OP_pool_grad, ALL_MEAN, {{0}, S(32, 1, 1, 512)}, 0},
    {"channels", PG_OP_concat, ATTRS(concat, 3), {S(4, 128, 128, 32), S(4, 128, 128, 32)}, 0},
    {"cut", PG_OP_pad, ATTRS(pad, {0, 0, 0, -32}, {0, 0, 0, 0}, {0}), {S(4, 128, 128, 64)}, 0},
    {"a few channels", PG_OP_concat, ATTRS(concat, 3), {S(8, 12, 12, 256), S(8, 12, 12, 32)}, 0},
    {"a few cut off", PG_OP_pad, ATTRS(pad, {0}, {0, 0, 0, -32}, {0}), {S(8, 12, 12, 288)}, 0},
    {"a few cut out", PG_OP_pad, ATTRS(pad, {0, 0, 0, -256}, {0}, {0}), {S(8, 12, 12, 288)}, 0},
    {"around", PG_OP_pad, ATTRS(pad, {0, 1, 1, 0}, {0, 1, 1, 0}, {0}), {S(16, 32, 32, 64)}, 0},
    {"nearest", PG_OP_resize, ATTRS(resize, 2, 0, {2, 2}), {S(4, 64, 64, 64)}, 0},
    {"nearest", PG_OP_resize_grad, ATTRS(resize, 2, 0, {2, 2}), {S(4, 128, 128, 64)}, 0},
    {"bilinear", PG_OP_resize, ATTRS(resize, 2, 1, {2, 2}), {S(4, 64, 64, 64)}, 0},
    {"bilinear", PG_OP_resize_grad, ATTRS(resize, 2, 1, {2, 2}), {S(4, 128, 128, 64)}, 0},
    {"", PG_OP_softmax, NULL, {S(64, 128, 128)}, 0},
    {"", PG_OP_softmax_grad, NULL, {S(64, 128, 128), S(64, 128, 128)}, 0},
    {"", PG_OP_layer_norm, ATTRS(layer_norm, 1, 1e-6), {S(8, 128, 256), S(256), S(256)}, 0},
    {"",
     PG_OP_layer_norm_grad,
     ATTRS(layer_norm, 1, 1e-6),
     {S(8, 128, 256), S(8, 128, 256), S(256), S(8, 128), S(8, 128)},
     0},
    {"",
     PG_OP_dropout,
     ATTRS(dropout, 0.5, 7, 0, S(16, 32, 32, 64), 0),
     {S(16, 32, 32, 64), S(PG_STEP_N)},
     2},
    {"1000 classes",
     PG_OP_loss,
     ATTRS(loss, .kind = PG_LOSS_sparse_categorical_crossentropy, .logits = 1),
     {S(64, 1000), S(64), {0}, S(1)},
     2},
    {"1000 classes",
     PG_OP_loss_grad,
     ATTRS(loss, .kind = PG_LOSS_sparse_categorical_crossentropy, .logits = 1),
     {S(64, 1000), S(64), {0}, S(1)},
     2},
    {"pixels",
     PG_OP_loss,
     ATTRS(loss, .kind = PG_LOSS_binary_crossentropy, .logits = 1),
     {S(4, 128, 128, 1), S(4, 128, 128, 1), {0}, S(1)},
     0},
    {"pixels",
     PG_OP_loss_grad,
     ATTRS(loss, .kind = PG_LOSS_binary_crossentropy, .logits = 1),
     {S(4, 128, 128, 1), S(4, 128, 128, 1), {0}, S(1)},
     0},
    {"", PG_OP_embedding, NULL, {S(8, 128), S(30522, 256)}, 1},
    {"", PG_OP_embedding_dw, NULL, {S(8, 128), S(8, 128, 256), S(30522, 256)}, 1},
    {"rows", PG_OP_sum_to, ATTRS(spread, S(1, 128, 256)), {S(8, 128, 256)}, 0},
    {"all but channels", PG_OP_sum_to, ATTRS(spread, S(64)), {S(16, 32, 32, 64)}, 0},
    {"", PG_OP_spread, ATTRS(spread, S(16, 32, 32, 64)), {S(16, 1, 1, 64)}, 0},
    {"heads", PG_OP_transpose, ATTRS(transpose, {0, 2, 1, 3}), {S(8, 128, 4, 64)}, 0},
    {"last two", PG_OP_transpose, ATTRS(transpose, {0, 2, 1}), {S(8, 128, 256)}, 0},
    {"16x140x64", PG_OP_lstm, CELL(0), {S(16, 140, 256), S(64, 256), {0}}, 0},
    {"16x140x64",
     PG_OP_lstm_grad,
     CELL(0),
     {S(16, 140, 256),
      S(64, 256),
      {0},
      {0},
      {0},
      {0},
      {0},
      {0},
      S(16, 64),
      {0},
      {0},
      S(16, 140, 64),
      S(16, 140, 256),
      S(16, 140, 64)},
     0},
    {"32x40x256", PG_OP_lstm, CELL(0), {S(32, 40, 1024), S(256, 1024), {0}}, 0},
    {"32x40x256",
     PG_OP_lstm_grad,
     CELL(0),
     {S(32, 40, 1024),
      S(256, 1024),
      {0},
      {0},
      {0},
      {0},
      {0},
      S(32, 40, 256),
      {0},
      {0},
      {0},
      S(32, 40, 256),
      S(32, 40, 1024),
      S(32, 40, 256)},
     0},
    {"64x100x100", PG_OP_lstm, CELL(0), {S(64, 100, 400), S(100, 400), {0}}, 0},
    {"64x100x100",
     PG_OP_lstm_grad,
     CELL(0),
     {S(64, 100, 400),
      S(100, 400),
      {0},
      {0},
      {0},
      {0},
      {0},
      S(64, 100, 100),
      {0},
      {0},
      {0},
      S(64, 100, 100),
      S(64, 100, 400),
      S(64, 100, 100)},
     0},
    {"16x140x64", PG_OP_gru, CELL(1), {S(16, 140, 192), S(64, 192), S(192)}, 0},
    {"16x140x64",
     PG_OP_gru_grad,
     CELL(1),
     {S(16, 140, 192),
      S(64, 192),
      S(192),
      {0},
      {0},
      {0},
      {0},
      {0},
      S(16, 64),
      {0},
      S(16, 140, 64),
      S(16, 140, 192),
      S(16, 140, 64)},
     0},
    {"32x40x256", PG_OP_gru, CELL(1), {S(32, 40, 768), S(256, 768), S(768)}, 0},
    {"32x40x256",
     PG_OP_gru_grad,
     CELL(1),
     {S(32, 40, 768),
      S(256, 768),
      S(768),
      {0},
      {0},
      {0},
      {0},
      S(32, 40, 256),
      {0},
      {0},
      S(32, 40, 256),
      S(32, 40, 768),
      S(32, 40, 256)},
     0},
    {"before", PG_OP_gru, CELL(0), {S(16, 140, 192), S(64, 192), S(192)}, 0},
    {"before",
     PG_OP_gru_grad,
     CELL(0),
     {S(16, 140, 192),
      S(64, 192),
      S(192),
      {0},
      {0},
      {0},
      {0},
      {0},
      S(16, 64),
      {0},
      S(16, 140, 64),
      S(16, 140, 192),
      S(16, 140, 64)},
     0},
    {"16x140x64", PG_OP_rnn, CELL(0), {S(16, 140, 64), S(64, 64), {0}}, 0},
    {"16x140x64",
     PG_OP_rnn_grad,
     CELL(0),
     {S(16, 140, 64), S(64, 64), {0}, {0}, {0}, {0}, {0}, {0}, S(16, 64), {0}, S(16, 140, 64)},
     0},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void must(pg_status st, const char *name)
{
    if (st != PG_OK) {
        fprintf(stderr, "%s: cannot be run\n", name);
        exit(1);
    }
}

static void *memory_of(const bench *b, size_t k, const pg__value *v)
{
    const uint64_t n = pg__dims_elems(&v->shape);
    void *p = pg__mem_aligned((size_t)n * sizeof(float));
    uint64_t state = 88172645463325252u + k;
    if (!p)
        exit(1);
    for (uint64_t i = 0; i < n; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (b->ids == (int)k + 1)
            ((int32_t *)p)[i] = (int32_t)(state % 1000);
        else
            ((float *)p)[i] =
                0.01f + (float)(state >> 40) * 0x1p-24f - (v->shape.rank > 1 ? 0.5f : 0);
    }
    return p;
}

/* What comes through a cheap activation, or none, is found anew by who needs it (ops/op_bn.c). */
static int is_unwanted(const pg__inst *i)
{
    const pg__bn_attrs *a = i->attrs;
    return i->op == pg__op_of(PG_OP_bn_sums) && (!a->has_act || a->act.kind == PG_ACT_RELU);
}

/* Bytes that are read and written once. */
static double bytes_of(const pg__tape *t, const pg__inst *i)
{
    double n = 0;
    for (uint32_t k = 0; k < i->n_in; k++)
        n += pg__in(t, i, k) != PG_NO_VAL
                 ? (double)pg__dims_elems(&t->values[pg__in(t, i, k)].shape)
                 : 0;
    for (uint32_t k = is_unwanted(i) ? 1 : 0; k < i->n_out; k++)
        n += (double)pg__dims_elems(&t->values[pg__out(t, i, k)].shape);
    return n * sizeof(float);
}

static double least_time(const pg__tape *t, const char *isa, void *const *mem)
{
    const pg__backend *cpu = &pg__backend_cpu;
    const pg__inst *i = &t->insts[0];
    void *args[2 * MAX_IN] = {NULL};
    pg__dev *dev;
    pg__kernel *kernel;
    pg__needs needs;
    double least = INFINITY;
    must(cpu->open(&dev, 0, &(pg__dev_opts){.n_threads = 1, .isa = isa}, NULL), i->op->name);
    must(cpu->prepare(&kernel, dev, t, i, &needs, NULL), i->op->name);
    for (uint32_t k = 0; k < i->n_in + i->n_out; k++) {
        const pg__val v = k < i->n_in ? pg__in(t, i, k) : pg__out(t, i, k - i->n_in);
        args[k] = v != PG_NO_VAL ? mem[v] : NULL;
    }
    if (is_unwanted(i))
        args[i->n_in] = NULL;
    void *scratch = pg__mem_aligned(needs.scratch_bytes + 64);
    const double until = now() + 60000;
    for (int run = 0; run < 3 || now() < until; run++) {
        const double start = now();
        (void)cpu->run(dev, kernel, args, scratch, NULL);
        least = fmin(least, now() - start);
    }
    pg__mem_free(scratch);
    cpu->release(kernel);
    cpu->close(dev);
    return least;
}

static double copy_time(double bytes)
{
    const size_t n = (size_t)bytes / 2;
    char *a = pg__mem_aligned(n), *b = pg__mem_aligned(n);
    double least = INFINITY;
    if (!a || !b)
        exit(1);
    memset(a, 1, n);
    for (int run = 0; run < 20; run++) {
        const double start = now();
        memcpy(b, a, n);
        least = fmin(least, now() - start);
        a[run] = b[run];
    }
    pg__mem_free(a);
    pg__mem_free(b);
    return least;
}

/* Operands that are there in name come last in some. */
static size_t operands_of(const bench *b, size_t given)
{
    switch (b->kind) {
    case PG_OP_bn_dx: return 10;
    case PG_OP_gru:
    case PG_OP_lstm:
    case PG_OP_rnn: return 7;
    default: return given;
    }
}

static void measure(const bench *b)
{
    pg__tape t = {0};
    pg__val in[MAX_IN], out[MAX_IN];
    size_t n_in = 0;
    for (size_t k = 0; k < MAX_IN; k++) {
        in[k] = PG_NO_VAL;
        if (b->in[k].rank == 0)
            continue;
        n_in = k + 1;
        const pg__dims scalar = {.rank = 0};
        const pg__dims *shape = b->in[k].rank == 1 && b->in[k].d[0] == 1 ? &scalar : &b->in[k];
        must(pg__tape_value(&t, shape, b->ids == (int)k + 1 ? PG_ELEM_INT : PG_ELEM_REAL, PG_INPUT,
                            0, 0, &in[k], NULL),
             b->note);
    }
    n_in = operands_of(b, n_in);
    must(pg__emit(&t, b->kind, b->attrs, in, n_in, out, NULL), pg__op_of(b->kind)->name);
    void **mem = pg__mem_array(t.n_values, sizeof *mem);
    for (pg__val v = 0; mem && v < t.n_values; v++) {
        size_t k = MAX_IN;
        for (size_t i = 0; i < n_in; i++)
            k = in[i] == v ? i : k;
        mem[v] = memory_of(b, k, &t.values[v]);
    }
    const double bytes = bytes_of(&t, &t.insts[0]);
    printf("%-16s %-18s %8.2f", t.insts[0].op->name, b->note, bytes / 1e6);
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa))
            printf(" %9.1f", least_time(&t, pg__isa_name((pg__isa)isa), mem));
    printf(" %9.1f\n", copy_time(bytes));
    for (pg__val v = 0; mem && v < t.n_values; v++)
        pg__mem_free(mem[v]);
    pg__mem_free(mem);
    pg__tape_fini(&t);
}

int main(int argc, char **argv)
{
    printf("%-16s %-18s %8s", "operation", "", "MB");
    for (int isa = 0; isa < PG_N_ISAS; isa++)
        if (pg__isa_present((pg__isa)isa))
            printf(" %9s", pg__isa_name((pg__isa)isa));
    printf(" %9s\n", "copy");
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        int wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted |= strncmp(pg__op_of(benches[i].kind)->name, argv[a], strlen(argv[a])) == 0;
        if (wanted)
            measure(&benches[i]);
    }
    return 0;
}
