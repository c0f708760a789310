#include "pg_test.h"

#include "store/strided.h"

/* A source of known elements: element i of `size` bytes is i, little-endian. */
typedef struct source {
    size_t size;
    uint64_t n, fetches, bytes;
} source;

static pg_status fetch(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    source *s = ctx;
    unsigned char *p = buf;
    (void)tensor;
    if (off > s->n * s->size || n > s->n * s->size - off)
        return pg_fail(err, PG_E_IO, "read outside");
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(s->size == 1 && (off + i) / s->size > 255
                                   ? 0
                                   : (off + i) / s->size >> 8 * ((off + i) % s->size));
    s->fetches++;
    s->bytes += n;
    return PG_OK;
}

static uint64_t element(const pg__strided *v, uint64_t i)
{
    uint64_t at = v->first;
    for (uint32_t k = v->rank; k-- > 0; i /= v->dims[k])
        at += i % v->dims[k] * v->strides[k];
    return at;
}

static uint64_t count(const pg__strided *v)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < v->rank; k++)
        n *= v->dims[k];
    return n;
}

/* Reads v in pieces of `piece` bytes and compares every element. */
static void check(const pg__strided *v, size_t piece, source *s)
{
    const uint64_t n = count(v) * v->size;
    unsigned char *got = malloc(n ? n : 1);
    pg__slab slab = {0};
    pg_err err = {0};
    assert_non_null(got);
    assert_ok(pg__strided_check(v, &err));
    for (uint64_t off = 0; off < n; off += piece) {
        const size_t k = n - off < piece ? (size_t)(n - off) : piece;
        if (pg__strided_read(&slab, v, 3, fetch, s, off, got + off, k, &err) != PG_OK)
            fail_msg("%s", err.msg);
    }
    for (uint64_t i = 0; i < n / v->size; i++) {
        uint64_t want = element(v, i), have = 0;
        memcpy(&have, got + i * v->size, v->size);
        if (have != (v->size == 8 ? want : want & ((UINT64_C(1) << 8 * v->size) - 1)))
            fail_msg("element %llu is %llu, not %llu", (unsigned long long)i,
                     (unsigned long long)have, (unsigned long long)want);
    }
    pg__slab_fini(&slab);
    free(got);
}

static void reads_views_of_any_kind(void **state)
{
    (void)state;
    static const pg__strided views[] = {
        {4, 2, {3, 4}, {4, 1}, 0, 12},                /* plain */
        {4, 2, {4, 3}, {1, 4}, 0, 12},                /* transposed */
        {4, 0, {0}, {0}, 7, 12},                      /* one element */
        {2, 2, {3, 2}, {8, 2}, 1, 24},                /* a slice with steps */
        {8, 3, {2, 3, 5}, {15, 0, 1}, 0, 30},         /* expanded */
        {1, 4, {2, 3, 4, 5}, {60, 1, 15, 3}, 0, 120}, /* channels last */
        {4, 3, {5, 1, 7}, {1, 99, 5}, 3, 50},         /* a dimension of one */
        {2, 2, {2, 300}, {1, 700}, 0, 210000},        /* far apart */
        {4, 2, {700, 300}, {1, 700}, 0, 210000},
        {4, 2, {3, 3}, {1, 1}, 0, 5},  /* overlapping */
        {4, 2, {0, 3}, {3, 1}, 99, 5}, /* empty */
    };
    static const size_t pieces[] = {1, 7, 64, 100000};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            source s = {.size = views[i].size, .n = views[i].n_source};
            if (pieces[k] >= 64 || count(&views[i]) < 1000)
                check(&views[i], pieces[k], &s);
        }
}

static void tells_plain_views(void **state)
{
    (void)state;
    assert_true(pg__strided_is_plain(&(pg__strided){4, 2, {3, 4}, {4, 1}, 5, 99}));
    assert_true(pg__strided_is_plain(&(pg__strided){4, 2, {1, 4}, {77, 1}, 5, 99}));
    assert_true(pg__strided_is_plain(&(pg__strided){4, 0, {0}, {0}, 5, 99}));
    assert_false(pg__strided_is_plain(&(pg__strided){4, 2, {3, 4}, {1, 3}, 0, 99}));
    assert_false(pg__strided_is_plain(&(pg__strided){4, 1, {3}, {2}, 0, 99}));
}

static void refuses_views_that_leave_their_storage(void **state)
{
    (void)state;
    static const pg__strided views[] = {
        {4, 2, {3, 5}, {5, 1}, 0, 12},
        {4, 2, {3, 4}, {4, 1}, 1, 12},
        {4, 1, {1}, {1}, 12, 12},
        {4, 0, {0}, {0}, 0, 0},
        {4, 2, {UINT64_C(1) << 33, 2}, {UINT64_C(1) << 33, 1}, 0, 12},
        {4, 1, {2}, {UINT64_MAX}, 2, 12},
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        pg_err err = {0};
        assert_fails(PG_E_FORMAT, pg__strided_check(&views[i], &err), &err);
    }
}

/* A matrix larger than a slab, the wrong way round: every slab visits every column once. */
static void reads_large_transposed_matrices_in_few_pieces(void **state)
{
    (void)state;
    const pg__strided v = {8, 2, {6000, 1000}, {1, 6000}, 0, 6000000};
    source s = {.size = 8, .n = v.n_source};
    check(&v, (size_t)1 << 20, &s);
    assert_in_range(s.fetches, 1000, 4000);
    assert_in_range(s.bytes, 48000000, 60000000);
}

PG_TEST_MAIN(cmocka_unit_test(reads_views_of_any_kind), cmocka_unit_test(tells_plain_views),
             cmocka_unit_test(refuses_views_that_leave_their_storage),
             cmocka_unit_test(reads_large_transposed_matrices_in_few_pieces))
