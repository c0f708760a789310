/* pgfit_options.c - pgfit's options: the table, its help, and what becomes of them. */
#include <stdlib.h>
#include <string.h>

#include "pgfit.h"

/* What stands here is what holds where nothing is given. */
fit_arguments fit_args = {.train = {.devices = "cpu:0"}, .interpolation = "bilinear"};

static int cpu_relocation;
static const char *validation_split, *shuffle, *rules, *family, *gpus, *bn;
static const char *reset = "never", *conv = "auto", *precision = "model";
static const char *schedule;
static int shuffled;
static unsigned accumulate = 1, initial_epoch, steps, val_steps, val_freq = 1;
static unsigned epochs = 1, batch_size, threads, lanes, seed, comm_timeout;

/* Parameters of callbacks, for which pgfit_callbacks.c looks in the table. */
static const char *reduce_lr, *early_stop, *tensorboard, *csv, *report;
static const char *checkpoint, *monitor, *mode, *save_freq, *threshold, *verify, *max_shard;
static int best_only, weights_only, append, swap_ema, swap_on_epoch;
static unsigned period, keep, tensorboard_every, histogram_freq;

static const cli_opt options[] = {
    {0, "data", "FILE[,FILE...]", NULL, &fit_args.data, NULL, NULL,
     "training data: .npz, HDF5, CSV, a folder of pictures, or inputs and targets as .npy or IDX"},
    {0, "x", "NAME,...", NULL, &fit_args.x, NULL, NULL,
     "arrays of the data that are the inputs, in the model's order; columns in this list's"},
    {0, "y", "NAME,...", NULL, &fit_args.y, NULL, NULL, "those that are the targets"},
    {0, "any-classes", NULL, &fit_args.any_classes, NULL, NULL, NULL,
     "pictures: take class folders that do not fit the output, are empty, or hold folders"},
    {0, "val", "FILE[,FILE...]|test|val", NULL, &fit_args.validation, NULL, NULL,
     "validation data; test, val: the set of that name in the file of --data (./test: a file)"},
    {0, "validation-split", "SHARE", NULL, &validation_split, NULL, NULL,
     "share of the last training rows to validate with"},
    {0, "validation-steps", "N", NULL, NULL, &val_steps, NULL,
     "batches to validate with, from the first row on (default all)"},
    {0, "validation-freq", "N", NULL, NULL, &val_freq, NULL,
     "validate after every so many epochs (default 1)"},
    {0, "reshape", "H,W,C", NULL, &fit_args.reshape, NULL, NULL,
     "dimensions of a row of the inputs"},
    {0, "interpolation", "HOW", NULL, &fit_args.interpolation, NULL, "bilinear|nearest",
     "how pictures are resized (default bilinear)"},
    {0, "weights", "FILE", NULL, &fit_args.train.weights, NULL, NULL,
     "initial weights, of any format that pginfo knows"},
    {0, "init-from", "FILE", NULL, &fit_args.train.init_from, NULL, NULL,
     "initial weights of the layers that have the same names and shapes there; says which"},
    {0, "freeze", "GLOB,...", NULL, &fit_args.train.freeze, NULL, NULL,
     "these layers (or models inside the model) stay as they are; !GLOB: but not these"},
    {0, "replace-head", "N|N:ACTIVATION|OUT=N,...", NULL, &fit_args.train.replace_head, NULL, NULL,
     "another number of classes: the last Dense layer or convolution starts anew"},
    {0, "optimizer", "NAME[:KEY=VALUE,...]", NULL, &fit_args.train.optimizer, NULL, NULL,
     "Keras' name and config keys (default RMSprop)"},
    {0, "optimizer-rules", "FAMILY", NULL, &family, NULL, "legacy|new",
     "update rules of Keras to 2.10, or of the later ones"},
    {0, "schedule", "NAME:KEY=VALUE,...", NULL, &schedule, NULL, NULL,
     "learning rate by steps (cosine_decay:decay_steps=900), or epochs (epoch:rate=0.9)"},
    {0, "loss", "NAME|OUT=NAME,...", NULL, &fit_args.train.loss, NULL, NULL,
     "loss, of each output"},
    {0, "loss-weights", "OUT=W,...", NULL, &fit_args.train.loss_weights, NULL, NULL,
     "weight of each output's loss"},
    {0, "metrics", "NAME,...|OUT=NAME,...", NULL, &fit_args.train.metrics, NULL, NULL,
     "what to tell beside the loss"},
    {0, "weighted-metrics", "NAME,...|OUT=NAME,...", NULL, &fit_args.train.weighted_metrics, NULL,
     NULL, "the same, with the weights of rows and classes"},
    {0, "class-weight", "CLASS=W,...", NULL, &fit_args.fit.class_weight, NULL, NULL,
     "how much the rows of a class count in training"},
    {0, "loss-from-probabilities", NULL, &fit_args.train.loss_from_probabilities, NULL, NULL, NULL,
     "never compute losses on logits"},
    {0, "compile-from", "FILE", NULL, &fit_args.train.compile_from, NULL, NULL,
     "take what is not given of optimizer, loss and metrics from this full model"},
    {0, "rules", "VERSION", NULL, &rules, NULL, NULL, "compute as this version of Keras"},
    {0, "epochs", "N", NULL, NULL, &epochs, NULL, "passes over the data (default 1)"},
    {0, "initial-epoch", "N", NULL, NULL, &initial_epoch, NULL,
     "epochs that were made before: numbers go on from there"},
    {0, "steps-per-epoch", "N", NULL, NULL, &steps, NULL,
     "batches of an epoch; the next one goes on behind them (default one pass)"},
    {0, "batch-size", "N", NULL, NULL, &batch_size, NULL,
     "rows per step, all devices together (default 32)"},
    {0, "accumulate", "N", NULL, NULL, &accumulate, NULL,
     "one update for N batches, as one batch of all their rows"},
    {0, "shuffle", NULL, &shuffled, &shuffle, NULL, "batch",
     "a new order of the rows in every epoch (default); =batch: near rows stay together"},
    {0, "no-shuffle", NULL, &fit_args.fit.no_shuffle, NULL, NULL, NULL,
     "take the rows as they lie"},
    {0, "reset-states", "WHEN", NULL, &reset, NULL, "never|epoch",
     "zero what stateful layers keep (default never)"},
    {0, "seed", "N", NULL, NULL, &seed, NULL, "of initial weights and of the order of the rows"},
    {0, "devices", "LIST", NULL, &fit_args.train.devices, NULL, NULL,
     "replicas, as cpu:0,cpu:1 or cuda:0; a name may repeat; auto: every GPU (of several processes on "
     "a machine: its own), or the CPU"},
    {0, "bn", "HOW", NULL, &bn, NULL, "replica|sync",
     "BatchNormalization over a replica's rows, or the whole batch"},
    {0, "place", "LAYER[#CALL]=DEVICE,...", NULL, &fit_args.train.place, NULL, NULL,
     "run these calls there, the rest on the first of --devices; weights lie where they are used"},
    {0, "gpus", "N|IDS|all", NULL, &gpus, NULL, NULL,
     "replicas on the first N GPUs, on those with these ids (0,2), on all"},
    {0, "cpu-merge", NULL, &fit_args.train.cpu_merge, NULL, NULL, NULL,
     "several GPUs: sum gradients by copies, not by NCCL"},
    {0, "cpu-relocation", NULL, &cpu_relocation, NULL, NULL, NULL,
     "multi_gpu_model's; changes nothing: every GPU has the weights"},
    {0, "precision", "HOW", NULL, &precision, NULL,
     "model|float32|tf32|bfloat16|float16|mixed_bfloat16|mixed_float16",
     "what layers compute with on GPUs: float32, tf32, bfloat16 or float16 (default model: as its "
     "policies say)"},
    {0, "conv", "HOW", NULL, &conv, NULL, "auto|direct|winograd",
     "arithmetic of convolutions (default auto: the faster)"},
    {0, "hosts", "HOST:N,...", NULL, &fit_args.hosts, NULL, NULL,
     "several machines: start N processes on each host, by the mpirun that is installed"},
    {0, "comm-timeout", "SECONDS", NULL, NULL, &comm_timeout, NULL,
     "several processes (mpirun, srun, torchrun): how long one waits for the others (default 300)"},
    {0, "shard-optimizer", NULL, &fit_args.train.shard_optimizer, NULL, NULL, NULL,
     "several processes: each keeps its part of the optimizer's state (ZeRO stage 1)"},
    {'j', "threads", "N", NULL, NULL, &threads, NULL, "cores to use (default all)"},
    {0, "deterministic", NULL, &fit_args.train.deterministic, NULL, NULL, NULL,
     "equal bits on every run and for every number of devices"},
    {0, "lanes", "N", NULL, NULL, &lanes, NULL,
     "deterministic: parts of a batch, a power of two (default 8)"},
    {0, "checkpoint", "TEMPLATE", NULL, &checkpoint, NULL, NULL,
     "save after every epoch: {epoch}, {val_loss:.4f}, ... are filled in; formats as with -o"},
    {0, "monitor", "NAME", NULL, &monitor, NULL, NULL,
     "checkpoint: what is best, of loss and metrics (default val_loss)"},
    {0, "mode", "MODE", NULL, &mode, NULL, "auto|min|max",
     "checkpoint: the lowest is best, or the highest (auto: \"acc\" in its name)"},
    {0, "save-best-only", NULL, &best_only, NULL, NULL, NULL, "checkpoint: only when it improves"},
    {0, "save-weights-only", NULL, &weights_only, NULL, NULL, NULL,
     "checkpoint: an .h5 without description and optimizer"},
    {0, "save-freq", "epoch|N", NULL, &save_freq, NULL, NULL,
     "checkpoint: after every N batches (default epoch)"},
    {0, "period", "N", NULL, NULL, &period, NULL, "checkpoint: after every N epochs (default 1)"},
    {0, "initial-value-threshold", "X", NULL, &threshold, NULL, NULL,
     "checkpoint: what the first one must improve on"},
    {0, "keep", "N", NULL, NULL, &keep, NULL,
     "checkpoint: N stay in all, the best one among them (default all)"},
    {0, "verify", "WHICH", NULL, &verify, NULL, "all|best|none",
     "checkpoint: load again on one device (default best)"},
    {0, "max-shard-size", "SIZE", NULL, &max_shard, NULL, NULL,
     "checkpoint: what is larger becomes a folder of shards: 2GB, 500MiB"},
    {0, "reduce-lr", "KEY=VALUE,...", NULL, &reduce_lr, NULL, NULL,
     "Keras' ReduceLROnPlateau: factor=0.1,patience=10,monitor=val_loss"},
    {0, "early-stop", "KEY=VALUE,...", NULL, &early_stop, NULL, NULL,
     "Keras' EarlyStopping: patience=15,restore_best,monitor=val_loss"},
    {0, "swap-ema", NULL, &swap_ema, NULL, NULL, NULL,
     "Keras' SwapEMAWeights: validate with the moving averages of an optimizer with use_ema"},
    {0, "swap-on-epoch", NULL, &swap_on_epoch, NULL, NULL, NULL,
     "swap-ema: checkpoints at the end of an epoch hold the averages too"},
    {0, "tensorboard", "DIR", NULL, &tensorboard, NULL, NULL, "write event files for TensorBoard"},
    {0, "tensorboard-every", "N", NULL, NULL, &tensorboard_every, NULL,
     "tensorboard: values of every N-th batch too"},
    {0, "histogram-freq", "N", NULL, NULL, &histogram_freq, NULL,
     "tensorboard: histograms of the weights every N epochs"},
    {0, "csv", "FILE", NULL, &csv, NULL, NULL, "write a line per epoch, as Keras' CSVLogger"},
    {0, "append", NULL, &append, NULL, NULL, NULL, "csv: behind what the file holds"},
    {0, "report", "FILE", NULL, &report, NULL, NULL,
     "write a page for a browser, anew after every epoch"},
    {0, "resume", "FILE|auto|never", &fit_args.resumes, &fit_args.resume, NULL, NULL,
     "go on where resume.pg was left, or FILE (or a folder's), with its options; auto: or start; "
     "never: keep none"},
    {0, "resume-every", "SECONDS", NULL, &fit_args.resume_every, NULL, NULL,
     "keep the state so often, beside checkpoints and signals"},
    {'o', "output", "FILE", NULL, &fit_args.output, NULL, NULL,
     "save the trained model here: .h5, .weights.h5 or .safetensors (weights), .keras (all)"},
    {0, "full-model", NULL, &fit_args.full_model, NULL, NULL, NULL,
     "with an .h5: description, training configuration and optimizer too"},
    {'f', "force", NULL, &fit_args.force, NULL, NULL, NULL, "replace an existing output"},
    {0, "evaluate", NULL, &fit_args.evaluate, NULL, NULL, NULL,
     "do not train: tell loss and metrics over the data"},
    {0, "predict", "FILE[,FILE...]", NULL, &fit_args.predict, NULL, NULL,
     "write what the model (trained, with --data) makes of these inputs"},
    {0, "out", "FILE", NULL, &fit_args.out, NULL, NULL,
     "with --predict: .npy, or .npz with y0, y1, ..."},
    {0, "config", "FILE", NULL, &fit_args.config, NULL, NULL,
     "take what is not given here from a JSON file: words of Keras, long options with _ for -"},
    {0, "print-config", NULL, &fit_args.print_config, NULL, NULL, NULL,
     "print all options as --config takes them, and leave"},
    {0, "demo", "NAME", NULL, &fit_args.demo, NULL, "digits",
     "train a small model on data that came with the program"},
    {0, "summary", NULL, &fit_args.summary, NULL, NULL, NULL,
     "print the model as Keras' summary() does, and leave"},
    {0, "list-layers", NULL, &fit_args.list_layers, NULL, NULL, NULL,
     "print the layer classes, what trains each or why nothing does, and leave"},
    {'n', "dry-run", NULL, &fit_args.dry_run, NULL, NULL, NULL,
     "check model, weights and data, tell the memory that training needs"},
    {0, "plan", "KEY=VALUE,...", NULL, &fit_args.plan, NULL, NULL,
     "train nothing: predict steps on other devices: hosts=16,gpus=8,link=100Gbit"},
    {0, "terminate-on-nan", NULL, &fit_args.fit.terminate_on_nan, NULL, NULL, NULL,
     "stop at the first loss that is no number, and tell where it comes from"},
    {0, "profile", NULL, &fit_args.fit.profile, &fit_args.profile, NULL, "layers",
     "tell which operations took the time, with =layers in which layers"},
    {0, "json", NULL, &cli.json, &fit_args.json, NULL, "batch",
     "print a JSON object per line: of the run, of epochs, with =batch of batches (with ms)"},
    {0},
};

