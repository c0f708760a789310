/* The strict reader at its limits: as many, as long and as few as a file may hold, and one more.
 * What would take a file of gigabytes is asked of the function that draws the line. */
#include "pg_test.h"

#include "base/hash.h"
#include "base/mem.h"
#include "format/h5/h5_impl.h"
#include "format/h5_image.h"

/* ---- a file by hand: superblock of version 2, the root's header right behind it */

#define ROOT 48u

static void add(image *im, uint64_t v, unsigned n)
{
    memcpy(im->p + im->n, &v, n);
    im->n += n;
}

/* A message of the root: type, size, no flags; the body is to follow. */
static void add_message(image *im, unsigned type, unsigned n)
{
    add(im, type, 1);
    add(im, n, 2);
    add(im, 0, 1);
}

/* Begins the file; there is room for n bytes of messages. */
static image begin(size_t n)
{
    image im = {.p = calloc(n + 128, 1)};
    assert_non_null(im.p);
    im.n = ROOT;
    memcpy(im.p + im.n, "OHDR\2", 5);
    im.p[im.n + 5] = n < 256 ? 0 : 2; /* size of one byte, of four */
    im.n += n < 256 ? 7 : 10;
    add_message(&im, 2, 18); /* links: none in dense storage */
    add(&im, 0, 2);
    add(&im, UINT64_MAX, 8);
    add(&im, UINT64_MAX, 8);
    return im;
}

static void end(image *im)
{
    const int small = im->p[ROOT + 5] == 0;
    const uint64_t n = im->n - ROOT - (small ? 7 : 10), undefined = UINT64_MAX;
    memcpy(im->p + ROOT + 6, &n, small ? 1 : 4);
    add(im, pg__lookup3(im->p + ROOT, im->n - ROOT), 4);
    const uint64_t size = im->n, root = ROOT;
    memcpy(im->p, "\x89HDF\r\n\x1a\n\2\x08\x08", 11);
    memcpy(im->p + 20, &undefined, 8);
    memcpy(im->p + 28, &size, 8);
    memcpy(im->p + 36, &root, 8);
    const uint32_t sum = pg__lookup3(im->p, 44);
    memcpy(im->p + 44, &sum, 4);
}

static void opens_the_smallest_file(void **state)
{
    (void)state;
    image im = begin(22);
    end(&im);
    assert_int_equal(im.n, 81); /* the longest header prefix would not fit */
    pg__h5 *h = opened(im);
    assert_int_equal(pg__h5_n(h), 1);
    pg__h5_close(h);
    free(im.p);
}

/* n attributes called 00000, 00001 ... : one letter each. */
static image attributes(unsigned n)
{
    image im = begin((size_t)n * 40 + 22);
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%05x", i);
        add_message(&im, 0xC, 9 + 6 + 8 + 4 + 1);
        add(&im, 3, 2); /* version, flags */
        add(&im, 6, 2);
        add(&im, 8, 2);
        add(&im, 4, 2);
        add(&im, 0, 1);
        memcpy(im.p + im.n, name, 6);
        im.n += 6;
        add(&im, 0x13 | UINT64_C(1) << 32, 8); /* a string of one byte */
        add(&im, 2, 4);                        /* a scalar */
        add(&im, 'x', 1);
    }
    end(&im);
    return im;
}

static void reads_as_many_attributes_as_an_object_may_have(void **state)
{
    (void)state;
    const image im = attributes(PG_LIMIT_ATTRS);
    pg__h5 *h = opened(im);
    assert_int_equal(pg__h5_at(h, 0)->n_attrs, PG_LIMIT_ATTRS);
    assert_string_equal(pg__h5_attr_find(h, 0, "0ffff")->strs[0], "x");
    pg__h5_close(h);
    free(im.p);
    refused(attributes(PG_LIMIT_ATTRS + 1), "attributes", PG_E_LIMIT,
            "/: more than 65536 attributes");
}

static void refuses_a_header_of_too_many_messages(void **state)
{
    (void)state;
    const size_t n = PG_LIMIT_MESSAGES;
    image im = begin(4 * n + 22);
    for (size_t i = 0; i < n; i++)
        add_message(&im, 6, 0);
    end(&im);
    refused(im, "messages", PG_E_LIMIT, "/: more than 131072 messages");
}

static void refuses_a_name_beyond_its_limit_in_an_old_group(void **state)
{
    (void)state;
    for (size_t n = PG_LIMIT_NAME_BYTES; n <= PG_LIMIT_NAME_BYTES + 1; n++) {
        char *name = calloc(n + 1, 1);
        assert_non_null(name);
        memset(name, 'n', n);
        const hid_t f = image_begin(0);
        H5Gclose(image_group(f, name));
        const image im = image_end(f);
        if (n > PG_LIMIT_NAME_BYTES) {
            refused(im, "name", PG_E_LIMIT, "/: name of 65536 bytes");
        } else {
            pg__h5 *h = opened(im);
            assert_string_equal(pg__h5_at(h, 1)->name, name);
            pg__h5_close(h);
            free(im.p);
        }
        free(name);
    }
}

