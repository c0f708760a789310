/* export.c - pg_onnx_file(): opens a model, lowers it for predictions, translates it, writes and
 * proves the file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/onnx.h"
#include "io/folder.h"
#include "onnx/predict.h"

#define OLDEST      13 /* the first in which the axes of sums, slices and squeezes are operands */
#define NEWEST      24
#define OLDEST_BF16 22 /* the first in which convolutions, pooling and recurrent layers take it */

typedef struct run {
    const char *in, *out;
    const pg_onnx_opts *o;
    pg_store *weights;
    pg__graph *model;
    pg__leaves leaves;
    pg__lowered low, sized;
    pg__onnx x;
    pg__onnx_beside beside;
    pg__onnx_test test;
    pg_onnx_report rep;
    pg__onnx_seen seen; /* before anything was opened */
} run;

void pg_onnx_report_fini(pg_onnx_report *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_notes; i++)
        pg__mem_free(r->notes[i]);
    pg__mem_free(r->notes);
    pg__mem_free(r->data_file);
    pg__mem_free(r->test_folder);
    *r = (pg_onnx_report){0};
}

/* ---- options ---- */

static pg_status read_dtype(pg_dtype *out, const char *word, pg_err *err)
{
    static const pg_dtype types[] = {PG_F32, PG_F16, PG_BF16};
    *out = PG_F32;
    for (size_t k = 0; word && k < sizeof types / sizeof *types; k++)
        if (strcmp(word, pg_dtype_name(types[k])) == 0) {
            *out = types[k];
            return PG_OK;
        }
    return word ? pg_fail(err, PG_E_ARG, "no such type to convert to: %s", PG_SHOW(word)) : PG_OK;
}

static pg_status check_options(run *r, pg_err *err)
{
    const pg_onnx_opts *o = r->o;
    if (!r->in || (!r->out && !o->write.dry_run))
        return pg_fail(err, PG_E_ARG, "an input and an output are needed");
    if (o->opset && (o->opset < OLDEST || o->opset > NEWEST))
        return pg_fail(err, PG_E_ARG, "opset %d is not supported: use %d to %d", o->opset, OLDEST,
                       NEWEST);
    const pg_status st = read_dtype(&r->x.asked, o->dtype, err);
    if (st != PG_OK)
        return st;
    if (o->quantize && strcmp(o->quantize, "int8") != 0)
        return pg_fail(err, PG_E_ARG, "no such type to quantize to: %s", PG_SHOW(o->quantize));
    if (o->quantize && r->x.asked != PG_F32)
        return pg_fail(err, PG_E_ARG, "quantized kernels go with float32, not with %s", o->dtype);
    const int oldest = r->x.asked == PG_BF16 ? OLDEST_BF16 : OLDEST;
    if (o->opset && o->opset < oldest)
        return pg_fail(err, PG_E_ARG, "opset %d is not supported in bfloat16: use %d to %d",
                       o->opset, oldest, NEWEST);
    r->x.opset = o->opset ? o->opset : oldest;
    return PG_OK;
}

/* ---- the model ---- */

/* pg_convert_open() leaves out a description that it cannot follow: that of a class in Python. */
static pg_status refuse_without(const run *r, pg_err *err)
{
    pg_store *s = NULL;
    pg__graph *model = NULL;
    size_t n = 0;
    const char *text = NULL;
    pg_status st = PG_OK;
    if (pg_store_open(&s, r->in, NULL, NULL) == PG_OK)
        text = pg_store_text(s, PG_TEXT_MODEL_CONFIG, &n);
    if (text)
        st = pg__graph_parse(&model, text, n, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(r->in));
        goto done;
    }
    st =
        pg_fail(err, PG_E_MISMATCH, "%s: has no model description; ONNX needs one", PG_SHOW(r->in));
    pg_err_do(err, PG_DO_GIVE_MODEL, r->in);
    if (r->out)
        pg_err_arg(err, "out", "%s", r->out);
done:
    pg__graph_free(model);
    pg_store_close(s);
    return st;
}

