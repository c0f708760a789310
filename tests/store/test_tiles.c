#include "pg_test.h"

#include "base/limits.h"
#include "store/tiles.h"

#define N_DATA (256u * 1024u)

/* A tensor of up to three dimensions whose element i is i, cut by a grid. */
typedef struct grid {
    uint32_t data[N_DATA];
    pg__tiled t;
    pg__tile tiles[64];
    size_t n_fetches;
} grid;

static void cut(grid *g, uint32_t rank, const uint64_t *dims, const uint64_t *step)
{
    uint64_t at[PG_MAX_RANK] = {0};
    uint32_t n = 1;
    g->t = (pg__tiled){.name = "w", .elem = 4, .rank = rank, .v = g->tiles};
    g->n_fetches = 0;
    memcpy(g->t.dims, dims, rank * sizeof *dims);
    for (uint32_t k = 0; k < rank; k++)
        n *= (uint32_t)dims[k];
    for (uint32_t i = 0; i < n; i++)
        g->data[i] = i;
    for (;;) {
        pg__tile *x = &g->tiles[g->t.n];
        *x = (pg__tile){.source = g->t.n++};
        for (uint32_t k = 0; k < rank; k++) {
            x->start[k] = at[k];
            x->size[k] = dims[k] - at[k] < step[k] ? dims[k] - at[k] : step[k];
        }
        uint32_t k = rank;
        while (k > 0 && (at[k - 1] += step[k - 1]) >= dims[k - 1])
            at[--k] = 0;
        if (k == 0)
            return;
    }
}

/* The elements of a tile, one by one: slow, and obviously right. */
static pg_status fetch(void *ctx, const pg__tile *x, uint64_t off, void *buf, size_t n, pg_err *err)
{
    grid *g = ctx;
    unsigned char *to = buf;
    (void)err;
    (void)__atomic_add_fetch(&g->n_fetches, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < n; i++) {
        uint64_t e = (off + i) / 4, at = 0, stride = 1;
        for (uint32_t k = g->t.rank; k-- > 0; e /= x->size[k], stride *= g->t.dims[k])
            at += (x->start[k] + (x->size[k] ? e % x->size[k] : 0)) * stride;
        to[i] = ((const unsigned char *)&g->data[at])[(off + i) % 4];
    }
    return PG_OK;
}

static void check(grid *g)
{
    static unsigned char buf[N_DATA * 4];
    pg__tile_window w = {0};
    uint64_t n = 4;
    for (uint32_t k = 0; k < g->t.rank; k++)
        n *= g->t.dims[k];
    assert_ok(pg__tiles_check(&g->t, NULL));
    assert_ok(pg__tiles_read(&w, &g->t, fetch, g, 0, buf, (size_t)n, NULL));
    assert_memory_equal(buf, g->data, (size_t)n);
    for (uint64_t at = 0; at < n; at += 13) { /* elements are cut, too */
        const size_t len = n - at < 29 ? (size_t)(n - at) : 29;
        pg__tile_window_fini(&w);
        assert_ok(pg__tiles_read(&w, &g->t, fetch, g, at, buf, len, NULL));
        assert_memory_equal(buf, (const unsigned char *)g->data + at, len);
    }
    pg__tile_window_fini(&w);
}

static void every_cut_gives_the_tensor_back(void **state)
{
    (void)state;
    static grid g;
    static const uint64_t dims[][3] = {{7, 5, 3}, {1, 9, 4}, {8, 1, 8}, {3, 3, 3}};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (uint64_t a = 1; a <= dims[d][0]; a += 3)
            for (uint64_t b = 1; b <= dims[d][1]; b += 2)
                for (uint64_t c = 1; c <= dims[d][2]; c += 2)
                    for (uint32_t rank = 0; rank <= 3; rank++) {
                        const uint64_t step[] = {a, b, c};
                        if (dims[d][0] * dims[d][1] * dims[d][2] / (a * b * c) > 40)
                            continue;
                        cut(&g, rank, dims[d], step);
                        check(&g);
                    }
}

static void rows_are_read_in_long_stretches(void **state)
{
    (void)state;
    static grid g;
    static uint32_t buf[64 * 60];
    static const uint64_t dims[] = {64, 60}, step[] = {64, 15};
    pg__tile_window w = {0};
    cut(&g, 2, dims, step);
    assert_ok(pg__tiles_check(&g.t, NULL));
    for (size_t row = 0; row < 64; row++)
        assert_ok(pg__tiles_read(&w, &g.t, fetch, &g, row * 240, buf + row * 60, 240, NULL));
    assert_memory_equal(buf, g.data, sizeof buf);
    assert_int_equal(g.n_fetches, 4); /* all rows of each of the four at once */
    pg__tile_window_fini(&w);
}

