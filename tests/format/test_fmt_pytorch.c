#include "pg_test.h"

#include <unistd.h>

#include "base/hash.h"
#include "format/format.h"
#include "io/zip.h"

/* Both files hold the same tensors: names up to a prefix, shapes, types, bytes. */
static void assert_same(const char *a_path, const char *b_path, const char *prefix)
{
    char path[512];
    pg_store *a = NULL, *b = NULL;
    snprintf(path, sizeof path, "%s/%s", pg_testdata, a_path);
    assert_ok(pg_store_open(&a, path, NULL, NULL));
    snprintf(path, sizeof path, "%s/%s", pg_testdata, b_path);
    assert_ok(pg_store_open(&b, path, NULL, NULL));
    assert_int_equal(pg_store_n_weights(a), pg_store_n_weights(b));
    for (size_t i = 0; i < pg_store_n_weights(a); i++) {
        const pg_weight *x = pg_store_weight(a, i);
        char got[4096], want[4096];
        size_t k = 0;
        assert_int_equal(strncmp(x->name, prefix, strlen(prefix)), 0);
        while (strcmp(pg_store_weight(b, k)->name, x->name + strlen(prefix)) != 0)
            k++;
        const pg_weight *y = pg_store_weight(b, k);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->rank, y->rank);
        assert_memory_equal(x->dims, y->dims, sizeof x->dims);
        assert_in_range(x->n_bytes, 0, sizeof got);
        assert_ok(pg_store_read(a, i, 0, got, (size_t)x->n_bytes, NULL));
        assert_ok(pg_store_read(b, k, 0, want, (size_t)x->n_bytes, NULL));
        assert_memory_equal(got, want, (size_t)x->n_bytes);
    }
    pg_store_close(a);
    pg_store_close(b);
}

static void reads_what_torch_wrote(void **state)
{
    (void)state;
    static const char *const cases[] = {"cnn", "trap"};
    static const char *const files[][2] = {{"single.pt", ""},
                                           {"dataparallel.pt", "module."},
                                           {"compiled.pt", "_orig_mod."},
                                           {"dataparallel_compiled.pt", "module._orig_mod."},
                                           {"checkpoint.pth.tar", "module."},
                                           {"dataparallel_oldzip.pt", "module."}};
    char a[64], b[64];
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 6; k++) {
            snprintf(a, sizeof a, "files/pytorch/%s/%s", cases[i], files[k][0]);
            snprintf(b, sizeof b, "files/pytorch/%s/single.safetensors", cases[i]);
            assert_same(a, b, files[k][1]);
        }
}

static void reads_types_views_and_parameters(void **state)
{
    (void)state;
    static const char *const names[] = {"types",      "views",      "views_stream", "protocol5",
                                        "parameters", "two_models", "checkpoint",   "list"};
    char a[64], b[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(a, sizeof a, "extra/pytorch/%s.pt", names[i]);
        snprintf(b, sizeof b, "extra/pytorch/%s.safetensors", names[i]);
        assert_same(a, b, "");
    }
}

static void names_what_it_does_not_read(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"float8", "w: type torch.float8_e4m3fn is not supported"},
        {"sparse", "contains the class torch._utils._rebuild_sparse_tensor,"},
        {"quantised", "contains the class torch._utils._rebuild_qtensor,"},
        {"module", "contains the class torch.nn.modules.linear.Linear,"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        pg_err err = {0};
        pg_store *s = NULL;
        snprintf(path, sizeof path, "%s/extra/pytorch/refused_%s.pt", pg_testdata, cases[i][0]);
        assert_fails(PG_E_UNSUPPORTED, pg_store_open(&s, path, NULL, &err), &err);
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("%s", err.msg);
    }
}