static pg_status open_model(run *r, pg_err *err)
{
    const pg_convert_opts opts = {.write = {.part = r->o->write.part},
                                  .unwrap = 1,
                                  .keep_keras1 = 1,
                                  .model = r->o->model,
                                  .model_text = r->o->model_text};
    pg_convert_report rep = {0};
    size_t n = 0;
    pg_status st = PG_OK;
    PG_TRY(pg_convert_open(&r->weights, r->in, &opts, &rep, err));
    r->rep.notes = rep.notes;
    r->rep.n_notes = rep.n_notes;
    const char *text = pg_store_text(r->weights, PG_TEXT_MODEL_CONFIG, &n);
    if (r->o->model || r->o->model_text) {
        PG_TRY(pg__graph_given(&r->model, r->o->model, r->o->model_text, err));
    } else if (text) {
        st = pg__graph_parse(&r->model, text, n, err);
        if (st != PG_OK)
            pg_err_prefix(err, PG_SHOW(r->in));
    } else {
        st = refuse_without(r, err);
    }
done:
    return st;
}

/* Keras' version, which decides what some layers compute. */
static pg_status find_rules(const pg__rules **out, const run *r, pg_err *err)
{
    const char *said = pg__json_get_str(r->model->json, "keras_version");
    const char *writer = pg_store_writer(r->weights);
    char version[32] = "";
    if (!said && writer && strncmp(writer, "keras ", 6) == 0)
        said = writer + 6;
    if (said && strcspn(said, ",") < sizeof version)
        memcpy(version, said, strcspn(said, ","));
    if (!*version && r->model->dialect != 2)
        memcpy(version, r->model->dialect == 1 ? "1.2" : "3.0", 4);
    if (pg__rules_of(out, version, NULL) != PG_OK)
        return pg__rules_of(out, NULL, err);
    return PG_OK;
}

/* The number of rows that the model fixes, or any. */
static pg_status rows_of(uint64_t *out, const run *r, pg_err *err)
{
    const pg__model *m = r->model->root;
    pg_status st = PG_OK;
    *out = r->o->batch ? r->o->batch : PG_DIM_ANY;
    for (size_t k = 0; k < m->n_inputs; k++) {
        pg__dims d;
        pg__elem elem;
        PG_TRY(pg__input_shape(&d, &elem, m, &m->layers[m->inputs[k].layer], err));
        if (d.d[0] != PG_DIM_ANY && r->o->batch && d.d[0] != r->o->batch)
            PG_FAIL(PG_E_MISMATCH, "the model fixes its batch size: %llu, not %llu",
                    (unsigned long long)d.d[0], (unsigned long long)r->o->batch);
        if (d.d[0] != PG_DIM_ANY)
            *out = d.d[0];
    }
done:
    return st;
}

/* The shapes of the inputs, with the given sizes where they are not known. */
static pg_status shapes_of(pg__dims **out, const run *r, pg_err *err)
{
    const pg__model *m = r->model->root;
    const char *p = r->o->sizes;
    pg_status st = PG_OK;
    *out = pg__mem_array(m->n_inputs, sizeof **out);
    if (!*out)
        return pg__nomem(err);
    for (size_t k = 0; k < m->n_inputs; k++) {
        pg__elem elem;
        pg__dims *d = &(*out)[k];
        PG_TRY(pg__input_shape(d, &elem, m, &m->layers[m->inputs[k].layer], err));
        for (uint32_t a = 1; a < d->rank; a++) {
            char *end = NULL;
            if (d->d[a] != PG_DIM_ANY || !p || !*p)
                continue;
            d->d[a] = strtoull(p, &end, 10);
            if (*p < '0' || *p > '9' || d->d[a] < 1 || d->d[a] > INT32_MAX || (*end && *end != ','))
                PG_FAIL(PG_E_ARG, "sizes: \"%s\" is not a list of sizes", PG_SHOW(r->o->sizes));
            p = *end ? end + 1 : end;
        }
    }
    if (p && *p)
        PG_FAIL(PG_E_ARG, "sizes: \"%s\" has more than the model leaves open",
                PG_SHOW(r->o->sizes));
done:
    return st;
}

