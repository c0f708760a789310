/* moving.c - moving averages of BatchNormalization. The rules of all Keras generations have the
 * form new = keep old + take found; they differ in the two factors: plain (2.0, tf.keras, Keras 3):
 * m, 1 - m, replica after replica; 2.1, 2.2: zero-debiased, b = m b + (1 - m) found from b = 0,
 * over 1 - m^k at step k: the initial average does not count; only the first replica's batch does;
 *   2.3: every replica reads the value from before the step: the sum of their changes.
 * If gradients are summed in buckets, the statistics of the replicas are summed along with them,
 * each times what the replicas after it leave of its share: an untrained variable has room in the
 * flat gradient.
 * Found in the sources and confirmed by the golden runs of cnn_bn in those versions, to 1e-6. */
#include <math.h>

#include "train/step/devices.h"
#include "train/step/model_parallel.h"

typedef struct shares {
    double keep, take;
} shares;

static shares shares_of(pg__bn_moving rule, double m, uint64_t n_before, size_t replica,
                        size_t n_replicas)
{
    switch (rule) {
    case PG_BN_DEBIASED:
        if (replica > 0)
            return (shares){1, 0};
        const double before = pow(m, (double)n_before), whole = 1 - m * before;
        return (shares){m * (1 - before) / whole, (1 - m) / whole};
    case PG_BN_CORRECTED_2X:
        return (shares){replica > 0 ? 1 : 1 - (double)n_replicas * (1 - m), 1 - m};
    case PG_BN_BIASED:
    case PG_BN_FUSED: break;
    }
    return (shares){m, 1 - m};
}

/* Updates device d's copy. The found statistics may lie on another device, or have come from
 * another process: then `from` is NULL, and they are in host memory. */
static pg_status blend_on(pg_trainer *t, size_t d, size_t param, shares s, pg__dev *from,
                          const void *found)
{
    pg__device *on = &t->devs.devices[d];
    const size_t n = t->vars.n_elems[param];
    void *into = pg__params_on(t, d)->at[param];
    if (!from) {
        void *here = on->incoming.at[param];
        const pg_status st =
            t->devs.backend->put(on->dev, here, found, n * t->devs.backend->real_bytes);
        if (st != PG_OK)
            return st;
        found = here;
    } else if (from != on->dev) {
        const pg_status st = t->devs.backend->sync(from);
        if (st != PG_OK)
            return st;
    }
    if (from && t->devs.n_devices > 1 && from != on->dev) {
        void *here = on->incoming.at[param];
        const pg_status st =
            t->devs.backend->copy_from(on->dev, here, from, found, n * t->devs.backend->real_bytes);
        if (st != PG_OK)
            return st;
        found = here;
    }
    return t->devs.backend->flat.blend(on->dev, into, s.keep, found, s.take, n);
}

/* ---- along with the gradients ---- */

/* One replica's entry in the model's list; a layer that is called twice has two entries for a
 * variable. */
typedef struct move {
    const pg__lowered *m;
    size_t replica, i;
} move;

static shares share_of(const pg_trainer *t, const move *v)
{
    return shares_of(t->net.rules->bn_moving, v->m->moving[v->i].momentum, t->loop.n_moves,
                     v->replica, t->pool.cut.n_replicas);
}

static int is_first(const move *v)
{
    size_t i = 0;
    while (v->m->moving[i].param != v->m->moving[v->i].param)
        i++;
    return i == v->i;
}

/* The factor that all later moves leave of this one. */
static double left_after(const pg_trainer *t, const move *v)
{
    double left = 1;
    for (size_t r = v->replica; r < t->pool.cut.n_replicas; r++)
        for (size_t i = r == v->replica ? v->i + 1 : 0; i < v->m->n_moving; i++)
            if (v->m->moving[i].param == v->m->moving[v->i].param)
                left *= share_of(t, &(move){v->m, r, i}).keep;
    return left;
}

pg_status pg__averages_bring(pg_trainer *t, const pg__program *p, const pg__frame *f,
                             const pg__bucket *b, size_t replica, const pg__flat *into)
{
    move v = {pg__program_model(p), replica, 0};
    pg_status st = PG_OK;
    for (; v.i < v.m->n_moving && st == PG_OK; v.i++) {
        const size_t param = v.m->moving[v.i].param;
        if (param >= b->first && param < b->end)
            st = t->devs.backend->flat.blend(
                f->dev, into->at[param], is_first(&v) ? 0 : 1, pg__program_moving(p, f, v.i),
                share_of(t, &v).take * left_after(t, &v), t->vars.n_elems[param]);
    }
    return st;
}

pg_status pg__averages_take(pg_trainer *t, size_t d)
{
    const pg__device *on = &t->devs.devices[d];
    move v = {&t->net.built_params, 0, 0};
    pg_status st = PG_OK;
    for (; v.i < v.m->n_moving && st == PG_OK; v.i++) {
        const size_t param = v.m->moving[v.i].param;
        if (is_first(&v))
            st = t->devs.backend->flat.blend(on->dev, pg__params_on(t, d)->at[param],
                                             share_of(t, &v).keep * left_after(t, &v),
                                             on->sum->at[param], 1, t->vars.n_elems[param]);
    }
    return st;
}

/* ---- replica after replica ---- */

pg_status pg__move_averages(pg_trainer *t, pg__dev *from, const void *const *found, size_t replica,
                            size_t n_replicas)
{
    const pg__lowered *m = &t->net.built_params;
    for (size_t i = 0; i < m->n_moving && !t->loop.is_trial; i++) {
        const pg__moving *v = &m->moving[i];
        const shares s =
            shares_of(t->net.rules->bn_moving, v->momentum, t->loop.n_moves, replica, n_replicas);
        if (t->devs.is_split) { /* it is on the parameter's device */
            const pg_status st =
                t->devs.backend->flat.blend(pg__param_dev(t, v->param), t->vars.params.at[v->param],
                                            s.keep, found[i], s.take, t->vars.n_elems[v->param]);
            if (st != PG_OK)
                return st;
        }
        for (size_t d = 0; d < t->devs.n_devices && !t->devs.is_split; d++) {
            const pg_status st = blend_on(t, d, v->param, s, from, found[i]);
            if (st != PG_OK)
                return st;
        }
    }
    if (replica + 1 == n_replicas && !t->loop.is_trial)
        t->loop.n_moves++;
    return PG_OK;
}
