/* What launchers say in the environment. */
#include "pg_test.h"

#include "comm/comm.h"

static const char *const variables[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",  "PMIX_RANK",
    "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS", "RANK",     "WORLD_SIZE"};

static int forget(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof variables / sizeof *variables; k++)
        unsetenv(variables[k]);
    return 0;
}

static void place_is(pg__launcher by, size_t rank, size_t size)
{
    const pg__job_place p = pg__job_place_of();
    assert_int_equal(p.by, by);
    assert_int_equal(p.rank, rank);
    assert_int_equal(p.size, size);
}

static void a_process_that_nobody_launched_is_alone(void **state)
{
    (void)state;
    place_is(PG__ALONE, 0, 1);
    setenv("SLURM_PROCID", "0", 1); /* as in a batch script, before srun */
    place_is(PG__ALONE, 0, 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    place_is(PG__ALONE, 0, 1);
    setenv("OMPI_COMM_WORLD_SIZE", "two", 1);
    place_is(PG__ALONE, 0, 1);
}

static void each_launcher_is_known_by_its_variables(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "3", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    place_is(PG__SRUN, 3, 4);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    place_is(PG__TORCHRUN, 1, 2);
    setenv("PMIX_RANK", "2", 1); /* srun --mpi=pmix */
    place_is(PG__OPENMPI, 2, 4);
    setenv("PMI_RANK", "5", 1);
    setenv("PMI_SIZE", "6", 1);
    place_is(PG__MPICH, 5, 6);
    setenv("OMPI_COMM_WORLD_RANK", "7", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    place_is(PG__OPENMPI, 7, 8);
}

static void what_cannot_be_joined_says_what_to_do(void **state)
{
    const pg__comm_opts opts = {.timeout = 1};
    pg__comm *c = NULL;
    pg_err err = {0};
    (void)state;
    assert_ok(pg__comm_open(&c, &opts, &err));
    assert_null(c);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    assert_fails(PG_E_UNSUPPORTED, pg__comm_open(&c, &opts, &err), &err);
    assert_non_null(strstr(err.hint, "mpirun"));
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    unsetenv("WORLD_SIZE");
    assert_fails(PG_E_UNSUPPORTED, pg__comm_open(&c, &opts, &err), &err);
    assert_non_null(strstr(err.hint, "--mpi=pmix"));
    assert_null(c);
}

PG_TEST_MAIN_WITH(forget, forget,
                  cmocka_unit_test_setup(a_process_that_nobody_launched_is_alone, forget),
                  cmocka_unit_test_setup(each_launcher_is_known_by_its_variables, forget),
                  cmocka_unit_test_setup(what_cannot_be_joined_says_what_to_do, forget))
