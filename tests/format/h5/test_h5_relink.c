/* A new root over an old file: what it changes, and what libhdf5 reads of the result. */
#include "pg_test.h"

#include <hdf5.h>
#include <unistd.h>

#include "format/h5/h5_reader.h"
#include "format/h5/h5_relink.h"

static const pg__h5_dtype f32 = {.cls = PG_H5_NUMBER, .dtype = PG_F32};
static char path[] = "/tmp/pg-test-h5_relink-XXXXXX";
static const float values[6] = {1, 2, 3, 4, 5, 6};

/* /old/g/w of six numbers, and a text that a careless writer would put new ones behind. */
static pg__io *make_old(void)
{
    size_t id;
    pg__h5_out *h = NULL;
    pg__sink *sink = NULL;
    pg__io *io = NULL;
    const char *strs[] = {"told"};
    const pg__sink_opts opts = {.force = 1, .no_sync = 1};
    const pg__h5_attr text = {
        .name = "text", .type = {.cls = PG_H5_STR_VLEN}, .n_elems = 1, .strs = strs};
    assert_ok(pg__h5_out_new(&h, NULL));
    assert_ok(pg__h5_out_dataset(h, "old/g/w", &f32, 2, (uint64_t[]){2, 3}, &id, NULL));
    assert_ok(pg__h5_out_attr(h, "", &text, NULL));
    assert_ok(pg__h5_out_attr(h, "old", &text, NULL));
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_ok(pg__sink_open(&sink, path, &opts, NULL));
    assert_ok(pg__h5_out_flush(h, sink, 0, NULL));
    assert_ok(pg__sink_write(sink, pg__h5_out_offset(h, id), values, sizeof values, NULL));
    assert_ok(pg__sink_commit(sink, NULL));
    pg__sink_close(sink);
    pg__h5_out_free(h);
    assert_ok(pg__io_open(&io, path, NULL));
    return io;
}

/* Writes what is new into the file itself, as flip.c does. */
static void apply(const pg__relinked *re)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fwrite(re->head, 1, re->n_head, f), re->n_head);
    assert_int_equal(fseek(f, (long)re->tail_at, SEEK_SET), 0);
    assert_int_equal(fwrite(re->tail, 1, re->n_tail, f), re->n_tail);
    assert_int_equal(fclose(f), 0);
}

static void gives_old_objects_new_names(void **state)
{
    (void)state;
    float got[6] = {0};
    pg__io *io = make_old();
    pg__h5_out *h = NULL;
    pg__relinked re = {0};
    const char *strs[] = {"new"};
    const pg__h5_attr text = {
        .name = "text", .type = {.cls = PG_H5_STR_VLEN}, .n_elems = 1, .strs = strs};
    assert_ok(pg__h5_out_over(&h, io, pg__io_size(io), 4, NULL));
    assert_ok(pg__h5_out_group(h, "layer", NULL));
    assert_ok(pg__h5_out_attr(h, "layer", &text, NULL));
    assert_ok(pg__h5_out_link(h, "layer/whole", "/old/g", NULL));
    assert_ok(pg__h5_out_link(h, "other/deep/v", "/old/g/w", NULL));
    assert_ok(pg__h5_out_attr(h, "", &text, NULL));
    assert_ok(pg__h5_out_relinked(&re, h, NULL));
    assert_int_equal(re.n_head, 96);
    assert_int_equal(re.end, pg__io_size(io));
    assert_int_equal(re.tail_at % 4096, 0);
    assert_true(re.tail_at >= re.end && re.n_tail > 0);
    apply(&re);
    const hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(f >= 0);
    assert_true(H5Lexists(f, "old", H5P_DEFAULT) == 0);
    for (int i = 0; i < 2; i++) {
        const hid_t d = H5Dopen2(f, i ? "layer/whole/w" : "other/deep/v", H5P_DEFAULT);
        assert_true(H5Dread(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, got) >= 0);
        assert_memory_equal(got, values, sizeof values);
        H5Dclose(d);
    }
    H5Fclose(f);
    pg__relinked_fini(&re);
    pg__h5_out_free(h);
    pg__io_close(io);
}

