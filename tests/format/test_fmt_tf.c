#include "pg_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/limits.h"
#include "format/format.h"
#include "format/tf/tf.h"
#include "store/store_impl.h"

/* Checkpoints that TensorFlow 2.15 wrote, with what tf.train.load_checkpoint() reads from them. */
static const char *const checkpoints[][2] = {
    {"tf-dtypes", "d"},
    {"tf-many-keys", "n"},
    {"tf-mirrored", "ckpt-1"},
    {"tf-save-weights", "w"},
    {"tf-save-weights-adam", "ck.tf"},
    {"tf-save-weights-legacy-slots", "w"},
    {"tf-savedmodel", "sm/variables/variables"},
    {"tf-sharded-variable", "ps"},
    {"tf-subclassed", "w"},
    {"tf1-saver-partitioned", "model.ckpt-2"},
    {"tf1-saver-sharded", "m"},
};
#define N (sizeof checkpoints / sizeof *checkpoints)

static const char *path_of(const char *folder, const char *name) /* name: "" for none */
{
    static char path[512];
    snprintf(path, sizeof path, "%s/modern/%s%s%s", pg_testdata, folder, *name ? "/" : "", name);
    return path;
}

static pg_status open_bundle(pg__tf_bundle *b, const char *prefix, pg_err *err)
{
    char index[600];
    pg__io *io = NULL;
    snprintf(index, sizeof index, "%s.index", prefix);
    assert_ok(pg__io_open(&io, index, NULL));
    const pg_status st = pg__tf_bundle_open(b, io, index, err);
    pg__io_close(io);
    return st;
}

/* The member of expected.npz for a key; '|' stands for '/'. */
static size_t expected(const pg_store *npz, const char *key)
{
    char name[256];
    snprintf(name, sizeof name, "%s", key);
    for (char *p = name; *p; p++)
        *p = *p == '/' ? '|' : *p;
    for (size_t i = 0; i < pg_store_n_weights(npz); i++)
        if (strcmp(pg_store_weight(npz, i)->name, name) == 0)
            return i;
    return PG_NONE;
}

static int compare_entry(pg__tf_bundle *b, const pg__tf_entry *e, pg_store *npz)
{
    static unsigned char got[1 << 16], want[1 << 16];
    pg__tile_window w = {0};
    const size_t i = expected(npz, e->key);
    if (i == PG_NONE)
        return 0;
    const pg_weight *x = pg_store_weight(npz, i);
    assert_int_equal(x->rank, e->rank);
    assert_memory_equal(x->dims, e->dims, sizeof x->dims);
    assert_true(x->n_bytes <= sizeof got);
    assert_ok(pg_store_read(npz, i, 0, want, (size_t)x->n_bytes, NULL));
    assert_ok(pg__tiles_read(&w, &e->tiled, pg__tf_fetch, b, 0, got, (size_t)x->n_bytes, NULL));
    assert_memory_equal(got, want, (size_t)x->n_bytes);
    pg__tile_window_fini(&w);
    return 1;
}

static void every_tensor_has_the_bytes_that_tensorflow_reads(void **state)
{
    (void)state;
    size_t n_equal = 0;
    for (size_t i = 0; i < N; i++) {
        pg__tf_bundle b = {0};
        pg_store *npz = NULL;
        size_t n = 0, n_complex = 0, n_known = 0;
        /* NumPy has no complex numbers that libpg reads. */
        if (strcmp(checkpoints[i][0], "tf-dtypes") == 0)
            continue;
        assert_ok(pg_store_open(&npz, path_of(checkpoints[i][0], "expected.npz"), NULL, NULL));
        assert_ok(open_bundle(&b, path_of(checkpoints[i][0], checkpoints[i][1]), NULL));
        for (size_t k = 0; k < b.n; k++) {
            const pg__tf_entry *e = &b.v[k];
            n_known += e->known && !e->partial;
            n_complex += !e->known && e->type != PG_TF_STRING;
            n += e->known && !e->partial ? (size_t)compare_entry(&b, e, npz) : 0;
        }
        assert_int_equal(n, n_known);
        assert_int_equal(n, pg_store_n_weights(npz));
        assert_int_equal(n_complex, 0);
        n_equal += n;
        pg__tf_bundle_fini(&b);
        pg_store_close(npz);
    }
    assert_true(n_equal > 400);
}

