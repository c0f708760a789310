#include "pg_test.h"

#include "train/exec/exec.h"

static pg__trace *new_trace(void)
{
    pg__trace *tr = NULL;
    pg_err err = {0};
    assert_int_equal(pg__trace_new(&tr, 2, &err), PG_OK);
    assert_int_equal(pg__trace_n_tracks(tr), 2 + PG_TRACE_EXTRA);
    return tr;
}

static size_t n_events(const pg__trace *tr)
{
    size_t n = 0;
    for (size_t k = 0; k < pg__trace_n_tracks(tr); k++)
        n += pg__trace_track_at(tr, k)->n;
    return n;
}

static void add_all(pg__trace *tr, double began)
{
    pg__trace_end(tr, 1, began, PG_TRACE_UPDATE, 0, 0);
    pg__trace_end_on(tr, PG_TRACE_READING,
                     &(pg__trace_event){.began = began, .what = PG_TRACE_READ, .b = 7});
}

static void keeps_spans_between_start_and_stop(void **state)
{
    pg__trace *tr = new_trace();
    (void)state;
    assert_true(pg__trace_begin(NULL) == 0 && pg__trace_begin(tr) == 0);
    assert_null(pg__trace_of_worker(NULL, 0));
    assert_null(pg__trace_of_worker(tr, 0));
    add_all(tr, pg__trace_begin(tr));
    pg__trace_start(tr);
    const double began = pg__trace_begin(tr);
    assert_true(began > 0 && pg__trace_of_worker(tr, 1) != NULL);
    add_all(tr, began);
    pg__trace_stop(tr);
    add_all(tr, began);
    assert_int_equal(n_events(tr), 2);
    const pg__trace_event *e = pg__trace_track_at(tr, 1)->events;
    assert_true(e->began == began && e->ended >= began && e->what == PG_TRACE_UPDATE);
    assert_int_equal(pg__trace_track_at(tr, 2 + PG_TRACE_READING)->events->b, 7);
    pg__trace_start(tr); /* from nothing */
    pg__trace_stop(tr);
    assert_int_equal(n_events(tr), 0);
    pg__trace_free(tr);
    pg__trace_free(NULL);
}

static void counts_what_is_beyond_its_limit(void **state)
{
    pg__trace *tr = new_trace();
    (void)state;
    pg__trace_start(tr);
    pg__trace_track *track = pg__trace_of_worker(tr, 0);
    for (size_t i = 0; i < PG_TRACE_MOST + 5; i++)
        pg__trace_add(track, &(pg__trace_event){.began = 1, .ended = 2, .a = (uint32_t)i});
    pg__trace_stop(tr);
    assert_true(track->n == PG_TRACE_MOST && track->n_lost == 5);
    assert_true(track->cap <= 2 * PG_TRACE_MOST);
    assert_int_equal(track->events[PG_TRACE_MOST - 1].a, PG_TRACE_MOST - 1);
    pg__trace_free(tr);
}

PG_TEST_MAIN(cmocka_unit_test(keeps_spans_between_start_and_stop),
             cmocka_unit_test(counts_what_is_beyond_its_limit))
