/* names.c - finds losses by name, and assigns option texts to outputs. */
#include "train/rules/names.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/real.h"
#include "base/try.h"
#include "train/rules/settings.h"

static const struct {
    const char *name;
    pg__loss_kind kind;
} aliases[] = {
#define PG_LOSS(name, target) {#name, PG_LOSS_##name},
#include "ops/losses.def"
#undef PG_LOSS
    {"mse", PG_LOSS_mean_squared_error},
    {"mae", PG_LOSS_mean_absolute_error},
    {"mape", PG_LOSS_mean_absolute_percentage_error},
    {"msle", PG_LOSS_mean_squared_logarithmic_error},
    {"bce", PG_LOSS_binary_crossentropy},
    {"kld", PG_LOSS_kl_divergence},
    {"kullback_leibler_divergence", PG_LOSS_kl_divergence},
    {"huber_loss", PG_LOSS_huber},
    {"cosine_proximity", PG_LOSS_cosine_similarity},
    {"log_cosh_error", PG_LOSS_log_cosh}, /* the metric's class */
    {"jaccard_distance_loss", PG_LOSS_jaccard_distance},
};
#define N_ALIASES (sizeof aliases / sizeof *aliases)

#define CROSSENTROPIES                                                        \
    "binary_crossentropy categorical_crossentropy binary_focal_crossentropy " \
    "categorical_focal_crossentropy"

/* Keras' keys of losses; of: the losses that have it. */
static const struct {
    const char *key;
    size_t off;
    int is_flag;
    double usual;
    const char *of;
} keys[] = {
#define AT(field) offsetof(pg__loss_attrs, field)
    {"delta", AT(param), 0, 1, "huber"},
    {"smooth", AT(param), 0, 100, "jaccard_distance"},
    {"alpha", AT(param), 0, 0.25, "binary_focal_crossentropy categorical_focal_crossentropy"},
    {"gamma", AT(gamma), 0, 2, "binary_focal_crossentropy categorical_focal_crossentropy"},
    {"apply_class_balancing", AT(balanced), 1, 0, "binary_focal_crossentropy"},
    {"label_smoothing", AT(smoothing), 0, 0, CROSSENTROPIES},
    {"from_logits", AT(logits), 1, 0, CROSSENTROPIES " sparse_categorical_crossentropy"},
#undef AT
};
#define N_KEYS (sizeof keys / sizeof *keys)

static const char *const kinds[] = {
#define PG_LOSS(name, target) #name,
#include "ops/losses.def"
#undef PG_LOSS
};

static int has_key(pg__loss_kind kind, size_t i)
{
    const size_t n = strlen(kinds[kind]);
    for (const char *s = keys[i].of; s; s = strchr(s, ' '), s = s ? s + 1 : NULL)
        if (strncmp(s, kinds[kind], n) == 0 && (s[n] == ' ' || s[n] == '\0'))
            return 1;
    return 0;
}

static void *field_of(pg__loss_attrs *a, size_t i)
{
    return (char *)a + keys[i].off;
}

static pg_status read_reduction(pg__loss_attrs *out, pg__settings *from, pg_err *err)
{
    const char *how = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__settings_text(from, "reduction", &how, err));
    out->sums = how && strcmp(how, "sum") == 0;
    if (how && !out->sums && strcmp(how, "auto") != 0 && strcmp(how, "sum_over_batch_size") != 0)
        PG_FAIL(PG_E_UNSUPPORTED,
                "loss %s: reduction \"%s\", only sum_over_batch_size and sum are supported",
                from->name.s, PG_SHOW(how));
done:
    return st;
}

/* Keys that Keras also writes: only their default values are supported; ignore_class may be null.
 */
