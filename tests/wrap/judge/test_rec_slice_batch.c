#include "pg_test.h"
#include "wrap/wrapper_json.h"

static void knows_every_spelling_of_the_number_of_devices(void **state)
{
    (void)state;
    static const char *const keys[] = {"n_gpus", "n_gpu", "ngpus"};
    for (size_t k = 0; k < 3; k++) {
        char text[2][80];
        for (int i = 0; i < 2; i++)
            snprintf(text[i], sizeof text[i], "\"arguments\": {\"%s\": 2, \"part\": %d}", keys[k],
                     i);
        const char *const slices[] = {text[0], text[1]};
        assert_judged("wrapper slice_batch certain 2", .slices = slices, .n = 2);
    }
}

static void believes_a_slice_batch_class_that_tells_nothing(void **state)
{
    (void)state;
    static const char *const none[] = {"", ""};
    assert_judged("wrapper slice_batch likely 2", .slices = none, .n = 2,
                  .slice_class = "SliceBatch");
}

static void refuses_another_number_of_devices(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\"arguments\": {\"n_gpus\": 3, \"part\": 0}",
                                        "\"arguments\": {\"n_gpus\": 3, \"part\": 1}"};
    assert_refused("contradict", .slices = wrong, .n = 2);
}

static void knows_the_layer_names_of_its_kin(void **state)
{
    (void)state;
    assert_true(pg__rec_slice_batch.slice_name("slice_batch_3"));
    assert_true(pg__rec_slice_batch.slice_name("stage_cpuSliceIn0_Dev1"));
    assert_false(pg__rec_slice_batch.slice_name("stage_1"));
}

PG_TEST_MAIN(cmocka_unit_test(knows_every_spelling_of_the_number_of_devices),
             cmocka_unit_test(believes_a_slice_batch_class_that_tells_nothing),
             cmocka_unit_test(refuses_another_number_of_devices),
             cmocka_unit_test(knows_the_layer_names_of_its_kin))
