/* comm_plugin.c - opens the plug-ins for MPI, pg-mpi-openmpi.so and pg-mpi-mpich.so. They are
 * searched in the same places as pg-cuda.so (base/beside.h). Open MPI opens plug-ins of its own,
 * which need its symbols. */
#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/mem.h"
#include "base/str.h"
#include "comm/comm_impl.h"

#define TO_SPEAK 1 /* seconds */

typedef struct kind {
    const char *name, *file, *package;
    const char *libraries[3]; /* of one ABI, under the names that distributions give it */
} kind;

pg_status pg__comm_needs_mpi(pg__launcher by, pg_err *err)
{
    if (by == PG_SRUN) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "srun started several processes, and no MPI that could join them");
        pg_err_do(err, PG_DO_LAUNCH, NULL);
        pg_err_arg(err, "srun", "true");
    } else {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "torchrun started several processes; on CPUs they are joined by MPI");
        pg_err_do(err, PG_DO_LAUNCH, NULL);
    }
    return PG_E_UNSUPPORTED;
}

/* A plug-in that was linked with an MPI names its library and loads at once. That of a Python
 * package serves whatever MPI of the same ABI there is, and names none: its symbols are those of a
 * library opened before. */
static void *open_library(const kind *k, const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    for (size_t i = 0; !lib && k->libraries[i]; i++)
        if (dlopen(k->libraries[i], RTLD_NOW | RTLD_GLOBAL))
            return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    return lib;
}

static pg_status open_file(const pg__mpi **out, const kind *k, const char *path, pg_err *err)
{
    union {
        void *symbol;
        pg__mpi_get get;
    } u;
    void *lib = open_library(k, path);
    if (!lib) {
        const char *said = dlerror();
        (void)pg_fail(err, PG_E_UNSUPPORTED, "%s started this job, and it cannot be loaded: %s",
                      k->name, said ? said : path);
        pg_err_hint(err, "apt-get install %s", k->package);
        return PG_E_UNSUPPORTED;
    }
    u.symbol = dlsym(lib, "pg_mpi_get");
    const pg__mpi *mpi = u.symbol ? u.get(PG_MPI_ABI) : NULL;
    if (!mpi || mpi->abi != PG_MPI_ABI || mpi->size != sizeof *mpi) {
        (void)dlclose(lib);
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "%s came with another version of libpg: install both from one package",
                       PG_SHOW(path));
    }
    *out = mpi;
    return PG_OK;
}

/* A distribution has the plug-ins in a package of their own (option mpi-package). */
static pg_status missing(const kind *k, pg__launcher by, pg_err *err)
{
#ifdef PG_MPI_PACKAGE
    (void)by;
    (void)pg_fail(err, PG_E_UNSUPPORTED, "%s started this job, and %s is missing", k->name,
                  k->file);
    pg_err_hint(err, "apt-get install " PG_MPI_PACKAGE);
#else
    (void)pg_fail(err, PG_E_UNSUPPORTED,
                  "%s started this job, and %s is missing: this libpg was built without it",
                  k->name, k->file);
    pg_err_do(err, PG_DO_BUILD_WITH_MPI, NULL);
    pg_err_arg(err, "package", by == PG_OPENMPI ? "libopenmpi-dev" : "libmpich-dev");
#endif
    return PG_E_UNSUPPORTED;
}

static pg_status find(const pg__mpi **out, pg__launcher by, pg_err *err)
{
    static const kind openmpi = {"Open MPI", "pg-mpi-openmpi.so", "libopenmpi3", {"libmpi.so.40"}},
                      mpich = {"MPICH (or an MPI like it)",
                               "pg-mpi-mpich.so",
                               "libmpich12",
                               {"libmpi.so.12", "libmpich.so.12"}};
    const kind *k = by == PG_OPENMPI ? &openmpi : &mpich;
    char *path = NULL;
    pg_status st = PG_OK;
    if (by != PG_OPENMPI && by != PG_MPICH)
        return pg__comm_needs_mpi(by, err);
    path = pg__mem_array(PATH_MAX, 1);
    if (!path)
        return pg__nomem(err);
    if (pg__find_beside(path, k->file, "comm"))
        st = open_file(out, k, path, err);
    else
        st = missing(k, by, err);
    pg__mem_free(path);
    return st;
}

pg_status pg__plugin_mpi(const pg__mpi **out, pg__launcher by, pg_err *err)
{
    char host[64] = "";
    const pg_status st = find(out, by, err);
    if (st != PG_E_UNSUPPORTED || !err)
        return st;
    /* an option missing from srun's command line is not one machine's fault, and srun collects the
     * messages of all */
    if (by == PG_SRUN ? pg__job_place_of().rank > 0 : !pg__job_speaks()) {
        *err = (pg_err){.code = st};
        (void)sleep(TO_SPEAK); /* a launcher ends all processes as soon as one has ended */
    } else if (pg__job_place_of().rank > 0 && gethostname(host, sizeof host - 1) == 0)
        pg_err_prefix(err, host); /* it may be missing only there */
    return st;
}
