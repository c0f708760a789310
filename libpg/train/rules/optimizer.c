/* optimizer.c - optimizers by Keras' names and config keys, and the numbers of each step. Sources:
 * keras/optimizers and keras/optimizers/legacy of 2.15; standalone Keras 2.0.9 and 2.3.1. */
#include "train/rules/optimizer.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "base/real.h"
#include "base/try.h"

/* Keras' keys and their members; `is_flag` for booleans; `of`: the optimizers that have the key,
 * NULL: all. */
static const struct {
    const char *key;
    size_t off;
    int is_flag;
    const char *of;
} keys[] = {
#define NUMBER(key, field, of)                     \
    {                                              \
        key, offsetof(pg__optimizer, field), 0, of \
    }
#define FLAG(key, field, of)                       \
    {                                              \
        key, offsetof(pg__optimizer, field), 1, of \
    }
    NUMBER("learning_rate", lr, NULL),
    NUMBER("lr", lr, NULL),
    NUMBER("decay", decay, NULL),
    NUMBER("momentum", momentum, "SGD RMSprop"),
    NUMBER("rho", rho, "RMSprop Adadelta"),
    NUMBER("beta_1", beta_1, "Adam AdamW Adamax Nadam Lion"),
    NUMBER("beta_2", beta_2, "Adam AdamW Adamax Nadam Lion"),
    NUMBER("epsilon", epsilon, "RMSprop Adam AdamW Adagrad Adadelta Adamax Nadam"),
    NUMBER("weight_decay", weight_decay, NULL),
    NUMBER("initial_accumulator_value", initial_accumulator, "Adagrad Ftrl"),
    NUMBER("learning_rate_power", lr_power, "Ftrl"),
    NUMBER("l1_regularization_strength", l1, "Ftrl"),
    NUMBER("l2_regularization_strength", l2, "Ftrl"),
    NUMBER("l2_shrinkage_regularization_strength", l2_shrinkage, "Ftrl"),
    NUMBER("beta", beta, "Ftrl"),
    NUMBER("clipnorm", clipnorm, NULL),
    NUMBER("global_clipnorm", global_clipnorm, NULL),
    NUMBER("clipvalue", clipvalue, NULL),
    NUMBER("schedule_decay", nadam_decay, "Nadam"),
    NUMBER("ema_momentum", ema_momentum, NULL),
    NUMBER("ema_overwrite_frequency", ema_frequency, NULL),
    FLAG("use_ema", use_ema, NULL),
    FLAG("nesterov", nesterov, "SGD"),
    FLAG("amsgrad", amsgrad, "Adam AdamW"),
    FLAG("centered", centered, "RMSprop"),
#undef NUMBER
#undef FLAG
};
#define N_KEYS (sizeof keys / sizeof *keys)

/* Keras' defaults; old_lr: of standalone Keras 2.0 to 2.3. */
static const struct {
    const char *name;
    double lr, old_lr, rho, beta_2, weight_decay, accumulator, old_accumulator;
} known[] = {
    {"SGD", 0.01, 0.01, 0, 0, 0, 0, 0},          {"RMSprop", 0.001, 0.001, 0.9, 0, 0, 0, 0},
    {"Adam", 0.001, 0.001, 0, 0.999, 0, 0, 0},   {"AdamW", 0.001, 0.001, 0, 0.999, 0.004, 0, 0},
    {"Adagrad", 0.001, 0.01, 0, 0, 0, 0.1, 0},   {"Adadelta", 0.001, 1.0, 0.95, 0, 0, 0, 0},
    {"Adamax", 0.001, 0.002, 0, 0.999, 0, 0, 0}, {"Nadam", 0.001, 0.002, 0, 0.999, 0, 0, 0},
    {"Lion", 0.0001, 0.0001, 0, 0.99, 0, 0, 0},  {"Ftrl", 0.001, 0.001, 0, 0, 0, 0.1, 0.1},
};
#define N_KNOWN (sizeof known / sizeof *known)

static double as_float(double v)
{
    return (float)v;
}

/* Two of Keras' optimizers use norms of whole variables, which our element-wise rules do not have.
 */
