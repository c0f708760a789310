/* Does cuDNN have a plan for every attention that attend_cudnn.c describes? It says so without a
 * GPU, for one that is described in a file (sm90.json); kernels that it compiles it hands to a
 * driver that takes all (plan_driver.c). Whether their numbers are right only a GPU can tell. */
#include "pg_test.h"

#include <dlfcn.h>

#include "backend/cuda/cudnn_graph.h"

static struct pg__dnn_lib lib;
static char device_text[8192];

static cudnnStatus_t describe(const char *text, size_t n)
{
    cudnnStatus_t s =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &lib.device);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(lib.device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, (int64_t)n, text);
    return s == CUDNN_STATUS_SUCCESS ? cudnnBackendFinalize(lib.device) : s;
}

/* libcuda.so.1 by its own name, before cuDNN looks for one. */
static int open_driver(void **state)
{
    const char *path = getenv("PG_PLAN_DRIVER");
    FILE *f = fopen(pg_testdata, "r"); /* the description, for this test */
    (void)state;
    if (!f)
        return -1;
    const size_t n = fread(device_text, 1, sizeof device_text - 1, f);
    (void)fclose(f);
    if (!path || !dlopen(path, RTLD_NOW | RTLD_GLOBAL)) {
        (void)fprintf(stderr, "no driver: %s\n", path ? dlerror() : "PG_PLAN_DRIVER");
        return -1;
    }
    return (int)describe(device_text, n);
}

static int close_driver(void **state)
{
    (void)state;
    pg__dnn_attends_fini(&lib);
    return (int)cudnnBackendDestroyDescriptor(lib.device);
}

/* Bytes of the scores in float32: what a run may work in. */
static size_t most_of(const pg__dnn_attend *a)
{
    return (size_t)(a->rows * a->heads * a->t * a->s) * sizeof(float);
}

static pg_status ask(const pg__dnn_attend *a, size_t most, size_t *work, pg_err *err)
{
    pg__dev d = {.dnn = &lib};
    pg__dnn_attend_plan *p = NULL;
    const pg_status st = pg__dnn_attend_new(&p, &d, a, most, work, err);
    pg__dnn_attend_free(p);
    return st;
}

static void check(pg__dnn_attend a, const char *name)
{
    static const char *const passes[] = {"inference", "forward", "gradient"};
    for (int pass = 0; pass < 3; pass++) {
        size_t work = 0;
        pg_err err = {0};
        a.trains = pass > 0;
        a.gradient = pass == 2;
        if (ask(&a, most_of(&a), &work, &err) != PG_OK)
            fail_msg("%s, %s: %s", name, passes[pass], err.msg);
        assert_true(work <= most_of(&a));
    }
}

/* BERT's: heads of 64 features. */
#define BERT \
    .rows = 4, .heads = 12, .t = 128, .s = 128, .a = 64, .b = 64, .scale = 0.125f, .type = PGK_BF16

static void every_attention_has_a_plan(void **state)
{
    (void)state;
    check((pg__dnn_attend){BERT}, "plain");
    check((pg__dnn_attend){BERT, .causal = 1}, "causal");
    check((pg__dnn_attend){BERT, .masked = 1}, "masked");
    check((pg__dnn_attend){BERT, .masked = 1, .has_factors = 1, .factor_type = PGK_F32},
          "masked, with factors");
}

static void sizes_may_be_uneven(void **state)
{
    pg__dnn_attend a = {BERT, .masked = 1};
    (void)state;
    a.heads = 5;
    a.t = 100;
    a.s = 248; /* engines work in whole tiles: with fewer keys they would want more memory */
    a.a = 80;
    a.b = 32;
    check(a, "uneven");
    a.a = a.b = 128;
    a.type = PGK_F16;
    a.t = a.s = 512;
    check(a, "large heads in float16");
}

/* Where it may not store what it wants to, it stores less or there is no plan. */
static void keeps_within_the_memory_it_may_use(void **state)
{
    const pg__dnn_attend a = {BERT, .trains = 1, .gradient = 1};
    size_t work = 0;
    (void)state;
    for (size_t most = 2 * most_of(&a); most > most_of(&a) / 8; most /= 4) {
        const pg_status st = ask(&a, most, &work, NULL);
        assert_true(st == PG_E_NO || (st == PG_OK && work <= most));
    }
    assert_int_equal(ask(&a, 4096, &work, NULL), PG_E_NO);
}

/* Compiling a plan takes long. */
static void equal_plans_are_made_once(void **state)
{
    const pg__dnn_attend a = {BERT};
    pg__dnn_attend_plan *p = NULL, *same = NULL, *other = NULL;
    pg__dev d = {.dnn = &lib};
    size_t work;
    (void)state;
    assert_ok(pg__dnn_attend_new(&p, &d, &a, most_of(&a), &work, NULL));
    assert_ok(pg__dnn_attend_new(&same, &d, &a, most_of(&a), &work, NULL));
    assert_ok(pg__dnn_attend_new(&other, &d, &(pg__dnn_attend){BERT, .causal = 1}, most_of(&a),
                                 &work, NULL));
    assert_ptr_equal(p, same);
    assert_ptr_not_equal(p, other);
    pg__dnn_attend_free(p);
    pg__dnn_attend_free(same);
    pg__dnn_attend_free(other);
}

PG_TEST_MAIN_WITH(open_driver, close_driver, cmocka_unit_test(every_attention_has_a_plan),
                  cmocka_unit_test(sizes_may_be_uneven),
                  cmocka_unit_test(keeps_within_the_memory_it_may_use),
                  cmocka_unit_test(equal_plans_are_made_once))