static pg_status read_others(pg__loss_attrs *out, pg__settings *from, pg_err *err)
{
    const char *text = NULL;
    double axis = -1, ignored = NAN;
    pg_status st = PG_OK;
    PG_TRY(pg__settings_text(from, "name", &text, err));
    PG_TRY(pg__settings_text(from, "dtype", &text, err));
    PG_TRY(pg__settings_real(from, "axis", &axis, err));
    if (axis != -1)
        PG_FAIL(PG_E_UNSUPPORTED, "loss %s: axis %s, only the last one (-1) is supported",
                from->name.s, PG_REAL(axis));
    if (out->kind == PG_LOSS_sparse_categorical_crossentropy)
        PG_TRY(pg__settings_real(from, "ignore_class", &ignored, err));
    if (isnan(ignored))
        goto done;
    if (!(fabs(ignored) < 2e9) || ignored != (double)(int32_t)ignored)
        PG_FAIL(PG_E_ARG, "loss %s: ignore_class is not a class", from->name.s);
    out->ignores = 1;
    out->ignored = (int32_t)ignored;
done:
    return st;
}

static pg_status read_keys(pg__loss_attrs *out, pg__settings *from, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < N_KEYS; i++) {
        double v = keys[i].usual;
        if (!has_key(out->kind, i))
            continue;
        if (keys[i].is_flag) {
            PG_TRY(pg__settings_flag(from, keys[i].key, field_of(out, i), err));
            continue;
        }
        PG_TRY(pg__settings_real(from, keys[i].key, &v, err));
        if (!isfinite(v))
            PG_FAIL(PG_E_ARG, "loss %s: %s is %s", from->name.s, keys[i].key, PG_REAL(v));
        *(double *)field_of(out, i) = v;
    }
    PG_TRY(read_reduction(out, from, err));
    PG_TRY(read_others(out, from, err));
    PG_TRY(pg__settings_end(from, err));
done:
    return st;
}

const char *pg__loss_name(size_t i)
{
    return i < N_ALIASES ? aliases[i].name : NULL;
}

