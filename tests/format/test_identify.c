#include "pg_test.h"

#include "base/le.h"
#include "base/str.h"
#include "format/format.h"
#include "format/identify.h"

/* The answer about n bytes under a name. */
static pg_err about(const char *bytes, size_t n, const char *path)
{
    pg__io *io = NULL;
    pg_err err = {0};
    assert_ok(pg__io_open_mem(&io, bytes, n, NULL));
    const pg_status st = pg__identify(io, path, &err);
    assert_int_not_equal(st, PG_OK);
    assert_int_equal(st, err.code);
    assert_int_equal(pg__identify(io, path, NULL), st);
    pg__io_close(io);
    return err;
}

static void assert_about(const char *bytes, size_t n, const char *path, const char *msg,
                         const char *hint)
{
    const pg_err err = about(bytes, n, path);
    assert_string_equal(err.msg, msg);
    assert_string_equal(advice_of(&err), hint);
    assert_int_equal(err.code, PG_E_UNKNOWN);
}

static void assert_text(const char *text, const char *msg, const char *hint)
{
    assert_about(text, strlen(text), "f.h5", msg, hint);
}

static void names_failed_downloads(void **state)
{
    (void)state;
    static const char zeros[5000];
    assert_about("", 0, "f.h5", "an empty file (0 bytes)", "download or copy it again");
    assert_text("<!DOCTYPE html>\n<html>", "this is an HTML page (a failed download?)", "");
    assert_text(" \n<HTML lang=en>", "this is an HTML page (a failed download?)", "");
    assert_text("\xef\xbb\xbf<html>", "this is an HTML page (a failed download?)", "");
    assert_text("<?xml version=\"1.0\"?><Error>", "this is an XML document (a failed download?)",
                "");
    assert_about(zeros, sizeof zeros, "f.h5",
                 "begins with 4,096 zero bytes (an unfinished download?)", "");
    assert_text("Access denied\n", "a text file, not a checkpoint", "");
}

static void tells_the_size_behind_a_git_lfs_pointer(void **state)
{
    (void)state;
    assert_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 246000000\n",
                "this is a Git LFS pointer, not the file (the real one has 246,000,000 bytes)",
                "git lfs pull");
    assert_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
                "this is a Git LFS pointer, not the file", "git lfs pull");
    assert_text("version https://git-lfs.github.com/spec/v1\nsize 99999999999999999999\n",
                "this is a Git LFS pointer, not the file", "git lfs pull");
}

static void says_how_to_unpack(void **state)
{
    (void)state;
    char tar[512] = "x.h5";
    assert_about("\x1f\x8b\x08\0", 4, "f.h5", "gzip-compressed", "gunzip -c f.h5 > unpacked.h5");
    assert_about("BZh9", 4, "f.h5", "bzip2-compressed", "bunzip2 -c f.h5 > unpacked.h5");
    assert_about("\xfd"
                 "7zXZ\0\0",
                 7, "f.h5", "xz-compressed", "xz -dc f.h5 > unpacked.h5");
    assert_about("\x28\xb5\x2f\xfd\0", 5, NULL, "zstd-compressed", "zstd -dc FILE > unpacked.h5");
    memcpy(tar + 257, "ustar", 5);
    assert_about(tar, sizeof tar, "f.tar", "a tar archive", "tar -xf f.tar");
}

static void names_other_programs_models(void **state)
{
    (void)state;
    assert_about("\x08\x01\x12\xff\xff", 5, "frozen_graph.pb",
                 "a TensorFlow graph (protobuf), not a Keras file", "");
    assert_about("\x1c\0\0\0TFL3", 8, "m.tflite",
                 "a TensorFlow Lite model, which Keras does not load", "");
    assert_about("\x08\x07\x12\x07pytorch\x1a", 12, "m.bin",
                 "an ONNX model, which Keras does not load", "");
}