static void tells_what_else_a_checkpoint_holds(void **state)
{
    (void)state;
    char path[512];
    pg_store *s = NULL;
    snprintf(path, sizeof path, "%s/files/pytorch/cnn/checkpoint.pth.tar", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_string_equal(pg_store_others(s), "epoch 3, optimizer (30 tensors), best_acc 0.5");
    pg_store_close(s);
    snprintf(path, sizeof path, "%s/files/pytorch/cnn/single.pt", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_null(pg_store_others(s));
    pg_store_close(s);
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

/* Members of an archive: name, text and length. */
typedef struct member {
    const char *name, *text;
    size_t n;
} member;

/* Opens an archive of the members up to the one without a name. */
static pg_status open_archive(pg_store **s, const member *m, pg_err *err)
{
    char path[] = "/tmp/pg-test-pt-XXXXXX", file[64];
    uint64_t off;
    pg__sink *sink = NULL;
    pg__zip_out *z = NULL;
    pg__io *io = NULL;
    *err = (pg_err){0};
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/a.pt", path);
    assert_ok(pg__sink_open(&sink, file, NULL, NULL));
    assert_ok(pg__zip_out_new(&z, sink, NULL));
    for (; m->name; m++) {
        assert_ok(pg__zip_out_begin(z, m->name, m->n, 0, &off, NULL));
        assert_ok(pg__sink_write(sink, off, m->text, m->n, NULL));
        assert_ok(pg__zip_out_end(z, pg__crc32(0, m->text, m->n), NULL));
    }
    assert_ok(pg__zip_out_finish(z, NULL));
    pg__zip_out_free(z);
    assert_ok(pg__sink_reopen(sink, &io, NULL));
    const pg_status st = pg__format_open(s, NULL, io, "m.pt", NULL, err);
    pg__io_close(io);
    pg__sink_close(sink);
    assert_int_equal(rmdir(path), 0);
    return st;
}

#define MEMBER(name, text)           \
    {                                \
        name, text, sizeof(text) - 1 \
    }

/* Opcodes for short texts, globals and the call that rebuilds a tensor. */
#define STR(n, text)  "X" n "\0\0\0" text
#define REBUILD       "ctorch._utils\n_rebuild_tensor_v2\n"
#define STORAGE(type) "(" STR("\7", "storage") "ctorch\n" type "\n" STR("\1", "0") STR("\3", "cpu")
#define TENSOR(storage, view)            \
    REBUILD "(" storage "tQ" view "\x89" \
            "}tR"
#define DICT(entries) \
    "\x80\2"          \
    "}(" entries "u."
#define FLOATS STORAGE("FloatStorage") "K\6"
#define DATA   "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40"

static void tells_archives_apart_by_their_members(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    static const member script[] = {
        MEMBER("m/data.pkl", ""), MEMBER("m/code/__torch__.py", ""), {0}};
    static const member other[] = {MEMBER("readme.txt", ""), MEMBER("mydata.pkl", ""), {0}};
    static const member two[] = {MEMBER("a/data.pkl", ""), MEMBER("b/data.pkl", ""), {0}};
    assert_fails(PG_E_UNSUPPORTED, open_archive(&s, script, &err), &err);
    assert_non_null(strstr(err.msg, "m.pt: a TorchScript program;"));
    assert_fails(PG_E_UNKNOWN, open_archive(&s, other, &err), &err);
    assert_string_equal(
        err.msg, "m.pt: a ZIP archive of something else (readme.txt ...), not a .keras file");
    assert_fails(PG_E_FORMAT, open_archive(&s, two, &err), &err);
    assert_null(s);
}

static void reads_views_through_their_strides(void **state)
{
    (void)state;
    static const char pickle[] =
        DICT(STR("\1", "t") TENSOR(FLOATS, "K\0K\3K\2\x86K\1K\3\x86") /* transposed */
             STR("\1", "r") TENSOR(FLOATS, "K\3K\3\x85K\1\x85")       /* second row */
             STR("\1", "s") TENSOR(FLOATS, "K\5))"));                 /* last element */
    static const member m[] = {MEMBER("m/data.pkl", pickle), MEMBER("m/data/0", DATA), {0}};
    static const float t[] = {0, 3, 1, 4, 2, 5}, r[] = {3, 4, 5};
    float got[6];
    pg_err err = {0};
    pg_store *s = NULL;
    if (open_archive(&s, m, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(pg_store_n_weights(s), 3);
    assert_ok(pg_store_read(s, 0, 0, got, sizeof t, NULL));
    assert_memory_equal(got, t, sizeof t);
    assert_ok(pg_store_read(s, 1, 0, got, sizeof r, NULL));
    assert_memory_equal(got, r, sizeof r);
    assert_ok(pg_store_read(s, 2, 0, got, 4, NULL));
    assert_true(got[0] == 5.0f);
    pg_store_close(s);
}

/* One tensor "w" whose description is wrong. */
static void assert_tensor_refused(pg_status code, const char *pickle, size_t n, const char *say)
{
    const member m[] = {{"m/data.pkl", pickle, n}, MEMBER("m/data/0", DATA), {0}};
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(code, open_archive(&s, m, &err), &err);
    assert_null(s);
    if (!strstr(err.msg, say))
        fail_msg("\"%s\" expected: %s", say, err.msg);
}
#define REFUSED(code, tensor, say)                                     \
    do {                                                               \
        static const char pickle_[] = DICT(STR("\1", "w") tensor);     \
        assert_tensor_refused(code, pickle_, sizeof pickle_ - 1, say); \
    } while (0)

static void refuses_tensors_that_do_not_add_up(void **state)
{
    (void)state;
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\1K\3K\2\x86K\2K\1\x86"), "w: its shape and strides");
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\0K\3K\2\x86K\2\x85"), "w: 2 sizes, but 1 strides");
    REFUSED(PG_E_FORMAT,
            TENSOR(FLOATS, "J\xff\xff\xff\xff"
                           "K\6\x85K\1\x85"),
            "w: its descr");
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\0K\6K\1"), "w: its shape or strides are no tuple");
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\0N\x85N\x85"), "w: its shape or strides are no sizes");
    REFUSED(PG_E_FORMAT, TENSOR("(", "K\0))"), "w: its storage is none");
    REFUSED(PG_E_FORMAT, TENSOR(STORAGE("FloatStorage") "K\7", "K\0K\6\x85K\1\x85"),
            "w: its data has 24 bytes, the pickle says 28");
    REFUSED(PG_E_FORMAT, TENSOR(STORAGE("DoubleStorage") "K\6", "K\0K\6\x85K\1\x85"),
            "w: its data has 24 bytes, the pickle says 48");
    REFUSED(PG_E_UNSUPPORTED, TENSOR(STORAGE("ComplexFloatStorage") "K\3", "K\0K\3\x85K\1\x85"),
            "w: type torch.ComplexFloatStorage is not supported");
    REFUSED(PG_E_LIMIT, TENSOR(FLOATS, "K\0J\0\0\0\x40J\0\0\0\x40\x86K\0K\0\x86"), "w: ");
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\0))") STR("\1", "w") TENSOR(FLOATS, "K\0))"),
            "w: this key is there twice");
    REFUSED(PG_E_UNSUPPORTED,
            REBUILD "(" FLOATS "tQK\0))\x89"
                    "}}" STR("\3", "neg") "\x88stR",
            "w: a view that is negated");
    REFUSED(PG_E_UNSUPPORTED, TENSOR(FLOATS, "K\0))") "K\1" TENSOR(FLOATS, "K\0))"), "no text");
    REFUSED(PG_E_UNSUPPORTED, "ctorch._utils\n_rebuild_qtensor\n(tR",
            "m.pt: contains the class torch._utils._rebuild_qtensor, which only Python can build");
}

