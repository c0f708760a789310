/* ranks.c - see ranks.h. */
#include "train/step/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"
#include "base/watch.h"
#include "pg/pg.h"
#include "train/rules/rules.h"
#include "train/step/devices.h"
#include "train/step/mixed.h"
#include "train/step/model_parallel.h"
#include "train/step/optimizer_shard.h"
#include "train/step/powersgd.h"
#include "train/step/ranks_devices.h"

/* ---- joining ---- */

static pg_status read_compression(pg__compression *out, const char *text, pg_err *err)
{
    pg__settings s = {.root = NULL};
    pg_status st = PG_OK;
    PG_TRY(pg__settings_of(&s, text, err));
    if (strcmp(s.name.s, "powersgd") == 0) {
        out->factor_rank = 4;
        PG_TRY(pg__settings_count(&s, "rank", &out->factor_rank, err));
        if (out->factor_rank == 0 || out->factor_rank > PG_MAX_FACTOR_RANK)
            PG_FAIL(PG_E_ARG, "rank is from 1 to %u", PG_MAX_FACTOR_RANK);
    } else if (strcmp(s.name.s, "bfloat16") == 0) {
        out->as_bf16 = 1;
    } else {
        PG_FAIL(PG_E_ARG, "%s is not known; there are bfloat16 and powersgd:rank=4",
                PG_SHOW(s.name.s));
    }
    PG_TRY(pg__settings_end(&s, err));
done:
    pg__settings_fini(&s);
    if (st == PG_E_ARG)
        pg_err_prefix(err, "compress");
    return st;
}

pg_status pg__ranks_join(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    const pg__comm_opts opts = {
        .timeout = o->comm_timeout, .cancel = o->cancel, .on_gpus = pg__are_gpus(o->devices)};
    pg__comm *comm = NULL;
    pg__compression compression = {0};
    pg_status st = PG_OK;
    if (o->compress)
        PG_TRY(read_compression(&compression, o->compress, err));
    if (!o->joins_job)
        return PG_OK;
    PG_TRY(pg__comm_open(&comm, &opts, err));
    if (!comm && o->compress && !o->for_prediction)
        PG_TRY(pg__strs_printf(&t->report.notes, err,
                               "compress: this process is alone, so no gradients are sent"));
    if (!comm)
        return o->shard_optimizer && !o->for_prediction
                   ? pg__strs_printf(&t->report.notes, err,
                                     "shard-optimizer: this process is alone and keeps all of the "
                                     "optimizer's state%s",
                                     opts.on_gpus ? "" : "; mpirun -np N divides it")
                   : PG_OK;
    t->ranks = pg__mem_array(1, sizeof *t->ranks);
    if (!t->ranks)
        PG_TRY(pg__nomem(err));
    t->ranks->comm = comm;
    t->ranks->cancel = o->cancel;
    t->ranks->shards = o->shard_optimizer;
    t->ranks->compression = compression;
    comm = NULL;
    const size_t n = pg__comm_size(t->ranks->comm);
    t->ranks->first_replica = pg__mem_array(n + 1, sizeof *t->ranks->first_replica);
    t->ranks->first_lane = pg__mem_array(n + 1, sizeof *t->ranks->first_lane);
    if (!t->ranks->first_replica || !t->ranks->first_lane)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__sums_open(t->ranks, err));
done:
    pg__comm_close(comm);
    return st;
}

void pg__ranks_leave(pg_trainer *t)
{
    pg__ranks *r = t->ranks;
    if (!r)
        return;
    if (r->comm)
        pg__comm_forget_sums(r->comm);
    if (t->devs.dev) {
        pg__flat_free(&t->devs, &r->own);
        if (r->staging)
            t->devs.backend->host_free(t->devs.dev, r->staging);
    }
    pg__sums_close(t->ranks);
    pg__powersgd_free(r->powersgd);
    pg__comm_close(r->comm);
    pg__mem_free(r->first_replica);
    pg__mem_free(r->first_lane);
    pg__mem_free(r->shares);
    pg__strs_fini(&r->compared);
    for (size_t k = 0; k < PG_MAX_SLOTS; k++)
        pg__mem_free(r->windows[k].mem);
    pg__mem_free(r);
    t->ranks = NULL;
}

