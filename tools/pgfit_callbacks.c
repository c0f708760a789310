/* pgfit_callbacks.c - the options that become Keras' callbacks, and those of a --config file. The
 * library is given each as {"class_name", "config"}; the first option of a class asks for it, the
 * others are its parameters. In the file they stand in the order wanted; what the command line asks
 * for takes the place of the one of its class, or comes behind, in the order of this table. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "json_out.h"
#include "pgfit.h"

typedef enum form {
    TEXT,      /* a JSON string */
    VALUE,     /* a number or true where it looks like one */
    PARAMETERS /* KEY=VALUE,... are the whole config */
} form;

static const struct part {
    const char *option, *class_name, *key;
    form form;
} parts[] = {
    {"reduce-lr", "ReduceLROnPlateau", NULL, PARAMETERS},
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

/* As asked for: the class, its config as JSON, and both together. */
static struct callback {
    const char *class_name, *config, *json;
} list[MAX_CALLBACKS];
static const char *texts[MAX_CALLBACKS];
static size_t n;

/* ---- growing text; what no memory is left for is told once, at the end ---- */

typedef struct text {
    char *s;
    size_t n, cap;
} text;

static void add_n(text *t, const char *s, size_t len)
{
    if (t->n + len + 1 > t->cap) {
        const size_t cap = (t->n + len + 1) * 2;
        char *more = realloc(t->s, cap);
        if (!more) {
            cli_complain(NULL, NULL, "out of memory");
            exit(CLI_TROUBLE);
        }
        t->s = more;
        t->cap = cap;
    }
    memcpy(t->s + t->n, s, len);
    t->n += len;
    t->s[t->n] = '\0';
}

static void add(text *t, const char *s)
{
    add_n(t, s, strlen(s));
}

static void add_quoted(text *t, const char *s, size_t len)
{
    char escape[8];
    add(t, "\"");
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)s[i];
        snprintf(escape, sizeof escape, "\\u%04x", c);
        if (c < 0x20)
            add(t, escape);
        else if (c == '"' || c == '\\')
            add(t, c == '"' ? "\\\"" : "\\\\");
        else
            add_n(t, s + i, 1);
    }
    add(t, "\"");
}

static void add_value(text *t, const char *s, size_t len)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", len < sizeof word ? (int)len : 0, s);
    if (strcasecmp(word, "true") == 0 || strcasecmp(word, "false") == 0)
        add(t, strcasecmp(word, "true") == 0 ? "true" : "false");
    else if (fit_is_number(word))
        add(t, word);
    else
        add_quoted(t, s, len);
}

/* ---- from options ---- */

/* "monitor=loss,restore_best" as the members of an object. */
static void add_parameters(text *t, const char *s)
{
    static const char shorter[] = "restore_best", full[] = "restore_best_weights";
    while (*s) {
        const size_t len = strcspn(s, ",");
        const char *equals = memchr(s, '=', len);
        const size_t key = equals ? (size_t)(equals - s) : len;
        const int is_short = key == sizeof shorter - 1 && strncmp(s, shorter, key) == 0;
        if (len > 0) {
            add(t, t->n > 1 ? ", " : "");
            add_quoted(t, is_short ? full : s, is_short ? sizeof full - 1 : key);
            add(t, ": ");
            add_value(t, equals ? equals + 1 : "true", equals ? len - key - 1 : 4);
        }
        s += len + (s[len] == ',');
    }
}

static void add_part(text *t, const struct part *p)
{
    const cli_opt *o = fit_option(p->option);
    char number[16];
    if (p->form == PARAMETERS) {
        add_parameters(t, *o->text);
        return;
    }
    add(t, t->n > 1 ? ", " : "");
    add_quoted(t, p->key, strlen(p->key));
    add(t, ": ");
    if (o->number)
        snprintf(number, sizeof number, "%u", *o->number);
    if (o->number || o->count)
        add(t, o->number ? number : "true");
    else if (p->form == TEXT)
        add_quoted(t, *o->text, strlen(*o->text));
    else
        add_value(t, *o->text, strlen(*o->text));
}

/* instead: of those of its class, of which a file may have several. */
static pg_status put(const char *class_name, const char *config, int instead, pg_err *err)
{
    size_t at = instead ? 0 : n;
    text t = {0};
    while (at < n && strcmp(list[at].class_name, class_name) != 0)
        at++;
    for (size_t k = n; instead && k-- > at + 1;) {
        if (strcmp(list[k].class_name, class_name) != 0)
            continue;
        memmove(&list[k], &list[k + 1], (n - k - 1) * sizeof *list);
        n--;
    }
    if (at == MAX_CALLBACKS)
        return pg_fail(err, PG_E_ARG, "more than %d callbacks", MAX_CALLBACKS);
    add(&t, "{\"class_name\": ");
    add_quoted(&t, class_name, strlen(class_name));
    add(&t, ", \"config\": ");
    add(&t, config);
    add(&t, "}");
    list[at] = (struct callback){class_name, config, t.s};
    n += at == n;
    return PG_OK;
}

pg_status fit_make_callbacks(pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < N_PARTS && st == PG_OK;) {
        const size_t first = i;
        const int wanted = cli_given(parts[i].option);
        text t = {0};
        add(&t, "{");
        for (; i < N_PARTS && parts[i].class_name == parts[first].class_name; i++) {
            if (!cli_given(parts[i].option))
                continue;
            if (!wanted)
                return pg_fail(err, PG_E_ARG, "--%s belongs to --%s, which is not given",
                               parts[i].option, parts[first].option);
            add_part(&t, &parts[i]);
        }
        add(&t, "}");
        if (wanted)
            st = put(parts[first].class_name, t.s, 1, err);
    }
    for (size_t i = 0; i < n; i++)
        texts[i] = list[i].json;
    fit_args.fit.callbacks = texts;
    fit_args.fit.n_callbacks = n;
    return st;
}

int fit_is_of_callback(const char *option)
{
    for (size_t i = 0; i < N_PARTS; i++)
        if (strcmp(parts[i].option, option) == 0)
            return 1;
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
    const char *name = NULL, *config = "{}", *file = fit_args.config;
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
        return pg_fail(err, PG_E_ARG, "%s: callbacks: %s is no {\"class_name\", \"config\"}",
                       cli_name(file).s, fit_shown(v).s);
    const char *near = cli_nearest(name, class_at, NULL);
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
        return pg_fail(err, PG_E_ARG, "%s: \"callbacks\" is %s; it wants a list",
                       cli_name(fit_args.config).s, fit_shown(v).s);
    for (size_t i = 0; i < v->n && st == PG_OK; i++)
        st = take_one(&v->items[i], err);
    return st;
}

void fit_print_callbacks(void)
{
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? ",\n    {\"class_name\": " : "\n    {\"class_name\": ", stdout);
        json_string(list[i].class_name);
        printf(", \"config\": %s}", list[i].config);
    }
    fputs(n > 0 ? "\n  " : "", stdout);
}
