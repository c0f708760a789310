#include "pg_test.h"

#include <unistd.h>

#include "format/format.h"
#include "io/zip.h"

static void assert_not_read(const char *path, const char *say)
{
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_UNSUPPORTED, pg_store_open(&s, path, NULL, &err), &err);
    assert_null(s);
    if (!strstr(err.msg, say))
        fail_msg("\"%s\" expected: %s", say, err.msg);
    assert_non_null(strstr(err.msg, "; not read because loading it would run code"));
    assert_string_equal(err.hint, "convert it to safetensors in Python");
}

static void names_the_files_that_torch_wrote(void **state)
{
    (void)state;
    static const char *const cases[] = {"cnn", "trap"};
    static const char *const files[] = {"single.pt", "dataparallel.pt", "compiled.pt",
                                        "dataparallel_compiled.pt", "checkpoint.pth.tar"};
    char path[512];
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 5; k++) {
            snprintf(path, sizeof path, "%s/files/pytorch/%s/%s", pg_testdata, cases[i], files[k]);
            assert_not_read(path, ": a PyTorch pickle; not");
        }
        snprintf(path, sizeof path, "%s/files/pytorch/%s/dataparallel_oldzip.pt", pg_testdata,
                 cases[i]);
        assert_not_read(path, ": a PyTorch pickle (torch before 1.6); not");
    }
}

static pg_status open_bytes(const void *p, size_t n, pg_err *err)
{
    pg__io *io = NULL;
    pg_store *s = NULL;
    assert_ok(pg__io_open_mem(&io, p, n, NULL));
    const pg_status st = pg__format_open(&s, NULL, io, "m.pt", NULL, err);
    assert_null(s);
    pg__io_close(io);
    return st;
}

static void names_the_tar_files_of_old(void **state)
{
    (void)state;
    char tar[1024] = "sys_info";
    pg_err err = {0};
    memcpy(tar + 257, "ustar", 5);
    assert_fails(PG_E_UNSUPPORTED, open_bytes(tar, sizeof tar, &err), &err);
    assert_non_null(strstr(err.msg, "m.pt: a PyTorch pickle (tar archive"));
    memset(tar + 257, 'x', 5);
    assert_fails(PG_E_UNKNOWN, open_bytes(tar, sizeof tar, &err), &err);
    assert_fails(PG_E_UNKNOWN, open_bytes(tar, 16, &err), &err);
}

/* Writes an archive of empty members, names separated by a space. */
static pg_status open_archive(const char *names, pg_err *err)
{
    char list[256], path[] = "/tmp/pg-test-pt-XXXXXX";
    uint64_t off;
    pg__sink *sink = NULL;
    pg__zip_out *z = NULL;
    pg__io *io = NULL;
    pg_store *s = NULL;
    assert_non_null(mkdtemp(path));
    snprintf(list, sizeof list, "%s/a.pt", path);
    assert_ok(pg__sink_open(&sink, list, NULL, NULL));
    assert_ok(pg__zip_out_new(&z, sink, NULL));
    snprintf(list, sizeof list, "%s", names);
    for (char *p = strtok(list, " "); p; p = strtok(NULL, " ")) {
        assert_ok(pg__zip_out_begin(z, p, 0, 0, &off, NULL));
        assert_ok(pg__zip_out_end(z, 0, NULL));
    }
    assert_ok(pg__zip_out_finish(z, NULL));
    pg__zip_out_free(z);
    assert_ok(pg__sink_reopen(sink, &io, NULL));
    const pg_status st = pg__format_open(&s, NULL, io, "m.pt", NULL, err);
    pg__io_close(io);
    pg__sink_close(sink);
    assert_int_equal(rmdir(path), 0);
    assert_null(s);
    return st;
}

static void tells_archives_apart_by_their_members(void **state)
{
    (void)state;
    pg_err err = {0};
    assert_fails(PG_E_UNSUPPORTED, open_archive("m/data.pkl m/data/0", &err), &err);
    assert_non_null(strstr(err.msg, "m.pt: a PyTorch pickle;"));
    assert_fails(PG_E_UNSUPPORTED, open_archive("m/data.pkl m/code/__torch__.py", &err), &err);
    assert_non_null(strstr(err.msg, "m.pt: a TorchScript program;"));
    assert_fails(PG_E_UNKNOWN, open_archive("readme.txt mydata.pkl", &err), &err);
    assert_string_equal(
        err.msg, "m.pt: a ZIP archive of something else (readme.txt ...), not a .keras file");
}

PG_TEST_MAIN(cmocka_unit_test(names_the_files_that_torch_wrote),
             cmocka_unit_test(names_the_tar_files_of_old),
             cmocka_unit_test(tells_archives_apart_by_their_members))