static pg_status refuse_name(const char *name, size_t len, pg_err *err)
{
    static const char *const whole[] = {"Adafactor", "Lamb"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strlen(whole[i]) == len && strncasecmp(name, whole[i], len) == 0)
            return pg_fail(
                err, PG_E_UNSUPPORTED,
                "optimizer %s is not supported: its steps depend on norms of whole variables",
                whole[i]);
    const char *names[N_KNOWN];
    for (size_t i = 0; i < N_KNOWN; i++)
        names[i] = known[i].name;
    (void)pg__fail_unknown(err, "optimizer", name, len, names, N_KNOWN);
    pg_err_detail(err,
                  "known: SGD, RMSprop, Adam, AdamW, Adagrad, Adadelta, Adamax, Nadam, Lion, Ftrl");
    return PG_E_ARG;
}

static pg_status set_defaults(pg__optimizer *o, const char *name, size_t len,
                              const pg__rules *rules, int legacy, pg_err *err)
{
    const int standalone = rules->clip_all_together; /* 2.0 to 2.3 */
    for (size_t i = 0; i < N_KNOWN; i++) {
        if (strlen(known[i].name) != len || strncasecmp(name, known[i].name, len) != 0)
            continue;
        *o = (pg__optimizer){.name = known[i].name,
                             .legacy = legacy < 0 ? !rules->new_optimizers : legacy,
                             .lr = standalone ? known[i].old_lr : known[i].lr,
                             .rho = known[i].rho,
                             .beta_1 = 0.9,
                             .beta_2 = known[i].beta_2,
                             .epsilon = rules->epsilon,
                             .weight_decay = known[i].weight_decay,
                             .initial_accumulator =
                                 standalone ? known[i].old_accumulator : known[i].accumulator,
                             .lr_power = -0.5,
                             .ema_momentum = 0.99,
                             .first_is_average = rules->keras3,
                             .nadam_decay = 0.004,
                             .nadam_product = 1};
        if (strcmp(o->name, "Lion") == 0) { /* it has no legacy version */
            o->legacy = 0;
            o->lr = rules->keras3 ? 0.001 : o->lr;
        }
        return PG_OK;
    }
    return refuse_name(name, len, err);
}

/* Does this optimizer have key i? */
static int has_key(const pg__optimizer *o, size_t i)
{
    const size_t n = strlen(o->name);
    for (const char *s = keys[i].of; s; s = strchr(s, ' '), s = s ? s + 1 : NULL)
        if (strncmp(s, o->name, n) == 0 && (s[n] == ' ' || s[n] == '\0'))
            return 1;
    return keys[i].of == NULL;
}

static pg_status refuse_key(const pg__optimizer *o, const char *key, size_t len, pg_err *err)
{
    const char *own[N_KEYS];
    size_t n = 0;
    for (size_t i = 0; i < N_KEYS; i++)
        if (has_key(o, i))
            own[n++] = keys[i].key;
    const char *near = pg__nearest_spelt(key, len, own, n);
    (void)pg_fail(err, PG_E_ARG, "optimizer %s has no \"%.*s\"%s%s%s", o->name, (int)len, key,
                  near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return pg__list_known(err, PG_E_ARG, own, n);
}

static pg_status set_key(pg__optimizer *o, const char *key, size_t len, double v, pg_err *err)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        if (strlen(keys[i].key) != len || strncmp(key, keys[i].key, len) != 0 || !has_key(o, i))
            continue;
        void *field = (char *)o + keys[i].off;
        if (keys[i].is_flag)
            *(int *)field = v != 0;
        else
            *(double *)field = v;
        return PG_OK;
    }
    return refuse_key(o, key, len, err);
}

/* Keras' files have keys that mean nothing here, but never a mistyped key or one of another
 * optimizer. */
static int is_mistake(const char *key)
{
    const char *names[N_KEYS];
    for (size_t i = 0; i < N_KEYS; i++)
        names[i] = keys[i].key;
    return pg__nearest(key, names, N_KEYS) != NULL;
}

/* Up to 2.10 all numbers are float32 variables, later only the learning rate. */
static void round_numbers(pg__optimizer *o)
{
    o->lr = as_float(o->lr);
    for (size_t i = 0; o->legacy && i < N_KEYS; i++)
        if (!keys[i].is_flag) {
            double *field = (double *)(void *)((char *)o + keys[i].off);
            *field = as_float(*field);
        }
}

