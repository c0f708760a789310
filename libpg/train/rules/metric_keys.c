/* metric_keys.c - the parameters of metrics, as text and in the form of Keras' files. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/real.h"
#include "base/try.h"
#include "train/rules/metric_impl.h"

typedef enum key_kind { REAL, COUNT, WHOLE, FLAG, LIST, WHOLES, CHOICE } key_kind;

/* choices: the words of a CHOICE, numbered; null means the first if that is "none". */
static const struct {
    const char *key;
    key_kind kind;
    size_t off;
    const char *choices;
} keys[] = {
#define AT(field) offsetof(pg__metric, args.field)
    {"threshold", REAL, AT(threshold), NULL},
    {"beta", REAL, AT(beta), NULL},
    {"recall", REAL, AT(value), NULL},
    {"precision", REAL, AT(value), NULL},
    {"specificity", REAL, AT(value), NULL},
    {"sensitivity", REAL, AT(value), NULL},
    {"k", COUNT, AT(k), NULL},
    {"num_thresholds", COUNT, AT(num_thresholds), NULL},
    {"num_labels", COUNT, AT(num_labels), NULL},
    {"top_k", COUNT, AT(top_k), NULL},
    {"class_id", COUNT, AT(class_id), NULL},
    {"num_classes", COUNT, AT(num_classes), NULL},
    {"num_regressors", COUNT, AT(num_regressors), NULL},
    {"ignore_class", WHOLE, AT(ignore_class), NULL},
    {"axis", WHOLE, AT(axis), NULL},
    {"multi_label", FLAG, AT(multi_label), NULL},
    {"from_logits", FLAG, AT(from_logits), NULL},
    {"sparse_y_true", FLAG, AT(sparse_y_true), NULL},
    {"sparse_y_pred", FLAG, AT(sparse_y_pred), NULL},
    {"thresholds", LIST, AT(thresholds), NULL},
    {"label_weights", LIST, AT(label_weights), NULL},
    {"target_class_ids", WHOLES, AT(target_class_ids), NULL},
    {"normalizer", LIST, AT(normalizer), NULL},
    {"curve", CHOICE, AT(curve), "ROC PR"},
    {"summation_method", CHOICE, AT(summation_method), "interpolation majoring minoring"},
    {"average", CHOICE, AT(average), "none micro macro weighted"},
    {"class_aggregation", CHOICE, AT(class_aggregation),
     "none uniform_average variance_weighted_average"},
#undef AT
};
#define N_KEYS (sizeof keys / sizeof *keys)

/* Word i of a list, or NULL. */
static const char *word(const char *words, size_t i, size_t *n)
{
    for (; i > 0 && words; i--) {
        words = strchr(words, ' ');
        words = words ? words + 1 : NULL;
    }
    *n = words ? strcspn(words, " ") : 0;
    return words;
}

static double choice_of(const char *words, const char *s, size_t len)
{
    size_t n;
    const char *w;
    for (size_t i = 0; (w = word(words, i, &n)) != NULL; i++)
        if (n == len && strncasecmp(w, s, n) == 0)
            return (double)i;
    return NAN;
}

typedef struct one_key {
    size_t i;          /* of `keys` */
    int needed;        /* "key!" */
    const char *usual; /* "key=usual", or NULL */
    size_t n_usual;
} one_key;

/* The next of a type's keys; returns 0 at the end. */
static int next_key(const char **at, one_key *k)
{
    const size_t n = strcspn(*at, " !="), all = strcspn(*at, " ");
    *k = (one_key){.needed = (*at)[n] == '!'};
    while (k->i < N_KEYS && (strlen(keys[k->i].key) != n || strncmp(keys[k->i].key, *at, n) != 0))
        k->i++;
    if ((*at)[n] == '=') {
        k->usual = *at + n + 1;
        k->n_usual = all - n - 1;
    }
    *at += all + ((*at)[all] == ' ');
    return n > 0 && k->i < N_KEYS;
}

static int is_list(size_t i)
{
    return keys[i].kind == LIST || keys[i].kind == WHOLES;
}

static double *number_of(pg__metric *m, size_t i)
{
    return (double *)(void *)((char *)m + keys[i].off);
}

static pg__metric_list *list_of(pg__metric *m, size_t i)
{
    return (pg__metric_list *)(void *)((char *)m + keys[i].off);
}

/* ---- reading ---- */

/* "0.1/0.2", or one number. */
static pg_status read_list(pg__metric_list *out, const pg__settings *from, const char *key,
                           pg_err *err)
{
    const pg__json *v = pg__json_get(from->of, key);
    const char *s = pg__json_str(v);
    double one = 0;
    int good = pg__json_num(v, &one);
    out->v = pg__mem_array(s ? strlen(s) + 1 : 1, sizeof *out->v);
    if (!out->v)
        return pg__nomem(err);
    if (good)
        out->v[out->n++] = one;
    for (; s; s += strcspn(s, "/"), s = *s == '/' ? s + 1 : NULL)
        if (!(good = pg__real_read(&out->v[out->n++], s, strcspn(s, "/"))))
            break;
    return good ? PG_OK
                : pg_fail(err, PG_E_ARG, "metric %s: %s is not a list of numbers such as 0.1/0.5",
                          from->name.s, key);
}

