/* trainer.c - from options to a model that can be trained. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/real.h"
#include "base/try.h"
#include "train/exec/exec.h"
#include "train/model/compiled.h"
#include "train/model/logs.h"
#include "train/model/placement.h"
#include "train/model/quantized.h"
#include "train/model/slots.h"
#include "train/model/transfer.h"
#include "train/rules/rules.h"
#include "train/step/step.h"

/* Inputs and outputs are named after their layers. */
static pg_status name_ends(pg_trainer *t, pg_err *err)
{
    const pg__model *m = t->net.graph->root;
    t->net.n_inputs = m->n_inputs;
    t->net.n_outputs = m->n_outputs;
    t->net.input_names = pg__mem_array(t->net.n_inputs, sizeof *t->net.input_names);
    t->net.output_names = pg__mem_array(t->net.n_outputs, sizeof *t->net.output_names);
    t->net.input_dims = pg__mem_array(t->net.n_inputs, sizeof *t->net.input_dims);
    t->compiled.objectives = pg__mem_array(t->net.n_outputs, sizeof *t->compiled.objectives);
    t->compiled.loss_weights = pg__mem_array(t->net.n_outputs, sizeof *t->compiled.loss_weights);
    if (!t->net.input_names || !t->net.output_names || !t->net.input_dims ||
        !t->compiled.objectives || !t->compiled.loss_weights)
        return pg__nomem(err);
    for (size_t k = 0; k < t->net.n_inputs; k++)
        t->net.input_names[k] = m->layers[m->inputs[k].layer].name;
    for (size_t k = 0; k < t->net.n_outputs; k++)
        t->net.output_names[k] = m->layers[m->outputs[k].layer].name;
    return PG_OK;
}

/* ---- the variables ---- */

static pg_status describe_param(pg_trainer *t, size_t at, size_t param, const pg__param *p,
                                pg_err *err)
{
    pg_weight *w = &t->vars.weights[at];
    pg_status st = PG_OK;
    PG_TRY(pg__strs_printf(&t->vars.names, err, "%s%s%s/%s", p->leaf->layer->name,
                           p->var->sub[0] ? "/" : "", p->var->sub, p->var->name));
    *w = (pg_weight){.name = t->vars.names.v[t->vars.names.n - 1],
                     .layer = PG_NONE,
                     .dtype = t->devs.backend->real_bytes == 8 ? PG_F64 : PG_F32,
                     .rank = p->shape.rank};
    memcpy(w->dims, p->shape.d, p->shape.rank * sizeof *w->dims);
    t->vars.order[at] = param;
    t->vars.n_elems[param] = (size_t)pg__dims_elems(&p->shape);
    w->n_bytes = (uint64_t)t->vars.n_elems[param] * t->devs.backend->real_bytes;
    t->vars.trained[param] = (unsigned char)p->trained;
done:
    return st;
}

/* The order of Keras' get_weights(): for each of the model's layers, its trainable variables, then
 * its others. */
static pg_status order_params(pg_trainer *t, const pg__lowered *low, pg_err *err)
{
    size_t at = 0, first = 0;
    pg_status st = PG_OK;
    while (first < low->n_params) {
        size_t end = first;
        while (end < low->n_params && low->params[end].leaf->top == low->params[first].leaf->top)
            end++;
        for (int trained = 1; trained >= 0; trained--)
            for (size_t i = first; i < end; i++)
                if (low->params[i].trained == trained)
                    PG_TRY(describe_param(t, at++, i, &low->params[i], err));
        first = end;
    }
done:
    return st;
}

static pg_status read_penalties(pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    t->vars.penalties = pg__mem_array(t->vars.n_params, sizeof *t->vars.penalties);
    if (!t->vars.penalties)
        return pg__nomem(err);
    for (size_t i = 0; i < t->vars.n_params; i++) {
        pg__penalty *p = &t->vars.penalties[i];
        PG_TRY(pg__penalty_of(p, &t->net.built_params.params[i], err));
        if (t->net.rules->keras3 && !t->net.built_params.params[i].trained)
            p->l1 = p->l2 = 0; /* Keras 2 includes it in the loss */
        t->vars.has_regularizers |= p->l1 != 0 || p->l2 != 0;
        t->vars.has_constraints |= p->constraint != PG_FREE;
    }
done:
    return st;
}