static void refuses_the_other_byte_order(void **state)
{
    (void)state;
    static const char pickle[] = DICT(STR("\1", "w") TENSOR(FLOATS, "K\0))"));
    static const member big[] = {
        MEMBER("m/data.pkl", pickle), MEMBER("m/data/0", DATA), MEMBER("m/byteorder", "big"), {0}};
    static const member little[] = {MEMBER("m/data.pkl", pickle),
                                    MEMBER("m/data/0", DATA),
                                    MEMBER("m/byteorder", "little"),
                                    {0}};
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_UNSUPPORTED, open_archive(&s, big, &err), &err);
    assert_non_null(strstr(err.msg, "big-endian"));
    assert_ok(open_archive(&s, little, &err));
    pg_store_close(s);
}

/* Opens a pickle and returns the names of the model's tensors. */
static void names_of(char *out, size_t cap, const char *pickle, size_t n)
{
    const member m[] = {{"m/data.pkl", pickle, n}, MEMBER("m/data/0", DATA), {0}};
    pg_err err = {0};
    pg_store *s = NULL;
    if (open_archive(&s, m, &err) != PG_OK)
        fail_msg("%s", err.msg);
    out[0] = 0;
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        snprintf(out + strlen(out), cap - strlen(out), "%s%s", i ? " " : "",
                 pg_store_weight(s, i)->name);
    pg_store_close(s);
}

static void finds_the_model_in_a_checkpoint(void **state)
{
    (void)state;
#define T TENSOR(FLOATS, "K\0))")
    static const struct {
        const char *pickle;
        size_t n;
        const char *names;
    } cases[] = {
#define CASE(text, names) {text, sizeof(text) - 1, names}
        CASE(DICT(STR("\1", "a") T STR("\1", "b") "N" STR("\1", "c") T), "a c"),
        CASE(DICT(STR("\1", "x") "}" STR("\1", "a") T "s" STR("\5", "model") "}" STR("\1", "b") T
                  "s"),
             "b"),
        CASE(DICT(STR("\1", "x") "}" STR("\1", "a") T "s" STR("\1", "n") "K\3"), "a"),
        CASE(DICT(STR("\1", "G") "}" STR("\1", "a") T "s" STR("\1", "D") "}" STR("\1", "a") T "s"),
             "G.a D.a"),
        CASE(DICT(STR("\1", "l") "]}" STR("\1", "a") T "sa"), "l.0.a"),
        CASE(DICT("K\7"
                  "}K\5]" T "as"),
             "7.5.0"),
        CASE("\x80\2" T ".", "tensor"),
        CASE("\x80\2]" T "a" T "a.", "0 1"),
        CASE("\x80\2}.", ""),
    };
    char got[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        names_of(got, sizeof got, cases[i].pickle, cases[i].n);
        assert_string_equal(got, cases[i].names);
    }
}

PG_TEST_MAIN(cmocka_unit_test(reads_what_torch_wrote),
             cmocka_unit_test(reads_types_views_and_parameters),
             cmocka_unit_test(names_what_it_does_not_read),
             cmocka_unit_test(tells_what_else_a_checkpoint_holds),
             cmocka_unit_test(names_the_tar_files_of_old),
             cmocka_unit_test(tells_archives_apart_by_their_members),
             cmocka_unit_test(reads_views_through_their_strides),
             cmocka_unit_test(refuses_tensors_that_do_not_add_up),
             cmocka_unit_test(refuses_the_other_byte_order),
             cmocka_unit_test(finds_the_model_in_a_checkpoint))
