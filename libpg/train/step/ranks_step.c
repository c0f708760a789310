/* ranks_step.c - what ranks exchange within a step, apart from gradients: numbers of lanes, packed
 * one after the other, so that all ranks sum the same numbers in the same order. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/exec/exec.h"
#include "train/step/devices.h"
#include "train/step/ranks_step.h"
#include "train/step/states.h"

size_t pg__all_lanes(const pg_trainer *t)
{
    return t->ranks && t->pool.cut.n_lanes == 0
               ? t->ranks->first_lane[pg__comm_size(t->ranks->comm)]
               : pg__lane_count(&t->pool.cut);
}

size_t pg__first_lane(const pg_trainer *t)
{
    return t->ranks && t->pool.cut.n_lanes == 0 ? t->ranks->first_lane[pg__rank_of(t->ranks)] : 0;
}

/* The job of this rank's k-th lane in the part. */
static pg__job *own_job(const pg__step *s, size_t part, size_t k)
{
    const pg_trainer *t = s->t;
    const size_t first = t->pool.cut.n_lanes ? t->ranks->first_lane[pg__rank_of(t->ranks)] : 0;
    return &s->jobs[part * s->n_lanes + first + k];
}

static size_t n_own(const struct pg__ranks *ranks)
{
    const size_t *first = ranks->first_lane + pg__rank_of(ranks);
    return first[1] - first[0];
}

/* *all: n_bytes from every rank; freed by the caller. */
static pg_status gather(struct pg__ranks *ranks, const void *mine, size_t n_bytes, void **all,
                        const char *what, pg_err *err)
{
    *all = pg__mem_array(pg__comm_size(ranks->comm), n_bytes ? n_bytes : 1);
    return *all ? pg__comm_gather(ranks->comm, mine, *all, n_bytes, what, err) : pg__nomem(err);
}

/* ---- masks ---- */

/* Counts: they are whole numbers, so the order does not matter. */
pg_status pg__ranks_masks(pg_trainer *t, pg__mask_sum *sums, pg_err *err)
{
    const size_t n = t->net.n_outputs;
    pg__mask_sum *all = NULL;
    void *got = NULL;
    pg_status st = PG_OK;
    if (!t->ranks)
        return PG_OK;
    PG_TRY(gather(t->ranks, sums, n * sizeof *sums, &got, "the masks", err));
    all = got;
    memset(sums, 0, n * sizeof *sums);
    for (size_t i = 0; i < n * pg__comm_size(t->ranks->comm); i++)
        pg__mask_sum_add(&sums[i % n], &all[i]);
done:
    pg__mem_free(got);
    return st;
}

/* ---- losses and metrics ---- */

static size_t totals_size(const pg_trainer *t)
{
    return 2 * t->net.n_outputs + t->compiled.n_metric_state + 1;
}

static void pack_totals(const pg_trainer *t, const pg__totals *from, double *to)
{
    memcpy(to, from->loss_sums, t->net.n_outputs * sizeof *to);
    memcpy(to + t->net.n_outputs, from->loss_counts, t->net.n_outputs * sizeof *to);
    memcpy(to + 2 * t->net.n_outputs, from->metrics, t->compiled.n_metric_state * sizeof *to);
    to[2 * t->net.n_outputs + t->compiled.n_metric_state] = from->penalty_sum; /* of activities */
}

static void unpack_totals(const pg_trainer *t, pg__totals *to, const double *from)
{
    memcpy(to->loss_sums, from, t->net.n_outputs * sizeof *from);
    memcpy(to->loss_counts, from + t->net.n_outputs, t->net.n_outputs * sizeof *from);
    memcpy(to->metrics, from + 2 * t->net.n_outputs, t->compiled.n_metric_state * sizeof *from);
    to->penalty_sum = from[2 * t->net.n_outputs + t->compiled.n_metric_state];
}

/* Each rank's first job has the sum of all its jobs. */
static void add_ranks(pg__step *s, const double *all, size_t each)
{
    pg_trainer *t = s->t;
    const size_t n = pg__comm_size(t->ranks->comm), size = totals_size(t);
    double *sum = s->numbers;
    memset(sum, 0, size * sizeof *sum);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < size; i++)
            sum[i] += all[k * each + 1 + i];
    unpack_totals(t, &s->jobs[0].totals, sum);
}

