#include "pg_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "format/format.h"

/* A file in memory: the length of the header, the header, n_data bytes 0, 1, 2 ... */
typedef struct file {
    unsigned char bytes[4096];
    size_t n;
    pg__io *io;
} file;

static void make_n(file *f, const char *header, size_t n, size_t n_data)
{
    assert_true(8 + n + n_data <= sizeof f->bytes);
    pg__put_le(f->bytes, n, 8);
    memcpy(f->bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        f->bytes[8 + n + i] = (unsigned char)i;
    f->n = 8 + n + n_data;
    assert_ok(pg__io_open_mem(&f->io, f->bytes, f->n, NULL));
}

static void make(file *f, const char *header, size_t n_data)
{
    make_n(f, header, strlen(header), n_data);
}

static pg_status open_file(pg_store **s, const file *f, pg_err *err)
{
    return pg__fmt_safetensors.open(s, f->io, "x.safetensors", NULL, err);
}

static pg_store *opened(file *f, const char *header, size_t n_data)
{
    pg_store *s = NULL;
    pg_err err = {0};
    make(f, header, n_data);
    if (open_file(&s, f, &err) != PG_OK)
        fail_msg("%s", err.msg);
    pg__io_close(f->io); /* the store keeps it */
    return s;
}

static void assert_refused(const char *header, size_t n_data, pg_status code, const char *say)
{
    file f;
    pg_err err = {0};
    pg_store *s = NULL;
    make(&f, header, n_data);
    assert_fails(code, open_file(&s, &f, &err), &err);
    if (!strstr(err.msg, say))
        fail_msg("%s: \"%s\" expected: %s", header, say, err.msg);
    assert_null(s);
    pg__io_close(f.io);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,48]}"

static void reads_names_types_and_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        pg_dtype dtype;
        unsigned size;
    } types[] = {{"F64", PG_F64, 8},  {"I64", PG_I64, 8}, {"U64", PG_U64, 8}, {"F32", PG_F32, 4},
                 {"I32", PG_I32, 4},  {"U32", PG_U32, 4}, {"F16", PG_F16, 2}, {"BF16", PG_BF16, 2},
                 {"I16", PG_I16, 2},  {"U16", PG_U16, 2}, {"I8", PG_I8, 1},   {"U8", PG_U8, 1},
                 {"BOOL", PG_BOOL, 1}, {"F8_E4M3", PG_F8_E4M3, 1}, {"F8_E5M2", PG_F8_E5M2, 1}};
    const size_t n = sizeof types / sizeof *types;
    char header[2048] = "{";
    unsigned off = 0;
    file f;
    for (size_t i = 0; i < n; off += types[i++].size * 3)
        snprintf(header + strlen(header), sizeof header - strlen(header),
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[%u,%u]}", i ? "," : "",
                 types[i].word, types[i].word, off, off + types[i].size * 3);
    strcat(header, "}   ");
    pg_store *s = opened(&f, header, off);
    assert_string_equal(pg_store_format(s), "safetensors");
    assert_int_equal(pg_store_n_layers(s), 0);
    assert_int_equal(pg_store_n_weights(s), n);
    for (size_t i = 0; i < n; i++) {
        const pg_weight *w = pg_store_weight(s, i);
        assert_string_equal(w->name, types[i].word);
        assert_int_equal(w->dtype, types[i].dtype);
        assert_int_equal(w->rank, 1);
        assert_int_equal(w->n_bytes, types[i].size * 3);
        assert_true(w->layer == PG_NONE);
    }
    unsigned char byte = 0;
    assert_ok(pg_store_read(s, 1, 5, &byte, 1, NULL));
    assert_int_equal(byte, 24 + 5);
    assert_null(pg_store_text(s, PG_TEXT_METADATA, NULL));
    pg_store_close(s);
}

