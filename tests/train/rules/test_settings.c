/* Parameters by name, from both forms, and what is refused. */
#include "pg_test.h"

#include "train/rules/settings.h"

static pg__settings of(const char *text)
{
    pg__settings s;
    assert_ok(pg__settings_of(&s, text, NULL));
    return s;
}

static void both_forms_say_the_same(void **state)
{
    static const char *const forms[] = {
        "EarlyStopping:monitor=val_iou,patience=3,min_delta=-1e-3,restore,baseline=.5,freq=epoch",
        "{\"class_name\": \"EarlyStopping\", \"config\": {\"monitor\": \"val_iou\", \"patience\": "
        "3, \"min_delta\": -1e-3, \"restore\": true, \"baseline\": 0.5, \"freq\": \"epoch\", "
        "\"none\": null}}"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pg__settings s = of(forms[i]);
        const char *monitor = NULL;
        size_t patience = 0, freq = 7;
        double min_delta = 0, baseline = 0, none = 4;
        int restore = 0, has = 1;
        assert_ok(pg__settings_text(&s, "monitor", &monitor, NULL));
        assert_ok(pg__settings_count(&s, "patience", &patience, NULL));
        assert_ok(pg__settings_real(&s, "min_delta", &min_delta, NULL));
        assert_ok(pg__settings_real(&s, "baseline", &baseline, NULL));
        assert_ok(pg__settings_flag(&s, "restore", &restore, NULL));
        assert_ok(pg__settings_freq(&s, "freq", &freq, NULL));
        assert_ok(pg__settings_real(&s, "none", &none, NULL));
        assert_ok(pg__settings_has(&s, "none", &has, NULL));
        assert_ok(pg__settings_end(&s, NULL));
        assert_string_equal(s.name.s, "EarlyStopping");
        assert_string_equal(monitor, "val_iou");
        assert_int_equal(patience, 3);
        assert_true(min_delta == -1e-3 && baseline == 0.5 && none == 4);
        assert_int_equal(restore, 1);
        assert_int_equal(freq, 0);
        assert_int_equal(has, 0);
        pg__settings_fini(&s);
    }
}

static void a_path_keeps_what_file_names_hold(void **state)
{
    pg__settings s = of("ModelCheckpoint:filepath=c/{epoch:02d}-{val_loss:.4f}=1.h5");
    const char *path = NULL;
    (void)state;
    assert_ok(pg__settings_text(&s, "filepath", &path, NULL));
    assert_string_equal(path, "c/{epoch:02d}-{val_loss:.4f}=1.h5");
    pg__settings_fini(&s);
}

static void another_type_is_refused(void **state)
{
    pg__settings s = of("X:a=word,b=1.5,c=2,d=-1,e=0");
    const char *text = "";
    double real = 0;
    size_t count = 0;
    int flag = 0;
    pg_err err;
    (void)state;
    assert_fails(PG_E_ARG, pg__settings_real(&s, "a", &real, &err), &err);
    assert_string_equal(err.msg, "X: a is not a number");
    assert_fails(PG_E_ARG, pg__settings_count(&s, "b", &count, &err), &err);
    assert_fails(PG_E_ARG, pg__settings_flag(&s, "c", &flag, &err), &err);
    assert_fails(PG_E_ARG, pg__settings_count(&s, "d", &count, &err), &err);
    assert_fails(PG_E_ARG, pg__settings_text(&s, "c", &text, &err), &err);
    assert_fails(PG_E_ARG, pg__settings_freq(&s, "e", &count, &err), &err);
    assert_fails(PG_E_ARG, pg__settings_freq(&s, "a", &count, &err), &err);
    pg__settings_fini(&s);
}

static void what_nobody_asked_for_is_an_error(void **state)
{
    pg__settings s = of("ReduceLROnPlateau:patience=2,factr=0.5");
    size_t patience = 0;
    double factor = 0;
    pg_err err;
    (void)state;
    assert_ok(pg__settings_count(&s, "patience", &patience, NULL));
    assert_ok(pg__settings_real(&s, "factor", &factor, NULL));
    assert_fails(PG_E_ARG, pg__settings_end(&s, &err), &err);
    assert_string_equal(err.msg,
                        "ReduceLROnPlateau has no parameter \"factr\"; did you mean factor?");
    assert_string_equal(err.detail, "known: patience, factor");
    pg__settings_fini(&s);
}

static void what_is_no_such_text_is_refused(void **state)
{
    static const char *const bad[] = {
        "X:a=1,",  "X:,a=1",           "X:a=1,a=2",
        "{\"a\":", "{\"config\": {}}", "{\"class_name\": \"X\", \"config\": 3}"};
    pg_err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg__settings s;
        if (pg__settings_of(&s, bad[i], &err) == PG_OK)
            fail_msg("%s was taken", bad[i]);
        assert_non_null(strstr(err.msg, bad[i]));
    }
}

PG_TEST_MAIN(cmocka_unit_test(both_forms_say_the_same),
             cmocka_unit_test(a_path_keeps_what_file_names_hold),
             cmocka_unit_test(another_type_is_refused),
             cmocka_unit_test(what_nobody_asked_for_is_an_error),
             cmocka_unit_test(what_is_no_such_text_is_refused))
