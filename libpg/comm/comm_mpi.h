/* comm_mpi.h - what a plug-in for one MPI does, and no more: it begins things and says whether they
 * are over. Waiting, and what to do about those who do not come, is comm.c's. Where there is no MPI
 * tcp.c does the same. */
#ifndef PG_COMM_COMM_MPI_H
#define PG_COMM_COMM_MPI_H

#include <stddef.h>
#include <stdint.h>

#define PG_MPI_ABI     5
#define PG_MPI_MESSAGE 256 /* bytes of a message, with its end */

typedef struct pg__mpi_job pg__mpi_job;

typedef enum pg__mpi_end {
    PG__LEFT,     /* ranks are left to themselves */
    PG__IN_ORDER, /* all are there and do the same */
    PG__FOR_GOOD  /* and their processes open no other: who goes on is waited for by nobody */
} pg__mpi_end;

/* All but has_come() and describe() are 0, or an error of MPI. Numbers of elements are at most
 * INT_MAX. */
typedef struct pg__mpi {
    uint32_t abi, size; /* PG_MPI_ABI, bytes of this struct */
    const char *name;   /* "MPI" */
    /* timeout: seconds, for one that has its own patience. */
    int (*open)(pg__mpi_job **out, double timeout, int *rank, int *n_ranks,
                char version[PG_MPI_MESSAGE]);
    void (*close)(pg__mpi_job *job, pg__mpi_end how);

    int (*meet)(pg__mpi_job *job, void **request); /* at the end: beside all other calls */
    int (*gather)(pg__mpi_job *job, const void *mine, void *all, size_t n_bytes, void **request);
    int (*broadcast)(pg__mpi_job *job, void *mem, size_t n_bytes, int from, void **request);
    /* In place; to: the rank that the sum comes to, mem of others is left as it was; -1: all. */
    int (*sum)(pg__mpi_job *job, void *mem, size_t n, size_t real_bytes, int to, void **request);
    int (*send)(pg__mpi_job *job, const void *mem, size_t n_bytes, int to, int tag, void **request);
    int (*receive)(pg__mpi_job *job, void *mem, size_t n_bytes, int from, int tag, void **request);
    /* 1: a message with this tag has come, from whomever, that nobody has asked for yet. */
    int (*has_come)(pg__mpi_job *job, int tag);
    /* *request is NULL afterwards if it is over. NULL is over. */
    int (*test)(pg__mpi_job *job, void **request);
    void (*describe)(int error, char text[PG_MPI_MESSAGE]);
    /* A rank that is known to be gone, or -1; from any thread. NULL: nobody knows. */
    int (*lost)(const pg__mpi_job *job);
} pg__mpi;

/* The plug-in's only symbol; NULL for another abi. */
typedef const pg__mpi *(*pg__mpi_get)(uint32_t abi);

#endif