static void tells_what_json_is_for(void **state)
{
    (void)state;
    assert_about("{\"class_name\": \"Model\", \"config\": {}}", 37, "m.json",
                 "a model description without weights (JSON)",
                 "unwrap like=m.json");
    assert_text("{\"a\": 1}", "a JSON file without weights", "");
    assert_text("{not json", "a text file, not a checkpoint", "");
    static const char index[] = "{\"metadata\":{},\"weight_map\":{\"a\":\"m-1-of-2.safetensors\"}}";
    const pg_err err = about(index, sizeof index - 1, "i.json");
    assert_int_equal(err.code, PG_E_UNSUPPORTED);
    assert_string_equal(err.hint, "give one of the files, such as m-1-of-2.safetensors");
}

static void never_calls_a_pickle_anything_else(void **state)
{
    (void)state;
    static const char *const pickles[] = {
        "\x80\x04\x95",          "\x80\x02}q",   "cposix\nsystem\n(S'id'\ntR.",
        "c__builtin__\neval\n(", "(dp0\nS'a'\n", "(lp0\n."};
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        const pg_err err = about(pickles[i], strlen(pickles[i]), "m.pkl");
        assert_int_equal(err.code, PG_E_UNSUPPORTED);
        assert_string_equal(err.msg, "a Python pickle; not read because loading it would run code");
        assert_string_equal(err.hint, "convert it to safetensors in Python");
    }
    assert_text("class\nname\nvalue\n", "a text file, not a checkpoint", "");
}

static void falls_back_to_the_name(void **state)
{
    (void)state;
    assert_about("\xfe\x01", 2, "a.safetensors",
                 "not a safetensors file (its header is not a JSON object)", "");
    assert_about("\xfe\x01", 2, "a.h5", "not an HDF5 file (its first bytes are not HDF5's)", "");
    assert_about("\xfe\x01", 2, "a.keras", "not a .keras file (neither a ZIP archive nor HDF5)",
                 "");
    assert_about("\xfe\x01", 2, "a", "not a checkpoint of a known format", "");
}

static void shows_one_line_whatever_the_name(void **state)
{
    (void)state;
    const pg_err err = about("\x1f\x8b", 2, "a\nb\x1b[2J");
    assert_null(strchr(err.hint, '\n'));
    assert_null(strchr(err.hint, '\x1b'));
}

static void answers_about_every_start(void **state)
{
    (void)state;
    char bytes[64];
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b += 3)
            for (size_t n = 1; n < 64; n += 20) {
                memset(bytes, (int)b, sizeof bytes);
                bytes[0] = (char)a;
                (void)about(bytes, n, "x");
            }
}

/* Through pg_store_open, as users meet it. */
static void names_the_test_files(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        pg_status code;
        const char *say;
    } cases[] = {
        {"negative/empty.h5", PG_E_UNKNOWN, "an empty file"},
        {"negative/page.h5", PG_E_UNKNOWN, "this is an HTML page"},
        {"negative/gzipped.h5", PG_E_UNKNOWN, "gzip-compressed"},
        {"files/keras-2.2.4/cnn4-g2/template.json", PG_E_UNKNOWN, "a model description without"},
        {"README.md", PG_E_UNKNOWN, "a text file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        pg_err err = {0};
        pg_store *s = NULL;
        snprintf(path, sizeof path, "%s/%s", pg_testdata, cases[i].file);
        assert_fails(cases[i].code, pg_store_open(&s, path, NULL, &err), &err);
        if (!strstr(err.msg, cases[i].say))
            fail_msg("%s", err.msg);
    }
}

PG_TEST_MAIN(cmocka_unit_test(names_failed_downloads),
             cmocka_unit_test(tells_the_size_behind_a_git_lfs_pointer),
             cmocka_unit_test(says_how_to_unpack), cmocka_unit_test(names_other_programs_models),
             cmocka_unit_test(tells_what_json_is_for),
             cmocka_unit_test(never_calls_a_pickle_anything_else),
             cmocka_unit_test(falls_back_to_the_name),
             cmocka_unit_test(shows_one_line_whatever_the_name),
             cmocka_unit_test(answers_about_every_start), cmocka_unit_test(names_the_test_files))
