/* pgfit_config.c - --config: the options as a JSON object, under Keras' words for compile() and
 * fit() and under the long names of the options with underscores. --print-config writes the same.
 *
 * The option table decides the types: an option that takes a list ("A,...") may be a list or an
 * object here, a switch is true or false, a number a number; null means not given. The command line
 * overrides the file. */
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "pgfit.h"

enum { MAX_KEY = 64 };

/* Options that print and exit, and options that other keys replace. */
static const char *const without_key[] = {"config", "print-config", "list-layers", "summary",
                                          "plan"};
/* If one of a pair is given, the file must not set the other. */
static const char *const rivals[][2] = {{"shuffle", "no-shuffle"},
                                        {"val", "validation-split"},
                                        {"devices", "gpus"},
                                        {"quiet", "progress"}};

static const char *source; /* file that is being read, for errors */
static pg_config *kept[2]; /* values live as long as the program: --config, resume's */

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

/* The key of the i-th option, in the order of the table. */
static const char *key_at(size_t i)
{
    static char keys[128][MAX_KEY];
    const cli_opt *o = cli_own_option(&fit_tool, i);
    if (!o || i >= sizeof keys / sizeof *keys)
        return NULL;
    for (size_t k = 0; o->name[k] && k + 1 < MAX_KEY; k++)
        keys[i][k] = o->name[k] == '-' ? '_' : o->name[k];
    return keys[i];
}

/* The i-th key that a file may have, for suggestions. */
static const char *next_key(const void *ctx, size_t i)
{
    (void)ctx;
    if (i < N_OTHER)
        return other_keys[i];
    const char *key = key_at(i - N_OTHER);
    return key && is_without_key(cli_own_option(&fit_tool, i - N_OTHER)->name) ? other_keys[0]
                                                                               : key;
}

static const cli_opt *option_of(const char *key)
{
    const char *own;
    for (size_t i = 0; (own = key_at(i)); i++)
        if (strcmp(own, key) == 0 && !is_without_key(cli_own_option(&fit_tool, i)->name))
            return cli_own_option(&fit_tool, i);
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

/* ":thresholds=0.1/0.5" */
static int add_list(FILE *f, const pg_config *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (!is_plain(&v->items[i]))
            return 0;
    fprintf(f, ":%s=", v->key);
    for (size_t i = 0; i < v->n; i++)
        fprintf(f, "%s%s", i ? "/" : "", v->items[i].text);
    return 1;
}

/* "huber:delta=2" from {"class_name": "huber", "config": {"delta": 2}} */
static int add_named(FILE *f, const pg_config *v)
{
    const pg_config *name = member(v, "class_name"), *config = member(v, "config");
    if (!name || name->type != PG_CONFIG_TEXT)
        return 0;
    fputs(name->text, f);
    for (size_t i = 0; config && i < config->n; i++) {
        const pg_config *p = &config->items[i];
        if (p->key && p->type == PG_CONFIG_LIST && add_list(f, p))
            continue;
        if (p->key && is_plain(p))
            fprintf(f, ":%s=%s", p->key, p->text);
        else if (p->type != PG_CONFIG_NULL)
            return 0;
    }
    return 1;
}

/* Lists in the form of the command line: A,B,...; objects as KEY=A,KEY=B,... */
static int add_items(FILE *f, const char *key, const pg_config *v)
{
    if (v->type == PG_CONFIG_LIST || (v->type == PG_CONFIG_OBJECT && !member(v, "class_name"))) {
        for (size_t i = 0; i < v->n; i++) {
            if (key && v->items[i].key)
                return 0;
            if (!add_items(f, v->items[i].key ? v->items[i].key : key, &v->items[i]))
                return 0;
        }
        return 1;
    }
    if (v->type == PG_CONFIG_NULL)
        return 1;
    fprintf(f, "%s%s%s", ftell(f) > 0 ? "," : "", key ? key : "", key ? "=" : "");
    if (v->type == PG_CONFIG_OBJECT)
        return add_named(f, v);
    fputs(v->text, f);
    return 1;
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
    return pg_fail(err, PG_E_ARG, "%s: \"%s\" is %s; it must be %s", cli_name(source).s,
                   cli_name(key).s, fit_shown(v).s, wanted(o));
}

static pg_status set(const char *key, const cli_opt *o, const char *value, pg_err *err)
{
    cli_buf why;
    if (cli_set(o, value, &why))
        return PG_OK;
    return pg_fail(err, PG_E_ARG, "%s: \"%s\": %s", cli_name(source).s, key, why.s);
}

static pg_status set_list(const char *key, const cli_opt *o, const pg_config *v, pg_err *err)
{
    char *made = NULL; /* kept by the option */
    size_t n = 0;
    FILE *f = open_memstream(&made, &n);
    if (!f)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    const int is_list = add_items(f, NULL, v);
    (void)fclose(f);
    return is_list && n > 0 ? set(key, o, made, err) : refuse(err, key, o, v);
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
        if (!fit_args.train.optimizer_json)
            fit_args.train.optimizer_json = v->text;
        return PG_OK;
    }
    if (strcmp(o->name, "optimizer") == 0 && fit_args.train.optimizer_json)
        return PG_OK;
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
        return pg_fail(err, PG_E_ARG, "%s: \"verbose\" is %s; it must be 0, 1, 2 or \"auto\"",
                       cli_name(source).s, fit_shown(v).s);
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
        return pg_fail(err, PG_E_ARG, "%s: \"model\" is %s; it must be a text", cli_name(source).s,
                       fit_shown(v).s);
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
    const char *near = pg_nearest(v->key, next_key, NULL);
    return pg_fail(err, PG_E_ARG, "%s: unknown key \"%s\"%s%s%s", cli_name(source).s,
                   cli_name(v->key).s, near ? "; did you mean \"" : "", near ? near : "",
                   near ? "\"?" : "");
}

