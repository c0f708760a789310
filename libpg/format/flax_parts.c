/* flax_parts.c - which arrays of a tree are the model's, by the names that libraries on top of JAX
 * give to the rest. */
#include <string.h>

#include "base/str.h"
#include "base/try.h"
#include "format/flax.h"
#include "store/part_name.h"

#define MAX_ASKED 8u

/* Does a name have such a component, or one that begins with it if the word ends in '*'? */
static int has_word(const char *name, const char *word)
{
    const size_t n = strcspn(word, "*");
    for (const char *at = name; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, word, n) == 0 && (word[n] || !at[n] || at[n] == '/'))
            return 1;
    }
    return 0;
}

/* Optimizers of Optax (TrainState), of flax.optim, which kept the model as "target", and of T5X and
 * Pax; counters of steps beside the model. */
static int is_training(const char *name)
{
    static const char *const words[] = {"opt_state*", "optimizer_state", "param_states"};
    static const char *const counters[] = {"step", "step/value", "state/step", "train_state/step",
                                           "optimizer/step/value"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(name, words[i]))
            return 1;
    return strncmp(name, "optimizer/state/", 16) == 0 || PG_IS_ANY(name, counters);
}

static int is_below(const char *name, const char *part)
{
    const size_t n = strlen(part);
    return strncmp(name, part, n) == 0 && (name[n] == '/' || !name[n]);
}

int pg__flax_wants(const char *name, const char *part)
{
    if (!part || !*part)
        return is_training(name) ? 2 : 1;
    return strcmp(part, ".") == 0 || is_below(name, part);
}

pg_status pg__flax_part_of(const char **out, pg__strs *there, const char *part, size_t n,
                           pg__flax_name name, const void *ctx, pg_err *err)
{
    *out = part;
    if (!part || !*part)
        return PG_OK;
    for (size_t i = 0; i < n; i++)
        if (pg__flax_wants(name(ctx, i), part))
            return PG_OK;
    for (size_t i = 0; i < n; i++) {
        const pg_status st = pg__part_note(there, name(ctx, i), strcspn(name(ctx, i), "/"), err);
        if (st != PG_OK)
            return st;
    }
    return pg__part_meant(out, part, there, err);
}

/* The path of a moving average of the model in a name, "ema_params": its length, and that of what
 * precedes the word; 0. */
static size_t average_in(const char *name, size_t *before)
{
    static const char *const words[] = {"ema_params", "params_ema", "ema", "ema_state",
                                        "avg_params"};
    for (const char *at = name; at; at = strchr(at, '/')) {
        at += *at == '/';
        const size_t n = strcspn(at, "/");
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == n && strncmp(at, words[i], n) == 0) {
                *before = (size_t)(at - name);
                return *before + n;
            }
    }
    return 0;
}

/* What precedes "/params" in a name, or 0: a model of its own. */
static size_t model_in(const char *name)
{
    const char *at = strstr(name, "/params/");
    return at ? (size_t)(at - name) : 0;
}

/* Several trees that each have "params" are several models: {"gen": {"params"}, "disc": {...}}. */
static pg_status check_trees(const pg_store *s, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs models = {0};
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const char *name = pg_store_weight(s, i)->name;
        if (model_in(name))
            PG_TRY(pg__part_note(&models, name, model_in(name), err));
    }
    if (models.n < 2)
        goto done;
    st = pg_fail(err, PG_E_AMBIGUOUS, "%zu parts could be the model", models.n);
    for (size_t i = 0; i < models.n && i < MAX_ASKED; i++)
        pg_err_detail(err, "%s", PG_SHOW(models.v[i]));
    pg_err_do(err, PG_DO_CHOOSE_PART, NULL);
    pg_err_arg(err, "part", "%s", models.v[pg__part_likely(&models)]);
done:
    pg__strs_fini(&models);
    return st;
}

pg_status pg__flax_one_model(const pg_store *s, pg_err *err)
{
    pg_status st = check_trees(s, err);
    size_t n = 0, before = 0;
    const char *average = NULL;
    pg__str params = {0}, other = {0};
    for (size_t i = 0; !n && i < pg_store_n_weights(s); i++)
        n = average_in(average = pg_store_weight(s, i)->name, &before);
    if (st != PG_OK || !n)
        return st;
    PG_TRY(pg__str_add(&params, average, before, err));
    PG_TRY(pg__str_puts(&params, "params", err));
    PG_TRY(pg__str_add(&other, average, n, err));
    for (size_t i = 0; st == PG_OK && i < pg_store_n_weights(s); i++)
        if (is_below(pg_store_weight(s, i)->name, params.s)) {
            st = pg_fail(err, PG_E_AMBIGUOUS, "two parts could be the model");
            pg_err_detail(err, "%s", PG_SHOW(params.s));
            pg_err_detail(err, "%s", PG_SHOW(other.s));
            pg_err_do(err, PG_DO_CHOOSE_PART, NULL);
            pg_err_arg(err, "part", "%s", params.s);
        }
done:
    pg__str_fini(&params);
    pg__str_fini(&other);
    return st;
}