static const cli_example examples[] = {
    {"pgfit model.json --data train.npz --loss mse --epochs 10 -o trained.h5",
     "train from the model's own initializers"},
    {"pgfit full.keras --data train.npz --devices cpu:0,cpu:1 -o trained.keras",
     "go on where a full model stopped, on two replicas"},
    {"pgfit --config run.json --checkpoint 'ckpt/{epoch:02d}.keras'",
     "options from a file, a checkpoint after every epoch"},
    {"pgfit --resume=ckpt/resume.pg", "go on with an interrupted run and its options"},
    {"pgfit base.keras --replace-head 10 --freeze 'conv*' --data d.npz -o mine.keras",
     "train for other classes what somebody else trained"},
    {"pgfit model.json --weights trained.h5 --predict images.npy --out classes.npy",
     "use what was trained"},
    {0},
};

static const char *const about[] = {
    "MODEL is a model JSON (-: from standard input), a full .h5 or a .keras. Data are the arrays\n"
    "x0, x1, ... and y0, y1, ... of an .npz or of an HDF5 file, in the order of the model's inputs\n"
    "and outputs, or under the names of their layers; w0, ... are weights of rows. Several files,\n"
    "A,B,..., are .npy or IDX files of one array each: inputs, targets, weights. Of a CSV table,\n"
    "columns called like the outputs, or y, are targets, without such names the last one. Of a\n"
    "folder, pictures (PNG, JPEG) in one subfolder for each class. Files may be packed with gzip.",
    "An .npz or HDF5 file may also call its arrays x_train and y_train (x_test, y_test, x_val,\n"
    "y_val), train_images and train_labels, X and y, data and labels (or target), images and\n"
    "labels, arr_0 and arr_1; a note says what was taken. --x and --y name any others, and those\n"
    "of files for --val and --predict where these hold them. --val test validates with the test\n"
    "set of the file.",
    "What is computed follows the version of Keras that wrote the model, or --rules. The batch is\n"
    "cut over the devices as multi_gpu_model cuts it; there is one set of weights, and what is\n"
    "saved is the model itself: it loads on one device.",
    "--plan measures some steps, changes nothing, and predicts the step of 1, 2, 4, ... up to all\n"
    "of hosts=H hosts with gpus=N or cpus=N (or ranks=N) devices each: time, samples/s, efficiency,\n"
    "memory of a device, and from which number on more do not pay. link=100Gbit (12.5GB) and\n"
    "latency=5us are of the network between hosts, inner= and inner-latency= of what is within one\n"
    "(CPUs 3GB, 5us; GPUs 20GB, 10us). batch=N is of all devices together, as --batch-size; with\n"
    "scale=weak of each. cores=N are those of a host, which its CPU devices share (default those\n"
    "here). Where there is no such device speedup=X says how many times as fast as here it is, or\n"
    "flops=60T what it reaches. Under mpirun, or with --hosts, what is not given of link, latency,\n"
    "inner and inner-latency is measured between the ranks (link=measure insists), and hosts and\n"
    "devices are those of the job unless given.",
    "GPUs are cuda:0, cuda:1, ..., counted as CUDA_VISIBLE_DEVICES leaves them; it alone asks for\n"
    "none of them. They need pg-cuda.so, the driver, cuDNN and, for several, NCCL.",
    "BatchNormalization takes the statistics of each device's rows, as behind multi_gpu_model, or\n"
    "with --bn sync (and --deterministic) those of the whole batch.",
    "Callbacks are Keras': --schedule, --reduce-lr, --swap-ema, --early-stop, --checkpoint,\n"
    "--tensorboard, --csv, --report, run in this order, with Keras' parameters. What --checkpoint\n"
    "writes is the model itself, written while training goes on; {epoch:02d} and the names of\n"
    "logs ({val_loss:.4f}) are filled in. x.h5 is a full model here, with -o weights alone. best\n"
    "and last are links beside the files; Keras goes by the suffix of a name, so give it what\n"
    "they lead to: os.path.realpath('ckpt/best').",
    "The state of a run is kept in resume.pg, in the folder of the checkpoints (where it holds\n"
    "no {...}) or else the current one: at every checkpoint, at signals, with --resume-every.\n"
    "The one before it is resume.pg.1; that of another run, not at its end, becomes\n"
    "resume.pg.before (.before.2, ...). --resume goes on from resume.pg, to the same bits with\n"
    "--deterministic, in the folder where the run was started; its options need not be given\n"
    "again. --epochs, --devices, -j, names of outputs, --keep, --verify and what is shown may\n"
    "be others then; model, data, optimizer, loss and batch size must be the same. The run's\n"
    "own -o is written again; a run that had ended says so.",
    "A --config file is a JSON object with Keras' words for compile() and fit() and with the long\n"
    "names of options, _ for -; null is what is not given. Its callbacks are a list of\n"
    "{\"class_name\": NAME, \"config\": {...}} in the order wanted:",
    "  {\"optimizer\": \"adam\", \"loss\": \"mse\", \"epochs\": 5, \"validation_split\": 0.2,\n"
    "   \"callbacks\": [{\"class_name\": \"EarlyStopping\", \"config\": {\"patience\": 3}}]}",
    "Losses and metrics take Keras' parameters behind colons, lists with slashes:\n"
    "  --loss binary_crossentropy:from_logits:label_smoothing=0.1\n"
    "  --metrics accuracy,auc:curve=PR:name=pr,precision:thresholds=0.3/0.7",
    "--schedule counts the learning rate in optimizer steps, as Keras' schedules do:\n"
    "exponential_decay, inverse_time_decay, polynomial_decay, cosine_decay,\n"
    "cosine_decay_restarts, each with Keras' parameters, and\n"
    "piecewise_constant_decay:boundaries=10/20,values=0.1/0.01/0.001; or in epochs:\n"
    "epoch:rate=0.9, step:rate=0.1,epochs=30, cosine:epochs=90,min_lr=1e-5, constant, all with\n"
    "warmup_epochs=N if wanted, and table:FILE with one rate a line.",
    NULL,
};

