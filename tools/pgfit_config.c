/* pgfit_config.c - --config: the options as a JSON object, under Keras' words for compile() and
 * fit() and under the long names of the options with underscores. --print-config writes the same.
 *
 * The table of the options says it all: what is a list there ("A,...") may be a list or an object
 * here, a switch is true or false, a number a number; null is what was not given. What the command
 * line gave already stays. */
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "pgfit.h"

enum { MAX_KEY = 64, MAX_VALUE = 65536 };

/* Options that leave, and what says the same in another key. */
static const char *const without_key[] = {"config", "print-config", "list-layers", "summary"};
/* What one of them says, the other must not undo. */
static const char *const rivals[][2] = {
    {"shuffle", "no-shuffle"}, {"val", "validation-split"}, {"quiet", "progress"}};

static pg_config *kept; /* values live as long as the program */

static int is_without_key(const char *name)
{
    for (size_t i = 0; i < sizeof without_key / sizeof *without_key; i++)
        if (strcmp(without_key[i], name) == 0)
            return 1;
    return 0;
}

/* ---- keys ---- */

static const char *const other_keys[] = {"model", "validation_data", "verbose", "callbacks"};
enum { N_OTHER = sizeof other_keys / sizeof *other_keys };

/* Keys of the options, in the order of the table. */
static const char *key_at(size_t i)
{
    static char keys[128][MAX_KEY];
    const cli_opt *o = &fit_tool.opts[i];
    if (!o->name || i >= sizeof keys / sizeof *keys)
        return NULL;
    for (size_t k = 0; o->name[k] && k + 1 < MAX_KEY; k++)
        keys[i][k] = o->name[k] == '-' ? '_' : o->name[k];
    return keys[i];
}

/* The i-th key there is, for suggestions. */
static const char *next_key(const void *ctx, size_t i)
{
    (void)ctx;
    if (i < N_OTHER)
        return other_keys[i];
    const char *key = key_at(i - N_OTHER);
    return key && is_without_key(fit_tool.opts[i - N_OTHER].name) ? other_keys[0] : key;
}

static const cli_opt *option_of(const char *key)
{
    const char *own;
    for (size_t i = 0; (own = key_at(i)); i++)
        if (strcmp(own, key) == 0 && !is_without_key(fit_tool.opts[i].name))
            return &fit_tool.opts[i];
    return NULL;
}

static int is_settled(const char *name)
{
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++)
        for (size_t k = 0; k < 2; k++)
            if (strcmp(rivals[i][k], name) == 0 && cli_given(rivals[i][!k]))
                return 1;
    return cli_given(name);
}

/* ---- values ---- */

typedef struct text {
    char *s;
    size_t n;
    int too_long;
} text;

static void add(text *t, const char *s)
{
    const size_t n = strlen(s);
    t->too_long |= t->n + n + 1 > MAX_VALUE;
    if (t->too_long)
        return;
    memcpy(t->s + t->n, s, n + 1);
    t->n += n;
}

static int is_plain(const pg_config *v)
{
    return v->type == PG_CONFIG_TEXT || v->type == PG_CONFIG_NUMBER || v->type == PG_CONFIG_BOOL;
}

static const pg_config *member(const pg_config *v, const char *key)
{
    for (size_t i = 0; v->type == PG_CONFIG_OBJECT && i < v->n; i++)
        if (strcmp(v->items[i].key, key) == 0)
            return &v->items[i];
    return NULL;
}

/* "huber:delta=2" from {"class_name": "huber", "config": {"delta": 2}} */
static int add_named(text *t, const pg_config *v)
{
    const pg_config *name = member(v, "class_name"), *config = member(v, "config");
    if (!name || name->type != PG_CONFIG_TEXT)
        return 0;
    add(t, name->text);
    for (size_t i = 0; config && i < config->n; i++) {
        const pg_config *p = &config->items[i];
        if (!is_plain(p) || !p->key)
            return p->type == PG_CONFIG_NULL;
        add(t, ":");
        add(t, p->key);
        add(t, "=");
        add(t, p->text);
    }
    return 1;
}

