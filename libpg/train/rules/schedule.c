/* schedule.c - see schedule.h. Source: keras/optimizers/schedules/learning_rate_schedule.py of 2.15
 * and 3.6, which agree. Every operation is in float32, in Keras' order, as TensorFlow computes it
 * for fit(): it multiplies by reciprocals of constants, so that 45 steps are a little more than 3
 * times 15, and a period may end a step earlier or later than by division. */
#include "train/rules/schedule.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/real.h"
#include "base/try.h"

/* ---- the functions ---- */

static float divide(float v, float by)
{
    return v * (1.0F / by);
}

static float exponential_decay(const pg__schedule *s, uint64_t steps)
{
    const float p = divide((float)steps, (float)s->decay_steps);
    return (float)s->initial_learning_rate *
           powf((float)s->decay_rate, s->staircase ? floorf(p) : p);
}

static float inverse_time_decay(const pg__schedule *s, uint64_t steps)
{
    const float p = divide((float)steps, (float)s->decay_steps);
    return (float)s->initial_learning_rate /
           (1.0F + (float)s->decay_rate * (s->staircase ? floorf(p) : p));
}

static float polynomial_decay(const pg__schedule *s, uint64_t steps)
{
    const float end = (float)s->end_learning_rate;
    const float step = (float)steps, n = (float)s->decay_steps;
    const float cycles = step == 0.0F ? 1.0F : ceilf(divide(step, n));
    const float p = s->cycle ? step / (n * cycles) : divide(fminf(step, n), n);
    return ((float)s->initial_learning_rate - end) * powf(1.0F - p, (float)s->power) + end;
}

/* Up to and including a boundary, the value before it counts. */
static float piecewise_constant_decay(const pg__schedule *s, uint64_t steps)
{
    size_t i = 0;
    while (i < s->n_boundaries && (double)steps > trunc(s->boundaries[i]))
        i++;
    return (float)s->values[i];
}

static float half_wave(float fraction)
{
    return 1.0F + cosf((float)3.14159265358979323846 * fraction);
}

static float cosine_decay(const pg__schedule *s, uint64_t steps)
{
    const float n = (float)s->decay_steps, initial = (float)s->initial_learning_rate;
    const float warmup = isnan(s->warmup_target) ? 0.0F : (float)s->warmup_steps;
    const float target = isnan(s->warmup_target) ? initial : (float)s->warmup_target;
    const float step = fminf((float)steps, n + warmup);
    if (step < warmup)
        return (target - initial) * divide(step, warmup) + initial;
    const float wave = half_wave(divide(step - warmup, n));
    return target * ((float)(1 - s->alpha) * (0.5F * wave) + (float)s->alpha);
}

/* Stochastic gradient descent with warm restarts: each period is t_mul times as long. */
static float cosine_decay_restarts(const pg__schedule *s, uint64_t steps)
{
    const float t_mul = (float)s->t_mul, alpha = (float)s->alpha;
    float done = divide((float)steps, (float)s->first_decay_steps), restarts;
    if (t_mul == 1.0F) {
        restarts = floorf(done);
        done -= restarts;
    } else {
        restarts = floorf(divide(logf(1.0F - done * (1.0F - t_mul)), logf(t_mul)));
        const float before = divide(1.0F - powf(t_mul, restarts), 1.0F - t_mul);
        done = (done - before) / powf(t_mul, restarts);
    }
    const float wave = 0.5F * powf((float)s->m_mul, restarts) * half_wave(done);
    return (float)s->initial_learning_rate * ((1.0F - alpha) * wave + alpha);
}

/* ---- the table ---- */

typedef struct pg__schedule_type {
    const char *name, *takes;
    float (*at)(const pg__schedule *s, uint64_t steps);
} pg__schedule_type;

static const pg__schedule_type types[] = {
#define PG_SCHEDULE(name, function, takes) {#name, takes, function},
#include "train/rules/schedules.def"
#undef PG_SCHEDULE
};
#define N_TYPES (sizeof types / sizeof *types)

