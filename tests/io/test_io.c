#include "pg_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#endif

#include "io/io.h"

static char dir[] = "/tmp/pg-test-io-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static const char *make_file(const char *name, const char *text)
{
    const char *path = in_dir(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void reads_any_range_of_a_file(void **state)
{
    (void)state;
    pg__io *io = NULL;
    const char *text = "0123456789abcdef", *path = make_file("a", text);
    char buf[17];
    assert_ok(pg__io_open(&io, path, NULL));
    assert_int_equal(pg__io_size(io), 16);
    assert_string_equal(pg__io_name(io), path);
    for (size_t off = 0; off <= 16; off++)
        for (size_t n = 0; off + n <= 16; n++) {
            assert_ok(pg__io_read(io, off, buf, n, NULL));
            assert_memory_equal(buf, text + off, n);
        }
    pg__io_close(io);
}

static void refuses_ranges_that_leave_the_file(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_err err = {0};
    char buf[32];
    assert_ok(pg__io_open(&io, make_file("a", "0123456789"), NULL));
    assert_fails(PG_E_FORMAT, pg__io_read(io, 0, buf, 11, &err), &err);
    assert_non_null(strstr(err.msg, "truncated"));
    assert_fails(PG_E_FORMAT, pg__io_read(io, 11, buf, 0, &err), &err);
    assert_fails(PG_E_FORMAT, pg__io_read(io, UINT64_MAX, buf, 2, &err), &err);
    assert_fails(PG_E_FORMAT, pg__io_read(io, 2, buf, SIZE_MAX, &err), &err);
    pg__io_close(io);
}

static void notices_a_file_that_shrinks(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_err err = {0};
    char buf[10];
    const char *path = make_file("a", "0123456789");
    assert_ok(pg__io_open(&io, path, NULL));
    assert_int_equal(truncate(path, 4), 0);
    assert_ok(pg__io_read(io, 0, buf, 4, NULL));
    assert_fails(PG_E_FORMAT, pg__io_read(io, 0, buf, 10, &err), &err);
    assert_non_null(strstr(err.msg, "truncated while it was read"));
    pg__io_close(io);
}

static void notices_a_file_that_is_written_to(void **state)
{
    (void)state;
    pg__io *io = NULL, *part = NULL;
    pg_err err = {0};
    const struct timespec then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    const char *path = make_file("a", "0123456789");
    assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
    assert_ok(pg__io_open(&io, path, NULL));
    assert_ok(pg__io_open_window(&part, io, 2, 2, NULL));
    assert_ok(pg__io_check_same(part, NULL));
    make_file("a", "abcdefghij");
    assert_fails(PG_E_IO, pg__io_check_same(part, &err), &err);
    assert_non_null(strstr(err.msg, "was changed while it was read"));
    pg__io_close(part);
    pg__io_close(io);
    assert_ok(pg__io_open_mem(&io, "abc", 3, NULL));
    assert_ok(pg__io_check_same(io, NULL));
    pg__io_close(io);
}

static void opens_a_resting_file_for_each_read(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_err err = {0};
    char buf[8] = "";
    int folder = -1;
    const char *path = make_file("a", "0123456789");
    assert_ok(pg__io_folder_of(&folder, path, path, NULL));
    assert_ok(pg__io_open_beside(&io, folder, "a", NULL));
    pg__io_rest(io, folder);
    assert_int_equal(pg__io_fd(io, 0, NULL), -1);
    assert_ok(pg__io_read(io, 3, buf, 4, NULL));
    assert_string_equal(buf, "3456");
    assert_ok(pg__io_check_same(io, NULL));
    make_file("a", "longer than before");
    assert_fails(PG_E_IO, pg__io_read(io, 3, buf, 4, &err), &err);
    assert_non_null(strstr(err.msg, "was changed while it was read"));
    assert_fails(PG_E_IO, pg__io_check_same(io, &err), &err);
    remove(path);
    assert_fails(PG_E_IO, pg__io_read(io, 3, buf, 4, &err), &err);
    pg__io_close(io);
    close(folder);
}

static void reads_memory_and_nothing_beyond(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_err err = {0};
    char buf[8] = "";
    uint64_t at = 0;
    assert_ok(pg__io_open_mem(&io, "abcdef", 6, NULL));
    assert_ok(pg__io_read(io, 2, buf, 4, NULL));
    assert_string_equal(buf, "cdef");
    assert_fails(PG_E_FORMAT, pg__io_read(io, 3, buf, 4, &err), &err);
    assert_int_equal(pg__io_fd(io, 0, &at), -1);
    assert_string_equal(pg__io_name(io), "memory");
    pg__io_close(io);
    assert_ok(pg__io_open_mem(&io, NULL, 0, NULL));
    assert_ok(pg__io_read(io, 0, buf, 0, NULL));
    pg__io_close(io);
}

static void windows_keep_their_parent_open(void **state)
{
    (void)state;
    pg__io *file = NULL, *outer = NULL, *inner = NULL;
    pg_err err = {0};
    char buf[8] = "";
    uint64_t at = 0;
    assert_ok(pg__io_open(&file, make_file("a", "0123456789abcdef"), NULL));
    assert_ok(pg__io_open_window(&outer, file, 2, 10, NULL));
    assert_ok(pg__io_open_window(&inner, outer, 3, 4, NULL));
    pg__io_close(file);
    pg__io_close(outer);
    assert_int_equal(pg__io_size(inner), 4);
    assert_ok(pg__io_read(inner, 0, buf, 4, NULL));
    assert_string_equal(buf, "5678");
    assert_fails(PG_E_FORMAT, pg__io_read(inner, 1, buf, 4, &err), &err);
    assert_true(pg__io_fd(inner, 1, &at) >= 0);
    assert_int_equal(at, 6);
    assert_fails(PG_E_FORMAT, pg__io_open_window(&outer, inner, 3, 2, &err), &err);
    assert_fails(PG_E_FORMAT, pg__io_open_window(&outer, inner, UINT64_MAX, 2, &err), &err);
    pg__io_close(pg__io_ref(inner));
    pg__io_close(inner);
}

static void opens_regular_files_only(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_err err = {0};
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    alarm(5); /* a FIFO that blocks must not hang the suite */
    assert_fails(PG_E_ARG, pg__io_open(&io, in_dir("fifo"), &err), &err);
    assert_non_null(strstr(err.msg, "pipe"));
    alarm(0);
    assert_fails(PG_E_ARG, pg__io_open(&io, "/dev/null", &err), &err);
    assert_fails(PG_E_IO, pg__io_open(&io, dir, &err), &err);
    assert_int_equal(err.sys, EISDIR);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", in_dir("sock"));
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_fails(PG_E_ARG, pg__io_open(&io, in_dir("sock"), &err), &err);
    close(fd);
    assert_null(io);
}

static void names_the_missing_file_on_one_line(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_err err = {0};
    assert_fails(PG_E_IO, pg__io_open(&io, "no\nsuch/file.h5", &err), &err);
    assert_int_equal(err.sys, ENOENT);
    assert_string_equal(err.msg, "no\\x0asuch/file.h5: No such file or directory");
}

static void takes_over_a_descriptor(void **state)
{
    (void)state;
    pg__io *io = NULL;
    pg_err err = {0};
    char c = 0;
    const int fd = open(make_file("a", "xyz"), O_RDONLY);
    assert_int_equal(unlink(in_dir("a")), 0);
    assert_ok(pg__io_open_fd(&io, fd, "member", NULL));
    assert_string_equal(pg__io_name(io), "member");
    assert_ok(pg__io_read(io, 2, &c, 1, NULL));
    assert_int_equal(c, 'z');
    pg__io_close(io);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_fails(PG_E_ARG, pg__io_open_fd(&io, pipes[0], "pipe", &err), &err);
    assert_int_equal(fcntl(pipes[0], F_GETFD), -1); /* closed on failure, too */
    close(pipes[1]);
}

static void opens_files_beside_another_by_name_only(void **state)
{
    (void)state;
    static const char *const bad[] = {"", ".", "..", "b/c", "../b", "/etc/hostname", "b\\c"};
    pg__io *io = NULL;
    pg_err err = {0};
    int folder = -1;
    make_file("b", "12345");
    assert_ok(pg__io_folder_of(&folder, in_dir("a"), "b", NULL));
    assert_ok(pg__io_open_beside(&io, folder, "b", NULL));
    assert_int_equal(pg__io_size(io), 5);
    pg__io_close(io);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(PG_E_FORMAT, pg__io_open_beside(&io, folder, bad[i], &err), &err);
    assert_fails(PG_E_IO, pg__io_open_beside(&io, folder, "absent", &err), &err);
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(symlink("b", in_dir("link")), 0);
    assert_fails(PG_E_FORMAT, pg__io_open_beside(&io, folder, "link", &err), &err);
    assert_non_null(strstr(err.msg, "link: a symbolic link"));
    close(folder);
}

static void check_below(void)
{
    static const char *const bad[] = {"",          "deep/",    "/deep/f", "deep//f",
                                      "deep/../b", "./deep/f", "..",      "deep/f\\"};
    pg__io *io = NULL;
    pg_err err = {0};
    int folder = -1;
    assert_ok(pg__io_folder_of(&folder, in_dir("manifest"), "deep/f", NULL));
    assert_ok(pg__io_open_below(&io, folder, "deep/f", NULL));
    assert_int_equal(pg__io_size(io), 3);
    pg__io_close(io);
    assert_ok(pg__io_open_beneath(&io, in_dir("manifest"), "deep/f", NULL));
    pg__io_close(io);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(PG_E_FORMAT, pg__io_open_below(&io, folder, bad[i], &err), &err);
    assert_fails(PG_E_IO, pg__io_open_below(&io, folder, "deep/absent", &err), &err);
    assert_int_equal(err.sys, ENOENT);
    assert_fails(PG_E_IO, pg__io_open_below(&io, folder, "deep", &err), &err);
    assert_int_equal(err.sys, EISDIR);
    assert_fails(PG_E_FORMAT, pg__io_open_below(&io, folder, "shallow/f", &err), &err);
    assert_string_equal(err.msg, "shallow/f: a symbolic link, which is not followed here");
    close(folder);
}

#if defined(__linux__) && defined(SYS_openat2)
/* As a kernel before 5.6 answers. */
static int forget_openat2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = 4, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static int forget_openat2(void)
{
    return -1;
}
#endif

static void opens_files_below_a_folder_and_through_no_link(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("deep"), 0755), 0);
    make_file("deep/f", "123");
    assert_int_equal(symlink("deep", in_dir("shallow")), 0);
    check_below();
    const pid_t child = fork();
    if (child == 0) {
        if (forget_openat2() == 0)
            check_below();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    unlink(in_dir("deep/f"));
    rmdir(in_dir("deep"));
}

static void joins_parts_to_one(void **state)
{
    (void)state;
    pg__io *io = NULL, *parts[3] = {0};
    pg_err err = {0};
    char got[16] = "";
    assert_ok(pg__io_open_mem(&parts[0], "ab", 2, NULL));
    assert_ok(pg__io_open(&parts[1], make_file("a", "cdefg"), NULL));
    assert_ok(pg__io_open_mem(&parts[2], "h", 1, NULL));
    assert_ok(pg__io_open_joined(&io, parts, 3, NULL));
    for (size_t i = 0; i < 3; i++)
        pg__io_close(parts[i]);
    assert_int_equal(pg__io_size(io), 8);
    for (size_t from = 0; from <= 8; from++)
        for (size_t to = from; to <= 8; to++) {
            assert_ok(pg__io_read(io, from, got, to - from, NULL));
            assert_memory_equal(got, &"abcdefgh"[from], to - from);
        }
    assert_fails(PG_E_FORMAT, pg__io_read(io, 7, got, 2, &err), &err);
    assert_int_equal(pg__io_fd(io, 0, NULL), -1);
    assert_ok(pg__io_open_window(&parts[0], io, 1, 6, NULL));
    pg__io_close(io);
    assert_ok(pg__io_read(parts[0], 0, got, 6, NULL));
    assert_memory_equal(got, "bcdefg", 6);
    assert_int_equal(truncate(in_dir("a"), 1), 0);
    assert_fails(PG_E_FORMAT, pg__io_read(parts[0], 0, got, 6, &err), &err);
    pg__io_close(parts[0]);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static void sums_up_all_of_it(void **state)
{
    (void)state;
    static unsigned char zeros[1000000];
    const volatile int stop = 1;
    char hex[65];
    pg_err err = {0};
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, zeros, sizeof zeros, NULL));
    assert_ok(pg__io_sha256(io, hex, NULL, NULL, NULL));
    assert_string_equal(hex, "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025");
    assert_fails(PG_E_CANCELLED, pg__io_sha256(io, hex, &stop, NULL, &err), &err);
    pg__io_close(io);
}

static int remove_dir(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "fifo", "link", "shallow", "sock"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_dir(names[i]));
    return rmdir(dir);
}

PG_TEST_MAIN_WITH(make_dir, remove_dir, cmocka_unit_test(reads_any_range_of_a_file),
                  cmocka_unit_test(refuses_ranges_that_leave_the_file),
                  cmocka_unit_test(notices_a_file_that_shrinks),
                  cmocka_unit_test(notices_a_file_that_is_written_to),
                  cmocka_unit_test(opens_a_resting_file_for_each_read),
                  cmocka_unit_test(reads_memory_and_nothing_beyond),
                  cmocka_unit_test(windows_keep_their_parent_open),
                  cmocka_unit_test(opens_regular_files_only),
                  cmocka_unit_test(names_the_missing_file_on_one_line),
                  cmocka_unit_test(takes_over_a_descriptor),
                  cmocka_unit_test(opens_files_beside_another_by_name_only),
                  cmocka_unit_test(opens_files_below_a_folder_and_through_no_link),
                  cmocka_unit_test(joins_parts_to_one), cmocka_unit_test(sums_up_all_of_it))
