/* pgfit_callbacks.c - callbacks from options and from a --config file. The library gets each as
 * {"class_name", "config"}. The first option of a class requests the callback, the others are its
 * parameters. Callbacks of the file run in the order of the file; one from the command line
 * replaces the callback of its class, or follows the others in the order of this table. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "json_out.h"
#include "pgfit.h"

typedef enum form {
    TEXT,       /* a JSON string */
    VALUE,      /* a number or true if it looks like one */
    NOTHING,    /* requests the class, without parameters */
    PARAMETERS, /* KEY=VALUE,...: the whole config */
    SCHEDULE    /* NAME:KEY=VALUE,..., table:FILE */
} form;

static const struct part {
    const char *option, *class_name, *key;
    form form;
} parts[] = {
    {"schedule", "LearningRateScheduler", NULL, SCHEDULE},
    {"reduce-lr", "ReduceLROnPlateau", NULL, PARAMETERS},
    {"swap-ema", "SwapEMAWeights", NULL, NOTHING}, /* before the callbacks that save weights */
    {"swap-on-epoch", "SwapEMAWeights", "swap_on_epoch", VALUE},
    {"early-stop", "EarlyStopping", NULL, PARAMETERS},
    {"checkpoint", "ModelCheckpoint", "filepath", TEXT},
    {"monitor", "ModelCheckpoint", "monitor", TEXT},
    {"mode", "ModelCheckpoint", "mode", TEXT},
    {"save-best-only", "ModelCheckpoint", "save_best_only", VALUE},
    {"save-weights-only", "ModelCheckpoint", "save_weights_only", VALUE},
    {"save-freq", "ModelCheckpoint", "save_freq", VALUE},
    {"period", "ModelCheckpoint", "period", VALUE},
    {"initial-value-threshold", "ModelCheckpoint", "initial_value_threshold", VALUE},
    {"keep", "ModelCheckpoint", "keep", VALUE},
    {"verify", "ModelCheckpoint", "verify", TEXT},
    {"max-shard-size", "ModelCheckpoint", "max_shard_size", TEXT},
    {"tensorboard", "TensorBoard", "log_dir", TEXT},
    {"tensorboard-every", "TensorBoard", "update_freq", VALUE},
    {"histogram-freq", "TensorBoard", "histogram_freq", VALUE},
    {"csv", "CSVLogger", "filename", TEXT},
    {"append", "CSVLogger", "append", VALUE},
    {"report", "Report", "filename", TEXT},
};
enum { N_PARTS = sizeof parts / sizeof *parts, MAX_CALLBACKS = 64 };

/* The class, its config as JSON, and both together. */
static struct callback {
    const char *class_name, *config;
    char *json;
    pg_config *parsed;
} list[MAX_CALLBACKS];
static const char *texts[MAX_CALLBACKS];
static size_t n;

/* ---- text, made by printing; it lives as long as the program ---- */

typedef struct text {
    char *s;
    size_t n;
    FILE *f;
    int n_members;
} text;

static FILE *begin(text *t)
{
    *t = (text){.f = open_memstream(&t->s, &t->n)};
    if (t->f) {
        json_into(t->f);
        return t->f;
    }
    cli_complain(NULL, NULL, "out of memory");
    exit(CLI_TROUBLE);
}

static char *end(text *t)
{
    json_into(NULL);
    (void)fclose(t->f);
    return t->s;
}

static void add_key(text *t, const char *key)
{
    fputs(t->n_members++ > 0 ? ", " : "", t->f);
    json_quoted(key);
    fputs(": ", t->f);
}

/* As a number or a boolean if it looks like one, otherwise as a string. */
static void add_value(text *t, const char *s)
{
    if (strcasecmp(s, "true") == 0 || strcasecmp(s, "false") == 0)
        fputs(strcasecmp(s, "true") == 0 ? "true" : "false", t->f);
    else if (fit_is_number(s) || (*s == '.' && !strchr(s + 1, '.') && fit_is_number(s + 1)))
        fprintf(t->f, *s == '.' ? "0%s" : "%s", s);
    else
        json_quoted(s);
}

/* ---- from options ---- */

/* "monitor=loss,restore_best" as the members of an object. */
static void add_parameters(text *t, const char *list_of_them)
{
    char *all = strdup(list_of_them), *rest = NULL;
    for (char *s = all ? strtok_r(all, ",", &rest) : NULL; s; s = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(s, '=');
        if (equals)
            *equals = '\0';
        add_key(t, strcmp(s, "restore_best") == 0 ? "restore_best_weights" : s);
        add_value(t, equals ? equals + 1 : "true");
    }
    free(all);
}

