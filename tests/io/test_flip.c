#include "pg_test.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/flip.h"

/* Stands before the C library's: a file system that cannot lock, say. */
static int flock_fails;
int flock(int fd, int operation)
{
    if (!flock_fails)
        return (int)syscall(SYS_flock, fd, operation);
    errno = flock_fails;
    return -1;
}

static char dir[] = "/tmp/pg-test-flip-XXXXXX";
static char path[64], other[64];
static const pg__sink_opts quick = {.no_sync = 1};

/* A format whose first four bytes say where the rest is: "HHHH", old contents, new ones. */
#define OLD "head-old-contents"
static const pg__flip_change change = {.end = 17,
                                       .tail_at = 20,
                                       .tail = (const unsigned char *)"new contents",
                                       .n_tail = 12,
                                       .head = (const unsigned char *)"HEAD",
                                       .n_head = 4};

static void put(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void assert_holds(const void *want, size_t n)
{
    char got[128];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got, f), n);
    assert_memory_equal(got, want, n);
    fclose(f);
}

static pg_status flip(const pg__sink_opts *opts, const pg__flip_change *c, pg_err *err)
{
    pg__flip *f = NULL;
    pg_status st = pg__flip_open(&f, path, opts, err);
    if (st == PG_OK)
        st = pg__flip_write(f, c, err);
    pg__flip_close(f);
    return st;
}

static void writes_the_tail_and_then_the_head(void **state)
{
    (void)state;
    put(OLD, 17);
    assert_ok(flip(&(pg__sink_opts){0}, &change, NULL));
    assert_holds("HEAD-old-contents\0\0\0new contents", 32);
}

static void cuts_off_what_a_killed_run_left(void **state)
{
    (void)state;
    put(OLD "garbage of a killed run, longer than all", 57);
    assert_ok(flip(&quick, &change, NULL));
    assert_holds("HEAD-old-contents\0\0\0new contents", 32);
}

static void refuses_what_would_surprise(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__flip *f = NULL;
    put(OLD, 17);
    assert_int_equal(link(path, other), 0);
    assert_fails(PG_E_ARG, flip(&quick, &change, &err), &err);
    assert_non_null(strstr(err.msg, "2 names (hard links)"));
    assert_int_equal(unlink(other), 0);
    assert_fails(PG_E_ARG, pg__flip_open(&f, "/dev/null", &quick, &err), &err);
    assert_fails(PG_E_IO, pg__flip_open(&f, dir, &quick, &err), &err);
    assert_fails(PG_E_IO, pg__flip_open(&f, other, &quick, &err), &err);
    assert_int_equal(err.sys, ENOENT);
    assert_holds(OLD, 17);
}

static void leaves_a_file_in_use_alone(void **state)
{
    (void)state;
    pg_err err = {0};
    put(OLD, 17);
    FILE *user = fopen(path, "r");
    assert_non_null(user);
    assert_int_equal(flock(fileno(user), LOCK_SH), 0); /* as libhdf5 does */
    assert_fails(PG_E_IO, flip(&quick, &change, &err), &err);
    assert_non_null(strstr(err.msg, "in use by another program"));
    fclose(user);
    assert_holds(OLD, 17);
    assert_ok(flip(&quick, &change, NULL));
}

static void goes_on_where_the_file_system_has_no_locks(void **state)
{
    (void)state;
    static const int numbers[] = {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL};
    pg__flip *f = NULL;
    pg_err err = {0};
    put(OLD, 17);
    assert_ok(pg__flip_open(&f, path, &quick, NULL));
    assert_true(pg__flip_is_locked(f));
    pg__flip_close(f);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        put(OLD, 17);
        flock_fails = numbers[i];
        const pg_status st = pg__flip_open(&f, path, &quick, &err);
        flock_fails = 0;
        assert_ok(st);
        assert_false(pg__flip_is_locked(f));
        assert_ok(pg__flip_write(f, &change, &err));
        pg__flip_close(f);
        assert_holds("HEAD-old-contents\0\0\0new contents", 32);
    }
    flock_fails = EIO;
    const pg_status st = pg__flip_open(&f, path, &quick, &err);
    flock_fails = 0;
    assert_fails(PG_E_IO, st, &err);
    assert_non_null(strstr(err.msg, ": cannot be locked: Input/output error; nothing changed"));
}

static void follows_a_symbolic_link(void **state)
{
    (void)state;
    struct stat sb;
    pg__flip *f = NULL;
    pg__io *io = NULL;
    put(OLD, 17);
    assert_int_equal(symlink(path, other), 0);
    assert_ok(pg__flip_open(&f, other, &quick, NULL));
    assert_ok(pg__io_open(&io, path, NULL));
    assert_ok(pg__flip_check(f, io, NULL));
    assert_ok(pg__flip_write(f, &change, NULL));
    pg__flip_close(f);
    pg__io_close(io);
    assert_true(lstat(other, &sb) == 0 && S_ISLNK(sb.st_mode));
    assert_int_equal(unlink(other), 0);
    assert_holds("HEAD-old-contents\0\0\0new contents", 32);
}

