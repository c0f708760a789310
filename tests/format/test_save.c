/* A proof is worth what it finds: every test here writes something other than the plan says. */
#include "pg_test.h"

#include <unistd.h>

#include "format/format.h"

static char dir[] = "/tmp/pg-test-save-XXXXXX";
static char out[64];
static const pg__save_opts quick = {.sink = {.no_sync = 1}};
static const pg__save_opts once = {.sink = {.no_sync = 1}, .read_once = 1};
static size_t n_read; /* bytes of a/w */

static pg_status count_up(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    (void)ctx, (void)err;
    n_read += tensor == 0 ? n : 0;
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)buf)[i] = (unsigned char)(tensor * 31 + (off + i) % 251);
    return PG_OK;
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* Layers a (w: two pieces of 256 KiB, b) and c; one state tensor. */
static pg_store *source(void)
{
    static const pg__store_io io = {.read = count_up, .close = nothing};
    const uint64_t dims[] = {300, 300};
    pg_store *s = NULL;
    pg__tensor_desc d = {.name = "a/w", .dtype = PG_F32, .rank = 2, .dims = dims};
    assert_ok(pg__store_new(&s, "test", &io, NULL, NULL));
    assert_ok(pg__store_set_path(s, "in.h5", NULL));
    assert_ok(pg__store_add_layer(s, "a", NULL));
    assert_ok(pg__store_add_weight(s, &d, NULL));
    d.name = "a/b", d.rank = 1;
    assert_ok(pg__store_add_weight(s, &d, NULL));
    assert_ok(pg__store_add_layer(s, "c", NULL));
    d.name = "it", d.rank = 0;
    assert_ok(pg__store_add_state(s, &d, NULL));
    assert_ok(pg__store_set_text(s, PG_TEXT_MODEL_CONFIG, "{}", 2, NULL));
    return s;
}

/* What the writer below does wrong. */
typedef enum fault_kind {
    NOTHING,
    FLIP_DATA,
    RENAME_LAYER,
    RENAME_WEIGHT,
    SWAP,
    NO_STATE,
    NO_TEXT,
    FAIL
} fault_kind;
static fault_kind fault;

static void rename_to(char *name)
{
    *name = 'z';
}

/* The last byte of tensor 0, which is in its second piece. */
static pg_status flip_a_byte(pg__sink *sink, pg_err *err)
{
    pg__io *io = NULL;
    pg_store *s = NULL;
    unsigned char c = 0;
    assert_ok(pg__sink_reopen(sink, &io, err));
    assert_ok(pg__fmt_keras_h5.open(&s, io, out, NULL, err));
    const uint64_t at = pg__store_extent(s, 0).off + pg_store_weight(s, 0)->n_bytes - 1;
    assert_ok(pg__io_read(io, at, &c, 1, err));
    pg_store_close(s);
    pg__io_close(io);
    c ^= 1;
    return pg__sink_write(sink, at, &c, 1, err);
}

static pg_status write_wrongly(pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg__plan other = {0};
    assert_ok(pg__plan_copy_of(&other, plan->src, NULL));
    if (fault == FAIL)
        (void)pg_fail(err, PG_E_FORMAT, "broken on purpose");
    if (fault == RENAME_LAYER)
        rename_to(other.layers[1].name);
    if (fault == RENAME_WEIGHT)
        rename_to(other.items[1].name);
    if (fault == SWAP) {
        const pg__plan_item first = other.items[0];
        other.items[0] = other.items[1];
        other.items[1] = first;
    }
    other.keep_state = fault != NO_STATE;
    if (fault == NO_TEXT)
        other.model_config[1] = '!';
    pg_status st = fault == FAIL ? PG_E_FORMAT : pg__fmt_keras_h5.write(sink, &other, err);
    if (st == PG_OK && fault == FLIP_DATA)
        st = flip_a_byte(sink, err);
    pg__plan_fini(&other);
    return st;
}

static pg_status save(fault_kind this_fault, const pg__save_opts *opts, pg__save_report *report,
                      pg_err *err)
{
    pg__format f = pg__fmt_keras_h5;
    pg__plan plan = {0};
    pg_store *s = source();
    fault = this_fault;
    f.write = write_wrongly;
    assert_ok(pg__plan_copy_of(&plan, s, NULL));
    const pg_status st = pg__format_save(&f, out, &plan, opts, report, err);
    pg__plan_fini(&plan);
    pg_store_close(s);
    return st;
}

