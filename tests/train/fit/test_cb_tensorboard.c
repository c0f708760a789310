/* What the callback writes is read back here by its structure alone; the interop suite lets
 * TensorBoard read it, and compares with what Keras writes for the same training. */
#include "pg_test.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/mem.h"
#include "train/fit/callback.h"
#include "train/fit/histogram.h"

extern const pg__cb_type pg__cb_tensorboard;

static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/pg-test-board-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char cmd[192];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return chdir("/") || system(cmd) ? -1 : 0;
}

static void limit_files(rlim_t n)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){n, RLIM_INFINITY}), 0);
}

/* ---- reading ---- */

static uint64_t varint(const unsigned char **p)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        v |= (uint64_t)(**p & 127) << shift;
        if (*(*p)++ < 128)
            return v;
    }
}

/* "STEP TAG" of a summary event, nothing of the first record. */
static void list_event(char *out, size_t cap, const unsigned char *p)
{
    const size_t n = strlen(out);
    uint64_t step = 0;
    p += 9;
    if (*p == 0x10) {
        p++;
        step = varint(&p);
    }
    if (*p++ != 0x2a)
        return;
    for (int depth = 0; depth < 2; depth++) { /* Summary, Value */
        (void)varint(&p);
        assert_int_equal(*p++, 0x0a);
    }
    const uint64_t len = varint(&p);
    snprintf(out + n, cap - n, "%s%llu %.*s", n ? "\n" : "", (unsigned long long)step, (int)len,
             (const char *)p);
}

/* The path of the n-th file of a folder, and how many there are. */
static size_t find_file(char *out, size_t cap, const char *folder, size_t n)
{
    struct dirent **list;
    size_t count = 0;
    const int all = scandir(folder, &list, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        if (list[i]->d_name[0] != '.' && count++ == n)
            snprintf(out, cap, "%s/%s", folder, list[i]->d_name);
        free(list[i]);
    }
    if (all >= 0)
        free(list);
    return count;
}

static size_t slurp(unsigned char *out, size_t cap, const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(out, 1, cap, f);
    assert_true(n < cap);
    fclose(f);
    return n;
}

/* The events of the only file of a folder, one a line; every record must be whole. */
static const char *events_of(const char *folder)
{
    static char out[8192];
    static unsigned char data[1 << 18];
    char path[512];
    assert_int_equal(find_file(path, sizeof path, folder, 0), 1);
    const size_t n = slurp(data, sizeof data, path);
    out[0] = 0;
    for (size_t at = 0; at < n;) {
        const uint64_t len = pg__le64(data + at);
        assert_true(len < n - at - 12);
        const uint32_t crc = pg__crc32c(0, data + at + 12, (size_t)len);
        assert_int_equal(pg__le32(data + at + 12 + len), (crc >> 15 | crc << 17) + 0xa282ead8u);
        list_event(out, sizeof out, data + at + 12);
        at += (size_t)len + 16;
    }
    return out;
}

/* ---- whole runs ---- */

typedef struct heard {
    char text[4096];
    void (*at_epoch)(size_t epoch); /* before the callback's own epoch ends */
    size_t n_epochs;
} heard;

static pg_status hear(void *user, const pg_event *e, pg_err *err)
{
    heard *h = user;
    const size_t n = strlen(h->text);
    (void)err;
    snprintf(h->text + n, sizeof h->text - n, "%d %zu %s\n", (int)e->kind, e->epoch, e->text);
    return PG_OK;
}

static pg_status end_epoch(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    heard *h = user;
    (void)logs;
    (void)err;
    h->n_epochs++;
    if (h->at_epoch)
        h->at_epoch(epoch);
    return PG_OK;
}

static pg_trainer *open_trainer(const char *model_name)
{
    char model[512];
    pg_trainer *t = NULL;
    snprintf(model, sizeof model, "%s/%s", pg_testdata, model_name);
    const pg_train_opts opts = {
        .model = model, .loss = "categorical_crossentropy", .metrics = "accuracy", .threads = 1};
    assert_ok(pg_trainer_open(&t, &opts, NULL));
    return t;
}

