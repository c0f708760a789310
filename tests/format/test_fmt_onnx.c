#include "pg_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proto.h"
#include "format/onnx.h"

/* ---- files, field by field ---- */

static void put(pg__str *to, uint32_t number, const void *p, size_t n)
{
    assert_ok(pg__proto_put_bytes(to, number, p, n, NULL));
}
static void put_text(pg__str *to, uint32_t number, const char *text)
{
    assert_ok(pg__proto_put_text(to, number, text, NULL));
}
static void put_int(pg__str *to, uint32_t number, int64_t v)
{
    assert_ok(pg__proto_put_int(to, number, v, NULL));
}

/* A tensor of this type and shape (3, 2), without data. */
static pg__str tensor(const char *name, int64_t type)
{
    pg__str t = {0};
    put_int(&t, PG_ONNX_DIMS, 3);
    put_int(&t, PG_ONNX_DIMS, 2);
    put_int(&t, PG_ONNX_DATA_TYPE, type);
    put_text(&t, PG_ONNX_TENSOR_NAME, name);
    return t;
}

static void put_external(pg__str *to, const char *key, const char *value)
{
    pg__str entry = {0};
    put_text(&entry, PG_ONNX_KEY, key);
    put_text(&entry, PG_ONNX_VALUE, value);
    put(to, PG_ONNX_EXTERNAL, entry.s, entry.n);
    pg__str_fini(&entry);
}

/* A model whose graph has this tensor, which it releases; its node has so many operands. */
static pg__str model_of(pg__str *t, size_t n_in)
{
    pg__str m = {0}, graph = {0}, opset = {0}, node = {0};
    for (size_t k = 0; k < n_in; k++)
        put_text(&node, PG_ONNX_NODE_INPUT,
                 "of a name of seventy characters, as layers in blocks of blocks have it");
    put_text(&node, PG_ONNX_NODE_OP, "Relu");
    put(&graph, PG_ONNX_NODE, node.s, node.n);
    put_text(&graph, PG_ONNX_GRAPH_NAME, "g");
    if (t) {
        put(&graph, PG_ONNX_INITIALIZER, t->s, t->n);
        pg__str_fini(t);
    }
    put_int(&opset, PG_ONNX_OPSET_VERSION, 17);
    put_int(&m, PG_ONNX_IR_VERSION, 8);
    put_text(&m, PG_ONNX_PRODUCER, "somebody");
    put(&m, PG_ONNX_GRAPH, graph.s, graph.n);
    put(&m, PG_ONNX_OPSET, opset.s, opset.n);
    pg__str_fini(&node);
    pg__str_fini(&graph);
    pg__str_fini(&opset);
    return m;
}

static pg__str model(pg__str *t)
{
    return model_of(t, 0);
}

static pg_status open_bytes(pg_store **s, const pg__str *m, const char *path, pg_err *err)
{
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, m->s, m->n, NULL));
    const pg_status st = pg__fmt_onnx.open(s, io, path, NULL, err);
    pg__io_close(io);
    return st;
}

