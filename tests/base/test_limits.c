/* Every ceiling of base/limits.h, met: a small file that lies, or a sparse one, is refused before
 * anything large is allocated. What takes a file of gigabytes, or a state within a reader, is met
 * in the test that its row names. */
#include "pg_test.h"

#include <unistd.h>

#include "base/json.h"
#include "base/le.h"
#include "base/limits.h"
#include "base/pickle.h"
#include "format/format.h"
#include "format/h5_image.h"
#include "format/tf/tf.h"
#include "io/image.h"
#include "io/zip.h"
#include "train/callbacks.h"
#include "train/data_files.h"

extern const pg__cb_type pg__cb_learning_rate_scheduler;

/* ---- files ---- */

/* `head`, then zeros that take no room on the disk. */
static const char *sparse(const char *name, const void *head, size_t n_head, uint64_t n)
{
    static test_path p;
    p = in_dir(name);
    write_bytes(name, head, n_head);
    assert_int_equal(truncate(p.s, (off_t)n), 0);
    return p.s;
}

static pg_status store_of(const char *path, pg_err *err)
{
    pg_store *s = NULL;
    const pg_status st = pg_store_open(&s, path, NULL, err);
    pg_store_close(s);
    return st;
}

static pg_status data_of(const char *path, pg_err *err)
{
    const pg__dims in = {4, {PG_DIM_ANY, 8, 8, 3}};
    pg__ends ends = one_in_one_out(&in);
    pg_data *d = NULL;
    pg_status st = pg_data_open(&d, path, err);
    if (st == PG_OK)
        st = pg__data_bind(d, &ends, err);
    if (st == PG_OK) {
        float row[8 * 8 * 3];
        st = pg__array_read(pg__data_find(d, "x0"), &(const uint64_t){0}, 1, PG_AS_F32, row, NULL,
                            err);
    }
    pg_data_close(d);
    return st;
}

static pg_status h5_of(hid_t f, pg_err *err)
{
    pg__h5 *h = NULL;
    const image im = image_end(f);
    const pg_status st = image_open(&h, im, err);
    pg__h5_close(h);
    free(im.p);
    return st;
}

static void folders(char *path, size_t room, const char *top, size_t depth)
{
    snprintf(path, room, "%s", in_dir(top).s);
    for (size_t i = 0; i <= depth; i++) {
        assert_int_equal(mkdir(path, 0700), 0);
        strcat(path, "/d");
    }
}

/* ---- HDF5 ---- */

static pg_status a_large_chunk(pg_err *err)
{
    const hsize_t dims[] = {(hsize_t)PG_LIMIT_CHUNK_BYTES / 4 + 1};
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, dims);
    image_dataset(f, "w", H5T_IEEE_F32LE, 1, dims, dcpl, 0);
    H5Pclose(dcpl);
    return h5_of(f, err);
}

static pg_status deep_groups(pg_err *err)
{
    char path[4 * PG_LIMIT_GROUP_DEPTH] = "";
    const hid_t f = image_begin(0);
    for (unsigned i = 0; i <= PG_LIMIT_GROUP_DEPTH; i++)
        strcat(path, "/g");
    H5Gclose(image_group(f, path));
    return h5_of(f, err);
}

static pg_status a_high_tree(pg_err *err)
{
    pg__h5 *h = NULL;
    const hid_t f = image_begin(0);
    H5Gclose(image_group(f, "/g"));
    const image im = image_end(f);
    uint8_t *tree = memmem(im.p, im.n, "TREE", 4);
    assert_non_null(tree);
    tree[5] = PG_LIMIT_BTREE_LEVEL + 1;
    const pg_status st = image_open(&h, im, err);
    free(im.p);
    assert_non_null(strstr(err->msg, "level 17"));
    return st;
}

/* ---- JSON, models ---- */

static pg_status a_long_json(pg_err *err)
{
    return store_of(sparse("m.safetensors.index.json", "{", 1, PG_LIMIT_JSON_BYTES + 1), err);
}

static pg_status a_long_manifest(pg_err *err)
{
    pg_store *s = NULL;
    pg__io *io = NULL;
    const char *path = sparse("manifest.json", "{", 1, PG_LIMIT_MANIFEST_BYTES + 1);
    assert_ok(pg__io_open(&io, path, err));
    const pg_status st = pg__fmt_npy_shards.open(&s, io, path, NULL, err);
    pg__io_close(io);
    return st;
}

