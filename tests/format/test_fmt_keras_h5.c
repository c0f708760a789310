/* Every legacy file that genuine Keras wrote is opened, held against the manifest and copied; the
 * copy must be the same file to the HDF Group's own h5diff. Then files made here: what Keras never
 * writes, and what must stay when only a part is written. */
#include "pg_test.h"

#include <hdf5.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "format/fmt_keras_h5.h"
#include "format/h5/h5_writer.h"

extern char **environ;
static char dir[] = "/tmp/pg-test-keras-XXXXXX";
static char made[64], copied[64]; /* paths in dir */
static const pg__h5_dtype f32 = {.cls = PG_H5_NUMBER, .dtype = PG_F32};

static const pg__save_opts quick = {.sink = {.force = 1, .no_sync = 1}};

/* ---- genuine files ----------------------------------------------------------------------------
 */

static pg__json *load_manifest(void)
{
    char path[512];
    pg__io *io = NULL;
    pg__json *j = NULL;
    snprintf(path, sizeof path, "%s/manifest.json", pg_testdata);
    assert_ok(pg__io_open(&io, path, NULL));
    const size_t n = (size_t)pg__io_size(io);
    char *text = malloc(n);
    assert_ok(pg__io_read(io, 0, text, n, NULL));
    assert_ok(pg__json_parse(&j, text, n, NULL));
    free(text);
    pg__io_close(io);
    return j;
}