static pg_store *opened(const pg__str *m)
{
    pg_store *s = NULL;
    pg_err err = {0};
    if (open_bytes(&s, m, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

static void refuses(pg__str *m, const char *path, pg_status code, const char *say)
{
    pg_store *s = NULL;
    pg_err err = {0};
    assert_fails(code, open_bytes(&s, m, path, &err), &err);
    if (!strstr(err.msg, say))
        fail_msg("\"%s\" expected: %s", say, err.msg);
    assert_null(s);
    pg__str_fini(m);
}

static const float six[] = {1, 2, 3, 4, 5, 6.5F};

static void expect_six(pg_store *s)
{
    float got[6];
    const pg_weight *w = pg_store_weight(s, 0);
    assert_int_equal(pg_store_n_weights(s), 1);
    assert_string_equal(w->name, "w");
    assert_true(w->rank == 2 && w->dims[0] == 3 && w->dims[1] == 2);
    assert_int_equal(w->dtype, PG_F32);
    assert_ok(pg_store_read(s, 0, 0, got, sizeof got, NULL));
    assert_memory_equal(got, six, sizeof six);
}

/* ---- reading ---- */

static void reads_raw_data(void **state)
{
    (void)state;
    pg__str t = tensor("w", 1);
    put(&t, PG_ONNX_RAW, six, sizeof six);
    pg__str m = model(&t);
    pg_store *s = opened(&m);
    expect_six(s);
    assert_string_equal(pg_store_format(s), "onnx");
    assert_string_equal(pg_store_writer(s), "somebody");
    assert_non_null(strstr(pg_store_others(s), "1 node, opset 17"));
    pg_store_close(s);
    pg__str_fini(&m);
}

static void reads_typed_data(void **state)
{
    (void)state;
    static const char numbers[] =
        "\x00\x01\x7f\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05";
    static const int64_t want[] = {0, 1, 127, 128, -1, 5};
    int64_t got[6];
    pg__str t = tensor("w", 1), u = tensor("ids", 7);
    put(&t, PG_ONNX_FLOAT_DATA, six, sizeof six);
    put(&u, PG_ONNX_INT64_DATA, numbers, sizeof numbers - 1);
    pg__str m = model(&t), k = model(&u);
    pg_store *s = opened(&m), *ids = opened(&k);
    expect_six(s);
    assert_int_equal(pg_store_weight(ids, 0)->dtype, PG_I64);
    assert_ok(pg_store_read(ids, 0, 0, got, sizeof got, NULL));
    assert_memory_equal(got, want, sizeof want);
    pg_store_close(s);
    pg_store_close(ids);
    pg__str_fini(&m);
    pg__str_fini(&k);
}

static void counts_what_it_does_not_read(void **state)
{
    (void)state;
    pg__str t = tensor("w", 1), m = {0}, graph = {0}, opset = {0};
    put(&t, PG_ONNX_RAW, six, sizeof six);
    put(&graph, PG_ONNX_INITIALIZER, t.s, t.n);
    put(&graph, PG_ONNX_SPARSE, "", 0);
    put_int(&opset, PG_ONNX_OPSET_VERSION, 17);
    put_int(&m, PG_ONNX_IR_VERSION, 8);
    put(&m, PG_ONNX_GRAPH, graph.s, graph.n);
    put(&m, PG_ONNX_OPSET, opset.s, opset.n);
    pg_store *s = opened(&m);
    expect_six(s);
    assert_non_null(strstr(pg_store_others(s), "; 1 initialiser of types that are not read"));
    pg_store_close(s);
    pg__str_fini(&t);
    pg__str_fini(&m);
    pg__str_fini(&graph);
    pg__str_fini(&opset);
}

static pg__str external(const char *location, const char *off, const char *length)
{
    pg__str t = tensor("w", 1);
    put_int(&t, PG_ONNX_LOCATION, 1);
    put_external(&t, "location", location);
    put_external(&t, "offset", off);
    if (length)
        put_external(&t, "length", length);
    return model(&t);
}

static void reads_data_beside_the_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/pg-onnx-XXXXXX", path[64], data[64];
    pg_store *s = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    snprintf(data, sizeof data, "%s/m.data", folder);
    FILE *f = fopen(data, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite("skip", 1, 4, f) + fwrite(six, 1, sizeof six, f), 4 + sizeof six);
    fclose(f);
    pg__str m = external("m.data", "4", "24");
    assert_ok(open_bytes(&s, &m, path, NULL));
    expect_six(s);
    pg_store_close(s);
    pg__str_fini(&m);
    m = external("m.data", "5", NULL);
    refuses(&m, path, PG_E_FORMAT, "ends beyond m.data");
    m = external("m.data", "4", "23");
    refuses(&m, path, PG_E_FORMAT, "its shape needs 24");
    m = external("../m.data", "4", "24");
    refuses(&m, path, PG_E_FORMAT, "../m.data");
    m = external(data, "4", "24");
    refuses(&m, path, PG_E_FORMAT, "m.data");
    m = external("m.data", "-4", "24");
    refuses(&m, path, PG_E_FORMAT, "is no number");
    unlink(data);
    rmdir(folder);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    pg__str t = tensor("w", 1), m;
    put(&t, PG_ONNX_RAW, six, sizeof six - 1);
    m = model(&t);
    refuses(&m, NULL, PG_E_FORMAT, "w: 23 bytes of data, its shape needs 24");
    t = tensor("w", 7);
    put(&t, PG_ONNX_INT64_DATA, "\x01\x02\x03\x04\x05", 5);
    m = model(&t);
    refuses(&m, NULL, PG_E_FORMAT, "fewer numbers");
    t = tensor("w", 1);
    m = model(&t);
    refuses(&m, NULL, PG_E_FORMAT, "0 pieces");
    t = tensor("w", 1);
    put_int(&t, PG_ONNX_DIMS, INT64_MAX);
    put(&t, PG_ONNX_RAW, six, sizeof six);
    m = model(&t);
    refuses(&m, NULL, PG_E_FORMAT, "too large");
    m = model(NULL);
    m.n -= 1;
    refuses(&m, NULL, PG_E_FORMAT, "cut off?");
    t = tensor("", 1);
    m = model(&t);
    refuses(&m, NULL, PG_E_FORMAT, "without a name");
}

static void leaves_other_messages_alone(void **state)
{
    (void)state;
    pg__str m = {0};
    put_int(&m, 1, 3);
    put_text(&m, 2, "other");
    refuses(&m, NULL, PG_E_UNKNOWN, "");
}

/* ---- writing ---- */

static void writes_the_graph_and_the_tensors(void **state)
{
    (void)state;
    pg__str t = tensor("w", 1), frame = model(NULL);
    put(&t, PG_ONNX_RAW, six, sizeof six);
    pg__str m = model(&t);
    pg_store *s = opened(&m), *out = NULL;
    pg__plan plan = {0};
    pg__sink *sink = NULL;
    pg__io *io = NULL;
    assert_ok(pg__plan_copy_of(&plan, s, NULL));
    assert_ok(pg__plan_set_text(&plan, PG_TEXT_MODEL_CONFIG, frame.s, frame.n, NULL));
    assert_ok(pg__sink_open_memory(&sink, NULL));
    assert_ok(pg__fmt_onnx.write(sink, &plan, NULL));
    assert_ok(pg__sink_reopen(sink, &io, NULL));
    assert_ok(pg__fmt_onnx.open(&out, io, NULL, NULL, NULL));
    expect_six(out);
    assert_ok(pg__fmt_onnx.verify(out, &plan, NULL));
    pg_store_close(out);
    pg__io_close(io);
    pg__sink_close(sink);
    pg__plan_fini(&plan);
    pg_store_close(s);
    pg__str_fini(&m);
    pg__str_fini(&frame);
}

/* The node takes more than the window that the file is read through. */
static void proves_what_is_not_of_tensors(void **state)
{
    (void)state;
    pg__str t = tensor("w", 1);
    put(&t, PG_ONNX_RAW, six, sizeof six);
    pg__str m = model_of(&t, 2000), frame = model_of(NULL, 2000);
    const char *op = memmem(frame.s, frame.n, "Relu", 4);
    const size_t flipped[] = {1, 100, 70000, (size_t)(op - frame.s), frame.n - 1};
    pg_store *s = opened(&m);
    pg__plan plan = {0};
    assert_true(frame.n > 2 * PG_ONNX_WINDOW);
    assert_ok(pg__plan_set_text(&plan, PG_TEXT_MODEL_CONFIG, frame.s, frame.n, NULL));
    assert_ok(pg__fmt_onnx.verify(s, &plan, NULL));
    for (size_t k = 0; k < sizeof flipped / sizeof *flipped; k++) {
        plan.model_config[flipped[k]] ^= 1;
        assert_int_equal(pg__fmt_onnx.verify(s, &plan, NULL), PG_E_IO);
        plan.model_config[flipped[k]] ^= 1;
    }
    pg__plan_fini(&plan);
    pg_store_close(s);
    pg__str_fini(&m);
    pg__str_fini(&frame);
}

PG_TEST_MAIN(cmocka_unit_test(reads_raw_data), cmocka_unit_test(reads_typed_data),
             cmocka_unit_test(counts_what_it_does_not_read),
             cmocka_unit_test(reads_data_beside_the_file),
             cmocka_unit_test(refuses_what_does_not_fit),
             cmocka_unit_test(leaves_other_messages_alone),
             cmocka_unit_test(writes_the_graph_and_the_tensors),
             cmocka_unit_test(proves_what_is_not_of_tensors))
