/* ReduceLROnPlateau: learning rates of real Keras 2.15.0 over a made-up curve. */
#include "train/callbacks.h"

extern const pg__cb_type pg__cb_reduce_lr_on_plateau;
#define TYPE &pg__cb_reduce_lr_on_plateau

static const struct {
    const char *parameters;
    double rates[BENCH_EPOCHS]; /* behind each epoch */
} traces[] = {
    {"patience=2", {0.100000001,    0.100000001,    0.100000001,    0.100000001,    0.100000001,
                    0.00999999978,  0.00999999978,  0.00999999978,  0.000999999931, 0.000999999931,
                    9.99999902e-05, 9.99999902e-05, 9.99999902e-05, 9.99999902e-05, 9.99999884e-06,
                    9.99999884e-06, 9.99999884e-07, 9.99999884e-07, 9.9999987e-08,  9.9999987e-08,
                    9.99999905e-09, 9.99999905e-09, 9.99999861e-10}},
    {"patience=1,cooldown=2",
     {0.100000001,    0.100000001,    0.00999999978,  0.00999999978,  0.000999999931,
      0.000999999931, 0.000999999931, 9.99999902e-05, 9.99999902e-05, 9.99999884e-06,
      9.99999884e-06, 9.99999884e-07, 9.99999884e-07, 9.9999987e-08,  9.9999987e-08,
      9.99999905e-09, 9.99999905e-09, 9.99999861e-10, 9.99999861e-10, 9.99999875e-11,
      9.99999875e-11, 9.99999909e-12, 9.99999909e-12}},
    {"factor=0.5,patience=2,min_lr=0.02",
     {0.100000001,  0.100000001,  0.100000001,  0.100000001,  0.100000001,  0.0500000007,
      0.0500000007, 0.0500000007, 0.0250000004, 0.0250000004, 0.0199999996, 0.0199999996,
      0.0199999996, 0.0199999996, 0.0199999996, 0.0199999996, 0.0199999996, 0.0199999996,
      0.0199999996, 0.0199999996, 0.0199999996, 0.0199999996, 0.0199999996}},
    {"mode=max,patience=3",
     {0.100000001,    0.100000001,    0.100000001,    0.00999999978,  0.00999999978,
      0.00999999978,  0.000999999931, 0.000999999931, 0.000999999931, 9.99999902e-05,
      9.99999902e-05, 9.99999902e-05, 9.99999884e-06, 9.99999884e-06, 9.99999884e-06,
      9.99999884e-07, 9.99999884e-07, 9.99999884e-07, 9.9999987e-08,  9.9999987e-08,
      9.9999987e-08,  9.99999905e-09, 9.99999905e-09}},
    {"min_delta=0.05,patience=2",
     {0.100000001,    0.100000001,    0.100000001,    0.00999999978,  0.00999999978,
      0.000999999931, 0.000999999931, 0.000999999931, 9.99999902e-05, 9.99999902e-05,
      9.99999884e-06, 9.99999884e-06, 9.99999884e-07, 9.99999884e-07, 9.9999987e-08,
      9.9999987e-08,  9.99999905e-09, 9.99999905e-09, 9.99999861e-10, 9.99999861e-10,
      9.99999875e-11, 9.99999875e-11, 9.99999909e-12}},
    {"patience=0,factor=0.9",
     {0.100000001,  0.100000001,  0.0900000036, 0.0900000036, 0.0810000002, 0.0728999972,
      0.0728999972, 0.065609999,  0.0590489991, 0.0531440973, 0.0478296876, 0.0430467203,
      0.0430467203, 0.0387420468, 0.0348678418, 0.0313810557, 0.0282429494, 0.0254186541,
      0.0228767879, 0.0205891095, 0.0185301993, 0.0166771784, 0.015009461}},
    {"monitor=val_accuracy,patience=4,factor=0.3",
     {0.100000001,    0.100000001,    0.100000001,    0.100000001,    0.0300000012,
      0.0300000012,   0.0300000012,   0.0300000012,   0.00900000054,  0.00900000054,
      0.00900000054,  0.00900000054,  0.00270000007,  0.00270000007,  0.00270000007,
      0.00270000007,  0.000809999998, 0.000809999998, 0.000809999998, 0.000809999998,
      0.000243000002, 0.000243000002, 0.000243000002}},
    {"patience=3,cooldown=1,factor=0.7,min_delta=0.0",
     {0.100000001,  0.100000001,  0.100000001,  0.100000001,  0.100000001,  0.100000001,
      0.100000001,  0.100000001,  0.100000001,  0.0700000003, 0.0700000003, 0.0700000003,
      0.0700000003, 0.0700000003, 0.0700000003, 0.0489999987, 0.0489999987, 0.0489999987,
      0.0342999995, 0.0342999995, 0.0342999995, 0.0240099989, 0.0240099989}},
};

