/* Training on several devices of the GPU of plain C (host.h): the same bits, however many share the
 * work, with --deterministic; and what is recorded is replayed. */
#include "pg_test.h"

#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "base/mem.h"
#include "pg/predict.h"

#define N_VARIABLES 4 /* of mlp_digits */
#define N_STEPS     6

typedef struct how {
    const char *run, *devices, *optimizer;
    size_t accumulate;
    int deterministic, cpu_merge, batch_norm;
    double *loss; /* of all rows, after the epoch; NULL: not wanted */
    int penalised, untuned;
} how;

/* The run's model with a regularizer for every kernel; path: where it is written. */
static void penalise(char path[600])
{
    static const char no[] = "\"kernel_regularizer\": null";
    static const char yes[] = "\"kernel_regularizer\": {\"class_name\": \"L1L2\", "
                              "\"config\": {\"l1\": 0.001, \"l2\": 0.01}}";
    char *text = pg__mem_array(1 << 20, 1);
    FILE *from = fopen(path, "r");
    text[fread(text, 1, (1 << 20) - 1, from)] = '\0';
    fclose(from);
    snprintf(path, 600, "/tmp/pg-penalised-%d.json", (int)getpid());
    FILE *to = fopen(path, "w");
    const char *at = text;
    for (const char *next; (next = strstr(at, no)); at = next + sizeof no - 1)
        fprintf(to, "%.*s%s", (int)(next - at), at, yes);
    fputs(at, to);
    fclose(to);
    pg__mem_free(text);
}

static pg_trainer *open_trainer(const how *h, pg_data **data)
{
    char model[600], weights[600], data_file[600];
    pg_trainer *t = NULL;
    pg_err err = {0};
    snprintf(model, sizeof model, "%s/golden/%s/model.json", pg_testdata, h->run);
    snprintf(weights, sizeof weights, "%s/golden/%s/init_weights.h5", pg_testdata, h->run);
    snprintf(data_file, sizeof data_file, "%s/golden/%s/data.npz", pg_testdata, h->run);
    if (h->penalised)
        penalise(model);
    const pg_train_opts opts = {.model = model,
                                .weights = weights,
                                .loss = "categorical_crossentropy",
                                .metrics = "accuracy",
                                .optimizer = h->optimizer,
                                .devices = h->devices,
                                .deterministic = h->deterministic,
                                .cpu_merge = h->cpu_merge,
                                .batch_norm = h->batch_norm,
                                .gpu_tune = !h->untuned};
    if (pg_trainer_open(&t, &opts, &err) != PG_OK)
        fail_msg("%s: %s", h->devices, err.msg);
    assert_ok(pg_data_open(data, data_file, &err));
    if (h->penalised)
        unlink(model);
    return t;
}

/* One behind the other. */
static double *weights_of(pg_trainer *t, size_t *n_out)
{
    size_t n = 0;
    for (size_t i = 0; i < pg_trainer_n_weights(t); i++)
        n += (size_t)(pg_trainer_weight(t, i)->n_bytes / sizeof(float));
    double *out = pg__mem_array(n, sizeof *out), *at = out;
    for (size_t i = 0; i < pg_trainer_n_weights(t); i++) {
        const size_t some = (size_t)(pg_trainer_weight(t, i)->n_bytes / sizeof(float));
        assert_ok(pg_trainer_read(t, i, at, some, NULL));
        at += some;
    }
    *n_out = n;
    return out;
}

/* The weights after one epoch. */
static double *train(const how *h, size_t *n_out)
{
    pg_data *data = NULL;
    pg_trainer *t = open_trainer(h, &data);
    pg_err err = {0};
    const pg_fit_opts fit = {
        .batch_size = 33, .epochs = 1, .steps_per_epoch = N_STEPS, .accumulate = h->accumulate};
    if (pg_fit(t, data, &fit, NULL, &err) != PG_OK)
        fail_msg("%s: %s", h->devices, err.msg);
    double *out = weights_of(t, n_out);
    if (h->loss) {
        pg_logs logs = {0};
        assert_ok(pg_evaluate(t, data, NULL, &logs, &err));
        *h->loss = logs.values[0];
    }
    pg_data_close(data);
    pg_trainer_close(t);
    return out;
}

