#include "format/modern.h"

#include "base/limits.h"
#include "format/flax.h"
#include "format/format.h"

static void reads_every_tree(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"flax-msgpack/flax_model.msgpack", "flax-msgpack/expected.safetensors"},
        {"flax-msgpack-chunked/flax_model.msgpack", "flax-msgpack-chunked/expected.safetensors"},
        {"flax-msgpack-replicated/flax_model.msgpack",
         "flax-msgpack-replicated/expected.safetensors"},
        {"flax-msgpack-trainstate/checkpoint_2", "flax-msgpack-trainstate/expected.safetensors"},
        {"flax-checkpoints-legacy/ckpt/checkpoint_2",
         "flax-checkpoints-legacy/expected.safetensors"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        modern_check(rows[i][0], rows[i][1], "");
}

/* The expected state has the arrays below "a" alone. */
static void reads_every_type(void **state)
{
    (void)state;
    pg_store *s = NULL, *e = NULL;
    assert_ok(pg_store_open(&s, modern_path("flax-msgpack-dtypes/d.msgpack"),
                            &(pg_open_opts){.part = "a"}, NULL));
    assert_ok(
        pg_store_open(&e, modern_path("flax-msgpack-dtypes/expected.safetensors"), NULL, NULL));
    assert_int_equal(pg_store_n_weights(s), 11);
    for (size_t k = 0; k < 11; k++) {
        const size_t i = modern_find(s, pg_store_weight(e, k)->name);
        assert_int_not_equal(i, PG_NONE);
        modern_equal(s, i, e, k);
    }
    pg_store_close(s);
    pg_store_close(e);
}

/* ---- msgpack by hand ---- */

#define F32 \
    "\xA7"  \
    "float32"
#define SCALAR "\xD8\x03\x93\x90" F32 "\xC4\x04\x00\x00\x80\x3F"
#define ARRAY  "\xC7\x11\x01\x93\x91\x01" F32 "\xC4\x04\x00\x00\x80\x3F"
#define TWICE  "\xC7\x16\x01\x93\x92\x02\x01" F32 "\xC4\x08\x00\x00\x80\x3F\x00\x00\x80\x3F"
#define COPIES                             \
    "\xC7\x1E\x01\x93\x92\x02\x02" F32      \
    "\xC4\x10\x00\x00\x80\x3F\0\0\0\0\x00\x00\x80\x3F\0\0\0\0"
#define INT4                       \
    "\xC7\x0E\x01\x93\x91\x01\xA4" \
    "int4\xC4\x04\x00\x00\x80\x3F"
#define NONE \
    "\xC7\x16\x01\x93\x92\xCF\x00\x00\x01\x00\x00\x00\x00\x00\x00" F32 "\xC4\x00" /* (2^40, 0) */
#define TEXT(s) s, sizeof(s) - 1

static pg_status open_bytes(pg_store **s, const void *data, size_t n, const char *part, pg_err *err)
{
    pg__io *io = NULL;
    *s = NULL;
    assert_ok(pg__io_open_mem(&io, data, n, NULL));
    const pg_status st = pg__fmt_flax.open(s, io, "w.msgpack", &(pg_open_opts){.part = part}, err);
    pg__io_close(io);
    return st;
}