static void rates_are_those_of_Keras(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        char text[128];
        bench b;
        snprintf(text, sizeof text, "ReduceLROnPlateau:%s", traces[i].parameters);
        bench_trainer(&b, NULL, NULL);
        bench_begin(&b, TYPE, text);
        for (size_t e = 0; e < BENCH_EPOCHS; e++) {
            bench_epoch(&b, e, bench_curve[e]);
            if ((float)pg__fit_rate(&b.fit) != (float)traces[i].rates[e])
                fail_msg("%s, epoch %zu: %.9g, Keras has %.9g", text, e, pg__fit_rate(&b.fit),
                         traces[i].rates[e]);
            if (e % 5 == 4) /* now and then the run is interrupted */
                bench_resume(&b, text);
        }
        bench_close(&b);
    }
}

static void what_it_does_is_told(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, "ReduceLROnPlateau:patience=2");
    for (size_t e = 0; e < 3; e++)
        bench_epoch(&b, e, 1);
    assert_int_equal(b.n_events, 1);
    assert_int_equal(b.kind, PG_EVENT_RATE);
    assert_string_equal(b.text, "val_loss did not improve for 2 epochs; learning rate 0.1 → 0.01");
    bench_close(&b);
}

static void an_epoch_without_validation_is_passed_over(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, "ReduceLROnPlateau:patience=1");
    bench_epoch(&b, 0, 1);
    bench_epoch(&b, 1, NAN);
    assert_int_equal(b.n_events, 0);
    bench_epoch(&b, 2, 1);
    assert_int_equal(b.n_events, 1);
    bench_close(&b);
}

static void assert_refused(const char *schedule, const char *text, const char *message)
{
    bench b;
    pg_err err;
    bench_trainer(&b, NULL, schedule);
    assert_fails(PG_E_ARG, bench_open(&b, TYPE, text, &err), &err);
    assert_string_equal(err.msg, message);
    bench_close(&b);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    assert_refused(NULL, "ReduceLROnPlateau:factor=1",
                   "ReduceLROnPlateau: factor is 1.0; it must lie between 0 and 1");
    assert_refused(NULL, "ReduceLROnPlateau:monitor=val_los",
                   "ReduceLROnPlateau: nothing is called \"val_los\"; did you mean val_loss?");
    assert_refused(NULL, "ReduceLROnPlateau:mode=maximum",
                   "ReduceLROnPlateau: unknown mode \"maximum\" (auto, min, max)");
    assert_refused("cosine_decay:decay_steps=10", "ReduceLROnPlateau",
                   "ReduceLROnPlateau: the learning rate is already set by CosineDecay");
}

static void Keras_guess_is_pointed_out(void **state)
{
    static const char *const names[] = {"loss", "val_iou", "lr"};
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    b.fit.names = names;
    b.fit.n_names = 3;
    bench_begin(&b, TYPE, "ReduceLROnPlateau:monitor=val_iou");
    assert_int_equal(b.n_events, 1);
    assert_int_equal(b.kind, PG_EVENT_NOTE);
    assert_string_equal(b.text, "ReduceLROnPlateau: mode auto assumes that less val_iou is "
                                "better, as Keras does; mode=max reverses it");
    bench_close(&b);
}

PG_TEST_MAIN(cmocka_unit_test(rates_are_those_of_Keras), cmocka_unit_test(what_it_does_is_told),
             cmocka_unit_test(an_epoch_without_validation_is_passed_over),
             cmocka_unit_test(what_is_wrong_is_named), cmocka_unit_test(Keras_guess_is_pointed_out))