/* Losses that Keras has and pgfit does not, with the reason for each. */
static pg_status refuse(const char *name, size_t n, pg_err *err)
{
    static const struct {
        const char *name, *why;
    } others[] = {
        {"CTC", "its targets are sequences of varying lengths"},
        {"Dice", "it is one number for the whole batch, whose rows are not processed together"},
        {"Tversky", "it is one number for the whole batch, whose rows are not processed together"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (pg__same_name(name, n, others[i].name))
            return pg_fail(err, PG_E_UNSUPPORTED, "loss %s is not supported: %s", others[i].name,
                           others[i].why);
    const char *names[N_ALIASES];
    for (size_t i = 0; i < N_ALIASES; i++)
        names[i] = aliases[i].name;
    (void)pg__fail_unknown(err, "loss", name, n, names, N_ALIASES);
    for (size_t i = 0; i < N_ALIASES; i++)
        pg_err_detail(err, "%s", aliases[i].name);
    return PG_E_ARG;
}

pg_status pg__loss_of(pg__loss_attrs *out, const char *name, size_t len, const pg__rules *rules,
                      pg_err *err)
{
    const char *colon = memchr(name, ':', len);
    const size_t n = colon ? (size_t)(colon - name) : len;
    pg__loss_attrs a = {.bce = rules->bce_adds_epsilon ? PG_BCE_ADD_EPSILON : PG_BCE_CLIP};
    pg__settings from = {.root = NULL};
    char *text = NULL;
    size_t i = 0;
    pg_status st = PG_OK;
    while (i < N_ALIASES && !pg__same_name(name, n, aliases[i].name))
        i++;
    if (i == N_ALIASES)
        return refuse(name, n, err);
    a.kind = aliases[i].kind;
    a.param = 1;
    text = pg__mem_strndup(name, len);
    if (!text)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__settings_colons(&from, text, err));
    PG_TRY(read_keys(&a, &from, err));
    *out = a;
done:
    pg__settings_fini(&from);
    pg__mem_free(text);
    return st;
}

const char *pg__loss_class(pg__loss_kind kind, char *room, size_t cap)
{
    size_t n = 0;
    int up = 1;
    if (kind == PG_LOSS_kl_divergence)
        return "KLDivergence";
    for (const char *s = kinds[kind]; *s && n + 1 < cap; s++) {
        if (*s != '_')
            room[n++] = (char)(up ? toupper((unsigned char)*s) : *s);
        up = *s == '_';
    }
    room[n] = '\0';
    return room;
}

int pg__loss_is_plain(const pg__loss_attrs *a)
{
    pg__loss_attrs own = *a;
    for (size_t i = 0; i < N_KEYS; i++)
        if (has_key(a->kind, i) &&
            (keys[i].is_flag ? *(int *)field_of(&own, i) != 0
                             : *(double *)field_of(&own, i) != keys[i].usual))
            return 0;
    return !a->sums && !a->ignores;
}

pg_status pg__loss_put_keys(pg__str *out, const pg__loss_attrs *a, int with_reduction, pg_err *err)
{
    pg__loss_attrs own = *a;
    pg_status st = PG_OK;
    for (size_t i = 0; i < N_KEYS; i++) {
        const char *key = keys[i].key;
        if (has_key(a->kind, i) && keys[i].is_flag && *(int *)field_of(&own, i) != 0)
            PG_TRY(pg__str_printf(out, err, ", \"%s\": true", key));
        else if (has_key(a->kind, i) && !keys[i].is_flag &&
                 *(double *)field_of(&own, i) != keys[i].usual)
            PG_TRY(pg__str_printf(out, err, ", \"%s\": %s", key,
                                  PG_REAL32(*(double *)field_of(&own, i))));
    }
    if (a->ignores)
        PG_TRY(pg__str_printf(out, err, ", \"ignore_class\": %ld", (long)a->ignored));
    if (a->sums && with_reduction)
        PG_TRY(pg__str_puts(out, ", \"reduction\": \"sum\"", err));
done:
    return st;
}

static size_t find_output(const char *const *names, size_t n, const char *name, size_t len)
{
    for (size_t k = 0; k < n; k++)
        if (strlen(names[k]) == len && strncmp(names[k], name, len) == 0)
            return k;
    return SIZE_MAX;
}

pg_status pg__per_output(pg__piece_of *out, size_t n_outputs, const char *const *output_names,
                         const char *what, const char *text, pg_err *err)
{
    const char *at = text;
    size_t n = 0;
    for (size_t k = 0; k < n_outputs; k++)
        out[k] = (pg__piece_of){0};
    while (at && *at != '\0') {
        const size_t len = strcspn(at, ",");
        const char *colon = memchr(at, ':', len), *equals = memchr(at, '=', len);
        const int named = equals && (!colon || equals < colon);
        const size_t k =
            named ? find_output(output_names, n_outputs, at, (size_t)(equals - at)) : n;
        if (named && k == SIZE_MAX)
            return pg_fail(err, PG_E_ARG, "%s: the model has no output \"%.*s\"", what,
                           (int)(equals - at), at);
        if (k >= n_outputs)
            return pg_fail(err, PG_E_ARG, "%s: \"%s\" names more than the model's %zu outputs",
                           what, PG_SHOW(text), n_outputs);
        if (out[k].s)
            return pg_fail(err, PG_E_ARG, "%s: \"%s\" names output \"%s\" twice", what,
                           PG_SHOW(text), PG_SHOW(output_names[k]));
        out[k] = named ? (pg__piece_of){equals + 1, len - (size_t)(equals + 1 - at)}
                       : (pg__piece_of){at, len};
        n++;
        at += len + (at[len] == ',');
        if (n == 1 && *at == '\0' && !named) /* one for all outputs */
            for (size_t other = 1; other < n_outputs; other++)
                out[other] = out[0];
    }
    return PG_OK;
}
