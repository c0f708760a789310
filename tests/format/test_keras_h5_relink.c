/* When a legacy file is relinked, what its new links lead to, and that a wrong one is noticed. What
 * genuine files become is test_fmt_keras_h5.c's part. */
#include "pg_test.h"

#include <hdf5.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/h5/h5_writer.h"
#include "format/keras_h5_relink.h"

static char dir[] = "/tmp/pg-test-relink-XXXXXX";
static char made[64], out[64];
static const pg__h5_dtype f32 = {.cls = PG_H5_NUMBER, .dtype = PG_F32};
static const pg__save_opts forced = {.sink = {.force = 1, .no_sync = 1},
                                     .relink = PG_RELINK_IF_POSSIBLE};

/* ---- sources ----------------------------------------------------------------------------------
 */

static void save_made(pg__h5_out *h)
{
    pg__sink *sink = NULL;
    assert_ok(pg__h5_out_finish(h, NULL));
    assert_ok(pg__sink_open(&sink, made, &forced.sink, NULL));
    assert_ok(pg__sink_reserve(sink, pg__h5_out_bytes(h), NULL));
    assert_ok(pg__h5_out_flush(h, sink, 0, NULL));
    assert_ok(pg__sink_extend(sink, pg__h5_out_bytes(h), NULL));
    assert_ok(pg__sink_commit(sink, NULL));
    pg__sink_close(sink);
    pg__h5_out_free(h);
}

static void put_attr(pg__h5_out *h, const char *path, const char *name)
{
    const char *strs[] = {"by a user"};
    const pg__h5_attr a = {
        .name = name, .type = {.cls = PG_H5_STR_VLEN}, .n_elems = 1, .strs = strs};
    assert_ok(pg__h5_out_attr(h, path, &a, NULL));
}

static uint64_t n_values = 8;

/* Weights of a wrapper: layers "in" (empty) and "m" with n tensors; of each name a vector. */
static pg__h5_out *begin_wrapper(const char *const *names, size_t n)
{
    static const char *const layers[] = {"in", "m"};
    pg__h5_out *h = NULL;
    char path[128];
    size_t id;
    assert_ok(pg__h5_out_new(&h, NULL));
    assert_ok(pg__h5_out_names(h, "", "layer_names", layers, 2, PG_H5_STR_FIXED, NULL));
    assert_ok(pg__h5_out_group(h, "in", NULL));
    assert_ok(pg__h5_out_names(h, "in", "weight_names", NULL, 0, PG_H5_STR_FIXED, NULL));
    assert_ok(pg__h5_out_group(h, "m", NULL));
    assert_ok(pg__h5_out_names(h, "m", "weight_names", names, n, PG_H5_STR_FIXED, NULL));
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "m/%s", names[i]);
        assert_ok(pg__h5_out_dataset(h, path, &f32, 1, &n_values, &id, NULL));
    }
    return h;
}

