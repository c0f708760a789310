/* EarlyStopping: decisions of real Keras 2.15.0 over a made-up curve. */
#include "train/callbacks.h"

extern const pg__cb_type pg__cb_early_stopping;
#define TYPE &pg__cb_early_stopping

static const struct {
    const char *parameters;
    size_t last; /* epoch */
    int stops;
    int restored; /* epoch whose weights came back; -1: none */
} traces[] = {
    {"patience=2", 5, 1, 3},
    {"", 2, 1, 1},
    {"patience=3,baseline=0.75", 2, 1, 1},
    {"patience=3,min_delta=0.05", 4, 1, 1},
    {"patience=2,start_from_epoch=5", 8, 1, 6},
    {"mode=max,patience=2", 2, 1, 0},
    {"patience=4,min_delta=-0.0001", 10, 1, 6},
    {"patience=7,baseline=0.695", 7, 1, 6},
    {"patience=30", 22, 0, -1},
    {"monitor=val_accuracy,patience=4", 4, 1, 0},
    {"patience=3,baseline=0.1", 2, 1, 1},
};

/* Weights that tell the epoch. */
static void mark(bench *b, size_t epoch)
{
    const size_t n = b->fit.t->vars.n_elems[0];
    double *v = pg__mem_array(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (double)epoch;
    assert_ok(pg__param_put(b->fit.t, 0, v));
    pg__mem_free(v);
}

static int marked(bench *b)
{
    const size_t n = b->fit.t->vars.n_elems[0];
    double *v = pg__mem_array(n, sizeof *v);
    assert_ok(pg__param_get(b->fit.t, 0, v));
    const int epoch = (int)v[n - 1];
    pg__mem_free(v);
    return epoch;
}

static size_t run_curve(bench *b, const char *text, int interrupted)
{
    size_t e = 0;
    for (; e < BENCH_EPOCHS; e++) {
        mark(b, e);
        bench_epoch(b, e, bench_curve[e]);
        if (b->fit.stops)
            return e;
        if (interrupted && e % 2)
            bench_resume(b, text);
    }
    return e - 1;
}

static void decisions_are_those_of_Keras(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof traces / sizeof *traces); i++) {
        const size_t k = i / 2;
        char text[128];
        bench b;
        snprintf(text, sizeof text, "EarlyStopping:restore_best_weights%s%s",
                 *traces[k].parameters ? "," : "", traces[k].parameters);
        bench_trainer(&b, NULL, NULL);
        bench_begin(&b, TYPE, text);
        const size_t last = run_curve(&b, text, i % 2);
        assert_int_equal(marked(&b), last); /* what other callbacks see is that epoch's */
        assert_ok(b.type->train_end(b.self, &b.fit, NULL));
        const int restored = marked(&b);
        const int want = traces[k].restored < 0 ? (int)last : traces[k].restored;
        if (last != traces[k].last || b.fit.stops != traces[k].stops || restored != want)
            fail_msg("%s: epoch %zu, stops %d, weights of %d; Keras: %zu, %d, %d", text, last,
                     b.fit.stops, restored, traces[k].last, traces[k].stops, traces[k].restored);
        bench_close(&b);
    }
}

static void what_it_does_is_told(void **state)
{
    bench b;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, "EarlyStopping:patience=2,restore_best_weights");
    assert_int_equal(run_curve(&b, NULL, 0), 5);
    assert_int_equal(b.n_events, 1);
    assert_int_equal(b.kind, PG_EVENT_STOP);
    assert_string_equal(b.text, "early stop (2 epochs without improvement); best epoch 4 restored");
    bench_close(&b);
    bench_trainer(&b, NULL, NULL);
    bench_begin(&b, TYPE, "EarlyStopping:monitor=val_accuracy,patience=1");
    assert_int_equal(run_curve(&b, NULL, 0), 1);
    assert_int_equal(marked(&b), 1);
    assert_string_equal(b.text, "early stop (1 epoch without improvement); best epoch 1");
    bench_close(&b);
}

/* Also of a run that was not stopped. */
static void Keras_3_restores_at_the_end(void **state)
{
    bench b;
    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        bench_trainer(&b, "3.6", NULL);
        bench_begin(&b, TYPE,
                    stops ? "EarlyStopping:patience=2,restore_best_weights"
                          : "EarlyStopping:patience=30,restore_best_weights");
        const size_t last = run_curve(&b, NULL, 0);
        assert_int_equal(marked(&b), last);
        assert_int_equal(b.fit.stops, stops);
        assert_ok(b.type->train_end(b.self, &b.fit, NULL));
        assert_int_equal(marked(&b), stops ? 3 : 12);
        assert_string_equal(b.text, stops ? "early stop (2 epochs without improvement); best "
                                            "epoch 4 restored"
                                          : "EarlyStopping: best epoch 13 restored");
        bench_close(&b);
    }
}

static void what_is_wrong_is_named(void **state)
{
    bench b;
    pg_err err;
    (void)state;
    bench_trainer(&b, NULL, NULL);
    assert_fails(PG_E_ARG, bench_open(&b, TYPE, "EarlyStopping:monitor=iou", &err), &err);
    assert_string_equal(err.msg, "EarlyStopping: nothing is called \"iou\"");
    assert_string_equal(err.detail, "known: loss, accuracy, val_loss, val_accuracy, lr");
    bench_close(&b);
    bench_trainer(&b, NULL, NULL);
    assert_fails(PG_E_ARG, bench_open(&b, TYPE, "EarlyStopping:patience=-1", &err), &err);
    bench_close(&b);
}

PG_TEST_MAIN(cmocka_unit_test(decisions_are_those_of_Keras), cmocka_unit_test(what_it_does_is_told),
             cmocka_unit_test(Keras_3_restores_at_the_end),
             cmocka_unit_test(what_is_wrong_is_named))
