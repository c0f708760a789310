/* The same promises on Linux and with what other systems have (-Dportable=true). */
#include "pg_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/system.h"

static char top[64];

static int setup(void **state)
{
    (void)state;
    strcpy(top, "/tmp/pg-test-XXXXXX");
    return mkdtemp(top) && chdir(top) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char held[32] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(held, 1, sizeof held - 1, f), strlen(text));
    assert_int_equal(fclose(f), 0);
    assert_string_equal(held, text);
}

static int is_lacking(void)
{
    return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
}

static void names_are_exchanged_or_stay(void **state)
{
    (void)state;
    assert_int_equal(mkdir("a", 0777), 0);
    assert_int_equal(mkdir("b", 0777), 0);
    put("a/file", "new");
    put("b/file", "old");
    assert_int_equal(pg__sys_exchange("a", "b"), 0);
    assert_holds("a/file", "old");
    assert_holds("b/file", "new");
    assert_int_equal(pg__sys_exchange("none", "b"), -1);
    assert_int_equal(errno, ENOENT);
    assert_holds("b/file", "new");
    assert_int_equal(access("b.pg-old", F_OK), -1);
}

static void a_new_name_replaces_nothing(void **state)
{
    (void)state;
    put("one", "1");
    put("two", "2");
    const int folder = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(pg__sys_rename_new(folder, "one", "two") == -1 &&
                (errno == EEXIST || is_lacking()));
    assert_holds("two", "2");
    assert_holds("one", "1");
    close(folder);
}

static void files_of_this_process_have_no_name(void **state)
{
    const int fds[] = {pg__sys_memory_file(), pg__sys_unnamed_file(".")};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char got[8] = "";
        struct stat sb;
        if (i == 1 && fds[i] < 0 && is_lacking())
            continue;
        assert_true(fds[i] >= 0);
        assert_int_equal(pwrite(fds[i], "text", 4, 2), 4);
        assert_int_equal(pread(fds[i], got, 7, 0), 6);
        assert_memory_equal(got, "\0\0text", 6);
        assert_int_equal(fstat(fds[i], &sb), 0);
        assert_int_equal(sb.st_nlink, 0);
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        assert_int_equal(pg__sys_sync(fds[i]) == 0 || errno == EINVAL, 1);
        close(fds[i]);
    }
}

static void no_way_leads_out_of_a_folder(void **state)
{
    static const char *const ways[] = {"../secret", "link", "link/x", "/etc/passwd"};
    (void)state;
    put("secret", "s");
    assert_int_equal(mkdir("in", 0777), 0);
    assert_int_equal(symlink("../secret", "in/link"), 0);
    put("in/file", "f");
    const int folder = open("in", O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        assert_int_equal(pg__sys_open_beneath(folder, ways[i]), -1);
    const int fd = pg__sys_open_beneath(folder, "file");
    assert_true(fd >= 0 || is_lacking());
    if (fd >= 0)
        close(fd);
    close(folder);
}

static void a_named_file_is_new_and_ours(void **state)
{
    char a[] = "t-XXXXXX", b[] = "t-XXXXXX";
    struct stat sb;
    const int fds[] = {pg__sys_named_file(a), pg__sys_named_file(b)};
    (void)state;
    assert_true(fds[0] >= 0 && fds[1] >= 0);
    assert_string_not_equal(a, b);
    assert_int_equal(fstat(fds[0], &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_true(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
    assert_true(pg__sys_allocate(fds[0], 0, 5000) == 0 || is_lacking());
    assert_int_equal(pg__sys_sync_data(fds[0]), 0);
    assert_int_equal(pg__sys_sync_all(fds[0]), 0);
    close(fds[0]);
    close(fds[1]);
}

PG_TEST_MAIN_WITH(setup, teardown, cmocka_unit_test(names_are_exchanged_or_stay),
                  cmocka_unit_test(a_new_name_replaces_nothing),
                  cmocka_unit_test(files_of_this_process_have_no_name),
                  cmocka_unit_test(no_way_leads_out_of_a_folder),
                  cmocka_unit_test(a_named_file_is_new_and_ours))
