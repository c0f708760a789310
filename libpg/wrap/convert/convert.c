/* convert.c - pg_convert_file(): open and judge, outline, steps, write, prove. The steps are in
 * convert_*.c, one concern each; this file has their order. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/fmt_keras_v3.h"
#include "format/shards.h"
#include "pg/shard.h"
#include "wrap/convert/convert.h"

static const struct {
    const char *word, *suffix;
    const pg__format *format;
    const char *says; /* pg_store_format() of the output */
} targets[] = {
    [PG_TO_H5] = {"h5", ".h5", &pg__fmt_keras_h5, "keras-h5-weights"},
    [PG_TO_WEIGHTS_H5] = {"weights.h5", ".weights.h5", &pg__fmt_keras_v3, "keras-weights-h5"},
    [PG_TO_KERAS] = {"keras", ".keras", &pg__fmt_keras_zip, "keras-zip"},
    [PG_TO_SAFETENSORS] = {"safetensors", ".safetensors", &pg__fmt_safetensors, "safetensors"},
};
#define N_TARGETS (sizeof targets / sizeof *targets)

void pg_convert_report_fini(pg_convert_report *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_notes; i++)
        pg__mem_free(r->notes[i]);
    pg__mem_free(r->notes);
    *r = (pg_convert_report){0};
}

/* ---- options ---- */

/* Formats of other programs, by suffix, and which of our formats those programs read: converters
 * take a .keras file if there is a description, and PyTorch takes tensors in its own layout. */
static const struct foreign {
    const char *suffix, *what, *with_model;
    int torch;
} foreign[] = {
    {".onnx", "ONNX", ".keras", 0},
    {".tflite", "TensorFlow Lite", ".keras", 0},
    {".pb", "a TensorFlow graph", ".keras", 0},
    {".pt", "a pickle of PyTorch", ".safetensors", 1},
    {".pth", "a pickle of PyTorch", ".safetensors", 1},
    {".bin", "a pickle of PyTorch", ".safetensors", 1},
    {".ckpt", "a checkpoint of Lightning or TensorFlow", ".safetensors", 0},
    {".distcp", "a checkpoint of torch.distributed", ".safetensors", 1},
    {".pkl", "a pickle of Python", ".safetensors", 0},
    {".gguf", "GGUF", ".safetensors", 0},
    {".msgpack", "msgpack of Flax", ".safetensors", 0},
};

static int has_model(const pg__convert *c)
{
    pg_store *s = NULL;
    if (c->o->model || c->o->model_text)
        return 1;
    if (!c->r.s && pg_store_open(&s, c->r.in, NULL, NULL) != PG_OK)
        return 0;
    const int found = pg_store_text(s ? s : c->r.s, PG_TEXT_MODEL_CONFIG, NULL) != NULL;
    pg_store_close(s);
    return found;
}

/* Is the suffix that of a format that is not written? An .h5 must not get it. */
static pg_status refuse_foreign(const pg__convert *c, const struct foreign *f, pg_err *err)
{
    const char *out = c->r.out, *model = c->o->model;
    const int full = has_model(c), n = (int)(strlen(out) - strlen(f->suffix));
    const char *suffix = full ? f->with_model : ".safetensors";
    (void)pg_fail(err, PG_E_ARG, "%s: %s is not written; the nearest that is: %s", PG_SHOW(out),
                  f->what, suffix);
    pg_err_do(err, PG_DO_CONVERT, c->r.in);
    pg_err_arg(err, "out", "%.*s%s", n, out, suffix);
    if (full && f->torch)
        pg_err_arg(err, "layout", "pytorch");
    if (model)
        pg_err_arg(err, "model", "%s", model);
    return PG_E_ARG;
}

