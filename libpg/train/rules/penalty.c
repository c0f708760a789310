/* penalty.c - regularizers and constraints. Sources: keras/regularizers.py, keras/constraints.py of
 * 1.2.2 and 2.15. */
#include "train/rules/penalty.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/try.h"
#include "model/lower/regularizer.h"

#define EPSILON 1e-7

/* The config of p's layer names it after the variable ("bias_regularizer"), without the "_kernel"
 * of a longer name ("recurrent_regularizer"). Keras 1 has "W_", "U_" and "b_" for all gates. */
static const pg__json *value_of(const pg__param *p, const char *suffix)
{
    static const char kernel[] = "_kernel";
    const char *name = p->var->name, *old = *p->var->alt ? p->var->alt : name;
    const size_t n = strlen(name), tail = sizeof kernel - 1;
    char key[96];
    (void)snprintf(key, sizeof key, "%s_%s", name, suffix);
    const pg__json *found = pg__json_get(p->var->config, key);
    if (!found && n > tail && strcmp(name + n - tail, kernel) == 0) {
        (void)snprintf(key, sizeof key, "%.*s_%s", (int)(n - tail), name, suffix);
        found = pg__json_get(p->var->config, key);
    }
    if (!found && strchr("WUb", *old) && (!old[1] || (old[1] == '_' && !old[3]))) {
        (void)snprintf(key, sizeof key, "%c_%s", *old, suffix);
        found = pg__json_get(p->var->config, key);
    }
    return found;
}

static int is(const char *name, const char *wanted)
{
    return pg__same_name(name, strlen(name), wanted);
}

static double setting(const pg__json *config, const char *key, double fallback)
{
    double v = fallback;
    (void)pg__json_num(pg__json_get(config, key), &v);
    return v;
}

static pg_status read_axes(pg__penalty *out, const pg__param *p, const pg__json *axis, pg_err *err)
{
    const size_t n = pg__json_type_of(axis) == PG_J_ARRAY ? pg__json_len(axis) : 1;
    out->axes = 1;
    if (pg__json_type_of(axis) <= PG_J_NULL)
        return PG_OK;
    out->axes = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t at;
        const pg__json *j = pg__json_type_of(axis) == PG_J_ARRAY ? pg__json_at(axis, i) : axis;
        if (!pg__json_int(j, &at) || at < -(int64_t)p->shape.rank || at >= (int64_t)p->shape.rank)
            return pg_fail(err, PG_E_FORMAT, "%s: constraint along an axis that %s does not have",
                           PG_SHOW(p->leaf->layer->name), p->var->name);
        out->axes |= 1u << (at < 0 ? at + (int64_t)p->shape.rank : at);
    }
    return PG_OK;
}

static pg_status read_constraint(pg__penalty *out, const pg__param *p, pg_err *err)
{
    const pg__named c = pg__named_of(value_of(p, "constraint"));
    if (!c.name)
        return PG_OK;
    if (is(c.name, "MaxNorm"))
        out->constraint = PG_MAX_NORM;
    else if (is(c.name, "NonNeg"))
        out->constraint = PG_NON_NEG;
    else if (is(c.name, "UnitNorm"))
        out->constraint = PG_UNIT_NORM;
    else if (is(c.name, "MinMaxNorm"))
        out->constraint = PG_MIN_MAX_NORM;
    else
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: constraint \"%s\" is not supported",
                       PG_SHOW(p->leaf->layer->name), PG_SHOW(c.name));
    out->min = setting(c.config, "min_value", 0);
    out->max = setting(c.config, "max_value", out->constraint == PG_MAX_NORM ? 2 : 1);
    out->max = setting(c.config, "m", out->max); /* Keras 1's */
    out->rate = setting(c.config, "rate", 1);
    return read_axes(out, p, pg__json_get(c.config, "axis"), err);
}

pg_status pg__penalty_of(pg__penalty *out, const pg__param *p, pg_err *err)
{
    pg_status st = PG_OK;
    *out = (pg__penalty){0};
    PG_TRY(pg__regularizer_of(value_of(p, "regularizer"), p->leaf->layer->name, &out->l1, &out->l2,
                              err));
    PG_TRY(read_constraint(out, p, err));
done:
    return st;
}

static double wanted_norm(const pg__penalty *p, double norm)
{
    const double inside = fmin(fmax(norm, p->min), p->max);
    if (p->constraint == PG_UNIT_NORM)
        return 1;
    return p->constraint == PG_MIN_MAX_NORM ? p->rate * inside + (1 - p->rate) * norm : inside;
}

/* Scales every vector along the axes, that is, elements whose other indices agree. */
static void constrain_norms(const pg__penalty *p, const pg__dims *shape, double *w)
{
    uint64_t stride[PG_MAX_RANK], inner = 1, outer = 1, n = 1;
    for (uint32_t i = shape->rank; i-- > 0;) {
        stride[i] = n;
        n *= shape->d[i];
        *(p->axes >> i & 1 ? &inner : &outer) *= shape->d[i];
    }
    for (uint64_t o = 0; o < outer; o++) {
        uint64_t base = 0, left = o;
        double squares = 0, factor;
        for (uint32_t i = shape->rank; i-- > 0;)
            if (!(p->axes >> i & 1)) {
                base += left % shape->d[i] * stride[i];
                left /= shape->d[i];
            }
        for (int pass = 0; pass < 2; pass++) {
            factor = wanted_norm(p, sqrt(squares)) / (EPSILON + sqrt(squares));
            for (uint64_t k = 0; k < inner; k++) {
                uint64_t at = base, rest = k;
                for (uint32_t i = shape->rank; i-- > 0;)
                    if (p->axes >> i & 1) {
                        at += rest % shape->d[i] * stride[i];
                        rest /= shape->d[i];
                    }
                if (pass == 0)
                    squares += w[at] * w[at];
                else
                    w[at] *= factor;
            }
        }
    }
}

void pg__constrain(const pg__penalty *p, const pg__dims *shape, double *w)
{
    const uint64_t n = pg__dims_elems(shape);
    if (p->constraint == PG_NON_NEG)
        for (uint64_t i = 0; i < n; i++)
            w[i] = w[i] >= 0 ? w[i] : 0;
    else if (p->constraint != PG_FREE)
        constrain_norms(p, shape, w);
}
