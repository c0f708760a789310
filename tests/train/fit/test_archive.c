/* What an archive wrote it reads; less, or something else, is refused. */
#include "pg_test.h"

#include <math.h>

#include "base/mem.h"
#include "train/fit/archive.h"

typedef struct things {
    uint64_t wide;
    size_t size;
    int negative;
    double real, nothing;
    char raw[3];
    char *text, *none;
} things;

static void go_through(pg__archive *a, things *t)
{
    pg__archive_u64(a, &t->wide);
    pg__archive_size(a, &t->size);
    pg__archive_int(a, &t->negative);
    pg__archive_real(a, &t->real);
    pg__archive_real(a, &t->nothing);
    pg__archive_bytes(a, t->raw, sizeof t->raw);
    pg__archive_text(a, &t->text);
    pg__archive_text(a, &t->none);
}

static char word[] = "a word";

static pg__archive written(void)
{
    pg__archive a = {.writes = 1};
    things t = {UINT64_MAX, 7, -3, 0.1, NAN, {1, 0, 2}, word, NULL};
    go_through(&a, &t);
    assert_int_equal(a.st, PG_OK);
    return a;
}

static void what_was_written_is_read(void **state)
{
    pg__archive w = written();
    pg__archive r = {.in = (const unsigned char *)w.out.s, .n = w.out.n};
    things t = {.text = pg__mem_strdup("old"), .none = pg__mem_strdup("old")};
    (void)state;
    go_through(&r, &t);
    assert_int_equal(r.st, PG_OK);
    assert_int_equal(r.at, r.n);
    assert_true(t.wide == UINT64_MAX && t.size == 7 && t.negative == -3 && t.real == 0.1);
    assert_true(isnan(t.nothing));
    assert_memory_equal(t.raw, "\1\0\2", 3);
    assert_string_equal(t.text, "a word");
    assert_null(t.none);
    pg__mem_free(t.text);
    pg__archive_fini(&w);
}

static void every_cut_is_found(void **state)
{
    pg__archive w = written();
    (void)state;
    for (size_t n = 0; n < w.out.n; n++) {
        pg__archive r = {.in = (const unsigned char *)w.out.s, .n = n};
        things t = {.text = NULL};
        go_through(&r, &t);
        assert_int_equal(r.st, PG_E_FORMAT);
        pg__mem_free(t.text);
    }
    pg__archive_fini(&w);
}

static void a_text_without_its_end_is_refused(void **state)
{
    const unsigned char raw[] = {3, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'};
    pg__archive r = {.in = raw, .n = sizeof raw};
    char *text = NULL;
    (void)state;
    pg__archive_text(&r, &text);
    assert_int_equal(r.st, PG_E_FORMAT);
    assert_null(text);
}

static void a_growing_file_is_kept_with_what_is_pending(void **state)
{
    pg__archive w = {.writes = 1};
    pg__append file = {.path = pg__mem_strdup("log"), .n_bytes = 7}, back = {.path = NULL};
    (void)state;
    assert_ok(pg__str_add(&file.pending, "a\0b", 3, NULL));
    pg__archive_append(&w, &file);
    assert_ok(w.st);
    for (size_t n = 0; n <= w.out.n; n++) {
        pg__archive r = {.in = (const unsigned char *)w.out.s, .n = n};
        pg__archive_append(&r, &back);
        assert_int_equal(r.st, n < w.out.n ? PG_E_FORMAT : PG_OK);
    }
    assert_string_equal(back.path, "log");
    assert_int_equal(back.n_bytes, 7);
    assert_int_equal(back.pending.n, 3);
    assert_memory_equal(back.pending.s, "a\0b", 3);
    pg__append_fini(&file);
    pg__append_fini(&back);
    pg__archive_fini(&w);
}

PG_TEST_MAIN(cmocka_unit_test(what_was_written_is_read), cmocka_unit_test(every_cut_is_found),
             cmocka_unit_test(a_text_without_its_end_is_refused),
             cmocka_unit_test(a_growing_file_is_kept_with_what_is_pending))