/* Refuses invalid settings of the moving average. */
static pg_status check_average(const pg__optimizer *o, pg_err *err)
{
    if (!(o->ema_momentum >= 0 && o->ema_momentum <= 1))
        return pg_fail(err, PG_E_ARG, "optimizer %s: ema_momentum must lie between 0 and 1",
                       o->name);
    if (!(o->ema_frequency >= 0 && o->ema_frequency < 1e15) ||
        o->ema_frequency != trunc(o->ema_frequency))
        return pg_fail(err, PG_E_ARG,
                       "optimizer %s: ema_overwrite_frequency is not a number of steps", o->name);
    return PG_OK;
}

static pg_status check_ftrl(const pg__optimizer *o, pg_err *err)
{
    if (strcmp(o->name, "Ftrl") != 0)
        return PG_OK;
    if (!(o->lr_power <= 0))
        return pg_fail(err, PG_E_ARG, "optimizer Ftrl: learning_rate_power must not be above 0");
    if (!(o->initial_accumulator >= 0 && o->l1 >= 0 && o->l2 >= 0 && o->l2_shrinkage >= 0))
        return pg_fail(err, PG_E_ARG,
                       "optimizer Ftrl: l1, l2, l2_shrinkage and initial_accumulator_value must "
                       "not be negative");
    if (!(o->lr > 0))
        return pg_fail(err, PG_E_ARG, "optimizer Ftrl: the learning rate must be above 0");
    return PG_OK;
}

static pg_status check(pg__optimizer *o, pg_err *err)
{
    pg_status st = PG_OK;
    if (!(o->lr >= 0) || !isfinite(o->lr))
        return pg_fail(err, PG_E_ARG,
                       "optimizer %s: the learning rate must be finite and not negative, not %g",
                       o->name, o->lr);
    if (!(o->beta_1 >= 0 && o->beta_1 < 1 && o->beta_2 >= 0 && o->beta_2 < 1))
        return pg_fail(err, PG_E_ARG, "optimizer %s: beta_1 and beta_2 must lie between 0 and 1",
                       o->name);
    if (!(o->momentum >= 0 && o->momentum <= 1))
        return pg_fail(err, PG_E_ARG, "optimizer %s: momentum must lie between 0 and 1", o->name);
    if (!(o->epsilon >= 0))
        return pg_fail(err, PG_E_ARG, "optimizer %s: epsilon must not be negative", o->name);
    if (!(o->weight_decay >= 0))
        return pg_fail(err, PG_E_ARG, "optimizer %s: weight_decay must not be negative", o->name);
    if (o->decay > 0)
        o->legacy = 1;
    if (o->legacy && (o->use_ema || (o->weight_decay > 0 && strcmp(o->name, "AdamW") != 0)))
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "optimizer %s: by the rules of Keras to 2.10 it has no %s", o->name,
                       o->use_ema ? "use_ema" : "weight_decay");
    PG_TRY(check_average(o, err));
    PG_TRY(check_ftrl(o, err));
    round_numbers(o);
done:
    return st;
}

static pg_status read_value(double *out, const char *at, const char *end, pg_err *err)
{
    const size_t n = (size_t)(end - at);
    if (pg__same_name(at, n, "true") || pg__same_name(at, n, "false")) {
        *out = n == strlen("true");
        return PG_OK;
    }
    if (!pg__real_read(out, at, n))
        return pg_fail(err, PG_E_ARG, "optimizer: \"%.*s\" is not a number", (int)n, at);
    return PG_OK;
}

pg_status pg__optimizer_parse(pg__optimizer *out, const char *text, const pg__rules *rules,
                              int legacy, pg_err *err)
{
    const char *at = strchr(text, ':');
    const size_t len = at ? (size_t)(at - text) : strlen(text);
    pg_status st = PG_OK;
    PG_TRY(set_defaults(out, text, len, rules, legacy, err));
    while (at && *at != '\0') {
        const char *key = at + 1, *end = key + strcspn(key, ",");
        const char *equals = memchr(key, '=', (size_t)(end - key));
        double v = 1; /* "nesterov" alone */
        if (equals)
            PG_TRY(read_value(&v, equals + 1, end, err));
        PG_TRY(set_key(out, key, (size_t)((equals ? equals : end) - key), v, err));
        at = end;
    }
    PG_TRY(check(out, err));
done:
    return st;
}