static void check(const how *one, const how *other, double bound)
{
    size_t n, m;
    double *a = train(one, &n), *b = train(other, &m), worst = 0, top = 0;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(a[i] - b[i]));
        top = fmax(top, fabs(a[i]));
        if (isnan(b[i]))
            worst = INFINITY;
    }
    if (!(worst <= bound * top))
        fail_msg("%s on %s and on %s: %.3g apart", one->run, one->devices, other->devices, worst);
    pg__mem_free(a);
    pg__mem_free(b);
}

static const char *const many[] = {"cuda:0,cuda:0", "cuda:0,cuda:1", "cuda:0,cuda:0,cuda:0",
                                   "cuda:1,cuda:0,cuda:1,cuda:0"};

static void deterministic_replicas_give_the_same_bits(void **state)
{
    static const char *const runs[] = {"mlp_digits", "cnn_bn"};
    (void)state;
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            check(&(how){runs[r], "cuda:0", "adam", .deterministic = 1, .cpu_merge = 0},
                  &(how){runs[r], many[i], "adam", .deterministic = 1, .cpu_merge = 0}, 0);
}

/* Clipping needs whole gradients, on every device. */
static void replicas_train_as_one(void **state)
{
    static const char *const rules[] = {"sgd:momentum=0.9", "adam:clipnorm=0.1",
                                        "sgd:global_clipnorm=0.5"};
    (void)state;
    for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            for (int merge = 0; merge < 2; merge++)
                check(&(how){"mlp_digits", "cpu:0", rules[r], .cpu_merge = 0},
                      &(how){"mlp_digits", many[i], rules[r], .cpu_merge = merge}, 1e-4);
}

/* Not bitwise: what lanes bring to a meeting is summed as it comes. */
static void statistics_of_the_whole_batch_are_those_of_one_device(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        for (int merge = 0; merge < 2; merge++)
            check(&(how){"cnn_bn", "cpu:0", "sgd", .batch_norm = 2},
                  &(how){"cnn_bn", many[i], "sgd", .cpu_merge = merge, .batch_norm = 2}, 1e-4);
    size_t n, m, differ = 0; /* each replica's own are others */
    double *own = train(&(how){"cnn_bn", "cuda:0,cuda:1", "sgd", .batch_norm = 1}, &n);
    double *all = train(&(how){"cnn_bn", "cuda:0,cuda:1", "sgd", .batch_norm = 2}, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        differ += fabs(own[i] - all[i]) > 1e-4;
    assert_true(differ > 0);
    pg__mem_free(own);
    pg__mem_free(all);
}

static void parts_of_a_batch_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        check(&(how){"mlp_digits", "cuda:0", "adam", .accumulate = 3, .deterministic = 1,
                     .cpu_merge = 0},
              &(how){"mlp_digits", many[i], "adam", .accumulate = 3, .deterministic = 1,
                     .cpu_merge = 0},
              0);
}

/* Two steps go by before there is anything to replay. */
static void steps_are_recorded_once(void **state)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    size_t n, n_recorded = 0, n_queued = 0;
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(&(how){"mlp_digits", "cuda:0", "sgd", .cpu_merge = 0}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    FILE *f = fdopen(fd, "r");
    while (fgets(line, sizeof line, f)) {
        n_recorded += strncmp(line, "record ", 7) == 0 && strstr(line, "softmax") != NULL;
        n_queued += strncmp(line, "queue ", 6) == 0 && strstr(line, " softmax on") != NULL;
    }
    fclose(f);
    unlink(path);
    assert_int_equal(n_recorded, 1);
    assert_int_equal(n_queued, 1);
}

/* Lines of a log of host.h that begin so, of two devices that train. */
static size_t n_lines(int untuned, const char *with)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    size_t n, found = 0;
    FILE *f = fdopen(mkstemp(path), "r");
    assert_non_null(f);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(&(how){"mlp_digits", "cuda:0,cuda:1", "sgd", .untuned = untuned}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    while (fgets(line, sizeof line, f))
        found += strncmp(line, with, strlen(with)) == 0;
    fclose(f);
    unlink(path);
    return found;
}