static void orders_tensors_as_they_lie(void **state)
{
    (void)state;
    file f;
    pg_store *s = opened(&f,
                         "{\"c\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
                         "\"scalar\":{\"shape\":[],\"data_offsets\":[0,1],\"dtype\":\"U8\"},"
                         "\"empty2\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[1,1]},"
                         "\"empty1\":{\"dtype\":\"F32\",\"shape\":[7,0],\"data_offsets\":[1,1]}}",
                         3);
    static const char *const want[] = {"scalar", "empty2", "empty1", "c"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(pg_store_weight(s, i)->name, want[i]);
    assert_int_equal(pg_store_weight(s, 0)->rank, 0);
    pg_store_close(s);
}

static void reads_a_file_without_tensors(void **state)
{
    (void)state;
    file f;
    pg_store *s = opened(&f, "{}", 0);
    assert_int_equal(pg_store_n_weights(s), 0);
    pg_store_close(s);
}

static void undoes_escapes_in_names(void **state)
{
    (void)state;
    file f;
    pg_store *s = opened(&f,
                         "{\"caf\\u00e9/\\ud83d\\ude00\\n\\\"\\\\\":{\"dtype\":\"U8\","
                         "\"shape\":[1],\"data_offsets\":[0,1]},\"\":{\"\\u0064type\":\"U8\","
                         "\"shape\":[1],\"data_offsets\":[1,2]}}",
                         2);
    assert_string_equal(pg_store_weight(s, 0)->name, "caf\xc3\xa9/\xf0\x9f\x98\x80\n\"\\");
    assert_string_equal(pg_store_weight(s, 1)->name, "");
    pg_store_close(s);
}

static void refuses_headers_that_mean_two_things(void **state)
{
    (void)state;
    assert_refused("{" A "," A "}", 48, PG_E_FORMAT, "a: this key occurs twice");
    assert_refused("{" A ",\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[48,48]}}",
                   48, PG_E_FORMAT, "a: this key occurs twice");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, PG_E_FORMAT,
                   "__metadata__: this key");
    assert_refused("{\"__metadata__\":{\"x\":\"1\",\"\\u0078\":\"2\"}}", 0, PG_E_FORMAT,
                   "__metadata__: x: this key");
    assert_refused("{\"__metadata__\":{\"x\":1}}", 0, PG_E_FORMAT, "__metadata__: a value");
    assert_refused("{\"__metadata__\":[]}", 0, PG_E_FORMAT, "__metadata__: it is not an object");
    assert_refused("{" A "} x", 48, PG_E_FORMAT, "header: JSON");
    assert_refused("{/* x */" A "}", 48, PG_E_FORMAT, "header: JSON");
    assert_refused("{\"a\xff\":1}", 0, PG_E_FORMAT, "header: JSON");
    assert_refused("[1,2]", 0, PG_E_FORMAT, "header: it is not a JSON object");
    assert_refused("", 0, PG_E_FORMAT, "header: it is not a JSON object");
    assert_refused("{\"a\\u0000b\":{}}", 0, PG_E_FORMAT, "a...: a tensor name with a zero byte");
    assert_refused("{\"\\ud800\":{}}", 0, PG_E_FORMAT, "surrogate");
}

