/* optimizer.c - converts the optimizer of a training configuration for the other Keras. In Keras 3
 * lr is learning_rate, all numbers must have a decimal point, decay is a schedule, and an unknown
 * parameter is an error. Formulas were compared in Keras 2.15 and 3.6: SGD, Adam, Adamax and
 * Adadelta step alike; of the older optimizers, RMSprop and Adagrad add epsilon elsewhere, and
 * every Nadam of Keras 2 has another schedule. For Keras 2 they become those of Keras 2.11 and
 * later, which have the parameters of Keras 3 but for two of its own. */
#include <string.h>
#include <strings.h>

#include "base/try.h"
#include "wrap/dialect/dialect.h"

typedef struct parameters {
    const char *class_name, *keys[6];
    const char *otherwise; /* how Keras 3 differs from the optimizers of Keras 2.10 and earlier;
                              Nadam: and they from it */
} parameters;

static const parameters known[] = {
    {"SGD", {"momentum", "nesterov"}, NULL},
    {"RMSprop", {"rho", "momentum", "epsilon", "centered"}, "adds epsilon before taking the root"},
    {"Adam", {"beta_1", "beta_2", "epsilon", "amsgrad"}, NULL},
    {"AdamW", {"beta_1", "beta_2", "epsilon", "amsgrad"}, NULL},
    {"Adagrad", {"initial_accumulator_value", "epsilon"}, "adds epsilon before taking the root"},
    {"Adadelta", {"rho", "epsilon"}, NULL},
    {"Adamax", {"beta_1", "beta_2", "epsilon"}, NULL},
    {"Nadam", {"beta_1", "beta_2", "epsilon"}, "has another schedule of the momentum"},
    {"Lion", {"beta_1", "beta_2"}, NULL},
    {"Adafactor",
     {"beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold", "relative_step"},
     NULL},
};

/* Parameters that all optimizers of Keras 3 accept, and keys without meaning that are not
 * parameters there. */
static const char *const common[] = {"name",         "weight_decay",           "clipnorm",
                                     "clipvalue",    "global_clipnorm",        "use_ema",
                                     "ema_momentum", "ema_overwrite_frequency"};
static const char *const idle[] = {"jit_compile", "is_legacy_optimizer"};

/* The classes of keras.optimizers.schedules in Keras 2.15 and 3. */
static const char *const schedules[] = {"CosineDecay",      "CosineDecayRestarts",
                                        "ExponentialDecay", "InverseTimeDecay",
                                        "PolynomialDecay",  "PiecewiseConstantDecay"};

typedef struct translating {
    const char *text;
    pg__json_span config;
    const parameters *of;
    int keras; /* for which it is: 2 or 3 */
    pg__str *out;
    pg_err *err;
} translating;

static int is_key(const translating *t, const char *key)
{
    for (size_t i = 0; i < sizeof t->of->keys / sizeof *t->of->keys && t->of->keys[i]; i++)
        if (strcmp(t->of->keys[i], key) == 0)
            return 1;
    return PG_IS_ANY(key, common);
}

static const parameters *find(const char *class_name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i].class_name, class_name) == 0)
            return &known[i];
    return NULL;
}

/* A number as written, but with a decimal point: Keras 3 checks that it is a float. */
static pg_status add_value(const translating *t, const char *key, pg__json_span v)
{
    pg_status st = PG_OK;
    const char *s = t->text + v.off;
    const int whole =
        strspn(s, "-0123456789") == v.n && strcmp(key, "ema_overwrite_frequency") != 0;
    const int first = t->out->s[t->out->n - 1] == '{';
    PG_TRY(pg__str_printf(t->out, t->err, "%s\"%s\": ", first ? "" : ", ", key));
    PG_TRY(pg__str_add(t->out, s, v.n, t->err));
    PG_TRY(pg__str_puts(t->out, whole ? ".0" : "", t->err));
done:
    return st;
}

static int is_zero(const char *text, pg__json_span v)
{
    return pg__json_is_null(text, v) || strspn(text + v.off, "-0.") >= v.n;
}

/* A schedule of the file, without its nulls. *can: 0 if it is not Keras' own: a user's schedule may
 * have the name of one of Keras', but never the module. */