static pg_status read_key(pg__metric *m, const one_key *k, pg__settings *from, pg_err *err)
{
    const char *key = keys[k->i].key, *text = NULL;
    size_t count = 0;
    int given = 0, flag = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__settings_has(from, key, &given, err));
    if (k->needed && !given)
        PG_FAIL(PG_E_ARG, "metric %s needs %s", from->name.s, key);
    if (!given && keys[k->i].kind == CHOICE && pg__json_get(from->of, key))
        *number_of(m, k->i) = choice_of(keys[k->i].choices, "none", 4); /* null */
    if (!given)
        goto done;
    switch (keys[k->i].kind) {
    case REAL:
    case WHOLE: PG_TRY(pg__settings_real(from, key, number_of(m, k->i), err)); break;
    case COUNT:
        PG_TRY(pg__settings_count(from, key, &count, err));
        *number_of(m, k->i) = (double)count;
        break;
    case FLAG:
        PG_TRY(pg__settings_flag(from, key, &flag, err));
        *number_of(m, k->i) = flag;
        break;
    case LIST:
    case WHOLES: PG_TRY(read_list(list_of(m, k->i), from, key, err)); break;
    case CHOICE:
        PG_TRY(pg__settings_text(from, key, &text, err));
        *number_of(m, k->i) = choice_of(keys[k->i].choices, text, strlen(text));
        if (isnan(*number_of(m, k->i)))
            PG_FAIL(PG_E_ARG, "metric %s: %s is \"%s\", not one of: %s", from->name.s, key,
                    PG_SHOW(text), keys[k->i].choices);
        break;
    }
done:
    return st;
}

static void set_usual(pg__metric *m, const one_key *k)
{
    double v = NAN;
    if (is_list(k->i))
        return;
    if (k->usual && keys[k->i].kind == CHOICE)
        v = choice_of(keys[k->i].choices, k->usual, k->n_usual);
    else if (k->usual)
        (void)pg__real_read(&v, k->usual, k->n_usual);
    else if (keys[k->i].kind == FLAG)
        v = 0;
    *number_of(m, k->i) = v;
}

pg_status pg__metric_keys(pg__metric *m, pg__settings *from, pg_err *err)
{
    const char *at = m->type->keys;
    one_key k;
    pg_status st = PG_OK;
    for (size_t i = 0; i < N_KEYS; i++)
        if (!is_list(i))
            *number_of(m, i) = NAN;
    m->args.multi_label = 0;
    while (next_key(&at, &k)) {
        set_usual(m, &k);
        PG_TRY(read_key(m, &k, from, err));
    }
    if (!isnan(m->args.axis) && m->args.axis != -1)
        PG_FAIL(PG_E_UNSUPPORTED, "metric %s: axis %s, only the last one (-1) is supported",
                from->name.s, PG_REAL(m->args.axis));
    if (!isnan(m->args.k) && m->args.k < 1)
        PG_FAIL(PG_E_ARG, "metric %s: k must be at least 1", from->name.s);
    if (!isnan(m->args.top_k) && m->args.top_k < 1)
        PG_FAIL(PG_E_ARG, "metric %s: top_k must be at least 1", from->name.s);
done:
    return st;
}

/* ---- writing ---- */

static pg_status put_number(pg__str *out, double v, int whole, pg_err *err)
{
    if (isnan(v))
        return pg__str_puts(out, "null", err);
    return whole ? pg__str_printf(out, err, "%.0f", v) : pg__str_puts(out, PG_REAL(v), err);
}

static pg_status put_list(pg__str *out, const pg__metric_list *l, int whole, pg_err *err)
{
    pg_status st = PG_OK;
    if (l->n == 0)
        return pg__str_puts(out, "null", err);
    for (size_t k = 0; k < l->n; k++) {
        PG_TRY(pg__str_puts(out, k ? ", " : "[", err));
        PG_TRY(put_number(out, l->v[k], whole, err));
    }
    PG_TRY(pg__str_puts(out, "]", err));
done:
    return st;
}

static pg_status put_choice(pg__str *out, const char *choices, double v, pg_err *err)
{
    size_t n;
    const char *w = word(choices, isnan(v) ? 0 : (size_t)v, &n);
    if (n == 4 && strncmp(w, "none", n) == 0)
        return pg__str_puts(out, "null", err);
    return pg__str_printf(out, err, "\"%.*s\"", (int)n, w);
}

pg_status pg__metric_put_keys(pg__str *out, pg__metric *m, pg_err *err)
{
    const char *at = m->type->keys;
    one_key k;
    pg_status st = PG_OK;
    while (next_key(&at, &k)) {
        const key_kind kind = keys[k.i].kind;
        PG_TRY(pg__str_printf(out, err, ", \"%s\": ", keys[k.i].key));
        if (is_list(k.i))
            PG_TRY(put_list(out, list_of(m, k.i), kind == WHOLES, err));
        else if (kind == FLAG)
            PG_TRY(pg__str_puts(out, *number_of(m, k.i) == 1 ? "true" : "false", err));
        else if (kind == CHOICE)
            PG_TRY(put_choice(out, keys[k.i].choices, *number_of(m, k.i), err));
        else
            PG_TRY(put_number(out, *number_of(m, k.i), kind != REAL, err));
    }
done:
    return st;
}