static void refuses_tensors_that_do_not_add_up(void **state)
{
    (void)state;
    static const struct {
        const char *entry;
        pg_status code;
        const char *say;
    } cases[] = {
        {"null", PG_E_FORMAT, "a: its description is not an object"},
        {"[1]", PG_E_FORMAT, "a: its description is not an object"},
        {"{\"dtype\":\"F32\",\"data_offsets\":[0,48]}", PG_E_FORMAT, "a: it has no shape"},
        {"{\"dtype\":\"F32\",\"shape\":[12]}", PG_E_FORMAT, "a: it has no data_offsets"},
        {"{\"shape\":[12],\"data_offsets\":[0,48]}", PG_E_FORMAT, "a: it has no dtype"},
        {"{\"dtype\":\"F32\",\"shape\":[12],\"data_offsets\":[0,48],\"x\":1}", PG_E_FORMAT,
         "a: unknown key"},
        {"{\"dtype\":\"F32\",\"shape\":[12],\"shape\":[12],\"data_offsets\":[0,48]}", PG_E_FORMAT,
         "a: repeated key"},
        {"{\"dtype\":\"F33\",\"shape\":[12],\"data_offsets\":[0,48]}", PG_E_FORMAT,
         "a: unknown dtype \"F33\""},
        {"{\"dtype\":7,\"shape\":[12],\"data_offsets\":[0,48]}", PG_E_FORMAT, "a: unknown dtype 7"},
        {"{\"dtype\":\"F8_E8M0\",\"shape\":[48],\"data_offsets\":[0,48]}", PG_E_UNSUPPORTED,
         "a: type F8_E8M0 is not supported"},
        {"{\"dtype\":\"F32\",\"shape\":12,\"data_offsets\":[0,48]}", PG_E_FORMAT, "not a list"},
        {"{\"dtype\":\"F32\",\"shape\":[\"3\",4],\"data_offsets\":[0,48]}", PG_E_FORMAT,
         "a: its shape holds something other than whole numbers"},
        {"{\"dtype\":\"F32\",\"shape\":[3.0,4],\"data_offsets\":[0,48]}", PG_E_FORMAT,
         "a: its shape holds something other than whole numbers"},
        {"{\"dtype\":\"F32\",\"shape\":[-3,-4],\"data_offsets\":[0,48]}", PG_E_FORMAT,
         "a: its shape holds something other than whole numbers"},
        {"{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,4.8e1]}", PG_E_FORMAT,
         "a: its data_offsets holds something other than whole numbers"},
        {"{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,18446744073709551616]}",
         PG_E_FORMAT, "a: its data_offsets holds something other than whole numbers"},
        {"{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0]}", PG_E_FORMAT, "two numbers"},
        {"{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[0,24,48]}", PG_E_LIMIT,
         "a: its data_offsets has more than 2"},
        {"{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,12],\"data_offsets\":[0,48]}", PG_E_LIMIT,
         "a: its shape has more than 8"},
        {"{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}", PG_E_LIMIT,
         "a: shape is too large"},
        {"{\"dtype\":\"F32\",\"shape\":[3,5],\"data_offsets\":[0,48]}", PG_E_FORMAT,
         "a: type and shape need 60 bytes, its offsets hold 48"},
        {"{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[48,0]}", PG_E_FORMAT,
         "a: its data ends before it begins"},
        {"{\"dtype\":\"F32\",\"shape\":[11],\"data_offsets\":[4,48]}", PG_E_FORMAT,
         "a: 4 bytes before its data belong to no tensor"},
        {"{\"dtype\":\"F32\",\"shape\":[11],\"data_offsets\":[0,44]}", PG_E_FORMAT,
         "the last 4 bytes belong to no tensor"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[256];
        snprintf(header, sizeof header, "{\"a\":%s}", cases[i].entry);
        assert_refused(header, 48, cases[i].code, cases[i].say);
    }
    assert_refused("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[47,48]}}", 48,
                   PG_E_FORMAT, "b: its data overlaps that of a");
}

static void says_how_much_of_a_truncated_file_is_there(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    file f;
    make(&f, "{" A "}", 48);
    const size_t whole = f.n;
    for (size_t n = 0; n < whole; n++) {
        pg__io *io = NULL;
        assert_ok(pg__io_open_mem(&io, f.bytes, n, NULL));
        assert_fails(PG_E_FORMAT, pg__fmt_safetensors.open(&s, io, NULL, NULL, &err), &err);
        assert_non_null(strstr(err.msg, "truncated"));
        pg__io_close(io);
    }
    assert_string_equal(err.msg, "truncated: holds 112 of 113 bytes (99 %)");
    assert_non_null(strstr(err.hint, "download"));
    pg__io_close(f.io);
}

static void limits_the_header(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {100000001, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        file f;
        pg_err err = {0};
        pg_store *s = NULL;
        make(&f, "{" A "}", 48);
        pg__put_le(f.bytes, lengths[i], 8);
        assert_int_equal(pg__fmt_safetensors.probe(f.bytes, PG_PROBE_BYTES), 1);
        assert_fails(PG_E_LIMIT, open_file(&s, &f, &err), &err);
        pg__io_close(f.io);
    }
}

static void leaves_other_files_alone(void **state)
{
    (void)state;
    static const char *const heads[] = {"\x89HDF\r\n\x1a\n\0\0\0\0\0\0\0\0",
                                        "PK\3\4\x14\0\0\0\0\0\0\0\0\0\0", "{\"abcd\":{\"x\":1}}",
                                        "0123456789abcdef"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pg__fmt_safetensors.probe((const uint8_t *)heads[i], 16), 0);
    assert_int_equal(pg__fmt_safetensors.probe((const uint8_t *)"\x40\0\0\0\0\0\0\0", 8), 0);
    assert_int_equal(pg__fmt_safetensors.probe((const uint8_t *)"\x40\0\0\0\0\0\0\0{", 9), 1);
}

/* Every changed byte: refused or read, never worse. */
static void survives_damage_everywhere(void **state)
{
    (void)state;
    file f;
    make(&f, "{\"__metadata__\":{\"format\":\"pt\"}," A "}", 48);
    for (size_t i = 0; i < f.n; i++)
        for (unsigned c = 0; c < 256; c += 5) {
            const unsigned char old = f.bytes[i];
            pg_store *s = NULL;
            char buf[48];
            f.bytes[i] = (unsigned char)c;
            if (open_file(&s, &f, NULL) == PG_OK && pg_store_n_weights(s) &&
                pg_store_weight(s, 0)->n_bytes <= sizeof buf)
                assert_ok(
                    pg_store_read(s, 0, 0, buf, (size_t)pg_store_weight(s, 0)->n_bytes, NULL));
            pg_store_close(s);
            f.bytes[i] = old;
        }
    pg__io_close(f.io);
}

/* --- writing --------------------------------------------------------------------------------- */

static char dir[64];

static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/pg-test-st-XXXXXX");
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    unlink("out.safetensors");
    return chdir("/") || rmdir(dir) ? -1 : 0;
}