static pg_status deep_json(pg_err *err)
{
    char text[PG_LIMIT_JSON_DEPTH + 1];
    memset(text, '[', sizeof text);
    return pg__json_check(text, sizeof text, err);
}

/* ---- PyTorch, NumPy, archives ---- */

static pg_status a_long_header_of_safetensors(pg_err *err)
{
    unsigned char head[9] = {0};
    const uint64_t n = PG_LIMIT_ST_HEADER + UINT64_C(1);
    memcpy(head, &n, 8);
    head[8] = '{';
    return store_of(sparse("m.safetensors", head, 9, 8 + n), err);
}

static pg_status a_long_header_of_npy(pg_err *err)
{
    unsigned char head[12] = "\x93NUMPY\2";
    const uint32_t n = (uint32_t)PG_LIMIT_NPY_HEADER + 1;
    memcpy(head + 8, &n, 4);
    return data_of(sparse("x.npy", head, sizeof head, 12 + n), err);
}

static pg_status a_high_number_of_a_memo(pg_err *err)
{
    char text[] = "\x80\2Nr....0.";
    const uint32_t n = PG_LIMIT_PICKLE_MEMO;
    pg__pickle p = {0};
    memcpy(text + 4, &n, 4);
    const pg_status st = pg__pickle_read(&p, text, sizeof text - 1, NULL, NULL, NULL, err);
    pg__pickle_fini(&p);
    return st;
}

/* zip64: an end record, a locator and the old end record, and nothing else. */
static pg_status a_zip(uint64_t members, uint64_t bytes, pg_err *err)
{
    unsigned char z[56 + 20 + 22] = "PK\6\6";
    pg__io *io = NULL;
    pg__zip *zip = NULL;
    pg__put_le(z + 4, 44, 8);
    pg__put_le(z + 24, members, 8);
    pg__put_le(z + 32, members, 8);
    pg__put_le(z + 40, bytes, 8);
    memcpy(z + 56, "PK\6\7", 4);
    pg__put_le(z + 72, 1, 4);
    memcpy(z + 76, "PK\5\6", 4);
    memset(z + 84, 0xff, 12);
    assert_ok(pg__io_open_mem(&io, z, sizeof z, NULL));
    const pg_status st = pg__zip_open(&zip, io, err);
    pg__zip_close(zip);
    pg__io_close(io);
    return st;
}

static pg_status an_archive_of_many_members(pg_err *err)
{
    return a_zip(PG_LIMIT_ZIP_MEMBERS + 1, 46, err);
}

static pg_status an_archive_of_a_long_directory(pg_err *err)
{
    return a_zip(1, PG_LIMIT_ZIP_DIR_BYTES + 1, err);
}

static pg_status a_long_index_of_tensorflow(pg_err *err)
{
    pg__io *io = NULL;
    pg__tf_table t = {0};
    assert_ok(pg__io_open(&io, sparse("w.index", "", 0, PG_LIMIT_TF_INDEX_BYTES + 1), NULL));
    const pg_status st = pg__tf_table_read(&t, io, err);
    pg__io_close(io);
    return st;
}

/* ---- folders, data, runs ---- */

static pg_status deep_folders_of_pictures(pg_err *err)
{
    char path[400];
    folders(path, sizeof path, "deep", PG_LIMIT_FOLDERS + 3);
    strcpy(path + strlen(path) - 1, "a.png");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fclose(f);
    return data_of(in_dir("deep").s, err);
}

static pg_status a_large_file_of_a_picture(pg_err *err)
{
    char path[400];
    folders(path, sizeof path, "large", 0);
    *strrchr(path, '/') = '\0';
    strcat(path, "/class");
    assert_int_equal(mkdir(path, 0700), 0);
    (void)sparse("large/class/a.png", "\x89PNG\r\n\x1a\n", 8, PG_LIMIT_PICTURE_BYTES + 1);
    return data_of(in_dir("large").s, err);
}

static pg_status a_large_picture(pg_err *err)
{
    pg__image large = {.width = (size_t)PG_LIMIT_IMAGE_BYTES / 3 + 1, .height = 1, .channels = 3};
    return pg__image_alloc(&large, err);
}

static pg_status a_long_line(pg_err *err)
{
    FILE *f = fopen(in_dir("x.csv").s, "wb");
    assert_non_null(f);
    fputs("a,b\n", f);
    for (size_t n = 0; n <= PG_LIMIT_CSV_LINE + PG_COPY_BYTES; n += 8)
        fputs("1.50000,", f);
    fclose(f);
    const pg_status st = data_of(in_dir("x.csv").s, err);
    unlink(in_dir("x.csv").s);
    return st;
}

