/* tcp_rendezvous.c - how ranks find rank 0: at MASTER_ADDR, on the first free port after
 * MASTER_PORT, where torchrun's own agent listens. Rank 0 first sends its job to whoever
 * connects, and receives nothing before that: other programs that listen there learn nothing from
 * us. */
#include "base/clock.h"
#include "comm/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/hash.h"

#define N_PORTS     16  /* after MASTER_PORT */
#define TO_SPEAK    2.0 /* seconds that a connection has to send a complete word */
#define PROTOCOL    1u
#define MOST_GUESTS 128 /* connections at once that have not said yet who they are */

/* The first word in both directions. */
typedef struct greeting {
    char magic[8];
    uint32_t protocol; /* and the byte order */
    uint32_t job, rank, n_ranks;
} greeting;

typedef struct meeting {
    const char *host;
    unsigned port; /* MASTER_PORT */
    greeting mine;
    double until;
    char *said;
} meeting;

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* Identifies the job: jobs on the same machine must differ. The attempt is not part of it: each
 * agent counts its own restarts, and ends all processes of one attempt before the next. */
static uint32_t number_of_job(unsigned port, size_t n_ranks)
{
    const char *run = pg__env("TORCHELASTIC_RUN_ID");
    char text[512];
    const int n = snprintf(text, sizeof text, "%u %zu %.300s", port, n_ranks, run ? run : "");
    return pg__crc32(0, text, (size_t)n);
}

/* ---- one connection ---- */