size_t pg_job_rank(size_t *n_ranks)
{
    const pg__job_place p = pg__job_place_of();
    if (n_ranks)
        *n_ranks = p.size;
    return p.rank;
}

/* Other ranks may be on GPUs, which only need an address to connect, so this one joins the same
 * way. */
pg_status pg_job_refuse(pg_err *err)
{
    const pg__comm_opts opts = {.timeout = 30, .on_gpus = 1};
    return err->code == PG_OK ? PG_OK : pg__comm_refuse(&opts, err->code, err);
}

pg_status pg__ranks_known(struct pg__ranks *ranks, pg_status st, pg_err *err)
{
    const int is_own = st == PG_E_NOMEM || st == PG_E_LIMIT; /* the other ranks do not know */
    if (st == PG_OK || st == PG_E_PEER || is_own)
        return st;
    ranks->has_agreed = 1;
    if (pg__rank_of(ranks) > 0 && err)
        *err = (pg_err){.code = st};
    return st;
}

/* ---- sharing the work ---- */

typedef struct share {
    uint64_t n_replicas, cores; /* a hash of the set of cores */
    uint64_t n_devices, how;    /* how gradients are summed: 1 deterministic, 2 cpu_merge */
    char backend[16];
} share;

/* 0: not known. */
static uint64_t number_of_cores(void)
{
#ifdef PG_PORTABLE
    return 0;
#else
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    return pg__crc32(0, &set, sizeof set);
#endif
}

static pg_status check_tree(const pg_trainer *t, pg_err *err)
{
    const pg__ranks *r = t->ranks;
    const size_t n = pg__comm_size(r->comm), all = t->pool.cut.n_replicas;
    int fits = (n & (n - 1)) == 0 && (all & (all - 1)) == 0;
    for (size_t k = 0; k < n; k++)
        fits = fits && (r->first_replica[k + 1] - r->first_replica[k]) * n == all;
    if (fits)
        return PG_OK;
    (void)pg_fail(err, PG_E_UNSUPPORTED,
                  "deterministic: %zu ranks with %zu devices in all; the order of sums requires "
                  "powers of two, and equally many devices on each rank",
                  n, all);
    pg_err_do(err, PG_DO_LAUNCH_RANKS, NULL);
    pg_err_arg(err, "ranks", "%zu", pg__tree_top(n) > n ? pg__tree_top(n) / 2 : n);
    return PG_E_UNSUPPORTED;
}

/* Rounded numbers are summed by halving and doubling, over MPI. Errors that are made up for later
 * are a rank's own, so results depend on the ranks. */
static pg_status check_compression(const pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    const size_t n = pg__comm_size(t->ranks->comm);
    if (o->deterministic)
        return pg_fail(err, PG_E_ARG,
                       "compress: each process sends its own gradients rounded, so results depend "
                       "on their number; deterministic excludes it");
    if (o->shard_optimizer)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "compress: not with a divided optimizer (shard_optimizer); choose one");
    if (!t->devs.backend->host_memory || t->devs.backend->real_bytes != sizeof(float))
        return pg_fail(err, PG_E_UNSUPPORTED, "compress: only float32 sums of CPUs; leave it out");
    if (t->ranks->compression.as_bf16 && (n & (n - 1)))
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "compress: %zu processes; bfloat16 requires a power of two", n);
    return PG_OK;
}

/* Launchers that provide only an address work for GPUs, which sum by themselves. */
static pg_status check_launcher(const pg__trainer_devs *devs, pg_err *err)
{
    if (pg__job_place_of().by != PG_TORCHRUN || !devs->backend->host_memory)
        return PG_OK;
    return pg__comm_needs_mpi(PG_TORCHRUN, err);
}