/* Schedules that count epochs; the trainer itself handles those that count steps. */
int fit_is_by_epoch(const char *schedule)
{
    static const char *const names[] = {"epoch",  "exponential", "step",
                                        "cosine", "constant",    "table"};
    const size_t len = schedule ? strcspn(schedule, ":") : 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncmp(schedule, names[i], len) == 0)
            return 1;
    return 0;
}

static void add_schedule(text *t, const char *s)
{
    const size_t len = strcspn(s, ":");
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)len, s);
    s += len + (s[len] == ':');
    add_key(t, "schedule");
    json_quoted(name);
    if (strcmp(name, "table") != 0 || strncmp(s, "file=", 5) == 0) {
        add_parameters(t, s);
    } else if (*s) {
        add_key(t, "file");
        json_quoted(s);
    }
}

static int is_wanted(const struct part *p)
{
    return cli_given(p->option) &&
           (p->form != SCHEDULE || fit_is_by_epoch(*fit_option(p->option)->text));
}

static void add_part(text *t, const struct part *p)
{
    const cli_opt *o = fit_option(p->option);
    if (p->form == NOTHING)
        return;
    if (p->form == SCHEDULE) {
        add_schedule(t, *o->text);
        return;
    }
    if (p->form == PARAMETERS) {
        add_parameters(t, *o->text);
        return;
    }
    add_key(t, p->key);
    if (o->number)
        fprintf(t->f, "%u", *o->number);
    else if (o->count)
        fputs("true", t->f);
    else if (p->form == TEXT)
        json_quoted(*o->text);
    else
        add_value(t, *o->text);
}

static pg_status put(const char *class_name, const char *config, int instead, pg_err *err)
{
    size_t at = instead ? 0 : n;
    text t;
    while (at < n && strcmp(list[at].class_name, class_name) != 0)
        at++;
    for (size_t k = n; instead && k-- > at + 1;) {
        if (strcmp(list[k].class_name, class_name) != 0)
            continue;
        free(list[k].json);
        memmove(&list[k], &list[k + 1], (n - k - 1) * sizeof *list);
        n--;
    }
    if (at == MAX_CALLBACKS)
        return pg_fail(err, PG_E_ARG, "more than %d callbacks", MAX_CALLBACKS);
    if (at < n)
        free(list[at].json);
    FILE *f = begin(&t);
    fputs("{\"class_name\": ", f);
    json_quoted(class_name);
    fprintf(f, ", \"config\": %s}", config);
    list[at] = (struct callback){class_name, config, end(&t), NULL};
    n += at == n;
    return PG_OK;
}

/* The first callback of the class in the file, or NULL. */
static const struct callback *from_file(const char *class_name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].class_name, class_name) == 0)
            return &list[i];
    return NULL;
}

/* Adds the keys of the file's config that the options from `first` on do not set. */
static void add_others(text *t, const char *config, const struct part *first)
{
    pg_config *tree = NULL;
    if (pg_config_parse(&tree, config, strlen(config), "callbacks", NULL) != PG_OK)
        return; /* it was read before */
    for (size_t k = 0; k < tree->n; k++) {
        const pg_config *m = &tree->items[k];
        const struct part *p = first;
        while (p < parts + N_PARTS && p->class_name == first->class_name &&
               !(is_wanted(p) && p->key && strcmp(p->key, m->key) == 0))
            p++;
        if (p < parts + N_PARTS && p->class_name == first->class_name)
            continue;
        add_key(t, m->key);
        if (m->type == PG_CONFIG_TEXT)
            json_quoted(m->text);
        else
            fputs(m->text, t->f);
    }
    pg_config_close(tree);
}

/* Takes the options of the class that begins at part *i, and moves *i past them. Without the option
 * that requests the class, they change the callback of the file. */
static pg_status make_one(size_t *i, pg_err *err)
{
    const struct part *main = &parts[*i], *wanted = NULL;
    const struct callback *old = is_wanted(main) ? NULL : from_file(main->class_name);
    text t;
    FILE *f;
    for (; *i < N_PARTS && parts[*i].class_name == main->class_name; ++*i)
        wanted = !wanted && is_wanted(&parts[*i]) ? &parts[*i] : wanted;
    if (!wanted)
        return PG_OK;
    if (!is_wanted(main) && !old)
        return pg_fail(err, PG_E_ARG, "--%s belongs to --%s, which is not given", wanted->option,
                       main->option);
    f = begin(&t);
    fputs("{", f);
    if (old)
        add_others(&t, old->config, main);
    for (const struct part *p = main; p < &parts[*i]; p++)
        if (is_wanted(p))
            add_part(&t, p);
    fputs("}", f);
    return put(main->class_name, end(&t), 1, err);
}