static void knows_another_file_from_its_own(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__flip *f = NULL;
    pg__io *io = NULL;
    put(OLD, 17);
    assert_ok(pg__io_open(&io, path, NULL));
    assert_int_equal(rename(path, other), 0);
    put(OLD, 17);
    assert_ok(pg__flip_open(&f, path, &quick, NULL));
    assert_fails(PG_E_IO, pg__flip_check(f, io, &err), &err);
    assert_non_null(strstr(err.msg, ": replaced by another file"));
    pg__flip_close(f);
    pg__io_close(io);
    assert_int_equal(unlink(other), 0);
}

static void a_cancel_leaves_the_old_file(void **state)
{
    (void)state;
    pg_err err = {0};
    const volatile int cancel = 1;
    put(OLD, 17);
    assert_fails(PG_E_CANCELLED, flip(&(pg__sink_opts){.cancel = &cancel}, &change, &err), &err);
    assert_holds(OLD, 17);
}

/* Sets the flag when the first piece of the tail is written. */
static volatile int late;
static void cancel_late(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx, (void)total;
    late = done > 0;
}

static void a_cancel_between_tail_and_head_cuts_the_tail(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_progress progress = {.tell = cancel_late, .n_total = 12};
    const pg__sink_opts opts = {.cancel = &late, .progress = &progress};
    put(OLD, 17);
    late = 0;
    assert_fails(PG_E_CANCELLED, flip(&opts, &change, &err), &err);
    assert_int_equal(late, 1);
    assert_holds(OLD, 17);
}

/* Where the tail goes may be somebody's bytes that HDF5 knows nothing of. */
static void a_failure_puts_back_what_lay_behind_the_end(void **state)
{
    (void)state;
    static const size_t sizes[] = {18, 20, 21, 32, 57};
    static const char old[] = OLD "garbage of a killed run, longer than all";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pg_err err = {0};
        pg_progress progress = {.tell = cancel_late, .n_total = 12};
        const pg__sink_opts opts = {.cancel = &late, .progress = &progress};
        put(old, sizes[i]);
        late = 0;
        assert_fails(PG_E_CANCELLED, flip(&opts, &change, &err), &err);
        assert_non_null(strstr(err.msg, ": interrupted; nothing changed"));
        assert_holds(old, sizes[i]);
    }
}

static void a_tail_that_does_not_fit_leaves_the_old_file(void **state)
{
    (void)state;
    static const char old[] = OLD "behind";
    for (size_t n = 17; n <= 23; n += 6) {
        pg_err err = {0};
        struct rlimit before, small = {25, 25};
        put(old, n);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        small.rlim_max = before.rlim_max;
        (void)signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const pg_status st = flip(&quick, &change, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_fails(PG_E_IO, st, &err);
        assert_int_equal(err.sys, EFBIG);
        assert_string_equal(err.msg + strlen(path), ": File too large; nothing changed");
        assert_string_equal(err.detail, "");
        assert_holds(old, n);
    }
}

static void refuses_changes_that_are_no_single_step(void **state)
{
    (void)state;
    pg_err err = {0};
    put(OLD, 17);
    pg__flip_change c = change;
    c.end = 18; /* longer than the file: it has shrunk */
    assert_fails(PG_E_FORMAT, flip(&quick, &c, &err), &err);
    c = change, c.n_head = 18;
    assert_fails(PG_E_ARG, flip(&quick, &c, &err), &err);
    c = change, c.tail_at = 16;
    assert_fails(PG_E_ARG, flip(&quick, &c, &err), &err);
    c = change, c.tail_at = UINT64_MAX - 2;
    assert_fails(PG_E_ARG, flip(&quick, &c, &err), &err);
    assert_holds(OLD, 17);
}

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return unlink(path) || rmdir(dir); /* fails if anything was left behind */
}

PG_TEST_MAIN_WITH(make_dir, remove_dir, cmocka_unit_test(writes_the_tail_and_then_the_head),
                  cmocka_unit_test(cuts_off_what_a_killed_run_left),
                  cmocka_unit_test(refuses_what_would_surprise),
                  cmocka_unit_test(leaves_a_file_in_use_alone),
                  cmocka_unit_test(goes_on_where_the_file_system_has_no_locks),
                  cmocka_unit_test(follows_a_symbolic_link),
                  cmocka_unit_test(knows_another_file_from_its_own),
                  cmocka_unit_test(a_cancel_leaves_the_old_file),
                  cmocka_unit_test(a_cancel_between_tail_and_head_cuts_the_tail),
                  cmocka_unit_test(a_failure_puts_back_what_lay_behind_the_end),
                  cmocka_unit_test(a_tail_that_does_not_fit_leaves_the_old_file),
                  cmocka_unit_test(refuses_changes_that_are_no_single_step))