/* Rules that change a variable whose gradient is 0, where Keras leaves rows without a gradient. */
static int moves_without_gradient(const pg__optimizer *o)
{
    switch (pg__optimizer_kind_of(o)) {
    case PG_OPT_sgd_momentum:
    case PG_OPT_adadelta:
    case PG_OPT_adamax:
    case PG_OPT_nadam:
    case PG_OPT_ftrl: return 1;
    case PG_OPT_rmsprop_legacy: return o->momentum > 0;
    default: return 0;
    }
}

/* In Keras 2 an Embedding's gradient is a list with one entry per occurrence of an id, unless a
 * regularizer's is added. Keras clips these entries before it adds them up, and most of tf.keras'
 * older optimizers change only the rows in the list. */
static pg_status note_listed_ids(pg_trainer *t, pg_err *err)
{
    const pg__optimizer *o = &t->compiled.optimizer;
    const int clips = o->clipnorm > 0 || o->global_clipnorm > 0 || o->clipvalue > 0;
    const int apart = o->legacy && t->net.rules->rows_apart && moves_without_gradient(o);
    pg_status st = PG_OK;
    for (size_t i = 0; !t->net.rules->keras3 && i < t->vars.n_params; i++) {
        const pg__param *p = &t->net.built_params.params[i];
        if (!p->trained || strcmp(p->leaf->layer->class_name, "Embedding") != 0 ||
            t->vars.penalties[i].l1 != 0 || t->vars.penalties[i].l2 != 0)
            continue;
        if (clips)
            PG_TRY(pg__strs_printf(&t->report.notes, err,
                                   "%s: Keras %s clips the gradients of an id's occurrences one by "
                                   "one, libpg their sum",
                                   PG_SHOW(p->leaf->layer->name), t->net.rules->name));
        if (apart)
            PG_TRY(pg__strs_printf(
                &t->report.notes, err,
                "%s: the older %s of Keras %s changes only the rows of ids in the batch, libpg all",
                PG_SHOW(p->leaf->layer->name), o->name, t->net.rules->name));
    }
done:
    return st;
}

static pg_status make_params(pg_trainer *t, pg_err *err)
{
    pg__lowered *low = &t->net.built_params;
    pg_status st = PG_OK;
    const pg__lower_opts opts = {.graph = t->net.graph,
                                 .leaves = &t->net.leaves,
                                 .rules = t->net.rules,
                                 .n_rows = PG_DIM_ANY,
                                 .assigned = t->devs.assigned.n_devices ? &t->devs.assigned : NULL,
                                 .training = 1};
    PG_TRY(pg__lower(low, &opts, err));
    t->vars.n_params = low->n_params;
    t->net.couples_rows = low->couples_rows;
    t->net.steps_first = low->steps_first;
    t->vars.weights = pg__mem_array(t->vars.n_params, sizeof *t->vars.weights);
    t->vars.order = pg__mem_array(t->vars.n_params, sizeof *t->vars.order);
    t->vars.n_elems = pg__mem_array(t->vars.n_params, sizeof *t->vars.n_elems);
    t->vars.trained = pg__mem_array(t->vars.n_params, 1);
    t->vars.file_names = pg__mem_array(t->vars.n_params, sizeof *t->vars.file_names);
    t->vars.offsets = pg__mem_array(t->vars.n_params + 1, sizeof *t->vars.offsets);
    if (!t->vars.offsets || !t->vars.file_names || !t->vars.weights || !t->vars.order ||
        !t->vars.n_elems || !t->vars.trained)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < low->n_params; i++)
        if (!low->params[i].is_built)
            PG_FAIL(PG_E_FORMAT, "%s: is never called", PG_SHOW(low->params[i].leaf->layer->name));
    PG_TRY(order_params(t, low, err));
    PG_TRY(read_penalties(t, err));
    PG_TRY(note_listed_ids(t, err));
    for (size_t i = 0; i < t->vars.n_params; i++) /* keeps pieces 64-byte aligned in every type */
        t->vars.offsets[i + 1] = t->vars.offsets[i] + (t->vars.n_elems[i] + PG_ALIGN / 4 - 1) /
                                                          (PG_ALIGN / 4) * (PG_ALIGN / 4);
    for (size_t k = 0; k < t->net.n_inputs; k++)
        t->net.input_dims[k] = low->tape.values[low->inputs[k]].shape;
    PG_TRY(pg__mp_plan(t, err));
    PG_TRY(pg__flat_alloc(t, &t->vars.params, err));
    if (pg__is_sharded(t->ranks))
        pg__buckets_cut(t);
    for (size_t s = 0; s < PG_MAX_SLOTS; s++) {
        if (!pg__optimizer_uses_slot(&t->compiled.optimizer, s))
            continue;
        const double start = pg__optimizer_slot_start(&t->compiled.optimizer, s);
        if (pg__is_sharded(t->ranks)) {
            PG_TRY(pg__opt_shard_alloc(t, &t->vars.slots[s], start, err));
            continue;
        }
        PG_TRY(pg__flat_alloc(t, &t->vars.slots[s], err));
        if (start != 0)
            PG_TRY(pg__flat_fill(t, &t->vars.slots[s], start));
    }