/* Nor does a sum begin before the backward pass has ended: one for each step and device. */
static void nothing_is_recorded_unless_asked(void **state)
{
    (void)state;
    assert_int_equal(setenv("PG_BUCKET_BYTES", "1", 1), 0);
    assert_int_equal(n_lines(1, "record "), 0);
    assert_true(n_lines(0, "record ") > 0);
    assert_int_equal(n_lines(1, "queue coll_sum "), 2 * N_STEPS);
    assert_true(n_lines(0, "queue coll_sum ") > 2 * N_STEPS);
    assert_int_equal(unsetenv("PG_BUCKET_BYTES"), 0);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        check(&(how){"cnn_bn", many[i], "adam", .untuned = 1},
              &(how){"cnn_bn", many[i], "adam", .untuned = 0}, 1e-4);
}

/* The weights after three epochs with one trainer; in the second, classes have no weights. */
static double *train_by_turns(const char *devices, size_t *n_out)
{
    static const char weights[] = "0=9,1=1,2=1,3=1,4=1,5=1,6=1,7=1,8=1,9=0.1";
    const how h = {"mlp_digits", devices, "sgd", .deterministic = 1};
    pg_data *data = NULL;
    pg_trainer *t = open_trainer(&h, &data);
    for (size_t k = 0; k < 3; k++) {
        const pg_fit_opts fit = {.batch_size = 33,
                                 .epochs = 1,
                                 .steps_per_epoch = N_STEPS,
                                 .class_weight = k == 1 ? NULL : weights};
        assert_ok(pg_fit(t, data, &fit, NULL, NULL));
    }
    double *out = weights_of(t, n_out);
    pg_data_close(data);
    pg_trainer_close(t);
    return out;
}

/* A recording may hold what its plans loaded. */
static void recordings_go_before_their_plans(void **state)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    size_t n, n_plans = 0, n_recordings = 0;
    FILE *f = fdopen(mkstemp(path), "r");
    (void)state;
    assert_non_null(f);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(&(how){"cnn_bn", "cuda:0", "sgd", .cpu_merge = 0}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    while (fgets(line, sizeof line, f)) {
        n_plans += strncmp(line, "drop plan ", 10) == 0;
        if (strncmp(line, "drop recording ", 15) == 0) {
            n_recordings++;
            assert_int_equal(n_plans, 0);
        }
    }
    fclose(f);
    unlink(path);
    assert_true(n_plans > 0 && n_recordings > 0);
}

/* As if no step were recorded. */
static void weights_of_rows_come_and_go(void **state)
{
    static const char *const some[] = {"cuda:0", "cuda:0,cuda:1"};
    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        size_t n, m;
        double *recorded = train_by_turns(some[i], &n);
        assert_int_equal(setenv("FAKE_CUDA_REFUSES", "record", 1), 0);
        double *want = train_by_turns(some[i], &m);
        assert_int_equal(unsetenv("FAKE_CUDA_REFUSES"), 0);
        assert_int_equal(n, m);
        assert_memory_equal(recorded, want, n * sizeof *want);
        pg__mem_free(recorded);
        pg__mem_free(want);
    }
}

/* What regularizers add to the loss and to gradients, alone and where devices share the work. */
static void regularizers_count(void **state)
{
    static const char *const few[] = {"cuda:0", "cuda:0,cuda:1", "cuda:0,cuda:0"};
    double plain, want, got;
    size_t n;
    (void)state;
    pg__mem_free(train(&(how){"mlp_digits", "cpu:0", "sgd", .loss = &plain}, &n));
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        check(&(how){"mlp_digits", "cpu:0", "sgd", .loss = &want, .penalised = 1},
              &(how){"mlp_digits", few[i], "sgd", .loss = &got, .penalised = 1}, 1e-4);
        if (!(want > plain + 0.1) || !(fabs(got - want) < 1e-5 * want))
            fail_msg("loss %.9g on %s, %.9g on the CPU, %.9g without", got, few[i], want, plain);
    }
}

