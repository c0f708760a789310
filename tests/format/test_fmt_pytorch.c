#include "pg_test.h"

#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/limits.h"
#include "format/format.h"
#include "io/zip.h"

/* Both files hold the same tensors: names up to a prefix, shapes, types, bytes. */
static void assert_same_part(const char *a_path, const char *part, const char *b_path,
                             const char *prefix)
{
    char path[512];
    pg_err err = {0};
    const pg_open_opts opts = {.part = part};
    pg_store *a = NULL, *b = NULL;
    snprintf(path, sizeof path, "%s/%s", pg_testdata, a_path);
    if (pg_store_open(&a, path, &opts, &err) != PG_OK)
        fail_msg("%s", err.msg);
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

static void assert_same(const char *a_path, const char *b_path, const char *prefix)
{
    assert_same_part(a_path, NULL, b_path, prefix);
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
    static const char *const names[] = {"types",           "views",
                                        "views_stream",    "protocol5",
                                        "parameters",      "checkpoint",
                                        "parameter_names", "parameter_dict_state",
                                        "parameter_dict",  "parameter_dict_within"};
    char a[64], b[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(a, sizeof a, "extra/pytorch/%s.pt", names[i]);
        snprintf(b, sizeof b, "extra/pytorch/%s.safetensors", names[i]);
        assert_same(a, b, "");
    }
    assert_same("extra/pytorch/parameter_list.pt", "extra/pytorch/parameter_list.safetensors", "");
    assert_same_part("extra/pytorch/list.pt", ".", "extra/pytorch/list.safetensors", "");
}

/* What training programs save: the one part that is the model, or the one that is named. */
static void finds_the_model_in_what_programs_save(void **state)
{
    (void)state;
    static const struct {
        const char *file, *part, *twin, *prefix;
    } cases[] = {{"imagenet.pth.tar", NULL, "plain", "module."},
                 {"tutorial.pt", NULL, "plain", ""},
                 {"lightning.ckpt", NULL, "lightning", ""},
                 {"timm.pth.tar", "state_dict", "plain", ""},
                 {"timm.pth.tar", "state_dict_ema", "ema", ""},
                 {"detectron2.pth", NULL, "plain", ""},
                 {"detectron2_zoo.pkl", NULL, "plain", ""},
                 {"numpy_in_torch.pth", NULL, "plain", ""},
                 {"numpy_protocol5.pkl", NULL, "plain", ""},
                 {"numpy_old.pkl", NULL, "plain", ""},
                 {"mmcv.pth", NULL, "plain", ""},
                 {"mmengine.pth", NULL, "plain", ""},
                 {"fairseq.pt", NULL, "plain", ""},
                 {"stylegan2.pt", "g", "plain", ""},
                 {"stylegan2.pt", "g_ema", "ema", ""},
                 {"torchvision.pth", NULL, "plain", ""},
                 {"torchvision_ema.pth", "model", "plain", ""},
                 {"moco.pth.tar", NULL, "moco", "module."},
                 {"dino.pth", "student", "plain", "module."},
                 {"dino.pth", "teacher", "ema", ""},
                 {"mae.pth", NULL, "plain", ""},
                 {"nanogpt.pt", NULL, "plain", "_orig_mod."},
                 {"whisper.pt", NULL, "plain", ""},
                 {"rng_beside.pt", NULL, "plain", ""},
                 {"pytorch_model.bin", NULL, "plain", ""},
                 {"accelerate_pytorch_model.bin", NULL, "plain", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char a[96], b[96];
        snprintf(a, sizeof a, "extra/checkpoints/%s", cases[i].file);
        snprintf(b, sizeof b, "extra/checkpoints/%s.safetensors", cases[i].twin);
        assert_same_part(a, cases[i].part, b, cases[i].prefix);
    }
}

static void says_what_is_no_model_or_not_one(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        pg_status code;
        const char *say, *hint;
    } cases[] = {
        {"timm.pth.tar", PG_E_AMBIGUOUS, "2 parts could be the model",
         "choose-part part=state_dict"},
        {"stylegan2.pt", PG_E_AMBIGUOUS, "3 parts could be the model", "choose-part part=g"},
        {"torchvision_ema.pth", PG_E_AMBIGUOUS, "2 parts could be the model",
         "choose-part part=model"},
        {"dino.pth", PG_E_AMBIGUOUS, "3 parts could be the model", "choose-part part=student"},
        {"yolov5.pt", PG_E_UNSUPPORTED, "model: contains the class models.yolo.DetectionModel,",
         "if you trust"},
        {"yolov8.pt", PG_E_UNSUPPORTED, "the class ultralytics.nn.tasks.DetectionModel,", "if you"},
        {"stylegan3.pkl", PG_E_UNSUPPORTED, "torch_utils.persistence._reconstruct_persistent_obj,",
         "if you"},
        {"optimizer.pt", PG_E_UNSUPPORTED, "the state of an optimizer, not a model", ""},
        {"scheduler.pt", PG_E_UNSUPPORTED, "the state of a scheduler, not a model", ""},
        {"rng_state.pth", PG_E_UNSUPPORTED, "the state of a random generator, not a model", ""},
        {"accelerate_random_states_0.pkl", PG_E_UNSUPPORTED, "the state of a random generator,",
         ""},
        {"training_args.bin", PG_E_UNSUPPORTED,
         "a pickled transformers.training_args.TrainingArguments without tensors, not a model",
         ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        pg_err err = {0};
        pg_store *s = NULL;
        snprintf(path, sizeof path, "%s/extra/checkpoints/%s", pg_testdata, cases[i].file);
        assert_fails(cases[i].code, pg_store_open(&s, path, NULL, &err), &err);
        if (!strstr(err.msg, cases[i].say) ||
            (*cases[i].hint ? strncmp(advice_of(&err), cases[i].hint, strlen(cases[i].hint)) != 0
                            : advice_of(&err)[0] != 0))
            fail_msg("%s [%s]", err.msg, advice_of(&err));
    }
}

static void lists_the_parts_of_a_checkpoint(void **state)
{
    (void)state;
    static const pg_part want[] = {{"g", "model", 9, 43, 1},
                                   {"g_ema", "model", 9, 43, 1},
                                   {"d", "model", 2, 4, 1},
                                   {"g_optim", "optimizer", 6, 0, 0},
                                   {"d_optim", "optimizer", 6, 0, 0}};
    const pg_open_opts opts = {.part = ""};
    char path[512];
    pg_store *s = NULL;
    snprintf(path, sizeof path, "%s/extra/checkpoints/stylegan2.pt", pg_testdata);
    assert_ok(pg_store_open(&s, path, &opts, NULL));
    assert_int_equal(pg_store_n_weights(s), 0);
    assert_int_equal(pg_store_n_parts(s), sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const pg_part *p = pg_store_part(s, i);
        assert_string_equal(p->path, want[i].path);
        assert_string_equal(p->kind, want[i].kind);
        assert_int_equal(p->n_tensors, want[i].n_tensors);
        assert_int_equal(p->n_params, want[i].n_params);
        assert_int_equal(p->is_model, want[i].is_model);
    }
    assert_null(pg_store_part(s, pg_store_n_parts(s)));
    pg_store_close(s);
}

/* Files of regen/parts.py: a key such as opt_net, and bytes of a random state's length. */
static void takes_no_key_or_length_for_training(void **state)
{
    (void)state;
    static const struct {
        const char *file, *parts; /* could be the model, in the order in which they are offered */
    } cases[] = {{"opt_net", "model opt_net"},
                 {"optimizer_head", "model optimizer_head"},
                 {"mask", "state_dict mask"},
                 {"sac", "policy log_alpha"},
                 {"log_alpha", "policy . log_alpha"},
                 {"random", "net"},
                 {"megatron", "model model.language_model.embedding.word_embeddings "
                              "model.language_model.encoder"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pg_open_opts opts = {.part = ""};
        char path[512], got[256] = "";
        pg_store *s = NULL;
        pg_err err = {0};
        snprintf(path, sizeof path, "%s/extra/parts/%s.pt", pg_testdata, cases[i].file);
        assert_int_equal(pg_store_open(&s, path, NULL, &err),
                         strchr(cases[i].parts, ' ') ? PG_E_AMBIGUOUS : PG_OK);
        pg_store_close(s);
        assert_ok(pg_store_open(&s, path, &opts, NULL));
        for (size_t k = 0; k < pg_store_n_parts(s); k++) {
            const pg_part *p = pg_store_part(s, k);
            if (p->is_model || strcmp(p->kind, "tensor") == 0)
                snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", *got ? " " : "",
                         p->path);
        }
        assert_string_equal(got, cases[i].parts);
        pg_store_close(s);
    }
}

static void names_what_it_does_not_read(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sparse", "contains the class torch._utils._rebuild_sparse_tensor,"},
        {"quantised", "contains the class torch._utils._rebuild_qtensor,"},
        {"module", "contains the class torch.nn.modules.linear.Linear,"},
        {"parameter_dict",
         "the whole: contains the class torch.nn.modules.container.ParameterDict,"},
        {"parameter_dict_within",
         "model: contains the class torch.nn.modules.container.ParameterDict,"}};
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
    snprintf(path, sizeof path, "%s/extra/checkpoints/imagenet.pth.tar", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_string_equal(
        pg_store_others(s),
        "epoch 5, arch \"resnet18\", best_acc1 71.25, optimizer (6 tensors), scheduler");
    pg_store_close(s);
    snprintf(path, sizeof path, "%s/extra/checkpoints/mae.pth", pg_testdata);
    assert_ok(pg_store_open(&s, path, NULL, NULL));
    assert_string_equal(pg_store_others(s), "optimizer (6 tensors), epoch 5, scaler, args "
                                            "(argparse.Namespace, not read)");
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
static pg_status open_part(pg_store **s, const member *m, const char *part, pg_err *err)
{
    const pg_open_opts opts = {.part = part};
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
    const pg_status st = pg__format_open(s, NULL, io, "m.pt", &opts, err);
    pg__io_close(io);
    pg__sink_close(sink);
    assert_int_equal(rmdir(path), 0);
    return st;
}

static pg_status open_archive(pg_store **s, const member *m, pg_err *err)
{
    return open_part(s, m, NULL, err);
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
#define T      TENSOR(FLOATS, "K\0))") /* a number */
#define DATA   "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40"

static void tells_archives_apart_by_their_members(void **state)
{
    (void)state;
    pg_err err = {0};
    pg_store *s = NULL;
    static const char pickle[] = DICT(STR("\1", "w") T);
    static const member script[] = {
        MEMBER("m/data.pkl", ""), MEMBER("m/code/__torch__.py", ""), {0}};
    static const member constants[] = {
        MEMBER("m/data.pkl", ""), MEMBER("m/constants.pkl", ""), {0}};
    static const member called_code[] = {
        MEMBER("code/data.pkl", pickle), MEMBER("code/data/0", DATA), {0}};
    static const member called_constants[] = {
        MEMBER("constants.pkl/data.pkl", pickle), MEMBER("constants.pkl/data/0", DATA), {0}};
    static const member other[] = {MEMBER("readme.txt", ""), MEMBER("mydata.pkl", ""), {0}};
    static const member two[] = {MEMBER("a/data.pkl", ""), MEMBER("b/data.pkl", ""), {0}};
    assert_fails(PG_E_UNSUPPORTED, open_archive(&s, script, &err), &err);
    assert_non_null(strstr(err.msg, "m.pt: a TorchScript program;"));
    assert_fails(PG_E_UNSUPPORTED, open_archive(&s, constants, &err), &err);
    assert_ok(open_archive(&s, called_code, &err));
    pg_store_close(s);
    assert_ok(open_archive(&s, called_constants, &err));
    pg_store_close(s);
    s = NULL;
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

static void complex_numbers_are_pairs(void **state)
{
    (void)state;
    static const char pickle[] =
        DICT(STR("\1", "w") TENSOR(STORAGE("ComplexFloatStorage") "K\3", "K\1K\2\x85K\1\x85"));
    static const member m[] = {MEMBER("m/data.pkl", pickle), MEMBER("m/data/0", DATA), {0}};
    static const float want[] = {2, 3, 4, 5};
    float got[4];
    pg_err err = {0};
    pg_store *s = NULL;
    if (open_archive(&s, m, &err) != PG_OK)
        fail_msg("%s", err.msg);
    const pg_weight *w = pg_store_weight(s, 0);
    assert_int_equal(w->dtype, PG_F32);
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->dims[0], 2);
    assert_int_equal(w->dims[1], 2);
    assert_ok(pg_store_read(s, 0, 0, got, sizeof got, NULL));
    assert_memory_equal(got, want, sizeof want);
    assert_string_equal(pg_store_others(s), "1 tensor of complex numbers, read as pairs (w)");
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
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\0K\6K\1"), "w: its shape or strides are not a tuple");
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\0N\x85N\x85"), "w: its shape or strides are not sizes");
    REFUSED(PG_E_FORMAT, TENSOR("(", "K\0))"), "w: its storage is not a storage");
    REFUSED(PG_E_FORMAT, TENSOR(STORAGE("FloatStorage") "K\7", "K\0K\6\x85K\1\x85"),
            "w: its data has 24 bytes, the pickle says 28");
    REFUSED(PG_E_FORMAT, TENSOR(STORAGE("DoubleStorage") "K\6", "K\0K\6\x85K\1\x85"),
            "w: its data has 24 bytes, the pickle says 48");
    REFUSED(PG_E_LIMIT, TENSOR(FLOATS, "K\0J\0\0\0\x40J\0\0\0\x40\x86K\0K\0\x86"), "w: ");
    REFUSED(PG_E_FORMAT, TENSOR(FLOATS, "K\0))") STR("\1", "w") TENSOR(FLOATS, "K\0))"),
            "w: this key occurs twice");
    REFUSED(PG_E_UNSUPPORTED,
            REBUILD "(" FLOATS "tQK\0))\x89"
                    "}}" STR("\3", "neg") "\x88stR",
            "w: a view that is negated");
    REFUSED(PG_E_UNSUPPORTED, TENSOR(FLOATS, "K\0))") "K\1" TENSOR(FLOATS, "K\0))"), "not a text");
    REFUSED(PG_E_UNSUPPORTED,
            "ctorch._tensor\n_rebuild_from_type_v2\n(ca.b\nflat\nca.b\nShard\n(" T "t}tR",
            "m.pt: w: contains the class a.b.Shard,");
    REFUSED(PG_E_UNSUPPORTED,
            "ctorch._tensor\n_rebuild_from_type_v2\n(" REBUILD "ca.b\nShard\n(" T "t}tR",
            "m.pt: w: contains the class a.b.Shard,");
    REFUSED(PG_E_UNSUPPORTED,
            TENSOR("(" STR("\7", "storage") "ca.b\nEvil\n" STR("\1", "0") STR("\3", "cpu") "K\6",
                   "K\0K\6\x85K\1\x85"),
            "m.pt: w: contains the class a.b.Evil,");
    REFUSED(
        PG_E_UNSUPPORTED, "ctorch._utils\n_rebuild_qtensor\n(" FLOATS "tQtR",
        "m.pt: w: contains the class torch._utils._rebuild_qtensor, which only Python can build");
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

/* Opens a pickle and returns the names of a part's tensors, or of the model's. */
static void names_of(char *out, size_t cap, const char *pickle, size_t n, const char *part)
{
    const member m[] = {{"m/data.pkl", pickle, n}, MEMBER("m/data/0", DATA), {0}};
    pg_err err = {0};
    pg_store *s = NULL;
    if (open_part(&s, m, part, &err) != PG_OK)
        fail_msg("%s", err.msg);
    out[0] = 0;
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        snprintf(out + strlen(out), cap - strlen(out), "%s%s", i ? " " : "",
                 pg_store_weight(s, i)->name);
    pg_store_close(s);
}

#define V         TENSOR(FLOATS, "K\0K\6\x85K\1\x85")
#define U(what)   "}" what "s"
#define OBJECT(x) "ca.b\nNet\n)\x81}" x "sb"
#define META                                                                                     \
    "ctorch._utils\n_rebuild_meta_tensor_no_storage\n)R" /* called with nothing: nothing is read \
                                                          */
/* An array of NumPy; protocol 2. */
#define ARRAY(type, order, data)                                      \
    "cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" \
    "C\1b\x87R(K\1K\1\x85"                                            \
    "cnumpy\ndtype\n" STR("\2", type) "\x89\x88\x87R(K\3" STR(        \
        "\1", order) "NNNJ\xff\xff\xff\xff"                           \
                     "J\xff\xff\xff\xffK\0tb\x89" data "tb"
#define OPTIM \
    "}(" STR("\5", "state") "}K\0}" STR("\7", "exp_avg") V "ss" STR("\14", "param_groups") "]u"

static void finds_the_model_in_a_checkpoint(void **state)
{
    (void)state;
    static const struct {
        const char *pickle;
        size_t n;
        const char *part, *names;
    } cases[] = {
#define CASE(text, part, names) {text, sizeof(text) - 1, part, names}
        CASE(DICT(STR("\1", "a") T STR("\1", "b") "N" STR("\1", "c") T), NULL, "a c"),
        CASE(DICT(STR("\1", "x") U(STR("\1", "a") T) STR("\5", "model") U(STR("\1", "b") T)), NULL,
             "b"),
        CASE(DICT(STR("\1", "x") U(STR("\1", "a") T) STR("\1", "n") "K\3"), NULL, "a"),
        CASE(DICT(STR("\1", "l") "]" U(STR("\1", "a") T) "a"), NULL, "a"),
        CASE(DICT("K\7}K\5]" T "as"), NULL, "0"),
        CASE("\x80\2" T ".", NULL, "tensor"),
        CASE("\x80\2]" T "a" T "a.", NULL, "0 1"),
        /* numbers and training's own state beside it */
        CASE(DICT(STR("\4", "loss") T STR("\3", "net") U(STR("\1", "w") V) STR("\3", "opt") OPTIM),
             NULL, "w"),
        CASE(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\7", "metrics") U(STR("\1", "a") T)),
             NULL, "w"),
        CASE(DICT(STR("\1", "w") V STR("\3", "any") OPTIM), NULL, "w"),
        CASE(DICT(STR("\4", "args") OBJECT(STR("\1", "a") "K\1") STR("\3", "net")
                      U(STR("\1", "w") V)),
             NULL, "w"),
        /* one value under two keys is one part */
        CASE(DICT(STR("\1", "a") U(STR("\1", "w") V) "q\1" STR("\1", "b") "h\1"), NULL, "w"),
        /* a key alone makes no training state of what a model would have */
        CASE(DICT(STR("\3", "opt") U(STR("\1", "d") U(STR("\3", "a.w") V))), NULL, "a.w"),
        CASE(DICT(STR("\6", "scaler") U(STR("\5", "scale") T) STR("\3", "net") U(STR("\1", "w") V)),
             NULL, "w"),
        /* a module's extra state is its own */
        CASE(DICT(STR("\3", "a.w") V STR("\3", "a.x") U(STR("\1", "s") V)), NULL, "a.w a.x.s"),
        /* the value that was found, not another one that its path leads to */
        CASE(DICT(STR("\1", "a") U(STR("\1", "b") U(STR("\1", "e") "K\3")) STR("\3", "a.b")
                      U(STR("\1", "w") V)),
             NULL, "w"),
        CASE(DICT(STR("\1", "a") U(STR("\1", "b") U(STR("\1", "e") "K\3")) STR("\3", "a.b")
                      U(STR("\1", "w") V)),
             "a.b", "w"),
        /* single numbers that are a model's by its key, or by their names */
        CASE(DICT(STR("\5", "model") U(STR("\1", "k") T) STR("\1", "m") U(STR("\1", "a") T)), NULL,
             "k"),
        CASE(DICT(STR("\1", "x") U(STR("\6", "weight") T) STR("\1", "m") U(STR("\1", "a") T)), NULL,
             "weight"),
        CASE(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\3", "opt")
                      U(STR("\5", "state") "]" U(STR("\1", "m") V) "a")),
             NULL, "w"),
        /* beside a model a key counts, within one it does not */
        CASE(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\3", "opt") U(STR("\1", "k") T)), NULL,
             "w"),
        CASE(DICT(STR("\3", "a.w") V STR("\3", "opt") U(STR("\1", "k") V)), NULL, "a.w opt.k"),
        /* what is no tensor may stand in a model */
        CASE(DICT(STR("\1", "w") V STR("\1", "s") ARRAY("S1", "|", "C\1a")), NULL, "w"),
        CASE(DICT(STR("\1", "w") V STR("\1", "a") "ctorch.nn.modules\nReLU\n)\x81"), NULL, "w"),
        /* parts by name */
        CASE(DICT(STR("\1", "G") U(STR("\1", "a") V) STR("\1", "D") U(STR("\1", "b") V)), "D", "b"),
        CASE(DICT(STR("\1", "G") U(STR("\1", "a") V) STR("\1", "D") U(STR("\1", "b") V)), ".",
             "G.a D.b"),
        CASE(DICT(STR("\1", "n") U(STR("\1", "G") U(STR("\1", "a") V)) STR("\1", "w") V), "n.G",
             "a"),
        CASE(DICT(STR("\3", "n.G") U(STR("\1", "a") V) STR("\1", "n") U(STR("\1", "b") V)), "n.G",
             "a"),
        CASE(DICT(STR("\1", "l") "](" U(STR("\1", "a") V) U(STR("\1", "b") V) "e"), "l.1", "b"),
        CASE(DICT(STR("\1", "q") V STR("\3", "net") U(STR("\1", "w") V)), "q", "q"),
        CASE(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\3", "opt") OPTIM), "opt",
             "state.0.exp_avg"),
        CASE(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\3", "opt") OPTIM), "", ""),
    };
    char got[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        names_of(got, sizeof got, cases[i].pickle, cases[i].n, cases[i].part);
        assert_string_equal(got, cases[i].names);
    }
}

/* An array of NumPy in the other byte order beside the model; a path that is not left behind. */
static void tells_numbers_of_any_byte_order(void **state)
{
    (void)state;
    static const char pickle[] = DICT(STR("\2", "lr") ARRAY("f4", ">", "C\4\x3f\x80\0\0") STR(
        "\5", "model") "}(" STR("\3", "net") U(STR("\1", "w") V) STR("\4", "step") "K\4u");
    static const member m[] = {MEMBER("m/data.pkl", pickle), MEMBER("m/data/0", DATA), {0}};
    pg_err err = {0};
    pg_store *s = NULL;
    if (open_archive(&s, m, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(pg_store_others(s), "lr 1, model.step 4");
    pg_store_close(s);
}

static void goes_down_a_limited_number_of_containers(void **state)
{
    enum { DEEP = PG_LIMIT_PICKLE_DEPTH + 2 };
    static const char in[] = "}" STR("\1", "a"), tensor[] = V;
    char pickle[2 + DEEP * sizeof in + sizeof tensor + 1] = "\x80\2";
    size_t n = 2;
    (void)state;
    for (size_t i = 0; i < DEEP; i++, n += sizeof in - 1)
        memcpy(pickle + n, in, sizeof in - 1);
    memcpy(pickle + n, tensor, sizeof tensor - 1);
    n += sizeof tensor - 1;
    memset(pickle + n, 's', DEEP);
    n += DEEP;
    pickle[n++] = '.';
    const member m[] = {{"m/data.pkl", pickle, n}, {"m/data/0", DATA, sizeof DATA - 1}, {0}};
    pg_err err = {0};
    pg_store *s = NULL;
    assert_fails(PG_E_LIMIT, open_archive(&s, m, &err), &err);
}

/* A dictionary that names one value n times, which names a number n times. */
static void looks_at_every_value_once(void **state)
{
    (void)state;
    enum { TIMES = 10000 };
    static char pickle[64 + 8 * TIMES];
    size_t n = 0;
    static const char head[] = "\x80\2}q\1(" STR("\7", "exp_avg") "q\0N",
                      mid[] = "u0}(" STR("\1", "k") "q\2h\1";
    memcpy(pickle, head, sizeof head - 1);
    n = sizeof head - 1;
    for (size_t i = 0; i < TIMES; i++, n += 4)
        memcpy(pickle + n, "h\0K\1", 4);
    memcpy(pickle + n, mid, sizeof mid - 1);
    n += sizeof mid - 1;
    for (size_t i = 0; i < TIMES; i++, n += 4)
        memcpy(pickle + n, "h\2h\1", 4);
    memcpy(pickle + n, "u.", 2);
    n += 2;
    const member m[] = {{"m/data.pkl", pickle, n}, {0}};
    pg_err err = {0};
    pg_store *s = NULL;
    const clock_t start = clock();
    assert_fails(PG_E_LIMIT, open_archive(&s, m, &err), &err);
    assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
}

/* One array under very many names is kept once, and all of them together are refused. */
static void keeps_one_array_of_many_names_once(void **state)
{
    (void)state;
    enum { NAMES = 20000, BYTES = 1 << 20, ROOM = 1 << 10 };
    static const char head[] =
        "\x80\2}(" STR("\5", "first") "cnumpy._core.multiarray\n_reconstruct\n"
                                      "cnumpy\nndarray\nK\0\x85"
                                      "C\1b\x87R(K\1J\0\0\x10\0\x85"
                                      "cnumpy\ndtype\n" STR("\2", "u1") "\x89\x88\x87R(K\3" STR(
                                          "\1", "|") "NNNJ\xff\xff\xff\xff"
                                                     "J\xff\xff\xff\xffK\0tb\x89"
                                                     "B\0\0\x10\0";
    static const char tail[] = "tbq\1";
    char *pickle = test_malloc(BYTES + ROOM + NAMES * 12);
    pg_err err = {0};
    pg_store *s = NULL;
    size_t n = sizeof head - 1;
    memcpy(pickle, head, n);
    memset(pickle + n, 7, BYTES);
    n += BYTES;
    memcpy(pickle + n, tail, sizeof tail - 1);
    n += sizeof tail - 1;
    for (size_t i = 0; i < NAMES; i++, n += 12) {
        char key[8];
        snprintf(key, sizeof key, "%05zu", i);
        memcpy(pickle + n, "X\5\0\0\0", 5);
        memcpy(pickle + n + 5, key, 5);
        memcpy(pickle + n + 10, "h\1", 2);
    }
    memcpy(pickle + n, "u.", 2);
    const member all[] = {{"m/data.pkl", pickle, n + 2}, {0}};
    const clock_t start = clock();
    assert_fails(PG_E_LIMIT, open_archive(&s, all, &err), &err);
    assert_non_null(strstr(err.msg, "bytes to 20,972,568,576"));
    assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
    n -= (NAMES - 2) * 12;
    memcpy(pickle + n, "u.", 2);
    const member few[] = {{"m/data.pkl", pickle, n + 2}, {0}};
    assert_ok(open_archive(&s, few, &err));
    assert_int_equal(pg_store_n_weights(s), 3);
    for (size_t i = 0; i < 3; i++) {
        unsigned char got[2] = {0};
        assert_ok(pg_store_read(s, i, BYTES - 2, got, 2, NULL));
        assert_memory_equal(got, "\7\7", 2);
    }
    pg_store_close(s);
    test_free(pickle);
}

static void asks_and_refuses_rather_than_guesses(void **state)
{
    (void)state;
    static const struct {
        const char *pickle;
        size_t n;
        const char *part;
        pg_status code;
        const char *say;
    } cases[] = {
#define ASKS(text, part, code, say) {text, sizeof(text) - 1, part, code, say}
        ASKS(DICT(STR("\1", "G") U(STR("\1", "a") V) STR("\1", "D") U(STR("\1", "a") V)), NULL,
             PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        ASKS(DICT(STR("\1", "G") U(STR("\1", "a") T) STR("\1", "D") U(STR("\1", "a") T)), NULL,
             PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        ASKS(DICT(STR("\5", "queue") V STR("\5", "model") U(STR("\1", "w") V)), NULL,
             PG_E_AMBIGUOUS, "m.pt: tensors beside \"model\" could belong to the model"),
        ASKS(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\1", "m") OBJECT(STR("\1", "w") V)),
             NULL, PG_E_AMBIGUOUS, "m.pt: tensors beside \"net\""),
        ASKS(DICT(STR("\1", "m") OBJECT(STR("\1", "w") V)), NULL, PG_E_UNSUPPORTED,
             "m.pt: m: contains the class a.b.Net,"),
        ASKS(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\1", "m") OBJECT(STR("\1", "w") V)),
             "m", PG_E_UNSUPPORTED, "m.pt: m: contains the class a.b.Net,"),
        ASKS(
            DICT(STR("\6", "scaler") U(STR("\4", "mean") V) STR("\5", "model") U(STR("\1", "w") V)),
            NULL, PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        ASKS(DICT(STR("\3", "opt") U(STR("\1", "d") U(STR("\1", "v") V)) STR("\3", "net")
                      U(STR("\1", "w") V)),
             NULL, PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        ASKS(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\3", "opt") U(STR("\1", "k") V)), NULL,
             PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        ASKS(
            DICT(STR("\6", "random") U(STR("\4", "proj") V) STR("\5", "model") U(STR("\1", "w") V)),
            NULL, PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        ASKS(DICT(STR("\1", "w") V STR("\1", "v") OBJECT(STR("\1", "w") V)), NULL, PG_E_AMBIGUOUS,
             "m.pt: tensors beside \"w\""),
        ASKS(DICT(STR("\3", "a.w") V STR("\3", "a.v") OBJECT(STR("\1", "w") V)), NULL,
             PG_E_UNSUPPORTED, "m.pt: a.v: contains the class a.b.Net,"),
        ASKS("\x80\2" OPTIM ".", NULL, PG_E_UNSUPPORTED,
             "m.pt: the state of an optimizer, not a model"),
        ASKS(DICT(STR("\4", "loss") T STR("\3", "opt") OPTIM), NULL, PG_E_UNSUPPORTED,
             "m.pt: \"opt\" is the state of an optimizer, not a model"),
        ASKS(DICT(STR("\3", "net") U(STR("\1", "w") V)), "nett", PG_E_ARG,
             "m.pt: no part \"nett\" is in this file"),
        ASKS("\x80\2N.", NULL, PG_E_UNSUPPORTED, "m.pt: a PyTorch file without tensors"),
        ASKS("\x80\2" OBJECT(STR("\1", "a") "K\1") ".", NULL, PG_E_UNSUPPORTED,
             "m.pt: a pickled a.b.Net without tensors, not a model"),
        ASKS("\x80\2}.", NULL, PG_E_UNSUPPORTED, "m.pt: a PyTorch file that holds no tensors"),
        ASKS(DICT(STR("\3", "net") U(STR("\1", "w") V) STR("\1", "s") U(STR("\1", "e") "K\3")), "s",
             PG_E_UNSUPPORTED, "m.pt: s holds no tensors"),
        /* tensors that are not read, within a model */
        ASKS(DICT(STR("\3", "a.w") V STR("\3", "b.w") META), NULL, PG_E_UNSUPPORTED,
             "m.pt: b.w: contains the class torch._utils._rebuild_meta_tensor_no_storage,"),
        ASKS(DICT(STR("\3", "a.w") V STR("\3", "b.w") "ctorch.nn.parameter\nUninitialised\n)R"),
             NULL, PG_E_UNSUPPORTED,
             "m.pt: b.w: contains the class torch.nn.parameter.Uninitialised,"),
        ASKS(DICT(STR("\3", "a.w") V STR("\3", "b.w") ARRAY("c8", "<", "C\1a")), NULL,
             PG_E_UNSUPPORTED, "m.pt: b.w: NumPy's type c8 is not supported"),
        ASKS(DICT(STR("\3", "a.w") V STR("\3", "b.w") "ctorch._utils\n_rebuild_parameter\n(" META
                                                      "\x88}tR"),
             NULL, PG_E_UNSUPPORTED,
             "m.pt: b.w: contains the class torch._utils._rebuild_meta_tensor_no_storage,"),
        ASKS(DICT(STR("\5", "model") U(STR("\1", "d") U(STR("\1", "k") META))), NULL,
             PG_E_UNSUPPORTED,
             "m.pt: k: contains the class torch._utils._rebuild_meta_tensor_no_storage,"),
        /* sparse beside direct tensors: no part of its own */
        ASKS(DICT(STR("\3", "a.w") "ctorch._utils\n_rebuild_sparse_tensor\n(" V V V
                                   "tR" STR("\3", "a.b") V),
             NULL, PG_E_UNSUPPORTED, "m.pt: a.w: contains the class torch._utils._rebuild_sparse"),
        /* models of single numbers */
        ASKS(DICT(STR("\5", "model") U(STR("\6", "weight") T) STR("\3", "ema")
                      U(STR("\6", "weight") T)),
             NULL, PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        ASKS(DICT(STR("\5", "model") U(STR("\6", "weight") T) STR("\1", "m") U(STR("\1", "h") V)),
             NULL, PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        /* one path, two values */
        ASKS(DICT(STR("\1", "a") U(STR("\1", "b") U(STR("\1", "w") V)) STR("\3", "a.b")
                      U(STR("\1", "w") V)),
             "a.b", PG_E_AMBIGUOUS, "m.pt: two parts are called \"a.b\""),
        ASKS(DICT(STR("\1", "a") U(STR("\1", "b") U(STR("\1", "e") "K\3"))
                      STR("\3", "a.b") "N" STR("\1", "w") V),
             "a.b", PG_E_AMBIGUOUS, "m.pt: \"a.b\" leads to two values"),
        /* a key such as "opt" within a model */
        ASKS(DICT(STR("\1", "e") V STR("\3", "opt") U(STR("\1", "w") V) STR("\1", "o") V), NULL,
             PG_E_AMBIGUOUS, "m.pt: tensors beside \"opt\""),
        ASKS(DICT(STR("\5", "model") "}(" STR("\1", "e") U(STR("\6", "weight") V) STR("\3", "opt")
                      U(STR("\1", "k") V) "u"),
             NULL, PG_E_AMBIGUOUS, "m.pt: 2 parts could be the model"),
        /* a cycle, through a dictionary and through an object */
        ASKS("\x80\2}q\1" STR("\1", "a") "h\1s" STR("\1", "w") V "s.", NULL, PG_E_LIMIT, "m.pt: "),
        ASKS("\x80\2"
             "ca.b\nNet\n)\x81q\1}" STR("\1", "a") "h\1sb.",
             NULL, PG_E_UNSUPPORTED, "m.pt: a pickled a.b.Net without tensors"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const member m[] = {
            {"m/data.pkl", cases[i].pickle, cases[i].n}, MEMBER("m/data/0", DATA), {0}};
        pg_err err = {0};
        pg_store *s = NULL;
        if (open_part(&s, m, cases[i].part, &err) != cases[i].code ||
            !strstr(err.msg, cases[i].say))
            fail_msg("case %zu, \"%s\" expected: %s", i, cases[i].say, err.msg);
        assert_null(s);
    }
}

PG_TEST_MAIN(cmocka_unit_test(reads_what_torch_wrote),
             cmocka_unit_test(reads_types_views_and_parameters),
             cmocka_unit_test(takes_no_key_or_length_for_training),
             cmocka_unit_test(names_what_it_does_not_read),
             cmocka_unit_test(tells_what_else_a_checkpoint_holds),
             cmocka_unit_test(names_the_tar_files_of_old),
             cmocka_unit_test(tells_archives_apart_by_their_members),
             cmocka_unit_test(reads_views_through_their_strides),
             cmocka_unit_test(complex_numbers_are_pairs),
             cmocka_unit_test(refuses_tensors_that_do_not_add_up),
             cmocka_unit_test(refuses_the_other_byte_order),
             cmocka_unit_test(finds_the_model_in_a_checkpoint),
             cmocka_unit_test(tells_numbers_of_any_byte_order),
             cmocka_unit_test(goes_down_a_limited_number_of_containers),
             cmocka_unit_test(looks_at_every_value_once),
             cmocka_unit_test(keeps_one_array_of_many_names_once),
             cmocka_unit_test(asks_and_refuses_rather_than_guesses),
             cmocka_unit_test(finds_the_model_in_what_programs_save),
             cmocka_unit_test(says_what_is_no_model_or_not_one),
             cmocka_unit_test(lists_the_parts_of_a_checkpoint))
