/* Run by mpirun (run.py, gpus.py): training runs of real Keras 2.15, done again by several
 * processes, must give what it gave. usage: golden_ranks TESTDATA [deterministic] [gpus] */
#include "../train/golden_run.h"

const char *pg_testdata;

static size_t n_ranks;
static const char *devices = "cpu:0"; /* of a rank */

/* Every replica normalises with its own part of the batch, as in multi_gpu_model. */
static void cnn_bn_as_replicas(void **state)
{
    (void)state;
    run_golden("cnn_bn", devices, n_ranks == 2 ? "2" : "4");
}

/* Statistics of the whole batch: what one device does. */
static void cnn_bn_as_one_device(void **state)
{
    (void)state;
    run_golden("cnn_bn", devices, "1");
}

#define GOLDEN(run)                          \
    static void run##_by_ranks(void **state) \
    {                                        \
        (void)state;                         \
        run_golden(#run, devices, "1");      \
    }
GOLDEN(bert_mini)
GOLDEN(lstm_stateful)
GOLDEN(lstm_stateless)
GOLDEN(mlp_digits)
GOLDEN(multiout)
GOLDEN(siamese)
GOLDEN(unet_seg)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlp_digits_by_ranks),     cmocka_unit_test(multiout_by_ranks),
        cmocka_unit_test(siamese_by_ranks),        cmocka_unit_test(lstm_stateful_by_ranks),
        cmocka_unit_test(lstm_stateless_by_ranks), cmocka_unit_test(bert_mini_by_ranks),
        cmocka_unit_test(unet_seg_by_ranks),
    };
    const struct CMUnitTest replicas[] = {cmocka_unit_test(cnn_bn_as_replicas)};
    const struct CMUnitTest together[] = {cmocka_unit_test(cnn_bn_as_one_device)};
    if (argc < 2)
        return 2;
    pg_testdata = argv[1];
    joins_how = 1;
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "gpus") == 0)
            devices = "auto";
        else
            deterministic_how = 1;
    (void)pg_job_rank(&n_ranks);
    if (n_ranks < 2)
        return 2;
    const int failed = cmocka_run_group_tests_name("golden", tests, NULL, NULL);
    if (deterministic_how)
        return failed + cmocka_run_group_tests_name("together", together, NULL, NULL);
    return failed + cmocka_run_group_tests_name("replicas", replicas, NULL, NULL);
}