pg_status fit_make_callbacks(pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < N_PARTS && st == PG_OK;)
        st = make_one(&i, err);
    for (size_t i = 0; i < n; i++)
        texts[i] = list[i].json;
    fit_args.fit.callbacks = texts;
    fit_args.fit.n_callbacks = n;
    return st;
}

static const char *option_for(const char *class_name)
{
    for (size_t i = 0; i < N_PARTS; i++)
        if (strcmp(parts[i].class_name, class_name) == 0 && cli_given(parts[i].option))
            return parts[i].option;
    return NULL;
}

/* "ModelCheckpoint: ..." becomes "--checkpoint: ..." if that option requested it; otherwise it
 * names the file. */
void fit_name_option(pg_err *err)
{
    const char *class_name, *option;
    char rest[sizeof err->msg];
    for (size_t i = 0; (class_name = pg_callback_class(i)); i++) {
        const size_t len = strlen(class_name);
        if (strncmp(err->msg, class_name, len) != 0 || !strchr(": ", err->msg[len]))
            continue;
        snprintf(rest, sizeof rest, "%s", err->msg + len);
        if ((option = option_for(class_name)))
            snprintf(err->msg, sizeof err->msg, "--%.40s%.460s", option, rest);
        else if (fit_args.config)
            pg_err_prefix(err, fit_args.config);
        return;
    }
}

int fit_is_of_callback(const char *option)
{
    for (size_t i = 0; i < N_PARTS; i++)
        if (strcmp(parts[i].option, option) == 0)
            return parts[i].form != SCHEDULE || is_wanted(&parts[i]);
    return 0;
}

/* ---- from a file, and into one ---- */

static const char *class_at(const void *ctx, size_t i)
{
    (void)ctx;
    return pg_callback_class(i);
}

static int is_known(const char *name)
{
    const char *one;
    for (size_t i = 0; (one = pg_callback_class(i)); i++)
        if (strcmp(one, name) == 0)
            return 1;
    return 0;
}

static pg_status take_one(const pg_config *v, pg_err *err)
{
    const char *name = NULL, *config = "{}", *file = fit_config_source();
    for (size_t k = 0; v->type == PG_CONFIG_OBJECT && k < v->n; k++) {
        const pg_config *m = &v->items[k];
        if (strcmp(m->key, "class_name") == 0 && m->type == PG_CONFIG_TEXT)
            name = m->text;
        else if (strcmp(m->key, "config") == 0 && m->type == PG_CONFIG_OBJECT)
            config = m->text;
        else
            return pg_fail(err, PG_E_ARG,
                           "%s: callbacks: \"%s\" is %s; an entry is "
                           "{\"class_name\": TEXT, \"config\": OBJECT}",
                           cli_name(file).s, cli_name(m->key).s, fit_shown(m).s);
    }
    if (!name)
        return pg_fail(err, PG_E_ARG, "%s: callbacks: %s is not {\"class_name\", \"config\"}",
                       cli_name(file).s, fit_shown(v).s);
    const char *near = pg_nearest(name, class_at, NULL);
    if (!is_known(name))
        return pg_fail(err, PG_E_ARG, "%s: callbacks: unknown class \"%s\"%s%s%s", cli_name(file).s,
                       cli_name(name).s, near ? "; did you mean \"" : "", near ? near : "",
                       near ? "\"?" : "");
    return put(name, config, 0, err);
}

pg_status fit_take_callbacks(const pg_config *v, pg_err *err)
{
    pg_status st = PG_OK;
    if (v->type != PG_CONFIG_LIST && v->type != PG_CONFIG_NULL)
        return pg_fail(err, PG_E_ARG, "%s: \"callbacks\" is %s; it must be a list",
                       cli_name(fit_config_source()).s, fit_shown(v).s);
    const int open = n == 0; /* no other file has callbacks */
    for (size_t i = 0; open && i < v->n && st == PG_OK; i++)
        st = take_one(&v->items[i], err);
    return st;
}

void fit_print_callbacks(FILE *f)
{
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s\n    %s", i > 0 ? "," : "", list[i].json);
    fputs(n > 0 ? "\n  " : "", f);
}

/* Extracted from the JSON once, and kept. */
const char *fit_callback_text(const char *class_name, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        struct callback *c = &list[i];
        if (strcmp(c->class_name, class_name) != 0)
            continue;
        if (!c->parsed &&
            pg_config_parse(&c->parsed, c->config, strlen(c->config), class_name, NULL) != PG_OK)
            return NULL;
        for (size_t k = 0; k < c->parsed->n; k++)
            if (strcmp(c->parsed->items[k].key, key) == 0)
                return c->parsed->items[k].text;
    }
    return NULL;
}
