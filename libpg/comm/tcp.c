/* tcp.c - implements the table of comm_mpi.h over tcp.h. Collective data goes to rank 0, and from
 * there to all; sums are in the order of ranks. */
#include "comm/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/comm_impl.h"

struct pg__mpi_job {
    pg__wire *wire;
    size_t rank, n;
};

enum { MEETS = 100, GATHERS, SHARES, SUMS, UP = 200 }; /* tags: of replies; + UP: to rank 0 */
enum { NOT_MET = 1 << 20 };                            /* an error: `said` has the message */

static char said[PG_MPI_MESSAGE]; /* of the only open() that a process makes at a time */

/* An operation in progress. Rank 0 first receives from all, then sends to all; the others do both
 * at once. */
typedef struct job_request {
    pg__wire_part *parts;
    size_t n_parts;
    int comes_back; /* rank 0: sends begin when everything has arrived */
    uint32_t tag;
    char *mem, *came; /* what it then sends; for a sum: the contributions of all ranks */
    size_t n_bytes, real_bytes;
    int to; /* a rank, or -1: all */
} request;

static int open_job(pg__mpi_job **out, double timeout, int *rank, int *n_ranks,
                    char version[PG_MPI_MESSAGE])
{
    const pg__job_place place = pg__job_place_of();
    pg__mpi_job *job = pg__mem_array(1, sizeof *job);
    int *fds = pg__mem_array(place.size, sizeof *fds);
    int e = ENOMEM;
    if (job && fds)
        e = pg__tcp_rendezvous(fds, place.rank, place.size, timeout, said) == 0 ? 0 : NOT_MET;
    if (e == 0) {
        *job = (pg__mpi_job){pg__wire_open(fds, place.rank, place.size), place.rank, place.size};
        e = job->wire ? 0 : ENOMEM;
    }
    pg__mem_free(fds);
    if (e != 0) {
        pg__mem_free(job);
        return e;
    }
    *rank = (int)job->rank;
    *n_ranks = (int)job->n;
    (void)snprintf(version, PG_MPI_MESSAGE, "TCP");
    *out = job;
    return 0;
}

static void close_job(pg__mpi_job *job, pg__mpi_end how)
{
    pg__wire_close(job->wire, how != PG_LEFT);
    pg__mem_free(job);
}

/* ---- requests ---- */

static void free_request(request *r)
{
    pg__mem_free(r->parts);
    pg__mem_free(r->came);
    pg__mem_free(r);
}

static request *new_request(const pg__mpi_job *job, void **out)
{
    request *r = pg__mem_array(1, sizeof *r);
    if (r) {
        r->parts = pg__mem_array(job->n + 1, sizeof *r->parts);
        r->to = -1;
    }
    if (r && !r->parts) {
        free_request(r);
        r = NULL;
    }
    *out = r;
    return r;
}

static int begin(const pg__mpi_job *job, request *r, int is_sent, size_t peer, uint32_t tag,
                 const void *mem, size_t n)
{
    pg__wire_part *p = &r->parts[r->n_parts++];
    union {
        const void *in;
        char *out;
    } u = {.in = mem}; /* memory that is sent is not written */
    *p = (pg__wire_part){.peer = peer, .tag = tag, .is_sent = is_sent, .mem = u.out, .n = n};
    return pg__wire_begin(job->wire, p);
}

/* Sends to all others, or to one of them. */
static int begin_sends(const pg__mpi_job *job, request *r, const void *mem, size_t n)
{
    int e = 0;
    r->n_parts = 0;
    for (size_t k = 0; k < job->n && e == 0; k++)
        if (k != job->rank && (r->to < 0 || (size_t)r->to == k))
            e = begin(job, r, 1, k, r->tag, mem, n);
    return e;
}

/* Sends n bytes of each rank to rank 0 (into `all`, one after the other), and n_back bytes from
 * there back to all. */
static int begin_both(const pg__mpi_job *job, request *r, const void *mine, char *all, size_t n,
                      void *back, size_t n_back)
{
    int e = 0;
    r->mem = back;
    r->n_bytes = n_back;
    r->comes_back = job->rank == 0;
    for (size_t k = 1; job->rank == 0 && k < job->n && e == 0; k++)
        e = begin(job, r, 0, k, r->tag + UP, all + k * n, n);
    if (job->rank > 0)
        e = begin(job, r, 1, 0, r->tag + UP, mine, n);
    if (job->rank > 0 && e == 0 && (r->to < 0 || (size_t)r->to == job->rank))
        e = begin(job, r, 0, 0, r->tag, back, n_back);
    return e;
}

