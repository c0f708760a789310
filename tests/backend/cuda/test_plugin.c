/* Opening pg-cuda.so, and what is said where that cannot be: with the GPU of plain C in its place
 * (host.h), and with files that are something else. */
#include "pg_test.h"

#include <limits.h>
#include <unistd.h>

#include "backend/backend.h"
#include "ops/attrs.h"

/* Beside this test in the build folder. */
static void use(const char *name)
{
    char path[PATH_MAX], exe[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(n > 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    assert_true(snprintf(path, sizeof path, "%s/backend/cuda/%s", exe, name) < (int)sizeof path);
    setenv("PG_CUDA_PLUGIN", path, 1);
}

static const pg__backend *fake(void)
{
    const pg__backend *b = NULL;
    size_t ordinal;
    use("pg-cuda-fake.so");
    assert_ok(pg__backend_of(&b, &ordinal, "cuda", NULL));
    return b;
}

static void refuses(const char *device, pg_status code, const char *says)
{
    const pg__backend *b = NULL;
    size_t ordinal;
    pg_err err = {0};
    assert_fails(code, pg__backend_of(&b, &ordinal, device, &err), &err);
    if (!strstr(err.msg, says))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
    assert_null(b);
}

static void is_opened_when_a_device_is_named(void **state)
{
    const pg__backend *b = NULL;
    size_t ordinal = 7;
    (void)state;
    setenv("PG_CUDA_PLUGIN", "/nowhere/pg-cuda.so", 1);
    assert_ok(pg__backend_of(&b, &ordinal, "cpu:0", NULL));
    use("pg-cuda-fake.so");
    assert_ok(pg__backend_of(&b, &ordinal, "cuda:1", NULL));
    assert_string_equal(b->name, "cuda");
    assert_int_equal(ordinal, 1);
    assert_ok(pg__backend_of(&b, &ordinal, "gpu:0", NULL));
    assert_string_equal(b->name, "cuda");
}

static void is_the_same_each_time(void **state)
{
    (void)state;
    assert_ptr_equal(fake(), fake());
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    setenv("PG_CUDA_PLUGIN", "/nowhere/pg-cuda.so", 1);
    refuses("cuda:0", PG_E_UNSUPPORTED,
            "cuda:0: PG_CUDA_PLUGIN names /nowhere/pg-cuda.so, which does not exist");
}

static void another_version_is_refused(void **state)
{
    (void)state;
    use("other_abi.so");
    refuses("cuda:0", PG_E_UNSUPPORTED, "came with another version of libpg");
    use("other_size.so");
    refuses("cuda:0", PG_E_UNSUPPORTED, "came with another version of libpg");
}

static void what_is_no_plugin_is_refused(void **state)
{
    (void)state;
    use("not_ours.so");
    refuses("cuda:0", PG_E_UNSUPPORTED, "not_ours.so is not part of libpg");
    use("libcuda_host.a");
    refuses("cuda:0", PG_E_UNSUPPORTED, "invalid ELF header");
}

static void a_library_that_is_missing_is_named_with_its_package(void **state)
{
    (void)state;
    use("needs_cudnn.so");
    refuses("cuda:1", PG_E_UNSUPPORTED,
            "cuda:1: the GPU part of libpg needs libcudnn.so.0, which is missing: install "
            "libcudnn9-cuda-12 or libcudnn9-cuda-13 (for Python: nvidia-cudnn-cu12 or -cu13)");
}

static void a_device_that_does_not_exist_is_the_callers_mistake(void **state)
{
    const pg__backend *b = fake();
    pg__dev *d = NULL;
    pg_err err = {0};
    (void)state;
    assert_fails(PG_E_ARG, b->open(&d, 7, &(pg__dev_opts){.n_threads = 1}, &err), &err);
    assert_string_equal(err.msg, "cuda:7 does not exist: there are 2");
    setenv("FAKE_CUDA_DEVICES", "1", 1);
    assert_fails(PG_E_ARG, b->open(&d, 1, &(pg__dev_opts){.n_threads = 1}, &err), &err);
    assert_string_equal(err.msg, "cuda:1 does not exist: there is 1");
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    assert_fails(PG_E_UNSUPPORTED, b->open(&d, 0, &(pg__dev_opts){.n_threads = 1}, &err), &err);
    unsetenv("FAKE_CUDA_DEVICES");
}

/* ---- every call may fail ---- */

enum { N_ARGS = 4 }; /* x, kernel, bias, y */

typedef struct job {
    const pg__backend *b;
    pg__tape tape;
    pg__dev *dev;
    pg__kernel *kernel;
    void *mem[N_ARGS], *scratch, *shared;
} job;

static void describe(job *j)
{
    static const pg__conv_attrs conv = {
        .rank = 2, .kernel = {3, 2}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
    static const uint64_t x[] = {2, 5, 4, 3}, kernel[] = {3, 2, 3, 4}, bias[] = {4};
    const pg__dims shapes[] = {pg__dims_of(4, x), pg__dims_of(4, kernel), pg__dims_of(1, bias)};
    pg__val in[3], y;
    for (uint32_t k = 0; k < 3; k++)
        assert_ok(pg__tape_value(&j->tape, &shapes[k], PG_ELEM_REAL, PG_PARAM, k, 0, &in[k], NULL));
    assert_ok(pg__emit(&j->tape, PG_OP_conv, &conv, in, 3, &y, NULL));
}

static pg_status work(job *j, pg_err *err)
{
    const pg__backend *b = j->b;
    pg__needs needs = {0};
    float y[2 * 3 * 3 * 4];
    pg_status st = b->open(&j->dev, 0, &(pg__dev_opts){.n_threads = 1}, err);
    if (st == PG_OK)
        st = b->prepare(&j->kernel, j->dev, &j->tape, j->tape.insts, &needs, err);
    for (size_t k = 0; st == PG_OK && k < N_ARGS; k++)
        st = b->alloc(j->dev, &j->mem[k],
                      (size_t)pg__dims_elems(&j->tape.values[k].shape) * sizeof(float), err);
    if (st == PG_OK)
        st = b->alloc(j->dev, &j->scratch, needs.scratch_bytes, err);
    if (st == PG_OK)
        st = b->alloc(j->dev, &j->shared, needs.shared_bytes, err);
    if (st != PG_OK)
        return st;
    assert_true(needs.shared_bytes > 0);
    memset(y, 0, sizeof y);
    st = b->put(j->dev, j->mem[3], y, sizeof y);
    if (st == PG_OK)
        st = b->share(j->dev, j->kernel, j->mem, j->shared);
    if (st == PG_OK)
        st = b->run(j->dev, j->kernel, j->mem, j->scratch, j->shared);
    if (st == PG_OK)
        st = b->get(j->dev, y, j->mem[3], sizeof y);
    if (st != PG_OK && b->failure(j->dev))
        *err = *b->failure(j->dev);
    return st;
}

static void clean(job *j)
{
    for (size_t k = 0; k < N_ARGS; k++)
        if (j->mem[k])
            j->b->free(j->dev, j->mem[k]);
    if (j->scratch)
        j->b->free(j->dev, j->scratch);
    if (j->shared)
        j->b->free(j->dev, j->shared);
    j->b->release(j->kernel);
    j->b->close(j->dev);
    pg__tape_fini(&j->tape);
}

static void every_call_may_fail(void **state)
{
    const pg__backend *b = fake();
    pg_status st = PG_E_DEVICE;
    int n;
    (void)state;
    for (n = 1; st != PG_OK && n < 200; n++) {
        job j = {.b = b};
        pg_err err = {0};
        char at[16];
        describe(&j);
        (void)snprintf(at, sizeof at, "%d", n);
        setenv("FAKE_CUDA_FAIL_AT", at, 1);
        st = work(&j, &err);
        if (st != PG_OK && (err.code != st || !strstr(err.msg, "ordered")))
            fail_msg("call %d gave %s: \"%s\"", n, pg_status_name(st), err.msg);
        clean(&j);
    }
    unsetenv("FAKE_CUDA_FAIL_AT");
    assert_int_equal(st, PG_OK); /* no call was left to fail */
    assert_true(n > 15);
}

PG_TEST_MAIN(cmocka_unit_test(is_opened_when_a_device_is_named),
             cmocka_unit_test(is_the_same_each_time),
             cmocka_unit_test(a_file_that_is_not_there_is_named),
             cmocka_unit_test(another_version_is_refused),
             cmocka_unit_test(what_is_no_plugin_is_refused),
             cmocka_unit_test(a_library_that_is_missing_is_named_with_its_package),
             cmocka_unit_test(a_device_that_does_not_exist_is_the_callers_mistake),
             cmocka_unit_test(every_call_may_fail))