/* Lists as the command line has them: A,B,...; of an object KEY=A,KEY=B,... */
static int add_items(text *t, const char *key, const pg_config *v)
{
    if (v->type == PG_CONFIG_LIST || (v->type == PG_CONFIG_OBJECT && !member(v, "class_name"))) {
        for (size_t i = 0; i < v->n; i++) {
            if (key && v->items[i].key)
                return 0;
            if (!add_items(t, v->items[i].key ? v->items[i].key : key, &v->items[i]))
                return 0;
        }
        return 1;
    }
    if (v->type == PG_CONFIG_NULL)
        return 1;
    add(t, t->n > 0 ? "," : "");
    add(t, key ? key : "");
    add(t, key ? "=" : "");
    if (v->type == PG_CONFIG_OBJECT)
        return add_named(t, v);
    add(t, is_plain(v) ? v->text : "");
    return is_plain(v);
}

/* "A,...", or a file that may be several: "FILE[,FILE...]". */
static int takes_list(const cli_opt *o)
{
    return cli_takes_list(o) || (o->arg && strstr(o->arg, "[,"));
}

static const char *wanted(const cli_opt *o)
{
    return o->number                           ? "a whole number"
           : cli_may_have_argument(o)          ? "true, false or a text"
           : o->count                          ? "true or false"
           : takes_list(o)                     ? "a text, a list or an object"
           : strcmp(o->name, "optimizer") == 0 ? "a text, or {\"class_name\", \"config\"}"
                                               : "a text or a number";
}

cli_buf fit_shown(const pg_config *v)
{
    cli_buf out;
    const char *quote = v->type == PG_CONFIG_TEXT ? "\"" : "";
    snprintf(out.s, sizeof out.s, "%s%.60s%s", quote, cli_name(v->text).s, quote);
    return out;
}

static pg_status refuse(pg_err *err, const char *key, const cli_opt *o, const pg_config *v)
{
    return pg_fail(err, PG_E_ARG, "%s: \"%s\" is %s; it wants %s", cli_name(fit_args.config).s,
                   cli_name(key).s, fit_shown(v).s, wanted(o));
}

static pg_status set(const char *key, const cli_opt *o, const char *value, pg_err *err)
{
    cli_buf why;
    if (cli_set(o, value, &why))
        return PG_OK;
    return pg_fail(err, PG_E_ARG, "%s: \"%s\": %s", cli_name(fit_args.config).s, key, why.s);
}

static pg_status set_list(const char *key, const cli_opt *o, const pg_config *v, pg_err *err)
{
    text t = {.s = malloc(MAX_VALUE)}; /* kept by the option */
    if (!t.s)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    t.s[0] = '\0';
    if (!add_items(&t, NULL, v) || t.n == 0 || t.too_long)
        return refuse(err, key, o, v);
    return set(key, o, t.s, err);
}

static pg_status take_option(const char *key, const cli_opt *o, const pg_config *v, pg_err *err)
{
    const int list = v->type == PG_CONFIG_LIST || v->type == PG_CONFIG_OBJECT;
    if (v->type == PG_CONFIG_NULL || is_settled(o->name))
        return PG_OK;
    if (o->number && v->type == PG_CONFIG_NUMBER)
        return strcmp(v->text, "0") == 0 ? PG_OK : set(key, o, v->text, err);
    if (o->number)
        return refuse(err, key, o, v);
    if (o->count && v->type == PG_CONFIG_BOOL)
        return v->text[0] == 't' ? set(key, o, NULL, err) : PG_OK;
    if (o->count && !(cli_may_have_argument(o) && v->type == PG_CONFIG_TEXT))
        return refuse(err, key, o, v);
    if (strcmp(o->name, "optimizer") == 0 && member(v, "class_name")) {
        fit_args.train.optimizer_json = v->text;
        return PG_OK;
    }
    if (list && takes_list(o))
        return set_list(key, o, v, err);
    if (v->type != PG_CONFIG_TEXT && v->type != PG_CONFIG_NUMBER)
        return refuse(err, key, o, v);
    return set(key, o, v->text, err);
}

/* Keras' verbose: 0 says nothing, 1 draws a bar, 2 prints a line an epoch. */
static pg_status take_verbose(const pg_config *v, pg_err *err)
{
    if (v->type != PG_CONFIG_NULL && strcmp(v->text, "auto") != 0 && strcmp(v->text, "0") != 0 &&
        strcmp(v->text, "1") != 0 && strcmp(v->text, "2") != 0)
        return pg_fail(err, PG_E_ARG, "%s: \"verbose\" is %s; it wants 0, 1, 2 or \"auto\"",
                       cli_name(fit_args.config).s, fit_shown(v).s);
    if (is_settled("quiet") || is_settled("progress") || v->type == PG_CONFIG_NULL)
        return PG_OK;
    cli.quiet = v->text[0] == '0';
    if (v->text[0] == '1' || v->text[0] == '2')
        cli.progress = v->text[0] == '1' ? "always" : "never";
    return PG_OK;
}

