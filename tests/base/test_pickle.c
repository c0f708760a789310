#include "pg_test.h"

#include "base/limits.h"
#include "base/pickle.h"

static const pg__pk_global known[] = {
    {"collections", "OrderedDict", PG_PK_ENTRIES, 7},
    {"collections", "defaultdict", PG_PK_LATER_ENTRIES, 7},
    {"m", "f", 0, 8},
    {"m", "g", PG_PK_ATTRIBUTES, 9},
    {0},
};

static pg_status parse(pg__pickle *out, const char *text, size_t n, pg_err *err)
{
    *err = (pg_err){0};
    return pg__pickle_read(out, text, n, known, NULL, NULL, err);
}

/* The value as text, in Python's manner. */
static void show(char *out, size_t cap, const pg__pickle *p, const pg__pk_value *v)
{
    static const char *const open[] = {"(", "[", "{", "{"}, *const close[] = {")", "]", "}", "}"};
    const size_t n = strlen(out);
    char *at = out + n;
    switch (v->kind) {
    case PG_PK_NONE: snprintf(at, cap - n, "None"); return;
    case PG_PK_BOOL: snprintf(at, cap - n, v->u.i ? "True" : "False"); return;
    case PG_PK_INT: snprintf(at, cap - n, "%lld", (long long)v->u.i); return;
    case PG_PK_BIG: snprintf(at, cap - n, "big"); return;
    case PG_PK_FLOAT: snprintf(at, cap - n, "%g", v->u.f); return;
    case PG_PK_BYTES: snprintf(at, cap - n, "b'%.*s'", (int)v->n, v->u.text); return;
    case PG_PK_STR: snprintf(at, cap - n, "'%.*s'", (int)v->n, v->u.text); return;
    case PG_PK_GLOBAL: snprintf(at, cap - n, "%s", p->globals[v->u.i].name); return;
    case PG_PK_FOREIGN:
        snprintf(at, cap - n, "<%.*s.%.*s>", (int)p->foreign[v->u.i].n_module,
                 p->foreign[v->u.i].module, (int)p->foreign[v->u.i].n_name,
                 p->foreign[v->u.i].name);
        return;
    case PG_PK_PERSID: snprintf(at, cap - n, "@"); break;
    case PG_PK_CALL: snprintf(at, cap - n, "call:"); break;
    default: snprintf(at, cap - n, "%s", open[v->kind - PG_PK_TUPLE]); break;
    }
    for (uint32_t i = 0; i < v->n; i++) {
        if (i)
            strncat(out, " ", cap - strlen(out) - 1);
        show(out, cap, p, &p->v[v->u.items[i]]);
    }
    if (v->kind <= PG_PK_DICT)
        strncat(out, close[v->kind - PG_PK_TUPLE], cap - strlen(out) - 1);
}

#define PK(text) text, sizeof(text) - 1

