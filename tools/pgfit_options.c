/* pgfit_options.c - the options of pgfit: their table, the help text, and the checks of values. */
#include <stdlib.h>
#include <string.h>

#include "pgfit.h"

/* Defaults. */
fit_arguments fit_args = {.train = {.devices = "cpu:0"}, .interpolation = "bilinear"};

static int cpu_relocation, profiles;
static const char *validation_split, *shuffle, *rules, *family, *gpus, *bn;
static const char *reset = "never", *conv = "auto", *precision = "model", *quantize;
static const char *schedule;
static int shuffled;
static unsigned accumulate = 1, initial_epoch, steps, val_steps, val_freq = 1;
static unsigned epochs = 1, batch_size, threads, lanes, seed, comm_timeout;

/* Parameters of callbacks; pgfit_callbacks.c finds them through the table. */
static const char *reduce_lr, *early_stop, *tensorboard, *csv, *report;
static const char *checkpoint, *monitor, *mode, *save_freq, *threshold, *verify, *max_shard;
static int best_only, weights_only, append, swap_ema, swap_on_epoch;
static unsigned period, keep, tensorboard_every, histogram_freq;

static const cli_opt options[] = {
    CLI_HEADING("Options that most runs need"),
    {0, "data", "FILE[,FILE...]", NULL, &fit_args.data, NULL, NULL,
     "training data: .npz, HDF5, CSV, a folder of pictures, or inputs and targets as .npy or IDX"},
    {0, "val", "FILE[,FILE...]|test|val", NULL, &fit_args.validation, NULL, NULL,
     "validation data; test or val: the set of that name in the file of --data (./test: a file)"},
    {0, "weights", "FILE", NULL, &fit_args.train.weights, NULL, NULL,
     "initial weights, in any format that pginfo knows"},
    {0, "part", "KEY", NULL, &cli.part, NULL, NULL,
     "take this part of --weights or --init-from (model_ema, nets.generator; . for all)"},
    {0, "loss", "NAME|OUT=NAME,...", NULL, &fit_args.train.loss, NULL, NULL,
     "the loss, or one for each output"},
    {0, "metrics", "NAME,...|OUT=NAME,...", NULL, &fit_args.train.metrics, NULL, NULL,
     "metrics to report beside the loss"},
    {0, "optimizer", "NAME[:KEY=VALUE,...]", NULL, &fit_args.train.optimizer, NULL, NULL,
     "Keras' name and config keys (default RMSprop)"},
    {0, "epochs", "N", NULL, NULL, &epochs, NULL, "passes over the data (default 1)"},
    {0, "batch-size", "N", NULL, NULL, &batch_size, NULL,
     "rows per step over all devices (default 32)"},
    {0, "seed", "N", NULL, NULL, &seed, NULL,
     "seed of the initial weights and of the order of rows"},
    {0, "devices", "LIST", NULL, &fit_args.train.devices, NULL, NULL,
     "replicas: cpu:0,cpu:1 or cuda:0; a name may repeat; auto: every GPU (if several processes "
     "share a machine, the process' own), otherwise the CPU"},
    {0, "checkpoint", "TEMPLATE", NULL, &checkpoint, NULL, NULL,
     "save after every epoch; {epoch}, {val_loss:.4f}, ... are filled in; formats as for -o"},
    {0, "resume", "FILE|auto|never", &fit_args.resumes, &fit_args.resume, NULL, NULL,
     "continue from resume.pg or FILE (or a folder's resume.pg), with its options; auto: start if "
     "there is none; never: keep no state"},
    {'o', "output", "FILE", NULL, &fit_args.output, NULL, NULL,
     "save the trained model: .h5, .weights.h5 or .safetensors (weights), .keras (full model)"},
    {0, "evaluate", NULL, &fit_args.evaluate, NULL, NULL, NULL,
     "do not train: print loss and metrics over the data"},
    {0, "predict", "FILE[,FILE...]", NULL, &fit_args.predict, NULL, NULL,
     "write the predictions of the model (trained first if --data is given) for these inputs"},
    {0, "out", "FILE", NULL, &fit_args.out, NULL, NULL,
     "--predict: output file: .npy, or .npz with an array per output (y0, ...)"},
    CLI_HEADING("Data"),
    {0, "x", "NAME,...", NULL, &fit_args.x, NULL, NULL,
     "arrays (of a table: columns) that are the inputs, in the model's order"},
    {0, "y", "NAME,...", NULL, &fit_args.y, NULL, NULL, "arrays or columns that are the targets"},
    {0, "validation-split", "SHARE", NULL, &validation_split, NULL, NULL,
     "share of the rows, taken from the end, to validate with"},
    {0, "validation-steps", "N", NULL, NULL, &val_steps, NULL,
     "batches to validate with, counted from the first row (default all)"},
    {0, "validation-freq", "N", NULL, NULL, &val_freq, NULL,
     "validate after every N epochs (default 1)"},
    {0, "reshape", "H,W,C", NULL, &fit_args.reshape, NULL, NULL,
     "dimensions of one row of the inputs"},
    {0, "any-classes", NULL, &fit_args.any_classes, NULL, NULL, NULL,
     "pictures: accept class folders that are empty, hold folders, or do not fit the output"},
    {0, "interpolation", "HOW", NULL, &fit_args.interpolation, NULL, "bilinear|nearest",
     "how to resize pictures (default bilinear)"},
    CLI_HEADING("Model"),
    {0, "init-from", "FILE", NULL, &fit_args.train.init_from, NULL, NULL,
     "initial weights for layers with the same names and shapes in FILE; lists them"},
    {0, "freeze", "GLOB,...", NULL, &fit_args.train.freeze, NULL, NULL,
     "leave these layers (or models inside the model) unchanged; !GLOB: except these"},
    {0, "replace-head", "N|N:ACTIVATION|OUT=N,...", NULL, &fit_args.train.replace_head, NULL, NULL,
     "another number of classes: the last Dense layer or convolution starts anew"},
    {0, "compile-from", "FILE", NULL, &fit_args.train.compile_from, NULL, NULL,
     "take optimizer, loss and metrics that are not given from this full model"},
    {0, "rules", "VERSION", NULL, &rules, NULL, NULL, "compute as this version of Keras does"},
    CLI_HEADING("Loss, metrics and optimizer"),
    {0, "loss-weights", "OUT=W,...", NULL, &fit_args.train.loss_weights, NULL, NULL,
     "weight of each output's loss"},
    {0, "loss-from-probabilities", NULL, &fit_args.train.loss_from_probabilities, NULL, NULL, NULL,
     "never compute losses on logits"},
    {0, "class-weight", "CLASS=W,...", NULL, &fit_args.fit.class_weight, NULL, NULL,
     "weight of each class in the training loss"},
    {0, "weighted-metrics", "NAME,...|OUT=NAME,...", NULL, &fit_args.train.weighted_metrics, NULL,
     NULL, "metrics to report with the weights of rows and classes"},
    {0, "optimizer-rules", "FAMILY", NULL, &family, NULL, "legacy|new",
     "update rules of Keras up to 2.10 (legacy) or of later versions (new)"},
    {0, "schedule", "NAME:KEY=VALUE,...", NULL, &schedule, NULL, NULL,
     "learning rate by steps (cosine_decay:decay_steps=900) or by epochs (epoch:rate=0.9)"},
    CLI_HEADING("Training"),
    {0, "shuffle", NULL, &shuffled, &shuffle, NULL, "batch",
     "reorder the rows in every epoch (default); =batch: keep neighbouring rows together (HDF5)"},
    {0, "no-shuffle", NULL, &fit_args.fit.no_shuffle, NULL, NULL, NULL,
     "keep the rows in the order in which they are stored"},
    {0, "steps-per-epoch", "N", NULL, NULL, &steps, NULL,
     "batches per epoch; the next epoch continues after them (default one pass)"},
    {0, "initial-epoch", "N", NULL, NULL, &initial_epoch, NULL,
     "number of epochs already trained: numbering continues from there"},
    {0, "accumulate", "N", NULL, NULL, &accumulate, NULL,
     "one update for every N batches, as if they were one batch"},
    {0, "reset-states", "WHEN", NULL, &reset, NULL, "never|epoch",
     "reset the state of stateful layers (default never)"},
    {0, "bn", "HOW", NULL, &bn, NULL, "replica|sync",
     "BatchNormalization over the rows of one replica, or over the whole batch"},
    {0, "deterministic", NULL, &fit_args.train.deterministic, NULL, NULL, NULL,
     "the same bits in every run and on any number of devices"},
    {0, "lanes", "N", NULL, NULL, &lanes, NULL,
     "--deterministic: parts that a batch is cut into, a power of two (default 8)"},
    {0, "terminate-on-nan", NULL, &fit_args.fit.terminate_on_nan, NULL, NULL, NULL,
     "stop at the first loss that is NaN or infinite, and say where it arose"},
    CLI_HEADING("Devices"),
    {0, "gpus", "N|IDS|all", NULL, &gpus, NULL, NULL,
     "replicas on the first N GPUs, on the GPUs with these ids (0,2), or on all"},
    {'j', "threads", "N", NULL, NULL, &threads, NULL, "CPU cores to use (default all)"},
    {0, "place", "LAYER[#CALL]=DEVICE,...", NULL, &fit_args.train.place, NULL, NULL,
     "run these calls on this device, the rest on the first of --devices; weights follow their "
     "calls"},
    {0, "precision", "HOW", NULL, &precision, NULL,
     "model|float32|tf32|bfloat16|float16|mixed_bfloat16|mixed_float16|bfloat16=emulate",
     "number format of layers: float32, bfloat16 (GPUs; CPUs with fast products of it), tf32 or "
     "float16 (GPUs) (default model: each layer's dtype policy); bfloat16=emulate rounds on any "
     "CPU as bfloat16 would, for tests, and need not be faster"},
    {0, "quantize", "HOW", NULL, &quantize, NULL, "int8",
     "predict and evaluate with products in 8 bits, faster on CPUs with VNNI instructions; says "
     "what that changes (-q saves the time)"},
    {0, "conv", "HOW", NULL, &conv, NULL, "auto|direct|winograd",
     "convolution algorithm (default auto: the faster one)"},
    {0, "cpu-merge", NULL, &fit_args.train.cpu_merge, NULL, NULL, NULL,
     "several GPUs: sum gradients by copies instead of NCCL"},
    {0, "gpu-tune", NULL, &fit_args.train.gpu_tune, NULL, NULL, NULL,
     "GPUs: what only saves time and no real GPU has run yet: trials of algorithms, recorded "
     "steps, "
     "sums during the backward pass"},
    {0, "cpu-relocation", NULL, &cpu_relocation, NULL, NULL, NULL,
     "multi_gpu_model's option; changes nothing, as every GPU holds the weights"},
    CLI_HEADING("Several machines"),
    {0, "hosts", "HOST:N,...", NULL, &fit_args.hosts, NULL, NULL,
     "start N processes on each host with the installed mpirun"},
    {0, "comm-timeout", "SECONDS", NULL, NULL, &comm_timeout, NULL,
     "how long a process waits for the others of an mpirun, srun or torchrun job (default 300)"},
    {0, "shard-optimizer", NULL, &fit_args.train.shard_optimizer, NULL, NULL, NULL,
     "each process keeps only its part of the optimizer state (ZeRO stage 1)"},
    {0, "compress", "HOW", NULL, &fit_args.train.compress, NULL, NULL,
     "processes on CPUs send smaller gradients, for slow links: bfloat16, or powersgd:rank=4 for "
     "matrices as factors of low rank; what is lost is made up for in the next step"},
    {0, "plan", "KEY=VALUE,...", NULL, &fit_args.plan, NULL, NULL,
     "do not train: predict a step on other devices: hosts=16,gpus=8,link=100Gbit"},
    CLI_HEADING("Checkpoints"),
    {0, "monitor", "NAME", NULL, &monitor, NULL, NULL,
     "the loss or metric that decides which checkpoint is best (default val_loss)"},
    {0, "mode", "MODE", NULL, &mode, NULL, "auto|min|max",
     "whether the lowest or the highest value is best (auto: highest if the name has \"acc\")"},
    {0, "save-best-only", NULL, &best_only, NULL, NULL, NULL,
     "write a checkpoint only when it improves on the best"},
    {0, "save-weights-only", NULL, &weights_only, NULL, NULL, NULL,
     "write .h5 checkpoints without description and optimizer"},
    {0, "save-freq", "epoch|N", NULL, &save_freq, NULL, NULL,
     "write one after every N batches (default epoch)"},
    {0, "period", "N", NULL, NULL, &period, NULL, "write one after every N epochs (default 1)"},
    {0, "initial-value-threshold", "X", NULL, &threshold, NULL, NULL,
     "value that the first checkpoint must improve on"},
    {0, "keep", "N", NULL, NULL, &keep, NULL,
     "keep N checkpoints, the best among them (default all)"},
    {0, "verify", "WHICH", NULL, &verify, NULL, "all|best|none",
     "reload checkpoints on one device (default best)"},
    {0, "max-shard-size", "SIZE", NULL, &max_shard, NULL, NULL,
     "split larger checkpoints into a folder of shards: 2GB, 500MiB"},
    {0, "resume-every", "SECONDS", NULL, &fit_args.resume_every, NULL, NULL,
     "save the state for --resume this often, besides at checkpoints and signals"},
    CLI_HEADING("Other callbacks"),
    {0, "reduce-lr", "KEY=VALUE,...", NULL, &reduce_lr, NULL, NULL,
     "Keras' ReduceLROnPlateau: factor=0.1,patience=10,monitor=val_loss"},
    {0, "early-stop", "KEY=VALUE,...", NULL, &early_stop, NULL, NULL,
     "Keras' EarlyStopping: patience=15,restore_best,monitor=val_loss"},
    {0, "swap-ema", NULL, &swap_ema, NULL, NULL, NULL,
     "Keras' SwapEMAWeights: validate with the moving averages of an optimizer with use_ema"},
    {0, "swap-on-epoch", NULL, &swap_on_epoch, NULL, NULL, NULL,
     "--swap-ema: let checkpoints at the end of an epoch hold the averages too"},
    {0, "tensorboard", "DIR", NULL, &tensorboard, NULL, NULL, "write event files for TensorBoard"},
    {0, "tensorboard-every", "N", NULL, NULL, &tensorboard_every, NULL,
     "--tensorboard: also values of every N-th batch"},
    {0, "histogram-freq", "N", NULL, NULL, &histogram_freq, NULL,
     "--tensorboard: histograms of the weights every N epochs"},
    {0, "csv", "FILE", NULL, &csv, NULL, NULL,
     "write one line per epoch, as Keras' CSVLogger does"},
    {0, "append", NULL, &append, NULL, NULL, NULL, "--csv: add to the existing file"},
    {0, "report", "FILE", NULL, &report, NULL, NULL,
     "write a page for a browser, updated after every epoch"},
    CLI_HEADING("Files"),
    {0, "full-model", NULL, &fit_args.full_model, NULL, NULL, NULL,
     "-o FILE.h5: save description, training configuration and optimizer too"},
    {'f', "force", NULL, &fit_args.force, NULL, NULL, NULL, "replace an existing output"},
    {0, "config", "FILE", NULL, &fit_args.config, NULL, NULL,
     "read options that are not given here from JSON: Keras' words, or long options with _ for -"},
    {0, "print-config", NULL, &fit_args.print_config, NULL, NULL, NULL,
     "print all options in the form that --config reads, and exit"},
    {0, "demo", "NAME", NULL, &fit_args.demo, NULL, "digits",
     "train a small model on data that comes with the program"},
    CLI_HEADING("Before training"),
    {'n', "dry-run", NULL, &fit_args.dry_run, NULL, NULL, NULL,
     "check model, weights and data, and estimate the memory that training needs"},
    {0, "summary", NULL, &fit_args.summary, NULL, NULL, NULL,
     "print the model as Keras' summary() does, and exit"},
    {0, "list-layers", NULL, &fit_args.list_layers, NULL, NULL, NULL,
     "print the layer classes, what trains each or why nothing does, and exit"},
    CLI_HEADING("Display and help"),
    {0, "profile", "layers|trace[:FILE][,steps=A..B]", &profiles, &fit_args.profile, NULL, NULL,
     "report which operations took the time; =layers: and in which layers; =trace: write what each "
     "thread did in some steps (default 3..7) to FILE (default trace.json), for ui.perfetto.dev"},
    {0, "json", NULL, &cli.json, &fit_args.json, NULL, "batch",
     "print one JSON object per line: the run, its epochs; =batch: also batches (with ms)"},
    {0},
};