static pg_status choose_target(pg__convert *c, pg_err *err)
{
    const char *out = c->r.out;
    size_t best = N_TARGETS;
    for (size_t i = 0; i < N_TARGETS; i++)
        if (c->o->to ? strcmp(c->o->to, targets[i].word) == 0
                     : out && (pg__has_suffix(out, targets[i].suffix) ||
                               (i == PG_TO_H5 && pg__has_suffix(out, ".hdf5"))))
            best = best < N_TARGETS && strlen(targets[best].suffix) > strlen(targets[i].suffix)
                       ? best
                       : i;
    if (best < N_TARGETS) {
        c->target = (pg__target)best;
        return PG_OK;
    }
    if (c->o->to)
        return pg_fail(err, PG_E_ARG,
                       "there is no format \"%s\" to write: h5, weights.h5, keras, "
                       "safetensors, npy, npz",
                       PG_SHOW(c->o->to));
    for (size_t i = 0; out && i < sizeof foreign / sizeof *foreign; i++)
        if (pg__has_suffix(out, foreign[i].suffix))
            return refuse_foreign(c, &foreign[i], err);
    for (size_t i = 0; out && i < 2; i++)
        if (pg__has_suffix(out, i ? ".npz" : ".npy")) {
            (void)pg_fail(
                err, PG_E_ARG,
                "%s: as NumPy arrays a checkpoint is a folder with a manifest, not one file",
                PG_SHOW(out));
            pg_err_do(err, PG_DO_CHOOSE_FORMAT, c->r.in);
            pg_err_arg(err, "to", "%s", i ? "npz" : "npy");
            return PG_E_ARG;
        }
    (void)pg_fail(err, PG_E_ARG, "%s: the suffix does not say which format is meant",
                  out ? PG_SHOW(out) : "output");
    pg_err_do(err, PG_DO_CHOOSE_FORMAT, NULL);
    return PG_E_ARG;
}

static pg_status check_options(const pg_convert_opts *o, pg__target target, pg_err *err)
{
    if (o->keras && o->keras != 2 && o->keras != 3)
        return pg_fail(err, PG_E_ARG, "keras must be 2 or 3, not %d", o->keras);
    if (o->layout == PG_LAYOUT_PYTORCH && target != PG_TO_SAFETENSORS)
        return pg_fail(err, PG_E_ARG, "PyTorch's layout is written as safetensors");
    if (o->rename && target != PG_TO_SAFETENSORS)
        return pg_fail(err, PG_E_ARG,
                       "tensors are renamed in safetensors only: elsewhere their "
                       "names are part of the format");
    return PG_OK;
}

pg_status pg__convert_needs_model(const pg__convert *c, const char *what, pg_err *err)
{
    (void)pg_fail(err, PG_E_MISMATCH, "has no model description; %s needs one", what);
    pg_err_do(err, PG_DO_GIVE_MODEL, c->r.in);
    if (c->r.out)
        pg_err_arg(err, "out", "%s", c->r.out);
    return PG_E_MISMATCH;
}

/* ---- steps ---- */

static pg_status load_model(pg__graph **out, const pg_convert_opts *o, pg_err *err)
{
    return pg__graph_given(out, o->model, o->model_text, err);
}

/* Plans the file as it is, or its template. */
static pg_status plan_input(pg__convert *c, pg_err *err)
{
    const pg_unwrap_opts u = {.like = c->o->model};
    pg_status st = PG_OK;
    if (pg__v3_shard_index(c->r.s))
        PG_FAIL(PG_E_NO, "one of several shards; convert its index, %s",
                PG_SHOW(pg__v3_shard_index(c->r.s)));
    if (c->o->unwrap && (c->o->model || c->o->model_text)) {
        c->r.like_name = pg__model_name(c->o->model, c->o->model_text);
        PG_TRY(load_model(&c->r.like, c->o, err));
    }
    if (c->o->unwrap)
        return pg__plan_unwrap(&c->r, &u, err);
    const int matched = (c->o->model || c->o->model_text) && pg__store_has_objects(c->r.s);
    if (c->r.v.f.verdict == PG_V_WRAPPER && !matched)
        PG_TRY(pg__add_note(&c->r, err,
                            "this is a parallel wrapper's file, converted as it is; unwrapping "
                            "gives its one-device model"));
    PG_TRY(pg__plan_copy_of(&c->r.plan, c->r.s, err));
done:
    return st;
}

