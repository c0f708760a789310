/* launch.c - reads what the launcher says in the environment. Open MPI's mpirun: OMPI_COMM_WORLD_*;
 * MPICH, Intel MPI and srun with PMI: PMI_*; srun with PMIx: PMIX_RANK, and Slurm's own variables
 * for the number; torchrun: WORLD_SIZE, RANK, LOCAL_RANK, LOCAL_WORLD_SIZE. */
#include <limits.h>
#include <stdlib.h>

#include "base/env.h"
#include "comm/comm.h"

#define MOST ((size_t)INT_MAX) /* MPI counts in ints */

/* A whole number; 0: the variable is missing, or is not a whole number. */
static int number_of(const char *variable, size_t *out)
{
    const char *text = pg__env(variable);
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9')
        return 0;
    *out = (size_t)strtoull(text, &end, 10);
    return *end == '\0' && *out <= MOST;
}

pg__job_place pg__job_place_of(void)
{
    static const struct {
        const char *rank, *size;
        pg__launcher by;
    } known[] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", PG_OPENMPI},
        {"PMI_RANK", "PMI_SIZE", PG_MPICH},
        {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", PG_OPENMPI},
        {"RANK", "WORLD_SIZE", PG_TORCHRUN},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", PG_SRUN},
    };
    pg__job_place p = {PG_ALONE, 0, 1, 0, 0};
    /* an agent of torchrun that srun or mpirun started passes their variables on */
    const int by_agent = pg__env("TORCHELASTIC_RUN_ID") != NULL;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if ((!by_agent || known[k].by == PG_TORCHRUN) && number_of(known[k].rank, &p.rank) &&
            number_of(known[k].size, &p.size) && p.rank < p.size && p.size > 1) {
            p.by = known[k].by;
            if (p.by == PG_TORCHRUN &&
                (!number_of("LOCAL_RANK", &p.local) || !number_of("LOCAL_WORLD_SIZE", &p.n_local)))
                p.local = p.n_local = 0;
            return p;
        }
    return (pg__job_place){PG_ALONE, 0, 1, 0, 0};
}

int pg__job_speaks(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                            "LOCAL_RANK", "SLURM_LOCALID"};
    const pg__job_place p = pg__job_place_of();
    size_t local;
    if (p.rank == 0)
        return 1;
    for (size_t k = 0; k < sizeof variables / sizeof *variables; k++)
        if (number_of(variables[k], &local))
            return local == 0;
    return 0;
}
