/* texts.c - makes the JSON texts of an unwrapped file by cutting bytes from the wrapper's.
 * Numbers are never printed again: 0.009999999776482582 would change its digits (FORMATS.md:
 * "Model JSON"). */
#include <string.h>

#include "base/str.h"
#include "base/try.h"
#include "wrap/rewrite/rewrite.h"

static pg_status add_member(pg__str *out, const char *key, const char *text, pg__json_span span,
                            pg_err *err)
{
    pg_status st = PG_OK;
    if (span.n == 0)
        return PG_OK;
    PG_TRY(pg__str_printf(out, err, "%s\"%s\": ", out->n > 1 ? ", " : "", key));
    PG_TRY(pg__str_add(out, text + span.off, span.n, err));
done:
    return st;
}

static pg__json_span member_of(const char *text, pg__json_span within, const char *key)
{
    const pg__json_step path[] = {PG_JKEY(key), {0}};
    pg__json_span s = pg__json_range(text + within.off, within.n, path);
    s.off += within.off;
    return s;
}

pg_status pg__text_model(pg__str *out, const pg__graph *g, const pg__layer *layer, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(out, "{", err));
    PG_TRY(add_member(out, "class_name", g->text, member_of(g->text, layer->entry, "class_name"),
                      err));
    PG_TRY(add_member(out, "config", g->text, layer->config_span, err));
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

static size_t find(const pg__strs *names, const char *key, size_t n_key)
{
    for (size_t i = 0; i < names->n; i++)
        if (strlen(names->v[i]) == n_key && memcmp(names->v[i], key, n_key) == 0)
            return i;
    return PG_NONE;
}

/* 1 if every key of a dict is an output's name. */
static int keyed_by_output(const pg__json *dict, const pg__strs *names)
{
    pg__json_iter it = {.obj = dict};
    if (pg__json_type_of(dict) != PG_J_OBJECT || pg__json_len(dict) == 0)
        return 0;
    while (pg__json_next(&it))
        if (find(names, it.key, it.key_len) == PG_NONE)
            return 0;
    return 1;
}

/* Two outputs with the same name cannot both be keys of a dict. */
static int would_clash(const pg__json *dict, const pg__strs *from, const pg__strs *to)
{
    pg__json_iter a = {.obj = dict};
    while (pg__json_next(&a)) {
        size_t hits = 0;
        const char *name = to->v[find(from, a.key, a.key_len)];
        pg__json_iter b = {.obj = dict};
        while (pg__json_next(&b))
            hits += strcmp(to->v[find(from, b.key, b.key_len)], name) == 0;
        if (hits > 1)
            return 1;
    }
    return 0;
}

static pg_status rename_keys(pg__str *out, const char *text, pg__json_span span,
                             const pg__json *dict, const pg__strs *from, const pg__strs *to,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__json_iter it = {.obj = dict};
    const char *sep = "{";
    while (pg__json_next(&it)) {
        const char *name = to->v[find(from, it.key, it.key_len)];
        const pg__json_span value = member_of(text, span, it.key);
        PG_TRY(pg__str_puts(out, sep, err));
        PG_TRY(pg__json_quote(out, name, strlen(name), err));
        PG_TRY(pg__str_puts(out, ": ", err));
        PG_TRY(pg__str_add(out, text + value.off, value.n, err));
        sep = ", ";
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    return st;
}

static int all_equal(const pg__strs *a, const pg__strs *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->v[i], b->v[i]) != 0)
            return 0;
    return 1;
}