typedef enum kind { REAL, STEPS, FLAG, LIST } kind;

/* Keras' keys and their defaults. STEPS: a number written without a decimal point. */
static const struct {
    const char *key;
    kind kind;
    size_t off, n_off;
    double usual;
} keys[] = {
#define AT(field) offsetof(pg__schedule, field)
    {"initial_learning_rate", REAL, AT(initial_learning_rate), 0, NAN},
    {"decay_steps", STEPS, AT(decay_steps), 0, 0},
    {"first_decay_steps", STEPS, AT(first_decay_steps), 0, 0},
    {"decay_rate", REAL, AT(decay_rate), 0, 0},
    {"staircase", FLAG, AT(staircase), 0, 0},
    {"end_learning_rate", REAL, AT(end_learning_rate), 0, 0.0001},
    {"power", REAL, AT(power), 0, 1},
    {"cycle", FLAG, AT(cycle), 0, 0},
    {"t_mul", REAL, AT(t_mul), 0, 2},
    {"m_mul", REAL, AT(m_mul), 0, 1},
    {"alpha", REAL, AT(alpha), 0, 0},
    {"warmup_target", REAL, AT(warmup_target), 0, NAN},
    {"warmup_steps", STEPS, AT(warmup_steps), 0, 0},
    {"boundaries", LIST, AT(boundaries), AT(n_boundaries), 0},
    {"values", LIST, AT(values), AT(n_values), 0},
#undef AT
};
#define N_KEYS (sizeof keys / sizeof *keys)

static void *field_of(pg__schedule *s, size_t off)
{
    return (char *)s + off;
}

/* The next of a type's parameters: its index in `keys`, N_KEYS after the last. */
static size_t next_key(const char **at, int *needed)
{
    const size_t n = strcspn(*at, " !");
    size_t i = 0;
    while (n > 0 && i < N_KEYS && (strlen(keys[i].key) != n || strncmp(keys[i].key, *at, n) != 0))
        i++;
    *needed = (*at)[n] == '!';
    *at += n + strspn(*at + n, "! ");
    return n > 0 ? i : N_KEYS;
}

const char *pg__schedule_class(size_t i)
{
    return i < N_TYPES ? types[i].name : NULL;
}

const char *pg__schedule_name(const pg__schedule *s)
{
    return s->type->name;
}

double pg__schedule_at(const pg__schedule *s, uint64_t steps)
{
    return (double)s->type->at(s, steps);
}

/* ---- reading ---- */

/* Reads "10/20" like [10, 20]. */
static pg_status read_slashes(double *out, size_t *n, const char *s)
{
    for (*n = 0;; s++) {
        const size_t len = strcspn(s, "/");
        if (!pg__real_read(&out[(*n)++], s, len))
            return PG_E_ARG;
        s += len;
        if (*s == '\0')
            return PG_OK;
    }
}

static pg_status read_list(double **out, size_t *n, const pg__json *j, const char *key, pg_err *err)
{
    const char *text = pg__json_str(j);
    const int is_array = pg__json_type_of(j) == PG_J_ARRAY;
    const size_t most = text ? strlen(text) + 1 : pg__json_len(j) + 1;
    int good = 1;
    *out = pg__mem_array(most, sizeof **out);
    if (!*out)
        return pg__nomem(err);
    if (text)
        good = read_slashes(*out, n, text) == PG_OK;
    else if (!is_array)
        good = pg__json_num(j, &(*out)[(*n)++]);
    for (size_t i = 0; is_array && good && i < pg__json_len(j); i++)
        good = pg__json_num(pg__json_at(j, i), &(*out)[(*n)++]);
    return good ? PG_OK
                : pg_fail(err, PG_E_ARG, "%s is not a list of numbers such as 0.1/0.01/0.001", key);
}

