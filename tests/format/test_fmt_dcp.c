#include "format/dcp_text.h"
#include "format/modern.h"

#include <sys/stat.h>
#include <unistd.h>

#include "format/dcp.h"

static void puts_every_checkpoint_together(void **state)
{
    (void)state;
    static const struct {
        const char *checkpoint, *expected, *prefix;
    } rows[] = {
        {"dcp-fsdp2/ckpt", "dcp-fsdp2/expected.safetensors", ""},
        {"dcp-fsdp2-flatroot/ckpt", "dcp-fsdp2-flatroot/expected.safetensors", ""},
        {"dcp-tp-fsdp2/ckpt", "dcp-tp-fsdp2/expected.safetensors", ""},
        {"dcp-hsdp/ckpt", "dcp-hsdp/expected.safetensors", ""},
        {"dcp-ddp/ckpt", "dcp-ddp/expected.safetensors", "module."},
        {"dcp-dtypes/ckpt", "dcp-dtypes/expected.safetensors", ""},
        {"dcp-file-per-item/ckpt", "dcp-file-per-item/expected.safetensors", ""},
        {"dcp-fsdp1-sharded/pytorch_model_fsdp_0", "dcp-fsdp1-sharded/expected.safetensors", ""},
        {"dcp-fsdp1-sharded", "dcp-fsdp1-sharded/expected.safetensors", ""}, /* the folder above */
        {"dcp-fsdp2/ckpt/__1_0.distcp", "dcp-fsdp2/expected.safetensors", ""},
        {"dcp-fsdp2/ckpt/.metadata", "dcp-fsdp2/expected.safetensors", ""},
        {"megatron-dist/ckpt", "megatron-dist/expected.safetensors", ""},
        {"megatron-dist/ckpt/latest_checkpointed_iteration.txt",
         "megatron-dist/expected.safetensors", ""},
        {"megatron-single/ckpt", "megatron-single/expected.safetensors", ""},
#ifdef PG_HAVE_ZSTD
        {"dcp-zstd/ckpt", "dcp-zstd/expected.safetensors", ""},
#endif
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        modern_check(rows[i].checkpoint, rows[i].expected, rows[i].prefix);
}

static pg_status read_text(pg__dcp *d, const pg__str *t, pg_err *err)
{
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, t->s, t->n, NULL));
    const pg_status st = pg__dcp_read(d, io, err);
    pg__io_close(io);
    return st;
}

/* Names of a part, joined with spaces; "?" before the message of an error. */
static void names_of(char *out, size_t cap, const pg__dcp *d, const char *part)
{
    pg__dcp_part p = {0};
    pg_err err = {0};
    *out = 0;
    if (pg__dcp_part_of(&p, d, part, &err) != PG_OK)
        snprintf(out, cap, "? %.*s", (int)cap - 3, err.msg);
    for (size_t i = 0; i < p.n; i++)
        snprintf(out + strlen(out), cap - strlen(out), "%s%s", i ? " " : "", p.names.v[i]);
    pg__dcp_part_fini(&p);
}

static void expect_part(const dcp_row *rows, size_t n, const char *part, const char *want)
{
    char got[512];
    pg_err err = {0};
    pg__str t = {0};
    pg__dcp d = {0};
    dcp_text(&t, rows, n, 0);
    if (read_text(&d, &t, &err) != PG_OK)
        fail_msg("%s", err.msg);
    names_of(got, sizeof got, &d, part);
    assert_string_equal(got, want);
    pg__dcp_fini(&d);
    pg__str_fini(&t);
}

#define EXPECT_PART(rows, part, want) expect_part(rows, sizeof(rows) / sizeof *(rows), part, want)