typedef struct temp {
    char folder[64], prefix[80];
} temp;

/* A copy of a checkpoint, to be damaged. */
static temp copy_of(const char *folder, const char *name, const char *shard)
{
    temp t = {.folder = "/tmp/pg-test-tf-XXXXXX"};
    char from[600], to[160];
    assert_non_null(mkdtemp(t.folder));
    snprintf(t.prefix, sizeof t.prefix, "%s/p", t.folder);
    for (int i = 0; i < 2; i++) {
        unsigned char buf[8192];
        snprintf(from, sizeof from, "%s%s", path_of(folder, name), i ? shard : ".index");
        snprintf(to, sizeof to, "%s%s", t.prefix, i ? shard : ".index");
        FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
        assert_non_null(in);
        assert_non_null(out);
        for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;)
            assert_int_equal(fwrite(buf, 1, n, out), n);
        fclose(in);
        assert_int_equal(fclose(out), 0);
    }
    return t;
}

static void remove_copy(const temp *t, const char *shard)
{
    char path[160];
    snprintf(path, sizeof path, "%s.index", t->prefix);
    unlink(path);
    snprintf(path, sizeof path, "%s%s", t->prefix, shard);
    unlink(path);
    assert_int_equal(rmdir(t->folder), 0);
}

/* Reads every tensor of a store. */
static pg_status read_all(const char *path, pg_err *err)
{
    static unsigned char buf[1 << 16];
    pg_store *s = NULL;
    pg_status st = pg_store_open(&s, path, &(pg_open_opts){.part = "."}, err);
    for (size_t i = 0; st == PG_OK && i < pg_store_n_weights(s); i++)
        st = pg_store_read(s, i, 0, buf, (size_t)pg_store_weight(s, i)->n_bytes, err);
    pg_store_close(s);
    return st;
}

static void put_byte(const char *path, long at, int xor)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(c ^ xor, f), c ^ xor);
    assert_int_equal(fclose(f), 0);
}

static void every_damaged_byte_is_noticed(void **state)
{
    (void)state;
    static const char shard[] = ".data-00000-of-00001";
    const temp t = copy_of("tf-sharded-variable", "ps", shard);
    char index[160], data[160];
    struct stat sb;
    pg_err err = {0};
    snprintf(index, sizeof index, "%s.index", t.prefix);
    snprintf(data, sizeof data, "%s%s", t.prefix, shard);
    assert_ok(read_all(t.prefix, NULL));
    for (int file = 0; file < 2; file++) {
        const char *path = file ? data : index;
        assert_int_equal(stat(path, &sb), 0);
        for (long at = 0; at < sb.st_size; at++) {
            put_byte(path, at, 0x41);
            const pg_status st = read_all(index, &err);
            put_byte(path, at, 0x41);
            if (st == PG_OK) /* padding of the footer */
                assert_true(!file && at > sb.st_size - 48 && at < sb.st_size - 8);
            else
                assert_true(st == PG_E_FORMAT || st == PG_E_UNKNOWN || st == PG_E_UNSUPPORTED);
        }
    }
    for (off_t n = sb.st_size; n-- > 0;) {
        assert_int_equal(truncate(data, n), 0);
        assert_fails(PG_E_FORMAT, read_all(index, &err), &err);
    }
    assert_non_null(strstr(err.msg, "data file p.data-00000-of-00001 is truncated"));
    unlink(data);
    assert_fails(PG_E_FORMAT, read_all(index, &err), &err);
    assert_non_null(strstr(err.msg, "p.data-00000-of-00001 is missing, its data file"));
    remove_copy(&t, shard);
}

/* An index of one entry without a name, the header: PREFIX.index of these bytes. */
typedef struct made {
    unsigned char s[256];
    size_t n;
} made;