/* Leaves of a tape of m what outputs and states need. */
static pg_status prune(pg__tape *t, const pg__lowered *m, pg_err *err)
{
    const size_t n = m->n_outputs + m->n_states;
    pg__val *keep = pg__mem_array(n, sizeof *keep);
    if (!keep)
        return pg__nomem(err);
    memcpy(keep, m->outputs, m->n_outputs * sizeof *keep);
    for (size_t k = 0; k < m->n_states; k++)
        keep[m->n_outputs + k] = m->states[k].after;
    const pg_status st = pg__tape_prune(t, keep, n, err);
    pg__mem_free(keep);
    return st;
}

/* Were it not for the sizes that the inputs leave open, could the model be lowered? */
static int needs_sizes(const pg__lower_opts *opts, size_t n_inputs)
{
    static const uint64_t sizes[] = {64, 256, 16};
    pg__dims *known = pg__mem_array(n_inputs, sizeof *known);
    pg__lower_opts tried = *opts;
    pg_status st = known ? PG_E_MISMATCH : PG_E_NOMEM;
    int any = 0;
    tried.inputs = known;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes && st != PG_OK && st != PG_E_NOMEM; k++) {
        pg__lowered low = {.n_outputs = 0};
        memcpy(known, opts->inputs, n_inputs * sizeof *known);
        for (size_t i = 0; i < n_inputs; i++)
            for (uint32_t a = 1; a < known[i].rank; a++)
                if (known[i].d[a] == PG_DIM_ANY)
                    known[i].d[a] = sizes[k], any = 1;
        st = any ? pg__lower(&low, &tried, NULL) : PG_E_NOMEM;
        pg__lowered_fini(&low);
    }
    pg__mem_free(known);
    return st == PG_OK;
}

static pg_status lower(run *r, pg_err *err)
{
    pg__lower_opts opts = {.graph = r->model, .leaves = &r->leaves};
    pg__dims *shapes = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__leaves_of(&r->leaves, r->model->root, r->model->dialect, err));
    PG_TRY(find_rules(&opts.rules, r, err));
    PG_TRY(rows_of(&opts.n_rows, r, err));
    PG_TRY(shapes_of(&shapes, r, err));
    opts.inputs = shapes;
    st = pg__lower(&r->low, &opts, err);
    if ((st == PG_E_MISMATCH || st == PG_E_UNSUPPORTED) &&
        needs_sizes(&opts, r->model->root->n_inputs)) {
        st = PG_E_UNSUPPORTED;
        if (err)
            err->code = st;
        pg__onnx_hint_sizes(err);
    }
    PG_TRY(st);
    PG_TRY(pg__onnx_check_sizes(&r->sized, &r->low, &opts, err));
    PG_TRY(prune(&r->low.tape, &r->low, err));
    if (r->sized.tape.n_values > 0)
        PG_TRY(prune(&r->sized.tape, &r->low, err));
done:
    pg__mem_free(shapes);
    return st;
}

/* ---- the file ---- */

static void count(run *r)
{
    const pg__onnx_graph *g = &r->x.g;
    r->rep.opset = (int)r->x.opset;
    r->rep.n_inits = g->n_inits;
    r->rep.n_tensors = r->low.n_params;
    for (size_t k = 0; k < g->n_nodes; k++)
        r->rep.n_nodes += !g->nodes[k].is_dead;
    for (size_t k = 0; k < g->n_inits; k++) {
        const pg__dims d = pg__dims_of(g->inits[k].rank, g->inits[k].dims);
        r->rep.n_params += pg__dims_elems(&d);
        r->rep.n_bytes += pg__dims_elems(&d) * pg_dtype_bytes(g->inits[k].dtype);
    }
}

/* As large as a message of protobuf may be, less some room for what is around a tensor's data. */
#define MOST_INSIDE     ((uint64_t)INT32_MAX)
#define AROUND_A_TENSOR 512u

