/* settings.c - both forms become one JSON object; see settings.h. */
#include "train/rules/settings.h"

#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/try.h"

/* ---- from a command line ---- */

static int is_bare(const char *s, size_t n)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++)
        if (n == strlen(words[i]) && strncmp(s, words[i], n) == 0)
            return 1;
    return n > 0 && (*s == '-' || (*s >= '0' && *s <= '9')) && pg__json_check(s, n, NULL) == PG_OK;
}

/* A value as JSON: text that looks like a number or a flag, also in Python's form, becomes one. */
static pg_status put_value(pg__str *out, const char *s, size_t n, pg_err *err)
{
    if (n > 1 && *s == '.' && is_bare(s + 1, n - 1))
        return pg__str_printf(out, err, "0%.*s", (int)n, s);
    if (n == 4 && strncmp(s, "True", n) == 0)
        return pg__str_puts(out, "true", err);
    if (n == 5 && strncmp(s, "False", n) == 0)
        return pg__str_puts(out, "false", err);
    return is_bare(s, n) ? pg__str_add(out, s, n, err) : pg__json_quote(out, s, n, err);
}

static pg_status put_member(pg__str *out, const char *s, size_t n, pg_err *err)
{
    const char *equals = memchr(s, '=', n);
    const size_t n_key = equals ? (size_t)(equals - s) : n;
    pg_status st = PG_OK;
    PG_TRY(pg__json_quote(out, s, n_key, err));
    PG_TRY(pg__str_puts(out, ": ", err));
    if (equals)
        PG_TRY(put_value(out, equals + 1, n - n_key - 1, err));
    else
        PG_TRY(pg__str_puts(out, "true", err));
done:
    return st;
}

/* "key=value,flag" as {"key": value, "flag": true}. */
static pg_status to_json(pg__str *out, const char *s, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "{", err));
    while (s && *s != '\0') {
        const size_t n = strcspn(s, ",");
        if (n == 0)
            PG_FAIL(PG_E_ARG, "a comma without a key before it");
        PG_TRY(put_member(out, s, n, err));
        s += n;
        if (*s == ',') {
            PG_TRY(pg__str_puts(out, ", ", err));
            if (*++s == '\0')
                PG_FAIL(PG_E_ARG, "no key after the last comma");
        }
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

static pg_status of_text(pg__settings *out, const char *text, pg_err *err)
{
    const char *colon = strchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    pg__str json = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_add(&out->name, text, n, err));
    PG_TRY(to_json(&json, colon ? colon + 1 : NULL, err));
    PG_TRY(pg__json_parse(&out->root, json.s, json.n, err));
    out->of = out->root;
done:
    pg__str_fini(&json);
    return st;
}

/* ---- as Keras serializes it ---- */

static pg_status of_json(pg__settings *out, const char *text, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__json_parse(&out->root, text, strlen(text), err));
    const char *name = pg__json_get_str(out->root, "class_name");
    const pg__json *config = pg__json_get(out->root, "config");
    if (!name)
        PG_FAIL(PG_E_ARG, "an object without \"class_name\"");
    if (config && pg__json_type_of(config) != PG_J_OBJECT)
        PG_FAIL(PG_E_ARG, "\"config\" is not an object");
    PG_TRY(pg__str_puts(&out->name, name, err));
    out->of = config;
done:
    return st;
}

pg_status pg__settings_of(pg__settings *out, const char *text, pg_err *err)
{
    pg__settings s = {.root = NULL};
    const pg_status st =
        text[strspn(text, " \t\r\n")] == '{' ? of_json(&s, text, err) : of_text(&s, text, err);
    if (st == PG_OK) {
        *out = s;
        return PG_OK;
    }
    pg__settings_fini(&s);
    pg_err_prefix(err, PG_SHOW(text));
    return st;
}

pg_status pg__settings_colons(pg__settings *out, const char *text, pg_err *err)
{
    char *commas = pg__mem_strdup(text), *at = commas ? strchr(commas, ':') : NULL;
    if (!commas)
        return pg__nomem(err);
    while (at && (at = strchr(at + 1, ':')) != NULL)
        *at = ',';
    const pg_status st = pg__settings_of(out, commas, err);
    pg__mem_free(commas);
    return st;
}

void pg__settings_fini(pg__settings *s)
{
    pg__str_fini(&s->name);
    pg__json_free(s->root);
    pg__strs_fini(&s->known);
    *s = (pg__settings){.root = NULL};
}