/* Appends a block of one entry (none: NULL); returns its handle. */
static void put_block(made *m, const char *value, size_t n_value, unsigned char handle[2])
{
    const size_t first = m->n;
    if (value) {
        m->s[m->n++] = 0; /* shared */
        m->s[m->n++] = 0; /* of its own */
        m->s[m->n++] = (unsigned char)n_value;
        memcpy(m->s + m->n, value, n_value);
        m->n += n_value;
    }
    memset(m->s + m->n, 0, 4); /* one restart, at 0 */
    pg__put_le(m->s + m->n + 4, 1, 4);
    m->n += 8;
    handle[0] = (unsigned char)first;
    handle[1] = (unsigned char)(m->n - first);
    m->s[m->n++] = 0; /* not compressed */
    const uint32_t crc = pg__crc32c_masked(pg__crc32c(0, m->s + first, m->n - first));
    pg__put_le(m->s + m->n, crc, 4);
    m->n += 4;
}

static made index_with_header(const char *header, size_t n)
{
    made m = {.n = 0};
    unsigned char data[2], filters[2], list[2];
    put_block(&m, header, n, data);
    put_block(&m, NULL, 0, filters);
    put_block(&m, (const char *)data, 2, list);
    memcpy(m.s + m.n, filters, 2);
    memcpy(m.s + m.n + 2, list, 2);
    memcpy(m.s + m.n + 40, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
    m.n += 48;
    return m;
}

static pg_status open_header(const char *header, size_t n, pg_err *err)
{
    const made m = index_with_header(header, n);
    pg__io *io = NULL;
    pg_store *s = NULL;
    assert_ok(pg__io_open_mem(&io, m.s, m.n, NULL));
    const pg_status st = pg__format_open(&s, NULL, io, "/nowhere/p.index", NULL, err);
    pg__io_close(io);
    pg_store_close(s);
    return st;
}

static void headers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    pg_err err = {0};
    assert_fails(PG_E_FORMAT, open_header("", 0, &err), &err);
    assert_string_equal(err.msg, "/nowhere/p.index: damaged index: its header makes no sense");
    assert_fails(PG_E_UNSUPPORTED, open_header("\x08\1\x10\1", 4, &err), &err);
    assert_non_null(strstr(err.msg, "big-endian"));
    assert_fails(PG_E_LIMIT, open_header("\x08\x81\x80\4", 4, &err),
                 &err); /* PG_LIMIT_TF_SHARDS + 1 */
    assert_non_null(strstr(err.msg, "65,537 data files"));
    assert_fails(PG_E_IO, open_header("\x08\1", 2, &err), &err); /* the folder */
}

static void put_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Most are looked up in a list of the folder. */
static void counts_its_missing_data_files(void **state)
{
    (void)state;
    const made m = index_with_header("\x08\xac\2", 3); /* 300 */
    const char *const there[] = {".data-00003-of-00300", ".data-00200-of-00300"};
    temp t = {.folder = "/tmp/pg-test-tf-XXXXXX"};
    char index[160], data[160];
    pg_err err = {0};
    assert_non_null(mkdtemp(t.folder));
    snprintf(t.prefix, sizeof t.prefix, "%s/p", t.folder);
    snprintf(index, sizeof index, "%s.index", t.prefix);
    put_file(index, m.s, m.n);
    for (size_t i = 0; i < 2; i++) {
        snprintf(data, sizeof data, "%s%s", t.prefix, there[i]);
        put_file(data, "x", 1);
    }
    assert_fails(PG_E_FORMAT, read_all(index, &err), &err);
    assert_non_null(strstr(err.msg, "298 of its 300 data files are missing"));
    unlink(data);
    remove_copy(&t, there[0]);
}

static void finds_the_index_by_every_name_that_people_use(void **state)
{
    (void)state;
    static const char *const names[] = {
        "tf-mirrored",
        "tf-mirrored/",
        "tf-mirrored/checkpoint",
        "tf-mirrored/ckpt-1",
        "tf-mirrored/ckpt-1.index",
        "tf-mirrored/ckpt-1.data-00000-of-00001",
    };
    static const char *const saved_model[] = {"tf-savedmodel/sm", "tf-savedmodel/sm/saved_model.pb",
                                              "tf-savedmodel/sm/variables",
                                              "tf-savedmodel/sm/variables/variables"};
    for (size_t i = 0; i < 10; i++) {
        pg_store *s = NULL;
        const char *name = i < 6 ? names[i] : saved_model[i - 6];
        assert_ok(pg_store_open(&s, path_of(name, ""), NULL, NULL));
        assert_string_equal(pg_store_format(s), "tensorflow");
        assert_int_equal(pg_store_n_weights(s), 12);
        assert_string_equal(pg_store_weight(s, 0)->name, "shared/kernel");
        assert_true((pg_store_text(s, PG_TEXT_MODEL_CONFIG, NULL) != NULL) == (i >= 6));
        pg_store_close(s);
    }
}