/* ---- what is waited for ---- */

/* Copies to the host in a run. */
static size_t n_fetched(const char *optimizer, const char *devices)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    size_t n, found = 0;
    FILE *f = fdopen(mkstemp(path), "r");
    assert_non_null(f);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(&(how){"mlp_digits", devices, optimizer, .cpu_merge = 0}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    while (fgets(line, sizeof line, f))
        found += strncmp(line, "queue get ", 10) == 0;
    fclose(f);
    unlink(path);
    return found;
}

static void norms_stay_on_the_device(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        const size_t plain = n_fetched("sgd", many[i]);
        assert_true(plain > 0);
        assert_int_equal(n_fetched("sgd:clipnorm=0.1", many[i]), plain);
        assert_int_equal(n_fetched("sgd:global_clipnorm=0.5", many[i]), plain);
    }
}

/* ---- memory ---- */

/* Evaluates in batches of these sizes, one after the other. */
static void evaluate(const size_t *rows, size_t n)
{
    pg_data *data = NULL;
    pg_trainer *t = open_trainer(&(how){"mlp_digits", "cuda:0", "sgd", .deterministic = 1}, &data);
    for (size_t i = 0; i < n; i++) {
        pg_logs logs = {0};
        pg_err err = {0};
        if (pg_evaluate(t, data, &(pg_predict_opts){.batch_size = rows[i]}, &logs, &err) != PG_OK)
            fail_msg("batches of %zu: %s", rows[i], err.msg);
    }
    pg_data_close(data);
    pg_trainer_close(t);
}

/* The most that was in use of the first device, as a log says. */
static unsigned long long most_of_log(const char *path)
{
    char line[256];
    unsigned long long n, most = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "memory %llu on 0", &n) == 1 && n > most)
            most = n;
    fclose(f);
    return most;
}

/* The same while it evaluated such batches. */
static void most_used(size_t rows, char bytes[24])
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    evaluate(&rows, 1);
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    snprintf(bytes, 24, "%llu", most_of_log(path));
    unlink(path);
}

static void smaller_batches_before_a_larger_one_take_no_room(void **state)
{
    char room[24];
    (void)state;
    most_used(150, room);
    assert_int_equal(setenv("FAKE_CUDA_MEMORY", room, 1), 0);
    evaluate((const size_t[]){75, 150, 30, 150}, 4);
    assert_int_equal(unsetenv("FAKE_CUDA_MEMORY"), 0);
}

/* What changes from step to step is copied from memory that copies need not wait for. */
static void steps_are_queued_without_waiting(void **state)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    size_t n, n_replays = 0;
    FILE *f = fdopen(mkstemp(path), "r");
    (void)state;
    assert_non_null(f);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(&(how){"cnn_bn", "cuda:0", "adam", .cpu_merge = 0}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    while (fgets(line, sizeof line, f)) {
        n_replays += strncmp(line, "queue replay ", 13) == 0;
        if (n_replays > 0 && strncmp(line, "queue put waits ", 16) == 0)
            fail_msg("behind %zu steps: %s", n_replays, line);
    }
    assert_true(n_replays > 0);
    fclose(f);
    unlink(path);
}

/* ---- sums in buckets ---- */

/* It would wait for all work of a device, even for a sum whose other devices never come. */
static void no_memory_is_asked_for_behind_a_sum(void **state)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    size_t n, n_sums = 0;
    FILE *f = fdopen(mkstemp(path), "r");
    (void)state;
    assert_non_null(f);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(
        &(how){"mlp_digits", "cuda:0,cuda:1", "sgd:global_clipnorm=0.5", .cpu_merge = 0}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    while (fgets(line, sizeof line, f)) {
        n_sums += strncmp(line, "queue coll_sum ", 15) == 0;
        if (n_sums > 0 && strncmp(line, "memory ", 7) == 0)
            fail_msg("behind a sum: %s", line);
    }
    assert_true(n_sums > 0);
    fclose(f);
    unlink(path);
}

