/* names.c - from names to losses, and from option texts to outputs. */
#include "train/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/real.h"
#include "base/str.h"
#include "base/try.h"

static const struct {
    const char *name;
    pg__loss_kind kind;
} aliases[] = {
#define PG_LOSS(name, target) {#name, PG__LOSS_##name},
#include "ops/losses.def"
#undef PG_LOSS
    {"mse", PG__LOSS_mean_squared_error},
    {"mae", PG__LOSS_mean_absolute_error},
    {"mape", PG__LOSS_mean_absolute_percentage_error},
    {"msle", PG__LOSS_mean_squared_logarithmic_error},
    {"bce", PG__LOSS_binary_crossentropy},
    {"kld", PG__LOSS_kl_divergence},
    {"kullback_leibler_divergence", PG__LOSS_kl_divergence},
    {"huber_loss", PG__LOSS_huber},
    {"cosine_proximity", PG__LOSS_cosine_similarity},
    {"jaccard_distance_loss", PG__LOSS_jaccard_distance},
};
#define N_ALIASES (sizeof aliases / sizeof *aliases)

static pg_status set_param(pg__loss_attrs *out, const char *at, const char *end, pg_err *err)
{
    const char *equals = memchr(at, '=', (size_t)(end - at));
    const size_t n = equals ? (size_t)(equals - at) : (size_t)(end - at);
    double v = 0;
    if (!equals || !pg__real_read(&v, equals + 1, (size_t)(end - equals - 1)))
        return pg_fail(err, PG_E_ARG, "loss: \"%.*s\" is not KEY=NUMBER", (int)(end - at), at);
    if ((n == 5 && strncmp(at, "delta", n) == 0) || (n == 6 && strncmp(at, "smooth", n) == 0))
        out->param = v;
    else if (n == 15 && strncmp(at, "label_smoothing", n) == 0)
        out->smoothing = v;
    else
        return pg_fail(err, PG_E_ARG, "loss: unknown key \"%.*s\" (delta, smooth, label_smoothing)",
                       (int)n, at);
    return PG_OK;
}

pg_status pg__loss_of(pg__loss_attrs *out, const char *name, size_t len, const pg__rules *rules,
                      pg_err *err)
{
    const char *colon = memchr(name, ':', len);
    const size_t n = colon ? (size_t)(colon - name) : len;
    pg_status st = PG_OK;
    for (size_t i = 0; i < N_ALIASES; i++) {
        if (!pg__same_name(name, n, aliases[i].name))
            continue;
        *out =
            (pg__loss_attrs){.kind = aliases[i].kind,
                             .bce = rules->bce_adds_epsilon ? PG__BCE_ADD_EPSILON : PG__BCE_CLIP};
        out->param = out->kind == PG__LOSS_jaccard_distance ? 100 : 1;
        if (colon)
            st = set_param(out, colon + 1, name + len, err);
        return st;
    }
    st = pg_fail(err, PG_E_ARG, "unknown loss \"%.*s\"", (int)n, name);
    for (size_t i = 0; i < N_ALIASES; i++)
        pg_err_detail(err, "%s", aliases[i].name);
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
        out[k] = named ? (pg__piece_of){equals + 1, len - (size_t)(equals + 1 - at)}
                       : (pg__piece_of){at, len};
        n++;
        at += len + (at[len] == ',');
        if (n == 1 && *at == '\0' && !named) /* one for all */
            for (size_t other = 1; other < n_outputs; other++)
                out[other] = out[0];
    }
    return PG_OK;
}
