/* tcp_wire.c - see tcp.h. Messages go in frames of at most 1 MB, from one rank to another through
 * rank 0. The thread reads everything that arrives, into memory of its own, and forwards what is
 * for others. What this rank sends and receives, its caller moves: nothing touches the caller's
 * memory in the background. A rank that leaves says so (BYE); one whose connection ends without
 * that is lost, and rank 0 notifies the others (LOST). */
#include "base/clock.h"
#include "comm/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"

#define FRAME ((size_t)1 << 20)

enum { LOST = 0xfffffff0, BYE }; /* tags */

typedef struct head {
    uint32_t to, from, tag, n;
} head;

typedef struct frame {
    struct frame *next;
    head h;
    char bytes[];
} frame;

/* Data to be sent: a frame of ours, or a caller's message. */
typedef struct item {
    struct item *next;
    frame *own;
    pg__wire_part *part;
    head h;
    size_t at; /* bytes of the current frame that have been sent, including its head */
} item;

typedef struct peer {
    int fd; /* -1: no connection */
    item *first, **end;
    int left; /* it has said that it leaves */
    head h;   /* the frame that the thread is reading */
    size_t at;
    frame *in;
} peer;

struct pg__wire {
    size_t rank, n;
    peer *of;
    pthread_t thread;
    pthread_mutex_t lock; /* bytes waiting to be sent, and bytes that have arrived */
    frame *came, **end;
    pg__wire_part *wanted;
    int wake[2];
    int stops;
    double until; /* when to stop: data not sent by then is given up */
    _Atomic int lost;
};

static void wake(const pg__wire *w)
{
    const char one = 1;
    (void)!write(w->wake[1], &one, 1); /* full: then it wakes up anyway */
}

/* The connection that leads to a rank. */
static peer *way_to(const pg__wire *w, size_t rank)
{
    return &w->of[w->rank == 0 ? rank : 0];
}

/* ---- sending; under the lock ---- */

static int append(peer *p, const item *what)
{
    item *i = pg__mem_array(1, sizeof *i);
    if (!i)
        return ENOMEM;
    *i = *what;
    *p->end = i;
    p->end = &i->next;
    return 0;
}

static void drop_first(peer *p)
{
    item *i = p->first;
    p->first = i->next;
    if (!p->first)
        p->end = &p->first;
    pg__mem_free(i->own);
    pg__mem_free(i);
}

/* Sends a notice of ours. It must not fail for lack of memory: then the end of the connection says
 * the same. */
static void say(pg__wire *w, size_t to, size_t from, uint32_t tag)
{
    peer *p = way_to(w, to);
    frame *f = p->fd >= 0 ? pg__mem_array(1, sizeof *f) : NULL;
    if (!f)
        return;
    f->h = (head){(uint32_t)to, (uint32_t)from, tag, 0};
    if (append(p, &(item){.own = f, .h = f->h}) != 0)
        pg__mem_free(f);
}

static void note_lost(pg__wire *w, size_t rank)
{
    int nobody = -1;
    (void)atomic_compare_exchange_strong(&w->lost, &nobody, (int)rank);
}

/* Called by the thread, the only one that closes what it reads. */
static void lose(pg__wire *w, size_t rank)
{
    peer *p = &w->of[rank];
    while (p->first)
        drop_first(p);
    if (p->fd >= 0)
        (void)close(p->fd);
    p->fd = -1;
    if (p->left)
        return;
    note_lost(w, rank);
    for (size_t k = 1; w->rank == 0 && k < w->n; k++)
        say(w, k, rank, LOST);
}

