/* initial.c - Keras' initializers on our random numbers (TensorFlow's cannot be reproduced).
 * Source: keras/initializers/initializers.py of 2.15; fans: compute_fans there. */
#include "train/rules/initial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/philox.h"
#include "base/try.h"
#include "train/rules/names.h"

#define TWO_PI 6.283185307179586
/* Standard deviation of a normal distribution truncated at two standard deviations. */
#define TRUNCATED_STDDEV 0.87962566103423978

typedef struct source {
    uint64_t seed, next;
    uint32_t stream;
    pg__random drawn; /* the four numbers of the last drawing; `next` is the next one */
} source;

/* Like pg__uniform(), but uses all four numbers of a drawing. */
static double uniform(source *s)
{
    const uint64_t at = s->next++;
    if (at % 4 == 0)
        s->drawn = pg__philox_at(s->seed, at, 0, s->stream);
    return (double)((float)(s->drawn.v[at % 4] >> 8) * 0x1p-24f);
}
static double normal(source *s)
{
    const double radius = sqrt(-2 * log(1 - uniform(s)));
    return radius * cos(TWO_PI * uniform(s));
}
static double truncated(source *s)
{
    double v = normal(s);
    while (fabs(v) > 2)
        v = normal(s);
    return v;
}

/* What an initializer has to fill. */
typedef struct request {
    double *out;
    uint64_t n;
    const pg__dims *shape;
    const pg__json *config; /* its own config, or NULL */
    source random;
} request;

static double setting(const request *r, const char *key, double fallback)
{
    double v = fallback;
    (void)pg__json_num(pg__json_get(r->config, key), &v);
    return v;
}

static pg_status constant(request *r, double v)
{
    for (uint64_t i = 0; i < r->n; i++)
        r->out[i] = v;
    return PG_OK;
}
static pg_status zeros(request *r, pg_err *err)
{
    (void)err;
    return constant(r, 0);
}
static pg_status ones(request *r, pg_err *err)
{
    (void)err;
    return constant(r, 1);
}
static pg_status constant_value(request *r, pg_err *err)
{
    (void)err;
    return constant(r, setting(r, "value", 0));
}

static pg_status random_uniform(request *r, pg_err *err)
{
    const double scale = setting(r, "scale", 0.05); /* Keras 1 */
    const double low = setting(r, "minval", -scale), high = setting(r, "maxval", scale);
    (void)err;
    for (uint64_t i = 0; i < r->n; i++)
        r->out[i] = low + (high - low) * uniform(&r->random);
    return PG_OK;
}
static pg_status random_normal(request *r, pg_err *err)
{
    const double mean = setting(r, "mean", 0), stddev = setting(r, "stddev", 0.05);
    (void)err;
    for (uint64_t i = 0; i < r->n; i++)
        r->out[i] = mean + stddev * normal(&r->random);
    return PG_OK;
}
static pg_status truncated_normal(request *r, pg_err *err)
{
    const double mean = setting(r, "mean", 0), stddev = setting(r, "stddev", 0.05);
    (void)err;
    for (uint64_t i = 0; i < r->n; i++)
        r->out[i] = mean + stddev * truncated(&r->random);
    return PG_OK;
}

/* Rank 1: both are the size; above 2: times the receptive field. */
static void fans(const pg__dims *s, double *in, double *out)
{
    double field = 1;
    *in = *out = s->rank ? (double)s->d[s->rank - 1] : 1;
    if (s->rank < 2)
        return;
    for (uint32_t i = 0; i + 2 < s->rank; i++)
        field *= (double)s->d[i];
    *in = field * (double)s->d[s->rank - 2];
    *out = field * (double)s->d[s->rank - 1];
}

typedef enum shape_of_noise { UNIFORM, TRUNCATED, UNTRUNCATED } shape_of_noise;