done:
    return st;
}

/* ---- what it is trained for ---- */

/* The requested schedule, or the one in the optimizer's config. */
static pg_status read_schedule(pg_trainer *t, const char *asked, const pg__json *optimizer,
                               pg_err *err)
{
    const pg__json *rate = pg__json_get(pg__json_get(optimizer, "config"), "learning_rate");
    pg_status st = PG_OK;
    if (pg__json_type_of(rate) == PG_J_OBJECT) {
        st = pg__schedule_of_json(&t->compiled.schedule, rate, err);
        if (st != PG_OK && !asked) {
            pg_err_prefix(err, "its optimizer's learning rate");
            pg_err_do(err, PG_DO_GIVE, NULL);
            pg_err_arg(err, "optimizer", "NAME");
            goto done;
        }
        st = PG_OK;
        if (t->compiled.schedule)
            t->compiled.optimizer.lr = pg__schedule_at(t->compiled.schedule, 0);
    }
    if (asked) {
        pg__schedule_free(t->compiled.schedule);
        t->compiled.schedule = NULL;
        PG_TRY(pg__schedule_parse(&t->compiled.schedule, asked, t->compiled.optimizer.lr, err));
    }
    PG_TRY(pg__optimizer_follow(&t->compiled.optimizer, t->compiled.schedule, err));
    if (t->compiled.schedule && pg__era_of(t) <= PG_ERA_2_3)
        PG_TRY(pg__strs_printf(&t->report.notes, err,
                               "Keras %s has no %s: full models will store the current rate",
                               t->net.rules->name, pg__schedule_name(t->compiled.schedule)));
done:
    return st;
}

static pg_status read_optimizer(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    const int legacy = o->optimizer_rules == 0 ? -1 : o->optimizer_rules == 1;
    const pg__json *own = NULL;
    pg__json *j = NULL;
    pg_status st = PG_OK;
    if (o->optimizer_json) {
        PG_TRY(pg__json_parse(&j, o->optimizer_json, strlen(o->optimizer_json), err));
        own = pg__loss_scale_of(&t->compiled.scale, j);
        PG_TRY(pg__optimizer_of_json(&t->compiled.optimizer, own, t->net.rules, legacy, err));
    } else {
        PG_TRY(pg__optimizer_parse(&t->compiled.optimizer, o->optimizer ? o->optimizer : "RMSprop",
                                   t->net.rules, legacy, err));
    }
    PG_TRY(read_schedule(t, o->schedule, own, err));
done:
    pg__json_free(j);
    return st;
}

static pg_status read_loss_weights(pg_trainer *t, const pg__piece_of *pieces, pg_err *err)
{
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        t->compiled.loss_weights[k] = 1;
        if (pieces[k].n > 0 &&
            !pg__real_read(&t->compiled.loss_weights[k], pieces[k].s, pieces[k].n))
            return pg_fail(err, PG_E_ARG, "loss weights: \"%.*s\" is not a number",
                           (int)pieces[k].n, pieces[k].s);
    }
    return PG_OK;
}

