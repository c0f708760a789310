/* ranks_devices.c - see ranks_devices.h. */
#include "train/step/ranks_devices.h"

#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/step/devices.h"

static const char what[] = "the gradients";

/* ---- which devices ---- */

int pg__are_gpus(const char *devices)
{
    return devices && (pg__begins_with_gpu(devices) || strcmp(devices, "auto") == 0);
}

/* A single rank drives all GPUs; of several on a machine each takes its own, unless the launcher
 * already shows each rank only one. */
pg_status pg__ranks_gpus(const pg_trainer *t, size_t n, size_t *first, size_t *end, pg_err *err)
{
    size_t n_local = 1;
    const size_t local = t->ranks ? pg__comm_local(t->ranks->comm, &n_local) : 0;
    *first = n_local > 1 && n > 1 ? local : 0;
    *end = n_local > 1 ? *first + 1 : n;
    if (*first < n)
        return PG_OK;
    (void)pg_fail(err, PG_E_UNSUPPORTED, "%zu ranks on %s, which has only %zu GPUs", n_local,
                  pg__comm_host(t->ranks->comm, pg__rank_of(t->ranks)), n);
    pg_err_do(err, PG_DO_RANK_PER_GPU, NULL);
    return PG_E_UNSUPPORTED;
}

/* ---- the group ---- */

static int job_ends(void *comm)
{
    return pg__comm_ends(comm);
}

static int is_gone(const pg__comm *c)
{
    return pg__comm_gone(c) < pg__comm_size(c);
}

#define WAIT_SECONDS 300 /* that a device waits for the others of its process */

pg__timeout pg__ranks_timeout(const struct pg__ranks *ranks)
{
    if (!ranks)
        return (pg__timeout){.seconds = WAIT_SECONDS};
    return (pg__timeout){pg__comm_timeout(ranks->comm), job_ends, ranks->comm};
}

typedef struct place {
    uint64_t n;
    char bus[PG_MAX_REPLICAS][PG_BUS];
} place;

/* NCCL cannot have two ranks on one GPU, and reports only "invalid usage". */
static pg_status check_places(const pg_trainer *t, const place *all, pg_err *err)
{
    const pg__comm *c = t->ranks->comm;
    const size_t rank = pg__rank_of(t->ranks);
    for (size_t k = 0; k < pg__comm_size(c); k++)
        for (size_t i = 0; k != rank && i < all[k].n; i++)
            for (size_t d = 0; d < t->devs.n_devices; d++) {
                const size_t low = k < rank ? k : rank, high = k < rank ? rank : k;
                if (!all[k].bus[i][0] || strcmp(all[k].bus[i], all[rank].bus[d]) != 0 ||
                    strcmp(pg__comm_host(c, k), pg__comm_host(c, rank)) != 0)
                    continue;
                (void)pg_fail(err, PG_E_UNSUPPORTED,
                              "ranks %zu and %zu on %s have the same GPU (%s), which NCCL refuses",
                              low, high, pg__comm_host(c, rank), all[k].bus[i]);
                pg_err_set(err, "devices", "auto");
                pg_err_arg(err, "note", "gives each rank of a machine its own");
                return PG_E_UNSUPPORTED;
            }
    return PG_OK;
}

/* The place of this rank's devices among all, and the id by which they find each other. */
static pg_status find_place(pg_trainer *t, pg__group_place *among, pg_err *err)
{
    pg__comm *c = t->ranks->comm;
    place mine = {.n = t->devs.n_devices}, *all = pg__mem_array(pg__comm_size(c), sizeof *all);
    pg_status st = PG_OK;
    if (!all)
        PG_TRY(pg__nomem(err));
    for (size_t d = 0; d < t->devs.n_devices; d++)
        strncpy(mine.bus[d], t->devs.backend->bus(t->devs.devices[d].dev), PG_BUS - 1);
    PG_TRY(pg__comm_gather(c, &mine, all, sizeof mine, "the ranks' GPUs", err));
    for (size_t k = 0; k < pg__comm_size(c); k++) {
        among->first += k < pg__rank_of(t->ranks) ? (size_t)all[k].n : 0;
        among->n_all += (size_t)all[k].n;
    }
    PG_TRY(pg__ranks_agree(t->ranks, check_places(t, all, err), err));
    st = t->devs.backend->group.id(pg__rank_of(t->ranks) == 0 ? among->id : NULL, err);
    if (st == PG_E_UNSUPPORTED) {
        pg_err_set(err, "cpu_merge", "%s", "");
        pg_err_arg(err, "note", "sums without it");
    }
    PG_TRY(pg__ranks_agree(t->ranks, st, err));
    PG_TRY(pg__comm_broadcast(c, among->id, sizeof among->id, "NCCL's id", err));
done:
    pg__mem_free(all);
    return st;
}