static void tells_the_model_from_its_training(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t n_weights, n_state;
        const char *first, *last, *first_state;
    } want[] = {
        {"tf-save-weights/w", 13, 0, "conv2d/kernel", "dense_1/bias", NULL},
        {"tf-save-weights-adam/ck.tf", 12, 22, "shared/kernel", "out/bias", "iteration"},
        {"tf-save-weights-legacy-slots/w", 13, 27, "conv2d_1/kernel", "dense_3/bias", "Adam/iter"},
        {"tf-subclassed/w", 8, 18, "sub/p/kernel", "scale", "iteration"},
        {"tf-mirrored/ckpt-1", 12, 24, "shared/kernel", "out/bias", "iteration"},
        {"tf-savedmodel/sm", 12, 24, "shared/kernel", "out/bias", "total"},
        {"tf1-saver-partitioned/model.ckpt-2", 2, 11, "net/dense/bias", "net/dense/kernel",
         "net/dense/kernel/t_0/Adam"},
        {"tf1-saver-sharded/m", 4, 0, "part0/empty", "part1/w", NULL},
        {"tf-sharded-variable/ps", 2, 0, "emb", "Variable", NULL},
        {"tf-roots/vae/w", 16, 30, "enc_a/kernel", "dec_b/bias", "total_loss_tracker/total"},
        {"tf-roots/guide/ckpt-5", 2, 11, "net/dense/kernel", "net/dense/bias", "Adam/iter"},
        {"tf-roots/wrapper/w", 10, 18,
         "layer_with_weights-0/layer_with_weights-0/layer_with_weights-0/kernel", "out/bias",
         "iteration"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        pg_store *s = NULL;
        assert_ok(pg_store_open(&s, path_of(want[i].path, ""), NULL, NULL));
        const size_t n = pg_store_n_weights(s);
        assert_int_equal(n, want[i].n_weights);
        assert_int_equal(pg_store_n_state(s), want[i].n_state);
        assert_string_equal(pg_store_weight(s, 0)->name, want[i].first);
        assert_string_equal(pg_store_weight(s, n - 1)->name, want[i].last);
        if (want[i].first_state)
            assert_string_equal(pg_store_state(s, 0)->name, want[i].first_state);
        pg_store_close(s);
    }
}

static void a_part_can_be_chosen(void **state)
{
    (void)state;
    pg_store *s = NULL;
    pg_err err = {0};
    const char *path = path_of("tf-mirrored/ckpt-1", "");
    assert_ok(pg_store_open(&s, path, &(pg_open_opts){.part = "optimizer"}, NULL));
    assert_int_equal(pg_store_n_weights(s), 22);
    pg_store_close(s);
    assert_ok(pg_store_open(&s, path, &(pg_open_opts){.part = "model.layer-3"}, NULL));
    assert_int_equal(pg_store_n_weights(s), 4);
    pg_store_close(s);
    assert_fails(PG_E_ARG, pg_store_open(&s, path, &(pg_open_opts){.part = "x"}, &err), &err);
    assert_non_null(strstr(err.msg, "no part \"x\""));
}

static size_t n_weights_of(const char *path, const char *part, size_t *n_state)
{
    pg_store *s = NULL;
    assert_ok(pg_store_open(&s, path, &(pg_open_opts){.part = part}, NULL));
    const size_t n = pg_store_n_weights(s);
    *n_state = pg_store_n_state(s);
    pg_store_close(s);
    return n;
}