static void looks_for_a_signature_as_far_as_the_file_goes(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 600, 1024, 1028, 1032, 5000};
    static uint8_t zeros[5000];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pg__h5 *h = NULL;
        pg_err err = {0};
        assert_fails(PG_E_FORMAT, image_open(&h, (image){.p = zeros, .n = sizes[i]}, &err), &err);
        assert_string_equal(err.msg, "not an HDF5 file (no signature)");
    }
}

/* ---- one function each */

static pg__h5 *fresh(void)
{
    pg__h5 *h = NULL;
    pg__io *io = NULL;
    assert_ok(pg__io_open_mem(&io, "", 1, NULL));
    assert_ok(pg__h5_new(&h, io, NULL));
    pg__io_close(io);
    return h;
}

static void gives_no_memory_that_cannot_be(void **state)
{
    (void)state;
    pg__h5 *h = fresh();
    assert_null(pg__h5_take(h, SIZE_MAX));
    assert_null(pg__h5_take(h, SIZE_MAX / 2 + 1));
    assert_null(pg__h5_text(h, "", SIZE_MAX));
    assert_string_equal(pg__h5_text(h, "ab", 1), "a");
    pg__h5_close(h);
}

static void counts_objects_attributes_and_strings(void **state)
{
    (void)state;
    static const uint8_t text[] = {3, 0, 2, 0, 8, 0, 4, 0, 0, 'a', 0, 0x13,
                                   0, 0, 0, 1, 0, 0, 0, 2, 0, 0,   0, 'x'};
    pg_err err = {0};
    pg__h5 *h = fresh();
    pg__h5_cur c = {.p = text, .end = text + sizeof text};
    h->n_objs = PG_LIMIT_OBJECTS - 1;
    assert_ok(pg__h5_link_add(h, "a", 8, 0, NULL));
    assert_fails(PG_E_LIMIT, pg__h5_link_add(h, "b", 8, 0, &err), &err);
    assert_string_equal(err.msg, "more than 1000000 objects in the file");
    h->n_objs = 0;
    assert_fails(PG_E_FORMAT, pg__h5_link_add(h, "", 8, 0, &err), &err);
    h->n_attrs = PG_LIMIT_OBJECTS;
    assert_fails(PG_E_LIMIT, pg__h5_attr_add(h, &(pg__h5_attr){0}, &err), &err);
    h->n_attrs = 0;
    h->walk->n_strings = PG_LIMIT_STRINGS - 1;
    assert_ok(pg__h5_attr_read(h, &c, NULL));
    c.p = text;
    assert_fails(PG_E_LIMIT, pg__h5_attr_read(h, &c, &err), &err);
    assert_non_null(strstr(err.msg, "more than 5000000 strings"));
    pg__h5_close(h);
}

static void refuses_a_string_beyond_its_limit(void **state)
{
    (void)state;
    const uint64_t most = PG_LIMIT_ATTR_BYTES;
    const char *text = NULL;
    pg_err err = {0};
    pg__h5 *h = fresh();
    pg__h5_walk *w = h->walk;
    assert_int_equal(pg__mem_grow(&w->gobjs, &w->cap_gobjs, 1, sizeof *w->gobjs), 0);
    w->gobjs[w->n_gobjs++] = (pg__h5_gobj){.index = 1, .n = most + 1};
    assert_ok(pg__h5_map_put(&w->heaps, 8 + 1, 1, NULL)); /* a collection at 8: one object */
    assert_fails(PG_E_LIMIT, pg__h5_gheap_text(h, 8, 1, most + 1, &text, &err), &err);
    w->gobjs[0].n = most;
    assert_fails(PG_E_FORMAT, pg__h5_gheap_text(h, 8, 1, most, &text, &err), &err);
    pg__h5_close(h);
}

static void strips_the_padding_of_fixed_strings_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        size_t n;
        int pad;
        size_t len;
    } cases[] = {{"ab\0c", 4, 0, 2}, {"abcd", 4, 0, 4},   {"a\0b\0", 4, 1, 3}, {"ab  ", 4, 1, 4},
                 {"\0\0", 2, 1, 0},  {"ab\0\0", 4, 2, 4}, {"a b ", 4, 2, 3},   {"", 0, 2, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(pg__h5_fixed_len(cases[i].s, cases[i].n, cases[i].pad), cases[i].len);
    assert_int_equal(pg__h5_fixed_len(&"x    "[2], 3, 2), 0);
    assert_int_equal(pg__h5_fixed_len(&"x\0\0\0"[2], 2, 1), 0);
}

PG_TEST_MAIN(cmocka_unit_test(opens_the_smallest_file),
             cmocka_unit_test(reads_as_many_attributes_as_an_object_may_have),
             cmocka_unit_test(refuses_a_header_of_too_many_messages),
             cmocka_unit_test(refuses_a_name_beyond_its_limit_in_an_old_group),
             cmocka_unit_test(looks_for_a_signature_as_far_as_the_file_goes),
             cmocka_unit_test(gives_no_memory_that_cannot_be),
             cmocka_unit_test(counts_objects_attributes_and_strings),
             cmocka_unit_test(refuses_a_string_beyond_its_limit),
             cmocka_unit_test(strips_the_padding_of_fixed_strings_and_nothing_else))
