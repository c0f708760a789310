/* Tests of base/sha256.c against FIPS 180-4's examples (NIST, SHA256.pdf and SHA2_Additional.pdf). */
#include "pg_test.h"

#include <string.h>

#include "base/sha256.h"

static void hash_of(char out[65], const char *p, size_t n, size_t step)
{
    pg__sha256 s;
    pg__sha256_init(&s);
    for (size_t at = 0; at < n; at += step)
        pg__sha256_add(&s, p + at, n - at < step ? n - at : step);
    pg__sha256_hex(&s, out);
}

static void gives_the_published_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[65];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        hash_of(hex, known[i].text, strlen(known[i].text), 1000);
        assert_string_equal(hex, known[i].hex);
    }
}

static void hashes_a_million_letters_in_any_steps(void **state)
{
    (void)state;
    static char text[1000000];
    static const size_t steps[] = {1, 63, 64, 65, 4096, sizeof text};
    char hex[65];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        hash_of(hex, text, sizeof text, steps[i]);
        assert_string_equal(hex,
                            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

static void pads_every_length_differently(void **state)
{
    (void)state;
    char last[65] = "", hex[65], text[200] = {0};
    for (size_t n = 0; n < sizeof text; n++) {
        hash_of(hex, text, n, 7);
        assert_string_not_equal(hex, last);
        memcpy(last, hex, sizeof last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_published_values),
        cmocka_unit_test(hashes_a_million_letters_in_any_steps),
        cmocka_unit_test(pads_every_length_differently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
