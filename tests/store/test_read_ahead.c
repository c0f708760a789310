#include "pg_test.h"

#include <stdatomic.h>
#include <time.h>

#include "base/limits.h"
#include "store/read_ahead.h"

#define FAILS 3 /* this tensor's second block, where a test asks for it */

static unsigned char byte_at(size_t tensor, uint64_t off)
{
    return (unsigned char)(tensor * 37 + off * 7 + (off >> 11));
}

typedef struct source {
    int fails, slow;
    atomic_size_t n_reads;
} source;

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    source *s = ctx;
    unsigned char *to = buf;
    s->n_reads++;
    if (s->slow)
        nap();
    if (s->fails && tensor == FAILS && off)
        return pg_fail(err, PG_E_IO, "no more");
    for (size_t i = 0; i < n; i++)
        to[i] = byte_at(tensor, off + i);
    return PG_OK;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* Four weights, of which one has no bytes, and a state of two bytes in the other order. */
static pg_store *make_store(source *s, uint64_t scale)
{
    static const pg__store_io io = {.read = read_data, .close = nothing};
    const uint64_t sizes[] = {3 * scale + 5, 0, 7, 2 * scale}, one = 1;
    char name[] = "w0";
    pg_store *store = NULL;
    assert_ok(pg__store_new(&store, "test", &io, s, NULL));
    for (size_t i = 0; i < 4; i++, name[1]++)
        assert_ok(pg__store_add_weight(
            store, &(pg__tensor_desc){.name = name, .dtype = PG_U8, .rank = 1, .dims = &sizes[i]},
            NULL));
    assert_ok(pg__store_add_state(
        store,
        &(pg__tensor_desc){
            .name = "state", .dtype = PG_I16, .big_endian = 1, .rank = 1, .dims = &one},
        NULL));
    assert_ok(pg__store_set_path(store, "some.file", NULL));
    return store;
}

static const pg__to_read list[] = {{3, 0}, {1, 0}, {4, 1}, {0, 0}, {2, 0}, {1, 0}, {4, 0}};
#define N_LIST (sizeof list / sizeof *list)

static void brings_every_byte_in_order(void **state)
{
    (void)state;
    for (uint64_t scale = 1 << 10; scale <= 1 << 21;
         scale <<= 11) { /* without a thread, and with */
        source s = {.slow = 1};
        pg_store *store = make_store(&s, scale);
        pg__read_ahead *r = NULL;
        size_t item = 0, n_blocks = 0;
        uint64_t off = 0;
        assert_ok(pg__read_ahead_start(&r, store, list, N_LIST, NULL));
        for (pg__block b = {.n = 1}; b.n;) {
            assert_ok(pg__read_ahead_next(r, &b, NULL));
            while (item < N_LIST && off == pg__store_tensor(store, list[item].tensor)->n_bytes) {
                item++;
                off = 0;
            }
            assert_int_equal(b.item, item);
            assert_int_equal(b.off, off);
            assert_true(b.n <= PG_COPY_BYTES);
            for (size_t i = 0; i < b.n; i++) {
                const uint64_t at = list[item].native ? 1 - (off + i) : off + i;
                if (b.bytes[i] != byte_at(list[item].tensor, at))
                    fail_msg("item %zu, byte %llu", item, (unsigned long long)(off + i));
            }
            off += b.n;
            n_blocks += b.n > 0;
        }
        assert_int_equal(item, N_LIST);
        assert_int_equal(s.n_reads, n_blocks);
        pg__read_ahead_close(r);
        pg_store_close(store);
    }
}

/* What was read before a failure still comes; the failure names the file. */
static void a_failure_comes_in_its_place(void **state)
{
    (void)state;
    static const pg__to_read v[] = {{0, 0}, {FAILS, 0}, {0, 0}};
    for (uint64_t scale = 1 << 18; scale <= 1 << 21; scale <<= 3) {
        source s = {.fails = 1, .slow = 1};
        pg_store *store = make_store(&s, scale);
        pg__read_ahead *r = NULL;
        pg_err err = {0};
        pg_status st = PG_OK;
        uint64_t n = 0;
        assert_ok(pg__read_ahead_start(&r, store, v, 3, NULL));
        for (pg__block b = {.n = 1}; st == PG_OK && b.n;) {
            st = pg__read_ahead_next(r, &b, &err);
            n += st == PG_OK ? b.n : 0;
        }
        assert_fails(PG_E_IO, st, &err);
        assert_string_equal(err.msg, "some.file: no more");
        assert_int_equal(n, 3 * scale + 5 + PG_COPY_BYTES);
        pg__read_ahead_close(r);
        pg_store_close(store);
    }
}

static void it_may_be_closed_at_any_time(void **state)
{
    (void)state;
    for (size_t n_taken = 0; n_taken < 40; n_taken++) {
        source s = {.slow = 1};
        pg_store *store = make_store(&s, 1 << 21);
        pg__read_ahead *r = NULL;
        pg__block b;
        assert_ok(pg__read_ahead_start(&r, store, list, N_LIST, NULL));
        for (size_t i = 0; i < n_taken; i++)
            assert_ok(pg__read_ahead_next(r, &b, NULL));
        pg__read_ahead_close(r);
        assert_true(s.n_reads <= n_taken + 16); /* no more than the ring holds */
        pg_store_close(store);
    }
    pg__read_ahead_close(NULL);
}

static void what_is_slow_is_read_before_it_is_asked_for(void **state)
{
    (void)state;
    source s = {.slow = 1};
    pg_store *store = make_store(&s, 1 << 21);
    pg__read_ahead *r = NULL;
    pg__block b;
    const size_t n_taken = (1 << 20) / PG_COPY_BYTES; /* that many are timed */
    assert_ok(pg__read_ahead_start(&r, store, list, N_LIST, NULL));
    for (size_t i = 0; i < n_taken; i++)
        assert_ok(pg__read_ahead_next(r, &b, NULL));
    for (int waited = 0; s.n_reads < n_taken + 15 && waited < 100000; waited++)
        nap();
    assert_int_equal(s.n_reads, n_taken + 15); /* the ring but for the block at hand */
    pg__read_ahead_close(r);
    pg_store_close(store);
}

PG_TEST_MAIN(cmocka_unit_test(brings_every_byte_in_order),
             cmocka_unit_test(what_is_slow_is_read_before_it_is_asked_for),
             cmocka_unit_test(a_failure_comes_in_its_place),
             cmocka_unit_test(it_may_be_closed_at_any_time))
