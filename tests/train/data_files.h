/* data_files.h - small data files for tests, in a folder of their own. */
#ifndef TESTS_DATA_FILES_H
#define TESTS_DATA_FILES_H

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/npy.h"
#include "train/data/data.h"

static char test_dir[64];

static inline int make_test_dir(void **state)
{
    (void)state;
    snprintf(test_dir, sizeof test_dir, "/tmp/pg-data-XXXXXX");
    return mkdtemp(test_dir) ? 0 : -1;
}

static inline int remove_test_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", test_dir);
    return system(command);
}

/* A name in the folder; several calls may stand in one expression. */
typedef struct test_path {
    char s[160];
} test_path;

static inline test_path in_dir(const char *name)
{
    test_path p;
    snprintf(p.s, sizeof p.s, "%s/%s", test_dir, name);
    return p;
}

static inline void write_bytes(const char *name, const void *p, size_t n)
{
    FILE *f = fopen(in_dir(name).s, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

/* A .npy of these values. */
static inline void write_npy(const char *name, pg_dtype dtype, int big_endian, uint32_t rank,
                             const uint64_t *dims, const void *values)
{
    pg__str s = {0};
    uint64_t n = pg_dtype_bytes(dtype);
    for (uint32_t i = 0; i < rank; i++)
        n *= dims[i];
    assert_ok(pg__npy_add_header(&s, dtype, big_endian, rank, dims, 64, 0, NULL));
    assert_ok(pg__str_add(&s, values, (size_t)n, NULL));
    write_bytes(name, s.s, s.n);
    pg__str_fini(&s);
}

/* The ends of a model with one input of this shape (rows in front) and one output "out". */
static inline pg__ends one_in_one_out(const pg__dims *input)
{
    static const char *const in[] = {"in"}, *const out[] = {"out"};
    static const unsigned char targeted[] = {1};
    return (pg__ends){.n_inputs = 1,
                      .n_outputs = 1,
                      .input_names = in,
                      .output_names = out,
                      .input_dims = input,
                      .targeted = targeted};
}

/* All values of an array. */
static inline double *read_all(const pg__array *a, size_t *n)
{
    const uint64_t n_rows = a->dims.d[0];
    uint64_t *rows = pg__mem_array(n_rows, sizeof *rows);
    *n = (size_t)(n_rows * pg__array_row_elems(a));
    double *v = pg__mem_array(*n, sizeof *v);
    assert_non_null(rows);
    assert_non_null(v);
    for (uint64_t i = 0; i < n_rows; i++)
        rows[i] = i;
    assert_ok(pg__array_read(a, rows, (size_t)n_rows, PG_AS_F64, v, NULL, NULL));
    pg__mem_free(rows);
    return v;
}

static inline void assert_array(const pg_data *d, const char *key, const double *want, size_t n)
{
    const pg__array *a = pg__data_find(d, key);
    size_t have = 0;
    assert_non_null(a);
    double *v = read_all(a, &have);
    assert_int_equal(have, n);
    for (size_t i = 0; i < n; i++)
        assert_true(v[i] == want[i]);
    pg__mem_free(v);
}

#endif