static pg_status a_long_table_of_rates(pg_err *err)
{
    bench b;
    char text[300];
    snprintf(text, sizeof text, "LearningRateScheduler:schedule=table,file=%s",
             sparse("rates", "0.1\n", 4, PG_LIMIT_RATES_BYTES + UINT64_C(1)));
    bench_trainer(&b, NULL, NULL);
    const pg_status st = bench_open(&b, &pg__cb_learning_rate_scheduler, text, err);
    bench_close(&b);
    return st;
}

static pg_status a_weight_of_a_high_class(pg_err *err)
{
    char model[512], rows[512], weights[40];
    pg_trainer *t = NULL;
    pg_data *d = NULL;
    snprintf(model, sizeof model, "%s/golden/mlp_digits/model.json", pg_testdata);
    snprintf(rows, sizeof rows, "%s/golden/mlp_digits/data.npz", pg_testdata);
    snprintf(weights, sizeof weights, "0=1,%d=2", PG_LIMIT_CLASSES);
    const pg_train_opts opts = {.model = model, .loss = "categorical_crossentropy", .threads = 1};
    const pg_fit_opts fit = {.epochs = 1, .class_weight = weights};
    assert_ok(pg_trainer_open(&t, &opts, err));
    assert_ok(pg_data_open(&d, rows, err));
    const pg_status st = pg_fit(t, d, &fit, NULL, err);
    pg_data_close(d);
    pg_trainer_close(t);
    return st;
}

/* ---- all of them ---- */

#define H5_LIMITS "format/h5/test_h5_limits.c"

static const struct {
    const char *name;
    pg_status (*meet)(pg_err *err);
    pg_status code;
    const char *met_in; /* where meet is NULL: a test; NULL: it refuses nothing */
} limits[] = {
    {"PG_LIMIT_CHUNK_BYTES", a_large_chunk, PG_E_LIMIT, NULL},
    {"PG_LIMIT_DECODED_BYTES", NULL, PG_OK, NULL}, /* fewer chunks are kept */
    {"PG_LIMIT_DEFLATE_RATIO", NULL, PG_E_LIMIT, "io/test_zip.c"},
    {"PG_LIMIT_DEFLATE_SLACK", NULL, PG_E_LIMIT, "io/test_zip.c"},
    {"PG_LIMIT_ATTR_BYTES", NULL, PG_E_LIMIT, H5_LIMITS},
    {"PG_LIMIT_GROUP_DEPTH", deep_groups, PG_E_LIMIT, NULL},
    {"PG_LIMIT_BTREE_LEVEL", a_high_tree, PG_E_FORMAT, NULL},
    {"PG_LIMIT_OBJECTS", NULL, PG_E_LIMIT, H5_LIMITS},
    {"PG_LIMIT_ATTRS", NULL, PG_E_LIMIT, H5_LIMITS},
    {"PG_LIMIT_MESSAGES", NULL, PG_E_LIMIT, H5_LIMITS},
    {"PG_LIMIT_STRINGS", NULL, PG_E_LIMIT, H5_LIMITS},
    {"PG_LIMIT_KEPT_ATTRS", NULL, PG_E_LIMIT, "format/test_fmt_keras_h5.c"},
    {"PG_LIMIT_NAME_BYTES", NULL, PG_E_LIMIT, H5_LIMITS},
    {"PG_LIMIT_JSON_BYTES", a_long_json, PG_E_LIMIT, NULL},
    {"PG_LIMIT_MANIFEST_BYTES", a_long_manifest, PG_E_LIMIT, NULL},
    {"PG_LIMIT_JSON_DEPTH", deep_json, PG_E_LIMIT, NULL},
    {"PG_LIMIT_JSON_TOKENS", NULL, PG_E_LIMIT, "base/test_json.c"},
    {"PG_LIMIT_JSON_MEMORY", NULL, PG_E_LIMIT, "base/test_json.c"},
    {"PG_LIMIT_MODEL_DEPTH", NULL, PG_E_LIMIT, "model/graph/test_graph.c"},
    {"PG_LIMIT_CATEGORIES", NULL, PG_E_LIMIT, "model/lower/test_spatial.c"},
    {"PG_LIMIT_CONSTANT", NULL, PG_E_LIMIT, "model/lower/test_operation.c"},
    {"PG_LIMIT_ORDER_STATES", NULL, PG_OK, NULL}, /* the order counts as not proven */
    {"PG_LIMIT_ST_HEADER", a_long_header_of_safetensors, PG_E_LIMIT, NULL},
    {"PG_LIMIT_NPY_HEADER", a_long_header_of_npy, PG_E_LIMIT, NULL},
    {"PG_LIMIT_PICKLE_BYTES", NULL, PG_OK, NULL}, /* a quarter of a gigabyte that is read as far */
    {"PG_LIMIT_PICKLE_OPS", NULL, PG_E_LIMIT, "base/test_pickle.c"},
    {"PG_LIMIT_PICKLE_STACK", NULL, PG_E_LIMIT, "base/test_pickle.c"},
    {"PG_LIMIT_PICKLE_MEMO", a_high_number_of_a_memo, PG_E_LIMIT, NULL},
    {"PG_LIMIT_PICKLE_DEPTH", NULL, PG_E_LIMIT, "format/test_fmt_pytorch.c"},
    {"PG_LIMIT_ZIP_MEMBERS", an_archive_of_many_members, PG_E_LIMIT, NULL},
    {"PG_LIMIT_ZIP_DIR_BYTES", an_archive_of_a_long_directory, PG_E_LIMIT, NULL},
    {"PG_LIMIT_TF_INDEX_BYTES", a_long_index_of_tensorflow, PG_E_LIMIT, NULL},
    {"PG_LIMIT_TF_SHARDS", NULL, PG_E_LIMIT, "format/test_fmt_tf.c"},
    {"PG_LIMIT_FOLDERS", deep_folders_of_pictures, PG_E_LIMIT, NULL},
    {"PG_LIMIT_SHARD_DEPTH", NULL, PG_E_LIMIT, "wrap/join/test_join.c"},
    {"PG_LIMIT_IMAGE_BYTES", a_large_picture, PG_E_LIMIT, NULL},
    {"PG_LIMIT_PICTURE_BYTES", a_large_file_of_a_picture, PG_E_LIMIT, NULL},
    {"PG_LIMIT_CSV_LINE", a_long_line, PG_E_LIMIT, NULL},
    {"PG_LIMIT_CLASSES", a_weight_of_a_high_class, PG_E_ARG, NULL},
    {"PG_LIMIT_RATES_BYTES", a_long_table_of_rates, PG_E_LIMIT, NULL},
    {"PG_LIMIT_TILE_PAIRS", NULL, PG_E_LIMIT, "store/test_tiles.c"},
    {"PG_LIMIT_NAMES_BYTES", NULL, PG_E_LIMIT, "format/test_fmt_flax.c"},
};
#define N_LIMITS (sizeof limits / sizeof *limits)

