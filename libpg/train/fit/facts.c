/* facts.c - see facts.h. Leaves out devices, their number, and the last epoch: they may change. */
#include "train/fit/facts.h"

#include <stdio.h>
#include <string.h>

#include "base/real.h"
#include "base/sha256.h"
#include "base/try.h"
#include "train/model/model.h"
#include "train/step/step.h"

static pg_status put(pg__str *out, const char *name, const char *value, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, "%s\t", name));
    for (size_t i = 0; i < n; i++) /* must stay one line */
        PG_TRY(pg__str_add(out, strchr("\t\n", value[i]) ? " " : value + i, 1, err));
    PG_TRY(pg__str_puts(out, "\n", err));
done:
    return st;
}

static pg_status put_count(pg__str *out, const char *name, uint64_t v, pg_err *err)
{
    return pg__str_printf(out, err, "%s\t%llu\n", name, (unsigned long long)v);
}

static pg_status put_text(pg__str *out, const char *name, const char *value, pg_err *err)
{
    return put(out, name, value ? value : "none", strlen(value ? value : "none"), err);
}

/* ---- the model, and what it was compiled with ---- */

static pg_status put_model(pg__str *out, const pg_trainer *t, pg_err *err)
{
    const pg__json_span config = t->net.graph->root->config_span;
    char hex[65];
    pg__sha256 h;
    pg__sha256_init(&h);
    pg__sha256_add(&h, t->net.graph->text + config.off, config.n);
    for (size_t i = 0; i < t->vars.n_params; i++) {
        pg__sha256_add(&h, t->net.built_params.params[i].shape.d,
                       t->net.built_params.params[i].shape.rank * sizeof(uint64_t));
        pg__sha256_add(&h, &t->vars.trained[i], 1);
    }
    pg__sha256_hex(&h, hex);
    return put(out, "model", hex, 16, err);
}

static pg_status put_compiled(pg__str *out, const pg_trainer *t, pg_err *err)
{
    static const struct {
        const char *key, *name;
    } parts[] = {{"optimizer_config", "optimizer"},
                 {"loss", "loss"},
                 {"loss_weights", "loss weights"},
                 {"metrics", "metrics"},
                 {"weighted_metrics", "weighted metrics"}};
    pg__str text = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__compiled_text(&text, t, &t->compiled.optimizer, 0, err));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const pg__json_span s = pg__json_member(text.s, (pg__json_span){0, text.n}, parts[i].key);
        PG_TRY(put(out, parts[i].name, text.s + s.off, s.n, err));
    }
    PG_TRY(put_text(out, "rules", t->net.rules->name, err));
    PG_TRY(put_count(out, "bytes of a number", t->devs.backend->real_bytes, err));
    PG_TRY(put_text(out, "precision", pg__mixed_name(&t->net), err));
    PG_TRY(put_count(out, "deterministic", t->pool.cut.n_lanes > 0, err));
    PG_TRY(put_count(out, "lanes", t->pool.cut.n_lanes, err));
    PG_TRY(put_text(out, "convolutions",
                    t->net.conv == 1   ? "direct"
                    : t->net.conv == 2 ? "winograd"
                                       : "auto",
                    err));
    PG_TRY(put_count(out, "loss from probabilities", t->compiled.from_probabilities != 0, err));
    PG_TRY(put_text(out, "BatchNormalization", t->net.bn_sync ? "sync" : "replica", err));
done:
    pg__str_fini(&text);
    return st;
}

/* ---- fit() ---- */

static const char *shuffling(const pg_fit_opts *o)
{
    if (o->no_shuffle)
        return "no";
    return o->shuffle_batches ? "batches" : "rows";
}

static pg_status put_fit(pg__str *out, const pg_fit_opts *o, const pg_run *run, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(put_count(out, "training rows", run->n_train, err));
    PG_TRY(put_count(out, "validation rows", run->n_val, err));
    PG_TRY(put_count(out, "batch size", run->batch_size, err));
    PG_TRY(put_count(out, "batches of an epoch", run->n_batches, err));
    PG_TRY(put_count(out, "accumulate", o->accumulate > 1 ? o->accumulate : 1, err));
    PG_TRY(put_count(out, "initial epoch", o->initial_epoch, err));
    PG_TRY(put_count(out, "validation steps", o->validation_steps, err));
    PG_TRY(put_count(out, "validation freq", o->validation_freq ? o->validation_freq : 1, err));
    PG_TRY(put_text(out, "shuffle", shuffling(o), err));
    PG_TRY(put_count(out, "seed", o->seed, err));
    PG_TRY(put_text(out, "class weight", o->class_weight, err));
    PG_TRY(put_text(out, "reset states", o->reset_states ? "epoch" : "never", err));
done:
    return st;
}

/* ---- callbacks ---- */

/* File names, how many files stay, and what is printed. */
static int may_differ(const char *key)
{
    static const char *const keys[] = {"filepath",   "filename", "file", "log_dir",
                                       "backup_dir", "verbose",  "keep", "verify"};
    return PG_IS_ANY(key, keys);
}

static pg_status put_value(pg__str *out, const pg__json *v, pg_err *err)
{
    double number = 0;
    int64_t whole = 0;
    if (pg__json_int(v, &whole))
        return pg__str_printf(out, err, "%lld", (long long)whole);
    if (pg__json_str(v))
        return pg__str_puts(out, pg__json_str(v), err);
    if (pg__json_num(v, &number))
        return pg__str_puts(out, PG_REAL(number), err);
    if (pg__json_type_of(v) == PG_J_BOOL)
        return pg__str_puts(out, pg__json_bool(v, 0) ? "true" : "false", err);
    if (pg__json_type_of(v) != PG_J_ARRAY)
        return pg__str_puts(out, "null", err);
    pg_status st = pg__str_puts(out, "[", err);
    for (size_t i = 0; i < pg__json_len(v) && st == PG_OK; i++) {
        st = pg__str_puts(out, i > 0 ? " " : "", err);
        if (st == PG_OK)
            st = put_value(out, pg__json_at(v, i), err);
    }
    return st == PG_OK ? pg__str_puts(out, "]", err) : st;
}

