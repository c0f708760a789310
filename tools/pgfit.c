/* pgfit - trains a model that Keras describes, on one or several devices. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static pg_train_opts train;
static pg_fit_opts fit;
static const char *data, *validation, *validation_split, *rules, *family, *gpus, *reset;
static unsigned epochs, batch_size, threads, lanes, seed;
static const char *output;
static int batches, force, dry_run;

static const cli_opt options[] = {
    {0, "data", "FILE", NULL, &data, NULL, NULL, "training data (.npz)"},
    {0, "val", "FILE", NULL, &validation, NULL, NULL, "validation data (.npz)"},
    {0, "validation-split", "SHARE", NULL, &validation_split, NULL, NULL,
     "share of the last training rows to validate with"},
    {0, "weights", "FILE", NULL, &train.weights, NULL, NULL, "initial weights"},
    {0, "optimizer", "NAME[:KEY=VALUE,...]", NULL, &train.optimizer, NULL, NULL,
     "Keras' name and config keys (default RMSprop)"},
    {0, "optimizer-rules", "FAMILY", NULL, &family, NULL, "legacy|new",
     "update rules of Keras to 2.10, or of the later ones"},
    {0, "loss", "NAME|OUT=NAME,...", NULL, &train.loss, NULL, NULL, "loss, of each output"},
    {0, "loss-weights", "OUT=W,...", NULL, &train.loss_weights, NULL, NULL,
     "weight of each output's loss"},
    {0, "metrics", "NAME,...|OUT=NAME,...", NULL, &train.metrics, NULL, NULL,
     "what to tell beside the loss"},
    {0, "loss-from-probabilities", NULL, &train.loss_from_probabilities, NULL, NULL, NULL,
     "never compute losses on logits"},
    {0, "rules", "VERSION", NULL, &rules, NULL, NULL, "compute as this version of Keras"},
    {0, "epochs", "N", NULL, NULL, &epochs, NULL, "passes over the data (default 1)"},
    {0, "batch-size", "N", NULL, NULL, &batch_size, NULL,
     "rows per step, all devices together (default 32)"},
    {0, "no-shuffle", NULL, &fit.no_shuffle, NULL, NULL, NULL, "take the rows as they lie"},
    {0, "reset-states", "WHEN", NULL, &reset, NULL, "never|epoch",
     "zero what stateful layers keep (default never)"},
    {0, "seed", "N", NULL, NULL, &seed, NULL, "of initial weights and of the order of the rows"},
    {0, "devices", "LIST", NULL, &train.devices, NULL, NULL,
     "replicas, as cpu:0,cpu:1; a name may repeat"},
    {0, "gpus", "N|IDS", NULL, &gpus, NULL, NULL, "replicas on GPUs"},
    {'j', "threads", "N", NULL, NULL, &threads, NULL, "cores to use (default all)"},
    {0, "deterministic", NULL, &train.deterministic, NULL, NULL, NULL,
     "equal bits on every run and for every number of devices"},
    {0, "lanes", "N", NULL, NULL, &lanes, NULL,
     "deterministic: parts of a batch, a power of two (default 8)"},
    {'o', "output", "FILE", NULL, &output, NULL, NULL, "save the trained weights here (.h5)"},
    {'f', "force", NULL, &force, NULL, NULL, NULL, "replace an existing output"},
    {'n', "dry-run", NULL, &dry_run, NULL, NULL, NULL, "check model, weights and data only"},
    {0, "batches", NULL, &batches, NULL, NULL, NULL, "with --json: a line for every batch too"},
    {0},
};

static const cli_example examples[] = {
    {"pgfit model.json --data train.npz --loss mse --epochs 10 -o trained.h5",
     "train from the model's own initializers"},
    {"pgfit model.h5 --data train.npz --loss categorical_crossentropy --metrics accuracy \\\n"
     "      --optimizer adam:learning_rate=0.01 --devices cpu:0,cpu:1 -o trained.h5",
     "go on from a file's weights, on two replicas"},
    {0},
};

static const char *const about[] = {
    "MODEL is a model JSON, a full .h5 or a .keras. Data are the arrays x0, x1, ... and y0, y1, "
    "...\n"
    "of an .npz, in the order of the model's inputs and outputs, or under the names of their\n"
    "layers; w0, ... are weights of rows.",
    "What is computed follows the version of Keras that wrote the model, or --rules. The batch is\n"
    "cut over the devices as multi_gpu_model cuts it; there is one set of weights, and what is\n"
    "saved is the model itself: it loads on one device.",
    NULL,
};

static const cli_tool tool = {
    .name = "pgfit",
    .operands = "MODEL",
    .summary = "trains a model that Keras describes",
    .examples = examples,
    .about = about,
    .status_1 = "data or weights do not fit the model",
    .opts = options,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- what is shown ---- */