static pg_status read_objectives(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg__piece_of *pieces = pg__mem_array(t->net.n_outputs, sizeof *pieces);
    pg_status st = PG_OK;
    if (!pieces)
        return pg__nomem(err);
    PG_TRY(pg__per_output(pieces, t->net.n_outputs, t->net.output_names, "loss", o->loss, err));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        if (pieces[k].n == 0)
            continue;
        t->compiled.objectives[k].has_loss = 1;
        PG_TRY(pg__loss_of(&t->compiled.objectives[k].loss, pieces[k].s, pieces[k].n, t->net.rules,
                           err));
    }
    PG_TRY(pg__per_output(pieces, t->net.n_outputs, t->net.output_names, "loss weights",
                          o->loss_weights, err));
    PG_TRY(read_loss_weights(t, pieces, err));
    PG_TRY(pg__metrics_declare(t, o->metrics, err));
    PG_TRY(pg__metrics_declare(t, o->weighted_metrics, err));
    if (o->metrics && !(t->compiled.metric_text = pg__mem_strdup(o->metrics)))
        PG_TRY(pg__nomem(err));
    if (o->weighted_metrics &&
        !(t->compiled.weighted_metric_text = pg__mem_strdup(o->weighted_metrics)))
        PG_TRY(pg__nomem(err));
done:
    pg__mem_free(pieces);
    return st;
}

/* The version named in the description, or else in the file ("keras 2.2.4, tensorflow"). */
static pg_status read_version(pg_trainer *t, const pg_store *file, pg_err *err)
{
    const char *said = pg__json_get_str(t->net.graph->json, "keras_version");
    const char *writer = file ? pg_store_writer(file) : NULL;
    if (!said && writer && strncmp(writer, "keras ", 6) == 0)
        said = writer + 6;
    if (said && !(t->net.keras_version = pg__mem_strndup(said, strcspn(said, ","))))
        return pg__nomem(err);
    return PG_OK;
}

static pg_status read_rules(pg_trainer *t, const char *asked, pg_err *err)
{
    const char *written = t->net.keras_version;
    if (asked)
        return pg__rules_of(&t->net.rules, asked, err);
    if (!written && t->net.graph->dialect != 2)
        written = t->net.graph->dialect == 1 ? "1.2" : "3.0";
    if (pg__rules_of(&t->net.rules, written, NULL) != PG_OK)
        return pg__rules_of(&t->net.rules, NULL, err);
    return PG_OK;
}

/* Reads the training configuration of the model's file, or of the file named instead. */
static pg_status read_compiled(pg__compiled *out, pg_trainer *t, const pg_train_opts *o,
                               const pg_store *own, pg_err *err)
{
    const char *path = o->compile_from ? o->compile_from : o->model;
    pg_store *other = NULL;
    pg_status st = PG_OK;
    if (o->compile_from)
        PG_TRY(pg__weights_open(&other, &t->report.notes, path, NULL, NULL, err));
    st = pg__compiled_of(out, t, other ? other : own, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(path));
        goto done;
    }
    if (o->compile_from && !out->optimizer.n && !out->loss.n)
        PG_FAIL(PG_E_UNKNOWN,
                "%s: has no training configuration: not a full model that was compiled",
                PG_SHOW(path));
done:
    pg_store_close(other);
    return st;
}

/* Options override the training configuration of a full model, which overrides defaults. */
static pg_status read_training(pg_trainer *t, const pg_train_opts *asked, const pg_store *file,
                               pg_err *err)
{
    pg_train_opts o = *asked;
    pg__compiled said = {.legacy = -1};
    pg_status st = PG_OK;
    if (o.for_prediction) {
        o.optimizer = "SGD"; /* it has no state */
        o.schedule = o.optimizer_json = o.loss = o.metrics = o.weighted_metrics = NULL;
    } else if (o.compile_from || (file && (!o.loss || !(o.optimizer || o.optimizer_json)))) {
        PG_TRY(read_compiled(&said, t, asked, file, err));
    }
    if (said.optimizer.n && !o.optimizer && !o.optimizer_json) {
        o.optimizer_json = said.optimizer.s;
        if (o.optimizer_rules == 0 && said.legacy >= 0)
            o.optimizer_rules = said.legacy ? 1 : 2;
    }
    if (said.loss.n && (!o.loss || o.compile_from)) {
        o.loss = o.loss ? o.loss : said.loss.s;
        o.loss_weights =
            o.loss_weights || !said.loss_weights.n ? o.loss_weights : said.loss_weights.s;
        o.metrics = o.metrics || !said.metrics.n ? o.metrics : said.metrics.s;
        if (!o.weighted_metrics && said.weighted_metrics.n)
            o.weighted_metrics = said.weighted_metrics.s;
    }
    PG_TRY(read_optimizer(t, &o, err));
    PG_TRY(read_objectives(t, &o, err));
done:
    pg__compiled_fini(&said);
    return st;
}