static void counts_what_it_compared(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__save_report report = {0};
    if (save(NOTHING, &quick, &report, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(report.n_verified, 3);
    assert_true(report.file_bytes > 4 * 300 * 300);
    assert_int_equal(unlink(out), 0);
}

static void reads_a_large_tensor_once_where_that_is_wanted(void **state)
{
    (void)state;
    pg__save_report report = {0};
    n_read = 0;
    assert_ok(save(NOTHING, &quick, NULL, NULL));
    assert_int_equal(n_read, 2 * 4 * 300 * 300);
    assert_int_equal(unlink(out), 0);
    n_read = 0;
    assert_ok(save(NOTHING, &once, &report, NULL));
    assert_int_equal(n_read, 4 * 300 * 300);
    assert_int_equal(report.n_verified, 3);
    assert_int_equal(unlink(out), 0);
}

static void notices_every_difference_and_writes_nothing(void **state)
{
    (void)state;
    static const struct {
        fault_kind fault;
        const char *says;
    } cases[] = {
        {FLIP_DATA, "its data"},         {RENAME_LAYER, "name of this layer"},
        {RENAME_WEIGHT, "name of this"}, {SWAP, "name of this tensor"},
        {NO_STATE, "it: missing"},       {NO_TEXT, "its text"},
        {FAIL, "broken on purpose"},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        pg_err err = {0};
        const fault_kind this_fault = cases[i / 2].fault;
        const pg_status want = this_fault == FAIL ? PG_E_FORMAT : PG_E_IO;
        assert_fails(want, save(this_fault, i % 2 ? &once : &quick, NULL, &err), &err);
        if (!strstr(err.msg, cases[i / 2].says) || strncmp(err.msg, out, strlen(out)) != 0)
            fail_msg("\"%s\" should start with the output and say \"%s\"", err.msg,
                     cases[i / 2].says);
        assert_int_equal(access(out, F_OK), -1);
    }
}

static void leaves_an_existing_file_alone(void **state)
{
    (void)state;
    pg_err err = {0};
    char got[8] = "";
    FILE *f = fopen(out, "w");
    assert_true(f && fputs("old", f) >= 0 && fclose(f) == 0);
    assert_fails(PG_E_ARG, save(NOTHING, &quick, NULL, &err), &err);
    const pg__save_opts force = {.sink = {.no_sync = 1, .force = 1}};
    assert_fails(PG_E_IO, save(FLIP_DATA, &force, NULL, &err), &err);
    f = fopen(out, "r");
    assert_true(f && fgets(got, sizeof got, f) && fclose(f) == 0);
    assert_string_equal(got, "old");
    assert_int_equal(unlink(out), 0);
}

static void believes_the_writer_only_when_told_to(void **state)
{
    (void)state;
    pg__save_report report = {.n_verified = 9};
    const pg__save_opts skip = {.sink = {.no_sync = 1}, .skip_verify = 1};
    assert_ok(save(FLIP_DATA, &skip, &report, NULL));
    assert_int_equal(report.n_verified, 0);
    assert_int_equal(unlink(out), 0);
}

static void stops_when_asked_to(void **state)
{
    (void)state;
    pg_err err = {0};
    const volatile int cancel = 1;
    const pg__save_opts opts = {.sink = {.no_sync = 1, .cancel = &cancel}};
    assert_fails(PG_E_CANCELLED, save(NOTHING, &opts, NULL, &err), &err);
    assert_int_equal(access(out, F_OK), -1);
}

static void refuses_formats_that_cannot_be_written(void **state)
{
    (void)state;
    pg_err err = {0};
    pg__plan plan = {0};
    pg__format f = pg__fmt_keras_h5;
    f.write = NULL;
    plan.src = source();
    assert_fails(PG_E_UNSUPPORTED, pg__format_save(&f, out, &plan, &quick, NULL, &err), &err);
    assert_fails(PG_E_UNSUPPORTED, pg__format_save(NULL, out, &plan, &quick, NULL, &err), &err);
    pg_store_close(plan.src);
}

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(out, sizeof out, "%s/out.h5", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir); /* fails if anything was left behind */
}

const char *pg_testdata = ".";

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_it_compared),
        cmocka_unit_test(reads_a_large_tensor_once_where_that_is_wanted),
        cmocka_unit_test(notices_every_difference_and_writes_nothing),
        cmocka_unit_test(leaves_an_existing_file_alone),
        cmocka_unit_test(believes_the_writer_only_when_told_to),
        cmocka_unit_test(stops_when_asked_to),
        cmocka_unit_test(refuses_formats_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
