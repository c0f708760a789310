/* optimizer_shard.c - see optimizer_shard.h. Only rank 0 writes files, and only it knows when (the
 * best epoch, a signal, a clock): so wherever it might, the others wait for its requests. It never
 * holds more than a window of their slots. */
#include "train/step/optimizer_shard.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"
#include "train/step/average.h"
#include "train/step/ranks.h"

#define GRAIN  16u                 /* elements: no two threads write one cache line */
#define WINDOW ((uint64_t)1 << 18) /* for each slot: files interleave the slots of a variable */
#define PIECE  ((uint64_t)1 << 30) /* bytes of a message */

static const char what[] = "the optimizer's state";

int pg__is_sharded(const struct pg__ranks *ranks)
{
    return ranks && ranks->shards;
}

int pg__opt_shard_whole_sums(const pg__trainer_compiled *compiled)
{
    const pg__optimizer *o = &compiled->optimizer;
    return o->clipnorm > 0 || o->global_clipnorm > 0;
}

/* ---- which rank has what ---- */

size_t pg__opt_shard_n_blocks(const pg__sums *sums)
{
    return sums->facts.in_tree ? 1 : sums->n_buckets;
}

void pg__opt_shard_piece(const pg_trainer *t, size_t block, size_t rank, uint64_t *from,
                         uint64_t *to)
{
    const size_t n_ranks = pg__comm_size(t->ranks->comm);
    if (t->sums.facts.in_tree) {
        size_t lo, hi;
        pg__comm_tree_own(rank, n_ranks, (size_t)t->vars.offsets[t->vars.n_params], &lo, &hi);
        *from = lo;
        *to = hi;
        return;
    }
    const uint64_t begin = t->vars.offsets[t->sums.buckets[block].first];
    const uint64_t n = (t->vars.offsets[t->sums.buckets[block].end] - begin) / GRAIN;
    *from = begin + n * rank / n_ranks * GRAIN;
    *to = begin + n * (rank + 1) / n_ranks * GRAIN;
}

uint64_t pg__opt_shard_bytes(const pg_trainer *t)
{
    uint64_t n = 0, from, to;
    for (size_t b = 0; b < pg__opt_shard_n_blocks(&t->sums); b++) {
        pg__opt_shard_piece(t, b, pg__rank_of(t->ranks), &from, &to);
        n += to - from;
    }
    return n * t->devs.backend->real_bytes;
}

/* ---- a slot ---- */

int pg__opt_shard_is(const pg_trainer *t, const pg__flat *f)
{
    return pg__is_sharded(t->ranks) && f >= t->vars.slots && f < t->vars.slots + PG_MAX_SLOTS;
}

static void fill(const pg__trainer_devs *devs, pg__flat *f, uint64_t from, uint64_t to,
                 double value)
{
    if (devs->backend->real_bytes == sizeof(double)) {
        for (uint64_t i = from; i < to; i++)
            ((double *)f->mem)[i] = value;
    } else {
        for (uint64_t i = from; i < to; i++)
            ((float *)f->mem)[i] = (float)value;
    }
}

pg_status pg__opt_shard_alloc(pg_trainer *t, pg__flat *f, double value, pg_err *err)
{
    const size_t bytes = t->devs.backend->real_bytes;
    uint64_t from, to;
    f->at = pg__mem_array(t->vars.n_params, sizeof *f->at);
    f->mem = pg__mem_bare((size_t)t->vars.offsets[t->vars.n_params] * bytes);
    if (!f->at || !f->mem)
        return pg__nomem(err);
    for (size_t i = 0; i < t->vars.n_params; i++)
        f->at[i] = (char *)f->mem + t->vars.offsets[i] * bytes;
    for (size_t b = 0; b < pg__opt_shard_n_blocks(&t->sums); b++) {
        pg__opt_shard_piece(t, b, pg__rank_of(t->ranks), &from, &to);
        fill(&t->devs, f, from, to, value);
    }
    return PG_OK;
}