static pg_status scaled(request *r, double scale, const char *mode, shape_of_noise noise)
{
    double in, out;
    fans(r->shape, &in, &out);
    const double n = strcmp(mode, "fan_in") == 0    ? in
                     : strcmp(mode, "fan_out") == 0 ? out
                                                    : (in + out) / 2;
    const double variance = scale / fmax(1, n);
    for (uint64_t i = 0; i < r->n; i++)
        r->out[i] = noise == UNIFORM     ? sqrt(3 * variance) * (2 * uniform(&r->random) - 1)
                    : noise == TRUNCATED ? sqrt(variance) / TRUNCATED_STDDEV * truncated(&r->random)
                                         : sqrt(variance) * normal(&r->random);
    return PG_OK;
}
#define SCALED(name, scale, mode, noise)           \
    static pg_status name(request *r, pg_err *err) \
    {                                              \
        (void)err;                                 \
        return scaled(r, scale, mode, noise);      \
    }
SCALED(glorot_uniform, 1, "fan_avg", UNIFORM)
SCALED(glorot_normal, 1, "fan_avg", TRUNCATED)
SCALED(he_uniform, 2, "fan_in", UNIFORM)
SCALED(he_normal, 2, "fan_in", TRUNCATED)
SCALED(lecun_uniform, 1, "fan_in", UNIFORM)
SCALED(lecun_normal, 1, "fan_in", TRUNCATED)

static pg_status variance_scaling(request *r, pg_err *err)
{
    const char *mode = pg__json_get_str(r->config, "mode");
    const char *noise = pg__json_get_str(r->config, "distribution");
    (void)err;
    return scaled(r, setting(r, "scale", 1), mode ? mode : "fan_in",
                  noise && strcmp(noise, "uniform") == 0              ? UNIFORM
                  : noise && strcmp(noise, "untruncated_normal") == 0 ? UNTRUNCATED
                                                                      : TRUNCATED);
}

/* Makes rows (or columns, of a wide matrix) orthonormal one after the other (modified Gram-Schmidt,
 * twice): the Q of the QR decomposition whose R has a positive diagonal. */
static pg_status orthogonal(request *r, pg_err *err)
{
    const uint64_t cols = r->shape->rank ? r->shape->d[r->shape->rank - 1] : 1;
    const uint64_t rows = cols ? r->n / cols : 0;
    const uint64_t n = rows < cols ? rows : cols, len = rows < cols ? cols : rows;
    double *q = pg__mem_array(n, len * sizeof *q);
    if (!q)
        return pg__nomem(err);
    for (uint64_t i = 0; i < n * len; i++)
        q[i] = normal(&r->random);
    for (uint64_t i = 0; i < n; i++) {
        double *v = q + i * len, norm = 0;
        for (int again = 0; again < 2; again++)
            for (uint64_t k = 0; k < i; k++) {
                double dot = 0;
                for (uint64_t j = 0; j < len; j++)
                    dot += v[j] * q[k * len + j];
                for (uint64_t j = 0; j < len; j++)
                    v[j] -= dot * q[k * len + j];
            }
        for (uint64_t j = 0; j < len; j++)
            norm += v[j] * v[j];
        for (uint64_t j = 0; j < len; j++)
            v[j] /= sqrt(norm);
    }
    const double gain = setting(r, "gain", 1);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t col = 0; col < cols; col++)
            r->out[row * cols + col] =
                gain * (rows < cols ? q[row * len + col] : q[col * len + row]);
    pg__mem_free(q);
    return PG_OK;
}

static pg_status identity(request *r, pg_err *err)
{
    const uint64_t cols = r->shape->rank == 2 ? r->shape->d[1] : 0;
    if (cols == 0)
        return pg_fail(err, PG_E_FORMAT, "initializer Identity: %s is not a matrix",
                       PG_SHAPE(r->shape));
    for (uint64_t i = 0; i < r->n; i++)
        r->out[i] = i / cols == i % cols ? setting(r, "gain", 1) : 0;
    return PG_OK;
}

static const struct {
    const char *name; /* letters only: GlorotUniform, glorot_uniform */
    pg_status (*fill)(request *r, pg_err *err);
} initializers[] = {
    {"constant", constant_value},
    {"glorotnormal", glorot_normal},
    {"glorotuniform", glorot_uniform},
    {"henormal", he_normal},
    {"heuniform", he_uniform},
    {"identity", identity},
    {"lecunnormal", lecun_normal},
    {"lecununiform", lecun_uniform},
    {"normal", random_normal},
    {"one", ones},
    {"ones", ones},
    {"orthogonal", orthogonal},
    {"randomnormal", random_normal},
    {"randomuniform", random_uniform},
    {"truncatednormal", truncated_normal},
    {"uniform", random_uniform},
    {"variancescaling", variance_scaling},
    {"zero", zeros},
    {"zeros", zeros},
};
#define N_INITIALIZERS (sizeof initializers / sizeof *initializers)

