/* convs.c - how fast the CPU's convolutions are: GFLOP/s of one thread for the shapes of the
 * benchmark models, each pass, as chosen and without transformed arithmetic. Time is that of the
 * thread, the best of many runs, so that other work on the machine hardly matters.
 *
 *   convs [TEXT]     only shapes whose name contains TEXT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "ops/attrs.h"

typedef struct shape {
    const char *name;
    uint64_t rows, size, in, out, kernel, stride, pad, groups;
} shape;

static const shape shapes[] = {
    {"lenet 1", 64, 28, 1, 32, 3, 1, 0, 1},       {"lenet 2", 64, 26, 32, 64, 3, 1, 0, 1},
    {"vgg 1", 32, 32, 3, 64, 3, 1, 1, 1},         {"vgg 2", 32, 32, 64, 64, 3, 1, 1, 1},
    {"vgg 3", 32, 16, 64, 128, 3, 1, 1, 1},       {"vgg 4", 32, 16, 128, 128, 3, 1, 1, 1},
    {"vgg 5", 32, 8, 128, 256, 3, 1, 1, 1},       {"vgg 6", 32, 8, 256, 256, 3, 1, 1, 1},
    {"unet 1", 4, 128, 3, 32, 3, 1, 1, 1},        {"unet 2", 4, 128, 32, 32, 3, 1, 1, 1},
    {"unet 3", 4, 64, 64, 64, 3, 1, 1, 1},        {"unet 4", 4, 32, 128, 128, 3, 1, 1, 1},
    {"unet 5", 4, 16, 256, 256, 3, 1, 1, 1},      {"unet 6", 4, 8, 512, 512, 3, 1, 1, 1},
    {"unet 7", 4, 128, 64, 32, 3, 1, 1, 1},       {"unet up", 4, 32, 64, 128, 2, 2, 0, 1},
    {"unet out", 4, 128, 32, 1, 1, 1, 0, 1},      {"resnet 1", 16, 32, 64, 64, 3, 1, 1, 1},
    {"resnet 2", 16, 32, 64, 128, 3, 2, 1, 1},    {"resnet 3", 16, 32, 64, 128, 1, 2, 0, 1},
    {"resnet 4", 16, 8, 256, 512, 3, 2, 1, 1},    {"resnet 5", 16, 4, 512, 512, 3, 1, 1, 1},
    {"vgg16 1", 4, 224, 3, 64, 3, 1, 1, 1},       {"vgg16 2", 4, 224, 64, 64, 3, 1, 1, 1},
    {"vgg16 3", 4, 14, 512, 512, 3, 1, 1, 1},     {"resnet50 1", 4, 56, 64, 256, 1, 1, 0, 1},
    {"resnet50 2", 4, 14, 256, 1024, 1, 1, 0, 1}, {"resnet50 3", 4, 224, 3, 64, 7, 2, 3, 1},
    {"groups", 8, 28, 128, 128, 3, 1, 1, 4},      {"dw", 8, 56, 128, 128, 3, 1, 1, 128},
    {"dw 1", 8, 48, 32, 32, 3, 1, 1, 32},         {"dw 2", 8, 49, 96, 96, 3, 2, 0, 96},
    {"dw 3", 8, 24, 144, 144, 3, 1, 1, 144},      {"dw 4", 8, 12, 192, 192, 3, 1, 1, 192},
    {"dw 5", 8, 13, 192, 192, 3, 2, 0, 192},      {"dw 6", 8, 6, 576, 576, 3, 1, 1, 576},
    {"dw 7", 8, 7, 576, 576, 3, 2, 0, 576},       {"dw 8", 8, 3, 960, 960, 3, 1, 1, 960},
    {"dw 9", 8, 27, 144, 144, 5, 2, 0, 144},      {"dw 10", 8, 12, 240, 240, 5, 1, 2, 240},
    {"dw 11", 8, 6, 672, 672, 5, 1, 2, 672},      {"dw 12", 8, 9, 672, 672, 5, 2, 0, 672},
    {"dw 13", 8, 3, 1152, 1152, 5, 1, 2, 1152},   {"dw 14", 8, 6, 728, 728, 3, 1, 1, 728},
    {"dw 15", 8, 28, 192, 192, 7, 1, 3, 192},
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static pg__val value(pg__tape *t, uint32_t rank, const uint64_t *d, pg__role role)
{
    pg__val v = PG_NO_VAL;
    const pg__dims dims = pg__dims_of(rank, d);
    (void)pg__tape_value(t, &dims, PG_ELEM_REAL, role, 0, 0, &v, NULL);
    return v;
}

static float *numbers(uint64_t n)
{
    float *p = pg__mem_aligned((size_t)n * sizeof *p);
    uint32_t state = 1;
    for (uint64_t i = 0; p && i < n; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
    return p;
}

/* Seconds of instruction `at`, the best of runs within a quarter of a second. */
static double time_of(const pg__tape *t, uint32_t at, int direct)
{
    const pg__backend *cpu = &pg__backend_cpu;
    const pg__dev_opts opts = {.n_threads = 1, .conv = direct};
    const pg__inst *i = &t->insts[at];
    pg__dev *dev;
    pg__kernel *k;
    pg__needs needs;
    void *args[8] = {NULL};
    double best = 1e9;
    if (cpu->open(&dev, 0, &opts, NULL) || cpu->prepare(&k, dev, t, i, &needs, NULL))
        return best;
    for (uint32_t a = 0; a < i->n_in + i->n_out; a++) {
        const pg__val v = a < i->n_in ? pg__in(t, i, a) : pg__out(t, i, a - i->n_in);
        args[a] = v == PG_NO_VAL ? NULL : numbers(pg__dims_elems(&t->values[v].shape));
    }
    void *scratch = pg__mem_aligned(needs.scratch_bytes);
    void *shared = pg__mem_aligned(needs.shared_bytes);
    if (needs.shared_bytes > 0)
        (void)cpu->share(dev, k, args, shared);
    for (double begin = now(); now() - begin < 0.25 || best == 1e9;) {
        const double from = now();
        (void)cpu->run(dev, k, args, scratch, shared);
        best = now() - from < best ? now() - from : best;
    }
    for (size_t a = 0; a < 8; a++)
        pg__mem_free(args[a]);
    pg__mem_free(scratch);
    pg__mem_free(shared);
    cpu->release(k);
    cpu->close(dev);
    return best;
}