static pg_status add_schedule(pg__strs *notes, const translating *t, pg__json_span v, int *can,
                              pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    const char *text = t->text;
    const pg__json_span class_name = pg__json_member(text, v, "class_name"),
                        config = pg__json_member(text, v, "config"),
                        module = pg__json_member(text, v, "module");
    if (class_name.n && text[class_name.off] == '"')
        PG_TRY(pg__json_unquote(&name, text, class_name, err));
    *can = name.n && config.n && text[config.off] == '{' && PG_IS_ANY(name.s, schedules) &&
           (!module.n || pg__json_is_text(text, module, "keras.optimizers.schedules"));
    if (!*can) {
        PG_TRY(pg__strs_printf(notes, err,
                               "learning rate dropped, %s uses its default: %s is not a learning "
                               "rate schedule of Keras %d",
                               t->of->class_name,
                               name.n ? PG_SHOW(name.s) : "an object without a class", t->keras));
        goto done;
    }
    PG_TRY(pg__str_printf(t->out, err, "\"class_name\": \"%s\", \"config\": {", name.s));
    pg__json_walk w = pg__json_walk_of(text, config);
    for (int some = 0; pg__json_walk_next(&w);) { /* it does not accept a null name */
        if (pg__json_is_null(text, w.value))
            continue;
        PG_TRY(pg__str_puts(t->out, some ? ", " : "", err));
        PG_TRY(pg__str_add(t->out, text + w.key.off, w.value.off + w.value.n - w.key.off, err));
        some = 1;
    }
    PG_TRY(pg__str_puts(t->out, "}", err));
done:
    pg__str_fini(&name);
    return st;
}

/* lr / (1 + decay * iterations) is Keras 3's InverseTimeDecay of steps of one update. An existing
 * schedule is an object, to which .keras adds a module. */
static pg_status add_rate(pg__strs *notes, const translating *t, int *can, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str rate = {0};
    const char *text = t->text;
    const pg__json_span lr = pg__json_member(text, t->config, "lr"),
                        named = pg__json_member(text, t->config, "learning_rate"),
                        decay = pg__json_member(text, t->config, "decay"), v = named.n ? named : lr;
    const int decays = decay.n && !is_zero(text, decay) && strcmp(t->of->class_name, "Nadam") != 0;
    const translating number = {text, t->config, t->of, t->keras, &rate, err};
    if (!v.n) { /* Keras' default, which depends on the release */
        if (decays)
            st =
                pg__strs_printf(notes, err, "decay dropped from %s: there is no lr that it divides",
                                t->of->class_name);
        goto done;
    }
    if (text[v.off] != '{' && !decays)
        return add_value(t, "learning_rate", v);
    if (text[v.off] == '{' && decays) {
        *can = 0;
        goto done;
    }
    PG_TRY(pg__str_puts(&rate, "{\"module\": \"keras.optimizers.schedules\", ", err));
    if (decays) {
        PG_TRY(pg__str_puts(&rate, "\"class_name\": \"InverseTimeDecay\", \"config\": {", err));
        PG_TRY(add_value(&number, "initial_learning_rate", v));
        PG_TRY(pg__str_puts(&rate, ", \"decay_steps\": 1", err));
        PG_TRY(add_value(&number, "decay_rate", decay));
        PG_TRY(pg__str_puts(&rate, ", \"staircase\": false}", err));
    } else {
        int is_known = 0;
        PG_TRY(add_schedule(notes, &number, v, &is_known, err));
        if (!is_known)
            goto done;
    }
    PG_TRY(pg__str_puts(&rate, ", \"registered_name\": null}", err));
    PG_TRY(pg__str_printf(t->out, err, "%s\"learning_rate\": %s",
                          t->out->s[t->out->n - 1] == '{' ? "" : ", ", rate.s));
done:
    pg__str_fini(&rate);
    return st;
}

