/* application_step.c - one step of SGD by libpg's public interface, for applications.py.
 * usage: application_step MODEL DATA OUT DEVICES LOSS
 * OUT.json: {"loss": 0.5, "variables": [{"name": "conv1/kernel", "n": 27, "gradient": true}, ...]};
 * OUT.bin: floats of each variable in turn: its gradient, or its value behind the step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pg/train.h"

typedef struct report {
    pg_trainer *t;
    FILE *text, *bytes;
} report;

static pg_status put(report *r, size_t i, pg_err *err)
{
    const pg_weight *w = pg_trainer_weight(r->t, i);
    size_t n = 1;
    for (uint32_t k = 0; k < w->rank; k++)
        n *= (size_t)w->dims[k];
    double *v = malloc(n * sizeof *v);
    float *f = malloc(n * sizeof *f);
    pg_status st = PG_E_NOMEM;
    if (v && f) {
        const int gradient = pg_trainer_read_grad(r->t, i, v, n, NULL) == PG_OK;
        st = gradient ? PG_OK : pg_trainer_read(r->t, i, v, n, err);
        fprintf(r->text, "%s\n  {\"name\": \"%s\", \"n\": %zu, \"gradient\": %s}", i ? "," : "",
                w->name, n, gradient ? "true" : "false");
        for (size_t k = 0; k < n; k++)
            f[k] = (float)v[k];
        if (st == PG_OK && fwrite(f, sizeof *f, n, r->bytes) != n)
            st = PG_E_IO;
    }
    free(f);
    free(v);
    return st;
}

static pg_status batch_end(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err)
{
    report *r = user;
    pg_status st = PG_OK;
    (void)batch, (void)running;
    fprintf(r->text, "{\"loss\": %.17g, \"variables\": [", own->values[0]);
    for (size_t i = 0; i < pg_trainer_n_weights(r->t) && st == PG_OK; i++)
        st = put(r, i, err);
    fprintf(r->text, "]}\n");
    return st;
}

int main(int argc, char **argv)
{
    char path[4096];
    report r = {.t = NULL};
    pg_data *data = NULL;
    pg_err err = {0};
    pg_status st;
    if (argc != 6)
        return 2;
    snprintf(path, sizeof path, "%s.json", argv[3]);
    r.text = fopen(path, "w");
    snprintf(path, sizeof path, "%s.bin", argv[3]);
    r.bytes = fopen(path, "wb");
    if (!r.text || !r.bytes)
        return 2;
    st = pg_trainer_open(&r.t,
                         &(pg_train_opts){.model = argv[1],
                                          .optimizer = "SGD:learning_rate=0.1",
                                          .loss = argv[5],
                                          .devices = argv[4],
                                          .batch_norm = 2},
                         &err);
    if (st == PG_OK)
        st = pg_data_open(&data, argv[2], &err);
    if (st == PG_OK)
        st = pg_fit(r.t, data, &(pg_fit_opts){.batch_size = 1024, .epochs = 1, .no_shuffle = 1},
                    &(pg_callback){.user = &r, .batch_end = batch_end}, &err);
    if (st != PG_OK)
        fprintf(stderr, "%s %s\n", err.msg, err.detail);
    if (fclose(r.text) || fclose(r.bytes))
        st = PG_E_IO;
    pg_data_close(data);
    pg_trainer_close(r.t);
    return st != PG_OK;
}
