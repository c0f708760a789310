/* Known bytes: tensorboard 2.15.2's Event messages, serialized by protobuf 4.23.4, in records of
 * its masked CRC-32C. */
#include "pg_test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "format/events.h"

#define NOW 1795306761.5
#define VERSION                                                                            \
    "\x21\x00\x00\x00\x00\x00\x00\x00\x01\x7b\xec\xf6\x09\x00\x00\x60\x42\x8d\xc0\xda\x41" \
    "\x1a\x0d\x62\x72\x61\x69\x6e\x2e\x45\x76\x65\x6e\x74\x3a\x32\x52\x07\x0a\x05\x6c\x69" \
    "\x62\x70\x67\x67\x66\xb2\xf4"
#define SCALAR                                                                             \
    "\x35\x00\x00\x00\x00\x00\x00\x00\xd6\xc5\x5d\xe6\x09\x00\x00\x60\x42\x8d\xc0\xda\x41" \
    "\x10\xac\x02\x2a\x27\x0a\x25\x0a\x0a\x65\x70\x6f\x63\x68\x5f\x6c\x6f\x73\x73\x42\x0a" \
    "\x08\x01\x12\x00\x22\x04\x1d\x16\xc1\x3f\x4a\x0b\x0a\x09\x0a\x07\x73\x63\x61\x6c\x61" \
    "\x72\x73\xae\x6d\x21\x26"
#define MODEL                                                                              \
    "\x3e\x00\x00\x00\x00\x00\x00\x00\xd9\xd2\x40\xe7\x09\x00\x00\x60\x42\x8d\xc0\xda\x41" \
    "\x2a\x33\x0a\x31\x0a\x05\x6b\x65\x72\x61\x73\x42\x0e\x08\x07\x12\x00\x42\x08\x7b\x22" \
    "\x61\x22\x3a\x20\x31\x7d\x4a\x18\x0a\x16\x0a\x11\x67\x72\x61\x70\x68\x5f\x6b\x65\x72" \
    "\x61\x73\x5f\x6d\x6f\x64\x65\x6c\x12\x01\x31\x8e\xa7\x22\xeb"
#define N(literal) (sizeof(literal) - 1)

static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/pg-test-events-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    return chdir("/") || system(cmd) ? -1 : 0;
}

static void a_scalar_is_tensorflows_bytes(void **state)
{
    (void)state;
    pg__append a = {0};
    assert_ok(pg__events_scalar(&a, &(pg__event){NOW, 300, "epoch_loss"}, 1.5084873F, NULL));
    assert_int_equal(a.pending.n, N(SCALAR));
    assert_memory_equal(a.pending.s, SCALAR, N(SCALAR));
    pg__append_fini(&a);
}

static void a_histogram_is_tensorflows_bytes(void **state)
{
    (void)state;
    double rows[PG_EVENT_BUCKETS][3];
    pg__append a = {0};
    for (int i = 0; i < PG_EVENT_BUCKETS; i++) {
        rows[i][0] = i / 8.0 - 1;
        rows[i][1] = (i + 1) / 8.0 - 1;
        rows[i][2] = 2 * i;
    }
    assert_ok(pg__events_histogram(&a, &(pg__event){NOW, 0, "d/bias_0/histogram"},
                                   (const double(*)[3])rows, NULL));
    assert_int_equal(a.pending.n, 805);
    assert_int_equal(pg__crc32(0, a.pending.s, a.pending.n), 0x04E201E9);
    pg__append_fini(&a);
}

static void a_model_is_tensorflows_bytes(void **state)
{
    (void)state;
    pg__append a = {0};
    assert_ok(pg__events_model(&a, &(pg__event){NOW, 0, "keras"}, "{\"a\": 1}", 8, NULL));
    assert_int_equal(a.pending.n, N(MODEL));
    assert_memory_equal(a.pending.s, MODEL, N(MODEL));
    pg__append_fini(&a);
}

static void assert_file(const char *path, const char *want, size_t n)
{
    char got[512];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got, f), n);
    fclose(f);
    assert_memory_equal(got, want, n);
}

static void a_file_has_tensorflows_name_and_begins_with_its_version(void **state)
{
    (void)state;
    char host[256] = "", want[400];
    pg__append a = {0};
    assert_ok(pg__events_create(&a, "logs/train", NOW, NULL));
    gethostname(host, sizeof host - 1);
    snprintf(want, sizeof want, "logs/train/events.out.tfevents.1795306761.%s.%ld.0.v2", host,
             (long)getpid());
    assert_string_equal(a.path, want);
    assert_file(a.path, VERSION, N(VERSION));
    assert_int_equal(a.n_bytes, N(VERSION));
    pg__append_fini(&a);
}

static void two_files_of_one_second_differ_and_old_clocks_are_zeros(void **state)
{
    (void)state;
    pg__append a = {0}, b = {0};
    assert_ok(pg__events_create(&a, "logs", -5, NULL));
    assert_ok(pg__events_create(&b, "logs", 0, NULL));
    assert_non_null(strstr(a.path, ".tfevents.0000000000."));
    assert_non_null(strstr(a.path, ".0.v2"));
    assert_non_null(strstr(b.path, ".1.v2"));
    pg__append_fini(&a);
    pg__append_fini(&b);
}

static void what_waited_for_the_file_comes_behind_the_version(void **state)
{
    (void)state;
    char path[512];
    pg__append a = {0};
    assert_ok(pg__events_scalar(&a, &(pg__event){NOW, 300, "epoch_loss"}, 1.5084873F, NULL));
    assert_ok(pg__events_create(&a, "logs", NOW, NULL));
    assert_int_equal(a.pending.n, 0);
    snprintf(path, sizeof path, "%s", a.path);
    assert_file(path, VERSION SCALAR, N(VERSION) + N(SCALAR));
    pg__append_fini(&a);
}

/* A limit on file sizes stands for a full disk. */
static void a_file_that_cannot_be_begun_leaves_nothing(void **state)
{
    (void)state;
    const struct rlimit none = {0, RLIM_INFINITY}, any = {RLIM_INFINITY, RLIM_INFINITY};
    pg_err err = {0};
    pg__append a = {0};
    assert_ok(pg__events_scalar(&a, &(pg__event){NOW, 300, "epoch_loss"}, 1.5084873F, NULL));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_fails(PG_E_IO, pg__events_create(&a, "logs", NOW, &err), &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &any), 0);
    assert_int_equal(rmdir("logs"), 0);
    assert_null(a.path);
    assert_int_equal(a.pending.n, N(SCALAR));
    pg__append_fini(&a);
}

static int ignore_size_limits(void **state)
{
    (void)state;
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? -1 : 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

PG_TEST_MAIN_WITH(ignore_size_limits, NULL, cmocka_unit_test(a_scalar_is_tensorflows_bytes),
                  cmocka_unit_test(a_histogram_is_tensorflows_bytes),
                  cmocka_unit_test(a_model_is_tensorflows_bytes),
                  TEST(a_file_has_tensorflows_name_and_begins_with_its_version),
                  TEST(two_files_of_one_second_differ_and_old_clocks_are_zeros),
                  TEST(what_waited_for_the_file_comes_behind_the_version),
                  TEST(a_file_that_cannot_be_begun_leaves_nothing))