/* Three epochs of two batches, with validation. */
static pg_status fit(const char *callback, heard *h, pg_err *err)
{
    char data[512];
    pg_data *d = NULL;
    pg_trainer *t = open_trainer("golden/mlp_digits/model.json");
    const pg_callback cb = {.user = h, .event = hear, .epoch_end = end_epoch};
    const pg_fit_opts opts = {.epochs = 3,
                              .batch_size = 50,
                              .steps_per_epoch = 2,
                              .validation_split = 0.2,
                              .callbacks = &callback,
                              .n_callbacks = 1};
    snprintf(data, sizeof data, "%s/golden/mlp_digits/data.npz", pg_testdata);
    assert_ok(pg_data_open(&d, data, NULL));
    const pg_status st = pg_fit(t, d, &opts, &cb, err);
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

#define VALIDATION                                                           \
    "2 evaluation_loss_vs_iterations\n2 evaluation_accuracy_vs_iterations\n" \
    "0 epoch_loss\n0 epoch_accuracy\n"                                       \
    "4 evaluation_loss_vs_iterations\n4 evaluation_accuracy_vs_iterations\n" \
    "1 epoch_loss\n1 epoch_accuracy\n"                                       \
    "6 evaluation_loss_vs_iterations\n6 evaluation_accuracy_vs_iterations\n" \
    "2 epoch_loss\n2 epoch_accuracy"
#define EPOCH(e) e " epoch_loss\n" e " epoch_accuracy\n" e " epoch_lr"

#define WEIGHTS(e)                                                                            \
    e " fc1/kernel_0/histogram\n" e " fc1/bias_0/histogram\n" e " fc2/kernel_0/histogram\n" e \
      " fc2/bias_0/histogram\n" e " probs/kernel_0/histogram\n" e " probs/bias_0/histogram"

static void writes_keras_folders_tags_and_steps(void **state)
{
    (void)state;
    heard h = {0};
    assert_ok(fit("TensorBoard", &h, NULL));
    assert_string_equal(events_of("logs/train"),
                        "0 keras\n" EPOCH("0") "\n" EPOCH("1") "\n" EPOCH("2"));
    assert_string_equal(events_of("logs/validation"), VALIDATION);
    assert_string_equal(h.text, "");
}

static void writes_histograms_every_so_many_epochs(void **state)
{
    (void)state;
    heard h = {0};
    assert_ok(fit("TensorBoard:log_dir=a/b/,histogram_freq=2,write_graph=False", &h, NULL));
    assert_string_equal(events_of("a/b/train"), EPOCH("0") "\n" WEIGHTS("0") "\n" EPOCH(
                                                    "1") "\n" EPOCH("2") "\n" WEIGHTS("2"));
}

static void writes_batches_every_so_many_across_epochs(void **state)
{
    (void)state;
    heard h = {0};
    assert_ok(fit("TensorBoard:update_freq=3,write_graph=false", &h, NULL));
    assert_string_equal(events_of("logs/train"),
                        EPOCH("0") "\n3 batch_loss\n3 batch_accuracy\n" EPOCH(
                            "1") "\n6 batch_loss\n6 batch_accuracy\n" EPOCH("2"));
    assert_ok(fit("TensorBoard:log_dir=all,update_freq=batch,write_steps_per_second", &h, NULL));
    const char *got = events_of("all/train");
    assert_non_null(strstr(got, "\n1 batch_steps_per_second\n1 batch_loss\n1 batch_accuracy\n2 "));
    assert_non_null(strstr(got, "\n6 batch_accuracy\n"));
    assert_non_null(strstr(got, "\n0 epoch_lr\n0 epoch_steps_per_second\n"));
}

static void says_what_it_does_not_write(void **state)
{
    (void)state;
    heard h = {0};
    assert_ok(fit("{\"class_name\": \"TensorBoard\", \"config\": {\"write_images\": true, "
                  "\"profile_batch\": \"2,4\", \"embeddings_freq\": 0, \"update_freq\": \"epoch\", "
                  "\"embeddings_metadata\": null}}",
                  &h, NULL));
    assert_string_equal(h.text, "1 0 TensorBoard: not supported: write_images, profile_batch\n");
}

static void refuses_what_cannot_be_meant(void **state)
{
    (void)state;
    heard h = {0};
    pg_err err = {0};
    assert_fails(PG_E_ARG, fit("TensorBoard:histogram_frq=1", &h, &err), &err);
    assert_non_null(strstr(err.msg, "did you mean histogram_freq?"));
    assert_fails(PG_E_ARG, fit("TensorBoard:update_freq=often", &h, &err), &err);
    assert_fails(PG_E_ARG, fit("TensorBoard:log_dir=", &h, &err), &err);
    assert_int_equal(h.n_epochs, 0);
}

/* ---- faults ---- */

static void a_folder_that_cannot_be_made_is_an_error_before_training(void **state)
{
    (void)state;
    heard h = {0};
    pg_err err = {0};
    FILE *f = fopen("logs", "w");
    assert_non_null(f);
    fclose(f);
    assert_fails(PG_E_IO, fit("TensorBoard", &h, &err), &err);
    assert_non_null(strstr(err.msg, "logs/train: cannot make this folder"));
    assert_int_equal(h.n_epochs, 0);
}

static void fill_disk_at_one(size_t epoch)
{
    limit_files(epoch == 1 ? 8 : RLIM_INFINITY);
}

static void what_could_not_be_written_is_written_with_the_next_epoch(void **state)
{
    (void)state;
    heard h = {.at_epoch = fill_disk_at_one};
    assert_ok(fit("TensorBoard:write_graph=false", &h, NULL));
    assert_string_equal(events_of("logs/train"), EPOCH("0") "\n" EPOCH("1") "\n" EPOCH("2"));
    assert_string_equal(events_of("logs/validation"), VALIDATION);
    assert_int_equal(strncmp(h.text, "1 1 TensorBoard: logs/train/events.out.tfevents.", 48), 0);
    assert_non_null(strstr(h.text, ": File too large; will retry at the end of the next epoch\n"));
    assert_null(strstr(h.text, " 2 TensorBoard"));
}

static void fill_disk_from_one_on(size_t epoch)
{
    limit_files(epoch >= 1 ? 8 : RLIM_INFINITY);
}

static void what_is_missing_at_the_end_is_an_error_behind_the_last_epoch(void **state)
{
    (void)state;
    heard h = {.at_epoch = fill_disk_from_one_on};
    pg_err err = {0};
    const pg_status st = fit("TensorBoard:write_graph=false", &h, &err);
    limit_files(RLIM_INFINITY);
    assert_int_equal(st, PG_E_IO);
    assert_non_null(strstr(err.msg, "logs/train/events.out.tfevents."));
    assert_int_equal(h.n_epochs, 3);
    assert_non_null(strstr(events_of("logs/train"), EPOCH("0")));
}

static void remove_logs_at_one(size_t epoch)
{
    if (epoch == 1)
        assert_int_equal(system("rm -r logs"), 0);
}

static void a_folder_that_was_removed_is_made_again(void **state)
{
    (void)state;
    heard h = {.at_epoch = remove_logs_at_one};
    assert_ok(fit("TensorBoard", &h, NULL));
    assert_string_equal(events_of("logs/train"), EPOCH("1") "\n" EPOCH("2"));
    assert_non_null(strstr(h.text, "1 1 TensorBoard: the event file was removed; continuing"));
}

/* ---- going on ---- */

/* A callback without a run around it. */
typedef struct alone {
    unsigned char self[8192];
    heard h;
    pg_callback cb;
    pg__fit f;
} alone;

static void begin(alone *a, pg_trainer *t, const char *text, pg__archive *kept)
{
    pg__settings s;
    *a = (alone){.f = {.t = t}};
    a->cb = (pg_callback){.user = &a->h, .event = hear};
    a->f.cb = &a->cb;
    assert_true(pg__cb_tensorboard.n_bytes <= sizeof a->self);
    assert_ok(pg__settings_of(&s, text, NULL));
    assert_ok(pg__cb_tensorboard.open(a->self, &a->f, &s, NULL));
    assert_ok(pg__settings_end(&s, NULL));
    pg__settings_fini(&s);
    if (kept) {
        pg__cb_tensorboard.keep(a->self, &a->f, kept);
        assert_ok(kept->st);
        a->f.resumed = 1;
    }
    assert_ok(pg__cb_tensorboard.train_begin(a->self, &a->f, NULL));
}

static void run_epoch(alone *a, size_t epoch)
{
    static const char *const names[] = {"loss"};
    const pg_logs logs = {names, &(double){0.5}, 1};
    a->f.epoch = epoch;
    assert_ok(pg__cb_tensorboard.epoch_begin(a->self, &a->f, NULL));
    assert_ok(pg__cb_tensorboard.batch_end(a->self, &a->f, &logs, NULL));
    assert_ok(pg__cb_tensorboard.epoch_end(a->self, &a->f, &logs, NULL));
}

static void end(alone *a)
{
    pg__cb_tensorboard.close(a->self, &a->f);
}

static pg__archive read_back(pg__archive *written)
{
    assert_ok(written->st);
    return (pg__archive){.in = (const unsigned char *)written->out.s, .n = written->out.n};
}

static void a_resumed_run_cuts_its_file_back_and_goes_on(void **state)
{
    (void)state;
    alone a;
    pg_trainer *t = open_trainer("golden/mlp_digits/model.json");
    pg__archive kept = {.writes = 1};
    begin(&a, t, "TensorBoard:write_graph=false,update_freq=2", NULL);
    run_epoch(&a, 0);
    pg__cb_tensorboard.keep(a.self, &a.f, &kept);
    run_epoch(&a, 1); /* and then it was killed */
    end(&a);
    pg__archive in = read_back(&kept);
    begin(&a, t, "TensorBoard:write_graph=false,update_freq=2", &in);
    assert_string_equal(events_of("logs/train"), "0 epoch_loss");
    run_epoch(&a, 1);
    end(&a);
    assert_string_equal(events_of("logs/train"), "0 epoch_loss\n2 batch_loss\n1 epoch_loss");
    assert_string_equal(a.h.text, "");
    pg__archive_fini(&kept);
    pg_trainer_close(t);
}

static void what_was_pending_is_written_by_the_resumed_run(void **state)
{
    (void)state;
    alone a;
    pg_trainer *t = open_trainer("golden/mlp_digits/model.json");
    pg__archive kept = {.writes = 1};
    begin(&a, t, "TensorBoard:write_graph=false", NULL);
    run_epoch(&a, 0);
    limit_files(8);
    run_epoch(&a, 1);
    pg__cb_tensorboard.keep(a.self, &a.f, &kept);
    end(&a);
    limit_files(RLIM_INFINITY);
    pg__archive in = read_back(&kept);
    begin(&a, t, "TensorBoard:write_graph=false", &in);
    run_epoch(&a, 2);
    end(&a);
    assert_string_equal(events_of("logs/train"), "0 epoch_loss\n1 epoch_loss\n2 epoch_loss");
    pg__archive_fini(&kept);
    pg_trainer_close(t);
}

static void a_file_that_is_gone_or_too_short_is_followed_by_a_new_one(void **state)
{
    (void)state;
    alone a;
    char path[512];
    pg_trainer *t = open_trainer("golden/mlp_digits/model.json");
    pg__archive kept = {.writes = 1};
    begin(&a, t, "TensorBoard:write_graph=false", NULL);
    run_epoch(&a, 0);
    pg__cb_tensorboard.keep(a.self, &a.f, &kept);
    end(&a);
    assert_int_equal(find_file(path, sizeof path, "logs/train", 0), 1);
    assert_int_equal(truncate(path, 60), 0);
    pg__archive in = read_back(&kept);
    begin(&a, t, "TensorBoard:write_graph=false", &in);
    assert_non_null(strstr(a.h.text, "is shorter than it was written; continuing in a new file"));
    end(&a);
    assert_int_equal(find_file(path, sizeof path, "logs/train", 0), 2);
    in = read_back(&kept);
    begin(&a, t, "TensorBoard:write_graph=false,log_dir=other", &in);
    run_epoch(&a, 1);
    end(&a);
    assert_string_equal(events_of("other/train"), "1 epoch_loss");
    pg__archive_fini(&kept);
    pg_trainer_close(t);
}

static void a_damaged_state_is_refused(void **state)
{
    (void)state;
    alone a;
    pg_trainer *t = open_trainer("golden/mlp_digits/model.json");
    pg__archive kept = {.writes = 1};
    begin(&a, t, "TensorBoard", NULL);
    pg__cb_tensorboard.keep(a.self, &a.f, &kept);
    for (size_t n = 0; n < kept.out.n; n++) {
        pg__archive in = read_back(&kept);
        in.n = n;
        pg__cb_tensorboard.keep(a.self, &a.f, &in);
        assert_int_equal(in.st, PG_E_FORMAT);
    }
    end(&a);
    pg__archive_fini(&kept);
    pg_trainer_close(t);
}

/* ---- histograms ---- */

static void put_kernel(pg_trainer *t, const double *some, size_t n)
{
    double v[64 * 64];
    const size_t n_elems = t->vars.n_elems[t->vars.order[0]];
    assert_true(n_elems <= sizeof v / sizeof *v);
    for (size_t i = 0; i < n_elems; i++)
        v[i] = some[i % n];
    assert_ok(pg__param_put(t, t->vars.order[0], v));
}

static void buckets_are_of_one_width_and_the_last_holds_the_greatest(void **state)
{
    (void)state;
    double rows[PG_EVENT_BUCKETS][3];
    pg_trainer *t = open_trainer("golden/mlp_digits/model.json");
    const double n = (double)t->vars.n_elems[t->vars.order[0]];
    put_kernel(t, (const double[]){-1, -0.96875, 0, 2.75, NAN, INFINITY, -INFINITY, -1}, 8);
    assert_ok(pg__param_histogram(rows, t, t->vars.order[0]));
    for (size_t i = 0; i < PG_EVENT_BUCKETS; i++) {
        assert_true(rows[i][0] == -1 + 0.125 * (double)i);
        assert_true(rows[i][1] == -1 + 0.125 * (double)(i + 1));
        const double share = i == 0 ? 3 : i == 8 || i == 29 ? 1 : 0;
        assert_true(rows[i][2] == share * n / 8);
    }
    pg_trainer_close(t);
}

static void equal_values_stand_in_the_last_bucket(void **state)
{
    (void)state;
    double rows[PG_EVENT_BUCKETS][3];
    pg_trainer *t = open_trainer("golden/mlp_digits/model.json");
    put_kernel(t, &(double){0.5}, 1);
    assert_ok(pg__param_histogram(rows, t, t->vars.order[0]));
    for (size_t i = 0; i < PG_EVENT_BUCKETS; i++) {
        assert_true(rows[i][0] == 0.5 && rows[i][1] == 0.5);
        assert_true(rows[i][2] == (i == 29 ? (double)t->vars.n_elems[t->vars.order[0]] : 0));
    }
    put_kernel(t, &(double){NAN}, 1);
    assert_ok(pg__param_histogram(rows, t, t->vars.order[0]));
    for (size_t i = 0; i < PG_EVENT_BUCKETS; i++)
        assert_true(rows[i][0] == 0 && rows[i][1] == 0 && rows[i][2] == 0);
    pg_trainer_close(t);
}

/* Two nested models with a layer "d" each, and one "d" beside them. */
static void weights_of_one_name_get_tags_of_their_own(void **state)
{
    (void)state;
#define DENSE(in)                                                              \
    "{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": 4, " \
    "\"activation\": \"linear\", \"batch_input_shape\": [null, " in "]}}"
#define NESTED(name)                                                  \
    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"" name \
    "\", \"layers\": [" DENSE("4") "]}}"
    alone a;
    pg_trainer *t = NULL;
    FILE *f = fopen("model.json", "w");
    assert_non_null(f);
    fprintf(f,
            "{\"class_name\": \"Sequential\", \"keras_version\": \"2.15.0\", \"config\": "
            "{\"name\": \"m\", \"layers\": [%s, %s, %s]}}",
            DENSE("4"), NESTED("left"), NESTED("right"));
    fclose(f);
    assert_ok(pg_trainer_open(&t, &(pg_train_opts){.model = "model.json", .loss = "mse"}, NULL));
    begin(&a, t, "TensorBoard:histogram_freq=1,write_graph=false", NULL);
    run_epoch(&a, 0);
    end(&a);
    assert_string_equal(events_of("logs/train"),
                        "0 epoch_loss\n0 d/kernel_0/histogram\n0 d/bias_0/histogram\n"
                        "0 left/d/kernel_0/histogram\n0 left/d/bias_0/histogram\n"
                        "0 right/d/kernel_0/histogram\n0 right/d/bias_0/histogram");
    pg_trainer_close(t);
}

static int holds(const unsigned char *data, size_t n, const char *text)
{
    return memmem(data, n, text, strlen(text)) != NULL;
}

/* Keras to 2.2.2 writes a Sequential model as a list of layers, which TensorBoard does not read. */
static void the_graph_of_a_list_of_layers_gets_a_name(void **state)
{
    (void)state;
    alone a;
    char path[512];
    unsigned char data[4096] = {0};
    pg_trainer *t = NULL;
    FILE *f = fopen("model.json", "w");
    assert_non_null(f);
    fprintf(f, "{\"class_name\": \"Sequential\", \"keras_version\": \"2.1.6\", \"config\": [%s]}",
            DENSE("4"));
    fclose(f);
    assert_ok(pg_trainer_open(&t, &(pg_train_opts){.model = "model.json", .loss = "mse"}, NULL));
    begin(&a, t, "TensorBoard", NULL);
    end(&a);
    assert_int_equal(find_file(path, sizeof path, "logs/train", 0), 1);
    const size_t n = slurp(data, sizeof data, path);
    assert_true(holds(data, n, "\"config\": {\"name\": \"sequential\", \"layers\": [{"));
    assert_true(holds(data, n, "}}]}, \"keras_version\": \"2.1.6\"}"));
    pg_trainer_close(t);
}

static int ignore_size_limits(void **state)
{
    (void)state;
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? -1 : 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

PG_TEST_MAIN_WITH(ignore_size_limits, NULL, TEST(writes_keras_folders_tags_and_steps),
                  TEST(writes_histograms_every_so_many_epochs),
                  TEST(writes_batches_every_so_many_across_epochs),
                  TEST(says_what_it_does_not_write), TEST(refuses_what_cannot_be_meant),
                  TEST(a_folder_that_cannot_be_made_is_an_error_before_training),
                  TEST(what_could_not_be_written_is_written_with_the_next_epoch),
                  TEST(what_is_missing_at_the_end_is_an_error_behind_the_last_epoch),
                  TEST(a_folder_that_was_removed_is_made_again),
                  TEST(a_resumed_run_cuts_its_file_back_and_goes_on),
                  TEST(what_was_pending_is_written_by_the_resumed_run),
                  TEST(a_file_that_is_gone_or_too_short_is_followed_by_a_new_one),
                  TEST(a_damaged_state_is_refused),
                  TEST(buckets_are_of_one_width_and_the_last_holds_the_greatest),
                  TEST(equal_values_stand_in_the_last_bucket),
                  TEST(weights_of_one_name_get_tags_of_their_own),
                  TEST(the_graph_of_a_list_of_layers_gets_a_name))