void pg__opt_shard_put(pg_trainer *t, pg__flat *f, uint64_t at, const void *from, size_t n)
{
    const uint64_t bytes = t->devs.backend->real_bytes;
    uint64_t lo, hi;
    t->ranks->mark = pg__crc32(t->ranks->mark, from, n);
    for (size_t b = 0; b < pg__opt_shard_n_blocks(&t->sums); b++) {
        pg__opt_shard_piece(t, b, pg__rank_of(t->ranks), &lo, &hi);
        lo = lo * bytes > at ? lo * bytes : at;
        hi = hi * bytes < at + n ? hi * bytes : at + n;
        if (lo < hi)
            memcpy((char *)f->mem + lo, (const char *)from + (lo - at), (size_t)(hi - lo));
    }
}

pg_status pg__opt_shard_same(struct pg__ranks *ranks, pg_err *err)
{
    uint32_t *all = NULL;
    pg_status st = PG_OK;
    if (!pg__is_sharded(ranks))
        return PG_OK;
    const pg__comm *c = ranks->comm;
    all = pg__mem_array(pg__comm_size(c), sizeof *all);
    if (!all)
        return pg__nomem(err);
    PG_TRY(pg__comm_gather(ranks->comm, &ranks->mark, all, sizeof *all, what, err));
    for (size_t k = 1; k < pg__comm_size(c); k++)
        if (all[k] != all[0])
            PG_FAIL(PG_E_MISMATCH,
                    "rank 0 on %s and rank %zu on %s found different weights or optimizer states; "
                    "give all of them the same files",
                    pg__comm_host(c, 0), k, pg__comm_host(c, k));
done:
    pg__mem_free(all);
    return st;
}

/* ---- to all ---- */

/* Pieces of all ranks in all blocks, in the same order everywhere; empty ones are left out. */
static pg_status pieces_of(const pg_trainer *t, const pg__flat *f, pg__comm_piece **out, size_t *n,
                           pg_err *err)
{
    const size_t n_ranks = pg__comm_size(t->ranks->comm), bytes = t->devs.backend->real_bytes;
    uint64_t from, to;
    size_t cap = 0;
    *n = 0;
    for (size_t b = 0; b < pg__opt_shard_n_blocks(&t->sums); b++)
        for (size_t k = 0; k < n_ranks; k++) {
            pg__opt_shard_piece(t, b, k, &from, &to);
            for (uint64_t at = from * bytes; at < to * bytes; at += PIECE) {
                const uint64_t left = to * bytes - at;
                if (pg__mem_grow(out, &cap, *n + 1, sizeof **out))
                    return pg__nomem(err);
                (*out)[(*n)++] = (pg__comm_piece){.mem = (char *)f->mem + at,
                                                  .n_bytes = (size_t)(left < PIECE ? left : PIECE),
                                                  .from = k};
            }
        }
    return PG_OK;
}

pg_status pg__opt_shard_gather(pg_trainer *t, const pg__flat *f, const char *of, pg_err *err)
{
    pg__comm_piece *pieces = NULL;
    size_t n = 0;
    pg_status st = PG_OK;
    if (t->sums.facts.in_tree)
        return pg__comm_tree_double(t->ranks->comm, f->mem,
                                    (size_t)t->vars.offsets[t->vars.n_params],
                                    t->devs.backend->real_bytes, of, err);
    PG_TRY(pieces_of(t, f, &pieces, &n, err));
    PG_TRY(pg__comm_spread(t->ranks->comm, pieces, n, of, err));
done:
    pg__mem_free(pieces);
    return st;
}

pg_status pg__opt_shard_take(pg_trainer *t, size_t slot, int swaps, pg_err *err)
{
    const uint64_t bytes = t->devs.backend->real_bytes;
    for (size_t b = 0; b < pg__opt_shard_n_blocks(&t->sums); b++) {
        uint64_t from, to;
        pg__opt_shard_piece(t, b, pg__rank_of(t->ranks), &from, &to);
        for (size_t i = 0; i < t->vars.n_params; i++) {
            const uint64_t begin = t->vars.offsets[i], end = begin + t->vars.n_elems[i];
            const uint64_t lo = from > begin ? from : begin, hi = to < end ? to : end;
            if (t->vars.trained[i] && lo < hi)
                pg__average_move((char *)t->vars.params.mem + lo * bytes,
                                 (char *)t->vars.slots[slot].mem + lo * bytes,
                                 (size_t)((hi - lo) * bytes), swaps);
        }
    }
    t->vars.version++;
    return pg__opt_shard_gather(t, &t->vars.params, "the averages", err);
}

