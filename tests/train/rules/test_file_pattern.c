/* Names of checkpoints: as Python's str.format(epoch=..., **logs) makes them. */
#include "pg_test.h"

#include "train/rules/file_pattern.h"

static const pg__pattern_key keys[] = {
    {"epoch", {PG_SPEC_INT, 7}, 0},           {"loss", {PG_SPEC_FLOAT, 0.6931471824645996}, 0},
    {"accuracy", {PG_SPEC_FLOAT, 0.9375}, 0}, {"val_loss", {PG_SPEC_FLOAT, 12345.678901}, 0},
    {"val_accuracy", {PG_SPEC_FLOAT, 1}, 1},  {"lr", {PG_SPEC_FLOAT32, 0.0010000000474974513}, 0},
};
#define N_KEYS (sizeof keys / sizeof *keys)

/* pattern.format(epoch=7, loss=0.6931471824645996, accuracy=0.9375, val_loss=12345.678901,
 *                lr=numpy.float32(0.001)) */
static const char *const names[][2] = {
    {"w.h5", "w.h5"},
    {"unet-{epoch:02d}-{val_loss:.4f}.hdf5", "unet-07-12345.6789.hdf5"},
    {"{epoch}", "7"},
    {"{loss}.keras", "0.6931471824645996.keras"},
    {"{lr}-{lr:.2e}", "0.001-1.00e-03"},
    {"{{{epoch}}}", "{7}"},
    {"{{epoch}}-{epoch:*^5}", "{epoch}-**7**"},
    {"a/{epoch:03d}/{accuracy:.1%}", "a/007/93.8%"},
    {"{epoch:>4}{epoch:<4}|", "   77   |"},
    {"{val_loss:,.1f}", "12,345.7"},
    {"{epoch:.2f}", "7.00"},
    {"%d %s {epoch:d}%", "%d %s 7%"},
    {"", ""},
};

static void are_what_python_makes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pg__str out = {0};
        pg_err err = {0};
        const char *absent = NULL;
        if (pg__pattern_fill(&out, &absent, names[i][0], keys, N_KEYS, &err) != PG_OK)
            fail_msg("%s: %s", names[i][0], err.msg);
        assert_null(absent);
        assert_string_equal(out.s ? out.s : "", names[i][1]);
        pg__str_fini(&out);
    }
}

static void assert_refused(const char *pattern, const char *message)
{
    pg__str out = {0};
    pg_err err = {0};
    const char *absent = NULL;
    assert_fails(PG_E_ARG, pg__pattern_fill(&out, &absent, pattern, keys, N_KEYS, &err), &err);
    assert_string_equal(err.msg, message);
    pg__str_fini(&out);
}

static void unknown_keys_are_told_with_the_known_ones(void **state)
{
    (void)state;
    assert_refused("c/{epoch}-{val_acc:.3f}.h5",
                   "unknown key {val_acc}; known: epoch, loss, accuracy, val_loss, val_accuracy, "
                   "lr; did you mean val_accuracy?");
    assert_refused("{nothing_like_it}.h5",
                   "unknown key {nothing_like_it}; known: epoch, loss, accuracy, val_loss, "
                   "val_accuracy, lr");
    assert_refused("{}",
                   "unknown key {}; known: epoch, loss, accuracy, val_loss, val_accuracy, lr");
    assert_refused("{0}",
                   "unknown key {0}; known: epoch, loss, accuracy, val_loss, val_accuracy, lr");
}

static void what_is_no_pattern_is_refused(void **state)
{
    (void)state;
    assert_refused("{epoch", "'{' without '}'; one brace is written {{");
    assert_refused("epoch}", "'}' without '{'; one brace is written }}");
    assert_refused("{epoch:{loss}}", "a key within {epoch:...} is not filled in");
    assert_refused("{epoch:.2d}", "{epoch:.2d}: an int has no precision");
    assert_refused("{loss:d}", "{loss:d}: no type 'd' for a float");
    assert_refused("{val_accuracy:.4f}{epoch:q}", "{epoch:q}: no type 'q' for an int");
}

static void a_value_may_be_absent(void **state)
{
    pg__str out = {0};
    const char *absent = NULL;
    (void)state;
    assert_ok(pg__pattern_fill(&out, &absent, "{epoch}-{val_accuracy:.2f}.h5", keys, N_KEYS, NULL));
    assert_string_equal(absent, "val_accuracy");
    assert_int_equal(out.n, 0);
    pg__str_fini(&out);
}

static void the_fixed_part_ends_at_the_first_key(void **state)
{
    (void)state;
    assert_int_equal(pg__pattern_fixed("w.h5"), 4);
    assert_int_equal(pg__pattern_fixed("a/{epoch}.h5"), 2);
    assert_int_equal(pg__pattern_fixed("{{a}}/{epoch}.h5"), 4);
    assert_int_equal(pg__pattern_fixed("{epoch}"), 0);
}

PG_TEST_MAIN(cmocka_unit_test(are_what_python_makes),
             cmocka_unit_test(unknown_keys_are_told_with_the_known_ones),
             cmocka_unit_test(what_is_no_pattern_is_refused),
             cmocka_unit_test(a_value_may_be_absent),
             cmocka_unit_test(the_fixed_part_ends_at_the_first_key))