/* ---- from a parameter to its initializer ---- */

/* In Keras 1 the keys are "init" and "inner_init". */
static const pg__json *find_key(const pg__json *config, const char *var)
{
    char key[96];
    const pg__json *j;
    (void)snprintf(key, sizeof key, "%s_initializer", var);
    if (pg__json_type_of(j = pg__json_get(config, key)) > PG_J_NULL)
        return j;
    if (strcmp(var, "recurrent_kernel") == 0)
        return pg__json_get(config, "inner_init");
    return strcmp(var, "bias") == 0 ? NULL : pg__json_get(config, "init");
}

/* Keras' default if the config has no initializer. */
static const char *usual(const char *var)
{
    static const char *const by_name[][2] = {
        {"recurrent_kernel", "orthogonal"},
        {"embeddings", "uniform"},
        {"gamma", "ones"},
        {"moving_variance", "ones"},
        {"variance", "ones"},
        {"vector_u", "truncated_normal"},
    };
    for (size_t i = 0; i < sizeof by_name / sizeof *by_name; i++)
        if (strcmp(var, by_name[i][0]) == 0)
            return by_name[i][1];
    return strstr(var, "kernel") ? "glorot_uniform" : "zeros";
}

/* The config for the variable: of the inner layer, if the layer wraps one. */
static const pg__json *config_of(const pg__param *p)
{
    const pg__layer *l = p->leaf->layer;
    return l->inner ? l->inner->config : l->config;
}

static int is_lstm(const pg__param *p)
{
    const pg__layer *l = p->leaf->layer;
    return strstr((l->inner ? l->inner : l)->class_name, "LSTM") != NULL;
}

/* unit_forget_bias: the second of the four gates starts at 1. */
static void open_forget_gate(const pg__param *p, const pg__json *config, double *out, uint64_t n)
{
    const int wanted = pg__json_bool(pg__json_get(config, "unit_forget_bias"), 1);
    if (!is_lstm(p) || strcmp(p->var->name, "bias") != 0 || !wanted)
        return;
    for (uint64_t i = n / 4; i < n / 2; i++)
        out[i] = 1;
}

/* TruncatedNormal(stddev=0.02), not its default 0.05. */
static void shrink_vector_u(const pg__param *p, double *out, uint64_t n)
{
    for (uint64_t i = 0; strcmp(p->var->name, "vector_u") == 0 && i < n; i++)
        out[i] *= 0.02 / 0.05;
}

pg_status pg__initial_values(double *out, const pg__param *p, size_t number, uint64_t seed,
                             pg_err *err)
{
    const pg__json *config = config_of(p), *which = find_key(config, p->var->name);
    const char *name = pg__json_str(which);
    request r = {.out = out,
                 .n = pg__dims_elems(&p->shape),
                 .shape = &p->shape,
                 .random = {.seed = seed, .stream = PG_STREAM_INIT + (uint32_t)number}};
    if (pg__json_type_of(which) == PG_J_OBJECT) {
        name = pg__json_get_str(which, "class_name");
        r.config = pg__json_get(which, "config");
    }
    if (!name)
        name = usual(p->var->name);
    for (size_t i = 0; i < N_INITIALIZERS; i++)
        if (pg__same_name(name, strlen(name), initializers[i].name)) {
            const pg_status st = initializers[i].fill(&r, err);
            if (st == PG_OK) {
                open_forget_gate(p, config, out, r.n);
                shrink_vector_u(p, out, r.n);
            }
            return st;
        }
    const char *names[N_INITIALIZERS];
    for (size_t i = 0; i < N_INITIALIZERS; i++)
        names[i] = initializers[i].name;
    const char *near = pg__nearest_spelt(name, strlen(name), names, N_INITIALIZERS);
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: initializer \"%s\" is not one of Keras'%s%s%s",
                   PG_SHOW(p->leaf->layer->name), PG_SHOW(name), near ? "; did you mean " : "",
                   near ? near : "", near ? "?" : "");
}