static void several_models_are_asked_about(void **state)
{
    (void)state;
    static const char *const folders[] = {"tf-roots/gan/c", "tf-roots/gan-legacy/c"};
    pg_store *s = NULL;
    pg_err err = {0};
    size_t n_state = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *path = path_of(folders[i], "");
        assert_fails(PG_E_AMBIGUOUS, pg_store_open(&s, path, NULL, &err), &err);
        assert_non_null(strstr(err.msg, "2 parts could be the model"));
        assert_non_null(strstr(err.detail, "discriminator\n"));
        assert_non_null(strstr(err.detail, "generator"));
        assert_null(strstr(err.detail, "optimizer"));
        assert_int_equal(n_weights_of(path, "generator", &n_state), 8);
        assert_int_equal(n_state, 0);
        assert_int_equal(n_weights_of(path, "generator_optimizer", &n_state), i ? 17 : 14);
        assert_int_equal(n_weights_of(path, ".", &n_state), i ? 16 + 34 : 16 + 28);
        assert_int_equal(n_state, 0);
        assert_ok(pg_store_open(&s, path, &(pg_open_opts){.part = ""}, NULL));
        assert_int_equal(pg_store_n_weights(s), 0);
        assert_int_equal(pg_store_n_parts(s), 4);
        assert_string_equal(pg_store_part(s, 1)->path, "generator");
        assert_int_equal(pg_store_part(s, 1)->n_params, 33);
        assert_string_equal(pg_store_part(s, 2)->kind, "optimizer");
        pg_store_close(s);
    }
    assert_fails(PG_E_AMBIGUOUS, pg_store_open(&s, path_of("tf-roots/ema/c", ""), NULL, &err),
                 &err);
    assert_non_null(strstr(err.detail, "ema_model\nmodel"));
}

static void slots_of_old_optimizers_are_state_and_part_of_everything(void **state)
{
    (void)state;
    size_t n_state = 0;
    const char *path = path_of("tf-save-weights-legacy-slots/w", "");
    assert_int_equal(n_weights_of(path, NULL, &n_state), 13);
    assert_int_equal(n_state, 27);
    assert_int_equal(n_weights_of(path, ".", &n_state), 40);
    assert_int_equal(n_weights_of(path, "optimizer", &n_state), 27);
}

static void what_is_no_array_is_listed(void **state)
{
    (void)state;
    pg_store *s = NULL;
    for (int all = 0; all < 2; all++) {
        assert_ok(pg_store_open(&s, path_of("tf-roots/guide/ckpt-4", ""),
                                &(pg_open_opts){.part = all ? "." : NULL}, NULL));
        assert_string_equal(pg_store_others(s), "1 tensor of serialized objects "
                                                "(iterator/.ATTRIBUTES/ITERATOR_STATE)");
        pg_store_close(s);
    }
}

static void bytes_are_compared_before_they_are_mapped(void **state)
{
    (void)state;
    static const char shard[] = ".data-00000-of-00001";
    const temp t = copy_of("tf-sharded-variable", "ps", shard);
    char data[160];
    uint64_t off = 0;
    pg_store *s = NULL;
    snprintf(data, sizeof data, "%s%s", t.prefix, shard);
    for (int damaged = 0; damaged < 2; damaged++) {
        assert_ok(pg_store_open(&s, t.prefix, NULL, NULL));
        assert_int_equal(pg_store_place(s, 0, &off), -1); /* in pieces */
        const int fd = pg_store_place(s, 1, &off);
        assert_true(damaged ? fd == -1 : fd >= 0);
        pg_store_close(s);
        put_byte(data, (long)off, 0x41);
    }
    remove_copy(&t, shard);
}

static void the_only_layer_with_variables_is_a_wrappers_template(void **state)
{
    (void)state;
    static const struct {
        const char *path, *inner;
    } want[] = {{"tf-roots/wrapper/w", "layer-3"},
                {"tf-roots/wrapper/sm", "layer-3"},
                {"tf-save-weights/w", NULL},
                {"tf-mirrored", NULL},
                {"tf-roots/guide/ckpt-5", NULL}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        pg_store *s = NULL;
        assert_ok(pg_store_open(&s, path_of(want[i].path, ""), NULL, NULL));
        const char *inner = pg__store_inner_object(s);
        assert_true(want[i].inner ? inner && strcmp(inner, want[i].inner) == 0 : !inner);
        if (inner)
            assert_true(pg__store_find_object(s, "layer-3/layer-3/kernel") < 10);
        pg_store_close(s);
    }
}