/* The description of the tensors: --model, or the input's own. */
static pg_status find_graph(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    const int given = c->o->model || c->o->model_text;
    if (given && !c->o->unwrap)
        return load_model(&c->graph, c->o, err);
    if (c->at.model_config.n) {
        st = pg__graph_parse(&c->graph, c->at.model_config.s, c->at.model_config.n, NULL);
        c->graph_is_own = st == PG_OK;
        if (st == PG_E_NOMEM)
            return pg__nomem(err);
        if (st != PG_OK) {
            st = pg__add_note(&c->r, err, "its model description is damaged and was left out");
            c->at.model_config.n = c->at.training_config.n = 0;
        }
        return st;
    }
    return given ? load_model(&c->graph, c->o, err) : PG_OK;
}

static pg_status change_dtype(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    if (!c->o->dtype)
        return PG_OK;
    PG_TRY(pg__outline_dtype(&c->at, c->o->dtype, err));
    if (strcmp(c->o->dtype, pg_dtype_name(PG_BF16)) == 0 && c->target == PG_TO_H5)
        PG_TRY(pg__add_note(&c->r, err, "no Keras reads bfloat16 from a legacy .h5"));
done:
    return st;
}

static int is_beside(const pg__convert *c, size_t i)
{
    return c->from == PG_SHAPE_PATHS && !pg__v3_is_state(c->at.state[i].name);
}

pg_status pg__convert_lose_beside(pg__convert *c, pg_err *err)
{
    size_t n = 0, n_kept = 0;
    const char *what = pg_store_beside(c->r.s, NULL); /* NULL: shards, or there are none */
    for (size_t i = 0; i < c->at.n_state; i++) {
        if (is_beside(c, i)) {
            pg__mem_free(c->at.state[i].name);
            n++;
        } else {
            c->at.state[n_kept++] = c->at.state[i];
        }
    }
    c->at.n_state = n_kept;
    if (n && what)
        return pg__add_note(&c->r, err, "left out: %s", what);
    return n ? pg__add_note(&c->r, err, "left out: %zu dataset%s beside the weights", n,
                            n == 1 ? "" : "s")
             : PG_OK;
}

static pg_status note_lost_state(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__convert_lose_beside(c, err));
    if (c->at.n_state)
        PG_TRY(pg__add_note(&c->r, err,
                            "optimizer state (%zu tensor%s) dropped: the format holds weights only",
                            c->at.n_state, c->at.n_state == 1 ? "" : "s"));
    for (size_t i = 0; i < c->at.n_state; i++)
        pg__mem_free(c->at.state[i].name);
    c->at.n_state = 0;
done:
    return st;
}

pg_status pg__convert_begin(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    if (c->r.v.words.odd != PG_NONE && c->r.v.words.odd_is_flat)
        PG_TRY(pg__add_note(&c->r, err, "%s", c->r.v.f.reason));
    PG_TRY(pg__outline_of(&c->at, &c->r.plan, err));
    if (c->at.shape == PG_SHAPE_FLAT)
        PG_TRY(pg__unflatten(c, err));
    c->from = c->at.shape;
    PG_TRY(find_graph(c, err));
    c->dialect = c->o->keras ? c->o->keras : c->graph && c->graph->dialect == 3 ? 3 : 2;
    c->keras1 = c->at.shape == PG_SHAPE_LAYERS && c->at.writer.n &&
                strncmp(c->at.writer.s, "keras 1", 7) == 0;
    if (c->keras1 && !c->graph)
        return pg__convert_needs_model(c, "converting kernels of Keras 1", err);
done:
    return st;
}