static void tells_training_by_names_without_keys(void **state)
{
    (void)state;
    static const dcp_row megatron[] = {
        {"decoder.a.weight", NULL, 3, NULL},
        {"optimizer.state.exp_avg.decoder.a.weight", NULL, 3, NULL},
        {"optimizer.state.fp32_param.decoder.a.weight", NULL, 3, NULL},
        {"rng_state", NULL, 9, NULL}};
    EXPECT_PART(megatron, NULL, "decoder.a.weight");
    EXPECT_PART(megatron, "optimizer.state",
                "exp_avg.decoder.a.weight fp32_param.decoder.a.weight");
    static const dcp_row flat[] = {{"model.a", NULL, 3, NULL},
                                   {"model.a.exp_avg", NULL, 3, NULL},
                                   {"model.a.step", NULL, 1, NULL},
                                   {"model.ema.step", NULL, 1, NULL}};
    EXPECT_PART(flat, NULL, "model.a model.ema.step");
    EXPECT_PART(flat, "model", "a a.exp_avg a.step ema.step");
    EXPECT_PART(flat, "mode", "? no part \"mode\" is in this checkpoint");
}

/* get_state_dict(flatten_optimizer_state_dict=True) beside the model's own tensors. */
static void tells_flattened_slots_from_weights(void **state)
{
    (void)state;
    static const dcp_row rows[] = {{"opt.a", "opt.a", 3, NULL},
                                   {"opt.ema.step", "opt.ema.step", 1, NULL},
                                   {"state.opt.a.exp_avg", "state.opt.a.exp_avg", 3, NULL},
                                   {"state.opt.a.step", "state.opt.a.step", 1, NULL}};
    EXPECT_PART(rows, NULL, "opt.a opt.ema.step");
    EXPECT_PART(rows, "state", "opt.a.exp_avg opt.a.step");
}

static void takes_no_random_state_for_the_model(void **state)
{
    (void)state;
    static const dcp_row rows[] = {{"model.a", "model/a", 3, NULL},
                                   {"optim.a.exp_avg", "optim/a/exp_avg", 3, NULL},
                                   {"optimizer_0.b.x", "optimizer_0/b/x", 3, NULL},
                                   {"rng_state", "rng_state", 9, NULL}};
    EXPECT_PART(rows, NULL, "a");
    EXPECT_PART(rows, "model.a", "a");
    EXPECT_PART(rows, ".", "model.a optim.a.exp_avg optimizer_0.b.x rng_state");
    static const dcp_row root[] = {{"a.b", "a.b", 3, NULL}, {"rng_state", "rng_state", 9, NULL}};
    EXPECT_PART(root, NULL, "a.b");
}