static void a_saved_models_json_has_plain_lists(void **state)
{
    (void)state;
    pg_store *s = NULL;
    assert_ok(pg_store_open(&s, path_of("tf-roots/wrapper/sm", ""), NULL, NULL));
    const char *text = pg_store_text(s, PG_TEXT_MODEL_CONFIG, NULL);
    assert_null(strstr(text, "__tuple__"));
    assert_non_null(strstr(text, "\"batch_input_shape\":  [null, 4]"));
    pg_store_close(s);
}

/* ---- paths ---- */

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_list_from_another_machine_names_the_file_beside_it(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "model_checkpoint_path: \"/home/somebody/gone/p\"\n",
        "model_checkpoint_path: \"C:\\\\runs\\\\p\"\nall_model_checkpoint_paths: \"x\"\n",
        "model_checkpoint_path: \"runs/p\"\n",
        "model_checkpoint_path: \"p\"\n",
    };
    static const char shard[] = ".data-00000-of-00001";
    const temp t = copy_of("tf-sharded-variable", "ps", shard);
    char path[160];
    pg_err err = {0};
    snprintf(path, sizeof path, "%s/checkpoint", t.folder);
    for (size_t i = 0; i < 4; i++) {
        write_text(t.folder, "checkpoint", lists[i]);
        assert_ok(read_all(t.folder, NULL));
        assert_ok(read_all(path, NULL));
    }
    write_text(t.folder, "checkpoint", "model_checkpoint_path: \"/gone/q\"\n");
    assert_fails(PG_E_FORMAT, read_all(t.folder, &err), &err);
    assert_non_null(strstr(err.msg, "/gone/q, but its .index is missing"));
    assert_int_equal(mkdir(t.prefix, 0700), 0);
    write_text(t.folder, "q.index", "");
    write_text(t.prefix, "checkpoint", "model_checkpoint_path: \"../q\"\n"); /* leads out */
    assert_fails(PG_E_FORMAT, read_all(t.prefix, &err), &err);
    assert_non_null(strstr(err.msg, "but its .index is missing"));
    snprintf(path, sizeof path, "%s/checkpoint", t.prefix);
    unlink(path);
    assert_int_equal(rmdir(t.prefix), 0);
    snprintf(path, sizeof path, "%s/q.index", t.folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/checkpoint", t.folder);
    unlink(path);
    remove_copy(&t, shard);
}

static void a_folder_comes_before_a_prefix_of_its_name(void **state)
{
    (void)state;
    static const char shard[] = ".data-00000-of-00001";
    const temp t = copy_of("tf-sharded-variable", "ps", shard);
    pg_err err = {0};
    assert_ok(read_all(t.prefix, NULL));
    assert_int_equal(mkdir(t.prefix, 0700), 0);
    assert_fails(PG_E_IO, read_all(t.prefix, &err), &err);
    assert_int_equal(rmdir(t.prefix), 0);
    remove_copy(&t, shard);
}

/* ---- made indexes ---- */

static size_t put_entry(unsigned char *to, const char *key, size_t n_key, const char *value,
                        size_t n)
{
    to[0] = 0;
    to[1] = (unsigned char)n_key;
    to[2] = (unsigned char)n;
    memcpy(to + 3, key, n_key);
    memcpy(to + 3 + n_key, value, n);
    return 3 + n_key + n;
}

/* Appends a block of these entries; returns its handle. */
static void put_entries(made *m, const unsigned char *entries, size_t n, unsigned char handle[2])
{
    const size_t first = m->n;
    memcpy(m->s + m->n, entries, n);
    pg__put_le(m->s + m->n + n, 0, 4);
    pg__put_le(m->s + m->n + n + 4, 1, 4);
    m->n += n + 8;
    handle[0] = (unsigned char)first;
    handle[1] = (unsigned char)(m->n - first);
    m->s[m->n++] = 0;
    pg__put_le(m->s + m->n, pg__crc32c_masked(pg__crc32c(0, m->s + first, m->n - first)), 4);
    m->n += 4;
}