/* Members in the order of the text, each copied or with its keys renamed. */
pg_status pg__text_training(pg__str *out, const char *text, size_t n, const pg__strs *from,
                            const pg__strs *to, int *clash, pg_err *err)
{
    static const char *const keyed[] = {"loss", "loss_weights", "metrics", "weighted_metrics",
                                        "sample_weight_mode"};
    pg_status st = PG_OK;
    pg__json *json = NULL;
    const pg__json_span all = {0, n};
    size_t done_to = 0;
    *clash = 0;
    if (all_equal(from, to) || pg__json_parse(&json, text, n, NULL) != PG_OK)
        return pg__str_add(out, text, n, err);
    for (;;) {
        pg__json_span next = {0};
        const pg__json *dict = NULL;
        for (size_t k = 0; k < sizeof keyed / sizeof *keyed; k++) {
            const pg__json_span s = member_of(text, all, keyed[k]);
            if (s.n == 0 || s.off < done_to || (next.n && s.off > next.off) ||
                !keyed_by_output(pg__json_get(json, keyed[k]), from))
                continue;
            next = s;
            dict = pg__json_get(json, keyed[k]);
        }
        if (!dict)
            break;
        PG_TRY(pg__str_add(out, text + done_to, next.off - done_to, err));
        done_to = next.off;
        if (would_clash(dict, from, to)) {
            *clash = 1;
            PG_TRY(pg__str_add(out, text + next.off, next.n, err));
        } else {
            PG_TRY(rename_keys(out, text, next, dict, from, to, err));
        }
        done_to += next.n;
    }
    PG_TRY(pg__str_add(out, text + done_to, n - done_to, err));
done:
    pg__json_free(json);
    return st;
}

pg_status pg__text_zip(pg__str *out, const char *text, pg__json_span entry,
                       const pg__graph *compiled, const pg__strs *from, const pg__strs *to,
                       pg_err *err)
{
    static const char *const keys[] = {"module", "class_name", "config", "registered_name",
                                       "build_config"};
    pg_status st = PG_OK;
    pg__str compile = {0};
    int clash = 0;
    pg__json_span outer = {0};
    if (compiled)
        outer = member_of(compiled->text, (pg__json_span){0, compiled->n_text}, "compile_config");
    PG_TRY(pg__str_puts(out, "{", err));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        PG_TRY(add_member(out, keys[k], text, member_of(text, entry, keys[k]), err));
    if (outer.n) {
        PG_TRY(pg__text_training(&compile, compiled->text + outer.off, outer.n, from, to, &clash,
                                 err));
        PG_TRY(add_member(out, "compile_config", compile.s, (pg__json_span){0, compile.n}, err));
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    pg__str_fini(&compile);
    return st;
}

/* Length of the string literal that starts at text[0], its quotes included. */
static size_t literal(const char *text, size_t n)
{
    size_t i = 1;
    while (i < n && text[i] != '"')
        i += text[i] == '\\' ? 2 : 1;
    return i < n ? i + 1 : n;
}

static size_t spaces(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i;
}

/* Length of a member `"shared_object_id": 12` with the comma after it, or 0 for any other
 * member. */
static size_t object_id(const char *text, size_t n)
{
    static const char key[] = "\"shared_object_id\"";
    size_t i = sizeof key - 1;
    if (n < i || memcmp(text, key, i) != 0)
        return 0;
    i += spaces(text + i, n - i);
    if (i == n || text[i] != ':')
        return 0;
    i++;
    i += spaces(text + i, n - i);
    while (i < n && strchr("-0123456789", text[i]) && text[i])
        i++;
    const size_t gap = spaces(text + i, n - i);
    return i + gap < n && text[i + gap] == ',' ? i + gap + 1 : i;
}

/* The text without white space and object ids. */
static pg_status essence(pg__str *out, const char *text, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < n;) {
        i += spaces(text + i, n - i);
        if (i == n)
            break;
        const size_t id = text[i] == '"' ? object_id(text + i, n - i) : 0;
        if (id) {
            const int last = text[i + id - 1] != ',';
            if (last && out->n && out->s[out->n - 1] == ',')
                out->s[--out->n] = 0;
            i += id;
            continue;
        }
        const size_t k = text[i] == '"' ? literal(text + i, n - i) : 1;
        PG_TRY(pg__str_add(out, text + i, k, err));
        i += k;
    }
done:
    return st;
}

pg_status pg__text_same(int *same, const char *a, size_t na, const char *b, size_t nb, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str x = {0}, y = {0};
    PG_TRY(essence(&x, a, na, err));
    PG_TRY(essence(&y, b, nb, err));
    *same = x.n == y.n && (x.n == 0 || memcmp(x.s, y.s, x.n) == 0);
done:
    pg__str_fini(&x);
    pg__str_fini(&y);
    return st;
}