/* Every variable by itself, or as few buckets as can be: the same sum of each number. */
static void the_size_of_buckets_does_not_matter(void **state)
{
    static const char *const runs[] = {"mlp_digits", "cnn_bn"};
    (void)state;
    for (size_t r = 0; r < 2; r++) {
        const how h = {runs[r], "cuda:1,cuda:0", "adam:global_clipnorm=0.5", .cpu_merge = 0};
        size_t n, m;
        assert_int_equal(setenv("PG_BUCKET_BYTES", "1", 1), 0);
        double *small = train(&h, &n);
        assert_int_equal(setenv("PG_BUCKET_BYTES", "1000000000", 1), 0);
        double *large = train(&h, &m);
        assert_int_equal(unsetenv("PG_BUCKET_BYTES"), 0);
        assert_int_equal(n, m);
        assert_memory_equal(small, large, n * sizeof *small);
        pg__mem_free(small);
        pg__mem_free(large);
    }
}

/* Averages of BatchNormalization come along with the sums: as replicas of the CPU move them. */
static void averages_move_as_on_the_cpu(void **state)
{
    (void)state;
    assert_int_equal(setenv("PG_BUCKET_BYTES", "1", 1), 0);
    check(&(how){"cnn_bn", "cpu:0,cpu:1", "sgd", .cpu_merge = 0},
          &(how){"cnn_bn", "cuda:0,cuda:1", "sgd", .cpu_merge = 0}, 1e-4);
    assert_int_equal(unsetenv("PG_BUCKET_BYTES"), 0);
}

/* What a log of host.h says of the first device and its stream for sums, in order: R for a recorded
 * piece that is queued, S for a sum. */
static char *order_of_work(const char *path)
{
    char line[256], *out = pg__mem_array(1 << 16, 1);
    unsigned of[2] = {UINT_MAX, UINT_MAX}, on;
    size_t n = 0;
    FILE *f = fopen(path, "r");
    for (int pass = 0; pass < 2; pass++, rewind(f))
        while (fgets(line, sizeof line, f)) {
            const int what = sscanf(line, "queue replay on %u", &on) == 1     ? 0
                             : sscanf(line, "queue coll_sum on %u", &on) == 1 ? 1
                                                                              : 2;
            if (what < 2 && pass == 0 && on < of[what])
                of[what] = on;
            if (what < 2 && pass == 1 && on == of[what])
                out[n++] = "RS"[what];
        }
    fclose(f);
    return out;
}

/* Bucket k is being summed while the backward pass that bucket k + 1 waits for is still queued. */
static void buckets_are_summed_during_the_backward_pass(void **state)
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX";
    size_t n, n_sums = 0, n_between = 0;
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(setenv("PG_BUCKET_BYTES", "1", 1), 0);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    pg__mem_free(train(&(how){"mlp_digits", "cuda:0,cuda:1", "sgd", .cpu_merge = 0}, &n));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    assert_int_equal(unsetenv("PG_BUCKET_BYTES"), 0);
    char *order = order_of_work(path);
    unlink(path);
    for (const char *s = order; *s; s++) {
        n_sums += *s == 'S';
        n_between += s[0] == 'S' && s[1] == 'R' && n_sums % N_VARIABLES > 0;
    }
    /* The first step is summed in one, the second is not recorded. */
    if (n_sums != 1 + (N_STEPS - 1) * N_VARIABLES || n_between < N_STEPS - 2)
        fail_msg("%zu sums, %zu with work behind them: %s", n_sums, n_between, order);
    pg__mem_free(order);
}

