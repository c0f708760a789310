/* Training runs of real Keras 2.15 (testdata/golden) on the GPU of plain C (host.h), on one and on
 * several devices. */
#include "train/golden_run.h"

#include "backend/backend.h"

#define GOLDEN(run)                          \
    static void run##_on_a_gpu(void **state) \
    {                                        \
        (void)state;                         \
        run_golden(#run, "cuda:0", "1");     \
    }
GOLDEN(bert_mini)
GOLDEN(cnn_bn)
GOLDEN(lstm_stateful)
GOLDEN(lstm_stateless)
GOLDEN(mlp_digits)
GOLDEN(multiout)
GOLDEN(siamese)
GOLDEN(unet_seg)

/* Of this machine; tests/gpu/run.sh runs this on real ones. */
static size_t n_gpus(void)
{
    const pg__backend *b;
    size_t ordinal, n = 0;
    assert_ok(pg__backend_of(&b, &ordinal, "cuda:0", NULL));
    assert_ok(b->count(&n, NULL));
    return n;
}

/* Two queues of one GPU, two GPUs, and both. */
static void replicas_on_gpus(void **state)
{
    static const char *const two[] = {"cuda:0,cuda:0", "cuda:0,cuda:1", "cuda:1,cuda:0"};
    const size_t n = n_gpus() > 1 ? 3 : 1;
    (void)state;
    for (size_t i = 0; i < n; i++) {
        run_golden("cnn_bn", two[i], "2");
        run_golden("mlp_digits", two[i], "2");
    }
    for (size_t i = 0; i < n; i++) /* whose rows have a state each */
        run_golden("lstm_stateful", two[i], "1");
    run_golden("cnn_bn", n > 1 ? "cuda:0,cuda:1,cuda:0,cuda:1" : "cuda:0,cuda:0,cuda:0,cuda:0",
               "4");
}

PG_TEST_MAIN(cmocka_unit_test(bert_mini_on_a_gpu), cmocka_unit_test(cnn_bn_on_a_gpu),
             cmocka_unit_test(lstm_stateful_on_a_gpu), cmocka_unit_test(lstm_stateless_on_a_gpu),
             cmocka_unit_test(mlp_digits_on_a_gpu), cmocka_unit_test(multiout_on_a_gpu),
             cmocka_unit_test(siamese_on_a_gpu), cmocka_unit_test(unet_seg_on_a_gpu),
             cmocka_unit_test(replicas_on_gpus))
