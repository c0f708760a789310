#include "pg_test.h"

#include "onnx/onnx.h"

static pg__onnx_graph g;

static pg__onnx_name name(const char *like)
{
    pg__onnx_name out = 0;
    assert_ok(pg__onnx_new_name(&g, like, &out, NULL));
    assert_string_equal(g.names.v[out], like);
    return out;
}

static pg__onnx_name add(const char *op, const char *attr, const pg__onnx_name *in, size_t n_in,
                         const char *like)
{
    const pg__str attrs = {.s = (char *)(uintptr_t)attr, .n = strlen(attr)};
    const pg__onnx_name out = name(like);
    assert_ok(pg__onnx_add_node(&g, op, &attrs, in, n_in, &out, 1, NULL));
    return out;
}

static pg__onnx_name concat(pg__onnx_name a, pg__onnx_name b, const char *like)
{
    return add("Concat", "axis", (const pg__onnx_name[]){a, b}, 2, like);
}

static void join(pg__onnx_name output)
{
    assert_ok(pg__onnx_prune(&g, &output, 1, NULL));
    assert_ok(pg__onnx_join_concats(&g, &output, 1, NULL));
}

/* The node that makes a tensor has these operands and no others. */
static void expect(const char *made, const char *const *operands, uint32_t n)
{
    for (size_t k = 0; k < g.n_nodes; k++) {
        const pg__onnx_name *v = g.operands + g.nodes[k].first;
        if (strcmp(g.names.v[v[g.nodes[k].n_in]], made) != 0)
            continue;
        assert_false(g.nodes[k].is_dead);
        assert_int_equal(g.nodes[k].n_in, n);
        for (uint32_t i = 0; i < n; i++)
            assert_string_equal(v[i] == PG_ONNX_ABSENT ? "" : g.names.v[v[i]], operands[i]);
        return;
    }
    fail_msg("nothing makes %s", made);
}

static size_t n_living(void)
{
    size_t n = 0;
    for (size_t k = 0; k < g.n_nodes; k++)
        n += !g.nodes[k].is_dead;
    return n;
}

static void joined_operands_are_in_order(void **state)
{
    (void)state;
    const pg__onnx_name i = name("i"), j = name("j"), k = name("k");
    const pg__onnx_name a = concat(i, j, "a"), b = concat(k, i, "b");
    join(concat(a, concat(b, j, "c"), "d"));
    expect("d", (const char *const[]){"i", "j", "k", "i", "j"}, 5);
    assert_int_equal(n_living(), 1);
}

static void another_axis_stays_apart(void **state)
{
    (void)state;
    const pg__onnx_name i = name("i"), j = name("j");
    const pg__onnx_name a = add("Concat", "another", (const pg__onnx_name[]){i, j}, 2, "a");
    join(concat(a, j, "b"));
    expect("b", (const char *const[]){"a", "j"}, 2);
    assert_int_equal(n_living(), 2);
}

/* A body reads names from outside, or gives them. */
static void what_a_body_reads_stays(void **state)
{
    (void)state;
    for (int gives = 0; gives < 2; gives++) {
        const pg__onnx_name i = name("i"), j = name("j"), step = name("step");
        const pg__onnx_name a = concat(i, j, "a"), inner[] = {step, a};
        const pg__onnx_name b = concat(a, j, "b");
        const size_t first = g.n_nodes;
        const pg__onnx_name sum = add("Add", "", inner, gives ? 1 : 2, "sum");
        const pg__onnx_name scan = add("Scan", "", &b, 1, "scan");
        assert_ok(pg__onnx_add_body(&g, first, &step, 1, gives ? &a : &sum, 1, NULL));
        join(scan);
        expect("a", (const char *const[]){"i", "j"}, 2);
        expect("b", (const char *const[]){"a", "j"}, 2);
        pg__onnx_graph_fini(&g);
    }
}

static void operands_may_be_absent(void **state)
{
    (void)state;
    const pg__onnx_name i = name("i"), a = concat(i, i, "a");
    const pg__onnx_name in[] = {a, PG_ONNX_ABSENT, i};
    join(add("Concat", "axis", in, 3, "b"));
    expect("b", (const char *const[]){"i", "i", "", "i"}, 4);
}

static int end(void **state)
{
    (void)state;
    pg__onnx_graph_fini(&g);
    return 0;
}

PG_TEST_MAIN(cmocka_unit_test_teardown(joined_operands_are_in_order, end),
             cmocka_unit_test_teardown(another_axis_stays_apart, end),
             cmocka_unit_test_teardown(what_a_body_reads_stays, end),
             cmocka_unit_test_teardown(operands_may_be_absent, end))
