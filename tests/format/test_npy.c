#include "pg_test.h"

#include "format/npy.h"

static pg_status parse(pg__npy *out, const char *dict, size_t n_data, pg_err *err)
{
    unsigned char file[4096] = "\x93NUMPY\1";
    const size_t n = strlen(dict);
    pg__io *io = NULL;
    file[8] = (unsigned char)n, file[9] = (unsigned char)(n >> 8);
    memcpy(file + 10, dict, n);
    assert_ok(pg__io_open_mem(&io, file, 10 + n + n_data, NULL));
    const pg_status st = pg__npy_read_header(out, io, err);
    pg__io_close(io);
    return st;
}

static void reads_what_numpy_writes(void **state)
{
    (void)state;
    pg__npy h;
    assert_ok(
        parse(&h, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", 48, NULL));
    assert_int_equal(h.dtype, PG_F32);
    assert_int_equal(h.rank, 2);
    assert_int_equal(h.dims[1], 4);
    assert_int_equal(h.n_bytes, 48);
    assert_false(h.fortran_order || h.big_endian);
    assert_ok(parse(&h, "{'shape': (2L,), \"descr\": '>i8', 'fortran_order': True}", 16, NULL));
    assert_int_equal(h.dtype, PG_I64);
    assert_true(h.big_endian && h.fortran_order);
    assert_ok(parse(&h, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", 1, NULL));
    assert_int_equal(h.rank, 0);
    assert_ok(parse(&h, "{'descr': '<V2', 'fortran_order': False, 'shape': (0, 9)}", 0, NULL));
    assert_true(h.dtype == PG_BF16 && h.void2);
}

static void refuses_all_but_one_literal(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{",
        "()",
        "{'descr': '<f4'}",
        "[]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'x': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'shape': (3, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} junk",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3, 4]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4",
        "__import__('os').system('true')",
        "{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (3, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)}", /* 48 bytes follow */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg__npy h;
        pg_err err = {0};
        assert_fails(PG_E_FORMAT, parse(&h, bad[i], 48, &err), &err);
    }
}

static void names_types_that_are_no_weights(void **state)
{
    (void)state;
    static const char *const types[] = {"'|O'",      "'<c8'", "'|S3'", "'<U3'", "'|V4'",
                                        "'<M8[ns]'", "'<f3'", "'|f4'", "''",    "[('a', '<f4')]"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char dict[160];
        pg__npy h;
        pg_err err = {0};
        snprintf(dict, sizeof dict, "{'descr': %s, 'fortran_order': False, 'shape': (3, 4)}",
                 types[i]);
        assert_fails(PG_E_UNSUPPORTED, parse(&h, dict, 48, &err), &err);
        assert_non_null(strstr(err.msg, i == 0 ? "pickle" : "descr"));
    }
}

static void refuses_sizes_beyond_the_file(void **state)
{
    (void)state;
    static const char *const shapes[] = {"(4294967296, 4294967296, 4294967297)",
                                         "(99999999999999999999999999,)", "(4611686018427387904,)"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char dict[160];
        pg__npy h;
        pg_err err = {0};
        snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': %s}",
                 shapes[i]);
        assert_fails(PG_E_LIMIT, parse(&h, dict, 48, &err), &err);
        assert_non_null(strstr(err.msg, "shape"));
    }
}

static void writes_what_it_reads(void **state)
{
    (void)state;
    static const uint64_t dims[PG_MAX_RANK] = {1, 2, 3, 1, 2, 1, 1, 1};
    for (int t = PG_F16; t <= PG_BOOL; t++)
        for (uint32_t rank = 0; rank <= PG_MAX_RANK; rank++)
            for (uint64_t align = 64; align <= 4096; align *= 64) {
                pg__str s = {0};
                pg__npy h;
                pg__io *io = NULL;
                const uint64_t phase = align == 64 ? 0 : 1234;
                assert_ok(pg__npy_add_header(&s, (pg_dtype)t, t == PG_F64, rank, dims, align, phase,
                                             NULL));
                assert_int_equal(s.n % align, phase);
                const size_t n_header = s.n;
                for (size_t k = pg_dtype_bytes((pg_dtype)t) * (rank < 2   ? 1
                                                               : rank < 3 ? 2
                                                               : rank < 5 ? 6
                                                                          : 12);
                     k; k--)
                    assert_ok(pg__str_add(&s, "", 1, NULL));
                assert_ok(pg__io_open_mem(&io, s.s, s.n, NULL));
                assert_ok(pg__npy_read_header(&h, io, NULL));
                assert_int_equal(h.dtype, t);
                assert_int_equal(h.big_endian, t == PG_F64);
                assert_int_equal(h.rank, rank);
                assert_memory_equal(h.dims, dims, rank * sizeof *dims);
                assert_int_equal(h.data_off, n_header);
                pg__io_close(io);
                pg__str_fini(&s);
            }
}

PG_TEST_MAIN(cmocka_unit_test(reads_what_numpy_writes),
             cmocka_unit_test(refuses_all_but_one_literal),
             cmocka_unit_test(names_types_that_are_no_weights),
             cmocka_unit_test(refuses_sizes_beyond_the_file),
             cmocka_unit_test(writes_what_it_reads))