static void the_result_passes_our_own_reader(void **state)
{
    (void)state;
    pg__io *io = make_old();
    pg__h5_out *h = NULL;
    pg__h5 *h5 = NULL;
    pg__relinked re = {0};
    assert_ok(pg__h5_open(&h5, io, NULL));
    const uint64_t addr = pg__h5_at(h5, pg__h5_find(h5, 0, "old/g/w"))->addr;
    pg__h5_close(h5);
    assert_ok(pg__h5_out_over(&h, io, pg__io_size(io), 4, NULL));
    assert_ok(pg__h5_out_link(h, "a/b/w", "/old/g/w", NULL));
    assert_ok(pg__h5_out_relinked(&re, h, NULL));
    apply(&re);
    pg__io_close(io);
    assert_ok(pg__io_open(&io, path, NULL));
    assert_ok(pg__h5_open(&h5, io, NULL));
    assert_int_equal(pg__h5_at(h5, pg__h5_find(h5, 0, "a/b/w"))->addr, addr);
    assert_int_equal(pg__h5_trailing(h5), 0);
    assert_int_equal(pg__h5_at(h5, 0)->n_attrs, 0);
    assert_int_equal(pg__h5_at(h5, 0)->n_children, 1);
    pg__h5_close(h5);
    pg__relinked_fini(&re);
    pg__h5_out_free(h);
    pg__io_close(io);
}

static void says_what_it_could_not_link(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__io *io = make_old();
    pg__h5_out *h = NULL;
    assert_ok(pg__h5_out_over(&h, io, pg__io_size(io), 4, NULL));
    assert_fails(PG_E_FORMAT, pg__h5_out_link(h, "x", "/old/nothing", &err), &err);
    assert_true(strncmp(err.msg, "x: HDF5 cannot link it", 22) == 0);
    assert_fails(PG_E_FORMAT, pg__h5_out_link(h, "a/./x", "/old/g", &err), &err);
    assert_ok(pg__h5_out_link(h, "x", "/old/g", NULL));
    assert_fails(PG_E_FORMAT, pg__h5_out_link(h, "x", "/old/g", &err), &err);
    pg__h5_out_free(h);
    pg__io_close(io);
}

static int relinkable(pg__io *io, uint64_t end)
{
    int yes;
    assert_ok(pg__h5_relinkable(&yes, io, end, NULL));
    return yes;
}

static void knows_what_can_be_relinked(void **state)
{
    (void)state;
    pg__io *io = make_old(), *other = NULL;
    const size_t n = (size_t)pg__io_size(io);
    unsigned char *file = malloc(n + 4);
    static const struct {
        size_t at;
        unsigned char to;
    } bad[] = {{1, 'h'}, {8, 2}, {13, 4}, {14, 4}, {24, 1}, {40, 9}};
    assert_ok(pg__io_read(io, 0, file, n, NULL));
    assert_true(relinkable(io, n));
    assert_false(relinkable(io, n - 1));
    assert_false(relinkable(io, n + 1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const unsigned char was = file[bad[i].at];
        file[bad[i].at] = bad[i].to;
        assert_ok(pg__io_open_mem(&other, file, n, NULL));
        if (relinkable(other, n))
            fail_msg("with byte %zu = %u it cannot be relinked", bad[i].at, bad[i].to);
        pg__io_close(other);
        file[bad[i].at] = was;
    }
    assert_ok(pg__io_open_mem(&other, file, 90, NULL));
    assert_false(relinkable(other, 90));
    pg__io_close(other);
    pg__io_close(io);
    free(file);
}

static int make_path(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

PG_TEST_MAIN_WITH(make_path, remove_path, cmocka_unit_test(gives_old_objects_new_names),
                  cmocka_unit_test(the_result_passes_our_own_reader),
                  cmocka_unit_test(says_what_it_could_not_link),
                  cmocka_unit_test(knows_what_can_be_relinked))