static pg_status read_key(pg__schedule *s, size_t i, int needed, pg__settings *from, pg_err *err)
{
    void *field = field_of(s, keys[i].off);
    pg_status st = PG_OK;
    int given = 0;
    if (keys[i].kind == FLAG)
        *(int *)field = keys[i].usual != 0;
    else if (keys[i].kind != LIST)
        *(double *)field = keys[i].usual;
    PG_TRY(pg__settings_has(from, keys[i].key, &given, err));
    if (needed && !given)
        PG_FAIL(PG_E_ARG, "%s needs %s", s->type->name, keys[i].key);
    if (!given)
        goto done;
    if (keys[i].kind == FLAG)
        PG_TRY(pg__settings_flag(from, keys[i].key, field, err));
    else if (keys[i].kind == LIST)
        PG_TRY(read_list(field, field_of(s, keys[i].n_off), pg__json_get(from->of, keys[i].key),
                         keys[i].key, err));
    else
        PG_TRY(pg__settings_real(from, keys[i].key, field, err));
done:
    return st;
}

static pg_status find_type(pg__schedule *s, const char *name, pg_err *err)
{
    const char *names[N_TYPES];
    for (size_t i = 0; i < N_TYPES; i++) {
        names[i] = types[i].name;
        if (pg__same_name(name, strlen(name), names[i]))
            s->type = &types[i];
    }
    if (s->type)
        return PG_OK;
    (void)pg__fail_unknown(err, "learning rate schedule", name, strlen(name), names, N_TYPES);
    return pg__list_known(err, PG_E_ARG, names, N_TYPES);
}

static pg_status check_list(const pg__schedule *s, pg_err *err)
{
    if (s->n_values != s->n_boundaries + 1)
        return pg_fail(err, PG_E_ARG, "%s: %zu boundaries need %zu values, not %zu", s->type->name,
                       s->n_boundaries, s->n_boundaries + 1, s->n_values);
    for (size_t i = 1; i < s->n_boundaries; i++)
        if (s->boundaries[i] < s->boundaries[i - 1])
            return pg_fail(err, PG_E_ARG, "%s: the boundaries do not ascend", s->type->name);
    return PG_OK;
}

/* Refuses parameters that would give NaN or infinite learning rates. */
static pg_status check(const pg__schedule *s, pg_err *err)
{
    const char *at = s->type->takes;
    int needed;
    for (size_t i = next_key(&at, &needed); i < N_KEYS; i = next_key(&at, &needed)) {
        double v;
        if (keys[i].kind == FLAG || keys[i].kind == LIST)
            continue;
        memcpy(&v, (const char *)s + keys[i].off, sizeof v);
        const int optional = strcmp(keys[i].key, "warmup_target") == 0;
        const int positive =
            keys[i].kind == STEPS && keys[i].off != offsetof(pg__schedule, warmup_steps);
        if (isinf(v) || (isnan(v) && !optional) || (positive && v <= 0) ||
            (keys[i].kind == STEPS && v < 0))
            return pg_fail(err, PG_E_ARG, "%s: %s is %s", s->type->name, keys[i].key, PG_REAL(v));
    }
    if (s->type->at == cosine_decay_restarts && s->t_mul < 1)
        return pg_fail(err, PG_E_ARG, "%s: t_mul is %s, and periods would shrink to nothing",
                       s->type->name, PG_REAL(s->t_mul));
    return s->type->at == piecewise_constant_decay ? check_list(s, err) : PG_OK;
}

static pg_status schedule_of(pg__schedule **out, pg__settings *from, double rate, pg_err *err)
{
    pg__schedule *s = pg__mem_array(1, sizeof *s);
    const char *at, *name = NULL;
    int needed;
    pg_status st = PG_OK;
    if (!s)
        return pg__nomem(err);
    PG_TRY(find_type(s, from->name.s, err));
    at = s->type->takes;
    for (size_t i = next_key(&at, &needed); i < N_KEYS; i = next_key(&at, &needed))
        PG_TRY(read_key(s, i, needed, from, err));
    if (isnan(s->initial_learning_rate) && isnan(rate))
        PG_FAIL(PG_E_ARG, "%s needs initial_learning_rate", s->type->name);
    if (isnan(s->initial_learning_rate))
        s->initial_learning_rate = rate;
    if (pg__json_get(from->of, "name")) /* only labels Keras' graph */
        PG_TRY(pg__settings_text(from, "name", &name, err));
    PG_TRY(pg__settings_end(from, err));
    PG_TRY(check(s, err));
    *out = s;
    s = NULL;
done:
    pg__schedule_free(s);
    return st;
}

