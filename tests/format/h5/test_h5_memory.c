/* The driver's pages by themselves: what shows through from a base file and what is kept. libhdf5
 * on top of them is test_h5_writer.c's and test_h5_relink.c's part. */
#include "pg_test.h"

#include "format/h5/h5_memory.h"

static unsigned char old[10000];

static pg__io *base(size_t n)
{
    pg__io *io = NULL;
    for (size_t i = 0; i < sizeof old; i++)
        old[i] = (unsigned char)(i % 251 + 1);
    assert_ok(pg__io_open_mem(&io, old, n, NULL));
    return io;
}

static void reads_zeros_where_nothing_was_written(void **state)
{
    (void)state;
    pg__h5_memory m = {0};
    char got[8] = "xxxxxxx";
    assert_int_equal(pg__h5_memory_read(&m, 5000, got, sizeof got), 0);
    assert_memory_equal(got, "\0\0\0\0\0\0\0", sizeof got);
    assert_int_equal(pg__h5_memory_write(&m, PG_H5_PAGE - 2, "abcd", 4), 0);
    assert_int_equal(m.n_pages, 2);
    assert_int_equal(pg__h5_memory_read(&m, PG_H5_PAGE - 4, got, sizeof got), 0);
    assert_memory_equal(got, "\0\0abcd\0", sizeof got);
    pg__h5_memory_fini(&m);
}

static void shows_the_base_up_to_its_end_and_never_writes_it(void **state)
{
    (void)state;
    unsigned char got[12];
    pg__h5_memory m = {.base = base(sizeof old), .base_end = 9000};
    assert_int_equal(pg__h5_memory_read(&m, 4090, got, sizeof got), 0);
    assert_memory_equal(got, old + 4090, sizeof got);
    assert_int_equal(pg__h5_memory_read(&m, 8996, got, sizeof got), 0);
    assert_memory_equal(got, old + 8996, 4);
    assert_memory_equal(got + 4, "\0\0\0\0\0\0\0", 8);
    assert_int_equal(pg__h5_memory_write(&m, 4095, "ab", 2), 0);
    assert_int_equal(pg__h5_memory_read(&m, 4094, got, 4), 0);
    assert_int_equal(got[0], old[4094]);
    assert_memory_equal(got + 1, "ab", 2);
    assert_int_equal(got[3], old[4097]);
    assert_int_equal(old[4095], 4095 % 251 + 1);
    pg__io_close(m.base);
    pg__h5_memory_fini(&m);
}

static void forgets_what_is_written_to_the_old_part(void **state)
{
    (void)state;
    char got[2];
    pg__h5_memory m = {.base = base(sizeof old), .base_end = 8192};
    assert_int_equal(pg__h5_memory_write(&m, 10, "s", 1),
                     0); /* a page from before stays as it is */
    m.keep = 8192;
    assert_int_equal(pg__h5_memory_write(&m, 10, "t", 1), 0);
    assert_int_equal(pg__h5_memory_write(&m, 8191, "ab", 2), 0);
    assert_int_equal(m.failed, 0);
    assert_int_equal(m.n_pages, 2);
    assert_int_equal(pg__h5_memory_read(&m, 10, got, 1), 0);
    assert_int_equal(got[0], 's');
    assert_int_equal(pg__h5_memory_read(&m, 8191, got, 2), 0);
    assert_int_equal((unsigned char)got[0], old[8191]);
    assert_int_equal(got[1], 'b');
    pg__io_close(m.base);
    pg__h5_memory_fini(&m);
}

static void tells_why_the_base_could_not_be_read(void **state)
{
    (void)state;
    char got[8];
    pg__h5_memory m = {.base = base(100), .base_end = 9000}; /* it has shrunk */
    assert_int_equal(pg__h5_memory_read(&m, 96, got, sizeof got), -1);
    assert_int_equal(m.unread.code, PG_E_FORMAT);
    assert_non_null(strstr(m.unread.msg, "truncated"));
    assert_int_equal(pg__h5_memory_write(&m, 0, "x", 1), -1); /* the rest of the page is unknown */
    assert_int_equal(m.failed, 1);
    pg__io_close(m.base);
    pg__h5_memory_fini(&m);
}

static void sorts_its_pages(void **state)
{
    (void)state;
    pg__h5_memory m = {0};
    for (uint64_t i = 600; i-- > 0;)
        assert_int_equal(pg__h5_memory_write(&m, i * 7 % 600 * PG_H5_PAGE, &i, sizeof i), 0);
    pg__h5_memory_sort(&m);
    assert_int_equal(m.n_pages, 600);
    for (uint64_t i = 0; i < 600; i++)
        assert_int_equal(m.pages[i].no, i);
    pg__h5_memory_fini(&m);
}

PG_TEST_MAIN(cmocka_unit_test(reads_zeros_where_nothing_was_written),
             cmocka_unit_test(shows_the_base_up_to_its_end_and_never_writes_it),
             cmocka_unit_test(forgets_what_is_written_to_the_old_part),
             cmocka_unit_test(tells_why_the_base_could_not_be_read),
             cmocka_unit_test(sorts_its_pages))
