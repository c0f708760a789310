/* What goes wrong while checkpoints are written: the training goes on, the file from before stays.
 */
#include "pg_test.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "train/checkpoint_run.h"

/* Until the writer has got so far. */
static void wait_for(const char *name)
{
    struct stat sb;
    const test_path path = in_dir(name);
    for (int i = 0; i < 2000 && lstat(path.s, &sb) != 0; i++)
        usleep(5000);
}

/* Counted naps: a machine that stands still must not use up the time that a failing save has. */
static void let_it_fail(void)
{
    for (int k = 0; k < 300; k++)
        usleep(1000);
}

static void spoil(size_t epoch)
{
    char command[300];
    if (epoch == 1)
        wait_for("c/last");
    if (epoch == 2)
        let_it_fail();
    snprintf(command, sizeof command, epoch == 0 ? "rm -rf '%s/c'" : "rm -rf '%s/c'; touch '%s/c'",
             here, here);
    if (epoch == 0 || epoch == 1)
        assert_int_equal(system(command), 0);
    if (epoch == 2)
        assert_int_equal(unlink(in_dir("c").s), 0);
}

/* Files are written after the program's own epoch_end(). */
static void a_folder_that_goes_is_made_again(void **state)
{
    course c = {
        .callbacks = {"ModelCheckpoint:filepath=@/c/{epoch}.h5"}, .epochs = 5, .epoch_end = spoil};
    (void)state;
    go(&c);
    assert_int_equal(c.st, PG_E_IO); /* file 2 was asked for, and is not there */
    assert_non_null(strstr(c.err.msg, "2.h5 is missing: "));
    assert_files("/c", "3.h5 4.h5 5.h5 last>5.h5");
    assert_int_equal(n_events(&c, PG_EVENT_CHECKPOINT), 4);
    assert_non_null(strstr(text_of(&c, PG_EVENT_WARNING), "not saved: "));
    end(&c);
}

/* Until the writer has moved the link, the last thing that it does. */
static void wait_for_link(const char *name, const char *target)
{
    char to[64];
    const test_path path = in_dir(name);
    for (int i = 0; i < 2000; i++) {
        const ssize_t n = readlink(path.s, to, sizeof to);
        if (n == (ssize_t)strlen(target) && memcmp(to, target, (size_t)n) == 0)
            return;
        usleep(5000);
    }
}

static void remove_folder(size_t epoch)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s/c'", here);
    if (epoch == 2)
        wait_for_link("c/last", "2.h5");
    if (epoch == 2)
        assert_int_equal(system(command), 0);
}

static void a_folder_that_was_removed_is_told(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/c/{epoch}.h5"},
                .epochs = 4,
                .epoch_end = remove_folder};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_true(access(in_dir("c/3.h5").s, F_OK) == 0);
    assert_true(access(in_dir("c/4.h5").s, F_OK) == 0);
    assert_non_null(strstr(text_of(&c, PG_EVENT_WARNING), "was recreated"));
    end(&c);
}

static void block(size_t epoch)
{
    if (epoch == 1) { /* where the file would be */
        wait_for("w.h5");
        assert_int_equal(unlink(in_dir("w.h5").s), 0);
        assert_int_equal(mkdir(in_dir("w.h5").s, 0777), 0);
    }
    if (epoch == 2)
        let_it_fail();
    if (epoch == 2)
        assert_int_equal(rmdir(in_dir("w.h5").s), 0);
}

static void the_next_save_tries_again(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/w.h5,monitor=loss,save_best_only"},
                .epochs = 3,
                .epoch_end = block};
    (void)state;
    go(&c);
    assert_done(&c); /* in the end it is there */
    assert_files("", "w.h5");
    assert_int_equal(n_events(&c, PG_EVENT_WARNING), 1);
    end(&c);
}

static void a_link_that_cannot_be_made_is_told_once(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/{epoch}.h5,keep=2"}, .epochs = 3};
    (void)state;
    assert_int_equal(mkdir(in_dir("last").s, 0777), 0);
    go(&c);
    assert_done(&c);
    assert_files("", "2.h5 3.h5 last");
    assert_int_equal(n_events(&c, PG_EVENT_WARNING), 1);
    assert_non_null(strstr(text_of(&c, PG_EVENT_WARNING), "is not a link, and left alone"));
    end(&c);
}

/* A disk that does not keep what it is given: takes the C library's place in this program. */
static _Atomic int spoils;

ssize_t pwrite64(int fd, const void *p, size_t n, off_t off);
ssize_t pwrite64(int fd, const void *p, size_t n, off_t off)
{
    unsigned char *copy = malloc(n + 1);
    if (!copy)
        return -1;
    memcpy(copy, p, n);
    if (spoils && n > 512)
        copy[n / 2] ^= 1;
    const ssize_t rc = syscall(SYS_pwrite64, fd, copy, n, off);
    free(copy);
    return rc;
}

static void spoil_second(size_t epoch)
{
    if (epoch == 1)
        wait_for("w.h5");
    spoils = epoch == 1;
    if (epoch == 2)
        let_it_fail();
}

static void a_spoiled_file_never_gets_its_name(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/w.h5,verify=all"},
                .epochs = 2,
                .epoch_end = spoil_second};
    char command[400];
    (void)state;
    go(&c);
    spoils = 0;
    assert_int_equal(c.st, PG_E_IO);
    assert_non_null(strstr(c.err.msg, "w.h5 is from before: "));
    assert_non_null(strstr(text_of(&c, PG_EVENT_WARNING), "not saved: "));
    end(&c);
    course first = {.callbacks = {"ModelCheckpoint:filepath=@/first.h5"}, .epochs = 1};
    go(&first);
    end(&first);
    snprintf(command, sizeof command, "cmp '%s/w.h5' '%s/first.h5'", here, here);
    assert_int_equal(system(command), 0);
    course unseen = {.callbacks = {"ModelCheckpoint:filepath=@/w.h5,verify=none"},
                     .epochs = 2,
                     .epoch_end = spoil_second};
    go(&unseen); /* nobody looks */
    spoils = 0;
    assert_done(&unseen);
    end(&unseen);
}

static void two_in_one_run_do_not_meet(void **state)
{
    course c = {.callbacks = {"ModelCheckpoint:filepath=@/a/{epoch}.h5,keep=1",
                              "ModelCheckpoint:filepath=@/b/{epoch}.keras,period=2"},
                .epochs = 4};
    (void)state;
    go(&c);
    assert_done(&c);
    assert_files("/a", "4.h5 last>4.h5");
    assert_files("/b", "2.keras 4.keras last>4.keras");
    end(&c);
}

PG_TEST_MAIN(TEST(a_folder_that_goes_is_made_again), TEST(a_folder_that_was_removed_is_told),
             TEST(the_next_save_tries_again), TEST(a_link_that_cannot_be_made_is_told_once),
             TEST(a_spoiled_file_never_gets_its_name), TEST(two_in_one_run_do_not_meet))