/* -1: there is no h5diff on this machine. */
static int differ(const char *a, const char *b)
{
    char *argv[] = {"h5diff", "-q", (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
    pid_t pid;
    int status = 0;
    if (posix_spawnp(&pid, "h5diff", NULL, NULL, argv, environ))
        return -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static pg_status copy_store(pg_store *s, pg__save_report *report, pg_err *err)
{
    pg__plan plan = {0};
    pg_status st = pg__plan_copy_of(&plan, s, err);
    if (st == PG_OK)
        st = pg__format_save(&pg__fmt_keras_h5, copied, &plan, &quick, report, err);
    pg__plan_fini(&plan);
    return st;
}

/* The copy as the file at `copied` has it, in place: the same again, under a new root. */
static void check_in_place(const char *path)
{
    pg_err err = {0};
    pg_store *s = NULL;
    pg__plan plan = {0};
    pg__flip *file = NULL;
    pg__save_report report = {0};
    assert_ok(pg__flip_open(&file, copied, &quick.sink, NULL));
    assert_ok(pg_store_open(&s, copied, NULL, NULL));
    assert_ok(pg__plan_copy_of(&plan, s, NULL));
    if (pg__format_save_in_place(&pg__fmt_keras_h5, file, &plan, &quick, 0, &report, &err) != PG_OK)
        fail_msg("%s: %s", path, err.msg);
    assert_int_equal(report.n_verified, pg_store_n_weights(s) + pg_store_n_state(s));
    pg__plan_fini(&plan);
    pg_store_close(s);
    pg__flip_close(file); /* h5diff keeps to the lock */
    if (differ(path, copied) > 0)
        fail_msg("%s: changed in place it is another file to h5diff", path);
}

static void check_genuine(const pg__json *entry, const char *path)
{
    pg_err err = {0};
    pg_store *s = NULL;
    pg__save_report report = {0};
    int64_t n = 0;
    const pg__json *names = pg__json_get(entry, "layer_names");
    if (pg_store_open(&s, path, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    if (names) {
        assert_int_equal(pg_store_n_layers(s), pg__json_len(names));
        for (size_t i = 0; i < pg__json_len(names); i++)
            assert_string_equal(pg_store_layer(s, i)->name, pg__json_str(pg__json_at(names, i)));
    }
    if (pg__json_int(pg__json_get(entry, "weight_count"), &n))
        assert_int_equal(pg_store_n_weights(s), n);
    if (pg__json_int(pg__json_get(entry, "optimizer_weight_count"), &n))
        assert_int_equal(pg_store_n_state(s), n);
    if (copy_store(s, &report, &err) != PG_OK)
        fail_msg("%s: %s", path, err.msg);
    assert_int_equal(report.n_verified, pg_store_n_weights(s) + pg_store_n_state(s));
    if (differ(path, copied) > 0)
        fail_msg("%s: the copy is another file to h5diff", path);
    pg_store_close(s);
    check_in_place(path);
}

static void copies_every_genuine_file_unchanged(void **state)
{
    (void)state;
    size_t n_copied = 0;
    pg__json *manifest = load_manifest();
    const pg__json *files = pg__json_get(manifest, "files");
    for (size_t i = 0; i < pg__json_len(files); i++) {
        const pg__json *e = pg__json_at(files, i);
        char path[512];
        const char *kind = pg__json_get_str(e, "kind"), *expected = pg__json_get_str(e, "expected");
        const char *file = pg__json_get_str(e, "file");
        const int legacy = strcmp(kind, "weights only (legacy HDF5)") == 0 ||
                           strcmp(kind, "full model (legacy HDF5)") == 0 ||
                           strcmp(kind, "negative") == 0;
        if (!legacy || strncmp(expected, "damaged", 7) == 0 || strncmp(expected, "not-", 4) == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", pg_testdata, file);
        check_genuine(e, path);
        n_copied++;
    }
    assert_true(n_copied > 150);
    pg__json_free(manifest);
}

static void says_what_is_left_of_a_failed_save(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"keras-2.0.9/bignames/wrapper_weights.aborted.h5", "object header message is too large"},
        {"keras-2.0.9/longnames/template_weights.aborted.h5", "an HDF5 file that holds nothing"},
        {"keras-2.0.9/cnn4-g2/wrapper_model.aborted.h5", "can't pickle"},
        {"keras-2.2.4/parallel_class-siamese/wrapper_model.aborted.h5", "can't pickle"},
    };
    const pg_open_opts salvage = {.salvage = 1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        pg_err err = {0};
        pg_store *s = NULL;
        snprintf(path, sizeof path, "%s/files/%s", pg_testdata, files[i][0]);
        assert_fails(PG_E_FORMAT, pg_store_open(&s, path, NULL, &err), &err);
        assert_non_null(strstr(err.msg, files[i][1]));
        assert_non_null(strstr(err.detail, "nothing to rescue"));
        assert_true(err.hint[0] != 0);
        assert_ok(pg_store_open(&s, path, &salvage, &err));
        assert_non_null(strstr(pg_store_damage(s), files[i][1]));
        assert_int_equal(pg_store_n_weights(s), 0);
        pg_store_close(s);
    }
}

static void tells_who_wrote_a_file(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"files/keras-2.2.4/cnn4-g2/wrapper_weights.h5", "keras 2.2.4, tensorflow"},
        {"files/keras-1.2.2-py3/make_parallel-cnn4/template_weights.h5", "keras 1.x"},
        {"files/keras-1.2.2-py3/make_parallel-cnn4/template_model.h5", "keras 1.2.2"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        pg_store *s = NULL;
        snprintf(path, sizeof path, "%s/%s", pg_testdata, files[i][0]);
        assert_ok(pg_store_open(&s, path, NULL, NULL));
        assert_string_equal(pg_store_writer(s), files[i][1]);
        assert_null(pg_store_damage(s));
        assert_string_equal(pg_store_format(s), i == 2 ? "keras-h5-model" : "keras-h5-weights");
        pg_store_close(s);
    }
}

/* ---- files made here --------------------------------------------------------------------------
 */

static pg__h5_out *fresh(void)
{
    pg__h5_out *h = NULL;
    assert_ok(pg__h5_out_new(&h, NULL));
    return h;
}

static void finish(pg__h5_out *h)
{
    pg__sink *sink = NULL;
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_ok(pg__sink_open(&sink, made, &quick.sink, NULL));
    assert_ok(pg__sink_reserve(sink, pg__h5_out_bytes(h), NULL));
    assert_ok(pg__h5_out_flush(h, sink, 0, NULL));
    if (pg__sink_size(sink) < pg__h5_out_bytes(h))
        assert_ok(pg__sink_write(sink, pg__h5_out_bytes(h) - 1, "", 1, NULL));
    assert_ok(pg__sink_commit(sink, NULL));
    pg__sink_close(sink);
    pg__h5_out_free(h);
}

/* A list of fixed strings; names ends with NULL. */
static void list(pg__h5_out *h, const char *path, const char *key, const char *const *names)
{
    const char *strs[8];
    pg__h5_attr a = {.name = key, .type = {.cls = PG_H5_STR_FIXED, .pad = 1}, .rank = 1};
    for (; names[a.n_elems]; a.n_elems++)
        strs[a.n_elems] = names[a.n_elems];
    a.dims[0] = a.n_elems;
    a.strs = strs;
    assert_ok(pg__h5_out_attr(h, path, &a, NULL));
}
#define LIST(h, path, key, ...) list(h, path, key, (const char *const[]){__VA_ARGS__, NULL})

static void dataset(pg__h5_out *h, const char *path)
{
    size_t id = 0;
    assert_ok(pg__h5_out_dataset(h, path, &f32, 1, (uint64_t[]){4}, &id, NULL));
}

static void text(pg__h5_out *h, const char *path, const char *name, const char *value, int utf8)
{
    const pg__h5_attr a = {.name = name,
                           .type = {.cls = PG_H5_STR_VLEN, .utf8 = utf8},
                           .n_elems = 1,
                           .strs = (const char *[]){value}};
    assert_ok(pg__h5_out_attr(h, path, &a, NULL));
}

/* Two layers, a (w b) and c (none), and whatever the test adds. */
static pg__h5_out *two_layers(void)
{
    pg__h5_out *h = fresh();
    LIST(h, "", "layer_names", "a", "c");
    assert_ok(pg__h5_out_group(h, "c", NULL));
    assert_ok(pg__h5_out_names(h, "c", "weight_names", NULL, 0, PG_H5_STR_FIXED, NULL));
    dataset(h, "a/w");
    dataset(h, "a/b");
    return h;
}

static void refused(const char *part)
{
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_FORMAT, pg_store_open(&s, made, NULL, &err), &err);
    if (!strstr(err.msg, part))
        fail_msg("\"%s\" lacks \"%s\"", err.msg, part);
}

static void refuses_lists_that_mislead(void **state)
{
    (void)state;
    pg__h5_out *h = two_layers();
    LIST(h, "a", "weight_names", "w", "../c/w");
    finish(h), refused("../c/w");
    h = two_layers();
    LIST(h, "a", "weight_names", "w", "/a/b");
    finish(h), refused("/a/b");
    h = two_layers();
    LIST(h, "a", "weight_names", "w", "w");
    finish(h), refused("\"w\" twice");
    h = two_layers();
    LIST(h, "a", "weight_names", "w", "gone");
    finish(h), refused("\"gone\", which is missing");
    h = two_layers();
    LIST(h, "a", "weight_names", "w");
    LIST(h, "a", "weight_names0", "b");
    finish(h), refused("both weight_names and numbered");
    h = two_layers();
    LIST(h, "a", "weight_names0", "w");
    LIST(h, "a", "weight_names2", "b");
    finish(h), refused("weight_names1 is missing");
    h = two_layers();
    finish(h), refused("a: weight_names is missing");
}

static void refuses_lists_of_another_type(void **state)
{
    (void)state;
    const double numbers[4] = {1, 2, 3, 4};
    const char *strs[] = {"w", "b"};
    const pg__h5_attr ints = {.name = "weight_names",
                              .type = {.cls = PG_H5_NUMBER, .dtype = PG_F64},
                              .rank = 1,
                              .dims = {2},
                              .n_elems = 2,
                              .raw = numbers};
    const pg__h5_attr table = {.name = "weight_names",
                               .type = {.cls = PG_H5_STR_FIXED, .pad = 1},
                               .rank = 2,
                               .dims = {1, 2},
                               .n_elems = 2,
                               .strs = strs};
    pg__h5_out *h = two_layers();
    assert_ok(pg__h5_out_attr(h, "a", &ints, NULL));
    finish(h), refused("not a list of strings");
    h = two_layers();
    assert_ok(pg__h5_out_attr(h, "a", &table, NULL));
    finish(h), refused("not a list");
    h = two_layers();
    text(h, "a", "weight_names", "w", 0);
    finish(h), refused("not a list");
    h = two_layers();
    LIST(h, "a", "weight_names", "w");
    dataset(h, "d"), text(h, "", "model_config", "{}", 0);
    finish(h);
    pg_store *s = NULL;
    assert_ok(
        pg_store_open(&s, made, NULL, NULL)); /* unlisted data and a stray config do no harm */
    pg_store_close(s);
}

static void refuses_layers_that_are_not_there(void **state)
{
    (void)state;
    pg__h5_out *h = fresh();
    LIST(h, "", "layer_names", "a", "nope");
    assert_ok(pg__h5_out_names(h, "", "weight_names", NULL, 0, PG_H5_STR_FIXED, NULL));
    assert_ok(pg__h5_out_group(h, "a", NULL));
    assert_ok(pg__h5_out_names(h, "a", "weight_names", NULL, 0, PG_H5_STR_FIXED, NULL));
    finish(h), refused("\"nope\", which is missing");
    h = fresh();
    LIST(h, "", "layer_names", "d");
    dataset(h, "d");
    finish(h), refused("\"d\", which is not a group");
    h = fresh();
    LIST(h, "", "layer_names", "a");
    assert_ok(pg__h5_out_group(h, "a/g", NULL));
    LIST(h, "a", "weight_names", "g");
    finish(h), refused("\"g\", which is a group");
}

/* No Keras can save both: they are one group. */
static void refuses_names_of_one_place(void **state)
{
    (void)state;
    pg__h5_out *h = fresh();
    LIST(h, "", "layer_names", "a/", "b", "a");
    dataset(h, "a/w");
    LIST(h, "a", "weight_names", "w");
    dataset(h, "b/w");
    LIST(h, "b", "weight_names", "w");
    finish(h), refused("layer_names lists \"a/\" and \"a\", which are one place");
}

static void rescues_the_layers_before_the_one_that_failed(void **state)
{
    (void)state;
    const pg_open_opts salvage = {.salvage = 1};
    pg_err err = {0};
    pg_store *s = NULL;
    pg__h5_out *h = fresh();
    LIST(h, "", "layer_names", "a", "big", "c");
    text(h, "", "backend", "tensorflow", 0);
    dataset(h, "a/w");
    LIST(h, "a", "weight_names", "w");
    assert_ok(pg__h5_out_group(h, "big", NULL));
    finish(h);
    assert_fails(PG_E_FORMAT, pg_store_open(&s, made, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "layer \"big\""));
    assert_non_null(strstr(err.detail, "1 of 3 layers"));
    assert_ok(pg_store_open(&s, made, &salvage, &err));
    assert_int_equal(pg_store_n_layers(s), 2);
    assert_int_equal(pg_store_n_weights(s), 1);
    pg_store_close(s);
}

static void takes_what_no_list_names_in_the_order_of_writing(void **state)
{
    (void)state;
    const pg_open_opts salvage = {.salvage = 1};
    pg_store *s = NULL;
    pg__h5_out *h = two_layers();
    dataset(h, "a/sub/u");
    finish(h);
    assert_ok(pg_store_open(&s, made, &salvage, NULL));
    assert_non_null(strstr(pg_store_damage(s), "3 tensors are left, 3 of them on no list"));
    assert_int_equal(pg_store_n_weights(s), 3);
    assert_string_equal(pg_store_weight(s, 0)->name, "w"); /* not b */
    assert_string_equal(pg_store_weight(s, 1)->name, "b");
    assert_string_equal(pg_store_weight(s, 2)->name, "sub/u");
    pg_store_close(s);
}

/* ---- what stays -------------------------------------------------------------------------------
 */

/* A full model with everything that Keras does not know. */
static void make_full(void)
{
    size_t id = 0;
    const pg__h5_attr epoch = {.name = "epoch",
                               .type = {.cls = PG_H5_NUMBER, .dtype = PG_I64},
                               .n_elems = 1,
                               .raw = &(int64_t){7}};
    const pg__h5_dtype types[] = {{.cls = PG_H5_NUMBER, .dtype = PG_BF16},
                                  {.cls = PG_H5_NUMBER, .dtype = PG_BOOL},
                                  {.cls = PG_H5_NUMBER, .dtype = PG_F32, .big_endian = 1},
                                  {.cls = PG_H5_NUMBER, .dtype = PG_F16}};
    pg__h5_out *h = fresh();
    text(h, "", "keras_version", "2.4.0", 1);
    text(h, "", "model_config", "{\"class_name\": \"Model\"}", 0);
    text(h, "", "training_config", "{\"loss\": \"mse\"}", 0);
    text(h, "", "author", "M\xc3\xa4x", 1);
    assert_ok(pg__h5_out_group(h, "model_weights", NULL));
    text(h, "model_weights", "backend", "tensorflow", 1);
    assert_ok(pg__h5_out_attr(h, "model_weights", &epoch, NULL));
    LIST(h, "model_weights", "layer_names", "a", "a/b");
    assert_ok(
        pg__h5_out_dataset(h, "model_weights/a/a/w", &types[0], 1, (uint64_t[]){3}, &id, NULL));
    assert_ok(pg__h5_out_dataset(h, "model_weights/a/a/m", &types[1], 0, NULL, &id, NULL));
    assert_ok(
        pg__h5_out_dataset(h, "model_weights/a/b/x", &types[2], 2, (uint64_t[]){0, 3}, &id, NULL));
    assert_ok(
        pg__h5_out_dataset(h, "model_weights/a/b/y", &types[3], 1, (uint64_t[]){5}, &id, NULL));
    LIST(h, "model_weights/a", "weight_names", "a/w", "a/m");
    LIST(h, "model_weights/a/b", "weight_names", "x", "y");
    text(h, "model_weights/a/b", "note", "frozen", 0);
    text(h, "model_weights/a/a/w", "unit", "none", 0);
    dataset(h, "model_weights/top_level_model_weights/v");
    LIST(h, "model_weights/top_level_model_weights", "weight_names", "v");
    dataset(h, "optimizer_weights/it");
    LIST(h, "optimizer_weights", "weight_names", "it");
    finish(h);
}

static void keeps_what_keras_does_not_know(void **state)
{
    (void)state;
    pg_store *s = NULL;
    pg_err err = {0};
    pg__save_report report = {0};
    make_full();
    assert_ok(pg_store_open(&s, made, NULL, &err));
    assert_int_equal(pg_store_n_state(s), 1);
    if (copy_store(s, &report, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(report.n_verified, 5);
    assert_true(differ(made, copied) <= 0);
    pg_store_close(s);
    /* The tag that old Keras fails on is gone from W, and stays on the root. */
    const hid_t f = H5Fopen(copied, H5F_ACC_RDONLY, H5P_DEFAULT);
    const char *const at[][2] = {
        {"/model_weights", "backend"}, {"/", "keras_version"}, {"/", "author"}};
    for (int i = 0; i < 3; i++) {
        const hid_t a = H5Aopen_by_name(f, at[i][0], at[i][1], H5P_DEFAULT, H5P_DEFAULT);
        const hid_t t = H5Aget_type(a);
        assert_int_equal(H5Tget_cset(t), i == 0 ? H5T_CSET_ASCII : H5T_CSET_UTF8);
        H5Tclose(t), H5Aclose(a);
    }
    H5Fclose(f);
}

/* Copies `made` as plan says and opens the copy. */
static pg_store *save_as(pg_store *s, int config, int keep_state)
{
    pg__plan plan = {0};
    pg_err err = {0};
    pg_store *out = NULL;
    assert_ok(pg__plan_copy_of(&plan, s, NULL));
    plan.keep_state = keep_state;
    if (!config) {
        pg__mem_free(plan.model_config), pg__mem_free(plan.training_config);
        plan.model_config = plan.training_config = NULL;
        plan.n_model_config = plan.n_training_config = 0;
    }
    if (pg__format_save(&pg__fmt_keras_h5, copied, &plan, &quick, NULL, &err) != PG_OK ||
        pg_store_open(&out, copied, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    pg__plan_fini(&plan);
    return out;
}

static const char *attr_text(const pg_store *s, const char *path, const char *name)
{
    const pg__h5 *h5 = pg__keras_h5_of(s)->h5;
    const pg__h5_attr *a = pg__h5_attr_find(h5, *path ? pg__h5_find(h5, 0, path) : 0, name);
    return a && a->strs && a->n_elems ? a->strs[0] : NULL;
}

static void makes_weights_of_a_full_model(void **state)
{
    (void)state;
    pg_store *s = NULL;
    make_full();
    assert_ok(pg_store_open(&s, made, NULL, NULL));
    pg_store *out = save_as(s, 0, 0);
    assert_string_equal(pg_store_format(out), "keras-h5-weights");
    assert_int_equal(pg_store_n_state(out), 0);
    assert_int_equal(pg_store_n_weights(out), 4);
    assert_string_equal(attr_text(out, "", "backend"), "tensorflow");
    assert_null(attr_text(out, "", "keras_version")); /* W had none: conversions hang on it */
    assert_non_null(attr_text(out, "", "author"));
    assert_string_equal(attr_text(out, "a/b", "note"), "frozen");
    assert_true(pg__keras_h5_of(out)->top != PG_H5_NONE);
    pg_store_close(out);
    out = save_as(s, 1, 0);
    assert_string_equal(pg_store_format(out), "keras-h5-model");
    assert_int_equal(pg_store_n_state(out), 0);
    assert_string_equal(pg_store_text(out, PG_TEXT_TRAINING_CONFIG, NULL), "{\"loss\": \"mse\"}");
    pg_store_close(out);
    pg_store_close(s);
}

static pg_status count_up(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = (unsigned char)(tensor * 31 + off + i);
    return PG_OK;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

static void writes_other_sources_as_keras_2_15_does(void **state)
{
    (void)state;
    static const pg__store_io io = {.read = count_up, .close = nothing};
    const uint64_t dims[] = {300, 300}; /* more than one piece of 256 KiB */
    pg_store *s = NULL;
    assert_ok(pg__store_new(&s, "test", &io, NULL, NULL));
    assert_ok(pg__store_add_layer(s, "dense", NULL));
    for (int i = 0; i < 2; i++)
        assert_ok(
            pg__store_add_weight(s,
                                 &(pg__tensor_desc){.name = i ? "dense/bias:0" : "dense/kernel:0",
                                                    .dtype = PG_F32,
                                                    .rank = i ? 1 : 2,
                                                    .dims = dims},
                                 NULL));
    assert_ok(pg__store_add_layer(s, "flatten", NULL));
    pg_store *out = save_as(s, 1, 1);
    assert_string_equal(pg_store_writer(out), "keras 2.15.0, tensorflow");
    assert_int_equal(pg__keras_h5_of(out)->names, PG_H5_STR_VLEN);
    assert_true(pg__keras_h5_of(out)->top != PG_H5_NONE);
    pg_store_close(out);
    pg_store_close(s);
}

/* Two layers with names of n bytes, saved by a Keras of this version and copied: is the list of
 * layers whole? */
static int stays_whole(size_t n, const char *version)
{
    char long_name[2][33000] = {0};
    pg_store *s = NULL;
    pg__h5_out *h = fresh();
    for (int i = 0; i < 2; i++)
        memset(long_name[i], 'a' + i, n);
    if (version)
        text(h, "", "keras_version", version, 0);
    const char *const both[] = {long_name[0], long_name[1]};
    if (n > 32736)
        assert_ok(pg__h5_out_names(h, "", "layer_names", both, 2, PG_H5_STR_FIXED, NULL));
    else
        LIST(h, "", "layer_names", long_name[0], long_name[1]);
    for (int k = 0; k < 2; k++) {
        assert_ok(pg__h5_out_group(h, long_name[k], NULL));
        assert_ok(
            pg__h5_out_names(h, long_name[k], "weight_names", NULL, 0, PG_H5_STR_FIXED, NULL));
    }
    finish(h);
    assert_ok(pg_store_open(&s, made, NULL, NULL));
    pg_store *out = save_as(s, 1, 1);
    const int whole = pg__h5_attr_find(pg__keras_h5_of(out)->h5, 0, "layer_names") != NULL;
    pg_store_close(out);
    pg_store_close(s);
    return whole;
}

static void cuts_no_list_for_a_keras_that_cannot_read_it(void **state)
{
    (void)state;
    assert_true(stays_whole(32500, NULL));
    assert_true(stays_whole(32500, "2.1.4"));
    assert_false(stays_whole(32500, "2.1.5"));
    assert_false(stays_whole(32500, "2.15.0"));
    assert_true(stays_whole(32736, NULL));  /* a header message to its last byte */
    assert_false(stays_whole(32737, NULL)); /* libhdf5 would take two bytes too many */
}

static void joins_a_list_of_many_parts_in_order(void **state)
{
    (void)state;
    enum { N = 120, WIDTH = 6000 }; /* 10 to a part: names2 must not follow names11 */
    char *text_of[N];
    pg_store *s = NULL;
    pg__h5_out *h = fresh();
    for (int i = 0; i < N; i++) {
        text_of[i] = malloc(WIDTH + 1);
        snprintf(text_of[i], WIDTH + 1, "%0*d", WIDTH, i);
        assert_ok(pg__h5_out_group(h, text_of[i], NULL));
        assert_ok(pg__h5_out_names(h, text_of[i], "weight_names", NULL, 0, PG_H5_STR_FIXED, NULL));
    }
    assert_ok(pg__h5_out_names(h, "", "layer_names", (const char *const *)text_of, N,
                               PG_H5_STR_FIXED, NULL));
    text(h, "", "keras_version", "2.2.4", 0);
    finish(h);
    assert_ok(pg_store_open(&s, made, NULL, NULL));
    assert_non_null(pg__h5_attr_find(pg__keras_h5_of(s)->h5, 0, "layer_names11"));
    assert_int_equal(pg_store_n_layers(s), N);
    for (int i = 0; i < N; i++) {
        assert_string_equal(pg_store_layer(s, (size_t)i)->name, text_of[i]);
        free(text_of[i]);
    }
    pg_store_close(s);
}

/* HDF5 would need minutes to write what a hostile file can hold. */
static void copies_no_thousands_of_attributes(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    pg__h5_out *h = two_layers();
    LIST(h, "a", "weight_names", "w", "b");
    for (int i = 0; i <= (int)PG_LIMIT_KEPT_ATTRS; i++) {
        char name[16];
        const pg__h5_attr a = {
            .name = name, .type = {.cls = PG_H5_NUMBER, .dtype = PG_I8}, .n_elems = 1, .raw = "x"};
        snprintf(name, sizeof name, "x%d", i);
        assert_ok(pg__h5_out_attr(h, "c", &a, NULL));
    }
    finish(h);
    assert_ok(pg_store_open(&s, made, NULL, NULL));
    assert_fails(PG_E_LIMIT, copy_store(s, NULL, &err), &err);
    pg_store_close(s);
}

static void unpacks_compressed_data(void **state)
{
    (void)state;
    float v[4096];
    for (int i = 0; i < 4096; i++)
        v[i] = (float)(i % 17);
    pg__h5_out *h = two_layers();
    LIST(h, "a", "weight_names", "w", "b", "packed");
    finish(h);
    const hid_t f = H5Fopen(made, H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, (hsize_t[]){4096}, NULL);
    const hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){1000}), H5Pset_deflate(dcpl, 5);
    const hid_t d =
        H5Dcreate2(f, "/a/packed", H5T_IEEE_F32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    assert_true(H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    H5Dclose(d), H5Pclose(dcpl), H5Sclose(space), H5Fclose(f);
    pg_store *s = NULL;
    float got[4096];
    assert_ok(pg_store_open(&s, made, NULL, NULL));
    pg_store *out = save_as(s, 1, 1);
    assert_ok(pg_store_read(out, 2, 0, got, sizeof got, NULL));
    assert_memory_equal(got, v, sizeof v);
    pg_store_close(out);
    pg_store_close(s);
}

/* f["extra"] and f["notes/epochs"], which somebody put beside the weights. */
static void names_datasets_beside_the_weights(void **state)
{
    (void)state;
    char path[512];
    pg_store *s = NULL;
    snprintf(path, sizeof path, "%s/extra/foreign/extra_legacy.h5", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_string_equal(pg_store_others(s), "2 datasets beside the weights (extra, notes/epochs)");
    pg_store_close(s);
    snprintf(path, sizeof path, "%s/files/keras-2.2.4/cnn4-g2/template_weights.h5", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_null(pg_store_others(s));
    pg_store_close(s);
}

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(made, sizeof made, "%s/made.h5", dir);
    snprintf(copied, sizeof copied, "%s/copied.h5", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(made);
    unlink(copied);
    return rmdir(dir); /* fails if a temporary was left behind */
}

const char *pg_testdata = ".";

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_every_genuine_file_unchanged),
        cmocka_unit_test(says_what_is_left_of_a_failed_save),
        cmocka_unit_test(tells_who_wrote_a_file),
        cmocka_unit_test(refuses_lists_that_mislead),
        cmocka_unit_test(refuses_lists_of_another_type),
        cmocka_unit_test(refuses_layers_that_are_not_there),
        cmocka_unit_test(refuses_names_of_one_place),
        cmocka_unit_test(rescues_the_layers_before_the_one_that_failed),
        cmocka_unit_test(takes_what_no_list_names_in_the_order_of_writing),
        cmocka_unit_test(keeps_what_keras_does_not_know),
        cmocka_unit_test(makes_weights_of_a_full_model),
        cmocka_unit_test(writes_other_sources_as_keras_2_15_does),
        cmocka_unit_test(cuts_no_list_for_a_keras_that_cannot_read_it),
        cmocka_unit_test(joins_a_list_of_many_parts_in_order),
        cmocka_unit_test(copies_no_thousands_of_attributes),
        cmocka_unit_test(unpacks_compressed_data),
        cmocka_unit_test(names_datasets_beside_the_weights),
    };
    pg_testdata = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
