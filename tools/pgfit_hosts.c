/* pgfit_hosts.c - --hosts: runs the same command again through the installed mpirun. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pgfit.h"

enum { OPENMPI, MPICH };

/* Which MPI the mpirun belongs to, as its options differ. -1: there is no mpirun, or it is another
 * one. */
static int kind_of_mpirun(void)
{
    char text[512] = "";
    FILE *f = popen("mpirun --version 2>/dev/null", "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f)
        (void)pclose(f);
    if (strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "PRRTE"))
        return OPENMPI;
    return strstr(text, "HYDRA") || strstr(text, "MPICH") || strstr(text, "Intel(R) MPI") ? MPICH
                                                                                          : -1;
}

/* "a:4,b:4": number of processes on all hosts, one for a host without a number; 0: not such a
 * list. */
static unsigned long count_of(const char *hosts)
{
    unsigned long n = 0;
    for (const char *at = hosts; *at;) {
        const size_t len = strcspn(at, ",");
        const char *colon = memchr(at, ':', len);
        char *end = NULL;
        const unsigned long one = colon ? strtoul(colon + 1, &end, 10) : 1;
        if (len == 0 || colon == at || *at == '-' || strcspn(at, " \t\n") < len)
            return 0;
        if (colon && (colon[1] < '0' || colon[1] > '9')) /* strtoul() would take a sign */
            return 0;
        if (colon && (end != at + len || one == 0 || one > 4096))
            return 0;
        n += one;
        at += len + (at[len] == ',' && at[len + 1]);
    }
    return n;
}

/* argv without --hosts. */
static void add_rest(char **out, size_t n, char *const *argv)
{
    for (size_t i = 0; argv[i]; i++)
        if (strcmp(argv[i], "--hosts") == 0 && argv[i + 1])
            i++;
        else if (strncmp(argv[i], "--hosts=", strlen("--hosts=")) != 0)
            out[n++] = argv[i];
    out[n] = NULL;
}

/* Was it started by mpirun, with any number of processes? */
static int was_launched(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") || getenv("PMIX_RANK");
}

static void show_command(char *const *argv)
{
    if (cli.quiet)
        return;
    for (size_t i = 0; argv[i]; i++)
        cli_printf(stderr, "%s%s", i ? " " : "", cli_name(argv[i]).s);
    fputc('\n', stderr);
}

pg_status fit_start_on_hosts(char *const *argv, pg_err *err)
{
    static char as_root[] = "--allow-run-as-root", unbound[] = "none", bind[] = "--bind-to";
    static char mpirun[] = "mpirun", np[] = "-np", host[] = "--host", hosts[] = "-hosts";
    static char number[24];
    char *list = NULL, **all = NULL;
    size_t n = 0, n_old = 0;
    if (!fit_args.hosts || was_launched())
        return PG_OK;
    const unsigned long count = count_of(fit_args.hosts);
    if (count == 0) {
        (void)pg_fail(err, PG_E_ARG, "--hosts %s: write hosts with their numbers of processes",
                      cli_name(fit_args.hosts).s);
        pg_err_hint(err, "--hosts a:4,b:4");
        return PG_E_ARG;
    }
    const int kind = kind_of_mpirun();
    if (kind < 0) {
        (void)pg_fail(err, PG_E_UNSUPPORTED, "--hosts: found no mpirun of Open MPI or MPICH");
        pg_err_hint(err, "apt-get install openmpi-bin, on all hosts");
        return PG_E_UNSUPPORTED;
    }
    while (argv[n_old])
        n_old++;
    all = calloc(n_old + 16, sizeof *all);
    list = strdup(fit_args.hosts);
    if (!all || !list) {
        free(all);
        free(list);
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    }
    (void)snprintf(number, sizeof number, "%lu", count);
    all[n++] = mpirun;
    if (kind == OPENMPI && geteuid() == 0)
        all[n++] = as_root;
    if (kind == OPENMPI) { /* one process uses all cores of its share */
        all[n++] = bind;
        all[n++] = unbound;
    }
    all[n++] = kind == OPENMPI ? host : hosts;
    all[n++] = list;
    all[n++] = np;
    all[n++] = number;
    add_rest(all, n, argv);
    show_command(all);
    fflush(NULL);
    execvp(all[0], all);
    (void)pg_fail_sys(err, PG_E_IO, errno, "mpirun cannot be started");
    free(all);
    free(list);
    return PG_E_IO;
}