/* ---- values ---- */

/* *out: NULL if the key is missing or null. */
static pg_status find(pg__settings *s, const char *key, const pg__json **out, pg_err *err)
{
    const pg__json *v = pg__json_get(s->of, key);
    *out = pg__json_type_of(v) == PG_J_NULL ? NULL : v;
    if (pg__strs_find(&s->known, key) != (size_t)-1)
        return PG_OK;
    return pg__strs_add(&s->known, key, strlen(key), err);
}

static pg_status refuse(const pg__settings *s, const char *key, const char *what, pg_err *err)
{
    return pg_fail(err, PG_E_ARG, "%s: %s is %s", s->name.s, key, what);
}

pg_status pg__settings_has(pg__settings *s, const char *key, int *out, pg_err *err)
{
    const pg__json *v;
    const pg_status st = find(s, key, &v, err);
    if (st == PG_OK)
        *out = v != NULL;
    return st;
}

pg_status pg__settings_text(pg__settings *s, const char *key, const char **inout, pg_err *err)
{
    const pg__json *v;
    pg_status st = PG_OK;
    PG_TRY(find(s, key, &v, err));
    if (v && !pg__json_str(v))
        PG_TRY(refuse(s, key, "not text", err));
    if (v)
        *inout = pg__json_str(v);
done:
    return st;
}

pg_status pg__settings_real(pg__settings *s, const char *key, double *inout, pg_err *err)
{
    const pg__json *v;
    pg_status st = PG_OK;
    PG_TRY(find(s, key, &v, err));
    if (v && !pg__json_num(v, inout))
        PG_TRY(refuse(s, key, "not a number", err));
done:
    return st;
}

static pg_status read_count(const pg__settings *s, const char *key, const pg__json *v,
                            const char *what, size_t *out, pg_err *err)
{
    int64_t n = 0;
    double real;
    if (!pg__json_int(v, &n) && pg__json_num(v, &real) && real >= 0 && real < 1e15 &&
        real == (double)(int64_t)real)
        n = (int64_t)real; /* 10.0 */
    else if (!pg__json_int(v, &n))
        n = -1;
    if (n < 0)
        return refuse(s, key, what, err);
    *out = (size_t)n;
    return PG_OK;
}

pg_status pg__settings_count(pg__settings *s, const char *key, size_t *inout, pg_err *err)
{
    const pg__json *v;
    pg_status st = PG_OK;
    PG_TRY(find(s, key, &v, err));
    if (v)
        PG_TRY(read_count(s, key, v, "not a whole number from 0 on", inout, err));
done:
    return st;
}

pg_status pg__settings_flag(pg__settings *s, const char *key, int *inout, pg_err *err)
{
    const pg__json *v;
    double n = -1;
    pg_status st = PG_OK;
    PG_TRY(find(s, key, &v, err));
    if (!v)
        goto done;
    if (pg__json_type_of(v) == PG_J_BOOL)
        n = pg__json_bool(v, 0);
    else
        (void)pg__json_num(v, &n);
    if (n != 0 && n != 1)
        PG_TRY(refuse(s, key, "neither true nor false", err));
    *inout = n != 0;
done:
    return st;
}

pg_status pg__settings_freq(pg__settings *s, const char *key, size_t *inout, pg_err *err)
{
    static const char *const what = "neither \"epoch\" nor a number of batches";
    const pg__json *v;
    pg_status st = PG_OK;
    PG_TRY(find(s, key, &v, err));
    if (!v)
        goto done;
    const char *word = pg__json_str(v);
    if (word && strcmp(word, "epoch") == 0)
        *inout = 0;
    else
        PG_TRY(read_count(s, key, v, what, inout, err));
    if (!word && *inout == 0)
        PG_TRY(refuse(s, key, what, err));
done:
    return st;
}

pg_status pg__settings_end(const pg__settings *s, pg_err *err)
{
    pg__json_iter it = {.obj = s->of};
    while (pg__json_next(&it)) {
        if (pg__strs_find(&s->known, it.key) != (size_t)-1)
            continue;
        const char *near = pg__nearest(it.key, (const char *const *)s->known.v, s->known.n);
        (void)pg_fail(err, PG_E_ARG, "%s has no parameter \"%s\"%s%s%s", s->name.s, PG_SHOW(it.key),
                      near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        return pg__list_known(err, PG_E_ARG, (const char *const *)s->known.v, s->known.n);
    }
    return PG_OK;
}