/* All other parameters; notes name those that Keras 3 does not have. */
static pg_status add_config(pg__strs *notes, const translating *t, int *can, pg_err *err)
{
    static const char *const rates[] = {"lr", "learning_rate", "decay", "schedule_decay"};
    pg_status st = PG_OK;
    pg__str key = {0};
    size_t n_clips = 0;
    pg__json_walk w = pg__json_walk_of(t->text, t->config);
    PG_TRY(pg__str_puts(t->out, "{", err));
    while (pg__json_walk_next(&w)) {
        key.n = 0;
        PG_TRY(pg__json_unquote(&key, t->text, w.key, err));
        const int unset = pg__json_is_null(t->text, w.value);
        n_clips += !unset && strstr(key.s, "clip") != NULL;
        if (unset || PG_IS_ANY(key.s, rates) || PG_IS_ANY(key.s, idle))
            continue;
        if (is_key(t, key.s))
            PG_TRY(add_value(t, key.s, w.value));
        else
            PG_TRY(pg__strs_printf(notes, err, "%s dropped from %s: Keras %d has no such parameter",
                                   PG_SHOW(key.s), t->of->class_name, t->keras));
    }
    *can = n_clips < 2; /* Keras 3 accepts only one */
    if (*can)
        PG_TRY(add_rate(notes, t, can, err));
    PG_TRY(pg__str_puts(t->out, "}", err));
done:
    pg__str_fini(&key);
    return st;
}

int pg__optimizer_takes_3(const char *class_name, const char *key)
{
    static const char *const also[] = {"learning_rate", "decay", "loss_scale_factor",
                                       "gradient_accumulation_steps"};
    const translating t = {.of = find(class_name)};
    if (!t.of || !key)
        return key || t.of;
    return is_key(&t, key) || PG_IS_ANY(key, also);
}

pg_status pg__optimizer_to_3(pg__str *out, pg__strs *notes, const char *text, pg__json_span s,
                             pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0}, config = {0};
    int can = 0;
    translating t = {text, pg__json_member(text, s, "config"), NULL, 3, &config, err};
    const pg__json_span class_name = pg__json_member(text, s, "class_name"),
                        module = pg__json_member(text, s, "module");
    if (!class_name.n || text[class_name.off] != '"' || !t.config.n || text[t.config.off] != '{')
        goto done;
    PG_TRY(pg__json_unquote(&name, text, class_name, err));
    const int named = strncmp(name.s, "Custom>", 7) == 0;
    const int later = named || pg__json_is_text(text, module, "keras.optimizers");
    t.of = find(name.s + (named ? 7 : 0));
    if (!t.of)
        goto done;
    PG_TRY(add_config(notes, &t, &can, err));
    if (!can)
        goto done;
    if (t.of->otherwise && (!later || strcmp(t.of->class_name, "Nadam") == 0))
        PG_TRY(pg__strs_printf(notes, err, "%s steps differently: Keras 3 %s", t.of->class_name,
                               t.of->otherwise));
    PG_TRY(pg__str_printf(out, err,
                          "{\"module\": \"keras.optimizers\", \"class_name\": \"%s\", \"config\": "
                          "%s, \"registered_name\": null}",
                          t.of->class_name, config.s));
done:
    pg__str_fini(&name);
    pg__str_fini(&config);
    return st;
}

pg_status pg__optimizer_to_2(pg__str *out, pg__strs *notes, const char *text, pg__json_span s,
                             int zip, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str name = {0}, config = {0};
    int can = 0;
    translating t = {text, pg__json_member(text, s, "config"), NULL, 2, &config, err};
    const pg__json_span class_name = pg__json_member(text, s, "class_name"),
                        module = pg__json_member(text, s, "module"),
                        custom = pg__json_member(text, s, "registered_name");
    if (!class_name.n || text[class_name.off] != '"' || !t.config.n || text[t.config.off] != '{' ||
        (module.n && !pg__json_is_text(text, module, "keras.optimizers")) ||
        !pg__json_is_null(text, custom))
        goto done;
    PG_TRY(pg__json_unquote(&name, text, class_name, err));
    t.of = find(name.s);
    if (!t.of)
        goto done;
    PG_TRY(add_config(notes, &t, &can, err));
    if (!can)
        goto done;
    if (strcmp(t.of->class_name, "Nadam") == 0)
        PG_TRY(pg__strs_printf(notes, err, "Nadam steps differently: Keras 2 %s", t.of->otherwise));
    PG_TRY(pg__str_printf(out, err,
                          zip ? "{\"module\": \"keras.optimizers\", \"class_name\": \"%s\""
                              : "{\"class_name\": \"Custom>%s\"",
                          t.of->class_name));
    PG_TRY(pg__str_printf(out, err, ", \"config\": %s%s}", config.s,
                          zip ? ", \"registered_name\": null" : ""));
done:
    pg__str_fini(&name);
    pg__str_fini(&config);
    return st;
}