pg_status pg__ranks_deal(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg__ranks *r = t->ranks;
    share mine = {.n_replicas = t->pool.cut.n_replicas,
                  .cores = number_of_cores(),
                  .n_devices = t->devs.n_devices,
                  .how = (uint64_t)(o->deterministic != 0) + 2 * (uint64_t)(o->cpu_merge != 0) +
                         4 * (uint64_t)(o->gpu_tune != 0)},
          *all = NULL;
    pg_status st = PG_OK;
    if (!r)
        return PG_OK;
    const size_t n = pg__comm_size(r->comm), rank = pg__comm_rank(r->comm);
    snprintf(mine.backend, sizeof mine.backend, "%s", t->devs.backend->name);
    all = pg__mem_array(n, sizeof *all);
    if (!all)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__comm_gather(r->comm, &mine, all, sizeof mine, "the ranks' devices", err));
    for (size_t k = 0; k < n; k++) {
        t->sums.facts.one_each &= all[k].n_devices == all[k].n_replicas;
        if (all[k].how != all[0].how)
            PG_FAIL(
                PG_E_MISMATCH,
                "rank 0 on %s and rank %zu on %s differ in deterministic, cpu_merge or gpu_tune",
                pg__comm_host(r->comm, 0), k, pg__comm_host(r->comm, k));
        if (memcmp(all[k].backend, mine.backend, sizeof mine.backend) != 0)
            PG_FAIL(PG_E_UNSUPPORTED,
                    "devices: %s on rank 0, %.16s on rank %zu: they cannot share a batch",
                    all[0].backend, all[k].backend, k);
        r->first_replica[k + 1] = r->first_replica[k] + (size_t)all[k].n_replicas;
        r->n_sharing += all[k].cores == mine.cores &&
                        strcmp(pg__comm_host(r->comm, k), pg__comm_host(r->comm, rank)) == 0;
    }
    if (r->shards && !t->devs.backend->host_memory)
        PG_FAIL(PG_E_UNSUPPORTED, "shard-optimizer: not on GPUs; leave it out");
    if (o->compress)
        PG_TRY(check_compression(t, o, err));
    t->pool.cut.n_here = t->pool.cut.n_replicas;
    t->pool.cut.first_here = r->first_replica[rank];
    t->pool.cut.n_replicas = r->first_replica[n];
    PG_TRY(check_launcher(&t->devs, err));
    if (o->deterministic)
        PG_TRY(check_tree(t, err));
done:
    pg__mem_free(all);
    return pg__ranks_known(t->ranks, st, err);
}

/* In the deterministic mode lanes are numbered over all ranks; else each rank numbers its own. */
pg_status pg__ranks_seat(pg_trainer *t, pg_err *err)
{
    pg__ranks *r = t->ranks;
    uint64_t *all = NULL;
    pg_status st = PG_OK;
    if (!r)
        return PG_OK;
    const size_t n = pg__comm_size(r->comm);
    uint64_t mine = t->pool.cut.n_workers;
    for (size_t k = 0; k < t->pool.cut.n_lanes; k++)
        mine = (k == 0 ? 0 : mine) +
               (pg__lane_of(&t->pool.cut, t->pool.cut.n_lanes, k).worker != PG_NO_WORKER);
    all = pg__mem_array(n, sizeof *all);
    if (!all)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__comm_gather(r->comm, &mine, all, sizeof mine, "the ranks' lanes", err));
    for (size_t k = 0; k < n; k++) {
        r->first_lane[k + 1] = r->first_lane[k] + (size_t)all[k];
        r->most_lanes = all[k] > r->most_lanes ? (size_t)all[k] : r->most_lanes;
    }
done:
    pg__mem_free(all);
    return st;
}

/* ---- the same everywhere ---- */

/* What has to be equal, in the order in which differences are reported. */
typedef struct sameness {
    uint64_t version, model, options, isa;
} sameness;

static uint64_t hash_text(uint64_t h, const char *s)
{
    return pg__crc32((uint32_t)h, s ? s : "", s ? strlen(s) + 1 : 0);
}