static void opens(const void *data, size_t n, size_t n_weights, const char *others)
{
    pg_store *s = NULL;
    pg_err err = {0};
    if (open_bytes(&s, data, n, NULL, &err) != PG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(pg_store_n_weights(s), n_weights);
    if (others)
        assert_string_equal(pg_store_others(s), others);
    pg_store_close(s);
}

static void is_known_by_any_first_value(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        size_t n;
    } firsts[] = {
        {TEXT(SCALAR)},
        {TEXT("\xD6\x03")}, /* cut short, behind the type */
        {TEXT("\x05")},
        {TEXT("\xFB")},
        {TEXT("\xCD\x01\xF4")},
        {TEXT("\xCF\x10\x00\x00\x00\x00\x00\x00\x00")},
        {TEXT("\xD3\xF0\x00\x00\x00\x00\x00\x00\x00")},
        {TEXT("\xCA\x00\x00\x00\x00")},
        {TEXT("\xCB\x00\x00\x00\x00\x00\x00\x00\x00")},
        {TEXT("\xC2")},
        {TEXT("\xC3")},
        {TEXT("\xC0")},
        {TEXT("\xA5hello")},
        {TEXT("\xD9\x21"
              "a text of thirty-three characters")},
    };
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        unsigned char data[128] = "\x82\xA1"
                                  "a";
        size_t n = 3;
        memcpy(data + n, firsts[i].s, firsts[i].n);
        n += firsts[i].n;
        memcpy(data + n, "\xA1w" ARRAY, 2 + sizeof ARRAY - 1);
        n += 2 + sizeof ARRAY - 1;
        if (!pg__flax_is(data, n))
            fail_msg("first value %zu", i);
    }
    opens(TEXT("\x82\xA1"
               "a" SCALAR "\xA1w" ARRAY),
          2, NULL);
    opens(TEXT("\x81\xA1l\x82\x00" ARRAY "\x01" ARRAY), 2, NULL); /* nnx.List */
    opens(TEXT("\x82\xA1"
               "a\xCD\x01\xF4\xA1w" ARRAY),
          1, "a 500");
}

static void other_msgpack_is_not_flax(void **state)
{
    (void)state;
    assert_int_equal(pg__flax_is((const unsigned char *)TEXT("\x81\xA1"
                                                             "a\xC4\x01x")),
                     0); /* bytes */
    assert_int_equal(pg__flax_is((const unsigned char *)TEXT("\x81\xA1"
                                                             "a\xD6\x7Fxxxx")),
                     0);
    assert_int_equal(pg__flax_is((const unsigned char *)TEXT("\x81\xA1\x01" ARRAY)), 0);
    assert_int_equal(pg__flax_is((const unsigned char *)TEXT("\x81\xC4\x01"
                                                             "a" ARRAY)),
                     0);
    assert_int_equal(pg__flax_is((const unsigned char *)TEXT("\x82\xA1"
                                                             "a\x05")),
                     0);
}

static void optimizers_of_every_library_are_state(void **state)
{
    (void)state;
    static const char *const training[] = {"opt_state/0/mu/w",
                                           "train_state/opt_state/0/nu/w",
                                           "opt_states_0/2/m/w",
                                           "optimizer/state/param_states/w/grad_ema",
                                           "state/param_states/w/m",
                                           "optimizer_state/count",
                                           "step",
                                           "train_state/step",
                                           "state/step",
                                           "optimizer/step/value"};
    static const char *const model[] = {"params/w",        "target/w",   "optimizer/target/w",
                                        "step_size/w",     "opt/kernel", "params/step",
                                        "batch_stats/mean"};
    for (size_t i = 0; i < sizeof training / sizeof *training; i++)
        if (pg__flax_wants(training[i], NULL) != 2)
            fail_msg("%s", training[i]);
    for (size_t i = 0; i < sizeof model / sizeof *model; i++)
        if (pg__flax_wants(model[i], NULL) != 1)
            fail_msg("%s", model[i]);
    assert_int_equal(pg__flax_wants("opt_state/0/mu/w", "."), 1);
    assert_int_equal(pg__flax_wants("params_two/w", "params"), 0);
}

#define AND_AVERAGE                        \
    "\x82\xA6params\x81\xA1w" ARRAY "\xAA" \
    "ema_params\x81\xA1w" ARRAY

static void a_moving_average_is_a_choice(void **state)
{
    (void)state;
    pg_store *s = NULL;
    pg_err err = {0};
    assert_fails(PG_E_AMBIGUOUS, open_bytes(&s, TEXT(AND_AVERAGE), NULL, &err), &err);
    assert_string_equal(advice_of(&err), "choose-part part=params");
    assert_ok(open_bytes(&s, TEXT(AND_AVERAGE), "ema_params", &err));
    assert_int_equal(pg_store_n_weights(s), 1);
    pg_store_close(s);
    opens(TEXT("\x81\xAA"
               "ema_params\x81\xA1w" ARRAY),
          1, NULL);
}