const cli_tool fit_tool = {
    .name = "pgfit",
    .operands = "[MODEL]",
    .summary = "trains a model that Keras describes",
    .examples = examples,
    .about = about,
    .has_events = 1,
    .has_devices = 1,
    .has_ranks = 1,
    .status_1 = "data or weights do not fit the model, or --terminate-on-nan stopped it",
    .opts = options,
    .groups = CLI_READS_STDIN,
    .min_operands = 0,
    .max_operands = 2, /* --resume FILE MODEL */
    .refused = fit_refuse,
};

const cli_opt *fit_option(const char *name)
{
    const cli_opt *o = options;
    while (o->name && strcmp(o->name, name) != 0)
        o++;
    return o;
}

void fit_set_where_open(const char *option, const char *value)
{
    cli_buf why;
    if (!cli_given(option))
        (void)cli_set(fit_option(option), value, &why);
}

/* A share above 0 and below 1. */
static int read_share(pg_err *err)
{
    char *end = NULL;
    if (!validation_split)
        return 1;
    fit_args.fit.validation_split = strtod(validation_split, &end);
    if (*validation_split != '\0' && *end == '\0' && fit_args.fit.validation_split > 0 &&
        fit_args.fit.validation_split < 1)
        return 1;
    (void)pg_fail(err, PG_E_ARG, "--validation-split %s: not a share between 0 and 1",
                  cli_name(validation_split).s);
    return 0;
}

