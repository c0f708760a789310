#include "wrap/files.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "wrap/rewrite/rewrite.h"

static size_t read_all(unsigned char *out, size_t room, const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(out, 1, room, f);
    assert_true(n > 0 && n < room);
    assert_int_equal(fclose(f), 0);
    return n;
}

static void copy(const char *from, const char *to)
{
    static unsigned char buf[1 << 20];
    const size_t n = read_all(buf, sizeof buf, from);
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(buf, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Somebody renames another file to the source's name after it was opened. */
static void sums_the_file_that_was_opened(void **state)
{
    (void)state;
    static unsigned char buf[1 << 20];
    const pg_write_opts w = {0};
    char wanted[64];
    pg__str text = {0};
    const char *path = tmp("source.h5"), *other = tmp("other.h5");
    copy(data(K224 "cnn4-g2/template_model.h5"), path);
    copy(data(K224 "cnn4-g2/template_weights.h5"), other);
    const size_t n = read_all(buf, sizeof buf, path);
    snprintf(wanted, sizeof wanted, "\"pg.source\":\"source.h5\",\"pg.crc32\":\"%08x\"", (unsigned)pg__crc32(0, buf, n));
    pg_store *s = open_file(path);
    assert_int_equal(rename(other, path), 0);
    assert_ok(pg__add_provenance(&text, s, &w, NULL));
    if (!strstr(text.s, wanted))
        fail_msg("%s is not in %s", wanted, text.s);
    pg__str_fini(&text);
    pg_store_close(s);
    forget(path);
}

static void names_no_source_of_what_no_file_holds(void **state)
{
    (void)state;
    const pg_write_opts w = {0};
    pg__str text = {0};
    pg_store *s = pg_test_store("a[x]");
    assert_ok(pg__add_provenance(&text, s, &w, NULL));
    assert_null(strstr(text.s, "pg.source"));
    assert_non_null(strstr(text.s, "pg.tool"));
    pg__str_fini(&text);
    pg_store_close(s);
}

PG_TEST_MAIN(cmocka_unit_test(sums_the_file_that_was_opened),
             cmocka_unit_test(names_no_source_of_what_no_file_holds))
