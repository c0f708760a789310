/* sync_bn.c - merges the statistics of lanes in the order of the tree of lanes.h, so that the
 * result does not depend on which worker computed them. Mean and squared distances of two parts:
 * Chan, Golub, LeVeque 1979. Everything is double inside; what lanes bring and take has the
 * device's precision. */
#include "train/step/sync_bn.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/ranks.h"

static size_t lanes_of_a_group(const pg_trainer *t)
{
    const size_t n = pg__lane_count(&t->pool.cut);
    const size_t replicas =
        t->pool.cut.n_lanes ? t->pool.cut.n_replicas : pg__replicas_here(&t->pool.cut);
    return t->net.bn_sync ? pg__all_lanes(t) : (n + replicas - 1) / replicas;
}

int pg__lanes_sync_bn(const pg_trainer *t)
{
    return t->net.couples_rows && lanes_of_a_group(t) > 1;
}

int pg__same_statistics(const pg__trainer_net *net, const pg__lane *a, const pg__lane *b)
{
    return net->bn_sync || a->replica == b->replica;
}

pg_status pg__sync_bn_open(pg__sync_bn *b, const pg__trainer_pool *pool, uint64_t each,
                           size_t n_lanes, pg_err *err)
{
    const size_t n = (size_t)each * n_lanes;
    *b = (pg__sync_bn){.each = each, .n_lanes = n_lanes};
    b->numbers = pg__mem_array(2 * n, sizeof *b->numbers);
    b->work = pg__mem_array(pool->cut.n_workers * n, sizeof *b->work);
    b->raw = pg__mem_array(pool->cut.n_workers * (size_t)each, sizeof *b->raw);
    b->there = pg__mem_array(2 * n_lanes, sizeof *b->there);
    return b->numbers && b->work && b->raw && b->there ? PG_OK : pg__nomem(err);
}

void pg__sync_bn_close(pg__sync_bn *b)
{
    pg__mem_free(b->numbers);
    pg__mem_free(b->work);
    pg__mem_free(b->raw);
    pg__mem_free(b->there);
}

void pg__sync_bn_clear(pg__sync_bn *b)
{
    if (b->there)
        memset(b->there, 0, 2 * b->n_lanes * sizeof *b->there);
}

static size_t place_of(const pg__sync_bn *b, const pg__visit *v)
{
    return v->meeting % 2 * b->n_lanes;
}

pg_status pg__sync_bn_bring(pg__sync_bn *b, pg__trainer_devs *devs, const pg__visit *v)
{
    const pg__meeting m = pg__program_meeting(v->program, v->frame, v->at);
    const size_t place = place_of(b, v) + v->index, bytes = devs->backend->real_bytes;
    double *to = b->numbers + place * b->each, *raw = b->raw + v->lane->worker * b->each;
    for (size_t k = 0; k < m.n; to += m.n_elems[k++]) {
        const pg_status st =
            devs->backend->get(v->frame->dev, raw, m.in[k], (size_t)m.n_elems[k] * bytes);
        if (st != PG_OK)
            return st;
        for (uint64_t i = 0; i < m.n_elems[k]; i++)
            to[i] = bytes == sizeof *raw ? raw[i] : (double)((const float *)(const void *)raw)[i];
    }
    b->there[place] = v->lane;
    return PG_OK;
}

/* Merges b into a: mean, squared distances, count of a part. */
static void merge_stats(double *a, const double *b, uint64_t n)
{
    const double na = a[2 * n], nb = b[2 * n], all = na + nb;
    if (nb == 0)
        return;
    for (uint64_t i = 0; i < n; i++) {
        const double d = b[i] - a[i];
        a[i] += d * (nb / all);
        a[n + i] += b[n + i] + d * d * (na * nb / all);
    }
    a[2 * n] = all;
}

static void merge_sums(double *a, const double *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        a[i] += b[i];
}

/* at: per lane of a group, what it brought, or NULL. Merges into the first of them. */
static const double *merge(double **at, size_t n_lanes, const pg__meeting *m, uint64_t all)
{
    for (size_t size = 1; size < n_lanes; size *= 2)
        for (size_t lo = 0; lo + size < n_lanes; lo += 2 * size) {
            const double *b = at[lo + size];
            if (!at[lo])
                at[lo] = at[lo + size];
            else if (b && m->is_stats)
                merge_stats(at[lo], b, m->n_elems[0]);
            else if (b)
                merge_sums(at[lo], b, all);
        }
    return at[0];
}

static pg_status give(pg__trainer_devs *devs, pg__dev *dev, const pg__meeting *m,
                      const double *from, double *raw)
{
    const size_t bytes = devs->backend->real_bytes;
    for (size_t k = 0; k < m->n; from += m->n_elems[k++]) {
        for (uint64_t i = 0; i < m->n_elems[k]; i++)
            if (bytes == sizeof *raw)
                raw[i] = from[i];
            else
                ((float *)(void *)raw)[i] = (float)from[i];
        const pg_status st =
            m->out[k] ? devs->backend->put(dev, m->out[k], raw, (size_t)m->n_elems[k] * bytes)
                      : PG_OK;
        if (st != PG_OK)
            return st;
    }
    return PG_OK;
}

pg_status pg__sync_bn_take(pg__sync_bn *b, pg_trainer *t, const pg__visit *v)
{
    const pg__meeting m = pg__program_meeting(v->program, v->frame, v->at);
    const size_t place = place_of(b, v), worker = v->lane->worker;
    double *work = b->work + worker * b->n_lanes * b->each;
    double **at = pg__mem_array(b->n_lanes, sizeof(double *));
    uint64_t all = 0;
    if (!at)
        return PG_E_NOMEM;
    for (size_t k = 0; k < m.n; k++)
        all += m.n_elems[k];
    for (size_t k = 0; k < b->n_lanes; k++) {
        const pg__lane *from = b->there[place + k];
        if (!from || !pg__same_statistics(&t->net, from, v->lane))
            continue;
        at[k] = work + k * b->each;
        memcpy(at[k], b->numbers + (place + k) * b->each, (size_t)all * sizeof *work);
    }
    const pg_status st = give(&t->devs, v->frame->dev, &m, merge(at, b->n_lanes, &m, all),
                              b->raw + worker * b->each);
    pg__mem_free(at);
    return st;
}