static sameness sameness_of(const pg_trainer *t, const pg_train_opts *o)
{
    const double numbers[] = {
        (double)o->seed,          o->deterministic,   (double)t->pool.cut.n_lanes,
        t->net.bn_sync,           t->net.precision,   (double)t->compiled.optimizer.lr,
        (double)t->vars.n_params, o->shard_optimizer, t->net.quantizes};
    sameness s = {.version = hash_text(0, pg_version()),
                  .model = hash_text(0, t->net.graph->text),
                  .options = pg__crc32(0, numbers, sizeof numbers)};
    const char *const texts[] = {t->compiled.optimizer.name,
                                 o->optimizer,
                                 o->optimizer_json,
                                 o->schedule,
                                 o->loss,
                                 o->loss_weights,
                                 o->metrics,
                                 o->weighted_metrics,
                                 o->freeze,
                                 o->replace_head,
                                 o->rules,
                                 o->compress};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        s.options = hash_text(s.options, texts[i]);
    if (o->deterministic)
        s.isa = hash_text(0, pg__mixed_kind(t));
    return s;
}

static pg_status check_same(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    static const char *const what[] = {"versions of libpg", "models", "options",
                                       "instruction sets or GPUs (bits would differ)"};
    const sameness mine = sameness_of(t, o);
    const size_t n = pg__comm_size(t->ranks->comm);
    sameness *all = pg__mem_array(n, sizeof *all);
    pg_status st = PG_OK;
    if (!all)
        return pg__nomem(err);
    PG_TRY(pg__comm_gather(t->ranks->comm, &mine, all, sizeof mine, "what the ranks train", err));
    for (size_t k = 1; k < n; k++) {
        const uint64_t *a = &all[0].version, *b = &all[k].version;
        for (size_t i = 0; i < sizeof what / sizeof *what; i++)
            if (a[i] != b[i])
                PG_FAIL(PG_E_MISMATCH, "rank 0 on %s and rank %zu on %s have different %s",
                        pg__comm_host(t->ranks->comm, 0), k, pg__comm_host(t->ranks->comm, k),
                        what[i]);
    }
done:
    pg__mem_free(all);
    return st;
}

pg_status pg__ranks_same_run(pg_trainer *t, const pg_fit_opts *o, pg_err *err)
{
    const double numbers[] = {(double)o->batch_size,
                              (double)o->epochs,
                              (double)o->initial_epoch,
                              (double)o->steps_per_epoch,
                              (double)o->validation_steps,
                              (double)o->validation_freq,
                              (double)o->accumulate,
                              o->validation_split,
                              (double)o->seed,
                              o->no_shuffle,
                              o->shuffle_batches,
                              o->reset_states,
                              o->terminate_on_nan,
                              o->validation != NULL,
                              o->resume,
                              (double)o->n_callbacks,
                              o->trace != NULL,
                              (double)o->trace_first,
                              (double)o->trace_last};
    uint64_t mine = 0, *all = NULL;
    pg_status st = PG_OK;
    if (!t->ranks)
        return PG_OK;
    mine = hash_text(pg__crc32(0, numbers, sizeof numbers), o->class_weight);
    for (size_t i = 0; i < o->n_callbacks; i++)
        mine = hash_text(mine, o->callbacks[i]);
    const pg__comm *c = t->ranks->comm;
    all = pg__mem_array(pg__comm_size(c), sizeof *all);
    if (!all)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__comm_gather(t->ranks->comm, &mine, all, sizeof mine, "what the ranks run", err));
    for (size_t k = 1; k < pg__comm_size(c); k++)
        if (all[k] != all[0])
            PG_FAIL(PG_E_MISMATCH,
                    "rank 0 on %s and rank %zu on %s have different batches, epochs or callbacks",
                    pg__comm_host(c, 0), k, pg__comm_host(c, k));
done:
    pg__mem_free(all);
    return pg__ranks_known(t->ranks, st, err);
}

