/* convert_texts.c - the model's description in the form that the output wants, and what becomes of
 * the optimizer's state.
 *
 *     legacy .h5   model_config {class_name, config}, training_config {loss, ..., optimizer_config}
 *     .keras       config.json {module, class_name, config, registered_name, compile_config}
 *
 * Values are cut out of the text of the input as bytes; numbers are never printed again. State is
 * kept where the other container lists it in the same order, which holds for the optimizers of
 * Keras 2.11 and later (their `variables`); the older ones are not stored in .keras at all. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/plain_config.h"
#include "wrap/convert/convert.h"

static const char functional_2[] = "keras.src.engine.functional",
                  functional_3[] = "keras.src.models.functional";

static pg_status add_raw(pg__str *out, const char *key, const char *value, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    const int first = out->n == 0 || out->s[out->n - 1] == '{';
    PG_TRY(pg__str_printf(out, err, "%s\"%s\": ", first ? "" : ", ", key));
    PG_TRY(pg__str_add(out, value, n, err));
done:
    return st;
}

static pg_status add_span(pg__str *out, const char *key, const char *text, pg__json_span s,
                          pg_err *err)
{
    return s.n ? add_raw(out, key, text + s.off, s.n, err) : PG_OK;
}

static pg_status add_word(pg__str *out, const char *key, const char *word, pg_err *err)
{
    pg_status st = PG_OK;
    const int first = out->n == 0 || out->s[out->n - 1] == '{';
    PG_TRY(pg__str_printf(out, err, "%s\"%s\": ", first ? "" : ", ", key));
    PG_TRY(pg__json_quote(out, word, strlen(word), err));
done:
    return st;
}

/* ---- optimizers ---- */

/* Class names for the strings that compile(optimizer="adam") takes. */
static const char *const optimizers[] = {"Adadelta", "Adafactor", "Adagrad", "Adam",
                                         "Adamax",   "AdamW",     "Ftrl",    "Lion",
                                         "Nadam",    "RMSprop",   "SGD"};

static const char *optimizer_class(const char *text, pg__json_span s)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (s.n == strlen(optimizers[i]) + 2 && text[s.off] == '"' &&
            strncasecmp(text + s.off + 1, optimizers[i], s.n - 2) == 0)
            return optimizers[i];
    return NULL;
}