static void builds_what_python_pickled(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *want;
    } cases[] = {
        {PK("\x80\x02N."), "None"},
        {PK("\x80\x02\x88."), "True"},
        {PK("\x80\x02K\xff."), "255"},
        {PK("\x80\x02M\x01\x02."), "513"},
        {PK("\x80\x02J\xfe\xff\xff\xff."), "-2"},
        {PK("\x80\x02\x8a\x02\x00\x80."), "-32768"},
        {PK("\x80\x02\x8a\x00."), "0"},
        {PK("\x80\x02\x8a\x09\1\1\1\1\1\1\1\1\1."), "big"},
        {PK("\x80\x02G\xbf\xf8\0\0\0\0\0\0."), "-1.5"},
        {PK("\x80\x02X\2\0\0\0hi."), "'hi'"},
        {PK("\x80\x04\x8c\2hi."), "'hi'"},
        {PK("\x80\x03"
            "C\2hi."),
         "b'hi'"},
        {PK("\x80\x02(K\1K\2K\3t."), "(1 2 3)"},
        {PK("\x80\x02K\1K\2\x86."), "(1 2)"},
        {PK("\x80\x02](K\1K\2e."), "[1 2]"},
        {PK("\x80\x02]K\1aK\2aK\3aK\4aK\5a."), "[1 2 3 4 5]"},
        {PK("\x80\x02}(K\1NK\2]u."), "{1 None 2 []}"},
        {PK("\x80\x04\x8f(K\1\x90."), "{1}"},
        {PK("\x80\x02"
            "ccollections\nOrderedDict\n)RX\1\0\0\0aK\1s."),
         "call:OrderedDict () 'a' 1"},
        {PK("\x80\x02"
            "ccollections\nOrderedDict\n](](U\1aK\1e](U\1bK\2ee\x85R."), /* Python 2 */
         "call:OrderedDict ([['a' 1] ['b' 2]]) 'a' 1 'b' 2"},
        {PK("\x80\x02"
            "ccollections\nOrderedDict\n)R}X\x09\0\0\0_metadataNsb."),
         "call:OrderedDict ()"},
        {PK("\x80\x04\x8c\1m\x8c\1f\x93K\1\x85R."), "call:f (1)"},
        {PK("\x80\x02K\7Q."), "@7"},
        {PK("\x80\x02]q\0h\0\x86."), "([] [])"},
        {PK("\x80\x04]\x94h\0\x86."), "([] [])"},
        {PK("\x80\x04\x95\2\0\0\0\0\0\0\0N."), "None"},
        {PK("\x80\x02K\1K\2"
            "0."),
         "1"},
        {PK("(S'x'\nl."), "['x']"},
        {PK("\x80\x02"
            "ccollections\ndefaultdict\ncb\nlist\n\x85RX\1\0\0\0aK\1s."),
         "call:defaultdict (<b.list>) 'a' 1"},
        {PK("\x80\x02"
            "cm\ng\nK\1\x85RK\2b."),
         "call:g (1) 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg_err err;
        pg__pickle p = {0};
        char got[256] = "";
        if (parse(&p, cases[i].text, cases[i].n, &err) != PG_OK)
            fail_msg("case %zu (%s): %s", i, cases[i].want, err.msg);
        show(got, sizeof got, &p, &p.v[p.root]);
        assert_string_equal(got, cases[i].want);
        pg__pickle_fini(&p);
    }
}

/* What is not on the list keeps its name and what was put into it, whichever way. */
static void keeps_foreign_objects_as_they_are_described(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *want;
    } cases[] = {
        {PK("\x80\x02"
            "cposix\nsystem\n(X\2\0\0\0idtR."),
         "call:<posix.system> ('id')"},
        {PK("\x80\x04\x8c\5posix\x8c\6system\x93."), "<posix.system>"},
        {PK("(S'id'\nios\nsystem\n."), "call:<os.system> ('id')"},
        {PK("(cos\nsystem\nS'id'\no."), "call:<os.system> ('id')"},
        {PK("\x80\x02"
            "ca\nb\n)\x81}X\1\0\0\0xK\1sb."),
         "call:<a.b> () {'x' 1}"},
        {PK("\x80\x02"
            "ca\nb\n)R(K\1K\2eK\3a."),
         "call:<a.b> () 1 2 3"},
        {PK("\x80\x02"
            "ca\nb\n)RK\1K\2s(K\3K\4u."),
         "call:<a.b> () 1 2 3 4"},
        {PK("\x80\x02"
            "ca\nb\n)R)R."),
         "call:<a.b> () call:<a.b> ()"},
        {PK("\x80\x04"
            "ca\nb\n)}X\1\0\0\0xK\1s\x92."),
         "call:<a.b> () {'x' 1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg_err err;
        pg__pickle p = {0};
        char got[256] = "";
        if (parse(&p, cases[i].text, cases[i].n, &err) != PG_OK)
            fail_msg("case %zu (%s): %s", i, cases[i].want, err.msg);
        show(got, sizeof got, &p, &p.v[p.root]);
        assert_string_equal(got, cases[i].want);
        assert_int_equal(pg__pickle_foreign(&p, &p.v[p.root])->n_name,
                         strstr(cases[i].want, "system") ? 6 : 1);
        pg__pickle_fini(&p);
    }
}

