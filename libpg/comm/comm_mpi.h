/* comm_mpi.h - the interface of a plug-in for one MPI. A plug-in only begins operations and says
 * whether they have finished; comm.c waits, and handles ranks that do not arrive. Without an MPI,
 * tcp.c implements the same interface. */
#ifndef PG_COMM_COMM_MPI_H
#define PG_COMM_COMM_MPI_H

#include <stddef.h>
#include <stdint.h>

#define PG_MPI_ABI     5
#define PG_MPI_MESSAGE 256 /* bytes of a message, with its end */

typedef struct pg__mpi_job pg__mpi_job;

typedef enum pg__mpi_end {
    PG_LEFT,     /* ranks end without regard to each other */
    PG_IN_ORDER, /* all are there and do the same */
    PG_FOR_GOOD  /* and their processes open no other job: nobody waits for a process that
                     continues */
} pg__mpi_end;

/* All functions except has_come() and describe() return 0 or an error of MPI. Numbers of elements
 * are at most INT_MAX. */
typedef struct pg__mpi {
    uint32_t abi, size; /* PG_MPI_ABI, bytes of this struct */
    const char *name;   /* "MPI" */
    /* timeout: seconds, for a transport with its own timeout. */
    int (*open)(pg__mpi_job **out, double timeout, int *rank, int *n_ranks,
                char version[PG_MPI_MESSAGE]);
    void (*close)(pg__mpi_job *job, pg__mpi_end how);

    int (*meet)(pg__mpi_job *job, void **request); /* at the end; may overlap with all other
                                                      calls */
    int (*gather)(pg__mpi_job *job, const void *mine, void *all, size_t n_bytes, void **request);
    int (*broadcast)(pg__mpi_job *job, void *mem, size_t n_bytes, int from, void **request);
    /* In place. to: the rank that gets the sum, while mem of the others is unchanged; -1: all. */
    int (*sum)(pg__mpi_job *job, void *mem, size_t n, size_t real_bytes, int to, void **request);
    int (*send)(pg__mpi_job *job, const void *mem, size_t n_bytes, int to, int tag, void **request);
    int (*receive)(pg__mpi_job *job, void *mem, size_t n_bytes, int from, int tag, void **request);
    /* 1: a message with this tag has arrived from any rank, and nobody has asked for it yet. */
    int (*has_come)(pg__mpi_job *job, int tag);
    /* *request is NULL afterwards if it has finished. NULL counts as finished. */
    int (*test)(pg__mpi_job *job, void **request);
    void (*describe)(int error, char text[PG_MPI_MESSAGE]);
    /* A rank that is known to be gone, or -1; from any thread. NULL: not known by this MPI. */
    int (*lost)(const pg__mpi_job *job);
} pg__mpi;

/* The plug-in's only symbol; NULL for another ABI. */
typedef const pg__mpi *(*pg__mpi_get)(uint32_t abi);

#endif
