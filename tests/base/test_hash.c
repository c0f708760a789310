#include "pg_test.h"

#include <zlib.h>

#include "base/hash.h"

static void crc32_is_zlibs(void **state)
{
    (void)state;
    assert_int_equal(pg__crc32(0, "123456789", 9), 0xCBF43926);
    assert_int_equal(pg__crc32(pg__crc32(0, "1234", 4), "56789", 5), 0xCBF43926);
}

/* Every way, every length up to several of the widest blocks, every alignment in a line of memory.
 */
static void crc32_of_any_piece_is_zlibs(void **state)
{
    (void)state;
    static unsigned char data[1400 + 64] __attribute__((aligned(64)));
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    for (size_t at = 0; at < 64; at++)
        for (size_t n = 0; n < 1400; n++) {
            const uint32_t want = (uint32_t)crc32(x + (uint32_t)n, data + at, (uInt)n);
            for (pg__crc_way way = PG_CRC_ZLIB; way <= pg__crc32_best(); way++)
                if (pg__crc32_by(way, x + (uint32_t)n, data + at, n) != want)
                    fail_msg("way %d, %zu bytes at %zu", (int)way, n, at);
        }
}

/* What is read in pieces: one sum carried from piece to piece, whatever their lengths. */
static void crc32_goes_on_over_pieces(void **state)
{
    (void)state;
    static unsigned char data[100000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    for (pg__crc_way way = PG_CRC_ZLIB; way <= pg__crc32_best(); way++) {
        uint32_t crc = 0;
        for (size_t at = 0, n; at < sizeof data; at += n) {
            n = (x = x * 1664525u + 1013904223u) >> 19;
            n = n < sizeof data - at ? n : sizeof data - at;
            crc = pg__crc32_by(way, crc, data + at, n);
        }
        assert_int_equal(crc, crc32(0, data, (uInt)sizeof data));
    }
}

static void crc32_of_nothing_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(pg__crc32(0xCBF43926, NULL, 0), 0xCBF43926);
}

/* Of Python's xxhash package: the first n bytes of the sequence of crc32_of_any_piece_is_zlibs().
 */
static void xxh64_is_that_of_xxhash_for_every_kind_of_length(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        uint64_t want;
    } cases[] = {
        {0, 0xef46db3751d8e999u},   {1, 0x022545933f06bf0du},   {3, 0x08df8be3658d3d95u},
        {4, 0x66ffdb81913d4b3cu},   {5, 0x155999826e5e82fau},   {7, 0x3a7521b97b54a753u},
        {8, 0x30390231aefd6920u},   {12, 0x7785b51a6e0fb9b6u},  {15, 0xdf323f16c5619a7du},
        {31, 0xbba9bb8f08be8004u},  {32, 0x6731790492a9ab1du},  {33, 0x2b0818f11e757ca4u},
        {36, 0xda7870c6d73d0853u},  {40, 0x69c5d735863c422cu},  {47, 0x77f2f3735ab24261u},
        {63, 0x24e278e001a2a067u},  {64, 0x42b3282701cfbc28u},  {65, 0xbd6c1292a55d4ae9u},
        {95, 0x040f249d0452b479u},  {100, 0x32136076cca5109eu}, {128, 0x044fe4fd8444eea4u},
        {255, 0xfe73dadb3dfd5a83u}, {999, 0x8dc177730d53d2f1u}, {1000, 0xf6603b6e7395f667u},
    };
    static unsigned char data[1000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t step = 1; step <= 70; step++) { /* in pieces of that many bytes, or whole */
            const size_t each = step == 70 ? sizeof data : step;
            pg__xxh64 h;
            pg__xxh64_start(&h);
            for (size_t at = 0; at < cases[k].n; at += each)
                pg__xxh64_add(&h, data + at, each < cases[k].n - at ? each : cases[k].n - at);
            if (pg__xxh64_end(&h) != cases[k].want)
                fail_msg("%zu bytes in pieces of %zu", cases[k].n, each);
        }
}

static void crc32c_agrees_with_its_rfc(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(pg__crc32c(0, "", 0), 0);
    assert_int_equal(pg__crc32c(0, "123456789", 9), 0xE3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(pg__crc32c(0, bytes, sizeof bytes), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(pg__crc32c(0, bytes, sizeof bytes), 0x62A8AB43);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(pg__crc32c(0, bytes, sizeof bytes), 0x46DD794E);
}

static void lookup3_agrees_with_its_authors_examples(void **state)
{
    (void)state;
    assert_int_equal(pg__lookup3("", 0), 0xDEADBEEF);
    assert_int_equal(pg__lookup3("Four score and seven years ago", 30), 0x17770551);
}

static void fletcher32_sums_big_endian_words(void **state)
{
    (void)state;
    assert_int_equal(pg__fletcher32("\0\1\0\2", 4), 4u << 16 | 3);
    assert_int_equal(pg__fletcher32("\0\1\2", 3), (1u + 0x201) << 16 | 0x201);
}

PG_TEST_MAIN(cmocka_unit_test(crc32_is_zlibs), cmocka_unit_test(crc32_of_any_piece_is_zlibs),
             cmocka_unit_test(crc32_goes_on_over_pieces),
             cmocka_unit_test(crc32_of_nothing_changes_nothing),
             cmocka_unit_test(xxh64_is_that_of_xxhash_for_every_kind_of_length),
             cmocka_unit_test(crc32c_agrees_with_its_rfc),
             cmocka_unit_test(lookup3_agrees_with_its_authors_examples),
             cmocka_unit_test(fletcher32_sums_big_endian_words))