static int read_seconds(pg_err *err)
{
    const char *s = fit_args.resume_every;
    if (!s || (fit_is_number(s) && strtod(s, NULL) > 0))
        return 1;
    (void)pg_fail(err, PG_E_ARG, "--resume-every %s: not a number of seconds", cli_name(s).s);
    return 0;
}

/* Each of these writes a file of its own. */
static int read_outputs(pg_err *err)
{
    const struct {
        const char *option, *path;
    } all[] = {{"output", fit_args.output},
               {"out", fit_args.out},
               {"checkpoint", fit_callback_text("ModelCheckpoint", "filepath")},
               {"csv", fit_callback_text("CSVLogger", "filename")},
               {"report", fit_callback_text("Report", "filename")},
               {"tensorboard", fit_callback_text("TensorBoard", "log_dir")},
               {"resume", fit_args.fit.resume_file}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < i; k++) {
            if (!all[i].path || !all[k].path || strcmp(all[i].path, all[k].path) != 0)
                continue;
            (void)pg_fail(err, PG_E_ARG, "--%s and --%s are the same file: %s", all[k].option,
                          all[i].option, cli_name(all[i].path).s);
            return 0;
        }
    return 1;
}

/* "4": the first four, a count as multi_gpu_model has it; "0,2": ids, and so is "0,". */
static int read_gpus(pg_err *err)
{
    static char names[64 * 16];
    const int ids = gpus && strchr(gpus, ',') != NULL, all = gpus && strcmp(gpus, "all") == 0;
    const char *devices = all ? "cuda:*" : names;
    size_t n = 0;
    if (!gpus)
        return 1;
    for (const char *at = all ? "" : gpus; *at || (n == 0 && !all);
         at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        const size_t len = strcspn(at, ",");
        unsigned long number = len > 0 && len < 4 ? strtoul(at, NULL, 10) : 0;
        if (len == 0 || len > 3 || strspn(at, "0123456789") != len || (!ids && number == 0) ||
            number > 64)
            return pg_fail(err, PG_E_ARG, "--gpus %s: write a number of GPUs, their ids, or all",
                           *gpus ? cli_name(gpus).s : "\"\""),
                   pg_err_hint(err, "--gpus 2 (the first two), --gpus 0,2 (these two), --gpus 0, "
                                    "(this one)"),
                   0;
        for (unsigned long k = ids ? number : 0; k <= (ids ? number : number - 1); k++) {
            if (n + 16 > sizeof names)
                return pg_fail(err, PG_E_ARG, "--gpus %s: more than there can be",
                               cli_name(gpus).s),
                       0;
            n += (size_t)snprintf(names + n, sizeof names - n, "%scuda:%lu", n ? "," : "", k);
        }
    }
    if ((cli_given("devices") || strcmp(fit_args.train.devices, "cpu:0") != 0) &&
        strcmp(fit_args.train.devices, devices) != 0)
        return pg_fail(err, PG_E_ARG, "--gpus and --devices exclude each other"),
               pg_err_hint(err, "--devices %s", all ? "auto" : names), 0;
    fit_args.train.devices = devices;
    return 1;
}

