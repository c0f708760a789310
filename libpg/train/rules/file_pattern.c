/* file_pattern.c - the part of str.format() that file names need: {key}, {key:spec}, {{ and }}.
 * Positions, attributes, indexes, conversions and keys within specifications have no use here and
 * are refused as unknown keys. */
#include "train/rules/file_pattern.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/try.h"

/* A {key:spec}; s is after its opening brace. */
typedef struct field {
    const char *name, *spec, *end; /* end: after the closing brace */
    size_t n_name, n_spec;
} field;

static pg_status read_field(field *f, const char *s, pg_err *err)
{
    const size_t n = strcspn(s, "{}");
    const char *colon = memchr(s, ':', n);
    *f = (field){.name = s, .n_name = colon ? (size_t)(colon - s) : n, .end = s + n + 1};
    if (colon) {
        f->spec = colon + 1;
        f->n_spec = n - f->n_name - 1;
    }
    if (s[n] == '\0')
        return pg_fail(err, PG_E_ARG, "'{' without '}'; one brace is written {{");
    if (s[n] == '{')
        return pg_fail(err, PG_E_ARG, "a key within {%.*s...} is not filled in",
                       (int)(n < 40 ? n : 40), s);
    return PG_OK;
}

static pg_status unknown_key(const field *f, const pg__pattern_key *keys, size_t n_keys,
                             pg_err *err)
{
    pg__str name = {0}, known = {0};
    const char **names = pg__mem_array(n_keys, sizeof *names), *near = NULL;
    pg_status st = PG_OK;
    if (!names)
        return pg__nomem(err);
    PG_TRY(pg__str_add(&name, f->name, f->n_name, err));
    for (size_t i = 0; i < n_keys; i++) {
        names[i] = keys[i].name;
        PG_TRY(pg__str_printf(&known, err, "%s%s", i ? ", " : "", PG_SHOW(keys[i].name)));
    }
    near = pg__nearest(name.s, names, n_keys);
    PG_FAIL(PG_E_ARG, "unknown key {%s}; known: %s%s%s%s", PG_SHOW(name.s), known.s,
            near ? "; did you mean " : "", near ? PG_SHOW(near) : "", near ? "?" : "");
done:
    pg__mem_free(names);
    pg__str_fini(&name);
    pg__str_fini(&known);
    return st;
}

static const pg__pattern_key *find_key(const field *f, const pg__pattern_key *keys, size_t n_keys)
{
    for (size_t i = 0; i < n_keys; i++)
        if (strlen(keys[i].name) == f->n_name && memcmp(keys[i].name, f->name, f->n_name) == 0)
            return &keys[i];
    return NULL;
}

static pg_status fill_field(pg__str *out, const char **absent, const field *f,
                            const pg__pattern_key *keys, size_t n_keys, pg_err *err)
{
    const pg__pattern_key *k = find_key(f, keys, n_keys);
    if (!k)
        return unknown_key(f, keys, n_keys, err);
    if (k->is_absent) {
        *absent = *absent ? *absent : k->name;
        return PG_OK;
    }
    const pg_status st = pg__spec_format(out, f->spec ? f->spec : "", f->n_spec, k->value, err);
    if (st == PG_E_ARG) {
        char text[96];
        const int n = (int)(f->end - f->name);
        (void)snprintf(text, sizeof text, "{%.*s", n < 80 ? n : 80, f->name);
        pg_err_prefix(err, PG_SHOW(text));
    }
    return st;
}

pg_status pg__pattern_fill(pg__str *out, const char **absent, const char *pattern,
                           const pg__pattern_key *keys, size_t n_keys, pg_err *err)
{
    pg_status st = PG_OK;
    field f;
    out->n = 0;
    *absent = NULL;
    for (const char *s = pattern; *s != '\0';) {
        const size_t n = strcspn(s, "{}");
        PG_TRY(pg__str_add(out, s, n, err));
        s += n;
        if (*s == '\0')
            break;
        if (s[0] == s[1]) {
            PG_TRY(pg__str_add(out, s, 1, err));
            s += 2;
            continue;
        }
        if (*s == '}')
            PG_FAIL(PG_E_ARG, "'}' without '{'; one brace is written }}");
        PG_TRY(read_field(&f, s + 1, err));
        PG_TRY(fill_field(out, absent, &f, keys, n_keys, err));
        s = f.end;
    }
    if (*absent)
        out->n = 0;
done:
    return st;
}

size_t pg__pattern_fixed(const char *pattern)
{
    size_t n = 0;
    for (const char *s = pattern; *s != '\0' && !(*s == '{' && s[1] != '{'); n++)
        s += *s == '{' || *s == '}' ? 2 : 1;
    return n;
}
