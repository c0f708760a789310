/* The container of resume.pg: what was written is read; every cut and every changed byte is found.
 */
#include "pg_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "train/model/resume_file.h"

static char folder[] = "/tmp/pg-resume-file-XXXXXX";
static char path[64], older[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/resume.pg", folder);
    snprintf(older, sizeof older, "%s/resume.pg.1", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(older);
    return rmdir(folder);
}

static void write_text(const char *text)
{
    const pg__part parts[] = {{.name = "text", .data = text, .n_bytes = strlen(text)},
                              {.name = "nothing", .data = "", .n_bytes = 0},
                              {.name = "more", .data = "ab", .n_bytes = 2}};
    assert_ok(pg__resume_file_write(path, parts, 3, NULL));
}

static void assert_text(const char *where, const char *want)
{
    pg__resume_file f = {.io = NULL};
    char *text = NULL;
    size_t n = 0;
    assert_ok(pg__resume_file_open(&f, where, NULL));
    assert_ok(pg__resume_file_text(&f, "text", &text, &n, NULL));
    assert_string_equal(text, want);
    assert_int_equal(n, strlen(want));
    pg__mem_free(text);
    pg__resume_file_close(&f);
}

static void parts_come_back_by_name(void **state)
{
    pg__resume_file f = {.io = NULL};
    char b[2] = {0};
    pg_err err = {0};
    (void)state;
    write_text("words");
    assert_text(path, "words");
    assert_ok(pg__resume_file_open(&f, path, NULL));
    assert_int_equal(pg__resume_file_bytes(&f, "nothing"), 0);
    assert_int_equal(pg__resume_file_bytes(&f, "unheard of"), 0);
    assert_ok(pg__resume_file_read(&f, "more", 1, b, 1, NULL));
    assert_string_equal(b, "b");
    assert_fails(PG_E_FORMAT, pg__resume_file_read(&f, "more", 1, b, 2, &err), &err);
    assert_fails(PG_E_FORMAT, pg__resume_file_read(&f, "unheard of", 0, b, 1, &err), &err);
    pg__resume_file_close(&f);
}

static void the_one_before_stays(void **state)
{
    (void)state;
    write_text("first");
    write_text("second");
    assert_text(path, "second");
    assert_text(older, "first");
    write_text("third");
    assert_text(older, "second");
}

static void every_cut_and_changed_byte_is_found(void **state)
{
    unsigned char whole[512];
    pg_err err = {0};
    (void)state;
    write_text("words");
    FILE *f = fopen(path, "rb");
    const size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    assert_true(n > 100 && n < sizeof whole);
    for (size_t i = 0; i < 2 * n; i++) {
        pg__resume_file r = {.io = NULL};
        const size_t cut = i < n ? i : n, changed = i - n;
        f = fopen(path, "wb");
        if (i >= n)
            whole[changed] ^= 0x41;
        assert_int_equal(fwrite(whole, 1, cut, f), cut);
        assert_int_equal(fclose(f), 0);
        if (i >= n)
            whole[changed] ^= 0x41;
        const pg_status st = pg__resume_file_open(&r, path, &err);
        if (st != PG_E_FORMAT && st != PG_E_UNSUPPORTED)
            fail_msg("%s %zu: %s", i < n ? "cut at" : "changed byte", i % n, pg_status_name(st));
        assert_ptr_equal(strstr(err.msg, path), err.msg);
    }
}

PG_TEST_MAIN_WITH(make_folder, remove_folder, cmocka_unit_test(parts_come_back_by_name),
                  cmocka_unit_test(the_one_before_stays),
                  cmocka_unit_test(every_cut_and_changed_byte_is_found))