int fit_check_arguments(pg_err *err)
{
    if (!read_gpus(err)) {
        return 0;
    } else if (!*fit_args.train.devices) {
        (void)pg_fail(err, PG_E_ARG, "--devices: no name given");
        pg_err_hint(err, "--devices auto, --devices cpu:0");
    } else if (!fit_args.train.model) {
        (void)pg_fail(err, PG_E_ARG, "no model given");
        pg_err_hint(err, "pgfit --help");
    } else if (fit_args.summary) {
        return 1;
    } else if (fit_args.plan && fit_check_plan(err) != PG_OK) {
        return 0;
    } else if (fit_args.evaluate && fit_args.fit.resume) {
        (void)pg_fail(err, PG_E_ARG, "--evaluate: looks at a model, and --resume goes on training");
        pg_err_hint(err, "pgfit CHECKPOINT --data FILE --evaluate");
    } else if (shuffled && fit_args.fit.no_shuffle) {
        (void)pg_fail(err, PG_E_ARG, "--shuffle and --no-shuffle exclude each other");
    } else if (fit_args.train.weights && fit_args.train.init_from) {
        (void)pg_fail(err, PG_E_ARG,
                      "--weights must fit the whole model, --init-from a part: give one");
    } else if (fit_args.predict && !fit_args.out) {
        (void)pg_fail(err, PG_E_ARG, "--predict: no --out given");
        pg_err_hint(err, "--out predictions.npy");
    } else if (fit_args.out && !fit_args.predict) {
        (void)pg_fail(err, PG_E_ARG, "--out is where --predict writes; trained weights go to -o");
    } else if (fit_args.full_model && !fit_args.output) {
        (void)pg_fail(err, PG_E_ARG, "--full-model belongs to -o, which is not given");
    } else if (!fit_args.data && (fit_args.evaluate || !fit_args.predict)) {
        (void)pg_fail(err, PG_E_ARG, "no --data given");
        pg_err_hint(err, "pgfit --help");
    } else {
        return read_share(err) && read_seconds(err) && read_outputs(err);
    }
    return 0;
}