static int is_large(const run *r, const pg__plan *plan)
{
    const uint64_t around = plan->n_model_config + plan->n_items * AROUND_A_TENSOR;
    const uint64_t most = r->o->external_above;
    int any = 0;
    for (size_t i = 0; i < plan->n_items; i++)
        any |= pg__store_tensor(plan->src, plan->items[i].src)->n_bytes >= PG_ONNX_LEAST_OUTSIDE;
    return any && r->rep.n_bytes + around > (most && most < MOST_INSIDE ? most : MOST_INSIDE);
}

/* All files but the model get their names; it is complete, under a temporary name. */
static pg_status name_others(void *user, const char *path, pg_err *err)
{
    run *r = user;
    const pg_write_opts *w = &r->o->write;
    pg_status st = PG_OK;
    if (r->beside.sink)
        PG_TRY(pg__onnx_beside_commit(&r->beside, err));
    if (r->o->check)
        PG_TRY(pg__onnx_test_commit(&r->test, err));
    if (w->prove)
        PG_TRY(w->prove(w->user, path, err));
done:
    return st;
}

static pg_status open_beside(run *r, pg__plan *plan, const pg__sink_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__onnx_beside_open(&r->beside, opts, err));
    plan->beside = r->beside.sink;
    plan->beside_name = pg__onnx_beside_name(&r->beside);
    r->rep.data_file = pg__mem_strdup(pg__onnx_beside_path(&r->beside));
    if (!r->rep.data_file)
        PG_TRY(pg__nomem(err));
done:
    return st;
}

/* Takes over the text. */
static pg_status add_note(run *r, pg__str *note, pg_err *err)
{
    size_t cap = r->rep.n_notes;
    if (pg__mem_grow(&r->rep.notes, &cap, cap + 1, sizeof *r->rep.notes))
        return pg__nomem(err);
    r->rep.notes[r->rep.n_notes++] = note->s;
    note->s = NULL;
    return PG_OK;
}

static pg_status note_type(run *r, pg_err *err)
{
    pg__str note = {0};
    pg_status st = PG_OK;
    if (r->x.asked != PG_BF16)
        return PG_OK;
    PG_TRY(pg__str_puts(&note,
                        "ONNX Runtime lacks most operators of bfloat16 on CPUs; those of "
                        "float16 run there",
                        err));
    PG_TRY(add_note(r, &note, err));
done:
    pg__str_fini(&note);
    return st;
}

/* Test data of an older model say nothing about the new one; to remove them, nobody has asked. */
static pg_status note_old_test(run *r, pg_err *err)
{
    pg__str path = {0}, note = {0};
    int is_there = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&path, err, "%s.test", r->out));
    PG_TRY(pg__is_there(&is_there, path.s, err));
    if (r->o->check || !is_there)
        goto done;
    PG_TRY(pg__str_printf(&note, err, "%s: of a model that was here before", PG_SHOW(path.s)));
    PG_TRY(add_note(r, &note, err));
done:
    pg__str_fini(&path);
    pg__str_fini(&note);
    return st;
}

static pg_status save(run *r, pg__plan *plan, pg_err *err)
{
    const pg_write_opts *w = &r->o->write;
    pg__io *input = NULL;
    pg__save_report saved = {0};
    pg_status st = PG_OK;
    if (*pg__store_path(r->weights))
        PG_TRY(pg__io_open(&input, pg__store_path(r->weights), err));
    const pg__save_opts opts = {.sink = {.force = w->force,
                                         .no_sync = w->no_sync,
                                         .cancel = w->cancel,
                                         .progress = w->progress,
                                         .input = input},
                                .skip_verify = w->skip_verify,
                                .prove = name_others,
                                .user = r};
    if (w->dry_run) {
        if (r->out)
            PG_TRY(pg__sink_check(r->out, &opts.sink, err));
        goto done;
    }
    PG_TRY(pg__onnx_beside_look(&r->beside, r->out, err));
    PG_TRY(note_old_test(r, err));
    if (is_large(r, plan))
        PG_TRY(open_beside(r, plan, &opts.sink, err));
    PG_TRY(pg__format_save(&pg__fmt_onnx, r->out, plan, &opts, &saved, err));
    r->rep.n_verified = saved.n_verified;
    r->rep.file_bytes = saved.file_bytes;
    r->rep.data_bytes = plan->beside ? pg__sink_size(plan->beside) : 0;
done:
    pg__onnx_beside_close(&r->beside, saved.is_named);
    pg__onnx_test_close(&r->test, saved.is_named);
    pg__io_close(input);
    return st;
}

