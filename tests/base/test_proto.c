#include "pg_test.h"

#include "base/proto.h"

static void reads_fields_of_every_type(void **state)
{
    (void)state;
    /* protoc's own encoding of {1: 150, 2: "testing", 3: fixed32 7, 4: fixed64 9, 5: {1: 150}} */
    static const unsigned char text[] = "\x08\x96\x01\x12\x07testing\x1d\7\0\0\0\x21\x09\0\0\0\0\0\0\0"
                                        "\x2a\x03\x08\x96\x01";
    pg__proto m = {text, sizeof text - 1, 0};
    pg__field f;
    assert_true(pg__proto_next(&m, &f));
    assert_int_equal(f.number, 1);
    assert_int_equal(f.value, 150);
    assert_true(pg__proto_next(&m, &f));
    assert_int_equal(f.type, PG_PROTO_BYTES);
    assert_int_equal(f.n, 7);
    assert_memory_equal(f.bytes, "testing", 7);
    assert_true(pg__proto_next(&m, &f));
    assert_int_equal(f.value, 7);
    assert_true(pg__proto_next(&m, &f));
    assert_int_equal(f.value, 9);
    assert_true(pg__proto_next(&m, &f));
    pg__proto inner = {f.bytes, f.n, 0};
    assert_true(pg__proto_next(&inner, &f));
    assert_int_equal(f.value, 150);
    assert_false(pg__proto_next(&inner, &f));
    assert_false(inner.bad);
    assert_false(pg__proto_next(&m, &f));
    assert_false(m.bad);
}

static void a_message_that_is_cut_is_bad(void **state)
{
    (void)state;
    static const unsigned char text[] = "\x12\x07testing";
    for (size_t n = 1; n < sizeof text - 1; n++) {
        pg__proto m = {text, n, 0};
        pg__field f;
        assert_false(pg__proto_next(&m, &f));
        assert_true(m.bad);
        assert_false(pg__proto_next(&m, &f));
    }
}

static void nonsense_is_bad(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\x0b",                                             /* a group */
        "\x02\x01x",                                        /* field 0 */
        "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     /* beyond 64 bits */
        "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", /* a varint without end */
        "\x12\xff\xff\xff\xff\x0f",                         /* longer than the message */
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pg__proto m = {(const unsigned char *)texts[i], strlen(texts[i]), 0};
        pg__field f;
        assert_false(pg__proto_next(&m, &f));
        assert_true(m.bad);
    }
}

PG_TEST_MAIN(cmocka_unit_test(reads_fields_of_every_type),
             cmocka_unit_test(a_message_that_is_cut_is_bad), cmocka_unit_test(nonsense_is_bad))