static pg_store *open_path(const char *path)
{
    pg_err err = {0};
    pg_store *s = NULL;
    if (pg_store_open(&s, path, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return s;
}

static const char *const two_layers[] = {"a/kernel:0", "a/bias:0", "b/kernel:0"};

/* a[a/kernel:0 a/bias:0] b[b/kernel:0] */
static void plan_two_layers(pg__plan *plan, pg_store *s)
{
    *plan = (pg__plan){.src = s};
    assert_ok(pg__plan_add_layer(plan, "a", 1, PG_NONE, NULL));
    assert_ok(pg__plan_add(plan, 0, "a/kernel:0", NULL));
    assert_ok(pg__plan_add(plan, 1, "a/bias:0", NULL));
    assert_ok(pg__plan_add_layer(plan, "b", 1, PG_NONE, NULL));
    assert_ok(pg__plan_add(plan, 2, "b/kernel:0", NULL));
}

static pg_store *save_and_open(const pg__plan *plan)
{
    pg_err err = {0};
    if (pg__format_save(&pg__fmt_keras_h5, out, plan, &forced, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    return open_path(out);
}

/* Header address of an object, 0 if there is none of that name. */
static uint64_t addr(const pg_store *s, const char *path)
{
    const pg__h5 *h5 = pg__keras_h5_of(s)->h5;
    const uint32_t obj = pg__h5_find(h5, 0, path);
    return obj == PG_H5_NONE ? 0 : pg__h5_at(h5, obj)->addr;
}

/* ---- links ------------------------------------------------------------------------------------
 */

static void links_whole_groups_that_hold_nothing_else(void **state)
{
    (void)state;
    pg__plan plan;
    save_made(begin_wrapper(two_layers, 3));
    pg_store *s = open_path(made);
    plan_two_layers(&plan, s);
    pg_store *o = save_and_open(&plan);
    assert_int_equal(addr(o, "a/a"), addr(s, "m/a"));
    assert_int_equal(addr(o, "b/b"), addr(s, "m/b"));
    assert_int_equal(addr(o, "b/b/kernel:0"), addr(s, "m/b/kernel:0"));
    assert_int_equal(addr(o, "m"), 0);
    assert_int_equal(addr(o, "in"), 0);
    assert_int_equal(pg_store_n_layers(o), 2);
    pg_store_close(o);
    pg_store_close(s);
    pg__plan_fini(&plan);
}

static void goes_tensor_by_tensor_where_a_group_holds_more(void **state)
{
    (void)state;
    static const char *const names[] = {"scope/a/kernel:0", "scope/b/kernel:0", "c/kernel:0",
                                        "d/kernel:0", "d/bias:0"};
    pg__plan plan = {0};
    pg__h5_out *h = begin_wrapper(names, 5);
    put_attr(h, "m/c", "note"); /* a fresh file has no such group attribute */
    save_made(h);
    pg_store *s = open_path(made);
    plan.src = s;
    assert_ok(pg__plan_add_layer(&plan, "a", 1, PG_NONE, NULL));
    assert_ok(pg__plan_add(&plan, 0, "scope/a/kernel:0", NULL));
    assert_ok(pg__plan_add_layer(&plan, "b", 1, PG_NONE, NULL));
    assert_ok(pg__plan_add(&plan, 1, "scope/b/kernel:0", NULL));
    assert_ok(pg__plan_add_layer(&plan, "c", 1, PG_NONE, NULL));
    assert_ok(pg__plan_add(&plan, 2, "c/kernel:0", NULL));
    assert_ok(pg__plan_add_layer(&plan, "d", 1, PG_NONE, NULL));
    assert_ok(pg__plan_add(&plan, 4, "e/beta:0", NULL)); /* renamed, and in another order */
    assert_ok(pg__plan_add(&plan, 3, "e/kernel:0", NULL));
    pg_store *o = save_and_open(&plan);
    assert_int_equal(addr(o, "a/scope/a"), addr(s, "m/scope/a"));
    assert_int_not_equal(addr(o, "a/scope"), addr(s, "m/scope"));
    assert_int_equal(addr(o, "a/scope/b"), 0);
    assert_int_equal(addr(o, "b/scope/b/kernel:0"), addr(s, "m/scope/b/kernel:0"));
    assert_int_not_equal(addr(o, "c/c"), addr(s, "m/c"));
    assert_int_equal(addr(o, "c/c/kernel:0"), addr(s, "m/c/kernel:0"));
    assert_int_equal(addr(o, "d/e/beta:0"), addr(s, "m/d/bias:0"));
    assert_int_equal(addr(o, "d/e/kernel:0"), addr(s, "m/d/kernel:0"));
    pg_store_close(o);
    pg_store_close(s);
    pg__plan_fini(&plan);
}

/* Layer "a/b" is a group inside layer "a": an old group there would get new links, which are
 * forgotten. */
static void keeps_old_groups_out_of_the_way_of_layers(void **state)
{
    (void)state;
    static const char *const names[] = {"b/kernel:0", "c/kernel:0"};
    pg__plan plan = {0};
    save_made(begin_wrapper(names, 2));
    pg_store *s = open_path(made);
    plan.src = s;
    assert_ok(pg__plan_add_layer(&plan, "a", 1, PG_NONE, NULL));
    assert_ok(pg__plan_add(&plan, 0, "b/kernel:0", NULL));
    assert_ok(pg__plan_add_layer(&plan, "a/b", 3, PG_NONE, NULL));
    assert_ok(pg__plan_add(&plan, 1, "c/kernel:0", NULL));
    pg_store *o = save_and_open(&plan);
    assert_int_equal(addr(o, "a/b/kernel:0"), addr(s, "m/b/kernel:0"));
    assert_int_equal(addr(o, "a/b/c/kernel:0"), addr(s, "m/c/kernel:0"));
    pg_store_close(o);
    pg_store_close(s);
    pg__plan_fini(&plan);
}

/* ---- the choice -------------------------------------------------------------------------------
 */

static void assert_choice(const pg__plan *plan, const char *against)
{
    pg_err err = {0};
    pg__sink *sink = NULL;
    assert_ok(pg__sink_open_memory(&sink, NULL));
    const pg_status st = pg__keras_h5_relinker.allowed(plan, sink, PG_RELINK_IF_CHEAPER, &err);
    pg__sink_close(sink);
    if (!against)
        assert_ok(st);
    else if (st != PG_E_UNSUPPORTED || !strstr(err.msg, against))
        fail_msg("\"%s\" should say \"%s\"", err.msg, against);
}

static void writes_many_tensors_afresh(void **state)
{
    (void)state;
    enum { MANY = 2001 };
    static char names[MANY][24];
    static const char *list[MANY];
    pg__plan plan = {0};
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "l%d/k:0", i);
        list[i] = names[i];
    }
    save_made(begin_wrapper(list, MANY));
    pg_store *s = open_path(made);
    assert_ok(pg__plan_copy_of(&plan, s, NULL));
    assert_choice(&plan, "a fresh file costs no more");
    pg__plan_fini(&plan);
    pg_store_close(s);
}

static void relinks_what_is_stored_in_chunks(void **state)
{
    (void)state;
    pg__plan plan;
    pg__h5_out *h = begin_wrapper(two_layers, 3);
    put_attr(h, "", "author");
    save_made(h);
    const hid_t f = H5Fopen(made, H5F_ACC_RDWR, H5P_DEFAULT), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(1, (hsize_t[]){8}, NULL);
    const float values[8] = {1, 2, 3};
    assert_true(H5Ldelete(f, "m/b/kernel:0", H5P_DEFAULT) >= 0);
    assert_true(H5Pset_chunk(dcpl, 1, (hsize_t[]){4}) >= 0 && H5Pset_deflate(dcpl, 1) >= 0);
    const hid_t d =
        H5Dcreate2(f, "m/b/kernel:0", H5T_IEEE_F32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    assert_true(H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(d), H5Sclose(space), H5Pclose(dcpl), H5Fclose(f);
    pg_store *s = open_path(made);
    plan_two_layers(&plan, s);
    assert_choice(&plan, NULL);
    pg_store *o = save_and_open(&plan);
    float got[8];
    assert_ok(pg_store_read(o, 2, 0, got, sizeof got, NULL));
    assert_memory_equal(got, values, sizeof got);
    assert_false(
        pg__h5_at(pg__keras_h5_of(o)->h5, pg__h5_find(pg__keras_h5_of(o)->h5, 0, "b/b/kernel:0"))
            ->contiguous);
    pg_store_close(o);
    pg_store_close(s);
    pg__plan_fini(&plan);
}

static void never_carries_along_what_nobody_asked_for(void **state)
{
    (void)state;
    pg__plan plan;
    n_values = 8192;
    save_made(begin_wrapper(two_layers, 3));
    pg_store *s = open_path(made);
    plan_two_layers(&plan, s);
    plan.n_items--, plan.layers[1].n--;
    assert_choice(&plan, "the space of the removed data");
    plan.n_items++, plan.layers[1].n++;
    assert_choice(&plan, "a fresh file costs no more");
    plan.items[2].src = 0;
    assert_choice(&plan, "one tensor would become two");
    pg__plan_fini(&plan);
    pg_store_close(s);
    save_made(begin_wrapper((const char *[]){"a/kernel:0", "gone:0", "a/bias:0", "b/kernel:0"}, 4));
    const char names[3][12] = {"a/kernel:0", "a/bias:0", "b/kernel:0"};
    const hid_t f = H5Fopen(made, H5F_ACC_RDWR, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
    const hid_t three = H5Screate_simple(1, (hsize_t[]){3}, NULL);
    assert_true(H5Tset_size(type, sizeof names[0]) >= 0);
    assert_true(H5Ldelete(f, "m/gone:0", H5P_DEFAULT) >= 0);
    assert_true(H5Adelete_by_name(f, "m", "weight_names", H5P_DEFAULT) >= 0);
    const hid_t a = H5Acreate_by_name(f, "m", "weight_names", type, three, H5P_DEFAULT, H5P_DEFAULT,
                                      H5P_DEFAULT);
    assert_true(H5Awrite(a, type, names) >= 0);
    H5Aclose(a), H5Sclose(three), H5Tclose(type), H5Fclose(f);
    s = open_path(made);
    plan_two_layers(&plan, s);
    assert_choice(&plan, "the space of the removed data");
    pg__plan_fini(&plan);
    pg_store_close(s);
    n_values = 8;
    pg__h5_out *h = begin_wrapper(two_layers, 3);
    put_attr(h, "m/b/kernel:0", "note");
    save_made(h);
    s = open_path(made);
    plan_two_layers(&plan, s);
    assert_choice(&plan, "a tensor has attributes");
    pg__plan_fini(&plan);
    pg_store_close(s);
    h = begin_wrapper(two_layers, 3);
    size_t id;
    assert_ok(pg__h5_out_group(h, "top_level_model_weights", NULL));
    assert_ok(pg__h5_out_names(h, "top_level_model_weights", "weight_names",
                               (const char *[]){"t:0"}, 1, PG_H5_STR_FIXED, NULL));
    assert_ok(pg__h5_out_dataset(h, "top_level_model_weights/t:0", &f32, 1, &n_values, &id, NULL));
    put_attr(h, "top_level_model_weights/t:0", "note");
    save_made(h);
    s = open_path(made);
    plan_two_layers(&plan, s);
    assert_choice(&plan, "a tensor has attributes");
    pg__plan_fini(&plan);
    pg_store_close(s);
    pg_store *other = pg_test_store("a[a/k]");
    plan = (pg__plan){0};
    assert_ok(pg__plan_copy_of(&plan, other, NULL));
    assert_choice(&plan, "not an .h5 of the legacy layout");
    pg__plan_fini(&plan);
    pg_store_close(other);
}

#define SECRET "what somebody deleted from it or is not to go along"

static int holds(const char *path, const char *text)
{
    static char bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_true(n > 0 && n < sizeof bytes);
    fclose(f);
    return memmem(bytes, n, text, strlen(text)) != NULL;
}

/* An old description, the name of a deleted link, a deleted attribute, the values of a tensor that
 * is gone: none of them is in a copy, although its tensors are where they were. */
static void leaves_behind_what_nothing_leads_to(void **state)
{
    (void)state;
    pg__plan plan;
    save_made(begin_wrapper(two_layers, 3));
    const hid_t f = H5Fopen(made, H5F_ACC_RDWR, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
    const hid_t one = H5Screate(H5S_SCALAR);
    assert_true(H5Tset_size(type, sizeof SECRET) >= 0);
    hid_t x =
        H5Acreate_by_name(f, "/", "model_config", type, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(x, type, SECRET) >= 0 && H5Aclose(x) >= 0);
    x = H5Acreate_by_name(f, "m/a/bias:0", "note", type, one, H5P_DEFAULT, H5P_DEFAULT,
                          H5P_DEFAULT);
    assert_true(H5Awrite(x, type, SECRET) >= 0 && H5Aclose(x) >= 0);
    assert_true(H5Adelete_by_name(f, "m/a/bias:0", "note", H5P_DEFAULT) >= 0);
    x = H5Dcreate2(f, "m/b/" SECRET, type, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(x, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, SECRET) >= 0 && H5Dclose(x) >= 0);
    assert_true(H5Ldelete(f, "m/b/" SECRET, H5P_DEFAULT) >= 0);
    H5Sclose(one), H5Tclose(type), H5Fclose(f);
    pg_store *s = open_path(made);
    plan_two_layers(&plan, s);
    pg_store *o = save_and_open(&plan);
    assert_int_equal(addr(o, "a/a/bias:0"), addr(s, "m/a/bias:0"));
    assert_int_equal(addr(o, "b/b/kernel:0"), addr(s, "m/b/kernel:0"));
    assert_int_equal(addr(o, "a/a"), addr(s, "m/a"));
    assert_int_not_equal(addr(o, "b/b"), addr(s, "m/b"));
    assert_true(holds(made, &SECRET[16]));
    assert_false(holds(out, &SECRET[16])); /* libhdf5 writes to the first bytes of a free name */
    pg_store_close(o);
    pg_store_close(s);
    pg__plan_fini(&plan);
}

/* A comment is no attribute: a new file does not get it, whether it is a group's or a tensor's. */
static void leaves_comments_behind(void **state)
{
    (void)state;
    static const char *const objects[] = {"m/b", "m/b/kernel:0"};
    for (size_t i = 0; i < 2; i++) {
        pg__plan plan;
        save_made(begin_wrapper(two_layers, 3));
        const hid_t f = H5Fopen(made, H5F_ACC_RDWR, H5P_DEFAULT);
        assert_true(H5Oset_comment_by_name(f, objects[i], SECRET, H5P_DEFAULT) >= 0);
        H5Fclose(f);
        pg_store *s = open_path(made);
        plan_two_layers(&plan, s);
        pg_store *o = save_and_open(&plan);
        assert_true((addr(o, "b/b/kernel:0") == addr(s, "m/b/kernel:0")) == (i == 0));
        assert_int_not_equal(addr(o, "b/b"), addr(s, "m/b"));
        assert_true(holds(made, SECRET));
        assert_false(holds(out, SECRET));
        pg_store_close(o);
        pg_store_close(s);
        pg__plan_fini(&plan);
    }
}

/* ---- the proof --------------------------------------------------------------------------------
 */

typedef enum fault_kind { LAYER, LIST, HEAD, EXTENT, N_FAULTS } fault_kind;
static fault_kind fault;

/* Puts `to` in the place of the n-th `from`. */
static void replace(pg__relinked *re, const char *from, const char *to)
{
    const size_t n = strlen(from);
    for (size_t i = 0; i + n <= re->n_tail; i++)
        if (memcmp(re->tail + i, from, n) == 0) {
            memcpy(re->tail + i, to, n);
            return;
        }
    fail_msg("%s is not in the tail", from);
}

static pg_status make_wrongly(pg__relinked *re, const pg__plan *plan, int copy,
                              const volatile int *cancel, pg_err *err)
{
    const pg_status st = pg__keras_h5_relinker.make(re, plan, copy, cancel, err);
    assert_ok(st);
    switch (fault) {
    case LAYER: replace(re, "layer_names", "layer_nomes"); break;
    case LIST: replace(re, "a/kernel:0", "a/kernal:0"); break;
    case HEAD: re->head[64]++; break; /* address of the root */
    default: break;
    }
    return st;
}

/* EXTENT: a tensor of the right name, type and shape elsewhere. A copy is written afresh then. */
static void notices_every_difference(void **state)
{
    (void)state;
    pg__plan plan;
    pg__format f = pg__fmt_keras_h5;
    pg__relinker wrong = pg__keras_h5_relinker;
    wrong.make = make_wrongly;
    f.relinker = &wrong;
    save_made(begin_wrapper(two_layers, 3));
    (void)unlink(out);
    for (fault = 0; fault < N_FAULTS; fault++) {
        pg_err err = {0};
        pg__flip *file = NULL;
        pg__save_report report = {0};
        pg__io *io = NULL;
        unsigned char before[64], after[64];
        assert_ok(pg__flip_open(&file, made, &forced.sink, NULL));
        pg_store *s = open_path(made);
        plan_two_layers(&plan, s);
        if (fault == EXTENT) { /* two tensors of one shape change places */
            plan.items[0].src = 2, plan.items[2].src = 0;
            pg_store *o = save_and_open(&plan);
            plan.items[0].src = 0, plan.items[2].src = 2;
            assert_fails(PG_E_IO, pg__keras_h5_relinker.check(o, &plan, &err), &err);
            assert_non_null(strstr(err.msg, "not where it was"));
            pg_store_close(o);
            assert_int_equal(unlink(out), 0);
        } else {
            assert_ok(pg__io_open(&io, made, NULL));
            assert_ok(pg__io_read(io, 0, before, sizeof before, NULL));
            assert_ok(pg__format_save(&f, out, &plan, &forced, NULL, &err));
            pg_store *o = open_path(out);
            assert_int_not_equal(addr(o, "a/a/kernel:0"), addr(s, "m/a/kernel:0"));
            pg_store_close(o);
            assert_int_equal(unlink(out), 0);
            assert_true(pg__format_save_in_place(&f, file, &plan, &forced, 0, &report, &err) !=
                        PG_OK);
            assert_true(strncmp(err.msg, made, strlen(made)) == 0);
            assert_ok(pg__io_read(io, 0, after, sizeof after, NULL));
            assert_memory_equal(after, before, sizeof after);
            pg__io_close(io);
        }
        pg__plan_fini(&plan);
        pg_store_close(s);
        pg__flip_close(file);
    }
}

static uint64_t damage_at;

/* The disk does not have what was written: found out when the output is opened again. */
static pg_status open_damaged(pg_store **s, pg__io *io, const char *path, const pg_open_opts *opts,
                              pg_err *err)
{
    const int fd = pg__io_fd(io, 0, NULL); /* none before it is written */
    if (fd >= 0)
        assert_int_equal(pwrite(fd, "!", 1, (off_t)damage_at), 1);
    return pg__fmt_keras_h5.open(s, io, path, opts, err);
}

static void compares_the_bytes_of_a_copy(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__plan plan;
    pg__format f = pg__fmt_keras_h5;
    f.open = open_damaged;
    save_made(begin_wrapper(two_layers, 3));
    pg_store *s = open_path(made);
    plan_two_layers(&plan, s);
    damage_at = pg__store_extent(s, 2).off + 31; /* the last byte of the last tensor */
    assert_fails(PG_E_IO, pg__format_save(&f, out, &plan, &forced, NULL, &err), &err);
    assert_non_null(strstr(err.msg, "differs from"));
    assert_int_equal(access(out, F_OK), -1);
    pg__plan_fini(&plan);
    pg_store_close(s);
}

static unsigned char *bytes_of(const char *path, size_t *n)
{
    pg__io *io = NULL;
    assert_ok(pg__io_open(&io, path, NULL));
    *n = (size_t)pg__io_size(io);
    unsigned char *p = malloc(*n);
    assert_non_null(p);
    assert_ok(pg__io_read(io, 0, p, *n, NULL));
    pg__io_close(io);
    return p;
}

/* Tensors of several pieces, one of which is dropped: pieces kept whole, in part and not at all. */
static void a_copy_whose_source_is_read_once_is_the_same(void **state)
{
    (void)state;
    char text[24][8];
    const char *names[24];
    pg__save_opts once = forced;
    pg__plan plan = {0};
    pg__format f = pg__fmt_keras_h5;
    size_t n, n_once;
    once.read_once = 1;
    f.open = open_damaged;
    n_values = 200 * 1000;
    for (size_t i = 0; i < 24; i++) {
        snprintf(text[i], sizeof text[i], "v%zu:0", i);
        names[i] = text[i];
    }
    save_made(begin_wrapper(names, 24));
    pg_store *s = open_path(made);
    plan.src = s;
    assert_ok(pg__plan_add_layer(&plan, "a", 1, PG_NONE, NULL));
    for (size_t i = 0; i < 24; i++)
        if (i != 1)
            assert_ok(pg__plan_add(&plan, i, names[i], NULL));
    assert_ok(pg__format_save(&pg__fmt_keras_h5, out, &plan, &forced, NULL, NULL));
    pg_store *o = open_path(out);
    assert_int_equal(pg__store_extent(o, 2).off, pg__store_extent(s, 3).off); /* relinked */
    pg_store_close(o);
    unsigned char *want = bytes_of(out, &n);
    assert_int_equal(unlink(out), 0);
    assert_ok(pg__format_save(&pg__fmt_keras_h5, out, &plan, &once, NULL, NULL));
    unsigned char *got = bytes_of(out, &n_once);
    assert_int_equal(unlink(out), 0);
    assert_int_equal(n_once, n);
    assert_memory_equal(got, want, n);
    const uint64_t first = pg__store_extent(s, 0).off;
    const uint64_t end = pg__store_extent(s, 23).off + 4 * n_values;
    for (damage_at = first; damage_at < end; damage_at += (end - first) / 61) {
        pg_err err = {0};
        assert_fails(PG_E_IO, pg__format_save(&f, out, &plan, &once, NULL, &err), &err);
        assert_non_null(strstr(err.msg, "or a later one differs from"));
        assert_int_equal(access(out, F_OK), -1);
    }
    n_values = 8;
    free(want);
    free(got);
    pg__plan_fini(&plan);
    pg_store_close(s);
}

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(made, sizeof made, "%s/made.h5", dir);
    snprintf(out, sizeof out, "%s/out.h5", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    (void)unlink(out);
    return unlink(made) || rmdir(dir); /* fails if anything else was left behind */
}

PG_TEST_MAIN_WITH(make_dir, remove_dir, cmocka_unit_test(links_whole_groups_that_hold_nothing_else),
                  cmocka_unit_test(goes_tensor_by_tensor_where_a_group_holds_more),
                  cmocka_unit_test(keeps_old_groups_out_of_the_way_of_layers),
                  cmocka_unit_test(writes_many_tensors_afresh),
                  cmocka_unit_test(relinks_what_is_stored_in_chunks),
                  cmocka_unit_test(never_carries_along_what_nobody_asked_for),
                  cmocka_unit_test(leaves_behind_what_nothing_leads_to),
                  cmocka_unit_test(leaves_comments_behind),
                  cmocka_unit_test(notices_every_difference),
                  cmocka_unit_test(compares_the_bytes_of_a_copy),
                  cmocka_unit_test(a_copy_whose_source_is_read_once_is_the_same))
