/* Training runs of real Keras 2.15 (testdata/golden) on the GPU of plain C (host.h), on one and on
 * several devices. */
#include "train/golden_run.h"

#define GOLDEN(run)                          \
    static void run##_on_a_gpu(void **state) \
    {                                        \
        (void)state;                         \
        run_golden(#run, "cuda:0", "1");     \
    }
GOLDEN(cnn_bn)
GOLDEN(mlp_digits)
GOLDEN(multiout)
GOLDEN(unet_seg)

/* Two queues of one GPU, two GPUs, and both. */
static void replicas_on_gpus(void **state)
{
    static const char *const two[] = {"cuda:0,cuda:0", "cuda:0,cuda:1", "cuda:1,cuda:0"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        run_golden("cnn_bn", two[i], "2");
        run_golden("mlp_digits", two[i], "2");
    }
    run_golden("cnn_bn", "cuda:0,cuda:1,cuda:0,cuda:1", "4");
}

PG_TEST_MAIN(cmocka_unit_test(mlp_digits_on_a_gpu), cmocka_unit_test(cnn_bn_on_a_gpu),
             cmocka_unit_test(unet_seg_on_a_gpu), cmocka_unit_test(multiout_on_a_gpu),
             cmocka_unit_test(replicas_on_gpus))