/* ---- predictions ---- */

static double number_at(const pg__onnx_rows *rows, size_t k, const unsigned char *values,
                        uint64_t i)
{
    const pg_dtype type = rows->outputs[k].dtype;
    return pg__value_at(values + i * pg_dtype_bytes(type), type);
}

/* Predicts again with the weights that the file will have, and notes by how much that differs. A
 * trainer of its own, because stateful layers have kept states in the other one. */
static pg_status see_change(run *r, pg__onnx_rows *rows, pg_err *err)
{
    pg_trainer *t = NULL;
    unsigned char **before = pg__mem_array(rows->n_outputs, sizeof *before);
    pg_status st = PG_OK;
    if (!before)
        return pg__nomem(err);
    for (size_t k = 0; k < rows->n_outputs; k++) {
        before[k] = pg__mem_array((size_t)rows->outputs[k].n_bytes, 1);
        if (!before[k])
            PG_TRY(pg__nomem(err));
        memcpy(before[k], rows->given[k], (size_t)rows->outputs[k].n_bytes);
    }
    PG_TRY(pg__onnx_trainer(&t, r->in, r->o, err));
    PG_TRY(pg__onnx_quantize_trainer(t, &r->x, err));
    PG_TRY(pg__onnx_predict(rows, t, err));
    for (size_t k = 0; k < rows->n_outputs; k++)
        for (uint64_t i = 0; i < rows->outputs[k].n_bytes / pg_dtype_bytes(rows->outputs[k].dtype);
             i++) {
            const double was = number_at(rows, k, before[k], i);
            r->rep.max_change =
                fmax(r->rep.max_change, fabs(number_at(rows, k, rows->given[k], i) - was));
            r->rep.max_given = fmax(r->rep.max_given, fabs(was));
        }
done:
    for (size_t k = 0; k < rows->n_outputs; k++)
        pg__mem_free(before[k]);
    pg__mem_free(before);
    pg_trainer_close(t);
    return st;
}

/* Rows of the size that was asked for, and what the model gives for them. */
static pg_status predict_rows(run *r, pg__onnx_rows *rows, pg_err *err)
{
    pg_trainer *t = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__onnx_rows_of(rows, &r->x, r->o->check, err));
    PG_TRY(pg__onnx_trainer(&t, r->in, r->o, err));
    PG_TRY(pg__onnx_predict(rows, t, err));
done:
    pg_trainer_close(t);
    return st;
}

/* The same; where sizes are open and the rows made up, with one that the model takes. */
static pg_status predict_some(run *r, pg__onnx_rows *rows, pg_err *err)
{
    static const uint64_t sizes[] = {32, 64, 256, 16};
    pg_status st = PG_E_MISMATCH;
    int again = 1;
    for (size_t k = 0; again && k < sizeof sizes / sizeof *sizes; k++) {
        pg__onnx_rows_fini(rows);
        rows->open = sizes[k];
        st = predict_rows(r, rows, err);
        again = st == PG_E_MISMATCH && rows->has_open;
    }
    if (again) {
        pg_err_prefix(err, "rows made up to see what quantizing changes");
        pg__onnx_hint_sizes(err);
    }
    return st;
}

