/* fit.c - training from C, with callbacks: what pgfit does, in one file.
 *
 *     cc fit.c $(pkg-config --cflags --libs libpg) -o fit && ./fit mlp.json digits.npz trained.h5
 *
 * A callback sees every batch and epoch, and ends the training by not returning PG_OK. */
#include <stdio.h>

#include <pg/pg.h>

typedef struct progress {
    size_t n_epochs;
    double best;
} progress;

static pg_status begin(void *user, const pg_run *run, pg_err *err)
{
    progress *p = user;
    (void)err;
    p->n_epochs = run->n_epochs;
    printf("%llu rows on %zu devices, %llu parameters\n", (unsigned long long)run->n_train,
           run->n_devices, (unsigned long long)run->n_params);
    return PG_OK;
}

static pg_status epoch_end(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    progress *p = user;
    printf("epoch %zu of %zu:", epoch + 1, p->n_epochs);
    for (size_t i = 0; i < logs->n; i++)
        printf(" %s %.4f", logs->names[i], logs->values[i]);
    putchar('\n');
    if (epoch == 0 || logs->values[0] < p->best)
        p->best = logs->values[0];
    if (logs->values[0] > 10 * p->best)
        return pg_fail(err, PG_E_NO, "the loss runs away");
    return PG_OK;
}

static void end(void *user, const pg_fit_report *report)
{
    const progress *p = user;
    printf("best loss %.4f, %.1f s\n", p->best, report->seconds);
}

static pg_status train(const char *model, const char *data, const char *output, pg_err *err)
{
    progress p = {.n_epochs = 0};
    const pg_callback callback = {
        .user = &p, .train_begin = begin, .epoch_end = epoch_end, .train_end = end};
    const pg_train_opts opts = {.model = model,
                                .optimizer = "adam:learning_rate=0.01",
                                .loss = "categorical_crossentropy",
                                .metrics = "accuracy",
                                .devices = "cpu:0,cpu:1",
                                .seed = 1};
    const pg_fit_opts fit = {.batch_size = 50, .epochs = 5, .seed = 1};
    pg_trainer *t = NULL;
    pg_data *rows = NULL;
    pg_forecast plan;
    pg_status st = pg_trainer_open(&t, &opts, err);
    if (st == PG_OK)
        st = pg_data_open(&rows, data, err);
    if (st == PG_OK)
        st = pg_fit_forecast(&plan, t, rows, &fit, err);
    if (st == PG_OK)
        printf("needs %.0f MB\n", (double)plan.total / 1e6);
    if (st == PG_OK)
        st = pg_fit(t, rows, &fit, &callback, err);
    if (st == PG_OK)
        st = pg_trainer_save(t, output, NULL, err);
    pg_data_close(rows);
    pg_trainer_close(t);
    return st;
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    const char *model = argc > 1 ? argv[1] : "mlp.json", *data = argc > 2 ? argv[2] : "digits.npz";
    if (train(model, data, argc > 3 ? argv[3] : "from_c.h5", &err) == PG_OK)
        return 0;
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}
