/* The strict reader before damaged files: those of libhdf5 with a few bytes changed. Each check of
 * the reader has its line here. */
#include "pg_test.h"

#include "base/hash.h"
#include "format/h5_image.h"

static uint64_t get(image im, uint64_t at, unsigned n)
{
    uint64_t v = 0;
    assert_true(at + n <= im.n);
    memcpy(&v, im.p + at, n);
    return v;
}

static void put(image im, uint64_t at, unsigned n, uint64_t v)
{
    assert_true(at + n <= im.n);
    memcpy(im.p + at, &v, n);
}

/* Where the nth signature is. */
static uint64_t sig(image im, const char *text, int nth)
{
    const uint8_t *p = im.p;
    for (;; p++) {
        p = memmem(p, im.n - (size_t)(p - im.p), text, 4);
        assert_non_null(p);
        if (nth-- == 0)
            return (uint64_t)(p - im.p);
    }
}

/* Where the nth B-tree node of a type and level is. */
static uint64_t tree(image im, unsigned type, unsigned level, int nth)
{
    for (int i = 0;; i++) {
        const uint64_t at = sig(im, "TREE", i);
        if (get(im, at + 4, 1) == type && get(im, at + 5, 1) == level && nth-- == 0)
            return at;
    }
}

/* Address of an object's header. */
static uint64_t header(image im, const char *path)
{
    pg__h5 *h = opened(im);
    const uint32_t obj = *path ? pg__h5_find(h, 0, path) : 0;
    assert_int_not_equal(obj, PG_H5_NONE);
    const uint64_t addr = pg__h5_at(h, obj)->addr;
    pg__h5_close(h);
    return addr;
}

/* The message of a version 1 header, its own head of 8 bytes; name: of an attribute, or NULL. */
static uint64_t named(image im, const char *path, unsigned type, const char *name)
{
    uint64_t at = header(im, path) + 16, end = at + get(im, at - 8, 4), next = 0, next_end = 0;
    while (at < end &&
           (get(im, at, 2) != type || (name && strcmp((const char *)im.p + at + 16, name) != 0))) {
        if (get(im, at, 2) == 0x10) { /* continued there */
            next = get(im, at + 8, 8);
            next_end = next + get(im, at + 16, 8);
        }
        at += 8 + get(im, at + 2, 2);
        if (at == end) {
            at = next;
            end = next_end;
            next = next_end = 0;
        }
    }
    assert_true(at < end);
    return at;
}

static uint64_t msg(image im, const char *path, unsigned type)
{
    return named(im, path, type, NULL);
}

/* The datatype of an attribute of a version 1 header. */
static uint64_t type_of(image im, const char *path, const char *name)
{
    return named(im, path, 0xC, name) + 16 + (strlen(name) + 8) / 8 * 8;
}

/* Gives the last 8 bytes of a message to a new, empty one. */
static void shorten(image im, const char *path, unsigned type)
{
    const uint64_t head = header(im, path), at = msg(im, path, type);
    const uint64_t n = get(im, at + 2, 2) - 8;
    put(im, at + 2, 2, n);
    put(im, at + 8 + n, 8, 0);
    put(im, head + 2, 2, get(im, head + 2, 2) + 1);
}

/* A version 2 header: its first block, and its continuation if it has one. */
typedef struct header2 {
    uint64_t head, first, end, more, n_more; /* first: message; end: checksum */
    unsigned skip;                           /* bytes before a message's body */
} header2;

static header2 parse2_at(image im, uint64_t head)
{
    header2 h = {.head = head};
    const unsigned flags = (unsigned)get(im, h.head + 5, 1), width = 1u << (flags & 3);
    const uint64_t at = h.head + 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
    h.first = at + width;
    h.end = h.first + get(im, at, width);
    h.skip = flags & 4 ? 6 : 4;
    for (uint64_t m = h.first; m + h.skip <= h.end; m += h.skip + get(im, m + 1, 2))
        if (get(im, m, 1) == 0x10) {
            h.more = get(im, m + h.skip, 8);
            h.n_more = get(im, m + h.skip + 8, 8);
        }
    return h;
}

static header2 parse2(image im, const char *path)
{
    return parse2_at(im, header(im, path));
}

/* Body of the nth message of a type, in the first block. */
static uint64_t body(image im, const header2 *h, unsigned type, int nth)
{
    uint64_t m = h->first;
    while (m < h->end && (get(im, m, 1) != type || nth-- > 0))
        m += h->skip + get(im, m + 1, 2);
    assert_true(m < h->end);
    return m + h->skip;
}