/* Sends rank 0's flat to all. */
static pg_status share_flat(pg_trainer *t, pg__flat *f, pg_err *err)
{
    const size_t n = (size_t)t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes;
    char *values = NULL;
    pg_status st = PG_OK;
    if (!f->mem && !f->parts)
        return PG_OK;
    values = pg__mem_array(n, 1);
    if (!values)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__flat_get(t, values, f, err));
    PG_TRY(pg__comm_broadcast(t->ranks->comm, values, n, "the weights of rank 0", err));
    PG_TRY(pg__flat_put(t, f, 0, values, n, err));
done:
    pg__mem_free(values);
    return st;
}

pg_status pg__ranks_begin(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    pg_status st = PG_OK;
    if (!t->ranks)
        return PG_OK;
    PG_TRY(pg__ranks_known(t->ranks, check_same(t, o, err), err));
    PG_TRY(share_flat(t, &t->vars.params, err));
    for (size_t s = 0; s < PG_MAX_SLOTS && !pg__is_sharded(t->ranks); s++)
        PG_TRY(share_flat(t, &t->vars.slots[s], err));
    PG_TRY(pg__ranks_known(t->ranks, pg__opt_shard_same(t->ranks, err), err));
    PG_TRY(pg__comm_broadcast(t->ranks->comm, &t->compiled.optimizer.iterations,
                              sizeof t->compiled.optimizer.iterations, "the steps of rank 0", err));
    t->vars.version++;
done:
    return st;
}

/* ---- failing and stopping ---- */

size_t pg__rank_of(const struct pg__ranks *ranks)
{
    return ranks ? pg__comm_rank(ranks->comm) : 0;
}

pg_status pg__ranks_agree(struct pg__ranks *ranks, pg_status st, pg_err *err)
{
    if (!ranks)
        return st;
    st = pg__comm_agree(ranks->comm, st, err);
    if (st == PG_OK || st == PG_E_PEER)
        return st;
    ranks->has_agreed = 1;
    if (pg__rank_of(ranks) > 0 && err)
        *err = (pg_err){.code = st};
    return st;
}

void pg__ranks_begin_call(pg_trainer *t, const volatile int *cancel)
{
    if (!t->ranks)
        return;
    t->ranks->has_agreed = t->ranks->stops = 0;
    pg__strs_fini(&t->ranks->compared);
    t->ranks->cancel = cancel ? cancel : t->ranks->cancel;
}

pg_status pg_trainer_agree(pg_trainer *t, pg_status st, pg_err *err)
{
    return pg__ranks_agree(t->ranks, st, err);
}

pg_status pg__ranks_fail(struct pg__ranks *ranks, pg_status st, pg_err *err)
{
    char who[96];
    if (!ranks || st == PG_OK || st == PG_E_PEER || ranks->has_agreed)
        return st;
    if (st == PG_E_CANCELLED && ranks->stops) {
        if (pg__rank_of(ranks) > 0 && err)
            *err = (pg_err){.code = st};
        return st;
    }
    snprintf(who, sizeof who, "rank %zu on %s", pg__rank_of(ranks),
             pg__comm_host(ranks->comm, pg__rank_of(ranks)));
    pg_err_prefix(err, who);
    pg__comm_abandon(ranks->comm);
    return st;
}

int pg__must_stop(const struct pg__ranks *ranks, const volatile int *cancel)
{
    return ranks ? ranks->stops : pg__cancelled(cancel);
}

pg_status pg__ranks_any(pg_trainer *t, int *found, pg_err *err)
{
    const unsigned char mine = (unsigned char)(*found != 0);
    unsigned char *all = NULL;
    pg_status st = PG_OK;
    if (!t->ranks)
        return PG_OK;
    const size_t n = pg__comm_size(t->ranks->comm);
    all = pg__mem_array(n, 1);
    if (!all)
        return pg__nomem(err);
    PG_TRY(pg__comm_gather(t->ranks->comm, &mine, all, 1, "what the ranks found", err));
    for (size_t k = 0; k < n; k++)
        *found |= all[k];
done:
    pg__mem_free(all);
    return st;
}

