/* Names of devices: which back end has them, and what is none. */
#include "pg_test.h"

#include "backend/backend.h"

static void a_device_is_a_back_end_and_a_number(void **state)
{
    const pg__backend *b = NULL;
    size_t ordinal = 7;
    (void)state;
    assert_ok(pg__backend_of(&b, &ordinal, "cpu", NULL));
    assert_string_equal(b->name, "cpu");
    assert_int_equal(ordinal, 0);
    assert_ok(pg__backend_of(&b, &ordinal, "ref:12", NULL));
    assert_string_equal(b->name, "ref");
    assert_int_equal(ordinal, 12);
}

static void other_words_are_refused(void **state)
{
    static const char *const bad[] = {"",      "cpu:",   "cpu:-1", "cpu:1x", "cpus",
                                      "cuda:", "cuda:x", "cudas",  "gpus:0", "all"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const pg__backend *b = NULL;
        size_t ordinal = 0;
        pg_err err = {0};
        assert_fails(PG_E_ARG, pg__backend_of(&b, &ordinal, bad[i], &err), &err);
        assert_null(b);
    }
}

static void gpus_are_known_by_their_names(void **state)
{
    (void)state;
    assert_string_equal(pg__gpu_name(), "cuda");
    assert_true(pg__begins_with_gpu("cuda:0,cpu:0") && pg__begins_with_gpu("gpu"));
    assert_false(pg__begins_with_gpu("cpu:0,cuda:0") || pg__begins_with_gpu(""));
}

static void run_dense(pg__dev *d)
{
    const pg__dims xs = pg__dims_of(2, (const uint64_t[]){2, 2}),
                   bs = pg__dims_of(1, (const uint64_t[]){2});
    float x[] = {1, 2, 3, 4}, w[] = {5, 6, 7, 8}, bias[] = {0.5f, -0.5f}, y[4] = {0};
    pg__arg scratch[8];
    pg__kernel *k = NULL;
    pg__needs needs;
    pg__tape t = {0};
    pg__val in[3], out;
    assert_ok(pg__tape_value(&t, &xs, PG_ELEM_REAL, PG_INPUT, 0, 0, &in[0], NULL));
    assert_ok(pg__tape_value(&t, &xs, PG_ELEM_REAL, PG_INPUT, 1, 0, &in[1], NULL));
    assert_ok(pg__tape_value(&t, &bs, PG_ELEM_REAL, PG_INPUT, 2, 0, &in[2], NULL));
    assert_ok(pg__emit(&t, PG_OP_dense, NULL, in, 3, &out, NULL));
    assert_ok(pg__backend_cpu.prepare(&k, d, &t, &t.insts[0], &needs, NULL));
    assert_true(needs.scratch_bytes <= sizeof scratch && needs.shared_bytes == 0);
    assert_ok(pg__backend_cpu.run(d, k, (void *[]){x, w, bias, y}, scratch, NULL));
    assert_true(y[0] == 19.5f && y[1] == 21.5f && y[2] == 43.5f && y[3] == 49.5f);
    pg__backend_cpu.release(k);
    pg__tape_fini(&t);
}

static void devices_that_prepare_beside_compute_and_close(void **state)
{
    const pg__dev_opts warm = {.n_threads = 1, .warm = 1};
    pg__dev *d[2];
    (void)state;
    for (int used = 0; used < 2; used++) {
        for (int i = 0; i < 2; i++)
            assert_ok(pg__backend_cpu.open(&d[i], 0, &warm, NULL));
        for (int i = 0; used && i < 2; i++)
            run_dense(d[i]);
        for (int i = 0; i < 2; i++)
            pg__backend_cpu.close(d[i]);
    }
}

PG_TEST_MAIN(cmocka_unit_test(a_device_is_a_back_end_and_a_number),
             cmocka_unit_test(other_words_are_refused),
             cmocka_unit_test(gpus_are_known_by_their_names),
             cmocka_unit_test(devices_that_prepare_beside_compute_and_close))