static void seal(image im, const header2 *h)
{
    put(im, h->end, 4, pg__lookup3(im.p + h->head, (size_t)(h->end - h->head)));
    if (h->n_more)
        put(im, h->more + h->n_more - 4, 4, pg__lookup3(im.p + h->more, (size_t)h->n_more - 4));
}

/* Changes a message of a version 2 header, its checksum too. rel -4: the message's type. */
static void put2(image im, const char *path, unsigned type, int nth, int rel, unsigned n,
                 uint64_t v)
{
    const header2 h = parse2(im, path);
    put(im, body(im, &h, type, nth) + (uint64_t)(int64_t)rel, n, v);
    seal(im, &h);
}

/* Leaves n bytes of a message of a version 2 header; what follows moves up, before empty messages.
 */
static void cut2(image im, const char *path, unsigned type, uint64_t n)
{
    const header2 h = parse2(im, path);
    const uint64_t at = body(im, &h, type, 0), n_old = get(im, at - h.skip + 1, 2);
    assert_true(n < n_old);
    put(im, at - h.skip + 1, 2, n);
    memmove(im.p + at + n, im.p + at + n_old, (size_t)(h.end - at - n_old));
    memset(im.p + h.end - (n_old - n), 0, (size_t)(n_old - n));
    seal(im, &h);
}

/* The size of a version 2 header becomes one of eight bytes. */
static void widen2(image im, const char *path, uint64_t size)
{
    const header2 h = parse2(im, path);
    const unsigned flags = (unsigned)get(im, h.head + 5, 1);
    put(im, h.head + 5, 1, flags | 3);
    put(im, h.first - (1u << (flags & 3)), 8, size);
}

/* Changes a superblock of version 2, its checksum too. */
static void put_super(image im, uint64_t at, unsigned n, uint64_t v)
{
    put(im, at, n, v);
    put(im, 44, 4, pg__lookup3(im.p, 44));
}

/* Where the first variable-length string points to: length before it, index behind. */
static uint64_t pointer(image im)
{
    const uint64_t gcol = sig(im, "GCOL", 0);
    const uint8_t *p = memmem(im.p, im.n, &gcol, 8);
    assert_non_null(p);
    return (uint64_t)(p - im.p);
}

/* Changes a byte of a version 2 header's prefix (rel < 6), or of its continuation. */
static void put2_at(image im, const char *path, int more, unsigned rel, unsigned v, int sealed)
{
    const header2 h = parse2(im, path);
    assert_true(!more || h.n_more);
    put(im, (more ? h.more : h.head) + rel, 1, v);
    if (sealed)
        seal(im, &h);
}

enum {
    SPACE = 1,
    LINKINFO = 2,
    TYPE = 3,
    FILL = 5,
    LINK = 6,
    LAYOUT = 8,
    GROUPINFO = 0xA,
    FILTER = 0xB,
    ATTR = 0xC,
    COMMENT = 0xD,
    CONT = 0x10,
    STAB = 0x11,
    TIME = 0x12,
    ATTRINFO = 0x15
};

/* Values of a type that is not read: complex numbers. */
static void unread(image im, const char *path)
{
    put(im, msg(im, path, TYPE) + 8, 1, 0x5B);
}

/* "g/c", of two values now, as HDF5 before 1.6 stored it: n bytes in its header. */
static void compact_old(image im, unsigned rank, unsigned n)
{
    const uint64_t space = msg(im, "g/c", SPACE), layout = msg(im, "g/c", LAYOUT) + 8;
    put(im, space + 10, 1, 0); /* without a maximum */
    put(im, space + 16, 8, 2);
    put(im, layout, 8, 2u | rank << 8);
    put(im, layout + 8, 4, 2);
    put(im, layout + 12, 4, n);
}

/* ---- the files that are damaged, besides keras() */