/* After the sum over parts; lanes are summed in the tree afterwards, or already were. */
pg_status pg__ranks_totals(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__ranks *r = t->ranks;
    const size_t size = totals_size(t), n_slots = t->pool.cut.n_lanes ? r->most_lanes : 1;
    const size_t each = 1 + n_slots * size, n = pg__comm_size(r->comm);
    double *mine = pg__mem_array(each, sizeof *mine);
    void *got = NULL;
    pg_status st = PG_OK;
    s->numbers = pg__mem_array(size, sizeof *s->numbers);
    if (!mine || !s->numbers)
        PG_TRY(pg__nomem(err));
    mine[0] = r->cancel && __atomic_load_n(r->cancel, __ATOMIC_RELAXED);
    for (size_t k = 0; k < (t->pool.cut.n_lanes ? n_own(t->ranks) : 1); k++)
        pack_totals(t, &own_job(s, 0, k)->totals, mine + 1 + k * size);
    PG_TRY(gather(t->ranks, mine, each * sizeof *mine, &got, "the loss", err));
    const double *all = got;
    for (size_t k = 0; k < n; k++)
        r->stops |= all[k * each] != 0;
    if (t->pool.cut.n_lanes == 0)
        add_ranks(s, all, each);
    for (size_t k = 0; k < n && t->pool.cut.n_lanes; k++)
        for (size_t i = r->first_lane[k]; i < r->first_lane[k + 1]; i++)
            unpack_totals(t, &s->jobs[i].totals,
                          all + k * each + 1 + (i - r->first_lane[k]) * size);
done:
    pg__mem_free(mine);
    pg__mem_free(got);
    pg__mem_free(s->numbers);
    s->numbers = NULL;
    return st;
}

/* ---- moving averages ---- */

