/* What a copy gets of the old file, piece by piece, whatever runs of it are kept. */
#include "pg_test.h"

#include "base/limits.h"
#include "base/mem.h"
#include "format/h5/relinked.h"

enum { N = 4 * PG_COPY_BYTES + 1000 };

static unsigned char old[N], want[N], got[N + 5000];
static const unsigned char tail[100] = {7, 7, 7};

static uint32_t state;

static uint32_t next(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static void begin(pg__relinked *r, pg__io **io, const pg__run *runs, size_t n)
{
    for (size_t i = 0; i < N; i++)
        old[i] = (unsigned char)(1 + i % 251);
    memset(want, 0, sizeof want);
    for (size_t i = 0; i < n; i++)
        memcpy(want + runs[i].start, old + runs[i].start,
               (size_t)((runs[i].end < N ? runs[i].end : N) - runs[i].start));
    assert_ok(pg__io_open_mem(io, old, N, NULL));
    *r = (pg__relinked){.base = *io, .end = N, .n_head = 96, .tail_at = N + 4000};
    memset(r->head, 9, sizeof r->head);
    r->n_tail = sizeof tail;
    r->tail = pg__mem_array(r->n_tail, 1);
    memcpy(r->tail, tail, r->n_tail);
    assert_ok(pg__relinked_keep(r, runs, n, NULL));
}

/* Reads any part, and writes the whole, as `want` has it. */
static void check(const pg__run *runs, size_t n)
{
    pg__relinked r;
    pg__io *io = NULL, *out = NULL;
    pg__sink *sink = NULL;
    pg_progress progress = {0};
    begin(&r, &io, runs, n);
    for (int i = 0; i < 20; i++) {
        const size_t at = next(N), k = 1 + next(N - (uint32_t)at);
        assert_ok(pg__relinked_read(&r, at, got, k, NULL));
        assert_memory_equal(got, want + at, k);
    }
    uint64_t n_zeros = 0;
    for (size_t i = 0; i < N; i++)
        n_zeros += want[i] == 0;
    assert_int_equal(pg__bytes_between(runs, n, N), n_zeros);
    assert_ok(pg__sink_open_memory(&sink, NULL));
    assert_ok(pg__relinked_write(sink, &r, &progress, NULL));
    assert_ok(pg__sink_reopen(sink, &out, NULL));
    assert_int_equal(pg__io_size(out), N + 4000 + sizeof tail);
    assert_ok(pg__io_read(out, 0, got, (size_t)pg__io_size(out), NULL));
    memset(want, 9, r.n_head);
    assert_memory_equal(got, want, N);
    for (size_t i = N; i < N + 4000; i++)
        assert_int_equal(got[i], 0);
    assert_memory_equal(got + N + 4000, tail, sizeof tail);
    pg__io_close(out);
    pg__sink_close(sink);
    pg__io_close(io);
    pg__relinked_fini(&r);
}

static void keeps_runs_that_end_where_pieces_do(void **unused)
{
    (void)unused;
    static const uint64_t P = PG_COPY_BYTES;
    for (uint64_t a = P - 1; a <= P + 1; a++)
        for (uint64_t b = 3 * P - 1; b <= 3 * P + 1; b++) {
            check((pg__run[]){{0, 96}, {a, b}}, 2);
            check((pg__run[]){{0, a}, {b, N}}, 2);
            check((pg__run[]){{0, a}, {a + 1, b}, {b + 1, N + 50}}, 3);
        }
    check((pg__run[]){{0, N}}, 1);
    check((pg__run[]){{0, 96}}, 1);
    check((pg__run[]){{0, N - 1}}, 1);
    check((pg__run[]){{0, 96}, {N - 1, N}}, 2);
}

static void keeps_any_runs(void **unused)
{
    (void)unused;
    pg__run runs[200];
    state = 3;
    for (int t = 0; t < 60; t++) {
        size_t n = 0;
        const uint32_t most = t % 2 ? 100 : 2 * PG_COPY_BYTES;
        for (uint64_t at = 0; n < 200 && at + 100 < N; n++) {
            const uint64_t start = n ? at + 1 + next(most) : 0, end = start + 96 + next(most);
            if (end > N)
                break;
            runs[n] = (pg__run){start, end};
            at = end;
        }
        check(runs, n);
    }
}

PG_TEST_MAIN(cmocka_unit_test(keeps_runs_that_end_where_pieces_do),
             cmocka_unit_test(keeps_any_runs))
