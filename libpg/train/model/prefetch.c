/* prefetch.c - a ring of three batches: one in training, two filled ahead. The thread waits while
 * both are full. A trainer that finds no batch ready, and the thread not reading, reads by itself:
 * on a busy machine it might wait long for the thread to be scheduled, and this also works without
 * a thread. Only one of them reads at a time, since sources have caches. */
#include "train/model/prefetch.h"

#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "base/try.h"

#define N_BUFFERS PG_PREFETCH_BATCHES

typedef struct buffer {
    pg__batch batch;
    uint64_t *rows;
    pg__turn turn;
    int is_end; /* no batch: the run is over */
    pg_status st;
    pg_err err;
} buffer;

struct pg__prefetch {
    pg__batch_order *order;
    const pg__feed *train, *val;
    pg__trace *trace; /* borrowed; or NULL */
    pg__cut cut;      /* copied at the start: trials change the trainer's own meanwhile */
    uint64_t part_rows;
    buffer buffers[N_BUFFERS];
    unsigned long filled, taken; /* number of buffers so far; these four under the lock */
    int reading, over;           /* over: nothing comes after the filled buffers */
    int stop;                    /* atomic */
    int has_lock, has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* Moves the rows of a batch that this process computes to the front, part by part. */
static size_t keep_own(const pg__prefetch *a, uint64_t *rows, size_t n_rows)
{
    const uint64_t part = a->part_rows ? a->part_rows : n_rows;
    size_t n = 0;
    for (uint64_t first = 0; first < n_rows; first += part) {
        uint64_t from, end;
        pg__rows_here(&a->cut, n_rows - first < part ? n_rows - first : part, &from, &end);
        memmove(rows + n, rows + first + from, (size_t)(end - from) * sizeof *rows);
        n += (size_t)(end - from);
    }
    return n;
}

/* Fills a buffer with the next batch of the run. */
static void fill(pg__prefetch *a, buffer *b)
{
    b->is_end = !pg__batch_order_next(a->order, &b->turn, b->rows);
    b->st = PG_OK;
    if (b->is_end)
        return;
    const pg__feed *f = b->turn.validation ? a->val : a->train;
    const size_t n = keep_own(a, b->rows, b->turn.n_rows);
    for (size_t i = 0; i < n; i++)
        b->rows[i] += f->first;
    b->st = pg__feed_read(f, b->rows, n, &b->batch, &a->stop, &b->err);
    b->batch.n_here = n;
    b->batch.n_rows = b->turn.n_rows;
}

/* Called with the lock held, which it releases while reading; nothing else may be reading. */
static void fill_next(pg__prefetch *a)
{
    buffer *b = &a->buffers[a->filled % N_BUFFERS];
    pg__trace_event e = {.what = PG_TRACE_READ};
    a->reading = 1;
    pthread_mutex_unlock(&a->lock);
    e.began = pg__trace_begin(a->trace);
    fill(a, b);
    e.b = b->is_end ? 0 : b->batch.n_here;
    pg__trace_end_on(a->trace, PG_TRACE_READING, &e);
    pthread_mutex_lock(&a->lock);
    a->reading = 0;
    a->filled++;
    a->over = b->is_end || b->st != PG_OK;
    pthread_cond_signal(&a->changed);
}

static void *prefetch(void *arg)
{
    pg__prefetch *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->stop && !a->over) {
        /* The buffer taken last is still in use. */
        const unsigned long most = a->taken + N_BUFFERS - (a->taken > 0);
        if (a->filled < most && !a->reading)
            fill_next(a);
        else
            pthread_cond_wait(&a->changed, &a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

pg_status pg__prefetch_new(pg__prefetch **out, pg__batch_order *order, const pg__feed *train,
                           const pg__feed *val, size_t batch_size, pg_err *err)
{
    const pg__feed *any = train ? train : val;
    const int weighted =
        (train && pg__feed_is_weighted(train)) || (val && pg__feed_is_weighted(val));
    pg_status st = PG_OK;
    pg__prefetch *a = pg__mem_array(1, sizeof *a);
    if (!a)
        return pg__nomem(err);
    a->order = order;
    a->train = train;
    a->val = val;
    a->trace = any->t->report.trace;
    a->cut = any->t->pool.cut;
    a->part_rows = any->t->loop.part_rows;
    for (size_t i = 0; i < N_BUFFERS; i++) {
        PG_TRY(pg__batch_alloc(&a->buffers[i].batch, any, weighted, batch_size, err));
        a->buffers[i].rows = pg__mem_array(batch_size, sizeof *a->buffers[i].rows);
        if (!a->buffers[i].rows)
            PG_TRY(pg__nomem(err));
    }
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    a->has_lock = 1;
    a->has_thread = pg__thread_begin(&a->thread, prefetch, a) == 0;
    *out = a;
    a = NULL;
done:
    pg__prefetch_free(a);
    return st;
}

pg_status pg__prefetch_next(pg__prefetch *a, const pg__batch **out, pg__turn *turn, pg_err *err)
{
    buffer *b = &a->buffers[a->taken % N_BUFFERS];
    pthread_mutex_lock(&a->lock);
    a->taken++; /* the previous one is free now */
    pthread_cond_signal(&a->changed);
    while (a->filled < a->taken)
        if (!a->reading)
            fill_next(a);
        else
            pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    if (b->st != PG_OK && err)
        *err = b->err;
    *out = b->is_end || b->st != PG_OK ? NULL : &b->batch;
    *turn = b->turn;
    return b->st;
}

void pg__prefetch_free(pg__prefetch *a)
{
    if (!a)
        return;
    if (a->has_thread) {
        pthread_mutex_lock(&a->lock);
        __atomic_store_n(&a->stop, 1, __ATOMIC_RELAXED);
        pthread_cond_signal(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    if (a->has_lock) {
        pthread_cond_destroy(&a->changed);
        pthread_mutex_destroy(&a->lock);
    }
    for (size_t i = 0; i < N_BUFFERS; i++) {
        pg__batch_free(&a->buffers[i].batch, (a->train ? a->train : a->val)->t);
        pg__mem_free(a->buffers[i].rows);
    }
    pg__mem_free(a);
}
