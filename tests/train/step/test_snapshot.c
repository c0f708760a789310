/* A snapshot is the trainer as it stood: what is saved from it is what would have been saved then,
 * whatever the trainer does meanwhile, and a proof sees every bit of it. */
#include "pg_test.h"

#include "train/data_files.h"
#include "train/fit/writer.h"
#include "train/model/save.h"

static const char *golden(const char *file)
{
    static char path[4][600];
    static unsigned n;
    char *p = path[n++ % 4];
    snprintf(p, sizeof path[0], "%s/golden/mlp_digits/%s", pg_testdata, file);
    return p;
}

static pg_trainer *opened(const char *optimizer)
{
    pg_trainer *t = NULL;
    const pg_train_opts opts = {.model = golden("model.json"),
                                .weights = golden("init_weights.h5"),
                                .optimizer = optimizer,
                                .loss = "categorical_crossentropy",
                                .threads = 1,
                                .deterministic = 1};
    assert_ok(pg_trainer_open(&t, &opts, NULL));
    return t;
}

static void train(pg_trainer *t, size_t epochs)
{
    pg_data *d = NULL;
    pg_err err = {0};
    const pg_fit_opts fit = {.batch_size = 60, .epochs = epochs, .no_shuffle = 1};
    assert_ok(pg_data_open(&d, golden("data.npz"), &err));
    if (pg_fit(t, d, &fit, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    pg_data_close(d);
}

static size_t read_file(const char *path, char **out)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const size_t n = (size_t)ftell(f);
    rewind(f);
    *out = malloc(n);
    assert_int_equal(fread(*out, 1, n, f), n);
    fclose(f);
    return n;
}

static void assert_same_file(const char *a, const char *b)
{
    char *x, *y;
    const size_t n = read_file(a, &x);
    assert_int_equal(n, read_file(b, &y));
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

typedef struct saving {
    pg_trainer *t;
    pg__save_order order;
} saving;

static pg_status save_job(void *ctx, pg_err *err)
{
    saving *s = ctx;
    pg__saved saved = {0};
    const pg_status st = pg__save(&saved, s->t, &s->order, err);
    pg__saved_fini(&saved);
    return st;
}

static pg_status save_done(void *ctx, pg_status st, const pg_err *why, pg_err *err)
{
    (void)ctx;
    return st == PG_OK ? st : pg_fail(err, st, "%s", why->msg);
}

static void files_hold_what_was_when_it_was_taken(void **state)
{
    static const char *const names[] = {"full.h5", "full.keras", "w.weights.h5", "w.safetensors"};
    pg__snapshot *s = NULL;
    pg__writer *w = NULL;
    pg_err err = {0};
    (void)state;
    pg_trainer *t = opened("adam:learning_rate=0.01");
    assert_ok(pg__writer_new(&w, 0, NULL));
    train(t, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char other[64];
        snprintf(other, sizeof other, "late-%s", names[i]);
        const test_path now = in_dir(names[i]), late = in_dir(other);
        saving job = {t, {.path = late.s, .full = 1, .prove = 1}};
        assert_ok(pg_trainer_save(t, now.s, &(pg_save_opts){.full_model = 1}, &err));
        assert_ok(pg__snapshot_take(&s, t, 1, &err));
        job.order.from = s;
        assert_ok(pg__writer_give(w, &(pg__write_job){&job, save_job, save_done, NULL}, &err));
        t->compiled.optimizer.lr = t->compiled.optimizer.lr * 0.5;
        train(t, 1);
        if (pg__writer_wait(w, &err) != PG_OK)
            fail_msg("%s", err.msg);
        pg__snapshot_drop(s);
        assert_same_file(now.s, late.s);
    }
    pg__writer_free(w);
    pg_trainer_close(t);
}

static void restoring_gives_back_every_bit(void **state)
{
    pg__snapshot *s = NULL, *after = NULL;
    (void)state;
    pg_trainer *t = opened("adam");
    train(t, 1);
    assert_ok(pg__snapshot_take(&s, t, 1, NULL));
    train(t, 1);
    assert_ok(pg__snapshot_take(&after, t, 1, NULL));
    assert_memory_not_equal(s->params, after->params, s->n_bytes);
    pg__snapshot_drop(after);
    assert_ok(pg__snapshot_restore(s, t, NULL));
    assert_ok(pg__snapshot_take(&after, t, 1, NULL));
    assert_memory_equal(s->params, after->params, s->n_bytes);
    assert_memory_equal(s->slots[0], after->slots[0], s->n_bytes);
    assert_memory_equal(s->slots[1], after->slots[1], s->n_bytes);
    pg__snapshot_drop(after);
    pg__snapshot_drop(s);
    pg_trainer_close(t);
}

static void memory_is_used_again(void **state)
{
    pg__snapshot *s = NULL, *second = NULL;
    (void)state;
    pg_trainer *t = opened("adam");
    assert_ok(pg__snapshot_take(&s, t, 1, NULL));
    const pg__snapshot *where = s;
    assert_int_equal(pg__snapshot_bytes(t, 1), 3 * s->n_bytes);
    assert_ptr_equal(pg__snapshot_share(s), s);
    pg__snapshot_drop(s);
    assert_ok(pg__snapshot_take(&second, t, 0, NULL)); /* the first is still in use */
    assert_ptr_not_equal(second, where);
    assert_null(second->slots[0]);
    pg__snapshot_drop(second);
    pg__snapshot_drop(s);
    assert_ok(pg__snapshot_take(&s, t, 0, NULL));
    assert_ptr_equal(s, where);
    assert_null(s->slots[0]); /* nothing of an earlier moment is left in it */
    pg__snapshot_drop(s);
    pg__snapshot_drop(NULL);
    pg__snapshot_forget(t);
    assert_null(t->vars.spare);
    pg_trainer_close(t);
}

static void assert_refuted(pg_trainer *t, const pg__snapshot *s, const char *path, const char *what)
{
    pg_err err = {0};
    assert_fails(PG_E_MISMATCH, pg__prove(t, s, path, 1, &err), &err);
    if (!strstr(err.msg, what))
        fail_msg("%s: %s is not named", err.msg, what);
}

/* Against every format that holds the optimizer's state. */
static void a_proof_sees_every_difference(void **state)
{
    static const char *const names[] = {"proof.h5", "proof.keras"};
    pg__snapshot *s = NULL;
    pg_err err = {0};
    (void)state;
    pg_trainer *t = opened("adam");
    train(t, 1);
    assert_ok(pg__snapshot_take(&s, t, 1, NULL));
    for (size_t i = 0; i < 2; i++) {
        const test_path path = in_dir(names[i]);
        pg__saved saved = {0};
        const pg__save_order order = {.path = path.s, .from = s, .full = 1};
        assert_ok(pg__save(&saved, t, &order, &err));
        assert_string_equal(saved.path, path.s);
        pg__saved_fini(&saved);
        if (pg__prove(t, s, path.s, 1, &err) != PG_OK)
            fail_msg("%s", err.msg);
        const size_t last = t->vars.n_params - 1;
        char *params = s->params, *slots = s->slots[1];
        char *bit =
            params + t->vars.offsets[last] * sizeof(float) + 4 * (t->vars.n_elems[last] - 1);
        *bit ^= 1;
        assert_refuted(t, s, path.s, "it differs from what was trained");
        *bit ^= 1;
        slots[0] ^= 1;
        assert_refuted(t, s, path.s, "it differs from what was trained");
        slots[0] ^= 1;
        s->optimizer.iterations++;
        assert_refuted(t, s, path.s, "and not");
        s->optimizer.iterations--;
    }
    pg__snapshot_drop(s);
    pg_trainer_close(t);
}

static void a_proof_is_strict(void **state)
{
    pg__snapshot *s = NULL;
    pg_err err = {0};
    char other[600];
    (void)state;
    pg_trainer *t = opened("sgd");
    const test_path weights = in_dir("strict.h5");
    assert_ok(pg_trainer_save(t, weights.s, NULL, &err));
    assert_ok(pg__snapshot_take(&s, t, 1, NULL));
    assert_ok(pg__prove(t, s, weights.s, 0, &err));
    assert_refuted(t, s, weights.s, "optimizer state (0 tensors)"); /* no full model */
    snprintf(other, sizeof other, "%s/files/keras-2.2.4/cnn4-g2/template_model.h5", pg_testdata);
    assert_fails(PG_E_MISMATCH, pg__prove(t, s, other, 0, &err), &err);
    assert_fails(PG_E_IO, pg__prove(t, s, in_dir("absent.h5").s, 0, &err), &err);
    pg__snapshot_drop(s);
    pg_trainer_close(t);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir,
                  cmocka_unit_test(files_hold_what_was_when_it_was_taken),
                  cmocka_unit_test(restoring_gives_back_every_bit),
                  cmocka_unit_test(memory_is_used_again),
                  cmocka_unit_test(a_proof_sees_every_difference),
                  cmocka_unit_test(a_proof_is_strict))
