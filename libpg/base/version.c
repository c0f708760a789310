/* version.c - the version of the running library, which need not be that of the headers; and what it
 * was built with. */
#include "pg/version.h"

#include "base/beside.h"
#include "base/built_with.h"

const char *pg_version(void)
{
    return PG_VERSION;
}

/* Entries that the build does not know have an empty name. */
static const char *const built_with[] = {PG_BUILT_WITH};
#define N_BUILT_WITH (sizeof built_with / sizeof *built_with)

#ifdef PG_HAVE_TRAINER
/* Opened when needed; in a build folder they are searched in a folder of their own. */
static const struct {
    const char *file, *built_in, *what;
} plug_ins[] = {{"pg-cuda.so", "backend/cuda", "plug-in pg-cuda.so (NVIDIA GPUs)"},
                {"pg-mpi-openmpi.so", "comm", "plug-in pg-mpi-openmpi.so (Open MPI)"},
                {"pg-mpi-mpich.so", "comm", "plug-in pg-mpi-mpich.so (MPICH)"}};
#endif

const char *pg_build_info(size_t i)
{
    for (size_t k = 0; k < N_BUILT_WITH; k++)
        if (*built_with[k] && i-- == 0)
            return built_with[k];
#ifdef PG_HAVE_TRAINER
    char path[PATH_MAX];
    for (size_t k = 0; k < sizeof plug_ins / sizeof *plug_ins; k++)
        if (pg__find_beside(path, plug_ins[k].file, plug_ins[k].built_in) && i-- == 0)
            return plug_ins[k].what;
#endif
    return NULL;
}
