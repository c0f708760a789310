/* Does cuDNN have a plan for every convolution that dnn_cudnn.c describes? It can say so without a
 * GPU, for one that is described in a file (sm90.json, from public figures). */
#include "pg_test.h"

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/dnn.h"

static struct pg__dnn_lib lib;
static char device_text[8192];

typedef struct shape {
    const char *name;
    uint64_t x[6], y[6]; /* rows, spatial, channels */
    pg__conv_attrs conv;
} shape;

#define TIMES1 .stride = {1, 1, 1}, .dilation = {1, 1, 1}

static const shape shapes[] = {
    {"3x3",
     {64, 32, 32, 64},
     {64, 32, 32, 64},
     {.rank = 2, .kernel = {3, 3}, .before = {1, 1}, .after = {1, 1}, .groups = 1, TIMES1}},
    {"7x7 by 2",
     {32, 230, 230, 3},
     {32, 112, 112, 64},
     {.rank = 2, .kernel = {7, 7}, .stride = {2, 2}, .dilation = {1, 1}, .groups = 1}},
    {"same by 2",
     {32, 56, 56, 64},
     {32, 28, 28, 128},
     {.rank = 2,
      .kernel = {3, 3},
      .after = {1, 1},
      .stride = {2, 2},
      .dilation = {1, 1},
      .groups = 1}},
    {"1x1 by 2",
     {32, 56, 56, 256},
     {32, 28, 28, 512},
     {.rank = 2, .kernel = {1, 1}, .stride = {2, 2}, .dilation = {1, 1}, .groups = 1}},
    {"4 groups",
     {16, 28, 28, 128},
     {16, 28, 28, 128},
     {.rank = 2, .kernel = {3, 3}, .before = {1, 1}, .after = {1, 1}, .groups = 4, TIMES1}},
    {"dilated",
     {16, 28, 28, 64},
     {16, 28, 28, 64},
     {.rank = 2,
      .kernel = {3, 3},
      .before = {2, 2},
      .after = {2, 2},
      .groups = 1,
      .stride = {1, 1},
      .dilation = {2, 2}}},
    {"line",
     {32, 128, 32},
     {32, 128, 64},
     {.rank = 1, .kernel = {5}, .before = {2}, .after = {2}, .groups = 1, TIMES1}},
    {"causal line",
     {32, 128, 32},
     {32, 128, 64},
     {.rank = 1, .kernel = {5}, .before = {4}, .groups = 1, TIMES1}},
    {"cube",
     {4, 16, 16, 16, 16},
     {4, 16, 16, 16, 32},
     {.rank = 3,
      .kernel = {3, 3, 3},
      .before = {1, 1, 1},
      .after = {1, 1, 1},
      .groups = 1,
      TIMES1}},
    {"3 channels, 17 filters",
     {2, 5, 4, 3},
     {2, 5, 4, 17},
     {.rank = 2, .kernel = {3, 3}, .before = {1, 1}, .after = {1, 1}, .groups = 1, TIMES1}},
};

static int describe_device(void **state)
{
    FILE *f = fopen(pg_testdata, "r"); /* the description, for this test */
    (void)state;
    if (!f)
        return -1;
    const size_t n = fread(device_text, 1, sizeof device_text - 1, f);
    (void)fclose(f);
    return cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &lib.device) ||
           cudnnBackendSetAttribute(lib.device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                    CUDNN_TYPE_CHAR, (int64_t)n, device_text) ||
           cudnnBackendFinalize(lib.device);
}

static const char *const kinds[] = {"forward", "data", "filter"};

static const struct way {
    const char *name;
    pg__precision precision;
    pgk_type type;
} ways[] = {{"float32", PG_FLOAT32, PGK_F32},
            {"tf32", PG_TF32, PGK_F32},
            {"bfloat16", PG_FLOAT32, PGK_BF16},
            {"float16", PG_FLOAT32, PGK_F16}};

/* Does the engine that was chosen multiply on tensor cores? */
static int is_on_tensor_cores(const pg__dnn_plan *p)
{
    const pg__graph *g = (const void *)p; /* its first member */
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine = NULL;
    int64_t n = 0;
    int found = 0;
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), 0);
    assert_int_equal(cudnnBackendGetAttribute(g->choices[g->taken], CUDNN_ATTR_ENGINECFG_ENGINE,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine),
                     0);
    assert_int_equal(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                              CUDNN_TYPE_NUMERICAL_NOTE,
                                              CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes),
                     0);
    for (int64_t k = 0; k < n; k++)
        found |= notes[k] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    (void)cudnnBackendDestroyDescriptor(engine);
    return found;
}

/* tensor_cores: 0, 1, or -1: either. */
static void check(const shape *s, pg__dnn_kind kind, const struct way *way, int bias,
                  int tensor_cores)
{
    pg__dev d = {.dnn = &lib, .opts = {.precision = (int)way->precision, .deterministic = 1}};
    const pg__dnn_conv c = {.kind = kind,
                            .conv = s->conv,
                            .x = pg__dims_of(s->conv.rank + 2, s->x),
                            .y = pg__dims_of(s->conv.rank + 2, s->y),
                            .bias = bias,
                            .type = way->type,
                            .out_type = way->type};
    pg__dnn_plan *p = NULL;
    pg__needs needs = {0};
    pg_err err = {0};
    if (pg__dnn_new(&p, &d, &c, &needs, &err) != PG_OK)
        fail_msg("%s, %s, %s%s: %s", s->name, way->name, kinds[kind], bias ? " with bias" : "",
                 err.msg);
    if (tensor_cores >= 0 && is_on_tensor_cores(p) != tensor_cores)
        fail_msg("%s, %s, %s: %s tensor cores", s->name, way->name, kinds[kind],
                 tensor_cores ? "not on" : "on");
    pg__dnn_free(p);
}

/* Those that repeat themselves: what differs in its last bits from run to run is barred. Engines
 * that are compiled at run time, as those that add a bias to 16 bits, cannot be asked without a
 * driver. */
static void every_convolution_has_a_plan(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            check(&shapes[k], PG_DNN_FORWARD, &ways[w], 0, -1);
            check(&shapes[k], PG_DNN_DATA, &ways[w], 0, -1);
            check(&shapes[k], PG_DNN_FILTER, &ways[w], 0, -1);
            if (ways[w].type == PGK_F32)
                check(&shapes[k], PG_DNN_FORWARD, &ways[w], 1, -1);
        }
}

/* Of float32 numbers tensor cores multiply the first bits: TF32. */
static void precision_decides_about_tensor_cores(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int kind = PG_DNN_FORWARD; kind <= PG_DNN_FILTER; kind++)
            check(&shapes[k], (pg__dnn_kind)kind, &ways[0], 0, 0);
    for (int kind = PG_DNN_FORWARD; kind <= PG_DNN_FILTER; kind++)
        check(&shapes[0], (pg__dnn_kind)kind, &ways[1], 0, 1);
}

PG_TEST_MAIN_WITH(describe_device, NULL, cmocka_unit_test(every_convolution_has_a_plan),
                  cmocka_unit_test(precision_decides_about_tensor_cores))