/* Trains with a new trainer, and writes a log; a first try fails for lack of one byte. */
static void train_after(unsigned long long bytes, const char *log)
{
    const pg_fit_opts fit = {.batch_size = 33, .epochs = 1, .steps_per_epoch = N_STEPS};
    char room[24];
    pg_data *data = NULL;
    pg_trainer *t =
        open_trainer(&(how){"mlp_digits", "cuda:0,cuda:1", "sgd", .cpu_merge = 0}, &data);
    if (bytes > 0) {
        snprintf(room, sizeof room, "%llu", bytes - 1);
        assert_int_equal(setenv("FAKE_CUDA_MEMORY", room, 1), 0);
        assert_int_equal(pg_fit(t, data, &fit, NULL, NULL), PG_E_NOMEM);
        assert_int_equal(unsetenv("FAKE_CUDA_MEMORY"), 0);
    }
    assert_int_equal(setenv("FAKE_CUDA_LOG", log, 1), 0);
    assert_ok(pg_fit(t, data, &fit, NULL, NULL));
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    pg_data_close(data);
    pg_trainer_close(t);
}

static size_t n_sums_of(const char *log)
{
    char *order = order_of_work(log);
    size_t n = 0;
    for (const char *s = order; *s; s++)
        n += *s == 'S';
    pg__mem_free(order);
    return n;
}

/* Gradients get their memory last, before anything ran: the next step is summed in one again. */
static void a_step_without_room_is_not_the_first(void **state)
{
    char whole[] = "/tmp/pg-cuda-log-XXXXXX", again[] = "/tmp/pg-cuda-log-XXXXXX";
    (void)state;
    close(mkstemp(whole));
    close(mkstemp(again));
    assert_int_equal(setenv("PG_BUCKET_BYTES", "1", 1), 0);
    train_after(0, whole);
    train_after(most_of_log(whole), again);
    assert_int_equal(unsetenv("PG_BUCKET_BYTES"), 0);
    assert_int_equal(n_sums_of(whole), 1 + (N_STEPS - 1) * N_VARIABLES);
    assert_int_equal(n_sums_of(again), 1 + (N_STEPS - 1) * N_VARIABLES);
    unlink(whole);
    unlink(again);
}

/* ---- failures ---- */

/* Whatever call fails in them: the batches are freed after the steps, and no device may be reading
 * one then, which host_rt.c minds. */
static void failed_steps_leave_no_work_behind(void **state)
{
    const pg_fit_opts fit = {.batch_size = 33, .epochs = 1, .steps_per_epoch = 1};
    pg_status st = PG_E_DEVICE;
    (void)state;
    for (unsigned call = 1; st != PG_OK; call++) {
        char text[16];
        pg_data *data = NULL;
        pg_trainer *t =
            open_trainer(&(how){"mlp_digits", "cuda:0,cuda:1", "sgd", .cpu_merge = 0}, &data);
        (void)snprintf(text, sizeof text, "%u", call);
        assert_int_equal(setenv("FAKE_CUDA_FAIL_AT", text, 1), 0);
        st = pg_fit(t, data, &fit, NULL, NULL);
        assert_int_equal(unsetenv("FAKE_CUDA_FAIL_AT"), 0);
        pg_data_close(data);
        pg_trainer_close(t);
        assert_true(call < 1000);
    }
}

PG_TEST_MAIN(cmocka_unit_test(regularizers_count), cmocka_unit_test(norms_stay_on_the_device),
             cmocka_unit_test(no_memory_is_asked_for_behind_a_sum),
             cmocka_unit_test(steps_are_queued_without_waiting),
             cmocka_unit_test(the_size_of_buckets_does_not_matter),
             cmocka_unit_test(averages_move_as_on_the_cpu),
             cmocka_unit_test(buckets_are_summed_during_the_backward_pass),
             cmocka_unit_test(a_step_without_room_is_not_the_first),
             cmocka_unit_test(failed_steps_leave_no_work_behind),
             cmocka_unit_test(deterministic_replicas_give_the_same_bits),
             cmocka_unit_test(replicas_train_as_one),
             cmocka_unit_test(statistics_of_the_whole_batch_are_those_of_one_device),
             cmocka_unit_test(parts_of_a_batch_add_up), cmocka_unit_test(steps_are_recorded_once),
             cmocka_unit_test(nothing_is_recorded_unless_asked),
             cmocka_unit_test(recordings_go_before_their_plans),
             cmocka_unit_test(weights_of_rows_come_and_go),
             cmocka_unit_test(smaller_batches_before_a_larger_one_take_no_room))