static void large_reads_of_few_pieces_need_no_window(void **state)
{
    (void)state;
    static grid g;
    static unsigned char buf[N_DATA * 4];
    static const uint64_t dims[] = {256, 1024}, step[] = {100, 600};
    static const size_t odd[] = {0, 4, 2}; /* bytes off the beginning of an element or a row */
    cut(&g, 2, dims, step);
    assert_ok(pg__tiles_check(&g.t, NULL));
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        pg__tile_window w = {0};
        memset(buf, 0, sizeof buf);
        for (size_t at = odd[k]; at + PG_COPY_BYTES <= sizeof buf; at += PG_COPY_BYTES)
            assert_ok(pg__tiles_read(&w, &g.t, fetch, &g, at, buf + at, PG_COPY_BYTES, NULL));
        assert_memory_equal(buf + odd[k], (const unsigned char *)g.data + odd[k],
                            PG_COPY_BYTES * (k ? 3 : 4));
        assert_int_equal(w.rows != NULL, odd[k] % 4 != 0);
        pg__tile_window_fini(&w);
    }
}

static void what_does_not_tile_is_refused(void **state)
{
    (void)state;
    static grid g;
    static const uint64_t dims[] = {6, 4}, step[] = {3, 2};
    pg_err err = {0};
    cut(&g, 2, dims, step);
    g.t.n--;
    assert_fails(PG_E_FORMAT, pg__tiles_check(&g.t, &err), &err);
    assert_string_equal(err.msg, "w: its pieces hold 18 of its 24 elements");
    cut(&g, 2, dims, step);
    g.tiles[3].start[1] = 1;
    assert_fails(PG_E_FORMAT, pg__tiles_check(&g.t, &err), &err);
    assert_string_equal(err.msg, "w: pieces [3:6, 0:2] and [3:6, 1:3] overlap");
    cut(&g, 2, dims, step);
    g.tiles[3].start[0] = 4;
    assert_fails(PG_E_FORMAT, pg__tiles_check(&g.t, &err), &err);
    assert_string_equal(err.msg, "w: piece [4:7, 2:4] lies outside of the tensor");
    cut(&g, 2, dims, step);
    g.tiles[3].start[0] = UINT64_MAX;
    assert_fails(PG_E_FORMAT, pg__tiles_check(&g.t, &err), &err);
    cut(&g, 0, dims, step);
    g.tiles[1] = g.tiles[0];
    g.t.n = 2;
    assert_fails(PG_E_FORMAT, pg__tiles_check(&g.t, &err), &err);
}

static void empty_pieces_do_not_count(void **state)
{
    (void)state;
    static grid g;
    static const uint64_t dims[] = {6}, step[] = {3};
    cut(&g, 1, dims, step);
    g.tiles[2] = (pg__tile){.start = {6}};
    g.tiles[3] = (pg__tile){.start = {2}};
    g.t.n = 4;
    check(&g);
    assert_int_equal(g.t.n, 2);
}

/* A grid is as its list of pieces, and holds none of them. */
static void a_grid_needs_no_list(void **state)
{
    (void)state;
    static grid g;
    static uint32_t buf[4096];
    static const uint64_t dims[] = {7, 5, 3};
    for (uint64_t a = 1; a <= 8; a++)
        for (uint64_t b = 1; b <= 6; b++) {
            const uint64_t step[] = {a, b, 2};
            pg__tile_window w = {0};
            g.t = (pg__tiled){.name = "w", .elem = 4, .rank = 3};
            memcpy(g.t.dims, dims, sizeof dims);
            memcpy(g.t.step, step, sizeof step);
            assert_ok(pg__tiles_grid(&g.t, NULL));
            assert_int_equal(g.t.n, ((7 + a - 1) / a) * ((5 + b - 1) / b) * 2);
            assert_ok(pg__tiles_read(&w, &g.t, fetch, &g, 0, buf, 105 * 4, NULL));
            assert_memory_equal(buf, g.data, 105 * 4);
            assert_int_equal(pg__tiles_pieces(&g.t).n, g.t.n);
            assert_int_equal(pg__tiles_pieces(&g.t).axes, (a < 7) | (b < 5) << 1 | 4);
            pg__tile_window_fini(&w);
            free(g.t.v); /* of a grid of one */
        }
    pg__tile_window w = {0}; /* a piece that reaches far beyond the tensor */
    g.t = (pg__tiled){
        .name = "w", .elem = 4, .rank = 2, .dims = {1, 4}, .step = {UINT64_C(1) << 62, 2}};
    assert_ok(pg__tiles_grid(&g.t, NULL));
    assert_ok(pg__tiles_read(&w, &g.t, fetch, &g, 0, buf, 4 * 4, NULL));
    assert_memory_equal(buf, g.data, 4 * 4);
    pg__tile_window_fini(&w);
    pg_err err = {0};
    g.t = (pg__tiled){.name = "w", .elem = 4, .rank = 1, .dims = {3}};
    assert_fails(PG_E_FORMAT, pg__tiles_grid(&g.t, &err), &err);
    g.t =
        (pg__tiled){.name = "w", .elem = 4, .rank = 1, .dims = {PG_LIMIT_OBJECTS + 1}, .step = {1}};
    assert_fails(PG_E_LIMIT, pg__tiles_grid(&g.t, &err), &err);
    g.t = (pg__tiled){
        .name = "w", .elem = 4, .rank = 2, .dims = {UINT64_MAX, 2}, .step = {UINT64_MAX, 2}};
    assert_fails(PG_E_LIMIT, pg__tiles_grid(&g.t, &err), &err);
}