static const cli_example examples[] = {
    {"pgfit model.json --data train.npz --loss mse --epochs 10 -o trained.h5",
     "train from the model's own initializers"},
    {"pgfit full.keras --data train.npz --devices cpu:0,cpu:1 -o trained.keras",
     "continue from a full model, on two replicas"},
    {"pgfit --config run.json --checkpoint 'ckpt/{epoch:02d}.keras'",
     "options from a file, a checkpoint after every epoch"},
    {"pgfit --resume=ckpt/resume.pg", "continue an interrupted run with its options"},
    {"pgfit base.keras --replace-head 10 --freeze 'conv*' --data d.npz -o mine.keras",
     "retrain a model for other classes"},
    {"pgfit model.json --weights trained.h5 --predict images.npy --out classes.npy",
     "predict with trained weights"},
    {0},
};

static const char *const about[] = {
    "MODEL is a model JSON (-: from standard input), a full .h5 or a .keras. The data are arrays\n"
    "x0, x1, ... and y0, y1, ... of an .npz or HDF5 file, in the order of the model's inputs and\n"
    "outputs, or arrays named like their layers; w0, ... are row weights. Several files, A,B,...,\n"
    "are .npy or IDX files of one array each: inputs, targets, weights. In a CSV table, columns\n"
    "named like the outputs, or y, are targets; otherwise the last column is. A folder holds\n"
    "pictures (PNG, JPEG), with one subfolder per class. Files may be compressed with gzip.",
    "The arrays of an .npz or HDF5 file may also be named x_train and y_train (x_test, y_test,\n"
    "x_val, y_val), train_images and train_labels, X and y, data and labels (or target), images\n"
    "and labels, arr_0 and arr_1; a note says which were used. --x and --y choose any others, "
    "also\n"
    "in files for --val and --predict that hold them. --val test validates with the test set of\n"
    "the file.",
    "pgfit computes as the version of Keras that wrote the model does; --rules names another one.\n"
    "The batch is divided among the devices as multi_gpu_model divides it, but there is one set "
    "of\n"
    "weights, and the saved file is the model itself: it loads on one device.",
    "--plan measures some steps, changes nothing, and predicts the step on 1, 2, 4, ... up to all\n"
    "devices of hosts=H hosts with gpus=N or cpus=N (or ranks=N) devices each: time, samples/s,\n"
    "efficiency, memory per device, and the point beyond which more devices stop paying off.\n"
    "link=100Gbit (12.5GB) and latency=5us describe the network between hosts, inner= and\n"
    "inner-latency= the links inside one (default: CPUs 3GB, 5us; GPUs 20GB, 10us). batch=N is "
    "the\n"
    "size over all devices, as --batch-size is; with scale=weak, the size per device. cores=N are\n"
    "the cores of a host, which its CPU devices share (default: as many as here). For a device\n"
    "that is not here, give speedup=X (times the speed of this machine) or flops=60T. Under\n"
    "mpirun, or with --hosts, pgfit measures link, latency, inner and inner-latency between the\n"
    "ranks unless given (link=measure insists), and takes hosts and devices from the job.",
    "--profile=trace writes Chrome's trace event format: operations with their layers, sums of\n"
    "gradients, updates, waiting for data, validation, files, per thread and process, by one "
    "clock.\n"
    "Steps count from 1 in this run. The file is written after the last of them; a trace that is\n"
    "there is replaced. On GPUs each operation is waited for.",
    "GPUs are cuda:0, cuda:1, ..., numbered within CUDA_VISIBLE_DEVICES; that variable alone\n"
    "selects none of them. They need pg-cuda.so, the driver, cuDNN and, for several, NCCL.",
    "BatchNormalization uses the statistics of each device's rows, as multi_gpu_model does; with\n"
    "--bn sync (or --deterministic), those of the whole batch.",
    "Callbacks are Keras', with Keras' parameters, and run in this order: --schedule,\n"
    "--reduce-lr, --swap-ema, --early-stop, --checkpoint, --tensorboard, --csv, --report.\n"
    "--checkpoint writes the model itself while training continues, and fills in {epoch:02d} and\n"
    "the names of logs ({val_loss:.4f}). An x.h5 is a full model here; with -o it holds weights\n"
    "only. best and last are links beside the checkpoints. Keras chooses a format by suffix, so\n"
    "give it the target of a link: os.path.realpath('ckpt/best').",
    "pgfit keeps the state of a run in resume.pg, in the folder of the checkpoints (if its name\n"
    "holds no {...}) or else in the current one: at every checkpoint, on signals, and with\n"
    "--resume-every. The state before it is resume.pg.1; an unfinished state of another run\n"
    "becomes resume.pg.before (.before.2, ...). --resume continues from resume.pg in the "
    "directory\n"
    "in which the run started, with the options of the run, and to the same bits with\n"
    "--deterministic. --epochs, --devices, -j, output names, --keep, --verify and display options\n"
    "may change; model, data, optimizer, loss and batch size may not. A resumed run may overwrite\n"
    "its own -o; if a run has already ended, pgfit says so.",
    "A --config file is a JSON object with Keras' words for compile() and fit(), and with long\n"
    "option names, _ for -; null means not given. Its callbacks are a list of\n"
    "{\"class_name\": NAME, \"config\": {...}} in the order in which they run:",
    "  {\"optimizer\": \"adam\", \"loss\": \"mse\", \"epochs\": 5, \"validation_split\": 0.2,\n"
    "   \"callbacks\": [{\"class_name\": \"EarlyStopping\", \"config\": {\"patience\": 3}}]}",
    "Losses and metrics take Keras' parameters after colons, lists with slashes:\n"
    "  --loss binary_crossentropy:from_logits:label_smoothing=0.1\n"
    "  --metrics accuracy,auc:curve=PR:name=pr,precision:thresholds=0.3/0.7",
    "--schedule takes Keras' schedules, counted in optimizer steps: exponential_decay,\n"
    "inverse_time_decay, polynomial_decay, cosine_decay, cosine_decay_restarts, each with Keras'\n"
    "parameters, and piecewise_constant_decay:boundaries=10/20,values=0.1/0.01/0.001. Others are\n"
    "counted in epochs: epoch:rate=0.9, step:rate=0.1,epochs=30, cosine:epochs=90,min_lr=1e-5 and\n"
    "constant, each also with warmup_epochs=N, and table:FILE with one rate per line.",
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

/* Options that each write a file of their own. */
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
               {"profile", fit_args.fit.trace},
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

/* "4": the first four, a count as in multi_gpu_model; "0,2": ids, as is "0,". */
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
        (void)pg_fail(
            err, PG_E_ARG,
            "--evaluate only looks at a model, and --resume continues training: give one of them");
        pg_err_hint(err, "pgfit CHECKPOINT --data FILE --evaluate");
    } else if (shuffled && fit_args.fit.no_shuffle) {
        (void)pg_fail(err, PG_E_ARG, "--shuffle and --no-shuffle exclude each other");
    } else if (fit_args.train.weights && fit_args.train.init_from) {
        (void)pg_fail(err, PG_E_ARG,
                      "--weights must fit the whole model, --init-from a part: give one");
    } else if (cli.part && !fit_args.train.weights && !fit_args.train.init_from) {
        (void)pg_fail(err, PG_E_ARG,
                      "--part takes a part of --weights or --init-from: neither is given");
    } else if (fit_args.predict && !fit_args.out) {
        (void)pg_fail(err, PG_E_ARG, "--predict: no --out given");
        pg_err_hint(err, "--out predictions.npy");
    } else if (fit_args.out && !fit_args.predict) {
        (void)pg_fail(err, PG_E_ARG, "--out names the file of --predict; trained weights go to -o");
    } else if (quantize && !fit_args.predict && !fit_args.evaluate) {
        (void)pg_fail(err, PG_E_ARG,
                      "--quantize belongs to --predict and --evaluate; training stays in float32");
    } else if (fit_args.full_model && !fit_args.output) {
        (void)pg_fail(err, PG_E_ARG, "--full-model belongs to -o, which is not given");
    } else if (!fit_args.data && (fit_args.evaluate || !fit_args.predict)) {
        (void)pg_fail(err, PG_E_ARG, "no --data given");
        pg_err_hint(err, "pgfit --help");
    } else {
        return read_share(err) && read_seconds(err) && fit_read_profile(profiles, err) &&
               read_outputs(err);
    }
    return 0;
}

/* Keras' mixed policies mean the same as their types: variables are float32 either way. */
static int precision_choice(void)
{
    static const char *const words[] = {"model",   "tf32",    "bfloat16",
                                        "float16", "float32", "bfloat16=emulate"};
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
    fit_args.train.part = cli.part;
    fit_args.train.schedule = fit_is_by_epoch(schedule) ? NULL : schedule;
    fit_args.fit.reset_states = strcmp(reset, "epoch") == 0;
    fit_args.train.optimizer_rules = !family ? 0 : strcmp(family, "legacy") == 0 ? 1 : 2;
    fit_args.train.conv = conv_choice();
    fit_args.train.precision = precision_choice();
    fit_args.train.quantize = quantize;
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
    /* then the training configuration of the file does not matter */
    fit_args.train.for_prediction =
        fit_args.predict && !fit_args.data && !fit_args.output && !fit_args.evaluate;
    fit_args.fit.measure_alone = !cli.quiet;
    fit_args.tells_quantized = quantize && !cli.quiet;
}