static pg_status refuse_value(const pg__optimizer *o, const char *key, const pg__json *v,
                              const char *want, pg_err *err)
{
    const pg__json_type type = pg__json_type_of(v);
    const char *text = pg__json_str(v);
    double number = 0;
    if (text)
        return pg_fail(err, PG_E_ARG, "optimizer %s: %s is the text \"%s\"; it takes %s", o->name,
                       key, PG_SHOW(text), want);
    if (pg__json_num(v, &number))
        return pg_fail(err, PG_E_ARG, "optimizer %s: %s is %s; it takes %s", o->name, key,
                       PG_REAL(number), want);
    return pg_fail(err, PG_E_ARG, "optimizer %s: %s is %s; it takes %s", o->name, key,
                   type == PG_J_ARRAY    ? "a list"
                   : type == PG_J_OBJECT ? "an object"
                   : pg__json_bool(v, 0) ? "true"
                                         : "false",
                   want);
}

/* null means Keras' default. An object as learning rate is a schedule, which is read elsewhere; a
 * flag may be 0 or 1, as in Python. */
static pg_status read_key(pg__optimizer *o, size_t i, const pg__json *v, pg_err *err)
{
    const pg__json_type type = pg__json_type_of(v);
    const char *key = keys[i].key;
    double number = 0;
    if (type == PG_J_NULL || (type == PG_J_OBJECT && strcmp(key, "learning_rate") == 0))
        return PG_OK;
    if (keys[i].is_flag && type == PG_J_BOOL)
        number = pg__json_bool(v, 0);
    else if (!pg__json_num(v, &number) || (keys[i].is_flag && number != 0 && number != 1))
        return refuse_value(o, key, v, keys[i].is_flag ? "true or false" : "a number", err);
    return set_key(o, key, strlen(key), number, err);
}

/* A member of Keras' config. */
static pg_status read_member(pg__optimizer *o, const char *key, size_t len, const pg__json *v,
                             pg_err *err)
{
    const pg__json_type type = pg__json_type_of(v);
    double steps = 1;
    if (strcmp(key, "gradient_accumulation_steps") == 0 && pg__json_num(v, &steps) && steps != 1) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "optimizer %s: gradient_accumulation_steps is not supported", o->name);
        pg_err_set(err, "accumulate", "%.0f", steps);
        return PG_E_UNSUPPORTED;
    }
    for (size_t i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].key, key) == 0 && has_key(o, i))
            return read_key(o, i, v, err);
    if ((type == PG_J_BOOL || type == PG_J_INT || type == PG_J_REAL) && is_mistake(key))
        return refuse_key(o, key, len, err);
    return PG_OK;
}

pg_status pg__optimizer_of_json(pg__optimizer *out, const pg__json *j, const pg__rules *rules,
                                int legacy, pg_err *err)
{
    const char *name = pg__json_get_str(j, "class_name");
    pg__json_iter it = {.obj = pg__json_get(j, "config")};
    pg_status st = PG_OK;
    if (!name)
        PG_FAIL(PG_E_FORMAT, "the optimizer's config has no \"class_name\"");
    PG_TRY(set_defaults(out, name, strlen(name), rules, legacy, err));
    if (it.obj && pg__json_type_of(it.obj) != PG_J_NULL && pg__json_type_of(it.obj) != PG_J_OBJECT)
        PG_TRY(refuse_value(out, "config", it.obj, "an object", err));
    while (pg__json_next(&it))
        PG_TRY(read_member(out, it.key, it.key_len, it.value, err));
    PG_TRY(check(out, err));
done:
    return st;
}

static int is(const pg__optimizer *o, const char *name)
{
    return strcmp(o->name, name) == 0;
}

pg__optimizer_kind pg__optimizer_kind_of(const pg__optimizer *o)
{
    if (is(o, "RMSprop"))
        return o->legacy ? PG_OPT_rmsprop_legacy : PG_OPT_rmsprop;
    if (is(o, "Adam") || is(o, "AdamW"))
        return PG_OPT_adam;
    if (is(o, "Adagrad"))
        return o->legacy ? PG_OPT_adagrad_legacy : PG_OPT_adagrad;
    if (is(o, "Adadelta"))
        return PG_OPT_adadelta;
    if (is(o, "Adamax"))
        return PG_OPT_adamax;
    if (is(o, "Nadam"))
        return PG_OPT_nadam;
    if (is(o, "Lion"))
        return PG_OPT_lion;
    if (is(o, "Ftrl"))
        return PG_OPT_ftrl;
    return o->momentum > 0 ? PG_OPT_sgd_momentum : PG_OPT_sgd;
}

