/* golden_near.h - a training run of real Keras 2.15 (testdata/golden) done again in another
 * precision: how far it comes out. */
#ifndef PG_TESTS_GOLDEN_NEAR_H
#define PG_TESTS_GOLDEN_NEAR_H

#include "train/golden.h"

/* Of the loss of a batch, and of what the weights changed by (its length). */
typedef struct distance {
    double loss, weights;
} distance;

static inline pg_status compare_loss(void *user, size_t batch, const pg_logs *own,
                                     const pg_logs *running, pg_err *err)
{
    golden *g = user;
    const pg__json *values =
        pg__json_at(pg__json_get(g->expected, "values_per_batch"), g->n_batches++);
    const double want = number(pg__json_get(values, "loss"));
    (void)batch, (void)running, (void)err;
    g->d64 = fmax(g->d64, fabs(own->values[0] - want) / fabs(want));
    return PG_OK;
}

/* All weights of a file, one behind the other, take away what is in *v. */
static inline size_t add_file(const golden *g, const char *name, double sign, double **v)
{
    char path[600];
    pg_store *s = NULL;
    size_t n = 0, at = 0;
    assert_ok(pg_store_open(&s, path_of(g, name, path), NULL, NULL));
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        n += (size_t)(pg_store_weight(s, i)->n_bytes / sizeof(float));
    *v = *v ? *v : pg__mem_array(n, sizeof **v);
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const size_t bytes = (size_t)pg_store_weight(s, i)->n_bytes;
        float *w = pg__mem_array(bytes, 1);
        assert_ok(pg_store_read(s, i, 0, w, bytes, NULL));
        for (size_t k = 0; k < bytes / sizeof *w; k++)
            (*v)[at++] += sign * (double)w[k];
        pg__mem_free(w);
    }
    pg_store_close(s);
    return n;
}

static inline double length(const double *v, size_t n)
{
    double squares = 0;
    for (size_t k = 0; k < n; k++)
        squares += v[k] * v[k];
    return sqrt(squares);
}

static inline distance run_near(const char *name, const char *devices, int precision)
{
    golden g;
    pg_err err = {0};
    double *change = NULL, *off = NULL;
    precision_how = precision;
    open_golden(&g, name, devices, NULL);
    precision_how = 0;
    g.expected = pg__json_get(g.run, "single");
    const pg_callback cb = {.user = &g, .batch_end = compare_loss};
    const pg_fit_opts opts = {.batch_size = (size_t)number(pg__json_get(g.run, "batch_size")),
                              .epochs = (size_t)number(pg__json_get(g.run, "epochs")),
                              .no_shuffle = 1,
                              .reset_states = 1};
    if (pg_fit(g.trainer, g.data, &opts, &cb, &err) != PG_OK)
        fail_msg("%s: %s", name, err.msg);
    const size_t n = add_file(&g, "final_weights.h5", 1, &change);
    add_file(&g, "final_weights.h5", -1, &off);
    add_file(&g, "init_weights.h5", -1, &change);
    for (size_t i = 0, at = 0; i < pg_trainer_n_weights(g.trainer); i++) {
        const size_t some = (size_t)(pg_trainer_weight(g.trainer, i)->n_bytes / sizeof(float));
        double *w = pg__mem_array(some, sizeof *w);
        assert_ok(pg_trainer_read(g.trainer, i, w, some, NULL));
        for (size_t k = 0; k < some; k++)
            off[at++] += w[k];
        pg__mem_free(w);
    }
    const distance d = {g.d64, length(off, n) / length(change, n)};
    pg__mem_free(off);
    pg__mem_free(change);
    close_golden(&g);
    return d;
}

#endif