/* One call for the current frame. 1: continue, 0: not now, -1: the connection is gone. */
static int write_some(const peer *p, item *i)
{
    const char *bytes = i->own ? i->own->bytes : i->part->mem + i->part->at;
    if (i->part) {
        const size_t left = i->part->n - i->part->at;
        i->h.n = (uint32_t)(left < FRAME ? left : FRAME);
    }
    const size_t in_head = i->at < sizeof i->h ? i->at : sizeof i->h, in_bytes = i->at - in_head;
    struct iovec v[2] = {{(char *)&i->h + in_head, sizeof i->h - in_head},
                         {(char *)(uintptr_t)bytes + in_bytes, i->h.n - in_bytes}};
    const struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    const ssize_t n = sendmsg(p->fd, &m, PG_TCP_QUIET | MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR ? 1 : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    i->at += (size_t)n;
    return 1;
}

/* Sends what is queued for a neighbour; the thread sends only frames of ours. */
static void send_some(pg__wire *w, size_t rank, int by_thread)
{
    peer *p = &w->of[rank];
    while (p->first && p->fd >= 0 && !(by_thread && p->first->part)) {
        item *i = p->first;
        const int e = write_some(p, i);
        if (e < 0)
            (void)shutdown(p->fd, SHUT_RDWR); /* the thread notices that it ended */
        if (e <= 0)
            break;
        if (i->at < sizeof i->h + i->h.n)
            continue;
        i->at = 0;
        if (i->part) {
            i->part->at += i->h.n;
            i->part->is_done = i->part->at == i->part->n;
        }
        if (i->own || i->part->is_done)
            drop_first(p);
    }
    if (!by_thread && p->first && p->first->own)
        wake(w);
}

/* ---- what comes ---- */

/* A frame for this rank, or for another. */
static void deliver(pg__wire *w, size_t from, frame *f)
{
    const head h = f->h;
    if (h.to != w->rank) {
        const int is_kept =
            w->of[h.to].fd >= 0 && append(&w->of[h.to], &(item){.own = f, .h = h}) == 0;
        if (!is_kept)
            pg__mem_free(f); /* its waiter gets LOST, or times out */
        return;
    }
    if (h.tag == BYE)
        w->of[from].left = 1;
    if (h.tag == LOST)
        note_lost(w, h.from);
    if (h.tag == BYE || h.tag == LOST) {
        pg__mem_free(f);
        return;
    }
    f->next = NULL;
    *w->end = f;
    w->end = &f->next;
}

/* Nothing else is believed: a frame comes from the connected rank, or through rank 0 from
 * another. */
static int is_valid(const pg__wire *w, size_t from, const head *h)
{
    return h->n <= FRAME && h->to < w->n && h->from < w->n &&
           (w->rank == 0 ? h->from == from && h->to != from : h->to == w->rank);
}

/* One call of read(). 1: continue, 0: not now, -1: the connection is gone. */
static int read_some(pg__wire *w, size_t from)
{
    peer *p = &w->of[from];
    const int in_head = p->at < sizeof p->h;
    char *to = in_head ? (char *)&p->h + p->at : p->in->bytes + (p->at - sizeof p->h);
    const size_t room = in_head ? sizeof p->h - p->at : p->h.n - (p->at - sizeof p->h);
    const ssize_t n = recv(p->fd, to, room, MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR ? 1 : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    if (n == 0)
        return -1;
    p->at += (size_t)n;
    if (in_head && p->at == sizeof p->h) {
        p->in = is_valid(w, from, &p->h) ? pg__mem_array(1, sizeof *p->in + p->h.n) : NULL;
        if (!p->in)
            return -1;
        p->in->h = p->h;
    }
    if (p->at < sizeof p->h || p->at < sizeof p->h + p->h.n)
        return 1;
    pthread_mutex_lock(&w->lock);
    deliver(w, from, p->in);
    pthread_mutex_unlock(&w->lock);
    p->in = NULL;
    p->at = 0;
    return 1;
}

/* Has everything of ours been sent that can be? */
static int is_sent(const pg__wire *w)
{
    for (size_t k = 0; k < w->n; k++)
        if (w->of[k].fd >= 0 && w->of[k].first && w->of[k].first->own)
            return 0;
    return 1;
}

/* Fills in what the thread waits for, for *naps milliseconds; 0: it must end. */
static int list(pg__wire *w, struct pollfd *all, int *naps)
{
    pthread_mutex_lock(&w->lock);
    all[w->n] = (struct pollfd){.fd = w->wake[0], .events = POLLIN};
    for (size_t k = 0; k < w->n; k++) {
        const peer *p = &w->of[k];
        const int sends = p->first && p->first->own;
        all[k] = (struct pollfd){.fd = p->fd, .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
    }
    *naps = w->stops ? 10 : -1;
    const int ends = w->stops && (is_sent(w) || pg__now() > w->until);
    pthread_mutex_unlock(&w->lock);
    return !ends;
}

static void *move(void *arg)
{
    pg__wire *w = arg;
    struct pollfd *all = pg__mem_array(w->n + 1, sizeof *all);
    char some[64];
    int naps;
    while (all && list(w, all, &naps)) {
        if (poll(all, w->n + 1, naps) < 0)
            continue;
        if (all[w->n].revents)
            (void)!read(w->wake[0], some, sizeof some);
        for (size_t k = 0; k < w->n; k++) {
            int e = 1;
            if (all[k].revents & (POLLIN | POLLHUP | POLLERR))
                while ((e = read_some(w, k)) > 0) {
                }
            pthread_mutex_lock(&w->lock);
            if (e < 0)
                lose(w, k);
            pthread_mutex_unlock(&w->lock);
        }
        pthread_mutex_lock(&w->lock);
        for (size_t k = 0; k < w->n; k++)
            send_some(w, k, 1);
        pthread_mutex_unlock(&w->lock);
    }
    pg__mem_free(all);
    return NULL;
}

/* ---- beginning and end ---- */

static void free_wire(pg__wire *w)
{
    for (size_t k = 0; w->of && k < w->n; k++) {
        while (w->of[k].first)
            drop_first(&w->of[k]);
        pg__mem_free(w->of[k].in);
        if (w->of[k].fd >= 0)
            (void)close(w->of[k].fd);
    }
    while (w->came) {
        frame *f = w->came;
        w->came = f->next;
        pg__mem_free(f);
    }
    for (int k = 0; k < 2; k++)
        if (w->wake[k] >= 0)
            (void)close(w->wake[k]);
    pthread_mutex_destroy(&w->lock);
    pg__mem_free(w->of);
    pg__mem_free(w);
}

pg__wire *pg__wire_open(const int *fds, size_t rank, size_t n_ranks)
{
    pg__wire *w = pg__mem_array(1, sizeof *w);
    peer *of = pg__mem_array(n_ranks, sizeof *of);
    if (!w || !of) {
        pg__mem_free(w);
        pg__mem_free(of);
        for (size_t k = 0; k < n_ranks; k++)
            if (fds[k] >= 0)
                (void)close(fds[k]);
        return NULL;
    }
    *w = (pg__wire){.rank = rank, .n = n_ranks, .of = of, .wake = {-1, -1}, .lost = -1};
    w->end = &w->came;
    pthread_mutex_init(&w->lock, NULL);
    for (size_t k = 0; k < n_ranks; k++) {
        of[k].fd = fds[k];
        of[k].end = &of[k].first;
    }
    if (pg__tcp_pipe(w->wake) == 0 && pg__thread_begin(&w->thread, move, w) == 0)
        return w;
    free_wire(w);
    return NULL;
}

void pg__wire_close(pg__wire *w, int in_order)
{
    pthread_mutex_lock(&w->lock);
    for (size_t k = 0; in_order && k < w->n; k++)
        if (w->of[k].fd >= 0)
            say(w, k, w->rank, BYE);
    w->until = pg__now() + (in_order ? 5 : 1);
    w->stops = 1;
    pthread_mutex_unlock(&w->lock);
    wake(w);
    (void)pthread_join(w->thread, NULL);
    free_wire(w);
}

int pg__wire_has(pg__wire *w, uint32_t tag)
{
    int found = 0;
    pthread_mutex_lock(&w->lock);
    for (const frame *f = w->came; f && !found; f = f->next)
        found = f->h.tag == tag;
    pthread_mutex_unlock(&w->lock);
    return found;
}

int pg__wire_lost(const pg__wire *w)
{
    return w->lost;
}

/* ---- messages of this rank ---- */

int pg__wire_begin(pg__wire *w, pg__wire_part *p)
{
    pg__wire_part **last = &w->wanted;
    int e = 0;
    p->is_done = p->n == 0;
    if (p->is_done)
        return 0;
    pthread_mutex_lock(&w->lock);
    if (p->is_sent) {
        const head h = {(uint32_t)p->peer, (uint32_t)w->rank, p->tag, 0};
        peer *way = way_to(w, p->peer);
        if (way->fd >= 0) {
            e = append(way, &(item){.part = p, .h = h});
            send_some(w, (size_t)(way - w->of), 0);
        }
    } else {
        while (*last)
            last = &(*last)->next;
        *last = p;
    }
    pthread_mutex_unlock(&w->lock);
    return e;
}

/* Takes what has arrived for this message. */
static void take(pg__wire *w, pg__wire_part *p)
{
    frame **at = &w->came;
    while (*at && p->at < p->n) {
        frame *f = *at;
        if (f->h.from != p->peer || f->h.tag != p->tag) {
            at = &f->next;
            continue;
        }
        const size_t n = f->h.n < p->n - p->at ? f->h.n : p->n - p->at;
        memcpy(p->mem + p->at, f->bytes, n);
        p->at += n;
        *at = f->next;
        if (!*at)
            w->end = at;
        pg__mem_free(f);
    }
    p->is_done = p->at == p->n;
}

void pg__wire_move(pg__wire *w)
{
    pthread_mutex_lock(&w->lock);
    for (size_t k = 0; k < w->n; k++)
        send_some(w, k, 0);
    for (pg__wire_part **at = &w->wanted; *at;) {
        pg__wire_part *p = *at;
        take(w, p);
        if (p->is_done)
            *at = p->next;
        else
            at = &p->next;
    }
    pthread_mutex_unlock(&w->lock);
}