/* compile_config.optimizer as optimizer_config; adds nothing if it has no such form. */
static pg_status legacy_optimizer(pg__str *out, const char *text, pg__json_span s, int dialect,
                                  pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const char *by_word = optimizer_class(text, s);
    const pg__json_span class_name = pg__json_member(text, s, "class_name"),
                        config = pg__json_member(text, s, "config"),
                        custom = pg__json_member(text, s, "registered_name");
    if (!by_word && (!class_name.n || !config.n || !pg__json_is_null(text, custom)))
        goto done;
    if (by_word)
        PG_TRY(pg__str_puts(&name, by_word, err));
    else
        PG_TRY(pg__json_unquote(&name, text, class_name, err));
    const int older =
        pg__json_is_text(text, pg__json_member(text, s, "module"), "keras.optimizers.legacy");
    PG_TRY(pg__str_printf(out, err, "{\"class_name\": \"%s%s\", \"config\": ",
                          dialect == 2 && !older ? "Custom>" : "", name.s));
    if (by_word)
        PG_TRY(pg__str_puts(out, "{}", err));
    else
        PG_TRY(pg__str_add(out, text + config.off, config.n, err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    pg__str_fini(&name);
    return st;
}

/* And back. Keras 2.11 to 2.15 write "Custom>Adam" for their optimizers in a legacy file; plain
 * "Adam" is an older one there, which .keras identifies by its module. */
static pg_status zip_optimizer(pg__str *out, const char *text, pg__json_span s, int dialect,
                               pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const pg__json_span class_name = pg__json_member(text, s, "class_name"),
                        config = pg__json_member(text, s, "config");
    if (!class_name.n || !config.n || text[class_name.off] != '"')
        goto done;
    PG_TRY(pg__json_unquote(&name, text, class_name, err));
    const int custom = strncmp(name.s, "Custom>", 7) == 0;
    if (strchr(name.s + (custom && dialect == 2 ? 7 : 0), '>')) /* somebody's own */
        goto done;
    PG_TRY(pg__str_printf(out, err, "{\"module\": \"keras.optimizers%s\", \"class_name\": ",
                          dialect == 2 && !custom ? ".legacy" : ""));
    PG_TRY(pg__json_quote(out, name.s + (custom ? 7 : 0), name.n - (custom ? 7 : 0), err));
    PG_TRY(pg__str_puts(out, ", \"config\": ", err));
    PG_TRY(pg__str_add(out, text + config.off, config.n, err));
    PG_TRY(pg__str_puts(out, ", \"registered_name\": null}", err));
done:
    pg__str_fini(&name);
    return st;
}

static pg_status translate_optimizer(pg__str *out, pg__convert *c, const char *text,
                                     pg__json_span s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs notes = {0};
    PG_TRY(c->dialect == 3
               ? pg__optimizer_to_3(out, &notes, text, s, err)
               : pg__optimizer_to_2(out, &notes, text, s, c->target == PG_TO_KERAS, err));
    for (size_t i = 0; i < notes.n; i++)
        PG_TRY(pg__add_note(&c->r, err, "%s", notes.v[i]));
done:
    pg__strs_fini(&notes);
    return st;
}

/* An optimizer by its name alone, with the defaults of the Keras that reads it. */
static pg_status optimizer_word(pg__str *out, const char *word, int keras, int zip, pg_err *err)
{
    if (keras == 2 && !zip)
        return pg__str_printf(out, err, "{\"class_name\": \"Custom>%s\", \"config\": {}}", word);
    return pg__str_printf(out, err,
                          "{\"module\": \"keras.optimizers\", \"class_name\": \"%s\", "
                          "\"config\": {}, \"registered_name\": null}",
                          word);
}

/* The optimizer for the other Keras. *out stays empty where it has none such: another one in its
 * place would train another way. */
static pg_status add_optimizer(pg__str *out, pg__convert *c, const char *text, pg__json_span o,
                               pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const char *word = optimizer_class(text, o);
    const pg__json_span class_name = pg__json_member(text, o, "class_name");
    if (!word || strcmp(word, "Nadam") == 0)
        PG_TRY(translate_optimizer(out, c, text, o, err));
    if (out->n)
        goto done;
    if (word) {
        st = optimizer_word(out, word, c->dialect, c->target == PG_TO_KERAS, err);
        goto done;
    }
    const pg__json_span named = class_name.n ? class_name : o;
    if (named.n && text[named.off] == '"')
        PG_TRY(pg__json_unquote(&name, text, named, err));
    st = pg__add_note(&c->r, err,
                      "training configuration dropped: Keras %d has no optimizer %s, or it is a "
                      "custom one",
                      c->dialect, name.n ? PG_SHOW(name.s) : "without a name");
done:
    pg__str_fini(&name);
    return st;
}

/* Losses and metrics of compile(), with the same key in both containers. */
static const struct {
    const char *key, *one;
} parts[] = {{"loss", "loss"}, {"metrics", "metric"}, {"weighted_metrics", "weighted metric"}};

static pg_status report_lost(pg__convert *c, const char *what, const pg__strs *lost, int same,
                             pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < lost->n && st == PG_OK; i++)
        st = same ? pg__add_note(
                        &c->r, err,
                        "%s %s dropped from the training configuration: it is a custom object, "
                        "which this format cannot express",
                        what, lost->v[i])
                  : pg__add_note(&c->r, err,
                                 "%s %s dropped from the training configuration: Keras %d does not "
                                 "have it, or it is a custom object",
                                 what, lost->v[i], c->dialect);
    return st;
}

/* The training configuration for the other Keras, or nothing without its optimizer. zip: the
 * input's form is that of .keras. What could not be said is named. */
static pg_status compile_args_other(pg__str *out, pg__convert *c, const char *text,
                                    pg__json_span from, int zip, pg_err *err)
{
    pg_status st = PG_OK;
    const int to_zip = c->target == PG_TO_KERAS;
    const pg__words_for to = {c->dialect == 3 ? 3 : 2, 0, to_zip};
    pg__str value = {0};
    pg__strs lost = {0};
    PG_TRY(add_optimizer(&value, c, text,
                         pg__json_member(text, from, zip ? "optimizer" : "optimizer_config"), err));
    if (!value.n)
        goto done;
    PG_TRY(pg__str_puts(out, "{", err));
    PG_TRY(add_raw(out, to_zip ? "optimizer" : "optimizer_config", value.s, value.n, err));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        value.n = 0;
        pg__strs_fini(&lost);
        PG_TRY(pg__compile_words(&value, &lost, text, pg__json_member(text, from, parts[i].key),
                                 i == 0, to, err));
        PG_TRY(report_lost(c, parts[i].one, &lost, 0, err));
        PG_TRY(add_raw(out, parts[i].key, value.s, value.n, err));
    }
    const pg__json_span shares = pg__json_member(text, from, "loss_weights");
    PG_TRY(add_raw(out, "loss_weights", shares.n ? text + shares.off : "null",
                   shares.n ? shares.n : 4, err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    pg__strs_fini(&lost);
    pg__str_fini(&value);
    return st;
}

/* The training configuration for the other container of the same Keras. *lost: what is not Keras'
 * own and without which there is none, the optimizer or a loss. Metrics go alone and by name. */
static pg_status compile_args(pg__str *out, const char **lost, pg__convert *c, const char *text,
                              pg__json_span from, int to_zip, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__words_for to = {c->dialect == 3 ? 3 : 2, 1, to_zip};
    pg__str optimizer = {0}, value = {0};
    pg__strs gone = {0};
    const pg__json_span o = pg__json_member(text, from, to_zip ? "optimizer_config" : "optimizer"),
                        shares = pg__json_member(text, from, "loss_weights");
    *lost = NULL;
    PG_TRY(to_zip ? zip_optimizer(&optimizer, text, o, c->dialect, err)
                  : legacy_optimizer(&optimizer, text, o, c->dialect, err));
    if (!optimizer.n) {
        *lost = "optimizer";
        goto done;
    }
    PG_TRY(pg__str_puts(out, "{", err));
    if (to_zip)
        PG_TRY(add_raw(out, "optimizer", optimizer.s, optimizer.n, err));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const pg__json_span v = pg__json_member(text, from, parts[i].key);
        value.n = 0;
        pg__strs_fini(&gone);
        if (!v.n)
            continue;
        PG_TRY(pg__compile_words(&value, &gone, text, v, i == 0, to, err));
        if (gone.n && i == 0) {
            *lost = "loss";
            goto done;
        }
        PG_TRY(report_lost(c, parts[i].one, &gone, 1, err));
        PG_TRY(add_raw(out, parts[i].key, value.s, value.n, err));
    }
    PG_TRY(add_span(out, "loss_weights", text, shares, err));
    if (!to_zip)
        PG_TRY(add_raw(out, "optimizer_config", optimizer.s, optimizer.n, err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    if (*lost)
        out->n = 0;
    pg__strs_fini(&gone);
    pg__str_fini(&optimizer);
    pg__str_fini(&value);
    return st;
}

/* ---- the model ---- */

static pg_status to_legacy_model(pg__str *out, const char *text, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__json_span all = {0, n};
    PG_TRY(pg__str_puts(out, "{", err));
    PG_TRY(add_span(out, "class_name", text, pg__json_member(text, all, "class_name"), err));
    PG_TRY(add_span(out, "config", text, pg__json_member(text, all, "config"), err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

/* config.json. Functional models are called Model up to TF 2.2. */
static pg_status to_zip_model(pg__str *out, const char *text, size_t n, const char *compile,
                              size_t n_compile, int dialect, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str config = {0};
    const pg__json_span all = {0, n}, class_name = pg__json_member(text, all, "class_name"),
                        inner = pg__json_member(text, all, "config"),
                        build = pg__json_member(text, all, "build_config");
    const int sequential = pg__json_is_text(text, class_name, "Sequential");
    const int functional = pg__json_is_text(text, class_name, "Model") ||
                           pg__json_is_text(text, class_name, "Functional");
    if (!sequential && !functional)
        PG_FAIL(PG_E_UNSUPPORTED, "the model's class is its author's own; a .keras file needs the "
                                  "module that it comes from");
    PG_TRY(pg__str_puts(out, "{", err));
    PG_TRY(add_word(out, "module",
                    sequential     ? "keras"
                    : dialect == 3 ? functional_3
                                   : functional_2,
                    err));
    PG_TRY(add_word(out, "class_name", sequential ? "Sequential" : "Functional", err));
    PG_TRY(pg__plain_config(&config, text + inner.off, inner.n, err));
    if (config.n)
        PG_TRY(add_raw(out, "config", config.s, config.n, err));
    if (sequential)
        PG_TRY(add_raw(out, "registered_name", "null", 4, err));
    else
        PG_TRY(add_word(out, "registered_name", "Functional", err));
    PG_TRY(add_span(out, "build_config", text, build, err));
    if (n_compile)
        PG_TRY(add_raw(out, "compile_config", compile, n_compile, err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    pg__str_fini(&config);
    return st;
}

/* ---- state ---- */

static void drop_state(pg__outline *o)
{
    for (size_t i = 0; i < o->n_state; i++)
        pg__mem_free(o->state[i].name);
    o->n_state = 0;
}

static pg_status lose_state(pg__convert *c, const char *why, pg_err *err)
{
    size_t n = 0;
    pg_status st = pg__convert_lose_beside(c, err);
    for (size_t i = 0; i < c->at.n_state; i++)
        n += strncmp(c->at.state[i].name, "metrics/", 8) != 0;
    if (st == PG_OK)
        st = n ? pg__add_note(&c->r, err, "optimizer state (%zu tensor%s) dropped: %s", n,
                              n == 1 ? "" : "s", why)
               : PG_OK;
    drop_state(&c->at);
    return st;
}

/* Does the legacy list belong to an optimizer whose variables .keras holds in the same order? */
static int is_new_optimizer(const pg__outline *o)
{
    const char *name = o->n_state ? o->state[0].name : "", *slash = strrchr(name, '/');
    return strncmp(slash ? slash + 1 : name, "iteration", 9) == 0 &&
           strncmp(slash ? slash + 1 : name, "iterations", 10) != 0;
}

/* Legacy names to optimizer/vars/<i>, or back to a list. The counters of metrics restart. */
static pg_status rename_state(pg__outline *o, int to_paths, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    size_t n = 0;
    for (size_t i = 0; i < o->n_state; i++) {
        pg__out_tensor *x = &o->state[i];
        const int mine = to_paths || strncmp(x->name, "optimizer/vars/", 15) == 0;
        const size_t number = n;
        char *copy = NULL;
        name.n = 0;
        PG_TRY(pg__str_printf(&name, err,
                              to_paths ? "optimizer/vars/%zu"
                              : number ? "optimizer/variable_%zu:0"
                                       : "optimizer/iteration:%zu",
                              number));
        copy = mine ? pg__mem_strdup(name.s) : NULL;
        if (mine && !copy) {
            st = pg__nomem(err);
            goto done;
        }
        pg__mem_free(x->name);
        x->name = NULL;
        if (mine) {
            o->state[n].take = x->take;
            o->state[n++].name = copy;
        }
    }
    o->n_state = n;
done:
    pg__str_fini(&name);
    return st;
}

/* from: shape of the input; the state still has its names. */
static pg_status convert_state(pg__convert *c, pg__shape from, int compiled, pg_err *err)
{
    const pg__shape to = c->target == PG_TO_H5 ? PG_SHAPE_LAYERS : PG_SHAPE_PATHS;
    const int keras = c->graph && c->graph->dialect == 3 ? 3 : 2;
    if (c->target == PG_TO_H5) {
        const pg_status st = pg__convert_lose_beside(c, err);
        if (st != PG_OK)
            return st;
    }
    if (c->at.n_state == 0)
        return PG_OK;
    if (c->target == PG_TO_H5 && !c->at.model_config.n)
        return lose_state(c, "a weights-only .h5 has no place for it", err);
    if (from == PG_SHAPE_FLAT)
        return lose_state(c, "its order is not known", err);
    if (c->graph && keras != c->dialect)
        return lose_state(c, "Keras 2 and 3 keep it in different orders", err);
    if (from == to)
        return PG_OK;
    if (from == PG_SHAPE_LAYERS && !is_new_optimizer(&c->at))
        return lose_state(
            c, "the optimizers of Keras 2.10 and earlier have no place in this layout", err);
    if (to == PG_SHAPE_LAYERS && !compiled)
        return lose_state(c, "without a training configuration nothing says whose it is", err);
    return rename_state(&c->at, to == PG_SHAPE_PATHS, err);
}

/* ---- the step ---- */

static pg_status set(pg__str *to, pg__str *from)
{
    pg__str_fini(to);
    *to = *from;
    *from = (pg__str){0};
    return PG_OK;
}

/* {"keras_version": ...}: the input's if it is a .keras of the same Keras. */
static pg_status metadata(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    const char *own = pg_store_text(c->r.s, PG_TEXT_METADATA, &n);
    const int zip = strcmp(pg_store_format(c->r.s), "keras-zip") == 0;
    const int same = !c->r.v.graph || (c->r.v.graph->dialect == 3) == (c->dialect == 3);
    c->at.metadata.n = 0;
    if (own && zip && same)
        return pg__str_add(&c->at.metadata, own, n, err);
    PG_TRY(pg__str_puts(&c->at.metadata, "{\"keras_version\": ", err));
    PG_TRY(pg__str_puts(&c->at.metadata, c->dialect == 3 ? "\"3.6.0\"}" : "\"2.15.0\"}", err));
done:
    return st;
}

/* Does a text have the form of config.json? That includes its training configuration. */
static int is_zip_form(const pg__str *text)
{
    return text->n && pg__json_member(text->s, (pg__json_span){0, text->n}, "module").n > 0;
}

/* The input's training configuration, for the other container. keep: 0 if it must be left out. */
static pg_status training(pg__convert *c, pg__str *out, int keep, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__outline *o = &c->at;
    const int zip = is_zip_form(&o->model_config);
    const char *lost = NULL, *text = zip ? o->model_config.s : o->training_config.s;
    pg__json_span from = {0, o->training_config.n};
    if (zip)
        from = pg__json_member(text, (pg__json_span){0, o->model_config.n}, "compile_config");
    if (pg__json_is_null(text, from))
        return PG_OK;
    if (!c->graph_is_own)
        return pg__add_note(&c->r, err,
                            "training configuration dropped: the description is another one's");
    if (keep && zip == (c->target == PG_TO_KERAS))
        return pg__str_add(out, text + from.off, from.n, err);
    if (!pg__json_member(text, from, zip ? "optimizer" : "optimizer_config").n)
        return pg__add_note(&c->r, err, /* Keras 3 in a .keras after an .h5 of the same model */
                            "training configuration dropped: it names no optimizer");
    PG_TRY(keep ? compile_args(out, &lost, c, text, from, !zip, err)
                : compile_args_other(out, c, text, from, zip, err));
    if (lost)
        PG_TRY(pg__add_note(&c->r, err,
                            "training configuration dropped: its %s cannot be expressed in this "
                            "container",
                            lost));
done:
    return st;
}

/* The description for the output, in the output's dialect; "" if there is none. */
static pg_status describe(pg__convert *c, pg__str *out, pg_err *err)
{
    const pg__outline *o = &c->at;
    const char *text = c->graph_is_own ? o->model_config.s : c->graph->text;
    const size_t n = c->graph_is_own ? o->model_config.n : c->graph->n_text;
    if (c->target == PG_TO_WEIGHTS_H5 || (c->target == PG_TO_H5 && !c->graph_is_own))
        return PG_OK;
    if (c->graph->dialect == 1 && c->target == PG_TO_KERAS)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "its description is Keras 1's, which later releases do not read; give "
                       "the model of a newer one, or write a .weights.h5");
    if (c->graph->dialect == 1)
        return pg__add_note(&c->r, err,
                            "description dropped: later releases do not read Keras 1's");
    const int same = (c->graph->dialect == 3) == (c->dialect == 3);
    if (same && (c->target == PG_TO_H5 || (c->dialect == 3 && c->target != PG_TO_KERAS)))
        return pg__str_add(out, text, n, err);
    size_t n_classes = 0; /* reported only if another Keras is requested */
    const pg_status st =
        pg__translate(out, same ? &n_classes : &c->n_class_paths, text, n, c->dialect, same, err);
    if (st == PG_E_UNSUPPORTED) {
        pg_err_do(err, PG_DO_CONVERT, c->r.in);
        pg_err_arg(err, "suffix", ".weights.h5");
    }
    return st;
}

pg_status pg__convert_texts(pg__convert *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__outline *o = &c->at;
    pg__str model = {0}, compile = {0}, text = {0};
    const int same = c->graph && (c->graph->dialect == 3) == (c->dialect == 3);
    const int whole =
        same && c->graph_is_own && (c->target == PG_TO_KERAS) == is_zip_form(&o->model_config);
    if (c->graph)
        PG_TRY(describe(c, &text, err));
    if (text.n)
        PG_TRY(training(c, &compile, same && c->graph_is_own, err));
    if (whole)
        PG_TRY(pg__str_add(&model, text.s, text.n, err));
    else if (text.n && c->target == PG_TO_H5)
        PG_TRY(to_legacy_model(&model, text.s, text.n, err));
    else if (text.n)
        PG_TRY(to_zip_model(&model, text.s, text.n, compile.s, compile.n, c->dialect, err));
    (void)set(&o->training_config, &compile);
    (void)set(&o->model_config, &model);
    PG_TRY(convert_state(c, c->from, o->training_config.n > 0, err));
    if (c->target != PG_TO_H5)
        pg__str_fini(&o->training_config);
    if (c->target == PG_TO_KERAS)
        PG_TRY(metadata(c, err));
    if (c->graph && !same && c->target != PG_TO_WEIGHTS_H5) {
        o->writer.n = 0;
        PG_TRY(pg__str_printf(&o->writer, err, "keras %s, tensorflow",
                              c->dialect == 3 ? "3.6.0" : "2.15.0"));
    }
done:
    pg__str_fini(&model);
    pg__str_fini(&compile);
    pg__str_fini(&text);
    return st;
}
