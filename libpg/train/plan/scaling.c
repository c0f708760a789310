/* scaling.c - see scaling.h. */
#include "train/plan/scaling.h"

#include <math.h>

#define WORTH 0.2 /* required gain in samples per second for a doubling */

/* log2 n, rounded up. */
static double halvings(size_t n)
{
    double k = 0;
    for (size_t m = 1; m < n; m *= 2)
        k++;
    return k;
}

double pg__sum_seconds(const pg__link *l, size_t n, double n_bytes)
{
    const double others = (double)(n - 1);
    if (n < 2)
        return 0;
    const double ring = 2 * others * l->latency + 2 * others / (double)n * n_bytes / l->bandwidth;
    const double halving =
        2 * halvings(n) * l->latency + 2 * others / (double)n * n_bytes / l->bandwidth;
    return fmin(fmin(ring, halving), halvings(n) * (l->latency + n_bytes / l->bandwidth));
}

double pg__share_seconds(const pg__link *l, size_t n, double n_bytes, const pg__load *load)
{
    const double others = (double)(n - 1);
    const double rate = load->share_rate > 0 ? fmin(load->share_rate, l->bandwidth) : l->bandwidth;
    if (n < 2)
        return 0;
    return (load->in_tree ? halvings(n) : others) * l->latency +
           others / (double)n * n_bytes / rate;
}

/* The sum of bucket k among n parties. */
static double sum_seconds(const pg__link *l, size_t n, const pg__load *load, size_t k)
{
    return load->is_sharded && !load->sums_whole ? pg__share_seconds(l, n, load->bytes[k], load)
                                                 : pg__sum_seconds(l, n, load->bytes[k]);
}

/* Sending the updated weights to all. */
static double spread_seconds(const pg__layout *l, const pg__load *load)
{
    double s = 0;
    for (size_t k = 0; k < load->n && load->is_sharded; k++)
        s += pg__share_seconds(&l->outer, l->n_hosts, load->bytes[k], load) +
             pg__share_seconds(&l->inner, l->per_host, load->bytes[k], load);
    return s;
}

/* The exchange of other numbers. */
static double exchange_seconds(const pg__layout *l, const pg__load *load)
{
    double s = 0;
    if (l->per_host > 1)
        s += load->n_small * halvings(l->per_host) * l->inner.latency +
             (double)(l->per_host - 1) * load->small_bytes / l->inner.bandwidth;
    if (l->n_hosts > 1)
        s += load->n_small * halvings(l->n_hosts) * l->outer.latency +
             (double)((l->n_hosts - 1) * l->per_host) * load->small_bytes / l->outer.bandwidth;
    return s;
}

/* If the computing cores move the data, the backward pass stops meanwhile, and its remainder is
 * delayed. */
pg__parts_of_step pg__step_on(const pg__layout *l, const pg__pace *p, const pg__load *load)
{
    pg__parts_of_step s = {.compute = p->compute, .update = p->update, .rest = p->rest};
    double all_bytes = 0, late = 0, summed = 0, is_free = 0;
    if (l->n_hosts * l->per_host < 2) {
        s.compute += p->reduce;
        s.all = s.compute + s.update + s.rest;
        return s;
    }
    for (size_t k = 0; k < load->n; k++)
        all_bytes += load->bytes[k];
    s.compute += p->sum;
    for (size_t k = 0; k < load->n; k++) {
        const double inner = sum_seconds(&l->inner, l->per_host, load, k);
        const double outer = sum_seconds(&l->outer, l->n_hosts, load, k);
        summed += all_bytes > 0 ? p->sum * load->bytes[k] / all_bytes : 0;
        const double ready = load->goes_along ? p->ready[k] + summed + late : s.compute;
        const double begin = fmax(ready, is_free);
        if (l->by_cores && begin < s.compute + late)
            late += inner;
        is_free = begin + inner + outer;
        s.exchange += inner + outer;
    }
    const double behind = exchange_seconds(l, load) + spread_seconds(l, load);
    s.exchange += behind;
    s.shown = fmax(s.compute + late, is_free) - s.compute + behind;
    if (load->is_sharded)
        s.update /= (double)(l->n_hosts * l->per_host);
    s.all = s.compute + s.shown + s.update + s.rest;
    return s;
}

void pg__pace_stretch(pg__pace *p, double f)
{
    p->compute *= f;
    for (size_t k = 0; k < PG_MAX_BUCKETS; k++)
        p->ready[k] *= f;
    p->sum *= f;
    p->reduce *= f;
    p->update *= f;
    p->rest *= f;
}

pg__pace pg__pace_between(const pg__pace *a, double a_rows, const pg__pace *b, double b_rows,
                          double rows)
{
    const double f = b_rows != a_rows ? (rows - a_rows) / (b_rows - a_rows) : 0;
    pg__pace p;
    p.compute = a->compute + f * (b->compute - a->compute);
    for (size_t k = 0; k < PG_MAX_BUCKETS; k++)
        p.ready[k] = a->ready[k] + f * (b->ready[k] - a->ready[k]);
    p.sum = a->sum + f * (b->sum - a->sum);
    p.reduce = a->reduce + f * (b->reduce - a->reduce);
    p.update = a->update + f * (b->update - a->update);
    p.rest = a->rest + f * (b->rest - a->rest);
    return p;
}

size_t pg__pays_up_to(const pg_plan_row *rows, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        const double more = (double)rows[i + 1].n_devices / (double)rows[i].n_devices - 1;
        if (rows[i + 1].samples_per_second < rows[i].samples_per_second * (1 + WORTH * more))
            return rows[i].n_devices;
    }
    return 0;
}

int pg__exceeds_one(const pg_plan_row *rows, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (rows[i].efficiency >= 1.005) /* shown as 101 % */
            return 1;
    return 0;
}