/* Old layout: an attribute of every type on "g", chunks and filters in "g/d", a fill value. */
static image values(void)
{
    const char *texts[] = {"one", "two"};
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t b = H5Tenum_create(H5T_STD_I8LE), o = H5Tcreate(H5T_OPAQUE, 2);
    const hid_t s = image_string(5, 0, 1), v = image_string(H5T_VARIABLE, 0, 0);
    H5Tenum_insert(b, "FALSE", &(int8_t){0});
    H5Tenum_insert(b, "TRUE", &(int8_t){1});
    H5Tset_tag(o, "");
    H5Pset_chunk(dcpl, 2, (hsize_t[]){3, 2});
    H5Pset_shuffle(dcpl);
    H5Pset_deflate(dcpl, 6);
    H5Pset_fletcher32(dcpl);
    H5Pset_fill_value(dcpl, H5T_STD_I32LE, &(int){7});
    image_dataset(f, "g/d", H5T_STD_I32LE, 2, (hsize_t[]){7, 5}, dcpl, 1);
    H5Pclose(dcpl);
    const hid_t compact = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(compact, H5D_COMPACT);
    image_dataset(f, "g/c", H5T_STD_I32LE, 1, (hsize_t[]){5}, compact, 1);
    H5Pclose(compact);
    image_attr(f, "g", "flag", b, 2, "\0\1");
    image_attr(f, "g", "brain", o, 2, "\x80\x3f\0\0");
    image_attr(f, "g", "whole", H5T_STD_I32LE, 2, "12345678");
    image_attr(f, "g", "real", H5T_IEEE_F32LE, 2, "12345678");
    image_attr(f, "g", "text", s, 2, "firstsecnd");
    image_attr(f, "g", "vlen", v, 2, texts);
    H5Oset_comment_by_name(f, "g", "a comment", H5P_DEFAULT);
    H5Tclose(b);
    H5Tclose(o);
    H5Tclose(s);
    H5Tclose(v);
    return image_end(f);
}

/* New layout: "g" has links a, b and attributes in a continuation; "o" keeps creation order. */
static image newer(void)
{
    const hid_t f = image_begin(1), gcpl = H5Pcreate(H5P_GROUP_CREATE);
    image_dataset(f, "g/a", H5T_STD_I32LE, 2, (hsize_t[]){2, 3}, H5P_DEFAULT, 1);
    H5Gclose(image_group(f, "g/b"));
    for (int i = 0; i < 7; i++) {
        char name[40];
        snprintf(name, sizeof name, "attribute with a long name, %d", i);
        image_attr(f, "g", name, H5T_STD_I32LE, -1, &i);
    }
    H5Pset_link_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Gclose(H5Gcreate2(f, "o", H5P_DEFAULT, gcpl, H5P_DEFAULT));
    image_attr(f, "o", "x", H5T_STD_I32LE, -1, &(int){1});
    H5Pclose(gcpl);
    return image_end(f);
}

/* A group with two levels of B-tree nodes, in a superblock of version 1. */
static image large(void)
{
    char path[40];
    const hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_istore_k(fcpl, 16);
    H5Pset_sym_k(fcpl, 2, 2);
    const hid_t f = image_begin_with(fcpl, 0);
    H5Pclose(fcpl);
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "big/%02d", i);
        H5Gclose(image_group(f, path));
    }
    return image_end(f);
}

/* What HDF5 1.8 writes: chunks with filters in "d", an empty compact dataset "c". */
static image eighteen(void)
{
    const hid_t f = image_begin_18(), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){4});
    H5Pset_shuffle(dcpl);
    H5Pset_deflate(dcpl, 6);
    image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){12}, dcpl, 1);
    H5Pclose(dcpl);
    const hid_t compact = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(compact, H5D_COMPACT);
    image_dataset(f, "c", H5T_STD_I32LE, 1, (hsize_t[]){0}, compact, 1);
    H5Pclose(compact);
    return image_end(f);
}

/* Filters behind the checksum. */
static image turned(void)
{
    const hid_t f = image_begin(0), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 2, (hsize_t[]){3, 2});
    H5Pset_fletcher32(dcpl);
    H5Pset_deflate(dcpl, 6);
    image_dataset(f, "d", H5T_STD_I32LE, 2, (hsize_t[]){7, 5}, dcpl, 1);
    H5Pclose(dcpl);
    return image_end(f);
}

/* A chunk index of HDF5 1.10. */
static image indexed(void)
{
    const hid_t f = image_begin(1), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, (hsize_t[]){4});
    image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){12}, dcpl, 1);
    H5Pclose(dcpl);
    return image_end(f);
}

/* One string of 5,001 letters. */
static image novel(void)
{
    static char letters[5002];
    const char *text = memset(letters, 'x', sizeof letters - 1);
    const hid_t f = image_begin(0), vlen = image_string(H5T_VARIABLE, 0, 0);
    image_attr(f, "/", "novel", vlen, -1, &text);
    H5Tclose(vlen);
    return image_end(f);
}