/* Reads or writes all n bytes; 0: not in time. */
static int talk(int fd, void *mem, size_t n, int is_sent, double until)
{
    char *at = mem;
    while (n > 0) {
        const double left = until - pg__now();
        struct pollfd p = {.fd = fd, .events = is_sent ? POLLOUT : POLLIN};
        if (left <= 0 || poll(&p, 1, (int)(left * 1e3) + 1) == 0)
            return 0;
        const ssize_t some = is_sent ? send(fd, at, n, PG_TCP_QUIET) : recv(fd, at, n, 0);
        if (some < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (some <= 0)
            return 0;
        at += some;
        n -= (size_t)some;
    }
    return 1;
}

/* A machine that disappears silently is noticed within half a minute. */
static void tune(int fd)
{
    const struct {
        int level, name, value;
    } all[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
               {SOL_SOCKET, SO_KEEPALIVE, 1},
#ifdef TCP_KEEPIDLE
               {IPPROTO_TCP, TCP_KEEPIDLE, 10},
#endif
               {IPPROTO_TCP, TCP_KEEPINTVL, 5},
               {IPPROTO_TCP, TCP_KEEPCNT, 4}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        (void)setsockopt(fd, all[k].level, all[k].name, &all[k].value, sizeof all[k].value);
}

/* ---- rank 0 ---- */

/* Listens on both families if the system has them. */
static int listen_at(unsigned port)
{
    const int off = 0, on = 1;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = pg__tcp_socket(AF_INET6);
    const int has_six = fd >= 0;
    if (!has_six)
        fd = pg__tcp_socket(AF_INET);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (has_six)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const struct sockaddr *to = has_six ? (const void *)&six : (const void *)&four;
    if (bind(fd, to, has_six ? sizeof six : sizeof four) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int listen_behind(const meeting *m)
{
    int fd = -1;
    for (unsigned k = 1; k <= N_PORTS && m->port + k < 65536 && fd < 0; k++)
        fd = listen_at(m->port + k);
    if (fd < 0)
        (void)snprintf(m->said, PG_MPI_MESSAGE,
                       "rank 0 cannot listen on any of the %d ports after MASTER_PORT=%u: %s",
                       N_PORTS, m->port, strerror(errno));
    return fd;
}

/* A connection: either one of the ranks, or a stranger, which may be silent as long as it likes. So
 * rank 0 listens to all of them at once. */
typedef struct guest {
    int fd;
    double until;  /* the time by which it must have spoken */
    greeting says; /* so far */
    size_t n_said; /* bytes of it */
} guest;

typedef struct reception {
    const meeting *m;
    int *fds; /* by rank: those that were let in */
    size_t n_here, n;
    guest guests[MOST_GUESTS];
} reception;

/* Sent at once, or not at all: a few bytes, for which every new connection has room. */
static int send_now(int fd, const void *mem, size_t n)
{
    return send(fd, mem, n, PG_TCP_QUIET) == (ssize_t)n;
}

static void leave(reception *r, size_t k, int is_welcome)
{
    if (!is_welcome)
        (void)close(r->guests[k].fd);
    r->guests[k] = r->guests[--r->n];
}

/* If there is no room for another, the connection that has been silent longest is closed. */
static void receive(reception *r, int fd)
{
    size_t oldest = 0;
    for (size_t k = 1; k < r->n; k++)
        oldest = r->guests[k].until < r->guests[oldest].until ? k : oldest;
    if (r->n == MOST_GUESTS)
        leave(r, oldest, 0);
    r->guests[r->n++] = (guest){.fd = fd, .until = pg__now() + TO_SPEAK};
    tune(fd);
    if (!send_now(fd, &r->m->mine, sizeof r->m->mine))
        leave(r, r->n - 1, 0);
}

static int is_awaited(const reception *r, const greeting *g)
{
    const greeting *mine = &r->m->mine;
    return memcmp(g->magic, mine->magic, sizeof g->magic) == 0 && g->protocol == PROTOCOL &&
           g->job == mine->job && g->rank > 0 && g->rank < mine->n_ranks && r->fds[g->rank] < 0;
}

/* Handles what has arrived from guest k, which may then leave. */
static void listen_to(reception *r, size_t k)
{
    guest *g = &r->guests[k];
    const ssize_t some = recv(g->fd, (char *)&g->says + g->n_said, sizeof g->says - g->n_said, 0);
    const int waits = some < 0 && (errno == EINTR || errno == EAGAIN);
    g->n_said += some > 0 ? (size_t)some : 0;
    if (g->n_said < sizeof g->says && (some > 0 || waits) && pg__now() < g->until)
        return;
    const uint32_t rank = g->says.rank;
    const int is_welcome = g->n_said == sizeof g->says && is_awaited(r, &g->says) &&
                           send_now(g->fd, &rank, sizeof rank);
    if (is_welcome) {
        r->fds[rank] = g->fd;
        r->n_here++;
    }
    leave(r, k, is_welcome);
}

static int receive_all(const meeting *m, int *fds)
{
    reception r = {.m = m, .fds = fds, .n_here = 1};
    size_t first = 1;
    const int at = listen_behind(m);
    if (at < 0)
        return -1;
    while (r.n_here < m->mine.n_ranks && pg__now() < m->until) {
        struct pollfd p[MOST_GUESTS + 1] = {{.fd = at, .events = POLLIN}};
        for (size_t k = 0; k < r.n; k++)
            p[k + 1] = (struct pollfd){.fd = r.guests[k].fd, .events = POLLIN};
        (void)poll(p, r.n + 1, 20);
        for (size_t k = r.n; k-- > 0;) /* the last takes the place of one that leaves */
            listen_to(&r, k);
        const int fd = pg__tcp_accept(at);
        if (fd >= 0)
            receive(&r, fd);
    }
    while (r.n > 0)
        leave(&r, r.n - 1, 0);
    (void)close(at);
    if (r.n_here == m->mine.n_ranks)
        return 0;
    while (fds[first] >= 0)
        first++;
    (void)snprintf(m->said, PG_MPI_MESSAGE, "of %u ranks %zu came to %.100s, not rank %zu%s",
                   m->mine.n_ranks, r.n_here, m->host, first,
                   m->mine.n_ranks - r.n_here > 1 ? " and others" : "");
    return -1;
}

/* ---- the others ---- */

static int connect_to(const struct addrinfo *a, unsigned port, double until)
{
    struct sockaddr_storage to = {0};
    const double left = until - pg__now();
    int e = 0;
    socklen_t n = sizeof e;
    memcpy(&to, a->ai_addr, a->ai_addrlen);
    if (a->ai_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)&to)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)(void *)&to)->sin_port = htons((uint16_t)port);
    const int fd = pg__tcp_socket(a->ai_family);
    if (fd < 0)
        return -1;
    if (connect(fd, (const void *)&to, a->ai_addrlen) == 0)
        return fd;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (errno == EINPROGRESS && left > 0 && poll(&p, 1, (int)(left * 1e3) + 1) == 1 &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) == 0 && e == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* 1: it is rank 0, and knows this rank; 0: something else; -1: it refused, and said why. */
static int introduce(const meeting *m, int fd)
{
    const double until = pg__now() + TO_SPEAK < m->until ? pg__now() + TO_SPEAK : m->until;
    greeting g;
    uint32_t rank;
    tune(fd);
    if (!talk(fd, &g, sizeof g, 0, until) || memcmp(g.magic, m->mine.magic, sizeof g.magic) != 0)
        return 0;
    if (g.protocol != PROTOCOL) {
        (void)snprintf(m->said, PG_MPI_MESSAGE,
                       "rank 0 at %.100s and this one have different versions of libpg", m->host);
        return -1;
    }
    if (g.job != m->mine.job)
        return 0;
    g = m->mine;
    if (talk(fd, &g, sizeof g, 1, until) && talk(fd, &rank, sizeof rank, 0, until))
        return 1;
    (void)snprintf(m->said, PG_MPI_MESSAGE,
                   "rank 0 at %.100s refuses rank %u: it has joined already", m->host,
                   m->mine.rank);
    return -1;
}

/* Tries each address, on each port. *fd: the connection. */
static int look_for_it(const meeting *m, const struct addrinfo *all, int *fd)
{
    int found = 0;
    for (unsigned k = 1; k <= N_PORTS && m->port + k < 65536 && found == 0; k++)
        for (const struct addrinfo *a = all; a && found == 0 && pg__now() < m->until;
             a = a->ai_next) {
            const double until = pg__now() + TO_SPEAK < m->until ? pg__now() + TO_SPEAK : m->until;
            *fd = connect_to(a, m->port + k, until);
            if (*fd < 0)
                continue;
            found = introduce(m, *fd);
            if (found != 1)
                (void)close(*fd);
        }
    return found;
}

static int find_rank_0(const meeting *m, int *fd)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    int found = 0, e = 0;
    while (found == 0 && pg__now() < m->until) {
        if (!all)
            e = getaddrinfo(m->host, NULL, &wanted, &all);
        if (all)
            found = look_for_it(m, all, fd);
        if (found == 0)
            nap();
    }
    if (all)
        freeaddrinfo(all);
    if (found == 0 && e != 0)
        (void)snprintf(m->said, PG_MPI_MESSAGE, "MASTER_ADDR=%.100s: %s", m->host, gai_strerror(e));
    else if (found == 0)
        (void)snprintf(m->said, PG_MPI_MESSAGE,
                       "rank 0 did not answer at %.100s on any of the ports %u to %u (those after "
                       "MASTER_PORT)",
                       m->host, m->port + 1, m->port + N_PORTS);
    return found == 1 ? 0 : -1;
}

int pg__tcp_rendezvous(int *fds, size_t rank, size_t n_ranks, double timeout,
                       char said[PG_MPI_MESSAGE])
{
    const char *host = pg__env("MASTER_ADDR"), *port = pg__env("MASTER_PORT");
    char *end = NULL;
    const unsigned long number = port ? strtoul(port, &end, 10) : 0;
    meeting m = {.host = host,
                 .port = (unsigned)number,
                 .mine = {.magic = "pg-rank", .protocol = PROTOCOL},
                 .until = pg__now() + timeout,
                 .said = said};
    for (size_t k = 0; k < n_ranks; k++)
        fds[k] = -1;
    if (!host || !*host || number == 0 || number > 65534 || *end != '\0') {
        (void)snprintf(said, PG_MPI_MESSAGE,
                       "MASTER_ADDR and MASTER_PORT do not say where rank 0 is");
        return -1;
    }
    m.mine.rank = (uint32_t)rank;
    m.mine.n_ranks = (uint32_t)n_ranks;
    m.mine.job = number_of_job(m.port, n_ranks);
    const int e = rank == 0 ? receive_all(&m, fds) : find_rank_0(&m, &fds[0]);
    for (size_t k = 0; e != 0 && k < n_ranks; k++)
        if (fds[k] >= 0)
            (void)close(fds[k]);
    return e;
}