static pg_status steps(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__convert_begin(c, err));
    if (c->target == PG_TO_KERAS && !c->graph)
        return pg__convert_needs_model(c, "a .keras file", err);
    if (c->target == PG_TO_H5)
        PG_TRY(pg__arrange(c, PG_SHAPE_LAYERS, err));
    else if (c->target != PG_TO_SAFETENSORS)
        PG_TRY(pg__arrange(c, PG_SHAPE_PATHS, err));
    else if (c->o->layout == PG_LAYOUT_PYTORCH)
        PG_TRY(pg__torch(c, err));
    else if (c->graph || c->keras1)
        PG_TRY(pg__arrange(c, PG_SHAPE_LAYERS, err));
    if (c->keras1) {
        c->at.writer.n = 0;
        PG_TRY(pg__str_puts(&c->at.writer, "keras 2.15.0, tensorflow", err));
    }
    PG_TRY(change_dtype(c, err));
    if (c->target == PG_TO_SAFETENSORS) {
        PG_TRY(note_lost_state(c, err));
        PG_TRY(pg__flatten(c, err));
        PG_TRY(pg__outline_check_names(&c->at, err));
    } else {
        PG_TRY(pg__convert_texts(c, err));
    }
done:
    return st;
}

/* ---- .npy folders and .npz: pg_split_file() writes them ---- */

static int to_shards(const pg_convert_opts *o, pg_shard_format *format)
{
    return o->to && (strcmp(o->to, "npy") == 0 || strcmp(o->to, "npz") == 0) &&
           pg_shard_format_by_name(format, o->to);
}

static pg_status write_shards(pg_convert_report *rep, const char *in, const char *dir,
                              const pg_convert_opts *o, pg_shard_format format, pg_err *err)
{
    pg_shard_report split = {0};
    const pg_split_opts s = {.write = o->write, .format = format, .unwrap = o->unwrap};
    if (o->dtype || o->rename || o->keras || o->layout == PG_LAYOUT_PYTORCH)
        return pg_fail(err, PG_E_ARG,
                       "shards hold the tensors as they are; convert to safetensors "
                       "first and split that");
    const pg_status st = pg_split_file(in, dir, &s, &split, err);
    if (st == PG_OK) {
        *rep = (pg_convert_report){.format = "npy-shards",
                                   .n_tensors = split.n_tensors,
                                   .n_state = split.n_state,
                                   .n_written = split.n_tensors + split.n_state,
                                   .n_verified = split.n_verified,
                                   .n_params = split.n_params,
                                   .n_bytes = split.n_bytes,
                                   .notes = split.notes,
                                   .n_notes = split.n_notes};
        split.notes = NULL;
        split.n_notes = 0;
    }
    pg_shard_report_fini(&split);
    return st;
}

/* ---- writing ---- */

static pg_status count(pg_convert_report *rep, const pg__convert *c, pg_err *err)
{
    for (size_t i = 0; i < c->at.n_tensors; i++) {
        const pg__take *t = &c->at.tensors[i].take;
        const uint64_t n = pg__take_bytes(t);
        if (__builtin_add_overflow(rep->n_bytes, n, &rep->n_bytes))
            return pg_fail(err, PG_E_LIMIT, "the tensors are too large together");
        rep->n_params += n / pg_dtype_bytes(t->to);
        rep->n_changed += !pg__take_is_copy(t, c->r.s);
    }
    rep->n_tensors = c->at.n_tensors;
    rep->n_state = c->at.n_state;
    rep->n_written = rep->n_tensors + rep->n_state;
    rep->n_hwio = c->n_hwio;
    rep->n_transposed = c->n_transposed;
    rep->n_class_paths = c->n_class_paths;
    rep->format =
        c->target == PG_TO_H5 && c->at.model_config.n ? "keras-h5-model" : targets[c->target].says;
    return PG_OK;
}

static pg_status label_layers(pg__plan *p, const pg__outline *o, pg_err *err)
{
    for (size_t i = 0; i < p->n_layers && i < o->n_layers; i++)
        if (o->layers[i].label && !(p->layers[i].label = pg__mem_strdup(o->layers[i].label)))
            return pg__nomem(err);
    return PG_OK;
}