int pg__optimizer_uses_slot(const pg__optimizer *o, size_t slot)
{
    const pg__optimizer_kind kind = pg__optimizer_kind_of(o);
    if (slot == PG_SLOT_AVERAGE)
        return o->use_ema;
    if (slot >= pg__optimizer_of(kind)->n_slots)
        return 0;
    if (kind == PG_OPT_adam && slot == 2)
        return o->amsgrad;
    if (kind == PG_OPT_rmsprop || kind == PG_OPT_rmsprop_legacy)
        return slot == 0 || (slot == 1 ? o->momentum > 0 : o->centered);
    return 1;
}

double pg__optimizer_slot_start(const pg__optimizer *o, size_t slot)
{
    return (is(o, "Adagrad") || is(o, "Ftrl")) && slot == 0 ? o->initial_accumulator : 0;
}

/* beta^t: newer rules compute in float32, older ones in double. */
static double power(const pg__optimizer *o, double base, uint64_t t)
{
    return o->legacy ? pow(base, (double)t) : (double)powf((float)base, (float)t);
}

static double nadam_momentum(const pg__optimizer *o, uint64_t t)
{
    const double c = o->legacy ? o->nadam_decay : 1;
    return o->beta_1 * (1 - 0.5 * pow(0.96, c * (double)t));
}

void pg__optimizer_recount(pg__optimizer *o)
{
    o->nadam_product = 1;
    for (uint64_t t = 1; is(o, "Nadam") && t <= o->iterations && o->nadam_product > 0; t++)
        o->nadam_product *= nadam_momentum(o, t);
}

pg_status pg__optimizer_follow(pg__optimizer *o, const pg__schedule *s, pg_err *err)
{
    if (s && o->legacy && is(o, "Nadam"))
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "optimizer Nadam: by the rules of Keras to 2.10 it takes no schedule");
    o->schedule = s;
    return PG_OK;
}

double pg__optimizer_rate(const pg__optimizer *o)
{
    return o->schedule ? pg__schedule_at(o->schedule, o->iterations) : o->lr;
}

int pg__optimizer_finalizes(const pg__optimizer *o)
{
    return o->use_ema && o->iterations > 0;
}

pg__update pg__optimizer_step(pg__optimizer *o)
{
    const uint64_t t = o->iterations + 1;
    const double rate = pg__optimizer_rate(o);
    const double lr =
        o->decay > 0 && !is(o, "Nadam") ? rate / (1 + o->decay * (double)o->iterations) : rate;
    const double b1 = 1 - power(o, o->beta_1, t), b2 = 1 - power(o, o->beta_2, t);
    pg__update u = {.lr = lr,
                    .momentum = o->momentum,
                    .rho = o->rho,
                    .beta_1 = o->beta_1,
                    .beta_2 = o->beta_2,
                    .epsilon = o->epsilon,
                    .weight_decay = o->weight_decay,
                    .nesterov = o->nesterov,
                    .amsgrad = o->amsgrad,
                    .centered = o->centered,
                    .rounds_first = o->legacy,
                    .power = -o->lr_power,
                    .l1 = o->l1,
                    .l2 = o->l2 + (o->beta != 0 ? o->beta / (2 * lr) : 0),
                    .shrinkage = o->l2_shrinkage,
                    .average = o->first_is_average && o->iterations == 0 ? 0 : o->ema_momentum};
    u.to_average = o->use_ema && o->ema_frequency > 0 && t % (uint64_t)o->ema_frequency == 0;
    u.alpha = is(o, "Adamax") ? lr / b1 : lr * sqrt(b2) / b1;
    if (is(o, "Nadam")) {
        const double now = nadam_momentum(o, t), next = nadam_momentum(o, t + 1);
        o->nadam_product *= now;
        u.m_share = next / (1 - o->nadam_product * next);
        u.g_share = (1 - now) / (1 - o->nadam_product);
        u.v_correction = b2;
    }
    o->iterations = t;
    return u;
}
