#include "pg_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/sink.h"

/* Every test works in a fresh folder; assert_folder() finds temporaries that were left. */
static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/pg-test-sink-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return chdir("/") || system(cmd) ? -1 : 0;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char buf[256] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    buf[fread(buf, 1, sizeof buf - 1, f)] = 0;
    fclose(f);
    assert_string_equal(buf, text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The folder holds exactly these names (sorted, separated by a space). */
static void assert_folder(const char *want)
{
    char got[2048] = "", *names[64];
    size_t n = 0;
    DIR *d = opendir(".");
    assert_non_null(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && n < 64)
            names[n++] = strdup(e->d_name);
    closedir(d);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", names[i]);
        free(names[i]);
    }
    assert_string_equal(got, want);
}

static pg_status save(const char *path, const char *text, const pg__sink_opts *opts, pg_err *err)
{
    pg__sink *s = NULL;
    pg_status st = pg__sink_open(&s, path, opts, err);
    if (st == PG_OK)
        st = pg__sink_write(s, 0, text, strlen(text), err);
    if (st == PG_OK)
        st = pg__sink_commit(s, err);
    pg__sink_close(s);
    return st;
}

static void writes_a_new_file_with_the_mode_of_the_umask(void **state)
{
    (void)state;
    struct stat sb;
    const mode_t old = umask(027);
    assert_ok(save("new.h5", "hello", NULL, NULL));
    umask(old);
    assert_holds("new.h5", "hello");
    assert_int_equal(stat("new.h5", &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0640);
    assert_folder("new.h5");
}

static void keeps_the_mode_of_the_file_it_replaces(void **state)
{
    (void)state;
    struct stat sb;
    put("a", "old");
    assert_int_equal(chmod("a", 0604), 0);
    assert_ok(save("a", "new", &(pg__sink_opts){.force = 1}, NULL));
    assert_int_equal(stat("a", &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0604);
    assert_holds("a", "new");
    assert_folder("a");
}

static void keeps_others_out_while_it_writes(void **state)
{
    (void)state;
    pg__sink *s = NULL;
    struct stat sb;
    pg__io *io = NULL;
    assert_ok(pg__sink_open(&s, "a", NULL, NULL));
    assert_ok(pg__sink_write(s, 0, "x", 1, NULL));
    assert_ok(pg__sink_reopen(s, &io, NULL));
    assert_int_equal(fstat(pg__io_fd(io, 0, NULL), &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0600);
    pg__io_close(io);
    pg__sink_close(s);
    assert_folder("");
}

static void replaces_only_when_told_to(void **state)
{
    (void)state;
    pg_err err = {0};
    put("a", "old");
    assert_fails(PG_E_ARG, save("a", "new", NULL, &err), &err);
    assert_string_equal(err.msg, "a exists"); /* to a C program, too */
    assert_int_equal(err.action.what, PG_DO_OVERWRITE);
    assert_fails(PG_E_ARG, pg__sink_check("a", NULL, &err), &err);
    assert_holds("a", "old");
    assert_ok(pg__sink_check("a", &(pg__sink_opts){.force = 1}, NULL));
    assert_ok(pg__sink_check("b", NULL, NULL));
    assert_folder("a");
}

static void does_not_replace_what_appears_meanwhile(void **state)
{
    (void)state;
    pg__sink *s = NULL;
    pg_err err = {0};
    assert_ok(pg__sink_open(&s, "a", NULL, NULL));
    assert_ok(pg__sink_write(s, 0, "new", 3, NULL));
    put("a", "another program's");
    assert_fails(PG_E_ARG, pg__sink_commit(s, &err), &err);
    assert_non_null(strstr(err.msg, " exists"));
    pg__sink_close(s);
    assert_holds("a", "another program's");
    assert_folder("a");
}

static void never_replaces_its_input(void **state)
{
    (void)state;
    static const char *const names[] = {"in", "./in", "soft", "hard"};
    pg_err err = {0};
    pg__io *in = NULL;
    put("in", "weights");
    assert_int_equal(symlink("in", "soft"), 0);
    assert_int_equal(link("in", "hard"), 0);
    assert_ok(pg__io_open(&in, "in", NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int force = 0; force < 2; force++) {
            const pg__sink_opts o = {.force = force, .input = in};
            assert_fails(PG_E_ARG, save(names[i], "x", &o, &err), &err);
            assert_non_null(strstr(err.msg, "output is the input; choose another name"));
        }
    assert_ok(save("out", "x", &(pg__sink_opts){.input = in}, &err));
    pg__io_close(in);
    assert_holds("in", "weights");
    assert_folder("hard in out soft");
}

static void says_why_a_place_cannot_be_written_to(void **state)
{
    (void)state;
    static const struct {
        const char *path, *say;
        pg_status st;
    } cases[] = {
        {"d", "d: is a folder", PG_E_ARG},
        {"d/", "d/: is a folder", PG_E_ARG},
        {"none/", "is a folder; give a file name", PG_E_ARG},
        {"d/..", "is a folder", PG_E_ARG},
        {"", "empty name", PG_E_ARG},
        {"none/a", "none/a: the folder does not exist: No such file or directory", PG_E_IO},
        {"file/a", "Not a directory", PG_E_IO},
        {"fifo", "fifo: is not a regular file", PG_E_ARG},
        {"/dev/null", "/dev/null: is not a regular file", PG_E_ARG},
        {"dangling", "symbolic link to a missing file", PG_E_ARG},
    };
    char deep[5000];
    pg_err err = {0};
    put("file", "x");
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(symlink("nothing", "dangling"), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int force = 0; force < 2; force++) {
            const pg__sink_opts o = {.force = force};
            assert_fails(cases[i].st, save(cases[i].path, "x", &o, &err), &err);
            if (!strstr(err.msg, cases[i].say))
                fail_msg("%s: %s", cases[i].path, err.msg);
        }
    assert_fails(PG_E_IO, save("none/a", "x", NULL, &err), &err);
    assert_string_equal(err.hint, "mkdir -p none");
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_fails(PG_E_IO, save(deep, "x", NULL, &err), &err);
    assert_folder("d dangling fifo file");
}

static void takes_the_longest_names(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_ok(save(name, "x", NULL, NULL));
    assert_folder(name);
}

static void follows_a_link_and_keeps_it(void **state)
{
    (void)state;
    struct stat sb;
    assert_int_equal(mkdir("d", 0700), 0);
    put("d/real", "old");
    assert_int_equal(symlink("d/real", "link"), 0);
    assert_ok(save("link", "new", &(pg__sink_opts){.force = 1}, NULL));
    assert_holds("d/real", "new");
    assert_int_equal(lstat("link", &sb), 0);
    assert_true(S_ISLNK(sb.st_mode));
    assert_folder("d link");
}

static void leaves_nothing_without_a_commit(void **state)
{
    (void)state;
    pg__sink *s = NULL;
    put("a", "old");
    assert_ok(pg__sink_open(&s, "a", &(pg__sink_opts){.force = 1}, NULL));
    assert_ok(pg__sink_reserve(s, 100000, NULL));
    assert_ok(pg__sink_write(s, 50000, "x", 1, NULL));
    pg__sink_close(s);
    pg__sink_close(NULL);
    assert_holds("a", "old");
    assert_folder("a");
}

static void commits_once(void **state)
{
    (void)state;
    pg__sink *s = NULL;
    pg_err err = {0};
    assert_ok(pg__sink_open(&s, "a", NULL, NULL));
    assert_ok(pg__sink_write(s, 0, "abc", 3, NULL));
    assert_ok(pg__sink_commit(s, NULL));
    assert_fails(PG_E_ARG, pg__sink_commit(s, &err), &err);
    pg__sink_close(s);
    assert_holds("a", "abc");
}

static void reopens_exactly_what_was_written(void **state)
{
    (void)state;
    pg__sink *s = NULL;
    pg__io *io = NULL;
    struct stat sb;
    char buf[5];
    assert_ok(pg__sink_open(&s, "a", &(pg__sink_opts){.no_sync = 1}, NULL));
    assert_ok(pg__sink_reserve(s, 1 << 20, NULL));
    assert_ok(pg__sink_write(s, 6, "world", 5, NULL));
    assert_ok(pg__sink_write(s, 0, "hello,", 6, NULL));
    assert_int_equal(pg__sink_size(s), 11);
    assert_ok(pg__sink_reopen(s, &io, NULL));
    assert_int_equal(pg__io_size(io), 11);
    assert_ok(pg__io_read(io, 6, buf, 5, NULL));
    assert_memory_equal(buf, "world", 5);
    pg__io_close(io);
    assert_ok(pg__sink_commit(s, NULL));
    pg__sink_close(s);
    assert_int_equal(stat("a", &sb), 0);
    assert_int_equal(sb.st_size, 11);
}

/* --- copying --------------------------------------------------------------------------------- */

#define N_PATTERN (700u << 10)

static unsigned char *pattern(void)
{
    unsigned char *p = malloc(N_PATTERN);
    assert_non_null(p);
    for (uint32_t i = 0; i < N_PATTERN; i++)
        p[i] = (unsigned char)((i * 2654435761u) >> 24);
    return p;
}

static void assert_copies(pg__io *io, const unsigned char *bytes, uint64_t to, uint64_t from,
                          uint64_t n)
{
    pg__sink *s = NULL;
    pg__io *back = NULL;
    unsigned char *got = malloc(N_PATTERN);
    assert_non_null(got);
    assert_ok(pg__sink_open(&s, "copy", NULL, NULL));
    assert_ok(pg__sink_copy(s, to, io, from, n, NULL));
    assert_int_equal(pg__sink_size(s), n ? to + n : 0);
    assert_ok(pg__sink_reopen(s, &back, NULL));
    assert_ok(pg__io_read(back, n ? to : 0, got, (size_t)n, NULL));
    assert_memory_equal(got, bytes + from, n);
    pg__io_close(back);
    pg__sink_close(s);
    free(got);
}

static void copies_any_range_from_anywhere(void **state)
{
    (void)state;
    static const uint64_t cases[][3] = {
        /* to, from, n */
        {0, 0, N_PATTERN}, {1, 0, 100},           {4096, 8192, 400000}, {100, 4196, 300001},
        {5, 5, 0},         {0, N_PATTERN - 1, 1}, {4095, 4095, 2},      {7, 3, 262145},
    };
    unsigned char *p = pattern();
    pg__io *mem = NULL, *file = NULL, *window = NULL;
    pg__sink *s = NULL;
    assert_ok(pg__sink_open(&s, "src", NULL, NULL));
    assert_ok(pg__sink_write(s, 0, p, N_PATTERN, NULL));
    assert_ok(pg__sink_commit(s, NULL));
    pg__sink_close(s);
    assert_ok(pg__io_open_mem(&mem, p, N_PATTERN, NULL));
    assert_ok(pg__io_open(&file, "src", NULL));
    assert_ok(pg__io_open_window(&window, file, 4095, N_PATTERN - 4095, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t *c = cases[i];
        assert_copies(mem, p, c[0], c[1], c[2]);
        assert_copies(file, p, c[0], c[1], c[2]);
        if (c[1] + c[2] <= N_PATTERN - 4095)
            assert_copies(window, p + 4095, c[0], c[1], c[2]);
    }
    pg__io_close(mem);
    pg__io_close(file);
    pg__io_close(window);
    free(p);
    assert_folder("src");
}

/* Whatever the file system could share: the rest written, the bytes are those of the source. */
static void shares_whole_blocks_or_nothing(void **state)
{
    (void)state;
    static const uint64_t cases[][3] = {/* to, from, n */
                                        {4100, 4, N_PATTERN - 4},
                                        {128, 128, 70000},
                                        {128, 129, 70000},
                                        {10, 10, 4086},
                                        {0, 0, 0}};
    unsigned char *p = pattern();
    pg__io *mem = NULL, *file = NULL;
    pg__sink *s = NULL;
    assert_ok(pg__sink_open(&s, "src", NULL, NULL));
    assert_ok(pg__sink_write(s, 0, p, N_PATTERN, NULL));
    assert_ok(pg__sink_commit(s, NULL));
    pg__sink_close(s);
    assert_ok(pg__io_open_mem(&mem, p, N_PATTERN, NULL));
    assert_ok(pg__io_open(&file, "src", NULL));
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const uint64_t *c = cases[i / 2];
        uint64_t first = 0, n = 0;
        pg__io *back = NULL;
        unsigned char *got = malloc(N_PATTERN);
        assert_non_null(got);
        assert_ok(pg__sink_open(&s, "copy", NULL, NULL));
        assert_ok(pg__sink_share(s, c[0], i % 2 ? file : mem, c[1], c[2], &first, &n, NULL));
        assert_int_equal(n % 4096, 0);
        assert_true(n == 0 || (i % 2 && c[0] % 4096 == c[1] % 4096));
        if (n) {
            assert_true(first >= c[0] && first % 4096 == 0 && first + n <= c[0] + c[2]);
            assert_ok(pg__sink_write(s, c[0], p + c[1], (size_t)(first - c[0]), NULL));
        } else {
            first = c[0];
        }
        const uint64_t done = first - c[0] + n;
        assert_ok(pg__sink_write(s, c[0] + done, p + c[1] + done, (size_t)(c[2] - done), NULL));
        assert_ok(pg__sink_reopen(s, &back, NULL));
        assert_ok(pg__io_read(back, c[2] ? c[0] : 0, got, (size_t)c[2], NULL));
        assert_memory_equal(got, p + c[1], c[2]);
        pg__io_close(back);
        pg__sink_close(s);
        free(got);
    }
    assert_ok(pg__sink_open(&s, "copy", NULL, NULL));
    assert_int_equal(pg__sink_share(s, 0, file, 1, N_PATTERN, &(uint64_t){0}, &(uint64_t){0}, NULL),
                     PG_E_FORMAT);
    pg__sink_close(s);
    pg__io_close(mem);
    pg__io_close(file);
    free(p);
}

static void count_bytes(void *ctx, uint64_t n_done, uint64_t n_total)
{
    (void)n_total;
    *(uint64_t *)ctx = n_done;
}

static void tells_of_what_it_wrote_and_copied(void **state)
{
    (void)state;
    unsigned char *p = pattern();
    uint64_t told = 0;
    pg_progress progress = {.tell = count_bytes, .ctx = &told, .n_total = UINT64_MAX};
    pg__io *mem = NULL;
    pg__sink *s = NULL;
    assert_ok(pg__io_open_mem(&mem, p, N_PATTERN, NULL));
    assert_ok(pg__sink_open(&s, "a", &(pg__sink_opts){.progress = &progress}, NULL));
    assert_ok(pg__sink_write(s, 0, p, 100, NULL));
    assert_int_equal(told, 100);
    assert_ok(pg__sink_copy(s, 100, mem, 0, N_PATTERN, NULL));
    assert_int_equal(told, 100 + N_PATTERN);
    pg__sink_close(s);
    pg__io_close(mem);
    free(p);
}

static void copies_nothing_outside_its_source(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__io *file = NULL, *window = NULL;
    pg__sink *s = NULL;
    put("src", "0123456789");
    assert_ok(pg__io_open(&file, "src", NULL));
    assert_ok(pg__io_open_window(&window, file, 2, 4, NULL));
    assert_ok(pg__sink_open(&s, "a", NULL, NULL));
    assert_fails(PG_E_FORMAT, pg__sink_copy(s, 0, window, 2, 3, &err), &err);
    assert_non_null(strstr(err.msg, "src: truncated"));
    assert_fails(PG_E_ARG, pg__sink_commit(s, &err), &err); /* never half of it */
    pg__sink_close(s);
    assert_ok(pg__sink_open(&s, "a", NULL, NULL));
    assert_int_equal(truncate("src", 3), 0);
    assert_fails(PG_E_FORMAT, pg__sink_copy(s, 0, file, 0, 10, &err), &err);
    assert_non_null(strstr(err.msg, "src: truncated while it was read"));
    pg__sink_close(s);
    pg__io_close(file);
    pg__io_close(window);
    assert_folder("src");
}

/* --- cancelling and killing ------------------------------------------------------------------ */

static volatile int cancel;

static void asks_the_cancel_flag_in_every_call(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__io *io = NULL;
    put("a", "old");
    assert_ok(pg__io_open(&io, "a", NULL));
    for (int step = 0; step < 5; step++) {
        pg__sink *s = NULL;
        cancel = 0;
        assert_ok(pg__sink_open(&s, "b", &(pg__sink_opts){.cancel = &cancel}, NULL));
        assert_ok(pg__sink_write(s, 0, "half", 4, NULL));
        cancel = 1;
        pg__io *back = NULL;
        const pg_status st = step == 0   ? pg__sink_write(s, 4, "x", 1, &err)
                             : step == 1 ? pg__sink_copy(s, 4, io, 0, 3, &err)
                             : step == 2 ? pg__sink_reserve(s, 10, &err)
                             : step == 3 ? pg__sink_reopen(s, &back, &err)
                                         : pg__sink_commit(s, &err);
        assert_int_equal(st, PG_E_CANCELLED);
        assert_string_equal(err.msg, "b: interrupted; nothing written");
        cancel = 0;
        assert_fails(PG_E_ARG, pg__sink_commit(s, &err), &err);
        pg__sink_close(s);
        assert_folder("a");
    }
    pg__io_close(io);
}

/* The flag lies in the file that is written: the first piece of the copy sets it. */
static void stops_in_the_middle_of_a_copy(void **state)
{
    (void)state;
    unsigned char *p = pattern(), last = 1;
    pg_err err = {0};
    pg__io *mem = NULL, *back = NULL;
    pg__sink *s = NULL;
    put("a", "old");
    void *flag = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(flag != MAP_FAILED);
    assert_ok(pg__io_open_mem(&mem, p, N_PATTERN, NULL));
    assert_ok(pg__sink_open(&s, "a", &(pg__sink_opts){.force = 1, .cancel = flag}, NULL));
    assert_ok(pg__sink_write(s, N_PATTERN - 1, "", 1, NULL));
    assert_ok(pg__sink_reopen(s, &back, NULL));
    assert_true(mmap(flag, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, pg__io_fd(back, 0, NULL), 0) ==
                flag);
    memset(p, 1, N_PATTERN);
    assert_fails(PG_E_CANCELLED, pg__sink_copy(s, 0, mem, 0, N_PATTERN, &err), &err);
    assert_ok(pg__io_read(back, N_PATTERN - 1, &last, 1, NULL));
    assert_int_equal(last, 0);
    munmap(flag, 4096);
    pg__io_close(back);
    pg__io_close(mem);
    pg__sink_close(s);
    free(p);
    assert_holds("a", "old");
    assert_folder("a");
}

/* Starts a save of "a" in a child that dies in the middle of it. */
static void die_while_saving(void)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pg__sink *s = NULL;
        if (pg__sink_open(&s, "a", &(pg__sink_opts){.force = 1}, NULL) == PG_OK &&
            pg__sink_write(s, 0, "half", 4, NULL) == PG_OK)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static size_t count_entries(void)
{
    size_t n = 0;
    DIR *d = opendir(".");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void removes_what_a_killed_run_left(void **state)
{
    (void)state;
    put("a", "old");
    die_while_saving();
    assert_holds("a", "old");
    assert_int_equal(count_entries(), 2);
    assert_ok(save("b", "x", NULL, NULL)); /* another output: not its business */
    assert_int_equal(count_entries(), 3);
    assert_ok(save("a", "new", &(pg__sink_opts){.force = 1}, NULL));
    assert_folder("a b");
}

static void leaves_alone_what_is_not_a_stale_temporary(void **state)
{
    (void)state;
    pg__sink *running = NULL;
    put(".a.pg-1234567", "seven");
    put(".a.pg-12345", "five");
    put(".ab.pg-123456", "other name");
    put("a.pg-123456", "no dot");
    put("target", "x");
    assert_int_equal(mkdir(".a.pg-folder", 0700), 0);
    assert_int_equal(symlink("target", ".a.pg-linked"), 0);
    assert_ok(pg__sink_open(&running, "a", NULL, NULL));
    assert_int_equal(count_entries(), 8);
    assert_ok(save("a", "first", NULL, NULL));
    assert_int_equal(count_entries(), 9); /* the running one kept its temporary */
    pg__sink_close(running);
    assert_folder(".a.pg-12345 .a.pg-1234567 .a.pg-folder .a.pg-linked .ab.pg-123456 a a.pg-123456 "
                  "target");
}

/* --- systems that refuse --------------------------------------------------------------------- */

static void knows_a_full_disk_before_the_first_byte(void **state)
{
    (void)state;
    struct statvfs vfs;
    pg_err err = {0};
    pg__sink *s = NULL;
    assert_int_equal(statvfs(".", &vfs), 0);
    assert_ok(pg__sink_open(&s, "a", NULL, NULL));
    const uint64_t n = vfs.f_bavail * vfs.f_frsize + (UINT64_C(1) << 40);
    assert_fails(PG_E_IO, pg__sink_reserve(s, n, &err), &err);
    assert_string_equal(err.msg, "a: No space left on device");
    assert_non_null(strstr(err.detail, "are free; nothing written"));
    pg__sink_close(s);
    assert_ok(pg__sink_open(&s, "a", NULL, NULL));
    assert_fails(PG_E_IO, pg__sink_reserve(s, UINT64_MAX, &err), &err);
    assert_fails(PG_E_IO, pg__sink_write(s, UINT64_MAX, "x", 1, &err), &err);
    assert_fails(PG_E_ARG, pg__sink_commit(s, &err), &err);
    pg__sink_close(s);
    assert_folder("");
}

static void keeps_the_old_file_when_a_size_limit_strikes(void **state)
{
    (void)state;
    char big[20000] = "";
    struct rlimit old, small;
    pg_err err = {0};
    pg__sink *s = NULL;
    put("a", "old");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(pg__sink_open(&s, "a", &(pg__sink_opts){.force = 1}, NULL));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const pg_status st = pg__sink_write(s, 0, big, sizeof big, &err);
    const int sys = err.sys;
    pg__io *mem = NULL;
    assert_ok(pg__io_open_mem(&mem, big, sizeof big, NULL));
    assert_fails(PG_E_IO, pg__sink_copy(s, 0, mem, 0, sizeof big, &err), &err);
    pg__io_close(mem);
    assert_fails(PG_E_ARG, pg__sink_commit(s, &err), &err);
    pg__sink_close(s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(st, PG_E_IO);
    assert_int_equal(sys, EFBIG);
    assert_holds("a", "old");
    assert_folder("a");
}

/* Runs body in a child; its exit status: 0 good, 77 not possible here. */
static void in_child(int (*body)(void))
{
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int save_as_nobody(void)
{
    pg_err err = {0};
    if (geteuid() == 0 && setresuid(65534, 65534, 65534))
        return 77;
    if (save("d/a", "x", NULL, &err) != PG_E_IO || err.sys != EACCES)
        return 1;
    if (pg__sink_check("d/a", NULL, &err) != PG_E_IO || err.sys != EACCES)
        return 2;
    return strstr(err.msg, "d/a: cannot write to the folder: Permission denied") ? 0 : 3;
}

static void says_when_a_folder_is_read_only(void **state)
{
    (void)state;
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(mkdir("d", 0755), 0);
    assert_int_equal(chmod("d", 0555), 0);
    in_child(save_as_nobody);
}

/* A file system of 64 KiB, seen by the child alone. */
static int save_on_a_tiny_disk(void)
{
    static char big[200000];
    pg_err err = {0};
    pg__sink *s = NULL;
    if (geteuid() != 0 && unshare(CLONE_NEWUSER))
        return 77;
    if (unshare(CLONE_NEWNS) || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) ||
        mkdir("m", 0700) || mount("none", "m", "tmpfs", 0, "size=64k") || chdir("m"))
        return 77;
    if (save("a", "old", NULL, &err))
        return 1;
    if (pg__sink_open(&s, "a", &(pg__sink_opts){.force = 1}, &err))
        return 2;
    if (pg__sink_write(s, 0, big, sizeof big, &err) != PG_E_IO || err.sys != ENOSPC)
        return 3;
    if (strcmp(err.msg, "a: No space left on device") != 0)
        return 4;
    pg__sink_close(s);
    if (count_entries() != 1)
        return 5;
    return save("a", "new", &(pg__sink_opts){.force = 1}, &err) ? 6 : 0;
}

static void keeps_the_old_file_when_the_disk_is_full(void **state)
{
    (void)state;
    in_child(save_on_a_tiny_disk);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

PG_TEST_MAIN(TEST(writes_a_new_file_with_the_mode_of_the_umask),
             TEST(keeps_the_mode_of_the_file_it_replaces), TEST(keeps_others_out_while_it_writes),
             TEST(replaces_only_when_told_to), TEST(does_not_replace_what_appears_meanwhile),
             TEST(never_replaces_its_input), TEST(says_why_a_place_cannot_be_written_to),
             TEST(takes_the_longest_names), TEST(follows_a_link_and_keeps_it),
             TEST(leaves_nothing_without_a_commit), TEST(commits_once),
             TEST(reopens_exactly_what_was_written), TEST(copies_any_range_from_anywhere),
             TEST(copies_nothing_outside_its_source), TEST(shares_whole_blocks_or_nothing),
             TEST(tells_of_what_it_wrote_and_copied), TEST(asks_the_cancel_flag_in_every_call),
             TEST(stops_in_the_middle_of_a_copy), TEST(removes_what_a_killed_run_left),
             TEST(leaves_alone_what_is_not_a_stale_temporary),
             TEST(knows_a_full_disk_before_the_first_byte),
             TEST(keeps_the_old_file_when_a_size_limit_strikes),
             TEST(says_when_a_folder_is_read_only), TEST(keeps_the_old_file_when_the_disk_is_full))