/* "g" has the links b and c and one whose name is 200 times the letter a. */
static image repeated(void)
{
    char path[203] = "g/";
    const hid_t f = image_begin(0);
    memset(path + 2, 'a', 200);
    H5Gclose(image_group(f, path));
    H5Gclose(image_group(f, "g/b"));
    H5Gclose(image_group(f, "g/c"));
    return image_end(f);
}

/* All names become ends of the long one: 198, 199 and 200 letters in the space of one name. */
static void share_names(image im)
{
    const uint64_t node = get(im, get(im, msg(im, "g", STAB) + 8, 8) + 32, 8);
    const uint64_t name = get(im, node + 8, 8);
    put(im, get(im, msg(im, "g", STAB) + 8, 8) + 40, 8, get(im, node + 8 + 80, 8));
    for (uint64_t i = 0; i < 3; i++)
        put(im, node + 8 + 40 * i, 8, name + 2 - i);
}

/* The last entry of the first inner node of large(): its last key becomes the name of the first
 * link below it, so that the child's own last key lies beyond. */
static void lower_last_key(image im)
{
    const uint64_t root = tree(im, 0, 1, 0), n = get(im, root + 6, 2), last = root + 24 + 16 * n;
    const uint64_t child = get(im, last - 8, 8), leaf = get(im, child + 32, 8);
    put(im, last, 8, get(im, leaf + 8, 8));
}

/* The second child of the inner node of large() no longer begins where its own first key is. */
static void raise_first_key(image im)
{
    const uint64_t key = tree(im, 0, 1, 0) + 24 + 16, leaf = get(im, get(im, key + 8, 8) + 32, 8);
    put(im, key, 8, get(im, leaf + 8, 8));
}

/* The kind of the chunk index in the second header. */
static void set_index(image im, unsigned kind)
{
    const header2 h = parse2_at(im, sig(im, "OHDR", 1));
    const uint64_t at = body(im, &h, LAYOUT, 0);
    put(im, at + 5 + get(im, at + 3, 1) * get(im, at + 4, 1), 1, kind);
    seal(im, &h);
}

/* Two groups have one B-tree, but heaps of their own. */
static void share_tree(image im)
{
    const uint64_t a = msg(im, "dense/dense", STAB) + 8, b = msg(im, "dense_1/dense_1", STAB) + 8;
    put(im, b, 8, get(im, a, 8));
}

/* The last byte of a group's names is the beginning of one, which does not end. */
static void open_last_name(image im)
{
    const uint64_t stab = msg(im, "dense", STAB) + 8, heap = get(im, stab + 8, 8);
    const uint64_t n = get(im, heap + 8, 8), node = get(im, get(im, stab, 8) + 32, 8);
    put(im, get(im, heap + 24, 8) + n - 1, 1, 'x');
    put(im, node + 8, 8, n - 1);
}

#define DAMAGE(file, label, code, words, ...) \
    static void label(image im)               \
    {                                         \
        __VA_ARGS__;                          \
    }
#include "format/h5_damage.def"
#undef DAMAGE

#define PG_E_PASSED PG_OK

static const struct {
    const char *label;
    image (*file)(void);
    void (*change)(image im);
    pg_status code;
    const char *words;
} damages[] = {
#define DAMAGE(file, label, code, words, ...) {#label, file, label, PG_E_##code, words},
#include "format/h5_damage.def"
#undef DAMAGE
};

/* The words are in the message, at its start if they begin with ^; who has a part of a file is told
 * to get the rest. */
static int says(const pg_err *err, const char *words)
{
    const int truncated = strncmp(err->msg, "truncated", 9) == 0;
    const int hinted = strstr(err->hint, "download or copy it again") != NULL;
    if (truncated != hinted)
        return 0;
    return *words == '^' ? strncmp(err->msg, words + 1, strlen(words + 1)) == 0
                         : strstr(err->msg, words) != NULL;
}

/* The one value that is not read is `name`. */
static int passed_over(const pg__h5 *h, const char *name)
{
    const char *names[PG_H5_UNREAD];
    return pg__h5_unread(h, names) == 1 && strcmp(names[0], name) == 0;
}

static void names_what_is_damaged(void **state)
{
    (void)state;
    size_t n_wrong = 0;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const image im = damages[i].file();
        pg__h5 *h = NULL;
        pg_err err = {0};
        damages[i].change(im);
        const pg_status st = image_open(&h, im, &err);
        if (st != damages[i].code ||
            !(st == PG_OK ? passed_over(h, damages[i].words) : says(&err, damages[i].words))) {
            print_error("%s: %s (%s), not %s (...%s...)\n", damages[i].label, pg_status_name(st),
                        err.msg, pg_status_name(damages[i].code), damages[i].words);
            n_wrong++;
        }
        pg__h5_close(h);
        free(im.p);
    }
    assert_int_equal(n_wrong, 0);
}

