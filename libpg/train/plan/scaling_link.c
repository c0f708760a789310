/* scaling_link.c - pg_plan_measure(): the processes of a job measure the links of a plan. The job
 * ends with that: a plan times the undisturbed computation of one process. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "comm/comm.h"
#include "pg/train.h"

typedef struct found {
    size_t n_hosts, per_host;  /* per_host: of the host with most */
    size_t inner[2], outer[2]; /* two ranks on one host, on two hosts; equal: none found */
} found;

static int are_together(const pg__comm *c, size_t a, size_t b)
{
    return strcmp(pg__comm_host(c, a), pg__comm_host(c, b)) == 0;
}

/* Searches from the last rank down, so that the first pair stays. */
static found look_around(const pg__comm *c)
{
    found f = {.n_hosts = 0};
    for (size_t k = pg__comm_size(c); k-- > 0;) {
        size_t before = 0, n = 0;
        for (size_t i = pg__comm_size(c); i-- > 0;) {
            const int is_same = are_together(c, i, k);
            n += (size_t)is_same;
            before += (size_t)(is_same && i < k);
            if (i > k)
                memcpy(is_same ? f.inner : f.outer, (size_t[]){k, i}, sizeof f.inner);
        }
        f.n_hosts += before == 0;
        f.per_host = n > f.per_host ? n : f.per_host;
    }
    return f;
}

static pg_status fill(double *latency, double *bandwidth, int *is_measured, pg__comm *c,
                      const size_t pair[2], pg_err *err)
{
    double l, b;
    pg_status st = PG_OK;
    if (pair[0] == pair[1] || (*latency > 0 && *bandwidth > 0))
        return PG_OK;
    PG_TRY(pg__comm_link(c, pair[0], pair[1], &l, &b, err));
    *latency = *latency > 0 ? *latency : l;
    *bandwidth = *bandwidth > 0 ? *bandwidth : b;
    *is_measured = 1;
done:
    return st;
}

static pg_status measure(pg_plan_opts *o, pg__comm *c, pg_err *err)
{
    const found f = look_around(c);
    pg_status st = PG_OK;
    if (o->hosts == 0 && o->per_host == 0) {
        o->hosts = f.n_hosts;
        o->per_host = f.per_host;
    }
    if (o->measure && f.n_hosts == 1) {
        (void)pg_fail(err, PG_E_ARG,
                      "link=measure: all processes of this job are on one machine: %s",
                      pg__comm_host(c, 0));
        pg_err_do(err, PG_DO_MEASURE_LINK, NULL);
        return PG_E_ARG;
    }
    PG_TRY(fill(&o->latency, &o->bandwidth, &o->link_measured, c, f.outer, err));
    if (!o->gpus) /* GPUs have links of their own within a host */
        PG_TRY(fill(&o->inner_latency, &o->inner_bandwidth, &o->inner_measured, c, f.inner, err));
done:
    return st;
}

pg_status pg_plan_measure(pg_plan_opts *o, const pg_train_opts *with, pg_err *err)
{
    const pg__comm_opts opts = {.timeout = with->comm_timeout, .cancel = with->cancel};
    pg__comm *c = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__comm_open(&c, &opts, err));
    if (c)
        PG_TRY(measure(o, c, err));
    else if (o->measure) {
        (void)pg_fail(err, PG_E_ARG, "link=measure: there is no other process to measure it with");
        pg_err_do(err, PG_DO_MEASURE_LINK, NULL);
        pg_err_arg(err, "alone", "true");
        st = PG_E_ARG;
    }
done:
    pg__comm_leave(c);
    return st;
}