/* .metadata of 256 ranks has more remembered values than a compressed pickle may have. */
static void reads_the_metadata_of_many_ranks(void **state)
{
    (void)state;
    const dcp_row row = {"a", NULL, 110000, NULL};
    pg__str t = {0};
    pg__dcp d = {0};
    pg_err err = {0};
    dcp_text(&t, &row, 1, 10);
    if (read_text(&d, &t, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(d.v[0].tiled.n, 110000);
    pg__dcp_fini(&d);
    pg__str_fini(&t);
}

/* One list of chunks, or one key, that all tensors share by reference. */
static void limits_what_is_shared(void **state)
{
    (void)state;
    static const dcp_row row = {"a", NULL, 2000, NULL};
    pg__str t = {0};
    pg__dcp d = {0};
    pg_err err = {0};
    dcp_begin(&t);
    DCP_WORD(&t, row.name);
    dcp_new(&t, DCP_META, "TensorStorageMetadata");
    DCP_WORD(&t, "properties");
    DCP_PUT(&t, "c" DCP_META "\nTensorProperties\n)\x81(ctorch\nfloat32\nNtb");
    DCP_WORD(&t, "size");
    dcp_size(&t, row.n);
    DCP_WORD(&t, "chunks");
    dcp_chunks(&t, row.n, 0);
    DCP_PUT(&t, "ubq\1");
    for (int i = 0; i < 1000; i++) {
        DCP_WORD(&t, row.name);
        DCP_PUT(&t, "h\1");
    }
    dcp_end(&t, &row, 1);
    assert_fails(PG_E_LIMIT, read_text(&d, &t, &err), &err);
    pg__str_fini(&t);
}

static void limits_keys_that_are_shared(void **state)
{
    (void)state;
    enum { LONG = 60000, SHORT = 200 };
    char *name = calloc(LONG + 1, 1);
    pg__str t = {0};
    pg__dcp d = {0};
    pg_err err = {0};
    dcp_row rows[SHORT];
    char names[SHORT][8];
    memset(name, 'k', LONG);
    dcp_begin(&t);
    for (size_t i = 0; i < SHORT; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        rows[i] = (dcp_row){names[i], NULL, 1, NULL};
        dcp_tensor(&t, &rows[i], 0);
    }
    DCP_PUT(&t, "u");
    DCP_WORD(&t, "planner_data");
    DCP_PUT(&t, "}(");
    for (size_t i = 0; i < SHORT; i++) {
        DCP_WORD(&t, names[i]);
        if (i == 0) {
            DCP_PUT(&t, "(");
            for (int k = 0; k < 60; k++) {
                if (k == 0)
                    dcp_word(&t, name, LONG);
                dcp_put(&t, k ? "h\2" : "q\2", 2);
            }
            DCP_PUT(&t, "tq\3");
        } else {
            DCP_PUT(&t, "h\3");
        }
    }
    DCP_PUT(&t, "u");
    DCP_WORD(&t, "storage_data");
    DCP_PUT(&t, "}(");
    for (size_t i = 0; i < SHORT; i++)
        dcp_place(&t, names[i], 0, 0);
    DCP_PUT(&t, "uub.");
    assert_fails(PG_E_LIMIT, read_text(&d, &t, &err), &err);
    assert_non_null(strstr(err.msg, "shared too often"));
    pg__str_fini(&t);
    free(name);
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void open_rows(pg_store **s, const dcp_row *rows, size_t n, pg_err *err)
{
    static const char data[4096];
    char folder[] = "/tmp/pg-dcp-XXXXXX", path[512];
    pg__str t = {0};
    assert_non_null(mkdtemp(folder));
    dcp_text(&t, rows, n, 0);
    write_file(folder, ".metadata", t.s, t.n);
    write_file(folder, "__0_0.distcp", data, sizeof data);
    *s = NULL;
    *err = (pg_err){0};
    const pg_status st = pg_store_open(s, folder, NULL, err);
    assert_int_equal(st, err->code);
    snprintf(path, sizeof path, "%s/.metadata", folder);
    (void)unlink(path);
    snprintf(path, sizeof path, "%s/__0_0.distcp", folder);
    (void)unlink(path);
    (void)rmdir(folder);
    pg__str_fini(&t);
}

static void counts_ranks(void **state)
{
    (void)state;
    pg_store *s = NULL;
    assert_ok(pg_store_open(&s, modern_path("megatron-dist/ckpt"), NULL, NULL));
    assert_int_equal(pg_store_n_rank_counts(s), 1);
    assert_string_equal(pg_store_rank_count(s, 0)->kind, "ranks");
    assert_int_equal(pg_store_rank_count(s, 0)->n, 4);
    assert_null(pg_store_rank_count(s, 1));
    pg_store_close(s);
}

static void lists_training_of_unknown_types(void **state)
{
    (void)state;
    static const dcp_row rows[] = {{"model.a", "model/a", 3, NULL},
                                   {"optimizer.x", "optimizer/x", 3, "bits16"},
                                   {"optimizer.y", "optimizer/y", 3, NULL}};
    static const dcp_row model[] = {{"model.a", "model/a", 3, "bits16"}};
    pg_store *s = NULL;
    pg_err err;
    open_rows(&s, rows, 3, &err);
    if (!s)
        fail_msg("%s", err.msg);
    assert_int_equal(pg_store_n_weights(s), 1);
    assert_int_equal(pg_store_n_state(s), 1);
    assert_non_null(strstr(pg_store_others(s), "1 tensor of a type that is not supported"));
    pg_store_close(s);
    open_rows(&s, model, 1, &err);
    assert_null(s);
    assert_int_equal(err.code, PG_E_UNSUPPORTED);
}

PG_TEST_MAIN(cmocka_unit_test(puts_every_checkpoint_together),
             cmocka_unit_test(tells_training_by_names_without_keys),
             cmocka_unit_test(tells_flattened_slots_from_weights),
             cmocka_unit_test(takes_no_random_state_for_the_model),
             cmocka_unit_test(reads_the_metadata_of_many_ranks),
             cmocka_unit_test(limits_what_is_shared), cmocka_unit_test(limits_keys_that_are_shared),
             cmocka_unit_test(counts_ranks), cmocka_unit_test(lists_training_of_unknown_types))