static int meet(pg__mpi_job *job, void **out)
{
    request *r = new_request(job, out);
    if (!r)
        return ENOMEM;
    r->tag = MEETS;
    r->came = pg__mem_array(job->n, 1);
    return r->came ? begin_both(job, r, r->came, r->came, 1, r->came, 1) : ENOMEM;
}

static int gather(pg__mpi_job *job, const void *mine, void *all, size_t n_bytes, void **out)
{
    request *r = new_request(job, out);
    if (!r)
        return ENOMEM;
    r->tag = GATHERS;
    if (job->rank == 0)
        memcpy(all, mine, n_bytes);
    return begin_both(job, r, mine, all, n_bytes, all, n_bytes * job->n);
}

static int broadcast(pg__mpi_job *job, void *mem, size_t n_bytes, int from, void **out)
{
    request *r = new_request(job, out);
    if (!r)
        return ENOMEM;
    r->tag = SHARES;
    return job->rank == (size_t)from ? begin_sends(job, r, mem, n_bytes)
                                     : begin(job, r, 0, (size_t)from, SHARES, mem, n_bytes);
}

static int sum(pg__mpi_job *job, void *mem, size_t n, size_t real_bytes, int to, void **out)
{
    request *r = new_request(job, out);
    if (!r)
        return ENOMEM;
    r->tag = SUMS;
    r->real_bytes = real_bytes;
    r->to = to;
    if (job->rank == 0) {
        r->came = pg__mem_array(job->n, n * real_bytes);
        if (!r->came)
            return ENOMEM;
        memcpy(r->came, mem, n * real_bytes);
    }
    return begin_both(job, r, mem, r->came, n * real_bytes, mem, n * real_bytes);
}

static int send_to(pg__mpi_job *job, const void *mem, size_t n_bytes, int to, int tag, void **out)
{
    request *r = new_request(job, out);
    return r ? begin(job, r, 1, (size_t)to, (uint32_t)tag, mem, n_bytes) : ENOMEM;
}

static int receive_from(pg__mpi_job *job, void *mem, size_t n_bytes, int from, int tag, void **out)
{
    request *r = new_request(job, out);
    return r ? begin(job, r, 0, (size_t)from, (uint32_t)tag, mem, n_bytes) : ENOMEM;
}

static int has_come(pg__mpi_job *job, int tag)
{
    return pg__wire_has(job->wire, (uint32_t)tag);
}

/* ---- their end ---- */

/* In place of rank 0's contribution. */
static void add_all(const pg__mpi_job *job, const request *r)
{
    const size_t n = r->n_bytes / r->real_bytes;
    void *sum = r->came;
    for (size_t k = 1; k < job->n; k++) {
        const char *more = r->came + k * r->n_bytes;
        if (r->real_bytes == sizeof(double))
            for (size_t i = 0; i < n; i++)
                ((double *)sum)[i] += ((const double *)(const void *)more)[i];
        else
            for (size_t i = 0; i < n; i++)
                ((float *)sum)[i] += ((const float *)(const void *)more)[i];
    }
}

static int test(pg__mpi_job *job, void **out)
{
    request *r = *out;
    if (!r)
        return 0;
    pg__wire_move(job->wire);
    for (size_t k = 0; k < r->n_parts; k++)
        if (!r->parts[k].is_done)
            return 0;
    if (!r->comes_back) {
        free_request(r);
        *out = NULL;
        return 0;
    }
    r->comes_back = 0;
    if (r->real_bytes == 0)
        return begin_sends(job, r, r->mem, r->n_bytes);
    add_all(job, r);
    if (r->to <= 0)
        memcpy(r->mem, r->came, r->n_bytes);
    return begin_sends(job, r, r->came, r->n_bytes);
}

static void describe(int error, char text[PG_MPI_MESSAGE])
{
    (void)snprintf(text, PG_MPI_MESSAGE, "%s", error == NOT_MET ? said : strerror(error));
}

static int lost(const pg__mpi_job *job)
{
    return pg__wire_lost(job->wire);
}

const pg__mpi *pg__tcp(void)
{
    static const pg__mpi tcp = {
        PG_MPI_ABI, sizeof tcp, "TCP",        open_job, close_job, meet,     gather, broadcast,
        sum,        send_to,    receive_from, has_come, test,      describe, lost,
    };
    return &tcp;
}