/* An index of these entries, whose list names their block n_times. */
static pg_status open_entries(pg__tf_bundle *b, const unsigned char *entries, size_t n, int n_times,
                              pg_err *err)
{
    made m = {.n = 0};
    unsigned char data[2], filters[2], list[2], named[32];
    size_t n_named = 0;
    pg__io *io = NULL;
    put_entries(&m, entries, n, data);
    put_entries(&m, (const unsigned char *)"", 0, filters);
    for (int i = 0; i < n_times; i++)
        n_named += put_entry(named + n_named, "z", 1, (const char *)data, 2);
    put_entries(&m, named, n_named, list);
    memcpy(m.s + m.n, filters, 2);
    memcpy(m.s + m.n + 2, list, 2);
    memcpy(m.s + m.n + 40, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
    m.n += 48;
    assert_ok(pg__io_open_mem(&io, m.s, m.n, NULL));
    const pg_status st = pg__tf_bundle_read(b, io, err);
    pg__io_close(io);
    return st;
}

static void a_block_is_listed_once(void **state)
{
    (void)state;
    unsigned char entries[16];
    const size_t n = put_entry(entries, "", 0, "\x08\1", 2);
    pg__tf_bundle b = {0};
    pg_err err = {0};
    assert_ok(open_entries(&b, entries, n, 1, NULL));
    pg__tf_bundle_fini(&b);
    assert_fails(PG_E_FORMAT, open_entries(&b, entries, n, 2, &err), &err);
    assert_string_equal(err.msg, "damaged index: its list of blocks makes no sense");
}

/* Two of four elements have a piece: that is a slot's way, not a weight's. */
static void a_weight_needs_all_of_its_pieces(void **state)
{
    (void)state;
    static const char piece[] = "\x08\1\x12\4\x12\2\x08\2\x28\x08",
                      whole[] = "\x08\1\x12\4\x12\2\x08\4\x3a\4\x0a\2\x10\2";
    for (int slot = 0; slot < 2; slot++) {
        const char *name = slot ? "w/Adam" : "w";
        unsigned char entries[160];
        char key[32] = "";
        pg__tf_bundle b = {0};
        pg__tf_names l = {0};
        pg_err err = {0};
        const size_t len = strlen(name);
        memcpy(key + 1, name, len);
        memcpy(key + 1 + len, "\0\1\1\1\x80\x82", 6);
        size_t n = put_entry(entries, "", 0, "\x08\1", 2);
        n += put_entry(entries + n, key, len + 7, piece, sizeof piece - 1);
        n += put_entry(entries + n, name, len, whole, sizeof whole - 1);
        assert_ok(open_entries(&b, entries, n, 1, &err));
        if (slot) {
            assert_ok(pg__tf_names_of(&l, &b, NULL, &err));
            assert_int_equal(l.v[0].is_state, 1);
        } else {
            assert_fails(PG_E_FORMAT, pg__tf_names_of(&l, &b, NULL, &err), &err);
            assert_string_equal(err.msg, "w: its pieces hold 2 of 4 elements");
            assert_fails(PG_E_FORMAT, pg__tf_names_of(&l, &b, ".", &err), &err);
        }
        pg__tf_names_fini(&l);
        pg__tf_bundle_fini(&b);
    }
}

PG_TEST_MAIN(cmocka_unit_test(every_tensor_has_the_bytes_that_tensorflow_reads),
             cmocka_unit_test(every_damaged_byte_is_noticed),
             cmocka_unit_test(headers_that_cannot_be_are_refused),
             cmocka_unit_test(counts_its_missing_data_files),
             cmocka_unit_test(finds_the_index_by_every_name_that_people_use),
             cmocka_unit_test(tells_the_model_from_its_training),
             cmocka_unit_test(a_part_can_be_chosen),
             cmocka_unit_test(several_models_are_asked_about),
             cmocka_unit_test(slots_of_old_optimizers_are_state_and_part_of_everything),
             cmocka_unit_test(what_is_no_array_is_listed),
             cmocka_unit_test(bytes_are_compared_before_they_are_mapped),
             cmocka_unit_test(the_only_layer_with_variables_is_a_wrappers_template),
             cmocka_unit_test(a_saved_models_json_has_plain_lists),
             cmocka_unit_test(a_list_from_another_machine_names_the_file_beside_it),
             cmocka_unit_test(a_folder_comes_before_a_prefix_of_its_name),
             cmocka_unit_test(a_block_is_listed_once),
             cmocka_unit_test(a_weight_needs_all_of_its_pieces))
