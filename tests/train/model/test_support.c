/* What pg_layer_support_of() says of the layer classes. */
#include "pg_test.h"

#include "pg/train.h"

static void every_class_is_trained_somewhere_or_says_why_not(void **state)
{
    pg_layer_support can;
    const char *name;
    size_t n = 0;
    int trained;
    (void)state;
    for (; (name = pg_layer_class(n, &trained)); n++) {
        pg_err err = {0};
        assert_int_equal(pg_layer_support_of(&can, n, &err), PG_OK);
        if (trained != (can.why == NULL) || trained != can.cpu || trained != can.ref)
            fail_msg("%s: trained %d, cpu %d, ref %d, %s", name, trained, can.cpu, can.ref,
                     can.why ? can.why : "no reason: its config may lack a key in support.c");
    }
    assert_true(n > 150);
    pg_err err = {0};
    assert_int_equal(pg_layer_support_of(&can, n, &err), PG_E_ARG);
}

static void gpus_have_what_they_are_said_to_have(void **state)
{
    pg_layer_support can;
    const char *name;
    size_t on_gpus = 0;
    int trained;
    (void)state;
    for (size_t i = 0; (name = pg_layer_class(i, &trained)); i++) {
        assert_ok(pg_layer_support_of(&can, i, NULL));
        assert_true(!can.cuda || trained);
        on_gpus += (size_t)can.cuda;
        if (strcmp(name, "Conv2D") == 0 || strcmp(name, "LSTM") == 0)
            assert_true(can.cuda);
    }
    assert_true(on_gpus > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_is_trained_somewhere_or_says_why_not),
        cmocka_unit_test(gpus_have_what_they_are_said_to_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