static void notices_every_changed_byte_under_a_checksum(void **state)
{
    (void)state;
    const hid_t f = image_begin(1);
    image_dataset(f, "d", H5T_STD_I32LE, 1, (hsize_t[]){3}, H5P_DEFAULT, 1);
    const image im = image_end(f);
    const uint64_t first = sig(im, "OHDR", 0);
    refused((image){.p = memcpy(malloc(im.n), im.p, im.n), .n = im.n - 1}, "cut", PG_E_FORMAT,
            "truncated: holds ");
    for (uint64_t i = 8; i < first + 40; i++) {
        pg__h5 *h = NULL;
        if (i >= 48 && i < first)
            continue;
        im.p[i] ^= 0x10;
        assert_int_not_equal(image_open(&h, im, NULL), PG_OK);
        im.p[i] ^= 0x10;
    }
    free(im.p);
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    static image (*const files[])(void) = {keras, newer, large};
    for (size_t i = 0; i < 3; i++) {
        const image im = files[i]();
        for (size_t n = 0; n < im.n; n += n < 200 ? 1 : 13) {
            pg_err err = {0};
            pg__h5 *h = NULL;
            uint8_t *copy = malloc(n ? n : 1); /* exact, so that a step too far is seen */
            memcpy(copy, im.p, n);
            assert_fails(PG_E_FORMAT, image_open(&h, (image){.p = copy, .n = n}, &err), &err);
            assert_non_null(strstr(err.msg, n < 8 ? "not an HDF5 file" : "truncated: "));
            if (n >= 100)
                assert_non_null(strstr(err.hint, "download or copy it again"));
            free(copy);
        }
        free(im.p);
    }
}

/* Whatever byte is wrong: an answer, and the data of what opens can be asked for. */
static void answers_whatever_byte_is_changed(void **state)
{
    (void)state;
    static const uint8_t masks[] = {0xFF, 0x01, 0x80};
    static image (*const files[])(void) = {keras, values};
    for (size_t which = 0; which < 2; which++) {
        const image im = files[which]();
        for (size_t i = 0; i < im.n; i++)
            for (size_t m = 0; m < sizeof masks; m++) {
                pg_err err = {0};
                pg__h5 *h = NULL;
                char got[256];
                im.p[i] ^= masks[m];
                if (image_open(&h, im, &err) != PG_OK)
                    assert_true(err.msg[0] != 0);
                for (uint32_t k = 0; h && k < pg__h5_n(h); k++)
                    if (pg__h5_at(h, k)->kind == PG_H5_DATASET &&
                        pg__h5_at(h, k)->n_bytes <= sizeof got &&
                        pg__h5_read(h, k, 0, got, (size_t)pg__h5_at(h, k)->n_bytes, &err) != PG_OK)
                        assert_false(pg__h5_at(h, k)->contiguous);
                pg__h5_close(h);
                im.p[i] ^= masks[m];
            }
        free(im.p);
    }
}

/* A reserved byte, and an argument of a filter that looks at none. */
static void takes_no_offence_at_what_is_legal(void **state)
{
    (void)state;
    const image im = keras();
    put(im, msg(im, KERNEL, SPACE) + 11, 1, 2);
    pg__h5 *h = opened(im);
    assert_int_equal(pg__h5_at(h, pg__h5_find(h, 0, KERNEL))->rank, 2);
    pg__h5_close(h);
    free(im.p);
    for (uint8_t n_args = 1; n_args <= 2; n_args++) {
        const image other = turned();
        int32_t got[35];
        uint8_t *p = memmem(other.p, other.n, "fletcher32", 11);
        assert_non_null(p);
        p[-6] = 8; /* what was the end of the name, "32", is an argument now, or two */
        p[-2] = n_args;
        h = opened(other);
        assert_ok(pg__h5_read(h, 1, 0, got, sizeof got, NULL));
        assert_int_equal(got[34], 34);
        pg__h5_close(h);
        free(other.p);
    }
}

PG_TEST_MAIN(cmocka_unit_test(names_what_is_damaged),
             cmocka_unit_test(takes_no_offence_at_what_is_legal),
             cmocka_unit_test(notices_every_changed_byte_under_a_checksum),
             cmocka_unit_test(refuses_every_truncation),
             cmocka_unit_test(answers_whatever_byte_is_changed))