pg_status pg__ranks_found(struct pg__ranks *ranks, const char *file, int found, uint32_t mark,
                          pg_err *err)
{
    const uint64_t mine = found ? (uint64_t)1 << 32 | mark : 0;
    uint64_t *all = NULL;
    pg_status st = PG_OK;
    if (!ranks)
        return PG_OK;
    const pg__comm *c = ranks->comm;
    all = pg__mem_array(pg__comm_size(c), sizeof *all);
    if (!all)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__comm_gather(ranks->comm, &mine, all, sizeof mine, "the state to resume", err));
    for (size_t k = 1; k < pg__comm_size(c); k++)
        if (all[k] != all[0]) {
            const size_t has = all[0] ? 0 : k, lacks = all[0] ? k : 0;
            if (all[lacks])
                (void)pg_fail(err, PG_E_MISMATCH,
                              "%s: holds another state on %s (rank 0) than on %s (rank %zu)",
                              PG_SHOW(file), pg__comm_host(c, 0), pg__comm_host(c, k), k);
            else
                (void)pg_fail(err, PG_E_MISMATCH,
                              "%s: exists on %s (rank %zu), not on %s (rank %zu)", PG_SHOW(file),
                              pg__comm_host(c, has), has, pg__comm_host(c, lacks), lacks);
            pg_err_set(err, "resume_file", "%s", "");
            pg_err_arg(err, "note", "in a folder that all machines share");
            st = PG_E_MISMATCH;
            goto done;
        }
done:
    pg__mem_free(all);
    return pg__ranks_known(ranks, st, err);
}

pg_status pg__ranks_where(struct pg__ranks *ranks, char where[256], pg_err *err)
{
    char *all = NULL;
    pg_status st = PG_OK;
    if (!ranks)
        return PG_OK;
    const size_t n = pg__comm_size(ranks->comm);
    all = pg__mem_array(n, 256);
    if (!all)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__comm_gather(ranks->comm, where, all, 256, "where NaN began", err));
    for (size_t k = n; k-- > 0;)
        if (all[256 * k])
            memcpy(where, all + 256 * k, 256);
done:
    pg__mem_free(all);
    return st;
}

/* ---- where the time went ---- */

double pg__ranks_waited(const struct pg__ranks *ranks)
{
    return ranks ? pg__comm_waited(ranks->comm) : 0;
}

pg_status pg__ranks_shares(pg_trainer *t, pg_fit_report *to, pg_err *err)
{
    const pg__spent *s = &t->report.spent;
    const double busy = s->step + s->input;
    const double waited = pg__ranks_waited(t->ranks) - s->waited;
    pg_rank_share mine = {.input = s->input};
    pg_status st = PG_OK;
    if (!t->ranks)
        return PG_OK;
    const pg__comm *c = t->ranks->comm;
    if (!t->ranks->shares)
        t->ranks->shares = pg__mem_array(pg__comm_size(c), sizeof *t->ranks->shares);
    if (!t->ranks->shares)
        PG_TRY(pg__nomem(err));
    snprintf(mine.host, sizeof mine.host, "%s", pg__comm_host(c, pg__rank_of(t->ranks)));
    mine.exchange = s->exchange;
    mine.compute = s->step - s->exchange;
    mine.waiting = waited > s->exchange ? waited - s->exchange : 0;
    if (mine.waiting > mine.compute) /* within steps: others wait between steps, too */
        mine.waiting = mine.compute;
    mine.compute -= mine.waiting;
    for (double *v = &mine.compute; v <= &mine.input && busy > 0; v++)
        *v /= busy;
    PG_TRY(pg__comm_gather(t->ranks->comm, &mine, t->ranks->shares, sizeof mine,
                           "where the time went", err));
    to->ranks = t->ranks->shares;
    to->n_ranks = pg__comm_size(c);
done:
    return st;
}