/* Keras' policies are the same as their types: variables are float32 in any case. */
static int precision_choice(void)
{
    static const char *const words[] = {"model", "tf32", "bfloat16", "float16", "float32"};
    const char *word = strncmp(precision, "mixed_", 6) == 0 ? precision + 6 : precision;
    int k = 0;
    while (strcmp(words[k], word) != 0)
        k++;
    return k;
}

static int conv_choice(void)
{
    if (strcmp(conv, "auto") == 0)
        return 0;
    return strcmp(conv, "direct") == 0 ? 1 : 2;
}

void fit_read_arguments(void)
{
    fit_args.train.rules = rules;
    fit_args.train.schedule = fit_is_by_epoch(schedule) ? NULL : schedule;
    fit_args.fit.reset_states = strcmp(reset, "epoch") == 0;
    fit_args.train.optimizer_rules = !family ? 0 : strcmp(family, "legacy") == 0 ? 1 : 2;
    fit_args.train.conv = conv_choice();
    fit_args.train.precision = precision_choice();
    fit_args.train.threads = threads;
    fit_args.train.joins_job = 1;
    fit_args.train.comm_timeout = (double)comm_timeout;
    fit_args.train.cancel = cli_cancel();
    fit_args.train.lanes = lanes;
    fit_args.train.seed = fit_args.fit.seed = seed;
    fit_args.train.batch_norm = !bn ? 0 : strcmp(bn, "replica") == 0 ? 1 : 2;
    fit_args.fit.accumulate = accumulate;
    fit_args.fit.epochs = epochs;
    fit_args.fit.shuffle_batches = shuffle != NULL;
    fit_args.fit.initial_epoch = initial_epoch;
    fit_args.fit.steps_per_epoch = steps;
    fit_args.fit.validation_steps = val_steps;
    fit_args.fit.validation_freq = val_freq;
    fit_args.fit.batch_size = batch_size;
    /* what a file says of its training is of no concern then */
    fit_args.train.for_prediction =
        fit_args.predict && !fit_args.data && !fit_args.output && !fit_args.evaluate;
    fit_args.fit.measure_alone = !cli.quiet;
}