/* Keys that a resume file has besides the options. */
static int is_of_run(const pg_config *root, const char *key)
{
    return root == kept[1] && (strcmp(key, "folder") == 0 || strcmp(key, "file") == 0);
}

static pg_status take_all(const pg_config *root, const char *from, pg_err *err)
{
    pg_status st = PG_OK;
    source = from;
    for (size_t i = 0; st == PG_OK && i < root->n; i++)
        if (!is_of_run(root, root->items[i].key))
            st = take(&root->items[i], err);
    return st;
}

pg_status fit_read_config(pg_err *err)
{
    if (!fit_args.config)
        return PG_OK;
    const pg_status st = pg_config_open(&kept[0], fit_args.config, err);
    return st == PG_OK ? take_all(kept[0], fit_args.config, err) : st;
}

pg_status fit_take_settings(const char *text, const char *from, pg_err *err)
{
    const pg_status st = pg_config_parse(&kept[1], text, strlen(text), from, err);
    return st == PG_OK ? take_all(kept[1], from, err) : st;
}

const char *fit_setting(const char *key)
{
    const pg_config *v = kept[1] ? member(kept[1], key) : NULL;
    return v && v->type == PG_CONFIG_TEXT ? v->text : NULL;
}

const char *fit_config_source(void)
{
    return source;
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

static void print_value(FILE *f, const cli_opt *o)
{
    const char *s = o->text ? *o->text : NULL;
    if (strcmp(o->name, "optimizer") == 0 && fit_args.train.optimizer_json && !s)
        fputs(fit_args.train.optimizer_json, f);
    else if (strcmp(o->name, "shuffle") == 0 && !s)
        fputs(fit_args.fit.no_shuffle ? "false" : "true", f);
    else if (o->number && *o->number > 0)
        fprintf(f, "%u", *o->number);
    else if (o->number)
        fputs("null", f);
    else if (o->count && !s)
        fputs(*o->count ? "true" : "false", f);
    else if (strcmp(o->name, "devices") == 0 && *fit_option("gpus")->text)
        fputs("null", f); /* --gpus says which */
    else if (s && fit_is_number(s))
        fputs(s, f);
    else
        json_quoted(s);
}

static const char *verbose(void)
{
    const char *progress = cli.progress ? cli.progress : "auto";
    return cli.quiet                         ? "0"
           : strcmp(progress, "always") == 0 ? "1"
           : strcmp(progress, "never") == 0  ? "2"
                                             : "\"auto\"";
}

const char *fit_config_text(int for_resume)
{
    static char *made; /* the last one, for as long as the program runs */
    const char *key;
    size_t n = 0;
    free(made);
    made = NULL;
    FILE *f = open_memstream(&made, &n);
    if (!f)
        return NULL;
    json_into(f);
    fputs("{\n", f);
    if (for_resume)
        fit_print_folder(f);
    fputs("  \"model\": ", f);
    json_quoted(fit_args.train.model);
    for (size_t i = 0; (key = key_at(i)); i++) {
        const cli_opt *o = cli_own_option(&fit_tool, i);
        if (is_without_key(o->name) || strcmp(o->name, "no-shuffle") == 0 ||
            fit_is_of_callback(o->name))
            continue;
        fprintf(f, ",\n  \"%s\": ", key);
        print_value(f, o);
    }
    fprintf(f, ",\n  \"verbose\": %s,\n  \"callbacks\": [", verbose());
    fit_print_callbacks(f);
    fputs("]\n}\n", f);
    json_into(NULL);
    (void)fclose(f);
    return made;
}
