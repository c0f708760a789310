/* read_ahead.c - see read_ahead.h. The caller reads by itself until that has been slow for a while:
 * small tensors in the page cache are read faster than they change hands. Then a thread and the
 * caller share a ring of blocks: the thread fills those that are free, the caller frees the one
 * before when it asks for the next. Each wakes the other for half a ring, since waking takes as
 * long as reading a block. */
#include "store/read_ahead.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

#define N_BLOCKS 16u
#define FEW      ((uint64_t)4 << 20) /* bytes for which a thread is not worth starting */
#define WHILE    ((uint64_t)1 << 20) /* bytes whose reading is timed together */
#define SLOW_S   5e-6                /* for a call: about as long as handing a block over */

struct pg__read_ahead {
    pg_store *s;
    const pg__to_read *v;
    size_t n;
    /* what is read next, of the thread */
    size_t item;
    uint64_t off;
    unsigned char *memory; /* N_BLOCKS times PG_COPY_BYTES */
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t filled, freed;
    pg__block ring[N_BLOCKS];
    size_t n_filled, n_taken, n_freed; /* since the beginning */
    pg_status st; /* of the last that was filled: after a failure there is none */
    pg_err err;
    int stop;
    /* of the caller */
    int may_start, has_lock, has_thread;
    uint64_t n_timed;
    double allowed_s; /* for the bytes that were timed; less what they took */
    pthread_t thread;
};

static pg_status read_bytes(const pg__read_ahead *r, const pg__block *b, unsigned char *to,
                            pg_err *err)
{
    const pg__to_read *x = &r->v[b->item];
    const size_t n_weights = pg_store_n_weights(r->s);
    pg_status st = PG_OK;
    if (!x->native)
        st = pg__store_read_raw(r->s, x->tensor, b->off, to, b->n, err);
    else if (x->tensor < n_weights)
        st = pg_store_read(r->s, x->tensor, b->off, to, b->n, err);
    else
        st = pg_store_read_state(r->s, x->tensor - n_weights, b->off, to, b->n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(pg__store_path(r->s)));
    return st;
}

/* Reads the next block into a place of the ring. */
static pg_status read_next(pg__read_ahead *r, size_t place, pg__block *out, pg_err *err)
{
    uint64_t left = 0;
    for (; r->item < r->n; r->item++, r->off = 0)
        if ((left = pg__store_tensor(r->s, r->v[r->item].tensor)->n_bytes - r->off))
            break;
    unsigned char *to = r->memory + place * PG_COPY_BYTES;
    *out = (pg__block){.item = r->item,
                       .off = r->off,
                       .bytes = to,
                       .n = left < PG_COPY_BYTES ? (size_t)left : PG_COPY_BYTES};
    r->off += out->n;
    return out->n ? read_bytes(r, out, to, err) : PG_OK;
}

static void *run(void *arg)
{
    pg__read_ahead *r = arg;
    int more = 1;
    for (size_t i = 1; more; i++) { /* the caller holds the first */
        pg__block b = {0};
        (void)pthread_mutex_lock(&r->lock);
        while (!r->stop && i - r->n_freed == N_BLOCKS)
            (void)pthread_cond_wait(&r->freed, &r->lock);
        more = !r->stop;
        (void)pthread_mutex_unlock(&r->lock);
        if (!more)
            break;
        const pg_status st = read_next(r, i % N_BLOCKS, &b, &r->err);
        more = st == PG_OK && b.n;
        (void)pthread_mutex_lock(&r->lock);
        r->ring[i % N_BLOCKS] = b;
        r->st = st;
        r->n_filled++;
        if (!more || r->n_filled - r->n_taken >= N_BLOCKS / 2)
            (void)pthread_cond_signal(&r->filled);
        (void)pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static uint64_t n_bytes_of(const pg_store *s, const pg__to_read *v, size_t n)
{
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < n && n_bytes < FEW; i++)
        n_bytes += pg__store_tensor(s, v[i].tensor)->n_bytes;
    return n_bytes;
}

pg_status pg__read_ahead_start(pg__read_ahead **out, pg_store *s, const pg__to_read *v, size_t n,
                               pg_err *err)
{
    pg__read_ahead *r = pg__mem_array(1, sizeof *r);
    if (!r)
        return pg__nomem(err);
    *r = (pg__read_ahead){.s = s, .v = v, .n = n, .st = PG_OK};
    r->may_start = pg__store_threads(s) > 1 && n_bytes_of(s, v, n) >= FEW;
    r->memory = pg__mem_bare((r->may_start ? N_BLOCKS : 1) * PG_COPY_BYTES);
    if (!r->memory) {
        pg__mem_free(r);
        return pg__nomem(err);
    }
    *out = r;
    return PG_OK;
}

/* Gives back the block of the call before, and waits for the next. */
static pg_status take(pg__read_ahead *r, pg__block *out, pg_err *err)
{
    (void)pthread_mutex_lock(&r->lock);
    r->n_freed = r->n_taken;
    if (r->n_filled - r->n_freed <= N_BLOCKS / 2)
        (void)pthread_cond_signal(&r->freed);
    while (r->n_filled == r->n_taken)
        (void)pthread_cond_wait(&r->filled, &r->lock);
    *out = r->ring[r->n_taken++ % N_BLOCKS];
    const pg_status st = r->n_taken == r->n_filled ? r->st : PG_OK;
    (void)pthread_mutex_unlock(&r->lock);
    if (st != PG_OK && err)
        *err = r->err;
    return st;
}

/* Goes on in a thread after the block that the caller has just been given. */
static void start(pg__read_ahead *r)
{
    r->may_start = 0;
    r->n_filled = r->n_taken = 1;
    r->has_lock = 1;
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->filled, NULL);
    (void)pthread_cond_init(&r->freed, NULL);
    r->has_thread = pthread_create(&r->thread, NULL, run, r) == 0;
}

/* read_next(), timed. */
static pg_status read_here(pg__read_ahead *r, pg__block *out, pg_err *err)
{
    const double begun = pg__now();
    const pg_status st = read_next(r, 0, out, err);
    r->n_timed += out->n;
    r->allowed_s += SLOW_S - (pg__now() - begun);
    if (st != PG_OK || !out->n || r->n_timed < WHILE)
        return st;
    if (r->allowed_s < 0)
        start(r);
    r->n_timed = 0;
    r->allowed_s = 0;
    return PG_OK;
}

pg_status pg__read_ahead_next(pg__read_ahead *r, pg__block *out, pg_err *err)
{
    if (r->has_thread)
        return take(r, out, err);
    return r->may_start ? read_here(r, out, err) : read_next(r, 0, out, err);
}

void pg__read_ahead_close(pg__read_ahead *r)
{
    if (!r)
        return;
    if (r->has_thread) {
        (void)pthread_mutex_lock(&r->lock);
        r->stop = 1;
        (void)pthread_cond_signal(&r->freed);
        (void)pthread_mutex_unlock(&r->lock);
        (void)pthread_join(r->thread, NULL);
    }
    if (r->has_lock) {
        (void)pthread_cond_destroy(&r->freed);
        (void)pthread_cond_destroy(&r->filled);
        (void)pthread_mutex_destroy(&r->lock);
    }
    pg__mem_free(r->memory);
    pg__mem_free(r);
}