/* Saves the plan and opens the result. */
static pg_store *saved(const pg__plan *plan)
{
    pg_err err = {0};
    pg_store *s = NULL;
    pg__save_report rep = {0};
    if (pg__format_save(&pg__fmt_safetensors, "out.safetensors", plan, NULL, &rep, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(rep.n_verified, plan->n_items);
    if (pg_store_open(&s, "out.safetensors", NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

static pg_store *test_file(const char *name)
{
    char path[512];
    pg_err err = {0};
    pg_store *s = NULL;
    snprintf(path, sizeof path, "%s/files/pytorch/%s", pg_testdata, name);
    if (pg_store_open(&s, path, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* Takes n bytes off the front of every name. */
static void plan_without_prefix(pg__plan *p, pg_store *s, size_t n)
{
    *p = (pg__plan){.src = s};
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        assert_ok(pg__plan_add(p, i, pg_store_weight(s, i)->name + n, NULL));
}

static void assert_same_file(const char *name)
{
    char path[512], a[8192], b[8192];
    snprintf(path, sizeof path, "%s/files/pytorch/%s", pg_testdata, name);
    const int x = open(path, O_RDONLY), y = open("out.safetensors", O_RDONLY);
    const ssize_t n = read(x, a, sizeof a), m = read(y, b, sizeof b);
    close(x);
    close(y);
    assert_true(n > 0);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, (size_t)n);
}

static void copies_a_file_byte_for_byte(void **state)
{
    (void)state;
    static const char *const names[] = {"cnn/single.safetensors", "trap/tied.safetensors",
                                        "cnn/dataparallel.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        pg__plan plan = {0};
        pg_store *s = test_file(names[i]);
        assert_string_equal(pg_store_writer(s), "PyTorch");
        assert_ok(pg__plan_copy_of(&plan, s, NULL));
        pg_store_close(saved(&plan));
        assert_same_file(names[i]);
        pg__plan_fini(&plan);
        pg_store_close(s);
        unlink("out.safetensors");
    }
}

static void writes_what_pytorch_wrote_without_the_wrapper(void **state)
{
    (void)state;
    static const struct {
        const char *wrapped, *single;
        size_t prefix;
    } cases[] = {
        {"cnn/dataparallel.safetensors", "cnn/single.safetensors", 7},
        {"cnn/compiled.safetensors", "cnn/single.safetensors", 10},
        {"trap/dataparallel.safetensors", "trap/single.safetensors", 7},
        {"trap/compiled.safetensors", "trap/single.safetensors", 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg__plan plan = {0};
        pg_store *s = test_file(cases[i].wrapped);
        plan_without_prefix(&plan, s, cases[i].prefix);
        pg_store_close(saved(&plan));
        assert_same_file(cases[i].single);
        pg__plan_fini(&plan);
        pg_store_close(s);
        unlink("out.safetensors");
    }
}

static void assert_metadata(const pg_store *s, const char *want)
{
    size_t n = 0;
    const char *got = pg_store_text(s, PG_TEXT_METADATA, &n);
    assert_non_null(got);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(got, want, n);
}

static void renames_tied_names_in_the_metadata(void **state)
{
    (void)state;
    file f;
    pg__plan plan = {0};
    pg_store *s = opened(
        &f,
        "{\"__metadata__\":{ \"format\" : \"pt\", \"module.out.weight\":\"module.emb.weight\","
        "\"other\":\"module.emb.weight\",\"note\":\"module.gone\"},"
        "\"module.emb.weight\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
        2);
    plan_without_prefix(&plan, s, 7);
    pg_store *out = saved(&plan);
    assert_metadata(out, "{\"format\":\"pt\",\"out.weight\":\"emb.weight\","
                         "\"other\":\"emb.weight\",\"note\":\"module.gone\"}");
    pg__plan_fini(&plan);
    pg_store_close(s);

    plan = (pg__plan){.src = out}; /* and back */
    assert_ok(pg__plan_add(&plan, 0, "module.emb.weight", NULL));
    unlink("out.safetensors");
    pg_store *back = saved(&plan);
    assert_metadata(back, "{\"format\":\"pt\",\"module.out.weight\":\"module.emb.weight\","
                          "\"module.other\":\"module.emb.weight\",\"note\":\"module.gone\"}");
    pg__plan_fini(&plan);
    pg_store_close(out);
    pg_store_close(back);
}

static void writes_in_the_order_of_the_plan(void **state)
{
    (void)state;
    file f;
    pg__plan plan = {0};
    pg_store *s = opened(&f,
                         "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                         "\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
                         "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}",
                         11);
    plan.src = s;
    assert_ok(pg__plan_add(&plan, 2, "caf\xc3\xa9\n", NULL));
    assert_ok(pg__plan_add(&plan, 1, "nothing", NULL));
    assert_ok(pg__plan_add(&plan, 0, "a", NULL));
    assert_ok(pg__plan_add(&plan, 0, "a again", NULL));
    pg_store *out = saved(&plan);
    unsigned char got[8];
    assert_int_equal(pg_store_n_weights(out), 4);
    assert_string_equal(pg_store_weight(out, 0)->name, "caf\xc3\xa9\n");
    assert_ok(pg_store_read(out, 0, 0, got, 3, NULL));
    assert_memory_equal(got, "\x08\x09\x0a", 3);
    assert_ok(pg_store_read(out, 3, 0, got, 8, NULL));
    assert_memory_equal(got, "\0\1\2\3\4\5\6\7", 8);
    assert_true(pg__store_extent(out, 0).off % 8 == 0);
    pg_store_close(out);
    pg__plan_fini(&plan);
    pg_store_close(s);
}

static void refuses_what_the_format_cannot_hold(void **state)
{
    (void)state;
    file f;
    pg_err err = {0};
    pg__plan plan = {0};
    pg_store *s = opened(&f, "{" A "}", 48);
    plan.src = s;
    assert_ok(pg__plan_add(&plan, 0, "__metadata__", NULL));
    assert_fails(PG_E_ARG,
                 pg__format_save(&pg__fmt_safetensors, "out.safetensors", &plan, NULL, NULL, &err),
                 &err);
    pg__plan_fini(&plan);
    plan = (pg__plan){.src = s};
    assert_ok(pg__plan_add(&plan, 0, "same", NULL));
    assert_ok(pg__plan_add(&plan, 0, "same", NULL));
    assert_int_not_equal(
        pg__format_save(&pg__fmt_safetensors, "out.safetensors", &plan, NULL, NULL, &err), PG_OK);
    assert_non_null(strstr(err.msg, "same: this key occurs twice"));
    pg__plan_fini(&plan);
    pg_store_close(s);
    assert_int_equal(access("out.safetensors", F_OK), -1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

PG_TEST_MAIN(cmocka_unit_test(reads_names_types_and_shapes),
             cmocka_unit_test(orders_tensors_as_they_lie),
             cmocka_unit_test(reads_a_file_without_tensors),
             cmocka_unit_test(undoes_escapes_in_names),
             cmocka_unit_test(refuses_headers_that_mean_two_things),
             cmocka_unit_test(refuses_tensors_that_do_not_add_up),
             cmocka_unit_test(says_how_much_of_a_truncated_file_is_there),
             cmocka_unit_test(limits_the_header), cmocka_unit_test(leaves_other_files_alone),
             cmocka_unit_test(survives_damage_everywhere), TEST(copies_a_file_byte_for_byte),
             TEST(writes_what_pytorch_wrote_without_the_wrapper),
             TEST(renames_tied_names_in_the_metadata), TEST(writes_in_the_order_of_the_plan),
             TEST(refuses_what_the_format_cannot_hold))
