/* golden.h - a training run of real Keras 2.15 (testdata/golden), opened to be done again. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "pg_test.h"

#include <math.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "pg/train.h"
#include "train/data/data.h"

typedef struct golden {
    const char *device;
    const char *rules;        /* NULL: those of the writer */
    const pg__json *expected; /* part of run.json: "single", or one of "replicas" */
    const char *final_weights;
    char folder[512];
    char *text;
    pg__json *run;
    pg__str optimizer, loss, loss_weights, metrics;
    pg_trainer *trainer;
    pg_data *data, *first;
    size_t n_batches, n_epochs;
    double d64; /* largest relative difference of Keras' own float32 and float64 so far */
} golden;

static inline const char *path_of(const golden *g, const char *file, char path[600])
{
    snprintf(path, 600, "%s/%s", g->folder, file);
    return path;
}

static inline char *read_text(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    char *text = pg__mem_array(*n + 1, 1);
    assert_int_equal(fread(text, 1, *n, f), *n);
    fclose(f);
    return text;
}

static inline double number(const pg__json *j)
{
    double v = 0;
    if (!pg__json_num(j, &v))
        v = pg__json_bool(j, 0);
    return v;
}

/* "a,b" of a list, "out=a,out=b" of an object, "a" of a string. */
static inline void add_names(pg__str *out, const pg__json *j)
{
    pg__json_iter it = {.obj = j};
    if (pg__json_str(j))
        assert_ok(pg__str_puts(out, pg__json_str(j), NULL));
    for (size_t i = 0; pg__json_type_of(j) == PG_J_ARRAY && i < pg__json_len(j); i++)
        assert_ok(pg__str_printf(out, NULL, "%s%s", i ? "," : "", pg__json_str(pg__json_at(j, i))));
    while (pg__json_type_of(j) == PG_J_OBJECT && pg__json_next(&it)) {
        assert_ok(pg__str_printf(out, NULL, "%s%s=", out->n ? "," : "", it.key));
        if (pg__json_str(it.value))
            assert_ok(pg__str_puts(out, pg__json_str(it.value), NULL));
        else
            assert_ok(pg__str_printf(out, NULL, "%.17g", number(it.value)));
    }
}

static inline void add_optimizer(pg__str *out, const pg__json *j)
{
    pg__json_iter it = {.obj = pg__json_get(j, "config")};
    const char *sep = ":";
    assert_ok(pg__str_puts(out, pg__json_get_str(j, "class"), NULL));
    for (; pg__json_next(&it); sep = ",")
        assert_ok(pg__str_printf(out, NULL, "%s%s=%.17g", sep, it.key, number(it.value)));
}

/* Of the trainers that are opened from here on. */
static int conv_how, precision_how;
static const char *place_how;
static int deterministic_how, joins_how;

/* With pg_train_opts.gpu_tune? Who runs the tests says so. */
static inline int tune_how(void)
{
    return getenv("PG_TUNE") != NULL;
}

static inline void open_golden(golden *g, const char *name, const char *device, const char *rules)
{
    char model[600], weights[600], path[600];
    size_t n;
    pg_err err = {0};
    *g = (golden){.device = device, .rules = rules};
    snprintf(g->folder, sizeof g->folder, "%s/golden/%s", pg_testdata, name);
    g->text = read_text(path_of(g, "run.json", path), &n);
    assert_ok(pg__json_parse(&g->run, g->text, n, NULL));
    add_optimizer(&g->optimizer, pg__json_get(g->run, "optimizer"));
    add_names(&g->loss, pg__json_get(g->run, "loss"));
    add_names(&g->loss_weights, pg__json_get(g->run, "loss_weights"));
    add_names(&g->metrics, pg__json_get(g->run, "metrics"));
    const pg_train_opts opts = {.model = path_of(g, "model.json", model),
                                .weights = path_of(g, "init_weights.h5", weights),
                                .optimizer = g->optimizer.s,
                                .optimizer_rules = 1,
                                .loss = g->loss.s,
                                .loss_weights = g->loss_weights.s,
                                .metrics = g->metrics.s,
                                .rules = rules,
                                .conv = conv_how,
                                .precision = precision_how,
                                .place = place_how,
                                .deterministic = deterministic_how,
                                .joins_job = joins_how,
                                .gpu_tune = tune_how(),
                                .comm_timeout = 30,
                                .devices = device};
    if (pg_trainer_open(&g->trainer, &opts, &err) != PG_OK)
        fail_msg("%s\n%s", err.msg, err.detail);
    assert_ok(pg_data_open(&g->data, path_of(g, "data.npz", path), &err));
    if (access(path_of(g, "first_batch.npz", path), F_OK) == 0)
        assert_ok(pg_data_open(&g->first, path, &err));
}

static inline void close_golden(golden *g)
{
    pg_data_close(g->data);
    pg_data_close(g->first);
    pg_trainer_close(g->trainer);
    pg__str_fini(&g->optimizer);
    pg__str_fini(&g->loss);
    pg__str_fini(&g->loss_weights);
    pg__str_fini(&g->metrics);
    pg__json_free(g->run);
    pg__mem_free(g->text);
}

#endif