static pg_status fetch_numbers(void *ctx, const pg__tile *x, uint64_t off, void *buf, size_t n,
                               pg_err *err)
{
    const pg__tiled *t = ctx;
    uint32_t *to = buf;
    (void)err;
    for (size_t i = 0; i < n / 4; i++) {
        const uint64_t e = off / 4 + i;
        to[i] =
            (uint32_t)((x->start[0] + e / x->size[1]) * t->dims[1] + x->start[1] + e % x->size[1]);
    }
    return PG_OK;
}

/* Also where pieces share the rows of a window, and where it ends within them. */
static void threads_fill_the_same_window(void **state)
{
    (void)state;
    enum { ROWS = 1500, COLUMNS = 2000 }; /* more than a window */
    uint32_t *buf = malloc(sizeof *buf * ROWS * COLUMNS);
    assert_non_null(buf);
    for (size_t n_threads = 0; n_threads <= 20; n_threads += 4) {
        pg__tile_window w = {.n_threads = n_threads};
        pg__tiled t = {
            .name = "w", .elem = 4, .rank = 2, .dims = {ROWS, COLUMNS}, .step = {333, 301}};
        memset(buf, 0, sizeof *buf * ROWS * COLUMNS);
        assert_ok(pg__tiles_grid(&t, NULL));
        assert_ok(
            pg__tiles_read(&w, &t, fetch_numbers, &t, 0, buf, sizeof *buf * ROWS * COLUMNS, NULL));
        for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
            if (buf[i] != i)
                fail_msg("%zu threads: element %u", n_threads, i);
        pg__tile_window_fini(&w);
    }
    free(buf);
}

/* Side by side, each piece has to be compared with all others: a second is enough. */
static void pieces_side_by_side_are_bounded(void **state)
{
    (void)state;
    enum { N = 40000 };
    pg_err err = {0};
    pg__tiled t = {.name = "w", .elem = 1, .rank = 2, .dims = {1, N}, .v = calloc(N, sizeof *t.v)};
    assert_non_null(t.v);
    for (t.n = 0; t.n < 1000; t.n++)
        t.v[t.n] = (pg__tile){.start = {0, t.n}, .size = {1, 1}};
    t.dims[1] = 1000;
    assert_ok(pg__tiles_check(&t, NULL));
    t.dims[1] = N;
    for (; t.n < N; t.n++)
        t.v[t.n] = (pg__tile){.start = {0, t.n}, .size = {1, 1}};
    assert_fails(PG_E_LIMIT, pg__tiles_check(&t, &err), &err); /* PG_LIMIT_TILE_PAIRS */
    assert_string_equal(err.msg, "w: too many pieces side by side (40000 in all)");
    free(t.v);
}

PG_TEST_MAIN(cmocka_unit_test(every_cut_gives_the_tensor_back),
             cmocka_unit_test(large_reads_of_few_pieces_need_no_window),
             cmocka_unit_test(rows_are_read_in_long_stretches),
             cmocka_unit_test(what_does_not_tile_is_refused),
             cmocka_unit_test(empty_pieces_do_not_count), cmocka_unit_test(a_grid_needs_no_list),
             cmocka_unit_test(threads_fill_the_same_window),
             cmocka_unit_test(pieces_side_by_side_are_bounded))
