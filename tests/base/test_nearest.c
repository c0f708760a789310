/* What somebody may have meant. */
#include "pg_test.h"

#include "base/nearest.h"

static const char *const names[] = {"loss", "accuracy", "val_loss", "val_accuracy"};

static void a_slip_is_understood(void **state)
{
    (void)state;
    assert_string_equal(pg__nearest("los", names, 4), "loss");
    assert_string_equal(pg__nearest("val_acuracy", names, 4), "val_accuracy");
    assert_string_equal(pg__nearest("val_acc", names, 4), "val_accuracy"); /* its beginning */
}

static void what_is_far_from_all_is_not(void **state)
{
    char longest[200];
    (void)state;
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_null(pg__nearest("precision", names, 4));
    assert_null(pg__nearest("", names, 4));
    assert_null(pg__nearest("ab", (const char *const[]){"cd"}, 1)); /* nothing of it is left */
    assert_null(pg__nearest(longest, names, 4));
    assert_null(pg__nearest("loss", names, 0));
}

static void the_known_ones_are_listed(void **state)
{
    pg_err err;
    (void)state;
    assert_int_equal(pg_fail(&err, PG_E_ARG, "no"), PG_E_ARG);
    assert_int_equal(pg__list_known(&err, PG_E_ARG, names, 2), PG_E_ARG);
    assert_string_equal(err.detail, "known: loss, accuracy");
}

PG_TEST_MAIN(cmocka_unit_test(a_slip_is_understood), cmocka_unit_test(what_is_far_from_all_is_not),
             cmocka_unit_test(the_known_ones_are_listed))