/* ---- to rank 0 ---- */

typedef struct request {
    uint64_t is_open, slot, from, to; /* bytes of the slot; is_open 0: no more requests */
} request;

/* Collects the bytes from all ranks that have some; into: rank 0's buffer, NULL elsewhere. */
static pg_status bring(pg_trainer *t, const request *e, char *into, pg_err *err)
{
    pg__comm *c = t->ranks->comm;
    const uint64_t bytes = t->devs.backend->real_bytes;
    char *slot = t->vars.slots[e->slot].mem;
    pg_status st = PG_OK;
    for (size_t b = 0; b < pg__opt_shard_n_blocks(&t->sums); b++)
        for (size_t k = 0; k < pg__comm_size(c); k++) {
            uint64_t from, to;
            pg__opt_shard_piece(t, b, k, &from, &to);
            from = from * bytes > e->from ? from * bytes : e->from;
            to = to * bytes < e->to ? to * bytes : e->to;
            if (from >= to)
                continue;
            char *mem = into ? into + (from - e->from) : slot + from;
            if (k == 0 && into)
                memcpy(mem, slot + from, (size_t)(to - from));
            PG_TRY(pg__comm_move(c, mem, (size_t)(to - from), k, 0, what, err));
        }
done:
    return st;
}

static pg_status pass_request(struct pg__ranks *ranks, request *e, pg_err *err)
{
    return pg__comm_await(ranks->comm, e, sizeof *e, what, err);
}

/* The window begins at byte `at`, since files are written and read sequentially. */
static pg_status move_window(pg_trainer *t, size_t slot, uint64_t at, pg_err *err)
{
    pg__window *w = &t->ranks->windows[slot];
    const uint64_t all = t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes;
    const uint64_t from = at / t->devs.backend->real_bytes * t->devs.backend->real_bytes;
    request e = {1, slot, from, all - from < WINDOW ? all : from + WINDOW};
    pg_status st = PG_OK;
    if (!w->mem)
        w->mem = pg__mem_aligned(WINDOW);
    if (!w->mem)
        return pg__nomem(err);
    w->from = w->to = 0;
    PG_TRY(pass_request(t->ranks, &e, err));
    PG_TRY(bring(t, &e, w->mem, err));
    w->from = e.from;
    w->to = e.to;
done:
    return st;
}

pg_status pg__opt_shard_read(pg_trainer *t, size_t slot, uint64_t at, void *buf, size_t n,
                             pg_err *err)
{
    const pg__window *w = &t->ranks->windows[slot];
    pg_status st = PG_OK;
    for (size_t done = 0; done < n;) {
        const uint64_t now = at + done;
        if (now < w->from || now >= w->to)
            PG_TRY(move_window(t, slot, now, err));
        const uint64_t left = n - done, there = w->to - now;
        const size_t some = (size_t)(left < there ? left : there);
        memcpy((char *)buf + done, w->mem + (now - w->from), some);
        done += some;
    }
done:
    return st;
}

pg_status pg__opt_shard_serve(pg_trainer *t, pg_err *err)
{
    request e = {0, 0, 0, 0};
    pg_status st = PG_OK;
    if (!pg__is_sharded(t->ranks))
        return PG_OK;
    for (size_t k = 0; k < PG_MAX_SLOTS; k++)
        t->ranks->windows[k].from = t->ranks->windows[k].to = 0;
    do {
        PG_TRY(pass_request(t->ranks, &e, err));
        if (e.is_open)
            PG_TRY(bring(t, &e, NULL, err));
    } while (e.is_open);
done:
    return st;
}