static pg_status put_callback(pg__str *out, const char *text, pg_err *err)
{
    pg__settings s = {.root = NULL};
    pg__str value = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__settings_of(&s, text, err));
    pg__json_iter it = {.obj = s.of};
    while (pg__json_next(&it)) {
        if (may_differ(it.key))
            continue;
        PG_TRY(pg__str_printf(&value, err, "%s%s=", value.n ? "," : "", it.key));
        PG_TRY(put_value(&value, it.value, err));
    }
    PG_TRY(put_text(out, s.name.s, value.n ? value.s : "(defaults)", err));
done:
    pg__str_fini(&value);
    pg__settings_fini(&s);
    return st;
}

pg_status pg__facts_of(pg__str *out, const pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(put_model(out, f->t, err));
    PG_TRY(put_compiled(out, f->t, err));
    PG_TRY(put_fit(out, f->opts, f->run, err));
    PG_TRY(put_count(out, "data", f->data_crc, err));
    for (size_t i = 0; i < f->opts->n_callbacks; i++)
        PG_TRY(put_callback(out, f->opts->callbacks[i], err));
done:
    return st;
}

/* ---- comparing ---- */

typedef struct line {
    const char *name, *value;
    size_t n_name, n_value;
} line;

static int next_line(const char **at, line *l)
{
    if (**at == '\0')
        return 0;
    const size_t n = strcspn(*at, "\n");
    l->name = *at;
    l->n_name = strcspn(*at, "\t\n");
    l->value = *at + l->n_name + (l->n_name < n);
    l->n_value = n - (size_t)(l->value - *at);
    *at += n + ((*at)[n] == '\n');
    return 1;
}

static pg_status say(const char *name, size_t n_name, const line *now, const line *then,
                     pg_err *err)
{
    enum { MOST = 120 };
    const int a = now->n_value < MOST ? (int)now->n_value : MOST,
              b = then->n_value < MOST ? (int)then->n_value : MOST;
    return pg_fail(err, PG_E_MISMATCH, "was made with %.*s %.*s, not %.*s", (int)n_name, name, b,
                   then->value, a, now->value);
}

/* Names the optimizer's class if it differs, else one of its numbers. */
static pg_status optimizers_differ(const line *now, const line *then, pg_err *err)
{
    const pg__json_span a = {(size_t)0, now->n_value}, b = {(size_t)0, then->n_value};
    const pg__json_span class_a = pg__json_member(now->value, a, "class_name"),
                        class_b = pg__json_member(then->value, b, "class_name"),
                        config_a = pg__json_member(now->value, a, "config"),
                        config_b = pg__json_member(then->value, b, "config");
    if (class_a.n != class_b.n ||
        memcmp(now->value + class_a.off, then->value + class_b.off, class_a.n) != 0)
        return say("optimizer", 9, &(line){NULL, now->value + class_a.off, 0, class_a.n},
                   &(line){NULL, then->value + class_b.off, 0, class_b.n}, err);
    pg__json_walk w = pg__json_walk_of(now->value, config_a);
    while (pg__json_walk_next(&w)) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", w.key.n > 1 ? (int)w.key.n - 2 : 0,
                 now->value + w.key.off + 1);
        const pg__json_span old = pg__json_member(then->value, config_b, key);
        if (old.n == w.value.n &&
            memcmp(now->value + w.value.off, then->value + old.off, old.n) == 0)
            continue;
        return say(key, strlen(key), &(line){NULL, now->value + w.value.off, 0, w.value.n},
                   &(line){NULL, then->value + old.off, 0, old.n}, err);
    }
    return say("optimizer", 9, now, then, err);
}

static int is_called(const line *l, const char *name)
{
    return l->n_name == strlen(name) && strncmp(l->name, name, l->n_name) == 0;
}

static pg_status differ(const line *now, const line *then, pg_err *err)
{
    if (is_called(now, "model") || is_called(now, "data"))
        return pg_fail(err, PG_E_MISMATCH, "was made with %s %.*s",
                       is_called(now, "model") ? "another" : "other", (int)now->n_name, now->name);
    if (is_called(now, "optimizer"))
        return optimizers_differ(now, then, err);
    return say(now->name, now->n_name, now, then, err);
}

pg_status pg__facts_compare(const pg__str *now, const char *then, pg_err *err)
{
    const char *a = now->s, *b = then;
    for (;;) {
        line mine = {0}, theirs = {0};
        const int more = next_line(&a, &mine), more_there = next_line(&b, &theirs);
        if (!more && !more_there)
            return PG_OK;
        if (!more || !more_there || mine.n_name != theirs.n_name ||
            strncmp(mine.name, theirs.name, mine.n_name) != 0) {
            const line *l = more_there ? &theirs : &mine;
            return pg_fail(err, PG_E_MISMATCH, "was made with other callbacks: %s %.*s",
                           more_there ? "it had" : "it had no", (int)l->n_name, l->name);
        }
        if (mine.n_value != theirs.n_value || memcmp(mine.value, theirs.value, mine.n_value) != 0)
            return differ(&mine, &theirs, err);
    }
}