static pg_status write(pg_convert_report *rep, pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *view = NULL;
    pg__plan plan = {0};
    pg__io *input = NULL;
    pg__save_report saved = {0};
    const pg__rounding *rounding = NULL;
    const pg_write_opts *w = c->r.write;
    pg__shards *shards = pg__shards_of(c->r.s);
    PG_TRY(pg__outline_store(&view, &rounding, &c->at, c->r.s, err));
    PG_TRY(pg__plan_copy_of(&plan, view, err));
    PG_TRY(label_layers(&plan, &c->at, err));
    if (*pg__store_path(c->r.s)) /* a folder: its index */
        PG_TRY(pg__io_open(&input, pg__store_path(c->r.s), err));
    const pg__save_opts opts = {.sink = {.force = w->force,
                                         .no_sync = w->no_sync,
                                         .cancel = w->cancel,
                                         .progress = w->progress,
                                         .input = input},
                                .skip_verify = w->skip_verify,
                                .prove = w->prove,
                                .user = w->user};
    if (w->dry_run) {
        if (c->r.out)
            PG_TRY(pg__sink_check(c->r.out, &opts.sink, err));
        goto done;
    }
    if (shards) /* members of archives have no checksums, and converted tensors are not compared */
        PG_TRY(pg__shards_prove(shards, w->cancel, err));
    PG_TRY(pg__format_save(targets[c->target].format, c->r.out, &plan, &opts, &saved, err));
    rep->n_verified = saved.n_verified;
    rep->file_bytes = saved.file_bytes;
    rep->max_rel_error = rounding->max_rel_error;
    rep->n_overflow = rounding->n_overflow;
    rep->n_underflow = rounding->n_underflow;
done:
    pg__plan_fini(&plan);
    pg_store_close(view);
    pg__io_close(input);
    return st;
}

void pg__convert_fini(pg__convert *c)
{
    pg__outline_fini(&c->at);
    pg__graph_free(c->graph);
    pg__rewrite_fini(&c->r);
}

static void take_notes(pg_convert_report *rep, pg__convert *c)
{
    rep->notes = c->r.rep.notes;
    rep->n_notes = c->r.rep.n_notes;
    c->r.rep.notes = NULL;
    c->r.rep.n_notes = 0;
}

/* Converts and writes the plan. */
static pg_status carry_out(pg__convert *c, pg_convert_report *report, pg_err *err)
{
    pg_convert_report rep = {0};
    pg_status st = steps(c, err);
    if (st == PG_OK)
        st = count(&rep, c, err);
    if (st != PG_OK) /* without a source file, messages name the target */
        pg_err_prefix(err, PG_SHOW(*c->r.in ? c->r.in : c->r.out));
    if (st == PG_OK)
        st = write(&rep, c, err);
    if (st == PG_OK && report) {
        take_notes(&rep, c);
        *report = rep;
    }
    return st;
}

pg_status pg_convert_file(const char *in, const char *out, const pg_convert_opts *opts,
                          pg_convert_report *report, pg_err *err)
{
    static const pg_convert_opts defaults = {0};
    pg__convert c = {.o = opts ? opts : &defaults};
    pg_convert_report rep = {0};
    pg_shard_format shards = PG_SHARD_NPY;
    pg_status st = PG_OK;
    if (!in || (!out && !c.o->write.dry_run))
        return pg_fail(err, PG_E_ARG, "an input and an output are needed");
    if (to_shards(c.o, &shards)) {
        st = write_shards(&rep, in, out, c.o, shards, err);
        if (st == PG_OK && report)
            *report = rep;
        else
            pg_convert_report_fini(&rep);
        return st;
    }
    c.r = (pg__rewrite){.in = in, .out = out, .write = &c.o->write};
    PG_TRY(choose_target(&c, err));
    PG_TRY(check_options(c.o, c.target, err));
    PG_TRY(pg__rewrite_open(&c.r, err));
    st = plan_input(&c, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(in));
        goto done;
    }
    PG_TRY(carry_out(&c, report, err));