static void foreign_types_are_refused_in_the_model_alone(void **state)
{
    (void)state;
    pg_store *s = NULL;
    pg_err err = {0};
    opens(TEXT("\x82\xA9opt_state\x81\xA1m" INT4 "\xA6params\x81\xA1w" ARRAY), 1, "opt_state/m");
    assert_fails(PG_E_UNSUPPORTED, open_bytes(&s, TEXT("\x81\xA6params\x81\xA1w" INT4), NULL, &err),
                 &err);
    assert_string_equal(err.msg, "params/w: type int4 is not supported");
}

#define CHUNKS(a, b)                                                  \
    "\x81\xA1w\x83\xB9__msgpack_chunked_array__\xC3\xA5shape\x81\xA1" \
    "0\x02\xA6"                                                       \
    "chunks\x82\xA1" a ARRAY "\xA1" b ARRAY

static void chunks_are_in_order(void **state)
{
    (void)state;
    pg_store *s = NULL;
    pg_err err = {0};
    opens(TEXT(CHUNKS("0", "1")), 1, NULL);
    assert_fails(PG_E_FORMAT, open_bytes(&s, TEXT(CHUNKS("1", "0")), NULL, &err), &err);
    assert_fails(PG_E_FORMAT, open_bytes(&s, TEXT(CHUNKS("0", "0")), NULL, &err), &err);
    assert_non_null(strstr(err.msg, "parts are not in order"));
}

/* Without elements, and of one number over and over, copies cannot be told from a long axis: a scale
 * of ones and a bias of zeros are none. */
static void nothing_has_no_copies(void **state)
{
    (void)state;
    pg_store *s = NULL;
    opens(TEXT("\x82\xA1"
               "a" TWICE "\xA1"
               "b" COPIES),
          2, "2 equal copies of every array (jax_utils.replicate)");
    opens(TEXT("\x82\xA1"
               "a" TWICE "\xA1"
               "b" TWICE),
          2, NULL);
    assert_ok(open_bytes(&s,
                         TEXT("\x82\xA1"
                              "a" NONE "\xA1"
                              "b" NONE),
                         NULL, NULL));
    assert_int_equal(pg_store_n_weights(s), 2);
    assert_int_equal(pg_store_weight(s, 0)->dims[0], UINT64_C(1) << 40);
    pg_store_close(s);
}

/* A key of 65,000 bytes is written once, and is in the name of each of 5,000 arrays. */
static void names_have_a_budget(void **state)
{
    (void)state;
    enum { KEY = 65000, N = 5000 };
    pg_store *s = NULL;
    pg_err err = {0};
    unsigned char *data = calloc(1, KEY + N * (3 + sizeof ARRAY) + 32);
    size_t n = 0;
    assert_non_null(data);
    memcpy(data,
           "\x82\xA1"
           "a" ARRAY "\xDA\xFD\xE8",
           n = 6 + sizeof ARRAY - 1);
    memset(data + n, 'k', KEY);
    n += KEY;
    memcpy(data + n, "\xDE\x13\x88", 3);
    n += 3;
    for (size_t i = 0; i < N; i++) {
        data[n++] = 0xCD;
        data[n++] = (unsigned char)(i >> 8);
        data[n++] = (unsigned char)i;
        memcpy(data + n, ARRAY, sizeof ARRAY - 1);
        n += sizeof ARRAY - 1;
    }
    assert_fails(PG_E_LIMIT, open_bytes(&s, data, n, NULL, &err), &err); /* PG_LIMIT_NAMES_BYTES */
    assert_non_null(strstr(err.msg, "names of more than"));
    free(data);
}

PG_TEST_MAIN(cmocka_unit_test(reads_every_tree), cmocka_unit_test(reads_every_type),
             cmocka_unit_test(is_known_by_any_first_value),
             cmocka_unit_test(other_msgpack_is_not_flax),
             cmocka_unit_test(optimizers_of_every_library_are_state),
             cmocka_unit_test(a_moving_average_is_a_choice),
             cmocka_unit_test(foreign_types_are_refused_in_the_model_alone),
             cmocka_unit_test(chunks_are_in_order), cmocka_unit_test(nothing_has_no_copies),
             cmocka_unit_test(names_have_a_budget))
