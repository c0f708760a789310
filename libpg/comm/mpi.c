/* mpi.c - the plug-in: Open MPI and MPICH have different ABIs, so it is built once with each. */
#include "comm/comm_mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

struct pg__mpi_job {
    MPI_Comm all;  /* our own, so that messages of others are not taken for ours */
    MPI_Comm sums; /* of sum(): sums may run beside other communication, in any order */
    MPI_Comm ends; /* of meet() */
};

/* A process can begin MPI once and end it once, however often jobs are opened and closed: so MPI
 * ends with the process. MPI_Finalize() waits for all ranks: for ever, if one of them is gone. */
static int is_ours, is_broken;
static _Atomic int is_ended; /* before the process ends */

#define PATIENCE 5 /* seconds */

/* Now and then it hangs although all ranks are there (MPICH 4.0 over UCX's TCP). By then nothing is
 * left to do, because all ranks have met before. */
static void *leave(void *status)
{
    sleep(PATIENCE);
    fflush(NULL);
    _exit(*(int *)status);
}

static void finalize(int status, void *arg)
{
    static int left_with;
    pthread_t watch;
    int is_over = 0;
    (void)arg;
    left_with = status;
    if (is_broken || is_ended || MPI_Finalized(&is_over) != MPI_SUCCESS || is_over)
        return;
    if (pthread_create(&watch, NULL, leave, &left_with) == 0)
        MPI_Finalize();
}

static void *end(void *arg)
{
    (void)arg;
    MPI_Finalize();
    is_ended = 2;
    return NULL;
}

/* Now, because one of them has much left to do. */
static void end_early(void)
{
    pthread_t thread;
    is_ended = 1;
    if (pthread_create(&thread, NULL, end, NULL) != 0)
        return;
    (void)pthread_detach(thread);
    for (int k = 0; k < PATIENCE * 1000 && is_ended == 1; k++)
        usleep(1000);
}

/* For sums in place, Open MPI's own choice is a tree that sends everything up and then everything
 * down: twice as long on a link as halving and doubling (Rabenseifner), which uses both directions.
 * Settings of the user are kept. */
static void choose_sums(void)
{
#ifdef OPEN_MPI
    (void)setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
#endif
}

static int begin(void)
{
    int e, given = 0, was_open = 0;
    choose_sums();
    e = MPI_Initialized(&was_open);
    if (e != MPI_SUCCESS)
        return e;
    e = was_open ? MPI_Query_thread(&given)
                 : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
    if (e == MPI_SUCCESS && !was_open && !is_ours)
        is_ours = on_exit(finalize, NULL) == 0;
    return e == MPI_SUCCESS && given < MPI_THREAD_SERIALIZED ? MPI_ERR_OTHER : e;
}

static int open_job(pg__mpi_job **out, double timeout, int *rank, int *n_ranks,
                    char version[PG_MPI_MESSAGE])
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int e, n;
    (void)timeout; /* of the thread that waits for this one */
    pg__mpi_job *job = pg__mem_array(1, sizeof *job);
    if (!job)
        return MPI_ERR_NO_MEM;
    e = begin();
    if (e == MPI_SUCCESS)
        e = MPI_Comm_dup(MPI_COMM_WORLD, &job->all);
    if (e == MPI_SUCCESS)
        e = MPI_Comm_set_errhandler(job->all, MPI_ERRORS_RETURN);
    if (e == MPI_SUCCESS)
        e = MPI_Comm_dup(job->all, &job->sums);
    if (e == MPI_SUCCESS)
        e = MPI_Comm_dup(job->all, &job->ends);
    if (e == MPI_SUCCESS)
        e = MPI_Comm_rank(job->all, rank);
    if (e == MPI_SUCCESS)
        e = MPI_Comm_size(job->all, n_ranks);
    if (e == MPI_SUCCESS)
        e = MPI_Get_library_version(text, &n);
    if (e != MPI_SUCCESS) {
        pg__mem_free(job);
        return e;
    }
    text[strcspn(text, ",\n")] =
        '\0'; /* "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\n" */
    strncpy(version, text, PG_MPI_MESSAGE - 1);
    version[PG_MPI_MESSAGE - 1] = '\0';
    for (char *tab = strchr(version, '\t'); tab; tab = strchr(tab, '\t'))
        *tab = ' ';
    *out = job;
    return 0;
}

static void close_job(pg__mpi_job *job, pg__mpi_end how)
{
    if (how != PG_LEFT) {
        MPI_Comm_free(&job->ends);
        MPI_Comm_free(&job->sums);
        MPI_Comm_free(&job->all);
    }
    is_broken |= how == PG_LEFT;
    pg__mem_free(job);
    if (how == PG_FOR_GOOD && is_ours)
        end_early();
}