pg_status pg__ranks_group(pg_trainer *t, pg_err *err)
{
    pg__group_place among = {.first = 0};
    pg__dev *devs[PG_MAX_REPLICAS];
    pg_status st = PG_OK;
    if (!t->ranks || !pg__sums_by_group(&t->sums.facts))
        return PG_OK;
    PG_TRY(find_place(t, &among, err));
    among.timeout = pg__ranks_timeout(t->ranks);
    for (size_t d = 0; d < t->devs.n_devices; d++)
        devs[d] = t->devs.devices[d].dev;
    st = t->devs.backend->group.new(&t->sums.group, devs, t->devs.n_devices, &among, err);
    st = pg__ranks_blame(t->ranks, st, err);
done:
    return st;
}

/* ---- failing ---- */

#define LOOKS                                                                           \
    100 /* times 10 ms: NCCL may notice that a process is gone before its rank is known \
         */

pg_status pg__ranks_blame(struct pg__ranks *ranks, pg_status st, pg_err *err)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    pg__comm *c = ranks ? ranks->comm : NULL;
    if (!c || (st != PG_E_DEVICE && st != PG_E_PEER) || pg__comm_is_over(c))
        return st;
    for (int k = 0; k < LOOKS && !(st == PG_E_PEER ? pg__comm_ends(c) : is_gone(c)); k++)
        (void)nanosleep(&nap, NULL);
    return st == PG_E_PEER || is_gone(c) ? pg__comm_missed(c, what, err) : st;
}

/* ---- through the hosts ---- */

#define PIECE ((size_t)1 << 24) /* numbers summed at once */

/* Sums in MPI's order. */
static pg_status sum_pieces(pg_trainer *t, char *mem, size_t n, pg_err *err)
{
    const size_t each = t->devs.backend->real_bytes;
    pg_status st = PG_OK;
    for (size_t at = 0; at < n && st == PG_OK; at += PIECE) {
        pg__comm_sum_of sum = {.mem = mem + at * each,
                               .n = n - at < PIECE ? n - at : PIECE,
                               .real_bytes = each,
                               .to = PG_TO_ALL};
        st = pg__comm_sum_begin(t->ranks->comm, &sum, what, err);
        if (st == PG_OK)
            st = pg__comm_sums_wait(t->ranks->comm, &sum, 1, what, err);
    }
    return st;
}

pg_status pg__ranks_sum_hosts(pg_trainer *t, pg__flat **sum, pg_err *err)
{
    pg__ranks *r = t->ranks;
    pg__flat *on = *sum ? *sum : &t->devs.devices[0].incoming;
    pg__dev *dev = t->devs.devices[on->device].dev;
    const size_t n = (size_t)t->vars.offsets[t->vars.n_params],
                 bytes = n * t->devs.backend->real_bytes;
    int has = *sum != NULL;
    pg_status st = PG_OK;
    if (!r->staging)
        PG_TRY(t->devs.backend->host_alloc(t->devs.dev, &r->staging, 2 * bytes, err));
    char *mem = r->staging;
    if (has)
        PG_TRY(
            pg__device_failed(&t->devs, dev, t->devs.backend->get(dev, mem, on->mem, bytes), err));
    else
        memset(mem, 0, bytes);
    if (t->sums.plan.in_tree)
        PG_TRY(pg__comm_tree_sum(r->comm, mem, mem + bytes, n, t->devs.backend->real_bytes, &has,
                                 what, err));
    else
        PG_TRY(sum_pieces(t, mem, n, err));
    *sum = has || !t->sums.plan.in_tree ? on : NULL;
    if (!*sum)
        goto done;
    st = t->devs.backend->put(dev, on->mem, mem, bytes);
    if (st == PG_OK)
        st = t->devs.backend->sync(dev);
    PG_TRY(pg__device_failed(&t->devs, dev, st, err));
done:
    return st;
}