pg_status pg__schedule_parse(pg__schedule **out, const char *text, double rate, pg_err *err)
{
    pg__settings from = {.root = NULL};
    pg_status st = PG_OK;
    PG_TRY(pg__settings_of(&from, text, err));
    PG_TRY(schedule_of(out, &from, rate, err));
done:
    pg__settings_fini(&from);
    return st;
}

pg_status pg__schedule_of_json(pg__schedule **out, const pg__json *j, pg_err *err)
{
    const char *name = pg__json_get_str(j, "class_name");
    pg__settings from = {.of = pg__json_get(j, "config")};
    pg_status st = PG_OK;
    if (!name)
        PG_FAIL(PG_E_FORMAT, "the learning rate's schedule has no \"class_name\"");
    PG_TRY(pg__str_puts(&from.name, name, err));
    st = schedule_of(out, &from, NAN, err);
    if (st == PG_E_ARG) /* it comes from the file, not from an option */
        st = PG_E_UNSUPPORTED;
    if (err)
        err->code = st;
done:
    pg__settings_fini(&from);
    return st;
}

void pg__schedule_free(pg__schedule *s)
{
    if (!s)
        return;
    pg__mem_free(s->boundaries);
    pg__mem_free(s->values);
    pg__mem_free(s);
}

/* ---- writing ---- */

static pg_status put_number(pg__str *out, double v, int whole, pg_err *err)
{
    if (isnan(v))
        return pg__str_puts(out, "null", err);
    if (whole && v == trunc(v) && fabs(v) < 1e15)
        return pg__str_printf(out, err, "%.0f", v);
    return pg__str_puts(out, PG_REAL(v), err);
}

static pg_status put_list(pg__str *out, const double *v, size_t n, int whole, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++) {
        PG_TRY(pg__str_puts(out, i ? ", " : "[", err));
        PG_TRY(put_number(out, v[i], whole, err));
    }
    PG_TRY(pg__str_puts(out, n ? "]" : "[]", err));
done:
    return st;
}

static pg_status put_key(pg__str *out, const pg__schedule *s, size_t i, pg_err *err)
{
    const char *field = (const char *)s + keys[i].off;
    double v, *list;
    size_t n;
    int flag;
    switch (keys[i].kind) {
    case FLAG:
        memcpy(&flag, field, sizeof flag);
        return pg__str_puts(out, flag ? "true" : "false", err);
    case LIST:
        memcpy(&list, field, sizeof list);
        memcpy(&n, (const char *)s + keys[i].n_off, sizeof n);
        return put_list(out, list, n, strcmp(keys[i].key, "boundaries") == 0, err);
    case REAL:
    case STEPS: break;
    }
    memcpy(&v, field, sizeof v);
    return put_number(out, v, keys[i].kind == STEPS, err);
}

pg_status pg__schedule_put(pg__str *out, const pg__schedule *s, int with_module, pg_err *err)
{
    const char *at = s->type->takes, *sep = "";
    int needed;
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, "{%s\"class_name\": \"%s\", \"config\": {",
                          with_module ? "\"module\": \"keras.optimizers.schedules\", " : "",
                          s->type->name));
    for (size_t i = next_key(&at, &needed); i < N_KEYS; i = next_key(&at, &needed)) {
        PG_TRY(pg__str_printf(out, err, "%s\"%s\": ", sep, keys[i].key));
        PG_TRY(put_key(out, s, i, err));
        sep = ", ";
    }
    PG_TRY(pg__str_puts(out, with_module ? "}, \"registered_name\": null}" : "}}", err));
done:
    return st;
}