static void what_is_beyond_a_limit_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LIMITS; i++) {
        pg_err err = {0};
        const pg_status st = limits[i].meet ? limits[i].meet(&err) : limits[i].code;
        if (st != limits[i].code)
            fail_msg("%s: %s (%s)", limits[i].name, pg_status_name(st), err.msg);
        if (limits[i].meet)
            assert_true(err.msg[0] != '\0');
    }
}

static char *text_of(const char *below)
{
    char path[600];
    snprintf(path, sizeof path, "%s/../%s", pg_testdata, below);
    const image im = image_load(path); /* it has room for a NUL */
    im.p[im.n] = '\0';
    return (char *)im.p;
}

static void every_limit_has_its_row_and_every_row_its_test(void **state)
{
    char *header = text_of("libpg/base/limits.h");
    size_t n = 0;
    (void)state;
    for (const char *p = header; (p = strstr(p, "#define PG_LIMIT_")); p++)
        n++;
    assert_int_equal(n, N_LIMITS);
    for (size_t i = 0; i < N_LIMITS; i++) {
        char defined[80], path[120];
        snprintf(defined, sizeof defined, "#define %s ", limits[i].name);
        if (!strstr(header, defined))
            fail_msg("%s is not in base/limits.h", limits[i].name);
        if (limits[i].met_in) {
            snprintf(path, sizeof path, "tests/%s", limits[i].met_in);
            char *test = text_of(path);
            if (!strstr(test, limits[i].name))
                fail_msg("%s does not name %s", path, limits[i].name);
            free(test);
        }
    }
    free(header);
}

PG_TEST_MAIN_WITH(make_test_dir, remove_test_dir,
                  cmocka_unit_test(what_is_beyond_a_limit_is_refused),
                  cmocka_unit_test(every_limit_has_its_row_and_every_row_its_test))