/* A request on the heap, which the caller sees as a pointer. */
static MPI_Request *new_request(void **request)
{
    MPI_Request *r = pg__mem_array(1, sizeof *r);
    *request = r;
    return r;
}

static int begun(int e, void **request)
{
    if (e == MPI_SUCCESS)
        return 0;
    pg__mem_free(*request);
    *request = NULL;
    return e;
}

static int meet(pg__mpi_job *job, void **request)
{
    MPI_Request *r = new_request(request);
    if (!r)
        return MPI_ERR_NO_MEM;
    return begun(MPI_Ibarrier(job->ends, r), request);
}

static int gather(pg__mpi_job *job, const void *mine, void *all, size_t n_bytes, void **request)
{
    MPI_Request *r = new_request(request);
    if (!r)
        return MPI_ERR_NO_MEM;
    return begun(
        MPI_Iallgather(mine, (int)n_bytes, MPI_BYTE, all, (int)n_bytes, MPI_BYTE, job->all, r),
        request);
}

static int broadcast(pg__mpi_job *job, void *mem, size_t n_bytes, int from, void **request)
{
    MPI_Request *r = new_request(request);
    if (!r)
        return MPI_ERR_NO_MEM;
    return begun(MPI_Ibcast(mem, (int)n_bytes, MPI_BYTE, from, job->all, r), request);
}

static int sum(pg__mpi_job *job, void *mem, size_t n, size_t real_bytes, int to, void **request)
{
    const MPI_Datatype type = real_bytes == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT;
    MPI_Request *r = new_request(request);
    int rank, e;
    if (!r)
        return MPI_ERR_NO_MEM;
    if (to < 0)
        return begun(MPI_Iallreduce(MPI_IN_PLACE, mem, (int)n, type, MPI_SUM, job->sums, r),
                     request);
    e = MPI_Comm_rank(job->sums, &rank);
    if (e == MPI_SUCCESS)
        e = rank == to ? MPI_Ireduce(MPI_IN_PLACE, mem, (int)n, type, MPI_SUM, to, job->sums, r)
                       : MPI_Ireduce(mem, NULL, (int)n, type, MPI_SUM, to, job->sums, r);
    return begun(e, request);
}

static int send_to(pg__mpi_job *job, const void *mem, size_t n_bytes, int to, int tag,
                   void **request)
{
    MPI_Request *r = new_request(request);
    if (!r)
        return MPI_ERR_NO_MEM;
    return begun(MPI_Isend(mem, (int)n_bytes, MPI_BYTE, to, tag, job->all, r), request);
}

static int receive_from(pg__mpi_job *job, void *mem, size_t n_bytes, int from, int tag,
                        void **request)
{
    MPI_Request *r = new_request(request);
    if (!r)
        return MPI_ERR_NO_MEM;
    return begun(MPI_Irecv(mem, (int)n_bytes, MPI_BYTE, from, tag, job->all, r), request);
}

static int has_come(pg__mpi_job *job, int tag)
{
    int found = 0;
    return MPI_Iprobe(MPI_ANY_SOURCE, tag, job->all, &found, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           found;
}

static int test(pg__mpi_job *job, void **request)
{
    int over = 0;
    (void)job;
    if (!*request)
        return 0;
    const int e = MPI_Test(*request, &over, MPI_STATUS_IGNORE);
    if (e == MPI_SUCCESS && !over)
        return 0;
    pg__mem_free(*request);
    *request = NULL;
    return e == MPI_SUCCESS ? 0 : e;
}

static void describe(int error, char text[PG_MPI_MESSAGE])
{
    char all[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (MPI_Error_string(error, all, &n) != MPI_SUCCESS)
        all[0] = '\0';
    all[strcspn(all, "\n")] = '\0';
    strncpy(text, all, PG_MPI_MESSAGE - 1);
    text[PG_MPI_MESSAGE - 1] = '\0';
}

#define EXPORTED __attribute__((visibility("default")))
EXPORTED const pg__mpi *pg_mpi_get(uint32_t abi);
const pg__mpi *pg_mpi_get(uint32_t abi)
{
    static const pg__mpi mpi = {
        PG_MPI_ABI, sizeof mpi, "MPI",        open_job, close_job, meet,     gather, broadcast,
        sum,        send_to,    receive_from, has_come, test,      describe, NULL,
    };
    return abi == PG_MPI_ABI ? &mpi : NULL;
}