static void names_what_it_will_not_build(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *say;
    } cases[] = {
        {PK("\x80\x02"
            "ccollections\nOrderedDict\n)R}X\1\0\0\0xNsb."),
         "the attribute x"},
        {PK("\x80\x02\x82\1."), "opcode 0x82"},
        {PK("\x80\x09N."), "protocol 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg_err err;
        pg__pickle p = {0};
        assert_fails(PG_E_UNSUPPORTED, parse(&p, cases[i].text, cases[i].n, &err), &err);
        if (!strstr(err.msg, cases[i].say))
            fail_msg("\"%s\" expected: %s", cases[i].say, err.msg);
        assert_null(p.v);
    }
}

static void refuses_programs_that_do_not_add_up(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {
        {PK("")},
        {PK("\x80\x02R.")},
        {PK("\x80\x02.")},
        {PK("\x80\x02NN.")},
        {PK("\x80\x02(N.")},
        {PK("\x80\x02N.N")},
        {PK("\x80\x02h\7.")},
        {PK("\x80\x02N(0a.")},
        {PK("\x80\x02NNs.")},
        {PK("\x80\x02}(Nu.")},
        {PK("\x80\x02](K\1u.")},
        {PK("\x80\x02NN\x86\x87.")},
        {PK("\x80\x02N)R.")},
        {PK("\x80\x02"
            "cm\nf\nNR.")},
        {PK("\x80\x02"
            "cm\nf\n)RNNs.")},
        {PK("\x80\x02"
            "cm\nf\n)R}b.")},
        {PK("\x80\x02N]b.")},
        {PK("\x80\x04NN\x93.")},
        {PK("\x80\x02X\xff\xff\xff\xffhi.")},
        {PK("\x80\x04\x8e\0\0\0\0\0\0\0\x40.")},
        {PK("\x80\x04\x95\0\0\0\0\0\0\0\x80N.")},
        {PK("\x80\x02\x8b\xff\xff\xff\x7f.")},
        {PK("S'a\\n'\n.")},
        {PK("\x80\x02"
            "ccollections\nOrderedDict\n](](U\1aee\x85R.")},
        {PK("\x80\x02"
            "ccollections\nOrderedDict\n](Ne\x85R.")},
        {PK("\x80\x02"
            "ccollections\nOrderedDict\nN\x85R.")},
        {PK("\x80\x02"
            "ccollections\nOrderedDict\n]]\x86R.")},
        {PK("\x80\x02t.")},
        {PK("\x80\x02N(b.")},
        {PK("\x80\x02"
            "ca\nb\nNR.")},
        {PK("\x80\x02"
            "ca\nb\nNb.")},
        {PK("\x80\x02"
            "ca\nb\nNa.")},
        {PK("\x80\x02"
            "cm\nf\n)}\x92.")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pg_err err;
        pg__pickle p = {0};
        const pg_status st = parse(&p, cases[i].text, cases[i].n, &err);
        if (st != PG_E_FORMAT)
            fail_msg("case %zu: %s %s", i, pg_status_name(st), err.msg);
        assert_null(p.v);
    }
}

static void keeps_its_limits(void **state)
{
    (void)state;
    pg_err err;
    pg__pickle p = {0};
    const size_t n = PG_LIMIT_PICKLE_OPS + 10;
    char *text = malloc(n);
    assert_non_null(text);
    assert_fails(PG_E_LIMIT, parse(&p, PK("\x80\x02Nr\xff\xff\xff\xff."), &err), &err);
    memset(text, '(', n);
    assert_fails(PG_E_LIMIT, parse(&p, text, n, &err), &err);
    memset(text, 'N', n);
    assert_fails(PG_E_LIMIT, parse(&p, text, n, &err), &err);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 2 ? '0' : 'N';
    assert_fails(PG_E_LIMIT, parse(&p, text, n, &err), &err);
    assert_non_null(strstr(err.msg, "opcodes"));
    free(text);
}

/* One remembered value in four bytes, as many as a large job's .metadata has. */
static void reads_a_stored_text_of_any_length(void **state)
{
    (void)state;
    const size_t n_values = PG_LIMIT_PICKLE_OPS / 3 + 10, n = 4 * n_values + 4;
    pg_err err = {0};
    pg__pickle p = {0};
    char *text = malloc(n);
    assert_non_null(text);
    memcpy(text, "\x80\x04", 2);
    for (size_t i = 0; i < n_values; i++)
        memcpy(text + 2 + 4 * i,
               "K\1\x94"
               "0",
               4);
    memcpy(text + n - 2, "N.", 2);
    assert_fails(PG_E_LIMIT, parse(&p, text, n, &err), &err);
    assert_ok(pg__pickle_read_stored(&p, text, n, known, &err));
    pg__pickle_fini(&p);
    static const char high[] = "\x80\x02Nr\x09\0\0\0.";
    assert_fails(PG_E_LIMIT, pg__pickle_read_stored(&p, high, 9, known, &err), &err);
    free(text);
}

/* Each call copies the entries that it is given. */
static void counts_the_entries_of_calls(void **state)
{
    (void)state;
    static const char call[] = "0ccollections\nOrderedDict\nh\0\x85R";
    const size_t n_entries = PG_LIMIT_PICKLE_STACK / 2, n_calls = 40;
    pg_err err;
    pg__pickle p = {0};
    char *text = malloc(n_entries + n_calls * sizeof call + 10), *at = text;
    assert_non_null(text);
    memcpy(at, "}(", 2);
    memset(at + 2, 'N', n_entries);
    at += 2 + n_entries;
    memcpy(at, "uq\0", 3);
    at += 3;
    for (size_t i = 0; i < n_calls; i++, at += sizeof call - 1)
        memcpy(at, call, sizeof call - 1);
    *at++ = '.';
    assert_fails(PG_E_LIMIT, parse(&p, text, (size_t)(at - text), &err), &err);
    assert_non_null(strstr(err.msg, "opcodes"));
    free(text);
}

static void reads_one_pickle_after_the_other(void **state)
{
    (void)state;
    static const char text[] = "\x80\x02K\1.\x80\x02K";
    pg_err err = {0};
    pg__pickle p = {0};
    size_t used = 0;
    int cut = 0;
    assert_ok(pg__pickle_read(&p, text, sizeof text - 1, known, &used, &cut, &err));
    assert_int_equal(used, 5);
    assert_int_equal(cut, 0);
    pg__pickle_fini(&p);
    assert_fails(PG_E_FORMAT,
                 pg__pickle_read(&p, text + 5, sizeof text - 6, known, &used, &cut, &err), &err);
    assert_int_equal(cut, 1);
}

static void takes_the_last_of_equal_keys(void **state)
{
    (void)state;
    pg_err err;
    pg__pickle p = {0};
    assert_ok(parse(&p, PK("\x80\x02}(X\1\0\0\0aK\1X\1\0\0\0aK\2u."), &err));
    assert_int_equal(pg__pickle_get(&p, &p.v[p.root], "a")->u.i, 2);
    assert_null(pg__pickle_get(&p, &p.v[p.root], "b"));
    pg__pickle_fini(&p);
}

PG_TEST_MAIN(cmocka_unit_test(builds_what_python_pickled),
             cmocka_unit_test(keeps_foreign_objects_as_they_are_described),
             cmocka_unit_test(names_what_it_will_not_build),
             cmocka_unit_test(refuses_programs_that_do_not_add_up),
             cmocka_unit_test(keeps_its_limits),
             cmocka_unit_test(reads_a_stored_text_of_any_length),
             cmocka_unit_test(counts_the_entries_of_calls),
             cmocka_unit_test(reads_one_pickle_after_the_other),
             cmocka_unit_test(takes_the_last_of_equal_keys))
