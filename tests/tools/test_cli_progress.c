/* When the line about the progress comes, by a clock of the test's own. */
#include "pg_test.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../../tools/cli.h"

/* These two stand before the C library's. */
static double clock_s;
int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    t->tv_sec = (time_t)clock_s;
    t->tv_nsec = (long)((clock_s - (double)t->tv_sec) * 1e9);
    return 0;
}

static int is_terminal;
int isatty(int fd)
{
    (void)fd;
    return is_terminal;
}

/* What a call of `seconds` tells on stderr, that moves a megabyte in each of them, in `steps`
 * pieces per second; after `silent` seconds without a byte. */
static const char *told(double silent, unsigned seconds, unsigned steps)
{
    static char text[4096];
    FILE *f = tmpfile();
    fflush(stderr);
    const int old = dup(STDERR_FILENO);
    assert_true(f && old >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    clock_s = 1000;
    pg_progress *p = cli_progress();
    if (p) {
        for (unsigned i = 0; i < (unsigned)(silent * steps); i++) {
            clock_s += 1.0 / steps;
            p->tell(p->ctx, 0, 100000000);
        }
        for (unsigned i = 1; i <= seconds * steps; i++) {
            clock_s += 1.0 / steps;
            p->tell(p->ctx, i * (1000000 / steps), 100000000);
        }
    }
    cli_progress_end();
    fflush(stderr);
    assert_true(dup2(old, STDERR_FILENO) >= 0);
    close(old);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void in_a_pipe_there_is_a_plain_line_every_ten_seconds(void **state)
{
    (void)state;
    is_terminal = 0;
    assert_string_equal(told(0, 9, 4), "");
    assert_string_equal(told(0, 25, 4), "pgtest:  10%  10.0 MB of 100.0 MB  1.0 MB/s  ETA 1:30\n"
                                        "pgtest:  20%  20.0 MB of 100.0 MB  1.0 MB/s  ETA 1:20\n");
}

static void work_without_a_byte_is_told_too(void **state)
{
    (void)state;
    is_terminal = 0;
    assert_string_equal(told(12, 8, 4), "pgtest:   0%  0 B of 100.0 MB\n"
                                        "pgtest:   8%  8.0 MB of 100.0 MB  1.0 MB/s  ETA 1:32\n");
}

static void on_a_terminal_it_begins_after_half_a_second(void **state)
{
    (void)state;
    is_terminal = 1;
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    assert_string_equal(told(0.375, 0, 8), "");
    assert_string_equal(told(0.75, 0, 8), "\r\033[K  0%  0 B of 100.0 MB"
                                          "\r\033[K  0%  0 B of 100.0 MB"
                                          "\r\033[K  0%  0 B of 100.0 MB\r\033[K");
    assert_int_equal(setenv("TERM", "dumb", 1), 0);
    assert_string_equal(told(0.75, 0, 8), "");
}

static void quiet_is_quiet(void **state)
{
    (void)state;
    is_terminal = 1;
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    cli.quiet = 1;
    assert_string_equal(told(12, 8, 4), "");
    cli.quiet = 0;
    cli.progress = "never";
    assert_string_equal(told(12, 8, 4), "");
    cli.progress = NULL;
}

static int parse(void **state)
{
    static const cli_tool tool = {
        .name = "pgtest", .operands = "IN", .summary = "is a test", .max_operands = 1};
    static char name[] = "pgtest", in[] = "in";
    static char *argv[] = {name, in, NULL};
    (void)state;
    return cli_parse(&tool, 2, argv) != 1;
}

PG_TEST_MAIN_WITH(parse, NULL, cmocka_unit_test(in_a_pipe_there_is_a_plain_line_every_ten_seconds),
                  cmocka_unit_test(work_without_a_byte_is_told_too),
                  cmocka_unit_test(on_a_terminal_it_begins_after_half_a_second),
                  cmocka_unit_test(quiet_is_quiet))
