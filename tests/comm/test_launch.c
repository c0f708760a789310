/* What launchers say in the environment. */
#include "pg_test.h"

#include "comm/comm.h"

static const char *const variables[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID",
                                        "TORCHELASTIC_RUN_ID",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "SLURM_LOCALID",
                                        "SLURM_NODEID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NUM_NODES",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID",
                                        "SLURM_NNODES",
                                        "SLURM_TASKS_PER_NODE",
                                        "PMIX_NAMESPACE",
                                        "PMI_FD"};

static int forget(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof variables / sizeof *variables; k++)
        unsetenv(variables[k]);
    return 0;
}

static void expect_place(pg__launcher by, size_t rank, size_t size)
{
    const pg__job_place p = pg__job_place_of();
    assert_int_equal(p.by, by);
    assert_int_equal(p.rank, rank);
    assert_int_equal(p.size, size);
}

static void a_process_that_nobody_launched_is_alone(void **state)
{
    (void)state;
    expect_place(PG_ALONE, 0, 1);
    setenv("SLURM_PROCID", "0", 1); /* as in a batch script, before srun */
    expect_place(PG_ALONE, 0, 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    expect_place(PG_ALONE, 0, 1);
    setenv("OMPI_COMM_WORLD_SIZE", "two", 1);
    expect_place(PG_ALONE, 0, 1);
}

static void each_launcher_is_known_by_its_variables(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "3", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    expect_place(PG_SRUN, 3, 4);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    expect_place(PG_TORCHRUN, 1, 2);
    assert_int_equal(pg__job_place_of().n_local, 0);
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", "8", 1);
    assert_int_equal(pg__job_place_of().local, 1);
    assert_int_equal(pg__job_place_of().n_local, 8);
    setenv("PMIX_RANK", "2", 1); /* srun --mpi=pmix */
    expect_place(PG_OPENMPI, 2, 4);
    setenv("TORCHELASTIC_RUN_ID", "x", 1); /* srun --mpi=pmix torchrun */
    expect_place(PG_TORCHRUN, 1, 2);
    unsetenv("TORCHELASTIC_RUN_ID");
    setenv("PMI_RANK", "5", 1);
    setenv("PMI_SIZE", "6", 1);
    expect_place(PG_MPICH, 5, 6);
    setenv("OMPI_COMM_WORLD_RANK", "7", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    expect_place(PG_OPENMPI, 7, 8);
}

/* The variables that Slurm 22.05 sets for task 5 of 8 on the second of two nodes (srun's manual):
 * the same ones with every
 * --mpi, and those of the plug-in beside them. */
static void srun_sets(void)
{
    static const char *const values[][2] = {
        {"SLURM_PROCID", "5"},         {"SLURM_LOCALID", "1"},
        {"SLURM_NODEID", "1"},         {"SLURM_NTASKS", "8"},
        {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_NUM_NODES", "2"},
        {"SLURM_JOB_ID", "4711"},      {"SLURM_STEP_ID", "0"},
        {"SLURM_NNODES", "2"},         {"SLURM_TASKS_PER_NODE", "4(x2)"}};
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        setenv(values[k][0], values[k][1], 1);
}

static void srun_is_known_by_what_joins_its_tasks(void **state)
{
    (void)state;
    srun_sets(); /* --mpi=none */
    expect_place(PG_SRUN, 5, 8);
    setenv("PMIX_RANK", "5", 1); /* --mpi=pmix: the number of tasks is Slurm's */
    setenv("PMIX_NAMESPACE", "slurm.pmix.4711.0", 1);
    expect_place(PG_OPENMPI, 5, 8);
    unsetenv("PMIX_RANK");
    unsetenv("PMIX_NAMESPACE");
    setenv("PMI_RANK", "5", 1); /* --mpi=pmi2 */
    setenv("PMI_SIZE", "8", 1);
    setenv("PMI_FD", "11", 1);
    expect_place(PG_MPICH, 5, 8);
    unsetenv("PMI_FD");
}

static void one_task_of_srun_is_alone(void **state)
{
    (void)state;
    srun_sets();
    setenv("SLURM_PROCID", "0", 1); /* srun --pty bash, or -n 1 */
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    setenv("PMIX_RANK", "0", 1);
    expect_place(PG_ALONE, 0, 1);
    setenv("OMPI_COMM_WORLD_RANK", "1", 1); /* mpirun inside */
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    expect_place(PG_OPENMPI, 1, 2);
}

static void what_is_no_place_in_a_job_is_none(void **state)
{
    static const char *const not [][2] = {
        {"", "2"},    {"0", ""},           {"-1", "2"},
        {"+1", "2"},  {" 1", "2"},         {"1 ", "2"},
        {"1", "2x"},  {"0x1", "2"},        {"2", "2"},
        {"3", "2"},   {"0", "0"},          {"1", "-2"},
        {"1", "1e1"}, {"0", "4294967296"}, {"0", "99999999999999999999999"}};
    (void)state;
    for (size_t k = 0; k < sizeof not / sizeof *not ; k++) {
        setenv("PMI_RANK", not [k][0], 1);
        setenv("PMI_SIZE", not [k][1], 1);
        expect_place(PG_ALONE, 0, 1);
        setenv("SLURM_PROCID", "1", 1); /* the next launcher's are looked at */
        setenv("SLURM_STEP_NUM_TASKS", "2", 1);
        expect_place(PG_SRUN, 1, 2);
        unsetenv("SLURM_PROCID");
        unsetenv("SLURM_STEP_NUM_TASKS");
    }
    unsetenv("PMI_SIZE"); /* half of the variables */
    setenv("PMI_RANK", "1", 1);
    expect_place(PG_ALONE, 0, 1);
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
    assert_int_equal(err.action.what, PG_DO_LAUNCH);
    const pg__comm_opts gpus = {.timeout = 1,
                                .on_gpus = 1}; /* it says nothing of where rank 0 is */
    assert_fails(PG_E_PEER, pg__comm_open(&c, &gpus, &err), &err);
    assert_non_null(strstr(err.msg, "MASTER_ADDR"));
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    unsetenv("WORLD_SIZE");
    assert_fails(PG_E_UNSUPPORTED, pg__comm_open(&c, &opts, &err), &err);
    assert_non_null(pg_action_get(&err.action, "srun"));
    assert_null(c);
}

static void one_process_of_a_machine_speaks(void **state)
{
    (void)state;
    assert_true(pg__job_speaks());
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    assert_true(pg__job_speaks());
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    assert_false(pg__job_speaks()); /* the launcher does not tell where it is */
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    assert_false(pg__job_speaks());
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    assert_true(pg__job_speaks());
}

static void others_are_silent_where_nothing_joins_them(void **state)
{
    const pg__comm_opts opts = {.timeout = 1};
    pg__comm *c = NULL;
    pg_err err = {0};
    (void)state;
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "4", 1);
    setenv("LOCAL_RANK", "3", 1);
    assert_int_equal(pg__comm_open(&c, &opts, &err), PG_E_UNSUPPORTED);
    assert_string_equal(err.msg, "");
    setenv("LOCAL_RANK", "0", 1); /* the first one of another machine, which it names */
    assert_fails(PG_E_UNSUPPORTED, pg__comm_open(&c, &opts, &err), &err);
    assert_non_null(strstr(err.msg, ": torchrun started"));
    setenv("SLURM_PROCID", "2", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("SLURM_LOCALID", "0", 1);
    unsetenv("WORLD_SIZE");
    assert_int_equal(pg__comm_open(&c, &opts, &err), PG_E_UNSUPPORTED);
    assert_string_equal(err.msg, ""); /* srun shows what all say, and rank 0 says it */
}

PG_TEST_MAIN_WITH(forget, forget,
                  cmocka_unit_test_setup(a_process_that_nobody_launched_is_alone, forget),
                  cmocka_unit_test_setup(each_launcher_is_known_by_its_variables, forget),
                  cmocka_unit_test_setup(srun_is_known_by_what_joins_its_tasks, forget),
                  cmocka_unit_test_setup(one_task_of_srun_is_alone, forget),
                  cmocka_unit_test_setup(what_is_no_place_in_a_job_is_none, forget),
                  cmocka_unit_test_setup(one_process_of_a_machine_speaks, forget),
                  cmocka_unit_test_setup(others_are_silent_where_nothing_joins_them, forget),
                  cmocka_unit_test_setup(what_cannot_be_joined_says_what_to_do, forget))