/* Of one replica or, if all are normalised together, of the one lane that stands for all. */
static size_t found_bytes(const pg_trainer *t)
{
    const pg__lowered *m = &t->net.built_params;
    size_t n = sizeof(uint64_t);
    for (size_t i = 0; i < m->n_moving; i++)
        n += t->vars.n_elems[m->moving[i].param] * t->devs.backend->real_bytes;
    return (n + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

static pg_status pack_found(const pg__step *s, const pg__job *job, char *to)
{
    pg_trainer *t = s->t;
    const pg__lowered *m = &t->net.built_params;
    const pg__frame f = {.params = t->vars.params.at,
                         .arena = job->arena->mem,
                         .lane = job->place,
                         .n_lanes = job->n_together,
                         .parts = t->devs.parts,
                         .dev = t->pool.workers[job->lane.worker].dev};
    pg_status st = PG_OK;
    memcpy(to, &(uint64_t){1}, sizeof(uint64_t));
    to += sizeof(uint64_t);
    for (size_t i = 0; i < m->n_moving && st == PG_OK; i++) {
        const size_t n = t->vars.n_elems[m->moving[i].param] * t->devs.backend->real_bytes;
        st = t->devs.backend->get(f.dev, to, pg__program_moving(job->program, &f, i), n);
        to += n;
    }
    return st;
}

/* Into the averages of every device, from the host's memory. */
static pg_status take_found(pg_trainer *t, const char *from, size_t replica, size_t n_replicas)
{
    const pg__lowered *m = &t->net.built_params;
    const void **found = pg__mem_array(m->n_moving, sizeof *found);
    if (!found)
        return PG_E_NOMEM;
    from += sizeof(uint64_t);
    for (size_t i = 0; i < m->n_moving; i++) {
        found[i] = from;
        from += t->vars.n_elems[m->moving[i].param] * t->devs.backend->real_bytes;
    }
    const pg_status st = pg__move_averages(t, t->devs.backend->host_memory ? t->devs.dev : NULL,
                                           found, replica, n_replicas);
    pg__mem_free(found);
    return st;
}

pg_status pg__ranks_averages(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__ranks *r = t->ranks;
    const size_t each = found_bytes(t), n_ranks = pg__comm_size(r->comm);
    size_t most = 1, n = 0, n_all = 0, at = 0;
    char *mine = NULL;
    void *got = NULL;
    pg_status st = PG_OK;
    if (t->net.built_params.n_moving == 0)
        return PG_OK;
    for (size_t k = 0; k < n_ranks; k++) {
        const size_t here = r->first_replica[k + 1] - r->first_replica[k];
        most = here > most ? here : most;
    }
    mine = pg__mem_array(most, each);
    if (!mine)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < n_own(t->ranks); k++) {
        const pg__job *job = own_job(s, s->part, k);
        if (pg__speaks(s, job))
            PG_TRY(pg__with_message(t, pack_found(s, job, mine + each * n++), err));
    }
    PG_TRY(gather(t->ranks, mine, most * each, &got, "the moving averages", err));
    const char *all = got;
    for (size_t k = 0; k < n_ranks * most; k++) {
        uint64_t is_there;
        memcpy(&is_there, all + k * each, sizeof is_there);
        n_all += is_there != 0;
    }
    n_all = t->net.bn_sync && n_all > 1 ? 1 : n_all; /* the first stands for all */
    for (size_t k = 0; k < n_ranks * most && at < n_all; k++) {
        uint64_t is_there;
        memcpy(&is_there, all + k * each, sizeof is_there);
        if (is_there)
            PG_TRY(pg__with_message(t, take_found(t, all + k * each, at++, n_all), err));
    }
done:
    pg__mem_free(mine);
    pg__mem_free(got);
    return st;
}

/* ---- meetings ---- */

pg_status pg__ranks_sync_bn(pg__step *s, size_t meeting, pg_err *err)
{
    pg_trainer *t = s->t;
    pg__ranks *r = t->ranks;
    pg__sync_bn *b = &s->sync_bn;
    const size_t place = meeting % 2 * b->n_lanes, n_ranks = pg__comm_size(r->comm);
    const size_t lane = 1 + (size_t)b->each, each = r->most_lanes * lane;
    const size_t *first = r->first_lane;
    double *mine = pg__mem_array(each, sizeof *mine);
    void *got = NULL;
    pg_status st = PG_OK;
    if (!mine)
        PG_TRY(pg__nomem(err));
    for (size_t k = 0; k < n_own(t->ranks); k++) {
        const size_t at = place + first[pg__rank_of(t->ranks)] + k;
        mine[k * lane] = b->there[at] != NULL;
        memcpy(mine + k * lane + 1, b->numbers + at * b->each, (size_t)b->each * sizeof *mine);
    }
    PG_TRY(gather(t->ranks, mine, each * sizeof *mine, &got, "the statistics of a batch", err));
    const double *all = got;
    for (size_t k = 0; k < n_ranks; k++)
        for (size_t i = 0; i < first[k + 1] - first[k] && k != pg__rank_of(t->ranks); i++) {
            const double *from = all + k * each + i * lane;
            const size_t at = place + first[k] + i;
            b->there[at] = from[0] != 0 ? &b->elsewhere : NULL;
            memcpy(b->numbers + at * b->each, from + 1, (size_t)b->each * sizeof *from);
        }
done:
    pg__mem_free(mine);
    pg__mem_free(got);
    return st;
}

/* ---- rows ---- */

/* To rank 0; mine: this rank's rows, rows: rank 0's memory for all. */
static pg_status move_rows(pg_trainer *t, uint64_t n_rows, void *mine, void *rows, size_t row_bytes,
                           const char *what, pg_err *err)
{
    pg__ranks *r = t->ranks;
    uint64_t place[2];
    void *got = NULL;
    pg_status st = PG_OK;
    pg__rows_here(&t->pool.cut, n_rows, &place[0], &place[1]);
    PG_TRY(gather(t->ranks, place, sizeof place, &got, what, err));
    const uint64_t *all = got;
    if (pg__rank_of(t->ranks) > 0)
        PG_TRY(pg__comm_move(r->comm, mine, (size_t)(place[1] - place[0]) * row_bytes,
                             pg__rank_of(t->ranks), 0, what, err));
    for (size_t k = 1; pg__rank_of(t->ranks) == 0 && k < pg__comm_size(r->comm); k++)
        PG_TRY(pg__comm_move(r->comm, (char *)rows + all[2 * k] * row_bytes,
                             (size_t)(all[2 * k + 1] - all[2 * k]) * row_bytes, k, 0, what, err));
done:
    pg__mem_free(got);
    return st;
}

/* Rank 0's own rows come first. */
pg_status pg__ranks_rows(pg_trainer *t, const pg__batch *b, void *rows, size_t row_bytes,
                         pg_err *err)
{
    return t->ranks ? move_rows(t, b->n_rows, rows, rows, row_bytes, "the predictions", err)
                    : PG_OK;
}

/* From device to device, through the hosts. Rank 0 keeps its own rows, which come first. */
static pg_status move_on_devices(pg_trainer *t, uint64_t n_rows, uint64_t first, uint64_t end,
                                 char *all, size_t row, pg_err *err)
{
    const size_t own = (size_t)first * row, others = (size_t)end * row;
    const size_t n = (size_t)n_rows * row;
    char *mem = pg__mem_array(n, 1);
    pg_status st = PG_OK;
    if (!mem)
        return pg__nomem(err);
    if (pg__rank_of(t->ranks) > 0 && end > first)
        PG_TRY(pg__with_message(
            t, t->devs.backend->get(t->devs.dev, mem + own, all + own, others - own), err));
    PG_TRY(move_rows(t, n_rows, mem + own, mem, row, "the states", err));
    if (pg__rank_of(t->ranks) == 0 && n > others)
        PG_TRY(pg__with_message(
            t, t->devs.backend->put(t->devs.dev, all + others, mem + others, n - others), err));
done:
    pg__mem_free(mem);
    return st;
}

pg_status pg__ranks_states(pg__step *s, pg_err *err)
{
    pg_trainer *t = s->t;
    const uint64_t left = s->batch->n_rows - s->part * t->loop.part_rows;
    const uint64_t n = t->loop.part_rows && t->loop.part_rows < left ? t->loop.part_rows : left;
    uint64_t first, end;
    pg_status st = PG_OK;
    if (!t->ranks || t->loop.is_trial)
        return PG_OK;
    pg__rows_here(&t->pool.cut, n, &first, &end);
    for (size_t k = 0; k < t->net.built_params.n_states && st == PG_OK; k++) {
        const size_t row = pg__state_row_bytes(t, k);
        char *all = t->loop.states[k];
        st = t->devs.backend->host_memory
                 ? move_rows(t, n, all + first * row, all, row, "the states", err)
                 : move_on_devices(t, n, first, end, all, row, err);
    }
    return st;
}