static void measure(const shape *s)
{
    pg__tape t = {0};
    pg__val y, x_grad, w_grad[2];
    const uint64_t small = (s->size + 2 * s->pad - s->kernel) / s->stride + 1;
    const pg__conv_attrs a = {.rank = 2,
                              .groups = s->groups,
                              .kernel = {s->kernel, s->kernel},
                              .stride = {s->stride, s->stride},
                              .dilation = {1, 1},
                              .before = {s->pad, s->pad},
                              .after = {s->pad, s->pad},
                              .size = {s->size, s->size}};
    const uint64_t wd[] = {s->kernel, s->kernel, s->in / s->groups, s->out};
    const uint64_t xd[] = {s->rows, s->size, s->size, s->in},
                   yd[] = {s->rows, small, small, s->out};
    const pg__val x = value(&t, 4, xd, PG_INPUT), dy = value(&t, 4, yd, PG_INPUT);
    const pg__val w = value(&t, 4, wd, PG_PARAM), b = value(&t, 1, &s->out, PG_PARAM);
    const double flop = 2e-9 * (double)(s->rows * small * small * s->kernel * s->kernel * s->in *
                                        s->out / s->groups);
    if (pg__emit3(&t, PG_OP_conv, &a, x, w, b, &y, NULL) ||
        pg__emit2(&t, PG_OP_conv_dx, &a, dy, w, &x_grad, NULL) ||
        pg__emit2(&t, PG_OP_conv_dw, &a, x, dy, w_grad, NULL))
        return;
    printf("%-11s %3llu x %3llu^2 x %3llu -> %4llu %llux%llu/%llu ", s->name,
           (unsigned long long)s->rows, (unsigned long long)s->size, (unsigned long long)s->in,
           (unsigned long long)s->out, (unsigned long long)s->kernel, (unsigned long long)s->kernel,
           (unsigned long long)s->stride);
    for (uint32_t at = 0; at < 3; at++) {
        const double chosen = time_of(&t, at, 0), direct = time_of(&t, at, 1);
        printf(" %8.2f %4.0f (%4.0f)", chosen * 1e3, flop / chosen, flop / direct);
    }
    printf("\n");
    (void)fflush(stdout);
    pg__tape_fini(&t);
}

int main(int argc, char **argv)
{
    printf("%-43s %21s %20s %20s\n", "GFLOP/s, one thread (direct)", "result: ms", "operand",
           "kernel");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (argc < 2 || strstr(shapes[i].name, argv[1]))
            measure(&shapes[i]);
    return 0;
}