static pg_status take_model(const pg_config *v, pg_err *err)
{
    if (v->type != PG_CONFIG_TEXT && v->type != PG_CONFIG_NULL)
        return pg_fail(err, PG_E_ARG, "%s: \"model\" is %s; it wants a text",
                       cli_name(fit_args.config).s, fit_shown(v).s);
    if (!fit_args.train.model && v->type == PG_CONFIG_TEXT)
        fit_args.train.model = v->text;
    return PG_OK;
}

static pg_status take(const pg_config *v, pg_err *err)
{
    const char *key = strcmp(v->key, "validation_data") == 0 ? "val" : v->key;
    const cli_opt *o = option_of(key);
    if (strcmp(key, "model") == 0)
        return take_model(v, err);
    if (strcmp(key, "verbose") == 0)
        return take_verbose(v, err);
    if (strcmp(key, "callbacks") == 0)
        return fit_take_callbacks(v, err);
    if (strcmp(key, "shuffle") == 0 && v->type == PG_CONFIG_BOOL && v->text[0] == 'f')
        return take_option(key, option_of("no_shuffle"),
                           &(pg_config){PG_CONFIG_BOOL, NULL, "true", 0, NULL}, err);
    if (o)
        return take_option(v->key, o, v, err);
    const char *near = cli_nearest(v->key, next_key, NULL);
    return pg_fail(err, PG_E_ARG, "%s: unknown key \"%s\"%s%s%s", cli_name(fit_args.config).s,
                   cli_name(v->key).s, near ? "; did you mean \"" : "", near ? near : "",
                   near ? "\"?" : "");
}

pg_status fit_read_config(pg_err *err)
{
    pg_status st = fit_args.config ? pg_config_open(&kept, fit_args.config, err) : PG_OK;
    for (size_t i = 0; kept && st == PG_OK && i < kept->n; i++)
        st = take(&kept->items[i], err);
    return st;
}

/* ---- written ---- */

int fit_is_number(const char *s)
{
    char *end = NULL;
    const char *digits = s + (*s == '-');
    if (*digits < '0' || *digits > '9' || (*digits == '0' && digits[1] >= '0' && digits[1] <= '9'))
        return 0;
    for (const char *p = digits; *p; p++)
        if (!strchr("0123456789.eE+-", *p) || (*p == '.' && (p[1] < '0' || p[1] > '9')))
            return 0;
    (void)strtod(s, &end);
    return *end == '\0';
}

static void print_text(const char *s)
{
    if (s && fit_is_number(s))
        fputs(s, stdout);
    else
        json_string(s);
}

static void print_value(const cli_opt *o)
{
    if (strcmp(o->name, "optimizer") == 0 && fit_args.train.optimizer_json && !*o->text)
        fputs(fit_args.train.optimizer_json, stdout);
    else if (strcmp(o->name, "shuffle") == 0 && !*o->text)
        fputs(fit_args.fit.no_shuffle ? "false" : "true", stdout);
    else if (o->number && *o->number > 0)
        printf("%u", *o->number);
    else if (o->number)
        fputs("null", stdout);
    else if (o->text && (*o->text || !o->count))
        print_text(*o->text);
    else
        fputs(*o->count ? "true" : "false", stdout);
}

void fit_print_config(void)
{
    const char *progress = cli.progress ? cli.progress : "auto", *key;
    fputs("{\n  \"model\": ", stdout);
    json_string(fit_args.train.model);
    for (size_t i = 0; (key = key_at(i)); i++) {
        const cli_opt *o = &fit_tool.opts[i];
        if (is_without_key(o->name) || strcmp(o->name, "no-shuffle") == 0 ||
            fit_is_of_callback(o->name))
            continue;
        printf(",\n  \"%s\": ", key);
        print_value(o);
    }
    printf(",\n  \"verbose\": %s,\n  \"callbacks\": [", cli.quiet                         ? "0"
                                                        : strcmp(progress, "always") == 0 ? "1"
                                                        : strcmp(progress, "never") == 0
                                                            ? "2"
                                                            : "\"auto\"");
    fit_print_callbacks();
    puts("]\n}");
}