typedef struct screen {
    size_t epoch, epochs;
    double begun; /* of the epoch, seconds */
    int live;     /* a terminal: one line is drawn again and again */
    size_t drawn; /* bytes of it */
} screen;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_json(const char *event, size_t epoch, const size_t *batch, const pg_logs *logs)
{
    printf("{\"event\": \"%s\", \"epoch\": %zu", event, epoch + 1);
    if (batch)
        printf(", \"batch\": %zu", *batch + 1);
    for (size_t i = 0; i < logs->n; i++)
        printf(", \"%s\": %.9g", logs->names[i], logs->values[i]);
    puts("}");
}

static void print_values(const pg_logs *logs, const char *between, const char *equals)
{
    for (size_t i = 0; i < logs->n; i++)
        printf("%s%s%s%.4f", between, logs->names[i], equals, logs->values[i]);
}

static pg_status epoch_begin(void *user, size_t epoch, pg_err *err)
{
    screen *s = user;
    (void)err;
    s->epoch = epoch;
    s->begun = now();
    if (s->live)
        printf("Epoch %zu/%zu\n", epoch + 1, s->epochs);
    return PG_OK;
}

static pg_status batch_end(void *user, size_t batch, const pg_logs *own, const pg_logs *running,
                           pg_err *err)
{
    screen *s = user;
    if (*cli_cancel())
        return pg_fail(err, PG_E_CANCELLED, "interrupted");
    if (cli.json && batches)
        print_json("batch", s->epoch, &batch, own);
    if (!s->live)
        return PG_OK;
    printf("\r%zu - %.0fs", batch + 1, now() - s->begun);
    print_values(running, " - ", ": ");
    fflush(stdout);
    return PG_OK;
}

static pg_status epoch_end(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    screen *s = user;
    (void)err;
    if (cli.json) {
        print_json("epoch", epoch, NULL, logs);
    } else if (s->live) {
        printf("\r%.1fs", now() - s->begun);
        print_values(logs, " - ", ": ");
        fputs("\033[K\n", stdout);
    } else if (!cli.quiet) {
        printf("epoch %zu/%zu", epoch + 1, s->epochs);
        print_values(logs, " ", "=");
        printf(" %.1fs\n", now() - s->begun);
    }
    fflush(stdout);
    return PG_OK;
}

/* ---- the work ---- */

/* A share above 0 and below 1. */
static int read_share(pg_err *err)
{
    char *end = NULL;
    if (!validation_split)
        return 1;
    fit.validation_split = strtod(validation_split, &end);
    if (*validation_split != '\0' && *end == '\0' && fit.validation_split > 0 &&
        fit.validation_split < 1)
        return 1;
    (void)pg_fail(err, PG_E_ARG, "--validation-split %s: not a share between 0 and 1",
                  cli_name(validation_split).s);
    return 0;
}

static int check_usage(pg_err *err)
{
    if (gpus) {
        (void)pg_fail(err, PG_E_UNSUPPORTED, "--gpus: this build trains on CPUs only");
        pg_err_hint(err, "--devices cpu:0,cpu:1");
    } else if (!data) {
        (void)pg_fail(err, PG_E_ARG, "no --data given");
        pg_err_hint(err, "pgfit --help");
    } else {
        return read_share(err);
    }
    return 0;
}

static void read_options(const char *model)
{
    train.model = model;
    train.rules = rules;
    fit.reset_states = reset && strcmp(reset, "epoch") == 0;
    train.optimizer_rules = !family ? 0 : strcmp(family, "legacy") == 0 ? 1 : 2;
    train.threads = threads;
    train.lanes = lanes;
    train.seed = fit.seed = seed;
    fit.epochs = epochs;
    fit.batch_size = batch_size;
}

static pg_status run(pg_err *err)
{
    pg_trainer *trainer = NULL;
    pg_data *rows = NULL, *held_out = NULL;
    screen s = {.epochs = epochs ? epochs : 1,
                .live = !cli.json && !cli.quiet && isatty(STDOUT_FILENO)};
    const pg_callback cb = {
        .user = &s, .epoch_begin = epoch_begin, .batch_end = batch_end, .epoch_end = epoch_end};
    const pg_save_opts save = {.force = force};
    pg_status st = output ? pg_trainer_check_output(output, &save, err) : PG_OK;
    if (st == PG_OK)
        st = pg_trainer_open(&trainer, &train, err);
    if (st == PG_OK)
        st = pg_data_open(&rows, data, err);
    if (st == PG_OK && validation)
        st = pg_data_open(&held_out, validation, err);
    fit.validation = held_out;
    if (st == PG_OK && !dry_run)
        st = pg_fit(trainer, rows, &fit, &cb, err);
    if (st == PG_OK && output && !dry_run)
        st = pg_trainer_save(trainer, output, &save, err);
    pg_data_close(held_out);
    pg_data_close(rows);
    pg_trainer_close(trainer);
    return st;
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    (void)cli_parse(&tool, argc, argv);
    read_options(argv[1]);
    if (!check_usage(&err) || run(&err) != PG_OK)
        return cli_finish(cli_fail(&err));
    return cli_finish(CLI_OK);
}