/* Rows and batches of data lie along the first axis, where such a layer has its steps. */
static pg_status check_rows(const run *r, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t k = 0; k < r->leaves.n; k++)
        for (const pg__layer *l = r->leaves.v[k].layer; l; l = l->inner)
            if (pg__config_bool(l, "time_major", 0))
                PG_FAIL(PG_E_UNSUPPORTED,
                        "%s: has steps before rows (time_major), so its rows cannot be predicted "
                        "for test data or to see what quantizing changes",
                        PG_SHOW(r->leaves.v[k].layer->name));
done:
    return st;
}

/* Rows, predictions and test data, as far as they are asked for. */
static pg_status predict(run *r, pg_err *err)
{
    pg__onnx_rows rows = {.n = 0};
    pg_status st = PG_OK;
    if (r->o->write.dry_run || (!r->o->check && !r->o->quantize))
        return PG_OK;
    PG_TRY(check_rows(r, err));
    PG_TRY(predict_some(r, &rows, err));
    if (r->o->quantize)
        PG_TRY(see_change(r, &rows, err));
    PG_TRY(pg__onnx_check_sources(&r->seen, r->in, r->o, err));
    r->rep.n_rows = rows.n;
    if (r->o->check) {
        PG_TRY(pg__onnx_test_write(&r->test, &r->x, &rows, err));
        r->rep.test_folder = pg__mem_strdup(r->test.path.s);
        if (!r->rep.test_folder)
            PG_TRY(pg__nomem(err));
    }
done:
    pg__onnx_rows_fini(&rows);
    return st;
}

static pg_status write(run *r, pg_err *err)
{
    pg__str frame = {0};
    pg_store *inits = NULL;
    pg__plan plan = {0};
    const pg__rounding *rounding = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__onnx_frame(&frame, &r->x, err));
    PG_TRY(pg__onnx_inits_store(&inits, &r->x, &rounding, err));
    PG_TRY(pg__plan_copy_of(&plan, inits, err));
    PG_TRY(pg__plan_set_text(&plan, PG_TEXT_MODEL_CONFIG, frame.s, frame.n, err));
    PG_TRY(predict(r, err));
    PG_TRY(save(r, &plan, err));
    r->rep.max_rel_error = rounding->max_rel_error;
done:
    pg__plan_fini(&plan);
    pg_store_close(inits);
    pg__str_fini(&frame);
    return st;
}

static pg_status translate(run *r, pg_err *err)
{
    pg_status st = PG_OK;
    r->x.low = &r->low;
    r->x.sized = &r->sized.tape;
    r->x.model = r->model;
    r->x.leaves = &r->leaves;
    r->x.weights = r->weights;
    r->x.o = r->o;
    PG_TRY(lower(r, err));
    PG_TRY(pg__onnx_bind(&r->x, err));
    PG_TRY(pg__onnx_translate(&r->x, err));
    if (r->o->quantize)
        PG_TRY(pg__onnx_quantize(&r->x, &r->rep.n_quantized, err));
done:
    return st;
}

pg_status pg_onnx_file(const char *in, const char *out, const pg_onnx_opts *opts,
                       pg_onnx_report *report, pg_err *err)
{
    static const pg_onnx_opts defaults = {0};
    run r = {.in = in, .out = out, .o = opts ? opts : &defaults};
    pg_status st = PG_OK;
    PG_TRY(check_options(&r, err));
    if (r.o->check && out)
        PG_TRY(pg__onnx_test_check(&r.test, out, r.o->write.force, err));
    PG_TRY(pg__onnx_see_sources(&r.seen, in, r.o, err));
    PG_TRY(open_model(&r, err));
    st = translate(&r, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(in));
        goto done;
    }
    count(&r);
    PG_TRY(note_type(&r, err));
    PG_TRY(write(&r, err));
    if (report) {
        *report = r.rep;
        r.rep = (pg_onnx_report){0};
    }
done:
    pg__onnx_test_close(&r.test, 0);
    pg_onnx_report_fini(&r.rep);
    pg__onnx_fini(&r.x);
    pg__lowered_fini(&r.low);
    pg__lowered_fini(&r.sized);
    pg__leaves_fini(&r.leaves);
    pg__graph_free(r.model);
    pg_store_close(r.weights);
    return st;
}