/* Opens the model and, for its weights, its file; NULL for a mere description. If the model's kind
 * prevents reading weights, *late says why: layers that cannot be trained are reported first. */
static pg_status open_model(pg_trainer *t, pg_store **file, pg_err *late, const pg_train_opts *o,
                            pg_err *err)
{
    const char *path = o->model;
    if (o->model_text)
        return pg__graph_given(&t->net.graph, path, o->model_text, err);
    pg_status st = pg__weights_open(file, &t->report.notes, path, NULL, NULL, late);
    size_t n = 0;
    const char *text = st == PG_OK ? pg_store_text(*file, PG_TEXT_MODEL_CONFIG, &n) : NULL;
    const int in_parts = st == PG_E_AMBIGUOUS && late->action.what == PG_DO_CHOOSE_PART;
    if (st != PG_OK && st != PG_E_UNKNOWN && st != PG_E_UNSUPPORTED && st != PG_E_MISMATCH &&
        !in_parts) {
        if (err)
            *err = *late;
        return st;
    }
    if (st == PG_OK || st == PG_E_UNKNOWN)
        *late = (pg_err){0};
    if (!text)
        return pg__graph_load(&t->net.graph, path, err);
    st = pg__graph_parse(&t->net.graph, text, n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    return st;
}

/* Starts from the given file, the model's own, or the initializers of its config. */
static pg_status start_weights(pg_trainer *t, const pg_train_opts *o, pg_store *own, pg_err *err)
{
    const char *path = o->weights ? o->weights : o->model;
    const int goes_on = !o->init_from && !o->replace_head && !o->freeze;
    pg_store *given = NULL, *from = own;
    pg_status st = PG_OK;
    PG_TRY(pg__transfer_note(t, o, err));
    if (o->weights) {
        /* with a new head the model's text does not describe the file */
        const char *text = o->replace_head ? NULL : t->net.graph->text;
        PG_TRY(pg__weights_open(&given, &t->report.notes, o->weights, o->part, text, err));
        from = given;
    }
    const int has_weights = o->weights || (own && pg_store_n_weights(own) > 0);
    t->vars.drawn = !has_weights || o->replace_head;
    if (t->vars.drawn)
        PG_TRY(pg__trainer_initialise(t, o->seed, err));
    if (has_weights && o->replace_head)
        PG_TRY(pg__transfer_load(t, o, from, path, err));
    else if (has_weights)
        PG_TRY(pg__trainer_load(t, from, path, err));
    if (o->init_from)
        PG_TRY(pg__transfer_start(t, o, err));
    PG_TRY(pg__average_begin(t, err));
    if (o->weights || !own || o->for_prediction)
        goto done;
    if (goes_on && !o->optimizer && !o->optimizer_json && !o->compile_from)
        PG_TRY(pg__state_take(t, own, o->model, err));
    else if (pg_store_n_state(own) > 0)
        PG_TRY(pg__strs_printf(&t->report.notes, err,
                               "%s: its optimizer's state is left out: %s starts anew",
                               PG_SHOW(o->model), t->compiled.optimizer.name));
done:
    pg_store_close(given);
    return st;
}

/* The rest after the devices: model, training and weights. */
static pg_status open_rest(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg_store *own = NULL;
    pg_err late = {0};
    PG_TRY(pg__placement_parse(t, o, err));
    PG_TRY(open_model(t, &own, &late, o, err));
    PG_TRY(pg__transfer_edit(&t->net.graph, o, err));
    PG_TRY(pg__leaves_of(&t->net.leaves, t->net.graph->root, t->net.graph->dialect, err));
    PG_TRY(read_version(t, own, err));
    PG_TRY(read_rules(t, o->rules, err));
    PG_TRY(name_ends(t, err));
    PG_TRY(read_training(t, o, own, err));
    PG_TRY(pg__mixed_open(t, o, err));
    st = make_params(t, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(pg__model_name(o->model, o->model_text)));
        goto done;
    }
    if (late.code != PG_OK && !o->weights) {
        st = late.code;
        if (err)
            *err = late;
        goto done;
    }
    PG_TRY(pg__masks_check(t, err));
    PG_TRY(pg__quantized_open(t, o, err));
    PG_TRY(pg__placement_check(t, o, err));
    PG_TRY(pg__workers_open(t, o, err));
    PG_TRY(start_weights(t, o, own, err));
done:
    pg_store_close(own);
    return st;
}