done:
    pg__convert_fini(&c);
    return st;
}

pg_status pg_convert_store(pg_store *in, const char *out, const pg_convert_opts *opts,
                           pg_convert_report *report, pg_err *err)
{
    static const pg_convert_opts defaults = {0};
    pg__convert c = {.o = opts ? opts : &defaults};
    pg_status st = PG_OK;
    if (!in || !out)
        return pg_fail(err, PG_E_ARG, "an input and an output are needed");
    c.r = (pg__rewrite){
        .in = pg__store_path(in), .out = out, .write = &c.o->write, .s = in, .plan = {.src = in}};
    PG_TRY(choose_target(&c, err));
    PG_TRY(check_options(c.o, c.target, err));
    PG_TRY(pg__plan_copy_of(&c.r.plan, in, err));
    PG_TRY(carry_out(&c, report, err));
done:
    c.r.s = NULL; /* the caller's */
    pg__convert_fini(&c);
    return st;
}

/* ---- a file seen by layers, nothing written ---- */

typedef struct opened {
    pg__convert c;
    pg_convert_opts o;
} opened;

static void close_opened(void *held)
{
    opened *f = held;
    pg__convert_fini(&f->c);
    pg__mem_free(f);
}

static pg_status report_unwrapped(pg__convert *c, pg_err *err)
{
    const pg_finding *f = &c->r.v.f;
    if (f->replicas && f->template_name)
        return pg__add_note(&c->r, err, "a wrapper of %zu replicas: \"%s\", its model, is taken",
                            f->replicas, PG_SHOW(f->template_name));
    return pg__add_note(&c->r, err, "a parallel wrapper: the model in it is taken");
}

/* A wrapper's template if requested, otherwise the contents of the file. */
static pg_status plan_view(opened *f, pg_err *err)
{
    pg_status st = PG_OK;
    pg__convert *c = &f->c;
    const pg_verdict is = c->r.v.f.verdict;
    const int asked = f->o.unwrap, given = f->o.model || f->o.model_text;
    if (is == PG_V_DAMAGED)
        return pg_fail(err, PG_E_FORMAT, "%s", c->r.v.f.reason);
    f->o.unwrap = asked && is == PG_V_WRAPPER;
    if (asked && is == PG_V_AMBIGUOUS && given) { /* is it, with this template? */
        f->o.unwrap = 1;
        if (plan_input(c, NULL) == PG_OK)
            return report_unwrapped(c, err);
        pg__plan_fini(&c->r.plan);
        pg__graph_free(c->r.like);
        c->r.like = NULL;
        f->o.unwrap = 0;
    }
    PG_TRY(plan_input(c, err));
    if (f->o.unwrap)
        PG_TRY(report_unwrapped(c, err));
done:
    return st;
}

pg_status pg_convert_open(pg_store **out, const char *in, const pg_convert_opts *opts,
                          pg_convert_report *report, pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *view = NULL;
    opened *f = in ? pg__mem_array(1, sizeof *f) : NULL;
    if (!f)
        return in ? pg__nomem(err) : pg_fail(err, PG_E_ARG, "an input is needed");
    if (opts)
        f->o = *opts;
    f->c = (pg__convert){.o = &f->o, .r = {.in = in, .write = &f->o.write}, .target = PG_TO_H5};
    PG_TRY(pg__rewrite_open(&f->c.r, err));
    st = plan_view(f, err);
    if (st == PG_OK)
        st = pg__convert_begin(&f->c, err);
    if (st == PG_OK && f->c.graph)
        st = pg__arrange(&f->c, PG_SHAPE_LAYERS, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(in));
        goto done;
    }
    PG_TRY(pg__outline_store(&view, NULL, &f->c.at, f->c.r.s, err));
    if (report)
        take_notes(report, &f->c);
    f->o = (pg_convert_opts){0}; /* what it pointed to may go */
    pg__outline_hold(view, f, close_opened);
    f = NULL;
    *out = view;
done:
    if (f)
        close_opened(f);
    return st;
}