pg_status pg_trainer_open(pg_trainer **out, const pg_train_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    pg_trainer *t = pg__mem_array(1, sizeof *t);
    if (!t)
        return pg__nomem(err);
    t->compiled.from_probabilities = o->loss_from_probabilities;
    t->net.conv = o->conv;
    PG_TRY(pg__ranks_join(t, o, err));
    PG_TRY(pg__ranks_agree(t->ranks, pg__devices_open(t, o, err), err));
    PG_TRY(pg__ranks_deal(t, o, err));
    PG_TRY(pg__ranks_group(t, err));
    PG_TRY(pg__ranks_agree(t->ranks, open_rest(t, o, err), err));
    PG_TRY(pg__ranks_seat(t, err));
    PG_TRY(pg__ranks_begin(t, o, err));
done:
    if (st == PG_OK) {
        *out = t;
        return PG_OK;
    }
    st = pg__ranks_fail(t->ranks, t->devs.backend ? pg__with_message(t, st, err) : st, err);
    pg_trainer_close(t);
    return st;
}

int pg_trainer_is_untrained(const pg_trainer *t)
{
    return t->vars.drawn && t->compiled.optimizer.iterations == 0;
}

size_t pg_trainer_n_notes(const pg_trainer *t)
{
    return t->report.notes.n;
}

const char *pg_trainer_note(const pg_trainer *t, size_t i)
{
    return i < t->report.notes.n ? t->report.notes.v[i] : NULL;
}

void pg_trainer_close(pg_trainer *t)
{
    if (!t)
        return;
    pg__snapshot_forget(t);
    if (t->devs.dev)
        pg__workers_stop(t); /* they have recordings of programs */
    for (size_t i = 0; i < t->programs.n_built; i++) {
        pg__program_free(t->programs.built[i].program);
        pg__mem_free(t->programs.built[i].inputs);
    }
    pg__mem_free(t->programs.built);
    if (t->devs.dev) {
        t->devs.backend->free(t->devs.dev, t->vars.penalty);
        pg__flat_free(&t->devs, &t->vars.params);
        for (size_t s = 0; s < PG_MAX_SLOTS; s++)
            pg__flat_free(&t->devs, &t->vars.slots[s]);
        pg__states_free(t);
    }
    pg__ranks_leave(t);
    pg__devices_close(t);
    pg__mp_free(t);
    for (size_t i = 0; i < t->compiled.n_metrics; i++)
        pg__metric_fini(&t->compiled.metrics[i]);
    pg__mem_free(t->compiled.metrics);
    pg__mem_free(t->compiled.metric_text);
    pg__mem_free(t->compiled.weighted_metric_text);
    pg__logs_close(&t->loop.evaluated);
    pg__mem_free(t->report.profiled);
    pg__schedule_free(t->compiled.schedule);
    pg__mem_free(t->compiled.loss_weights);
    pg__mem_free(t->compiled.objectives);
    pg__mem_free(t->net.input_dims);
    pg__mem_free(t->net.input_names);
    pg__mem_free(t->net.output_names);
    pg__mem_free(t->vars.weights);
    pg__mem_free(t->vars.order);
    pg__mem_free(t->vars.n_elems);
    pg__mem_free(t->vars.trained);
    pg__mem_free(t->vars.offsets);
    pg__mem_free(t->vars.penalties);
    for (size_t i = 0; t->vars.file_names && i < t->vars.n_params; i++)
        pg__mem_free(t->vars.file_names[i]);
    pg__mem_free(t->vars.file_names);
    pg__strs_fini(&t->vars.names);
    pg__placement_free(t);
    pg__strs_fini(&t->report.notes);
    pg__mem_free(t->net.keras_version);
    pg__mem_free(t->net.elems);
    pg__mem_free(t->loop.saved);
    pg__mem_free(t->loop.state);
    pg__mem_free(t->loop.output);
    pg__lowered_fini(&t->net.built_params);
    pg__leaves_fini(&t->net.leaves);
    pg__graph_free(t->net.graph);
    pg__mem_free(t);
}
